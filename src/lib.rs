//! A streaming-rules engine.

#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

#[cfg(any(feature = "wire", feature = "harness", feature = "futures"))]
mod event;
#[cfg(feature = "futures")]
mod guard;
mod limits;
mod matcher;
mod pack;
mod rule;
mod session;
mod stream;
#[cfg(test)]
mod testing;
mod verdict;
mod view;
#[cfg(feature = "wire")]
pub mod wire;

#[cfg(any(feature = "wire", feature = "harness", feature = "futures"))]
pub use event::Event;
#[cfg(feature = "futures")]
pub use guard::{Guard, Guarded, GuardedItem};
pub use limits::{Limits, OnLimit};
pub use matcher::AutomatonSize;
pub use pack::{Diagnostic, Level, LoadError, LoadErrorKind, Pack, PackBuilder, check};
pub use rule::{Action, Channel, Examples, Pattern, PatternKind, Rule, Severity};
pub use session::Session;
pub use stream::{Counters, Hits, Stream};
pub use verdict::{Decision, Hit, PartId, RuleId, Source, Verdict};
