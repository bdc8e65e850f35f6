//! Repeats, retries, allowances, shadow and scopes, case by case.

use ttsr::rule::{Allowance, Repeat, Retry};
use ttsr::{
    Action, Channel, Limits, Mode, Origin, Pack, Partial, Pattern, Rule, Severity, Source,
    Suppression, Verdict,
};

use super::{TEXT, attempt};

/// A rule on the text `id`.
pub(crate) fn rule(id: &str, action: Action) -> Rule {
    let mut rule = Rule::new(format!("p/{id}"), vec![Pattern::literal(id)]);
    rule.action = action;
    rule
}

pub(crate) fn pack<const N: usize>(rules: [Rule; N]) -> Pack {
    let add = |builder: ttsr::PackBuilder, rule| builder.rule(rule);
    rules
        .into_iter()
        .fold(Pack::builder(), add)
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

fn repeating(repeat: Repeat) -> Pack {
    let mut rule = rule("a", Action::Inject);
    rule.repeat = Some(repeat);
    pack([rule])
}

fn retrying(severity: Severity, retry: Retry) -> Pack {
    let mut rule = rule("a", Action::Retry);
    (rule.severity, rule.retry) = (severity, retry);
    pack([rule])
}

/// In the steps, `|` begins a turn, `c` compacts, and a reply breaks the rule at `+`, where guidance is given, and at
/// `-`, where it is suppressed.
#[test]
fn guidance_is_repeated_as_far_as_its_bounds_allow() {
    let none = Repeat::default();
    let cooldown = Repeat {
        cooldown_turns: Some(2),
        ..none
    };
    let per_turn = Repeat {
        per_turn: Some(1),
        ..none
    };
    let per_session = Repeat {
        per_session: Some(2),
        ..none
    };
    for (repeat, steps, why) in [
        (cooldown, "|+|-|+|-|+", "it counts the turns that began"),
        (per_turn, "|+-|+-|+-", "it binds in each turn anew"),
        (per_session, "|+|+|-c|+|+|-c", "it counts from a compaction"),
        (none, "++++", "nothing binds"),
    ] {
        let mut session = repeating(repeat).session();
        for step in steps.chars() {
            match step {
                '|' => session.begin_turn(),
                'c' => session.compacted(),
                '+' => assert_eq!(attempt(&mut session, "a"), ["inject a"], "{why}"),
                _ => assert_eq!(attempt(&mut session, "a"), ["(inject a)"], "{why}"),
            }
        }
    }
}

#[test]
fn a_fate_that_is_told_twice_counts_as_told_last() {
    let pack = repeating(Repeat {
        per_session: Some(2),
        ..Repeat::default()
    });
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let decision = session.decisions()[0];
    session.mark_delivered(&decision);
    session.mark_delivered(&decision);
    session.mark_dropped(&decision);
    for want in ["inject a", "inject a", "(inject a)"] {
        assert_eq!(attempt(&mut session, "a"), [want]);
    }
}

#[test]
fn guidance_dropped_a_turn_later_was_not_delivered_and_a_reservation_stays() {
    let pack = repeating(Repeat {
        per_session: Some(2),
        ..Repeat::default()
    });
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let first = session.decisions()[0];
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    session.mark_dropped(&first);
    session.compacted();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    assert_eq!(attempt(&mut session, "a"), ["(inject a)"]);
}

#[test]
fn a_cooldown_ends_when_what_it_counts_from_is_dropped_or_left_the_context() {
    let pack = repeating(Repeat {
        cooldown_turns: Some(2),
        ..Repeat::default()
    });
    let mut session = pack.session();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let first = session.decisions()[0];
    session.compacted();
    assert_eq!(attempt(&mut session, "a"), ["(inject a)"], "it is to come");
    session.mark_delivered(&first);
    assert_eq!(attempt(&mut session, "a"), ["(inject a)"], "it is there");
    session.compacted();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let second = session.decisions()[0];
    session.mark_dropped(&first);
    session.mark_dropped(&second);
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    let third = session.decisions()[0];
    session.begin_turn();
    session.begin_turn();
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
    session.mark_dropped(&third);
    session.begin_turn();
    assert_eq!(
        attempt(&mut session, "a"),
        ["(inject a)"],
        "the last counts"
    );
}

#[test]
fn a_critical_rule_is_bound_by_what_it_says_and_by_nothing_else() {
    let mut bound = rule("a", Action::Warn);
    bound.severity = Severity::Critical;
    bound.repeat = Some(Repeat {
        per_session: Some(1),
        ..Repeat::default()
    });
    let mut free = rule("b", Action::Warn);
    free.severity = Severity::Critical;
    let mut session = pack([bound, free]).session();
    assert_eq!(attempt(&mut session, "a b"), ["warn a", "warn b"]);
    assert_eq!(attempt(&mut session, "a b"), ["(warn a)", "warn b"]);
}

#[test]
fn after_compaction_guidance_is_repeated_and_a_warning_is_not() {
    let mut session = pack([rule("a", Action::Warn), rule("b", Action::Inject)]).session();
    assert_eq!(attempt(&mut session, "a b"), ["warn a", "inject b"]);
    session.begin_turn();
    session.compacted();
    assert_eq!(attempt(&mut session, "a b"), ["(warn a)", "inject b"]);
}

#[test]
fn max_retries_of_zero_means_none_and_of_one_means_one() {
    for (max, want) in [
        (0, ["warn a", "warn a", "warn a"]),
        (1, ["retry a", "warn a", "warn a"]),
        (2, ["retry a", "retry a", "warn a"]),
    ] {
        let retry = Retry {
            max,
            ..Retry::default()
        };
        let mut session = retrying(Severity::Error, retry).session();
        session.begin_turn();
        let seen: Vec<_> = (0..3).flat_map(|_| attempt(&mut session, "a")).collect();
        assert_eq!(seen, want, "max = {max}");
    }
}

#[test]
fn after_its_retries_a_rule_does_what_it_says_and_never_retries() {
    for (severity, then, want) in [
        (Severity::Error, None, "warn a"),
        (Severity::Error, Some(Action::Abort), "abort a"),
        (Severity::Error, Some(Action::Inject), "inject a"),
        (Severity::Critical, None, "abort a"),
    ] {
        let retry = Retry {
            max: 0,
            then,
            ..Retry::default()
        };
        let mut session = retrying(severity, retry).session();
        assert_eq!(attempt(&mut session, "a"), [want], "{severity:?}, {then:?}");
    }
}

#[test]
fn the_backstop_is_a_limit_that_a_host_sets() {
    for turn_retries in [0, 1, 5] {
        let limits = Limits {
            turn_retries,
            ..Limits::default()
        };
        let mut endless = [rule("a", Action::Retry), rule("b", Action::Retry)];
        endless.iter_mut().for_each(|rule| rule.retry.max = 100);
        let [a, b] = endless;
        let pack = Pack::builder().rule(a).rule(b).limits(limits).build();
        let mut session = pack.unwrap().session();
        for _ in 0..2 {
            session.begin_turn();
            let texts = ["a", "b"].iter().cycle().take(8);
            let seen: Vec<_> = texts.flat_map(|text| attempt(&mut session, text)).collect();
            let retries = seen.iter().filter(|act| act.starts_with("retry"));
            assert_eq!(retries.count(), turn_retries as usize, "{seen:?}");
        }
    }
}

#[test]
fn a_decision_leads_to_the_model_and_the_temperature_to_take() {
    let mut asks = rule("a", Action::Retry);
    asks.retry.model = Some("fallback".into());
    asks.retry.temperature = Some(300);
    asks.partial = Partial::KeepBeforeMatch;
    let mut session = pack([asks]).session();
    let mut stream = session.stream();
    let Verdict::Act(decision) = session.push(&mut stream, TEXT, b"so a") else {
        panic!("the rule is broken");
    };
    let rule = stream.rule(&decision).unwrap();
    assert_eq!(rule.retry.model.as_deref(), Some("fallback"));
    assert_eq!(rule.retry.temperature, Some(300));
    assert_eq!(rule.partial, Partial::KeepBeforeMatch);
}

#[test]
fn a_rule_that_spent_its_allowance_is_silent_and_the_others_are_not() {
    let mut noisy = rule("a", Action::Abort);
    noisy.allowance = Allowance {
        per_turn: Some(1),
        per_session: Some(2),
    };
    let mut session = pack([noisy, rule("b", Action::Abort)]).session();
    for turn in 0..4 {
        session.begin_turn();
        let first = attempt(&mut session, "a b");
        let want = if turn < 2 { "abort a" } else { "(abort a)" };
        assert_eq!(first[0], want, "turn {turn}");
        session.compacted();
        assert_eq!(attempt(&mut session, "a b"), ["(abort a)", "abort b"]);
        assert_eq!(
            session.decisions()[0].suppression,
            Some(Suppression::Allowance)
        );
    }
}

#[test]
fn a_shadow_rule_says_what_it_would_do_and_changes_nothing() {
    let mut shadow = rule("a", Action::Abort);
    shadow.mode = Mode::Shadow;
    let mut session = pack([shadow, rule("b", Action::Warn)]).session();
    assert_eq!(attempt(&mut session, "a b"), ["(abort a)", "warn b"]);
    let decision = session.decisions()[0];
    assert_eq!(decision.suppression, Some(Suppression::Shadow));
    let all = [
        Suppression::Cut,
        Suppression::Shadow,
        Suppression::Repeat,
        Suppression::Allowance,
    ];
    assert_eq!(
        all.map(Suppression::name),
        ["cut", "shadow", "repeat", "allowance"]
    );
}

#[test]
fn verdicts_and_sources_have_the_names_that_are_serialized() {
    fn names(value: &impl serde::Serialize) -> Vec<String> {
        match serde_json::to_value(value).expect("no key is not a text") {
            serde_json::Value::String(name) => vec![name],
            serde_json::Value::Object(fields) => fields.into_iter().map(|it| it.0).collect(),
            other => panic!("{other}"),
        }
    }
    let mut session = pack([rule("a", Action::Abort)]).session();
    let mut stream = session.stream();
    let verdicts = ["-", "a"].map(|delta| session.push(&mut stream, TEXT, delta.as_bytes()));
    assert_eq!(verdicts.map(Verdict::name), ["continue", "act"]);
    assert!(verdicts.iter().all(|it| names(it) == [it.name()]));
    let limit = Source::Limit {
        name: "parts",
        part: TEXT,
        decided: 3,
    };
    let sources = [session.decisions()[0].source, limit];
    assert_eq!(sources.map(Source::name), ["rule", "limit"]);
    assert!(sources.iter().all(|it| names(it) == [it.name()]));
}

#[test]
fn a_session_in_shadow_leaves_no_trace_when_it_goes_live() {
    let mut session = pack([rule("a", Action::Inject), rule("b", Action::Retry)]).session();
    session.set_mode(Mode::Shadow);
    assert_eq!((session.mode(), session.turns()), (Mode::Shadow, 0));
    session.begin_turn();
    session.begin_turn();
    assert_eq!(session.turns(), 2);
    for _ in 0..4 {
        assert!(
            session
                .decisions()
                .iter()
                .all(ttsr::Decision::is_suppressed)
        );
        let _ = attempt(&mut session, "a b");
    }
    session.set_mode(Mode::Live);
    assert_eq!(attempt(&mut session, "a b"), ["inject a", "retry b"]);
}

#[test]
fn the_next_stream_knows_whose_reply_it_is() {
    let mut agent = rule("a", Action::Abort);
    agent.agents = vec!["build*".into()];
    let mut provider = rule("b", Action::Abort);
    (provider.providers, provider.severity) = (vec!["acme".into()], Severity::Critical);
    let mut session = pack([agent, provider]).session();
    let origin = |agent: &str, provider: &str| Origin {
        agent: Some(agent.into()),
        provider: Some(provider.into()),
        ..Origin::default()
    };
    // Nobody said: the critical rule applies all the same.
    assert_eq!(attempt(&mut session, "a b"), ["abort b"]);
    session.set_origin(origin("Builder", "other"));
    assert_eq!(attempt(&mut session, "a b"), ["abort a"]);
    session.set_origin(origin("plan", "ACME"));
    assert_eq!(attempt(&mut session, "a b"), ["abort b"]);

    let mut stream = session.stream();
    session.set_origin(origin("build", "other"));
    assert_eq!(session.origin(), &origin("build", "other"));
    let _ = session.push(&mut stream, TEXT, b"a");
    assert!(
        session.decisions().is_empty(),
        "it began under another agent"
    );
}

#[test]
fn a_rule_out_of_scope_is_neither_decided_nor_counted() {
    let mut scoped = rule("a", Action::Inject);
    scoped.models = vec!["small".into()];
    let mut session = pack([scoped]).session();
    let model = |name: &str| Origin {
        model: Some(name.into()),
        ..Origin::default()
    };
    session.set_origin(model("large"));
    assert_eq!(attempt(&mut session, "a"), [""; 0]);
    session.set_origin(model("small"));
    assert_eq!(attempt(&mut session, "a"), ["inject a"]);
}

#[test]
fn a_whole_text_is_judged_in_one_call() {
    let whole = |id: &str, on, action| {
        let mut rule = rule(id, action);
        (rule.on, rule.message) = (vec![on], Some(format!("about {id}")));
        rule
    };
    let mut tool = whole("t", Channel::ToolOutput, Action::Append);
    tool.on = vec![Channel::ToolOutput];
    tool.tools = vec!["bash".into()];
    let mut session = pack([
        tool,
        whole("e", Channel::Error, Action::Fallback),
        whole("r", Channel::Error, Action::Retry),
        whole("u", Channel::UserInput, Action::Retry),
    ])
    .session();
    session.begin_turn();
    let mut check = |channel, tool, text: &str| {
        let checked = session.check(channel, tool, text.as_bytes());
        let decisions = checked.decisions().iter();
        let shown = decisions.map(|decision| {
            assert_eq!((decision.attempt, decision.turn), (0, 1));
            let message = checked.stream().message(decision);
            format!("{}: {message}", decision.action.name())
        });
        shown.collect::<Vec<_>>()
    };
    for _ in 0..2 {
        let found = check(Channel::ToolOutput, Some("Bash"), "t");
        assert_eq!(found, ["append: about t"], "each text anew");
    }
    assert_eq!(check(Channel::ToolOutput, Some("read"), "t"), [""; 0]);
    assert_eq!(check(Channel::ToolOutput, None, "t"), [""; 0]);
    assert_eq!(check(Channel::Error, None, "e"), ["fallback: about e"]);
    assert_eq!(check(Channel::Error, None, "r"), ["retry: about r"]);
    let found = check(Channel::UserInput, None, "u");
    assert_eq!(
        found,
        ["warn: about u"],
        "there is nothing to generate again"
    );
}

/// The ways to read a text apply the same scope of tools, and `wants` says no where none of them hits.
#[test]
fn a_scope_of_tools_is_the_same_in_push_and_in_check() {
    let scopes: [&[&str]; 6] = [
        &[],
        &["bash"],
        &["!bash"],
        &["*", "!bash"],
        &["!b*", "bash"],
        &["!*"],
    ];
    let tools = [None, Some("bash"), Some("BASH"), Some("read")];
    let mut hits = 0;
    for (scope, severity) in scopes
        .into_iter()
        .flat_map(|scope| [(scope, Severity::Warning), (scope, Severity::Critical)])
    {
        let mut scoped = rule("t", Action::Observe);
        scoped.on = Channel::ALL.to_vec();
        scoped.tools = scope.iter().map(|&glob| glob.to_owned()).collect();
        scoped.severity = severity;
        let pack = pack([scoped]);
        for (channel, tool) in Channel::ALL
            .into_iter()
            .flat_map(|channel| tools.map(|tool| (channel, tool)))
        {
            let mut session = pack.session();
            let checked = session.check(channel, tool, b"a t");
            let checked = checked.decisions().len();
            let mut stream = session.stream();
            let mut pushed = 0;
            let _ = session.open(&mut stream, TEXT, channel);
            if let Some(tool) = tool {
                let _ = session.set_tool(&mut stream, TEXT, tool, "");
            }
            let _ = session.push(&mut stream, TEXT, b"a t");
            pushed += session.decisions().len();
            let _ = session.close(&mut stream, TEXT);
            pushed += session.decisions().len();
            let case = format!("{scope:?} {severity:?} {channel:?} {tool:?}");
            assert_eq!(pushed, checked, "{case}");
            assert_eq!(
                pack.wants(channel, tool),
                checked > 0 || tool.is_none(),
                "{case}"
            );
            let has_tool = matches!(channel, Channel::ToolInput | Channel::ToolOutput);
            assert!(has_tool || checked == 1, "{case}");
            hits += checked;
        }
    }
    assert!(hits > 100, "{hits}");
}

#[test]
fn an_excluded_model_agent_or_provider_is_out_of_scope() {
    type Set = fn(&mut Rule, Vec<String>);
    type Name = fn(Option<String>) -> Origin;
    let keys: [(&str, Set, Name); 3] = [
        (
            "agents",
            |rule, globs| rule.agents = globs,
            |name| Origin {
                agent: name,
                ..Origin::default()
            },
        ),
        (
            "models",
            |rule, globs| rule.models = globs,
            |name| Origin {
                model: name,
                ..Origin::default()
            },
        ),
        (
            "providers",
            |rule, globs| rule.providers = globs,
            |name| Origin {
                provider: name,
                ..Origin::default()
            },
        ),
    ];
    for (key, set, origin) in keys {
        let mut scoped = rule("a", Action::Inject);
        set(&mut scoped, vec!["!gpt-*".into()]);
        let pack = pack([scoped]);
        for (name, hits) in [(Some("GPT-9"), 0), (Some("other"), 1), (None, 1)] {
            let mut session = pack.session();
            session.set_origin(origin(name.map(str::to_owned)));
            assert_eq!(attempt(&mut session, "a").len(), hits, "{key} {name:?}");
        }
    }
}

#[test]
fn a_check_between_two_deltas_leaves_the_attempt_alone() {
    let mut session = pack([rule("ab", Action::Abort)]).session();
    let mut stream = session.stream();
    assert_eq!(session.push(&mut stream, TEXT, b"a"), Verdict::Continue);
    let checked = session.check(Channel::Text, None, b"ab");
    assert!(matches!(checked.verdict(), Verdict::Act(_)));
    assert!(matches!(
        session.push(&mut stream, TEXT, b"b"),
        Verdict::Act(_)
    ));
    assert_eq!(session.stream().attempt_number(), 2);
}

#[test]
fn at_one_byte_what_counts_is_what_a_rule_does_now() {
    // `a` may not retry any more and aborts; `b`, which would rank the same, could.
    let mut spent = Rule::new("p/b", vec![Pattern::literal("x")]);
    spent.action = Action::Retry;
    spent.retry = Retry {
        max: 0,
        then: Some(Action::Abort),
        ..Retry::default()
    };
    let mut other = Rule::new("p/a", vec![Pattern::literal("x")]);
    (other.action, other.priority) = (Action::Retry, 9);
    let mut session = pack([spent, other]).session();
    assert_eq!(attempt(&mut session, "x"), ["abort b", "(retry a)"]);
}
