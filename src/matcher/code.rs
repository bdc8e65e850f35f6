//! What a state stands for, as a short string of bytes: equal states have equal codes.
//!
//! States are kept by the ten thousand and rarely looked at; differences of sorted numbers take a byte
//! or two each where the numbers take four.

use super::live::{Live, Outcome};
use super::look::Before;

/// Replaces `code` by the code of the outcome, whose lists are in order.
pub(super) fn encode(outcome: &Outcome, code: &mut Vec<u8>) {
    let Outcome { live, now, late } = outcome;
    code.clear();
    code.push(live.before as u8);
    number(live.cut.map_or(0, |cut| cut + 1), code);
    // The states come last, so that they need no length.
    for list in [now, late] {
        number(list.len() as u32, code);
        numbers(list, code);
    }
    numbers(&live.states, code);
}

/// What the outcome of that code led to, without what it reported.
pub(super) fn decode(code: &[u8], live: &mut Live) {
    let mut rest = &code[1..];
    live.before = Before::ALL[usize::from(code[0])];
    live.cut = next(&mut rest).checked_sub(1);
    for _ in 0..2 {
        for _ in 0..next(&mut rest) {
            next(&mut rest);
        }
    }
    live.states.clear();
    let mut last = 0;
    while !rest.is_empty() {
        last += next(&mut rest);
        live.states.push(last);
    }
}

fn numbers(list: &[u32], code: &mut Vec<u8>) {
    let mut last = 0;
    for &value in list {
        number(value - last, code);
        last = value;
    }
}

/// Seven bits a byte, low ones first; the last byte is below 128.
fn number(mut value: u32, code: &mut Vec<u8>) {
    while value >= 128 {
        code.push(value as u8 | 128);
        value >>= 7;
    }
    code.push(value as u8);
}

fn next(rest: &mut &[u8]) -> u32 {
    let (mut value, mut shift) = (0, 0);
    while let [byte, behind @ ..] = *rest {
        *rest = behind;
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
    use super::*;

    #[test]
    fn a_code_holds_what_it_was_made_of() {
        let outcome = Outcome {
            live: Live {
                cut: Some(300),
                before: Before::Cr,
                states: vec![0, 1, 127, 128, 70_000, u32::MAX],
            },
            now: vec![5, 1 << 31],
            late: vec![0],
        };
        let (mut code, mut live) = (Vec::new(), Live::default());
        encode(&outcome, &mut code);
        decode(&code, &mut live);
        assert_eq!(live, outcome.live);
        let mut other = Vec::new();
        encode(
            &Outcome {
                late: vec![1],
                ..outcome
            },
            &mut other,
        );
        assert_ne!(code, other);
    }
}
