//! The interface of a store that records a turn while it runs.

use std::time::Duration;

use super::message::Message;
use super::step::Step;
use crate::Session;

/// Records the steps and the messages of a [`Turn`](super::Turn) before anybody else sees them.
pub trait TurnRecorder: Send {
    /// Records a step, `elapsed` after the start of the turn, with the session as it is after the step.
    ///
    /// # Errors
    /// If the step is not recorded and the turn must not go on without that.
    fn record_step(
        &mut self,
        elapsed: Duration,
        step: &Step,
        session: &Session,
    ) -> Result<(), NotRecorded>;

    /// Records a message that the turn adds to the conversation.
    ///
    /// # Errors
    /// If the message is not recorded and the turn must not go on without that.
    fn record_message(&mut self, message: &Message, session: &Session) -> Result<(), NotRecorded>;
}

/// The recorder failed, and asks for the end of the turn. It keeps the reason itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotRecorded;

impl std::fmt::Display for NotRecorded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the turn is not recorded")
    }
}

impl std::error::Error for NotRecorded {}
