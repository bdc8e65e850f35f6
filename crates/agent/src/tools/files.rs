//! `read`, `write` and `edit` for whole regular files.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags, fchmod, openat, renameat, unlinkat};
use rustix::io::Errno;

use super::path::{self, MissingFolders, ResolvedPath};
use super::{EditInput, ReadInput, WorkingFolder, WriteInput};

/// The default limit of lines of `read`.
const LINES: usize = 2_000;

/// The mode of a new file, before the umask of the process.
const MODE: Mode = Mode::from_raw_mode(0o666);

impl WorkingFolder {
    pub(super) fn read(&self, read: &ReadInput) -> Result<String, String> {
        let (text, _) = self.load(&read.path)?;
        let first = read.offset.unwrap_or(1).max(1) - 1;
        let most = read.limit.unwrap_or(LINES);
        let mut lines = text.split_inclusive('\n').skip(first);
        let mut shown = String::new();
        let mut count = 0;
        for line in lines.by_ref().take(most) {
            if shown.len() + line.len() > self.limits.output {
                return Ok(match count {
                    0 => format!(
                        "{}\n[line {} is longer than what fits here]",
                        cut(line, self.limits.output),
                        first + 1
                    ),
                    _ => with_read_on_hint(shown, first + count),
                });
            }
            shown.push_str(line);
            count += 1;
        }
        match (lines.next(), count) {
            (Some(_), _) => Ok(with_read_on_hint(shown, first + count)),
            (None, 0) if first > 0 => Err(format!("`{}` has no line {}", read.path, first + 1)),
            (None, _) => Ok(shown),
        }
    }

    pub(super) fn write(&self, write: &WriteInput) -> Result<String, String> {
        let WriteInput { path, content } = write;
        self.fits(path, content.len() as u64)?;
        let place = self.resolve(path, MissingFolders::Make)?;
        let mode = match self.open_file(&place, path) {
            Ok((_, mode, _)) => Some(mode),
            Err((Errno::NOENT, _)) => None,
            Err((_, problem)) => return Err(problem),
        };
        store(&place, content.as_bytes(), mode).map_err(|error| format!("`{path}`: {error}"))?;
        Ok(format!("Wrote {} bytes to {path}.", content.len()))
    }

    pub(super) fn edit(&self, edit: &EditInput) -> Result<String, String> {
        let EditInput {
            path,
            old_string: old,
            new_string: new,
            replace_all,
        } = edit;
        if old.is_empty() {
            return Err("`old_string` is empty: use `write` for a new file".to_owned());
        }
        if old == new {
            return Err("`old_string` and `new_string` are the same".to_owned());
        }
        let (text, mode) = self.load(path)?;
        let count = text.matches(old.as_str()).count();
        match count {
            0 => return Err(format!("`old_string` is not in `{path}`")),
            2.. if !replace_all => {
                return Err(format!(
                    "`old_string` is in `{path}` {count} times: give more of what is around it"
                ));
            }
            _ => {}
        }
        let grown =
            (text.len() as u64).saturating_add((count as u64).saturating_mul(new.len() as u64));
        self.fits(path, grown)?;
        let place = self.resolve(path, MissingFolders::Refuse)?;
        let text = text.replace(old.as_str(), new);
        store(&place, text.as_bytes(), Some(mode)).map_err(|error| format!("`{path}`: {error}"))?;
        let places = if count == 1 { "place" } else { "places" };
        Ok(format!("Edited {path} in {count} {places}."))
    }

    /// Returns the text of a file, and its mode.
    fn load(&self, path: &str) -> Result<(String, Mode), String> {
        let place = self.resolve(path, MissingFolders::Refuse)?;
        let (file, mode, length) = self
            .open_file(&place, path)
            .map_err(|(_, problem)| problem)?;
        self.fits(path, length)?;
        let mut bytes = Vec::new();
        // The file may have grown since its length was read. One more byte than the limit shows that.
        let limit = self.limits.file;
        let mut file = File::from(file).take(limit.saturating_add(1));
        file.read_to_end(&mut bytes)
            .map_err(|error| format!("`{path}`: {error}"))?;
        if bytes.len() as u64 > limit {
            return Err(format!(
                "`{path}` is more than {limit} bytes, limit is {limit}"
            ));
        }
        if bytes.contains(&0) {
            return Err(format!("`{path}` is not a text file"));
        }
        let text = String::from_utf8(bytes);
        Ok((text.map_err(|_| format!("`{path}` is not UTF-8"))?, mode))
    }

    fn resolve(&self, path: &str, missing: MissingFolders) -> Result<ResolvedPath, String> {
        path::resolve(self.root.as_fd(), &self.path, path, missing)
    }

    /// Opens a regular file. Never blocks: another kind of file, such as a pipe, may have no end.
    fn open_file(
        &self,
        place: &ResolvedPath,
        path: &str,
    ) -> Result<(OwnedFd, Mode, u64), (Errno, String)> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let say = |errno: Errno| {
            let is_link = errno == Errno::LOOP || path::is_link(place.parent.as_fd(), &place.name);
            let problem = if is_link {
                path::linked(path)
            } else {
                format!("`{path}`: {errno}")
            };
            (errno, problem)
        };
        let file = openat(&place.parent, &place.name, flags, Mode::empty()).map_err(say)?;
        match path::regular(&file).map_err(say)? {
            Some((mode, length)) => Ok((file, mode, length)),
            None => Err((Errno::INVAL, format!("`{path}` is not a regular file"))),
        }
    }

    fn fits(&self, path: &str, length: u64) -> Result<(), String> {
        let limit = self.limits.file;
        if length <= limit {
            return Ok(());
        }
        Err(format!("`{path}` is {length} bytes, limit is {limit}"))
    }
}

/// Replaces a file atomically: a concurrent reader sees the old file or the new one, and a full disk leaves the old
/// one.
fn store(place: &ResolvedPath, bytes: &[u8], mode: Option<Mode>) -> io::Result<()> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let temporary = format!(".ttsr-{}-{number}.tmp", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(&place.parent, temporary.as_str(), flags, MODE)?;
    let stored = (|| {
        if let Some(mode) = mode {
            // A program with new contents must not run with the rights of the old one.
            fchmod(&file, mode.difference(Mode::SUID | Mode::SGID))?;
        }
        File::from(file).write_all(bytes)?;
        Ok(renameat(
            &place.parent,
            temporary.as_str(),
            &place.parent,
            &place.name,
        )?)
    })();
    if stored.is_err() {
        unlinkat(&place.parent, temporary.as_str(), AtFlags::empty()).ok();
    }
    stored
}

fn with_read_on_hint(shown: String, lines: usize) -> String {
    format!("{shown}[more follows: read on with offset {}]", lines + 1)
}

/// Returns the start of a text, at most `most` bytes, cut at a character boundary.
fn cut(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}
