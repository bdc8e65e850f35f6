//! Random schedules: whatever comes in, in whatever order, what comes out is in order.

use std::collections::HashMap;
use std::time::Duration;

use ttsr::harness::{
    End, Failure, Hooks, Input, OnHookPanic, Processor, Reason, Reply, Settings, Step,
};
use ttsr::{Channel, Event, PartId};

use super::pack;

/// SplitMix64: a failure names its seed and can be seen again.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ mixed >> 31) % bound
    }

    fn one_in(&mut self, bound: u64) -> bool {
        self.below(bound) == 0
    }
}

const PIECES: [&str; 16] = [
    "x: a",
    "ny",
    ": any",
    "var ",
    "rm -",
    "rf",
    "TODO",
    "perhaps",
    "eval(",
    "a",
    " ",
    "{\"a\":\"",
    "\"}",
    "the end",
    "é",
    "good. ",
];

fn event(random: &mut Random) -> Event {
    let part = PartId(random.below(4) as u32);
    let piece = PIECES[random.below(PIECES.len() as u64) as usize];
    match random.below(24) {
        0..=3 => Event::PartStart {
            part,
            name: part.0.to_string(),
            channel: Channel::ALL[random.below(3) as usize],
            tool: random.one_in(2).then(|| "write".to_owned()),
            call: random.one_in(2).then(|| format!("call_{}", part.0)),
        },
        4 => Event::Tool {
            part,
            tool: "read".into(),
            call: None,
        },
        5..=6 => Event::PartEnd { part },
        7 => Event::Snapshot {
            part,
            bytes: piece.into(),
        },
        8 => Event::Unscanned {
            bytes: 1,
            kind: "odd".into(),
        },
        9 => Event::Usage {
            input: 1,
            output: 1,
        },
        10 if random.one_in(3) => Event::Finish {
            reason: "stop".into(),
        },
        11 if random.one_in(3) => Event::Error {
            kind: "odd".into(),
            message: String::new(),
        },
        12 if random.one_in(2) => Event::Restart,
        _ => Event::Delta {
            part,
            bytes: piece.into(),
        },
    }
}

fn input(random: &mut Random) -> Input {
    match random.below(60) {
        0 => Input::End,
        1 => Input::Failed(Failure::new("odd", "as it happens")),
        2 => Input::Cancel,
        3..=5 => Input::Tick,
        6 => Input::Sent,
        _ => Input::Event(event(random)),
    }
}

fn hooks(random: &mut Random) -> Hooks {
    let mut hooks = Hooks::default();
    for number in 0..random.below(4) {
        let mut own = Random(random.below(u64::MAX));
        let wildness = 4 + random.below(40);
        hooks.on_delta(format!("delta-{number}"), move |_, delta| {
            match own.below(wildness) {
                0 => delta.abort(),
                1 => delta.rewrite("var "),
                2 => delta.rewrite(""),
                3 if own.one_in(4) => std::panic::resume_unwind(Box::new("odd")),
                _ => {}
            }
        });
    }
    for number in 0..random.below(3) {
        let mut own = Random(random.below(u64::MAX));
        hooks.on_aborted(format!("aborted-{number}"), move |_, answer| {
            answer.retry = own.one_in(2);
            answer.inject_message = own.one_in(2).then(|| "Calm.".to_owned());
            if own.one_in(10) {
                std::panic::resume_unwind(Box::new("odd"));
            }
        });
    }
    hooks
}

/// What someone who only sees the steps knows.
#[derive(Default)]
struct Watcher {
    seed: u64,
    sends: u32,
    aborts: u32,
    /// Aborts since the last request.
    aborts_here: u32,
    /// Parts that were opened and not taken back, with what was published of them.
    shown: HashMap<PartId, (Vec<u8>, bool)>,
    is_over: bool,
    is_cancelled: bool,
    ends: u32,
}

impl Watcher {
    fn see(&mut self, step: &Step) {
        let seed = self.seed;
        assert!(!self.is_over, "seed {seed}: {step:?} after the end");
        match step {
            Step::Send { attempt, .. } => {
                assert!(
                    !self.is_cancelled,
                    "seed {seed}: a request after the cancel"
                );
                assert!(self.shown.is_empty(), "seed {seed}: not taken back");
                assert_eq!(
                    self.aborts, self.sends,
                    "seed {seed}: each retry has its abort"
                );
                self.sends += 1;
                assert!(*attempt >= self.sends, "seed {seed}: attempts count up");
                self.aborts_here = 0;
            }
            Step::Open { part, .. } => {
                let is_new = self.shown.insert(*part, Default::default()).is_none();
                assert!(is_new, "seed {seed}: opened twice");
                self.alive();
            }
            Step::Named { part, .. } => assert!(self.is_open(*part), "seed {seed}"),
            Step::Forward { part, bytes } => {
                assert!(
                    !bytes.is_empty() && self.is_open(*part),
                    "seed {seed}: {part:?}"
                );
                self.alive();
                self.shown.get_mut(part).unwrap().0.extend_from_slice(bytes);
            }
            Step::Close { part, .. } | Step::ToolAborted { part, .. } => {
                assert!(self.is_open(*part), "seed {seed}: {part:?} closed twice");
                self.alive();
                self.shown.get_mut(part).unwrap().1 = true;
            }
            Step::Retract { part, from } => {
                assert_eq!(*from, 0);
                assert!(self.shown.remove(part).is_some(), "seed {seed}: {part:?}");
            }
            Step::Aborted(aborted) => {
                self.aborts += 1;
                self.aborts_here += 1;
                assert_eq!(self.aborts_here, 1, "seed {seed}: aborted once");
                self.same_as(&aborted.partial);
            }
            Step::Finish(outcome) => {
                self.is_over = true;
                self.ends += 1;
                match &outcome.end {
                    End::Complete { .. } => {
                        assert!(!self.is_cancelled, "seed {seed}");
                        self.same_as(&outcome.reply);
                    }
                    End::Aborted { reason, .. } => {
                        assert!(outcome.reply.parts().is_empty(), "seed {seed}");
                        assert!(!self.is_cancelled || *reason == Reason::User, "seed {seed}");
                    }
                    _ => panic!("seed {seed}"),
                }
                assert_eq!(outcome.attempts, self.sends, "seed {seed}");
            }
            _ => {}
        }
    }

    fn alive(&self) {
        assert_eq!(
            self.aborts_here, 0,
            "seed {}: published after the abort",
            self.seed
        );
    }

    fn is_open(&self, part: PartId) -> bool {
        self.shown
            .get(&part)
            .is_some_and(|(_, is_closed)| !is_closed)
    }

    /// What was accumulated is what was published.
    fn same_as(&self, reply: &Reply) {
        for part in reply.parts() {
            let empty = Default::default();
            let (shown, _) = self.shown.get(&part.part).unwrap_or(&empty);
            assert_eq!(*shown, part.raw, "seed {}: {:?}", self.seed, part.part);
        }
    }
}

fn check(seed: u64) -> (u32, u32) {
    let random = &mut Random(seed);
    let settings = Settings {
        stall: random.one_in(2).then_some(Duration::from_secs(3)),
        reply: random.one_in(4).then_some(Duration::from_secs(30)),
        hook_retries: random.below(4) as u32,
        reply_bytes: if random.one_in(4) { 400 } else { 64 << 20 },
        on_hook_panic: match random.below(2) {
            0 => OnHookPanic::Abort,
            _ => OnHookPanic::Continue,
        },
        ..Settings::default()
    };
    let most = 1 + 3 + settings.hook_retries;
    let mut processor = Processor::new(pack().session(), hooks(random), settings);
    let (mut ends, mut sends) = (0, 0);
    for _turn in 0..1 + random.below(3) {
        let mut watcher = Watcher {
            seed,
            ..Watcher::default()
        };
        let mut steps = Vec::new();
        let mut now = 0;
        processor.begin("m", &mut steps);
        let inputs = 20 + random.below(80);
        for left in (0..inputs).rev() {
            let must_send = matches!(steps.last(), Some(Step::Send { .. })) && !random.one_in(8);
            steps.drain(..).for_each(|step| watcher.see(&step));
            let input = match left {
                0 => Input::Cancel,
                _ if must_send => Input::Sent,
                _ => input(random),
            };
            watcher.is_cancelled |= input == Input::Cancel;
            now += random.below(2000);
            processor.step(Duration::from_millis(now), input, &mut steps);
        }
        steps.drain(..).for_each(|step| watcher.see(&step));
        assert_eq!(watcher.ends, 1, "seed {seed}: one end");
        assert!(processor.is_idle(), "seed {seed}");
        assert!(
            watcher.sends <= most,
            "seed {seed}: {} requests",
            watcher.sends
        );
        ends += watcher.ends;
        sends += watcher.sends;
    }
    (ends, sends)
}

#[test]
fn random_schedules_keep_every_promise() {
    let (mut ends, mut sends) = (0, 0);
    for seed in 0..2000 {
        let (more_ends, more_sends) = check(seed);
        ends += more_ends;
        sends += more_sends;
    }
    // Schedules in which nothing happens would prove nothing.
    assert!(
        ends > 2000 && sends > ends + ends / 4,
        "{ends} replies, {sends} requests"
    );
}
