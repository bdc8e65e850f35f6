//! A Pike VM: whole matches with leftmost-first semantics, and the start of a match with a known end.
//!
//! The program has one instruction per character class, so `\w{8,256}` is 256 instructions and not the 80,000 states
//! of an automaton over bytes. Compiling cannot fail, and [`pattern::states`](super::pattern::states) bounds the size
//! of the program, so nothing is left to be built, and nothing can be found too large, while text is read.
//!
//! All matches of a text come from one pass. Threads are kept in order of priority, and each carries the matches that
//! were complete before it began. A thread that matches cuts off all threads behind it, and the search for the next
//! match begins at once, behind the threads that may still replace this match with a better one. Of two threads at the
//! same instruction the first is kept: whatever comes next, both fare alike. A pass therefore costs at most the length
//! of the text times that of the program; a search that starts again behind each match would cost the square.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use regex_automata::util::look::{Look, LookMatcher};
use regex_syntax::hir::{Class, Hir, HirKind, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use super::hash::{IdentityMap, RangesKey};
use super::nfa::needs_bytes;

/// Index of an instruction.
type Pc = u32;

/// Stands for "no match" in chains, and for the place of a repetition that is not known yet.
const NONE: u32 = u32::MAX;

/// A compiled pattern.
#[derive(Debug)]
pub struct PikeVm {
    program: Box<[Inst]>,
    sets: Box<[Arc<Set>]>,
    entry: Pc,
    /// The bytes that a match can begin with.
    first: ByteSet,
    /// Whether instructions take bytes; otherwise they take characters.
    takes_bytes: bool,
}

/// One instruction. A unit is a character, or a byte in a program that takes bytes.
#[derive(Clone, Copy, Debug)]
enum Inst {
    /// Takes this unit.
    Unit { code: u32, next: Pc },
    /// Takes a unit of the set.
    Set { set: u32, next: Pc },
    /// Goes on at both, preferably at the first.
    Split { first: Pc, second: Pc },
    /// Goes on where the assertion holds.
    Look { look: Look, next: Pc },
    /// Notes where the group begins.
    Open { next: Pc },
    /// Notes where the group ends.
    Close { next: Pc },
    /// The pattern has matched.
    Match,
}

/// Units that one instruction takes.
#[derive(Debug)]
struct Set {
    /// Those below 256.
    low: ByteSet,
    /// The others: ranges, both ends included, in order.
    high: Box<[(u32, u32)]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    #[inline]
    fn holds(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
    }
}

impl Set {
    fn new(ranges: &[(u32, u32)]) -> Set {
        let mut low = ByteSet::default();
        for &(start, end) in ranges {
            (start..=end.min(255)).for_each(|code| low.add(code as u8));
        }
        let high = ranges.iter().filter(|(_, end)| *end > 255);
        Set {
            low,
            high: high.map(|&(start, end)| (start.max(256), end)).collect(),
        }
    }

    #[inline]
    fn holds(&self, code: u32) -> bool {
        match u8::try_from(code) {
            Ok(byte) => self.low.holds(byte),
            Err(_) => {
                let after = self.high.partition_point(|&(start, _)| start <= code);
                after > 0 && code <= self.high[after - 1].1
            }
        }
    }
}

/// A match, and the group that the program notes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub range: Range<usize>,
    /// None where the match has no such group, or the program notes none.
    pub group: Option<Range<usize>>,
}

/// Compiles patterns; patterns that it has compiled share the tables of their classes.
#[derive(Debug, Default)]
pub struct Compiler {
    sets: IdentityMap<RangesKey, Arc<Set>>,
}

impl Compiler {
    /// Compiles a pattern that [`pattern::accept`](super::pattern::accept) has accepted. Of its groups, the program notes the one
    /// with the index `group`.
    pub fn compile(&mut self, hir: &Hir, group: Option<u32>) -> PikeVm {
        let mut builder = Builder {
            shared: &mut self.sets,
            group,
            takes_bytes: needs_bytes(hir),
            program: Vec::new(),
            sets: Vec::new(),
            known: HashMap::new(),
        };
        let end = builder.add(Inst::Match);
        let entry = builder.compile(hir, end);
        let mut vm = PikeVm {
            program: builder.program.into_boxed_slice(),
            sets: builder.sets.into_boxed_slice(),
            entry,
            first: ByteSet::ALL,
            takes_bytes: needs_bytes(hir),
        };
        vm.first = vm.first_bytes();
        vm
    }
}

struct Builder<'c> {
    shared: &'c mut IdentityMap<RangesKey, Arc<Set>>,
    group: Option<u32>,
    takes_bytes: bool,
    program: Vec<Inst>,
    sets: Vec<Arc<Set>>,
    /// The index of each set, by its address.
    known: HashMap<*const Set, u32>,
}

impl Builder<'_> {
    fn add(&mut self, inst: Inst) -> Pc {
        self.program.push(inst);
        self.program.len() as Pc - 1
    }

    /// Compiles the pattern so that it continues at `next`; returns its entry.
    fn compile(&mut self, hir: &Hir, next: Pc) -> Pc {
        match hir.kind() {
            HirKind::Empty => next,
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) if !self.takes_bytes => text.chars().rev().fold(next, |next, char| {
                    let code = u32::from(char);
                    self.add(Inst::Unit { code, next })
                }),
                _ => literal.0.iter().rev().fold(next, |next, &byte| {
                    let code = u32::from(byte);
                    self.add(Inst::Unit { code, next })
                }),
            },
            HirKind::Class(class) => self.class(class, next),
            HirKind::Look(look) => {
                let look = Look::from_repr(look.as_repr());
                let look = look.expect("both crates number assertions alike");
                self.add(Inst::Look { look, next })
            }
            HirKind::Capture(capture) if Some(capture.index) == self.group => {
                let close = self.add(Inst::Close { next });
                let next = self.compile(&capture.sub, close);
                self.add(Inst::Open { next })
            }
            HirKind::Capture(capture) => self.compile(&capture.sub, next),
            HirKind::Concat(subs) => subs
                .iter()
                .rev()
                .fold(next, |next, sub| self.compile(sub, next)),
            HirKind::Alternation(subs) => {
                let entries: Vec<Pc> = subs.iter().map(|sub| self.compile(sub, next)).collect();
                self.union(entries)
            }
            HirKind::Repetition(repetition) => self.repetition(repetition, next),
        }
    }

    /// Goes on at each entry, preferably at the earlier ones.
    fn union(&mut self, mut entries: Vec<Pc>) -> Pc {
        let Some(last) = entries.pop() else {
            return self.never();
        };
        entries.into_iter().rev().fold(last, |second, first| {
            self.add(Inst::Split { first, second })
        })
    }

    /// An instruction that no text gets past.
    fn never(&mut self) -> Pc {
        let set = self.set(Vec::new());
        self.add(Inst::Set { set, next: 0 })
    }

    fn class(&mut self, class: &Class, next: Pc) -> Pc {
        let ranges: Vec<(u32, u32)> = match class {
            Class::Bytes(class) => {
                let ranges = class.ranges().iter();
                ranges.map(|r| (r.start().into(), r.end().into())).collect()
            }
            Class::Unicode(class) if self.takes_bytes => {
                let mut entries = Vec::new();
                for range in class.ranges() {
                    for sequence in Utf8Sequences::new(range.start(), range.end()) {
                        let bytes = sequence.as_slice().iter().rev();
                        entries.push(bytes.fold(next, |next, r| {
                            self.one_of(vec![(r.start.into(), r.end.into())], next)
                        }));
                    }
                }
                return self.union(entries);
            }
            Class::Unicode(class) => {
                let ranges = class.ranges().iter();
                ranges.map(|r| (r.start().into(), r.end().into())).collect()
            }
        };
        self.one_of(ranges, next)
    }

    fn one_of(&mut self, ranges: Vec<(u32, u32)>, next: Pc) -> Pc {
        if let [(start, end)] = ranges[..]
            && start == end
        {
            return self.add(Inst::Unit { code: start, next });
        }
        let set = self.set(ranges);
        self.add(Inst::Set { set, next })
    }

    fn set(&mut self, ranges: Vec<(u32, u32)>) -> u32 {
        let shared = self.shared.entry(RangesKey(ranges));
        let set = shared.or_insert_with_key(|key| Arc::new(Set::new(&key.0)));
        let sets = &mut self.sets;
        *self.known.entry(Arc::as_ptr(set)).or_insert_with(|| {
            sets.push(Arc::clone(set));
            sets.len() as u32 - 1
        })
    }

    // Which iteration of a loop is preferred where its body may be empty is as in regex-automata's compiler.
    fn repetition(&mut self, repetition: &Repetition, next: Pc) -> Pc {
        let Repetition {
            min, max, greedy, ..
        } = *repetition;
        let body = &repetition.sub;
        let (entry, required) = match max {
            None if min == 0 && body.properties().minimum_len().is_some_and(|len| len > 0) => {
                let again = self.choice();
                let once = self.compile(body, again);
                self.choose(again, once, next, greedy);
                (again, 0)
            }
            None => {
                let again = self.choice();
                let once = self.compile(body, again);
                self.choose(again, once, next, greedy);
                match min {
                    0 => {
                        let entry = self.choice();
                        self.choose(entry, once, next, greedy);
                        (entry, 0)
                    }
                    _ => (once, min - 1),
                }
            }
            Some(max) => {
                let mut entry = next;
                for _ in min..max {
                    let once = self.compile(body, entry);
                    let choice = self.choice();
                    self.choose(choice, once, next, greedy);
                    entry = choice;
                }
                (entry, min)
            }
        };
        (0..required).fold(entry, |entry, _| self.compile(body, entry))
    }

    fn choice(&mut self) -> Pc {
        self.add(Inst::Split {
            first: NONE,
            second: NONE,
        })
    }

    /// Whether the choice goes on with the body or behind the repetition.
    fn choose(&mut self, choice: Pc, body: Pc, behind: Pc, greedy: bool) {
        let (first, second) = match greedy {
            true => (body, behind),
            false => (behind, body),
        };
        self.program[choice as usize] = Inst::Split { first, second };
    }
}

/// A thread: where it is, and what it has noted.
#[derive(Clone, Copy, Debug)]
struct Thread {
    pc: Pc,
    notes: Notes,
}

#[derive(Clone, Copy, Debug)]
struct Notes {
    start: usize,
    /// Where the group begins and ends; `usize::MAX` where it is not known.
    group: (usize, usize),
    /// The last match before this one, an index of [`Search::chain`].
    before: u32,
}

/// A complete match and the one before it.
#[derive(Debug)]
struct Link {
    found: Found,
    before: u32,
}

/// What a search has to remember.
struct Search<'t> {
    vm: &'t PikeVm,
    text: &'t [u8],
    looks: LookMatcher,
    /// Whether a thread that matches leaves those behind it.
    wants_every_end: bool,
    /// By instruction: the number of the position at which a thread came to it last.
    seen: Box<[u32]>,
    position: u32,
    /// Threads at this position, in order of priority.
    threads: Vec<Thread>,
    stack: Vec<Thread>,
}

impl PikeVm {
    /// The matches in `text` from `from` on, as `regex::find_iter` finds them. Assertions see all of `text`.
    pub fn find_all(&self, text: &[u8], from: usize) -> Vec<Found> {
        let mut search = Search::new(self, text);
        let mut chain: Vec<Link> = Vec::new();
        let mut last = NONE;
        let mut at = from;
        let mut threads: Vec<Thread> = Vec::new();
        loop {
            if threads.is_empty() {
                let rest = &text[at..];
                match rest.iter().position(|&byte| self.first.holds(byte)) {
                    Some(skipped) => at += skipped,
                    None => break,
                }
            }
            search.begin();
            let mut matched = None;
            for thread in threads.drain(..) {
                matched = search.follow(thread, at);
                if matched.is_some() {
                    break;
                }
            }
            if let Some(notes) = matched {
                let (start, end) = notes.group;
                let found = Found {
                    range: notes.start..at,
                    group: (end != usize::MAX).then_some(start..end),
                };
                chain.push(Link {
                    found,
                    before: notes.before,
                });
                last = chain.len() as u32 - 1;
            }
            let Some(&byte) = text.get(at) else { break };
            let notes = Notes {
                start: at,
                group: (usize::MAX, usize::MAX),
                before: last,
            };
            if self.first.holds(byte) {
                // What is accepted matches no empty text, so nothing matches at once.
                let pc = self.entry;
                search.follow(Thread { pc, notes }, at);
            }
            at += search.step(at, &mut threads);
        }
        let mut matches = Vec::new();
        while let Some(link) = chain.get(last as usize) {
            matches.push(link.found.clone());
            last = link.before;
        }
        matches.reverse();
        matches
    }

    /// The leftmost start, not before `from`, of a match in `text` that ends at `end`. Assertions see all of `text`.
    pub fn start(&self, text: &[u8], from: usize, end: usize) -> Option<usize> {
        let mut search = Search::new(self, text);
        search.wants_every_end = true;
        let mut threads: Vec<Thread> = Vec::new();
        let mut at = from;
        loop {
            search.begin();
            for thread in threads.drain(..) {
                let matched = search.follow(thread, at);
                // Threads that began earlier come first.
                if let Some(notes) = matched.filter(|_| at == end) {
                    return Some(notes.start);
                }
            }
            if at >= end {
                return None;
            }
            let notes = Notes {
                start: at,
                group: (usize::MAX, usize::MAX),
                before: NONE,
            };
            if self.first.holds(text[at]) {
                let pc = self.entry;
                search.follow(Thread { pc, notes }, at);
            }
            at += search.step(at, &mut threads);
        }
    }

    /// The bytes that a match can begin with, assertions aside.
    fn first_bytes(&self) -> ByteSet {
        let mut first = ByteSet::default();
        let mut seen = vec![false; self.program.len()];
        let mut stack = vec![self.entry];
        while let Some(pc) = stack.pop() {
            if std::mem::replace(&mut seen[pc as usize], true) {
                continue;
            }
            match self.program[pc as usize] {
                Inst::Split { first, second } => stack.extend([first, second]),
                Inst::Look { next, .. } | Inst::Open { next } | Inst::Close { next } => {
                    stack.push(next);
                }
                // The empty text is matched by nothing that is accepted; a program that did would miss nothing.
                Inst::Match => return ByteSet::ALL,
                Inst::Unit { code, .. } => self.add_first(code, code, &mut first),
                Inst::Set { set, .. } => {
                    let set = &self.sets[set as usize];
                    for byte in 0..=255 {
                        if set.low.holds(byte) {
                            self.add_first(byte.into(), byte.into(), &mut first);
                        }
                    }
                    for &(start, end) in &set.high {
                        self.add_first(start, end, &mut first);
                    }
                }
            }
        }
        first
    }

    /// Adds the first bytes of units from `start` to `end`.
    fn add_first(&self, start: u32, end: u32, first: &mut ByteSet) {
        if self.takes_bytes {
            return first.add(start as u8);
        }
        let [start, end] = [start, end].map(|code| {
            let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            char.encode_utf8(&mut [0; 4]).as_bytes()[0]
        });
        (start..=end).for_each(|byte| first.add(byte));
    }

    /// The unit at `at` and its length in bytes; none for a byte that belongs to no character.
    #[inline]
    fn unit(&self, text: &[u8], at: usize) -> (Option<u32>, usize) {
        let byte = text[at];
        if self.takes_bytes || byte.is_ascii() {
            return (Some(byte.into()), 1);
        }
        let len = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return (None, 1),
        };
        let char = text.get(at..at + len).map(std::str::from_utf8);
        match char {
            Some(Ok(text)) => (text.chars().next().map(u32::from), len),
            _ => (None, 1),
        }
    }
}

impl<'t> Search<'t> {
    fn new(vm: &'t PikeVm, text: &'t [u8]) -> Search<'t> {
        Search {
            vm,
            text,
            looks: LookMatcher::new(),
            wants_every_end: false,
            seen: vec![0; vm.program.len()].into_boxed_slice(),
            position: 0,
            threads: Vec::new(),
            stack: Vec::new(),
        }
    }

    /// A position begins.
    fn begin(&mut self) {
        self.threads.clear();
        self.position = self.position.wrapping_add(1);
        if self.position == 0 {
            self.seen.fill(0);
            self.position = 1;
        }
    }

    /// Adds the threads that the thread becomes without taking anything; returns what the first that matches has noted.
    /// That one cuts off those behind it, unless every end is wanted.
    fn follow(&mut self, thread: Thread, at: usize) -> Option<Notes> {
        let mut matched = None;
        self.stack.push(thread);
        while let Some(Thread { pc, mut notes }) = self.stack.pop() {
            let seen = &mut self.seen[pc as usize];
            if std::mem::replace(seen, self.position) == self.position {
                continue;
            }
            let next = match self.vm.program[pc as usize] {
                Inst::Unit { .. } | Inst::Set { .. } => {
                    self.threads.push(Thread { pc, notes });
                    continue;
                }
                Inst::Match => {
                    matched = matched.or(Some(notes));
                    if !self.wants_every_end {
                        self.stack.clear();
                    }
                    continue;
                }
                Inst::Split { first, second } => {
                    self.stack.push(Thread { pc: second, notes });
                    first
                }
                Inst::Look { look, next } => match self.looks.matches(look, self.text, at) {
                    true => next,
                    false => continue,
                },
                Inst::Open { next } => {
                    notes.group.0 = at;
                    next
                }
                Inst::Close { next } => {
                    notes.group.1 = at;
                    next
                }
            };
            self.stack.push(Thread { pc: next, notes });
        }
        matched
    }

    /// Takes the unit at `at`: `out` gets the threads that are left, and the length of the unit is returned.
    fn step(&mut self, at: usize, out: &mut Vec<Thread>) -> usize {
        let (unit, len) = self.vm.unit(self.text, at);
        out.clear();
        let Some(unit) = unit else { return len };
        for &Thread { pc, notes } in &self.threads {
            let next = match self.vm.program[pc as usize] {
                Inst::Unit { code, next } if code == unit => next,
                Inst::Set { set, next } if self.vm.sets[set as usize].holds(unit) => next,
                _ => continue,
            };
            out.push(Thread { pc: next, notes });
        }
        len
    }
}

#[cfg(test)]
mod tests;
