//! What is read: files, all files below folders, the standard input; always block by block.

use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use tempfile::SpooledTempFile;

use crate::output::{Unread, tell};

/// Bytes read at a time.
pub(crate) const BLOCK: usize = 64 << 10;

/// Tells what could not be read, and keeps it for the end of the report.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) any: bool,
    /// In the order in which it was met.
    pub(crate) unread: Vec<Unread>,
    /// Nothing is told yet: that is for whoever takes this over.
    is_quiet: bool,
}

impl Problems {
    /// Problems that are told when another [takes them over](Problems::extend), so that those of several threads are
    /// told in the order of the input.
    pub(crate) fn quiet() -> Problems {
        Problems {
            is_quiet: true,
            ..Problems::default()
        }
    }

    pub(crate) fn tell(&mut self, name: &str, what: &dyn std::fmt::Display) {
        self.add(Unread {
            stream: name.to_owned(),
            reason: what.to_string(),
            bytes: None,
        });
    }

    /// Tells that so many bytes of an input were not scanned.
    pub(crate) fn tell_bytes(&mut self, name: &str, bytes: u64, reason: &str) {
        self.add(Unread {
            stream: name.to_owned(),
            reason: reason.to_owned(),
            bytes: Some(bytes),
        });
    }

    fn add(&mut self, unread: Unread) {
        self.any = true;
        if !self.is_quiet {
            tell(&unread);
        }
        self.unread.push(unread);
    }

    /// Takes over what quiet problems hold.
    pub(crate) fn extend(&mut self, quiet: Problems) {
        quiet.unread.into_iter().for_each(|unread| self.add(unread));
    }
}

/// One input.
#[derive(Debug)]
pub(crate) struct Input {
    /// How it is called in every output: its path, or `-`.
    pub(crate) name: String,
    /// `None`: the standard input.
    path: Option<PathBuf>,
    /// The caller named it; it was not found in a folder.
    pub(crate) is_named: bool,
}

/// The inputs that `paths` name: `-` is the standard input, a folder every regular file below it, in the
/// order of their paths. Links inside folders are not followed.
pub(crate) fn inputs(paths: &[PathBuf], problems: &mut Problems) -> Vec<Input> {
    let mut inputs = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            inputs.push(Input {
                name: "-".to_owned(),
                path: None,
                is_named: true,
            });
        } else if path.is_dir() {
            walk(path, &mut inputs, problems);
        } else {
            inputs.push(Input::file(path.clone(), true));
        }
    }
    inputs
}

fn walk(folder: &Path, inputs: &mut Vec<Input>, problems: &mut Problems) {
    // A stack of its own, for folders may be nested deeper than calls can be.
    let mut waiting = vec![folder.to_owned()];
    while let Some(path) = waiting.pop() {
        match fs::symlink_metadata(&path) {
            // The folder that was named may be a link.
            Ok(found) if found.is_dir() || path == folder => match children(&path) {
                Ok(children) => waiting.extend(children.into_iter().rev()),
                Err(error) => problems.tell(&path.display().to_string(), &error),
            },
            Ok(found) if found.is_file() => inputs.push(Input::file(path, false)),
            Ok(_) => {}
            Err(error) => problems.tell(&path.display().to_string(), &error),
        }
    }
}

fn children(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder)?;
    let mut children: Vec<PathBuf> = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<_>>()?;
    children.sort_unstable();
    Ok(children)
}

impl Input {
    pub(crate) fn file(path: PathBuf, is_named: bool) -> Input {
        Input {
            name: path.to_string_lossy().into_owned(),
            path: Some(path),
            is_named,
        }
    }

    /// Its path, unless it is the standard input.
    pub(crate) fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// Whether it can be read more than once: a regular file, and not a pipe.
    pub(crate) fn is_regular(&self) -> bool {
        let path = self.path.as_deref();
        path.is_some_and(|path| fs::metadata(path).is_ok_and(|found| found.is_file()))
    }

    /// Its blocks, unless it cannot be opened, which is told.
    pub(crate) fn open(&self, problems: &mut Problems) -> Option<Blocks> {
        let source: io::Result<Box<dyn Read>> = match &self.path {
            None => Ok(Box::new(io::stdin().lock())),
            Some(path) => File::open(path).map(|file| Box::new(file) as Box<dyn Read>),
        };
        match source {
            Ok(source) => Some(Blocks {
                name: self.name.clone(),
                source,
                block: vec![0; BLOCK],
            }),
            Err(error) => {
                problems.tell(&self.name, &error);
                None
            }
        }
    }
}

/// The bytes of an input that cannot be read twice: in memory, or if there are many in a temporary file without a
/// name.
pub(crate) struct Spool {
    name: String,
    kept: SpooledTempFile,
}

impl Spool {
    /// Bytes that are kept in memory.
    const IN_MEMORY: usize = 1 << 20;

    pub(crate) fn new(input: &Input) -> Spool {
        Spool {
            name: input.name.clone(),
            kept: SpooledTempFile::new(Spool::IN_MEMORY),
        }
    }

    /// Keeps bytes. What cannot be kept is told.
    pub(crate) fn push(&mut self, block: &[u8], problems: &mut Problems) {
        if let Err(error) = self.kept.write_all(block) {
            problems.tell(&self.name, &error);
        }
    }

    /// What was kept, from its beginning, as long as blocks are wanted.
    pub(crate) fn each_block(
        &mut self,
        problems: &mut Problems,
        mut wants_more: impl FnMut(&[u8]) -> bool,
    ) {
        if let Err(error) = self.kept.rewind() {
            return problems.tell(&self.name, &error);
        }
        let mut block = vec![0; BLOCK];
        loop {
            match self.kept.read(&mut block) {
                Ok(0) => return,
                Ok(length) if wants_more(&block[..length]) => {}
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return problems.tell(&self.name, &error),
            }
        }
    }
}

/// The content of an input.
pub(crate) struct Blocks {
    name: String,
    source: Box<dyn Read>,
    block: Vec<u8>,
}

impl Blocks {
    /// The next bytes, at least one; `None` at the end, or where reading fails, which is told.
    pub(crate) fn next(&mut self, problems: &mut Problems) -> Option<&[u8]> {
        loop {
            match self.source.read(&mut self.block) {
                Ok(0) => return None,
                Ok(length) => return Some(&self.block[..length]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    problems.tell(&self.name, &error);
                    return None;
                }
            }
        }
    }
}
