//! Suggestions for misspelt names: the nearest name by edit distance.

use super::escape::quote;

/// The longest word that is compared, in characters: the work is quadratic.
const WORD_CHARS: usize = 64;

/// The largest number of names that are listed when none is near.
const LISTED: usize = 24;

/// Returns the help for an unknown `word`: the nearest of `allowed`, or all of them.
pub(super) fn help(word: &str, allowed: &[&str]) -> String {
    if let Some(near) = nearest(word, allowed) {
        return format!("did you mean {}?", quote(near));
    }
    if allowed.is_empty() {
        return "none is defined".to_owned();
    }
    let mut help = String::from("allowed: ");
    for (index, name) in allowed.iter().take(LISTED).enumerate() {
        if index > 0 {
            help.push_str(", ");
        }
        help.push_str(&quote(name));
    }
    if allowed.len() > LISTED {
        help.push_str(&format!(" and {} more", allowed.len() - LISTED));
    }
    help
}

/// Returns the name of `allowed` that is nearest to `word`, if one is near. Differences in case and between `-` and `_`
/// are ignored.
pub(super) fn nearest<'a>(word: &str, allowed: &[&'a str]) -> Option<&'a str> {
    let word = normal(word);
    if word.len() > WORD_CHARS {
        return None;
    }
    let furthest = (word.len() / 3).clamp(1, 3);
    allowed
        .iter()
        .map(|name| (distance(&word, &normal(name), furthest), *name))
        .filter(|(distance, _)| *distance <= furthest)
        .min()
        .map(|(_, name)| name)
}

fn normal(word: &str) -> Vec<char> {
    word.chars()
        .take(WORD_CHARS + 1)
        .map(|c| {
            if c == '_' {
                '-'
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect()
}

/// Returns the edit distance, in which a swap of two neighbours is one edit (optimal string alignment). A distance above
/// `furthest` may be returned as any number above it.
fn distance(a: &[char], b: &[char], furthest: usize) -> usize {
    if a.len().abs_diff(b.len()) > furthest {
        return furthest + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = last[j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(last[j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(before[j - 2] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typing_errors_find_their_word() {
        let keys = [
            "severity",
            "tools",
            "args",
            "paths",
            "no-match",
            "tool-input",
            "on",
        ];
        for (typed, meant) in [
            ("serverity", Some("severity")),
            ("tolos", Some("tools")),
            ("arg", Some("args")),
            ("no_match", Some("no-match")),
            ("Tool_Input", Some("tool-input")),
            ("no", Some("on")),
            ("frequency", None),
            ("", None),
        ] {
            assert_eq!(nearest(typed, &keys), meant, "{typed}");
        }
        assert_eq!(nearest(&"s".repeat(1 << 20), &keys), None);
    }

    #[test]
    fn far_words_get_the_list() {
        assert_eq!(
            help("xyz", &["text", "reasoning"]),
            "allowed: `text`, `reasoning`"
        );
    }
}
