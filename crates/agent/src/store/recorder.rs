//! Converts the steps of a processor to records, and handles records that cannot be written.

use std::time::Duration;

use super::{Entry, Store, StoreError};
use ttsr::Conversation;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    AbortStage, Content, End, EventTracker, Message, NotRecorded, Role, Step, TurnRecorder,
};

/// The handling of records that cannot be written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OnFailure {
    /// The conversation continues; see [`SessionRecorder::is_degraded`]. Events are counted, and messages are written once the
    /// disk works again.
    #[default]
    Continue,
    /// [`SessionRecorder`] returns the error, and the host cancels the reply.
    Stop,
}

/// Records the steps of a [`Processor`](ttsr::harness::Processor) as they happen.
///
/// The entries of a step are one record: a message or a decision with the state of the conversation after it. The state
/// contains the guidance that waits. The messages that the loop adds to a request are written once the request is sent;
/// until then the file has their guidance in the state. The model's text is written when a reply is complete, as a
/// message of the conversation.
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
/// let (conversation, _) = found.conversation(&pack);
/// let mut recorder = SessionRecorder::new(store, OnFailure::Continue);
/// let mut processor = Processor::new(conversation, Hooks::default(), Settings::default());
///
/// let prompt = Message::user("Hi.");
/// recorder.message(&prompt, processor.conversation())?;
/// let mut messages = found.messages();
/// messages.push(prompt);
/// let mut provider = Scripted::new([ScriptedReply::default().text("Hello!").finish("stop")]);
/// let request = Request::new("a-model", messages);
/// # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// # runtime.block_on(async {
/// let mut run = Run::begin(&mut processor, &mut provider, request, "msg_1", Cancel::default());
/// let began = std::time::Instant::now();
/// while let Some(step) = run.next().await {
///     recorder.step(began.elapsed(), &step, run.conversation())?;
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
    /// The messages added to a request that is not sent yet; `None` while no request is in preparation.
    unsent: Option<Vec<Message>>,
    error: Option<StoreError>,
}

impl TurnRecorder for SessionRecorder {
    fn record_step(
        &mut self,
        elapsed: Duration,
        step: &Step,
        conversation: &Conversation,
    ) -> Result<(), NotRecorded> {
        self.step(elapsed, step, conversation)
            .map_err(|_| NotRecorded)
    }

    fn record_message(
        &mut self,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<(), NotRecorded> {
        self.message(message, conversation).map_err(|_| NotRecorded)
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
            unsent: None,
            error: None,
        }
    }

    /// Records a message that the host adds to the conversation: a user message, or the result of a tool.
    ///
    /// # Errors
    /// With [`OnFailure::Stop`], if it cannot be written.
    pub fn message(
        &mut self,
        message: &Message,
        conversation: &Conversation,
    ) -> Result<(), StoreError> {
        let message = message.clone();
        self.write(vec![Entry::Message { message }, snapshot(conversation)])
    }

    /// Records a step, if it has anything to record. Must be called before the step is carried out, with the
    /// conversation in its state after the step.
    ///
    /// # Errors
    /// With [`OnFailure::Stop`], if it cannot be written.
    pub fn step(
        &mut self,
        now: Duration,
        step: &Step,
        conversation: &Conversation,
    ) -> Result<(), StoreError> {
        let mut entries = self.request_entries(step);
        entries.extend(added_message(step).map(|message| Entry::Message { message }));
        let event = self.tracker.track(now, step);
        let is_decided = event.is_some() && !matches!(step, Step::Forward { .. });
        let changes_guidance = matches!(step, Step::Inject { .. });
        // A driver may have sent the request before its steps are recorded. Its state no longer has the guidance that
        // the request carries, which must not be written before the messages are.
        let is_written = self.unsent.is_none();
        if is_written && (is_decided || changes_guidance || !entries.is_empty()) {
            entries.push(snapshot(conversation));
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
    /// use ttsr::{Conversation, Pack};
    /// use ttsr::harness::Message;
    /// use ttsr_agent::store::{OnFailure, SessionRecorder, Store};
    /// let path = std::env::temp_dir().join(format!("ttsr-over-{}.ttsr", std::process::id()));
    /// # std::fs::remove_file(&path).ok();
    /// let (store, _) = Store::open(&path)?;
    /// let mut recorder = SessionRecorder::new(store, OnFailure::Continue);
    /// recorder.message(&Message::user("Bye."), &Conversation::new(&Pack::builder().build()?))?;
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
                    OnFailure::Continue => Ok(()),
                    OnFailure::Stop => {
                        let again = error.duplicate();
                        self.error.get_or_insert(error);
                        Err(again)
                    }
                }
            }
        }
    }

    /// Keeps the entries needed to resume: every message, and the last state of the conversation.
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

    /// Collects the messages of a request in preparation. Returns them as entries once the request is sent.
    fn request_entries(&mut self, step: &Step) -> Vec<Entry> {
        match step {
            Step::Send { messages, .. } => {
                self.unsent = Some(messages.clone());
                return Vec::new();
            }
            // From a rule that read the user's message: it is part of the request.
            Step::Inject { message, .. } => {
                if let Some(messages) = &mut self.unsent {
                    messages.push(message.clone());
                }
                return Vec::new();
            }
            // A request that was refused or cancelled was not sent, and its guidance waits again.
            Step::Aborted(aborted) if aborted.stage == AbortStage::Request => {
                self.unsent = None;
            }
            Step::Finish(_) => self.unsent = None,
            // A request that failed is sent, too.
            Step::Observe(LoopEvent::StepStarted) | Step::Aborted(_) => {}
            _ => return Vec::new(),
        }
        let sent = self.unsent.take().unwrap_or_default().into_iter();
        sent.map(|message| Entry::Message { message }).collect()
    }
}

/// Returns the message that a step adds to the conversation between requests.
fn added_message(step: &Step) -> Option<Message> {
    match step {
        Step::ToolResult {
            call,
            output,
            is_error,
            ..
        } => Some(Message {
            role: Role::Tool,
            content: vec![Content::ToolResult {
                call: call.clone(),
                output: output.clone(),
                is_error: *is_error,
            }],
        }),
        Step::Finish(outcome) if !matches!(outcome.end, End::Aborted { .. }) => {
            let message = Message::reply(&outcome.reply);
            (!message.content.is_empty()).then_some(message)
        }
        _ => None,
    }
}

fn snapshot(conversation: &Conversation) -> Entry {
    Entry::Snapshot {
        snapshot: Box::new(conversation.snapshot()),
    }
}
