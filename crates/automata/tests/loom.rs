//! Models for loom, which tries every order of their threads (up to `LOOM_MAX_PREEMPTIONS` preemptions): who uses
//! which generation of a table, and what one table holds while threads add to it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p ttsr-automata --test loom`

#![cfg(loom)]

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::sync::{Arc, Mutex};
use loom::thread;

/// The matcher's own files, on loom's locks and cells: who uses which table, and what is in one.
#[path = "../src"]
#[allow(dead_code)] // these models are about a part of them
mod matcher {
    pub(crate) mod generations;
    pub(crate) mod simd;
    pub(crate) mod table;

    /// The columns of `a` and `b` beside the one that stays, which is enough to go from one state to another and on,
    /// and that of everything else.
    pub(crate) mod alphabet {
        pub(crate) const STAY: usize = 0;

        pub(crate) struct Alphabet;

        impl Alphabet {
            pub(crate) fn len(&self) -> usize {
                4
            }

            pub(crate) fn bytes(&self) -> &[u8; 256] {
                const BYTES: [u8; 256] = {
                    let mut bytes = [3; 256];
                    bytes[b'a' as usize] = 1;
                    bytes[b'b' as usize] = 2;
                    bytes
                };
                &BYTES
            }
        }
    }

    pub(crate) mod sync {
        use std::marker::PhantomData;
        use std::ops::Deref;

        use loom::sync::atomic::AtomicUsize;
        pub(crate) use loom::sync::atomic::{AtomicU32, Ordering};
        pub(crate) use loom::sync::{Mutex, MutexGuard};
        pub(crate) use std::sync::PoisonError;

        /// loom's has no weak end. This one counts those who hold it in a cell that loom knows, with the
        /// orders of the standard library.
        #[derive(Debug)]
        pub(crate) struct Arc<T> {
            of: std::sync::Arc<T>,
            holders: std::sync::Arc<AtomicUsize>,
        }

        #[derive(Debug)]
        pub(crate) struct Weak<T> {
            holders: Option<std::sync::Arc<AtomicUsize>>,
            of: PhantomData<fn() -> T>,
        }

        impl<T> Arc<T> {
            pub(crate) fn new(of: T) -> Arc<T> {
                Arc {
                    of: std::sync::Arc::new(of),
                    holders: std::sync::Arc::new(AtomicUsize::new(1)),
                }
            }

            pub(crate) fn ptr_eq(this: &Arc<T>, other: &Arc<T>) -> bool {
                std::sync::Arc::ptr_eq(&this.of, &other.of)
            }

            pub(crate) fn downgrade(this: &Arc<T>) -> Weak<T> {
                Weak {
                    holders: Some(std::sync::Arc::clone(&this.holders)),
                    of: PhantomData,
                }
            }
        }

        impl<T> Clone for Arc<T> {
            fn clone(&self) -> Arc<T> {
                self.holders.fetch_add(1, Ordering::Relaxed);
                Arc {
                    of: std::sync::Arc::clone(&self.of),
                    holders: std::sync::Arc::clone(&self.holders),
                }
            }
        }

        impl<T> Drop for Arc<T> {
            fn drop(&mut self) {
                self.holders.fetch_sub(1, Ordering::Release);
            }
        }

        impl<T> Deref for Arc<T> {
            type Target = T;

            fn deref(&self) -> &T {
                &self.of
            }
        }

        impl<T> Weak<T> {
            pub(crate) fn new() -> Weak<T> {
                Weak {
                    holders: None,
                    of: PhantomData,
                }
            }

            pub(crate) fn strong_count(&self) -> usize {
                let holders = self.holders.as_ref();
                holders.map_or(0, |holders| holders.load(Ordering::Relaxed))
            }
        }
    }
}

/// Runs a model of the matcher; how many orders there were.
fn explore_matcher(model: impl Fn() + Send + Sync + 'static) {
    let orders = std::sync::Arc::new(Count::new(0));
    let counted = std::sync::Arc::clone(&orders);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        counted.fetch_add(1, SeqCst);
        model();
    });
    println!("{} orders", orders.load(SeqCst));
}

/// What streams share, as the matcher has it; the text of a table is left out, and who uses it is counted.
mod book {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc as Shared, Mutex as Plain};

    use super::matcher::generations::{Generation, Generations};
    use super::matcher::sync::Arc;

    /// Stands for a table.
    pub(super) struct Table {
        users: Shared<AtomicUsize>,
    }

    /// The users of every table there ever was. Of the model, not of what is modelled: loom does not see it.
    pub(super) type Ledger = Shared<Plain<Vec<Shared<AtomicUsize>>>>;

    pub(super) fn table(ledger: &Ledger) -> Table {
        let users = Shared::new(AtomicUsize::new(0));
        ledger.lock().unwrap().push(Shared::clone(&users));
        Table { users }
    }

    /// A stream: it steps one table at a time.
    pub(super) struct Stream {
        generations: Shared<Generations<Table>>,
        ledger: Ledger,
        at: Arc<Generation<Table>>,
    }

    impl Stream {
        pub(super) fn begin(generations: &Shared<Generations<Table>>, ledger: &Ledger) -> Stream {
            let at = generations.current();
            at.users.fetch_add(1, SeqCst);
            Stream {
                generations: Shared::clone(generations),
                ledger: Shared::clone(ledger),
                at,
            }
        }

        pub(super) fn number(&self) -> u32 {
            self.at.number()
        }

        /// Its table is full: `Lazy::push_over`. Says whether it made a new one.
        pub(super) fn is_worn(&mut self) -> bool {
            let (before, is_latest) = (self.at.number(), self.generations.is_latest(&self.at));
            let has_made = self.move_on();
            let after = self.at.number();
            assert!(after >= before, "from table {before} back to {after}");
            // Who only heard that there is a newer one finds it, and makes none.
            assert!(is_latest || after > before, "there is none after {before}");
            assert!(
                is_latest || !has_made,
                "a table that is not full was replaced"
            );
            has_made
        }

        fn move_on(&mut self) -> bool {
            self.at.users.fetch_sub(1, SeqCst);
            let (ledger, mut has_made) = (&self.ledger, false);
            self.generations.move_to_current(&mut self.at, |_| {
                has_made = true;
                let used = |users: &&Shared<AtomicUsize>| users.load(SeqCst) > 0;
                let used = ledger.lock().unwrap().iter().filter(used).count();
                assert!(used <= 1, "a third table while {used} are in use");
                table(ledger)
            });
            self.at.users.fetch_add(1, SeqCst);
            has_made
        }

        /// Another text begins: `Lazy::restart`.
        pub(super) fn restart(&mut self) {
            if !self.generations.is_latest(&self.at) {
                let before = self.at.number();
                self.at.users.fetch_sub(1, SeqCst);
                self.at = self.generations.current();
                self.at.users.fetch_add(1, SeqCst);
                assert!(self.at.number() > before);
            }
        }
    }

    impl Drop for Stream {
        fn drop(&mut self) {
            self.at.users.fetch_sub(1, SeqCst);
        }
    }
}

/// Streams come, fill their tables, move on and go, all at once. Whatever the order, nobody steps a table that
/// was given up, none is replaced that is not full, and two are in use at most.
#[test]
fn a_full_table_is_replaced_while_others_step_it() {
    explore_matcher(|| {
        let ledger = book::Ledger::default();
        let first = book::table(&ledger);
        let generations = matcher::generations::Generations::new(first);
        let generations = std::sync::Arc::new(generations);
        let stream = {
            let (generations, ledger) = (generations.clone(), ledger.clone());
            move || book::Stream::begin(&generations, &ledger)
        };
        let old = stream();
        let filling = thread::spawn({
            let stream = stream.clone();
            move || {
                let mut stream = stream();
                u32::from(stream.is_worn()) + u32::from(stream.is_worn())
            }
        });
        let reading = thread::spawn({
            let stream = stream.clone();
            move || {
                let mut stream = stream();
                stream.restart();
                let made = u32::from(stream.is_worn());
                drop(old);
                made + u32::from(stream.is_worn())
            }
        });
        let made = filling.join().unwrap() + reading.join().unwrap();
        assert_eq!(stream().number(), made, "each table has the next number");
        assert!(made >= 1, "the first one was replaced");
    });
}

/// Two streams meet a state that is not built. One builds it, or both one after the other; who finds it built
/// finds all of it, though it took no lock.
#[test]
fn a_row_is_whole_before_anyone_steps_into_it() {
    use matcher::alphabet::Alphabet;
    use matcher::table::{RowAllocator, RowSpec, StateId, Table, TableConfig};

    struct Shared {
        table: Table,
        /// Who hands out rows, and the row of the state that is missing.
        rows: Mutex<(RowAllocator, Option<StateId>)>,
        start: StateId,
    }

    impl Shared {
        fn step(&self) {
            let next = self.table.next(self.start, 1);
            let next = match next == self.table.unknown() {
                true => self.build(),
                false => next,
            };
            assert!(self.table.is_special(next));
            let report = self.table.report(next);
            let now = report
                .now
                .iter()
                .map(|pattern| pattern.load(loom::sync::atomic::Ordering::Relaxed));
            assert_eq!(now.collect::<Vec<_>>(), [7], "what it reports");
            assert_eq!(self.table.before(next), 3, "what stands before it");
            let on = self.table.next(next, 2);
            assert_eq!(on, self.table.unknown(), "no cell leads anywhere yet");
        }

        fn build(&self) -> StateId {
            let mut rows = self.rows.lock().unwrap();
            let (rows, known) = &mut *rows;
            let row = known.unwrap_or_else(|| {
                let new = RowSpec {
                    before: 3,
                    now: &[7],
                    late: &[],
                };
                rows.add(&self.table, new).expect("there is room")
            });
            *known = Some(row);
            self.table.set(self.start, 1, row);
            row
        }
    }

    explore_matcher(|| {
        let table = Table::new(&Alphabet, TableConfig::BARE);
        let mut rows = RowAllocator::new(&table);
        let new = RowSpec {
            before: 0,
            now: &[],
            late: &[],
        };
        let start = rows.add(&table, new).expect("there is room");
        let shared = Arc::new(Shared {
            table,
            rows: Mutex::new((rows, None)),
            start,
        });
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || shared.step()
        });
        shared.step();
        other.join().unwrap();
    });
}

/// A state with a narrow row leads to the same, before it is widened, while it is, and behind.
// Here, too, one thread only writes. What is seen behind its end is not asserted: to loom a number of entries that was
// replaced may still be the latest.
#[test]
fn a_narrow_row_leads_where_the_full_one_does() {
    use matcher::alphabet::Alphabet;
    use matcher::table::sparse::SparseRows;
    use matcher::table::{RowAllocator, RowSpec, StateId, Table, TableConfig};

    struct Shared {
        table: Table,
        start: StateId,
        narrow: StateId,
        target: StateId,
    }

    fn new(before: u32) -> RowSpec<'static> {
        RowSpec {
            before,
            now: &[],
            late: &[],
        }
    }

    impl Shared {
        /// Steps to the state with the narrow row and on; says whether it was wide then.
        fn step(&self) -> bool {
            let state = self.table.step(self.start, 1);
            assert_eq!(self.table.before(state), 2, "what stands before it");
            let target = self.table.step(state, 2);
            assert_eq!(target, self.target, "where it leads");
            let other = self.table.step(state, 1);
            assert_eq!(other, self.table.unknown(), "nowhere else");
            !state.is_sparse()
        }
    }

    // Not of loom: what is seen over all orders.
    let seen = [0, 0].map(|_| std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    explore_matcher({
        let seen = seen.clone();
        move || {
            let config = TableConfig {
                sparse: SparseRows {
                    full_rows: 0,
                    ..SparseRows::USUAL
                },
                ..TableConfig::BARE
            };
            let table = Table::new(&Alphabet, config);
            let mut rows = RowAllocator::new(&table);
            let mut add = |before| rows.add(&table, new(before)).expect("there is room");
            let (start, target) = (add(0), add(1));
            let narrow = rows.add_sparse(&table, new(2)).expect("there is room");
            table.set(start, 1, narrow);
            table.set(narrow, 2, target);
            let shared = Arc::new(Shared {
                table,
                start,
                narrow,
                target,
            });
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let full = rows.add(&shared.table, new(2)).expect("there is room");
                    shared.table.promote(shared.narrow, full);
                }
            });
            for _ in 0..2 {
                let is_wide = shared.step();
                seen[usize::from(is_wide)].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            other.join().unwrap();
        }
    });
    for seen in seen {
        let seen = seen.load(std::sync::atomic::Ordering::Relaxed);
        assert!(seen > 0, "the model reaches both");
    }
}
