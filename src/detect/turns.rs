//! Replies that say the same as the replies before them, numbers aside.
//!
//! Of each reply a [`ReplyDigest`] stays: the smallest hashes of its runs of three words. It is small, holds no
//! text, and can be kept with a session.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::words::{Sketch, Words, mix};
use crate::view::chunk::Chunk;

/// Runs of words that a digest keeps.
const RUNS: usize = 64;

/// When replies are too much alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TurnLimits {
    /// How many replies in a row, each like the one before; at least 2.
    pub(crate) turns: usize,
    /// Percent of the runs of three words that two replies share if they are alike.
    pub(crate) percent: usize,
    /// Fewest words of a reply that counts. Shorter ones neither count nor end a row.
    pub(crate) words: usize,
}

impl Default for TurnLimits {
    fn default() -> TurnLimits {
        TurnLimits {
            turns: 3,
            percent: 65,
            words: 20,
        }
    }
}

/// What is kept of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyDigest {
    runs: Vec<u32>,
    words: u64,
}

impl ReplyDigest {
    /// How much of both replies is in both, in percent.
    pub(crate) fn alike(&self, other: &ReplyDigest) -> usize {
        Sketch::<RUNS>::of(&self.runs).alike(&Sketch::of(&other.runs))
    }
}

/// Reads a reply.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReplyDigester {
    words: Words,
    last: [u32; 2],
    count: u64,
    runs: Sketch<RUNS>,
}

impl ReplyDigester {
    pub(crate) fn push(&mut self, chunk: Chunk<'_>) {
        for &byte in chunk.bytes {
            if let Some(word) = self.words.step(byte) {
                self.add(word);
            }
        }
    }

    /// The reply has ended.
    pub(crate) fn digest(mut self) -> ReplyDigest {
        if let Some(word) = self.words.end() {
            self.add(word);
        }
        ReplyDigest {
            runs: self.runs.members().to_vec(),
            words: self.count,
        }
    }

    fn add(&mut self, word: u32) {
        let [first, second] = self.last;
        self.count += 1;
        if self.count >= 3 {
            self.runs
                .add(mix(first.rotate_left(9) ^ mix(second.rotate_left(5) ^ word)));
        }
        self.last = [second, word];
    }
}

/// The last replies of a session, as it keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplyHistory {
    last: VecDeque<ReplyDigest>,
}

impl ReplyHistory {
    /// Takes the digest of a reply; true if it is one too many of its kind.
    pub(crate) fn push(&mut self, limits: &TurnLimits, digest: ReplyDigest) -> bool {
        if digest.words < limits.words as u64 {
            return false;
        }
        let is_same = self
            .last
            .back()
            .is_some_and(|last| last.alike(&digest) >= limits.percent);
        if !is_same {
            self.last.clear();
        }
        self.last.push_back(digest);
        let turns = limits.turns.max(2);
        while self.last.len() > turns {
            self.last.pop_front();
        }
        self.last.len() == turns
    }
}
