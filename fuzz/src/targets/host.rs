//! No host can take a byte of a match that a rule holds, redacts or cuts, whatever answers it ignores.

/// Holds what this module says against one input.
pub fn run(data: &[u8]) {
    ttsr_testing::any_host::run(data);
}
