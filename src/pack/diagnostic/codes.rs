//! The table of codes. A code never changes its meaning; new ones may be added.

use super::{Level, LoadErrorKind};

/// A kind of problem.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::pack) struct Code {
    /// The stable name.
    pub(in crate::pack) name: &'static str,
    /// The level; a pack with an error does not load.
    pub(in crate::pack) level: Level,
    /// The kind of a load error that has only problems of this kind.
    pub(in crate::pack) kind: LoadErrorKind,
}

macro_rules! codes {
    ($($(#[$attribute:meta])* $ident:ident $name:literal $level:ident $kind:ident $meaning:literal)*) => {
        /// A constant for each code.
        pub(in crate::pack) mod code {
            use super::{Code, Level, LoadErrorKind};
            $($(#[$attribute])* pub(in crate::pack) static $ident: Code =
                Code { name: $name, level: Level::$level, kind: LoadErrorKind::$kind };)*
        }
        /// Every code with its meaning.
        pub(super) const CODES: &[(&str, &str)] = &[$(($name, $meaning)),*];
    };
}

codes! {
    UNREADABLE "unreadable" Error Io "a file or folder does not exist or cannot be read"
    NOT_A_FILE "not-a-file" Error Io "a path named `*.toml` is a pipe, a socket or a device"
    OUTSIDE_FOLDER "outside-folder" Error Io "a link leads out of the folder that is loaded"
    LINK_LOOP "link-loop" Warning Io "a link leads to a folder that contains it, so it is not followed"
    NO_RULE_FILE "no-rule-file" Error Io "a folder contains no `*.toml` file"
    TOO_MANY_FILES "too-many-files" Error TooLarge "a folder contains more files than the limit"
    FILE_TOO_LARGE "file-too-large" Error TooLarge "a file, or all files together, are over the limit"
    LOAD_STEPS "load-steps" Error TooLarge "a load takes more steps of work than the limit"
    UNKNOWN_PACK "unknown-pack" Error UnknownPack "there is no pack of that name"
    CYCLIC_EXTENDS "cyclic-extends" Error Invalid "packs that extend each other in a cycle"
    EXTENDS_TOO_DEEP "extends-too-deep" Error Invalid "a chain of `extends` that is too long"
    UNKNOWN_RULE "unknown-rule" Error Invalid "an override or an `allow` of a rule that does not exist"
    CONFLICTING_OVERRIDE "conflicting-override" Error Invalid "two packs override the same key of a rule"
    MISSING_GRANT "missing-grant" Error Invalid "an action that is not in the `grants` of its pack"
    NOT_GRANTED "not-granted" Error Invalid "an action that the host does not grant"
    LOCK_MISMATCH "lock-mismatch" Error Invalid "a pack that differs from the lock"
    COMPILED_DAMAGED "compiled-damaged" Error Compiled "a compiled pack that is damaged, or a file that is none"
    COMPILED_VERSION "compiled-version" Error Compiled "a compiled pack of another version of ttsr"
    COMPILED_COMBINED "compiled-combined" Error Invalid "a compiled pack that is loaded together with other packs"
    EXPIRED_ALLOW "expired-allow" Warning Invalid "an `allow` whose last day is over; it is not applied"
    UNDATED_ALLOW "undated-allow" Warning Invalid "an `allow` with a last day, when the current date is not known; it is not applied"
    UNUSED_ALLOW "unused-allow" Warning Invalid "an `allow` that can never have an effect"
    ENCODING "encoding" Error Invalid "a file is not UTF-8"
    SYNTAX "syntax" Error Invalid "the text is not TOML"
    DUPLICATE_KEY "duplicate-key" Error Invalid "a key, table or rule is written twice in one file"
    UNKNOWN_KEY "unknown-key" Error Invalid "a key that is not known in this place"
    WRONG_TYPE "wrong-type" Error Invalid "a value of the wrong TOML type"
    MISSING_KEY "missing-key" Error Invalid "a required key is missing"
    BAD_VALUE "bad-value" Error Invalid "a value that is not one of the allowed ones"
    EMPTY_VALUE "empty-value" Error Invalid "an empty text or list where a value is required"
    UNSUPPORTED_SCHEMA "unsupported-schema" Error Invalid "a schema number this version does not read"
    ENGINE_TOO_OLD "engine-too-old" Error Invalid "the pack asks for a later version of ttsr"
    PACK_NAME "pack-name" Error Invalid "a malformed pack name"
    RULE_ID "rule-id" Error Invalid "a malformed rule id"
    DUPLICATE_RULE "duplicate-rule" Error Invalid "two rules have the same full id"
    NO_RULES "no-rules" Warning Invalid "a file that defines no rule"
    UNKNOWN_LIST "unknown-list" Error Invalid "an `@name` without a list of that name"
    UNKNOWN_FRAGMENT "unknown-fragment" Error Invalid "a `(?&name)` without a fragment of that name in `[patterns]`"
    CYCLIC_FRAGMENTS "cyclic-fragments" Error Invalid "fragments that use each other in a cycle"
    DUPLICATE_FRAGMENT "duplicate-fragment" Error Invalid "two files of a pack define the same fragment"
    FRAGMENT_NAME "fragment-name" Error Invalid "a malformed fragment name"
    UNUSED_FRAGMENT "unused-fragment" Warning Invalid "a fragment that no pattern of its pack uses"
    GLOB "glob" Error Invalid "a glob that is not valid"
    ARG_PATH "arg-path" Error Invalid "a malformed argument path"
    SCOPE_TOO_LONG "scope-too-long" Error Invalid "more scope entries than the limit, lists included"
    UNREACHABLE_SCOPE "unreachable-scope" Error Invalid "a scope on tool calls in a rule that reads none"
    NO_TRIGGER "no-trigger" Error Invalid "a `match` without a condition that can break the rule"
    NO_EFFECT "no-effect" Error Invalid "a key that has no effect with the others"
    CONTRADICTION "contradiction" Error Invalid "keys or values that exclude each other"
    ACTION_CHANNEL "action-channel" Error Invalid "an action that cannot be done on a channel of the rule"
    CAPTURE_GROUP "capture-group" Error Invalid "a group that a pattern does not have"
    PATTERN_FORM "pattern-form" Error Invalid "a pattern without exactly one of `literal`, `word`, `regex`, `command`"
    REGEX "regex" Error Invalid "a regular expression that is not valid"
    #[cfg_attr(not(feature = "ast"), allow(dead_code, reason = "codes are listed in every build"))]
    AST_PATTERN "ast-pattern" Error Invalid "a pattern of `ast` that is not code in its language"
    COMMAND "command" Error Invalid "a malformed pattern of a command"
    UNKNOWN_FLAG "unknown-flag" Warning Invalid "a flag that the program does not have"
    MISSING_FEATURE "missing-feature" Error Invalid "a key that needs a feature which this build does not have"
    LOOK_AROUND "look-around" Error Invalid "look-around or a back-reference in a regular expression"
    MATCHES_EMPTY "matches-empty" Error Invalid "a pattern that matches the empty text, so everywhere"
    NEVER_MATCHES "never-matches" Warning Invalid "a pattern that can never match"
    FOLD "fold" Error Invalid "a pattern that folded text can never match"
    PATTERN_TOO_LONG "pattern-too-long" Error Invalid "a pattern longer than the limit"
    PATTERN_TOO_BIG "pattern-too-big" Error Invalid "a pattern that needs more states than the limit"
    PACK_TOO_BIG "pack-too-big" Error TooLarge "all rules together need more states than the limit"
    TEMPLATE "template" Error Invalid "a message that cannot be parsed"
    UNKNOWN_VARIABLE "unknown-variable" Error Invalid "a template variable that does not exist"
    CONTRADICTING_EXAMPLES "contradicting-examples" Error Invalid "a text that is in both `examples.match` and `examples.no-match`"
    DUPLICATE_EXAMPLE "duplicate-example" Warning Invalid "the same example twice"
    NO_EXAMPLE "no-example" Warning Invalid "a rule without an example that breaks it"
    NO_NEGATIVE_EXAMPLE "no-negative-example" Note Invalid "a rule without an example that does not break it"
    SELF_TRIGGER "self-trigger" Warning Invalid "a message that breaks its own rule"
    ABORT_FOR_STYLE "abort-for-style" Warning Invalid "a style rule that ends the turn"
    DEPRECATED_RULE "deprecated-rule" Note Invalid "a rule that is deprecated"
    REPLACED_BY_MISSING "replaced-by-missing" Warning Invalid "a `replaced-by` that names a rule that is not loaded"
    SHADOWED_RULE "shadowed-rule" Warning Invalid "a rule that never takes effect, because a stronger one has the same patterns"
    UNBOUNDED_WINDOW "unbounded-window" Warning Invalid "text that is held back without a bound"
    HELD_TEXT "held-text" Warning Invalid "a pattern for which nearly all text is held back"
    DEPENDS_ON_CUTS "depends-on-cuts" Note Invalid "a limit on deltas, whose result depends on how the reply is split"
    UNKNOWN_TOOL "unknown-tool" Warning Invalid "a tool that no known harness has, with nearly the name of a known one"
    UNKNOWN_ARGUMENT "unknown-argument" Warning Invalid "an argument that no known tool has, with nearly the name of a known one"
    NO_LITERAL "no-literal" Note Invalid "a costly pattern without any literal text"
    ODD_BOUNDARY "odd-boundary" Note Invalid "a word boundary next to a character that is not a word character, which requires a word on its other side"
    TOO_MANY_PROBLEMS "too-many-problems" Warning Invalid "more problems than are shown"
}
