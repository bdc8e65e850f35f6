//! A stream reads one reply as it arrives: it routes deltas to views and matchers, applies scopes, and reports hits.
//!
//! It knows no policy: what happens after a hit, and how often, is decided in [`session`](crate::session).

mod closed;
mod history;
mod part;
mod state;
mod window;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::limits::OnLimit;
use crate::pack::{MessageValues, Pack, render_message};
use crate::rule::{Channel, Per, Rule, ToolOutcome};
use crate::verdict::{Decision, Hit, PartId, RuleId, Source};
use closed::ClosedPart;
pub(crate) use history::{RuleHistories, RuleHistory};
use part::OpenPart;
pub(crate) use state::RecordedMatch;
use state::{SharedState, StreamState};
use ttsr_automata::Cursor;
use ttsr_views::detect::unknown_name::KnownNames;

/// The sizes of the buffers of text that a stream keeps.
pub(crate) mod buffers {
    /// Most matches of one rule that wait with their text: for an exception, for the rest of a sequence, or for its scope to
    /// be known. Others merge with these.
    pub(crate) const PENDING_MATCHES: usize = 256;
    /// Bytes of the end of a haystack, for excerpts and for the starts of matches.
    pub(crate) const WINDOW_BYTES: usize = super::window::capacity(super::window::WINDOW);
    /// Bytes of text that a part keeps until its readers advance over it.
    pub(crate) const DEFERRED_BYTES: usize = super::part::MAX_DEFERRED;
    /// Bytes of a match and the text around it.
    pub(crate) const EXCERPT_BYTES: usize = super::window::WINDOW;
}

/// The mutable state of one attempt: it reads deltas and reports hits.
///
/// A stream owns its state. Each byte is read once. Between deltas, a part of text is a matching state of a few words
/// and a window of its last bytes, whatever its length.
///
/// Misuse is not an error, but it is [counted](Stream::counters): an unknown part opens as text, a second open of a part
/// has no effect, and bytes after the close are not scanned.
///
/// # Example: the same hit under every split
/// ```
/// use ttsr::{Channel, Pack, PartId};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-rm]
/// description = "No recursive deletes"
/// match.any = [{ regex = 'rm -rf\b' }]
/// examples.match = ["rm -rf /"]
/// "#)?;
/// for deltas in [&["run rm -rf / now"][..], &["run r", "m -r", "f", " / now"]] {
///     let mut stream = pack.stream();
///     stream.open(PartId(0), Channel::Text);
///     let mut hits = Vec::new();
///     for delta in deltas {
///         hits.extend_from_slice(&stream.push(PartId(0), delta.as_bytes()));
///     }
///     assert_eq!((hits.len(), hits[0].end, hits[0].decided), (1, 10, 11));
/// }
/// # Ok::<(), ttsr::LoadError>(())
/// ```
// One cache line. Thousands of streams may be read in turn, and a larger stride would leave most of a cache unused.
#[repr(align(64))]
pub struct Stream {
    /// Index in `parts` of the part that was pushed to last.
    latest: u32,
    is_cut: bool,
    /// True if the last call left results in `shared` that the next call must clear.
    has_results: bool,
    /// The open parts, in any order: a part that is closed is replaced by the last one. Each part knows its place in
    /// the order of opening.
    parts: Vec<OpenPart>,
    pack: Pack,
    // Boxed, so that the stream is one cache line. The fast path does not read it.
    shared: Box<SharedState>,
}

/// The hits of one call, in the order in which they became certain.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Hits<'a>(&'a [Hit]);

impl Deref for Hits<'_> {
    type Target = [Hit];
    fn deref(&self) -> &[Hit] {
        self.0
    }
}

impl<'a> IntoIterator for Hits<'a> {
    type Item = &'a Hit;
    type IntoIter = std::slice::Iter<'a, Hit>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Counts of events other than plain deltas of open parts. All are zero for a well-formed stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Counters {
    /// Parts that received a delta before they were opened; they open as text.
    pub unknown_parts: u64,
    /// Second opens of a part; they have no effect.
    pub duplicate_opens: u64,
    /// Closes of parts that were not open.
    pub stray_closes: u64,
    /// Bytes that were not matched: after the close of their part, after a cut, or above a limit.
    pub unscanned_bytes: u64,
    /// Bytes that are not valid UTF-8; they are matched as they are.
    pub invalid_utf8: u64,
    /// Tool inputs that are not JSON objects; they are matched unchanged.
    pub raw_inputs: u64,
    /// Tool inputs that stopped being JSON; they are matched unchanged from there on.
    pub malformed_json: u64,
    /// Unpaired surrogates in JSON escapes; they are matched as U+FFFD.
    pub lone_surrogates: u64,
    /// Tool inputs nested deeper than [`Limits::json_depth`](crate::Limits::json_depth).
    pub too_deep: u64,
    /// Argument or file paths longer than [`Limits::path_bytes`](crate::Limits::path_bytes).
    pub long_paths: u64,
    /// Matches that were dropped because the file or the tool of the part never became known.
    pub unscoped: u64,
    /// Possible matches that were not decided: of a pattern with look-around or back-references whose verification
    /// exceeded a limit such as [`Limits::confirm_steps`](crate::Limits::confirm_steps), in code that was too long for
    /// rules with `ast`, or to wait for the name of its file, and beyond 256 matches of one rule that wait for an exception,
    /// the rest of a sequence or the end of the part. The last are decided together with another match that waits, so the
    /// rule may count, hit or redact too much.
    pub unconfirmed: u64,
    /// Matches that were longer than [`Limits::stretch_bytes`](crate::Limits::stretch_bytes) and were cut there.
    pub cut_matches: u64,
    /// Lines of edits that were treated as added or removed before that was certain, to limit the text held back.
    pub released_edits: u64,
    /// Runs of combining marks that were too long to be folded as a whole.
    pub overlong_folds: u64,
    /// Shell commands that were nested too deep or too long to be parsed as a whole.
    pub cut_commands: u64,
}

/// A range of a part that must be replaced before the part is forwarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Redaction {
    /// The part.
    pub part: PartId,
    /// The rule that has the [replacement](crate::Rule::replacement).
    pub rule: RuleId,
    /// Offset of its first byte in the part as delivered.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
}

impl Pack {
    /// Creates a stream without a session: it reports hits and applies no policy.
    #[must_use]
    pub fn stream(&self) -> Stream {
        Stream::new(self.clone(), 1)
    }
}

impl Stream {
    pub(crate) fn new(pack: Pack, attempt: u32) -> Stream {
        let state = StreamState {
            attempt,
            ..StreamState::default()
        };
        Stream {
            pack,
            parts: Vec::new(),
            latest: 0,
            shared: Box::new(SharedState {
                state,
                ..SharedState::default()
            }),
            is_cut: false,
            has_results: false,
        }
    }

    /// Sets the state that a session passes on: the number of packs before this one, whether it is in shadow, the rules
    /// out of scope, the histories of rules, and the names that the host knows.
    pub(crate) fn in_session(
        mut self,
        (generation, is_shadow): (u32, bool),
        excluded: Option<Arc<[bool]>>,
        histories: RuleHistories,
        known: Option<Arc<KnownNames>>,
    ) -> Stream {
        let state = &mut self.shared.state;
        state.generation = generation;
        state.is_shadow = is_shadow;
        state.excluded = excluded;
        state.histories = histories;
        state.known = known;
        self
    }

    /// Returns the histories of rules for later replies, this reply included.
    pub(crate) fn histories(&self) -> RuleHistories {
        let mut histories = self.shared.state.histories.clone();
        for count in &self.shared.state.counts {
            let compound = self.pack.program().compound(count.rule);
            let per = compound.and_then(|it| it.count).map(|it| it.per);
            if matches!(per, Some(Per::Turn | Per::Session)) {
                let history = histories.get_or_default(count.rule);
                history.turn += count.matches;
                history.session += count.matches;
            }
        }
        histories
    }

    /// Adds names that rules with `unknown-name` treat as known, in addition to their own lists: dependencies, members
    /// of the workspace, modules. A code block that is already open keeps the names that were known when it opened. To
    /// set names for all attempts of a conversation, use
    /// [`Conversation::add_known_names`](crate::Conversation::add_known_names).
    ///
    /// # Example: a package of the project
    /// ```
    /// use ttsr::rule::UnknownName;
    /// use ttsr::{Pack, PartId, Rule};
    /// let mut rule = Rule::new("demo/invented", Vec::new());
    /// rule.condition.unknown_name = Some(UnknownName::default());
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// stream.add_known_names(["ours"]);
    /// assert!(stream.push(PartId(0), b"```rust\nuse ours::x;\n").is_empty());
    /// assert_eq!(stream.push(PartId(0), b"use theirs::x;\n```\n").len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn add_known_names<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let known = self.shared.state.known.get_or_insert_default();
        Arc::make_mut(known).extend(names);
    }

    /// Sets the time, and returns the hits of rules that limit time. `now` is the time since any fixed moment; it must
    /// not decrease. Deltas arrive at the time of the last call.
    ///
    /// # Example: a reply that takes longer than a minute
    /// ```
    /// use std::time::Duration;
    /// use ttsr::rule::Bound;
    /// use ttsr::{Pack, PartId, Rule};
    /// let mut rule = Rule::new("demo/slow", Vec::new());
    /// rule.condition.limit = Some(Bound { millis: Some(60_000), ..Bound::default() });
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// assert!(stream.push(PartId(0), b"Let me think").is_empty());
    /// assert!(stream.tick(Duration::from_secs(60)).is_empty());
    /// assert_eq!(stream.tick(Duration::from_secs(61)).len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the number of open parts, and in the number of rules with limits for each of them.
    pub fn tick(&mut self, now: Duration) -> Hits<'_> {
        self.begin();
        let state = &mut self.shared.state;
        // A time that goes back would make a limit that was reached look unreached.
        state.now = state.now.max(now);
        if !self.is_cut {
            for part in &mut self.parts {
                part.tick(self.pack.program(), &mut self.shared);
            }
        }
        self.hits()
    }

    /// Sets the number of tokens of a part so far, and returns the hits of rules that limit tokens. Without this call,
    /// the number is estimated. A part that was never opened has no tokens.
    ///
    /// # Example: ten tokens at most
    /// ```
    /// use ttsr::{Channel, Pack, PartId};
    /// let pack = Pack::from_toml(r#"
    /// schema = 1
    /// [pack]
    /// name = "demo"
    /// [rule.brief]
    /// description = "At most ten tokens"
    /// match.limit = { tokens = 10 }
    /// examples.match = ["One two three four five six seven eight nine ten eleven twelve."]
    /// "#)?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::Text);
    /// assert!(stream.push(PartId(0), b"Short.").is_empty());
    /// assert!(stream.count_tokens(PartId(0), 10).is_empty());
    /// assert_eq!(stream.count_tokens(PartId(0), 11).len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn count_tokens(&mut self, part: PartId, tokens: u64) -> Hits<'_> {
        self.begin();
        if let (Some(index), false) = (self.index(part), self.is_cut) {
            self.parts[index].set_tokens(self.pack.program(), tokens, &mut self.shared);
        }
        self.hits()
    }

    /// Bytes of matching state that a part carries from delta to delta, for each open haystack.
    pub const STATE_BYTES: usize = size_of::<Cursor>();

    /// Opens a part. Parts may interleave; the caller chooses their numbers.
    pub fn open(&mut self, part: PartId, channel: Channel) {
        self.begin();
        if self.index(part).is_some() || self.closed(part).is_some() {
            self.shared.state.counters.duplicate_opens += 1;
        } else {
            self.add(part, channel);
        }
    }

    /// Sets the name of a part's tool and the id of its call, and returns the hits that waited for them. It may be called
    /// at any time before the close. Only the first name counts, so a name that arrives in pieces must be passed when it
    /// is complete. An empty name is not known.
    ///
    /// # Example: a match that waits for the name of the tool
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-rm", vec![Pattern::literal("rm -rf")]);
    /// rule.tools = vec!["bash".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// assert!(stream.push(PartId(0), br#"{"command": "rm -rf /"}"#).is_empty());
    /// assert_eq!(stream.set_tool(PartId(0), "bash", "call_1").len(), 1);
    /// assert_eq!((stream.tool_name(PartId(0)), stream.call_id(PartId(0))), (Some("bash"), Some("call_1")));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_tool(&mut self, part: PartId, name: &str, call: &str) -> Hits<'_> {
        self.begin();
        if let Some(index) = self.index_or_open(part) {
            self.parts[index].set_tool(self.pack.program(), name, call, &mut self.shared);
        }
        self.hits()
    }

    /// Sets the file that a part is about; it must be called before the first delta. Rules and allow entries with `paths`
    /// then test this file, on every channel, instead of the paths that the text of the part names. A relative path is
    /// relative to the pack's [root](Pack::root).
    ///
    /// Without this call, only a tool call that names a file has one, and `paths` has no effect on other parts. An
    /// unknown part opens as text.
    ///
    /// # Example: text of a file
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// rule.paths = vec!["src/**".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// for (path, hits) in [("src/a.rs", 1), ("docs/a.md", 0)] {
    ///     let mut stream = pack.stream();
    ///     stream.open(PartId(0), Channel::Text);
    ///     stream.set_path(PartId(0), path);
    ///     assert_eq!(stream.push(PartId(0), b"TODO: this").len(), hits);
    ///     assert_eq!(stream.path(PartId(0)), Some(path));
    /// }
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_path(&mut self, part: PartId, path: &str) {
        self.begin();
        if let Some(index) = self.index_or_open(part) {
            let path = ttsr_views::path::normalise(path, self.pack.root());
            self.parts[index].set_path(path);
        }
    }

    /// Sets the outcome of the tool call whose output a part is, before its first delta: rules with `outcome` look at
    /// it. An output without this counts as [`ToolOutcome::Ok`]. An unknown part opens as tool output; parts on other
    /// channels have no outcome.
    ///
    /// # Example: an output that is an error
    /// ```
    /// use ttsr::rule::ToolOutcome;
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/retry-later", vec![Pattern::literal("timed out")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.outcome = Some(ToolOutcome::Error);
    /// let pack = Pack::builder().rule(rule).build()?;
    /// for (outcome, hits) in [(ToolOutcome::Error, 1), (ToolOutcome::Ok, 0)] {
    ///     let mut stream = pack.stream();
    ///     stream.set_outcome(PartId(0), outcome);
    ///     assert_eq!(stream.push(PartId(0), b"The request timed out.").len(), hits);
    /// }
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome) {
        self.begin();
        if self.index(part).is_none() && self.closed(part).is_none() {
            self.add(part, Channel::ToolOutput);
        }
        if let Some(index) = self.index(part) {
            self.parts[index].set_outcome(outcome);
        }
    }

    /// Reads a delta, and returns the hits that became certain with it.
    ///
    /// # Complexity
    /// Linear in the length of the delta. Once the part is open and the states of the automaton are built, a call without
    /// hits does not allocate.
    // PERF: 215 instructions a delta instead of 231 (`cargo bench --bench instructions`): inlined into the host's loop,
    // and without a closure, which the compiler may leave as a call. `lazy_dfa::short_input` of `ttsr-automata` lists
    // the frames below. The fast path is tried only for the part of the delta before; any other part must be searched
    // for.
    #[inline(always)]
    pub fn push(&mut self, part: PartId, bytes: &[u8]) -> Hits<'_> {
        let mut is_done = false;
        if !self.is_cut
            && let Some(latest) = self.parts.get_mut(self.latest as usize)
            && latest.id() == part
        {
            is_done = latest.push_short(bytes);
        }
        match is_done && !self.has_results {
            true => Hits(&[]),
            false => self.push_slow(part, bytes, is_done),
        }
    }

    /// The slow path of [`push`](Self::push): reads the delta unless the fast path has (`is_done`), and clears the
    /// results of the call before.
    #[inline(never)]
    fn push_slow(&mut self, part: PartId, bytes: &[u8], is_done: bool) -> Hits<'_> {
        self.shared.results.hits.clear();
        if !is_done && !bytes.is_empty() {
            self.read(part, bytes);
        }
        let results = &self.shared.results;
        self.has_results = !results.hits.is_empty() || results.limit.is_some();
        Hits(&results.hits)
    }

    /// Starts a call that may leave results.
    fn begin(&mut self) {
        self.shared.results.hits.clear();
        // The fast path cannot clear them, so the next delta takes the slow path.
        self.has_results = true;
    }

    #[inline]
    fn read(&mut self, part: PartId, bytes: &[u8]) {
        match self.index_or_open(part) {
            Some(index) if !self.is_cut => {
                self.parts[index].push(self.pack.program(), bytes, &mut self.shared);
            }
            _ => self.shared.state.counters.unscanned_bytes += bytes.len() as u64,
        }
        self.sort_hits();
    }

    /// Closes a part, and returns the hits that its end decides: of `$`, of `\b`, of rules with a path scope if the part
    /// has named no file.
    ///
    /// # Example: a word that may continue
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-any", vec![Pattern::word("any")])).build()?;
    /// let mut stream = pack.stream();
    /// assert!(stream.push(PartId(0), b"let x: any").is_empty(), "it may become `anything`");
    /// let hits = stream.close(PartId(0));
    /// assert_eq!((hits.len(), hits[0].end, hits[0].decided), (1, 10, 10));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the text that rules still wait with in the part, which [`Limits`](crate::Limits) bounds, in the number
    /// of open parts, and in the number of closed parts with greater ids.
    pub fn close(&mut self, part: PartId) -> Hits<'_> {
        self.begin();
        match self.index(part) {
            Some(index) => {
                // After a cut the part stays open: ending its readers would decide text that the cut left undecided.
                if !self.is_cut {
                    // PERF: closed and dropped in its place. A part has hundreds of bytes, which `swap_remove` would move.
                    let last = self.parts.len() - 1;
                    if index < last {
                        self.parts.swap(index, last);
                    }
                    self.parts[last].close(self.pack.program(), &mut self.shared);
                    self.parts.truncate(last);
                }
            }
            None => self.shared.state.counters.stray_closes += 1,
        }
        self.hits()
    }

    /// Returns the open parts, in the order in which they were opened.
    ///
    /// # Example: two parts at once
    /// ```
    /// use ttsr::{Channel, Pack, PartId};
    /// let mut stream = Pack::builder().build()?.stream();
    /// stream.open(PartId(7), Channel::Reasoning);
    /// stream.open(PartId(3), Channel::Text);
    /// let _ = stream.close(PartId(7));
    /// assert_eq!(stream.open_parts().collect::<Vec<_>>(), [PartId(3)]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// `O(n log n)` in the number of open parts, which are sorted by each call.
    pub fn open_parts(&self) -> impl Iterator<Item = PartId> {
        let mut open: Vec<&OpenPart> = self.parts.iter().collect();
        open.sort_unstable_by_key(|part| part.order());
        open.into_iter().map(OpenPart::id)
    }

    /// Returns the channel of a part, or `None` if the part is unknown.
    #[must_use]
    pub fn channel(&self, part: PartId) -> Option<Channel> {
        let open = self.part(part).map(OpenPart::channel);
        open.or_else(|| Some(self.closed(part)?.channel()))
    }

    /// Returns the name of a part's tool, or `None` if it is not known yet.
    #[must_use]
    pub fn tool_name(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.tool(),
            None => self.shared.state.closed.tool(part),
        }
    }

    /// Returns the id of a part's tool call, or `None` if it is not known yet.
    #[must_use]
    pub fn call_id(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.call_id(),
            None => self.shared.state.closed.call_id(part),
        }
    }

    /// Returns the file that a part is about, normalised and relative to the root, or `None` if it is not known yet.
    ///
    /// # Example: the file, before its new text
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-todo", vec![Pattern::word("TODO")]);
    /// rule.paths = vec!["src/**".into()];
    /// let pack = Pack::builder().rule(rule).root("/home/me/project").build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// let _ = stream.set_tool(PartId(0), "write", "call_1");
    /// let _ = stream.push(PartId(0), br#"{"path": "/home/me/project/src/a.rs", "content": "#);
    /// assert_eq!(stream.path(PartId(0)), Some("src/a.rs"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn path(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.path(),
            None => self.shared.state.closed.path(part),
        }
    }

    /// Returns the number of bytes of a part delivered so far.
    #[must_use]
    pub fn delivered_bytes(&self, part: PartId) -> u64 {
        match self.part(part) {
            Some(open) => open.delivered(),
            None => self.closed(part).map_or(0, ClosedPart::delivered),
        }
    }

    /// Returns the number of bytes of a part that no undecided match of a rule that holds can contain. A host that holds
    /// text back forwards up to here. Never decreases.
    ///
    /// It is less than [`delivered_bytes`](Self::delivered_bytes) while a match may be in progress, by at most
    /// [`Limits::stretch_bytes`](crate::Limits::stretch_bytes), and while the tool or the file that a rule needs is not
    /// known.
    ///
    /// # Example: text that waits until it is harmless
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-key", vec![Pattern::regex("sk-[0-9]{4}")]);
    /// rule.hold = true;
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// let _ = stream.push(PartId(0), b"The key is sk-12");
    /// assert_eq!(stream.releasable(PartId(0)), 11, "from `sk-` on it waits");
    /// let _ = stream.push(PartId(0), b" or so");
    /// assert_eq!(stream.releasable(PartId(0)), stream.delivered_bytes(PartId(0)));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the views and detectors of the channel and in the matches that wait in the part, at most 256 for each
    /// rule. If the part is not the one of the last call, it is searched for among all open parts.
    pub fn releasable(&mut self, part: PartId) -> u64 {
        let Some(index) = self.index(part) else {
            return self.closed(part).map_or(0, ClosedPart::delivered);
        };
        if self.shared.state.is_shadow {
            return self.parts[index].delivered();
        }
        self.parts[index].releasable(self.pack.program())
    }

    /// Returns the ranges of a part that must be replaced before it is forwarded, ordered by offset. A range is present
    /// before its first byte is [releasable](Self::releasable). Ranges of different rules may overlap. All ranges are kept
    /// as long as the stream, in 24 bytes each.
    ///
    /// In tool input, a range lies within one value or key, or within several words of a command. It may be part of a
    /// number or of `true`. A host that must keep the input valid JSON replaces such a value as a whole, by a string,
    /// and forwards it when it is complete, as the reference loop does.
    ///
    /// # Example: a key is taken out
    /// ```
    /// use ttsr::{Action, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-key", vec![Pattern::regex("sk-[0-9]{4}")]);
    /// rule.action = Action::Redact;
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// let text = "The key is sk-1234.";
    /// let _ = stream.push(PartId(0), text.as_bytes());
    /// let found = &stream.redactions(PartId(0))[0];
    /// assert_eq!(&text[found.start as usize..found.end as usize], "sk-1234");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Constant: the ranges are kept in order.
    #[must_use]
    pub fn redactions(&self, part: PartId) -> &[Redaction] {
        if self.shared.state.is_shadow {
            return &[];
        }
        self.shared.state.redactions(part)
    }

    /// Drops the redactions of a part that begin before `offset`: they are applied, and nobody asks for them again.
    pub(crate) fn forget_redactions(&mut self, part: PartId, offset: u64) {
        self.shared.state.forget_redactions(part, offset);
    }

    /// Returns the offset of the first byte of a hit's match in the part as delivered, if it is known. It is known for
    /// rules that need full matches, hold or redact. For other rules it is known in text, except for patterns with
    /// `region` or `fold` and for matches that begin more than 256 bytes before their end.
    ///
    /// # Example: what matched, and where
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut stream = pack.stream();
    /// let hit = stream.push(PartId(0), b"x = 1 // TODO: two")[0];
    /// assert_eq!((stream.start(&hit), hit.end), (Some(9), 13));
    /// assert_eq!(stream.matched(&hit), "TODO");
    /// assert!(stream.excerpt(&hit).starts_with("x = 1 // TODO"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the number of hits of the stream so far.
    #[must_use]
    pub fn start(&self, hit: &Hit) -> Option<u64> {
        self.record(hit)?.start
    }

    /// Ends the reply: closes every open part, in the order of opening, and returns their hits.
    ///
    /// # Example: the last word of a reply
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/end", vec![Pattern::regex("(?i)done$")])).build()?;
    /// let mut stream = pack.stream();
    /// assert!(stream.push(PartId(0), b"All done").is_empty());
    /// assert_eq!(stream.finish().len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// That of a [`close`](Self::close) for each open part.
    pub fn finish(&mut self) -> Hits<'_> {
        // Each close clears the hits of the one before.
        let mut hits = Vec::new();
        let open: Vec<PartId> = self.open_parts().collect();
        for part in open {
            hits.extend_from_slice(&self.close(part));
        }
        self.begin();
        self.shared.results.hits = hits;
        Hits(&self.shared.results.hits)
    }

    /// Returns the dotted path of the argument that contains a hit: `$raw` for tool input that is not JSON, `None` outside
    /// of tool input, and for a hit of another stream.
    ///
    /// # Example: the command of a shell
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-rm", vec![Pattern::literal("rm -rf")])).build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// let hit = stream.push(PartId(0), br#"{"command": "rm -rf /"}"#)[0];
    /// assert_eq!(stream.arg(&hit), Some("command"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    ///
    /// # Complexity
    /// Linear in the number of hits of the stream so far.
    #[must_use]
    pub fn arg(&self, hit: &Hit) -> Option<&str> {
        self.record(hit)?.arg.as_deref()
    }

    /// Returns the text around a hit: at most 160 bytes up to the end of the match, and at most 96 bytes of the text after
    /// it that made the hit certain. Invalid UTF-8 is replaced by U+FFFD. Empty for a hit of another stream.
    ///
    /// # Complexity
    /// Linear in the number of hits of the stream so far.
    #[must_use]
    pub fn excerpt(&self, hit: &Hit) -> &str {
        self.record(hit).map_or("", |record| &record.text)
    }

    /// Returns the matched text, from its leftmost start inside the [excerpt](Self::excerpt). Empty for a hit of
    /// another stream.
    ///
    /// # Complexity
    /// Linear in the number of hits of the stream so far.
    #[must_use]
    pub fn matched(&self, hit: &Hit) -> &str {
        self.record(hit)
            .map_or("", |record| &record.text[record.matched.clone()])
    }

    /// Returns the rendered message of the decision's rule; for a decision of a limit, a sentence that names it.
    ///
    /// # Example: a message that quotes the match
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let mut rule = Rule::new("demo/no-todo", vec![Pattern::word("TODO")]);
    /// rule.message = Some("Do it now instead of writing {{ match.text }}.".into());
    /// let mut session = Pack::builder().rule(rule).build()?.session();
    /// let mut stream = session.stream();
    /// let verdict = session.push(&mut stream, PartId(0), b"// TODO: more");
    /// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
    /// assert_eq!(stream.message(&decision), "Do it now instead of writing TODO.");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn message(&self, decision: &Decision) -> String {
        match decision.hit() {
            Some(hit) => match self.rule(decision) {
                Some(rule) => self.render(rule.message.as_deref(), rule, hit),
                None => String::new(),
            },
            None => decision.source.limit_message(),
        }
    }

    /// Returns the rendered prompt of a rule that consults a sub-agent. `None` for any other decision.
    ///
    /// # Example: the prompt of a sub-agent
    /// ```
    /// use ttsr::rule::Consult;
    /// use ttsr::{Action, Channel, Pack, PartId, Pattern, Rule, Verdict};
    /// let mut rule = Rule::new("demo/push", vec![Pattern::literal("git push")]);
    /// rule.on = vec![Channel::ToolInput];
    /// rule.action = Action::Consult;
    /// rule.consult = Some(Consult::new("May {{ tool }} run this?"));
    /// let mut session = Pack::builder().rule(rule).build()?.session();
    /// let mut stream = session.stream();
    /// let _ = session.open(&mut stream, PartId(0), Channel::ToolInput);
    /// let _ = session.set_tool(&mut stream, PartId(0), "bash", "call_1");
    /// let verdict = session.push(&mut stream, PartId(0), br#"{"command": "git push"}"#);
    /// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
    /// assert_eq!(stream.consult_prompt(&decision).as_deref(), Some("May bash run this?"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn consult_prompt(&self, decision: &Decision) -> Option<String> {
        let rule = self.rule(decision)?;
        // A prompt is a template like a message.
        let prompt = &rule.consult.as_ref()?.prompt;
        Some(self.render(Some(prompt), rule, decision.hit()?))
    }

    /// Renders a template of a rule for a hit.
    fn render(&self, template: Option<&str>, rule: &Rule, hit: Hit) -> String {
        let values = MessageValues {
            match_text: self.matched(&hit),
            channel: self.channel(hit.part).map(Channel::name),
            path: self
                .record(&hit)
                .and_then(|record| record.file.as_deref())
                .or(self.path(hit.part)),
            tool: self.tool_name(hit.part),
            arg: self.arg(&hit),
            captures: self.captures(hit.rule),
        };
        render_message(template, rule, &values)
    }

    /// Keeps the captures of a rule in a text that was delivered whole, for its message.
    pub(crate) fn capture(&mut self, text: &[u8], hit: &Hit) {
        if let Some(captures) = self.pack.captures(hit.rule) {
            let captured = captures.at(text, hit.end);
            self.shared.state.captures.push((hit.rule, captured));
        }
    }

    fn captures(&self, rule: RuleId) -> &[(String, String)] {
        let mut captures = self.shared.state.captures.iter();
        let captured = captures.find(|(captured, _)| *captured == rule);
        captured.map_or(&[], |(_, captured)| captured)
    }

    /// Returns the rule that a decision of this stream is based on. `None` for a decision of a limit, and for one that was
    /// made with another pack.
    #[must_use]
    pub fn rule(&self, decision: &Decision) -> Option<&Rule> {
        let is_own = decision.generation == self.shared.state.generation;
        self.pack
            .rules()
            .get(decision.rule().filter(|_| is_own)?.index())
    }

    /// Returns the counters so far.
    ///
    /// # Example: a delta after the close
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::Text);
    /// let _ = stream.close(PartId(0));
    /// let _ = stream.push(PartId(0), b"late");
    /// assert_eq!(stream.counters().unscanned_bytes, 4);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn counters(&self) -> Counters {
        let mut counters = self.shared.state.counters;
        self.parts.iter().for_each(|part| part.count(&mut counters));
        counters
    }

    /// Returns the pack of this stream.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Returns the number of this attempt in its turn, counted from 1.
    #[must_use]
    pub fn attempt_number(&self) -> u32 {
        self.shared.state.attempt
    }

    pub(crate) fn generation(&self) -> u32 {
        self.shared.state.generation
    }

    /// Stops reading: a decision has cut the reply here.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns true if a limit was reached since the last [`Stream::take_limit`].
    pub(crate) fn has_limit(&self) -> bool {
        self.has_results && self.shared.results.limit.is_some()
    }

    /// Returns the limit that was reached since the last call, if a limit cuts the reply.
    pub(crate) fn take_limit(&mut self) -> Option<Source> {
        let limit = self.shared.results.limit.take();
        limit.filter(|_| self.pack.limits().on_limit == OnLimit::Abort)
    }

    pub(crate) fn hits(&mut self) -> Hits<'_> {
        self.sort_hits();
        Hits(&self.shared.results.hits)
    }

    /// Removes the hits of rules that are out of scope, and sorts the others.
    // PERF: most deltas have none, and a call costs a nanosecond of their sixty (`cargo bench --bench versus`).
    #[inline]
    fn sort_hits(&mut self) {
        if !self.shared.results.hits.is_empty() {
            self.sort_some_hits();
        }
    }

    /// Removes the hits of rules outside of the session's scope, and sorts the others by the byte at which they became
    /// certain.
    #[cold]
    fn sort_some_hits(&mut self) {
        let SharedState { results, state } = &mut *self.shared;
        if let Some(excluded) = &state.excluded {
            // A rule is excluded from the whole stream, so this cannot suppress a later hit that would have counted.
            let is_in_scope = |rule: RuleId| !excluded[rule.index()];
            results.hits.retain(|hit| is_in_scope(hit.rule));
        }
        results
            .hits
            .sort_unstable_by_key(|hit| (hit.decided, hit.end, hit.rule));
    }

    /// Returns an open part.
    fn part(&self, part: PartId) -> Option<&OpenPart> {
        self.index(part).map(|index| &self.parts[index])
    }

    /// Returns what is kept of a closed part.
    fn closed(&self, part: PartId) -> Option<&ClosedPart> {
        self.shared.state.closed.get(part)
    }

    /// Returns the index of an open part.
    #[inline]
    fn index(&self, part: PartId) -> Option<usize> {
        match self.parts.get(self.latest as usize) {
            Some(latest) if latest.id() == part => Some(self.latest as usize),
            // From the end: parts that were opened last are the most likely to be pushed to.
            _ => self.parts.iter().rposition(|other| other.id() == part),
        }
    }

    /// Returns the index of a part, opening it as text if it is unknown. `None` if the part is closed, or if the limit on
    /// parts is reached.
    #[inline]
    fn index_or_open(&mut self, part: PartId) -> Option<usize> {
        let index = match self.index(part) {
            Some(index) => index,
            None if self.closed(part).is_some() => return None,
            None => {
                let index = self.add(part, Channel::Text)?;
                self.shared.state.counters.unknown_parts += 1;
                index
            }
        };
        self.latest = index as u32;
        Some(index)
    }

    /// Opens a part, and returns its index. Returns `None` if the limit on parts is reached.
    fn add(&mut self, part: PartId, channel: Channel) -> Option<usize> {
        let SharedState { results, state } = &mut *self.shared;
        if state.opened as usize >= self.pack.limits().parts {
            results.limit = Some(Source::Limit {
                name: "parts",
                part,
                decided: 0,
            });
            return None;
        }
        let order = state.opened;
        state.opened += 1;
        if self.parts.is_empty() {
            // Most replies have a single part, and the default capacity of four would take a kilobyte.
            self.parts.reserve_exact(1);
        }
        let opened = OpenPart::new(self.pack.program(), part, channel, order, state.now);
        self.parts.push(opened);
        self.latest = (self.parts.len() - 1) as u32;
        Some(self.latest as usize)
    }

    /// Returns the matches that were recorded since the last call, and forgets them. For a stream that reports every
    /// match.
    pub(crate) fn take_records(&mut self) -> Vec<RecordedMatch> {
        std::mem::take(&mut self.shared.state.records)
    }

    /// Returns the recorded match of a hit, or `None` for a hit of another stream.
    pub(crate) fn record(&self, hit: &Hit) -> Option<&RecordedMatch> {
        self.shared.state.record(hit)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Text of the reply is left out, because it may be a secret that a rule keeps out of logs.
        f.debug_struct("Stream")
            .field("parts", &self.shared.state.opened)
            .field("attempt", &self.shared.state.attempt)
            .field("is_cut", &self.is_cut)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
