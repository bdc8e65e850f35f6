//! The files that the words of a command name, for programs that differ from most.

/// Programs whose operands are not the names of files whose content they pass on.
const INERT: [&[u8]; 20] = [
    b"echo",
    b"printf",
    b"rm",
    b"rmdir",
    b"unlink",
    b"ls",
    b"mkdir",
    b"touch",
    b"chmod",
    b"chown",
    b"test",
    b"[",
    b"[[",
    b"cd",
    b"export",
    b"stat",
    b"find",
    b"which",
    b"basename",
    b"dirname",
];

/// Programs whose operands are URLs, and whose flags name files after `@`.
const FETCHING: [&[u8]; 4] = [b"curl", b"wget", b"http", b"xh"];

/// The flags of those programs whose value is the name of a file that is sent.
const SENT_FILE: [&[u8]; 5] = [
    b"-T",
    b"--upload-file",
    b"--post-file",
    b"--body-file",
    b"--json-file",
];

/// Returns true if the operands of the program may be files whose content it passes on.
///
/// # Example: `cat` writes a file, `echo` its name
///
/// ```
/// use ttsr_views::command::files;
///
/// assert!(files::passes_operands(b"cat"));
/// assert!(!files::passes_operands(b"echo"));
/// ```
pub fn passes_operands(program: &[u8]) -> bool {
    !INERT.contains(&program)
}

/// Returns true if the operands of the program are URLs, and its flags name files after `@`.
pub fn fetches(program: &[u8]) -> bool {
    FETCHING.contains(&program)
}

/// Returns true if the value of that flag of such a program is the name of a file that is sent.
pub fn is_sent(flag: &[u8]) -> bool {
    SENT_FILE.contains(&flag)
}
