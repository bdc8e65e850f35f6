//! Markdown with a front matter: rules of oh-my-pi, Cursor, Windsurf and Cline.
//!
//! Only a `condition` on text and an `astCondition` on code can be matched in a stream. A file with neither is guidance
//! for a prompt and becomes a comment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::draft::{ImportedFile, RuleDraft, quoted, text, texts};
use super::ecmascript::{RegExpFlags, Translation, Untranslatable, translate};
use super::{ForeignText, front};
use ttsr::rule::{Ast, Condition};
use ttsr::{Level, Pack};
use ttsr::{Pattern, Rule};

/// Former names of `condition`.
const LEGACY: [&str; 2] = ["ttsr_trigger", "ttsrTrigger"];

pub(super) fn read(from: &ForeignText<'_>, sheet: &mut ImportedFile) -> Result<(), String> {
    let (front, body) = front::split(from.text);
    let front = front::fields(front).map_err(|error| format!("invalid front matter: {error}"))?;
    let page = MarkdownRule {
        from,
        front,
        body: body.trim(),
    };
    if page.is_off() {
        page.keep_as_comment("`enabled` is false: the rule is disabled", sheet);
        return Ok(());
    }
    let (conditions, globs) = page.conditions();
    let shapes = page.list("astCondition");
    if conditions.is_empty() && globs.is_empty() && shapes.is_empty() {
        let why = "guidance for a prompt, without a condition to match";
        page.keep_as_comment(why, sheet);
        return Ok(());
    }
    let (places, mut lost) = page.places(&globs);
    lost.extend(page.unknown());
    if !conditions.is_empty() || !globs.is_empty() {
        page.rules(&conditions, &places, &mut lost, sheet);
    }
    if !shapes.is_empty() {
        page.shapes(shapes, &places, &mut lost, sheet);
    }
    Ok(())
}

struct MarkdownRule<'a> {
    from: &'a ForeignText<'a>,
    front: Map<String, Value>,
    body: &'a str,
}

/// The scope of one rule made from a page: tools with a set of files, or prose.
#[derive(Default)]
struct ImportedScope {
    on: Vec<&'static str>,
    tools: Vec<String>,
}

/// The scopes by their globs on files.
type RuleScopes = BTreeMap<Vec<String>, ImportedScope>;

impl MarkdownRule<'_> {
    /// Returns the value of a key that is a string or a list of strings.
    fn list(&self, key: &str) -> Vec<String> {
        match self.front.get(key) {
            Some(Value::String(text)) => vec![text.clone()],
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        }
    }

    /// Like `list`, and splits a string at commas outside of brackets.
    fn comma_separated(&self, key: &str) -> Vec<String> {
        let divided = self.list(key).into_iter().flat_map(|text| divide(&text));
        divided.collect()
    }

    fn string(&self, key: &str) -> Option<&str> {
        let text = self.front.get(key)?.as_str()?.trim();
        (!text.is_empty()).then_some(text)
    }

    fn name(&self) -> &str {
        let file = self
            .from
            .name
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or(self.from.name);
        let stem = file.split_once('.').map_or(file, |(stem, _)| stem);
        self.string("name")
            .unwrap_or(if stem.is_empty() { file } else { stem })
    }

    fn description(&self) -> &str {
        let heading = self.body.lines().find_map(|line| line.strip_prefix('#'));
        let heading = heading.map(|line| line.trim_start_matches('#').trim());
        let heading = heading.filter(|line| !line.is_empty());
        self.string("description")
            .or(heading)
            .unwrap_or(self.name())
    }

    fn keep_as_comment(&self, why: &str, sheet: &mut ImportedFile) {
        let what = format!("{why}\n{}\n{}", self.description(), self.body);
        let place = self.from.name;
        sheet.keep(place, why, &what);
    }

    /// Writes the rules for conditions on text. The first rule carries the reports of what was left out.
    fn rules(
        &self,
        conditions: &[String],
        places: &RuleScopes,
        lost: &mut Vec<String>,
        sheet: &mut ImportedFile,
    ) {
        let (mut conditions, refused) = match conditions.is_empty() {
            // A glob instead of a condition matches every edit of such a file.
            true => (vec![("(?s:.)".to_owned(), "(?s:.)".to_owned())], Vec::new()),
            false => translated(conditions),
        };
        if conditions.is_empty() {
            let why = match refused.is_empty() {
                true => "no condition".to_owned(),
                false => refused.join("; "),
            };
            self.keep_as_comment(&why, sheet);
            return;
        }
        lost.extend(refused);
        let refused = loading(&mut conditions);
        lost.extend(refused);
        let rewritten: Vec<String> = conditions
            .iter()
            .filter(|(original, regex)| original != regex)
            .map(|(original, _)| format!("Original: {original}"))
            .collect();
        let conditions: Vec<String> = conditions.into_iter().map(|(_, regex)| regex).collect();
        for (globs, place) in places {
            for (on, action) in self.actions(&place.on) {
                let mut draft = self.draft(lost, sheet);
                draft.notes.extend(rewritten.iter().cloned());
                self.scope(&mut draft, &on, action, place, globs);
                draft.set_regexes("match.any", &conditions);
                self.finish(draft, action, sheet);
            }
        }
    }

    /// Writes the rule for conditions on the syntax tree. It reads the code of edits only, as the original does. The globs
    /// determine the language.
    fn shapes(
        &self,
        patterns: Vec<String>,
        places: &RuleScopes,
        lost: &mut Vec<String>,
        sheet: &mut ImportedFile,
    ) {
        let edits = places
            .iter()
            .filter(|(_, place)| place.on.contains(&"tool-input"));
        let mut edits = edits.peekable();
        if edits.peek().is_none() {
            let why = "its condition is on the syntax tree of code, and its scope has no code";
            self.keep_as_comment(why, sheet);
        }
        for (globs, place) in edits {
            let (languages, mut odd) = languages(globs);
            if languages.is_empty() {
                let unknown = match odd.is_empty() {
                    true => "no glob determines the language".to_owned(),
                    false => odd.join(", "),
                };
                let why = format!("its condition is on the syntax tree of code: {unknown}");
                self.keep_as_comment(&why, sheet);
                continue;
            }
            let (ast, refused) = parsing(languages, patterns.clone());
            odd.extend(refused);
            lost.extend(odd);
            for (on, action) in self.actions(&["tool-input"]) {
                let mut draft = self.draft(lost, sheet);
                let needs =
                    "Needs ttsr with the feature `ast`: a build without it rejects the rule.";
                draft.notes.push(needs.to_owned());
                self.scope(&mut draft, &on, action, place, globs);
                draft.set_texts("match.ast.languages", &ast.languages);
                draft.set_texts("match.ast.any", &ast.any);
                self.finish(draft, action, sheet);
            }
        }
    }

    /// Returns a rule with the reports of what was left out and without conditions.
    fn draft(&self, lost: &mut Vec<String>, sheet: &mut ImportedFile) -> RuleDraft {
        let mut draft = RuleDraft::new(self.from.name.to_owned(), self.name(), self.description());
        for what in lost.drain(..) {
            sheet.report_unconverted_part(&mut draft, what);
        }
        draft
    }

    fn scope(
        &self,
        draft: &mut RuleDraft,
        on: &[String],
        action: &str,
        place: &ImportedScope,
        globs: &[String],
    ) {
        draft.set("action", text(action));
        draft.set_texts("on", on);
        if on == ["tool-input"] {
            draft.set_texts("tools", &place.tools);
        }
        draft.set_texts("paths", globs);
        let agents = self.comma_separated("agents");
        let agents: Vec<String> = agents.iter().map(|agent| agent.to_lowercase()).collect();
        draft.set_texts("agents", &agents);
        if agents
            .iter()
            .any(|agent| ["main", "sub"].contains(&&**agent))
        {
            draft.notes.push(
                "`main` and `sub` in `agents` are names of oh-my-pi: the host must use the same names."
                    .to_owned(),
            );
        }
    }

    fn finish(&self, mut draft: RuleDraft, action: &str, sheet: &mut ImportedFile) {
        self.repeat(action, &mut draft);
        if !self.body.is_empty() {
            draft.set("instead", text(self.body));
        }
        sheet.add(draft);
    }

    /// Returns true if the rule is disabled.
    fn is_off(&self) -> bool {
        self.front.get("enabled").and_then(Value::as_bool) == Some(false)
    }

    /// Separates conditions on text from globs on files, which select edits and writes of such files.
    fn conditions(&self) -> (Vec<String>, Vec<String>) {
        let written = LEGACY.iter().map(|key| self.list(key));
        let written = std::iter::once(self.list("condition")).chain(written);
        let all = written.into_iter().find(|all| !all.is_empty());
        let all = all.unwrap_or_default().into_iter();
        let all = all.map(|text| text.trim().to_owned());
        let (globs, conditions) = all
            .filter(|text| !text.is_empty())
            .partition(|text| is_file_glob(text));
        (conditions, globs)
    }

    /// Returns the scopes by their globs on files, and the parts that cannot be expressed.
    fn places(&self, shorthand: &[String]) -> (RuleScopes, Vec<String>) {
        let mut places = RuleScopes::new();
        let mut lost = Vec::new();
        let mut scopes = self.comma_separated("scope");
        let tools = ["edit", "write"];
        let inferred = shorthand
            .iter()
            .flat_map(|glob| tools.map(|tool| format!("tool:{tool}({glob})")));
        scopes.extend(inferred);
        if scopes.is_empty() {
            scopes = vec!["text".to_owned(), "tool".to_owned()];
        }
        let files = self.comma_separated("globs");
        for scope in &scopes {
            let (name, glob) = match scope
                .strip_suffix(')')
                .and_then(|scope| scope.split_once('('))
            {
                Some((name, glob)) => (name.trim(), Some(glob.trim())),
                None => (scope.trim(), None),
            };
            let (on, tool) = match name.strip_prefix("tool:").unwrap_or(name) {
                "text" => ("text", None),
                "thinking" => ("reasoning", None),
                "tool" | "toolcall" | "*" => ("tool-input", None),
                tool => ("tool-input", Some(tool)),
            };
            if glob.is_some() && !files.is_empty() {
                lost.push(format!(
                    "globs {} beside those of {}: only one of them can be used",
                    texts(&files),
                    quoted(scope)
                ));
            }
            let globs = glob.map_or_else(|| files.clone(), divide);
            let place = places.entry(globs).or_default();
            if !place.on.contains(&on) {
                place.on.push(on);
            }
            place.tools.extend(tool.map(str::to_owned));
        }
        (places, lost)
    }

    /// Returns the actions by channel. Named tools are separate from prose, which has no tool.
    fn actions(&self, on: &[&'static str]) -> Vec<(Vec<String>, &'static str)> {
        let mode = self.string("interruptMode").unwrap_or("always");
        let (tool, prose): (Vec<_>, Vec<_>) = on.iter().partition(|on| **on == "tool-input");
        let action = |cuts| if cuts { "retry" } else { "inject" };
        let all = [
            (prose, action(matches!(mode, "always" | "prose-only"))),
            (tool, action(matches!(mode, "always" | "tool-only"))),
        ];
        let all = all.into_iter().filter(|(on, _)| !on.is_empty());
        all.map(|(on, action)| (on.into_iter().map(str::to_owned).collect(), action))
            .collect()
    }

    fn repeat(&self, action: &str, draft: &mut RuleDraft) {
        match self.string("repeatMode") {
            Some("once") => draft.set("repeat.per-session", "1".to_owned()),
            Some("after-gap") => {
                let gap = self
                    .front
                    .get("repeatGap")
                    .and_then(Value::as_u64)
                    .unwrap_or(10);
                draft.set("repeat.cooldown-turns", gap.to_string());
            }
            _ => draft.notes.push(format!(
                "It sets no repetition: the default of `{action}` applies."
            )),
        }
    }

    /// Returns the fields that have an effect there and no equivalent here.
    fn unknown(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for (key, value) in &self.front {
            let odd = match key.as_str() {
                "condition" | "astCondition" | "scope" | "globs" | "agents" => !is_texts(value),
                key if LEGACY.contains(&key) => {
                    !is_texts(value) || self.front.contains_key("condition")
                }
                "enabled" => !value.is_boolean(),
                "name" | "description" | "repeatGap" => false,
                "alwaysApply" => value.as_bool() == Some(true),
                "interruptMode" => !["always", "never", "prose-only", "tool-only"]
                    .contains(&value.as_str().unwrap_or_default()),
                "repeatMode" => {
                    !["once", "after-gap"].contains(&value.as_str().unwrap_or_default())
                }
                _ => !value.is_null(),
            };
            if odd {
                lost.push(format!("{key} = {}", quoted(&value.to_string())));
            }
        }
        lost
    }
}

/// Returns true if the value is a string or a list of strings.
fn is_texts(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(Value::is_string),
        value => value.is_string() || value.is_null(),
    }
}

/// Returns each condition as written and as translated, and the reports of what was left out.
fn translated(conditions: &[String]) -> (Vec<(String, String)>, Vec<String>) {
    let mut all = Vec::new();
    let mut lost = Vec::new();
    for condition in conditions {
        match translate_condition(condition) {
            Ok(translation) => {
                let notes = translation.notes.iter();
                lost.extend(notes.map(|note| format!("condition {}: {note}", quoted(condition))));
                all.push((condition.clone(), translation.regex));
            }
            Err(why) => lost.push(format!("condition {}: {why}", quoted(condition))),
        }
    }
    (all, lost)
}

/// Translates a condition of oh-my-pi: a JavaScript pattern, optionally preceded by `(?ims)` for flags.
fn translate_condition(condition: &str) -> Result<Translation, Untranslatable> {
    let flags = condition
        .strip_prefix("(?")
        .and_then(|rest| rest.split_once(')'));
    match flags {
        Some((flags, pattern))
            if !flags.is_empty() && flags.chars().all(|flag| "ims".contains(flag)) =>
        {
            let mut known = String::new();
            for flag in flags.chars() {
                if !known.contains(flag) {
                    known.push(flag);
                }
            }
            translate(pattern, RegExpFlags::parse(&known)?)
        }
        _ => translate(condition, RegExpFlags::default()),
    }
}

/// Returns true if oh-my-pi reads the condition as a glob on files: it has a wildcard, no syntax that only a pattern
/// has, and either a `/` or the form `*.extension`.
fn is_file_glob(condition: &str) -> bool {
    let is_pattern = condition.contains(['\\', '^', '$', '+', '|', '(', ')']);
    let has_wildcard = condition.contains(['?', '*', '[', ']', '{', '}']);
    let is_extension = condition
        .strip_prefix("*.")
        .is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace));
    !is_pattern && has_wildcard && (condition.contains('/') || is_extension)
}

/// Removes the conditions that do not load and returns the reasons. If none loads, all stay, so that the rule is
/// reported as a whole.
fn loading(conditions: &mut Vec<(String, String)>) -> Vec<String> {
    let problem = |(original, regex): &(String, String)| {
        let why = problem(Condition::any(vec![Pattern::regex(regex)]))?;
        Some(format!("condition {}: {why}", quoted(original)))
    };
    let why: Vec<Option<String>> = conditions.iter().map(problem).collect();
    if why.iter().all(Option::is_some) {
        return Vec::new();
    }
    let mut loads = why.iter().map(Option::is_none);
    conditions.retain(|_| loads.next().unwrap_or_default());
    why.into_iter().flatten().collect()
}

/// Returns the patterns that parse as code, in the languages in which they do, and the reasons for the others. If none
/// parses, all stay, so that the rule is reported as a whole.
fn parsing(languages: Vec<&'static str>, patterns: Vec<String>) -> (Ast, Vec<String>) {
    let problem = |language: &str, pattern: &String| {
        let mut condition = Condition::default();
        condition.ast = Some(shape(&[language], std::slice::from_ref(pattern)));
        problem(condition)
    };
    let (good, bad): (Vec<String>, Vec<String>) = patterns.into_iter().partition(|pattern| {
        let mut languages = languages.iter();
        languages.any(|language| problem(language, pattern).is_none())
    });
    if good.is_empty() {
        return (shape(&languages, &bad), Vec::new());
    }
    let in_none = |pattern: &String| {
        let why = problem(languages.first()?, pattern)?;
        Some(format!("astCondition {}: {why}", quoted(pattern)))
    };
    let mut lost: Vec<String> = bad.iter().filter_map(in_none).collect();
    let trouble = |language: &str| good.iter().find_map(|pattern| problem(language, pattern));
    let (whole, partial): (Vec<_>, Vec<_>) = languages
        .iter()
        .partition(|language| trouble(language).is_none());
    if whole.is_empty() {
        return (shape(&languages, &good), lost);
    }
    let why = partial.into_iter().filter_map(trouble);
    lost.extend(why.map(|why| format!("a language of astCondition: {why}")));
    (shape(&whole, &good), lost)
}

fn shape(languages: &[&str], patterns: &[String]) -> Ast {
    Ast {
        languages: languages.iter().map(|&name| name.to_owned()).collect(),
        any: patterns.to_vec(),
        ..Ast::default()
    }
}

/// Returns the reason why a rule with that condition would not load.
fn problem(condition: Condition) -> Option<String> {
    let mut rule = Rule::new("a/b", Vec::new());
    rule.condition = condition;
    let error = Pack::builder().rule(rule).build().err()?;
    let mut errors = error.diagnostics().iter();
    let first = errors.find(|it| it.level() == Level::Error)?;
    Some(first.message().to_owned())
}

/// Returns the languages of the files that the globs match, in the order of [`Ast::LANGUAGES`], and a report for each
/// glob that determines none.
fn languages(globs: &[String]) -> (Vec<&'static str>, Vec<String>) {
    let mut odd = Vec::new();
    let mut named = Vec::new();
    for glob in globs.iter().flat_map(|glob| alternatives(glob)) {
        match languages_of(&glob) {
            [] => odd.push(format!("{} names no supported language", quoted(&glob))),
            languages => named.extend_from_slice(languages),
        }
    }
    let mut languages = Ast::LANGUAGES.to_vec();
    languages.retain(|language| named.contains(language));
    (languages, odd)
}

fn languages_of(glob: &str) -> &'static [&'static str] {
    let extension = glob.rsplit_once('.').map_or("", |(_, extension)| extension);
    match extension {
        "rs" => &["rust"],
        // Users write the first for both.
        "ts" | "mts" | "cts" => &["typescript", "tsx"],
        "tsx" => &["tsx"],
        "js" | "mjs" | "cjs" | "jsx" => &["javascript"],
        "py" | "pyi" => &["python"],
        "go" => &["go"],
        _ => &[],
    }
}

/// Expands the last `{a,b}` of a glob into one glob per alternative. Only the end of the glob matters, because it has
/// the file extension.
fn alternatives(glob: &str) -> Vec<String> {
    let Some((start, rest)) = glob.rsplit_once('{') else {
        return vec![glob.to_owned()];
    };
    let Some((list, end)) = rest.split_once('}') else {
        return vec![glob.to_owned()];
    };
    let each = list.split(',').map(str::trim);
    each.map(|one| format!("{start}{one}{end}")).collect()
}

/// Splits a list written as one string at commas outside of brackets.
fn divide(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let parts = text.split(|c: char| {
        match c {
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    let parts = parts.map(|part| part.trim().trim_matches(['"', '\'']).to_owned());
    parts.filter(|part| !part.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commas_in_brackets_do_not_divide() {
        assert_eq!(
            divide("text, tool:edit(*.{ts,tsx}), 'a'"),
            ["text", "tool:edit(*.{ts,tsx})", "a"]
        );
    }

    #[test]
    fn globs_say_the_language_of_code() {
        let all = |globs: &[&str]| {
            let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
            languages(&globs)
        };
        assert_eq!(all(&["*.go"]).0, ["go"]);
        assert_eq!(all(&["src/**/*.{tsx, rs}"]).0, ["rust", "tsx"]);
        assert_eq!(
            all(&["*.test.ts", "*.py"]).0,
            ["typescript", "tsx", "python"]
        );
        assert_eq!(all(&[]), (vec![], vec![]));
        let (known, odd) = all(&["**/*.{js,svelte}", "Makefile"]);
        assert_eq!(known, ["javascript"]);
        assert_eq!(odd.len(), 2, "{odd:?}");
        assert!(odd[0].contains("*.svelte"), "{odd:?}");
    }

    #[test]
    fn patterns_stay_that_are_code_in_languages_where_they_are() {
        let patterns = ["$X as $T", "f($X)", "}{"].map(str::to_owned).to_vec();
        let (ast, lost) = parsing(vec!["typescript", "javascript"], patterns);
        assert_eq!(ast.languages, ["typescript"]);
        assert_eq!(ast.any, ["$X as $T", "f($X)"]);
        assert_eq!(lost.len(), 2, "{lost:?}");
        let (ast, lost) = parsing(vec!["go"], vec!["}{".to_owned()]);
        assert_eq!((ast.languages.len(), ast.any.len(), lost.len()), (1, 1, 0));
    }

    #[test]
    fn globs_are_told_from_patterns() {
        for glob in ["*.rs", "src/**/*.ts", "*.{ts,tsx}", "docs/[a-z]*"] {
            assert!(is_file_glob(glob), "{glob}");
        }
        for pattern in [
            "a*",
            "*.a b",
            "a/b",
            r"\.rs",
            "(*.rs)",
            "*.rs|*.ts",
            "",
            "console.log",
        ] {
            assert!(!is_file_glob(pattern), "{pattern}");
        }
    }

    #[test]
    fn conditions_mean_what_they_mean_in_javascript() {
        let regex = |condition| translate_condition(condition).unwrap().regex;
        assert_eq!(regex("(?i)rm"), "[Rr][Mm]");
        assert_eq!(regex("(?ims)^a"), r"(?:^|[\n\r\x{2028}\x{2029}])[Aa]");
        assert_eq!(regex(r"\d"), "[0-9]");
        assert!(translate_condition("(?x)a").is_err());
    }
}
