//! Folds of single characters: the invisible ones, and case folding.
//!
//! Where `std` has a table, it is used: [`lower`] is `char::to_lowercase`, with exceptions for the characters where
//! simple case folding, which `(?i)` uses, differs.

/// Characters without a visible form: the property `Default_Ignorable_Code_Point` and the three interlinear annotation
/// characters. Sorted.
pub(crate) const INVISIBLE: [(char, char); 18] = [
    ('\u{AD}', '\u{AD}'),       // soft hyphen
    ('\u{34F}', '\u{34F}'),     // combining grapheme joiner
    ('\u{61C}', '\u{61C}'),     // Arabic letter mark (bidi)
    ('\u{115F}', '\u{1160}'),   // Hangul fillers
    ('\u{17B4}', '\u{17B5}'),   // Khmer inherent vowels
    ('\u{180B}', '\u{180F}'),   // Mongolian variation selectors and vowel separator
    ('\u{200B}', '\u{200F}'), // zero-width space, non-joiner, joiner; left-to-right and right-to-left marks
    ('\u{202A}', '\u{202E}'), // bidi embeddings and overrides
    ('\u{2060}', '\u{206F}'), // word joiner, invisible operators, bidi isolates, deprecated controls
    ('\u{3164}', '\u{3164}'), // Hangul filler
    ('\u{FE00}', '\u{FE0F}'), // variation selectors 1 to 16
    ('\u{FEFF}', '\u{FEFF}'), // zero-width no-break space (byte order mark)
    ('\u{FFA0}', '\u{FFA0}'), // halfwidth Hangul filler
    ('\u{FFF0}', '\u{FFF8}'), // unassigned, to be ignored
    ('\u{FFF9}', '\u{FFFB}'), // interlinear annotation
    ('\u{1BCA0}', '\u{1BCA3}'), // shorthand format controls
    ('\u{1D173}', '\u{1D17A}'), // musical format controls
    ('\u{E0000}', '\u{E0FFF}'), // tags, variation selectors 17 to 256
];

/// Returns true if the character is in [`INVISIBLE`].
pub(crate) fn is_invisible(char: char) -> bool {
    INVISIBLE
        .binary_search_by(|&(first, last)| {
            if last < char {
                std::cmp::Ordering::Less
            } else if first > char {
                std::cmp::Ordering::Greater
            } else {
                std::cmp::Ordering::Equal
            }
        })
        .is_ok()
}

/// Returns the representative of the characters that `(?i)` treats as equal to this one.
pub(crate) fn lower(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_lowercase();
    }
    if let Ok(at) = FOLD_EXCEPTIONS.binary_search_by_key(&char, |exception| exception.0) {
        return FOLD_EXCEPTIONS[at].1;
    }
    // Beria Erfe, which `std` does not contain yet.
    if ('\u{16EA0}'..='\u{16EB8}').contains(&char) {
        return char::from_u32(char as u32 + 0x1B).unwrap_or(char);
    }
    let mut chars = char.to_lowercase();
    match (chars.next(), chars.next()) {
        (Some(lower), None) => lower,
        _ => char,
    }
}

/// Characters whose simple case folding differs from their lower case, and capitals that `std` does not contain yet.
/// Sorted.
const FOLD_EXCEPTIONS: [(char, char); 28] = [
    ('\u{B5}', '\u{3BC}'),
    ('\u{17F}', '\u{73}'),
    ('\u{345}', '\u{3B9}'),
    ('\u{3C2}', '\u{3C3}'),
    ('\u{3D0}', '\u{3B2}'),
    ('\u{3D1}', '\u{3B8}'),
    ('\u{3D5}', '\u{3C6}'),
    ('\u{3D6}', '\u{3C0}'),
    ('\u{3F0}', '\u{3BA}'),
    ('\u{3F1}', '\u{3C1}'),
    ('\u{3F5}', '\u{3B5}'),
    ('\u{1C80}', '\u{432}'),
    ('\u{1C81}', '\u{434}'),
    ('\u{1C82}', '\u{43E}'),
    ('\u{1C83}', '\u{441}'),
    ('\u{1C84}', '\u{442}'),
    ('\u{1C85}', '\u{442}'),
    ('\u{1C86}', '\u{44A}'),
    ('\u{1C87}', '\u{463}'),
    ('\u{1C88}', '\u{A64B}'),
    ('\u{1E9B}', '\u{1E61}'),
    ('\u{1FBE}', '\u{3B9}'),
    ('\u{1FD3}', '\u{390}'),
    ('\u{1FE3}', '\u{3B0}'),
    ('\u{A7CE}', '\u{A7CF}'),
    ('\u{A7D2}', '\u{A7D3}'),
    ('\u{A7D4}', '\u{A7D5}'),
    ('\u{FB05}', '\u{FB06}'),
];

#[cfg(test)]
mod tests {
    use super::*;
    use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, HirKind};

    fn class_of(pattern: &str) -> ClassUnicode {
        match regex_syntax::parse(pattern).unwrap().into_kind() {
            HirKind::Class(Class::Unicode(class)) => class,
            kind => panic!("{kind:?} is no class"),
        }
    }

    fn holds(class: &ClassUnicode, char: char) -> bool {
        let mut ranges = class.ranges().iter();
        ranges.any(|range| range.start() <= char && char <= range.end())
    }

    #[test]
    fn invisible_is_the_property_and_annotation_marks() {
        let class = class_of(r"[\p{Default_Ignorable_Code_Point}\x{FFF9}-\x{FFFB}]");
        for char in '\0'..=char::MAX {
            assert_eq!(is_invisible(char), holds(&class, char), "{char:?}");
        }
    }

    #[test]
    fn lower_case_joins_exactly_what_case_insensitive_patterns_join() {
        // `std` may implement a newer Unicode than the tables of patterns, with new capitals.
        let new = class_of(r"\p{Cn}");
        let mut wrong = Vec::new();
        for char in '\0'..=char::MAX {
            let mut class = ClassUnicode::new([ClassUnicodeRange::new(char, char)]);
            class.case_fold_simple();
            for range in class.ranges() {
                for other in range.start()..=range.end() {
                    if lower(other) != lower(char) {
                        wrong.push((char, other));
                    }
                }
            }
            let down = lower(char);
            if !holds(&class, down) && !holds(&new, down) && !holds(&new, char) {
                wrong.push((char, down));
            }
        }
        assert_eq!(wrong, []);
    }
}
