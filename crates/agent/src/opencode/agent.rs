//! A server as the agent of a chat: what [`progress`](crate::progress) needs of it.

use serde::Deserialize;

use super::server::{Api, Events, Prompt, Server};
use crate::progress::{Agent, AgentEvent, AgentEvents, AgentPart, Asking, ToolStatus};
use crate::question::{Choice, Question, QuestionRequest};
use ttsr::harness::Failure;
use ttsr::harness::unfold;
use ttsr::{Channel, Event, PartId};
use ttsr_wire::opencode::{Notice, Stage, ToolState};

impl Agent for Server {
    fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
        Box::pin(async {
            let events = self.events().await.map_err(words)?;
            let heard = Heard {
                events,
                api: self.api(),
                writing: Vec::new(),
                queued: None,
            };
            let heard: AgentEvents = unfold(heard, |mut heard: Heard| async move {
                if let Some(event) = heard.queued.take() {
                    return Some((event, heard));
                }
                loop {
                    // Whether it was closed or broke off: what there is, is the reply.
                    let (session, notice) = heard.events.next().await.ok()??;
                    if let Some(event) = heard.take(session, notice) {
                        return Some((event, heard));
                    }
                }
            });
            Ok(heard)
        })
    }

    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> Asking<'a, ()> {
        let prompt = Prompt::new(text);
        Box::pin(async move { Server::prompt(self, session, &prompt).await.map_err(words) })
    }

    fn abort<'a>(&'a mut self, session: &'a str) -> Asking<'a, ()> {
        Box::pin(async move { Server::abort(self, session).await.map_err(words) })
    }

    fn answer<'a>(&'a mut self, request: &'a str, answers: Vec<Vec<String>>) -> Asking<'a, ()> {
        Box::pin(async move { Server::answer(self, request, &answers).await.map_err(words) })
    }

    fn reject<'a>(&'a mut self, request: &'a str) -> Asking<'a, ()> {
        Box::pin(async move { Server::reject(self, request).await.map_err(words) })
    }
}

fn words(failure: Failure) -> String {
    failure.to_string()
}

/// Most sessions whose message is known at once; past it the one that was quiet for longest is forgotten.
const SESSIONS: usize = 1024;

struct Heard {
    events: Events,
    api: Api,
    /// What is being written in each session. The one that spoke last comes last.
    writing: Vec<Writing>,
    /// The second event of a notice that means two.
    queued: Option<AgentEvent>,
}

struct Writing {
    session: String,
    message: String,
    parts: Vec<(PartId, Channel)>,
}

impl Writing {
    fn channel(&self, part: PartId) -> Option<Channel> {
        let known = self.parts.iter().find(|(known, _)| *known == part);
        known.map(|(_, channel)| *channel)
    }

    /// The name of a part: messages number theirs from 0.
    fn part(&self, part: PartId) -> String {
        format!("{}/{}", self.message, part.0)
    }
}

impl Heard {
    fn take(&mut self, session: String, notice: Notice) -> Option<AgentEvent> {
        Some(match notice {
            Notice::Prompt { message, .. } => AgentEvent::Message {
                session,
                message,
                is_user: true,
            },
            Notice::Message(message) => {
                self.writing.retain(|known| known.session != session);
                if self.writing.len() >= SESSIONS {
                    self.writing.remove(0);
                }
                self.writing.push(Writing {
                    session: session.clone(),
                    message: message.clone(),
                    parts: Vec::new(),
                });
                AgentEvent::Message {
                    session,
                    message,
                    is_user: false,
                }
            }
            Notice::Tool(state) => {
                let message = self.writing(&session)?.message.clone();
                AgentEvent::Part {
                    part: format!("{message}/{}", state.call),
                    session,
                    message,
                    content: tool(state),
                }
            }
            Notice::Question { id, questions } => AgentEvent::Question {
                session,
                request: question(id, &questions),
            },
            Notice::Idle => AgentEvent::Idle { session },
            Notice::Event(event) => return self.event(session, event),
            Notice::QuestionClosed(request) => AgentEvent::QuestionClosed { session, request },
            _ => return None,
        })
    }

    fn event(&mut self, session: String, event: Event) -> Option<AgentEvent> {
        match event {
            Event::PartStart { part, channel, .. } => {
                let writing = self.writing(&session)?;
                writing.parts.retain(|(known, _)| *known != part);
                writing.parts.push((part, channel));
                let content = match channel {
                    Channel::Text => AgentPart::Text(String::new()),
                    Channel::Reasoning => AgentPart::Reasoning,
                    _ => AgentPart::Other,
                };
                self.part(session, part, content)
            }
            Event::Delta { part, bytes } => {
                let writing = self.writing(&session)?;
                let is_written = writing.channel(part) != Some(Channel::ToolInput);
                is_written.then(|| AgentEvent::Delta {
                    message: writing.message.clone(),
                    part: writing.part(part),
                    session,
                    field: "text".to_owned(),
                    delta: String::from_utf8_lossy(&bytes).into_owned(),
                })
            }
            // The server may have it otherwise by now.
            Event::Snapshot { part, bytes } => {
                let is_text = self.writing(&session)?.channel(part) == Some(Channel::Text);
                let text = String::from_utf8_lossy(&bytes).into_owned();
                let shown = is_text.then_some(AgentPart::Text(text))?;
                self.part(session, part, shown)
            }
            Event::Error { kind, message } => Some(AgentEvent::Failed {
                session,
                is_abort: false,
                message: Failure::new(kind, message).to_string(),
            }),
            Event::Finish { reason } => self.finish(session, &reason),
            _ => None,
        }
    }

    fn part(&mut self, session: String, part: PartId, content: AgentPart) -> Option<AgentEvent> {
        let writing = self.writing(&session)?;
        Some(AgentEvent::Part {
            message: writing.message.clone(),
            part: writing.part(part),
            session,
            content,
        })
    }

    /// The classic interface says when a session is idle. The second one does not: there a reply is the last
    /// one if it calls no tool.
    fn finish(&mut self, session: String, reason: &str) -> Option<AgentEvent> {
        if reason == "aborted" {
            return Some(AgentEvent::Failed {
                session,
                is_abort: true,
                message: reason.to_owned(),
            });
        }
        if matches!(reason, "tool-calls" | "retry" | "error" | "truncated") {
            return None;
        }
        let idle = || AgentEvent::Idle {
            session: session.clone(),
        };
        let idle = (self.api == Api::Next).then(idle);
        let Some(writing) = self.writing(&session) else {
            return idle;
        };
        let message = writing.message.clone();
        self.queued = idle;
        Some(AgentEvent::Stopped {
            session,
            message,
            reason: reason.to_owned(),
        })
    }

    fn writing(&mut self, session: &str) -> Option<&mut Writing> {
        self.writing
            .iter_mut()
            .rfind(|known| known.session == session)
    }
}

/// A call that runs always has a title here, for there is a note only where there is one: servers give theirs
/// when it is over.
fn tool(state: ToolState) -> AgentPart {
    let title = state.title.or_else(|| Some(state.tool.clone()));
    AgentPart::Tool {
        tool: state.tool,
        call: state.call,
        status: match state.stage {
            Stage::Pending => ToolStatus::Pending,
            Stage::Running => ToolStatus::Running,
            Stage::Completed => ToolStatus::Completed,
            Stage::Error => ToolStatus::Error,
        },
        title: title.filter(|title| !title.is_empty()),
    }
}

/// A question as servers write it.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Asked {
    header: String,
    question: String,
    options: Vec<Offered>,
    multiple: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Offered {
    label: String,
    description: String,
}

fn question(id: String, json: &[u8]) -> QuestionRequest {
    // Whoever cannot be understood can be shown as they are, and answered.
    let asked = serde_json::from_slice(json).unwrap_or_else(|_| {
        vec![Asked {
            question: String::from_utf8_lossy(json).into_owned(),
            ..Asked::default()
        }]
    });
    let questions = asked.into_iter().map(|asked| Question {
        header: asked.header,
        text: asked.question,
        choices: asked
            .options
            .into_iter()
            .map(|offered| Choice {
                label: offered.label,
                description: offered.description,
            })
            .collect(),
        multiple: asked.multiple,
    });
    QuestionRequest {
        id,
        questions: questions.collect(),
    }
}
