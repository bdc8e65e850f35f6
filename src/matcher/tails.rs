//! What a cursor carries besides the state of its search: the live tails of cut patterns, and states of
//! its own where the table has no room for them.

use std::sync::atomic::Ordering;

use super::build::Builder;
use super::crowd::{Crowd, Masks};
use super::live::{CUT, Live};
use super::look::Before;
use super::nfa::Nfa;
use super::table::{Short, StateId, Table};

/// A live tail: what follows a gap that was reached. There is one for each cut at most.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    pub(super) cut: u32,
    pub(super) state: StateId,
    /// The state after the symbols being stepped, until they are through.
    pub(super) next: StateId,
}

/// What a cursor rarely has; it is kept once there, so that nothing is allocated again.
#[derive(Clone, Debug, Default)]
pub(super) struct Aside {
    pub(super) tails: Vec<Tail>,
    pub(super) over: Option<Over>,
    /// Room for the tails as they were.
    pub(super) saved: Vec<Tail>,
    /// Symbols that were waited before the table was asked again.
    pub(super) waited: u32,
    /// Room for the states of [`Over`].
    pub(super) crowd: Crowd,
    /// Which patterns have hit, where each is wanted once, and whether all have.
    pub(super) hit: u64,
    pub(super) is_through: bool,
}

/// All states of a cursor, outside any table.
#[derive(Clone, Debug)]
pub(super) struct Over {
    pub(super) before: Before,
    pub(super) search: Crowd,
    pub(super) tails: Vec<(u32, Live)>,
    /// Symbols until the table is asked again whether it knows all of this.
    pub(super) wait: u32,
}

/// What is reported while a symbol is stepped, before it is certain that it can be.
#[derive(Debug, Default)]
pub(super) struct Hits(Vec<(u32, bool)>);

impl Hits {
    pub(super) fn push(&mut self, pattern: u32, is_late: bool) {
        self.0.push((pattern, is_late));
    }

    /// Adds what the state of a tail reports.
    pub(super) fn take(&mut self, table: &Table, state: StateId) {
        let report = table.report(state);
        for (list, is_late) in [(report.late, true), (report.now, false)] {
            let patterns = list.iter().map(|pattern| pattern.load(Ordering::Relaxed));
            patterns.for_each(|pattern| self.push(pattern, is_late));
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn append(&mut self, mut other: Hits) {
        self.0.append(&mut other.0);
    }

    /// Puts them in order, what ended before the symbol first, each once.
    pub(super) fn sort(&mut self) {
        if self.0.len() > 1 {
            self.0
                .sort_unstable_by_key(|&(pattern, is_late)| (!is_late, pattern));
            self.0.dedup();
        }
    }

    /// Each pattern, and whether it ended before the symbol.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, bool)> {
        self.0.iter().copied()
    }
}

impl Aside {
    /// Whether there are no tails, and the state is in the table.
    pub(super) fn is_idle(&self) -> bool {
        self.tails.is_empty() && self.over.is_none()
    }

    /// Forgets everything, for another haystack.
    pub(super) fn clear(&mut self) {
        self.tails.clear();
        self.over = None;
        self.hit = 0;
        self.is_through = false;
    }

    /// Steps the tails over the bytes that the search was stepped over. If that is not plain nothing has
    /// happened.
    #[inline]
    pub(super) fn look_short(&mut self, table: &Table, short: &Short) -> bool {
        let mut all = 0;
        for tail in &mut self.tails {
            let (next, bits) = table.along(short, tail.state);
            tail.next = next;
            all |= bits;
        }
        !table.any_special(all)
    }

    /// Steps the tails over a few bytes. If that is not plain nothing has happened.
    #[inline]
    pub(super) fn push_plain(&mut self, table: &Table, columns: &[u8; 256], bytes: &[u8]) -> bool {
        let mut bits = 0;
        for tail in &mut self.tails {
            tail.next = tail.state;
            bits |= tail.state.entry_bits();
            for &byte in bytes {
                tail.next = table.next(tail.next, usize::from(columns[usize::from(byte)]));
                bits |= tail.next.bits();
            }
        }
        !table.any_special(bits)
    }

    /// Goes on from where the tails were stepped to, without those that are `dead`.
    #[inline]
    pub(super) fn commit(&mut self, dead: StateId) {
        let mut at = 0;
        while let Some(tail) = self.tails.get_mut(at) {
            tail.state = tail.next;
            if tail.state == dead {
                self.tails.swap_remove(at);
            } else {
                at += 1;
            }
        }
    }
}

impl Over {
    /// What the search stands for.
    pub(super) fn live(&self) -> Live {
        Live {
            cut: None,
            before: self.before,
            states: self.search.states().collect(),
        }
    }

    /// Steps search and tails over a symbol of that column.
    pub(super) fn step(
        &mut self,
        nfa: &Nfa,
        masks: &Masks,
        builder: &mut Builder,
        column: usize,
        hits: &mut Hits,
    ) {
        let before = self.before;
        self.before = builder.step_crowd(nfa, masks, &mut self.search, before, column);
        let outcome = &mut builder.step.outcome;
        if self.tails.is_empty() && outcome.now.is_empty() && outcome.late.is_empty() {
            return;
        }
        let (now, late) = (
            std::mem::take(&mut outcome.now),
            std::mem::take(&mut outcome.late),
        );
        for &late in &late {
            self.reach(nfa, builder, late, before, true, hits);
        }
        self.tails.retain_mut(|(_, live)| {
            builder.step_live(nfa, live, column);
            let outcome = &mut builder.step.outcome;
            outcome
                .late
                .iter()
                .for_each(|&pattern| hits.push(pattern, true));
            outcome
                .now
                .iter()
                .for_each(|&pattern| hits.push(pattern, false));
            std::mem::swap(live, &mut outcome.live);
            !live.states.is_empty()
        });
        let before = self.before;
        for &now in &now {
            self.reach(nfa, builder, now, before, false, hits);
        }
        builder.step.outcome.now = now;
        builder.step.outcome.late = late;
    }

    fn reach(
        &mut self,
        nfa: &Nfa,
        builder: &mut Builder,
        reached: u32,
        before: Before,
        is_late: bool,
        hits: &mut Hits,
    ) {
        match reached & CUT {
            0 => hits.push(reached, is_late),
            _ => self.wake(nfa, builder, reached & !CUT, before, is_late, hits),
        }
    }

    /// Wakes the tail of a cut, live or not.
    pub(super) fn wake(
        &mut self,
        nfa: &Nfa,
        builder: &mut Builder,
        cut: u32,
        before: Before,
        is_late: bool,
        hits: &mut Hits,
    ) {
        let known = self.tails.iter_mut().find(|tail| tail.0 == cut);
        let step = &mut builder.step;
        step.wake(
            nfa,
            known.as_ref().map_or(&Live::default(), |tail| &tail.1),
            cut,
            before,
        );
        let outcome = &mut step.outcome;
        outcome
            .now
            .iter()
            .for_each(|&pattern| hits.push(pattern, is_late));
        match known {
            Some(tail) => std::mem::swap(&mut tail.1, &mut outcome.live),
            None if outcome.is_dead() => {}
            None => self.tails.push((cut, std::mem::take(&mut outcome.live))),
        }
    }
}
