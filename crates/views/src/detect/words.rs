//! Words of a text as hashes, in lower case, with all numbers equal.

/// Splits text into words.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Words {
    hash: u32,
    /// True if the word so far ends in a digit. Consecutive digits are one.
    in_number: bool,
}

impl Words {
    /// Consumes a byte. Returns the word that ends before it.
    #[inline]
    pub(super) fn step(&mut self, byte: u8) -> Option<u32> {
        if byte.is_ascii_digit() {
            if !self.in_number {
                self.add(b'0');
                self.in_number = true;
            }
            return None;
        }
        if byte.is_ascii_alphabetic() || byte >= 0x80 {
            self.in_number = false;
            self.add(byte.to_ascii_lowercase());
            return None;
        }
        self.end()
    }

    /// Returns the word that the end of the text ends.
    #[inline]
    pub(super) fn end(&mut self) -> Option<u32> {
        let hash = std::mem::take(&mut self.hash);
        self.in_number = false;
        (hash != 0).then(|| mix(hash))
    }

    fn add(&mut self, byte: u8) {
        self.hash = (self.hash ^ u32::from(byte))
            .wrapping_mul(0x0100_0193)
            .wrapping_add(1)
            | 1;
    }
}

/// Mixes the bits of a hash.
pub(super) fn mix(hash: u32) -> u32 {
    let hash = (hash ^ hash >> 16).wrapping_mul(0x7FEB_352D);
    let hash = (hash ^ hash >> 15).wrapping_mul(0x846C_A68B);
    hash ^ hash >> 16
}

/// The smallest hashes of a set (MinHash), by which sets are compared. Exact if the set has at most `N` members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sketch<const N: usize> {
    least: [u32; N],
    len: usize,
}

impl<const N: usize> Default for Sketch<N> {
    fn default() -> Self {
        Sketch {
            least: [0; N],
            len: 0,
        }
    }
}

impl<const N: usize> Sketch<N> {
    /// Adds a member.
    pub(super) fn add(&mut self, hash: u32) {
        if self.len == N && hash >= self.least[N - 1] {
            return;
        }
        let Err(at) = self.least[..self.len].binary_search(&hash) else {
            return;
        };
        self.len = (self.len + 1).min(N);
        self.least.copy_within(at..self.len - 1, at + 1);
        self.least[at] = hash;
    }

    pub(super) fn members(&self) -> &[u32] {
        &self.least[..self.len]
    }

    /// Returns the sketch of the given members.
    pub(super) fn from_members(members: &[u32]) -> Self {
        let mut sketch = Sketch::default();
        members.iter().for_each(|&member| sketch.add(member));
        sketch
    }

    /// Returns an estimate of the Jaccard similarity of both sets, in percent.
    pub(super) fn similarity_percent(&self, other: &Self) -> usize {
        let (a, b) = (self.members(), other.members());
        let (mut i, mut j, mut both, mut all) = (0, 0, 0, 0);
        while all < N && (i < a.len() || j < b.len()) {
            let left = a.get(i).copied().map_or(u64::MAX, u64::from);
            let right = b.get(j).copied().map_or(u64::MAX, u64::from);
            i += usize::from(left <= right);
            j += usize::from(right <= left);
            both += usize::from(left == right);
            all += 1;
        }
        (both * 100usize).checked_div(all).unwrap_or(0)
    }
}
