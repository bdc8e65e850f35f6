//! Hooks made of functions.

use super::{Delta, Hook, HookAnswer, HookContext, HookPoint};
use crate::harness::aborted::Aborted;
use crate::harness::call::{PendingCall, ToolCall, ToolOutput};

pub(super) struct OnDelta<F>(pub(super) F);

impl<F: FnMut(&HookContext<'_>, &mut Delta<'_>) + Send> Hook for OnDelta<F> {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Delta]
    }

    fn delta(&mut self, at: &HookContext<'_>, delta: &mut Delta<'_>) {
        (self.0)(at, delta);
    }
}

pub(super) struct OnAborted<F>(pub(super) F);

impl<F: FnMut(&Aborted, &mut HookAnswer) + Send> Hook for OnAborted<F> {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Aborted]
    }

    fn aborted(&mut self, aborted: &Aborted, answer: &mut HookAnswer) {
        (self.0)(aborted, answer);
    }
}

pub(super) struct OnToolBefore<F>(pub(super) F);

impl<F: FnMut(&ToolCall, &mut PendingCall) + Send> Hook for OnToolBefore<F> {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::ToolBefore]
    }

    fn tool_before(&mut self, call: &ToolCall, before: &mut PendingCall) {
        (self.0)(call, before);
    }
}

pub(super) struct OnToolAfter<F>(pub(super) F);

impl<F: FnMut(&ToolCall, &mut ToolOutput) + Send> Hook for OnToolAfter<F> {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::ToolAfter]
    }

    fn tool_after(&mut self, call: &ToolCall, after: &mut ToolOutput) {
        (self.0)(call, after);
    }
}
