//! From the text of rule files to [`Rule`]s: every key, type and value is checked, and every problem of
//! every file is reported in one run.
//!
//! A rule with a problem is left out, and a load with an error fails: nothing is skipped in silence. What
//! a pattern costs is asked of `matcher::pattern`; nothing is compiled here.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::take;
use std::path::Path;
use std::sync::Arc;

use super::compose::{self, Allow, Override, Source, Today, Written};
use super::diagnostic::{Code, Cursor, Diagnostic, Excerpt, Report, code};
use super::escape::{self, quote};
use super::header::{self as pack_header, PackHeader};
use super::lint::{self, LintTrial};
use super::lock::Lock;
use super::tools::KnownTools;
use crate::limits::Limits;
use crate::rule::{Action, Rule};

mod ast;
mod by_hand;
mod condition;
pub(super) mod draft;
pub(super) mod fault;
mod header;
mod keys;
mod option;
mod pattern;
mod rule;
pub(super) mod scope;
mod sense;
mod syntax;
#[cfg(test)]
mod tests;

use draft::{Draft, Layer, PatternText, Place};
use fault::Fault;

/// Most problems of one file that are looked at closely; the rest is counted.
const PROBLEMS_PER_FILE: usize = 10_000;

/// The check of all texts and rules of one load.
#[derive(Debug)]
pub(super) struct Check<'l> {
    limits: &'l Limits,
    /// Steps of work so far, as [`Limits::load_steps`] counts them.
    steps: u64,
    is_exhausted: bool,
    report: Report,
    /// The texts, in the order in which they are read once they are all there.
    pub(super) sources: Vec<Source>,
    /// Rules made in code.
    by_hand: Vec<Rule>,
    /// What each source says besides its rules, by the number of the source.
    facts: Vec<Facts>,
    drafts: Vec<Draft>,
    overrides: Vec<Override>,
    allows: Vec<Written>,
    /// Where each full id was first written.
    seen: HashMap<String, String>,
}

/// What the head of a file says, as far as other files need it.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) pack: String,
    pub(super) version: Option<String>,
    pub(super) description: Option<String>,
    pub(super) license: Option<String>,
    pub(super) docs: Option<String>,
    pub(super) extends: Vec<String>,
    pub(super) grants: Option<Vec<Action>>,
    pub(super) lists: BTreeMap<String, Arc<[String]>>,
    pub(super) tools: Vec<String>,
}

/// What the host says about a load.
#[derive(Clone, Debug, Default)]
pub(super) struct Terms {
    /// Which actions it allows; all of them where it does not say.
    pub(super) grants: Option<Vec<Action>>,
    pub(super) today: Today,
    /// What the packs must be.
    pub(super) lock: Option<Lock>,
    /// The trial that lints run rules with; `None` if no lints are wanted.
    pub(super) lints: Option<LintTrial>,
}

/// What a load comes to. With an error in the report, the rules are not all there.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In the order of their full ids.
    pub(super) rules: Vec<Rule>,
    pub(super) allows: Vec<Allow>,
    pub(super) headers: Vec<PackHeader>,
    pub(super) lock: Lock,
    pub(super) report: Report,
}

impl<'l> Check<'l> {
    pub(super) fn new(limits: &'l Limits) -> Check<'l> {
        Check {
            limits,
            steps: 0,
            is_exhausted: false,
            report: Report::default(),
            sources: Vec::new(),
            by_hand: Vec::new(),
            facts: Vec::new(),
            drafts: Vec::new(),
            overrides: Vec::new(),
            allows: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// Takes the text of one rule file. It is read by [`finish`](Self::finish).
    pub(super) fn text(&mut self, name: &str, text: &str, folder: Option<&Path>) {
        self.sources.push(Source::new(name, text, folder));
    }

    /// Takes a rule made in code.
    pub(super) fn rule(&mut self, rule: Rule) {
        self.by_hand.push(by_hand::normal(rule));
    }

    /// Reports a problem found elsewhere.
    pub(super) fn problem(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// Reads everything that was taken.
    pub(super) fn finish(mut self, terms: &Terms) -> Loaded {
        let sources = take(&mut self.sources);
        for source in &sources {
            self.read(source);
        }
        let mut late = self.compose(terms);
        let mut rules: Vec<Rule> = take(&mut self.drafts)
            .into_iter()
            .map(|draft| draft.rule)
            .collect();
        self.read_by_hand(terms);
        rules.append(&mut self.by_hand);
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        let written = take(&mut self.allows);
        if let Some(known) = self.known_tools(terms) {
            for Written { allow, at, .. } in &written {
                let faults = known.misspelt_tools(&allow.tools).into_iter();
                late.extend(faults.map(|fault| (at.clone(), None, fault)));
            }
        }
        let (allows, faults) = compose::resolve(written, &rules, terms, self.limits);
        late.extend(faults.into_iter().map(|(at, fault)| (at, None, fault)));
        self.late_places(&sources, late);
        let lock = self.locked(&sources, terms.lock.as_ref());
        let headers = self.headers(&sources);
        let report = self.report;
        Loaded {
            rules,
            allows,
            headers,
            lock,
            report,
        }
    }

    /// What the packs say of themselves. Where something could not be read the load fails anyway.
    fn headers(&self, sources: &[Source]) -> Vec<PackHeader> {
        let files = sources.iter().zip(&self.facts);
        pack_header::joined(files.map(|(source, facts)| PackHeader {
            name: facts.pack.clone(),
            version: facts.version.clone(),
            description: facts.description.clone(),
            license: facts.license.clone(),
            docs: facts.docs.clone(),
            extends: facts.extends.clone(),
            is_extended: source.is_extended,
        }))
    }

    /// The lock of what was read; reports where it is not the `wanted` one.
    fn locked(&mut self, sources: &[Source], wanted: Option<&Lock>) -> Lock {
        let files = sources.iter().zip(&self.facts);
        let files = files.map(|(source, facts)| {
            (
                facts.pack.as_str(),
                facts.version.as_deref(),
                source.text.as_str(),
            )
        });
        let lock = Lock::new(files);
        for message in wanted
            .into_iter()
            .flat_map(|wanted| wanted.differences(&lock))
        {
            let problem = Diagnostic::of_file(&code::LOCK_MISMATCH, "ttsr.lock", message);
            self.report
                .push(problem.with_help("look at what changed, then write the lock anew"));
        }
        lock
    }

    /// Reads the text of one file.
    fn read(&mut self, source: &Source) {
        let Source {
            name, text, faults, ..
        } = source;
        self.steps = self.steps.saturating_add(text.len() as u64);
        if self.is_exhausted(name) {
            return;
        }
        let mut walk = Walk::new(self, text);
        walk.imported = self.imported(source.extends());
        for (fault, span) in faults {
            walk.fault(fault.clone(), span.clone());
        }
        syntax::walk(&mut walk);
        self.overrides.append(&mut walk.overrides);
        self.allows.append(&mut walk.allows);
        self.drafts.append(&mut walk.drafts);
        self.facts.push(take(&mut walk.facts));
        self.steps = walk.steps;
        let problems = take(&mut walk.problems);
        let ids = take(&mut walk.ids);
        self.places(name, text, problems, ids);
        self.is_exhausted(name);
    }

    /// The lists of the packs below: each as `pack/list`, and as `list` where only one of them is so called.
    fn imported(&self, extends: Vec<String>) -> BTreeMap<String, Arc<[String]>> {
        let mut graph = self.graph();
        graph.insert(String::new(), extends.into_iter().collect());
        let below = compose::closure(&graph, "");
        let mut lists = BTreeMap::new();
        let mut twice = HashSet::new();
        for facts in self
            .facts
            .iter()
            .filter(|facts| below.contains(&facts.pack))
        {
            for (name, entries) in &facts.lists {
                lists.insert(format!("{}/{name}", facts.pack), Arc::clone(entries));
                let before = lists.insert(name.clone(), Arc::clone(entries));
                if before.is_some_and(|before| before != *entries) {
                    twice.insert(name.clone());
                }
            }
        }
        lists.retain(|name, _| !twice.contains(name));
        lists
    }

    /// Which packs each pack extends.
    fn graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for facts in &self.facts {
            let below = graph.entry(facts.pack.clone()).or_default();
            below.extend(facts.extends.iter().cloned());
        }
        graph
    }

    /// Applies overrides, then judges each rule as a whole.
    fn compose(&mut self, terms: &Terms) -> Vec<Late> {
        let graph = self.graph();
        let overrides = take(&mut self.overrides);
        let (_, faults) = compose::apply(&mut self.drafts, overrides, &graph);
        let mut late: Vec<Late> = faults
            .into_iter()
            .map(|(at, fault)| (at, None, fault))
            .collect();
        for draft in &mut self.drafts {
            draft.complete();
        }
        let known = self.known_tools(terms);
        for draft in self.drafts.iter().filter(|draft| !draft.is_broken) {
            let asked = |place: &Place| self.facts[place.file].grants.clone();
            let mut faults = judged(draft, self.limits);
            if faults.is_empty() {
                faults = compose::ungranted(draft, asked, terms.grants.as_deref());
            }
            if let Some(trial) = terms.lints.filter(|_| faults.is_empty()) {
                faults = lint::lint_rule(draft, self.limits, known.as_ref(), trial);
            }
            let id = Some(draft.rule.id.clone());
            late.extend(
                faults
                    .into_iter()
                    .map(|(at, fault)| (at, id.clone(), fault)),
            );
        }
        if terms.lints.is_some() {
            late.extend(lint::lint_all(&self.drafts));
        }
        late
    }

    /// The tools that scopes are compared with, where lints are asked for.
    fn known_tools(&self, terms: &Terms) -> Option<KnownTools> {
        let own = self.facts.iter().flat_map(|facts| &facts.tools);
        terms.lints.map(|_| KnownTools::new(own))
    }

    fn read_by_hand(&mut self, terms: &Terms) {
        const FILE: &str = "<code>";
        for rule in &self.by_hand {
            let problem = |fault: Fault| Diagnostic {
                rule: Some(escape::all(&rule.id)),
                help: fault.help,
                ..Diagnostic::of_file(fault.code, FILE, fault.message)
            };
            let mut faults = by_hand::faults(rule, self.limits);
            faults.extend(compose::refused_in(rule, terms.grants.as_deref()));
            if let Some(first) = self.seen.insert(rule.id.clone(), "made in code".to_owned()) {
                faults.push(duplicate(&rule.id, &first));
            }
            let problems = faults.into_iter().map(problem);
            problems.for_each(|problem| self.report.push(problem));
        }
    }

    /// Reports what was found once all files were read.
    fn late_places(&mut self, sources: &[Source], mut late: Vec<Late>) {
        late.sort_by_key(|(at, _, _)| at.file);
        let mut left = late.into_iter().peekable();
        for (file, source) in sources.iter().enumerate() {
            let mut problems = Problems::default();
            while let Some((at, rule, fault)) = left.next_if(|(at, _, _)| at.file == file) {
                problems.push(fault, at.span, rule);
            }
            self.places(&source.name, &source.text, problems, Vec::new());
        }
    }

    /// Turns spans into places and reports; along the way finds ids that were used before.
    fn places(&mut self, name: &str, text: &str, problems: Problems, ids: Vec<Id>) {
        let mut marks: Vec<Mark> = problems.list.into_iter().map(Mark::Problem).collect();
        marks.extend(ids.into_iter().map(Mark::Id));
        marks.sort_by_key(Mark::start);
        // A bad entry of a list is found again by every rule that uses it.
        let mut told: HashSet<(usize, &'static str, String)> = HashSet::new();
        let mut cursor = Cursor::new(text);
        for mark in marks {
            let (line, column) = cursor.place(mark.start());
            let problem = match mark {
                Mark::Problem(problem) => problem,
                Mark::Id(id) => match self.first_use(&id, name, line, column) {
                    Some(problem) => problem,
                    None => continue,
                },
            };
            let Problem {
                code,
                span,
                message,
                ..
            } = &problem;
            if !told.insert((span.start, code.name, message.clone())) {
                continue;
            }
            self.report.push(Diagnostic {
                line,
                column,
                rule: problem.rule,
                help: problem.help,
                excerpt: Some(Box::new(Excerpt::new(text, &problem.span))),
                ..Diagnostic::of_file(problem.code, name, problem.message)
            });
        }
        self.report.hide(problems.hidden);
    }

    fn first_use(&mut self, id: &Id, name: &str, line: u32, column: u32) -> Option<Problem> {
        match self.seen.entry(id.full.clone()) {
            Entry::Vacant(entry) => {
                entry.insert(format!("at {}:{line}:{column}", escape::all(name)));
                None
            }
            Entry::Occupied(entry) => {
                let Fault {
                    code,
                    message,
                    help,
                    ..
                } = duplicate(&id.full, entry.get());
                let (span, rule) = (id.span.clone(), Some(escape::all(&id.full)));
                Some(Problem {
                    code,
                    span,
                    rule,
                    message,
                    help,
                })
            }
        }
    }

    /// Returns whether the work of this load is over its limit; reports it at the first file that is.
    fn is_exhausted(&mut self, name: &str) -> bool {
        let limit = self.limits.load_steps;
        if !self.is_exhausted && self.steps > limit {
            self.is_exhausted = true;
            let message = format!(
                "loading up to here takes {} steps of work, limit is {limit}",
                self.steps
            );
            let problem = Diagnostic::of_file(&code::LOAD_STEPS, name, message)
                .with_help("load fewer rules, patterns and entries of scopes, or raise the limit");
            self.report.push(problem);
        }
        self.is_exhausted
    }
}

fn duplicate(id: &str, first: &str) -> Fault {
    let message = format!("rule {} exists already", quote(id));
    Fault::new(&code::DUPLICATE_RULE, message)
        .with_help(format!("the first is {first}; rename one of the two"))
}

/// What makes no sense in a whole rule, at the keys it is about. What `[defaults]` says and a rule has no use
/// for is no fault.
fn judged(draft: &Draft, limits: &Limits) -> Vec<(Place, Fault)> {
    let mut found = Vec::new();
    for (path, fault) in sense::faults(&draft.rule, limits) {
        let given = draft.given(path);
        let is_default = given.is_some_and(|given| given.layer == Layer::Defaults);
        if fault.code != &code::NO_EFFECT || !is_default {
            let place = given.map_or(&draft.place, |given| &given.at);
            found.push((place.clone(), fault));
        }
    }
    for (text, fault) in pattern::late_faults(&draft.rule, &draft.fold, limits) {
        found.push((draft.in_pattern(text, fault.within.as_ref()), fault));
    }
    found
}

/// A problem found once all files were read, and the rule it is about.
pub(super) type Late = (Place, Option<String>, Fault);

/// Something at a place of the text.
enum Mark {
    Problem(Problem),
    Id(Id),
}

impl Mark {
    fn start(&self) -> usize {
        match self {
            Mark::Problem(problem) => problem.span.start,
            Mark::Id(id) => id.span.start,
        }
    }
}

/// The full id of a rule and where it is written.
#[derive(Debug)]
struct Id {
    full: String,
    span: Span,
}

/// Bytes of a text.
pub(super) type Span = std::ops::Range<usize>;

/// A problem of one text, before its place is worked out.
#[derive(Debug)]
struct Problem {
    code: &'static Code,
    span: Span,
    rule: Option<String>,
    message: String,
    help: Option<String>,
}

#[derive(Debug, Default)]
struct Problems {
    list: Vec<Problem>,
    hidden: usize,
}

impl Problems {
    fn push(&mut self, fault: Fault, span: Span, rule: Option<String>) {
        if self.list.len() >= PROBLEMS_PER_FILE {
            self.hidden += 1;
            return;
        }
        self.list.push(Problem {
            code: fault.code,
            span,
            rule: rule.as_deref().map(escape::all),
            message: fault.message,
            help: fault.help,
        });
    }
}

/// The walk over one text.
#[derive(Debug)]
struct Walk<'t> {
    limits: &'t Limits,
    /// Steps of work of this load so far.
    steps: u64,
    text: &'t str,
    problems: Problems,
    /// Errors so far, those not kept included.
    errors: usize,
    /// The full id of the rule that is being read.
    rule: Option<String>,
    ids: Vec<Id>,
    drafts: Vec<Draft>,
    /// Where the patterns of the rule that is being read are written.
    texts: Vec<PatternText>,
    overrides: Vec<Override>,
    allows: Vec<Written>,
    facts: Facts,
    /// Lists of the packs below.
    imported: BTreeMap<String, Arc<[String]>>,
    /// The number of the file.
    file: usize,
    /// Scope entries after lists are filled in, over all rules.
    entries: usize,
}

impl<'t> Walk<'t> {
    fn new(check: &Check<'t>, text: &'t str) -> Walk<'t> {
        Walk {
            limits: check.limits,
            steps: check.steps,
            text,
            problems: Problems::default(),
            errors: 0,
            rule: None,
            ids: Vec::new(),
            drafts: Vec::new(),
            texts: Vec::new(),
            overrides: Vec::new(),
            allows: Vec::new(),
            facts: Facts::default(),
            imported: BTreeMap::new(),
            file: check.facts.len(),
            entries: 0,
        }
    }

    /// Reports `fault` at `span`.
    fn fault(&mut self, fault: Fault, span: Span) {
        self.errors += usize::from(fault.code.level == super::Level::Error);
        self.problems.push(fault, span, self.rule.clone());
    }

    /// Reports `fault` at the text it was found in, as exactly as the text allows.
    fn fault_in(&mut self, fault: Fault, text: &keys::Text<'_>) {
        let span = text.place_of(self.text, fault.within.as_ref());
        self.fault(fault, span);
    }

    /// The rule that is being read, for a message; else the place named.
    fn at(&self, place: &str) -> String {
        match &self.rule {
            Some(id) if place.is_empty() => format!("rule {}", quote(id)),
            Some(id) => format!("{place} of rule {}", quote(id)),
            None => place.to_owned(),
        }
    }

    fn spend(&mut self, steps: usize) {
        self.steps = self.steps.saturating_add(steps as u64);
    }

    fn is_exhausted(&self) -> bool {
        self.steps > self.limits.load_steps
    }
}
