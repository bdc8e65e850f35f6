//! The JSON output of a running turn: one object per line.

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{AbortSource, End, Message, Step, TurnOutcome};
use ttsr::{Action, Channel, Decision, Pack};
use ttsr_agent::providers::ProviderNotice;

/// One object of the JSON output. docs/run.md documents its members.
#[derive(Serialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub(super) enum TurnLine<'a> {
    Request {
        attempt: u32,
        model: Option<&'a str>,
        /// The messages added since the previous request.
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
        /// Base64, if the bytes are not UTF-8.
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

impl<'a> TurnLine<'a> {
    /// Returns the line for a step, or `None` if the step is not printed.
    pub(super) fn from_step(step: &'a Step, pack: &'a Pack) -> Option<TurnLine<'a>> {
        TurnLine::of_part(step)
            .or_else(|| TurnLine::from_decision(step, pack))
            .or_else(|| TurnLine::of_attempt(step))
    }

    /// Returns the line for a step about a part.
    fn of_part(step: &'a Step) -> Option<TurnLine<'a>> {
        Some(match step {
            Step::Open {
                part,
                channel,
                tool,
                call,
                ..
            } => TurnLine::Open {
                part: part.0,
                channel: *channel,
                tool: tool.as_deref(),
                call: call.as_deref(),
            },
            Step::Named { part, tool, call } => TurnLine::Named {
                part: part.0,
                tool,
                call: call.as_deref(),
            },
            Step::Forward { part, bytes } => {
                let d = std::str::from_utf8(bytes).ok();
                let b = d.is_none().then(|| STANDARD.encode(bytes));
                TurnLine::Delta { part: part.0, d, b }
            }
            Step::Hold { part, bytes } => TurnLine::Hold {
                part: part.0,
                bytes: *bytes,
            },
            Step::Close { part, .. } => TurnLine::Close { part: part.0 },
            Step::Retract { part, from } => TurnLine::Retract {
                part: part.0,
                from: *from,
            },
            Step::ToolAborted { part, call } => TurnLine::ToolAborted {
                part: part.0,
                call: call.as_deref(),
            },
            _ => return None,
        })
    }

    /// Returns the line for a decision or its message.
    fn from_decision(step: &'a Step, pack: &'a Pack) -> Option<TurnLine<'a>> {
        let rule = |decision: &Decision| Some(pack.rule(decision.rule()?).id.as_str());
        Some(match step {
            Step::Observe(LoopEvent::Decision(record)) => TurnLine::Verdict {
                rule: record.rule.as_deref(),
                part: record.part.id?.0,
                action: record.action,
                end: record.end,
                decided: record.decided,
                attempt: record.attempt,
                suppressed: record.is_suppressed(),
            },
            Step::Inject { decision, message } => TurnLine::Inject {
                rule: rule(decision),
                message: message.text(),
            },
            Step::Notify { decision, text } => TurnLine::Notify {
                rule: rule(decision),
                message: text,
            },
            Step::Handoff { decision, handoff } => TurnLine::Handoff {
                rule: rule(decision),
                prompt: handoff.prompt(),
            },
            _ => return None,
        })
    }

    /// Returns the line for the start or end of an attempt, or for a tool call.
    fn of_attempt(step: &'a Step) -> Option<TurnLine<'a>> {
        Some(match step {
            Step::Send {
                attempt,
                messages,
                model,
                ..
            } => TurnLine::Request {
                attempt: *attempt,
                model: model.as_deref(),
                messages: messages.iter().map(Message::text).collect(),
            },
            Step::Aborted(aborted) => TurnLine::Aborted {
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
            } => TurnLine::ToolResult {
                call,
                tool,
                output,
                is_error: *is_error,
            },
            Step::Observe(LoopEvent::Unscanned { kind, bytes }) if *bytes > 0 => {
                TurnLine::Unscanned {
                    kind,
                    bytes: *bytes,
                }
            }
            Step::Observe(LoopEvent::Usage { input, output }) => TurnLine::Usage {
                input: *input,
                output: *output,
            },
            _ => return None,
        })
    }

    /// Returns the line for a retry or fallback of the model chain.
    pub(super) fn from_notice(notice: &'a ProviderNotice) -> Option<TurnLine<'a>> {
        Some(match notice {
            ProviderNotice::Retrying {
                failure,
                wait,
                times,
            } => TurnLine::Retrying {
                kind: failure.kind(),
                message: failure.message(),
                times: *times,
                wait_ms: millis(*wait),
            },
            ProviderNotice::NotRetried {
                failure,
                asked,
                longest,
            } => TurnLine::NotRetried {
                kind: failure.kind(),
                message: failure.message(),
                asked_ms: millis(*asked),
                longest_ms: millis(*longest),
            },
            ProviderNotice::FallingBack { failure, from, to } => TurnLine::FallingBack {
                kind: failure.kind(),
                message: failure.message(),
                from,
                to,
            },
            _ => return None,
        })
    }

    /// Returns the last line of a turn.
    pub(super) fn from_answer(
        outcome: &'a TurnOutcome,
        requests: u64,
        verdicts: u64,
    ) -> TurnLine<'a> {
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
        TurnLine::Answer {
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

/// Returns the name of the source of an abort.
pub(super) fn source(source: &AbortSource) -> String {
    match source {
        AbortSource::Rule { id, .. } => id.clone(),
        AbortSource::Hook(name) => format!("hook {name}"),
        AbortSource::Limit(name) => format!("limit {name}"),
        AbortSource::Provider => "provider".to_owned(),
        AbortSource::User => "user".to_owned(),
        other => format!("{other:?}"),
    }
}
