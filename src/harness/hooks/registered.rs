//! A registered hook: calls the hook in the loop or on its thread, and reports failures.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::timed::Worker;
use super::{Answer, At, Delta, Fault, Faults, Hook};
use crate::harness::aborted::Aborted;

/// A hook with its name.
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) place: Place,
    /// True if the hook failed and is not called again in this reply.
    pub(super) is_out: bool,
}

/// The thread that a hook runs on.
pub(super) enum Place {
    Here(Box<dyn Hook>),
    Elsewhere(Worker),
}

impl Registered {
    pub(super) fn delta(&mut self, at: &At<'_>, bytes: &[u8]) -> Result<Seen, Fault> {
        let said = match &mut self.place {
            Place::Here(hook) => caught(|| {
                let mut delta = Delta::new(bytes);
                hook.delta(at, &mut delta);
                Seen::new(delta)
            }),
            Place::Elsewhere(worker) => {
                let (at, bytes) = (worker.at(at), bytes.to_vec());
                worker.call_at(at, move |hook, at| {
                    let mut delta = Delta::new(&bytes);
                    hook.delta(at, &mut delta);
                    Seen::new(delta)
                })
            }
        };
        self.is_out = is_out(&said);
        said
    }

    pub(super) fn text_complete(
        &mut self,
        at: &At<'_>,
        mut text: Vec<u8>,
    ) -> Result<Vec<u8>, Fault> {
        let said = match &mut self.place {
            Place::Here(hook) => caught(|| {
                hook.text_complete(at, &mut text);
                text
            }),
            Place::Elsewhere(worker) => {
                let at = worker.at(at);
                worker.call_at(at, move |hook, at| {
                    hook.text_complete(at, &mut text);
                    text
                })
            }
        };
        self.is_out = is_out(&said);
        said
    }

    pub(super) fn aborted(&mut self, aborted: &Aborted) -> Result<Answer, Fault> {
        let answer = |hook: &mut dyn Hook, aborted: &Aborted| {
            let mut answer = Answer::default();
            hook.aborted(aborted, &mut answer);
            answer
        };
        let said = match &mut self.place {
            Place::Here(hook) => caught(|| answer(&mut **hook, aborted)),
            Place::Elsewhere(worker) => {
                let aborted = aborted.clone();
                if worker.is_cancelled() {
                    // After a cancel no hook can retry the reply, so its answer is not awaited.
                    worker.tell(move |hook| drop(answer(hook, &aborted)));
                    return Ok(Answer::default());
                }
                worker.call(move |hook| answer(hook, &aborted))
            }
        };
        self.is_out = is_out(&said);
        said
    }

    /// Calls the hook with owned data. Returns `None` if the hook is disabled.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut dyn Hook) -> T + Send + 'static,
    ) -> Option<Result<T, Fault>> {
        if self.is_out {
            return None;
        }
        let said = match &mut self.place {
            Place::Here(hook) => caught(|| ask(&mut **hook)),
            Place::Elsewhere(worker) => worker.call(ask),
        };
        self.is_out = is_out(&said);
        Some(said)
    }

    /// Stores the answer in `there`, or the fault in `faults`.
    pub(super) fn take<T>(
        &self,
        said: Option<Result<T, Fault>>,
        there: &mut T,
        faults: &mut Faults,
    ) {
        match said {
            Some(Ok(said)) => *there = said,
            Some(Err(fault)) => faults.push((self.name.clone(), fault)),
            None => {}
        }
    }
}

/// The answer of a hook to a delta.
pub(super) struct Seen {
    pub(super) rewritten: Option<Vec<u8>>,
    pub(super) is_abort: bool,
}

impl Seen {
    fn new(delta: Delta<'_>) -> Seen {
        Seen {
            is_abort: delta.abort,
            rewritten: match delta.bytes {
                Cow::Owned(bytes) => Some(bytes),
                Cow::Borrowed(_) => None,
            },
        }
    }
}

fn is_out<T>(said: &Result<T, Fault>) -> bool {
    said.as_ref().is_err_and(|fault| fault.is_its_own())
}

/// Calls a hook and catches its panic. The hook's own state may be inconsistent after a panic, which is why the hook is
/// disabled. The loop's state is not, because the hook received copies or data that is dropped.
fn caught<T>(call: impl FnOnce() -> T) -> Result<T, Fault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| Fault::Panicked)
}
