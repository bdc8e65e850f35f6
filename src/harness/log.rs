//! What happened in a conversation, for logs: typed, and without text of the model unless asked for.
//!
//! [`Journal`] makes [`LogEvent`]s of the steps of a [`Processor`](super::Processor). Where they go (a
//! [`store`](super::store), `tracing`) is not known here, nor is any clock.

use std::collections::HashMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::step::{AbortStage, Aborted, End, Observation, Outcome, Source, Step};
use crate::{Action, Channel, Decision, Pack, PartId};

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum LogEvent {
    /// A request was sent.
    Send {
        /// The number of the attempt in its turn, from 1.
        attempt: u32,
        /// How many messages were added to it.
        messages: usize,
        /// The model, if it changes with this attempt.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
    },
    /// The first bytes of an attempt came.
    FirstToken {
        /// Milliseconds since the request was sent.
        after: u64,
    },
    /// A rule was broken or a limit reached, and this was decided.
    Decision(Judged),
    /// An attempt was aborted.
    Aborted {
        /// `user`, `plugin`, `error` or `timeout`.
        reason: String,
        /// Who is behind it: `rule`, `hook`, `limit`, `provider` or `user`.
        source: String,
        /// The rule, hook or limit.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// The number of the attempt in its turn, from 1.
        attempt: u32,
        /// The id of the reply.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
        /// The model, if the host named one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        /// The prompt, as [`PromptRef`](super::PromptRef) writes it.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        prompt: String,
        /// `request`, `reply` or `tools`.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        stage: String,
        /// Bytes that had come.
        bytes: u64,
        /// Tool calls that will not run.
        calls: usize,
        /// Whether the reply is taken again.
        retry: bool,
    },
    /// A tool call is complete.
    ToolCall {
        /// The tool's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The id of the call.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        call: Option<String>,
    },
    /// The model makes the same tool call again and again.
    DoomLoop {
        /// The tool's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// How many identical calls in a row.
        times: u32,
    },
    /// Tokens used, as the provider counts them.
    Usage {
        /// Tokens of the request.
        input: u64,
        /// Tokens of the reply.
        output: u64,
    },
    /// A session was opened for a sub-agent that is asked about a tool call.
    SubAgent {
        /// The id of its session.
        session: String,
        /// The id of the session that opened it.
        parent: String,
        /// The id of the tool call.
        call: String,
        /// Who asks: the full id of a rule, or the name of a hook.
        by: String,
    },
    /// String content that no reader knows.
    Unscanned {
        /// How many bytes.
        bytes: u64,
        /// The kind of event, as the provider names it.
        of: String,
    },
    /// Anything else that is worth a line.
    Note {
        /// What it is: the name of an [`Observation`], in kebab case.
        what: String,
        /// The hook concerned.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A reply is over.
    Finish(Finished),
    /// Something that a later version of the crate writes.
    #[serde(other)]
    Unknown,
}

/// A decision and what it rests on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Judged {
    /// The full id of the rule, if one was broken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The limit that was reached, if none was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
    /// What is done.
    pub action: Action,
    /// The turn, from 1.
    pub turn: u32,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The part, as the provider calls it.
    pub part: String,
    /// What kind of part it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub channel: Option<Channel>,
    /// The tool's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The end of the match, in bytes of the part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    /// Bytes of the part that had come.
    pub decided: u64,
    /// Why the policy keeps it silent, if it does: `cut`, `shadow`, `repeat` or `allowance`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suppressed: Option<String>,
}

/// How a reply ended, and what it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finished {
    /// Whether there is an answer, and all of it.
    pub complete: bool,
    /// The provider's reason to stop; of an abort `user`, `plugin`, `error` or `timeout`.
    pub reason: String,
    /// Attempts made.
    pub attempts: u32,
    /// Bytes of the answer; of an abort those of the last attempt.
    pub bytes: u64,
    /// Milliseconds it took, all attempts together.
    pub millis: u64,
    /// Milliseconds from the last request to its first bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_token: Option<u64>,
    /// Tokens a second, in thousandths, from the first bytes to the end; if the provider counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_rate: Option<u64>,
    /// Bytes that cutting saved: how much longer the attempts that were cut would have been, were they as
    /// long as the answer; without one, as the answers of this conversation were on average.
    pub saved: u64,
    /// Bytes that rules could not read.
    pub unscanned: u64,
}

/// Turns steps into events: keeps what a step does not say by itself.
///
/// # Example: the lines of one reply
/// ```
/// use std::time::Duration;
/// use ttsr::harness::log::{Journal, LogEvent};
/// use ttsr::harness::{Hooks, Input, Processor, Settings};
/// use ttsr::{Event, Pack};
/// let session = Pack::builder().build()?.session();
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
/// let mut steps = Vec::new();
/// processor.begin("msg_1", &mut steps);
/// let finish = Event::Finish { reason: "stop".into() };
/// for input in [Input::Sent, Input::Event(finish), Input::End] {
///     processor.step(Duration::ZERO, input, &mut steps);
/// }
/// let mut journal = Journal::default();
/// let note = |step| journal.note(Duration::ZERO, step, processor.pack());
/// let events: Vec<LogEvent> = steps.iter().flat_map(note).collect();
/// assert!(matches!(events[0], LogEvent::Send { attempt: 1, .. }));
/// assert!(matches!(events.last(), Some(LogEvent::Finish(_))));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Journal {
    parts: HashMap<PartId, Part>,
    /// When the reply began.
    began: Option<Duration>,
    /// When the request of this attempt was sent.
    sent: Duration,
    first: Option<Duration>,
    /// Bytes of this attempt.
    bytes: u64,
    /// Tokens of this attempt.
    tokens: Option<u64>,
    /// Bytes of each attempt of this reply that was cut.
    cut: Vec<u64>,
    /// Answers so far, and their bytes.
    answers: (u64, u64),
}

#[derive(Clone, Debug)]
struct Part {
    name: String,
    channel: Channel,
    tool: Option<String>,
    call: Option<String>,
}

impl Journal {
    /// What a step means, if it is worth a line. `now` is the time of any clock that does not go back;
    /// `pack` has the rules of the reply.
    pub fn note(&mut self, now: Duration, step: &Step, pack: &Pack) -> Vec<LogEvent> {
        match step {
            Step::Send {
                attempt,
                messages,
                model,
                ..
            } => vec![self.sent(now, *attempt, messages.len(), model.clone())],
            Step::Open {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                let part = *part;
                let opened = Part {
                    name: name.clone(),
                    channel: *channel,
                    tool: tool.clone(),
                    call: call.clone(),
                };
                self.parts.insert(part, opened);
                Vec::new()
            }
            Step::Named { part, tool, call } => {
                if let Some(known) = self.parts.get_mut(part) {
                    known.tool = Some(tool.clone());
                    known.call = call.clone().or(known.call.take());
                }
                Vec::new()
            }
            Step::Forward { bytes, .. } => self.grew(now, bytes.len()).into_iter().collect(),
            // That a request was sent and a reply is over is told by themselves.
            Step::Observe(Observation::StepStarted | Observation::StepFinished { .. }) => {
                Vec::new()
            }
            Step::Observe(observation) => vec![self.observed(observation, pack)],
            Step::Aborted(aborted) => vec![self.aborted(aborted)],
            Step::Finish(outcome) => vec![self.finished(now, outcome)],
            _ => Vec::new(),
        }
    }

    /// The tool and the id of the call that a part is.
    fn tool(&self, part: PartId) -> (Option<String>, Option<String>) {
        let part = self.parts.get(&part);
        let tool = part.and_then(|part| part.tool.clone());
        (tool, part.and_then(|part| part.call.clone()))
    }

    fn sent(
        &mut self,
        now: Duration,
        attempt: u32,
        messages: usize,
        model: Option<String>,
    ) -> LogEvent {
        self.began.get_or_insert(now);
        self.sent = now;
        self.start_over();
        LogEvent::Send {
            attempt,
            messages,
            model,
        }
    }

    fn start_over(&mut self) {
        (self.first, self.tokens) = (None, None);
        self.bytes = 0;
        self.parts.clear();
    }

    fn grew(&mut self, now: Duration, bytes: usize) -> Option<LogEvent> {
        self.bytes += bytes as u64;
        if bytes == 0 || self.first.is_some() {
            return None;
        }
        self.first = Some(now);
        Some(LogEvent::FirstToken {
            after: millis(now.saturating_sub(self.sent)),
        })
    }

    fn observed(&mut self, observation: &Observation, pack: &Pack) -> LogEvent {
        match observation {
            Observation::Decision(decision) => LogEvent::Decision(self.judged(decision, pack)),
            Observation::ToolCall { part } => {
                let (tool, call) = self.tool(*part);
                LogEvent::ToolCall { tool, call }
            }
            Observation::DoomLoop { part, times } => LogEvent::DoomLoop {
                tool: self.tool(*part).0,
                times: *times,
            },
            Observation::Usage { input, output } => {
                self.tokens = Some(*output);
                LogEvent::Usage {
                    input: *input,
                    output: *output,
                }
            }
            Observation::Consulting {
                call,
                by,
                session,
                parent,
            } => LogEvent::SubAgent {
                session: session.clone(),
                parent: parent.clone(),
                call: call.clone(),
                by: by.clone(),
            },
            Observation::Unscanned { bytes, kind } => LogEvent::Unscanned {
                bytes: *bytes,
                of: kind.clone(),
            },
            other => {
                if *other == Observation::Restarted {
                    self.start_over();
                }
                note(other)
            }
        }
    }

    fn judged(&self, decision: &Decision, pack: &Pack) -> Judged {
        let part = self.parts.get(&decision.part());
        let rule = decision.rule();
        let rule = rule.and_then(|rule| pack.rules().get(rule.index()));
        let limit = match decision.source {
            crate::Source::Limit { name, .. } => Some(name.to_owned()),
            crate::Source::Rule(_) => None,
        };
        Judged {
            rule: rule.map(|rule| rule.id.clone()),
            limit,
            action: decision.action,
            turn: decision.turn,
            attempt: decision.attempt,
            part: match part {
                Some(part) => part.name.clone(),
                None => decision.part().0.to_string(),
            },
            channel: part.map(|part| part.channel),
            tool: part.and_then(|part| part.tool.clone()),
            end: decision.hit().map(|hit| hit.end),
            decided: decision.decided(),
            suppressed: decision.suppression.map(|why| why.name().to_owned()),
        }
    }

    fn aborted(&mut self, aborted: &Aborted) -> LogEvent {
        // What was not sent, or was complete, was not shortened.
        if aborted.stage == AbortStage::Reply {
            self.cut.push(self.bytes);
        }
        let (source, by) = match &aborted.source {
            Source::Rule { id, .. } => ("rule", Some(id.clone())),
            Source::Hook(name) => ("hook", Some(name.clone())),
            Source::Limit(name) => ("limit", Some((*name).to_owned())),
            Source::Provider => ("provider", None),
            Source::User => ("user", None),
        };
        LogEvent::Aborted {
            reason: aborted.reason.name().to_owned(),
            source: source.to_owned(),
            by,
            attempt: aborted.attempt,
            message: aborted.message.clone(),
            model: aborted.model.clone(),
            prompt: aborted.prompt.to_string(),
            stage: aborted.stage.name().to_owned(),
            bytes: self.bytes,
            calls: aborted.calls.len(),
            retry: aborted.retry,
        }
    }

    fn finished(&mut self, now: Duration, outcome: &Outcome) -> LogEvent {
        let (complete, reason) = match &outcome.end {
            End::Complete { reason } => (true, reason.clone()),
            End::Truncated { reason } => (false, reason.clone()),
            End::Aborted { reason, .. } => (false, reason.name().to_owned()),
        };
        if complete {
            self.answers = (self.answers.0 + 1, self.answers.1 + self.bytes);
        }
        let finished = Finished {
            complete,
            reason,
            attempts: outcome.attempts,
            bytes: self.bytes,
            millis: millis(now.saturating_sub(self.began.unwrap_or(now))),
            first_token: self
                .first
                .map(|first| millis(first.saturating_sub(self.sent))),
            token_rate: self.token_rate(now),
            saved: self.saved(complete),
            unscanned: outcome.counters.unscanned_bytes,
        };
        self.began = None;
        self.cut.clear();
        self.start_over();
        LogEvent::Finish(finished)
    }

    fn token_rate(&self, now: Duration) -> Option<u64> {
        let spent = millis(now.saturating_sub(self.first?));
        self.tokens?.saturating_mul(1_000_000).checked_div(spent)
    }

    fn saved(&self, complete: bool) -> u64 {
        let expected = match (complete, self.answers) {
            (true, _) => self.bytes,
            (false, (0, _)) => return 0,
            (false, (answers, bytes)) => bytes / answers,
        };
        let saved = self.cut.iter().map(|cut| expected.saturating_sub(*cut));
        saved.sum()
    }
}

fn note(observation: &Observation) -> LogEvent {
    let by = match observation {
        Observation::HookPanicked { hook }
        | Observation::HookTimedOut { hook }
        | Observation::RetryRefused { hook }
        | Observation::MessageIgnored { hook } => Some(hook.clone()),
        Observation::Consulted { by, .. } => Some(by.clone()),
        _ => None,
    };
    // The name of the variant, without what it holds.
    let name = format!("{observation:?}");
    let name = name.split(|c: char| !c.is_alphanumeric()).next();
    let mut what = String::new();
    for character in name.unwrap_or_default().chars() {
        if character.is_uppercase() && !what.is_empty() {
            what.push('-');
        }
        what.extend(character.to_lowercase());
    }
    LogEvent::Note { what, by }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
