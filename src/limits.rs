//! Every limit in one place. All are parameters, so that tests can set them to one.

use serde::{Deserialize, Serialize};
use ttsr_automata::PatternLimits;

/// The action when a limit is reached while a stream is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnLimit {
    /// Cut the stream, with a decision whose source is the limit.
    #[default]
    Abort,
    /// Continue; bytes that could not be matched are counted as unscanned.
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

/// The limits of a pack and of its streams.
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
    /// Most automaton states one rule may need, estimated before compilation. Default 65,536.
    pub rule_states: usize,
    /// Most automaton states all rules of a pack may need together. Default 4,194,304.
    pub pack_states: usize,
    /// Most work of one load, in steps: one for each byte of a rule file, 1,024 for each entry of a scope after
    /// lists are expanded, and for each pattern 1,024 and 64 for each of its bytes. A million steps take a few
    /// milliseconds. Work is counted, not timed, so a pack loads on every machine or on none. Default 2^30.
    pub load_steps: u64,
    /// Largest rule file, in bytes. Default 16 MiB.
    pub file_bytes: u64,
    /// Most rule files in a pack folder. Default 4,096.
    pub files: usize,
    /// Budget of one automaton's transition table and state sets, in bytes. Above it, matching
    /// stays exact and linear, and is slower until a new table has replaced the full one. While streams still use the
    /// old table, both exist. There is an automaton for each channel and view (unchanged,
    /// folded, a region), and one more each for rules that hold or redact and for those that need full matches.
    /// Default 64 MiB, of which only the used pages are resident. The first table has room for 16 MiB of it (32 MiB if
    /// an automaton has 128 patterns or more), and reserves address space for three times its room.
    pub table_bytes: usize,
    /// Most parts of one stream. A closed part takes at most 20 bytes, and 40 more and its names if it has a tool, a call
    /// or a file; a part above the limit takes none. Default 10,000.
    pub parts: usize,
    /// Deepest nesting of JSON tool input. Default 128.
    pub json_depth: usize,
    /// Longest argument path and file path kept, in bytes. Default 4,096.
    pub path_bytes: usize,
    /// Most bytes before the end of a match on which a pattern with look-around or back-references is
    /// verified (feature `lookaround`). Default 4,096.
    pub confirm_bytes: usize,
    /// Longest match, in bytes of its haystack, of a rule that needs full matches: one that counts, redacts or holds, or
    /// that combines patterns. A longer match is cut there, and counted. Such rules share an automaton, and those that
    /// hold or redact share another. While a match of one rule is in progress, the matches of the others are not
    /// certain; if it is cut, the other matches in progress are cut, too. Default 64 KiB.
    pub stretch_bytes: usize,
    /// Most steps of the verification of one such match. A match that is not verified by then is a hit of a critical
    /// rule, and is counted as unconfirmed for any other. Default 100,000.
    pub confirm_steps: usize,
    /// Most possible matches of one haystack that wait for the text that such a pattern looks ahead at. Further ones are
    /// treated like those above `confirm_steps`. Default 1,024.
    pub confirm_pending: usize,
    /// Most bytes of one block of code that are kept and parsed for rules with `ast` (feature `ast`). A longer block is
    /// no longer read for them: it is a hit of critical rules, and is counted as unconfirmed. The syntax tree takes about
    /// ten times as much memory. Default 256 KiB.
    pub ast_bytes: usize,
    /// Most steps of one parse, in hundreds, in addition to four steps for each hundred bytes. A block that needs more is
    /// treated like one that is too long. Default 1,000.
    pub ast_steps: usize,
    /// Most retries in one turn of a session, by all rules together: the backstop. Default 3.
    pub turn_retries: u32,
    /// The action when `parts`, `json_depth` or `path_bytes` is reached in a stream.
    pub on_limit: OnLimit,
}

impl Limits {
    /// Returns the limits of a single pattern.
    pub(crate) fn of_pattern(&self) -> PatternLimits {
        PatternLimits {
            pattern_bytes: self.pattern_bytes,
            rule_states: self.rule_states,
            confirm_steps: self.confirm_steps,
        }
    }
}

/// The least value of [`Limits::stretch_bytes`] in a [scan](crate::scan): a longer match is cut there, and counted in
/// [`Counters::cut_matches`](crate::stream::Counters::cut_matches).
pub(crate) const SCAN_STRETCH_BYTES: usize = 8 << 20;

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
