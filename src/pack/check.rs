//! From the text of rule files to [`Rule`]s: every key, type and value is checked, and every problem of
//! every file is reported in one run.
//!
//! A rule with a problem is left out, and a load with an error fails: nothing is skipped in silence. What
//! a pattern costs is asked of `matcher::pattern`; nothing is compiled here.

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::mem::take;
use std::time::{Duration, Instant};

use super::diagnostic::{Code, Cursor, Diagnostic, Excerpt, Report, code};
use super::escape::{self, quote};
use crate::limits::Limits;
use crate::rule::Rule;

mod by_hand;
mod condition;
pub(super) mod draft;
pub(super) mod fault;
mod header;
mod keys;
mod option;
mod pattern;
mod rule;
mod scope;
mod sense;
mod syntax;

use draft::{Draft, Layer};
use fault::Fault;

/// Most problems of one file that are looked at closely; the rest is counted.
const PROBLEMS_PER_FILE: usize = 10_000;

/// The check of all texts and rules of one load.
#[derive(Debug)]
pub(super) struct Check<'l> {
    limits: &'l Limits,
    started: Instant,
    late: bool,
    report: Report,
    rules: Vec<Rule>,
    /// Number of files read so far.
    files: usize,
    /// Where each full id was first written.
    seen: HashMap<String, String>,
}

impl<'l> Check<'l> {
    pub(super) fn new(limits: &'l Limits) -> Check<'l> {
        Check {
            limits,
            started: Instant::now(),
            late: false,
            report: Report::default(),
            rules: Vec::new(),
            files: 0,
            seen: HashMap::new(),
        }
    }

    /// Checks the text of one rule file.
    pub(super) fn text(&mut self, name: &str, text: &str) {
        if self.is_late(name) {
            return;
        }
        let mut walk = Walk::new(self, text);
        syntax::walk(&mut walk);
        for draft in &mut walk.drafts {
            draft.complete();
        }
        let drafts = take(&mut walk.drafts);
        for draft in drafts.iter().filter(|draft| !draft.is_broken) {
            walk.judge(draft);
        }
        let Walk { problems, ids, .. } = walk;
        self.places(name, text, problems, ids);
        self.rules
            .extend(drafts.into_iter().map(|draft| draft.rule));
        self.files += 1;
        self.is_late(name);
    }

    /// Checks a rule made in code.
    pub(super) fn rule(&mut self, rule: Rule) {
        const FILE: &str = "<code>";
        let problem = |fault: Fault| Diagnostic {
            rule: Some(escape::all(&rule.id)),
            help: fault.help,
            ..Diagnostic::of_file(fault.code, FILE, fault.message)
        };
        let mut faults = by_hand::faults(&rule, self.limits);
        if let Some(first) = self.seen.insert(rule.id.clone(), "made in code".to_owned()) {
            faults.push(duplicate(&rule.id, &first));
        }
        faults
            .into_iter()
            .map(problem)
            .for_each(|problem| self.report.push(problem));
        self.rules.push(by_hand::normal(rule));
    }

    /// Reports a problem found elsewhere.
    pub(super) fn problem(&mut self, diagnostic: Diagnostic) {
        self.report.push(diagnostic);
    }

    /// The rules in the order of their full ids, and the problems. With an error among them, the rules
    /// are not all there.
    pub(super) fn finish(mut self) -> (Vec<Rule>, Report) {
        self.rules.sort_by(|a, b| a.id.cmp(&b.id));
        (self.rules, self.report)
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

    /// Whether the time to load is over; said once.
    fn is_late(&mut self, name: &str) -> bool {
        let limit = self.limits.load_millis;
        if !self.late && self.started.elapsed() >= Duration::from_millis(limit) {
            self.late = true;
            let message = format!("loading took longer than {limit} milliseconds");
            self.report
                .push(Diagnostic::of_file(&code::LOAD_TIME, name, message));
        }
        self.late
    }
}

fn duplicate(id: &str, first: &str) -> Fault {
    let message = format!("rule {} exists already", quote(id));
    Fault::new(&code::DUPLICATE_RULE, message)
        .with_help(format!("the first is {first}; rename one of the two"))
}

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

type Span = std::ops::Range<usize>;

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

/// The walk over one text.
#[derive(Debug)]
struct Walk<'t> {
    limits: &'t Limits,
    deadline: Option<Instant>,
    text: &'t str,
    problems: Problems,
    /// Errors so far, those not kept included.
    errors: usize,
    /// The full id of the rule that is being read.
    rule: Option<String>,
    ids: Vec<Id>,
    drafts: Vec<Draft>,
    /// The number of the file.
    file: usize,
    /// Scope entries after lists are filled in, over all rules.
    entries: usize,
}

impl<'t> Walk<'t> {
    fn new(check: &Check<'t>, text: &'t str) -> Walk<'t> {
        let limit = Duration::from_millis(check.limits.load_millis);
        Walk {
            limits: check.limits,
            deadline: check.started.checked_add(limit),
            text,
            problems: Problems::default(),
            errors: 0,
            rule: None,
            ids: Vec::new(),
            drafts: Vec::new(),
            file: check.files,
            entries: 0,
        }
    }

    /// Reports `fault` at `span`.
    fn fault(&mut self, fault: Fault, span: Span) {
        let Fault {
            code,
            message,
            help,
            ..
        } = fault;
        self.errors += usize::from(code.level == super::Level::Error);
        if self.problems.list.len() >= PROBLEMS_PER_FILE {
            self.problems.hidden += 1;
            return;
        }
        let rule = self.rule.as_deref().map(escape::all);
        self.problems.list.push(Problem {
            code,
            span,
            rule,
            message,
            help,
        });
    }

    /// Reports what makes no sense in a whole rule, at the keys it is about.
    fn judge(&mut self, draft: &Draft) {
        self.rule = Some(draft.rule.id.clone());
        for (path, fault) in sense::faults(&draft.rule, self.limits) {
            let given = draft.given(path);
            let is_default = given.is_some_and(|given| given.layer == Layer::Defaults);
            if fault.code == &code::NO_EFFECT && is_default {
                continue;
            }
            let place = given.map_or(&draft.place, |given| &given.at);
            self.fault(fault, place.span.clone());
        }
        self.rule = None;
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

    fn is_late(&self) -> bool {
        self.deadline
            .is_some_and(|deadline| Instant::now() >= deadline)
    }
}
