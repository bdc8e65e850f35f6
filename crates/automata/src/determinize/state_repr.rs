//! The representation of a state set as a short byte string, equal for equal sets.
//!
//! A cache holds tens of thousands of sets and rarely reads one. The differences of sorted numbers, as varints, take a
//! byte or two each instead of four.
//!
//! # Layout
//!
//! 1. The look-behind, one byte.
//! 2. The cut of a suffix plus one, or 0 for the search.
//! 3. The number of reports that are certain now, and their differences; then the same for the late reports.
//! 4. The differences of the states, up to the end.
//!
//! Reports belong to the representation because a row stores them: two states with equal sets and different reports
//! are different rows.

use super::super::determinize::{StateSet, Successor};
use super::super::look::LookBehind;
use super::super::nfa::NfaStateId;
use super::super::report::CutId;

/// Replaces `code` by the representation of a successor. Its lists must be sorted and free of duplicates.
pub(crate) fn encode(successor: &Successor, code: &mut Vec<u8>) {
    let Successor {
        state_set,
        now,
        late,
    } = successor;
    code.clear();
    code.push(state_set.before as u8);
    // The largest cut is that of dead suffixes, `NO_INDEX`, so adding one cannot overflow.
    push_varint(state_set.cut.map_or(0, |cut| cut.0 + 1), code);
    // The states come last, so they need no length.
    for list in [now, late] {
        push_varint(list.len() as u32, code);
        push_deltas(list.iter().map(|report| report.bits()), code);
    }
    push_deltas(state_set.states.iter().map(|state| state.number()), code);
}

/// Decodes the state set; the reports are skipped.
pub(crate) fn decode(code: &[u8], state_set: &mut StateSet) {
    let mut rest = &code[1..];
    state_set.before = LookBehind::from_number(code[0].into());
    // `encode` has written every byte of `code`, so the reads below cannot run out.
    // Zero means no cut, so the subtraction fails for it.
    state_set.cut = read_varint(&mut rest).checked_sub(1).map(CutId);
    for _ in 0..2 {
        for _ in 0..read_varint(&mut rest) {
            read_varint(&mut rest);
        }
    }
    state_set.states.clear();
    let mut last = 0;
    while !rest.is_empty() {
        last += read_varint(&mut rest);
        state_set.states.push(NfaStateId::from_number(last));
    }
}

fn push_deltas(list: impl Iterator<Item = u32>, code: &mut Vec<u8>) {
    let mut last = 0;
    for value in list {
        push_varint(value - last, code);
        last = value;
    }
}

/// Appends a varint: seven bits in a byte, low bits first; the last byte is below 128 (LEB128).
fn push_varint(mut value: u32, code: &mut Vec<u8>) {
    while value >= 128 {
        code.push(value as u8 | 128);
        value >>= 7;
    }
    code.push(value as u8);
}

fn read_varint(rest: &mut &[u8]) -> u32 {
    let (mut value, mut shift) = (0, 0);
    while let [byte, tail @ ..] = *rest {
        *rest = tail;
        value |= u32::from(byte & 127) << shift;
        if *byte < 128 {
            break;
        }
        shift += 7;
    }
    value
}

#[cfg(test)]
mod tests {
    use super::super::super::report::{EncodedReport, PatternId};
    use super::*;

    #[test]
    fn a_code_holds_what_it_was_made_of() {
        let successor = Successor {
            state_set: StateSet {
                cut: Some(CutId(300)),
                before: LookBehind::Cr,
                states: [0, 1, 127, 128, 70_000, u32::MAX]
                    .map(NfaStateId::from_number)
                    .into(),
            },
            now: vec![
                EncodedReport::of_pattern(PatternId(5)),
                EncodedReport::of_cut(CutId(0)),
            ],
            late: vec![EncodedReport::of_pattern(PatternId(0))],
        };
        let (mut code, mut state_set) = (Vec::new(), StateSet::default());
        encode(&successor, &mut code);
        decode(&code, &mut state_set);
        assert_eq!(state_set, successor.state_set);
        let mut other = Vec::new();
        encode(
            &Successor {
                late: vec![EncodedReport::of_pattern(PatternId(1))],
                ..successor
            },
            &mut other,
        );
        assert_ne!(code, other);
    }
}
