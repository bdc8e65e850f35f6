//! The library without its loop: packs, matching under every split, sessions, and the files of the repository that are
//! made from them.

#[cfg(feature = "ast")]
mod ast;
mod conditions;
mod enums;
#[cfg(feature = "unicode")]
mod evasions;
mod faults;
mod layers;
mod pack;
mod packs;
mod rows;
mod session;
mod splits;
mod suite;
mod supply;
