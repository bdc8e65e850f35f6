//! The reference loop, checked against the behaviour it promises. Names that begin with `a1_` to `a10_`
//! are of the corresponding row of the behaviour the loop is modelled on.

mod abort;
mod boundary;
mod faults;
mod guides;
mod hold;
mod hooks;
mod inject;
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
    Aborted, Cancel, Hooks, Message, Outcome, Processor, Request, Script, Scripted, Settings, Step,
    run,
};
use ttsr::{Event, Pack, PartId};

/// What came of one reply.
struct Played {
    steps: Vec<Step>,
    outcome: Outcome,
    provider: Scripted,
    processor: Processor,
}

/// One pack for all, as in life: its automaton is warm after the first test.
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
    Processor::new(pack().session(), hooks, settings)
}

fn play(hooks: Hooks, scripts: Vec<Script>) -> Played {
    play_with(processor(hooks), scripts, &Cancel::default(), |_| {})
}

/// Plays the scripts; `watch` sees every step before the next one is asked for.
fn play_with(
    mut processor: Processor,
    scripts: Vec<Script>,
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

    /// What was published, a `|` where it was taken back.
    fn published(&self) -> String {
        let pieces = self.steps.iter().map(|step| match step {
            Step::Forward { bytes, .. } => String::from_utf8_lossy(bytes).into_owned(),
            Step::Retract { .. } => "|".to_owned(),
            _ => String::new(),
        });
        pieces.collect()
    }

    /// The messages of each request, without the first one.
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

fn text(text: &str) -> Script {
    Script::default().text(text).finish("stop")
}

fn delta(part: u32, bytes: &str) -> Event {
    Event::Delta {
        part: PartId(part),
        bytes: bytes.into(),
    }
}
