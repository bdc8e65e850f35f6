//! Random rules and random schedules of calls. The decisions of a session must equal those of a naive model over its
//! whole history, for every order of loading and every point at which the session is saved and restored.
//!
//! `TTSR_TEST_SCALE` (a percentage) scales the number of schedules.

use std::collections::HashMap;

use ttsr::rule::{Allowance, Repeat, Retry};
use ttsr::session::Session;
use ttsr::{
    Action, Channel, Decision, Mode, Pack, PartId, Pattern, Rule, Severity, Stream, Suppression,
};

use ttsr_testing::{Random, scale};

const PACKS: usize = 400;
const SCHEDULES_PER_PACK: usize = 30;
const STEPS: usize = 24;
/// The limit on the retries of all rules together in a turn.
const BACKSTOP: u32 = 3;

const WORDS: [&str; 4] = ["foo", "bar", "baz", "qux"];

const ACTIONS: [Action; 9] = [
    Action::Observe,
    Action::Warn,
    Action::Inject,
    Action::Handoff,
    Action::Consult,
    Action::Redact,
    Action::Retry,
    Action::Retry,
    Action::Abort,
];

/// Returns a rule whose keys are consistent; the loader refuses others.
fn random_rule(random: &mut Random, number: usize) -> Rule {
    loop {
        let rule = any_rule(random, number);
        if Pack::builder().rule(rule.clone()).build().is_ok() {
            return rule;
        }
    }
}

fn any_rule(random: &mut Random, number: usize) -> Rule {
    let pattern = Pattern::literal(random.pick(&WORDS));
    let mut rule = Rule::new(format!("p/r{number}"), vec![pattern]);
    rule.action = random.pick(&ACTIONS);
    rule.on = match rule.action {
        Action::Redact => vec![Channel::Text],
        _ => vec![Channel::Text, Channel::UserInput],
    };
    rule.severity = random.pick(&Severity::ALL);
    rule.priority = random.below(2) as i32;
    if rule.action == Action::Retry {
        rule.retry = Retry {
            max: random.below(4) as u32,
            then: random.one_in(2).then(|| random.pick(&ACTIONS)),
            ..Retry::default()
        };
    }
    rule.repeat = random.one_in(2).then(|| Repeat {
        cooldown_turns: random.maybe(4),
        per_turn: random.maybe(3),
        per_session: random.maybe(4),
    });
    if random.one_in(4) {
        rule.allowance = Allowance {
            per_turn: random.maybe(3),
            per_session: random.maybe(5),
        };
    }
    if random.one_in(6) {
        rule.mode = Mode::Shadow;
    }
    rule
}

fn pack(rules: &[Rule]) -> Pack {
    let builder = rules.iter().cloned();
    builder
        .fold(Pack::builder(), |builder, rule| builder.rule(rule))
        .build()
        .unwrap_or_else(|error| panic!("{error}"))
}

/// A call of the host.
#[derive(Clone, Debug)]
enum Call {
    BeginTurn,
    Stream,
    Push(u32, String),
    Check(String),
    /// The outcome of an acting decision of this turn, by its distance from the last one.
    Delivered(usize),
    Dropped(usize),
    Compacted,
    Mode(Mode),
}

fn schedule(random: &mut Random) -> Vec<Call> {
    (0..STEPS).map(|_| call(random)).collect()
}

fn call(random: &mut Random) -> Call {
    let mut text = || {
        let words = (0..1 + random.below(3)).map(|_| random.pick(&WORDS));
        words.collect::<Vec<_>>().join(" ")
    };
    let text = text();
    match random.below(32) {
        0..=3 => Call::BeginTurn,
        4..=9 => Call::Stream,
        10..=21 => Call::Push(random.below(2) as u32, text),
        22 => Call::Check(text),
        23..=25 => Call::Delivered(random.below(3)),
        26..=28 => Call::Dropped(random.below(3)),
        29..=30 => Call::Compacted,
        _ => Call::Mode(random.pick(&[Mode::Live, Mode::Shadow])),
    }
}

/// A session, its running stream, and the acting decisions without an outcome so far.
struct Host {
    session: Session,
    stream: Stream,
    undecided: Vec<Decision>,
}

impl Host {
    fn new(pack: &Pack) -> Host {
        let mut session = pack.session();
        let stream = session.stream();
        Host {
            session,
            stream,
            undecided: Vec::new(),
        }
    }

    /// Makes the call. Returns the new decisions, and the decision whose outcome the call reports.
    fn make(&mut self, call: &Call) -> (Vec<Decision>, Option<Decision>) {
        let decisions = match call {
            Call::Push(part, text) => {
                let _ = self
                    .session
                    .push(&mut self.stream, PartId(*part), text.as_bytes());
                self.session.decisions().to_vec()
            }
            Call::Check(text) => {
                let checked = self
                    .session
                    .check(Channel::UserInput, None, text.as_bytes());
                checked.decisions().to_vec()
            }
            Call::Delivered(_) | Call::Dropped(_) => {
                return (Vec::new(), self.report_outcome(call));
            }
            Call::BeginTurn => {
                self.session.begin_turn();
                self.undecided.clear();
                Vec::new()
            }
            Call::Stream => {
                self.stream = self.session.stream();
                Vec::new()
            }
            Call::Compacted => {
                self.session.compacted();
                Vec::new()
            }
            Call::Mode(mode) => {
                self.session.set_mode(*mode);
                Vec::new()
            }
        };
        let acting = decisions
            .iter()
            .filter(|decision| !decision.is_suppressed());
        self.undecided.extend(acting);
        (decisions, None)
    }

    fn report_outcome(&mut self, call: &Call) -> Option<Decision> {
        let (Call::Delivered(back) | Call::Dropped(back)) = *call else {
            return None;
        };
        let index = self.undecided.len().checked_sub(back + 1)?;
        let decision = self.undecided.remove(index);
        match call {
            Call::Delivered(_) => self.session.mark_delivered(&decision),
            _ => self.session.mark_dropped(&decision),
        }
        Some(decision)
    }
}

/// Returns the decisions with the names of rules, which are equal for packs that contain other rules as well.
fn shown(host: &Host, decisions: &[Decision]) -> Vec<(String, Action, Option<Suppression>)> {
    let show = |decision: &Decision| {
        let rule = decision.rule().expect("no limit is reached");
        let id = host.session.pack().rule(rule).id.clone();
        (id, decision.action, decision.suppression)
    };
    decisions.iter().map(show).collect()
}

/// The naive model of the policy: every act so far, with its outcome.
#[derive(Default)]
struct PolicyModel {
    turn: u32,
    mode: Mode,
    acts: Vec<Act>,
}

struct Act {
    rule: String,
    action: Action,
    turn: u32,
    is_shadow: bool,
    outcome: ActOutcome,
    left_context: bool,
}

#[derive(PartialEq)]
enum ActOutcome {
    Unknown,
    Delivered,
    Dropped,
}

impl PolicyModel {
    /// Returns the action that the rule must take for a hit now, and the reason if it is suppressed.
    fn expect(&self, rule: &Rule, is_cut: bool, is_input: bool) -> (Action, Option<Suppression>) {
        let is_shadow = rule.mode == Mode::Shadow || self.mode == Mode::Shadow;
        let all = || {
            let acts = self.acts.iter();
            acts.filter(move |act| act.is_shadow == is_shadow && act.outcome != ActOutcome::Dropped)
        };
        let own = || all().filter(|act| act.rule == rule.id);
        let this_turn = |act: &&Act| act.turn == self.turn;
        let is_retry = |act: &&Act| act.action == Action::Retry && act.turn == self.turn;
        let may_retry = !is_input
            && (own().filter(is_retry).count() as u32) < rule.retry.max
            && (is_shadow || (all().filter(is_retry).count() as u32) < BACKSTOP);
        let action = match (rule.action, rule.retry.then, rule.severity) {
            (Action::Retry, _, _) if may_retry => Action::Retry,
            (Action::Retry, Some(then), _) if then != Action::Retry => then,
            (Action::Retry, _, Severity::Critical) => Action::Abort,
            (Action::Retry, ..) => Action::Warn,
            (action, ..) => action,
        };
        let below = |bound: Option<u32>, count: usize| bound.is_none_or(|n| (count as u32) < n);
        let in_context = || own().filter(|act| !act.left_context);
        let once = Repeat {
            per_session: Some(1),
            ..Repeat::default()
        };
        let repeat = rule.repeat.unwrap_or(match (rule.action, rule.severity) {
            (_, Severity::Critical) => Repeat::default(),
            (Action::Observe | Action::Warn | Action::Inject | Action::Handoff, _) => once,
            _ => Repeat::default(),
        });
        let may_repeat = below(repeat.per_turn, own().filter(this_turn).count())
            && below(repeat.per_session, in_context().count())
            && in_context()
                .map(|act| self.turn - act.turn)
                .min()
                .is_none_or(|age| repeat.cooldown_turns.is_none_or(|turns| age >= turns));
        let is_allowed = below(rule.allowance.per_turn, own().filter(this_turn).count())
            && below(rule.allowance.per_session, own().count());
        let suppression = match () {
            () if is_cut => Some(Suppression::Cut),
            () if !is_allowed => Some(Suppression::Allowance),
            () if !may_repeat => Some(Suppression::Repeat),
            () if is_shadow => Some(Suppression::Shadow),
            () => None,
        };
        (action, suppression)
    }

    fn record(&mut self, rule: &Rule, action: Action, suppression: Option<Suppression>) {
        let outcome = match suppression {
            None => ActOutcome::Unknown,
            Some(Suppression::Shadow) => ActOutcome::Delivered,
            Some(_) => return,
        };
        self.acts.push(Act {
            rule: rule.id.clone(),
            action,
            turn: self.turn,
            is_shadow: outcome == ActOutcome::Delivered,
            outcome,
            left_context: false,
        });
    }

    fn live(&mut self, call: &Call, told: Option<&str>, action: Option<Action>, pack: &Pack) {
        match call {
            Call::BeginTurn => {
                self.turn += 1;
                for act in &mut self.acts {
                    if act.outcome == ActOutcome::Unknown {
                        act.outcome = ActOutcome::Delivered;
                    }
                }
            }
            Call::Mode(mode) => self.mode = *mode,
            Call::Compacted => {
                for act in &mut self.acts {
                    let action = pack.rule(pack.find(&act.rule).unwrap()).action;
                    let is_told =
                        matches!(action, Action::Inject | Action::Retry | Action::Consult);
                    act.left_context |= act.outcome == ActOutcome::Delivered && is_told;
                }
            }
            Call::Delivered(_) | Call::Dropped(_) => {
                let is_it = |act: &&mut Act| {
                    act.outcome == ActOutcome::Unknown
                        && Some(&*act.rule) == told
                        && Some(act.action) == action
                };
                if let Some(act) = self.acts.iter_mut().rev().find(is_it) {
                    let is_dropped = matches!(call, Call::Dropped(_));
                    act.outcome = if is_dropped {
                        ActOutcome::Dropped
                    } else {
                        ActOutcome::Delivered
                    };
                }
            }
            Call::Stream | Call::Push(..) | Call::Check(_) => {}
        }
    }
}

/// Runs a schedule against the model, and checks the properties that hold for every schedule.
fn run_against_model(pack: &Pack, calls: &[Call], seed: u64) -> Tally {
    let mut host = Host::new(pack);
    let mut model = PolicyModel::default();
    let mut tally = Tally::default();
    let mut cuts = 0;
    let mut retries: HashMap<u32, u32> = HashMap::new();
    for call in calls {
        let (decisions, told) = host.make(call);
        let told_rule = told.map(|told| pack.rule(told.rule().unwrap()).id.clone());
        let action = told.map(|told| told.action);
        model.live(call, told_rule.as_deref(), action, pack);
        let is_input = matches!(call, Call::Check(_));
        match call {
            Call::Stream | Call::Check(_) => cuts = if is_input { cuts } else { 0 },
            Call::Dropped(_) if action == Some(Action::Retry) => {
                *retries.entry(model.turn).or_default() -= 1;
            }
            _ => {}
        }
        let mut is_cut = !is_input && cuts > 0;
        for decision in &decisions {
            let rule = pack.rule(decision.rule().unwrap());
            let expected = model.expect(rule, is_cut, is_input);
            let got = (decision.action, decision.suppression);
            assert_eq!(
                got, expected,
                "seed {seed}, {}, {calls:?}, {rule:?}",
                rule.id
            );
            assert_eq!(decision.turn, model.turn);
            model.record(rule, decision.action, decision.suppression);
            let is_guard = rule.severity == Severity::Critical || rule.action == Action::Abort;
            if is_guard && rule.repeat.is_none() && rule.allowance == Allowance::default() {
                assert_ne!(got.1, Some(Suppression::Repeat), "seed {seed}, {}", rule.id);
            }
            tally.record(decision);
            if !decision.is_suppressed() && decision.action.cuts() {
                assert!(!is_cut, "seed {seed}: a second cut");
                is_cut = true;
                cuts += u32::from(!is_input);
            }
            if !decision.is_suppressed() && decision.action == Action::Retry {
                *retries.entry(model.turn).or_default() += 1;
            }
        }
        assert!(
            retries.values().all(|retries| *retries <= BACKSTOP),
            "seed {seed}"
        );
    }
    tally
}

/// Counts of the cases that occurred, so that the test fails if a property is never exercised.
#[derive(Debug, Default)]
struct Tally {
    acted: u32,
    retried: u32,
    cut: u32,
    shadow: u32,
    repeat: u32,
    allowance: u32,
}

impl Tally {
    fn record(&mut self, decision: &Decision) {
        let seen = match decision.suppression {
            None => &mut self.acted,
            Some(Suppression::Cut) => &mut self.cut,
            Some(Suppression::Shadow) => &mut self.shadow,
            Some(Suppression::Repeat) => &mut self.repeat,
            _ => &mut self.allowance,
        };
        *seen += 1;
        let retries = !decision.is_suppressed() && decision.action == Action::Retry;
        self.retried += u32::from(retries);
    }

    fn add(&mut self, more: &Tally) {
        self.acted += more.acted;
        self.retried += more.retried;
        self.cut += more.cut;
        self.shadow += more.shadow;
        self.repeat += more.repeat;
        self.allowance += more.allowance;
    }

    fn least(&self) -> u32 {
        let all = [self.acted, self.retried, self.cut, self.shadow, self.repeat];
        all.into_iter().chain([self.allowance]).min().unwrap()
    }
}

/// Calls `check` for every random pack of the run.
fn for_each_pack(mut check: impl FnMut(&mut Random, Vec<Rule>, u64)) {
    for seed in 0..scale(PACKS) as u64 {
        let mut random = Random::new(seed * 1_000_003);
        let rules = (0..2 + random.below(5)).map(|n| random_rule(&mut random, n));
        let rules = rules.collect();
        check(&mut random, rules, seed);
    }
}

#[test]
fn a_session_decides_what_its_whole_history_says() {
    let mut schedules = 0;
    let mut tally = Tally::default();
    for_each_pack(|random, rules, seed| {
        let pack = pack(&rules);
        for _ in 0..SCHEDULES_PER_PACK {
            tally.add(&run_against_model(&pack, &schedule(random), seed));
            schedules += 1;
        }
    });
    println!("{schedules} schedules against the story: {tally:?}");
    assert!(tally.least() >= schedules / 50, "{tally:?}");
}

#[test]
fn the_order_of_loading_never_matters() {
    let mut schedules = 0;
    for_each_pack(|random, mut rules, seed| {
        let one = pack(&rules);
        random.shuffle(&mut rules);
        let other = pack(&rules);
        for _ in 0..SCHEDULES_PER_PACK {
            let (mut a, mut b) = (Host::new(&one), Host::new(&other));
            for call in schedule(random) {
                assert_eq!(a.make(&call), b.make(&call), "seed {seed}: {call:?}");
            }
            schedules += 1;
        }
    });
    println!("{schedules} schedules with rules loaded in another order");
}

#[test]
fn a_rule_that_is_silenced_silences_no_other() {
    let mut schedules = 0;
    let mut silenced = 0;
    for_each_pack(|random, mut rules, seed| {
        let without = pack(&rules);
        let mut silent = random_rule(random, 99);
        silent.mode = Mode::Shadow;
        rules.push(silent);
        let with = pack(&rules);
        for _ in 0..SCHEDULES_PER_PACK {
            let (mut a, mut b) = (Host::new(&without), Host::new(&with));
            for call in schedule(random) {
                let expected = a.make(&call).0;
                let expected = shown(&a, &expected);
                let got = b.make(&call).0;
                let mut got = shown(&b, &got);
                let all = got.len();
                got.retain(|(rule, ..)| rule != "p/r99");
                silenced += all - got.len();
                assert_eq!(got, expected, "seed {seed}: {call:?}");
            }
            schedules += 1;
        }
    });
    println!("{schedules} schedules beside a silenced rule, which was broken {silenced} times");
    assert!(silenced > schedules);
}

#[test]
fn a_restored_session_decides_as_the_original_would_have() {
    let mut points = 0;
    for_each_pack(|random, rules, seed| {
        let pack = pack(&rules);
        for _ in 0..scale(2) {
            let calls = schedule(random);
            for point in 0..=calls.len() {
                let (mut original, mut restored) = (Host::new(&pack), Host::new(&pack));
                for (at, call) in calls.iter().enumerate() {
                    // The last round saves and restores the state at every point.
                    if at == point || point == calls.len() {
                        restored.session = again(&pack, &restored.session);
                        points += 1;
                    }
                    assert_eq!(
                        original.make(call),
                        restored.make(call),
                        "seed {seed}: restored at {point}, {call:?}"
                    );
                }
                let snapshots = [&original, &restored].map(|host| host.session.snapshot());
                assert_eq!(
                    snapshots[0], snapshots[1],
                    "seed {seed}: restored at {point}"
                );
            }
        }
    });
    println!("{points} points at which a session was written down and read again");
}

fn again(pack: &Pack, session: &Session) -> Session {
    let written = serde_json::to_string(&session.snapshot()).unwrap();
    let (restored, lost) = pack.restore(&serde_json::from_str(&written).unwrap());
    assert_eq!(lost, []);
    restored
}

#[test]
fn a_reload_of_the_same_rules_changes_nothing_even_under_a_running_stream() {
    let mut reloads = 0;
    for_each_pack(|random, rules, seed| {
        let one = pack(&rules);
        // A rule before the others, so that every index in the pack changes.
        let silent = Rule::new("a/other", vec![Pattern::literal("never there")]);
        let other = pack(&[&[silent][..], &rules].concat());
        for _ in 0..SCHEDULES_PER_PACK {
            let (mut a, mut b) = (Host::new(&one), Host::new(&one));
            for call in schedule(random) {
                if random.one_in(6) {
                    let next = if reloads % 2 == 0 { &other } else { &one };
                    assert_eq!(b.session.reload(next.clone()), []);
                    reloads += 1;
                }
                let what = |decisions: Vec<Decision>, stream: &Stream| -> Vec<_> {
                    let ids = decisions.iter().map(|decision| {
                        let rule = stream.rule(decision).map(|rule| rule.id.clone());
                        (rule, decision.action, decision.suppression)
                    });
                    ids.collect()
                };
                if let Call::Check(_) = call {
                    continue;
                }
                let expected = a.make(&call).0;
                let expected = what(expected, &a.stream);
                let got = b.make(&call).0;
                assert_eq!(what(got, &b.stream), expected, "seed {seed}: {call:?}");
            }
        }
    });
    println!("{reloads} reloads");
}

#[test]
fn no_schedule_retries_more_than_is_configured_or_acts_more_than_is_allowed() {
    let (mut schedules, mut retries, mut at_the_backstop) = (0, 0, 0);
    for_each_pack(|random, rules, seed| {
        let backstop = random.below(5) as u32;
        let limits = ttsr::Limits {
            turn_retries: backstop,
            ..ttsr::Limits::default()
        };
        let builder = rules
            .iter()
            .cloned()
            .fold(Pack::builder(), ttsr::PackBuilder::rule);
        let pack = builder.limits(limits).build().unwrap();
        for _ in 0..SCHEDULES_PER_PACK {
            let mut host = Host::new(&pack);
            let mut turn: HashMap<String, (u32, u32)> = HashMap::new();
            let mut session: HashMap<String, u32> = HashMap::new();
            let mut all = 0;
            for call in schedule(random) {
                // A dropped decision counts as not made, so these calls are left out.
                if let Call::Dropped(_) = call {
                    continue;
                }
                if let Call::BeginTurn = call {
                    turn.clear();
                    all = 0;
                }
                for decision in host.make(&call).0 {
                    if decision.is_suppressed() {
                        continue;
                    }
                    let rule = pack.rule(decision.rule().expect("no limit is reached"));
                    let (acts, retried) = turn.entry(rule.id.clone()).or_default();
                    let ever = session.entry(rule.id.clone()).or_default();
                    *acts += 1;
                    *ever += 1;
                    let is_retry = decision.action == Action::Retry;
                    *retried += u32::from(is_retry);
                    all += u32::from(is_retry);
                    retries += u32::from(is_retry);
                    let told = format!("seed {seed}: {call:?}: {}", rule.id);
                    assert!(*retried <= rule.retry.max, "{told}: {retried} retries");
                    assert!(
                        all <= backstop,
                        "{told}: {all} retries of all rules, {backstop} are allowed"
                    );
                    let is_within =
                        |bound: Option<u32>, count| bound.is_none_or(|most| count <= most);
                    assert!(
                        is_within(rule.allowance.per_turn, *acts),
                        "{told}: {acts} acts in a turn"
                    );
                    assert!(
                        is_within(rule.allowance.per_session, *ever),
                        "{told}: {ever} acts"
                    );
                    assert!(
                        is_retry
                            || rule.action != Action::Retry
                            || decision.action == ladder_end(rule),
                        "{told}: {:?} when retries are spent",
                        decision.action
                    );
                }
                at_the_backstop += u32::from(backstop > 0 && all == backstop);
            }
            schedules += 1;
        }
    });
    println!(
        "{schedules} schedules with {retries} retries, {at_the_backstop} calls at the backstop"
    );
    assert!(retries > schedules / 20 && at_the_backstop > 0);
}

/// Returns the action of a rule whose retries are spent.
fn ladder_end(rule: &Rule) -> Action {
    match (rule.retry.then, rule.severity) {
        (Some(then), _) => then,
        (None, Severity::Critical) => Action::Abort,
        (None, _) => Action::Warn,
    }
}

#[test]
fn a_rule_that_spent_its_allowance_silences_no_other() {
    let (mut schedules, mut spent) = (0, 0);
    for_each_pack(|random, mut rules, seed| {
        // Rules that only observe cut nothing: the others decide as if they were absent.
        let without = pack(&rules);
        let mut noisy = random_rule(random, 99);
        noisy.action = Action::Observe;
        noisy.retry = Retry::default();
        noisy.repeat = Some(Repeat::default());
        noisy.allowance.per_session = Some(1);
        rules.push(noisy);
        let with = pack(&rules);
        for _ in 0..SCHEDULES_PER_PACK {
            let (mut a, mut b) = (Host::new(&without), Host::new(&with));
            for call in schedule(random) {
                // Outcomes refer to decisions by distance, and the distances differ if there are more rules.
                if matches!(call, Call::Delivered(_) | Call::Dropped(_)) {
                    continue;
                }
                let expected = a.make(&call).0;
                let expected = shown(&a, &expected);
                let got = b.make(&call).0;
                let mut got = shown(&b, &got);
                let own = |(rule, _, why): &(String, Action, Option<Suppression>)| {
                    rule == "p/r99" && *why == Some(Suppression::Allowance)
                };
                spent += got.iter().filter(|it| own(it)).count();
                got.retain(|(rule, ..)| rule != "p/r99");
                assert_eq!(got, expected, "seed {seed}: {call:?}");
            }
            schedules += 1;
        }
    });
    println!("{schedules} schedules beside a rule that had spent its allowance, {spent} times");
    assert!(spent > schedules / 4);
}
