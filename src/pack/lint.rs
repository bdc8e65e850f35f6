//! Lints: findings about rules that are valid but odd. They are warnings and never stop a load.

use std::collections::HashMap;

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use super::Pack;
use super::check::DeferredFault;
use super::check::command;
use super::check::draft::{Draft, Place};
use super::check::fault::Fault;
use super::diagnostic::code;
use super::escape::quote;
use super::message::{self, MessageValues};
use super::tools::KnownTools;
use crate::pack::load_context::LoadContext;
use crate::rule::{
    Action, Channel, Pattern, PatternKind, Rule, Severity, Status, ToolOutcome, Within,
};
use ttsr_automata::pattern;

mod boundary;
mod hold_back;

/// The number of states above which a pattern without a literal is reported.
const STATES: usize = 1000;

/// Functions that run a rule, for lints that cannot be decided by reading it. The loader knows no stream, so the layer
/// above passes them in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LintTrial {
    /// Returns the text of the first match of the pack's rules in a text, or `None` if no rule hits.
    pub(crate) first_match: fn(&Pack, Channel, &str) -> Option<String>,
    /// Returns the largest number of bytes of ordinary text that the pack's rules hold back at once.
    pub(crate) most_held: fn(&Pack) -> u64,
}

/// Returns the findings about one rule.
pub(super) fn lint_rule(
    draft: &Draft,
    context: &LoadContext<'_>,
    known: Option<&KnownTools>,
    trial: LintTrial,
) -> Vec<(Place, Fault)> {
    let rule = &draft.rule;
    let found = [
        no_negative(rule),
        self_trigger(rule, context, trial),
        style(rule),
        deprecated(rule),
        unbounded(rule),
        held_text(rule, context, trial),
        no_literal(rule, context),
        boundary(rule),
        counts_deltas(rule),
    ];
    let flags = rule.condition.patterns().flat_map(|pattern| {
        let faults = command::unknown_flags(pattern).into_iter();
        let faults = faults.chain(command::without_code(pattern));
        faults.map(|fault| (FindingSubject::Text(&pattern.text), fault))
    });
    let tools = known.map(|known| known.warnings(rule));
    let tools = tools.into_iter().flatten();
    let tools = tools.map(|(key, entry, fault)| (FindingSubject::Entry(key, entry), fault));
    let found = found.into_iter().flatten().chain(flags).chain(tools);
    found
        .map(|(about, fault)| (about.locate(draft, &fault), fault))
        .collect()
}

/// The subject of a finding.
enum FindingSubject<'r> {
    /// The key at a path; an empty path is the rule as a whole.
    Key(&'static str),
    /// An entry of the list at a path.
    Entry(&'static str, &'r str),
    /// The text of a pattern, or the range of it that the fault has.
    Text(&'r str),
}

impl FindingSubject<'_> {
    fn locate(&self, draft: &Draft, fault: &Fault) -> Place {
        match self {
            FindingSubject::Entry(path, entry) => {
                let written = draft.in_entry(entry);
                written.unwrap_or_else(|| FindingSubject::Key(path).locate(draft, fault))
            }
            FindingSubject::Key(path) => {
                let given = draft.latest_written(path);
                given.map_or(&draft.place, |given| &given.at).clone()
            }
            FindingSubject::Text(text) => draft.in_pattern(text, fault.within.as_ref()),
        }
    }
}

/// Returns the findings about rules in relation to each other.
pub(super) fn lint_all(drafts: &[Draft]) -> Vec<DeferredFault> {
    let mut found = Vec::new();
    let ids: HashMap<&str, &Draft> = drafts
        .iter()
        .map(|draft| (draft.rule.id.as_str(), draft))
        .collect();
    for draft in drafts {
        let replaced_by = draft.rule.replaced_by.as_deref();
        if let Some(missing) = replaced_by.filter(|id| !ids.contains_key(id)) {
            let message = format!(
                "`replaced-by` names {}, which is not loaded",
                quote(missing)
            );
            let fault = Fault::new(&code::REPLACED_BY_MISSING, message)
                .with_help("name its pack in `extends`, or correct the id");
            let at = draft
                .latest_written("replaced-by")
                .map_or(&draft.place, |given| &given.at);
            found.push(DeferredFault {
                place: at.clone(),
                rule: Some(draft.rule.id.clone()),
                fault,
            });
        }
    }
    found.extend(shadowed(drafts));
    found
}

type LintFinding<'r> = Option<(FindingSubject<'r>, Fault)>;

fn no_negative(rule: &Rule) -> LintFinding<'_> {
    let has_case = rule.cases.iter().any(|case| case.expect.is_none());
    let is_shown = !rule.examples.not_matching.is_empty() || has_case;
    (!is_shown).then(|| {
        let fault = Fault::new(
            &code::NO_NEGATIVE_EXAMPLE,
            "the rule has no example that does not break it",
        );
        (
            FindingSubject::Key(""),
            fault.with_help("add `examples.no-match = [\"…\"]` with the nearest harmless text"),
        )
    })
}

/// Reports a message that breaks its own rule: the rule would hit again if the model repeated it.
fn self_trigger<'r>(
    rule: &'r Rule,
    context: &LoadContext<'_>,
    trial: LintTrial,
) -> LintFinding<'r> {
    // A message that is injected into user input is not read as user input.
    let may_repeat = [Channel::Text, Channel::Reasoning];
    let read = rule.on.iter().filter(|on| may_repeat.contains(on));
    let mut read = read.filter(|_| rule.action >= Action::Append);
    let message = message::render(rule.message.as_deref(), rule, &MessageValues::default());
    let matched = read.find_map(|channel| {
        let pack = Pack::builder()
            .limits(context.limits.clone())
            .rule(rule.clone());
        (trial.first_match)(&pack.build().ok()?, *channel, &message)
    })?;
    let by = match matched.is_empty() {
        true => String::new(),
        false => format!(": it contains {}", quote(&matched)),
    };
    let path = if rule.message.is_some() {
        "message"
    } else {
        ""
    };
    let fault = Fault::new(
        &code::SELF_TRIGGER,
        format!("the message breaks its own rule{by}"),
    );
    Some((FindingSubject::Key(path), fault.with_help(
        "a model that repeats the message breaks the rule again; reword it, or quote the match as `{{ match.text }}`",
    )))
}

fn style(rule: &Rule) -> LintFinding<'_> {
    let is_style = rule
        .tags
        .iter()
        .any(|tag| tag.eq_ignore_ascii_case("style"));
    let aborts = rule.action == Action::Abort
        || super::compose::action_after_retries(rule) == Some(Action::Abort);
    (aborts && (is_style || rule.severity < Severity::Error)).then(|| {
        let why = if is_style {
            "a style rule"
        } else {
            "a rule with a severity below `error`"
        };
        let fault = Fault::new(&code::ABORT_FOR_STYLE, format!("{why} ends the turn"));
        (
            FindingSubject::Key("action"),
            fault.with_help("use `inject` or `retry`; only dangerous output should abort"),
        )
    })
}

fn deprecated(rule: &Rule) -> LintFinding<'_> {
    (rule.status == Status::Deprecated).then(|| {
        let fault = Fault::new(&code::DEPRECATED_RULE, "this rule is deprecated");
        let help = match &rule.replaced_by {
            Some(id) => format!("use {} instead", quote(id)),
            None => "remove it, or name its replacement in `replaced-by`".to_owned(),
        };
        (FindingSubject::Key("status"), fault.with_help(help))
    })
}

/// Reports a rule that holds text back within a window that has no bound in characters.
fn unbounded(rule: &Rule) -> LintFinding<'_> {
    let condition = &rule.condition;
    let is_wide = match condition.within {
        Some(Within::Chars(_)) => false,
        Some(_) => true,
        None => !condition.all.is_empty() || !condition.sequence.is_empty(),
    };
    let retained = rule.holds() && is_wide;
    retained.then(|| {
        let message = "the window has no bound in characters, and text is held back until it ends";
        let fault = Fault::new(&code::UNBOUNDED_WINDOW, message);
        (
            FindingSubject::Key("match.within"),
            fault.with_help("write `match.within = { chars = 500 }`, or remove `hold`"),
        )
    })
}

/// Reports a pattern that nearly every text may begin, so that nearly all text is held back.
fn held_text<'r>(rule: &'r Rule, context: &LoadContext<'_>, trial: LintTrial) -> LintFinding<'r> {
    let condition = &rule.condition;
    // Patterns of `none` hold nothing back: they match beside a match.
    let matched = [&condition.any, &condition.all, &condition.sequence];
    let is_text = |written: &&Pattern| rule.holds() && written.kind != PatternKind::Command;
    let mut matched = matched.into_iter().flatten().filter(is_text);
    let (written, held) = matched.find_map(|written| {
        Some((
            written,
            hold_back::held_bytes(written, context.limits, trial)?,
        ))
    })?;
    let opening = Some(&written.text)
        .filter(|_| written.kind == PatternKind::Regex)
        .and_then(|regex| hold_back::opening(regex))
        .unwrap_or(0..written.text.len());
    let message = format!(
        "the rule holds back {held} bytes of ordinary text, and up to {} bytes of other text: almost any text can begin a match of {}",
        context.limits.stretch_bytes,
        quote(&written.text[opening.clone()])
    );
    let fault = Fault::new(&code::HELD_TEXT, message).with_help(
        "begin the pattern with a literal; the text before it need not be part of the match",
    );
    Some((
        FindingSubject::Text(&written.text),
        fault.within(Some(opening)),
    ))
}

/// Reports a large pattern without a literal: it keeps many states alive on any text.
fn no_literal<'r>(rule: &'r Rule, context: &LoadContext<'_>) -> LintFinding<'r> {
    let costly = rule.condition.patterns().find_map(|written| {
        let hir = context.patterns.parse(&written.to_regex()).ok()?;
        let states = pattern::states(&hir);
        (states > STATES && !has_literal(&hir)).then_some((written, states))
    });
    costly.map(|(written, states): (&'r Pattern, usize)| {
        let message = format!(
            "pattern {} has no literal text and needs about {states} states",
            quote(&written.text)
        );
        let fault = Fault::new(&code::NO_LITERAL, message)
            .with_help("add a literal, or lower the bounds of its repetitions")
            .within(Some(0..written.text.len()));
        (FindingSubject::Text(&written.text), fault)
    })
}

/// Reports a bound on deltas: the only condition, besides time, that the bytes of the reply do not decide.
fn counts_deltas(rule: &Rule) -> LintFinding<'_> {
    rule.condition.limit?.deltas?;
    let message = "`deltas` depends on how the reply is split into deltas: the same reply may or may not exceed it";
    let fault = Fault::new(&code::DEPENDS_ON_CUTS, message)
        .with_help("limit `tokens` or `bytes` if equal replies must give equal results");
    Some((FindingSubject::Key("match.limit.deltas"), fault))
}

/// Reports `\b` beside a character that is not part of a word.
fn boundary(rule: &Rule) -> LintFinding<'_> {
    let mut regexes = rule
        .condition
        .patterns()
        .filter(|it| it.kind == PatternKind::Regex);
    let (written, odd) = regexes
        .find_map(|written| Some((written, boundary::unintended_boundary(&written.text)?)))?;
    let (side, place) = match odd.is_front {
        true => ("before", "at the beginning of a text or after a space"),
        false => ("after", "at the end of a text or before a space"),
    };
    let message = format!(
        "`\\b` requires a letter, a digit or `_` {side} {}: the pattern does not match {place}",
        quote(&odd.sign.to_string())
    );
    let fault = Fault::new(&code::ODD_BOUNDARY, message)
        .with_help("remove the `\\b`, or write the text that may be there, such as `(?:^|\\s)` or `(?:\\s|$)`")
        .within(Some(odd.at));
    Some((FindingSubject::Text(&written.text), fault))
}

/// Returns true if every match contains a literal of two bytes or more.
fn has_literal(hir: &Hir) -> bool {
    let is_good = |seq: regex_syntax::hir::literal::Seq| {
        seq.min_literal_len().is_some_and(|bytes| bytes >= 2)
    };
    let inner = match hir.kind() {
        HirKind::Concat(subs) => subs
            .iter()
            .any(|sub| matches!(sub.kind(), HirKind::Literal(text) if text.0.len() >= 2)),
        _ => false,
    };
    inner || is_good(Extractor::new().extract(hir))
}

/// Reports rules with the same patterns and the same scope as a stronger rule that cuts: a cut suppresses the hits after
/// it, and no other action does. Only certain cases are reported: equal texts, equal scopes, no condition but `any`.
fn shadowed(drafts: &[Draft]) -> Vec<DeferredFault> {
    let mut strongest: HashMap<ScopedPattern<'_>, &Draft> = HashMap::new();
    // The values of a rule with an error are not those that its author means.
    let valid = drafts.iter().filter(|draft| !draft.is_broken);
    let plain = valid.filter(|draft| is_plain(&draft.rule));
    for draft in plain.clone().filter(|draft| always_cuts(&draft.rule)) {
        for pattern in &draft.rule.condition.any {
            let best = strongest
                .entry(scoped(&draft.rule, pattern))
                .or_insert(draft);
            if rank(&draft.rule) > rank(&best.rule) {
                *best = draft;
            }
        }
    }
    let mut found = Vec::new();
    for draft in plain {
        let above = |pattern| {
            let above = strongest.get(&scoped(&draft.rule, pattern)).copied();
            above.filter(|above| rank(&above.rule) > rank(&draft.rule))
        };
        let mut aboves = draft.rule.condition.any.iter().map(above);
        let Some(first) = aboves.next().flatten() else {
            continue;
        };
        if aboves.all(|above| above.is_some()) {
            let message = format!(
                "rule {} has the same patterns and cuts the reply first, so this rule never takes effect",
                quote(&first.rule.id)
            );
            let fault = Fault::new(&code::SHADOWED_RULE, message)
                .with_help("remove one of the two, or give them different scopes");
            found.push(DeferredFault {
                place: draft.place.clone(),
                rule: Some(draft.rule.id.clone()),
                fault,
            });
        }
    }
    found
}

/// A pattern and its complete scope.
type ScopedPattern<'r> = (
    &'r Pattern,
    [&'r [String]; 6],
    Option<ToolOutcome>,
    &'r [Channel],
);

fn scoped<'r>(rule: &'r Rule, pattern: &'r Pattern) -> ScopedPattern<'r> {
    let Rule {
        tools,
        outcome,
        args,
        paths,
        agents,
        models,
        providers,
        ..
    } = rule;
    (
        pattern,
        [tools, args, paths, agents, models, providers],
        *outcome,
        &rule.on,
    )
}

/// Returns true if `any` alone decides the rule.
fn is_plain(rule: &Rule) -> bool {
    let any = rule.condition.any.clone();
    !any.is_empty()
        && rule.condition == crate::rule::Condition::any(any)
        && rule.mode == crate::rule::Mode::Live
        && rule.repeat.is_none()
}

/// Returns true if every hit of the rule cuts. A rule that retries does so as long as it has retries.
fn always_cuts(rule: &Rule) -> bool {
    let last = super::compose::action_after_retries(rule).unwrap_or(rule.action);
    last.cuts() && rule.allowance == crate::rule::Allowance::default()
}

fn rank(rule: &Rule) -> (Action, i32, Severity) {
    (rule.action, rule.priority, rule.severity)
}
