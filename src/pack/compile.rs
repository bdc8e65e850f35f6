//! The last step of loading: checked rules become automata and scopes.

use std::sync::OnceLock;

use regex_syntax::hir::Hir;

use crate::limits::Limits;
#[cfg(feature = "lookaround")]
use crate::matcher::confirm::Confirm;
use crate::matcher::pattern;
use crate::matcher::{Matcher, Span, TooManyClasses};
#[cfg(feature = "lookaround")]
use crate::rule::PatternKind;
use crate::rule::{Channel, Pattern, Rule, Severity};
use crate::verdict::RuleId;
use crate::view::path::{ArgScope, PathScope, ToolScope};

/// What streams need of a pack: for each channel an automaton, for each rule its scope.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// By [`Channel::ALL`]'s order; `None` where no rule reads the channel.
    pub(crate) channels: [Option<ChannelRules>; Channel::ALL.len()],
    /// By rule.
    pub(crate) scopes: Vec<Scope>,
}

/// The rules of one channel, in one matcher.
#[derive(Debug)]
pub(crate) struct ChannelRules {
    pub(crate) matcher: Matcher,
    /// By pattern of the matcher.
    pub(crate) patterns: Box<[PatternOf]>,
    /// Whether some rule here has a path scope, so that paths in tool input are worth reading.
    pub(crate) reads_paths: bool,
    #[cfg(feature = "lookaround")]
    pub(crate) confirms: Confirms,
}

/// Which pattern of which rule a pattern of the matcher is.
#[derive(Debug)]
pub(crate) struct PatternOf {
    pub(crate) rule: RuleId,
    index: usize,
    /// Built when a span is asked for the first time.
    span: OnceLock<Option<Span>>,
}

/// Where in a reply a rule applies, besides the channel.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) tools: Option<ToolScope>,
    pub(crate) args: Option<ArgScope>,
    pub(crate) paths: Option<PathScope>,
    pub(crate) agents: Option<ToolScope>,
    pub(crate) models: Option<ToolScope>,
    pub(crate) providers: Option<ToolScope>,
    /// A rule whose scope stays unknown applies all the same if it is critical.
    pub(crate) is_critical: bool,
}

/// Why rules that are right one by one cannot be a pack: what the rule with that index makes too big.
#[derive(Debug)]
pub(crate) struct TooBig {
    /// Index of the rule.
    pub(crate) rule: usize,
    /// What is too big.
    pub(crate) what: Big,
}

/// See [`TooBig`].
#[derive(Debug)]
pub(crate) enum Big {
    /// The rules up to this one need so many automaton states, more than [`Limits::pack_states`].
    States(usize),
    /// All globs of one scope together are too much for `globset`.
    Scope(globset::Error),
    /// The patterns of all rules up to this one tell too many characters apart.
    Classes,
}

/// Compiles rules that are checked and final; they keep their order: a [`RuleId`] is an index.
pub(crate) fn compile(rules: &[Rule], limits: &Limits) -> Result<Compiled, TooBig> {
    let mut states = 0usize;
    let mut parsed = Vec::with_capacity(rules.len());
    for (rule, Rule { condition, .. }) in rules.iter().enumerate() {
        let hirs: Vec<Hir> = condition
            .any
            .iter()
            .map(|pattern| parse(pattern, limits))
            .collect();
        states = hirs
            .iter()
            .map(pattern::states)
            .fold(states, usize::saturating_add);
        if states > limits.pack_states {
            return Err(TooBig {
                rule,
                what: Big::States(states),
            });
        }
        parsed.push(hirs);
    }
    let mut channels = Channel::ALL.map(|_| None);
    for (rules_of, channel) in channels.iter_mut().zip(Channel::ALL) {
        let new = ChannelRules::new(channel, rules, &parsed, limits);
        *rules_of = new.map_err(|TooManyClasses| TooBig {
            rule: rules.len() - 1,
            what: Big::Classes,
        })?;
    }
    let scopes = rules.iter().enumerate().map(|(index, rule)| {
        Scope::new(rule).map_err(|error| TooBig {
            rule: index,
            what: Big::Scope(error),
        })
    });
    Ok(Compiled {
        channels,
        scopes: scopes.collect::<Result<_, _>>()?,
    })
}

fn parse(pattern: &Pattern, limits: &Limits) -> Hir {
    pattern::parse(&pattern.to_regex(), limits)
        .expect("every pattern was parsed when it was checked")
}

impl ChannelRules {
    fn new(
        channel: Channel,
        rules: &[Rule],
        parsed: &[Vec<Hir>],
        limits: &Limits,
    ) -> Result<Option<ChannelRules>, TooManyClasses> {
        let mut hirs = Vec::new();
        let mut patterns = Vec::new();
        let mut reads_paths = false;
        for (rule, Rule { on, paths, .. }) in rules.iter().enumerate() {
            if !on.contains(&channel) {
                continue;
            }
            reads_paths |= !paths.is_empty();
            for (index, hir) in parsed[rule].iter().enumerate() {
                hirs.push(hir.clone());
                patterns.push(PatternOf {
                    rule: RuleId(rule as u32),
                    index,
                    span: OnceLock::new(),
                });
            }
        }
        if hirs.is_empty() {
            return Ok(None);
        }
        #[cfg(not(feature = "lookaround"))]
        let matcher = Matcher::new(&hirs, limits.table_bytes)?;
        #[cfg(feature = "lookaround")]
        let confirms = Confirms::new(&patterns, rules, limits);
        #[cfg(feature = "lookaround")]
        let matcher = confirms.matcher(&hirs, limits.table_bytes)?;
        Ok(Some(ChannelRules {
            matcher,
            patterns: patterns.into_boxed_slice(),
            reads_paths,
            #[cfg(feature = "lookaround")]
            confirms,
        }))
    }
}

/// Which patterns of a channel are confirmed after the automaton has found where they may end.
#[cfg(feature = "lookaround")]
#[derive(Debug)]
pub(crate) struct Confirms {
    /// By pattern of the matcher; empty where none is confirmed.
    by_pattern: Box<[Option<Confirm>]>,
    /// [`Limits::confirm_bytes`].
    pub(crate) bytes: usize,
    /// [`Limits::confirm_pending`].
    pub(crate) pending: usize,
}

#[cfg(feature = "lookaround")]
impl Confirms {
    fn new(patterns: &[PatternOf], rules: &[Rule], limits: &Limits) -> Confirms {
        let of = |pattern: &PatternOf| {
            let written = &rules[pattern.rule.index()].condition.any[pattern.index];
            let is_regex = written.kind == PatternKind::Regex;
            is_regex
                .then(|| Confirm::of(&written.text, limits))
                .flatten()
        };
        let mut by_pattern: Vec<Option<Confirm>> = patterns.iter().map(of).collect();
        if by_pattern.iter().all(Option::is_none) {
            by_pattern.clear();
        }
        Confirms {
            by_pattern: by_pattern.into_boxed_slice(),
            bytes: limits.confirm_bytes,
            pending: limits.confirm_pending,
        }
    }

    fn matcher(&self, hirs: &[Hir], table_bytes: usize) -> Result<Matcher, TooManyClasses> {
        if self.is_empty() {
            return Matcher::new(hirs, table_bytes);
        }
        let every_end: Vec<bool> = self.by_pattern.iter().map(Option::is_some).collect();
        Matcher::with_every_end(hirs, table_bytes, &every_end)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_pattern.is_empty()
    }

    pub(crate) fn get(&self, pattern: u32) -> Option<&Confirm> {
        self.by_pattern.get(pattern as usize)?.as_ref()
    }
}

impl PatternOf {
    /// Finds where matches of the pattern begin.
    pub(crate) fn span(&self, rules: &[Rule]) -> Option<&Span> {
        let regex = || rules[self.rule.index()].condition.any[self.index].to_regex();
        self.span.get_or_init(|| Span::new(&regex())).as_ref()
    }
}

impl Scope {
    fn new(rule: &Rule) -> Result<Scope, globset::Error> {
        type New<T> = fn(&[String]) -> Result<T, globset::Error>;
        fn given<T>(globs: &[String], new: New<T>) -> Result<Option<T>, globset::Error> {
            if globs.is_empty() {
                Ok(None)
            } else {
                new(globs).map(Some)
            }
        }
        Ok(Scope {
            tools: given(&rule.tools, ToolScope::new)?,
            args: given(&rule.args, ArgScope::new)?,
            paths: given(&rule.paths, PathScope::new)?,
            agents: given(&rule.agents, ToolScope::new)?,
            models: given(&rule.models, ToolScope::new)?,
            providers: given(&rule.providers, ToolScope::new)?,
            is_critical: rule.severity == Severity::Critical,
        })
    }
}
