//! Tests of judged replies, without a network. `replies` builds replies of each API and reads
//! the bytes that were sent; `legal` checks their order.

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
    Block, BodyFrames, JudgeSettings, ReplyJudge, ReplyReport, TruncatedBody, WholeBodyVerdict,
};
use crate::config::BlockEnding;
use crate::routes::ModelApi;

/// The APIs with reasoning and tool calls.
pub(crate) const APIS: [ModelApi; 5] = [
    ModelApi::AnthropicMessages,
    ModelApi::OpenAiChat,
    ModelApi::OpenAiResponses,
    ModelApi::Gemini,
    ModelApi::OllamaChat,
];

/// The APIs with text alone.
pub(crate) const TEXT_APIS: [ModelApi; 2] = [ModelApi::OpenAiCompletions, ModelApi::OllamaGenerate];

pub(crate) fn every_api() -> impl Iterator<Item = ModelApi> {
    APIS.into_iter().chain(TEXT_APIS)
}

/// The framing in which a server of the API streams.
pub(crate) fn frames_of(api: ModelApi) -> BodyFrames {
    match api {
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => BodyFrames::lines(),
        _ => BodyFrames::events(),
    }
}

/// Returns the complete frames of the bytes.
pub(crate) fn next_frames(frames: &mut BodyFrames, bytes: &[u8]) -> Vec<Bytes> {
    frames.push(Bytes::copy_from_slice(bytes));
    std::iter::from_fn(|| frames.next_frame()).collect()
}

pub(crate) fn new_judge(api: ModelApi, pack: &Pack, settings: JudgeSettings) -> ReplyJudge {
    ReplyJudge::new(api, frames_of(api), pack, settings).unwrap()
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
    api: ModelApi,
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

pub(crate) fn judge(api: ModelApi, pack: &Pack, stream: &str) -> Judged {
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
