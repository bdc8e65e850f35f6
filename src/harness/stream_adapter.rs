//! Adapts the chunk stream of any client to the events of a reply.
//!
//! The module knows no client. The adapter of a client describes the contents of each chunk, and [`EventBuilder`] makes
//! well-formed events of the description.
//!
//! An adapter also writes the request. What the client cannot express, such as reasoning or headers, must not be left out
//! in silence: the adapter returns a [`Failure`] from the function that opens the stream, before anything is sent. The
//! adapters of `examples/integrations` do so.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::message::Request;
use super::provider::{EventStream, Failure, Provider};
use crate::{Channel, Event, PartId};

/// Returns a [`Provider`] made from a function that answers a request with a stream of events.
///
/// # Example: any stream of events
/// ```
/// use std::future::poll_fn;
/// use ttsr::Event;
/// use ttsr::harness::{Failure, Provider, Request, stream_adapter};
/// # use std::{pin::Pin, task::{Context, Poll}};
/// # struct Words(std::vec::IntoIter<&'static str>);
/// # impl futures_core::Stream for Words {
/// #     type Item = &'static str;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<&'static str>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
/// // `Words` is whatever a client gives: a `Stream` of its chunks.
/// let mut provider = stream_adapter::from_fn(|_: &Request| {
///     let opening = async { Ok(Words(vec!["Hello", " you."].into_iter())) };
///     stream_adapter::chunks(opening, |word, parts| {
///         parts.text("0", word);
///         if word.ends_with('.') {
///             parts.finish("stop");
///         }
///         Ok::<(), Failure>(())
///     })
/// });
/// let mut events = provider.send(&Request::default());
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut last = None;
/// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
///     last = Some(event?);
/// }
/// assert_eq!(last, Some(Event::Finish { reason: "stop".into() }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn from_fn<F, S>(answer: F) -> FromFn<F>
where
    F: FnMut(&Request) -> S + Send,
    S: Stream<Item = Result<Event, Failure>> + Send + 'static,
{
    FromFn(answer)
}

/// A [`Provider`] made by [`from_fn`].
#[derive(Clone, Debug)]
pub struct FromFn<F>(F);

impl<F, S> Provider for FromFn<F>
where
    F: FnMut(&Request) -> S + Send,
    S: Stream<Item = Result<Event, Failure>> + Send + 'static,
{
    fn send(&mut self, request: &Request) -> EventStream {
        Box::pin((self.0)(request))
    }
}

/// Returns the events of a client's stream. `opening` is the client's call, which is awaited when the stream is first
/// polled; `read` describes the contents of each chunk, or returns the failure of the reply.
///
/// Dropping the result drops the call or the stream, and with it the client's transport. The end of the client's
/// stream ends the reply; the reply is complete only if `read` called [`EventBuilder::finish`].
///
/// # Example: a client that yields words
/// ```
/// use std::{future::poll_fn, pin::Pin, task::{Context, Poll}};
/// use ttsr::harness::{Failure, stream_adapter};
/// struct Words(std::vec::IntoIter<&'static str>);
/// impl futures_core::Stream for Words {
///     type Item = &'static str;
///     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<&'static str>> {
///         Poll::Ready(self.0.next())
///     }
/// }
/// let opening = async { Ok(Words(vec!["Hello", " you", "EOF"].into_iter())) };
/// let mut events = stream_adapter::chunks(opening, |word, parts| {
///     match word {
///         "EOF" => parts.finish("stop"),
///         word => parts.text("0", word),
///     }
///     Ok::<(), Failure>(())
/// });
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut text = Vec::new();
/// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
///     if let ttsr::Event::Delta { bytes, .. } = event? {
///         text.extend(bytes);
///     }
/// }
/// assert_eq!(text, b"Hello you");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn chunks<O, S, R>(opening: O, read: R) -> EventStream
where
    O: Future<Output = Result<S, Failure>> + Send + 'static,
    S: Stream + Send + 'static,
    R: FnMut(S::Item, &mut EventBuilder) -> Result<(), Failure> + Send + Unpin + 'static,
{
    Box::pin(AdaptedStream {
        source: ChunkSource::Opening(Box::pin(opening)),
        read,
        parts: EventBuilder::default(),
        failure: None,
    })
}

/// The parts of a reply while it is adapted: chunks in, well-formed events out.
///
/// A part is identified by a key that the adapter chooses, such as an index or an id. The first mention of a key opens
/// the part on the mentioned channel; the part ends with the reply or with [`end`](Self::end). Parts of two channels
/// need two keys. Empty texts make no event.
///
/// # Example: chunks of three kinds
/// ```
/// use std::{future::poll_fn, pin::Pin, task::{Context, Poll}};
/// use ttsr::harness::{Failure, stream_adapter};
/// use ttsr::{Channel, Event};
/// # struct Chunks(std::vec::IntoIter<&'static str>);
/// # impl futures_core::Stream for Chunks {
/// #     type Item = &'static str;
/// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<&'static str>> {
/// #         Poll::Ready(self.0.next())
/// #     }
/// # }
/// let chunks = Chunks(vec!["thinks", "calls", "counts", "ends"].into_iter());
/// let mut events = stream_adapter::chunks(async { Ok(chunks) }, |chunk, parts| {
///     match chunk {
///         "thinks" => parts.reasoning("r", "What time is it?"),
///         "calls" => {
///             parts.end("r");
///             parts.tool("t", "clock", Some("call_1"));
///             parts.input("t", r#"{"zone":"#);
///             parts.input("t", r#""UTC"}"#);
///         }
///         "counts" => {
///             parts.usage(20, 10);
///             parts.event(Event::Unscanned { bytes: 3, kind: "logprobs".into() });
///         }
///         _ => parts.finish("tool_use"),
///     }
///     Ok::<(), Failure>(())
/// });
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut all = Vec::new();
/// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
///     all.push(event?);
/// }
/// let opened = all.iter().filter_map(|event| match event {
///     Event::PartStart { channel, .. } => Some(*channel),
///     _ => None,
/// });
/// assert_eq!(opened.collect::<Vec<_>>(), [Channel::Reasoning, Channel::ToolInput]);
/// assert_eq!(all.last(), Some(&Event::Finish { reason: "tool_use".into() }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct EventBuilder {
    ready: VecDeque<Event>,
    open: HashMap<String, PartId>,
    count: u32,
    is_finished: bool,
}

impl EventBuilder {
    /// Appends text to a part: the text since the last call, not the whole text.
    ///
    /// # Example: two parts at once
    /// ```
    /// use std::future::poll_fn;
    /// use ttsr::harness::{Failure, stream_adapter};
    /// use ttsr::{Event, PartId};
    /// # use std::{pin::Pin, task::{Context, Poll}};
    /// # struct Chunks(std::vec::IntoIter<(&'static str, &'static str)>);
    /// # impl futures_core::Stream for Chunks {
    /// #     type Item = (&'static str, &'static str);
    /// #     fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
    /// #         Poll::Ready(self.0.next())
    /// #     }
    /// # }
    /// let chunks = Chunks(vec![("a", "On"), ("b", "Two"), ("a", "e"), ("b", "")].into_iter());
    /// let mut events = stream_adapter::chunks(async { Ok(chunks) }, |(key, text), parts| {
    ///     parts.text(key, text);
    ///     Ok::<(), Failure>(())
    /// });
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// let mut deltas = Vec::new();
    /// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
    ///     if let Event::Delta { part, bytes } = event? {
    ///         deltas.push((part, String::from_utf8(bytes)?));
    ///     }
    /// }
    /// let expected = [(PartId(0), "On"), (PartId(1), "Two"), (PartId(0), "e")];
    /// assert_eq!(deltas, expected.map(|(part, text)| (part, text.to_owned())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn text(&mut self, key: &str, text: &str) {
        self.delta(key, Channel::Text, text);
    }

    /// Appends reasoning to a part.
    pub fn reasoning(&mut self, key: &str, text: &str) {
        self.delta(key, Channel::Reasoning, text);
    }

    /// Names the tool of a tool call, and its id if it has one. Input may precede it.
    pub fn tool(&mut self, key: &str, tool: &str, call: Option<&str>) {
        let part = self.part(key, Channel::ToolInput);
        self.ready.push_back(Event::Tool {
            part,
            tool: tool.to_owned(),
            call: call.map(str::to_owned),
        });
    }

    /// Appends to the input of a tool call, as the model writes it.
    pub fn input(&mut self, key: &str, input: &str) {
        self.delta(key, Channel::ToolInput, input);
    }

    /// Ends a part. Does nothing if no part with this key is open; the next mention of the key opens another part.
    pub fn end(&mut self, key: &str) {
        if let Some(part) = self.open.remove(key) {
            self.ready.push_back(Event::PartEnd { part });
        }
    }

    /// Reports the tokens that the provider counted.
    pub fn usage(&mut self, input: u64, output: u64) {
        self.ready.push_back(Event::Usage { input, output });
    }

    /// Adds any other event.
    pub fn event(&mut self, event: Event) {
        self.ready.push_back(event);
    }

    /// Ends the reply with all its parts, in the order in which they opened. Later events belong to no reply, so usage
    /// must be reported before.
    pub fn finish(&mut self, reason: &str) {
        if std::mem::replace(&mut self.is_finished, true) {
            return;
        }
        let mut open: Vec<PartId> = self.open.drain().map(|(_, part)| part).collect();
        open.sort_unstable();
        let ends = open.into_iter().map(|part| Event::PartEnd { part });
        self.ready.extend(ends);
        let reason = reason.to_owned();
        self.ready.push_back(Event::Finish { reason });
    }

    fn delta(&mut self, key: &str, channel: Channel, text: &str) {
        if !text.is_empty() {
            let part = self.part(key, channel);
            let bytes = text.as_bytes().to_vec();
            self.ready.push_back(Event::Delta { part, bytes });
        }
    }

    fn part(&mut self, key: &str, channel: Channel) -> PartId {
        if let Some(part) = self.open.get(key) {
            return *part;
        }
        let part = PartId(self.count);
        self.count += 1;
        self.open.insert(key.to_owned(), part);
        self.ready.push_back(Event::PartStart {
            part,
            name: key.to_owned(),
            channel,
            tool: None,
            call: None,
        });
        part
    }
}

enum ChunkSource<S> {
    Opening(Pin<Box<dyn Future<Output = Result<S, Failure>> + Send>>),
    Open(Pin<Box<S>>),
    Over,
}

struct AdaptedStream<S, R> {
    source: ChunkSource<S>,
    read: R,
    parts: EventBuilder,
    /// The failure, which is returned after the events that precede it.
    failure: Option<Failure>,
}

impl<S, R> Stream for AdaptedStream<S, R>
where
    S: Stream,
    R: FnMut(S::Item, &mut EventBuilder) -> Result<(), Failure> + Unpin,
{
    type Item = Result<Event, Failure>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.parts.ready.pop_front() {
                return Poll::Ready(Some(Ok(event)));
            }
            if let Some(failure) = this.failure.take() {
                return Poll::Ready(Some(Err(failure)));
            }
            let polled = match &mut this.source {
                ChunkSource::Over => return Poll::Ready(None),
                ChunkSource::Opening(opening) => match opening.as_mut().poll(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(Ok(chunks)) => {
                        this.source = ChunkSource::Open(Box::pin(chunks));
                        continue;
                    }
                    Poll::Ready(Err(failure)) => Some(Err(failure)),
                },
                ChunkSource::Open(chunks) => match chunks.as_mut().poll_next(cx) {
                    Poll::Pending => return Poll::Pending,
                    Poll::Ready(chunk) => chunk.map(|chunk| (this.read)(chunk, &mut this.parts)),
                },
            };
            match polled {
                Some(Ok(())) => {}
                // The transport is closed before the failure is returned.
                Some(Err(failure)) => {
                    this.source = ChunkSource::Over;
                    this.failure = Some(failure);
                }
                None => this.source = ChunkSource::Over,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::task::Waker;

    /// A stream of given chunks; `alive` shows whether the stream was dropped.
    struct Ready<T> {
        chunks: VecDeque<T>,
        alive: Arc<()>,
    }

    impl<T: Unpin> Stream for Ready<T> {
        type Item = T;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
            assert!(Arc::strong_count(&self.alive) > 0);
            Poll::Ready(self.chunks.pop_front())
        }
    }

    fn next(stream: &mut EventStream) -> Option<Result<Event, Failure>> {
        match stream
            .as_mut()
            .poll_next(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(item) => item,
            Poll::Pending => panic!("all of it is there"),
        }
    }

    fn adapted<R>(chunks: &[&'static str], alive: &Arc<()>, read: R) -> EventStream
    where
        R: FnMut(&'static str, &mut EventBuilder) -> Result<(), Failure> + Send + Unpin + 'static,
    {
        let ready = Ready {
            chunks: chunks.iter().copied().collect(),
            alive: Arc::clone(alive),
        };
        super::chunks(async { Ok(ready) }, read)
    }

    #[test]
    fn parts_open_once_interleave_and_end_in_order() {
        let mut parts = EventBuilder::default();
        parts.text("a", "one");
        parts.input("b", "{");
        parts.tool("b", "read", Some("call_1"));
        parts.text("a", "");
        parts.text("a", "two");
        parts.finish("stop");
        parts.finish("stop");
        let kinds: Vec<String> = parts
            .ready
            .iter()
            .map(|event| match event {
                Event::PartStart { part, name, .. } => format!("start {} {name}", part.0),
                Event::Tool { part, tool, .. } => format!("tool {} {tool}", part.0),
                Event::Delta { part, .. } => format!("delta {}", part.0),
                Event::PartEnd { part } => format!("end {}", part.0),
                other => format!("{other:?}"),
            })
            .collect();
        let expected = [
            "start 0 a",
            "delta 0",
            "start 1 b",
            "delta 1",
            "tool 1 read",
            "delta 0",
            "end 0",
            "end 1",
            "Finish { reason: \"stop\" }",
        ];
        assert_eq!(kinds, expected);
    }

    #[test]
    fn a_key_that_is_used_again_is_a_new_part() {
        let mut parts = EventBuilder::default();
        parts.text("a", "one");
        parts.end("a");
        parts.end("a");
        parts.text("a", "two");
        let opened = parts
            .ready
            .iter()
            .filter(|event| matches!(event, Event::PartStart { .. }));
        assert_eq!(opened.count(), 2);
    }

    #[test]
    fn a_failure_comes_after_what_was_said_and_drops_the_transport() {
        let alive = Arc::new(());
        let mut stream = adapted(&["fine", "broken", "never"], &alive, |chunk, parts| {
            parts.text("0", chunk);
            match chunk {
                "broken" => Err(Failure::new("client", "it broke")),
                _ => Ok(()),
            }
        });
        let mut texts = Vec::new();
        let failure = loop {
            match next(&mut stream) {
                Some(Ok(Event::Delta { bytes, .. })) => {
                    texts.push(String::from_utf8(bytes).unwrap())
                }
                Some(Ok(_)) => {}
                Some(Err(failure)) => break failure,
                None => panic!("the failure was lost"),
            }
        };
        assert_eq!(texts, ["fine", "broken"]);
        assert_eq!(failure.kind(), "client");
        assert_eq!(Arc::strong_count(&alive), 1, "the client's stream is gone");
        assert!(next(&mut stream).is_none());
    }

    #[test]
    fn a_client_that_cannot_open_is_a_failure_and_nothing_opens_unasked() {
        let mut stream = chunks(
            async { Err::<Ready<()>, _>(Failure::new("connect", "nobody there")) },
            |(), _| Ok(()),
        );
        assert_eq!(next(&mut stream).unwrap().unwrap_err().kind(), "connect");
        assert!(next(&mut stream).is_none());
        let opening = async { panic!("opened unasked") };
        drop(chunks::<_, Ready<()>, _>(opening, |(), _| Ok(())));
    }

    #[test]
    fn the_end_of_the_client_is_the_end_without_a_finish() {
        let alive = Arc::new(());
        let mut stream = adapted(&["half"], &alive, |chunk, parts| {
            parts.text("0", chunk);
            Ok(())
        });
        let mut events = Vec::new();
        while let Some(item) = next(&mut stream) {
            events.push(item.unwrap());
        }
        assert_eq!(events.len(), 2);
        assert_eq!(Arc::strong_count(&alive), 1);
    }

    #[test]
    fn a_provider_of_a_function_answers_each_request_with_the_events_of_its_chunks() {
        let alive = Arc::new(());
        let kept = Arc::clone(&alive);
        let mut provider = from_fn(move |request: &Request| {
            let of_model = format!("{}!", request.model);
            adapted(&["thinks", "counts", "ends"], &kept, move |chunk, parts| {
                match chunk {
                    "thinks" => parts.reasoning("r", &of_model),
                    "counts" => {
                        parts.usage(20, 10);
                        parts.event(Event::Unscanned {
                            bytes: 3,
                            kind: "logprobs".into(),
                        });
                    }
                    _ => parts.finish("stop"),
                }
                Ok(())
            })
        });
        for model in ["small", "large"] {
            let mut stream = provider.send(&Request::new(model, Vec::new()));
            let events: Vec<Event> = std::iter::from_fn(|| next(&mut stream))
                .map(Result::unwrap)
                .collect();
            let part = PartId(0);
            let expected = [
                Event::PartStart {
                    part,
                    name: "r".into(),
                    channel: Channel::Reasoning,
                    tool: None,
                    call: None,
                },
                Event::Delta {
                    part,
                    bytes: format!("{model}!").into_bytes(),
                },
                Event::Usage {
                    input: 20,
                    output: 10,
                },
                Event::Unscanned {
                    bytes: 3,
                    kind: "logprobs".into(),
                },
                Event::PartEnd { part },
                Event::Finish {
                    reason: "stop".into(),
                },
            ];
            assert_eq!(events, expected);
        }
    }

    #[test]
    fn a_client_that_opens_or_delivers_later_is_waited_for() {
        let (mut has_opened, mut has_chunk) = (false, false);
        let opening =
            std::future::poll_fn(move |_| match std::mem::replace(&mut has_opened, true) {
                false => Poll::Pending,
                true => Poll::Ready(()),
            });
        let opening = async move {
            opening.await;
            Ok(Later(move || std::mem::replace(&mut has_chunk, true)))
        };
        let mut stream = chunks(opening, |(), parts| {
            parts.finish("stop");
            Ok(())
        });
        let mut context = Context::from_waker(Waker::noop());
        assert!(stream.as_mut().poll_next(&mut context).is_pending());
        assert!(stream.as_mut().poll_next(&mut context).is_pending());
        let last = next(&mut stream);
        assert!(matches!(last, Some(Ok(Event::Finish { .. }))), "{last:?}");
    }

    /// A stream whose next chunk is there once the function returns true.
    struct Later<F>(F);

    impl<F: FnMut() -> bool + Unpin> Stream for Later<F> {
        type Item = ();

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<()>> {
            match (self.0)() {
                false => Poll::Pending,
                true => Poll::Ready(Some(())),
            }
        }
    }
}
