//! Every match of every rule in a text that is at hand.
//!
//! A [`Stream`] reports a rule once per part, as early as it is certain. A scan reports each match, whole. It first
//! reads the text with a stream, which is fast and finds out which rules hit at all; only those are searched for all
//! of their matches, each by itself, so what is reported of a rule does not depend on other rules.
//!
//! # Every match
//!
//! - A rule with `match.any` alone: for each pattern what `regex::bytes::Regex::find_iter` gives on the haystack
//!   (leftmost-first, not overlapping). Matches of different patterns may overlap; two with the same start and end are
//!   one. For patterns that look around it is what `fancy_regex::Regex::find_iter` gives.
//! - `none`, `first`, `last`, `line`, `capture`: those of these matches that the condition leaves.
//! - `all`, `sequence`: each match that completes the condition, given the matches before it.
//! - `count`: the match that reaches the number, and each after it.
//! - Detectors (`repetition`, `limit`, `leak`, `unknown-name`, …) and `ast`: each place that they report.
//! - `args`, `paths`, `tools` and `[[allow]]` hold for each match.
//!
//! Conditions that look at other replies (`count` per turn or session, `doom-loop`, `turns`) see this text only.

use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::OnceLock;

use crate::pack::Pack;
use crate::rule::Channel;
use crate::stream::{Counters, Quote, Stream};
use crate::verdict::{Hit, PartId, RuleId};

const PART: PartId = PartId(0);

/// What a text is, for the scopes of rules.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The kind of part that the text is read as.
    pub channel: Channel,
    /// The tool that is called, for [`Channel::ToolInput`].
    pub tool: Option<&'a str>,
    /// The file that the text is about; see [`Stream::set_path`].
    pub path: Option<&'a Path>,
}

impl Target<'_> {
    /// Opens the part of `stream` that the text is pushed to, and returns it with the hits that are certain already.
    ///
    /// # Example: hits as they become certain, without a search for every match
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::Target};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let mut stream = Pack::builder().rule(rule).build()?.stream();
    /// let target = Target { channel: Channel::Text, tool: None, path: None };
    /// let (part, hits) = target.open(&mut stream);
    /// assert!(hits.is_empty());
    /// assert_eq!(stream.push(part, b"TODO, TODO").len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn open(&self, stream: &mut Stream) -> (PartId, Vec<Hit>) {
        stream.open(PART, self.channel);
        if let Some(path) = self.path {
            stream.set_path(PART, &path.to_string_lossy());
        }
        let hits = match self.tool {
            Some(tool) => stream.tool(PART, tool, "").to_vec(),
            None => Vec::new(),
        };
        (PART, hits)
    }
}

/// One match of a rule.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScanMatch {
    /// The rule that is broken.
    pub rule: RuleId,
    /// Offset of the first byte of the match. Equal to `end` where only the end is known.
    pub start: u64,
    /// Offset behind its last byte.
    pub end: u64,
    /// Number of bytes after which it was certain: at least `end`.
    pub decided: u64,
    /// The argument of the tool call that holds it.
    pub arg: Option<Box<str>>,
    excerpt: Box<str>,
    matched: Range<usize>,
}

impl ScanMatch {
    /// The match that a hit of `stream` is; `None` if the hit is not of this stream.
    ///
    /// # Example: the first match only
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, scan::ScanMatch};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let mut stream = Pack::builder().rule(rule).build()?.stream();
    /// let hits = stream.push(PartId(0), b"a TODO, a TODO ").to_vec();
    /// let found = ScanMatch::of(&stream, &hits[0]).unwrap();
    /// assert_eq!((found.start, found.end), (2, 6));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn of(stream: &Stream, hit: &Hit) -> Option<ScanMatch> {
        Some(ScanMatch::from_record(
            stream,
            hit.rule,
            stream.quote(hit)?.clone(),
        ))
    }

    fn from_record(stream: &Stream, rule: RuleId, record: Quote) -> ScanMatch {
        let Hit { end, decided, .. } = record.hit;
        ScanMatch {
            rule,
            start: record.start.unwrap_or(end).min(end),
            end,
            decided,
            arg: stream.arg(&record.hit).map(Box::from),
            excerpt: record.text,
            matched: record.matched,
        }
    }

    /// Up to 256 bytes around the match, as the pattern sees them: decoded and folded.
    #[must_use]
    pub fn excerpt(&self) -> &str {
        &self.excerpt
    }

    /// The match inside of [`excerpt`](Self::excerpt), in bytes. Of a match that is longer than 120 bytes, its end.
    #[must_use]
    pub fn matched(&self) -> Range<usize> {
        self.matched.clone()
    }
}

impl fmt::Debug for ScanMatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the text, which may be what a rule keeps out of logs.
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
    /// Rules of which not every match is reported: a pattern is too large to be searched for whole matches, or its
    /// search was given up. At least the first match is.
    pub incomplete: Vec<RuleId>,
    /// Matches that were longer than a scan keeps, and are reported in pieces.
    pub cut_matches: u64,
}

/// A pack, and what is compiled of it to find every match. One for all texts; threads may share it.
pub struct Scanner {
    pack: Pack,
    /// By rule and channel; made when the rule hits there for the first time. `None` if a pattern is too large.
    every: Box<[[OnceLock<Option<Pack>>; Channel::ALL.len()]]>,
}

impl Scanner {
    /// A scanner for the rules of `pack`.
    #[must_use]
    pub fn new(pack: Pack) -> Scanner {
        let every = pack.rules().iter();
        let every = every
            .map(|_| Channel::ALL.map(|_| OnceLock::new()))
            .collect();
        Scanner { pack, every }
    }

    /// The pack.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Every match in `text`.
    ///
    /// # Complexity
    /// One pass over a text in which nothing hits; one more for each rule that hits.
    ///
    /// # Example: two matches of one rule
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::{Scanner, Target}};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let scanner = Scanner::new(Pack::builder().rule(rule).build()?);
    /// let target = Target { channel: Channel::Text, tool: None, path: None };
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

    /// Begins a second pass over a text of which a stream has given `hits`: it finds every match of those rules.
    ///
    /// # Example: a text in blocks
    /// ```
    /// use ttsr::{Channel, Pack, Pattern, Rule, scan::{Scanner, Target}};
    /// let rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// let scanner = Scanner::new(Pack::builder().rule(rule).build()?);
    /// let target = Target { channel: Channel::Text, tool: None, path: None };
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
            let pack = self.every[hit.rule.index()][channel as usize]
                .get_or_init(|| self.pack.every_match_of(hit.rule, channel));
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

impl fmt::Debug for Scanner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scanner")
            .field("pack", &self.pack)
            .finish_non_exhaustive()
    }
}

/// The second pass over a text: see [`Scanner::every`].
#[derive(Debug)]
pub struct EveryMatch {
    /// Those of the first pass.
    hits: Vec<Hit>,
    /// A stream for each rule that hit.
    readers: Vec<(RuleId, Stream)>,
    found: Vec<ScanMatch>,
}

impl EveryMatch {
    /// Reads the next bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        for (rule, stream) in &mut self.readers {
            // A stream that reports every match has no hits: its matches are taken instead.
            let _ = stream.push(PART, bytes);
            collect(*rule, stream, &mut self.found);
        }
    }

    /// Ends the text. `first` is the stream that gave the hits: of a rule that could not be searched, its hit is
    /// reported.
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
            found.extend(ScanMatch::of(first, hit));
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

/// Takes what the stream of one rule has found.
fn collect(rule: RuleId, stream: &mut Stream, found: &mut Vec<ScanMatch>) {
    let records = stream.take_matches().into_iter();
    found.extend(records.map(|record| ScanMatch::from_record(stream, rule, record)));
}

/// Every match of every rule of `pack` in `text`, which is read as a part of that channel: ordered by start, end and
/// rule. For many texts make a [`Scanner`] once.
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
    };
    Scanner::new(pack.clone()).scan(&target, text).matches
}

#[cfg(test)]
mod tests;
