//! Resuming a conversation from its file changes no decision, at any point.

use std::sync::LazyLock;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use ttsr::rule::Repeat;
use ttsr::{Action, Conversation, DecisionRecord, Flow, Pack, PartId, Pattern, Rule, Severity};
use ttsr_agent::store::{Durability, Entry, Store, StoreOptions};

use super::disk::FaultyDisk;
use super::said;
use ttsr_testing::{Random, in_parts, scale};

/// Rules with every kind of policy, over words of one letter.
fn pack() -> Pack {
    let rule = |letter: &str, action, change: fn(&mut Rule)| {
        let mut rule = Rule::new(format!("p/{letter}"), vec![Pattern::literal(letter)]);
        rule.action = action;
        rule.message = Some(format!("No {letter}."));
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
    /// A reply in deltas of one letter each; true if the reply is finished.
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
        // Without a letter, the request is prepared and no event of its reply arrives.
        6 => ("[a-gxy]{0,6}", any::<bool>()).prop_map(|(text, ends)| Move::Reply(text, ends)),
        1 => Just(Move::Compacted),
        3 => Just(Move::Die),
        1 => Just(Move::Anew),
    ];
    vec(one, 1..40)
}

/// Makes the move; returns the decisions and the guidance that waits after it.
fn play(conversation: &mut Conversation, act: &Move) -> (Vec<DecisionRecord>, Vec<String>) {
    let mut decisions = Vec::new();
    match act {
        Move::Turn => {
            let _ = conversation.begin_turn("Go on.");
        }
        Move::Compacted => conversation.compacted(),
        Move::Reply(text, ends) => decisions = reply(conversation, text, *ends),
        Move::Die | Move::Anew => {}
    }
    let waiting = conversation.guidance().map(|note| note.text);
    (decisions, waiting.collect())
}

fn reply(conversation: &mut Conversation, text: &str, ends: bool) -> Vec<DecisionRecord> {
    let part = PartId(0);
    if conversation.turns() == 0 {
        let _ = conversation.begin_turn("Go.");
    }
    conversation.reopen_turn();
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    for letter in text.as_bytes().chunks(1) {
        let _ = conversation.push(part, letter);
    }
    if ends {
        let _ = conversation.finish();
    }
    conversation.decisions().to_vec()
}

fn open(disk: &FaultyDisk) -> (Store, ttsr_agent::store::ResumeState) {
    let options = StoreOptions {
        disk: Box::new(disk.clone()),
        durability: Durability::Power,
        ..StoreOptions::default()
    };
    Store::open_with("/a/talk.ttsr", options).unwrap()
}

#[test]
fn a_session_from_its_file_decides_what_it_would_have_decided() {
    in_parts(scale(2000), |cases| {
        let config = Config {
            cases: cases.len() as u32,
            failure_persistence: None,
            ..Config::default()
        };
        let found = TestRunner::new(config).run(&(moves(), any::<u64>()), |(moves, seed)| {
            compare_with_restored(&moves, seed)
        });
        if let Err(error) = found {
            panic!("{error}");
        }
    });
}

/// Makes the moves in a conversation that goes on and in one that is restored from its file after each death.
fn compare_with_restored(moves: &[Move], seed: u64) -> Result<(), TestCaseError> {
    static PACK: LazyLock<Pack> = LazyLock::new(pack);
    let pack = &*PACK;
    let mut random = Random::new(seed);
    let disk = FaultyDisk::default();
    let (mut store, _) = open(&disk);
    let (mut here, mut there) = (Conversation::new(pack), Conversation::new(pack));
    let mut replies = 0;
    for act in moves {
        match act {
            Move::Die => {
                drop(store);
                disk.crash(&mut random);
                let (again, found) = open(&disk);
                prop_assert_eq!(found.messages().len(), replies);
                let (restored, lost) = found.conversation(pack);
                prop_assert!(lost.is_empty());
                (store, there) = (again, restored);
            }
            Move::Anew => store.compact().unwrap(),
            act => {
                prop_assert_eq!(play(&mut here, act), play(&mut there, act));
                prop_assert_eq!(here.snapshot(), there.snapshot());
                replies += 1;
                let snapshot = Box::new(there.snapshot());
                store
                    .append(vec![said("x"), Entry::Snapshot { snapshot }])
                    .unwrap();
            }
        }
    }
    Ok(())
}
