//! The counters of a proxy in the text format of Prometheus.

use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric as _};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use ttsr::DecisionRecord;

use crate::buffer_budget::BufferBudget;
use crate::request_count::RequestCount;
use crate::totals::ProxyTotals;

/// The type of the text that [`ProxyMetrics::text`] returns.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct DecisionLabels {
    rule: String,
    action: String,
}

/// The registry of a proxy: its totals, and decisions by rule and action.
#[derive(Debug)]
pub(crate) struct ProxyMetrics {
    registry: Registry,
    decisions: Family<DecisionLabels, prometheus_client::metrics::counter::Counter>,
}

impl ProxyMetrics {
    pub(crate) fn new(
        totals: &Arc<ProxyTotals>,
        requests: &Arc<RequestCount>,
        budget: &Arc<BufferBudget>,
    ) -> ProxyMetrics {
        let mut registry = Registry::with_prefix("ttsr_proxy");
        let decisions = Family::default();
        registry.register(
            "decisions",
            "Decisions of rules and limits that the policy lets act",
            Family::clone(&decisions),
        );
        registry.register_collector(Box::new(TotalsCollector {
            totals: Arc::clone(totals),
            requests: Arc::clone(requests),
            budget: Arc::clone(budget),
        }));
        ProxyMetrics {
            registry,
            decisions,
        }
    }

    /// Counts a decision. The number of series is that of the rules of the pack and of the limits.
    pub(crate) fn add(&self, decision: &DecisionRecord) {
        if decision.is_suppressed() {
            return;
        }
        let by = decision.rule.as_ref().or(decision.limit.as_ref());
        let labels = DecisionLabels {
            rule: by.cloned().unwrap_or_default(),
            action: decision.action.name().to_owned(),
        };
        self.decisions.get_or_create(&labels).inc();
    }

    /// Returns the text, or `None` if it cannot be written.
    pub(crate) fn text(&self) -> Option<String> {
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.registry).ok()?;
        Some(text)
    }
}

#[derive(Debug)]
struct TotalsCollector {
    totals: Arc<ProxyTotals>,
    requests: Arc<RequestCount>,
    budget: Arc<BufferBudget>,
}

impl Collector for TotalsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let totals = self.totals.snapshot();
        for (name, help, value) in [
            (
                "requests",
                "Requests with a complete head, but for those that /healthz and /metrics answer",
                totals.requests,
            ),
            ("passed", "Responses passed on as they were", totals.passed),
            (
                "refused",
                "Requests that the proxy did not send, but for those that a rule stopped",
                totals.refused,
            ),
            (
                "failed",
                "Requests without a usable response of the server",
                totals.failed,
            ),
            ("judged", "Replies that rules read", totals.judged),
            ("stopped", "Replies that were stopped", totals.blocked),
            (
                "unreadable",
                "Replies that could not be read",
                totals.unreadable,
            ),
            (
                "redactions",
                "Parts of replies and texts of requests from which rules redacted text",
                totals.redactions,
            ),
            ("warnings", "Warnings of rules", totals.warnings),
            (
                "stopped_requests",
                "Requests that a rule stopped",
                totals.stopped_requests,
            ),
            (
                "retries",
                "Requests that were sent again because a rule cut the reply",
                totals.retries,
            ),
            (
                "sessions_lost",
                "Requests and replies whose session could not be read or written",
                totals.sessions_lost,
            ),
            (
                "unbuffered",
                "Requests and replies for whose bytes there was no room",
                totals.unbuffered,
            ),
            (
                "unscanned_bytes",
                "Bytes of strings that no reader knows",
                totals.unscanned_bytes,
            ),
            (
                "log_lines_lost",
                "Lines of the event log that could not be written",
                totals.log_lines_lost,
            ),
        ] {
            let counter = ConstCounter::new(value);
            let metric = encoder.encode_descriptor(name, help, None, counter.metric_type())?;
            counter.encode(metric)?;
        }
        let in_progress = self.requests.in_progress();
        for (name, help, value) in [
            (
                "in_progress",
                "Requests that are being answered",
                in_progress,
            ),
            (
                "buffered_bytes",
                "Bytes of bodies in memory",
                self.budget.taken(),
            ),
        ] {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, None, gauge.metric_type())?;
            gauge.encode(metric)?;
        }
        Ok(())
    }
}
