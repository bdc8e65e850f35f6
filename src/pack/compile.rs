//! The last step of loading: checked rules become automata and scopes.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use regex_syntax::hir::Hir;

use crate::limits::Limits;
use crate::matcher::pattern::{self, Refused};
use crate::matcher::{Matcher, Span};
use crate::rule::{Channel, Rule, Severity};
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
    /// A rule whose scope stays unknown applies all the same if it is critical.
    pub(crate) is_critical: bool,
}

/// Why a rule cannot be compiled.
#[derive(Debug)]
pub(crate) struct Problem {
    /// Index of the rule.
    pub(crate) rule: usize,
    pub(crate) kind: ProblemKind,
}

/// See [`Problem`].
#[derive(Debug)]
pub(crate) enum ProblemKind {
    /// The pattern with this index.
    Pattern { index: usize, refused: Refused },
    /// A glob of `tools`, `args` or `paths`.
    Glob(globset::Error),
    /// The patterns of all rules up to this one need more states than [`Limits::pack_states`].
    PackTooBig { states: usize },
    /// [`Limits::load_millis`] is over.
    TooSlow,
}

/// Compiles rules, which keep their order: a [`RuleId`] is an index.
pub(crate) fn compile(rules: &[Rule], limits: &Limits, root: Option<&Path>) -> Result<Compiled, Vec<Problem>> {
    let root = root.map(|root| root.to_string_lossy());
    let mut problems = Vec::new();
    let mut scopes = Vec::with_capacity(rules.len());
    let parsed = parse(rules, limits, &mut problems);
    for (index, rule) in rules.iter().enumerate() {
        match Scope::new(rule, root.as_deref()) {
            Ok(scope) => scopes.push(scope),
            Err(error) => problems.push(Problem { rule: index, kind: ProblemKind::Glob(error) }),
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let channels = Channel::ALL.map(|channel| ChannelRules::new(channel, rules, &parsed, limits));
    Ok(Compiled { channels, scopes })
}

/// The syntax trees of each rule's patterns.
fn parse(rules: &[Rule], limits: &Limits, problems: &mut Vec<Problem>) -> Vec<Vec<Hir>> {
    let deadline = Instant::now() + Duration::from_millis(limits.load_millis);
    let mut states = 0usize;
    let mut parsed = Vec::with_capacity(rules.len());
    for (rule, Rule { any, .. }) in rules.iter().enumerate() {
        let mut hirs = Vec::with_capacity(any.len());
        for (index, pattern) in any.iter().enumerate() {
            match pattern::parse(&pattern.to_regex(), limits) {
                Ok(hir) => {
                    states = states.saturating_add(pattern::states(&hir));
                    hirs.push(hir);
                }
                Err(refused) => {
                    let kind = ProblemKind::Pattern { index, refused };
                    problems.push(Problem { rule, kind });
                }
            }
        }
        parsed.push(hirs);
        if states > limits.pack_states {
            problems.push(Problem { rule, kind: ProblemKind::PackTooBig { states } });
            break;
        }
        if Instant::now() > deadline {
            problems.push(Problem { rule, kind: ProblemKind::TooSlow });
            break;
        }
    }
    parsed
}

impl ChannelRules {
    fn new(channel: Channel, rules: &[Rule], parsed: &[Vec<Hir>], limits: &Limits) -> Option<ChannelRules> {
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
                patterns.push(PatternOf { rule: RuleId(rule as u32), index, span: OnceLock::new() });
            }
        }
        if hirs.is_empty() {
            return None;
        }
        let matcher = Matcher::new(&hirs, limits.table_bytes);
        Some(ChannelRules { matcher, patterns: patterns.into_boxed_slice(), reads_paths })
    }
}

impl PatternOf {
    /// Finds where matches of the pattern begin.
    pub(crate) fn span(&self, rules: &[Rule]) -> Option<&Span> {
        let regex = || rules[self.rule.index()].any[self.index].to_regex();
        self.span.get_or_init(|| Span::new(&regex())).as_ref()
    }
}

impl Scope {
    fn new(rule: &Rule, root: Option<&str>) -> Result<Scope, globset::Error> {
        fn given(globs: &[String]) -> Option<&[String]> {
            (!globs.is_empty()).then_some(globs)
        }
        Ok(Scope {
            tools: given(&rule.tools).map(ToolScope::new).transpose()?,
            args: given(&rule.args).map(ArgScope::new).transpose()?,
            paths: given(&rule.paths).map(PathScope::new).transpose()?,
            is_critical: rule.severity == Severity::Critical,
        })
    }
}
