//! The reference loop: hooks, rules and a provider work together on a reply.
//!
//! [`Processor`] is the loop without I/O: a host with its own transport and runtime passes inputs in and carries out
//! the steps that follow. [`run`](run()) runs one reply over any [`Provider`], on tokio; [`AgentTurn`] runs a whole turn
//! with its tools. [`Hooks`] are code of the host that takes part, [`Scripted`] is a provider for tests, and
//! [`LoopEvent`](event::LoopEvent) is the type that logs are written from. The loop knows no provider's wire format.
//!
//! Each delta passes the hooks, in the order of their registration, then the rules, which see the output of the hooks.
//! Only then is it accumulated and published; the delta that causes a cut is neither. A reply that was cut is
//! discarded: it is not in the next request, and it is never the answer.
//!
//! The modules are layered; a test checks that no module imports one above it. From the bottom: plain data (`cancel`,
//! `reply`, `message`, `aborted`, `consultation`, `handoff`, `event`, `call`, `step`), `provider`, `fallback` and
//! `hooks`, `processor`, then `run`, `consult` and `turn`, which do I/O.
//!
//! # Example: a rule cuts the reply, and it is retried
//! ```
//! use ttsr::Pack;
//! use ttsr::harness::{
//!     Cancel, End, Hooks, Message, Processor, Request, Scripted, ScriptedReply, Settings, Step, run,
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
//! let bad = ScriptedReply::default().text("let x: any = 1").finish("stop");
//! let good = ScriptedReply::default().text("let x: number = 1").finish("stop");
//! let mut provider = Scripted::new([bad.cut(4), good.cut(4)]);
//! let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
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

mod aborted;
mod call;
mod cancel;
pub mod conformance;
pub mod consult;
mod consultation;
pub mod event;
mod event_tracker;
pub mod fallback;
mod handoff;
mod hooks;
mod message;
mod processor;
mod provider;
mod record;
mod reply;
mod run;
mod scripted;
mod step;
pub mod stream_adapter;
#[cfg(all(test, loom))]
mod tests;
#[cfg(feature = "tracing")]
mod trace;
mod turn;

pub use aborted::{
    AbortReason, AbortSource, AbortStage, Aborted, AbortedBlock, AbortedCall, BlockReplay,
    PromptRef,
};
pub use call::{
    Gate, NoTools, PendingCall, RequestTarget, ToolCall, ToolFuture, ToolOutput, Tools,
};
pub use cancel::Cancel;
pub use event_tracker::EventTracker;
pub use handoff::{HANDOFF_MARKER, Handoff};
pub use hooks::{Delta, Hook, HookAnswer, HookContext, HookPoint, Hooks, OnHookFault};
pub use message::{Content, Message, Request, Role, Tool};
pub use processor::{PreparedRequest, Processor, ProcessorCounters, Settings};
pub use provider::{EventStream, Failure, Provider, unfold};
pub use record::{NotRecorded, TurnRecorder};
pub use reply::{PartState, Reply, ReplyPart, TOOL_ABORTED};
pub use run::{Run, run};
pub use scripted::{Scripted, ScriptedReply};
pub use step::{End, Input, ReplyOutcome, Step, is_truncation};
#[cfg(feature = "tracing")]
pub use trace::{TraceContext, Tracer};
pub use turn::{AgentTurn, TurnOutcome, ask_sub_agent};
