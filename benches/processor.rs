//! Cost of the reference loop per delta.
//!
//! Reveals: the cost of the loop itself compared with a loop that only accumulates, of the built-in rules in it, and of
//! a hook.
//!
//! Data: 64 KiB of generated English text that no built-in rule matches, in deltas of about OpenAI's sizes. Every delta
//! is a separate vector, as a host receives it, and is dropped after it was published. After the timed part a
//! credential arrives: the rules must hit it, and nothing before it.

mod common;

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::Case;
use common::processor::{accumulate, begun, input};
use common::rules::PART;
use common::text::Text;
use criterion::{Criterion, criterion_group, criterion_main};
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{Hooks, Input, Step};
use ttsr::{Channel, Pack};

/// A text with the form of a credential that is not one.
const KEY: &[u8] = b" AKIA\x51RSTUVWXYZ234567 .\n\nIt ends. ";

fn processor(criterion: &mut Criterion) {
    let text = Text::made("ASCII", 64 << 10);
    let none = Pack::builder().build().expect("an empty pack loads");
    let names = Pack::builtin_names().filter(|name| *name != "std/pii"); // off by default
    let builtin = names.fold(Pack::builder(), |pack, name| pack.builtin(name));
    let builtin = builtin.build().expect("the built-in packs load");
    let case = |name: &str, hits| Case::new(name, &text, hits);
    let mut group = criterion.benchmark_group("processor");
    group.sample_size(10);
    case("baseline: accumulate", 0).time(&mut group, || (accumulate(&text), 0));
    case("no rules, no hooks", 0).time(&mut group, || pass(&none, Hooks::default(), &text));
    let name = format!("{} built-in rules, no hooks", builtin.rules().len());
    pass(&builtin, Hooks::default(), &text); // builds the states
    case(&name, 1).time(&mut group, || pass(&builtin, Hooks::default(), &text));
    case("no rules, a hook", 0).time(&mut group, || hooked(&none, &text));
}

fn inputs(text: &Text) -> Vec<Input> {
    text.deltas().map(input).collect()
}

/// Returns the time of the deltas, and the number of decisions up to the credential.
fn pass(pack: &Pack, hooks: Hooks, text: &Text) -> (Duration, usize) {
    let mut processor = begun(pack, hooks);
    let mut steps = Vec::new();
    let inputs = inputs(text);
    let started = Instant::now();
    for input in inputs {
        processor.step(Duration::ZERO, input, &mut steps);
        black_box(&steps);
        steps.clear();
    }
    let took = started.elapsed();
    // The end of the text is held back by a rule that holds; the rest was accumulated.
    let accumulated = processor.reply().text(Channel::Text);
    assert!(text.bytes.starts_with(accumulated.as_bytes()));
    assert_eq!(
        processor.stream().unwrap().delivered_bytes(PART),
        text.bytes.len() as u64
    );
    processor.step(Duration::ZERO, input(KEY), &mut steps);
    let is_decision = |step: &&Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
    (took, steps.iter().filter(is_decision).count())
}

/// Runs a pass with a hook on every delta.
fn hooked(pack: &Pack, text: &Text) -> (Duration, usize) {
    let seen = Arc::new(AtomicUsize::new(0));
    let mut hooks = Hooks::default();
    let count = Arc::clone(&seen);
    hooks.on_delta("count", move |_, delta| {
        count.fetch_add(delta.bytes().len(), Ordering::Relaxed);
    });
    let passed = pass(pack, hooks, text);
    assert_eq!(seen.load(Ordering::Relaxed), text.bytes.len() + KEY.len());
    passed
}

criterion_group!(benches, processor);
criterion_main!(benches);
