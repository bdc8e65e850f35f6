//! Tables of rule keys: `[rule.<id>]`, `[defaults]`, `[override."pack/rule"]`.

use std::borrow::Cow;
use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{Draft, Layer, Place};
use super::fault::Fault;
use super::file::{RuleFile, SpannedId};
use super::names;
use super::pattern::FORM;
use super::problems::Span;
use super::reader::RuleReader;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::schema::{self, RULE, TableKind};
use crate::rule::{Examples, Rule};

/// Reads a table of rule keys. `span` is the place at which problems of the whole table are reported.
pub(super) fn read_draft(
    kind: TableKind,
    table: &DeTable<'_>,
    span: Span,
    reader: &mut RuleReader<'_>,
) -> Draft {
    let file = reader.file;
    let place = match kind {
        TableKind::Defaults => "`[defaults]`",
        TableKind::Rule => "",
        TableKind::Override => "the override",
        TableKind::Append => "`append`",
    };
    let at = Place {
        file,
        span: span.clone(),
    };
    let mut draft = Draft::new(String::new(), at);
    schema::read_table(RULE, kind, table, (place, span), reader, &mut draft);
    draft.set_origins(reader.take_origins());
    draft
}

/// Reads the rule `key` of the pack, over the defaults of its file. The result is `None` if the rule has no full id.
pub(super) fn read_rule(
    key: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    defaults: Option<&Draft>,
    reader: &mut RuleReader<'_>,
    file: &mut RuleFile,
) -> Option<Draft> {
    let pack = &file.header.pack;
    let full = format!("{pack}/{}", key.get_ref());
    let fault = names::rule_id_fault(key.get_ref());
    let has_id = fault.is_none() && !pack.is_empty();
    reader.rule = Some(match pack.is_empty() {
        true => key.get_ref().to_string(),
        false => full.clone(),
    });
    if let Some(fault) = fault {
        reader.fault(fault, key.span());
    }
    if has_id {
        let (full, span) = (full.clone(), key.span());
        file.ids.push(SpannedId { full, span });
    }
    let name = format!("rule {}", quote(key.get_ref()));
    let table = reader.table(value, &name, "")?;
    let own = read_draft(TableKind::Rule, table, key.span(), reader);
    let has_empty_match = table
        .get("match")
        .and_then(|value| value.get_ref().as_table())
        .is_some_and(DeTable::is_empty);
    if has_empty_match {
        let fault = Fault::new(&code::NO_TRIGGER, "`match` is empty").with_help(FORM);
        reader.fault(fault, key.span());
    }
    require_example(table, &own.rule, key.span(), reader);
    let mut draft = Draft::new(full, own.place.clone());
    if let Some(defaults) = defaults {
        draft.overlay(defaults.clone(), Layer::Defaults);
    }
    draft.overlay(own, Layer::Rule);
    has_id.then_some(draft)
}

/// Reports a rule without an example or a case that breaks it, unless no short text could break it.
fn require_example(table: &DeTable<'_>, rule: &Rule, span: Span, reader: &mut RuleReader<'_>) {
    let written = table.get("examples").map(Spanned::get_ref);
    let is_readable = written.is_none_or(|written| matches!(written, DeValue::Table(_)));
    let has_case = table.contains_key("case");
    let is_missing = rule.examples.matching.is_empty() && is_readable && !has_case;
    if is_missing && rule.condition.is_testable_by_example() {
        let message = format!("{} has no example that breaks it", reader.describe(""));
        let fault = Fault::new(&code::NO_EXAMPLE, message)
            .with_help("add `examples.match = [\"…\"]`; `ttsr test` runs it under every split");
        reader.fault(fault, span);
    }
}

/// Reports examples that occur twice, or in both lists of `examples`.
pub(in crate::pack) fn check_examples(
    _: &Examples,
    table: &DeTable<'_>,
    reader: &mut RuleReader<'_>,
) {
    let texts = |key| {
        let list = table.get(key).and_then(|value| value.get_ref().as_array());
        let list = list.into_iter().flatten();
        list.filter_map(|value| Some((value.get_ref().as_str()?, value.span())))
    };
    let mut breaking = HashSet::new();
    for (text, span) in texts("match") {
        if !breaking.insert(text) {
            let fault = Fault::new(&code::DUPLICATE_EXAMPLE, "the same example twice");
            reader.fault(fault, span);
        }
    }
    let mut harmless = HashSet::new();
    for (text, span) in texts("no-match") {
        let fault = if breaking.contains(text) {
            let message = "this text is in both `examples.match` and `examples.no-match`";
            Fault::new(&code::CONTRADICTING_EXAMPLES, message)
        } else if !harmless.insert(text) {
            Fault::new(&code::DUPLICATE_EXAMPLE, "the same example twice")
        } else {
            continue;
        };
        reader.fault(fault, span);
    }
}
