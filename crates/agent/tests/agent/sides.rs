//! Both sides of a router: a chat, and an agent that says what it is told to. What is done to them is told.
#![allow(dead_code, reason = "each who takes it in uses some of it")]

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use ttsr_agent::progress::{
    Agent, AgentEvent, AgentEvents, Asking, ChannelAdapter, ChannelError, ChannelStatus,
    Constraints, Inbox, Outbound, Sending, Typing,
};

/// What was done to a chat or to an agent.
#[derive(Debug)]
pub(crate) enum Done<'a> {
    Say(&'a Outbound),
    /// Whether it is shown from here on.
    Type(bool),
    /// Whether the events are read from here on.
    Subscribe(bool),
    Prompt {
        session: &'a str,
        text: &'a str,
    },
    Abort(&'a str),
    Answer(&'a str, &'a [Vec<String>]),
    Reject(&'a str),
}

pub(crate) type Tell = Arc<dyn Fn(Done<'_>) + Send + Sync>;

/// What becomes of something that is done to a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    Well,
    Wrong,
    /// It never ends.
    On,
}

/// A channel that can do what its kind can.
pub(crate) struct Chat {
    pub(crate) constraints: Constraints,
    pub(crate) tell: Tell,
    /// Says how each thing goes. What goes wrong is not told.
    pub(crate) goes: Box<dyn Fn(&Done<'_>) -> Goes + Send>,
}

impl Chat {
    /// A channel where everything goes well.
    pub(crate) fn new(constraints: Constraints, tell: Tell) -> Chat {
        Chat {
            constraints,
            tell,
            goes: Box::new(|_| Goes::Well),
        }
    }

    fn tell(&self, done: Done<'_>) -> Sending<'static> {
        match (self.goes)(&done) {
            Goes::Well => {
                (self.tell)(done);
                Box::pin(ready(Ok(())))
            }
            Goes::Wrong => Box::pin(ready(Err(ChannelError::new("the chat is gone")))),
            Goes::On => Box::pin(pending()),
        }
    }
}

impl ChannelAdapter for Chat {
    fn id(&self) -> &str {
        "chat"
    }

    fn name(&self) -> &str {
        "Chat"
    }

    fn constraints(&self) -> Constraints {
        self.constraints
    }

    fn start(&mut self, _: Inbox) -> Result<(), ChannelError> {
        Ok(())
    }

    fn stop(&mut self) {}

    fn status(&self) -> ChannelStatus {
        ChannelStatus::Running
    }

    fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> Sending<'a> {
        self.tell(Done::Say(&message))
    }

    fn send_typing<'a>(&'a mut self, _: &'a str) -> Option<Sending<'a>> {
        let can = self.constraints.typing != Typing::Unsupported;
        can.then(|| self.tell(Done::Type(true)))
    }

    fn stop_typing<'a>(&'a mut self, _: &'a str) -> Option<Sending<'a>> {
        let must = self.constraints.typing == Typing::UntilStopped;
        must.then(|| self.tell(Done::Type(false)))
    }
}

/// What happens next on the side of the agent.
pub(crate) enum Next {
    Event(Box<AgentEvent>),
    /// Somebody else does something, before anything else of the agent is heard.
    Meanwhile(Box<dyn FnOnce() + Send>),
    /// The events end. Without it they go on, and nothing more comes.
    End,
}

/// An agent for one prompt.
pub(crate) struct Server {
    pub(crate) script: VecDeque<Next>,
    /// The prompt is refused.
    pub(crate) refuses: bool,
    pub(crate) tell: Tell,
}

impl Server {
    fn tell<T: Send + 'static>(
        &self,
        done: Done<'_>,
        said: Result<T, String>,
    ) -> Asking<'static, T> {
        (self.tell)(done);
        Box::pin(ready(said))
    }
}

impl Agent for Server {
    fn subscribe(&mut self) -> Asking<'_, AgentEvents> {
        let events: AgentEvents = Box::pin(Events {
            script: std::mem::take(&mut self.script),
            tell: Arc::clone(&self.tell),
        });
        self.tell(Done::Subscribe(true), Ok(events))
    }

    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> Asking<'a, ()> {
        let said = match self.refuses {
            true => Err("no".to_owned()),
            false => Ok(()),
        };
        self.tell(Done::Prompt { session, text }, said)
    }

    fn abort<'a>(&'a mut self, session: &'a str) -> Asking<'a, ()> {
        self.tell(Done::Abort(session), Ok(()))
    }

    fn answer<'a>(&'a mut self, request: &'a str, answers: Vec<Vec<String>>) -> Asking<'a, ()> {
        self.tell(Done::Answer(request, &answers), Ok(()))
    }

    fn reject<'a>(&'a mut self, request: &'a str) -> Asking<'a, ()> {
        self.tell(Done::Reject(request), Ok(()))
    }
}

struct Events {
    script: VecDeque<Next>,
    tell: Tell,
}

impl Stream for Events {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        match self.script.pop_front() {
            Some(Next::Event(event)) => Poll::Ready(Some(*event)),
            Some(Next::End) => Poll::Ready(None),
            Some(Next::Meanwhile(does)) => {
                does();
                cx.waker().wake_by_ref();
                Poll::Pending
            }
            None => Poll::Pending,
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        (self.tell)(Done::Subscribe(false));
    }
}
