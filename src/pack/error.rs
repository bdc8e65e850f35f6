//! The error of a load.

use std::fmt;

use serde::Serialize;

use super::diagnostic::{Diagnostic, Level};

/// The kind of a load error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LoadErrorKind {
    /// All errors are about files or folders that cannot be read.
    Io,
    /// A rule file, or a rule made in code, has an error.
    Invalid,
    /// All errors are about exceeded limits on size, number or work.
    TooLarge,
    /// All errors are about built-in packs that do not exist.
    UnknownPack,
    /// All errors are about compiled packs that are damaged or of another version.
    Compiled,
}

impl LoadErrorKind {
    /// Returns the name used in every output: `io`, `invalid`, `too-large`, `unknown-pack` or `compiled`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LoadErrorKind::Io => "io",
            LoadErrorKind::Invalid => "invalid",
            LoadErrorKind::TooLarge => "too-large",
            LoadErrorKind::UnknownPack => "unknown-pack",
            LoadErrorKind::Compiled => "compiled",
        }
    }
}

/// The error of a pack that did not load. It contains every problem that was found, not only the first.
///
/// `Display` lists the errors, one per line.
///
/// # Example: the errors of two loads
/// ```
/// use ttsr::pack::LoadErrorKind;
/// use ttsr::{Level, Pack};
/// let error = Pack::from_toml("schema = 1\n[pack]\nname = \"mine\"\ncolour = 1\n").unwrap_err();
/// assert_eq!(error.kind(), LoadErrorKind::Invalid);
/// assert!(error.to_string().contains("<toml>:4:1: error[unknown-key]"), "{error}");
/// assert!(error.diagnostics().iter().any(|problem| problem.level() == Level::Error));
/// let error = Pack::builtin("std/secrest").unwrap_err();
/// assert_eq!(error.kind(), LoadErrorKind::UnknownPack);
/// ```
#[derive(Clone)]
pub struct LoadError {
    diagnostics: Vec<Diagnostic>,
}

impl LoadError {
    /// At least one of `diagnostics` must be an error.
    pub(super) fn new(diagnostics: Vec<Diagnostic>) -> LoadError {
        LoadError { diagnostics }
    }

    /// Returns the kind that all errors have, or [`LoadErrorKind::Invalid`].
    #[must_use]
    pub fn kind(&self) -> LoadErrorKind {
        let mut kinds = self.errors().map(Diagnostic::kind);
        let first = kinds.next().unwrap_or(LoadErrorKind::Invalid);
        if kinds.all(|kind| kind == first) {
            first
        } else {
            LoadErrorKind::Invalid
        }
    }

    /// Returns every problem, including warnings, sorted by file, line and column. If there are more than 1,000, the last
    /// one states the number of the others.
    #[must_use]
    pub fn diagnostics(&self) -> &[Diagnostic] {
        &self.diagnostics
    }

    fn errors(&self) -> impl Iterator<Item = &Diagnostic> {
        self.diagnostics
            .iter()
            .filter(|diagnostic| diagnostic.level() == Level::Error)
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.errors().count();
        write!(
            f,
            "the pack cannot be loaded: {count} error{}",
            if count == 1 { "" } else { "s" }
        )?;
        self.errors()
            .try_for_each(|diagnostic| write!(f, "\n{diagnostic}"))
    }
}

/// Prints what `Display` prints, so that `unwrap` and a `main` that returns the error show the problems as text.
impl fmt::Debug for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for LoadError {}
