//! Models for loom, which tries every order of their threads (up to `LOOM_MAX_PREEMPTIONS` preemptions).
//!
//! The loop (`Run` and its processor) is the real code; the wire and the user are threads of the model. The worker of a
//! hook waits with a deadline, which loom does not support, so its protocol is modelled here separately.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --features harness --lib models`

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use crate::harness::{
    AbortReason, Cancel, End, EventStream, Failure, Hooks, Processor, Provider, Request, Run,
    Settings, Step,
};
use crate::{Channel, Event, Pack, PartId};
use futures_core::Stream;
use loom::sync::{Arc, Mutex};
use loom::thread;

const PART: PartId = PartId(0);

/// The events that the provider has sent and nobody has read.
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

/// The reader's end of the wire. Counts how often it was dropped.
struct PollingReader {
    wire: Arc<Mutex<Wire>>,
    dropped: std::sync::Arc<Count>,
}

impl Stream for PollingReader {
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

impl Drop for PollingReader {
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
        Box::pin(PollingReader {
            wire: Arc::clone(&self.wire),
            dropped: std::sync::Arc::clone(&self.dropped),
        })
    }
}

/// The observations of one reply.
struct Told {
    end: End,
    /// The number of aborts that hooks were notified of.
    aborts: usize,
    /// The published bytes, and the number of times the transport was closed.
    forwarded: Vec<u8>,
    cancels: usize,
}

/// Plays one reply: the wire sends `text` and ends, while the user cancels. Checks the invariants of every reply.
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
            // loom cannot see tokio's switch. Locking the wire makes the cancel and the reader meet.
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
    let mut processor = Processor::new(&*PACK, hooks, settings());
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

/// Returns settings without bounds of time, except one that is never reached.
fn settings() -> Settings {
    Settings {
        stall: None,
        attempt: None,
        reply: None,
        ..Settings::default()
    }
}

/// Runs the model with tokio's clock available and stopped. Returns the ends that were seen.
fn explore(model: impl Fn() -> &'static str + Send + Sync + 'static) -> Vec<&'static str> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let _inside = runtime.enter();
    // The stacks of loom's threads are too small for loading the pack there.
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

/// Either the reply is complete without an abort, or the user's abort is reported once with all published text.
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

/// A rule and the user abort the same reply: hooks are notified of one abort, and the transport is closed once.
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

/// The protocol of `harness::hooks::timed::HookWorker` (`HookWorker::run` and its thread): the number of the last job
/// that the hook returned from, the number of the last job that missed its deadline, a channel of jobs, and a channel
/// per question for the answer, which the loop drops at the deadline. The deadline, like a cancel, is a thread of the
/// model.
mod worker {
    use std::cell::Cell;

    use loom::cell::UnsafeCell;
    use loom::sync::atomic::{AtomicU32, Ordering};
    use loom::sync::{Arc, Condvar, Mutex};
    use loom::{sync::mpsc, thread};

    /// The place at which the loop waits for an answer until the deadline: `recv_timeout` of a channel.
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
        /// `None` ends the thread: loom's channels do not report that the other end was dropped.
        jobs: mpsc::Sender<Option<Job>>,
        returned: Arc<AtomicU32>,
        given_up: Cell<u32>,
        thread: Option<thread::JoinHandle<()>>,
    }

    impl Worker {
        pub(super) fn new() -> Worker {
            let (jobs, asked) = mpsc::channel::<Option<Job>>();
            let thread = thread::spawn(move || {
                // The data of the thread: the text of the part, and the hook.
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

        /// `HookWorker::run`. Returns the hook's answer, the number of the question; `None` if the deadline was missed.
        pub(super) fn run(&self, question: u32, said: &Arc<Answer>) -> Option<u32> {
            if self.is_stuck() {
                return None;
            }
            let (returned, say) = (Arc::clone(&self.returned), Arc::clone(said));
            let job: Job = Box::new(move |own| {
                own.with_mut(|own| {
                    // SAFETY: loom checks that no other thread accesses the cell at the same time.
                    #[allow(unsafe_code, reason = "the cells of loom give raw pointers")]
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

/// The loop asks twice and stops waiting the first time. It receives the answer to its question or none, never an older
/// one. A hook that missed its deadline is not asked again before it has returned.
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
        // A hook that has answered has returned.
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
