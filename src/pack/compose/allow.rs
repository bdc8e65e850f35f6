//! `[[allow]]`: places where rules do not apply, with a reason and an end.

use regex_automata::meta::Regex;
use ttsr_views::glob::{Glob, GlobOptions};

use super::super::check::HostOptions;
use super::super::check::draft::{PatternText, Place};
use super::super::check::fault::Fault;
use super::Date;
use super::overrides::not_extended;
use crate::pack::diagnostic::code;
use crate::pack::did_you_mean;
use crate::pack::escape::quote;
use crate::pack::load_context::LoadContext;
use crate::pack::schema::{CALL_CHANNELS, TOOL_CHANNELS};
use crate::rule::{Condition, Pattern, Rule};
use crate::verdict::RuleId;

/// Hits of `rules` that do not count. The tool, the file and the text of the match must each be in its list; an empty list
/// matches everything, and at least one of the three is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ResolvedAllow {
    /// The rules, sorted.
    pub(crate) rules: Vec<RuleId>,
    /// Globs on the name of the tool.
    pub(crate) tools: Vec<String>,
    /// Globs on the file; those that begin with `!` exclude.
    pub(crate) paths: Vec<String>,
    /// Texts of the match. `*` and `?` are wildcards, and case is ignored.
    pub(crate) text: Vec<String>,
    /// The reason, for logs.
    pub(crate) reason: String,
    /// The last day on which the entry applies.
    pub(crate) until: Option<Date>,
}

/// An `[[allow]]` of a file, before its globs on rules are resolved.
#[derive(Clone, Debug)]
pub(in crate::pack) struct WrittenAllow {
    /// The entry. [`resolve`] fills in its rules.
    pub(in crate::pack) allow: ResolvedAllow,
    /// Globs on full ids, with their places.
    pub(in crate::pack) rules: Vec<(String, Place)>,
    pub(in crate::pack) at: Place,
    /// The entries of its scopes, as they are written.
    pub(in crate::pack) entries: Vec<PatternText>,
}

impl WrittenAllow {
    /// Returns an entry without keys.
    pub(in crate::pack) fn new(at: Place) -> WrittenAllow {
        let allow = ResolvedAllow {
            rules: Vec::new(),
            tools: Vec::new(),
            paths: Vec::new(),
            text: Vec::new(),
            reason: String::new(),
            until: None,
        };
        WrittenAllow {
            allow,
            rules: Vec::new(),
            at,
            entries: Vec::new(),
        }
    }
}

/// Resolves the globs on rules of each entry. An entry that ended before today is left out and reported, as is one with
/// an end if today is not known. With lints, an entry that excuses nothing is reported as well.
pub(in crate::pack) fn resolve(
    written: Vec<WrittenAllow>,
    rules: &[Rule],
    options: &HostOptions,
    context: &LoadContext<'_>,
) -> (Vec<ResolvedAllow>, Vec<(Place, Fault)>) {
    let mut allows = Vec::new();
    let mut faults = Vec::new();
    let today = options.today;
    for WrittenAllow {
        mut allow,
        rules: globs,
        at,
        ..
    } in written
    {
        for (glob, at) in globs {
            let covered = covered(&glob, rules);
            if covered.is_empty() {
                faults.push((at, unknown_rule_fault(&glob, rules)));
            }
            allow.rules.extend(covered);
        }
        allow.rules.sort_unstable();
        allow.rules.dedup();
        if let Some(fault) = lookaround_fault(&allow, rules, context) {
            faults.push((at.clone(), fault));
            continue;
        }
        match ended_fault(&allow, today) {
            Some(fault) => faults.push((at, fault)),
            None => {
                let unused =
                    Some(&allow).filter(|_| options.lints.is_some() && !allow.rules.is_empty());
                let unused = unused.and_then(|allow| unused_fault(allow, &allows, rules));
                faults.extend(unused.map(|fault| (at, fault)));
                allows.push(allow);
            }
        }
    }
    (allows, faults)
}

/// Returns the fault of an entry that has ended, or that may have.
pub(in crate::pack) fn ended_fault(allow: &ResolvedAllow, today: Option<Date>) -> Option<Fault> {
    allow.until.and_then(|until| match today {
        None => Some(undated_fault(until)),
        Some(today) => (until < today).then(|| expired_fault(until)),
    })
}

/// Returns the fault of an entry with `text` for a rule with look-around: such patterns have no full matches.
fn lookaround_fault(
    allow: &ResolvedAllow,
    rules: &[Rule],
    context: &LoadContext<'_>,
) -> Option<Fault> {
    let covered = allow.rules.iter().map(|rule| &rules[rule.index()]);
    let looks = |rule: &&Rule| {
        let mut patterns = rule.condition.patterns();
        patterns.any(|written| context.has_lookaround(written))
    };
    let rule = covered.filter(|_| !allow.text.is_empty()).find(looks)?;
    let message = format!(
        "{} has a pattern that looks around: `text` cannot be allowed there",
        quote(&rule.id)
    );
    let help = "allow by `paths` or `tools`, or leave that rule out";
    Some(Fault::new(&code::LOOK_AROUND, message).with_help(help))
}

fn covered(glob: &str, rules: &[Rule]) -> Vec<RuleId> {
    let Some(glob) = id_glob(glob) else {
        return Vec::new();
    };
    let ids = (0..).map(RuleId).zip(rules);
    let covered = ids.filter(|(_, rule)| glob.is_match(&rule.id));
    covered.map(|(id, _)| id).collect()
}

/// Returns a glob on full ids, in which `*` stops at a slash.
pub(in crate::pack) fn id_glob(glob: &str) -> Option<Glob> {
    let options = GlobOptions {
        literal_separator: true,
        ..GlobOptions::default()
    };
    Glob::new(glob, options).ok()
}

fn unknown_rule_fault(glob: &str, rules: &[Rule]) -> Fault {
    let known: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let fault = Fault::new(
        &code::UNKNOWN_RULE,
        format!("no rule is called {}", quote(glob)),
    );
    let usual = "write rules as `pack/rule`; `*` matches part of a name, `**` matches slashes too";
    let meant =
        || did_you_mean::nearest(glob, &known).map(|id| format!("did you mean {}?", quote(id)));
    let help = not_extended(glob, &known).or_else(meant);
    fault.with_help(help.unwrap_or_else(|| usual.to_owned()))
}

/// Returns the warning about an entry that excuses no hit. `earlier` are the entries before it.
fn unused_fault(allow: &ResolvedAllow, earlier: &[ResolvedAllow], rules: &[Rule]) -> Option<Fault> {
    let covered = || allow.rules.iter().map(|rule| &rules[rule.index()]);
    let scopes = [
        ("tools", &allow.tools, TOOL_CHANNELS),
        ("paths", &allow.paths, CALL_CHANNELS),
    ];
    let (why, help) = if earlier.iter().any(|before| before.covers(allow)) {
        (
            "an earlier `allow` covers it".to_owned(),
            "remove one of the two",
        )
    } else if let Some((key, ..)) = scopes.into_iter().find(|(_, globs, channels)| {
        let reads = |rule: &Rule| channels.iter().any(|channel| rule.on.contains(channel));
        !globs.is_empty() && !covered().any(reads)
    }) {
        (
            format!("it names `{key}`, and none of its rules reads tool calls"),
            "allow by `text`, or leave those rules out",
        )
    } else if let Some(text) = never_matched(allow, covered) {
        (
            format!("no pattern of its rules matches {}", quote(text)),
            "`text` is compared with the whole matched text; use `*` for other text around it",
        )
    } else {
        return None;
    };
    let message = format!("this `allow` has no effect: {why}");
    Some(Fault::new(&code::UNUSED_ALLOW, message).with_help(help))
}

/// Returns the first text of the entry if a match can equal none of its texts.
fn never_matched<'a, 'r, R: Iterator<Item = &'r Rule>>(
    allow: &'a ResolvedAllow,
    covered: impl Fn() -> R,
) -> Option<&'a str> {
    // A text with a wildcard may match anything.
    let has_wildcard = |text: &String| text.contains(['*', '?']);
    if allow.text.iter().any(has_wildcard) {
        return None;
    }
    let may_match = |text: &str| covered().any(|rule| may_be_match(&rule.condition, text));
    let first = allow.text.first()?;
    (!allow.text.iter().any(|text| may_match(text))).then_some(first)
}

/// Returns true if a match of the rule may be exactly `text`. Conditions that are not plain patterns may match anything.
fn may_be_match(condition: &Condition, text: &str) -> bool {
    let is_plain = |pattern: &Pattern| pattern.fold.is_empty();
    if condition.any.is_empty() || !condition.any.iter().all(is_plain) {
        return true;
    }
    condition.any.iter().any(|pattern| {
        // Allowed texts are compared without case. `\B` depends on the text around the match.
        let regex = pattern.to_regex();
        let whole = Regex::new(&format!(r"(?i)\A(?:{regex})\z"));
        regex.contains(r"\B") || whole.map_or(true, |whole| whole.is_match(text))
    })
}

impl ResolvedAllow {
    /// Returns true if this entry excuses everything that `other` excuses.
    fn covers(&self, other: &ResolvedAllow) -> bool {
        let has_all = |wide: &[String], narrow: &[String]| wide.is_empty() || wide == narrow;
        let lasts = self
            .until
            .is_none_or(|until| other.until.is_some_and(|other| other <= until));
        lasts
            && other.rules.iter().all(|rule| self.rules.contains(rule))
            && has_all(&self.tools, &other.tools)
            && has_all(&self.paths, &other.paths)
            && has_all(&self.text, &other.text)
    }
}

fn undated_fault(until: Date) -> Fault {
    Fault::new(
        &code::UNDATED_ALLOW,
        format!(
            "this `allow` ends on {until}, and the current date is not known, so it is not applied"
        ),
    )
    .with_help("the host can pass the date with `PackBuilder::today`")
}

fn expired_fault(until: Date) -> Fault {
    Fault::new(
        &code::EXPIRED_ALLOW,
        format!("this `allow` ended on {until}, so it is not applied"),
    )
    .with_help("remove it, or give it a later `until`")
}
