//! Tests that cannot run everywhere, and say so where they do not. Tests of the public interface take this file in
//! as source; `tests/core/rows.rs` checks that no test ends early in silence.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Prints that the running test, or a part of it, is skipped, and why.
pub fn test(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Nobody sees what the macros print in a test that passes. Where even this fails there is nobody to tell.
    writeln!(std::io::stderr(), "skipped: {name}: {why}").ok();
}

/// Returns the value of an environment variable that the test needs; prints that it is skipped where it is not
/// set.
pub fn unless_set(variable: &str) -> Option<OsString> {
    let value = std::env::var_os(variable);
    if value.is_none() {
        test(&format!("{variable} is not set"));
    }
    value
}

/// Returns the folder of the corpus of real recordings, from `TTSR_CORPUS`; prints that the test is skipped where
/// it is not set.
pub fn corpus() -> Option<PathBuf> {
    unless_set("TTSR_CORPUS").map(PathBuf::from)
}
