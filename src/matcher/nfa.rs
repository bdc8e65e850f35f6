//! A Thompson NFA straight from the syntax tree, one state per character class.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind, Literal, Look, Repetition};
use regex_syntax::utf8::Utf8Sequences;

use super::alphabet::{Alphabet, Asked, Columns, Ranges, Space, TooManyClasses, byte_ranges};
use super::tree::{Step, Tree};

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
}

/// The NFA of several patterns over one alphabet.
#[derive(Debug)]
pub(crate) struct Nfa {
    pub(crate) states: Vec<State>,
    /// The columns that each set holds.
    pub(crate) sets: Vec<Columns>,
    /// Where patterns begin. Patterns with the same beginning share its states.
    pub(crate) starts: Vec<StateId>,
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
    pub(crate) fn new(space: Space, patterns: &[Hir]) -> Result<Nfa, TooManyClasses> {
        let mut builder = Builder {
            space,
            states: Vec::new(),
            sets: Vec::new(),
            ids: HashMap::new(),
        };
        let mut asked = Asked::default();
        let mut has_look = false;
        for pattern in patterns {
            for look in pattern.properties().look_set().iter() {
                has_look = true;
                ask(&mut asked, look);
            }
        }
        let starts = builder.tree(&Tree::new(space, patterns));
        let (alphabet, sets) = Alphabet::new(space, &builder.sets, asked)?;
        Ok(Nfa {
            states: builder.states,
            sets,
            starts,
            alphabet,
            asked,
            has_look,
        })
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
                State::Set { .. } | State::Match(_) => state.clone(),
                State::Split(to) => State::Split(to.iter().map(|next| next + shift).collect()),
                State::Look { look, next } => State::Look {
                    look: *look,
                    next: next + shift,
                },
            })
            .collect();
        self.states.extend(copies);
        self.starts.iter_mut().for_each(|start| *start += shift);
        self
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

struct Builder {
    space: Space,
    states: Vec<State>,
    sets: Vec<Ranges>,
    ids: HashMap<Ranges, u32>,
}

impl Builder {
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
        let sub = &repetition.sub;
        let mut entry = next;
        let mut required = repetition.min;
        match repetition.max {
            None => {
                let again = self.add(State::Split(Box::new([])));
                let body = self.compile(sub, again);
                self.states[again as usize] = State::Split(Box::new([body, next]));
                entry = if required == 0 { again } else { body };
                required = required.saturating_sub(1);
            }
            Some(max) => {
                for _ in repetition.min..max {
                    let body = self.compile(sub, entry);
                    entry = self.add(State::Split(Box::new([body, next])));
                }
            }
        }
        (0..required).fold(entry, |entry, _| self.compile(sub, entry))
    }
}
