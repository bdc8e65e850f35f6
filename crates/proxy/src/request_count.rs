//! The requests in progress, and busy polling: threads that look for events without sleeping while there are some.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};

/// The time for which frames are counted before a thread sleeps or stays awake for as long.
const PERIOD: Duration = Duration::from_millis(50);

/// The frames of a period from which on a thread stays awake: 2,500 a second, such as those of 50 streams.
const MANY_FRAMES: u64 = 125;

/// The time without a poll from which on a thread that is awake has not worked, but waited for its core.
const GAP: Duration = Duration::from_millis(1);

/// The sum of such times in a period from which on the core is shared with other programs.
const SHARED: Duration = Duration::from_millis(10);

/// The number of periods in which a thread whose core is shared sleeps between events.
const SHARED_PERIODS: u32 = 40;

/// The requests in progress, of which there is a greatest number, and the frames of their responses.
#[derive(Debug)]
pub(crate) struct RequestCount {
    in_progress: AtomicUsize,
    most: usize,
    begun: Notify,
    frames: AtomicU64,
}

/// Counts a request as in progress until it is dropped.
#[derive(Debug)]
pub(crate) struct RequestPermit(Arc<RequestCount>);

impl RequestPermit {
    /// Counts a frame of the response.
    pub(crate) fn frame_arrived(&self) {
        self.0.frames.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        self.0.in_progress.fetch_sub(1, Ordering::AcqRel);
    }
}

impl RequestCount {
    pub(crate) fn new(most: usize) -> RequestCount {
        RequestCount {
            in_progress: AtomicUsize::new(0),
            most,
            begun: Notify::new(),
            frames: AtomicU64::new(0),
        }
    }

    /// Begins a request, which is in progress until the permit is dropped, or returns `None` if there are too many.
    pub(crate) fn begin(self: &Arc<Self>) -> Option<RequestPermit> {
        let more = |count| (count < self.most).then_some(count + 1);
        let begun = self
            .in_progress
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more);
        begun.ok()?;
        self.begun.notify_waiters();
        Some(RequestPermit(Arc::clone(self)))
    }

    /// Returns the number of requests in progress.
    pub(crate) fn in_progress(&self) -> usize {
        self.in_progress.load(Ordering::Acquire)
    }

    /// Waits until a request is in progress.
    async fn request(&self) {
        let mut begun = pin!(self.begun.notified());
        // A request that begins after the comparison is not missed.
        begun.as_mut().enable();
        if self.in_progress() == 0 {
            begun.await;
        }
    }

    /// Keeps the thread that runs this awake while requests are in progress: a task that only yields makes the runtime
    /// look for events at once. A thread that sleeps runs some time after its event, because the kernel interrupts its
    /// core, which may have gone idle; and between two deltas of a stream there is always time to fall asleep.
    // PERF: on a virtual machine, deltas of 100 streams are delayed by 16 µs instead of 52 µs in the median
    // (`cargo bench -p ttsr-proxy --bench proxy`).
    pub(crate) async fn poll_busily(&self) {
        loop {
            self.request().await;
            while self.in_progress() > 0 {
                yield_now().await;
            }
        }
    }

    /// Keeps the thread that runs this awake as [`poll_busily`](Self::poll_busily) does, but only after a period in which
    /// [`MANY_FRAMES`] arrived for each of the `threads` that run this: the thread would soon be woken again. A thread whose
    /// core is shared sleeps, because the kernel lets one that has slept run before the others, and one that is always awake
    /// only in turn with them.
    // PERF: beside a compiler on the same core, deltas of 100 streams are delayed by 60 µs in the median if the thread sleeps,
    // and by 406 µs if it is awake.
    pub(crate) async fn poll_busily_under_load(&self, threads: usize) {
        let many = MANY_FRAMES * threads as u64;
        let (mut is_busy, mut shared_periods) = (false, 0);
        loop {
            self.request().await;
            let before = self.frames.load(Ordering::Relaxed);
            if is_busy {
                if poll_for(PERIOD).await >= SHARED {
                    shared_periods = SHARED_PERIODS;
                }
            } else {
                sleep(PERIOD).await;
                shared_periods = shared_periods.saturating_sub(1);
            }
            let frames = self.frames.load(Ordering::Relaxed) - before;
            is_busy = frames >= many && shared_periods == 0;
        }
    }
}

/// Keeps the thread awake for a time. Returns the time in which it waited for its core.
async fn poll_for(time: Duration) -> Duration {
    let began = Instant::now();
    let (mut polled, mut waited) = (began, Duration::ZERO);
    while polled - began < time {
        yield_now().await;
        let now = Instant::now();
        let gap = now - polled;
        if gap >= GAP {
            waited += gap;
        }
        polled = now;
    }
    waited
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Context, Poll, Wake};

    use super::*;

    #[derive(Default)]
    struct CountingWaker(AtomicUsize);

    impl Wake for CountingWaker {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_thread_is_kept_awake_only_while_requests_are_in_progress() {
        let requests = Arc::new(RequestCount::new(2));
        let wakes = Arc::new(CountingWaker::default());
        let waker = Arc::clone(&wakes).into();
        let mut context = Context::from_waker(&waker);
        let mut polling = pin!(requests.poll_busily());
        // Polls the task again as often as it asks for it, at most ten times, and returns how often that was.
        let mut run = || {
            let times = (0..10).take_while(|_| {
                let before = wakes.0.load(Ordering::Relaxed);
                assert_eq!(polling.as_mut().poll(&mut context), Poll::Pending);
                wakes.0.load(Ordering::Relaxed) > before
            });
            times.count()
        };
        assert_eq!(run(), 0);
        let first = requests.begin().unwrap();
        assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
        assert_eq!(run(), 10);
        let second = requests.begin().unwrap();
        assert_eq!(
            (requests.in_progress(), requests.begin().is_none()),
            (2, true)
        );
        drop(first);
        assert_eq!(run(), 10);
        drop(second);
        assert_eq!((requests.in_progress(), run()), (0, 0));
    }

    /// Lets a time pass, in which tasks that are ready run every half a millisecond.
    async fn pass(time: Duration) {
        const STEP: Duration = Duration::from_micros(500);
        let end = Instant::now() + time;
        while Instant::now() < end {
            tokio::time::advance(STEP).await;
            yield_now().await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_thread_is_kept_awake_under_load_only_while_many_frames_arrive_and_it_has_its_core() {
        const THREADS: usize = 2;
        let requests = Arc::new(RequestCount::new(2));
        let polls = Arc::new(AtomicUsize::new(0));
        let (counted, polled) = (Arc::clone(&requests), Arc::clone(&polls));
        tokio::spawn(async move {
            let mut polling = pin!(counted.poll_busily_under_load(THREADS));
            std::future::poll_fn(|cx| {
                polled.fetch_add(1, Ordering::Relaxed);
                polling.as_mut().poll(cx)
            })
            .await;
        });
        let is_busy = async || {
            let before = polls.load(Ordering::Relaxed);
            for _ in 0..10 {
                yield_now().await;
            }
            polls.load(Ordering::Relaxed) - before >= 10
        };
        // Lets so many frames arrive in a period.
        let is_busy_after = async |frames: u64, permit: &RequestPermit| {
            (0..frames).for_each(|_| permit.frame_arrived());
            pass(PERIOD).await;
            is_busy().await
        };
        assert!(!is_busy().await);
        let permit = requests.begin().unwrap();
        assert!(!is_busy().await);
        let many = MANY_FRAMES * THREADS as u64;
        assert!(!is_busy_after(many - 1, &permit).await);
        assert!(is_busy_after(many, &permit).await);
        assert!(is_busy_after(many, &permit).await);
        assert!(!is_busy_after(many - 1, &permit).await);
        assert!(is_busy_after(many, &permit).await);
        // The thread does not run for a while, once: the core was taken from it.
        tokio::time::advance(SHARED - GAP).await;
        assert!(is_busy_after(many, &permit).await);
        tokio::time::advance(SHARED).await;
        for _ in 0..SHARED_PERIODS {
            assert!(!is_busy_after(many, &permit).await);
        }
        assert!(is_busy_after(2 * many, &permit).await);
        drop(permit);
        pass(PERIOD * 2).await;
        assert!(!is_busy().await);
    }
}
