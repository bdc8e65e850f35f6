//! Cancels, timeouts, and futures that are dropped half way.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use ttsr::harness::{
    AbortReason, AbortSource, Aborted, Cancel, End, Failure, HookAnswer, Hooks, Input, Message,
    Processor, PromptRef, Request, Run, Scripted, ScriptedReply, Settings, Step,
};
use ttsr::{Action, Channel, Event, Pack, Pattern, Rule};

use super::{Played, delta, pack, play, play_with, processor, runtime, text};

fn assert_cancelled(played: &Played) {
    let End::Aborted { reason, source, .. } = &played.outcome.end else {
        panic!("{:?}", played.outcome.end);
    };
    assert_eq!((*reason, source), (AbortReason::User, &AbortSource::User));
    assert!(played.outcome.reply.parts().is_empty());
}

fn again(_: &Aborted, answer: &mut HookAnswer) {
    answer.retry = true;
    answer.inject_message = Some("Again.".into());
}

#[test]
fn the_user_cancels_and_no_hook_brings_the_reply_back() {
    let mut hooks = Hooks::default();
    hooks.on_aborted("again", again);
    let cancel = Cancel::default();
    let played = play_with(
        processor(hooks),
        vec![text("abcdef").cut(1)],
        &cancel,
        |step| {
            if matches!(step, Step::Forward { bytes, .. } if bytes == b"c") {
                cancel.cancel();
            }
        },
    );
    assert_cancelled(&played);
    assert_eq!(played.published(), "abc");
    assert_eq!(played.aborted()[0].partial.text(Channel::Text), "abc");
    assert_eq!(played.processor.counters().refused_retries, 1);
    assert_eq!(played.provider.cancelled(), [true]);
}

#[test]
fn a_reply_that_is_cancelled_before_its_request_names_the_turn() {
    let mut processor = processor(Hooks::default());
    let mut steps = Vec::new();
    for turn in 1..3 {
        steps.clear();
        processor.begin("msg_1", &mut steps);
        processor.step(Duration::ZERO, Input::Cancel, &mut steps);
        let aborted = steps.iter().find_map(|step| match step {
            Step::Aborted(aborted) => Some(aborted.prompt),
            _ => None,
        });
        assert_eq!(aborted, Some(PromptRef::new(turn, &[])));
    }
}

#[test]
fn a_scripted_reply_with_a_pause_yields_every_event() {
    let script = text("abc").cut(1).every(Duration::from_millis(1));
    let played = play(Hooks::default(), vec![script]);
    assert_eq!(played.published(), "abc");
}

#[test]
fn the_user_cancels_while_the_provider_is_silent() {
    let cancel = Cancel::default();
    let script = ScriptedReply::default().event(delta(0, "a")).hang();
    let played = play_with(processor(Hooks::default()), vec![script], &cancel, |step| {
        if matches!(step, Step::Forward { .. }) {
            let cancel = cancel.clone();
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_millis(20));
                cancel.cancel();
            });
        }
    });
    assert_cancelled(&played);
}

/// A complaint: a cancel takes precedence over the retry that follows an abort.
#[test]
fn the_user_cancels_between_an_abort_and_its_retry() {
    type Moment = fn(&Step) -> bool;
    let moments: [(&str, Moment); 2] = [
        ("at the abort", |step| matches!(step, Step::Aborted(_))),
        ("at the retraction", |step| {
            matches!(step, Step::Retract { .. })
        }),
    ];
    for (name, moment) in moments {
        let cancel = Cancel::default();
        let scripts = vec![text("x: any").cut(1), text("good")];
        let played = play_with(processor(Hooks::default()), scripts, &cancel, |step| {
            if moment(step) {
                cancel.cancel();
            }
        });
        assert_cancelled(&played);
        assert_eq!(
            played.provider.requests().len(),
            1,
            "{name}: no second request"
        );
        assert_eq!(
            played.aborted().len(),
            1,
            "{name}: the attempt was aborted once"
        );
        assert_eq!(played.outcome.added, [], "{name}: nothing was said");
    }
}

#[test]
fn a_hook_that_cancels_inside_aborted_ends_the_turn_and_is_called_once() {
    let cancel = Cancel::default();
    let calls = Arc::new(AtomicUsize::new(0));
    let mut hooks = Hooks::default();
    let (switch, count) = (cancel.clone(), calls.clone());
    hooks.on_aborted("panic-button", move |aborted, answer| {
        switch.cancel();
        count.fetch_add(1, Ordering::Relaxed);
        again(aborted, answer);
    });
    let played = play_with(
        processor(hooks),
        vec![text("x: any"), text("good")],
        &cancel,
        |_| {},
    );
    assert_cancelled(&played);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    assert_eq!(played.provider.requests().len(), 1);
}

#[test]
fn the_user_cancelled_before_anything_was_sent() {
    let cancel = Cancel::default();
    cancel.cancel();
    let played = play_with(
        processor(Hooks::default()),
        vec![text("x")],
        &cancel,
        |_| {},
    );
    assert_cancelled(&played);
    assert_eq!(played.provider.requests(), []);
}

#[test]
fn a_failure_has_its_reason_and_can_be_retried() {
    let mut hooks = Hooks::default();
    hooks.on_aborted("again", again);
    let broken = ScriptedReply::default()
        .text("half")
        .fail(Failure::new("reset", "by peer"));
    let reported = ScriptedReply::default().event(Event::Error {
        kind: "overloaded".into(),
        message: "later".into(),
    });
    let played = play(hooks, vec![broken, reported.hang(), text("good")]);
    let reasons: Vec<_> = played
        .aborted()
        .iter()
        .map(|a| (a.reason, a.detail.clone()))
        .collect();
    let expected = ["reset: by peer", "overloaded: later"];
    assert_eq!(
        reasons,
        expected.map(|detail| (AbortReason::Error, detail.to_owned()))
    );
    assert_eq!(played.outcome.reply.text(Channel::Text), "good");
    assert_eq!(played.provider.cancelled(), [false, true, false]);
}

#[test]
fn please_be_more_concise_on_timeout() {
    let settings = Settings {
        stall: Some(Duration::from_millis(20)),
        ..Settings::default()
    };
    let mut hooks = Hooks::default();
    hooks.on_aborted("concise", |aborted, answer| {
        answer.retry = aborted.reason == AbortReason::Timeout;
        answer.inject_message = Some("Please be more concise.".into());
    });
    let processor = Processor::new(&pack(), hooks, settings);
    let scripts = vec![ScriptedReply::default().text("well").hang(), text("yes")];
    let played = play_with(processor, scripts, &Cancel::default(), |_| {});
    assert_eq!(played.aborted()[0].source, AbortSource::Limit("stall"));
    assert_eq!(played.sent(), [vec![], vec!["Please be more concise."]]);
    assert_eq!(played.outcome.reply.text(Channel::Text), "yes");
}

#[test]
fn a_provider_that_never_ends_its_stream_is_left_after_a_while() {
    let settings = Settings {
        linger: Duration::from_millis(5),
        ..Settings::default()
    };
    let processor = Processor::new(&pack(), Hooks::default(), settings);
    let played = play_with(
        processor,
        vec![text("whole").hang()],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(played.outcome.reply.text(Channel::Text), "whole");
    assert_eq!(played.provider.cancelled(), [true]);
}

/// A provider that never stops sending must not keep a turn open, even if the host has set no bound.
#[test]
fn a_reply_ends_after_ten_minutes_unless_the_host_says_otherwise() {
    let unbounded = Settings {
        reply: None,
        ..Settings::default()
    };
    for (settings, ends) in [(Settings::default(), true), (unbounded, false)] {
        let mut processor = Processor::new(&pack(), Hooks::default(), settings);
        let mut steps = Vec::new();
        processor.begin("m", &mut steps);
        processor.step(Duration::ZERO, Input::Sent, &mut steps);
        for second in 1..600 {
            let more = Input::Event(delta(0, "a"));
            processor.step(Duration::from_secs(second), more, &mut steps);
        }
        let is_over = |step: &Step| matches!(step, Step::Finish(_));
        assert!(!steps.iter().any(is_over));
        let last = Input::Event(delta(0, "a"));
        processor.step(Duration::from_secs(600), last, &mut steps);
        let aborted = steps.iter().find_map(|step| match step {
            Step::Aborted(aborted) => Some((aborted.reason, aborted.source.clone())),
            _ => None,
        });
        let expected = ends.then_some((AbortReason::Timeout, AbortSource::Limit("reply")));
        assert_eq!(aborted, expected);
        assert_eq!(steps.iter().any(is_over), ends);
    }
}

/// The effect of each bound of time, in seconds. The times are passed in, so the test does not wait.
#[test]
fn bounds_of_time() {
    let seconds = Duration::from_secs;
    let settings = Settings {
        stall: Some(seconds(10)),
        attempt: Some(seconds(30)),
        reply: Some(seconds(50)),
        ..Settings::default()
    };
    let sent = || Input::Sent;
    let more = || Input::Event(delta(0, "a"));
    let tick = || Input::Tick;
    type Case = (&'static str, Vec<(u64, Input)>, &'static [&'static str]);
    let cases: [Case; 7] = [
        ("in time", vec![(0, sent()), (9, more()), (18, tick())], &[]),
        (
            "silence",
            vec![(0, sent()), (9, more()), (19, tick())],
            &["stall"],
        ),
        (
            "a busy host is not a silent provider",
            vec![(0, sent()), (25, more())],
            &[],
        ),
        (
            "an attempt without end",
            vec![(0, sent()), (29, more()), (30, more())],
            &["attempt"],
        ),
        (
            "the clock goes back",
            vec![(0, sent()), (9, more()), (1, tick()), (18, tick())],
            &[],
        ),
        (
            "the clock jumps",
            vec![(0, sent()), (u64::MAX, more())],
            &["reply"],
        ),
        (
            "no retry when the reply's time is over",
            vec![(0, sent()), (30, more()), (31, sent()), (50, more())],
            &["attempt", "reply"],
        ),
    ];
    for (name, inputs, expected) in cases {
        let mut hooks = Hooks::default();
        hooks.on_aborted("again", again);
        let mut processor = Processor::new(&pack(), hooks, settings.clone());
        let mut steps = Vec::new();
        processor.begin("m", &mut steps);
        for (second, input) in inputs {
            processor.step(seconds(second), input, &mut steps);
        }
        let bounds = steps.iter().filter_map(|step| match step {
            Step::Aborted(aborted) => Some(&aborted.source),
            _ => None,
        });
        let expected: Vec<_> = expected
            .iter()
            .map(|bound| AbortSource::Limit(bound))
            .collect();
        assert_eq!(
            bounds.collect::<Vec<_>>(),
            expected.iter().collect::<Vec<_>>(),
            "{name}"
        );
        let is_over = expected.last() == Some(&AbortSource::Limit("reply"));
        assert_eq!(processor.is_idle(), is_over, "{name}");
    }
}

#[test]
fn events_of_a_cut_attempt_are_dropped_and_counted() {
    let mut processor = processor(Hooks::default());
    let mut steps = Vec::new();
    let step = |processor: &mut Processor, input, steps: &mut Vec<Step>| {
        processor.step(Duration::ZERO, input, steps);
    };
    processor.begin("m", &mut steps);
    step(&mut processor, Input::Sent, &mut steps);
    step(&mut processor, Input::Event(delta(0, "x: any")), &mut steps);
    step(
        &mut processor,
        Input::Event(delta(0, "of the old reply")),
        &mut steps,
    );
    step(&mut processor, Input::End, &mut steps);
    assert_eq!(processor.counters().stray_inputs, 2);
    step(&mut processor, Input::Sent, &mut steps);
    step(&mut processor, Input::Event(delta(0, "new")), &mut steps);
    assert_eq!(processor.reply().text(Channel::Text), "new");
    step(&mut processor, Input::Cancel, &mut steps);
    step(&mut processor, Input::Cancel, &mut steps);
    step(
        &mut processor,
        Input::Failed(Failure::new("late", "")),
        &mut steps,
    );
    assert_eq!(processor.counters().stray_inputs, 4);
    let ends = steps.iter().filter(|step| matches!(step, Step::Finish(_)));
    assert_eq!(ends.count(), 1);
}

/// Polls a reply `polls` times, drops it, and runs the next one.
fn dropped_at(polls: usize) -> bool {
    let runtime = runtime();
    let _inside = runtime.enter();
    let calls = Arc::new(AtomicUsize::new(0));
    let mut hooks = Hooks::default();
    let count = calls.clone();
    hooks.on_delta("count", move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let count = calls.clone();
    hooks.on_aborted("count", move |_, _| {
        count.fetch_add(1, Ordering::SeqCst);
    });
    let mut processor = processor(hooks);
    let scripts = [
        text("TODO x: any").cut(2).yielding(),
        text("good").cut(1).yielding(),
    ];
    let mut provider = Scripted::new(scripts);
    let request = || Request::new("model", vec![Message::user("Go.")]);
    let mut is_done = false;
    {
        let run = Run::begin(
            &mut processor,
            &mut provider,
            request(),
            "m",
            Cancel::default(),
        );
        let mut finish = pin!(run.finish(|_| {}));
        let mut cx = Context::from_waker(Waker::noop());
        for _ in 0..polls {
            if let Poll::Ready(outcome) = finish.as_mut().poll(&mut cx) {
                assert_eq!(outcome.reply.text(Channel::Text), "good");
                is_done = true;
                break;
            }
        }
    }
    let called = calls.load(Ordering::SeqCst);
    std::thread::yield_now();
    assert_eq!(
        calls.load(Ordering::SeqCst),
        called,
        "no hook after the drop"
    );
    let mut next = Scripted::new([text("after").cut(1)]);
    let run = Run::begin(&mut processor, &mut next, request(), "n", Cancel::default());
    let outcome = runtime.block_on(run.finish(|_| {}));
    assert_eq!(outcome.reply.text(Channel::Text), "after");
    let open = provider.cancelled().last().copied();
    assert!(
        is_done || polls == 0 || open == Some(true),
        "the transport went with the future"
    );
    is_done
}

#[test]
fn a_future_dropped_at_any_poll_leaves_nothing_behind() {
    let done = (0..200).find(|polls| dropped_at(*polls));
    assert!(done.is_some_and(|polls| polls > 15), "{done:?}");
}

#[test]
fn asking_for_the_next_step_can_be_given_up_and_repeated() {
    let runtime = runtime();
    let mut processor = processor(Hooks::default());
    let mut provider = Scripted::new([
        text("x: any").cut(1).yielding(),
        text("good").cut(1).yielding(),
    ]);
    let request = Request::new("model", Vec::new());
    let outcome = runtime.block_on(async {
        let mut run = Run::begin(
            &mut processor,
            &mut provider,
            request,
            "m",
            Cancel::default(),
        );
        loop {
            let step = tokio::select! {
                biased;
                step = run.next() => step,
                () = std::future::ready(()) => continue,
            };
            if let Some(Step::Finish(outcome)) = step {
                assert_eq!(run.next().await, None);
                break outcome;
            }
        }
    });
    assert_eq!(outcome.reply.text(Channel::Text), "good");
    assert_eq!(provider.requests().len(), 2);
}

#[test]
fn a_reply_can_run_in_a_task_of_its_own() {
    let outcome = runtime().block_on(async {
        let task = tokio::spawn(async {
            let mut processor = processor(Hooks::default());
            let mut provider = Scripted::new([text("good").yielding()]);
            let request = Request::new("model", Vec::new());
            let cancel = Cancel::default();
            let run = Run::begin(&mut processor, &mut provider, request, "m", cancel);
            run.finish(|_| {}).await
        });
        task.await.unwrap()
    });
    assert_eq!(outcome.reply.text(Channel::Text), "good");
}

#[test]
fn a_provider_that_is_always_ready_lets_others_run() {
    let endless = ScriptedReply::default().text("a".repeat(1_000_000)).cut(1);
    let mut processor = processor(Hooks::default());
    let mut provider = Scripted::new([endless.finish("stop")]);
    let cancel = Cancel::default();
    let request = Request::new("model", Vec::new());
    let run = Run::begin(&mut processor, &mut provider, request, "m", cancel.clone());
    let outcome = runtime().block_on(async {
        let canceller = async move { cancel.cancel() };
        let canceller = tokio::spawn(canceller);
        let outcome = run.finish(|_| {}).await;
        canceller.await.unwrap();
        outcome
    });
    assert!(matches!(
        outcome.end,
        End::Aborted {
            reason: AbortReason::User,
            ..
        }
    ));
}

#[test]
fn nothing_is_read_that_nobody_asked_for() {
    let runtime = runtime();
    let mut processor = processor(Hooks::default());
    let mut provider = Scripted::new([text("abc").cut(1)]);
    let request = Request::new("model", Vec::new());
    runtime.block_on(async {
        let mut run = Run::begin(
            &mut processor,
            &mut provider,
            request,
            "m",
            Cancel::default(),
        );
        while let Some(step) = run.next().await {
            if matches!(step, Step::Forward { .. }) {
                break;
            }
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    });
    assert_eq!(processor.reply().text(Channel::Text), "a");
    assert_eq!(provider.cancelled(), [true]);
}

/// Each action of a rule on the text of a failure.
#[test]
fn a_rule_on_a_failure_retries_warns_guides_or_ends_the_reply() {
    let mut rules = ["busy", "slow", "odd", "fatal"].map(|word| {
        let mut rule = Rule::new(format!("p/{word}"), vec![Pattern::word(word)]);
        rule.on = vec![Channel::Error];
        rule.message = Some(format!("It is {word}."));
        rule
    });
    for (rule, action) in
        rules
            .iter_mut()
            .zip([Action::Retry, Action::Warn, Action::Inject, Action::Abort])
    {
        rule.action = action;
    }
    rules[0].retry.model = Some("second".into());
    rules[0].retry.temperature = Some(500);
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    let pack = pack.build().unwrap();
    let failing = |why: &str| ScriptedReply::default().fail(Failure::new("500", why));
    let play_all = |scripts| {
        let mut hooks = Hooks::default();
        hooks.on_aborted("again", |aborted, answer| {
            if ["slow", "odd"]
                .iter()
                .any(|word| aborted.detail.contains(word))
            {
                answer.retry = true;
            }
        });
        let processor = Processor::new(&pack, hooks, Settings::default());
        play_with(processor, scripts, &Cancel::default(), |_| {})
    };

    let retried = play_all(vec![failing("busy"), text("good")]);
    assert_eq!(retried.outcome.reply.text(Channel::Text), "good");
    assert_eq!(retried.sent()[1], ["It is busy."]);
    let request = &retried.provider.requests()[1];
    assert_eq!(
        (request.model.as_str(), request.temperature),
        ("second", Some(500))
    );

    let warned = play_all(vec![failing("slow"), text("good")]);
    let told = warned.steps.iter().find_map(|step| match step {
        Step::Notify { text, .. } => Some(text.as_str()),
        _ => None,
    });
    assert_eq!(told, Some("It is slow."));
    assert_eq!(warned.sent()[1].len(), 0);

    let guided = play_all(vec![failing("odd"), text("good")]);
    let injected = |step: &Step| matches!(step, Step::Inject { message, .. } if message.text() == "It is odd.");
    assert_eq!(guided.steps.iter().filter(|it| injected(it)).count(), 1);
    assert_eq!(guided.sent()[1], ["It is odd."]);

    let ended = play_all(vec![failing("fatal"), text("never")]);
    let source = &ended.aborted().last().unwrap().source;
    assert!(
        matches!(source, AbortSource::Rule { id, .. } if id == "p/fatal"),
        "{source:?}"
    );
    assert_eq!(ended.aborted().last().unwrap().detail, "It is fatal.");
}

#[test]
fn a_restart_after_the_end_and_a_reply_that_is_left_are_counted() {
    let mut processor = processor(Hooks::default());
    let mut steps = Vec::new();
    // The first reply is not abandoned by the one that begins it.
    processor.proceed("m", &mut steps);
    assert_eq!(processor.counters().abandoned_replies, 0);
    processor.step(Duration::ZERO, Input::Sent, &mut steps);
    processor.proceed("n", &mut steps);
    assert_eq!(processor.counters().abandoned_replies, 1);
    processor.step(Duration::ZERO, Input::Sent, &mut steps);
    let reason = "stop".to_owned();
    for (event, strays) in [(Event::Finish { reason }, 0), (Event::Restart, 1)] {
        processor.step(Duration::ZERO, Input::Event(event), &mut steps);
        assert_eq!(processor.counters().stray_inputs, strays);
    }
}
