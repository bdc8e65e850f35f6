//! Import of the rules of other tools, as a library: [`foreign`]. The rest of this package is the `ttsr` command.

#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

pub mod foreign;

/// The example of README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
