//! The fuzzed properties: one function per target, which takes any bytes and panics if the property is violated. The
//! targets in `fuzz_targets` call them, and so does `tests/seeds.rs` on the stable toolchain.

mod input;
mod seen;
pub mod targets;
