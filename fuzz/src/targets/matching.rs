//! The promise: for every set of patterns, every text and every split, the hit of each pattern is at the earliest end
//! that the regex engine finds in the whole text, whatever the budget of the table is.

use std::collections::BTreeMap;

use regex_automata::nfa::thompson::{Config, pikevm::PikeVM};
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};
use ttsr::{Channel, Limits, Pack, PartId, Pattern, Rule};

// Layout of the input: a byte for the budget, a byte for the cuts, up to four patterns, a line each, up to the first 0,
// the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [budget, cuts, rest @ ..] = data else {
        return;
    };
    let Some(end) = rest.iter().position(|&byte| byte == 0) else {
        return;
    };
    let (patterns, text) = (&rest[..end], &rest[end + 1..]);
    let Ok(patterns) = std::str::from_utf8(patterns) else {
        return;
    };
    if patterns.len() > 128 || text.len() > 512 {
        return;
    }
    let patterns: Vec<&str> = patterns.split('\n').take(4).collect();
    let limits = Limits {
        table_bytes: [0, 2048, 1 << 20][usize::from(*budget) % 3],
        rule_states: 2000,
        ..Limits::default()
    };
    let rules = patterns.iter().enumerate().map(|(number, pattern)| {
        let mut rule = Rule::new(format!("fuzz/p{number}"), vec![Pattern::regex(*pattern)]);
        rule.description = "fuzzed".to_owned();
        rule
    });
    let builder = rules.fold(Pack::builder().limits(limits), |pack, rule| pack.rule(rule));
    let Ok(pack) = builder.build() else {
        return;
    };
    let ends = patterns.iter().enumerate();
    let want: BTreeMap<usize, u64> = ends
        .filter_map(|(number, pattern)| Some((number, first_end(pattern, text)?)))
        .collect();
    for size in [usize::from(*cuts) % 17 + 1, text.len().max(1)] {
        let part = PartId(0);
        let (mut stream, mut got) = (pack.stream(), BTreeMap::new());
        stream.open(part, Channel::Text);
        let mut note = |hits: &[ttsr::Hit]| {
            for hit in hits {
                got.entry(hit.rule.index()).or_insert(hit.end);
            }
        };
        for delta in text.chunks(size) {
            note(&stream.push(part, delta));
        }
        note(&stream.close(part));
        let shown = text.escape_ascii();
        assert_eq!(got, want, "{patterns:?} on {shown}, in pieces of {size}");
    }
}

fn first_end(pattern: &str, text: &[u8]) -> Option<u64> {
    let vm = PikeVM::builder()
        .syntax(syntax::Config::new().utf8(false))
        .thompson(Config::new().utf8(false).nfa_size_limit(None))
        .configure(PikeVM::config().match_kind(MatchKind::All))
        .build(pattern)
        .expect("a pattern that loads is a pattern of the regex engine");
    let mut slots = [None; 2];
    let input = Input::new(text).earliest(true);
    vm.search_slots(&mut vm.create_cache(), &input, &mut slots);
    slots[1].map(|end| end.get() as u64)
}
