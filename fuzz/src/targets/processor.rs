//! Property: for any sequence of events of a provider, a reply ends at most once and nothing follows its end, an attempt is aborted
//! at most once, the forwarded bytes of a part are a prefix of the received ones, and the split changes only the steps
//! that carry bytes.

use std::collections::BTreeMap;
use std::mem::{Discriminant, discriminant};
use std::sync::LazyLock;
use std::time::Duration;

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{Failure, Hooks, Input, Processor, Settings, Step};
use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event, Pack, PartId};

static PACK: LazyLock<Pack> = LazyLock::new(|| {
    let rules = r#"
schema = 1
[pack]
name = "f"
[rule.no-any]
description = "Say what the type is"
severity = "error"
match.any = [{ literal = ": any" }]
examples.match = ["x: any"]
[rule.no-rm]
description = "No recursive deletes"
severity = "critical"
match.any = [{ literal = "rm -rf" }]
examples.match = ["rm -rf /"]
[rule.finish]
description = "Finish it"
severity = "warning"
match.any = [{ literal = "TODO" }]
examples.match = ["TODO"]
[rule.last-word]
description = "Decided by the end of a part only"
severity = "error"
match.any = [{ regex = 'bye\z' }]
examples.match = ["bye"]
"#;
    Pack::from_toml(rules).expect("the rules are right")
});

const CHANNELS: [Channel; 4] = [
    Channel::Text,
    Channel::Reasoning,
    Channel::ToolInput,
    Channel::ToolOutput,
];

/// The next operation of the host.
#[derive(Clone, Debug)]
enum Act {
    Begin,
    Proceed,
    Step(Input),
}

/// Decodes operations: a byte for the kind, one for the part, one for a length, and that many bytes.
fn acts(mut data: &[u8]) -> Vec<Act> {
    let mut acts = vec![Act::Begin, Act::Step(Input::Sent)];
    while let [kind, number, len, rest @ ..] = data {
        let bytes = &rest[..usize::from(*len).min(rest.len())];
        data = &rest[bytes.len()..];
        let part = PartId(u32::from(number % 4));
        let text = || String::from_utf8_lossy(bytes).into_owned();
        let call = Some(text()).filter(|text| !text.is_empty());
        let event = match kind % 16 {
            0 => {
                acts.push(Act::Begin);
                continue;
            }
            1 => {
                acts.push(Act::Proceed);
                continue;
            }
            2 => {
                acts.push(Act::Step(Input::Sent));
                continue;
            }
            3 => {
                acts.push(Act::Step(Input::End));
                continue;
            }
            4 => {
                acts.push(Act::Step(Input::Failed(Failure::new("429", text()))));
                continue;
            }
            5 if number % 4 == 0 => {
                acts.push(Act::Step(Input::Cancel));
                continue;
            }
            6 => Event::PartStart {
                part,
                name: text(),
                channel: CHANNELS[usize::from(number / 4) % CHANNELS.len()],
                tool: (number / 16 % 2 == 0).then(|| "bash".to_owned()),
                call,
            },
            7 => Event::Tool {
                part,
                tool: text(),
                call,
            },
            8 => Event::PartEnd { part },
            9 => Event::Snapshot {
                part,
                bytes: bytes.to_vec(),
            },
            10 => Event::Finish { reason: text() },
            13 => Event::Outcome {
                part,
                outcome: ToolOutcome::ALL[usize::from(*number) % 2],
            },
            11 if number % 4 == 0 => Event::Restart,
            12 if number % 4 == 0 => Event::Error {
                kind: "overloaded".to_owned(),
                message: text(),
            },
            _ if bytes.is_empty() => continue,
            _ => Event::Delta {
                part,
                bytes: bytes.to_vec(),
            },
        };
        acts.push(Act::Step(Input::Event(event)));
    }
    acts
}

/// Returns the operations with every delta split into pieces.
fn cut(acts: &[Act], size: usize) -> Vec<Act> {
    let mut all = Vec::new();
    for act in acts {
        let Act::Step(Input::Event(Event::Delta { part, bytes })) = act else {
            all.push(act.clone());
            continue;
        };
        all.extend(bytes.chunks(size).map(|bytes| {
            let (part, bytes) = (*part, bytes.to_vec());
            Act::Step(Input::Event(Event::Delta { part, bytes }))
        }));
    }
    all
}

/// Runs the operations and returns the kinds of the steps, without those that carry or count bytes.
fn run_all(acts: &[Act]) -> Vec<Discriminant<Step>> {
    let mut processor = Processor::new(&*PACK, Hooks::default(), Settings::default());
    let mut kinds = Vec::new();
    let (mut is_over, mut is_asked, mut aborts) = (true, false, 0);
    let mut came: BTreeMap<PartId, Vec<u8>> = BTreeMap::new();
    let mut forwarded: BTreeMap<PartId, Vec<u8>> = BTreeMap::new();
    for act in acts {
        let mut steps = Vec::new();
        match act {
            Act::Begin | Act::Proceed => (is_over, aborts) = (false, 0),
            Act::Step(Input::Event(Event::Delta { part, bytes })) => {
                came.entry(*part).or_default().extend_from_slice(bytes);
            }
            // The bytes that a repetition adds to its part have been received too.
            Act::Step(Input::Event(Event::Snapshot { part, bytes })) => {
                let came = came.entry(*part).or_default();
                if bytes.starts_with(came) {
                    came.clone_from(bytes);
                }
            }
            // Without a pending request this starts nothing.
            Act::Step(Input::Sent) if std::mem::take(&mut is_asked) => {
                came.clear();
                forwarded.clear();
            }
            Act::Step(_) => {}
        }
        match act {
            Act::Begin => processor.begin("m", &mut steps),
            Act::Proceed => processor.proceed("m", &mut steps),
            Act::Step(input) => processor.step(Duration::ZERO, input.clone(), &mut steps),
        }
        let was_over = is_over;
        for step in &steps {
            assert!(!was_over, "{step:?} follows the end");
            match step {
                Step::Finish(_) => {
                    assert!(!is_over, "a reply ends twice");
                    is_over = true;
                }
                Step::Send { .. } => (is_asked, aborts) = (true, 0),
                Step::Observe(LoopEvent::Restarted) => {
                    came.clear();
                    forwarded.clear();
                }
                Step::Aborted(_) => {
                    aborts += 1;
                    assert!(aborts < 2, "an attempt is aborted twice");
                }
                Step::Forward { part, bytes } => {
                    let forwarded = forwarded.entry(*part).or_default();
                    forwarded.extend_from_slice(bytes);
                    let came = came.entry(*part).or_default();
                    assert!(came.starts_with(forwarded), "{forwarded:?} of {came:?}");
                }
                _ => {}
            }
            let carries = matches!(
                step,
                Step::Forward { .. } | Step::Hold { .. } | Step::Retract { .. } | Step::Observe(_)
            );
            if !carries {
                kinds.push(discriminant(step));
            }
        }
    }
    kinds
}

// Layout of the input: a byte for the cuts, the acts.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, rest @ ..] = data else { return };
    let acts = acts(rest);
    let whole = run_all(&acts);
    assert_eq!(run_all(&cut(&acts, 1)), whole, "byte by byte");
    let size = usize::from(*cuts) % 9 + 2;
    assert_eq!(run_all(&cut(&acts, size)), whole, "cut otherwise");
}
