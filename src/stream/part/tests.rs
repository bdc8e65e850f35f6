//! Parts whose text is kept from its start, without readers.

use super::*;
use crate::stream::Stream;
use crate::verdict::Hit;
use crate::{Pack, PartId};

const RULES: &str = r#"schema = 1
[pack]
name = "t"
grants = ["inject", "redact"]
[rule.key]
description = "d"
on = ["text"]
action = "redact"
match.any = [{ regex = 'sk-[0-9]{4}' }]
[rule.last]
description = "d"
on = ["text"]
match.any = [{ regex = 'done$' }]
[rule.prose]
description = "d"
on = ["text"]
match.any = [{ literal = 'sorry', region = 'prose' }]
[rule.code]
description = "d"
on = ["text"]
match.any = [{ literal = 'todo', region = 'code' }]
[rule.cycle]
description = "d"
on = ["text"]
match.repetition = { unit-chars = [1, 400], times = 4 }
"#;

/// Reads a text as a part of its own, in deltas of `len` bytes. Returns its hits, the number of released bytes before the
/// close, and true if readers were made.
fn read_part(stream: &mut Stream, part: PartId, text: &str, len: usize) -> (Vec<Hit>, u64, bool) {
    stream.open(part, Channel::Text);
    let mut hits = Vec::new();
    for delta in text.as_bytes().chunks(len) {
        hits.extend_from_slice(&stream.push(part, delta));
    }
    let released = stream.releasable(part);
    let open = stream.parts.iter().find(|open| open.id() == part).unwrap();
    let PartReader::Whole(reader) = &open.reader else {
        panic!("{:?}", open.reader);
    };
    let has_readers = reader.readers.is_some();
    hits.extend_from_slice(&stream.close(part));
    (hits, released, has_readers)
}

#[test]
fn a_part_without_a_match_needs_no_readers() {
    let pack = Pack::from_toml(RULES).unwrap();
    // Of each text: the rule that it breaks.
    let texts = [
        (
            "Here is some plain text, and a second line.\nIt ends here.",
            None,
        ),
        ("The key sk-12 is no key.", None),
        ("- an item\n- another", None),
        ("", None),
        ("all is done", Some("t/last")),
        ("I am sorry. Or not.", Some("t/prose")),
        ("The key is sk-1234.", Some("t/key")),
        ("```\ntodo\n```\n", Some("t/code")),
        ("todo", None),
    ];
    for len in [1, 3, 64] {
        let mut stream = pack.stream();
        for round in 0..3 {
            for (index, (text, rule)) in texts.iter().enumerate() {
                let part = PartId((round * texts.len() + index) as u32);
                let (hits, released, has_readers) = read_part(&mut stream, part, text, len);
                let rules: Vec<&str> = hits
                    .iter()
                    .map(|hit| pack.rule(hit.rule).id.as_str())
                    .collect();
                assert_eq!(rules, Vec::from_iter(*rule), "{text:?} in pieces of {len}");
                // The first part builds the transitions of the automata, and the second one those of the product.
                let is_quiet = round > 1 && index < 4;
                assert!(!(is_quiet && has_readers), "{text:?} in pieces of {len}");
                let mut alone = Pack::from_toml(RULES).unwrap().stream();
                let (hits_alone, released_alone, _) = read_part(&mut alone, part, text, len);
                assert_eq!(
                    (&hits, released),
                    (&hits_alone, released_alone),
                    "{text:?} in pieces of {len}, round {round}"
                );
            }
        }
    }
}
