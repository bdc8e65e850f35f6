//! The data that hooks receive, and their effects.

use std::sync::{Arc, Mutex};

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortReason, AbortSource, Aborted, Cancel, Delta, End, Hook, HookAnswer, HookContext,
    HookPoint, Hooks, Message, OnHookFault, Processor, ScriptedReply, Settings, Step,
};
use ttsr::{Channel, Event, PartId};

use super::{Played, delta, pack, play, play_with, processor, text};

type Log = Arc<Mutex<Vec<String>>>;

fn lines(log: &Log) -> Vec<String> {
    log.lock().unwrap().clone()
}

#[test]
fn every_delta_of_every_channel_with_its_names() {
    let log = Log::default();
    let mut hooks = Hooks::default();
    let kept = log.clone();
    hooks.on_delta("log", move |at, delta| {
        let HookContext {
            session,
            message,
            part,
            channel,
            tool,
            call,
            ..
        } = at;
        let line = format!(
            "{session} {message} {} {} {tool:?} {call:?} {} after {}",
            part.0,
            channel.name(),
            delta.text(),
            at.so_far.len(),
        );
        kept.lock().unwrap().push(line);
    });
    let script = ScriptedReply::default()
        .reasoning("hm")
        .text("hi")
        .tool("read", "call_1", r#"{"a":1}"#)
        .cut(4)
        .finish("stop");
    play(hooks, vec![script]);
    assert_eq!(
        lines(&log),
        [
            "ses_1 msg_1 0 reasoning None None hm after 0",
            "ses_1 msg_1 1 text None None hi after 0",
            r#"ses_1 msg_1 2 tool-input Some("read") Some("call_1") {"a" after 0"#,
            r#"ses_1 msg_1 2 tool-input Some("read") Some("call_1") :1} after 4"#,
        ]
    );
}

#[test]
fn what_a_hook_rewrote_is_accumulated_published_and_matched() {
    let mut hooks = Hooks::default();
    hooks.on_delta("upper", |_, delta| {
        delta.rewrite(delta.text().replace("ANY", "any"))
    });
    let played = play(
        hooks,
        vec![text("x: ANY"), text("y: ANYTHING"), text("good")],
    );
    assert_eq!(played.sent(), [vec![], vec!["No any."], vec!["No any."]]);

    let mut hooks = Hooks::default();
    hooks.on_delta("mend", |_, delta| {
        delta.rewrite(delta.text().replace("any", "number"))
    });
    let played = play(hooks, vec![text("x: any")]);
    assert_eq!(played.published(), "x: number");
    assert_eq!(played.outcome.reply.text(Channel::Text), "x: number");
    assert_eq!(played.outcome.attempts, 1);
}

#[test]
fn the_delta_a_hook_aborts_on_is_neither_accumulated_nor_published() {
    let mut hooks = Hooks::default();
    hooks.on_delta("stop", |_, delta| {
        if delta.bytes().contains(&b'!') {
            delta.rewrite("rewritten and aborted");
            delta.abort();
        }
    });
    let played = play(hooks, vec![text("ab!cd").cut(1)]);
    assert_eq!(played.published(), "ab");
    assert_eq!(played.aborted()[0].partial.text(Channel::Text), "ab");
    assert_eq!(played.outcome.reply.parts(), []);
}

#[test]
fn the_tool_input_hook_fires_only_while_the_call_is_pending() {
    let calls = Log::default();
    let mut hooks = Hooks::default();
    let kept = calls.clone();
    hooks.on_delta("log", move |_, delta| {
        kept.lock().unwrap().push(delta.text().into_owned());
    });
    let script = ScriptedReply::default()
        .tool("read", "c", "{}")
        .event(delta(0, "late"))
        .finish("stop")
        .event(delta(0, "later"));
    let played = play(hooks, vec![script]);
    assert_eq!(lines(&calls), ["{}"]);
    assert_eq!(played.published(), "{}");
    assert_eq!(played.processor.counters().late_bytes, 9);
}

#[test]
fn the_source_names_the_hook_and_the_partial_has_every_channel() {
    let mut hooks = Hooks::default();
    hooks.on_delta("quiet", |_, _| {});
    hooks.on_delta("guard", |at, delta| {
        if at.channel == Channel::ToolInput && at.so_far.len() == 4 {
            delta.abort();
        }
    });
    let script = ScriptedReply::default()
        .reasoning("think")
        .text("say")
        .tool("w", "c", "{\"a\":1}");
    let played = play(hooks, vec![script.cut(2).finish("stop")]);
    let [aborted] = played.aborted()[..] else {
        panic!("once");
    };
    assert_eq!(aborted.reason, AbortReason::Plugin);
    assert_eq!(aborted.source, AbortSource::Hook("guard".into()));
    assert_eq!(aborted.part, Some(PartId(2)));
    let partial = |channel| aborted.partial.text(channel);
    assert_eq!(partial(Channel::Reasoning), "think");
    assert_eq!(partial(Channel::Text), "say");
    assert_eq!(partial(Channel::ToolInput), "{\"a\"");
}

#[test]
fn hooks_run_in_order_and_the_first_abort_wins() {
    let log = Log::default();
    let mut hooks = Hooks::default();
    for name in ["one", "two", "three"] {
        let kept = log.clone();
        hooks.on_delta(name, move |_, delta| {
            kept.lock()
                .unwrap()
                .push(format!("{name} {}", delta.text()));
            delta.rewrite(format!("{}+{name}", delta.text()));
            if name != "one" {
                delta.abort();
            }
        });
    }
    let played = play(hooks, vec![text("x")]);
    assert_eq!(lines(&log), ["one x", "two x+one"]);
    assert_eq!(played.aborted()[0].source, AbortSource::Hook("two".into()));
}

#[test]
fn nothing_registered_nothing_called() {
    struct Idle;
    impl Hook for Idle {
        fn points(&self) -> &[HookPoint] {
            &[HookPoint::Aborted]
        }
        fn delta(&mut self, _: &HookContext<'_>, _: &mut Delta<'_>) {
            panic!("not registered for deltas");
        }
    }
    let mut hooks = Hooks::default();
    assert!(hooks.is_empty(HookPoint::Delta) && hooks.is_empty(HookPoint::Aborted));
    hooks.register("idle", Idle);
    assert!(hooks.is_empty(HookPoint::Delta) && !hooks.is_empty(HookPoint::Aborted));
    let played = play(hooks, vec![text("x")]);
    assert_eq!(played.published(), "x");
    assert_eq!(played.processor.counters().hook_panics, 0);
}

fn guarded(answer: impl FnMut(&Aborted, &mut HookAnswer) + Send + 'static) -> Hooks {
    let mut hooks = Hooks::default();
    hooks.on_delta("guard", |_, delta| {
        if delta.bytes().contains(&b'!') {
            delta.abort();
        }
    });
    hooks.on_aborted("steer", answer);
    hooks
}

fn retry_saying(message: &str) -> impl FnMut(&Aborted, &mut HookAnswer) + Send + 'static {
    let message = message.to_owned();
    move |_, answer| {
        answer.retry = true;
        answer.inject_message = Some(message.clone());
    }
}

#[test]
fn a_hook_retries_with_a_steering_message() {
    let played = play(
        guarded(retry_saying("Calm.")),
        vec![text("a!").cut(1), text("a.")],
    );
    assert_eq!(played.published(), "a|a.");
    assert_eq!(played.sent(), [vec![], vec!["Calm."]]);
    assert_eq!(
        played.provider.requests()[1].messages[1],
        Message::steering("Calm.")
    );
}

#[test]
fn retries_of_hooks_are_bounded() {
    for (allowed, expected) in [(0, 1), (1, 2), (3, 4)] {
        let settings = Settings {
            hook_retries: allowed,
            ..Settings::default()
        };
        let hooks = guarded(retry_saying("Calm."));
        let processor = Processor::new(&pack(), hooks, settings);
        let played = play_with(processor, vec![text("!")], &Cancel::default(), |_| {});
        assert_eq!(played.provider.requests().len(), expected);
        assert_eq!(played.aborted().len(), expected, "once per attempt");
        assert_eq!(played.processor.counters().refused_retries, 1);
        assert!(matches!(played.outcome.end, End::Aborted { .. }));
    }
}

#[test]
fn a_message_without_a_retry_is_ignored() {
    let hooks = guarded(|_, answer| answer.inject_message = Some("Calm.".into()));
    let played = play(hooks, vec![text("!")]);
    assert_eq!(played.provider.requests().len(), 1);
    assert_eq!(played.outcome.added, []);
    assert_eq!(played.processor.counters().ignored_messages, 1);
}

#[test]
fn several_hooks_answer_in_order() {
    let mut hooks = guarded(retry_saying("One."));
    hooks.on_aborted("two", |_, answer| {
        answer.inject_message = Some("ignored".into())
    });
    hooks.on_aborted("three", retry_saying("Three."));
    let played = play(hooks, vec![text("!"), text("good")]);
    assert_eq!(played.sent(), [vec![], vec!["One.", "Three."]]);
}

#[test]
fn the_retry_of_a_rule_takes_the_message_of_a_hook_along() {
    let mut hooks = Hooks::default();
    hooks.on_aborted("more", |aborted: &Aborted, answer: &mut HookAnswer| {
        assert!(aborted.retry, "the hook sees that the rule retries");
        retry_saying("And calm.")(aborted, answer);
    });
    let played = play(hooks, vec![text("x: any"), text("good")]);
    assert_eq!(played.sent(), [vec![], vec!["No any.", "And calm."]]);
}

#[test]
fn a_hook_can_bring_back_what_a_rule_aborted_unless_the_rule_is_critical() {
    for (reply, attempts) in [("eval(x)", 2), ("rm -rf /", 1)] {
        let mut hooks = Hooks::default();
        hooks.on_aborted("again", retry_saying("Again."));
        let played = play(hooks, vec![text(reply), text("good")]);
        assert_eq!(played.outcome.attempts, attempts, "{reply}");
        assert_eq!(
            played.processor.counters().refused_retries,
            u64::from(attempts == 1)
        );
    }
}

#[test]
fn the_partial_can_be_kept_as_context() {
    let hooks = guarded(|aborted, answer| {
        answer.retry = true;
        let partial = aborted.partial.text(Channel::Text);
        answer.inject_message = Some(format!("So far: {partial}"));
    });
    let played = play(hooks, vec![text("half!").cut(1), text("good")]);
    assert_eq!(played.sent(), [vec![], vec!["So far: half".to_owned()]]);
}

fn panicking(on_hook_fault: OnHookFault) -> (Played, Vec<String>) {
    let log = Log::default();
    let kept = log.clone();
    let mut hooks = Hooks::default();
    hooks.on_delta("broken", |_, delta| {
        delta.rewrite("garbage");
        std::panic::resume_unwind(Box::new("broken"));
    });
    hooks.on_delta("sound", move |_, delta| {
        kept.lock().unwrap().push(delta.text().into_owned());
    });
    let settings = Settings {
        on_hook_fault,
        ..Settings::default()
    };
    let processor = Processor::new(&pack(), hooks, settings);
    let played = play_with(
        processor,
        vec![text("abc").cut(1)],
        &Cancel::default(),
        |_| {},
    );
    (played, lines(&log))
}

#[test]
fn a_hook_that_panics_closes_its_stream() {
    let (played, seen) = panicking(OnHookFault::Abort);
    assert_eq!(seen, [""; 0], "no hook after it sees the delta");
    let aborted = played.aborted()[0];
    assert_eq!(aborted.reason, AbortReason::Error);
    assert_eq!(aborted.source, AbortSource::Hook("broken".into()));
    assert_eq!(played.published(), "");
    assert_eq!(played.processor.counters().hook_panics, 1);
    let again = play_with(
        played.processor,
        vec![text("x")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(
        again.processor.counters().hook_panics,
        2,
        "called again in the next turn"
    );
}

#[test]
fn a_hook_that_panics_can_be_passed_over() {
    let (played, seen) = panicking(OnHookFault::Continue);
    assert_eq!(played.published(), "abc");
    assert_eq!(seen, ["a", "b", "c"]);
    assert_eq!(
        played.processor.counters().hook_panics,
        1,
        "not called again"
    );
    let noted = Step::Observe(LoopEvent::HookPanicked {
        hook: "broken".into(),
    });
    assert!(played.steps.contains(&noted));
}

#[test]
fn a_panic_inside_aborted_is_counted_and_the_others_are_asked() {
    let mut hooks = guarded(|_, _| std::panic::resume_unwind(Box::new("broken")));
    hooks.on_aborted("sound", retry_saying("Calm."));
    let played = play(hooks, vec![text("!"), text("good")]);
    assert_eq!(played.outcome.reply.text(Channel::Text), "good");
    assert_eq!(played.aborted().len(), 1);
    assert_eq!(played.processor.counters().hook_panics, 1);
}

#[test]
fn a_hook_may_swallow_a_delta() {
    let mut hooks = Hooks::default();
    hooks.on_delta("vowels", |_, delta| {
        if delta.bytes() == b"a" {
            delta.rewrite("");
        }
    });
    let played = play(hooks, vec![text("banana").cut(1)]);
    assert_eq!(played.published(), "bnn");
    assert_eq!(played.outcome.reply.text(Channel::Text), "bnn");
}

#[test]
fn text_complete_replaces_what_is_kept() {
    struct Trim;
    impl Hook for Trim {
        fn points(&self) -> &[HookPoint] {
            &[HookPoint::TextComplete]
        }
        fn text_complete(&mut self, at: &HookContext<'_>, text: &mut Vec<u8>) {
            assert_eq!(at.channel, Channel::Text);
            *text = text.trim_ascii().to_vec();
        }
    }
    let mut hooks = Hooks::default();
    hooks.register("trim", Trim);
    let script = ScriptedReply::default()
        .reasoning(" r ")
        .text(" t ")
        .finish("stop");
    let played = play(hooks, vec![script]);
    assert_eq!(played.outcome.reply.text(Channel::Text), "t");
    assert_eq!(played.outcome.reply.text(Channel::Reasoning), " r ");
    let closes = played.steps.iter().filter_map(|step| match step {
        Step::Close { replaced, .. } => Some(replaced.as_deref()),
        _ => None,
    });
    assert_eq!(closes.collect::<Vec<_>>(), [None, Some(&b"t"[..])]);
}

#[test]
fn a_hook_sees_the_name_of_a_tool_that_came_late() {
    let log = Log::default();
    let kept = log.clone();
    let mut hooks = Hooks::default();
    hooks.on_delta("log", move |at, _| {
        kept.lock().unwrap().push(format!("{:?}", at.tool));
    });
    let part = PartId(0);
    let script = ScriptedReply::from(vec![
        Event::PartStart {
            part,
            name: "0".into(),
            channel: Channel::ToolInput,
            tool: None,
            call: None,
        },
        delta(0, "{"),
        Event::Tool {
            part,
            tool: "read".into(),
            call: Some("c".into()),
        },
        delta(0, "}"),
        Event::PartEnd { part },
    ]);
    let mut first = processor(hooks);
    let mut steps = Vec::new();
    first.begin("m", &mut steps);
    let played = play_with(
        first,
        vec![script.finish("stop")],
        &Cancel::default(),
        |_| {},
    );
    assert_eq!(lines(&log), ["None", "Some(\"read\")"]);
    assert_eq!(played.processor.counters().abandoned_replies, 1);
}

/// A hook that does not return from the delta with an `s` until it is released.
struct Stuck {
    log: Log,
    go: std::sync::mpsc::Receiver<()>,
}

impl Hook for Stuck {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Delta, HookPoint::Aborted]
    }

    fn delta(&mut self, at: &HookContext<'_>, delta: &mut Delta<'_>) {
        let line = format!("{}+{}", String::from_utf8_lossy(at.so_far), delta.text());
        self.log.lock().unwrap().push(line);
        if delta.text().contains('s') {
            let _let_go = self.go.recv();
        }
    }

    fn aborted(&mut self, _: &Aborted, _: &mut HookAnswer) {
        self.log.lock().unwrap().push("aborted".into());
    }
}

/// The deadline is an hour. If the deadline ended the wait, the test would take that long.
#[test]
fn a_hook_that_hangs_does_not_hold_up_the_users_cancel() {
    for on_hook_fault in [OnHookFault::Abort, OnHookFault::Continue] {
        let deadline = std::time::Duration::from_secs(3600);
        let (processor, log, let_go) = stuck_within(deadline, on_hook_fault);
        let cancel = Cancel::default();
        let user = std::thread::spawn({
            let (log, cancel) = (log.clone(), cancel.clone());
            move || {
                while !lines(&log).contains(&"ab+s".to_owned()) {
                    std::thread::yield_now();
                }
                cancel.cancel();
            }
        });
        let played = play_with(processor, vec![text("abscd").cut(1)], &cancel, |_| {});
        user.join().unwrap();
        let aborted = played.aborted()[0];
        assert_eq!(
            (aborted.reason, &aborted.source),
            (AbortReason::User, &AbortSource::User)
        );
        assert_eq!(aborted.partial.text(Channel::Text), "ab");
        assert_eq!(played.published(), "ab", "nothing behind the cancel");
        assert_eq!(
            played.processor.counters().hook_timeouts,
            0,
            "it is not to blame"
        );
        assert_eq!(lines(&log), ["+a", "a+b", "ab+s"], "it has not returned");
        // When the hook has returned, it is notified of the abort, and called again.
        let_go.send(()).unwrap();
        let again = play_with(
            played.processor,
            vec![text("xy")],
            &Cancel::default(),
            |_| {},
        );
        assert_eq!(again.published(), "xy");
        assert_eq!(lines(&log), ["+a", "a+b", "ab+s", "aborted", "+xy"]);
    }
}

type LetGo = std::sync::mpsc::Sender<()>;

/// Returns a processor with one hook that hangs, the hook's notes, and the sender that releases it.
fn stuck_within(
    deadline: std::time::Duration,
    on_hook_fault: OnHookFault,
) -> (Processor, Log, LetGo) {
    let (let_go, go) = std::sync::mpsc::channel();
    let log = Log::default();
    let hook = Stuck {
        log: log.clone(),
        go,
    };
    let mut hooks = Hooks::default();
    hooks.register_within("stuck", deadline, hook).unwrap();
    let settings = Settings {
        on_hook_fault,
        ..Settings::default()
    };
    let processor = Processor::new(&pack(), hooks, settings);
    (processor, log, let_go)
}

fn stuck(on_hook_fault: OnHookFault) -> (Played, Vec<String>, LetGo) {
    let deadline = std::time::Duration::from_millis(200);
    let (processor, log, let_go) = stuck_within(deadline, on_hook_fault);
    let scripts = vec![text("abscd").cut(1)];
    let played = play_with(processor, scripts, &Cancel::default(), |_| {});
    let seen = lines(&log);
    (played, seen, let_go)
}

#[test]
fn a_hook_that_hangs_is_cut_and_named() {
    let (played, seen, _let_go) = stuck(OnHookFault::Abort);
    assert_eq!(
        seen,
        ["+a", "a+b", "ab+s"],
        "it knows the text so far, and is asked no more"
    );
    let aborted = played.aborted()[0];
    assert_eq!(aborted.reason, AbortReason::Timeout);
    assert_eq!(aborted.source, AbortSource::Hook("stuck".into()));
    assert_eq!(aborted.detail, "the hook did not return in time");
    assert_eq!(aborted.partial.text(Channel::Text), "ab");
    assert_eq!(played.processor.counters().hook_timeouts, 1);
}

#[test]
fn a_hook_that_hangs_can_be_passed_over() {
    let (played, seen, _let_go) = stuck(OnHookFault::Continue);
    assert_eq!(seen, ["+a", "a+b", "ab+s"]);
    assert_eq!(played.published(), "abscd");
    assert_eq!(played.processor.counters().hook_timeouts, 1);
}

#[test]
fn a_hook_that_returned_too_late_is_asked_again_in_the_next_reply() {
    let (played, _, let_go) = stuck(OnHookFault::Continue);
    let_go.send(()).unwrap();
    let mut processor = played.processor;
    // The hook counts as hanging until its thread has run, which may take a while on a busy machine.
    let is_asked_again = (0..20_000).any(|_| {
        let before = processor.counters().hook_timeouts;
        let own = std::mem::replace(&mut processor, super::processor(Hooks::default()));
        let again = play_with(own, vec![text("xy")], &Cancel::default(), |_| {});
        processor = again.processor;
        std::thread::sleep(std::time::Duration::from_millis(1));
        processor.counters().hook_timeouts == before
    });
    assert!(is_asked_again);
}

#[test]
fn the_loop_takes_what_a_hook_on_a_thread_of_its_own_says() {
    let mut hooks = Hooks::default();
    struct Shouts;
    impl Hook for Shouts {
        fn points(&self) -> &[HookPoint] {
            &[HookPoint::Delta, HookPoint::TextComplete]
        }
        fn delta(&mut self, _: &HookContext<'_>, delta: &mut Delta<'_>) {
            delta.rewrite(delta.text().to_uppercase());
            if delta.text().contains('Z') {
                delta.abort();
            }
        }
        fn text_complete(&mut self, at: &HookContext<'_>, text: &mut Vec<u8>) {
            assert_eq!(at.so_far, b"ABC");
            text.push(b'!');
        }
    }
    let deadline = std::time::Duration::from_secs(60);
    hooks.register_within("shouts", deadline, Shouts).unwrap();
    let played = play(hooks, vec![text("abc").cut(2)]);
    assert_eq!(played.published(), "ABC");
    assert_eq!(played.outcome.reply.text(Channel::Text), "ABC!");
}

#[test]
fn the_event_point_is_called_by_the_loop_itself() {
    use std::sync::mpsc;
    use ttsr::Pack;
    use ttsr::harness::fallback::SessionEvent;
    use ttsr::harness::{Request, Scripted};
    struct Hears(mpsc::Sender<&'static str>);
    impl Hook for Hears {
        fn points(&self) -> &[HookPoint] {
            &[HookPoint::Event]
        }
        fn event(&mut self, event: &SessionEvent) {
            assert_eq!(event.session(), "ses_1");
            let name = match event {
                SessionEvent::Status { message, .. } if message == "busy" => "busy",
                SessionEvent::MessageUpdated { error: None, .. } => "updated",
                SessionEvent::MessageUpdated { .. } => "updated with an error",
                SessionEvent::Error { .. } => "error",
                SessionEvent::Idle { .. } => "idle",
                _ => "another",
            };
            self.0.send(name).unwrap();
        }
    }
    let answer = ScriptedReply::default().text("Done.").finish("stop");
    let calls = ScriptedReply::default()
        .tool("read", "call_1", "{}")
        .finish("tool_use");
    let broken = ScriptedReply::default()
        .text("Do")
        .fail(ttsr::harness::Failure::new("reset", "reset"));
    for (script, expected) in [
        (answer, &["busy", "updated", "idle"][..]),
        (calls, &["busy", "updated"]),
        (broken, &["busy", "updated with an error", "error", "idle"]),
    ] {
        let (sender, heard) = mpsc::channel();
        let mut hooks = Hooks::default();
        hooks.register("hears", Hears(sender));
        let settings = Settings {
            session: "ses_1".into(),
            ..Settings::default()
        };
        let pack = Pack::builder().build().unwrap();
        let mut processor = Processor::new(&pack, hooks, settings);
        let mut provider = Scripted::new([script]);
        let request = Request::new("m", Vec::new());
        let running = ttsr::harness::run(
            &mut processor,
            &mut provider,
            request,
            "msg",
            Cancel::default(),
            |_| {},
        );
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(running);
        let heard: Vec<&str> = heard.try_iter().collect();
        assert_eq!(heard, expected);
    }
}

/// Every event of the loop, with the session it is about.
#[test]
fn sub_agents_and_changes_of_status_are_events() {
    use std::sync::mpsc;
    use ttsr::harness::ask_sub_agent;
    use ttsr::harness::consult::{Consultation, ParentSession};
    use ttsr::harness::fallback::SessionEvent;
    use ttsr::harness::{NoTools, Request, Scripted};
    use ttsr::rule::Consult;
    use ttsr::{Origin, Pack, Pattern, Rule};
    struct Hears(mpsc::Sender<(String, String)>);
    impl Hook for Hears {
        fn points(&self) -> &[HookPoint] {
            &[HookPoint::Event]
        }
        fn event(&mut self, event: &SessionEvent) {
            let told = match event {
                SessionEvent::Status { message, .. } => format!("status {message}"),
                SessionEvent::SubagentCreated { agent, .. } => format!("created {agent}"),
                SessionEvent::MessageUpdated { .. } => "updated".to_owned(),
                SessionEvent::Idle { .. } => "idle".to_owned(),
                other => format!("{other:?}"),
            };
            self.0.send((event.session().to_owned(), told)).unwrap();
        }
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let (sender, heard) = mpsc::channel();
    let mut hooks = Hooks::default();
    hooks.register("hears", Hears(sender));
    let mut rule = Rule::new("demo/no-any", vec![Pattern::literal(": any")]);
    rule.action = ttsr::Action::Retry;
    let pack = Pack::builder().rule(rule).build().unwrap();
    let settings = Settings {
        session: "ses_1".into(),
        ..Settings::default()
    };
    let parent = ParentSession {
        settings: settings.clone(),
        pack: pack.clone(),
        origin: Origin {
            agent: Some("reviewer".into()),
            ..Origin::default()
        },
        model: "m".into(),
    };
    let mut asked = Consultation::new("review", "call_1", Consult::new("Is it fit?"));
    asked.session = Some("ses_2".into());
    let mut provider = Scripted::new([ScriptedReply::default().text("Yes.").finish("stop")]);
    let (tools, cancel) = (NoTools, Cancel::default());
    let asking = ask_sub_agent(
        &mut provider,
        &tools,
        &mut hooks,
        &parent,
        &asked,
        &cancel,
        |_| {},
    );
    runtime.block_on(asking);
    let told: Vec<(String, String)> = heard.try_iter().collect();
    let of = |session: &str, told: &str| (session.to_owned(), told.to_owned());
    assert_eq!(
        told,
        [
            of("ses_2", "created reviewer"),
            of("ses_2", "status busy"),
            of("ses_2", "updated"),
            of("ses_2", "idle"),
        ]
    );
    let mut processor = Processor::new(&pack, hooks, settings);
    let mut provider = Scripted::new([
        ScriptedReply::default().text("x: any"),
        ScriptedReply::default().text("x: u8").finish("stop"),
    ]);
    let request = Request::new("m", Vec::new());
    let running = ttsr::harness::run(
        &mut processor,
        &mut provider,
        request,
        "msg",
        cancel,
        |_| {},
    );
    runtime.block_on(running);
    let told: Vec<String> = heard.try_iter().map(|(_, told)| told).collect();
    assert_eq!(told, ["status busy", "status retry", "updated", "idle"]);
}
