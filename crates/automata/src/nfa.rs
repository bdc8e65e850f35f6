//! A Thompson NFA compiled from the syntax tree, with one state for each character class.
//!
//! # Invariants
//!
//! 1. States are compiled back to front: a state has a larger number than its targets, except where the loop of an
//!    unbounded repeat leads back.
//! 2. A class state has one target. Only splits have several, and a split with no target is a dead end.
//! 3. The copies of a counted repeat of one class are numbered from the last to the first, with only their splits in
//!    between. `drop_subsumed` relies on it. Required copies have no splits, so their numbers are consecutive, and
//!    `bit_nfa` steps them by a shift.
//! 4. No loop contains a cut: the states of a suffix do not lead back to its cut.
//!
//! # Complexity
//!
//! Compiling is linear in the number of states, which [`states`](super::pattern::states) bounds before anything is
//! compiled. Over characters a class is one state; over bytes it is one state for each byte of each UTF-8 sequence.

use std::borrow::Borrow;
use std::collections::hash_map::Entry;

use regex_syntax::hir::{Class, Hir, HirKind, Literal, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use super::alphabet::{
    Alphabet, Column, ColumnSet, LookNeeds, Ranges, SymbolSpace, TooManyClasses, byte_ranges,
};
use super::hash::{IdentityMap, RangesKey};
use super::prefix_tree::{PatternStep, PrefixTree, SplitConfig};
use super::report::{CutId, PatternId};
use super::split::{GapCriteria, Selectivity, is_single, selectivity};

/// The index of a state of an [`Nfa`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NfaStateId(u32);

impl NfaStateId {
    #[inline]
    pub(crate) const fn from_number(number: u32) -> NfaStateId {
        NfaStateId(number)
    }

    #[inline]
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the state with a number greater by `shift`.
    fn shifted(self, shift: u32) -> NfaStateId {
        NfaStateId(self.0 + shift)
    }
}

/// One state. States are compiled back to front, so each stores where it continues.
#[derive(Clone, Debug)]
pub(crate) enum NfaState {
    /// Takes one symbol of a class (an index into [`Nfa::classes`]).
    Class { class: u32, next: NfaStateId },
    /// An epsilon transition to each of these states.
    Split(Box<[NfaStateId]>),
    /// An epsilon transition if the assertion holds.
    Look { look: Look, next: NfaStateId },
    /// The pattern has matched.
    Match(PatternId),
    /// The search activates the suffix of this cut (an index into [`Nfa::cuts`]); a suffix continues at `next` itself.
    Cut { cut: CutId, next: NfaStateId },
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
/// reachable from the other is reachable from it.
// A search in `x{2,40}` may be in any subset of the copies, and each subset would be a DFA state. Subsumption leaves
// one live copy among those after which the repeat may be over, so there are about forty states and not 2^40.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum UnrolledRepeat {
    /// Not a copy.
    #[default]
    None,
    /// A copy in `x{2,9}` after which the repeat may be over. The earliest live copy subsumes the later ones.
    // Both may leave the repeat after one more symbol, and the earlier one may stay in it for longer. A required copy
    // that another required copy follows has no role: it needs more symbols than a later copy and accepts more, so
    // neither subsumes the other.
    Bounded(u32),
    /// The loop at the end of `x{5,}`. It subsumes the copies before it.
    // The loop may be left after any symbol, or never; a copy before it still needs some.
    Loop(u32),
    /// A copy before such a loop.
    BeforeLoop(u32),
}

/// The NFA of several patterns over one alphabet.
#[derive(Debug)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<NfaState>,
    /// By state: the repeat that it is a copy of.
    // Empty if no pattern has a counted repeat of a class, so that `drop_subsumed` returns at once.
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
        patterns: &[impl Borrow<Hir>],
        cuts: Option<SplitConfig<'_>>,
    ) -> Result<Nfa, TooManyClasses> {
        let mut compiler = NfaCompiler::new(space, cuts);
        let starts = compiler.compile_tree(&PrefixTree::new(space, patterns, cuts));
        compiler.finish(patterns, starts)
    }

    /// Compiles the patterns without shared prefixes. Also returns, by state, the pattern that owns it.
    ///
    /// Each pattern then has states of its own, so a suffix belongs to one pattern and a profile can tell patterns
    /// apart.
    pub(crate) fn without_prefix_sharing(
        space: SymbolSpace,
        patterns: &[impl Borrow<Hir>],
        cuts: Option<SplitConfig<'_>>,
    ) -> Result<(Nfa, Vec<PatternId>), TooManyClasses> {
        let mut compiler = NfaCompiler::new(space, cuts);
        // One tree for each pattern, compiled one after the other: states between two lengths belong to one pattern.
        let (mut starts, mut owners) = (Vec::new(), Vec::new());
        for (pattern, hir) in (0..).map(PatternId).zip(patterns) {
            // A tree of one pattern still merges its alternatives: `ab|ac` has one state for `a`.
            let tree = PrefixTree::from_numbered(space, [(pattern, hir.borrow())], cuts);
            starts.extend(compiler.compile_tree(&tree));
            owners.resize(compiler.states.len(), pattern);
        }
        Ok((compiler.finish(patterns, starts)?, owners))
    }

    /// Returns, by cut, the patterns whose suffix starts at it.
    pub(crate) fn patterns_after_cuts(&self) -> Vec<Vec<PatternId>> {
        self.patterns_reachable_from(self.cuts.iter().map(|cut| cut.entry))
    }

    /// Returns, by entry, the patterns that can be reached from it. Each entry costs a walk over the states it reaches.
    pub(crate) fn patterns_reachable_from(
        &self,
        entries: impl Iterator<Item = NfaStateId>,
    ) -> Vec<Vec<PatternId>> {
        // Marked with the index of the entry, so that it is not cleared between entries.
        let mut seen = vec![u32::MAX; self.states.len()];
        let collect = |(round, entry): (u32, NfaStateId)| {
            let (mut stack, mut patterns) = (vec![entry], Vec::new());
            while let Some(state) = stack.pop() {
                if std::mem::replace(&mut seen[state.index()], round) == round {
                    continue;
                }
                match &self.states[state.index()] {
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
        (0..).zip(entries).map(collect).collect()
    }

    /// Adds copies of the start states, so that no start state is ever entered again.
    ///
    /// A loop at the start of a pattern (`(?:ab)+`) otherwise leads back into the start closure, and a partial match in
    /// the start closure looks like an idle search.
    pub(crate) fn with_distinct_starts(mut self) -> Nfa {
        // Every state gets a copy, because splits and assertions of the start closure may lead anywhere. The copies
        // that no start reaches stay unused.
        let shift = self.states.len() as u32;
        let copies: Vec<NfaState> = self
            .states
            .iter()
            .map(|state| match state {
                // Cloned unchanged: their targets stay in the original copy, so after the first symbol the search is in
                // the original states.
                NfaState::Class { .. } | NfaState::Match(_) | NfaState::Cut { .. } => state.clone(),
                NfaState::Split(to) => {
                    NfaState::Split(to.iter().map(|next| next.shifted(shift)).collect())
                }
                NfaState::Look { look, next } => NfaState::Look {
                    look: *look,
                    next: next.shifted(shift),
                },
            })
            .collect();
        self.states.extend(copies);
        // A copy of a repeat's copy has no role: its number is not next to those of the original ones.
        self.copies.resize(self.states.len(), UnrolledRepeat::None);
        self.starts
            .iter_mut()
            .for_each(|start| *start = start.shifted(shift));
        self
    }

    /// Removes the states that others in the sorted list subsume, in one pass.
    // PERF: without this, 742 rules of kingfisher visit 121,033 states on 12 MB of text, because counted classes
    // overlap themselves (`cargo bench --bench hard -- kingfisher`).
    pub(crate) fn drop_subsumed(&self, states: &mut Vec<NfaStateId>) {
        if self.copies.is_empty() {
            return;
        }
        let mut kept = 0usize;
        // Sorted numbers put the copies of one repeat next to each other (invariant 3), so comparing neighbours
        // suffices. A lower number is a later copy.
        for at in 0..states.len() {
            let state = states[at];
            let last = kept.checked_sub(1).map(|last| self.copy_role(states[last]));
            match (last, self.copy_role(state)) {
                (Some(UnrolledRepeat::Bounded(last)), UnrolledRepeat::Bounded(this))
                    if last == this =>
                {
                    // The last one kept is a later copy, which this one subsumes: it is replaced.
                    kept -= 1
                }
                (Some(UnrolledRepeat::Loop(last)), UnrolledRepeat::BeforeLoop(this))
                    if last == this =>
                {
                    // The loop has the lowest number of its repeat, so it comes before the copies that it subsumes.
                    continue;
                }
                _ => {}
            }
            states[kept] = state;
            kept += 1;
        }
        states.truncate(kept);
    }

    fn copy_role(&self, state: NfaStateId) -> UnrolledRepeat {
        self.copies[state.index()]
    }

    /// Returns true if the class contains the column.
    #[inline]
    pub(crate) fn class_contains(&self, class: u32, column: Column) -> bool {
        let column = column.index();
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

fn record_look(look_needs: &mut LookNeeds, look: Look) {
    // `^` and `$` need no property of a symbol: the start and the end of the haystack are no symbols.
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

/// Returns, by state, true if an assertion can be reached from it.
fn reaches_assertion(states: &[NfaState]) -> Vec<bool> {
    let mut reaches = vec![false; states.len()];
    // By invariant 1 one pass decides all states outside of loops. Loops need a few more passes.
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for (state, kind) in states.iter().enumerate() {
            let is_reached = match kind {
                NfaState::Look { .. } => true,
                NfaState::Match(_) => false,
                NfaState::Class { next, .. } | NfaState::Cut { next, .. } => reaches[next.index()],
                NfaState::Split(next) => next.iter().any(|next| reaches[next.index()]),
            };
            has_changed |= is_reached && !reaches[state];
            reaches[state] = is_reached;
        }
    }
    reaches
}

struct NfaCompiler {
    space: SymbolSpace,
    gaps: Option<GapCriteria>,
    /// By cut: the first state of its suffix.
    cuts: Vec<NfaStateId>,
    states: Vec<NfaState>,
    /// By state, up to the last copy of a repeat; later states are no copies.
    copies: Vec<UnrolledRepeat>,
    /// The number of repeats so far, which identifies a repeat.
    repeats: u32,
    /// By class: its ranges. `ids` finds a class that occurred before, so that equal classes have one set of columns.
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

    fn finish(
        self,
        patterns: &[impl Borrow<Hir>],
        starts: Vec<NfaStateId>,
    ) -> Result<Nfa, TooManyClasses> {
        // The alphabet splits columns only at properties that some assertion asks about.
        let mut look_needs = LookNeeds::default();
        let mut has_look = false;
        for pattern in patterns {
            for look in pattern.borrow().properties().look_set().iter() {
                has_look = true;
                record_look(&mut look_needs, look);
            }
        }
        let (alphabet, classes) = Alphabet::new(self.space, &self.classes, look_needs)?;
        let reaches_assertion = reaches_assertion(&self.states);
        let cuts = self.cuts.into_iter().map(|entry| NfaCut {
            entry,
            has_look: reaches_assertion[entry.index()],
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
        NfaStateId(self.states.len() as u32 - 1)
    }

    fn add_class(&mut self, ranges: Ranges, next: NfaStateId) -> NfaStateId {
        // Patterns of a pack repeat the same classes: each is one set of columns, however many states use it.
        let class = match self.ids.entry(RangesKey(ranges)) {
            Entry::Occupied(existing) => *existing.get(),
            Entry::Vacant(new) => {
                let class = self.classes.len() as u32;
                self.classes.push(new.key().0.clone());
                *new.insert(class)
            }
        };
        self.add(NfaState::Class { class, next })
    }

    /// Compiles a prefix tree. Returns the entries of the root's branches.
    fn compile_tree(&mut self, tree: &PrefixTree) -> Vec<NfaStateId> {
        // A node comes before its children, and states are compiled back to front, so the nodes are visited in reverse.
        let mut entries: Vec<Vec<NfaStateId>> = vec![Vec::new(); tree.nodes.len()];
        for (index, node) in tree.nodes.iter().enumerate().rev() {
            let mut entry: Vec<NfaStateId> = node
                .ends
                .iter()
                .map(|&pattern| self.add(NfaState::Match(pattern)))
                .collect();
            for (step, to) in &node.branches {
                // A chain of elements needs no split.
                let next = match entries[*to as usize].as_slice() {
                    &[next] => next,
                    several => self.add(NfaState::Split(several.into())),
                };
                // Each node has one parent, so this entry is not needed again.
                entries[*to as usize] = Vec::new();
                entry.push(self.compile_step(step, next));
            }
            entries[index] = entry;
        }
        std::mem::take(&mut entries[0])
    }

    fn compile_step(&mut self, step: &PatternStep, next: NfaStateId) -> NfaStateId {
        match (step, self.space) {
            (PatternStep::Unit(code), SymbolSpace::Chars) => {
                self.add_class(vec![(*code, *code)], next)
            }
            (PatternStep::Unit(byte), SymbolSpace::Bytes) => {
                self.byte(*byte as u8, *byte as u8, next)
            }
            (PatternStep::Any(hir), _) => self.compile(hir, next),
            // Without criteria there are no cuts; the element is then compiled as a whole.
            (PatternStep::Cutting(hir, before), _) => match self.gaps {
                Some(gaps) => self.compile_cutting(hir, next, gaps, *before),
                None => self.compile(hir, next),
            },
            (PatternStep::Cut, _) => self.add_cut(next),
        }
    }

    fn add_cut(&mut self, next: NfaStateId) -> NfaStateId {
        let cut = CutId(self.cuts.len() as u32);
        self.cuts.push(next);
        self.add(NfaState::Cut { cut, next })
    }

    /// Compiles an element with gaps inside it, and cuts before each gap.
    ///
    /// `before` is the selectivity of everything in front of the element: a cut is worth it only after a selective
    /// prefix.
    fn compile_cutting(
        &mut self,
        hir: &Hir,
        next: NfaStateId,
        gaps: GapCriteria,
        before: Selectivity,
    ) -> NfaStateId {
        // A path may contain several cuts. The search stops at the first one; its suffix passes the others.
        if gaps.is_gap(hir, before) {
            let entry = self.compile(hir, next);
            return self.add_cut(entry);
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.compile_cutting(&capture.sub, next, gaps, before),
            HirKind::Concat(subs) => {
                // The prefix of a later element includes the elements before it.
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
                // Each alternative may be cut at a gap of its own, with a suffix of its own.
                let entries = subs
                    .iter()
                    .map(|sub| self.compile_cutting(sub, next, gaps, before))
                    .collect();
                self.add(NfaState::Split(entries))
            }
            // At most one copy, so the cut inside it is in no loop (invariant 4).
            HirKind::Repetition(repetition) if is_single(repetition) => {
                self.compile_repetition(repetition, next, |compiler, next| {
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
            HirKind::Repetition(repetition) => self.plain_repetition(repetition, next),
        }
    }

    fn literal(&mut self, literal: &Literal, next: NfaStateId) -> NfaStateId {
        match (self.space, std::str::from_utf8(&literal.0)) {
            (SymbolSpace::Chars, Ok(text)) => text.chars().rev().fold(next, |next, char| {
                self.add_class(vec![(u32::from(char), u32::from(char))], next)
            }),
            // Over bytes, or a literal that is not UTF-8: one state for each byte.
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
            // A byte range includes every role that the byte can have in a character.
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
                // One chain of states for each UTF-8 sequence: characters are not symbols of this alphabet.
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

    fn plain_repetition(&mut self, repetition: &Repetition, next: NfaStateId) -> NfaStateId {
        self.compile_repetition(repetition, next, |compiler, next| {
            compiler.compile(&repetition.sub, next)
        })
    }

    /// Compiles a repetition whose body is compiled by `body`.
    fn compile_repetition(
        &mut self,
        repetition: &Repetition,
        next: NfaStateId,
        mut body: impl FnMut(&mut NfaCompiler, NfaStateId) -> NfaStateId,
    ) -> NfaStateId {
        let mut entry = next;
        let mut required = repetition.min;
        // One identity for the whole repeat; nested repeats get their own.
        self.repeats += 1;
        let repeat = self.repeats;
        match repetition.max {
            None => {
                // The split is added first, empty, because the body of the loop leads back to it.
                let again = self.add(NfaState::Split(Box::new([])));
                let copy = self.compile_copy(UnrolledRepeat::Loop(repeat), again, &mut body);
                // Patched now that both targets exist.
                self.states[again.index()] = NfaState::Split(Box::new([copy, next]));
                // With `x*` the loop may be skipped. With `x{n,}` the last required copy is the loop itself.
                entry = if required == 0 { again } else { copy };
                // One of the required copies is the loop itself.
                required = required.saturating_sub(1);
                return (0..required).fold(entry, |entry, _| {
                    self.compile_copy(UnrolledRepeat::BeforeLoop(repeat), entry, &mut body)
                });
            }
            Some(max) => {
                for _ in repetition.min..max {
                    // Each optional copy is entered by a choice: take it, or leave the repeat.
                    let copy = self.compile_copy(UnrolledRepeat::Bounded(repeat), entry, &mut body);
                    entry = self.add(NfaState::Split(Box::new([copy, next])));
                }
                // After the last required copy the repeat may be over, too, so this copy takes part in subsumption.
                if required > 0 {
                    entry = self.compile_copy(UnrolledRepeat::Bounded(repeat), entry, &mut body);
                    required -= 1;
                }
            }
        }
        // The other required copies must all be matched; none of them subsumes another.
        (0..required).fold(entry, |entry, _| body(self, entry))
    }

    /// Compiles one copy of the body, and records its role if the body is a single class.
    ///
    /// Copies of a longer body overlap in more ways than one, so they are not compared.
    fn compile_copy(
        &mut self,
        role: UnrolledRepeat,
        next: NfaStateId,
        body: &mut impl FnMut(&mut NfaCompiler, NfaStateId) -> NfaStateId,
    ) -> NfaStateId {
        let first = self.states.len();
        let entry = body(self, next);
        let is_class = matches!(self.states.get(first), Some(NfaState::Class { .. }));
        // A body of several states has other states between its copies, so neighbours in a set would not be copies.
        if is_class && self.states.len() == first + 1 {
            self.copies.resize(first, UnrolledRepeat::None);
            self.copies.push(role);
        }
        entry
    }
}
