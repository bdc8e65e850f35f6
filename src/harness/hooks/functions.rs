//! Hooks made of functions.

use super::{Answer, At, Delta, Hook, Point};
use crate::harness::aborted::Aborted;
use crate::harness::call::{After, Before, ToolCall};

pub(super) struct OnDelta<F>(pub(super) F);

impl<F: FnMut(&At<'_>, &mut Delta<'_>) + Send> Hook for OnDelta<F> {
    fn points(&self) -> &[Point] {
        &[Point::Delta]
    }

    fn delta(&mut self, at: &At<'_>, delta: &mut Delta<'_>) {
        (self.0)(at, delta);
    }
}

pub(super) struct OnAborted<F>(pub(super) F);

impl<F: FnMut(&Aborted, &mut Answer) + Send> Hook for OnAborted<F> {
    fn points(&self) -> &[Point] {
        &[Point::Aborted]
    }

    fn aborted(&mut self, aborted: &Aborted, answer: &mut Answer) {
        (self.0)(aborted, answer);
    }
}

pub(super) struct OnToolBefore<F>(pub(super) F);

impl<F: FnMut(&ToolCall, &mut Before) + Send> Hook for OnToolBefore<F> {
    fn points(&self) -> &[Point] {
        &[Point::ToolBefore]
    }

    fn tool_before(&mut self, call: &ToolCall, before: &mut Before) {
        (self.0)(call, before);
    }
}

pub(super) struct OnToolAfter<F>(pub(super) F);

impl<F: FnMut(&ToolCall, &mut After) + Send> Hook for OnToolAfter<F> {
    fn points(&self) -> &[Point] {
        &[Point::ToolAfter]
    }

    fn tool_after(&mut self, call: &ToolCall, after: &mut After) {
        (self.0)(call, after);
    }
}
