//! Snapshots and reloads: the parts of a session's state that survive.

use ttsr::rule::{Count, Per};
use ttsr::{Action, Channel, Pack, PartId, Snapshot, Verdict};

use super::policy::{pack, rule};
use super::{TEXT, attempt, shown};

fn written(session: &ttsr::session::Session) -> serde_json::Value {
    serde_json::to_value(session.snapshot()).unwrap()
}

#[test]
fn a_conversation_that_goes_on_in_another_process_remembers() {
    let pack = pack([rule("a", Action::Inject), rule("b", Action::Inject)]);
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let text = written(&session).to_string();
    let snapshot: Snapshot = serde_json::from_str(&text).unwrap();
    let (mut session, lost) = pack.restore(&snapshot);
    assert_eq!((session.turns(), lost.len()), (1, 0));
    assert_eq!(attempt(&mut session, "a b"), ["(inject a)", "inject b"]);
}

#[test]
fn the_age_of_a_cooldown_is_in_turns_and_survives() {
    let mut cooling = rule("a", Action::Inject);
    cooling.repeat = Some(ttsr::rule::Repeat {
        cooldown_turns: Some(2),
        ..ttsr::rule::Repeat::default()
    });
    let pack = pack([cooling]);
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    for want in ["(inject a)", "inject a"] {
        session = pack.restore(&session.snapshot()).0;
        session.begin_turn();
        assert_eq!(attempt(&mut session, "a"), [want]);
    }
}

#[test]
fn rules_that_are_gone_or_changed_begin_anew_and_are_named() {
    let before = pack(["a", "b", "c"].map(|id| rule(id, Action::Inject)));
    let mut session = before.session();
    assert_eq!(attempt(&mut session, "a b c").len(), 3);
    let mut changed = rule("b", Action::Inject);
    changed.message = Some("said differently".into());
    let after = pack([
        rule("a", Action::Inject),
        changed,
        rule("d", Action::Inject),
    ]);
    let named = |lost: &[ttsr::session::Lost]| {
        let named = lost.iter().map(|lost| (lost.rule.clone(), lost.is_changed));
        named.collect::<Vec<_>>()
    };
    let want = [("p/b".to_owned(), true), ("p/c".to_owned(), false)];
    let (mut restored, lost) = after.restore(&session.snapshot());
    assert_eq!(named(&lost), want);
    let lost = session.reload(after);
    assert_eq!(named(&lost), want);
    for session in [&mut restored, &mut session] {
        assert_eq!(
            attempt(session, "a b c d"),
            ["(inject a)", "inject b", "inject d"]
        );
    }
}

#[test]
fn a_snapshot_of_another_version_or_with_other_keys_is_refused() {
    let session = pack([rule("a", Action::Inject)]).session();
    let refused = |key: &str, value: serde_json::Value| {
        let mut written = written(&session);
        written[key] = value;
        let read: Result<Snapshot, _> = serde_json::from_value(written);
        read.unwrap_err().to_string()
    };
    assert_eq!(
        refused("version", 2.into()),
        "snapshot has version 2, only 1 is known"
    );
    assert!(refused("verison", 1.into()).contains("verison"));
}

#[test]
fn a_snapshot_holds_no_text_of_the_reply() {
    let mut session = pack([rule("secret", Action::Inject)]).session();
    let _ = attempt(&mut session, "the secret word: opensesame");
    assert!(!written(&session).to_string().contains("opensesame"));
}

#[test]
fn a_running_stream_keeps_its_pack_and_the_next_one_has_the_new_one() {
    let mut session = pack([rule("old", Action::Abort), rule("z", Action::Inject)]).session();
    let mut stream = session.stream();
    let _ = session.open(&mut stream, TEXT, Channel::Text);
    let _ = session.reload(pack([
        rule("new", Action::Abort),
        rule("z", Action::Inject),
    ]));
    let _ = session.push(&mut stream, TEXT, b"new z ");
    let decision = session.decisions()[0];
    assert_eq!(stream.rule(&decision).unwrap().id, "p/z");
    session.mark_delivered(&decision);
    let Verdict::Act(decision) = session.push(&mut stream, TEXT, b"old") else {
        panic!("the running stream has the old rule");
    };
    assert_eq!(stream.rule(&decision).unwrap().id, "p/old");
    session.mark_dropped(&decision);
    assert_eq!(
        attempt(&mut session, "old z new"),
        ["(inject z)", "abort new"]
    );
}

#[test]
fn a_bad_new_pack_leaves_the_old_one_live() {
    let mut session = pack([rule("a", Action::Inject)]).session();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let before = session.snapshot();
    // A file with an error gives no pack to reload with.
    match Pack::from_toml("schema = 1\n[rule.a]\nmacth = 1") {
        Ok(pack) => drop(session.reload(pack)),
        Err(error) => assert!(!error.diagnostics().is_empty()),
    }
    assert_eq!(session.snapshot(), before);
    assert_eq!(attempt(&mut session, "a"), ["(inject a)"]);
}

#[test]
fn decisions_from_many_packs_ago_change_nothing_and_never_panic() {
    let pack = pack([rule("a", Action::Inject)]);
    let mut session = pack.session();
    let mut stream = session.stream();
    let _ = session.push(&mut stream, TEXT, b"a");
    let decision = session.decisions()[0];
    for _ in 0..40 {
        let _ = session.reload(pack.clone());
    }
    session.mark_dropped(&decision);
    assert_eq!(attempt(&mut session, "a"), ["(inject a)"]);
    let _ = session.push(&mut stream, PartId(1), b"a");
    assert_eq!(shown(&session).len(), 1);
}

#[test]
fn a_decision_is_known_for_sixteen_packs() {
    let pack = pack([rule("a", Action::Inject)]);
    for (reloads, want) in [(16, "inject a"), (17, "(inject a)")] {
        let mut session = pack.session();
        assert_eq!(attempt(&mut session, "a"), ["inject a"]);
        let decision = session.decisions()[0];
        for _ in 0..reloads {
            let _ = session.reload(pack.clone());
        }
        session.mark_dropped(&decision);
        assert_eq!(attempt(&mut session, "a"), [want], "{reloads} reloads");
    }
}

#[test]
fn a_snapshot_says_its_turn() {
    let pack = pack([rule("a", Action::Inject)]);
    let mut session = pack.session();
    assert_eq!(session.snapshot().turns(), 0);
    (0..3).for_each(|_| session.begin_turn());
    assert_eq!(session.snapshot().turns(), 3);
}

#[test]
fn the_origin_of_a_reply_selects_the_rules_that_apply() {
    let mut scoped = rule("a", Action::Inject);
    scoped.agents = vec!["review*".to_owned()];
    let pack = pack([scoped, rule("b", Action::Inject)]);
    let id = |name: &str| {
        let mut rules = pack.rules().iter();
        let rule = rules.find(|rule| rule.id.ends_with(name));
        pack.find(&rule.expect("it is in the pack").id)
            .expect("it has an id")
    };
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(
        attempt(&mut session, "a b"),
        ["inject b"],
        "nobody is known"
    );
    for (agent, applies) in [("reviewer", true), ("writer", false)] {
        session.set_origin(ttsr::Origin {
            agent: Some(agent.to_owned()),
            ..ttsr::Origin::default()
        });
        assert_eq!(session.applies(id("a")), applies, "{agent}");
        assert!(session.applies(id("b")));
    }
}

#[test]
fn names_that_the_host_knows_are_known_in_every_later_stream() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\non = ['text']\nmatch.unknown-name = {}\n",
    );
    let pack = pack.unwrap_or_else(|error| panic!("{error}"));
    let decided = |session: &mut ttsr::session::Session| {
        session.begin_turn();
        let mut stream = session.stream();
        stream.open(PartId(0), Channel::Text);
        let _ = session.push(&mut stream, PartId(0), b"```rust\nuse our_crate::x;\n```\n");
        session.decisions().len()
    };
    let mut session = pack.session();
    session.add_known_names(["our_crate"]);
    assert_eq!([decided(&mut session), decided(&mut session)], [0, 0]);
    assert_eq!(decided(&mut pack.session()), 1);
}

#[test]
fn counts_continue_under_a_new_pack_that_still_has_the_rule() {
    let counting = |id: &str| {
        let mut rule = rule(id, Action::Warn);
        let per = Per::Session;
        rule.condition.count = Some(Count { times: 3, per });
        rule
    };
    let mut session = pack([counting("b")]).session();
    let reply = |session: &mut ttsr::session::Session, text: &str| {
        session.begin_turn();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, TEXT, Channel::Text);
        let _ = session.push(&mut stream, TEXT, text.as_bytes());
        let told = shown(session);
        let _ = session.finish(&mut stream);
        told
    };
    assert!(reply(&mut session, "b b").is_empty());
    // It has another index in that pack.
    assert!(
        session
            .reload(pack([counting("a"), counting("b")]))
            .is_empty()
    );
    assert_eq!(reply(&mut session, "b a a"), ["warn b"]);
    // Reloading a pack without the rule drops its counts and keeps those of the other rule.
    let _ = session.reload(pack([counting("a")]));
    let _ = session.reload(pack([counting("a"), counting("b")]));
    assert_eq!(reply(&mut session, "b b a"), ["warn a"]);
}

#[test]
fn the_same_reply_again_and_again_is_a_hit_from_the_bound_on() {
    let pack = Pack::from_toml(
        "schema = 1\n[pack]\nname = 'p'\n[rule.same]\ndescription = 'd'\non = ['text']\naction = 'abort'\n\
         match.repetition = { turns = 3 }\n",
    );
    let mut session = pack.unwrap_or_else(|error| panic!("{error}")).session();
    let same = "I have looked at the tests and they all pass now, so I will go on with the next file of the list. ";
    let other = "Here is something else altogether: the parser drops a comma, and nobody noticed because no case had one. ";
    let mut reply = |text: &str| {
        session.begin_turn();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, TEXT, Channel::Text);
        let _ = session.push(&mut stream, TEXT, text.repeat(3).as_bytes());
        let _ = session.finish(&mut stream);
        shown(&session).len()
    };
    let seen = [same, same, same, same, other, same, same, same].map(&mut reply);
    assert_eq!(seen, [0, 0, 1, 1, 0, 0, 0, 1]);
}

#[test]
fn a_stream_of_another_session_leaves_no_state_of_rules_that_this_one_does_not_have() {
    let counting = |id: &str| {
        let mut rule = rule(id, Action::Warn);
        rule.condition.count = Some(Count {
            times: 1,
            per: Per::Session,
        });
        rule
    };
    let mut session = pack([rule("a", Action::Inject)]).session();
    let mut other = pack(["a", "b", "c"].map(counting)).session();
    let mut stream = other.stream();
    let _ = other.open(&mut stream, TEXT, Channel::Text);
    let verdict = session.push(&mut stream, TEXT, b"a b c");
    assert_ne!(verdict, Verdict::Continue);
    for decision in session.decisions().to_vec() {
        session.mark_delivered(&decision);
        session.mark_dropped(&decision);
        let is_known = decision.rule().is_some_and(|rule| rule.index() == 0);
        assert_eq!(session.rule_id(&decision).is_some(), is_known);
    }
    let _ = session.finish(&mut stream);
    let _ = session.reload(pack([rule("a", Action::Inject), rule("d", Action::Inject)]));
    assert_eq!(
        attempt(&mut session, "a d"),
        ["inject a", "inject d"],
        "what the host dropped did not act"
    );
}
