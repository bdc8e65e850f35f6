//! The handle for hosts: the policy of a conversation and the attempt in progress, in one owned object.
//!
//! It is built on `session` (which decides) and `stream` (which matches), and adds what a host would otherwise have to
//! do by hand: a cut repeats, only text that rules release can be taken (`release`, `redact`, `scalars`), guidance waits
//! for the next request, whole texts are screened (`screen`), and results are owned values (`outcome`).
//! `turn` has the borrowed form, whose types keep the calls in order.

mod outcome;
mod redact;
mod release;
mod scalars;
mod screen;
mod turn;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::event::Event;
use crate::pack::Pack;
use crate::program::ReleasePlan;
use crate::rule::{Action, Channel, Mode, Partial, ToolOutcome};
use crate::session::{Lost, Origin, PendingGuidance, Session, Snapshot};
use crate::stream::{Counters, Stream};
use crate::verdict::{Decision, PartId, RuleId, Verdict};
pub use outcome::{
    CallReview, Cut, CutSource, DecisionRecord, Flow, Note, RetainedText, RetryOptions,
};
pub(crate) use redact::push_json_escaped;
use release::PartText;
pub use screen::ScreenedText;
#[cfg(feature = "harness")]
pub(crate) use screen::TextEdits;
pub use turn::{Attempt, Turn};

/// One conversation under the rules of a pack. Owned, without lifetimes, and `Send`.
///
/// [`turn`](Self::turn) gives the borrowed form, whose types keep the calls in order. The methods here are the owned
/// form, for hosts that cannot hold a borrow between two calls, such as bindings to other languages: `begin_turn`,
/// then for each request `begin_attempt`, the events of the reply (`open`, `set_tool`, `forward`, `close`), and `finish`.
///
/// Whatever the host does with the values that are returned:
///
/// - A [cut](Flow::Cut) is returned again by every call until the attempt ends.
/// - [`forward`](Self::forward) and [`take`](Self::take) are the only ways to obtain text. After a cut they return none.
///   Held or redacted matches are never returned; tool input only once the call is complete and no rule has cut it (see
///   [`stream_tool_input`](Self::stream_tool_input)). Of a match that cuts and is not held, the bytes that arrived in
///   earlier calls may already have been returned.
/// - Rules in shadow neither delay nor change text.
/// - Outside of a turn nothing is read and nothing is returned.
///
/// # Example: the owned form
/// ```
/// use ttsr::{Channel, Conversation, Flow, Pack, PartId};
/// let mut conversation = Conversation::new(&Pack::builtin("std/secrets")?);
/// let prompt = conversation.begin_turn("Which token do you use?");
/// assert_eq!(prompt.text, "Which token do you use?");
/// conversation.begin_attempt().ok()?;
/// let part = PartId(0);
/// conversation.open(part, Channel::Text).ok()?;
/// let mut shown = Vec::new();
/// for delta in ["It is ghp_012345678901", "234567890123456789abcdef", "."] {
///     shown.extend_from_slice(conversation.forward(part, delta.as_bytes())?);
/// }
/// conversation.finish().ok()?;
/// shown.extend_from_slice(conversation.take(part));
/// assert_eq!(String::from_utf8(shown)?, "It is [redacted].");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Conversation {
    session: Session,
    streams_tool_input: bool,
    /// True if the reference loop drives the conversation: it acts on the decisions of each call, asks the questions of
    /// reviews before calls run, and reports whether handoffs and reviews were carried out.
    is_loop: bool,
    /// True from the user's prompt to the answer that calls no tool.
    is_turn_open: bool,
    /// A cut of the whole turn, by a whole text.
    turn_cut: Option<Arc<Cut>>,
    /// Guidance for the next request.
    waiting: Vec<PendingGuidance>,
    attempt: Option<AttemptState>,
}

/// One attempt at a reply.
struct AttemptState {
    stream: Stream,
    plan: ReleasePlan,
    parts: Vec<PartText>,
    /// Index of the part that was used last.
    latest: usize,
    cut: Option<Arc<Cut>>,
    is_finished: bool,
    /// Guidance of this attempt's request. It counts as delivered once the first event of the reply arrives.
    sent: Vec<PendingGuidance>,
    /// True once the first event of the reply has arrived.
    has_begun: bool,
    /// Redactions to apply: those of rules that the policy lets act.
    redacting: Vec<(RuleId, PartId)>,
    records: Vec<DecisionRecord>,
    reviews: Vec<CallReview>,
    /// Decisions that the reference loop has not acted on.
    new_decisions: Vec<LoopDecision>,
    /// Bytes that arrived after the end of the attempt.
    late_bytes: u64,
    /// The redacted text that was released last.
    out: Vec<u8>,
}

/// A decision of an attempt, for the reference loop.
#[cfg_attr(
    not(feature = "harness"),
    allow(dead_code, reason = "the loop reads it")
)]
#[derive(Debug)]
pub(crate) struct LoopDecision {
    pub(crate) decision: Decision,
    /// The message of the rule, or a sentence that names the limit; may be empty.
    pub(crate) message: String,
    /// True if the message waits for the next request because of this decision.
    pub(crate) is_queued: bool,
}

const NO_TURN: &str = "no turn is open: begin one with the user's prompt, or reopen the last one";
const NO_ATTEMPT: &str = "no attempt is in progress: begin one";

impl Conversation {
    /// Begins a conversation under the rules of `pack`.
    ///
    /// # Complexity
    /// Constant: the pack is shared. Linear in its rules if one of them has `agents`, `models` or `providers`.
    #[must_use]
    pub fn new(pack: &Pack) -> Conversation {
        Conversation::from_session(pack.session())
    }

    fn from_session(session: Session) -> Conversation {
        Conversation {
            session,
            streams_tool_input: false,
            is_loop: false,
            is_turn_open: false,
            turn_cut: None,
            waiting: Vec::new(),
            attempt: None,
        }
    }

    /// Restores a conversation from its snapshot, and returns the rules whose state could not be kept because `pack`
    /// does not have them or has them with other contents.
    ///
    /// # Complexity
    /// Linear in the snapshot and in the text of its rules, with a binary search in the pack for each of them.
    ///
    /// # Example: guidance that waits survives
    /// ```
    /// use ttsr::{Conversation, Flow, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/todo", vec![Pattern::word("TODO")]);
    /// rule.message = Some("Finish it.".into());
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut conversation = Conversation::new(&pack);
    /// let mut turn = conversation.turn("Write it.");
    /// assert_eq!(turn.attempt().push(PartId(0), b"// TODO: more"), Flow::Go);
    ///
    /// let written = serde_json::to_string(&conversation.snapshot())?;
    /// let (mut conversation, lost) = Conversation::restore(&pack, &serde_json::from_str(&written)?);
    /// assert!(lost.is_empty());
    /// let turn = conversation.turn("Go on.");
    /// assert_eq!(turn.guidance().map(|note| note.text).collect::<Vec<_>>(), ["Finish it."]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn restore(pack: &Pack, snapshot: &Snapshot) -> (Conversation, Vec<Lost>) {
        let (session, lost) = pack.restore(snapshot);
        let mut conversation = Conversation::from_session(session);
        conversation.is_turn_open = snapshot.is_turn_open;
        conversation.waiting = snapshot.guidance(pack);
        (conversation, lost)
    }

    /// Returns the state of the conversation, to be stored with serde. It contains the guidance that waits, and of
    /// replies only what the messages of that guidance quote. An attempt in progress is not in it.
    ///
    /// # Complexity
    /// Linear in the rules of the pack and in the text of the guidance that waits.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let unsent = self.attempt.iter().filter(|attempt| !attempt.has_begun);
        let unsent = unsent.flat_map(|attempt| &attempt.sent);
        self.session.snapshot_with(
            unsent.chain(&self.waiting),
            self.is_turn_open && self.turn_cut.is_none(),
        )
    }

    /// Returns the number of turns that have begun.
    #[must_use]
    pub fn turns(&self) -> u32 {
        self.session.turns()
    }

    /// Returns the pack whose rules apply to the next attempt.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        self.session.pack()
    }

    /// Replaces the pack from the next attempt on, and returns the rules whose state could not be kept. The attempt in
    /// progress keeps its pack.
    ///
    /// # Complexity
    /// `O(n log n)` in the rules of both packs, and linear in those of the last 16 packs.
    pub fn reload(&mut self, pack: Pack) -> Vec<Lost> {
        self.session.reload(pack)
    }

    /// Sets the mode. In [`Mode::Shadow`] every rule decides and none acts, delays or changes text.
    pub fn set_mode(&mut self, mode: Mode) {
        self.session.set_mode(mode);
        self.plan_attempt();
    }

    /// Sets the agent, the model and the provider of the replies from the next attempt on.
    ///
    /// # Complexity
    /// Linear in the rules of the pack if one of them has `agents`, `models` or `providers`.
    ///
    /// # Example: a rule for one agent
    /// ```
    /// use ttsr::{Conversation, Origin, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/plan-only", vec![Pattern::literal("I will now edit")]);
    /// rule.agents = vec!["plan".into()];
    /// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
    /// for (agent, notes) in [("build", 0), ("plan", 1)] {
    ///     conversation.set_origin(Origin { agent: Some(agent.into()), ..Origin::default() });
    ///     let mut turn = conversation.turn("Plan it.");
    ///     turn.attempt().push(PartId(0), b"I will now edit the file.").ok()?;
    ///     assert_eq!(turn.guidance().count(), notes);
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_origin(&mut self, origin: Origin) {
        self.session.set_origin(origin);
    }

    /// Returns the agent, the model and the provider of the next reply.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        self.session.origin()
    }

    /// Returns true if the rule can decide in the next attempt: if the [origin](Self::set_origin) is in its scope.
    #[must_use]
    pub fn applies(&self, rule: RuleId) -> bool {
        self.session.applies(rule)
    }

    /// Adds names that rules with `unknown-name` accept in addition to their own lists, from the next attempt on:
    /// dependencies, members of the workspace, modules. A [snapshot](Self::snapshot) does not contain them.
    ///
    /// # Complexity
    /// Linear in the names; in all names so far if a stream shares them.
    pub fn add_known_names<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        self.session.add_known_names(names);
    }

    /// Reports that earlier messages were removed from the model's context, and guidance with them. Rules whose action
    /// speaks to the model may act again, as if they never had. The bounds of a turn stay spent, and so do the
    /// [`allowance`](crate::Rule::allowance) of a rule and messages that were shown to the user.
    ///
    /// # Complexity
    /// `O(n log m)` for the `n` rules of the pack and the `m` rules that have acted.
    pub fn compacted(&mut self) {
        self.session.compacted();
    }

    /// Releases tool input as it arrives. By default, where rules may cut or review a call, its input is released only
    /// once the call is complete, so that no call that a rule cuts can run.
    ///
    /// With this, a host must discard the call when the attempt is cut. Calls that wait for a
    /// [review](Self::reviews) are held in any case.
    pub fn stream_tool_input(&mut self) {
        self.streams_tool_input = true;
        self.plan_attempt();
    }

    /// Plans the release of the parts of the attempt in progress that are not open yet.
    fn plan_attempt(&mut self) {
        let plan = self.attempt.as_ref().map(|it| self.plan(it.stream.pack()));
        if let (Some(attempt), Some(plan)) = (&mut self.attempt, plan) {
            attempt.plan = plan;
        }
    }

    fn plan(&self, pack: &Pack) -> ReleasePlan {
        if self.session.mode() == Mode::Shadow {
            return ReleasePlan::default();
        }
        let mut plan = pack.program().release;
        if self.streams_tool_input && (self.is_loop || !pack.program().has_reviews) {
            plan.gates_input = false;
        }
        plan
    }

    /// Begins a turn with the user's prompt, in the borrowed form. `user-input` rules read the prompt; what may be sent
    /// is [`Turn::prompt`].
    ///
    /// # Complexity
    /// That of [`begin_turn`](Self::begin_turn).
    #[must_use]
    pub fn turn(&mut self, prompt: &str) -> Turn<'_> {
        Turn::new(self, prompt)
    }

    /// Begins a turn with the user's prompt: retries count from zero, and `user-input` rules read the prompt. Returns
    /// the text to send. An attempt in progress ends.
    ///
    /// # Complexity
    /// Linear in the prompt, if a rule reads it, and in the rules that have acted in the session.
    pub fn begin_turn(&mut self, prompt: &str) -> ScreenedText {
        self.start_turn();
        self.screen(Channel::UserInput, None, prompt)
    }

    /// Begins a turn without reading a prompt, for hosts whose prompts are several texts: each is screened with
    /// [`screen`](Self::screen). An attempt in progress ends.
    ///
    /// # Complexity
    /// Linear in the rules that have acted in the session.
    ///
    /// # Example: a prompt of two texts
    /// ```
    /// use ttsr::{Action, Channel, Conversation, Flow, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/password", vec![Pattern::literal("password:")]);
    /// rule.on = vec![Channel::UserInput];
    /// rule.action = Action::Abort;
    /// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
    /// conversation.start_turn();
    /// for (text, cuts) in [("Log in.", false), ("password: tiramisu", true)] {
    ///     let screened = conversation.screen(Channel::UserInput, None, text);
    ///     assert_eq!(screened.flow.cut().is_some(), cuts);
    /// }
    /// assert_ne!(conversation.begin_attempt(), Flow::Go);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn start_turn(&mut self) {
        self.end_attempt();
        self.session.begin_turn();
        self.turn_cut = None;
        self.is_turn_open = true;
    }

    /// Reopens the turn that is over, for a host that continues without a prompt of the user: for instance with a reply
    /// that stopped at the token limit. Retries still count. A cut of the whole turn stays.
    pub fn reopen_turn(&mut self) {
        self.is_turn_open |= self.session.turns() > 0;
    }

    /// Returns the guidance for the next request, in the order in which it was decided. It counts as delivered once the
    /// first event of the reply to that request arrives; until then it waits.
    pub fn guidance(&self) -> impl Iterator<Item = Note> {
        let unsent = self.attempt.iter().filter(|attempt| !attempt.has_begun);
        let unsent = unsent.flat_map(|attempt| &attempt.sent);
        let all = unsent.chain(&self.waiting);
        all.filter(|known| !known.text.is_empty())
            .map(|known| Note {
                rule: known.rule.clone(),
                text: known.text.clone(),
            })
    }

    /// Begins an attempt: a request, with the guidance that waits, is about to be sent. An attempt in progress ends,
    /// and its text can no longer be taken.
    ///
    /// Returns a cut outside of a turn, and in a turn that is cut: then there is no attempt. A turn is over once a
    /// reply is finished that calls no tool and produces no guidance.
    ///
    /// # Complexity
    /// Linear in the rules that keep state between replies, and in the parts of the attempt that ends, which are freed.
    pub fn begin_attempt(&mut self) -> Flow {
        self.end_attempt();
        if let Some(cut) = &self.turn_cut {
            return Flow::Cut(Arc::clone(cut));
        }
        if !self.is_turn_open {
            return Flow::Cut(Cut::from_misuse(NO_TURN));
        }
        self.start_attempt();
        Flow::Go
    }

    /// Begins an attempt in the turn that is open.
    pub(crate) fn start_attempt(&mut self) {
        self.end_attempt();
        let stream = self.session.stream();
        self.attempt = Some(AttemptState {
            plan: self.plan(stream.pack()),
            stream,
            parts: Vec::new(),
            latest: 0,
            cut: None,
            is_finished: false,
            sent: std::mem::take(&mut self.waiting),
            has_begun: false,
            redacting: Vec::new(),
            records: Vec::new(),
            reviews: Vec::new(),
            new_decisions: Vec::new(),
            late_bytes: 0,
            out: Vec::new(),
        });
    }

    /// Restarts the reply without another request: the transport was opened again, and no text of the reply so far
    /// counts. The attempt stays cut if it is cut. Guidance that was decided since the request waits for the next one.
    ///
    /// # Example: the reply restarts
    /// ```
    /// use ttsr::{Conversation, Flow, Pack, PartId, Pattern, Rule};
    /// let pack = Pack::builder().rule(Rule::new("demo/todo", vec![Pattern::word("TODO")])).build()?;
    /// let mut conversation = Conversation::new(&pack);
    /// let mut turn = conversation.turn("Write it.");
    /// let mut attempt = turn.attempt();
    /// assert_eq!(attempt.push(PartId(0), b"// TODO: mo"), Flow::Go);
    /// assert_eq!(attempt.restart(), Flow::Go);
    /// assert_eq!(attempt.push(PartId(0), b"// Done."), Flow::Go);
    /// assert_eq!(attempt.take(PartId(0)), b"// Done.");
    /// drop(attempt);
    /// assert_eq!(turn.guidance().count(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn restart(&mut self) -> Flow {
        let Some(ended) = self.attempt.take() else {
            return self.flow();
        };
        // `start_attempt` counts the guidance that waits as sent with its request, and here no request follows.
        let waiting = std::mem::take(&mut self.waiting);
        self.start_attempt();
        if let Some(attempt) = &mut self.attempt {
            attempt.cut = ended.cut;
            attempt.sent = ended.sent;
            attempt.has_begun = ended.has_begun;
            attempt.late_bytes = ended.late_bytes;
        }
        self.waiting = waiting;
        self.flow()
    }

    /// Ends the attempt without finishing it. Its guidance waits again if no event of the reply arrived.
    pub fn end_attempt(&mut self) {
        // PERF: dropped in its place. An attempt has hundreds of bytes, which `take` would move.
        if let Some(attempt) = &mut self.attempt
            && !attempt.has_begun
        {
            self.waiting.splice(..0, attempt.sent.drain(..));
        }
        self.attempt = None;
    }

    /// Returns the state of the attempt, as every call that reads returns it.
    pub fn flow(&self) -> Flow {
        let cut = match &self.attempt {
            Some(attempt) => attempt.cut.as_ref().or(self.turn_cut.as_ref()),
            None => self.turn_cut.as_ref(),
        };
        match (cut, &self.attempt) {
            (Some(cut), _) => Flow::Cut(Arc::clone(cut)),
            (None, Some(_)) => Flow::Go,
            (None, None) if self.is_turn_open => Flow::Cut(Cut::from_misuse(NO_ATTEMPT)),
            (None, None) => Flow::Cut(Cut::from_misuse(NO_TURN)),
        }
    }

    /// Opens a part. Parts may interleave, and their ids are the host's. The second open of a part is counted and
    /// changes nothing.
    pub fn open(&mut self, part: PartId, channel: Channel) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let verdict = session.open(&mut attempt.stream, part, channel);
        attempt.part_or_insert(part, channel);
        self.act(verdict)
    }

    /// Names the tool of a part and its call, at any time before the close. See [`Stream::set_tool`].
    pub fn set_tool(&mut self, part: PartId, name: &str, call: &str) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let verdict = session.set_tool(&mut attempt.stream, part, name, call);
        attempt.part_or_insert(part, Channel::Text);
        self.act(verdict)
    }

    /// Sets the file that a part is about, before its first delta. See [`Stream::set_path`].
    pub fn set_path(&mut self, part: PartId, path: &str) -> Flow {
        let Some((_, attempt)) = self.reading() else {
            return self.flow();
        };
        attempt.stream.set_path(part, path);
        attempt.part_or_insert(part, Channel::Text);
        Flow::Go
    }

    /// Sets the outcome of the tool call whose output a part is, before its first delta. See [`Stream::set_outcome`].
    pub fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome) -> Flow {
        let Some((_, attempt)) = self.reading() else {
            return self.flow();
        };
        attempt.stream.set_outcome(part, outcome);
        attempt.part_or_insert(part, Channel::ToolOutput);
        Flow::Go
    }

    /// Reads a delta. A part that was never opened opens as text. A delta of a closed part is counted in
    /// [`Counters::unscanned_bytes`] and never released.
    ///
    /// # Complexity
    /// Linear in the delta, and in the number of parts if the part is not the one that was named last. Nothing is
    /// allocated while nothing is decided and the host takes the text after each call, once the part is open and the
    /// automaton is warm.
    #[inline]
    pub fn push(&mut self, part: PartId, bytes: &[u8]) -> Flow {
        if !self.is_reading() {
            return self.refuse(bytes.len() as u64);
        }
        let Conversation {
            session, attempt, ..
        } = self;
        if let Some(attempt) = attempt {
            let verdict = session.push(&mut attempt.stream, part, bytes);
            let text = attempt.part_or_insert(part, Channel::Text);
            if !text.is_closed {
                text.push(bytes);
            }
            if verdict != Verdict::Continue || !session.decisions().is_empty() {
                return self.act(verdict);
            }
        }
        Flow::Go
    }

    /// Reads a delta, and returns the text of the part that is released with it: [`push`](Self::push), then
    /// [`take`](Self::take). A delta that is released whole is returned as it is, without a copy.
    ///
    /// Text of the part that rules hold is returned with a later delta, or can be taken after [`close`](Self::close).
    ///
    /// # Errors
    /// If the attempt is cut, or is not in progress.
    ///
    /// # Complexity
    /// That of the two calls.
    ///
    /// # Example: a key is held until it is complete
    /// ```
    /// use ttsr::{Action, Conversation, Pack, PartId, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-key", vec![Pattern::regex("sk-[0-9]{4}")]);
    /// rule.action = Action::Redact;
    /// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
    /// let mut turn = conversation.turn("Which key is it?");
    /// let mut attempt = turn.attempt();
    /// let part = PartId(0);
    /// assert_eq!(attempt.forward(part, b"It is ")?, b"It is ");
    /// assert_eq!(attempt.forward(part, b"my sk-12")?, b"my ");
    /// assert_eq!(attempt.forward(part, b"34.")?, b"[redacted].");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[inline]
    pub fn forward<'t>(&'t mut self, part: PartId, bytes: &'t [u8]) -> Result<&'t [u8], Arc<Cut>> {
        match self.pass(part, bytes) {
            None => Ok(bytes),
            Some(flow) => {
                flow.ok()?;
                Ok(self.take(part))
            }
        }
    }

    /// Reads a delta as [`push`](Self::push) does. Returns `None` if nothing was decided and the whole delta is released at
    /// once: then there is nothing to take.
    #[inline]
    pub(crate) fn pass(&mut self, part: PartId, bytes: &[u8]) -> Option<Flow> {
        if !self.is_reading() {
            return Some(self.refuse(bytes.len() as u64));
        }
        let Conversation {
            session, attempt, ..
        } = self;
        let Some(attempt) = attempt else {
            return Some(self.flow());
        };
        let verdict = session.push(&mut attempt.stream, part, bytes);
        let is_decided = !session.decisions().is_empty();
        if !is_decided && attempt.pass(part, bytes) {
            return None;
        }
        let text = attempt.part_or_insert(part, Channel::Text);
        if !text.is_closed {
            text.push(bytes);
        }
        Some(match is_decided {
            true => self.act(verdict),
            false => Flow::Go,
        })
    }

    /// Applies an event of the reply to the attempt: the opening of a part, the name of its tool, a delta, the
    /// provider's repetition of a part (of which the bytes beyond those that were delivered are read), the end of a
    /// part, the end of the reply, or its restart. Other events change nothing.
    ///
    /// # Complexity
    /// That of the call which the event stands for: [`push`](Self::push) for a delta, and for the bytes of a repetition
    /// that were not delivered; [`close`](Self::close), [`finish`](Self::finish). Other events take constant time besides
    /// the search for the part, which is linear in the number of parts unless it is the one that was named last.
    ///
    /// # Example: the events of a reply
    /// ```
    /// use ttsr::{Channel, Conversation, Event, Flow, Pack, PartId};
    /// let part = PartId(0);
    /// let reply = [
    ///     Event::PartStart { part, name: "0".into(), channel: Channel::Text, tool: None, call: None },
    ///     Event::Delta { part, bytes: b"It is ghp_012345678901234567".to_vec() },
    ///     Event::Delta { part, bytes: b"890123456789abcdef.".to_vec() },
    ///     Event::Finish { reason: "stop".into() },
    /// ];
    /// let mut conversation = Conversation::new(&Pack::builtin("std/secrets")?);
    /// let mut turn = conversation.turn("Which token do you use?");
    /// let mut attempt = turn.attempt();
    /// let mut shown = Vec::new();
    /// for event in &reply {
    ///     assert_eq!(attempt.apply(event), Flow::Go);
    ///     shown.extend_from_slice(attempt.take(part));
    /// }
    /// assert_eq!(shown, b"It is [redacted].");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn apply(&mut self, event: &Event) -> Flow {
        match event {
            Event::PartStart {
                part,
                channel,
                tool,
                call,
                ..
            } => {
                let flow = self.open(*part, *channel);
                if flow != Flow::Go || (tool.is_none() && call.is_none()) {
                    return flow;
                }
                let name = tool.as_deref().unwrap_or_default();
                self.set_tool(*part, name, call.as_deref().unwrap_or_default())
            }
            Event::Tool { part, tool, call } => {
                self.set_tool(*part, tool, call.as_deref().unwrap_or_default())
            }
            Event::Outcome { part, outcome } => self.set_outcome(*part, *outcome),
            Event::Delta { part, bytes } => self.push(*part, bytes),
            Event::Snapshot { part, bytes } => {
                let known = usize::try_from(self.delivered_bytes(*part)).unwrap_or(usize::MAX);
                match bytes.get(known..) {
                    Some(new) if !new.is_empty() => self.push(*part, new),
                    _ => self.flow(),
                }
            }
            Event::PartEnd { part } => self.close(*part),
            Event::Finish { .. } => self.finish(),
            Event::Restart => self.restart(),
            Event::Unscanned { .. } | Event::Usage { .. } | Event::Error { .. } => self.flow(),
        }
    }

    /// Ends a part, which can decide. Its text is released whole, unless the attempt is cut.
    ///
    /// # Complexity
    /// Linear in the text that rules still wait with in the part, and in the number of parts if the part is not the one
    /// that was named last.
    pub fn close(&mut self, part: PartId) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let verdict = session.close(&mut attempt.stream, part);
        if let Some(index) = attempt.index(part) {
            attempt.parts[index].close();
        }
        self.act(verdict)
    }

    /// Ends the reply: closes the parts that are open, and decides the rules that need the whole reply. Nothing is read
    /// after it; text can be taken until the next attempt begins.
    ///
    /// # Complexity
    /// Linear in the number of parts and in the text that rules still wait with in them, which
    /// [`Limits`](crate::Limits) bounds.
    pub fn finish(&mut self) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let mut calls_tool = false;
        let verdict = session.finish(&mut attempt.stream);
        attempt.is_finished = true;
        for text in &mut attempt.parts {
            text.close();
            calls_tool |= text.channel == Channel::ToolInput;
        }
        let flow = self.act(verdict);
        // The turn goes on if another request follows: with the results of tools, or with guidance that waits.
        if flow == Flow::Go && !calls_tool && self.waiting.is_empty() {
            self.is_turn_open = false;
        }
        flow
    }

    /// Sets the number of tokens of a part so far, as the host counts them. See [`Stream::count_tokens`].
    pub fn count_tokens(&mut self, part: PartId, tokens: u64) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let verdict = session.count_tokens(&mut attempt.stream, part, tokens);
        self.act(verdict)
    }

    /// Sets the time: of any clock that never goes back, the same for the whole attempt. See [`Stream::tick`].
    ///
    /// # Complexity
    /// Linear in the number of open parts.
    pub fn tick(&mut self, now: Duration) -> Flow {
        let Some((session, attempt)) = self.reading() else {
            return self.flow();
        };
        let verdict = session.tick(&mut attempt.stream, now);
        self.act(verdict)
    }

    /// Returns the released text of a part that was not taken before: not held back, with redactions applied; in tool
    /// input, JSON stays JSON. Empty after a cut.
    ///
    /// The concatenation of all that is taken of a part depends on the text of the part alone, not on how it was split:
    /// it is the redacted text, or, if the attempt is cut, a prefix of it. How much of it a single call returns may also
    /// depend on the states that the automata of the pack have built for other text.
    ///
    /// # Complexity
    /// Constant if no rule of the pack can hold text of that channel: the buffer is handed out as it is. Otherwise linear
    /// in the text that waits, of which a part stays for as long as a rule holds it, and in the redactions of the part
    /// that were not applied yet. If the part is not the one that was named last, it is searched for among all parts.
    #[must_use = "the text is returned once"]
    pub fn take(&mut self, part: PartId) -> &[u8] {
        let is_turn_cut = self.turn_cut.is_some();
        match &mut self.attempt {
            Some(attempt) if attempt.cut.is_none() && !is_turn_cut => attempt.take(part),
            _ => &[],
        }
    }

    /// Returns the number of bytes of a part that were pushed in this attempt.
    #[must_use]
    pub fn delivered_bytes(&self, part: PartId) -> u64 {
        let attempt = self.attempt.as_ref();
        attempt.map_or(0, |attempt| attempt.stream.delivered_bytes(part))
    }

    /// Returns the number of bytes of a part, as pushed, whose text was [taken](Self::take); `None` if the part was not
    /// opened. It differs from the length of the text that was taken if rules redacted it.
    #[must_use]
    pub fn released(&self, part: PartId) -> Option<u64> {
        self.part_text(part).map(PartText::released)
    }

    fn part_text(&self, part: PartId) -> Option<&PartText> {
        let attempt = self.attempt.as_ref()?;
        attempt.index(part).map(|index| &attempt.parts[index])
    }

    /// Returns the decisions of this attempt so far, in their order; those that the policy suppresses too.
    #[must_use]
    pub fn decisions(&self) -> &[DecisionRecord] {
        self.attempt
            .as_ref()
            .map_or(&[], |attempt| &attempt.records)
    }

    /// Returns the tool calls of this attempt that wait for a review. Their input cannot be taken until
    /// [`approve`](Self::approve).
    #[must_use]
    pub fn reviews(&self) -> &[CallReview] {
        self.attempt
            .as_ref()
            .map_or(&[], |attempt| &attempt.reviews)
    }

    /// Ends the reviews of a call: its input may be taken. A call that is not to run stays unapproved.
    ///
    /// # Complexity
    /// Linear in the number of reviews.
    pub fn approve(&mut self, part: PartId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reviews.retain(|review| review.part != part);
        }
    }

    /// Returns the counters of the attempt; see [`Counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = self.attempt.as_ref().map(|attempt| {
            let mut counters = attempt.stream.counters();
            counters.unscanned_bytes += attempt.late_bytes;
            counters
        });
        counters.unwrap_or_default()
    }

    /// Returns true if the attempt reads events. The first one shows that its request was sent.
    #[inline]
    fn is_reading(&mut self) -> bool {
        let is_turn_cut = self.turn_cut.is_some();
        match &mut self.attempt {
            Some(attempt) if attempt.cut.is_none() && !attempt.is_finished && !is_turn_cut => {
                if !attempt.has_begun {
                    attempt.mark_begun(&mut self.session);
                }
                true
            }
            _ => false,
        }
    }

    /// Returns the session and the attempt, if the attempt reads events.
    fn reading(&mut self) -> Option<(&mut Session, &mut AttemptState)> {
        if !self.is_reading() {
            return None;
        }
        let attempt = self.attempt.as_mut()?;
        Some((&mut self.session, attempt))
    }

    #[cold]
    fn refuse(&mut self, bytes: u64) -> Flow {
        if let Some(attempt) = &mut self.attempt {
            attempt.late_bytes += bytes;
        }
        self.flow()
    }

    /// Acts on the decisions of the session's last call, which returned `verdict`.
    #[cold]
    fn act(&mut self, verdict: Verdict) -> Flow {
        for decision in self.session.decisions().to_vec() {
            let Some(attempt) = &mut self.attempt else {
                break;
            };
            let message = attempt.stream.message(&decision);
            let record = DecisionRecord::new(&attempt.stream, &decision, message.clone());
            attempt.records.push(record);
            if decision.is_suppressed() {
                self.record_for_loop(LoopDecision {
                    decision,
                    message,
                    is_queued: false,
                });
                continue;
            }
            let mut is_queued = false;
            match decision.action {
                Action::Inject => is_queued = self.queue(&decision, message.clone()),
                Action::Retry => {
                    attempt.cut(&decision, &message);
                    is_queued = self.queue(&decision, message.clone());
                }
                Action::Abort => {
                    attempt.cut(&decision, &message);
                    self.session.mark_delivered(&decision);
                }
                Action::Redact => {
                    let rule = decision.rule().map(|rule| (rule, decision.part()));
                    attempt.redacting.extend(rule);
                    self.session.mark_delivered(&decision);
                }
                Action::Consult => {
                    attempt.review(&decision);
                    if !self.is_loop {
                        self.session.mark_delivered(&decision);
                    }
                }
                Action::Handoff if self.is_loop => {}
                _ => self.session.mark_delivered(&decision),
            }
            self.record_for_loop(LoopDecision {
                decision,
                message,
                is_queued,
            });
        }
        let flow = self.flow();
        debug_assert_eq!(
            matches!(verdict, Verdict::Act(decision) if decision.action.cuts()),
            flow != Flow::Go,
            "the verdict is among the decisions"
        );
        flow
    }

    fn record_for_loop(&mut self, decision: LoopDecision) {
        if let (Some(attempt), true) = (&mut self.attempt, self.is_loop) {
            attempt.new_decisions.push(decision);
        }
    }

    /// Queues the message of a decision for the next request, once for each rule. Returns false if one of the rule waits
    /// already, or if no rule decided.
    pub(crate) fn queue(&mut self, decision: &Decision, text: String) -> bool {
        let Some(pending) = self.pending(decision, text) else {
            return false;
        };
        if self.waiting.iter().any(|known| known.rule == pending.rule) {
            match decision.action {
                // A retry that was not made would not count against the bound on retries.
                Action::Retry => self.session.mark_delivered(decision),
                _ => self.session.mark_dropped(decision),
            }
            return false;
        }
        self.waiting.push(pending);
        true
    }

    fn pending(&self, decision: &Decision, text: String) -> Option<PendingGuidance> {
        Some(PendingGuidance {
            rule: self.session.rule_id(decision)?.to_owned(),
            id: Some(decision.rule()?),
            generation: decision.generation,
            action: decision.action,
            turn: decision.turn,
            text,
        })
    }
}

/// The methods that only the reference loop needs.
#[cfg(feature = "harness")]
impl Conversation {
    /// Prepares the conversation for the reference loop: see [`is_loop`](Self::is_loop).
    pub(crate) fn into_loop_mode(mut self, streams_tool_input: bool) -> Conversation {
        self.end_attempt();
        self.is_loop = true;
        self.streams_tool_input = streams_tool_input;
        self
    }

    /// Returns the conversation for hosts that drive it themselves: the inverse of
    /// [`into_loop_mode`](Self::into_loop_mode).
    pub(crate) fn into_host_mode(mut self) -> Conversation {
        self.end_attempt();
        self.is_loop = false;
        self.streams_tool_input = false;
        self
    }

    /// Continues the turn; begins one if none has begun.
    pub(crate) fn continue_turn(&mut self) {
        self.reopen_turn();
        if !self.is_turn_open {
            self.start_turn();
        }
    }

    /// Records that the request of the attempt was sent, and its guidance with it.
    pub(crate) fn mark_sent(&mut self) {
        if let Some(attempt) = &mut self.attempt {
            attempt.mark_begun(&mut self.session);
        }
    }

    /// Undoes the preparation of a request that is not sent: its guidance waits again, and the retry that it was for was
    /// not made. Does nothing if the request was sent.
    pub(crate) fn withdraw_request(&mut self) {
        let Some(attempt) = self.attempt.as_mut().filter(|known| !known.has_begun) else {
            return;
        };
        let is_retry = |pending: &mut PendingGuidance| {
            matches!(pending.action, Action::Retry | Action::Fallback)
        };
        for pending in attempt.sent.extract_if(.., is_retry) {
            self.session.drop_pending(&pending);
        }
        self.waiting.splice(..0, attempt.sent.drain(..));
    }

    /// Queues a decision without a message, so that it counts as delivered or dropped with the next request.
    pub(crate) fn queue_without_message(&mut self, decision: &Decision) {
        let pending = self.pending(decision, String::new());
        self.waiting.extend(pending);
    }

    /// Adds the message of a decision to the request that is being prepared.
    pub(crate) fn add_to_request(&mut self, decision: &Decision, text: String) {
        let pending = self.pending(decision, text);
        match &mut self.attempt {
            Some(attempt) if !attempt.has_begun => attempt.sent.extend(pending),
            _ => self.waiting.extend(pending),
        }
    }

    /// Returns true if there are decisions that the loop has not acted on.
    #[inline]
    pub(crate) fn has_new_decisions(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| !attempt.new_decisions.is_empty())
    }

    /// Returns the decisions that the loop has not acted on, the suppressed ones included, in the order in which they were
    /// made.
    pub(crate) fn take_new_decisions(&mut self) -> Vec<LoopDecision> {
        let attempt = self.attempt.as_mut();
        attempt.map_or_else(Vec::new, |attempt| {
            std::mem::take(&mut attempt.new_decisions)
        })
    }

    /// Takes over the review of a call that a rule asks for. From then on it does not hold the input back.
    pub(crate) fn take_review(&mut self, part: PartId, rule: &str) -> Option<CallReview> {
        let reviews = &mut self.attempt.as_mut()?.reviews;
        let index = reviews
            .iter()
            .position(|review| review.part == part && review.rule == rule)?;
        Some(reviews.remove(index))
    }

    /// Returns the stream of the attempt.
    pub(crate) fn stream(&self) -> Option<&Stream> {
        self.attempt.as_ref().map(|attempt| &attempt.stream)
    }

    /// Returns true if text of the attempt may wait before it is released.
    pub(crate) fn delays_text(&self) -> bool {
        let attempt = self.attempt.as_ref();
        attempt.is_some_and(|attempt| attempt.plan.delays_text())
    }

    /// Returns the bytes of a part that were delivered and are not released.
    pub(crate) fn waiting_text(&self, part: PartId) -> &[u8] {
        self.part_text(part).map_or(&[], PartText::waiting)
    }

    /// Returns true if the released text of the part differs from the delivered text.
    pub(crate) fn is_redacted(&self, part: PartId) -> bool {
        self.part_text(part).is_some_and(PartText::is_redacted)
    }

    /// Returns the number of bytes in the redacted form of the first `end` delivered bytes of a part. 0 unless rules
    /// keep text.
    pub(crate) fn released_len(&self, part: PartId, end: u64) -> usize {
        let known = self.attempt.as_ref().zip(self.part_text(part));
        known.map_or(0, |(attempt, text)| {
            let kept = text.kept_bytes(&attempt.stream, &attempt.redacting, end);
            kept.len()
        })
    }

    /// Reports that the decision was acted on. See `Session::mark_delivered`.
    pub(crate) fn delivered_decision(&mut self, decision: &Decision) {
        self.session.mark_delivered(decision);
    }

    /// Reports that the decision could not be acted on. See `Session::mark_dropped`.
    pub(crate) fn dropped_decision(&mut self, decision: &Decision) {
        self.session.mark_dropped(decision);
    }
}

impl AttemptState {
    #[cold]
    fn mark_begun(&mut self, session: &mut Session) {
        self.has_begun = true;
        for sent in self.sent.drain(..) {
            session.deliver_pending(&sent);
        }
    }

    #[inline]
    fn index(&self, part: PartId) -> Option<usize> {
        match self.parts.get(self.latest) {
            Some(latest) if latest.part == part => Some(self.latest),
            _ => self.parts.iter().rposition(|known| known.part == part),
        }
    }

    #[inline]
    fn part_or_insert(&mut self, part: PartId, channel: Channel) -> &mut PartText {
        self.latest = match self.index(part) {
            Some(index) => index,
            None => self.insert(part, channel),
        };
        &mut self.parts[self.latest]
    }

    /// Adds a part, and returns its index.
    #[inline(never)]
    fn insert(&mut self, part: PartId, channel: Channel) -> usize {
        self.parts.push(PartText::new(part, channel, &self.plan));
        self.parts.len() - 1
    }

    /// Releases a delta that the stream has read, if no text of the part waits. Returns false if it must wait.
    #[inline]
    fn pass(&mut self, part: PartId, bytes: &[u8]) -> bool {
        // The input of a call that waits for a review must not leave.
        if !self.reviews.is_empty() {
            return false;
        }
        self.part_or_insert(part, Channel::Text);
        self.parts[self.latest].pass(&mut self.stream, &self.redacting, bytes)
    }

    fn take(&mut self, part: PartId) -> &[u8] {
        let is_reviewed = self.reviews.iter().any(|review| review.part == part);
        let (Some(index), false) = (self.index(part), is_reviewed) else {
            return &[];
        };
        let AttemptState {
            stream,
            parts,
            redacting,
            out,
            ..
        } = self;
        out.clear();
        parts[index].release(stream, redacting, out)
    }

    fn review(&mut self, decision: &Decision) {
        let rule = self.stream.rule(decision);
        let asked = rule.and_then(|rule| Some((rule, rule.consult.as_ref()?)));
        if let (Some((rule, consult)), Some(prompt)) = (asked, self.stream.consult_prompt(decision))
        {
            self.reviews.push(CallReview {
                part: decision.part(),
                rule: rule.id.clone(),
                prompt,
                model: consult.model.clone(),
                timeout_millis: consult.timeout_millis,
                tools: consult.tools.clone(),
                blocks_on_failure: consult.blocks_on_failure,
            });
        }
    }

    fn cut(&mut self, decision: &Decision, message: &str) {
        let rule = self.stream.rule(decision).cloned();
        let keep = match (&rule, decision.action) {
            (Some(rule), Action::Retry) => {
                self.retained_texts(decision, rule.partial, rule.holds())
            }
            _ => Vec::new(),
        };
        self.cut = Some(Cut::from_decision(decision, rule.as_ref(), message, keep));
    }

    /// Returns the texts that the next request repeats. The part that was cut ends at the match if the rule holds text or
    /// keeps only the text before the match.
    fn retained_texts(
        &mut self,
        decision: &Decision,
        partial: Partial,
        holds: bool,
    ) -> Vec<RetainedText> {
        if partial == Partial::Discard {
            return Vec::new();
        }
        let is_before_match = partial == Partial::KeepBeforeMatch || holds;
        let start = decision.hit().and_then(|hit| self.stream.start(&hit));
        let cut_end = match is_before_match {
            true => start.unwrap_or(0),
            false => decision.decided(),
        };
        let mut kept = Vec::new();
        for text in &self.parts {
            let is_cut = text.part == decision.part();
            let released = match text.is_closed {
                true => u64::MAX,
                false => self.stream.releasable(text.part),
            };
            let end = if is_cut {
                released.min(cut_end)
            } else {
                released
            };
            let content = text.retained_prefix(&self.stream, &self.redacting, end);
            if !content.is_empty() {
                kept.push(RetainedText {
                    part: text.part,
                    channel: text.channel,
                    text: content,
                });
            }
            if is_cut && partial == Partial::KeepBeforeMatch {
                break;
            }
        }
        kept
    }
}

/// Begins a conversation under the rules of the pack.
impl From<&Pack> for Conversation {
    fn from(pack: &Pack) -> Conversation {
        Conversation::new(pack)
    }
}

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No text of a reply: it may hold what a rule keeps out of logs.
        f.debug_struct("Conversation")
            .field("turn", &self.session.turns())
            .field("is_turn_open", &self.is_turn_open)
            .field(
                "attempt",
                &self.attempt.as_ref().map(|attempt| &attempt.stream),
            )
            .field("flow", &self.flow().name())
            .finish_non_exhaustive()
    }
}
