//! Prompts with their I/O: an agent on one side, a chat on the other.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::RouterSettings;
use super::channel::{ChannelAdapter, ChannelError, Inbound, Outbound, Sending};
use super::prompt::{AgentEvent, Do, PromptError, Prompting};

/// The reply to a `/cancel` where no prompt is under way.
pub const NOTHING_TO_CANCEL: &str = "There is nothing to cancel.";

/// What the server of an agent says, until it is dropped: that closes the connection.
pub type AgentEvents = Pin<Box<dyn Stream<Item = AgentEvent> + Send>>;

/// A request to an agent's server. The error is what went wrong, in words.
pub type Asking<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// An agent behind a server of its own.
///
/// # Example: an agent that shouts
/// ```
/// use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, AgentPart, Asking, Console, Router, RouterSettings,
///     prompt_streaming,
/// };
/// # struct Events(UnboundedReceiver<AgentEvent>);
/// # impl futures_core::Stream for Events {
/// #     type Item = AgentEvent;
/// #     fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
/// #         self.0.poll_recv(cx)
/// #     }
/// # }
/// /// Whom it tells what happens.
/// #[derive(Default)]
/// struct Shouter(Option<UnboundedSender<AgentEvent>>);
/// impl Agent for Shouter {
///     fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
///         let (told, events) = unbounded_channel();
///         self.0 = Some(told);
///         // A `Stream` of what is told.
///         let events: AgentEvents = Box::pin(Events(events));
///         Box::pin(ready(Ok(events)))
///     }
///     fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> Asking<'a, ()> {
///         let (session, content) = (session.to_owned(), AgentPart::Text(text.to_uppercase()));
///         let (message, part) = ("msg_1".into(), "prt_1".into());
///         let says = AgentEvent::Part { session: session.clone(), message, part, content };
///         let told = self.0.as_ref().ok_or_else(|| "nobody listens".to_owned());
///         let told = told.map(|told| {
///             told.send(says).ok();
///             told.send(AgentEvent::Idle { session }).ok();
///         });
///         Box::pin(ready(told))
///     }
///     fn abort<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> Asking<'a, ()> {
///         Box::pin(ready(Err("it asked nothing".into())))
///     }
///     fn reject<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
/// }
/// let (mut agent, mut channel) = (Shouter::default(), Console::new(&b""[..], Vec::new()));
/// let (_inbox, mut inbox) = unbounded_channel();
/// let router = Router { agent: &mut agent, channel: &mut channel, peer: "console", inbox: &mut inbox };
/// let prompting = prompt_streaming(router, "ses_1", "hello", RouterSettings::default());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let (reply, _other) = runtime.block_on(prompting);
/// assert_eq!(reply.as_deref(), Ok("HELLO"));
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Agent: Send {
    /// Opens the stream of events; ready once no event can be missed any more.
    fn subscribe(&mut self) -> Asking<'_, AgentEvents>;

    /// Sends a prompt; ready once it was taken, not when it is answered.
    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> Asking<'a, ()>;

    /// Tells the session to stop.
    fn abort<'a>(&'a mut self, session: &'a str) -> Asking<'a, ()>;

    /// Answers the questions of a request, one list of answers each.
    fn answer<'a>(&'a mut self, request: &'a str, answers: Vec<Vec<String>>) -> Asking<'a, ()>;

    /// Says that nobody answers a request.
    fn reject<'a>(&'a mut self, request: &'a str) -> Asking<'a, ()>;
}

/// Where a prompt came from, and where its reply goes.
#[derive(Debug)]
pub struct Router<'a, A: ?Sized, C: ?Sized> {
    /// The agent.
    pub agent: &'a mut A,
    /// The chat.
    pub channel: &'a mut C,
    /// Who is asked and answered.
    pub peer: &'a str,
    /// Messages that arrive meanwhile.
    pub inbox: &'a mut UnboundedReceiver<Inbound>,
}

/// Sends a prompt and gives the whole reply, as one text. Meanwhile the user sees who works and on what,
/// is asked what the agent wants to know, and can stop it with `/cancel`, which is replied to. Messages that are
/// neither an answer nor that stay unread: they are given back, in order. Whoever writes over another channel, or
/// is another peer, neither answers nor cancels.
///
/// It ends within the timeout, and at once with `/cancel`, whatever the channel and the agent's server do: a note
/// or the sign of typing that takes longer than 5 s, or a tenth of the timeout, is given up, and so is each thing
/// that is left to do at the end.
///
/// The events are closed in every case. The channel still shows that somebody writes: the caller stops that once
/// the reply is delivered, as [`respond`] does.
///
/// # Example: the user has enough
/// ```
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, Asking, Console, Inbound, PromptError, Router, RouterSettings,
///     prompt_streaming,
/// };
/// # use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// # struct Never;
/// # impl futures_core::Stream for Never {
/// #     type Item = AgentEvent;
/// #     fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
/// #         Poll::Pending
/// #     }
/// # }
/// # #[derive(Default)]
/// # struct Silent {
/// #     is_aborted: bool,
/// # }
/// # impl Agent for Silent {
/// #     fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
/// #         let events: AgentEvents = Box::pin(Never);
/// #         Box::pin(ready(Ok(events)))
/// #     }
/// #     fn prompt<'a>(&'a mut self, _: &'a str, _: &'a str) -> Asking<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn abort<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
/// #         self.is_aborted = true;
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> Asking<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn reject<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// # }
/// // `Silent` is an agent that takes a prompt and never says anything.
/// let (mut agent, mut channel) = (Silent::default(), Console::new(&b""[..], Vec::new()));
/// let (users, mut inbox) = tokio::sync::mpsc::unbounded_channel();
/// let says = |text: &str| Inbound {
///     channel: "console".into(),
///     peer: "console".into(),
///     text: text.into(),
///     id: None,
/// };
/// users.send(says("And in blue."))?;
/// users.send(says("/cancel"))?;
/// let router = Router { agent: &mut agent, channel: &mut channel, peer: "console", inbox: &mut inbox };
/// let prompting = prompt_streaming(router, "ses_1", "Paint it.", RouterSettings::default());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let (reply, other) = runtime.block_on(prompting);
/// assert_eq!(reply, Err(PromptError::Aborted));
/// assert_eq!(other, [says("And in blue.")]);
/// assert!(agent.is_aborted);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn prompt_streaming<A, C>(
    router: Router<'_, A, C>,
    session: &str,
    text: &str,
    settings: RouterSettings,
) -> (Result<String, PromptError>, Vec<Inbound>)
where
    A: Agent + ?Sized,
    C: ChannelAdapter + ?Sized,
{
    let mut out = Vec::new();
    let patience = patience(&settings);
    let mut running = Running {
        prompting: Prompting::begin(session, settings, &mut out),
        router,
        session,
        text,
        events: None,
        began: Instant::now(),
        patience,
        shown: None,
        is_deaf: false,
        other: Vec::new(),
    };
    let mut planned = VecDeque::from(out);
    loop {
        while let Some(what) = planned.pop_front() {
            if let Do::Done(result) = what {
                return (result, running.other);
            }
            let mut more = Vec::new();
            running.perform(what, &mut more).await;
            if running.prompting.is_over() && !more.is_empty() {
                // What ends it comes before what was planned.
                planned.clear();
            }
            planned.extend(more);
        }
        let mut more = Vec::new();
        running.wait(&mut more).await;
        planned.extend(more);
    }
}

/// Answers a message of the user: [`prompt_streaming`], then one message with all of the reply, or with what the
/// user is to know instead, and then nobody types any more. A cancel has had its reply. Gives what else was
/// written meanwhile, whatever becomes of the reply.
///
/// A channel that does not take the reply within the timeout, or before the user writes `/cancel`, has failed.
/// Where the message itself is `/cancel`, there is nothing to cancel: the user is told so, and the agent is not
/// asked.
///
/// # Errors
/// If the answer could not be sent.
///
/// # Example: an echo
/// ```
/// use std::collections::VecDeque;
/// use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, AgentPart, Asking, ChannelAdapter, ChannelError,
///     ChannelStatus, Constraints, Inbound, Inbox, Outbound, Router, RouterSettings, SLACK,
///     Sending, respond,
/// };
/// # struct Events(VecDeque<AgentEvent>);
/// # impl futures_core::Stream for Events {
/// #     type Item = AgentEvent;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
/// #         Poll::Ready(self.0.pop_front())
/// #     }
/// # }
/// struct Echo;
/// impl Agent for Echo {
///     fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
///         let says = AgentEvent::Part {
///             session: "ses_1".into(),
///             message: "msg_1".into(),
///             part: "prt_1".into(),
///             content: AgentPart::Text("Hello you.".into()),
///         };
///         let idle = AgentEvent::Idle { session: "ses_1".into() };
///         // A `Stream` of what its server says.
///         let events: AgentEvents = Box::pin(Events([says, idle].into()));
///         Box::pin(ready(Ok(events)))
///     }
///     fn prompt<'a>(&'a mut self, _: &'a str, _: &'a str) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn abort<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn reject<'a>(&'a mut self, _: &'a str) -> Asking<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
/// }
/// #[derive(Default)]
/// struct Chat(Vec<Outbound>);
/// impl ChannelAdapter for Chat {
///     fn id(&self) -> &str {
///         "chat"
///     }
///     fn name(&self) -> &str {
///         "Chat"
///     }
///     fn constraints(&self) -> Constraints {
///         SLACK
///     }
///     fn start(&mut self, _: Inbox) -> Result<(), ChannelError> {
///         Ok(())
///     }
///     fn stop(&mut self) {}
///     fn status(&self) -> ChannelStatus {
///         ChannelStatus::Running
///     }
///     fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> Sending<'a> {
///         self.0.push(message);
///         Box::pin(ready(Ok(())))
///     }
/// }
/// let (mut agent, mut channel) = (Echo, Chat::default());
/// let (_inbox, mut inbox) = tokio::sync::mpsc::unbounded_channel();
/// let router = Router { agent: &mut agent, channel: &mut channel, peer: "alice", inbox: &mut inbox };
/// let message = Inbound {
///     channel: "chat".into(),
///     peer: "alice".into(),
///     text: "Hello.".into(),
///     id: Some("7".into()),
/// };
/// let answering = respond(router, "ses_1", &message, RouterSettings::default());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let (delivered, other) = runtime.block_on(answering);
/// delivered?;
/// assert!(other.is_empty(), "nothing else was written");
/// let answer = Outbound { text: "Hello you.".into(), reply_to: Some("7".into()) };
/// assert_eq!(channel.0.last(), Some(&answer));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn respond<A, C>(
    router: Router<'_, A, C>,
    session: &str,
    message: &Inbound,
    settings: RouterSettings,
) -> (Result<(), ChannelError>, Vec<Inbound>)
where
    A: Agent + ?Sized,
    C: ChannelAdapter + ?Sized,
{
    let Router {
        agent,
        channel,
        peer,
        inbox,
    } = router;
    let (timeout, patience) = (timeout(&settings), patience(&settings));
    let (text, mut other) = if is_cancel(message) {
        (Some(NOTHING_TO_CANCEL.to_owned()), Vec::new())
    } else {
        let inner = Router {
            agent,
            channel: &mut *channel,
            peer,
            inbox: &mut *inbox,
        };
        let (result, other) = prompt_streaming(inner, session, &message.text, settings).await;
        let text = match result {
            Ok(reply) => Some(reply),
            Err(error) => error.text().map(str::to_owned),
        };
        (text, other)
    };
    let delivered = match text {
        None => Ok(()),
        Some(text) => {
            let answer = Outbound {
                text,
                reply_to: message.id.clone(),
            };
            deliver(channel, peer, answer, inbox, timeout, &mut other).await
        }
    };
    if let Some(stopping) = channel.stop_typing(peer) {
        let _shown = tokio::time::timeout(patience, stopping).await;
    }
    (delivered, other)
}

/// Sends the answer, within that time and until the user cancels.
async fn deliver<C: ChannelAdapter + ?Sized>(
    channel: &mut C,
    peer: &str,
    answer: Outbound,
    inbox: &mut UnboundedReceiver<Inbound>,
    within: Duration,
    other: &mut Vec<Inbound>,
) -> Result<(), ChannelError> {
    let id = channel.id().to_owned();
    let mut sending = channel.send(peer, answer);
    let mut late = pin!(sleep(within));
    let mut is_deaf = false;
    loop {
        tokio::select! {
            biased;
            sent = &mut sending => return sent,
            message = inbox.recv(), if !is_deaf => match message {
                Some(message) if is_from(&message, &id, peer) && is_cancel(&message) => {
                    return Err(ChannelError::new("the user cancelled before the reply was delivered"));
                }
                Some(message) => other.push(message),
                None => is_deaf = true,
            },
            () = &mut late => {
                let within = within.as_millis();
                let error = format!("the channel did not take the reply within {within} ms");
                return Err(ChannelError::new(error));
            }
        }
    }
}

/// Most time that a channel has to show a note or that somebody writes, and that each thing has that is left to
/// do at the end.
const PATIENCE: Duration = Duration::from_secs(5);

fn timeout(settings: &RouterSettings) -> Duration {
    Duration::from_millis(settings.timeout_ms())
}

fn patience(settings: &RouterSettings) -> Duration {
    PATIENCE.min(timeout(settings) / 10)
}

fn is_cancel(message: &Inbound) -> bool {
    message.text.trim() == "/cancel"
}

fn is_from(message: &Inbound, channel: &str, peer: &str) -> bool {
    message.channel == channel && message.peer == peer
}

struct Running<'a, A: ?Sized, C: ?Sized> {
    prompting: Prompting,
    router: Router<'a, A, C>,
    session: &'a str,
    text: &'a str,
    events: Option<AgentEvents>,
    began: Instant,
    patience: Duration,
    /// The request whose questions were sent to the user last, or are on their way.
    shown: Option<String>,
    /// Nobody can write any more.
    is_deaf: bool,
    other: Vec<Inbound>,
}

/// The result of something that was done.
enum Performed {
    Fine,
    Subscribed(AgentEvents),
    /// The prompt cannot go on.
    Failed(String),
    /// The questions of that request did not reach the user.
    NotAsked(String),
}

impl<A: Agent + ?Sized, C: ChannelAdapter + ?Sized> Running<'_, A, C> {
    /// Does one thing, for as long as it may take. Meanwhile the user may cancel, or answer.
    async fn perform(&mut self, what: Do, out: &mut Vec<Do>) {
        let is_over = self.prompting.is_over();
        let is_brief = is_over || matches!(what, Do::Typing | Do::Note(_));
        let is_ask = matches!(what, Do::Ask { .. });
        let patience = Instant::now() + self.patience;
        match &what {
            Do::Unsubscribe => return self.events = None,
            Do::Ask { request, .. } if self.prompting.asking() != Some(request) => return,
            Do::Ask { request, .. } => self.shown = Some(request.clone()),
            _ => {}
        }
        let Running {
            prompting,
            router:
                Router {
                    agent,
                    channel,
                    peer,
                    inbox,
                },
            ..
        } = self;
        let id = channel.id().to_owned();
        let mut doing = pin!(carry_out(
            what,
            *agent,
            *channel,
            peer,
            self.session,
            self.text
        ));
        loop {
            let limit = self.began.checked_add(prompting.limit());
            let until = match is_brief {
                true => Some(limit.filter(|_| !is_over).unwrap_or(patience).min(patience)),
                false => limit,
            };
            tokio::select! {
                biased;
                performed = &mut doing => {
                    let now = self.began.elapsed();
                    match performed {
                        Performed::Fine => {}
                        Performed::Subscribed(events) => self.events = Some(events),
                        Performed::Failed(why) => prompting.failed(now, why, out),
                        Performed::NotAsked(request) => prompting.not_asked(now, &request, out),
                    }
                    return;
                }
                message = inbox.recv(), if !is_over && !self.is_deaf => {
                    let heard = Heard { id: &id, peer, shown: self.shown.as_deref() };
                    match heard.take(self.began.elapsed(), message, prompting, out) {
                        // What is being done is of no use any more.
                        Taken::Cancel => return,
                        Taken::Answer if is_ask => return,
                        Taken::Answer => {}
                        Taken::Other(message) => self.other.push(message),
                        Taken::Deaf => self.is_deaf = true,
                    }
                }
                () = until_then(until) => {
                    if !is_over {
                        prompting.tick(self.began.elapsed(), out);
                    }
                    if is_brief || !out.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    async fn wait(&mut self, out: &mut Vec<Do>) {
        let deadline = self.began.checked_add(self.prompting.deadline());
        tokio::select! {
            biased;
            message = self.router.inbox.recv(), if !self.is_deaf => {
                let heard = Heard {
                    id: self.router.channel.id(),
                    peer: self.router.peer,
                    shown: self.shown.as_deref(),
                };
                let now = self.began.elapsed();
                match heard.take(now, message, &mut self.prompting, out) {
                    Taken::Answer | Taken::Cancel => {}
                    Taken::Other(message) => self.other.push(message),
                    // The reply still comes.
                    Taken::Deaf => self.is_deaf = true,
                }
            }
            event = next(&mut self.events) => self.took(event, out),
            () = until_then(deadline) => self.prompting.tick(self.began.elapsed(), out),
        }
    }

    fn took(&mut self, event: Option<AgentEvent>, out: &mut Vec<Do>) {
        let now = self.began.elapsed();
        match event {
            Some(event) => self.prompting.see(now, &event, out),
            None => self.prompting.disconnected(now, out),
        }
    }
}

/// The user that is listened to, and what they were asked.
struct Heard<'a> {
    id: &'a str,
    peer: &'a str,
    shown: Option<&'a str>,
}

/// What became of a message in the inbox.
enum Taken {
    Answer,
    Cancel,
    /// It is neither an answer nor a cancel of this user.
    Other(Inbound),
    Deaf,
}

impl Heard<'_> {
    fn take(
        &self,
        now: Duration,
        message: Option<Inbound>,
        prompting: &mut Prompting,
        out: &mut Vec<Do>,
    ) -> Taken {
        let Some(message) = message else {
            return Taken::Deaf;
        };
        let is_own = is_from(&message, self.id, self.peer);
        if is_own && is_cancel(&message) {
            prompting.cancel(now, out);
            return Taken::Cancel;
        }
        let is_asked = prompting.asking().is_some() && prompting.asking() == self.shown;
        if is_own && is_asked {
            prompting.answer(now, &message.text, out);
            return Taken::Answer;
        }
        Taken::Other(message)
    }
}

async fn carry_out<A: Agent + ?Sized, C: ChannelAdapter + ?Sized>(
    what: Do,
    agent: &mut A,
    channel: &mut C,
    peer: &str,
    session: &str,
    text: &str,
) -> Performed {
    match what {
        Do::Typing => skip(channel.send_typing(peer)).await,
        Do::StopTyping => skip(channel.stop_typing(peer)).await,
        Do::Subscribe => match agent.subscribe().await {
            Ok(events) => return Performed::Subscribed(events),
            Err(error) => return Performed::Failed(error),
        },
        Do::Prompt => {
            if let Err(error) = agent.prompt(session, text).await {
                return Performed::Failed(error);
            }
        }
        Do::Note(text) => {
            let message = Outbound {
                text,
                reply_to: None,
            };
            // Progress that cannot be shown must not cost the reply.
            let _lost = channel.send(peer, message).await;
        }
        Do::Ask { request, text } => {
            let message = Outbound {
                text,
                reply_to: None,
            };
            if channel.send(peer, message).await.is_err() {
                return Performed::NotAsked(request);
            }
        }
        // Where the server is gone its events end, and that is what counts.
        Do::Abort => drop(agent.abort(session).await),
        Do::Answer { request, answers } => {
            if agent.answer(&request, answers).await.is_err() {
                drop(agent.reject(&request).await);
            }
        }
        Do::Reject { request } => drop(agent.reject(&request).await),
        Do::Unsubscribe | Do::Done(_) => {}
    }
    Performed::Fine
}

/// What the channel cannot show is skipped.
async fn skip(sending: Option<Sending<'_>>) {
    let _shown: Option<Result<(), ChannelError>> = match sending {
        Some(sending) => Some(sending.await),
        None => None,
    };
}

async fn next(events: &mut Option<AgentEvents>) -> Option<AgentEvent> {
    match events {
        Some(events) => poll_fn(|cx| events.as_mut().poll_next(cx)).await,
        None => pending().await,
    }
}

async fn until_then(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
