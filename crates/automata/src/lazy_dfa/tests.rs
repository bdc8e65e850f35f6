//! Tests of the strategy that steps a text, and of the table that a cursor uses.

use super::*;
use crate::alphabet::SymbolSpace;
use crate::test_support::{TILES, parsed};

fn lazy(patterns: &[&str], budget: usize) -> LazyDfa {
    lazy_from(patterns, budget, TableConfig::MINIMAL.first_budget)
}

fn lazy_from(patterns: &[&str], budget: usize, first_budget: usize) -> LazyDfa {
    let nfa = Nfa::new(SymbolSpace::Chars, &parsed(patterns), None).expect("few classes");
    let config = TableConfig {
        budget,
        first_budget,
        ..TableConfig::MINIMAL
    };
    LazyDfa::new(nfa, config)
}

/// Text without hits in which the patterns are in progress now and then, also where stretches of lanes begin.
fn text() -> Vec<u8> {
    let mut random = ttsr_testing::Random::new(7);
    let words = ["an x of ", "plain ", "text, ", "with ", "a few ", "x and "];
    let mut text = Vec::new();
    while text.len() < 8192 {
        text.extend_from_slice(random.pick(&words).as_bytes());
    }
    text.truncate(8192);
    text
}

#[test]
fn text_that_brings_nothing_special_is_stepped_in_lanes() {
    let patterns = ["x[a-y ]{40}z", "x of [a-y, ]{9}z"];
    // One table for all states, so that the cursors below use the same one.
    let (lazy, text) = (lazy_from(&patterns, 1 << 20, 1 << 20), text());
    let mut nothing = |event| panic!("{event:?}");
    let mut plain = lazy.start();
    // The first pass builds the states of the text, and those of lanes that start anywhere in it.
    for begin in (0..text.len()).rev() {
        lazy.restart(&mut plain);
        let end = text.len().min(begin + 2 * 64);
        lazy.push_scalar(&mut plain, &text[begin..end], 0, &mut nothing);
    }
    lazy.restart(&mut plain);
    lazy.push_scalar(&mut plain, &text, 0, &mut nothing);
    // A tile whose size has another number of bytes than its lanes would decline all text, and no other test would see it.
    for tile in [Tile::USUAL, Tile::SMALL].into_iter().chain(TILES) {
        for end in [text.len(), text.len() - 1] {
            let mut cursor = lazy.start();
            let (at, in_lanes) = lazy.push_tiles(tile, &mut cursor, &text[..end], 0, &mut nothing);
            assert_eq!(at, end / tile.size.bytes() * tile.size.bytes());
            assert_eq!(in_lanes, at, "{tile:?}");
            lazy.push_scalar(&mut cursor, &text, at, &mut nothing);
            assert_eq!(cursor.state, plain.state, "{tile:?}");
        }
    }
    // A byte that needs decoding makes its tile decline. The tile after it is not tried.
    let mut wide = text;
    wide[100] = 0xFF;
    let mut cursor = lazy.start();
    let (at, in_lanes) = lazy.push_tiles(Tile::SMALL, &mut cursor, &wide, 0, &mut nothing);
    assert_eq!(at - in_lanes, 2 * Tile::SMALL.size.bytes());
    assert_eq!(cursor.invalid_bytes(), 1);
}

#[test]
fn a_restarted_cursor_begins_in_the_latest_table() {
    let lazy = lazy(&["[a-z]+@[a-z]+\\.com", "x[a-y ]{5}z"], 2048);
    let mut old = lazy.start();
    assert_eq!(old.generation.number(), 0);
    let (mut cursor, text) = (lazy.start(), text());
    let mut passes = 0;
    while lazy.size().generation == 0 {
        lazy.push(&mut cursor, &text, ShortPath::Declined, &mut |event| {
            panic!("{event:?}")
        });
        passes += 1;
        assert!(passes < 100, "{:?}", lazy.size());
    }
    assert_eq!(old.generation.number(), 0, "it goes on in its own");
    lazy.restart(&mut old);
    assert!(old.generation.number() > 0);
    let mut hits = 0;
    lazy.push(
        &mut old,
        b"at me@here.com",
        ShortPath::Declined,
        &mut |_| hits += 1,
    );
    assert_eq!(hits, 1);
}

#[test]
fn a_table_that_was_tried_is_taken_only_as_it_was() {
    let lazy = lazy(&["abc"], 1 << 20);
    let config = lazy.config;
    assert!(lazy.has(config));
    let other = TableConfig {
        budget: config.budget / 2,
        ..config
    };
    assert!(!lazy.has(other));
}

#[test]
fn tables_grow_up_to_the_budget() {
    for (budget, want) in [
        (
            200 << 20,
            [256 << 10, 2 << 20, 16 << 20, 128 << 20, 200 << 20],
        ),
        (16 << 20, [256 << 10, 2 << 20, 16 << 20, 16 << 20, 16 << 20]),
        (1 << 20, [256 << 10, 1 << 20, 1 << 20, 1 << 20, 1 << 20]),
        (64 << 10, [64 << 10; 5]),
        (0, [0; 5]),
    ] {
        let lazy = lazy(&["abc"], budget);
        let mut cursor = lazy.start();
        let rooms = std::array::from_fn(|_| {
            let room = cursor.generation.lock().budget();
            lazy.move_to_current(&mut cursor);
            room
        });
        assert_eq!(rooms, want);
    }
    // A profile uses a single table, whatever its budget.
    let LazyDfa { nfa, config, .. } = lazy(&["abc"], 64 << 20);
    let tried = LazyDfa::for_profile(nfa, config, 32 << 20);
    assert_eq!(tried.generations.current().lock().budget(), 32 << 20);
    assert!(tried.has(config));
}

/// Returns an automaton with thousands of columns, and a text of characters with the last of them.
fn wide() -> (LazyDfa, String) {
    let all: String = ('\u{4e00}'..'\u{5a00}').collect();
    let chars: Vec<String> = all.chars().map(|char| char.to_string()).collect();
    let patterns: Vec<&str> = chars.iter().map(String::as_str).collect();
    (
        lazy(&patterns, 1 << 20),
        all.chars().rev().take(64).collect(),
    )
}

#[test]
fn a_cursor_of_another_automaton_reads_no_cell_outside_its_table() {
    let (wide, text) = wide();
    let narrow = lazy(&["ab"], 0);
    let columns = |lazy: &LazyDfa| lazy.generations.current().table.row_bytes() / 4;
    assert!(columns(&wide) > 3000 && columns(&narrow) < 16);
    // The columns are those of the alphabet of `wide`, the states those of the table of `narrow`. `Table::next` asserts
    // in debug builds that its cell is in the table. The matches are meaningless.
    let mut cursor = narrow.start();
    wide.run(&mut cursor, text.as_bytes());
    wide.push_scalar(&mut cursor, b"ab and no more", 0, &mut |_| ());
}

#[test]
#[should_panic(expected = "the step is of another cursor")]
fn a_short_step_of_a_larger_table_is_refused() {
    let long = "x".repeat(200);
    let (large, small) = (lazy(&[&long], 1 << 20), lazy(&["ab"], 0));
    let mut cursor = large.start();
    large.push_scalar(&mut cursor, &long.as_bytes()[1..], 0, &mut |_| ());
    large.restart(&mut cursor);
    large.push_scalar(&mut cursor, &long.as_bytes()[10..], 0, &mut |_| ());
    let state = large.try_step_short(&mut cursor, b"xx").expect("built");
    small.accept_short(&mut small.start(), state, 2);
}
