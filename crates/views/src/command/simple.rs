//! A simple command: its assignments, words and redirections, and the chain of commands that wrappers make of it.

use std::ops::Range;

use super::arguments::{LoopValue, is_arguments};
use super::body::{HereConsumer, HereDocument};
use super::braces::expand_braces;
use super::echo::{KnownOutput, WrittenText};
use super::event::{CommandEvent, CommandId, CommandSink, CommandWord, WordRole, WordTraits};
use super::ids::{CommandIds, StdinCode};
use super::layer::{CommandLayer, ScriptStreams};
use super::list::ListReader;
use super::path::normalize_path;
use super::program::ProgramAction;
use super::script::ScriptReader;
use super::stored::OutputFile;
use super::text::MappedText;
use super::variables::run_variable;
use super::word::{ReadWord, WordBuffer, assignment};
use super::{ReadContext, ShellSyntax};

/// The most bytes of a word that brace expansion yields.
const BRACES: usize = 4096;

/// A simple command that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct SimpleReader {
    id: Option<CommandId>,
    /// The command itself, and the commands that it wraps, innermost last.
    pub(super) layers: Vec<CommandLayer>,
    /// All commands of the chain, and those of the scripts that it has run.
    pub(super) chain: Vec<CommandId>,
    /// The commands that write the standard input.
    pub(super) stdin: CommandIds,
    pub(super) here_string: Option<KnownOutput>,
    /// The file that the standard output is written to, if its path is constant.
    pub(super) output_file: OutputFile,
    /// True if the program may be the name of a coprocess.
    pub(super) names_coprocess: bool,
    /// The range of the part of the target of the first redirection.
    redirected: Option<Range<u64>>,
    /// The file that the standard input is redirected to, and the range and traits of the word that names it.
    pub(super) input_file: Option<(Vec<u8>, Range<u64>, WordTraits)>,
    /// The operands of `echo` and `printf`.
    pub(super) written: WrittenText,
    /// The command of a script of this command that runs the standard input as code.
    stdin_code: StdinCode,
    /// The earlier values of the variables that are assigned before the program, whose environment they are.
    shadowed: Vec<Assignment>,
    /// The variables that `export` and its like assign once all of their operands are expanded.
    pub(super) exported: Vec<Assignment>,
}

/// The name of a variable, and its value, if it is constant.
type Assignment = (Vec<u8>, Option<Vec<u8>>);

impl SimpleReader {
    #[inline]
    pub(super) fn id(&self) -> Option<CommandId> {
        self.id
    }

    pub(super) fn begin(&mut self, command: CommandId, stdin: &[CommandId]) {
        self.id = Some(command);
        self.chain.push(command);
        self.stdin = stdin.into();
    }

    /// Uses the number of a command that has ended, as the parent of substitutions.
    pub(super) fn adopt(&mut self, command: CommandId) {
        self.id = Some(command);
    }

    /// Empties the command and keeps its buffers.
    fn clear(&mut self) {
        let SimpleReader {
            layers,
            chain,
            written,
            shadowed,
            exported,
            output_file,
            ..
        } = self;
        output_file.clear();
        layers.clear();
        chain.clear();
        written.clear();
        shadowed.clear();
        exported.clear();
        *self = SimpleReader {
            layers: std::mem::take(layers),
            chain: std::mem::take(chain),
            written: std::mem::take(written),
            shadowed: std::mem::take(shadowed),
            exported: std::mem::take(exported),
            output_file: std::mem::take(output_file),
            ..SimpleReader::default()
        };
    }

    /// Returns true if the name of the program has been read.
    #[inline]
    pub(super) fn has_words(&self) -> bool {
        !self.layers.is_empty()
    }

    /// Returns true if the program is one of Windows, in whose operands a backslash is not an escape.
    #[inline]
    pub(super) fn is_windows(&self) -> bool {
        self.layers.first().is_some_and(CommandLayer::is_windows)
    }

    /// Reads a word: the name of the program, a flag or an operand.
    pub(super) fn read_word<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(id) = self.id else {
            return;
        };
        if self.layers.is_empty() {
            for (name, value) in self.shadowed.drain(..).rev() {
                cx.state.assign(&name, value.as_deref());
            }
            let layer = CommandLayer::begin(id, word, place.0, cx);
            self.layers.push(layer);
            self.run_program_file(word, id, place, cx);
            return;
        }
        self.read_argument(word, place, cx);
    }

    /// Ends the command and every command that it wraps. Returns the language of the code that it reads from its
    /// standard input.
    fn end<S: CommandSink>(
        &mut self,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) -> StdinCode {
        for (name, value) in self.exported.drain(..) {
            cx.state.assign(&name, value.as_deref());
        }
        let mut stdin_code = self.stdin_code;
        while let Some(mut layer) = self.layers.pop() {
            let streams = layer.finish(cx);
            self.chain.extend_from_slice(&streams.outputs);
            stdin_code = stdin_code.or(streams.stdin_code);
            let language = layer.stdin_language().filter(|_| stdin_code.is_none());
            if let Some(language) = language {
                let command = layer.id;
                stdin_code = Some((command, language));
                cx.emit(CommandEvent::StdinIsCode { command, language });
            }
            if let Some((command, language)) = stdin_code
                && let Some(text) = self.take_input(command, cx)
            {
                self.run_stdin(&text, command, language, place, cx);
            }
            let at = cx.state.at;
            cx.emit(CommandEvent::End {
                command: layer.id,
                at,
            });
            layer.change_directory(cx);
        }
        stdin_code
    }

    /// Ends a command without words. Its redirections, alone or after a compound command, are those of the program `:`.
    /// `code` is the command of that compound command which runs the standard input.
    fn end_without_words<S: CommandSink>(
        &mut self,
        id: CommandId,
        code: StdinCode,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        if let Some(span) = &self.redirected {
            cx.emit(CommandEvent::Word(CommandWord {
                command: id,
                role: WordRole::Program { name: b":" },
                text: b":",
                span: span.clone(),
                index: 0,
                traits: WordTraits::default(),
            }));
            cx.emit_directory(id);
        }
        if let Some((command, language)) = code
            && let Some(KnownOutput { text, .. }) = self.here_string.take()
        {
            self.run_stdin(&text, command, language, place, cx);
        }
        let at = cx.state.at;
        cx.emit(CommandEvent::End { command: id, at });
    }

    /// Returns true if the redirections, one of which reads a file, are those of the shell: `exec < file`.
    fn redirects_shell(&self) -> bool {
        let is_exec = |layer: &CommandLayer| layer.spec.is_some_and(|spec| spec.names == ["exec"]);
        self.input_file.is_some() && self.layers.len() == 1 && is_exec(&self.layers[0])
    }

    /// Redirects the standard output to the file that the word names, or to another descriptor.
    fn redirect_output(&mut self, word: &ReadWord<'_>, appends: bool) {
        self.output_file.is_redirected = true;
        // The file of `tee` gets the text that matters, whatever becomes of its output.
        if !self.output_file.path.is_empty() && self.layers.last().is_some_and(CommandLayer::is_tee)
        {
            return;
        }
        self.write_to(word);
        self.output_file.appends = appends;
    }

    /// Records the file that the output is written to.
    pub(super) fn write_to(&mut self, word: &ReadWord<'_>) {
        self.output_file.path.clear();
        let path = normalize_path(word.bytes(), word.traits);
        let is_constant =
            !word.traits.expanded() || path.starts_with(b"~") && !path.contains(&b'$');
        if is_constant && !word.traits.truncated() {
            self.output_file.path.extend_from_slice(&path);
        }
    }

    /// Returns true if the program has been read and no operand after it.
    pub(super) fn is_first_argument(&self) -> bool {
        self.layers.len() == 1 && self.layers[0].has_no_operand()
    }

    /// Returns true if the program is `time`, which is a reserved word of bash.
    pub(super) fn is_time(&self) -> bool {
        self.layers[0].is_time()
    }

    /// Records the commands of a script that the command has run.
    pub(super) fn add_streams(&mut self, streams: ScriptStreams) {
        self.chain.extend_from_slice(&streams.outputs);
        self.stdin_code = self.stdin_code.or(streams.stdin_code);
    }
}

impl ScriptReader {
    /// Ends the current word, if there is one.
    pub(super) fn end_word<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let Some(word) = self.list().take_word() else {
            return;
        };
        self.read_complete(&word, cx);
        self.list().recycle(word);
    }

    fn read_complete<S: CommandSink>(&mut self, word: &WordBuffer, cx: &mut ReadContext<'_, S>) {
        if let Some(operator) = self.list().target.take() {
            return self.end_target(operator, word, cx);
        }
        if word.traits.expanded() && self.read_loop_variable(word, cx) {
            return;
        }
        let marked = word
            .braces
            .first()
            .is_some_and(|&at| word.text.bytes().get(at) == Some(&b'{'))
            || word.braces.len() > 2;
        if !marked || self.syntax != ShellSyntax::Posix || self.list().in_assignment_of(word) {
            return self.read_word(word, cx);
        }
        let most = cx.state.limits.expansions;
        let text = word.text.bytes();
        match word
            .knows_braces()
            .then(|| expand_braces(text, &word.braces, most, BRACES))
        {
            Some(Some(words)) if words.len() > 1 || words[0] != text => {
                // An empty word remains only if a part of it is quoted.
                let keeps = |text: &Vec<u8>| !text.is_empty() || word.traits.quoted();
                for text in words.into_iter().filter(keeps) {
                    let expanded = WordBuffer {
                        text: MappedText::replacement(&text, word.span.clone()),
                        literal: Some(0),
                        ..word.clone()
                    };
                    self.read_word(&expanded, cx);
                }
            }
            Some(Some(_)) => self.read_word(word, cx),
            _ => {
                cx.counters().expansions += 1;
                self.read_word(word, cx);
            }
        }
    }

    /// Reads each value of the variable of a loop, if the word is nothing but that variable. Returns false if it is not.
    fn read_loop_variable<S: CommandSink>(
        &mut self,
        word: &WordBuffer,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let values = cx.state.lists.loop_values(word.text.bytes());
        let Some(mut values) = values.map(<[LoopValue]>::to_vec) else {
            return false;
        };
        // Where the words after it depend on the word, as the command after `ssh $host` does, it stands for the first value.
        let layer = self.list().command.layers.last();
        if !layer.is_some_and(CommandLayer::takes_operands) {
            values.truncate(1);
        }
        let texts: Vec<_> = values.iter().map(|value| value.text.clone()).collect();
        if self.list().discards() || !cx.state.adds(&texts) {
            return false;
        }
        for LoopValue { text, mut traits } in values {
            traits.insert(WordTraits::CONSTANT);
            if word.traits.quoted() {
                traits.insert(WordTraits::QUOTED);
            }
            let expanded = WordBuffer {
                text: MappedText::replacement(&text, word.span.clone()),
                literal: Some(0),
                traits,
                ..word.clone()
            };
            self.read_word(&expanded, cx);
        }
        true
    }

    /// Reads a complete word that is not the target of a redirection.
    fn read_word<S: CommandSink>(&mut self, word: &WordBuffer, cx: &mut ReadContext<'_, S>) {
        let place = (self.syntax, self.level);
        let list = self.list();
        let complete = word.complete();
        // An element of an array of words is neither a reserved word nor an assignment.
        let is_literal = word.is_literal() && place.0.has_reserved_words();
        if list.read_reserved(&complete, is_literal, cx) {
            return;
        }
        if is_literal && list.begins_compound(&complete) {
            self.end_pipeline(cx);
            self.list().read_reserved(&complete, is_literal, cx);
            return;
        }
        let command = list.begin(cx);
        if !list.command.has_words()
            && place.0 == ShellSyntax::Posix
            && let Some((name, value)) = assignment(word.literal())
        {
            let variable = &complete.bytes()[..name];
            if list.command.shadowed.len() < cx.state.limits.expansions {
                let earlier = cx.state.value(variable).map(<[u8]>::to_vec);
                list.command.shadowed.push((variable.to_vec(), earlier));
            }
            record(&complete, name, value, cx);
            record_array(word, name, value, cx);
            assign(command, &complete, name, value, cx);
            let streams = run_variable(command, &complete, (name, value), place.1, cx);
            list.command.chain.extend_from_slice(&streams.outputs);
            return;
        }
        list.read_body_word(complete.bytes(), cx);
        list.command.read_word(&complete, place, cx);
    }

    /// Reads the target of a redirection.
    fn end_target<S: CommandSink>(
        &mut self,
        operator: &'static str,
        word: &WordBuffer,
        cx: &mut ReadContext<'_, S>,
    ) {
        let room = self.heredocs.len() < cx.state.limits.heredocs;
        let lists = self.lists.len();
        let list = self.list();
        let command = list.begin(cx);
        let complete = word.complete();
        let descriptor = list.descriptor.take();
        cx.emit(CommandEvent::Redirection {
            command,
            descriptor,
            operator,
            target: complete.in_role(command, WordRole::Target, 0),
        });
        list.command.redirected.get_or_insert(word.span.clone());
        if operator == "<" && descriptor.is_none_or(|number| number == 0) {
            let file = (
                complete.bytes().to_vec(),
                word.span.clone(),
                complete.traits,
            );
            list.command.input_file = Some(file);
        }
        list.connect_closed(command, operator, descriptor, cx);
        if operator.contains('>') && descriptor.is_none_or(|number| number == 1) {
            list.command
                .redirect_output(&complete, operator.ends_with(">>"));
        }
        match operator {
            "<<<" => {
                list.command.here_string = Some(KnownOutput {
                    text: word.text.clone(),
                    has_gaps: word.traits.expanded(),
                });
            }
            "<<" | "<<-" if room => {
                let heredoc = HereDocument::new(command, word, operator == "<<-", lists);
                self.heredocs.push(heredoc);
            }
            "<<" | "<<-" => cx.counters().heredocs += 1,
            "<" => {
                // `bash < <(curl …)` runs the output of the substitution.
                list.command.stdin.extend(&word.substitutions);
                if let Some(text) = &word.written {
                    list.command.here_string = Some(KnownOutput {
                        text: (**text).clone(),
                        has_gaps: false,
                    });
                }
                for &from in &word.substitutions {
                    cx.emit(CommandEvent::Pipe { from, to: command });
                }
            }
            _ => {}
        }
    }

    /// Ends the simple command, if there is one.
    pub(super) fn end_command<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let place = (self.syntax, self.level);
        let list = self.list();
        if list.discards() || list.command.id.is_none() {
            list.end_element(&[], false);
            return;
        }
        let mut command = std::mem::take(&mut list.command);
        let (has_words, passes) = (command.has_words(), command.passes_stdin());
        let (is_echo, is_silent) = (command.is_echo(), command.is_silent());
        command.mark_format();
        let own_commands = command.chain.len();
        let stdin_code = match command.id {
            Some(id) if !has_words => {
                let code = list.closed_stdin_code();
                command.end_without_words(id, code, place, cx);
                code
            }
            _ => {
                if command.redirects_shell() {
                    list.read_from(&command.chain);
                }
                if command.appends_words() {
                    let piped = list.piped.is_known && !list.piped.has_gaps;
                    let text = match command.here_string.take() {
                        Some(text) => Some(text.text),
                        None => piped.then(|| list.piped.output()),
                    };
                    command.append_words(text.as_ref(), place, cx);
                }
                command.end(place, cx)
            }
        };
        if let Some((reader, language)) = stdin_code
            && std::mem::take(&mut list.piped.is_known)
        {
            command.run_stdin(&list.piped.output(), reader, language, place, cx);
        }
        list.record_stdin_code(stdin_code);
        list.end_element(&command.chain, has_words);
        if has_words {
            list.piped.is_known &= passes;
        }
        if is_echo {
            std::mem::swap(&mut list.piped, &mut command.written);
            list.piped.is_known = true;
        } else if let Some(text) = command.here_string.take().filter(|_| passes) {
            list.piped.set_raw(&text);
        }
        self.assign_bodies(&command, own_commands, passes, stdin_code);
        self.end_output(&command, own_commands, (has_words, passes, is_silent), cx);
        command.clear();
        self.list().command = command;
    }

    /// Records the output of a command that has ended: the text for the next element of the pipeline, or for its file.
    fn end_output<S: CommandSink>(
        &mut self,
        command: &SimpleReader,
        own_commands: usize,
        (has_words, passes, is_silent): (bool, bool, bool),
        cx: &mut ReadContext<'_, S>,
    ) {
        let own = &command.chain[..own_commands];
        // The body of a here-document is written when it has been read.
        let passes_body = passes && self.heredocs.iter().any(|it| own.contains(&it.command));
        let list = self.list();
        if !command.output_file.path.is_empty() && !passes_body {
            let text = list.piped.is_known.then(|| list.piped.output());
            let most = cx.state.limits.word;
            cx.state.stored.write(&command.output_file, text, most);
        }
        if command.output_file.is_redirected {
            list.piped.set_unknown(false);
        } else if has_words && !list.piped.is_known {
            list.piped.set_unknown(!is_silent && !passes_body);
        }
    }

    /// Determines the consumers of the here-documents of a command that has ended, and of the commands whose output it
    /// reads.
    fn assign_bodies(
        &mut self,
        command: &SimpleReader,
        own_commands: usize,
        passes: bool,
        stdin_code: StdinCode,
    ) {
        let ids = &command.chain[..own_commands];
        for heredoc in &mut self.heredocs {
            let owns = ids.contains(&heredoc.command);
            if owns && passes {
                heredoc.consumer = HereConsumer::Passed;
            }
            let passed = heredoc.consumer == HereConsumer::Passed;
            let reads = owns || passed && command.stdin.contains(&heredoc.command);
            if reads && passes {
                heredoc.is_redirected |= command.output_file.is_redirected;
                if !command.output_file.path.is_empty() {
                    heredoc.file = Some(command.output_file.clone());
                }
            }
            if let Some((command, language)) = stdin_code
                && reads
            {
                heredoc.consumer = HereConsumer::Code { command, language };
            }
        }
    }

    /// Ends the list.
    pub(super) fn end_list<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) {
        let most = cx.state.limits.word;
        self.list().end_pipeline(most);
        self.list().end_compounds(most);
    }
}

/// Records the value of an assignment for the text that follows, if it is constant.
pub(super) fn record<S: CommandSink>(
    word: &ReadWord<'_>,
    name: usize,
    value: usize,
    cx: &mut ReadContext<'_, S>,
) {
    let variable = &word.bytes()[..name];
    cx.state.assign(variable, constant(word, value));
    cx.state.assign_output(variable, word.substitutions);
}

/// Records the elements of an array for the text that follows, if they are constant.
fn record_array<S: CommandSink>(
    word: &WordBuffer,
    name: usize,
    value: usize,
    cx: &mut ReadContext<'_, S>,
) {
    let text = word.text.bytes();
    let variable = &text[..name];
    let earlier = match text[value - 2] {
        b'+' => cx.state.lists.get(variable).unwrap_or_default().to_vec(),
        _ => Vec::new(),
    };
    cx.state.lists.remove(variable);
    if word.is_constant_array && !word.traits.truncated() {
        let elements = word
            .elements
            .iter()
            .map(|range| text[range.clone()].to_vec());
        let elements = earlier.into_iter().chain(elements).collect();
        let most = cx.state.limits.expansions;
        let fits = cx.state.lists.set(variable, elements, most);
        cx.counters().expansions += u64::from(!fits);
    }
}

/// Returns the value of an assignment, if it is constant.
pub(super) fn constant<'a>(word: &ReadWord<'a>, value: usize) -> Option<&'a [u8]> {
    let text = word.bytes();
    let appends = text[value - 2] == b'+';
    let is_constant = !word.traits.expanded() && !word.traits.truncated() && !appends;
    is_constant.then_some(&text[value..])
}

/// Reports an assignment.
pub(super) fn assign<S: CommandSink>(
    command: CommandId,
    word: &ReadWord<'_>,
    name: usize,
    value: usize,
    cx: &mut ReadContext<'_, S>,
) {
    let text = word.bytes();
    let (name, value) = (&text[..name], &text[value..]);
    let mut assigned = word.in_role(command, WordRole::Value { flag: name }, 0);
    assigned.text = value;
    cx.emit(CommandEvent::Assignment {
        command,
        name,
        value: assigned,
    });
}

impl WordBuffer {
    pub(super) fn complete(&self) -> ReadWord<'_> {
        let mut traits = self.traits;
        if !self.braces.is_empty() && self.literal == Some(0) && !traits.quoted() {
            traits.insert(WordTraits::CONSTANT);
        }
        ReadWord {
            text: &self.text,
            start: self.span.start,
            end: self.span.end,
            traits,
            substitutions: &self.substitutions,
            written: self.written.as_deref(),
        }
    }
}

impl ListReader {
    /// Reads the next word of a command in the body of a function. A function that runs its arguments is a wrapper.
    fn read_body_word<S: CommandSink>(&mut self, word: &[u8], cx: &mut ReadContext<'_, S>) {
        if word != b"shift" && !is_arguments(word) {
            return;
        }
        let joins = self.command.runs_next_word();
        let (Some(body), Some(joins)) = (self.function(), joins) else {
            return;
        };
        if word == b"shift" {
            body.shifts += 1;
            return;
        }
        let operands = body.shifts;
        let action = match joins {
            true => ProgramAction::Joined { operands },
            false => ProgramAction::Words { operands },
        };
        let most = cx.state.limits.expansions;
        let fits = cx.state.lists.add_function(&body.name, action, most);
        cx.counters().expansions += u64::from(!fits);
    }

    fn in_assignment_of(&self, word: &WordBuffer) -> bool {
        self.begins_command() && assignment(word.literal()).is_some()
    }
}
