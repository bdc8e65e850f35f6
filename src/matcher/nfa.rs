//! A Thompson NFA straight from the syntax tree, one state per character class.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind, Literal, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use super::alphabet::{Alphabet, Asked, Columns, Ranges, Space, TooManyClasses, byte_ranges};
use super::gap::{Evidence, Gaps, evidence, is_single};
use super::tree::{Cuts, Step, Tree};

/// Index of a state.
pub(crate) type StateId = u32;

/// One state. States are built back to front, so each knows where it continues.
#[derive(Clone, Debug)]
pub(crate) enum State {
    /// Takes one symbol of the set (an index into [`Nfa::sets`]).
    Set { set: u32, next: StateId },
    /// Continues at each of these without taking anything.
    Split(Box<[StateId]>),
    /// Continues where the assertion holds.
    Look { look: Look, next: StateId },
    /// The pattern with this index has matched.
    Match(u32),
    /// The search goes on in the tail of this cut (an index into [`Nfa::cuts`]); a tail goes on itself.
    Cut { cut: u32, next: StateId },
}

/// Where patterns are cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Where the tail begins.
    pub(crate) entry: StateId,
    /// Whether the tail looks around, so that it matters what stands before.
    pub(crate) has_look: bool,
}

/// Copies of one counted repeat of a class, of which one makes others superfluous: whatever these lead to, it
/// leads to as well. The states of a run of copies stand in a row, the last copy first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Copies {
    /// It is none.
    #[default]
    None,
    /// Of `x{2,9}`, behind which the repeat may be over: the earliest copy covers the others.
    Bounded(u32),
    /// The loop at the end of `x{5,}`: it covers the copies before it.
    Loop(u32),
    /// One of these.
    BeforeLoop(u32),
}

/// The NFA of several patterns over one alphabet.
#[derive(Debug)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<State>,
    /// By state: of which repeat it is a copy.
    copies: Vec<Copies>,
    /// The columns that each set holds.
    pub(crate) sets: Vec<Columns>,
    /// Where patterns begin. Patterns with the same beginning share its states.
    pub(crate) starts: Vec<StateId>,
    pub(crate) cuts: Vec<Cut>,
    pub(crate) alphabet: Alphabet,
    /// What look-around of these patterns asks about.
    pub(crate) asked: Asked,
    /// Whether any pattern looks around.
    pub(crate) has_look: bool,
}

impl Nfa {
    /// Builds the NFA of patterns that [`super::pattern::parse`] has accepted; `Match` holds the
    /// index of the pattern in `patterns`.
    ///
    /// # Errors
    /// [`TooManyClasses`].
    pub(crate) fn new(
        space: Space,
        patterns: &[Hir],
        cuts: Option<Cuts<'_>>,
    ) -> Result<Nfa, TooManyClasses> {
        let mut builder = Builder::new(space, cuts);
        let starts = builder.tree(&Tree::new(space, patterns, cuts));
        builder.finish(patterns, starts)
    }

    /// The same without common beginnings, and to which pattern each state belongs.
    pub(crate) fn apart(
        space: Space,
        patterns: &[Hir],
        cuts: Option<Cuts<'_>>,
    ) -> Result<(Nfa, Vec<u32>), TooManyClasses> {
        let mut builder = Builder::new(space, cuts);
        let (mut starts, mut owners) = (Vec::new(), Vec::new());
        for (index, pattern) in patterns.iter().enumerate() {
            let tree = Tree::of(space, [(index as u32, pattern)], cuts);
            starts.extend(builder.tree(&tree));
            owners.resize(builder.states.len(), index as u32);
        }
        Ok((builder.finish(patterns, starts)?, owners))
    }

    /// The patterns behind each cut.
    pub(crate) fn behind_cuts(&self) -> Vec<Vec<u32>> {
        self.behind(self.cuts.iter().map(|cut| cut.entry))
    }

    /// The patterns that each of these states leads to.
    pub(crate) fn behind(&self, entries: impl Iterator<Item = StateId>) -> Vec<Vec<u32>> {
        let mut seen = vec![u32::MAX; self.states.len()];
        let behind = |(round, entry): (u32, StateId)| {
            let (mut stack, mut patterns) = (vec![entry], Vec::new());
            while let Some(state) = stack.pop() {
                if std::mem::replace(&mut seen[state as usize], round) == round {
                    continue;
                }
                match &self.states[state as usize] {
                    State::Match(pattern) => patterns.push(*pattern),
                    State::Split(next) => stack.extend_from_slice(next),
                    State::Set { next, .. }
                    | State::Look { next, .. }
                    | State::Cut { next, .. } => stack.push(*next),
                }
            }
            patterns.sort_unstable();
            patterns.dedup();
            patterns
        };
        (0..).zip(entries).map(behind).collect()
    }

    /// The same automaton, in which no state that a search begins in is ever entered again: what is in
    /// progress can then be told from what begins anew at every position.
    pub(crate) fn layered(mut self) -> Nfa {
        let shift = self.states.len() as StateId;
        let copies: Vec<State> = self
            .states
            .iter()
            .map(|state| match state {
                // The first symbol leads to the states as they are, and from there to no copy.
                State::Set { .. } | State::Match(_) | State::Cut { .. } => state.clone(),
                State::Split(to) => State::Split(to.iter().map(|next| next + shift).collect()),
                State::Look { look, next } => State::Look {
                    look: *look,
                    next: next + shift,
                },
            })
            .collect();
        self.states.extend(copies);
        self.copies.resize(self.states.len(), Copies::None);
        self.starts.iter_mut().for_each(|start| *start += shift);
        self
    }

    /// Leaves out what others cover; the states are in order, and stay so.
    // PERF: without this, 742 rules of kingfisher visit 121,033 states on 12 MB of text, because counted classes
    // overlap themselves (`cargo bench --bench hard -- kingfisher`).
    pub(crate) fn prune(&self, states: &mut Vec<StateId>) {
        if self.copies.is_empty() {
            return;
        }
        let mut kept = 0usize;
        for at in 0..states.len() {
            let state = states[at];
            let last = kept.checked_sub(1).map(|last| self.copies_of(states[last]));
            match (last, self.copies_of(state)) {
                (Some(Copies::Bounded(last)), Copies::Bounded(this)) if last == this => kept -= 1,
                (Some(Copies::Loop(last)), Copies::BeforeLoop(this)) if last == this => continue,
                _ => {}
            }
            states[kept] = state;
            kept += 1;
        }
        states.truncate(kept);
    }

    fn copies_of(&self, state: StateId) -> Copies {
        self.copies[state as usize]
    }

    /// Whether the set holds the column.
    #[inline]
    pub(crate) fn holds(&self, set: u32, column: usize) -> bool {
        self.sets[set as usize][column / 64] >> (column % 64) & 1 == 1
    }
}

/// Whether the pattern can match a single byte of a character or a byte of none, so that it needs
/// [`Space::Bytes`].
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

fn ask(asked: &mut Asked, look: Look) {
    match look {
        Look::Start | Look::End => {}
        Look::StartLF | Look::EndLF => asked.line = true,
        Look::StartCRLF | Look::EndCRLF => asked.crlf = true,
        Look::WordAscii
        | Look::WordAsciiNegate
        | Look::WordStartAscii
        | Look::WordEndAscii
        | Look::WordStartHalfAscii
        | Look::WordEndHalfAscii => asked.word.ascii = true,
        Look::WordUnicode
        | Look::WordUnicodeNegate
        | Look::WordStartUnicode
        | Look::WordEndUnicode
        | Look::WordStartHalfUnicode
        | Look::WordEndHalfUnicode => asked.word.unicode = true,
    }
}

/// Which states lead to an assertion.
fn looking(states: &[State]) -> Vec<bool> {
    let mut looking = vec![false; states.len()];
    // Loops are the only way forward, so a few rounds do.
    let mut has_changed = true;
    while std::mem::take(&mut has_changed) {
        for (state, kind) in states.iter().enumerate() {
            let is_looking = match kind {
                State::Look { .. } => true,
                State::Match(_) => false,
                State::Set { next, .. } | State::Cut { next, .. } => looking[*next as usize],
                State::Split(next) => next.iter().any(|&next| looking[next as usize]),
            };
            has_changed |= is_looking && !looking[state];
            looking[state] = is_looking;
        }
    }
    looking
}

struct Builder {
    space: Space,
    gaps: Option<Gaps>,
    cuts: Vec<StateId>,
    states: Vec<State>,
    /// As long as states that are copies.
    copies: Vec<Copies>,
    repeats: u32,
    sets: Vec<Ranges>,
    ids: HashMap<Ranges, u32>,
}

impl Builder {
    fn new(space: Space, cuts: Option<Cuts<'_>>) -> Builder {
        Builder {
            space,
            gaps: cuts.map(|cuts| cuts.gaps),
            states: Vec::new(),
            copies: Vec::new(),
            repeats: 0,
            cuts: Vec::new(),
            sets: Vec::new(),
            ids: HashMap::new(),
        }
    }

    fn finish(self, patterns: &[Hir], starts: Vec<StateId>) -> Result<Nfa, TooManyClasses> {
        let mut asked = Asked::default();
        let mut has_look = false;
        for pattern in patterns {
            for look in pattern.properties().look_set().iter() {
                has_look = true;
                ask(&mut asked, look);
            }
        }
        let (alphabet, sets) = Alphabet::new(self.space, &self.sets, asked)?;
        let looking = looking(&self.states);
        let cuts = self.cuts.into_iter().map(|entry| Cut {
            entry,
            has_look: looking[entry as usize],
        });
        let mut copies = self.copies;
        if !copies.is_empty() {
            copies.resize(self.states.len(), Copies::None);
        }
        Ok(Nfa {
            cuts: cuts.collect(),
            states: self.states,
            copies,
            sets,
            starts,
            alphabet,
            asked,
            has_look,
        })
    }

    fn add(&mut self, state: State) -> StateId {
        self.states.push(state);
        self.states.len() as StateId - 1
    }

    fn add_set(&mut self, ranges: Ranges, next: StateId) -> StateId {
        let set = match self.ids.get(&ranges) {
            Some(&set) => set,
            None => {
                let set = self.sets.len() as u32;
                self.sets.push(ranges.clone());
                self.ids.insert(ranges, set);
                set
            }
        };
        self.add(State::Set { set, next })
    }

    /// Compiles what the tree holds; gives where its root's branches begin.
    fn tree(&mut self, tree: &Tree) -> Vec<StateId> {
        // Nodes come before what they lead to, and states are built back to front.
        let mut entries: Vec<Vec<StateId>> = vec![Vec::new(); tree.nodes.len()];
        for (index, node) in tree.nodes.iter().enumerate().rev() {
            let mut entry: Vec<StateId> = node
                .ends
                .iter()
                .map(|&pattern| self.add(State::Match(pattern)))
                .collect();
            for (step, to) in &node.branches {
                let next = match entries[*to as usize].as_slice() {
                    &[next] => next,
                    several => self.add(State::Split(several.into())),
                };
                // Only this branch leads there.
                entries[*to as usize] = Vec::new();
                entry.push(self.step(step, next));
            }
            entries[index] = entry;
        }
        std::mem::take(&mut entries[0])
    }

    fn step(&mut self, step: &Step, next: StateId) -> StateId {
        match (step, self.space) {
            (Step::Unit(code), Space::Chars) => self.add_set(vec![(*code, *code)], next),
            (Step::Unit(byte), Space::Bytes) => self.byte(*byte as u8, *byte as u8, next),
            (Step::Any(hir), _) => self.compile(hir, next),
            (Step::Cutting(hir, before), _) => match self.gaps {
                Some(gaps) => self.compile_cutting(hir, next, gaps, *before),
                None => self.compile(hir, next),
            },
            (Step::Cut, _) => self.cut(next),
        }
    }

    fn cut(&mut self, next: StateId) -> StateId {
        let cut = self.cuts.len() as u32;
        self.cuts.push(next);
        self.add(State::Cut { cut, next })
    }

    /// Compiles a pattern with gaps inside that the search is cut before.
    fn compile_cutting(
        &mut self,
        hir: &Hir,
        next: StateId,
        gaps: Gaps,
        before: Evidence,
    ) -> StateId {
        if gaps.is_gap(hir, before) {
            let entry = self.compile(hir, next);
            return self.cut(entry);
        }
        match hir.kind() {
            HirKind::Capture(capture) => self.compile_cutting(&capture.sub, next, gaps, before),
            HirKind::Concat(subs) => {
                let befores: Vec<Evidence> = subs
                    .iter()
                    .scan(before, |total, sub| {
                        let before = *total;
                        *total += evidence(sub);
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
                self.add(State::Split(entries))
            }
            HirKind::Repetition(repetition) if is_single(repetition) => {
                self.repetition_of(repetition, next, |builder, next| {
                    builder.compile_cutting(&repetition.sub, next, gaps, before)
                })
            }
            _ => self.compile(hir, next),
        }
    }

    /// Compiles the pattern so that it continues at `next`; gives its entry.
    fn compile(&mut self, hir: &Hir, next: StateId) -> StateId {
        match hir.kind() {
            HirKind::Empty => next,
            HirKind::Literal(literal) => self.literal(literal, next),
            HirKind::Class(class) => self.class(class, next),
            HirKind::Look(look) => self.add(State::Look { look: *look, next }),
            HirKind::Capture(capture) => self.compile(&capture.sub, next),
            HirKind::Concat(subs) => subs
                .iter()
                .rev()
                .fold(next, |next, sub| self.compile(sub, next)),
            HirKind::Alternation(subs) => {
                let entries = subs.iter().map(|sub| self.compile(sub, next)).collect();
                self.add(State::Split(entries))
            }
            HirKind::Repetition(repetition) => self.repetition(repetition, next),
        }
    }

    fn literal(&mut self, literal: &Literal, next: StateId) -> StateId {
        match (self.space, std::str::from_utf8(&literal.0)) {
            (Space::Chars, Ok(text)) => text.chars().rev().fold(next, |next, char| {
                self.add_set(vec![(u32::from(char), u32::from(char))], next)
            }),
            _ => literal
                .0
                .iter()
                .rev()
                .fold(next, |next, &byte| self.byte(byte, byte, next)),
        }
    }

    fn byte(&mut self, start: u8, end: u8, next: StateId) -> StateId {
        let mut ranges = Ranges::new();
        byte_ranges(start, end, &mut ranges);
        self.add_set(ranges, next)
    }

    fn class(&mut self, class: &Class, next: StateId) -> StateId {
        match (class, self.space) {
            (Class::Bytes(class), _) => {
                let mut ranges = Ranges::new();
                class
                    .ranges()
                    .iter()
                    .for_each(|r| byte_ranges(r.start(), r.end(), &mut ranges));
                self.add_set(ranges, next)
            }
            (Class::Unicode(class), Space::Chars) => {
                let ranges = class.ranges().iter();
                self.add_set(
                    ranges
                        .map(|r| (u32::from(r.start()), u32::from(r.end())))
                        .collect(),
                    next,
                )
            }
            (Class::Unicode(class), Space::Bytes) => {
                let mut entries = Vec::new();
                for range in class.ranges() {
                    for sequence in Utf8Sequences::new(range.start(), range.end()) {
                        let bytes = sequence.as_slice().iter().rev();
                        entries.push(bytes.fold(next, |next, r| self.byte(r.start, r.end, next)));
                    }
                }
                self.add(State::Split(entries.into_boxed_slice()))
            }
        }
    }

    fn repetition(&mut self, repetition: &Repetition, next: StateId) -> StateId {
        self.repetition_of(repetition, next, |builder, next| {
            builder.compile(&repetition.sub, next)
        })
    }

    /// Compiles a repetition of what `body` compiles.
    fn repetition_of(
        &mut self,
        repetition: &Repetition,
        next: StateId,
        mut body: impl FnMut(&mut Builder, StateId) -> StateId,
    ) -> StateId {
        let mut entry = next;
        let mut required = repetition.min;
        self.repeats += 1;
        let repeat = self.repeats;
        match repetition.max {
            None => {
                let again = self.add(State::Split(Box::new([])));
                let once = self.copy(Copies::Loop(repeat), again, &mut body);
                self.states[again as usize] = State::Split(Box::new([once, next]));
                entry = if required == 0 { again } else { once };
                required = required.saturating_sub(1);
                return (0..required).fold(entry, |entry, _| {
                    self.copy(Copies::BeforeLoop(repeat), entry, &mut body)
                });
            }
            Some(max) => {
                for _ in repetition.min..max {
                    let once = self.copy(Copies::Bounded(repeat), entry, &mut body);
                    entry = self.add(State::Split(Box::new([once, next])));
                }
                // Behind the last required copy the repeat may be over, too.
                if required > 0 {
                    entry = self.copy(Copies::Bounded(repeat), entry, &mut body);
                    required -= 1;
                }
            }
        }
        (0..required).fold(entry, |entry, _| body(self, entry))
    }

    /// One copy of the body of a repeat, which is noted where it is a single set.
    fn copy(
        &mut self,
        copies: Copies,
        next: StateId,
        body: &mut impl FnMut(&mut Builder, StateId) -> StateId,
    ) -> StateId {
        let known = self.states.len();
        let entry = body(self, next);
        let is_set = matches!(self.states.get(known), Some(State::Set { .. }));
        if is_set && self.states.len() == known + 1 {
            self.copies.resize(known, Copies::None);
            self.copies.push(copies);
        }
        entry
    }
}
