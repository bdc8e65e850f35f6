//! The guarantees for hosts: sizes, threads, and the policy that turns hits into decisions.

mod any_host;
mod host;
mod policy;
mod schedule;
mod state;

use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use ttsr::limits::OnLimit;
use ttsr::session::Session;
use ttsr::stream::Counters;
use ttsr::{Action, Channel, Decision, Hit, Limits, Pack, PartId, Source, Stream, Verdict};

const TEXT: PartId = PartId(0);

/// Returns a pack of rules `id = (key = value …, literal)`.
fn pack(rules: &[(&str, &str, &str)]) -> Pack {
    let mut text = String::from("schema = 1\n[pack]\nname = \"p\"\n");
    for (id, keys, literal) in rules {
        text.push_str(&format!(
            "[rule.{id}]\ndescription = \"{id}\"\n{keys}\nmatch.any = [{{ literal = '{literal}' }}]\n\
             examples.match = ['{literal}']\n"
        ));
    }
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"))
}

/// Pushes a text as a new attempt. Returns the decisions as `action rule`, in brackets if they are suppressed.
fn attempt(session: &mut Session, text: &str) -> Vec<String> {
    let mut stream = session.stream();
    stream.open(TEXT, Channel::Text);
    let _ = session.push(&mut stream, TEXT, text.as_bytes());
    shown(session)
}

fn shown(session: &Session) -> Vec<String> {
    let show = |decision: &Decision| {
        let rule = decision
            .rule()
            .map_or("limit", |rule| &session.pack().rule(rule).id);
        let shown = format!(
            "{} {}",
            decision.action.name(),
            rule.trim_start_matches("p/")
        );
        if decision.is_suppressed() {
            format!("({shown})")
        } else {
            shown
        }
    };
    session.decisions().iter().map(show).collect()
}

#[test]
fn hot_types_stay_small_and_plain() {
    fn copies<T: Copy + Send + Sync + 'static>() {}
    copies::<Hit>();
    copies::<Decision>();
    copies::<Verdict>();
    copies::<Counters>();
    assert_eq!(size_of::<Hit>(), 24);
    assert_eq!(size_of::<Decision>(), 48);
    assert_eq!(size_of::<Verdict>(), 48);
    if cfg!(target_pointer_width = "64") {
        assert_eq!(Stream::STATE_BYTES, 40);
        // One cache line.
        assert_eq!(size_of::<Stream>(), 64);
    }
}

#[test]
fn packs_streams_and_sessions_cross_threads_and_unwinds() {
    fn crosses<T: Send + Sync + UnwindSafe + RefUnwindSafe>() {}
    crosses::<Pack>();
    crosses::<Stream>();
    crosses::<Session>();
    crosses::<Limits>();
    crosses::<ttsr::LoadError>();
}

#[test]
fn guidance_is_given_once_a_session_and_again_when_it_left_the_context() {
    let pack = pack(&[("a", "severity = \"warning\"", "bad")]);
    let mut session = pack.session();
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
    assert_eq!(attempt(&mut session, "bad"), ["(inject a)"]);
    session.begin_turn();
    assert_eq!(
        attempt(&mut session, "bad"),
        ["(inject a)"],
        "a turn does not re-arm"
    );
    session.compacted();
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
}

#[test]
fn guidance_that_waits_for_the_next_request_is_not_given_twice() {
    let pack = pack(&[("a", "severity = \"warning\"", "bad")]);
    let mut session = pack.session();
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
    let decision = session.decisions()[0];
    session.compacted();
    assert_eq!(
        attempt(&mut session, "bad"),
        ["(inject a)"],
        "it is reserved"
    );
    session.mark_delivered(&decision);
    session.compacted();
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
}

#[test]
fn a_decision_that_the_host_dropped_was_not_made() {
    let pack = pack(&[("a", "severity = \"warning\"", "bad")]);
    let mut session = pack.session();
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
    let decision = session.decisions()[0];
    session.mark_dropped(&decision);
    assert_eq!(attempt(&mut session, "bad"), ["inject a"]);
}

#[test]
fn a_guard_acts_every_time_however_it_acts() {
    let pack = pack(&[
        ("a", "severity = \"critical\"", "bad"),
        ("b", "severity = \"critical\"\naction = \"inject\"", "odd"),
    ]);
    let mut session = pack.session();
    for _ in 0..5 {
        assert_eq!(attempt(&mut session, "odd bad"), ["inject b", "abort a"]);
    }
}

#[test]
fn a_rule_retries_twice_a_turn_and_then_lets_the_reply_through_with_a_warning() {
    let pack = pack(&[("a", "severity = \"error\"", "bad")]);
    let mut session = pack.session();
    for _ in 0..2 {
        session.begin_turn();
        assert_eq!(attempt(&mut session, "bad"), ["retry a"]);
        assert_eq!(attempt(&mut session, "bad"), ["retry a"]);
        assert_eq!(attempt(&mut session, "bad"), ["warn a"]);
        assert_eq!(attempt(&mut session, "bad"), ["warn a"]);
    }
}

#[test]
fn a_critical_rule_that_may_not_retry_any_more_aborts() {
    let pack = pack(&[("a", "severity = \"critical\"\naction = \"retry\"", "bad")]);
    let mut session = pack.session();
    let seen: Vec<_> = (0..4).flat_map(|_| attempt(&mut session, "bad")).collect();
    assert_eq!(seen, ["retry a", "retry a", "abort a", "abort a"]);
}

#[test]
fn rules_that_take_turns_share_the_backstop_of_three_retries() {
    let pack = pack(&[
        ("a", "severity = \"error\"", "bad"),
        ("b", "severity = \"error\"", "odd"),
    ]);
    let mut session = pack.session();
    let seen: Vec<_> = ["bad", "odd", "bad", "odd", "bad"]
        .iter()
        .flat_map(|text| attempt(&mut session, text))
        .collect();
    assert_eq!(seen, ["retry a", "retry b", "retry a", "warn b", "warn a"]);
}

#[test]
fn at_one_byte_the_stronger_action_wins_then_priority_then_severity_then_the_id() {
    let rules = [
        ("d", "action = \"warn\"", "bad"),
        ("c", "action = \"warn\"\npriority = 5", "bad"),
        ("b", "severity = \"error\"\naction = \"warn\"", "bad"),
        ("a", "action = \"abort\"", "bad"),
        ("e", "action = \"warn\"", "bad"),
    ];
    let want = ["abort a", "(warn c)", "(warn b)", "(warn d)", "(warn e)"];
    let mut order: Vec<usize> = (0..rules.len()).collect();
    for turn in 0..120 {
        // Every order of loading, one after the other.
        order.rotate_left(1 + turn % 4);
        order.swap(turn % 5, (turn / 5) % 5);
        let shuffled: Vec<_> = order.iter().map(|&index| rules[index]).collect();
        assert_eq!(attempt(&mut pack(&shuffled).session(), "so bad"), want);
    }
}

#[test]
fn the_match_that_is_certain_first_is_decided_first_whatever_its_action() {
    let pack = pack(&[
        ("a", "action = \"abort\"", "bad"),
        ("o", "action = \"observe\"", "odd"),
    ]);
    assert_eq!(
        attempt(&mut pack.session(), "odd bad"),
        ["observe o", "abort a"]
    );
    assert_eq!(
        attempt(&mut pack.session(), "bad odd"),
        ["abort a", "(observe o)"]
    );
}

#[test]
fn after_the_cut_nothing_is_decided_again_and_bytes_are_counted() {
    let pack = pack(&[("a", "severity = \"critical\"", "bad")]);
    let mut session = pack.session();
    let mut stream = session.stream();
    stream.open(TEXT, Channel::Text);
    assert!(matches!(
        session.push(&mut stream, TEXT, b"bad"),
        Verdict::Act(_)
    ));
    assert_eq!(
        session.push(&mut stream, TEXT, b" bad again"),
        Verdict::Continue
    );
    assert_eq!(
        session.push(&mut stream, PartId(1), b"bad"),
        Verdict::Continue
    );
    assert_eq!(session.close(&mut stream, TEXT), Verdict::Continue);
    assert_eq!(stream.counters().unscanned_bytes, 13);
}

#[test]
fn opening_a_part_does_not_decide_the_last_hits_again() {
    let pack = pack(&[("a", "severity = \"warning\"", "bad")]);
    let mut session = pack.session();
    let mut stream = session.stream();
    let _ = session.push(&mut stream, TEXT, b"bad");
    assert_eq!(shown(&session), ["inject a"]);
    assert_eq!(
        session.open(&mut stream, PartId(1), Channel::Text),
        Verdict::Continue
    );
    assert!(session.decisions().is_empty());
}

#[test]
fn a_limit_cuts_and_says_which_one_it_was() {
    let limits = Limits {
        parts: 2,
        ..Limits::default()
    };
    let rule = "schema = 1\n[pack]\nname = \"p\"\n[rule.a]\ndescription = \"a\"\n\
                match.any = [{ literal = 'bad' }]\nexamples.match = ['bad']";
    let build = |limits| {
        Pack::builder()
            .toml("p.toml", rule)
            .limits(limits)
            .build()
            .unwrap()
    };
    let pack = build(limits.clone());
    let mut session = pack.session();
    let mut stream = session.stream();
    for part in 0..2 {
        assert_eq!(
            session.open(&mut stream, PartId(part), Channel::Text),
            Verdict::Continue
        );
    }
    let Verdict::Act(decision) = session.open(&mut stream, PartId(7), Channel::Text) else {
        panic!("the limit is reached");
    };
    assert_eq!(decision.action, Action::Abort);
    assert_eq!(
        decision.source,
        Source::Limit {
            name: "parts",
            part: PartId(7),
            decided: 0
        }
    );

    // A delta of a part that was never opened opens it.
    let mut session = pack.session();
    let mut stream = session.stream();
    for part in 0..2 {
        let verdict = session.push(&mut stream, PartId(part), b"fine");
        assert_eq!(verdict, Verdict::Continue);
    }
    let Verdict::Act(decision) = session.push(&mut stream, PartId(7), b"fine") else {
        panic!("the limit is reached");
    };
    assert_eq!(
        (decision.action, decision.part()),
        (Action::Abort, PartId(7))
    );
    assert_eq!(
        session.push(&mut stream, PartId(0), b"bad"),
        Verdict::Continue,
        "it was cut"
    );

    let names = [OnLimit::Abort, OnLimit::Continue].map(OnLimit::name);
    assert_eq!(names, ["abort", "continue"]);
    let goes_on = Limits {
        on_limit: OnLimit::Continue,
        ..limits
    };
    let mut session = build(goes_on).session();
    let mut stream = session.stream();
    for part in 0..3 {
        assert_eq!(
            session.push(&mut stream, PartId(part), b"fine"),
            Verdict::Continue
        );
    }
    assert_eq!(stream.counters().unscanned_bytes, 4);
}

#[test]
fn no_rule_on_a_channel_means_the_host_need_not_push() {
    let pack = pack(&[(
        "a",
        "on = [\"tool-input\"]\ntools = [\"Bash\", \"mcp__*\"]",
        "bad",
    )]);
    assert!(!pack.wants(Channel::Text, None));
    assert!(!pack.wants(Channel::Reasoning, None));
    assert!(pack.wants(Channel::ToolInput, None));
    assert!(pack.wants(Channel::ToolInput, Some("bash")));
    assert!(pack.wants(Channel::ToolInput, Some("mcp__x__y")));
    assert!(!pack.wants(Channel::ToolInput, Some("edit")));
    let mut stream = pack.stream();
    stream.open(TEXT, Channel::Text);
    assert!(stream.push(TEXT, b"bad").is_empty());
    assert_eq!(
        stream.counters(),
        Counters::default(),
        "bytes that no rule reads are not unscanned"
    );
}

#[test]
fn without_a_holding_rule_every_delivered_byte_is_releasable_even_inside_a_match() {
    let pack = pack(&[("a", "severity = \"warning\"", "bad")]);
    let mut stream = pack.stream();
    assert_eq!(stream.releasable(TEXT), 0, "of a part that is not there");
    for (delta, want) in [("so b", 4), ("", 4), ("a", 5), ("d\u{e9}", 8)] {
        let _ = stream.push(TEXT, delta.as_bytes());
        assert_eq!(stream.releasable(TEXT), want, "after {delta:?}");
    }
}

#[test]
fn an_excerpt_shows_the_match_and_a_message_what_it_says() {
    let text = "schema = 1\n[pack]\nname = \"p\"\n[rule.a]\ndescription = \"a\"\n\
                match.any = [{ regex = 'sec\\w+' }]\nexamples.match = ['secret']\n\
                message = 'found {{ match.text }} in {{ path }}, {{ arg }} of {{ tool }}'\n\
                paths = ['*.rs']";
    let pack = Pack::from_toml(text).unwrap();
    let mut session = pack.session();
    let mut stream = session.stream();
    stream.open(TEXT, Channel::ToolInput);
    let _ = session.set_tool(&mut stream, TEXT, "write", "c1");
    let input = br#"{"content":"a \u0073ecret\nthing","path":"src\/a.rs"}"#;
    let Verdict::Act(decision) = session.push(&mut stream, TEXT, input) else {
        panic!("the rule is broken");
    };
    let hit = decision.hit().unwrap();
    assert_eq!((hit.end, hit.decided), (23, 52));
    assert_eq!(stream.excerpt(&hit), "a secr");
    assert_eq!(stream.matched(&hit), "secr");
    assert_eq!(stream.arg(&hit), Some("content"));
    assert_eq!(
        stream.message(&decision),
        "found secr in src/a.rs, content of write"
    );
}

#[test]
fn time_and_tokens_that_the_host_tells_are_judged_like_text() {
    let bounded = |limit: &str| {
        let text = format!(
            "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\non = ['text']\naction = 'abort'\n\
             match.limit = {{ {limit} }}\n"
        );
        Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"))
    };
    let open = |session: &mut Session| {
        session.begin_turn();
        let mut stream = session.stream();
        let _ = session.open(&mut stream, TEXT, Channel::Text);
        assert_eq!(session.push(&mut stream, TEXT, b"Hm."), Verdict::Continue);
        stream
    };
    let mut session = bounded("tokens = 10").session();
    let mut stream = open(&mut session);
    let verdicts = [10, 11].map(|tokens| session.count_tokens(&mut stream, TEXT, tokens));
    assert_eq!(verdicts[0], Verdict::Continue);
    assert!(matches!(verdicts[1], Verdict::Act(it) if it.action == Action::Abort));
    let _ = session.push(&mut stream, TEXT, b"more");
    assert_eq!(stream.counters().unscanned_bytes, 4);

    let mut session = bounded("seconds = 2").session();
    let mut stream = open(&mut session);
    let verdicts =
        [2000, 2001].map(|millis| session.tick(&mut stream, Duration::from_millis(millis)));
    assert_eq!(verdicts[0], Verdict::Continue);
    assert!(matches!(verdicts[1], Verdict::Act(it) if it.action == Action::Abort));
    // After the cut no time passes.
    assert_eq!(
        session.tick(&mut stream, Duration::from_secs(9)),
        Verdict::Continue
    );
}

/// The host counts the tokens of a whole call, not of the arguments that a rule names.
#[test]
fn tokens_that_the_host_counts_are_not_those_of_an_argument() {
    for (args, hits) in [("", 1), ("args = ['content']", 0)] {
        let text = format!(
            "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\non = ['tool-input']\n{args}\n\
             match.limit = {{ tokens = 2 }}\n"
        );
        let mut stream = Pack::from_toml(&text).unwrap().stream();
        stream.open(TEXT, Channel::ToolInput);
        let input = br#"{"path":"a","content":"b"#;
        assert_eq!(stream.push(TEXT, input).len(), 0, "{args}");
        assert_eq!(stream.count_tokens(TEXT, 9).len(), hits, "{args}");
        let more = stream.push(TEXT, b" c d e\"}");
        assert_eq!(more.len(), 1 - hits, "{args}");
    }
}

#[test]
fn a_consultation_is_asked_what_its_prompt_says_of_the_call() {
    let rules = [
        (
            "ask",
            "on = ['tool-input']\naction = 'consult'\nconsult.prompt = 'May {{ tool }} run `{{ match.text }}`?'",
            "rm -rf",
        ),
        ("note", "on = ['tool-input']\naction = 'warn'", "ls"),
    ];
    let mut session = pack(&rules).session();
    session.begin_turn();
    let mut stream = session.stream();
    let _ = session.open(&mut stream, TEXT, Channel::ToolInput);
    let _ = session.set_tool(&mut stream, TEXT, "bash", "call");
    let _ = session.push(&mut stream, TEXT, br#"{"command":"ls; rm -rf x"}"#);
    let prompts = session
        .decisions()
        .iter()
        .map(|it| stream.consult_prompt(it));
    let prompts: Vec<Option<String>> = prompts.collect();
    assert_eq!(shown(&session), ["warn note", "consult ask"]);
    assert_eq!(prompts, [None, Some("May bash run `rm -rf`?".to_owned())]);
}

#[test]
fn the_log_of_a_stream_has_no_text_of_it() {
    let mut session = pack(&[("a", "", "opensesame")]).session();
    let mut stream = session.stream();
    let _ = session.open(&mut stream, TEXT, Channel::Text);
    let _ = session.push(&mut stream, TEXT, b"the word is opensesame");
    assert_eq!(session.decisions().len(), 1);
    let logged = format!("{stream:?}");
    assert!(
        logged.starts_with("Stream { parts: 1, attempt: 1, "),
        "{logged}"
    );
    assert!(!logged.contains("sesame"), "{logged}");
    let logged = format!("{:?}", session.pack());
    assert_eq!(
        logged,
        "Pack { rules: 1, allows: 0, warnings: 0, root: None, home: None, .. }"
    );
}
