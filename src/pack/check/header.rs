//! Everything of a rule file but its rules: schema, `[pack]`, `[defaults]`, `[lists]`.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::draft::{Draft, Place};
use super::fault::Fault;
use super::keys::{Text, Texts};
use super::rule::{self, Kind};
use super::scope::LISTED_STEPS;
use super::{Span, Walk};
use crate::pack::compose::{self, Allow, Date, Override, Written};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::schema;
use crate::rule::Action;

/// The schema this version reads.
const SCHEMA: &str = "1";

/// Longest pack name and longest rule id, in bytes.
const NAME_BYTES: usize = 128;

/// What a rule that does not say takes, and what `@name` stands for.
#[derive(Debug, Default)]
pub(super) struct Header<'v> {
    /// The pack's name; empty where it could not be read.
    pub(super) name: &'v str,
    pub(super) defaults: Option<Draft>,
    pub(super) lists: BTreeMap<&'v str, Texts<'v>>,
    /// Lists of packs that this one extends.
    pub(super) imported: BTreeMap<String, Arc<[String]>>,
}

impl Walk<'_> {
    /// Checks a whole file.
    pub(super) fn root(&mut self, root: &DeTable<'_>) {
        if !self.schema(root) {
            return;
        }
        self.known(root, "a rule file", schema::TOP);
        let mut header = Header {
            name: self.pack(root),
            ..Header::default()
        };
        header.lists = self.lists(root);
        header.imported = std::mem::take(&mut self.imported);
        self.facts.pack = header.name.to_owned();
        for (name, texts) in &header.lists {
            let entries = texts.items.iter().map(|item| item.value.to_owned());
            self.facts
                .lists
                .insert((*name).to_owned(), entries.collect());
        }
        self.facts.tools = self.own_tools(root, &header);
        self.defaults(root, &mut header);
        self.rules(root, &header);
        self.overrides(root, &header);
        self.allows(root, &header);
    }

    /// Whether the rest can be read: another schema would make every other message wrong.
    fn schema(&mut self, root: &DeTable<'_>) -> bool {
        let Some(value) = root.get("schema") else {
            self.missing(
                "schema",
                "a rule file",
                "begin the file with `schema = 1`",
                0..0,
            );
            return true;
        };
        let written = match value.get_ref() {
            DeValue::Integer(number) => number.to_string(),
            _ => self.text[value.span()].to_owned(),
        };
        if written != SCHEMA {
            let message = format!("schema {} is not supported", quote(&written));
            let fault = Fault::new(&code::UNSUPPORTED_SCHEMA, message)
                .with_help("this version of ttsr reads `schema = 1`");
            self.fault(fault, value.span());
        }
        written == SCHEMA
    }

    fn pack<'v>(&mut self, root: &'v DeTable<'_>) -> &'v str {
        let Some(value) = root.get("pack") else {
            let help = "add a table `[pack]` with `name = \"…\"`";
            self.missing("pack", "a rule file", help, 0..0);
            return "";
        };
        let Some(pack) = self.as_table(value, "`pack`") else {
            return "";
        };
        self.string(pack, "authors");
        let mut string = |key| self.string(pack, key).map(|text| text.value.to_owned());
        let [description, license, docs] = ["description", "license", "docs"].map(&mut string);
        self.facts.description = description;
        self.facts.license = license;
        self.facts.docs = docs;
        for (key, fault) in [
            ("version", version as fn(&str) -> Option<Fault>),
            ("engine", engine),
        ] {
            if let Some(text) = self.string(pack, key)
                && let Some(fault) = fault(text.value)
            {
                self.fault_in(fault, &text);
            }
        }
        self.facts.version = self
            .string(pack, "version")
            .map(|text| text.value.to_owned());
        self.extends(pack);
        self.grants(pack);
        if !pack.contains_key("name") {
            let help = "add `name = \"…\"`: rules are known as `name/rule`";
            self.missing("name", "`[pack]`", help, value.span());
        }
        self.pack_name(pack).unwrap_or_default()
    }

    /// The tools that the pack names as its own.
    fn own_tools(&mut self, root: &DeTable<'_>, header: &Header<'_>) -> Vec<String> {
        let pack = root.get("pack").and_then(|pack| pack.get_ref().as_table());
        let Some(pack) = pack else {
            return Vec::new();
        };
        self.scope(pack, "tools", header).unwrap_or_default()
    }

    fn pack_name<'v>(&mut self, pack: &'v DeTable<'_>) -> Option<&'v str> {
        let text = self.string(pack, "name")?;
        match pack_name(text.value) {
            Some(fault) => {
                self.fault_in(fault, &text);
                None
            }
            None => Some(text.value),
        }
    }

    fn extends(&mut self, pack: &DeTable<'_>) {
        let Some(texts) = self.filled_strings(pack, "extends") else {
            return;
        };
        for text in &texts.items {
            if let Some(fault) = pack_name(text.value) {
                self.fault_in(fault, text);
            } else if self.facts.extends.iter().any(|name| name == text.value) {
                let message = format!("`extends` names {} twice", quote(text.value));
                self.fault(Fault::new(&code::BAD_VALUE, message), text.span.clone());
            } else {
                self.facts.extends.push(text.value.to_owned());
            }
        }
    }

    /// The ceiling that the pack sets itself; an empty list is one, too.
    fn grants(&mut self, pack: &DeTable<'_>) {
        let Some(texts) = self.strings(pack, "grants") else {
            return;
        };
        let needed = Action::ALL
            .into_iter()
            .filter(|action| action.needs_grant());
        let names: Vec<String> = needed.map(|action| action.name().to_owned()).collect();
        let from_name = |name: &str| Action::from_name(name).filter(|action| action.needs_grant());
        self.facts.grants = self.list_of(texts, "grants", &names, from_name);
    }

    fn overrides(&mut self, root: &DeTable<'_>, header: &Header<'_>) {
        let Some(overrides) = self.table(root, "override") else {
            return;
        };
        for (key, value) in overrides.iter() {
            let target = key.get_ref().to_string();
            if let Some(fault) = super::by_hand::id_fault(&target) {
                self.fault(fault, key.span());
                continue;
            }
            let name = format!("override {}", quote(&target));
            let Some(table) = self.as_table(value, &name) else {
                continue;
            };
            if table.is_empty() {
                let fault = Fault::new(&code::EMPTY_VALUE, format!("{name} changes nothing"));
                self.fault(fault.with_help("remove it"), key.span());
            }
            self.rule = Some(target.clone());
            let (errors, at) = (self.errors, self.place(key.span()));
            let mut replace = self.draft(Kind::Override, table, header, key.span());
            let append = self.table(table, "append");
            let append = append.map(|append| self.draft(Kind::Append, append, header, key.span()));
            replace.is_broken = self.errors > errors;
            self.rule = None;
            let pack = header.name.to_owned();
            self.overrides.push(Override {
                target,
                at,
                pack,
                replace,
                append,
            });
        }
    }

    fn place(&self, span: Span) -> Place {
        Place {
            file: self.file,
            span,
        }
    }

    fn allows(&mut self, root: &DeTable<'_>, header: &Header<'_>) {
        let entries = self.array(root, "allow").unwrap_or_default();
        for entry in entries {
            let Some(table) = self.as_table(entry, "an entry of `allow`") else {
                continue;
            };
            self.known(table, "`allow`", schema::ALLOW);
            let allow = self.allow(table, header, entry.span());
            self.allows.extend(allow);
        }
    }

    fn allow(&mut self, table: &DeTable<'_>, header: &Header<'_>, span: Span) -> Option<Written> {
        for (key, help) in [
            ("rules", "name rules as `pack/rule`, or with `*`"),
            ("reason", "say why these hits do not count"),
        ] {
            if !table.contains_key(key) {
                self.missing(key, "`allow`", help, span.clone());
            }
        }
        let rules = self.listed(table, "rules", header).unwrap_or_default();
        for (text, span) in &rules {
            if !text.trim().is_empty() && compose::id_glob(text).is_none() {
                let message = format!("glob {} cannot be read", quote(text));
                self.fault(Fault::new(&code::GLOB, message), span.clone());
            }
        }
        let text = self.listed(table, "text", header).unwrap_or_default();
        let allow = Allow {
            rules: Vec::new(),
            tools: self.scope(table, "tools", header).unwrap_or_default(),
            paths: self.scope(table, "paths", header).unwrap_or_default(),
            text: text.into_iter().map(|(text, _)| text).collect(),
            reason: self.optional(table, "reason").unwrap_or_default(),
            until: self.date(table, "until"),
        };
        if ["tools", "paths", "text"]
            .iter()
            .all(|key| !table.contains_key(*key))
        {
            let message =
                "this `allow` has no `paths`, `tools` or `text`: the rules would never act";
            let fault = Fault::new(&code::CONTRADICTION, message).with_help(
                "name a place; to put a rule to rest write `[override.\"pack/rule\"]` with `mode = \"shadow\"`",
            );
            self.fault(fault, span.clone());
        }
        let rules = rules.into_iter();
        let entries = std::mem::take(&mut self.written);
        let rules = rules.map(|(text, span)| (text, self.place(span)));
        Some(Written {
            entries,
            allow,
            rules: rules.collect(),
            at: self.place(span),
        })
    }

    /// The day at `key`, written as a date or as text.
    fn date(&mut self, table: &DeTable<'_>, key: &str) -> Option<Date> {
        let value = table.get(key)?;
        let written = match value.get_ref() {
            DeValue::String(text) => text.to_string(),
            DeValue::Datetime(date) => date.to_string(),
            _ => {
                self.wrong_type(&quote(key), "a date", value);
                return None;
            }
        };
        let date = Date::parse(&written);
        if date.is_none() {
            let message = format!("{} is not a day", quote(&written));
            let fault = Fault::new(&code::BAD_VALUE, message).with_help("such as `2027-01-31`");
            self.fault(fault, value.span());
        }
        date
    }

    fn lists<'v>(&mut self, root: &'v DeTable<'_>) -> BTreeMap<&'v str, Texts<'v>> {
        let mut lists = BTreeMap::new();
        let Some(table) = self.table(root, "lists") else {
            return lists;
        };
        for (key, value) in table.iter() {
            let name = key.get_ref().as_ref();
            let Some(texts) = self.texts(value, &quote(name)) else {
                // Kept without entries, so that rules that use it are not told that it does not exist.
                lists.insert(
                    name,
                    Texts {
                        items: Vec::new(),
                        span: value.span(),
                    },
                );
                continue;
            };
            if texts.items.is_empty() {
                let fault =
                    Fault::new(&code::EMPTY_VALUE, format!("list {} is empty", quote(name)));
                self.fault(fault, value.span());
            }
            for item in &texts.items {
                self.spend(LISTED_STEPS);
                self.list_entry(item);
            }
            lists.insert(name, texts);
        }
        lists
    }

    fn list_entry(&mut self, item: &Text<'_>) {
        if item.value.starts_with('@') {
            let message = format!("{}: a list cannot name another list", quote(item.value));
            let fault = Fault::new(&code::BAD_VALUE, message)
                .with_help("write out its entries; a glob that begins with `@` is written `[@]…`");
            self.fault(fault, item.span.clone());
        }
    }

    fn defaults(&mut self, root: &DeTable<'_>, header: &mut Header<'_>) {
        if let Some(table) = self.table(root, "defaults") {
            header.defaults = Some(self.draft(Kind::Defaults, table, header, 0..0));
        }
    }

    fn rules(&mut self, root: &DeTable<'_>, header: &Header<'_>) {
        let Some(rules) = self.table(root, "rule").filter(|rules| !rules.is_empty()) else {
            let says_more = ["override", "allow", "lists"]
                .iter()
                .any(|key| root.contains_key(*key));
            let is_of_use = says_more || !self.facts.extends.is_empty();
            if !is_of_use && (!root.contains_key("rule") || self.errors == 0) {
                let fault = Fault::new(&code::NO_RULES, "this file defines no rule")
                    .with_help("a rule begins with `[rule.its-id]`");
                self.fault(fault, 0..0);
            }
            return;
        };
        for (key, value) in rules.iter() {
            if self.is_exhausted() {
                return;
            }
            let before = self.errors;
            let draft = rule::read(self, key, value, header);
            self.rule = None;
            self.drafts.extend(draft.map(|draft| Draft {
                is_broken: self.errors != before,
                ..draft
            }));
        }
    }
}

/// What is wrong with a pack name, if something is.
pub(super) fn pack_name(name: &str) -> Option<Fault> {
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment.bytes().all(|b| is_name_byte(b) || b == b'-')
    };
    let message = if name.len() > NAME_BYTES {
        format!("pack name is {} bytes, limit is {NAME_BYTES}", name.len())
    } else if name.split('/').all(is_segment) {
        return None;
    } else {
        format!("pack name {} is of the wrong form", quote(name))
    };
    Some(
        Fault::new(&code::PACK_NAME, message).with_help(
            "lower-case letters, digits and `-`, in segments joined by `/`: `std/secrets`",
        ),
    )
}

/// What is wrong with the id of a rule inside its pack, if something is.
pub(super) fn rule_id(id: &str) -> Option<Fault> {
    let message = if id.len() > NAME_BYTES {
        format!("rule id is {} bytes, limit is {NAME_BYTES}", id.len())
    } else if id.bytes().next().is_some_and(is_name_byte)
        && id.bytes().all(|b| is_name_byte(b) || b == b'-')
    {
        return None;
    } else {
        format!("rule id {} is of the wrong form", quote(id))
    };
    Some(
        Fault::new(&code::RULE_ID, message)
            .with_help("lower-case letters, digits and `-`, not `-` first: `no-box-leak`"),
    )
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn version(text: &str) -> Option<Fault> {
    let plain = text.split(['-', '+']).next().unwrap_or_default();
    let valid = numbers(plain).is_some_and(|numbers| numbers.len() == 3);
    (!valid).then(|| {
        let message = format!("{} is not a version", quote(text));
        Fault::new(&code::BAD_VALUE, message).with_help("three numbers: `0.1.0`")
    })
}

fn engine(text: &str) -> Option<Fault> {
    let asked = text.strip_prefix(">=").map(str::trim).and_then(numbers);
    let Some(mut asked) = asked.filter(|numbers| numbers.len() >= 2) else {
        let message = format!(
            "{} is not a requirement on the version of ttsr",
            quote(text)
        );
        return Some(Fault::new(&code::BAD_VALUE, message).with_help("write `>=0.1` or `>=0.1.0`"));
    };
    asked.resize(3, 0);
    let own = env!("CARGO_PKG_VERSION");
    let plain = own.split(['-', '+']).next().unwrap_or_default();
    let is_old = numbers(plain).is_some_and(|own| own < asked);
    is_old.then(|| {
        let message = format!("the pack asks for ttsr {}, this is {own}", quote(text));
        Fault::new(&code::ENGINE_TOO_OLD, message).with_help("update ttsr, or take an older pack")
    })
}

/// One to three numbers joined by dots.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let numbers: Vec<u64> = text.splitn(4, '.').map(number).collect::<Option<_>>()?;
    (numbers.len() <= 3).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_of_the_wrong_form_are_refused() {
        let long = "a".repeat(NAME_BYTES + 1);
        for name in [
            "", "/", "a/", "/a", "a//b", "A", "a_b", "a b", "a\n", "ä", "..", &long,
        ] {
            assert!(pack_name(name).is_some(), "{name}");
        }
        for name in ["a", "a-b/c-1/d", "1", &long[1..]] {
            assert_eq!(pack_name(name), None, "{name}");
        }
        for id in ["", "-a", "a/b", "A", "a\u{1b}[31m", "a\n", "a.b", &long] {
            assert!(rule_id(id).is_some(), "{id}");
        }
        for id in ["a", "a-", "1-a", &long[1..]] {
            assert_eq!(rule_id(id), None, "{id}");
        }
    }

    #[test]
    fn engine_and_version_are_read_strictly() {
        for text in [">=0.1", ">=0.1.0", ">= 0.0.9", ">=0.0"] {
            assert_eq!(engine(text), None, "{text}");
        }
        for (text, code) in [
            (">=99.0", "engine-too-old"),
            (">=0.1.99999", "engine-too-old"),
            ("0.1", "bad-value"),
            ("^0.1", "bad-value"),
            (">=1", "bad-value"),
            (">=0.1.0.0", "bad-value"),
            (">=0.x", "bad-value"),
            (">=99999999999999999999.0", "bad-value"),
        ] {
            assert_eq!(engine(text).unwrap().code.name, code, "{text}");
        }
        assert_eq!(version("1.2.3-alpha.1"), None);
        assert!(version("1.2").is_some());
        assert!(version("v1.2.3").is_some());
    }
}
