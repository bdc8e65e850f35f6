//! A stream among many: what the one call for all of them finds.

use super::*;
use crate::rule::Pattern;

const PART: PartId = PartId(3);

fn pack() -> Pack {
    let mut rule = Rule::new("t/r", vec![Pattern::literal("bad")]);
    rule.on = vec![Channel::Text];
    Pack::builder().rule(rule).build().unwrap()
}

fn streams(count: usize) -> Vec<Stream> {
    let pack = pack();
    let open = |_| {
        let mut stream = pack.stream();
        stream.open(PART, Channel::Text);
        stream
    };
    (0..count).map(open).collect()
}

#[test]
fn many_streams_in_one_call_find_what_each_finds_by_itself() {
    let (mut one_by_one, mut together) = (streams(70), streams(70));
    for turn in ["a ba", "d thing", " and ba", "", "d again, whatever it is"] {
        let mut expected = Vec::new();
        for (place, stream) in one_by_one.iter_mut().enumerate() {
            // Every third says something else.
            let delta = if place % 3 == 0 { turn } else { "quiet" };
            let hits = stream.push(PART, delta.as_bytes());
            expected.extend(hits.iter().map(|hit| (place, *hit)));
        }
        let mut found = Vec::new();
        let deltas = together.iter_mut().enumerate().map(|(place, stream)| {
            let delta = if place % 3 == 0 { turn } else { "quiet" };
            (stream, PART, delta.as_bytes())
        });
        Stream::push_many(deltas, |place, hits| {
            found.extend(hits.iter().map(|hit| (place, *hit)));
        });
        assert_eq!(found, expected, "{turn:?}");
        assert_eq!(found.len(), if turn == "d thing" { 24 } else { 0 });
    }
}

#[test]
fn hits_of_a_call_are_not_given_again() {
    let mut stream = streams(1).remove(0);
    assert_eq!(stream.push(PART, b"so bad").len(), 1);
    assert!(stream.push(PART, b"next").is_empty());
    assert!(stream.push(PART, b"").is_empty());
    assert!(stream.hits().is_empty(), "nothing of an older call is left");
}
