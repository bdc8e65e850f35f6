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

/// Programs whose first operand is a pattern or a program text, unless a flag gives it.
const SEARCHING: [&[u8]; 17] = [
    b"grep", b"egrep", b"fgrep", b"zgrep", b"ggrep", b"rg", b"ag", b"ack", b"sed", b"gsed", b"awk",
    b"gawk", b"mawk", b"nawk", b"jq", b"yq", b"perl",
];

/// Programs whose operands are texts, addresses, URLs or files of another machine.
const FILELESS: [&[u8]; 13] = [
    b"echo",
    b"printf",
    b"tee",
    b"sponge",
    b"sftp",
    b"mail",
    b"mailx",
    b"s-nail",
    b"sendmail",
    b"mutt",
    b"telnet",
    b"curl",
    b"wget",
];

/// Programs that write their last operand, besides those of [`WrittenOperands::Last`].
const COPYING: [&[u8]; 7] = [
    b"aws", b"gsutil", b"gcloud", b"rclone", b"s3cmd", b"s5cmd", b"azcopy",
];

/// Flags of any program whose value names files that are left out, or that it logs in or is configured with.
const UNREAD_VALUES: [&[u8]; 26] = [
    b"--exclude",
    b"--exclude-dir",
    b"--exclude-from",
    b"--include",
    b"--ignore",
    b"--filter",
    b"--glob",
    b"--iglob",
    b"--password-file",
    b"--identity",
    b"--identity-file",
    b"--private-key",
    b"--key-file",
    b"--kubeconfig",
    b"--config",
    b"--env-file",
    b"--credentials-file",
    b"--sftp-key-file",
    b"--netrc-file",
    b"--rsh",
    b"--rsync-path",
    b"--regexp",
    b"--expression",
    b"--subject",
    b"--backup-dir",
    b"--suffix",
];

/// Programs that log in by SSH.
const SECURE_SHELLS: [&[u8]; 6] = [
    b"ssh",
    b"autossh",
    b"scp",
    b"sftp",
    b"ssh-copy-id",
    b"sshfs",
];

/// The operands of a program that name files which it may read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ReadOperands {
    /// All of them.
    #[default]
    All,
    /// None of them.
    None,
    /// All but the first one, as those of `grep`. If a [flag](gives_pattern) gives the pattern, all of them.
    AfterFirst,
    /// All but the last one, as those of `cp`. If a [flag](gives_target) gives the target, all of them.
    BeforeLast,
}

/// Returns the operands of the program that name files which it may read.
///
/// # Example: a pattern, a target and a text are no files that are read
///
/// ```
/// use ttsr_views::command::files::{ReadOperands, read_operands};
///
/// assert_eq!(read_operands(b"cat"), ReadOperands::All);
/// assert_eq!(read_operands(b"grep"), ReadOperands::AfterFirst);
/// assert_eq!(read_operands(b"scp"), ReadOperands::BeforeLast);
/// assert_eq!(read_operands(b"echo"), ReadOperands::None);
/// ```
pub fn read_operands(program: &[u8]) -> ReadOperands {
    let is_copy = written_operands(program) == WrittenOperands::Last;
    match program {
        _ if FILELESS.contains(&program) => ReadOperands::None,
        _ if SEARCHING.contains(&program) => ReadOperands::AfterFirst,
        _ if is_copy || COPYING.contains(&program) => ReadOperands::BeforeLast,
        _ => ReadOperands::All,
    }
}

/// Returns true if the flag gives the pattern or the program text, so that the first operand is a file too.
pub fn gives_pattern(flag: &[u8]) -> bool {
    let flags: [&[u8]; 8] = [
        b"-e",
        b"-f",
        b"--regexp",
        b"--file",
        b"--expression",
        b"--source",
        b"--from-file",
        b"--files",
    ];
    flags.contains(&flag)
}

/// Returns true if the flag gives the target of a program that copies files, so that the last operand is a source too.
pub fn gives_target(flag: &[u8]) -> bool {
    matches!(flag, b"-t" | b"--target-directory")
}

/// Returns true if the value of that flag of the program may be a file whose content it passes on.
///
/// # Example: a key to log in with is not sent
///
/// ```
/// use ttsr_views::command::files::reads_value;
///
/// assert!(!reads_value(b"scp", b"-i"));
/// assert!(!reads_value(b"tar", b"--exclude"));
/// assert!(!reads_value(b"openssl", b"-keyout"));
/// assert!(reads_value(b"tar", b"-T"));
/// ```
pub fn reads_value(program: &[u8], flag: &[u8]) -> bool {
    let is_unread = match program {
        _ if UNREAD_VALUES.contains(&flag) => true,
        b"zip" | b"unzip" => matches!(flag, b"-x" | b"-i" | b"-P"),
        b"rsync" => matches!(flag, b"-e" | b"-f"),
        // It writes these files.
        b"openssl" => matches!(flag, b"-out" | b"-keyout"),
        b"find" | b"gfind" => matches!(
            flag,
            b"-name" | b"-iname" | b"-path" | b"-ipath" | b"-wholename"
        ),
        b"fd" | b"fdfind" => flag == b"-E",
        b"ls" | b"gls" => flag == b"-I",
        b"rg" => matches!(flag, b"-g" | b"-e" | b"-r"),
        b"sed" | b"gsed" | b"jq" | b"yq" => flag == b"-e",
        b"mail" | b"mailx" | b"s-nail" | b"mutt" => {
            !matches!(flag, b"-a" | b"-A" | b"-q" | b"-i" | b"--attach")
        }
        _ if flag == b"-e" => program.ends_with(b"grep"),
        _ if SECURE_SHELLS.contains(&program) => matches!(flag, b"-i" | b"-o" | b"-F" | b"-S"),
        _ => false,
    };
    !is_unread
}

/// Returns true if the operand is not a file of this machine: a URL, or `host:path` of a program that copies files between
/// machines.
///
/// # Example: sources on another machine
///
/// ```
/// use ttsr_views::command::files::is_remote;
///
/// assert!(is_remote(b"scp", b"host:/srv/.env"));
/// assert!(is_remote(b"aws", b"s3://bucket/.env"));
/// assert!(!is_remote(b"scp", b"./a:b"));
/// assert!(!is_remote(b"cat", b"a:b"));
/// ```
pub fn is_remote(program: &[u8], operand: &[u8]) -> bool {
    let Some(colon) = operand.iter().position(|&byte| byte == b':') else {
        return false;
    };
    let (before, after) = (&operand[..colon], &operand[colon + 1..]);
    if after.starts_with(b"//") {
        return before != b"file";
    }
    let names_hosts = matches!(program, b"scp" | b"rsync" | b"sftp" | b"rclone");
    // A single letter is a drive of Windows, but for rclone a remote.
    let is_drive = before.len() == 1 && after.starts_with(b"\\");
    names_hosts && !is_drive && !before.contains(&b'/')
}

/// Returns the path of a file after `@` or `<`, as programs that send files take it: `@file`, `name@file`,
/// `name=@file;type=text/plain`. Without such a mark returns `None`.
///
/// # Example: spellings of an uploaded file
///
/// ```
/// use ttsr_views::command::files::sent_file;
///
/// assert_eq!(sent_file("@.env"), Some(".env"));
/// assert_eq!(sent_file("a=@.env;type=text/plain"), Some(".env"));
/// assert_eq!(sent_file("a@.env"), Some(".env"));
/// assert_eq!(sent_file("a=b"), None);
/// ```
pub fn sent_file(text: &str) -> Option<&str> {
    let value = text.split_once('=').map_or(text, |(_, value)| value);
    let file = match value.strip_prefix(['@', '<']) {
        Some(file) => file,
        // `--data-urlencode` takes the name of a field before the mark.
        None if value.len() == text.len() => text.split_once('@')?.1,
        None => return None,
    };
    Some(file.split(';').next().unwrap_or(file))
}

/// Returns the folder all of whose files the path stands for, if it ends with a slash or `/*`.
///
/// # Example: a folder and the files in it
///
/// ```
/// use ttsr_views::command::files::folder;
///
/// assert_eq!(folder("~/.ssh/"), Some("~/.ssh"));
/// assert_eq!(folder("~/.ssh/*"), Some("~/.ssh"));
/// assert_eq!(folder("~/.ssh/*.pub"), None);
/// assert_eq!(folder("~/.ssh"), None);
/// // A virtual environment, and no file of variables.
/// assert_eq!(folder(".env/"), None);
/// ```
pub fn folder(path: &str) -> Option<&str> {
    let (folder, name) = path.rsplit_once('/')?;
    let is_all =
        name.is_empty() || name.contains('*') && name.bytes().all(|byte| b"*.".contains(&byte));
    let is_environment = folder.rsplit('/').next() == Some(".env");
    (is_all && !folder.is_empty() && !is_environment).then_some(folder)
}

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
        b"-o" | b"--output" | b"-out" | b"-keyout" | b"--out" | b"--output-file" => true,
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
