//! The lexer: bytes to words and operators, with the contexts that are open.
//!
//! 1. A token whose meaning depends on the next byte is pending; the next byte extends it, completes it, or shows that
//!    it ended before.
//! 2. In the last case the byte is read again, without a pending token.
//!
//! Sections in comments are those of the Shell Command Language of POSIX (XCU).

use super::super::chunk::OffsetMap;
use super::super::shell::word::{AnsiEscape, EscapeStep};
use super::arguments::POSITIONAL;
use super::event::CommandSink;
use super::expansion::is_name_byte;
use super::list::{ListReader, ListScope, Opening};
use super::script::ScriptReader;
use super::word::{InputByte, assignment};
use super::{ReadContext, ShellSyntax};

/// The innermost construct that contains the current byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexContext {
    /// A list of commands: the whole text, or `$( … )`.
    Commands,
    /// `'…'`
    Single,
    /// `$'…'`
    Ansi,
    /// `"…"`
    Double,
    /// `${…}`, whose text begins at `from` in the current word.
    Parameter { quoted: bool, from: usize },
    /// `(( … ))` and `$(( … ))`, with the number of parentheses to close.
    Arithmetic(u32),
    /// The patterns of `@( … )`, with the number of parentheses to close.
    Parens(u32),
    /// The elements of an array, with the number of parentheses to close. A `#` after a blank begins a comment.
    Array { parens: u32, after_blank: bool },
    /// The body of a here-document whose delimiter is not quoted.
    Body,
}

impl LexContext {
    /// Returns the number of parentheses to close, if they are counted.
    fn parens(&mut self) -> Option<&mut u32> {
        match self {
            LexContext::Arithmetic(parens)
            | LexContext::Parens(parens)
            | LexContext::Array { parens, .. } => Some(parens),
            _ => None,
        }
    }
}

/// A token whose meaning depends on the next byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LexToken {
    None,
    /// An escape character.
    Backslash,
    /// `$`
    Dollar,
    /// `$(`
    DollarParen,
    /// `$name`, whose text begins at this length of the current word.
    Name(usize),
    /// `$'\`
    Escape(AnsiEscape),
    /// `<` or `>` and what follows.
    Redirection(&'static str),
    /// `<` or `>` in a word that no redirection ends: of an array or a parameter expansion.
    Angle(&'static str),
    /// `&`
    Ampersand,
    /// `|`
    Bar,
    /// `(` at the beginning of a command.
    OpenParen,
    /// `(` in an operand.
    CallParen,
    /// `[` at the beginning of a command.
    OpenBracket,
}

/// The most elements of an array that are remembered.
const ELEMENTS: usize = 32;

/// Returns the operator that begins with `operator` and continues with `byte`.
fn longer_operator(operator: &'static str, byte: u8) -> Option<&'static str> {
    let operators = [
        ">>", ">&", ">|", "<<", "<&", "<>", "<<-", "<<<", "&>", "&>>",
    ];
    operators.into_iter().find(|longer| {
        longer.len() == operator.len() + 1
            && longer.starts_with(operator)
            && longer.as_bytes()[operator.len()] == byte
    })
}

fn is_plain_unquoted(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || byte >= 0x80
        || matches!(
            byte,
            b'-' | b'_' | b'/' | b'.' | b':' | b'=' | b'+' | b'@' | b'%'
        )
}

fn is_plain_single(byte: u8) -> bool {
    !matches!(byte, b'\'' | b'`')
}

fn is_plain_double(byte: u8) -> bool {
    !matches!(byte, b'"' | b'`' | b'$' | b'\\')
}

fn never_plain(_byte: u8) -> bool {
    false
}

impl ScriptReader {
    /// Returns the predicate of the bytes that the current context appends to the word without further effect.
    pub(super) fn plain_bytes(&self) -> fn(u8) -> bool {
        match self.context() {
            LexContext::Commands if self.syntax == ShellSyntax::Posix => is_plain_unquoted,
            LexContext::Single if self.syntax == ShellSyntax::Posix => is_plain_single,
            LexContext::Double if self.syntax == ShellSyntax::Posix => is_plain_double,
            _ => never_plain,
        }
    }

    /// Reads a byte that is not part of the body of a here-document.
    pub(super) fn read_text<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        if self.comment {
            // The newline also ends the command, and the backquote the substitution.
            self.comment = byte.byte != b'\n' && !(byte.byte == b'`' && self.in_backquotes());
            if self.comment {
                return;
            }
        }
        if self.skipped > 0 {
            return self.skip(byte, cx);
        }
        while !self.resolve_token(byte, cx) {}
    }

    fn skip<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        match byte.byte {
            b'(' => self.skipped += 1,
            b')' => self.skipped -= 1,
            _ => {}
        }
        self.push_byte(byte, cx);
    }

    /// Reads the byte after the pending token. Returns false if the token ended before the byte.
    fn resolve_token<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        match std::mem::replace(&mut self.token, LexToken::None) {
            LexToken::None => {
                self.step(byte, cx);
                true
            }
            LexToken::Backslash => self.after_backslash(byte, cx),
            LexToken::Dollar => self.after_dollar(byte, cx),
            LexToken::DollarParen => self.after_dollar_paren(byte, cx),
            LexToken::Name(from) => self.after_name(from, byte, cx),
            LexToken::Escape(escape) => self.after_escape(escape, byte, cx),
            LexToken::Redirection(operator) => self.after_redirection(operator, byte, cx),
            LexToken::Angle(operator) => self.after_angle(operator, byte, cx),
            LexToken::Ampersand => self.after_ampersand(byte, cx),
            LexToken::Bar => self.after_bar(byte, cx),
            LexToken::OpenParen => self.after_open_paren(byte, cx),
            LexToken::CallParen => self.after_call_paren(byte, cx),
            LexToken::OpenBracket => self.after_open_bracket(byte, cx),
        }
    }

    /// Ends the pending token at the end of the text.
    pub(super) fn finish_token<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        match std::mem::replace(&mut self.token, LexToken::None) {
            LexToken::None => {}
            LexToken::Backslash | LexToken::Dollar | LexToken::OpenBracket | LexToken::Angle(_) => {
                self.push_pending(cx)
            }
            LexToken::DollarParen => {
                self.push_pending(cx);
                cx.counters().unreadable += 1;
            }
            LexToken::Name(from) => self.end_name(from, cx),
            LexToken::Escape(escape) => self.end_escape(escape, cx),
            LexToken::Redirection(operator) => self.redirect(operator, cx),
            LexToken::Ampersand | LexToken::Bar => self.end_pipeline(cx),
            LexToken::OpenParen => self.list().open_subshell(cx.state.constants()),
            LexToken::CallParen => self.open_body(cx),
        }
        self.token_bytes.clear();
    }

    pub(super) fn begin_token(&mut self, token: LexToken, byte: InputByte) {
        if self.token_bytes.len() == 0 {
            self.token_start = byte.start;
        }
        self.token = token;
        self.token_bytes.push(&[byte.byte], byte.offsets());
    }

    /// Appends the bytes of the pending token to the word.
    pub(super) fn push_pending<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let mut bytes = std::mem::take(&mut self.token_bytes);
        for chunk in bytes.chunks(0) {
            let (start, end) = (chunk.start(0), chunk.end(chunk.bytes.len() - 1));
            self.push_text(chunk.bytes, chunk.offsets, start..end, cx);
        }
        bytes.clear();
        self.token_bytes = bytes;
    }

    /// Reads a byte in the current context, without a pending token.
    fn step<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        if byte.byte == b'`' && self.syntax == ShellSyntax::Posix && self.in_backquotes() {
            return self.close_backquotes(byte, cx);
        }
        // 2.2.2: nothing is special in single quotes but their end.
        match self.context() {
            LexContext::Commands => self.unquoted(byte, cx),
            LexContext::Single => match byte.byte {
                b'\'' => self.unquote(byte),
                _ => self.push_byte(byte, cx),
            },
            LexContext::Ansi => match byte.byte {
                b'\'' => self.unquote(byte),
                b'\\' => self.begin_token(LexToken::Escape(AnsiEscape::default()), byte),
                _ => self.push_byte(byte, cx),
            },
            LexContext::Double => match byte.byte {
                b'"' => self.unquote(byte),
                _ => self.expansions(byte, cx),
            },
            LexContext::Body => self.expansions(byte, cx),
            LexContext::Parameter { quoted, from } => self.in_parameter(quoted, from, byte, cx),
            LexContext::Arithmetic(parens) => self.in_parens(parens, false, byte, cx),
            LexContext::Parens(parens) => self.in_parens(parens, true, byte, cx),
            LexContext::Array {
                parens,
                after_blank,
            } => self.in_array(parens, after_blank, byte, cx),
        }
    }

    /// Reads a byte of a context in which only expansions and escapes have a meaning.
    fn expansions<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        match byte.byte {
            b'$' => self.begin_token(LexToken::Dollar, byte),
            b'\\' if self.syntax == ShellSyntax::Posix => {
                self.begin_token(LexToken::Backslash, byte)
            }
            b'`' if self.syntax == ShellSyntax::Posix => self.open_backquotes(byte, cx),
            b'`' if self.syntax == ShellSyntax::PowerShell => {
                self.begin_token(LexToken::Backslash, byte)
            }
            _ => self.push_byte(byte, cx),
        }
    }

    fn in_parameter<S: CommandSink>(
        &mut self,
        quoted: bool,
        from: usize,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        match byte.byte {
            b'}' => {
                self.push_byte(byte, cx);
                self.contexts.pop();
                self.end_parameter(from, cx);
            }
            b'"' => self.quote(LexContext::Double, byte, cx),
            // Within double quotes a single quote is an ordinary character (2.2.3), in `${…}` too.
            b'\'' if !quoted => self.quote(LexContext::Single, byte, cx),
            b'<' if !quoted => self.begin_token(LexToken::Angle("<"), byte),
            b'>' if !quoted => self.begin_token(LexToken::Angle(">"), byte),
            _ => self.expansions(byte, cx),
        }
    }

    fn in_parens<S: CommandSink>(
        &mut self,
        parens: u32,
        quotes: bool,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        if parens == 1 && !quotes && byte.byte != b')' && self.reread_arithmetic(byte, cx) {
            return;
        }
        // 2.6.4: an arithmetic expression is read as if it were in double quotes, so quotes have no meaning in it.
        match byte.byte {
            b'(' | b')' => {
                let parens = if byte.byte == b'(' {
                    parens.saturating_add(1)
                } else {
                    parens - 1
                };
                if let Some(open) = self.contexts.last_mut().and_then(LexContext::parens) {
                    *open = parens;
                }
                if parens == 0 {
                    self.contexts.pop();
                }
                self.push_byte(byte, cx);
            }
            b'"' if quotes => self.quote(LexContext::Double, byte, cx),
            b'\'' if quotes => self.quote(LexContext::Single, byte, cx),
            _ => self.expansions(byte, cx),
        }
    }

    fn in_array<S: CommandSink>(
        &mut self,
        parens: u32,
        after_blank: bool,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        if byte.byte == b'#' && after_blank {
            self.comment = true;
            return;
        }
        let separates = matches!(byte.byte, b' ' | b'\t' | b'\r' | b'\n');
        let closes = byte.byte == b')' && parens == 1;
        let word = &mut self.list().word;
        let end = word.text.len();
        let has_room = word.elements.len() < ELEMENTS;
        match word.elements.last_mut().filter(|it| it.end == 0) {
            Some(element) if separates || closes => element.end = end,
            None if after_blank && !separates && !closes && has_room => {
                word.elements.push(end..0);
            }
            _ => {}
        }
        // A backslash before a newline begins no element.
        word.elements.pop_if(|element| element.start == element.end);
        if closes {
            word.is_constant_array = !word.traits.expanded() && word.elements.len() < ELEMENTS;
            word.mark_expanded();
        }
        // A backslash before a newline is not part of an element.
        if byte.byte != b'\\' {
            self.set_after_blank(matches!(byte.byte, b' ' | b'\t' | b'\r' | b'\n' | b'('));
        }
        match byte.byte {
            b'<' => self.begin_token(LexToken::Angle("<"), byte),
            b'>' => self.begin_token(LexToken::Angle(">"), byte),
            _ => self.in_parens(parens, true, byte, cx),
        }
    }

    /// Records that the last byte of an array separates its elements.
    fn set_after_blank(&mut self, is_blank: bool) {
        if let Some(LexContext::Array { after_blank, .. }) = self.contexts.last_mut() {
            *after_blank = is_blank;
        }
    }

    pub(super) fn quote<S: CommandSink>(
        &mut self,
        context: LexContext,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        let start = match self.token_bytes.len() {
            0 => byte.start,
            _ => self.token_start,
        };
        self.token_bytes.clear();
        let list = self.list();
        list.word.begin(start..byte.end);
        list.word.mark_quoted();
        self.enter(context, cx);
    }

    fn unquote(&mut self, byte: InputByte) {
        self.contexts.pop();
        self.list().word.span.end = byte.end;
    }

    /// Opens a context. Returns false if too many are open.
    pub(super) fn enter<S: CommandSink>(
        &mut self,
        context: LexContext,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let fits = self.contexts.len() < cx.state.limits.depth;
        cx.counters().too_deep += u64::from(!fits);
        if fits {
            self.contexts.push(context);
        }
        fits
    }

    // ---- Escapes ----

    fn after_backslash<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if self.in_backquotes() && self.unescape_backquoted(byte, cx) {
            return true;
        }
        let escapes = match self.context() {
            _ if self.syntax != ShellSyntax::Posix => true,
            // 2.2.3: before other characters the backslash is kept.
            LexContext::Double => matches!(byte.byte, b'$' | b'`' | b'"' | b'\\' | b'\n'),
            // 2.7.4: a double quote has no meaning in a here-document, so the backslash before it is kept.
            LexContext::Body => matches!(byte.byte, b'$' | b'`' | b'\\' | b'\n'),
            LexContext::Arithmetic(_) | LexContext::Parameter { quoted: true, .. } => {
                matches!(byte.byte, b'$' | b'`' | b'\\' | b'\n' | b'"' | b'}')
            }
            _ => true,
        };
        if !escapes {
            self.push_pending(cx);
            return false;
        }
        // 2.2.1: a backslash and a line feed continue the line, and neither is part of a word.
        if byte.byte == b'\n' {
            self.token_bytes.clear();
            return true;
        }
        let start = self.token_start;
        self.token_bytes.clear();
        self.set_after_blank(false);
        let list = self.list();
        if !list.discards() {
            list.word.begin(start..byte.end);
            list.word.mark_quoted();
        }
        let byte = match (self.syntax, byte.byte) {
            (ShellSyntax::PowerShell, b'n') => InputByte {
                byte: b'\n',
                ..byte
            },
            (ShellSyntax::PowerShell, b't') => InputByte {
                byte: b'\t',
                ..byte
            },
            _ => byte,
        };
        self.push_byte(byte, cx);
        true
    }

    /// Reads the byte after a backslash within backquotes, which take it away before their text is read (2.6.3). Returns
    /// false if the backslash is part of that text.
    fn unescape_backquoted<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let is_quoted = self.list().opening.is_quoted;
        let open = self
            .lists
            .iter()
            .filter(|it| it.scope == ListScope::Backquotes);
        let is_nested = open.count() > 1;
        match byte.byte {
            // Deeper ones would need more backslashes.
            b'`' if is_nested => {
                self.token_bytes.clear();
                self.close_backquotes(byte, cx);
            }
            b'`' => self.open_backquotes(byte, cx),
            b'$' => {
                self.token_bytes.clear();
                self.step(byte, cx);
            }
            b'"' if is_quoted => {
                self.token_bytes.clear();
                self.step(byte, cx);
            }
            _ => return false,
        }
        true
    }

    fn after_escape<S: CommandSink>(
        &mut self,
        escape: AnsiEscape,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        match escape.next(byte.byte) {
            EscapeStep::More(escape) => {
                self.begin_token(LexToken::Escape(escape), byte);
                true
            }
            EscapeStep::Done(text, len) => {
                self.push_escape(&text[..len], byte.end, cx);
                true
            }
            EscapeStep::Before(text, len) => {
                self.push_escape(&text[..len], byte.start, cx);
                false
            }
            EscapeStep::Nothing => {
                self.push_pending(cx);
                false
            }
        }
    }

    fn end_escape<S: CommandSink>(&mut self, escape: AnsiEscape, cx: &mut ReadContext<'_, S>) {
        match escape.end() {
            Some((text, len)) => self.push_escape(&text[..len], cx.state.at, cx),
            None => self.push_pending(cx),
        }
    }

    fn push_escape<S: CommandSink>(&mut self, text: &[u8], end: u64, cx: &mut ReadContext<'_, S>) {
        let start = self.token_start;
        self.token_bytes.clear();
        self.push_text(text, OffsetMap::Replacement { start, end }, start..end, cx);
    }

    // ---- Expansions ----

    fn after_dollar<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let unquoted = !self.in_double_quotes();
        let from = self.list().word.text.len();
        let is_quote = unquoted && matches!(byte.byte, b'\'' | b'"');
        if self.list().reads_delimiter() && !is_quote {
            self.push_pending(cx);
            let is_substitution = byte.byte == b'(';
            if is_substitution {
                self.push_byte(byte, cx);
                self.skipped = 1;
            }
            return is_substitution;
        }
        match byte.byte {
            b'(' => {
                self.begin_token(LexToken::DollarParen, byte);
                return true;
            }
            b'\'' if unquoted && self.syntax == ShellSyntax::Posix => {
                self.quote(LexContext::Ansi, byte, cx);
                return true;
            }
            b'"' if unquoted => {
                self.quote(LexContext::Double, byte, cx);
                return true;
            }
            _ => {}
        }
        let start = self.token_start;
        let begins =
            byte.byte == b'{' || is_name_byte(&byte.byte) || b"@*#?$!-".contains(&byte.byte);
        if begins {
            let list = self.list();
            list.expansion_start = start;
            list.word.end_literal();
        }
        self.push_pending(cx);
        match byte.byte {
            b'{' => {
                self.push_byte(byte, cx);
                let quoted = !unquoted;
                self.enter(LexContext::Parameter { quoted, from }, cx);
            }
            first if first.is_ascii_alphabetic() || first == b'_' => {
                self.push_byte(byte, cx);
                self.token = LexToken::Name(from);
            }
            _ if begins => {
                self.push_byte(byte, cx);
                let is_list = matches!(byte.byte, b'@' | b'*') && !self.list().in_function();
                if !is_list || !self.expand_list(from, POSITIONAL, byte.byte == b'*', cx) {
                    self.list().word.mark_expanded();
                }
            }
            _ => return false,
        }
        true
    }

    fn after_name<S: CommandSink>(
        &mut self,
        from: usize,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if is_name_byte(&byte.byte) {
            self.push_byte(byte, cx);
            self.token = LexToken::Name(from);
            return true;
        }
        // The value replaces the bytes before this one.
        let at = std::mem::replace(&mut cx.state.at, byte.start);
        self.end_name(from, cx);
        cx.state.at = at;
        false
    }

    fn end_name<S: CommandSink>(&mut self, from: usize, cx: &mut ReadContext<'_, S>) {
        let text = self.list().word.text.bytes();
        let name = text.get(from + 1..).unwrap_or_default().to_vec();
        if name.is_empty() {
            return self.list().word.mark_expanded();
        }
        self.expand(from, &name, cx);
    }

    fn after_dollar_paren<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte == b'(' && self.syntax == ShellSyntax::Posix {
            self.open_arithmetic(true, byte, cx);
            return true;
        }
        self.open_list(false, cx);
        false
    }

    /// Opens a substitution, whose first bytes are pending.
    pub(super) fn open_list<S: CommandSink>(
        &mut self,
        backquotes: bool,
        cx: &mut ReadContext<'_, S>,
    ) {
        let is_quoted = self.in_double_quotes();
        let word = &mut self.list().word;
        let opening = Opening {
            is_quoted,
            at: word.text.len(),
            traits: word.traits,
            is_process: false,
        };
        word.mark_expanded();
        self.push_pending(cx);
        if !self.enter(LexContext::Commands, cx) {
            self.skipped = u32::from(!backquotes);
            return;
        }
        let mut list = self.list().substitution(backquotes, cx);
        list.opening = opening;
        self.lists.push(list);
    }

    pub(super) fn open_backquotes<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        self.token_bytes.clear();
        self.token_start = byte.start;
        for text in [b'$', b'('] {
            self.token_bytes.push(
                &[text],
                OffsetMap::Replacement {
                    start: byte.start,
                    end: byte.end,
                },
            );
        }
        self.open_list(true, cx);
    }

    fn close_backquotes<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        self.close_list(InputByte { byte: b')', ..byte }, cx);
    }

    pub(super) fn close_list<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        let list = self.leave_list(cx);
        if !self.push_output(list, byte, cx) {
            self.push_byte(byte, cx);
        }
    }

    /// Ends the innermost list and everything that is open in it. Returns the list.
    pub(super) fn leave_list<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) -> ListReader {
        while self.context() != LexContext::Commands {
            self.contexts.pop();
        }
        self.end_word(cx);
        self.end_command(cx);
        self.end_list(cx);
        self.contexts.pop();
        let mut list = self.lists.pop().unwrap_or_default();
        if let Some(values) = list.saved.take() {
            cx.state.restore(values);
        }
        self.list().word.add_substitutions(&list.outputs);
        list
    }

    pub(super) fn in_backquotes(&self) -> bool {
        self.lists
            .last()
            .is_some_and(|list| list.scope == ListScope::Backquotes)
    }

    // ---- Text outside quotes ----

    fn unquoted<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        if self.syntax != ShellSyntax::Posix && self.unquoted_windows(byte, cx) {
            return;
        }
        if self.list().is_conditional() && b"()<>|&;\n".contains(&byte.byte) {
            self.end_word(cx);
            // The word can be `]]`, after which the byte is an operator again.
            if self.list().is_conditional() {
                return;
            }
        }
        match byte.byte {
            b' ' | b'\t' | b'\r' => self.end_word(cx),
            b'\n' => self.newline(cx),
            b'\'' => self.quote(LexContext::Single, byte, cx),
            b'"' => self.quote(LexContext::Double, byte, cx),
            b'$' => self.begin_token(LexToken::Dollar, byte),
            b'\\' if self.list().keeps_backslashes() => self.push_byte(byte, cx),
            b'\\' => self.begin_token(LexToken::Backslash, byte),
            b'`' => self.open_backquotes(byte, cx),
            b'#' if !self.list().word.begun => self.comment = true,
            b';' => self.semicolon(byte, cx),
            b'&' => {
                self.end_word(cx);
                self.list().end_case_item(byte);
                self.token = LexToken::Ampersand;
            }
            b'|' => {
                self.end_word(cx);
                if !self.list().in_patterns() {
                    self.end_command(cx);
                    self.token = LexToken::Bar;
                }
            }
            b'<' => self.begin_redirection("<", byte),
            b'>' => self.begin_redirection(">", byte),
            b'(' => self.open_paren(byte, cx),
            b')' => self.close_paren(byte, cx),
            b'[' if self.list().begins_command() && !self.list().word.begun => {
                self.begin_token(LexToken::OpenBracket, byte)
            }
            b',' | b']' if self.list().in_array => self.array_separator(byte, cx),
            _ => self.push_unquoted(byte, cx),
        }
    }

    fn push_unquoted<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        use super::event::WordTraits;
        let list = self.list();
        match byte.byte {
            b'{' | b'}' | b',' => list.word.mark_brace(),
            b'*' | b'?' | b'[' => list.word.traits.insert(WordTraits::GLOB),
            b'~' if !list.word.begun => list.word.traits.insert(WordTraits::TILDE),
            _ => {}
        }
        self.push_byte(byte, cx);
    }

    /// Reads a byte that PowerShell or `cmd.exe` treats differently. Returns false for other bytes.
    fn unquoted_windows<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let powershell = self.syntax == ShellSyntax::PowerShell;
        match byte.byte {
            b'\\' => self.push_byte(byte, cx),
            b'`' if powershell => self.begin_token(LexToken::Backslash, byte),
            b'`' | b'\'' | b'$' | b'#' | b';' | b'(' | b')' if !powershell => {
                self.push_byte(byte, cx)
            }
            b'^' if !powershell => self.begin_token(LexToken::Backslash, byte),
            b'{' | b'}' if powershell => {
                self.end_word(cx);
                self.end_pipeline(cx);
            }
            _ => return false,
        }
        true
    }

    fn newline<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        self.end_word(cx);
        if self.list().continues_line() {
            return;
        }
        self.end_pipeline(cx);
        self.begin_body(cx);
    }

    fn semicolon<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        self.end_word(cx);
        self.end_pipeline(cx);
        self.list().end_case_item(byte);
    }

    fn after_ampersand<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        match byte.byte {
            b'&' => self.end_pipeline(cx),
            b'>' => self.token = LexToken::Redirection("&>"),
            _ => {
                self.end_pipeline(cx);
                return false;
            }
        }
        true
    }

    fn after_bar<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) -> bool {
        match byte.byte {
            b'|' => self.end_pipeline(cx),
            b'&' => self.list().begin_pipe(),
            _ => {
                self.list().begin_pipe();
                return false;
            }
        }
        true
    }

    fn begin_redirection(&mut self, operator: &'static str, byte: InputByte) {
        self.list().drop_descriptor();
        self.begin_token(LexToken::Redirection(operator), byte);
    }

    fn after_redirection<S: CommandSink>(
        &mut self,
        operator: &'static str,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte == b'(' && matches!(operator, "<" | ">") {
            self.open_process(operator, byte, cx);
            return true;
        }
        if let Some(longer) = longer_operator(operator, byte.byte) {
            self.end_redirected_word(cx);
            self.token = LexToken::Redirection(longer);
            return true;
        }
        self.redirect(operator, cx);
        false
    }

    /// Opens a process substitution, which is a part of the word before it.
    fn open_process<S: CommandSink>(
        &mut self,
        operator: &'static str,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        self.begin_token(LexToken::None, byte);
        let start = self.token_start;
        self.list().word.begin(start..byte.end);
        self.open_list(false, cx);
        if self.skipped > 0 {
            return;
        }
        self.list().opening.is_process = true;
        // The command inside `>( … )` reads the output of the one around it.
        if operator == ">" {
            self.list().pipe_from_parent();
        }
    }

    /// Ends the word before a redirection, which is certain at its second byte: `<(` and `>(` do not end a word.
    fn end_redirected_word<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let at = std::mem::replace(&mut cx.state.at, self.token_start);
        self.end_word(cx);
        cx.state.at = at;
    }

    fn redirect<S: CommandSink>(&mut self, operator: &'static str, cx: &mut ReadContext<'_, S>) {
        self.end_redirected_word(cx);
        self.token_bytes.clear();
        self.list().begin_target(operator);
    }

    fn after_angle<S: CommandSink>(
        &mut self,
        operator: &'static str,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte != b'(' {
            self.push_pending(cx);
            return false;
        }
        self.open_process(operator, byte, cx);
        true
    }

    /// Begins the definition of the function that the current word names, whose parentheses are read as a subshell.
    fn open_body<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        self.list().begin_function();
        self.list().open_subshell(cx.state.constants());
    }

    /// Reads the byte after `(` in an operand. Bash refuses such a line; programs that run words without a shell pass
    /// `a.b()` on.
    fn after_call_paren<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte == b')' {
            self.push_pending(cx);
            self.push_byte(byte, cx);
            return true;
        }
        self.token_bytes.clear();
        self.open_body(cx);
        false
    }

    fn open_paren<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        let posix = self.syntax == ShellSyntax::Posix;
        let list = self.list();
        let literal = list.word.literal();
        let is_array =
            list.word.begun && assignment(literal).is_some_and(|(_, value)| value == literal.len());
        let is_pattern = list.word.is_literal()
            && matches!(literal.last(), Some(b'?' | b'*' | b'+' | b'@' | b'!'));
        if posix && (is_array || is_pattern) {
            match is_array {
                true => list.word.end_literal(),
                false => list.word.mark_expanded(),
            }
            self.push_byte(byte, cx);
            let context = match is_array {
                true => LexContext::Array {
                    parens: 1,
                    after_blank: true,
                },
                false => LexContext::Parens(1),
            };
            if !self.enter(context, cx) {
                self.skipped = 1;
            }
        } else if self.list().in_patterns() {
            self.end_word(cx);
        } else if self.list().word.begun && self.syntax == ShellSyntax::Posix {
            match self.list().command.has_words() {
                true => self.begin_token(LexToken::CallParen, byte),
                false => self.open_body(cx),
            }
        } else if self.syntax == ShellSyntax::PowerShell {
            // A subexpression, whose output is an argument.
            self.begin_token(LexToken::None, byte);
            self.list().word.begin(byte.start..byte.end);
            self.open_list(false, cx);
        } else if self.list().begins_command() || self.list().begins_loop() {
            self.begin_token(LexToken::OpenParen, byte);
        } else {
            self.end_word(cx);
            self.end_pipeline(cx);
            self.list().open_subshell(cx.state.constants());
        }
    }

    fn after_open_paren<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte == b'(' {
            self.open_arithmetic(false, byte, cx);
            return true;
        }
        self.token_bytes.clear();
        self.list().open_subshell(cx.state.constants());
        false
    }

    fn close_paren<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        self.end_word(cx);
        if self.list().end_patterns() {
            return;
        }
        self.end_pipeline(cx);
        if let Some(values) = self.list().close_subshell(cx.state.limits.word) {
            cx.state.restore(values);
            return;
        }
        if self.lists.len() > 1 && !self.in_backquotes() && !self.list().discards() {
            return self.close_list(byte, cx);
        }
        cx.counters().unreadable += 1;
    }

    /// Reads the byte after `[` at the beginning of a command, which a quote makes an array of words.
    fn after_open_bracket<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if byte.byte == b'"' {
            self.token_bytes.clear();
            self.list().in_array = true;
        } else {
            self.push_pending(cx);
        }
        false
    }

    fn array_separator<S: CommandSink>(&mut self, byte: InputByte, cx: &mut ReadContext<'_, S>) {
        self.end_word(cx);
        if byte.byte == b']' {
            self.list().in_array = false;
            self.end_pipeline(cx);
        }
    }

    /// Ends the command and the pipeline.
    pub(super) fn end_pipeline<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        self.end_command(cx);
        self.list().end_pipeline(cx.state.limits.word);
    }

    /// Returns a list for the body of a here-document, whose text is dropped.
    pub(super) fn body_list(command: super::CommandId) -> ListReader {
        ListReader::of_body(command)
    }
}
