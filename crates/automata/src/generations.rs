//! Generations of a shared value that fills up: who uses which, and when a new one starts.
//!
//! This module does not depend on tables. `crates/automata/tests/loom.rs` compiles this file with loom's locks in place
//! of the standard library's.
//!
//! # Invariants
//!
//! 1. A generation lives as long as a cursor holds it. Its values stay valid for that cursor.
//! 2. Each generation has a size. A new one starts only if the sizes of all that are in use and its own come to at most
//!    the limit.
//! 3. Only the current generation is replaced, under the lock. Cursors that ask at the same time for a replacement of
//!    the same generation get one new generation, not several.

use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError, Weak};

/// The current generation and those before it that cursors still hold.
#[derive(Debug)]
pub(crate) struct Generations<T> {
    /// The most that the sizes of all generations in use come to.
    limit: usize,
    /// The number of the current generation. It is read without the lock, as a hint.
    // Relaxed is enough: a stale value only delays the move of a cursor.
    latest: AtomicU32,
    held: Mutex<GenerationSlots<T>>,
}

/// A generation with its number.
#[derive(Debug)]
pub(crate) struct Generation<T> {
    number: u32,
    size: usize,
    of: T,
}

#[derive(Debug)]
struct GenerationSlots<T> {
    current: Arc<Generation<T>>,
    /// The generations before it, with their sizes. Those that no cursor holds are removed when the next one starts.
    previous: Vec<(usize, Weak<Generation<T>>)>,
}

impl<T> Generation<T> {
    /// Returns how many generations came before this one.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }
}

impl<T> std::ops::Deref for Generation<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.of
    }
}

impl<T> Generations<T> {
    /// Creates the first generation, of this size. `limit` bounds the sizes of all that are in use together.
    pub(crate) fn new(first: T, size: usize, limit: usize) -> Generations<T> {
        let current = Arc::new(Generation {
            number: 0,
            size,
            of: first,
        });
        Generations {
            limit,
            latest: AtomicU32::new(0),
            held: Mutex::new(GenerationSlots {
                current,
                previous: Vec::new(),
            }),
        }
    }

    /// Returns the current generation.
    pub(crate) fn current(&self) -> Arc<Generation<T>> {
        // A cursor calls this when it starts, not while it steps bytes.
        Arc::clone(&self.lock().current)
    }

    /// Returns true if this was the current generation a moment ago. The answer may be stale; only speed depends on
    /// it.
    #[inline]
    pub(crate) fn is_latest(&self, generation: &Generation<T>) -> bool {
        generation.number == self.latest.load(Ordering::Relaxed)
    }

    /// Replaces `from` by the current generation. If `from` is the current one, first starts the next, of this size,
    /// unless that would exceed the limit: then `from` stays.
    pub(crate) fn move_to_current(
        &self,
        from: &mut Arc<Generation<T>>,
        size: usize,
        make: impl FnOnce(u32) -> T,
    ) {
        let mut held = self.lock();
        // `make` runs under the lock: a second cursor waits for the new table instead of building another one.
        if Arc::ptr_eq(&held.current, from) && held.size_in_use().saturating_add(size) <= self.limit
        {
            // Wrapping is harmless, because only equality with the current number is tested.
            let number = from.number.wrapping_add(1);
            let of = make(number);
            let next = Arc::new(Generation { number, size, of });
            // Weak, so that the last cursor frees the table.
            let before = (held.current.size, Arc::downgrade(&held.current));
            held.previous.push(before);
            held.current = next;
            self.latest.store(number, Ordering::Relaxed);
        }
        // Dropping the old handle may free a table. That happens under the lock, and at most once for each generation.
        *from = Arc::clone(&held.current);
    }

    fn lock(&self) -> MutexGuard<'_, GenerationSlots<T>> {
        // Only an allocation can fail under this lock, and it does so before any mutation: recovering a poisoned lock
        // is sound.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> GenerationSlots<T> {
    /// Returns the sizes of the generations in use together.
    fn size_in_use(&mut self) -> usize {
        self.previous
            .retain(|(_, generation)| generation.strong_count() > 0);
        let previous = self.previous.iter().map(|(size, _)| size);
        self.current.size + previous.sum::<usize>()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_the_latest_until_the_next_begins() {
        let generations = Generations::new("first", 1, 2);
        let mut mine = generations.current();
        let first = Arc::clone(&mine);
        assert!(generations.is_latest(&first));
        generations.move_to_current(&mut mine, 1, |number| ["first", "second"][number as usize]);
        assert_eq!((**mine, mine.number()), ("second", 1));
        assert!(generations.is_latest(&mine) && !generations.is_latest(&first));
        // The first is still held, so a third would be one too many.
        generations.move_to_current(&mut mine, 1, |_| unreachable!("two are in use"));
        assert_eq!(mine.number(), 1);
        drop(first);
        generations.move_to_current(&mut mine, 1, |_| "third");
        assert_eq!((**mine, mine.number()), ("third", 2));
    }

    #[test]
    fn small_generations_in_use_leave_room_for_larger_ones() {
        let generations = Generations::new((), 1, 20);
        let mut mine = generations.current();
        // A cursor stays in each of them.
        let mut held = Vec::new();
        for size in [3, 10] {
            held.push(Arc::clone(&mine));
            generations.move_to_current(&mut mine, size, |_| ());
        }
        assert_eq!(mine.number(), 2);
        // 14 of 20 are in use. The cursor of the second generation holds three.
        generations.move_to_current(&mut mine, 7, |_| unreachable!("one too many"));
        generations.move_to_current(&mut mine, 6, |_| ());
        assert_eq!(mine.number(), 3);
        drop(held.pop());
        generations.move_to_current(&mut mine, 10, |_| ());
        assert_eq!(mine.number(), 4, "the third is not held either");
    }
}
