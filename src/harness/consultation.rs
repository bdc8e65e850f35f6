//! A question to a sub-agent about a tool call, its outcome, and the texts that tell the model about both.
//!
//! Plain data: [`consult`](super::consult) asks the question.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::aborted::AbortReason;
use super::message::Message;
use crate::Decision;
use crate::rule::Consult;

/// A question to a sub-agent about a tool call.
///
/// # Example: a host asks
/// ```
/// use std::time::Duration;
/// use ttsr::rule::Consult;
/// use ttsr::harness::consult::Consultation;
/// let question = Consult { timeout_millis: 5_000, ..Consult::new("Is this commit fit to go?") };
/// let asked = Consultation::new("review", "call_1", question);
/// assert_eq!(asked.timeout(), Duration::from_secs(5));
/// assert_eq!(asked.decision, None, "no rule asks");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consultation {
    /// The full id of the rule that asks, or the name of the hook.
    pub by: String,
    /// The rule's decision; `None` if a hook or the host asks.
    pub decision: Option<Decision>,
    /// The id of the tool call.
    pub call: String,
    /// The id of the sub-agent's session. With `None` it is the id of the session that asks, a slash and the id of
    /// the call.
    pub session: Option<String>,
    /// The question and its bounds. The placeholders of the prompt are filled in.
    pub consult: Consult,
}

impl Consultation {
    /// Returns a question about a tool call that no rule asks.
    pub fn new(by: impl Into<String>, call: impl Into<String>, consult: Consult) -> Consultation {
        Consultation {
            by: by.into(),
            decision: None,
            call: call.into(),
            session: None,
            consult,
        }
    }

    /// Chooses the id of the sub-agent's session: below `parent`, and none of `others`. Returns it.
    pub(super) fn assign_session(&mut self, parent: &str, others: &[String]) -> String {
        let first = format!("{parent}/{}", self.call);
        let numbered = (2..).map(|number| format!("{first}-{number}"));
        let mut sessions = [first.clone()].into_iter().chain(numbered);
        let session = sessions.find(|session| !others.contains(session));
        let session = session.unwrap_or(first);
        self.session = Some(session.clone());
        session
    }

    /// Returns the longest time that the sub-agent may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.consult.timeout_millis)
    }

    /// Returns the message that gives the answer to the model.
    pub(super) fn answer_message(&self, answer: &str) -> Message {
        Message::steering(format!(
            "About your call {} ({} asked):\n\n{answer}",
            self.call, self.by
        ))
    }

    /// Returns the output of a call that is blocked because nobody answered.
    pub(super) fn blocked_output(&self, outcome: &ConsultOutcome) -> String {
        format!(
            "The call was blocked: {} wants it checked, and {outcome}.",
            self.by
        )
    }
}

/// The output of a call that waits because a sub-agent was asked about it.
pub(super) const PAUSED: &str = "The call has not run yet: somebody was asked about it first, and the \
    answer follows. Send the same call again to run it, send another one, or leave it.";

/// The outcome of a [`Consultation`]. Its serialized form has neither the answer nor the detail of a failure, which
/// may quote the model.
///
/// # Example: as text
/// ```
/// use ttsr::harness::consult::ConsultOutcome;
/// assert_eq!(ConsultOutcome::TimedOut.to_string(), "the sub-agent took too long");
/// let answered = ConsultOutcome::Answered("Looks fine.".into());
/// assert_eq!(answered.to_string(), "the sub-agent answered", "the answer is for the model only");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ConsultOutcome {
    /// The sub-agent answered with this text, the last of its reply.
    Answered(#[serde(skip)] String),
    /// The timeout of the consultation passed.
    TimedOut,
    /// The provider failed, or a rule or hook aborted the sub-agent.
    Failed {
        /// The kind of reason.
        reason: AbortReason,
        /// The provider's error or the rule's message; may be empty.
        #[serde(skip)]
        detail: String,
    },
    /// The sub-agent wrote no text, its provider refused to answer, or a length limit cut the answer.
    Refused {
        /// The provider's reason to stop.
        reason: String,
    },
    /// The user cancelled.
    Cancelled,
    /// The session that asks is a sub-agent's: sub-agents have no sub-agents.
    Nested,
}

impl ConsultOutcome {
    /// Returns the name used in every output: `answered`, `timed-out`, `failed`, `refused`, `cancelled` or `nested`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            ConsultOutcome::Answered(_) => "answered",
            ConsultOutcome::TimedOut => "timed-out",
            ConsultOutcome::Failed { .. } => "failed",
            ConsultOutcome::Refused { .. } => "refused",
            ConsultOutcome::Cancelled => "cancelled",
            ConsultOutcome::Nested => "nested",
        }
    }
}

impl fmt::Display for ConsultOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConsultOutcome::Answered(_) => f.write_str("the sub-agent answered"),
            ConsultOutcome::TimedOut => f.write_str("the sub-agent took too long"),
            ConsultOutcome::Failed { reason, detail } if detail.is_empty() => {
                write!(f, "the sub-agent failed: {}", reason.name())
            }
            ConsultOutcome::Failed { detail, .. } => write!(f, "the sub-agent failed: {detail}"),
            ConsultOutcome::Refused { reason } => {
                write!(f, "the sub-agent gave no answer: {reason}")
            }
            ConsultOutcome::Cancelled => f.write_str("the user cancelled"),
            ConsultOutcome::Nested => f.write_str("a sub-agent asks nobody"),
        }
    }
}
