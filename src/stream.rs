//! One reply, as it arrives: routes deltas to views and matchers, applies scopes, yields hits.
//!
//! It knows nothing of policy (what happens after a hit, and how often): that is `session`.

mod closed;
mod part;
mod past;
mod window;

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::detect::unknown_name::KnownNames;
use crate::limits::OnLimit;
use crate::pack::{Captured, MessageValues, Pack, render_message};
use crate::rule::{Channel, Per, Rule};
use crate::scan::ScanMatch;
use crate::verdict::{Decision, Hit, NO_ARG, PartId, RuleId, Source};
use closed::{ClosedPart, ClosedParts};
use part::Part;
use part::condition::Book;
use part::judge::Queued;
pub(crate) use past::{Past, Pasts};
use ttsr_automata::Cursor;

/// How much text is kept, for whoever states bounds.
pub(crate) mod kept {
    pub(crate) const WAITING: usize = super::part::condition::WAITING;
    /// Of a haystack, behind what was read.
    pub(crate) const WINDOW: usize = super::window::ROOM;
    /// Of a match that was found, with what stands around it.
    pub(crate) const EXCERPT: usize = super::window::WINDOW;
}

/// The mutable state of one attempt: feed it deltas, it gives hits.
///
/// It owns what it needs. Each byte is read once; between deltas a part of text is a matching state
/// of a few words and a window of its last bytes, whatever its length.
///
/// Misuse is never an error, and never silent: an unknown part opens as text, a second open keeps the
/// first, bytes after the close are not scanned, and each is [counted](Stream::counters).
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
// One cache line: thousands of streams may take turns, and a stride of more leaves most of a cache unused.
#[repr(align(64))]
pub struct Stream {
    /// Index of the part that was pushed to last.
    latest: u32,
    is_cut: bool,
    /// Whether the last call left anything in `found` that the next is not to see.
    has_news: bool,
    /// Those that are open, in any order.
    parts: Vec<Part>,
    pack: Pack,
    found: Box<Found>,
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

/// What a stream met that was not a plain delta of an open part. All zero on a well-behaved stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Deltas of parts that were never opened; each opens its part as text.
    pub unknown_parts: u64,
    /// Second opens of a part; the first one counts.
    pub duplicate_opens: u64,
    /// Closes of parts that were not open.
    pub stray_closes: u64,
    /// Bytes that were not matched: after the close, after a cut, past a limit.
    pub unscanned_bytes: u64,
    /// Bytes that belong to no character; they are matched all the same.
    pub invalid_utf8: u64,
    /// Tool inputs that are not a JSON object: matched as they are.
    pub raw_inputs: u64,
    /// Places where tool input stopped being JSON: matched as it is from there.
    pub malformed_json: u64,
    /// Halves of a surrogate pair in JSON escapes: matched as U+FFFD.
    pub lone_surrogates: u64,
    /// Tool inputs nested deeper than [`Limits::json_depth`](crate::Limits::json_depth).
    pub too_deep: u64,
    /// Argument or file paths longer than [`Limits::path_bytes`](crate::Limits::path_bytes).
    pub long_paths: u64,
    /// Matches that were dropped because the file or the tool they need never became known.
    pub unscoped: u64,
    /// Places where a pattern with look-around or back-references might match, and that were not decided
    /// within [`Limits::confirm_steps`](crate::Limits::confirm_steps) and its neighbours; code that was too long
    /// for rules with `ast`.
    pub unconfirmed: u64,
    /// Matches in progress that were longer than [`Limits::stretch_bytes`](crate::Limits::stretch_bytes)
    /// and were cut there.
    pub cut_matches: u64,
    /// Lines of edits that were taken for added or removed before that was certain, because too much text
    /// would have had to wait.
    pub released_edits: u64,
    /// Runs of combining marks so long that they were folded in stretches.
    pub overlong_folds: u64,
    /// Commands of a shell that were nested too deep or too long to be taken apart whole.
    pub cut_commands: u64,
}

/// What the parts of a stream found: the hits of the current call, and text kept for each hit.
#[derive(Debug, Default)]
struct Found {
    attempt: u32,
    /// Parts that were opened so far.
    opened: u32,
    closed: ClosedParts,
    /// The session had so many packs before this one.
    generation: u32,
    /// True if the session is in shadow: nothing is held back or redacted.
    is_shadow: bool,
    /// For each rule whether it is out of scope in this stream; nothing if none is.
    excluded: Option<Arc<[bool]>>,
    hits: Vec<Hit>,
    /// Text of every hit of this stream, by (rule, part).
    quotes: Vec<Quote>,
    args: Vec<Box<str>>,
    counters: Counters,
    limit: Option<Source>,
    /// Matches of this call for conditions that are decided on a part or on the reply.
    queue: Vec<Queued>,
    /// Matches of this call for rules that count.
    counting: Vec<Quote>,
    /// Number of matches so far, by rule, and by part where they are counted there.
    counts: Vec<Counted>,
    /// Conditions that are decided on the whole reply. None of them waits for its end.
    book: Book,
    redactions: Vec<Redaction>,
    /// Captures of rules that hit a text which came whole.
    captures: Vec<(RuleId, Captured)>,
    /// What earlier replies left.
    pasts: Pasts,
    /// The time told last.
    now: Duration,
    /// Names that the host knows.
    known: Option<Arc<KnownNames>>,
}

/// Number of matches of a rule.
#[derive(Clone, Copy, Debug)]
struct Counted {
    rule: RuleId,
    part: Option<PartId>,
    matches: u64,
}

/// A stretch of a part that a rule wants replaced before it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Redaction {
    /// The part.
    pub part: PartId,
    /// The rule whose [replacement](crate::Rule::replacement) takes its place.
    pub rule: RuleId,
    /// Where it begins, in bytes of the part as delivered.
    pub start: u64,
    /// Where it ends.
    pub end: u64,
}

/// The text of a hit, copied while it was at hand.
#[derive(Clone, Debug)]
struct Quote {
    hit: Hit,
    /// Where the match begins, in bytes of the part as delivered, if that is known.
    start: Option<u64>,
    /// The file that the text is of, where the text itself says so.
    file: Option<Arc<str>>,
    /// Up to [`window::WINDOW`] bytes around the match.
    text: Box<str>,
    /// The match inside `text`, in bytes.
    matched: std::ops::Range<usize>,
}

impl Quote {
    /// The same hit, certain no earlier than at `decided`.
    fn at(mut self, decided: u64) -> Quote {
        self.hit.decided = self.hit.decided.max(decided);
        self
    }
}

impl Stream {
    pub(crate) fn new(pack: Pack, attempt: u32) -> Stream {
        Stream {
            pack,
            parts: Vec::new(),
            latest: 0,
            found: Box::new(Found {
                attempt,
                ..Found::default()
            }),
            is_cut: false,
            has_news: false,
        }
    }

    /// Sets what a session knows: the number of its pack, whether it is in shadow, and for each rule whether it is out of
    /// scope.
    pub(crate) fn in_session(
        mut self,
        (generation, is_shadow): (u32, bool),
        excluded: Option<Arc<[bool]>>,
        pasts: Pasts,
        known: Option<Arc<KnownNames>>,
    ) -> Stream {
        self.found.pasts = pasts;
        self.found.known = known;
        self.found.generation = generation;
        self.found.is_shadow = is_shadow;
        self.found.excluded = excluded;
        self
    }

    /// What later replies are to know of this one and those before.
    pub(crate) fn pasts(&self) -> Pasts {
        let mut pasts = self.found.pasts.clone();
        for counted in &self.found.counts {
            let count = self
                .pack
                .compound(counted.rule)
                .and_then(|known| known.count);
            if count.is_some_and(|count| matches!(count.per, Per::Turn | Per::Session)) {
                let past = pasts.entry(counted.rule).or_default();
                past.turn += counted.matches;
                past.session += counted.matches;
            }
        }
        pasts
    }

    /// Names that rules with `unknown-name` take for known from now on, besides their own: dependencies, members
    /// of the workspace, modules. Code in which a part stands already is read with those it began with. For all
    /// streams of a session: [`Session::know`](crate::Session::know).
    ///
    /// # Example: a package of the project
    /// ```
    /// use ttsr::rule::UnknownName;
    /// use ttsr::{Pack, PartId, Rule};
    /// let mut rule = Rule::new("demo/invented", Vec::new());
    /// rule.condition.unknown_name = Some(UnknownName::default());
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut stream = pack.stream();
    /// stream.know(["ours"]);
    /// assert!(stream.push(PartId(0), b"```rust\nuse ours::x;\n").is_empty());
    /// assert_eq!(stream.push(PartId(0), b"use theirs::x;\n```\n").len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn know<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let known = self.found.known.get_or_insert_default();
        Arc::make_mut(known).extend(names);
    }

    /// Time has passed: `now` is any clock that never goes back, the same for the whole stream. Gives the
    /// hits of rules that bound time. Deltas are taken to come at the time told last.
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
    pub fn tick(&mut self, now: Duration) -> Hits<'_> {
        self.begin();
        self.found.now = self.found.now.max(now);
        if !self.is_cut {
            for part in &mut self.parts {
                part.tick(&self.pack, &mut self.found);
            }
        }
        self.hits()
    }

    /// The host has counted that many tokens of a part so far. Gives the hits of rules that bound tokens, which
    /// are estimated as long as nobody counts them. A part that was never opened has none.
    ///
    /// # Example
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
            self.parts[index].count_tokens(&self.pack, tokens, &mut self.found);
        }
        self.hits()
    }

    /// Bytes of matching state that a part carries from delta to delta: for each haystack that is being
    /// read, whatever its length.
    pub const STATE_BYTES: usize = size_of::<Cursor>();

    /// Opens a part. Parts may interleave; their numbers are the caller's.
    pub fn open(&mut self, part: PartId, channel: Channel) {
        self.begin();
        if self.index(part).is_some() || self.closed(part).is_some() {
            self.found.counters.duplicate_opens += 1;
        } else {
            self.add(part, channel);
        }
    }

    /// Names the tool of a part, and its call; any time before the close, for names may come late. The first name
    /// stands, so a name that comes in pieces is told when it is whole.
    ///
    /// Gives the hits that waited for the name.
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
    /// assert_eq!(stream.tool(PartId(0), "bash", "call_1").len(), 1);
    /// assert_eq!((stream.tool_name(PartId(0)), stream.call(PartId(0))), (Some("bash"), Some("call_1")));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn tool(&mut self, part: PartId, name: &str, call: &str) -> Hits<'_> {
        self.begin();
        if let Some(index) = self.index_or_open(part) {
            self.parts[index].name_tool(&self.pack, name, call, &mut self.found);
        }
        self.hits()
    }

    /// Sets the file that a part is about, before its first delta: rules with `paths` and allows with `paths` look
    /// at it on every channel, and not at the paths that the text of the part names. A relative path counts from
    /// the pack's [root](Pack::root).
    ///
    /// A part without this has a file only where it is a tool call that names one; `paths` mean nothing in other
    /// parts. An unknown part opens as text.
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
            let path = crate::view::path::normalise(path, self.pack.root());
            self.parts[index].set_path(path);
        }
    }

    /// Reads a delta; gives the hits that became certain with it.
    ///
    /// # Complexity
    /// Linear in the delta, whatever was read before. Nothing is allocated while nothing hits, once
    /// the part is open and the automaton is warm.
    #[inline]
    pub fn push(&mut self, part: PartId, bytes: &[u8]) -> Hits<'_> {
        let latest = self.parts.get_mut(self.latest as usize);
        let is_done = !self.is_cut
            && latest.is_some_and(|latest| latest.id() == part && latest.push_short(bytes));
        match is_done && !self.has_news {
            true => Hits(&[]),
            false => self.push_any(part, bytes, is_done),
        }
    }

    /// What is left to do of a push, or all of it.
    #[inline(never)]
    fn push_any(&mut self, part: PartId, bytes: &[u8], is_done: bool) -> Hits<'_> {
        self.found.hits.clear();
        if !is_done && !bytes.is_empty() {
            self.read(part, bytes);
        }
        self.has_news = !self.found.hits.is_empty() || self.found.limit.is_some();
        Hits(&self.found.hits)
    }

    /// Begins a call that may leave something.
    fn begin(&mut self) {
        self.found.hits.clear();
        self.has_news = true;
    }

    fn read(&mut self, part: PartId, bytes: &[u8]) {
        match self.index_or_open(part) {
            Some(index) if !self.is_cut => {
                self.parts[index].push(&self.pack, bytes, &mut self.found);
            }
            _ => self.found.counters.unscanned_bytes += bytes.len() as u64,
        }
        self.sort();
    }

    /// Ends a part, which can decide: `$`, `\b`, a path that never came.
    ///
    /// # Example: a word that may yet go on
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-any", vec![Pattern::word("any")])).build()?;
    /// let mut stream = pack.stream();
    /// assert!(stream.push(PartId(0), b"let x: any").is_empty(), "it may become `anything`");
    /// let hits = stream.close(PartId(0));
    /// assert_eq!((hits.len(), hits[0].end, hits[0].decided), (1, 10, 10));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn close(&mut self, part: PartId) -> Hits<'_> {
        self.begin();
        match self.index(part) {
            Some(index) => {
                if !self.is_cut {
                    let part = self.parts.swap_remove(index);
                    part.close(&self.pack, &mut self.found);
                }
            }
            None => self.found.counters.stray_closes += 1,
        }
        self.hits()
    }

    /// Parts that are open, in the order in which they were opened.
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
    pub fn open_parts(&self) -> impl Iterator<Item = PartId> {
        let mut open: Vec<&Part> = self.parts.iter().collect();
        open.sort_unstable_by_key(|part| part.order());
        open.into_iter().map(Part::id)
    }

    /// The channel of a part.
    #[must_use]
    pub fn channel(&self, part: PartId) -> Option<Channel> {
        let open = self.part(part).map(Part::channel);
        open.or_else(|| Some(self.closed(part)?.channel()))
    }

    /// The name of a part's tool, once it is known.
    #[must_use]
    pub fn tool_name(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.tool(),
            None => self.found.closed.tool(part),
        }
    }

    /// The id of a part's tool call, once it is known.
    #[must_use]
    pub fn call(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.call(),
            None => self.found.closed.call(part),
        }
    }

    /// The file that a tool call is about, as far as it is known: normalised, relative to the root.
    ///
    /// # Example: the file, before its new text
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-todo", vec![Pattern::word("TODO")]);
    /// rule.paths = vec!["src/**".into()];
    /// let pack = Pack::builder().rule(rule).root("/home/me/project").build()?;
    /// let mut stream = pack.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// let _ = stream.tool(PartId(0), "write", "call_1");
    /// let _ = stream.push(PartId(0), br#"{"path": "/home/me/project/src/a.rs", "content": "#);
    /// assert_eq!(stream.path(PartId(0)), Some("src/a.rs"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn path(&self, part: PartId) -> Option<&str> {
        match self.part(part) {
            Some(open) => open.path(),
            None => self.found.closed.path(part),
        }
    }

    /// Number of bytes of a part delivered so far.
    #[must_use]
    pub fn delivered(&self, part: PartId) -> u64 {
        match self.part(part) {
            Some(open) => open.delivered(),
            None => self.closed(part).map_or(0, ClosedPart::delivered),
        }
    }

    /// Number of bytes of a part that can never belong to an undecided match of a rule that holds; a
    /// host in hold mode forwards up to here. Never decreases.
    ///
    /// It lags behind the text only while a match may be in progress, at most by
    /// [`Limits::stretch_bytes`](crate::Limits::stretch_bytes), or while the name of the tool or of the
    /// file is not known.
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
    /// assert_eq!(stream.releasable(PartId(0)), stream.delivered(PartId(0)));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn releasable(&mut self, part: PartId) -> u64 {
        let Some(index) = self.index(part) else {
            return self.closed(part).map_or(0, ClosedPart::delivered);
        };
        if self.found.is_shadow {
            return self.parts[index].delivered();
        }
        self.parts[index].releasable(&self.pack)
    }

    /// What rules want replaced in this reply before it leaves, by part and place. A stretch is here before
    /// its first byte is [releasable](Self::releasable); stretches of different rules may overlap.
    ///
    /// In tool input a stretch stands in one value or key, or in several words of a command. It may be part of a
    /// number or of `true`: a host that wants JSON to stay JSON replaces such a value whole, by a string, and
    /// forwards it once it is complete. The reference loop does.
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
    /// let found = &stream.redactions()[0];
    /// assert_eq!(&text[found.start as usize..found.end as usize], "sk-1234");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn redactions(&self) -> &[Redaction] {
        if self.found.is_shadow {
            return &[];
        }
        &self.found.redactions
    }

    /// Where the match of a hit begins, in bytes of the part as delivered, where that is known: for rules that ask for
    /// whole matches, hold or redact; and for others in text, but for patterns with `region` or `fold` and for matches
    /// that begin more than 256 bytes back.
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
    #[must_use]
    pub fn start(&self, hit: &Hit) -> Option<u64> {
        self.quote(hit)?.start
    }

    /// Ends the reply: closes every part that is open, in the order of their opening.
    ///
    /// # Example: the last word of the reply
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/end", vec![Pattern::regex("(?i)done$")])).build()?;
    /// let mut stream = pack.stream();
    /// assert!(stream.push(PartId(0), b"All done").is_empty());
    /// assert_eq!(stream.finish().len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn finish(&mut self) -> Hits<'_> {
        let mut hits = Vec::new();
        let open: Vec<PartId> = self.open_parts().collect();
        for part in open {
            hits.extend_from_slice(&self.close(part));
        }
        self.begin();
        self.found.hits = hits;
        Hits(&self.found.hits)
    }

    /// The dotted path of the argument that a hit is in (`$raw`: tool input that is not JSON).
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
    #[must_use]
    pub fn arg(&self, hit: &Hit) -> Option<&str> {
        (hit.arg != NO_ARG).then(|| &*self.found.args[hit.arg as usize])
    }

    /// The text around a hit: at most 160 bytes up to the end of the match, and what was read behind it to be
    /// certain, at most 96.
    /// Invalid UTF-8 is shown as U+FFFD. Empty for a hit of another stream.
    #[must_use]
    pub fn excerpt(&self, hit: &Hit) -> &str {
        self.quote(hit).map_or("", |quote| &quote.text)
    }

    /// The text that matched, from the leftmost start inside the [excerpt](Self::excerpt).
    #[must_use]
    pub fn matched(&self, hit: &Hit) -> &str {
        self.quote(hit)
            .map_or("", |quote| &quote.text[quote.matched.clone()])
    }

    /// The rule's message, with what it refers to filled in. For a decision of a limit, a sentence that names it.
    ///
    /// # Example: what the model is told
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
                Some(rule) => self.render(rule, hit),
                None => String::new(),
            },
            None => decision.source.limit_message(),
        }
    }

    /// What a rule that consults asks, with what it refers to filled in. None for any other decision.
    ///
    /// # Example: what a sub-agent is asked
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
    /// let _ = session.tool(&mut stream, PartId(0), "bash", "call_1");
    /// let verdict = session.push(&mut stream, PartId(0), br#"{"command": "git push"}"#);
    /// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
    /// assert_eq!(stream.prompt(&decision).as_deref(), Some("May bash run this?"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn prompt(&self, decision: &Decision) -> Option<String> {
        let rule = self.rule(decision)?;
        // A prompt is a template like a message.
        let asking = Rule {
            message: Some(rule.consult.as_ref()?.prompt.clone()),
            ..rule.clone()
        };
        Some(self.render(&asking, decision.hit()?))
    }

    fn render(&self, rule: &Rule, hit: Hit) -> String {
        let values = MessageValues {
            match_text: self.matched(&hit),
            channel: self.channel(hit.part).map(Channel::name),
            path: self
                .quote(&hit)
                .and_then(|quote| quote.file.as_deref())
                .or(self.path(hit.part)),
            tool: self.tool_name(hit.part),
            arg: self.arg(&hit),
            captures: self.captures(hit.rule),
        };
        render_message(rule, &values)
    }

    /// Keeps what the groups of a rule captured in a text that came whole, for its message.
    pub(crate) fn capture(&mut self, text: &[u8], hit: &Hit) {
        if let Some(captures) = self.pack.captures(hit.rule) {
            let captured = captures.at(text, hit.end);
            self.found.captures.push((hit.rule, captured));
        }
    }

    fn captures(&self, rule: RuleId) -> &[(String, String)] {
        let mut known = self.found.captures.iter();
        let captured = known.find(|(of, _)| *of == rule);
        captured.map_or(&[], |(_, captured)| captured)
    }

    /// The rule that a decision of this stream rests on: how it retries, what it keeps, whom it asks. `None` for a
    /// decision of a limit, and for one that was made with another pack.
    #[must_use]
    pub fn rule(&self, decision: &Decision) -> Option<&Rule> {
        let is_own = decision.generation == self.found.generation;
        self.pack
            .rules()
            .get(decision.rule().filter(|_| is_own)?.index())
    }

    /// What was counted so far.
    ///
    /// # Example: a delta behind the close
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
        let mut counters = self.found.counters;
        self.parts.iter().for_each(|part| part.count(&mut counters));
        counters
    }

    /// The pack whose rules this stream is read with.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// The number of this attempt in its turn, from 1.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.found.attempt
    }

    pub(crate) fn generation(&self) -> u32 {
        self.found.generation
    }

    /// Nothing more is read: a verdict has cut the reply here.
    pub(crate) fn cut(&mut self) {
        self.is_cut = true;
    }

    pub(crate) fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Whether a limit was reached since the last [`Stream::take_limit`].
    pub(crate) fn has_limit(&self) -> bool {
        self.has_news && self.found.limit.is_some()
    }

    /// The limit that was reached since the last call, if reaching one is to cut.
    pub(crate) fn take_limit(&mut self) -> Option<Source> {
        let limit = self.found.limit.take();
        limit.filter(|_| self.pack.limits().on_limit == OnLimit::Abort)
    }

    pub(crate) fn hits(&mut self) -> Hits<'_> {
        self.sort();
        Hits(&self.found.hits)
    }

    fn sort(&mut self) {
        if let Some(excluded) = self.found.excluded.clone() {
            // All or nothing for the whole stream, so that "one hit per rule and part" is not concerned.
            let is_in = |rule: RuleId| !excluded[rule.index()];
            self.found.hits.retain(|hit| is_in(hit.rule));
            self.found.redactions.retain(|known| is_in(known.rule));
        }
        self.found
            .hits
            .sort_unstable_by_key(|hit| (hit.decided, hit.end, hit.rule));
    }

    fn part(&self, part: PartId) -> Option<&Part> {
        self.index(part).map(|index| &self.parts[index])
    }

    fn closed(&self, part: PartId) -> Option<&ClosedPart> {
        self.found.closed.get(part)
    }

    /// The place of an open part.
    #[inline]
    fn index(&self, part: PartId) -> Option<usize> {
        match self.parts.get(self.latest as usize) {
            Some(latest) if latest.id() == part => Some(self.latest as usize),
            _ => self.parts.iter().rposition(|other| other.id() == part),
        }
    }

    /// The same, opening it as text if it is unknown; none if it is closed, or one too many.
    #[inline]
    fn index_or_open(&mut self, part: PartId) -> Option<usize> {
        let index = match self.index(part) {
            Some(index) => index,
            None if self.closed(part).is_some() => return None,
            None => {
                let index = self.add(part, Channel::Text)?;
                self.found.counters.unknown_parts += 1;
                index
            }
        };
        self.latest = index as u32;
        Some(index)
    }

    fn add(&mut self, part: PartId, channel: Channel) -> Option<usize> {
        if self.found.opened as usize >= self.pack.limits().parts {
            self.found.limit = Some(Source::Limit {
                name: "parts",
                part,
                decided: 0,
            });
            return None;
        }
        let order = self.found.opened;
        self.found.opened += 1;
        let now = self.found.now;
        if self.parts.is_empty() {
            // Most replies have one; room for four would be a kilobyte.
            self.parts.reserve_exact(1);
        }
        self.parts
            .push(Part::new(&self.pack, part, channel, order, now));
        self.latest = (self.parts.len() - 1) as u32;
        Some(self.latest as usize)
    }

    /// Takes the matches found so far out of a stream that reports every match.
    pub(crate) fn take_matches(&mut self) -> Vec<ScanMatch> {
        let quotes = std::mem::take(&mut self.found.quotes);
        let matches = quotes.into_iter().map(|quote| self.scan_match(quote));
        matches.collect()
    }

    /// A hit of this stream as a scan reports it.
    pub(crate) fn match_of(&self, hit: &Hit) -> Option<ScanMatch> {
        Some(self.scan_match(self.quote(hit)?.clone()))
    }

    fn scan_match(&self, quote: Quote) -> ScanMatch {
        let Hit {
            rule, end, decided, ..
        } = quote.hit;
        ScanMatch {
            rule,
            start: quote.start.unwrap_or(end).min(end),
            end,
            decided,
            arg: self.arg(&quote.hit).map(Box::from),
            excerpt: quote.text,
            matched: quote.matched,
        }
    }

    fn quote(&self, hit: &Hit) -> Option<&Quote> {
        self.found.quotes.iter().find(|quote| quote.hit == *hit)
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No text of the reply: it may hold what a rule was made to keep out of logs.
        f.debug_struct("Stream")
            .field("parts", &self.found.opened)
            .field("attempt", &self.found.attempt)
            .field("is_cut", &self.is_cut)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
