//! The last step of loading: compiles checked rules into a [`Program`].
//!
//! 1. Scopes, allow entries and conditions are compiled first, because they decide whether the first end of a pattern is
//!    enough or its full matches are needed.
//! 2. Each pattern is lowered once (`trees`), or was read from a compiled pack. All channels, and the search for the
//!    starts of matches, share its tree.
//! 3. For each channel the patterns are grouped by the text that they read ([`ViewKey`]), and each group gets its
//!    matchers. Automata are the expensive part, so a matcher is built when text first reaches it, if building cannot fail
//!    (`fits_alphabet`).
//!
//! Errors name the rule at which a limit of the whole pack was exceeded; each rule by itself was accepted by the check.

mod name_sets;
mod trees;

use std::collections::{BTreeMap, HashMap};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::slice;
use std::sync::{Arc, LazyLock, OnceLock};

use regex_syntax::hir::Hir;

#[cfg(feature = "ast")]
use crate::ast::{AstPatternSet, AstPatternSource, Grammar};
use crate::limits::Limits;
use crate::pack::ResolvedAllow;
use crate::pack::load_context::LoadContext;
#[cfg(feature = "lookaround")]
use crate::program::ConfirmTable;
use crate::program::{
    AllowEntry, CaptureGroup, ChannelRules, CommandOwner, CommandSet, CommandTrees,
    CompoundCondition, DetectorRule, DetectorSpec, FileScope, FirstEndPattern, FirstEndRole,
    FullMatchKind, FullMatchPattern, FullMatchRule, FullMatchRules, FullMatchSearch, GroupFilter,
    LazyMatcher, LazyPike, MarkdownUse, MatchMode, PatternRole, Places, ProductCache, Program,
    ReleasePlan, RuleScope, TextCounts, ViewKey, ViewRules, ViewSource,
};
use crate::rule::{Action, Capture, Channel, Condition, Pattern, PatternKind, Rule, Severity};
use crate::verdict::RuleId;
use name_sets::NameSetCache;
pub(super) use trees::{LoweredPattern, PackTrees, RuleTrees, SizedTree, lower_rules};
use ttsr_automata::encoding::PatternTree;
#[cfg(feature = "lookaround")]
use ttsr_automata::lookaround::verify::{LookaroundSearch, Verifier};
#[cfg(feature = "lookaround")]
use ttsr_automata::pattern;
use ttsr_automata::pattern::PatternError;
use ttsr_automata::{Matcher, MatcherLayout, TooManyClasses};
use ttsr_views::chunk::RegionSet;
use ttsr_views::glob::{Glob, GlobError, GlobOptions, GlobSet};
use ttsr_views::path::{ArgScope, PathScope, ToolScope};

/// An error that concerns the rules of a pack together, though each of them is valid.
#[derive(Debug)]
pub(super) struct CompileError {
    /// The id of the rule at which a limit was exceeded.
    pub(super) rule: String,
    pub(super) kind: CompileErrorKind,
}

impl CompileError {
    fn at(rule: &Rule, kind: CompileErrorKind) -> CompileError {
        CompileError {
            rule: rule.id.clone(),
            kind,
        }
    }
}

/// See [`CompileError`].
#[derive(Debug)]
pub(super) enum CompileErrorKind {
    /// The rules up to this one need this number of automaton states, more than [`Limits::pack_states`].
    States(usize),
    /// The globs of one scope cannot be compiled together.
    Scope(GlobError),
    /// A pattern is refused, though the check has accepted it.
    Pattern(PatternError),
    /// The patterns of all rules distinguish too many classes of characters.
    Classes,
}

/// The key `raw` of a pattern of a command, compiled.
struct CompiledRaw {
    tree: PatternTree,
    arg: Option<Arc<ArgScope>>,
    vm: Arc<LazyPike>,
}

/// A pattern, compiled once for all channels.
struct CompiledPattern {
    tree: PatternTree,
    arg: Option<Arc<ArgScope>>,
    vm: Option<Arc<LazyPike>>,
    filter: Option<Arc<GroupFilter>>,
    /// The expression of [`Pattern::unless`].
    unless: Option<PatternTree>,
    #[cfg(feature = "lookaround")]
    confirm: Option<Arc<Verifier>>,
    /// Set for a pattern with look-around if every match is wanted.
    #[cfg(feature = "lookaround")]
    around: Option<Arc<LookaroundSearch>>,
}

impl CompiledPattern {
    /// Returns the search for full matches, or `None` if the pattern can only be confirmed at an end.
    fn search(&self) -> Option<FullMatchSearch> {
        #[cfg(feature = "lookaround")]
        if let Some(around) = &self.around {
            return Some(FullMatchSearch::Around(Arc::clone(around)));
        }
        self.vm.clone().map(FullMatchSearch::Pike)
    }
}

/// Compiles rules that are checked and final, with their patterns lowered. They keep their order, because a [`RuleId`] is
/// an index.
pub(super) fn compile(
    rules: Vec<Rule>,
    trees: &PackTrees,
    allows: &[ResolvedAllow],
    context: &LoadContext<'_>,
    places: Places,
    mode: MatchMode,
) -> Result<Program, CompileError> {
    let mut globs = GlobCache::default();
    let mut names = NameSetCache::default();
    let scopes = rules.iter().map(|rule| {
        scope(rule, &mut globs)
            .map_err(|error| CompileError::at(rule, CompileErrorKind::Scope(error)))
    });
    let scopes: Vec<RuleScope> = scopes.collect::<Result<_, _>>()?;
    let allow_entries = allow_entries(&rules, allows, &mut globs)?;
    let with_allows = rules.iter().zip(&allow_entries);
    let conditions: Vec<_> = with_allows
        .map(|(rule, allows)| CompoundCondition::from_rule(rule, allows, mode))
        .collect();
    let mut budget = StateBudget::new(context.limits.pack_states);
    let patterns = compile_patterns(&rules, trees, &conditions, context, &mut globs, &mut budget)?;
    let raws = compile_raws(&rules, trees, &mut globs, &mut budget)?;
    for (rule, trees) in rules.iter().zip(&trees.rules) {
        let mut states = trees.codes.iter().map(|lowered| lowered.states);
        let counted = states.try_for_each(|states| budget.add(states));
        counted.map_err(|kind| CompileError::at(rule, kind))?;
    }
    let sources = RuleSources {
        rules: &rules,
        patterns: &patterns,
        raws: &raws,
        conditions: &conditions,
        allows: &allow_entries,
        scopes: &scopes,
    };
    let build = MatcherBuild {
        is_delayed: trees.surely_fit,
        limits: context.limits,
    };
    let mut layouts = trees.layouts.iter();
    let mut channels = Channel::ALL.map(|_| None);
    for (channel_rules, channel) in channels.iter_mut().zip(Channel::ALL) {
        let too_many = |TooManyClasses| {
            let last = rules.last().expect("no rules have no character classes");
            CompileError::at(last, CompileErrorKind::Classes)
        };
        let mut commands = compile_commands(channel, &rules, trees, &places, &mut globs)?;
        let built = commands.build_code_matcher(|trees| {
            build.build_or_defer(move |bytes| Matcher::new(&decoded(&trees), bytes))
        });
        built.map_err(too_many)?;
        let compiled =
            compile_channel(channel, &sources, commands, &mut names, &mut layouts, build);
        *channel_rules = compiled.map_err(too_many)?;
    }
    Ok(Program {
        release: ReleasePlan::new(&rules),
        has_reviews: rules.iter().any(|rule| rule.action == Action::Consult),
        limited_to_origins: (0..rules.len())
            .filter(|&rule| scopes[rule].has_origin())
            .collect(),
        channels,
        scopes,
        conditions,
        allows: allow_entries,
        rules,
        limits: context.limits.clone(),
        places,
    })
}

/// The automaton states of the patterns so far, and their limit, [`Limits::pack_states`].
struct StateBudget {
    used: usize,
    limit: usize,
}

impl StateBudget {
    fn new(limit: usize) -> StateBudget {
        StateBudget { used: 0, limit }
    }

    fn add(&mut self, states: usize) -> Result<(), CompileErrorKind> {
        self.used = self.used.saturating_add(states);
        match self.used > self.limit {
            true => Err(CompileErrorKind::States(self.used)),
            false => Ok(()),
        }
    }
}

/// Compiles the patterns of each rule, within `budget`.
fn compile_patterns<'r>(
    rules: &'r [Rule],
    trees: &PackTrees,
    conditions: &[Option<Box<CompoundCondition>>],
    context: &LoadContext<'_>,
    globs: &mut GlobCache<'r>,
    budget: &mut StateBudget,
) -> Result<Vec<Vec<CompiledPattern>>, CompileError> {
    let mut compiler = PatternCompiler {
        context,
        globs,
        budget,
    };
    let rules = rules.iter().zip(conditions).zip(&trees.rules);
    let compiled = rules.map(|((rule, compound), trees)| {
        let patterns = text_patterns(&rule.condition).zip(&trees.patterns);
        let patterns = patterns.map(|((role, pattern), lowered)| {
            let compiled = compiler.compile(rule, compound.as_deref(), role, pattern, lowered);
            compiled.map_err(|kind| CompileError::at(rule, kind))
        });
        patterns.collect::<Result<Vec<_>, _>>()
    });
    compiled.collect()
}

/// Compiles one pattern after the other, with the globs and the budget of the pack.
struct PatternCompiler<'c, 'r> {
    #[cfg_attr(
        not(feature = "lookaround"),
        expect(dead_code, reason = "only patterns with look-around need it")
    )]
    context: &'c LoadContext<'c>,
    globs: &'c mut GlobCache<'r>,
    budget: &'c mut StateBudget,
}

impl<'r> PatternCompiler<'_, 'r> {
    /// Compiles a pattern of `rule`, of which `compound` is the condition if the full matches of its patterns are needed.
    fn compile(
        &mut self,
        rule: &'r Rule,
        compound: Option<&CompoundCondition>,
        role: PatternRole,
        pattern: &'r Pattern,
        lowered: &LoweredPattern,
    ) -> Result<CompiledPattern, CompileErrorKind> {
        let tree = &lowered.tree.tree;
        // The states are counted before anything is built of the pattern.
        self.budget.add(lowered.tree.states)?;
        let unless = lowered.unless.as_ref();
        unless.map_or(Ok(()), |unless| self.budget.add(unless.states))?;
        let unless = unless.map(|unless| unless.tree.clone());
        let arg = get_or_build(&mut self.globs.args, pattern.arg.as_slice(), ArgScope::new);
        let arg = arg.map_err(CompileErrorKind::Scope)?;
        #[cfg(feature = "lookaround")]
        if let Some(text) = &lowered.confirmed_by {
            let limits = self.context.limits;
            let confirm = Verifier::compile(text, &limits.pattern_limits())
                .map_err(CompileErrorKind::Pattern)?;
            self.budget.add(confirm.size())?;
            // The expression has no program: an end that the matcher finds is confirmed, and only a scan searches for the
            // starts of matches.
            let wants_every = compound.is_some_and(CompoundCondition::reports_every);
            let around = wants_every.then(|| every_match(text, &tree.get(), limits));
            return Ok(CompiledPattern {
                confirm: Some(Arc::new(confirm)),
                around: around.transpose()?.map(Arc::new),
                tree: tree.clone(),
                arg,
                vm: None,
                filter: None,
                unless,
            });
        }
        #[cfg(not(feature = "lookaround"))]
        let _ = compound;
        let capture = rule.condition.capture.as_ref();
        // Only the patterns of `any` have the group: those of other roles are not filtered.
        let capture = capture.filter(|_| role == PatternRole::Any);
        let filter = capture.map(|capture| group_filter(capture, tree, self.globs));
        let filter = filter.transpose().map_err(CompileErrorKind::Scope)?;
        let group = filter.as_ref().and_then(|filter| filter.group.number());
        Ok(CompiledPattern {
            // The matcher and the program are built of the same tree, so that both find the same ends.
            vm: Some(Arc::new(LazyPike::new(tree.clone(), group))),
            tree: tree.clone(),
            arg,
            filter: filter.map(Arc::new),
            unless,
            #[cfg(feature = "lookaround")]
            confirm: None,
            #[cfg(feature = "lookaround")]
            around: None,
        })
    }
}

/// Returns the search for every match of a pattern with look-around.
#[cfg(feature = "lookaround")]
fn every_match(
    text: &str,
    hull: &Hir,
    limits: &Limits,
) -> Result<LookaroundSearch, CompileErrorKind> {
    LookaroundSearch::compile(text).ok_or_else(|| {
        CompileErrorKind::Pattern(PatternError::TooBig {
            states: pattern::states(hull),
            limit: limits.rule_states,
        })
    })
}

/// Compiles the `raw` patterns of the commands of each rule, within `budget`.
fn compile_raws<'r>(
    rules: &'r [Rule],
    trees: &PackTrees,
    globs: &mut GlobCache<'r>,
    budget: &mut StateBudget,
) -> Result<Vec<Vec<CompiledRaw>>, CompileError> {
    let mut compiled = Vec::with_capacity(rules.len());
    for (rule, trees) in rules.iter().zip(&trees.rules) {
        let error = |kind| CompileError::at(rule, kind);
        let mut raws = Vec::new();
        for ((pattern, _), lowered) in raw_patterns(&rule.condition).zip(&trees.raws) {
            budget.add(lowered.states).map_err(error)?;
            let arg = get_or_build(&mut globs.args, pattern.arg.as_slice(), ArgScope::new);
            raws.push(CompiledRaw {
                vm: Arc::new(LazyPike::new(lowered.tree.clone(), None)),
                tree: lowered.tree.clone(),
                arg: arg.map_err(|why| error(CompileErrorKind::Scope(why)))?,
            });
        }
        compiled.push(raws);
    }
    Ok(compiled)
}

/// Returns the patterns of commands that have `raw`, with its text.
pub(super) fn raw_patterns(condition: &Condition) -> impl Iterator<Item = (&Pattern, &str)> {
    condition.any.iter().filter_map(|pattern| {
        let raw = pattern.command.as_deref()?.raw.as_deref()?;
        Some((pattern, raw))
    })
}

/// Compiles the allow entries of each rule.
fn allow_entries<'r>(
    rules: &[Rule],
    allows: &'r [ResolvedAllow],
    globs: &mut GlobCache<'r>,
) -> Result<Vec<Vec<Arc<AllowEntry>>>, CompileError> {
    let mut by_rule: Vec<Vec<Arc<AllowEntry>>> = rules.iter().map(|_| Vec::new()).collect();
    for allow in allows {
        let Some(first) = allow.rules.first() else {
            continue;
        };
        let entry = allow_entry(allow, globs).map_err(|error| {
            CompileError::at(&rules[first.index()], CompileErrorKind::Scope(error))
        });
        let entry = Arc::new(entry?);
        for rule in &allow.rules {
            by_rule[rule.index()].push(Arc::clone(&entry));
        }
    }
    Ok(by_rule)
}

fn allow_entry<'r>(
    allow: &'r ResolvedAllow,
    globs: &mut GlobCache<'r>,
) -> Result<AllowEntry, GlobError> {
    Ok(AllowEntry {
        tools: get_or_build(&mut globs.names, &allow.tools, ToolScope::new)?,
        paths: file_scope(&mut globs.paths, &allow.paths)?,
        text: get_or_build(&mut globs.texts, &allow.text, text_globs)?,
    })
}

fn scope<'r>(rule: &'r Rule, globs: &mut GlobCache<'r>) -> Result<RuleScope, GlobError> {
    let GlobCache {
        names, args, paths, ..
    } = globs;
    Ok(RuleScope {
        tools: get_or_build(names, &rule.tools, ToolScope::new)?,
        outcome: rule.outcome,
        args: get_or_build(args, &rule.args, ArgScope::new)?,
        paths: file_scope(paths, &rule.paths)?,
        agents: get_or_build(names, &rule.agents, ToolScope::new)?,
        models: get_or_build(names, &rule.models, ToolScope::new)?,
        providers: get_or_build(names, &rule.providers, ToolScope::new)?,
        is_critical: rule.severity == Severity::Critical,
    })
}

fn group_filter<'r>(
    capture: &'r Capture,
    tree: &PatternTree,
    globs: &mut GlobCache<'r>,
) -> Result<GroupFilter, GlobError> {
    Ok(GroupFilter {
        group: CaptureGroup::find(capture.group.as_deref(), tree),
        entropy: capture.entropy,
        random: capture.random,
        checksum: capture.checksum,
        not_in: get_or_build(&mut globs.texts, &capture.not_in, text_globs)?,
    })
}

/// Compiled globs, by their texts: rules with equal lists share them.
#[derive(Default)]
struct GlobCache<'r> {
    names: HashMap<&'r [String], Arc<ToolScope>>,
    args: HashMap<&'r [String], Arc<ArgScope>>,
    paths: HashMap<&'r [String], Arc<FileScope>>,
    texts: HashMap<&'r [String], Arc<GlobSet>>,
}

type BuildGlobs<T> = fn(&[String]) -> Result<T, GlobError>;

/// Returns the compiled globs, or `None` for an empty list, which is no restriction.
fn get_or_build<'r, T>(
    cache: &mut HashMap<&'r [String], Arc<T>>,
    globs: &'r [String],
    build: BuildGlobs<T>,
) -> Result<Option<Arc<T>>, GlobError> {
    if globs.is_empty() {
        return Ok(None);
    }
    if let Some(built) = cache.get(globs) {
        return Ok(Some(Arc::clone(built)));
    }
    let built = Arc::new(build(globs)?);
    cache.insert(globs, Arc::clone(&built));
    Ok(Some(built))
}

/// Returns the compiled globs on paths, or `None` for an empty list, which is no restriction.
fn file_scope<'r>(
    cache: &mut HashMap<&'r [String], Arc<FileScope>>,
    globs: &'r [String],
) -> Result<Option<Arc<FileScope>>, GlobError> {
    if globs.is_empty() {
        return Ok(None);
    }
    let index = cache.len();
    if let Some(built) = cache.get(globs) {
        return Ok(Some(Arc::clone(built)));
    }
    let globs_of_paths = PathScope::new(globs)?;
    let built = Arc::new(FileScope {
        index,
        globs: globs_of_paths,
    });
    cache.insert(globs, Arc::clone(&built));
    Ok(Some(built))
}

/// Compiles globs on texts: `*` and `?`, ignoring case.
fn text_globs(texts: &[String]) -> Result<GlobSet, GlobError> {
    let options = GlobOptions {
        case_insensitive: true,
        ..GlobOptions::default()
    };
    let globs = texts.iter().map(|text| Glob::new(text, options));
    GlobSet::new(globs.collect::<Result<_, _>>()?)
}

/// The rules of a pack and their compiled parts that all channels share, by rule.
#[derive(Clone, Copy)]
struct RuleSources<'c> {
    rules: &'c [Rule],
    patterns: &'c [Vec<CompiledPattern>],
    raws: &'c [Vec<CompiledRaw>],
    conditions: &'c [Option<Box<CompoundCondition>>],
    allows: &'c [Vec<Arc<AllowEntry>>],
    scopes: &'c [RuleScope],
}

/// Compiles the command patterns of one channel. Only the input of tools has commands.
fn compile_commands<'r>(
    channel: Channel,
    rules: &'r [Rule],
    trees: &PackTrees,
    places: &Places,
    globs: &mut GlobCache<'r>,
) -> Result<CommandSet, CompileError> {
    let mut set = CommandSet::new(places.home.as_deref());
    if channel != Channel::ToolInput {
        return Ok(set);
    }
    for (index, (rule, trees)) in rules.iter().zip(&trees.rules).enumerate() {
        if !rule.on.contains(&channel) {
            continue;
        }
        let mut operands = trees.operands.iter().map(|sized| sized.tree.clone());
        let mut codes = trees.codes.iter().map(|sized| sized.tree.clone());
        let mut trees = CommandTrees {
            operands: &mut operands,
            codes: &mut codes,
        };
        for (role, pattern) in with_roles(&rule.condition) {
            if pattern.kind != PatternKind::Command {
                continue;
            }
            let error = |kind| CompileError::at(rule, kind);
            let arg = get_or_build(&mut globs.args, pattern.arg.as_slice(), ArgScope::new);
            let owner = CommandOwner {
                rule: RuleId(index as u32),
                role,
                arg: arg.map_err(|why| error(CompileErrorKind::Scope(why)))?,
            };
            let added = set.add(pattern, owner, rule.holds_live(), &mut trees);
            added.map_err(|why| error(CompileErrorKind::Scope(why)))?;
        }
    }
    Ok(set)
}

/// Compiles the rules of one channel. Returns `None` if no rule reads it.
fn compile_channel(
    channel: Channel,
    sources: &RuleSources<'_>,
    commands: CommandSet,
    names: &mut NameSetCache,
    layouts: &mut slice::Iter<'_, Option<MatcherLayout>>,
    build: MatcherBuild<'_>,
) -> Result<Option<ChannelRules>, TooManyClasses> {
    let RuleSources {
        rules,
        conditions,
        allows,
        scopes,
        ..
    } = *sources;
    // The first builder has the key of the unchanged text.
    let mut builders = vec![ViewBuilder::default()];
    let mut detectors = Vec::new();
    let mut file_scopes = BTreeMap::new();
    #[cfg(feature = "ast")]
    let mut shapes = None;
    for (index, rule) in rules.iter().enumerate() {
        if !rule.on.contains(&channel) {
            continue;
        }
        let allowed = allows[index].iter().map(|entry| &entry.paths);
        for scope in allowed.chain([&scopes[index].paths]).flatten() {
            file_scopes.insert(scope.index, Arc::clone(scope));
        }
        let id = RuleId(index as u32);
        #[cfg(feature = "ast")]
        add_shapes(&mut shapes, id, &rule.condition);
        let specs =
            DetectorSpec::from_condition(&rule.condition, |known| names.get_or_build(known));
        detectors.extend(specs.into_iter().map(|spec| DetectorRule {
            rule: id,
            spec,
            holds: rule.holds_live(),
        }));
        add_text_patterns(&mut builders, channel, index, sources);
    }
    #[cfg(feature = "ast")]
    let has_shapes = shapes.is_some();
    #[cfg(not(feature = "ast"))]
    let has_shapes = false;
    let has_others = !detectors.is_empty() || !commands.is_empty() || has_shapes;
    if !has_others && builders.iter().all(ViewBuilder::is_empty) {
        return Ok(None);
    }
    let views = builders.into_iter().map(|builder| {
        let layout = layouts.next().cloned().flatten();
        builder.build(conditions, layout, build)
    });
    let mut views = views.collect::<Result<Vec<_>, _>>()?;
    let products = ProductCache::new(markdown_use(&detectors, &views));
    Ok(Some(ChannelRules {
        raw: views.remove(0),
        views: views.into_boxed_slice(),
        detectors: detectors.into_boxed_slice(),
        commands,
        #[cfg(feature = "ast")]
        shapes,
        file_scopes: file_scopes.into_values().collect(),
        products,
    }))
}

/// Returns the regions of Markdown that the rules of a channel distinguish.
fn markdown_use(detectors: &[DetectorRule], views: &[ViewRules]) -> MarkdownUse {
    let of_detectors = detectors.iter().map(|it| it.spec.source(Channel::Text));
    let mut sources = of_detectors.chain(views.iter().map(|view| view.key.source));
    let has_headings = |view: &ViewRules| view.key.regions.contains(RegionSet::HEADING);
    match sources.any(|it| it == Some(ViewSource::Markdown)) {
        false => MarkdownUse::None,
        // Detectors distinguish no headings.
        true if views.iter().any(has_headings) => MarkdownUse::Regions,
        true => MarkdownUse::HeadingsAreProse,
    }
}

/// Adds the patterns of the rule at `index` to the builders of the views that they read. The first builder is that of the
/// unchanged text.
fn add_text_patterns(
    builders: &mut Vec<ViewBuilder>,
    channel: Channel,
    index: usize,
    sources: &RuleSources<'_>,
) {
    let rule = &sources.rules[index];
    let id = RuleId(index as u32);
    let compiled = sources.patterns[index].iter();
    for ((role, pattern), compiled) in text_patterns(&rule.condition).zip(compiled) {
        let builder = builder_of(builders, ViewKey::from_pattern(pattern, channel));
        let search = sources.conditions[index]
            .as_ref()
            .and_then(|_| compiled.search());
        match search {
            Some(search) => builder.add_full(id, role, rule.holds_live(), compiled, search),
            None => builder.add_first_end(id, compiled),
        }
    }
    if channel == Channel::ToolInput {
        for raw in &sources.raws[index] {
            builders[0].add_raw(id, raw);
        }
    }
}

#[cfg(feature = "ast")]
fn add_shapes(shapes: &mut Option<Box<AstPatternSet>>, rule: RuleId, condition: &Condition) {
    let Some(ast) = &condition.ast else {
        return;
    };
    let shapes = shapes.get_or_insert_default();
    let grammars = ast.languages.iter();
    for grammar in grammars.filter_map(|name| Grammar::from_name(name)) {
        let sought = AstPatternSource {
            any: &ast.any,
            inside: &ast.inside,
            not: &ast.not,
        };
        shapes.add(rule.0, grammar, sought);
    }
}

/// Returns the patterns that an automaton searches for, with their roles.
pub(super) fn text_patterns(
    condition: &Condition,
) -> impl Iterator<Item = (PatternRole, &Pattern)> {
    with_roles(condition).filter(|(_, pattern)| pattern.kind != PatternKind::Command)
}

/// Returns every pattern with its role, in the order of [`Condition::patterns`].
fn with_roles(condition: &Condition) -> impl Iterator<Item = (PatternRole, &Pattern)> {
    let any = condition.any.iter();
    let any = any.map(|pattern| (PatternRole::Any, pattern));
    let all = (0..).map(PatternRole::All).zip(&condition.all);
    let sequence = (0..).map(PatternRole::Sequence).zip(&condition.sequence);
    let none = condition.none.iter();
    let none = none.map(|pattern| (PatternRole::None, pattern));
    any.chain(all).chain(sequence).chain(none)
}

/// Returns the builder for patterns with that key, adding it if it does not exist.
fn builder_of(builders: &mut Vec<ViewBuilder>, key: ViewKey) -> &mut ViewBuilder {
    let known = builders.iter().position(|builder| builder.key == key);
    let index = known.unwrap_or_else(|| {
        builders.push(ViewBuilder {
            key,
            ..ViewBuilder::default()
        });
        builders.len() - 1
    });
    &mut builders[index]
}

/// The way in which the matchers of a pack are built.
#[derive(Clone, Copy)]
struct MatcherBuild<'l> {
    /// True if a matcher is built when text is first searched with it.
    is_delayed: bool,
    limits: &'l Limits,
}

impl MatcherBuild<'_> {
    /// Returns the matcher that `build` builds with a bound on the bytes of its tables.
    fn build_or_defer(
        self,
        build: impl FnOnce(usize) -> Result<Matcher, TooManyClasses>
        + Send
        + UnwindSafe
        + RefUnwindSafe
        + 'static,
    ) -> Result<LazyMatcher, TooManyClasses> {
        let table_bytes = self.limits.table_bytes;
        if self.is_delayed {
            return Ok(LazyLock::new(Box::new(move || {
                build(table_bytes).expect("`fits_alphabet` bounds the classes of all patterns")
            })));
        }
        let matcher = build(table_bytes)?;
        let built = LazyMatcher::new(Box::new(move || matcher));
        LazyLock::force(&built);
        Ok(built)
    }
}

/// The most bytes of the tables of a single rule, which is searched only around its matches.
const RULE_TABLE_BYTES: usize = 256 << 10;

/// Groups the patterns by their rules. The patterns of a rule are adjacent.
fn full_match_rules(
    trees: &[PatternTree],
    patterns: &[FullMatchPattern],
    table_bytes: usize,
) -> Box<[FullMatchRule]> {
    let mut from = 0;
    let chunks = patterns.chunk_by(|one, other| one.rule == other.rule);
    let rules = chunks.map(|chunk| {
        let range = from..from + chunk.len();
        from = range.end;
        let own = trees[range.clone()].to_vec();
        let table_bytes = table_bytes.min(RULE_TABLE_BYTES);
        let build = move || {
            Matcher::for_full_matches(&decoded(&own), table_bytes)
                .expect("the matcher of all patterns distinguishes at least these classes")
        };
        FullMatchRule {
            rule: chunk[0].rule,
            patterns: range.start as u32..range.end as u32,
            matcher: LazyLock::new(Box::new(build)),
        }
    });
    rules.collect()
}

/// Returns the trees, of which those that were read as bytes are decoded now.
fn decoded(trees: &[PatternTree]) -> Vec<Arc<Hir>> {
    trees.iter().map(PatternTree::get).collect()
}

/// Collects the patterns that read the same text.
#[derive(Default)]
struct ViewBuilder {
    key: ViewKey,
    trees: Vec<PatternTree>,
    patterns: Vec<FirstEndPattern>,
    /// For each exception, the index of its pattern.
    exceptions: Vec<usize>,
    /// Patterns whose full matches are needed: of rules that hold no text, of rules that do, and those with
    /// look-around.
    full: [(Vec<PatternTree>, Vec<FullMatchPattern>); 3],
}

impl ViewBuilder {
    fn is_empty(&self) -> bool {
        self.trees.is_empty() && self.full.iter().all(|(trees, _)| trees.is_empty())
    }

    fn add_first_end(&mut self, id: RuleId, compiled: &CompiledPattern) {
        let unless = self.add_exception(id, compiled);
        self.trees.push(compiled.tree.clone());
        self.patterns.push(FirstEndPattern {
            rule: id,
            arg: compiled.arg.clone(),
            role: unless.map_or(FirstEndRole::Match, FirstEndRole::MatchUnless),
            vm: compiled.vm.clone(),
            #[cfg(feature = "lookaround")]
            confirm: compiled.confirm.clone(),
        });
    }

    fn add_raw(&mut self, id: RuleId, raw: &CompiledRaw) {
        self.trees.push(raw.tree.clone());
        self.patterns.push(FirstEndPattern {
            rule: id,
            arg: raw.arg.clone(),
            role: FirstEndRole::MatchIfUnread,
            vm: Some(Arc::clone(&raw.vm)),
            #[cfg(feature = "lookaround")]
            confirm: None,
        });
    }

    /// Adds the exception of a pattern. Returns its index. Equal exceptions of a view are searched once.
    fn add_exception(&mut self, id: RuleId, compiled: &CompiledPattern) -> Option<u32> {
        let tree = compiled.unless.as_ref()?;
        let mut known = self.exceptions.iter();
        if let Some(index) = known.position(|&pattern| self.trees[pattern] == *tree) {
            return Some(index as u32);
        }
        let index = self.exceptions.len() as u32;
        self.exceptions.push(self.trees.len());
        self.trees.push(tree.clone());
        self.patterns.push(FirstEndPattern {
            rule: id,
            arg: None,
            role: FirstEndRole::Exception(index),
            vm: None,
            #[cfg(feature = "lookaround")]
            confirm: None,
        });
        Some(index)
    }

    fn add_full(
        &mut self,
        id: RuleId,
        role: PatternRole,
        holds: bool,
        compiled: &CompiledPattern,
        search: FullMatchSearch,
    ) {
        let group = match search {
            FullMatchSearch::Pike(_) => usize::from(holds),
            #[cfg(feature = "lookaround")]
            FullMatchSearch::Around(_) => 2,
        };
        let unless = self.add_exception(id, compiled);
        let (trees, patterns) = &mut self.full[group];
        trees.push(compiled.tree.clone());
        patterns.push(FullMatchPattern {
            rule: id,
            role,
            arg: compiled.arg.clone(),
            filter: compiled.filter.clone(),
            unless,
            search,
        });
    }

    fn build(
        self,
        conditions: &[Option<Box<CompoundCondition>>],
        layout: Option<MatcherLayout>,
        build: MatcherBuild<'_>,
    ) -> Result<ViewRules, TooManyClasses> {
        let compares_positions = |pattern: &FullMatchPattern| {
            let condition = conditions[pattern.rule.index()].as_deref();
            condition.is_some_and(CompoundCondition::compares_positions)
        };
        let ViewBuilder {
            key,
            trees,
            patterns,
            exceptions,
            full: [others, held, around],
        } = self;
        // A matcher for each group: text waits for matches in progress of rules that hold alone, and patterns with
        // look-around are searched in the whole haystack.
        let full = [
            (held, FullMatchKind::Held),
            (others, FullMatchKind::Unheld),
            (around, FullMatchKind::Lookaround),
        ];
        let full = full
            .into_iter()
            .filter(|((trees, _), _)| !trees.is_empty())
            .map(|((trees, patterns), kind)| {
                Ok(FullMatchRules {
                    kind,
                    rules: full_match_rules(&trees, &patterns, build.limits.table_bytes),
                    matcher: build.build_or_defer(move |bytes| {
                        Matcher::for_full_matches(&decoded(&trees), bytes)
                    })?,
                    // To count costs time for each byte, and only conditions that compare positions need it.
                    counts: match patterns.iter().any(compares_positions) {
                        true => TextCounts::LinesAndChars,
                        false => TextCounts::Nothing,
                    },
                    patterns: patterns.into_boxed_slice(),
                    stretch_bytes: build.limits.stretch_bytes.max(1),
                    reaches: OnceLock::new(),
                })
            });
        let full = full.collect::<Result<_, TooManyClasses>>()?;
        #[cfg(feature = "lookaround")]
        let confirms = ConfirmTable::new(&patterns, build.limits);
        #[cfg(feature = "lookaround")]
        let every_end = confirms.is_confirmed();
        #[cfg(not(feature = "lookaround"))]
        let every_end = Vec::new();
        Ok(ViewRules {
            key,
            matcher: build.build_or_defer(move |bytes| {
                let trees = decoded(&trees);
                match &layout {
                    Some(layout) => Matcher::with_layout(&trees, bytes, &every_end, layout),
                    None => Matcher::with_every_end(&trees, bytes, &every_end),
                }
            })?,
            patterns: patterns.into_boxed_slice(),
            exceptions: exceptions.len(),
            #[cfg(feature = "lookaround")]
            confirms,
            full,
        })
    }
}
