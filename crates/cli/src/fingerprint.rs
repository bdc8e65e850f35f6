//! Fingerprints of matches that do not change when lines move.

use std::collections::HashMap;

/// Counts equal matches of one file.
#[derive(Debug, Default)]
pub(crate) struct Fingerprints {
    seen: HashMap<u64, u64>,
}

impl Fingerprints {
    /// Returns the fingerprint of the next match of a rule: a hash of the rule id, the matched text with each run of white
    /// space replaced by one space, and the number of equal matches before it in the file. All matches of a rule whose
    /// text is secret count as equal.
    pub(crate) fn next(&mut self, rule: &str, text: Option<&str>) -> String {
        let mut hash = hash(FNV, rule.as_bytes());
        hash = self::hash(hash, b"\0");
        for word in text.into_iter().flat_map(str::split_whitespace) {
            hash = self::hash(hash, word.as_bytes());
            hash = self::hash(hash, b" ");
        }
        let seen = self.seen.entry(hash).or_default();
        let found = self::hash(hash, &seen.to_le_bytes());
        *seen += 1;
        format!("{found:016x}")
    }
}

const FNV: u64 = 0xCBF2_9CE4_8422_2325;

/// FNV-1a.
fn hash(start: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(start, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fingerprint_tells_rules_texts_and_occurrences_apart_and_not_white_space() {
        let mut one = Fingerprints::default();
        let first = one.next("t/a", Some("let  x\n= 1"));
        let all = [
            one.next("t/a", Some("let x = 1")),
            one.next("t/b", Some("let x = 1")),
            one.next("t/a", Some("let x = 2")),
            one.next("t/a", None),
            one.next("t/a", None),
        ];
        let mut names: Vec<&String> = all.iter().chain([&first]).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
        assert_eq!(
            Fingerprints::default().next("t/a", Some("let x = 1")),
            first
        );
        // The value must not change between versions: users keep lists of known findings in files.
        assert_eq!(first, "3bc200a5fcb1886a");
    }
}
