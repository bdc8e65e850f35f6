//! A registered hook: calls the hook in the loop or on its thread, and reports failures.

use std::borrow::Cow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::timed::HookWorker;
use super::{Delta, Faults, Hook, HookAnswer, HookContext, HookFault};
use crate::harness::aborted::Aborted;

/// A hook with its name.
pub(super) struct Registered {
    pub(super) name: String,
    pub(super) place: HookThread,
    /// True if the hook failed and is not called again in this reply.
    pub(super) is_disabled: bool,
}

/// The thread that a hook runs on.
pub(super) enum HookThread {
    Loop(Box<dyn Hook>),
    Worker(HookWorker),
}

impl Registered {
    pub(super) fn delta(
        &mut self,
        at: &HookContext<'_>,
        bytes: &[u8],
    ) -> Result<DeltaAnswer, HookFault> {
        let said = match &mut self.place {
            HookThread::Loop(hook) => catch_panic(|| {
                let mut delta = Delta::new(bytes);
                hook.delta(at, &mut delta);
                DeltaAnswer::new(delta)
            }),
            HookThread::Worker(worker) => {
                let (at, bytes) = (worker.at(at), bytes.to_vec());
                worker.call_at(at, move |hook, at| {
                    let mut delta = Delta::new(&bytes);
                    hook.delta(at, &mut delta);
                    DeltaAnswer::new(delta)
                })
            }
        };
        self.is_disabled = is_disabled(&said);
        said
    }

    pub(super) fn text_complete(
        &mut self,
        at: &HookContext<'_>,
        mut text: Vec<u8>,
    ) -> Result<Vec<u8>, HookFault> {
        let said = match &mut self.place {
            HookThread::Loop(hook) => catch_panic(|| {
                hook.text_complete(at, &mut text);
                text
            }),
            HookThread::Worker(worker) => {
                let at = worker.at(at);
                worker.call_at(at, move |hook, at| {
                    hook.text_complete(at, &mut text);
                    text
                })
            }
        };
        self.is_disabled = is_disabled(&said);
        said
    }

    pub(super) fn aborted(&mut self, aborted: &Aborted) -> Result<HookAnswer, HookFault> {
        let answer = |hook: &mut dyn Hook, aborted: &Aborted| {
            let mut answer = HookAnswer::default();
            hook.aborted(aborted, &mut answer);
            answer
        };
        let said = match &mut self.place {
            HookThread::Loop(hook) => catch_panic(|| answer(&mut **hook, aborted)),
            HookThread::Worker(worker) => {
                let aborted = aborted.clone();
                if worker.is_cancelled() {
                    // After a cancel no hook can retry the reply, so its answer is not awaited.
                    worker.tell(move |hook| drop(answer(hook, &aborted)));
                    return Ok(HookAnswer::default());
                }
                worker.call(move |hook| answer(hook, &aborted))
            }
        };
        self.is_disabled = is_disabled(&said);
        said
    }

    /// Calls the hook with owned data. Returns `None` if the hook is disabled.
    pub(super) fn ask<T: Send + 'static>(
        &mut self,
        ask: impl FnOnce(&mut dyn Hook) -> T + Send + 'static,
    ) -> Option<Result<T, HookFault>> {
        if self.is_disabled {
            return None;
        }
        let said = match &mut self.place {
            HookThread::Loop(hook) => catch_panic(|| ask(&mut **hook)),
            HookThread::Worker(worker) => worker.call(ask),
        };
        self.is_disabled = is_disabled(&said);
        Some(said)
    }

    /// Stores the answer in `there`, or the fault in `faults`.
    pub(super) fn store_answer<T>(
        &self,
        said: Option<Result<T, HookFault>>,
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
pub(super) struct DeltaAnswer {
    pub(super) rewritten: Option<Vec<u8>>,
    pub(super) is_abort: bool,
}

impl DeltaAnswer {
    fn new(delta: Delta<'_>) -> DeltaAnswer {
        DeltaAnswer {
            is_abort: delta.abort,
            rewritten: match delta.bytes {
                Cow::Owned(bytes) => Some(bytes),
                Cow::Borrowed(_) => None,
            },
        }
    }
}

fn is_disabled<T>(said: &Result<T, HookFault>) -> bool {
    said.as_ref().is_err_and(|fault| fault.is_hook_failure())
}

/// Calls a hook and catches its panic. The hook's own state may be inconsistent after a panic, which is why the hook is
/// disabled. The loop's state is not, because the hook received copies or data that is dropped.
fn catch_panic<T>(call: impl FnOnce() -> T) -> Result<T, HookFault> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|_| HookFault::Panicked)
}
