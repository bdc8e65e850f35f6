//! Flags: clusters of letters, abbreviated words and attached values.

use super::event::{CommandSink, WordRole};
use super::layer::{CommandLayer, LayerInput, Wrapping, run_script};
use super::program::{FlagStyle, OptionKind, ProgramAction, ProgramSpec, StdinShell, options_of};
use super::simple::SimpleReader;
use super::word::ReadWord;
use super::{ReadContext, ShellSyntax};

/// The most letters of a cluster that are flags of a program without a table.
const CLUSTER: usize = 8;

/// The effect of the last flag of a word.
#[derive(Clone, Copy, Debug)]
pub(super) enum FlagEffect {
    /// None beyond the layer.
    None,
    /// The value of this kind is attached, from this position of the word on.
    Attached(OptionKind, usize),
    /// The words from here on are a script.
    Rest,
}

impl CommandLayer {
    /// Returns the kind and the spelling of a known option. A long option may be abbreviated if no other one begins
    /// with the same letters.
    fn option(&self, flag: &[u8], ignore_case: bool) -> Option<(&'static str, OptionKind)> {
        let tables = [
            self.subcommand.map_or("", |spec| spec.options),
            self.spec.map_or("", |spec| spec.options),
        ];
        let all = || tables.into_iter().flat_map(options_of);
        let equal = |name: &str| match ignore_case {
            true => name.as_bytes().eq_ignore_ascii_case(flag),
            false => name.as_bytes() == flag,
        };
        if let Some(exact) = all().find(|(name, _)| equal(name)) {
            return Some(exact);
        }
        let abbreviates = |name: &str| {
            let Some(start) = name.as_bytes().get(..flag.len()) else {
                return false;
            };
            match ignore_case {
                true => start.eq_ignore_ascii_case(flag),
                false => start == flag && flag.len() > 2 && flag.starts_with(b"--"),
            }
        };
        if !self.spec.is_some_and(ProgramSpec::reads_abbreviations) {
            return None;
        }
        // The options of a program are not those of its subcommands.
        tables.into_iter().find_map(|table| {
            let mut matching = options_of(table).filter(|(name, _)| abbreviates(name));
            let first = matching.next()?;
            Some(matching.all(|other| other.0 == first.0).then_some(first))
        })?
    }

    /// Reads a word as flags. Returns `None` if it is an operand.
    pub(super) fn read_flag<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        cx: &mut ReadContext<'_, S>,
    ) -> Option<FlagEffect> {
        let text = word.bytes();
        let style = self.spec.map_or(FlagStyle::Gnu, |spec| spec.style);
        let is_env = self.spec.is_some_and(|spec| spec.names.contains(&"env"));
        if is_env && text == b"-" && !self.flags_ended {
            return Some(self.report(word, b"-i", None, cx));
        }
        if self.flags_ended || text.len() < 2 || self.writes(text) {
            return None;
        }
        let shell = self.action == ProgramAction::Shell;
        match (text[0], style) {
            (b'/', FlagStyle::Cmd) if text.len() == 2 || text.get(2) == Some(&b':') => {
                let name = [b'/', text[1].to_ascii_lowercase()];
                Some(self.report(word, &name, None, cx))
            }
            (b'-', FlagStyle::Cmd | FlagStyle::PowerShell) if text[1].is_ascii_alphabetic() => {
                Some(self.read_word_flag(word, b':', cx))
            }
            (b'-', FlagStyle::Words) if text != b"--" => Some(self.read_word_flag(word, b'=', cx)),
            // `cargo +nightly` names a toolchain.
            (b'+', _) if shell || self.names_toolchain() => Some(self.report(word, text, None, cx)),
            (b'-', _) if text == b"--" => {
                self.flags_ended = true;
                if self.action == ProgramAction::AfterSeparator {
                    self.action = ProgramAction::Words { operands: 0 };
                }
                self.emit(word, WordRole::Separator, cx);
                Some(FlagEffect::None)
            }
            (b'-', _) if text[1] == b'-' => Some(self.read_word_flag(word, b'=', cx)),
            (b'-', _) if text[1..].iter().all(|byte| byte.is_ascii_digit()) => {
                Some(self.report(word, text, None, cx))
            }
            (b'-', _) => Some(self.read_cluster(word, 1, cx)),
            _ => None,
        }
    }

    /// Returns true if a word that begins with `+` names a toolchain here.
    fn names_toolchain(&self) -> bool {
        let is_proxy = self.spec.is_some_and(|spec| spec.names.contains(&"cargo"));
        is_proxy && self.is_first_argument()
    }

    /// Returns true if the word begins with a dash and is written by `echo` all the same.
    fn writes(&self, text: &[u8]) -> bool {
        self.action == ProgramAction::Echo && !text[1..].iter().all(|byte| b"neEv".contains(byte))
    }

    /// Reads `--name`, `--name=value` and their likes.
    fn read_word_flag<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        separator: u8,
        cx: &mut ReadContext<'_, S>,
    ) -> FlagEffect {
        let text = word.bytes();
        let end = text.iter().position(|&byte| byte == separator);
        let name = &text[..end.unwrap_or(text.len())];
        let value = end.map(|end| end + 1);
        self.report(word, name, value, cx)
    }

    /// Returns true if the word is a cluster of flags without a dash, as in `tar xzf`.
    pub(super) fn reads_bundle(&self, word: &ReadWord<'_>) -> bool {
        let text = word.bytes();
        self.spec.is_some_and(|spec| spec.names.contains(&"tar"))
            && !text.is_empty()
            && text.iter().all(u8::is_ascii_alphabetic)
    }

    /// Reads `-abc`: letters from the byte `at` on, of which the first with a value takes the rest of the word.
    pub(super) fn read_cluster<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        mut at: usize,
        cx: &mut ReadContext<'_, S>,
    ) -> FlagEffect {
        let text = word.bytes();
        let is_table = self.spec.is_some();
        let is_getopt = self.spec.is_some_and(ProgramSpec::reads_abbreviations);
        let whole = self.option(text, false).is_some();
        let letters = text[1..].iter().all(u8::is_ascii_alphanumeric);
        if whole || !is_table && (text.len() > CLUSTER + 1 || !letters) {
            return self.report(word, text, None, cx);
        }
        if !is_table && text.len() > 2 {
            self.report(word, text, None, cx);
        }
        while at < text.len() {
            let name = [b'-', text[at]];
            at += 1;
            let kind = self
                .option(&name, false)
                .map_or(OptionKind::Flag, |(_, kind)| kind);
            let has_value = matches!(
                kind,
                OptionKind::Value
                    | OptionKind::Optional
                    | OptionKind::Script
                    | OptionKind::Code
                    | OptionKind::Setting
            );
            // With getopt, a `=` after the letter is part of its value (`sort -t=`).
            let value = match text.get(at) {
                Some(b'=') if !(has_value && is_getopt) => Some(at + 1),
                Some(_) if has_value => Some(at),
                _ => None,
            };
            let effect = self.report(word, &name, value, cx);
            if value.is_some() || !matches!(effect, FlagEffect::None) {
                return effect;
            }
        }
        FlagEffect::None
    }

    /// Reports a flag, whose value begins at `value` in the word, and applies it.
    fn report<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        name: &[u8],
        value: Option<usize>,
        cx: &mut ReadContext<'_, S>,
    ) -> FlagEffect {
        let windows = self.is_windows();
        let known = self.option(name, windows);
        let (name, kind) = match known {
            Some((name, kind)) => (name.as_bytes(), kind),
            None => (name, OptionKind::Flag),
        };
        let text = value.map(|at| &word.bytes()[at..]);
        self.emit(word, WordRole::Flag { name, value: text }, cx);
        if text.is_none() && kind.takes_word() {
            self.awaiting = known;
        }
        self.apply(name, kind, value, cx)
    }

    fn apply<S: CommandSink>(
        &mut self,
        name: &[u8],
        kind: OptionKind,
        value: Option<usize>,
        cx: &mut ReadContext<'_, S>,
    ) -> FlagEffect {
        // `runuser` has the user as its first operand, unless an option names it.
        let is_runuser = self.spec.is_some_and(|spec| spec.names == ["runuser"]);
        if is_runuser && matches!(name, b"-u" | b"--user") {
            self.action = ProgramAction::Words { operands: 0 };
        }
        let is_env = self.spec.is_some_and(|spec| spec.names.contains(&"env"));
        match name {
            b"-i" | b"--ignore-environment" if is_env => {
                self.wrapping = Wrapping::ClearsEnvironment;
            }
            b"-I" | b"-i" | b"-J" | b"--replace" if self.is_xargs() => {
                self.wrapping = Wrapping::ReplacesWords;
            }
            _ => {}
        }
        if let Some(StdinShell::WithFlag(flags)) = self.spec.map(|spec| spec.stdin_shell)
            && flags.split(' ').any(|flag| flag.as_bytes() == name)
        {
            self.set_input(LayerInput::ExplicitStdin);
        }
        match kind {
            OptionKind::Flag | OptionKind::Optional if self.action == ProgramAction::Shell => {
                match name {
                    b"-c" => self.set_input(LayerInput::NextOperand),
                    b"-s" => self.set_input(LayerInput::ExplicitStdin),
                    _ => {}
                }
                FlagEffect::None
            }
            OptionKind::Flag | OptionKind::Optional => FlagEffect::None,
            OptionKind::Inert => {
                self.set_input(LayerInput::Inert);
                FlagEffect::None
            }
            OptionKind::Command => {
                self.expect_command();
                FlagEffect::None
            }
            OptionKind::Rest => FlagEffect::Rest,
            OptionKind::Value
            | OptionKind::Script
            | OptionKind::Code
            | OptionKind::Pair
            | OptionKind::Setting => {
                // The module that `python -m` runs, or the file of `-f`, replaces the standard input. `-cmd` of sqlite3 comes
                // before it.
                if kind == OptionKind::Code && name != b"-cmd"
                    || matches!(
                        name,
                        b"-m" | b"-f" | b"--file" | b"-File" | b"-EncodedCommand" | b"-ec"
                    )
                {
                    self.set_input(LayerInput::Other);
                }
                let is_unreadable = matches!(name, b"-EncodedCommand" | b"-ec")
                    || name == b"-e" && self.script_syntax() == ShellSyntax::PowerShell;
                cx.counters().unreadable += u64::from(is_unreadable);
                if name == b"-m" && self.action == ProgramAction::Interpreter {
                    self.flags_ended = value.is_some();
                }
                value.map_or(FlagEffect::None, |at| FlagEffect::Attached(kind, at))
            }
        }
    }
}

impl SimpleReader {
    /// Applies a flag: reads its attached value, or begins the script that the words from here on are.
    pub(super) fn read_flag_value<S: CommandSink>(
        &mut self,
        word: &ReadWord<'_>,
        effect: FlagEffect,
        (_, level): (ShellSyntax, usize),
        cx: &mut ReadContext<'_, S>,
    ) {
        let stdin = self.stdin;
        let Some(layer) = self.layers.last_mut() else {
            return;
        };
        match effect {
            FlagEffect::Attached(
                kind @ (OptionKind::Script | OptionKind::Code | OptionKind::Setting),
                mut at,
            ) => {
                if kind == OptionKind::Setting {
                    let Some(script) = setting_script(&word.bytes()[at..]) else {
                        return;
                    };
                    at += script;
                }
                let text = word.text.slice(at, word.text.len());
                if kind == OptionKind::Code {
                    let language = layer.spec.map_or("", |spec| spec.language);
                    let id = layer.id;
                    return self.run_code(&text, id, language, (level, &stdin), cx);
                }
                let (id, syntax) = (layer.id, layer.script_syntax());
                layer.names_command();
                let streams = run_script(&text, (syntax, level), id, &stdin, cx);
                self.add_streams(streams);
            }
            FlagEffect::Rest => {
                layer.set_input(LayerInput::Other);
                let syntax = layer.script_syntax();
                layer.begin_script(syntax, level, &stdin, cx);
            }
            FlagEffect::Attached(..) | FlagEffect::None => {}
        }
    }
}

/// The beginnings of a command of a debugger, an editor or `tar` that runs the rest in a shell.
const SHELL_ESCAPES: [&[u8]; 5] = [b"shell ", b"platform shell ", b"!", b":!", b"exec="];

/// The ends of names of settings of git whose values are scripts.
const SCRIPT_SETTINGS: [&[u8]; 10] = [
    b"command",
    b".pager",
    b".editor",
    b".external",
    b".textconv",
    b".cmd",
    b".driver",
    b".clean",
    b".smudge",
    b".fsmonitor",
];

/// Returns the start of the script in a setting whose value is one: `ProxyCommand=…`, `core.pager=…`, `alias.a=!…`,
/// `shell …` of gdb, `:!…` of vim, `exec=…` of tar.
pub(super) fn setting_script(setting: &[u8]) -> Option<usize> {
    let escape = SHELL_ESCAPES.iter().find(|it| setting.starts_with(it));
    if let Some(escape) = escape {
        return Some(escape.len());
    }
    let end = setting
        .iter()
        .position(|&byte| byte == b'=' || byte == b' ')?;
    let (name, value) = (&setting[..end], &setting[end + 1..]);
    let is_script = |end: &&[u8]| {
        let suffix = name.len().saturating_sub(end.len());
        name[suffix..].eq_ignore_ascii_case(end)
    };
    if SCRIPT_SETTINGS.iter().any(is_script) {
        return Some(end + 1);
    }
    value.starts_with(b"!").then_some(end + 2)
}
