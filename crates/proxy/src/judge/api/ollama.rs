//! Ollama's API, `/api/chat` and `/api/generate`: one JSON object on each line. The reason of a block is one more line.

use serde_json::{Value, json};
use ttsr_wire::{JsonValue, WireFormat};

use super::{EventHold, ReplyApi, ReplyEvent, SplicedEvent, copied};
use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, member, members, parse, quoted, span, string};
use crate::judge::output::JudgedOutput;

#[derive(Debug)]
pub(super) struct OllamaReplyState {
    /// True for `/api/chat`, whose lines have a message.
    is_chat: bool,
    /// The model and the time of the last line that was sent, or that arrived before one was sent.
    model: String,
    created_at: String,
    has_sent: bool,
    has_text: bool,
    progress: OllamaProgress,
    /// The text before the next text.
    gap: &'static str,
}

/// The progress of a reply as the client has seen it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum OllamaProgress {
    #[default]
    Open,
    /// The client has a call, which it runs.
    Called,
    Ended,
}

#[derive(Debug, Default)]
pub(crate) struct OllamaLine {
    model: Option<String>,
    created_at: Option<String>,
    has_text: bool,
    is_done: bool,
    /// The progress of the reply after the line.
    progress: OllamaProgress,
}

impl OllamaReplyState {
    pub(super) fn new(is_chat: bool) -> OllamaReplyState {
        OllamaReplyState {
            is_chat,
            model: String::new(),
            created_at: "1970-01-01T00:00:00Z".to_owned(),
            has_sent: false,
            has_text: false,
            progress: OllamaProgress::Open,
            gap: "",
        }
    }

    fn line(&self, text: &str) -> Value {
        let mut line = json!({"model": self.model, "created_at": self.created_at, "done": false});
        match self.is_chat {
            true => line["message"] = json!({"role": "assistant", "content": text}),
            false => line["response"] = json!(text),
        }
        line
    }

    /// Takes the names of a line.
    fn adopt(&mut self, model: Option<String>, created_at: Option<String>) {
        if let Some(model) = model {
            self.model = model;
        }
        if let Some(created_at) = created_at {
            self.created_at = created_at;
        }
    }

    fn push_line(line: &Value, out: &mut JudgedOutput) {
        out.rest.extend_from_slice(format!("{line}\n").as_bytes());
    }
}

impl ReplyApi for OllamaReplyState {
    fn format(&self) -> WireFormat {
        WireFormat::Ollama
    }

    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent {
        let Some(line) = record else {
            return ReplyEvent::Ollama(OllamaLine::default());
        };
        let message = line.get("message");
        let content = message.and_then(|message| message.bytes("content"));
        let mut texts = [content, line.bytes("response")].into_iter().flatten();
        let has_call = message.is_some_and(|message| !message.list("tool_calls").is_empty());
        let is_done = line.get("done").is_some_and(|done| done.raw() == b"true");
        let progress = match (is_done || line.get("error").is_some(), has_call) {
            (true, _) => OllamaProgress::Ended,
            (false, true) => OllamaProgress::Called,
            (false, false) => OllamaProgress::Open,
        };
        let owned = |name| line.text(name).map(|text| text.into_owned());
        ReplyEvent::Ollama(OllamaLine {
            model: owned("model"),
            created_at: owned("created_at"),
            has_text: texts.any(|text| !text.is_empty()),
            is_done,
            progress,
        })
    }

    /// A call is whole in a line.
    fn hold(&mut self, event: &ReplyEvent) -> EventHold {
        if let (ReplyEvent::Ollama(line), false) = (event, self.has_sent) {
            self.adopt(line.model.clone(), line.created_at.clone());
        }
        EventHold {
            waits_for_end: matches!(event, ReplyEvent::Ollama(line) if line.is_done),
            ..EventHold::default()
        }
    }

    fn sent(&mut self, event: ReplyEvent) {
        let ReplyEvent::Ollama(line) = event else {
            return;
        };
        self.has_sent = true;
        self.adopt(line.model, line.created_at);
        self.has_text |= line.has_text;
        self.progress = self.progress.max(line.progress);
    }

    fn can_splice(&self) -> bool {
        self.progress == OllamaProgress::Open
    }

    fn splice(&mut self, _: &mut JudgedOutput) {
        self.gap = if self.has_text { "\n\n" } else { "" };
    }

    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent {
        let Some(top) = parse(data).and_then(members) else {
            return SplicedEvent::Same;
        };
        let mut edits = JsonEdits::default();
        let model = quoted(&self.model);
        if let Some(known) = member(&top, "model").filter(|known| known.get() != model)
            && self.has_sent
            && !self.model.is_empty()
        {
            edits.replace(span(data, known), model);
        }
        let content = match self.is_chat {
            true => member(&top, "message")
                .and_then(members)
                .and_then(|message| member(&message, "content")),
            false => member(&top, "response"),
        };
        if let Some(content) = content.filter(|_| !self.gap.is_empty())
            && let Some(text) = string(content).filter(|text| !text.is_empty())
        {
            edits.replace(span(data, content), quoted(&format!("{}{text}", self.gap)));
            self.gap = "";
        }
        SplicedEvent::edited(data, &edits)
    }

    fn keep_alive(&mut self, out: &mut JudgedOutput) {
        if self.progress < OllamaProgress::Ended {
            self.has_sent = true;
            Self::push_line(&self.line(""), out);
        }
    }

    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput) {
        if self.progress == OllamaProgress::Ended {
            return;
        }
        let text = match self.has_text {
            true => format!("\n\n{reason}"),
            false => reason.to_owned(),
        };
        Self::push_line(&self.line(&text), out);
        let last = match ending {
            BlockEnding::Soft => {
                let mut last = self.line("");
                last["done"] = json!(true);
                last["done_reason"] = json!("stop");
                for count in [
                    "total_duration",
                    "load_duration",
                    "prompt_eval_count",
                    "prompt_eval_duration",
                    "eval_count",
                    "eval_duration",
                ] {
                    last[count] = json!(0);
                }
                last
            }
            BlockEnding::Hard => json!({"error": reason}),
        };
        Self::push_line(&last, out);
    }

    fn whole(&self, reply: &Value, reason: &str) -> Value {
        let mut whole = self.line(reason);
        let members = [
            "model",
            "created_at",
            "total_duration",
            "load_duration",
            "prompt_eval_count",
            "prompt_eval_duration",
            "eval_count",
            "eval_duration",
        ];
        if let Some(whole) = whole.as_object_mut() {
            whole.extend(copied(reply, &members));
        }
        whole["done"] = json!(true);
        whole["done_reason"] = json!("stop");
        whole
    }
}
