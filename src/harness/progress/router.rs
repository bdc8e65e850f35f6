//! Prompts with their I/O: an agent on one side, a chat on the other.

use std::future::{pending, poll_fn};
use std::pin::Pin;

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};

use super::RouterSettings;
use super::channel::{ChannelAdapter, ChannelError, Inbound, Outbound};
use super::prompt::{AgentEvent, Do, PromptError, Prompting};

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
/// use ttsr::harness::progress::{
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
/// is asked what the agent wants to know, and can stop it with `/cancel`. Messages that are neither an
/// answer nor that stay unread: they are given back, in order.
///
/// Typing is stopped and the events are closed in every case; where the future is dropped, the events.
///
/// # Example: the user has enough
/// ```
/// use ttsr::harness::progress::{
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
/// let says = |text: &str| Inbound { peer: "console".into(), text: text.into(), id: None };
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
    let mut running = Running {
        prompting: Prompting::begin(session, settings, &mut out),
        router,
        session,
        text,
        events: None,
        began: Instant::now(),
        other: Vec::new(),
    };
    loop {
        for what in std::mem::take(&mut out) {
            if let Do::Done(result) = what {
                return (result, running.other);
            }
            running.perform(what, &mut out).await;
            if !out.is_empty() {
                // Something failed: what it ends comes before what was planned.
                break;
            }
        }
        if out.is_empty() {
            running.wait(&mut out).await;
        }
    }
}

/// Answers a message of the user: [`prompt_streaming`], and then one message with all of the reply, or with
/// what the user is to know instead. A cancel is silent. Gives what else was written meanwhile.
///
/// # Errors
/// If the answer could not be sent.
///
/// # Example: an echo
/// ```
/// use std::collections::VecDeque;
/// use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// use ttsr::harness::progress::{
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
/// let message = Inbound { peer: "alice".into(), text: "Hello.".into(), id: Some("7".into()) };
/// let answering = respond(router, "ses_1", &message, RouterSettings::default());
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// assert!(runtime.block_on(answering)?.is_empty(), "nothing else was written");
/// let answer = Outbound { text: "Hello you.".into(), reply_to: Some("7".into()) };
/// assert_eq!(channel.0.last(), Some(&answer));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn respond<A, C>(
    router: Router<'_, A, C>,
    session: &str,
    message: &Inbound,
    settings: RouterSettings,
) -> Result<Vec<Inbound>, ChannelError>
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
    let inner = Router {
        agent,
        channel: &mut *channel,
        peer,
        inbox,
    };
    let (result, other) = prompt_streaming(inner, session, &message.text, settings).await;
    let text = match &result {
        Ok(reply) => Some(reply.as_str()),
        Err(error) => error.text(),
    };
    if let Some(text) = text {
        let answer = Outbound {
            text: text.to_owned(),
            reply_to: message.id.clone(),
        };
        channel.send(peer, answer).await?;
    }
    Ok(other)
}

struct Running<'a, A: ?Sized, C: ?Sized> {
    prompting: Prompting,
    router: Router<'a, A, C>,
    session: &'a str,
    text: &'a str,
    events: Option<AgentEvents>,
    began: Instant,
    other: Vec<Inbound>,
}

impl<A: Agent + ?Sized, C: ChannelAdapter + ?Sized> Running<'_, A, C> {
    async fn perform(&mut self, what: Do, out: &mut Vec<Do>) {
        let Router {
            agent,
            channel,
            peer,
            ..
        } = &mut self.router;
        match what {
            Do::Typing => skip(channel.send_typing(peer)).await,
            Do::StopTyping => skip(channel.stop_typing(peer)).await,
            Do::Subscribe => match agent.subscribe().await {
                Ok(events) => self.events = Some(events),
                Err(error) => self.prompting.failed(self.began.elapsed(), error, out),
            },
            Do::Prompt => {
                if let Err(error) = agent.prompt(self.session, self.text).await {
                    self.prompting.failed(self.began.elapsed(), error, out);
                }
            }
            Do::Note(text) | Do::Ask(text) => {
                let message = Outbound {
                    text,
                    reply_to: None,
                };
                // Progress that cannot be shown must not cost the reply.
                let _lost = channel.send(peer, message).await;
            }
            // Where the server is gone its events end, and that is what counts.
            Do::Abort => drop(agent.abort(self.session).await),
            Do::Answer { request, answers } => {
                if agent.answer(&request, answers).await.is_err() {
                    drop(agent.reject(&request).await);
                }
            }
            Do::Reject { request } => drop(agent.reject(&request).await),
            Do::Unsubscribe => self.events = None,
            Do::Done(_) => {}
        }
    }

    async fn wait(&mut self, out: &mut Vec<Do>) {
        let deadline = self.began.checked_add(self.prompting.deadline());
        let is_asking = self.prompting.is_asking();
        tokio::select! {
            biased;
            message = self.router.inbox.recv() => {
                let now = self.began.elapsed();
                match message {
                    Some(message) if message.text.trim() == "/cancel" => {
                        self.prompting.cancel(now, out);
                    }
                    Some(message) if is_asking && message.peer == self.router.peer => {
                        self.prompting.answer(now, &message.text, out);
                    }
                    Some(message) => self.other.push(message),
                    // Nobody can write any more; the reply still comes.
                    None => self.without_inbox(deadline, out).await,
                }
            }
            event = next(&mut self.events) => self.took(event, out),
            () = until(deadline) => self.prompting.tick(self.began.elapsed(), out),
        }
    }

    async fn without_inbox(&mut self, deadline: Option<Instant>, out: &mut Vec<Do>) {
        tokio::select! {
            biased;
            event = next(&mut self.events) => self.took(event, out),
            () = until(deadline) => self.prompting.tick(self.began.elapsed(), out),
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

/// What the channel cannot show is skipped.
async fn skip(sending: Option<super::Sending<'_>>) {
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

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
