//! The format of `tests/data/*.toml`: cases, and the packs they use.

use std::collections::BTreeMap;

use serde::Deserialize;
use ttsr::rule::{Bound, PatternKind, UnknownName};
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule, Severity};

use super::deliveries::Step;

/// A file of cases and the packs they use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) packs: BTreeMap<String, BTreeMap<String, RuleText>>,
    #[serde(default)]
    pub(super) case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleText {
    pub(super) on: Option<Vec<Channel>>,
    #[serde(default)]
    pub(super) tools: Vec<String>,
    #[serde(default)]
    pub(super) args: Vec<String>,
    #[serde(default)]
    pub(super) paths: Vec<String>,
    pub(super) severity: Option<Severity>,
    #[serde(default)]
    pub(super) any: Vec<PatternText>,
    pub(super) unknown_name: Option<UnknownName>,
    pub(super) limit: Option<Bound>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum PatternText {
    Literal(String),
    Word(String),
    Regex(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The defect that the case would reveal.
    pub(super) name: String,
    /// The name of a pack in the file.
    #[serde(default)]
    pub(super) pack: String,
    /// Instead of a named pack: tables `[rule.<id>]` in the rule language, for keys that [`RuleText`] does not have.
    pub(super) rules: Option<String>,
    pub(super) root: Option<String>,
    #[serde(default)]
    pub(super) limits: BTreeMap<String, usize>,
    pub(super) deltas: Vec<Delta>,
    pub(super) hits: Vec<HitText>,
    #[serde(default)]
    pub(super) counters: BTreeMap<String, u64>,
}

/// An entry of the input. Its fields take effect in the order of their declaration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Delta {
    #[serde(default)]
    pub(super) part: u32,
    pub(super) open: Option<Channel>,
    pub(super) tool: Option<String>,
    pub(super) text: Option<String>,
    pub(super) hex: Option<String>,
    #[serde(default)]
    pub(super) close: bool,
}

#[derive(Deserialize, PartialEq, Eq, Debug, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct HitText {
    pub(super) rule: String,
    #[serde(default)]
    pub(super) part: u32,
    pub(super) arg: Option<String>,
    pub(super) end: u64,
    pub(super) decided: u64,
}

pub(super) fn pack(case: &Case, rules: &BTreeMap<String, RuleText>) -> Pack {
    let mut builder = Pack::builder().limits(limits(&case.limits));
    if let Some(root) = &case.root {
        builder = builder.root(root);
    }
    for (id, text) in rules {
        builder = builder.rule(rule(id, text));
    }
    builder
        .build()
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

/// Loads the rules of a case as the pack `t`.
pub(super) fn pack_of_text(case: &Case, rules: &str) -> Pack {
    let file = format!("schema = 1\npack.name = 't'\n{rules}");
    let builder = Pack::builder().limits(limits(&case.limits));
    builder
        .toml("t.toml", &file)
        .build()
        .unwrap_or_else(|error| panic!("{}: {error}", case.name))
}

pub(super) fn limits(written: &BTreeMap<String, usize>) -> Limits {
    let mut limits = Limits::default();
    for (name, &value) in written {
        match name.as_str() {
            "parts" => limits.parts = value,
            "json-depth" => limits.json_depth = value,
            "path-bytes" => limits.path_bytes = value,
            "table-bytes" => limits.table_bytes = value,
            _ => panic!("no limit {name}"),
        }
    }
    limits
}

pub(super) fn rule(id: &str, text: &RuleText) -> Rule {
    let pattern = |pattern: &PatternText| {
        let (kind, text) = match pattern {
            PatternText::Literal(text) => (PatternKind::Literal, text),
            PatternText::Word(text) => (PatternKind::Word, text),
            PatternText::Regex(text) => (PatternKind::Regex, text),
        };
        Pattern::new(kind, text.clone())
    };
    let mut rule = Rule::new(format!("t/{id}"), text.any.iter().map(pattern).collect());
    rule.on = text.on.clone().unwrap_or(rule.on);
    rule.severity = text.severity.unwrap_or(rule.severity);
    rule.tools = text.tools.clone();
    rule.args = text.args.clone();
    rule.paths = text.paths.clone();
    rule.condition.unknown_name = text.unknown_name.clone();
    rule.condition.limit = text.limit;
    rule
}

pub(super) fn steps(deltas: &[Delta]) -> Vec<Step> {
    let mut steps = Vec::new();
    for delta in deltas {
        let part = PartId(delta.part);
        steps.extend(delta.open.map(|channel| Step::Open(part, channel)));
        steps.extend(delta.tool.clone().map(|name| Step::Tool(part, name)));
        let text = delta.text.as_ref().map(|text| text.as_bytes().to_vec());
        let bytes = text.or_else(|| delta.hex.as_deref().map(from_hex));
        steps.extend(bytes.map(|bytes| Step::Push(part, bytes)));
        steps.extend(delta.close.then_some(Step::Close(part)));
    }
    steps
}

pub(super) fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|char| char.to_digit(16).unwrap()).collect();
    digits
        .chunks(2)
        .map(|pair| (pair[0] * 16 + pair[1]) as u8)
        .collect()
}
