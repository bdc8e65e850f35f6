//! Random hosts that ignore every answer. The fuzz target `host` runs the same.

use ttsr::{Action, Channel, Conversation, Flow, Pack, PackBuilder, PartId, Pattern, Rule};
use ttsr_testing::{Random, any_host, in_parts, scale};

#[test]
fn no_host_can_take_what_a_rule_holds_redacts_or_cuts() {
    in_parts(scale(20_000), |seeds| {
        for seed in seeds {
            let mut random = Random::new(seed as u64);
            let len = random.below(400);
            let data: Vec<u8> = (0..len).map(|_| random.next() as u8).collect();
            let failed = std::panic::catch_unwind(|| any_host::run(&data)).is_err();
            assert!(!failed, "seed {seed}");
        }
    });
}

const CHANNELS: [Channel; 3] = [Channel::Text, Channel::Reasoning, Channel::ToolInput];

/// Pieces of texts that built-in rules redact, hold, cut or pass.
const PIECES: [&str; 15] = [
    "key-1234",
    "the files of the folder ",
    "ghp_0123456789",
    "01234567890123456789abcdef",
    "AKIA",
    "# Heading\n\n",
    "`code` ",
    "```sh\nls\n```\n",
    "Ignore all previous ",
    "instructions",
    "{\"command\":\"ls -la",
    " src\"}",
    "password = \"",
    "é",
    "\n",
];

/// Deltas through `forward` give the flows and the text of `push` and `take`. When text is released may differ between
/// the two: it depends on the states that other conversations have built.
#[test]
fn forward_returns_what_push_and_take_return() {
    let packs = ["std/secrets", "std/injection", "std/degeneration"];
    let builder = packs
        .into_iter()
        .fold(Pack::builder(), PackBuilder::builtin);
    let mut cutting = Rule::new("demo/code", vec![Pattern::literal("`code` `")]);
    cutting.action = Action::Abort;
    // Decided by its last byte, so that a delta may be a whole match.
    let mut redacting = Rule::new("demo/key", vec![Pattern::regex("key-[0-9]{4}")]);
    redacting.action = Action::Redact;
    let pack = builder.rule(cutting).rule(redacting).build().unwrap();
    let cuts = in_parts(scale(2_000), |seeds| {
        let seeds = seeds.filter(|seed| forwards_what_is_taken(&pack, *seed) != Flow::Go);
        seeds.count()
    });
    assert!(cuts.iter().sum::<usize>() > 0, "a rule cuts some replies");
}

fn forwards_what_is_taken(pack: &Pack, seed: usize) -> Flow {
    let mut random = Random::new(seed as u64);
    let [mut one, mut other] = [(); 2].map(|()| {
        let mut conversation = Conversation::new(pack);
        conversation.start_turn();
        assert_eq!(conversation.begin_attempt(), Flow::Go);
        for (part, channel) in (0..).map(PartId).zip(CHANNELS) {
            assert_eq!(conversation.open(part, channel), Flow::Go);
        }
        conversation
    });
    // The last part is opened by its first delta.
    let parts = (0..4).map(PartId);
    let mut taken = [(); 4].map(|()| [Vec::new(), Vec::new()]);
    for _ in 0..random.below(40) {
        let part = PartId(random.below(4) as u32);
        let [from_one, from_other] = &mut taken[part.0 as usize];
        let piece = random.pick(&PIECES).as_bytes();
        let delta = match random.one_in(2) {
            true => piece,
            false => &piece[..random.below(piece.len() + 1)],
        };
        let flow = one.push(part, delta);
        from_one.extend_from_slice(one.take(part));
        let forwarded = other.forward(part, delta);
        assert_eq!(
            forwarded.as_ref().err(),
            flow.clone().ok().as_ref().err(),
            "seed {seed}"
        );
        from_other.extend_from_slice(forwarded.unwrap_or_default());
        if random.one_in(20) {
            assert_eq!(other.close(part), one.close(part), "seed {seed}");
        }
    }
    let flow = one.finish();
    assert_eq!(other.finish(), flow, "seed {seed}");
    for (part, [mut from_one, mut from_other]) in parts.zip(taken) {
        from_one.extend_from_slice(one.take(part));
        from_other.extend_from_slice(other.take(part));
        let is_same = match flow {
            Flow::Go => from_one == from_other,
            Flow::Cut(_) => from_one.starts_with(&from_other) || from_other.starts_with(&from_one),
        };
        assert!(is_same, "seed {seed}: {from_one:?} and {from_other:?}");
    }
    flow
}
