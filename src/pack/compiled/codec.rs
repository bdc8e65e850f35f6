//! The binary form of checked rules: each field after the other, in the order of the lists below.
//!
//! A list names every field of its type, so a new field does not compile until it is in the list. A change of a list is a
//! change of the format: [`FORMAT`](super::FORMAT) counts them.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pack::compose::{Date, ResolvedAllow};
use crate::pack::header::PackHeader;
use crate::rule::{
    Action, Allowance, Ast, Bound, Capture, Case, Channel, Checksum, CommandRequirements,
    Condition, Consult, Count, DoomLoop, Examples, Fold, Header, KnownList, Mode, Named, Partial,
    Pattern, PatternKind, Per, Region, Repeat, Repetition, Retry, Rule, Script, Severity, Status,
    ToolOutcome, UnknownName, Within,
};
use crate::verdict::RuleId;
use ttsr_automata::encoding::{ByteReader, MalformedBytes, write_number};
use ttsr_automata::{AutomatonLayout, MatcherLayout, PatternId};

/// The deepest nesting of command patterns in each other.
const MAX_NESTING: u32 = 16;

/// The bytes written so far.
#[derive(Debug, Default)]
pub(in crate::pack) struct PackWriter {
    pub(in crate::pack) bytes: Vec<u8>,
    /// The lists of known names. Rules share them, so each is written once.
    pub(super) lists: Vec<Arc<[String]>>,
    /// By the address of a list, which the rules keep alive.
    list_ids: HashMap<*const String, usize>,
}

/// The bytes that are left to read.
#[derive(Debug)]
pub(in crate::pack) struct PackReader<'b> {
    pub(in crate::pack) bytes: ByteReader<'b>,
    pub(super) lists: Vec<Arc<[String]>>,
    /// The number of patterns around the value.
    nesting: u32,
}

impl<'b> PackReader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> PackReader<'b> {
        PackReader {
            bytes: ByteReader::new(bytes),
            lists: Vec::new(),
            nesting: 0,
        }
    }
}

/// A value with a binary form, which takes at least one byte.
pub(in crate::pack) trait Encode: Sized {
    fn encode(&self, out: &mut PackWriter);

    /// Reads the value that [`encode`](Self::encode) has written, or refuses the bytes.
    fn decode(from: &mut PackReader<'_>) -> Result<Self, MalformedBytes>;
}

macro_rules! encode_fields {
    ($($type:ident { $($field:ident),* $(,)? })*) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut PackWriter) {
                let $type { $($field),* } = self;
                $($field.encode(out);)*
            }

            fn decode(from: &mut PackReader<'_>) -> Result<$type, MalformedBytes> {
                Ok($type { $($field: Encode::decode(from)?),* })
            }
        }
    )*};
}

/// Values with a list of all of them, written as their places in it.
macro_rules! encode_by_place {
    ($($type:ident)*) => {$(
        impl Encode for $type {
            fn encode(&self, out: &mut PackWriter) {
                let place = $type::ALL.iter().position(|value| value == self);
                let place = place.expect("`ALL` has every value");
                write_number(&mut out.bytes, place as u64);
            }

            fn decode(from: &mut PackReader<'_>) -> Result<$type, MalformedBytes> {
                let place = usize::from(from.bytes.byte()?);
                $type::ALL.get(place).copied().ok_or(MalformedBytes)
            }
        }
    )*};
}

encode_by_place! {
    Action Channel Checksum Fold Mode Named Partial Per Severity Status ToolOutcome
}

encode_fields! {
    Rule {
        id, description, why, docs, tags, references, status, replaced_by, severity, on, tools,
        outcome, args, paths, agents, models, providers, condition, action, mode, partial, retry,
        repeat, allowance, hold, replacement, consult, header, instead, message, priority, examples,
        cases,
    }
    Condition {
        any, all, sequence, none, within, first, last, line, count, capture, repetition, leak, limit,
        script, unknown_name, doom_loop, ast,
    }
    CommandRequirements {
        flags, no_flags, operand, operands_all, last_operand, min_operands, max_operands, directory, code, env,
        redirect_to, reads, stdin_is_code, file_is_code, pipe_to, pipe_from, runs, raw,
    }
    AutomatonLayout { patterns, is_single_match }
    MatcherLayout { automata }
    Allowance { per_turn, per_session }
    Ast { languages, any, inside, not }
    Bound { bytes, lines, deltas, tokens, millis, stall_millis }
    Capture { group, entropy, random, checksum, not_in }
    Case { channel, text, tool, path, expect, by_byte }
    Consult { prompt, model, timeout_millis, tools, blocks_on_failure }
    Count { times, per }
    DoomLoop { times, differing }
    Examples { matching, not_matching }
    Header { name, value }
    PackHeader { name, version, description, license, docs, extends, is_extended }
    Repeat { cooldown_turns, per_turn, per_session }
    Repetition { unit_chars, times, near, turns }
    ResolvedAllow { rules, tools, paths, text, reason, until }
    Retry { max, model, temperature, then }
    Script { expect }
    UnknownName { known, of }
}

impl Encode for Pattern {
    fn encode(&self, out: &mut PackWriter) {
        let Pattern {
            kind,
            text,
            region,
            fold,
            arg,
            unless,
            command,
        } = self;
        kind.encode(out);
        text.encode(out);
        region.encode(out);
        fold.encode(out);
        arg.encode(out);
        unless.encode(out);
        command.encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Pattern, MalformedBytes> {
        // Only patterns contain themselves.
        if from.nesting == MAX_NESTING {
            return Err(MalformedBytes);
        }
        from.nesting += 1;
        let pattern = Pattern {
            kind: Encode::decode(from)?,
            text: Encode::decode(from)?,
            region: Encode::decode(from)?,
            fold: Encode::decode(from)?,
            arg: Encode::decode(from)?,
            unless: Encode::decode(from)?,
            command: Encode::decode(from)?,
        };
        from.nesting -= 1;
        Ok(pattern)
    }
}

impl Encode for PatternKind {
    fn encode(&self, out: &mut PackWriter) {
        out.bytes.push(match self {
            PatternKind::Literal => 0,
            PatternKind::Word => 1,
            PatternKind::Regex => 2,
            PatternKind::Command => 3,
        });
    }

    fn decode(from: &mut PackReader<'_>) -> Result<PatternKind, MalformedBytes> {
        Ok(match from.bytes.byte()? {
            0 => PatternKind::Literal,
            1 => PatternKind::Word,
            2 => PatternKind::Regex,
            3 => PatternKind::Command,
            _ => return Err(MalformedBytes),
        })
    }
}

impl Encode for Region {
    fn encode(&self, out: &mut PackWriter) {
        let place = Region::PLAIN.iter().position(|region| region == self);
        match (place, self) {
            (Some(place), _) => write_number(&mut out.bytes, place as u64),
            (None, region) => {
                out.bytes.push(Region::PLAIN.len() as u8);
                region.name().encode(out);
            }
        }
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Region, MalformedBytes> {
        let place = usize::from(from.bytes.byte()?);
        match Region::PLAIN.get(place) {
            Some(region) => Ok(region.clone()),
            None if place == Region::PLAIN.len() => {
                Region::from_name(from.bytes.text()?).ok_or(MalformedBytes)
            }
            None => Err(MalformedBytes),
        }
    }
}

impl Encode for Within {
    fn encode(&self, out: &mut PackWriter) {
        let (tag, number) = match *self {
            Within::Lines(lines) => (0, Some(lines)),
            Within::Chars(chars) => (1, Some(chars)),
            Within::Part => (2, None),
            Within::Message => (3, None),
        };
        out.bytes.push(tag);
        number.iter().for_each(|number| number.encode(out));
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Within, MalformedBytes> {
        Ok(match from.bytes.byte()? {
            0 => Within::Lines(Encode::decode(from)?),
            1 => Within::Chars(Encode::decode(from)?),
            2 => Within::Part,
            3 => Within::Message,
            _ => return Err(MalformedBytes),
        })
    }
}

impl Encode for KnownList {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, self.lists().len() as u64);
        for list in self.lists() {
            let next = out.lists.len();
            let id = *out.list_ids.entry(list.as_ptr()).or_insert(next);
            if id == next {
                out.lists.push(Arc::clone(list));
            }
            write_number(&mut out.bytes, id as u64);
        }
    }

    fn decode(from: &mut PackReader<'_>) -> Result<KnownList, MalformedBytes> {
        let mut known = KnownList::default();
        for _ in 0..from.bytes.length()? {
            let id = usize::try_from(from.bytes.number()?).map_err(|_| MalformedBytes)?;
            let list = from.lists.get(id).ok_or(MalformedBytes)?;
            known.add(Arc::clone(list));
        }
        Ok(known)
    }
}

impl Encode for Date {
    fn encode(&self, out: &mut PackWriter) {
        self.to_string().encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Date, MalformedBytes> {
        Date::parse(from.bytes.text()?).ok_or(MalformedBytes)
    }
}

impl Encode for RuleId {
    fn encode(&self, out: &mut PackWriter) {
        self.0.encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<RuleId, MalformedBytes> {
        Ok(RuleId(Encode::decode(from)?))
    }
}

impl Encode for PatternId {
    fn encode(&self, out: &mut PackWriter) {
        self.0.encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<PatternId, MalformedBytes> {
        Ok(PatternId(Encode::decode(from)?))
    }
}

impl Encode for bool {
    fn encode(&self, out: &mut PackWriter) {
        out.bytes.push((*self).into());
    }

    fn decode(from: &mut PackReader<'_>) -> Result<bool, MalformedBytes> {
        match from.bytes.byte()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedBytes),
        }
    }
}

impl Encode for u32 {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, (*self).into());
    }

    fn decode(from: &mut PackReader<'_>) -> Result<u32, MalformedBytes> {
        from.bytes.number_u32()
    }
}

impl Encode for u64 {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, *self);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<u64, MalformedBytes> {
        from.bytes.number()
    }
}

impl Encode for u128 {
    fn encode(&self, out: &mut PackWriter) {
        out.bytes.extend_from_slice(&self.to_le_bytes());
    }

    fn decode(from: &mut PackReader<'_>) -> Result<u128, MalformedBytes> {
        let bytes = from.bytes.bytes(16)?.try_into();
        Ok(u128::from_le_bytes(bytes.map_err(|_| MalformedBytes)?))
    }
}

impl Encode for i32 {
    fn encode(&self, out: &mut PackWriter) {
        // Zigzag: numbers near 0 are short, whatever their sign.
        ((self << 1 ^ self >> 31) as u32).encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<i32, MalformedBytes> {
        let zigzag = from.bytes.number_u32()?;
        Ok((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32))
    }
}

impl Encode for (u32, u32) {
    fn encode(&self, out: &mut PackWriter) {
        self.0.encode(out);
        self.1.encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<(u32, u32), MalformedBytes> {
        Ok((Encode::decode(from)?, Encode::decode(from)?))
    }
}

impl Encode for String {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, self.len() as u64);
        out.bytes.extend_from_slice(self.as_bytes());
    }

    fn decode(from: &mut PackReader<'_>) -> Result<String, MalformedBytes> {
        Ok(from.bytes.text()?.to_owned())
    }
}

impl<T: Encode> Encode for Option<T> {
    fn encode(&self, out: &mut PackWriter) {
        self.is_some().encode(out);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Option<T>, MalformedBytes> {
        let is_some = bool::decode(from)?;
        is_some.then(|| T::decode(from)).transpose()
    }
}

impl<T: Encode> Encode for Box<T> {
    fn encode(&self, out: &mut PackWriter) {
        (**self).encode(out);
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Box<T>, MalformedBytes> {
        Ok(Box::new(T::decode(from)?))
    }
}

impl<T: Encode> Encode for Vec<T> {
    fn encode(&self, out: &mut PackWriter) {
        write_number(&mut out.bytes, self.len() as u64);
        self.iter().for_each(|value| value.encode(out));
    }

    fn decode(from: &mut PackReader<'_>) -> Result<Vec<T>, MalformedBytes> {
        let length = from.bytes.length()?;
        // Not more than the bytes that are left can fill: the length may be a lie, and values are larger than their
        // binary forms.
        let room = from.bytes.remaining() / size_of::<T>().max(1) + 1;
        let mut values = Vec::with_capacity(length.min(room));
        for _ in 0..length {
            values.push(T::decode(from)?);
        }
        Ok(values)
    }
}
