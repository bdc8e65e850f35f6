//! The randomness of a captured text: Shannon entropy in bits per character, relative to its alphabet.
//!
//! Hexadecimal digits carry at most 4 bits and base64 at most 6, so a hexadecimal key has a lower entropy than a base64
//! key. The limit therefore depends on the alphabet. Memory: 1 KiB.

/// The smallest alphabet that contains every character of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EntropyAlphabet {
    Digits,
    Hex,
    /// Letters, digits, and the punctuation of base64 and base64url.
    Base64,
    Any,
}

/// The entropy, in bits per character, from which a text looks random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EntropyLimits {
    /// For hexadecimal digits, 0 to 4. Up to half a bit is subtracted for decimal digits, which are seldom keys.
    pub hex: f64,
    /// For base64, 0 to 6.
    pub base64: f64,
    /// For any other text, 0 to 8.
    pub any: f64,
    /// The fewest characters of a random text.
    pub chars: usize,
}

impl Default for EntropyLimits {
    fn default() -> EntropyLimits {
        EntropyLimits {
            hex: 3.0,
            base64: 4.0,
            any: 4.2,
            chars: 16,
        }
    }
}

/// The byte counts of a text.
#[derive(Clone, Debug)]
pub struct Entropy {
    counts: [u32; 256],
    len: u32,
}

impl Default for Entropy {
    fn default() -> Entropy {
        Entropy {
            counts: [0; 256],
            len: 0,
        }
    }
}

impl Entropy {
    /// Counts a whole text.
    pub fn from_text(text: &[u8]) -> Entropy {
        let mut entropy = Entropy::default();
        entropy.push(text);
        entropy
    }

    /// Counts more of the text. Bytes beyond 4 GiB are ignored.
    pub(crate) fn push(&mut self, text: &[u8]) {
        for &byte in text {
            let Some(len) = self.len.checked_add(1) else {
                return;
            };
            self.len = len;
            self.counts[usize::from(byte)] += 1;
        }
    }

    /// Returns the entropy in bits per byte, 0 to 8. Padding (`=`) is ignored.
    pub fn bits(&self) -> f64 {
        let len = f64::from(self.len - self.counts[usize::from(b'=')]);
        let counts = self.counts.iter().enumerate();
        let counts = counts.filter(|&(byte, &count)| count > 0 && byte != usize::from(b'='));
        let bits: f64 = counts
            .map(|(_, &count)| f64::from(count) * (len / f64::from(count)).log2())
            .sum();
        if len > 0.0 { bits / len } else { 0.0 }
    }

    pub(crate) fn alphabet(&self) -> EntropyAlphabet {
        let only = |is: fn(u8) -> bool| {
            (0..=255u8).all(|byte| self.counts[usize::from(byte)] == 0 || is(byte))
        };
        if only(|byte| byte.is_ascii_digit()) {
            EntropyAlphabet::Digits
        } else if only(|byte| byte.is_ascii_hexdigit()) {
            EntropyAlphabet::Hex
        } else if only(|byte| byte.is_ascii_alphanumeric() || b"+/-_=".contains(&byte)) {
            EntropyAlphabet::Base64
        } else {
            EntropyAlphabet::Any
        }
    }

    /// Returns true if the text looks random.
    pub fn is_random(&self, limits: &EntropyLimits) -> bool {
        if (self.len as usize) < limits.chars {
            return false;
        }
        let bits = self.bits();
        match self.alphabet() {
            // The shorter the text, the more likely it contains all ten digits by chance.
            EntropyAlphabet::Digits => bits - 1.2 / f64::from(self.len).log2() >= limits.hex,
            EntropyAlphabet::Hex => bits >= limits.hex,
            EntropyAlphabet::Base64 => bits >= limits.base64,
            EntropyAlphabet::Any => bits >= limits.any,
        }
    }
}
