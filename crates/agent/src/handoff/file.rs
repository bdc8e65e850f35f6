//! Formats files for a model: numbered lines in a frame, as the output of a read tool.
//!
//! This module decides which files are shown and in which form. It reads them through [`FileSource`].

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// The most lines of a file that are shown.
pub const MAX_LINES: usize = 2000;

/// The most characters of a line that are shown.
pub const MAX_LINE_CHARS: usize = 2000;

/// The most bytes of a file that are read. Of a longer file only the beginning is shown.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// The number of bytes that decide whether a file looks like text.
const SAMPLE: usize = 4096;

/// The file name extensions of binary files.
const BINARY_EXTENSIONS: [&str; 28] = [
    "zip", "tar", "gz", "exe", "dll", "so", "class", "jar", "war", "7z", "doc", "docx", "xls",
    "xlsx", "ppt", "pptx", "odt", "ods", "odp", "bin", "dat", "obj", "o", "a", "lib", "wasm",
    "pyc", "pyo",
];

/// The files of a project.
///
/// # Example: files in memory
/// ```
/// use std::{collections::HashMap, io, path::{Path, PathBuf}};
/// use ttsr_agent::handoff::{FileSource, read_part};
/// struct Buffers(HashMap<PathBuf, Vec<u8>>);
/// impl FileSource for Buffers {
///     fn resolve(&self, reference: &str) -> Option<PathBuf> {
///         let path = Path::new("/project").join(reference);
///         self.0.contains_key(&path).then_some(path)
///     }
///     fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
///         let bytes = self.0.get(path).ok_or(io::ErrorKind::NotFound)?;
///         Ok(bytes.iter().copied().take(at_most as usize).collect())
///     }
/// }
/// let files = Buffers([("/project/a.txt".into(), b"one\ntwo".to_vec())].into());
/// let [called, read] = read_part(&files, "a.txt").expect("the file exists");
/// assert!(called.ends_with(r#"{"filePath": "/project/a.txt"}"#));
/// assert!(read.starts_with("<file>\n00001| one\n00002| two\n"));
/// assert_eq!(read_part(&files, "b.txt"), None);
/// ```
pub trait FileSource {
    /// Returns the absolute path of a regular file inside the project, or `None`.
    fn resolve(&self, reference: &str) -> Option<PathBuf>;

    /// Returns the first `at_most` bytes of a file that [`resolve`](Self::resolve) returned, or all of them.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>>;
}

/// The files below a folder.
///
/// A path is resolved with its symbolic links before it is checked, so neither `..` nor a link leaves the folder. A
/// link that is changed between the check and the read is not detected.
///
/// # Example: no file outside the folder
/// ```
/// use ttsr_agent::handoff::{FileSource, ProjectFiles};
/// let folder = std::env::temp_dir().join(format!("ttsr-project-{}", std::process::id()));
/// std::fs::create_dir_all(folder.join("src"))?;
/// std::fs::write(folder.join("src/a.rs"), "fn a() {}")?;
/// let files = ProjectFiles::new(folder.join("src"))?;
/// let path = files.resolve("a.rs").expect("the file exists");
/// assert_eq!(files.read(&path, 4)?, b"fn a");
/// assert_eq!(files.resolve(".."), None, "a folder, and outside");
/// assert!(ProjectFiles::new(folder.join("none")).is_err());
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ProjectFiles {
    root: PathBuf,
}

impl ProjectFiles {
    /// Returns the files below that folder.
    ///
    /// # Errors
    /// If the folder does not exist.
    pub fn new(root: impl AsRef<Path>) -> io::Result<ProjectFiles> {
        let root = root.as_ref().canonicalize()?;
        Ok(ProjectFiles { root })
    }
}

impl FileSource for ProjectFiles {
    fn resolve(&self, reference: &str) -> Option<PathBuf> {
        let path = self.root.join(reference).canonicalize().ok()?;
        (path.starts_with(&self.root) && path.is_file()).then_some(path)
    }

    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(at_most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

/// Returns the two texts for a file: that it was read, and its contents. `None` if the file is not in the project,
/// cannot be read, or [is binary](is_binary).
///
/// At most 16 MiB of a file are read, and at most [`MAX_LINES`] lines of that are shown, each up to [`MAX_LINE_CHARS`].
/// Invalid UTF-8 is shown as U+FFFD.
///
/// # Example: a file of a folder
/// ```
/// use ttsr_agent::handoff::{FileSource, ProjectFiles, read_part};
/// let folder = std::env::temp_dir().join(format!("ttsr-files-{}", std::process::id()));
/// std::fs::create_dir_all(&folder)?;
/// std::fs::write(folder.join("a.txt"), "one\ntwo")?;
/// let files = ProjectFiles::new(&folder)?;
/// let [called, read] = read_part(&files, "a.txt").expect("the file exists");
/// assert!(called.starts_with("Called the Read tool"));
/// assert!(read.contains("00002| two"));
/// assert_eq!(files.resolve("../etc/passwd"), None);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn read_part(files: &impl FileSource, reference: &str) -> Option<[String; 2]> {
    let path = files.resolve(reference)?;
    if has_binary_extension(&path) {
        return None;
    }
    let mut bytes = files.read(&path, MAX_FILE_BYTES + 1).ok()?;
    if is_binary(&path, &bytes) {
        return None;
    }
    let is_whole = bytes.len() as u64 <= MAX_FILE_BYTES;
    bytes.truncate(MAX_FILE_BYTES as usize);
    let text = String::from_utf8_lossy(&bytes);
    Some([header(&path), numbered(&text, is_whole)])
}

/// Returns true if a file is binary: by its extension, a NUL byte, or because more than 30 % of its first 4,096 bytes
/// are control characters.
///
/// # Example: by name and by content
/// ```
/// use std::path::Path;
/// use ttsr_agent::handoff::is_binary;
/// assert!(is_binary(Path::new("a.zip"), b"text"));
/// assert!(is_binary(Path::new("a.txt"), b"a\0b"));
/// assert!(!is_binary(Path::new("a.txt"), "größer".as_bytes()));
/// ```
#[must_use]
pub fn is_binary(path: &Path, bytes: &[u8]) -> bool {
    let sample = &bytes[..bytes.len().min(SAMPLE)];
    let odd = sample.iter().filter(|byte| !is_printable(**byte)).count();
    // More than 30 %, in integers.
    has_binary_extension(path) || bytes.contains(&0) || odd * 10 > sample.len() * 3
}

fn has_binary_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| {
        let mut binary = BINARY_EXTENSIONS.iter();
        binary.any(|binary| extension.eq_ignore_ascii_case(binary))
    })
}

fn is_printable(byte: u8) -> bool {
    matches!(byte, 0x09..=0x0d | 0x20..=0xff)
}

/// The start of the first text of a file.
const CALLED: &str = "Called the Read tool with the following input: ";

fn header(path: &Path) -> String {
    let path = serde_json::Value::from(path.to_string_lossy());
    format!(r#"{CALLED}{{"filePath": {path}}}"#)
}

/// Returns the name of the file whose first text this is, without its folders.
pub(super) fn file_of_header(text: &str) -> Option<String> {
    let input: serde_json::Value = serde_json::from_str(text.strip_prefix(CALLED)?).ok()?;
    let name = Path::new(input["filePath"].as_str()?).file_name()?;
    Some(name.to_string_lossy().into_owned())
}

/// Formats the text with line numbers. A last line without a line end counts, even if it is empty.
fn numbered(text: &str, is_whole: bool) -> String {
    let mut lines = text.split('\n');
    let mut shown = String::from("<file>\n");
    let mut count = 0;
    for line in lines.by_ref().take(MAX_LINES) {
        count += 1;
        shown += &format!("{count:05}| {}\n", cut(line));
    }
    shown += &if is_whole && lines.next().is_none() {
        format!("(End of file - {count} lines)")
    } else {
        format!("(File has more lines. Use 'offset' parameter to read beyond line {count})")
    };
    shown + "\n</file>"
}

fn cut(line: &str) -> &str {
    match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => &line[..end],
        None => line,
    }
}
