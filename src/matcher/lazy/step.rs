//! One symbol, whatever it brings: search and tails are stepped, tails woken, what is reached is reported, and
//! what the table lacks is built.

use super::super::Event;
use super::super::alphabet::Place;
use super::super::build::Missing;
use super::super::live::CUT;
use super::super::look::Before;
use super::super::sync::{Arc, Ordering};
use super::super::table::StateId;
use super::super::tails::{Aside, Hits, Tail};
use super::{Built, Cursor, Lazy};

impl Lazy {
    /// One step, wherever the state is; builds what is missing.
    #[inline]
    pub(super) fn step(
        &self,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        if cursor.aside.as_ref().is_none_or(|aside| aside.is_idle())
            && self.step_alone(cursor, column, place, on)
        {
            return;
        }
        while !cursor.is_over() {
            match self.walk(cursor, column) {
                Ok((next, hits)) => {
                    cursor.state = next;
                    self.commit(cursor, hits, place, on);
                    return;
                }
                Err(missing) => self.build(cursor, missing),
            }
        }
        let generation = Arc::clone(&cursor.generation);
        self.step_over(&mut generation.lock(), cursor, column, place, on);
    }

    /// Steps a search that has no tails, if that is built and wakes none; else nothing has happened.
    #[inline]
    fn step_alone(
        &self,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) -> bool {
        let Cursor {
            generation, aside, ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(cursor.state, column);
        if table.is_special(next) {
            if next == table.unknown() || table.is_due(next) {
                return false;
            }
            let report = table.report(next);
            // Lists are in order, and cuts are greater than patterns.
            let last = [report.now.last(), report.late.last()]
                .into_iter()
                .flatten();
            if last.fold(0, |bits, last| bits | last.load(Ordering::Relaxed)) & CUT != 0 {
                return false;
            }
            for (list, is_late) in [(report.late, true), (report.now, false)] {
                for pattern in list {
                    let pattern = pattern.load(Ordering::Relaxed);
                    self.report(aside, pattern, is_late, place, on);
                }
            }
        }
        cursor.state = next;
        true
    }

    /// Goes on from where the tails were stepped to, and reports what was found.
    pub(super) fn commit(
        &self,
        cursor: &mut Cursor,
        mut hits: Hits,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        if let Some(aside) = &mut cursor.aside {
            aside.commit(cursor.generation.dead);
        }
        hits.sort();
        for (pattern, is_late) in hits.iter() {
            self.report(&mut cursor.aside, pattern, is_late, place, on);
        }
        if let (Some(once), Some(aside)) = (&self.once, &mut cursor.aside) {
            once.drop_tails(aside);
        }
    }

    /// Reports a pattern that ends at the symbol, or before it.
    #[inline]
    fn report(
        &self,
        aside: &mut Option<Box<Aside>>,
        pattern: u32,
        is_late: bool,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        if let Some(once) = &self.once
            && !once.is_first(aside.get_or_insert_default(), pattern)
        {
            return;
        }
        let width = if is_late { place.width } else { 0 };
        on(Event {
            pattern,
            at: place.at,
            back: place.back + width,
        });
    }

    /// Steps search and tails through the table, as far as it is built. Nothing has happened but in
    /// [`Tail::next`] of the tails.
    pub(super) fn walk(
        &self,
        cursor: &mut Cursor,
        column: usize,
    ) -> Result<(StateId, Hits), Missing> {
        let Cursor {
            generation,
            state: from,
            aside,
            ..
        } = cursor;
        let table = &generation.table;
        let next = table.step(*from, column);
        if next == table.unknown() {
            return Err(Missing::Step(*from, column));
        }
        if table.is_due(next) {
            return Err(Missing::Row(next));
        }
        let aside = aside.get_or_insert_default();
        let awake = aside.tails.len();
        aside
            .tails
            .iter_mut()
            .for_each(|tail| tail.next = tail.state);
        let hits = match table.is_special(next) {
            false => self.walk_tails(generation, aside, column),
            true => self.walk_special(generation, aside, (*from, next), column),
        };
        if hits.is_err() {
            aside.tails.truncate(awake);
        }
        Ok((next, hits?))
    }

    fn walk_tails(
        &self,
        generation: &Built,
        aside: &mut Aside,
        column: usize,
    ) -> Result<Hits, Missing> {
        let mut hits = Hits::default();
        let table = &generation.table;
        for tail in &mut aside.tails {
            let next = table.step(tail.next, column);
            if table.is_special(next) {
                if next == table.unknown() {
                    return Err(Missing::Step(tail.next, column));
                }
                if table.is_due(next) {
                    return Err(Missing::Row(next));
                }
                hits.take(table, next);
            }
            tail.next = next;
        }
        Ok(hits)
    }

    /// The search goes from one state to another that reports something.
    fn walk_special(
        &self,
        generation: &Built,
        aside: &mut Aside,
        (from, to): (StateId, StateId),
        column: usize,
    ) -> Result<Hits, Missing> {
        let report = generation.table.report(to);
        let mut early = Hits::default();
        for late in report.late {
            let late = late.load(Ordering::Relaxed);
            self.reach(generation, aside, from, late, true, &mut early)?;
        }
        let mut hits = self.walk_tails(generation, aside, column)?;
        hits.append(early);
        for now in report.now {
            let now = now.load(Ordering::Relaxed);
            self.reach(generation, aside, to, now, false, &mut hits)?;
        }
        Ok(hits)
    }

    /// The search, in state `at`, reaches something: a pattern or a cut.
    #[inline]
    fn reach(
        &self,
        generation: &Built,
        aside: &mut Aside,
        at: StateId,
        reached: u32,
        is_late: bool,
        hits: &mut Hits,
    ) -> Result<(), Missing> {
        if reached & CUT == 0 {
            hits.push(reached, is_late);
            return Ok(());
        }
        let cut = reached & !CUT;
        if self
            .once
            .as_ref()
            .is_some_and(|once| once.is_over(aside, cut))
        {
            return Ok(());
        }
        let Built { table, dead, .. } = generation;
        let tails = &mut aside.tails;
        let index = tails.iter().position(|tail| tail.cut == cut);
        let next = match index.map(|index| tails[index].next) {
            Some(live) if live != *dead => match table.woken(live) {
                next if next == table.unknown() => return Err(Missing::Woken(live)),
                next if table.is_due(next) => return Err(Missing::Row(next)),
                next => next,
            },
            _ => {
                let before = Before::ALL[table.before(at) as usize];
                let first = generation.first_of(cut, before);
                first.ok_or(Missing::Start(cut, before))?
            }
        };
        match index {
            Some(index) => tails[index].next = next,
            None => tails.push(Tail {
                cut,
                state: *dead,
                next,
            }),
        }
        if table.is_special(next) {
            table.report(next).now.iter().for_each(|pattern| {
                hits.push(pattern.load(Ordering::Relaxed), is_late);
            });
        }
        Ok(())
    }

    /// Wakes the tails that a haystack begins with.
    pub(super) fn wake_first(&self, cursor: &mut Cursor) {
        if cursor.generation.first_cuts.is_empty() {
            return;
        }
        while !cursor.is_over() {
            match self.walk_first(cursor) {
                Ok(()) => {
                    let dead = cursor.generation.dead;
                    return cursor.aside.iter_mut().for_each(|aside| aside.commit(dead));
                }
                Err(missing) => {
                    cursor.aside.get_or_insert_default().tails.clear();
                    self.build(cursor, missing);
                }
            }
        }
        if let Some(over) = cursor.aside.as_mut().and_then(|aside| aside.over.as_mut()) {
            let mut builder = cursor.generation.lock();
            let hits = &mut Hits::default();
            for &cut in &cursor.generation.first_cuts {
                over.wake(
                    &self.nfa,
                    &mut builder,
                    cut & !CUT,
                    Before::Start,
                    false,
                    hits,
                );
            }
        }
    }

    fn walk_first(&self, cursor: &mut Cursor) -> Result<(), Missing> {
        let Cursor {
            generation, aside, ..
        } = cursor;
        let aside = aside.get_or_insert_default();
        aside.tails.clear();
        for &cut in &generation.first_cuts {
            // No pattern matches the empty text, so nothing is reported here.
            let hits = &mut Hits::default();
            self.reach(generation, aside, generation.start(), cut, false, hits)?;
        }
        Ok(())
    }

    /// Builds what is missing; where there is no room the cursor leaves the table.
    #[cold]
    fn build(&self, cursor: &mut Cursor, missing: Missing) {
        let generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        let stepped = std::mem::take(&mut cursor.stepped);
        match builder.build(&self.nfa, &generation.table, missing, stepped) {
            Some(state) => generation.note(missing, state),
            None => self.leave(cursor, &builder),
        }
    }
}
