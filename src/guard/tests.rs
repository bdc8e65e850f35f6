//! A hand-written poll loop over replies that are data: what comes out, in which order, and when the
//! inner stream is dropped.

use std::cell::Cell;
use std::rc::Rc;
use std::task::Waker;

use futures_core::Stream as _;

use super::*;
use crate::pack::Pack;
use crate::rule::{Action, Channel};

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

/// What comes out, in short: the number of an event that was let through, or the action and the byte
/// of a decision. Whether the inner stream was gone when the last decision came is said at the end.
fn outcome(events: Vec<Event>) -> String {
    let dropped = Rc::new(Cell::new(false));
    let reply = Reply {
        events: events.clone().into_iter(),
        is_pending: false,
        dropped: Rc::clone(&dropped),
    };
    let mut guarded = reply.guarded(Pack::from_toml(PACK).unwrap().session());
    let mut context = Context::from_waker(Waker::noop());
    let (mut out, mut next, mut polls) = (Vec::new(), 0, 0);
    loop {
        polls += 1;
        assert!(polls < 1000, "the stream never ends");
        match Pin::new(&mut guarded).poll_next(&mut context) {
            Poll::Pending => assert!(!guarded.is_terminated()),
            Poll::Ready(None) => break,
            Poll::Ready(Some(GuardedItem::Event(event))) => {
                assert_eq!(event, events[next], "events keep their order");
                out.push(next.to_string());
                next += 1;
            }
            Poll::Ready(Some(GuardedItem::Decision(decision))) => {
                let action = format!("{:?}", decision.action).to_lowercase();
                out.push(format!("{action}@{}", decision.decided()));
                let is_over = dropped.get() && guarded.stream().is_cut();
                assert!(
                    is_over || !decision.action.cuts(),
                    "a cut drops the inner stream"
                );
            }
        }
    }
    assert!(guarded.is_terminated() && dropped.get());
    assert_eq!(
        Pin::new(&mut guarded).poll_next(&mut context),
        Poll::Ready(None)
    );
    out.join(" ")
}

#[test]
fn decisions_come_before_their_event_and_a_cut_ends_the_stream() {
    use Channel::{Text, ToolInput};
    let cases: &[(&str, Vec<Event>, &str)] = &[
        ("an empty reply", vec![], ""),
        (
            "a clean reply goes through whole",
            vec![open(0, Text, None), delta(0, "fine"), end(0)],
            "0 1 2",
        ),
        (
            "a cut lets neither its delta nor anything later out",
            vec![open(0, Text, None), delta(0, "b"), delta(0, "ad"), end(0)],
            "0 1 retry@3",
        ),
        (
            "guidance comes before its delta, which still goes out",
            vec![open(0, Text, None), delta(0, "a note"), delta(0, "x")],
            "0 observe@6 1 2",
        ),
        (
            "two decisions of one delta: the one that does not cut first, as it was decided first",
            vec![delta(0, "note bad")],
            "observe@4 retry@8",
        ),
        (
            "the end of a part decides",
            vec![delta(0, "tail"), end(0), delta(1, "x")],
            "0 retry@4",
        ),
        (
            "the end of the inner stream closes what is open",
            vec![delta(0, "ok"), delta(1, "tail"), delta(2, "tail")],
            "0 1 2 retry@4",
        ),
        (
            "a tool named at the start counts",
            vec![
                open(0, ToolInput, Some("bash")),
                delta(0, r#"{"command":"rm -rf /"}"#),
            ],
            "0 abort@18",
        ),
        (
            "a tool named late counts from there",
            vec![
                open(0, ToolInput, None),
                delta(0, r#"{"command":"rm -rf /"}"#),
                Event::Tool {
                    part: PartId(0),
                    tool: "bash".into(),
                    call: Some("c1".into()),
                },
            ],
            "0 1 abort@22",
        ),
        (
            "another tool is no business of the rule",
            vec![
                open(0, ToolInput, Some("read")),
                delta(0, r#"{"command":"rm -rf /"}"#),
            ],
            "0 1",
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
            "observe@6 0 1 2 3",
        ),
        (
            "a snapshot of a part of which nothing came is read",
            vec![open(0, Text, None), snapshot(0, "bad")],
            "0 retry@3",
        ),
        (
            "nothing of what came before a restart counts, nor is the part open any more",
            vec![
                open(0, Text, None),
                delta(0, "b"),
                Event::Restart,
                delta(0, "ad"),
                end(0),
                delta(1, "bad"),
            ],
            "0 1 2 3 4 retry@3",
        ),
    ];
    for (name, events, want) in cases {
        assert_eq!(outcome(events.clone()), *want, "{name}");
    }
}

#[test]
fn the_session_outlives_the_attempt() {
    let mut session = Pack::from_toml(PACK).unwrap().session();
    session.begin_turn();
    let mut actions = Vec::new();
    for _ in 0..4 {
        let reply = Reply {
            events: vec![delta(0, "bad")].into_iter(),
            is_pending: true,
            dropped: Rc::default(),
        };
        let mut guarded = reply.guarded(session);
        let mut context = Context::from_waker(Waker::noop());
        if let Poll::Ready(Some(GuardedItem::Decision(decision))) =
            Pin::new(&mut guarded).poll_next(&mut context)
        {
            assert_eq!(
                guarded.stream().matched(&decision.hit().unwrap()),
                "bad",
                "the stream tells about a decision"
            );
            actions.push((decision.attempt, decision.action));
        }
        session = guarded.into_session();
    }
    let (retry, warn) = (Action::Retry, Action::Warn);
    assert_eq!(actions, [(1, retry), (2, retry), (3, warn), (4, warn)]);
}

#[test]
fn while_it_is_guarded_the_session_is_told_what_became_of_a_decision() {
    let mut session = Pack::from_toml(PACK).unwrap().session();
    session.begin_turn();
    for (fate, attempts) in [("dropped", 1), ("delivered", 2)] {
        let reply = Reply {
            events: vec![delta(0, "bad opensesame")].into_iter(),
            is_pending: true,
            dropped: Rc::default(),
        };
        let mut guarded = reply.guarded(session);
        let mut context = Context::from_waker(Waker::noop());
        let polled = Pin::new(&mut guarded).poll_next(&mut context);
        let Poll::Ready(Some(GuardedItem::Decision(decision))) = polled else {
            panic!("{polled:?}");
        };
        // A retry that was dropped is not spent: the second of two is still one.
        assert_eq!(
            (decision.attempt, decision.action),
            (attempts, Action::Retry)
        );
        assert_eq!(guarded.session().decisions(), [decision]);
        match fate {
            "dropped" => guarded.session_mut().dropped(&decision),
            _ => guarded.session_mut().delivered(&decision),
        }
        let logged = format!("{guarded:?}");
        assert!(logged.contains("is_running: false, ready: 0"), "{logged}");
        assert!(!logged.contains("sesame"), "{logged}");
        session = guarded.into_session();
    }
}

#[test]
fn a_guarded_stream_moves_freely() {
    fn unpin<T: Unpin>() {}
    fn send<T: Send>() {}
    unpin::<Guarded<std::marker::PhantomPinned>>();
    send::<Guarded<u8>>();
}

#[test]
fn what_takes_the_whole_reply_is_decided_at_its_end_and_counts_for_the_next() {
    let rules = "schema = 1\n[pack]\nname = 't'\n\
                 [rule.unsigned]\ndescription = 'd'\non = ['text']\n\
                 match = { any = [{ literal = 'Mend' }], none = [{ literal = 'Signed' }], within = { part = true } }\n\
                 [rule.twice]\ndescription = 'd'\non = ['text']\n\
                 match = { any = [{ literal = 'Sorry' }], count = 2, per = 'session' }\n";
    let mut session = Pack::from_toml(rules)
        .unwrap_or_else(|error| panic!("{error}"))
        .session();
    for (text, want) in [
        ("Mend it. Sorry", vec!["t/unsigned"]),
        ("Mend it. Sorry. Signed", vec!["t/twice"]),
    ] {
        session.begin_turn();
        let reply = Reply {
            events: vec![delta(0, text)].into_iter(),
            is_pending: false,
            dropped: Rc::default(),
        };
        let mut guarded = reply.guarded(session);
        let mut context = Context::from_waker(Waker::noop());
        let mut told = Vec::new();
        loop {
            match Pin::new(&mut guarded).poll_next(&mut context) {
                Poll::Ready(Some(GuardedItem::Decision(decision))) => {
                    let rule = decision.hit().expect("a rule was broken").rule;
                    told.push(guarded.stream().pack().rule(rule).id.clone());
                }
                Poll::Ready(None) => break,
                _ => {}
            }
        }
        assert_eq!(told, want, "{text}");
        session = guarded.into_session();
    }
}
