//! A rule file: its schema, `[pack]`, `[lists]` and `[defaults]`, and then its rules, overrides and allowances.

use std::collections::BTreeMap;
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::FileHeader;
use super::draft::{Draft, Place};
use super::fault::Fault;
use super::names;
use super::problems::Span;
use super::reader::{LISTED_STEPS, Lists, NamedList, RuleReader, Text};
use super::rule::{read_draft, read_rule};
use crate::pack::compose::{Override, WrittenAllow};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::schema::{self, ALLOW, PACK, TOP, TableKind};

/// The schema that this version reads.
const SCHEMA: &str = "1";

/// The content of one rule file.
#[derive(Debug, Default)]
pub(super) struct RuleFile {
    pub(super) header: FileHeader,
    pub(super) drafts: Vec<Draft>,
    pub(super) overrides: Vec<Override>,
    pub(super) allows: Vec<WrittenAllow>,
    /// The full ids of the rules, including those that could not be read.
    pub(super) ids: Vec<SpannedId>,
}

/// The full id of a rule, and the place at which it is written.
#[derive(Debug)]
pub(super) struct SpannedId {
    pub(super) full: String,
    pub(super) span: Span,
}

/// Reads a whole file. `imported` are the lists of the packs that it extends.
pub(super) fn read_root(
    root: &DeTable<'_>,
    imported: BTreeMap<String, Arc<[String]>>,
    reader: &mut RuleReader<'_>,
) -> RuleFile {
    let mut file = RuleFile::default();
    if !has_known_schema(root, reader) {
        return file;
    }
    let place = ("a rule file", 0..0);
    schema::read_table(TOP, TableKind::Rule, root, place, reader, &mut ());
    let own = read_lists(root, reader);
    let lists = own.iter();
    let lists = lists.map(|(name, list)| (name.clone(), Arc::clone(&list.entries)));
    file.header.lists = lists.collect();
    reader.lists = Arc::new(Lists { own, imported });
    read_pack(root, reader, &mut file.header);
    // The entries are read before all files, because other files of the pack use them too.
    let _patterns = section(root, "patterns", reader);
    reader.use_fragments_of(&file.header.pack);
    let defaults = section(root, "defaults", reader);
    let defaults = defaults.map(|table| read_draft(TableKind::Defaults, table, 0..0, reader));
    read_rules(root, defaults.as_ref(), reader, &mut file);
    read_overrides(root, reader, &mut file);
    read_allows(root, reader, &mut file);
    file
}

/// Returns the top-level table `key`.
fn section<'v, 'i>(
    root: &'v DeTable<'i>,
    key: &str,
    reader: &mut RuleReader<'_>,
) -> Option<&'v DeTable<'i>> {
    let value = root.get(key)?;
    reader.table(value, &quote(key), schema::form(key))
}

/// Returns true if the file can be read: with another schema every other message would be wrong.
fn has_known_schema(root: &DeTable<'_>, reader: &mut RuleReader<'_>) -> bool {
    let Some(value) = root.get("schema") else {
        // The table of keys reports that it is missing.
        return true;
    };
    let quoted = value.get_ref().as_str();
    if quoted == Some(SCHEMA) {
        // The schema is known; the rest of the file is read as well.
        reader.wrong_type("`schema`", "an integer", "", value);
        return true;
    }
    let written = match value.get_ref() {
        DeValue::Integer(number) => number.to_string(),
        _ => reader.text[value.span()].to_owned(),
    };
    if written != SCHEMA {
        let message = format!("schema {} is not supported", quote(&written));
        let fault = Fault::new(&code::UNSUPPORTED_SCHEMA, message)
            .with_help("this version of ttsr reads `schema = 1`");
        reader.fault(fault, value.span());
    }
    written == SCHEMA
}

fn read_pack(root: &DeTable<'_>, reader: &mut RuleReader<'_>, header: &mut FileHeader) {
    let Some(value) = root.get("pack") else {
        return;
    };
    let Some(table) = reader.table(value, "`pack`", "") else {
        return;
    };
    let place = ("`[pack]`", value.span());
    schema::read_table(PACK, TableKind::Rule, table, place, reader, header);
    // The keys of `[pack]` are not keys of a rule.
    let _origins = reader.take_origins();
    if names::pack_name_fault(&header.pack).is_some() {
        header.pack.clear();
    }
}

fn read_lists(root: &DeTable<'_>, reader: &mut RuleReader<'_>) -> BTreeMap<String, NamedList> {
    let mut lists = BTreeMap::new();
    let Some(table) = section(root, "lists", reader) else {
        return lists;
    };
    for (key, value) in table.iter() {
        let name = quote(key.get_ref());
        let texts = reader.strings(value, &name, "");
        if texts.as_ref().is_some_and(|texts| texts.items.is_empty()) {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("list {name} is empty"));
            reader.fault(fault, value.span());
        }
        // A list that could not be read has no entries, so that rules that name it are not reported as well.
        let items = texts.map(|texts| texts.items).unwrap_or_default();
        for item in &items {
            reader.spend(LISTED_STEPS);
            refuse_nested_list(item, reader);
        }
        let entries = items.iter().map(|item| item.value.to_owned()).collect();
        let spans = items.into_iter().map(|item| item.span).collect();
        lists.insert(key.get_ref().to_string(), NamedList { entries, spans });
    }
    lists
}

fn refuse_nested_list(item: &Text<'_>, reader: &mut RuleReader<'_>) {
    if item.value.starts_with('@') {
        let message = format!("{}: a list cannot name another list", quote(item.value));
        let fault = Fault::new(&code::BAD_VALUE, message)
            .with_help("write out its entries; a glob that begins with `@` is written `[@]…`");
        reader.fault(fault, item.span.clone());
    }
}

fn read_rules(
    root: &DeTable<'_>,
    defaults: Option<&Draft>,
    reader: &mut RuleReader<'_>,
    file: &mut RuleFile,
) {
    let Some(rules) = section(root, "rule", reader).filter(|rules| !rules.is_empty()) else {
        let has_content = ["override", "allow", "lists", "patterns"]
            .iter()
            .any(|key| root.contains_key(*key));
        let is_of_use = has_content || !file.header.extends.is_empty();
        if !is_of_use && (!root.contains_key("rule") || reader.errors() == 0) {
            let fault = Fault::new(&code::NO_RULES, "this file defines no rule")
                .with_help("a rule begins with `[rule.its-id]`");
            reader.fault(fault, 0..0);
        }
        return;
    };
    for (key, value) in rules.iter() {
        if reader.is_exhausted() {
            return;
        }
        let before = reader.errors();
        let draft = read_rule(key, value, defaults, reader, file);
        reader.rule = None;
        file.drafts.extend(draft.map(|draft| Draft {
            is_broken: reader.errors() != before,
            ..draft
        }));
    }
}

fn read_overrides(root: &DeTable<'_>, reader: &mut RuleReader<'_>, file: &mut RuleFile) {
    let Some(overrides) = section(root, "override", reader) else {
        return;
    };
    for (key, value) in overrides.iter() {
        let target = key.get_ref().to_string();
        // A `*` stands for any characters of a name.
        if let Some(fault) = names::full_id_fault(&target.replace('*', "a")) {
            reader.fault(fault, key.span());
            continue;
        }
        let name = format!("override {}", quote(&target));
        let Some(table) = reader.table(value, &name, "") else {
            continue;
        };
        if table.is_empty() {
            let fault = Fault::new(&code::EMPTY_VALUE, format!("{name} changes nothing"));
            reader.fault(fault.with_help("remove it"), key.span());
        }
        reader.rule = Some(target.clone());
        let (errors, at) = (reader.errors(), reader.locate(key.span()));
        let mut replace = read_draft(TableKind::Override, table, key.span(), reader);
        replace.is_broken = reader.errors() > errors;
        reader.rule = None;
        file.overrides.push(Override {
            target,
            at,
            pack: file.header.pack.clone(),
            append: replace.append.take(),
            replace,
        });
    }
}

fn read_allows(root: &DeTable<'_>, reader: &mut RuleReader<'_>, file: &mut RuleFile) {
    let Some(value) = root.get("allow") else {
        return;
    };
    let entries = reader.array(value, "`allow`", schema::form("allow"));
    for entry in entries.unwrap_or_default() {
        let Some(table) = reader.table(entry, "an entry of `allow`", "") else {
            continue;
        };
        let mut written = WrittenAllow::new(Place {
            file: reader.file,
            span: entry.span(),
        });
        let place = ("`allow`", entry.span());
        schema::read_table(ALLOW, TableKind::Rule, table, place, reader, &mut written);
        // The keys of `[[allow]]` are not keys of a rule.
        written.entries = reader.take_origins().entries;
        let narrowing = ["tools", "paths", "text"];
        if narrowing.iter().all(|key| !table.contains_key(*key)) {
            let message =
                "this `allow` has no `paths`, `tools` or `text`: the rules would never act";
            let fault = Fault::new(&code::CONTRADICTION, message).with_help(
                "add `paths`, `tools` or `text`; to disable a rule, write `[override.\"pack/rule\"]` with `mode = \"shadow\"`",
            );
            reader.fault(fault, entry.span());
        }
        file.allows.push(written);
    }
}
