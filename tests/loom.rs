//! Models for loom, which tries every order of their threads (up to `LOOM_MAX_PREEMPTIONS` preemptions).
//!
//! The loop (`ttsr::harness::Run` and its processor) is the code itself; what surrounds it, the wire and the
//! user, are threads of the model. The worker of a hook waits with a deadline, which loom does not know, so
//! its protocol is written down here once more.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --features harness --test loom`

#![cfg(all(loom, feature = "harness"))]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use loom::sync::{Arc, Mutex};
use loom::thread;
use ttsr::harness::{
    AbortReason, Cancel, End, EventStream, Failure, Hooks, Processor, Provider, Request, Run,
    Settings, Step,
};
use ttsr::{Channel, Event, Pack, PartId};

const PART: PartId = PartId(0);

/// What the provider has sent and nobody has read.
#[derive(Default)]
struct Wire {
    sent: VecDeque<Event>,
    is_closed: bool,
    waker: Option<Waker>,
}

fn send(wire: &Mutex<Wire>, change: impl FnOnce(&mut Wire)) {
    let mut wire = wire.lock().unwrap();
    change(&mut wire);
    let waker = wire.waker.take();
    drop(wire);
    if let Some(waker) = waker {
        waker.wake();
    }
}

/// The reader's end; counts how often one was opened and dropped.
struct Reader {
    wire: Arc<Mutex<Wire>>,
    dropped: std::sync::Arc<Count>,
}

impl Stream for Reader {
    type Item = Result<Event, Failure>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut wire = self.wire.lock().unwrap();
        match wire.sent.pop_front() {
            Some(event) => Poll::Ready(Some(Ok(event))),
            None if wire.is_closed => Poll::Ready(None),
            None => {
                wire.waker = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.dropped.fetch_add(1, SeqCst);
    }
}

struct Wired {
    wire: Arc<Mutex<Wire>>,
    opened: usize,
    dropped: std::sync::Arc<Count>,
}

impl Provider for Wired {
    fn send(&mut self, _: &Request) -> EventStream {
        self.opened += 1;
        Box::pin(Reader {
            wire: Arc::clone(&self.wire),
            dropped: std::sync::Arc::clone(&self.dropped),
        })
    }
}

/// What became of a reply.
struct Told {
    end: End,
    /// How often hooks heard of an abort.
    aborts: usize,
    /// What was published, and how often the transport was given up.
    forwarded: Vec<u8>,
    cancels: usize,
}

/// One reply: the wire sends that text and ends, while the user cancels. Checks what holds of every reply.
fn reply(text: &'static str) -> Told {
    let wire = Arc::new(Mutex::new(Wire::default()));
    let cancel = Cancel::default();
    let provider = thread::spawn({
        let wire = Arc::clone(&wire);
        move || {
            send(&wire, |wire| {
                wire.sent.push_back(Event::PartStart {
                    part: PART,
                    name: "0".to_owned(),
                    channel: Channel::Text,
                    tool: None,
                    call: None,
                });
                wire.sent.push_back(Event::Delta {
                    part: PART,
                    bytes: text.into(),
                });
            });
            send(&wire, |wire| {
                wire.sent.push_back(Event::Finish {
                    reason: "stop".to_owned(),
                });
                wire.is_closed = true;
            });
        }
    });
    let user = thread::spawn({
        let (wire, cancel) = (Arc::clone(&wire), cancel.clone());
        move || {
            // The switch itself is tokio's, of which loom sees nothing: here the user meets the reader.
            drop(wire.lock().unwrap());
            cancel.cancel();
        }
    });
    let told = drive(wire, cancel);
    provider.join().unwrap();
    user.join().unwrap();
    told
}

fn drive(wire: Arc<Mutex<Wire>>, cancel: Cancel) -> Told {
    let aborts = std::sync::Arc::new(Count::new(0));
    let mut hooks = Hooks::default();
    let heard = std::sync::Arc::clone(&aborts);
    hooks.on_aborted("count", move |_, _| {
        heard.fetch_add(1, SeqCst);
    });
    let mut processor = Processor::new(PACK.session(), hooks, settings());
    let dropped = std::sync::Arc::new(Count::new(0));
    let mut provider = Wired {
        wire,
        opened: 0,
        dropped: std::sync::Arc::clone(&dropped),
    };
    let request = Request::new("m", Vec::new());
    let mut run = Run::begin(&mut processor, &mut provider, request, "1", cancel);
    let (mut forwarded, mut cancels, mut end) = (Vec::new(), 0, None);
    loom::future::block_on(async {
        while let Some(step) = run.next().await {
            assert!(end.is_none(), "{step:?} behind the end");
            match step {
                Step::Forward { bytes, .. } => {
                    assert_eq!(cancels, 0, "published after the verdict");
                    forwarded.extend(bytes);
                }
                Step::CancelUpstream => {
                    cancels += 1;
                    assert_eq!(dropped.load(SeqCst), 1, "told before the transport is gone");
                }
                Step::Finish(outcome) => end = Some(outcome.end),
                _ => {}
            }
        }
    });
    drop(run);
    assert_eq!(dropped.load(SeqCst), provider.opened, "a transport is left");
    Told {
        end: end.expect("a reply ends"),
        aborts: aborts.load(SeqCst),
        forwarded,
        cancels,
    }
}

static PACK: std::sync::LazyLock<Pack> = std::sync::LazyLock::new(|| {
    let rules = r#"
        schema = 1
        [pack]
        name = "model"
        [rule.bad]
        description = "bad"
        severity = "critical"
        on = ["text"]
        match.any = [{ literal = "bad" }]
        examples.match = ["bad"]
    "#;
    Pack::from_toml(rules).unwrap()
});

/// No bounds of time but one that is never reached: nothing here takes any.
fn settings() -> Settings {
    Settings {
        stall: None,
        attempt: None,
        reply: None,
        ..Settings::default()
    }
}

/// Runs the model with tokio's clock at hand, which stands still. Gives how often each end was seen.
fn explore(model: impl Fn() -> &'static str + Send + Sync + 'static) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    // The stacks of loom's threads are too short for loading it there.
    std::sync::LazyLock::force(&PACK);
    let seen = std::sync::Arc::new(std::sync::Mutex::new(Vec::new()));
    let ends = std::sync::Arc::clone(&seen);
    let mut builder = loom::model::Builder::new();
    builder.max_branches = 100_000;
    builder.preemption_bound = builder.preemption_bound.or(Some(3));
    builder.check(move || {
        let end = model();
        ends.lock().unwrap().push(end);
    });
    let mut seen = seen.lock().unwrap().clone();
    println!("{} orders", seen.len());
    seen.sort_unstable();
    seen.dedup();
    seen
}

/// Either the reply is complete and nobody hears of an abort, or it is the user's and all of it is told once.
#[test]
fn a_cancel_and_the_end_of_a_reply_have_one_winner() {
    let seen = explore(|| {
        let told = reply("good");
        match told.end {
            End::Complete { .. } => {
                assert_eq!((told.aborts, &told.forwarded[..]), (0, &b"good"[..]));
                "complete"
            }
            End::Aborted { reason, .. } => {
                assert_eq!((reason, told.aborts), (AbortReason::User, 1));
                "user"
            }
            end => panic!("{end:?}"),
        }
    });
    assert_eq!(seen, ["complete", "user"], "the model reaches both");
}

/// A rule and the user abort the same reply: hooks hear of one abort, and the transport is given up once.
#[test]
fn an_abort_is_told_once() {
    let seen = explore(|| {
        let told = reply("bad");
        assert_eq!(told.aborts, 1);
        assert!(told.cancels <= 1 && told.forwarded.is_empty());
        match told.end {
            End::Aborted { reason, .. } => reason.name(),
            end => panic!("{end:?}"),
        }
    });
    assert_eq!(seen, ["plugin", "user"], "the model reaches both");
}

/// The protocol of `harness::hooks::timed::Worker` (`Worker::run` and its thread): the numbers of the job that
/// the hook returned from last and of the one that it was given up on, a channel of jobs, and for each question
/// a channel of its own for the answer, of which the loop lets go at the deadline. That the deadline is over is
/// a thread of the model; a cancel of the user comes the same way.
mod worker {
    use std::cell::Cell;

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::{sync::mpsc, thread};

    /// Where the loop waits for an answer until the deadline: `recv_timeout` of a channel.
    #[derive(Default)]
    pub(super) struct Answer {
        state: Mutex<(Option<u32>, bool)>,
        changed: Condvar,
    }

    impl Answer {
        fn say(&self, answer: u32) {
            self.state.lock().unwrap().0 = Some(answer);
            self.changed.notify_one();
        }

        pub(super) fn deadline(&self) {
            self.state.lock().unwrap().1 = true;
            self.changed.notify_one();
        }

        fn wait(&self) -> Option<u32> {
            let mut state = self.state.lock().unwrap();
            loop {
                match *state {
                    (Some(answer), _) => return Some(answer),
                    (None, true) => return None,
                    (None, false) => state = self.changed.wait(state).unwrap(),
                }
            }
        }
    }

    type Job = Box<dyn FnOnce(&UnsafeCell<u32>) + Send>;

    pub(super) struct Worker {
        /// None ends the thread: loom's channels do not tell whoever waits that the other end is gone.
        jobs: mpsc::Sender<Option<Job>>,
        returned: Arc<AtomicU32>,
        given_up: Cell<u32>,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Worker {
        pub(super) fn new() -> Worker {
            let (jobs, asked) = mpsc::channel::<Option<Job>>();
            let thread = thread::spawn(move || {
                // What the thread has: the text of the part, and the hook itself.
                let own = UnsafeCell::new(0);
                while let Ok(Some(job)) = asked.recv() {
                    job(&own);
                }
            });
            Worker {
                jobs,
                returned: Arc::new(AtomicU32::new(0)),
                given_up: Cell::new(0),
                thread: Some(thread),
            }
        }

        /// `Worker::run`. The hook answers with the number of the question; none: it was given up.
        pub(super) fn run(&self, question: u32, said: &Arc<Answer>) -> Option<u32> {
            if self.is_stuck() {
                return None;
            }
            let (returned, say) = (Arc::clone(&self.returned), Arc::clone(said));
            let job: Job = Box::new(move |own| {
                own.with_mut(|own| {
                    // SAFETY: loom checks that nobody else is in here.
                    #[allow(unsafe_code)]
                    unsafe {
                        *own = question;
                    }
                });
                returned.store(question, Ordering::Release);
                say.say(question);
            });
            self.jobs.send(Some(job)).ok()?;
            let answer = said.wait();
            if answer.is_none() {
                self.given_up.set(question);
            }
            answer
        }

        pub(super) fn is_stuck(&self) -> bool {
            self.returned.load(Ordering::Acquire) < self.given_up.get()
        }
    }

    impl Drop for Worker {
        fn drop(&mut self) {
            self.jobs.send(None).unwrap();
            self.thread.take().unwrap().join().unwrap();
        }
    }
}

/// The loop asks twice and gives up the first time. It hears the answer to what it asked or none, never an
/// older one; and whoever was given up is not asked before it has returned.
#[test]
fn a_late_answer_of_a_hook_changes_no_verdict() {
    let seen = explore(|| {
        let worker = worker::Worker::new();
        let first = Arc::new(worker::Answer::default());
        let clock = thread::spawn({
            let first = Arc::clone(&first);
            move || first.deadline()
        });
        let one = worker.run(1, &first);
        assert!(matches!(one, None | Some(1)), "{one:?}");
        // Whoever has answered has returned.
        assert!(one.is_none() || !worker.is_stuck());
        let second = Arc::new(worker::Answer::default());
        let two = worker.run(2, &second);
        assert!(matches!(two, None | Some(2)), "{two:?}");
        clock.join().unwrap();
        match (one, two) {
            (Some(_), Some(_)) => "both in time",
            (None, Some(_)) => "returned in between",
            (None, None) => "still busy",
            (Some(_), None) => "given up without a deadline",
        }
    });
    assert_eq!(
        seen,
        ["both in time", "returned in between", "still busy"],
        "the model reaches these"
    );
}

/// The matcher's own files, on loom's locks and cells: who uses which table, and what is in one.
#[path = "../src/matcher"]
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
                    behind: 0,
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
