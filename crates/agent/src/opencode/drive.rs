//! A [`Watch`] with its server: hears, does what is to be done, and comes back when the connection breaks.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

use super::journal::{Journal, Stage, taken};
use super::perform::{Control, Log, Outcome, perform, resume};
use super::server::{Api, Server, segment};
use super::watch::{Act, Seen, Watch};
use crate::handoff::{Arrived, Handoffs, Injection, ProjectFiles};
use ttsr::harness::HANDOFF_MARKER;
use ttsr::harness::{Cancel, Content, Failure};
use ttsr_wire::opencode::Notice;

/// How long to wait before the server is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The first wait. Default a quarter of a second.
    pub first: Duration,
    /// The longest; each is twice the one before. Default 30 seconds.
    pub longest: Duration,
    /// Most tries in a row. Default none: for ever.
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
    /// The wait after so many tries in a row, from 0.
    fn wait(&self, tries: u32) -> Duration {
        let factor = 1_u32.checked_shl(tries.min(31)).unwrap_or(u32::MAX);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// How a server is watched.
#[derive(Debug)]
pub struct Watching {
    /// How a broken connection is taken up again.
    pub backoff: Backoff,
    /// How long acts wait after each connection for the answer of another watcher. Default 300 ms; 0 acts at
    /// once and still fails when the answer arrives.
    pub grace: Duration,
    /// Where acts under way are recorded. Default: nowhere.
    pub journal: Option<Journal>,
}

impl Default for Watching {
    fn default() -> Watching {
        Watching {
            backoff: Backoff::default(),
            grace: Duration::from_millis(300),
            journal: None,
        }
    }
}

impl From<Backoff> for Watching {
    fn from(backoff: Backoff) -> Watching {
        Watching {
            backoff,
            ..Watching::default()
        }
    }
}

/// Holds the rules of `watch` against everything that happens on `server`, until it is cancelled. `report`
/// hears of everything in the order in which it happens.
///
/// A [`Watch`] that is not a [dry run](Watch::dry_run) acts only if no other one acts on the server: on the
/// classic interface each announces itself with a `tui.command.execute` event, to which the one that is there
/// answers, and the newcomer fails. Acts of the journal that were not completed are completed after the
/// connection, unless the user has gone on.
///
/// Acts run beside the event stream, so that a server that is slow to stop one session does not keep the
/// others waiting; those of one session run one after the other. Where the connection breaks, what was being
/// written is forgotten, and what the server still tells of it after the next connection is read as it comes.
///
/// # Errors
/// If the server says no (a status of 4xx), or cannot be reached as often as the backoff allows; of the kind
/// `taken` if another watcher acts on the server.
///
/// # Example: a server that is not there, twice
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::Cancel;
/// use ttsr_agent::opencode::{Api, Backoff, Seen, Server, Watch, watch};
/// let free = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
/// let server = Server::new(&format!("http://{free}"), Api::Classic)?;
/// let mut rules = Watch::new(Pack::builtin("std/secrets")?, Api::Classic);
/// let first = Duration::from_millis(1);
/// let backoff = Backoff { first, tries: Some(2), ..Backoff::default() };
/// let mut seen = Vec::new();
/// let report = |what: &Seen| seen.push(what.clone());
/// let watching = watch(&server, &mut rules, backoff, Cancel::default(), report);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
/// assert!(runtime.block_on(watching).is_err());
/// assert!(matches!(seen[..], [Seen::Disconnected { again_in: 1, .. }]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn watch(
    server: &Server,
    watch: &mut Watch,
    watching: impl Into<Watching>,
    cancel: Cancel,
    mut report: impl FnMut(&Seen),
) -> Result<(), Failure> {
    let Watching {
        backoff,
        grace,
        journal,
    } = watching.into();
    let mut driver = Driver {
        server,
        // Two watchers have the same name once in 2^64 pairs.
        name: format!("{:016x}", RandomState::new().hash_one(())),
        grace,
        began: Instant::now(),
        log: Log::new(journal),
        handoffs: Arc::default(),
        acting: Acting::default(),
        chores: JoinSet::new(),
        is_settled: false,
    };
    let ended = driver.run(watch, backoff, &cancel, &mut report).await;
    // Acts under way hold the journal open until they are dropped.
    driver.acting.running.shutdown().await;
    ended
}

/// Whether another try would be refused too.
fn is_refusal(failure: &Failure) -> bool {
    let status: Result<u16, _> = failure.kind().parse();
    let is_status =
        matches!(status, Ok(400..=499)) && failure.kind() != "429" && failure.kind() != "408";
    is_status || failure.kind() == "taken"
}

/// The command by which a watcher asks whether another one acts on the server.
const HELLO: &str = "ttsr.watch.hello.";

/// The answer: followed by the name of the one that is there, a dot, and the name of the one that asked.
const HERE: &str = "ttsr.watch.here.";

struct Driver<'a> {
    server: &'a Server,
    /// The name of this watcher among those on the server.
    name: String,
    grace: Duration,
    began: Instant,
    log: Log,
    handoffs: Arc<Mutex<Handoffs>>,
    acting: Acting,
    chores: JoinSet<Chore>,
    /// No other watcher answered within the grace.
    is_settled: bool,
}

/// A request that is no act, and its result.
enum Chore {
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
}

impl Driver<'_> {
    /// Connects until it is cancelled, refused, or the tries are used up.
    async fn run(
        &mut self,
        watch: &mut Watch,
        backoff: Backoff,
        cancel: &Cancel,
        report: &mut impl FnMut(&Seen),
    ) -> Result<(), Failure> {
        let mut tries = 0;
        loop {
            let heard = tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                heard = self.hear(watch, &mut tries, report) => heard,
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
            report(&Seen::Disconnected {
                why: failure.to_string(),
                again_in: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
            });
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Ok(()),
                () = sleep(wait) => {}
            }
        }
    }

    /// One connection, from its beginning to its end.
    async fn hear(
        &mut self,
        watch: &mut Watch,
        tries: &mut u32,
        report: &mut impl FnMut(&Seen),
    ) -> Result<(), Failure> {
        let mut events = self.server.events().await?;
        *tries = 0;
        report(&Seen::Connected);
        let is_active = !watch.is_dry();
        self.is_settled = !is_active || self.grace.is_zero();
        let settled = Instant::now() + self.grace;
        if is_active {
            self.announce(format!("{HELLO}{}", self.name));
            self.take_up(watch, report);
        }
        loop {
            if self.is_settled {
                self.acting.start(self.server, watch);
            }
            tokio::select! {
                biased;
                Some(done) = self.acting.running.join_next() => {
                    if let Ok((act, done)) = done {
                        self.acting.free(act.session());
                        tell(watch, act, done, report);
                    }
                }
                Some(chore) = self.chores.join_next() => {
                    if let Ok(chore) = chore {
                        self.finish(watch, chore, report);
                    }
                }
                next = events.next() => match next {
                    Ok(Some((_, Notice::Command(command)))) if is_active => self.command(&command)?,
                    Ok(Some((session, notice))) => {
                        watch.tick(self.began.elapsed());
                        self.continued(watch, &session, &notice);
                        let mut seen = Vec::new();
                        watch.notice(&session, notice, &mut seen);
                        self.describe(watch, &session);
                        self.acting.update(watch, &session);
                        for seen in seen {
                            // Recorded before it is reported: a process that ends in between still completes it.
                            if let Seen::Act(act) = &seen {
                                self.begin(act.clone(), report);
                            }
                            report(&seen);
                        }
                    }
                    end => {
                        // Acts that have begun are completed: the server may be there, only the events are not.
                        self.acting.start(self.server, watch);
                        while let Some(done) = self.acting.running.join_next().await {
                            if let Ok((act, done)) = done {
                                self.acting.free(act.session());
                                tell(watch, act, done, report);
                            }
                            self.acting.start(self.server, watch);
                        }
                        return end.map(drop);
                    }
                },
                () = sleep_until(settled), if !self.is_settled => self.is_settled = true,
            }
        }
    }

    /// Queues an act. It is recorded first, so that it is completed even if this process ends now.
    fn begin(&mut self, act: Act, report: &mut impl FnMut(&Seen)) {
        let log = self.log.begin(&act).unwrap_or_else(|why| {
            report(&Seen::NoJournal { why });
            Log::default()
        });
        self.acting.waiting.push(Waiting {
            act,
            log,
            entry: None,
            control: Arc::default(),
        });
    }

    /// Queues the acts of the journal that this process does not perform.
    fn take_up(&mut self, watch: &mut Watch, report: &mut impl FnMut(&Seen)) {
        for entry in self.log.pending() {
            let act = entry.act();
            report(&Seen::Resumed(act.clone()));
            if let Act::Stop {
                steer: Some(_), to, ..
            } = &act
            {
                watch.expect_prompt(to);
            }
            self.acting.waiting.push(Waiting {
                act,
                log: self.log.at(&entry),
                entry: Some(entry),
                control: Arc::default(),
            });
        }
    }

    fn announce(&mut self, command: String) {
        if self.server.api() == Api::Classic {
            let server = self.server.clone();
            self.chores.spawn(async move {
                // A server without this request has no other means to tell.
                server.announce(&command).await.ok();
                Chore::Announced
            });
        }
    }

    /// Answers another watcher, or gives way to it.
    fn command(&mut self, command: &str) -> Result<(), Failure> {
        if let Some(other) = command.strip_prefix(HELLO) {
            // Of two that come at once, the one with the smaller name stays.
            if other != self.name && (self.is_settled || *self.name < *other) {
                self.announce(format!("{HERE}{}.{other}", self.name));
            }
        } else if let Some((other, asked)) = command
            .strip_prefix(HERE)
            .and_then(|names| names.split_once('.'))
            && other != self.name
            && asked == self.name
        {
            return Err(taken());
        }
        Ok(())
    }

    /// Asks for the parent and the directory of a session that is older than the connection.
    fn describe(&mut self, watch: &mut Watch, session: &str) {
        if self.server.api() == Api::Next || watch.is_dry() || !watch.wants_description(session) {
            return;
        }
        let (server, session) = (self.server.clone(), session.to_owned());
        self.chores.spawn(async move {
            let (parent, directory) = description(&server, &session).await;
            Chore::Described {
                session,
                parent,
                directory,
            }
        });
    }

    /// Reads the files of a continuation prompt, once for each session.
    fn continued(&mut self, watch: &Watch, session: &str, notice: &Notice) {
        let text = match notice {
            Notice::Deleted => {
                let mut handoffs = self.handoffs.lock().unwrap_or_else(PoisonError::into_inner);
                return handoffs.deleted(session);
            }
            Notice::PromptPart {
                text,
                is_synthetic: false,
                ..
            } if text.contains(HANDOFF_MARKER) && !watch.is_dry() => text.clone(),
            _ => return,
        };
        let (agent, model, directory) = watch.described(session);
        let (server, session) = (self.server.clone(), session.to_owned());
        let handoffs = Arc::clone(&self.handoffs);
        self.chores.spawn(async move {
            let directory = match directory {
                Some(directory) => Some(directory),
                None => description(&server, &session).await.1,
            };
            let name = session.clone();
            let reading = tokio::task::spawn_blocking(move || {
                let files = ProjectFiles::new(directory?).ok()?;
                let content = [Content::Text {
                    text,
                    synthetic: false,
                }];
                let model = model.map(|(provider, model)| format!("{provider}/{model}"));
                let arrived = Arrived {
                    session: &name,
                    model: model.as_deref().unwrap_or_default(),
                    agent: agent.as_deref().unwrap_or_default(),
                    content: &content,
                };
                let mut handoffs = handoffs.lock().unwrap_or_else(PoisonError::into_inner);
                handoffs.arrived(&arrived, &files)
            });
            let injection = reading.await.ok().flatten();
            Chore::Continued { session, injection }
        });
    }

    fn finish(&mut self, watch: &mut Watch, chore: Chore, report: &mut impl FnMut(&Seen)) {
        match chore {
            Chore::Announced => {}
            Chore::Described {
                session,
                parent,
                directory,
            } => watch.describe(&session, parent, directory),
            Chore::Continued { session, injection } => {
                if let Some(injection) = injection {
                    watch.expect_prompt(&session);
                    let act = Act::AddFiles { session, injection };
                    report(&Seen::Act(act.clone()));
                    self.begin(act, report);
                }
            }
        }
    }
}

/// The parent and the directory of a session, as far as the server tells.
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

fn tell(
    watch: &mut Watch,
    act: Act,
    done: Result<Outcome, Failure>,
    report: &mut impl FnMut(&Seen),
) {
    watch.done(&act, done == Ok(Outcome::Done));
    report(&match done {
        Ok(Outcome::Done) => Seen::Done(act),
        Ok(Outcome::Yielded(why)) => Seen::Yielded {
            act,
            why: why.to_owned(),
        },
        Err(failure) => Seen::Failed {
            act,
            why: failure.to_string(),
        },
    });
}

/// The acts, one at a time for each session. Dropping it gives up those under way.
#[derive(Default)]
struct Acting {
    running: JoinSet<(Act, Result<Outcome, Failure>)>,
    /// The sessions of those, each with the message that is stopped.
    busy: Vec<Busy>,
    waiting: Vec<Waiting>,
}

struct Busy {
    session: String,
    message: Option<String>,
    control: Arc<Control>,
}

struct Waiting {
    act: Act,
    log: Log,
    /// The entry of the journal, for an act of an earlier run.
    entry: Option<super::journal::Entry>,
    control: Arc<Control>,
}

/// The message that the act stops.
fn stopped(act: &Act) -> Option<&str> {
    match act {
        Act::Stop { message, .. } => Some(message),
        _ => None,
    }
}

impl Acting {
    /// Starts the acts whose session has none under way.
    fn start(&mut self, server: &Server, watch: &Watch) {
        let mut place = 0;
        while let Some(next) = self.waiting.get(place) {
            let session = next.act.session();
            if self.busy.iter().any(|busy| busy.session == session) {
                place += 1;
                continue;
            }
            let Waiting {
                act,
                log,
                entry,
                control,
            } = self.waiting.remove(place);
            self.busy.push(Busy {
                session: act.session().to_owned(),
                message: stopped(&act).map(str::to_owned),
                control: Arc::clone(&control),
            });
            self.update(watch, act.session());
            let server = server.clone();
            self.running.spawn(async move {
                let done = match &entry {
                    None => perform(&server, &act, Stage::Begun, &control, &log).await,
                    Some(entry) => match resume(&server, entry).await {
                        Ok(Ok(stage)) => perform(&server, &act, stage, &control, &log).await,
                        Ok(Err(outcome)) => Ok(outcome),
                        Err(failure) => Err(failure),
                    },
                };
                log.end(&done);
                (act, done)
            });
        }
    }

    /// The session has no act under way any more.
    fn free(&mut self, session: &str) {
        self.busy.retain(|busy| busy.session != session);
    }

    /// Passes on what the events say of a session that is being stopped.
    fn update(&self, watch: &Watch, session: &str) {
        for busy in self.busy.iter().filter(|busy| busy.session == session) {
            if let Some(message) = &busy.message {
                let (is_aborted, idles) = watch.ended(session, message);
                busy.control
                    .update(is_aborted, idles, watch.is_child(session));
            }
        }
    }
}
