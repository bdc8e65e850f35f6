//! Functions and operators of languages that run commands. Sources: the references of Python 3.13, Node.js 23, execa 9,
//! Perl 5.40, Ruby 3.4, PHP 8.4, gawk 5.3, Lua 5.4 and R 4.4.

/// The syntax of a language, as far as it is needed to find the commands that its code runs.
#[derive(Debug)]
pub(in super::super) struct CodeSyntax {
    /// The language, as the tables of programs name it.
    pub(in super::super) names: &'static [&'static str],
    /// The beginnings of comments up to the end of the line.
    pub(in super::super) comments: &'static [&'static str],
    /// True if `/* … */` is a comment.
    pub(in super::super) has_block_comments: bool,
    /// The quotes of strings, besides backquotes.
    pub(in super::super) quotes: &'static [u8],
    pub(in super::super) backquotes: Backquotes,
    /// The texts that begin an expansion in a string with double quotes.
    pub(in super::super) expansions: &'static [&'static str],
    /// True if a string may go on in the next line.
    pub(in super::super) has_long_strings: bool,
    /// The operator that joins two strings.
    pub(in super::super) joins: &'static str,
    /// True if the arguments of a function need no parentheses.
    pub(in super::super) has_bare_calls: bool,
    /// The names of functions, separated by blanks, by their arguments.
    pub(in super::super) functions: &'static [(&'static str, CallForm)],
}

/// The meaning of backquotes in a language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Backquotes {
    /// None.
    None,
    /// A string in which `${` begins an expansion.
    String,
    /// A command.
    Command,
}

/// The arguments of a function that runs a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum CallForm {
    /// The first argument is a script.
    Script,
    /// One argument is a script; several are the words of a command.
    ScriptOrWords,
    /// A list of the words of a command, or a program; with `shell=True` a script.
    WordList,
    /// A program, and a list of its arguments; with `shell: true` a script.
    ProgramAndList,
    /// A program, its name, and its arguments; the last two as one list or one by one.
    ProgramAndNamedWords,
}

pub(in super::super) const LANGUAGES: &[CodeSyntax] = &[
    CodeSyntax {
        names: &["python"],
        comments: &["#"],
        has_block_comments: false,
        quotes: b"'\"",
        backquotes: Backquotes::None,
        expansions: &[],
        has_long_strings: false,
        joins: "+",
        has_bare_calls: false,
        functions: &[
            (
                "os.system system os.popen popen subprocess.getoutput getoutput subprocess.getstatusoutput getstatusoutput \
                asyncio.create_subprocess_shell create_subprocess_shell",
                CallForm::Script,
            ),
            (
                "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen sp.run sp.call \
                sp.check_call sp.check_output sp.Popen check_call check_output Popen pty.spawn",
                CallForm::WordList,
            ),
            (
                "os.execv os.execvp os.execve os.execvpe os.execl os.execlp os.posix_spawn os.posix_spawnp",
                CallForm::ProgramAndNamedWords,
            ),
        ],
    },
    CodeSyntax {
        names: &["javascript", "typescript"],
        comments: &["//"],
        has_block_comments: true,
        quotes: b"'\"",
        backquotes: Backquotes::String,
        expansions: &[],
        has_long_strings: false,
        joins: "+",
        has_bare_calls: false,
        functions: &[
            (
                "exec execSync child_process.exec child_process.execSync childProcess.exec childProcess.execSync cp.exec \
                cp.execSync execaCommand execaCommandSync shell.exec",
                CallForm::Script,
            ),
            (
                "spawn spawnSync execFile execFileSync child_process.spawn child_process.spawnSync child_process.execFile \
                child_process.execFileSync childProcess.spawn childProcess.spawnSync childProcess.execFile \
                childProcess.execFileSync cp.spawn cp.spawnSync cp.execFile cp.execFileSync execa execaSync",
                CallForm::ProgramAndList,
            ),
        ],
    },
    CodeSyntax {
        names: &["perl"],
        comments: &["#"],
        has_block_comments: false,
        quotes: b"'\"",
        backquotes: Backquotes::Command,
        expansions: &["$", "@"],
        has_long_strings: true,
        joins: ".",
        has_bare_calls: true,
        functions: &[
            (
                "system exec CORE::system CORE::exec",
                CallForm::ScriptOrWords,
            ),
            ("readpipe qx", CallForm::Script),
        ],
    },
    CodeSyntax {
        names: &["ruby"],
        comments: &["#"],
        has_block_comments: false,
        quotes: b"'\"",
        backquotes: Backquotes::Command,
        expansions: &["#{", "#$", "#@"],
        has_long_strings: true,
        joins: "+",
        has_bare_calls: true,
        functions: &[(
            "system exec spawn Kernel.system Kernel.exec Kernel.spawn Process.spawn IO.popen Open3.capture2 Open3.capture2e \
            Open3.capture3 Open3.popen2 Open3.popen2e Open3.popen3 PTY.spawn",
            CallForm::ScriptOrWords,
        )],
    },
    CodeSyntax {
        names: &["php"],
        comments: &["#", "//"],
        has_block_comments: true,
        quotes: b"'\"",
        backquotes: Backquotes::Command,
        expansions: &["$", "{$"],
        has_long_strings: true,
        joins: ".",
        has_bare_calls: false,
        functions: &[(
            "system exec shell_exec passthru popen proc_open",
            CallForm::Script,
        )],
    },
    CodeSyntax {
        names: &["awk"],
        comments: &["#"],
        has_block_comments: false,
        quotes: b"\"",
        backquotes: Backquotes::None,
        expansions: &[],
        has_long_strings: false,
        joins: "",
        has_bare_calls: false,
        functions: &[("system", CallForm::Script)],
    },
    CodeSyntax {
        names: &["lua"],
        comments: &["--"],
        has_block_comments: false,
        quotes: b"'\"",
        backquotes: Backquotes::None,
        expansions: &[],
        has_long_strings: false,
        joins: "..",
        has_bare_calls: true,
        functions: &[("os.execute io.popen", CallForm::Script)],
    },
    CodeSyntax {
        names: &["r"],
        comments: &["#"],
        has_block_comments: false,
        quotes: b"'\"",
        backquotes: Backquotes::None,
        expansions: &[],
        has_long_strings: true,
        joins: "",
        has_bare_calls: false,
        functions: &[("system base::system shell", CallForm::Script)],
    },
];

/// Returns the syntax of a language, if its code is searched for commands.
pub(in super::super) fn code_syntax(language: &str) -> Option<&'static CodeSyntax> {
    LANGUAGES
        .iter()
        .find(|syntax| syntax.names.contains(&language))
}
