//! Converts the steps of a processor to records, and handles records that cannot be written.

use std::time::Duration;

use super::{Entry, Store, StoreError};
use ttsr::Session;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{Content, End, EventTracker, Message, NotRecorded, Role, Step, TurnRecorder};

/// The handling of records that cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// The conversation continues; see [`SessionRecorder::is_degraded`]. Events are counted, and messages are written once the
    /// disk works again.
    #[default]
    GoOn,
    /// [`SessionRecorder`] returns the error, and the host cancels the reply.
    Stop,
}

/// Records the steps of a [`Processor`](ttsr::harness::Processor) as they happen.
///
/// The entries of a step are one record: a request with its messages, the state of the rules and the event; a decision
/// with the state after it. The model's text is written when a reply is complete, as a message of the conversation.
///
/// # Example: a loop that is recorded
/// ```
/// use ttsr::Pack;
/// use ttsr_agent::store::{OnFailure, SessionRecorder, Store};
/// use ttsr::harness::{
///     Cancel, Hooks, Message, Processor, Request, Run, Scripted, ScriptedReply, Settings, Step,
/// };
/// # let folder = std::env::temp_dir().join(format!("ttsr-recorder-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("talk.ttsr");
/// let pack = Pack::builtin("std/secrets")?;
/// let (store, found) = Store::open(&path)?;
/// let (session, _) = found.session(&pack);
/// let mut recorder = SessionRecorder::new(store, OnFailure::GoOn);
/// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
///
/// let prompt = Message::user("Hi.");
/// recorder.message(&prompt, processor.session())?;
/// let mut messages = found.messages();
/// messages.push(prompt);
/// messages.extend_from_slice(found.waiting());
/// let mut provider = Scripted::new([ScriptedReply::default().text("Hello!").finish("stop")]);
/// let request = Request::new("a-model", messages);
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
/// let began = std::time::Instant::now();
/// while let Some(step) = run.next().await {
///     recorder.step(began.elapsed(), &step, run.session())?;
/// }
/// # Ok::<(), ttsr_agent::store::StoreError>(())
/// # })?;
/// drop(recorder);
/// let (_store, found) = Store::open(&path)?;
/// let said: Vec<String> = found.messages().iter().map(Message::text).collect();
/// assert_eq!(said, ["Hi.", "Hello!"]);
/// # std::fs::remove_dir_all(folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SessionRecorder {
    store: Store,
    on_failure: OnFailure,
    tracker: EventTracker,
    /// Entries that could not be written and are needed to resume.
    backlog: Vec<Entry>,
    /// The events lost since the last record.
    lost: u64,
    /// The events lost in total.
    lost_in_all: u64,
    has_begun: bool,
    /// True while a request is being built: injected messages are part of it.
    is_sending: bool,
    error: Option<StoreError>,
}

impl TurnRecorder for SessionRecorder {
    fn record_step(
        &mut self,
        elapsed: Duration,
        step: &Step,
        session: &Session,
    ) -> Result<(), NotRecorded> {
        self.step(elapsed, step, session).map_err(|_| NotRecorded)
    }

    fn record_message(&mut self, message: &Message, session: &Session) -> Result<(), NotRecorded> {
        self.message(message, session).map_err(|_| NotRecorded)
    }
}

impl SessionRecorder {
    /// Returns a recorder that writes to that file.
    #[must_use]
    pub fn new(store: Store, on_failure: OnFailure) -> SessionRecorder {
        SessionRecorder {
            store,
            on_failure,
            tracker: EventTracker::default(),
            backlog: Vec::new(),
            lost: 0,
            lost_in_all: 0,
            has_begun: false,
            is_sending: false,
            error: None,
        }
    }

    /// Records a message that the host adds to the conversation: a user message, or the result of a tool.
    ///
    /// # Errors
    /// With [`OnFailure::Stop`], if it cannot be written.
    pub fn message(&mut self, message: &Message, session: &Session) -> Result<(), StoreError> {
        let message = message.clone();
        self.write(vec![Entry::Message { message }, snapshot(session)])
    }

    /// Records the start of a turn in one record: the user message, and the guidance that
    /// [waited](super::ResumeState::waiting) when the conversation was resumed and is sent with it.
    ///
    /// # Errors
    /// With [`OnFailure::Stop`], if it cannot be written.
    pub fn prompt(
        &mut self,
        prompt: &Message,
        waiting: &[Message],
        session: &Session,
    ) -> Result<(), StoreError> {
        let messages = [prompt].into_iter().chain(waiting).cloned();
        let mut entries = vec![Entry::Sent];
        entries.extend(messages.map(|message| Entry::Message { message }));
        entries.push(snapshot(session));
        self.write(entries)
    }

    /// Records a step, if it has anything to record. Must be called before the step is carried out, with the session in
    /// its state after the step.
    ///
    /// # Errors
    /// With [`OnFailure::Stop`], if it cannot be written.
    pub fn step(
        &mut self,
        now: Duration,
        step: &Step,
        session: &Session,
    ) -> Result<(), StoreError> {
        self.is_sending = match step {
            Step::Send { .. } => true,
            Step::Observe(LoopEvent::StepStarted) | Step::Aborted(_) | Step::Finish(_) => false,
            _ => self.is_sending,
        };
        let mut entries = self.entries(step);
        let event = self.tracker.track(now, step);
        let is_decided = event.is_some() && !matches!(step, Step::Forward { .. });
        if is_decided || !entries.is_empty() {
            entries.push(snapshot(session));
        }
        entries.extend(event.map(|event| Entry::Event { event }));
        match entries.is_empty() {
            true => Ok(()),
            false => self.write(entries),
        }
    }

    /// Returns true if entries were lost or are not written yet.
    #[must_use]
    pub fn is_degraded(&self) -> bool {
        self.lost > 0 || !self.backlog.is_empty()
    }

    /// Returns the number of lost events in total.
    #[must_use]
    pub fn lost_events(&self) -> u64 {
        self.lost_in_all
    }

    /// Returns the first error, with [`OnFailure::Stop`].
    #[must_use]
    pub fn error(&self) -> Option<&StoreError> {
        self.error.as_ref()
    }

    /// Returns the file. Entries that are not written yet are lost.
    ///
    /// # Example: the end of a conversation
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::Message;
    /// use ttsr_agent::store::{OnFailure, SessionRecorder, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-over-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let (store, _) = Store::open(&path)?;
    /// let mut recorder = SessionRecorder::new(store, OnFailure::GoOn);
    /// recorder.message(&Message::user("Bye."), &Pack::builder().build()?.session())?;
    /// assert!(!recorder.is_degraded(), "all entries are written");
    /// let mut store = recorder.into_store();
    /// store.compact()?;
    /// store.close()?;
    /// let (_store, found) = Store::open(&path)?;
    /// assert_eq!(found.messages(), [Message::user("Bye.")]);
    /// # std::fs::remove_file(path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn into_store(self) -> Store {
        self.store
    }

    fn write(&mut self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let mut all = std::mem::take(&mut self.backlog);
        if !self.has_begun {
            let version = env!("CARGO_PKG_VERSION").to_owned();
            all.insert(0, Entry::Begin { version });
        }
        if self.lost > 0 {
            all.push(Entry::Lost { events: self.lost });
        }
        all.extend(entries);
        match self.store.append(all.clone()) {
            Ok(_) => {
                (self.lost, self.has_begun) = (0, true);
                Ok(())
            }
            Err(error) => {
                self.keep_for_retry(all);
                match self.on_failure {
                    OnFailure::GoOn => Ok(()),
                    OnFailure::Stop => {
                        let again = error.duplicate();
                        self.error.get_or_insert(error);
                        Err(again)
                    }
                }
            }
        }
    }

    /// Keeps the entries needed to resume: every message, and the last state of the rules.
    fn keep_for_retry(&mut self, entries: Vec<Entry>) {
        let latest = entries
            .iter()
            .rposition(|entry| matches!(entry, Entry::Snapshot { .. }));
        for (place, entry) in entries.into_iter().enumerate() {
            match entry {
                Entry::Event { .. } => {
                    self.lost += 1;
                    self.lost_in_all += 1;
                }
                Entry::Snapshot { .. } if Some(place) != latest => {}
                Entry::Begin { .. } | Entry::Lost { .. } => {}
                entry => self.backlog.push(entry),
            }
        }
    }

    /// Returns the entries of a step that belong to the conversation.
    fn entries(&self, step: &Step) -> Vec<Entry> {
        let added = |message: &Message| Entry::Message {
            message: message.clone(),
        };
        match step {
            Step::Send { messages, .. } => {
                let sent = [Entry::Sent].into_iter();
                sent.chain(messages.iter().map(added)).collect()
            }
            // From a rule that read the user's message: it is already part of the request.
            Step::Inject { message, .. } if self.is_sending => vec![added(message)],
            Step::Inject { message, .. } => vec![Entry::Waiting {
                message: message.clone(),
            }],
            Step::ToolResult {
                call,
                output,
                is_error,
                ..
            } => vec![Entry::Message {
                message: Message {
                    role: Role::Tool,
                    content: vec![Content::ToolResult {
                        call: call.clone(),
                        output: output.clone(),
                        is_error: *is_error,
                    }],
                },
            }],
            Step::Finish(outcome) if !matches!(outcome.end, End::Aborted { .. }) => {
                let message = Message::reply(&outcome.reply);
                let is_said = !message.content.is_empty();
                is_said
                    .then_some(Entry::Message { message })
                    .into_iter()
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

fn snapshot(session: &Session) -> Entry {
    Entry::Snapshot {
        snapshot: Box::new(session.snapshot()),
    }
}
