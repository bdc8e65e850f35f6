//! The fuzzed properties: one function per target, which takes any bytes and panics if the property is violated. The
//! targets in `fuzz_targets` call them, and so does `tests/seeds.rs` on the stable toolchain.

// Private modules are included as source.
#[path = "../../src"]
#[allow(dead_code, reason = "taken in as source, and only some of it is used")]
mod ours {
    pub(crate) mod detect;
    pub(crate) mod view;
}
use ours::{detect, view};

mod input;
mod seen;
pub mod targets;
