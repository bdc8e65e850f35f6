//! Tools that work in one folder: `read`, `write`, `edit` and `bash`.
//!
//! The file tools enforce their own confinement, independent of the loop and of rules: a path resolves inside the
//! folder or is refused. [`WorkingFolder`] implements the loop's [`Tools`]; the submodules handle paths, files and commands.

mod bash;
mod files;
mod path;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::OwnedFd;
use serde::Deserialize;
use serde_json::{Value, json};

use bash::ContainmentSupport;
pub use bash::{Containment, supervise_if_asked};
use ttsr::harness::Tool;
use ttsr::harness::{ToolCall, ToolFuture, ToolOutput, Tools};

/// The limits of a [`WorkingFolder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ToolLimits {
    /// The time limit of a command; a call may ask for less. Default 2 min.
    pub command: Duration,
    /// The most bytes of a result. A longer one is truncated, with a note of a few more bytes. Default 32 KiB.
    pub output: usize,
    /// The most bytes of a file that is read, written or edited. Default 10 MiB.
    pub file: u64,
}

impl Default for ToolLimits {
    fn default() -> ToolLimits {
        ToolLimits {
            command: Duration::from_secs(120),
            output: 32 << 10,
            file: 10 << 20,
        }
    }
}

/// Four tools that work in one folder.
///
/// `read`, `write` and `edit` access the folder and nothing outside it: a path that leads out is refused, and no
/// symbolic link is followed in any part of a path. They access regular files only. A rewritten file keeps its
/// permissions except the bits setuid and setgid: a program that a model wrote must run with the rights of its caller.
///
/// `bash` runs in the folder with few environment variables (no keys), an empty standard input and a time limit. The
/// processes that it starts are killed with it, within the limits of [`Containment`]. **The system does not confine
/// it**: a command can do what this process may do. Rules see a command before it runs; only a container confines it.
///
/// # Example: a path outside the folder is refused
/// ```
/// use ttsr_agent::tools::WorkingFolder;
/// let path = std::env::temp_dir().join(format!("ttsr-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&path)?;
/// let folder = WorkingFolder::open(&path)?;
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// let call = |tool: &str, input: &str| runtime.block_on(folder.run(tool, input));
///
/// call("write", r#"{"path": "notes/a.txt", "content": "one two"}"#);
/// call("edit", r#"{"path": "notes/a.txt", "old_string": "two", "new_string": "three"}"#);
/// assert_eq!(call("read", r#"{"path": "notes/a.txt"}"#).output, "one three");
/// assert_eq!(call("bash", r#"{"command": "cat notes/a.txt"}"#).output, "one three");
/// assert!(call("read", r#"{"path": "../../etc/passwd"}"#).is_error);
/// # std::fs::remove_dir_all(&path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub struct WorkingFolder {
    root: OwnedFd,
    path: PathBuf,
    limits: ToolLimits,
    support: ContainmentSupport,
    at_most: Containment,
}

impl WorkingFolder {
    /// Opens the folder at `path`.
    ///
    /// # Errors
    /// If the folder does not exist, is not a folder, or cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<WorkingFolder> {
        let path = path.as_ref().canonicalize()?;
        let root = path::open_root(&path)?;
        Ok(WorkingFolder {
            root,
            path,
            limits: ToolLimits::default(),
            support: ContainmentSupport::default(),
            at_most: Containment::Cgroup,
        })
    }

    /// Runs commands under a supervisor process of that program, which finds the processes that they leave running; see
    /// [`Containment::Subreaper`]. The program's `main` must call [`supervise_if_asked`]. No effect outside Linux.
    #[must_use]
    pub fn supervisor(mut self, program: impl Into<PathBuf>) -> WorkingFolder {
        self.support.supervisor = Some(program.into());
        self
    }

    /// Limits the containment of commands, even if the system supports a stronger one.
    #[must_use]
    pub fn at_most(self, at_most: Containment) -> WorkingFolder {
        WorkingFolder { at_most, ..self }
    }

    /// Returns the containment of commands. The first call probes the system, which takes as long as a short command.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.support.strongest_up_to(self.at_most)
    }

    /// Sets the limits.
    ///
    /// # Example: small limits
    /// ```
    /// use ttsr_agent::tools::{ToolLimits, WorkingFolder};
    /// let path = std::env::temp_dir().join(format!("ttsr-bounds-{}", std::process::id()));
    /// std::fs::create_dir_all(&path)?;
    /// std::fs::write(path.join("a.txt"), "one\ntwo\nthree\n")?;
    /// let folder = WorkingFolder::open(&path)?.limits(ToolLimits { output: 10, file: 20, ..ToolLimits::default() });
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// let call = |tool: &str, input: &str| runtime.block_on(folder.run(tool, input));
    /// let read = call("read", r#"{"path": "a.txt"}"#);
    /// assert_eq!(read.output, "one\ntwo\n[more follows: read on with offset 3]");
    /// let long = r#"{"path": "b.txt", "content": "one two three four five"}"#;
    /// assert!(call("write", long).is_error, "more than 20 bytes");
    /// # std::fs::remove_dir_all(&path)?;
    /// # Ok::<(), std::io::Error>(())
    /// ```
    #[must_use]
    pub fn limits(self, limits: ToolLimits) -> WorkingFolder {
        WorkingFolder { limits, ..self }
    }

    /// Returns the canonical path of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one call. Invalid input, a missing file and a failing command are results for the model, not errors of the
    /// host.
    ///
    /// Dropping the future kills a command and everything it started, as its time limit does. Requires a tokio runtime
    /// with I/O and time.
    pub async fn run(&self, tool: &str, input: &str) -> ToolOutput {
        let done = match tool {
            "read" => parse_input(input).and_then(|read| self.read(&read)),
            "write" => parse_input(input).and_then(|write| self.write(&write)),
            "edit" => parse_input(input).and_then(|edit| self.edit(&edit)),
            "bash" => match parse_input(input) {
                Ok(bash) => return self.bash(&bash).await,
                Err(problem) => Err(problem),
            },
            _ => Err(format!("there is no tool `{tool}`")),
        };
        match done {
            Ok(output) => ToolOutput::output(output),
            Err(problem) => ToolOutput::error(problem),
        }
    }
}

impl Tools for WorkingFolder {
    fn tools(&self) -> Vec<Tool> {
        definitions()
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        tool == "read"
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        Box::pin(self.run(&call.tool, &call.input))
    }
}

impl fmt::Debug for WorkingFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkingFolder")
            .field("path", &self.path)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// The input of `read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ReadInput {
    path: String,
    /// The first line, from 1.
    offset: Option<usize>,
    /// The most lines.
    limit: Option<usize>,
}

/// The input of `write`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct WriteInput {
    path: String,
    content: String,
}

/// The input of `edit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct EditInput {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// The input of `bash`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct BashInput {
    command: String,
    /// A description for rules and people; the tool ignores it.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    /// In seconds.
    timeout: Option<u64>,
}

fn parse_input<'a, T: Deserialize<'a>>(input: &'a str) -> Result<T, String> {
    let input = if input.trim().is_empty() { "{}" } else { input };
    serde_json::from_str(input).map_err(|error| format!("the input of the tool is wrong: {error}"))
}

fn definitions() -> Vec<Tool> {
    let tool = |name: &str, description: &str, input: Value| Tool {
        name: name.to_owned(),
        description: description.to_owned(),
        input,
    };
    let path = json!({"type": "string", "description": "Path of the file, relative to the working folder."});
    let text = |description: &str| json!({"type": "string", "description": description});
    let number =
        |description: &str| json!({"type": "integer", "minimum": 1, "description": description});
    vec![
        tool(
            "read",
            "Reads a text file.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["path"],
                "properties": {
                    "path": path,
                    "offset": number("Number of the first line to read, from 1."),
                    "limit": number("Maximum number of lines to read."),
                },
            }),
        ),
        tool(
            "write",
            "Creates a text file, or replaces its contents.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["path", "content"],
                "properties": {"path": path, "content": text("The complete new contents.")},
            }),
        ),
        tool(
            "edit",
            "Replaces text in a file. The text must occur exactly once, unless `replace_all` is true.",
            json!({
                "type": "object", "additionalProperties": false,
                "required": ["path", "old_string", "new_string"],
                "properties": {
                    "path": path,
                    "old_string": text("The text to replace, exactly as it is in the file."),
                    "new_string": text("The replacement text."),
                    "replace_all": {"type": "boolean", "description": "Replaces every occurrence. Default false."},
                },
            }),
        ),
        tool(
            "bash",
            "Runs a command in the working folder, without a terminal and with an empty standard input. Processes that it leaves running are ended.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["command"],
                "properties": {
                    "command": text("The command, in the syntax of bash."),
                    "description": text("The purpose of the command, in a few words."),
                    "timeout": number("Time limit in seconds."),
                },
            }),
        ),
    ]
}
