//! Generations of a shared value that fills up: who uses which, and when a new one starts.
//!
//! This module does not depend on tables. `crates/automata/tests/loom.rs` compiles this file with loom's locks in place
//! of the standard library's.
//!
//! # Invariants
//!
//! 1. A generation lives as long as a cursor holds it. Its values stay valid for that cursor.
//! 2. A new generation starts only while nobody holds the one before the current, so at most two are in use, and memory
//!    is at most twice the budget.
//! 3. Only the current generation is replaced, under the lock. Cursors that ask at the same time for a replacement of
//!    the same generation get one new generation, not several.

use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError, Weak};

/// The current generation and, while a cursor holds it, the previous one.
#[derive(Debug)]
pub(crate) struct Generations<T> {
    /// The number of the current generation. It is read without the lock, as a hint.
    // Relaxed is enough: a stale value only delays the move of a cursor.
    latest: AtomicU32,
    held: Mutex<GenerationSlots<T>>,
}

/// A generation with its number.
#[derive(Debug)]
pub(crate) struct Generation<T> {
    number: u32,
    of: T,
}

#[derive(Debug)]
struct GenerationSlots<T> {
    current: Arc<Generation<T>>,
    /// The previous generation, while a cursor holds it.
    previous: Weak<Generation<T>>,
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
    /// Creates the first generation.
    pub(crate) fn new(first: T) -> Generations<T> {
        let current = Arc::new(Generation {
            number: 0,
            of: first,
        });
        Generations {
            latest: AtomicU32::new(0),
            held: Mutex::new(GenerationSlots {
                current,
                previous: Weak::new(),
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

    /// Replaces `from` by the current generation. If `from` is the current one, first starts the next, unless the
    /// previous one is still held: then `from` stays.
    pub(crate) fn move_to_current(
        &self,
        from: &mut Arc<Generation<T>>,
        make: impl FnOnce(u32) -> T,
    ) {
        let mut held = self.lock();
        let is_current = Arc::ptr_eq(&held.current, from);
        // `make` runs under the lock: a second cursor waits for the new table instead of building another one.
        if is_current && held.previous.strong_count() == 0 {
            // Wrapping is harmless, because only equality with the current number is tested.
            let number = from.number.wrapping_add(1);
            let of = make(number);
            let next = Arc::new(Generation { number, of });
            // Weak, so that the last cursor frees the table.
            held.previous = Arc::downgrade(&held.current);
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

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_generation_is_the_latest_until_the_next_begins() {
        let generations = Generations::new("first");
        let mut mine = generations.current();
        let first = Arc::clone(&mine);
        assert!(generations.is_latest(&first));
        generations.move_to_current(&mut mine, |number| ["first", "second"][number as usize]);
        assert_eq!((**mine, mine.number()), ("second", 1));
        assert!(generations.is_latest(&mine) && !generations.is_latest(&first));
        // The first is still held, so a third would be one too many.
        generations.move_to_current(&mut mine, |_| unreachable!("two are in use"));
        assert_eq!(mine.number(), 1);
        drop(first);
        generations.move_to_current(&mut mine, |_| "third");
        assert_eq!((**mine, mine.number()), ("third", 2));
    }
}
