//! The same tool call over and over.
//!
//! A call is reduced to its name and a hash of each decoded argument, so that the order of keys, white space and the
//! spelling of escapes are irrelevant. Three kinds of runs are counted: of the same call, of two or three alternating
//! calls, and of calls that differ in few of many arguments.
//!
//! Memory: the last [`KEPT`] calls with at most [`ARGUMENTS`] arguments each, about 5 KiB. It contains no text and can
//! be saved with a session.

use std::collections::VecDeque;
use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::chunk::DecidedOffset;
use crate::json::{ArgPath, HaystackSink, JsonDecoder};

/// The number of calls that are kept: the longest cycle.
pub const KEPT: usize = 3;
/// The number of arguments that are compared one by one; all further ones are hashed together.
pub const ARGUMENTS: usize = 64;
const DEPTH: usize = 128;
const PATH_BYTES: usize = 4096;

/// The limits above which a run of calls is a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopLimits {
    /// The length of a run of the same call, or of the same two or three calls in turn, at least 2.
    pub times: u32,
    /// The length of a run of nearly equal calls, at least 2. Reading a long file page by page is such a run.
    pub near_times: u32,
    /// The most arguments in which two nearly equal calls differ. In any case they must be fewer than half of the
    /// arguments.
    pub differing: usize,
}

impl Default for LoopLimits {
    fn default() -> LoopLimits {
        LoopLimits {
            times: 5,
            near_times: 20,
            differing: 1,
        }
    }
}

/// The kind of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallRepetition {
    /// The same call, or several calls in turn.
    Same,
    /// Nearly equal calls.
    Nearly,
}

/// The part of a call that is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallDigest {
    name: u64,
    /// The hashes of path and value, in the order of the paths.
    arguments: Vec<(u64, u64)>,
}

impl CallDigest {
    /// Returns the digest of a call of the tool `name` with this input, as the model wrote it.
    pub fn new(name: &str, input: &[u8]) -> CallDigest {
        let mut arguments = ArgumentHasher::default();
        let mut decoder = JsonDecoder::new(DEPTH, PATH_BYTES);
        decoder.push(input, &mut arguments);
        decoder.finish(&mut arguments);
        arguments.list.sort_unstable();
        CallDigest {
            name: hash(0, name.as_bytes()),
            arguments: arguments.list,
        }
    }

    /// Returns the number of arguments that differ, or `None` if the tool or the paths differ.
    fn differing(&self, other: &CallDigest) -> Option<usize> {
        let paths = |call: &CallDigest| {
            call.arguments
                .iter()
                .map(|argument| argument.0)
                .collect::<Vec<_>>()
        };
        if self.name != other.name || paths(self) != paths(other) {
            return None;
        }
        let both = self.arguments.iter().zip(&other.arguments);
        Some(both.filter(|(one, other)| one != other).count())
    }
}

/// The last calls of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CallHistory {
    last: VecDeque<CallDigest>,
    /// For distances 1, 2 and 3, the number of consecutive calls equal to the one at that distance before.
    rows: [u32; KEPT],
    near: u32,
}

impl CallHistory {
    /// Appends the next call. Returns the kind of the loop if the call exceeds a limit.
    pub fn push(&mut self, limits: &LoopLimits, call: CallDigest) -> Option<CallRepetition> {
        for (back, row) in self.rows.iter_mut().enumerate() {
            let is_same = self.last.get(back) == Some(&call);
            *row = if is_same { row.saturating_add(1) } else { 0 };
        }
        let differing = self.last.front().and_then(|last| last.differing(&call));
        let is_near = differing.is_some_and(|differing| {
            differing <= limits.differing
                && (differing == 0 || differing * 2 < call.arguments.len())
        });
        self.near = if is_near {
            self.near.saturating_add(1)
        } else {
            0
        };
        self.last.push_front(call);
        self.last.truncate(KEPT);
        self.verdict(limits)
    }

    fn verdict(&self, limits: &LoopLimits) -> Option<CallRepetition> {
        let again = limits.times.max(2) - 1;
        let is_same = |(back, row): (u32, &u32)| *row >= again.saturating_mul(back);
        if (1..).zip(&self.rows).any(is_same) {
            Some(CallRepetition::Same)
        } else if self.near >= limits.near_times.max(2) - 1 {
            Some(CallRepetition::Nearly)
        } else {
            None
        }
    }
}

/// A sink of the decoder that hashes the arguments of a call.
#[derive(Debug, Default)]
struct ArgumentHasher {
    list: Vec<(u64, u64)>,
    path: u64,
    value: u64,
}

impl HaystackSink for ArgumentHasher {
    fn open(&mut self, path: &ArgPath, _: u64) {
        self.value = 0;
        self.path = 0;
        for index in 0..path.len() {
            let segment = path.segment(index).unwrap_or_default();
            self.path = hash(self.path.wrapping_add(1), segment.as_bytes());
        }
    }

    fn run(&mut self, bytes: &[u8], _: u64) {
        self.value = extend(self.value, bytes);
    }

    fn escape(&mut self, utf8: &[u8], _: Range<u64>, _: u64) {
        self.value = extend(self.value, utf8);
    }

    fn close(&mut self, _: DecidedOffset) {
        let is_full = self.list.len() >= ARGUMENTS;
        match self.list.last_mut() {
            Some(last) if is_full => {
                last.1 = last
                    .1
                    .wrapping_add(hash(self.path, &self.value.to_le_bytes()));
            }
            _ => self
                .list
                .push((self.path, hash(1, &self.value.to_le_bytes()))),
        }
    }
}

fn hash(seed: u64, bytes: &[u8]) -> u64 {
    let hash = extend(seed, bytes);
    let hash = (hash ^ hash >> 32).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    hash ^ hash >> 29
}

/// Continues a hash. The result does not depend on how the bytes are cut.
fn extend(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &byte| {
        (hash ^ u64::from(byte))
            .wrapping_mul(0x0000_0100_0000_01B3)
            .wrapping_add(0x51)
    })
}
