//! Counts and logs the outcome of a request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use ttsr::{DecisionRecord, Suppression};

use crate::event_log::{EventLog, ProxyLogEvent, UnscannedPath};
use crate::judge::{ReplyJudge, ReplyReport};
use crate::metrics::ProxyMetrics;
use crate::request::RequestActions;
use crate::routes::ModelApi;
use crate::sessions::SessionError;
use crate::totals::ProxyTotals;

/// The account of one request: where its events are counted and logged.
#[derive(Clone, Debug)]
pub(crate) struct RequestAccount {
    pub(crate) totals: Arc<ProxyTotals>,
    pub(crate) metrics: Arc<ProxyMetrics>,
    pub(crate) log: Option<EventLog>,
    /// The number of the request, from 1.
    pub(crate) number: u64,
    pub(crate) began: Instant,
}

impl RequestAccount {
    fn log(&self, event: ProxyLogEvent) {
        if let Some(log) = &self.log
            && !log.write(self.number, event)
        {
            ProxyTotals::add(&self.totals.log_lines_lost, 1);
        }
    }

    pub(crate) fn passed(&self, status: u16) {
        ProxyTotals::add(&self.totals.passed, 1);
        self.log(ProxyLogEvent::Passed { status });
    }

    pub(crate) fn refused(&self, reason: &str) {
        ProxyTotals::add(&self.totals.refused, 1);
        self.log(ProxyLogEvent::Refused {
            reason: reason.to_owned(),
        });
    }

    pub(crate) fn failed(&self, reason: &str) {
        ProxyTotals::add(&self.totals.failed, 1);
        self.log(ProxyLogEvent::Failed {
            reason: reason.to_owned(),
        });
    }

    /// Counts the actions of rules on a request, and its decisions.
    pub(crate) fn request(&self, actions: &RequestActions) {
        ProxyTotals::add(&self.totals.redactions, actions.redactions);
        ProxyTotals::add(&self.totals.warnings, actions.warnings.len() as u64);
        actions.decisions.iter().for_each(|it| self.decided(it));
        if !actions.unscanned.is_empty() {
            self.totals.add_unscanned(&actions.unscanned);
            self.log(ProxyLogEvent::RequestUnscanned {
                unscanned: unscanned_paths(&actions.unscanned),
            });
        }
    }

    /// Counts a request that a rule stopped.
    pub(crate) fn request_stopped(&self, actions: &RequestActions) {
        ProxyTotals::add(&self.totals.stopped_requests, 1);
        let mut decisions = actions.decisions.iter().rev();
        let last = decisions.find(|decision| !decision.is_suppressed());
        self.log(ProxyLogEvent::RequestStopped {
            by: last.and_then(|decision| decision.rule.clone()),
        });
    }

    /// Counts a session that could not be loaded or written.
    pub(crate) fn session_lost(&self, error: &SessionError) {
        ProxyTotals::add(&self.totals.sessions_lost, 1);
        self.log(ProxyLogEvent::SessionLost {
            reason: error.to_string(),
        });
    }

    /// Counts the session of a reply if it could not be written.
    pub(crate) fn saved(&self, saved: &Result<(), SessionError>) {
        if let Err(error) = saved {
            self.session_lost(error);
        }
    }

    /// Counts a body for which there is no room.
    pub(crate) fn unbuffered(&self) {
        ProxyTotals::add(&self.totals.unbuffered, 1);
        self.log(ProxyLogEvent::BufferFull);
    }

    fn decided(&self, decision: &DecisionRecord) {
        self.metrics.add(decision);
        let is_shadowed = decision.suppression == Some(Suppression::Shadow);
        ProxyTotals::add(&self.totals.shadowed, u64::from(is_shadowed));
        self.log(ProxyLogEvent::from_decision(decision));
    }

    /// Counts a judged reply that has ended, and its decisions.
    pub(crate) fn judged(&self, api: ModelApi, streamed: bool, judge: &ReplyJudge) {
        judge.decisions().for_each(|it| self.decided(it));
        self.replied(api, streamed, &judge.report());
    }

    /// Counts a reply that has ended.
    pub(crate) fn replied(&self, api: ModelApi, streamed: bool, report: &ReplyReport) {
        self.totals.add_reply(report);
        if self.log.is_none() {
            return;
        }
        self.log(ProxyLogEvent::Reply {
            api: api.name().to_owned(),
            streamed,
            stopped: report.is_blocked,
            by: report.rule.clone(),
            unreadable: report.is_unreadable,
            redactions: report.redactions,
            warnings: report.warnings,
            retries: report.retries,
            input_tokens: report.usage.input,
            output_tokens: report.usage.output,
            unscanned: unscanned_paths(&report.unscanned),
            ms: u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        });
    }
}

fn unscanned_paths(by_path: &BTreeMap<String, u64>) -> Vec<UnscannedPath> {
    let paths = by_path.iter().map(|(path, bytes)| UnscannedPath {
        path: path.clone(),
        bytes: *bytes,
    });
    paths.collect()
}
