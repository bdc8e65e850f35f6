//! Resuming a conversation from its file changes no decision, at any point.

use proptest::collection::vec;
use proptest::prelude::*;
use ttsr::rule::Repeat;
use ttsr::{Action, Channel, Decision, Pack, PartId, Pattern, Rule, Session, Severity};
use ttsr_agent::store::{Durability, Entry, Store, StoreOptions};

use super::disk::FaultyDisk;
use super::said;
use ttsr_testing::{Random, scale};

/// Rules with every kind of policy, over words of one letter.
fn pack() -> Pack {
    let rule = |letter: &str, action, change: fn(&mut Rule)| {
        let mut rule = Rule::new(format!("p/{letter}"), vec![Pattern::literal(letter)]);
        rule.action = action;
        change(&mut rule);
        rule
    };
    let rules = [
        rule("a", Action::Inject, |_| {}),
        rule("b", Action::Warn, |rule| {
            rule.repeat = Some(Repeat {
                per_turn: Some(1),
                per_session: Some(3),
                ..Repeat::default()
            });
        }),
        rule("c", Action::Retry, |_| {}),
        rule("d", Action::Inject, |rule| {
            rule.repeat = Some(Repeat {
                cooldown_turns: Some(2),
                ..Repeat::default()
            });
        }),
        rule("e", Action::Abort, |rule| {
            rule.severity = Severity::Critical
        }),
        rule("f", Action::Retry, |rule| rule.retry.max = 1),
        rule("g", Action::Observe, |_| {}),
    ];
    let builder = rules
        .into_iter()
        .fold(Pack::builder(), |builder, rule| builder.rule(rule));
    builder.build().unwrap()
}

#[derive(Clone, Debug)]
enum Move {
    Turn,
    /// A reply in deltas of one letter each; true if decisions are delivered.
    Reply(String, bool),
    Compacted,
    /// The process dies at a random point of a write.
    Die,
    /// The file is compacted.
    Anew,
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let one = prop_oneof![
        2 => Just(Move::Turn),
        6 => ("[a-gxy]{1,6}", any::<bool>()).prop_map(|(text, told)| Move::Reply(text, told)),
        1 => Just(Move::Compacted),
        3 => Just(Move::Die),
        1 => Just(Move::Anew),
    ];
    vec(one, 1..40)
}

/// Makes the move; returns the decisions, without values that differ between processes.
fn play(session: &mut Session, act: &Move) -> Vec<String> {
    match act {
        Move::Turn => session.begin_turn(),
        Move::Compacted => session.compacted(),
        Move::Reply(text, told) => return reply(session, text, *told),
        Move::Die | Move::Anew => {}
    }
    Vec::new()
}

fn reply(session: &mut Session, text: &str, told: bool) -> Vec<String> {
    let part = PartId(0);
    let mut stream = session.stream();
    let mut decisions: Vec<Decision> = Vec::new();
    let _ = session.open(&mut stream, part, Channel::Text);
    for letter in text.as_bytes().chunks(1) {
        let _ = session.push(&mut stream, part, letter);
        decisions.extend_from_slice(session.decisions());
    }
    let _ = session.finish(&mut stream);
    decisions.extend_from_slice(session.decisions());
    for decision in &decisions {
        match told {
            true => session.delivered(decision),
            false => session.dropped(decision),
        }
    }
    let shown = decisions.iter().map(|decision| {
        let Decision {
            action,
            source,
            attempt,
            turn,
            suppression,
            ..
        } = decision;
        format!("{action:?} {source:?} {attempt} {turn} {suppression:?}")
    });
    shown.collect()
}

fn open(disk: &FaultyDisk) -> (Store, ttsr_agent::store::ResumeState) {
    let options = StoreOptions {
        disk: Box::new(disk.clone()),
        durability: Durability::Power,
        ..StoreOptions::default()
    };
    Store::open_with("/a/talk.ttsr", options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: scale(5000) as u32, ..ProptestConfig::default() })]

    #[test]
    fn a_session_from_its_file_decides_what_it_would_have_decided(moves in moves(), seed in any::<u64>()) {
        let pack = pack();
        let mut random = Random::new(seed);
        let disk = FaultyDisk::default();
        let (mut store, _) = open(&disk);
        let (mut here, mut there) = (pack.session(), pack.session());
        let mut replies = 0;
        for act in &moves {
            match act {
                Move::Die => {
                    drop(store);
                    disk.crash(&mut random);
                    let (again, found) = open(&disk);
                    prop_assert_eq!(found.messages().len(), replies);
                    let (restored, lost) = found.session(&pack);
                    prop_assert!(lost.is_empty());
                    (store, there) = (again, restored);
                }
                Move::Anew => store.compact().unwrap(),
                act => {
                    prop_assert_eq!(play(&mut here, act), play(&mut there, act));
                    prop_assert_eq!(here.snapshot(), there.snapshot());
                    replies += 1;
                    let snapshot = Box::new(there.snapshot());
                    store.append(vec![said("x"), Entry::Snapshot { snapshot }]).unwrap();
                }
            }
        }
    }
}
