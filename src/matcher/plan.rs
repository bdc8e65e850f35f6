//! How patterns are laid out: which are cut, and which share an automaton.

use regex_syntax::hir::Hir;

use super::alphabet::{Space, TooManyClasses};
use super::gap::Gaps;
use super::nfa::{self, Nfa};
use super::tree::Cuts;

/// A pattern as it is matched.
#[derive(Debug)]
pub(crate) struct Simplified {
    pub(crate) hir: Hir,
    /// Whether every end is wanted; such patterns are not cut.
    pub(crate) wants_every_end: bool,
}

/// What is cut, and how patterns are spread. All are parameters, so that tests can force each way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// Nothing is cut without.
    pub(crate) gaps: Option<Gaps>,
    pub(crate) spread: Spread,
}

/// Over how many automata patterns are spread.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Spread {
    /// As many as a sample of text shows to be good.
    Sampled,
    /// So many, in turn; each reports every pattern at least once and may stop then.
    #[cfg(test)]
    InTurn(usize),
}

/// The patterns of one automaton.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Indexes of the patterns.
    pub(crate) patterns: Vec<u32>,
    pub(crate) space: Space,
    pub(crate) gaps: Option<Gaps>,
    /// By pattern of the part: not to be cut.
    pub(crate) whole: Vec<bool>,
    /// See [`super::lazy::Lazy::new`].
    pub(crate) once: Option<u32>,
}

impl Part {
    pub(crate) fn nfa(&self, simplified: &[Simplified]) -> Result<Nfa, TooManyClasses> {
        let of = |&pattern: &u32| simplified[pattern as usize].hir.clone();
        let patterns: Vec<Hir> = self.patterns.iter().map(of).collect();
        let whole = &self.whole;
        let cuts = self.gaps.map(|gaps| Cuts { gaps, whole });
        Nfa::new(self.space, &patterns, cuts)
    }
}

impl Plan {
    pub(crate) const USUAL: Plan = Plan {
        gaps: Some(Gaps::USUAL),
        spread: Spread::Sampled,
    };

    /// The automata of these patterns. Those that can match single bytes of characters come last.
    pub(crate) fn lay_out(&self, simplified: &[Simplified]) -> Result<Vec<Part>, TooManyClasses> {
        let needs_bytes = |&pattern: &u32| nfa::needs_bytes(&simplified[pattern as usize].hir);
        let all = 0..simplified.len() as u32;
        let (bytes, chars): (Vec<u32>, Vec<u32>) = all.partition(needs_bytes);
        let mut parts = Vec::new();
        for (space, patterns) in [(Space::Chars, chars), (Space::Bytes, bytes)] {
            if patterns.is_empty() {
                continue;
            }
            let every_end = |&pattern: &u32| simplified[pattern as usize].wants_every_end;
            let whole = patterns.iter().map(every_end).collect();
            let part = Part {
                patterns,
                space,
                gaps: self.gaps,
                whole,
                once: None,
            };
            match self.spread {
                Spread::Sampled => parts.push(part),
                #[cfg(test)]
                Spread::InTurn(unions) => parts.extend(part.in_turn(unions, simplified)),
            }
        }
        Ok(parts)
    }
}

#[cfg(test)]
impl Part {
    fn in_turn(self, unions: usize, simplified: &[Simplified]) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        for (index, pattern) in self.patterns.into_iter().enumerate() {
            if index < unions {
                parts.push(Part {
                    space: self.space,
                    gaps: self.gaps,
                    ..Part::default()
                });
            }
            let part = &mut parts[index % unions];
            part.patterns.push(pattern);
            part.whole.push(self.whole[index]);
        }
        // The first counts invalid bytes, so it is stepped to the end.
        for part in parts.iter_mut().skip(1) {
            let is_once = |&pattern: &u32| !simplified[pattern as usize].wants_every_end;
            if part.patterns.iter().all(is_once) {
                part.once = Some(part.patterns.len() as u32).filter(|&count| count <= 64);
            }
        }
        parts
    }
}
