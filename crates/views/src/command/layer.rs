//! One command of a chain of wrappers: the roles of its words by the table of its program.

use std::borrow::Cow;
use std::ops::Range;

use super::super::chunk::OffsetMap;
use super::arguments::POSITIONAL;
use super::echo::TextForm;
use super::event::{
    CommandEvent, CommandId, CommandSink, CommandWord, ParentCommand, ParentRelation, WordRole,
};
use super::flags::setting_script;
use super::ids::{CommandIds, StdinCode};
use super::parallel::ParallelTemplate;
use super::path::normalize_path;
use super::program::{
    FlagStyle, OptionKind, ProgramAction, ProgramSpec, StdinShell, SubcommandSpec, program_spec,
    windows_spec,
};
use super::script::ScriptReader;
use super::simple::{SimpleReader, assign, constant};
use super::text::MappedText;
use super::variables::run_variable;
use super::word::{ReadWord, assignment};
use super::{ReadContext, ShellSyntax};

/// The longest name of a program or of subcommands that is compared with the tables, in bytes.
const NAME: usize = 128;

/// A command whose words are being read.
#[derive(Clone, Debug)]
pub(super) struct CommandLayer {
    pub(super) id: CommandId,
    pub(super) spec: Option<&'static ProgramSpec>,
    pub(super) subcommand: Option<&'static SubcommandSpec>,
    /// The subcommands so far, separated by blanks.
    path: SubcommandPath,
    path_words: usize,
    next: NextArgument,
    pub(super) action: ProgramAction,
    pub(super) flags_ended: bool,
    /// The option whose value is the next word.
    pub(super) awaiting: Option<(&'static str, OptionKind)>,
    /// The number of operands and subcommands.
    index: u32,
    /// The number of operands since the program and its subcommands.
    operands: u32,
    /// True if the command ends at `;` or `+`.
    pub(super) is_terminated: bool,
    input: LayerInput,
    /// The script that consists of the words from here on.
    script: Option<Box<ScriptReader>>,
    /// The words of `parallel`, for each argument of which the script is read.
    parallel: Option<Box<ParallelTemplate>>,
    pub(super) wrapping: Wrapping,
    /// The number of words after the name of the program, except for the values of options.
    arguments: u32,
}

/// The subcommands of a command, separated by blanks. The bytes beyond [`NAME`] are dropped.
#[derive(Clone, Debug)]
struct SubcommandPath {
    bytes: [u8; NAME],
    len: usize,
}

impl Default for SubcommandPath {
    fn default() -> SubcommandPath {
        SubcommandPath {
            bytes: [0; NAME],
            len: 0,
        }
    }
}

impl SubcommandPath {
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    fn push(&mut self, word: &[u8]) {
        let blank: &[u8] = if self.len > 0 { b" " } else { b"" };
        for text in [blank, word] {
            let text = &text[..text.len().min(NAME - self.len)];
            self.bytes[self.len..self.len + text.len()].copy_from_slice(text);
            self.len += text.len();
        }
    }
}

/// The effect of an option on the command that the program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wrapping {
    /// None.
    Plain,
    /// The command does not get the variables: `env -i`.
    ClearsEnvironment,
    /// The words of the standard input take the place of others: `xargs -I {}`.
    ReplacesWords,
}

/// The role of the next word that is neither a flag nor the value of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NextArgument {
    /// A subcommand.
    Subcommand,
    /// The name of the command that an option runs (`find -exec`).
    Command,
    /// An operand.
    Operand,
}

/// The source of the code that a shell or an interpreter runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayerInput {
    /// The standard input, as there is neither a file nor an option with code.
    Stdin,
    /// The first operand, after `-c` of a shell.
    NextOperand,
    /// The standard input, in spite of operands: `sh -s`, `python -`.
    ExplicitStdin,
    /// A file, or an option with code.
    Other,
    /// Nothing is run: `command -v`, `sudo -l`, `bash --version`.
    Inert,
}

impl CommandLayer {
    /// Reports the program, whose command has begun.
    pub(super) fn begin<S: CommandSink>(
        id: CommandId,
        word: &ReadWord<'_>,
        syntax: ShellSyntax,
        cx: &mut ReadContext<'_, S>,
    ) -> CommandLayer {
        let name = match word.bytes() {
            // The shell of the user is one of those in the tables.
            b"$SHELL" | b"${SHELL}" | b"$BASH" | b"${BASH}" if word.traits.expanded() => b"sh",
            path => base_name(path, syntax),
        };
        let spec = match syntax {
            ShellSyntax::Posix => program_spec(name).or_else(|| windows_spec(name)),
            _ => windows_spec(name).or_else(|| program_spec(name)),
        };
        let spec = spec.or_else(|| capital_spec(name));
        cx.emit(CommandEvent::Word(word.in_role(
            id,
            WordRole::Program { name },
            0,
        )));
        cx.emit_directory(id);
        if name.len() < word.bytes().len() {
            let file = word.in_role(id, WordRole::Operand, 0);
            cx.emit(CommandEvent::FileIsCode { command: id, file });
        }
        let action = cx.state.lists.function(name);
        let action = action.unwrap_or(spec.map_or(ProgramAction::None, |spec| spec.action));
        if action == ProgramAction::Source {
            outputs_are_code(id, word, cx);
        }
        CommandLayer {
            id,
            spec,
            subcommand: None,
            path: SubcommandPath::default(),
            path_words: 0,
            next: match spec.is_some_and(ProgramSpec::has_subcommands) {
                true => NextArgument::Subcommand,
                false => NextArgument::Operand,
            },
            action,
            flags_ended: false,
            awaiting: None,
            index: 0,
            operands: 0,
            is_terminated: false,
            input: LayerInput::Stdin,
            script: None,
            parallel: None,
            wrapping: Wrapping::Plain,
            arguments: 0,
        }
    }

    pub(super) fn is_windows(&self) -> bool {
        self.spec
            .is_some_and(|spec| matches!(spec.style, FlagStyle::PowerShell | FlagStyle::Cmd))
    }

    /// Returns the language of the code that the program reads from its standard input, once its words are complete.
    pub(super) fn stdin_language(&self) -> Option<&'static str> {
        let reads = matches!(self.input, LayerInput::Stdin | LayerInput::ExplicitStdin);
        match self.action {
            ProgramAction::Shell if reads => Some("sh"),
            ProgramAction::Source if self.input == LayerInput::ExplicitStdin => Some("sh"),
            ProgramAction::Joined { .. }
                if reads
                    && self.operands == 0
                    && self.script_syntax() == ShellSyntax::PowerShell =>
            {
                Some("powershell")
            }
            ProgramAction::Interpreter
            | ProgramAction::Client
            | ProgramAction::CodeOperand { .. }
                if reads =>
            {
                self.spec.map(|spec| spec.language)
            }
            _ if self.runs_stdin_in_shell() => Some("sh"),
            _ => None,
        }
    }

    /// Returns true if the program runs its standard input in a shell, as its words name no command: `ssh host`, `su`.
    fn runs_stdin_in_shell(&self) -> bool {
        let own = match self.action {
            ProgramAction::Words { operands } | ProgramAction::Joined { operands } => operands,
            _ => 0,
        };
        let is_other = matches!(self.input, LayerInput::Inert | LayerInput::Other);
        if is_other || self.operands < own {
            return false;
        }
        match self.spec.map_or(StdinShell::Never, |spec| spec.stdin_shell) {
            StdinShell::Never => false,
            StdinShell::WithFlag(_) => self.input == LayerInput::ExplicitStdin,
            StdinShell::Always => true,
        }
    }

    /// Returns the language of the code that the program runs.
    fn language(&self) -> &'static str {
        match self.action {
            ProgramAction::Shell => "sh",
            _ => self.spec.map_or("", |spec| spec.language),
        }
    }

    pub(super) fn is_time(&self) -> bool {
        self.spec.is_some_and(|spec| spec.names.contains(&"time"))
    }

    /// Returns true if the word is the title of the window that `start` opens: its first operand, if it is quoted.
    fn is_title(&self, word: &ReadWord<'_>) -> bool {
        let is_start = self.spec.is_some_and(|spec| spec.names == ["start"]);
        is_start && self.operands == 0 && word.traits.quoted()
    }

    pub(super) fn is_first_argument(&self) -> bool {
        self.index == 0
    }

    pub(super) fn has_no_operand(&self) -> bool {
        self.operands == 0
    }

    /// Returns true if the next word is an operand that the program treats like those before and after it. The host of `ssh`
    /// and the value of a flag are not.
    pub(super) fn takes_operands(&self) -> bool {
        let is_structure = matches!(
            self.action,
            ProgramAction::Words { .. }
                | ProgramAction::Joined { .. }
                | ProgramAction::FirstOperand
                | ProgramAction::AfterSeparator
                | ProgramAction::Shell
                | ProgramAction::Interpreter
                | ProgramAction::CodeOperand { .. }
                | ProgramAction::Source
                | ProgramAction::ChangeDirectory { .. }
        );
        let is_operand = self.next == NextArgument::Operand && self.awaiting.is_none();
        is_operand && !is_structure || self.script.is_some()
    }

    /// Returns true if the words of the standard input are arguments of the command that the program runs.
    pub(super) fn is_xargs(&self) -> bool {
        self.spec.is_some_and(|spec| spec.names.contains(&"xargs"))
    }

    /// Returns true if the operands are files that the standard input is written to.
    pub(super) fn is_tee(&self) -> bool {
        self.spec.is_some_and(|spec| spec.names == ["tee"])
    }

    /// Ends the command. Returns the commands of its script that read and write the standard streams.
    pub(super) fn finish<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) -> ScriptStreams {
        let Some(mut script) = self.script.take() else {
            return ScriptStreams::default();
        };
        let at = cx.state.at;
        script.finish(cx);
        cx.state.at = at;
        script.streams()
    }

    /// Changes the working directory of the commands that follow, if that is what the program does.
    pub(super) fn change_directory<S: CommandSink>(&self, cx: &mut ReadContext<'_, S>) {
        let ProgramAction::ChangeDirectory { to_home } = self.action else {
            return;
        };
        let home: Option<&[u8]> = (to_home && self.arguments == 0).then_some(b"~");
        cx.state.change_directory(self.id, home);
    }

    pub(super) fn emit<S: CommandSink>(
        &self,
        word: &ReadWord<'_>,
        role: WordRole<'_>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let word = CommandWord {
            command: self.id,
            role,
            text: word.bytes(),
            span: word.start..word.end,
            index: self.index,
            traits: word.traits,
        };
        cx.emit(CommandEvent::Word(word));
    }

    /// Reports the word as an operand.
    fn operand<S: CommandSink>(&mut self, word: &ReadWord<'_>, cx: &mut ReadContext<'_, S>) {
        self.emit(word, WordRole::Operand, cx);
        self.index += 1;
        self.operands += 1;
    }

    /// Reports that the command runs the code of the file that the word names.
    fn runs_file<S: CommandSink>(&self, word: &ReadWord<'_>, cx: &mut ReadContext<'_, S>) {
        let file = word.in_role(self.id, WordRole::Operand, self.index);
        let command = self.id;
        cx.emit(CommandEvent::FileIsCode { command, file });
    }

    /// Records that an option determines the source of the code.
    pub(super) fn set_input(&mut self, input: LayerInput) {
        let keeps = match self.input {
            LayerInput::Inert => true,
            LayerInput::ExplicitStdin | LayerInput::NextOperand => input == LayerInput::Other,
            _ => false,
        };
        if !keeps {
            self.input = input;
        }
    }

    /// Records that the words name a command or a script that the program runs.
    pub(super) fn names_command(&mut self) {
        if self.input != LayerInput::Inert {
            self.input = LayerInput::Other;
        }
    }

    pub(super) fn expect_command(&mut self) {
        self.next = NextArgument::Command;
    }

    /// Begins the script that consists of the words from here on, or returns false if scripts are nested too deep.
    pub(super) fn begin_script<S: CommandSink>(
        &mut self,
        syntax: ShellSyntax,
        level: usize,
        stdin: &[CommandId],
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        if level >= cx.state.limits.scripts {
            cx.counters().deep_scripts += 1;
            return false;
        }
        self.names_command();
        let is_parallel = self.spec.is_some_and(|spec| spec.names == ["parallel"]);
        self.parallel = is_parallel.then(Box::default);
        self.script = Some(Box::new(ScriptReader::nested(
            syntax,
            level + 1,
            self.id,
            stdin,
        )));
        true
    }

    /// Returns the syntax of the scripts that the program runs.
    pub(super) fn script_syntax(&self) -> ShellSyntax {
        match self.spec.map_or("", |spec| spec.language) {
            "powershell" => ShellSyntax::PowerShell,
            "cmd" => ShellSyntax::Cmd,
            _ => ShellSyntax::Posix,
        }
    }

    /// Reads a word of the script that consists of the words of the command.
    fn read_joined<S: CommandSink>(&mut self, word: &ReadWord<'_>, cx: &mut ReadContext<'_, S>) {
        self.operand(word, cx);
        let most = cx.state.limits.word;
        if let Some(template) = &mut self.parallel
            && !template.extend(word, most)
        {
            return;
        }
        outputs_are_code(self.id, word, cx);
        let at = cx.state.at;
        let types_keys = self.subcommand.is_some_and(|it| it.name == "send-keys");
        if let Some(script) = &mut self.script {
            let mut text = word.text.clone();
            let (start, end) = (word.start, word.end);
            if types_keys && let Some(key) = typed_key(word.bytes()) {
                text = MappedText::replacement(key, start..end);
            } else {
                // The blank after the word ends it for the script too.
                text.push(b" ", OffsetMap::Replacement { start: end, end });
            }
            for chunk in text.chunks(cx.state.now) {
                script.push(&chunk, cx);
            }
        }
        cx.state.at = at;
    }

    /// Returns the command that `parallel` runs for the word, if the word is one of its arguments.
    fn parallel_command<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) -> Option<MappedText> {
        let template = self.parallel.as_mut()?;
        if !template.is_argument(word) {
            return None;
        }
        if template.is_full(cx.state.limits.expansions) {
            cx.counters().expansions += 1;
            return None;
        }
        Some(template.fill(word))
    }

    /// Reads a subcommand. Returns false if the word is an operand.
    fn read_subcommand<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let Some(spec) = self.spec.filter(|_| self.next == NextArgument::Subcommand) else {
            return false;
        };
        let before = self.path.len;
        self.path.push(word.bytes());
        self.path_words += 1;
        let path = self.path.bytes();
        // A program that runs its words has subcommands only in the table.
        let is_wrapper = matches!(spec.action, ProgramAction::Words { .. });
        if is_wrapper && !spec.is_group(path, self.path_words) && spec.subcommand(path).is_none() {
            self.path.len = before;
            self.next = NextArgument::Operand;
            return false;
        }
        if path.len() >= NAME || !spec.is_group(path, self.path_words) {
            self.next = NextArgument::Operand;
        }
        self.subcommand = spec.subcommand(path);
        if let Some(subcommand) = self.subcommand {
            self.action = subcommand.action;
        }
        self.emit(word, WordRole::Subcommand, cx);
        self.index += 1;
        true
    }
}

/// The commands of a script that read and write its standard streams.
#[derive(Debug, Default)]
pub(super) struct ScriptStreams {
    /// The commands that write the standard output.
    pub(super) outputs: CommandIds,
    /// The command that runs the standard input as code, and the language.
    pub(super) stdin_code: StdinCode,
}

impl ScriptReader {
    /// Returns the commands that read and write the standard streams of the script, which has ended.
    fn streams(&mut self) -> ScriptStreams {
        let list = self.list();
        ScriptStreams {
            outputs: std::mem::take(&mut list.outputs),
            stdin_code: list.stdin_code.take(),
        }
    }
}

/// Reports that the program runs the output of the substitutions in the word.
pub(super) fn outputs_are_code<S: CommandSink>(
    command: CommandId,
    word: &ReadWord<'_>,
    cx: &mut ReadContext<'_, S>,
) {
    for &from in word.substitutions {
        cx.emit(CommandEvent::OutputIsCode { command, from });
    }
}

/// Reads a text as a script of `command`. Returns its commands that read and write the standard streams.
pub(super) fn run_script<S: CommandSink>(
    text: &MappedText,
    (syntax, level): (ShellSyntax, usize),
    command: CommandId,
    stdin: &[CommandId],
    cx: &mut ReadContext<'_, S>,
) -> ScriptStreams {
    if level >= cx.state.limits.scripts {
        cx.counters().deep_scripts += 1;
        return ScriptStreams::default();
    }
    let at = cx.state.at;
    let directory = cx.state.saved_directory();
    let mut script = ScriptReader::nested(syntax, level + 1, command, stdin);
    for chunk in text.chunks(cx.state.now) {
        script.push(&chunk, cx);
    }
    script.finish(cx);
    cx.state.at = at;
    // A shell of its own has a working directory of its own.
    cx.state.restore_directory(directory.as_deref());
    script.streams()
}

impl SimpleReader {
    /// Reads a word after the name of the program.
    pub(super) fn read_argument<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        if self.ends_terminated(word, cx) {
            return;
        }
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        if let Some(command) = layer.parallel_command(word, cx) {
            layer.operand(word, cx);
            let (id, syntax) = (layer.id, layer.script_syntax());
            let streams = run_script(&command, (syntax, place.1), id, &self.stdin, cx);
            return self.add_streams(streams);
        }
        if layer.script.is_some() {
            return layer.read_joined(word, cx);
        }
        if layer.next == NextArgument::Command {
            layer.next = NextArgument::Operand;
            return self.begin_wrapped(word, true, place, cx);
        }
        if let Some((flag, kind)) = layer.awaiting.take() {
            layer.emit(
                word,
                WordRole::Value {
                    flag: flag.as_bytes(),
                },
                cx,
            );
            let is_at = layer.spec.is_some_and(|spec| spec.names.contains(&"at"));
            let is_job = is_at && flag == "-f" && layer.input != LayerInput::Inert;
            if flag == "-File" || is_job {
                layer.runs_file(word, cx);
            }
            if kind == OptionKind::Pair {
                layer.awaiting = Some((flag, OptionKind::Value));
            }
            if is_job {
                let command = layer.id;
                return self.run_written(word, command, "sh", place, cx);
            }
            return self.read_value(word, kind, place, cx);
        }
        layer.arguments = layer.arguments.saturating_add(1);
        if layer.arguments == 1 && layer.reads_bundle(word) {
            layer.read_cluster(word, 0, cx);
            return;
        }
        if let Some(value) = layer.read_flag(word, cx) {
            return self.read_flag_value(word, value, place, cx);
        }
        if layer.read_subcommand(word, cx) {
            return;
        }
        self.read_operand(word, place, cx);
    }

    /// Ends the command of `find -exec` at `;` or `+`. Returns true if the word ended it.
    fn ends_terminated<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let text = word.bytes();
        let Some(from) = self.layers.iter().position(|layer| layer.is_terminated) else {
            return false;
        };
        if text != b";" && text != b"+" {
            return false;
        }
        while self.layers.len() > from {
            if let Some(mut layer) = self.layers.pop() {
                self.chain.extend_from_slice(&layer.finish(cx).outputs);
                let at = cx.state.at;
                cx.emit(CommandEvent::End {
                    command: layer.id,
                    at,
                });
            }
        }
        true
    }

    fn read_operand<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        let inert = layer.input == LayerInput::Inert;
        match layer.action {
            ProgramAction::Words { .. } | ProgramAction::Assignments
                if assignment(word.bytes()).is_some() && layer.operands == 0 =>
            {
                if let Some((name, value)) = assignment(word.bytes()) {
                    if layer.action == ProgramAction::Assignments {
                        let known = constant(word, value).map(<[u8]>::to_vec);
                        let variable = &word.bytes()[..name];
                        self.exported.push((variable.to_vec(), known));
                        cx.state.assign_output(variable, word.substitutions);
                    }
                    assign(layer.id, word, name, value, cx);
                    let streams = run_variable(layer.id, word, (name, value), place.1, cx);
                    self.chain.extend_from_slice(&streams.outputs);
                }
            }
            // `time ! a` negates the status of the pipeline.
            ProgramAction::Words { .. } if layer.is_time() && word.bytes() == b"!" => {
                layer.operand(word, cx);
            }
            ProgramAction::Words { .. } if layer.is_title(word) => layer.operand(word, cx),
            ProgramAction::Words { operands } if layer.operands >= operands && !inert => {
                self.begin_wrapped(word, false, place, cx);
            }
            ProgramAction::Joined { operands } if layer.operands >= operands && !inert => {
                let stdin = self.stdin;
                let syntax = layer.script_syntax();
                if layer.begin_script(syntax, place.1, &stdin, cx) {
                    return layer.read_joined(word, cx);
                }
                layer.operand(word, cx);
            }
            ProgramAction::EachOperand if !inert => {
                layer.operand(word, cx);
                self.read_value(word, OptionKind::Script, place, cx);
            }
            ProgramAction::SocketAddresses if !inert => {
                layer.operand(word, cx);
                self.run_address(word, place.1, cx);
            }
            ProgramAction::FirstOperand if layer.operands == 0 && !inert => {
                layer.operand(word, cx);
                self.read_value(word, OptionKind::Script, place, cx);
            }
            ProgramAction::Shell
            | ProgramAction::Interpreter
            | ProgramAction::CodeOperand { .. } => {
                self.read_program_operand(word, place, cx);
            }
            ProgramAction::Source => self.read_source_operand(word, place, cx),
            ProgramAction::Echo => {
                layer.operand(word, cx);
                self.written.push(word.text);
                self.written.has_gaps |= word.traits.expanded() || word.traits.truncated();
            }
            ProgramAction::ChangeDirectory { .. } => {
                if let Some(path) = constant_directory(word, place.0)
                    && layer.operands == 0
                {
                    cx.state.set_directory_operand(layer.id, &path);
                }
                layer.operand(word, cx);
            }
            _ => self.read_plain_operand(word, cx),
        }
    }

    /// Reads the commands of an address of `socat`: `EXEC:…`, `SYSTEM:…` and `SHELL:…` up to a comma.
    fn run_address<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        level: usize,
        cx: &mut ReadContext<'_, S>,
    ) {
        let (Some(layer), Some(command)) = (self.layers.last(), address_command(word.bytes()))
        else {
            return;
        };
        let (id, stdin) = (layer.id, self.stdin);
        let text = word.text.slice(command.start, command.end);
        let streams = run_script(&text, (ShellSyntax::Posix, level), id, &stdin, cx);
        self.add_streams(streams);
    }

    /// Reads an operand of `source`.
    fn read_source_operand<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        outputs_are_code(layer.id, word, cx);
        let (id, is_first) = (layer.id, layer.operands == 0);
        if is_first && is_stdin(word.bytes()) {
            layer.input = LayerInput::ExplicitStdin;
        } else if is_first {
            layer.runs_file(word, cx);
        }
        layer.operand(word, cx);
        if is_first {
            self.run_written(word, id, "sh", place, cx);
        }
    }

    /// Reads an operand of a program that runs no words.
    fn read_plain_operand<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        let is_first = layer.operands == 0;
        layer.operand(word, cx);
        if layer.flags_ended && layer.spec.is_some_and(|spec| spec.names.contains(&"set")) {
            set_positional(word, is_first, cx);
        }
        if is_first && layer.is_tee() {
            self.write_to(word);
        }
    }

    /// Reads an operand of a shell or an interpreter.
    fn read_program_operand<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        let first = layer.operands;
        layer.operand(word, cx);
        if let ProgramAction::CodeOperand { operands } = layer.action {
            if first == operands && layer.input == LayerInput::Stdin {
                layer.input = LayerInput::Other;
                return self.read_value(word, OptionKind::Code, place, cx);
            }
            return;
        }
        if first > 0 {
            return;
        }
        layer.flags_ended = true;
        match layer.input {
            LayerInput::NextOperand => {
                layer.input = LayerInput::Other;
                self.read_value(word, OptionKind::Script, place, cx);
            }
            LayerInput::Stdin if word.bytes() == b"-" || is_stdin(word.bytes()) => {
                layer.input = LayerInput::ExplicitStdin;
            }
            LayerInput::Stdin => {
                layer.input = LayerInput::Other;
                outputs_are_code(layer.id, word, cx);
                layer.runs_file(word, cx);
                let (id, language) = (layer.id, layer.language());
                self.run_written(word, id, language, place, cx);
            }
            _ => {}
        }
    }

    /// Reads the text of the file that the word names as code, if it is known: a process substitution, or a file that the
    /// same text has written.
    fn run_written<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        command: CommandId,
        language: &'static str,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        if let Some(text) = word.written {
            return self.run_stdin(text, command, language, place, cx);
        }
        if let Some(text) = take_stored(word, cx) {
            self.run_stored(&text, command, language, place, cx);
        }
    }

    /// Reads the text of the program as code, if the same text has written the file.
    pub(super) fn run_program_file<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        command: CommandId,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        if word.bytes().contains(&b'/')
            && let Some(text) = take_stored(word, cx)
        {
            let language = script_language(text.bytes());
            self.run_stored(&text, command, language, place, cx);
        }
    }

    fn run_stored<S: CommandSink>(
        &mut self,
        text: &MappedText,
        command: CommandId,
        language: &'static str,
        (_, level): (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        if language != "sh" {
            let stdin = self.stdin;
            return self.run_code(text, command, language, (level, &stdin), cx);
        }
        let place = (ShellSyntax::Posix, level);
        let streams = run_script(text, place, command, &self.stdin, cx);
        self.add_streams(streams);
    }

    /// Begins the command that the words from here on are.
    fn begin_wrapped<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        is_terminated: bool,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        if self.chain.len() >= cx.state.limits.wrappers {
            cx.counters().wrappers += 1;
            return layer.operand(word, cx);
        }
        let parent = ParentCommand {
            command: layer.id,
            relation: ParentRelation::Wrapped,
        };
        let command = cx.next_id();
        cx.emit(CommandEvent::Begin {
            command,
            parent: Some(parent),
        });
        for &from in self.stdin.iter() {
            cx.emit(CommandEvent::Pipe { from, to: command });
        }
        self.chain.push(command);
        layer.names_command();
        let mut layer = CommandLayer::begin(command, word, place.0, cx);
        layer.is_terminated = is_terminated;
        self.layers.push(layer);
        self.run_program_file(word, command, place, cx);
    }

    /// Reads the value of an option as the kind of the option demands.
    pub(super) fn read_value<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        kind: OptionKind,
        place: (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        match kind {
            OptionKind::Setting => {
                let Some(at) = setting_script(word.bytes()) else {
                    return;
                };
                let text = word.text.slice(at, word.text.len());
                let id = layer.id;
                let streams = run_script(&text, (ShellSyntax::Posix, place.1), id, &[], cx);
                self.chain.extend_from_slice(&streams.outputs);
            }
            OptionKind::Script => {
                let command = layer.id;
                let syntax = layer.script_syntax();
                layer.names_command();
                outputs_are_code(command, word, cx);
                let is_clear = self
                    .layers
                    .iter()
                    .any(|layer| layer.wrapping == Wrapping::ClearsEnvironment);
                let values = is_clear.then(|| cx.state.forget());
                let streams = run_script(word.text, (syntax, place.1), command, &self.stdin, cx);
                if let Some(values) = values {
                    cx.state.restore(values);
                }
                self.add_streams(streams);
            }
            OptionKind::Code => {
                outputs_are_code(layer.id, word, cx);
                let (id, language) = (layer.id, layer.spec.map_or("", |spec| spec.language));
                let stdin = self.stdin;
                self.run_code(word.text, id, language, (place.1, &stdin), cx);
            }
            _ => {}
        }
    }

    /// Returns `Some` if the next word is a program that the command runs, or, with true, the first word of a script.
    pub(super) fn runs_next_word(&self) -> Option<bool> {
        let Some(layer) = self.layers.last() else {
            return Some(false);
        };
        match layer.action {
            ProgramAction::Words { operands } if layer.operands == operands => Some(false),
            ProgramAction::Joined { operands } if layer.operands == operands => Some(true),
            _ => None,
        }
    }

    /// Returns true if the command writes its standard input to its standard output.
    pub(super) fn passes_stdin(&self) -> bool {
        let layer = self.layers.last();
        layer.is_some_and(|layer| {
            layer
                .spec
                .is_some_and(|spec| spec.names == ["cat"] || spec.names == ["tee"])
                && (layer.operands == 0 || layer.spec.is_some_and(|spec| spec.names == ["tee"]))
        })
    }

    /// Returns true if the operands are what the command writes to its standard output.
    pub(super) fn is_echo(&self) -> bool {
        let layer = self.layers.last();
        layer.is_some_and(|layer| layer.action == ProgramAction::Echo)
    }

    /// Returns true if the command writes nothing to its standard output: `cd`, `export`, `set`.
    pub(super) fn is_silent(&self) -> bool {
        let layer = self.layers.last();
        layer.is_some_and(|layer| {
            let is_setting = layer.spec.is_some_and(|spec| spec.names.contains(&"set"));
            is_setting
                || matches!(
                    layer.action,
                    ProgramAction::Assignments | ProgramAction::ChangeDirectory { to_home: true }
                )
        })
    }

    /// Marks the operands as those of `printf`, if it is the program.
    pub(super) fn mark_format(&mut self) {
        let layer = self.layers.last();
        let spec = layer.and_then(|layer| layer.spec);
        if spec.is_some_and(|spec| spec.names == ["printf"]) {
            self.written.form = TextForm::Format;
        }
    }
}

/// Adds an operand of `set --` to the positional parameters.
fn set_positional<S: CommandSink>(
    word: &ReadWord<'_>,
    is_first: bool,
    cx: &mut ReadContext<'_, S>,
) {
    let known = cx.state.lists.get(POSITIONAL).map(<[Vec<u8>]>::to_vec);
    cx.state.lists.remove(POSITIONAL);
    let earlier = match is_first {
        true => Some(Vec::new()),
        false => known,
    };
    if let Some(mut words) = earlier.filter(|_| !word.traits.expanded() && !word.traits.truncated())
    {
        words.push(word.bytes().to_vec());
        let most = cx.state.limits.expansions;
        let fits = cx.state.lists.set(POSITIONAL, words, most);
        cx.counters().expansions += u64::from(!fits);
    }
}

/// Returns the range of the command in an address of `socat`, without the quotes around all of it.
fn address_command(address: &[u8]) -> Option<Range<usize>> {
    let colon = address.iter().position(|&byte| byte == b':')?;
    let runs: [&[u8]; 3] = [b"exec", b"system", b"shell"];
    let keyword = &address[..colon];
    runs.iter().find(|it| keyword.eq_ignore_ascii_case(it))?;
    let start = colon + 1;
    let text = &address[start..];
    if let Some(&quote) = text.first().filter(|it| matches!(it, b'"' | b'\''))
        && let Some(len) = text[1..].iter().position(|&byte| byte == quote)
    {
        return Some(start + 1..start + 1 + len);
    }
    let mut quote = None;
    let len = text.iter().position(|&byte| {
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            _ => {}
        }
        quote.is_none() && byte == b','
    });
    Some(start..start + len.unwrap_or(text.len()))
}

/// Returns the text that a name of a key stands for in `tmux send-keys`, if it ends a word or a command.
fn typed_key(name: &[u8]) -> Option<&'static [u8]> {
    match name {
        b"Enter" | b"KPEnter" | b"C-m" | b"C-j" => Some(b"\n"),
        b"Space" => Some(b" "),
        _ => None,
    }
}

/// Takes the text of the file that the word names, if the same text has written it.
fn take_stored<S: CommandSink>(
    word: &ReadWord<'_>,
    cx: &mut ReadContext<'_, S>,
) -> Option<MappedText> {
    if cx.state.stored.is_empty() {
        return None;
    }
    let path = normalize_path(word.bytes(), word.traits);
    cx.state.stored.take(&path)
}

/// Returns the language of a script by its first line: `"sh"` without an interpreter.
fn script_language(text: &[u8]) -> &'static str {
    let line = text.split(|&byte| byte == b'\n').next().unwrap_or(text);
    let Some(line) = line.strip_prefix(b"#!") else {
        return "sh";
    };
    let words = line.split(u8::is_ascii_whitespace);
    let mut names = words.map(|word| base_name(word, ShellSyntax::Posix));
    let interpreter = names.find(|name| !matches!(*name, b"" | b"env" | b"-S"));
    let spec = interpreter.and_then(program_spec);
    match spec.map(|spec| (spec.action, spec.language)) {
        Some((ProgramAction::Shell, _)) | None => "sh",
        Some((_, "")) => "sh",
        Some((_, language)) => language,
    }
}

/// Returns true if the word names the standard input as a file.
fn is_stdin(word: &[u8]) -> bool {
    matches!(word, b"/dev/stdin" | b"/dev/fd/0" | b"/proc/self/fd/0")
}

/// Returns the operand of `cd`, normalized, if it is constant.
fn constant_directory<'a>(word: &ReadWord<'a>, syntax: ShellSyntax) -> Option<Cow<'a, [u8]>> {
    let path = normalize_path(word.bytes(), word.traits);
    let is_home = path.first() == Some(&b'~');
    let is_constant = !word.traits.expanded() || is_home && !path.contains(&b'$');
    // `cd -` and the like depend on earlier directories.
    let is_path = !path.is_empty() && !matches!(path[0], b'-' | b'+');
    let is_known = is_constant && is_path && !word.traits.truncated();
    (is_known && syntax == ShellSyntax::Posix).then_some(path)
}

/// Returns the program whose name is written with capital letters, as file systems that ignore case find it.
fn capital_spec(name: &[u8]) -> Option<&'static ProgramSpec> {
    let mut buffer = [0; NAME];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    if *lower == *name {
        return None;
    }
    program_spec(lower)
}

/// Returns the name of a program without directories, and without the suffix of an executable file of Windows.
fn base_name(path: &[u8], syntax: ShellSyntax) -> &[u8] {
    let separates = |&byte: &u8| byte == b'/' || byte == b'\\' && syntax != ShellSyntax::Posix;
    let from = path
        .iter()
        .rposition(separates)
        .map_or(0, |slash| slash + 1);
    let name = &path[from..];
    let suffix = name.len().saturating_sub(4);
    match name[suffix..].eq_ignore_ascii_case(b".exe") && suffix > 0 {
        true => &name[..suffix],
        false => name,
    }
}
