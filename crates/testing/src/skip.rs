//! Messages of tests that are skipped where they cannot run. A test of the repository checks that no test returns early
//! without a message.

use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;

/// Prints that the running test, or a part of it, is skipped, and why.
pub fn test(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // The print macros are captured in a test that passes. If even this write fails, the message is lost.
    writeln!(std::io::stderr(), "skipped: {name}: {why}").ok();
}

/// Returns the value of an environment variable that the test needs. Prints that the test is skipped if it is not set.
pub fn unless_set(variable: &str) -> Option<OsString> {
    let value = std::env::var_os(variable);
    if value.is_none() {
        test(&format!("{variable} is not set"));
    }
    value
}

/// Returns the folder of the corpus of recordings, from `TTSR_CORPUS`. Prints that the test is skipped if it is not
/// set.
pub fn corpus() -> Option<PathBuf> {
    unless_set("TTSR_CORPUS").map(PathBuf::from)
}
