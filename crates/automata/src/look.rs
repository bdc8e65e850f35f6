//! Look-behind and look-ahead at a position, and the assertions they decide.
//!
//! The look-behind is part of a DFA state, so an assertion sees the symbol before a position at no cost. The look-ahead
//! is known one symbol later: until then the assertion stays in the state set, undecided.
//!
//! # Invariants
//!
//! 1. An assertion has the result that regex-automata's `LookMatcher` has on the whole haystack. Deltas make no
//!    difference, because the end of a delta is not a look-ahead.
//! 2. A decided assertion stays decided: `Some` for an unknown look-ahead is the result for every look-ahead.
//! 3. A look-behind that no pattern asks about is `Other`, so it does not multiply states.

use regex_syntax::hir::Look;

use super::alphabet::{LookNeeds, SymbolFlags};

/// The symbol before a position, as far as an assertion can distinguish it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum LookBehind {
    /// None: the haystack starts here.
    #[default]
    Start,
    Lf,
    Cr,
    /// An ASCII word character.
    AsciiWord,
    /// A word character that is not ASCII (or whose look-behind window ends in a stray byte).
    Word,
    /// Any other character.
    Other,
    /// A byte that is not part of a character.
    Invalid,
}

impl LookBehind {
    // In the order of the discriminants: arrays by look-behind are indexed by them, and encoded sets store them.
    pub(crate) const ALL: [LookBehind; 7] = [
        LookBehind::Start,
        LookBehind::Lf,
        LookBehind::Cr,
        LookBehind::AsciiWord,
        LookBehind::Word,
        LookBehind::Other,
        LookBehind::Invalid,
    ];

    /// Returns the look-behind with this discriminant.
    pub(crate) fn from_number(number: u32) -> LookBehind {
        LookBehind::ALL[number as usize]
    }

    /// Returns the look-behind after a symbol with these flags. A property that no pattern asks about has no flag, so
    /// it does not distinguish states.
    pub(crate) fn after(self, flags: SymbolFlags, look_needs: LookNeeds) -> LookBehind {
        // A trailing byte comes first: it has no other flag, and its look-behind depends on the one before it.
        let after = if flags.is_trailing() {
            self.after_trailing()
        } else if flags.is_invalid_behind() {
            LookBehind::Invalid
        } else if flags.is_lf() {
            LookBehind::Lf
        } else if flags.is_cr() {
            LookBehind::Cr
        } else if flags.is_ascii_word() {
            LookBehind::AsciiWord
        } else if flags.is_word_behind() {
            LookBehind::Word
        } else {
            LookBehind::Other
        };
        match after {
            // Without a Unicode boundary a non-ASCII word character is like any other character.
            LookBehind::Word if !look_needs.word.unicode => LookBehind::Other,
            after => after,
        }
    }

    /// Returns the look-behind after a trailing byte: `regex` decodes backwards over stray continuation bytes to the
    /// character before them.
    fn after_trailing(self) -> LookBehind {
        match self {
            LookBehind::Start | LookBehind::Invalid => LookBehind::Invalid,
            LookBehind::Lf | LookBehind::Cr | LookBehind::Other => LookBehind::Other,
            // The window no longer ends in an ASCII character, so an ASCII boundary sees no word character here.
            LookBehind::AsciiWord | LookBehind::Word => LookBehind::Word,
        }
    }

    fn is_word(self) -> bool {
        matches!(self, LookBehind::AsciiWord | LookBehind::Word)
    }
}

/// The symbol after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LookAhead {
    /// Not known yet.
    Unknown,
    /// A symbol with these flags.
    Symbol(SymbolFlags),
    /// None: the haystack ends here.
    End,
}

impl LookAhead {
    fn flag(self, has: impl Fn(SymbolFlags) -> bool) -> Option<bool> {
        match self {
            LookAhead::Unknown => None,
            LookAhead::Symbol(flags) => Some(has(flags)),
            // The end of the haystack has no property of a symbol.
            LookAhead::End => Some(false),
        }
    }
}

/// Returns true if the assertion holds between `before` and `after`; `None` if an unknown `after` decides it.
pub(crate) fn holds(look: Look, before: LookBehind, after: LookAhead) -> Option<bool> {
    let at_end = || match after {
        LookAhead::Unknown => None,
        LookAhead::Symbol(_) => Some(false),
        LookAhead::End => Some(true),
    };
    let lf = || after.flag(SymbolFlags::is_lf);
    let cr = || after.flag(SymbolFlags::is_cr);
    let word = || after.flag(SymbolFlags::is_word_ahead);
    let invalid = || after.flag(SymbolFlags::is_invalid_ahead);
    let ascii = || after.flag(SymbolFlags::is_ascii_word);
    let was_word = before.is_word();
    let was_ascii = before == LookBehind::AsciiWord;
    // The start of the haystack is valid, and not a word character.
    let was_valid = before != LookBehind::Invalid;
    // Each arm follows the definition in regex-syntax. An arm returns `Some` as soon as the look-behind alone decides:
    // an assertion that is decided early keeps its state set smaller and its report earlier.
    match look {
        Look::Start => Some(before == LookBehind::Start),
        Look::End => at_end(),
        Look::StartLF => Some(matches!(before, LookBehind::Start | LookBehind::Lf)),
        Look::EndLF => Some(at_end()? || lf()?),
        Look::StartCRLF => match before {
            LookBehind::Start | LookBehind::Lf => Some(true),
            // `\r\n` is one line terminator: no line starts between its two characters.
            LookBehind::Cr => lf().map(|lf| !lf),
            _ => Some(false),
        },
        // For the same reason no line ends between them.
        Look::EndCRLF => Some(at_end()? || cr()? || (lf()? && before != LookBehind::Cr)),
        Look::WordUnicode => word().map(|word| was_word != word),
        // `regex` never lets `\B` hold next to a byte of no character, even where `\b` does not hold.
        Look::WordUnicodeNegate => both(was_valid, || Some(!invalid()? && was_word == word()?)),
        Look::WordStartUnicode => both(!was_word, word),
        Look::WordEndUnicode => both(was_word, || word().map(|word| !word)),
        Look::WordStartHalfUnicode => Some(was_valid && !was_word),
        Look::WordEndHalfUnicode => Some(!invalid()? && !word()?),
        Look::WordAscii => ascii().map(|word| was_ascii != word),
        Look::WordAsciiNegate => ascii().map(|word| was_ascii == word),
        Look::WordStartAscii => both(!was_ascii, ascii),
        Look::WordEndAscii => both(was_ascii, || ascii().map(|word| !word)),
        Look::WordStartHalfAscii => Some(!was_ascii),
        Look::WordEndHalfAscii => ascii().map(|word| !word),
    }
}

/// Returns `before && after`, without evaluating `after` if `before` is false.
fn both(before: bool, after: impl FnOnce() -> Option<bool>) -> Option<bool> {
    if before { after() } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alphabet::SymbolSpace;
    use crate::nfa::Nfa;
    use crate::test_support::parsed;

    #[test]
    fn a_line_starts_after_a_carriage_return_unless_a_line_feed_follows() {
        let nfa =
            Nfa::new(SymbolSpace::Chars, &parsed(&[r"(?Rm)^\n?a"]), None).expect("few classes");
        let after = |byte: u8| {
            let column = nfa.alphabet.bytes()[usize::from(byte)];
            LookAhead::Symbol(nfa.alphabet.flags(column.into()))
        };
        for (before, starts) in [
            (LookBehind::Cr, [false, true]),
            (LookBehind::Lf, [true, true]),
            (LookBehind::Start, [true, true]),
            (LookBehind::Other, [false, false]),
        ] {
            let found = [b'\n', b'a'].map(|byte| holds(Look::StartCRLF, before, after(byte)));
            assert_eq!(found, starts.map(Some), "{before:?}");
        }
    }

    /// Checks assertions about ASCII words against their definition: the kinds of both neighbours.
    #[test]
    fn ascii_words_begin_and_end_where_the_neighbours_say() {
        let nfa =
            Nfa::new(SymbolSpace::Chars, &parsed(&[r"(?-u:\b)a"]), None).expect("few classes");
        let flags = |byte: u8| {
            nfa.alphabet
                .flags(nfa.alphabet.bytes()[usize::from(byte)].into())
        };
        let (word, other) = (flags(b'a'), flags(b'-'));
        for (before, was_word) in [
            (LookBehind::AsciiWord, true),
            (LookBehind::Other, false),
            (LookBehind::Word, false),
        ] {
            for (after, is_word) in [
                (LookAhead::Symbol(word), true),
                (LookAhead::Symbol(other), false),
                (LookAhead::End, false),
            ] {
                let all = [
                    (Look::WordAscii, was_word != is_word),
                    (Look::WordAsciiNegate, was_word == is_word),
                    (Look::WordStartAscii, !was_word && is_word),
                    (Look::WordEndAscii, was_word && !is_word),
                    (Look::WordStartHalfAscii, !was_word),
                    (Look::WordEndHalfAscii, !is_word),
                ];
                for (look, expected) in all {
                    assert_eq!(
                        holds(look, before, after),
                        Some(expected),
                        "{look:?} between {before:?} and {after:?}"
                    );
                }
            }
            // Before the next symbol is known, only the look-behind can decide.
            let open = [
                Look::WordAscii,
                Look::WordAsciiNegate,
                Look::WordEndHalfAscii,
            ];
            for look in open {
                assert_eq!(holds(look, before, LookAhead::Unknown), None, "{look:?}");
            }
            let start = holds(Look::WordStartAscii, before, LookAhead::Unknown);
            assert_eq!(start, was_word.then_some(false));
            let end = holds(Look::WordEndAscii, before, LookAhead::Unknown);
            assert_eq!(end, (!was_word).then_some(false));
        }
    }
}
