//! Models one after the other: where one cannot answer, the next is asked.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::{Notice, Watch};
use super::retry::is_transient;
use ttsr::Event;
use ttsr::harness::Request;
use ttsr::harness::{EventStream, Failure, Provider, unfold};

/// Most events that are held back before a reply begins.
const MOST_HELD: usize = 1_000;

/// See [`Chain::rest`].
const REST: Duration = Duration::from_secs(5);

/// A [`Provider`] that asks its first model, and the next one where that cannot answer: after a rate
/// limit, an overload, a failure of the server or of the way to it, and where the model is not known or
/// its quota is spent. A request that is wrong is wrong for all of them, so it is not tried further.
///
/// Only what failed before anything of a reply was given out is tried elsewhere; each model is tried once
/// a request, so there is no loop. A model that failed is left alone for as long as its provider asks
/// (5 s where it does not say), unless all of them are.
///
/// The first model is asked under the name in the request, so that a rule can choose another one.
///
/// # Example: two models
/// ```
/// use ttsr::harness::{Failure, Request, Script, Scripted};
/// use ttsr_agent::providers::Chain;
/// let busy = Scripted::new([Script::default().fail(Failure::new("http", "busy").with_status(529))]);
/// let good = Scripted::new([Script::default().text("Hello.").finish("stop")]);
/// let chain = Chain::new(busy).then("small-model", good);
/// assert_eq!(chain.models(), ["", "small-model"]);
/// ```
pub struct Chain {
    links: Vec<Link>,
    /// Until when a link is left alone.
    resting: Arc<Mutex<Vec<Option<Instant>>>>,
    rest: Duration,
    watch: Option<Watch>,
}

struct Link {
    /// Empty for the first one: the request names it.
    model: String,
    provider: Box<dyn Provider + Sync>,
}

impl Chain {
    /// Asks that provider first.
    pub fn new(first: impl Provider + Sync + 'static) -> Chain {
        let chain = Chain {
            links: Vec::new(),
            resting: Arc::default(),
            rest: REST,
            watch: None,
        };
        chain.then("", first)
    }

    /// Asks that model of that provider where those before cannot answer.
    #[must_use]
    pub fn then(
        mut self,
        model: impl Into<String>,
        provider: impl Provider + Sync + 'static,
    ) -> Chain {
        self.links.push(Link {
            model: model.into(),
            provider: Box::new(provider),
        });
        lock(&self.resting).push(None);
        self
    }

    /// How long a model is left alone that failed and did not say for how long. Default 5 s.
    ///
    /// # Example: a model that failed is not asked again at once
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::Chain;
    /// use ttsr::harness::{Failure, Provider, Request, Script, Scripted};
    /// let busy = Scripted::new([Script::default().fail(Failure::new("http", "busy").with_status(529))]);
    /// let good = Scripted::new([Script::default().text("Hello.").finish("stop")]);
    /// let mut chain = Chain::new(busy.clone()).then("small-model", good.clone()).rest(Duration::from_secs(60));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// for _ in 0..3 {
    ///     let mut events = chain.send(&Request::new("large-model", Vec::new()));
    ///     while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
    ///         event?;
    ///     }
    /// }
    /// assert_eq!((busy.requests().len(), good.requests().len()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn rest(self, rest: Duration) -> Chain {
        Chain { rest, ..self }
    }

    /// Tells `watch` when the next model is asked.
    ///
    /// # Example: the second model answers
    /// ```
    /// use std::future::poll_fn;
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use ttsr_agent::providers::{Chain, Notice};
    /// use ttsr::harness::{Failure, Provider, Request, Script, Scripted};
    /// let busy = Scripted::new([Script::default().fail(Failure::new("http", "busy").with_status(529))]);
    /// let good = Scripted::new([Script::default().text("Hello.").finish("stop")]);
    /// let asked = Arc::new(Mutex::new(Vec::new()));
    /// let seen = Arc::clone(&asked);
    /// let mut chain = Chain::new(busy).then("small-model", good).rest(Duration::from_secs(60)).watch(
    ///     move |notice| {
    ///         if let Notice::FallingBack { to, .. } = notice {
    ///             seen.lock().unwrap().push(to.clone());
    ///         }
    ///     },
    /// );
    /// let mut events = chain.send(&Request::new("large-model", Vec::new()));
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// while let Some(event) = runtime.block_on(poll_fn(|cx| events.as_mut().poll_next(cx))) {
    ///     event?;
    /// }
    /// assert_eq!(*asked.lock().unwrap(), ["small-model"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn watch(mut self, watch: impl Fn(&Notice) + Send + Sync + 'static) -> Chain {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// The models in their order; the first is named by each request.
    #[must_use]
    pub fn models(&self) -> Vec<&str> {
        self.links.iter().map(|link| link.model.as_str()).collect()
    }

    /// Which links to ask, in their order: those that rest are left out, unless all do.
    fn awake(&self) -> Vec<usize> {
        let now = Instant::now();
        let resting = lock(&self.resting);
        let is_awake = |index: &usize| resting[*index].is_none_or(|until| until <= now);
        let awake: Vec<usize> = (0..self.links.len()).filter(is_awake).collect();
        match awake.is_empty() {
            true => (0..self.links.len()).collect(),
            false => awake,
        }
    }
}

impl Provider for Chain {
    fn send(&mut self, request: &Request) -> EventStream {
        // No stream connects before it is polled, so those that are not needed cost nothing.
        let mut streams = VecDeque::new();
        for index in self.awake() {
            let link = &mut self.links[index];
            let mut request = request.clone();
            if !link.model.is_empty() {
                request.model.clone_from(&link.model);
            }
            streams.push_back(Asked {
                index,
                stream: link.provider.send(&request),
                model: request.model,
            });
        }
        let trying = Trying {
            streams,
            held: VecDeque::new(),
            has_begun: false,
            resting: Arc::clone(&self.resting),
            rest: self.rest,
            watch: self.watch.clone(),
        };
        unfold(trying, Trying::next)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.models()).finish()
    }
}

struct Asked {
    index: usize,
    model: String,
    stream: EventStream,
}

/// A reply of the first model that gives one.
struct Trying {
    /// The one that is asked, and those after it.
    streams: VecDeque<Asked>,
    held: VecDeque<Event>,
    has_begun: bool,
    resting: Arc<Mutex<Vec<Option<Instant>>>>,
    rest: Duration,
    watch: Option<Watch>,
}

impl Trying {
    async fn next(mut self) -> Option<(Result<Event, Failure>, Trying)> {
        loop {
            if self.has_begun
                && let Some(event) = self.held.pop_front()
            {
                return Some((Ok(event), self));
            }
            let asked = self.streams.front_mut()?;
            let item = poll_fn(|cx| asked.stream.as_mut().poll_next(cx)).await;
            let failure = match item {
                // Cut off, which whoever reads this stream sees by its end.
                None if self.has_begun => return None,
                None => Failure::new("cut-off", "the reply ended before it began"),
                Some(Ok(Event::Error { kind, message })) if !self.has_begun => {
                    Failure::new(kind, message)
                }
                Some(Ok(event)) => {
                    self.has_begun |= self.held.len() >= MOST_HELD
                        || !matches!(event, Event::Usage { .. } | Event::Unscanned { .. });
                    self.held.push_back(event);
                    continue;
                }
                Some(Err(failure)) if self.has_begun => return Some((Err(failure), self)),
                Some(Err(failure)) => failure,
            };
            if !self.falls_back(&failure) {
                self.streams.clear();
                return Some((Err(failure), self));
            }
        }
    }

    /// Goes on to the next model, if it may answer and there is one.
    fn falls_back(&mut self, failure: &Failure) -> bool {
        if !is_about_the_model(failure) {
            return false;
        }
        let Some(failed) = self.streams.pop_front() else {
            return false;
        };
        let rest = failure.retry_after().unwrap_or(self.rest);
        lock(&self.resting)[failed.index] = Instant::now().checked_add(rest);
        self.held.clear();
        let Some(next) = self.streams.front() else {
            return false;
        };
        if let Some(watch) = &self.watch {
            watch(&Notice::FallingBack {
                failure: failure.clone(),
                from: failed.model,
                to: next.model.clone(),
            });
        }
        true
    }
}

/// Whether another model may answer what this one could not.
fn is_about_the_model(failure: &Failure) -> bool {
    const KINDS: [&str; 4] = [
        "insufficient_quota",
        "model_not_found",
        "not_found_error",
        "protocol",
    ];
    is_transient(failure) || failure.status() == Some(404) || KINDS.contains(&failure.kind())
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
