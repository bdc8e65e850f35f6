//! Splits the bytes of a part into new deltas, as `--chunk` asks.

use std::num::NonZeroUsize;
use std::str::FromStr;

/// Maximum length of a random delta, in bytes.
const LONGEST: u64 = 32;

/// The places where a part is split into deltas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkSize {
    /// As recorded.
    Original,
    /// Not at all: one delta per part.
    Whole,
    /// After every `n` bytes.
    Size(NonZeroUsize),
    /// At random places drawn from a seed.
    Random(u64),
}

impl FromStr for ChunkSize {
    type Err = String;

    fn from_str(text: &str) -> Result<ChunkSize, String> {
        let wrong = || {
            "expected `original`, `bytes`, `whole`, a number from 1, or `random:SEED`".to_owned()
        };
        match text {
            "original" => Ok(ChunkSize::Original),
            "whole" => Ok(ChunkSize::Whole),
            "bytes" => Ok(ChunkSize::Size(NonZeroUsize::MIN)),
            _ => match text.strip_prefix("random:") {
                Some(seed) => seed.parse().map(ChunkSize::Random).map_err(|_| wrong()),
                None => text.parse().map(ChunkSize::Size).map_err(|_| wrong()),
            },
        }
    }
}

/// Splits one part into deltas.
#[derive(Debug)]
pub(crate) struct Chunker {
    chunk: ChunkSize,
    /// State of the random number generator.
    random: u64,
    /// Length of the next delta.
    length: usize,
    /// Bytes of the next delta received so far, fewer than `length`.
    pending: Vec<u8>,
}

impl Chunker {
    /// Returns a splitter. Parts with different numbers get different random lengths.
    pub(crate) fn new(chunk: ChunkSize, number: u64) -> Chunker {
        let seed = match chunk {
            ChunkSize::Random(seed) => seed ^ number.wrapping_mul(0xA076_1D64_78BD_642F),
            _ => 0,
        };
        let mut cutter = Chunker {
            chunk,
            random: seed,
            length: 0,
            pending: Vec::new(),
        };
        cutter.length = cutter.next_length();
        cutter
    }

    /// Appends recorded bytes and passes every complete delta to `on`.
    pub(crate) fn push(&mut self, bytes: &[u8], on: &mut dyn FnMut(&[u8])) {
        if self.chunk == ChunkSize::Original {
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
        match self.chunk {
            ChunkSize::Original | ChunkSize::Whole => usize::MAX,
            ChunkSize::Size(size) => size.get(),
            ChunkSize::Random(_) => 1 + (self.draw() % LONGEST) as usize,
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

    fn cut(chunk: &str, deltas: &[&str]) -> Vec<String> {
        let mut cutter = Chunker::new(chunk.parse().unwrap(), 0);
        let mut cuts = Vec::new();
        let mut on = |bytes: &[u8]| cuts.push(String::from_utf8(bytes.to_vec()).unwrap());
        for delta in deltas {
            cutter.push(delta.as_bytes(), &mut on);
        }
        cutter.flush(&mut on);
        cuts
    }

    #[test]
    fn every_mode_cuts_where_it_says() {
        let deltas = ["ab", "cde", "f"];
        for (chunk, expected) in [
            ("original", vec!["ab", "cde", "f"]),
            ("bytes", vec!["a", "b", "c", "d", "e", "f"]),
            ("whole", vec!["abcdef"]),
            ("2", vec!["ab", "cd", "ef"]),
            ("4", vec!["abcd", "ef"]),
            ("99", vec!["abcdef"]),
        ] {
            assert_eq!(cut(chunk, &deltas), expected, "{chunk}");
        }
    }

    #[test]
    fn a_seed_cuts_the_same_wherever_the_recording_was_cut() {
        let text = "0123456789".repeat(30);
        let cuts = cut("random:7", &[&text]);
        let (a, b) = text.split_at(101);
        assert_eq!(cuts, cut("random:7", &[a, b]));
        assert_eq!(cuts.concat(), text);
        assert_ne!(cuts, cut("random:8", &[&text]));
        assert!(cuts.iter().all(|cut| cut.len() <= LONGEST as usize));
    }

    #[test]
    fn an_unknown_mode_is_refused() {
        for text in [
            "", "0", "-1", "random", "random:", "random:x", "Whole", "1.5",
        ] {
            assert!(text.parse::<ChunkSize>().is_err(), "{text}");
        }
    }
}
