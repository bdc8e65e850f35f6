//! Sleeps that end within some microseconds of their time.
//!
//! The timers of tokio end at whole milliseconds, so that the deltas of independent streams would be sent in bursts, and a
//! burst measures how long its last delta waits for the others. And a thread that sleeps runs some time after its event,
//! which would be measured as a delay of the servers. So the thread of the load never sleeps: a task that only yields ends
//! the sleeps, and makes the runtime look for events.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};
use std::time::Instant;

thread_local! {
    /// By the end of the sleep. The number tells sleeps with one end apart.
    static SLEEPING: RefCell<BTreeMap<(Instant, u64), Waker>> = const { RefCell::new(BTreeMap::new()) };
    static NUMBER: Cell<u64> = const { Cell::new(0) };
}

/// Keeps this thread awake, and ends its sleeps. The future is never complete.
pub(crate) async fn stay_awake() {
    loop {
        SLEEPING.with_borrow_mut(|sleeping| {
            let now = Instant::now();
            while let Some(first) = sleeping.first_entry()
                && first.key().0 <= now
            {
                first.remove().wake();
            }
        });
        tokio::task::yield_now().await;
    }
}

/// Sleeps until that time.
pub(crate) async fn sleep_until(until: Instant) {
    poll_fn(|context| {
        if Instant::now() >= until {
            return Poll::Ready(());
        }
        let number = NUMBER.get();
        NUMBER.set(number + 1);
        let waker = context.waker().clone();
        SLEEPING.with_borrow_mut(|sleeping| sleeping.insert((until, number), waker));
        Poll::Pending
    })
    .await;
}
