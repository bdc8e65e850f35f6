//! Counters of a proxy, shared between its connections and its owner.

use std::sync::atomic::{AtomicU64, Ordering};

/// The counters of a proxy since its start.
#[derive(Debug, Default)]
pub struct ProxyTotals {
    pub(crate) requests: AtomicU64,
    pub(crate) passed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
}

/// The values of [`ProxyTotals`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TotalsSnapshot {
    /// Requests with a complete head, those to `/healthz` not included.
    pub requests: u64,
    /// Requests whose response was passed on as it was.
    pub passed: u64,
    /// Requests that the proxy answered itself, because they break its configuration.
    pub refused: u64,
    /// Requests that the server did not answer.
    pub failed: u64,
}

impl ProxyTotals {
    /// Returns the values.
    #[must_use]
    pub fn snapshot(&self) -> TotalsSnapshot {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TotalsSnapshot {
            requests: load(&self.requests),
            passed: load(&self.passed),
            refused: load(&self.refused),
            failed: load(&self.failed),
        }
    }

    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
