//! Translates regular expressions of ECMAScript into regular expressions of this crate.
//!
//! The pattern is parsed by the grammar of ECMA-262, with Annex B if neither `u` nor `v` is set, and serialized again;
//! nothing is replaced in its text. This module knows nothing about rules. Properties of the translation:
//!
//! - **It keeps the set of matching texts and the end of the first match**, as far as an offset inside a character can
//!   be expressed: a match that ends between the halves of a surrogate pair ends after the character here. The
//!   preference among several matches is kept only if the pattern has no class with surrogates.
//! - **UTF-16.** Without `u` and `v` the unit of matching is the UTF-16 code unit, and a class such as `[^a]` matches
//!   half of an emoji. [`lower`] tracks the positions between and inside characters.
//! - **Line terminators.** `.`, and `^` and `$` with `m`, recognize four: `\n`, `\r`, U+2028, U+2029. An anchor at an
//!   edge of the pattern includes the line terminator in the match; elsewhere it becomes a look-around assertion.
//!
//! Texts are UTF-8 and have no lone surrogates. Invalid UTF-8 is out of scope.

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
pub(super) struct RegExpFlags {
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
    /// `y`: a search with a new `RegExp` matches only at the start of the text.
    pub(super) sticky: bool,
}

impl RegExpFlags {
    /// Parses the flags in `letters`. `d` and `g` do not change the set of matching texts and are ignored.
    ///
    /// # Errors
    /// An unknown or repeated letter, or `u` together with `v`.
    pub(super) fn parse(letters: &str) -> Result<RegExpFlags, Untranslatable> {
        let mut flags = RegExpFlags::default();
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
                _ => return Err(Untranslatable(format!("`{letter}` is not a flag"))),
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

    /// Returns true if the unit of matching is the code point.
    fn by_code_point(self) -> bool {
        self.unicode || self.unicode_sets
    }
}

/// A translated pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Translation {
    /// The pattern in the syntax of this crate.
    pub(super) regex: String,
    /// The differences from the original, one sentence each. Empty if there are none.
    pub(super) notes: Vec<String>,
}

/// The reason why a pattern has no translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Untranslatable(pub(super) String);

impl fmt::Display for Untranslatable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Translates the pattern: the result matches the texts that `new RegExp(pattern, flags)` matches.
///
/// # Errors
/// The pattern is invalid in ECMAScript, or has no equivalent.
pub(super) fn translate(pattern: &str, flags: RegExpFlags) -> Result<Translation, Untranslatable> {
    let parsed = parse::parse(pattern, flags)?;
    lower::lower(parsed, flags)
}

#[cfg(test)]
mod tests;
