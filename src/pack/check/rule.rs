//! Tables of the keys of rules: `[rule.<id>]`, `[defaults]`, `[override."pack/rule"]`.

use std::borrow::Cow;
use std::collections::HashSet;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::draft::{Draft, Layer, Place};
use super::fault::Fault;
use super::header::{Header, rule_id};
use super::keys::Texts;
use super::pattern::FORM;
use super::{Id, Span, Walk, by_hand};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::pack::schema::{self, Keys};
use crate::rule::{Action, Channel, Examples, Rule, Severity};

/// What a table of keys is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Defaults,
    Rule,
    Override,
    Append,
}

impl Kind {
    fn keys(self) -> Keys {
        match self {
            Kind::Defaults => schema::DEFAULTS,
            Kind::Rule => schema::RULE,
            Kind::Override => schema::OVERRIDE,
            Kind::Append => schema::APPEND,
        }
    }

    fn place(self) -> &'static str {
        match self {
            Kind::Defaults => "`[defaults]`",
            Kind::Rule => "",
            Kind::Override => "the override",
            Kind::Append => "`append`",
        }
    }
}

/// Reads the rule at `key`, laid over the defaults of its file.
pub(super) fn read(
    walk: &mut Walk<'_>,
    key: &Spanned<Cow<'_, str>>,
    value: &Spanned<DeValue<'_>>,
    header: &Header<'_>,
) -> Option<Draft> {
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
    let own = walk.draft(Kind::Rule, table, header, key.span());
    walk.required(table, &key.span());
    walk.wants_example(table, &own.rule, &key.span());
    let mut draft = Draft::new(full, own.place.clone());
    if let Some(defaults) = &header.defaults {
        draft.lay(defaults.clone(), Layer::Defaults);
    }
    draft.lay(own, Layer::Rule);
    is_named.then_some(draft)
}

impl Walk<'_> {
    /// Reads what a table says of a rule.
    pub(super) fn draft(
        &mut self,
        kind: Kind,
        table: &DeTable<'_>,
        header: &Header<'_>,
        span: Span,
    ) -> Draft {
        let file = self.file;
        let mut draft = Draft::new(String::new(), Place { file, span });
        self.given(table, kind.place(), kind.keys(), &mut draft.given);
        let rule = &mut draft.rule;
        self.words(table, header, rule);
        if let Some(severity) = self.severity(table) {
            rule.severity = severity;
        }
        if let Some(action) = self.action(table) {
            rule.action = action;
        }
        self.scopes(table, header, rule);
        self.options(table, header, rule);
        rule.examples = self.examples(table, header);
        rule.cases = self.cases(table);
        self.condition(table, header, &mut draft);
        draft.entries = std::mem::take(&mut self.written);
        draft
    }

    /// What must be written in every rule.
    fn required(&mut self, table: &DeTable<'_>, place: &Span) {
        if !table.contains_key("description") {
            let help = "say in a sentence what the rule is about";
            self.missing("description", "", help, place.clone());
        }
        if !table.contains_key("match") {
            self.missing("match", "", FORM, place.clone());
        } else if matches!(table["match"].get_ref(), DeValue::Table(table) if table.is_empty()) {
            let fault = Fault::new(&code::NO_TRIGGER, "`match` is empty").with_help(FORM);
            self.fault(fault, place.clone());
        }
    }

    /// The texts of a rule.
    fn words(&mut self, table: &DeTable<'_>, header: &Header<'_>, rule: &mut Rule) {
        rule.description = self.optional(table, "description").unwrap_or_default();
        rule.why = self.optional(table, "why");
        rule.docs = self.optional(table, "docs");
        rule.instead = self.optional(table, "instead");
        rule.message = self.template(table, "message");
        if let Some(tags) = self.listed(table, "tags", header) {
            rule.tags = tags.into_iter().map(|(tag, _)| tag).collect();
        }
        if let Some(text) = self.string(table, "replaced-by") {
            let fault = by_hand::id_fault(text.value);
            if let Some(fault) = fault {
                self.fault_in(fault, &text);
            }
            rule.replaced_by = Some(text.value.to_owned());
        }
    }

    /// Reports the entries of `texts` in which there is nothing.
    pub(super) fn blanks(&mut self, texts: &Texts<'_>, key: &str) {
        for text in texts
            .items
            .iter()
            .filter(|text| text.value.trim().is_empty())
        {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("an entry of `{key}` is empty"));
            self.fault(fault, text.span.clone());
        }
    }

    pub(super) fn optional(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
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
        let names = Channel::ALL.map(|channel| channel.name().to_owned());
        let mut channels = self.list_of(texts, "on", &names, Channel::from_name)?;
        channels.sort_unstable();
        Some(channels)
    }

    /// The template at `key`, checked.
    pub(super) fn template(&mut self, table: &DeTable<'_>, key: &str) -> Option<String> {
        let text = self.filled_string(table, key)?;
        for fault in message::faults(text.value) {
            self.fault_in(fault, &text);
        }
        Some(text.value.to_owned())
    }

    fn examples(&mut self, table: &DeTable<'_>, header: &Header<'_>) -> Examples {
        let Some(written) = self.table(table, "examples") else {
            return Examples::default();
        };
        let matching = self.strings(written, "match");
        let not_matching = self.strings(written, "no-match");
        let all = [(&matching, "match"), (&not_matching, "no-match")];
        for (texts, key) in all {
            self.no_lists(texts.iter().flat_map(|texts| &texts.items), key, header);
        }
        self.repeated(matching.as_ref(), not_matching.as_ref());
        Examples {
            matching: owned(matching),
            not_matching: owned(not_matching),
        }
    }

    fn wants_example(&mut self, table: &DeTable<'_>, rule: &Rule, place: &Span) {
        let written = table.get("examples").map(Spanned::get_ref);
        let is_readable = written.is_none_or(|written| matches!(written, DeValue::Table(_)));
        let has_case = table.contains_key("case");
        let is_missing = rule.examples.matching.is_empty() && is_readable && !has_case;
        if is_missing && rule.condition.fits_an_example() {
            let message = format!("{} has no example that breaks it", self.at(""));
            let fault = Fault::new(&code::NO_EXAMPLE, message)
                .with_help("add `examples.match = [\"…\"]`; `ttsr test` runs it under every split");
            self.fault(fault, place.clone());
        }
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
