//! A list of commands: pipelines, compound commands and reserved words.
//!
//! Four sets of commands move through a list. The element of a pipeline is a simple or a compound command.
//!
//! 1. `stdin` is the input of the next element. The first element of a pipeline has the input of the innermost compound
//!    command, or that of the list (`list_stdin`).
//! 2. When an element has ended, its commands are `ended`. After `|` they are the `stdin` of the next element.
//! 3. The end of a pipeline adds `ended` to the `outputs` of the innermost compound command, or of the list.
//! 4. When a compound command has ended, its `outputs` are `ended`: it is an element like a simple command.

use super::arguments::{FunctionBody, LoopValue};
use super::echo::{KnownOutput, WrittenText};
use super::event::{
    CommandEvent, CommandId, CommandSink, ParentCommand, ParentRelation, WordTraits,
};
use super::expansion::ConstantValues;
use super::ids::{CommandIds, StdinCode};
use super::simple::SimpleReader;
use super::text::MappedText;
use super::word::{InputByte, ReadWord, WordBuffer, assignment};
use super::{ReadContext, ShellSyntax};

/// The most compound commands that are open in a list.
const COMPOUNDS: usize = 64;

/// A list of commands that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct ListReader {
    pub(super) parent: Option<ParentCommand>,
    /// The commands whose output is the standard input of the list.
    list_stdin: CommandIds,
    /// The commands whose output is the standard input of the next command.
    stdin: CommandIds,
    /// The commands of the element of the pipeline that has ended.
    ended: CommandIds,
    /// The commands that write the standard output of the list.
    pub(super) outputs: CommandIds,
    /// The text that the preceding element of the pipeline writes, if it is known.
    pub(super) piped: WrittenText,
    /// The text that the list writes, if it is a substitution.
    written: KnownOutput,
    /// The place of the substitution that the list is.
    pub(super) opening: Opening,
    pub(super) word: WordBuffer,
    pub(super) command: SimpleReader,
    compounds: Vec<CompoundCommand>,
    /// The compound command that is the element of the pipeline so far.
    closed: Option<EndedCompound>,
    position: WordPosition,
    /// The name of the variable of `for`, and the number of its values.
    variable: (Vec<u8>, usize),
    /// The redirection operator before the current word.
    pub(super) target: Option<&'static str>,
    /// The file descriptor before the operator.
    pub(super) descriptor: Option<u32>,
    pub(super) scope: ListScope,
    /// True in an array of words that is written as a text.
    pub(super) in_array: bool,
    drops_word: bool,
    /// The last function whose definition has begun.
    function: Option<FunctionBody>,
    /// True if the next command reads the output of the preceding one.
    in_pipe: bool,
    /// The command of the list that runs the standard input of the list, and the language.
    pub(super) stdin_code: StdinCode,
    /// The end of the last `;`.
    semicolon: u64,
    pub(super) expansion_start: u64,
    /// The values of variables before the substitution that the list is.
    pub(super) saved: Option<ConstantValues>,
}

/// The place of a substitution in its word.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Opening {
    /// The length of the text and the traits of the word before it.
    pub(super) at: usize,
    pub(super) traits: WordTraits,
    /// True if it is in double quotes.
    pub(super) is_quoted: bool,
    /// True if the word is the name of a file with its output: `<( … )`.
    pub(super) is_process: bool,
}

/// The position of the next word in the grammar of compound commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum WordPosition {
    /// A word of a simple command, or a reserved word if it is the first.
    #[default]
    Command,
    /// The variable of `for`, `in`, and the values.
    ForName,
    ForIn,
    ForValues,
    /// The word of `case`, `in`, and the patterns.
    CaseWord,
    CaseIn,
    Patterns,
    /// The name of a function.
    Function,
    /// The words of `[[ … ]]`.
    Conditional,
}

/// The construct that contains a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListScope {
    /// The whole text, `$( … )`, `<( … )` or `>( … )`.
    #[default]
    Commands,
    /// Backquotes.
    Backquotes,
    /// The body of a here-document, of which only the substitutions are read.
    Body,
}

/// A compound command that is open.
#[derive(Clone, Debug)]
struct CompoundCommand {
    kind: CompoundKind,
    stdin: CommandIds,
    outputs: CommandIds,
    /// The values of variables before the compound command.
    saved: ConstantValues,
    /// The commands inside that read the standard input of the compound command.
    readers: CommandIds,
    /// The command inside that runs that standard input, and the language.
    stdin_code: StdinCode,
    /// True if the compound command reads the output of the element before it.
    in_pipe: bool,
    /// The text that the commands inside write.
    written: KnownOutput,
}

/// A compound command that has ended, while redirections may follow it.
#[derive(Clone, Copy, Debug, Default)]
struct EndedCompound {
    readers: CommandIds,
    stdin_code: StdinCode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CompoundKind {
    /// `{ … }`
    Group,
    /// `( … )`
    Subshell,
    /// `if … fi`, `for … done`
    Keyword,
    /// `for` and `select` before `do`. A `{` in its place makes it a group.
    Loop,
    /// `case … esac`
    Case,
}

impl ListReader {
    pub(super) fn new(parent: Option<ParentCommand>, stdin: &[CommandId]) -> ListReader {
        ListReader {
            parent,
            list_stdin: stdin.into(),
            stdin: stdin.into(),
            ..ListReader::default()
        }
    }

    /// Returns the list for the body of a here-document of `command`.
    pub(super) fn of_body(command: CommandId) -> ListReader {
        let mut list = ListReader {
            scope: ListScope::Body,
            ..ListReader::default()
        };
        list.command.adopt(command);
        list
    }

    /// Returns the list of a substitution in the current word.
    pub(super) fn substitution<S: CommandSink>(
        &mut self,
        backquotes: bool,
        cx: &mut ReadContext<'_, S>,
    ) -> ListReader {
        let parent = ParentCommand {
            command: self.begin(cx),
            relation: ParentRelation::Substitution,
        };
        ListReader {
            scope: match backquotes {
                true => ListScope::Backquotes,
                false => ListScope::Commands,
            },
            saved: Some(cx.state.constants()),
            ..ListReader::new(Some(parent), &[])
        }
    }

    /// Begins the simple command, if it has not begun.
    pub(super) fn begin<S: CommandSink>(&mut self, cx: &mut ReadContext<'_, S>) -> CommandId {
        if let Some(command) = self.command.id() {
            return command;
        }
        let command = cx.next_id();
        let parent = self.parent;
        cx.emit(CommandEvent::Begin { command, parent });
        for &from in self.stdin.iter() {
            cx.emit(CommandEvent::Pipe { from, to: command });
        }
        self.command.begin(command, &self.stdin);
        command
    }

    // ---- Pipelines ----

    /// Makes the output of the parent the standard input of the list.
    pub(super) fn pipe_from_parent(&mut self) {
        self.list_stdin = CommandIds::default();
        if let Some(parent) = self.parent {
            self.list_stdin.extend(&[parent.command]);
        }
        self.stdin = self.list_stdin;
    }

    /// Records the end of the simple command, whose output `chain` writes.
    pub(super) fn end_element(&mut self, chain: &[CommandId], has_words: bool) {
        // Redirections alone, as after a compound command, end no other element.
        if has_words {
            self.ended = CommandIds::default();
        }
        self.ended.extend(chain);
        self.target = None;
        if has_words
            && !self.in_pipe
            && let Some(compound) = self.compounds.last_mut()
        {
            compound.readers.extend(chain);
        }
        if !matches!(
            self.position,
            WordPosition::Patterns | WordPosition::CaseWord | WordPosition::CaseIn
        ) {
            self.position = WordPosition::Command;
        }
    }

    /// Connects the element that has ended with the next one.
    pub(super) fn begin_pipe(&mut self) {
        self.stdin = std::mem::take(&mut self.ended);
        self.in_pipe = true;
        self.closed = None;
    }

    /// Ends the pipeline.
    pub(super) fn end_pipeline(&mut self, most: usize) {
        if self.keeps_output() && (self.piped.is_known || self.piped.has_gaps) {
            let has_gaps = self.piped.has_gaps;
            let text = match self.piped.is_known {
                true => self.piped.output(),
                false => MappedText::default(),
            };
            self.append_output(&text, has_gaps, most);
        }
        let ended = std::mem::take(&mut self.ended);
        let (stdin, outputs) = match self.compounds.last_mut() {
            Some(compound) => (compound.stdin, &mut compound.outputs),
            None => (self.list_stdin, &mut self.outputs),
        };
        outputs.extend(&ended);
        self.stdin = stdin;
        self.piped.set_unknown(false);
        self.in_pipe = false;
        self.closed = None;
    }

    /// Returns true if the text that the commands write may become a part of the text that is read.
    pub(super) fn keeps_output(&self) -> bool {
        let is_substitution =
            |parent: ParentCommand| parent.relation == ParentRelation::Substitution;
        !self.compounds.is_empty() || self.parent.is_some_and(is_substitution)
    }

    /// Returns true if the output of the command is that of the list or of the innermost compound command.
    pub(super) fn writes_output_of(&self, command: CommandId) -> bool {
        let outputs = match self.compounds.last() {
            Some(compound) => &compound.outputs,
            None => &self.outputs,
        };
        self.keeps_output() && outputs.contains(&command)
    }

    /// Appends to the text that the list or the innermost compound command writes.
    pub(super) fn append_output(&mut self, text: &MappedText, has_gaps: bool, most: usize) {
        let written = match self.compounds.last_mut() {
            Some(compound) => &mut compound.written,
            None => &mut self.written,
        };
        written.append(text, has_gaps, most);
    }

    /// Takes the text that the list has written.
    pub(super) fn take_output(&mut self) -> KnownOutput {
        std::mem::take(&mut self.written)
    }

    /// Records the command that has ended, if it runs the standard input of the list or of an open compound command.
    pub(super) fn record_stdin_code(&mut self, stdin_code: StdinCode) {
        // Within a pipe the standard input is that of the element before.
        let mut in_pipe = self.in_pipe;
        for compound in self.compounds.iter_mut().rev() {
            if in_pipe {
                return;
            }
            compound.stdin_code = compound.stdin_code.or(stdin_code);
            in_pipe = compound.in_pipe;
        }
        // Only the first command reads the standard input of the list.
        if !in_pipe {
            self.stdin_code = self.stdin_code.or(stdin_code);
        }
    }

    /// Makes `exec`, whose redirections the shell keeps, the source of the standard input of the commands that follow.
    pub(super) fn read_from(&mut self, exec: &[CommandId]) {
        let stdin = match self.compounds.last_mut() {
            Some(compound) => &mut compound.stdin,
            None => &mut self.list_stdin,
        };
        *stdin = exec.into();
    }

    /// Connects a redirection without a program with the compound command that it follows, if there is one. `command` is
    /// the command of the redirection: what it reads is the input of the compound command, which writes to it.
    pub(super) fn connect_closed<S: CommandSink>(
        &self,
        command: CommandId,
        operator: &str,
        descriptor: Option<u32>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let Some(closed) = self.closed else {
            return;
        };
        match operator {
            ">" | ">>" | ">|" | "&>" | "&>>" if descriptor.is_none_or(|number| number == 1) => {
                for &from in self.ended.iter() {
                    cx.emit(CommandEvent::Pipe { from, to: command });
                }
            }
            "<" | "<>" | "<<<" | "<<" | "<<-" if descriptor.is_none_or(|number| number == 0) => {
                for &to in closed.readers.iter() {
                    cx.emit(CommandEvent::Pipe { from: command, to });
                }
            }
            _ => {}
        }
    }

    /// Returns the command of the compound command before a redirection that runs what the redirection reads.
    pub(super) fn closed_stdin_code(&self) -> StdinCode {
        self.closed.and_then(|closed| closed.stdin_code)
    }

    // ---- Compound commands ----

    fn open(&mut self, kind: CompoundKind) {
        // The words of a compound command beyond the limit are read all the same. Only its end is not recognized, so its
        // pipeline goes on.
        if self.compounds.len() < COMPOUNDS {
            self.compounds.push(CompoundCommand {
                kind,
                stdin: self.stdin,
                outputs: CommandIds::default(),
                saved: ConstantValues::default(),
                readers: CommandIds::default(),
                stdin_code: None,
                in_pipe: std::mem::take(&mut self.in_pipe),
                written: KnownOutput::default(),
            });
        }
    }

    /// Ends the innermost compound command. Returns the values of variables before it, or `None` if it is of another kind.
    fn close(&mut self, kind: CompoundKind, most: usize) -> Option<ConstantValues> {
        self.compounds.last().filter(|it| it.kind == kind)?;
        self.end_pipeline(most);
        let compound = self.compounds.pop()?;
        // A redirection or a `|` may follow, as after a simple command.
        self.ended = compound.outputs;
        self.in_pipe = compound.in_pipe;
        self.stdin = match self.compounds.last_mut() {
            Some(outer) => {
                if !compound.in_pipe {
                    outer.readers.extend(&compound.readers);
                }
                outer.stdin
            }
            None => self.list_stdin,
        };
        self.closed = Some(EndedCompound {
            readers: compound.readers,
            stdin_code: compound.stdin_code,
        });
        self.piped.set_unknown(compound.written.has_gaps);
        if compound.written.text.len() > 0 {
            self.piped.set_raw(&compound.written);
        }
        Some(compound.saved)
    }

    /// Begins a subshell, in which variables have the values `saved`.
    pub(super) fn open_subshell(&mut self, saved: ConstantValues) {
        let open = self.compounds.len();
        self.open(CompoundKind::Subshell);
        if let Some(subshell) = self.compounds.get_mut(open) {
            subshell.saved = saved;
        }
    }

    /// Ends the subshell. Returns the values of variables before it, or `None` if none is open.
    pub(super) fn close_subshell(&mut self, most: usize) -> Option<ConstantValues> {
        self.close(CompoundKind::Subshell, most)
    }

    /// Ends the patterns of an item of `case`. Returns false if no pattern is read.
    pub(super) fn end_patterns(&mut self) -> bool {
        let ends = self.position == WordPosition::Patterns;
        if ends {
            self.position = WordPosition::Command;
        }
        ends
    }

    #[inline]
    pub(super) fn in_patterns(&self) -> bool {
        self.position == WordPosition::Patterns
    }

    /// Reads a `;`, of which two end an item of `case`.
    pub(super) fn end_case_item(&mut self, byte: InputByte) {
        let is_case = self
            .compounds
            .last()
            .is_some_and(|compound| compound.kind == CompoundKind::Case);
        // `;;` is two adjacent ones: a blank between them ends an empty command instead.
        if is_case && self.semicolon == byte.start && byte.start > 0 {
            self.position = WordPosition::Patterns;
        }
        self.semicolon = byte.end;
    }

    // ---- The current word ----

    /// Returns true if the text belongs to no word.
    #[inline]
    pub(super) fn discards(&self) -> bool {
        self.scope == ListScope::Body
    }

    #[inline]
    pub(super) fn is_conditional(&self) -> bool {
        self.position == WordPosition::Conditional
    }

    /// Returns true if a newline does not end the command.
    pub(super) fn continues_line(&self) -> bool {
        self.in_array || matches!(self.position, WordPosition::Patterns | WordPosition::CaseIn)
    }

    /// Returns true if the current or next word is the first of a simple command.
    pub(super) fn begins_command(&self) -> bool {
        self.position == WordPosition::Command && !self.command.has_words() && self.target.is_none()
    }

    /// Returns true if the next word is the variable of `for`, or `((` in its place.
    pub(super) fn begins_loop(&self) -> bool {
        self.position == WordPosition::ForName
    }

    /// Returns true if the current word is an assignment, in which expansions are not split.
    pub(super) fn in_assignment(&self) -> bool {
        self.begins_command() && assignment(self.word.literal()).is_some()
    }

    #[inline]
    pub(super) fn keeps_backslashes(&self) -> bool {
        self.command.is_windows()
    }

    /// Drops the word if it is the file descriptor of the redirection that follows.
    pub(super) fn drop_descriptor(&mut self) {
        let text = self.word.text.bytes();
        let is_variable = text.len() > 2 && text.starts_with(b"{") && text.ends_with(b"}");
        let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
        let drops = self.word.begun && self.word.is_literal() && (is_number || is_variable);
        self.descriptor = None;
        if drops {
            self.descriptor = std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.parse().ok());
            self.word.clear();
        }
    }

    /// Returns true if the current word is the delimiter of a here-document, in which nothing is expanded.
    pub(super) fn reads_delimiter(&self) -> bool {
        matches!(self.target, Some("<<" | "<<-"))
    }

    pub(super) fn begin_target(&mut self, operator: &'static str) {
        self.target = Some(operator);
    }

    /// Begins the definition of the function that the current word names.
    pub(super) fn begin_function(&mut self) {
        let name = self.word.text.bytes().to_vec();
        self.define(name);
        self.word.clear();
    }

    fn define(&mut self, name: Vec<u8>) {
        self.function = Some(FunctionBody {
            name,
            depth: self.compounds.len(),
            shifts: 0,
        });
    }

    /// Returns true if the text is in the body of a function.
    pub(super) fn in_function(&self) -> bool {
        let body = self.function.as_ref();
        body.is_some_and(|body| self.compounds.len() > body.depth)
    }

    /// Returns the function whose body the text is in.
    pub(super) fn function(&mut self) -> Option<&mut FunctionBody> {
        if !self.in_function() {
            self.function = None;
        }
        self.function.as_mut()
    }

    /// Begins a word that is no word of a command: `(( … ))`.
    pub(super) fn begin_dropped_word(&mut self) {
        self.drops_word = true;
    }

    /// Takes back that the word is no word of a command, and empties it.
    pub(super) fn keep_next_word(&mut self) {
        self.drops_word = false;
        self.word.clear();
    }

    /// Takes the complete word, or `None` if there is none.
    pub(super) fn take_word(&mut self) -> Option<WordBuffer> {
        if !self.word.begun || self.discards() {
            return None;
        }
        let word = std::mem::take(&mut self.word);
        if self.drops_word && self.position == WordPosition::ForName {
            self.position = WordPosition::Command;
        }
        (!std::mem::take(&mut self.drops_word)).then_some(word)
    }

    /// Reuses the buffers of a word that has been read.
    pub(super) fn recycle(&mut self, mut word: WordBuffer) {
        if !self.word.begun {
            word.clear();
            self.word = word;
        }
    }

    // ---- Reserved words ----

    /// Reads a word as part of a compound command. Returns false if it is a word of a simple command.
    pub(super) fn read_reserved<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        literal: bool,
        cx: &mut ReadContext<'_, S>,
    ) -> bool {
        let text = word.bytes();
        let most = cx.state.limits.word;
        match self.position {
            WordPosition::Command => {
                return literal && !self.command.has_words() && self.read_keyword(text, most);
            }
            WordPosition::Conditional => {
                let ends = literal && text == b"]]";
                if ends {
                    self.position = WordPosition::Command;
                }
                return ends;
            }
            WordPosition::ForName => {
                self.variable.0.clear();
                self.variable.0.extend_from_slice(text);
                self.variable.1 = 0;
                self.position = WordPosition::ForIn;
            }
            WordPosition::ForIn if text == b"in" => self.position = WordPosition::ForValues,
            WordPosition::ForIn => {
                self.position = WordPosition::Command;
                // Without values `do` or `{` may follow the variable.
                return !literal || self.read_keyword(text, most);
            }
            WordPosition::ForValues => {
                self.read_loop_value(word, cx);
            }
            WordPosition::CaseWord => self.position = WordPosition::CaseIn,
            WordPosition::CaseIn => self.position = WordPosition::Patterns,
            WordPosition::Patterns => {
                if literal && text == b"esac" {
                    self.position = WordPosition::Command;
                    self.close(CompoundKind::Case, most);
                }
            }
            WordPosition::Function => {
                self.position = WordPosition::Command;
                self.define(text.to_vec());
            }
        }
        true
    }

    /// Begins the body of `for`, if it is the innermost compound command and its body has not begun. Returns false if not.
    fn turns_loop_into(&mut self, kind: CompoundKind) -> bool {
        let innermost = self.compounds.last_mut();
        let head = innermost.filter(|it| it.kind == CompoundKind::Loop);
        head.map(|head| head.kind = kind).is_some()
    }

    /// Returns true if the word begins a compound command after `time`, or after the name of a coprocess. Both were read as
    /// programs, because only the word after them shows that they are not.
    pub(super) fn begins_compound(&mut self, word: &ReadWord<'_>) -> bool {
        let is_first = self.command.is_first_argument();
        let follows = is_first && (self.command.is_time() || self.command.names_coprocess);
        let text = word.bytes();
        follows
            && matches!(
                text,
                b"{" | b"if" | b"while" | b"until" | b"for" | b"case" | b"select" | b"[["
            )
    }

    /// Reads a value of the variable of `for`, which is a constant if it has only one. A substitution makes it unknown.
    fn read_loop_value<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) {
        let (name, count) = (&self.variable.0, &mut self.variable.1);
        let (text, traits) = (word.bytes(), word.traits);
        let earlier = match *count {
            0 => Some(Vec::new()),
            _ => cx.state.lists.take_loop(name),
        };
        let only = *count == 0 && !traits.expanded() && !traits.glob();
        cx.state.assign(name, only.then_some(text));
        *count += 1;
        let is_known = word.substitutions.is_empty() && !traits.truncated();
        if let Some(mut values) = earlier.filter(|_| is_known) {
            let text = text.to_vec();
            values.push(LoopValue { text, traits });
            let most = cx.state.limits.expansions;
            let fits = cx.state.lists.set_loop(name, values, most);
            cx.counters().expansions += u64::from(!fits);
        }
    }

    fn read_keyword(&mut self, text: &[u8], most: usize) -> bool {
        match text {
            b"if" | b"while" | b"until" => self.open(CompoundKind::Keyword),
            b"for" | b"select" => {
                self.open(CompoundKind::Loop);
                self.position = WordPosition::ForName;
            }
            b"case" => {
                self.open(CompoundKind::Case);
                self.position = WordPosition::CaseWord;
            }
            b"{" if self.turns_loop_into(CompoundKind::Group) => {}
            b"{" => self.open(CompoundKind::Group),
            b"}" => {
                self.close(CompoundKind::Group, most);
            }
            b"fi" | b"done" => {
                self.close(CompoundKind::Keyword, most);
            }
            b"esac" => {
                self.close(CompoundKind::Case, most);
            }
            b"function" => self.position = WordPosition::Function,
            b"do" => {
                self.turns_loop_into(CompoundKind::Keyword);
            }
            b"coproc" => self.command.names_coprocess = true,
            b"then" | b"elif" | b"else" | b"!" | b"always" => {}
            b"[[" => {
                self.position = WordPosition::Conditional;
                return false;
            }
            _ => return false,
        }
        true
    }
}

impl ShellSyntax {
    /// Returns true if the shell has the reserved words of POSIX.
    pub(super) fn has_reserved_words(self) -> bool {
        self == ShellSyntax::Posix
    }
}

impl ListReader {
    /// Closes the compound commands that are open at the end of the list.
    pub(super) fn end_compounds(&mut self, most: usize) {
        for compound in self.compounds.drain(..) {
            self.outputs.extend(&compound.outputs);
            let KnownOutput { text, has_gaps } = &compound.written;
            self.written.append(text, *has_gaps, most);
        }
    }
}
