//! The interface to providers: a request in, a stream of events out.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;

use super::message::Request;
use crate::Event;

/// The events of one reply. A reply is cancelled by dropping the stream, which must close the transport.
pub type EventStream = Pin<Box<dyn Stream<Item = Result<Event, Failure>> + Send>>;

/// A service that answers requests.
///
/// # Example: a provider that echoes the last message
/// ```
/// use ttsr::harness::{
///     Cancel, EventStream, Hooks, Message, Processor, Provider, Request, Settings, run, unfold,
/// };
/// use ttsr::{Channel, Event, Pack, PartId};
/// struct Echo;
/// impl Provider for Echo {
///     fn send(&mut self, request: &Request) -> EventStream {
///         let said = request.messages.last().map(Message::text).unwrap_or_default();
///         let left = vec![
///             Event::Finish { reason: "stop".into() },
///             Event::Delta { part: PartId(0), bytes: said.into() },
///         ];
///         unfold(left, async |mut left| Some((Ok(left.pop()?), left)))
///     }
/// }
/// let pack = Pack::builder().build()?;
/// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
/// let request = Request::new("echo", vec![Message::user("Hello?")]);
/// let mut provider = Echo;
/// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// assert_eq!(runtime.block_on(running).reply.text(Channel::Text), "Hello?");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Provider: Send {
    /// Starts to answer a request. Returns at once: the stream connects when it is first polled, and a failed
    /// connection is its first item.
    ///
    /// The stream ends with the reply, and is not polled again after an error. A stream that ends without
    /// [`Event::Finish`] was cut off and is not an answer. If the transport is re-established and the reply starts
    /// over, the stream yields [`Event::Restart`].
    fn send(&mut self, request: &Request) -> EventStream;
}

impl<P: Provider + ?Sized> Provider for Box<P> {
    fn send(&mut self, request: &Request) -> EventStream {
        (**self).send(request)
    }
}

/// The reason why a provider did not complete a reply.
///
/// # Example: too many requests
/// ```
/// use std::time::Duration;
/// use ttsr::harness::Failure;
/// let wait = Duration::from_secs(7);
/// let failure = Failure::new("rate_limit", "slow down").with_status(429).with_retry_after(wait);
/// assert_eq!((failure.status(), failure.retry_after()), (Some(429), Some(wait)));
/// assert_eq!(failure.to_string(), "rate_limit: slow down");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    kind: String,
    message: String,
    status: Option<u16>,
    retry_after: Option<Duration>,
}

impl Failure {
    /// Returns a failure of a kind: a code or class such as `connect`, `429` or `overloaded_error`.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure {
            kind: kind.into(),
            message: message.into(),
            status: None,
            retry_after: None,
        }
    }

    /// Sets the HTTP status of the response.
    #[must_use]
    pub fn with_status(self, status: u16) -> Failure {
        Failure {
            status: Some(status),
            ..self
        }
    }

    /// Sets the time to wait before the next request, as the provider asks.
    #[must_use]
    pub fn with_retry_after(self, wait: Duration) -> Failure {
        Failure {
            retry_after: Some(wait),
            ..self
        }
    }

    /// Replaces the message.
    #[must_use]
    pub fn with_message(self, message: String) -> Failure {
        Failure { message, ..self }
    }

    /// Returns the kind or code.
    #[must_use]
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// Returns the message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the HTTP status, if the failure is a response.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Returns the time to wait before the next request, if the provider gave one.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl Error for Failure {}

/// Returns a stream, such as an [`EventStream`], made from an async function. The function is called with the state and
/// returns the next item with the next state, or `None` at the end. The state owns the transport.
///
/// # Example: a reply of two events
/// ```
/// use std::future::poll_fn;
/// use ttsr::harness::{Failure, unfold};
/// use ttsr::{Event, PartId};
/// let left = vec![
///     Event::Finish { reason: "stop".into() },
///     Event::Delta { part: PartId(0), bytes: b"hi".to_vec() },
/// ];
/// let mut stream = unfold(left, async |mut left| {
///     let event = left.pop()?;
///     Some((Ok::<_, Failure>(event), left))
/// });
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut next = || runtime.block_on(poll_fn(|cx| stream.as_mut().poll_next(cx)));
/// assert!(matches!(next(), Some(Ok(Event::Delta { .. }))));
/// assert!(matches!(next(), Some(Ok(Event::Finish { .. }))));
/// assert_eq!(next(), None);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn unfold<S, F, N, T>(state: S, next: F) -> Pin<Box<dyn Stream<Item = T> + Send>>
where
    S: Send + Unpin + 'static,
    F: FnMut(S) -> N + Send + Unpin + 'static,
    N: Future<Output = Option<(T, S)>> + Send + 'static,
{
    Box::pin(UnfoldStream {
        state: Some(state),
        pending: None,
        next,
    })
}

struct UnfoldStream<S, F, N> {
    /// `None` while `pending` owns the state, and after the end.
    state: Option<S>,
    pending: Option<Pin<Box<N>>>,
    next: F,
}

impl<S, F, N, T> Stream for UnfoldStream<S, F, N>
where
    S: Unpin,
    F: FnMut(S) -> N + Unpin,
    N: Future<Output = Option<(T, S)>>,
{
    type Item = T;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let this = &mut *self;
        if let Some(state) = this.state.take() {
            this.pending = Some(Box::pin((this.next)(state)));
        }
        let Some(pending) = &mut this.pending else {
            return Poll::Ready(None);
        };
        let Poll::Ready(item) = pending.as_mut().poll(cx) else {
            return Poll::Pending;
        };
        this.pending = None;
        Poll::Ready(item.map(|(event, state)| {
            this.state = Some(state);
            event
        }))
    }
}
