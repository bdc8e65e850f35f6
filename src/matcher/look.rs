//! What stands before the current position, and which assertions that decides.

use regex_syntax::hir::Look;

use super::alphabet::{Asked, Flags};

/// What stands before a position, as far as look-around can ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub(crate) enum Before {
    /// Nothing: the haystack begins here.
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

impl Before {
    pub(crate) const ALL: [Before; 7] = [
        Before::Start,
        Before::Lf,
        Before::Cr,
        Before::AsciiWord,
        Before::Word,
        Before::Other,
        Before::Invalid,
    ];

    /// What stands before the position after a symbol with these flags. What the patterns do not ask
    /// about has no flags, so that it makes no difference between states.
    pub(crate) fn after(self, flags: Flags, asked: Asked) -> Before {
        let after = if flags.is_trailing() {
            self.after_trailing()
        } else if flags.is_invalid_behind() {
            Before::Invalid
        } else if flags.is_lf() {
            Before::Lf
        } else if flags.is_cr() {
            Before::Cr
        } else if flags.is_ascii_word() {
            Before::AsciiWord
        } else if flags.is_word_behind() {
            Before::Word
        } else {
            Before::Other
        };
        match after {
            Before::Word if !asked.word.unicode => Before::Other,
            after => after,
        }
    }

    /// `regex` decodes backwards over stray continuation bytes to the character before them.
    fn after_trailing(self) -> Before {
        match self {
            Before::Start | Before::Invalid => Before::Invalid,
            Before::Lf | Before::Cr | Before::Other => Before::Other,
            Before::AsciiWord | Before::Word => Before::Word,
        }
    }

    fn is_word(self) -> bool {
        matches!(self, Before::AsciiWord | Before::Word)
    }
}

/// What stands after a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Not known yet.
    Unknown,
    /// A symbol with these flags.
    Symbol(Flags),
    /// Nothing: the haystack ends here.
    End,
}

impl After {
    fn flag(self, has: impl Fn(Flags) -> bool) -> Option<bool> {
        match self {
            After::Unknown => None,
            After::Symbol(flags) => Some(has(flags)),
            After::End => Some(false),
        }
    }
}

/// Whether the assertion holds between `before` and `after`; `None` where that needs to know `after`.
pub(crate) fn holds(look: Look, before: Before, after: After) -> Option<bool> {
    let at_end = || match after {
        After::Unknown => None,
        After::Symbol(_) => Some(false),
        After::End => Some(true),
    };
    let lf = || after.flag(Flags::is_lf);
    let cr = || after.flag(Flags::is_cr);
    let word = || after.flag(Flags::is_word_ahead);
    let invalid = || after.flag(Flags::is_invalid_ahead);
    let ascii = || after.flag(Flags::is_ascii_word);
    let was_word = before.is_word();
    let was_ascii = before == Before::AsciiWord;
    let was_valid = before != Before::Invalid;
    match look {
        Look::Start => Some(before == Before::Start),
        Look::End => at_end(),
        Look::StartLF => Some(matches!(before, Before::Start | Before::Lf)),
        Look::EndLF => Some(at_end()? || lf()?),
        Look::StartCRLF => match before {
            Before::Start | Before::Lf => Some(true),
            Before::Cr => lf().map(|lf| !lf),
            _ => Some(false),
        },
        Look::EndCRLF => Some(at_end()? || cr()? || (lf()? && before != Before::Cr)),
        Look::WordUnicode => word().map(|word| was_word != word),
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

/// `before && after`, decided without `after` where `before` fails.
fn both(before: bool, after: impl FnOnce() -> Option<bool>) -> Option<bool> {
    if before { after() } else { Some(false) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::alphabet::Space;
    use crate::matcher::forced::parsed;
    use crate::matcher::nfa::Nfa;

    /// Assertions about ASCII words, from what each says: of which kind the neighbours are.
    #[test]
    fn ascii_words_begin_and_end_where_the_neighbours_say() {
        let nfa = Nfa::new(Space::Chars, &parsed(&[r"(?-u:\b)a"]), None).expect("few classes");
        let flags = |byte: u8| {
            nfa.alphabet
                .flags(nfa.alphabet.bytes()[usize::from(byte)].into())
        };
        let (word, other) = (flags(b'a'), flags(b'-'));
        for (before, was_word) in [
            (Before::AsciiWord, true),
            (Before::Other, false),
            (Before::Word, false),
        ] {
            for (after, is_word) in [
                (After::Symbol(word), true),
                (After::Symbol(other), false),
                (After::End, false),
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
            // Before the next symbol is known, only what stands before can decide.
            let open = [
                Look::WordAscii,
                Look::WordAsciiNegate,
                Look::WordEndHalfAscii,
            ];
            for look in open {
                assert_eq!(holds(look, before, After::Unknown), None, "{look:?}");
            }
            let start = holds(Look::WordStartAscii, before, After::Unknown);
            assert_eq!(start, was_word.then_some(false));
            let end = holds(Look::WordEndAscii, before, After::Unknown);
            assert_eq!(end, (!was_word).then_some(false));
        }
    }
}
