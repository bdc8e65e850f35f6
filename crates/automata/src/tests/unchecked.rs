//! Every caller of an unchecked step, on texts and tables that are small enough for Miri.

use crate::test_support::{PLANS, ends, first_ends, matcher_of, parsed};
use ttsr_testing::oracle::{expected, oracle};

/// One with a cut and a suffix, one over bytes, one that overlaps itself.
const PATTERNS: [&str; 4] = [r"ab[^\n]{0,30}z", r"(?-u:\xA9)b", "aab", r"\bq\b"];

#[test]
fn unchecked_steps_find_the_first_end_of_each_pattern_in_each_layout() {
    let hirs = parsed(&PATTERNS);
    let vms = PATTERNS.map(oracle);
    // Long enough for a tile, with characters of two bytes and invalid UTF-8.
    let long = ["aa c ", "é q ", "ab no end of the line\n"]
        .concat()
        .repeat(5);
    let texts = [
        long.as_bytes(),
        b"aab",
        b"x ab -- z q",
        b"\xC2\xA9b \xA9b",
        b"ab\nz aaaab q",
    ];
    for mut plan in PLANS {
        plan.first_budget = 4 << 10;
        let matcher = matcher_of(&hirs, 16 << 10, plan);
        for text in texts {
            let expected = expected(&vms, text);
            let in_pieces: Vec<usize> = (0..text.len()).step_by(5).collect();
            for cuts in [&[][..], &in_pieces] {
                // Twice: the first search builds the states, the second steps through the table.
                for _ in 0..2 {
                    assert_eq!(
                        ends(&first_ends(&matcher, text, cuts)),
                        expected,
                        "{text:?}"
                    );
                }
            }
        }
    }
}
