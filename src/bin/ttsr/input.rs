//! What is read: files, all files below folders, the standard input; always block by block.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use crate::output::{Escaped, tell};

/// Bytes read at a time.
pub(crate) const BLOCK: usize = 64 << 10;

/// Tells what could not be read, and remembers that something could not.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    pub(crate) any: bool,
}

impl Problems {
    pub(crate) fn tell(&mut self, name: &str, what: &dyn std::fmt::Display) {
        self.any = true;
        tell(&format_args!("{}: {what}", Escaped(name)));
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
