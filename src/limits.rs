//! Every bound in one place. All are parameters, so that tests can set them to one.

use serde::{Deserialize, Serialize};
use ttsr_automata::PatternLimits;

/// What to do when a bound is reached while a stream is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnLimit {
    /// Cut the stream: a decision whose source is the limit.
    #[default]
    Abort,
    /// Go on; what could not be matched is counted as unscanned.
    Continue,
}

impl OnLimit {
    /// The name used in every output: `abort` or `continue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OnLimit::Abort => "abort",
            OnLimit::Continue => "continue",
        }
    }
}

/// The bounds of a pack and of the streams read with it.
///
/// # Example: a smaller table
/// ```
/// let limits = ttsr::Limits { table_bytes: 1 << 20, ..ttsr::Limits::default() };
/// assert!(limits.table_bytes < ttsr::Limits::default().table_bytes);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest pattern, in bytes of its text. Default 64 KiB.
    pub pattern_bytes: usize,
    /// Most automaton states one rule may need, estimated before anything is built. Default 65,536.
    pub rule_states: usize,
    /// Most automaton states all rules of a pack may need together. Default 4,194,304.
    pub pack_states: usize,
    /// Most work of one load, in steps: one for each byte of a rule file, 1,024 for each entry of a scope once
    /// lists are filled in, and 1,024 and 64 for each byte for each pattern. A million steps take some
    /// milliseconds. Work is counted, not timed, so a pack loads on every machine or on none. Default 2^30.
    pub load_steps: u64,
    /// Largest rule file, in bytes. Default 16 MiB.
    pub file_bytes: u64,
    /// Most rule files in a pack folder. Default 4,096.
    pub files: usize,
    /// Budget of one automaton's transition table and state sets, in bytes. Past it matching stays
    /// exact and linear, and is slower until a new table has replaced the spent one; while streams still
    /// use that, both are there. There is an automaton for each channel and each way that rules see it (as
    /// it is, a fold, a region), and one more each for rules that hold or redact and for those that want
    /// whole matches. Default 64 MiB, of which only what is used is resident. A table begins with room for
    /// 16 MiB of it (32 MiB where an automaton has 128 patterns and more), and address space is taken for three
    /// times its room.
    pub table_bytes: usize,
    /// Most parts of one stream. One that is closed costs at most 20 bytes, and 40 more with the names of its tool,
    /// its call and its file, where it has any; one past the limit costs nothing. Default 10,000.
    pub parts: usize,
    /// Deepest nesting of JSON tool input. Default 128.
    pub json_depth: usize,
    /// Longest argument path and file path kept, in bytes. Default 4,096.
    pub path_bytes: usize,
    /// Most bytes before the end of a match that a pattern with look-around or back-references is
    /// checked on (feature `lookaround`). Default 4,096.
    pub confirm_bytes: usize,
    /// Longest match, in bytes of its haystack, of a rule that wants whole matches: one that counts,
    /// redacts, holds, or whose patterns must or must not stand together. A longer one is cut there, and
    /// counted. Such rules are read together, those that hold or redact by themselves: while one has a match in
    /// progress, what another has found waits to be certain, and where one is cut, a match of another that
    /// is in progress there is, too. Default 64 KiB.
    pub stretch_bytes: usize,
    /// Most steps of one such check. What is not decided by then is a hit of a critical rule, and is
    /// counted as unconfirmed for any other. Default 100,000.
    pub confirm_steps: usize,
    /// Most places of one haystack that wait for text such a pattern looks ahead at. Past it, what is
    /// true of `confirm_steps` holds. Default 1,024.
    pub confirm_pending: usize,
    /// Most bytes of one piece of code that is kept for rules with `ast`, and parsed (feature `ast`). Past it
    /// the code is no longer read for them: a hit of critical rules, and counted as unconfirmed. Its tree takes
    /// some ten times as much memory. Default 256 KiB.
    pub ast_bytes: usize,
    /// Most steps of one parse, in hundreds, besides four for each hundred bytes. A text that needs more is
    /// not read on, like one that is too long. Default 1,000.
    pub ast_steps: usize,
    /// Most retries in one turn of a session, by all rules together: the backstop. Default 3.
    pub turn_retries: u32,
    /// What happens when `parts`, `json_depth` or `path_bytes` is reached in a stream.
    pub on_limit: OnLimit,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            pattern_bytes: 64 << 10,
            rule_states: 1 << 16,
            pack_states: 1 << 22,
            load_steps: 1 << 30,
            file_bytes: 16 << 20,
            files: 4096,
            table_bytes: 64 << 20,
            parts: 10_000,
            json_depth: 128,
            path_bytes: 4096,
            confirm_bytes: 4096,
            stretch_bytes: 64 << 10,
            confirm_steps: 100_000,
            confirm_pending: 1024,
            ast_bytes: 256 << 10,
            ast_steps: 1000,
            turn_retries: 3,
            on_limit: OnLimit::Abort,
        }
    }
}

impl Limits {
    /// Returns the bounds of a single pattern.
    pub(crate) fn of_pattern(&self) -> PatternLimits {
        PatternLimits {
            pattern_bytes: self.pattern_bytes,
            rule_states: self.rule_states,
            confirm_steps: self.confirm_steps,
        }
    }
}
