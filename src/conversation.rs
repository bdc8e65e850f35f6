//! The handle for hosts: the policy of a conversation and the attempt in progress, in one owned object.
//!
//! It is built on `session` (which decides) and `stream` (which matches), and adds what a host would otherwise have to
//! do by hand: a cut repeats, text leaves only as far as rules release it (`release`, `redact`, `scalars`), guidance
//! waits for the next request, whole texts are screened (`screen`), and results are owned values (`outcome`).
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

use crate::pack::Pack;
use crate::rule::{Action, Channel, Mode, Partial, ToolOutcome};
use crate::session::{Lost, Origin, PendingGuidance, Session, Snapshot};
use crate::stream::{Counters, Stream};
use crate::verdict::{Decision, PartId, RuleId};
pub use outcome::{CallReview, Cut, CutSource, DecisionRecord, Flow, KeptText, Note, RetryOptions};
pub(crate) use redact::push_json_escaped;
use release::{PartText, ReleasePlan};
pub use screen::ScreenedText;
pub use turn::{Attempt, Turn};

/// One conversation under the rules of a pack. Owned, without lifetimes, and `Send`.
///
/// [`turn`](Self::turn) gives the borrowed form, whose types keep the calls in order. The methods here are the owned
/// form, for hosts that cannot hold a borrow between two calls, such as bindings to other languages: `begin_turn`,
/// then for each request `begin_attempt`, the events of the reply (`open`, `tool`, `push`, `close`), and `finish`.
///
/// Whatever the host does with the values that are returned:
///
/// - A [cut](Flow::Cut) is returned again by every call until the attempt ends.
/// - Text leaves only through [`take`](Self::take), and after a cut none does. No byte of a match that a rule holds or
///   redacts leaves, and none of a tool call before it is complete and no rule has cut it (see
///   [`stream_tool_input`](Self::stream_tool_input)). Of a match that cuts and is not held, the bytes that arrived in
///   earlier calls may have left.
/// - Rules in shadow neither delay nor change text.
/// - Outside of a turn nothing is read and nothing leaves.
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
///     conversation.push(part, delta.as_bytes()).ok()?;
///     shown.extend_from_slice(conversation.take(part));
/// }
/// conversation.finish().ok()?;
/// shown.extend_from_slice(conversation.take(part));
/// assert_eq!(String::from_utf8(shown)?, "It is [redacted].");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Conversation {
    session: Session,
    plan: ReleasePlan,
    streams_tool_input: bool,
    /// True from the user's prompt to the answer that calls no tool.
    is_turn_open: bool,
    /// A cut of the whole turn, by a whole text.
    turn_cut: Option<Arc<Cut>>,
    /// Guidance for the next request.
    waiting: Vec<PendingGuidance>,
    attempt: Option<Box<AttemptState>>,
}

/// One attempt at a reply.
struct AttemptState {
    stream: Stream,
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
    /// Bytes that arrived after the end of the attempt.
    late_bytes: u64,
    /// The bytes that were released last.
    out: Vec<u8>,
}

const NO_TURN: &str = "no turn is open: begin one with the user's prompt, or reopen the last one";
const NO_ATTEMPT: &str = "no attempt is in progress: begin one";

impl Conversation {
    /// Begins a conversation under the rules of `pack`.
    #[must_use]
    pub fn new(pack: &Pack) -> Conversation {
        Conversation::of_session(pack.session())
    }

    fn of_session(session: Session) -> Conversation {
        let mut conversation = Conversation {
            session,
            plan: ReleasePlan::default(),
            streams_tool_input: false,
            is_turn_open: false,
            turn_cut: None,
            waiting: Vec::new(),
            attempt: None,
        };
        conversation.plan_release();
        conversation
    }

    /// Restores a conversation from its snapshot, and returns the rules whose state could not be kept because `pack`
    /// does not have them or has them with other contents.
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
        let mut conversation = Conversation::of_session(session);
        conversation.is_turn_open = snapshot.is_turn_open;
        conversation.waiting = snapshot.guidance(pack);
        (conversation, lost)
    }

    /// The state of the conversation, to be stored with serde. It contains the guidance that waits, and of replies
    /// only what the messages of that guidance quote. An attempt in progress is not in it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        let unsent = self.attempt.iter().filter(|attempt| !attempt.has_begun);
        let unsent = unsent.flat_map(|attempt| &attempt.sent);
        self.session.snapshot_with(
            unsent.chain(&self.waiting),
            self.is_turn_open && self.turn_cut.is_none(),
        )
    }

    /// The policy state: turns, origins, decisions.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The pack whose rules apply to the next attempt.
    #[must_use]
    pub fn pack(&self) -> &Pack {
        self.session.pack()
    }

    /// Replaces the pack from the next attempt on, and returns the rules whose state could not be kept. The attempt in
    /// progress keeps its pack.
    pub fn reload(&mut self, pack: Pack) -> Vec<Lost> {
        let lost = self.session.reload(pack);
        self.plan_release();
        lost
    }

    /// Sets the mode. In [`Mode::Shadow`] every rule decides and none acts, delays or changes text.
    pub fn set_mode(&mut self, mode: Mode) {
        self.session.set_mode(mode);
        self.plan_release();
    }

    /// Sets who produces the replies from the next attempt on. See [`Session::set_origin`].
    pub fn set_origin(&mut self, origin: Origin) {
        self.session.set_origin(origin);
    }

    /// Adds names that rules with `unknown-name` accept from the next attempt on. See [`Session::know`].
    pub fn know<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        self.session.know(names);
    }

    /// Tells that earlier messages left the model's context, so that guidance may be given again. See
    /// [`Session::compacted`].
    pub fn compacted(&mut self) {
        self.session.compacted();
    }

    /// Releases tool input as it arrives. By default, where rules may cut or review a call, its input is released only
    /// once the call is complete, so that no call that a rule cuts can run.
    ///
    /// With this, a host must discard the call when the attempt is cut. Calls that wait for a
    /// [review](Self::reviews) are held all the same.
    pub fn stream_tool_input(&mut self) {
        self.streams_tool_input = true;
        self.plan_release();
    }

    fn plan_release(&mut self) {
        self.plan = ReleasePlan::new(self.session.pack().rules(), self.session.mode());
        let reviews = |rule: &crate::rule::Rule| rule.action == Action::Consult;
        if self.streams_tool_input && !self.session.pack().rules().iter().any(reviews) {
            self.plan.gates_input = false;
        }
    }

    /// Begins a turn with the user's prompt, in the borrowed form. `user-input` rules read the prompt; what may be sent
    /// is [`Turn::prompt`].
    #[must_use]
    pub fn turn(&mut self, prompt: &str) -> Turn<'_> {
        Turn::new(self, prompt)
    }

    /// Begins a turn with the user's prompt: retries count from zero, and `user-input` rules read the prompt. Returns
    /// the text to send. An attempt in progress ends.
    pub fn begin_turn(&mut self, prompt: &str) -> ScreenedText {
        self.end_attempt();
        self.session.begin_turn();
        self.turn_cut = None;
        self.is_turn_open = true;
        self.screen(Channel::UserInput, None, prompt)
    }

    /// Reopens the turn that is over, for a host that goes on without a prompt of the user: to continue a reply that
    /// stopped at the token limit, for instance. Retries go on counting. A cut of the whole turn stays.
    pub fn reopen_turn(&mut self) {
        self.is_turn_open |= self.session.turn() > 0;
    }

    /// The guidance for the next request, in the order in which it was decided. It counts as delivered once the first
    /// event of the reply to that request arrives; until then it waits.
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
    /// reply is finished that calls no tool and leaves no guidance.
    pub fn begin_attempt(&mut self) -> Flow {
        self.end_attempt();
        if let Some(cut) = &self.turn_cut {
            return Flow::Cut(Arc::clone(cut));
        }
        if !self.is_turn_open {
            return Flow::Cut(Cut::of_misuse(NO_TURN));
        }
        self.attempt = Some(Box::new(AttemptState {
            stream: self.session.stream(),
            parts: Vec::new(),
            latest: 0,
            cut: None,
            is_finished: false,
            sent: std::mem::take(&mut self.waiting),
            has_begun: false,
            redacting: Vec::new(),
            records: Vec::new(),
            reviews: Vec::new(),
            late_bytes: 0,
            out: Vec::new(),
        }));
        Flow::Go
    }

    /// Ends the attempt without finishing it. Its guidance waits again if no event of the reply arrived.
    pub fn end_attempt(&mut self) {
        if let Some(attempt) = self.attempt.take()
            && !attempt.has_begun
        {
            self.waiting.splice(..0, attempt.sent);
        }
    }

    /// The state of the attempt, as every call that reads returns it.
    pub fn flow(&self) -> Flow {
        let cut = match &self.attempt {
            Some(attempt) => attempt.cut.as_ref().or(self.turn_cut.as_ref()),
            None => self.turn_cut.as_ref(),
        };
        match (cut, &self.attempt) {
            (Some(cut), _) => Flow::Cut(Arc::clone(cut)),
            (None, Some(_)) => Flow::Go,
            (None, None) if self.is_turn_open => Flow::Cut(Cut::of_misuse(NO_ATTEMPT)),
            (None, None) => Flow::Cut(Cut::of_misuse(NO_TURN)),
        }
    }

    /// Opens a part. Parts may interleave, and their ids are the host's. The second open of a part is counted and
    /// changes nothing.
    pub fn open(&mut self, part: PartId, channel: Channel) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        let Conversation {
            session,
            plan,
            attempt,
            ..
        } = self;
        if let Some(attempt) = attempt {
            let _ = session.open(&mut attempt.stream, part, channel);
            attempt.part_or_insert(part, channel, plan);
        }
        self.act()
    }

    /// Names the tool of a part and its call, at any time before the close. See [`Stream::tool`].
    pub fn tool(&mut self, part: PartId, name: &str, call: &str) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        let Conversation {
            session,
            plan,
            attempt,
            ..
        } = self;
        if let Some(attempt) = attempt {
            let _ = session.tool(&mut attempt.stream, part, name, call);
            attempt.part_or_insert(part, Channel::Text, plan);
        }
        self.act()
    }

    /// Sets the file that a part is about, before its first delta. See [`Stream::set_path`].
    pub fn set_path(&mut self, part: PartId, path: &str) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        let Conversation { plan, attempt, .. } = self;
        if let Some(attempt) = attempt {
            attempt.stream.set_path(part, path);
            attempt.part_or_insert(part, Channel::Text, plan);
        }
        Flow::Go
    }

    /// Sets the outcome of the tool call whose output a part is, before its first delta. See [`Stream::set_outcome`].
    pub fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        let Conversation { plan, attempt, .. } = self;
        if let Some(attempt) = attempt {
            attempt.stream.set_outcome(part, outcome);
            attempt.part_or_insert(part, Channel::ToolOutput, plan);
        }
        Flow::Go
    }

    /// Reads a delta. A part that was never opened opens as text. A delta of a closed part is counted in
    /// [`Counters::unscanned_bytes`] and never leaves.
    ///
    /// # Complexity
    /// Linear in the delta. Nothing is allocated while nothing is decided and the host takes the text after each call,
    /// once the part is open and the automaton is warm.
    #[inline]
    pub fn push(&mut self, part: PartId, bytes: &[u8]) -> Flow {
        if !self.is_reading() {
            return self.refuse(bytes.len() as u64);
        }
        let Conversation {
            session,
            plan,
            attempt,
            ..
        } = self;
        if let Some(attempt) = attempt {
            let _ = session.push(&mut attempt.stream, part, bytes);
            let text = attempt.part_or_insert(part, Channel::Text, plan);
            if !text.is_closed {
                text.push(bytes);
            }
        }
        match self.session.decisions().is_empty() {
            true => Flow::Go,
            false => self.act(),
        }
    }

    /// Ends a part, which can decide. Its text is released whole, unless the attempt is cut.
    pub fn close(&mut self, part: PartId) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        if let Some(attempt) = &mut self.attempt {
            let _ = self.session.close(&mut attempt.stream, part);
            if let Some(index) = attempt.index(part) {
                attempt.parts[index].close();
            }
        }
        self.act()
    }

    /// Ends the reply: closes the parts that are open, and decides the rules that need the whole reply. Nothing is read
    /// after it; text can be taken until the next attempt begins.
    pub fn finish(&mut self) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        let mut calls_tool = false;
        if let Some(attempt) = &mut self.attempt {
            let _ = self.session.finish(&mut attempt.stream);
            attempt.is_finished = true;
            for text in &mut attempt.parts {
                text.close();
                calls_tool |= text.channel == Channel::ToolInput;
            }
        }
        let flow = self.act();
        if flow == Flow::Go && !calls_tool && self.waiting.is_empty() {
            self.is_turn_open = false;
        }
        flow
    }

    /// Tells the number of tokens of a part so far, as the host counts them. See [`Stream::count_tokens`].
    pub fn count_tokens(&mut self, part: PartId, tokens: u64) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        if let Some(attempt) = &mut self.attempt {
            let _ = self.session.count_tokens(&mut attempt.stream, part, tokens);
        }
        self.act()
    }

    /// Tells the time: any clock that never goes back, the same for the whole attempt. See [`Stream::tick`].
    pub fn tick(&mut self, now: Duration) -> Flow {
        if !self.is_reading() {
            return self.flow();
        }
        if let Some(attempt) = &mut self.attempt {
            let _ = self.session.tick(&mut attempt.stream, now);
        }
        self.act()
    }

    /// Returns the text of a part that may leave and was not taken before: not held back, with redactions applied; in
    /// tool input, JSON stays JSON. Empty after a cut.
    ///
    /// The concatenation of all that is taken of a part depends on the text of the part alone, not on how it was split:
    /// it is the redacted text, or, if the attempt is cut, a prefix of it.
    #[must_use = "the text is returned once"]
    pub fn take(&mut self, part: PartId) -> &[u8] {
        let is_turn_cut = self.turn_cut.is_some();
        match &mut self.attempt {
            Some(attempt) if attempt.cut.is_none() && !is_turn_cut => attempt.take(part),
            _ => &[],
        }
    }

    /// Number of bytes of a part that were pushed in this attempt.
    #[must_use]
    pub fn delivered(&self, part: PartId) -> u64 {
        let attempt = self.attempt.as_ref();
        attempt.map_or(0, |attempt| attempt.stream.delivered(part))
    }

    /// The decisions of this attempt so far, in their order; those that the policy suppresses too.
    #[must_use]
    pub fn decisions(&self) -> &[DecisionRecord] {
        self.attempt
            .as_ref()
            .map_or(&[], |attempt| &attempt.records)
    }

    /// The tool calls of this attempt that wait for a review. Their input cannot be taken until
    /// [`approve`](Self::approve).
    #[must_use]
    pub fn reviews(&self) -> &[CallReview] {
        self.attempt
            .as_ref()
            .map_or(&[], |attempt| &attempt.reviews)
    }

    /// Ends the reviews of a call: its input may be taken. A call that is not to run stays unapproved.
    pub fn approve(&mut self, part: PartId) {
        if let Some(attempt) = &mut self.attempt {
            attempt.reviews.retain(|review| review.part != part);
        }
    }

    /// The counters of the attempt; see [`Counters`].
    #[must_use]
    pub fn counters(&self) -> Counters {
        let counters = self.attempt.as_ref().map(|attempt| {
            let mut counters = attempt.stream.counters();
            counters.unscanned_bytes += attempt.late_bytes;
            counters
        });
        counters.unwrap_or_default()
    }

    /// Returns true if the attempt reads events. The first one tells that its request was sent.
    #[inline]
    fn is_reading(&mut self) -> bool {
        let is_turn_cut = self.turn_cut.is_some();
        match &mut self.attempt {
            Some(attempt) if attempt.cut.is_none() && !attempt.is_finished && !is_turn_cut => {
                if !attempt.has_begun {
                    attempt.has_begun = true;
                    for sent in attempt.sent.drain(..) {
                        self.session.deliver_pending(&sent);
                    }
                }
                true
            }
            _ => false,
        }
    }

    #[cold]
    fn refuse(&mut self, bytes: u64) -> Flow {
        if let Some(attempt) = &mut self.attempt {
            attempt.late_bytes += bytes;
        }
        self.flow()
    }

    /// Acts on the decisions of the session's last call.
    #[cold]
    fn act(&mut self) -> Flow {
        for decision in self.session.decisions().to_vec() {
            let Some(attempt) = &mut self.attempt else {
                break;
            };
            let message = attempt.stream.message(&decision);
            let record = DecisionRecord::new(&attempt.stream, &decision, message.clone());
            attempt.records.push(record);
            if decision.is_suppressed() {
                continue;
            }
            match decision.action {
                Action::Inject => self.queue(&decision, message),
                Action::Retry | Action::Abort => {
                    attempt.cut(&decision, &message);
                    match decision.action {
                        Action::Retry => self.queue(&decision, message),
                        _ => self.session.delivered(&decision),
                    }
                }
                Action::Redact => {
                    let rule = decision.rule().map(|rule| (rule, decision.part()));
                    attempt.redacting.extend(rule);
                    self.session.delivered(&decision);
                }
                Action::Consult => {
                    attempt.review(&decision);
                    self.session.delivered(&decision);
                }
                _ => self.session.delivered(&decision),
            }
        }
        self.flow()
    }

    /// Queues the message of a decision for the next request, once for each rule.
    fn queue(&mut self, decision: &Decision, text: String) {
        let rule = self.session.rule_id(decision).map(str::to_owned);
        let (Some(rule), Some(id)) = (rule, decision.rule()) else {
            return;
        };
        if self.waiting.iter().any(|known| known.rule == rule) {
            return match decision.action {
                // A retry that was not made would not count against the bound on retries.
                Action::Retry => self.session.delivered(decision),
                _ => self.session.dropped(decision),
            };
        }
        self.waiting.push(PendingGuidance {
            rule,
            id: Some(id),
            generation: decision.generation,
            turn: decision.turn,
            text,
        });
    }
}

impl AttemptState {
    #[inline]
    fn index(&self, part: PartId) -> Option<usize> {
        match self.parts.get(self.latest) {
            Some(latest) if latest.part == part => Some(self.latest),
            _ => self.parts.iter().rposition(|known| known.part == part),
        }
    }

    #[inline]
    fn part_or_insert(
        &mut self,
        part: PartId,
        channel: Channel,
        plan: &ReleasePlan,
    ) -> &mut PartText {
        self.latest = match self.index(part) {
            Some(index) => index,
            None => {
                self.parts.push(PartText::new(part, channel, plan));
                self.parts.len() - 1
            }
        };
        &mut self.parts[self.latest]
    }

    fn take(&mut self, part: PartId) -> &[u8] {
        self.out.clear();
        let is_reviewed = self.reviews.iter().any(|review| review.part == part);
        if let (Some(index), false) = (self.index(part), is_reviewed) {
            let AttemptState {
                stream,
                parts,
                redacting,
                out,
                ..
            } = self;
            parts[index].release(stream, redacting, out);
        }
        &self.out
    }

    fn review(&mut self, decision: &Decision) {
        let rule = self.stream.rule(decision);
        let asked = rule.and_then(|rule| Some((rule, rule.consult.as_ref()?)));
        if let (Some((rule, consult)), Some(prompt)) = (asked, self.stream.prompt(decision)) {
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
            (Some(rule), Action::Retry) => self.kept(decision, rule.partial, rule.holds()),
            _ => Vec::new(),
        };
        self.cut = Some(Cut::of_decision(decision, rule.as_ref(), message, keep));
    }

    /// The texts that the next request repeats. Of the part that was cut, nothing from the match on stays if the rule
    /// holds text or keeps only what is before the match.
    fn kept(&mut self, decision: &Decision, partial: Partial, holds: bool) -> Vec<KeptText> {
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
            let content = text.kept(&self.stream, &self.redacting, end);
            if !content.is_empty() {
                kept.push(KeptText {
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

impl fmt::Debug for Conversation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No text of a reply: it may hold what a rule keeps out of logs.
        f.debug_struct("Conversation")
            .field("turn", &self.session.turn())
            .field("is_turn_open", &self.is_turn_open)
            .field(
                "attempt",
                &self.attempt.as_ref().map(|attempt| &attempt.stream),
            )
            .field("flow", &self.flow().name())
            .finish_non_exhaustive()
    }
}
