//! The accelerator for short input: deltas of at most [`MAX_SHORT_LEN`] bytes, which is what models send.
//!
//! Contract: it reads the table and returns the last state with the ORed bits of all states on the way. It does
//! not touch a cursor and reports nothing; the caller discards the result if a state was special.

use super::super::simd::SimdLevel;
use super::{BLOCK, MAX_SHORT_LEN, StateId, Table};

/// A short delta, classified and stepped from one state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ShortInput {
    /// The state after the last byte.
    pub(crate) state: StateId,
    /// The bits of all states on the way, ORed.
    pub(crate) bits: u32,
    /// The columns of the bytes, padded with `STAY`.
    columns: u128,
    len: usize,
}

impl Table {
    /// Steps at most [`MAX_SHORT_LEN`] bytes and copies them to `padded_out`, padded with zeros. Returns the last state and the ORed
    /// bits of all states on the way. There is no branch on the number of bytes: absent bytes have the column
    /// `STAY`, and only the number of blocks of four is tested. Bytes that need decoding lead to [`Table::unknown`].
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    pub(crate) unsafe fn step_short(
        &self,
        state: StateId,
        bytes: &[u8],
        padded_out: &mut [u8; MAX_SHORT_LEN],
    ) -> (StateId, u32) {
        match self.level {
            // SAFETY: 1. by the contract. 2. The level is `Avx512` only if the processor supports the instruction sets of
            // this function.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { step_avx512(self, state, bytes, padded_out) },
            // SAFETY: 1. by the contract.
            SimdLevel::Portable => unsafe { step_portable(self, state, bytes, padded_out) },
        }
    }

    /// As [`step_short`](Self::step_short), for callers that step several states over the same bytes: it returns their
    /// columns too. Calls `visit` with each state on the way, those of the padding included.
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    pub(crate) unsafe fn step_short_visiting(
        &self,
        state: StateId,
        bytes: &[u8],
        visit: impl FnMut(StateId),
    ) -> ShortInput {
        let (padded, columns) = match self.level {
            // SAFETY: the level is `Avx512` only if the processor supports the instruction sets of this function.
            #[cfg(target_arch = "x86_64")]
            SimdLevel::Avx512 => unsafe { columns_avx512(&self.bytes.0, bytes) },
            SimdLevel::Portable => columns_portable(&self.bytes.0, bytes),
        };
        let len = bytes.len().min(MAX_SHORT_LEN);
        // The columns of other bytes are unspecified. Such a delta ends in `UNKNOWN`, so the caller declines it.
        let (state, bits) = match is_ascii(padded) {
            // SAFETY: 1. by the contract.
            true => unsafe { step_blocks(self, state, columns, len, visit) },
            false => (self.unknown(), self.unknown().bits()),
        };
        ShortInput {
            state,
            bits,
            columns,
            len,
        }
    }

    /// Steps another state over the bytes of a short delta. Returns the last state and the ORed bits of all states.
    ///
    /// # Safety
    ///
    /// 1. As of [`next`](Self::next).
    #[inline(always)]
    pub(crate) unsafe fn step_classified(
        &self,
        short: &ShortInput,
        state: StateId,
    ) -> (StateId, u32) {
        // SAFETY: 1. by the contract.
        unsafe { step_blocks(self, state, short.columns, short.len, |_| ()) }
    }
}

#[inline(always)]
fn is_ascii(padded: [u8; MAX_SHORT_LEN]) -> bool {
    // One test for all bytes. The padding is zeros, which are ASCII.
    u128::from_le_bytes(padded) & u128::from_le_bytes([128; MAX_SHORT_LEN]) == 0
}

/// Steps the columns of a delta of `len` bytes, and calls `visit` with each state on the way, those of the padding
/// included. The columns after `len` are `STAY`.
///
/// # Safety
///
/// 1. As of [`Table::next`].
#[inline(always)]
unsafe fn step_blocks(
    table: &Table,
    state: StateId,
    columns: u128,
    len: usize,
    mut visit: impl FnMut(StateId),
) -> (StateId, u32) {
    // The first state may have a sparse row, which `next` cannot read: its bit makes the caller decline (invariant 3 of
    // `lazy_dfa::search`). Steps on `STAY` add the bits of the last state again, so padding declines nothing.
    let (mut state, mut bits, mut columns, mut done) = (state, state.entry_bits(), columns, 0);
    loop {
        let block = (columns as u32).to_le_bytes();
        // SAFETY: 1. by the contract, for the first block; for the others the state is that of the step before.
        state = unsafe { table.step_block_with(state, block, &mut bits, &mut visit) };
        done += BLOCK;
        columns >>= 8 * BLOCK;
        if done >= len {
            return (state, bits);
        }
    }
}

/// Returns the bytes padded with zeros and their columns padded with `STAY`. If a byte is not ASCII the columns are
/// unspecified.
#[inline(always)]
fn columns_portable(columns: &[u8; 256], bytes: &[u8]) -> ([u8; MAX_SHORT_LEN], u128) {
    let len = bytes.len().min(MAX_SHORT_LEN);
    let padded = padded(&bytes[..len]);
    // Eight at a time: most deltas have no more.
    let half = |at: usize| {
        let half = (padded >> (8 * at)) as u64;
        let of = half.to_le_bytes().map(|byte| columns[usize::from(byte)]);
        // The padding has the column of byte 0, which must become `STAY`. A half without any byte is shifted by 64
        // bits, which `checked_shr` refuses: then no column remains.
        let absent = 8 * (at + 8).saturating_sub(len) as u32;
        u64::from_le_bytes(of) & u64::MAX.checked_shr(absent).unwrap_or(0)
    };
    let high = if len > 8 { half(8) } else { 0 };
    let of = u128::from(high) << 64 | u128::from(half(0));
    (padded.to_le_bytes(), of)
}

/// Returns at most [`MAX_SHORT_LEN`] bytes as an integer, padded with zeros, the first byte lowest.
// PERF: 15.7 ns for a portable delta at 100 rules; 26.3 ns with a `memcpy` of variable length and a lookup of all
// sixteen columns (`cargo bench --bench versus -- 100`).
#[inline(always)]
fn padded(bytes: &[u8]) -> u128 {
    let len = bytes.len();
    // The two loads overlap if `len < 16`; the overlapping bytes are ORed with themselves.
    if let (Some(&first), Some(&last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u64::from_le_bytes(first), u64::from_le_bytes(last));
        return u128::from(first) | u128::from(last) << (8 * (len - 8));
    }
    if let (Some(&first), Some(&last)) = (bytes.first_chunk(), bytes.last_chunk()) {
        let (first, last) = (u32::from_le_bytes(first), u32::from_le_bytes(last));
        return (u64::from(first) | u64::from(last) << (8 * (len - 4))).into();
    }
    // One to three bytes: the first, the middle and the last are all of them, and overlap as above.
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return 0;
    };
    let (middle, last) = (u32::from(bytes[len / 2]), u32::from(last));
    (u32::from(first) | middle << (8 * (len / 2)) | last << (8 * (len - 1))).into()
}

/// # Safety
///
/// 1. As of [`Table::next`].
// PERF: inlined beside the call of the AVX-512 path, this spills registers there: a third of that path's time.
#[cfg_attr(target_arch = "x86_64", inline(never))]
#[cfg_attr(not(target_arch = "x86_64"), inline(always))]
unsafe fn step_portable(
    table: &Table,
    state: StateId,
    bytes: &[u8],
    padded_out: &mut [u8; MAX_SHORT_LEN],
) -> (StateId, u32) {
    let (padded, columns) = columns_portable(&table.bytes.0, bytes);
    *padded_out = padded;
    if !is_ascii(padded) {
        return (table.unknown(), table.unknown().bits());
    }
    // SAFETY: 1. by the contract.
    unsafe {
        step_blocks(
            table,
            state,
            columns,
            bytes.len().min(MAX_SHORT_LEN),
            |_| (),
        )
    }
}

/// As [`columns_portable`], with all columns from one masked load.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
fn columns_avx512(columns: &[u8; 256], bytes: &[u8]) -> ([u8; MAX_SHORT_LEN], u128) {
    use std::arch::x86_64::{
        __m128i, _bzhi_u32, _mm_maskz_loadu_epi8, _mm512_castsi128_si512, _mm512_castsi512_si128,
        _mm512_loadu_si512, _mm512_maskz_permutex2var_epi8,
    };
    let len = bytes.len().min(MAX_SHORT_LEN);
    let mask = _bzhi_u32(u32::MAX, len as u32) as u16;
    // SAFETY: the mask selects `bytes[..len]`; bytes that are masked out are not read.
    let text = unsafe { _mm_maskz_loadu_epi8(mask, bytes.as_ptr().cast()) };
    // SAFETY: the columns of the 128 ASCII bytes are two blocks of 64 bytes.
    let half = |at: usize| unsafe { _mm512_loadu_si512(columns[64 * at..][..64].as_ptr().cast()) };
    let wide = _mm512_castsi128_si512(text);
    // The permutation ignores the high bit, so a byte that is not ASCII gets the column of another one; callers test
    // for that. Columns without a mask bit are zero, which is `STAY`.
    let of = _mm512_maskz_permutex2var_epi8(mask.into(), half(0), wide, half(1));
    // SAFETY: both types have sixteen bytes and no padding.
    let plain = |vector: __m128i| unsafe { std::mem::transmute::<__m128i, u128>(vector) };
    (plain(text).to_le_bytes(), plain(_mm512_castsi512_si128(of)))
}

/// # Safety
///
/// 1. As of [`Table::next`].
/// 2. The processor supports the instruction sets below.
// PERF: 8.4 ns a delta at 10 rules against 13.7 portable, and 10.8 against 15.7 at 100 rules; a sum of the bytes
// takes 8.4 (`cargo bench --bench versus -- 10,100`).
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
unsafe fn step_avx512(
    table: &Table,
    state: StateId,
    bytes: &[u8],
    padded_out: &mut [u8; MAX_SHORT_LEN],
) -> (StateId, u32) {
    let (padded, columns) = columns_avx512(&table.bytes.0, bytes);
    *padded_out = padded;
    if !is_ascii(padded) {
        return (table.unknown(), table.unknown().bits());
    }
    // SAFETY: 1. by the contract.
    unsafe {
        step_blocks(
            table,
            state,
            columns,
            bytes.len().min(MAX_SHORT_LEN),
            |_| (),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lengths_have_the_columns_of_their_bytes_and_zeros_behind_them() {
        let columns = std::array::from_fn(|byte| byte as u8 ^ 0x55);
        let text: [u8; 20] = std::array::from_fn(|at| b'a' + at as u8);
        for len in 0..=text.len() {
            let (padded, of) = columns_portable(&columns, &text[..len]);
            let of = of.to_le_bytes();
            for at in 0..MAX_SHORT_LEN {
                let byte = if at < len { text[at] } else { 0 };
                assert_eq!(padded[at], byte, "{at} of {len}");
                assert_eq!(
                    of[at],
                    if at < len { byte ^ 0x55 } else { 0 },
                    "{at} of {len}"
                );
            }
            #[cfg(target_arch = "x86_64")]
            if SimdLevel::best() == SimdLevel::Avx512 {
                // SAFETY: the processor supports AVX-512.
                let wide = unsafe { columns_avx512(&columns, &text[..len]) };
                assert_eq!(wide, (padded, u128::from_le_bytes(of)));
            }
        }
    }
}
