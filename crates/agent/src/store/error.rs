//! The errors of a session file.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why a session could not be stored or resumed.
///
/// # Example: a file of another format
/// ```
/// use ttsr_agent::store::{Store, StoreErrorKind};
/// let path = std::env::temp_dir().join(format!("ttsr-diary-{}.txt", std::process::id()));
/// std::fs::write(&path, "Dear diary,\n")?;
/// let error = Store::open(&path).unwrap_err();
/// assert_eq!(error.kind(), StoreErrorKind::Foreign);
/// assert_eq!(error.to_string(), format!("{}: not a session of ttsr", path.display()));
/// assert_eq!(std::fs::read(&path)?, b"Dear diary,\n", "it is unchanged");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Debug)]
pub struct StoreError {
    kind: StoreErrorKind,
    path: Option<PathBuf>,
    source: Option<io::Error>,
}

/// The kind of a [`StoreError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum StoreErrorKind {
    /// The file is open, in this process or another one.
    Locked,
    /// The path is not a regular file but a link, a folder or a pipe.
    NotPlain,
    /// The file has another format. It is unchanged.
    Foreign,
    /// The file is empty.
    Empty,
    /// The file has another version of the format. It is left as it is.
    Version(u32),
    /// A record is complete, but this version does not understand it: resuming without it would resume another state.
    /// The file is unchanged.
    Unrecognized,
    /// A record would be longer than [`StoreOptions::record_bytes`](super::StoreOptions::record_bytes).
    TooLarge,
    /// The disk or a quota is full.
    Full,
    /// The disk failed in another way.
    Disk,
}

impl StoreError {
    /// Returns the kind of the error.
    #[must_use]
    pub fn kind(&self) -> StoreErrorKind {
        self.kind
    }

    /// Returns a copy of the error.
    pub(super) fn duplicate(&self) -> StoreError {
        let source = self.source.as_ref();
        StoreError {
            kind: self.kind,
            path: self.path.clone(),
            source: source.map(|source| io::Error::new(source.kind(), source.to_string())),
        }
    }

    pub(super) fn at(mut self, path: &Path) -> StoreError {
        self.path = Some(path.to_owned());
        self
    }

    pub(super) fn with_reason(
        kind: StoreErrorKind,
        why: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> StoreError {
        StoreError {
            kind,
            path: None,
            source: Some(io::Error::other(why)),
        }
    }
}

impl From<StoreErrorKind> for StoreError {
    fn from(kind: StoreErrorKind) -> StoreError {
        StoreError {
            kind,
            path: None,
            source: None,
        }
    }
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> StoreError {
        use io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => StoreErrorKind::Full,
            _ => StoreErrorKind::Disk,
        };
        StoreError {
            kind,
            path: None,
            source: Some(error),
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(path) = &self.path {
            write!(f, "{}: ", path.display())?;
        }
        match self.kind {
            StoreErrorKind::Locked => write!(f, "the session is open elsewhere"),
            StoreErrorKind::NotPlain => write!(f, "not a plain file"),
            StoreErrorKind::Foreign => write!(f, "not a session of ttsr"),
            StoreErrorKind::Empty => write!(f, "nothing in it"),
            StoreErrorKind::Version(version) => {
                write!(f, "session file of version {version}, only 1 is known")
            }
            StoreErrorKind::Unrecognized => write!(f, "a record is not understood"),
            StoreErrorKind::TooLarge => write!(f, "the record is too large"),
            StoreErrorKind::Full => write!(f, "the disk is full"),
            StoreErrorKind::Disk => write!(f, "the disk failed"),
        }?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error for StoreError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_the_file_the_problem_and_the_cause() {
        for (kind, text) in [
            (StoreErrorKind::Locked, "the session is open elsewhere"),
            (StoreErrorKind::NotPlain, "not a plain file"),
            (StoreErrorKind::Foreign, "not a session of ttsr"),
            (StoreErrorKind::Empty, "nothing in it"),
            (
                StoreErrorKind::Version(7),
                "session file of version 7, only 1 is known",
            ),
            (StoreErrorKind::Unrecognized, "a record is not understood"),
            (StoreErrorKind::TooLarge, "the record is too large"),
            (StoreErrorKind::Full, "the disk is full"),
            (StoreErrorKind::Disk, "the disk failed"),
        ] {
            let error = StoreError::from(kind);
            assert_eq!((error.kind(), error.to_string().as_str()), (kind, text));
            assert!(error.source().is_none(), "{text}");
            let error = StoreError::with_reason(kind, "why").at(Path::new("a.log"));
            let copy = error.duplicate();
            assert_eq!(copy.to_string(), format!("a.log: {text}: why"));
            assert_eq!(
                copy.source().map(ToString::to_string).as_deref(),
                Some("why")
            );
        }
        let full = io::Error::from(io::ErrorKind::QuotaExceeded);
        assert_eq!(StoreError::from(full).kind(), StoreErrorKind::Full);
    }
}
