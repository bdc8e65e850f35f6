//! Parameter expansion: variables that the text sets to constants, and `$IFS`.

use std::ops::Range;

use super::super::chunk::OffsetMap;
use super::arguments::POSITIONAL;
use super::event::{CommandEvent, CommandId, CommandSink, WordTraits};
use super::ids::CommandIds;
use super::lexer::LexContext;
use super::list::ListReader;
use super::path::resolve_directory;
use super::script::ScriptReader;
use super::word::InputByte;
use super::{ReadContext, ReaderState, ShellSyntax};

/// The longest value of a variable that is remembered, in bytes.
const VALUE: usize = 256;

/// The number of bytes that the values of variables can add to the input, and the factor by which they can extend it.
const ADDED: u64 = 64 << 10;
const FACTOR: u64 = 8;

/// The name of the working directory among the variables, which no variable can have. Subshells restore it like them. An
/// empty value is an unknown directory.
const DIRECTORY: &[u8] = b"/";

/// The variables that the text has set to constants.
#[derive(Clone, Debug, Default)]
pub(super) struct Constants {
    values: ConstantValues,
    /// The variables that hold the output of commands, and these commands.
    outputs: Vec<(Vec<u8>, CommandIds)>,
    /// The number of bytes that values have added to the text.
    added: u64,
    /// The normalized operand of the last `cd`, and the command.
    directory_operand: (Option<CommandId>, Vec<u8>),
    /// A buffer of a path.
    path: Vec<u8>,
}

/// The names of variables with their values.
pub(super) type ConstantValues = Vec<(Vec<u8>, Vec<u8>)>;

impl ReaderState {
    /// Returns the values that a subshell may change.
    pub(super) fn constants(&self) -> ConstantValues {
        self.constants.values.clone()
    }

    /// Forgets all values, and returns them.
    pub(super) fn forget(&mut self) -> ConstantValues {
        std::mem::take(&mut self.constants.values)
    }

    /// Restores the values at the end of a subshell.
    pub(super) fn restore(&mut self, values: ConstantValues) {
        self.constants.values = values;
    }

    /// Records the commands whose output a variable holds; none if it holds something else.
    pub(super) fn assign_output(&mut self, name: &[u8], commands: &[CommandId]) {
        let outputs = &mut self.constants.outputs;
        outputs.retain(|(known, _)| known != name);
        if commands.is_empty() || name.len() > VALUE {
            return;
        }
        if outputs.len() < self.limits.expansions {
            outputs.push((name.to_vec(), commands.into()));
        } else {
            self.counters.expansions += 1;
        }
    }

    /// Returns the commands whose output a variable holds.
    fn output(&self, name: &[u8]) -> CommandIds {
        let mut outputs = self.constants.outputs.iter();
        let known = outputs.find(|(known, _)| known == name);
        known.map_or_else(CommandIds::default, |(_, commands)| *commands)
    }

    /// Records the value of a variable; `None` if it is unknown.
    pub(super) fn assign(&mut self, name: &[u8], value: Option<&[u8]>) {
        self.lists.take_loop(name);
        let values = &mut self.constants.values;
        let known = values.iter().position(|(known, _)| known == name);
        let Some(value) = value.filter(|value| value.len() <= VALUE && name.len() <= VALUE) else {
            known.map(|index| values.swap_remove(index));
            return;
        };
        if let Some(index) = known {
            let known = &mut values[index].1;
            known.clear();
            known.extend_from_slice(value);
        } else if values.len() < self.limits.expansions {
            values.push((name.to_vec(), value.to_vec()));
        } else {
            self.counters.expansions += 1;
        }
    }

    /// Returns the working directory, if the text has changed it to a constant.
    pub(super) fn directory(&self) -> Option<&[u8]> {
        let path = self.value(DIRECTORY);
        path.filter(|path| !path.is_empty() && *path != b".")
    }

    /// Records the normalized operand of a command that changes the working directory.
    pub(super) fn set_directory_operand(&mut self, command: CommandId, path: &[u8]) {
        let (of, operand) = &mut self.constants.directory_operand;
        *of = Some(command);
        operand.clear();
        operand.extend_from_slice(path);
    }

    /// Changes the working directory to the recorded operand of the command, or to `default`. Without both it is unknown.
    pub(super) fn change_directory(&mut self, command: CommandId, default: Option<&[u8]>) {
        let mut path = std::mem::take(&mut self.constants.path);
        let to = match &self.constants.directory_operand {
            (Some(of), operand) if *of == command => Some(&operand[..]),
            _ => default,
        };
        let is_known = to.is_some_and(|to| resolve_directory(self.value(DIRECTORY), to, &mut path));
        if !is_known || path.len() > VALUE {
            path.clear();
        }
        self.assign(DIRECTORY, Some(&path));
        self.constants.path = path;
    }

    /// Returns the value to be [restored](Self::restore_directory).
    pub(super) fn saved_directory(&self) -> Option<Vec<u8>> {
        self.value(DIRECTORY).map(<[u8]>::to_vec)
    }

    /// Restores the working directory at the end of a script that has one of its own.
    pub(super) fn restore_directory(&mut self, saved: Option<&[u8]>) {
        self.assign(DIRECTORY, saved);
    }

    /// Returns the recorded value of a variable.
    pub(super) fn value(&self, name: &[u8]) -> Option<&[u8]> {
        let mut values = self.constants.values.iter();
        values
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_slice())
    }

    /// Returns true if the elements of a list can be added to the text, and counts them if not.
    pub(super) fn adds(&mut self, elements: &[Vec<u8>]) -> bool {
        let fits = self.constants.added <= ADDED + FACTOR * self.now;
        let bytes: usize = elements.iter().map(|element| element.len() + 1).sum();
        self.constants.added += bytes as u64;
        self.counters.expansions += u64::from(!fits);
        fits
    }

    /// Returns the value of a variable to be added to the text, if the text has set it to a constant.
    fn constant(&mut self, name: &[u8]) -> Option<Vec<u8>> {
        let value = self.value(name)?.to_vec();
        if self.constants.added > ADDED + FACTOR * self.now {
            self.counters.expansions += 1;
            return None;
        }
        self.constants.added += value.len() as u64;
        Some(value)
    }
}

impl ScriptReader {
    /// Replaces the expansion that begins at `from` in the text of the current word by the value of the variable
    /// `name`, if it is known.
    pub(super) fn expand<S: CommandSink>(
        &mut self,
        from: usize,
        name: &[u8],
        cx: &mut ReadContext<'_, S>,
    ) {
        let splits = !self.in_double_quotes() && !self.list().in_assignment();
        let value = match name {
            b"IFS" => Some(b" ".to_vec()),
            _ => cx.state.constant(name),
        };
        let list = self.list();
        let Some(value) = value else {
            list.word.mark_expanded();
            let outputs = cx.state.output(name);
            if !outputs.is_empty() {
                let to = list.begin(cx);
                for &from in outputs.iter() {
                    cx.emit(CommandEvent::Output { from, to });
                }
                list.word.add_substitutions(&outputs);
            }
            return;
        };
        self.replace_expansion(from, &value, splits, cx);
    }

    /// Replaces the expansion that begins at `from` in the text of the current word by a value.
    fn replace_expansion<S: CommandSink>(
        &mut self,
        from: usize,
        value: &[u8],
        splits: bool,
        cx: &mut ReadContext<'_, S>,
    ) {
        let list = self.list();
        let span = list.expansion_span(cx.state.at);
        list.word.truncate(from);
        list.word.end_literal();
        list.word.traits.insert(WordTraits::CONSTANT);
        if !splits {
            self.push_value(value, span, cx);
            return;
        }
        if from == 0 && !self.list().word.traits.quoted() {
            self.list().word.clear();
        }
        let mut words = value.split(|byte| matches!(byte, b' ' | b'\t' | b'\n'));
        if let Some(first) = words.next() {
            self.push_value(first, span, cx);
        }
        for word in words {
            self.end_word(cx);
            self.push_value(word, span, cx);
        }
    }

    /// Replaces the substitution that ends with `byte` by the text that it writes, if all of it is known. Returns false if
    /// the substitution remains as written.
    pub(super) fn push_output<S: CommandSink>(
        &mut self,
        mut ended: ListReader,
        byte: InputByte,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let mut output = ended.take_output();
        let opening = ended.opening;
        let splits = self.context() == LexContext::Commands && !self.list().in_assignment();
        let is_posix = self.syntax == ShellSyntax::Posix;
        let list = self.list();
        if opening.is_process {
            list.word.written = (output.text.len() > 0).then(|| Box::new(output.text));
            return false;
        }
        let bytes = output.text.bytes();
        let lines = bytes.iter().rev().take_while(|&&byte| byte == b'\n');
        let length = bytes.len() - lines.count();
        output.text.truncate(length);
        let is_known = length > 0 && !output.has_gaps && !list.word.traits.truncated();
        if !is_known || list.discards() || !is_posix {
            return false;
        }
        list.word.truncate(opening.at);
        list.word.traits = opening.traits;
        list.word.end_literal();
        list.word.traits.insert(WordTraits::CONSTANT);
        for chunk in output.text.chunks(0) {
            let mut from = 0;
            while from < chunk.bytes.len() {
                let is_blank = |byte: &u8| splits && matches!(byte, b' ' | b'\t' | b'\n');
                let run = chunk.bytes[from..].iter().position(is_blank);
                let to = run.map_or(chunk.bytes.len(), |run| from + run);
                if to > from {
                    let run = chunk.slice(from..to);
                    let source = chunk.start(from)..chunk.end(to - 1);
                    self.push_constant(run.bytes, run.offsets, source, cx);
                }
                let word = &self.list().word;
                if to < chunk.bytes.len() && (word.text.len() > 0 || word.traits.quoted()) {
                    self.end_word(cx);
                }
                from = to + 1;
            }
        }
        let word = &mut self.list().word;
        if word.begun {
            word.span.end = word.span.end.max(byte.end);
        }
        true
    }

    /// Appends a part of a constant value to the current word.
    fn push_constant<S: CommandSink>(
        &mut self,
        bytes: &[u8],
        offsets: OffsetMap,
        source: Range<u64>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let word = &mut self.list().word;
        word.end_literal();
        word.traits.insert(WordTraits::CONSTANT);
        self.push_text(bytes, offsets, source, cx);
    }

    fn push_value<S: CommandSink>(
        &mut self,
        value: &[u8],
        (start, end): (u64, u64),
        cx: &mut ReadContext<'_, S>,
    ) {
        if value.is_empty() {
            return;
        }
        let most = cx.state.limits.word;
        let word = &mut self.list().word;
        word.begin(start..end);
        word.end_literal();
        word.traits.insert(WordTraits::CONSTANT);
        let fits = word.push(value, OffsetMap::Replacement { start, end }, most);
        cx.counters().long_words += u64::from(!fits);
    }

    /// Replaces the expansion that begins at `from` in the text of the current word by the elements of a list, each of which
    /// is a word, unless they are joined. Returns false if the elements are not known.
    pub(super) fn expand_list<S: CommandSink>(
        &mut self,
        from: usize,
        name: &[u8],
        joins: bool,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let outer = self
            .contexts
            .len()
            .checked_sub(2)
            .map(|at| self.contexts[at]);
        let (is_quoted, splits) = match (self.context(), outer) {
            (LexContext::Commands, _) => (false, true),
            (LexContext::Double, Some(LexContext::Commands)) => (true, !joins),
            _ => (true, false),
        };
        let splits = splits && !self.list().in_assignment();
        let Some(elements) = cx.state.lists.get(name).map(<[Vec<u8>]>::to_vec) else {
            return false;
        };
        if elements.is_empty() || self.list().discards() || !cx.state.adds(&elements) {
            return false;
        }
        if !splits {
            let value = elements.join(&b' ');
            self.replace_expansion(from, &value, false, cx);
            return true;
        }
        let list = self.list();
        let (start, end) = list.expansion_span(cx.state.at);
        list.word.truncate(from);
        for (index, element) in elements.iter().enumerate() {
            if index > 0 {
                self.end_word(cx);
            }
            let word = &mut self.list().word;
            word.begin(start..end);
            word.end_literal();
            word.traits.insert(WordTraits::CONSTANT);
            if is_quoted {
                word.mark_quoted();
            }
            self.push_value(element, (start, end), cx);
        }
        true
    }

    /// Ends `${…}`, whose text begins at `from` in the current word.
    pub(super) fn end_parameter<S: CommandSink>(
        &mut self,
        from: usize,
        cx: &mut ReadContext<'_, S>,
    ) {
        let text = self.list().word.text.bytes();
        let name = text.get(from + 2..).unwrap_or_default();
        let name = name.strip_suffix(b"}").unwrap_or(name);
        let is_name = name
            .iter()
            .all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if let Some((name, joins)) = list_name(name) {
            let name = name.to_vec();
            let is_positional = name == POSITIONAL && self.list().in_function();
            if is_positional || !self.expand_list(from, &name, joins, cx) {
                self.list().word.mark_expanded();
            }
            return;
        }
        if let Some((name, operator, default)) = default_of(name) {
            let (name, default) = (name.to_vec(), default.to_vec());
            let is_set = cx.state.value(&name).is_some();
            if is_set && operator != b'+' {
                return self.expand(from, &name, cx);
            }
            if !is_set && operator == b'+' {
                return self.list().word.mark_expanded();
            }
            let splits = self.context() == LexContext::Commands && !self.list().in_assignment();
            return self.replace_expansion(from, &default, splits, cx);
        }
        // The value of `${IFS%?}` and the like is blank too.
        let name = match name {
            [b'I', b'F', b'S', rest @ ..] if !rest.first().is_some_and(is_name_byte) => {
                b"IFS".to_vec()
            }
            name if is_name => name.to_vec(),
            _ => {
                self.list().word.mark_expanded();
                return;
            }
        };
        self.expand(from, &name, cx);
    }

    /// Returns true if the current byte is in double quotes, in which words are not split.
    pub(super) fn in_double_quotes(&self) -> bool {
        let quotes = |context: &&LexContext| {
            !matches!(
                context,
                LexContext::Parameter { quoted: false, .. }
                    | LexContext::Parens(_)
                    | LexContext::Array { .. }
            )
        };
        !matches!(
            self.contexts.iter().rfind(quotes),
            Some(LexContext::Commands) | None
        )
    }
}

/// Returns the name of the list in `name[@]`, `name[*]`, `@` or `*`, and true if its elements are joined.
fn list_name(text: &[u8]) -> Option<(&[u8], bool)> {
    match text {
        b"@" => Some((POSITIONAL, false)),
        b"*" => Some((POSITIONAL, true)),
        _ => {
            let joins = text.ends_with(b"[*]");
            let name = text.strip_suffix(b"[@]").or(text.strip_suffix(b"[*]"))?;
            name.iter().all(is_name_byte).then_some((name, joins))
        }
    }
}

/// Returns the variable, the operator and the word in `name:-word`, `name=word`, `name:+word` and the like, if the word is
/// constant.
fn default_of(text: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let end = text.iter().position(|byte| !is_name_byte(byte))?;
    let (name, rest) = text.split_at(end);
    let (&operator, word) = rest.strip_prefix(b":").unwrap_or(rest).split_first()?;
    let is_constant = !word.is_empty() && !word.contains(&b'$');
    let is_known = matches!(operator, b'-' | b'=' | b'+') && !name.is_empty() && is_constant;
    is_known.then_some((name, operator, word))
}

pub(super) fn is_name_byte(byte: &u8) -> bool {
    byte.is_ascii_alphanumeric() || *byte == b'_'
}

impl ListReader {
    /// Returns the range of the part from the start of the last expansion to `at`.
    fn expansion_span(&self, at: u64) -> (u64, u64) {
        (self.expansion_start.min(at), at)
    }
}
