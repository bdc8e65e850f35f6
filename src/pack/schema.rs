//! The keys of a rule file: one table, from which everything that concerns a key is derived.
//!
//! A row names a key, describes it for authors, says where it may be written, and gives typed access to the field
//! that holds its value ([`key`]) in a format that is read, checked and written ([`format`]). Derived from the rows:
//!
//! - the loader (`check`) reads tables, reports unknown and missing keys, and checks rules made in code;
//! - `[defaults]`, overrides and `append` combine the fields (`check::layer`);
//! - `ttsr explain`, `list` and `fmt` write values and order keys ([`language`](super::language));
//! - editors get a JSON Schema ([`json`](mod@json)).
//!
//! A new key of a rule is one row here and one field in `rule`. What keys mean together is checked by
//! `check::semantics`.

mod format;
pub(super) mod json;
mod key;
mod value;

use format::{
    Day, ExpandedStrings, ExpectedAction, Flag, Globs, Grants, GroupReference, Integer,
    IntegerRange, KnownNamesFormat, ListOf, LiteralStrings, NameList, OneOf, OneOrMore,
    OptionalOneOf, PackNames, RelatedCommand, RetryThen, RuleGlobs, TableArray, Thousandths,
    WordsFormat, check_ast, rule_id,
};
#[cfg(debug_assertions)]
pub(in crate::pack) use key::is_key;
use key::{
    AppendTable, EmptyTable, Field, FieldSlot, KeySite, KeyTable, Merge, ValidatedOnly, slot, table,
};
pub(in crate::pack) use key::{
    Key, KeyInfo, KeyRole, KeyShape, Shape, TableKind, append, check, is_at_or_below, read_table,
    replace, shapes, values,
};
use toml::Spanned;
use toml::de::DeValue;
use ttsr_views::detect::repetition;
pub use value::KeyValue;

use super::check::actions::{header_name, header_value};
use super::check::draft::{Draft, WrittenKey};
use super::check::fault::Fault;
use super::check::pattern::FORM;
use super::check::reader::RuleReader;
use super::check::rule::check_examples;
use super::check::scope::{self, GlobKind};
use super::check::{FileHeader, names};
use super::compose::WrittenAllow;
use super::diagnostic::code;
use crate::pack::load_context::LoadContext;
use crate::rule::{
    Action, Allowance, Ast, Bound, Capture, Case, Channel, Consult, Count, DoomLoop, Examples,
    Header, Pattern, PatternKind, Per, Repeat, Repetition, Retry, Script, UnknownName, Within,
};

/// The largest number of lines of a window.
const LINES: i64 = 10_000;
/// The largest number of characters of a window.
const CHARS: i64 = 1 << 20;
/// The largest value of a count that has no bound of its own.
const MANY: i64 = 1_000_000_000;

/// The channels on which a part has a tool.
pub(in crate::pack) const TOOL_CHANNELS: &[Channel] = &[Channel::ToolInput, Channel::ToolOutput];
/// The channels on which a part has arguments and a file.
pub(in crate::pack) const CALL_CHANNELS: &[Channel] = &[Channel::ToolInput];

/// The channel on which a part has the outcome of a tool call.
pub(in crate::pack) const OUTPUT_CHANNELS: &[Channel] = &[Channel::ToolOutput];

/// The actions that may follow when the retries of a rule are used up.
pub(super) const THEN: [Action; 5] = RetryThen::ALL;

/// A whole rule file.
pub(super) const TOP: &[Key<()>] = &[
    Key::new(
        "schema",
        &Section(|| Shape::Schema),
        "The version of the rule language: 1.",
    )
    .required("begin the file with `schema = 1`"),
    Key::new(
        "pack",
        &Section(|| Shape::Table(shapes(PACK, TableKind::Rule))),
        "The name of the pack, its requirements and its permissions.",
    )
    .required("add a table `[pack]` with `name = \"…\"`"),
    Key::new(
        "defaults",
        &Section(|| Shape::Table(shapes(RULE, TableKind::Defaults))),
        "Values for the rules of this file that do not set the key.",
    ),
    Key::new(
        "lists",
        &Section(|| Shape::NamedTexts),
        "Lists of texts. A key that takes several texts can refer to a list as `@list`.",
    ),
    Key::new(
        "patterns",
        &Section(|| Shape::NamedText),
        "Fragments: named pieces of regular expressions. A `regex` of the pack uses a fragment as `(?&name)`.",
    )
    .form("write `[patterns]` and below it `name = '…'`"),
    Key::new(
        "rule",
        &Section(|| Shape::NamedTables(shapes(RULE, TableKind::Rule))),
        "The rules, by their ids.",
    )
    .form("a rule begins with its id: `[rule.its-id]`, with one bracket"),
    Key::new(
        "override",
        &Section(|| Shape::NamedTables(shapes(RULE, TableKind::Override))),
        "Changes to rules of packs that this one extends, by their full ids.",
    ),
    Key::new(
        "allow",
        &Section(|| Shape::Tables(shapes(ALLOW, TableKind::Rule))),
        "Places where rules do not apply, with a reason.",
    )
    .form("it is a list of tables: write `[[allow]]`, with two brackets"),
];

/// `[pack]`.
pub(super) const PACK: &[Key<FileHeader>] = &[
    Key::new(
        "name",
        slot!(FileHeader: pack, WordsFormat::checked(|name| names::pack_name_fault(name).into_iter().collect())),
        "The name of the pack. The full id of a rule is `name/rule`.",
    )
    .required("add `name = \"…\"`: the full id of a rule is `name/rule`"),
    Key::new(
        "version",
        slot!(FileHeader: version, WordsFormat::checked(|text| names::version(text).into_iter().collect())),
        "The version of the pack: three numbers.",
    ),
    Key::new(
        "description",
        slot!(FileHeader: description, WordsFormat::PLAIN),
        "The purpose of the pack.",
    ),
    Key::new(
        "engine",
        &ValidatedOnly(WordsFormat::checked(|text| {
            names::engine(text).into_iter().collect()
        })),
        "The oldest version of ttsr that reads the pack, such as `>=0.1`.",
    ),
    Key::new("authors", &ValidatedOnly(WordsFormat::PLAIN), "The authors of the pack."),
    Key::new(
        "extends",
        slot!(FileHeader: extends, PackNames),
        "Packs whose rules and lists are part of this one.",
    ),
    Key::new(
        "grants",
        slot!(FileHeader: grants, Grants),
        "Every action above `warn` that the rules of the pack may take.",
    ),
    Key::new(
        "license",
        slot!(FileHeader: license, WordsFormat::PLAIN),
        "The licence, as an SPDX expression.",
    ),
    Key::new(
        "docs",
        slot!(FileHeader: docs, WordsFormat::PLAIN),
        "The address of further documentation.",
    ),
    Key::new(
        "tools",
        slot!(FileHeader: tools, Globs(GlobKind::Name)),
        "Globs on names of your own tools, or `@list`. `ttsr check` does not report these names as misspelt.",
    ),
];

/// `[rule.<id>]`. The rows with [`inherits`](Key::inherits) are also those of `[defaults]`, and the rows with
/// [`appends`](Key::appends) those of `append`.
pub(super) const RULE: &[Key<Draft>] = &[
    Key::new(
        "description",
        slot!(Draft: rule.description, WordsFormat::FILLED),
        "The subject of the rule, in a sentence.",
    )
    .required("describe the rule in a sentence"),
    Key::new(
        "severity",
        slot!(Draft: rule.severity, OneOf),
        "The severity of a hit. It selects the action unless the rule names one.",
    )
    .or("\"warning\"")
    .inherits(),
    Key::new(
        "action",
        slot!(Draft: rule.action, OneOf),
        "The action on a hit. Default: info observes, warning injects, error retries, critical aborts.",
    )
    .inherits(),
    Key::new(
        "mode",
        slot!(Draft: rule.mode, OneOf),
        "`live` takes the action, `shadow` only logs it.",
    )
    .or("\"live\"")
    .inherits(),
    Key::new(
        "priority",
        slot!(Draft: rule.priority, Integer(i32::MIN as i64, i32::MAX as i64)),
        "If two rules have the same action at the same byte, the rule with the higher number wins.",
    )
    .or("0")
    .inherits(),
    Key::new(
        "status",
        slot!(Draft: rule.status, OneOf),
        "The maturity of the rule.",
    )
    .or("\"stable\"")
    .inherits(),
    Key::new(
        "replaced-by",
        slot!(Draft: rule.replaced_by, WordsFormat::checked(rule_id)),
        "The full id of the rule to use instead of a deprecated one.",
    ),
    Key::new(
        "tags",
        slot!(Draft: rule.tags, ExpandedStrings::ANY),
        "Search terms for the rule, or `@list`.",
    )
    .inherits()
    .appends(),
    Key::new(
        "docs",
        slot!(Draft: rule.docs, WordsFormat::FILLED),
        "The address of further documentation.",
    )
    .inherits(),
    Key::new(
        "references",
        slot!(Draft: rule.references, ExpandedStrings { check: names::address_fault }),
        "Addresses of sources and discussions, or `@list`.",
    )
    .inherits()
    .appends(),
    Key::new(
        "why",
        slot!(Draft: rule.why, WordsFormat::FILLED),
        "The reason for the rule.",
    ),
    Key::new(
        "on",
        slot!(Draft: rule.on, ListOf),
        "The channels that the rule reads.",
    )
    .or("[\"text\", \"tool-input\"]")
    .inherits()
    .appends(),
    Key::new(
        "agents",
        slot!(Draft: rule.agents, Globs(GlobKind::Name)),
        "Globs on the name of the agent, or `@list`; `!` excludes. Default: every agent.",
    )
    .inherits()
    .appends(),
    Key::new(
        "models",
        slot!(Draft: rule.models, Globs(GlobKind::Name)),
        "Globs on the name of the model, or `@list`; `!` excludes. Default: every model.",
    )
    .inherits()
    .appends(),
    Key::new(
        "providers",
        slot!(Draft: rule.providers, Globs(GlobKind::Name)),
        "Globs on the name of the provider, or `@list`; `!` excludes. Default: every provider.",
    )
    .inherits()
    .appends(),
    Key::new(
        "tools",
        slot!(Draft: rule.tools, Globs(GlobKind::Name)),
        "Globs on the name of the tool, or `@list`; `!` excludes. Default: every tool.",
    )
    .inherits()
    .appends()
    .for_channels(TOOL_CHANNELS),
    Key::new(
        "args",
        slot!(Draft: rule.args, Globs(GlobKind::Argument)),
        "Dotted globs on the argument, or `@list`. `$raw` is input that is not JSON, `$keys` are the keys of objects. Default: every argument, and keys.",
    )
    .inherits()
    .appends()
    .for_channels(CALL_CHANNELS),
    Key::new(
        "paths",
        slot!(Draft: rule.paths, Globs(GlobKind::Path)),
        "Globs on the file, or `@list`; `!` excludes. Default: every file, and calls without a file.",
    )
    .inherits()
    .appends()
    .for_channels(CALL_CHANNELS),
    Key::new(
        "outcome",
        slot!(Draft: rule.outcome, OptionalOneOf),
        "The outcome of the tool call whose output the rule reads (`tool-output`). Default: either.",
    )
    .inherits()
    .for_channels(OUTPUT_CHANNELS),
    Key::new(
        "match",
        &KeyTable::<Draft, Draft> {
            get: |draft| Some(draft),
            get_mut: |draft| draft,
            swap: |one, other| std::mem::swap(&mut one.rule.condition, &mut other.rule.condition),
            keys: MATCH,
            merge: Merge::ByKey,
            empty: EmptyTable::Ignored,
            finish: |_, _, _| {},
        },
        "The condition under which the rule is broken.",
    )
    .required(FORM)
    .form(FORM)
    .appends(),
    Key::new(
        "hold",
        slot!(Draft: rule.hold, Flag),
        "If true, text that could still break the rule is held back.",
    )
    .or("false")
    .inherits(),
    Key::new(
        "replacement",
        slot!(Draft: rule.replacement, WordsFormat::PLAIN),
        "The text that replaces redacted text.",
    )
    .or("\"[redacted]\"")
    .inherits()
    .for_action(Action::Redact),
    Key::new(
        "partial",
        slot!(Draft: rule.partial, OneOf),
        "The part of a reply that is kept when a retry cuts it.",
    )
    .or("\"discard\"")
    .inherits()
    .for_action(Action::Retry),
    Key::new(
        "retry",
        table!(Draft: rule.retry, RETRY, Merge::ByKey, EmptyTable::Refused),
        "The bounds of the rule's retries, and their model.",
    )
    .form("write `retry = { max = 2 }`")
    .inherits()
    .for_action(Action::Retry),
    Key::new(
        "repeat",
        table!(Draft: rule.repeat or Repeat::default, REPEAT, Merge::ByKey, EmptyTable::Refused),
        "How often the rule may act, and when it may act again.",
    )
    .form("write `repeat = { per-session = 1 }`, or `per-turn` or `cooldown-turns`")
    .inherits(),
    Key::new(
        "allowance",
        table!(Draft: rule.allowance, ALLOWANCE, Merge::ByKey, EmptyTable::Refused),
        "How often hits of the rule count; later ones are ignored.",
    )
    .form("write `allowance = { per-turn = 2 }`, or `per-session`")
    .inherits(),
    Key::new(
        "consult",
        table!(Draft: rule.consult or || Consult::new(""), CONSULT, Merge::ByKey, EmptyTable::Refused),
        "The sub-agent that `consult` asks, and its prompt.",
    )
    .for_action(Action::Consult),
    Key::new(
        "header",
        table!(Draft: rule.header or || Header { name: String::new(), value: String::new() }, HEADER, Merge::ByKey, EmptyTable::Refused),
        "The header that `set-header` sets.",
    )
    .for_action(Action::SetHeader),
    Key::new(
        "instead",
        slot!(Draft: rule.instead, WordsFormat::FILLED),
        "What to do instead, for the message.",
    ),
    Key::new(
        "message",
        slot!(Draft: rule.message, WordsFormat::TEMPLATE),
        "The message to the model: a template. Default: id, description and `instead`.",
    )
    .inherits(),
    Key::new(
        "append",
        &AppendTable(|| RULE),
        "Entries to add to lists instead of replacing them.",
    )
    .overrides_only(),
    Key::new(
        "examples",
        table!(Draft: rule.examples, EXAMPLES, Merge::ByKey, EmptyTable::Ignored, check_examples),
        "Texts that must break the rule, and texts that must not.",
    )
    .form("write `examples.match = [\"…\"]` and `examples.no-match = [\"…\"]`")
    .appends(),
    Key::new(
        "case",
        slot!(Draft: rule.cases, TableArray),
        "Replies with the result that each must have.",
    )
    .form("it is a list of tables: write `[[rule.its-id.case]]`, with two brackets")
    .appends(),
];

/// `match`.
pub(in crate::pack) const MATCH: &[Key<Draft>] = &[
    Key::new(
        "match.any",
        slot!(Draft: rule.condition.any, TableArray),
        "The rule is broken where any of these matches.",
    )
    .role(KeyRole::Trigger)
    .appends(),
    Key::new(
        "match.all",
        slot!(Draft: rule.condition.all, TableArray),
        "The rule is broken where all of these match, in any order, `within` a window.",
    )
    .role(KeyRole::Trigger)
    .appends(),
    Key::new(
        "match.sequence",
        slot!(Draft: rule.condition.sequence, TableArray),
        "The rule is broken where these match one after the other, `within` a window.",
    )
    .role(KeyRole::Trigger)
    .appends(),
    Key::new(
        "match.none",
        slot!(Draft: rule.condition.none, TableArray),
        "The rule is not broken where one of these matches `within` a window of the match.",
    )
    .appends(),
    Key::new(
        "match.within",
        &WithinTable,
        "The size of the window: exactly one of its keys. Default: one line for `none`, the part for `all` and `sequence`.",
    )
    .form("write `within = { lines = 3 }`, or `chars`, `part` or `message` instead of `lines`"),
    Key::new(
        "match.first",
        slot!(Draft: rule.condition.first, Integer(1, CHARS)),
        "The match ends within this number of characters from the beginning.",
    ),
    Key::new(
        "match.last",
        slot!(Draft: rule.condition.last, Integer(1, CHARS)),
        "The match begins within this number of characters before the end.",
    ),
    Key::new(
        "match.line",
        slot!(Draft: rule.condition.line, Flag),
        "If true, the match is a whole line.",
    )
    .or("false"),
    Key::new(
        "match.count",
        &FieldSlot::<Draft, _, _> {
            get: |draft| draft.rule.condition.count.as_ref().map(|count| &count.times),
            get_mut: |draft| &mut count(draft).times,
            format: Integer(1, MANY),
        },
        "The number of matches that break the rule.",
    )
    .or("1"),
    Key::new(
        "match.per",
        &FieldSlot::<Draft, _, _> {
            get: |draft| draft.rule.condition.count.as_ref().map(|count| &count.per),
            get_mut: |draft| &mut count(draft).per,
            format: OneOf,
        },
        "The extent over which matches are counted.",
    )
    .or("\"part\""),
    Key::new(
        "match.capture",
        table!(Draft: rule.condition.capture or Capture::default, CAPTURE, Merge::Whole, EmptyTable::Set),
        "Conditions on the match, or on a group of it.",
    ),
    Key::new(
        "match.region",
        slot!(Draft: region, OneOrMore { is_ordered: true }),
        "The regions in which the patterns are searched, unless they set their own.",
    )
    .role(KeyRole::Staged),
    Key::new(
        "match.fold",
        slot!(Draft: fold, OneOrMore { is_ordered: false }),
        "The differences that the patterns ignore, unless they set their own.",
    )
    .form(FOLD_FORM)
    .role(KeyRole::Staged),
    Key::new(
        "match.repetition",
        table!(Draft: rule.condition.repetition or repetition, REPETITION, Merge::Whole, EmptyTable::Set),
        "The reply repeats itself.",
    )
    .role(KeyRole::Trigger),
    Key::new(
        "match.leak",
        slot!(Draft: rule.condition.leak, Flag),
        "The reply contains control tokens of a model.",
    )
    .or("false")
    .role(KeyRole::Trigger),
    Key::new(
        "match.limit",
        table!(Draft: rule.condition.limit or Bound::default, LIMIT, Merge::Whole, EmptyTable::Set),
        "The reply is too long or too slow.",
    )
    .role(KeyRole::Trigger),
    Key::new(
        "match.script",
        table!(Draft: rule.condition.script or Script::default, SCRIPT, Merge::Whole, EmptyTable::Set),
        "The reply is in the wrong language.",
    )
    .role(KeyRole::Trigger),
    Key::new(
        "match.unknown-name",
        table!(Draft: rule.condition.unknown_name or UnknownName::default, UNKNOWN_NAME, Merge::Whole, EmptyTable::Set),
        "The reply names a package, a file or a tool that does not exist.",
    )
    .role(KeyRole::Trigger),
    Key::new(
        "match.doom-loop",
        table!(Draft: rule.condition.doom_loop or || DoomLoop { times: 3, differing: 0 }, DOOM_LOOP, Merge::Whole, EmptyTable::Set),
        "The same tool call is made again and again.",
    )
    .role(KeyRole::Trigger),
    Key::new(
        "match.ast",
        table!(Draft: rule.condition.ast or Ast::default, AST, Merge::Whole, EmptyTable::Set, check_ast),
        "Code with a certain syntax tree, in the lines that an edit adds or in a fenced block. Needs the feature `ast`.",
    )
    .role(KeyRole::Trigger),
];

const FOLD_FORM: &str = "list the differences to ignore: `fold = [\"case\"]`";

fn count(draft: &mut Draft) -> &mut Count {
    draft.rule.condition.count.get_or_insert(Count {
        times: 1,
        per: Per::Part,
    })
}

fn repetition() -> Repetition {
    Repetition {
        unit_chars: (20, 400),
        times: 4,
        near: false,
        turns: None,
    }
}

/// The slot of a requirement on the words of a command.
macro_rules! requirement {
    ($field:ident, $format:expr) => {
        &FieldSlot::<Pattern, _, _> {
            get: |pattern| Some(&pattern.command.as_deref()?.$field),
            get_mut: |pattern| &mut pattern.command.get_or_insert_default().$field,
            format: $format,
        }
    };
}

/// An entry of `any`, `all`, `sequence` or `none`: one alternative, and options.
pub(super) const PATTERN: &[Key<Pattern>] = &[
    Key::new(
        "pattern.literal",
        &FieldSlot::<Pattern, _, _> {
            get: |pattern| text_of(pattern, PatternKind::Literal),
            get_mut: |pattern| text_mut(pattern, PatternKind::Literal),
            format: WordsFormat::PLAIN,
        },
        "The exact text.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "pattern.word",
        &FieldSlot::<Pattern, _, _> {
            get: |pattern| text_of(pattern, PatternKind::Word),
            get_mut: |pattern| text_mut(pattern, PatternKind::Word),
            format: WordsFormat::PLAIN,
        },
        "The exact text, not inside a longer word.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "pattern.regex",
        &FieldSlot::<Pattern, _, _> {
            get: |pattern| text_of(pattern, PatternKind::Regex),
            get_mut: |pattern| text_mut(pattern, PatternKind::Regex),
            format: WordsFormat::PLAIN,
        },
        "A regular expression in the syntax of the `regex` crate. `(?&name)` is the fragment `name` of `[patterns]`.",
    )
    .role(KeyRole::Alternative),
    COMMAND,
    Key::new(
        "pattern.region",
        slot!(Pattern: region, OneOrMore { is_ordered: true }),
        "The regions in which it is searched: the text that is in all of them.",
    ),
    Key::new(
        "pattern.fold",
        slot!(Pattern: fold, OneOrMore { is_ordered: false }),
        "The differences that it ignores.",
    )
    .form(FOLD_FORM),
    Key::new(
        "pattern.arg",
        slot!(Pattern: arg, WordsFormat { is_recorded: true, ..WordsFormat::checked(|arg| scope::fault(GlobKind::Argument, arg).into_iter().collect()) }),
        "A dotted glob on the argument in which it is searched.",
    ),
    Key::new(
        "pattern.unless",
        slot!(Pattern: unless, WordsFormat::FILLED),
        "A regular expression: a match does not count if a match of this one has ended before it, in the same text.",
    ),
    FLAGS,
    NO_FLAGS,
    OPERAND,
    OPERANDS_ALL,
    LAST_OPERAND,
    MIN_OPERANDS,
    MAX_OPERANDS,
    DIRECTORY,
    CODE,
    ENV,
    REDIRECT_TO,
    READS,
    STDIN_IS_CODE,
    FILE_IS_CODE,
    Key::new(
        "pattern.pipe-to",
        requirement!(pipe_to, RelatedCommand),
        "A command that gets the output of this one through a pipe.",
    )
    .form(RELATED_FORM)
    .role(KeyRole::Requirement),
    Key::new(
        "pattern.pipe-from",
        requirement!(pipe_from, RelatedCommand),
        "A command whose output this one gets through a pipe, or runs as code.",
    )
    .form(RELATED_FORM)
    .role(KeyRole::Requirement),
    Key::new(
        "pattern.runs",
        requirement!(runs, RelatedCommand),
        "A command that this one runs: its words, as `sudo` and `find -exec` do, or its script, as `sh -c` does.",
    )
    .form(RELATED_FORM)
    .role(KeyRole::Requirement),
    Key::new(
        "pattern.raw",
        requirement!(raw, WordsFormat::FILLED),
        "A regular expression on the argument as it is written. It counts at the end of the call, if some commands of the call cannot be read.",
    )
    .role(KeyRole::Requirement),
];

/// The keys of a command that another one is piped to or from, or that another one runs.
pub(super) const RELATED: &[Key<Pattern>] = &[
    COMMAND,
    FLAGS,
    NO_FLAGS,
    OPERAND,
    OPERANDS_ALL,
    LAST_OPERAND,
    MIN_OPERANDS,
    MAX_OPERANDS,
    DIRECTORY,
    CODE,
    ENV,
    REDIRECT_TO,
    READS,
    STDIN_IS_CODE,
    FILE_IS_CODE,
];

const RELATED_FORM: &str = "write it as a pattern: `{ command = \"sh\" }`";

const COMMAND: Key<Pattern> = Key::new(
    "pattern.command",
    &FieldSlot::<Pattern, _, _> {
        get: |pattern| text_of(pattern, PatternKind::Command),
        get_mut: |pattern| text_mut(pattern, PatternKind::Command),
        format: WordsFormat::PLAIN,
    },
    "A command that a shell would run: globs on its program and its subcommands, such as `git push`.",
)
.role(KeyRole::Alternative);

const FLAGS: Key<Pattern> = Key::new(
    "pattern.flags",
    requirement!(flags, ExpandedStrings::ANY),
    "Flags that the command has, all of them. `-r|-R` are spellings of one flag, and `-X=DELETE` is a flag with a glob on its value.",
)
.form(FLAGS_FORM)
.role(KeyRole::Requirement);

const NO_FLAGS: Key<Pattern> = Key::new(
    "pattern.no-flags",
    requirement!(no_flags, ExpandedStrings::ANY),
    "Flags that the command does not have. The match is certain when the command ends.",
)
.form(FLAGS_FORM)
.role(KeyRole::Requirement);

const FLAGS_FORM: &str = "such as `[\"-f|--force\"]`";

const OPERAND: Key<Pattern> = Key::new(
    "pattern.operand",
    requirement!(operand, WordsFormat::FILLED),
    "A regular expression that matches in an operand: without quotes, its path normalized, the home directory written `~`.",
)
.role(KeyRole::Requirement);

const OPERANDS_ALL: Key<Pattern> = Key::new(
    "pattern.operands-all",
    requirement!(operands_all, WordsFormat::FILLED),
    "A regular expression that matches in each operand, of which there is at least one. The match is certain when the command ends.",
)
.role(KeyRole::Requirement);

const LAST_OPERAND: Key<Pattern> = Key::new(
    "pattern.last-operand",
    requirement!(last_operand, WordsFormat::FILLED),
    "A regular expression that matches in the last operand. The match is certain when the command ends.",
)
.role(KeyRole::Requirement);

const MIN_OPERANDS: Key<Pattern> = Key::new(
    "pattern.min-operands",
    requirement!(min_operands, Integer(1, OPERANDS)),
    "The smallest number of operands.",
)
.role(KeyRole::Requirement);

const MAX_OPERANDS: Key<Pattern> = Key::new(
    "pattern.max-operands",
    requirement!(max_operands, Integer(0, OPERANDS)),
    "The largest number of operands; 0 for a command without operands. The match is certain when the command ends.",
)
.role(KeyRole::Requirement);

/// The largest number of operands that a pattern can count to.
const OPERANDS: i64 = 1000;

const DIRECTORY: Key<Pattern> = Key::new(
    "pattern.directory",
    requirement!(directory, WordsFormat::FILLED),
    "A regular expression that matches the working directory, if `cd` or `pushd` has changed it before the command. A relative path begins at the directory of the text.",
)
.role(KeyRole::Requirement);

const CODE: Key<Pattern> = Key::new(
    "pattern.code",
    requirement!(code, WordsFormat::FILLED),
    "A regular expression that matches in the code that the program runs: the value of `-c`, `-e` and the like, a statement as an operand, or a constant standard input.",
)
.role(KeyRole::Requirement);

const ENV: Key<Pattern> = Key::new(
    "pattern.env",
    requirement!(env, ExpandedStrings::ANY),
    "Globs on variables that are set for the command, one of which applies: `NAME` or `NAME=value`.",
)
.form("such as `[\"NODE_TLS_REJECT_UNAUTHORIZED=0\"]`")
.role(KeyRole::Requirement);

const REDIRECT_TO: Key<Pattern> = Key::new(
    "pattern.redirect-to",
    requirement!(redirect_to, ExpandedStrings::ANY),
    "Globs on the files that the command writes by a redirection, one of which applies.",
)
.form("such as `[\"/etc/\"]`")
.role(KeyRole::Requirement);

const READS: Key<Pattern> = Key::new(
    "pattern.reads",
    requirement!(reads, ExpandedStrings::ANY),
    "Globs on the files that the command reads, one of which applies: operands, `@file`, `<`, and files read by commands whose output it gets.",
)
.form("such as `[\".env*\", \"~/.ssh/\"]`")
.role(KeyRole::Requirement);

const STDIN_IS_CODE: Key<Pattern> = Key::new(
    "pattern.stdin-is-code",
    requirement!(stdin_is_code, Flag),
    "The command runs its standard input, or the output of another command, as code.",
)
.role(KeyRole::Requirement);

const FILE_IS_CODE: Key<Pattern> = Key::new(
    "pattern.file-is-code",
    requirement!(file_is_code, Flag),
    "The command runs the code of a file that an earlier command of the same call has written.",
)
.role(KeyRole::Requirement);

fn text_of(pattern: &Pattern, kind: PatternKind) -> Option<&String> {
    (pattern.kind == kind).then_some(&pattern.text)
}

fn text_mut(pattern: &mut Pattern, kind: PatternKind) -> &mut String {
    pattern.kind = kind;
    &mut pattern.text
}

/// The keys of `match.within`, each in a field.
#[derive(Debug, Default)]
struct DetectorWindow {
    lines: Option<u32>,
    chars: Option<u32>,
    part: bool,
    message: bool,
}

impl DetectorWindow {
    fn from_within(within: Within) -> DetectorWindow {
        let mut window = DetectorWindow::default();
        match within {
            Within::Lines(lines) => window.lines = Some(lines),
            Within::Chars(chars) => window.chars = Some(chars),
            Within::Part => window.part = true,
            Within::Message => window.message = true,
        }
        window
    }

    fn within(&self) -> Option<Within> {
        let lines = self.lines.map(Within::Lines);
        let chars = self.chars.map(Within::Chars);
        let part = self.part.then_some(Within::Part);
        let message = self.message.then_some(Within::Message);
        lines.or(chars).or(part).or(message)
    }
}

const WITHIN: &[Key<DetectorWindow>] = &[
    Key::new(
        "match.within.lines",
        slot!(DetectorWindow: lines, Integer(1, LINES)),
        "The largest number of lines from the first match to the last.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "match.within.chars",
        slot!(DetectorWindow: chars, Integer(1, CHARS)),
        "The largest number of characters from the first match to the last.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "match.within.part",
        slot!(DetectorWindow: part, Flag),
        "Anywhere in the same part.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "match.within.message",
        slot!(DetectorWindow: message, Flag),
        "Anywhere in the same reply.",
    )
    .role(KeyRole::Alternative),
];

/// `match.within`: a table in a file, an enum in a rule.
struct WithinTable;

impl Field<Draft> for WithinTable {
    fn shape(&self, kind: TableKind) -> Shape {
        Shape::Table(shapes(WITHIN, kind))
    }

    fn read(
        &self,
        site: &KeySite<'_>,
        value: &Spanned<DeValue<'_>>,
        reader: &mut RuleReader<'_>,
        to: &mut Draft,
    ) {
        let Some(table) = reader.table(value, "`within`", site.head.form) else {
            return;
        };
        if table.is_empty() {
            reader.record_key(site.head.path, site.span.clone());
        }
        let mut window = DetectorWindow::default();
        let place = ("`within`", value.span());
        read_table(WITHIN, site.kind, table, place, reader, &mut window);
        for key in ["part", "message"] {
            let value = table.get(key);
            if let Some(value) = value.filter(|value| value.get_ref().as_bool() == Some(false)) {
                let fault = Fault::new(&code::BAD_VALUE, format!("`{key}` can only be true"));
                let help = format!("write `{key} = true` or another window");
                reader.fault(fault.with_help(help), value.span());
            }
        }
        if table.len() != 1 {
            let message = "`within` has exactly one of `lines`, `chars`, `part`, `message`";
            let fault = Fault::new(&code::BAD_VALUE, message).with_help(
                "write `match.within = { lines = 3 }` or `match.within = { part = true }`",
            );
            reader.fault(fault, value.span());
        }
        to.rule.condition.within = window.within();
    }

    fn write(&self, from: &Draft) -> KeyValue {
        let within = from.rule.condition.within;
        within.map_or(KeyValue::Absent, |within| {
            KeyValue::Table(values(WITHIN, &DetectorWindow::from_within(within)))
        })
    }

    fn swap(&self, draft: &mut Draft, other: &mut Draft) {
        std::mem::swap(
            &mut draft.rule.condition.within,
            &mut other.rule.condition.within,
        );
    }

    fn replace(&self, to: &mut Draft, from: &mut Draft, _: &[WrittenKey]) {
        self.swap(to, from);
    }

    fn append(&self, to: &mut Draft, from: &mut Draft, _: &[WrittenKey]) {
        self.swap(to, from);
    }

    fn check(&self, _: &KeyInfo, draft: &Draft, context: &LoadContext<'_>, found: &mut Vec<Fault>) {
        if let Some(within) = draft.rule.condition.within {
            check(WITHIN, &DetectorWindow::from_within(within), context, found);
        }
    }
}

const CAPTURE: &[Key<Capture>] = &[
    Key::new(
        "match.capture.group",
        slot!(Capture: group, GroupReference),
        "The group, by number or name; `0` is the full match. Default: the first group, if there is one.",
    ),
    Key::new(
        "match.capture.entropy",
        slot!(Capture: entropy, Thousandths(1, 16_000)),
        "The least Shannon entropy, in bits per character.",
    ),
    Key::new(
        "match.capture.random",
        slot!(Capture: random, Flag),
        "If true, the text must look random for its alphabet: hexadecimal digits, base64, or any.",
    )
    .or("false"),
    Key::new(
        "match.capture.checksum",
        slot!(Capture: checksum, OptionalOneOf),
        "The scheme whose check characters must be right, such as `luhn` for payment cards.",
    ),
    Key::new(
        "match.capture.not-in",
        slot!(Capture: not_in, ExpandedStrings::ANY),
        "Texts that do not count, or `@list`. `*` and `?` are wildcards, and case is ignored.",
    ),
];

const REPETITION: &[Key<Repetition>] = &[
    Key::new(
        "match.repetition.unit-chars",
        slot!(Repetition: unit_chars, IntegerRange(repetition::UNIT_BYTES as i64)),
        "The shortest and the longest unit that is repeated, in characters. No unit of more than 4,096 bytes is detected.",
    )
    .or("[20, 400]"),
    Key::new(
        "match.repetition.times",
        slot!(Repetition: times, Integer(2, 1000)),
        "The number of consecutive occurrences of the unit.",
    )
    .or("4"),
    Key::new(
        "match.repetition.near",
        slot!(Repetition: near, Flag),
        "If true, lines and sentences that are nearly the same count as well.",
    )
    .or("false"),
    Key::new(
        "match.repetition.turns",
        slot!(Repetition: turns, Integer(2, 100)),
        "The number of consecutive replies that are nearly the same. Default: replies are not compared.",
    ),
];

const LIMIT: &[Key<Bound>] = &[
    Key::new(
        "match.limit.bytes",
        slot!(Bound: bytes, Integer(1, i64::MAX)),
        "The largest number of bytes of a part. Of tool input, the decoded arguments that `args` selects are counted.",
    ),
    Key::new(
        "match.limit.lines",
        slot!(Bound: lines, Integer(1, i64::MAX)),
        "The largest number of lines of a part. Of tool input, the decoded arguments that `args` selects are counted.",
    ),
    Key::new(
        "match.limit.deltas",
        slot!(Bound: deltas, Integer(1, i64::MAX)),
        "The largest number of deltas of a part. It depends on how the reply is cut.",
    ),
    Key::new(
        "match.limit.tokens",
        slot!(Bound: tokens, Integer(1, i64::MAX)),
        "The largest number of tokens of a part, estimated unless the host counts them. Of tool input, the decoded arguments that `args` selects are counted.",
    ),
    Key::new(
        "match.limit.seconds",
        slot!(Bound: millis, Thousandths(1, u32::MAX)),
        "The longest time since the part opened, in seconds.",
    ),
    Key::new(
        "match.limit.stall",
        slot!(Bound: stall_millis, Thousandths(1, u32::MAX)),
        "The longest time between two deltas, in seconds.",
    ),
];

const SCRIPT: &[Key<Script>] = &[Key::new(
    "match.script.expect",
    slot!(Script: expect, NameList(&Script::NAMES)),
    "The scripts and languages that the reply may be in.",
)];

const UNKNOWN_NAME: &[Key<UnknownName>] = &[
    Key::new(
        "match.unknown-name.known",
        slot!(UnknownName: known, KnownNamesFormat),
        "Names that are known, or `@list`.",
    ),
    Key::new(
        "match.unknown-name.of",
        slot!(UnknownName: of, ListOf),
        "The kinds of names: packages that code imports, files that a code span names, tools that are called.",
    )
    .or("[\"package\"]"),
];

const DOOM_LOOP: &[Key<DoomLoop>] = &[
    Key::new(
        "match.doom-loop.times",
        slot!(DoomLoop: times, Integer(2, 1000)),
        "The number of consecutive calls.",
    )
    .or("3"),
    Key::new(
        "match.doom-loop.differing",
        slot!(DoomLoop: differing, Integer(0, 999)),
        "The number of arguments, fewer than half of them, in which a call may differ from the previous one. Such calls are a loop from 20 in a row on, or from `times` if that is more.",
    )
    .or("0"),
];

const AST: &[Key<Ast>] = &[
    Key::new(
        "match.ast.languages",
        slot!(Ast: languages, NameList(&Ast::LANGUAGES)),
        "The languages that the code may be in.",
    ),
    Key::new(
        "match.ast.any",
        slot!(Ast: any, LiteralStrings { may_be_empty: false }),
        "Patterns of ast-grep: code with metavariables such as `$X` and `$$$BODY`.",
    ),
    Key::new(
        "match.ast.inside",
        slot!(Ast: inside, LiteralStrings { may_be_empty: false }),
        "Patterns of ast-grep, one of which must enclose the match. Default: the match may be anywhere.",
    ),
    Key::new(
        "match.ast.not",
        slot!(Ast: not, LiteralStrings { may_be_empty: false }),
        "Patterns of ast-grep that must not match the same code.",
    ),
];

const RETRY: &[Key<Retry>] = &[
    Key::new(
        "retry.max",
        slot!(Retry: max, Integer(0, 100)),
        "The largest number of retries of the rule in one turn.",
    )
    .or("2"),
    Key::new(
        "retry.model",
        slot!(Retry: model, WordsFormat::FILLED),
        "The model of a retry, by a name that the host resolves. Default: the same model.",
    ),
    Key::new(
        "retry.temperature",
        slot!(Retry: temperature, Thousandths(0, 2000)),
        "The temperature of a retry. Default: the same temperature.",
    ),
    Key::new(
        "retry.then",
        slot!(Retry: then, RetryThen),
        "The action once the retries are used up. Default: `warn`; `abort` if the rule is critical.",
    ),
];

const REPEAT: &[Key<Repeat>] = &[
    Key::new(
        "repeat.cooldown-turns",
        slot!(Repeat: cooldown_turns, Integer(1, MANY)),
        "The number of turns that must begin before the rule acts again.",
    ),
    Key::new(
        "repeat.per-turn",
        slot!(Repeat: per_turn, Integer(1, MANY)),
        "The largest number of times that the rule acts in one turn.",
    ),
    Key::new(
        "repeat.per-session",
        slot!(Repeat: per_session, Integer(1, MANY)),
        "The largest number of times that the rule acts in one session.",
    ),
];

const ALLOWANCE: &[Key<Allowance>] = &[
    Key::new(
        "allowance.per-turn",
        slot!(Allowance: per_turn, Integer(1, MANY)),
        "The largest number of hits that count in one turn.",
    ),
    Key::new(
        "allowance.per-session",
        slot!(Allowance: per_session, Integer(1, MANY)),
        "The largest number of hits that count in one session.",
    ),
];

const CONSULT: &[Key<Consult>] = &[
    Key::new(
        "consult.prompt",
        slot!(Consult: prompt, WordsFormat::TEMPLATE),
        "The prompt of the sub-agent: a template.",
    ),
    Key::new(
        "consult.model",
        slot!(Consult: model, WordsFormat::FILLED),
        "The model of the sub-agent, by a name that the host resolves. Default: the session's model.",
    ),
    Key::new(
        "consult.timeout",
        slot!(Consult: timeout_millis, Thousandths(1, 3_600_000)),
        "The longest time to wait for the answer, in seconds.",
    )
    .or("30"),
    Key::new(
        "consult.tools",
        slot!(Consult: tools, Globs(GlobKind::Name)),
        "Globs on the tools that the sub-agent may use, or `@list`; `!` excludes.",
    )
    .or("[\"bash\", \"read\", \"grep\", \"glob\"]"),
    Key::new(
        "consult.block-on-failure",
        slot!(Consult: blocks_on_failure, Flag),
        "If true, the tool call is blocked when there is no answer.",
    )
    .or("false"),
];

const HEADER: &[Key<Header>] = &[
    Key::new(
        "header.name",
        slot!(Header: name, WordsFormat {
            check: |name| header_name(name).into_iter().collect(),
            convert: str::to_lowercase,
            ..WordsFormat::FILLED
        }),
        "The name of the header.",
    ),
    Key::new(
        "header.value",
        slot!(Header: value, WordsFormat {
            check: |value| header_value(value).into_iter().collect(),
            ..WordsFormat::FILLED
        }),
        "The value of the header.",
    ),
];

const EXAMPLES: &[Key<Examples>] = &[
    Key::new(
        "examples.match",
        slot!(Examples: matching, LiteralStrings { may_be_empty: true }),
        "Each of these texts breaks the rule.",
    )
    .appends(),
    Key::new(
        "examples.no-match",
        slot!(Examples: not_matching, LiteralStrings { may_be_empty: true }),
        "None of these texts breaks the rule.",
    )
    .appends(),
];

/// An entry of `case`: one alternative, the expected result, and options.
pub(super) const CASE: &[Key<Case>] = &[
    Key::new(
        "case.tool",
        slot!(Case: tool, WordsFormat::FILLED),
        "The name of the tool, with `input`.",
    ),
    Key::new(
        "case.path",
        slot!(Case: path, WordsFormat::FILLED),
        "The file of the tool call, with an `input` that does not name it.",
    ),
    Key::new(
        "case.text",
        &FieldSlot::<Case, _, _> {
            get: |case| {
                let other = [Channel::Reasoning, Channel::ToolInput];
                (!other.contains(&case.channel)).then_some(&case.text)
            },
            get_mut: |case| case_text(case, Channel::Text),
            format: WordsFormat::PLAIN,
        },
        "A text part.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "case.reasoning",
        &FieldSlot::<Case, _, _> {
            get: |case| (case.channel == Channel::Reasoning).then_some(&case.text),
            get_mut: |case| case_text(case, Channel::Reasoning),
            format: WordsFormat::PLAIN,
        },
        "A reasoning part.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "case.input",
        &FieldSlot::<Case, _, _> {
            get: |case| (case.channel == Channel::ToolInput).then_some(&case.text),
            get_mut: |case| case_text(case, Channel::ToolInput),
            format: WordsFormat::PLAIN,
        },
        "The input of a tool, as the model writes it.",
    )
    .role(KeyRole::Alternative),
    Key::new(
        "case.expect",
        slot!(Case: expect, ExpectedAction),
        "The action that the rule must take.",
    )
    .required("an action, or `expect = \"nothing\"`"),
    Key::new(
        "case.by-byte",
        slot!(Case: by_byte, Integer(1, i64::MAX)),
        "The largest number of bytes that may be delivered before the action is certain.",
    ),
];

fn case_text(case: &mut Case, channel: Channel) -> &mut String {
    case.channel = channel;
    &mut case.text
}

/// `[[allow]]`.
pub(super) const ALLOW: &[Key<WrittenAllow>] = &[
    Key::new(
        "allow.tools",
        slot!(WrittenAllow: allow.tools, Globs(GlobKind::Name)),
        "Globs on the name of the tool, or `@list`; `!` excludes.",
    ),
    Key::new(
        "allow.paths",
        slot!(WrittenAllow: allow.paths, Globs(GlobKind::Path)),
        "Globs on the file, or `@list`; `!` excludes.",
    ),
    Key::new(
        "allow.rules",
        slot!(WrittenAllow: rules, RuleGlobs),
        "Globs on full ids of rules, or `@list`.",
    )
    .required("write rules as `pack/rule`, or with `*`"),
    Key::new(
        "allow.text",
        slot!(WrittenAllow: allow.text, ExpandedStrings::ANY),
        "Texts of matches, or `@list`. `*` and `?` are wildcards, and case is ignored.",
    ),
    Key::new(
        "allow.reason",
        slot!(WrittenAllow: allow.reason, WordsFormat::FILLED),
        "The reason.",
    )
    .required("give the reason for the exception"),
    Key::new(
        "allow.until",
        slot!(WrittenAllow: allow.until, Day),
        "The last day on which the entry applies.",
    ),
];

/// A table of a rule file that `check::file` reads by itself, because of what it refers to.
struct Section(fn() -> Shape);

impl Field<()> for Section {
    fn shape(&self, _: TableKind) -> Shape {
        (self.0)()
    }

    fn read(&self, _: &KeySite<'_>, _: &Spanned<DeValue<'_>>, _: &mut RuleReader<'_>, (): &mut ()) {
    }
}

/// Returns the keys of `match` that can break a rule and that are set.
pub(super) fn triggers(draft: &Draft) -> Vec<&'static KeyInfo> {
    let rows = MATCH.iter().filter(|key| key.head.role == KeyRole::Trigger);
    let set = rows.filter(|key| key.is_set(draft));
    set.map(|key| &key.head).collect()
}

/// Returns how the top-level key `name` is written; empty if its type says it.
pub(super) fn form(name: &str) -> &'static str {
    let row = TOP.iter().find(|key| key.head.name() == name);
    row.map_or("", |key| key.head.form)
}
