//! Markdown with a front matter: rules of oh-my-pi, Cursor, Windsurf and Cline.
//!
//! Only a `condition` can be matched in a stream. A file without one is guidance for a prompt, and is kept
//! as a comment.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Foreign;
use super::draft::{Draft, Sheet, quoted, text, texts};

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
    match page.list("condition").as_slice() {
        [] => page.keep_as_comment(sheet),
        conditions => page.rules(conditions, sheet),
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

    fn keep_as_comment(&self, sheet: &mut Sheet) {
        let why = match self.front.contains_key("astCondition") {
            true => "its condition is on the syntax tree of code",
            false => "guidance for a prompt, without a condition that could be matched",
        };
        let what = format!("{why}\n{}\n{}", self.description(), self.body);
        let place = self.from.name;
        sheet.keep(place, why, &what);
    }

    fn rules(&self, conditions: &[String], sheet: &mut Sheet) {
        let conditions: Vec<String> = conditions.iter().map(|regex| rust_regex(regex)).collect();
        let (places, mut lost) = self.places();
        lost.extend(self.unknown());
        for (glob, mut place) in places {
            for (on, action) in self.actions(std::mem::take(&mut place.on)) {
                let mut draft =
                    Draft::new(self.from.name.to_owned(), self.name(), self.description());
                for what in lost.drain(..) {
                    sheet.leave_out_of(&mut draft, what);
                }
                draft.set("action", text(action));
                draft.set_texts("on", &on);
                if on == ["tool-input"] {
                    draft.set_texts("tools", &place.tools);
                }
                draft.set_texts("paths", &glob);
                draft.set_regexes("match.any", &conditions);
                self.repeat(action, &mut draft);
                if !self.body.is_empty() {
                    draft.set("instead", text(self.body));
                }
                sheet.add(draft);
            }
        }
    }

    /// Where it looks, by globs on files; and what of it cannot be said.
    fn places(&self) -> (BTreeMap<Vec<String>, Place>, Vec<String>) {
        let mut places: BTreeMap<Vec<String>, Place> = BTreeMap::new();
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
    fn actions(&self, on: Vec<&'static str>) -> Vec<(Vec<String>, &'static str)> {
        let mode = self.string("interruptMode").unwrap_or("always");
        let (tool, prose): (Vec<_>, Vec<_>) = on.into_iter().partition(|on| *on == "tool-input");
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
                "name" | "description" | "condition" | "scope" | "globs" | "repeatGap" => false,
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
