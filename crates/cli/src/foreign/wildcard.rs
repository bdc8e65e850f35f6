//! Converts simple regular expressions to texts with wildcards, and to globs on files.
//!
//! Returns `None` for every expression without an exact equivalent.

use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Maximum number of texts for one expression.
const TEXTS: usize = 64;
/// Private-use characters that mark the two ends while a text is built.
const START: char = '\u{F0000}';
const END: char = '\u{F0001}';

/// Returns texts with `*` and `?` that match the whole texts in which `regex` is found. The comparison ignores case, so
/// `(?i)` has no effect.
pub(super) fn wildcards(regex: &str) -> Option<Vec<String>> {
    let regex = regex.strip_prefix("(?i)").unwrap_or(regex);
    let found = texts(&regex_syntax::parse(regex).ok()?)?;
    let whole = found.into_iter().map(|text| {
        let (start, text) = match text.strip_prefix(START) {
            Some(text) => ("", text),
            None => ("*", text.as_str()),
        };
        let (text, end) = match text.strip_suffix(END) {
            Some(text) => (text, ""),
            None => (text, "*"),
        };
        (!text.is_empty() && !text.contains([START, END])).then(|| format!("{start}{text}{end}"))
    });
    whole.collect()
}

/// Returns the wildcard text that finds `text` anywhere, or `None` if it is empty or has special characters.
pub(super) fn containing(text: &str) -> Option<String> {
    (!text.is_empty() && !text.contains('\\')).then(|| format!("*{}*", escaped(text)))
}

/// Returns globs on files that match the paths in which `regex` is found.
pub(super) fn globs(regex: &str) -> Option<Vec<String>> {
    let (any_case, regex) = strip(regex, &["(?i)"]);
    let (at_segment, regex) = strip_any(regex, &["(?:^|/)", "(^|/)", r"(?:^|\/)", r"(^|\/)"]);
    let (at_start, regex) = strip(regex, &["^"]);
    let (is_folder, regex) = strip_end(regex, &["(?:/.*)?$", "(?:/.*?)?$"]);
    let (at_end, regex) = strip_end(regex, &["$"]);
    let found = texts(&regex_syntax::parse(regex).ok()?)?;
    let mut globs = Vec::new();
    for text in found {
        // Wildcards of a text match `/`, wildcards of a glob do not.
        if text.is_empty() || text.contains(['*', '?', START, END]) {
            return None;
        }
        let text = if any_case { both_cases(&text) } else { text };
        let start = match (at_start, at_segment) {
            (true, _) => "/",
            (_, true) => "**/",
            _ => "**/*",
        };
        match (at_end, is_folder) {
            (_, true) => globs.extend([format!("{start}{text}"), format!("{start}{text}/**")]),
            (true, _) => globs.push(format!("{start}{text}")),
            _ => globs.extend([format!("{start}{text}*"), format!("{start}{text}*/**")]),
        }
    }
    Some(globs)
}

fn strip<'a>(text: &'a str, prefixes: &[&str]) -> (bool, &'a str) {
    strip_any(text, prefixes)
}

fn strip_any<'a>(text: &'a str, prefixes: &[&str]) -> (bool, &'a str) {
    let rest = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix));
    (rest.is_some(), rest.unwrap_or(text))
}

fn strip_end<'a>(text: &'a str, suffixes: &[&str]) -> (bool, &'a str) {
    let rest = suffixes.iter().find_map(|suffix| text.strip_suffix(suffix));
    (rest.is_some(), rest.unwrap_or(text))
}

/// Returns every text that `hir` matches. The regex parser bounds the depth of the recursion.
fn texts(hir: &Hir) -> Option<Vec<String>> {
    let found = match hir.kind() {
        HirKind::Empty => vec![String::new()],
        HirKind::Literal(literal) => {
            let text = std::str::from_utf8(&literal.0).ok()?;
            vec![(!text.contains('\\')).then(|| escaped(text))?]
        }
        HirKind::Class(class) => members(class)?,
        HirKind::Look(Look::Start) => vec![START.to_string()],
        HirKind::Look(Look::End) => vec![END.to_string()],
        HirKind::Look(_) => return None,
        HirKind::Capture(capture) => texts(&capture.sub)?,
        HirKind::Repetition(repetition) => repeated(
            &texts(&repetition.sub)?,
            repetition.min as usize,
            repetition.max.map(|max| max as usize),
        )?,
        HirKind::Concat(parts) => joined(parts.iter().map(texts))?,
        HirKind::Alternation(parts) => {
            let parts: Option<Vec<Vec<String>>> = parts.iter().map(texts).collect();
            parts?.concat()
        }
    };
    (found.len() <= TEXTS).then_some(found)
}

fn repeated(of: &[String], min: usize, max: Option<usize>) -> Option<Vec<String>> {
    match max {
        None if of == ["?"] => (min <= TEXTS).then(|| vec!["?".repeat(min) + "*"]),
        Some(max) if max <= 4 => {
            let counts = (min..=max).map(|times| joined((0..times).map(|_| Some(of.to_vec()))));
            let counts: Option<Vec<Vec<String>>> = counts.collect();
            Some(counts?.concat())
        }
        _ => None,
    }
}

fn joined(parts: impl Iterator<Item = Option<Vec<String>>>) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    for part in parts {
        let part = part?;
        if all.len() * part.len() > TEXTS {
            return None;
        }
        let longer = all
            .iter()
            .flat_map(|start| part.iter().map(move |end| format!("{start}{end}")));
        all = longer.collect();
    }
    Some(all)
}

/// Returns the members of a small class, or `?` for the class of all characters.
fn members(class: &Class) -> Option<Vec<String>> {
    let Class::Unicode(class) = class else {
        return None;
    };
    let size: u64 = class.iter().map(|range| range.len() as u64).sum();
    // The class may lack the line feed: a secret contains none.
    if size >= 0x11_0000 - 0x800 - 1 {
        return Some(vec!["?".to_owned()]);
    }
    if size > 8 {
        return None;
    }
    let all = class.iter().flat_map(|range| range.start()..=range.end());
    let all = all.map(|c| (c != '\\').then(|| escaped(&c.to_string())));
    all.collect()
}

fn escaped(text: &str) -> String {
    let escape = |c: char| match c {
        '*' | '?' | '[' | ']' | '{' | '}' => format!("[{c}]"),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

/// Replaces each letter by the class of its two cases.
fn both_cases(glob: &str) -> String {
    let both = |c: char| match c.is_ascii_alphabetic() {
        true => format!("[{}{}]", c.to_ascii_lowercase(), c.to_ascii_uppercase()),
        false => c.to_string(),
    };
    glob.chars().map(both).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_simple_pattern_becomes_wildcards() {
        for (regex, expected) in [
            ("abc", &["*abc*"][..]),
            ("^abc$", &["abc"]),
            (r".+EXAMPLE$", &["*?*EXAMPLE"]),
            (r"(?i)^true|false$", &["true*", "*false"]),
            (r"^\$\{a\}$", &["$[{]a[}]"]),
            (r"^x[ab]?$", &["x", "xa", "xb"]),
        ] {
            assert_eq!(wildcards(regex).unwrap(), expected, "{regex}");
        }
        for regex in [
            r"\w+",
            "a+",
            r"\bword\b",
            "^$",
            "(",
            r"a\\b",
            "a^b",
            "[0-9]{40}",
        ] {
            assert_eq!(wildcards(regex), None, "{regex}");
        }
    }

    #[test]
    fn a_simple_pattern_becomes_globs() {
        for (regex, expected) in [
            (r"\.ya?ml$", &["**/*.yml", "**/*.yaml"][..]),
            (r"(?i)\.p$", &["**/*.[pP]"]),
            (r"(?:^|/)a/b$", &["**/a/b"]),
            (r"(?:^|/)a(?:/.*)?$", &["**/a", "**/a/**"]),
            (r"lock", &["**/*lock*", "**/*lock*/**"]),
            (r"^a$", &["/a"]),
        ] {
            assert_eq!(globs(regex).unwrap(), expected, "{regex}");
        }
        for regex in [r"a.*b$", r"\w$", "(?:^|/)$", "("] {
            assert_eq!(globs(regex), None, "{regex}");
        }
    }
}
