//! Detection of the vector instructions that the processor has.

/// The vector instructions in use: detected once, and forced in tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimdLevel {
    /// No vector instructions. The prefilter is off.
    Portable,
    /// AVX-512 with byte permutations (`vbmi`).
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl SimdLevel {
    /// The highest level that this processor supports.
    pub(crate) fn best() -> SimdLevel {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            return SimdLevel::Avx512;
        }
        SimdLevel::Portable
    }
}

/// True if the processor has every instruction set that the AVX-512 functions enable.
#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    // All or none: the functions are compiled for the whole list, and a processor that lacks one entry would fault in
    // them.
    [
        is_x86_feature_detected!("avx512f"),
        is_x86_feature_detected!("avx512bw"),
        is_x86_feature_detected!("avx512vl"),
        is_x86_feature_detected!("avx512vbmi"),
        is_x86_feature_detected!("bmi2"),
    ]
    .into_iter()
    .all(|is_supported| is_supported)
}
