//! The reference loop: how rules, hooks and a provider work together on a reply.
//!
//! [`Processor`] is the loop without I/O: a host with a transport and a runtime of its own tells it what
//! arrives and does what it says. [`run`](run()) is one reply over any [`Provider`], on tokio; [`Turn`] is
//! all of a turn, with the tools.
//! [`Hooks`] are the host's own code in it, [`Scripted`] is a provider for tests. How providers write
//! their replies on the wire is not known here.
//!
//! For every delta the order is: hooks, in the order of their registration; rules, which see what the
//! hooks left; and only then is it accumulated and published. The delta that brings about a cut is neither.
//! A reply that was cut is discarded: it is not in the next request, and it is never the answer.
//!
//! # Example: a rule is broken, the reply is taken again
//! ```
//! use ttsr::Pack;
//! use ttsr::harness::{
//!     Cancel, End, Hooks, Message, Processor, Request, Script, Scripted, Settings, Step, run,
//! };
//! let pack = Pack::from_toml(r#"
//! schema = 1
//! [pack]
//! name = "demo"
//! [rule.no-any]
//! description = "Say what the type is."
//! severity = "error"
//! match.any = [{ literal = ": any" }]
//! examples.match = ["x: any"]
//! "#)?;
//! let bad = Script::default().text("let x: any = 1").finish("stop");
//! let good = Script::default().text("let x: number = 1").finish("stop");
//! let mut provider = Scripted::new([bad.cut(4), good.cut(4)]);
//! let mut processor = Processor::new(pack.session(), Hooks::default(), Settings::default());
//! let request = Request::new("a-model", vec![Message::user("Declare x.")]);
//! let mut published = String::new();
//! let publish = |step: &Step| match step {
//!     Step::Forward { bytes, .. } => published.push_str(&String::from_utf8_lossy(bytes)),
//!     Step::Retract { .. } => published.push_str(" … no: "),
//!     _ => {}
//! };
//! let answering = run(
//!     &mut processor, &mut provider, request, "msg_1", Cancel::default(), publish,
//! );
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
//! let outcome = runtime.block_on(answering);
//!
//! assert_eq!(published, "let x: a … no: let x: number = 1");
//! assert_eq!(outcome.reply.text(ttsr::Channel::Text), "let x: number = 1");
//! assert_eq!(outcome.added[0].text(), "demo/no-any: Say what the type is.");
//! assert_eq!(provider.requests()[1].messages.len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod adapt;
mod call;
pub mod consult;
pub mod fallback;
mod handoff;
mod hooks;
pub mod log;
mod message;
#[cfg(all(test, loom))]
mod models;
mod processor;
mod provider;
mod record;
mod reply;
mod run;
mod scripted;
mod step;
#[cfg(feature = "tracing")]
mod trace;
mod turn;

pub use call::{After, Before, Gate, NoTools, Target, ToolCall, ToolFuture, Tools};
pub use handoff::{HANDOFF_MARKER, Handoff};
pub use hooks::{Answer, At, Delta, Hook, Hooks, OnHookFault, Point};
pub use message::{Content, Message, Request, Role, Tool};
pub use processor::{Prepared, Processor, Settings, Tally};
pub use provider::{EventStream, Failure, Provider, unfold};
pub use record::{NotRecorded, TurnRecorder};
pub use reply::{PartState, Reply, ReplyPart, TOOL_ABORTED};
pub use run::{Cancel, Run, run};
pub use scripted::{Script, Scripted};
pub use step::{
    AbortStage, Aborted, AbortedBlock, AbortedCall, End, Input, Observation, Outcome, PromptRef,
    Reason, Replay, Source, Step, is_truncation,
};
#[cfg(feature = "tracing")]
pub use trace::{Context, Tracer};
pub use turn::{Turn, TurnOutcome};
