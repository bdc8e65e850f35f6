//! Splits the bytes of a part into new deltas, as `--chunk` asks.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// Maximum length of a random delta, in bytes.
const LONGEST: u64 = 32;

/// The places where a part is split into deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chunking {
    /// As recorded.
    Original,
    /// Not at all: one delta per part.
    Whole,
    /// After every `n` bytes.
    Size(NonZeroUsize),
    /// At random places drawn from a seed.
    Random(u64),
}

impl FromStr for Chunking {
    type Err = String;

    fn from_str(text: &str) -> Result<Chunking, String> {
        let wrong = || {
            "expected `original`, `bytes`, `whole`, a number from 1, or `random:SEED`".to_owned()
        };
        match text {
            "original" => Ok(Chunking::Original),
            "whole" => Ok(Chunking::Whole),
            "bytes" => Ok(Chunking::Size(NonZeroUsize::MIN)),
            _ => match text.strip_prefix("random:") {
                Some(seed) => seed.parse().map(Chunking::Random).map_err(|_| wrong()),
                None => text.parse().map(Chunking::Size).map_err(|_| wrong()),
            },
        }
    }
}

/// Splits one part into deltas.
#[derive(Debug)]
pub(crate) struct Chunker {
    chunking: Chunking,
    /// State of the random number generator.
    random: u64,
    /// Length of the next delta.
    length: usize,
    /// Bytes of the next delta received so far, fewer than `length`.
    pending: Vec<u8>,
}

impl Chunker {
    /// Returns a chunker. Parts with different numbers get different random lengths.
    pub(crate) fn new(chunking: Chunking, number: u64) -> Chunker {
        let seed = match chunking {
            Chunking::Random(seed) => seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F),
            _ => 0,
        };
        let mut chunker = Chunker {
            chunking,
            random: seed,
            length: 0,
            pending: Vec::new(),
        };
        chunker.length = chunker.next_length();
        chunker
    }

    /// Appends recorded bytes and passes every complete delta to `on`.
    pub(crate) fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&[u8])) {
        if self.chunking == Chunking::Original {
            return on(bytes);
        }
        let mut rest = bytes;
        while !rest.is_empty() {
            let (taken, left) = rest.split_at(rest.len().min(self.length - self.pending.len()));
            rest = left;
            if taken.len() == self.length {
                on(taken);
                self.length = self.next_length();
            } else {
                self.pending.extend_from_slice(taken);
                if self.pending.len() == self.length {
                    self.flush(on);
                }
            }
        }
    }

    /// Passes the pending bytes to `on`, because the part ends or its properties change at this offset.
    pub(crate) fn flush(&mut self, on: &mut dyn FnMut(&[u8])) {
        if !self.pending.is_empty() {
            on(&self.pending);
            self.pending.clear();
            self.length = self.next_length();
        }
    }

    fn next_length(&mut self) -> usize {
        match self.chunking {
            Chunking::Original | Chunking::Whole => usize::MAX,
            Chunking::Size(size) => size.get(),
            Chunking::Random(_) => 1 + (self.draw() % LONGEST) as usize,
        }
    }

    /// Returns the next number of SplitMix64, which is deterministic on every platform.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(chunking: &str, deltas: &[&str]) -> Vec<String> {
        let mut chunker = Chunker::new(chunking.parse().unwrap(), 0);
        let mut chunks = Vec::new();
        let mut on = |bytes: &[u8]| chunks.push(String::from_utf8(bytes.to_vec()).unwrap());
        for delta in deltas {
            chunker.push(delta.as_bytes(), &mut on);
        }
        chunker.flush(&mut on);
        chunks
    }

    #[test]
    fn every_chunking_splits_where_it_says() {
        let deltas = ["ab", "cde", "f"];
        for (chunking, expected) in [
            ("original", vec!["ab", "cde", "f"]),
            ("bytes", vec!["a", "b", "c", "d", "e", "f"]),
            ("whole", vec!["abcdef"]),
            ("2", vec!["ab", "cd", "ef"]),
            ("4", vec!["abcd", "ef"]),
            ("99", vec!["abcdef"]),
        ] {
            assert_eq!(split(chunking, &deltas), expected, "{chunking}");
        }
    }

    #[test]
    fn a_seed_splits_the_same_wherever_the_recording_was_split() {
        let text = "0123456789".repeat(30);
        let chunks = split("random:7", &[&text]);
        let (a, b) = text.split_at(101);
        assert_eq!(chunks, split("random:7", &[a, b]));
        assert_eq!(chunks.concat(), text);
        assert_ne!(chunks, split("random:8", &[&text]));
        assert!(chunks.iter().all(|chunk| chunk.len() <= LONGEST as usize));
    }

    #[test]
    fn an_unknown_chunking_is_refused() {
        for text in [
            "", "0", "-1", "random", "random:", "random:x", "Whole", "1.5",
        ] {
            assert!(text.parse::<Chunking>().is_err(), "{text}");
        }
    }
}
