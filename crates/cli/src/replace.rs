//! Writes files so that a write that fails or is interrupted loses nothing.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Replaces the contents of a file, or creates the file. Until the new contents are complete, the file has the old ones.
///
/// The contents are written to a temporary file beside it, which is then renamed. The file keeps its permissions, and
/// a link to it stays a link. A file that is not regular, such as a pipe, is written to instead.
pub(crate) fn replace(path: &Path, contents: &[u8]) -> io::Result<()> {
    let permissions = match fs::metadata(path) {
        Ok(known) if known.is_file() => Some(known.permissions()),
        Ok(_) => return fs::write(path, contents),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let path = match permissions {
        Some(_) => path.canonicalize()?,
        None => path.to_owned(),
    };
    let (temporary, mut file) = create_beside(&path)?;
    // The permissions come first, so that nobody else can read the contents meanwhile.
    let written = match permissions {
        Some(permissions) => file.set_permissions(permissions),
        None => Ok(()),
    }
    .and_then(|()| file.write_all(contents));
    drop(file);
    let renamed = written.and_then(|()| fs::rename(&temporary, &path));
    if renamed.is_err() {
        fs::remove_file(&temporary).ok();
    }
    renamed
}

/// Writes a new file. Fails if the file exists. A file that cannot be written whole is removed.
pub(crate) fn create(path: &Path, contents: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(contents);
    drop(file);
    if written.is_err() {
        fs::remove_file(path).ok();
    }
    written
}

/// Creates a file in the folder of `path` whose name is not in use. No command takes a file of that name for a rule file.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut number = 0_u32;
    loop {
        let name = format!(".ttsr-{}-{number}.tmp", std::process::id());
        let temporary = path.with_file_name(name);
        let created = OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&temporary);
        match created {
            // An earlier process with this id was killed.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            created => return created.map(|file| (temporary, file)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_created_and_replaced_beside_the_rest_of_an_earlier_process() {
        let folder = ttsr_testing::Folder::new();
        let path = folder.0.join("a");
        let rest = folder.0.join(format!(".ttsr-{}-0.tmp", std::process::id()));
        fs::write(&rest, "rest").unwrap();
        for contents in ["one", "two"] {
            replace(&path, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), contents);
        }
        assert_eq!(fs::read_to_string(&rest).unwrap(), "rest");
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 2);
    }

    #[test]
    fn a_folder_and_a_file_in_no_folder_are_refused() {
        let folder = ttsr_testing::Folder::new();
        assert!(replace(&folder.0, b"x").is_err());
        assert!(replace(&folder.0.join("no/a"), b"x").is_err());
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
    }
}
