//! Hooks: code of the host that sees a stream before the rules do, and whole texts before and after rules.
//!
//! The points at which a hook is called are fixed when it is registered, so a point without hooks costs one look at an
//! empty list. Hooks receive data and never the processor, so they cannot call back into it.

mod functions;
mod registered;
mod timed;

use std::borrow::Cow;
use std::fmt;
use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aborted::Aborted;
use super::call::{PendingCall, RequestTarget, ToolCall, ToolOutput};
use super::cancel::Cancel;
use super::fallback::SessionEvent;
use super::message::Message;
use crate::{Channel, PartId};
use functions::{OnAborted, OnDelta, OnToolAfter, OnToolBefore};
use registered::{HookThread, Registered};
use timed::HookWorker;

/// A point of the loop at which hooks are called.
///
/// # Example: a point from its name in a configuration
/// ```
/// use ttsr::harness::HookPoint;
/// let of_name = |name: &str| HookPoint::ALL.into_iter().find(|point| point.name() == name);
/// assert_eq!(of_name("tool.execute.before"), Some(HookPoint::ToolBefore));
/// assert_eq!(of_name("tool.before"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum HookPoint {
    /// `stream.delta`: a non-empty delta arrived, and the rules have not seen it.
    #[serde(rename = "stream.delta")]
    Delta,
    /// `stream.aborted`: an attempt or a turn was aborted. Called once per abort, also for a request that is not sent
    /// and for a turn whose tools run: see [`Aborted::stage`].
    #[serde(rename = "stream.aborted")]
    Aborted,
    /// `text.complete`: a text part is complete.
    #[serde(rename = "text.complete")]
    TextComplete,
    /// `tool.execute.before`: a complete tool call is about to run.
    #[serde(rename = "tool.execute.before")]
    ToolBefore,
    /// `tool.execute.after`: a tool returned its output.
    #[serde(rename = "tool.execute.after")]
    ToolAfter,
    /// `messages.transform`: a request is about to be sent.
    #[serde(rename = "messages.transform")]
    Messages,
    /// `chat.headers`: a request is about to be sent, and its messages are final.
    #[serde(rename = "chat.headers")]
    Headers,
    /// `event`: an event of a session.
    #[serde(rename = "event")]
    Event,
}

impl HookPoint {
    /// All points, in the order of their declaration.
    pub const ALL: [HookPoint; 8] = [
        HookPoint::Delta,
        HookPoint::Aborted,
        HookPoint::TextComplete,
        HookPoint::ToolBefore,
        HookPoint::ToolAfter,
        HookPoint::Messages,
        HookPoint::Headers,
        HookPoint::Event,
    ];

    /// Returns the name used by plugins, such as `stream.delta`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            HookPoint::Delta => "stream.delta",
            HookPoint::Aborted => "stream.aborted",
            HookPoint::TextComplete => "text.complete",
            HookPoint::ToolBefore => "tool.execute.before",
            HookPoint::ToolAfter => "tool.execute.after",
            HookPoint::Messages => "messages.transform",
            HookPoint::Headers => "chat.headers",
            HookPoint::Event => "event",
        }
    }
}

/// Code of the host that takes part in a stream. Hooks are called in the order of their registration.
///
/// The methods are plain functions. A hook registered with [`Hooks::register`] runs in the loop: while it blocks, its
/// stream is blocked (no lock of this crate is held). A hook registered with [`Hooks::register_within`] runs on a
/// thread of its own; the loop stops waiting for it when its deadline is over or the user cancels.
/// [`Settings::on_hook_fault`](super::Settings::on_hook_fault) decides what happens to the stream of a hook that
/// panicked or did not return in time. (A panic while another panic unwinds ends the process, as always in Rust.)
///
/// # Example: a hook at two points
/// ```
/// use std::time::Duration;
/// use ttsr::harness::{
///     Aborted, Delta, Hook, HookAnswer, HookContext, HookPoint, Hooks, Input, Processor, Settings, Step,
/// };
/// use ttsr::{Event, Pack, PartId};
/// struct NoLists;
/// impl Hook for NoLists {
///     fn points(&self) -> &[HookPoint] {
///         &[HookPoint::Delta, HookPoint::Aborted]
///     }
///     fn delta(&mut self, _: &HookContext<'_>, delta: &mut Delta<'_>) {
///         if delta.text().starts_with("- ") {
///             delta.abort();
///         }
///     }
///     fn aborted(&mut self, _: &Aborted, answer: &mut HookAnswer) {
///         answer.retry = true;
///         answer.inject_message = Some("Write sentences, no lists.".into());
///     }
/// }
/// let mut hooks = Hooks::default();
/// hooks.register("no-lists", NoLists);
/// assert!(hooks.is_empty(HookPoint::ToolBefore));
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, hooks, Settings::default());
/// let mut steps = Vec::new();
/// processor.begin("msg_1", &mut steps);
/// processor.step(Duration::ZERO, Input::Sent, &mut steps);
/// let delta = Event::Delta { part: PartId(0), bytes: b"- one".to_vec() };
/// processor.step(Duration::ZERO, Input::Event(delta), &mut steps);
/// let again = steps.iter().filter_map(|step| match step {
///     Step::Send { attempt: 2, messages, .. } => Some(messages),
///     _ => None,
/// });
/// assert!(again.flatten().any(|message| message.text() == "Write sentences, no lists."));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[expect(unused_variables, reason = "by default a hook does nothing")]
pub trait Hook: Send {
    /// Returns the points at which the hook is called. Called once, at registration.
    fn points(&self) -> &[HookPoint];

    /// Receives a delta before the rules. May rewrite the delta or abort the reply.
    fn delta(&mut self, at: &HookContext<'_>, delta: &mut Delta<'_>) {}

    /// Receives an abort. May ask for a retry.
    fn aborted(&mut self, aborted: &Aborted, answer: &mut HookAnswer) {}

    /// Receives a complete text part. May replace the text that is kept. The original was published, and the rules do
    /// not see the replacement.
    ///
    /// # Example: white space at the end is removed
    /// ```
    /// use ttsr::harness::{
    ///     Cancel, Hook, HookContext, HookPoint, Hooks, Processor, Request, Scripted, ScriptedReply,
    ///     Settings, run,
    /// };
    /// use ttsr::{Channel, Pack};
    /// struct Trims;
    /// impl Hook for Trims {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::TextComplete]
    ///     }
    ///     fn text_complete(&mut self, _: &HookContext<'_>, text: &mut Vec<u8>) {
    ///         text.truncate(text.trim_ascii_end().len());
    ///     }
    /// }
    /// let mut hooks = Hooks::default();
    /// hooks.register("trims", Trims);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let mut provider = Scripted::new([ScriptedReply::default().text("Done. \n\n").finish("stop")]);
    /// let request = Request::new("a-model", Vec::new());
    /// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// assert_eq!(runtime.block_on(running).reply.text(Channel::Text), "Done.");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn text_complete(&mut self, at: &HookContext<'_>, text: &mut Vec<u8>) {}

    /// Receives a tool call before it runs. May change its input, block it, or have a sub-agent asked first.
    ///
    /// # Example: a hook changes the input
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Gate, Hook, HookPoint, Hooks, PendingCall, Processor, Settings, ToolCall};
    /// struct Gentle;
    /// impl Hook for Gentle {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::ToolBefore]
    ///     }
    ///     fn tool_before(&mut self, call: &ToolCall, before: &mut PendingCall) {
    ///         if call.tool == "bash" {
    ///             before.input = before.input.replace("--force\"", "--force-with-lease\"");
    ///         }
    ///     }
    /// }
    /// let mut hooks = Hooks::default();
    /// hooks.register("gentle", Gentle);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let input = r#"{"command": "git push --force"}"#.into();
    /// let call = ToolCall { tool: "bash".into(), input, ..ToolCall::default() };
    /// let gate = processor.before_tool(call, &mut Vec::new());
    /// let Gate::Run(call) = gate else { panic!("it runs") };
    /// assert_eq!(call.input, r#"{"command": "git push --force-with-lease"}"#);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    fn tool_before(&mut self, call: &ToolCall, before: &mut PendingCall) {}

    /// Receives the output of a tool before the rules and the model. May change it.
    ///
    /// # Example: a secret is removed from an output
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hook, HookPoint, Hooks, Processor, Settings, ToolCall, ToolOutput};
    /// struct Keeps(String);
    /// impl Hook for Keeps {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::ToolAfter]
    ///     }
    ///     fn tool_after(&mut self, _: &ToolCall, after: &mut ToolOutput) {
    ///         after.output = after.output.replace(&self.0, "***");
    ///     }
    /// }
    /// let mut hooks = Hooks::default();
    /// hooks.register("keeps", Keeps("tiramisu".into()));
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let read = ToolOutput::output("PASSWORD=tiramisu");
    /// let after = processor.after_tool(&ToolCall::default(), read, &mut Vec::new()).unwrap();
    /// assert_eq!(after.output, "PASSWORD=***");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    fn tool_after(&mut self, call: &ToolCall, after: &mut ToolOutput) {}

    /// Receives the messages of a request before the rules. May change them for this request.
    fn messages(&mut self, target: &RequestTarget, messages: &mut Vec<Message>) {}

    /// Receives the headers of a request after the rules. May change them.
    ///
    /// # Example: the session's id as a header
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hook, HookPoint, Hooks, Processor, Request, RequestTarget, Settings};
    /// struct Traced;
    /// impl Hook for Traced {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::Headers]
    ///     }
    ///     fn headers(&mut self, target: &RequestTarget, headers: &mut Vec<(String, String)>) {
    ///         headers.push(("x-session".into(), target.session.clone()));
    ///     }
    /// }
    /// let mut hooks = Hooks::default();
    /// hooks.register("traced", Traced);
    /// let settings = Settings { session: "ses_1".into(), ..Settings::default() };
    /// let mut processor = Processor::new(&Pack::builder().build()?, hooks, settings);
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// let request = Request::new("a-model", Vec::new());
    /// let prepared = processor.prepare(&request, &mut steps).expect("it may be sent");
    /// assert_eq!(prepared.request.headers, [("x-session".into(), "ses_1".into())]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    fn headers(&mut self, target: &RequestTarget, headers: &mut Vec<(String, String)>) {}

    /// Receives an event of a session.
    fn event(&mut self, event: &SessionEvent) {}
}

/// The position in a stream at which a hook is called.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HookContext<'a> {
    /// The session's id, from [`Settings::session`](super::Settings::session).
    pub session: &'a str,
    /// The id of the reply, which all its attempts share.
    pub message: &'a str,
    /// The number of the attempt in its turn, from 1.
    pub attempt: u32,
    /// The time since the reply began.
    pub time: Duration,
    /// The part's id in the stream.
    pub part: PartId,
    /// The provider's name for the part.
    pub part_name: &'a str,
    /// The part's channel.
    pub channel: Channel,
    /// The tool's name, once it is known. Always `None` for channels other than tool input.
    pub tool: Option<&'a str>,
    /// The id of the tool call, once it is known.
    pub call: Option<&'a str>,
    /// The text that the part accumulated before this delta.
    pub so_far: &'a [u8],
}

/// A delta that hooks may change. It may begin and end inside a character.
///
/// # Example: a name is replaced
/// ```
/// use std::time::Duration;
/// use ttsr::harness::{Hooks, Input, Processor, Settings, Step};
/// use ttsr::{Event, Pack, PartId};
/// let mut hooks = Hooks::default();
/// hooks.on_delta("names", |_, delta| {
///     let text = delta.text().replace("Alice", "A.");
///     delta.rewrite(text);
/// });
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, hooks, Settings::default());
/// let mut steps = Vec::new();
/// processor.begin("msg_1", &mut steps);
/// processor.step(Duration::ZERO, Input::Sent, &mut steps);
/// let delta = Event::Delta { part: PartId(0), bytes: b"Hi Alice".to_vec() };
/// processor.step(Duration::ZERO, Input::Event(delta), &mut steps);
/// let is_short = |step: &Step| matches!(step, Step::Forward { bytes, .. } if bytes == b"Hi A.");
/// assert!(steps.iter().any(is_short));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Delta<'a> {
    bytes: Cow<'a, [u8]>,
    abort: bool,
}

impl<'a> Delta<'a> {
    fn new(bytes: &'a [u8]) -> Delta<'a> {
        Delta {
            bytes: Cow::Borrowed(bytes),
            abort: false,
        }
    }

    /// Returns the bytes after the previous hooks.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes as text, with invalid UTF-8 replaced by U+FFFD.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Replaces the bytes. Empty bytes suppress the delta: no later hook and no rule sees it.
    pub fn rewrite(&mut self, bytes: impl Into<Vec<u8>>) {
        self.bytes = Cow::Owned(bytes.into());
    }

    /// Aborts the reply. Neither later hooks nor the rules see the delta, and it is neither accumulated nor published.
    ///
    /// # Example: a list ends the reply
    /// ```
    /// use std::time::Duration;
    /// use ttsr::harness::{AbortSource, End, Hooks, Input, Processor, Settings, Step};
    /// use ttsr::{Event, Pack, PartId};
    /// let mut hooks = Hooks::default();
    /// hooks.on_delta("no-lists", |_, delta| {
    ///     if delta.bytes().starts_with(b"- ") {
    ///         delta.abort();
    ///     }
    /// });
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// processor.step(Duration::ZERO, Input::Sent, &mut steps);
    /// let delta = Event::Delta { part: PartId(0), bytes: b"- one".to_vec() };
    /// processor.step(Duration::ZERO, Input::Event(delta), &mut steps);
    /// let Some(Step::Finish(outcome)) = steps.last() else { panic!("nobody takes it again") };
    /// let End::Aborted { source, .. } = &outcome.end else { panic!("there is no answer") };
    /// assert_eq!(*source, AbortSource::Hook("no-lists".into()));
    /// assert!(!steps.iter().any(|step| matches!(step, Step::Forward { .. })));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn abort(&mut self) {
        self.abort = true;
    }
}

/// The answer of a hook to an abort.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswer {
    /// True to retry the reply from its start. Bounded by [`Settings::hook_retries`](super::Settings::hook_retries).
    pub retry: bool,
    /// A steering message for the model, sent with the retry. Ignored without `retry`.
    pub inject_message: Option<String>,
}

/// The consequence for the stream of a hook that panicked or did not return in time. In both cases the fault is
/// counted, and the hook is not called again in this reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OnHookFault {
    /// Abort the stream, because a guard that failed guards nothing. A tool call is blocked, the output of a tool is
    /// withheld, a request is not sent. No other hook can retry the reply, which would be unguarded.
    #[default]
    Abort,
    /// Continue as if the hook were not registered.
    Continue,
}

impl OnHookFault {
    /// Returns the name used in every output: `abort` or `continue`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            OnHookFault::Abort => "abort",
            OnHookFault::Continue => "continue",
        }
    }
}

/// The reason why a hook returned nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HookFault {
    Panicked,
    TimedOut,
    /// The user cancelled, and the hook was not waited for. Not a failure of the hook.
    Cancelled,
}

impl HookFault {
    /// Returns true if the hook failed and is not called again in this reply.
    fn is_hook_failure(self) -> bool {
        self != HookFault::Cancelled
    }
}

/// The hooks of a host, in the order of registration.
///
/// # Example: a hook is called at its points only
/// ```
/// use ttsr::harness::{HookPoint, Hooks};
/// let mut hooks = Hooks::default();
/// hooks.on_delta("no-lists", |at, delta| {
///     if at.so_far.ends_with(b"\n") && delta.bytes().starts_with(b"- ") {
///         delta.abort();
///     }
/// });
/// assert!(!hooks.is_empty(HookPoint::Delta));
/// assert!(hooks.is_empty(HookPoint::Aborted), "nobody asks for it to be taken again");
/// ```
#[derive(Default)]
pub struct Hooks {
    all: Vec<Registered>,
    /// For each point, the indexes in `all` of the hooks that are called there.
    at: [Vec<usize>; HookPoint::ALL.len()],
}

impl Hooks {
    /// Registers a hook after those registered before.
    pub fn register(&mut self, name: impl Into<String>, hook: impl Hook + 'static) {
        let points = hook.points().to_vec();
        self.add(name.into(), &points, HookThread::Loop(Box::new(hook)));
    }

    /// Registers a hook that runs on a thread of its own, with a deadline. The loop waits for the hook until it
    /// returns, the deadline is over or the user cancels. A cancel ends the reply at once; the hook is notified of the
    /// abort (`stream.aborted`) when it has returned, and is not waited for. The cancel must come from another thread,
    /// or another worker of the runtime, than the one that runs the loop.
    ///
    /// A function that hangs cannot be ended: its thread stays until it returns, and until then the hook is not called.
    ///
    /// # Errors
    /// Returns the error of the system if it cannot create the thread.
    ///
    /// # Example: a hook that does not return
    /// ```
    /// use std::{sync::mpsc, time::Duration};
    /// use ttsr::Pack;
    /// use ttsr::harness::{
    ///     Gate, Hook, HookPoint, Hooks, OnHookFault, PendingCall, Processor, Settings, ToolCall,
    /// };
    /// struct Hangs(mpsc::Receiver<()>);
    /// impl Hook for Hangs {
    ///     fn points(&self) -> &[HookPoint] {
    ///         &[HookPoint::ToolBefore]
    ///     }
    ///     fn tool_before(&mut self, _: &ToolCall, _: &mut PendingCall) {
    ///         self.0.recv().ok();
    ///     }
    /// }
    /// let (never, waits) = mpsc::channel();
    /// let mut hooks = Hooks::default();
    /// hooks.register_within("hangs", Duration::from_millis(5), Hangs(waits))?;
    /// let settings = Settings { on_hook_fault: OnHookFault::Continue, ..Settings::default() };
    /// let mut processor = Processor::new(&Pack::builder().build()?, hooks, settings);
    /// let gate = processor.before_tool(ToolCall::default(), &mut Vec::new());
    /// assert!(matches!(gate, Gate::Run(_)));
    /// assert_eq!(processor.counters().hook_timeouts, 1);
    /// # drop(never);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn register_within(
        &mut self,
        name: impl Into<String>,
        deadline: Duration,
        hook: impl Hook + 'static,
    ) -> io::Result<()> {
        let points = hook.points().to_vec();
        let name = name.into();
        let worker = HookWorker::new(&name, deadline, Box::new(hook))?;
        self.add(name, &points, HookThread::Worker(worker));
        Ok(())
    }

    fn add(&mut self, name: String, points: &[HookPoint], place: HookThread) {
        let index = self.all.len();
        for point in points {
            let list = &mut self.at[*point as usize];
            if list.last() != Some(&index) {
                list.push(index);
            }
        }
        self.all.push(Registered {
            name,
            place,
            is_disabled: false,
        });
    }

    /// Registers a function for [`HookPoint::Delta`].
    pub fn on_delta<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&HookContext<'_>, &mut Delta<'_>) + Send + 'static,
    {
        self.register(name, OnDelta(hook));
    }

    /// Registers a function for [`HookPoint::Aborted`].
    ///
    /// # Example: a reply is retried after an error
    /// ```
    /// use std::time::Duration;
    /// use ttsr::Pack;
    /// use ttsr::harness::{AbortReason, Failure, Hooks, Input, Processor, Settings, Step};
    /// let mut hooks = Hooks::default();
    /// hooks.on_aborted("again", |aborted, answer| answer.retry = aborted.reason == AbortReason::Error);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let mut steps = Vec::new();
    /// processor.begin("msg_1", &mut steps);
    /// processor.step(Duration::ZERO, Input::Sent, &mut steps);
    /// let failure = Failure::new("reset", "connection reset by peer");
    /// processor.step(Duration::ZERO, Input::Failed(failure), &mut steps);
    /// assert!(matches!(steps.last(), Some(Step::Send { attempt: 2, .. })));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn on_aborted<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&Aborted, &mut HookAnswer) + Send + 'static,
    {
        self.register(name, OnAborted(hook));
    }

    /// Registers a function for [`HookPoint::ToolBefore`].
    pub fn on_tool_before<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&ToolCall, &mut PendingCall) + Send + 'static,
    {
        self.register(name, OnToolBefore(hook));
    }

    /// Registers a function for [`HookPoint::ToolAfter`].
    ///
    /// # Example: escape sequences are removed from an output
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Hooks, Processor, Settings, ToolCall, ToolOutput};
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_after("plain", |_, after| after.output = after.output.replace("\x1b[31m", ""));
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let after = ToolOutput::output("\x1b[31m3 failed");
    /// let after = processor.after_tool(&ToolCall::default(), after, &mut Vec::new()).unwrap();
    /// assert_eq!(after.output, "3 failed");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn on_tool_after<F>(&mut self, name: impl Into<String>, hook: F)
    where
        F: FnMut(&ToolCall, &mut ToolOutput) + Send + 'static,
    {
        self.register(name, OnToolAfter(hook));
    }

    /// Returns true if no hook is called at this point.
    #[must_use]
    #[inline]
    pub fn is_empty(&self, point: HookPoint) -> bool {
        self.at[point as usize].is_empty()
    }

    /// Sets the switch that ends the wait for hooks with a deadline.
    pub(super) fn set_cancel(&mut self, cancel: &Cancel) {
        for one in &mut self.all {
            if let HookThread::Worker(worker) = &mut one.place {
                worker.set_cancel(cancel);
            }
        }
    }

    /// Moves the hooks out, for a sub-agent's session. [`restore`](Self::restore) must be given the same hooks.
    pub(super) fn lend(&mut self) -> (Hooks, Vec<bool>) {
        let failed = self.all.iter().map(|one| one.is_disabled).collect();
        (std::mem::take(self), failed)
    }

    /// Puts lent hooks back. A hook that had failed before stays disabled until the end of the reply.
    pub(super) fn restore(&mut self, lent: Hooks, failed: &[bool]) {
        *self = lent;
        for (one, failed) in self.all.iter_mut().zip(failed) {
            one.is_disabled |= failed;
        }
    }

    /// Enables the hooks that failed in the last reply. Hooks that hang are still not called.
    pub(super) fn begin_reply(&mut self) {
        self.all.iter_mut().for_each(|one| one.is_disabled = false);
    }

    /// Runs `stream.delta`.
    pub(super) fn delta(
        &mut self,
        at: &HookContext<'_>,
        bytes: Vec<u8>,
        on_fault: OnHookFault,
    ) -> HookedBytes {
        let mut passed = HookedBytes {
            bytes,
            ..HookedBytes::default()
        };
        for &index in &self.at[HookPoint::Delta as usize] {
            let one = &mut self.all[index];
            if one.is_disabled || passed.bytes.is_empty() {
                continue;
            }
            let seen = match one.delta(at, &passed.bytes) {
                Ok(seen) => seen,
                Err(fault) => {
                    passed.faults.push((one.name.clone(), fault));
                    match (fault, on_fault) {
                        (HookFault::Cancelled, _) | (_, OnHookFault::Abort) => break,
                        (_, OnHookFault::Continue) => continue,
                    }
                }
            };
            if let Some(bytes) = seen.rewritten {
                passed.bytes = bytes;
                passed.is_rewritten = true;
            }
            if seen.is_abort {
                passed.aborted_by = Some(one.name.clone());
                break;
            }
        }
        passed
    }

    /// Runs `stream.aborted`.
    pub(super) fn aborted(&mut self, aborted: &Aborted) -> Vec<AbortAnswer> {
        let mut answers = Vec::new();
        for &index in &self.at[HookPoint::Aborted as usize] {
            let one = &mut self.all[index];
            if one.is_disabled {
                continue;
            }
            answers.push(AbortAnswer {
                hook: one.name.clone(),
                answer: one.aborted(aborted),
            });
        }
        answers
    }

    /// Runs `text.complete`.
    pub(super) fn text_complete(&mut self, at: &HookContext<'_>) -> HookedBytes {
        let mut passed = HookedBytes {
            bytes: at.so_far.to_vec(),
            ..HookedBytes::default()
        };
        for &index in &self.at[HookPoint::TextComplete as usize] {
            let one = &mut self.all[index];
            if one.is_disabled {
                continue;
            }
            match one.text_complete(at, passed.bytes.clone()) {
                Ok(text) => passed.bytes = text,
                Err(fault) => passed.faults.push((one.name.clone(), fault)),
            }
        }
        passed.is_rewritten = passed.bytes != at.so_far;
        passed
    }

    /// Runs `tool.execute.before`. No hook is called after one that blocks the call.
    pub(super) fn tool_before(&mut self, call: &ToolCall) -> (PendingCall, Faults) {
        let mut before = PendingCall::new(call.input.clone());
        let mut faults = Faults::new();
        for &index in &self.at[HookPoint::ToolBefore as usize] {
            let one = &mut self.all[index];
            let (call, mut own) = (call.clone(), before.clone());
            let said = one.ask(move |hook| {
                hook.tool_before(&call, &mut own);
                own
            });
            one.store_answer(said, &mut before, &mut faults);
            let new = before.consult.iter_mut().filter(|(by, _)| by.is_empty());
            new.for_each(|(by, _)| by.clone_from(&one.name));
            if before.is_blocked() {
                break;
            }
        }
        (before, faults)
    }

    /// Runs `tool.execute.after`.
    pub(super) fn tool_after(
        &mut self,
        call: &ToolCall,
        after: ToolOutput,
    ) -> (ToolOutput, Faults) {
        let mut after = after;
        let mut faults = Faults::new();
        for &index in &self.at[HookPoint::ToolAfter as usize] {
            let one = &mut self.all[index];
            let (call, mut own) = (call.clone(), after.clone());
            let said = one.ask(move |hook| {
                hook.tool_after(&call, &mut own);
                own
            });
            one.store_answer(said, &mut after, &mut faults);
        }
        (after, faults)
    }

    /// Runs `messages.transform`.
    pub(super) fn messages(
        &mut self,
        target: &RequestTarget,
        messages: &mut Vec<Message>,
    ) -> Faults {
        let mut faults = Faults::new();
        for &index in &self.at[HookPoint::Messages as usize] {
            let one = &mut self.all[index];
            let (target, mut own) = (target.clone(), messages.clone());
            let said = one.ask(move |hook| {
                hook.messages(&target, &mut own);
                own
            });
            one.store_answer(said, messages, &mut faults);
        }
        faults
    }

    /// Runs `chat.headers`.
    pub(super) fn headers(
        &mut self,
        target: &RequestTarget,
        headers: &mut Vec<(String, String)>,
    ) -> Faults {
        let mut faults = Faults::new();
        for &index in &self.at[HookPoint::Headers as usize] {
            let one = &mut self.all[index];
            let (target, mut own) = (target.clone(), headers.clone());
            let said = one.ask(move |hook| {
                hook.headers(&target, &mut own);
                own
            });
            one.store_answer(said, headers, &mut faults);
        }
        faults
    }

    /// Runs `event`.
    pub(super) fn event(&mut self, event: &SessionEvent) -> Faults {
        let mut faults = Faults::new();
        for &index in &self.at[HookPoint::Event as usize] {
            let one = &mut self.all[index];
            let own = event.clone();
            let said = one.ask(move |hook| hook.event(&own));
            one.store_answer(said, &mut (), &mut faults);
        }
        faults
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.all.iter().map(|one| &one.name);
        f.debug_list().entries(names).finish()
    }
}

/// The hooks that failed, each with its name.
pub(super) type Faults = Vec<(String, HookFault)>;

/// The bytes after all hooks.
#[derive(Debug, Default)]
pub(super) struct HookedBytes {
    pub(super) bytes: Vec<u8>,
    pub(super) is_rewritten: bool,
    pub(super) aborted_by: Option<String>,
    pub(super) faults: Faults,
}

/// The answer of one hook to an abort.
#[derive(Debug)]
pub(super) struct AbortAnswer {
    pub(super) hook: String,
    pub(super) answer: Result<HookAnswer, HookFault>,
}
