//! What ends an attempt before its end, and what follows: another attempt, or no answer.

use std::mem;

use super::{Processor, State, retract};
use crate::harness::hooks::Answered;
use crate::harness::message::{Content, Message, Role};
use crate::harness::provider::Failure;
use crate::harness::reply::{PartState, Reply, ReplyPart};
use crate::harness::step::{Aborted, AbortedCall, End, Observation, Reason, Source, Step};
use crate::{Action, Channel, Decision, Hit, PartId, Partial, Rule, Severity, Stream};

/// Why an attempt ends.
#[derive(Debug)]
pub(super) struct Cause {
    reason: Reason,
    source: Source,
    detail: String,
    part: Option<PartId>,
    /// Whether the reply is taken again.
    again: Again,
    /// Whether the transport is still there.
    is_connected: bool,
    /// What of the reply stays in the context if it is taken again.
    stays: Stays,
    model: Option<String>,
    temperature: Option<u32>,
}

/// What the next attempt begins with.
#[derive(Debug, Default)]
pub(super) struct Retake {
    /// What stays of the one before.
    pub(super) kept: Option<Message>,
    pub(super) steering: Vec<Message>,
    pub(super) model: Option<String>,
    pub(super) temperature: Option<u32>,
}

/// What of a reply that was cut stays in the context. Tool input never does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stays {
    Nothing,
    /// All of it, up to the cut.
    All,
    /// What came before that part, and so many bytes of it.
    Before(PartId, usize),
}

impl Stays {
    /// What the rule that retries says. Where a match begins nobody knows, nothing of its part stays.
    fn of(rule: &Rule, stream: &Stream, hit: &Hit) -> Stays {
        match rule.partial {
            Partial::Keep => Stays::All,
            Partial::KeepBeforeMatch => {
                let start = stream.start(hit).unwrap_or(0);
                Stays::Before(hit.part, usize::try_from(start).unwrap_or(usize::MAX))
            }
            Partial::Discard => Stays::Nothing,
        }
    }

    /// How many bytes stay of each part of the reply, in order.
    fn bytes(self, reply: &Reply) -> Vec<usize> {
        let parts = reply.parts().iter();
        let cut = match self {
            Stays::Before(part, _) => parts.clone().position(|other| other.part == part),
            Stays::Nothing | Stays::All => None,
        };
        let of_part = |(place, part): (usize, &ReplyPart)| match self {
            _ if part.channel == Channel::ToolInput => 0,
            Stays::Nothing => 0,
            Stays::All => characters(&part.raw, part.raw.len()),
            Stays::Before(_, bytes) if Some(place) == cut => characters(&part.raw, bytes),
            Stays::Before(..) if Some(place) > cut => 0,
            Stays::Before(..) => characters(&part.raw, part.raw.len()),
        };
        parts.enumerate().map(of_part).collect()
    }
}

/// Of the first `most` bytes those of whole characters.
fn characters(bytes: &[u8], most: usize) -> usize {
    let bytes = &bytes[..most.min(bytes.len())];
    match std::str::from_utf8(bytes) {
        Ok(_) => bytes.len(),
        // Only a character that is not complete is left out; bytes of none are shown as U+FFFD.
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        Err(_) => bytes.len(),
    }
}

/// What stays of the reply, as the model's message.
fn kept(reply: &Reply, stays: &[usize]) -> Option<Message> {
    let parts = reply.parts().iter().zip(stays);
    let content = parts.filter(|(_, bytes)| **bytes > 0).map(|(part, bytes)| {
        let text = String::from_utf8_lossy(&part.raw[..*bytes]).into_owned();
        match part.channel {
            Channel::Reasoning => Content::Reasoning { text },
            _ => Content::Text {
                text,
                synthetic: false,
            },
        }
    });
    let content: Vec<Content> = content.collect();
    let role = Role::Assistant;
    (!content.is_empty()).then_some(Message { role, content })
}

#[derive(Debug, PartialEq, Eq)]
enum Again {
    /// A rule retries, and says this to the model; nothing to say if it is empty.
    Rule,
    /// If a hook asks for it.
    IfAsked,
    /// In no case.
    Never,
}

impl Cause {
    fn new(reason: Reason, source: Source, detail: String) -> Cause {
        Cause {
            reason,
            source,
            detail,
            part: None,
            again: Again::IfAsked,
            is_connected: true,
            stays: Stays::Nothing,
            model: None,
            temperature: None,
        }
    }

    pub(super) fn cancelled() -> Cause {
        Cause {
            again: Again::Never,
            ..Cause::new(Reason::User, Source::User, String::new())
        }
    }

    /// The bound `reply` leaves no time for another attempt.
    pub(super) fn timeout(bound: &'static str) -> Cause {
        let again = match bound {
            "reply" => Again::Never,
            _ => Again::IfAsked,
        };
        Cause {
            again,
            ..Cause::new(Reason::Timeout, Source::Limit(bound), String::new())
        }
    }

    /// The transport is gone.
    pub(super) fn failed(failure: &Failure) -> Cause {
        Cause {
            is_connected: false,
            ..Cause::new(Reason::Error, Source::Provider, failure.to_string())
        }
    }

    /// The provider reported an error in the stream.
    pub(super) fn reported(kind: &str, message: &str) -> Cause {
        let failure = Failure::new(kind, message);
        Cause::new(Reason::Error, Source::Provider, failure.to_string())
    }

    /// The stream ended, the reply did not.
    pub(super) fn cut_off() -> Cause {
        let failure = Failure::new("cut-off", "the stream ended before the reply did");
        Cause::failed(&failure)
    }

    pub(super) fn hook(name: String, part: PartId) -> Cause {
        Cause {
            part: Some(part),
            ..Cause::new(Reason::Plugin, Source::Hook(name), String::new())
        }
    }

    pub(super) fn panicked(name: String, part: PartId) -> Cause {
        let detail = "the hook panicked".to_owned();
        Cause {
            part: Some(part),
            ..Cause::new(Reason::Error, Source::Hook(name), detail)
        }
    }

    pub(super) fn limit(name: &'static str, part: PartId) -> Cause {
        Cause {
            part: Some(part),
            ..Cause::new(Reason::Error, Source::Limit(name), String::new())
        }
    }
}

impl Processor {
    /// The cause of a decision that cuts. Where a critical rule aborts, no hook brings the reply back.
    pub(super) fn cause_of(&self, decision: &Decision, message: String) -> Cause {
        let hit = match decision.source {
            crate::Source::Rule(hit) => hit,
            crate::Source::Limit { name, part, .. } => return Cause::limit(name, part),
        };
        let rule = self.stream.pack().rule(hit.rule);
        let again = match decision.action {
            Action::Retry => Again::Rule,
            _ if rule.severity == Severity::Critical => Again::Never,
            _ => Again::IfAsked,
        };
        let source = Source::Rule {
            rule: hit.rule,
            id: rule.id.clone(),
        };
        let cause = Cause {
            part: Some(hit.part),
            again,
            ..Cause::new(Reason::Plugin, source, message)
        };
        match decision.action {
            Action::Retry => Cause {
                stays: Stays::of(rule, &self.stream, &hit),
                model: rule.retry.model.clone(),
                temperature: rule.retry.temperature,
                ..cause
            },
            _ => cause,
        }
    }

    /// Ends the attempt: the hooks hear of it, once, and then it is taken again or that was it.
    pub(super) fn cut(&mut self, cause: Cause, out: &mut Vec<Step>) {
        if cause.is_connected {
            out.push(Step::CancelUpstream);
        }
        // From here on nothing belongs to this reply any more, whatever the hooks do.
        self.state = State::Asking;
        let mut aborted = self.aborted(&cause);
        let answers = self.hooks.aborted(&aborted);
        let mut steering = match cause.again {
            Again::Rule => steering(&cause.detail),
            Again::IfAsked | Again::Never => Vec::new(),
        };
        let mut wants_retry = false;
        for answered in answers {
            let may_retry = self.may_retry(&cause.again);
            wants_retry |= self.heed(answered, may_retry, &mut steering, out);
        }
        if wants_retry && cause.again == Again::IfAsked {
            self.progress.hook_retries += 1;
        }
        if !wants_retry && cause.again != Again::Rule {
            out.push(Step::Aborted(Box::new(aborted)));
            return self.give_up(cause, out);
        }
        aborted.retry = true;
        let stays = cause.stays.bytes(&aborted.partial);
        let retake = Retake {
            kept: kept(&aborted.partial, &stays),
            steering,
            model: cause.model,
            temperature: cause.temperature,
        };
        let mut retracts = Vec::new();
        retract(&aborted.partial, &stays, &mut retracts);
        out.push(Step::Aborted(Box::new(aborted)));
        out.append(&mut retracts);
        self.calls = self.calls_before.clone();
        self.ask(retake, out);
    }

    /// Ends the reply without an answer.
    pub(super) fn give_up(&mut self, cause: Cause, out: &mut Vec<Step>) {
        self.reply = Reply::default();
        let end = End::Aborted {
            reason: cause.reason,
            source: cause.source,
            detail: cause.detail,
        };
        self.finish_with(end, out);
    }

    fn may_retry(&self, again: &Again) -> bool {
        match again {
            Again::Rule => true,
            Again::IfAsked => self.progress.hook_retries < self.settings.hook_retries,
            Again::Never => false,
        }
    }

    /// Takes the answer of one hook; whether it gets its retry.
    fn heed(
        &mut self,
        answered: Answered,
        may_retry: bool,
        steering: &mut Vec<Message>,
        out: &mut Vec<Step>,
    ) -> bool {
        let Answered { hook, answer } = answered;
        let Some(answer) = answer else {
            self.note_panic(hook, out);
            return false;
        };
        if answer.retry && may_retry {
            steering.extend(answer.inject_message.map(Message::steering));
            return true;
        }
        if answer.retry {
            self.tally.refused_retries += 1;
            out.push(Step::Observe(Observation::RetryRefused { hook }));
        } else if answer.inject_message.is_some() {
            self.tally.ignored_messages += 1;
            out.push(Step::Observe(Observation::MessageIgnored { hook }));
        }
        false
    }

    /// Says what was aborted. Takes the reply: no call of it runs.
    fn aborted(&mut self, cause: &Cause) -> Aborted {
        let mut partial = mem::take(&mut self.reply);
        let calls = partial.tool_calls().map(|part| AbortedCall {
            part: part.part,
            tool: part.tool.clone(),
            call: part.call.clone(),
            is_complete: part.state == PartState::Complete,
            is_blamed: cause.part == Some(part.part),
        });
        let calls = calls.collect();
        partial.abort_calls();
        Aborted {
            attempt: self.stream.attempt(),
            reason: cause.reason,
            source: cause.source.clone(),
            detail: cause.detail.clone(),
            part: cause.part,
            calls,
            partial,
            retry: cause.again == Again::Rule,
            counters: self.stream.counters(),
        }
    }
}

fn steering(text: &str) -> Vec<Message> {
    match text {
        "" => Vec::new(),
        text => vec![Message::steering(text)],
    }
}
