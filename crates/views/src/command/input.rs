//! The standard input of a command where its text is known: code that the command runs, and words that `xargs` appends.

use super::echo::KnownOutput;
use super::embedded::run_embedded;
use super::event::{CommandEvent, CommandId, CommandSink, CommandWord, WordRole, WordTraits};
use super::layer::{CommandLayer, Wrapping, run_script};
use super::path::normalize_path;
use super::simple::SimpleReader;
use super::text::MappedText;
use super::word::ReadWord;
use super::{ReadContext, ShellSyntax};

impl SimpleReader {
    /// Reads a text that the command reads from its standard input as code.
    pub(super) fn run_stdin<S: CommandSink>(
        &mut self,
        text: &MappedText,
        command: CommandId,
        language: &'static str,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        match language {
            "sh" => {
                let streams = run_script(text, place, command, &[], cx);
                self.chain.extend_from_slice(&streams.outputs);
            }
            _ => self.run_code(text, command, language, (place.1, &[]), cx),
        }
    }

    /// Reports a text as code, and reads the commands that it runs. `stdin` are the commands that write their standard input.
    pub(super) fn run_code<S: CommandSink>(
        &mut self,
        text: &MappedText,
        command: CommandId,
        language: &'static str,
        (level, stdin): (usize, &[CommandId]),
        cx: &mut ReadContext<'_, S>,
    ) {
        emit_code(text, command, language, cx);
        let streams = run_embedded(text, command, language, (level, stdin), cx);
        self.add_streams(streams);
    }

    /// Returns true if `xargs` appends the words of the standard input to the command that it runs.
    pub(super) fn appends_words(&self) -> bool {
        let (last, outer) = match self.layers.as_slice() {
            [outer @ .., last] => (last, outer),
            [] => return false,
        };
        let appends =
            |layer: &CommandLayer| layer.is_xargs() && layer.wrapping != Wrapping::ReplacesWords;
        outer.iter().any(appends) && !last.is_xargs()
    }

    /// Reads the words of the standard input as arguments of the command that `xargs` runs. Without quotes in the text they
    /// are separated by blanks.
    pub(super) fn append_words<S: CommandSink>(
        &mut self,
        text: Option<&MappedText>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(text) = text.filter(|text| !text.bytes().iter().any(|it| b"'\"\\".contains(it)))
        else {
            return;
        };
        let source = text.source();
        let mut from = 0;
        for word in text
            .bytes()
            .split(|byte| byte.is_ascii_whitespace() || *byte == 0)
        {
            let word_text = text.slice(from, from + word.len());
            from += word.len() + 1;
            if !word.is_empty() {
                let word = ReadWord {
                    text: &word_text,
                    start: source.start,
                    end: source.end,
                    traits: WordTraits::CONSTANT,
                    substitutions: &[],
                    written: None,
                };
                self.read_argument(&word, place, cx);
            }
        }
    }

    /// Takes the text that the command reads from its standard input as code, if it is known: a here-string, or a file that
    /// the same text has written.
    pub(super) fn take_input<S: CommandSink>(
        &mut self,
        command: CommandId,
        cx: &mut ReadContext<'_, S>,
    ) -> Option<MappedText> {
        if let Some(KnownOutput { text, .. }) = self.here_string.take() {
            return Some(text);
        }
        let (file, span, traits) = self.input_file.take()?;
        let path = normalize_path(&file, traits);
        let text = cx.state.stored.take(&path);
        let file = CommandWord {
            command,
            role: WordRole::Operand,
            text: &file,
            span,
            index: 0,
            traits,
        };
        cx.emit(CommandEvent::FileIsCode { command, file });
        text
    }
}

/// Emits a text as code.
fn emit_code<S: CommandSink>(
    text: &MappedText,
    command: CommandId,
    language: &'static str,
    cx: &mut ReadContext<'_, S>,
) {
    for chunk in text.chunks(cx.state.now) {
        cx.emit(CommandEvent::Code {
            command,
            language,
            chunk,
        });
    }
    cx.emit(CommandEvent::CodeEnd { command });
}
