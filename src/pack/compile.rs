//! The last step of loading: checked rules become automata, conditions and scopes.

mod sight;
mod what;

use std::sync::OnceLock;

use regex_automata::meta::Regex;
use regex_automata::util::captures::Captures;
use regex_automata::util::syntax;
use regex_syntax::hir::Hir;

#[cfg(feature = "ast")]
use crate::ast::{Grammar, Shapes, Sought};
use crate::detect::entropy::{Entropy, EntropyLimits};
use crate::limits::Limits;
#[cfg(feature = "lookaround")]
use crate::matcher::confirm::{AroundSearch, Confirm};
use crate::matcher::pattern;
use crate::matcher::{Matcher, Span, TooManyClasses};
use crate::pack::Allow;
use crate::rule::{
    Action, Capture, Channel, Condition, Count, Pattern, PatternKind, Rule, Severity, Within,
};
use crate::verdict::RuleId;
use crate::view::fold::fold_text;
use crate::view::path::{ArgScope, PathScope, ToolScope};
use crate::view::piece::Regions;

pub(crate) use sight::{Sight, Source};
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
    pub(crate) allowed: Vec<Vec<Allowed>>,
}

/// Where hits of a rule do not count: all that is given must hold.
#[derive(Debug)]
pub(crate) struct Allowed {
    pub(crate) tools: Option<ToolScope>,
    pub(crate) paths: Option<PathScope>,
    /// Texts of the match.
    pub(crate) text: Option<globset::GlobSet>,
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
    pub(crate) arg: Option<ArgScope>,
    /// Where its group of interest is.
    pub(crate) capture: Option<Captured>,
    text: String,
    /// Built when a match is asked for the first time.
    regex: OnceLock<Regex>,
    /// Searches instead of `regex` where the pattern looks around, which only [`MatchMode::Every`] allows.
    #[cfg(feature = "lookaround")]
    pub(crate) around: Option<Box<AroundSearch>>,
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
    group: Option<String>,
    entropy: Option<u32>,
    random: bool,
    not_in: Option<globset::GlobSet>,
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
    /// Which of its rule's `any` it is.
    #[cfg(feature = "lookaround")]
    index: usize,
    /// Where it is looked for, besides its rule's own arguments.
    pub(crate) arg: Option<ArgScope>,
    text: String,
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
pub(crate) fn compile(
    rules: &[Rule],
    allows: &[Allow],
    limits: &Limits,
    mode: MatchMode,
) -> Result<Compiled, TooBig> {
    let parsed = parsed(rules, limits)?;
    let scopes = rules.iter().enumerate().map(|(index, rule)| {
        Scope::new(rule).map_err(|error| TooBig {
            rule: index,
            what: Big::Scope(error),
        })
    });
    let scopes = scopes.collect::<Result<_, _>>()?;
    let allowed = allowed(rules, allows)?;
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
    let mut channels = Channel::ALL.map(|_| None);
    for (rules_of, channel) in channels.iter_mut().zip(Channel::ALL) {
        let new = ChannelRules::new(channel, rules, &parsed, &compounds, &allowed, limits);
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

/// The patterns of each rule.
fn parsed(rules: &[Rule], limits: &Limits) -> Result<Vec<Vec<Hir>>, TooBig> {
    let mut states = 0usize;
    let mut parsed = Vec::with_capacity(rules.len());
    for (rule, Rule { condition, .. }) in rules.iter().enumerate() {
        let hirs: Vec<Hir> = condition
            .patterns()
            .map(|pattern| parse(&seen(pattern), limits))
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
    Ok(parsed)
}

/// What is allowed to break each rule.
fn allowed(rules: &[Rule], allows: &[Allow]) -> Result<Vec<Vec<Allowed>>, TooBig> {
    let mut allowed: Vec<Vec<Allowed>> = rules.iter().map(|_| Vec::new()).collect();
    for allow in allows {
        for rule in &allow.rules {
            let made = Allowed::new(allow).map_err(|error| TooBig {
                rule: rule.index(),
                what: Big::Scope(error),
            });
            allowed[rule.index()].push(made?);
        }
    }
    Ok(allowed)
}

fn parse(regex: &str, limits: &Limits) -> Hir {
    pattern::parse(regex, limits).expect("every pattern was parsed when it was checked")
}

impl Compiled {
    /// Builds the search of every pattern that is wanted whole, each within `bytes`. Returns whether all of
    /// them could be built.
    pub(crate) fn prepare(&self, bytes: usize) -> bool {
        let views = self.channels.iter().flatten().flat_map(ChannelRules::all);
        let spans = views.flat_map(|view| &view.spans);
        let mut patterns = spans.flat_map(|spans| &spans.patterns);
        patterns.all(|pattern| pattern.prepare(bytes))
    }
}

impl ChannelRules {
    fn new(
        channel: Channel,
        rules: &[Rule],
        parsed: &[Vec<Hir>],
        compounds: &[Option<Box<Compound>>],
        allowed: &[Vec<Allowed>],
        limits: &Limits,
    ) -> Result<Option<ChannelRules>, TooManyClasses> {
        let mut builders = vec![ViewBuilder::default()];
        let mut watches = Vec::new();
        let mut reads_paths = false;
        #[cfg(feature = "ast")]
        let mut shapes = None;
        for (index, rule) in rules.iter().enumerate() {
            if !rule.on.contains(&channel) {
                continue;
            }
            let by_path = |allow: &Allowed| allow.paths.is_some();
            reads_paths |= !rule.paths.is_empty() || allowed[index].iter().any(by_path);
            let id = RuleId(index as u32);
            #[cfg(feature = "ast")]
            add_shapes(&mut shapes, id, &rule.condition);
            let what = What::of(&rule.condition).into_iter();
            watches.extend(what.map(|what| Watched {
                rule: id,
                what,
                holds: rule.holds(),
            }));
            let roles = match &compounds[index] {
                None => Roles::Plain,
                Some(_) => Roles::Whole,
            };
            for (number, (role, pattern)) in numbered(&rule.condition).enumerate() {
                let builder = builder(&mut builders, Sight::of(pattern, channel));
                match roles {
                    Roles::Plain => builder.add_plain(id, number, pattern, &parsed[index][number]),
                    Roles::Whole => builder.add_whole(id, role, rule, pattern, limits),
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
        let views = builders
            .into_iter()
            .map(|builder| builder.build(rules, limits));
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

/// What is wanted of the matches of a rule's patterns.
#[derive(Clone, Copy)]
enum Roles {
    /// The first end.
    Plain,
    /// All of each.
    Whole,
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

    fn add_plain(&mut self, id: RuleId, number: usize, pattern: &Pattern, parsed: &Hir) {
        #[cfg(not(feature = "lookaround"))]
        let _ = number;
        self.hirs.push(parsed.clone());
        self.patterns.push(PatternOf {
            rule: id,
            #[cfg(feature = "lookaround")]
            index: number,
            arg: arg_scope(pattern),
            text: seen(pattern),
            span: OnceLock::new(),
        });
    }

    fn add_whole(
        &mut self,
        id: RuleId,
        role: Role,
        rule: &Rule,
        pattern: &Pattern,
        limits: &Limits,
    ) {
        let text = whole(&rule.condition, pattern);
        #[cfg(feature = "lookaround")]
        let around = AroundSearch::of(&text).map(Box::new);
        #[cfg(feature = "lookaround")]
        let looks_around = around.is_some();
        #[cfg(not(feature = "lookaround"))]
        let looks_around = false;
        let group = match looks_around {
            true => 2,
            false => usize::from(rule.holds()),
        };
        let (hirs, patterns) = &mut self.spans[group];
        let capture = rule.condition.capture.as_ref();
        hirs.push(parse(&text, limits));
        patterns.push(SpanPattern {
            rule: id,
            role,
            arg: arg_scope(pattern),
            capture: capture.filter(|_| role == Role::Any).map(Captured::new),
            text,
            regex: OnceLock::new(),
            #[cfg(feature = "lookaround")]
            around,
        });
    }

    fn build(self, rules: &[Rule], limits: &Limits) -> Result<ViewRules, TooManyClasses> {
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
        let _ = rules;
        #[cfg(not(feature = "lookaround"))]
        let matcher = Matcher::new(&hirs, limits.table_bytes)?;
        #[cfg(feature = "lookaround")]
        let confirms = Confirms::new(&patterns, rules, limits);
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

fn arg_scope(pattern: &Pattern) -> Option<ArgScope> {
    let arg = pattern.arg.as_ref()?;
    ArgScope::new(std::slice::from_ref(arg)).ok()
}

/// The pattern as a regular expression over what it sees: text that is folded is matched by folded text.
fn seen(pattern: &Pattern) -> String {
    let sight = Sight::of(pattern, Channel::Text);
    if sight.folds.is_empty() || pattern.kind == PatternKind::Regex {
        return pattern.to_regex();
    }
    let text = fold_text(sight.folds, &pattern.text);
    Pattern::new(pattern.kind, text).to_regex()
}

/// The pattern as it is matched whole: a line of its own where the condition asks for one.
fn whole(condition: &Condition, pattern: &Pattern) -> String {
    let regex = seen(pattern);
    match condition.line {
        true => format!("(?mR:^)(?:{regex})(?mR:$)"),
        false => regex,
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
    fn new(allow: &Allow) -> Result<Allowed, globset::Error> {
        let mut text = globset::GlobSetBuilder::new();
        for glob in &allow.text {
            let mut glob = globset::GlobBuilder::new(glob);
            text.add(
                glob.case_insensitive(true)
                    .literal_separator(false)
                    .build()?,
            );
        }
        Ok(Allowed {
            tools: match allow.tools.is_empty() {
                true => None,
                false => Some(ToolScope::new(&allow.tools)?),
            },
            paths: match allow.paths.is_empty() {
                true => None,
                false => Some(PathScope::new(&allow.paths)?),
            },
            text: match allow.text.is_empty() {
                true => None,
                false => Some(text.build()?),
            },
        })
    }
}

impl SpanPattern {
    /// Builds the search with room for up to `bytes`. Returns whether that was enough.
    fn prepare(&self, bytes: usize) -> bool {
        #[cfg(feature = "lookaround")]
        if self.around.is_some() {
            return true;
        }
        let built = Regex::builder()
            .syntax(syntax::Config::new().utf8(false))
            .configure(
                Regex::config()
                    .utf8_empty(false)
                    .nfa_size_limit(Some(bytes)),
            )
            .build(&self.text);
        match built {
            Ok(regex) => {
                self.regex.get_or_init(|| regex);
                true
            }
            Err(_) => false,
        }
    }

    /// The pattern as `regex` reads it.
    pub(crate) fn regex(&self) -> &Regex {
        self.regex.get_or_init(|| {
            Regex::builder()
                .syntax(syntax::Config::new().utf8(false))
                .configure(Regex::config().utf8_empty(false))
                .build(&self.text)
                .expect("it was parsed and measured when the pack was checked")
        })
    }
}

impl Captured {
    fn new(capture: &Capture) -> Captured {
        let globs = capture.not_in.iter().filter_map(|text| {
            let glob = globset::GlobBuilder::new(text)
                .case_insensitive(true)
                .build();
            glob.ok()
        });
        let mut set = globset::GlobSetBuilder::new();
        globs.for_each(|glob| {
            set.add(glob);
        });
        Captured {
            group: capture.group.clone(),
            entropy: capture.entropy,
            random: capture.random,
            not_in: (!capture.not_in.is_empty())
                .then(|| set.build().ok())
                .flatten(),
        }
    }

    /// Whether the group of a match is what it must be.
    pub(crate) fn accepts(&self, captures: &Captures, haystack: &[u8]) -> bool {
        let span = match &self.group {
            Some(group) => match group.parse::<usize>() {
                Ok(number) => captures.get_group(number),
                Err(_) => captures.get_group_by_name(group),
            },
            None => captures.get_group(1).or_else(|| captures.get_group(0)),
        };
        let Some(text) = span.and_then(|span| haystack.get(span.range())) else {
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
    pub(crate) fn span(&self) -> Option<&Span> {
        self.span.get_or_init(|| Span::new(&self.text)).as_ref()
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
