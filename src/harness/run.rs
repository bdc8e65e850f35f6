//! The reference loop with its I/O: drives a [`Processor`] over a [`Provider`].
//!
//! Needs a tokio runtime with its time enabled. It spawns nothing: whoever holds the [`Run`] holds the
//! transport, and dropping it closes the transport and calls no hook.

use std::collections::VecDeque;
use std::fmt;
use std::future::{pending, poll_fn};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::message::Request;
use super::processor::{Prepared, Processor};
use super::provider::{EventStream, Failure, Provider};
use super::step::{Input, Outcome, Step};
use crate::{Event, Session};

/// The user's way to end a reply. Clones share one switch, which stays on.
///
/// # Example: one switch, many hands
/// ```
/// use ttsr::harness::Cancel;
/// let cancel = Cancel::default();
/// let button = cancel.clone();
/// assert!(!cancel.is_cancelled());
/// button.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone)]
pub struct Cancel {
    switch: Arc<Switch>,
}

struct Switch {
    is_on: watch::Sender<bool>,
    alarms: Mutex<Alarms>,
}

/// Those who wait where there is no future to wait for.
#[derive(Default)]
struct Alarms {
    set: Vec<(u64, Box<dyn FnOnce() + Send>)>,
    next: u64,
}

/// Until this is dropped, or the switch is thrown.
pub(super) struct Alarm<'a> {
    switch: &'a Switch,
    number: u64,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel {
            switch: Arc::new(Switch {
                is_on: watch::Sender::new(false),
                alarms: Mutex::default(),
            }),
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl Switch {
    fn alarms(&self) -> MutexGuard<'_, Alarms> {
        // Nothing panics while the lock is held.
        self.alarms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        let mut alarms = self.switch.alarms();
        alarms.set.retain(|(number, _)| *number != self.number);
    }
}

impl Cancel {
    /// Ends every reply that runs under this switch.
    ///
    /// # Example: the user has enough
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Cancel, End, Hooks, Processor, Reason, Request, Script, Scripted, Settings, run};
    /// let mut provider = Scripted::new([Script::default().text("And then").hang()]);
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let cancel = Cancel::default();
    /// let switch = cancel.clone();
    /// let request = Request::new("a-model", Vec::new());
    /// let running = run(&mut processor, &mut provider, request, "msg_1", cancel, |step| {
    ///     if let ttsr::harness::Step::Forward { .. } = step {
    ///         switch.cancel();
    ///     }
    /// });
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let outcome = runtime.block_on(running);
    /// assert!(matches!(outcome.end, End::Aborted { reason: Reason::User, .. }));
    /// assert!(switch.is_cancelled());
    /// assert_eq!(provider.cancelled(), [true], "the connection is closed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        self.switch.is_on.send_replace(true);
        let set = mem::take(&mut self.switch.alarms().set);
        set.into_iter().for_each(|(_, ring)| ring());
    }

    /// Has `ring` called, once, when it is switched on; at once if it is on already.
    pub(super) fn alarm(&self, ring: impl FnOnce() + Send + 'static) -> Alarm<'_> {
        let switch = &*self.switch;
        let mut alarms = switch.alarms();
        alarms.next += 1;
        let number = alarms.next;
        // Whoever throws the switch does so before taking the alarms: either they find this one, or it is
        // seen here.
        if self.is_cancelled() {
            drop(alarms);
            ring();
        } else {
            alarms.set.push((number, Box::new(ring)));
        }
        Alarm { switch, number }
    }

    /// Whether it was switched on.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.switch.is_on.borrow()
    }

    /// Waits until it is switched on.
    ///
    /// # Example: whoever waits for it
    /// ```
    /// use ttsr::harness::Cancel;
    /// let cancel = Cancel::default();
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(async {
    ///     let switch = cancel.clone();
    ///     let throws = async { switch.cancel() };
    ///     tokio::join!(cancel.cancelled(), throws);
    /// });
    /// assert!(cancel.is_cancelled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn cancelled(&self) {
        // It fails only if the sender is gone, and the sender is held here.
        if self
            .switch
            .is_on
            .subscribe()
            .wait_for(|is_on| *is_on)
            .await
            .is_err()
        {
            pending::<()>().await;
        }
    }
}

/// A reply under way: ask for one step after the other.
///
/// Nothing is read from the provider unless a step is asked for, so a consumer that stops reading stops
/// the provider, and what is buffered is what one event brought. Steps for the transport
/// ([`Step::Send`], [`Step::CancelUpstream`]) are done already when they are given out.
///
/// # Example: step by step, and then the rest
/// ```
/// use ttsr::harness::{Cancel, Hooks, Processor, Request, Run, Script, Scripted, Settings, Step};
/// use ttsr::{Channel, Pack};
/// let mut provider = Scripted::new([
///     Script::default().tool("clock", "call_1", "{}").finish("tool_use"),
///     Script::default().text("It is noon.").finish("stop"),
/// ]);
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
/// let request = Request::new("a-model", Vec::new());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let reply = runtime.block_on(async {
///     let again = request.clone();
///     let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
///     let first = run.next().await;
///     assert!(matches!(first, Some(Step::Send { attempt: 1, .. })));
///     assert_eq!(run.session().turn(), 1);
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
    /// Until when to wait for the provider, once waiting has begun.
    waiting: Option<Option<Duration>>,
    /// The steps of the last input that were not given out yet.
    steps: VecDeque<Step>,
    spare: Vec<Step>,
}

/// The transport, if there is one.
struct Upstream(Option<EventStream>);

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "open" } else { "closed" })
    }
}

impl<'a, P: Provider + ?Sized> Run<'a, P> {
    /// The first reply to a prompt: see [`Processor::begin`].
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

    /// The next reply of the same turn: see [`Processor::proceed`].
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
        processor.cancelled_by(&cancel);
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

    /// The next step; none after [`Step::Finish`].
    ///
    /// Dropping the future before it is ready loses nothing, and the next call goes on from there.
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

    /// What the rules know of the conversation, as it is after the step that was given out last.
    #[must_use]
    pub fn session(&self) -> &Session {
        self.processor.session()
    }

    /// Everything up to the end; `publish` sees every step but the last.
    ///
    /// # Panics
    /// If [`next`](Self::next) gave out the end already.
    pub async fn finish(mut self, mut publish: impl FnMut(&Step)) -> Outcome {
        loop {
            match self.next().await {
                Some(Step::Finish(outcome)) => return *outcome,
                Some(step) => publish(&step),
                None => panic!("the end of the reply was given out already"),
            }
        }
    }

    /// Waits for whatever comes first. The user wins over the provider, the provider over the clock.
    async fn input(&mut self) -> Input {
        // A provider that is always ready must not keep others from running.
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

    /// Takes an input. The transport is dropped before anyone sees why.
    fn step(&mut self, input: Input) {
        self.waiting = None;
        // Hooks that hear of a cancel must not keep the connection open.
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
        // None: the reply is over, and the steps say why.
        if let Some(Prepared { request, added }) = prepared {
            self.request.messages.extend(added);
            self.upstream.0 = Some(self.provider.send(&request));
            self.step(Input::Sent);
        }
    }
}

/// Runs the first reply to a prompt to its end. `publish` sees every step but the last, in order.
///
/// The same as [`Run::begin`] and [`Run::finish`].
///
/// # Example: one reply
/// ```
/// use ttsr::Pack;
/// use ttsr::harness::{Cancel, End, Hooks, Processor, Request, Script, Scripted, Settings, Step, run};
/// let mut provider = Scripted::new([Script::default().text("Hello.").finish("stop")]);
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
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
) -> Outcome {
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
