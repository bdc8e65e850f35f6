//! Tests of judged replies, without a network. `replies` builds replies of each API and reads
//! the bytes that were sent; `legal` checks their order.

mod blocks;
mod corpus;
mod legal;
mod random;
mod redactions;
mod replies;
mod retries;

use ttsr::{Action, Mode, Pack, Pattern, Rule};

use super::{Block, BrokenOff, JudgeSettings, JudgedWhole, ReplyJudge, ReplyReport};
use crate::config::BlockEnding;
use crate::routes::ModelApi;

pub(super) const APIS: [ModelApi; 3] = [
    ModelApi::AnthropicMessages,
    ModelApi::OpenAiChat,
    ModelApi::OpenAiResponses,
];

pub(super) const SETTINGS: JudgeSettings = JudgeSettings {
    ending: BlockEnding::Soft,
    is_fail_open: false,
    mode: Mode::Live,
    held_bytes: 1 << 20,
    can_retry: false,
};

/// The result of one judged stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Judged {
    pub(super) sent: String,
    pub(super) ended: Result<(), BrokenOff>,
    pub(super) report: ReplyReport,
}

pub(super) fn judge_with<'p>(
    api: ModelApi,
    pack: &Pack,
    settings: JudgeSettings,
    pieces: impl IntoIterator<Item = &'p [u8]>,
) -> Judged {
    let mut judge = ReplyJudge::new(api, pack, settings).unwrap();
    let mut sent = Vec::new();
    for piece in pieces {
        judge.push(piece);
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

pub(super) fn judge(api: ModelApi, pack: &Pack, stream: &str) -> Judged {
    judge_with(api, pack, SETTINGS, [stream.as_bytes()])
}

/// Judges a reply that is not streamed, and returns the body for the client.
pub(super) fn judge_whole(judge: &mut ReplyJudge, body: &[u8]) -> Result<Vec<u8>, Block> {
    match judge.judge_whole(body) {
        JudgedWhole::Passes(changed) => Ok(changed.unwrap_or_else(|| body.to_vec())),
        JudgedWhole::Refused(block) => Err(block),
        JudgedWhole::Again(next) => panic!("no request can be sent again: {next:?}"),
    }
}

/// A pack of one rule for text, reasoning and tool input.
pub(super) fn pack_of(pattern: Pattern, change: impl FnOnce(&mut Rule)) -> Pack {
    let mut rule = Rule::new("demo/rule", vec![pattern]);
    rule.on = ttsr::Channel::STREAMED.to_vec();
    change(&mut rule);
    Pack::builder().rule(rule).build().unwrap()
}

pub(super) fn aborting(pattern: &str) -> Pack {
    pack_of(Pattern::literal(pattern), |rule| {
        rule.action = Action::Abort;
        rule.message = Some("Not this.".into());
    })
}
