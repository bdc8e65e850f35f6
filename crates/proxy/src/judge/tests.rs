//! Tests of judged replies, without a network. `replies` builds replies of each API and reads
//! the bytes that were sent; `legal` checks their order.

mod arrays;
mod blocks;
pub(crate) mod corpus;
mod equality;
mod first_events;
mod framing;
pub(crate) mod legal;
mod random;
mod redactions;
mod replay;
pub(crate) mod replies;
mod retries;

use bytes::Bytes;
use ttsr::{Action, Channel, Mode, Pack, PackBuilder, Pattern, Rule};

use super::{
    Block, BodyFrames, JudgeSettings, ReplyJudge, ReplyReport, StreamFraming, TruncatedBody,
    WholeBodyVerdict,
};
use crate::config::BlockEnding;
use crate::routes::ModelApi;

/// The APIs with reasoning and tool calls.
pub(crate) const APIS: [ModelApi; 6] = [
    ModelApi::AnthropicMessages,
    ModelApi::OpenAiChat,
    ModelApi::OpenAiResponses,
    ModelApi::Gemini,
    ModelApi::CodeAssist,
    ModelApi::OllamaChat,
];

/// The APIs with text alone.
pub(crate) const TEXT_APIS: [ModelApi; 2] = [ModelApi::OpenAiCompletions, ModelApi::OllamaGenerate];

pub(crate) fn every_api() -> impl Iterator<Item = ModelApi> {
    APIS.into_iter().chain(TEXT_APIS)
}

/// An API in one of the framings in which its servers stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamedApi {
    pub(crate) api: ModelApi,
    pub(crate) framing: StreamFraming,
}

impl From<ModelApi> for StreamedApi {
    fn from(api: ModelApi) -> StreamedApi {
        let framing = match api {
            ModelApi::OllamaChat | ModelApi::OllamaGenerate => StreamFraming::Lines,
            _ => StreamFraming::Events,
        };
        StreamedApi { api, framing }
    }
}

impl PartialEq<ModelApi> for StreamedApi {
    fn eq(&self, api: &ModelApi) -> bool {
        self.api == *api
    }
}

impl StreamedApi {
    /// Returns true if the API has reasoning and tool calls.
    pub(crate) fn has_parts(self) -> bool {
        APIS.contains(&self.api)
    }

    pub(crate) fn is_array(self) -> bool {
        self.framing == StreamFraming::Array
    }
}

/// Gemini without `alt=sse`.
pub(crate) const GEMINI_ARRAY: StreamedApi = StreamedApi {
    api: ModelApi::Gemini,
    framing: StreamFraming::Array,
};

/// Each API in each of its framings.
pub(crate) fn every_stream() -> impl Iterator<Item = StreamedApi> {
    every_api().map(StreamedApi::from).chain([GEMINI_ARRAY])
}

/// The same for the APIs with reasoning and tool calls.
pub(crate) fn streams_with_parts() -> impl Iterator<Item = StreamedApi> {
    every_stream().filter(|api| api.has_parts())
}

pub(crate) fn frames_of(api: impl Into<StreamedApi>) -> BodyFrames {
    BodyFrames::new(api.into().framing)
}

/// Returns the complete frames of the bytes.
pub(crate) fn next_frames(frames: &mut BodyFrames, bytes: &[u8]) -> Vec<Bytes> {
    frames.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| frames.next_frame()).collect()
}

/// The complete events of the bytes: those of a client that went away can end anywhere.
pub(crate) fn complete_events(api: impl Into<StreamedApi>, bytes: &[u8]) -> String {
    let mut frames = frames_of(api);
    let mut complete = next_frames(&mut frames, bytes).concat();
    let end = frames.take_ending();
    if end.contains(&b']') {
        complete.extend_from_slice(&end);
    }
    String::from_utf8(complete).unwrap_or_default()
}

pub(crate) fn new_judge(
    api: impl Into<StreamedApi>,
    pack: &Pack,
    settings: JudgeSettings,
) -> ReplyJudge {
    let api = api.into();
    ReplyJudge::new(api.api, frames_of(api), pack, settings).unwrap()
}

pub(crate) const SETTINGS: JudgeSettings = JudgeSettings {
    ending: BlockEnding::Soft,
    fail_open: false,
    mode: Mode::Live,
    held_bytes: 1 << 20,
    can_retry: false,
};

/// The result of one judged stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Judged {
    pub(crate) sent: String,
    pub(crate) ended: Result<(), TruncatedBody>,
    pub(crate) report: ReplyReport,
}

pub(crate) fn judge_with<'p>(
    api: impl Into<StreamedApi>,
    pack: &Pack,
    settings: JudgeSettings,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Judged {
    let mut judge = new_judge(api, pack, settings);
    let mut sent = Vec::new();
    for piece in pieces {
        judge.push(Bytes::copy_from_slice(piece));
        sent.extend(judge.take());
    }
    let ended = judge.finish();
    sent.extend(judge.take());
    Judged {
        sent: String::from_utf8_lossy(&sent).into_owned(),
        ended,
        report: judge.report(),
    }
}

pub(crate) fn judge(api: impl Into<StreamedApi>, pack: &Pack, stream: &str) -> Judged {
    judge_with(api, pack, SETTINGS, [stream.as_bytes()])
}

/// Judges a reply that is not streamed, and returns the body for the client.
pub(super) fn judge_whole(judge: &mut ReplyJudge, body: &[u8]) -> Result<Vec<u8>, Block> {
    match judge.judge_whole(body) {
        WholeBodyVerdict::Passes(changed) => Ok(changed.unwrap_or_else(|| body.to_vec())),
        WholeBodyVerdict::Refused(block) => Err(block),
        WholeBodyVerdict::Retry(next) => panic!("no request can be sent again: {next:?}"),
    }
}

/// A rule of one pattern, without a message.
pub(crate) fn rule_of(id: &str, pattern: Pattern, on: &[Channel], action: Action) -> Rule {
    let mut rule = Rule::new(id, vec![pattern]);
    rule.on = on.to_vec();
    rule.action = action;
    rule
}

pub(crate) fn pack_of_rules(rules: impl IntoIterator<Item = Rule>) -> Pack {
    let builder = rules.into_iter().fold(Pack::builder(), PackBuilder::rule);
    builder.build().unwrap()
}

/// A pack of one rule for text, reasoning and tool input.
pub(crate) fn pack_of(pattern: Pattern, change: impl FnOnce(&mut Rule)) -> Pack {
    let mut rule = Rule::new("demo/rule", vec![pattern]);
    rule.on = Channel::STREAMED.to_vec();
    change(&mut rule);
    pack_of_rules([rule])
}

pub(crate) fn aborting(pattern: &str) -> Pack {
    pack_of(Pattern::literal(pattern), |rule| {
        rule.action = Action::Abort;
        rule.message = Some("Not this.".into());
    })
}
