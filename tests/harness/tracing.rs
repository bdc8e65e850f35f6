//! The events that subscribers of `tracing` receive.

use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber, span};
use ttsr::Pack;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    Cancel, Hooks, Message, Processor, Request, Run, Scripted, ScriptedReply, Settings, Step,
    TraceContext, Tracer,
};

/// Keeps the level and the fields of every event.
#[derive(Clone, Default)]
struct Collector(Arc<Mutex<Vec<Told>>>);

#[derive(Clone, Debug)]
struct Told {
    level: Level,
    target: String,
    fields: Vec<(String, String)>,
}

impl Told {
    fn field(&self, name: &str) -> &str {
        let field = self.fields.iter().find(|(known, _)| known == name);
        field.map_or("", |(_, value)| value)
    }
}

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let value = fmt::format(format_args!("{value:?}"));
        self.fields.push((field.name().to_owned(), value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields
            .push((field.name().to_owned(), value.to_owned()));
    }
}

impl Subscriber for Collector {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut told = Told {
            level: *event.metadata().level(),
            target: event.metadata().target().to_owned(),
            fields: Vec::new(),
        };
        event.record(&mut told);
        self.0.lock().unwrap().push(told);
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

const RULES: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["retry"]
[rule.any]
description = "Say what the type is."
severity = "error"
match.any = [{ literal = ": any" }]
message = "canary in a message"
examples.match = ["x: any"]
"#;

/// Returns the events of a reply that is cut once and retried, with one second per step.
fn told() -> Vec<Told> {
    let collector = Collector::default();
    let kept = collector.clone();
    let pack = Pack::from_toml(RULES).unwrap();
    let mut tracer = Tracer::new(TraceContext {
        session: "ses_1".into(),
        provider: "oak".into(),
        model: "owl-1".into(),
        agent: "build".into(),
    });
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let bad = ScriptedReply::default().text("canary: any").finish("stop");
    let good = ScriptedReply::default()
        .text("canary of another kind")
        .event(ttsr::Event::Usage {
            input: 7,
            output: 40,
        })
        .finish("stop");
    let mut provider = Scripted::new([bad.cut(4), good.cut(4)]);
    let request = Request::new("owl-1", vec![Message::user("canary in a prompt")]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    tracing::subscriber::with_default(collector, || {
        runtime.block_on(async {
            let cancel = Cancel::default();
            let mut run = Run::begin(&mut processor, &mut provider, request, "msg", cancel);
            let mut now = Duration::ZERO;
            while let Some(step) = run.next().await {
                now += Duration::from_secs(1);
                tracer.step(now, &step);
            }
        });
    });
    let told = kept.0.lock().unwrap().clone();
    told.into_iter()
        .filter(|told| told.target == "ttsr")
        .collect()
}

#[test]
fn a_decision_names_its_rule_its_action_and_its_place() {
    let told = told();
    let decision = told
        .iter()
        .find(|told| told.field("message") == "decision")
        .unwrap();
    assert_eq!(decision.level, Level::WARN);
    for (name, value) in [
        ("ttsr.rule.id", "t/any"),
        ("ttsr.action", "retry"),
        ("ttsr.match.offset", "11"),
        ("ttsr.turn", "1"),
        ("ttsr.attempt", "1"),
        ("ttsr.channel", "text"),
        ("counter.ttsr.decisions", "1"),
        ("gen_ai.conversation.id", "ses_1"),
        ("gen_ai.provider.name", "oak"),
        ("gen_ai.request.model", "owl-1"),
        ("gen_ai.agent.name", "build"),
    ] {
        assert_eq!(decision.field(name), value, "{name}");
    }
}

#[test]
fn the_end_says_how_long_it_took_and_what_was_saved() {
    let told = told();
    let names: Vec<&str> = told.iter().map(|told| told.field("message")).collect();
    assert_eq!(
        names,
        [
            "request",
            "first token",
            "decision",
            "aborted",
            "request",
            "first token",
            "usage",
            "finish"
        ]
    );
    let finish = told.last().unwrap();
    // 22 bytes, of which 8 had arrived of the attempt that was cut.
    assert_eq!(finish.field("counter.ttsr.bytes_saved"), "14");
    assert_eq!(finish.field("ttsr.bytes"), "22");
    assert_eq!(finish.field("ttsr.attempts"), "2");
    let rate: f64 = finish.field("ttsr.tokens_per_second").parse().unwrap();
    assert!(rate > 0.0 && rate <= 40.0, "{rate}");
    assert_ne!(finish.field("histogram.ttsr.duration"), "0");
    let first = told
        .iter()
        .find(|told| told.field("message") == "first token")
        .unwrap();
    let after: u64 = first.field("histogram.ttsr.first_token").parse().unwrap();
    assert!(after >= 1000 && after.is_multiple_of(1000), "{after}");
}

#[test]
fn no_text_is_in_any_event() {
    let shown = format!("{:?}", told());
    assert!(!shown.contains("canary"), "{shown}");
}

/// An event of the loop in JSON, and the level and some fields of the `tracing` event that it becomes.
type TracedEvent = (&'static str, Level, &'static [(&'static str, &'static str)]);

const LOOP_EVENTS: [TracedEvent; 8] = [
    (
        r#"{"event":"tool-call","part":"p1","tool":"bash","call":"c1"}"#,
        Level::DEBUG,
        &[
            ("message", "tool call"),
            ("gen_ai.tool.name", "bash"),
            ("gen_ai.tool.call.id", "c1"),
        ],
    ),
    (
        r#"{"event":"doom-loop","part":"p1","tool":"bash","times":3}"#,
        Level::WARN,
        &[
            ("message", "doom loop"),
            ("gen_ai.tool.name", "bash"),
            ("ttsr.times", "3"),
        ],
    ),
    (
        r#"{"event":"sub-agent","session":"s2","parent":"s1","call":"c1","by":"p/ask"}"#,
        Level::INFO,
        &[
            ("message", "sub-agent"),
            ("ttsr.child", "s2"),
            ("ttsr.parent", "s1"),
            ("ttsr.by", "p/ask"),
        ],
    ),
    (
        r#"{"event":"unscanned","bytes":7,"of":"audio"}"#,
        Level::WARN,
        &[
            ("message", "unscanned"),
            ("ttsr.kind", "audio"),
            ("counter.ttsr.unscanned_bytes", "7"),
        ],
    ),
    (
        r#"{"event":"hook-panicked","hook":"guard"}"#,
        Level::INFO,
        &[
            ("message", "note"),
            ("ttsr.what", "hook-panicked"),
            ("ttsr.by", "guard"),
        ],
    ),
    (
        r#"{"event":"message-ignored","hook":"guard"}"#,
        Level::INFO,
        &[("ttsr.what", "message-ignored"), ("ttsr.by", "guard")],
    ),
    (
        r#"{"event":"restarted"}"#,
        Level::INFO,
        &[("ttsr.what", "restarted"), ("ttsr.by", "")],
    ),
    (
        r#"{"event":"no-fallback"}"#,
        Level::INFO,
        &[("ttsr.what", "no-fallback"), ("ttsr.by", "")],
    ),
];

#[test]
fn each_event_of_the_loop_becomes_one_event_with_its_names() {
    let collector = Collector::default();
    let kept = collector.clone();
    let mut tracer = Tracer::new(TraceContext::default());
    tracing::subscriber::with_default(collector, || {
        for (json, ..) in LOOP_EVENTS {
            let event = serde_json::from_str(json).unwrap_or_else(|why| panic!("{json}: {why}"));
            tracer.step(Duration::ZERO, &Step::Observe(event));
        }
        // An event of a later version has no name to show.
        tracer.step(Duration::ZERO, &Step::Observe(LoopEvent::Unknown));
    });
    let told = kept.0.lock().unwrap().clone();
    assert_eq!(told.len(), LOOP_EVENTS.len(), "{told:?}");
    for (told, (json, level, fields)) in told.iter().zip(LOOP_EVENTS) {
        assert_eq!(told.level, level, "{json}");
        for (name, value) in fields {
            assert_eq!(told.field(name), *value, "{json}: {name}");
        }
    }
}
