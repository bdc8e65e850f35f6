//! Rules of other tools, as a rule file of ours.
//!
//! Owns which formats are known, how one is told by its content, and how what was read becomes TOML. Each
//! format has a file of its own below, which knows nothing of the others. Does no I/O. What cannot be
//! carried over is said twice: in [`Imported::left_out`], and as a comment where the rule stands or would.

mod claude;
mod draft;
mod ecmascript;
mod gitleaks;
mod markdown;
mod wildcard;

use std::fmt;

use draft::Sheet;

/// A format of rules that are not ours.
///
/// # Example: by name and back
/// ```
/// use ttsr::import::Format;
/// assert_eq!(Format::from_name("claude-code"), Some(Format::ClaudeCode));
/// assert_eq!(Format::OhMyPi.name(), "oh-my-pi");
/// assert_eq!(Format::from_name("ours"), None);
/// ```
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pack::Pack;

    /// The pack that comes of a text, and what is said to be left out of it.
    fn imported(format: Format, text: &str) -> (Pack, Vec<String>) {
        let name = "its-name";
        let imported = import("team/it", &[Foreign { name, format, text }]).unwrap();
        let toml = &imported.toml;
        // Without a rule it is comments, and no pack yet.
        let toml = match imported.rules {
            0 => {
                format!("{toml}\n[rule.r]\ndescription = 'd'\nmatch.any = [{{ literal = 'x' }}]\n")
            }
            _ => toml.clone(),
        };
        let pack = Pack::from_toml(&toml).unwrap_or_else(|error| panic!("{error}\n{toml}"));
        let left_out = imported.left_out.iter().map(ToString::to_string);
        (pack, left_out.collect())
    }

    #[test]
    fn a_format_is_told_by_its_text() {
        for (text, format) in [
            ("\u{feff} {\"permissions\": {}}", Some(Format::ClaudeCode)),
            ("---\nglobs: *.rs\n---\n", Some(Format::OhMyPi)),
            ("title = 't'\n  [[rules]]\nid = 'a'", Some(Format::Gitleaks)),
            ("[extend]\nuseDefault = true", Some(Format::Gitleaks)),
            ("# Rules\nBe brief.", Some(Format::Cline)),
            ("[rules]\n", None),
            ("", None),
        ] {
            assert_eq!(Format::of_text(text), format, "{text:?}");
        }
    }

    #[test]
    fn what_an_allowlist_of_gitleaks_says_is_kept_or_told() {
        let text = r#"
[[rules]]
id = "token"
regex = "tok_[a-z0-9]{6}"
path = '(a|b)+c'
severity = "high"
[[rules.allowlists]]
regexTarget = "match"
regexes = ["example", 'two\nlines']
stopwords = ["sample", ""]
[[allowlists]]
regexTarget = "line"
regexes = ["gitleaks:allow"]
[[allowlists]]
targetRules = ["token"]
[[allowlists]]
paths = ["vendor/"]
"#;
        let (pack, left_out) = imported(Format::Gitleaks, text);
        let whole = [
            "its-name: allowed for every rule, in its line: `gitleaks:allow`",
            "its-name: an allowlist with `targetRules`",
            "its-name: token: `severity`: there is nothing like it here",
            "its-name: token: path `(a|b)+c`: no glob means the same, so every file is read",
            "its-name: token: stopword ``",
            "its-name: token: allowed match `example`: carried over as text beside the match, so it counts in the whole line",
        ];
        for told in whole {
            assert!(
                left_out.iter().any(|it| it == told),
                "{told}: {left_out:#?}"
            );
        }
        assert!(
            left_out.iter().any(|it| it.contains("two")),
            "{left_out:#?}"
        );
        let rule = &pack.rules()[0];
        let hits = |text: &str| {
            let mut stream = pack.stream();
            stream.open(crate::PartId(0), crate::Channel::Text);
            let pushed = stream.push(crate::PartId(0), text.as_bytes()).len();
            pushed + stream.finish().len()
        };
        assert_eq!(rule.id, "team/it/token");
        assert_eq!(hits("use tok_abc123 here\n"), 1);
        assert_eq!(hits("an example: tok_abc123\n"), 0);
        assert_eq!(hits("use tok_sample here\n"), 0);
    }

    #[test]
    fn what_claude_code_denies_is_denied_and_the_rest_is_told() {
        let text = r#"{"permissions": {
            "deny": ["Bash(git push*)", "Bash(make)", "WebFetch(path:x)", "Read(secrets.txt)", 7],
            "ask": "Bash(rm:*)",
            "defaultMode": "plan"
        }}"#;
        let (pack, left_out) = imported(Format::ClaudeCode, text);
        for told in [
            "its-name: `ask`: it is no list",
            "its-name: `7` in `deny`: it is no text",
            "its-name: `defaultMode`: there is nothing like it here",
        ] {
            assert!(
                left_out.iter().any(|it| it == told),
                "{told}: {left_out:#?}"
            );
        }
        assert!(
            left_out.iter().any(|it| it.contains("WebFetch(path:x)")),
            "{left_out:#?}"
        );
        let hits = |tool: &str, input: &str| {
            let mut stream = pack.stream();
            stream.open(crate::PartId(0), crate::Channel::ToolInput);
            let named = stream.tool(crate::PartId(0), tool, "call").len();
            let pushed = stream.push(crate::PartId(0), input.as_bytes()).len();
            named + pushed + stream.finish().len()
        };
        for (tool, input, is_denied) in [
            ("Bash", r#"{"command":"git pushing"}"#, true),
            ("Bash", r#"{"command":"cd a && git push origin"}"#, true),
            ("Bash", r#"{"command":"git pull"}"#, false),
            ("Bash", r#"{"command":"make"}"#, true),
            ("Bash", r#"{"command":"make it"}"#, false),
            ("Read", r#"{"file_path":"secrets.txt"}"#, true),
            ("Read", r#"{"file_path":"notes.txt"}"#, false),
        ] {
            assert_eq!(hits(tool, input) > 0, is_denied, "{tool} {input}");
        }
    }

    #[test]
    fn pages_that_cannot_be_rules_say_why() {
        let long = format!("---\nnote: {}\n---\nx", "a".repeat(70_000));
        for (text, why) in [
            (
                "---\n- a\n- b\n---\nBe brief.",
                "its front matter cannot be read: it is no table",
            ),
            (
                &*long,
                "its front matter cannot be read: 70007 bytes, limit is 65536",
            ),
            (
                "---",
                "guidance for a prompt, without a condition that could be matched",
            ),
            (
                "---\nastCondition: f($X)\nscope: text\n---\nx",
                "its condition is on the syntax tree of code, and it looks at none",
            ),
            (
                "---\nastCondition: f($X)\n---\nx",
                "its condition is on the syntax tree of code: no glob says in which language",
            ),
        ] {
            let (pack, left_out) = imported(Format::OhMyPi, text);
            assert_eq!(pack.rules()[0].id, "team/it/r", "no rule came of it");
            assert!(left_out[0].contains(why), "{left_out:?}");
        }
        // Two places that say on which files it looks: one is taken, and the other told.
        let text = "---\ncondition: bad\nscope: tool:edit(*.rs)\nglobs: '*.go'\n---\nx";
        let (pack, left_out) = imported(Format::OhMyPi, text);
        assert_eq!(pack.rules()[0].paths, ["*.rs"]);
        assert!(left_out[0].contains("it would take both"), "{left_out:?}");
    }

    #[test]
    fn what_is_no_text_of_its_format_is_an_error_with_its_name() {
        for (format, text, why) in [
            (Format::Gitleaks, "[[rules]", "its-name: "),
            (Format::ClaudeCode, "{", "its-name: "),
            (
                Format::ClaudeCode,
                r#"{"permissions": []}"#,
                "its-name: there are no `permissions`",
            ),
        ] {
            let name = "its-name";
            let error = import("team/it", &[Foreign { name, format, text }]).unwrap_err();
            assert!(error.starts_with(why), "{error}");
        }
        assert!(import("No Name", &[]).is_err());
    }
}
