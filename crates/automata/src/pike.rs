//! A Pike VM: full matches with leftmost-first semantics, and the start of a match with a known end.
//!
//! The program has one instruction per character class, so `\w{8,256}` is 256 instructions and not the 80,000 states of
//! an automaton over bytes. Compiling cannot fail, and [`pattern::states`](super::pattern::states) bounds the size of
//! the program, so a search needs no budget and builds nothing while text is read.
//!
//! # All matches in one pass
//!
//! A thread is an instruction with the start of its match, the capture group, and the last match that was complete when
//! it started. When a thread matches, the threads of lower priority are dropped, and the search for the next match
//! begins at once, as a new thread of the lowest priority. The threads that remain may still replace this match by a
//! better one. At the end the chain of matches of the last match is the result.
//!
//! # Invariants
//!
//! 1. Threads are in order of priority: by leftmost start first, then by the preference of the pattern.
//! 2. At most one thread is at an instruction. Of two threads the first is kept: both can reach the same ends, and the
//!    first has the higher priority.
//! 3. A match never overlaps the match before it: a thread carries a chain that ends where the thread started or
//!    before.
//!
//! # Complexity
//!
//! A pass costs at most the length of the text times the length of the program. A search that starts again after each
//! match would be quadratic.

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

/// The end of a chain of matches, and the target of a split that is not patched yet.
const NONE: u32 = u32::MAX;

/// A compiled pattern.
#[derive(Debug)]
pub struct PikeVm {
    program: Box<[Inst]>,
    sets: Box<[Arc<SymbolSet>]>,
    entry: Pc,
    /// The bytes that a match can start with.
    first: ByteSet,
    /// True if instructions match bytes; otherwise they match characters.
    over_bytes: bool,
}

/// One instruction. A unit is a character, or a byte in a program over bytes.
#[derive(Clone, Copy, Debug)]
enum Inst {
    /// Matches this unit.
    Unit { code: u32, next: Pc },
    /// Matches a unit of the set.
    Set { set: u32, next: Pc },
    /// Continues at both targets. The first one has priority.
    Split { first: Pc, second: Pc },
    /// Continues if the assertion holds.
    Look { look: Look, next: Pc },
    /// Records the start of the capture group.
    Open { next: Pc },
    /// Records the end of the capture group.
    Close { next: Pc },
    /// The pattern has matched.
    Match,
}

/// The units that one instruction matches.
#[derive(Debug)]
struct SymbolSet {
    /// The units below 256.
    // ASCII is most of the text and needs one lookup in a bit set.
    low: ByteSet,
    /// The other units, as inclusive ranges in ascending order.
    // Searched by bisection: `\w` has seven hundred ranges.
    high: Box<[(u32, u32)]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct ByteSet([u64; 4]);

impl ByteSet {
    const ALL: ByteSet = ByteSet([u64::MAX; 4]);

    #[inline]
    fn contains(&self, byte: u8) -> bool {
        self.0[usize::from(byte) / 64] >> (byte % 64) & 1 == 1
    }

    fn add(&mut self, byte: u8) {
        self.0[usize::from(byte) / 64] |= 1 << (byte % 64);
    }
}

impl SymbolSet {
    fn new(ranges: &[(u32, u32)]) -> SymbolSet {
        let mut low = ByteSet::default();
        for &(start, end) in ranges {
            (start..=end.min(255)).for_each(|code| low.add(code as u8));
        }
        let high = ranges.iter().filter(|(_, end)| *end > 255);
        SymbolSet {
            low,
            high: high.map(|&(start, end)| (start.max(256), end)).collect(),
        }
    }

    #[inline]
    fn contains(&self, code: u32) -> bool {
        match u8::try_from(code) {
            Ok(byte) => self.low.contains(byte),
            Err(_) => {
                let after = self.high.partition_point(|&(start, _)| start <= code);
                after > 0 && code <= self.high[after - 1].1
            }
        }
    }
}

/// A full match, and the range of the capture group that the program records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PikeMatch {
    /// The full match, in bytes of the haystack.
    pub range: Range<usize>,
    /// The capture group, in bytes of the haystack. `None` if the match does not set the group, or if the program records none.
    pub group: Option<Range<usize>>,
}

/// Compiles patterns. Programs of one compiler share the sets of their classes.
#[derive(Debug, Default)]
pub struct Compiler {
    sets: IdentityMap<RangesKey, Arc<SymbolSet>>,
}

impl Compiler {
    /// Compiles a pattern that [`pattern::accept`](super::pattern::accept) has accepted. The program records the
    /// capture group with the index `group`, and no other.
    ///
    /// # Example: the matches in a text, and where a match that ends at an offset starts
    /// ```
    /// use ttsr_automata::PatternLimits;
    /// use ttsr_automata::pattern::{PatternError, parse};
    /// use ttsr_automata::pike::Compiler;
    ///
    /// let hir = parse("b+", &PatternLimits::default())?;
    /// let engine = Compiler::default().compile(&hir, None);
    /// let found: Vec<_> = engine.find_all(b"abba b", 0).into_iter().map(|found| found.range).collect();
    /// assert_eq!(found, [1..3, 5..6]);
    /// assert_eq!(engine.leftmost_start(b"abba b", 0, 3), Some(1));
    /// assert_eq!(engine.leftmost_start(b"abba b", 0, 4), None);
    /// # Ok::<(), PatternError>(())
    /// ```
    pub fn compile(&mut self, hir: &Hir, group: Option<u32>) -> PikeVm {
        let mut builder = Builder {
            shared: &mut self.sets,
            group,
            over_bytes: needs_bytes(hir),
            program: Vec::new(),
            sets: Vec::new(),
            set_ids: HashMap::new(),
        };
        // The program is compiled back to front, like the NFA, so that each instruction knows its target.
        let end = builder.add(Inst::Match);
        let entry = builder.compile(hir, end);
        let mut vm = PikeVm {
            program: builder.program.into_boxed_slice(),
            sets: builder.sets.into_boxed_slice(),
            entry,
            first: ByteSet::ALL,
            over_bytes: needs_bytes(hir),
        };
        // Needs the complete program.
        vm.first = vm.first_bytes();
        vm
    }
}

struct Builder<'c> {
    shared: &'c mut IdentityMap<RangesKey, Arc<SymbolSet>>,
    group: Option<u32>,
    over_bytes: bool,
    program: Vec<Inst>,
    sets: Vec<Arc<SymbolSet>>,
    /// The index of each set in `sets`, by its address: sets that are shared have one address.
    set_ids: HashMap<*const SymbolSet, u32>,
}

impl Builder<'_> {
    fn add(&mut self, inst: Inst) -> Pc {
        self.program.push(inst);
        self.program.len() as Pc - 1
    }

    /// Compiles the pattern so that it continues at `next`. Returns its entry.
    fn compile(&mut self, hir: &Hir, next: Pc) -> Pc {
        match hir.kind() {
            HirKind::Empty => next,
            HirKind::Literal(literal) => match std::str::from_utf8(&literal.0) {
                Ok(text) if !self.over_bytes => text.chars().rev().fold(next, |next, char| {
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
                // The assertions are evaluated by regex-automata's `LookMatcher`, so they have its semantics by
                // construction.
                let look = Look::from_repr(look.as_repr());
                let look = look.expect("both crates number assertions alike");
                self.add(Inst::Look { look, next })
            }
            HirKind::Capture(capture) if Some(capture.index) == self.group => {
                // Other groups need no instruction: callers use at most one.
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
                // All alternatives continue at the same instruction. Invariant 2 joins their threads there, so
                // alternatives do not multiply the threads after them.
                let entries: Vec<Pc> = subs.iter().map(|sub| self.compile(sub, next)).collect();
                self.add_splits(entries)
            }
            HirKind::Repetition(repetition) => self.repetition(repetition, next),
        }
    }

    /// Adds splits over all entries. The earlier ones have priority.
    fn add_splits(&mut self, mut entries: Vec<Pc>) -> Pc {
        let Some(last) = entries.pop() else {
            return self.add_fail();
        };
        entries.into_iter().rev().fold(last, |second, first| {
            self.add(Inst::Split { first, second })
        })
    }

    /// Adds an instruction that matches no unit.
    fn add_fail(&mut self) -> Pc {
        let set = self.intern_set(Vec::new());
        // The target is never reached. Any instruction will do, and there is one: `Match` is added first.
        self.add(Inst::Set { set, next: 0 })
    }

    fn class(&mut self, class: &Class, next: Pc) -> Pc {
        let ranges: Vec<(u32, u32)> = match class {
            Class::Bytes(class) => {
                let ranges = class.ranges().iter();
                ranges.map(|r| (r.start().into(), r.end().into())).collect()
            }
            Class::Unicode(class) if self.over_bytes => {
                let mut entries = Vec::new();
                for range in class.ranges() {
                    for sequence in Utf8Sequences::new(range.start(), range.end()) {
                        let bytes = sequence.as_slice().iter().rev();
                        entries.push(bytes.fold(next, |next, r| {
                            self.add_ranges(vec![(r.start.into(), r.end.into())], next)
                        }));
                    }
                }
                // The sequences of a class are disjoint, so the order of these splits decides nothing.
                return self.add_splits(entries);
            }
            Class::Unicode(class) => {
                // Over characters a class is one instruction. Over bytes, above, it is one for each byte of each
                // sequence.
                let ranges = class.ranges().iter();
                ranges.map(|r| (r.start().into(), r.end().into())).collect()
            }
        };
        self.add_ranges(ranges, next)
    }

    fn add_ranges(&mut self, ranges: Vec<(u32, u32)>, next: Pc) -> Pc {
        // A class of one unit needs no set. This also covers literals that are written as classes.
        if let [(start, end)] = ranges[..]
            && start == end
        {
            return self.add(Inst::Unit { code: start, next });
        }
        let set = self.intern_set(ranges);
        self.add(Inst::Set { set, next })
    }

    fn intern_set(&mut self, ranges: Vec<(u32, u32)>) -> u32 {
        // Patterns of a pack use the same classes again and again; each is built once for all of them.
        let shared = self.shared.entry(RangesKey(ranges));
        let set = shared.or_insert_with_key(|key| Arc::new(SymbolSet::new(&key.0)));
        let sets = &mut self.sets;
        *self.set_ids.entry(Arc::as_ptr(set)).or_insert_with(|| {
            sets.push(Arc::clone(set));
            sets.len() as u32 - 1
        })
    }

    // The preference between iterations whose body may be empty is the same as in regex-automata's compiler: `(?:a?)*?`
    // must record the same group.
    fn repetition(&mut self, repetition: &Repetition, next: Pc) -> Pc {
        let Repetition {
            min, max, greedy, ..
        } = *repetition;
        let body = &repetition.sub;
        let (entry, required) = match max {
            // The body cannot be empty, so one split is enough: it is both the entry and the loop.
            None if min == 0 && body.properties().minimum_len().is_some_and(|len| len > 0) => {
                // The split is added before its targets are known, and patched afterwards: it is the only edge that
                // leads back, so it is the only instruction that cannot be compiled back to front.
                let again = self.reserve_split();
                let once = self.compile(body, again);
                self.patch_split(again, once, next, greedy);
                (again, 0)
            }
            // The body may be empty: `x*` is compiled as `(?:x+)?`. With a single split, leaving the loop after an
            // empty iteration would have another priority.
            None => {
                let again = self.reserve_split();
                let once = self.compile(body, again);
                self.patch_split(again, once, next, greedy);
                match min {
                    0 => {
                        let entry = self.reserve_split();
                        self.patch_split(entry, once, next, greedy);
                        (entry, 0)
                    }
                    _ => (once, min - 1),
                }
            }
            Some(max) => {
                // From the last optional copy to the first, each entered by a split that may leave the repetition.
                let mut entry = next;
                for _ in min..max {
                    let once = self.compile(body, entry);
                    let split = self.reserve_split();
                    self.patch_split(split, once, next, greedy);
                    entry = split;
                }
                (entry, min)
            }
        };
        // The required copies come first in the text, so they are compiled last.
        (0..required).fold(entry, |entry, _| self.compile(body, entry))
    }

    fn reserve_split(&mut self) -> Pc {
        self.add(Inst::Split {
            first: NONE,
            second: NONE,
        })
    }

    /// Patches a split: the body has priority if the repetition is greedy, otherwise the exit.
    fn patch_split(&mut self, split: Pc, body: Pc, exit: Pc, greedy: bool) {
        let (first, second) = match greedy {
            true => (body, exit),
            false => (exit, body),
        };
        self.program[split as usize] = Inst::Split { first, second };
    }
}

/// A thread: its instruction, and the values that it has recorded.
#[derive(Clone, Copy, Debug)]
struct Thread {
    pc: Pc,
    slots: Slots,
}

#[derive(Clone, Copy, Debug)]
struct Slots {
    /// The start of the match, in bytes of the text.
    start: usize,
    /// The start and the end of the capture group; `usize::MAX` while not recorded.
    group: (usize, usize),
    /// The last match that was complete when the thread started, an index of `chain`.
    before: u32,
}

/// A complete match, and the index of the match before it.
#[derive(Debug)]
struct MatchLink {
    found: PikeMatch,
    before: u32,
}

/// The scratch space of a search.
struct Search<'t> {
    vm: &'t PikeVm,
    text: &'t [u8],
    looks: LookMatcher,
    /// True if a thread that matches does not drop the threads of lower priority.
    wants_every_end: bool,
    /// By instruction: the number of the position at which a thread last reached it.
    // A position number instead of a flag, so that no array is cleared between positions.
    seen: Vec<u32>,
    position: u32,
    /// Threads at this position, in order of priority.
    threads: Vec<Thread>,
    // An explicit stack: the depth of splits is bounded by the program, not by the call stack.
    stack: Vec<Thread>,
}

/// The buffers of [`PikeVm::is_match`], which may be used for any number of patterns and texts, one after another.
#[derive(Debug, Default)]
pub struct PikeCache {
    seen: Vec<u32>,
    threads: Vec<Thread>,
    stepped: Vec<Thread>,
    stack: Vec<Thread>,
}

impl PikeVm {
    /// Returns the matches in `text` from `from` on, as `regex::find_iter` finds them. Assertions see all of `text`.
    ///
    /// # Panics
    /// If `from` is greater than the length of `text`.
    pub fn find_all(&self, text: &[u8], from: usize) -> Vec<PikeMatch> {
        let mut search = Search::new(self, text);
        let mut chain: Vec<MatchLink> = Vec::new();
        let mut last = NONE;
        let mut at = from;
        let mut threads: Vec<Thread> = Vec::new();
        loop {
            // Without threads no match can start before the next first byte, so the bytes up to there are skipped.
            if threads.is_empty() {
                let rest = &text[at..];
                match rest.iter().position(|&byte| self.first.contains(byte)) {
                    Some(skipped) => at += skipped,
                    None => break,
                }
            }
            search.start_position();
            let mut matched = None;
            for thread in threads.drain(..) {
                matched = search.epsilon_closure(thread, at);
                if matched.is_some() {
                    // The threads after this one have lower priority than a complete match, so they are dropped.
                    break;
                }
            }
            if let Some(slots) = matched {
                let (start, end) = slots.group;
                let found = PikeMatch {
                    range: slots.start..at,
                    group: (end != usize::MAX).then_some(start..end),
                };
                // A replaced match stays in `chain` and is no longer referred to.
                chain.push(MatchLink {
                    found,
                    before: slots.before,
                });
                last = chain.len() as u32 - 1;
            }
            // At the end of the text only threads that match are of interest; they have been followed above.
            let Some(&byte) = text.get(at) else { break };
            let slots = Slots {
                start: at,
                group: (usize::MAX, usize::MAX),
                before: last,
            };
            // The lowest priority: the new thread is added after all others.
            if self.first.contains(byte) {
                // An accepted pattern does not match the empty text, so this thread cannot match at once.
                let pc = self.entry;
                search.epsilon_closure(Thread { pc, slots }, at);
            }
            at += search.step(at, &mut threads);
        }
        // The chain starts with the last match.
        let mut matches = Vec::new();
        while let Some(link) = chain.get(last as usize) {
            matches.push(link.found.clone());
            last = link.before;
        }
        // The chain leads from the last match to the first.
        matches.reverse();
        matches
    }

    /// Returns true if the pattern matches in the text. Allocates only if the cache has not been used for a pattern of
    /// this size.
    pub fn is_match(&self, text: &[u8], cache: &mut PikeCache) -> bool {
        // A text without a first byte of the pattern is decided before the cache is touched.
        let Some(mut at) = text.iter().position(|&byte| self.first.contains(byte)) else {
            return false;
        };
        let mut search = Search::with_cache(self, text, cache);
        let mut threads = std::mem::take(&mut cache.stepped);
        threads.clear();
        let is_match = loop {
            search.start_position();
            let mut closures = threads.drain(..);
            if closures.any(|thread| search.epsilon_closure(thread, at).is_some()) {
                break true;
            }
            drop(closures);
            let Some(&byte) = text.get(at) else {
                break false;
            };
            if self.first.contains(byte) {
                let slots = Slots {
                    start: at,
                    group: (usize::MAX, usize::MAX),
                    before: NONE,
                };
                let pc = self.entry;
                search.epsilon_closure(Thread { pc, slots }, at);
            }
            at += search.step(at, &mut threads);
        };
        (cache.seen, cache.threads, cache.stack) = (search.seen, search.threads, search.stack);
        cache.stepped = threads;
        is_match
    }

    /// Returns the leftmost start, not before `from`, of a match in `text` that ends at `end`. Assertions see all of
    /// `text`.
    ///
    /// # Panics
    /// If `end` is greater than the length of `text`, and `from` is less than `end`.
    pub fn leftmost_start(&self, text: &[u8], from: usize, end: usize) -> Option<usize> {
        let mut search = Search::new(self, text);
        // A thread that ends earlier must not drop the threads that end at `end`.
        search.wants_every_end = true;
        let mut threads: Vec<Thread> = Vec::new();
        let mut at = from;
        loop {
            search.start_position();
            for thread in threads.drain(..) {
                let matched = search.epsilon_closure(thread, at);
                // Threads are in the order of their starts, so the first match has the leftmost start.
                if let Some(slots) = matched.filter(|_| at == end) {
                    return Some(slots.start);
                }
            }
            if at >= end {
                return None;
            }
            let slots = Slots {
                start: at,
                group: (usize::MAX, usize::MAX),
                before: NONE,
            };
            if self.first.contains(text[at]) {
                let pc = self.entry;
                search.epsilon_closure(Thread { pc, slots }, at);
            }
            at += search.step(at, &mut threads);
        }
    }

    /// Returns the bytes that a match can start with, ignoring assertions.
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
                // An accepted pattern does not match the empty text. If one did, no byte may be skipped.
                Inst::Match => return ByteSet::ALL,
                Inst::Unit { code, .. } => self.add_first(code, code, &mut first),
                Inst::Set { set, .. } => {
                    let set = &self.sets[set as usize];
                    for byte in 0..=255 {
                        if set.low.contains(byte) {
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
        if self.over_bytes {
            return first.add(start as u8);
        }
        let [start, end] = [start, end].map(|code| {
            let char = char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER);
            // First bytes ascend with code points, so the range of first bytes covers all units between the two.
            char.encode_utf8(&mut [0; 4]).as_bytes()[0]
        });
        (start..=end).for_each(|byte| first.add(byte));
    }

    /// Returns the unit at `at` and its length in bytes; no unit for a byte that belongs to no character.
    #[inline]
    fn unit(&self, text: &[u8], at: usize) -> (Option<u32>, usize) {
        let byte = text[at];
        if self.over_bytes || byte.is_ascii() {
            return (Some(byte.into()), 1);
        }
        // The ranges of Table 3-7 of the Unicode Standard, without C0, C1 and F5 to FF, which begin no character.
        let len = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            _ => return (None, 1),
        };
        // The length comes from the first byte; the other bytes are validated here.
        let char = text.get(at..at + len).map(std::str::from_utf8);
        match char {
            Some(Ok(text)) => (text.chars().next().map(u32::from), len),
            _ => (None, 1),
        }
    }
}

impl<'t> Search<'t> {
    fn new(vm: &'t PikeVm, text: &'t [u8]) -> Search<'t> {
        Search::with_cache(vm, text, &mut PikeCache::default())
    }

    fn with_cache(vm: &'t PikeVm, text: &'t [u8], cache: &mut PikeCache) -> Search<'t> {
        let mut search = Search {
            vm,
            text,
            looks: LookMatcher::new(),
            wants_every_end: false,
            seen: std::mem::take(&mut cache.seen),
            position: 0,
            threads: std::mem::take(&mut cache.threads),
            stack: std::mem::take(&mut cache.stack),
        };
        search.seen.clear();
        // Position 0 is never searched, so 0 means that the instruction was not reached. The cache may come from a
        // longer program, whose marks must not be left.
        search.seen.resize(vm.program.len(), 0);
        search.stack.clear();
        search
    }

    /// Starts a position: no instruction is reached yet.
    fn start_position(&mut self) {
        self.threads.clear();
        self.position = self.position.wrapping_add(1);
        // After 2^32 positions old marks could equal new ones.
        if self.position == 0 {
            self.seen.fill(0);
            self.position = 1;
        }
    }

    /// Adds the epsilon closure of a thread to `threads`, in order of priority. Returns the slots of the first thread
    /// that matches. That thread drops those of lower priority, unless every end is wanted.
    fn epsilon_closure(&mut self, thread: Thread, at: usize) -> Option<Slots> {
        let mut matched = None;
        self.stack.push(thread);
        while let Some(Thread { pc, mut slots }) = self.stack.pop() {
            // Invariant 2: a thread of higher priority is at this instruction already.
            let seen = &mut self.seen[pc as usize];
            if std::mem::replace(seen, self.position) == self.position {
                continue;
            }
            let next = match self.vm.program[pc as usize] {
                Inst::Unit { .. } | Inst::Set { .. } => {
                    self.threads.push(Thread { pc, slots });
                    continue;
                }
                Inst::Match => {
                    // The first match has the highest priority. Others come only if every end is wanted.
                    matched = matched.or(Some(slots));
                    if !self.wants_every_end {
                        self.stack.clear();
                    }
                    continue;
                }
                Inst::Split { first, second } => {
                    // The stack is last in, first out, so the preferred target is explored completely before the other
                    // one.
                    self.stack.push(Thread { pc: second, slots });
                    first
                }
                Inst::Look { look, next } => match self.looks.matches(look, self.text, at) {
                    true => next,
                    false => continue,
                },
                Inst::Open { next } => {
                    slots.group.0 = at;
                    next
                }
                Inst::Close { next } => {
                    slots.group.1 = at;
                    next
                }
            };
            self.stack.push(Thread { pc: next, slots });
        }
        matched
    }

    /// Steps the threads over the unit at `at`. Replaces `out` by the threads that are left, in the same order. Returns
    /// the length of the unit in bytes.
    fn step(&mut self, at: usize, out: &mut Vec<Thread>) -> usize {
        let (unit, len) = self.vm.unit(self.text, at);
        out.clear();
        // No instruction matches a byte of no character, so all threads end here.
        let Some(unit) = unit else { return len };
        for &Thread { pc, slots } in &self.threads {
            let next = match self.vm.program[pc as usize] {
                Inst::Unit { code, next } if code == unit => next,
                Inst::Set { set, next } if self.vm.sets[set as usize].contains(unit) => next,
                _ => continue,
            };
            out.push(Thread { pc: next, slots });
        }
        len
    }
}

#[cfg(test)]
mod tests;
