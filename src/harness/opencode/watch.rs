//! Rules against what a server's sessions write: notices in, what was seen and what is to be done out.
//!
//! It opens no connection and waits for nothing. What a decision becomes on a server that others drive is
//! settled here: stop, delete, steer, put aside, or only tell.

use std::collections::HashMap;

use super::server::{Api, Prompt};
use crate::wire::opencode::Notice;
use crate::{
    Action, Channel, Decision, Event, Mode, Pack, PartId, Partial, Session, Stream, Verdict,
};

/// Most sessions watched at once; past it the one that was quiet for longest is forgotten.
const SESSIONS: usize = 1024;

/// Something worth telling.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Seen {
    /// The event stream is open.
    Connected,
    /// The event stream broke, or could not be opened.
    Disconnected {
        /// Why.
        why: String,
        /// In how many milliseconds it is tried again.
        again_in: u64,
    },
    /// The model begins to write.
    Message {
        /// The session.
        session: String,
        /// The message.
        message: String,
    },
    /// A decision was made.
    Judged(Judged),
    /// Something is done about it.
    Act(Act),
    /// It was done.
    Done(Act),
    /// It could not be done.
    Failed {
        /// What.
        act: Act,
        /// Why not.
        why: String,
    },
    /// A message is complete, or broke off.
    Finish {
        /// The session.
        session: String,
        /// The message.
        message: String,
        /// Why it ended, as the server says it: `aborted`, `retry`, or the model's reason.
        reason: String,
        /// Bytes that rules could not read.
        unscanned: u64,
    },
    /// The model asks its user something.
    Question {
        /// The session.
        session: String,
        /// The question.
        question: String,
    },
}

/// A decision, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Judged {
    /// The session.
    pub session: String,
    /// The message.
    pub message: String,
    /// The part, as the server calls it.
    pub part: String,
    /// What kind of part it is.
    pub channel: Option<Channel>,
    /// The tool's name.
    pub tool: Option<String>,
    /// The full id of the rule, if one was broken.
    pub rule: Option<String>,
    /// The limit that was reached, if none was.
    pub limit: Option<String>,
    /// What the rule wants.
    pub action: Action,
    /// The end of the match, in bytes of the part.
    pub end: Option<u64>,
    /// Bytes of the part that had come.
    pub decided: u64,
    /// The turn, from 1.
    pub turn: u32,
    /// Why the policy keeps it silent, if it does.
    pub suppressed: Option<&'static str>,
    /// The rule's message.
    pub text: String,
    /// The tool runs already: stopping what follows is all that can be done.
    pub is_late: bool,
    /// There is no way to do this from outside; it is only told.
    pub is_beyond: bool,
}

/// Something to be done on the server.
///
/// # Example: what a host sends
/// ```
/// use ttsr::harness::opencode::{Act, Api, Seen, Watch};
/// use ttsr::wire::opencode::Feed;
/// use ttsr::{Pack, Pattern, Rule};
/// let mut rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
/// rule.message = Some("Use `?`.".into());
/// let mut watch = Watch::new(Pack::builder().rule(rule).build()?, Api::Classic);
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":"x.unwrap()"}}}
///
/// "#;
/// let mut seen = Vec::new();
/// Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(Seen::Act(act)) = seen.last() else { panic!("the rule is broken") };
/// assert_eq!(act.session(), "s");
/// match act {
///     Act::Inject { prompt, .. } => assert!(prompt.is_aside && prompt.text.ends_with("Use `?`.")),
///     act => panic!("the reply goes on: {act:?}"),
/// }
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Act {
    /// Stop the session; delete the message, if `delete` says so; then say something, if there is something
    /// to say. In this order: each begins when the one before is done.
    Stop {
        /// The session.
        session: String,
        /// The message that is being written.
        message: String,
        /// Whether the model is not to see it again.
        delete: bool,
        /// What steers the next try.
        steer: Option<Prompt>,
        /// What it rests on, for [`Watch::done`].
        decision: Decision,
    },
    /// Put something into the conversation, and let the model go on.
    Inject {
        /// The session.
        session: String,
        /// What is said.
        prompt: Prompt,
        /// What it rests on, for [`Watch::done`].
        decision: Decision,
    },
}

impl Act {
    /// The session concerned.
    #[must_use]
    pub fn session(&self) -> &str {
        match self {
            Act::Stop { session, .. } | Act::Inject { session, .. } => session,
        }
    }

    fn decision(&self) -> &Decision {
        match self {
            Act::Stop { decision, .. } | Act::Inject { decision, .. } => decision,
        }
    }

    /// Whether it says something in the user's name.
    fn is_prompting(&self) -> bool {
        !matches!(self, Act::Stop { steer: None, .. })
    }
}

/// The rules, and what they know of every session of a server.
///
/// # Example: a rule is broken in reasoning
/// ```
/// use ttsr::harness::opencode::{Act, Api, Seen, Watch};
/// use ttsr::wire::opencode::Feed;
/// use ttsr::Pack;
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-unwrap]
/// description = "Use `?`."
/// severity = "error"
/// on = ["text", "reasoning"]
/// match.any = [{ literal = ".unwrap()" }]
/// examples.match = ["x.unwrap()"]
/// "#)?;
/// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"reasoning","text":""}}}
///
/// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x.unwrap()"}}
///
/// "#;
/// let mut watch = Watch::new(pack, Api::Classic);
/// let mut seen = Vec::new();
/// Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
/// let Some(Seen::Act(Act::Stop { message, delete, steer: Some(steer), .. })) = seen.last() else {
///     panic!("it is stopped");
/// };
/// assert_eq!((message.as_str(), *delete), ("m", true));
/// assert_eq!(steer.text, "demo/no-unwrap: Use `?`.");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Watch {
    pack: Pack,
    api: Api,
    only: Option<String>,
    is_dry: bool,
    sessions: HashMap<String, Watched>,
    /// Notices so far.
    clock: u64,
}

/// One session of the server.
#[derive(Debug)]
struct Watched {
    session: Session,
    /// The reply that is being written.
    reply: Option<Reply>,
    /// Prompts of ours that the server did not tell of yet.
    ours: u32,
    agent: Option<String>,
    model: Option<(String, String)>,
    /// When it was heard of last.
    heard: u64,
}

#[derive(Debug)]
struct Reply {
    message: String,
    stream: Stream,
    parts: Vec<Part>,
    unscanned: u64,
}

#[derive(Debug)]
struct Part {
    id: PartId,
    name: String,
    channel: Channel,
    /// Of what was delivered.
    sum: crc32fast::Hasher,
    bytes: u64,
}

impl Reply {
    fn part(&mut self, id: PartId) -> Option<&mut Part> {
        self.parts.iter_mut().rfind(|part| part.id == id)
    }

    /// A part to read a repetition as, if it is not what was delivered: the server has it otherwise, or the
    /// connection was lost in the middle of it.
    fn again(&mut self, id: PartId, bytes: &[u8]) -> Option<(PartId, Channel)> {
        let part = self.part(id)?;
        let is_same = part.bytes == bytes.len() as u64
            && part.sum.clone().finalize() == crc32fast::hash(bytes);
        let (name, channel) = (part.name.clone(), part.channel);
        // Parts of the server are numbered from the other end.
        let id = PartId(u32::MAX - u32::try_from(self.parts.len()).ok()?);
        (!is_same).then(|| {
            self.open(id, name, channel);
            (id, channel)
        })
    }

    fn open(&mut self, id: PartId, name: String, channel: Channel) {
        self.parts.push(Part {
            id,
            name,
            channel,
            sum: crc32fast::Hasher::new(),
            bytes: 0,
        });
    }
}

impl Watch {
    /// A watch with these rules over the sessions that are driven through that interface.
    #[must_use]
    pub fn new(pack: Pack, api: Api) -> Watch {
        Watch {
            pack,
            api,
            only: None,
            is_dry: false,
            sessions: HashMap::new(),
            clock: 0,
        }
    }

    /// Only that session.
    #[must_use]
    pub fn only(self, session: impl Into<String>) -> Watch {
        Watch {
            only: Some(session.into()),
            ..self
        }
    }

    /// Nothing is done; decisions are told as suppressed.
    ///
    /// # Example: what would be done in one session
    /// ```
    /// use ttsr::harness::opencode::{Api, Seen, Watch};
    /// use ttsr::wire::opencode::Feed;
    /// use ttsr::{Action, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
    /// rule.action = Action::Retry;
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let body = br#"data: {"type":"message.part.updated","properties":{"sessionID":"s","part":{"id":"p","messageID":"m","type":"text","text":""}}}
    ///
    /// data: {"type":"message.part.delta","properties":{"sessionID":"s","messageID":"m","partID":"p","field":"text","delta":"x.unwrap()"}}
    ///
    /// "#;
    /// let seen = |only: &str| {
    ///     let mut watch = Watch::new(pack.clone(), Api::Classic).only(only).dry_run();
    ///     let mut seen = Vec::new();
    ///     Feed::default().push(body, &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     seen
    /// };
    /// assert!(seen("another").is_empty());
    /// let seen = seen("s");
    /// assert!(seen.iter().any(|it| matches!(it, Seen::Judged(it) if it.suppressed == Some("shadow"))));
    /// assert!(!seen.iter().any(|it| matches!(it, Seen::Act(_))));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn dry_run(self) -> Watch {
        Watch {
            is_dry: true,
            ..self
        }
    }

    /// Takes a notice of that session; appends what is to be told and done to `out`.
    pub fn notice(&mut self, session: &str, notice: Notice, out: &mut Vec<Seen>) {
        if self.only.as_deref().is_some_and(|only| only != session) {
            return;
        }
        self.clock += 1;
        self.make_room(session);
        let (pack, is_dry, api) = (&self.pack, self.is_dry, self.api);
        let watched = self.sessions.entry(session.to_owned());
        let watched = watched.or_insert_with(|| Watched::new(pack, is_dry));
        watched.heard = self.clock;
        watched.take(session, api, notice, out);
    }

    /// What became of an act: the policy counts on it.
    ///
    /// # Example: a message that did not arrive is sent again
    /// ```
    /// use ttsr::harness::opencode::{Act, Api, Seen, Watch};
    /// use ttsr::wire::opencode::Feed;
    /// use ttsr::{Pack, Pattern, Rule};
    /// let rule = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
    /// let mut watch = Watch::new(Pack::builder().rule(rule).build()?, Api::Classic);
    /// let mut acts = |watch: &mut Watch, message: &str| {
    ///     let body = format!(
    ///         r#"data: {{"type":"message.part.updated","properties":{{"sessionID":"s","part":{{"id":"p{message}","messageID":"{message}","type":"text","text":"x.unwrap()"}}}}}}"#
    ///     ) + "\n\n";
    ///     let mut seen = Vec::new();
    ///     let mut feed = Feed::default();
    ///     feed.push(body.as_bytes(), &mut |session, notice| watch.notice(session, notice, &mut seen));
    ///     let act = |seen: Seen| if let Seen::Act(act) = seen { Some(act) } else { None };
    ///     seen.into_iter().filter_map(act).collect::<Vec<Act>>()
    /// };
    /// let first = acts(&mut watch, "m1");
    /// watch.done(&first[0], false);
    /// let second = acts(&mut watch, "m2");
    /// watch.done(&second[0], true);
    /// assert!(acts(&mut watch, "m3").is_empty(), "it was said");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn done(&mut self, act: &Act, is_done: bool) {
        let Some(watched) = self.sessions.get_mut(act.session()) else {
            return;
        };
        if is_done {
            return watched.session.delivered(act.decision());
        }
        watched.session.dropped(act.decision());
        if act.is_prompting() {
            watched.ours = watched.ours.saturating_sub(1);
        }
    }

    fn make_room(&mut self, session: &str) {
        if self.sessions.len() < SESSIONS || self.sessions.contains_key(session) {
            return;
        }
        let quietest = self
            .sessions
            .iter()
            .min_by_key(|(_, watched)| watched.heard);
        let quietest = quietest.map(|(id, _)| id.clone());
        quietest.map(|id| self.sessions.remove(&id));
    }
}

impl Watched {
    fn new(pack: &Pack, is_dry: bool) -> Watched {
        let mut session = pack.session();
        if is_dry {
            session.set_mode(Mode::Shadow);
        }
        // The turn under way, if there is one, began before anyone watched.
        session.begin_turn();
        Watched {
            session,
            reply: None,
            ours: 0,
            agent: None,
            model: None,
            heard: 0,
        }
    }

    fn take(&mut self, id: &str, api: Api, notice: Notice, out: &mut Vec<Seen>) {
        match notice {
            Notice::Prompt { agent, model, .. } => self.prompted(agent, model),
            Notice::Message(message) => {
                self.reply = Some(Reply {
                    message: message.clone(),
                    stream: self.session.stream(),
                    parts: Vec::new(),
                    unscanned: 0,
                });
                out.push(Seen::Message {
                    session: id.to_owned(),
                    message,
                });
            }
            Notice::Event(event) => self.event(id, api, event, out),
            Notice::Question { id: question, .. } => out.push(Seen::Question {
                session: id.to_owned(),
                question,
            }),
            _ => {}
        }
    }

    /// Someone spoke to the model: a new turn, unless it was us.
    fn prompted(&mut self, agent: Option<String>, model: Option<(String, String)>) {
        match self.ours {
            0 => self.session.begin_turn(),
            _ => self.ours -= 1,
        }
        self.agent = agent.or(self.agent.take());
        self.model = model.or(self.model.take());
    }

    fn event(&mut self, id: &str, api: Api, event: Event, out: &mut Vec<Seen>) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        let session = &mut self.session;
        let verdict = match event {
            Event::PartStart {
                part,
                name,
                channel,
                tool,
                call,
            } => {
                reply.open(part, name, channel);
                let opened = session.open(&mut reply.stream, part, channel);
                let call = call.as_deref().unwrap_or_default();
                match tool {
                    Some(tool) if opened == Verdict::Continue => {
                        session.tool(&mut reply.stream, part, &tool, call)
                    }
                    _ => opened,
                }
            }
            Event::Tool { part, tool, call } => {
                let call = call.as_deref().unwrap_or_default();
                session.tool(&mut reply.stream, part, &tool, call)
            }
            Event::Delta { part, bytes } => {
                if let Some(part) = reply.part(part) {
                    part.sum.update(&bytes);
                    part.bytes += bytes.len() as u64;
                }
                session.push(&mut reply.stream, part, &bytes)
            }
            Event::Snapshot { part, bytes } => match reply.again(part, &bytes) {
                Some((again, channel)) => {
                    let opened = session.open(&mut reply.stream, again, channel);
                    match opened {
                        Verdict::Continue => session.push(&mut reply.stream, again, &bytes),
                        _ => opened,
                    }
                }
                None => return,
            },
            Event::PartEnd { part } => session.close(&mut reply.stream, part),
            Event::Unscanned { bytes, .. } => {
                reply.unscanned += bytes;
                return;
            }
            Event::Restart => {
                reply.stream = session.stream();
                reply.parts.clear();
                return;
            }
            Event::Finish { reason } => return self.finish(id, api, reason, out),
            Event::Usage { .. } | Event::Error { .. } => return,
        };
        if verdict != Verdict::Continue || !self.session.decisions().is_empty() {
            self.judged(id, api, out);
        }
    }

    fn finish(&mut self, id: &str, api: Api, reason: String, out: &mut Vec<Seen>) {
        let Some(reply) = &mut self.reply else {
            return;
        };
        // What broke off is no reply: nothing is decided on it as a whole.
        if !matches!(reason.as_str(), "aborted" | "retry" | "truncated" | "error") {
            let _ = self.session.finish(&mut reply.stream);
            self.judged(id, api, out);
        }
        if let Some(reply) = self.reply.take() {
            out.push(Seen::Finish {
                session: id.to_owned(),
                message: reply.message,
                reason,
                unscanned: reply.unscanned + reply.stream.counters().unscanned_bytes,
            });
        }
    }

    /// Tells of the decisions of the last call, and acts on those that want it.
    fn judged(&mut self, id: &str, api: Api, out: &mut Vec<Seen>) {
        let Some(reply) = &self.reply else {
            return;
        };
        let decisions = self.session.decisions().to_vec();
        // One act that cuts takes the place of all others.
        let is_live = |decision: &&Decision| !decision.is_suppressed();
        let cut = decisions
            .iter()
            .filter(is_live)
            .find(|decision| decision.action.cuts());
        let mut acts = Vec::new();
        for decision in &decisions {
            let judged = judged(id, api, reply, decision);
            let is_silent = judged.suppressed.is_some() || judged.is_beyond;
            out.push(Seen::Judged(judged));
            match (is_silent, decision.action) {
                (true, _) => {}
                (false, Action::Inject) => acts.extend(self.inject(id, reply, decision)),
                (false, Action::Warn | Action::Observe) => acts.push(None),
                (false, _) if Some(decision) == cut => {
                    acts.push(Some(self.stop(id, api, reply, decision)));
                }
                (false, _) => {}
            }
        }
        for act in acts.into_iter().flatten() {
            self.ours += u32::from(act.is_prompting());
            out.push(Seen::Act(act));
        }
        for decision in &decisions {
            if matches!(decision.action, Action::Warn | Action::Observe) {
                self.session.delivered(decision);
            }
        }
    }

    fn inject(&self, id: &str, reply: &Reply, decision: &Decision) -> Option<Option<Act>> {
        let text = reply.stream.message(decision);
        let act = Act::Inject {
            session: id.to_owned(),
            prompt: Prompt {
                is_aside: true,
                ..self.prompt(text)
            },
            decision: *decision,
        };
        Some(Some(act))
    }

    fn stop(&self, id: &str, api: Api, reply: &Reply, decision: &Decision) -> Act {
        let rule = reply.stream.rule(decision);
        let partial = rule.map_or(Partial::Discard, |rule| rule.partial);
        let text = reply.stream.message(decision);
        let steers = decision.action == Action::Retry && !text.is_empty();
        Act::Stop {
            session: id.to_owned(),
            message: reply.message.clone(),
            // Nobody outside can cut a message short: what must not stay whole does not stay.
            delete: api == Api::Classic && partial != Partial::Keep,
            steer: steers.then(|| self.prompt(text)),
            decision: *decision,
        }
    }

    /// Said to whom the user spoke last.
    fn prompt(&self, text: String) -> Prompt {
        Prompt {
            text,
            agent: self.agent.clone(),
            model: self.model.clone(),
            is_aside: false,
        }
    }
}

fn judged(id: &str, api: Api, reply: &Reply, decision: &Decision) -> Judged {
    let stream = &reply.stream;
    let part = decision.part();
    let name = reply.parts.iter().rfind(|known| known.id == part);
    let channel = stream.channel(part);
    let limit = match decision.source {
        crate::Source::Limit { name, .. } => Some(name.to_owned()),
        crate::Source::Rule(_) => None,
    };
    let can_be_done = decision.action.cuts()
        || matches!(
            decision.action,
            Action::Inject | Action::Warn | Action::Observe
        );
    Judged {
        session: id.to_owned(),
        message: reply.message.clone(),
        part: name.map_or_else(|| part.0.to_string(), |part| part.name.clone()),
        channel,
        tool: stream.tool_name(part).map(str::to_owned),
        rule: stream.rule(decision).map(|rule| rule.id.clone()),
        limit,
        action: decision.action,
        end: decision.hit().map(|hit| hit.end),
        decided: decision.decided(),
        turn: decision.turn,
        suppressed: decision.suppression.map(|why| why.name()),
        text: stream.message(decision),
        is_late: api == Api::Classic && channel == Some(Channel::ToolInput),
        is_beyond: !can_be_done,
    }
}
