//! A [`Watch`] with its server: hears, does what is to be done, and comes back when the connection breaks.

use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;

use super::server::Server;
use super::watch::{Act, Seen, Watch};
use crate::harness::{Cancel, Failure};

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

/// Holds the rules of `watch` against everything that happens on `server`, until it is cancelled. `report`
/// hears of everything in the order in which it happens.
///
/// Acts run beside the event stream, so that a server that is slow to stop one session does not keep the
/// others waiting; those of one session run one after the other. Where the connection breaks, what was being
/// written is forgotten, and what the server still tells of it after the next connection is read as it comes.
///
/// # Errors
/// If the server says no (a status of 4xx), or cannot be reached as often as `backoff` allows.
///
/// # Example: a server that is not there, twice
/// ```
/// use std::time::Duration;
/// use ttsr::Pack;
/// use ttsr::harness::Cancel;
/// use ttsr::harness::opencode::{Api, Backoff, Seen, Server, Watch, watch};
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
    backoff: Backoff,
    cancel: Cancel,
    mut report: impl FnMut(&Seen),
) -> Result<(), Failure> {
    let mut tries = 0;
    loop {
        let heard = tokio::select! {
            biased;
            () = cancel.cancelled() => return Ok(()),
            heard = hear(server, watch, &mut tries, &mut report) => heard,
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

/// Whether another try would be refused too.
fn is_refusal(failure: &Failure) -> bool {
    let status: Result<u16, _> = failure.kind().parse();
    matches!(status, Ok(400..=499)) && failure.kind() != "429" && failure.kind() != "408"
}

/// One connection, from its beginning to its end.
async fn hear(
    server: &Server,
    watch: &mut Watch,
    tries: &mut u32,
    report: &mut impl FnMut(&Seen),
) -> Result<(), Failure> {
    let mut events = server.events().await?;
    *tries = 0;
    report(&Seen::Connected);
    let mut acting = Acting::default();
    loop {
        tokio::select! {
            biased;
            Some(done) = acting.running.join_next() => {
                let Ok((act, done)) = done else { continue };
                acting.next(server, act.session());
                tell(watch, act, done, report);
            }
            next = events.next() => match next {
                Ok(Some((session, notice))) => {
                    let mut seen = Vec::new();
                    watch.notice(&session, notice, &mut seen);
                    for seen in seen {
                        report(&seen);
                        if let Seen::Act(act) = seen {
                            acting.begin(server, act);
                        }
                    }
                }
                end => {
                    // What was begun is ended: the server may be there, only the stream of events is not.
                    while let Some(done) = acting.running.join_next().await {
                        if let Ok((act, done)) = done {
                            acting.next(server, act.session());
                            tell(watch, act, done, report);
                        }
                    }
                    return end.map(drop);
                }
            },
        }
    }
}

fn tell(watch: &mut Watch, act: Act, done: Result<(), Failure>, report: &mut impl FnMut(&Seen)) {
    watch.done(&act, done.is_ok());
    report(&match done {
        Ok(()) => Seen::Done(act),
        Err(failure) => Seen::Failed {
            act,
            why: failure.to_string(),
        },
    });
}

/// What is being done, one act a session; dropping it gives it up.
#[derive(Default)]
struct Acting {
    running: JoinSet<(Act, Result<(), Failure>)>,
    busy: Vec<String>,
    waiting: Vec<Act>,
}

impl Acting {
    fn begin(&mut self, server: &Server, act: Act) {
        if self.busy.iter().any(|busy| busy == act.session()) {
            return self.waiting.push(act);
        }
        self.busy.push(act.session().to_owned());
        let server = server.clone();
        self.running.spawn(async move {
            let done = perform(&server, &act).await;
            (act, done)
        });
    }

    /// The session has nothing running any more.
    fn next(&mut self, server: &Server, session: &str) {
        self.busy.retain(|busy| busy != session);
        let next = self.waiting.iter().position(|act| act.session() == session);
        if let Some(next) = next {
            let act = self.waiting.remove(next);
            self.begin(server, act);
        }
    }
}

async fn perform(server: &Server, act: &Act) -> Result<(), Failure> {
    match act {
        Act::Inject {
            session, prompt, ..
        } => server.prompt(session, prompt).await,
        Act::Stop {
            session,
            message,
            delete,
            steer,
            ..
        } => {
            server.abort(session).await?;
            if *delete {
                forget(server, session, message).await?;
            }
            match steer {
                Some(prompt) => server.prompt(session, prompt).await,
                None => Ok(()),
            }
        }
    }
}

/// Deletes a message as soon as the server lets go of it: right after an abort it may say that it is busy.
async fn forget(server: &Server, session: &str, message: &str) -> Result<(), Failure> {
    const TRIES: u32 = 6;
    for tried in 0.. {
        match server.delete_message(session, message).await {
            Err(failure) if tried < TRIES && !is_gone(&failure) => {
                sleep(Duration::from_millis(50 << tried)).await;
            }
            Err(failure) if !is_gone(&failure) => return Err(failure),
            _ => break,
        }
    }
    Ok(())
}

fn is_gone(failure: &Failure) -> bool {
    failure.kind() == "404"
}
