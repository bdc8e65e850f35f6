//! The parser of globs.

use std::iter::Peekable;
use std::str::Chars;

use super::{GlobClass, GlobError, MAX_BYTES, MAX_DEPTH};

/// An element of a glob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    Literal(char),
    /// `?`
    Any,
    /// `*`
    Star,
    /// `**/` at the start.
    FolderPrefix,
    /// `/**` at the end.
    FolderSuffix,
    /// `/**/`
    Folders,
    Class(GlobClass),
    /// The globs between braces.
    Group(Vec<Vec<Token>>),
}

/// Parses a glob.
pub(super) fn parse(glob: &str) -> Result<Vec<Token>, GlobError> {
    if glob.len() > MAX_BYTES {
        return Err(GlobError::TooLong);
    }
    let mut parser = Parser {
        chars: glob.chars().peekable(),
        tokens: Vec::new(),
        groups: Vec::new(),
    };
    while let Some(char) = parser.chars.next() {
        parser.step(char)?;
    }
    match parser.groups.is_empty() {
        true => Ok(parser.tokens),
        false => Err(GlobError::UnclosedGroup),
    }
}

struct Parser<'g> {
    chars: Peekable<Chars<'g>>,
    /// The tokens of the innermost open alternative.
    tokens: Vec<Token>,
    /// The open groups, outermost first.
    groups: Vec<OpenGroup>,
}

/// A group that is not closed yet.
struct OpenGroup {
    /// The tokens before the group.
    outer: Vec<Token>,
    /// The complete alternatives.
    branches: Vec<Vec<Token>>,
}

impl Parser<'_> {
    fn step(&mut self, char: char) -> Result<(), GlobError> {
        let token = match char {
            '?' => Token::Any,
            '*' => {
                self.star();
                return Ok(());
            }
            '[' => Token::Class(self.class()?),
            '{' if self.groups.len() == MAX_DEPTH => return Err(GlobError::TooDeep),
            '{' => {
                self.groups.push(OpenGroup {
                    outer: std::mem::take(&mut self.tokens),
                    branches: Vec::new(),
                });
                return Ok(());
            }
            '}' => {
                let group = self.groups.pop().ok_or(GlobError::UnopenedGroup)?;
                let mut branches = group.branches;
                branches.push(std::mem::replace(&mut self.tokens, group.outer));
                Token::Group(branches)
            }
            ',' => match self.groups.last_mut() {
                Some(group) => {
                    group.branches.push(std::mem::take(&mut self.tokens));
                    return Ok(());
                }
                None => Token::Literal(','),
            },
            '\\' => Token::Literal(self.chars.next().ok_or(GlobError::DanglingEscape)?),
            char => Token::Literal(char),
        };
        self.tokens.push(token);
        Ok(())
    }

    /// Reads a star, or two. Two stars match folders if a slash or an end of the alternative is on both sides.
    fn star(&mut self) {
        if self.chars.next_if_eq(&'*').is_none() {
            return self.tokens.push(Token::Star);
        }
        let next = self.chars.peek().copied();
        let ends_branch = matches!(next, Some(',' | '}')) && !self.groups.is_empty();
        let is_end = next.is_none() || ends_branch;
        // The slash before `**` belongs to it. It is also consumed by `**/` directly before.
        let before = match self.tokens.last() {
            None => None,
            Some(before @ (Token::Literal('/') | Token::FolderPrefix | Token::Folders)) => {
                Some(before)
            }
            Some(_) => return self.tokens.push(Token::Star),
        };
        // A whole alternative `**` is two stars, as in `{**,a}`.
        let is_alone = next == Some('/') || is_end && !(ends_branch && before.is_none());
        if !is_alone {
            return self.tokens.push(Token::Star);
        }
        let token = match before {
            None | Some(Token::FolderPrefix) => Token::FolderPrefix,
            Some(_) if is_end => Token::FolderSuffix,
            Some(_) => Token::Folders,
        };
        if before.is_some() {
            self.tokens.pop();
        }
        if !is_end {
            self.chars.next();
        }
        self.tokens.push(token);
    }

    /// Reads a class after its `[`.
    fn class(&mut self) -> Result<GlobClass, GlobError> {
        let negated = self
            .chars
            .next_if(|char| matches!(char, '!' | '^'))
            .is_some();
        let mut ranges: Vec<(char, char)> = Vec::new();
        // True after the `-` of a range.
        let mut is_range = false;
        loop {
            let char = self.chars.next().ok_or(GlobError::UnclosedClass)?;
            match (char, ranges.last_mut()) {
                (']', Some(_)) => break,
                (last, Some(range)) if is_range => {
                    range.1 = last;
                    if range.1 < range.0 {
                        return Err(GlobError::EmptyRange(range.0, last));
                    }
                    is_range = false;
                }
                ('-', Some(_)) => is_range = true,
                (char, _) => ranges.push((char, char)),
            }
        }
        if is_range {
            ranges.push(('-', '-'));
        }
        Ok(GlobClass { negated, ranges })
    }
}
