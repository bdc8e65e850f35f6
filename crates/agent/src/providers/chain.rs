//! A chain of models: if one cannot answer, the next one is asked.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::endpoint::{NoticeCallback, ProviderNotice};
use super::retry::is_transient;
use ttsr::Event;
use ttsr::harness::Request;
use ttsr::harness::{EventStream, Failure, Provider, unfold};

/// The most events that are buffered before a reply begins.
const MAX_HELD: usize = 1_000;

/// The default of [`Chain::cooldown`].
const REST: Duration = Duration::from_secs(5);

/// A [`Provider`] that asks its first model, and the next one if that cannot answer: after a rate limit, an overload, a
/// failure of the server or of the connection, and if the model is unknown or its quota is spent. An invalid request is
/// not retried, because every model would refuse it.
///
/// A model is replaced only before any event of its reply was returned, and each model is asked once per request. A
/// model that failed is skipped for as long as its provider asks (5 s if it does not say), unless all models are
/// skipped.
///
/// The first model is the one that the request names, so that a rule can choose another one.
///
/// # Example: two models
/// ```
/// use ttsr::harness::{Failure, Request, Scripted, ScriptedReply};
/// use ttsr_agent::providers::Chain;
/// let busy = Scripted::new([ScriptedReply::default().fail(Failure::new("http", "busy").with_status(529))]);
/// let good = Scripted::new([ScriptedReply::default().text("Hello.").finish("stop")]);
/// let chain = Chain::new(busy).then("small-model", good);
/// assert_eq!(chain.models(), ["", "small-model"]);
/// ```
pub struct Chain {
    links: Vec<ChainLink>,
    /// The time until which each link is skipped.
    resting: Arc<Mutex<Vec<Option<Instant>>>>,
    rest: Duration,
    watch: Option<NoticeCallback>,
}

struct ChainLink {
    /// Empty for the first link, whose model the request names.
    model: String,
    provider: Box<dyn Provider + Sync>,
}

impl Chain {
    /// Returns a chain that asks this provider first.
    pub fn new(first: impl Provider + Sync + 'static) -> Chain {
        let chain = Chain {
            links: Vec::new(),
            resting: Arc::default(),
            rest: REST,
            watch: None,
        };
        chain.then("", first)
    }

    /// Appends a model, which is asked if the previous ones cannot answer.
    #[must_use]
    pub fn then(
        mut self,
        model: impl Into<String>,
        provider: impl Provider + Sync + 'static,
    ) -> Chain {
        self.links.push(ChainLink {
            model: model.into(),
            provider: Box::new(provider),
        });
        lock(&self.resting).push(None);
        self
    }

    /// Sets the time for which a failed model is skipped if its provider does not ask for one. Default 5 s.
    ///
    /// # Example: a failed model is skipped
    /// ```
    /// use std::{future::poll_fn, time::Duration};
    /// use ttsr_agent::providers::Chain;
    /// use ttsr::harness::{Failure, Provider, Request, Scripted, ScriptedReply};
    /// let busy = Scripted::new([ScriptedReply::default().fail(Failure::new("http", "busy").with_status(529))]);
    /// let good = Scripted::new([ScriptedReply::default().text("Hello.").finish("stop")]);
    /// let mut chain = Chain::new(busy.clone()).then("small-model", good.clone()).cooldown(Duration::from_secs(60));
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
    pub fn cooldown(self, cooldown: Duration) -> Chain {
        Chain {
            rest: cooldown,
            ..self
        }
    }

    /// Calls `watch` when the next model is asked.
    ///
    /// # Example: the second model answers
    /// ```
    /// use std::future::poll_fn;
    /// use std::sync::{Arc, Mutex};
    /// use std::time::Duration;
    /// use ttsr_agent::providers::{Chain, ProviderNotice};
    /// use ttsr::harness::{Failure, Provider, Request, ScriptedReply, Scripted};
    /// let busy = Scripted::new([ScriptedReply::default().fail(Failure::new("http", "busy").with_status(529))]);
    /// let good = Scripted::new([ScriptedReply::default().text("Hello.").finish("stop")]);
    /// let asked = Arc::new(Mutex::new(Vec::new()));
    /// let seen = Arc::clone(&asked);
    /// let mut chain = Chain::new(busy).then("small-model", good).cooldown(Duration::from_secs(60)).watch(
    ///     move |notice| {
    ///         if let ProviderNotice::FallingBack { to, .. } = notice {
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
    pub fn watch(mut self, watch: impl Fn(&ProviderNotice) + Send + Sync + 'static) -> Chain {
        self.watch = Some(Arc::new(watch));
        self
    }

    /// Returns the models in order; the first is empty, because each request names it.
    #[must_use]
    pub fn models(&self) -> Vec<&str> {
        self.links.iter().map(|link| link.model.as_str()).collect()
    }

    /// Returns the links to ask, in order: those that are not skipped, or all if all are.
    fn available(&self) -> Vec<usize> {
        let now = Instant::now();
        let resting = lock(&self.resting);
        let is_available = |index: &usize| resting[*index].is_none_or(|until| until <= now);
        let available: Vec<usize> = (0..self.links.len()).filter(is_available).collect();
        match available.is_empty() {
            true => (0..self.links.len()).collect(),
            false => available,
        }
    }
}

impl Provider for Chain {
    fn send(&mut self, request: &Request) -> EventStream {
        // A stream connects when it is first polled, so unused streams cost nothing.
        let mut streams = VecDeque::new();
        for index in self.available() {
            let link = &mut self.links[index];
            let mut request = request.clone();
            if !link.model.is_empty() {
                request.model.clone_from(&link.model);
            }
            streams.push_back(ChainAttempt {
                index,
                stream: link.provider.send(&request),
                model: request.model,
            });
        }
        let trying = ChainReply {
            streams,
            held: VecDeque::new(),
            has_begun: false,
            resting: Arc::clone(&self.resting),
            rest: self.rest,
            watch: self.watch.clone(),
        };
        unfold(trying, ChainReply::next)
    }
}

impl fmt::Debug for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Chain").field(&self.models()).finish()
    }
}

struct ChainAttempt {
    index: usize,
    model: String,
    stream: EventStream,
}

/// The reply of the first model that begins one.
struct ChainReply {
    /// The current attempt, and those after it.
    streams: VecDeque<ChainAttempt>,
    held: VecDeque<Event>,
    has_begun: bool,
    resting: Arc<Mutex<Vec<Option<Instant>>>>,
    rest: Duration,
    watch: Option<NoticeCallback>,
}

impl ChainReply {
    async fn next(mut self) -> Option<(Result<Event, Failure>, ChainReply)> {
        loop {
            if self.has_begun
                && let Some(event) = self.held.pop_front()
            {
                return Some((Ok(event), self));
            }
            let asked = self.streams.front_mut()?;
            let item = poll_fn(|cx| asked.stream.as_mut().poll_next(cx)).await;
            let failure = match item {
                // The reply was cut off; the caller detects that by the missing end.
                None if self.has_begun => return None,
                None => Failure::new("cut-off", "the reply ended before it began"),
                Some(Ok(Event::Error { kind, message })) if !self.has_begun => {
                    Failure::new(kind, message)
                }
                Some(Ok(event)) => {
                    self.has_begun |= self.held.len() >= MAX_HELD
                        || !matches!(event, Event::Usage { .. } | Event::Unscanned { .. });
                    self.held.push_back(event);
                    continue;
                }
                Some(Err(failure)) if self.has_begun => return Some((Err(failure), self)),
                Some(Err(failure)) => failure,
            };
            if !self.advance(&failure) {
                self.streams.clear();
                return Some((Err(failure), self));
            }
        }
    }

    /// Advances to the next model; returns false if the failure is not about the model or there is no other model.
    fn advance(&mut self, failure: &Failure) -> bool {
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
            watch(&ProviderNotice::FallingBack {
                failure: failure.clone(),
                from: failed.model,
                to: next.model.clone(),
            });
        }
        true
    }
}

/// Returns true if another model may succeed after this failure.
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
