//! Hooks with a deadline, each on a thread of its own.
//!
//! A thread runs one job at a time. The answer of a hook after its deadline is dropped, and so is every answer after
//! the user cancelled.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use super::{Hook, HookContext, HookFault};
use crate::harness::cancel::Cancel;
use crate::{Channel, PartId};

/// The thread of a hook. It ends when the worker is dropped and the hook has returned.
pub(super) struct HookWorker {
    jobs: Sender<Job>,
    /// The number of jobs sent to the thread.
    given: u64,
    /// The number of the last job that the hook returned from.
    returned: Arc<AtomicU64>,
    /// The number of the last job that did not return in time.
    given_up: u64,
    deadline: Duration,
    cancel: Cancel,
    /// The part whose text the thread has, and the length of that text.
    known: Option<(PartKey, usize)>,
}

type Job = Box<dyn FnOnce(&mut ThreadState) + Send>;
type PartKey = (String, u32, PartId);

/// The data of the thread.
struct ThreadState {
    hook: Box<dyn Hook>,
    /// The text of the part in the last call. Only new text is sent to the thread: sending the whole text with every
    /// delta would take time quadratic in its length.
    so_far: Vec<u8>,
}

/// [`HookContext`] with owned data, and with only the new text of the part.
pub(super) struct OwnedContext {
    session: String,
    message: String,
    attempt: u32,
    time: Duration,
    part: PartId,
    part_name: String,
    channel: Channel,
    tool: Option<String>,
    call: Option<String>,
    so_far: Vec<u8>,
    start: usize,
}

impl OwnedContext {
    pub(super) fn new(at: &HookContext<'_>) -> OwnedContext {
        OwnedContext {
            session: at.session.to_owned(),
            message: at.message.to_owned(),
            attempt: at.attempt,
            time: at.time,
            part: at.part,
            part_name: at.part_name.to_owned(),
            channel: at.channel,
            tool: at.tool.map(str::to_owned),
            call: at.call.map(str::to_owned),
            so_far: Vec::new(),
            start: 0,
        }
    }

    fn key(&self) -> PartKey {
        (self.message.clone(), self.attempt, self.part)
    }

    fn at<'a>(&'a self, so_far: &'a [u8]) -> HookContext<'a> {
        HookContext {
            session: &self.session,
            message: &self.message,
            attempt: self.attempt,
            time: self.time,
            part: self.part,
            part_name: &self.part_name,
            channel: self.channel,
            tool: self.tool.as_deref(),
            call: self.call.as_deref(),
            so_far,
        }
    }
}

impl HookWorker {
    pub(super) fn new(
        name: &str,
        deadline: Duration,
        hook: Box<dyn Hook>,
    ) -> io::Result<HookWorker> {
        let (jobs, asked) = mpsc::channel::<Job>();
        let mut own = ThreadState {
            hook,
            so_far: Vec::new(),
        };
        let thread = thread::Builder::new().name(format!("hook {name}"));
        thread.spawn(move || asked.into_iter().for_each(|job| job(&mut own)))?;
        Ok(HookWorker {
            jobs,
            given: 0,
            returned: Arc::default(),
            given_up: 0,
            deadline,
            cancel: Cancel::default(),
            known: None,
        })
    }

    /// Calls the hook and waits for its answer until the deadline.
    pub(super) fn call<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut dyn Hook) -> T + Send + 'static,
    ) -> Result<T, HookFault> {
        self.run(move |own| ask(&mut *own.hook))
    }

    /// Calls the hook with a position in a stream, and waits for its answer until the deadline.
    pub(super) fn call_at<T: Send + 'static>(
        &mut self,
        at: OwnedContext,
        ask: impl FnOnce(&mut dyn Hook, &HookContext<'_>) -> T + Send + 'static,
    ) -> Result<T, HookFault> {
        let (key, end) = (at.key(), at.start + at.so_far.len());
        let said = self.run(move |own| {
            own.so_far.truncate(at.start);
            own.so_far.extend_from_slice(&at.so_far);
            ask(&mut *own.hook, &at.at(&own.so_far))
        });
        self.known = said.is_ok().then_some((key, end));
        said
    }

    /// Returns the position with the text that the thread does not have yet.
    pub(super) fn at(&self, at: &HookContext<'_>) -> OwnedContext {
        let mut own = OwnedContext::new(at);
        let known = self.known.as_ref().filter(|(key, _)| *key == own.key());
        // Within an attempt a part only grows, so the known text is a prefix.
        own.start = known.map_or(0, |(_, known)| (*known).min(at.so_far.len()));
        own.so_far = at.so_far[own.start..].to_vec();
        own
    }

    /// Sets the switch that ends every wait for the hook.
    pub(super) fn set_cancel(&mut self, cancel: &Cancel) {
        self.cancel = cancel.clone();
    }

    /// Returns true if the user cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.cancel.is_cancelled()
    }

    /// Calls the hook without waiting for its answer. Does nothing while the hook hangs.
    pub(super) fn tell(&mut self, tell: impl FnOnce(&mut dyn Hook) + Send + 'static) {
        if !self.is_stuck() {
            // This fails only if the thread is gone, and then there is no hook to notify.
            let _gone = self.give(move |own| tell(&mut *own.hook), |_| {});
        }
    }

    /// Returns true if the hook missed a deadline and has not returned since.
    fn is_stuck(&self) -> bool {
        self.returned.load(Ordering::Acquire) < self.given_up
    }

    fn give<T>(
        &mut self,
        job: impl FnOnce(&mut ThreadState) -> T + Send + 'static,
        say: impl FnOnce(thread::Result<T>) + Send + 'static,
    ) -> Result<(), HookFault> {
        self.given += 1;
        let (number, returned) = (self.given, Arc::clone(&self.returned));
        let job: Job = Box::new(move |own| {
            let result = catch_unwind(AssertUnwindSafe(|| job(own)));
            returned.store(number, Ordering::Release);
            say(result);
        });
        self.jobs.send(job).map_err(|_| HookFault::Panicked)
    }

    fn run<T: Send + 'static>(
        &mut self,
        job: impl FnOnce(&mut ThreadState) -> T + Send + 'static,
    ) -> Result<T, HookFault> {
        if self.cancel.is_cancelled() {
            return Err(HookFault::Cancelled);
        }
        if self.is_stuck() {
            return Err(HookFault::TimedOut);
        }
        // Capacity for both senders, so that neither the hook nor the user's cancel blocks.
        let (say, said) = mpsc::sync_channel(2);
        let answer = say.clone();
        self.give(job, move |result| {
            // This fails if the loop has stopped waiting.
            let _late = answer.send(Some(result));
        })?;
        let _alarm = self.cancel.on_cancel(move || {
            let _answered = say.try_send(None);
        });
        match said.recv_timeout(self.deadline) {
            Ok(Some(result)) => result.map_err(|_| HookFault::Panicked),
            Ok(None) => Err(HookFault::Cancelled),
            Err(RecvTimeoutError::Timeout) => {
                self.given_up = self.given;
                Err(HookFault::TimedOut)
            }
            Err(RecvTimeoutError::Disconnected) => Err(HookFault::Panicked),
        }
    }
}
