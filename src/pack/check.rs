//! Turns the text of rule files into [`Rule`]s: checks every key, type and value, and reports every problem of every
//! file in one run.
//!
//! `syntax` parses the TOML, `file` reads the parts of a file, and the rows of `schema` read single keys through a
//! [`RuleReader`]. The result is a [`Draft`] per rule. Overrides are then applied to the drafts (`layer`), and `semantics`
//! checks the keys of each rule together. A rule with a problem is left out, and a load with an error fails.
//!
//! Nothing is compiled here; the bounds of a pattern are those of `ttsr_automata::pattern`.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::mem::take;
use std::path::Path;
use std::sync::Arc;

use super::builtin::BuiltinPack;
use super::compose::{self, Date, Override, PackSource, ResolvedAllow, WrittenAllow};
use super::diagnostic::{Diagnostic, Excerpt, Report, TextCursor, code};
use super::escape::{self, quote};
use super::header::{self as pack_header, PackHeader};
use super::lint::{self, LintTrial};
use super::lock::Lock;
use super::tools::KnownTools;
use crate::pack::load_context::LoadContext;
use crate::rule::{Action, Rule};

pub(super) mod actions;
pub(super) mod ast;
pub(super) mod command;
pub(super) mod draft;
pub(super) mod fault;
mod file;
pub(super) mod fragment;
mod layer;
pub(super) mod names;
pub(super) mod pattern;
pub(super) mod problems;
mod programmatic;
pub(super) mod reader;
pub(super) mod rule;
pub(super) mod scope;
mod semantics;
mod syntax;
#[cfg(test)]
mod tests;

use draft::{Draft, Place};
use fault::Fault;
use file::SpannedId;
use fragment::{FragmentUses, FragmentsByPack};
use problems::{Problem, Problems};
use reader::RuleReader;
use syntax::ParsedText;
use toml::de::DeTable;

/// One load: its texts, its rules made in code, and the problems found so far.
#[derive(Debug)]
pub(super) struct Check<'l> {
    context: &'l LoadContext<'l>,
    /// Work so far, as [`Limits::load_steps`] counts it.
    steps: u64,
    is_exhausted: bool,
    report: Report,
    /// The texts, in the order in which they are read once all are known.
    pub(super) sources: Vec<PackSource>,
    /// Rules made in code.
    programmatic: Vec<Draft>,
    /// The header of each source, by the number of the source.
    file_headers: Vec<FileHeader>,
    drafts: Vec<Draft>,
    overrides: Vec<Override>,
    allows: Vec<WrittenAllow>,
    fragments: Arc<FragmentsByPack>,
    /// The uses of the fragments of each pack.
    fragment_uses: BTreeMap<String, FragmentUses>,
    /// Problems that were found in one file at places in another.
    in_other_files: Vec<DeferredFault>,
    /// The place at which each full id is first written.
    seen: HashMap<String, String>,
}

/// The header of a file, which other files and hosts need: `[pack]` and `[lists]`.
#[derive(Clone, Debug, Default)]
pub(super) struct FileHeader {
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

/// The options of the host for a load.
#[derive(Clone, Debug, Default)]
pub(super) struct HostOptions {
    /// The actions that it allows; `None` allows all of them.
    pub(super) grants: Option<Vec<Action>>,
    /// The day with which `until` of an `[[allow]]` is compared, if the host passes it.
    pub(super) today: Option<Date>,
    /// The packs that the load must result in.
    pub(super) lock: Option<Lock>,
    /// The trial that lints run rules with; `None` if no lints run.
    pub(super) lints: Option<LintTrial>,
}

/// The result of a load. If the report has an error, rules are missing.
#[derive(Debug)]
pub(super) struct Loaded {
    /// In the order of their full ids.
    pub(super) rules: Vec<Rule>,
    pub(super) allows: Vec<ResolvedAllow>,
    pub(super) headers: Vec<PackHeader>,
    pub(super) lock: Lock,
    pub(super) report: Report,
}

impl<'l> Check<'l> {
    pub(super) fn new(context: &'l LoadContext<'l>) -> Check<'l> {
        Check {
            context,
            steps: 0,
            is_exhausted: false,
            report: Report::default(),
            sources: Vec::new(),
            programmatic: Vec::new(),
            file_headers: Vec::new(),
            drafts: Vec::new(),
            overrides: Vec::new(),
            allows: Vec::new(),
            fragments: Arc::default(),
            fragment_uses: BTreeMap::new(),
            in_other_files: Vec::new(),
            seen: HashMap::new(),
        }
    }

    /// Adds the text of one rule file, which [`finish`](Self::finish) reads.
    pub(super) fn add_text(&mut self, name: &str, text: &str, folder: Option<&Path>) {
        self.sources.push(PackSource::new(name, text, folder));
    }

    /// Adds the files of a built-in pack.
    pub(super) fn add_builtin(&mut self, pack: &BuiltinPack) {
        for (name, text) in pack.files() {
            self.add_text(&name, text, None);
        }
    }

    /// Adds a rule made in code.
    pub(super) fn add_rule(&mut self, rule: Rule) {
        let rule = programmatic::normalize(rule);
        self.programmatic.push(Draft::from_rule(rule));
    }

    /// Adds a problem that was found elsewhere.
    pub(super) fn add_problem(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// Reads and checks everything that was added.
    pub(super) fn finish(mut self, options: &HostOptions) -> Loaded {
        let sources = take(&mut self.sources);
        let parsed = sources.iter().map(|source| DeTable::parse(&source.text));
        let parsed: Vec<ParsedText<'_>> = parsed.collect();
        let (fragments, steps) = fragment::collect(&sources, &parsed, self.context);
        self.fragments = Arc::new(fragments);
        self.steps = self.steps.saturating_add(steps);
        for (source, parsed) in sources.iter().zip(&parsed) {
            self.read(source, parsed);
        }
        drop(parsed);
        let mut deferred = self.compose(options);
        deferred.append(&mut self.in_other_files);
        deferred.extend(self.fragment_problems(options));
        let mut rules: Vec<Rule> = take(&mut self.drafts)
            .into_iter()
            .map(|draft| draft.rule)
            .collect();
        self.check_programmatic(options);
        let programmatic = take(&mut self.programmatic).into_iter();
        rules.extend(programmatic.map(|draft| draft.rule));
        rules.sort_by(|a, b| a.id.cmp(&b.id));
        let written = take(&mut self.allows);
        if let Some(known) = self.known_tools(options) {
            for WrittenAllow {
                allow, at, entries, ..
            } in &written
            {
                let faults = known.misspelled_tools(&allow.tools).into_iter();
                deferred.extend(faults.map(|(entry, fault)| {
                    let place = draft::location(entries, entry);
                    DeferredFault::without_rule(place.unwrap_or_else(|| at.clone()), fault)
                }));
            }
        }
        let (allows, faults) = compose::resolve(written, &rules, options, self.context);
        deferred.extend(
            faults
                .into_iter()
                .map(|(place, fault)| DeferredFault::without_rule(place, fault)),
        );
        self.report_deferred(&sources, deferred);
        let lock = self.check_lock(&sources, options.lock.as_ref());
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

    /// Returns the headers of the packs. If a file could not be read, the load fails anyway.
    fn headers(&self, sources: &[PackSource]) -> Vec<PackHeader> {
        let files = sources.iter().zip(&self.file_headers);
        pack_header::merged(files.map(|(source, header)| PackHeader {
            name: header.pack.clone(),
            version: header.version.clone(),
            description: header.description.clone(),
            license: header.license.clone(),
            docs: header.docs.clone(),
            extends: header.extends.clone(),
            is_extended: source.is_extended,
        }))
    }

    /// Returns the lock of the sources, and reports its differences from the `wanted` one.
    fn check_lock(&mut self, sources: &[PackSource], wanted: Option<&Lock>) -> Lock {
        let files = sources.iter().zip(&self.file_headers);
        let files = files.map(|(source, header)| {
            (
                header.pack.as_str(),
                header.version.as_deref(),
                source.text.as_str(),
            )
        });
        let lock = Lock::new(files);
        for message in wanted
            .into_iter()
            .flat_map(|wanted| wanted.differences(&lock))
        {
            let problem = Diagnostic::from_file(&code::LOCK_MISMATCH, "ttsr.lock", message);
            self.report
                .push(problem.with_help("review the changes, then write the lock again"));
        }
        lock
    }

    /// Reads one file.
    fn read(&mut self, source: &PackSource, parsed: &ParsedText<'_>) {
        let PackSource {
            name, text, faults, ..
        } = source;
        self.steps = self.steps.saturating_add(text.len() as u64);
        if self.check_steps(name) {
            return;
        }
        let imported = self.imported_lists(source.extends());
        let mut reader = RuleReader::new(text, self.file_headers.len(), self.context, self.steps);
        for (fault, span) in faults {
            reader.fault(fault.clone(), span.clone());
        }
        reader.all_fragments = Arc::clone(&self.fragments);
        let mut file = syntax::read(&mut reader, parsed, imported);
        let scope = fragment::scope(&file.header.pack, self.file_headers.len());
        let uses = self.fragment_uses.entry(scope).or_default();
        for (name, rule) in take(&mut reader.fragment_uses) {
            uses.entry(name).or_insert(rule);
        }
        self.in_other_files.append(&mut reader.in_other_files);
        self.overrides.append(&mut file.overrides);
        self.allows.append(&mut file.allows);
        self.drafts.append(&mut file.drafts);
        self.file_headers.push(file.header);
        self.steps = reader.steps;
        self.report_problems(name, text, reader.problems, file.ids);
        self.check_steps(name);
    }

    /// Returns the faults of fragments and, if lints run and nothing else is wrong, the fragments that are not used.
    fn fragment_problems(&self, options: &HostOptions) -> Vec<DeferredFault> {
        let none = FragmentUses::new();
        let mut found = Vec::new();
        for (pack, fragments) in self.fragments.iter() {
            let uses = self.fragment_uses.get(pack).unwrap_or(&none);
            found.extend(fragments.faults(uses));
            if options.lints.is_some() && !self.report.has_errors() {
                found.extend(fragments.unused(uses));
            }
        }
        found
    }

    /// Returns the lists of the packs that `extends` names and of those that they extend. The key of each is `pack/list`,
    /// and also `list` if the name is unambiguous.
    fn imported_lists(&self, extends: Vec<String>) -> BTreeMap<String, Arc<[String]>> {
        let mut graph = self.extends_graph();
        graph.insert(String::new(), extends.into_iter().collect());
        let extended = compose::closure(&graph, "");
        let mut lists = BTreeMap::new();
        let mut twice = HashSet::new();
        for header in self
            .file_headers
            .iter()
            .filter(|header| extended.contains(&header.pack))
        {
            for (name, entries) in &header.lists {
                lists.insert(format!("{}/{name}", header.pack), Arc::clone(entries));
                let before = lists.insert(name.clone(), Arc::clone(entries));
                if before.is_some_and(|before| before != *entries) {
                    twice.insert(name.clone());
                }
            }
        }
        lists.retain(|name, _| !twice.contains(name));
        lists
    }

    /// Returns the packs that each pack extends.
    fn extends_graph(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for header in &self.file_headers {
            let extended = graph.entry(header.pack.clone()).or_default();
            extended.extend(header.extends.iter().cloned());
        }
        graph
    }

    /// Applies overrides, then checks each rule as a whole.
    fn compose(&mut self, options: &HostOptions) -> Vec<DeferredFault> {
        let graph = self.extends_graph();
        let overrides = take(&mut self.overrides);
        let faults = compose::apply(&mut self.drafts, overrides, &graph);
        let mut deferred: Vec<DeferredFault> = faults
            .into_iter()
            .map(|(place, fault)| DeferredFault::without_rule(place, fault))
            .collect();
        for draft in &mut self.drafts {
            draft.complete();
        }
        let known = self.known_tools(options);
        let mut broken = Vec::new();
        for (index, draft) in self.drafts.iter().enumerate() {
            if draft.is_broken {
                let faults = semantics::independent_faults(draft, self.context);
                let faults = placed(faults, draft).into_iter();
                deferred.extend(faults.map(|(place, fault)| DeferredFault {
                    place,
                    rule: Some(draft.rule.id.clone()),
                    fault,
                }));
                continue;
            }
            let asked = |place: &Place| self.asked_grants(place.file);
            let mut faults = combined_faults(draft, self.context);
            if faults.is_empty() {
                faults = compose::ungranted(draft, asked, options.grants.as_deref());
            }
            if !faults.is_empty() {
                broken.push(index);
            } else if let Some(trial) = options.lints {
                faults = lint::lint_rule(draft, self.context, known.as_ref(), trial);
            }
            deferred.extend(faults.into_iter().map(|(place, fault)| DeferredFault {
                place,
                rule: Some(draft.rule.id.clone()),
                fault,
            }));
        }
        for index in broken {
            self.drafts[index].is_broken = true;
        }
        if options.lints.is_some() {
            deferred.extend(lint::lint_all(&self.drafts));
        }
        deferred
    }

    /// Returns the `grants` of the pack of a file, which are those of all its files, or `None` if none of them has any.
    fn asked_grants(&self, file: usize) -> Option<Vec<Action>> {
        let pack = &self.file_headers[file].pack;
        let headers = self.file_headers.iter().filter(|it| it.pack == *pack);
        let grants: Vec<_> = headers.filter_map(|it| it.grants.as_ref()).collect();
        (!grants.is_empty()).then(|| grants.into_iter().flatten().copied().collect())
    }

    /// Returns the tools that scopes are compared with, if lints run.
    fn known_tools(&self, options: &HostOptions) -> Option<KnownTools> {
        let own = self.file_headers.iter().flat_map(|header| &header.tools);
        options.lints.map(|_| KnownTools::new(own))
    }

    fn check_programmatic(&mut self, options: &HostOptions) {
        const FILE: &str = "<code>";
        for draft in &self.programmatic {
            let rule = &draft.rule;
            let problem = |fault: Fault| Diagnostic {
                rule: Some(escape::all(&rule.id)),
                help: fault.help,
                ..Diagnostic::from_file(fault.code, FILE, fault.message)
            };
            let mut faults = programmatic::faults(draft, self.context);
            faults.extend(compose::ungranted_in_code(rule, options.grants.as_deref()));
            if let Some(first) = self.seen.insert(rule.id.clone(), "made in code".to_owned()) {
                faults.push(duplicate(&rule.id, &first));
            }
            let problems = faults.into_iter().map(problem);
            problems.for_each(|problem| self.report.push(problem));
        }
    }

    /// Reports the problems that were found after all files were read.
    fn report_deferred(&mut self, sources: &[PackSource], mut deferred: Vec<DeferredFault>) {
        deferred.sort_by_key(|found| found.place.file);
        let mut left = deferred.into_iter().peekable();
        for (file, source) in sources.iter().enumerate() {
            let mut problems = Problems::default();
            while let Some(found) = left.next_if(|found| found.place.file == file) {
                problems.push(found.fault, found.place.span, found.rule);
            }
            self.report_problems(&source.name, &source.text, problems, Vec::new());
        }
    }

    /// Reports problems with their lines and columns, and ids that are already in use.
    fn report_problems(&mut self, name: &str, text: &str, problems: Problems, ids: Vec<SpannedId>) {
        let mut marks: Vec<Mark> = problems.list.into_iter().map(Mark::Problem).collect();
        marks.extend(ids.into_iter().map(Mark::Id));
        marks.sort_by_key(Mark::start);
        // Every rule that names a list finds its bad entries.
        let mut reported: HashSet<(usize, &'static str, String)> = HashSet::new();
        let mut cursor = TextCursor::new(text);
        for mark in marks {
            let (line, column) = cursor.line_column(mark.start());
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
            if !reported.insert((span.start, code.name, message.clone())) {
                continue;
            }
            self.report.push(Diagnostic {
                line,
                column,
                rule: problem.rule,
                help: problem.help,
                excerpt: Some(Box::new(Excerpt::new(text, &problem.span))),
                ..Diagnostic::from_file(problem.code, name, problem.message)
            });
        }
        self.report.hide(problems.hidden);
    }

    fn first_use(&mut self, id: &SpannedId, name: &str, line: u32, column: u32) -> Option<Problem> {
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

    /// Returns true if the work of this load exceeds its limit, and reports the first file at which it does.
    fn check_steps(&mut self, name: &str) -> bool {
        let limit = self.context.limits.load_steps;
        if !self.is_exhausted && self.steps > limit {
            self.is_exhausted = true;
            let message = format!(
                "loading up to here takes {} steps of work, limit is {limit}",
                self.steps
            );
            let problem = Diagnostic::from_file(&code::LOAD_STEPS, name, message)
                .with_help("load fewer rules, patterns and entries of scopes, or raise the limit");
            self.report.push(problem);
        }
        self.is_exhausted
    }
}

/// Returns the rule with everything that the checks of a rule made in code find wrong with it.
pub(super) fn rule_faults(rule: Rule, context: &LoadContext<'_>) -> (Rule, Vec<Fault>) {
    let draft = Draft::from_rule(programmatic::normalize(rule));
    let faults = programmatic::faults(&draft, context);
    (draft.rule, faults)
}

fn duplicate(id: &str, first: &str) -> Fault {
    let message = format!("there is already a rule {}", quote(id));
    Fault::new(&code::DUPLICATE_RULE, message)
        .with_help(format!("the first is {first}; rename one of the two"))
}

/// Returns the contradictions in a whole rule, each at the key that it is about. A value of `[defaults]` that the rule
/// has no use for is not a fault.
fn combined_faults(draft: &Draft, context: &LoadContext<'_>) -> Vec<(Place, Fault)> {
    let mut found = placed(semantics::faults(draft, context), draft);
    for (text, fault) in pattern::late_faults(&draft.rule, &draft.fold, context) {
        found.push((draft.in_pattern(text, fault.within.as_ref()), fault));
    }
    found
}

/// Returns the faults with their places, without values of `[defaults]` that have no effect.
fn placed(faults: Vec<semantics::KeyFault>, draft: &Draft) -> Vec<(Place, Fault)> {
    let mut found = Vec::new();
    for (path, fault) in faults {
        if fault.code != &code::NO_EFFECT || !draft.is_default(path) {
            let given = draft.latest_written(path);
            let place = given.map_or(&draft.place, |given| &given.at);
            let entry = fault.case.and_then(|case| draft.in_case(case));
            found.push((entry.unwrap_or(place).clone(), fault));
        }
    }
    found
}

/// A fault that is reported after all files are read, because its file is another one or its cause is in several.
#[derive(Debug)]
pub(super) struct DeferredFault {
    pub(super) place: Place,
    /// The full id of the rule that the fault is about, if it is about one.
    pub(super) rule: Option<String>,
    pub(super) fault: Fault,
}

impl DeferredFault {
    /// Returns a fault that is about no rule.
    fn without_rule(place: Place, fault: Fault) -> DeferredFault {
        DeferredFault {
            place,
            rule: None,
            fault,
        }
    }
}

/// Something at a place of the text.
enum Mark {
    Problem(Problem),
    Id(SpannedId),
}

impl Mark {
    fn start(&self) -> usize {
        match self {
            Mark::Problem(problem) => problem.span.start,
            Mark::Id(id) => id.span.start,
        }
    }
}
