//! Policy across replies: which hits become decisions, and how often a rule may act.
//!
//! Matching never depends on it. A session remembers, per rule, how often it acted; the stream it
//! judges remembers nothing of other streams.

use crate::pack::Pack;
use crate::rule::{Action, Channel, Rule, Severity};
use crate::stream::Stream;
use crate::verdict::{Decision, Hit, PartId, Source, Verdict, rank};

/// Retries of one rule in one turn.
const RETRIES_PER_RULE: u32 = 2;

/// Retries of all rules in one turn: the backstop.
const RETRIES_PER_TURN: u32 = 3;

/// State of one conversation: create one per conversation, and a [`Stream`] per attempt.
///
/// What a rule may do, unless it says otherwise: a guard (`abort`, and every critical rule) acts every
/// time; guidance (`inject`, `warn`, `observe`) once per session; `retry` at most twice a turn, and all
/// rules together at most three times a turn, after which the reply is delivered with a warning, or
/// cut if the rule is critical.
///
/// # Example: a retry, then the good reply
/// ```
/// use ttsr::{Action, Channel, Pack, PartId, Verdict};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-any]
/// description = "Say what the type is"
/// severity = "error"
/// match.any = [{ literal = ": any" }]
/// examples.match = ["x: any"]
/// "#)?;
/// let mut session = pack.session();
/// session.begin_turn();
/// let mut stream = session.stream();
/// stream.open(PartId(0), Channel::Text);
/// match session.push(&mut stream, PartId(0), b"let x: any = 1") {
///     Verdict::Act(decision) => assert_eq!(decision.action, Action::Retry),
///     Verdict::Continue => unreachable!("the rule is broken"),
/// }
/// let mut stream = session.stream();
/// assert_eq!(session.push(&mut stream, PartId(0), b"let x: number = 1"), Verdict::Continue);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Session {
    pack: Pack,
    rules: Vec<Acted>,
    /// Attempts begun in this turn.
    attempts: u32,
    /// Retries decided in this turn, by all rules.
    retries: u32,
    decisions: Vec<Decision>,
}

/// How often a rule acted.
#[derive(Clone, Copy, Debug, Default)]
struct Acted {
    /// Decisions that the host has not told the fate of.
    reserved: u32,
    /// Decisions that were acted on, since guidance last left the context.
    delivered: u32,
    /// Retries in this turn.
    retries: u32,
}

impl Session {
    pub(crate) fn new(pack: Pack) -> Session {
        let rules = vec![Acted::default(); pack.rules().len()];
        Session {
            pack,
            rules,
            attempts: 0,
            retries: 0,
            decisions: Vec::new(),
        }
    }

    /// A new prompt of the user: attempts and retries count from zero again.
    pub fn begin_turn(&mut self) {
        self.attempts = 0;
        self.retries = 0;
        for acted in &mut self.rules {
            acted.retries = 0;
            acted.delivered += std::mem::take(&mut acted.reserved);
        }
    }

    /// A stream for the next attempt at a reply.
    #[must_use]
    pub fn stream(&mut self) -> Stream {
        self.attempts += 1;
        Stream::new(self.pack.clone(), self.attempts)
    }

    /// The pack whose rules this session applies.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Reads a delta and says what to do. See [`Stream::push`].
    ///
    /// One delta can bring several decisions: the verdict is the one to act on first (the one that
    /// cuts, if there is one), [`decisions`](Self::decisions) has them all.
    #[inline]
    pub fn push(&mut self, stream: &mut Stream, part: PartId, bytes: &[u8]) -> Verdict {
        self.decisions.clear();
        if stream.push(part, bytes).is_empty() && !stream.has_limit() {
            return Verdict::Continue;
        }
        self.judge(stream)
    }

    /// Opens a part. See [`Stream::open`].
    pub fn open(&mut self, stream: &mut Stream, part: PartId, channel: Channel) -> Verdict {
        self.decisions.clear();
        stream.open(part, channel);
        self.judge(stream)
    }

    /// Names the tool of a part. See [`Stream::tool`].
    pub fn tool(&mut self, stream: &mut Stream, part: PartId, name: &str, call: &str) -> Verdict {
        self.decisions.clear();
        let _ = stream.tool(part, name, call);
        self.judge(stream)
    }

    /// Ends a part, which can decide. See [`Stream::close`].
    pub fn close(&mut self, stream: &mut Stream, part: PartId) -> Verdict {
        self.decisions.clear();
        let _ = stream.close(part);
        self.judge(stream)
    }

    /// Every decision of the last call, in the order in which they were made; the suppressed ones too.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// The host acted on the decision: what it says is in the model's context, or before the user.
    ///
    /// Until then, or until the next turn begins, a decision is only reserved: parallel hits of its rule
    /// are suppressed already, and [`compacted`](Self::compacted) does not re-arm it.
    pub fn delivered(&mut self, decision: &Decision) {
        if let (false, Some(rule)) = (decision.suppressed, decision.rule()) {
            let acted = &mut self.rules[rule.index()];
            if acted.reserved > 0 {
                acted.reserved -= 1;
                acted.delivered += 1;
            }
        }
    }

    /// The host could not act on the decision: the rule may act again.
    pub fn dropped(&mut self, decision: &Decision) {
        if let (false, Some(rule)) = (decision.suppressed, decision.rule()) {
            let acted = &mut self.rules[rule.index()];
            if acted.reserved > 0 {
                acted.reserved -= 1;
            } else {
                acted.delivered = acted.delivered.saturating_sub(1);
            }
            if decision.action == Action::Retry {
                acted.retries = acted.retries.saturating_sub(1);
                self.retries = self.retries.saturating_sub(1);
            }
        }
    }

    /// Earlier messages left the model's context, and guidance with them: it may be given again.
    pub fn compacted(&mut self) {
        self.rules.iter_mut().for_each(|acted| acted.delivered = 0);
    }

    #[cold]
    #[inline(never)]
    fn judge(&mut self, stream: &mut Stream) -> Verdict {
        if stream.is_cut() {
            return Verdict::Continue;
        }
        let mut hits = stream.hits().to_vec();
        hits.sort_by(|a, b| {
            let rule = |hit: &Hit| self.pack.rule(hit.rule);
            a.decided
                .cmp(&b.decided)
                .then_with(|| rank(rule(a), rule(b)))
        });
        let attempt = stream.attempt();
        let mut verdict = Verdict::Continue;
        for hit in hits {
            let mut decision = self.decide(hit, attempt);
            decision.suppressed |= stream.is_cut();
            self.note(decision, &mut verdict, stream);
        }
        if let (Some(source), false) = (stream.take_limit(), stream.is_cut()) {
            let decision = Decision {
                action: Action::Abort,
                source,
                attempt,
                suppressed: false,
            };
            self.note(decision, &mut verdict, stream);
        }
        verdict
    }

    /// Logs the decision, and makes it the verdict if it is the first one or cuts.
    fn note(&mut self, decision: Decision, verdict: &mut Verdict, stream: &mut Stream) {
        self.decisions.push(decision);
        if decision.suppressed {
            return;
        }
        if let Some(rule) = decision.rule() {
            let acted = &mut self.rules[rule.index()];
            acted.reserved += 1;
            if decision.action == Action::Retry {
                acted.retries += 1;
                self.retries += 1;
            }
        }
        if decision.action.cuts() {
            stream.cut();
        }
        if *verdict == Verdict::Continue || decision.action.cuts() {
            *verdict = Verdict::Act(decision);
        }
    }

    /// What the rule does about its hit, given how often it acted.
    fn decide(&self, hit: Hit, attempt: u32) -> Decision {
        let rule = self.pack.rule(hit.rule);
        let acted = self.rules[hit.rule.index()];
        let is_critical = rule.severity == Severity::Critical;
        let may_retry = acted.retries < RETRIES_PER_RULE && self.retries < RETRIES_PER_TURN;
        let action = match rule.action {
            Action::Retry if !may_retry => after_retries(rule),
            action => action,
        };
        let every_time = is_critical || action.cuts() || rule.action == Action::Retry;
        let suppressed = !every_time && acted.reserved + acted.delivered > 0;
        Decision {
            action,
            source: Source::Rule(hit),
            attempt,
            suppressed,
        }
    }
}

/// The last attempt is delivered, unless the rule is critical.
fn after_retries(rule: &Rule) -> Action {
    match rule.severity {
        Severity::Critical => Action::Abort,
        _ => Action::Warn,
    }
}
