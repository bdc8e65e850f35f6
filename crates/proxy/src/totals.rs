//! Counters of a proxy, shared between its connections and its owner.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::judge::{ReplyReport, add_path};

/// The counters of a proxy since its start.
#[derive(Debug, Default)]
pub struct ProxyTotals {
    pub(crate) requests: AtomicU64,
    pub(crate) passed: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) judged: AtomicU64,
    pub(crate) blocked: AtomicU64,
    pub(crate) unreadable: AtomicU64,
    pub(crate) redactions: AtomicU64,
    pub(crate) warnings: AtomicU64,
    pub(crate) unscanned_bytes: AtomicU64,
    pub(crate) stopped_requests: AtomicU64,
    pub(crate) retries: AtomicU64,
    pub(crate) sessions_lost: AtomicU64,
    pub(crate) unbuffered: AtomicU64,
    pub(crate) shadowed: AtomicU64,
    pub(crate) log_lines_lost: AtomicU64,
    unscanned: Mutex<BTreeMap<String, u64>>,
}

/// The most paths that are counted separately; later ones are counted under `…`.
const PATHS: usize = 256;

/// The values of [`ProxyTotals`] at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TotalsSnapshot {
    /// Requests with a complete head, but for those that the pages `/healthz` and `/metrics` answer.
    pub requests: u64,
    /// Requests whose response was passed on as it was.
    pub passed: u64,
    /// Requests that the proxy did not send: with a host, a token or a path that it does not accept, a body that it cannot
    /// read, or past a bound. Those that a rule stopped are not among them.
    pub refused: u64,
    /// Requests that the server did not answer, or not in a form that is passed on.
    pub failed: u64,
    /// Replies that rules read, once they have ended.
    pub judged: u64,
    /// Replies among them that were stopped.
    pub blocked: u64,
    /// Replies among them that could not be read. They were stopped, unless the proxy fails open.
    pub unreadable: u64,
    /// Parts of replies from which rules redacted text, once for each rule, and texts of requests.
    pub redactions: u64,
    /// Warnings of rules.
    pub warnings: u64,
    /// Bytes of strings in requests and replies that no reader knows, which were not judged.
    pub unscanned_bytes: u64,
    /// Requests that a rule stopped. They were not sent.
    pub stopped_requests: u64,
    /// Requests that were sent again because a rule cut the reply.
    pub retries: u64,
    /// Requests and replies whose session could not be read or written.
    pub sessions_lost: u64,
    /// Requests, replies and streams for whose bytes there was no room in [`ProxyLimits::buffered_bytes`](crate::ProxyLimits::buffered_bytes).
    pub unbuffered: u64,
    /// Decisions of rules that were not carried out, because the proxy or the rule is in shadow.
    pub shadowed: u64,
    /// Lines of the event log that could not be written.
    pub log_lines_lost: u64,
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
            judged: load(&self.judged),
            blocked: load(&self.blocked),
            unreadable: load(&self.unreadable),
            redactions: load(&self.redactions),
            warnings: load(&self.warnings),
            unscanned_bytes: load(&self.unscanned_bytes),
            stopped_requests: load(&self.stopped_requests),
            retries: load(&self.retries),
            sessions_lost: load(&self.sessions_lost),
            unbuffered: load(&self.unbuffered),
            shadowed: load(&self.shadowed),
            log_lines_lost: load(&self.log_lines_lost),
        }
    }

    /// Counts a judged reply that has ended.
    pub(crate) fn add_reply(&self, report: &ReplyReport) {
        Self::add(&self.judged, 1);
        Self::add(&self.blocked, u64::from(report.is_blocked));
        Self::add(&self.unreadable, u64::from(report.is_unreadable));
        Self::add(&self.redactions, report.redactions);
        Self::add(&self.warnings, report.warnings);
        Self::add(&self.retries, report.retries);
        if !report.unscanned.is_empty() {
            self.add_unscanned(&report.unscanned);
        }
    }

    /// Counts strings that no reader knows.
    pub(crate) fn add_unscanned(&self, unscanned: &BTreeMap<String, u64>) {
        let mut paths = self
            .unscanned
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (path, bytes) in unscanned {
            Self::add(&self.unscanned_bytes, *bytes);
            add_path(&mut paths, PATHS, path, *bytes);
        }
    }

    /// Returns the bytes of strings that no reader knows by their path in the request or reply, such as `choices[].delta.sound`.
    #[must_use]
    pub fn unscanned(&self) -> BTreeMap<String, u64> {
        let paths = self
            .unscanned
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        paths.clone()
    }

    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Ordering::Relaxed);
    }
}
