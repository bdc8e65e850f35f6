//! What is odd in a rule that works: told by `check`, never a reason not to load.

use std::collections::HashMap;

use regex_syntax::hir::literal::Extractor;
use regex_syntax::hir::{Hir, HirKind};

use super::Pack;
use super::check::Late;
use super::check::draft::{Draft, Place};
use super::check::fault::Fault;
use super::diagnostic::code;
use super::escape::quote;
use super::message::{self, MessageValues};
use super::tools::KnownTools;
use crate::limits::Limits;
use crate::rule::{Action, Channel, Pattern, PatternKind, Rule, Severity, Status, Within};
use crate::verdict::PartId;
use ttsr_automata::pattern;

mod boundary;
mod held;

/// A pattern without a literal to look for that needs more states than this is worth a word.
const STATES: usize = 1000;

/// What is odd in one rule.
pub(super) fn of_rule(
    draft: &Draft,
    limits: &Limits,
    known: Option<&KnownTools>,
) -> Vec<(Place, Fault)> {
    let rule = &draft.rule;
    let found = [
        no_negative(rule),
        self_trigger(rule, limits),
        style(rule),
        deprecated(rule),
        unbounded(rule),
        held_text(rule, limits),
        no_literal(rule, limits),
        boundary(rule),
        counts_deltas(rule),
    ];
    let tools = known.map(|known| known.warnings(rule));
    let tools = tools.into_iter().flatten();
    let tools = tools.map(|(key, fault)| (About::Key(key), fault));
    let found = found.into_iter().flatten().chain(tools);
    found
        .map(|(about, fault)| (about.place(draft, &fault), fault))
        .collect()
}

/// What a lint is about.
enum About<'r> {
    /// The key at a path; an empty one is the rule as a whole.
    Key(&'static str),
    /// The text of a pattern, or those bytes of it that the fault names.
    Text(&'r str),
}

impl About<'_> {
    fn place(&self, draft: &Draft, fault: &Fault) -> Place {
        match self {
            About::Key(path) => {
                let given = draft.given(path);
                given.map_or(&draft.place, |given| &given.at).clone()
            }
            About::Text(text) => draft.in_pattern(text, fault.within.as_ref()),
        }
    }
}

/// What is odd about rules beside each other.
pub(super) fn of_all(drafts: &[Draft]) -> Vec<Late> {
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
                .given("replaced-by")
                .map_or(&draft.place, |given| &given.at);
            found.push((at.clone(), Some(draft.rule.id.clone()), fault));
        }
    }
    found.extend(shadowed(drafts));
    found
}

type Found<'r> = Option<(About<'r>, Fault)>;

fn no_negative(rule: &Rule) -> Found<'_> {
    let has_case = rule.cases.iter().any(|case| case.expect.is_none());
    let is_shown = !rule.examples.not_matching.is_empty() || has_case;
    (!is_shown).then(|| {
        let fault = Fault::new(
            &code::NO_NEGATIVE_EXAMPLE,
            "no example shows what does not break the rule",
        );
        (
            About::Key(""),
            fault.with_help("add `examples.no-match = [\"…\"]` with the nearest harmless text"),
        )
    })
}

/// A message that the model repeats would break the rule again.
fn self_trigger<'r>(rule: &'r Rule, limits: &Limits) -> Found<'r> {
    // What a rule puts before the words of the user is not read as theirs.
    let may_repeat = [Channel::Text, Channel::Reasoning];
    let read = rule.on.iter().filter(|on| may_repeat.contains(on));
    let mut read = read.filter(|_| rule.action >= Action::Append);
    let message = message::render(rule, &MessageValues::default());
    let matched = read.find_map(|channel| broken_by(rule, *channel, &message, limits))?;
    let by = match matched.is_empty() {
        true => String::new(),
        false => format!(": {} stands in it", quote(&matched)),
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
    Some((About::Key(path), fault.with_help(
        "a model that repeats the message is cut again; say it in other words, with `{{ match.text }}` at most",
    )))
}

/// What of a text breaks the rule on that channel; empty where that is no text in particular.
fn broken_by(rule: &Rule, channel: Channel, text: &str, limits: &Limits) -> Option<String> {
    let pack = Pack::builder().limits(limits.clone()).rule(rule.clone());
    let mut stream = pack.build().ok()?.stream();
    let part = PartId(0);
    stream.open(part, channel);
    let mut hits = stream.push(part, text.as_bytes()).to_vec();
    hits.extend_from_slice(&stream.finish());
    hits.first().map(|hit| stream.matched(hit).to_owned())
}

fn style(rule: &Rule) -> Found<'_> {
    let is_style = rule
        .tags
        .iter()
        .any(|tag| tag.eq_ignore_ascii_case("style"));
    let aborts = rule.action == Action::Abort || super::compose::then(rule) == Some(Action::Abort);
    (aborts && (is_style || rule.severity < Severity::Error)).then(|| {
        let why = if is_style {
            "a rule of style"
        } else {
            "a rule of severity below `error`"
        };
        let fault = Fault::new(&code::ABORT_FOR_STYLE, format!("{why} ends the turn"));
        (
            About::Key("action"),
            fault.with_help("take `inject` or `retry`; only the dangerous should abort"),
        )
    })
}

fn deprecated(rule: &Rule) -> Found<'_> {
    (rule.status == Status::Deprecated).then(|| {
        let fault = Fault::new(&code::DEPRECATED_RULE, "this rule is deprecated");
        let help = match &rule.replaced_by {
            Some(id) => format!("use {} instead", quote(id)),
            None => "remove it, or say in `replaced-by` what to use instead".to_owned(),
        };
        (About::Key("status"), fault.with_help(help))
    })
}

/// A window that is not counted in characters holds as much text as the reply has.
fn unbounded(rule: &Rule) -> Found<'_> {
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
            About::Key("match.within"),
            fault.with_help("write `match.within = { chars = 500 }`, or do without `hold`"),
        )
    })
}

/// Nearly everything may begin a match: nearly all text waits, until it is known that none did.
fn held_text<'r>(rule: &'r Rule, limits: &Limits) -> Found<'r> {
    let condition = &rule.condition;
    // What `none` looks for is no match: it is looked for beside one.
    let matched = [&condition.any, &condition.all, &condition.sequence];
    let mut matched = matched.into_iter().flatten().filter(|_| rule.holds());
    let (written, held) =
        matched.find_map(|written| Some((written, held::bytes(written, limits)?)))?;
    let opening = Some(&written.text)
        .filter(|_| written.kind == PatternKind::Regex)
        .and_then(|regex| held::opening(regex))
        .unwrap_or(0..written.text.len());
    let message = format!(
        "{held} bytes of ordinary text wait at once, and up to {} of any: nearly everything may begin a match, by {}",
        limits.stretch_bytes,
        quote(&written.text[opening.clone()])
    );
    let fault = Fault::new(&code::HELD_TEXT, message).with_help(
        "begin with a text that must be there; what comes before it need not be part of the match",
    );
    Some((About::Text(&written.text), fault.within(Some(opening))))
}

/// Patterns that begin and end anywhere keep many states alive on any text.
fn no_literal<'r>(rule: &'r Rule, limits: &Limits) -> Found<'r> {
    let costly = rule.condition.patterns().find_map(|written| {
        let hir = pattern::parse(&written.to_regex(), &limits.of_pattern()).ok()?;
        let states = pattern::states(&hir);
        (states > STATES && !has_literal(&hir)).then_some((written, states))
    });
    costly.map(|(written, states): (&'r Pattern, usize)| {
        let message = format!(
            "pattern {} has no literal text in it and needs about {states} states",
            quote(&written.text)
        );
        let fault = Fault::new(&code::NO_LITERAL, message)
            .with_help("add text that must be there, or lower the counts of its repetitions")
            .within(Some(0..written.text.len()));
        (About::Text(&written.text), fault)
    })
}

/// The one condition besides time that is not decided by the bytes of the reply.
fn counts_deltas(rule: &Rule) -> Found<'_> {
    rule.condition.limit?.deltas?;
    let message = "`deltas` counts the pieces in which the reply arrives: cut another way, the same reply may pass it or not";
    let fault = Fault::new(&code::DEPENDS_ON_CUTS, message)
        .with_help("bound `tokens` or `bytes` where the same reply is to come to the same");
    Some((About::Key("match.limit.deltas"), fault))
}

/// `\\b` beside a sign: what it asks for is seldom there.
fn boundary(rule: &Rule) -> Found<'_> {
    let mut regexes = rule
        .condition
        .patterns()
        .filter(|it| it.kind == PatternKind::Regex);
    let (written, odd) =
        regexes.find_map(|written| Some((written, boundary::odd(&written.text)?)))?;
    let (side, place) = match odd.is_front {
        true => (
            "in front of",
            "the beginning of a text, and behind a blank,",
        ),
        false => ("behind", "the end of a text, and before a blank,"),
    };
    let message = format!(
        "`\\b` asks for a letter, a digit or `_` {side} {}: at {place} this does not match",
        quote(&odd.sign.to_string())
    );
    let fault = Fault::new(&code::ODD_BOUNDARY, message)
        .with_help("leave the `\\b` out, or write what may stand there, such as `(?:^|\\s)` or `(?:\\s|$)`")
        .within(Some(odd.at));
    Some((About::Text(&written.text), fault))
}

/// Whether some literal of two bytes or more is in every match.
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

/// Rules with the same patterns and the same scope as a stronger one: where they hit, that one wins. Only
/// what is certain is told: equal texts, equal scopes, nothing but `any`.
fn shadowed(drafts: &[Draft]) -> Vec<Late> {
    let mut strongest: HashMap<Key<'_>, &Draft> = HashMap::new();
    let plain = drafts.iter().filter(|draft| is_plain(&draft.rule));
    for draft in plain.clone() {
        for pattern in &draft.rule.condition.any {
            let best = strongest.entry(key(&draft.rule, pattern)).or_insert(draft);
            if rank(&draft.rule) > rank(&best.rule) {
                *best = draft;
            }
        }
    }
    let mut found = Vec::new();
    for draft in plain {
        let above = |pattern| strongest[&key(&draft.rule, pattern)];
        let mut aboves = draft.rule.condition.any.iter().map(above);
        let Some(first) = aboves
            .next()
            .filter(|above| rank(&above.rule) > rank(&draft.rule))
        else {
            continue;
        };
        if aboves.all(|above| rank(&above.rule) > rank(&draft.rule)) {
            let message = format!(
                "rule {} matches the same and is stronger: this one never decides",
                quote(&first.rule.id)
            );
            let fault = Fault::new(&code::SHADOWED_RULE, message)
                .with_help("remove one of the two, or give them different scopes");
            found.push((draft.place.clone(), Some(draft.rule.id.clone()), fault));
        }
    }
    found
}

/// A pattern and all that says where it is looked for.
type Key<'r> = (&'r Pattern, [&'r [String]; 6], &'r [Channel]);

fn key<'r>(rule: &'r Rule, pattern: &'r Pattern) -> Key<'r> {
    let Rule {
        tools,
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
        &rule.on,
    )
}

/// Whether nothing but `any` decides when it is broken.
fn is_plain(rule: &Rule) -> bool {
    let any = rule.condition.any.clone();
    !any.is_empty()
        && rule.condition == crate::rule::Condition::any(any)
        && rule.mode == crate::rule::Mode::Live
        && rule.repeat.is_none()
}

fn rank(rule: &Rule) -> (Action, i32, Severity) {
    (rule.action, rule.priority, rule.severity)
}
