//! Both sides of a router: a chat, and an agent with scripted events. Actions on them are logged.
#![allow(dead_code, reason = "each who takes it in uses some of it")]

use std::collections::VecDeque;
use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use ttsr_agent::progress::{
    Agent, AgentEvent, AgentEvents, AgentFuture, ChannelAdapter, ChannelError, ChannelStatus,
    Constraints, Inbox, Outbound, SendFuture, Typing,
};

/// An action on a chat or on an agent.
#[derive(Debug)]
pub(crate) enum Done<'a> {
    Say(&'a Outbound),
    /// True if the typing indicator is shown from here on.
    Type(bool),
    /// True if the events are read from here on.
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

/// The result of an action on a chat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Goes {
    Well,
    Wrong,
    /// It never completes.
    On,
}

/// A channel with the capabilities of its kind.
pub(crate) struct Chat {
    pub(crate) constraints: Constraints,
    pub(crate) tell: Tell,
    /// Returns the result of each action. An action that fails is not logged.
    pub(crate) goes: Box<dyn Fn(&Done<'_>) -> Goes + Send>,
}

impl Chat {
    /// A channel on which every action succeeds.
    pub(crate) fn new(constraints: Constraints, tell: Tell) -> Chat {
        Chat {
            constraints,
            tell,
            goes: Box::new(|_| Goes::Well),
        }
    }

    fn tell(&self, done: Done<'_>) -> SendFuture<'static> {
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

    fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> SendFuture<'a> {
        self.tell(Done::Say(&message))
    }

    fn send_typing<'a>(&'a mut self, _: &'a str) -> Option<SendFuture<'a>> {
        let can = self.constraints.typing != Typing::Unsupported;
        can.then(|| self.tell(Done::Type(true)))
    }

    fn stop_typing<'a>(&'a mut self, _: &'a str) -> Option<SendFuture<'a>> {
        let must = self.constraints.typing == Typing::UntilStopped;
        must.then(|| self.tell(Done::Type(false)))
    }
}

/// The next event of the agent.
pub(crate) enum Next {
    Event(Box<AgentEvent>),
    /// A third party acts before the next event of the agent.
    Meanwhile(Box<dyn FnOnce() + Send>),
    /// The event stream ends. Without it the stream stays open and silent.
    End,
}

/// An agent for one prompt.
pub(crate) struct Server {
    pub(crate) script: VecDeque<Next>,
    /// True if the prompt is refused.
    pub(crate) refuses: bool,
    pub(crate) tell: Tell,
}

impl Server {
    fn tell<T: Send + 'static>(
        &self,
        done: Done<'_>,
        said: Result<T, String>,
    ) -> AgentFuture<'static, T> {
        (self.tell)(done);
        Box::pin(ready(said))
    }
}

impl Agent for Server {
    fn subscribe(&mut self) -> AgentFuture<'_, AgentEvents> {
        let events: AgentEvents = Box::pin(Events {
            script: std::mem::take(&mut self.script),
            tell: Arc::clone(&self.tell),
        });
        self.tell(Done::Subscribe(true), Ok(events))
    }

    fn prompt<'a>(&'a mut self, session: &'a str, text: &'a str) -> AgentFuture<'a, ()> {
        let said = match self.refuses {
            true => Err("no".to_owned()),
            false => Ok(()),
        };
        self.tell(Done::Prompt { session, text }, said)
    }

    fn abort<'a>(&'a mut self, session: &'a str) -> AgentFuture<'a, ()> {
        self.tell(Done::Abort(session), Ok(()))
    }

    fn answer<'a>(
        &'a mut self,
        request: &'a str,
        answers: Vec<Vec<String>>,
    ) -> AgentFuture<'a, ()> {
        self.tell(Done::Answer(request, &answers), Ok(()))
    }

    fn reject<'a>(&'a mut self, request: &'a str) -> AgentFuture<'a, ()> {
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
