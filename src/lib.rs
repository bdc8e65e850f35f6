//! A streaming-rules engine: it matches rules against a model's reply as it arrives, reports a violation at the first byte
//! at which it is certain, and decides the action.
//!
//! # Example: no byte of a secret is shown
//!
//! ```
//! use ttsr::{Conversation, Pack, PartId};
//! let pack = Pack::builtin("std/secrets")?;
//! let mut conversation = Conversation::new(&pack);
//! let mut turn = conversation.turn("Which token is it?");
//! let mut attempt = turn.attempt();
//! let mut shown = Vec::new();
//! for delta in ["It is ghp_0123456789", "01234567890123456789abcdef", "."] {
//!     // Returns the text that may be shown, or an error if a rule cuts the reply.
//!     shown.extend_from_slice(attempt.forward(PartId(0), delta.as_bytes())?);
//! }
//! attempt.finish().ok()?;
//! shown.extend_from_slice(attempt.take(PartId(0))); // what waited for the end
//! assert_eq!(String::from_utf8(shown)?, "It is [redacted].");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to read on
//!
//! | question | answer |
//! |---|---|
//! | How do I put rules into my loop? | [`guide::integrate`], [`Conversation`] |
//! | How are turns, retries, shadow mode, snapshots and reloads handled? | [`guide::policy`] |
//! | How do I redact, and what leaves when? | [`Conversation::forward`], [`guide::integrate`] |
//! | How do I write rules? | [`guide::authoring`], then [`guide::rules`] for every key |
//! | Which detectors are there besides patterns? | [`guide::detectors`] |
//! | How do I test my rules? | [`test()`] |
//! | How do I load and replace packs? | [`Pack`], [`Conversation::reload`] |
//! | How do I search a text at hand? | [`scan()`], or [`Stream`] for hits as they become certain |
//! | What does a complete loop do? | [`guide::harness`] |
//! | How do I check my loop? | [`guide::conformance`] |
//!
//! # The promise
//!
//! **For every pack, every text and every way to cut the text into deltas, the hits are the same: same rule, same part,
//! same bytes, same order.** The exceptions are conditions that are not about the bytes: a [`Bound`](rule::Bound) on
//! deltas or on time, and the tokens that a host [counts](Conversation::count_tokens). Each byte is consumed once, and
//! a hit is reported at the first byte where it is certain, or at the end of the character that this byte is in; a
//! pattern with alternatives of which one always holds, such as `\b|\B`, may be reported one character later. Nothing
//! is skipped in silence: a rule that cannot be loaded stops the load, and a byte of a known part is matched or
//! [counted](stream::Counters) as unscanned.
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | rule | where to look, what to find, and what to do then; written in TOML |
//! | pattern | one thing to match inside a rule: a literal, a word, a regex or a command |
//! | pack | a compiled, immutable, shared set of rules: [`Pack`] |
//! | action | what a rule does: observe, warn, inject, redact, consult, retry, abort and others; see [`Action`] |
//! | conversation | the policy state and the attempt in progress: [`Conversation`] |
//! | turn | from a prompt of the user to the final answer: [`Turn`] |
//! | attempt | one request and the reply to it: [`Attempt`] |
//! | reply | what a model generates in one attempt: interleaved parts |
//! | part | one text, reasoning or tool-input block of a reply |
//! | channel | the kind of a part or of a whole text: [`Channel`] |
//! | delta | a fragment of a part: bytes, cut anywhere |
//! | haystack | the contiguous text that patterns see: a text part, or one decoded argument of a call |
//! | hit | a rule is broken: rule, part, [end](Hit::end), [deciding byte](Hit::decided) |
//! | decision | the action that the policy chooses for a hit, or the reason why it is suppressed |
//! | cut | the end of an attempt by a rule or a limit: [`Cut`] |
//! | hold | text that may yet break a rule is not released |
//! | redaction | matched text is replaced before it is released |
//! | guidance | messages of rules to the model, for the next request |
//! | screening | rules read a whole text before it is passed on: [`Conversation::screen`] |
//! | review | somebody is asked about a tool call before it runs |
//! | shadow | a mode in which rules decide and do nothing |
//! | stream | the scanner for one reply, without policy: [`Stream`] |
//! | session | the policy below a conversation, for loops that drive a stream themselves: [`session`] |
//!
//! # Rules
//!
//! Rules are TOML; a pack is a file or a folder of files. See [`Pack`] for how they are loaded and [`Rule`] for what each key
//! becomes. Patterns are `literal`, `word` or `regex`, in the syntax of the `regex` crate with Unicode on,
//! and match what that crate matches on the whole haystack. Tool input is matched *decoded*: `\u0072m` is
//! `rm`, and every argument is a haystack of its own. A `command` pattern matches a command that a shell would run.
//!
//! # What may change
//!
//! Versions follow [semver](https://semver.org). Hits are part of it: with the same pack and the same bytes a minor
//! version reports the same hits, except for bugs, each of which the changelog names. Speed, memory and
//! [`AutomatonSize`](pack::AutomatonSize) may change in any version.
//!
//! - Enums and structs marked `non_exhaustive` may grow in a minor version. [`Flow`] and [`Verdict`] are not, and will
//!   not: a host that handles both cases has handled all. Nor are [`Event`], [`Source`], `harness::Content`,
//!   `harness::Role` and `harness::Gate`: a host must not overlook a new kind of any of them.
//! - Structs with public fields and a `Default` ([`Limits`], [`Retry`](rule::Retry), `harness::Settings`) may get fields in a minor
//!   version: write the fields that you set, and `..Default::default()` for the rest. Others with public fields stay.
//! - The rule language has a version of its own, `schema = 1`. As long as it stays, a pack that loads goes on loading and
//!   its rules decide the same; new keys may be added. Texts of diagnostics may change, their codes do not.
//! - The features below stay; a crate behind one may be exchanged.
//! - The oldest Rust that builds the crate is `rust-version` in Cargo.toml. Raising it is a minor version.
//!
//! # Features
//!
//! None is on by default: the core loads packs, matches, and decides.
//!
//! - `harness`: the reference loop, a state machine without I/O and an async driver over a provider.
//! - `tracing`: `tracing` events of the agent loop.
//! - `futures`: guards any `futures_core::Stream` of events.
//! - `lookaround`: look-around and back-references in patterns, on a bounded window.
//! - `unicode`: folding by `nfkc` and `confusables`.
//! - `ast`: patterns of ast-grep over syntax trees that grow with the reply.
//!
//! Provider formats are in `ttsr-wire`; providers over HTTP, tools and stores in `ttsr-agent`; the command in `ttsr-cli`.

#![warn(missing_docs)]
// docs.rs says beside each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

#[cfg(feature = "ast")]
mod ast;
mod authoring;
pub mod conversation;
mod event;
pub mod examples;
#[cfg(feature = "futures")]
pub mod guard;
#[cfg(feature = "harness")]
pub mod harness;
pub mod limits;
pub mod pack;
mod program;
pub mod rule;
pub mod scan;
pub mod session;
pub mod stream;
mod verdict;

pub use authoring::check;
// At most 35 names: what most hosts need. The rest is in the modules.
#[doc(inline)]
pub use conversation::{Attempt, Conversation, Cut, DecisionRecord, Flow, Turn};
pub use event::Event;
#[doc(inline)]
pub use examples::test;
#[cfg(feature = "futures")]
#[doc(inline)]
pub use guard::Guard;
#[doc(inline)]
pub use limits::Limits;
#[doc(inline)]
pub use pack::{Diagnostic, Level, LoadError, Pack, PackBuilder};
#[doc(inline)]
pub use rule::{Action, Channel, Mode, Partial, Pattern, Rule, Severity};
#[doc(inline)]
pub use scan::scan;
#[doc(inline)]
pub use session::{Origin, Snapshot};
#[doc(inline)]
pub use stream::Stream;
pub use verdict::{Decision, Hit, PartId, RuleId, Source, Suppression, Verdict};

/// The guides of the repository, chapter by chapter.
pub mod guide {
    #[doc = include_str!("../docs/integrate.md")]
    pub mod integrate {}

    #[doc = include_str!("../docs/policy.md")]
    pub mod policy {}

    #[doc = include_str!("../docs/authoring.md")]
    pub mod authoring {}

    #[doc = include_str!("../docs/rules.md")]
    pub mod rules {}

    #[doc = include_str!("../docs/detectors.md")]
    pub mod detectors {}

    #[doc = include_str!("../docs/harness.md")]
    pub mod harness {}

    #[doc = include_str!("../docs/conformance.md")]
    pub mod conformance {}
}

/// The examples of README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;
