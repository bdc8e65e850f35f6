//! The interface to a store that records a turn while it runs.

use std::time::Duration;

use super::message::Message;
use super::step::Step;
use crate::Conversation;

/// Records the steps and the messages of an [`AgentTurn`](super::AgentTurn) before they are published.
pub trait TurnRecorder: Send {
    /// Records a step. `elapsed` is the time since the reply began, and `conversation` has the state after the step: its
    /// [`snapshot`](Conversation::snapshot) contains the guidance that waits.
    ///
    /// # Errors
    /// Returns an error if the step was not recorded and the turn must not continue without its record.
    fn record_step(
        &mut self,
        elapsed: Duration,
        step: &Step,
        conversation: &Conversation,
    ) -> Result<(), NotRecorded>;

    /// Records a message that the turn adds to the conversation.
    ///
    /// # Errors
    /// Returns an error if the message was not recorded and the turn must not continue without its record.
    fn record_message(
        &mut self,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<(), NotRecorded>;
}

/// The error of a recorder that failed and asks for the end of the turn. The recorder itself keeps the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRecorded;

impl std::fmt::Display for NotRecorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the turn is not recorded")
    }
}

impl std::error::Error for NotRecorded {}
