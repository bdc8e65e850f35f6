//! Rules of other tools, as a rule file of ours.
//!
//! Owns which formats are known, how one is told by its content, and how what was read becomes TOML. Each
//! format has a file of its own below, which knows nothing of the others. Does no I/O. What cannot be
//! carried over is said twice: in [`Imported::left_out`], and as a comment where the rule stands or would.

mod claude;
mod draft;
mod ecmascript;
mod front;
mod gitleaks;
mod hookify;
mod markdown;
mod python;
mod wildcard;

use std::fmt;

use draft::Sheet;

/// A format of rules that are not ours.
///
/// # Example: by name and back
/// ```
/// use ttsr_cli::foreign::Format;
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
    /// Rules of hookify, a plugin of Claude Code: Markdown with an `event` and a `pattern` or `conditions`.
    Hookify,
}

impl Format {
    /// All of them.
    pub const ALL: [Format; 7] = [
        Format::Gitleaks,
        Format::OhMyPi,
        Format::Cursor,
        Format::Windsurf,
        Format::Cline,
        Format::ClaudeCode,
        Format::Hookify,
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
            Format::Hookify => "hookify",
        }
    }

    /// The format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    /// The format of a file, by its name where that says it, else by its text.
    ///
    /// # Example: a file without a heading
    /// ```
    /// use ttsr_cli::foreign::Format;
    /// assert_eq!(Format::of_file("my/.clinerules", "Be brief."), Some(Format::Cline));
    /// assert_eq!(Format::of_file(".windsurfrules", "Be brief."), Some(Format::Windsurf));
    /// assert_eq!(Format::of_file("notes.txt", "Be brief."), None);
    /// ```
    #[must_use]
    pub fn of_file(name: &str, text: &str) -> Option<Format> {
        let mut parts = name.rsplit(['/', '\\']);
        let file = parts.next().unwrap_or(name);
        let folders: Vec<&str> = parts.collect();
        let of_text = Format::of_text(text);
        // A condition is a condition wherever it stands.
        if matches!(
            of_text,
            Some(Format::Hookify | Format::Gitleaks | Format::ClaudeCode)
        ) {
            return of_text;
        }
        match file {
            ".clinerules" => Some(Format::Cline),
            ".windsurfrules" => Some(Format::Windsurf),
            ".cursorrules" => Some(Format::Cursor),
            _ if file.starts_with("hookify.") && file.ends_with(".md") => Some(Format::Hookify),
            _ if file.ends_with(".mdc") => Some(Format::Cursor),
            _ if folders.contains(&".clinerules") => Some(Format::Cline),
            _ if folders.contains(&".windsurf") => Some(Format::Windsurf),
            _ if folders.contains(&".cursor") => Some(Format::Cursor),
            _ => of_text,
        }
    }

    /// What a text looks like: JSON is Claude Code's, a table of rules is gitleaks', Markdown is one of
    /// the others, which are read alike.
    ///
    /// # Example: a table of rules
    /// ```
    /// use ttsr_cli::foreign::Format;
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
            return Some(match hookify::is_one(text) {
                true => Format::Hookify,
                false => Format::OhMyPi,
            });
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
    /// The texts of which nothing is in it, for they cannot be read in their format, and why.
    pub unread: Vec<LeftOut>,
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
/// A text that cannot be read in its format is in [`Imported::unread`]; the others are read.
///
/// # Errors
/// Why `pack` is no name.
///
/// # Example: a deny list becomes rules
/// ```
/// use ttsr_cli::foreign::{Foreign, Format, import};
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
            Format::Hookify => hookify::read(text, &mut sheet),
            Format::OhMyPi | Format::Cursor | Format::Windsurf | Format::Cline => {
                markdown::read(text, &mut sheet)
            }
        };
        if let Err(why) = read {
            sheet.unread(text.name, why);
        }
    }
    Ok(sheet.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttsr::Pack;

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
            ("---\nevent: bash\npattern: a\n---\n", Some(Format::Hookify)),
            ("---\nevent: x\ncondition: a\n---\n", Some(Format::OhMyPi)),
            ("[rules]\n", None),
            ("", None),
        ] {
            assert_eq!(Format::of_text(text), format, "{text:?}");
        }
    }

    #[test]
    fn a_format_is_told_by_the_name_of_its_file() {
        for (name, text, format) in [
            (".clinerules", "Be brief.", Some(Format::Cline)),
            ("a/.clinerules/style.md", "Be brief.", Some(Format::Cline)),
            (".windsurfrules", "Be brief.", Some(Format::Windsurf)),
            (".windsurf/rules/a.md", "Be brief.", Some(Format::Windsurf)),
            (".cursorrules", "", Some(Format::Cursor)),
            ("a.mdc", "Be brief.", Some(Format::Cursor)),
            (
                ".claude/hookify.a.local.md",
                "---\n---\n",
                Some(Format::Hookify),
            ),
            (
                ".clinerules",
                "---\nevent: bash\npattern: a\n---\n",
                Some(Format::Hookify),
            ),
            ("clinerules.md", "Be brief.", None),
            ("a.json", "{}", Some(Format::ClaudeCode)),
        ] {
            assert_eq!(Format::of_file(name, text), format, "{name}");
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
            stream.open(ttsr::PartId(0), ttsr::Channel::Text);
            let pushed = stream.push(ttsr::PartId(0), text.as_bytes()).len();
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
            stream.open(ttsr::PartId(0), ttsr::Channel::ToolInput);
            let named = stream.tool(ttsr::PartId(0), tool, "call").len();
            let pushed = stream.push(ttsr::PartId(0), input.as_bytes()).len();
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
        ] {
            let (name, format) = ("its-name", Format::OhMyPi);
            let imported = import("team/it", &[Foreign { name, format, text }]).unwrap();
            assert_eq!(imported.rules, 0);
            assert_eq!(imported.unread[0].to_string(), format!("its-name: {why}"));
            assert!(imported.toml.contains("# NOT READ: its-name: "));
        }
        for (text, why) in [
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
    fn a_text_that_is_none_of_its_format_is_unread_and_the_others_are_read() {
        let good = Foreign {
            name: "good",
            format: Format::ClaudeCode,
            text: r#"{"permissions": {"deny": ["Bash(rm:*)"]}}"#,
        };
        for (format, text, why) in [
            (Format::Gitleaks, "[[rules]", "its-name: "),
            (Format::ClaudeCode, "{", "its-name: "),
            (Format::ClaudeCode, "[]", "its-name: it is no object"),
            (
                Format::ClaudeCode,
                r#"{"permissions": []}"#,
                "its-name: `permissions` is no object",
            ),
            (
                Format::Hookify,
                "event: bash",
                "its-name: it has no front matter",
            ),
        ] {
            let bad = Foreign {
                name: "its-name",
                format,
                text,
            };
            let imported = import("team/it", &[bad, good]).unwrap();
            let unread: Vec<String> = imported.unread.iter().map(ToString::to_string).collect();
            assert_eq!(unread.len(), 1);
            assert!(unread[0].starts_with(why), "{unread:?}");
            assert_eq!(imported.rules, 1);
            assert!(Pack::from_toml(&imported.toml).is_ok());
        }
        assert!(import("No Name", &[]).is_err());
    }

    /// What a rule says of a tool call, or of a prompt where there is no tool.
    fn acts(pack: &Pack, tool: &str, input: &str) -> bool {
        let mut session = pack.session();
        let (channel, tool) = match tool {
            "" => (ttsr::Channel::UserInput, None),
            tool => (ttsr::Channel::ToolInput, Some(tool)),
        };
        let checked = session.check(channel, tool, input.as_bytes());
        !checked.decisions().is_empty()
    }

    #[test]
    fn hookify_rules_hold_of_what_they_hold_there() {
        let bash = "---\nname: x\nevent: bash\npattern: rm\\s+-rf|foo$\naction: block\n---\nNo.";
        let file = "---\nname: x\nevent: file\nconditions:\n  - field: file_path\n    operator: ends_with\n    \
                    pattern: .env\n  - field: new_text\n    operator: contains\n    pattern: KEY\n  - field: new_text\n    \
                    operator: not_contains\n    pattern: TEST\n---\nNo.";
        let inline = "---\nevent: prompt\nconditions:\n- field: user_prompt, operator: starts_with, pattern: deploy\n---\n";
        let quoted = "---\nevent: bash\npattern: \"a\\.b\"\n---\n";
        let negative = "---\nevent: bash\nconditions:\n  - field: command\n    operator: not_contains\n    pattern: sudo\n---\n";
        for (text, tool, input, expected) in [
            (bash, "Bash", r#"{"command":"RM  -rf x"}"#, true),
            (bash, "Bash", r#"{"command":"a foo\n"}"#, true),
            (bash, "Bash", r#"{"command":"foo b"}"#, false),
            (bash, "Bash", r#"{"description":"rm -rf x"}"#, false),
            (bash, "Write", r#"{"command":"rm -rf x"}"#, false),
            (
                file,
                "Write",
                r#"{"file_path":"a/.env","content":"KEY=1"}"#,
                true,
            ),
            (
                file,
                "Edit",
                r#"{"new_string":"KEY=1","file_path":"a/.env"}"#,
                true,
            ),
            (
                file,
                "Write",
                r#"{"file_path":"a/.env","content":"key=1"}"#,
                false,
            ),
            (
                file,
                "Write",
                r#"{"file_path":"a/.env.x","content":"KEY=1"}"#,
                false,
            ),
            (
                file,
                "Write",
                r#"{"file_path":"a/.env","content":"KEY=TEST"}"#,
                false,
            ),
            (inline, "", "deploy it", true),
            (inline, "", "please deploy it", false),
            (quoted, "bash", r#"{"command":"a.b"}"#, true),
            (quoted, "bash", r#"{"command":"axb"}"#, false),
            (negative, "bash", r#"{"command":"ls"}"#, true),
            (negative, "bash", r#"{"command":"sudo ls"}"#, false),
        ] {
            let (pack, left_out) = imported(Format::Hookify, text);
            assert_eq!(left_out, [""; 0]);
            assert_eq!(acts(&pack, tool, input), expected, "{text}\n{tool} {input}");
        }
        let (pack, _) = imported(Format::Hookify, bash);
        let rule = &pack.rules()[0];
        assert_eq!(rule.action, ttsr::Action::Retry);
        assert_eq!(rule.severity, ttsr::Severity::Critical);
    }

    #[test]
    fn a_hookify_rule_with_a_condition_that_is_not_known_is_left_out_whole() {
        for (front, why) in [
            ("event: stop\npattern: a", "event `stop`"),
            ("event: later\npattern: a", "event `later`"),
            (
                "enabled: false\nevent: bash\npattern: a",
                "`enabled` is false",
            ),
            ("event: bash", "neither a pattern nor conditions"),
            ("event: bash\npattern: a(", "does not load"),
            (
                "event: bash\nconditions:\n  - field: reason\n    pattern: a",
                "a condition on `reason`",
            ),
            (
                "event: bash\nconditions:\n  - field: command\n    operator: sounds_like\n    pattern: a",
                "operator `sounds_like`",
            ),
        ] {
            let text = format!("---\n{front}\n---\nNo.");
            let (pack, left_out) = imported(Format::Hookify, &text);
            assert_eq!(
                pack.rules()[0].id,
                "team/it/r",
                "{front}: no rule came of it"
            );
            assert!(left_out.iter().any(|it| it.contains(why)), "{left_out:?}");
        }
    }

    #[test]
    fn every_key_of_the_settings_that_is_not_carried_over_is_named() {
        let text = r#"{"permissions": {"deny": [], "defaultMode": "plan", "x": 1}, "hooks": {}, "env": {}, "y": null}"#;
        let (_, left_out) = imported(Format::ClaudeCode, text);
        for key in ["defaultMode", "x", "hooks", "env", "y"] {
            assert!(
                left_out.iter().any(|it| it.contains(&format!("`{key}`"))),
                "{key}: {left_out:?}"
            );
        }
        let (_, left_out) = imported(Format::ClaudeCode, r#"{"env": {}}"#);
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }
}
