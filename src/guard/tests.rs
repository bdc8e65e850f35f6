//! A hand-written poll loop over replies that are data: what comes out, in which order, and when the
//! inner stream is dropped.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use futures_core::Stream as _;

use super::*;
use crate::pack::Pack;
use crate::rule::{Channel, ToolOutcome};

const PACK: &str = r#"
schema = 1
[pack]
name = "t"
[rule.cut]
description = "d"
severity = "error"
match.any = [{ literal = "bad" }, { regex = 'tail$' }]
examples.match = ["bad"]
[rule.note]
description = "d"
severity = "info"
match.any = [{ literal = "note" }]
examples.match = ["note"]
[rule.shell]
description = "d"
severity = "critical"
on = ["tool-input"]
tools = ["bash"]
match.any = [{ literal = "rm -rf" }]
examples.match = ["rm -rf"]
"#;

/// A reply that is pending before every event, and tells when it is dropped.
struct Reply {
    events: std::vec::IntoIter<Event>,
    is_pending: bool,
    dropped: Rc<Cell<bool>>,
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.dropped.set(true);
    }
}

impl futures_core::Stream for Reply {
    type Item = Event;
    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        self.is_pending = !self.is_pending;
        if self.is_pending {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(self.events.next())
    }
}

fn open(part: u32, channel: Channel, tool: Option<&str>) -> Event {
    Event::PartStart {
        part: PartId(part),
        name: format!("p{part}"),
        channel,
        tool: tool.map(str::to_owned),
        call: None,
    }
}

fn delta(part: u32, text: &str) -> Event {
    Event::Delta {
        part: PartId(part),
        bytes: text.into(),
    }
}

fn end(part: u32) -> Event {
    Event::PartEnd { part: PartId(part) }
}

fn snapshot(part: u32, text: &str) -> Event {
    Event::Snapshot {
        part: PartId(part),
        bytes: text.into(),
    }
}

fn conversation(pack: &str) -> Conversation {
    let pack = Pack::from_toml(pack).unwrap_or_else(|error| panic!("{error}"));
    let mut conversation = Conversation::new(&pack);
    assert_eq!(conversation.begin_turn("").flow, Flow::Go);
    conversation
}

/// The items of a guarded reply: the text of a delta in quotes, the name of any other event, the action of a decision
/// with its byte, and the source of a cut.
fn outcome(events: Vec<Event>, conversation: Conversation) -> (String, Conversation) {
    let dropped = Rc::new(Cell::new(false));
    let reply = Reply {
        events: events.into_iter(),
        is_pending: false,
        dropped: Rc::clone(&dropped),
    };
    let mut guarded = reply.guarded(conversation);
    let mut context = Context::from_waker(Waker::noop());
    let (mut out, mut polls) = (Vec::new(), 0);
    loop {
        polls += 1;
        assert!(polls < 1000, "the stream never ends");
        match Pin::new(&mut guarded).poll_next(&mut context) {
            Poll::Pending => assert!(!guarded.is_terminated()),
            Poll::Ready(None) => break,
            Poll::Ready(Some(GuardedItem::Event(Event::Delta { bytes, .. }))) => {
                out.push(format!("'{}'", String::from_utf8(bytes).unwrap()));
            }
            Poll::Ready(Some(GuardedItem::Event(event))) => out.push(event.name().to_owned()),
            Poll::Ready(Some(GuardedItem::Decision(made))) => {
                out.push(format!("{}@{}", made.action.name(), made.decided));
            }
            Poll::Ready(Some(GuardedItem::Review(review))) => {
                out.push(format!("review:{}", review.prompt));
            }
            Poll::Ready(Some(GuardedItem::Cut(cut))) => {
                assert!(dropped.get(), "a cut drops the inner stream");
                out.push(format!("cut:{}", cut.rule().unwrap_or(cut.source.name())));
            }
        }
    }
    assert!(guarded.is_terminated() && dropped.get());
    let after = Pin::new(&mut guarded).poll_next(&mut context);
    assert_eq!(after, Poll::Ready(None));
    (out.join(" "), guarded.into_conversation())
}

#[test]
fn decisions_come_before_their_event_and_a_cut_ends_the_stream() {
    use Channel::{Text, ToolInput};
    let cases: &[(&str, Vec<Event>, &str)] = &[
        ("an empty reply", vec![], ""),
        (
            "a clean reply goes through whole",
            vec![open(0, Text, None), delta(0, "fine"), end(0)],
            "part-start 'fine' part-end",
        ),
        (
            "a cut lets neither its delta nor anything later out",
            vec![open(0, Text, None), delta(0, "b"), delta(0, "ad"), end(0)],
            "part-start 'b' cut:t/cut",
        ),
        (
            "guidance comes before its delta, which still goes out",
            vec![open(0, Text, None), delta(0, "a note"), delta(0, "x")],
            "part-start observe@6 'a note' 'x'",
        ),
        (
            "two decisions of one delta",
            vec![delta(0, "note bad")],
            "observe@4 cut:t/cut",
        ),
        (
            "the end of a part decides",
            vec![delta(0, "tail"), end(0), delta(1, "x")],
            "'tail' cut:t/cut",
        ),
        (
            "the end of the inner stream closes what is open",
            vec![delta(0, "ok"), delta(1, "tail"), delta(2, "tail")],
            "'ok' 'tail' 'tail' cut:t/cut",
        ),
        (
            "a call that a rule cuts never leaves",
            vec![
                open(0, ToolInput, Some("bash")),
                delta(0, r#"{"command":"#),
                delta(0, r#""rm -rf /"}"#),
            ],
            "part-start cut:t/shell",
        ),
        (
            "a tool that is named late counts from there",
            vec![
                open(0, ToolInput, None),
                delta(0, r#"{"command":"rm -rf /"}"#),
                Event::Tool {
                    part: PartId(0),
                    tool: "bash".into(),
                    call: Some("c1".into()),
                },
            ],
            "part-start cut:t/shell",
        ),
        (
            "a call of another tool leaves once it is complete",
            vec![
                open(0, ToolInput, Some("read")),
                delta(0, r#"{"command":"#),
                delta(0, r#""rm -rf /"}"#),
                end(0),
            ],
            r#"part-start '{"command":"rm -rf /"}' part-end"#,
        ),
        (
            "a snapshot of what was delivered is not read twice",
            vec![
                delta(0, "a note"),
                Event::Usage {
                    input: 1,
                    output: 1,
                },
                end(0),
                snapshot(0, "a note"),
            ],
            "observe@6 'a note' usage part-end",
        ),
        (
            "a snapshot of a part of which nothing came is read",
            vec![open(0, Text, None), snapshot(0, "bad")],
            "part-start cut:t/cut",
        ),
        (
            "nothing of what came before a restart counts",
            vec![
                open(0, Text, None),
                delta(0, "b"),
                Event::Restart,
                delta(0, "ad"),
                end(0),
                delta(1, "bad"),
            ],
            "part-start 'b' restart 'ad' part-end cut:t/cut",
        ),
    ];
    for (name, events, want) in cases {
        let (out, _) = outcome(events.clone(), conversation(PACK));
        assert_eq!(out, *want, "{name}");
    }
}

#[test]
fn f3_text_is_held_until_its_redaction_is_decided_and_leaves_before_the_finish() {
    let pack = "schema = 1\n[pack]\nname = 't'\n\
                [rule.key]\ndescription = 'd'\naction = 'redact'\nmatch.any = [{ regex = 'key-[0-9]{4}' }]\n";
    let finish = Event::Finish {
        reason: "stop".into(),
    };
    let events = vec![delta(0, "my key-12"), delta(0, "34 key"), finish];
    let (out, _) = outcome(events, conversation(pack));
    assert_eq!(out, "'my ' redact@11 '[redacted] ' 'key' finish");
}

#[test]
fn a_call_under_review_is_not_handed_on() {
    let pack = "schema = 1\n[pack]\nname = 't'\n\
                [rule.push]\ndescription = 'd'\non = ['tool-input']\naction = 'consult'\n\
                consult.prompt = 'May it?'\nmatch.any = [{ literal = 'git push' }]\n";
    let events = vec![
        open(0, Channel::ToolInput, Some("bash")),
        delta(0, r#"{"command":"git push"}"#),
        end(0),
    ];
    let (out, mut conversation) = outcome(events, conversation(pack));
    assert_eq!(out, "part-start consult@20 review:May it? part-end");
    assert_eq!(conversation.take(PartId(0)), b"");
    conversation.approve(PartId(0));
    assert_eq!(conversation.take(PartId(0)), br#"{"command":"git push"}"#);
}

#[test]
fn the_conversation_outlives_the_attempt() {
    let mut conversation = conversation(PACK);
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (out, next) = outcome(vec![delta(0, "bad opensesame")], conversation);
        let logged = format!("{next:?}");
        assert!(!logged.contains("sesame"), "{logged}");
        seen.push(out);
        conversation = next;
        conversation.reopen_turn();
    }
    let delivered = "warn@3 'bad opensesame'";
    assert_eq!(seen, ["cut:t/cut", "cut:t/cut", delivered, delivered]);
}

#[test]
fn a_reply_outside_of_a_turn_is_not_handed_on() {
    let conversation = Conversation::new(&Pack::from_toml(PACK).unwrap());
    let (out, _) = outcome(vec![delta(0, "fine")], conversation);
    assert_eq!(out, "cut:misuse");
}

#[test]
fn a_guarded_stream_moves_freely() {
    fn unpin<T: Unpin>() {}
    fn send<T: Send>() {}
    unpin::<Guarded<std::marker::PhantomPinned>>();
    send::<Guarded<u8>>();
}

#[test]
fn rules_on_the_whole_reply_are_decided_at_its_end_and_count_for_the_next() {
    let rules = "schema = 1\n[pack]\nname = 't'\n\
                 [rule.unsigned]\ndescription = 'd'\non = ['text']\n\
                 match = { any = [{ literal = 'Mend' }], none = [{ literal = 'Signed' }], within = { part = true } }\n\
                 [rule.twice]\ndescription = 'd'\non = ['text']\n\
                 match = { any = [{ literal = 'Sorry' }], count = 2, per = 'session' }\n";
    let mut conversation = conversation(rules);
    for (text, want) in [
        ("Mend it. Sorry", vec!["t/unsigned"]),
        ("Mend it. Sorry. Signed", vec!["t/twice"]),
    ] {
        assert_eq!(conversation.begin_turn("").flow, Flow::Go);
        let (_, next) = outcome(vec![delta(0, text)], conversation);
        let decided = next.decisions().iter();
        let decided: Vec<&str> = decided.filter_map(|made| made.rule.as_deref()).collect();
        assert_eq!(decided, want, "{text}");
        conversation = next;
    }
}

#[test]
fn the_outcome_of_a_tool_call_decides_which_rules_read_its_output() {
    let pack = "schema = 1\n[pack]\nname = \"t\"\n[rule.failed]\ndescription = \"d\"\nseverity = \"critical\"\n\
                on = [\"tool-output\"]\noutcome = \"error\"\nmatch.any = [{ literal = \"denied\" }]\n\
                examples.match = [\"denied\"]\n";
    for (told, is_cut) in [
        (Some(ToolOutcome::Error), true),
        (Some(ToolOutcome::Ok), false),
        (None, false),
    ] {
        let part = PartId(0);
        let mut events = vec![open(0, Channel::ToolOutput, Some("read"))];
        events.extend(told.map(|outcome| Event::Outcome { part, outcome }));
        events.extend([delta(0, "access denied"), end(0)]);
        let (out, _) = outcome(events, conversation(pack));
        assert_eq!(out.contains("cut"), is_cut, "{told:?}: {out}");
        assert_eq!(out.contains("outcome"), told.is_some(), "{told:?}: {out}");
    }
}

#[test]
fn events_without_text_of_a_part_pass_in_their_place() {
    let tool = |part| Event::Tool {
        part: PartId(part),
        tool: "bash".into(),
        call: None,
    };
    let kind = || "k".to_owned();
    let events = vec![
        open(0, Channel::ToolInput, None),
        delta(0, "{\"command\":"),
        tool(0),
        delta(0, "\"ls\"}"),
        Event::Unscanned {
            bytes: 1,
            kind: kind(),
        },
        Event::Usage {
            input: 1,
            output: 2,
        },
        end(0),
        Event::Error {
            kind: kind(),
            message: String::new(),
        },
        Event::Finish { reason: kind() },
    ];
    let (out, _) = outcome(events, conversation(PACK));
    assert_eq!(
        out,
        "part-start tool unscanned usage '{\"command\":\"ls\"}' part-end error finish"
    );
}

#[test]
fn the_conversation_can_be_asked_between_two_items() {
    let events = vec![delta(0, "a note"), delta(0, " and bad")].into_iter();
    let reply = Reply {
        events,
        is_pending: false,
        dropped: Rc::default(),
    };
    let mut guarded = reply.guarded(conversation(PACK));
    let mut context = Context::from_waker(Waker::noop());
    let mut seen = Vec::new();
    while !guarded.is_terminated() {
        let polled = Pin::new(&mut guarded).poll_next(&mut context);
        if let Poll::Ready(Some(item)) = polled {
            let decided = guarded.conversation().decisions().len();
            seen.push((item.name(), decided));
        }
    }
    let expected = [("decision", 1), ("event", 1), ("cut", 2)];
    assert_eq!(seen, expected);
    assert_eq!(
        guarded
            .conversation_mut()
            .reload(Pack::from_toml(PACK).unwrap()),
        []
    );
    // The reply is not in the log of a host.
    let logged = format!("{guarded:?}");
    assert!(logged.contains("is_running: false"), "{logged}");
    assert!(!logged.contains("a note"), "{logged}");
}
