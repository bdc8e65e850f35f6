//! The commands that code in another language runs: the constant arguments of functions such as `os.system`, and commands
//! in backquotes.
//!
//! Code is split into strings, comments and names. An argument counts if it is a string without expansions, or several that
//! an operator joins; a list counts if each of its elements does. Anything else is a value that only the run knows.

use super::super::chunk::OffsetMap;
use super::programs::functions::{Backquotes, CallForm, CodeSyntax};
use super::text::MappedText;

/// The most bytes after the arguments in which `shell=True` is searched.
const OPTIONS: usize = 256;

/// The most bytes of the name of a module in `require('…')`.
const MODULE: usize = 32;

/// Returns the scripts that the code runs, in their order.
pub(super) fn called_scripts(code: &MappedText, syntax: &'static CodeSyntax) -> Vec<MappedText> {
    let mut scanner = CodeScanner {
        code,
        bytes: code.bytes(),
        syntax,
        scripts: Vec::new(),
    };
    let mut at = 0;
    while at < scanner.bytes.len() {
        at = scanner.step(at);
    }
    scanner.scripts
}

/// A position in code, and the scripts that were found before it.
struct CodeScanner<'a> {
    code: &'a MappedText,
    bytes: &'a [u8],
    syntax: &'static CodeSyntax,
    scripts: Vec<MappedText>,
}

/// A string of the code.
struct StringLiteral {
    text: MappedText,
    /// The index after the string.
    end: usize,
    /// True if the string has no expansion and is closed.
    is_constant: bool,
}

/// The escapes of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StringEscapes {
    /// A backslash stays, and the byte after it does not end the string.
    Raw,
    /// Only a backslash and the quote are escaped.
    Quotes,
    /// Letters stand for control characters, and numbers for characters.
    Letters,
}

/// The form of a string whose quote has been read.
#[derive(Clone, Copy, Debug)]
struct StringForm {
    /// The byte that ends the string if it occurs so many times.
    close: (u8, usize),
    /// The bracket that nests, if `close` is a bracket.
    nests: Option<u8>,
    escapes: StringEscapes,
    expansions: &'static [&'static str],
    is_long: bool,
}

impl CodeScanner<'_> {
    fn has_name(&self, name: &str) -> bool {
        self.syntax.names.contains(&name)
    }

    fn rest(&self, at: usize) -> &[u8] {
        self.bytes.get(at..).unwrap_or_default()
    }

    /// Reads the token at an index. Returns the index after it.
    fn step(&mut self, at: usize) -> usize {
        if let Some(end) = self.comment_end(at) {
            return end;
        }
        if let Some(command) = self.quoted_command(at) {
            self.scripts
                .extend(command.is_constant.then_some(command.text));
            return command.end;
        }
        if let Some(literal) = self.literal(at) {
            if literal.is_constant && self.is_pipe_of_awk(at, literal.end) {
                self.scripts.push(literal.text);
            }
            return literal.end;
        }
        let end = self.name_end(at);
        if end == at {
            return at + 1;
        }
        let form = self.form(at, end);
        let script = form.and_then(|form| self.called_script(end, form));
        self.scripts.extend(script);
        end
    }

    /// Returns the index after a comment that begins at `at`.
    fn comment_end(&self, at: usize) -> Option<usize> {
        let rest = self.rest(at);
        if self.syntax.has_block_comments && rest.starts_with(b"/*") {
            let end = rest[2..].windows(2).position(|it| it == b"*/");
            return Some(end.map_or(self.bytes.len(), |end| at + end + 4));
        }
        let begins = |mark: &str| rest.starts_with(mark.as_bytes());
        if !self.syntax.comments.iter().any(|mark| begins(mark)) {
            return None;
        }
        // `$#list` of Perl has the number of elements.
        let is_variable = at > 0 && matches!(self.bytes[at - 1], b'$' | b'\\');
        (!is_variable).then(|| at + line_len(rest))
    }

    /// Reads a command in backquotes, `qx(…)` or `%x(…)`.
    fn quoted_command(&self, at: usize) -> Option<StringLiteral> {
        if self.syntax.backquotes != Backquotes::Command {
            return None;
        }
        let rest = self.rest(at);
        match rest {
            [b'`', ..] => self.delimited(at, true),
            [b'q', b'x', ..] if self.has_name("perl") && !self.is_in_name(at) => {
                self.delimited(at + 2, true)
            }
            [b'%', b'x', ..] if self.has_name("ruby") => self.delimited(at + 2, true),
            _ => None,
        }
    }

    /// Reads a string between the delimiter at `at` and its counterpart.
    fn delimited(&self, at: usize, expands: bool) -> Option<StringLiteral> {
        let delimiter = *self.bytes.get(at)?;
        if is_name_byte(delimiter)
            || delimiter.is_ascii_whitespace()
            || b",;=)}]>".contains(&delimiter)
        {
            return None;
        }
        let (close, nests) = match delimiter {
            b'(' => (b')', Some(b'(')),
            b'{' => (b'}', Some(b'{')),
            b'[' => (b']', Some(b'[')),
            b'<' => (b'>', Some(b'<')),
            other => (other, None),
        };
        let form = StringForm {
            close: (close, 1),
            nests,
            escapes: match expands {
                true => StringEscapes::Letters,
                false => StringEscapes::Quotes,
            },
            expansions: if expands { self.syntax.expansions } else { &[] },
            is_long: true,
        };
        Some(self.string(at + 1, form))
    }

    /// Returns true if the byte before `at` is part of a name.
    fn is_in_name(&self, at: usize) -> bool {
        at > 0 && is_name_byte(self.bytes[at - 1])
    }

    /// Reads a string that begins at `at`, with its prefix.
    fn literal(&self, at: usize) -> Option<StringLiteral> {
        let mut open = at;
        if self.has_name("perl") && !self.is_in_name(at) {
            let quoted = match self.rest(at) {
                [b'q', b'q', ..] => self.delimited(at + 2, true),
                [b'q', ..] => self.delimited(at + 1, false),
                _ => None,
            };
            if quoted.is_some() {
                return quoted;
            }
        }
        let (mut is_raw, mut is_format) = (false, false);
        if self.has_name("python") && !self.is_in_name(at) {
            let prefix = self.rest(at).iter().take(2);
            let prefix = prefix.take_while(|it| b"rRbBuUfF".contains(it)).count();
            if self
                .rest(at + prefix)
                .first()
                .is_some_and(|it| b"'\"".contains(it))
            {
                let prefix = &self.bytes[at..at + prefix];
                is_raw = prefix.iter().any(|it| b"rR".contains(it));
                is_format = prefix.iter().any(|it| b"fF".contains(it));
                open += prefix.len();
            }
        }
        let quote = *self.bytes.get(open)?;
        let is_template = quote == b'`' && self.syntax.backquotes == Backquotes::String;
        if !is_template && !self.syntax.quotes.contains(&quote) {
            return None;
        }
        let is_triple = self.has_name("python") && self.rest(open).starts_with(&[quote; 3]);
        let times = if is_triple { 3 } else { 1 };
        let has_quotes_only = ["perl", "ruby", "php"].iter().any(|it| self.has_name(it));
        let is_plain = quote == b'\'' && has_quotes_only;
        let form = StringForm {
            close: (quote, times),
            nests: None,
            escapes: match () {
                () if is_raw => StringEscapes::Raw,
                () if is_plain => StringEscapes::Quotes,
                () => StringEscapes::Letters,
            },
            expansions: match () {
                () if is_format => &["{"],
                () if is_template => &["${"],
                () if is_plain => &[],
                () => self.syntax.expansions,
            },
            is_long: is_triple || is_template || self.syntax.has_long_strings,
        };
        Some(self.string(open + times, form))
    }

    /// Reads a string from its first byte after the quote.
    fn string(&self, open: usize, form: StringForm) -> StringLiteral {
        let (quote, times) = form.close;
        let close = &[quote; 3][..times];
        let mut literal = StringLiteral {
            text: MappedText::default(),
            end: open,
            is_constant: true,
        };
        let (mut at, mut plain, mut depth) = (open, open, 0);
        while let Some(&byte) = self.bytes.get(at) {
            let rest = &self.bytes[at..];
            if rest.starts_with(close) && depth == 0 {
                literal.text.append(&self.code.slice(plain, at));
                literal.end = at + times;
                return literal;
            }
            if byte == b'\n' && !form.is_long {
                break;
            }
            if byte == b'\\'
                && let Some((text, len)) = self.escape(rest, form)
            {
                literal.text.append(&self.code.slice(plain, at));
                let source = self.code.slice(at, at + len).source();
                literal.text.append(&MappedText::replacement(&text, source));
                at += len;
                plain = at;
                continue;
            }
            let is_raw_escape = byte == b'\\' && form.escapes == StringEscapes::Raw;
            let begins = |it: &&str| rest.starts_with(it.as_bytes());
            literal.is_constant &= !form.expansions.iter().any(begins);
            depth += usize::from(form.nests == Some(byte));
            depth -= usize::from(form.nests.is_some() && byte == quote);
            at += 1 + usize::from(is_raw_escape);
        }
        literal.is_constant = false;
        literal.end = at.min(self.bytes.len());
        literal
    }

    /// Returns the text of the escape with which `rest` begins, and its length. `None` if the backslash stays.
    fn escape(&self, rest: &[u8], form: StringForm) -> Option<(Vec<u8>, usize)> {
        let next = *rest.get(1)?;
        match form.escapes {
            StringEscapes::Raw => None,
            StringEscapes::Quotes => matches!(next, b'\\' | b'\'').then(|| (vec![next], 2)),
            StringEscapes::Letters => {
                let keeps = ["python", "awk", "php"].iter().any(|it| self.has_name(it));
                letter_escape(rest, next, keeps)
            }
        }
    }

    /// Returns true if `awk` runs the string between two indices: `"…" | getline`, `print | "…"`.
    fn is_pipe_of_awk(&self, at: usize, end: usize) -> bool {
        if !self.has_name("awk") {
            return false;
        }
        let after = self.rest(end).trim_ascii_start();
        if let Some(reads) = after.strip_prefix(b"|") {
            let reads = reads.strip_prefix(b"&").unwrap_or(reads);
            return reads.trim_ascii_start().starts_with(b"getline");
        }
        let before = self.bytes[..at].trim_ascii_end();
        let before = before.strip_suffix(b"&").unwrap_or(before);
        let is_pipe = before.ends_with(b"|") && !before.ends_with(b"||");
        is_pipe && matches!(after.first(), None | Some(b';' | b'}' | b'\n'))
    }

    /// Returns the index after the name at `at`, with the names of modules and objects before it: `os.system`.
    fn name_end(&self, at: usize) -> usize {
        let begins = |at: usize| {
            let first = self.bytes.get(at);
            first.is_some_and(|it| is_name_byte(*it) && !it.is_ascii_digit())
        };
        let mut end = at;
        if !begins(at) {
            // A number such as `1e5` is passed as a whole, so that no name begins within it.
            let digits = self.rest(at).iter().take_while(|it| it.is_ascii_digit());
            let digits = digits.count();
            end += digits;
            if digits == 0 {
                return at;
            }
        }
        loop {
            end += self
                .rest(end)
                .iter()
                .take_while(|it| is_name_byte(**it))
                .count();
            let separator = match self.rest(end) {
                [b'.', ..] => 1,
                [b':', b':', ..] => 2,
                _ => return end,
            };
            if !begins(end + separator) {
                return end;
            }
            end += separator;
        }
    }

    /// Returns the form of the arguments of the function whose name is between two indices.
    fn form(&self, at: usize, end: usize) -> Option<CallForm> {
        let before = &self.bytes[..at];
        if [&b"->"[..], b"::", b"$#"]
            .iter()
            .any(|it| before.ends_with(it))
        {
            return None;
        }
        let name = &self.bytes[at..end];
        let qualified;
        let name = match before.strip_suffix(b".") {
            Some(receiver) => {
                qualified = [imported_module(receiver)?, b".", name].concat();
                &qualified[..]
            }
            None => name,
        };
        let is_listed = |names: &str| {
            names
                .split_ascii_whitespace()
                .any(|it| it.as_bytes() == name)
        };
        let found = self
            .syntax
            .functions
            .iter()
            .find(|(names, _)| is_listed(names))?;
        Some(found.1)
    }

    /// Returns the script of a call, whose arguments begin after `at`, if it is constant.
    fn called_script(&self, at: usize, form: CallForm) -> Option<MappedText> {
        let at = at + blanks(self.rest(at));
        let is_closed = self.rest(at).first() == Some(&b'(');
        if !is_closed && !self.syntax.has_bare_calls {
            return None;
        }
        let at = at + usize::from(is_closed);
        match form {
            CallForm::Script => {
                let (script, end) = self.constant(at)?;
                self.ends_argument(end, is_closed).then_some(script)
            }
            CallForm::ScriptOrWords => self.script_or_words(at, is_closed),
            CallForm::WordList => {
                let (words, end) = self.list(at).or_else(|| {
                    let (program, end) = self.constant(at)?;
                    Some((vec![program], end))
                })?;
                let script = match self.runs_shell(end) {
                    true => words.into_iter().next()?,
                    false => quoted_words(&words),
                };
                self.ends_argument(end, is_closed).then_some(script)
            }
            CallForm::ProgramAndList => {
                let (program, end) = self.constant(at)?;
                let list = self.after_comma(end).and_then(|at| self.list(at));
                let end = list.as_ref().map_or(end, |(_, end)| *end);
                let arguments = list.into_iter().flat_map(|(words, _)| words);
                let words: Vec<_> = std::iter::once(program).chain(arguments).collect();
                let script = match self.runs_shell(end) {
                    true => joined_words(&words),
                    false => quoted_words(&words),
                };
                self.ends_argument(end, is_closed).then_some(script)
            }
            CallForm::ProgramAndNamedWords => {
                let (program, end) = self.constant(at)?;
                let at = self.after_comma(end)?;
                let (mut words, end) = self.list(at).or_else(|| self.words(at))?;
                words[0] = program;
                self.ends_argument(end, is_closed)
                    .then(|| quoted_words(&words))
            }
        }
    }

    /// Returns the index after the comma that follows an argument.
    fn after_comma(&self, end: usize) -> Option<usize> {
        let at = self.skip_space(end);
        (self.rest(at).first() == Some(&b',')).then_some(at + 1)
    }

    /// Reads constants that commas separate. Returns them, at least one, and the index after the last one.
    fn words(&self, at: usize) -> Option<(Vec<MappedText>, usize)> {
        let (word, mut end) = self.constant(at)?;
        let mut words = vec![word];
        while let Some(next) = self.after_comma(end) {
            let (word, after) = self.constant(next)?;
            words.push(word);
            end = after;
        }
        Some((words, end))
    }

    /// Returns the script of a call whose arguments are a script, or the words of a command.
    fn script_or_words(&self, at: usize, is_closed: bool) -> Option<MappedText> {
        let (mut words, end) = self.words(at)?;
        let script = match words.len() {
            1 => words.pop()?,
            _ => quoted_words(&words),
        };
        self.ends_argument(end, is_closed).then_some(script)
    }

    /// Reads constant strings that are joined, after blanks. Returns their text and the index after them.
    fn constant(&self, at: usize) -> Option<(MappedText, usize)> {
        let first = self.constant_literal(at)?;
        let (mut text, mut end) = (first.text, first.end);
        loop {
            let next = self.skip_space(end);
            let joins = self.syntax.joins.as_bytes();
            let literal = if !joins.is_empty() && self.rest(next).starts_with(joins) {
                self.constant_literal(next + joins.len())?
            } else if self.has_name("python") && self.literal(next).is_some() {
                self.constant_literal(next)?
            } else {
                return Some((text, end));
            };
            text.append(&literal.text);
            end = literal.end;
        }
    }

    fn constant_literal(&self, at: usize) -> Option<StringLiteral> {
        let literal = self.literal(self.skip_space(at))?;
        literal.is_constant.then_some(literal)
    }

    /// Reads a list of constants in brackets, after blanks. Returns its elements and the index after it.
    fn list(&self, at: usize) -> Option<(Vec<MappedText>, usize)> {
        let mut at = self.skip_space(at);
        if self.rest(at).first() != Some(&b'[') {
            return None;
        }
        let mut words = Vec::new();
        at = self.skip_space(at + 1);
        while self.rest(at).first() != Some(&b']') {
            let (word, end) = self.constant(at)?;
            words.push(word);
            at = self.skip_space(end);
            match self.rest(at).first()? {
                b',' => at = self.skip_space(at + 1),
                b']' => {}
                _ => return None,
            }
        }
        (!words.is_empty()).then_some((words, at + 1))
    }

    /// Returns true if the argument that ends at an index is complete there. A call without parentheses may end at a word
    /// such as `or`.
    fn ends_argument(&self, end: usize, is_closed: bool) -> bool {
        let end = match is_closed {
            true => self.skip_space(end),
            false => end + blanks(self.rest(end)),
        };
        let rest = self.rest(end);
        let words: [&[u8]; 6] = [b"or ", b"and ", b"if ", b"unless ", b"||", b"&&"];
        match rest.first() {
            Some(b',' | b')') => true,
            None | Some(b';' | b'}' | b'\n') => !is_closed,
            _ => !is_closed && words.iter().any(|word| rest.starts_with(word)),
        }
    }

    /// Returns true if one of the options after the arguments makes them a script: `shell=True`, `shell: true`.
    fn runs_shell(&self, end: usize) -> bool {
        let options = self.rest(end);
        let options = &options[..options.len().min(OPTIONS)];
        let mut depth = 0;
        for (index, byte) in options.iter().enumerate() {
            match byte {
                b'(' | b'[' | b'{' => depth += 1,
                b')' | b']' | b'}' if depth == 0 => return false,
                b')' | b']' | b'}' => depth -= 1,
                b's' if index > 0 && !is_name_byte(options[index - 1]) => {
                    let Some(value) = options[index..].strip_prefix(b"shell") else {
                        continue;
                    };
                    let value = value.trim_ascii_start();
                    let value = value.strip_prefix(b"=").or(value.strip_prefix(b":"));
                    let value = value.unwrap_or_default().trim_ascii_start();
                    let is_true = |it: &&[u8]| value.starts_with(it);
                    return [&b"True"[..], b"true", b"1"].iter().any(is_true);
                }
                _ => {}
            }
        }
        false
    }

    /// Returns the index of the first byte from `at` on that is no white space.
    fn skip_space(&self, at: usize) -> usize {
        let rest = self.rest(at);
        at + rest.len() - rest.trim_ascii_start().len()
    }
}

/// Returns the module whose functions `receiver` ends with: `require('child_process')`, `__import__("os")`.
fn imported_module(receiver: &[u8]) -> Option<&[u8]> {
    let inner = receiver.strip_suffix(b")")?;
    let quote = *inner.last().filter(|it| matches!(it, b'\'' | b'"'))?;
    let inner = &inner[..inner.len() - 1];
    let len = inner
        .iter()
        .rev()
        .take(MODULE)
        .position(|it| *it == quote)?;
    let (call, module) = inner.split_at(inner.len() - len);
    let call = call[..call.len() - 1].strip_suffix(b"(")?;
    let imports: [&[u8]; 3] = [b"require", b"__import__", b"import_module"];
    let is_import = imports.iter().any(|it| call.ends_with(it));
    is_import.then(|| module.strip_prefix(b"node:").unwrap_or(module))
}

/// Returns the text of an escape and its length. Of an unknown one the backslash stays if `keeps`.
fn letter_escape(rest: &[u8], next: u8, keeps: bool) -> Option<(Vec<u8>, usize)> {
    let character = |digits: &[u8], radix: u32, before: usize| {
        let digits = std::str::from_utf8(digits).ok()?;
        let character = char::from_u32(u32::from_str_radix(digits, radix).ok()?)?;
        Some((character.to_string().into_bytes(), before + digits.len()))
    };
    let hexadecimal = |from: usize, most: usize| {
        let digits = rest.get(from..)?;
        let len = digits.iter().take(most);
        let len = len.take_while(|it| it.is_ascii_hexdigit()).count();
        character(&digits[..len], 16, from)
    };
    let text = match next {
        b'n' => b"\n",
        b't' => b"\t",
        b'r' => b"\r",
        b'\n' => return Some((Vec::new(), 2)),
        b'x' => return hexadecimal(2, 2),
        b'u' => return hexadecimal(2, 4),
        b'0'..=b'7' => {
            let digits = &rest[1..];
            let len = digits.iter().take(3);
            let len = len.take_while(|it| matches!(it, b'0'..=b'7')).count();
            return character(&digits[..len], 8, 1);
        }
        _ if keeps && next.is_ascii_alphanumeric() => return None,
        _ => return Some((vec![next], 2)),
    };
    Some((text.to_vec(), 2))
}

/// Returns a script of one command with these words.
fn quoted_words(words: &[MappedText]) -> MappedText {
    let mut script = MappedText::default();
    for word in words {
        let source = word.source();
        let offsets = OffsetMap::Replacement {
            start: source.start,
            end: source.end,
        };
        script.push(b"'", offsets);
        let mut from = 0;
        for piece in word.bytes().split(|byte| *byte == b'\'') {
            if from > 0 {
                script.push(b"'\\''", offsets);
            }
            script.append(&word.slice(from, from + piece.len()));
            from += piece.len() + 1;
        }
        script.push(b"' ", offsets);
    }
    script
}

/// Returns a script that consists of these words, joined by blanks.
fn joined_words(words: &[MappedText]) -> MappedText {
    let mut script = MappedText::default();
    for word in words {
        script.append(word);
        let end = word.source().end;
        script.push(b" ", OffsetMap::Replacement { start: end, end });
    }
    script
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || byte == b'@'
}

/// Returns the number of blanks at the start of a text.
pub(super) fn blanks(text: &[u8]) -> usize {
    text.iter()
        .take_while(|it| matches!(it, b' ' | b'\t'))
        .count()
}

/// Returns the length of the first line, without its end.
fn line_len(text: &[u8]) -> usize {
    let end = text.iter().position(|byte| *byte == b'\n');
    end.unwrap_or(text.len())
}
