//! The keys of a rule file: one table for the loader and for editors.
//!
//! Owns what every key is called, what it holds, its bounds and its default. The loader asks it which keys
//! are known and how large a number may be; [`json`](mod@json) writes it as a JSON Schema. How a value is
//! read, and what it means beside others, is the business of `check`.

use crate::rule::{
    Action, Ast, Channel, Fold, Mode, Named, Partial, Per, Region, Script, Severity, Status,
    ToolOutcome,
};

pub(super) mod json;

/// A key and what it holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Key {
    /// Its place below the table that is described, such as `retry.max` in a rule.
    pub(super) path: &'static str,
    pub(super) shape: Shape,
    /// What holds where the key is not written, as it would be written; empty where nothing does.
    pub(super) default: &'static str,
    /// What it is for, in a sentence.
    pub(super) about: &'static str,
}

/// The keys of one table.
pub(super) type Keys = &'static [Key];

/// What a key holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// The number of the schema.
    Schema,
    Text,
    /// One of these names.
    OneOf(fn() -> Vec<String>),
    Flag,
    /// A whole number between two bounds.
    Whole(i64, i64),
    /// A number between two bounds, exact to a thousandth.
    Decimal(u32, u32),
    /// A shortest and a longest, both whole numbers of at most so much.
    Pair(i64),
    /// A date, as a TOML date or as text.
    Date,
    Texts,
    /// A list of some of these names.
    ListOf(fn() -> Vec<String>),
    /// One of these names, or a list of them.
    OneOrMore(fn() -> Vec<String>),
    Table(Keys),
    Tables(Keys),
    /// A table of tables: the author chooses the names.
    Named(Keys),
    /// A table of lists of texts: the author chooses the names.
    NamedTexts,
}

impl Key {
    const fn new(path: &'static str, shape: Shape, about: &'static str) -> Key {
        Key {
            path,
            shape,
            default: "",
            about,
        }
    }

    /// The same with what holds where it is not written.
    const fn or(self, default: &'static str) -> Key {
        Key { default, ..self }
    }

    /// What an author writes.
    pub(super) fn name(&self) -> &'static str {
        name(self.path)
    }
}

/// The last segment of a path.
pub(super) fn name(path: &'static str) -> &'static str {
    path.rsplit('.').next().unwrap_or(path)
}

/// What the key of a rule or of `[[allow]]` at `path` holds.
pub(super) fn shape(path: &str) -> Shape {
    fn find(keys: Keys, path: &str) -> Option<Shape> {
        keys.iter().find_map(|key| match key.shape {
            shape if key.path == path => Some(shape),
            Shape::Table(keys) | Shape::Tables(keys) => find(keys, path),
            _ => None,
        })
    }
    find(RULE, path)
        .or_else(|| find(TOP, path))
        .expect("readers ask for keys of the table only")
}

fn severities() -> Vec<String> {
    Severity::ALL
        .map(|severity| severity.name().to_owned())
        .to_vec()
}

fn actions() -> Vec<String> {
    Action::ALL.map(|action| action.name().to_owned()).to_vec()
}

fn expectations() -> Vec<String> {
    let mut names = actions();
    names.push("nothing".to_owned());
    names
}

/// What may follow when the retries of a rule are spent.
pub(super) const THEN: [Action; 5] = [
    Action::Observe,
    Action::Warn,
    Action::Inject,
    Action::Handoff,
    Action::Abort,
];

fn thens() -> Vec<String> {
    THEN.map(|action| action.name().to_owned()).to_vec()
}

fn granted() -> Vec<String> {
    let granted = Action::ALL
        .into_iter()
        .filter(|action| action.needs_grant());
    granted.map(|action| action.name().to_owned()).collect()
}

fn channels() -> Vec<String> {
    Channel::ALL
        .map(|channel| channel.name().to_owned())
        .to_vec()
}

fn partials() -> Vec<String> {
    Partial::ALL
        .map(|partial| partial.name().to_owned())
        .to_vec()
}

fn outcomes() -> Vec<String> {
    ToolOutcome::ALL
        .map(|outcome| outcome.name().to_owned())
        .to_vec()
}

fn modes() -> Vec<String> {
    Mode::ALL.map(|mode| mode.name().to_owned()).to_vec()
}

fn statuses() -> Vec<String> {
    Status::ALL.map(|status| status.name().to_owned()).to_vec()
}

fn pers() -> Vec<String> {
    Per::ALL.map(|per| per.name().to_owned()).to_vec()
}

fn folds() -> Vec<String> {
    Fold::ALL.map(|fold| fold.name().to_owned()).to_vec()
}

/// The names of regions. [`json`](mod@json) adds the form `code:…`.
pub(super) fn regions() -> Vec<String> {
    Region::PLAIN.iter().map(Region::name).collect()
}

fn scripts() -> Vec<String> {
    Script::NAMES.map(str::to_owned).to_vec()
}

fn named() -> Vec<String> {
    Named::ALL.map(|named| named.name().to_owned()).to_vec()
}

fn languages() -> Vec<String> {
    Ast::LANGUAGES.map(str::to_owned).to_vec()
}

/// Most lines of a window.
const LINES: i64 = 10_000;
/// Most characters of a window, of a unit that is repeated, and so on.
const CHARS: i64 = 1 << 20;
/// Most of anything else that is counted.
const MANY: i64 = 1_000_000_000;

/// A whole rule file.
pub(super) const TOP: Keys = &[
    Key::new(
        "schema",
        Shape::Schema,
        "The version of the rule language: 1.",
    ),
    Key::new(
        "pack",
        Shape::Table(PACK),
        "What the pack is called, what it needs, what it may do.",
    ),
    Key::new(
        "defaults",
        Shape::Table(DEFAULTS),
        "What rules of this file take where they do not say.",
    ),
    Key::new(
        "lists",
        Shape::NamedTexts,
        "Lists of texts, which keys that take several texts name as `@list`.",
    ),
    Key::new("rule", Shape::Named(RULE), "The rules, by their ids."),
    Key::new(
        "override",
        Shape::Named(OVERRIDE),
        "Changes to rules of packs that this one extends, by their full ids.",
    ),
    Key::new(
        "allow",
        Shape::Tables(ALLOW),
        "Places where rules do not apply, with a reason.",
    ),
];

/// `[pack]`.
pub(super) const PACK: Keys = &[
    Key::new(
        "name",
        Shape::Text,
        "The pack's name: rules are known as `name/rule`.",
    ),
    Key::new("version", Shape::Text, "The pack's version: three numbers."),
    Key::new("description", Shape::Text, "What the pack is for."),
    Key::new(
        "engine",
        Shape::Text,
        "The least version of ttsr that reads it, such as `>=0.1`.",
    ),
    Key::new("authors", Shape::Text, "Who wrote it."),
    Key::new(
        "license",
        Shape::Text,
        "The licence, as an SPDX expression.",
    ),
    Key::new("docs", Shape::Text, "Where to read more."),
    Key::new(
        "extends",
        Shape::Texts,
        "Packs whose rules and lists are part of this one.",
    ),
    Key::new(
        "grants",
        Shape::ListOf(granted),
        "Every action above `warn` that its rules may take.",
    ),
    Key::new(
        "tools",
        Shape::Texts,
        "Globs on tools of your own, or `@list`, so that `check` does not take them for misspelt ones.",
    ),
];

/// `[defaults]`.
pub(super) const DEFAULTS: Keys = &[
    SEVERITY,
    ACTION,
    ON,
    TOOLS,
    ARGS,
    PATHS,
    OUTCOME,
    AGENTS,
    MODELS,
    PROVIDERS,
    PRIORITY,
    MODE_,
    PARTIAL,
    RETRY_,
    REPEAT_,
    ALLOWANCE_,
    HOLD,
    REPLACEMENT,
    MESSAGE,
    DOCS,
    TAGS,
    STATUS,
];

const SEVERITY: Key = Key::new(
    "severity",
    Shape::OneOf(severities),
    "How bad it is; picks the action unless the rule names one.",
)
.or("\"warning\"");
const ACTION: Key = Key::new(
    "action",
    Shape::OneOf(actions),
    "What to do about it. Default: info observes, warning injects, error retries, critical aborts.",
);
const ON: Key = Key::new("on", Shape::ListOf(channels), "The channels it reads.")
    .or("[\"text\", \"tool-input\"]");
const TOOLS: Key = Key::new(
    "tools",
    Shape::Texts,
    "Globs on the tool's name, or `@list`; `!` excludes. Default: every tool.",
);
const ARGS: Key = Key::new(
    "args",
    Shape::Texts,
    "Dotted globs on the argument, or `@list`; `$raw` is input that is no JSON, `$keys` are the keys of objects. Default: every argument, and keys.",
);
const PATHS: Key = Key::new(
    "paths",
    Shape::Texts,
    "Globs on the file, or `@list`; `!` excludes. Default: every file, and none.",
);
const OUTCOME: Key = Key::new(
    "outcome",
    Shape::OneOf(outcomes),
    "How the tool call ended whose output it reads (`tool-output`). Default: either.",
);
const AGENTS: Key = Key::new(
    "agents",
    Shape::Texts,
    "Globs on the agent's name, or `@list`; `!` excludes. Default: every agent.",
);
const MODELS: Key = Key::new(
    "models",
    Shape::Texts,
    "Globs on the model's name, or `@list`; `!` excludes. Default: every model.",
);
const PROVIDERS: Key = Key::new(
    "providers",
    Shape::Texts,
    "Globs on the provider's name, or `@list`; `!` excludes. Default: every provider.",
);
const PRIORITY: Key = Key::new(
    "priority",
    Shape::Whole(i32::MIN as i64, i32::MAX as i64),
    "Which of two rules with the same action wins at the same byte: the higher number.",
)
.or("0");
const MODE_: Key =
    Key::new("mode", Shape::OneOf(modes), "Whether it acts or only logs.").or("\"live\"");
const PARTIAL: Key = Key::new(
    "partial",
    Shape::OneOf(partials),
    "What becomes of a reply that a retry cut.",
)
.or("\"discard\"");
const RETRY_: Key = Key::new("retry", Shape::Table(RETRY), "How its retries go.");
const REPEAT_: Key = Key::new(
    "repeat",
    Shape::Table(REPEAT),
    "How often it may act, and when it may again.",
);
const ALLOWANCE_: Key = Key::new(
    "allowance",
    Shape::Table(ALLOWANCE),
    "How often its hits count at all; past that it is silent.",
);
const HOLD: Key = Key::new(
    "hold",
    Shape::Flag,
    "Whether text that may yet break it waits instead of leaving.",
)
.or("false");
const REPLACEMENT: Key = Key::new(
    "replacement",
    Shape::Text,
    "What stands in place of redacted text.",
)
.or("\"[redacted]\"");
const MESSAGE: Key = Key::new(
    "message",
    Shape::Text,
    "The text that steers: a template. Default: id, description and `instead`.",
);
const DOCS: Key = Key::new("docs", Shape::Text, "Where to read more.");
const TAGS: Key = Key::new("tags", Shape::Texts, "Words to find it by, or `@list`.");
const STATUS: Key = Key::new("status", Shape::OneOf(statuses), "How far it is.").or("\"stable\"");
const DESCRIPTION: Key = Key::new(
    "description",
    Shape::Text,
    "What the rule is about, in a sentence.",
);
const WHY: Key = Key::new("why", Shape::Text, "Why it exists.");
const INSTEAD: Key = Key::new(
    "instead",
    Shape::Text,
    "What to do instead, for the message.",
);
const REPLACED_BY: Key = Key::new(
    "replaced-by",
    Shape::Text,
    "The full id of the rule to use instead of a deprecated one.",
);
const CONSULT_: Key = Key::new(
    "consult",
    Shape::Table(CONSULT),
    "Whom `consult` asks, and what.",
);
const HEADER_: Key = Key::new(
    "header",
    Shape::Table(HEADER),
    "The header that `set-header` sets.",
);
const MATCH_: Key = Key::new("match", Shape::Table(MATCH), "What breaks the rule.");
const EXAMPLES_: Key = Key::new(
    "examples",
    Shape::Table(EXAMPLES),
    "Texts that must and must not break it.",
);
const CASE_: Key = Key::new(
    "case",
    Shape::Tables(CASE),
    "Replies and what must come of them.",
);

/// `[rule.<id>]`.
pub(super) const RULE: Keys = &[
    DESCRIPTION,
    WHY,
    SEVERITY,
    ON,
    TOOLS,
    ARGS,
    PATHS,
    OUTCOME,
    AGENTS,
    MODELS,
    PROVIDERS,
    MATCH_,
    ACTION,
    MODE_,
    PARTIAL,
    RETRY_,
    REPEAT_,
    ALLOWANCE_,
    HOLD,
    REPLACEMENT,
    CONSULT_,
    HEADER_,
    INSTEAD,
    MESSAGE,
    PRIORITY,
    TAGS,
    DOCS,
    STATUS,
    REPLACED_BY,
    EXAMPLES_,
    CASE_,
];

const APPEND_: Key = Key::new(
    "append",
    Shape::Table(APPEND),
    "What is added to lists instead of replacing them.",
);

/// `[override."pack/rule"]`: all that a rule may say.
pub(super) const OVERRIDE: Keys = &{
    let mut keys = [APPEND_; RULE.len() + 1];
    let mut at = 0;
    while at < RULE.len() {
        keys[at + 1] = RULE[at];
        at += 1;
    }
    keys
};

/// `append` of an override.
pub(super) const APPEND: Keys = &[
    ON,
    TOOLS,
    ARGS,
    PATHS,
    AGENTS,
    MODELS,
    PROVIDERS,
    TAGS,
    Key::new("match", Shape::Table(APPEND_MATCH), "Patterns to add."),
    EXAMPLES_,
    CASE_,
];

const ANY: Key = Key::new(
    "match.any",
    Shape::Tables(PATTERN),
    "Broken where any of these matches.",
);
const ALL: Key = Key::new(
    "match.all",
    Shape::Tables(PATTERN),
    "Broken where all of these match, in any order, `within` a window.",
);
const SEQUENCE: Key = Key::new(
    "match.sequence",
    Shape::Tables(PATTERN),
    "Broken where these match one after the other, `within` a window.",
);
const NONE: Key = Key::new(
    "match.none",
    Shape::Tables(PATTERN),
    "Not broken where one of these matches beside it, `within` a window.",
);

const APPEND_MATCH: Keys = &[ANY, ALL, SEQUENCE, NONE];

/// `match` of a rule.
pub(super) const MATCH: Keys = &[
    ANY,
    ALL,
    SEQUENCE,
    NONE,
    Key::new(
        "match.within",
        Shape::Table(WITHIN),
        "How far apart: exactly one of its keys. Default: one line for `none`, the part for `all` and `sequence`.",
    ),
    Key::new(
        "match.first",
        Shape::Whole(1, CHARS),
        "The match ends within so many characters of the beginning.",
    ),
    Key::new(
        "match.last",
        Shape::Whole(1, CHARS),
        "The match begins within so many characters of the end.",
    ),
    Key::new("match.line", Shape::Flag, "The match is a whole line.").or("false"),
    Key::new(
        "match.count",
        Shape::Whole(1, MANY),
        "It takes so many matches.",
    )
    .or("1"),
    Key::new(
        "match.per",
        Shape::OneOf(pers),
        "Over what matches are counted.",
    )
    .or("\"part\""),
    Key::new(
        "match.capture",
        Shape::Table(CAPTURE),
        "What the match, or a group of it, must be like.",
    ),
    Key::new(
        "match.region",
        Shape::OneOrMore(regions),
        "The regions that its patterns are looked for in, unless they say.",
    ),
    Key::new(
        "match.fold",
        Shape::OneOrMore(folds),
        "What its patterns do not tell apart, unless they say.",
    ),
    Key::new(
        "match.repetition",
        Shape::Table(REPETITION),
        "The reply goes round in circles.",
    ),
    Key::new(
        "match.leak",
        Shape::Flag,
        "Control tokens of a model stand in the reply.",
    )
    .or("false"),
    Key::new(
        "match.limit",
        Shape::Table(LIMIT),
        "The reply is too long or too slow.",
    ),
    Key::new(
        "match.script",
        Shape::Table(SCRIPT),
        "The reply is in the wrong language.",
    ),
    Key::new(
        "match.unknown-name",
        Shape::Table(UNKNOWN_NAME),
        "A package, a file or a tool is named that nobody knows.",
    ),
    Key::new(
        "match.doom-loop",
        Shape::Table(DOOM_LOOP),
        "The same tool call again and again.",
    ),
    Key::new(
        "match.ast",
        Shape::Table(AST),
        "Code of a certain shape: what an edit adds, or a fenced block. Needs the feature `ast`.",
    ),
];

/// An entry of `any`, `all`, `sequence` or `none`: exactly one of the first three, and options.
pub(super) const PATTERN: Keys = &[
    Key::new("pattern.literal", Shape::Text, "The exact text."),
    Key::new(
        "pattern.word",
        Shape::Text,
        "The exact text, not inside a longer word.",
    ),
    Key::new(
        "pattern.regex",
        Shape::Text,
        "A regular expression in the syntax of the `regex` crate.",
    ),
    Key::new(
        "pattern.region",
        Shape::OneOrMore(regions),
        "The regions it is looked for in: where all of them are at once.",
    ),
    Key::new(
        "pattern.fold",
        Shape::OneOrMore(folds),
        "What it does not tell apart.",
    ),
    Key::new(
        "pattern.arg",
        Shape::Text,
        "A dotted glob on the argument it is looked for in.",
    ),
];

const WITHIN: Keys = &[
    Key::new(
        "match.within.lines",
        Shape::Whole(1, LINES),
        "At most so many lines are touched.",
    ),
    Key::new(
        "match.within.chars",
        Shape::Whole(1, CHARS),
        "At most so many characters.",
    ),
    Key::new(
        "match.within.part",
        Shape::Flag,
        "Anywhere in the same part.",
    ),
    Key::new(
        "match.within.message",
        Shape::Flag,
        "Anywhere in the same reply.",
    ),
];

const CAPTURE: Keys = &[
    Key::new(
        "match.capture.group",
        Shape::Text,
        "The group, by number or name; `0` is the whole match. Default: the first, if there is one.",
    ),
    Key::new(
        "match.capture.entropy",
        Shape::Decimal(1, 16_000),
        "Least Shannon entropy, in bits per character.",
    ),
    Key::new(
        "match.capture.random",
        Shape::Flag,
        "Whether it must look random for its alphabet: hexadecimal digits, base64, or any.",
    )
    .or("false"),
    Key::new(
        "match.capture.not-in",
        Shape::Texts,
        "Texts that do not count, or `@list`; `*` and `?` are wildcards, case does not matter.",
    ),
];

const REPETITION: Keys = &[
    Key::new(
        "match.repetition.unit-chars",
        Shape::Pair(1 << 16),
        "Shortest and longest unit that is repeated, in characters.",
    )
    .or("[20, 400]"),
    Key::new(
        "match.repetition.times",
        Shape::Whole(2, 1000),
        "How often it stands in a row.",
    )
    .or("4"),
    Key::new(
        "match.repetition.near",
        Shape::Flag,
        "Whether lines and sentences that are nearly the same count as well.",
    )
    .or("false"),
    Key::new(
        "match.repetition.turns",
        Shape::Whole(2, 100),
        "So many replies in a row that are nearly the same count as well. Default: replies are not compared.",
    ),
];

const LIMIT: Keys = &[
    Key::new(
        "match.limit.bytes",
        Shape::Whole(1, i64::MAX),
        "Most bytes of a part; of tool input, of the arguments that `args` names, decoded.",
    ),
    Key::new(
        "match.limit.lines",
        Shape::Whole(1, i64::MAX),
        "Most lines of a part; of tool input, of the arguments that `args` names, decoded.",
    ),
    Key::new(
        "match.limit.deltas",
        Shape::Whole(1, i64::MAX),
        "Most deltas of a part: depends on how the reply is cut.",
    ),
    Key::new(
        "match.limit.tokens",
        Shape::Whole(1, i64::MAX),
        "Most tokens of a part, estimated unless the host counts them; of tool input, of the arguments that `args` names, decoded.",
    ),
    Key::new(
        "match.limit.seconds",
        Shape::Decimal(1, u32::MAX),
        "Longest time from the opening of the stream.",
    ),
    Key::new(
        "match.limit.stall",
        Shape::Decimal(1, u32::MAX),
        "Longest time between two deltas, in seconds.",
    ),
];

const SCRIPT: Keys = &[Key::new(
    "match.script.expect",
    Shape::ListOf(scripts),
    "The scripts and languages that are right.",
)];

const UNKNOWN_NAME: Keys = &[
    Key::new(
        "match.unknown-name.known",
        Shape::Texts,
        "Names that are known, or `@list`.",
    ),
    Key::new(
        "match.unknown-name.of",
        Shape::ListOf(named),
        "What is named: packages that code imports, files that a code span names, tools that are called.",
    )
    .or("[\"package\"]"),
];

const DOOM_LOOP: Keys = &[
    Key::new(
        "match.doom-loop.times",
        Shape::Whole(2, 1000),
        "How often in a row.",
    )
    .or("3"),
    Key::new(
        "match.doom-loop.differing",
        Shape::Whole(0, 999),
        "In how many arguments a call may differ from the one before, fewer than half of them; such calls are a loop from 20 in a row on, or from `times` if that is more.",
    )
    .or("0"),
];

const AST: Keys = &[
    Key::new(
        "match.ast.languages",
        Shape::ListOf(languages),
        "The languages that the code may be in.",
    ),
    Key::new(
        "match.ast.any",
        Shape::Texts,
        "Patterns of ast-grep: code with metavariables such as `$X` and `$$$BODY`.",
    ),
    Key::new(
        "match.ast.inside",
        Shape::Texts,
        "Patterns of ast-grep that the match must stand in, any of them. Default: anywhere.",
    ),
    Key::new(
        "match.ast.not",
        Shape::Texts,
        "Patterns of ast-grep that the match must not match besides.",
    ),
];

const RETRY: Keys = &[
    Key::new(
        "retry.max",
        Shape::Whole(0, 100),
        "Most retries of the rule in one turn.",
    )
    .or("2"),
    Key::new(
        "retry.model",
        Shape::Text,
        "The model to take, by a name that the host resolves. Default: the same.",
    ),
    Key::new(
        "retry.temperature",
        Shape::Decimal(0, 2000),
        "The temperature to take. Default: the same.",
    ),
    Key::new(
        "retry.then",
        Shape::OneOf(thens),
        "What it does once its retries are spent. Default: `warn`; `abort` if it is critical.",
    ),
];

const REPEAT: Keys = &[
    Key::new(
        "repeat.cooldown-turns",
        Shape::Whole(1, MANY),
        "Turns that must begin before it acts again.",
    ),
    Key::new(
        "repeat.per-turn",
        Shape::Whole(1, MANY),
        "Most times in one turn.",
    ),
    Key::new(
        "repeat.per-session",
        Shape::Whole(1, MANY),
        "Most times in one session.",
    ),
];

const ALLOWANCE: Keys = &[
    Key::new(
        "allowance.per-turn",
        Shape::Whole(1, MANY),
        "Most acts in one turn.",
    ),
    Key::new(
        "allowance.per-session",
        Shape::Whole(1, MANY),
        "Most acts in one session.",
    ),
];

const CONSULT: Keys = &[
    Key::new(
        "consult.prompt",
        Shape::Text,
        "What it is asked: a template.",
    ),
    Key::new(
        "consult.model",
        Shape::Text,
        "The model to take, by a name that the host resolves. Default: the session's.",
    ),
    Key::new(
        "consult.timeout",
        Shape::Decimal(1, 3_600_000),
        "How long it may take, in seconds.",
    )
    .or("30"),
    Key::new(
        "consult.tools",
        Shape::Texts,
        "Globs on the tools it may use, or `@list`; `!` excludes.",
    )
    .or("[\"bash\", \"read\", \"grep\", \"glob\"]"),
    Key::new(
        "consult.block-on-failure",
        Shape::Flag,
        "Whether the tool call is blocked where there is no answer.",
    )
    .or("false"),
];

const HEADER: Keys = &[
    Key::new("header.name", Shape::Text, "Its name."),
    Key::new("header.value", Shape::Text, "Its value."),
];

const EXAMPLES: Keys = &[
    Key::new(
        "examples.match",
        Shape::Texts,
        "Each of these breaks the rule.",
    ),
    Key::new("examples.no-match", Shape::Texts, "None of these does."),
];

/// An entry of `case`: exactly one of the first three, what must come of it, and options.
pub(super) const CASE: Keys = &[
    Key::new("case.text", Shape::Text, "A text part."),
    Key::new("case.reasoning", Shape::Text, "A reasoning part."),
    Key::new(
        "case.input",
        Shape::Text,
        "A tool's input as the model writes it.",
    ),
    Key::new("case.tool", Shape::Text, "The tool's name, with `input`."),
    Key::new(
        "case.path",
        Shape::Text,
        "The file it is about, with `input` that does not say.",
    ),
    Key::new(
        "case.expect",
        Shape::OneOf(expectations),
        "What the rule must do.",
    ),
    Key::new(
        "case.by-byte",
        Shape::Whole(1, i64::MAX),
        "Most bytes that may be delivered before that is certain.",
    ),
];

/// `[[allow]]`.
pub(super) const ALLOW: Keys = &[
    Key::new(
        "allow.rules",
        Shape::Texts,
        "Globs on full ids of rules, or `@list`.",
    ),
    Key::new(
        "allow.paths",
        Shape::Texts,
        "Globs on the file, or `@list`; `!` excludes.",
    ),
    Key::new(
        "allow.tools",
        Shape::Texts,
        "Globs on the tool's name, or `@list`; `!` excludes.",
    ),
    Key::new(
        "allow.text",
        Shape::Texts,
        "Texts of matches, or `@list`; `*` and `?` are wildcards, case does not matter.",
    ),
    Key::new("allow.reason", Shape::Text, "Why."),
    Key::new(
        "allow.until",
        Shape::Date,
        "The last day on which it holds.",
    ),
];
