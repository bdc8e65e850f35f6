//! The requests in progress, and busy polling: threads that look for events without sleeping while there are some.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{Instant, sleep};

/// The time for which frames are counted before a thread sleeps or stays awake for as long.
const PERIOD: Duration = Duration::from_millis(100);

/// The frames of a period from which on a thread stays awake: 2,500 a second, such as those of 50 streams.
const MANY_FRAMES: u64 = 250;

/// The number of periods in which threads whose cores are shared sleep between events.
const SHARED_PERIODS: u32 = 10;

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

    /// Keeps `threads` threads awake as [`poll_busily`](Self::poll_busily) does, but only after a period in which
    /// [`MANY_FRAMES`] arrived for each: a thread would soon be woken again. Threads whose cores are shared sleep, because the
    /// kernel lets a thread that has slept run before others, and one that is always awake only in turn with them.
    /// `cpu_time` returns the time that this process has had on cores, if that is known.
    // PERF: beside a compiler on the same core, deltas of 100 streams are delayed by 60 µs in the median if the thread sleeps,
    // and by 406 µs if it is awake.
    pub(crate) async fn poll_busily_under_load(
        &self,
        threads: u32,
        cpu_time: impl Fn() -> Option<Duration>,
    ) {
        let many = MANY_FRAMES * u64::from(threads);
        let (mut is_busy, mut shared_periods) = (false, 0);
        loop {
            self.request().await;
            let before = self.frames.load(Ordering::Relaxed);
            if is_busy {
                let used_before = cpu_time();
                let polling = (0..threads).map(|_| poll_until(Instant::now() + PERIOD));
                let mut polling: JoinSet<()> = polling.collect();
                while polling.join_next().await.is_some() {}
                let used = cpu_time()
                    .zip(used_before)
                    .map(|(now, before)| now - before);
                if used.is_some_and(|used| used < PERIOD * threads * 2 / 3) {
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

/// Keeps the thread that runs this awake for a time.
async fn poll_until(end: Instant) {
    while Instant::now() < end {
        yield_now().await;
    }
}

/// Returns the time that this process has had on cores, or `None` if the system does not tell it.
pub(crate) fn process_cpu_time() -> Option<Duration> {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::try_from(time).ok()
    }
    #[cfg(not(unix))]
    None
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

    const STEP: Duration = Duration::from_millis(1);

    /// Lets a time pass, in which tasks that are ready run at each millisecond.
    async fn pass(time: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            tokio::time::advance(STEP).await;
            for _ in 0..4 {
                yield_now().await;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn threads_are_kept_awake_under_load_only_while_many_frames_arrive_and_they_have_their_cores()
     {
        const THREADS: u32 = 2;
        const MANY: u64 = MANY_FRAMES * THREADS as u64;
        let requests = Arc::new(RequestCount::new(2));
        let counted = Arc::clone(&requests);
        // The time on cores in microseconds, of which the clock of the test knows nothing.
        let used = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&used);
        tokio::spawn(async move {
            let cpu_time = || Some(Duration::from_micros(read.load(Ordering::Relaxed)));
            counted.poll_busily_under_load(THREADS, cpu_time).await;
        });
        // Beside the task that measures.
        let awake = || {
            tokio::runtime::Handle::current()
                .metrics()
                .num_alive_tasks()
                - 1
        };
        // Lets so many frames arrive in a period, and the process run for a share of it.
        let awake_after = async |frames: u64, share: u32, permit: &RequestPermit| {
            (0..frames).for_each(|_| permit.frame_arrived());
            let ran = PERIOD * THREADS * share / 100;
            used.fetch_add(ran.as_micros() as u64, Ordering::Relaxed);
            pass(PERIOD).await;
            awake()
        };
        pass(PERIOD).await;
        assert_eq!(awake(), 0);
        let permit = requests.begin().unwrap();
        pass(STEP).await;
        assert_eq!(awake_after(MANY - 1, 10, &permit).await, 0);
        assert_eq!(awake_after(MANY, 10, &permit).await, 2);
        assert_eq!(awake_after(MANY, 100, &permit).await, 2);
        assert_eq!(awake_after(MANY - 1, 100, &permit).await, 0);
        assert_eq!(awake_after(MANY, 10, &permit).await, 2);
        assert_eq!(awake_after(MANY, 67, &permit).await, 2);
        // Other programs run on the cores.
        for _ in 0..SHARED_PERIODS {
            assert_eq!(awake_after(MANY, 66, &permit).await, 0);
        }
        assert_eq!(awake_after(MANY, 10, &permit).await, 2);
        drop(permit);
        pass(PERIOD * 2).await;
        assert_eq!(awake(), 0);
    }

    #[test]
    fn a_process_that_works_has_time_on_cores() {
        let before = process_cpu_time();
        let worked = (0..1_000_000u64).fold(0, |sum, at| std::hint::black_box(sum ^ at));
        assert_eq!(process_cpu_time().is_some(), cfg!(unix), "{worked}");
        assert!(!cfg!(unix) || process_cpu_time() > before);
    }
}
