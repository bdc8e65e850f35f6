//! Markdown with a front matter: rules of oh-my-pi, Cursor, Windsurf and Cline.
//!
//! Only a `condition` on text and an `astCondition` on code can be matched in a stream. A file without either
//! is guidance for a prompt, and is kept as a comment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Foreign;
use super::draft::{Draft, Sheet, quoted, text, texts};
use crate::pack::{Level, Pack};
use crate::rule::{Ast, Condition, Pattern, Rule};

/// Most bytes of a front matter.
const FRONT: usize = 64 << 10;

pub(super) fn read(from: &Foreign<'_>, sheet: &mut Sheet) -> Result<(), String> {
    let (front, body) = split(from.text);
    let front = match fields(front) {
        Ok(front) => front,
        Err(error) => {
            sheet.leave_out(
                from.name,
                format!("its front matter cannot be read: {error}"),
            );
            return Ok(());
        }
    };
    let page = Page {
        from,
        front,
        body: body.trim(),
    };
    let conditions = page.list("condition");
    let shapes = page.list("astCondition");
    if conditions.is_empty() && shapes.is_empty() {
        let why = "guidance for a prompt, without a condition that could be matched";
        page.keep_as_comment(why, sheet);
        return Ok(());
    }
    let (places, mut lost) = page.places();
    lost.extend(page.unknown());
    if !conditions.is_empty() {
        page.rules(&conditions, &places, &mut lost, sheet);
    }
    if !shapes.is_empty() {
        page.shapes(shapes, &places, &mut lost, sheet);
    }
    Ok(())
}

/// The front matter and the rest.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches('\u{feff}');
    let Some(rest) = text.strip_prefix("---") else {
        return ("", text);
    };
    let Some((_, rest)) = rest.split_once('\n') else {
        return ("", text);
    };
    let mut length = 0;
    for line in rest.split_inclusive('\n') {
        if line.trim_end() == "---" {
            return (&rest[..length], &rest[length + line.len()..]);
        }
        length += line.len();
    }
    ("", text)
}

fn fields(front: &str) -> Result<Map<String, Value>, String> {
    if front.len() > FRONT {
        return Err(format!("{} bytes, limit is {FRONT}", front.len()));
    }
    if front.trim().is_empty() {
        return Ok(Map::new());
    }
    let front: String = front.split_inclusive('\n').map(quote_glob).collect();
    match serde_saphyr::from_str(&front) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("it is no table".to_owned()),
        Err(error) => Err(error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

/// Puts quotes around a value that begins with `*`: YAML would look for an anchor, the tools read a glob.
fn quote_glob(line: &str) -> String {
    let (start, value) = match line
        .find(": *")
        .map(|at| at + 2)
        .or_else(|| line.find("- *").map(|at| at + 2))
    {
        Some(at) => line.split_at(at),
        None => return line.to_owned(),
    };
    match start.contains(['"', '\'', '[', '{', '|']) {
        true => line.to_owned(),
        false => format!("{start}'{}'\n", value.trim().replace('\'', "''")),
    }
}

struct Page<'a> {
    from: &'a Foreign<'a>,
    front: Map<String, Value>,
    body: &'a str,
}

/// Where one rule of a page looks: tools by their files, or prose.
#[derive(Default)]
struct Place {
    on: Vec<&'static str>,
    tools: Vec<String>,
}

/// By globs on files.
type Places = BTreeMap<Vec<String>, Place>;

impl Page<'_> {
    /// A text, or a list of them.
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

    /// The same where commas divide a text, but for those in brackets.
    fn divided(&self, key: &str) -> Vec<String> {
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

    fn keep_as_comment(&self, why: &str, sheet: &mut Sheet) {
        let what = format!("{why}\n{}\n{}", self.description(), self.body);
        let place = self.from.name;
        sheet.keep(place, why, &what);
    }

    /// What conditions on text become. The first rule says what is lost.
    fn rules(
        &self,
        conditions: &[String],
        places: &Places,
        lost: &mut Vec<String>,
        sheet: &mut Sheet,
    ) {
        let conditions = conditions.iter().map(|regex| rust_regex(regex)).collect();
        let (conditions, refused) = loading(conditions);
        lost.extend(refused);
        for (globs, place) in places {
            for (on, action) in self.actions(&place.on) {
                let mut draft = self.draft(lost, sheet);
                self.scope(&mut draft, &on, action, place, globs);
                draft.set_regexes("match.any", &conditions);
                self.finish(draft, action, sheet);
            }
        }
    }

    /// What conditions on the syntax tree become: a rule for the code of edits, for nothing else is looked at
    /// there. The globs say what language it is in.
    fn shapes(
        &self,
        patterns: Vec<String>,
        places: &Places,
        lost: &mut Vec<String>,
        sheet: &mut Sheet,
    ) {
        let edits = places
            .iter()
            .filter(|(_, place)| place.on.contains(&"tool-input"));
        let mut edits = edits.peekable();
        if edits.peek().is_none() {
            let why = "its condition is on the syntax tree of code, and it looks at none";
            self.keep_as_comment(why, sheet);
        }
        for (globs, place) in edits {
            let (languages, mut odd) = languages(globs);
            if languages.is_empty() {
                let unknown = match odd.is_empty() {
                    true => "no glob says in which language".to_owned(),
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
                    "Needs ttsr with the feature `ast`: a build without it refuses the rule.";
                draft.notes.push(needs.to_owned());
                self.scope(&mut draft, &on, action, place, globs);
                draft.set_texts("match.ast.languages", &ast.languages);
                draft.set_texts("match.ast.any", &ast.any);
                self.finish(draft, action, sheet);
            }
        }
    }

    /// A rule that says what is lost, and nothing else yet.
    fn draft(&self, lost: &mut Vec<String>, sheet: &mut Sheet) -> Draft {
        let mut draft = Draft::new(self.from.name.to_owned(), self.name(), self.description());
        for what in lost.drain(..) {
            sheet.leave_out_of(&mut draft, what);
        }
        draft
    }

    fn scope(
        &self,
        draft: &mut Draft,
        on: &[String],
        action: &str,
        place: &Place,
        globs: &[String],
    ) {
        draft.set("action", text(action));
        draft.set_texts("on", on);
        if on == ["tool-input"] {
            draft.set_texts("tools", &place.tools);
        }
        draft.set_texts("paths", globs);
    }

    fn finish(&self, mut draft: Draft, action: &str, sheet: &mut Sheet) {
        self.repeat(action, &mut draft);
        if !self.body.is_empty() {
            draft.set("instead", text(self.body));
        }
        sheet.add(draft);
    }

    /// Where it looks, by globs on files; and what of it cannot be said.
    fn places(&self) -> (Places, Vec<String>) {
        let mut places = Places::new();
        let mut lost = Vec::new();
        let mut scopes = self.divided("scope");
        if scopes.is_empty() {
            scopes = vec!["text".to_owned(), "tool".to_owned()];
        }
        let files = self.divided("globs");
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
                    "globs {} beside those of {}: it would take both",
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

    /// What is done on which channels. Tools that are named stand apart from prose, for prose has none.
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

    fn repeat(&self, action: &str, draft: &mut Draft) {
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
                "How often it acts is not said: what holds for `{action}` holds."
            )),
        }
    }

    /// Fields that say something and cannot be carried over.
    fn unknown(&self) -> Vec<String> {
        let mut lost = Vec::new();
        for (key, value) in &self.front {
            let odd = match key.as_str() {
                "condition" | "astCondition" | "scope" | "globs" => !is_texts(value),
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

/// Whether it is a text, or a list of nothing else.
fn is_texts(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().all(Value::is_string),
        value => value.is_string() || value.is_null(),
    }
}

/// The conditions that load, and why others do not. Where none does all stay, for the rule to be told as a whole.
fn loading(conditions: Vec<String>) -> (Vec<String>, Vec<String>) {
    let problem = |regex: &String| {
        let why = problem(Condition::any(vec![Pattern::regex(regex)]))?;
        Some(format!("condition {}: {why}", quoted(regex)))
    };
    let (good, bad): (Vec<String>, Vec<String>) = conditions
        .into_iter()
        .partition(|regex| problem(regex).is_none());
    if good.is_empty() {
        return (bad, Vec::new());
    }
    let why = bad.iter().filter_map(problem).collect();
    (good, why)
}

/// The patterns that are code, in the languages in which they are, and what is left of both and why. Where
/// nothing would remain all stay, for the rule to be told as a whole.
fn parsing(languages: Vec<&'static str>, patterns: Vec<String>) -> (Ast, Vec<String>) {
    let problem = |language: &str, pattern: &String| {
        problem(Condition {
            ast: Some(shape(&[language], std::slice::from_ref(pattern))),
            ..Condition::default()
        })
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

/// Why a rule with that condition would not load.
fn problem(condition: Condition) -> Option<String> {
    let mut rule = Rule::new("a/b", Vec::new());
    rule.condition = condition;
    let error = Pack::builder().rule(rule).build().err()?;
    let mut errors = error.diagnostics().iter();
    let first = errors.find(|it| it.level() == Level::Error)?;
    Some(first.message().to_owned())
}

/// The languages of the files that any of the globs takes, in the order of [`Ast::LANGUAGES`]; and what is
/// wrong with globs that name none.
fn languages(globs: &[String]) -> (Vec<&'static str>, Vec<String>) {
    let mut odd = Vec::new();
    let mut named = Vec::new();
    for glob in globs.iter().flat_map(|glob| alternatives(glob)) {
        match languages_of(&glob) {
            [] => odd.push(format!("{} names no language that is read", quoted(&glob))),
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
        // People name both with the first.
        "ts" | "mts" | "cts" => &["typescript", "tsx"],
        "tsx" => &["tsx"],
        "js" | "mjs" | "cjs" | "jsx" => &["javascript"],
        "py" | "pyi" => &["python"],
        "go" => &["go"],
        _ => &[],
    }
}

/// What a glob stands for that says `{a,b}`: one glob for each. Only the last braces count, for only what
/// stands at the end is asked for.
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

/// The parts of a list written as a text: commas divide, but not in brackets.
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

/// A regular expression of JavaScript as one of ours: there `[` and `&&` are plain in a class.
fn rust_regex(regex: &str) -> String {
    let mut out = String::new();
    let mut in_class = false;
    let mut chars = regex.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                out.push(c);
                out.extend(chars.next());
                continue;
            }
            '[' if in_class => out.push('\\'),
            '[' => {
                in_class = true;
                out.push(c);
                // Negation and a `]` right behind it: `[^]` is any character there.
                if chars.next_if_eq(&'^').is_some() {
                    out.push('^');
                }
                continue;
            }
            ']' => in_class = false,
            '&' | '~' if in_class && chars.peek() == Some(&c) => out.push('\\'),
            _ => {}
        }
        out.push(c);
    }
    out.replace("[^]", r"[\s\S]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_front_matter_ends_at_its_line() {
        assert_eq!(split("---\na: 1\n---\nb"), ("a: 1\n", "b"));
        assert_eq!(split("---\r\na: 1\r\n---\r\nb"), ("a: 1\r\n", "b"));
        assert_eq!(split("---\na: 1\nb"), ("", "---\na: 1\nb"));
        assert_eq!(split("b"), ("", "b"));
    }

    #[test]
    fn globs_need_no_quotes() {
        let found = fields("globs: *.ts,*.tsx\nalwaysApply: false\nlist:\n  - *.rs\n").unwrap();
        assert_eq!(found["globs"], "*.ts,*.tsx");
        assert_eq!(found["list"][0], "*.rs");
        assert_eq!(found["alwaysApply"], false);
    }

    #[test]
    fn hostile_front_matters_are_refused() {
        let deep = format!("a: {}", "[".repeat(30_000));
        let nested = "- ".repeat(30_000) + "x";
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
        for text in [&deep[..], &nested, bomb, "a: b: c: [", "\0"] {
            assert!(fields(text).is_err(), "{:.20}", text);
        }
    }

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
    #[cfg(feature = "ast")]
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
    fn classes_of_javascript_are_read() {
        for (js, ours) in [
            ("[[a]", r"[\[a]"),
            ("[^]", r"[\s\S]"),
            ("[a&&b]", r"[a\&&b]"),
            (r"\[[^\]]", r"\[[^\]]"),
        ] {
            assert_eq!(rust_regex(js), ours);
            assert!(regex_syntax::parse(ours).is_ok(), "{ours}");
        }
    }
}
