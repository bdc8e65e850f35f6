//! The bounds of packs and streams that a host may set. Tests set them to one. Fixed bounds are constants of their
//! modules.

use serde::{Deserialize, Serialize};
use ttsr_automata::PatternLimits;

/// The reaction to a bound that is reached while a stream is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnLimit {
    /// Cut the stream, with a decision whose source is the limit.
    #[default]
    Abort,
    /// Continue. Text that cannot be matched is counted as unscanned.
    Continue,
}

impl OnLimit {
    /// Returns the name used in every output: `abort` or `continue`.
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
    /// The longest pattern, in bytes of its text. Default 64 KiB.
    pub pattern_bytes: usize,
    /// The most automaton states of one rule, estimated before anything is built. Default 65,536.
    pub rule_states: usize,
    /// The most automaton states of all rules of a pack together. A pattern with look-around (feature `lookaround`) has
    /// an engine for each character that it may look ahead, and each counts with the size of the pattern.
    /// Default 4,194,304.
    pub pack_states: usize,
    /// The most work of one load, in steps: one for each byte of a rule file, 1,024 for each entry of a scope after
    /// lists are expanded, 16 for each entry of a list, and for each pattern 1,024 plus 64 for each byte. A million steps
    /// take some milliseconds. Work is counted and not timed, so a pack loads on every machine or on none. Default 2^30.
    pub load_steps: u64,
    /// The largest rule file, in bytes. Default 16 MiB.
    pub file_bytes: u64,
    /// The most rule files in a pack folder. Default 4,096.
    pub files: usize,
    /// The budget of one automaton's transition table and state sets, in bytes. Default 64 MiB, of which only the used part
    /// is resident. Beyond it matching stays exact and linear, and is slower until a new table replaces the full one.
    ///
    /// - Automata: one for each channel and each view of it (verbatim, a fold, a region), one more for rules that hold or
    ///   redact, and one more for rules that need full matches. Each rule of the last two kinds has one of its own once it
    ///   has matched, with at most 256 KiB.
    /// - Tables: the first one has room for 256 KiB of the budget (32 MiB for an automaton of 128 or more patterns, 2 MiB on
    ///   WebAssembly), and each further one for eight times as much. While streams still use a full table, it and its
    ///   successors exist, with at most twice the budget together.
    /// - Address space: a table allocates three times its room, which becomes resident as it is used, or at once where the
    ///   system or the allocator does not zero memory page by page.
    /// - Products: text channels with several automata have at most eight products of them. A product reserves 8 MiB of
    ///   address space (256 KiB on WebAssembly) and occupies at most 10 MiB with what belongs to its states, twice that
    ///   while it is replaced.
    pub table_bytes: usize,
    /// The most parts of one stream. A closed part costs at most 20 bytes, and 40 more for the names of its tool, call
    /// and file, if it has any; a part beyond the limit costs nothing. Default 10,000.
    pub parts: usize,
    /// The deepest nesting of JSON tool input. Default 128.
    pub json_depth: usize,
    /// The longest argument path and file path that is kept, in bytes. Default 4,096.
    pub path_bytes: usize,
    /// The most bytes before the end of a match on which a pattern with look-around or back-references is verified
    /// (feature `lookaround`). Default 4,096.
    pub confirm_bytes: usize,
    /// The longest match, in bytes of its haystack, of a rule that needs full matches: a rule that counts, redacts or
    /// holds, or whose patterns must or must not occur together. A longer match is cut there, and counted. If a match may
    /// have more than about a third of it, text in which one is in progress for as long is cut, too. 0 is the same as 1.
    /// Default 64 KiB.
    pub stretch_bytes: usize,
    /// The most steps of one verification. A match that is undecided by then is a hit of a critical rule, and is
    /// counted as unconfirmed for any other rule. Default 100,000.
    pub confirm_steps: usize,
    /// The most positions of one haystack that wait for the look-ahead of such a pattern. Beyond it, positions are
    /// treated as with `confirm_steps`. Default 1,024.
    pub confirm_pending: usize,
    /// The most bytes of one code block that are kept and parsed for rules with `ast` (feature `ast`). Beyond it the
    /// code is no longer read for them: it is a hit of critical rules, and counted as unconfirmed for others. The tree
    /// takes about ten times as much memory. Default 256 KiB.
    pub ast_bytes: usize,
    /// The most steps of one parse, in hundreds, in addition to four for each hundred bytes. A text that needs more is
    /// treated like one that is too long. Default 1,000.
    pub ast_steps: usize,
    /// The most bytes of added, removed and kept lines that wait for the name of their file, for rules with the regions
    /// `comment`, `string`, `code-only` and `uncommented`. The bytes after them are not read for these rules, which is
    /// counted as unconfirmed. Default 256 KiB.
    pub late_code_bytes: usize,
    /// The most retries in one turn of a session, of all rules together: the final safeguard. Default 3.
    pub turn_retries: u32,
    /// The reaction to reaching `parts`, `json_depth` or `path_bytes` in a stream.
    pub on_limit: OnLimit,
}

impl Limits {
    /// Returns the limits of a single pattern.
    pub(crate) fn pattern_limits(&self) -> PatternLimits {
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
            late_code_bytes: 256 << 10,
            turn_retries: 3,
            on_limit: OnLimit::Abort,
        }
    }
}
