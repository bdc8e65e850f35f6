//! The judgement of a reply that is not streamed: its body is judged once it is complete.

use serde_json::Value;

use super::json_edit::rewrite;
use super::parts::FrameTexts;
use super::{Block, RepeatedAttempt, ReplyJudge, not_rewritten};
use crate::config::BlockEnding;

/// The result of a reply that is not streamed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum WholeBodyVerdict {
    /// The reply is sent: unchanged if `None`, otherwise with this body.
    Passes(Option<Vec<u8>>),
    /// The request is to be sent again.
    Retry(RepeatedAttempt),
    /// The reply is blocked and the ending is hard, or it cannot be read.
    Refused(Block),
}

impl ReplyJudge {
    /// Judges a complete body that is not streamed.
    pub(crate) fn judge_whole(&mut self, body: &[u8]) -> WholeBodyVerdict {
        if body.is_empty() && self.report.retries == 0 {
            self.is_over = true;
            return WholeBodyVerdict::Passes(None);
        }
        let mut events = Vec::new();
        self.reader.push(body, &mut |_, event| events.push(event));
        self.reader.finish(&mut |_, event| events.push(event));
        let mut texts = FrameTexts::default();
        let is_damaged = self.damages() > 0 || !self.is_recognized();
        if let Some(problem) = self.problem(&events, is_damaged) {
            self.report.is_unreadable = true;
            if !self.is_lenient() {
                self.is_over = true;
                self.report.is_blocked = true;
                return WholeBodyVerdict::Refused(Block::new(problem));
            }
        }
        let judged = events
            .into_iter()
            .try_for_each(|event| self.parts.apply(event, &mut texts));
        let copies = self.reader.take_copies();
        texts.set_places(&self.reader.take_places(), copies);
        let edits = self.parts.take_edits(&texts);
        let judged = judged.and_then(|()| match edits.is_empty() {
            true => Ok(None),
            false => rewrite(body, &edits).map(Some).ok_or_else(not_rewritten),
        });
        let block = match judged {
            Ok(rewritten) => {
                self.is_over = true;
                return WholeBodyVerdict::Passes(rewritten);
            }
            Err(block) => block,
        };
        if self.settings.can_retry && block.retry.is_some() {
            self.begin_again(&block);
            self.resume();
            return self
                .next
                .take()
                .map_or(WholeBodyVerdict::Refused(block), WholeBodyVerdict::Retry);
        }
        self.block_whole(body, &block)
    }

    /// Blocks a reply that is not streamed.
    pub(crate) fn block_whole(&mut self, body: &[u8], block: &Block) -> WholeBodyVerdict {
        self.is_over = true;
        self.report.is_blocked = true;
        self.report.rule = block.rule.clone();
        match (self.settings.ending, serde_json::from_slice::<Value>(body)) {
            (BlockEnding::Soft, Ok(reply)) => {
                let reply = self.api.whole(&reply, &block.reason());
                WholeBodyVerdict::Passes(Some(reply.to_string().into_bytes()))
            }
            _ => WholeBodyVerdict::Refused(block.clone()),
        }
    }

    /// Blocks a reply that a rule cut, and of which the other attempt cannot be read.
    pub(crate) fn block_unread(&mut self, body: &[u8], block: &Block) -> WholeBodyVerdict {
        // The client receives the end of the reply that was read.
        self.report.is_unreadable = false;
        self.block_whole(body, block)
    }
}
