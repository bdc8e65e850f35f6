//! A rule file being written: rules, their comments, and the reports of what was left out.
//!
//! Knows how to write TOML. A rule that does not load becomes a comment, so the file always loads.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::{Imported, Unconverted};
use ttsr::{Level, Pack};

/// Maximum number of characters quoted of a text that was left out.
const QUOTED: usize = 100;

/// The file being written.
pub(super) struct ImportedFile {
    pack: String,
    ids: BTreeSet<String>,
    /// Comments before all rules.
    notes: Vec<String>,
    /// Rules and comments, in order.
    body: String,
    /// `[[allow]]` tables.
    allows: String,
    rules: usize,
    left_out: Vec<Unconverted>,
    unread: Vec<Unconverted>,
}

/// A rule being written.
pub(super) struct RuleDraft {
    /// The place it was read from.
    pub(super) place: String,
    pub(super) id: String,
    /// Comments before the rule.
    pub(super) notes: Vec<String>,
    /// Keys with their values in TOML.
    keys: Vec<(&'static str, String)>,
}

impl RuleDraft {
    pub(super) fn new(place: String, name: &str, description: &str) -> RuleDraft {
        let mut draft = RuleDraft {
            place,
            id: slug(name),
            notes: Vec::new(),
            keys: Vec::new(),
        };
        draft.set("description", text(description));
        draft
    }

    /// Adds a key with a value in TOML.
    pub(super) fn set(&mut self, key: &'static str, value: String) {
        self.keys.push((key, value));
    }

    /// Adds a list of strings, unless it is empty.
    pub(super) fn set_texts(&mut self, key: &'static str, values: &[String]) {
        if !values.is_empty() {
            self.set(key, texts(values));
        }
    }

    /// Adds a list of patterns that are regular expressions.
    pub(super) fn set_regexes(&mut self, key: &'static str, regexes: &[String]) {
        let patterns = regexes
            .iter()
            .map(|regex| format!("{{ regex = {} }}", text(regex)));
        let patterns: Vec<String> = patterns.collect();
        match patterns.as_slice() {
            [] => {}
            [pattern] => self.set(key, format!("[{pattern}]")),
            _ => self.set(key, format!("[\n  {},\n]", patterns.join(",\n  "))),
        }
    }

    fn toml(&self) -> String {
        let mut toml = format!("[rule.{}]\n", self.id);
        for (key, value) in &self.keys {
            writeln!(toml, "{key} = {value}").expect("writing to a string cannot fail");
        }
        toml
    }
}

impl ImportedFile {
    pub(super) fn new(pack: &str) -> Result<ImportedFile, String> {
        let sheet = ImportedFile {
            pack: pack.to_owned(),
            ids: BTreeSet::new(),
            notes: Vec::new(),
            body: String::new(),
            allows: String::new(),
            rules: 0,
            left_out: Vec::new(),
            unread: Vec::new(),
        };
        sheet.problem("").map_or(Ok(sheet), Err)
    }

    /// Adds a comment at the head of the file.
    pub(super) fn add_comment(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    /// Reports something that is not part of a rule and was left out.
    pub(super) fn report_unconverted(&mut self, place: &str, what: String) {
        self.body
            .push_str(&comment(&format!("LEFT OUT of {place}: {what}")));
        self.body.push('\n');
        self.record_left_out(place, what);
    }

    /// Reports a text that cannot be parsed.
    pub(super) fn unread(&mut self, place: &str, why: String) {
        self.body
            .push_str(&comment(&format!("NOT READ: {place}: {why}")));
        self.body.push('\n');
        self.unread.push(Unconverted {
            place: place.to_owned(),
            what: why,
        });
    }

    /// Reports something that was left out and keeps it as a comment.
    pub(super) fn keep(&mut self, place: &str, why: &str, text: &str) {
        self.body
            .push_str(&comment(&format!("LEFT OUT: {place}: {text}")));
        self.body.push('\n');
        self.record_left_out(place, why.to_owned());
    }

    /// Reports a part of a rule that was left out; the rule is kept without it.
    pub(super) fn report_unconverted_part(&mut self, draft: &mut RuleDraft, what: String) {
        draft.notes.push(format!("LEFT OUT: {what}"));
        self.record_left_out(&draft.place, what);
    }

    fn record_left_out(&mut self, place: &str, what: String) {
        self.left_out.push(Unconverted {
            place: place.to_owned(),
            what,
        });
    }

    /// Appends a rule, or a comment with the reason why it does not load.
    pub(super) fn add(&mut self, mut draft: RuleDraft) {
        draft.id = self.free(&draft.id);
        let toml = draft.toml();
        let mut notes: String = draft.notes.iter().map(|note| comment(note)).collect();
        match self.problem(&toml) {
            None => {
                self.rules += 1;
                notes.push_str(&toml);
                self.ids.insert(draft.id);
            }
            Some(problem) => {
                let what = format!("the rule does not load: {problem}");
                notes.push_str(&comment(&format!("LEFT OUT: {what}")));
                notes.push_str(&comment(&toml));
                self.record_left_out(&draft.place, what);
            }
        }
        self.body.push_str(&notes);
        self.body.push('\n');
    }

    /// Adds files to which no rule of this pack applies.
    pub(super) fn allow(&mut self, paths: &[String], reason: &str) {
        let rules = texts(&[format!("{}/*", self.pack)]);
        write!(
            self.allows,
            "[[allow]]\nrules = {rules}\npaths = {}\nreason = {}\n\n",
            texts(paths),
            text(reason)
        )
        .expect("writing to a string cannot fail");
    }

    /// Returns an id that no other rule has.
    fn free(&self, id: &str) -> String {
        let more = (2..).map(|number| format!("{id}-{number}"));
        std::iter::once(id.to_owned())
            .chain(more)
            .find(|id| !self.ids.contains(id))
            .expect("there are more numbers than rules")
    }

    /// Returns the reason why a rule would not load.
    fn problem(&self, rule: &str) -> Option<String> {
        let error = Pack::from_toml(&format!("{}\n{rule}", self.header())).err()?;
        let mut problems = error.diagnostics().iter();
        let first = problems.find(|problem| problem.level() == Level::Error)?;
        Some(first.message().to_owned())
    }

    fn header(&self) -> String {
        format!("schema = 1\n\n[pack]\nname = {}\n", text(&self.pack))
    }

    pub(super) fn finish(self) -> Imported {
        let notes: String = self.notes.iter().map(|note| comment(note)).collect();
        let parts = [notes + &self.header(), self.body, self.allows];
        let parts = parts.iter().map(|part| part.trim_end());
        let parts: Vec<&str> = parts.filter(|part| !part.is_empty()).collect();
        Imported {
            toml: parts.join("\n\n") + "\n",
            rules: self.rules,
            left_out: self.left_out,
            unread: self.unread,
        }
    }
}

/// Returns a string in TOML.
pub(super) fn text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// Returns a list of strings in TOML. A long list has one line per entry.
pub(super) fn texts(texts: &[String]) -> String {
    let items: Vec<String> = texts.iter().map(|item| text(item)).collect();
    let length: usize = items.iter().map(String::len).sum();
    match length < QUOTED {
        true => format!("[{}]", items.join(", ")),
        false => format!("[\n  {},\n]", items.join(",\n  ")),
    }
}

/// Returns comment lines. Characters that TOML forbids in comments are escaped.
pub(super) fn comment(text: &str) -> String {
    let mut comment = String::new();
    for line in text.lines() {
        comment.push_str("# ");
        for c in line.chars() {
            match c.is_control() && c != '\t' {
                true => comment.extend(c.escape_default()),
                false => comment.push(c),
            }
        }
        comment.truncate(comment.trim_end().len());
        comment.push('\n');
    }
    comment
}

/// Returns a text in backticks, shortened if it is long.
pub(super) fn quoted(text: &str) -> String {
    let mut cut: String = text.chars().take(QUOTED).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("`{cut}`")
}

/// Returns `name` with every character replaced that an id cannot have.
pub(super) fn slug(name: &str) -> String {
    let mut slug = String::new();
    for c in name.chars() {
        match c.to_ascii_lowercase() {
            c @ ('a'..='z' | '0'..='9') => slug.push(c),
            _ if slug.is_empty() || slug.ends_with('-') => {}
            _ => slug.push('-'),
        }
    }
    let slug = slug.trim_end_matches('-');
    match slug {
        "" => "rule".to_owned(),
        _ => slug.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_becomes_an_id() {
        for (name, id) in [
            ("No Any!", "no-any"),
            ("--x__y--", "x-y"),
            ("Größe", "gr-e"),
            ("漢字", "rule"),
        ] {
            assert_eq!(slug(name), id, "{name}");
        }
    }

    #[test]
    fn a_rule_that_does_not_load_is_a_comment_and_told() {
        let mut sheet = ImportedFile::new("p").unwrap();
        for regex in ["a", "a(", "b"] {
            let mut draft = RuleDraft::new(format!("f: {regex}"), "x", "about\u{7} x\ny");
            draft.set_regexes("match.any", &[regex.to_owned()]);
            sheet.add(draft);
        }
        let imported = sheet.finish();
        assert_eq!(imported.rules, 2);
        assert_eq!(imported.left_out.len(), 1);
        assert_eq!(imported.left_out[0].place, "f: a(");
        let pack = Pack::from_toml(&imported.toml).unwrap();
        assert_eq!(pack.rules()[1].id, "p/x-2");
        assert_eq!(pack.rules()[1].description, "about\u{7} x\ny");
    }

    #[test]
    fn a_pack_without_a_good_name_is_refused() {
        assert!(ImportedFile::new("No Name").is_err());
    }
}
