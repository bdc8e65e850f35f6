//! Policy across replies: which hits become decisions, and how often a rule may act.
//!
//! Matching never depends on it. A session counts, per rule, how often it acted (`ledger`); the stream that it judges
//! keeps no state of other streams. `check` reads whole texts, `origin` names the agent, model and provider of the replies,
//! `guidance` holds messages that wait for the next request, and `snapshot` carries the state to another process or another pack.

mod check;
mod guidance;
mod ledger;
mod origin;
mod snapshot;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::pack::Pack;
use crate::rule::{Action, Channel, Mode};
use crate::stream::{RuleHistories, Stream};
use crate::verdict::{Decision, Hit, PartId, RuleId, Source, Suppression, Verdict, rank};
pub use check::Checked;
pub(crate) use guidance::PendingGuidance;
use ledger::Ledger;
pub use origin::Origin;
#[cfg(feature = "harness")]
pub(crate) use snapshot::fnv1a;
pub use snapshot::{Lost, Snapshot};
use ttsr_views::detect::unknown_name::KnownNames;

/// Number of replaced packs whose decisions a session can still resolve.
const RETIRED: usize = 16;

/// The policy state of one conversation, for loops that drive a [`Stream`] per attempt themselves.
///
/// Hosts use [`Conversation`](crate::Conversation), which is built on it. With a session the host must act on each
/// verdict when it is returned, release text, report whether decisions were carried out, and begin turns.
///
/// By default a guard (`abort`, `redact`, `consult`, and every critical
/// rule) acts every time; guidance (`inject`, `warn`, `observe`, `handoff`) once per session; `retry` at
/// most twice a turn, after which the reply is delivered with a warning, or cut if the rule is critical.
/// All rules together retry at most [`Limits::turn_retries`](crate::Limits::turn_retries) times a turn.
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
    /// Number of packs that were replaced.
    generation: u32,
    /// For each replaced pack, the latest last: for each of its rules the index in the present pack, if it is unchanged.
    retired: VecDeque<Vec<Option<usize>>>,
    /// The full ids of the rules of those packs, in the same order of packs.
    retired_ids: VecDeque<Box<[Box<str>]>>,
    /// Number of turns begun.
    turn: u32,
    /// Number of attempts begun in this turn.
    attempts: u32,
    /// Number of retries decided in this turn, by all rules.
    retries: u32,
    mode: Mode,
    origin: Origin,
    /// For each rule, true if the origin is out of its scope; `None` if there is no such rule.
    excluded: Option<Arc<[bool]>>,
    /// The counts of the actions of live rules.
    live: Ledger,
    /// The counts of the actions that shadow rules would have taken.
    shadow: Ledger,
    decisions: Vec<Decision>,
    /// The state carried from replies to later ones.
    histories: RuleHistories,
    /// Names that the host knows.
    known: Option<Arc<KnownNames>>,
}

impl Pack {
    /// Creates a session: the state of one conversation.
    ///
    /// # Complexity
    /// Constant: the pack is shared. Linear in its rules if one of them has `agents`, `models` or `providers`.
    #[must_use]
    pub fn session(&self) -> Session {
        Session::new(self.clone())
    }
}

impl Session {
    pub(crate) fn new(pack: Pack) -> Session {
        let mut session = Session {
            pack,
            generation: 0,
            retired: VecDeque::new(),
            retired_ids: VecDeque::new(),
            turn: 0,
            attempts: 0,
            retries: 0,
            mode: Mode::Live,
            origin: Origin::default(),
            excluded: None,
            live: Ledger::default(),
            shadow: Ledger::default(),
            decisions: Vec::new(),
            histories: RuleHistories::default(),
            known: None,
        };
        session.update_excluded();
        session
    }

    /// Begins a turn, with a new prompt of the user: attempts and retries count from zero.
    ///
    /// # Complexity
    /// Linear in the rules that have acted in the session.
    pub fn begin_turn(&mut self) {
        self.turn = self.turn.saturating_add(1);
        self.attempts = 0;
        self.retries = 0;
        self.live.begin_turn();
        self.shadow.begin_turn();
        self.histories
            .values_mut()
            .for_each(|history| history.turn = 0);
    }

    /// Returns the number of turns that have begun.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.turn
    }

    /// Returns a stream for the next attempt at a reply.
    ///
    /// # Complexity
    /// Linear in the rules that keep state between replies.
    #[must_use]
    pub fn stream(&mut self) -> Stream {
        self.attempts = self.attempts.saturating_add(1);
        self.new_stream(self.excluded.clone())
    }

    /// Returns the pack whose rules this session applies.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        &self.pack
    }

    /// Sets the mode. In [`Mode::Shadow`] no rule acts from now on, whatever its own mode; each decides and is logged.
    ///
    /// # Example: decisions in shadow
    /// ```
    /// use ttsr::{Mode, Pack, PartId, Pattern, Rule, Suppression, Verdict};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut session = pack.session();
    /// session.set_mode(Mode::Shadow);
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"TODO: more"), Verdict::Continue);
    /// assert_eq!(session.decisions()[0].suppression, Some(Suppression::Shadow));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
    }

    /// Adds names that rules with `unknown-name` accept in addition to their own lists, in streams created after this
    /// call: dependencies, members of the workspace, modules. A [snapshot](Self::snapshot) does not contain them.
    ///
    /// # Complexity
    /// Linear in the names; in all names so far if a stream shares them.
    ///
    /// # Example: a dependency that only the host knows
    /// ```
    /// use ttsr::{Pack, PartId};
    /// let pack = Pack::from_toml(r#"
    /// schema = 1
    /// [pack]
    /// name = "demo"
    /// [rule.invented]
    /// description = "A package that is not there"
    /// match.unknown-name = { known = ["our_crate"] }
    /// examples.match = ["use no_such_crate::x;"]
    /// "#)?;
    /// let mut session = pack.session();
    /// session.add_known_names(["serde"]);
    /// let mut stream = session.stream();
    /// let _ = session.push(&mut stream, PartId(0), b"```rust\nuse serde::Serialize;\n");
    /// assert!(session.decisions().is_empty());
    /// let _ = session.push(&mut stream, PartId(0), b"use sered::Serialize;\n```\n");
    /// assert_eq!(session.decisions().len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn add_known_names<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let known = self.known.get_or_insert_default();
        Arc::make_mut(known).extend(names);
    }

    /// Returns the mode that was set last.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Returns the full id of the rule of a decision of this session; `None` for a decision of a limit. It stays the
    /// same after [`reload`](Self::reload), for the last 16 packs.
    ///
    /// # Example: a decision of a pack that was replaced
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let pack = |id: &str| Pack::builder().rule(Rule::new(id, vec![Pattern::literal("foo")])).build();
    /// let mut session = pack("demo/old")?.session();
    /// let mut stream = session.stream();
    /// let verdict = session.push(&mut stream, PartId(0), b"foo");
    /// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
    /// let _ = session.reload(pack("demo/new")?);
    /// assert_eq!(session.rule_id(&decision), Some("demo/old"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn rule_id(&self, decision: &Decision) -> Option<&str> {
        let index = decision.rule()?.index();
        let age = self.generation.checked_sub(decision.generation)? as usize;
        if age == 0 {
            return self.pack.rules().get(index).map(|rule| rule.id.as_str());
        }
        let ids = &self.retired_ids[self.retired_ids.len().checked_sub(age)?];
        ids.get(index).map(|id| &**id)
    }

    /// Sets the agent, the model and the provider of the replies whose streams begin from now on.
    ///
    /// # Complexity
    /// Linear in the rules of the pack if one of them has `agents`, `models` or `providers`.
    ///
    /// # Example: a rule for one agent
    /// ```
    /// use ttsr::{Origin, Pack, PartId, Pattern, Rule, Verdict};
    /// let mut rule = Rule::new("demo/plan-only", vec![Pattern::literal("I will now edit")]);
    /// rule.agents = vec!["plan".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// for (agent, is_broken) in [("build", false), ("plan", true)] {
    ///     session.set_origin(Origin { agent: Some(agent.into()), ..Origin::default() });
    ///     assert_eq!(session.applies(pack.find("demo/plan-only").unwrap()), is_broken);
    ///     let mut stream = session.stream();
    ///     let verdict = session.push(&mut stream, PartId(0), b"I will now edit the file.");
    ///     assert_eq!(verdict != Verdict::Continue, is_broken);
    /// }
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_origin(&mut self, origin: Origin) {
        self.origin = origin;
        self.update_excluded();
    }

    /// Returns the agent, the model and the provider of the next reply.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Returns true if the rule can decide in the next stream: if the [origin](Self::set_origin) is in its scope.
    #[must_use]
    pub fn applies(&self, rule: RuleId) -> bool {
        let excluded = self.excluded.as_ref();
        let excluded = excluded.and_then(|rules| rules.get(rule.index()));
        excluded != Some(&true)
    }

    /// Reads a delta and returns what to do. See [`Stream::push`].
    ///
    /// One delta can cause several decisions. The verdict is the one to act on first (the one that cuts, if there is
    /// one); [`decisions`](Self::decisions) has all.
    ///
    /// # Complexity
    /// That of [`Stream::push`], and `O(n log n)` in the `n` hits of the delta.
    #[inline(always)]
    pub fn push(&mut self, stream: &mut Stream, part: PartId, bytes: &[u8]) -> Verdict {
        self.decisions.clear();
        if stream.push(part, bytes).is_empty() && !stream.has_limit() {
            return Verdict::Continue;
        }
        self.decide_on_hits(stream)
    }

    /// Opens a part. See [`Stream::open`].
    pub fn open(&mut self, stream: &mut Stream, part: PartId, channel: Channel) -> Verdict {
        self.decisions.clear();
        stream.open(part, channel);
        self.decide_on_hits(stream)
    }

    /// Names the tool of a part. See [`Stream::set_tool`].
    ///
    /// # Example: a match that waits for the name of the tool
    /// ```
    /// use ttsr::{Channel, Pack, PartId, Pattern, Rule, Verdict};
    /// let mut rule = Rule::new("demo/no-rm", vec![Pattern::literal("rm -rf")]);
    /// rule.tools = vec!["bash".into()];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// let part = PartId(0);
    /// let _ = session.open(&mut stream, part, Channel::ToolInput);
    /// let input = br#"{"command": "rm -rf /"}"#;
    /// assert_eq!(session.push(&mut stream, part, input), Verdict::Continue);
    /// assert_ne!(session.set_tool(&mut stream, part, "bash", "call_1"), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn set_tool(
        &mut self,
        stream: &mut Stream,
        part: PartId,
        name: &str,
        call: &str,
    ) -> Verdict {
        self.decisions.clear();
        let _ = stream.set_tool(part, name, call);
        self.decide_on_hits(stream)
    }

    /// Ends a part, which can decide. See [`Stream::close`].
    ///
    /// # Complexity
    /// That of [`Stream::close`], and `O(n log n)` in its `n` hits.
    ///
    /// # Example: a word that may still grow
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-any", vec![Pattern::word("any")])).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"let x: any"), Verdict::Continue);
    /// assert_ne!(session.close(&mut stream, PartId(0)), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn close(&mut self, stream: &mut Stream, part: PartId) -> Verdict {
        self.decisions.clear();
        let _ = stream.close(part);
        self.decide_on_hits(stream)
    }

    /// Ends the reply: closes the parts that are open, decides the rules that need the whole reply, and, unless it was
    /// cut, counts its matches for the turn and the session. See [`Stream::finish`].
    ///
    /// # Complexity
    /// That of [`Stream::finish`], `O(n log n)` in its `n` hits, and linear in the rules whose condition counts over
    /// replies.
    ///
    /// # Example: a reply in which a line is missing
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let mut rule = Rule::new("demo/unsigned", vec![Pattern::literal("Mend")]);
    /// rule.condition.none = vec![Pattern::literal("Signed-off-by:")];
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"Mend the parser"), Verdict::Continue);
    /// assert_ne!(session.finish(&mut stream), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn finish(&mut self, stream: &mut Stream) -> Verdict {
        self.decisions.clear();
        let _ = stream.finish();
        let verdict = self.decide_on_hits(stream);
        if !stream.is_cut() {
            self.histories = stream.histories().renamed(|rule| {
                let index = self.current_index(stream.generation(), rule)?;
                u32::try_from(index).ok().map(RuleId)
            });
        }
        verdict
    }

    /// Sets the number of tokens of a part so far, as the host counts them. See [`Stream::count_tokens`].
    ///
    /// # Example: a reply of more than ten tokens
    /// ```
    /// use ttsr::rule::Bound;
    /// use ttsr::{Pack, PartId, Rule, Verdict};
    /// let mut rule = Rule::new("demo/brief", vec![]);
    /// rule.condition.limit = Some(Bound { tokens: Some(10), ..Bound::default() });
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"Short."), Verdict::Continue);
    /// assert_ne!(session.count_tokens(&mut stream, PartId(0), 11), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn count_tokens(&mut self, stream: &mut Stream, part: PartId, tokens: u64) -> Verdict {
        self.decisions.clear();
        let _ = stream.count_tokens(part, tokens);
        self.decide_on_hits(stream)
    }

    /// Sets the time. See [`Stream::tick`].
    ///
    /// # Example: a reply that takes longer than a minute
    /// ```
    /// use std::time::Duration;
    /// use ttsr::rule::Bound;
    /// use ttsr::{Pack, PartId, Rule, Verdict};
    /// let mut rule = Rule::new("demo/slow", vec![]);
    /// rule.condition.limit = Some(Bound { millis: Some(60_000), ..Bound::default() });
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// assert_eq!(session.push(&mut stream, PartId(0), b"Let me think"), Verdict::Continue);
    /// assert_ne!(session.tick(&mut stream, Duration::from_secs(61)), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn tick(&mut self, stream: &mut Stream, now: Duration) -> Verdict {
        self.decisions.clear();
        let _ = stream.tick(now);
        self.decide_on_hits(stream)
    }

    /// Returns the decisions of the last call in their order, the suppressed ones included.
    ///
    /// # Example: one delta, two rules
    /// ```
    /// use ttsr::{Action, Pack, PartId, Pattern, Rule, Severity, Verdict};
    /// let mut cuts = Rule::new("demo/b", vec![Pattern::literal("bar")]);
    /// (cuts.severity, cuts.action) = (Severity::Critical, Action::Abort);
    /// let pack = Pack::builder().rule(Rule::new("demo/a", vec![Pattern::literal("foo")])).rule(cuts).build()?;
    /// let mut session = pack.session();
    /// let mut stream = session.stream();
    /// let verdict = session.push(&mut stream, PartId(0), b"foo bar");
    /// assert!(matches!(verdict, Verdict::Act(first) if first.action == Action::Abort));
    /// let actions: Vec<Action> = session.decisions().iter().map(|made| made.action).collect();
    /// assert_eq!(actions, [Action::Inject, Action::Abort]);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Reports that the host acted on the decision: its message is in the model's context, or shown to the user.
    ///
    /// Until then, or until the next turn begins, a decision is only reserved: further hits of its rule are suppressed
    /// already, and [`compacted`](Self::compacted) does not re-arm the rule.
    pub fn mark_delivered(&mut self, decision: &Decision) {
        if let (None, Some(rule)) = (decision.suppression, decision.rule()) {
            let index = self.current_index(decision.generation, rule);
            self.live.deliver(index, decision.turn, self.turn);
        }
    }

    /// Counts guidance as delivered, as [`mark_delivered`](Self::mark_delivered) does for its decision.
    pub(crate) fn deliver_pending(&mut self, pending: &PendingGuidance) {
        let index = pending
            .id
            .and_then(|id| self.current_index(pending.generation, id));
        self.live.deliver(index, pending.turn, self.turn);
    }

    /// Reports that the host could not act on the decision: the rule may act again.
    ///
    /// # Example: guidance that could not be given
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut session = pack.session();
    /// session.begin_turn();
    /// let mut acts = |is_given: bool| {
    ///     let mut stream = session.stream();
    ///     match session.push(&mut stream, PartId(0), b"TODO: more") {
    ///         Verdict::Act(decision) if is_given => session.mark_delivered(&decision),
    ///         Verdict::Act(decision) => session.mark_dropped(&decision),
    ///         Verdict::Continue => return false,
    ///     }
    ///     true
    /// };
    /// assert!(acts(false), "nobody was told");
    /// assert!(acts(true), "so it acts again");
    /// assert!(!acts(true), "and that was said once");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn mark_dropped(&mut self, decision: &Decision) {
        if let (None, Some(rule)) = (decision.suppression, decision.rule()) {
            let index = self.current_index(decision.generation, rule);
            self.revert(index, decision.action, decision.turn);
        }
    }

    /// Reverts guidance that was not delivered, as [`mark_dropped`](Self::mark_dropped) does for its decision.
    #[cfg(feature = "harness")]
    pub(crate) fn drop_pending(&mut self, pending: &PendingGuidance) {
        let index = pending
            .id
            .and_then(|id| self.current_index(pending.generation, id));
        self.revert(index, pending.action, pending.turn);
    }

    /// Reverts one action of the rule at index `place` of the present pack, which was counted in `turn`.
    fn revert(&mut self, index: Option<usize>, action: Action, turn: u32) {
        if action == Action::Retry && turn == self.turn {
            self.retries = self.retries.saturating_sub(1);
        }
        self.live.revert(index, action, turn, self.turn);
    }

    /// Reports that earlier messages were removed from the model's context, and guidance with them. Rules whose action
    /// speaks to the model may act again, as if they never had. The bounds of a turn stay spent, and so do the
    /// [`allowance`](crate::Rule::allowance) of a rule and messages that were shown to the user.
    ///
    /// # Complexity
    /// `O(n log m)` for the `n` rules of the pack and the `m` rules that have acted.
    ///
    /// # Example: guidance that was removed from the context
    /// ```
    /// use ttsr::{Pack, PartId, Pattern, Rule, Verdict};
    /// let pack = Pack::builder().rule(Rule::new("demo/no-todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut session = pack.session();
    /// session.begin_turn();
    /// let mut stream = session.stream();
    /// let verdict = session.push(&mut stream, PartId(0), b"TODO: more");
    /// let Verdict::Act(decision) = verdict else { panic!("the rule is broken") };
    /// session.mark_delivered(&decision);
    ///
    /// session.compacted();
    /// let mut stream = session.stream();
    /// assert_ne!(session.push(&mut stream, PartId(0), b"TODO: more"), Verdict::Continue);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn compacted(&mut self) {
        for (index, rule) in self.pack.rules().iter().enumerate() {
            if enters_context(rule.action) {
                self.live.rearm(index);
                self.shadow.rearm(index);
            }
        }
    }

    fn new_stream(&self, excluded: Option<Arc<[bool]>>) -> Stream {
        let histories = self.histories.clone();
        let known = self.known.clone();
        let stream = Stream::new(self.pack.clone(), self.attempts);
        let is_shadow = self.mode == Mode::Shadow;
        stream.in_session((self.generation, is_shadow), excluded, histories, known)
    }

    /// Determines the rules that the origin is out of scope of.
    fn update_excluded(&mut self) {
        self.excluded = self.origin.excluded(&self.pack);
    }

    /// Retires the present pack, whose rules have these indices in the next one.
    fn retire(&mut self, indices: Vec<Option<usize>>) {
        for known in &mut self.retired {
            for index in known.iter_mut() {
                *index = index.and_then(|index| indices[index]);
            }
        }
        let histories = std::mem::take(&mut self.histories);
        self.histories = histories.renamed(|rule| {
            let index = indices.get(rule.index()).copied()??;
            u32::try_from(index).ok().map(RuleId)
        });
        let ids = self.pack.rules().iter().map(|rule| rule.id.as_str().into());
        self.retired_ids.push_back(ids.collect());
        self.retired.push_back(indices);
        if self.retired.len() > RETIRED {
            self.retired.pop_front();
            self.retired_ids.pop_front();
        }
        self.generation += 1;
    }

    /// Returns the index in the present pack of a rule of the pack of that generation, if the rule is unchanged. `None`
    /// for a rule that the present pack cannot have: of a stream or a decision of another session.
    fn current_index(&self, generation: u32, rule: RuleId) -> Option<usize> {
        let age = self.generation.checked_sub(generation)? as usize;
        if age == 0 {
            return Some(rule.index()).filter(|&index| index < self.pack.rules().len());
        }
        let indices = &self.retired[self.retired.len().checked_sub(age)?];
        indices.get(rule.index()).copied()?
    }

    #[cold]
    #[inline(never)]
    fn decide_on_hits(&mut self, stream: &mut Stream) -> Verdict {
        if stream.is_cut() || stream.hits().is_empty() && !stream.has_limit() {
            return Verdict::Continue;
        }
        let hits = stream.hits().to_vec();
        self.judge_hits(stream, hits)
    }

    /// Makes decisions of hits, in the order in which the hits became certain.
    fn judge_hits(&mut self, stream: &mut Stream, mut hits: Vec<Hit>) -> Verdict {
        let mut verdict = Verdict::Continue;
        hits.sort_by_key(|hit| hit.decided);
        for certain in hits.chunk_by_mut(|a, b| a.decided == b.decided) {
            self.rank(stream, certain);
            for hit in certain {
                let decision = self.decide(stream, *hit);
                self.record(decision, &mut verdict, stream);
            }
        }
        if let (Some(source), false) = (stream.take_limit(), stream.is_cut()) {
            let decision = self.decision(stream, Action::Abort, source, None);
            self.record(decision, &mut verdict, stream);
        }
        verdict
    }

    /// Sorts hits that became certain at the same byte: the strongest first.
    fn rank(&self, stream: &Stream, hits: &mut [Hit]) {
        if hits.len() < 2 {
            return;
        }
        let pack = stream.pack();
        hits.sort_by(|a, b| {
            let what = |hit: &Hit| (self.action(stream, *hit), pack.rule(hit.rule));
            rank(what(a), what(b))
        });
    }

    /// Records the decision, and makes it the verdict if it is the first one or cuts.
    fn record(&mut self, decision: Decision, verdict: &mut Verdict, stream: &mut Stream) {
        self.decisions.push(decision);
        let index = decision.rule();
        let index = index.and_then(|rule| self.current_index(stream.generation(), rule));
        let ledger = match decision.suppression {
            None => &mut self.live,
            Some(Suppression::Shadow) => &mut self.shadow,
            Some(_) => return,
        };
        if decision.rule().is_some() {
            ledger.reserve(index, decision.action, self.turn);
        }
        if decision.suppression.is_some() {
            // Hosts never report the outcome of a shadow decision.
            return ledger.deliver(index, self.turn, self.turn);
        }
        if decision.action == Action::Retry {
            self.retries = self.retries.saturating_add(1);
        }
        if decision.action.cuts() {
            stream.cut();
        }
        if *verdict == Verdict::Continue || decision.action.cuts() {
            *verdict = Verdict::Act(decision);
        }
    }

    /// Decides about the hit, given how often its rule acted.
    fn decide(&self, stream: &Stream, hit: Hit) -> Decision {
        let rule = stream.pack().rule(hit.rule);
        let index = self.current_index(stream.generation(), hit.rule);
        let ledger = self.ledger(rule.mode);
        let mut suppression = ledger.suppression(index, rule, self.turn);
        if stream.is_cut() {
            suppression = Some(Suppression::Cut);
        } else if suppression.is_none() && self.is_shadow(rule.mode) {
            suppression = Some(Suppression::Shadow);
        }
        let action = self.action(stream, hit);
        self.decision(stream, action, Source::Rule(hit), suppression)
    }

    fn action(&self, stream: &Stream, hit: Hit) -> Action {
        let rule = stream.pack().rule(hit.rule);
        let index = self.current_index(stream.generation(), hit.rule);
        let is_generated = !matches!(
            stream.channel(hit.part),
            Some(Channel::ToolOutput | Channel::UserInput)
        );
        // Only live retries count: a rule in shadow must not consume the bound.
        let has_retries = self.retries < self.pack.limits().turn_retries;
        let can_retry = is_generated && (has_retries || self.is_shadow(rule.mode));
        self.ledger(rule.mode).action(index, rule, can_retry)
    }

    fn decision(
        &self,
        stream: &Stream,
        action: Action,
        source: Source,
        suppression: Option<Suppression>,
    ) -> Decision {
        Decision {
            action,
            source,
            attempt: stream.attempt_number(),
            turn: self.turn,
            suppression,
            generation: stream.generation(),
        }
    }

    fn is_shadow(&self, mode: Mode) -> bool {
        [mode, self.mode].contains(&Mode::Shadow)
    }

    fn ledger(&self, mode: Mode) -> &Ledger {
        if self.is_shadow(mode) {
            &self.shadow
        } else {
            &self.live
        }
    }
}

/// Returns true if the action puts a message into the model's context, where it stays until a compaction.
fn enters_context(action: Action) -> bool {
    matches!(
        action,
        Action::Inject | Action::Retry | Action::Consult | Action::Append | Action::Prepend
    )
}
