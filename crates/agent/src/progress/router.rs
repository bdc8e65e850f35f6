//! Drives prompts between an agent and a chat channel.

use std::collections::VecDeque;
use std::future::{pending, poll_fn};
use std::pin::{Pin, pin};
use std::time::Duration;

use futures_core::Stream;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};

use super::RouterSettings;
use super::channel::{ChannelAdapter, ChannelError, Inbound, Outbound, SendFuture};
use super::prompt::{AgentEvent, ChatAction, PendingPrompt, PromptError};

/// The reply to a `/cancel` without a prompt in progress.
pub const NOTHING_TO_CANCEL: &str = "There is nothing to cancel.";

/// The events of an agent's server. Dropping the stream closes the connection.
pub type AgentEvents = Pin<Box<dyn Stream<Item = AgentEvent> + Send>>;

/// A request to an agent's server. The error describes the failure in words.
pub type AgentFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, String>> + Send + 'a>>;

/// An agent that runs in a server.
///
/// # Example: an agent that replies in upper case
/// ```
/// use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, AgentPart, AgentFuture, Console, Router, RouterSettings,
///     prompt_streaming,
/// };
/// # struct Events(UnboundedReceiver<AgentEvent>);
/// # impl futures_core::Stream for Events {
/// #     type Item = AgentEvent;
/// #     fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
/// #         self.0.poll_recv(cx)
/// #     }
/// # }
/// /// Holds the sender of its events.
/// #[derive(Default)]
/// struct Shouter(Option<UnboundedSender<AgentEvent>>);
/// impl Agent for Shouter {
///     fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
///         let (sender, events) = unbounded_channel();
///         self.0 = Some(sender);
///         // `Events` implements `Stream`.
///         let events: AgentEvents = Box::pin(Events(events));
///         Box::pin(ready(Ok(events)))
///     }
///     fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> AgentFuture<'a, ()> {
///         let (session, content) = (session.to_owned(), AgentPart::Text(text.to_uppercase()));
///         let (message, part) = ("msg_1".into(), "prt_1".into());
///         let says = AgentEvent::Part { session: session.clone(), message, part, content };
///         let sender = self.0.as_ref().ok_or_else(|| "no subscriber".to_owned());
///         let sent = sender.map(|sender| {
///             sender.send(says).ok();
///             sender.send(AgentEvent::Idle { session }).ok();
///         });
///         Box::pin(ready(sent))
///     }
///     fn abort<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> AgentFuture<'a, ()> {
///         Box::pin(ready(Err("there is no question".into())))
///     }
///     fn reject<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
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
    /// Opens the event stream; ready once later events cannot be missed.
    fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents>;

    /// Sends a prompt; ready once it is accepted, not when it is answered.
    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> AgentFuture<'a, ()>;

    /// Stops the session.
    fn abort<'a>(&'a mut self, session: &'a str) -> AgentFuture<'a, ()>;

    /// Answers the questions of a request, with one list of answers for each question.
    fn answer<'a>(&'a mut self, request: &'a str, answers: Vec<Vec<String>>)
    -> AgentFuture<'a, ()>;

    /// Rejects a request, because nobody answers it.
    fn reject<'a>(&'a mut self, request: &'a str) -> AgentFuture<'a, ()>;
}

/// The agent and the user of a prompt.
#[derive(Debug)]
pub struct Router<'a, A: ?Sized, C: ?Sized> {
    /// The agent.
    pub agent: &'a mut A,
    /// The channel.
    pub channel: &'a mut C,
    /// The user who prompts and answers.
    pub peer: &'a str,
    /// The messages that arrive on all channels.
    pub inbox: &'a mut UnboundedReceiver<Inbound>,
}

/// Sends a prompt and returns the whole reply as one text. Meanwhile the user sees progress notes, is asked the agent's
/// questions, and can stop the prompt with `/cancel`, which is acknowledged. Messages that are neither an answer nor
/// `/cancel` are returned in order. Messages of other peers or channels neither answer nor cancel.
///
/// It returns within the time limit, and at once after `/cancel`, whatever the channel and the agent's server do: a
/// note or a typing indicator that takes longer than 5 s, or a tenth of the time limit, is abandoned, and so is each
/// remaining action at the end.
///
/// The event stream is closed in every case. The typing indicator stays on: the caller hides it once the reply is
/// delivered, as [`respond`] does.
///
/// # Panics
/// If it is polled outside of a tokio runtime with time enabled.
///
/// # Example: the user cancels
/// ```
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, AgentFuture, Console, Inbound, PromptError, Router, RouterSettings,
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
/// #     fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
/// #         let events: AgentEvents = Box::pin(Never);
/// #         Box::pin(ready(Ok(events)))
/// #     }
/// #     fn prompt<'a>(&'a mut self, _: &'a str, _: &'a str) -> AgentFuture<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn abort<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
/// #         self.is_aborted = true;
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> AgentFuture<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// #     fn reject<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
/// #         Box::pin(ready(Ok(())))
/// #     }
/// # }
/// // `Silent` is an agent that accepts a prompt and never replies.
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
    let short_wait = short_wait(&settings);
    let mut running = PromptDriver {
        prompting: PendingPrompt::begin(session, settings, &mut out),
        router,
        session,
        text,
        events: None,
        began: Instant::now(),
        short_wait,
        shown: None,
        is_inbox_closed: false,
        other: Vec::new(),
    };
    let mut planned = VecDeque::from(out);
    loop {
        while let Some(what) = planned.pop_front() {
            if let ChatAction::Done(result) = what {
                return (result, running.other);
            }
            let mut more = Vec::new();
            running.perform(what, &mut more).await;
            if running.prompting.is_over() && !more.is_empty() {
                // The actions that end the prompt replace the planned ones.
                planned.clear();
            }
            planned.extend(more);
        }
        let mut more = Vec::new();
        running.wait(&mut more).await;
        planned.extend(more);
    }
}

/// Replies to a message of the user: runs [`prompt_streaming`], sends one message with the whole reply or with an
/// error, and hides the typing indicator. After a cancel, which was acknowledged, nothing is sent.
/// Returns the other messages that arrived meanwhile in every case.
///
/// A channel that does not accept the reply within the time limit, or before the user sends `/cancel`, has failed. If
/// the message itself is `/cancel`, the user is told that there is nothing to cancel, and the agent is not prompted.
///
/// # Errors
/// If the reply could not be sent.
///
/// # Panics
/// If it is polled outside of a tokio runtime with time enabled.
///
/// # Example: an agent with a fixed reply
/// ```
/// use std::collections::VecDeque;
/// use std::{future::ready, pin::Pin, task::{Context, Poll}};
/// use ttsr_agent::progress::{
///     Agent, AgentEvent, AgentEvents, AgentPart, AgentFuture, ChannelAdapter, ChannelError,
///     ChannelStatus, Constraints, Inbound, Inbox, Outbound, Router, RouterSettings, SLACK,
///     SendFuture, respond,
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
///     fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
///         let says = AgentEvent::Part {
///             session: "ses_1".into(),
///             message: "msg_1".into(),
///             part: "prt_1".into(),
///             content: AgentPart::Text("Hello you.".into()),
///         };
///         let idle = AgentEvent::Idle { session: "ses_1".into() };
///         // `Events` implements `Stream`.
///         let events: AgentEvents = Box::pin(Events([says, idle].into()));
///         Box::pin(ready(Ok(events)))
///     }
///     fn prompt<'a>(&'a mut self, _: &'a str, _: &'a str) -> AgentFuture<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn abort<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn answer<'a>(&'a mut self, _: &'a str, _: Vec<Vec<String>>) -> AgentFuture<'a, ()> {
///         Box::pin(ready(Ok(())))
///     }
///     fn reject<'a>(&'a mut self, _: &'a str) -> AgentFuture<'a, ()> {
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
///     fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> SendFuture<'a> {
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
/// assert!(other.is_empty(), "no other message arrived");
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
    let (timeout, short_wait) = (timeout(&settings), short_wait(&settings));
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
        let _shown = tokio::time::timeout(short_wait, stopping).await;
    }
    (delivered, other)
}

/// Sends the reply, within the time limit and until the user cancels.
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
    let mut is_inbox_closed = false;
    loop {
        tokio::select! {
            biased;
            sent = &mut sending => return sent,
            message = inbox.recv(), if !is_inbox_closed => match message {
                Some(message) if is_from(&message, &id, peer) && is_cancel(&message) => {
                    return Err(ChannelError::new("the user cancelled before the reply was delivered"));
                }
                Some(message) => other.push(message),
                None => is_inbox_closed = true,
            },
            () = &mut late => {
                let within = within.as_millis();
                let error = format!("the channel did not take the reply within {within} ms");
                return Err(ChannelError::new(error));
            }
        }
    }
}

/// The most time for a channel to show a note or the typing indicator, and for each remaining action at the end.
const MAX_SHORT_WAIT: Duration = Duration::from_secs(5);

fn timeout(settings: &RouterSettings) -> Duration {
    Duration::from_millis(settings.timeout_ms())
}

fn short_wait(settings: &RouterSettings) -> Duration {
    MAX_SHORT_WAIT.min(timeout(settings) / 10)
}

fn is_cancel(message: &Inbound) -> bool {
    message.text.trim() == "/cancel"
}

fn is_from(message: &Inbound, channel: &str, peer: &str) -> bool {
    message.channel == channel && message.peer == peer
}

struct PromptDriver<'a, A: ?Sized, C: ?Sized> {
    prompting: PendingPrompt,
    router: Router<'a, A, C>,
    session: &'a str,
    text: &'a str,
    events: Option<AgentEvents>,
    began: Instant,
    short_wait: Duration,
    /// The request whose questions were sent to the user last, or are being sent.
    shown: Option<String>,
    /// True once the inbox is closed.
    is_inbox_closed: bool,
    other: Vec<Inbound>,
}

/// The result of an action.
enum ActionResult {
    Done,
    Subscribed(AgentEvents),
    /// The prompt cannot continue.
    Failed(String),
    /// The questions of that request did not reach the user.
    NotAsked(String),
}

impl<A: Agent + ?Sized, C: ChannelAdapter + ?Sized> PromptDriver<'_, A, C> {
    /// Carries out one action within its time limit. Meanwhile the user may cancel or answer.
    async fn perform(&mut self, what: ChatAction, out: &mut Vec<ChatAction>) {
        let is_over = self.prompting.is_over();
        let is_brief = is_over || matches!(what, ChatAction::Typing | ChatAction::Note(_));
        let is_ask = matches!(what, ChatAction::Ask { .. });
        let short_wait = Instant::now() + self.short_wait;
        match &what {
            ChatAction::Unsubscribe => return self.events = None,
            ChatAction::Ask { request, .. } if self.prompting.asking() != Some(request) => return,
            ChatAction::Ask { request, .. } => self.shown = Some(request.clone()),
            _ => {}
        }
        let PromptDriver {
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
        let mut doing = pin!(perform_action(
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
                true => Some(
                    limit
                        .filter(|_| !is_over)
                        .unwrap_or(short_wait)
                        .min(short_wait),
                ),
                false => limit,
            };
            tokio::select! {
                biased;
                performed = &mut doing => {
                    let now = self.began.elapsed();
                    match performed {
                        ActionResult::Done => {}
                        ActionResult::Subscribed(events) => self.events = Some(events),
                        ActionResult::Failed(why) => prompting.failed(now, why, out),
                        ActionResult::NotAsked(request) => prompting.not_asked(now, &request, out),
                    }
                    return;
                }
                message = inbox.recv(), if !is_over && !self.is_inbox_closed => {
                    let expected = ExpectedUser { id: &id, peer, shown: self.shown.as_deref() };
                    match expected.classify(self.began.elapsed(), message, prompting, out) {
                        // The result of the action is no longer needed.
                        InboxMessage::Cancel => return,
                        InboxMessage::Answer if is_ask => return,
                        InboxMessage::Answer => {}
                        InboxMessage::Other(message) => self.other.push(message),
                        InboxMessage::Closed => self.is_inbox_closed = true,
                    }
                }
                () = sleep_until_deadline(until) => {
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

    async fn wait(&mut self, out: &mut Vec<ChatAction>) {
        let deadline = self.began.checked_add(self.prompting.deadline());
        tokio::select! {
            biased;
            message = self.router.inbox.recv(), if !self.is_inbox_closed => {
                let expected = ExpectedUser {
                    id: self.router.channel.id(),
                    peer: self.router.peer,
                    shown: self.shown.as_deref(),
                };
                let now = self.began.elapsed();
                match expected.classify(now, message, &mut self.prompting, out) {
                    InboxMessage::Answer | InboxMessage::Cancel => {}
                    InboxMessage::Other(message) => self.other.push(message),
                    // The reply can still arrive.
                    InboxMessage::Closed => self.is_inbox_closed = true,
                }
            }
            event = next(&mut self.events) => self.on_event(event, out),
            () = sleep_until_deadline(deadline) => self.prompting.tick(self.began.elapsed(), out),
        }
    }

    fn on_event(&mut self, event: Option<AgentEvent>, out: &mut Vec<ChatAction>) {
        let now = self.began.elapsed();
        match event {
            Some(event) => self.prompting.push_event(now, &event, out),
            None => self.prompting.disconnected(now, out),
        }
    }
}

/// The user whose messages answer or cancel, and the request that they were asked.
struct ExpectedUser<'a> {
    id: &'a str,
    peer: &'a str,
    shown: Option<&'a str>,
}

/// The classification of a message in the inbox.
enum InboxMessage {
    Answer,
    Cancel,
    /// Neither an answer nor a cancel of this user.
    Other(Inbound),
    Closed,
}

impl ExpectedUser<'_> {
    fn classify(
        &self,
        now: Duration,
        message: Option<Inbound>,
        prompting: &mut PendingPrompt,
        out: &mut Vec<ChatAction>,
    ) -> InboxMessage {
        let Some(message) = message else {
            return InboxMessage::Closed;
        };
        let is_own = is_from(&message, self.id, self.peer);
        if is_own && is_cancel(&message) {
            prompting.cancel(now, out);
            return InboxMessage::Cancel;
        }
        let is_asked = prompting.asking().is_some() && prompting.asking() == self.shown;
        if is_own && is_asked {
            prompting.answer(now, &message.text, out);
            return InboxMessage::Answer;
        }
        InboxMessage::Other(message)
    }
}

async fn perform_action<A: Agent + ?Sized, C: ChannelAdapter + ?Sized>(
    what: ChatAction,
    agent: &mut A,
    channel: &mut C,
    peer: &str,
    session: &str,
    text: &str,
) -> ActionResult {
    match what {
        ChatAction::Typing => send_if_supported(channel.send_typing(peer)).await,
        ChatAction::StopTyping => send_if_supported(channel.stop_typing(peer)).await,
        ChatAction::Subscribe => match agent.subscribe().await {
            Ok(events) => return ActionResult::Subscribed(events),
            Err(error) => return ActionResult::Failed(error),
        },
        ChatAction::Prompt => {
            if let Err(error) = agent.prompt(session, text).await {
                return ActionResult::Failed(error);
            }
        }
        ChatAction::Note(text) => {
            let message = Outbound {
                text,
                reply_to: None,
            };
            // A progress note that cannot be shown must not cost the reply.
            let _lost = channel.send(peer, message).await;
        }
        ChatAction::Ask { request, text } => {
            let message = Outbound {
                text,
                reply_to: None,
            };
            if channel.send(peer, message).await.is_err() {
                return ActionResult::NotAsked(request);
            }
        }
        // If the server is gone, its event stream ends, which ends the prompt.
        ChatAction::Abort => drop(agent.abort(session).await),
        ChatAction::Answer { request, answers } => {
            if agent.answer(&request, answers).await.is_err() {
                drop(agent.reject(&request).await);
            }
        }
        ChatAction::Reject { request } => drop(agent.reject(&request).await),
        ChatAction::Unsubscribe | ChatAction::Done(_) => {}
    }
    ActionResult::Done
}

/// Sends, unless the channel does not support it; errors are ignored.
async fn send_if_supported(sending: Option<SendFuture<'_>>) {
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

async fn sleep_until_deadline(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}
