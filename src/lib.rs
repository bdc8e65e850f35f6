//! A streaming-rules engine: reads a model's reply as it arrives, knows at the byte where it becomes
//! certain that a rule is broken, and says what to do.
//!
//! # The promise
//!
//! **For every pack, every text and every way to cut the text into deltas, the hits are the same: same
//! rule, same part, same bytes, same order.** Each byte is stepped once, and a hit is reported at the
//! first byte where it is certain. The exceptions are conditions that are not about the bytes: a
//! [`Bound`] on deltas or on time, and the tokens that a host [counts](Stream::count_tokens). Nothing is skipped in silence: a rule that cannot be loaded stops
//! the load, and a byte of a known part is matched or [counted](Counters) as unscanned.
//!
//! # Terms
//!
//! | term | meaning |
//! |---|---|
//! | rule | what an author writes: where it applies, what breaks it, what to do then |
//! | pattern | one thing to match inside a rule |
//! | pack | compiled, immutable, shared set of rules: [`Pack`] |
//! | part | one text, reasoning or tool-input block of a reply; parts interleave |
//! | channel | the kind of a part: [`Channel`] |
//! | haystack | one contiguous piece of what patterns see: a whole text part, or one decoded argument of a tool call. No match spans two |
//! | delta | a fragment of a part: bytes, cut anywhere |
//! | hit | a rule is broken: rule, part, [`end`](Hit::end), [`decided`](Hit::decided) |
//! | decision, verdict | what the host must do now: one [`Decision`], or [`Verdict::Continue`] |
//! | attempt | one generation; **turn**: from the user's prompt to the final answer |
//! | stream | the mutable state of one attempt: [`Stream`] |
//! | session | what lasts across attempts and turns, such as which guidance was given: [`Session`] |
//!
//! # Example: a reply that is cut, and why
//!
//! ```
//! use ttsr::{Action, Channel, Pack, PartId, Verdict};
//!
//! let pack = Pack::from_toml(r#"
//! schema = 1
//! [pack]
//! name = "shell"
//! [rule.force-push]
//! description = "A force push rewrites what others have"
//! severity = "critical"
//! on = ["tool-input"]
//! tools = ["bash"]
//! args = ["command"]
//! match.any = [{ regex = 'git\s+push\s+(?:\S+\s+)*--force(?:\s|$)' }]
//! message = "{{ rule.description }}: use --force-with-lease."
//! examples.match = ["git push --force"]
//! "#)?;
//! let mut session = pack.session();
//! let mut stream = session.stream();
//! let part = PartId(0);
//! let _ = session.open(&mut stream, part, Channel::ToolInput);
//! let _ = session.tool(&mut stream, part, "bash", "call_1");
//! let mut verdict = Verdict::Continue;
//! for delta in [r#"{"comm"#, r#"and":"git pu"#, r#"sh origin main --for"#, r#"\u0063e"}"#] {
//!     assert_eq!(verdict, Verdict::Continue);
//!     verdict = session.push(&mut stream, part, delta.as_bytes());
//! }
//! let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
//! assert_eq!(decision.action, Action::Abort);
//! assert_eq!(stream.message(&decision), "A force push rewrites what others have: use --force-with-lease.");
//! # Ok::<(), ttsr::LoadError>(())
//! ```
//!
//! # Rules
//!
//! Rules are TOML, one pack a file; see [`Pack`] for how they are loaded and [`Rule`] for what each key
//! becomes. Patterns are `literal`, `word` or `regex`, in the syntax of the `regex` crate with Unicode on,
//! and match what that crate matches on the whole haystack. Tool input is matched *decoded*: `\u0072m` is
//! `rm`, and every argument is a haystack of its own.
//!
//! # What may change
//!
//! Versions follow [semver](https://semver.org). Hits are part of it: with the same pack and the same bytes a minor
//! version reports the same hits, but for bugs, each of which the changelog names. What changes no hit (speed,
//! memory, [`AutomatonSize`]) may change in any version.
//!
//! - Enums and structs marked `non_exhaustive` may grow in a minor version. [`Verdict`] is not, and will not: who
//!   handles both of its cases has handled all. Nor are [`Event`], [`Source`], `harness::Content`, `harness::Role` and
//!   `harness::Gate`: a host must not overlook a new kind of any of them.
//! - Structs with public fields and a `Default` ([`Limits`], [`Retry`], `harness::Settings`) may get fields in a minor
//!   version: write what you set, and `..Default::default()` for the rest. Others with public fields stay as they are.
//! - The rule language has a number of its own, `schema = 1`. A pack that loads goes on loading, and its rules decide the
//!   same, as long as that number does; new keys may come. Texts of diagnostics may change, their codes do not.
//! - The features listed below stay; a crate behind one may be exchanged.
//! - The oldest Rust that builds the crate is `rust-version` in Cargo.toml. Raising it is a minor version.
//!
//! # Features
//!
//! None is on by default: the core loads packs, matches, and decides.
//!
//! - `wire`: readers for the streams of providers (Anthropic, OpenAI, Gemini, Ollama, Cohere, Bedrock), of
//!   OpenCode servers, and for recordings.
//! - `harness`: the reference loop, a state machine without I/O and an async driver over a provider.
//! - `providers`: providers over HTTP for the loop (OpenAI-compatible Chat, OpenAI Responses, Anthropic
//!   Messages); implies `wire` and `harness`.
//! - `opencode`: rules over a running OpenCode server, and a client of it.
//! - `tools`: tools for the loop that work in one folder (read, write, edit, bash); Unix only.
//! - `tracing`: events of `tracing` for what happens in a conversation.
//! - `cli`: the `ttsr` command; implies `providers`, `opencode`, `tools`, `lookaround`, `unicode` and `ast`.
//! - `futures`: guards any `futures_core::Stream` of events.
//! - `lookaround`: look-around and back-references in patterns, on a bounded window.
//! - `unicode`: folding by `nfkc` and `confusables`.
//! - `ast`: patterns of ast-grep over syntax trees that grow with the reply.

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
mod conversation;
mod detect;
mod event;
mod examples;
#[cfg(feature = "futures")]
mod guard;
#[cfg(feature = "harness")]
pub mod harness;
mod limits;
mod matcher;
mod pack;
mod rule;
pub mod scan;
mod session;
mod stream;
mod verdict;
mod view;

pub use conversation::{
    Attempt, CallReview, Conversation, Cut, CutSource, DecisionRecord, Flow, KeptText, Note,
    RetryOptions, ScreenedText, Turn,
};
pub use event::Event;
pub use examples::{TestError, TestFailure, test};
#[cfg(feature = "futures")]
pub use guard::{Guard, Guarded, GuardedItem};
pub use limits::{Limits, OnLimit};
pub use matcher::AutomatonSize;
pub use pack::{
    Date, Diagnostic, Level, LoadError, LoadErrorKind, Lock, Pack, PackBuilder, PackHeader, check,
    schema,
};
pub use rule::{
    Action, Allowance, Ast, Bound, Capture, Case, Channel, Condition, Consult, Count, DoomLoop,
    Examples, Fold, Header, KnownList, Mode, Named, Partial, Pattern, PatternKind, Per, Region,
    Repeat, Repetition, Retry, Rule, Script, Severity, Status, UnknownName, Within,
};
pub use scan::scan;
pub use session::{Checked, Lost, Origin, Session, Snapshot};
pub use stream::{Counters, Hits, Redaction, Stream};
pub use verdict::{Decision, Hit, PartId, RuleId, Source, Suppression, Verdict};

/// The examples of README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeExamples;

/// So are those of the guides.
#[cfg(doctest)]
#[doc = include_str!("../docs/policy.md")]
struct PolicyExamples;

/// And of the guide for authors of harnesses.
#[cfg(doctest)]
#[doc = include_str!("../docs/integrate.md")]
struct IntegrateExamples;
