//! A Thompson NFA compiled from the syntax tree, with one state for each character class.

use std::collections::hash_map::Entry;

use regex_syntax::hir::{Class, Hir, HirKind, Literal, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use super::alphabet::{
    Alphabet, ColumnSet, LookNeeds, Ranges, SymbolSpace, TooManyClasses, byte_ranges,
};
use super::hash::{IdentityMap, RangesKey};
use super::prefix_tree::{PatternStep, PrefixTree, SplitConfig};
use super::split::{GapCriteria, Selectivity, is_single, selectivity};

/// The index of a state.
pub(crate) type NfaStateId = u32;

/// One state. States are compiled back to front, so each stores where it continues.
#[derive(Clone, Debug)]
pub(crate) enum NfaState {
    /// Takes one symbol of a class (an index into [`Nfa::classes`]).
    Class { class: u32, next: NfaStateId },
    /// An epsilon transition to each of these states.
    Split(Box<[NfaStateId]>),
    /// An epsilon transition if the assertion holds.
    Look { look: Look, next: NfaStateId },
    /// The pattern with this index has matched.
    Match(u32),
    /// The search activates the suffix of this cut (an index into [`Nfa::cuts`]); a suffix continues at `next` itself.
    Cut { cut: u32, next: NfaStateId },
}

/// A cut: the point at which the NFA of a pattern is split into prefix and suffix.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NfaCut {
    /// The first state of the suffix.
    pub(crate) entry: NfaStateId,
    /// True if the suffix contains an assertion, so that its look-behind matters.
    pub(crate) has_look: bool,
}

/// The role of a state among the unrolled copies of a counted repeat. One copy subsumes another if everything
/// reachable from the other is reachable from it. The copies of a repeat have consecutive numbers, the last first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnrolledRepeat {
    /// Not a copy.
    #[default]
    None,
    /// A copy in `x{2,9}` after which the repeat may be over. The earliest live copy subsumes the later ones.
    Bounded(u32),
    /// The loop at the end of `x{5,}`. It subsumes the copies before it.
    Loop(u32),
    /// A copy before such a loop.
    BeforeLoop(u32),
}

/// The NFA of several patterns over one alphabet.
#[derive(Debug)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<NfaState>,
    /// By state: the repeat that it is a copy of.
    copies: Vec<UnrolledRepeat>,
    /// By class: the columns it contains.
    pub(crate) classes: Vec<ColumnSet>,
    /// The start states of the patterns. Patterns with the same prefix share its states.
    pub(crate) starts: Vec<NfaStateId>,
    pub(crate) cuts: Vec<NfaCut>,
    pub(crate) alphabet: Alphabet,
    /// The properties of symbols that the assertions of these patterns ask about.
    pub(crate) look_needs: LookNeeds,
    /// True if any pattern contains an assertion.
    pub(crate) has_look: bool,
}

impl Nfa {
    /// Compiles patterns that [`super::pattern::parse`] has accepted. `Match` holds the index of the pattern in
    /// `patterns`.
    ///
    /// # Errors
    /// [`TooManyClasses`].
    pub(crate) fn new(
        space: SymbolSpace,
        patterns: &[Hir],
        cuts: Option<SplitConfig<'_>>,
    ) -> Result<Nfa, TooManyClasses> {
        let mut compiler = NfaCompiler::new(space, cuts);
        let starts = compiler.tree(&PrefixTree::new(space, patterns, cuts));
        compiler.finish(patterns, starts)
    }

    /// Compiles the patterns without shared prefixes; also returns the pattern of each state.
    pub(crate) fn without_prefix_sharing(
        space: SymbolSpace,
        patterns: &[Hir],
        cuts: Option<SplitConfig<'_>>,
    ) -> Result<(Nfa, Vec<u32>), TooManyClasses> {
        let mut compiler = NfaCompiler::new(space, cuts);
        let (mut starts, mut owners) = (Vec::new(), Vec::new());
        for (index, pattern) in patterns.iter().enumerate() {
            let tree = PrefixTree::of(space, [(index as u32, pattern)], cuts);
            starts.extend(compiler.tree(&tree));
            owners.resize(compiler.states.len(), index as u32);
        }
        Ok((compiler.finish(patterns, starts)?, owners))
    }

    /// Returns, by cut, the patterns after it.
    pub(crate) fn patterns_after_cuts(&self) -> Vec<Vec<u32>> {
        self.patterns_reachable_from(self.cuts.iter().map(|cut| cut.entry))
    }

    /// Returns, by state, the patterns that it leads to.
    pub(crate) fn patterns_reachable_from(
        &self,
        entries: impl Iterator<Item = NfaStateId>,
    ) -> Vec<Vec<u32>> {
        let mut seen = vec![u32::MAX; self.states.len()];
        let patterns_reachable_from = |(round, entry): (u32, NfaStateId)| {
            let (mut stack, mut patterns) = (vec![entry], Vec::new());
            while let Some(state) = stack.pop() {
                if std::mem::replace(&mut seen[state as usize], round) == round {
                    continue;
                }
                match &self.states[state as usize] {
                    NfaState::Match(pattern) => patterns.push(*pattern),
                    NfaState::Split(next) => stack.extend_from_slice(next),
                    NfaState::Class { next, .. }
                    | NfaState::Look { next, .. }
                    | NfaState::Cut { next, .. } => stack.push(*next),
                }
            }
            patterns.sort_unstable();
            patterns.dedup();
            patterns
        };
        (0..).zip(entries).map(patterns_reachable_from).collect()
    }

    /// Adds copies of the start states, so that no start state is ever entered again. A partial match can then be
    /// distinguished from the start closure.
    pub(crate) fn with_distinct_starts(mut self) -> Nfa {
        let shift = self.states.len() as NfaStateId;
        let copies: Vec<NfaState> = self
            .states
            .iter()
            .map(|state| match state {
                // The first symbol leads to the original states, and from there to no copy.
                NfaState::Class { .. } | NfaState::Match(_) | NfaState::Cut { .. } => state.clone(),
                NfaState::Split(to) => {
                    NfaState::Split(to.iter().map(|next| next + shift).collect())
                }
                NfaState::Look { look, next } => NfaState::Look {
                    look: *look,
                    next: next + shift,
                },
            })
            .collect();
        self.states.extend(copies);
        self.copies.resize(self.states.len(), UnrolledRepeat::None);
        self.starts.iter_mut().for_each(|start| *start += shift);
        self
    }

    /// Removes states that others in the sorted list subsume.
    // PERF: without this, 742 rules of kingfisher visit 121,033 states on 12 MB of text, because counted classes
    // overlap themselves (`cargo bench --bench hard -- kingfisher`).
    pub(crate) fn drop_subsumed(&self, states: &mut Vec<NfaStateId>) {
        if self.copies.is_empty() {
            return;
        }
        let mut kept = 0usize;
        for at in 0..states.len() {
            let state = states[at];
            let last = kept.checked_sub(1).map(|last| self.copies_of(states[last]));
            match (last, self.copies_of(state)) {
                (Some(UnrolledRepeat::Bounded(last)), UnrolledRepeat::Bounded(this))
                    if last == this =>
                {
                    kept -= 1
                }
                (Some(UnrolledRepeat::Loop(last)), UnrolledRepeat::BeforeLoop(this))
                    if last == this =>
                {
                    continue;
                }
                _ => {}
            }
            states[kept] = state;
            kept += 1;
        }
        states.truncate(kept);
    }

    fn copies_of(&self, state: NfaStateId) -> UnrolledRepeat {
        self.copies[state as usize]
    }

    /// Returns true if the class contains the column.
    #[inline]
    pub(crate) fn holds(&self, class: u32, column: usize) -> bool {
        self.classes[class as usize][column / 64] >> (column % 64) & 1 == 1
    }
}

/// Returns true if the pattern can match a single byte of a character, or a byte of none, and so needs
/// [`SymbolSpace::Bytes`].
pub(crate) fn needs_bytes(hir: &Hir) -> bool {
    match hir.kind() {
        HirKind::Empty | HirKind::Look(_) | HirKind::Class(Class::Unicode(_)) => false,
        HirKind::Literal(literal) => std::str::from_utf8(&literal.0).is_err(),
        HirKind::Class(Class::Bytes(class)) => !class.is_ascii(),
        HirKind::Capture(capture) => needs_bytes(&capture.sub),
        HirKind::Repetition(repetition) => needs_bytes(&repetition.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => subs.iter().any(needs_bytes),
    }
}

fn ask(look_needs: &mut LookNeeds, look: Look) {
    match look {
        Look::Start | Look::End => {}
        Look::StartLF | Look::EndLF => look_needs.line = true,
        Look::StartCRLF | Look::EndCRLF => look_needs.crlf = true,
        Look::WordAscii
        | Look::WordAsciiNegate
        | Look::WordStartAscii
        | Look::WordEndAscii
        | Look::WordStartHalfAscii
        | Look::WordEndHalfAscii => look_needs.word.ascii = true,
        Look::WordUnicode
        | Look::WordUnicodeNegate
        | Look::WordStartUnicode
        | Look::WordEndUnicode
        | Look::WordStartHalfUnicode
        | Look::WordEndHalfUnicode => look_needs.word.unicode = true,
    }
}

/// Returns, by state, whether it leads to an assertion.
fn looking(states: &[NfaState]) -> Vec<bool> {
    let mut looking = vec![false; states.len()];
    // Only loops lead forward, so a few rounds suffice.
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for (state, kind) in states.iter().enumerate() {
            let is_looking = match kind {
                NfaState::Look { .. } => true,
                NfaState::Match(_) => false,
                NfaState::Class { next, .. } | NfaState::Cut { next, .. } => {
                    looking[*next as usize]
                }
                NfaState::Split(next) => next.iter().any(|&next| looking[next as usize]),
            };
            has_changed |= is_looking && !looking[state];
            looking[state] = is_looking;
        }
    }
    looking
}

struct NfaCompiler {
    space: SymbolSpace,
    gaps: Option<GapCriteria>,
    cuts: Vec<NfaStateId>,
    states: Vec<NfaState>,
    /// Only as long as the last copy; other states are no copies.
    copies: Vec<UnrolledRepeat>,
    repeats: u32,
    classes: Vec<Ranges>,
    ids: IdentityMap<RangesKey, u32>,
}

impl NfaCompiler {
    fn new(space: SymbolSpace, cuts: Option<SplitConfig<'_>>) -> NfaCompiler {
        NfaCompiler {
            space,
            gaps: cuts.map(|cuts| cuts.gaps),
            states: Vec::new(),
            copies: Vec::new(),
            repeats: 0,
            cuts: Vec::new(),
            classes: Vec::new(),
            ids: IdentityMap::default(),
        }
    }

    fn finish(self, patterns: &[Hir], starts: Vec<NfaStateId>) -> Result<Nfa, TooManyClasses> {
        let mut look_needs = LookNeeds::default();
        let mut has_look = false;
        for pattern in patterns {
            for look in pattern.properties().look_set().iter() {
                has_look = true;
                ask(&mut look_needs, look);
            }
        }
        let (alphabet, classes) = Alphabet::new(self.space, &self.classes, look_needs)?;
        let looking = looking(&self.states);
        let cuts = self.cuts.into_iter().map(|entry| NfaCut {
            entry,
            has_look: looking[entry as usize],
        });
        let mut copies = self.copies;
        if !copies.is_empty() {
            copies.resize(self.states.len(), UnrolledRepeat::None);
        }
        Ok(Nfa {
            cuts: cuts.collect(),
            states: self.states,
            copies,
            classes,
            starts,
            alphabet,
            look_needs,
            has_look,
        })
    }

    fn add(&mut self, state: NfaState) -> NfaStateId {
        self.states.push(state);
        self.states.len() as NfaStateId - 1
    }

    fn add_class(&mut self, ranges: Ranges, next: NfaStateId) -> NfaStateId {
        let class = match self.ids.entry(RangesKey(ranges)) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(new) => {
                let class = self.classes.len() as u32;
                self.classes.push(new.key().0.clone());
                *new.insert(class)
            }
        };
        self.add(NfaState::Class { class, next })
    }

    /// Compiles a prefix tree. Returns the entries of the root's branches.
    fn tree(&mut self, tree: &PrefixTree) -> Vec<NfaStateId> {
        // A node comes before its children, and states are compiled back to front.
        let mut entries: Vec<Vec<NfaStateId>> = vec![Vec::new(); tree.nodes.len()];
        for (index, node) in tree.nodes.iter().enumerate().rev() {
            let mut entry: Vec<NfaStateId> = node
                .ends
                .iter()
                .map(|&pattern| self.add(NfaState::Match(pattern)))
                .collect();
            for (step, to) in &node.branches {
                let next = match entries[*to as usize].as_slice() {
                    &[next] => next,
                    several => self.add(NfaState::Split(several.into())),
                };
                // No other branch leads there.
                entries[*to as usize] = Vec::new();
                entry.push(self.step(step, next));
            }
            entries[index] = entry;
        }
        std::mem::take(&mut entries[0])
    }

    fn step(&mut self, step: &PatternStep, next: NfaStateId) -> NfaStateId {
        match (step, self.space) {
            (PatternStep::Unit(code), SymbolSpace::Chars) => {
                self.add_class(vec![(*code, *code)], next)
            }
            (PatternStep::Unit(byte), SymbolSpace::Bytes) => {
                self.byte(*byte as u8, *byte as u8, next)
            }
            (PatternStep::Any(hir), _) => self.compile(hir, next),
            (PatternStep::Cutting(hir, before), _) => match self.gaps {
                Some(gaps) => self.compile_cutting(hir, next, gaps, *before),
                None => self.compile(hir, next),
            },
            (PatternStep::Cut, _) => self.cut(next),
        }
    }

    fn cut(&mut self, next: NfaStateId) -> NfaStateId {
        let cut = self.cuts.len() as u32;
        self.cuts.push(next);
        self.add(NfaState::Cut { cut, next })
    }

    /// Compiles an element that contains gaps to cut before.
    fn compile_cutting(
        &mut self,
        hir: &Hir,
        next: NfaStateId,
        gaps: GapCriteria,
        before: Selectivity,
    ) -> NfaStateId {
        if gaps.is_gap(hir, before) {
            let entry = self.compile(hir, next);
            return self.cut(entry);
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.compile_cutting(&capture.sub, next, gaps, before),
            HirKind::Concat(subs) => {
                let befores: Vec<Selectivity> = subs
                    .iter()
                    .scan(before, |total, sub| {
                        let before = *total;
                        *total += selectivity(sub);
                        Some(before)
                    })
                    .collect();
                let parts = subs.iter().zip(befores).rev();
                parts.fold(next, |next, (sub, before)| {
                    self.compile_cutting(sub, next, gaps, before)
                })
            }
            HirKind::Alternation(subs) => {
                let entries = subs
                    .iter()
                    .map(|sub| self.compile_cutting(sub, next, gaps, before))
                    .collect();
                self.add(NfaState::Split(entries))
            }
            HirKind::Repetition(repetition) if is_single(repetition) => {
                self.repetition_of(repetition, next, |compiler, next| {
                    compiler.compile_cutting(&repetition.sub, next, gaps, before)
                })
            }
            _ => self.compile(hir, next),
        }
    }

    /// Compiles an element so that it continues at `next`. Returns its entry.
    fn compile(&mut self, hir: &Hir, next: NfaStateId) -> NfaStateId {
        match hir.kind() {
            HirKind::Empty => next,
            HirKind::Literal(literal) => self.literal(literal, next),
            HirKind::Class(class) => self.class(class, next),
            HirKind::Look(look) => self.add(NfaState::Look { look: *look, next }),
            HirKind::Capture(capture) => self.compile(&capture.sub, next),
            HirKind::Concat(subs) => subs
                .iter()
                .rev()
                .fold(next, |next, sub| self.compile(sub, next)),
            HirKind::Alternation(subs) => {
                let entries = subs.iter().map(|sub| self.compile(sub, next)).collect();
                self.add(NfaState::Split(entries))
            }
            HirKind::Repetition(repetition) => self.repetition(repetition, next),
        }
    }

    fn literal(&mut self, literal: &Literal, next: NfaStateId) -> NfaStateId {
        match (self.space, std::str::from_utf8(&literal.0)) {
            (SymbolSpace::Chars, Ok(text)) => text.chars().rev().fold(next, |next, char| {
                self.add_class(vec![(u32::from(char), u32::from(char))], next)
            }),
            _ => literal
                .0
                .iter()
                .rev()
                .fold(next, |next, &byte| self.byte(byte, byte, next)),
        }
    }

    fn byte(&mut self, start: u8, end: u8, next: NfaStateId) -> NfaStateId {
        let mut ranges = Ranges::new();
        byte_ranges(start, end, &mut ranges);
        self.add_class(ranges, next)
    }

    fn class(&mut self, class: &Class, next: NfaStateId) -> NfaStateId {
        match (class, self.space) {
            (Class::Bytes(class), _) => {
                let mut ranges = Ranges::new();
                class
                    .ranges()
                    .iter()
                    .for_each(|r| byte_ranges(r.start(), r.end(), &mut ranges));
                self.add_class(ranges, next)
            }
            (Class::Unicode(class), SymbolSpace::Chars) => {
                let ranges = class.ranges().iter();
                self.add_class(
                    ranges
                        .map(|r| (u32::from(r.start()), u32::from(r.end())))
                        .collect(),
                    next,
                )
            }
            (Class::Unicode(class), SymbolSpace::Bytes) => {
                let mut entries = Vec::new();
                for range in class.ranges() {
                    for sequence in Utf8Sequences::new(range.start(), range.end()) {
                        let bytes = sequence.as_slice().iter().rev();
                        entries.push(bytes.fold(next, |next, r| self.byte(r.start, r.end, next)));
                    }
                }
                self.add(NfaState::Split(entries.into_boxed_slice()))
            }
        }
    }

    fn repetition(&mut self, repetition: &Repetition, next: NfaStateId) -> NfaStateId {
        self.repetition_of(repetition, next, |compiler, next| {
            compiler.compile(&repetition.sub, next)
        })
    }

    /// Compiles a repetition whose body is compiled by `body`.
    fn repetition_of(
        &mut self,
        repetition: &Repetition,
        next: NfaStateId,
        mut body: impl FnMut(&mut NfaCompiler, NfaStateId) -> NfaStateId,
    ) -> NfaStateId {
        let mut entry = next;
        let mut required = repetition.min;
        self.repeats += 1;
        let repeat = self.repeats;
        match repetition.max {
            None => {
                let again = self.add(NfaState::Split(Box::new([])));
                let single_match = self.copy(UnrolledRepeat::Loop(repeat), again, &mut body);
                self.states[again as usize] = NfaState::Split(Box::new([single_match, next]));
                entry = if required == 0 { again } else { single_match };
                required = required.saturating_sub(1);
                return (0..required).fold(entry, |entry, _| {
                    self.copy(UnrolledRepeat::BeforeLoop(repeat), entry, &mut body)
                });
            }
            Some(max) => {
                for _ in repetition.min..max {
                    let single_match = self.copy(UnrolledRepeat::Bounded(repeat), entry, &mut body);
                    entry = self.add(NfaState::Split(Box::new([single_match, next])));
                }
                // After the last required copy the repeat may be over, too.
                if required > 0 {
                    entry = self.copy(UnrolledRepeat::Bounded(repeat), entry, &mut body);
                    required -= 1;
                }
            }
        }
        (0..required).fold(entry, |entry, _| body(self, entry))
    }

    /// Compiles one copy of the body, and records its role if the body is a single class.
    fn copy(
        &mut self,
        copies: UnrolledRepeat,
        next: NfaStateId,
        body: &mut impl FnMut(&mut NfaCompiler, NfaStateId) -> NfaStateId,
    ) -> NfaStateId {
        let known = self.states.len();
        let entry = body(self, next);
        let is_set = matches!(self.states.get(known), Some(NfaState::Class { .. }));
        if is_set && self.states.len() == known + 1 {
            self.copies.resize(known, UnrolledRepeat::None);
            self.copies.push(copies);
        }
        entry
    }
}
