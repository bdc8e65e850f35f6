//! Patterns with look-around and back-references. An automaton searches for a regular over-approximation of such a
//! pattern ([`approximate`]), and a backtracking engine with a step budget verifies each candidate in a window of text
//! ([`verify`]). `diagnose` finds the error to report for a pattern that does not parse.

pub mod approximate;
mod diagnose;
pub mod verify;
