//! Inputs: the tables of `in`, in the words of the format.

use serde_json::Value;
use ttsr::harness::conformance::CaseInput;
use ttsr::harness::{Failure, Input, Message, ToolCall};
use ttsr_agent::handoff::{ReadSession, Speaker, TranscriptMessage, TranscriptPart};
use ttsr_agent::progress::{AgentEvent, AgentPart, ToolStatus};
use ttsr_agent::user_prompt::{Choice, Question, QuestionRequest};

use super::Case;

/// An input in the words of the format.
pub(super) struct Given<'a> {
    pub(super) table: &'a CaseInput,
    pub(super) case: &'a str,
}

impl<'a> Given<'a> {
    pub(super) fn new(case: &Case<'a>, table: &'a CaseInput) -> Given<'a> {
        Given {
            table,
            case: case.name,
        }
    }
}

impl Given<'_> {
    pub(super) fn has(&self, key: &str) -> bool {
        self.table.has(key)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        let value = self.table.get(key)?.as_str();
        Some(
            value
                .unwrap_or_else(|| panic!("{}: `{key}` is no text", self.case))
                .to_owned(),
        )
    }

    pub(super) fn words(&self, key: &str) -> String {
        self.text(key).unwrap_or_default()
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.table.number(key)
    }

    pub(super) fn call(&self, key: &str) -> ToolCall {
        ToolCall {
            session: String::new(),
            tool: self.words(key),
            call: self.words("call"),
            input: self.words("input"),
        }
    }

    pub(super) fn list(&self, key: &str) -> Vec<String> {
        let items = self.table.get(key).and_then(Value::as_array);
        let items = items.into_iter().flatten();
        items
            .map(|item| item.as_str().unwrap().to_owned())
            .collect()
    }

    /// Returns the output of `read_session` for the session that the input describes.
    pub(super) fn transcript(&self, read: &ReadSession) -> String {
        let said: Vec<TranscriptMessage> = match self.number("messages") {
            Some(count) => (1..=count).map(|at| says(&at.to_string())).collect(),
            None => self.said(),
        };
        read.transcript(|_, at_most| match self.text("failed") {
            Some(failed) => Err(failed),
            None => Ok(said[said.len().saturating_sub(at_most)..].to_vec()),
        })
    }

    /// Returns the messages of an earlier session.
    pub(super) fn said(&self) -> Vec<TranscriptMessage> {
        let said = self.table.get("said").and_then(Value::as_array);
        let said = said.into_iter().flatten().map(|said| {
            let by = match said["by"].as_str().unwrap() {
                "user" => Speaker::User,
                "assistant" => Speaker::Assistant,
                other => panic!("{}: {other}", self.case),
            };
            let parts = said["parts"].as_array().unwrap().iter().map(said_part);
            TranscriptMessage {
                by,
                parts: parts.collect(),
            }
        });
        said.collect()
    }

    /// Returns the event of the server of a chat's agent, of its own session unless the input names another.
    pub(super) fn agent_event(&self, own: &str) -> Option<AgentEvent> {
        let session = self.text("session").unwrap_or_else(|| own.to_owned());
        let message = self.text("of").unwrap_or_else(|| "m".to_owned());
        let part = |part: String, content| AgentEvent::Part {
            session: session.clone(),
            message: message.clone(),
            part,
            content,
        };
        Some(if let Some(message) = self.text("message") {
            AgentEvent::Message {
                session: session.clone(),
                message,
                is_user: self.words("role") == "user",
            }
        } else if let Some(id) = self.text("part") {
            match &*self.words("type") {
                "text" => part(id, AgentPart::Text(self.words("text"))),
                "reasoning" => part(id, AgentPart::Reasoning),
                other => panic!("{}: {other}", self.case),
            }
        } else if let Some(delta) = self.text("grows") {
            AgentEvent::Delta {
                session: session.clone(),
                message,
                part: delta,
                field: "text".to_owned(),
                delta: self.words("text"),
            }
        } else if let Some(call) = self.text("tool-part") {
            let status = match &*self.words("status") {
                "pending" => ToolStatus::Pending,
                "running" => ToolStatus::Running,
                "completed" => ToolStatus::Completed,
                _ => ToolStatus::Error,
            };
            let content = AgentPart::Tool {
                tool: self.words("tool"),
                call: call.clone(),
                status,
                title: self.text("title"),
            };
            part(call, content)
        } else if let Some(id) = self.text("question") {
            let questions = self
                .table
                .get("questions")
                .and_then(Value::as_array)
                .unwrap()
                .iter();
            AgentEvent::Question {
                session: session.clone(),
                request: QuestionRequest {
                    id,
                    questions: questions.map(question).collect(),
                },
            }
        } else if let Some(request) = self.text("question-closed") {
            AgentEvent::QuestionClosed {
                session: session.clone(),
                request,
            }
        } else if let Some(reason) = self.text("stopped") {
            AgentEvent::Stopped {
                session: session.clone(),
                message,
                reason,
            }
        } else if self.has("idle") {
            AgentEvent::Idle {
                session: session.clone(),
            }
        } else if let Some(message) = self.text("session-error") {
            AgentEvent::Failed {
                session: session.clone(),
                is_abort: message == "MessageAbortedError",
                message,
            }
        } else {
            return None;
        })
    }

    pub(super) fn input(&self) -> Input {
        match () {
            () if self.has("sent") => Input::Sent,
            () if self.has("end") => Input::End,
            () if self.has("cancel") => Input::Cancel,
            () if self.has("tick") => Input::Tick,
            () if self.has("failed") => {
                Input::Failed(Failure::new(self.words("failed"), self.words("message")))
            }
            () => panic!("{}: no such input: {:?}", self.case, self.table),
        }
    }

    pub(super) fn messages(&self) -> Vec<Message> {
        let messages = self
            .table
            .get("prepare")
            .and_then(Value::as_array)
            .unwrap()
            .iter();
        messages
            .map(|text| Message::user(text.as_str().unwrap()))
            .collect()
    }
}

fn said_part(part: &Value) -> TranscriptPart {
    let word = |key: &str| Some(part.get(key)?.as_str().unwrap().to_owned());
    match (word("text"), word("attached"), word("tool")) {
        (Some(text), None, None) => TranscriptPart::Text(text),
        (None, Some(name), None) => TranscriptPart::Attached(name),
        (None, None, Some(name)) => TranscriptPart::Tool {
            name,
            title: word("title").unwrap_or_default(),
        },
        _ => panic!("no part: {part:?}"),
    }
}

/// Returns a message of the user.
fn says(text: &str) -> TranscriptMessage {
    TranscriptMessage {
        by: Speaker::User,
        parts: vec![TranscriptPart::Text(text.to_owned())],
    }
}

fn question(given: &Value) -> Question {
    let words = |of: &Value, key: &str| {
        let text = of.get(key).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let choices = given.get("options").and_then(Value::as_array);
    let choices = choices.into_iter().flatten().map(|choice| Choice {
        label: words(choice, "label"),
        description: words(choice, "description"),
    });
    Question {
        header: words(given, "header"),
        text: words(given, "question"),
        choices: choices.collect(),
        multiple: given.get("multiple").is_some(),
    }
}
