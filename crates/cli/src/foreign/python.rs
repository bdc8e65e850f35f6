//! Translates regular expressions of Python's `re` into regular expressions of this crate.
//!
//! The two differ in some syntax, which is translated here. One difference remains: `\w` here contains marks and no
//! numeric characters such as fractions; in Python it is the other way round.

/// Translates a pattern of `re.search`.
///
/// # Errors
/// A construct without an equivalent.
pub(super) fn regex(pattern: &str, ignore_case: bool) -> Result<String, String> {
    let mut out = String::from(if ignore_case { "(?i)" } else { "" });
    let mut rest = pattern;
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\\' => escape(rest, &mut out)?,
            '[' => class(rest, &mut out)?,
            '(' => group(rest, &mut out)?,
            '{' => brace(rest, &mut out),
            // `$` also matches before a line feed at the end of the text.
            '$' if matches!(rest.as_bytes().get(1), None | Some(b'|' | b')')) => {
                out.push_str(r"(?:\n?$)");
                &rest[1..]
            }
            c => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    Ok(out)
}

fn escape<'p>(rest: &'p str, out: &mut String) -> Result<&'p str, String> {
    let Some(c) = rest[1..].chars().next() else {
        return Err("a `\\` at its end".to_owned());
    };
    match c {
        'Z' => out.push_str(r"\z"),
        // `\<` and `\>` are word boundaries here and literals in Python.
        '<' | '>' => out.push(c),
        '0' => return Err("an octal escape".to_owned()),
        c if c.is_ascii() => {
            out.push('\\');
            out.push(c);
        }
        c => out.push(c),
    }
    Ok(&rest[1 + c.len_utf8()..])
}

/// Translates a class. In Python, `[` and the operator pairs of this crate are literals in a class.
fn class<'p>(rest: &'p str, out: &mut String) -> Result<&'p str, String> {
    out.push('[');
    let mut inner = &rest[1..];
    if let Some(after) = inner.strip_prefix('^') {
        out.push('^');
        inner = after;
    }
    let mut is_first = true;
    while let Some(c) = inner.chars().next() {
        inner = match c {
            ']' if is_first => {
                out.push_str(r"\]");
                &inner[1..]
            }
            ']' => {
                out.push(']');
                return Ok(&inner[1..]);
            }
            '\\' => escape(inner, out)?,
            '[' | '&' | '~' => {
                out.push('\\');
                out.push(c);
                &inner[1..]
            }
            '-' if inner.starts_with("--") => {
                out.push_str(r"\-");
                &inner[1..]
            }
            c => {
                out.push(c);
                &inner[c.len_utf8()..]
            }
        };
        is_first = false;
    }
    Err("an unclosed `[`".to_owned())
}

fn group<'p>(rest: &'p str, out: &mut String) -> Result<&'p str, String> {
    if let Some(comment) = rest.strip_prefix("(?#") {
        return match comment.split_once(')') {
            Some((_, after)) => Ok(after),
            None => Err("an unclosed comment".to_owned()),
        };
    }
    if let Some(reference) = rest.strip_prefix("(?P=") {
        let Some((name, after)) = reference.split_once(')') else {
            return Err("an unclosed back-reference".to_owned());
        };
        out.push_str(r"\k<");
        out.push_str(name);
        out.push('>');
        return Ok(after);
    }
    for (flags, why) in [
        ("(?a", "the flag `a`"),
        ("(?L", "the flag `L`"),
        ("(?(", "a conditional group"),
    ] {
        if rest.starts_with(flags) {
            return Err(why.to_owned());
        }
    }
    out.push('(');
    Ok(&rest[1..])
}

/// Translates `{`. It is a literal if it does not start a repetition; `{,3}` starts at 0.
fn brace<'p>(rest: &'p str, out: &mut String) -> &'p str {
    let count = rest[1..].split_once('}').map(|(count, _)| count);
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let bounds = count.map(|count| count.split_once(',').unwrap_or((count, count)));
    match bounds {
        Some((min, max))
            if is_number(min) && is_number(max) && !(min.is_empty() && max.is_empty()) =>
        {
            out.push('{');
            if min.is_empty() {
                out.push('0');
            }
        }
        _ => out.push_str(r"\{"),
    }
    &rest[1..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_written_anew() {
        for (python, ours) in [
            (r"rm\s+-rf", r"rm\s+-rf"),
            (r"\.env$|\.env\.", r"\.env(?:\n?$)|\.env\."),
            (r"a\<b\Z", r"a<b\z"),
            (r"[]a[&&]{,3}", r"[\]a\[\&\&]{0,3}"),
            ("x{a}", r"x\{a}"),
            ("(?P<q>a)(?P=q)(?#note)", r"(?P<q>a)\k<q>"),
        ] {
            assert_eq!(regex(python, false).unwrap(), ours, "{python}");
        }
        assert_eq!(regex("a", true).unwrap(), "(?i)a");
        for pattern in ["[a", "\\", "(?a)b", "(?(1)a|b)", r"\07"] {
            assert!(regex(pattern, false).is_err(), "{pattern}");
        }
    }
}
