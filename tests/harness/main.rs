//! Tests of the reference loop. `docs/harness.md` lists them by the behaviour that they cover.

mod abort;
mod boundary;
mod conformance;
mod faults;
mod guides;
mod hold;
mod hooks;
#[path = "../../examples/host.rs"]
#[allow(dead_code, reason = "`main` is the example's")]
mod host;
mod inject;
mod layers;
mod leftovers;
mod part;
mod partial;
mod schedule;
mod socket;
#[cfg(feature = "tracing")]
mod tracing;
mod turn;
mod turns;
mod uses;

use std::sync::LazyLock;

use ttsr::harness::{
    Aborted, Cancel, Hooks, Message, Processor, ReplyOutcome, Request, Scripted, ScriptedReply,
    Settings, Step, run,
};
use ttsr::{Event, Pack, PartId};

/// The result of one reply.
struct Played {
    steps: Vec<Step>,
    outcome: ReplyOutcome,
    provider: Scripted,
    processor: Processor,
}

/// Returns one pack for all tests, so that its automaton is warm after the first.
fn pack() -> Pack {
    static PACK: LazyLock<Pack> =
        LazyLock::new(|| Pack::from_toml(include_str!("rules.toml")).unwrap());
    PACK.clone()
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap()
}

fn processor(hooks: Hooks) -> Processor {
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    Processor::new(&pack(), hooks, settings)
}

fn play(hooks: Hooks, scripts: Vec<ScriptedReply>) -> Played {
    play_with(processor(hooks), scripts, &Cancel::default(), |_| {})
}

/// Plays the scripts. `watch` sees every step before the next one is requested.
fn play_with(
    mut processor: Processor,
    scripts: Vec<ScriptedReply>,
    cancel: &Cancel,
    mut watch: impl FnMut(&Step),
) -> Played {
    let mut provider = Scripted::new(scripts);
    let kept = provider.clone();
    let request = Request::new("model", vec![Message::user("Go.")]);
    let mut steps = Vec::new();
    let publish = |step: &Step| {
        watch(step);
        steps.push(step.clone());
    };
    let outcome = runtime().block_on(run(
        &mut processor,
        &mut provider,
        request,
        "msg_1",
        cancel.clone(),
        publish,
    ));
    Played {
        steps,
        outcome,
        provider: kept,
        processor,
    }
}

impl Played {
    fn aborted(&self) -> Vec<&Aborted> {
        let aborted = self.steps.iter().filter_map(|step| match step {
            Step::Aborted(aborted) => Some(&**aborted),
            _ => None,
        });
        aborted.collect()
    }

    /// Returns the published text, with a `|` at each retraction.
    fn published(&self) -> String {
        let pieces = self.steps.iter().map(|step| match step {
            Step::Forward { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            Step::Retract { .. } => "|".to_owned(),
            _ => String::new(),
        });
        pieces.collect()
    }

    /// Returns the messages of each request but the first.
    fn sent(&self) -> Vec<Vec<String>> {
        let requests = self.provider.requests();
        let mut known = 1;
        let sent = requests.iter().map(|request| {
            let new = request.messages[known..].iter().map(Message::text);
            known = request.messages.len();
            new.collect()
        });
        sent.collect()
    }
}

fn text(text: &str) -> ScriptedReply {
    ScriptedReply::default().text(text).finish("stop")
}

fn delta(part: u32, bytes: &str) -> Event {
    Event::Delta {
        part: PartId(part),
        bytes: bytes.into(),
    }
}
