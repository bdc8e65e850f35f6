//! One simple command: the role and the route of each of its words.

use super::super::chunk::{Chunk, ChunkBuffer, OffsetMap};
use super::ScriptReading;
use super::heredoc::HeredocDelimiter;

/// A simple command that is being read.
#[derive(Clone, Debug, Default)]
pub(super) struct SimpleCommand {
    /// The buffered bytes of the current word that are not yet emitted.
    pub(super) held: ChunkBuffer,
    pub(super) in_word: bool,
    /// The start of the current word, and the end of the word before it.
    start: u64,
    end: u64,
    /// The number of bytes of the word before its first quote.
    quoted_at: Option<usize>,
    /// The start of the redirection operator.
    operator: u64,
    /// The route of the current word; `None` until its first bytes are routed.
    pub(super) route: Option<WordRoute>,
    next: NextWord,
    command_state: CommandState,
    /// The words of a nested command.
    pub(super) text: ChunkBuffer,
    /// The words from the first one that is not part of a wrapper.
    pub(super) unwrapped: ChunkBuffer,
    /// True if words are also appended to `unwrapped`.
    pub(super) has_unwrapped: bool,
    /// The operator and the target of a redirection.
    pub(super) redirect: ChunkBuffer,
    /// The script passed to `sh -c`.
    pub(super) script: ChunkBuffer,
    pub(super) script_is_long: bool,
}

/// The destination of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordRoute {
    Command,
    Redirect,
    Heredoc,
    Nowhere,
}

/// The role of the next word, which the operator before it determines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextWord {
    #[default]
    Word,
    Redirect,
    Heredoc {
        tabs: bool,
    },
}

/// The role of the next word, as the words so far determine it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CommandState {
    /// The name of the command, or an assignment or keyword before it.
    #[default]
    Command,
    /// An option or operand of a wrapper, or the wrapped command.
    Wrapper(Wrapper, WrapperArgs),
    /// An option of a shell.
    Shell {
        /// True if the next word is the value of an option.
        takes_value: bool,
    },
    /// The script that a shell runs.
    Script,
    /// The rest of that word.
    InScript,
    Arguments,
}

/// The operands that a wrapper takes before its command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WrapperArgs {
    operands: u8,
    takes_value: bool,
}

/// A command that runs another command, such as `sudo`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrapper {
    /// The single-letter options that take the next word as their value.
    options: &'static str,
    /// The number of its own operands before the command.
    operands: u8,
}

/// Returns the wrapper with this name.
fn prefix(name: &[u8]) -> Option<Wrapper> {
    let (options, operands) = match name {
        b"sudo" => ("ughpCDRTUrt", 0),
        b"doas" => ("uC", 0),
        b"env" => ("uCS", 0),
        b"nice" | b"watch" => ("n", 0),
        b"ionice" => ("cnp", 0),
        b"timeout" => ("ks", 1),
        b"stdbuf" => ("ioe", 0),
        b"xargs" => ("InPLdaEs", 0),
        b"exec" => ("a", 0),
        b"nohup" | b"command" | b"builtin" | b"setsid" | b"busybox" | b"unbuffer" => ("", 0),
        b"chroot" => ("", 1),
        _ => return None,
    };
    Some(Wrapper { options, operands })
}

#[inline]
fn is_shell(name: &[u8]) -> bool {
    matches!(name, b"sh" | b"bash" | b"zsh" | b"dash" | b"ksh" | b"ash")
}

impl SimpleCommand {
    #[inline]
    pub(super) fn begin_word(&mut self, start: u64) {
        if !self.in_word {
            self.in_word = true;
            self.start = start;
            self.quoted_at = None;
        }
    }

    #[inline]
    pub(super) fn mark_quoted(&mut self) {
        let before = self.held.bytes().len();
        self.quoted_at.get_or_insert(before);
    }

    /// Returns true if the word is the file descriptor of the redirection that starts, and drops the word.
    pub(super) fn drop_number(&mut self) -> bool {
        let is_number = self.in_word
            && self.quoted_at.is_none()
            && self.route.is_none()
            && self.next == NextWord::Word
            && self.held.bytes().iter().all(u8::is_ascii_digit);
        if is_number {
            self.in_word = false;
            self.held.clear();
        }
        is_number
    }

    #[inline]
    pub(super) fn begin_heredoc(&mut self, tabs: bool) {
        self.next = NextWord::Heredoc { tabs };
    }

    pub(super) fn begin_redirect(&mut self, operator: &[(u8, OffsetMap, u64)], now: u64) {
        self.next = NextWord::Redirect;
        for (index, &(byte, offsets, decided)) in operator.iter().enumerate() {
            if index == 0 {
                (self.operator, _) = ends(offsets);
            }
            let bytes = &[byte];
            let chunk = Chunk {
                bytes,
                offsets,
                decided,
            };
            self.redirect.push(chunk.decided_no_earlier(now));
        }
    }

    /// Returns the space between the preceding word and this one.
    #[inline]
    pub(super) fn space(&self, now: u64) -> Chunk<'static> {
        Chunk::replacement(b" ", self.end..self.start, now)
    }

    /// Returns true if the preceding word ended at `end`.
    #[inline]
    pub(super) fn ended_at(&self, end: u64) -> bool {
        self.end == end
    }

    /// Returns the number of bytes of the part that the space replaces.
    #[inline]
    pub(super) fn space_bytes(&self) -> u64 {
        self.start.saturating_sub(self.end)
    }

    /// Returns true if the words are neither unwrapped nor part of a script.
    #[inline]
    pub(super) fn is_plain(&self) -> bool {
        !self.has_unwrapped && !self.is_script()
    }

    /// Returns true if the current or next word is a plain argument of the command, whose bytes do not depend on how
    /// it ends.
    #[inline]
    pub(super) fn is_argument(&self) -> bool {
        let is_word = match self.route {
            None => self.next == NextWord::Word,
            Some(route) => route == WordRoute::Command,
        };
        is_word && self.command_state == CommandState::Arguments && !self.has_unwrapped
    }

    /// Returns the number of leading bytes that can still be a file descriptor, if no byte of the word has been
    /// routed.
    #[inline]
    pub(super) fn number(&self, bytes: &[u8]) -> usize {
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        match self.quoted_at.is_none() {
            true => bytes.iter().take_while(is_digit).count(),
            false => 0,
        }
    }

    /// Starts an argument at `start`.
    #[inline]
    pub(super) fn begin_argument(&mut self, start: u64) {
        self.in_word = false;
        self.begin_word(start);
        self.route = Some(WordRoute::Command);
    }

    /// Returns the space between an operator and its target.
    #[inline]
    pub(super) fn space_after_operator(&self, now: u64) -> Chunk<'static> {
        Chunk::replacement(b" ", self.operator..self.start, now)
    }

    /// Returns true if a word is to start that is not the target of an operator.
    #[inline]
    pub(super) fn awaits_word(&self) -> bool {
        !self.in_word && self.next == NextWord::Word
    }

    /// Returns the route of the next bytes of the word, and true if they are its first. `complete` is true if the word
    /// ends with them.
    pub(super) fn route_word(
        &mut self,
        word: &[u8],
        complete: bool,
        scripts: ScriptReading,
    ) -> (WordRoute, bool) {
        if let Some(route) = self.route {
            return (route, false);
        }
        let route = match std::mem::take(&mut self.next) {
            NextWord::Redirect => WordRoute::Redirect,
            NextWord::Heredoc { tabs } if complete => {
                self.next = NextWord::Heredoc { tabs };
                WordRoute::Heredoc
            }
            _ => self.word(word, scripts),
        };
        self.route = Some(route);
        (route, true)
    }

    /// Ends the word. Returns the delimiter if the word is that of a heredoc.
    pub(super) fn end_word(&mut self, end: u64) -> Option<HeredocDelimiter> {
        self.in_word = false;
        if self.route == Some(WordRoute::Command) {
            self.end = end;
        }
        let NextWord::Heredoc { tabs } = std::mem::take(&mut self.next) else {
            return None;
        };
        let text = self.held.bytes().to_vec();
        self.held.clear();
        Some(HeredocDelimiter { end: text, tabs })
    }

    /// Returns true if the word is the script of a shell.
    #[inline]
    pub(super) fn is_script(&self) -> bool {
        self.command_state == CommandState::InScript
    }

    /// Appends to the script. Returns true if it has just become too long.
    pub(super) fn append_to_script<'a>(
        &mut self,
        chunks: impl Iterator<Item = Chunk<'a>>,
        now: u64,
        most: usize,
    ) -> bool {
        if self.script_is_long {
            return false;
        }
        for chunk in chunks {
            self.script.push(chunk.decided_no_earlier(now));
        }
        self.script_is_long = self.script.bytes().len() > most;
        self.script_is_long
    }

    /// Resets the state for the next command.
    pub(super) fn restart(&mut self) {
        for held in [
            &mut self.text,
            &mut self.unwrapped,
            &mut self.redirect,
            &mut self.script,
        ] {
            held.clear();
        }
        self.next = NextWord::Word;
        self.command_state = CommandState::Command;
        (self.has_unwrapped, self.script_is_long) = (false, false);
    }

    fn word(&mut self, word: &[u8], scripts: ScriptReading) -> WordRoute {
        match self.command_state {
            CommandState::Command => {
                let plain = self.quoted_at.is_none();
                let name_end = self.quoted_at.unwrap_or(word.len()).min(word.len());
                if plain && is_keyword(word) || is_assignment(&word[..name_end]) {
                    return WordRoute::Nowhere;
                }
                self.command_state = command_state(word, scripts);
            }
            CommandState::Wrapper(prefix, after_wrapper) => {
                self.after_wrapper(prefix, after_wrapper, word, scripts)
            }
            CommandState::Shell { takes_value: true } => {
                self.command_state = CommandState::Shell { takes_value: false }
            }
            CommandState::Shell { .. } => self.command_state = shell_option(word),
            CommandState::Script => self.command_state = CommandState::InScript,
            CommandState::InScript | CommandState::Arguments => {
                self.command_state = CommandState::Arguments
            }
        }
        WordRoute::Command
    }

    /// Handles a word after a wrapper.
    fn after_wrapper(
        &mut self,
        prefix: Wrapper,
        after_wrapper: WrapperArgs,
        word: &[u8],
        scripts: ScriptReading,
    ) {
        let stays = |operands, takes_value| {
            CommandState::Wrapper(
                prefix,
                WrapperArgs {
                    operands,
                    takes_value,
                },
            )
        };
        self.command_state = if after_wrapper.takes_value {
            stays(after_wrapper.operands, false)
        } else if word.len() > 1 && word[0] == b'-' {
            let takes_value = word.len() == 2 && prefix.options.as_bytes().contains(&word[1]);
            stays(after_wrapper.operands, takes_value)
        } else if is_assignment(word) {
            stays(after_wrapper.operands, false)
        } else if after_wrapper.operands > 0 {
            stays(after_wrapper.operands - 1, false)
        } else {
            let command_state = command_state(word, scripts);
            self.has_unwrapped = !matches!(command_state, CommandState::Wrapper(..));
            command_state
        };
    }
}

/// Returns the state after the command name `word`.
fn command_state(word: &[u8], scripts: ScriptReading) -> CommandState {
    let path = word.iter().rposition(|&byte| byte == b'/');
    let name = &word[path.map_or(0, |slash| slash + 1)..];
    // No wrapper or shell has a longer name.
    if name.len() > 8 {
        return CommandState::Arguments;
    }
    if let Some(prefix) = prefix(name) {
        let (operands, takes_value) = (prefix.operands, false);
        return CommandState::Wrapper(
            prefix,
            WrapperArgs {
                operands,
                takes_value,
            },
        );
    }
    if scripts == ScriptReading::Commands && is_shell(name) {
        return CommandState::Shell { takes_value: false };
    }
    CommandState::Arguments
}

#[inline]
fn shell_option(word: &[u8]) -> CommandState {
    match word {
        [b'-', b'-', ..] => CommandState::Shell { takes_value: false },
        [b'-' | b'+', letters @ ..] if letters.contains(&b'c') => CommandState::Script,
        [b'-' | b'+', .., b'o' | b'O'] => CommandState::Shell { takes_value: true },
        [b'-' | b'+', ..] => CommandState::Shell { takes_value: false },
        _ => CommandState::Arguments,
    }
}

/// Returns true if `word` is a keyword that a command follows.
fn is_keyword(word: &[u8]) -> bool {
    matches!(
        word,
        b"if"
            | b"then"
            | b"elif"
            | b"else"
            | b"fi"
            | b"while"
            | b"until"
            | b"do"
            | b"done"
            | b"esac"
            | b"!"
            | b"{"
            | b"}"
            | b"time"
            | b"coproc"
            | b"always"
    )
}

/// Returns true if `word` starts with `NAME=` or `NAME+=`.
#[inline]
fn is_assignment(word: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let Some(equals) = word.iter().position(|&byte| byte == b'=') else {
        return false;
    };
    let name = &word[..equals];
    let name = name.strip_suffix(b"+").unwrap_or(name);
    !name.is_empty() && !name[0].is_ascii_digit() && name.iter().all(is_name)
}

/// Returns the start and the end of a single byte.
#[inline]
pub(super) fn ends(offsets: OffsetMap) -> (u64, u64) {
    match offsets {
        OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => (at, at + 1),
        OffsetMap::Replacement { start, end } => (start, end),
    }
}
