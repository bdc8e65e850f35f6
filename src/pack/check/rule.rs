//! One `[rule.<id>]`.

use std::borrow::Cow;
use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::fault::Fault;
use super::header::{Header, rule_id};
use super::keys::Texts;
use super::{Id, Span, Walk};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::rule::{Action, Channel, Examples, Rule, Severity};

const RULE: [&str; 15] = [
    "description",
    "why",
    "severity",
    "on",
    "tools",
    "args",
    "paths",
    "match",
    "action",
    "instead",
    "message",
    "priority",
    "tags",
    "docs",
    "examples",
];
const EXAMPLES: [&str; 2] = ["match", "no-match"];

/// Reads the rule at `key`. What it returns is whole only if nothing was reported meanwhile.
pub(super) fn read(
    walk: &mut Walk<'_>,
    key: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    header: &Header<'_>,
) -> Option<Rule> {
    let full = format!("{}/{}", header.name, key.get_ref());
    let fault = rule_id(key.get_ref());
    let is_named = fault.is_none() && !header.name.is_empty();
    walk.rule = Some(if header.name.is_empty() {
        key.get_ref().to_string()
    } else {
        full.clone()
    });
    if let Some(fault) = fault {
        walk.fault(fault, key.span());
    }
    if is_named {
        walk.ids.push(Id {
            full: full.clone(),
            span: key.span(),
        });
    }
    let table = walk.as_table(value, &format!("rule {}", quote(key.get_ref())))?;
    walk.known(table, "", &RULE);
    walk.read_rule(full, table, key.span(), header)
}

impl Walk<'_> {
    fn read_rule(
        &mut self,
        full: String,
        table: &DeTable<'_>,
        place: Span,
        header: &Header<'_>,
    ) -> Option<Rule> {
        if !table.contains_key("description") {
            let help = "say in a sentence what the rule is about";
            self.missing("description", "", help, place.clone());
        }
        let mut rule = Rule::new(full, Vec::new());
        let description = self.filled_string(table, "description");
        rule.why = self.optional(table, "why");
        rule.instead = self.optional(table, "instead");
        rule.message = self.message(table);
        rule.priority = self.integer(table, "priority").unwrap_or(header.priority);
        self.string(table, "docs");
        self.strings(table, "tags");
        self.consequence(table, header, &mut rule);
        self.scopes(table, header, &mut rule);
        rule.condition.any = self.patterns(table, &place);
        rule.examples = self.examples(table, &place);
        rule.description = description?.value.to_owned();
        Some(rule)
    }

    fn optional(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        self.filled_string(table, key)
            .map(|text| text.value.to_owned())
    }

    pub(super) fn severity(&mut self, table: &DeTable<'_>) -> Option<Severity> {
        let names = Severity::ALL.map(Severity::name);
        self.one_of(table, "severity", &names, Severity::from_name)
    }

    pub(super) fn action(&mut self, table: &DeTable<'_>) -> Option<Action> {
        self.one_of(
            table,
            "action",
            &Action::ALL.map(Action::name),
            Action::from_name,
        )
    }

    /// Severity and action. A rule that gives its own severity does not take the action of `[defaults]`,
    /// which was chosen for another one.
    fn consequence(&mut self, table: &DeTable<'_>, header: &Header<'_>, rule: &mut Rule) {
        let own = self.severity(table);
        rule.severity = own.or(header.severity).unwrap_or(rule.severity);
        rule.action = self
            .action(table)
            .or(header.action.filter(|_| own.is_none()))
            .unwrap_or(rule.severity.default_action());
    }

    /// The channels at `on`, in the order of [`Channel::ALL`].
    pub(super) fn on(&mut self, table: &DeTable<'_>) -> Option<Vec<Channel>> {
        let texts = self.strings(table, "on")?;
        if texts.items.is_empty() {
            let fault = Fault::new(
                &code::EMPTY_VALUE,
                "`on` is empty: the rule would read nothing",
            )
            .with_help("leave the key out for text and tool input");
            self.fault(fault, texts.span);
            return None;
        }
        let names = Channel::ALL.map(Channel::name);
        let mut channels = Vec::new();
        let mut complete = true;
        for text in &texts.items {
            let Some(channel) = self.named(text, "on", &names, Channel::from_name) else {
                complete = false;
                continue;
            };
            if channels.contains(&channel) {
                let message = format!("`on` names {} twice", quote(text.value));
                self.fault(Fault::new(&code::BAD_VALUE, message), text.span.clone());
            }
            channels.push(channel);
        }
        channels.sort_unstable();
        // With one of them unknown, nothing can be said about what the rule reads.
        complete.then_some(channels)
    }

    fn message(&mut self, table: &DeTable<'_>) -> Option<String> {
        let text = self.filled_string(table, "message")?;
        for fault in message::faults(text.value) {
            self.fault_in(fault, &text);
        }
        Some(text.value.to_owned())
    }

    fn examples(&mut self, table: &DeTable<'_>, place: &Span) -> Examples {
        let mut examples = Examples::default();
        if let Some(written) = self.table(table, "examples") {
            self.known(written, "`examples`", &EXAMPLES);
            let matching = self.strings(written, "match");
            let not_matching = self.strings(written, "no-match");
            self.repeated(matching.as_ref(), not_matching.as_ref());
            examples.matching = owned(matching);
            examples.not_matching = owned(not_matching);
        }
        let written = table.get("examples").map(Spanned::get_ref);
        let is_readable = written.is_none_or(|written| matches!(written, DeValue::Table(_)));
        if examples.matching.is_empty() && is_readable {
            let message = format!("{} has no example that breaks it", self.at(""));
            let fault = Fault::new(&code::NO_EXAMPLE, message)
                .with_help("add `examples.match = [\"…\"]`; `ttsr test` runs it under every split");
            self.fault(fault, place.clone());
        }
        examples
    }

    fn repeated(&mut self, matching: Option<&Texts<'_>>, not_matching: Option<&Texts<'_>>) {
        let mut breaking = HashSet::new();
        for text in matching.iter().flat_map(|texts| &texts.items) {
            if !breaking.insert(text.value) {
                let fault = Fault::new(&code::DUPLICATE_EXAMPLE, "the same example twice");
                self.fault(fault, text.span.clone());
            }
        }
        let mut harmless = HashSet::new();
        for text in not_matching.iter().flat_map(|texts| &texts.items) {
            let fault = if breaking.contains(text.value) {
                let message = "this example must and must not break the rule";
                Fault::new(&code::CONTRADICTING_EXAMPLES, message)
            } else if !harmless.insert(text.value) {
                Fault::new(&code::DUPLICATE_EXAMPLE, "the same example twice")
            } else {
                continue;
            };
            self.fault(fault, text.span.clone());
        }
    }
}

fn owned(texts: Option<Texts<'_>>) -> Vec<String> {
    let items = texts.map(|texts| texts.items).unwrap_or_default();
    items.iter().map(|text| text.value.to_owned()).collect()
}
