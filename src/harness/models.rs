//! Models for loom, which tries every order of their threads (up to `LOOM_MAX_PREEMPTIONS` preemptions).
//!
//! The loop (`Run` and its processor) is the code itself; what surrounds it, the wire and the
//! user, are threads of the model. The worker of a hook waits with a deadline, which loom does not know, so
//! its protocol is written down here once more.
//!
//! `RUSTFLAGS="--cfg loom" cargo test --release --features harness --lib models`

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize as Count, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};

use crate::harness::{
    Cancel, End, EventStream, Failure, Hooks, Processor, Provider, Reason, Request, Run, Settings,
    Step,
};
use crate::{Channel, Event, Pack, PartId};
use futures_core::Stream;
use loom::sync::{Arc, Mutex};
use loom::thread;

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
                assert_eq!((reason, told.aborts), (Reason::User, 1));
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
