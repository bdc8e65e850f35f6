//! The front matter of Markdown files: YAML between two lines of `---`.
//!
//! Accepts what the other tools accept although it is not YAML: unquoted globs, and lines `key: value` in broken YAML.

use serde_json::{Map, Value};

/// Maximum size of a front matter in bytes.
const FRONT: usize = 64 << 10;

/// Splits a text into the front matter and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
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

pub(super) fn fields(front: &str) -> Result<Map<String, Value>, String> {
    if front.len() > FRONT {
        return Err(format!("{} bytes, limit is {FRONT}", front.len()));
    }
    if front.trim().is_empty() {
        return Ok(Map::new());
    }
    let globs: String = front.split_inclusive('\n').map(quote_glob).collect();
    let error = match yaml(&globs) {
        Ok(fields) => return Ok(fields),
        Err(error) => error,
    };
    // Oh-my-pi falls back to lines of `key: value` if the whole is not valid YAML.
    let lines: String = globs.split_inclusive('\n').map(quote_line).collect();
    yaml(&lines).map_err(|_| error)
}

fn yaml(front: &str) -> Result<Map<String, Value>, String> {
    match serde_saphyr::from_str(front) {
        Ok(Value::Object(fields)) => Ok(fields),
        Ok(_) => Err("not a table".to_owned()),
        Err(error) => Err(error
            .to_string()
            .lines()
            .next()
            .unwrap_or_default()
            .to_owned()),
    }
}

/// Quotes the value of an unindented line `key: value`, unless the line is valid YAML.
fn quote_line(line: &str) -> String {
    let is_key = |key: &str| {
        !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
    };
    match line.split_once(": ") {
        Some((key, value)) if is_key(key) && yaml(line).is_err() => {
            format!("{key}: '{}'\n", value.trim().replace('\'', "''"))
        }
        _ => line.to_owned(),
    }
}

/// Quotes a value that begins with `*`: YAML reads it as an alias, the tools read it as a glob.
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
    fn hostile_front_matters_are_refused_or_plain_texts() {
        let deep = format!("a: {}", "[".repeat(30_000));
        let nested = "- ".repeat(30_000) + "x";
        let bomb = "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\ng: [*f,*f,*f,*f,*f,*f,*f,*f]\n";
        for text in [&deep[..], "a: b: c: ["] {
            let found = fields(text).unwrap();
            assert!(found.values().all(Value::is_string), "{text:.20}");
        }
        let found = fields(bomb).unwrap();
        assert!(found.values().all(|value| value.to_string().len() < 100));
        for text in [&nested[..], "\0"] {
            assert!(fields(text).is_err(), "{text:.20}");
        }
    }

    #[test]
    fn lines_that_are_no_yaml_are_read_as_they_stand() {
        let found = fields("scope: \"text\",\"thinking\"\ncondition: a: b\nname: x\n").unwrap();
        assert_eq!(found["scope"], "\"text\",\"thinking\"");
        assert_eq!(found["condition"], "a: b");
        assert_eq!(found["name"], "x");
    }
}
