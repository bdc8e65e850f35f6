use ttsr_testing::{Random, scale};

use super::*;
use crate::partition::PartitionPlan;
use crate::pattern::parse;
use crate::test_support::matcher_of;
use crate::{MatchEvent, Matcher, PatternLimits};

fn patterns(texts: &[&str]) -> Vec<regex_syntax::hir::Hir> {
    let parsed = texts
        .iter()
        .map(|text| parse(text, &PatternLimits::default()));
    parsed.map(Result::unwrap).collect()
}

/// Matchers of all kinds: one with a cut and a suffix, one with patterns over bytes, one that reports each pattern once,
/// and one that tracks where it is idle.
fn matchers() -> Vec<(Matcher, bool)> {
    let first_ends = [
        &["ab+d", r"\bbad\b", r"q[^\n]{0,200}z", "é[’\u{1F600}]"][..],
        &["(?-u:\\xA9)b", "cad", "bc$"],
        &["d", "(?s:.)*q"],
    ];
    let first_ends = first_ends.map(|it| Matcher::new(&patterns(it), 1 << 20).unwrap());
    let spans = Matcher::for_full_matches(&patterns(&["abd", "c[ab]*d"]), 1 << 20).unwrap();
    let first_ends = first_ends.into_iter().map(|matcher| (matcher, false));
    first_ends.chain([(spans, true)]).collect()
}

const ANY_TEXT: TextFilter = TextFilter {
    after: |state, _| {
        let emits = Emission::Char;
        Some(FilterStep { state, emits })
    },
    is_settled: |_| true,
};

/// A filter that refuses line feeds. A text is settled up to its last blanks, and up to its last full stops, of which up to
/// two are dropped before a blank.
const BLANKS_AND_STOPS: TextFilter = TextFilter {
    after: |state, byte| {
        let stops = usize::from(state / 2);
        let (state, emits) = match byte {
            b'\n' => return None,
            b'.' if stops < 2 => (state / 2 * 2 + 2, Emission::Nothing),
            b' ' if stops > 0 => (1, Emission::Char),
            _ => (
                u8::from(byte == b' '),
                match stops {
                    0 => Emission::Char,
                    stops => Emission::HeldAndChar(b'.', stops),
                },
            ),
        };
        Some(FilterStep { state, emits })
    },
    is_settled: |state| state == 0,
};

struct Reader {
    matchers: Vec<(Matcher, bool)>,
    cursors: Vec<Cursor>,
    /// That of the matcher that tracks where it is idle.
    group: IdleGroup,
    /// The last byte, and the number of full stops that are held, for [`BLANKS_AND_STOPS`].
    last: u8,
    stops: usize,
}

impl Reader {
    fn new(group: IdleGroup) -> Reader {
        let matchers = matchers();
        let cursors = matchers.iter().map(|(matcher, _)| matcher.start());
        Reader {
            cursors: cursors.collect(),
            matchers,
            group,
            last: b'a',
            stops: 0,
        }
    }

    /// Returns true if the matcher at an index reads what the filter emits: one with several automata, and the last one if it
    /// reads a view.
    fn is_filtered(&self, index: usize) -> bool {
        index == 1 || index + 1 == self.matchers.len() && self.group == IdleGroup::HeldInView
    }

    /// Returns the state of [`BLANKS_AND_STOPS`].
    fn filter(&self) -> u8 {
        match self.stops {
            0 => u8::from(self.last == b' '),
            stops => 2 * stops as u8,
        }
    }

    fn members(&self) -> Vec<Member<'_>> {
        let members = self.cursors.iter().zip(&self.matchers).enumerate();
        members
            .map(|(index, (cursor, (matcher, tracks_idle)))| Member {
                matcher,
                cursor,
                idle: match tracks_idle {
                    true => self.group,
                    false => IdleGroup::Untracked,
                },
                is_filtered: self.is_filtered(index),
            })
            .collect()
    }

    /// Returns the matches that the end of the text would decide here.
    fn finish(&self) -> Vec<MatchEvent> {
        let mut events = Vec::new();
        for ((matcher, _), cursor) in self.matchers.iter().zip(&self.cursors) {
            matcher.finish(&mut cursor.clone(), |event| events.push(event));
        }
        events
    }

    /// Returns what the filter emits of the next text.
    fn emitted(&mut self, text: &[u8]) -> Vec<u8> {
        let mut emitted = Vec::new();
        for &byte in text {
            match (byte, self.stops) {
                (b'.', 0 | 1) => self.stops += 1,
                (_, stops) => {
                    let dropped = if byte == b' ' { stops } else { 0 };
                    emitted.extend_from_slice(&b".."[dropped.min(stops)..stops]);
                    emitted.push(byte);
                    self.stops = 0;
                }
            }
            self.last = byte;
        }
        emitted
    }

    fn push(&mut self, text: &[u8]) -> Vec<MatchEvent> {
        let mut events = Vec::new();
        let emitted = self.emitted(text);
        for index in 0..self.matchers.len() {
            let text = if self.is_filtered(index) {
                &emitted
            } else {
                text
            };
            let (matcher, _) = &self.matchers[index];
            matcher.push(&mut self.cursors[index], text, |event| events.push(event));
        }
        events
    }
}

#[test]
fn where_the_product_has_transitions_no_matcher_reports_and_all_reach_its_state() {
    let mut random = Random::new(11);
    let (mut stepped, mut declined, mut beyond_ascii, mut ends) = (0, 0, 0, 0);
    let mut dropped = 0;
    for round in 0..scale(40) {
        let group = [IdleGroup::Held, IdleGroup::HeldInView][round % 2];
        let mut reader = Reader::new(group);
        let product = Product::new(BLANKS_AND_STOPS);
        for _ in 0..400 {
            let len = 1 + random.below(6);
            let mut text = Vec::new();
            for _ in 0..len {
                match random.below(40) {
                    0 => text.push(random.pick(b"dqz\n\xA9\xE2\xF0")),
                    // The last byte of `©` is that of a pattern over bytes, and `é` begins a match.
                    1..5 => {
                        let char: char = random.pick(&['’', 'é', '©', '語', '\u{1F600}']);
                        text.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                    }
                    _ => text.push(random.pick(b"aabbc  .")),
                }
            }
            let members = reader.members();
            let before = product.start(&members, reader.filter());
            let step = before.and_then(|state| {
                product
                    .step(state, &text)
                    .or_else(|| product.build(&members, state, &text))
            });
            let Some(step) = step else {
                declined += 1;
                let _ = reader.push(&text);
                continue;
            };
            stepped += 1;
            beyond_ascii += usize::from(!text.is_ascii());
            let mut moved = reader.cursors.clone();
            let mut states = product.member_states(step.state, &text);
            moved.iter_mut().for_each(|cursor| states.move_next(cursor));
            drop(states);
            let chars = std::str::from_utf8(&text).expect("whole characters");
            assert!(!chars.contains('\n'));
            // Character by character, so that each idle position is seen.
            let (mut idle_until, mut is_unchanged) = (0, reader.stops == 0);
            for (at, char) in chars.char_indices() {
                let bytes = &text[at..at + char.len_utf8()];
                assert_eq!(reader.push(bytes), [], "{:?}", text.escape_ascii());
                let (spans, _) = reader.matchers.last().unwrap();
                let is_read = reader.filter() == 0 || group == IdleGroup::Held;
                if is_read && spans.is_idle(reader.cursors.last().unwrap()) {
                    idle_until = at + bytes.len();
                }
                is_unchanged &= char != '.';
            }
            let idle = IdlePositions {
                held: idle_until,
                all: idle_until,
            };
            assert_eq!(step.idle, idle, "{:?}", text.escape_ascii());
            assert_eq!(step.state.is_settled(), reader.filter() == 0);
            let at_end = reader.finish();
            assert_eq!(step.state.ends_without_match(), at_end.is_empty());
            ends += usize::from(!at_end.is_empty());
            // Built transitions are steps, in any pieces.
            assert_eq!(product.step(before.unwrap(), &text), Some(step));
            let filter = reader.filter();
            assert_eq!(product.start(&reader.members(), filter), Some(step.state));
            dropped += usize::from(!is_unchanged);
            // Cursors that were moved are where those are that have read the text. A caller moves none over text that the
            // filter holds or drops: their last character is another one.
            if is_unchanged {
                reader.cursors = moved;
                assert_eq!(product.start(&reader.members(), filter), Some(step.state));
            }
        }
    }
    assert!(
        stepped > declined / 4 && declined > 0 && beyond_ascii > stepped / 20 && ends > 0,
        "{stepped} {declined} {beyond_ascii} {ends}"
    );
    assert!(dropped > stepped / 10, "{dropped} of {stepped}");
}

#[test]
fn cursors_of_later_tables_make_the_product_outdated_and_those_of_earlier_ones_do_not() {
    // A small table that is replaced by larger ones.
    let matcher = Matcher::new(&patterns(&["a[ab]{14}x"]), 96 << 10).unwrap();
    let mut random = Random::new(9);
    let early = matcher.start();
    let product = Product::new(ANY_TEXT);
    assert!(product.start(&[Member::new(&matcher, &early)], 0).is_some());
    assert!(!product.is_outdated(&[Member::new(&matcher, &early)]));
    let mut late = matcher.start();
    let mut rounds = 0;
    while product.start(&[Member::new(&matcher, &late)], 0).is_some() {
        rounds += 1;
        assert!(rounds < 20_000, "the table is never replaced");
        let text: Vec<u8> = (0..256).map(|_| random.pick(b"ab")).collect();
        matcher.push(&mut late, &text, |event| panic!("{event:?}"));
        late = matcher.start();
    }
    assert!(product.is_outdated(&[Member::new(&matcher, &late)]));
    let newer = Product::new(ANY_TEXT);
    assert!(newer.start(&[Member::new(&matcher, &late)], 0).is_some());
    assert_eq!(newer.start(&[Member::new(&matcher, &early)], 0), None);
    assert!(!newer.is_outdated(&[Member::new(&matcher, &early)]));
}

#[test]
fn a_product_without_room_declines_and_is_full_at_last() {
    // A state for each set of the last letters that were an `a`.
    // One table for all of them, so that the cursor at the start of the product uses it.
    let plan = PartitionPlan {
        first_budget: 64 << 20,
        ..PartitionPlan::USUAL
    };
    let matcher = matcher_of(&patterns(&["a[ab]{14}x"]), 64 << 20, plan);
    let product = Product::new(ANY_TEXT);
    let mut random = Random::new(5);
    let start = matcher.start();
    let members = [Member::new(&matcher, &start)];
    let state = product.start(&members, 0).unwrap();
    let mut rounds = 0;
    while !product.is_full() {
        rounds += 1;
        assert!(rounds < 100_000, "the product has room for all states");
        let text: Vec<u8> = (0..64).map(|_| random.pick(b"ab")).collect();
        matcher.push(&mut matcher.start(), &text, |event| panic!("{event:?}"));
        let _ = product.build(&members, state, &text);
    }
    assert_eq!(1 + product.rows.read().unwrap().by_hash.len(), MAX_ROWS);
}

#[test]
fn rows_within_characters_leave_room_for_the_others() {
    let matcher = Matcher::new(&patterns(&["never"]), 1 << 20).unwrap();
    let product = Product::new(ANY_TEXT);
    let mut cursor = matcher.start();
    let chars: String = ('\u{800}'..='\u{FFFF}')
        .chain('\u{10000}'..'\u{50000}')
        .step_by(16)
        .collect();
    // All characters are of the same columns, and lead to the same state.
    matcher.push(&mut cursor, "語語 語 ascii".as_bytes(), |event| {
        panic!("{event:?}")
    });
    matcher.restart(&mut cursor);
    let members = [Member::new(&matcher, &cursor)];
    let state = product.start(&members, 0).unwrap();
    let stepped = chars.chars().filter(|char| {
        let mut bytes = [0; 4];
        let bytes = char.encode_utf8(&mut bytes).as_bytes();
        product.build(&members, state, bytes).is_some()
    });
    let (stepped, all) = (stepped.count(), chars.chars().count());
    assert!(0 < stepped && stepped < all, "{stepped} of {all}");
    let partial = product.rows.read().unwrap().partial;
    assert_eq!(partial, MAX_PARTIAL_ROWS);
    // The other half of the rows is for whole characters.
    assert!(product.build(&members, state, b"ascii").is_some());
    let (begun, _) = "語".as_bytes().split_at(2);
    assert_eq!(product.step(state, begun), None);
}
