//! Brace expansion: `{a,b}`, `{1..3}` and `{a..c}`, nested and with text around them.

/// Returns the words that the text expands to, or `None` if there are more than `words` or the result is longer than
/// `bytes`. `marks` are the positions of the braces and commas that are not quoted.
pub(super) fn expand_braces(
    text: &[u8],
    marks: &[usize],
    words: usize,
    bytes: usize,
) -> Option<Vec<Vec<u8>>> {
    let mut expansion = BraceExpansion { words, bytes };
    expansion.expand(text, marks, 0)
}

struct BraceExpansion {
    words: usize,
    bytes: usize,
}

impl BraceExpansion {
    /// Expands `text`, whose first byte is at position `base` of the marks.
    fn expand(&mut self, text: &[u8], marks: &[usize], base: usize) -> Option<Vec<Vec<u8>>> {
        let Some((open, close, commas)) = first_group(text, marks, base) else {
            return Some(vec![text.to_vec()]);
        };
        let alternatives = if commas.is_empty() {
            sequence(&text[open + 1..close], self.words)?
        } else {
            self.alternatives(text, marks, base, (open, close, &commas))?
        };
        let tails = self.expand(&text[close + 1..], marks, base + close + 1)?;
        let mut all = Vec::new();
        for middle in &alternatives {
            for tail in &tails {
                all.push([&text[..open], middle, tail].concat());
                let length: usize = all.last().map_or(0, Vec::len);
                self.bytes = self.bytes.checked_sub(length)?;
                if all.len() > self.words {
                    return None;
                }
            }
        }
        Some(all)
    }

    fn alternatives(
        &mut self,
        text: &[u8],
        marks: &[usize],
        base: usize,
        (open, close, commas): (usize, usize, &[usize]),
    ) -> Option<Vec<Vec<u8>>> {
        let mut all = Vec::new();
        let mut from = open + 1;
        for &to in commas.iter().chain([&close]) {
            all.extend(self.expand(&text[from..to], marks, base + from)?);
            from = to + 1;
        }
        Some(all)
    }
}

/// Returns the first group that expands: its opening brace, its closing brace and its commas.
fn first_group(text: &[u8], marks: &[usize], base: usize) -> Option<(usize, usize, Vec<usize>)> {
    let inside = |at: &usize| (base..base + text.len()).contains(at);
    let marks: Vec<usize> = marks
        .iter()
        .filter(|at| inside(at))
        .map(|at| at - base)
        .collect();
    let opens = marks
        .iter()
        .enumerate()
        .filter(|&(index, &at)| text[at] == b'{' && !(base == 0 && is_empty(text, &marks, index)));
    for (index, &open) in opens {
        let (mut depth, mut commas) = (0_usize, Vec::new());
        // As in bash, a closing brace counts only after a comma, or after `..` with something behind it. Another one is
        // text, and the group goes on.
        let mut has_range = false;
        let mut from = open + 1;
        for &at in &marks[index..] {
            has_range |= depth == 1 && is_range(text, from, at);
            from = at + 1;
            match text[at] {
                b'{' => depth += 1,
                b'}' if depth > 1 => depth -= 1,
                b'}' if !commas.is_empty() => return Some((open, at, commas)),
                b'}' if has_range && sequence(&text[open + 1..at], 0).is_none() => {
                    return Some((open, at, commas));
                }
                b'}' if has_range => break,
                b',' if depth == 1 => commas.push(at),
                _ => {}
            }
        }
    }
    None
}

/// Returns true if the mark is the opening brace of `{}` at the beginning of a word, which is text.
fn is_empty(text: &[u8], marks: &[usize], index: usize) -> bool {
    marks[index] == 0 && marks.get(index + 1) == Some(&1) && text[1] == b'}'
}

/// Returns true if `text[from..to]` has `..` that neither follows nor precedes a closing brace.
fn is_range(text: &[u8], from: usize, to: usize) -> bool {
    (from..to.saturating_sub(1)).any(|at| {
        &text[at..at + 2] == b".." && text[at - 1] != b'}' && text.get(at + 2) != Some(&b'}')
    })
}

/// Returns the elements of `a..b`; an empty list if the text is not a sequence, and `None` if it has more than `most`
/// elements.
fn sequence(text: &[u8], most: usize) -> Option<Vec<Vec<u8>>> {
    let parts: Option<(&str, &str)> = std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.split_once(".."));
    let Some((first, last)) = parts else {
        return Some(Vec::new());
    };
    let (numbers, letters) = ((first.parse::<i64>(), last.parse::<i64>()), (first, last));
    let (from, to, is_letter) = match (numbers, letters.0.as_bytes(), letters.1.as_bytes()) {
        ((Ok(from), Ok(to)), ..) => (from, to, false),
        (_, [from], [to]) if from.is_ascii_alphabetic() && to.is_ascii_alphabetic() => {
            (i64::from(*from), i64::from(*to), true)
        }
        _ => return Some(Vec::new()),
    };
    if from.abs_diff(to) >= most as u64 {
        return None;
    }
    let element = |value: i64| match is_letter {
        true => vec![value as u8],
        false => value.to_string().into_bytes(),
    };
    Some(match from <= to {
        true => (from..=to).map(element).collect(),
        false => (to..=from).rev().map(element).collect(),
    })
}
