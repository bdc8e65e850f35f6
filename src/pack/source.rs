//! Files and folders: the files that make a pack, and their text.
//!
//! Only regular files are opened, links are followed only inside the loaded folder, and size and number are bounded.
//! `check` reads the text.

use std::collections::{BTreeSet, HashSet};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::check::Check;
use super::compiled;
use super::diagnostic::{Code, Diagnostic, TextCursor, code};
use crate::limits::Limits;

/// The number of folder entries that are looked at for each file that may be loaded.
const ENTRIES_PER_FILE: usize = 16;

/// The largest size of all files together, in multiples of the largest size of one.
const TOTAL_FILES: u64 = 16;

/// Reads files and folders. A file that is named several times is read once.
#[derive(Debug)]
pub(super) struct Files<'l> {
    limits: &'l Limits,
    /// The real paths of the files and folders that were read.
    seen: HashSet<PathBuf>,
    /// The paths at which files and folders were looked for, whether or not they exist.
    named: BTreeSet<PathBuf>,
    files: usize,
    entries: usize,
    bytes: u64,
}

impl<'l> Files<'l> {
    pub(super) fn new(limits: &'l Limits) -> Files<'l> {
        Files {
            limits,
            seen: HashSet::new(),
            named: BTreeSet::new(),
            files: 0,
            entries: 0,
            bytes: 0,
        }
    }

    /// Returns the paths on whose content the load depends: those at which files and folders were looked for, and where links
    /// led.
    pub(super) fn into_paths(self) -> Vec<PathBuf> {
        let mut paths = self.named;
        paths.extend(self.seen);
        paths.into_iter().collect()
    }

    /// Adds the file at `path`, or every `*.toml` below it in the order of their paths, to `check`.
    pub(super) fn read(&mut self, path: &Path, check: &mut Check<'_>) {
        self.named.insert(path.to_path_buf());
        let problem = match fs::metadata(path) {
            Ok(found) if found.is_dir() => return self.folder(path, check),
            Ok(found) if found.is_file() => return self.file(path, check),
            Ok(_) => problem(&code::NOT_A_FILE, path, "this is not a regular file"),
            Err(error) => unreadable(path, &error),
        };
        check.add_problem(problem);
    }

    /// Reads the pack `name` in `folder`: the file `name.toml` or the folder `name`. Links that lead out of the folder are
    /// not followed. A pack that does not exist is not reported here.
    pub(super) fn read_in_folder(&mut self, folder: &Path, name: &str, check: &mut Check<'_>) {
        let is_plain = |segment: &str| {
            segment
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-')
        };
        if !name
            .split('/')
            .all(|segment| !segment.is_empty() && is_plain(segment))
        {
            return;
        }
        // A file that was named without a folder is in the current folder.
        let here = match folder.as_os_str().is_empty() {
            true => Path::new("."),
            false => folder,
        };
        let Ok(root) = fs::canonicalize(here) else {
            return;
        };
        for path in [folder.join(format!("{name}.toml")), folder.join(name)] {
            self.named.insert(path.clone());
            match fs::canonicalize(&path) {
                Ok(real) if real.starts_with(&root) => self.read(&path, check),
                Ok(_) => {
                    let message = "this link leads out of the folder";
                    check.add_problem(problem(&code::OUTSIDE_FOLDER, &path, message));
                }
                Err(_) => {}
            }
        }
    }

    fn folder(&mut self, root: &Path, check: &mut Check<'_>) {
        let mut walk = FolderWalk::default();
        let inside = match fs::canonicalize(root) {
            Ok(inside) if self.seen.contains(&inside) => return,
            Ok(inside) => inside,
            Err(error) => return check.add_problem(unreadable(root, &error)),
        };
        walk.folders.push((root.to_path_buf(), inside.clone()));
        while let Some((folder, real)) = walk.folders.pop() {
            if !self.seen.insert(real.clone()) {
                continue;
            }
            if let Err(problem) = self.entries(&folder, &real, &inside, &mut walk, check) {
                return check.add_problem(problem);
            }
        }
        if walk.found == 0 {
            let message = "no `*.toml` file in this folder";
            check.add_problem(problem(&code::NO_RULE_FILE, root, message));
        }
        walk.files.sort();
        for path in walk.files {
            self.file(&path, check);
        }
    }

    /// Sorts the entries of one folder into files to read and folders to walk.
    fn entries(
        &mut self,
        folder: &Path,
        real: &Path,
        root: &Path,
        walk: &mut FolderWalk,
        check: &mut Check<'_>,
    ) -> Result<(), Diagnostic> {
        let entries = match fs::read_dir(folder) {
            Ok(entries) => entries,
            Err(error) => {
                walk.found += 1;
                check.add_problem(unreadable(folder, &error));
                return Ok(());
            }
        };
        for entry in entries {
            self.entries += 1;
            if self.entries > self.limits.files.saturating_mul(ENTRIES_PER_FILE) {
                return Err(self.too_many(folder));
            }
            let found = entry
                .and_then(|entry| FoundFile::new(&entry, real, root))
                .unwrap_or_else(|error| FoundFile::Problem(unreadable(folder, &error)));
            match found {
                FoundFile::Nothing => {}
                FoundFile::File(path) => {
                    walk.found += 1;
                    walk.files.push(path);
                }
                FoundFile::Folder(path, real) => walk.folders.push((path, real)),
                FoundFile::Problem(problem) => {
                    walk.found += 1;
                    check.add_problem(problem);
                }
            }
            if self.files + walk.files.len() > self.limits.files {
                return Err(self.too_many(folder));
            }
        }
        Ok(())
    }

    fn too_many(&self, folder: &Path) -> Diagnostic {
        let message = format!("too many files, limit is {}", self.limits.files);
        problem(&code::TOO_MANY_FILES, folder, &message)
            .with_help("keep rules in a folder of their own, or join small packs into one file")
    }

    fn file(&mut self, path: &Path, check: &mut Check<'_>) {
        match fs::canonicalize(path) {
            Ok(real) if self.seen.contains(&real) => return,
            Ok(real) => self.seen.insert(real),
            Err(error) => return check.add_problem(unreadable(path, &error)),
        };
        self.files += 1;
        match self.text(path) {
            Ok(text) => check.add_text(&name(path), &text, path.parent()),
            Err(problem) => check.add_problem(problem),
        }
    }

    fn text(&mut self, path: &Path) -> Result<String, Diagnostic> {
        let bytes = self.bytes(path)?;
        decode(&name(path), bytes)
    }

    /// Returns the content of a file, at most up to the limit, even if the file grows while it is read.
    fn bytes(&mut self, path: &Path) -> Result<Vec<u8>, Diagnostic> {
        let file = File::open(path).map_err(|error| unreadable(path, &error))?;
        let found = file.metadata().map_err(|error| unreadable(path, &error))?;
        if !found.is_file() {
            return Err(problem(
                &code::NOT_A_FILE,
                path,
                "this is not a regular file",
            ));
        }
        let limit = self.limits.file_bytes;
        let mut bytes = Vec::new();
        file.take(limit.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| unreadable(path, &error))?;
        let length = bytes.len() as u64;
        if length > limit {
            let message = format!(
                "file is {} bytes, limit is {limit}",
                found.len().max(length)
            );
            return Err(problem(&code::FILE_TOO_LARGE, path, &message));
        }
        self.bytes = self.bytes.saturating_add(length);
        let total = limit.saturating_mul(TOTAL_FILES);
        if self.bytes > total {
            let message = format!(
                "with this file all files are {} bytes, limit is {total}",
                self.bytes
            );
            return Err(problem(&code::FILE_TOO_LARGE, path, &message));
        }
        Ok(bytes)
    }
}

#[derive(Default)]
struct FolderWalk {
    /// The folders that are still to be walked: the path as named and the real path.
    folders: Vec<(PathBuf, PathBuf)>,
    files: Vec<PathBuf>,
    /// The number of files and problems so far: a folder with neither has no rule.
    found: usize,
}

/// The kind of a folder entry.
enum FoundFile {
    Nothing,
    File(PathBuf),
    Folder(PathBuf, PathBuf),
    Problem(Diagnostic),
}

impl FoundFile {
    fn new(entry: &fs::DirEntry, folder: &Path, root: &Path) -> io::Result<FoundFile> {
        let path = entry.path();
        let kind = entry.file_type()?;
        let is_rules = path
            .extension()
            .is_some_and(|extension| extension == "toml");
        Ok(if kind.is_symlink() {
            FoundFile::link(path, is_rules, folder, root)
        } else if kind.is_dir() {
            let real = folder.join(entry.file_name());
            FoundFile::Folder(path, real)
        } else if !is_rules {
            FoundFile::Nothing
        } else if kind.is_file() {
            FoundFile::File(path)
        } else {
            FoundFile::Problem(problem(
                &code::NOT_A_FILE,
                &path,
                "this is not a regular file",
            ))
        })
    }

    fn link(path: PathBuf, is_rules: bool, folder: &Path, root: &Path) -> FoundFile {
        let target = fs::canonicalize(&path).and_then(|real| Ok((fs::metadata(&real)?, real)));
        match target {
            Err(_) if !is_rules => FoundFile::Nothing,
            Err(error) => FoundFile::Problem(unreadable(&path, &error)),
            Ok((found, _)) if !found.is_dir() && !is_rules => FoundFile::Nothing,
            Ok((found, real))
                if found.is_dir() && folder.starts_with(&real) && real.starts_with(root) =>
            {
                let message = "this link leads to a folder that contains it, so it is not followed";
                FoundFile::Problem(problem(&code::LINK_LOOP, &path, message))
            }
            Ok((_, real)) if !real.starts_with(root) => {
                let message = "this link leads out of the folder";
                FoundFile::Problem(
                    problem(&code::OUTSIDE_FOLDER, &path, message)
                        .with_help("copy the file into the folder, or load it by its own path"),
                )
            }
            Ok((found, real)) if found.is_dir() => FoundFile::Folder(path, real),
            Ok((found, _)) if found.is_file() => FoundFile::File(path),
            Ok(_) => FoundFile::Problem(problem(
                &code::NOT_A_FILE,
                &path,
                "this is not a regular file",
            )),
        }
    }
}

/// Decodes UTF-8, with or without a byte order mark; a problem names the first invalid byte.
fn decode(name: &str, mut bytes: Vec<u8>) -> Result<String, Diagnostic> {
    if compiled::is_compiled(&bytes) {
        let message = "file is a compiled pack, not a rule file".to_owned();
        return Err(Diagnostic::from_file(&code::ENCODING, name, message)
            .with_help("name the rule files that it was compiled from; `--pack` also reads a compiled pack"));
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        let message = "file is UTF-16, rule files are UTF-8".to_owned();
        return Err(Diagnostic::from_file(&code::ENCODING, name, message)
            .with_help("save it as UTF-8; the byte order mark may stay"));
    }
    let mark = if bytes.starts_with(b"\xef\xbb\xbf") {
        3
    } else {
        0
    };
    bytes.drain(..mark);
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let before = String::from_utf8_lossy(&error.as_bytes()[..at]);
        let (line, column) = TextCursor::new(&before).line_column(at);
        let wrong = error.as_bytes()[at];
        let message = format!("file is not UTF-8: byte {} is 0x{wrong:02x}", at + mark);
        let problem = Diagnostic::from_file(&code::ENCODING, name, message);
        Diagnostic {
            line,
            column,
            ..problem
        }
    })
}

fn name(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn problem(code: &'static Code, path: &Path, message: &str) -> Diagnostic {
    Diagnostic::from_file(code, &name(path), message.to_owned())
}

fn unreadable(path: &Path, error: &io::Error) -> Diagnostic {
    // The kind reads the same on every system, the text of the error does not.
    let reason = match error.kind() {
        io::ErrorKind::NotFound => "it does not exist".to_owned(),
        kind => kind.to_string(),
    };
    problem(
        &code::UNREADABLE,
        path,
        &format!("cannot be read: {reason}"),
    )
}
