//! Row C6 of `docs/harness.md`: the events of a server's sessions, and the fallback models.

use std::time::Duration;

use serde_json::json;
use ttsr::harness::fallback::{Chains, ForegroundFallback, SessionEvent, error_text};

use super::{Case, Given, Shown};

/// Returns the chains of a case. `*` is the chain of every agent without a chain of its own.
pub(super) fn foreground(case: &Case<'_>) -> ForegroundFallback {
    let add = |chains: Chains, (agent, models): (&String, &Vec<String>)| match agent.as_str() {
        "*" => chains.any(models.iter().cloned()),
        agent => chains.chain(agent, models.iter().cloned()),
    };
    let chains = case.settings.chains.iter().fold(Chains::default(), add);
    ForegroundFallback::new(&case.written.pack(), chains)
}

/// Returns the steps of a case whose settings have chains and no server.
pub(super) fn run(case: &Case<'_>) -> Vec<Shown> {
    let mut foreground = foreground(case);
    let mut steps: Vec<Shown> = Vec::new();
    for table in case.r#in {
        let input = Given::new(case, table);
        let at = Duration::from_millis(input.number("at").unwrap_or_default());
        if let Some(switch) = foreground.see(at, &event(case, &input)) {
            steps.push(vec![
                ("switch", json!(switch.model)),
                ("session", json!(switch.session)),
            ]);
        }
    }
    steps.push(vec![("remembered", json!(foreground.len()))]);
    steps
}

fn event(case: &Case<'_>, input: &Given<'_>) -> SessionEvent {
    let session = input.text("session").unwrap_or_else(|| "ses_1".to_owned());
    let status = input.number("status").map(|status| status as u16);
    let error = input.text("error").map(|error| error_text(&error, status));
    match input.words("event").as_str() {
        "message.updated" => SessionEvent::MessageUpdated {
            session,
            agent: input.text("agent"),
            model: input.text("model"),
            error,
        },
        "session.error" => SessionEvent::Error {
            session,
            error: error.unwrap_or_default(),
        },
        "session.status" => SessionEvent::Status {
            session,
            message: input.words("message"),
        },
        "subagent.session.created" => SessionEvent::SubagentCreated {
            session,
            agent: input.words("agent"),
        },
        "session.deleted" => SessionEvent::Deleted { session },
        "session.idle" => SessionEvent::Idle { session },
        other => panic!("{}: no event `{other}`", case.name),
    }
}
