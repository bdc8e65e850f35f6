//! Performs actions as requests: their order, the checks before each, and the precedence of the user's own actions.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::handoff::{ServerMessage, ServerMessagePart};
use super::journal::{
    ActionJournal, ActionStage, JournalEntry, JournaledContinuation, ResentPrompt,
};
use super::server::{Server, ServerApi, segment};
use super::watch::{ServerAction, StopAction, StopProgress};
use crate::handoff::Injection;
use ttsr::harness::{Failure, HANDOFF_MARKER};

/// The outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ActionOutcome {
    /// The action is complete.
    Done,
    /// The user acted first; the remaining requests were not sent.
    Yielded(&'static str),
}

/// The state of a session while it is being stopped, updated by the event loop.
#[derive(Debug, Default)]
pub(super) struct StopControl {
    /// True once the request that stops the session was sent.
    is_stop_sent: AtomicBool,
    /// True if somebody else stopped the session.
    is_overtaken: AtomicBool,
    /// The number of idle notices since the decision.
    idles: AtomicU32,
    changed: Notify,
}

/// The number of idle notices after one abort: when the session stops, and when the reply is stored.
const ABORT_IDLES: u32 = 2;

/// The time limit for the second idle notice before the session is prompted.
const IDLE_TIMEOUT: Duration = Duration::from_millis(300);

/// The time limit for a third idle notice, which means that somebody else stopped the session too.
const OVERTAKE_TIMEOUT: Duration = Duration::from_millis(50);

const STOPPED: &str = "the session was stopped by somebody else";

impl StopControl {
    /// Records the events of the session.
    pub(super) fn update(&self, progress: StopProgress) {
        // The session of a sub-agent is stopped once more by its parent.
        let has_second = progress.idles > ABORT_IDLES && !progress.is_child;
        if (progress.is_aborted && !self.is_stop_sent.load(Ordering::Relaxed)) || has_second {
            self.is_overtaken.store(true, Ordering::Relaxed);
        }
        self.idles.store(progress.idles, Ordering::Relaxed);
        self.changed.notify_waiters();
    }

    fn is_overtaken(&self) -> bool {
        self.is_overtaken.load(Ordering::Relaxed)
    }

    /// Waits until the events of the abort have arrived, within [`SETTLING`].
    async fn wait_for_idle(&self) {
        let settled = async {
            loop {
                let changed = self.changed.notified();
                if self.idles.load(Ordering::Relaxed) >= ABORT_IDLES || self.is_overtaken() {
                    return;
                }
                changed.await;
            }
        };
        if timeout(IDLE_TIMEOUT, settled).await.is_ok() && !self.is_overtaken() {
            sleep(OVERTAKE_TIMEOUT).await;
        }
    }
}

/// The journal, if there is one, and the id of an action in it.
#[derive(Clone, Debug, Default)]
pub(super) struct ActionLog {
    journal: Arc<Mutex<Option<ActionJournal>>>,
    id: Option<u64>,
}

impl ActionLog {
    pub(super) fn new(journal: Option<ActionJournal>) -> ActionLog {
        ActionLog {
            journal: Arc::new(Mutex::new(journal)),
            id: None,
        }
    }

    /// Runs `use_it` on the journal; closes the journal and returns the reason if it cannot be written.
    fn with_journal<T>(
        &self,
        use_it: impl FnOnce(&mut ActionJournal) -> std::io::Result<T>,
    ) -> Result<Option<T>, String> {
        // After a panic while the lock is held, the journal has at worst one entry too many.
        let mut journal = self.journal.lock().unwrap_or_else(PoisonError::into_inner);
        match journal.as_mut().map(use_it).transpose() {
            Ok(done) => Ok(done),
            Err(error) => {
                *journal = None;
                Err(format!("the journal cannot be written: {error}"))
            }
        }
    }

    /// Records that the action begins.
    pub(super) fn begin(&self, action: &ServerAction) -> Result<ActionLog, String> {
        let id = match action {
            ServerAction::Stop(stop) => self.with_journal(|journal| journal.begin(stop))?,
            ServerAction::AddFiles { session, .. } => self
                .with_journal(|journal| journal.begin_continuation(session))?
                .flatten(),
            _ => None,
        };
        Ok(ActionLog { id, ..self.clone() })
    }

    /// Returns the stops begun by an earlier process that this process does not perform.
    pub(super) fn pending(&self) -> Vec<JournalEntry> {
        let pending = self.with_journal(|journal| Ok(journal.pending()));
        pending.ok().flatten().unwrap_or_default()
    }

    /// Returns the continuations begun by an earlier process that this process does not perform.
    pub(super) fn pending_continuations(&self) -> Vec<JournaledContinuation> {
        let pending = self.with_journal(|journal| Ok(journal.pending_continuations()));
        pending.ok().flatten().unwrap_or_default()
    }

    /// Returns the log of the action with that id.
    pub(super) fn for_entry(&self, id: u64) -> ActionLog {
        ActionLog {
            id: Some(id),
            ..self.clone()
        }
    }

    /// Records a prompt before it is deleted or sent again. Returns true if it may be deleted: it is recorded, or there
    /// is no journal, so that nothing is completed after a restart.
    fn record_prompt(&self, prompt: ResentPrompt) -> bool {
        let recorded = self.with_journal(|journal| match self.id {
            Some(id) => journal.record_prompt(id, prompt),
            None => Ok(false),
        });
        recorded.is_ok_and(|recorded| recorded.unwrap_or(true))
    }

    fn advance(&self, stage: ActionStage) {
        if let Some(id) = self.id {
            // After a failure the journal is closed; the action continues without it.
            self.with_journal(|journal| journal.advance(id, stage)).ok();
        }
    }

    /// Removes the action, unless the server could not be reached: then it is resumed after the next connection.
    pub(super) fn end(&self, done: &Result<ActionOutcome, Failure>) {
        let is_unreached = |failure: &Failure| {
            matches!(
                failure.kind(),
                "connect" | "timeout" | "closed" | "cut-off" | "protocol"
            )
        };
        if let Some(id) = self.id
            && !done.as_ref().is_err_and(is_unreached)
        {
            self.with_journal(|journal| journal.end(id)).ok();
        }
    }
}

/// Performs the action from `stage` on.
pub(super) async fn perform(
    server: &Server,
    action: &ServerAction,
    stage: ActionStage,
    control: &StopControl,
    log: &ActionLog,
) -> Result<ActionOutcome, Failure> {
    match action {
        ServerAction::Inject {
            session, prompt, ..
        } => server.prompt(session, prompt).await?,
        ServerAction::Stop(stop) => return perform_stop(server, stop, stage, control, log).await,
        ServerAction::Switch { session, model } => {
            return switch_model(server, session, model).await;
        }
        ServerAction::HandOver {
            handoff, directory, ..
        } => server.hand_over(handoff, directory.as_deref()).await?,
        ServerAction::AddFiles { session, injection } => {
            return add_files(server, session, injection, log, false).await;
        }
    }
    Ok(ActionOutcome::Done)
}

async fn perform_stop(
    server: &Server,
    stop: &StopAction,
    stage: ActionStage,
    control: &StopControl,
    log: &ActionLog,
) -> Result<ActionOutcome, Failure> {
    let StopAction {
        session,
        message,
        steer,
        to,
        has_run,
        ..
    } = stop;
    if stage < ActionStage::Stopping && control.is_overtaken() {
        return Ok(ActionOutcome::Yielded(STOPPED));
    }
    let mut steer = steer.clone();
    // The stop causes the parent's next request, which contains a prompt sent before it.
    let is_parent_told = to != session && !has_run;
    if is_parent_told
        && let Some(prompt) = steer.take()
        && stage < ActionStage::Told
    {
        log.advance(ActionStage::Told);
        server.prompt(to, &prompt).await?;
    }
    if stage < ActionStage::Stopped {
        control.is_stop_sent.store(true, Ordering::Relaxed);
        log.advance(ActionStage::Stopping);
        server.abort(session).await?;
        if let Some(permission) = &stop.permission {
            // The call is over; if the request was answered meanwhile, this fails and has no effect.
            server.reject_permission(permission).await.ok();
        }
        if control.is_overtaken() {
            return Ok(ActionOutcome::Yielded(STOPPED));
        }
        if stop.delete {
            delete_with_retries(server, session, message).await?;
        }
    }
    let Some(mut prompt) = steer else {
        return Ok(ActionOutcome::Done);
    };
    log.advance(ActionStage::Stopped);
    if *has_run {
        prompt.text += &describe_calls(server, session, message).await;
    }
    if to == session && stage < ActionStage::Stopped && server.api() == ServerApi::Classic {
        control.wait_for_idle().await;
        if control.is_overtaken() {
            return Ok(ActionOutcome::Yielded(STOPPED));
        }
    }
    server.prompt(to, &prompt).await?;
    Ok(ActionOutcome::Done)
}

/// The most messages after the stopped one that are read when an action is resumed.
const RECENT: usize = 20;

/// Returns the stage from which an action begun by an earlier process is performed, or its outcome if it is no longer
/// wanted.
pub(super) async fn resume(
    server: &Server,
    entry: &JournalEntry,
) -> Result<Result<ActionStage, ActionOutcome>, Failure> {
    if entry.is_expired() {
        return Ok(Err(ActionOutcome::Yielded(OLD)));
    }
    if server.api() == ServerApi::Next {
        return Ok(Ok(entry.stage));
    }
    let StopAction { steer, to, .. } = entry.stop();
    let messages = match messages(server, &entry.session, RECENT).await {
        Ok(messages) => messages,
        Err(failure) if is_gone(&failure) => {
            return Ok(Err(ActionOutcome::Yielded(DELETED)));
        }
        Err(failure) => return Err(failure),
    };
    let place = messages.iter().position(|it| it.info.id == entry.message);
    let after = &messages[place.map_or(0, |place| place + 1)..];
    let asked = after.iter().rfind(|it| it.info.role == "user");
    if let (Some(place), ActionStage::Begun) = (place, entry.stage)
        && messages[place].info.error["name"] == "MessageAbortedError"
    {
        return Ok(Err(ActionOutcome::Yielded(STOPPED)));
    }
    if place.is_none() && entry.stage < ActionStage::Stopping {
        return Ok(Err(ActionOutcome::Yielded("the message was deleted")));
    }
    let is_ours = |written: &ServerMessage| {
        let text = steer.as_ref().map_or("", |steer| steer.text.as_str());
        let starts = |part: &ServerMessagePart| !text.is_empty() && part.text.starts_with(text);
        written.parts.iter().any(starts)
    };
    // Without the stopped message, older user prompts cannot be distinguished from newer ones.
    match asked.filter(|_| to == entry.session) {
        Some(asked) if is_ours(asked) => Ok(Err(ActionOutcome::Done)),
        Some(_) if place.is_some() => Ok(Err(ActionOutcome::Yielded(WENT_ON))),
        _ => Ok(Ok(entry.stage)),
    }
}

/// Returns the last messages of a session, oldest first.
async fn messages(
    server: &Server,
    session: &str,
    most: usize,
) -> Result<Vec<ServerMessage>, Failure> {
    let path = format!("/session/{}/message?limit={most}", segment(session)?);
    let answer = server.call(Method::GET, &path, None).await?;
    serde_json::from_value(answer)
        .map_err(|error| Failure::new("protocol", format!("not a list of messages: {error}")))
}

/// Aborts the refused request and sends the last user message again, to that model.
async fn switch_model(
    server: &Server,
    session: &str,
    (provider, model): &(String, String),
) -> Result<ActionOutcome, Failure> {
    server.abort(session).await?;
    let messages = read_messages(server, session).await?;
    let asked = messages.iter().rfind(|message| is_user(message));
    let asked = asked.ok_or_else(|| {
        let why = format!("none of the last {RECENT} messages is the user's");
        Failure::new("protocol", why)
    })?;
    send(server, session, body_of(asked, Some((provider, model)))).await?;
    Ok(ActionOutcome::Done)
}

/// Adds the files of a continuation, and makes sure that they are there before the model is asked. The server asks it
/// as soon as the prompt arrives, which cannot be delayed from outside: the request is stopped, its result and the
/// prompt are deleted, and the prompt is sent again after the files. If a tool has begun to run by then, or if the prompt
/// cannot be recorded in the journal, the messages stay, and the prompt is in the session twice.
///
/// An action that is resumed (`is_resumed`) skips the steps that its session shows to be done.
async fn add_files(
    server: &Server,
    session: &str,
    injection: &Injection,
    log: &ActionLog,
    is_resumed: bool,
) -> Result<ActionOutcome, Failure> {
    match continuation(server, session).await {
        Ok(Some(found)) if is_resumed && found.is_answered => {
            return Ok(ActionOutcome::Yielded("the model has answered"));
        }
        Ok(Some(_)) => {}
        Ok(None) if is_resumed => return Ok(ActionOutcome::Yielded(WENT_ON)),
        Err(failure) if is_resumed && is_gone(&failure) => {
            return Ok(ActionOutcome::Yielded(DELETED));
        }
        Err(failure) if is_resumed => return Err(failure),
        // Without the prompt there is nothing to send again.
        Ok(None) | Err(_) => {
            server.inject(session, injection).await?;
            return Ok(ActionOutcome::Done);
        }
    }
    server.abort(session).await?;
    // Read again: the messages that the server wrote before it stopped are there now.
    let found = continuation(server, session).await?;
    let has_files = found.as_ref().is_some_and(|found| found.has_files);
    let deletes = found.as_ref().is_some_and(|found| !found.has_run);
    if let Some(found) = found.as_ref().filter(|_| deletes) {
        for message in found.later.iter().rev() {
            delete_with_retries(server, session, message).await?;
        }
    }
    if !has_files && !injection.parts.is_empty() {
        server.inject(session, injection).await?;
    }
    let Some(ContinuationPrompt { message, .. }) = found else {
        return Ok(ActionOutcome::Done);
    };
    let body = body_of(&message, model_of(&message));
    if let Some(id) = message["info"]["id"].as_str() {
        let may_delete = log.record_prompt(ResentPrompt {
            message: id.to_owned(),
            body: Some(body.clone()),
        });
        if deletes && may_delete {
            delete_with_retries(server, session, id).await?;
        }
    }
    send(server, session, body).await?;
    Ok(ActionOutcome::Done)
}

/// Completes a continuation begun by an earlier process. `injection` has the files of its prompt, if the prompt was not
/// recorded yet.
pub(super) async fn resume_files(
    server: &Server,
    entry: &JournaledContinuation,
    injection: &Injection,
    log: &ActionLog,
) -> Result<ActionOutcome, Failure> {
    let session = &entry.session;
    let Some(prompt) = &entry.prompt else {
        return match entry.is_expired() {
            true => Ok(ActionOutcome::Yielded(OLD)),
            false => add_files(server, session, injection, log, true).await,
        };
    };
    let messages = match read_messages(server, session).await {
        Ok(messages) => messages,
        Err(failure) if is_gone(&failure) => return Ok(ActionOutcome::Yielded(DELETED)),
        Err(failure) => return Err(failure),
    };
    let original = messages
        .iter()
        .position(|it| it["info"]["id"] == *prompt.message);
    let made = || original.map(|place| body_of(&messages[place], model_of(&messages[place])));
    let Some(mut body) = prompt.body.clone().or_else(made) else {
        return Ok(ActionOutcome::Yielded("the prompt was deleted"));
    };
    let after = messages.iter().rposition(is_files).or(original);
    let after = &messages[after.map_or(0, |place| place + 1)..];
    let is_again = |message: &&Value| own_text(&message["parts"]) == own_text(&body["parts"]);
    let mut said = after.iter().filter(|it| is_said(it));
    let said = said.find(|it| it["info"]["id"] != *prompt.message);
    match said {
        Some(message) if is_again(&message) => return Ok(ActionOutcome::Done),
        Some(_) => return Ok(ActionOutcome::Yielded(WENT_ON)),
        None => {}
    }
    let later = original.map_or(after, |place| &messages[place + 1..]);
    let has_run = later.iter().any(has_run);
    if original.is_some() && !has_run && prompt.body.is_some() {
        delete_with_retries(server, session, &prompt.message).await?;
    }
    if entry.is_expired() {
        if original.is_some() && (has_run || prompt.body.is_none()) {
            return Ok(ActionOutcome::Yielded(OLD));
        }
        // The prompt is restored, but nobody waits for a reply by now.
        body["noReply"] = json!(true);
    }
    send(server, session, body).await?;
    Ok(ActionOutcome::Done)
}

const WENT_ON: &str = "the user went on";

const DELETED: &str = "the session was deleted";

const OLD: &str = "it is older than an hour";

/// A continuation prompt in a session, and the messages after it.
pub(super) struct ContinuationPrompt {
    message: Value,
    /// Ids of the messages of the model after it, oldest first.
    later: Vec<String>,
    /// True if a tool has begun to run in one of them.
    has_run: bool,
    /// True if one of them is complete.
    is_answered: bool,
    /// True if files were added after it.
    has_files: bool,
}

impl ContinuationPrompt {
    pub(super) fn text(&self) -> String {
        own_text(&self.message["parts"])
    }

    pub(super) fn agent(&self) -> String {
        let agent = self.message["info"]["agent"].as_str();
        agent.unwrap_or_default().to_owned()
    }

    /// Returns the provider and the model that the prompt addresses.
    pub(super) fn model(&self) -> Option<(String, String)> {
        let (provider, model) = model_of(&self.message)?;
        Some((provider.to_owned(), model.to_owned()))
    }
}

/// Returns the last messages of a session, oldest first.
async fn read_messages(server: &Server, session: &str) -> Result<Vec<Value>, Failure> {
    let path = format!("/session/{}/message?limit={RECENT}", segment(session)?);
    match server.call(Method::GET, &path, None).await? {
        Value::Array(messages) => Ok(messages),
        _ => Err(Failure::new(
            "protocol",
            "the messages of a session are no list",
        )),
    }
}

fn is_user(message: &Value) -> bool {
    message["info"]["role"] == "user"
}

fn parts(message: &Value) -> &[Value] {
    message["parts"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns true if a program added the message: it consists of synthetic parts.
fn is_files(message: &Value) -> bool {
    let is_synthetic = |part: &Value| part["synthetic"] == true;
    is_user(message) && !parts(message).is_empty() && parts(message).iter().all(is_synthetic)
}

/// Returns true if the user sent the message.
fn is_said(message: &Value) -> bool {
    is_user(message) && !is_files(message)
}

/// Returns true if a tool has begun to run in the message.
fn has_run(message: &Value) -> bool {
    let runs = |part: &Value| part["type"] == "tool" && part["state"]["status"] != "pending";
    parts(message).iter().any(runs)
}

/// Returns the text that the user wrote in these parts.
fn own_text(parts: &Value) -> String {
    let parts = parts.as_array().map_or(&[][..], Vec::as_slice);
    let own = parts.iter().filter(|part| part["synthetic"] != true);
    own.filter_map(|part| part["text"].as_str()).collect()
}

/// Returns the last message of the user, if it is a continuation prompt.
pub(super) async fn continuation(
    server: &Server,
    session: &str,
) -> Result<Option<ContinuationPrompt>, Failure> {
    let messages = read_messages(server, session).await?;
    let Some(place) = messages.iter().rposition(is_said) else {
        return Ok(None);
    };
    let later = &messages[place + 1..];
    let replies = || later.iter().filter(|message| !is_user(message));
    let is_complete = |message: &Value| {
        let info = &message["info"];
        info["error"].is_null() && !info["time"]["completed"].is_null()
    };
    let is_marked = own_text(&messages[place]["parts"]).contains(HANDOFF_MARKER);
    let ids = replies().filter_map(|it| it["info"]["id"].as_str());
    Ok(is_marked.then(|| ContinuationPrompt {
        message: messages[place].clone(),
        later: ids.map(str::to_owned).collect(),
        has_run: later.iter().any(has_run),
        is_answered: replies().any(is_complete),
        has_files: later.iter().any(is_files),
    }))
}

/// Returns the provider and the model that a message of the user addresses.
fn model_of(message: &Value) -> Option<(&str, &str)> {
    let model = &message["info"]["model"];
    model["providerID"].as_str().zip(model["modelID"].as_str())
}

/// Returns the body of the request that sends a message of the user again, with the text and the attachments of the
/// user.
fn body_of(message: &Value, model: Option<(&str, &str)>) -> Value {
    let mut parts = message["parts"].as_array().cloned().unwrap_or_default();
    // The server creates the parts of attached files itself.
    let has_own = parts.iter().any(|part| part["synthetic"] != true);
    parts.retain(|part| !has_own || part["synthetic"] != true);
    // The parts get new ids, because the ids of the first request are in use.
    for part in parts.iter_mut().filter_map(Value::as_object_mut) {
        for name in ["id", "messageID", "sessionID"] {
            part.remove(name);
        }
    }
    let mut body = json!({ "parts": parts });
    if let Some((provider, model)) = model {
        body["model"] = json!({ "providerID": provider, "modelID": model });
    }
    if let Some(agent) = message["info"]["agent"].as_str() {
        body["agent"] = json!(agent);
    }
    body
}

async fn send(server: &Server, session: &str, body: Value) -> Result<(), Failure> {
    let path = format!("/session/{}/prompt_async", segment(session)?);
    server.call(Method::POST, &path, Some(body)).await.map(drop)
}

/// Deletes a message, with retries: right after an abort the server may respond that it is busy.
async fn delete_with_retries(server: &Server, session: &str, message: &str) -> Result<(), Failure> {
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

/// The maximum number of retries of a request that the server refuses because it is still ending a reply.
const TRIES: u32 = 6;

fn is_gone(failure: &Failure) -> bool {
    failure.kind() == "404"
}

/// The most tool calls that are listed.
const CALLS: usize = 8;

/// The most characters of a call's input and of its error that are shown.
const EXCERPT: usize = 200;

/// Describes the results of the tool calls of a stopped message, for the model.
async fn describe_calls(server: &Server, session: &str, message: &str) -> String {
    let mut calls = Vec::new();
    // A stopped tool takes a moment to end.
    for tried in 0..=TRIES {
        match read_calls(server, session, message).await {
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

/// Returns one line for each tool call of a message, and true if none of them is running.
async fn read_calls(server: &Server, session: &str, message: &str) -> Option<(Vec<String>, bool)> {
    let (session, message) = (segment(session).ok()?, segment(message).ok()?);
    let path = format!("/session/{session}/message/{message}");
    let answer = server.call(Method::GET, &path, None).await.ok()?;
    let written: ServerMessage = serde_json::from_value(answer).ok()?;
    let calls = || written.parts.iter().filter(|part| part.kind == "tool");
    let is_over = calls().all(|call| !matches!(call.state.status.as_str(), "running" | "pending"));
    Some((calls().take(CALLS).map(describe_call).collect(), is_over))
}

fn describe_call(call: &ServerMessagePart) -> String {
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
