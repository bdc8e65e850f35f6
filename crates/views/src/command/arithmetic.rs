//! `((` and `$((`, which begin an arithmetic expression, or a subshell in a subshell or in a substitution.
//!
//! Only the end tells: the parentheses of an expression close together. As in bash, the text is an expression until then.
//! If it is none, it is read again as commands, so these are certain at the byte after the first of the two parentheses.

use super::ReadContext;
use super::event::CommandSink;
use super::lexer::LexContext;
use super::script::ScriptReader;
use super::text::MappedText;
use super::word::InputByte;

/// The most expressions of one text that are read again within each other.
const NESTED: u32 = 4;

/// An expression that may turn out to be commands. Those inside it are a part of it.
#[derive(Clone, Debug)]
pub(super) struct OpenArithmetic {
    /// The bytes after the second parenthesis.
    text: MappedText,
    /// `$(` of a substitution; empty for a command.
    dollar: MappedText,
    /// The start of the expression in the part.
    start: u64,
    /// The number of open contexts, with that of the expression.
    contexts: usize,
    /// The length of the text and the traits of the word before the expression.
    word: (usize, super::event::WordTraits),
}

impl ScriptReader {
    /// Opens an expression, whose bytes before the last parenthesis are pending.
    pub(super) fn open_arithmetic<S: CommandSink>(
        &mut self,
        is_substitution: bool,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        let (start, dollar) = (self.token_start, self.token_bytes.clone());
        let list = self.list();
        let word = (list.word.text.len(), list.word.traits);
        let begins_command = list.begins_command();
        if is_substitution {
            list.word.mark_expanded();
        } else {
            list.begin_dropped_word();
        }
        self.push_pending(cx);
        self.push_byte(byte, cx);
        if !self.enter(LexContext::Arithmetic(2), cx) {
            self.skipped = 2;
            return;
        }
        let is_known = is_substitution || begins_command;
        if is_known && self.arithmetic.is_none() && self.reread < NESTED {
            self.arithmetic = Some(Box::new(OpenArithmetic {
                text: MappedText::default(),
                dollar: match is_substitution {
                    true => dollar,
                    false => MappedText::default(),
                },
                start,
                contexts: self.contexts.len(),
                word,
            }));
        }
    }

    /// Keeps the next byte of an open expression.
    pub(super) fn keep_arithmetic<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(open) = &mut self.arithmetic else {
            return;
        };
        let fits = open.text.len() < cx.state.limits.word;
        cx.counters().long_words += u64::from(!fits);
        if !fits || self.contexts.len() < open.contexts {
            self.arithmetic = None;
            return;
        }
        open.text.push(&[byte.byte], byte.offsets());
    }

    /// Reads the open expression again as commands, as its last two parentheses are not together. `byte` is the one after
    /// the first of them. Returns false if the expression is not the one that is kept.
    pub(super) fn reread_arithmetic<S: CommandSink>(
        &mut self,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let is_open = |open: &mut Box<OpenArithmetic>| open.contexts == self.contexts.len();
        let Some(mut open) = self.arithmetic.take_if(is_open) else {
            return false;
        };
        open.text.truncate(open.text.len().saturating_sub(1));
        self.contexts.pop();
        let list = self.list();
        list.word.truncate(open.word.0);
        list.word.traits = open.word.1;
        if open.dollar.len() > 0 {
            self.token_start = open.start;
            self.token_bytes = open.dollar;
            self.open_list(false, cx);
        } else {
            list.keep_next_word();
            let constants = cx.state.constants();
            self.list().open_subshell(constants);
        }
        if self.skipped > 0 {
            self.skipped += 1;
        } else {
            let constants = cx.state.constants();
            self.list().open_subshell(constants);
        }
        self.reread += 1;
        let at = cx.state.at;
        for chunk in open.text.chunks(cx.state.now) {
            for index in 0..chunk.bytes.len() {
                let byte = InputByte {
                    byte: chunk.bytes[index],
                    start: chunk.start(index),
                    end: chunk.end(index),
                };
                cx.state.at = byte.end;
                self.keep_arithmetic(byte, cx);
                self.read(byte, cx);
            }
        }
        cx.state.at = at;
        self.keep_arithmetic(byte, cx);
        self.read(byte, cx);
        self.reread -= 1;
        true
    }
}
