//! The command patterns on the arguments of a tool call: which requirements each command has met, which commands are
//! in one pipeline, and which files they read.
//!
//! Memory is bounded: a command that has ended is dropped when [`MAX_ENDED`] others have ended after it.

mod code;
mod tracked;
mod written;

use std::borrow::Cow;
use std::collections::VecDeque;

use super::admit::{Admission, HaystackScope};
use super::condition::{FullMatch, TextPosition};
use super::haystack::MatchContext;
use crate::program::{
    CommandCache, CommandPattern, CommandProgress, CommandSet, ConditionExtent, PathSpellings,
    ProgressState, ReadMatches,
};
use crate::stream::Counters;
use ttsr_views::chunk::{Chunk, DecidedOffset};
use ttsr_views::command::files::ReadOperands;
use ttsr_views::command::{
    CommandEvent, CommandId, CommandLimits, CommandSink, CommandView, CommandWord, ParentCommand,
    ParentRelation, WordRole, files, normalize_path,
};
use ttsr_views::detect::Detection;
use ttsr_views::json::ArgPath;

use code::CodeSearch;
use tracked::{
    MAX_PROGRAM_BYTES, MAX_TEXT_BYTES, MetPatterns, OperandUse, SourceList, TrackedCommand,
};
use written::WrittenFiles;

/// The most commands that are kept after they have ended.
const MAX_ENDED: usize = 64;

/// The most files, variables and redirections that are kept for each command.
const MAX_KEPT: usize = 16;

/// The commands in the arguments of one tool call.
#[derive(Debug)]
pub(super) struct CallCommandReader {
    view: CommandView,
    commands: Commands,
    /// The argument that the current command is in. For an array of words, the array.
    arg: Option<ArgPath>,
    is_finished: bool,
}

/// The commands of a call that may still match, in the order in which they began.
#[derive(Debug, Default)]
struct Commands {
    // Boxed, because commands move between `known` and `spare`.
    known: VecDeque<Box<TrackedCommand>>,
    /// The number of commands in `known` that have ended.
    ended: usize,
    /// True if a match may have become complete: a command has just met a pattern, or gets more input.
    has_changed: bool,
    met_nested: MetPatterns,
    written: WrittenFiles,
    /// Dropped commands, whose buffers are reused.
    #[allow(clippy::vec_box, reason = "they come from `known` and go back to it")]
    spare: Vec<Box<TrackedCommand>>,
    /// Buffers of a single event.
    ids: Vec<CommandId>,
    writers: Vec<CommandId>,
    sources: SourceList,
    cache: CommandCache,
    code: CodeSearch,
}

impl CallCommandReader {
    pub(super) fn new() -> CallCommandReader {
        CallCommandReader {
            view: CommandView::new(CommandLimits::default()),
            commands: Commands::default(),
            arg: None,
            is_finished: false,
        }
    }

    /// Starts a value.
    pub(super) fn open(&mut self, path: &ArgPath) {
        self.view.open(path);
    }

    /// Reads the next bytes of the value at `arg`.
    pub(super) fn push(
        &mut self,
        admission: &mut Admission<'_>,
        arg: Option<&ArgPath>,
        chunk: &Chunk<'_>,
    ) {
        if chunk.bytes.is_empty() || self.view.reads().is_none() {
            return;
        }
        self.enter(admission, arg, chunk.decided(0));
        self.with_view(admission, |view, sink| view.push(chunk, sink));
    }

    /// Ends the value.
    pub(super) fn close(
        &mut self,
        admission: &mut Admission<'_>,
        arg: Option<&ArgPath>,
        end: DecidedOffset,
    ) {
        self.enter(admission, arg, end.decided());
        self.with_view(admission, |view, sink| view.close(end, sink));
    }

    /// Ends the part, which has `end` bytes.
    pub(super) fn finish(&mut self, admission: &mut Admission<'_>, end: u64) {
        self.with_view(admission, |view, sink| view.finish(end, sink));
        self.is_finished = true;
    }

    /// Returns the offset of the first byte that an undecided match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, set: &CommandSet) -> Option<u64> {
        // Commands are not reported in the order of offsets, because a script is read when its word ends.
        (set.holds() && !self.is_finished).then_some(0)
    }

    /// Returns true if some commands could not be read.
    pub(super) fn has_unread(&self) -> bool {
        self.view.counters().total() > 0
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        counters.cut_commands += self.view.counters().total();
    }

    /// Ends the command of the preceding value, in its argument, and enters the argument of the current one.
    fn enter(&mut self, admission: &mut Admission<'_>, arg: Option<&ArgPath>, decided: u64) {
        if !self.view.is_fresh() {
            return;
        }
        self.with_view(admission, |view, sink| view.begin_value(decided, sink));
        if let Some(is_word) = self.view.reads() {
            self.arg = arg.cloned();
            if let (Some(list), true) = (&mut self.arg, is_word) {
                list.pop();
            }
        }
    }

    fn with_view(
        &mut self,
        admission: &mut Admission<'_>,
        feed: impl FnOnce(&mut CommandView, &mut CommandMatcher<'_, '_>),
    ) {
        let set = &admission.context.rules.commands;
        let mut sink = CommandMatcher {
            set,
            commands: &mut self.commands,
            scope: HaystackScope::from_arg(self.arg.as_ref()),
            admission,
        };
        feed(&mut self.view, &mut sink);
    }
}

/// Matches the commands that a view reports.
struct CommandMatcher<'m, 'a> {
    set: &'a CommandSet,
    commands: &'m mut Commands,
    scope: HaystackScope<'m>,
    admission: &'m mut Admission<'a>,
}

impl CommandSink for CommandMatcher<'_, '_> {
    fn event(&mut self, event: CommandEvent<'_>, decided: u64) {
        let set = self.set;
        match event {
            CommandEvent::Begin { command, parent } => self.commands.begin(set, command, parent),
            CommandEvent::Word(word) => self.commands.add_word(set, &word),
            CommandEvent::Directory { command, path } => {
                let below_home = set.with_tilde(path);
                let below_home = below_home.as_deref();
                let paths = PathSpellings { path, below_home };
                self.commands
                    .change(set, command, |progress, pattern, cache| {
                        progress.add_directory(pattern, paths, cache);
                    });
            }
            CommandEvent::Assignment {
                command,
                name,
                value,
            } => self.commands.add_variable(set, command, name, &value),
            CommandEvent::Redirection {
                command,
                operator,
                target,
                ..
            } => self
                .commands
                .add_redirection(set, command, operator, &target),
            CommandEvent::Pipe { from, to } | CommandEvent::Output { from, to } => {
                self.commands.connect(set, &[from], to);
            }
            CommandEvent::FileIsCode { command, file } => {
                self.commands.run_file(set, command, &file);
            }
            CommandEvent::OutputIsCode { command, from } => {
                self.commands.connect(set, &[from], command);
                self.commands
                    .change(set, command, |progress, _, _| progress.set_stdin_is_code());
            }
            CommandEvent::StdinIsCode { command, .. } => {
                self.commands.quote_input(command);
                self.commands
                    .change(set, command, |progress, _, _| progress.set_stdin_is_code());
            }
            CommandEvent::Code { command, chunk, .. } => {
                self.commands.add_code(set, command, &chunk);
            }
            CommandEvent::CodeEnd { command } => self.commands.end_code(set, command),
            CommandEvent::End { command, .. } => self.commands.end(set, command),
            _ => {}
        }
        if std::mem::take(&mut self.commands.has_changed) {
            self.report(decided);
        }
        self.commands.drop_ended();
    }
}

impl CommandMatcher<'_, '_> {
    /// Reports the matches that have become complete.
    fn report(&mut self, decided: u64) {
        let mut found = Vec::new();
        for at in 0..self.commands.known.len() {
            if !self.commands.known[at].has_met {
                continue;
            }
            for index in 0..self.commands.known[at].progress.len() {
                let progress = &self.commands.known[at].progress[index];
                let pattern = self.set.pattern(progress.pattern);
                if pattern.owner.is_some()
                    && progress.state == ProgressState::Met
                    && self.commands.is_complete(self.set, at, progress)
                {
                    found.push((at, index));
                }
            }
        }
        // Found first, because `admit` borrows the commands and the admission.
        for (at, index) in found {
            self.commands.known[at].progress[index].state = ProgressState::Reported;
            self.admit(at, index, decided);
        }
    }

    /// Admits a match of pattern `index` of command `at`: at once, or through the queue if the rule combines it with
    /// other conditions.
    fn admit(&mut self, at: usize, index: usize, decided: u64) {
        let command = &self.commands.known[at];
        let pattern = self.set.pattern(command.progress[index].pattern);
        let Some(owner) = &pattern.owner else { return };
        let in_arg = match (&owner.arg, self.scope.arg) {
            (Some(wanted), Some(arg)) => wanted.applies(arg),
            _ => true,
        };
        if !in_arg {
            return;
        }
        let context = MatchContext::whole(&command.text);
        let (start, end) = (command.start, command.end);
        let compound = self.admission.context.program.compound(owner.rule);
        let is_combined = compound.is_some_and(|it| {
            it.all + it.sequence > 0 || it.has_none || it.extent() == ConditionExtent::Message
        });
        if !is_combined {
            let finding = Detection {
                start,
                end,
                decided,
            };
            self.admission
                .admit_finding(owner.rule, self.scope, finding, Some(context));
            return;
        }
        if !self.admission.is_in_scope(owner.rule, self.scope) {
            return;
        }
        let end = DecidedOffset {
            offset: end,
            decided: decided.max(end),
        };
        let excerpt = context.excerpt(context.start);
        let mut record = self.admission.record(owner.rule, self.scope, end, excerpt);
        record.start = Some(start);
        let position = |offset| TextPosition {
            offset,
            ..TextPosition::default()
        };
        let found = FullMatch {
            pattern: 0,
            start: position(start),
            end: position(end.offset),
            range: 0..0,
            decided: end.decided,
        };
        self.admission.queue(owner.role, found, record);
    }
}

impl Commands {
    fn index(&self, id: CommandId) -> Option<usize> {
        // Commands begin in the order of their numbers, and most events are about the last one.
        match self.known.back() {
            Some(last) if last.id == id => Some(self.known.len() - 1),
            _ => self.known.binary_search_by_key(&id, |known| known.id).ok(),
        }
    }

    /// Adds a command. A wrapped command gets the variables and redirections of its wrapper.
    fn begin(&mut self, set: &CommandSet, id: CommandId, parent: Option<ParentCommand>) {
        let mut command = self.spare.pop().unwrap_or_default();
        (command.id, command.parent) = (id, parent);
        let wrapper = parent.filter(|parent| parent.relation == ParentRelation::Wrapped);
        if let Some(index) = wrapper.and_then(|parent| self.index(parent.command)) {
            let wrapper = &self.known[index];
            command.variables.copy_from(&wrapper.variables);
            command.written.copy_from(&wrapper.written);
            command.redirected.copy_from(&wrapper.redirected);
            command.read.copy_from(&wrapper.redirected);
            self.change_at(set, index, |progress, pattern, _| {
                progress.add_wrapped_command(pattern);
            });
        }
        self.known.push_back(command);
        let index = self.known.len() - 1;
        // Taken out of the command, because `connect_writers` borrows all commands.
        let redirected = std::mem::take(&mut self.known[index].redirected);
        for path in redirected.iter() {
            self.connect_writers(set, index, path);
        }
        self.known[index].redirected = redirected;
    }

    /// Applies `change` to the patterns of a command.
    fn change(
        &mut self,
        set: &CommandSet,
        id: CommandId,
        change: impl FnMut(&mut CommandProgress, &CommandPattern, &mut CommandCache),
    ) {
        if let Some(index) = self.index(id) {
            self.change_at(set, index, change);
        }
    }

    /// Applies `change` to the patterns of the command at that index.
    fn change_at(
        &mut self,
        set: &CommandSet,
        index: usize,
        mut change: impl FnMut(&mut CommandProgress, &CommandPattern, &mut CommandCache),
    ) {
        let command = &mut *self.known[index];
        for progress in &mut command.progress {
            let pattern = set.pattern(progress.pattern);
            change(progress, pattern, &mut self.cache);
            if progress.becomes_met(pattern) {
                command.has_met = true;
                self.has_changed = true;
                self.met_nested.add(set, progress.pattern);
            }
        }
    }

    /// Applies `change` to the patterns of a command, if one of them has requirements on arguments.
    fn change_by_argument(
        &mut self,
        set: &CommandSet,
        index: usize,
        change: impl FnMut(&mut CommandProgress, &CommandPattern, &mut CommandCache),
    ) {
        if self.known[index].needs.arguments {
            self.change_at(set, index, change);
        }
    }

    /// Reads a word of a command: its program, which selects the patterns, or an argument.
    fn add_word(&mut self, set: &CommandSet, word: &CommandWord<'_>) {
        let Some(index) = self.index(word.command) else {
            return;
        };
        let command = &mut self.known[index];
        let WordRole::Program { name } = &word.role else {
            command.quote(word);
            return self.add_argument(set, index, word);
        };
        set.begin(name, &mut command.progress, &mut self.cache);
        command.needs = set.needs(&command.progress);
        command.quote(word);
        command.operands = OperandUse {
            are_read: files::reads_operands(name),
            are_passed: files::passes_operands(name),
            are_urls: files::fetches(name),
            read: files::read_operands(name),
        };
        command.saves_downloads = files::saves_downloads(name, None);
        command
            .program
            .extend_from_slice(&name[..name.len().min(MAX_PROGRAM_BYTES)]);
        command.start = command.start.min(word.span.start);
        let TrackedCommand {
            progress,
            has_met,
            variables,
            written,
            read,
            read_matches,
            ..
        } = &mut **command;
        // The program selects the patterns, and assignments and redirections may precede it: they are applied here.
        for progress in progress {
            let pattern = set.pattern(progress.pattern);
            let mut texts = variables.iter();
            while let (Some(name), Some(value)) = (texts.next(), texts.next()) {
                progress.add_variable(pattern, name, value, &mut self.cache);
            }
            for path in written.paths() {
                progress.add_written_file(pattern, &path, &mut self.cache);
            }
            progress.add_read_files(pattern, read.paths(), read_matches, &mut self.cache);
            if progress.becomes_met(pattern) {
                *has_met = true;
                self.has_changed = true;
                self.met_nested.add(set, progress.pattern);
            }
        }
        self.add_reads_of_sources(set, index);
    }

    /// Adds a word after the program.
    fn add_argument(&mut self, set: &CommandSet, index: usize, word: &CommandWord<'_>) {
        if self.known[index].progress.is_empty() && !set.follows_files() {
            return;
        }
        match &word.role {
            WordRole::Subcommand | WordRole::Operand => {
                let path = operand_text(word);
                let below_home = set.with_tilde(&path);
                let paths = PathSpellings {
                    path: &path,
                    below_home: below_home.as_deref(),
                };
                let is_subcommand = word.role == WordRole::Subcommand;
                self.change_by_argument(set, index, |progress, pattern, cache| {
                    progress.add_operand(
                        pattern,
                        word.index,
                        is_subcommand,
                        word.text,
                        paths,
                        cache,
                    );
                });
                if !is_subcommand {
                    self.add_operand_reads(set, index, word, &path);
                    self.known[index].add_written_operand(&path);
                }
            }
            WordRole::Flag { name, value } => {
                self.known[index].add_flag(name);
                self.change_by_argument(set, index, |progress, pattern, cache| {
                    progress.add_flag(pattern, name, *value, false, cache);
                });
                self.add_flag_reads(set, index, name);
                if let Some(value) = value {
                    let path = normalize_path(value, word.traits);
                    self.add_reads(set, index, word, &path);
                    self.known[index].add_output(name, value);
                }
            }
            WordRole::Value { flag } => {
                self.change_by_argument(set, index, |progress, pattern, cache| {
                    progress.add_flag(pattern, flag, Some(word.text), true, cache);
                });
                let path = operand_text(word);
                self.add_reads(set, index, word, &path);
                self.known[index].add_output(flag, &path);
            }
            _ => {}
        }
    }

    /// Adds a variable that is set for a command and for those that it wraps.
    fn add_variable(
        &mut self,
        set: &CommandSet,
        id: CommandId,
        name: &[u8],
        value: &CommandWord<'_>,
    ) {
        let value = &value.text[..value.text.len().min(MAX_TEXT_BYTES)];
        let ids = self.with_wrapped(id);
        for &id in &ids {
            let Some(index) = self.index(id) else {
                continue;
            };
            let variables = &mut self.known[index].variables;
            if variables.len() < 2 * MAX_KEPT && name.len() <= MAX_TEXT_BYTES {
                variables.push(name);
                variables.push(value);
            }
            self.change_at(set, index, |progress, pattern, cache| {
                progress.add_variable(pattern, name, value, cache);
            });
        }
        self.ids = ids;
    }

    /// Adds a redirection of a command and of those that it wraps.
    fn add_redirection(
        &mut self,
        set: &CommandSet,
        id: CommandId,
        operator: &'static str,
        target: &CommandWord<'_>,
    ) {
        if let Some(index) = self.index(id) {
            self.known[index].end = self.known[index].end.max(target.span.end);
        }
        let path = operand_text(target);
        if path.len() > MAX_TEXT_BYTES || operator.starts_with("<<") {
            return;
        }
        let path = String::from_utf8_lossy(&path);
        let ids = self.with_wrapped(id);
        for &id in &ids {
            let Some(index) = self.index(id) else {
                continue;
            };
            if operator.contains('>') {
                self.add_written(set, index, &path);
            }
            if operator.starts_with('<') {
                let redirected = &mut self.known[index].redirected;
                if redirected.len() < MAX_KEPT {
                    redirected.push(path.as_bytes());
                }
                self.add_read(set, index, &path);
                self.connect_writers(set, index, path.as_bytes());
            }
        }
        self.ids = ids;
    }

    /// Adds a file that a command writes by a redirection.
    fn add_written(&mut self, set: &CommandSet, index: usize, path: &str) {
        let below_home = set.with_tilde(path.as_bytes());
        let below_home = below_home.as_deref().map(String::from_utf8_lossy);
        for path in [Some(Cow::Borrowed(path)), below_home]
            .into_iter()
            .flatten()
        {
            let written = &mut self.known[index].written;
            if written.len() < MAX_KEPT {
                written.push(path.as_bytes());
            }
            self.change_at(set, index, |progress, pattern, cache| {
                progress.add_written_file(pattern, &path, cache);
            });
        }
    }

    /// Adds the files that an operand may name, unless it is a pattern, a target, or on another machine.
    fn add_operand_reads(
        &mut self,
        set: &CommandSet,
        index: usize,
        word: &CommandWord<'_>,
        path: &[u8],
    ) {
        if !set.follows_files() {
            return;
        }
        let command = &mut *self.known[index];
        let is_remote = files::is_remote(&command.program, path);
        match command.operands.read {
            ReadOperands::None => {}
            // `index` is 0 for the first operand of a program without subcommands.
            ReadOperands::AfterFirst if word.index == 0 => {}
            // Only the next operand shows that this one is not the target.
            ReadOperands::BeforeLast => {
                self.add_waiting_read(set, index);
                if !is_remote && path.len() <= MAX_TEXT_BYTES {
                    self.known[index].waiting.extend_from_slice(path);
                }
            }
            _ if is_remote => {}
            _ => self.add_reads(set, index, word, path),
        }
    }

    /// Adds the file that the preceding operand names, which is not the last one.
    fn add_waiting_read(&mut self, set: &CommandSet, index: usize) {
        let mut path = std::mem::take(&mut self.known[index].waiting);
        if !path.is_empty() {
            self.add_read_operand(set, index, &String::from_utf8_lossy(&path));
        }
        path.clear();
        self.known[index].waiting = path;
    }

    /// Applies a flag that makes all operands files which are read.
    fn add_flag_reads(&mut self, set: &CommandSet, index: usize, flag: &[u8]) {
        let use_of_operands = &mut self.known[index].operands;
        match use_of_operands.read {
            ReadOperands::AfterFirst if files::gives_pattern(flag) => {
                use_of_operands.read = ReadOperands::All;
            }
            ReadOperands::BeforeLast if files::gives_target(flag) => {
                use_of_operands.read = ReadOperands::All;
                self.add_waiting_read(set, index);
            }
            _ => {}
        }
    }

    /// Adds the files that the text of a word, or its value, may name.
    fn add_reads(&mut self, set: &CommandSet, index: usize, word: &CommandWord<'_>, path: &[u8]) {
        if path.len() > MAX_TEXT_BYTES || !set.follows_files() {
            return;
        }
        let command = &self.known[index];
        let fetches = command.operands.are_urls;
        let mut is_sent = false;
        if let WordRole::Flag { name, .. } | WordRole::Value { flag: name } = &word.role {
            if !files::reads_value(&command.program, name) {
                return;
            }
            is_sent = files::is_sent(name);
        }
        let text = String::from_utf8_lossy(path);
        // `if=file`, `file://file`
        let value = text.rsplit_once('=').map_or(&*text, |(_, value)| value);
        let marked = match fetches {
            true => files::sent_file(&text),
            false => value.strip_prefix(['@', '<']),
        };
        match marked.or_else(|| value.strip_prefix("file://")) {
            Some(path) => {
                let path = normalize_path(path.as_bytes(), word.traits);
                let path = String::from_utf8_lossy(&path);
                self.add_read_operand(set, index, &path);
            }
            None if fetches && !is_sent => {}
            None => {
                self.add_read_operand(set, index, value);
                if *value != *text {
                    self.add_read_operand(set, index, &text);
                }
            }
        }
    }

    /// Adds a file that a command reads, also by its path below the home directory.
    fn add_read(&mut self, set: &CommandSet, index: usize, path: &str) {
        self.add_read_path(set, index, path);
        if let Some(folder) = files::folder(path) {
            self.add_read(set, index, folder);
        }
        if let Some(below_home) = set.with_tilde(path.as_bytes()) {
            self.add_read_path(set, index, &String::from_utf8_lossy(&below_home));
        }
    }

    /// Adds a file that a word of a command names, and the output of the commands that have written it.
    fn add_read_operand(&mut self, set: &CommandSet, index: usize, path: &str) {
        self.add_read(set, index, path);
        if self.known[index].operands.are_read {
            self.connect_writers(set, index, path.as_bytes());
        }
    }

    /// Adds the output of the commands that have written a file to the input of a command. Returns true if there is one.
    fn connect_writers(&mut self, set: &CommandSet, index: usize, path: &[u8]) -> bool {
        let to = self.known[index].id;
        let mut writers = std::mem::take(&mut self.writers);
        writers.clear();
        writers.extend(self.written.writers(path));
        let is_written = !writers.is_empty();
        if is_written {
            self.connect(set, &writers, to);
        }
        self.writers = writers;
        is_written
    }

    /// Records that a command runs the code of a file, if a command of the call has written it.
    fn run_file(&mut self, set: &CommandSet, id: CommandId, file: &CommandWord<'_>) {
        let Some(index) = self.index(id) else { return };
        if self.connect_writers(set, index, &operand_text(file)) {
            self.change(set, id, |progress, _, _| progress.set_file_is_code());
        }
    }

    /// Adds the path of a file that a command reads, for the command and for those that get its output.
    fn add_read_path(&mut self, set: &CommandSet, index: usize, path: &str) {
        let command = &mut self.known[index];
        if command.read.len() < MAX_KEPT {
            command.read.push(path.as_bytes());
            command.read_matches.add_file();
        }
        let mut matches = ReadMatches::default();
        let (id, passes_files) = (command.id, command.operands.are_passed);
        let is_source = command.links.is_source;
        if command.needs.files {
            self.change_at(set, index, |progress, pattern, cache| {
                progress.add_read_files(pattern, [path.into()], &mut matches, cache);
            });
        }
        // The receivers so far. A receiver whose program comes later gets the path from `add_reads_of_sources`.
        if !passes_files || !is_source {
            return;
        }
        for index in 0..self.known.len() {
            let receiver = &self.known[index];
            if receiver.needs.files && receiver.links.sources.contains(id) {
                self.change_at(set, index, |progress, pattern, cache| {
                    progress.add_read_files(pattern, [path.into()], &mut matches, cache);
                });
            }
        }
    }

    /// Adds the files that the sources of a command read.
    fn add_reads_of_sources(&mut self, set: &CommandSet, index: usize) {
        let command = &self.known[index];
        if !command.needs.files || command.links.sources.is_empty() {
            return;
        }
        let mut all = std::mem::take(&mut self.known[index].progress);
        let sources = std::mem::take(&mut self.known[index].links.sources);
        let known = self.known.iter_mut();
        let known = known.filter(|other| other.operands.are_passed && sources.contains(other.id));
        for source in known {
            let TrackedCommand {
                read, read_matches, ..
            } = &mut **source;
            for progress in &mut all {
                let pattern = set.pattern(progress.pattern);
                progress.add_read_files(pattern, read.paths(), read_matches, &mut self.cache);
            }
        }
        self.known[index].links.sources = sources;
        for progress in &mut all {
            if progress.becomes_met(set.pattern(progress.pattern)) {
                self.known[index].has_met = true;
                self.has_changed = true;
                self.met_nested.add(set, progress.pattern);
            }
        }
        self.known[index].progress = all;
    }

    /// Records that the code of a command is its standard input, which its words do not contain.
    fn quote_input(&mut self, id: CommandId) {
        if let Some(index) = self.index(id) {
            let command = &mut self.known[index];
            command.links.input_is_code = command.needs.code;
        }
    }

    /// Adds the next bytes of the code that a command runs.
    fn add_code(&mut self, set: &CommandSet, id: CommandId, chunk: &Chunk<'_>) {
        let Some(index) = self.index(id).filter(|&index| self.known[index].needs.code) else {
            return;
        };
        self.known[index].quote_code(chunk.bytes);
        self.code.push(set, id, chunk);
        self.add_code_matches(set, index);
    }

    /// Ends a piece of the code that a command runs.
    fn end_code(&mut self, set: &CommandSet, id: CommandId) {
        self.code.finish(set, id);
        if let Some(index) = self.index(id) {
            self.add_code_matches(set, index);
        }
    }

    /// Adds the matches that have just been found in the code of a command.
    fn add_code_matches(&mut self, set: &CommandSet, index: usize) {
        let found = self.code.take_found();
        for &(code, end) in &found {
            let command = &mut self.known[index];
            // A here-document follows the words of its command.
            command.end = command.end.max(end);
            self.change_at(set, index, |progress, pattern, _| {
                progress.add_code_match(pattern, code);
            });
        }
        self.code.give_back(found);
    }

    /// Adds the output of the commands `from` to the input of `to`, and the output of their sources.
    fn connect(&mut self, set: &CommandSet, from: &[CommandId], to: CommandId) {
        let mut sources = std::mem::take(&mut self.sources);
        sources.clear();
        // The direct sources first, because the list is bounded.
        for &from in from {
            if let Some(index) = self.index(from) {
                self.known[index].links.is_source = true;
                sources.add(from);
            }
        }
        for &from in from {
            if let Some(index) = self.index(from) {
                sources.add_all(&self.known[index].links.sources);
            }
        }
        // The receiver, and those that get its output: none of them if it is new.
        let receivers = match self.index(to) {
            Some(index) if !self.known[index].links.is_source => index..index + 1,
            _ => 0..self.known.len(),
        };
        for index in receivers {
            let receiver = &mut self.known[index];
            if receiver.id != to && !receiver.links.sources.contains(to) {
                continue;
            }
            let id = receiver.id;
            let of_others = sources.ids().iter().filter(|source| **source != id);
            let before = receiver.links.sources.ids().len();
            of_others.for_each(|source| receiver.links.sources.add(*source));
            if receiver.links.sources.ids().len() > before {
                self.has_changed = true;
                self.add_reads_of_sources(set, index);
            }
        }
        self.sources = sources;
    }

    /// Ends a command. Commands that follow it know the files that it has written.
    fn end(&mut self, set: &CommandSet, id: CommandId) {
        self.change(set, id, |progress, _, _| progress.end());
        let Some(index) = self.index(id) else { return };
        let command = &self.known[index];
        for path in command.written_files() {
            self.written.add(path, id);
        }
        let command = &mut self.known[index];
        self.ended += usize::from(!std::mem::replace(&mut command.is_ended, true));
        // The output of a substitution is part of a word of its parent.
        let parent = command.parent;
        if let Some(parent) = parent.filter(|it| it.relation == ParentRelation::Substitution) {
            self.connect(set, &[id], parent.command);
        }
    }

    /// Drops the oldest commands that have ended, if there are too many.
    fn drop_ended(&mut self) {
        while self.ended > MAX_ENDED {
            let Some(oldest) = self.known.iter().position(|command| command.is_ended) else {
                return;
            };
            if let Some(mut command) = self.known.remove(oldest) {
                let met = command.progress.iter().filter(|it| it.is_met());
                met.for_each(|it| self.met_nested.remove(it.pattern));
                command.clear();
                self.spare.push(command);
            }
            self.ended -= 1;
        }
    }

    /// Returns a command and those that it wraps, directly or not, in the buffer.
    fn with_wrapped(&mut self, id: CommandId) -> Vec<CommandId> {
        let mut ids = std::mem::take(&mut self.ids);
        ids.clear();
        ids.push(id);
        for command in &self.known {
            let wrapper = command
                .parent
                .filter(|it| it.relation == ParentRelation::Wrapped);
            if wrapper.is_some_and(|it| ids.contains(&it.command)) {
                ids.push(command.id);
            }
        }
        ids
    }

    /// Returns true if all requirements of a pattern are met, also those on the commands before and after it.
    fn is_complete(&self, set: &CommandSet, at: usize, progress: &CommandProgress) -> bool {
        if !progress.is_met() {
            return false;
        }
        let command = &self.known[at];
        let pattern = set.pattern(progress.pattern);
        // PERF: whether the other command has met its pattern is asked first. Of 64 commands in one pipeline, each is a
        // source of all that follow it, and few have met the pattern.
        let has = |wanted: u32, is_related: &dyn Fn(&TrackedCommand) -> bool| {
            let is_complete = |at: usize| {
                let other = &self.known[at];
                let mut all = other.progress.iter();
                let progress = all.find(|it| it.pattern == wanted && it.is_met());
                progress.is_some_and(|it| is_related(other) && self.is_complete(set, at, it))
            };
            self.met_nested.contains(wanted) && (0..self.known.len()).any(is_complete)
        };
        let links = &command.links;
        let gets_input = |wanted| {
            !links.sources.is_empty() && has(wanted, &|other| links.sources.contains(other.id))
        };
        let passes_output = |wanted| {
            links.is_source && has(wanted, &|other| other.links.sources.contains(command.id))
        };
        let runs = |wanted| has(wanted, &|other| self.is_run_by(other, command.id));
        pattern.pipe_to.is_none_or(passes_output)
            && pattern.pipe_from.is_none_or(gets_input)
            && pattern.runs.is_none_or(runs)
    }

    /// Returns true if `runner` runs the command, directly or not.
    fn is_run_by(&self, command: &TrackedCommand, runner: CommandId) -> bool {
        let mut parent = command.parent;
        while let Some(of) = parent.filter(|it| it.relation != ParentRelation::Substitution) {
            if of.command == runner {
                return true;
            }
            parent = self.index(of.command).and_then(|at| self.known[at].parent);
        }
        false
    }
}

/// Returns the text of a word with its path normalized. A URL is not a path.
fn operand_text<'a>(word: &CommandWord<'a>) -> Cow<'a, [u8]> {
    // Few words have a colon, and a search for one byte needs no preparation.
    let may_be_url = memchr::memchr(b':', word.text).is_some();
    match may_be_url && memchr::memmem::find(word.text, b"://").is_some() {
        true => Cow::Borrowed(word.text),
        false => normalize_path(word.text, word.traits),
    }
}
