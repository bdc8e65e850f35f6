//! Regular expressions of ECMAScript as regular expressions of this crate.
//!
//! A pattern is parsed by the grammar of ECMA-262, with Annex B where neither `u` nor `v` is set, and written
//! anew; nothing is replaced in its text. Knows nothing of rules. What the translation relies on:
//!
//! - **Which texts match is kept, and where the first match ends**, as far as a position inside a character can be
//!   given: a match that ends between the halves of a surrogate pair ends behind the character here. Which of several
//!   matches is preferred is kept only where the pattern has no class with surrogates in it.
//! - **UTF-16.** Without `u` and `v` the unit of matching is the UTF-16 code unit, and a class such as `[^a]` matches
//!   half of an emoji. [`lower`] follows the pattern through the positions between and inside of characters.
//! - **Line ends.** `.`, and `^` and `$` with `m`, know four: `\n`, `\r`, U+2028, U+2029. An anchor at an edge of the
//!   pattern takes the line end into the match, elsewhere it becomes a look-around assertion.
//!
//! A text is UTF-8, so it has no lone surrogates; bytes that are not UTF-8 are outside of this.

mod expr;
mod lower;
mod parse;
mod set;

use std::fmt;

/// The flags of a pattern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each flag is one letter of the pattern's"
)]
pub(super) struct Flags {
    /// `i`
    pub(super) ignore_case: bool,
    /// `m`
    pub(super) multiline: bool,
    /// `s`
    pub(super) dot_all: bool,
    /// `u`
    pub(super) unicode: bool,
    /// `v`
    pub(super) unicode_sets: bool,
    /// `y`: of a new pattern, a match begins at the start of the text.
    pub(super) sticky: bool,
}

impl Flags {
    /// The flags of `letters`. `d` and `g` do not change which texts match.
    ///
    /// # Errors
    /// A letter that is no flag or is there twice, or `u` beside `v`.
    pub(super) fn of(letters: &str) -> Result<Flags, Untranslatable> {
        let mut flags = Flags::default();
        let (mut indices, mut global) = (false, false);
        for letter in letters.chars() {
            let flag = match letter {
                'd' => &mut indices,
                'g' => &mut global,
                'i' => &mut flags.ignore_case,
                'm' => &mut flags.multiline,
                's' => &mut flags.dot_all,
                'u' => &mut flags.unicode,
                'v' => &mut flags.unicode_sets,
                'y' => &mut flags.sticky,
                _ => return Err(Untranslatable(format!("`{letter}` is no flag"))),
            };
            if std::mem::replace(flag, true) {
                return Err(Untranslatable(format!("flag `{letter}` is given twice")));
            }
        }
        match flags.unicode && flags.unicode_sets {
            true => Err(Untranslatable(
                "flags `u` and `v` exclude each other".to_owned(),
            )),
            false => Ok(flags),
        }
    }

    /// Whether the unit of matching is the code point.
    fn by_code_point(self) -> bool {
        self.unicode || self.unicode_sets
    }
}

/// A pattern translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translation {
    /// The pattern as this crate reads it.
    pub(super) regex: String,
    /// Where it differs from the original, a sentence each. Empty: nowhere.
    pub(super) notes: Vec<String>,
}

/// Why a pattern has no translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Untranslatable(pub(super) String);

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The pattern of this crate that matches the texts that `new RegExp(pattern, flags)` matches.
///
/// # Errors
/// A pattern that is none in ECMAScript, and one without an equivalent.
pub(super) fn translate(pattern: &str, flags: Flags) -> Result<Translation, Untranslatable> {
    let parsed = parse::parse(pattern, flags)?;
    lower::lower(parsed, flags)
}

#[cfg(test)]
mod tests;
