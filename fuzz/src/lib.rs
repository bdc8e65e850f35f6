//! What fuzzing holds the crate to: one function for each target, which takes any bytes and panics where a promise is
//! broken. The targets of `fuzz_targets` call them, and so does `tests/seeds.rs`, on stable.

// What is not public is taken in as source.
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
