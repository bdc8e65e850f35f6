//! The APIs: the dependencies between the events of a reply, and the end of a reply that a rule stopped.
//!
//! The endings are those that clients show to the user and do not retry: a normal end with the reason as text, or, for
//! [`BlockEnding::Hard`], an end that clients treat as a failure that a new request would not change.

mod chat;
mod gemini;
mod messages;
mod ollama;
mod responses;

use serde_json::Value;
use ttsr_wire::{JsonValue, WireFormat};

use crate::config::BlockEnding;
use crate::json_spans::{JsonEdits, member, members, parse, string};
use crate::judge::output::JudgedOutput;
use crate::routes::ModelApi;

/// The dependencies of an event on later ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EventHold {
    /// The tool call that the event is part of. The events of a call are released once it is complete.
    pub(crate) call: Option<u64>,
    /// True if the call is complete with this event.
    pub(crate) completes_call: bool,
    /// True if the event ends the reply for clients, so that it waits for the rules that judge the whole reply.
    pub(crate) waits_for_end: bool,
}

/// An event of another attempt, as the client of the first one is sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SplicedEvent {
    Same,
    /// The client has one like it.
    Dropped,
    /// Other data.
    Changed(Vec<u8>),
}

impl EventHold {
    /// Returns the dependencies of two records in one event.
    pub(crate) fn and(self, other: EventHold) -> EventHold {
        EventHold {
            call: other.call.or(self.call),
            completes_call: other.completes_call || self.completes_call,
            waits_for_end: other.waits_for_end || self.waits_for_end,
        }
    }
}

impl SplicedEvent {
    /// Returns the event with these edits.
    fn edited(data: &[u8], edits: &JsonEdits) -> SplicedEvent {
        match edits.is_empty() {
            true => SplicedEvent::Same,
            false => edits
                .apply(data)
                .map_or(SplicedEvent::Same, SplicedEvent::Changed),
        }
    }
}

/// The id of a reply that a later request can continue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReplyId {
    /// The id that the client is sent.
    pub(crate) sent: String,
    /// The id of the last attempt, under which the server has the reply.
    pub(crate) of_server: String,
}

/// Returns the id of a reply that is not streamed, or `None` if no later request can continue it by its id.
pub(crate) fn id_of_whole(api: ModelApi, body: &[u8]) -> Option<ReplyId> {
    let reply = parse(body).filter(|_| api == ModelApi::OpenAiResponses)?;
    let sent = member(&members(reply)?, "id").and_then(string)?;
    let of_server = sent.clone();
    Some(ReplyId { sent, of_server })
}

/// The members of an event that matter to its API.
#[derive(Debug)]
pub(crate) enum ReplyEvent {
    Messages(messages::MessagesEvent),
    Chat(chat::ChatEvent),
    Responses(Box<responses::ResponsesEvent>),
    Gemini(gemini::GeminiChunk),
    Ollama(ollama::OllamaLine),
}

/// The state of one reply as its client sees it, in one API.
pub(crate) trait ReplyApi: Send + Sync {
    /// Returns the format that replies must have.
    fn format(&self) -> WireFormat;

    /// Reads a record of the reply: an object, or `None` for the end mark `[DONE]`.
    fn read(&self, record: Option<&JsonValue<'_>>) -> ReplyEvent;

    /// Returns the dependencies of an event, in the order in which events arrive.
    fn hold(&mut self, event: &ReplyEvent) -> EventHold;

    /// Sets that the client has asked for the tokens of the reply, so that an end without those of the server has them, too.
    fn expect_usage(&mut self) {}

    /// Returns true if the end of the reply completes its tool calls: the API has no other mark for it.
    fn end_completes_calls(&self) -> bool {
        false
    }

    /// Takes an event that the client is sent.
    fn sent(&mut self, event: ReplyEvent);

    /// Returns the number of bytes of the events that the client was sent which are kept for the end of the reply.
    fn kept_bytes(&self) -> usize {
        0
    }

    /// Returns true if the events of another attempt can follow those that were sent. They cannot after a tool call,
    /// which the client runs, and after an end.
    fn can_splice(&self) -> bool;

    /// Ends what was sent in part: the events that follow are those of another attempt.
    fn splice(&mut self, out: &mut JudgedOutput);

    /// Returns an event of another attempt, or one after an event that has changed the numbers, by its data, as the client
    /// is sent it.
    fn splice_event(&mut self, data: &[u8]) -> SplicedEvent;

    /// Returns the id of the reply, if a later request can continue it by the id.
    fn reply_id(&self) -> Option<ReplyId> {
        None
    }

    /// Returns true if the numbers of the server's events are not those that the client is sent.
    fn has_other_numbers(&self) -> bool {
        false
    }

    /// Appends a keep-alive event, for clients that give up on a reply without events.
    fn keep_alive(&mut self, out: &mut JudgedOutput);

    /// Appends the events that end the reply after those that were sent, with `reason` as text.
    fn end(&self, reason: &str, ending: BlockEnding, out: &mut JudgedOutput);

    /// Returns the reply, not streamed, with `reason` instead of the content of `reply`.
    fn whole(&self, reply: &Value, reason: &str) -> Value;
}

/// Returns the state of a reply that begins, or `None` if the API cannot be judged.
pub(crate) fn reply_api(api: ModelApi) -> Option<Box<dyn ReplyApi>> {
    match api {
        ModelApi::AnthropicMessages => Some(Box::<messages::MessagesReply>::default()),
        ModelApi::OpenAiChat => Some(Box::<chat::ChatReplyState>::default()),
        ModelApi::OpenAiCompletions => Some(Box::new(chat::ChatReplyState::of_completions())),
        ModelApi::Gemini => Some(Box::<gemini::GeminiReplyState>::default()),
        ModelApi::CodeAssist => Some(Box::new(gemini::GeminiReplyState::of_code_assist())),
        ModelApi::OllamaChat => Some(Box::new(ollama::OllamaReplyState::new(true))),
        ModelApi::OllamaGenerate => Some(Box::new(ollama::OllamaReplyState::new(false))),
        ModelApi::OpenAiResponses => Some(Box::<responses::ResponsesReply>::default()),
        ModelApi::Unjudged => None,
    }
}

/// Returns the value as one that can be changed; `null` if it is not valid JSON in UTF-8.
fn value_of(value: &JsonValue<'_>) -> Value {
    serde_json::from_slice(value.raw()).unwrap_or_default()
}

/// Copies the named members of an object.
fn copied(from: &Value, keys: &[&str]) -> serde_json::Map<String, Value> {
    let known = keys
        .iter()
        .filter_map(|key| Some(((*key).to_owned(), from.get(key)?.clone())));
    known.collect()
}
