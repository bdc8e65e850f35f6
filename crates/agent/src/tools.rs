//! Tools that work in one folder: `read`, `write`, `edit` and `bash`.
//!
//! What a tool may do is decided here, not in the loop and not by rules: a path leads into the folder or
//! nowhere. [`Folder`] is what the loop gets; how paths, files and commands are handled is below.

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

use bash::Containers;
pub use bash::{Containment, supervise_if_asked};
use ttsr::harness::Tool;
use ttsr::harness::{After, ToolCall, ToolFuture, Tools};

/// The bounds of a [`Folder`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a command may run; what it asks for itself counts up to here. Default 2 min.
    pub command: Duration,
    /// Most bytes of a result; what is beyond is cut and said to be, in a few bytes more. Default 32 KiB.
    pub output: usize,
    /// Most bytes of a file that is read, written or edited. Default 10 MiB.
    pub file: u64,
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            command: Duration::from_secs(120),
            output: 32 << 10,
            file: 10 << 20,
        }
    }
}

/// Four tools that work in one folder.
///
/// `read`, `write` and `edit` reach what is in the folder and nothing else: a path that leaves it is
/// refused, and no symbolic link is followed, wherever in the path it stands. They touch regular files
/// only. A file that is rewritten keeps its permissions but not the bits setuid and setgid: what a model writes runs
/// with the rights of whoever runs it.
///
/// `bash` runs in the folder with little of the environment (no keys), nothing to read from and a time limit. What it
/// starts ends with it, as far as [`Containment`] says. **It is not confined by the system**: a command can do
/// what this process may do. Rules see it before it runs; a container is what keeps it in.
///
/// # Example: what is outside stays outside
/// ```
/// use ttsr_agent::tools::Folder;
/// let path = std::env::temp_dir().join(format!("ttsr-doc-{}", std::process::id()));
/// std::fs::create_dir_all(&path)?;
/// let folder = Folder::open(&path)?;
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
pub struct Folder {
    root: OwnedFd,
    path: PathBuf,
    bounds: Bounds,
    containers: Containers,
    at_most: Containment,
}

impl Folder {
    /// The folder at `path`, which must be there.
    ///
    /// # Errors
    /// If it is not there, is no folder, or cannot be opened.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Folder> {
        let path = path.as_ref().canonicalize()?;
        let root = path::open_root(&path)?;
        Ok(Folder {
            root,
            path,
            bounds: Bounds::default(),
            containers: Containers::default(),
            at_most: Containment::Cgroup,
        })
    }

    /// Runs commands below a process of that program, which finds what they leave running; see
    /// [`Containment::Subreaper`]. The program's `main` calls [`supervise_if_asked`]. No effect outside Linux.
    #[must_use]
    pub fn supervisor(mut self, program: impl Into<PathBuf>) -> Folder {
        self.containers.supervisor = Some(program.into());
        self
    }

    /// Finds the processes of commands by that means at most, also where the system has a stronger one.
    #[must_use]
    pub fn at_most(self, at_most: Containment) -> Folder {
        Folder { at_most, ..self }
    }

    /// How the processes of commands are found. The first call looks what the system allows, which takes as long as a
    /// short command.
    #[must_use]
    pub fn containment(&self) -> Containment {
        self.containers.best(self.at_most)
    }

    /// The same within other bounds.
    ///
    /// # Example: a model with little room
    /// ```
    /// use ttsr_agent::tools::{Bounds, Folder};
    /// let path = std::env::temp_dir().join(format!("ttsr-bounds-{}", std::process::id()));
    /// std::fs::create_dir_all(&path)?;
    /// std::fs::write(path.join("a.txt"), "one\ntwo\nthree\n")?;
    /// let folder = Folder::open(&path)?.bounds(Bounds { output: 10, file: 20, ..Bounds::default() });
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
    pub fn bounds(self, bounds: Bounds) -> Folder {
        Folder { bounds, ..self }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Runs one call. A wrong input, a file that is not there and a command that fails are results too:
    /// the model is told.
    ///
    /// Dropping the future ends a command and everything it started, as when its time is over. Needs a tokio runtime
    /// with I/O and time.
    pub async fn run(&self, tool: &str, input: &str) -> After {
        let done = match tool {
            "read" => parsed(input).and_then(|read| self.read(&read)),
            "write" => parsed(input).and_then(|write| self.write(&write)),
            "edit" => parsed(input).and_then(|edit| self.edit(&edit)),
            "bash" => match parsed(input) {
                Ok(bash) => return self.bash(&bash).await,
                Err(problem) => Err(problem),
            },
            _ => Err(format!("there is no tool `{tool}`")),
        };
        match done {
            Ok(output) => After::output(output),
            Err(problem) => After::error(problem),
        }
    }
}

impl Tools for Folder {
    fn tools(&self) -> Vec<Tool> {
        definitions()
    }

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        Box::pin(self.run(&call.tool, &call.input))
    }
}

impl fmt::Debug for Folder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Folder")
            .field("path", &self.path)
            .field("bounds", &self.bounds)
            .finish_non_exhaustive()
    }
}

/// The input of `read`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Read {
    path: String,
    /// The first line, from 1.
    offset: Option<usize>,
    /// Most lines.
    limit: Option<usize>,
}

/// The input of `write`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Write {
    path: String,
    content: String,
}

/// The input of `edit`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

/// The input of `bash`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Bash {
    command: String,
    /// What it is for, which rules and people may read.
    #[serde(default, rename = "description")]
    _description: Option<String>,
    /// In seconds.
    timeout: Option<u64>,
}

fn parsed<'a, T: Deserialize<'a>>(input: &'a str) -> Result<T, String> {
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
                    "limit": number("Most lines to read."),
                },
            }),
        ),
        tool(
            "write",
            "Writes a text file: makes it, or replaces what it holds.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["path", "content"],
                "properties": {"path": path, "content": text("All that the file is to hold.")},
            }),
        ),
        tool(
            "edit",
            "Replaces a piece of a text file, which must be there exactly once unless all are to be replaced.",
            json!({
                "type": "object", "additionalProperties": false,
                "required": ["path", "old_string", "new_string"],
                "properties": {
                    "path": path,
                    "old_string": text("The piece as it is, exactly."),
                    "new_string": text("What it is to be."),
                    "replace_all": {"type": "boolean", "description": "Replaces it wherever it is."},
                },
            }),
        ),
        tool(
            "bash",
            "Runs a command in the working folder. It has no terminal and nothing to read from; what it leaves running is ended.",
            json!({
                "type": "object", "additionalProperties": false, "required": ["command"],
                "properties": {
                    "command": text("The command, for bash."),
                    "description": text("What it is for, in a few words."),
                    "timeout": number("Most seconds it may take."),
                },
            }),
        ),
    ]
}
