//! Problems of rule files, as their author sees them: a stable code, a place, a caret, and a suggestion.
//!
//! Contains the table of codes, the rendering of a problem, and the bound on their number. It does not know TOML or
//! rules: `check` and `source` find the problems.

use std::fmt;

use serde::Serialize;

use super::error::LoadErrorKind;
use super::escape;

mod codes;
mod excerpt;
mod report;

pub(super) use codes::{Code, code};
pub(super) use excerpt::{Excerpt, TextCursor};
pub(super) use report::Report;

/// The severity of a problem.
///
/// # Example: the worst of all problems
/// ```
/// use ttsr::{Diagnostic, Level, Pack};
/// let error = Pack::from_toml("schema = 1\npack.colour = 1\n").unwrap_err();
/// let worst = error.diagnostics().iter().map(Diagnostic::level).max();
/// assert_eq!(worst.map(Level::name), Some("error"));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Level {
    /// A remark; nothing is wrong.
    Note,
    /// The pack loads; the author should review it.
    Warning,
    /// The pack does not load.
    Error,
}

impl Level {
    /// Returns the name used in every output: `note`, `warning` or `error`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Error => "error",
        }
    }
}

/// One problem of a rule file.
///
/// `Display` is one line, `file:line:column: error[code]: message`. [`render`](Self::render) adds the source line, a
/// caret and the help. Both escape control characters of the file.
///
/// # Example: a typing error and its place
/// ```
/// let error = ttsr::Pack::from_toml("
/// schema = 1
/// pack.name = 'demo'
/// [rule.no-leak]
/// description = 'Box::leak keeps memory for ever'
/// serverity = 'error'
/// match.any = [{ literal = 'Box::leak' }]
/// examples.match = ['Box::leak(x)']
/// ").unwrap_err();
/// let problem = &error.diagnostics()[0];
/// assert_eq!((problem.code(), problem.line(), problem.column()), ("unknown-key", 6, 1));
/// assert_eq!(problem.rule(), Some("demo/no-leak"));
/// assert_eq!(problem.help(), Some("did you mean `severity`?"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    pub(super) code: &'static Code,
    pub(super) file: String,
    pub(super) line: u32,
    pub(super) column: u32,
    pub(super) rule: Option<String>,
    pub(super) message: String,
    pub(super) help: Option<String>,
    pub(super) excerpt: Option<Box<Excerpt>>,
}

impl Diagnostic {
    /// Every code a diagnostic can have, with its meaning.
    pub const CODES: &'static [(&'static str, &'static str)] = codes::CODES;

    /// Returns a problem of a whole file.
    pub(super) fn from_file(code: &'static Code, file: &str, message: String) -> Diagnostic {
        Diagnostic {
            code,
            file: escape::all(file),
            line: 1,
            column: 1,
            rule: None,
            message,
            help: None,
            excerpt: None,
        }
    }

    /// Returns the problem with a line that says what to do.
    pub(super) fn with_help(self, help: impl Into<String>) -> Diagnostic {
        Diagnostic {
            help: Some(help.into()),
            ..self
        }
    }

    /// Returns the code of the problem: one of [`CODES`](Self::CODES), which never change their meaning.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code.name
    }

    /// Returns the level; a pack with an error does not load.
    #[must_use]
    pub fn level(&self) -> Level {
        self.code.level
    }

    /// Returns the name of the file, as the caller gave it or as it was found in a folder; `<toml>` for a text without a
    /// name, `<code>` for a rule made in code.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the line, counted from 1; 1 for a problem of the whole file.
    #[must_use]
    pub fn line(&self) -> u32 {
        self.line
    }

    /// Returns the column in characters, counted from 1; 1 for a problem of the whole file.
    #[must_use]
    pub fn column(&self) -> u32 {
        self.column
    }

    /// Returns the full id of the rule that the problem is about, if it is about one.
    #[must_use]
    pub fn rule(&self) -> Option<&str> {
        self.rule.as_deref()
    }

    /// Returns the description of the problem, in one line.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the suggestion, if there is one.
    #[must_use]
    pub fn help(&self) -> Option<&str> {
        self.help.as_deref()
    }

    /// Returns several lines for a reader: the message, the place, the source line with a caret, the help.
    ///
    /// # Example: what an author sees
    /// ```
    /// use ttsr::{Level, Pack};
    /// let error = Pack::from_toml("schema = 1\n[pack]\nname = \"mine\"\ncolour = 1\n").unwrap_err();
    /// let mut problems = error.diagnostics().iter();
    /// let shown = problems.find(|it| it.level() == Level::Error).unwrap().render();
    /// assert!(shown.contains("<toml>:4:1") && shown.contains("colour = 1"), "{shown}");
    /// ```
    #[must_use]
    pub fn render(&self) -> String {
        let gutter = " ".repeat(self.line.to_string().len());
        let mut out = format!(
            "{}[{}]: {}\n",
            self.level().name(),
            self.code(),
            self.message
        );
        out.push_str(&format!(
            "{gutter}--> {}:{}:{}\n",
            self.file, self.line, self.column
        ));
        if let Some(excerpt) = &self.excerpt {
            let line = format!("{} | {}", self.line, excerpt.line);
            out.push_str(&format!("{gutter} |\n{}\n", line.trim_end()));
            let caret = " ".repeat(excerpt.caret) + &"^".repeat(excerpt.width);
            out.push_str(&format!("{gutter} | {caret}\n"));
        }
        if let (Some(rule), None) = (&self.rule, &self.excerpt) {
            out.push_str(&format!("{gutter} = rule: {rule}\n"));
        }
        if let Some(help) = &self.help {
            out.push_str(&format!("{gutter} = help: {help}\n"));
        }
        out
    }

    pub(super) fn kind(&self) -> LoadErrorKind {
        self.code.kind
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diagnostic {
            file,
            line,
            column,
            message,
            ..
        } = self;
        write!(
            f,
            "{file}:{line}:{column}: {}[{}]: {message}",
            self.level().name(),
            self.code()
        )
    }
}
