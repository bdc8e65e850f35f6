//! Folds that depend on neighbours: normalization and the prototypes of UTS 39.

use std::collections::HashMap;
use std::sync::LazyLock;

use unicode_normalization::char::{
    canonical_combining_class, decompose_canonical, decompose_compatible,
};
use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfc_quick};
use unicode_security::confusable_detection::skeleton;

use super::{FoldSet, lower_if};

/// Folds a whole text, after the removal of invisible characters.
pub(super) fn fold(folds: FoldSet, chars: impl Iterator<Item = char>) -> String {
    let decomposed: Vec<char> = if folds.contains(FoldSet::NFKC) {
        chars.nfkd().collect()
    } else {
        chars.nfd().collect()
    };
    let mut folded = Vec::with_capacity(decomposed.len());
    for char in decomposed {
        push_folded(folds, char, &mut folded);
    }
    folded.into_iter().nfc().collect()
}

/// Returns true if neither the character nor the text before it changes the fold of the other, so that the fold of a
/// text is the concatenation of the folds of both sides.
pub(super) fn has_boundary_before(folds: FoldSet, char: char) -> bool {
    if char.is_ascii() {
        return true;
    }
    let mut first = None;
    let keep = |part| first = first.or(Some(part));
    if folds.contains(FoldSet::NFKC) {
        decompose_compatible(char, keep);
    } else {
        decompose_canonical(char, keep);
    }
    let first = first.unwrap_or(char);
    let mut folded = Vec::new();
    push_folded(folds, first, &mut folded);
    canonical_combining_class(first) == 0
        && folded
            .first()
            .is_none_or(|&first| has_nfc_boundary_before(first))
}

/// Returns true if the character is never reordered before, or composed with, a preceding one.
fn has_nfc_boundary_before(char: char) -> bool {
    canonical_combining_class(char) == 0 && is_nfc_quick(std::iter::once(char)) == IsNormalized::Yes
}

/// Appends the fold of a decomposed character.
fn push_folded(folds: FoldSet, char: char, out: &mut Vec<char>) {
    let char = lower_if(folds, char);
    if !folds.contains(FoldSet::CONFUSABLES) {
        return out.push(char);
    }
    let from = out.len();
    push_prototype(char, out);
    for char in &mut out[from..] {
        *char = lower_if(folds, *char);
    }
}

/// Appends the prototype of the character: an ASCII character if it shares its prototype, else the prototype itself.
fn push_prototype(char: char, out: &mut Vec<char>) {
    if char.is_ascii() {
        return out.push(char);
    }
    let prototype = prototype(char);
    match ASCII.get(&prototype).map(|alike| nearest(char, alike)) {
        Some(ascii) => out.push(ascii),
        None if prototype.is_empty() => out.push(char),
        None => out.extend(prototype.chars()),
    }
}

fn prototype(char: char) -> String {
    skeleton(char.encode_utf8(&mut [0; 4])).collect()
}

/// The ASCII characters by prototype: `l` is the prototype of `1`, `I`, `l` and `|`.
static ASCII: LazyLock<HashMap<String, Vec<char>>> = LazyLock::new(|| {
    let mut alike: HashMap<String, Vec<char>> = HashMap::new();
    for ascii in '!'..='~' {
        alike.entry(prototype(ascii)).or_default().push(ascii);
    }
    alike
});

/// Returns the ASCII character that `char` is confused with, of several with the same prototype: its compatibility
/// equivalent, or the one whose lower case has the same prototype too, or the prototype itself.
fn nearest(char: char, alike: &[char]) -> char {
    let [first, .., _] = *alike else {
        return alike[0];
    };
    let mut compatible = std::iter::once(char).nfkc();
    let same = compatible.next().filter(|same| alike.contains(same));
    let lower = |char: char| prototype(super::map::lower(char));
    let cased = || {
        let small = lower(char);
        let is_cased = super::map::lower(char) != char;
        alike
            .iter()
            .copied()
            .find(|&ascii| is_cased && ascii.is_ascii_uppercase() && lower(ascii) == small)
    };
    let own = || {
        alike
            .iter()
            .copied()
            .find(|ascii| prototype(*ascii).starts_with(*ascii))
    };
    same.or_else(cased).or_else(own).unwrap_or(first)
}
