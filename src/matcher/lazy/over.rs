//! Past the budget: a cursor leaves the table with its NFA states, steps them, and comes back.

use super::super::Event;
use super::super::alphabet::Place;
use super::super::build::Builder;
use super::super::crowd::Masks;
use super::super::sync::Arc;
use super::super::tails::{Hits, Over, Tail};
use super::{Built, Cursor, Lazy};

/// Most symbols that a cursor outside the table waits before it asks for its states again.
const MOST_WAIT: u32 = 1023;

/// Bytes stepped past the budget before the lock is let go for others.
const OVER_BATCH: usize = 4096;

impl Lazy {
    /// Steps with the lock held, until the table knows the states again, or the batch or the input ends.
    pub(super) fn push_over(
        &self,
        cursor: &mut Cursor,
        bytes: &[u8],
        mut at: usize,
        on: &mut impl FnMut(Event),
    ) -> usize {
        let mut generation = Arc::clone(&cursor.generation);
        let mut builder = generation.lock();
        if !self.generations.is_latest(&generation) || builder.is_worn() {
            drop(builder);
            self.move_on(cursor);
            generation = Arc::clone(&cursor.generation);
            builder = generation.lock();
        }
        let end = bytes.len().min(at + OVER_BATCH);
        while at < end && !self.settle(cursor, &mut builder) {
            if bytes[at] < 128 && !cursor.decoder.is_pending() {
                let column = self.nfa.alphabet.bytes()[usize::from(bytes[at])];
                let place = Place::whole(1).after(at, 0);
                self.step_over(&mut builder, cursor, column.into(), place, on);
                cursor.decoder.passed_ascii();
                at += 1;
                continue;
            }
            let mut decoder = cursor.decoder;
            decoder.push(bytes[at], |symbol, back| {
                cursor.count(symbol);
                self.nfa.alphabet.symbol(symbol, |column, place| {
                    self.step_over(&mut builder, cursor, column, place.after(at, back), on);
                });
            });
            cursor.decoder = decoder;
            at += 1;
        }
        at
    }

    /// Moves a cursor that has left its table to another generation, if there is or can be one.
    pub(super) fn move_on(&self, cursor: &mut Cursor) {
        let make = |number| Built::new(&self.nfa, self.config.of_generation(number));
        self.generations.move_on(&mut cursor.generation, make);
    }

    /// Gives the cursor its NFA states.
    pub(super) fn leave(&self, cursor: &mut Cursor, builder: &Builder) {
        let table = &cursor.generation.table;
        let state = cursor.state;
        let aside = cursor.aside.get_or_insert_default();
        if aside.over.is_some() {
            return;
        }
        let tails = aside.tails.drain(..);
        let live = builder.live(table, state);
        let mut search = std::mem::take(&mut aside.crowd);
        search.set(self.masks(), live.states);
        aside.over = Some(Over {
            before: live.before,
            search,
            tails: tails
                .map(|tail| (tail.cut, builder.live(table, tail.state)))
                .collect(),
            wait: aside.waited,
        });
    }

    /// Takes a cursor back to the table if that is due, and it knows the states or has room for them.
    fn settle(&self, cursor: &mut Cursor, builder: &mut Builder) -> bool {
        let Some(aside) = &mut cursor.aside else {
            return true;
        };
        let Some(over) = &mut aside.over else {
            return true;
        };
        if over.wait > 0 {
            over.wait -= 1;
            return false;
        }
        aside.waited = (2 * aside.waited + 1).min(MOST_WAIT);
        over.wait = aside.waited;
        let table = &cursor.generation.table;
        let Some(state) = builder.place(&self.nfa, table, &over.live()) else {
            return false;
        };
        let place = |(cut, live): &(u32, _)| {
            let state = builder.place(&self.nfa, table, live)?;
            let (cut, next) = (*cut, state);
            Some(Tail { cut, state, next })
        };
        let Some(tails) = over.tails.iter().map(place).collect::<Option<Vec<Tail>>>() else {
            return false;
        };
        cursor.state = state;
        // What was stepped outside the table says nothing of it.
        cursor.stepped = 0;
        // It may soon be out again, and the first time nothing is waited for.
        aside.waited /= 4;
        aside.tails.extend(tails);
        aside.crowd = aside
            .over
            .take()
            .map(|over| over.search)
            .unwrap_or_default();
        true
    }

    pub(super) fn step_over(
        &self,
        builder: &mut Builder,
        cursor: &mut Cursor,
        column: usize,
        place: Place,
        on: &mut impl FnMut(Event),
    ) {
        builder.passed();
        let mut hits = Hits::default();
        let aside = cursor
            .aside
            .as_mut()
            .expect("the cursor has left the table");
        let over = aside.over.as_mut().expect("the cursor has left the table");
        over.step(&self.nfa, self.masks(), builder, column, &mut hits);
        self.commit(cursor, hits, place, on);
    }

    fn masks(&self) -> &Masks {
        self.masks.get_or_init(|| Masks::new(&self.nfa))
    }
}
