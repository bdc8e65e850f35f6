//! Resolves a path that a model wrote to an open folder and a file name.
//!
//! A path is resolved one component at a time from the descriptor of the root, and a component that is a symbolic link
//! is never entered. So a concurrent change cannot lead outside, and `..` is resolved in the text.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, open, openat, statat};
use rustix::io::Errno;

/// The flags with which folders are opened.
const FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// The handling of missing parent folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MissingFolders {
    Refuse,
    Make,
}

/// A resolved path: an open parent folder and a name in it.
#[derive(Debug)]
pub(super) struct ResolvedPath {
    pub(super) parent: OwnedFd,
    pub(super) name: CString,
}

pub(super) fn open_root(path: &Path) -> io::Result<OwnedFd> {
    Ok(open(path, FOLDER, Mode::empty())?)
}

/// Resolves `path` below `root`, whose own path is `at`.
pub(super) fn resolve(
    root: BorrowedFd<'_>,
    at: &Path,
    path: &str,
    missing: MissingFolders,
) -> Result<ResolvedPath, String> {
    let names = names(at, path)?;
    let Some((last, parents)) = names.split_last() else {
        return Err(format!("`{path}` is the folder itself"));
    };
    let say = |errno: Errno| format!("`{path}`: {errno}");
    let mut parent = root
        .try_clone_to_owned()
        .map_err(|error| format!("`{path}`: {error}"))?;
    for name in parents {
        parent = enter(parent.as_fd(), name, missing).map_err(|errno| match errno {
            Errno::LOOP => linked(path),
            errno => say(errno),
        })?;
    }
    Ok(ResolvedPath {
        parent,
        name: last.clone(),
    })
}

pub(super) fn linked(path: &str) -> String {
    format!("`{path}` leads over a symbolic link, and links are not followed")
}

/// Returns the components of a path with `..` resolved. An absolute path must start with the folder's own path.
fn names(at: &Path, path: &str) -> Result<Vec<CString>, String> {
    let outside = || format!("`{path}` is outside the working folder");
    let given = Path::new(path);
    let relative = match given.is_absolute() {
        true => given.strip_prefix(at).map_err(|_| outside())?,
        false => given,
    };
    let mut names = Vec::new();
    for component in relative.components() {
        match component {
            Component::CurDir => {}
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop().ok_or_else(outside)?;
            }
            Component::RootDir | Component::Prefix(_) => return Err(outside()),
        }
    }
    let terminated = |name: &&OsStr| CString::new(name.as_bytes());
    let names: Result<Vec<CString>, _> = names.iter().map(terminated).collect();
    names.map_err(|_| "the path holds a NUL".to_owned())
}

fn enter(
    parent: BorrowedFd<'_>,
    name: &CString,
    missing: MissingFolders,
) -> Result<OwnedFd, Errno> {
    let open = || openat(parent, name, FOLDER, Mode::empty());
    match open() {
        Err(Errno::NOENT) if missing == MissingFolders::Make => {
            match mkdirat(parent, name, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => open(),
                Err(errno) => Err(errno),
            }
        }
        // The error for a link where a folder is expected differs between systems.
        Err(Errno::NOTDIR) if is_link(parent, name) => Err(Errno::LOOP),
        other => other,
    }
}

pub(super) fn is_link(parent: BorrowedFd<'_>, name: &CString) -> bool {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Returns the mode and the length of a file, or `None` if it is not a regular file.
pub(super) fn regular(file: impl AsFd) -> Result<Option<(Mode, u64)>, Errno> {
    let stat = fstat(file)?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    let length = u64::try_from(stat.st_size).unwrap_or(0);
    Ok(is_file.then(|| (Mode::from_raw_mode(stat.st_mode), length)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(path: &str) -> Result<String, String> {
        let names = names(Path::new("/srv/project"), path)?;
        let names: Vec<_> = names
            .iter()
            .map(|name| name.to_string_lossy().into_owned())
            .collect();
        Ok(names.join("/"))
    }

    #[test]
    fn paths_within_are_resolved_in_the_text() {
        for (path, expected) in [
            ("a", "a"),
            ("./a//b/", "a/b"),
            ("a/../b", "b"),
            ("a/b/../../c", "c"),
            ("/srv/project/a", "a"),
            (".", ""),
            ("", ""),
            ("..a", "..a"),
            ("a\\..\\b", "a\\..\\b"),
        ] {
            assert_eq!(resolved(path).as_deref(), Ok(expected), "{path}");
        }
    }

    #[test]
    fn paths_that_leave_are_refused() {
        for path in [
            "..",
            "../a",
            "a/../..",
            "a/../../project/a",
            "/",
            "/etc/passwd",
            "/srv/projects/a",
            "/srv/project/../a",
            "a\0b",
        ] {
            assert!(resolved(path).is_err(), "{path}");
        }
    }
}
