//! The request body for the server: the client's bytes with edited texts and added messages.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use hyper::body::Bytes;
use serde_json::{Value, json};

use super::read::{
    ContentForm, HistoryForm, ModelRequest, PartRole, RequestPart, RequestText, history_name,
    options_name,
};
use crate::json_spans::{JsonEdits, parse, quoted, string};
use crate::judge::RetryMessage;
use crate::routes::ModelApi;

/// The body of a request to the server.
#[derive(Clone, Debug)]
pub(crate) struct OutgoingBody {
    request: Arc<ModelRequest>,
    /// The texts that change, by the index of the part and of the text in it.
    texts: BTreeMap<(usize, usize), String>,
    /// The guidance after a part, by its index.
    guidance: BTreeMap<usize, Vec<String>>,
}

impl OutgoingBody {
    pub(crate) fn new(request: &Arc<ModelRequest>) -> OutgoingBody {
        OutgoingBody {
            request: Arc::clone(request),
            texts: BTreeMap::new(),
            guidance: BTreeMap::new(),
        }
    }

    /// Drops the decoded texts of the request, which is judged. The body has them, too.
    pub(crate) fn forget_texts(&mut self) {
        if let Some(request) = Arc::get_mut(&mut self.request) {
            request.forget_texts();
        }
    }

    /// Returns a text of the request, from its place in the body.
    fn known_text(&self, text: &RequestText) -> String {
        let value = parse(&self.request.body[text.range.clone()]);
        value.and_then(string).unwrap_or_default()
    }

    pub(super) fn set_text(&mut self, part: usize, index: usize, text: String) {
        self.texts.insert((part, index), text);
    }

    /// Adds guidance after the last part of the user or of a tool.
    pub(crate) fn add_last_guidance(&mut self, texts: &[String]) {
        let is_text =
            |part: &RequestPart| matches!(part.role, PartRole::User | PartRole::ToolOutput);
        if let Some(last) = self.request.parts.iter().rposition(is_text) {
            self.add_guidance(last, texts);
        }
    }

    pub(super) fn add_guidance(&mut self, part: usize, texts: &[String]) {
        if !texts.is_empty() {
            let known = self.guidance.entry(part).or_default();
            known.extend_from_slice(texts);
        }
    }

    /// Returns the body, with what is added for a request that is sent again.
    pub(crate) fn write(&self, retry: Option<&RetryMessage>) -> Bytes {
        let Some(retry) = retry else {
            return self.body_with(&self.guidance, &[], None);
        };
        let request = &*self.request;
        if request.history == HistoryForm::Prompts {
            return self.body_with(&self.with_prompts(retry), &[], Some(retry));
        }
        let last = request.parts.last();
        let is_last = |item: usize| item + 1 == request.items.len();
        let at_user = last
            .is_some_and(|part| is_last(part.item) && request.items[part.item].content.is_some());
        // Two messages of the user in a row are avoided, because some servers expect an answer between them.
        if at_user && retry.partial.trim().is_empty() {
            let mut guidance = self.guidance.clone();
            let texts = guidance.entry(request.parts.len() - 1).or_default();
            texts.push(retry.message.clone());
            return self.body_with(&guidance, &[], Some(retry));
        }
        let mut tail = Vec::new();
        let partial = retry.partial.trim_end();
        if !partial.is_empty() {
            tail.push(self.message("assistant", partial));
        }
        tail.push(self.message("user", &retry.message));
        self.body_with(&self.guidance, &tail, Some(retry))
    }

    /// Returns the guidance with the partial and the message for each prompt: the reply to any of them may have been cut.
    fn with_prompts(&self, retry: &RetryMessage) -> BTreeMap<usize, Vec<String>> {
        let mut guidance = self.guidance.clone();
        let partial = Some(retry.partial.trim_end()).filter(|partial| !partial.is_empty());
        for prompt in 0..self.request.parts.len() {
            let texts = guidance.entry(prompt).or_default();
            texts.extend(partial.map(str::to_owned));
            texts.push(retry.message.clone());
        }
        guidance
    }

    /// Returns true if the server keeps the reply, so that a later request can continue it.
    pub(crate) fn is_stored(&self) -> bool {
        self.request.is_stored
    }

    /// Returns true if the client asks for the tokens of a streamed reply.
    pub(crate) fn wants_usage(&self) -> bool {
        self.request.wants_usage
    }

    /// Returns the model of a retry if the path of the URL names the model.
    pub(crate) fn model_in_path<'r>(&self, retry: Option<&'r RetryMessage>) -> Option<&'r str> {
        let model = retry?.model.as_deref()?;
        (self.request.api == ModelApi::Gemini).then_some(model)
    }

    fn body_with(
        &self,
        guidance: &BTreeMap<usize, Vec<String>>,
        tail: &[Value],
        retry: Option<&RetryMessage>,
    ) -> Bytes {
        let request = &*self.request;
        let mut edits = JsonEdits::default();
        let mut texts = self.texts.clone();
        // Messages appended after a scalar that the API allows instead of a list.
        let mut after_one = Vec::new();
        for (&number, added) in guidance {
            let part = &request.parts[number];
            let item = &request.items[part.item];
            match &item.content {
                Some(ContentForm::Text) => {
                    let known = part.texts.first().map(|text| self.known_text(text));
                    let text = texts
                        .entry((number, 0))
                        .or_insert_with(|| known.unwrap_or_default());
                    for more in added {
                        *text = format!("{text}\n\n{more}");
                    }
                }
                Some(ContentForm::List { range, is_empty }) => {
                    for more in added {
                        let item = self.text_item(more).to_string();
                        edits.append_element(range, *is_empty, &item);
                    }
                }
                Some(ContentForm::One(range)) => {
                    let items = added.iter().map(|more| self.text_item(more));
                    append_to_scalar(range, items, &mut edits);
                }
                None => {
                    let messages = added.iter().map(|more| self.message("user", more));
                    if let HistoryForm::One(_) = request.history {
                        after_one.extend(messages);
                        continue;
                    }
                    for message in messages {
                        edits.replace(item.range.end..item.range.end, format!(",{message}"));
                    }
                }
            }
        }
        if let HistoryForm::One(range) = &request.history {
            after_one.extend_from_slice(tail);
            if !after_one.is_empty() {
                append_to_scalar(range, after_one.into_iter(), &mut edits);
            }
        }
        self.write_tail(&mut texts, tail, &mut edits);
        for ((part, index), text) in &texts {
            let range = request.parts[*part].texts[*index].range.clone();
            edits.replace(range, quoted(text));
        }
        if let Some((id, range)) = request.continued() {
            edits.replace(range, quoted(id));
        }
        if let Some(retry) = retry {
            self.write_options(retry, &mut edits);
        }
        if edits.is_empty() {
            return request.body.clone();
        }
        // The ranges are those of values that do not overlap.
        let written = edits.apply(&request.body);
        debug_assert!(written.is_some());
        written.map_or_else(|| request.body.clone(), Bytes::from)
    }

    /// Adds messages after the history.
    fn write_tail(
        &self,
        texts: &mut BTreeMap<(usize, usize), String>,
        tail: &[Value],
        edits: &mut JsonEdits,
    ) {
        let request = &*self.request;
        if tail.is_empty() {
            return;
        }
        match &request.history {
            HistoryForm::List(range) if !range.is_empty() => {
                let is_empty = request.items.is_empty();
                for (number, message) in tail.iter().enumerate() {
                    edits.append_element(range, is_empty && number == 0, &message.to_string());
                }
            }
            HistoryForm::List(_) => {
                let list = Value::from(tail.to_vec());
                let name = history_name(request.api.unwrapped());
                self.write_member(request.start, name, &list.to_string(), edits);
            }
            HistoryForm::Null(range) => {
                edits.replace(range.clone(), Value::from(tail.to_vec()).to_string());
            }
            // Their messages are written together with the other additions.
            HistoryForm::One(_) | HistoryForm::Prompts => {}
            HistoryForm::Text(range) => {
                let known = request.parts.first().and_then(|part| part.texts.first());
                let changed = texts.remove(&(0, 0));
                let input = changed.or_else(|| known.map(|text| self.known_text(text)));
                let input = input.unwrap_or_default();
                let first = self.message("user", &input);
                let list = [first].into_iter().chain(tail.iter().cloned());
                edits.replace(range.clone(), Value::from_iter(list).to_string());
            }
        }
    }

    fn write_options(&self, retry: &RetryMessage, edits: &mut JsonEdits) {
        let request = &*self.request;
        if let (Some(model), Some(range)) = (&retry.model, &request.model_range) {
            edits.replace(range.clone(), quoted(model));
        }
        if let Some(thousandths) = retry.temperature {
            let value = (f64::from(thousandths) / 1000.0).to_string();
            match (&request.temperature_range, &request.options_range) {
                (Some(range), _) => edits.replace(range.clone(), value),
                (None, Some(options)) => {
                    self.write_member(options.start + 1, "temperature", &value, edits);
                }
                (None, None) => {
                    let at = request.start;
                    let options = json!({"temperature": f64::from(thousandths) / 1000.0});
                    match options_name(request.api.unwrapped()) {
                        Some(name) => self.write_member(at, name, &options.to_string(), edits),
                        None => self.write_member(at, "temperature", &value, edits),
                    }
                }
            }
        }
    }

    /// Adds a member at the start of the object whose first member is at `at`.
    fn write_member(&self, at: usize, name: &str, value: &str, edits: &mut JsonEdits) {
        let rest = self.request.body[at..].trim_ascii_start();
        let comma = if rest.starts_with(b"}") { "" } else { "," };
        edits.replace(at..at, format!("\"{name}\":{value}{comma}"));
    }

    fn text_item(&self, text: &str) -> Value {
        match self.request.api.unwrapped() {
            ModelApi::OpenAiResponses => json!({"type": "input_text", "text": text}),
            ModelApi::Gemini => json!({"text": text}),
            _ => json!({"type": "text", "text": text}),
        }
    }

    fn message(&self, role: &str, text: &str) -> Value {
        match self.request.api.unwrapped() {
            ModelApi::AnthropicMessages => {
                json!({"role": role, "content": [{"type": "text", "text": text}]})
            }
            ModelApi::OpenAiResponses => {
                let kind = if role == "user" {
                    "input_text"
                } else {
                    "output_text"
                };
                json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
            }
            ModelApi::Gemini => {
                let role = if role == "user" { "user" } else { "model" };
                json!({"role": role, "parts": [{"text": text}]})
            }
            _ => json!({"role": role, "content": text}),
        }
    }
}

/// Turns the value at that place into a list, with others after it.
fn append_to_scalar(
    range: &Range<usize>,
    others: impl Iterator<Item = Value>,
    edits: &mut JsonEdits,
) {
    let others: Vec<String> = others.map(|other| other.to_string()).collect();
    edits.replace(range.start..range.start, "[");
    edits.replace(range.end..range.end, format!(",{}]", others.join(",")));
}
