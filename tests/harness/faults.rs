//! Failures around the loop, one test each, named after the failure. Others are tested beside the code they belong to:
//! a future dropped at any poll, a provider that is always ready, hooks that panic or hang.

use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortReason, Cancel, End, Failure, Hooks, Input, Processor, ScriptedReply, Settings, Step,
};
use ttsr::{Action, Channel, Pack, PartId, Pattern, Rule};

use super::{Played, delta, pack, play, play_with, processor, text};
use ttsr_testing::skip;

fn retrying(max: u32) -> Rule {
    let mut rule = Rule::new("p/any", vec![Pattern::literal(": any")]);
    rule.action = Action::Retry;
    rule.retry.max = max;
    rule
}

fn played(rule: Rule, script: ScriptedReply) -> Played {
    let pack = Pack::builder().rule(rule).build().unwrap();
    let processor = Processor::new(&pack, Hooks::default(), Settings::default());
    play_with(processor, vec![script], &Cancel::default(), |_| {})
}

#[test]
fn no_retries_are_none_and_one_is_one() {
    for max in [0, 1, 2] {
        let played = played(retrying(max), text("x: any"));
        assert_eq!(played.provider.requests().len(), 1 + max as usize);
        assert_eq!(
            played.outcome.reply.text(Channel::Text),
            "x: any",
            "then it is delivered"
        );
    }
}

#[test]
fn a_retry_storm_meets_the_bound_of_the_turn() {
    let played = played(retrying(100), text("x: any"));
    assert_eq!(played.provider.requests().len(), 4);
}

#[test]
fn shown_text_and_the_text_after_it_have_a_boundary_between_them() {
    let played = played(
        retrying(1),
        ScriptedReply::default().text("so x: any").cut(3),
    );
    assert_eq!(played.published(), "so x: |so x: any");
}

#[test]
fn a_clock_that_goes_back_or_leaps_brings_no_second_end() {
    let settings = Settings {
        reply: Some(Duration::from_secs(60)),
        ..Settings::default()
    };
    let mut processor = Processor::new(&pack(), Hooks::default(), settings);
    let mut out = Vec::new();
    processor.begin("m", &mut out);
    processor.step(Duration::from_secs(50), Input::Sent, &mut out);
    processor.step(Duration::ZERO, Input::Event(delta(0, "a")), &mut out);
    processor.step(Duration::from_secs(1), Input::Tick, &mut out);
    assert!(!processor.is_idle(), "time that goes back is no time");
    for _ in 0..3 {
        processor.step(
            Duration::from_secs(10 * 365 * 86_400),
            Input::Tick,
            &mut out,
        );
    }
    let ends = out.iter().filter_map(|step| match step {
        Step::Finish(outcome) => Some(&outcome.end),
        _ => None,
    });
    let ends: Vec<&End> = ends.collect();
    assert!(
        matches!(
            ends[..],
            [End::Aborted {
                reason: AbortReason::Timeout,
                ..
            }]
        ),
        "{ends:?}"
    );
}

#[test]
fn a_stream_that_fails_in_the_middle_of_a_match_is_no_clean_end() {
    // `the end$` would match if the failure counted as the end of the text.
    let script = ScriptedReply::default().event(delta(0, "this is the end"));
    let script = script.fail(Failure::new("reset", "connection reset by peer"));
    let played = play(Hooks::default(), vec![script]);
    let is_decision = |step: &Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
    assert!(!played.steps.iter().any(is_decision));
    let End::Aborted { reason, .. } = played.outcome.end else {
        panic!("{:?}", played.outcome.end);
    };
    assert_eq!(reason, AbortReason::Error);
}

#[test]
fn inputs_before_the_beginning_and_after_the_end_change_nothing() {
    let mut processor = processor(Hooks::default());
    let mut out = Vec::new();
    let strays = || {
        [
            Input::Sent,
            Input::End,
            Input::Cancel,
            Input::Event(delta(0, "rm -rf /")),
            Input::Failed(Failure::new("odd", "")),
        ]
    };
    for input in strays() {
        processor.step(Duration::ZERO, input, &mut out);
    }
    assert_eq!(out, []);
    processor.begin("m", &mut out);
    processor.step(Duration::ZERO, Input::Cancel, &mut out);
    let said = out.len();
    for input in strays() {
        processor.step(Duration::ZERO, input, &mut out);
    }
    assert_eq!(out.len(), said);
    assert_eq!(processor.counters().stray_inputs, 10);
}

#[test]
fn a_processor_that_is_forgotten_hangs_nobody() {
    let mut hooks = Hooks::default();
    struct Idle;
    impl ttsr::harness::Hook for Idle {
        fn points(&self) -> &[ttsr::harness::HookPoint] {
            &[ttsr::harness::HookPoint::Delta]
        }
    }
    hooks
        .register_within("idle", Duration::from_secs(1), Idle)
        .unwrap();
    let mut processor = processor(hooks);
    let mut out = Vec::new();
    processor.begin("m", &mut out);
    processor.step(Duration::ZERO, Input::Sent, &mut out);
    processor.step(Duration::ZERO, Input::Event(delta(0, "a")), &mut out);
    assert!(matches!(out.last(), Some(Step::Forward { .. })));
    std::mem::forget(processor);
}

#[test]
fn two_rules_on_one_byte_are_decided_the_same_in_whatever_order_they_are_loaded() {
    let rule = |id: &str, action| {
        let mut rule = Rule::new(id, vec![Pattern::literal("x")]);
        rule.action = action;
        rule
    };
    let rules = [
        rule("p/a", Action::Warn),
        rule("p/b", Action::Abort),
        rule("p/c", Action::Abort),
        rule("p/d", Action::Inject),
    ];
    for turn in 0..rules.len() {
        let mut rules = rules.clone();
        rules.rotate_left(turn);
        let pack = rules
            .into_iter()
            .fold(Pack::builder(), |pack, rule| pack.rule(rule));
        let pack = pack.build().unwrap();
        let processor = Processor::new(&pack, Hooks::default(), Settings::default());
        let played = play_with(processor, vec![text("x")], &Cancel::default(), |_| {});
        let source = format!("{:?}", played.aborted()[0].source);
        assert!(source.contains("p/b"), "{source}");
    }
}

/// Returns the steps of two processors that are stepped in turn. The hook of the first one panics.
#[test]
fn a_hook_that_panics_leaves_other_streams_alone() {
    let mut broken = Hooks::default();
    broken.on_delta("broken", |_, _| {
        std::panic::resume_unwind(Box::new("broken"));
    });
    let mut processors = [processor(broken), processor(Hooks::default())];
    let mut steps = [Vec::new(), Vec::new()];
    for (processor, out) in processors.iter_mut().zip(&mut steps) {
        processor.begin("m", out);
        processor.step(Duration::ZERO, Input::Sent, out);
    }
    for bytes in ["a", "b"] {
        for (processor, out) in processors.iter_mut().zip(&mut steps) {
            processor.step(Duration::ZERO, Input::Event(delta(0, bytes)), out);
        }
    }
    let aborts = |out: &[Step]| {
        let is_abort = |step: &&Step| matches!(step, Step::Aborted(_));
        out.iter().filter(is_abort).count()
    };
    let forwarded = |out: &[Step]| {
        let is_forward = |step: &&Step| matches!(step, Step::Forward { .. });
        out.iter().filter(is_forward).count()
    };
    assert_eq!((aborts(&steps[0]), forwarded(&steps[0])), (1, 0));
    assert_eq!((aborts(&steps[1]), forwarded(&steps[1])), (0, 2));
    let panics = processors.map(|processor| processor.counters().hook_panics);
    assert_eq!(panics, [1, 0]);
}

const CHILD: &str = "TTSR_PANIC_CHILD";

/// A child process of the next test: its hook panics, and panics again while the stack unwinds.
#[test]
#[ignore = "started by the test below"]
fn child() {
    struct Again;
    impl Drop for Again {
        fn drop(&mut self) {
            panic!("again");
        }
    }
    if skip::unless_set(CHILD).is_none() {
        return;
    }
    let mut hooks = Hooks::default();
    hooks.on_delta("broken", |_, _| {
        let _again = Again;
        panic!("once");
    });
    let _ = play(hooks, vec![text("a")]);
    println!("survived");
}

#[test]
fn a_panic_within_a_panic_ends_the_process() {
    let ended = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "faults::child", "--ignored", "--nocapture"])
        .env(CHILD, "1")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stdout);
    assert!(
        !ended.status.success() && !said.contains("survived"),
        "{said}"
    );
    let complaints = String::from_utf8_lossy(&ended.stderr);
    assert!(complaints.contains("again"), "{complaints}");
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        assert!(ended.status.signal().is_some(), "{:?}", ended.status);
    }
}

/// No lock is held while a hook is called, so a hook may use the rules of its own reply.
#[test]
fn a_hook_may_read_with_the_rules_it_is_called_under() {
    let seen = Arc::new(AtomicUsize::new(0));
    let count = seen.clone();
    let mut hooks = Hooks::default();
    hooks.on_delta("inner", move |_, delta| {
        let mut session = pack().session();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, PartId(0), Channel::Text);
        let _ = session.push(&mut stream, PartId(0), delta.text().as_bytes());
        count.fetch_add(session.decisions().len(), Ordering::Relaxed);
        // A complete loop with its own runtime, on its own thread.
        let inner = std::thread::spawn(|| play(Hooks::default(), vec![text("inner")]));
        assert_eq!(inner.join().unwrap().published(), "inner");
    });
    let played = play(hooks, vec![text("good, x: any"), text("good")]);
    assert_eq!(played.outcome.reply.text(Channel::Text), "good");
    assert_eq!(seen.load(Ordering::Relaxed), 1);
    assert_eq!(played.processor.counters().hook_panics, 0);
}

#[test]
fn a_hook_that_cancels_its_own_reply_ends_it_once() {
    let cancel = Cancel::default();
    let switch = cancel.clone();
    let mut hooks = Hooks::default();
    hooks.on_delta("switch", move |_, _| switch.cancel());
    let script = ScriptedReply::default().text("abcdef").cut(1);
    let played = play_with(processor(hooks), vec![script], &cancel, |_| {});
    assert_ended_by_the_user(&played);
}

fn assert_ended_by_the_user(played: &Played) {
    assert_eq!(played.aborted().len(), 1);
    assert_eq!(played.provider.requests().len(), 1);
    let End::Aborted { reason, .. } = played.outcome.end else {
        panic!("{:?}", played.outcome.end);
    };
    assert_eq!(reason, AbortReason::User);
}

#[test]
fn cancels_of_many_threads_at_once_make_one_end() {
    for delta in 0..4 {
        let cancel = Cancel::default();
        let script = ScriptedReply::default().text("abcdef").cut(1);
        let mut forwarded = 0;
        let played = play_with(processor(Hooks::default()), vec![script], &cancel, |step| {
            let is_forward = matches!(step, Step::Forward { .. });
            if is_forward && forwarded == delta {
                std::thread::scope(|scope| {
                    for _ in 0..8 {
                        scope.spawn(|| cancel.cancel());
                    }
                });
            }
            forwarded += usize::from(is_forward);
        });
        assert_ended_by_the_user(&played);
    }
}

/// Every reply has one end, and inputs after it are counted.
#[test]
fn behind_each_kind_of_end_nothing_ends_again() {
    let failed = || Input::Failed(Failure::new("reset", "connection reset by peer"));
    let finish = || {
        Input::Event(ttsr::Event::Finish {
            reason: "stop".into(),
        })
    };
    let ends = [
        ("the user", Input::Cancel),
        ("a rule", Input::Event(delta(0, "rm -rf /"))),
        ("a failure", Input::Failed(Failure::new("odd", ""))),
        ("the end of the stream", Input::End),
    ];
    for (name, end) in ends {
        let mut rule = Rule::new("p/rm", vec![Pattern::literal("rm -rf")]);
        rule.action = Action::Abort;
        let pack = Pack::builder().rule(rule).build().unwrap();
        let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
        let mut out = Vec::new();
        processor.begin("m", &mut out);
        processor.step(Duration::ZERO, Input::Sent, &mut out);
        processor.step(Duration::ZERO, Input::Event(delta(0, "a")), &mut out);
        processor.step(Duration::ZERO, end, &mut out);
        let is_end = |step: &&Step| matches!(step, Step::Finish(_));
        assert_eq!(out.iter().filter(is_end).count(), 1, "{name}");
        assert!(processor.is_idle(), "{name}");
        let (said, strays) = (out.len(), processor.counters().stray_inputs);
        let late = [
            failed(),
            finish(),
            Input::End,
            Input::Cancel,
            Input::Event(delta(0, "rm -rf /")),
            Input::Sent,
            Input::Tick,
        ];
        for input in late {
            processor.step(Duration::ZERO, input, &mut out);
        }
        assert_eq!(out.len(), said, "{name}: {:?}", &out[said..]);
        assert!(processor.counters().stray_inputs > strays, "{name}");
    }
}
