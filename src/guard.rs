//! An adapter: any stream of [`Event`]s, read by a [`Conversation`] before its consumer sees them.
//!
//! It owns the inner stream and drops it at a cut. It knows no runtime and no provider.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::stream::FusedStream;
use serde::Serialize;

use crate::conversation::{CallReview, Conversation, Cut, DecisionRecord, Flow};
use crate::event::Event;
use crate::verdict::PartId;

/// Guards a stream of events: implemented for every stream of [`Event`]s.
///
/// # Example: a key that arrives in two deltas never leaves
/// ```
/// # use std::{pin::{Pin, pin}, task::{Context, Poll, Waker}};
/// use futures_core::Stream;
/// use ttsr::guard::GuardedItem;
/// use ttsr::{Action, Conversation, Event, Guard, Pack, PartId, Pattern, Rule};
/// # struct Reply(std::vec::IntoIter<Event>);
/// # impl Stream for Reply {
/// #     type Item = Event;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
/// let mut rule = Rule::new("demo/key", vec![Pattern::regex("key-[0-9]{4}")]);
/// rule.action = Action::Redact;
/// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
/// conversation.begin_turn("Which key?").flow.ok()?;
/// let delta = |text: &str| Event::Delta { part: PartId(0), bytes: text.into() };
/// // Any `Stream` of events.
/// let reply = Reply(vec![delta("my key-12"), delta("34.")].into_iter());
/// let mut guarded = pin!(reply.guarded(conversation));
/// # let mut context = Context::from_waker(Waker::noop());
/// let mut shown = Vec::new();
/// while let Poll::Ready(Some(item)) = guarded.as_mut().poll_next(&mut context) {
///     match item {
///         GuardedItem::Event(Event::Delta { bytes, .. }) => shown.extend(bytes),
///         GuardedItem::Cut(cut) => panic!("{cut}"),
///         _ => {}
///     }
/// }
/// assert_eq!(shown, b"my [redacted].");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Guard: futures_core::Stream<Item = Event> + Sized {
    /// Returns this stream as the next attempt of the conversation, whose turn has begun.
    fn guarded(self, conversation: Conversation) -> Guarded<Self>;
}

impl<S: futures_core::Stream<Item = Event>> Guard for S {
    fn guarded(self, mut conversation: Conversation) -> Guarded<S> {
        let flow = conversation.begin_attempt();
        let mut guarded = Guarded {
            inner: Some(Box::pin(self)),
            conversation,
            parts: Vec::new(),
            decisions: 0,
            reviews: 0,
            is_finished: false,
            ready: VecDeque::new(),
        };
        guarded.queue_news(flow);
        guarded
    }
}

/// An item of a [`Guarded`] stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum GuardedItem {
    /// An event of the inner stream. The text of a [`Event::Delta`] may leave; it is not split as the provider split it.
    Event(Event),
    /// A decision that was not suppressed and does not cut. It comes before the event that caused it.
    Decision(Box<DecisionRecord>),
    /// A tool call waits for a review; see [`Conversation::approve`]. Its input is not handed on before.
    Review(Box<CallReview>),
    /// The attempt is cut: the inner stream is dropped, and this is the last item.
    Cut(#[serde(serialize_with = "Cut::serialize_shared")] Arc<Cut>),
}

impl GuardedItem {
    /// Returns the name used in every output: `event`, `decision`, `review` or `cut`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            GuardedItem::Event(_) => "event",
            GuardedItem::Decision(_) => "decision",
            GuardedItem::Review(_) => "review",
            GuardedItem::Cut(_) => "cut",
        }
    }
}

/// A stream of events under guard: made by [`Guard::guarded`].
///
/// Text is handed on as far as it [may leave](Conversation::take). The event that causes a cut is not handed on. When
/// the reply or the inner stream ends, the attempt is [finished](Conversation::finish), which can decide, and the text
/// that was held back follows before [`Event::Finish`]. An [`Event::Snapshot`] is read and never handed on.
///
/// # Example: a reply that is cut
/// ```
/// # use std::{pin::{Pin, pin}, task::{Context, Poll, Waker}};
/// # use futures_core::Stream;
/// use ttsr::guard::GuardedItem;
/// use ttsr::{Action, Conversation, Event, Guard, Pack, PartId, Pattern, Rule};
/// # struct Reply(std::vec::IntoIter<Event>);
/// # impl Stream for Reply {
/// #     type Item = Event;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Event>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
/// let mut rule = Rule::new("demo/no-any", vec![Pattern::literal(": any")]);
/// rule.action = Action::Retry;
/// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
/// conversation.begin_turn("Declare x.").flow.ok()?;
/// let delta = |text: &str| Event::Delta { part: PartId(0), bytes: text.into() };
/// let reply = Reply(vec![delta("let x"), delta(": any = 1"), delta(";")].into_iter());
/// let mut guarded = pin!(reply.guarded(conversation));
/// # let mut context = Context::from_waker(Waker::noop());
/// # let mut next = || match guarded.as_mut().poll_next(&mut context) {
/// #     Poll::Ready(item) => item,
/// #     Poll::Pending => unreachable!("this reply is complete"),
/// # };
/// assert_eq!(next(), Some(GuardedItem::Event(delta("let x"))));
/// let Some(GuardedItem::Cut(cut)) = next() else { panic!("the rule is broken here") };
/// assert_eq!((cut.rule(), cut.retry.is_some()), (Some("demo/no-any"), true));
/// assert_eq!(next(), None);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Guarded<S> {
    /// `None` after its end and after a cut.
    inner: Option<Pin<Box<S>>>,
    conversation: Conversation,
    /// Parts in the order in which they opened.
    parts: Vec<PartId>,
    /// Number of decisions and of reviews that were handed on.
    decisions: usize,
    reviews: usize,
    is_finished: bool,
    ready: VecDeque<GuardedItem>,
}

impl<S> Guarded<S> {
    /// Returns the conversation, with the attempt in progress.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns the conversation, to approve a call or to take its input.
    pub fn conversation_mut(&mut self) -> &mut Conversation {
        &mut self.conversation
    }

    /// Returns the conversation, for the next attempt. The inner stream is dropped.
    #[must_use]
    pub fn into_conversation(self) -> Conversation {
        self.conversation
    }

    /// Reads an event, and queues it and the text that may leave.
    fn read(&mut self, event: Event) {
        match event {
            Event::PartStart { part, .. }
            | Event::Tool { part, .. }
            | Event::Outcome { part, .. }
            | Event::Delta { part, .. }
            | Event::Snapshot { part, .. } => self.add_part(part),
            Event::PartEnd { .. } => {}
            Event::Restart => {
                (self.decisions, self.reviews, self.is_finished) = (0, 0, false);
                self.parts.clear();
            }
            Event::Finish { .. } => {
                if self.finish() {
                    self.ready.push_back(GuardedItem::Event(event));
                }
                return;
            }
            // These events carry no part text.
            Event::Unscanned { .. } | Event::Usage { .. } | Event::Error { .. } => {
                return self.ready.push_back(GuardedItem::Event(event));
            }
        }
        let flow = self.conversation.apply(&event);
        if !self.queue_news(flow) {
            return;
        }
        match event {
            Event::Delta { part, .. } | Event::Snapshot { part, .. } => self.queue_text(part),
            Event::Tool { part, .. } => {
                self.ready.push_back(GuardedItem::Event(event));
                self.queue_text(part);
            }
            Event::PartEnd { part } => {
                self.queue_text(part);
                self.ready.push_back(GuardedItem::Event(event));
            }
            event => self.ready.push_back(GuardedItem::Event(event)),
        }
    }

    fn add_part(&mut self, part: PartId) {
        if !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    /// Finishes the attempt and queues the text that was held back; returns false if the attempt is cut.
    fn finish(&mut self) -> bool {
        if self.is_finished {
            return true;
        }
        self.is_finished = true;
        let flow = self.conversation.finish();
        let goes_on = self.queue_news(flow);
        if goes_on {
            for part in std::mem::take(&mut self.parts) {
                self.queue_text(part);
            }
        }
        goes_on
    }

    fn end(&mut self) {
        self.inner = None;
        self.finish();
    }

    /// Queues the text of a part that may leave.
    fn queue_text(&mut self, part: PartId) {
        let bytes = self.conversation.take(part);
        if !bytes.is_empty() {
            let bytes = bytes.to_vec();
            self.ready
                .push_back(GuardedItem::Event(Event::Delta { part, bytes }));
        }
    }

    /// Queues the decisions and reviews since the last call, and the cut, which ends the stream. Returns false for a
    /// cut.
    fn queue_news(&mut self, flow: Flow) -> bool {
        let decisions = &self.conversation.decisions()[self.decisions..];
        let acting = decisions
            .iter()
            .filter(|made| !made.is_suppressed() && !made.action.cuts());
        self.ready
            .extend(acting.map(|made| GuardedItem::Decision(Box::new(made.clone()))));
        self.decisions = self.conversation.decisions().len();
        let reviews = self.conversation.reviews();
        let new = reviews.get(self.reviews..).unwrap_or_default().iter();
        self.ready
            .extend(new.map(|review| GuardedItem::Review(Box::new(review.clone()))));
        self.reviews = reviews.len();
        match flow {
            Flow::Go => true,
            Flow::Cut(cut) => {
                self.inner = None;
                self.is_finished = true;
                self.ready.push_back(GuardedItem::Cut(cut));
                false
            }
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
        // The text of the reply is left out: a rule may keep parts of it out of logs.
        f.debug_struct("Guarded")
            .field("conversation", &self.conversation)
            .field("is_running", &self.inner.is_some())
            .field("ready", &self.ready.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
