//! Reads the input block by block: files, all files below a folder, the standard input.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::SpooledTempFile;

use crate::output::{UnreadInput, print_message};

/// Number of bytes read at a time.
pub(crate) const BLOCK: usize = 64 << 10;

/// Reports input that could not be read, and keeps the reasons for the end of the report.
#[derive(Debug, Default)]
pub(crate) struct InputProblems {
    pub(crate) any: bool,
    /// In the order in which they occurred.
    pub(crate) unread: Vec<UnreadInput>,
    /// True if problems are only collected, to be reported by another collector.
    is_quiet: bool,
}

impl InputProblems {
    /// Returns a collector that reports nothing until another one [merges](InputProblems::extend) it, so that the problems of
    /// several threads are reported in the order of the input.
    pub(crate) fn deferred() -> InputProblems {
        InputProblems {
            is_quiet: true,
            ..InputProblems::default()
        }
    }

    pub(crate) fn report(&mut self, name: &str, what: &dyn std::fmt::Display) {
        self.add(UnreadInput {
            stream: name.to_owned(),
            reason: what.to_string(),
            bytes: None,
        });
    }

    /// Reports that `bytes` bytes of an input were not scanned.
    pub(crate) fn report_bytes(&mut self, name: &str, bytes: u64, reason: &str) {
        self.add(UnreadInput {
            stream: name.to_owned(),
            reason: reason.to_owned(),
            bytes: Some(bytes),
        });
    }

    fn add(&mut self, unread: UnreadInput) {
        self.any = true;
        if !self.is_quiet {
            print_message(&unread);
        }
        self.unread.push(unread);
    }

    /// Merges the problems of a quiet collector and reports them.
    pub(crate) fn extend(&mut self, quiet: InputProblems) {
        quiet.unread.into_iter().for_each(|unread| self.add(unread));
    }
}

/// One input.
#[derive(Debug)]
pub(crate) struct InputFile {
    /// The name used in all output: the path, or `-`.
    pub(crate) name: String,
    /// `None` for the standard input.
    path: Option<PathBuf>,
    /// True if the user named this input, false if it was found in a folder.
    pub(crate) is_named: bool,
}

/// Returns the inputs that `paths` name, in the order of their paths. `-` is the standard input; a folder means
/// all regular files below it. Symbolic links inside folders are not followed; [broken ones](is_broken_link) are inputs.
pub(crate) fn inputs(paths: &[PathBuf], problems: &mut InputProblems) -> Vec<InputFile> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            inputs.push(InputFile {
                name: "-".to_owned(),
                path: None,
                is_named: true,
            });
        } else if path.is_dir() {
            walk(path, &mut inputs, problems);
        } else {
            inputs.push(InputFile::file(path.clone(), true));
        }
    }
    inputs
}

fn walk(folder: &Path, inputs: &mut Vec<InputFile>, problems: &mut InputProblems) {
    // An explicit stack, because folders may be nested deeper than the call stack allows.
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        match fs::symlink_metadata(&path) {
            // The named folder itself may be a symbolic link.
            Ok(found) if found.is_dir() || path == folder => match children(&path) {
                Ok(children) => waiting.extend(children.into_iter().rev()),
                Err(error) => problems.report(&path.display().to_string(), &error),
            },
            Ok(found) if found.is_file() || is_broken_link(&path) => {
                inputs.push(InputFile::file(path, false));
            }
            Ok(_) => {}
            Err(error) => problems.report(&path.display().to_string(), &error),
        }
    }
}

/// Returns true for a symbolic link whose target does not exist or cannot be reached. Such a link is an input: opening it
/// fails, and the failure is reported like that of a file that cannot be read.
pub(crate) fn is_broken_link(path: &Path) -> bool {
    path.is_symlink() && fs::metadata(path).is_err()
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let mut children: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    children.sort_unstable();
    Ok(children)
}

impl InputFile {
    pub(crate) fn file(path: PathBuf, is_named: bool) -> InputFile {
        InputFile {
            name: path.to_string_lossy().into_owned(),
            path: Some(path),
            is_named,
        }
    }

    /// Returns the path, or `None` for the standard input.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Returns true if the input can be read more than once, that is, if it is a regular file.
    pub(crate) fn is_regular(&self) -> bool {
        let path = self.path.as_deref();
        path.is_some_and(|path| fs::metadata(path).is_ok_and(|found| found.is_file()))
    }

    /// Opens the input. Reports a failure and returns `None`.
    pub(crate) fn open(&self, problems: &mut InputProblems) -> Option<InputBlocks> {
        let source: io::Result<Box<dyn Read>> = match &self.path {
            None => Ok(Box::new(io::stdin().lock())),
            Some(path) => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
        };
        match source {
            Ok(source) => Some(InputBlocks {
                name: self.name.clone(),
                source,
                block: vec![0; BLOCK],
            }),
            Err(error) => {
                problems.report(&self.name, &error);
                None
            }
        }
    }
}

/// The bytes of an input that cannot be read twice. They are kept in memory up to [`IN_MEMORY`] bytes and in an unnamed
/// temporary file beyond.
pub(crate) struct Spool {
    name: String,
    kept: SpooledTempFile,
}

impl Spool {
    /// Maximum number of bytes kept in memory.
    const IN_MEMORY: usize = 1 << 20;

    pub(crate) fn new(input: &InputFile) -> Spool {
        Spool {
            name: input.name.clone(),
            kept: SpooledTempFile::new(Spool::IN_MEMORY),
        }
    }

    /// Appends bytes. Reports bytes that cannot be stored.
    pub(crate) fn push(&mut self, block: &[u8], problems: &mut InputProblems) {
        if let Err(error) = self.kept.write_all(block) {
            problems.report(&self.name, &error);
        }
    }

    /// Passes the stored bytes from the beginning, block by block, until `wants_more` returns false.
    pub(crate) fn each_block(
        &mut self,
        problems: &mut InputProblems,
        mut wants_more: impl FnMut(&[u8]) -> bool,
    ) {
        if let Err(error) = self.kept.rewind() {
            return problems.report(&self.name, &error);
        }
        let mut block = vec![0; BLOCK];
        loop {
            match self.kept.read(&mut block) {
                Ok(0) => return,
                Ok(length) if wants_more(&block[..length]) => {}
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return problems.report(&self.name, &error),
            }
        }
    }
}

/// Reads the content of an input block by block.
pub(crate) struct InputBlocks {
    name: String,
    source: Box<dyn Read>,
    block: Vec<u8>,
}

impl InputBlocks {
    /// Returns the next block, which is not empty. Returns `None` at the end or if reading fails, which is reported.
    pub(crate) fn next(&mut self, problems: &mut InputProblems) -> Option<&[u8]> {
        loop {
            match self.source.read(&mut self.block) {
                Ok(0) => return None,
                Ok(length) => return Some(&self.block[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    problems.report(&self.name, &error);
                    return None;
                }
            }
        }
    }
}
