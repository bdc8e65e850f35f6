//! Replies that repeat the preceding replies, apart from numbers.
//!
//! A [`ReplyDigest`] of each reply is kept: the smallest hashes of its runs of three words. It is small, contains no
//! text, and can be saved with a session.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::words::{Sketch, Words, mix};
use crate::chunk::Chunk;

/// The number of runs of words in a digest.
const RUNS: usize = 64;

/// The limits above which similar replies are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TurnLimits {
    /// The number of consecutive replies, each similar to the one before, at least 2.
    pub turns: usize,
    /// The percentage of shared runs of three words from which two replies are similar.
    pub percent: usize,
    /// The fewest words of a reply that counts. Shorter replies neither count nor end a run.
    pub words: usize,
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

/// A digest of a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyDigest {
    runs: Vec<u32>,
    words: u64,
}

impl ReplyDigest {
    /// Returns the percentage of runs of words that both replies share.
    pub(crate) fn similarity_percent(&self, other: &ReplyDigest) -> usize {
        Sketch::<RUNS>::from_members(&self.runs)
            .similarity_percent(&Sketch::from_members(&other.runs))
    }
}

/// Computes the digest of a reply.
#[derive(Clone, Debug, Default)]
pub struct ReplyDigester {
    words: Words,
    last: [u32; 2],
    count: u64,
    runs: Sketch<RUNS>,
}

impl ReplyDigester {
    /// Reads the next chunk of the reply.
    pub fn push(&mut self, chunk: Chunk<'_>) {
        for &byte in chunk.bytes {
            if let Some(word) = self.words.step(byte) {
                self.add(word);
            }
        }
    }

    /// Ends the reply and returns its digest.
    pub fn digest(mut self) -> ReplyDigest {
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

/// The digests of the last replies, saved with a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplyHistory {
    last: VecDeque<ReplyDigest>,
}

impl ReplyHistory {
    /// Appends the digest of a reply. Returns true if the run of similar replies reaches the limit.
    pub fn push(&mut self, limits: &TurnLimits, digest: ReplyDigest) -> bool {
        if digest.words < limits.words as u64 {
            return false;
        }
        let is_same = self
            .last
            .back()
            .is_some_and(|last| last.similarity_percent(&digest) >= limits.percent);
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
