//! The generations of something that streams share and that fills up: who uses which, and when a new one begins.
//!
//! It knows nothing of tables. What holds a generation keeps it alive; a new one begins only while nobody
//! holds the one before the current one, so that never more than two are in use. `tests/loom.rs` runs this
//! file with loom's locks in place of the system's.

use super::sync::{Arc, AtomicU32, Mutex, MutexGuard, Ordering, PoisonError, Weak};

/// The current generation and, while somebody holds it, the one before.
#[derive(Debug)]
pub(crate) struct Generations<T> {
    /// The number of the current generation: a hint, for those who hold no lock.
    latest: AtomicU32,
    held: Mutex<GenerationSlots<T>>,
}

/// A generation and its number.
#[derive(Debug)]
pub(crate) struct Generation<T> {
    number: u32,
    of: T,
}

#[derive(Debug)]
struct GenerationSlots<T> {
    current: Arc<Generation<T>>,
    /// The one before, while somebody uses it.
    previous: Weak<Generation<T>>,
}

impl<T> Generation<T> {
    /// How often one was replaced before it.
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
    /// The first generation.
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

    /// The generation that whoever comes now begins in.
    pub(crate) fn current(&self) -> Arc<Generation<T>> {
        Arc::clone(&self.lock().current)
    }

    /// Whether it was the current one a moment ago. What it says may be old by now, and nothing but speed
    /// depends on it.
    #[inline]
    pub(crate) fn is_latest(&self, generation: &Generation<T>) -> bool {
        generation.number == self.latest.load(Ordering::Relaxed)
    }

    /// Moves whoever has no use for a generation any more to the current one. If it holds that already, a new
    /// one begins, which is made for its number, unless the one before is still held: then it stays where it is.
    pub(crate) fn move_to_current(
        &self,
        from: &mut Arc<Generation<T>>,
        make: impl FnOnce(u32) -> T,
    ) {
        let mut held = self.lock();
        let is_current = Arc::ptr_eq(&held.current, from);
        if is_current && held.previous.strong_count() == 0 {
            let number = from.number.wrapping_add(1);
            let of = make(number);
            let next = Arc::new(Generation { number, of });
            held.previous = Arc::downgrade(&held.current);
            held.current = next;
            self.latest.store(number, Ordering::Relaxed);
        }
        *from = Arc::clone(&held.current);
    }

    fn lock(&self) -> MutexGuard<'_, GenerationSlots<T>> {
        // Nothing panics while the lock is held but for want of memory, and then nothing is changed.
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
        // The first is still held, so that a third would be one too many.
        generations.move_to_current(&mut mine, |_| unreachable!("two are in use"));
        assert_eq!(mine.number(), 1);
        drop(first);
        generations.move_to_current(&mut mine, |_| "third");
        assert_eq!((**mine, mine.number()), ("third", 2));
    }
}
