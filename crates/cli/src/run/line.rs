//! The JSON form of what a turn looks like while it runs: one object a line.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use ttsr::harness::{End, Message, Observation, Source, Step, TurnOutcome};
use ttsr::{Action, Channel, Decision, Pack};
use ttsr_agent::providers::Notice;

/// One object of the JSON form. Its members are documented in docs/run.md.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum Line<'a> {
    Request {
        attempt: u32,
        model: Option<&'a str>,
        /// What was added since the request before.
        messages: Vec<String>,
    },
    Retrying {
        kind: &'a str,
        message: &'a str,
        times: u32,
        wait_ms: u64,
    },
    NotRetried {
        kind: &'a str,
        message: &'a str,
        asked_ms: u64,
        longest_ms: u64,
    },
    FallingBack {
        kind: &'a str,
        message: &'a str,
        from: &'a str,
        to: &'a str,
    },
    Open {
        part: u32,
        channel: Channel,
        tool: Option<&'a str>,
        call: Option<&'a str>,
    },
    Named {
        part: u32,
        tool: &'a str,
        call: Option<&'a str>,
    },
    Delta {
        part: u32,
        #[serde(skip_serializing_if = "Option::is_none")]
        d: Option<&'a str>,
        /// Base64, where the bytes are not UTF-8.
        #[serde(skip_serializing_if = "Option::is_none")]
        b: Option<String>,
    },
    Hold {
        part: u32,
        bytes: u64,
    },
    Close {
        part: u32,
    },
    Retract {
        part: u32,
        from: u64,
    },
    Verdict {
        rule: Option<&'a str>,
        part: u32,
        action: Action,
        end: Option<u64>,
        decided: u64,
        attempt: u32,
        suppressed: bool,
    },
    Inject {
        rule: Option<&'a str>,
        message: String,
    },
    Notify {
        rule: Option<&'a str>,
        message: &'a str,
    },
    Aborted {
        attempt: u32,
        reason: &'a str,
        source: String,
        detail: &'a str,
        retry: bool,
    },
    ToolAborted {
        part: u32,
        call: Option<&'a str>,
    },
    ToolResult {
        call: &'a str,
        tool: &'a str,
        output: &'a str,
        is_error: bool,
    },
    Handoff {
        rule: Option<&'a str>,
        prompt: String,
    },
    Attached {
        files: Vec<String>,
    },
    SessionOpened {
        session: &'a str,
        file: Option<&'a Path>,
    },
    Draft {
        text: &'a str,
        file: Option<&'a Path>,
    },
    Toast {
        message: &'a str,
        lasts_ms: u64,
    },
    Usage {
        input: u64,
        output: u64,
    },
    Unscanned {
        kind: &'a str,
        bytes: u64,
    },
    Answer {
        complete: bool,
        reason: &'a str,
        source: Option<String>,
        detail: &'a str,
        text: String,
        requests: u64,
        verdicts: u64,
    },
}

impl<'a> Line<'a> {
    /// What a step says, if it is shown.
    pub(super) fn of_step(step: &'a Step, pack: &'a Pack) -> Option<Line<'a>> {
        Line::of_part(step)
            .or_else(|| Line::of_decision(step, pack))
            .or_else(|| Line::of_attempt(step))
    }

    /// What becomes of a part.
    fn of_part(step: &'a Step) -> Option<Line<'a>> {
        Some(match step {
            Step::Open {
                part,
                channel,
                tool,
                call,
                ..
            } => Line::Open {
                part: part.0,
                channel: *channel,
                tool: tool.as_deref(),
                call: call.as_deref(),
            },
            Step::Named { part, tool, call } => Line::Named {
                part: part.0,
                tool,
                call: call.as_deref(),
            },
            Step::Forward { part, bytes } => {
                let d = std::str::from_utf8(bytes).ok();
                let b = d.is_none().then(|| STANDARD.encode(bytes));
                Line::Delta { part: part.0, d, b }
            }
            Step::Hold { part, bytes } => Line::Hold {
                part: part.0,
                bytes: *bytes,
            },
            Step::Close { part, .. } => Line::Close { part: part.0 },
            Step::Retract { part, from } => Line::Retract {
                part: part.0,
                from: *from,
            },
            Step::ToolAborted { part, call } => Line::ToolAborted {
                part: part.0,
                call: call.as_deref(),
            },
            _ => return None,
        })
    }

    /// What was decided, and what is said because of it.
    fn of_decision(step: &'a Step, pack: &'a Pack) -> Option<Line<'a>> {
        let rule = |decision: &Decision| Some(pack.rule(decision.rule()?).id.as_str());
        Some(match step {
            Step::Observe(Observation::Decision(decision)) => Line::Verdict {
                rule: rule(decision),
                part: decision.part().0,
                action: decision.action,
                end: decision.hit().map(|hit| hit.end),
                decided: decision.decided(),
                attempt: decision.attempt,
                suppressed: decision.is_suppressed(),
            },
            Step::Inject { decision, message } => Line::Inject {
                rule: rule(decision),
                message: message.text(),
            },
            Step::Notify { decision, text } => Line::Notify {
                rule: rule(decision),
                message: text,
            },
            Step::Handoff { decision, handoff } => Line::Handoff {
                rule: rule(decision),
                prompt: handoff.prompt(),
            },
            _ => return None,
        })
    }

    /// How an attempt begins and ends, and what its calls come to.
    fn of_attempt(step: &'a Step) -> Option<Line<'a>> {
        Some(match step {
            Step::Send {
                attempt,
                messages,
                model,
                ..
            } => Line::Request {
                attempt: *attempt,
                model: model.as_deref(),
                messages: messages.iter().map(Message::text).collect(),
            },
            Step::Aborted(aborted) => Line::Aborted {
                attempt: aborted.attempt,
                reason: aborted.reason.name(),
                source: source(&aborted.source),
                detail: &aborted.detail,
                retry: aborted.retry,
            },
            Step::ToolResult {
                call,
                tool,
                output,
                is_error,
            } => Line::ToolResult {
                call,
                tool,
                output,
                is_error: *is_error,
            },
            Step::Observe(Observation::Unscanned { kind, bytes }) if *bytes > 0 => {
                Line::Unscanned {
                    kind,
                    bytes: *bytes,
                }
            }
            Step::Observe(Observation::Usage { input, output }) => Line::Usage {
                input: *input,
                output: *output,
            },
            _ => return None,
        })
    }

    /// What a chain of models did to have an answer.
    pub(super) fn of_notice(notice: &'a Notice) -> Option<Line<'a>> {
        Some(match notice {
            Notice::Retrying {
                failure,
                wait,
                times,
            } => Line::Retrying {
                kind: failure.kind(),
                message: failure.message(),
                times: *times,
                wait_ms: millis(*wait),
            },
            Notice::NotRetried {
                failure,
                asked,
                longest,
            } => Line::NotRetried {
                kind: failure.kind(),
                message: failure.message(),
                asked_ms: millis(*asked),
                longest_ms: millis(*longest),
            },
            Notice::FallingBack { failure, from, to } => Line::FallingBack {
                kind: failure.kind(),
                message: failure.message(),
                from,
                to,
            },
            _ => return None,
        })
    }

    /// The last line of a turn.
    pub(super) fn of_answer(outcome: &'a TurnOutcome, requests: u64, verdicts: u64) -> Line<'a> {
        let (complete, reason, by, detail) = match &outcome.end {
            End::Complete { reason } => (true, reason.as_str(), None, ""),
            End::Truncated { reason } => (false, reason.as_str(), None, ""),
            End::Aborted {
                reason,
                source: by,
                detail,
            } => (false, reason.name(), Some(source(by)), detail.as_str()),
            _ => (false, "", None, ""),
        };
        Line::Answer {
            complete,
            reason,
            source: by,
            detail,
            text: outcome.reply.text(Channel::Text),
            requests,
            verdicts,
        }
    }

    pub(super) fn write(&self, mut out: impl Write) -> io::Result<()> {
        serde_json::to_writer(&mut out, self)?;
        out.write_all(b"\n")
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Who is behind an abort, in a word.
pub(super) fn source(source: &Source) -> String {
    match source {
        Source::Rule { id, .. } => id.clone(),
        Source::Hook(name) => format!("hook {name}"),
        Source::Limit(name) => format!("limit {name}"),
        Source::Provider => "provider".to_owned(),
        Source::User => "user".to_owned(),
        other => format!("{other:?}"),
    }
}
