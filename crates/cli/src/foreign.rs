//! Imports rules of other tools into a rule file.
//!
//! This module knows the formats, detects the format of a text, and writes the result as TOML. Each format has its own
//! submodule, independent of the others. Does no I/O. Anything without an equivalent is reported twice: in
//! [`Imported::left_out`], and as a comment at the place of the rule.

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

use draft::ImportedFile;

/// A format of rules of another tool.
///
/// # Example: converting to a name and back
/// ```
/// use ttsr_cli::foreign::ForeignFormat;
/// assert_eq!(ForeignFormat::from_name("claude-code"), Some(ForeignFormat::ClaudeCode));
/// assert_eq!(ForeignFormat::OhMyPi.name(), "oh-my-pi");
/// assert_eq!(ForeignFormat::from_name("ours"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ForeignFormat {
    /// The configuration of gitleaks, in TOML.
    Gitleaks,
    /// Rules of oh-my-pi: Markdown with a front matter that has a `condition`, or an `astCondition`, which needs the
    /// feature `ast`.
    OhMyPi,
    /// `.mdc` rules of Cursor.
    Cursor,
    /// Rules of Windsurf.
    Windsurf,
    /// `.clinerules` of Cline.
    Cline,
    /// The settings of Claude Code, in JSON: the entries that its permissions deny.
    ClaudeCode,
    /// Rules of hookify, a plugin of Claude Code: Markdown with an `event` and a `pattern` or `conditions`.
    Hookify,
}

impl ForeignFormat {
    /// All formats.
    pub const ALL: [ForeignFormat; 7] = [
        ForeignFormat::Gitleaks,
        ForeignFormat::OhMyPi,
        ForeignFormat::Cursor,
        ForeignFormat::Windsurf,
        ForeignFormat::Cline,
        ForeignFormat::ClaudeCode,
        ForeignFormat::Hookify,
    ];

    /// Returns the name used on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ForeignFormat::Gitleaks => "gitleaks",
            ForeignFormat::OhMyPi => "oh-my-pi",
            ForeignFormat::Cursor => "cursor",
            ForeignFormat::Windsurf => "windsurf",
            ForeignFormat::Cline => "cline",
            ForeignFormat::ClaudeCode => "claude-code",
            ForeignFormat::Hookify => "hookify",
        }
    }

    /// Returns the format of that name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<ForeignFormat> {
        ForeignFormat::ALL
            .into_iter()
            .find(|format| format.name() == name)
    }

    /// Detects the format of a file from its name, or else from its text.
    ///
    /// # Example: a file without a front matter
    /// ```
    /// use ttsr_cli::foreign::ForeignFormat;
    /// assert_eq!(ForeignFormat::from_file("my/.clinerules", "Be brief."), Some(ForeignFormat::Cline));
    /// assert_eq!(ForeignFormat::from_file(".windsurfrules", "Be brief."), Some(ForeignFormat::Windsurf));
    /// assert_eq!(ForeignFormat::from_file("notes.txt", "Be brief."), None);
    /// ```
    #[must_use]
    pub fn from_file(name: &str, text: &str) -> Option<ForeignFormat> {
        let mut parts = name.rsplit(['/', '\\']);
        let file = parts.next().unwrap_or(name);
        let folders: Vec<&str> = parts.collect();
        let detected = ForeignFormat::detect(text);
        // The text of these formats is unmistakable, so the file name does not matter.
        if matches!(
            detected,
            Some(ForeignFormat::Hookify | ForeignFormat::Gitleaks | ForeignFormat::ClaudeCode)
        ) {
            return detected;
        }
        match file {
            ".clinerules" => Some(ForeignFormat::Cline),
            ".windsurfrules" => Some(ForeignFormat::Windsurf),
            ".cursorrules" => Some(ForeignFormat::Cursor),
            _ if file.starts_with("hookify.") && file.ends_with(".md") => {
                Some(ForeignFormat::Hookify)
            }
            _ if file.ends_with(".mdc") => Some(ForeignFormat::Cursor),
            _ if folders.contains(&".clinerules") => Some(ForeignFormat::Cline),
            _ if folders.contains(&".windsurf") => Some(ForeignFormat::Windsurf),
            _ if folders.contains(&".cursor") => Some(ForeignFormat::Cursor),
            _ => detected,
        }
    }

    /// Detects the format of a text: JSON is Claude Code, a TOML table of rules is gitleaks, Markdown is one of the other
    /// formats, which are all read the same way.
    ///
    /// # Example: a table of rules
    /// ```
    /// use ttsr_cli::foreign::ForeignFormat;
    /// assert_eq!(ForeignFormat::detect("[[rules]]\nid = \"key\"\n"), Some(ForeignFormat::Gitleaks));
    /// assert_eq!(ForeignFormat::detect(r#"{"permissions": {}}"#), Some(ForeignFormat::ClaudeCode));
    /// assert_eq!(ForeignFormat::from_name("gitleaks").map(ForeignFormat::name), Some("gitleaks"));
    /// assert_eq!(ForeignFormat::detect("plain words"), None);
    /// ```
    #[must_use]
    pub fn detect(text: &str) -> Option<ForeignFormat> {
        let text = text.trim_start_matches('\u{feff}').trim_start();
        if text.starts_with('{') {
            return Some(ForeignFormat::ClaudeCode);
        }
        if text.starts_with("---") {
            return Some(match hookify::is_hookify_rule(text) {
                true => ForeignFormat::Hookify,
                false => ForeignFormat::OhMyPi,
            });
        }
        let has = |header: &str| text.lines().any(|line| line.trim() == header);
        match has("[[rules]]") || has("[extend]") {
            true => Some(ForeignFormat::Gitleaks),
            false => text.starts_with('#').then_some(ForeignFormat::Cline),
        }
    }
}

/// A text to import.
#[derive(Clone, Copy, Debug)]
pub struct ForeignText<'a> {
    /// The name of the text in messages, and of a rule that has no name.
    pub name: &'a str,
    /// The format of the text.
    pub format: ForeignFormat,
    /// The content.
    pub text: &'a str,
}

/// The result of an import.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Imported {
    /// The rule file, which loads without errors.
    pub toml: String,
    /// Number of rules in the file.
    pub rules: usize,
    /// Everything that was left out or changed, with the reason.
    pub left_out: Vec<Unconverted>,
    /// The texts that could not be parsed in their format, with the reason.
    pub unread: Vec<Unconverted>,
}

/// Something that was not converted, or not exactly.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unconverted {
    /// The name of the text, and of the rule if this is part of one.
    pub place: String,
    /// A description of the item and the reason.
    pub what: String,
}

impl fmt::Display for Unconverted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Converts texts of other formats into one rule file with the pack name `pack`.
///
/// A text that cannot be parsed in its format is listed in [`Imported::unread`]; the others are converted.
///
/// # Errors
/// The reason why `pack` is not a valid name.
///
/// # Example: a deny list becomes rules
/// ```
/// use ttsr_cli::foreign::{ForeignText, ForeignFormat, import};
///
/// let text = r#"{"permissions":{"deny":["Bash(rm:*)"]}}"#;
/// let settings = ForeignText { name: "settings.json", format: ForeignFormat::ClaudeCode, text };
/// let imported = import("team/denied", &[settings]).unwrap();
/// assert_eq!(imported.rules, 1);
/// assert!(ttsr::Pack::from_toml(&imported.toml).is_ok());
/// ```
pub fn import(pack: &str, texts: &[ForeignText<'_>]) -> Result<Imported, String> {
    let mut sheet = ImportedFile::new(pack)?;
    for text in texts {
        let read = match text.format {
            ForeignFormat::Gitleaks => gitleaks::read(text, &mut sheet),
            ForeignFormat::ClaudeCode => claude::read(text, &mut sheet),
            ForeignFormat::Hookify => hookify::read(text, &mut sheet),
            ForeignFormat::OhMyPi
            | ForeignFormat::Cursor
            | ForeignFormat::Windsurf
            | ForeignFormat::Cline => markdown::read(text, &mut sheet),
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

    /// Returns the pack made from a text, and the reports of what was left out.
    fn imported(format: ForeignFormat, text: &str) -> (Pack, Vec<String>) {
        let name = "its-name";
        let imported = import("team/it", &[ForeignText { name, format, text }]).unwrap();
        let toml = &imported.toml;
        // Without a rule the file is only comments, which do not load as a pack.
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
            (
                "\u{feff} {\"permissions\": {}}",
                Some(ForeignFormat::ClaudeCode),
            ),
            ("---\nglobs: *.rs\n---\n", Some(ForeignFormat::OhMyPi)),
            (
                "title = 't'\n  [[rules]]\nid = 'a'",
                Some(ForeignFormat::Gitleaks),
            ),
            ("[extend]\nuseDefault = true", Some(ForeignFormat::Gitleaks)),
            ("# Rules\nBe brief.", Some(ForeignFormat::Cline)),
            (
                "---\nevent: bash\npattern: a\n---\n",
                Some(ForeignFormat::Hookify),
            ),
            (
                "---\nevent: x\ncondition: a\n---\n",
                Some(ForeignFormat::OhMyPi),
            ),
            ("[rules]\n", None),
            ("", None),
        ] {
            assert_eq!(ForeignFormat::detect(text), format, "{text:?}");
        }
    }

    #[test]
    fn a_format_is_told_by_the_name_of_its_file() {
        for (name, text, format) in [
            (".clinerules", "Be brief.", Some(ForeignFormat::Cline)),
            (
                "a/.clinerules/style.md",
                "Be brief.",
                Some(ForeignFormat::Cline),
            ),
            (".windsurfrules", "Be brief.", Some(ForeignFormat::Windsurf)),
            (
                ".windsurf/rules/a.md",
                "Be brief.",
                Some(ForeignFormat::Windsurf),
            ),
            (".cursorrules", "", Some(ForeignFormat::Cursor)),
            ("a.mdc", "Be brief.", Some(ForeignFormat::Cursor)),
            (
                ".claude/hookify.a.local.md",
                "---\n---\n",
                Some(ForeignFormat::Hookify),
            ),
            (
                ".clinerules",
                "---\nevent: bash\npattern: a\n---\n",
                Some(ForeignFormat::Hookify),
            ),
            ("clinerules.md", "Be brief.", None),
            ("a.json", "{}", Some(ForeignFormat::ClaudeCode)),
        ] {
            assert_eq!(ForeignFormat::from_file(name, text), format, "{name}");
        }
    }

    #[test]
    fn an_allowlist_of_gitleaks_is_converted_or_reported() {
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
        let (pack, left_out) = imported(ForeignFormat::Gitleaks, text);
        let whole = [
            "its-name: allowed for every rule, anywhere in the line of the match: `gitleaks:allow`",
            "its-name: an allowlist with `targetRules`",
            "its-name: token: `severity`: no equivalent",
            "its-name: token: path `(a|b)+c`: no equivalent glob, so every file is scanned",
            "its-name: token: stopword ``",
            "its-name: token: allowed match `example`: converted to an exception anywhere in the line of the match",
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
    fn rules_that_claude_code_denies_are_denied_and_the_rest_is_reported() {
        let text = r#"{"permissions": {
            "deny": ["Bash(git push*)", "Bash(make)", "WebFetch(path:x)", "Read(secrets.txt)", 7],
            "ask": "Bash(rm:*)",
            "defaultMode": "plan"
        }}"#;
        let (pack, left_out) = imported(ForeignFormat::ClaudeCode, text);
        for told in [
            "its-name: `ask`: not a list",
            "its-name: `7` in `deny`: not a string",
            "its-name: `defaultMode`: no equivalent",
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
            let named = stream.set_tool(ttsr::PartId(0), tool, "call").len();
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
                "invalid front matter: not a table",
            ),
            (&*long, "invalid front matter: 70007 bytes, limit is 65536"),
        ] {
            let (name, format) = ("its-name", ForeignFormat::OhMyPi);
            let imported = import("team/it", &[ForeignText { name, format, text }]).unwrap();
            assert_eq!(imported.rules, 0);
            assert_eq!(imported.unread[0].to_string(), format!("its-name: {why}"));
            assert!(imported.toml.contains("# NOT READ: its-name: "));
        }
        for (text, why) in [
            ("---", "guidance for a prompt, without a condition to match"),
            (
                "---\nastCondition: f($X)\nscope: text\n---\nx",
                "its condition is on the syntax tree of code, and its scope has no code",
            ),
            (
                "---\nastCondition: f($X)\n---\nx",
                "its condition is on the syntax tree of code: no glob determines the language",
            ),
        ] {
            let (pack, left_out) = imported(ForeignFormat::OhMyPi, text);
            assert_eq!(pack.rules()[0].id, "team/it/r", "no rule came of it");
            assert!(left_out[0].contains(why), "{left_out:?}");
        }
        // Two keys restrict the files: one is used, the other reported.
        let text = "---\ncondition: bad\nscope: tool:edit(*.rs)\nglobs: '*.go'\n---\nx";
        let (pack, left_out) = imported(ForeignFormat::OhMyPi, text);
        assert_eq!(pack.rules()[0].paths, ["*.rs"]);
        assert!(
            left_out[0].contains("only one of them can be used"),
            "{left_out:?}"
        );
    }

    #[test]
    fn a_text_that_is_none_of_its_format_is_unread_and_the_others_are_read() {
        let good = ForeignText {
            name: "good",
            format: ForeignFormat::ClaudeCode,
            text: r#"{"permissions": {"deny": ["Bash(rm:*)"]}}"#,
        };
        for (format, text, why) in [
            (ForeignFormat::Gitleaks, "[[rules]", "its-name: "),
            (ForeignFormat::ClaudeCode, "{", "its-name: "),
            (ForeignFormat::ClaudeCode, "[]", "its-name: not an object"),
            (
                ForeignFormat::ClaudeCode,
                r#"{"permissions": []}"#,
                "its-name: `permissions` is not an object",
            ),
            (
                ForeignFormat::Hookify,
                "event: bash",
                "its-name: no front matter",
            ),
        ] {
            let bad = ForeignText {
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

    /// Returns true if a rule acts on a tool call, or on a prompt if `tool` is empty.
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
            let (pack, left_out) = imported(ForeignFormat::Hookify, text);
            assert_eq!(left_out, [""; 0]);
            assert_eq!(acts(&pack, tool, input), expected, "{text}\n{tool} {input}");
        }
        let (pack, _) = imported(ForeignFormat::Hookify, bash);
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
            let (pack, left_out) = imported(ForeignFormat::Hookify, &text);
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
        let (_, left_out) = imported(ForeignFormat::ClaudeCode, text);
        for key in ["defaultMode", "x", "hooks", "env", "y"] {
            assert!(
                left_out.iter().any(|it| it.contains(&format!("`{key}`"))),
                "{key}: {left_out:?}"
            );
        }
        let (_, left_out) = imported(ForeignFormat::ClaudeCode, r#"{"env": {}}"#);
        assert_eq!(left_out.len(), 2, "{left_out:?}");
    }
}
