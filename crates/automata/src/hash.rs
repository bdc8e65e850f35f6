//! Hash functions that are the same on every machine and in every run, so that layouts and tables are reproducible.
//!
//! They are not keyed. A collision of 64 bits costs speed or sends a state to the fallback; it changes no hit, because
//! the values are compared in full wherever a hit depends on them. Sets of classes are identified by 128 bits alone.

use std::hash::{BuildHasherDefault, Hash, Hasher};

/// 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// Hashes a number so that sums of different sets differ: the first output of SplitMix64 with this seed
/// (<https://prng.di.unimi.it/splitmix64.c>).
pub(super) fn hash_number(value: u64) -> u64 {
    // Without the increment 0 would hash to 0, and a set with the element 0 would have the sum of the set without it.
    let mixed = value.wrapping_add(GOLDEN);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

/// Hashes a number to 128 bits, for sums that identify a set without a comparison.
pub(super) fn wide(value: u64) -> u128 {
    let [high, low] = [2 * value, 2 * value + 1].map(|half| u128::from(hash_number(half)));
    high << 64 | low
}

/// Combines the hash of a list with its next value: the halves of a product, as in wyhash
/// (<https://github.com/wangyi-fudan/wyhash>).
#[inline(always)]
pub(super) fn combine(hash: u64, value: u64) -> u64 {
    // Both halves of the product: the low one alone would ignore the high bits of the value.
    let product = u128::from(hash ^ value ^ 0x2545_F491_4F6C_DD1D) * u128::from(GOLDEN);
    product as u64 ^ (product >> 64) as u64
}

/// Hashes a byte string, eight bytes at a time.
pub(super) fn hash_bytes(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    // The length distinguishes a list from the same list padded with zeros.
    let length = (bytes.len() as u64).wrapping_mul(GOLDEN);
    let hash = words.iter().fold(length, |hash, word| {
        combine(hash, u64::from_le_bytes(*word))
    });
    let mut last = [0; 8];
    // The last word is padded with zeros, also if it is empty, so that every length ends alike.
    last[..rest.len()].copy_from_slice(rest);
    combine(hash, u64::from_le_bytes(last))
}

/// The most ranges of a [`RangesKey`] that its hash includes.
const HASHED_RANGES: usize = 64;

/// Ranges of code points as a key of a map with [`IdentityHasher`]. Keys are compared in full; the hash of a long list,
/// such as that of `\w`, includes a sample of its ranges.
// PERF: with SipHash over all ranges, hashing classes took 36 % of the instructions to load 100 rules
// (`cargo bench --bench instructions`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RangesKey(pub(super) Vec<(u32, u32)>);

impl Hash for RangesKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ranges = &self.0;
        // Every n-th range and the last one: two classes that differ only in between share a hash and are then
        // compared.
        let step = ranges.len().div_ceil(HASHED_RANGES).max(1);
        let sample = ranges.iter().step_by(step).chain(ranges.last());
        let hash = sample.fold(ranges.len() as u64, |hash, &(start, end)| {
            combine(hash, u64::from(start) << 32 | u64::from(end))
        });
        state.write_u64(hash);
    }
}

/// A map whose keys hash to well-mixed numbers.
pub(super) type IdentityMap<K, V> =
    std::collections::HashMap<K, V, BuildHasherDefault<IdentityHasher>>;

/// A hasher for keys that are hashes already.
#[derive(Debug, Default)]
pub(super) struct IdentityHasher(u64);

impl Hasher for IdentityHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        self.0 = combine(self.0, hash_bytes(bytes));
    }
    fn write_u64(&mut self, value: u64) {
        // The key already is a hash.
        self.0 = value;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    /// Asserts that every bit of the result flips about half of the time when one bit of the value does.
    fn assert_mixes(bits: u32, hash: impl Fn(u64) -> u128) {
        const VALUES: u64 = 2_000;
        // The hashed numbers are small, alone or with a tag in the upper half.
        let values = (0..VALUES).map(|value| value | (value % 3) << 32);
        for flipped in (0..12).chain(32..34) {
            let mut turned = vec![0u64; bits as usize];
            for value in values.clone() {
                let change = hash(value) ^ hash(value ^ 1 << flipped);
                for (bit, turned) in turned.iter_mut().enumerate() {
                    *turned += (change >> bit) as u64 & 1;
                }
            }
            for (bit, &turned) in turned.iter().enumerate() {
                // A fair coin deviates from one half by more than 0.2 once in a billion billion times.
                let share = turned as f64 / VALUES as f64;
                assert!(
                    (0.3..0.7).contains(&share),
                    "{flipped} turns {bit}: {share}"
                );
            }
        }
        let different: HashSet<u128> = (0..100_000).map(&hash).collect();
        assert_eq!(different.len(), 100_000);
    }

    #[test]
    fn numbers_are_mixed() {
        assert_mixes(64, |value| hash_number(value).into());
        assert_mixes(128, wide);
        // No half equals a half of another number, or the other half of the same number.
        let halves = (0..1000)
            .map(wide)
            .flat_map(|hash| [(hash >> 64) as u64, hash as u64]);
        assert_eq!(halves.collect::<HashSet<u64>>().len(), 2000);
    }

    #[test]
    fn numbers_are_those_of_splitmix64() {
        // <https://rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64>
        assert_eq!(hash_number(1_234_567), 6_457_827_717_110_365_317);
        let second = 1_234_567u64.wrapping_add(GOLDEN);
        assert_eq!(hash_number(second), 3_203_168_211_198_807_973);
    }

    #[test]
    fn lists_that_differ_anywhere_have_different_hashes() {
        let mut lists: Vec<Vec<u8>> = vec![Vec::new()];
        for length in 1..40 {
            lists.push(vec![0; length]);
            for at in 0..length {
                for value in 1..=255 {
                    let mut list = vec![0; length];
                    list[at] = value;
                    lists.push(list);
                }
            }
        }
        let different: HashSet<u64> = lists.iter().map(|list| hash_bytes(list)).collect();
        assert_eq!(different.len(), lists.len());
        // Every bit is set in about half of the hashes: tables index by some of the bits alone.
        for bit in 0..64 {
            let set = lists.iter().filter(|list| hash_bytes(list) >> bit & 1 == 1);
            let share = set.count() as f64 / lists.len() as f64;
            assert!((0.45..0.55).contains(&share), "bit {bit}: {share}");
        }
        assert_ne!(
            combine(combine(0, 1), 2),
            combine(combine(0, 2), 1),
            "their order counts"
        );
    }

    #[test]
    fn long_lists_of_ranges_are_sampled_and_compared_in_full() {
        let ranges = |count: u32| RangesKey((0..count).map(|at| (3 * at, 3 * at + 1)).collect());
        let mut map = IdentityMap::default();
        for count in 0..300 {
            assert_eq!(map.insert(ranges(count), count), None);
        }
        let mut other = ranges(299);
        other.0[1].1 += 1;
        assert_eq!(map.insert(other, 0), None, "not in the sample");
        for count in 0..300 {
            assert_eq!(map.get(&ranges(count)), Some(&count));
        }
        let hash = |key: &RangesKey| {
            let mut hasher = IdentityHasher::default();
            key.hash(&mut hasher);
            hasher.finish()
        };
        let different: HashSet<u64> = (0..300).map(|count| hash(&ranges(count))).collect();
        assert_eq!(different.len(), 300);
    }

    #[test]
    fn a_key_is_its_hash() {
        let mut hasher = IdentityHasher::default();
        hasher.write_u64(7);
        assert_eq!(hasher.finish(), 7);
        hasher.write(b"ab");
        assert_eq!(hasher.finish(), combine(7, hash_bytes(b"ab")));
    }
}
