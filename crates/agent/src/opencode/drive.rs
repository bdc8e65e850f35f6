//! Connects a [`SessionWatcher`] to a server: reads the events, performs the actions, and reconnects.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::{
    ActionJournal, ActionStage, JournalEntry, JournaledContinuation, another_watcher,
};
use super::perform::{
    ActionLog, ActionOutcome, StopControl, continuation, perform, resume, resume_files,
};
use super::server::{Server, ServerApi, segment};
use super::watch::{ServerAction, SessionWatcher, StopAction, WatchEvent};
use crate::handoff::{HandoffTracker, IncomingMessage, Injection, ProjectFiles};
use ttsr::harness::HANDOFF_MARKER;
use ttsr::harness::{Cancel, Content, Failure, Message};
use ttsr_wire::opencode::ServerNotice;

/// The waits between attempts to connect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait. Default 250 ms.
    pub first: Duration,
    /// The longest wait; each wait is twice the previous one. Default 30 seconds.
    pub longest: Duration,
    /// The most attempts in a row. Default `None`: unlimited.
    pub tries: Option<u32>,
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff {
            first: Duration::from_millis(250),
            longest: Duration::from_secs(30),
            tries: None,
        }
    }
}

impl Backoff {
    /// Returns the wait after the given number of attempts in a row, from 0.
    fn wait(&self, tries: u32) -> Duration {
        let factor = 1_u32.checked_shl(tries.min(31)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// The options of [`watch`].
#[derive(Debug)]
pub struct WatchOptions {
    /// The waits after a broken connection.
    pub backoff: Backoff,
    /// The time that actions wait after each connection for the answer of another watcher. Default 300 ms; with 0 actions
    /// start at once, and a later answer still ends this watcher.
    pub grace: Duration,
    /// The journal of actions in progress. Default `None`.
    pub journal: Option<ActionJournal>,
}

impl Default for WatchOptions {
    fn default() -> WatchOptions {
        WatchOptions {
            backoff: Backoff::default(),
            grace: Duration::from_millis(300),
            journal: None,
        }
    }
}

impl From<Backoff> for WatchOptions {
    fn from(backoff: Backoff) -> WatchOptions {
        WatchOptions {
            backoff,
            ..WatchOptions::default()
        }
    }
}

/// Applies the rules of `watch` to everything that happens on `server`, until `cancel` is set. `report` receives the
/// observations in order.
///
/// A [`SessionWatcher`] that is not a [dry run](SessionWatcher::dry_run) acts only if no other one acts on the server. On the classic
/// interface each watcher announces itself with a `tui.command.execute` event; a watcher that already acts answers, and
/// the newcomer fails. Actions of the journal that were not completed are completed after the connection, unless the user
/// has continued the session.
///
/// Actions run concurrently with the event stream, so that a slow stop of one session does not delay the others; the
/// actions of one session run in order. When the connection breaks, replies in progress are dropped; events of them that
/// arrive after the next connection are read as they come.
///
/// # Errors
/// If the server responds with a status of 4xx, or cannot be reached in as many attempts as the backoff allows; of the
/// kind `taken` if another watcher acts on the server.
///
/// # Panics
/// If it is polled outside of a tokio runtime with I/O and time enabled.
///
/// # Example: two attempts to reach a server that does not run
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::Cancel;
/// use ttsr_agent::opencode::{ServerApi, Backoff, WatchEvent, Server, SessionWatcher, watch};
/// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let server = Server::new(&format!("http://{free}"), ServerApi::Classic)?;
/// let mut rules = SessionWatcher::new(Pack::builtin("std/secrets")?, ServerApi::Classic);
/// let first = Duration::from_millis(1);
/// let backoff = Backoff { first, tries: Some(2), ..Backoff::default() };
/// let mut seen = Vec::new();
/// let report = |event: &WatchEvent| seen.push(event.clone());
/// let watching = watch(&server, &mut rules, backoff, Cancel::default(), report);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// assert!(runtime.block_on(watching).is_err());
/// assert!(matches!(seen[..], [WatchEvent::Disconnected { retry_in_ms: 1, .. }]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn watch(
    server: &Server,
    watch: &mut SessionWatcher,
    watching: impl Into<WatchOptions>,
    cancel: Cancel,
    mut report: impl FnMut(&WatchEvent),
) -> Result<(), Failure> {
    let WatchOptions {
        backoff,
        grace,
        journal,
    } = watching.into();
    let mut driver = WatchDriver {
        server,
        // Random, so that two watchers have the same name with a probability of 2^-64.
        name: format!("{:016x}", RandomState::new().hash_one(())),
        grace,
        began: Instant::now(),
        log: ActionLog::new(journal),
        handoffs: Arc::default(),
        queue: ActionQueue::default(),
        tasks: JoinSet::new(),
        is_settled: false,
    };
    let ended = driver.run(watch, backoff, &cancel, &mut report).await;
    // Actions in progress hold the journal open until they are dropped.
    driver.queue.running.shutdown().await;
    ended
}

/// Returns true if another attempt would be refused too.
fn is_refusal(failure: &Failure) -> bool {
    let status: Result<u16, _> = failure.kind().parse();
    let is_status =
        matches!(status, Ok(400..=499)) && failure.kind() != "429" && failure.kind() != "408";
    is_status || failure.kind() == "taken"
}

/// The command that asks whether another watcher acts on the server.
const HELLO: &str = "ttsr.watch.hello.";

/// The answer, followed by the name of the watcher that acts, a dot, and the name of the watcher that asked.
const HERE: &str = "ttsr.watch.here.";

struct WatchDriver<'a> {
    server: &'a Server,
    /// The name of this watcher among those on the server.
    name: String,
    grace: Duration,
    began: Instant,
    log: ActionLog,
    handoffs: Arc<Mutex<HandoffTracker>>,
    queue: ActionQueue,
    tasks: JoinSet<BackgroundTask>,
    /// True once the time for answers of other watchers has passed without one.
    is_settled: bool,
}

/// The result of a request that is not an action.
enum BackgroundTask {
    Announced,
    Described {
        session: String,
        parent: Option<String>,
        directory: Option<String>,
    },
    Continued {
        session: String,
        injection: Option<Injection>,
    },
    /// A continuation begun by an earlier process, with the files of its prompt.
    Resumed {
        entry: JournaledContinuation,
        injection: Injection,
    },
}

impl WatchDriver<'_> {
    /// Connects until it is cancelled, refused, or out of attempts.
    async fn run(
        &mut self,
        watch: &mut SessionWatcher,
        backoff: Backoff,
        cancel: &Cancel,
        report: &mut impl FnMut(&WatchEvent),
    ) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            let heard = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                heard = self.serve_connection(watch, &mut tries, report) => heard,
            };
            let failure = match heard {
                Err(failure) if is_refusal(&failure) => return Err(failure),
                Err(failure) => failure,
                Ok(()) => Failure::new("closed", "the server closed the event stream"),
            };
            if backoff.tries.is_some_and(|most| tries + 1 >= most) {
                return Err(failure);
            }
            let wait = backoff.wait(tries);
            tries += 1;
            report(&WatchEvent::Disconnected {
                why: failure.to_string(),
                retry_in_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = sleep(wait) => {}
            }
        }
    }

    /// Serves one connection until it ends.
    async fn serve_connection(
        &mut self,
        watch: &mut SessionWatcher,
        tries: &mut u32,
        report: &mut impl FnMut(&WatchEvent),
    ) -> Result<(), Failure> {
        let mut events = self.server.events().await?;
        *tries = 0;
        report(&WatchEvent::Connected);
        let is_active = !watch.is_dry();
        self.is_settled = !is_active || self.grace.is_zero();
        let settled = Instant::now() + self.grace;
        if is_active {
            self.announce(format!("{HELLO}{}", self.name));
            self.queue_pending(watch, report);
        }
        loop {
            if self.is_settled {
                self.queue.start(self.server, watch);
            }
            tokio::select! {
                biased;
                Some(done) = self.queue.running.join_next() => {
                    if let Ok((action, done)) = done {
                        self.queue.release(action.session());
                        report_outcome(watch, action, done, report);
                    }
                }
                Some(task) = self.tasks.join_next() => {
                    if let Ok(task) = task {
                        self.finish(watch, task, report);
                    }
                }
                next = events.next() => match next {
                    Ok(Some((_, ServerNotice::Command(command)))) if is_active => self.on_command(&command)?,
                    Ok(Some((session, notice))) => {
                        watch.tick(self.began.elapsed());
                        self.inject_files(watch, &session, &notice);
                        let mut seen = Vec::new();
                        watch.notice(&session, notice, &mut seen);
                        self.describe(watch, &session);
                        self.queue.update(watch, &session);
                        for seen in seen {
                            // Recorded before it is reported: if the process ends in between, the action is
                            // still completed.
                            if let WatchEvent::Started(action) = &seen {
                                self.begin(action.clone(), report);
                            }
                            report(&seen);
                        }
                    }
                    end => {
                        // Actions that have begun are completed: the server may be reachable although the event
                        // stream broke.
                        self.queue.start(self.server, watch);
                        while let Some(done) = self.queue.running.join_next().await {
                            if let Ok((action, done)) = done {
                                self.queue.release(action.session());
                                report_outcome(watch, action, done, report);
                            }
                            self.queue.start(self.server, watch);
                        }
                        return end.map(drop);
                    }
                },
                () = sleep_until(settled), if !self.is_settled => self.is_settled = true,
            }
        }
    }

    /// Queues an action. It is recorded first, so that it is completed even if this process ends now.
    fn begin(&mut self, action: ServerAction, report: &mut impl FnMut(&WatchEvent)) {
        let log = self.log.begin(&action).unwrap_or_else(|why| {
            report(&WatchEvent::NoJournal { why });
            ActionLog::default()
        });
        self.queue.queued.push(QueuedAction {
            action,
            log,
            resumed: None,
            control: Arc::default(),
        });
    }

    /// Queues the actions of the journal that this process does not perform.
    fn queue_pending(&mut self, watch: &mut SessionWatcher, report: &mut impl FnMut(&WatchEvent)) {
        for entry in self.log.pending() {
            let action = ServerAction::Stop(entry.stop());
            report(&WatchEvent::Resumed(action.clone()));
            if let ServerAction::Stop(StopAction {
                steer: Some(_), to, ..
            }) = &action
            {
                watch.expect_prompt(to);
            }
            self.queue.queued.push(QueuedAction {
                action,
                log: self.log.for_entry(entry.id),
                resumed: Some(ResumedAction::Stop(entry)),
                control: Arc::default(),
            });
        }
        for entry in self.log.pending_continuations() {
            let server = self.server.clone();
            let handoffs = Arc::clone(&self.handoffs);
            self.tasks.spawn(async move {
                let injection = resumed_injection(&server, &entry, handoffs).await;
                BackgroundTask::Resumed { entry, injection }
            });
        }
    }

    fn announce(&mut self, command: String) {
        if self.server.api() == ServerApi::Classic {
            let server = self.server.clone();
            self.tasks.spawn(async move {
                // Without this request a server has no way to detect a second watcher.
                server.announce(&command).await.ok();
                BackgroundTask::Announced
            });
        }
    }

    /// Answers another watcher, or fails if that one acts already.
    fn on_command(&mut self, command: &str) -> Result<(), Failure> {
        if let Some(other) = command.strip_prefix(HELLO) {
            // If two watchers start at once, the one with the smaller name stays.
            if other != self.name && (self.is_settled || *self.name < *other) {
                self.announce(format!("{HERE}{}.{other}", self.name));
            }
        } else if let Some((other, asked)) = command
            .strip_prefix(HERE)
            .and_then(|names| names.split_once('.'))
            && other != self.name
            && asked == self.name
        {
            return Err(another_watcher("it answered through the server"));
        }
        Ok(())
    }

    /// Requests the parent and the directory of a session that is older than the connection.
    fn describe(&mut self, watch: &mut SessionWatcher, session: &str) {
        if self.server.api() == ServerApi::Next
            || watch.is_dry()
            || !watch.wants_description(session)
        {
            return;
        }
        let (server, session) = (self.server.clone(), session.to_owned());
        self.tasks.spawn(async move {
            let (parent, directory) = description(&server, &session).await;
            BackgroundTask::Described {
                session,
                parent,
                directory,
            }
        });
    }

    /// Reads the files of a continuation prompt, once for each session.
    fn inject_files(&mut self, watch: &SessionWatcher, session: &str, notice: &ServerNotice) {
        let text = match notice {
            ServerNotice::Deleted => {
                let mut handoffs = self.handoffs.lock().unwrap_or_else(PoisonError::into_inner);
                return handoffs.deleted(session);
            }
            ServerNotice::PromptPart {
                text,
                is_synthetic: false,
                ..
            } if text.contains(HANDOFF_MARKER) && !watch.is_dry() => text.clone(),
            _ => return,
        };
        let (agent, model, directory) = watch.described(session);
        let (server, session) = (self.server.clone(), session.to_owned());
        let handoffs = Arc::clone(&self.handoffs);
        self.tasks.spawn(async move {
            let directory = match directory {
                Some(directory) => Some(directory),
                None => description(&server, &session).await.1,
            };
            let prompt = WrittenPrompt {
                session: session.clone(),
                text,
                agent: agent.unwrap_or_default(),
                model,
            };
            let injection = prompt.read_files(directory, handoffs).await;
            BackgroundTask::Continued { session, injection }
        });
    }

    fn finish(
        &mut self,
        watch: &mut SessionWatcher,
        task: BackgroundTask,
        report: &mut impl FnMut(&WatchEvent),
    ) {
        match task {
            BackgroundTask::Announced => {}
            BackgroundTask::Described {
                session,
                parent,
                directory,
            } => watch.describe(&session, parent, directory),
            BackgroundTask::Continued { session, injection } => {
                if let Some(injection) = injection {
                    watch.expect_prompt(&session);
                    let action = ServerAction::AddFiles { session, injection };
                    report(&WatchEvent::Started(action.clone()));
                    self.begin(action, report);
                }
            }
            BackgroundTask::Resumed { entry, injection } => {
                let session = entry.session.clone();
                watch.expect_prompt(&session);
                let action = ServerAction::AddFiles { session, injection };
                report(&WatchEvent::Resumed(action.clone()));
                self.queue.queued.push(QueuedAction {
                    action,
                    log: self.log.for_entry(entry.id),
                    resumed: Some(ResumedAction::Continuation(entry)),
                    control: Arc::default(),
                });
            }
        }
    }
}

/// A prompt that the user wrote.
struct WrittenPrompt {
    session: String,
    text: String,
    agent: String,
    model: Option<(String, String)>,
}

impl WrittenPrompt {
    /// Reads the files that the prompt refers to, if it is a continuation prompt and the first one of its session.
    async fn read_files(
        self,
        directory: Option<String>,
        handoffs: Arc<Mutex<HandoffTracker>>,
    ) -> Option<Injection> {
        let reading = tokio::task::spawn_blocking(move || {
            let files = ProjectFiles::new(directory?).ok()?;
            let content = [Content::Text {
                text: self.text,
                synthetic: false,
            }];
            let model = self.model;
            let model = model.map(|(provider, model)| format!("{provider}/{model}"));
            let arrived = IncomingMessage {
                session: &self.session,
                model: model.as_deref().unwrap_or_default(),
                agent: &self.agent,
                content: &content,
            };
            let mut handoffs = handoffs.lock().unwrap_or_else(PoisonError::into_inner);
            handoffs.on_message(&arrived, &files)
        });
        reading.await.ok().flatten()
    }
}

/// Returns the files of a continuation begun by an earlier process, which are empty if its prompt is not in the session.
/// Its session is marked in `handoffs`: the prompt is sent again, and must not add the files once more.
async fn resumed_injection(
    server: &Server,
    entry: &JournaledContinuation,
    handoffs: Arc<Mutex<HandoffTracker>>,
) -> Injection {
    let session = &entry.session;
    let marked = [Message::user(HANDOFF_MARKER)];
    {
        let mut known = handoffs.lock().unwrap_or_else(PoisonError::into_inner);
        known.resume_session(session, &marked);
    }
    let found = match entry.prompt {
        None => continuation(server, session).await.ok().flatten(),
        Some(_) => None,
    };
    let injection = match found {
        Some(found) => {
            let prompt = WrittenPrompt {
                session: session.clone(),
                text: found.text(),
                agent: found.agent(),
                model: found.model(),
            };
            let directory = description(server, session).await.1;
            prompt.read_files(directory, Arc::default()).await
        }
        None => None,
    };
    injection.unwrap_or(Injection {
        parts: Vec::new(),
        model: String::new(),
        agent: String::new(),
        no_reply: true,
    })
}

/// Returns the parent and the directory of a session, if the server knows them.
async fn description(server: &Server, session: &str) -> (Option<String>, Option<String>) {
    let Ok(id) = segment(session) else {
        return (None, None);
    };
    let path = format!("/session/{id}");
    let info = server.call(Method::GET, &path, None).await;
    let info = info.unwrap_or_default();
    let text = |name: &str| info[name].as_str().map(str::to_owned);
    (text("parentID"), text("directory"))
}

fn report_outcome(
    watch: &mut SessionWatcher,
    action: ServerAction,
    done: Result<ActionOutcome, Failure>,
    report: &mut impl FnMut(&WatchEvent),
) {
    watch.record_result(&action, done == Ok(ActionOutcome::Done));
    report(&match done {
        Ok(ActionOutcome::Done) => WatchEvent::Done(action),
        Ok(ActionOutcome::Yielded(why)) => WatchEvent::Yielded {
            action,
            why: why.to_owned(),
        },
        Err(failure) => WatchEvent::Failed {
            action,
            why: failure.to_string(),
        },
    });
}

/// The queued and the running actions, one running action for each session. Dropping it cancels the running ones.
#[derive(Default)]
struct ActionQueue {
    running: JoinSet<(ServerAction, Result<ActionOutcome, Failure>)>,
    /// The sessions with a running action.
    busy: Vec<RunningAction>,
    queued: Vec<QueuedAction>,
}

struct RunningAction {
    session: String,
    message: Option<String>,
    control: Arc<StopControl>,
}

struct QueuedAction {
    action: ServerAction,
    log: ActionLog,
    /// The journal entry of an action begun by an earlier process.
    resumed: Option<ResumedAction>,
    control: Arc<StopControl>,
}

/// The journal entry of an action begun by an earlier process.
enum ResumedAction {
    Stop(JournalEntry),
    Continuation(JournaledContinuation),
}

/// Returns the message that the action stops.
fn stopped_message(action: &ServerAction) -> Option<&str> {
    match action {
        ServerAction::Stop(stop) => Some(&stop.message),
        _ => None,
    }
}

impl ActionQueue {
    /// Starts each queued action whose session has no running one.
    fn start(&mut self, server: &Server, watch: &SessionWatcher) {
        let mut place = 0;
        while let Some(next) = self.queued.get(place) {
            let session = next.action.session();
            if self.busy.iter().any(|busy| busy.session == session) {
                place += 1;
                continue;
            }
            let QueuedAction {
                action,
                log,
                resumed,
                control,
            } = self.queued.remove(place);
            self.busy.push(RunningAction {
                session: action.session().to_owned(),
                message: stopped_message(&action).map(str::to_owned),
                control: Arc::clone(&control),
            });
            self.update(watch, action.session());
            let server = server.clone();
            self.running.spawn(async move {
                let done = match (&resumed, &action) {
                    (Some(ResumedAction::Stop(entry)), _) => match resume(&server, entry).await {
                        Ok(Ok(stage)) => perform(&server, &action, stage, &control, &log).await,
                        Ok(Err(outcome)) => Ok(outcome),
                        Err(failure) => Err(failure),
                    },
                    (
                        Some(ResumedAction::Continuation(entry)),
                        ServerAction::AddFiles { injection, .. },
                    ) => resume_files(&server, entry, injection, &log).await,
                    _ => perform(&server, &action, ActionStage::Begun, &control, &log).await,
                };
                log.end(&done);
                (action, done)
            });
        }
    }

    /// Records that the session has no running action.
    fn release(&mut self, session: &str) {
        self.busy.retain(|busy| busy.session != session);
    }

    /// Passes the events of a session to the action that stops it.
    fn update(&self, watch: &SessionWatcher, session: &str) {
        for busy in self.busy.iter().filter(|busy| busy.session == session) {
            if let Some(message) = &busy.message {
                busy.control.update(watch.stop_progress(session, message));
            }
        }
    }
}
