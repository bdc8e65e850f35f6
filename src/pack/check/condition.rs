//! `match`: what breaks a rule. Each key is read on its own here; whether they make sense together is
//! judged in `sense`, on the whole rule.

use std::mem::take;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Walk;
use super::draft::Draft;
use super::fault::Fault;
use super::header::Header;
use super::scope::LISTED_STEPS;
use crate::pack::diagnostic::code;
use crate::pack::schema;
use crate::rule::{
    Ast, Bound, Capture, Count, DoomLoop, KnownList, Named, Per, Repetition, Script, UnknownName,
    Within,
};

impl Walk<'_> {
    /// Reads `match` of a rule, if it is there.
    pub(super) fn condition(&mut self, rule: &DeTable<'_>, header: &Header<'_>, draft: &mut Draft) {
        let Some(table) = self.table(rule, "match") else {
            return;
        };
        draft.region = self.regions(table);
        draft.fold = self.folds(table);
        let condition = &mut draft.rule.condition;
        condition.any = self.patterns(table, "any");
        condition.all = self.patterns(table, "all");
        condition.sequence = self.patterns(table, "sequence");
        condition.none = self.patterns(table, "none");
        draft.texts = take(&mut self.texts);
        condition.within = self.within(table);
        condition.first = self.count(table, "match.first");
        condition.last = self.count(table, "match.last");
        condition.line = self.flag(table, "line").unwrap_or_default();
        condition.leak = self.flag(table, "leak").unwrap_or_default();
        condition.count = self.times(table);
        condition.capture = self.capture(table, header);
        condition.repetition = self.repetition(table);
        condition.limit = self.limit(table);
        condition.script = self.script(table);
        condition.unknown_name = self.unknown_name(table, header);
        condition.doom_loop = self.doom_loop(table);
        condition.ast = self.ast(table, header);
    }

    fn within(&mut self, table: &DeTable<'_>) -> Option<Within> {
        let within = self.table(table, "within")?;
        let lines = self.count(within, "match.within.lines").map(Within::Lines);
        let chars = self.count(within, "match.within.chars").map(Within::Chars);
        let part = self.whole_of(within, "part").then_some(Within::Part);
        let message = self.whole_of(within, "message").then_some(Within::Message);
        if within.len() != 1 {
            let span = table.get("within").map_or(0..0, Spanned::span);
            let message = "`within` has exactly one of `lines`, `chars`, `part`, `message`";
            let fault = Fault::new(&code::BAD_VALUE, message).with_help(
                "write `match.within = { lines = 3 }` or `match.within = { part = true }`",
            );
            self.fault(fault, span);
        }
        lines.or(chars).or(part).or(message)
    }

    /// Whether `key` is there; `false` would say nothing.
    fn whole_of(&mut self, within: &DeTable<'_>, key: &str) -> bool {
        let flag = self.flag(within, key);
        if let (Some(false), Some(value)) = (flag, within.get(key)) {
            let fault = Fault::new(&code::BAD_VALUE, format!("`{key}` can only be true"));
            self.fault(
                fault.with_help(format!("write `{key} = true` or another window")),
                value.span(),
            );
        }
        flag.unwrap_or_default()
    }

    fn times(&mut self, table: &DeTable<'_>) -> Option<Count> {
        let times = self.count(table, "match.count");
        let per = self.one_of(table, "per", &Per::ALL.map(Per::name), Per::from_name);
        if times.is_none() && per.is_none() {
            return None;
        }
        Some(Count {
            times: times.unwrap_or(1),
            per: per.unwrap_or(Per::Part),
        })
    }

    fn capture(&mut self, table: &DeTable<'_>, header: &Header<'_>) -> Option<Capture> {
        let capture = self.table(table, "capture")?;
        let not_in = self.listed(capture, "not-in", header).unwrap_or_default();
        Some(Capture {
            group: self.group(capture),
            entropy: self.decimal(capture, "match.capture.entropy"),
            random: self.flag(capture, "random").unwrap_or_default(),
            not_in: not_in.into_iter().map(|(text, _)| text).collect(),
        })
    }

    /// The group of a capture: a name or a number, written as either.
    fn group(&mut self, capture: &DeTable<'_>) -> Option<String> {
        if let DeValue::Integer(number) = capture.get("group")?.get_ref() {
            return Some(number.as_str().to_owned());
        }
        let text = self.filled_string(capture, "group")?;
        Some(text.value.to_owned())
    }

    fn repetition(&mut self, table: &DeTable<'_>) -> Option<Repetition> {
        let repetition = self.table(table, "repetition")?;
        let unit_chars = self.pair(repetition, "match.repetition.unit-chars");
        let times = self.count(repetition, "match.repetition.times");
        Some(Repetition {
            unit_chars: unit_chars.unwrap_or((20, 400)),
            times: times.unwrap_or(4),
            near: self.flag(repetition, "near").unwrap_or_default(),
            turns: self.count(repetition, "match.repetition.turns"),
        })
    }

    fn limit(&mut self, table: &DeTable<'_>) -> Option<Bound> {
        let limit = self.table(table, "limit")?;
        let mut most = |path| {
            let number = self.whole(limit, path)?;
            Some(u64::try_from(number).expect("bounds are at least one"))
        };
        let mut bound = Bound {
            bytes: most("match.limit.bytes"),
            lines: most("match.limit.lines"),
            deltas: most("match.limit.deltas"),
            tokens: most("match.limit.tokens"),
            ..Bound::default()
        };
        let mut millis = |path| self.decimal(limit, path).map(u64::from);
        bound.millis = millis("match.limit.seconds");
        bound.stall_millis = millis("match.limit.stall");
        Some(bound)
    }

    fn script(&mut self, table: &DeTable<'_>) -> Option<Script> {
        let script = self.table(table, "script")?;
        let expect = self.filled_strings(script, "expect").and_then(|texts| {
            let names = Script::NAMES.map(str::to_owned);
            let known = |name: &str| Script::NAMES.contains(&name).then(|| name.to_owned());
            self.list_of(texts, "expect", &names, known)
        });
        Some(Script {
            expect: expect.unwrap_or_default(),
        })
    }

    fn unknown_name(&mut self, table: &DeTable<'_>, header: &Header<'_>) -> Option<UnknownName> {
        let unknown = self.table(table, "unknown-name")?;
        let mut known = KnownList::default();
        if let Some(texts) = self.filled_strings(unknown, "known") {
            self.blanks(&texts, "known");
            let mut written = Vec::new();
            for text in &texts.items {
                match self.shared_list(text, header) {
                    // Shared: its entries were counted where the list is read.
                    Some(list) => {
                        self.spend(LISTED_STEPS);
                        known.add(list);
                    }
                    None => {
                        let entries = self.entries_of(text, header);
                        let sizes = entries.iter().map(|it| it.value.len() + LISTED_STEPS);
                        self.spend(sizes.sum());
                        written.extend(entries.iter().map(|entry| entry.value.to_owned()));
                    }
                }
            }
            known.add(written.into());
        }
        let of = self.filled_strings(unknown, "of").and_then(|texts| {
            let names = Named::ALL.map(|named| named.name().to_owned());
            self.list_of(texts, "of", &names, Named::from_name)
        });
        Some(UnknownName {
            known,
            of: of.unwrap_or_default(),
        })
    }

    fn ast(&mut self, table: &DeTable<'_>, header: &Header<'_>) -> Option<Ast> {
        let ast = self.table(table, "ast")?;
        let languages = self.filled_strings(ast, "languages").and_then(|texts| {
            let names = Ast::LANGUAGES.map(str::to_owned);
            let known = |name: &str| Ast::LANGUAGES.contains(&name).then(|| name.to_owned());
            self.list_of(texts, "languages", &names, known)
        });
        let languages = languages.unwrap_or_default();
        let mut patterns = |key| -> Vec<String> {
            let texts = self.filled_strings(ast, key);
            self.no_lists(texts.iter().flat_map(|texts| &texts.items), key, header);
            let items = texts.into_iter().flat_map(|texts| texts.items);
            items
                .map(|text| {
                    if let Some(fault) = super::ast::pattern_fault(&languages, text.value) {
                        self.fault_in(fault, &text);
                    }
                    text.value.to_owned()
                })
                .collect()
        };
        let (any, inside, not) = (patterns("any"), patterns("inside"), patterns("not"));
        Some(Ast {
            languages,
            any,
            inside,
            not,
        })
    }

    fn doom_loop(&mut self, table: &DeTable<'_>) -> Option<DoomLoop> {
        let doom = self.table(table, "doom-loop")?;
        let times = self.count(doom, "match.doom-loop.times");
        let differing = self.count(doom, "match.doom-loop.differing");
        Some(DoomLoop {
            times: times.unwrap_or(3),
            differing: differing.unwrap_or(0),
        })
    }
}

/// The names of what a rule can be broken by, as `match` calls them.
pub(super) fn triggers(condition: &crate::rule::Condition) -> Vec<&'static str> {
    let all = [
        (!condition.any.is_empty(), "any"),
        (!condition.all.is_empty(), "all"),
        (!condition.sequence.is_empty(), "sequence"),
        (condition.repetition.is_some(), "repetition"),
        (condition.leak, "leak"),
        (condition.limit.is_some(), "limit"),
        (condition.script.is_some(), "script"),
        (condition.unknown_name.is_some(), "unknown-name"),
        (condition.doom_loop.is_some(), "doom-loop"),
        (condition.ast.is_some(), "ast"),
    ];
    let found = all.into_iter().filter(|(is_there, _)| *is_there);
    found.map(|(_, name)| name).collect()
}

/// The path of a key of `match`, as the table of keys has it.
pub(super) fn path(name: &str) -> &'static str {
    let key = schema::MATCH.iter().find(|key| key.name() == name);
    key.expect("the name of a key of `match`").path
}
