//! Models for loom, which explores every interleaving of their threads (up to `LOOM_MAX_PREEMPTIONS` preemptions): the
//! users of the generations of a table, and the contents of one table while threads add to it.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release -p ttsr-automata --test loom`

#![cfg(loom)]

use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};

use loom::sync::{Arc, Mutex};
use loom::thread;

/// The source files of the automaton for generations and tables, compiled with loom's locks and atomics.
#[path = "../src"]
#[allow(dead_code, unreachable_pub)] // these models are about a part of them
mod matcher {
    pub(crate) mod generations;
    pub(crate) mod report;
    pub(crate) mod simd;
    pub(crate) mod table;

    /// A stand-in for the alphabet: `STAY`, the columns of `a` and `b`, and one column for everything else. Two symbols
    /// are enough to step from one state to another and on.
    pub(crate) mod alphabet {
        pub(crate) const STAY: Column = Column(0);

        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Column(usize);

        impl Column {
            pub(crate) const MAX: usize = u8::MAX as usize;

            pub(crate) fn new(index: usize) -> Column {
                Column(index)
            }

            pub(crate) fn index(self) -> usize {
                self.0
            }
        }

        impl From<u8> for Column {
            fn from(column: u8) -> Column {
                Column(usize::from(column))
            }
        }

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

            pub(crate) fn block(&self, bytes: &[u8]) -> [u8; super::table::BLOCK] {
                std::array::from_fn(|at| self.bytes()[usize::from(bytes[at])])
            }
        }
    }

    /// A stand-in for the look-behind.
    pub(crate) mod look {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum LookBehind {
            Start,
            Lf,
            Cr,
        }

        impl LookBehind {
            pub(crate) fn from_number(number: u32) -> LookBehind {
                [LookBehind::Start, LookBehind::Lf, LookBehind::Cr][number as usize]
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

        /// An `Arc` with weak references, which loom's does not have. Its count is an atomic of loom, with the memory
        /// orderings of the standard library.
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

/// Runs a model of the matcher and prints the number of interleavings.
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

/// The state that streams share. Tables are replaced by a count of their users.
mod model {
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::{Arc as Shared, Mutex as Plain};

    use super::matcher::generations::{Generation, Generations};
    use super::matcher::sync::Arc;

    /// A stand-in for a table.
    pub(super) struct Table {
        users: Shared<AtomicUsize>,
    }

    /// The number of users of every table so far. It belongs to the model, not to the modelled code, so loom does not
    /// track it.
    pub(super) type Ledger = Shared<Plain<Vec<Shared<AtomicUsize>>>>;

    pub(super) fn table(ledger: &Ledger) -> Table {
        let users = Shared::new(AtomicUsize::new(0));
        ledger.lock().unwrap().push(Shared::clone(&users));
        Table { users }
    }

    /// A stream, which steps one table at a time.
    pub(super) struct Stream {
        generations: Shared<Generations<Table>>,
        ledger: Ledger,
        at: Arc<Generation<Table>>,
    }

    impl Stream {
        pub(super) fn start(generations: &Shared<Generations<Table>>, ledger: &Ledger) -> Stream {
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

        /// Models `LazyDfa::push_fallback` with a full table. Returns true if it created a new one.
        pub(super) fn replace_full_table(&mut self) -> bool {
            let (before, is_latest) = (self.at.number(), self.generations.is_latest(&self.at));
            let has_created = self.move_to_current();
            let after = self.at.number();
            assert!(after >= before, "from table {before} back to {after}");
            // A stream that learns of a newer table moves to it and creates none.
            assert!(is_latest || after > before, "there is none after {before}");
            assert!(
                is_latest || !has_created,
                "a table that is not full was replaced"
            );
            has_created
        }

        fn move_to_current(&mut self) -> bool {
            self.at.users.fetch_sub(1, SeqCst);
            let (ledger, mut has_created) = (&self.ledger, false);
            self.generations.move_to_current(&mut self.at, 1, |_| {
                has_created = true;
                let used = |users: &&Shared<AtomicUsize>| users.load(SeqCst) > 0;
                let used = ledger.lock().unwrap().iter().filter(used).count();
                assert!(used <= 1, "a third table while {used} are in use");
                table(ledger)
            });
            self.at.users.fetch_add(1, SeqCst);
            has_created
        }

        /// Models `LazyDfa::restart`.
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

/// Streams start, fill their tables, move to others and end, all at once. In every order, no stream steps a table that
/// was freed, no table is replaced that is not full, and at most two of the same size are in use.
#[test]
fn a_full_table_is_replaced_while_others_step_it() {
    explore_matcher(|| {
        let ledger = model::Ledger::default();
        let first = model::table(&ledger);
        let generations = matcher::generations::Generations::new(first, 1, 2);
        let generations = std::sync::Arc::new(generations);
        let stream = {
            let (generations, ledger) = (generations.clone(), ledger.clone());
            move || model::Stream::start(&generations, &ledger)
        };
        let old = stream();
        let filling = thread::spawn({
            let stream = stream.clone();
            move || {
                let mut stream = stream();
                u32::from(stream.replace_full_table()) + u32::from(stream.replace_full_table())
            }
        });
        let reading = thread::spawn({
            let stream = stream.clone();
            move || {
                let mut stream = stream();
                stream.restart();
                let made = u32::from(stream.replace_full_table());
                drop(old);
                made + u32::from(stream.replace_full_table())
            }
        });
        let made = filling.join().unwrap() + reading.join().unwrap();
        assert_eq!(stream().number(), made, "each table has the next number");
        assert!(made >= 1, "the first one was replaced");
    });
}

/// Two streams reach a state that is not built. One of them builds it, or both do one after the other. A stream that
/// finds it built finds its whole row, although it takes no lock.
#[test]
fn a_row_is_whole_before_anyone_steps_into_it() {
    use matcher::alphabet::{Alphabet, Column};
    use matcher::look::LookBehind;
    use matcher::report::{EncodedReport, PatternId, Reported};
    use matcher::table::{RowAllocator, RowSpec, StateId, Table, TableConfig};

    struct Shared {
        table: Table,
        /// The allocator of rows, and the row of the missing state once it is built.
        rows: Mutex<(RowAllocator, Option<StateId>)>,
        start: StateId,
    }

    impl Shared {
        fn step(&self) {
            let next = self.table.step(self.start, Column::new(1));
            let next = match next == self.table.unknown() {
                true => self.build(),
                false => next,
            };
            assert!(self.table.is_special(next));
            let report = self.table.report(next);
            let now = report
                .now
                .iter()
                .map(|cell| EncodedReport::load(cell).decode());
            assert_eq!(
                now.collect::<Vec<_>>(),
                [Reported::Pattern(PatternId(7))],
                "what it reports"
            );
            assert_eq!(self.table.before(next), LookBehind::Cr, "the look-behind");
            let on = self.table.step(next, Column::new(2));
            assert_eq!(on, self.table.unknown(), "no cell leads anywhere yet");
        }

        fn build(&self) -> StateId {
            let mut rows = self.rows.lock().unwrap();
            let (rows, known) = &mut *rows;
            let row = known.unwrap_or_else(|| {
                let new = RowSpec {
                    before: LookBehind::Cr,
                    now: &[EncodedReport::of_pattern(PatternId(7))],
                    late: &[],
                };
                rows.add(&self.table, new).expect("there is room")
            });
            *known = Some(row);
            self.table.set(self.start, Column::new(1), row);
            row
        }
    }

    explore_matcher(|| {
        let table = Table::new(&Alphabet, TableConfig::MINIMAL);
        let mut rows = RowAllocator::new(&table);
        let new = RowSpec {
            before: LookBehind::Start,
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

/// A state with a sparse row leads to the same states before, during and after its promotion.
// One thread only writes. The values after its end are not asserted: in loom's model a replaced entry count may still
// be the latest value.
#[test]
fn a_sparse_row_leads_where_the_full_one_does() {
    use matcher::alphabet::{Alphabet, Column};
    use matcher::look::LookBehind;
    use matcher::table::sparse::SparseRows;
    use matcher::table::{RowAllocator, RowSpec, StateId, Table, TableConfig};

    struct Shared {
        table: Table,
        start: StateId,
        sparse: StateId,
        target: StateId,
    }

    fn new(before: LookBehind) -> RowSpec<'static> {
        RowSpec {
            before,
            now: &[],
            late: &[],
        }
    }

    impl Shared {
        /// Steps to the state with the sparse row and on. Returns true if it had a full row by then.
        fn step(&self) -> bool {
            let state = self.table.step(self.start, Column::new(1));
            assert_eq!(self.table.before(state), LookBehind::Cr, "the look-behind");
            let target = self.table.step(state, Column::new(2));
            assert_eq!(target, self.target, "the target");
            let other = self.table.step(state, Column::new(1));
            assert_eq!(other, self.table.unknown(), "no other transition");
            !state.is_sparse()
        }
    }

    // Atomics of the standard library: they count over all interleavings.
    let seen = [0, 0].map(|_| std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0)));
    explore_matcher({
        let seen = seen.clone();
        move || {
            let config = TableConfig {
                sparse: SparseRows {
                    full_rows: 0,
                    ..SparseRows::USUAL
                },
                ..TableConfig::MINIMAL
            };
            let table = Table::new(&Alphabet, config);
            let mut rows = RowAllocator::new(&table);
            let mut add = |before| rows.add(&table, new(before)).expect("there is room");
            let (start, target) = (add(LookBehind::Start), add(LookBehind::Lf));
            let sparse = rows
                .add_sparse(&table, new(LookBehind::Cr))
                .expect("there is room");
            table.set(start, Column::new(1), sparse);
            table.set(sparse, Column::new(2), target);
            let shared = Arc::new(Shared {
                table,
                start,
                sparse,
                target,
            });
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    let full = rows
                        .add(&shared.table, new(LookBehind::Cr))
                        .expect("there is room");
                    shared.table.promote(shared.sparse, full);
                }
            });
            for _ in 0..2 {
                let is_full = shared.step();
                seen[usize::from(is_full)].fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
            other.join().unwrap();
        }
    });
    for seen in seen {
        let seen = seen.load(std::sync::atomic::Ordering::Relaxed);
        assert!(seen > 0, "the model reaches both");
    }
}
