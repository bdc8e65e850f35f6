//! Variables of the environment whose values programs run. Sources: the manuals of git 2.47, less 668, man-db 2.13,
//! bash 5.2, dash 0.5 and xdg-open 1.2.

/// The way in which programs run the value of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum VariableUse {
    /// As a script. That of a filter of `less` follows `|`, `||` or `|-`.
    Script,
    /// As the name of a file that a shell reads before its own script. It is expanded like a word.
    SourcedFile,
}

/// The variables by their use, separated by blanks.
const VARIABLES: [(&str, VariableUse); 2] = [
    (
        "GIT_EDITOR GIT_SEQUENCE_EDITOR GIT_PAGER GIT_SSH_COMMAND GIT_SSH GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND \
        SSH_ASKPASS SUDO_ASKPASS EDITOR VISUAL SUDO_EDITOR PAGER MANPAGER SYSTEMD_PAGER PSQL_PAGER BROWSER LESSOPEN LESSCLOSE \
        PROMPT_COMMAND",
        VariableUse::Script,
    ),
    ("BASH_ENV ENV", VariableUse::SourcedFile),
];

/// Returns the way in which programs run the value of the variable, if they do.
pub(in super::super) fn variable_use(name: &[u8]) -> Option<VariableUse> {
    let is_listed = |names: &str| {
        names
            .split_ascii_whitespace()
            .any(|it| it.as_bytes() == name)
    };
    let found = VARIABLES.iter().find(|(names, _)| is_listed(names))?;
    Some(found.1)
}
