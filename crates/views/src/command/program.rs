//! The tables of programs: their options, their subcommands, and the words that they run as commands or code.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::programs::FAMILIES;

/// A program in the tables.
#[derive(Debug)]
pub struct ProgramSpec {
    /// The names of the program.
    pub names: &'static [&'static str],
    /// The syntax of its flags.
    pub style: FlagStyle,
    /// The language of the code that the program runs; empty if it runs none.
    pub(super) language: &'static str,
    pub(super) action: ProgramAction,
    /// The options, separated by blanks. A suffix gives the kind: see [`OptionKind`].
    pub(super) options: &'static str,
    /// The subcommands that have subcommands; `*` if all have them but those in the table, `**` if any number of words
    /// precedes a verb.
    pub(super) groups: &'static str,
    pub(super) subcommands: &'static [SubcommandSpec],
    pub(super) stdin_shell: StdinShell,
}

/// The cases in which a program runs its standard input in a shell. It never does if its words name a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StdinShell {
    /// Never.
    Never,
    /// With one of these flags, which are separated by blanks.
    WithFlag(&'static str),
    /// Always.
    Always,
}

/// A subcommand in the tables.
#[derive(Debug)]
pub struct SubcommandSpec {
    /// The names, separated by blanks: `push`, `container rm`.
    pub name: &'static str,
    pub(super) options: &'static str,
    pub(super) action: ProgramAction,
}

/// The syntax of the flags of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagStyle {
    /// Clusters of letters after one dash; abbreviated words after two.
    Gnu,
    /// Words after one dash, as in `find -delete` and `terraform apply -auto-approve`.
    Words,
    /// Words after one dash, abbreviated and without regard to case, as in `Remove-Item -Rec`.
    PowerShell,
    /// Letters after a slash, as in `del /s`.
    Cmd,
}

/// The words that a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProgramAction {
    /// None.
    None,
    /// The words after its own operands, as a command.
    Words { operands: u32 },
    /// The words after its own operands, joined by blanks, as a script.
    Joined { operands: u32 },
    /// The first operand, as a script.
    FirstOperand,
    /// Each operand, as a script.
    EachOperand,
    /// Its operands are addresses of `socat`, some of which are scripts: `EXEC:…`.
    SocketAddresses,
    /// The words after `--`, as a command.
    AfterSeparator,
    /// A script: the first operand after `-c`, or its standard input.
    Shell,
    /// Code: its standard input if there is neither a file nor an option with code.
    Interpreter,
    /// Code: its standard input if there is no option with code. Its operands name databases and the like.
    Client,
    /// Code: the operand with this index.
    CodeOperand { operands: u32 },
    /// The file that is its first operand.
    Source,
    /// Its operands are assignments.
    Assignments,
    /// It writes its operands: `echo`.
    Echo,
    /// It changes the working directory to its first operand: `cd`. Without an operand to the home directory, if `to_home`.
    ChangeDirectory { to_home: bool },
}

/// The kind of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OptionKind {
    /// Has no value.
    Flag,
    /// `=`: has a value, attached or as the next word.
    Value,
    /// `?`: has an attached value or none.
    Optional,
    /// `$`: has a value that is a script.
    Script,
    /// `@`: has a value that is code in the language of the program.
    Code,
    /// `!`: the words up to `;` or `+` are a command.
    Command,
    /// `~`: the program only prints or checks, and runs nothing.
    Inert,
    /// `&`: the rest of the words, joined by blanks, is a script in the syntax of the program.
    Rest,
    /// `%`: has two values, as the next words.
    Pair,
    /// `#`: has a setting as its value, `NAME=value`. That of a command is a script: `ssh -o ProxyCommand=…`.
    Setting,
}

impl OptionKind {
    /// Returns true if the next word is the value of the option, unless a value is attached to it.
    pub(super) fn takes_word(self) -> bool {
        matches!(
            self,
            OptionKind::Value
                | OptionKind::Script
                | OptionKind::Code
                | OptionKind::Pair
                | OptionKind::Setting
        )
    }
}

impl ProgramSpec {
    /// Returns a program with GNU flags that runs none of its words.
    pub(super) const fn new(names: &'static [&'static str], options: &'static str) -> ProgramSpec {
        ProgramSpec {
            names,
            style: FlagStyle::Gnu,
            language: "",
            action: ProgramAction::None,
            options,
            groups: "",
            subcommands: &[],
            stdin_shell: StdinShell::Never,
        }
    }

    /// Sets the cases in which the program runs its standard input in a shell.
    pub(super) const fn stdin_shell(mut self, stdin_shell: StdinShell) -> ProgramSpec {
        self.stdin_shell = stdin_shell;
        self
    }

    pub(super) const fn style(mut self, style: FlagStyle) -> ProgramSpec {
        self.style = style;
        self
    }

    pub(super) const fn action(mut self, action: ProgramAction) -> ProgramSpec {
        self.action = action;
        self
    }

    /// Sets the number of operands before the command that the program runs.
    pub(super) const fn runs(self, operands: u32) -> ProgramSpec {
        self.action(ProgramAction::Words { operands })
    }

    /// Sets the number of operands before the words that the program joins to a script.
    pub(super) const fn joins(self, operands: u32) -> ProgramSpec {
        self.action(ProgramAction::Joined { operands })
    }

    /// Makes the program an interpreter of a language.
    pub(super) const fn interprets(mut self, language: &'static str) -> ProgramSpec {
        self.language = language;
        self.action(ProgramAction::Interpreter)
    }

    /// Makes the program a client of a server that runs statements in a language.
    pub(super) const fn queries(mut self, language: &'static str) -> ProgramSpec {
        self.language = language;
        self.action(ProgramAction::Client)
    }

    pub(super) const fn language(mut self, language: &'static str) -> ProgramSpec {
        self.language = language;
        self
    }

    pub(super) const fn groups(mut self, groups: &'static str) -> ProgramSpec {
        self.groups = groups;
        self
    }

    pub(super) const fn subcommands(
        mut self,
        subcommands: &'static [SubcommandSpec],
    ) -> ProgramSpec {
        self.subcommands = subcommands;
        self
    }

    /// Returns the subcommand with these names, separated by blanks.
    pub(super) fn subcommand(&self, name: &[u8]) -> Option<&'static SubcommandSpec> {
        let subcommands: &'static [SubcommandSpec] = self.subcommands;
        subcommands.iter().find(|spec| spec.name.as_bytes() == name)
    }

    /// Returns true if the words so far are a subcommand that has subcommands.
    pub(super) fn is_group(&self, path: &[u8], words: usize) -> bool {
        match self.groups {
            "*" => words < 2 && self.subcommand(path).is_none(),
            "**" => words < 6 && !is_verb(path.rsplit(|&byte| byte == b' ').next().unwrap_or(path)),
            groups => groups.split(' ').any(|group| group.as_bytes() == path),
        }
    }

    /// Returns true if the program accepts abbreviated flags: those with getopt_long, git and PowerShell do, other
    /// programs with subcommands do not.
    pub(super) fn reads_abbreviations(&self) -> bool {
        let words = matches!(self.style, FlagStyle::Words | FlagStyle::Cmd);
        !words && (!self.has_subcommands() || self.names == ["git"])
    }

    /// Returns true if the program has subcommands.
    pub(super) fn has_subcommands(&self) -> bool {
        !self.subcommands.is_empty() || !self.groups.is_empty()
    }

    /// Returns true if the table knows the flag (`-f`, `--force`) for the program or the subcommand, whose names are
    /// separated by blanks. Returns `None` if the table does not know the subcommand, or no options at all.
    ///
    /// # Example: options of one subcommand
    ///
    /// ```
    /// use ttsr_views::command::program_spec;
    ///
    /// let git = program_spec(b"git").unwrap();
    /// assert_eq!(git.has_flag("push", "--force"), Some(true));
    /// assert_eq!(git.has_flag("push", "--recursive"), Some(false));
    /// assert_eq!(git.has_flag("no-such-subcommand", "--force"), None);
    /// ```
    pub fn has_flag(&self, subcommand: &str, flag: &str) -> Option<bool> {
        let spec = match subcommand {
            "" => None,
            name => Some(self.subcommand(name.as_bytes())?),
        };
        let options = [spec.map_or("", |spec| spec.options), self.options];
        let known = |(name, _): (&str, OptionKind)| name == flag;
        let is_empty = options.iter().all(|options| options.is_empty());
        (!is_empty).then(|| options.into_iter().flat_map(options_of).any(known))
    }
}

impl ProgramSpec {
    /// Returns true if the program, with a subcommand whose names are separated by blanks, can run code that
    /// [`CommandEvent::Code`](super::CommandEvent::Code) reports. The scripts of shells are commands and not code.
    ///
    /// # Example: an interpreter, a shell and a subcommand
    ///
    /// ```
    /// use ttsr_views::command::program_spec;
    ///
    /// assert!(program_spec(b"python3").unwrap().runs_code(""));
    /// assert!(!program_spec(b"bash").unwrap().runs_code(""));
    /// assert!(program_spec(b"deno").unwrap().runs_code("eval"));
    /// assert!(!program_spec(b"deno").unwrap().runs_code("run"));
    /// ```
    pub fn runs_code(&self, subcommand: &str) -> bool {
        let of_options = |options| options_of(options).any(|(_, kind)| kind == OptionKind::Code);
        let of_subcommand =
            |spec: &SubcommandSpec| of_options(spec.options) || spec.action.runs_code();
        let is_powershell = self.language == "powershell";
        let own = of_options(self.options) || self.action.runs_code() || is_powershell;
        match subcommand {
            "" => own || self.subcommands.iter().any(of_subcommand),
            name => {
                let spec = self.subcommand(name.as_bytes());
                // The subcommands of a group are not in the table.
                own || spec.is_none_or(of_subcommand)
            }
        }
    }
}

impl ProgramAction {
    /// Returns true if the program runs code besides the values of its options.
    fn runs_code(self) -> bool {
        matches!(
            self,
            ProgramAction::Interpreter | ProgramAction::Client | ProgramAction::CodeOperand { .. }
        )
    }
}

impl SubcommandSpec {
    /// Returns a subcommand that runs none of its words.
    pub(super) const fn new(name: &'static str, options: &'static str) -> SubcommandSpec {
        SubcommandSpec {
            name,
            options,
            action: ProgramAction::None,
        }
    }

    /// Returns a subcommand that runs the words after `operands` operands.
    pub(super) const fn runs(
        name: &'static str,
        operands: u32,
        options: &'static str,
    ) -> SubcommandSpec {
        SubcommandSpec {
            name,
            options,
            action: ProgramAction::Words { operands },
        }
    }
}

/// Returns true if a word ends the subcommands of `gcloud` and `az`.
fn is_verb(word: &[u8]) -> bool {
    let verbs = "create delete list describe update show start stop restart reset add remove set get get-iam-policy \
                 set-iam-policy add-iam-policy-binding remove-iam-policy-binding deploy disable enable undelete \
                 submit read ssh scp tail patch import export purge deallocate login logout run call cp mv rm ls \
                 rsync sync upload download init info version abandon destroy rollback suspend resume resize move \
                 attach detach drain cancel revoke failover restore recreate rolling-action";
    verbs
        .split_ascii_whitespace()
        .any(|verb| verb.as_bytes() == word)
}

/// Returns the options of a table with their kinds.
pub(super) fn options_of(
    options: &'static str,
) -> impl Iterator<Item = (&'static str, OptionKind)> {
    options.split_ascii_whitespace().map(|option| {
        let (name, suffix) = option.split_at(option.len() - 1);
        let kind = match suffix {
            "=" => OptionKind::Value,
            "?" if name.len() > 1 => OptionKind::Optional,
            "$" => OptionKind::Script,
            "@" => OptionKind::Code,
            "!" => OptionKind::Command,
            "~" => OptionKind::Inert,
            "&" => OptionKind::Rest,
            "%" => OptionKind::Pair,
            "#" if name.len() > 1 => OptionKind::Setting,
            _ => return (option, OptionKind::Flag),
        };
        (name, kind)
    })
}

/// Returns the program with this base name. A version at the end, as in `python3.12`, is ignored.
pub fn program_spec(name: &[u8]) -> Option<&'static ProgramSpec> {
    let exact = INDEX.posix.get(name).copied();
    exact.or_else(|| {
        let version = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
        let digits = name.iter().rev().take_while(|byte| version(byte)).count();
        let stem = &name[..name.len() - digits];
        let stem = stem.strip_suffix(b"-").unwrap_or(stem);
        (digits > 0 && !stem.is_empty())
            .then(|| INDEX.posix.get(stem).copied())
            .flatten()
    })
}

/// Returns the PowerShell command or alias, or the command of `cmd.exe`, with this name, without regard to case.
pub(super) fn windows_spec(name: &[u8]) -> Option<&'static ProgramSpec> {
    let mut buffer = [0; LONGEST];
    let lower = buffer.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    INDEX.windows.get(&*lower).copied()
}

/// A bound on the bytes of the name of a program of Windows in the tables.
const LONGEST: usize = 64;

/// The programs of the tables by name. Of several with one name, the first one counts.
struct ProgramIndex {
    posix: HashMap<&'static [u8], &'static ProgramSpec>,
    /// The names are in lower case.
    windows: HashMap<Vec<u8>, &'static ProgramSpec>,
}

// PERF: a search of the tables for the name of each program was 5 % of the instructions of the default packs on tool input
// (`cargo bench --bench shipped -- "tool input"`).
static INDEX: LazyLock<ProgramIndex> = LazyLock::new(|| {
    let mut index = ProgramIndex {
        posix: HashMap::new(),
        windows: HashMap::new(),
    };
    for spec in FAMILIES.iter().flat_map(|family| family.iter()) {
        let is_windows = matches!(spec.style, FlagStyle::PowerShell | FlagStyle::Cmd);
        for name in spec.names {
            if is_windows {
                let lower = name.to_ascii_lowercase().into_bytes();
                index.windows.entry(lower).or_insert(spec);
            } else {
                index.posix.entry(name.as_bytes()).or_insert(spec);
            }
        }
    }
    index
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_windows_fit_into_the_buffer_of_a_lookup() {
        let longest = INDEX.windows.keys().map(Vec::len).max();
        assert!(longest.is_some_and(|longest| longest <= LONGEST));
        let spec = windows_spec(b"REMOVE-ITEM").unwrap();
        assert!(spec.names.contains(&"Remove-Item"), "{spec:?}");
        assert!(windows_spec(&[b'a'; LONGEST + 1]).is_none());
    }
}
