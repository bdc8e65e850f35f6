//! The imports of Rust sources, read from their tokens: for tests of layers.

use std::collections::BTreeSet;

/// Returns the tokens of a source text that are identifiers or punctuation; comments and literals are left out.
pub fn tokens(text: &str) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    while at < chars.len() {
        let rest = &chars[at..];
        match rest[0] {
            '/' if rest.get(1) == Some(&'/') => {
                at += rest.iter().take_while(|&&c| c != '\n').count();
            }
            '/' if rest.get(1) == Some(&'*') => {
                let end = rest.windows(2).position(|pair| pair == ['*', '/']);
                at += end.map_or(rest.len(), |end| end + 2);
            }
            '"' => {
                at += 1;
                while at < chars.len() && chars[at] != '"' {
                    at += if chars[at] == '\\' { 2 } else { 1 };
                }
                at += 1;
            }
            // A character literal, as opposed to a lifetime.
            '\'' if rest.get(1) == Some(&'\\') => {
                at += 3 + rest[3..].iter().take_while(|&&c| c != '\'').count() + 1;
            }
            '\'' if rest.get(2) == Some(&'\'') => at += 3,
            c if is_word(c) => {
                let word: String = rest.iter().take_while(|&&c| is_word(c)).collect();
                at += word.chars().count();
                let hashes = chars[at..].iter().take_while(|&&c| c == '#').count();
                let is_raw =
                    matches!(&*word, "r" | "br" | "cr") && chars.get(at + hashes) == Some(&'"');
                if is_raw {
                    let close: Vec<char> = format!("\"{}", "#".repeat(hashes)).chars().collect();
                    at += hashes + 1;
                    let end = chars[at..].windows(close.len()).position(|it| it == close);
                    at += end.map_or(chars.len() - at, |end| end + close.len());
                } else {
                    tokens.push(word);
                }
            }
            c => {
                if !c.is_whitespace() {
                    tokens.push(c.to_string());
                }
                at += 1;
            }
        }
    }
    tokens
}

/// Returns the index after the group that opens at `from`.
fn after_group(tokens: &[String], from: usize) -> usize {
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(from) {
        match &**token {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return index + 1;
        }
    }
    tokens.len()
}

/// Removes the items that only tests have; returns the names of the test modules with files of their own.
pub fn without_tests(tokens: &[String]) -> (Vec<String>, BTreeSet<String>) {
    let (mut kept, mut modules) = (Vec::new(), BTreeSet::new());
    let mut at = 0;
    while at < tokens.len() {
        let is_attribute = tokens[at] == "#" && tokens.get(at + 1).is_some_and(|next| next == "[");
        let end = if is_attribute {
            after_group(tokens, at + 1)
        } else {
            at
        };
        let attribute = &tokens[at..end];
        let is_test = attribute.get(2).is_some_and(|it| it == "cfg")
            && attribute.contains(&"test".to_owned())
            && !attribute.contains(&"not".to_owned());
        if !is_test {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends at a semicolon, or after its body.
        let mut item = end;
        while item < tokens.len() && tokens[item] != ";" && tokens[item] != "{" {
            let opens = matches!(&*tokens[item], "(" | "[");
            item = if opens {
                after_group(tokens, item)
            } else {
                item + 1
            };
        }
        let is_file = tokens.get(item).is_some_and(|it| it == ";") && tokens[item - 2] == "mod";
        if is_file {
            modules.insert(tokens[item - 1].clone());
        }
        let has_body = tokens.get(item).is_some_and(|it| it == "{");
        at = if has_body {
            after_group(tokens, item)
        } else {
            item + 1
        };
        // `use a::{b};` ends with its semicolon, which follows the braces.
        if tokens.get(at).is_some_and(|it| it == ";") {
            at += 1;
        }
    }
    (kept, modules)
}

/// Returns the first names below the crate root that paths in these tokens begin with, in a module `depth` levels deep.
pub fn names_at_root(tokens: &[String], depth: usize) -> BTreeSet<String> {
    let is = |at: usize, text: &str| tokens.get(at).is_some_and(|token| token == text);
    let is_path = |at: usize| is(at, ":") && is(at + 1, ":");
    let mut names = BTreeSet::new();
    for at in 0..tokens.len() {
        if at > 0 && is(at - 1, ":") {
            continue;
        }
        let mut next = at;
        let mut ups = 0;
        if is(at, "self") && is_path(at + 1) && is(at + 3, "super") {
            next += 3;
        }
        while is(next, "super") && is_path(next + 1) {
            (next, ups) = (next + 3, ups + 1);
        }
        // A chain of `super` that is longer than the path of the module does not compile.
        let is_root = is(at, "crate") && is_path(at + 1) || ups > 0 && ups == depth;
        if is(at, "crate") {
            next = at + 3;
        }
        if !is_root {
            continue;
        }
        if !is(next, "{") {
            names.extend(tokens.get(next).cloned());
            continue;
        }
        // `use crate::{a::B, c}`: the names at the first level of the braces.
        let end = after_group(tokens, next);
        let mut inner = next + 1;
        while inner + 1 < end {
            names.insert(tokens[inner].clone());
            while inner + 1 < end && tokens[inner] != "," {
                inner = if tokens[inner] == "{" {
                    after_group(tokens, inner)
                } else {
                    inner + 1
                };
            }
            inner += 1;
        }
    }
    names
}
