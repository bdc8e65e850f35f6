//! Implements the agent of a chat ([`progress`](crate::progress)) with a server.

use serde::Deserialize;

use super::server::{Events, Prompt, Server, ServerApi};
use crate::progress::{Agent, AgentEvent, AgentEvents, AgentFuture, AgentPart, ToolStatus};
use crate::user_prompt::{Choice, Question, QuestionRequest};
use ttsr::harness::Failure;
use ttsr::harness::unfold;
use ttsr::{Channel, Event, PartId};
use ttsr_wire::opencode::{ServerNotice, ToolStage, ToolState};

impl Agent for Server {
    fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
        Box::pin(async {
            let events = self.events().await.map_err(describe)?;
            let heard = AgentEventReader {
                events,
                api: self.api(),
                writing: Vec::new(),
                queued: None,
            };
            let heard: AgentEvents = unfold(heard, |mut heard: AgentEventReader| async move {
                if let Some(event) = heard.queued.take() {
                    return Some((event, heard));
                }
                loop {
                    // After the connection ends, the reply is what has arrived, whether the stream was closed or broke.
                    let (session, notice) = heard.events.next().await.ok()??;
                    if let Some(event) = heard.on_notice(session, notice) {
                        return Some((event, heard));
                    }
                }
            });
            Ok(heard)
        })
    }

    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> AgentFuture<'a, ()> {
        let prompt = Prompt::new(text);
        Box::pin(async move {
            Server::prompt(self, session, &prompt)
                .await
                .map_err(describe)
        })
    }

    fn abort<'a>(&'a mut self, session: &'a str) -> AgentFuture<'a, ()> {
        Box::pin(async move { Server::abort(self, session).await.map_err(describe) })
    }

    fn answer<'a>(
        &'a mut self,
        request: &'a str,
        answers: Vec<Vec<String>>,
    ) -> AgentFuture<'a, ()> {
        Box::pin(async move {
            Server::answer(self, request, &answers)
                .await
                .map_err(describe)
        })
    }

    fn reject<'a>(&'a mut self, request: &'a str) -> AgentFuture<'a, ()> {
        Box::pin(async move { Server::reject(self, request).await.map_err(describe) })
    }
}

fn describe(failure: Failure) -> String {
    failure.to_string()
}

/// The most sessions whose message is tracked; past it the least recently active one is dropped.
const SESSIONS: usize = 1024;

struct AgentEventReader {
    events: Events,
    api: ServerApi,
    /// The message in progress of each session. The most recently active one is last.
    writing: Vec<MessageInProgress>,
    /// The second event of a notice that becomes two.
    queued: Option<AgentEvent>,
}

struct MessageInProgress {
    session: String,
    message: String,
    parts: Vec<(PartId, Channel)>,
}

impl MessageInProgress {
    fn channel(&self, part: PartId) -> Option<Channel> {
        let known = self.parts.iter().find(|(known, _)| *known == part);
        known.map(|(_, channel)| *channel)
    }

    /// Returns the name of a part. Parts are numbered from 0 in each message.
    fn part(&self, part: PartId) -> String {
        format!("{}/{}", self.message, part.0)
    }
}

impl AgentEventReader {
    fn on_notice(&mut self, session: String, notice: ServerNotice) -> Option<AgentEvent> {
        Some(match notice {
            ServerNotice::Prompt { message, .. } => AgentEvent::Message {
                session,
                message,
                is_user: true,
            },
            ServerNotice::Message(message) => {
                self.writing.retain(|known| known.session != session);
                if self.writing.len() >= SESSIONS {
                    self.writing.remove(0);
                }
                self.writing.push(MessageInProgress {
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
            ServerNotice::Tool(state) => {
                let message = self.writing(&session)?.message.clone();
                AgentEvent::Part {
                    part: format!("{message}/{}", state.call),
                    session,
                    message,
                    content: tool_part(state),
                }
            }
            ServerNotice::Question { id, questions } => AgentEvent::Question {
                session,
                request: parse_questions(id, &questions),
            },
            ServerNotice::Idle => AgentEvent::Idle { session },
            ServerNotice::Event(event) => return self.event(session, event),
            ServerNotice::QuestionClosed(request) => {
                AgentEvent::QuestionClosed { session, request }
            }
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
                    // The state of the call reports its end.
                    Channel::ToolOutput => return None,
                    _ => AgentPart::Other,
                };
                self.part(session, part, content)
            }
            Event::Delta { part, bytes } => {
                let writing = self.writing(&session)?;
                let unseen = [Channel::ToolInput, Channel::ToolOutput];
                let is_written = !writing
                    .channel(part)
                    .is_some_and(|channel| unseen.contains(&channel));
                is_written.then(|| AgentEvent::Delta {
                    message: writing.message.clone(),
                    part: writing.part(part),
                    session,
                    field: "text".to_owned(),
                    delta: String::from_utf8_lossy(&bytes).into_owned(),
                })
            }
            // The server may have changed the text.
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

    /// Returns the event for the end of a message. The classic interface reports an idle session; in the second one a
    /// message without a tool call is the last of the reply.
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
        let idle = (self.api == ServerApi::Next).then(idle);
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

    fn writing(&mut self, session: &str) -> Option<&mut MessageInProgress> {
        self.writing
            .iter_mut()
            .rfind(|known| known.session == session)
    }
}

/// Converts a tool state. A running call always gets a title, because a chat shows only calls with one and servers set
/// it at the end of the call.
fn tool_part(state: ToolState) -> AgentPart {
    let title = state.title.or_else(|| Some(state.tool.clone()));
    AgentPart::Tool {
        tool: state.tool,
        call: state.call,
        status: match state.stage {
            ToolStage::Pending => ToolStatus::Pending,
            ToolStage::Running => ToolStatus::Running,
            ToolStage::Completed => ToolStatus::Completed,
            ToolStage::Error => ToolStatus::Error,
        },
        title: title.filter(|title| !title.is_empty()),
    }
}

/// A question in the JSON of a server.
#[derive(Default, Deserialize)]
#[serde(default)]
struct WireQuestion {
    header: String,
    question: String,
    options: Vec<WireOption>,
    multiple: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireOption {
    label: String,
    description: String,
}

fn parse_questions(id: String, json: &[u8]) -> QuestionRequest {
    // A question of unknown form is shown as JSON, so that it can still be answered.
    let asked = serde_json::from_slice(json).unwrap_or_else(|_| {
        vec![WireQuestion {
            question: String::from_utf8_lossy(json).into_owned(),
            ..WireQuestion::default()
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
