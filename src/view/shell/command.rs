//! One simple command as it is read: which word is what.

use super::super::chunk::{Chunk, ChunkBuffer, OffsetMap};
use super::heredoc::HeredocDelimiter;

/// A command, up to where it was read.
#[derive(Clone, Debug, Default)]
pub(super) struct SimpleCommand {
    /// The word that is not complete, or the stretch of it that is next.
    pub(super) held: ChunkBuffer,
    pub(super) in_word: bool,
    /// Where the word begins, and where the one before ended.
    start: u64,
    end: u64,
    /// How much of the word stands before its first quote.
    quoted_at: Option<usize>,
    /// Where the operator of the redirection begins.
    operator: u64,
    /// Where the word goes, if some of it went there.
    pub(super) route: Option<WordRoute>,
    next: NextWord,
    command_state: CommandState,
    /// Of a nested command: its words.
    pub(super) text: ChunkBuffer,
    /// The words from the first that is no prefix.
    pub(super) unwrapped: ChunkBuffer,
    /// Whether words go to `rest` too.
    pub(super) has_unwrapped: bool,
    /// A redirection: its operator and target.
    pub(super) redirect: ChunkBuffer,
    /// What `sh -c` is given.
    pub(super) script: ChunkBuffer,
    pub(super) script_is_long: bool,
}

/// Where a word goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordRoute {
    Command,
    Redirect,
    Heredoc,
    Nowhere,
}

/// What the next word is, by the operator before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NextWord {
    #[default]
    Word,
    Redirect,
    Heredoc {
        tabs: bool,
    },
}

/// What the words so far lead to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum CommandState {
    /// The command itself.
    #[default]
    Command,
    /// Options of a prefix, or the command behind it.
    Wrapper(Wrapper, WrapperArgs),
    /// Options of a shell.
    Shell {
        /// The next word belongs to an option.
        takes_value: bool,
    },
    /// What a shell is to run.
    Script,
    /// That word.
    InScript,
    Arguments,
}

/// What stands between a prefix and its command still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct WrapperArgs {
    operands: u8,
    takes_value: bool,
}

/// A word that runs the command behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wrapper {
    /// Its options, of one letter, that take the next word.
    options: &'static str,
    /// Words of its own before the command.
    operands: u8,
}

/// The prefix of that name.
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

fn is_shell(name: &[u8]) -> bool {
    matches!(name, b"sh" | b"bash" | b"zsh" | b"dash" | b"ksh" | b"ash")
}

impl SimpleCommand {
    pub(super) fn begin_word(&mut self, start: u64) {
        if !self.in_word {
            self.in_word = true;
            self.start = start;
            self.quoted_at = None;
        }
    }

    pub(super) fn mark_quoted(&mut self) {
        let before = self.held.bytes().len();
        self.quoted_at.get_or_insert(before);
    }

    /// Whether the word is the number of a redirection that begins; it goes then.
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
            self.redirect.push(chunk.not_before(now));
        }
    }

    /// The space between the last word and this one.
    pub(super) fn space(&self, now: u64) -> Chunk<'static> {
        Chunk::replacement(b" ", self.end, self.start, now)
    }

    /// Whether the last word ended there.
    pub(super) fn ended_at(&self, end: u64) -> bool {
        self.end == end
    }

    /// How many bytes of the part that space stands for.
    pub(super) fn space_bytes(&self) -> u64 {
        self.start.saturating_sub(self.end)
    }

    /// Whether its words go nowhere else.
    pub(super) fn is_plain(&self) -> bool {
        !self.has_unwrapped && !self.is_script()
    }

    /// Whether the word that is read, or the next one, is an argument that goes nowhere else: what its end is like
    /// changes nothing in it.
    pub(super) fn is_argument(&self) -> bool {
        let is_word = match self.route {
            None => self.next == NextWord::Word,
            Some(route) => route == WordRoute::Command,
        };
        is_word && self.command_state == CommandState::Arguments && !self.has_unwrapped
    }

    /// How many of the bytes that come next may still be the number of a redirection, where nothing of the word
    /// went anywhere yet.
    pub(super) fn number(&self, bytes: &[u8]) -> usize {
        let is_digit = |byte: &&u8| byte.is_ascii_digit();
        match self.quoted_at.is_none() {
            true => bytes.iter().take_while(is_digit).count(),
            false => 0,
        }
    }

    /// An argument begins there.
    pub(super) fn begin_argument(&mut self, start: u64) {
        self.in_word = false;
        self.begin_word(start);
        self.route = Some(WordRoute::Command);
    }

    /// The space between an operator and its target.
    pub(super) fn space_after_operator(&self, now: u64) -> Chunk<'static> {
        Chunk::replacement(b" ", self.operator, self.start, now)
    }

    /// Whether the next word is one like others: no target of an operator.
    pub(super) fn awaits_word(&self) -> bool {
        !self.in_word && self.next == NextWord::Word
    }

    /// Where the word goes that this is the next stretch of; more comes if it is not complete. Whether it is
    /// the first stretch.
    pub(super) fn route_word(
        &mut self,
        word: &[u8],
        complete: bool,
        scripts: bool,
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

    /// The word is over; the end of a heredoc if it is one.
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

    /// Whether the word is what a shell is to run.
    pub(super) fn is_script(&self) -> bool {
        self.command_state == CommandState::InScript
    }

    /// Keeps more of a script; whether that is too much.
    pub(super) fn keep_script<'a>(
        &mut self,
        chunks: impl Iterator<Item = Chunk<'a>>,
        now: u64,
        most: usize,
    ) -> bool {
        if self.script_is_long {
            return false;
        }
        for chunk in chunks {
            self.script.push(chunk.not_before(now));
        }
        self.script_is_long = self.script.bytes().len() > most;
        self.script_is_long
    }

    /// The next command begins.
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

    fn word(&mut self, word: &[u8], scripts: bool) -> WordRoute {
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

    /// A word behind a prefix.
    fn after_wrapper(
        &mut self,
        prefix: Wrapper,
        after_wrapper: WrapperArgs,
        word: &[u8],
        scripts: bool,
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

/// What follows the command of that name.
fn command_state(word: &[u8], scripts: bool) -> CommandState {
    let path = word.iter().rposition(|&byte| byte == b'/');
    let name = &word[path.map_or(0, |slash| slash + 1)..];
    // No name that is looked for is longer.
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
    if scripts && is_shell(name) {
        return CommandState::Shell { takes_value: false };
    }
    CommandState::Arguments
}

fn shell_option(word: &[u8]) -> CommandState {
    match word {
        [b'-', b'-', ..] => CommandState::Shell { takes_value: false },
        [b'-' | b'+', letters @ ..] if letters.contains(&b'c') => CommandState::Script,
        [b'-' | b'+', .., b'o' | b'O'] => CommandState::Shell { takes_value: true },
        [b'-' | b'+', ..] => CommandState::Shell { takes_value: false },
        _ => CommandState::Arguments,
    }
}

/// Words that commands follow.
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

/// `NAME=` or `NAME+=`, and whatever follows.
fn is_assignment(word: &[u8]) -> bool {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let Some(equals) = word.iter().position(|&byte| byte == b'=') else {
        return false;
    };
    let name = &word[..equals];
    let name = name.strip_suffix(b"+").unwrap_or(name);
    !name.is_empty() && !name[0].is_ascii_digit() && name.iter().all(is_name)
}

/// Where a byte begins and ends.
pub(super) fn ends(offsets: OffsetMap) -> (u64, u64) {
    match offsets {
        OffsetMap::Verbatim(at) | OffsetMap::Late(at) | OffsetMap::Words(at) => (at, at + 1),
        OffsetMap::Replacement { start, end } => (start, end),
    }
}
