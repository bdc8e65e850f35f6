//! The reference loop with I/O: drives a [`Processor`] over a [`Provider`].
//!
//! Needs a tokio runtime with time enabled. No task is spawned: a [`Run`] owns the transport, and dropping it closes
//! the transport without calling a hook.

use std::collections::VecDeque;
use std::fmt;
use std::future::{pending, poll_fn};
use std::mem;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::cancel::Cancel;
use super::message::Request;
use super::processor::{PreparedRequest, Processor};
use super::provider::{EventStream, Failure, Provider};
use super::step::{Input, ReplyOutcome, Step};
use crate::{Conversation, Event};

/// A reply in progress, which returns one step at a time.
///
/// The provider is read only while a step is awaited, so a consumer that stops reading stops the provider, and at most
/// the steps of one event are buffered. Steps for the transport ([`Step::Send`], [`Step::CancelUpstream`]) are carried
/// out before they are returned.
///
/// # Example: single steps, then the rest at once
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Run, Scripted, ScriptedReply, Settings, Step};
/// use ttsr::{Channel, Pack};
/// let mut provider = Scripted::new([
///     ScriptedReply::default().tool("clock", "call_1", "{}").finish("tool_use"),
///     ScriptedReply::default().text("It is noon.").finish("stop"),
/// ]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let reply = runtime.block_on(async {
///     let again = request.clone();
///     let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
///     let first = run.next().await;
///     assert!(matches!(first, Some(Step::Send { attempt: 1, .. })));
///     assert_eq!(run.conversation().turns(), 1);
///     let called = run.finish(|_| {}).await.reply;
///     assert_eq!(called.tool_calls().count(), 1);
///     // The host runs the tool, puts its result into the request, and goes on.
///     let run = Run::proceed(&mut processor, &mut provider, again, "msg_2", Cancel::default());
///     run.finish(|_| {}).await.reply
/// });
/// assert_eq!(reply.text(Channel::Text), "It is noon.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Run<'a, P: Provider + ?Sized> {
    processor: &'a mut Processor,
    provider: &'a mut P,
    request: Request,
    cancel: Cancel,
    upstream: Upstream,
    began: Instant,
    /// The deadline of the current wait for the provider; the outer `None` if no wait has begun.
    waiting: Option<Option<Duration>>,
    /// The steps of the last input that were not returned yet.
    steps: VecDeque<Step>,
    spare: Vec<Step>,
}

/// The transport, if it is open.
struct Upstream(Option<EventStream>);

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "open" } else { "closed" })
    }
}

impl<'a, P: Provider + ?Sized> Run<'a, P> {
    /// Begins the first reply to a prompt: see [`Processor::begin`].
    pub fn begin(
        processor: &'a mut Processor,
        provider: &'a mut P,
        request: Request,
        message: impl Into<String>,
        cancel: Cancel,
    ) -> Run<'a, P> {
        let mut steps = Vec::new();
        processor.begin(message, &mut steps);
        Run::new(processor, provider, request, cancel, steps)
    }

    /// Begins the next reply of the same turn: see [`Processor::proceed`].
    pub fn proceed(
        processor: &'a mut Processor,
        provider: &'a mut P,
        request: Request,
        message: impl Into<String>,
        cancel: Cancel,
    ) -> Run<'a, P> {
        let mut steps = Vec::new();
        processor.proceed(message, &mut steps);
        Run::new(processor, provider, request, cancel, steps)
    }

    fn new(
        processor: &'a mut Processor,
        provider: &'a mut P,
        request: Request,
        cancel: Cancel,
        steps: Vec<Step>,
    ) -> Run<'a, P> {
        processor.set_cancel(&cancel);
        Run {
            processor,
            provider,
            request,
            cancel,
            upstream: Upstream(None),
            began: Instant::now(),
            waiting: None,
            steps: steps.into(),
            spare: Vec::new(),
        }
    }

    /// Returns the next step, and `None` after [`Step::Finish`].
    ///
    /// The future may be dropped before it is ready: the next call continues from there.
    ///
    /// # Panics
    /// If it is polled outside of a tokio runtime with time enabled.
    pub async fn next(&mut self) -> Option<Step> {
        loop {
            if let Some(step) = self.steps.pop_front() {
                match step {
                    Step::Send { .. } if self.cancel.is_cancelled() => {
                        self.step(Input::Cancel);
                    }
                    Step::Send { .. } => {
                        self.send(&step);
                        return Some(step);
                    }
                    step => return Some(step),
                }
            } else if self.processor.is_idle() {
                return None;
            } else {
                let input = self.input().await;
                self.step(input);
            }
        }
    }

    /// Returns the conversation. Its state is that after all steps of the last input, of which some may not be returned
    /// yet.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        self.processor.conversation()
    }

    /// Runs the reply to its end. `publish` sees every step but the last.
    ///
    /// # Panics
    /// Panics if [`next`](Self::next) returned [`Step::Finish`] before.
    pub async fn finish(mut self, mut publish: impl FnMut(&Step)) -> ReplyOutcome {
        loop {
            match self.next().await {
                Some(Step::Finish(outcome)) => return *outcome,
                Some(step) => publish(&step),
                None => panic!("the end of the reply was given out already"),
            }
        }
    }

    /// Waits for the next input. A cancel takes precedence over the provider, and the provider over time.
    async fn input(&mut self) -> Input {
        // Yields to other tasks from time to time, even if the provider is always ready.
        tokio::task::consume_budget().await;
        let now = self.began.elapsed();
        let deadline = *self.waiting.get_or_insert_with(|| self.processor.wait(now));
        let deadline = deadline.and_then(|deadline| self.began.checked_add(deadline));
        tokio::select! {
            biased;
            () = self.cancel.cancelled() => Input::Cancel,
            item = next_event(&mut self.upstream.0) => match item {
                Some(Ok(event)) => Input::Event(event),
                Some(Err(failure)) => Input::Failed(failure),
                None => Input::End,
            },
            () = until(deadline) => Input::Tick,
        }
    }

    /// Passes an input to the processor. The transport is closed before the steps are returned.
    fn step(&mut self, input: Input) {
        self.waiting = None;
        // A hook that is notified of a cancel must not delay the close of the connection.
        if matches!(input, Input::End | Input::Failed(_) | Input::Cancel) {
            self.upstream.0 = None;
        }
        let mut out = mem::take(&mut self.spare);
        self.processor.step(self.began.elapsed(), input, &mut out);
        let is_over = |step: &Step| matches!(step, Step::CancelUpstream | Step::Finish(_));
        if out.iter().any(is_over) {
            self.upstream.0 = None;
        }
        self.steps.extend(out.drain(..));
        self.spare = out;
    }

    fn send(&mut self, step: &Step) {
        if let Step::Send {
            messages,
            model,
            temperature,
            ..
        } = step
        {
            self.request.messages.extend_from_slice(messages);
            if let Some(model) = model {
                self.request.model.clone_from(model);
            }
            self.request.temperature = temperature.or(self.request.temperature);
        }
        let mut out = mem::take(&mut self.spare);
        let prepared = self.processor.prepare(&self.request, &mut out);
        self.steps.extend(out.drain(..));
        self.spare = out;
        // `None`: the reply is over, and the steps give the reason.
        if let Some(PreparedRequest { request, added }) = prepared {
            self.request.messages.extend(added);
            self.upstream.0 = Some(self.provider.send(&request));
            self.step(Input::Sent);
        }
    }
}

/// Runs the first reply to a prompt to its end. `publish` sees every step but the last, in order.
///
/// The same as [`Run::begin`] followed by [`Run::finish`].
///
/// # Panics
/// If it is polled outside of a tokio runtime with time enabled.
///
/// # Example: one reply
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{Cancel, End, Hooks, Processor, Request, Scripted, ScriptedReply, Settings, Step, run};
/// let mut provider = Scripted::new([ScriptedReply::default().text("Hello.").finish("stop")]);
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let mut published = Vec::new();
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |step| {
///     if let Step::Forward { bytes, .. } = step {
///         published.extend_from_slice(bytes);
///     }
/// });
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let outcome = runtime.block_on(running);
/// assert_eq!(outcome.end, End::Complete { reason: "stop".into() });
/// assert_eq!(published, b"Hello.");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn run<P: Provider + ?Sized>(
    processor: &mut Processor,
    provider: &mut P,
    request: Request,
    message: impl Into<String>,
    cancel: Cancel,
    publish: impl FnMut(&Step),
) -> ReplyOutcome {
    let run = Run::begin(processor, provider, request, message, cancel);
    run.finish(publish).await
}

async fn next_event(upstream: &mut Option<EventStream>) -> Option<Result<Event, Failure>> {
    let stream = upstream.as_mut()?;
    poll_fn(|cx| stream.as_mut().poll_next(cx)).await
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
