//! The lexer: classifies code byte by byte.

use memchr::{memchr, memchr2, memchr3};

use super::family::Family;
use super::{Class, DEPTH, HASHES};

/// The effect of a byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexStep {
    /// The byte has this class.
    Is(Class),
    /// The byte is the first of a comment or string.
    Begins(Class),
    /// The byte is the last of a string, or of the piece of a string before interpolated code.
    EndsString,
    /// The byte is buffered until the next one.
    Pending,
    /// The buffered bytes have this class; their first byte starts it, unless it is `Code`. The current byte is to be
    /// stepped again.
    Resolved(Class),
}

/// The most heredocs that start on one line.
const HEREDOCS: usize = 4;

/// The longest delimiter of a heredoc, in bytes.
const WORD: usize = 64;

/// The number of bytes of code that are kept for look-behind.
const LOOKBEHIND: usize = HASHES + 4;

const CODE: LexStep = LexStep::Is(Class::Code);
const COMMENT: LexStep = LexStep::Is(Class::Comment);
const STRING: LexStep = LexStep::Is(Class::String);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LexState {
    Code,
    /// After a backslash of a shell.
    Escaped,
    /// A `/` is buffered.
    Slash,
    /// A `-` is buffered.
    Dash,
    /// A `<` is buffered, with this number of the bytes `!--` after it.
    Angle(usize),
    /// A `'` is buffered, with `have` of the `need` bytes of the character after it.
    Apostrophe {
        have: usize,
        need: usize,
    },
    Line,
    /// Before the `*` of `/*`.
    Opening,
    Block {
        depth: u32,
        last: u8,
    },
    /// In an HTML comment, after this number of consecutive dashes.
    Dashes(u8),
    Quoted {
        mark: u8,
        escaped: bool,
    },
    /// After `count` quotes, which can become three.
    Quotes {
        mark: u8,
        count: u8,
    },
    /// In a triple-quoted string, after `count` consecutive quotes.
    Triple {
        mark: u8,
        count: u8,
        escaped: bool,
    },
    /// After a quote of SQL that ends the string unless another quote follows.
    Doubled(u8),
    /// In a raw string, after a quote and `seen` `#`s.
    Raw {
        hashes: u8,
        seen: Option<u8>,
    },
    /// In a template, or in a shell string in `"`.
    Template {
        mark: u8,
        after: AfterByte,
    },
    Regex(RegexState),
    /// After `<<`, in the delimiter word of a heredoc.
    Word {
        quote: u8,
    },
    /// In a heredoc. The line so far matches the first `same` bytes of the delimiter; `None` if it differs.
    Heredoc {
        same: Option<usize>,
    },
}

/// The preceding byte of a template, as far as the next byte depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterByte {
    Plain,
    Dollar,
    /// A backslash that is not itself escaped.
    Backslash,
}

/// The state in a regular expression literal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RegexState {
    in_class: bool,
    /// True after a backslash that is not itself escaped.
    is_escaped: bool,
}

/// Code interpolated in a string.
#[derive(Clone, Copy, Debug)]
struct Interpolation {
    mark: u8,
    /// The number of brackets open in it.
    brackets: u32,
}

#[derive(Clone, Debug, Default)]
struct HeredocWord {
    word: Vec<u8>,
    /// True if leading tabs of the delimiter line are ignored.
    indented: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Lexer {
    family: Family,
    state: LexState,
    frames: Vec<Interpolation>,
    /// The last bytes of code. In JavaScript, trailing blanks are left out.
    lookbehind: [u8; LOOKBEHIND],
    /// True if blanks follow those bytes.
    blank_follows: bool,
    heredocs: Vec<HeredocWord>,
    /// True inside an HTML tag.
    in_tag: bool,
}

impl Lexer {
    pub(super) fn new(family: Family) -> Lexer {
        Lexer {
            family,
            state: LexState::Code,
            frames: Vec::new(),
            lookbehind: [0; LOOKBEHIND],
            blank_follows: false,
            heredocs: Vec::new(),
            in_tag: false,
        }
    }

    #[inline]
    pub(super) fn family(&self) -> Family {
        self.family
    }

    /// Resolves the buffered bytes as code.
    #[inline]
    pub(super) fn drop_pending(&mut self) {
        if matches!(
            self.state,
            LexState::Slash | LexState::Dash | LexState::Angle(_) | LexState::Apostrophe { .. }
        ) {
            self.state = LexState::Code;
        }
    }

    #[inline]
    pub(super) fn is_in_code(&self) -> bool {
        self.state == LexState::Code
    }

    /// Returns the number of leading bytes that keep the state: bytes of code if the state is `Code`, else bytes of the
    /// same class as the last one.
    pub(super) fn skip(&mut self, bytes: &[u8]) -> usize {
        let found = match self.state {
            LexState::Code => {
                let marks = self.family.marks();
                let found = bytes.iter().position(|&byte| marks[usize::from(byte)]);
                self.remember(&bytes[..found.unwrap_or(bytes.len())]);
                found
            }
            LexState::Line => memchr(b'\n', bytes),
            LexState::Block { last: 0, .. } => memchr2(b'*', b'/', bytes),
            LexState::Quoted {
                mark,
                escaped: false,
            } => memchr3(mark, b'\\', b'\n', bytes),
            LexState::Triple {
                mark,
                count: 0,
                escaped: false,
            } => memchr2(mark, b'\\', bytes),
            LexState::Raw { seen: None, .. } => memchr(b'"', bytes),
            LexState::Template {
                mark,
                after: AfterByte::Plain,
            } => memchr3(mark, b'\\', b'$', bytes),
            LexState::Heredoc { same: None } => memchr(b'\n', bytes),
            _ => Some(0),
        };
        found.unwrap_or(bytes.len())
    }

    pub(super) fn step(&mut self, byte: u8) -> LexStep {
        match self.state {
            LexState::Code => self.code(byte),
            LexState::Escaped => self.plain(byte),
            LexState::Slash => self.slash(byte),
            LexState::Dash => self.dash(byte),
            LexState::Angle(have) => self.angle(have, byte),
            LexState::Apostrophe { have, need } => self.apostrophe(have, need, byte),
            LexState::Line if byte == b'\n' => self.resume_code(byte),
            LexState::Line => COMMENT,
            LexState::Opening => self.transition(LexState::Block { depth: 1, last: 0 }, COMMENT),
            LexState::Block { depth, last } => self.block(depth, last, byte),
            LexState::Dashes(count) => self.dashes(count, byte),
            LexState::Quoted { mark, escaped } => self.quoted(mark, escaped, byte),
            LexState::Quotes { mark, count } => self.quotes(mark, count, byte),
            LexState::Triple {
                mark,
                count,
                escaped,
            } => self.triple(mark, count, escaped, byte),
            LexState::Doubled(mark) if byte == mark => self.transition(quoted(mark), STRING),
            LexState::Doubled(_) => self.after_string(byte),
            LexState::Raw { hashes, seen } => self.raw(hashes, seen, byte),
            LexState::Template { mark, after } => self.template(mark, after, byte),
            LexState::Regex(state) => self.regex(state, byte),
            LexState::Word { quote } => self.word(quote, byte),
            LexState::Heredoc { same } => self.heredoc(same, byte),
        }
    }

    #[inline]
    fn transition(&mut self, state: LexState, step: LexStep) -> LexStep {
        self.state = state;
        step
    }

    /// Handles a byte of code that starts nothing.
    #[inline]
    fn plain(&mut self, byte: u8) -> LexStep {
        self.remember(&[byte]);
        self.transition(LexState::Code, CODE)
    }

    /// Handles a byte of code after a comment or string.
    #[inline]
    fn resume_code(&mut self, byte: u8) -> LexStep {
        self.state = LexState::Code;
        self.code(byte)
    }

    #[inline]
    fn after_string(&mut self, byte: u8) -> LexStep {
        self.set_context_to_string();
        self.resume_code(byte)
    }

    /// Ends a string with this byte.
    #[inline]
    fn end_string(&mut self) -> LexStep {
        self.set_context_to_string();
        self.transition(LexState::Code, LexStep::EndsString)
    }

    /// Records a string as the context of the code that follows.
    #[inline]
    fn set_context_to_string(&mut self) {
        self.lookbehind = [0; LOOKBEHIND];
        self.lookbehind[LOOKBEHIND - 1] = b'"';
    }

    fn remember(&mut self, bytes: &[u8]) {
        if self.family != Family::Script {
            return self.keep(bytes);
        }
        // Trailing blanks are not part of the context, but they separate words even if the input is cut at them.
        let kept = bytes.trim_ascii_end();
        if !kept.is_empty() {
            if self.blank_follows {
                self.keep(b" ");
            }
            self.keep(kept);
        }
        if !bytes.is_empty() {
            self.blank_follows = kept.len() < bytes.len();
        }
    }

    #[inline]
    fn keep(&mut self, bytes: &[u8]) {
        if let Some(last) = bytes.last_chunk::<LOOKBEHIND>() {
            self.lookbehind = *last;
        } else if !bytes.is_empty() {
            self.lookbehind.copy_within(bytes.len().., 0);
            self.lookbehind[LOOKBEHIND - bytes.len()..].copy_from_slice(bytes);
        }
    }

    #[inline]
    fn last(&self) -> u8 {
        self.lookbehind[LOOKBEHIND - 1]
    }

    fn code(&mut self, byte: u8) -> LexStep {
        match (self.family, byte) {
            (Family::Markup, b'"' | b'\'') if !self.in_tag => self.plain(byte),
            (Family::Shell, b'"') | (Family::Script, b'`') => self.begin(template(byte)),
            (Family::Rust, b'\'') => {
                self.transition(LexState::Apostrophe { have: 0, need: 1 }, LexStep::Pending)
            }
            (Family::Rust, b'"') => self.rust_string(),
            (Family::C, b'\'') if self.in_number() => self.plain(byte),
            (Family::Yaml, b'"' | b'\'') if !self.at_value() => self.plain(byte),
            (_, b'"' | b'\'' | b'`') if self.family.marks()[usize::from(byte)] => self.quote(byte),
            (Family::Shell, b'#') if !self.at_word() => self.plain(byte),
            // A `#!` in the first line names the interpreter.
            (Family::Script, b'#') if self.last() != 0 => self.plain(byte),
            (Family::Yaml, b'#') if !is_blank_or_none(self.last()) => self.plain(byte),
            (_, b'#') if self.family.marks()[b'#' as usize] => {
                self.transition(LexState::Line, LexStep::Begins(Class::Comment))
            }
            (_, b'/') if self.family.marks()[b'/' as usize] => {
                self.transition(LexState::Slash, LexStep::Pending)
            }
            (Family::Sql, b'-') => self.transition(LexState::Dash, LexStep::Pending),
            (Family::Markup, b'<') => self.transition(LexState::Angle(0), LexStep::Pending),
            (Family::Markup, b'>') => {
                self.in_tag = false;
                self.plain(byte)
            }
            (Family::Script, b'{' | b'}') | (Family::Shell, b'(' | b')') => self.bracket(byte),
            (Family::Shell, b'\\') => self.transition(LexState::Escaped, CODE),
            (Family::Shell, b'<') => self.less_than(),
            (Family::Shell, b'\n') if !self.heredocs.is_empty() => {
                self.remember(b"\n");
                self.transition(LexState::Heredoc { same: Some(0) }, CODE)
            }
            _ => self.plain(byte),
        }
    }

    #[inline]
    fn begin(&mut self, state: LexState) -> LexStep {
        self.transition(state, LexStep::Begins(Class::String))
    }

    fn quote(&mut self, mark: u8) -> LexStep {
        if self.family.has_triple_quotes(mark) {
            return self.begin(LexState::Quotes { mark, count: 1 });
        }
        if self.family == Family::Shell && self.last() == b'$' {
            // `$'…'` has escapes, unlike other strings in `'`.
            return self.begin(LexState::Triple {
                mark,
                count: 2,
                escaped: false,
            });
        }
        self.begin(quoted(mark))
    }

    /// Starts a string. It is raw after `r`, `br` or `cr`, with or without `#`s.
    fn rust_string(&mut self) -> LexStep {
        let hashes = self
            .lookbehind
            .iter()
            .rev()
            .take_while(|&&b| b == b'#')
            .count();
        let before = &self.lookbehind[..LOOKBEHIND - hashes];
        let word = before.iter().rev().take_while(|&&b| is_name(b)).count();
        let raw = matches!(&before[before.len() - word..], b"r" | b"br" | b"cr");
        if raw && hashes <= HASHES {
            return self.begin(LexState::Raw {
                hashes: hashes as u8,
                seen: None,
            });
        }
        self.begin(quoted(b'"'))
    }

    /// Returns true if a number precedes, whose digits a `'` can separate.
    #[inline]
    fn in_number(&self) -> bool {
        let is_part = |byte: u8| is_name(byte) || byte == b'\'';
        let part = self
            .lookbehind
            .iter()
            .rev()
            .take_while(|&&byte| is_part(byte));
        let first = part.last();
        first.is_some_and(u8::is_ascii_digit)
    }

    /// Returns true if a value of YAML can start here.
    #[inline]
    fn at_value(&self) -> bool {
        is_blank_or_none(self.last()) || b"[{,".contains(&self.last())
    }

    /// Returns true if a word of a shell can start here.
    #[inline]
    fn at_word(&self) -> bool {
        is_blank_or_none(self.last()) || b";&|()`".contains(&self.last())
    }

    fn slash(&mut self, byte: u8) -> LexStep {
        self.state = match byte {
            b'/' if self.family.has_line_comments() => LexState::Line,
            b'*' => LexState::Opening,
            _ if self.family == Family::Script && self.may_be_regex() => {
                LexState::Regex(RegexState::default())
            }
            _ => LexState::Code,
        };
        match self.state {
            LexState::Code => {
                self.remember(b"/");
                LexStep::Resolved(Class::Code)
            }
            LexState::Regex(_) => LexStep::Resolved(Class::String),
            _ => LexStep::Resolved(Class::Comment),
        }
    }

    /// Returns true if no operand precedes.
    fn may_be_regex(&self) -> bool {
        const WORDS: [&[u8]; 13] = [
            b"return", b"typeof", b"case", b"in", b"of", b"do", b"else", b"void", b"delete",
            b"throw", b"new", b"await", b"yield",
        ];
        let lookbehind = &self.lookbehind;
        let word = lookbehind.iter().rev().take_while(|&&b| is_name(b)).count();
        if word > 0 {
            let (before, word) = lookbehind.split_at(LOOKBEHIND - word);
            return WORDS.contains(&word) && before.last() != Some(&b'.');
        }
        !matches!(self.last(), b')' | b']' | b'}' | b'"' | b'\'' | b'`' | b'<')
            && !lookbehind.ends_with(b"++")
            && !lookbehind.ends_with(b"--")
    }

    #[inline]
    fn dash(&mut self, byte: u8) -> LexStep {
        if byte == b'-' {
            return self.transition(LexState::Line, LexStep::Resolved(Class::Comment));
        }
        self.remember(b"-");
        self.transition(LexState::Code, LexStep::Resolved(Class::Code))
    }

    fn angle(&mut self, have: usize, byte: u8) -> LexStep {
        if Some(&byte) != b"!--".get(have) {
            self.in_tag = have == 0 && (byte.is_ascii_alphabetic() || byte == b'/');
            return self.transition(LexState::Code, LexStep::Resolved(Class::Code));
        }
        if have == 2 {
            return self.transition(LexState::Dashes(0), LexStep::Resolved(Class::Comment));
        }
        self.transition(LexState::Angle(have + 1), LexStep::Pending)
    }

    fn apostrophe(&mut self, have: usize, need: usize, byte: u8) -> LexStep {
        let need = match have {
            0 => width(byte),
            _ => need,
        };
        if have == need && byte == b'\'' || have == 0 && byte == b'\\' {
            return self.transition(quoted(b'\''), LexStep::Resolved(Class::String));
        }
        if have == need || have == 0 && matches!(byte, b'\'' | b'\n') {
            self.remember(b"'a");
            return self.transition(LexState::Code, LexStep::Resolved(Class::Code));
        }
        let have = have + 1;
        self.transition(LexState::Apostrophe { have, need }, LexStep::Pending)
    }

    fn block(&mut self, depth: u32, last: u8, byte: u8) -> LexStep {
        let (depth, last) = match (last, byte) {
            (b'*', b'/') => (depth - 1, 0),
            (b'/', b'*') if self.family.nests() => (depth.saturating_add(1), 0),
            (_, b'*' | b'/') => (depth, byte),
            _ => (depth, 0),
        };
        match depth {
            0 => self.transition(LexState::Code, COMMENT),
            _ => self.transition(LexState::Block { depth, last }, COMMENT),
        }
    }

    #[inline]
    fn dashes(&mut self, count: u8, byte: u8) -> LexStep {
        match byte {
            // The first dash is the last one of `<!--`.
            b'-' => self.transition(LexState::Dashes((count + 1).min(3)), COMMENT),
            b'>' if count >= 2 => self.transition(LexState::Code, COMMENT),
            _ => self.transition(LexState::Dashes(0), COMMENT),
        }
    }

    fn quoted(&mut self, mark: u8, escaped: bool, byte: u8) -> LexStep {
        match byte {
            _ if escaped => self.transition(quoted(mark), STRING),
            b'\\' if self.family.escapes(mark) => self.transition(
                LexState::Quoted {
                    mark,
                    escaped: true,
                },
                STRING,
            ),
            b'\n' if !self.family.spans_lines(mark) => self.after_string(byte),
            _ if byte != mark => STRING,
            _ if matches!(self.family, Family::Sql | Family::Yaml) => {
                self.transition(LexState::Doubled(mark), STRING)
            }
            _ => self.end_string(),
        }
    }

    fn quotes(&mut self, mark: u8, count: u8, byte: u8) -> LexStep {
        if byte != mark && count == 2 {
            return self.after_string(byte);
        }
        if byte != mark {
            self.state = quoted(mark);
            return self.quoted(mark, false, byte);
        }
        let state = match count {
            1 => LexState::Quotes { mark, count: 2 },
            _ => LexState::Triple {
                mark,
                count: 0,
                escaped: false,
            },
        };
        self.transition(state, STRING)
    }

    fn triple(&mut self, mark: u8, count: u8, escaped: bool, byte: u8) -> LexStep {
        let least = u8::from(self.family == Family::Shell) * 2;
        let (count, escaped) = match byte {
            _ if escaped => (least, false),
            b'\\' if self.family.escapes(mark) || least > 0 => (least, true),
            _ if byte != mark => (least, false),
            _ if count == 2 => return self.end_string(),
            _ => (count + 1, false),
        };
        let state = LexState::Triple {
            mark,
            count,
            escaped,
        };
        self.transition(state, STRING)
    }

    fn raw(&mut self, hashes: u8, seen: Option<u8>, byte: u8) -> LexStep {
        let seen = match (seen, byte) {
            (_, b'"') => Some(0),
            (Some(seen), b'#') => Some(seen + 1),
            _ => None,
        };
        if seen == Some(hashes) {
            return self.end_string();
        }
        self.transition(LexState::Raw { hashes, seen }, STRING)
    }

    fn template(&mut self, mark: u8, after: AfterByte, byte: u8) -> LexStep {
        let opens = if mark == b'`' { b'{' } else { b'(' };
        match byte {
            _ if after == AfterByte::Backslash => self.transition(template(mark), STRING),
            b'\\' => {
                let after = AfterByte::Backslash;
                self.transition(LexState::Template { mark, after }, STRING)
            }
            _ if byte == mark => self.end_string(),
            _ if after == AfterByte::Dollar && byte == opens && self.frames.len() < DEPTH => {
                self.frames.push(Interpolation { mark, brackets: 0 });
                self.lookbehind = [0; LOOKBEHIND];
                self.transition(LexState::Code, LexStep::EndsString)
            }
            b'$' => {
                let after = AfterByte::Dollar;
                self.transition(LexState::Template { mark, after }, STRING)
            }
            _ => self.transition(template(mark), STRING),
        }
    }

    /// Handles a bracket, which can end the interpolated code.
    fn bracket(&mut self, byte: u8) -> LexStep {
        let Some(frame) = self.frames.last_mut() else {
            return self.plain(byte);
        };
        match byte {
            b'{' | b'(' => frame.brackets = frame.brackets.saturating_add(1),
            _ if frame.brackets > 0 => frame.brackets -= 1,
            _ => {
                let mark = frame.mark;
                self.frames.pop();
                return self.begin(template(mark));
            }
        }
        self.plain(byte)
    }

    fn regex(&mut self, state: RegexState, byte: u8) -> LexStep {
        let RegexState {
            in_class,
            is_escaped,
        } = state;
        let in_class = match byte {
            b'\n' => return self.after_string(byte),
            _ if is_escaped => in_class,
            b'[' => true,
            b']' => false,
            b'/' if !in_class => return self.end_string(),
            _ => in_class,
        };
        let state = RegexState {
            in_class,
            is_escaped: byte == b'\\' && !is_escaped,
        };
        self.transition(LexState::Regex(state), STRING)
    }

    /// Handles a `<` of a shell. The second one starts a heredoc, a third one does not.
    #[inline]
    fn less_than(&mut self) -> LexStep {
        if self.last() != b'<' || self.heredocs.len() == HEREDOCS {
            return self.plain(b'<');
        }
        self.remember(b"<");
        self.heredocs.push(HeredocWord::default());
        self.transition(LexState::Word { quote: 0 }, CODE)
    }

    fn word(&mut self, quote: u8, byte: u8) -> LexStep {
        let heredoc = self.heredocs.last_mut().expect("its word is being read");
        let first = heredoc.word.is_empty() && quote == 0;
        match byte {
            _ if quote != 0 && byte == quote => self.transition(LexState::Word { quote: 0 }, CODE),
            b'-' if first && !heredoc.indented => {
                heredoc.indented = true;
                CODE
            }
            b' ' | b'\t' if first => CODE,
            b'\'' | b'"' if quote == 0 => self.transition(LexState::Word { quote: byte }, CODE),
            b'\\' if quote == 0 => CODE,
            _ if (quote != 0 && byte != b'\n') || is_name(byte) || b"-.!@%".contains(&byte) => {
                heredoc.word.push(byte);
                if heredoc.word.len() > WORD || (first && byte.is_ascii_digit()) {
                    self.heredocs.pop();
                    return self.plain(byte);
                }
                CODE
            }
            _ => {
                if heredoc.word.is_empty() {
                    self.heredocs.pop();
                }
                self.lookbehind = [0; LOOKBEHIND];
                self.lookbehind[LOOKBEHIND - 1] = b'a';
                self.resume_code(byte)
            }
        }
    }

    fn heredoc(&mut self, same: Option<usize>, byte: u8) -> LexStep {
        let heredoc = &self.heredocs[0];
        let ended = same == Some(heredoc.word.len());
        if byte == b'\n' && ended {
            self.heredocs.remove(0);
            return self.after_heredoc();
        }
        let same = match same {
            _ if byte == b'\n' => Some(0),
            Some(0) if heredoc.indented && byte == b'\t' => Some(0),
            Some(at) if heredoc.word.get(at) == Some(&byte) => Some(at + 1),
            _ => None,
        };
        self.transition(LexState::Heredoc { same }, STRING)
    }

    #[inline]
    fn after_heredoc(&mut self) -> LexStep {
        self.lookbehind = [0; LOOKBEHIND];
        let state = match self.heredocs.is_empty() {
            true => LexState::Code,
            false => LexState::Heredoc { same: Some(0) },
        };
        self.transition(state, CODE)
    }
}

#[inline]
fn quoted(mark: u8) -> LexState {
    LexState::Quoted {
        mark,
        escaped: false,
    }
}

#[inline]
fn template(mark: u8) -> LexState {
    LexState::Template {
        mark,
        after: AfterByte::Plain,
    }
}

#[inline]
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte >= 0x80
}

#[inline]
fn is_blank_or_none(byte: u8) -> bool {
    matches!(byte, 0 | b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns the length of the character that starts with this byte.
#[inline]
fn width(byte: u8) -> usize {
    match byte {
        0xC0..=0xDF => 2,
        0xE0..=0xEF => 3,
        0xF0..=0xFF => 4,
        _ => 1,
    }
}
