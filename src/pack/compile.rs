//! The last step of loading: checked rules become automata, conditions and scopes.

mod sight;
mod what;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use globset::GlobSet;
use regex_syntax::hir::{Hir, HirKind};

#[cfg(feature = "ast")]
use crate::ast::{Grammar, Shapes, Sought};
use crate::detect::entropy::{Entropy, EntropyLimits};
use crate::limits::Limits;
use crate::pack::Allow;
use crate::pack::lower::{self, lower};
use crate::rule::{Action, Capture, Channel, Condition, Count, Pattern, Rule, Severity, Within};
use crate::verdict::RuleId;
use crate::view::path::{ArgScope, PathScope, ToolScope};
use crate::view::piece::Regions;
#[cfg(feature = "lookaround")]
use ttsr_automata::lookaround::verify::{AroundSearch, Confirm};
use ttsr_automata::pattern::{self, Refused};
use ttsr_automata::pike::{self, PikeVm};
use ttsr_automata::{Matcher, TooManyClasses};

pub(crate) use sight::{Sight, Source};
use what::NameSets;
pub(crate) use what::What;

/// What streams need of a pack: for each channel its automata, for each rule its scope and condition.
#[derive(Debug, Default)]
pub(crate) struct Compiled {
    /// By [`Channel::ALL`]'s order; `None` where no rule reads the channel.
    pub(crate) channels: [Option<ChannelRules>; Channel::ALL.len()],
    /// By rule.
    pub(crate) scopes: Vec<Scope>,
    /// By rule: what is more than that one of its patterns matches.
    pub(crate) compounds: Vec<Option<Box<Compound>>>,
    /// By rule: where its hits do not count.
    pub(crate) allowed: Vec<Vec<Arc<Allowed>>>,
}

/// Where hits of a rule do not count: all that is given must hold.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) tools: Option<Arc<ToolScope>>,
    pub(crate) paths: Option<Arc<PathScope>>,
    /// Texts of the match.
    pub(crate) text: Option<Arc<GlobSet>>,
}

/// The rules of one channel, by what their patterns see of it.
#[derive(Debug)]
pub(crate) struct ChannelRules {
    /// Those that see the text as it is.
    pub(crate) raw: ViewRules,
    /// Those that see some of it, or see it folded.
    pub(crate) views: Box<[ViewRules]>,
    /// Rules that no pattern says.
    pub(crate) watches: Box<[Watched]>,
    /// Shapes of code, by rule.
    #[cfg(feature = "ast")]
    pub(crate) shapes: Option<Box<Shapes>>,
    /// Whether some rule here has a path scope, so that paths in tool input are worth reading.
    pub(crate) reads_paths: bool,
}

/// A rule whose condition is a detector's.
#[derive(Debug)]
pub(crate) struct Watched {
    pub(crate) rule: RuleId,
    pub(crate) what: What,
    /// Whether text waits for it.
    pub(crate) holds: bool,
}

/// The rules that see the same text.
#[derive(Debug)]
pub(crate) struct ViewRules {
    pub(crate) sight: Sight,
    /// Patterns of which the first end is enough.
    pub(crate) matcher: Matcher,
    /// By pattern of the matcher.
    pub(crate) patterns: Box<[PatternOf]>,
    #[cfg(feature = "lookaround")]
    pub(crate) confirms: Confirms,
    /// Patterns of which every match is wanted whole: of rules that hold text back, and of others.
    pub(crate) spans: Box<[SpanRules]>,
}

/// Patterns of which every match is wanted whole, in one matcher.
#[derive(Debug)]
pub(crate) struct SpanRules {
    pub(crate) matcher: Matcher,
    /// By pattern of the matcher.
    pub(crate) patterns: Box<[SpanPattern]>,
    /// Whether text waits for them.
    pub(crate) holds: bool,
    /// Whether these patterns look around, so that the haystack is searched whole and not in stretches.
    pub(crate) is_unbroken: bool,
}

/// A pattern of which every match is wanted whole.
#[derive(Debug)]
pub(crate) struct SpanPattern {
    pub(crate) rule: RuleId,
    pub(crate) role: Role,
    /// Where it is looked for, besides its rule's own arguments.
    pub(crate) arg: Option<Arc<ArgScope>>,
    /// Where its group of interest is.
    pub(crate) capture: Option<Arc<Captured>>,
    pub(crate) search: WholeSearch,
}

/// The search for the whole matches of a pattern.
#[derive(Debug)]
pub(crate) enum WholeSearch {
    Pike(Arc<PikeVm>),
    /// For a pattern that looks around, which only [`MatchMode::Every`] allows.
    #[cfg(feature = "lookaround")]
    Around(Arc<AroundSearch>),
}

/// Which matches of a rule a stream reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MatchMode {
    /// One hit per rule and part, as early as it is certain. Patterns are compiled for their first ends where
    /// that is enough.
    First,
    /// Every match. All patterns are compiled for whole matches.
    Every,
}

/// What a pattern is to its rule's condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Any,
    /// One of several that must all be there, by index.
    All(u32),
    /// One of several that must follow each other, by index.
    Sequence(u32),
    /// An exception.
    None,
}

/// What a group of a match must be like.
#[derive(Debug)]
pub(crate) struct Captured {
    group: Group,
    entropy: Option<u32>,
    random: bool,
    not_in: Option<Arc<GlobSet>>,
}

/// The group of a match that a capture is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Group {
    /// The match itself.
    Whole,
    /// The group with this number.
    Number(u32),
    /// The first group, or the match itself where that is not part of it.
    FirstOrWhole,
}

/// The condition of a rule that is more than that one of its patterns matches.
#[derive(Debug)]
pub(crate) struct Compound {
    /// Number of patterns that must all be there, and that must follow each other.
    pub(crate) all: usize,
    pub(crate) sequence: usize,
    pub(crate) has_none: bool,
    /// How far apart its patterns may match.
    pub(crate) within: Within,
    pub(crate) first: Option<u32>,
    pub(crate) last: Option<u32>,
    pub(crate) count: Option<Count>,
    pub(crate) redacts: bool,
    /// Whether some texts of a match are allowed.
    is_allowed_by_text: bool,
    mode: MatchMode,
}

/// What a condition is decided on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Haystack,
    Part,
    Message,
}

/// Which pattern of which rule a pattern of the matcher is.
#[derive(Debug)]
pub(crate) struct PatternOf {
    pub(crate) rule: RuleId,
    /// Where it is looked for, besides its rule's own arguments.
    pub(crate) arg: Option<Arc<ArgScope>>,
    /// Finds where matches begin; none where `confirm` does.
    pub(crate) vm: Option<Arc<PikeVm>>,
    #[cfg(feature = "lookaround")]
    confirm: Option<Arc<Confirm>>,
}

/// A pattern, compiled once for all channels.
struct Prepared {
    hir: Hir,
    arg: Option<Arc<ArgScope>>,
    vm: Option<Arc<PikeVm>>,
    capture: Option<Arc<Captured>>,
    #[cfg(feature = "lookaround")]
    confirm: Option<Arc<Confirm>>,
    /// Set for a pattern that looks around if every match is wanted.
    #[cfg(feature = "lookaround")]
    around: Option<Arc<AroundSearch>>,
}

impl Prepared {
    /// The search for whole matches; `None` if the pattern can only be verified at an end.
    fn search(&self) -> Option<WholeSearch> {
        #[cfg(feature = "lookaround")]
        if let Some(around) = &self.around {
            return Some(WholeSearch::Around(Arc::clone(around)));
        }
        self.vm.clone().map(WholeSearch::Pike)
    }
}

/// Where in a reply a rule applies, besides the channel.
#[derive(Debug)]
pub(crate) struct Scope {
    pub(crate) tools: Option<Arc<ToolScope>>,
    pub(crate) args: Option<Arc<ArgScope>>,
    pub(crate) paths: Option<Arc<PathScope>>,
    pub(crate) agents: Option<Arc<ToolScope>>,
    pub(crate) models: Option<Arc<ToolScope>>,
    pub(crate) providers: Option<Arc<ToolScope>>,
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
    /// A pattern is refused, though the check has accepted it.
    Pattern(Refused),
    /// The patterns of all rules up to this one tell too many characters apart.
    Classes,
}

/// Compiles rules that are checked and final; they keep their order: a [`RuleId`] is an index.
pub(crate) fn compile(
    rules: &[Rule],
    allows: &[Allow],
    limits: &Limits,
    mode: MatchMode,
) -> Result<Compiled, TooBig> {
    let mut globs = Globs::default();
    let mut names = NameSets::default();
    let scopes = rules.iter().enumerate().map(|(index, rule)| {
        Scope::new(rule, &mut globs).map_err(|error| TooBig {
            rule: index,
            what: Big::Scope(error),
        })
    });
    let scopes = scopes.collect::<Result<_, _>>()?;
    let allowed = allowed(rules, allows, &mut globs)?;
    // Where only some texts are allowed, a rule wants more than its first match.
    let by_text = |index: usize| allowed[index].iter().any(|allow| allow.text.is_some());
    let rules_by_index = rules.iter().enumerate();
    let compounds: Vec<_> = rules_by_index
        .map(|(index, rule)| match mode {
            MatchMode::First => Compound::of(rule, by_text(index)),
            MatchMode::Every => Some(Box::new(Compound {
                mode: MatchMode::Every,
                ..Compound::new(rule, by_text(index))
            })),
        })
        .collect();
    let prepared = prepared(rules, &compounds, limits, &mut globs)?;
    let mut channels = Channel::ALL.map(|_| None);
    for (rules_of, channel) in channels.iter_mut().zip(Channel::ALL) {
        let from = Parts {
            rules,
            prepared: &prepared,
            compounds: &compounds,
            allowed: &allowed,
        };
        let new = ChannelRules::new(channel, &from, &mut names, limits);
        *rules_of = new.map_err(|TooManyClasses| TooBig {
            rule: rules.len() - 1,
            what: Big::Classes,
        })?;
    }
    Ok(Compiled {
        channels,
        scopes,
        compounds,
        allowed,
    })
}

/// The patterns of each rule, within [`Limits::pack_states`].
fn prepared<'r>(
    rules: &'r [Rule],
    compounds: &[Option<Box<Compound>>],
    limits: &Limits,
    globs: &mut Globs<'r>,
) -> Result<Vec<Vec<Prepared>>, TooBig> {
    let mut compiler = pike::Compiler::default();
    let mut states = 0usize;
    let mut prepared = Vec::with_capacity(rules.len());
    for (index, (rule, compound)) in rules.iter().zip(compounds).enumerate() {
        let too_big = |what| TooBig { rule: index, what };
        let mut patterns = Vec::new();
        for (role, pattern) in numbered(&rule.condition) {
            let lowered = lower(pattern, limits).map_err(|why| too_big(Big::Pattern(why)))?;
            states = states.saturating_add(pattern::states(&lowered.hir));
            if states > limits.pack_states {
                return Err(too_big(Big::States(states)));
            }
            let arg = pattern.arg.as_slice();
            let arg = shared(&mut globs.args, arg, ArgScope::new);
            let arg = arg.map_err(|error| too_big(Big::Scope(error)))?;
            #[cfg(feature = "lookaround")]
            if let Some(text) = &lowered.confirmed_by {
                let confirm = Confirm::of(text, &limits.of_pattern());
                let confirm = confirm.map_err(|why| too_big(Big::Pattern(why)))?;
                let wants_every = compound.as_ref().is_some_and(|it| it.reports_every());
                let around = match wants_every {
                    true => Some(AroundSearch::of(text).ok_or_else(|| {
                        too_big(Big::Pattern(Refused::TooBig {
                            states: pattern::states(&lowered.hir),
                            limit: limits.rule_states,
                        }))
                    })?),
                    false => None,
                };
                patterns.push(Prepared {
                    confirm: Some(Arc::new(confirm)),
                    around: around.map(Arc::new),
                    hir: lowered.hir,
                    arg,
                    vm: None,
                    capture: None,
                });
                continue;
            }
            let hir = match rule.condition.line && compound.is_some() {
                true => lower::line(lowered.hir),
                false => lowered.hir,
            };
            let capture = rule.condition.capture.as_ref();
            let capture = capture.filter(|_| role == Role::Any);
            let capture = capture.map(|capture| Captured::new(capture, &hir, globs));
            let capture = capture
                .transpose()
                .map_err(|error| too_big(Big::Scope(error)))?;
            let group = capture.as_ref().and_then(|capture| capture.group.number());
            patterns.push(Prepared {
                vm: Some(Arc::new(compiler.compile(&hir, group))),
                hir,
                arg,
                capture: capture.map(Arc::new),
                #[cfg(feature = "lookaround")]
                confirm: None,
                #[cfg(feature = "lookaround")]
                around: None,
            });
        }
        prepared.push(patterns);
    }
    Ok(prepared)
}

/// What is allowed to break each rule.
fn allowed<'r>(
    rules: &[Rule],
    allows: &'r [Allow],
    globs: &mut Globs<'r>,
) -> Result<Vec<Vec<Arc<Allowed>>>, TooBig> {
    let mut allowed: Vec<Vec<Arc<Allowed>>> = rules.iter().map(|_| Vec::new()).collect();
    for allow in allows {
        let Some(first) = allow.rules.first() else {
            continue;
        };
        let made = Allowed::new(allow, globs).map_err(|error| TooBig {
            rule: first.index(),
            what: Big::Scope(error),
        });
        let made = Arc::new(made?);
        for rule in &allow.rules {
            allowed[rule.index()].push(Arc::clone(&made));
        }
    }
    Ok(allowed)
}

/// What is compiled of the rules of a pack, by rule.
#[derive(Clone, Copy)]
struct Parts<'c> {
    rules: &'c [Rule],
    prepared: &'c [Vec<Prepared>],
    compounds: &'c [Option<Box<Compound>>],
    allowed: &'c [Vec<Arc<Allowed>>],
}

/// Compiled globs, by their texts: rules with the same list share them.
#[derive(Default)]
struct Globs<'r> {
    names: HashMap<&'r [String], Arc<ToolScope>>,
    args: HashMap<&'r [String], Arc<ArgScope>>,
    paths: HashMap<&'r [String], Arc<PathScope>>,
    texts: HashMap<&'r [String], Arc<GlobSet>>,
}

type MakeGlobs<T> = fn(&[String]) -> Result<T, globset::Error>;

/// The compiled globs; none where there are none, for that is no limit.
fn shared<'r, T>(
    known: &mut HashMap<&'r [String], Arc<T>>,
    globs: &'r [String],
    make: MakeGlobs<T>,
) -> Result<Option<Arc<T>>, globset::Error> {
    if globs.is_empty() {
        return Ok(None);
    }
    if let Some(known) = known.get(globs) {
        return Ok(Some(Arc::clone(known)));
    }
    let made = Arc::new(make(globs)?);
    known.insert(globs, Arc::clone(&made));
    Ok(Some(made))
}

/// Texts with `*` and `?`, in either case.
fn text_globs(texts: &[String]) -> Result<GlobSet, globset::Error> {
    let mut set = globset::GlobSetBuilder::new();
    for text in texts {
        let mut glob = globset::GlobBuilder::new(text);
        set.add(
            glob.case_insensitive(true)
                .literal_separator(false)
                .build()?,
        );
    }
    set.build()
}

impl ChannelRules {
    fn new(
        channel: Channel,
        from: &Parts<'_>,
        names: &mut NameSets,
        limits: &Limits,
    ) -> Result<Option<ChannelRules>, TooManyClasses> {
        let Parts {
            rules,
            prepared,
            compounds,
            allowed,
        } = *from;
        let mut builders = vec![ViewBuilder::default()];
        let mut watches = Vec::new();
        let mut reads_paths = false;
        #[cfg(feature = "ast")]
        let mut shapes = None;
        for (index, rule) in rules.iter().enumerate() {
            if !rule.on.contains(&channel) {
                continue;
            }
            let by_path = |allow: &Arc<Allowed>| allow.paths.is_some();
            reads_paths |= !rule.paths.is_empty() || allowed[index].iter().any(by_path);
            let id = RuleId(index as u32);
            #[cfg(feature = "ast")]
            add_shapes(&mut shapes, id, &rule.condition);
            let what = What::of(&rule.condition, |known| names.of(known)).into_iter();
            watches.extend(what.map(|what| Watched {
                rule: id,
                what,
                holds: rule.holds_live(),
            }));
            let patterns = numbered(&rule.condition).zip(&prepared[index]);
            for ((role, pattern), prepared) in patterns {
                let builder = builder(&mut builders, Sight::of(pattern, channel));
                let search = compounds[index].as_ref().and_then(|_| prepared.search());
                match search {
                    Some(search) => {
                        builder.add_whole(id, role, rule.holds_live(), prepared, search)
                    }
                    None => builder.add_plain(id, prepared),
                }
            }
        }
        #[cfg(feature = "ast")]
        let has_shapes = shapes.is_some();
        #[cfg(not(feature = "ast"))]
        let has_shapes = false;
        if watches.is_empty() && !has_shapes && builders.iter().all(ViewBuilder::is_empty) {
            return Ok(None);
        }
        let views = builders.into_iter().map(|builder| builder.build(limits));
        let mut views = views.collect::<Result<Vec<_>, _>>()?;
        Ok(Some(ChannelRules {
            raw: views.remove(0),
            views: views.into_boxed_slice(),
            watches: watches.into_boxed_slice(),
            #[cfg(feature = "ast")]
            shapes,
            reads_paths,
        }))
    }

    fn all(&self) -> impl Iterator<Item = &ViewRules> {
        [&self.raw].into_iter().chain(&self.views)
    }

    /// The rules that read the channel; one may come more than once.
    pub(crate) fn rules(&self) -> impl Iterator<Item = RuleId> {
        self.all()
            .flat_map(|view| {
                let plain = view.patterns.iter().map(|pattern| pattern.rule);
                let spans = view.spans.iter().flat_map(|spans| &spans.patterns);
                plain.chain(spans.map(|pattern| pattern.rule))
            })
            .chain(self.watches.iter().map(|watched| watched.rule))
            .chain(self.shaped())
    }

    /// The rules that look for shapes of code.
    #[cfg(feature = "ast")]
    fn shaped(&self) -> impl Iterator<Item = RuleId> {
        let owners = self.shapes.iter().flat_map(|shapes| shapes.all_owners());
        owners.map(RuleId)
    }

    #[cfg(not(feature = "ast"))]
    fn shaped(&self) -> impl Iterator<Item = RuleId> {
        std::iter::empty()
    }

    fn has_shapes(&self) -> bool {
        self.shaped().next().is_some()
    }

    /// Every matcher.
    pub(crate) fn matchers(&self) -> impl Iterator<Item = &Matcher> {
        self.all().flat_map(|view| {
            let spans = view.spans.iter().map(|spans| &spans.matcher);
            [&view.matcher].into_iter().chain(spans)
        })
    }

    /// Whether rules here want regions from that view.
    pub(crate) fn wants(&self, source: Source, is_tool_input: bool) -> bool {
        let mut views = self.views.iter();
        let mut watches = self.watches.iter();
        source == Source::of_code(is_tool_input) && self.has_shapes()
            || views.any(|view| view.sight.source == Some(source))
            || watches.any(|watched| watched.what.source(is_tool_input) == Some(source))
    }

    /// Whether any rule here is about comments, strings, or what is neither.
    pub(crate) fn tells_code_apart(&self) -> bool {
        let kinds = Regions::COMMENT | Regions::STRING | Regions::CODE_ONLY;
        let mut views = self.views.iter();
        views.any(|view| view.sight.regions.meets(kinds))
    }

    /// Whether any rule reads text as it is.
    pub(crate) fn is_raw_only(&self) -> bool {
        self.views.is_empty()
            && self.watches.is_empty()
            && self.raw.spans.is_empty()
            && !self.has_shapes()
    }
}

#[cfg(feature = "ast")]
fn add_shapes(shapes: &mut Option<Box<Shapes>>, rule: RuleId, condition: &Condition) {
    let Some(ast) = &condition.ast else {
        return;
    };
    let shapes = shapes.get_or_insert_default();
    let grammars = ast.languages.iter();
    for grammar in grammars.filter_map(|name| Grammar::named(name)) {
        let sought = Sought {
            any: &ast.any,
            inside: &ast.inside,
            not: &ast.not,
        };
        shapes.add(rule.0, grammar, sought);
    }
}

/// Every pattern and what it is to the condition, in the order of [`Condition::patterns`].
fn numbered(condition: &Condition) -> impl Iterator<Item = (Role, &Pattern)> {
    let any = condition.any.iter().map(|pattern| (Role::Any, pattern));
    let all = (0..).map(Role::All).zip(&condition.all);
    let sequence = (0..).map(Role::Sequence).zip(&condition.sequence);
    let none = condition.none.iter().map(|pattern| (Role::None, pattern));
    any.chain(all).chain(sequence).chain(none)
}

/// The builder for patterns of that sight; the first one is for those that see all.
fn builder(builders: &mut Vec<ViewBuilder>, sight: Sight) -> &mut ViewBuilder {
    let known = builders.iter().position(|builder| builder.sight == sight);
    let index = known.unwrap_or_else(|| {
        builders.push(ViewBuilder {
            sight,
            ..ViewBuilder::default()
        });
        builders.len() - 1
    });
    &mut builders[index]
}

/// Collects the patterns that see the same text.
#[derive(Default)]
struct ViewBuilder {
    sight: Sight,
    hirs: Vec<Hir>,
    patterns: Vec<PatternOf>,
    /// Patterns wanted whole: of rules that hold no text, of rules that do, and those that look around.
    spans: [(Vec<Hir>, Vec<SpanPattern>); 3],
}

impl ViewBuilder {
    fn is_empty(&self) -> bool {
        self.hirs.is_empty() && self.spans.iter().all(|(hirs, _)| hirs.is_empty())
    }

    fn add_plain(&mut self, id: RuleId, prepared: &Prepared) {
        self.hirs.push(prepared.hir.clone());
        self.patterns.push(PatternOf {
            rule: id,
            arg: prepared.arg.clone(),
            vm: prepared.vm.clone(),
            #[cfg(feature = "lookaround")]
            confirm: prepared.confirm.clone(),
        });
    }

    fn add_whole(
        &mut self,
        id: RuleId,
        role: Role,
        holds: bool,
        prepared: &Prepared,
        search: WholeSearch,
    ) {
        let group = match search {
            WholeSearch::Pike(_) => usize::from(holds),
            #[cfg(feature = "lookaround")]
            WholeSearch::Around(_) => 2,
        };
        let (hirs, patterns) = &mut self.spans[group];
        hirs.push(prepared.hir.clone());
        patterns.push(SpanPattern {
            rule: id,
            role,
            arg: prepared.arg.clone(),
            capture: prepared.capture.clone(),
            search,
        });
    }

    fn build(self, limits: &Limits) -> Result<ViewRules, TooManyClasses> {
        let ViewBuilder {
            sight,
            hirs,
            patterns,
            spans: [others, held, around],
        } = self;
        let spans = [
            (held, true, false),
            (others, false, false),
            (around, false, true),
        ];
        let spans = spans
            .into_iter()
            .filter(|((hirs, _), _, _)| !hirs.is_empty())
            .map(|((hirs, patterns), holds, is_unbroken)| {
                Ok(SpanRules {
                    matcher: Matcher::for_spans(&hirs, limits.table_bytes)?,
                    patterns: patterns.into_boxed_slice(),
                    holds,
                    is_unbroken,
                })
            });
        let spans = spans.collect::<Result<_, TooManyClasses>>()?;
        #[cfg(not(feature = "lookaround"))]
        let matcher = Matcher::new(&hirs, limits.table_bytes)?;
        #[cfg(feature = "lookaround")]
        let confirms = Confirms::new(&patterns, limits);
        #[cfg(feature = "lookaround")]
        let matcher = confirms.matcher(&hirs, limits.table_bytes)?;
        Ok(ViewRules {
            sight,
            matcher,
            patterns: patterns.into_boxed_slice(),
            #[cfg(feature = "lookaround")]
            confirms,
            spans,
        })
    }
}

impl Compound {
    /// None where a match of one of the patterns is all there is to it.
    pub(super) fn of(rule: &Rule, is_allowed_by_text: bool) -> Option<Box<Compound>> {
        let condition = &rule.condition;
        let is_plain = condition.all.is_empty()
            && condition.sequence.is_empty()
            && condition.none.is_empty()
            && condition.first.is_none()
            && condition.last.is_none()
            && !condition.line
            && condition.count.is_none()
            && condition.capture.is_none()
            && !is_allowed_by_text
            && !rule.holds();
        (!is_plain).then(|| Box::new(Compound::new(rule, is_allowed_by_text)))
    }

    fn new(rule: &Rule, is_allowed_by_text: bool) -> Compound {
        let condition = &rule.condition;
        let is_spread = !condition.all.is_empty() || !condition.sequence.is_empty();
        let usual = match is_spread {
            true => Within::Part,
            false => Within::Lines(1),
        };
        Compound {
            all: condition.all.len(),
            sequence: condition.sequence.len(),
            has_none: !condition.none.is_empty(),
            within: condition.within.unwrap_or(usual),
            first: condition.first,
            last: condition.last,
            count: condition.count,
            redacts: rule.action == Action::Redact,
            is_allowed_by_text,
            mode: MatchMode::First,
        }
    }

    /// What it is decided on.
    pub(crate) fn extent(&self) -> Extent {
        match self.within {
            Within::Part => Extent::Part,
            Within::Message => Extent::Message,
            Within::Lines(_) | Within::Chars(_) => Extent::Haystack,
        }
    }

    /// Returns whether each match is reported, not only the first of a part.
    pub(crate) fn reports_every(&self) -> bool {
        self.mode == MatchMode::Every
    }

    /// Whether more than its first match in a part is wanted.
    pub(crate) fn wants_all(&self) -> bool {
        self.redacts || self.count.is_some() || self.is_allowed_by_text || self.reports_every()
    }
}

impl Allowed {
    fn new<'r>(allow: &'r Allow, globs: &mut Globs<'r>) -> Result<Allowed, globset::Error> {
        Ok(Allowed {
            tools: shared(&mut globs.names, &allow.tools, ToolScope::new)?,
            paths: shared(&mut globs.paths, &allow.paths, PathScope::new)?,
            text: shared(&mut globs.texts, &allow.text, text_globs)?,
        })
    }
}

impl SpanPattern {
    /// Returns the matches in `text` from `from` on, and whether these are all: the search of a pattern that looks
    /// around may take too long.
    pub(crate) fn matches(&self, text: &[u8], from: usize) -> (Vec<Range<usize>>, bool) {
        match &self.search {
            WholeSearch::Pike(vm) => {
                let found = vm.find_all(text, from).into_iter();
                let capture = self.capture.as_ref();
                let counts = |found: &pike::Found| capture.is_none_or(|it| it.accepts(found, text));
                let found = found.filter(counts).map(|found| found.range);
                (found.collect(), true)
            }
            #[cfg(feature = "lookaround")]
            WholeSearch::Around(around) => {
                let (mut found, are_all) = around.find_all(text);
                found.retain(|range| range.start >= from);
                (found, are_all)
            }
        }
    }
}

impl Group {
    /// The group that `name` means, its number or its name, of a pattern.
    fn of(name: Option<&str>, hir: &Hir) -> Group {
        let Some(name) = name else {
            return Group::FirstOrWhole;
        };
        let number = name.parse().ok().or_else(|| number_of(name, hir));
        match number {
            Some(0) | None => Group::Whole,
            Some(number) => Group::Number(number),
        }
    }

    /// The number of the group that has to be known besides the match.
    fn number(self) -> Option<u32> {
        match self {
            Group::Whole => None,
            Group::Number(number) => Some(number),
            Group::FirstOrWhole => Some(1),
        }
    }
}

/// The number of the group with that name.
fn number_of(name: &str, hir: &Hir) -> Option<u32> {
    match hir.kind() {
        HirKind::Capture(capture) if capture.name.as_deref() == Some(name) => Some(capture.index),
        HirKind::Capture(capture) => number_of(name, &capture.sub),
        HirKind::Repetition(repetition) => number_of(name, &repetition.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().find_map(|sub| number_of(name, sub))
        }
        _ => None,
    }
}

impl Captured {
    fn new<'r>(
        capture: &'r Capture,
        hir: &Hir,
        globs: &mut Globs<'r>,
    ) -> Result<Captured, globset::Error> {
        Ok(Captured {
            group: Group::of(capture.group.as_deref(), hir),
            entropy: capture.entropy,
            random: capture.random,
            not_in: shared(&mut globs.texts, &capture.not_in, text_globs)?,
        })
    }

    /// Whether the group of a match is what it must be.
    fn accepts(&self, found: &pike::Found, haystack: &[u8]) -> bool {
        let group = found.group.clone();
        let range = match self.group {
            Group::Whole => Some(found.range.clone()),
            Group::Number(_) => group,
            Group::FirstOrWhole => group.or_else(|| Some(found.range.clone())),
        };
        let Some(text) = range.and_then(|range| haystack.get(range)) else {
            return false;
        };
        let entropy = Entropy::of(text);
        let is_random = self
            .entropy
            .is_none_or(|least| entropy.bits() * 1000.0 >= f64::from(least))
            && (!self.random || entropy.is_random(&EntropyLimits::default()));
        let text = String::from_utf8_lossy(text);
        let is_known = self
            .not_in
            .as_ref()
            .is_some_and(|known| known.is_match(&*text));
        is_random && !is_known
    }
}

/// Which patterns of a channel are confirmed after the automaton has found where they may end.
#[cfg(feature = "lookaround")]
#[derive(Debug)]
pub(crate) struct Confirms {
    /// By pattern of the matcher; empty where none is confirmed.
    by_pattern: Box<[Option<Arc<Confirm>>]>,
    /// [`Limits::confirm_bytes`].
    pub(crate) bytes: usize,
    /// [`Limits::confirm_pending`].
    pub(crate) pending: usize,
}

#[cfg(feature = "lookaround")]
impl Confirms {
    fn new(patterns: &[PatternOf], limits: &Limits) -> Confirms {
        let confirms = patterns.iter().map(|pattern| pattern.confirm.clone());
        let mut by_pattern: Vec<Option<Arc<Confirm>>> = confirms.collect();
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
        self.by_pattern.get(pattern as usize)?.as_deref()
    }
}

impl Scope {
    fn new<'r>(rule: &'r Rule, globs: &mut Globs<'r>) -> Result<Scope, globset::Error> {
        let Globs {
            names, args, paths, ..
        } = globs;
        Ok(Scope {
            tools: shared(names, &rule.tools, ToolScope::new)?,
            args: shared(args, &rule.args, ArgScope::new)?,
            paths: shared(paths, &rule.paths, PathScope::new)?,
            agents: shared(names, &rule.agents, ToolScope::new)?,
            models: shared(names, &rule.models, ToolScope::new)?,
            providers: shared(names, &rule.providers, ToolScope::new)?,
            is_critical: rule.severity == Severity::Critical,
        })
    }
}
