//! Acts as requests: in which order, what is checked before each, and where the user's own act takes precedence.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::handoff::{Written, WrittenPart};
use super::journal::{Entry, Journal, Stage};
use super::server::{Api, Server, segment};
use super::watch::Act;
use ttsr::harness::Failure;

/// What became of an act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All of it is done.
    Done,
    /// The user acted first; the rest was left undone.
    Yielded(&'static str),
}

/// What the event loop knows of the session while an act on it is performed.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// The request that stops the session was sent.
    is_stop_sent: AtomicBool,
    /// Somebody else stopped the session.
    is_overtaken: AtomicBool,
    /// How often the session reported to be idle since the verdict.
    idles: AtomicU32,
    changed: Notify,
}

/// How often a session reports to be idle after one abort: when it stops, and when the reply is stored.
const IDLES: u32 = 2;

/// How long the second of them is waited for before the session is prompted.
const SETTLING: Duration = Duration::from_millis(300);

/// How long a third one is waited for: it means that somebody else stopped the session too.
const GRACE: Duration = Duration::from_millis(50);

const STOPPED: &str = "the session was stopped by somebody else";

impl Control {
    /// Takes what the events say: whether the message ended with an abort, and the number of idle reports.
    pub(super) fn update(&self, is_aborted: bool, idles: u32, is_child: bool) {
        // The session of a sub-agent is stopped once more by its parent.
        let has_second = idles > IDLES && !is_child;
        if (is_aborted && !self.is_stop_sent.load(Ordering::Relaxed)) || has_second {
            self.is_overtaken.store(true, Ordering::Relaxed);
        }
        self.idles.store(idles, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    fn is_overtaken(&self) -> bool {
        self.is_overtaken.load(Ordering::Relaxed)
    }

    /// Waits until the events of the abort have arrived, within bounds.
    async fn settle(&self) {
        let settled = async {
            loop {
                let changed = self.changed.notified();
                if self.idles.load(Ordering::Relaxed) >= IDLES || self.is_overtaken() {
                    return;
                }
                changed.await;
            }
        };
        if timeout(SETTLING, settled).await.is_ok() && !self.is_overtaken() {
            sleep(GRACE).await;
        }
    }
}

/// The journal, where there is one, and the act's place in it.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    journal: Arc<Mutex<Option<Journal>>>,
    id: Option<u64>,
}

impl Log {
    pub(super) fn new(journal: Option<Journal>) -> Log {
        Log {
            journal: Arc::new(Mutex::new(journal)),
            id: None,
        }
    }

    /// Does something with the journal; gives it up where it cannot be written, with the reason.
    fn with<T>(
        &self,
        use_it: impl FnOnce(&mut Journal) -> std::io::Result<T>,
    ) -> Result<Option<T>, String> {
        // A panic in between leaves an entry too many at worst.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match journal.as_mut().map(use_it).transpose() {
            Ok(done) => Ok(done),
            Err(error) => {
                *journal = None;
                Err(format!("the journal cannot be written: {error}"))
            }
        }
    }

    /// Records that the act begins.
    pub(super) fn begin(&self, act: &Act) -> Result<Log, String> {
        let id = self.with(|journal| journal.begin(act))?.flatten();
        Ok(Log { id, ..self.clone() })
    }

    /// The acts that an earlier run left, as far as this process does not perform them.
    pub(super) fn pending(&self) -> Vec<Entry> {
        let pending = self.with(|journal| Ok(journal.pending()));
        pending.ok().flatten().unwrap_or_default()
    }

    /// The same for the act of that entry.
    pub(super) fn at(&self, entry: &Entry) -> Log {
        Log {
            id: Some(entry.id),
            ..self.clone()
        }
    }

    fn advance(&self, stage: Stage) {
        if let Some(id) = self.id {
            // A journal that fails is given up; the act goes on without it.
            self.with(|journal| journal.advance(id, stage)).ok();
        }
    }

    /// The act is over, unless the server could not be reached: then it is taken up with the next connection.
    pub(super) fn end(&self, done: &Result<Outcome, Failure>) {
        let is_unreached = |failure: &Failure| {
            matches!(
                failure.kind(),
                "connect" | "timeout" | "closed" | "cut-off" | "protocol"
            )
        };
        if let Some(id) = self.id
            && !done.as_ref().is_err_and(is_unreached)
        {
            self.with(|journal| journal.end(id)).ok();
        }
    }
}

/// Does what the act says, from `stage` on.
pub(super) async fn perform(
    server: &Server,
    act: &Act,
    stage: Stage,
    control: &Control,
    log: &Log,
) -> Result<Outcome, Failure> {
    match act {
        Act::Inject {
            session, prompt, ..
        } => server.prompt(session, prompt).await?,
        Act::Stop { .. } => return stop(server, act, stage, control, log).await,
        Act::Switch { session, model } => return switch(server, session, model).await,
        Act::HandOver {
            handoff, directory, ..
        } => server.hand_over(handoff, directory.as_deref()).await?,
        Act::AddFiles { session, injection } => server.inject(session, injection).await?,
    }
    Ok(Outcome::Done)
}

async fn stop(
    server: &Server,
    act: &Act,
    stage: Stage,
    control: &Control,
    log: &Log,
) -> Result<Outcome, Failure> {
    let Act::Stop {
        session,
        message,
        delete,
        steer,
        to,
        has_run,
        permission,
        ..
    } = act
    else {
        return Ok(Outcome::Done);
    };
    if stage < Stage::Stopping && control.is_overtaken() {
        return Ok(Outcome::Yielded(STOPPED));
    }
    let mut steer = steer.clone();
    // The parent's next request comes with the stop. It contains what is said before.
    let is_parent_told = to != session && !has_run;
    if is_parent_told
        && let Some(prompt) = steer.take()
        && stage < Stage::Told
    {
        log.advance(Stage::Told);
        server.prompt(to, &prompt).await?;
    }
    if stage < Stage::Stopped {
        control.is_stop_sent.store(true, Ordering::Relaxed);
        log.advance(Stage::Stopping);
        server.abort(session).await?;
        if let Some(permission) = permission {
            // Its call is over; if it was answered meanwhile, there is nothing to reject.
            server.reject_permission(permission).await.ok();
        }
        if control.is_overtaken() {
            return Ok(Outcome::Yielded(STOPPED));
        }
        if *delete {
            forget(server, session, message).await?;
        }
    }
    let Some(mut prompt) = steer else {
        return Ok(Outcome::Done);
    };
    log.advance(Stage::Stopped);
    if *has_run {
        prompt.text += &account(server, session, message).await;
    }
    if to == session && stage < Stage::Stopped && server.api() == Api::Classic {
        control.settle().await;
        if control.is_overtaken() {
            return Ok(Outcome::Yielded(STOPPED));
        }
    }
    server.prompt(to, &prompt).await?;
    Ok(Outcome::Done)
}

/// Most messages after the stopped one that are read when an act is taken up again.
const RECENT: usize = 20;

/// Whether an act of an earlier run is still wanted, and from which stage on it is done.
pub(super) async fn resume(
    server: &Server,
    entry: &Entry,
) -> Result<Result<Stage, Outcome>, Failure> {
    if entry.is_old() {
        return Ok(Err(Outcome::Yielded("it is older than an hour")));
    }
    if server.api() == Api::Next {
        return Ok(Ok(entry.stage));
    }
    let Act::Stop { steer, to, .. } = entry.act() else {
        return Ok(Err(Outcome::Done));
    };
    let messages = match messages(server, &entry.session, RECENT).await {
        Ok(messages) => messages,
        Err(failure) if is_gone(&failure) => {
            return Ok(Err(Outcome::Yielded("the session was deleted")));
        }
        Err(failure) => return Err(failure),
    };
    let place = messages.iter().position(|it| it.info.id == entry.message);
    let after = &messages[place.map_or(0, |place| place + 1)..];
    let asked = after.iter().rfind(|it| it.info.role == "user");
    if let (Some(place), Stage::Begun) = (place, entry.stage)
        && messages[place].info.error["name"] == "MessageAbortedError"
    {
        return Ok(Err(Outcome::Yielded(STOPPED)));
    }
    if place.is_none() && entry.stage < Stage::Stopping {
        return Ok(Err(Outcome::Yielded("the message was deleted")));
    }
    let is_ours = |written: &Written| {
        let text = steer.as_ref().map_or("", |steer| steer.text.as_str());
        let starts = |part: &WrittenPart| !text.is_empty() && part.text.starts_with(text);
        written.parts.iter().any(starts)
    };
    // Without the stopped message, older prompts of the user cannot be told from newer ones.
    match asked.filter(|_| to == entry.session) {
        Some(asked) if is_ours(asked) => Ok(Err(Outcome::Done)),
        Some(_) if place.is_some() => Ok(Err(Outcome::Yielded("the user went on"))),
        _ => Ok(Ok(entry.stage)),
    }
}

/// The last messages of a session, oldest first.
async fn messages(server: &Server, session: &str, most: usize) -> Result<Vec<Written>, Failure> {
    let path = format!("/session/{}/message?limit={most}", segment(session)?);
    let answer = server.call(Method::GET, &path, None).await?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::new("protocol", format!("not a list of messages: {error}")))
}

/// Aborts the refused request and sends the last user message again, to that model.
async fn switch(
    server: &Server,
    session: &str,
    (provider, model): &(String, String),
) -> Result<Outcome, Failure> {
    server.abort(session).await?;
    let path = format!("/session/{}/message?limit={RECENT}", segment(session)?);
    let answer = server.call(Method::GET, &path, None).await?;
    let is_asked = |message: &&Value| message["info"]["role"] == "user";
    let asked = answer.as_array().map(|all| all.iter().filter(is_asked));
    let asked = asked.and_then(Iterator::last).ok_or_else(|| {
        let why = format!("none of the last {RECENT} messages is the user's");
        Failure::new("protocol", why)
    })?;
    let mut parts = asked["parts"].as_array().cloned().unwrap_or_default();
    // They get ids of their own: those of the first request are taken.
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        for name in ["id", "messageID", "sessionID"] {
            part.remove(name);
        }
    }
    let mut body = json!({
        "parts": parts,
        "model": { "providerID": provider, "modelID": model },
    });
    if let Some(agent) = asked["info"]["agent"].as_str() {
        body["agent"] = json!(agent);
    }
    let path = format!("/session/{}/prompt_async", segment(session)?);
    server.call(Method::POST, &path, Some(body)).await?;
    Ok(Outcome::Done)
}

/// Deletes a message as soon as the server lets go of it: right after an abort it may say that it is busy.
async fn forget(server: &Server, session: &str, message: &str) -> Result<(), Failure> {
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

/// How often a request is repeated that a server refuses while it ends a reply.
const TRIES: u32 = 6;

fn is_gone(failure: &Failure) -> bool {
    failure.kind() == "404"
}

/// Most tool calls that are listed.
const CALLS: usize = 8;

/// Most characters shown of a call's input, and of its error.
const EXCERPT: usize = 200;

/// What became of the tool calls of a stopped message, for the model.
async fn account(server: &Server, session: &str, message: &str) -> String {
    let mut calls = Vec::new();
    // A tool that is stopped takes a moment to end.
    for tried in 0..=TRIES {
        match called(server, session, message).await {
            Some((listed, is_over)) => {
                calls = listed;
                if is_over {
                    break;
                }
                sleep(Duration::from_millis(50 << tried)).await;
            }
            None => break,
        }
    }
    let head = "\n\nThe reply was stopped after a tool call had begun. What it did stays done";
    match calls.is_empty() {
        true => format!("{head}; the conversation contains what is known of it."),
        false => format!("{head}:\n{}", calls.join("\n")),
    }
}

/// The tool calls of a message, a line each, and whether none of them runs any more.
async fn called(server: &Server, session: &str, message: &str) -> Option<(Vec<String>, bool)> {
    let (session, message) = (segment(session).ok()?, segment(message).ok()?);
    let path = format!("/session/{session}/message/{message}");
    let answer = server.call(Method::GET, &path, None).await.ok()?;
    let written: Written = serde_json::from_value(answer).ok()?;
    let calls = || written.parts.iter().filter(|part| part.kind == "tool");
    let is_over = calls().all(|call| !matches!(call.state.status.as_str(), "running" | "pending"));
    Some((calls().take(CALLS).map(line).collect(), is_over))
}

fn line(call: &WrittenPart) -> String {
    let short = |text: &str| text.chars().take(EXCERPT).collect::<String>();
    let state = &call.state;
    let fate = match state.status.as_str() {
        "completed" if state.output.contains("User aborted the command") => {
            "was interrupted while it ran; it may have done a part of its work".to_owned()
        }
        "completed" => "ran to its end; its output is in the conversation".to_owned(),
        "error" if state.error == "Tool execution aborted" => {
            "was interrupted; it may have done a part of its work".to_owned()
        }
        "error" => format!("failed: {}", short(&state.error)),
        "running" => "was still running".to_owned(),
        _ => "did not run".to_owned(),
    };
    let input = match state.input.is_null() {
        true => String::new(),
        false => format!(" {}", short(&state.input.to_string())),
    };
    format!("- `{}`{input} {fate}.", call.tool)
}
