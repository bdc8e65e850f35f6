//! The promise: for every pattern, every text and every way to cut it, the hit is where the regex engine
//! finds the earliest end on the whole text; whatever the budget of the table.
#![no_main]

use libfuzzer_sys::fuzz_target;
use regex_automata::nfa::thompson::{Config, pikevm::PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule};

// Layout of the input: a byte for the budget, a byte for the cuts, the pattern up to the first 0, the text.
fuzz_target!(|data: &[u8]| {
    let [budget, cuts, rest @ ..] = data else {
        return;
    };
    let Some(end) = rest.iter().position(|&byte| byte == 0) else {
        return;
    };
    let (pattern, text) = (&rest[..end], &rest[end + 1..]);
    let Ok(pattern) = std::str::from_utf8(pattern) else {
        return;
    };
    if pattern.len() > 64 || text.len() > 512 {
        return;
    }
    let limits = Limits {
        table_bytes: [0, 2048, 1 << 20][usize::from(*budget) % 3],
        rule_states: 2000,
        ..Limits::default()
    };
    let mut rule = Rule::new("fuzz/p", vec![Pattern::regex(pattern.to_owned())]);
    rule.description = "fuzzed".to_owned();
    let Ok(pack) = Pack::builder().limits(limits).rule(rule).build() else {
        return;
    };
    let vm = PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(Config::new().utf8(false).nfa_size_limit(None))
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .build(pattern)
        .expect("a pattern that loads is a pattern of the regex engine");
    let mut slots = [None; 2];
    vm.search_slots(
        &mut vm.create_cache(),
        &Input::new(text).earliest(true),
        &mut slots,
    );
    let want = slots[1].map(|end| end.get() as u64);

    let part = PartId(0);
    let mut stream = pack.stream();
    stream.open(part, Channel::Text);
    let mut got = Vec::new();
    for delta in text.chunks(usize::from(*cuts) % 17 + 1) {
        got.extend(stream.push(part, delta).iter().map(|hit| hit.end));
    }
    got.extend(stream.close(part).iter().map(|hit| hit.end));
    assert_eq!(
        got.first().copied(),
        want,
        "{pattern:?} on {:?}",
        text.escape_ascii().to_string()
    );
});
