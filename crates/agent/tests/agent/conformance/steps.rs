//! Outputs: steps in the words of the format.

use serde_json::{Value, json};
use ttsr::Channel;
use ttsr::harness::event::{EventPart, LoopEvent};
use ttsr::harness::{AbortSource, BlockReplay, Content, End, Message, Role, Step};
use ttsr_agent::progress::ChatAction;

use super::Shown;

/// Returns an action for a chat.
pub(super) fn done(what: ChatAction) -> Shown {
    match what {
        ChatAction::Typing => vec![("typing", json!(true))],
        ChatAction::StopTyping => vec![("typing", json!(false))],
        ChatAction::Subscribe => vec![("subscribe", json!(true))],
        ChatAction::Unsubscribe => vec![("subscribe", json!(false))],
        ChatAction::Prompt => vec![("prompt", json!(true))],
        ChatAction::Note(text) => vec![("note", json!(text))],
        ChatAction::Ask { request, text } => {
            vec![("question", json!(text)), ("asked", json!(request))]
        }
        ChatAction::Answer { request, answers } => {
            vec![("reply", json!(request)), ("answers", json!(answers))]
        }
        ChatAction::Reject { request } => vec![("reject", json!(request))],
        ChatAction::Abort => vec![("abort", json!(true))],
        ChatAction::Done(Ok(text)) => vec![("reply-text", json!(text))],
        ChatAction::Done(Err(error)) => vec![
            ("failed", json!(error.to_string())),
            ("says", json!(error.text())),
        ],
        other => panic!("{other:?}"),
    }
}

pub(super) fn synthetic_text(content: &Content) -> Value {
    match content {
        Content::Text {
            text,
            synthetic: true,
        } => json!(text),
        other => panic!("{other:?}"),
    }
}

fn text(bytes: &[u8]) -> Value {
    Value::from(String::from_utf8_lossy(bytes).into_owned())
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Assistant => "assistant",
        Role::User => "user",
        Role::Tool => "tool",
        _ => "system",
    }
}

fn message(message: &Message) -> Value {
    let content = message.content.iter().map(|content| match content {
        Content::Text { text, .. } => text.clone(),
        Content::Reasoning { text } => format!("({text})"),
        other => format!("{other:?}"),
    });
    Value::from(format!(
        "{}: {}",
        role(message.role),
        content.collect::<Vec<_>>().join(" ")
    ))
}

fn source(source: &AbortSource) -> String {
    match source {
        AbortSource::Rule { id, .. } => format!("rule {id}"),
        AbortSource::Hook(name) => format!("hook {name}"),
        AbortSource::Limit(name) => format!("limit {name}"),
        AbortSource::Provider => "provider".to_owned(),
        AbortSource::User => "user".to_owned(),
        other => format!("{other:?}"),
    }
}

pub(super) fn shown_end(end: &End) -> Shown {
    match end {
        End::Complete { reason } => vec![("end", json!("complete")), ("reason", json!(reason))],
        End::Truncated { reason } => {
            vec![("end", json!("truncated")), ("reason", json!(reason))]
        }
        End::Aborted {
            reason,
            source: by,
            detail,
        } => vec![
            ("end", json!("aborted")),
            ("reason", json!(reason.name())),
            ("source", Value::from(source(by))),
            ("detail", json!(detail)),
        ],
        other => panic!("{other:?}"),
    }
}

pub(super) fn shown(step: &Step) -> Option<Shown> {
    Some(match step {
        Step::Send {
            attempt,
            messages,
            model,
            temperature,
        } => vec![
            ("send", json!(attempt)),
            ("messages", messages.iter().map(message).collect()),
            ("model", json!(model)),
            ("temperature", json!(temperature)),
        ],
        Step::Open {
            part,
            channel,
            tool,
            call,
            ..
        } => vec![
            ("open", json!(part.0)),
            ("channel", json!(channel.name())),
            ("tool", json!(tool)),
            ("call", json!(call)),
        ],
        Step::Named { part, tool, call } => {
            vec![
                ("named", json!(part.0)),
                ("tool", json!(tool)),
                ("call", json!(call)),
            ]
        }
        Step::Forward { part, bytes } => vec![("forward", json!(part.0)), ("text", text(bytes))],
        Step::Hold { part, bytes } => vec![("hold", json!(part.0)), ("bytes", json!(bytes))],
        Step::Close { part, replaced } => vec![
            ("close", json!(part.0)),
            (
                "replaced",
                replaced.as_ref().map_or(Value::Null, |bytes| text(bytes)),
            ),
        ],
        Step::ToolAborted { part, call } => {
            vec![("tool-aborted", json!(part.0)), ("call", json!(call))]
        }
        Step::Retract { part, from } => vec![("retract", json!(part.0)), ("from", json!(from))],
        Step::CancelUpstream => vec![("cancel-upstream", json!(true))],
        Step::Inject { message, .. } => vec![("inject", Value::from(message.text()))],
        Step::Notify { text, .. } => vec![("notify", json!(text))],
        Step::ToolResult {
            call,
            output,
            is_error,
            ..
        } => vec![
            ("tool-result", json!(call)),
            ("output", json!(output)),
            ("is-error", json!(is_error)),
        ],
        Step::Handoff { handoff, .. } => vec![("handoff", Value::from(handoff.prompt()))],
        Step::Aborted(aborted) => {
            let of = |channel| Value::from(aborted.partial.text(channel));
            let blamed = aborted.calls.iter().filter(|call| call.is_blamed);
            let blamed: Vec<_> = blamed
                .map(|call| call.call.clone().unwrap_or_default())
                .collect();
            let replay = aborted.blocks.iter().map(|block| match block.replay {
                BlockReplay::UpTo(bytes) => json!(bytes),
                BlockReplay::Unsigned(bytes) => json!(format!("{bytes} unsigned")),
                _ => json!("never"),
            });
            vec![
                ("aborted", json!(aborted.reason.name())),
                ("source", Value::from(source(&aborted.source))),
                ("session", json!(aborted.session)),
                ("parent", json!(aborted.parent)),
                ("message", json!(aborted.message)),
                ("model", json!(aborted.model)),
                ("prompt", json!(aborted.prompt.to_string())),
                ("stage", json!(aborted.stage.name())),
                ("text", of(Channel::Text)),
                ("reasoning", of(Channel::Reasoning)),
                ("tool-input", of(Channel::ToolInput)),
                ("blamed", json!(blamed)),
                ("replay", replay.collect()),
                ("retry", json!(aborted.retry)),
            ]
        }
        Step::Finish(outcome) => {
            let mut shown = shown_end(&outcome.end);
            shown.push(("text", Value::from(outcome.reply.text(Channel::Text))));
            shown
        }
        Step::Observe(event) => observed(event)?,
        other => panic!("{other:?}"),
    })
}

fn observed(event: &LoopEvent) -> Option<Shown> {
    let name = event.name();
    let id = |part: &EventPart| json!(part.id.map(|part| part.0));
    Some(match event {
        LoopEvent::Decision(decision) => vec![
            (name, json!(decision.rule)),
            ("action", json!(decision.action.name())),
            ("end", json!(decision.end)),
            ("suppressed", json!(decision.suppressed)),
        ],
        LoopEvent::StepStarted | LoopEvent::Restarted | LoopEvent::NoFallback => {
            vec![(name, json!(true))]
        }
        LoopEvent::StepFinished { reason } => vec![(name, json!(reason))],
        LoopEvent::ToolCall(part) | LoopEvent::Mismatch(part) => vec![(name, id(part))],
        LoopEvent::DoomLoop { part, times } => vec![(name, id(part)), ("times", json!(times))],
        LoopEvent::Late { part, bytes } => vec![(name, id(part)), ("bytes", json!(bytes))],
        LoopEvent::RetryRefused { hook } | LoopEvent::MessageIgnored { hook } => {
            vec![(name, json!(hook))]
        }
        LoopEvent::ConsultRefused { call } => vec![(name, json!(call))],
        LoopEvent::SubAgent {
            call,
            by,
            session,
            parent,
        } => vec![
            ("child", json!(session)),
            ("parent", json!(parent)),
            ("call", json!(call)),
            ("by", json!(by)),
        ],
        _ => return None,
    })
}
