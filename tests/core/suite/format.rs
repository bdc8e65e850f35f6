//! The format of `tests/data/*.toml`: cases, and the packs they use.

use std::collections::BTreeMap;

use serde::Deserialize;
use ttsr::{Channel, Limits, Pack, PartId};

use super::deliveries::Step;

/// The rules of a pack by name, in the rule language. A rule without a description gets one.
type Rules = BTreeMap<String, toml::Table>;

/// A file of cases and the packs they use.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) packs: BTreeMap<String, Rules>,
    #[serde(default)]
    pub(super) case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// The defect that the case would reveal.
    pub(super) name: String,
    /// The name of a pack in the file.
    pack: Option<String>,
    /// Instead of a named pack: tables `[rule.<id>]`.
    rules: Option<String>,
    root: Option<String>,
    #[serde(default)]
    limits: BTreeMap<String, usize>,
    deltas: Vec<Delta>,
    pub(super) hits: Vec<HitText>,
    #[serde(default)]
    pub(super) counters: BTreeMap<String, u64>,
}

/// An entry of the input. Its fields take effect in the order of their declaration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta {
    #[serde(default)]
    part: u32,
    open: Option<Channel>,
    tool: Option<String>,
    text: Option<String>,
    hex: Option<String>,
    #[serde(default)]
    close: bool,
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

impl Case {
    /// Loads the rules of the case as the pack `t`.
    pub(super) fn load(&self, packs: &BTreeMap<String, Rules>) -> Pack {
        let rules = match (&self.rules, &self.pack) {
            (Some(rules), None) => rules.clone(),
            (None, Some(pack)) => rules_text(packs[pack].clone()),
            _ => panic!("{}: either `rules` or `pack`", self.name),
        };
        let file = format!("schema = 1\npack.name = 't'\n{rules}");
        let mut builder = Pack::builder().limits(self.limits());
        if let Some(root) = &self.root {
            builder = builder.root(root);
        }
        let built = builder.toml("t.toml", &file).build();
        built.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    fn limits(&self) -> Limits {
        let mut limits = Limits::default();
        for (name, &value) in &self.limits {
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

    /// Returns the calls that the case makes.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        for delta in &self.deltas {
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
}

fn rules_text(mut rules: Rules) -> String {
    for rule in rules.values_mut() {
        let description = rule.entry("description");
        description.or_insert_with(|| "A rule of a case".into());
    }
    let file = BTreeMap::from([("rule", rules)]);
    toml::to_string(&file).expect("tables are written as TOML")
}

fn from_hex(hex: &str) -> Vec<u8> {
    let digits: Vec<u32> = hex.chars().map(|char| char.to_digit(16).unwrap()).collect();
    let byte = |pair: &[u32]| (pair[0] * 16 + pair[1]) as u8;
    digits.chunks(2).map(byte).collect()
}
