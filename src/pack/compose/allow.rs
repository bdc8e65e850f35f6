//! `[[allow]]`: places where rules do not apply, with a reason and an end.

use globset::{GlobBuilder, GlobMatcher};

use super::super::check::draft::Place;
use super::super::check::fault::Fault;
use super::Date;
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
                faults.push((at, unknown(&glob)));
            }
            allow.rules.extend(covered);
        }
        allow.rules.sort_unstable();
        allow.rules.dedup();
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

fn unknown(glob: &str) -> Fault {
    Fault::new(
        &code::UNKNOWN_RULE,
        format!("no rule is called {}", quote(glob)),
    )
    .with_help("name rules as `pack/rule`; `*` stands for part of a name, `**` for slashes, too")
}

fn expired(until: Date) -> Fault {
    Fault::new(
        &code::EXPIRED_ALLOW,
        format!("this `allow` ended on {until}: it is not applied"),
    )
    .with_help("remove it, or give it a later `until`")
}
