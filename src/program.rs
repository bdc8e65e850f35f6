//! The compiled form of a pack: the loader ([`pack`](crate::pack)) produces it, a [`stream`](crate::stream) executes
//! it.
//!
//! A [`Program`] has, for each channel, the rules grouped by the view that their patterns read ([`ViewRules`]), and,
//! for each rule, its scope, its compound condition and the entries that allow it. Everything here is immutable but
//! the matchers and Pike VMs, which are built when text first reaches them, their transition tables, and the products of
//! several matchers ([`ProductCache`]). The program knows neither TOML nor the state of a stream.

mod capture;
mod command;
mod condition;
mod detector_spec;
mod lazy_pike;
mod product;
mod release_plan;
mod scope;
mod view_key;

use std::ops::Range;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::{Arc, LazyLock, OnceLock};

#[cfg(feature = "ast")]
use crate::ast::AstPatternSet;
use crate::limits::Limits;
use crate::rule::{Channel, Rule};
use crate::verdict::RuleId;
#[cfg(feature = "lookaround")]
use ttsr_automata::lookaround::verify::{LookaroundSearch, Verifier};
use ttsr_automata::{Matcher, PatternId};
use ttsr_views::path::ArgScope;

pub(crate) use capture::{CaptureGroup, GroupFilter};
pub(crate) use command::{
    CommandCache, CommandOwner, CommandPattern, CommandProgress, CommandSet, CommandTrees,
    MAX_FLAGS, PathSpellings, ProgressState, ReadMatches, WordNeeds, alternatives, code_texts,
    operand_texts,
};
pub(crate) use condition::{CompoundCondition, ConditionExtent, MatchMode, PatternRole};
pub(crate) use detector_spec::{DetectorRule, DetectorSpec};
pub(crate) use lazy_pike::LazyPike;
pub(crate) use product::{MarkdownUse, ProductCache, StartOfPart, ViewSet};
pub(crate) use release_plan::ReleasePlan;
pub(crate) use scope::{AllowEntry, FileScope, RuleScope};
pub(crate) use view_key::{ViewKey, ViewSource};

/// The rules of a pack, compiled. A [`RuleId`] is an index into `rules`, `scopes`, `conditions` and `allows`.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) rules: Vec<Rule>,
    pub(crate) limits: Limits,
    pub(crate) places: Places,
    /// In the order of [`Channel::ALL`]; `None` where no rule reads the channel.
    pub(crate) channels: [Option<ChannelRules>; Channel::ALL.len()],
    pub(crate) scopes: Vec<RuleScope>,
    /// `None` for a rule that is broken by any match of any of its patterns.
    pub(crate) conditions: Vec<Option<Box<CompoundCondition>>>,
    /// The allow entries that apply to a rule.
    pub(crate) allows: Vec<Vec<Arc<AllowEntry>>>,
    /// The text that waits before it is released, in [`Mode::Live`](crate::Mode::Live).
    pub(crate) release: ReleasePlan,
    /// True if a rule asks a reviewer, whatever its mode.
    pub(crate) has_reviews: bool,
    /// The indices of the rules that are limited to agents, models or providers.
    pub(crate) limited_to_origins: Box<[usize]>,
}

/// The folders of the host that paths of tool calls are compared with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// The workspace: absolute paths below it are made relative to it.
    pub(crate) root: Option<String>,
    /// The home directory of the user who runs the commands.
    pub(crate) home: Option<String>,
}

impl Program {
    pub(crate) fn rule(&self, id: RuleId) -> &Rule {
        &self.rules[id.index()]
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    pub(crate) fn root(&self) -> Option<&str> {
        self.places.root.as_deref()
    }

    /// Returns the rules that read `channel`, or `None` if no rule does.
    #[inline]
    pub(crate) fn channel(&self, channel: Channel) -> Option<&ChannelRules> {
        self.channels[channel as usize].as_ref()
    }

    pub(crate) fn scope(&self, rule: RuleId) -> &RuleScope {
        &self.scopes[rule.index()]
    }

    pub(crate) fn compound(&self, rule: RuleId) -> Option<&CompoundCondition> {
        self.conditions[rule.index()].as_deref()
    }

    pub(crate) fn allows(&self, rule: RuleId) -> &[Arc<AllowEntry>] {
        &self.allows[rule.index()]
    }
}

/// The rules of one channel, grouped by the view that their patterns read.
#[derive(Debug)]
pub(crate) struct ChannelRules {
    /// The patterns that read the text unchanged.
    pub(crate) raw: ViewRules,
    /// The patterns that read some regions of the text, or the folded text.
    pub(crate) views: Box<[ViewRules]>,
    /// The rules that a detector decides.
    pub(crate) detectors: Box<[DetectorRule]>,
    /// The patterns over commands.
    pub(crate) commands: CommandSet,
    /// The syntax-tree patterns, by rule.
    #[cfg(feature = "ast")]
    pub(crate) shapes: Option<Box<AstPatternSet>>,
    /// The files that rules and allow entries of this channel are limited to. Paths in tool input are decoded if there is
    /// any.
    pub(crate) file_scopes: Box<[Arc<FileScope>]>,
    /// The products of the matchers, built as text needs them.
    pub(crate) products: ProductCache,
}

/// A matcher that is built when text is first searched with it. A pack has matchers for each view of each channel, and
/// most programs read few of them. Building cannot fail: a pack whose patterns might not fit into a table is built as a
/// whole when it is loaded.
pub(crate) type LazyMatcher = LazyLock<Matcher, BuildMatcher>;

/// Builds a matcher.
pub(crate) type BuildMatcher = Box<dyn FnOnce() -> Matcher + Send + UnwindSafe + RefUnwindSafe>;

/// The patterns that read the same text.
#[derive(Debug)]
pub(crate) struct ViewRules {
    pub(crate) key: ViewKey,
    /// Searches for the first end of each pattern in `patterns`.
    pub(crate) matcher: LazyMatcher,
    /// Indexed by pattern id of `matcher`.
    pub(crate) patterns: Box<[FirstEndPattern]>,
    /// The number of exceptions among `patterns`.
    pub(crate) exceptions: usize,
    #[cfg(feature = "lookaround")]
    pub(crate) confirms: ConfirmTable,
    /// The patterns whose full matches are needed: one set for rules that hold text back, one for the other rules, and
    /// one for patterns with look-around.
    pub(crate) full: Box<[FullMatchRules]>,
}

/// The counts of the text before a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextCounts {
    /// Lines and characters, because a condition compares positions in them.
    LinesAndChars,
    /// None.
    Nothing,
}

/// The group that a pattern whose full matches are needed is in. Patterns of different groups are read by different
/// automata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FullMatchKind {
    /// Text is held back until the patterns are decided.
    Held,
    /// No text is held back for the patterns.
    Unheld,
    /// The patterns look around: the haystack is searched as a whole instead of in stretches. No text is held back.
    Lookaround,
}

/// The patterns of one group whose full matches are needed.
#[derive(Debug)]
pub(crate) struct FullMatchRules {
    pub(crate) kind: FullMatchKind,
    /// Tells at which positions no match of any pattern is in progress, and which patterns have matched.
    pub(crate) matcher: LazyMatcher,
    /// Indexed by pattern id of `matcher`.
    pub(crate) patterns: Box<[FullMatchPattern]>,
    /// The rules of the patterns, in the order of their patterns.
    pub(crate) rules: Box<[FullMatchRule]>,
    pub(crate) counts: TextCounts,
    /// [`Limits::stretch_bytes`](crate::Limits::stretch_bytes), at least 1.
    pub(crate) stretch_bytes: usize,
    /// Computed when text is first searched, because that decodes the patterns.
    pub(crate) reaches: OnceLock<RuleReaches>,
}

/// The least value of [`FullMatchRules::most_detected`] in bytes.
// PERF: in most text a match of some rule is in progress. Without this the secrets of the built-in packs hold most of a reply,
// because the matches of one of them are not bounded: 2.6 KiB after 5.3 KB of text.
const LEAST_DETECTED: usize = 1 << 10;

/// The bytes that decide a match of a pattern, counted from its start: its longest match, and the character after it, which
/// an assertion may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MatchReach(usize);

/// The reaches of the rules of a [`FullMatchRules`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct RuleReaches {
    /// The longest of the rules that have one.
    pub(crate) longest: MatchReach,
    /// The indices of the rules whose matches have no bound that fits into a stretch.
    pub(crate) unbounded: Box<[usize]>,
    /// See [`FullMatchRules::most_detected`].
    most_detected: usize,
}

impl MatchReach {
    /// The most bytes of a character.
    const NEXT_CHAR: usize = 4;

    /// Returns the reach of these patterns of a matcher. `None` if a match is unbounded, or so long that the text that must be
    /// held for it exceeds `stretch_bytes`.
    fn of(matcher: &Matcher, patterns: Range<u32>, stretch_bytes: usize) -> Option<MatchReach> {
        let mut lens = patterns.map(|pattern| matcher.max_match_len(PatternId(pattern)));
        let longest = lens.try_fold(0, |longest, len| Some(longest.max(len?)))?;
        let reach = MatchReach(longest.checked_add(MatchReach::NEXT_CHAR)?);
        (reach.most_held() <= stretch_bytes).then_some(reach)
    }

    pub(crate) fn bytes(self) -> usize {
        self.0
    }

    /// Returns the distance of the positions at which matches are decided while another match is in progress.
    pub(crate) fn interval(self) -> usize {
        // At least some bytes: each time costs as much as a short search.
        self.0.max(16)
    }

    /// Returns the most bytes that are held for matches in progress.
    pub(crate) fn most_held(self) -> usize {
        self.0.saturating_mul(2).saturating_add(self.interval())
    }
}

/// The patterns of one rule in a [`FullMatchRules`].
#[derive(Debug)]
pub(crate) struct FullMatchRule {
    pub(crate) rule: RuleId,
    /// Indices into [`FullMatchRules::patterns`].
    pub(crate) patterns: Range<u32>,
    /// Tells where no match of these patterns is in progress. Its pattern ids count from the start of `patterns`.
    pub(crate) matcher: LazyMatcher,
}

impl FullMatchRule {
    /// Returns the reach of the matches of the rule, if it is bounded.
    pub(crate) fn reach(&self, stretch_bytes: usize) -> Option<MatchReach> {
        let patterns = 0..self.patterns.end - self.patterns.start;
        MatchReach::of(&self.matcher, patterns, stretch_bytes)
    }
}

impl FullMatchRules {
    /// Returns true if the matches of all rules are bounded. Those of patterns with look-around are not.
    pub(crate) fn are_bounded(&self) -> bool {
        !self.is_unbroken() && self.reaches().unbounded.is_empty()
    }

    /// Returns the number of held bytes at which the rules whose matches are not bounded are searched. Each of them then knows
    /// where its match in progress begins, most often nowhere, and the text before that match can be dropped.
    #[inline]
    pub(crate) fn most_detected(&self) -> usize {
        match self.is_unbroken() {
            true => self.stretch_bytes,
            false => self.reaches().most_detected,
        }
    }

    /// Returns the longest reach of the rules in bytes, if the matches of all are bounded.
    pub(crate) fn reach(&self) -> Option<usize> {
        self.are_bounded().then(|| self.reaches().longest.bytes())
    }

    /// Returns the reaches of the rules.
    pub(crate) fn reaches(&self) -> &RuleReaches {
        self.reaches.get_or_init(|| {
            let mut reaches = RuleReaches {
                longest: MatchReach(0),
                unbounded: Box::default(),
                most_detected: self.stretch_bytes,
            };
            let mut unbounded = Vec::new();
            for (index, rule) in self.rules.iter().enumerate() {
                match MatchReach::of(&self.matcher, rule.patterns.clone(), self.stretch_bytes) {
                    Some(reach) => reaches.longest.0 = reaches.longest.0.max(reach.0),
                    None => unbounded.push(index),
                }
            }
            if !unbounded.is_empty() {
                // Twice what a match of another rule needs, so that at least half can be dropped.
                let least = reaches.longest.bytes().saturating_mul(2);
                reaches.most_detected = least.max(LEAST_DETECTED).min(self.stretch_bytes);
            }
            reaches.unbounded = unbounded.into();
            reaches
        })
    }

    /// Returns true if text is held back until the patterns are decided.
    pub(crate) fn holds(&self) -> bool {
        self.kind == FullMatchKind::Held
    }

    /// Returns true if the haystack is searched as a whole instead of in stretches.
    pub(crate) fn is_unbroken(&self) -> bool {
        self.kind == FullMatchKind::Lookaround
    }

    /// Returns the index in `rules` of the rule of a pattern.
    pub(crate) fn rule_of(&self, pattern: PatternId) -> usize {
        self.rules
            .partition_point(|rule| rule.patterns.end <= pattern.0)
    }
}

/// A pattern whose full matches are needed.
#[derive(Debug)]
pub(crate) struct FullMatchPattern {
    pub(crate) rule: RuleId,
    pub(crate) role: PatternRole,
    /// The arguments that the pattern applies to, in addition to the scope of its rule.
    pub(crate) arg: Option<Arc<ArgScope>>,
    /// The filter on a capture group of the match.
    pub(crate) filter: Option<Arc<GroupFilter>>,
    /// The exception of the pattern: an index into the exceptions of its view.
    pub(crate) unless: Option<u32>,
    pub(crate) search: FullMatchSearch,
}

/// The search for the full matches of a pattern.
#[derive(Debug)]
pub(crate) enum FullMatchSearch {
    Pike(Arc<LazyPike>),
    /// For a pattern with look-around, which only [`MatchMode::Every`] allows.
    #[cfg(feature = "lookaround")]
    Around(Arc<LookaroundSearch>),
}

/// A pattern whose first end is enough.
#[derive(Debug)]
pub(crate) struct FirstEndPattern {
    pub(crate) rule: RuleId,
    /// The arguments that the pattern applies to, in addition to the scope of its rule.
    pub(crate) arg: Option<Arc<ArgScope>>,
    pub(crate) role: FirstEndRole,
    /// Finds the start of a match; `None` if `confirm` does.
    pub(crate) vm: Option<Arc<LazyPike>>,
    #[cfg(feature = "lookaround")]
    pub(crate) confirm: Option<Arc<Verifier>>,
}

/// The meaning of a first end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FirstEndRole {
    /// A match of the rule.
    Match,
    /// A match of the rule, unless the exception with this index has matched before.
    MatchUnless(u32),
    /// A match of the rule, if some commands of the call cannot be read.
    MatchIfUnread,
    /// The exception of other patterns of the view, with this index. It is no match of a rule.
    Exception(u32),
}

impl ChannelRules {
    fn all(&self) -> impl Iterator<Item = &ViewRules> {
        [&self.raw].into_iter().chain(&self.views)
    }

    /// Returns the rules that read the channel. A rule may be returned more than once.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RuleId> {
        self.all()
            .flat_map(|view| {
                let first_end = view.patterns.iter().map(|pattern| pattern.rule);
                let full = view.full.iter().flat_map(|full| &full.patterns);
                first_end.chain(full.map(|pattern| pattern.rule))
            })
            .chain(self.detectors.iter().map(|detector| detector.rule))
            .chain(self.commands.rules())
            .chain(self.shape_rules())
    }

    /// Returns the rules with syntax-tree patterns.
    #[cfg(feature = "ast")]
    fn shape_rules(&self) -> impl Iterator<Item = RuleId> {
        let owners = self.shapes.iter().flat_map(|shapes| shapes.all_owners());
        owners.map(RuleId)
    }

    #[cfg(not(feature = "ast"))]
    fn shape_rules(&self) -> impl Iterator<Item = RuleId> {
        std::iter::empty()
    }

    fn has_shapes(&self) -> bool {
        self.shape_rules().next().is_some()
    }

    /// Returns the matchers that search for first ends, by view. Those that are not built yet are built.
    pub(crate) fn first_end_matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.all().map(|view| &*view.matcher)
    }

    /// Returns every matcher of the channel. Those that are not built yet are built.
    pub(crate) fn matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.all().flat_map(|view| {
            let full = view.full.iter().map(|full| &*full.matcher);
            [&*view.matcher].into_iter().chain(full)
        })
    }

    /// Returns true if a rule of this channel needs regions from that view.
    pub(crate) fn wants(&self, source: ViewSource, channel: Channel) -> bool {
        let mut views = self.views.iter();
        let mut detectors = self.detectors.iter();
        source == ViewSource::code_view(channel) && self.has_shapes()
            || views.any(|view| view.key.source == Some(source))
            || detectors.any(|detector| detector.spec.source(channel) == Some(source))
    }

    /// Returns true if a rule of this channel distinguishes comments, strings and the rest of code.
    pub(crate) fn distinguishes_code(&self) -> bool {
        let mut views = self.views.iter();
        views.any(|view| view.key.distinguishes_code())
    }

    /// Returns true if first ends in the unchanged text decide every rule of this channel.
    pub(crate) fn is_raw_only(&self) -> bool {
        self.views.is_empty()
            && self.detectors.is_empty()
            && self.raw.full.is_empty()
            && self.commands.is_empty()
            && !self.has_shapes()
    }
}

impl FullMatchPattern {
    /// Returns the matches in `text` that start at `from` or later, and true if these are all of them: the search of a
    /// pattern with look-around may exceed its budget.
    pub(crate) fn matches(&self, text: &[u8], from: usize) -> (Vec<FoundMatch>, bool) {
        match &self.search {
            FullMatchSearch::Pike(vm) => {
                let filter = self.filter.as_ref();
                let found = vm.get().find_all(text, from).into_iter();
                let found = found.map(|found| FoundMatch {
                    is_accepted: filter.is_none_or(|it| it.accepts(&found, text)),
                    range: found.range,
                });
                (found.collect(), true)
            }
            #[cfg(feature = "lookaround")]
            FullMatchSearch::Around(around) => {
                let (found, are_all) = around.find_all(text);
                let found = found.into_iter().filter(|range| range.start >= from);
                let found = found.map(|range| FoundMatch {
                    is_accepted: true,
                    range,
                });
                (found.collect(), are_all)
            }
        }
    }
}

/// A match of a pattern. The next match begins after it, whether it is accepted or not.
#[derive(Debug)]
pub(crate) struct FoundMatch {
    pub(crate) range: Range<usize>,
    /// False if the filter of the pattern rejects it.
    pub(crate) is_accepted: bool,
}

/// The patterns of a view whose ends are confirmed after the automaton has reported them.
#[cfg(feature = "lookaround")]
#[derive(Debug)]
pub(crate) struct ConfirmTable {
    /// Indexed by pattern id of the matcher; empty if no pattern is confirmed.
    by_pattern: Box<[Option<Arc<Verifier>>]>,
    /// [`Limits::confirm_bytes`].
    pub(crate) bytes: usize,
    /// [`Limits::confirm_pending`].
    pub(crate) pending: usize,
}

#[cfg(feature = "lookaround")]
impl ConfirmTable {
    pub(crate) fn new(patterns: &[FirstEndPattern], limits: &Limits) -> ConfirmTable {
        let confirms = patterns.iter().map(|pattern| pattern.confirm.clone());
        let mut by_pattern: Vec<Option<Arc<Verifier>>> = confirms.collect();
        if by_pattern.iter().all(Option::is_none) {
            by_pattern.clear();
        }
        ConfirmTable {
            by_pattern: by_pattern.into_boxed_slice(),
            bytes: limits.confirm_bytes,
            pending: limits.confirm_pending,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_pattern.is_empty()
    }

    /// Returns, for each pattern, true if it is confirmed. Empty if no pattern is.
    pub(crate) fn is_confirmed(&self) -> Vec<bool> {
        self.by_pattern.iter().map(Option::is_some).collect()
    }

    pub(crate) fn get(&self, pattern: PatternId) -> Option<&Verifier> {
        self.by_pattern.get(pattern.index())?.as_deref()
    }
}
