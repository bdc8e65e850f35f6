//! From steps to events: adds what follows from a step and its time.

use std::time::Duration;

use super::aborted::{AbortStage, Aborted};
use super::event::{AbortRecord, FinishRecord, LoopEvent};
use super::step::{End, ReplyOutcome, Step};

/// Returns the [`LoopEvent`] of each step, and measures times and lengths for it.
///
/// An event that the processor [observes](Step::Observe) is returned unchanged. `Send`, `FirstToken`, `Aborted` and
/// `Finish` are made from other steps. `StepStarted` and `StepFinished` are left out: `Send` and `Finish` record the
/// same with more data.
///
/// # Example: the events of one reply
/// ```
/// use std::time::Duration;
/// use ttsr::harness::event::LoopEvent;
/// use ttsr::harness::{EventTracker, Hooks, Input, Processor, Settings};
/// use ttsr::{Event, Pack};
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let mut steps = Vec::new();
/// processor.begin("msg_1", &mut steps);
/// let finish = Event::Finish { reason: "stop".into() };
/// for input in [Input::Sent, Input::Event(finish), Input::End] {
///     processor.step(Duration::ZERO, input, &mut steps);
/// }
/// let mut tracker = EventTracker::default();
/// let track = |step| tracker.track(Duration::ZERO, step);
/// let events: Vec<LoopEvent> = steps.iter().filter_map(track).collect();
/// assert!(matches!(events[0], LoopEvent::Send { attempt: 1, .. }));
/// assert!(matches!(events.last(), Some(LoopEvent::Finish(_))));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct EventTracker {
    /// The time at which the reply began.
    began: Option<Duration>,
    /// The time at which the request of this attempt was sent.
    sent: Duration,
    /// The time of the first bytes of this attempt.
    first_bytes: Option<Duration>,
    /// The number of bytes forwarded of this attempt.
    bytes: u64,
    /// The output tokens of this attempt, as the provider counts them.
    tokens: Option<u64>,
    /// For each attempt of this reply that was cut, the number of bytes forwarded.
    cut_lengths: Vec<u64>,
    /// The number of complete answers in this conversation.
    answers: u64,
    /// The bytes of all complete answers.
    answer_bytes: u64,
}

impl EventTracker {
    /// Returns the event of a step, if it has one. `now` is the time of a clock that does not go back.
    pub fn track(&mut self, now: Duration, step: &Step) -> Option<LoopEvent> {
        match step {
            Step::Send {
                attempt,
                messages,
                model,
                ..
            } => {
                self.began.get_or_insert(now);
                self.sent = now;
                self.reset_attempt();
                Some(LoopEvent::Send {
                    attempt: *attempt,
                    messages: messages.len(),
                    model: model.clone(),
                })
            }
            Step::Forward { bytes, .. } => self.forwarded(now, bytes.len()),
            Step::Observe(LoopEvent::StepStarted | LoopEvent::StepFinished { .. }) => None,
            Step::Observe(event) => {
                match event {
                    LoopEvent::Usage { output, .. } => self.tokens = Some(*output),
                    LoopEvent::Restarted => self.reset_attempt(),
                    _ => {}
                }
                Some(event.clone())
            }
            Step::Aborted(aborted) => Some(LoopEvent::Aborted(Box::new(self.aborted(aborted)))),
            Step::Finish(outcome) => Some(LoopEvent::Finish(Box::new(self.finish(now, outcome)))),
            _ => None,
        }
    }

    fn reset_attempt(&mut self) {
        self.first_bytes = None;
        self.tokens = None;
        self.bytes = 0;
    }

    fn forwarded(&mut self, now: Duration, bytes: usize) -> Option<LoopEvent> {
        self.bytes += bytes as u64;
        if bytes == 0 || self.first_bytes.is_some() {
            return None;
        }
        self.first_bytes = Some(now);
        Some(LoopEvent::FirstToken {
            after: millis(now.saturating_sub(self.sent)),
        })
    }

    fn aborted(&mut self, aborted: &Aborted) -> AbortRecord {
        // Only an abort of the reply shortens it: a request that is not sent has no bytes, and while tools run the
        // reply is complete.
        if aborted.stage == AbortStage::Reply {
            self.cut_lengths.push(self.bytes);
        }
        AbortRecord {
            reason: aborted.reason,
            source: aborted.source.name().to_owned(),
            by: aborted.source.id().map(str::to_owned),
            attempt: aborted.attempt,
            message: aborted.message.clone(),
            model: aborted.model.clone(),
            prompt: aborted.prompt.to_string(),
            stage: Some(aborted.stage),
            bytes: self.bytes,
            calls: aborted.calls.len(),
            retry: aborted.retry,
        }
    }

    fn finish(&mut self, now: Duration, outcome: &ReplyOutcome) -> FinishRecord {
        let (complete, reason) = match &outcome.end {
            End::Complete { reason } => (true, reason.clone()),
            End::Truncated { reason } => (false, reason.clone()),
            End::Aborted { reason, .. } => (false, reason.name().to_owned()),
        };
        if complete {
            self.answers += 1;
            self.answer_bytes += self.bytes;
        }
        let record = FinishRecord {
            complete,
            reason,
            attempts: outcome.attempts,
            bytes: self.bytes,
            millis: millis(now.saturating_sub(self.began.unwrap_or(now))),
            first_token: self
                .first_bytes
                .map(|first| millis(first.saturating_sub(self.sent))),
            token_rate: self.token_rate(now),
            saved: self.saved_bytes(complete),
            unscanned: outcome.counters.unscanned_bytes,
        };
        self.began = None;
        self.cut_lengths.clear();
        self.reset_attempt();
        record
    }

    /// Returns tokens per second in thousandths; `None` without a count of tokens or within one millisecond.
    fn token_rate(&self, now: Duration) -> Option<u64> {
        let spent = millis(now.saturating_sub(self.first_bytes?));
        self.tokens?.saturating_mul(1_000_000).checked_div(spent)
    }

    /// Returns [`FinishRecord::saved`].
    fn saved_bytes(&self, complete: bool) -> u64 {
        let expected = match (complete, self.answers) {
            (true, _) => self.bytes,
            (false, 0) => return 0,
            (false, answers) => self.answer_bytes / answers,
        };
        let saved = self
            .cut_lengths
            .iter()
            .map(|cut| expected.saturating_sub(*cut));
        saved.sum()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
