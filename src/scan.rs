//! Scans: every match of every rule in a complete text.
//!
//! A [`Stream`] reports a rule once per part, as early as it is certain. A scan reports each full match. It first reads
//! the text with a stream, which is fast and tells which rules hit at all. Only those rules are searched for all of
//! their matches, each separately, so the matches reported for a rule do not depend on other rules.
//!
//! # Every match
//!
//! - A rule with only `match.any`: for each pattern the matches of `regex::bytes::Regex::find_iter` in the haystack
//!   (leftmost-first, non-overlapping). Matches of different patterns may overlap; matches with equal start and end are
//!   reported once. For patterns with look-around, the matches of `fancy_regex::Regex::find_iter`.
//! - `none`, `first`, `last`, `line`, `capture`: the matches that the condition does not exclude.
//! - `all`, `sequence`: each match that completes the condition, given the matches before it.
//! - `count`: the match that reaches the number, and each later one.
//! - Detectors (`repetition`, `limit`, `leak`, `unknown-name`, …) and `ast`: each of their findings.
//! - `args`, `paths`, `tools` and `[[allow]]` apply to each match.
//!
//! Conditions on several replies (`count` per turn or session, `doom-loop`, `turns`) are decided on this text alone.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::pack::Pack;
use crate::rule::{Channel, ToolOutcome};
use crate::stream::{Counters, RecordedMatch, Stream};
use crate::verdict::{Hit, PartId, RuleId};

const PART: PartId = PartId(0);

/// The channel, tool and file of a text, for the scopes of rules.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The channel that the text is read on.
    pub channel: Channel,
    /// The name of the tool, for [`Channel::ToolInput`] and [`Channel::ToolOutput`].
    pub tool: Option<&'a str>,
    /// The file that the text is about; see [`Stream::set_path`].
    pub path: Option<&'a Path>,
    /// The outcome of the tool call, for [`Channel::ToolOutput`]. Other channels have none.
    pub outcome: ToolOutcome,
}

impl Target<'_> {
    /// Returns a text on that channel without a tool and a file. The output of a tool is one of a call that went well.
    #[must_use]
    pub fn new(channel: Channel) -> Target<'static> {
        Target {
            channel,
            tool: None,
            path: None,
            outcome: ToolOutcome::default(),
        }
    }

    /// Opens the part of `stream` that the text is pushed to. Returns the part, and the hits that are certain already.
    ///
    /// # Example: hits as they become certain, without a search for every match
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::Target};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let mut stream = Pack::builder().rule(rule).build()?.stream();
    /// let target = Target::new(Channel::Text);
    /// let (part, hits) = target.open(&mut stream);
    /// assert!(hits.is_empty());
    /// assert_eq!(stream.push(part, b"TODO, TODO").len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn open(&self, stream: &mut Stream) -> (PartId, Vec<Hit>) {
        stream.open(PART, self.channel);
        if self.channel == Channel::ToolOutput {
            stream.set_outcome(PART, self.outcome);
        }
        if let Some(path) = self.path {
            stream.set_path(PART, &path.to_string_lossy());
        }
        let hits = match self.tool {
            Some(tool) => stream.set_tool(PART, tool, "").to_vec(),
            None => Vec::new(),
        };
        (PART, hits)
    }
}

/// One match of a rule.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMatch {
    /// The rule that matched.
    pub rule: RuleId,
    /// Offset of the first byte of the match. Equal to `end` if only the end is known.
    pub start: u64,
    /// Offset after its last byte.
    pub end: u64,
    /// Number of bytes of the text read when the match was certain: at least `end`.
    pub decided: u64,
    /// The dotted path of the argument of the tool call that contains the match.
    pub arg: Option<Box<str>>,
    excerpt: Box<str>,
    matched: Range<usize>,
}

impl ScanMatch {
    /// Returns the match of a hit of `stream`, or `None` for a hit of another stream.
    ///
    /// # Example: the first match only
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, scan::ScanMatch};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let mut stream = Pack::builder().rule(rule).build()?.stream();
    /// let hits = stream.push(PartId(0), b"a TODO, a TODO ").to_vec();
    /// let found = ScanMatch::from_hit(&stream, &hits[0]).unwrap();
    /// assert_eq!((found.start, found.end), (2, 6));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn from_hit(stream: &Stream, hit: &Hit) -> Option<ScanMatch> {
        Some(ScanMatch::from_record(
            hit.rule,
            stream.record(hit)?.clone(),
        ))
    }

    fn from_record(rule: RuleId, record: RecordedMatch) -> ScanMatch {
        let Hit { end, decided, .. } = record.hit;
        ScanMatch {
            rule,
            start: record.start.unwrap_or(end).min(end),
            end,
            decided,
            arg: record.arg,
            excerpt: record.text,
            matched: record.matched,
        }
    }

    /// Returns up to 256 bytes around the match, decoded and folded as the pattern reads them.
    #[must_use]
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }

    /// Returns the range of the match in [`excerpt`](Self::excerpt), in bytes. Of a match that is longer than 120 bytes,
    /// only the end is in the excerpt.
    #[must_use]
    pub fn matched(&self) -> Range<usize> {
        self.matched.clone()
    }
}

impl fmt::Debug for ScanMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the text, which may be a secret that a rule keeps out of logs.
        f.debug_struct("ScanMatch")
            .field("rule", &self.rule)
            .field("start", &self.start)
            .field("end", &self.end)
            .finish_non_exhaustive()
    }
}

/// The outcome of a scan.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Scanned {
    /// The matches, ordered by start, end and rule.
    pub matches: Vec<ScanMatch>,
    /// Rules of which some matches may be missing: a pattern is too large to be searched for full matches, or its search
    /// exceeded a limit. The first match is always reported.
    pub incomplete: Vec<RuleId>,
    /// Number of matches that exceeded the limit of a scan, 8 MiB or [`Limits::stretch_bytes`](crate::Limits::stretch_bytes)
    /// if that is more. They are reported in pieces.
    pub cut_matches: u64,
}

/// A pack and the automata that find every match of its rules. One scanner serves any number of texts and threads.
#[derive(Debug)]
pub struct Scanner {
    pack: Pack,
    /// By rule and channel; compiled when the rule hits there for the first time. `None` if a pattern is too large.
    every: Box<[[OnceLock<Option<Pack>>; Channel::ALL.len()]]>,
}

impl Scanner {
    /// Creates a scanner for the rules of `pack`.
    #[must_use]
    pub fn new(pack: Pack) -> Scanner {
        let every = pack.rules().iter();
        let every = every
            .map(|_| Channel::ALL.map(|_| OnceLock::new()))
            .collect();
        Scanner { pack, every }
    }

    /// Returns the pack of the scanner.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Returns every match in `text`.
    ///
    /// # Complexity
    /// One pass over the text, and one more for each rule that hits.
    ///
    /// # Example: two matches of one rule
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::{Scanner, Target}};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let scanner = Scanner::new(Pack::builder().rule(rule).build()?);
    /// let target = Target::new(Channel::Text);
    /// let scanned = scanner.scan(&target, b"TODO: one\nTODO: two");
    /// let places: Vec<_> = scanned.matches.iter().map(|found| (found.start, found.end)).collect();
    /// assert_eq!(places, [(0, 4), (10, 14)]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn scan(&self, target: &Target<'_>, text: &[u8]) -> Scanned {
        let mut stream = self.pack.stream();
        let (part, mut hits) = target.open(&mut stream);
        hits.extend_from_slice(&stream.push(part, text));
        hits.extend_from_slice(&stream.close(part));
        let mut every = self.every(target, &hits);
        every.push(text);
        every.finish(&stream)
    }

    /// Starts the second pass over a text, which finds every match of the rules in `hits`: the hits of the first pass.
    ///
    /// # Example: a text in blocks
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::{Scanner, Target}};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let scanner = Scanner::new(Pack::builder().rule(rule).build()?);
    /// let target = Target::new(Channel::Text);
    /// let blocks = ["TODO: one\nTO", "DO: two"];
    /// let mut stream = scanner.pack().stream();
    /// let (part, mut hits) = target.open(&mut stream);
    /// for block in blocks {
    ///     hits.extend_from_slice(&stream.push(part, block.as_bytes()));
    /// }
    /// hits.extend_from_slice(&stream.close(part));
    /// assert_eq!(hits.len(), 1);
    /// let mut every = scanner.every(&target, &hits);
    /// for block in blocks {
    ///     every.push(block.as_bytes());
    /// }
    /// assert_eq!(every.finish(&stream).matches.len(), 2);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn every(&self, target: &Target<'_>, hits: &[Hit]) -> EveryMatch {
        let mut every = EveryMatch {
            hits: hits.to_vec(),
            readers: Vec::new(),
            found: Vec::new(),
        };
        for hit in hits {
            if every.readers.iter().any(|(rule, _)| *rule == hit.rule) {
                continue;
            }
            let channel = target.channel;
            // A hit of another pack may have a rule that this one does not have.
            let Some(packs) = self.every.get(hit.rule.index()) else {
                continue;
            };
            let pack =
                packs[channel as usize].get_or_init(|| self.pack.every_match_of(hit.rule, channel));
            let Some(pack) = pack else {
                continue;
            };
            let mut stream = pack.stream();
            target.open(&mut stream);
            every.readers.push((hit.rule, stream));
        }
        every
    }
}

/// The second pass over a text. See [`Scanner::every`].
#[derive(Debug)]
pub struct EveryMatch {
    /// The hits of the first pass.
    hits: Vec<Hit>,
    /// A stream for each rule that hit.
    readers: Vec<(RuleId, Stream)>,
    found: Vec<ScanMatch>,
}

impl EveryMatch {
    /// Reads the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for (rule, stream) in &mut self.readers {
            // A stream that reports every match has no hits; its matches are recorded instead.
            let _ = stream.push(PART, bytes);
            collect(*rule, stream, &mut self.found);
        }
    }

    /// Ends the text. `first` is the stream of the first pass, whose hits are reported for rules that could not be
    /// searched.
    #[must_use]
    pub fn finish(mut self, first: &Stream) -> Scanned {
        let mut scanned = Scanned::default();
        for (rule, stream) in &mut self.readers {
            let _ = stream.close(PART);
            collect(*rule, stream, &mut self.found);
            let Counters {
                cut_matches,
                unconfirmed,
                ..
            } = stream.counters();
            scanned.cut_matches += cut_matches;
            if unconfirmed > 0 {
                scanned.incomplete.push(*rule);
            }
        }
        let key = |found: &ScanMatch| (found.start, found.end, found.rule);
        let mut found = self.found;
        found.sort_by(|a, b| key(a).cmp(&key(b)).then_with(|| a.arg.cmp(&b.arg)));
        found.dedup_by(|a, b| key(a) == key(b) && a.arg == b.arg);
        let mut searched: Vec<RuleId> = found.iter().map(|found| found.rule).collect();
        searched.sort_unstable();
        searched.dedup();
        for hit in &self.hits {
            if searched.binary_search(&hit.rule).is_ok() {
                continue;
            }
            found.extend(ScanMatch::from_hit(first, hit));
            if !self.readers.iter().any(|(rule, _)| *rule == hit.rule) {
                scanned.incomplete.push(hit.rule);
            }
        }
        found.sort_by_key(key);
        scanned.incomplete.sort_unstable();
        scanned.incomplete.dedup();
        scanned.matches = found;
        scanned
    }
}

/// Appends the matches that the stream of one rule has recorded.
fn collect(rule: RuleId, stream: &mut Stream, found: &mut Vec<ScanMatch>) {
    let records = stream.take_records().into_iter();
    found.extend(records.map(|record| ScanMatch::from_record(rule, record)));
}

/// Returns every match of every rule of `pack` in `text`, ordered by start, end and rule. The text is read on `channel`.
/// For several texts, create a [`Scanner`] once.
///
/// # Example: a file of a project
/// ```
/// use std::path::Path;
/// use ttsr::{Channel, Pack};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-leak]
/// description = "Box::leak keeps memory for ever"
/// paths = ["*.rs"]
/// match.any = [{ regex = '\bBox\s*::\s*leak\b' }]
/// examples.match = ["Box::leak(x)"]
/// "#)?;
/// let text = b"let a = Box::leak(b);\nlet c = Box :: leak(d);\n";
/// let found = ttsr::scan(&pack, Channel::Text, None, Some(Path::new("src/a.rs")), text);
/// let places: Vec<_> = found.iter().map(|found| found.start..found.end).collect();
/// assert_eq!(places, [8..17, 30..41]);
/// assert_eq!(&found[1].excerpt()[found[1].matched()], "Box :: leak");
/// assert!(ttsr::scan(&pack, Channel::Text, None, Some(Path::new("a.md")), text).is_empty());
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[must_use]
pub fn scan(
    pack: &Pack,
    channel: Channel,
    tool: Option<&str>,
    path: Option<&Path>,
    text: &[u8],
) -> Vec<ScanMatch> {
    let target = Target {
        channel,
        tool,
        path,
        outcome: ToolOutcome::default(),
    };
    Scanner::new(pack.clone()).scan(&target, text).matches
}

#[cfg(test)]
mod tests;
