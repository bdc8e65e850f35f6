//! The conversations of clients: the state of a session is loaded for a request and written after it, and the result of
//! its reply is added once the reply ends.
//!
//! Requests of one session may overlap. The texts of requests are judged one request after the other: if another one
//! has written the session meanwhile, the request is judged again. A reply is judged in the state after its request, and
//! the actions of rules in it are added to the state of its end (`Snapshot::merge`). Replies that overlap do not see each
//! other's actions.

use std::future::Future;
use std::sync::Arc;

use ttsr::conversation::Note;
use ttsr::{Conversation, Mode, Pack, Snapshot};

use crate::error::ProxyError;
use crate::request::{
    JudgedRequest, ModelRequest, PartHash, Redactors, RefusedRequest, ReplyEffect, SessionMemory,
    judge_request,
};
use crate::sessions::{SessionError, SessionStore};

/// The most attempts to write a session that other requests write at the same time.
const ATTEMPTS: usize = 64;

/// The rules for requests.
#[derive(Clone, Debug)]
pub(crate) struct RequestRules {
    pub(crate) pack: Pack,
    pub(crate) redactors: Redactors,
    pub(crate) mode: Mode,
}

impl RequestRules {
    /// Returns the rules of a pack.
    ///
    /// # Errors
    /// If the rules that redact cannot be built separately.
    pub(crate) fn new(pack: Pack, mode: Mode) -> Result<RequestRules, ProxyError> {
        let redactors = Redactors::new(&pack)?;
        Ok(RequestRules {
            pack,
            redactors,
            mode,
        })
    }
}

/// Loads the session of a request, judges the request, and writes the session.
///
/// # Errors
/// If the session cannot be loaded or written.
pub(crate) async fn judge_in_session(
    store: &dyn SessionStore,
    key: &str,
    request: &Arc<ModelRequest>,
    rules: &RequestRules,
) -> Result<Result<JudgedRequest, RefusedRequest>, SessionError> {
    let size = request.body.len();
    for _ in 0..ATTEMPTS {
        let (memory, version) = load(store, key).await?;
        let (request, rules) = (Arc::clone(request), rules.clone());
        let judge = move || judge_alone(&request, &rules, memory);
        let judged = beside(size, judge).await;
        let judged = judged.ok_or_else(|| SessionError::new("the request cannot be judged"))?;
        let memory = match &judged {
            Ok(judged) => &judged.memory,
            Err(refused) => &refused.memory,
        };
        if store.save(key, &encode(memory)?, version).await? {
            return Ok(judged);
        }
    }
    Err(SessionError::new(CONTENTION))
}

/// The size in bytes from which the work on a body is done in another thread: all other connections would wait.
const LARGE: usize = 1 << 20;

/// Returns the result of the work on a body of that size, or `None` if it panics.
pub(crate) async fn beside<T: Send + 'static>(
    size: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    match size < LARGE {
        true => Some(work()),
        false => tokio::task::spawn_blocking(work).await.ok(),
    }
}

/// Judges a request in that state of its session, without a store.
pub(crate) fn judge_alone(
    request: &Arc<ModelRequest>,
    rules: &RequestRules,
    memory: SessionMemory,
) -> Result<JudgedRequest, RefusedRequest> {
    judge_request(request, &rules.pack, &rules.redactors, rules.mode, memory)
}

const CONTENTION: &str = "too many requests write the session at the same time";

async fn load(store: &dyn SessionStore, key: &str) -> Result<(SessionMemory, u64), SessionError> {
    let Some(stored) = store.load(key).await? else {
        return Ok((SessionMemory::default(), 0));
    };
    let memory = serde_json::from_slice(&stored.state)
        .map_err(|_| SessionError::new("the state of the session has another form"))?;
    Ok((memory, stored.version))
}

fn encode(memory: &SessionMemory) -> Result<Vec<u8>, SessionError> {
    serde_json::to_vec(memory).map_err(|_| SessionError::new("the session cannot be written"))
}

/// The session of a reply in progress.
pub(crate) struct ReplySession {
    /// `None` if the reply has no session that is kept.
    kept: Option<KeptSession>,
    /// The state of rules when the reply began.
    base: Snapshot,
    anchor: Option<PartHash>,
    /// The guidance that the requests for the reply carried.
    notes: Vec<Note>,
}

struct KeptSession {
    store: Arc<dyn SessionStore>,
    key: String,
}

impl ReplySession {
    /// Returns the session of the reply to a request that was judged. It is not kept if it has no key.
    pub(crate) fn new(
        store: &Arc<dyn SessionStore>,
        key: Option<String>,
        judged: &JudgedRequest,
    ) -> ReplySession {
        let store = Arc::clone(store);
        ReplySession {
            kept: key.map(|key| KeptSession { store, key }),
            base: judged.state.clone(),
            anchor: judged.anchor,
            notes: judged.notes.clone(),
        }
    }

    /// Records that another request for the reply carries this guidance.
    pub(crate) fn carried(&mut self, notes: &[Note]) {
        self.notes.extend_from_slice(notes);
    }

    /// Returns the future that adds the effects of the reply to the session. `is_complete` is true if the reply has its end
    /// and no rule stopped it.
    pub(crate) fn save(
        &mut self,
        conversation: &Conversation,
        is_complete: bool,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let fork = conversation.snapshot();
        let waits: Vec<Note> = conversation.guidance().collect();
        let (waiting, delivered): (Vec<Note>, Vec<Note>) = std::mem::take(&mut self.notes)
            .into_iter()
            .partition(|note| waits.contains(note));
        self.notes = waiting;
        let outcome = ReplyEffect {
            base: std::mem::replace(&mut self.base, fork.clone()),
            fork,
            anchor: self.anchor,
            delivered: delivered.into_iter().map(|note| note.text).collect(),
            is_complete,
        };
        let kept = self.kept.as_ref();
        let kept = kept.map(|kept| (Arc::clone(&kept.store), kept.key.clone()));
        async move {
            match kept {
                Some((store, key)) => end_reply(&*store, &key, &outcome).await,
                None => Ok(()),
            }
        }
    }
}

async fn end_reply(
    store: &dyn SessionStore,
    key: &str,
    outcome: &ReplyEffect,
) -> Result<(), SessionError> {
    for _ in 0..ATTEMPTS {
        let (mut memory, version) = load(store, key).await?;
        memory.end_reply(outcome);
        if store.save(key, &encode(&memory)?, version).await? {
            return Ok(());
        }
    }
    Err(SessionError::new(CONTENTION))
}
