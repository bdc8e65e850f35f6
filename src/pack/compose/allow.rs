//! `[[allow]]`: places where rules do not apply, with a reason and an end.

use globset::{GlobBuilder, GlobMatcher};

use super::super::check::draft::Place;
use super::super::check::fault::Fault;
use super::Date;
use super::over::not_extended;
use crate::limits::Limits;
use crate::matcher::pattern;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::rule::Rule;
use crate::verdict::RuleId;

/// Hits that do not count: of these rules, where the tool, the file and the text of the match are among
/// those named. A list that is empty excludes nothing; not all three are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Allow {
    /// The rules, in their order.
    pub(crate) rules: Vec<RuleId>,
    /// Globs on the tool's name.
    pub(crate) tools: Vec<String>,
    /// Globs on the file; those that begin with `!` exclude.
    pub(crate) paths: Vec<String>,
    /// Texts of the match; `*` and `?` are wildcards, case does not matter.
    pub(crate) text: Vec<String>,
    /// Why, for logs.
    pub(crate) reason: String,
    /// The last day on which it holds.
    pub(crate) until: Option<Date>,
}

/// An `[[allow]]` as it is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Written {
    /// What it allows; its rules are not known yet.
    pub(in crate::pack) allow: Allow,
    /// Globs on full ids, and where they stand.
    pub(in crate::pack) rules: Vec<(String, Place)>,
    pub(in crate::pack) at: Place,
}

/// Finds the rules that each entry is about. One that ended before `today` is left out and told.
pub(in crate::pack) fn resolve(
    written: Vec<Written>,
    rules: &[Rule],
    today: Option<Date>,
    limits: &Limits,
) -> (Vec<Allow>, Vec<(Place, Fault)>) {
    let mut allows = Vec::new();
    let mut faults = Vec::new();
    for Written {
        mut allow,
        rules: globs,
        at,
    } in written
    {
        for (glob, at) in globs {
            let covered = covered(&glob, rules);
            if covered.is_empty() {
                faults.push((at, unknown(&glob, rules)));
            }
            allow.rules.extend(covered);
        }
        allow.rules.sort_unstable();
        allow.rules.dedup();
        if let Some(fault) = around(&allow, rules, limits) {
            faults.push((at.clone(), fault));
            continue;
        }
        match allow
            .until
            .zip(today)
            .filter(|(until, today)| until < today)
        {
            Some((until, _)) => faults.push((at, expired(until))),
            None => allows.push(allow),
        }
    }
    (allows, faults)
}

/// Where only some texts are allowed whole matches are wanted, and patterns that look around have none.
fn around(allow: &Allow, rules: &[Rule], limits: &Limits) -> Option<Fault> {
    let covered = allow.rules.iter().map(|rule| &rules[rule.index()]);
    let looks = |rule: &&Rule| {
        let mut patterns = rule.condition.patterns();
        patterns.any(|written| pattern::looks_around(&written.to_regex(), limits))
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

/// A glob on full ids: `*` stops at a slash.
pub(in crate::pack) fn id_glob(glob: &str) -> Option<GlobMatcher> {
    let glob = GlobBuilder::new(glob)
        .literal_separator(true)
        .build()
        .ok()?;
    Some(glob.compile_matcher())
}

fn unknown(glob: &str, rules: &[Rule]) -> Fault {
    let known: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    let fault = Fault::new(
        &code::UNKNOWN_RULE,
        format!("no rule is called {}", quote(glob)),
    );
    let usual = "name rules as `pack/rule`; `*` stands for part of a name, `**` for slashes, too";
    fault.with_help(not_extended(glob, &known).unwrap_or_else(|| usual.to_owned()))
}

fn expired(until: Date) -> Fault {
    Fault::new(
        &code::EXPIRED_ALLOW,
        format!("this `allow` ended on {until}: it is not applied"),
    )
    .with_help("remove it, or give it a later `until`")
}
