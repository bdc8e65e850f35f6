//! Rules of other tools, as a rule file of ours.
//!
//! Owns which formats are known, how one is told by its content, and how what was read becomes TOML. Each
//! format has a file of its own below, which knows nothing of the others. Does no I/O. What cannot be
//! carried over is said twice: in [`Imported::left_out`], and as a comment where the rule stands or would.

mod claude;
mod draft;
mod gitleaks;
mod markdown;
mod wildcard;

use std::fmt;

use draft::Sheet;

/// A format of rules that are not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// The configuration of gitleaks, TOML.
    Gitleaks,
    /// Rules of oh-my-pi: Markdown with a front matter that has a `condition`, or an `astCondition` (which needs
    /// the feature `ast`).
    OhMyPi,
    /// `.mdc` rules of Cursor.
    Cursor,
    /// Rules of Windsurf.
    Windsurf,
    /// `.clinerules` of Cline.
    Cline,
    /// The settings of Claude Code, JSON: what its permissions deny.
    ClaudeCode,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 6] = [
        Format::Gitleaks,
        Format::OhMyPi,
        Format::Cursor,
        Format::Windsurf,
        Format::Cline,
        Format::ClaudeCode,
    ];

    /// The name it is called by on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Format::Gitleaks => "gitleaks",
            Format::OhMyPi => "oh-my-pi",
            Format::Cursor => "cursor",
            Format::Windsurf => "windsurf",
            Format::Cline => "cline",
            Format::ClaudeCode => "claude-code",
        }
    }

    /// The format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// What a text looks like: JSON is Claude Code's, a table of rules is gitleaks', Markdown is one of
    /// the others, which are read alike.
    ///
    /// # Example: a table of rules
    /// ```
    /// use ttsr::import::Format;
    /// assert_eq!(Format::of_text("[[rules]]\nid = \"key\"\n"), Some(Format::Gitleaks));
    /// assert_eq!(Format::of_text(r#"{"permissions": {}}"#), Some(Format::ClaudeCode));
    /// assert_eq!(Format::from_name("gitleaks").map(Format::name), Some("gitleaks"));
    /// assert_eq!(Format::of_text("plain words"), None);
    /// ```
    #[must_use]
    pub fn of_text(text: &str) -> Option<Format> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('{') {
            return Some(Format::ClaudeCode);
        }
        if text.starts_with("---") {
            return Some(Format::OhMyPi);
        }
        let has = |header: &str| text.lines().any(|line| line.trim() == header);
        match has("[[rules]]") || has("[extend]") {
            true => Some(Format::Gitleaks),
            false => text.starts_with('#').then_some(Format::Cline),
        }
    }
}

/// A text to import.
#[derive(Clone, Copy, Debug)]
pub struct Foreign<'a> {
    /// How it is called in what is said of it; the name of a rule that has none of its own.
    pub name: &'a str,
    /// Its format.
    pub format: Format,
    /// Its content.
    pub text: &'a str,
}

/// What came of an import.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// A rule file, which loads.
    pub toml: String,
    /// How many rules it has.
    pub rules: usize,
    /// What is not in it as it was, and why.
    pub left_out: Vec<LeftOut>,
}

/// Something that could not be carried over, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// Where it stands: the name of the text, and of the rule if it is part of one.
    pub place: String,
    /// What it is, and why it was left out.
    pub what: String,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// One rule file, the pack `pack`, from texts of other formats.
///
/// # Errors
/// The name of a text that cannot be read in its format at all, and why; or why `pack` is no name.
///
/// # Example: a deny list becomes rules
/// ```
/// use ttsr::import::{Foreign, Format, import};
///
/// let text = r#"{"permissions":{"deny":["Bash(rm:*)"]}}"#;
/// let settings = Foreign { name: "settings.json", format: Format::ClaudeCode, text };
/// let imported = import("team/denied", &[settings]).unwrap();
/// assert_eq!(imported.rules, 1);
/// assert!(ttsr::Pack::from_toml(&imported.toml).is_ok());
/// ```
pub fn import(pack: &str, texts: &[Foreign<'_>]) -> Result<Imported, String> {
    let mut sheet = Sheet::new(pack)?;
    for text in texts {
        let read = match text.format {
            Format::Gitleaks => gitleaks::read(text, &mut sheet),
            Format::ClaudeCode => claude::read(text, &mut sheet),
            _ => markdown::read(text, &mut sheet),
        };
        read.map_err(|error| format!("{}: {error}", text.name))?;
    }
    Ok(sheet.finish())
}
