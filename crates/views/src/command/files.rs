//! The files that the words of a command name, for programs that differ from most.

/// Programs that do not read the files that their operands name.
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

/// Programs that log in with the files that they read, and write something else.
const AUTHENTICATING: [&[u8]; 40] = [
    b"ssh",
    b"sshpass",
    b"ssh-add",
    b"ssh-keygen",
    b"ssh-keyscan",
    b"ssh-copy-id",
    b"git",
    b"gh",
    b"glab",
    b"kubectl",
    b"oc",
    b"helm",
    b"aws",
    b"gcloud",
    b"gsutil",
    b"az",
    b"docker",
    b"podman",
    b"terraform",
    b"tofu",
    b"pulumi",
    b"ansible",
    b"ansible-playbook",
    b"psql",
    b"pg_dump",
    b"mysql",
    b"mysqldump",
    b"mongosh",
    b"redis-cli",
    b"npm",
    b"yarn",
    b"pnpm",
    b"pip",
    b"cargo",
    b"curl",
    b"wget",
    b"http",
    b"xh",
    b"openssl",
    b"vault",
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

/// Returns true if the operands of the program may be files whose content it reads.
pub fn reads_operands(program: &[u8]) -> bool {
    !INERT.contains(&program)
}

/// Returns true if the operands of the program may be files whose content it passes on.
///
/// # Example: `cat` writes a file, `echo` its name, `ssh` neither
///
/// ```
/// use ttsr_views::command::files;
///
/// assert!(files::passes_operands(b"cat"));
/// assert!(!files::passes_operands(b"echo"));
/// assert!(!files::passes_operands(b"ssh"));
/// ```
pub fn passes_operands(program: &[u8]) -> bool {
    reads_operands(program) && !AUTHENTICATING.contains(&program)
}

/// The operands of a program that name files which it writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum WrittenOperands {
    /// None of them.
    #[default]
    None,
    /// All of them, as those of `tee`.
    All,
    /// The first one, as that of `zip`.
    First,
    /// The last one, as that of `cp`.
    Last,
    /// The one after `of=`, as that of `dd`.
    Assigned,
}

/// Returns the operands of the program that name files which it writes. What it writes comes from its other operands and
/// from its standard input.
///
/// # Example: the targets of `cp` and `tee`
///
/// ```
/// use ttsr_views::command::files::{WrittenOperands, written_operands};
///
/// assert_eq!(written_operands(b"cp"), WrittenOperands::Last);
/// assert_eq!(written_operands(b"tee"), WrittenOperands::All);
/// assert_eq!(written_operands(b"cat"), WrittenOperands::None);
/// ```
pub fn written_operands(program: &[u8]) -> WrittenOperands {
    match program {
        b"cp" | b"gcp" | b"mv" | b"gmv" | b"ln" | b"link" | b"install" | b"rsync" | b"scp" => {
            WrittenOperands::Last
        }
        b"tee" | b"sponge" => WrittenOperands::All,
        b"zip" => WrittenOperands::First,
        b"dd" => WrittenOperands::Assigned,
        _ => WrittenOperands::None,
    }
}

/// Returns the file in the current folder that a download of the URL is written to: `i.sh` of `https://x.y/i.sh?v=1`.
///
/// # Example: the last segment without the query
///
/// ```
/// use ttsr_views::command::files::downloaded_file;
///
/// assert_eq!(downloaded_file(b"https://x.y/a/i.sh?v=1"), Some(&b"i.sh"[..]));
/// assert_eq!(downloaded_file(b"https://x.y/"), None);
/// ```
pub fn downloaded_file(url: &[u8]) -> Option<&[u8]> {
    let end = url.iter().position(|byte| matches!(byte, b'?' | b'#'));
    let path = &url[..end.unwrap_or(url.len())];
    let name = path.rsplit(|&byte| byte == b'/').next()?;
    (!name.is_empty() && name.len() < path.len()).then_some(name)
}

/// Returns true if the program writes the files of its URLs to the current folder: `wget`, and `curl` with this flag.
pub fn saves_downloads(program: &[u8], flag: Option<&[u8]>) -> bool {
    match flag {
        None => program == b"wget",
        Some(flag) => {
            program == b"curl" && matches!(flag, b"-O" | b"--remote-name" | b"--remote-name-all")
        }
    }
}

/// Returns true if the value of the flag of that program is a file that it writes.
pub fn is_written(program: &[u8], flag: &[u8]) -> bool {
    match flag {
        b"-o" | b"--output" | b"-out" | b"--out" | b"--output-file" => true,
        b"-f" | b"--file" => matches!(program, b"tar" | b"gtar" | b"bsdtar"),
        _ => false,
    }
}

/// Returns true if the operands of the program are URLs, and its flags name files after `@`.
pub fn fetches(program: &[u8]) -> bool {
    FETCHING.contains(&program)
}

/// Returns true if the value of that flag of such a program is the name of a file that is sent.
pub fn is_sent(flag: &[u8]) -> bool {
    SENT_FILE.contains(&flag)
}
