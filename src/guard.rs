//! An adapter: any stream of [`Event`]s, read by a session before whoever consumes it sees them.
//!
//! It owns the inner stream and drops it at a decision that cuts. It knows no runtime and no provider,
//! and acts on nothing itself: what a decision asks for is the consumer's to do.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::stream::FusedStream;

use crate::event::Event;
use crate::session::Session;
use crate::stream::Stream;
use crate::verdict::{Decision, PartId};

/// Guards a stream of events: every stream of [`Event`]s has it.
///
/// # Example: a reply that is cut
/// ```
/// # use std::{pin::{Pin, pin}, task::{Context, Poll, Waker}};
/// use futures_core::Stream;
/// use ttsr::{Action, Channel, Event, Guard, GuardedItem, Pack, PartId};
/// # struct Reply(std::vec::IntoIter<Event>);
/// # impl Stream for Reply {
/// #     type Item = Event;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
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
/// let delta = |text: &str| Event::Delta { part: PartId(0), bytes: text.into() };
/// let reply = Reply(vec![delta("let x: a"), delta("ny = 1"), delta(";")].into_iter());
///
/// let mut session = pack.session();
/// session.begin_turn();
/// let mut guarded = pin!(reply.guarded(session));
/// let mut context = Context::from_waker(Waker::noop());
/// let mut next = || match guarded.as_mut().poll_next(&mut context) {
///     Poll::Ready(item) => item,
///     Poll::Pending => unreachable!("this reply is all there"),
/// };
/// assert_eq!(next(), Some(GuardedItem::Event(delta("let x: a"))));
/// let Some(GuardedItem::Decision(decision)) = next() else { panic!("the rule is broken here") };
/// assert_eq!((decision.action, decision.decided()), (Action::Retry, 10));
/// assert_eq!(next(), None);
/// assert!(guarded.stream().message(&decision).contains("Say what the type is"));
/// # Ok::<(), ttsr::LoadError>(())
/// ```
pub trait Guard: futures_core::Stream<Item = Event> + Sized {
    /// This stream as one attempt of the session: every event is read before it is handed on.
    fn guarded(self, session: Session) -> Guarded<Self>;
}

impl<S: futures_core::Stream<Item = Event>> Guard for S {
    fn guarded(self, mut session: Session) -> Guarded<S> {
        let stream = session.stream();
        Guarded {
            inner: Some(Box::pin(self)),
            session,
            stream,
            ready: VecDeque::new(),
        }
    }
}

/// What a [`Guarded`] gives.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GuardedItem {
    /// An event of the inner stream, read and free to go.
    Event(Event),
    /// A decision to act on; it comes before the event that brought it.
    Decision(Decision),
}

/// A stream of events under guard: made by [`Guard::guarded`].
///
/// An event that brought a decision that [cuts](crate::Action::cuts) is not handed on: the inner stream
/// is dropped before the decision is given, and the stream ends with it. When the inner stream ends,
/// the reply is [finished](Session::finish), which can decide. Decisions that the policy
/// [suppressed](Decision::is_suppressed) are not given.
///
/// # Example: a warning, and the reply goes on
/// ```
/// # use std::{pin::{Pin, pin}, task::{Context, Poll, Waker}};
/// # use futures_core::Stream;
/// use ttsr::{Action, Event, Guard, GuardedItem, Pack, PartId, Pattern, Rule};
/// # struct Reply(std::vec::IntoIter<Event>);
/// # impl Stream for Reply {
/// #     type Item = Event;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
/// let mut rule = Rule::new("demo/no-todo", vec![Pattern::literal("TODO")]);
/// rule.action = Action::Warn;
/// let session = Pack::builder().rule(rule).build()?.session();
/// let delta = Event::Delta { part: PartId(0), bytes: b"// TODO: more".to_vec() };
/// // Any `Stream` of events.
/// let reply = Reply(vec![delta.clone()].into_iter());
/// let mut guarded = pin!(reply.guarded(session));
/// # let mut context = Context::from_waker(Waker::noop());
/// let (mut shown, mut warnings) = (Vec::new(), 0);
/// while let Poll::Ready(Some(item)) = guarded.as_mut().poll_next(&mut context) {
///     match item {
///         GuardedItem::Event(event) => shown.push(event),
///         GuardedItem::Decision(decision) => {
///             warnings += 1;
///             guarded.session_mut().delivered(&decision);
///         }
///         _ => {}
///     }
/// }
/// assert_eq!((shown, warnings), (vec![delta], 1));
/// assert_eq!(guarded.stream().delivered(PartId(0)), 13);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
pub struct Guarded<S> {
    /// `None` after its end and after a cut.
    inner: Option<Pin<Box<S>>>,
    session: Session,
    stream: Stream,
    ready: VecDeque<GuardedItem>,
}

impl<S> Guarded<S> {
    /// The session, with what it decided so far.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// The session, to be told what became of a decision.
    pub fn session_mut(&mut self) -> &mut Session {
        &mut self.session
    }

    /// The attempt: messages, excerpts and counters.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }

    /// The session, for the next attempt; the inner stream is dropped.
    ///
    /// # Example: the next attempt
    /// ```
    /// # use std::{pin::Pin, task::{Context, Poll}};
    /// # use futures_core::Stream;
    /// use ttsr::{Event, Guard, Pack};
    /// # struct Reply;
    /// # impl Stream for Reply {
    /// #     type Item = Event;
    /// #     fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
    /// #         Poll::Ready(None)
    /// #     }
    /// # }
    /// let mut guarded = Reply.guarded(Pack::builtin("std/secrets")?.session());
    /// assert_eq!(guarded.stream().attempt(), 1);
    /// guarded.session_mut().begin_turn();
    /// let session = guarded.into_session();
    /// assert_eq!(session.turn(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn into_session(self) -> Session {
        self.session
    }

    /// Lets the session read an event; decisions and event get ready, in this order.
    fn read(&mut self, event: Event) {
        let Guarded {
            session, stream, ..
        } = self;
        match &event {
            Event::PartStart {
                part,
                channel,
                tool,
                call,
                ..
            } => {
                let _ = session.open(stream, *part, *channel);
                self.queue();
                self.name(*part, tool.as_deref(), call.as_deref());
            }
            Event::Tool { part, tool, call } => self.name(*part, Some(tool), call.as_deref()),
            Event::Delta { part, bytes } => {
                let _ = session.push(stream, *part, bytes);
                self.queue();
            }
            Event::PartEnd { part } => {
                let _ = session.close(stream, *part);
                self.queue();
            }
            Event::Snapshot { part, bytes } => {
                // What was delivered is read; only what the provider has beyond it is new.
                let known = usize::try_from(stream.delivered(*part)).unwrap_or(usize::MAX);
                let _ = session.push(stream, *part, bytes.get(known..).unwrap_or_default());
                self.queue();
            }
            // Nothing of what came before counts.
            Event::Restart => self.stream = self.session.stream(),
            // Nothing in it belongs to a part.
            _ => {}
        }
        if !self.stream.is_cut() {
            self.ready.push_back(GuardedItem::Event(event));
        }
    }

    fn name(&mut self, part: PartId, tool: Option<&str>, call: Option<&str>) {
        if tool.is_some() || call.is_some() {
            let (tool, call) = (tool.unwrap_or_default(), call.unwrap_or_default());
            let _ = self.session.tool(&mut self.stream, part, tool, call);
            self.queue();
        }
    }

    /// The reply is over: what it left open is closed, and what rules wanted all of it for is decided.
    fn end(&mut self) {
        self.inner = None;
        if !self.stream.is_cut() {
            let _ = self.session.finish(&mut self.stream);
            self.queue();
        }
    }

    /// Takes over the decisions of the session's last call.
    fn queue(&mut self) {
        let decisions = self.session.decisions().iter();
        let acting = decisions.filter(|decision| !decision.is_suppressed());
        self.ready
            .extend(acting.map(|&decision| GuardedItem::Decision(decision)));
        if self.stream.is_cut() {
            self.inner = None;
        }
    }
}

impl<S: futures_core::Stream<Item = Event>> futures_core::Stream for Guarded<S> {
    type Item = GuardedItem;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<GuardedItem>> {
        let guard = self.get_mut();
        loop {
            if let Some(item) = guard.ready.pop_front() {
                return Poll::Ready(Some(item));
            }
            let Some(inner) = &mut guard.inner else {
                return Poll::Ready(None);
            };
            match inner.as_mut().poll_next(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Some(event)) => guard.read(event),
                Poll::Ready(None) => guard.end(),
            }
        }
    }
}

impl<S: futures_core::Stream<Item = Event>> FusedStream for Guarded<S> {
    fn is_terminated(&self) -> bool {
        self.inner.is_none() && self.ready.is_empty()
    }
}

impl<S> fmt::Debug for Guarded<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No text of the reply: it may hold what a rule was made to keep out of logs.
        f.debug_struct("Guarded")
            .field("stream", &self.stream)
            .field("is_running", &self.inner.is_some())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
