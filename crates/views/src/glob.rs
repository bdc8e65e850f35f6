//! Globs: patterns on whole names and paths.
//!
//! # Syntax
//!
//! | glob | meaning |
//! |---|---|
//! | `?` | one character |
//! | `*` | any number of characters |
//! | `**` | alone between slashes, any number of folders: `**/a`, `a/**`, `a/**/b`; elsewhere the same as `*` |
//! | `[ab]`, `[a-z]` | one of these characters; `]` and `-` are literal at the start |
//! | `[!a]`, `[^a]` | one character, but none of these |
//! | `{a,b}` | either glob; groups can be nested |
//! | `\*` | the character after the backslash; inside `[…]` a backslash is literal |
//!
//! With [`GlobOptions::literal_separator`], `*` and `?` do not match `/`. The syntax and the results are those of the
//! crate `globset`, except that characters are Unicode scalar values here and bytes there.
//!
//! # Complexity
//!
//! A glob is compiled to a nondeterministic automaton with a few states for each of its characters; groups are not
//! expanded. A match steps all live states at once, without backtracking: its time is at most proportional to the
//! length of the text times the length of the glob, and its memory to the length of the glob. The limits are
//! [`MAX_BYTES`], [`MAX_DEPTH`] and [`MAX_SET_STATES`].

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;

use memchr::{memchr_iter, memmem};

use parse::{Token, parse};

/// The length of the longest glob, in bytes.
pub const MAX_BYTES: usize = 8192;

/// The deepest nesting of `{…}`.
pub const MAX_DEPTH: usize = 16;

/// The most states of the globs of a [`GlobSet`] together.
pub const MAX_SET_STATES: usize = 1 << 18;

/// The options of a glob.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GlobOptions {
    /// True if `*` and `?` do not match `/`.
    pub literal_separator: bool,
    /// True if ASCII letters match in both cases.
    pub case_insensitive: bool,
    /// True if `{a,}` matches the empty text. If false, empty alternatives are ignored.
    pub empty_alternates: bool,
}

/// The reason why a glob is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobError {
    /// A `[` without `]`.
    UnclosedClass,
    /// A range such as `[z-a]`, with its ends.
    EmptyRange(char, char),
    /// A `{` without `}`.
    UnclosedGroup,
    /// A `}` without `{`.
    UnopenedGroup,
    /// A backslash at the end.
    DanglingEscape,
    /// More than [`MAX_DEPTH`] nested groups.
    TooDeep,
    /// A glob of more than [`MAX_BYTES`] bytes.
    TooLong,
    /// A set of globs with more than [`MAX_SET_STATES`] states.
    TooManyStates,
}

impl fmt::Display for GlobError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GlobError::UnclosedClass => out.write_str("`[` is not closed by `]`"),
            GlobError::EmptyRange(first, last) => {
                write!(
                    out,
                    "the range `{first}-{last}` is empty: `{first}` comes after `{last}`"
                )
            }
            GlobError::UnclosedGroup => {
                out.write_str("`{` is not closed by `}`; a literal brace is written `\\{`")
            }
            GlobError::UnopenedGroup => {
                out.write_str("`}` closes no `{`; a literal brace is written `\\}`")
            }
            GlobError::DanglingEscape => out.write_str("nothing follows the `\\` at the end"),
            GlobError::TooDeep => write!(out, "more than {MAX_DEPTH} `{{` inside each other"),
            GlobError::TooLong => write!(out, "more than {MAX_BYTES} bytes"),
            GlobError::TooManyStates => write!(
                out,
                "the globs have more than {MAX_SET_STATES} states together"
            ),
        }
    }
}

impl std::error::Error for GlobError {}

/// A compiled glob.
///
/// # Example: files below a folder
/// ```
/// use ttsr_views::glob::{Glob, GlobOptions};
/// let options = GlobOptions { literal_separator: true, ..GlobOptions::default() };
/// let glob = Glob::new("src/**/*.{rs,toml}", options)?;
/// assert!(glob.is_match("src/a/b.rs") && glob.is_match("src/c.toml"));
/// assert!(!glob.is_match("src/a.py") && !glob.is_match("tests/src/a.rs"));
/// # Ok::<(), ttsr_views::glob::GlobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Glob {
    matcher: GlobStrategy,
    /// The literal begin and end of the glob. A text that begins or ends otherwise is not stepped.
    prefix: Box<str>,
    suffix: Box<str>,
    required: Required,
    case_insensitive: bool,
}

/// Properties of each text that a glob matches. A text without one of them is not stepped.
#[derive(Clone, Debug, Default)]
struct Required {
    /// The bytes with which such a text can begin; `None` if it can begin with any, or be empty.
    first: Option<FirstBytes>,
    /// A literal that it contains, and the index of a byte of it that few texts have. Empty if the glob ignores case or
    /// has no literal.
    literal: Box<[u8]>,
    rare: usize,
    /// True if it contains a character outside of ASCII.
    is_wide: bool,
}

/// The bytes with which a text can begin.
#[derive(Clone, Copy, Debug, Default)]
struct FirstBytes([u64; 4]);

impl FirstBytes {
    fn insert(&mut self, byte: u8) {
        self.0[usize::from(byte / 64)] |= 1 << (byte % 64);
    }

    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte / 64)] & 1 << (byte % 64) != 0
    }
}

impl Required {
    fn new(tokens: &[Token], options: GlobOptions) -> Required {
        let mut first = FirstBytes::default();
        let is_limited = add_first_bytes(tokens, options, &mut first);
        let literal = match options.case_insensitive {
            true => Vec::new(),
            false => longest_literal(tokens),
        };
        // Letters stand in many texts, and other characters in few.
        let rank = |index: &usize| match literal[*index] {
            b'a'..=b'z' | b'A'..=b'Z' | b'/' => 0,
            b'0'..=b'9' => 1,
            _ => 2,
        };
        Required {
            first: is_limited.then_some(first),
            rare: (0..literal.len()).max_by_key(rank).unwrap_or_default(),
            literal: literal.into(),
            is_wide: needs_wide(tokens),
        }
    }

    #[inline]
    fn may_match(&self, text: &[u8]) -> bool {
        let begins_so = match (&self.first, text.first()) {
            (Some(first), Some(&byte)) => first.contains(byte),
            (Some(_), None) => false,
            (None, _) => true,
        };
        begins_so
            && (self.literal.is_empty() || self.is_in(text))
            && !(self.is_wide && text.is_ascii())
    }

    /// Returns true if the text contains the literal.
    fn is_in(&self, text: &[u8]) -> bool {
        let mut places = memchr_iter(self.literal[self.rare], text);
        places.any(|at| {
            let from = at.checked_sub(self.rare);
            from.is_some_and(|from| text[from..].starts_with(&self.literal))
        })
    }
}

/// Returns the longest run of literal characters, in UTF-8.
fn longest_literal(tokens: &[Token]) -> Vec<u8> {
    let (mut longest, mut run) = (String::new(), String::new());
    for token in tokens {
        match token {
            Token::Literal(char) => run.push(*char),
            _ => run.clear(),
        }
        if run.len() > longest.len() {
            longest.clone_from(&run);
        }
    }
    longest.into_bytes()
}

/// Returns true if each match of these tokens contains a character outside of ASCII.
fn needs_wide(tokens: &[Token]) -> bool {
    tokens.iter().any(|token| match token {
        Token::Literal(char) => !char.is_ascii(),
        Token::Class(class) => {
            !class.negated && class.ranges.iter().all(|range| !range.0.is_ascii())
        }
        Token::Group(globs) => !globs.is_empty() && globs.iter().all(|glob| needs_wide(glob)),
        Token::Any | Token::Star | Token::FolderPrefix | Token::FolderSuffix | Token::Folders => {
            false
        }
    })
}

/// Adds the bytes with which a match of these tokens can begin. Returns false if it can begin with any byte, or be empty.
fn add_first_bytes(tokens: &[Token], options: GlobOptions, to: &mut FirstBytes) -> bool {
    let Some(token) = tokens.first() else {
        return false;
    };
    match token {
        Token::Literal(char) => {
            let mut add = |char: char| to.insert(char.encode_utf8(&mut [0; 4]).as_bytes()[0]);
            add(*char);
            if options.case_insensitive {
                add(char.to_ascii_lowercase());
                add(char.to_ascii_uppercase());
            }
            true
        }
        // An alternative that can be empty is followed by the next token; such a group counts as any byte.
        Token::Group(globs) => {
            !globs.is_empty() && globs.iter().all(|glob| add_first_bytes(glob, options, to))
        }
        Token::Any
        | Token::Star
        | Token::FolderPrefix
        | Token::FolderSuffix
        | Token::Folders
        | Token::Class(_) => false,
    }
}

/// The way a glob is matched. Literals are in lower case if the glob ignores case.
#[derive(Clone, Debug)]
enum GlobStrategy {
    /// The whole text equals the suffix.
    Literal,
    /// The text contains this one: `*text*`, where `*` matches any character.
    Contains(Box<str>),
    Nfa(GlobNfa),
}

/// A Thompson NFA. State 0 is the start.
#[derive(Clone, Debug)]
struct GlobNfa {
    states: Box<[State]>,
    classes: Box<[GlobClass]>,
}

/// A state. Those that consume a character lead to the next one in the program.
#[derive(Clone, Copy, Debug)]
enum State {
    Char(char),
    Any,
    NotSlash,
    /// The class with this index.
    Class(u32),
    /// Leads to the next state and to this one.
    Split(u32),
    Goto(u32),
    Match,
}

/// A set of characters.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GlobClass {
    negated: bool,
    /// Inclusive ranges.
    ranges: Vec<(char, char)>,
}

impl GlobClass {
    fn contains(&self, char: char, case_insensitive: bool) -> bool {
        let has = |char| {
            self.ranges
                .iter()
                .any(|range| range.0 <= char && char <= range.1)
        };
        let is_in = has(char)
            || case_insensitive
                && (has(char.to_ascii_lowercase()) || has(char.to_ascii_uppercase()));
        is_in != self.negated
    }
}

impl Glob {
    /// Compiles a glob.
    ///
    /// # Errors
    /// Returns the first error in the glob, or the limit that it exceeds.
    pub fn new(glob: &str, options: GlobOptions) -> Result<Glob, GlobError> {
        let tokens = parse(glob)?;
        let literal = |tokens: &[Token]| -> Option<String> {
            let chars = tokens.iter().map(|token| match token {
                Token::Literal(char) if options.case_insensitive => Some(char.to_ascii_lowercase()),
                Token::Literal(char) => Some(*char),
                _ => None,
            });
            chars.collect()
        };
        let is_literal = |token: &Token| matches!(token, Token::Literal(_));
        let tail = tokens
            .iter()
            .rev()
            .take_while(|token| is_literal(token))
            .count();
        let suffix = literal(&tokens[tokens.len() - tail..]).unwrap_or_default();
        let head = tokens.iter().take_while(|token| is_literal(token)).count();
        let prefix = literal(&tokens[..head]).unwrap_or_default();
        let matcher = match &tokens[..] {
            _ if tail == tokens.len() => GlobStrategy::Literal,
            [Token::Star] if !options.literal_separator => GlobStrategy::Contains("".into()),
            [Token::Star, inner @ .., Token::Star]
                if !options.literal_separator && inner.iter().all(is_literal) =>
            {
                GlobStrategy::Contains(literal(inner).unwrap_or_default().into())
            }
            _ => GlobStrategy::Nfa(GlobCompiler::compile(&tokens, options)),
        };
        Ok(Glob {
            matcher,
            prefix: prefix.into(),
            suffix: suffix.into(),
            required: Required::new(&tokens, options),
            case_insensitive: options.case_insensitive,
        })
    }

    /// Returns true if the glob matches the whole text.
    ///
    /// # Complexity
    /// At most proportional to the length of the text times the length of the glob.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.is_match_with(text, &mut GlobScratch::default())
    }

    /// Returns true if the glob matches the whole text. Allocates only if the scratch has not been used for a glob and a
    /// text of this size.
    #[must_use]
    pub fn is_match_with(&self, text: &str, scratch: &mut GlobScratch) -> bool {
        scratch.is_folded = false;
        self.matches(text, scratch)
    }

    fn matches(&self, text: &str, scratch: &mut GlobScratch) -> bool {
        let begins_so = text.len() >= self.prefix.len()
            && match self.case_insensitive {
                true => text.as_bytes()[..self.prefix.len()]
                    .eq_ignore_ascii_case(self.prefix.as_bytes()),
                false => text.starts_with(&*self.prefix),
            };
        if !begins_so {
            return false;
        }
        let head = text.len().checked_sub(self.suffix.len());
        let tail = head.map(|head| &text.as_bytes()[head..]);
        let suffix = self.suffix.as_bytes();
        let ends_so = tail.is_some_and(|tail| match self.case_insensitive {
            true => tail.eq_ignore_ascii_case(suffix),
            false => tail == suffix,
        });
        ends_so
            && self.required.may_match(text.as_bytes())
            && match &self.matcher {
                GlobStrategy::Literal => head == Some(0),
                GlobStrategy::Contains(needle) => {
                    let text = match self.case_insensitive {
                        true => scratch.fold(text),
                        false => text,
                    };
                    memmem::find(text.as_bytes(), needle.as_bytes()).is_some()
                }
                GlobStrategy::Nfa(nfa) => nfa.matches(text, self.case_insensitive, scratch),
            }
    }

    fn states(&self) -> usize {
        match &self.matcher {
            GlobStrategy::Literal => self.suffix.len(),
            GlobStrategy::Contains(needle) => needle.len(),
            GlobStrategy::Nfa(nfa) => nfa.states.len(),
        }
    }
}

/// Buffers of matches, which may be used for any number of globs and texts, one after another.
#[derive(Debug, Default)]
pub struct GlobScratch {
    /// The text in lower case, if `is_folded`.
    folded: String,
    is_folded: bool,
    current: StateList,
    next: StateList,
    stack: Vec<u32>,
}

impl GlobScratch {
    /// Returns the text in lower case.
    fn fold(&mut self, text: &str) -> &str {
        if !std::mem::replace(&mut self.is_folded, true) {
            self.folded.clear();
            self.folded.push_str(text);
            self.folded.make_ascii_lowercase();
        }
        &self.folded
    }
}

/// A set of states in the order of their insertion.
#[derive(Debug, Default)]
struct StateList {
    list: Vec<u32>,
    /// The round in which each state was inserted last.
    rounds: Vec<u32>,
    round: u32,
}

impl StateList {
    fn reset(&mut self, states: usize) {
        self.list.clear();
        self.rounds.clear();
        self.rounds.resize(states, 0);
        self.round = 1;
    }

    fn clear(&mut self) {
        self.list.clear();
        match self.round.checked_add(1) {
            Some(round) => self.round = round,
            None => self.reset(self.rounds.len()),
        }
    }
}

impl GlobNfa {
    fn matches(&self, text: &str, case_insensitive: bool, scratch: &mut GlobScratch) -> bool {
        let GlobScratch {
            current,
            next,
            stack,
            ..
        } = scratch;
        current.reset(self.states.len());
        next.reset(self.states.len());
        self.add(0, current, stack);
        for char in text.chars() {
            let folded = match case_insensitive {
                true => char.to_ascii_lowercase(),
                false => char,
            };
            next.clear();
            for &state in &current.list {
                let steps = match self.states[state as usize] {
                    State::Char(wanted) => wanted == folded,
                    State::Any => true,
                    State::NotSlash => char != '/',
                    State::Class(class) => {
                        self.classes[class as usize].contains(char, case_insensitive)
                    }
                    State::Split(_) | State::Goto(_) | State::Match => false,
                };
                if steps {
                    self.add(state + 1, next, stack);
                }
            }
            if next.list.is_empty() {
                return false;
            }
            std::mem::swap(current, next);
        }
        let is_match = |state: &u32| matches!(self.states[*state as usize], State::Match);
        current.list.iter().any(is_match)
    }

    /// Adds a state and its epsilon closure.
    fn add(&self, state: u32, to: &mut StateList, stack: &mut Vec<u32>) {
        stack.push(state);
        while let Some(state) = stack.pop() {
            let round = &mut to.rounds[state as usize];
            if *round == to.round {
                continue;
            }
            *round = to.round;
            match self.states[state as usize] {
                State::Split(other) => stack.extend([other, state + 1]),
                State::Goto(other) => stack.push(other),
                _ => to.list.push(state),
            }
        }
    }
}

/// Compiles tokens to an NFA.
struct GlobCompiler {
    options: GlobOptions,
    states: Vec<State>,
    classes: Vec<GlobClass>,
}

impl GlobCompiler {
    fn compile(tokens: &[Token], options: GlobOptions) -> GlobNfa {
        let mut compiler = GlobCompiler {
            options,
            states: Vec::new(),
            classes: Vec::new(),
        };
        match tokens {
            [Token::FolderPrefix] => compiler.repeat(State::Any),
            tokens => compiler.sequence(tokens),
        }
        compiler.states.push(State::Match);
        GlobNfa {
            states: compiler.states.into(),
            classes: compiler.classes.into(),
        }
    }

    fn here(&self) -> u32 {
        // The length of a glob bounds the number of its states.
        self.states.len() as u32
    }

    fn wildcard(&self) -> State {
        match self.options.literal_separator {
            true => State::NotSlash,
            false => State::Any,
        }
    }

    /// Appends states that match the tokens one after another.
    fn sequence(&mut self, tokens: &[Token]) {
        let mut last = None;
        for token in tokens {
            match token {
                Token::Literal(char) if self.options.case_insensitive => {
                    self.states.push(State::Char(char.to_ascii_lowercase()));
                }
                Token::Literal(char) => self.states.push(State::Char(*char)),
                Token::Any => self.states.push(self.wildcard()),
                // Another `*` matches no more.
                Token::Star if last == Some(token) => {}
                Token::Star => self.repeat(self.wildcard()),
                Token::FolderPrefix => self.folders(),
                Token::FolderSuffix => {
                    self.states.push(State::Char('/'));
                    self.repeat(State::Any);
                }
                Token::Folders => {
                    self.states.push(State::Char('/'));
                    self.folders();
                }
                Token::Class(class) => {
                    self.states.push(State::Class(self.classes.len() as u32));
                    self.classes.push(class.clone());
                }
                Token::Group(branches) => self.group(branches),
            }
            last = Some(token);
        }
    }

    /// Appends states that match any number of the characters that this state accepts.
    fn repeat(&mut self, accepts: State) {
        let start = self.here();
        self.states.push(State::Split(start + 3));
        self.states.push(accepts);
        self.states.push(State::Goto(start));
    }

    /// Appends states that match nothing, or any text that ends in a slash.
    fn folders(&mut self) {
        let start = self.here();
        self.states.push(State::Split(start + 5));
        self.repeat(State::Any);
        self.states.push(State::Char('/'));
    }

    /// Appends states that match any of these globs.
    fn group(&mut self, branches: &[Vec<Token>]) {
        let is_used = |branch: &&Vec<Token>| self.options.empty_alternates || !is_empty(branch);
        let used: Vec<&Vec<Token>> = branches.iter().filter(is_used).collect();
        let mut ends = Vec::new();
        for (index, branch) in used.iter().enumerate() {
            if index + 1 == used.len() {
                self.sequence(branch);
                break;
            }
            let split = self.states.len();
            self.states.push(State::Split(0));
            self.sequence(branch);
            ends.push(self.states.len());
            self.states.push(State::Goto(0));
            self.states[split] = State::Split(self.here());
        }
        for end in ends {
            self.states[end] = State::Goto(self.here());
        }
    }
}

/// Returns true if the tokens match nothing but the empty text when empty alternatives are ignored.
fn is_empty(tokens: &[Token]) -> bool {
    tokens.iter().all(|token| match token {
        Token::Group(branches) => branches.iter().all(|branch| is_empty(branch)),
        _ => false,
    })
}

/// Several globs.
///
/// # Example: the last glob that matches
/// ```
/// use ttsr_views::glob::{Glob, GlobOptions, GlobSet};
/// let globs = ["*.rs", "tests/*"].map(|glob| Glob::new(glob, GlobOptions::default()));
/// let set: GlobSet = GlobSet::new(globs.into_iter().collect::<Result<_, _>>()?)?;
/// assert_eq!(set.last_match("tests/a.rs"), Some(1));
/// assert_eq!(set.last_match("src/a.rs"), Some(0));
/// assert!(!set.is_match("README.md"));
/// # Ok::<(), ttsr_views::glob::GlobError>(())
/// ```
#[derive(Clone, Debug)]
pub struct GlobSet {
    globs: Vec<Glob>,
}

impl GlobSet {
    /// Returns a set of these globs.
    ///
    /// # Errors
    /// Returns [`GlobError::TooManyStates`] if the globs are too large together.
    pub fn new(globs: Vec<Glob>) -> Result<GlobSet, GlobError> {
        let states: usize = globs.iter().map(Glob::states).sum();
        if states > MAX_SET_STATES {
            return Err(GlobError::TooManyStates);
        }
        Ok(GlobSet { globs })
    }

    /// Returns true if any glob matches the whole text.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        self.is_match_with(text, &mut GlobScratch::default())
    }

    /// Returns true if any glob matches the whole text. Allocates only if the scratch has not been used for a glob and a
    /// text of this size.
    #[must_use]
    pub fn is_match_with(&self, text: &str, scratch: &mut GlobScratch) -> bool {
        scratch.is_folded = false;
        self.globs.iter().any(|glob| glob.matches(text, scratch))
    }

    /// Returns the index of the last glob that matches the whole text.
    #[must_use]
    pub fn last_match(&self, text: &str) -> Option<usize> {
        self.last_match_with(text, &mut GlobScratch::default())
    }

    /// Returns the index of the last glob that matches the whole text. Allocates only if the scratch has not been used
    /// for a glob and a text of this size.
    #[must_use]
    pub fn last_match_with(&self, text: &str, scratch: &mut GlobScratch) -> Option<usize> {
        scratch.is_folded = false;
        self.globs
            .iter()
            .rposition(|glob| glob.matches(text, scratch))
    }
}
