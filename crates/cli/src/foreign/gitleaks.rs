//! gitleaks: rules with regular expressions, minimum entropies and allowlists.

use toml::{Table, Value};

use super::ForeignText;
use super::draft::{ImportedFile, RuleDraft, quoted};
use super::wildcard::{containing, globs, wildcards};

/// Arguments that name the file of a call, for rules about file names only.
const FILE_ARGS: &str = "[\"path\", \"file_path\", \"filePath\", \"file\", \"filename\"]";

pub(super) fn read(from: &ForeignText<'_>, sheet: &mut ImportedFile) -> Result<(), String> {
    let table: Table = toml::from_str(from.text).map_err(|error| error.to_string())?;
    sheet.add_comment("gitleaks requires more than `entropy` bits per character; a capture here requires at least `entropy`.");
    let mut every = ExcludedSecrets::default();
    for (key, value) in &table {
        match key.as_str() {
            "title" | "description" | "minVersion" | "rules" => {}
            "allowlist" | "allowlists" => global(from.name, value, &mut every, sheet),
            _ => sheet.report_unconverted(from.name, format!("`{key}`: no equivalent")),
        }
    }
    for rule in table.get("rules").into_iter().flat_map(tables) {
        convert_rule(from.name, rule, &every, sheet);
    }
    Ok(())
}

/// Excluded secrets, for `not-in`.
#[derive(Clone, Default)]
struct ExcludedSecrets(Vec<String>);

fn convert_rule(file: &str, table: &Table, every: &ExcludedSecrets, sheet: &mut ImportedFile) {
    let id = string(table, "id").unwrap_or("rule");
    let description = string(table, "description").unwrap_or(id);
    let mut draft = RuleDraft::new(format!("{file}: {id}"), id, description);
    let keywords = strings(table, "keywords");
    if !keywords.is_empty() {
        draft
            .notes
            .push(format!("keywords: {}", keywords.join(", ")));
    }
    for key in table.keys() {
        const KNOWN: [&str; 10] = [
            "id",
            "description",
            "regex",
            "path",
            "entropy",
            "secretGroup",
            "keywords",
            "tags",
            "allowlist",
            "allowlists",
        ];
        if !KNOWN.contains(&key.as_str()) {
            sheet.report_unconverted_part(&mut draft, format!("`{key}`: no equivalent"));
        }
    }
    draft.set_texts("tags", &strings(table, "tags"));
    match (string(table, "regex"), string(table, "path")) {
        (None, Some(path)) => about_file(path, &mut draft),
        (regex, path) => about_text(table, regex, path, every, &mut draft, sheet),
    }
    sheet.add(draft);
}

/// Adds the keys of a rule that matches a file name.
fn about_file(path: &str, draft: &mut RuleDraft) {
    draft.set("on", "[\"tool-input\"]".to_owned());
    draft.set("args", FILE_ARGS.to_owned());
    draft.set_regexes("match.any", &[path.to_owned()]);
}

fn about_text(
    table: &Table,
    regex: Option<&str>,
    path: Option<&str>,
    every: &ExcludedSecrets,
    draft: &mut RuleDraft,
    sheet: &mut ImportedFile,
) {
    let mut allowed = Allowlist {
        secrets: every.clone(),
        ..Allowlist::default()
    };
    if let Some(path) = path {
        match globs(path) {
            Some(globs) => allowed.paths = globs,
            None => sheet.report_unconverted_part(
                draft,
                format!(
                    "path {}: no equivalent glob, so every file is scanned",
                    quoted(path)
                ),
            ),
        }
    }
    for key in ["allowlist", "allowlists"] {
        for list in table.get(key).into_iter().flat_map(tables) {
            for lost in allowed.add(list) {
                sheet.report_unconverted_part(draft, lost);
            }
        }
    }
    draft.set_texts("paths", &allowed.paths);
    draft.set_regexes(
        "match.any",
        &regex.map(rust_regex).into_iter().collect::<Vec<_>>(),
    );
    draft.set_regexes("match.none", &allowed.beside);
    if let Some(group) = table
        .get("secretGroup")
        .and_then(Value::as_integer)
        .filter(|group| *group > 0)
    {
        draft.set("match.capture.group", group.to_string());
    }
    if let Some(entropy) = table.get("entropy").and_then(number) {
        draft.set("match.capture.entropy", format!("{entropy:?}"));
    }
    draft.set_texts("match.capture.not-in", &allowed.secrets.0);
}

/// The exceptions of a rule.
#[derive(Default)]
struct Allowlist {
    paths: Vec<String>,
    beside: Vec<String>,
    secrets: ExcludedSecrets,
}

impl Allowlist {
    /// Adds an allowlist and returns its entries that have no equivalent.
    fn add(&mut self, list: &Table) -> Vec<String> {
        let mut lost = unknown(list);
        if string(list, "condition").is_some_and(|condition| condition.eq_ignore_ascii_case("and"))
        {
            lost.push(format!(
                "an allowlist whose conditions must all hold: {}",
                quoted(&strings(list, "regexes").join(" | "))
            ));
            return lost;
        }
        for path in strings(list, "paths") {
            match globs(&path) {
                Some(globs) => self
                    .paths
                    .extend(globs.iter().map(|glob| format!("!{glob}"))),
                None => lost.push(format!(
                    "allowed path {}: no equivalent glob",
                    quoted(&path)
                )),
            }
        }
        let target = string(list, "regexTarget").unwrap_or("secret");
        for regex in strings(list, "regexes") {
            match target {
                "line" => self.beside.push(rust_regex(&regex)),
                // The window of `none` is one line, as is the text in which gitleaks searches.
                "match" if !regex.contains("\\n") => {
                    lost.push(format!("allowed match {}: converted to an exception anywhere in the line of the match", quoted(&regex)));
                    self.beside.push(rust_regex(&regex));
                }
                "secret" => self.secrets.add(&regex, &mut lost),
                _ => lost.push(format!("allowed {target} {}", quoted(&regex))),
            }
        }
        self.secrets.stop(&strings(list, "stopwords"), &mut lost);
        lost
    }
}

impl ExcludedSecrets {
    fn add(&mut self, regex: &str, lost: &mut Vec<String>) {
        match wildcards(regex) {
            Some(texts) => self.0.extend(texts),
            None => lost.push(format!(
                "allowed secret {}: no equivalent text with `*` and `?`",
                quoted(regex)
            )),
        }
    }

    fn stop(&mut self, words: &[String], lost: &mut Vec<String>) {
        for word in words {
            match containing(word) {
                Some(text) => self.0.push(text),
                None => lost.push(format!("stopword {}", quoted(word))),
            }
        }
    }
}

/// Converts the global allowlist: files become an `[[allow]]`, secrets are added to every rule.
fn global(file: &str, value: &Value, every: &mut ExcludedSecrets, sheet: &mut ImportedFile) {
    for list in tables(value) {
        let mut allowed = Allowlist::default();
        let targeted = list.contains_key("targetRules");
        let mut lost = match targeted {
            true => vec!["an allowlist with `targetRules`".to_owned()],
            false => allowed.add(list),
        };
        for regex in allowed.beside.drain(..) {
            lost.push(format!(
                "allowed for every rule, anywhere in the line of the match: {}",
                quoted(&regex)
            ));
        }
        every.0.append(&mut allowed.secrets.0);
        let paths = allowed
            .paths
            .iter()
            .map(|path| path.trim_start_matches('!').to_owned());
        let paths: Vec<String> = paths.collect();
        if !paths.is_empty() {
            let reason = string(list, "description").filter(|reason| !reason.trim().is_empty());
            sheet.allow(&paths, reason.unwrap_or("allowed in the imported file"));
        }
        for what in lost {
            sheet.report_unconverted(file, what);
        }
    }
}

fn unknown(list: &Table) -> Vec<String> {
    const KNOWN: [&str; 8] = [
        "id",
        "description",
        "condition",
        "paths",
        "regexTarget",
        "regexes",
        "stopwords",
        "targetRules",
    ];
    let unknown = list.keys().filter(|key| !KNOWN.contains(&key.as_str()));
    unknown
        .map(|key| format!("`{key}` of an allowlist"))
        .collect()
}

/// Returns the tables of a value that is a table or a list of tables.
fn tables(value: &Value) -> impl Iterator<Item = &Table> {
    let list = value.as_array().map(Vec::as_slice).unwrap_or_default();
    value
        .as_table()
        .into_iter()
        .chain(list.iter().filter_map(Value::as_table))
}

fn string<'a>(table: &'a Table, key: &str) -> Option<&'a str> {
    table.get(key)?.as_str()
}

fn strings(table: &Table, key: &str) -> Vec<String> {
    let list = table.get(key).and_then(Value::as_array);
    let texts = list.into_iter().flatten().filter_map(Value::as_str);
    texts.map(str::to_owned).collect()
}

fn number(value: &Value) -> Option<f64> {
    value
        .as_float()
        .or_else(|| value.as_integer().map(|whole| whole as f64))
}

/// Translates a regular expression of Go. In Go, a `{` that does not start a repetition is a literal.
fn rust_regex(regex: &str) -> String {
    let mut out = String::new();
    let mut escaped = false;
    for (at, c) in regex.char_indices() {
        let is_count = regex[at + c.len_utf8()..].starts_with(|next: char| next.is_ascii_digit());
        let is_class = out.ends_with("\\p") || out.ends_with("\\P") || out.ends_with("\\x");
        if c == '{' && !escaped && !is_count && !is_class {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}
