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
use ttsr::{Mode, Pack, Snapshot};

use crate::continued_reply::save_reply;
use crate::error::ProxyError;
use crate::judge::EndedReply;
use crate::request::{
    JudgedRequest, ModelRequest, PartHash, Redactors, RefusedRequest, ReplyEffect, SessionMemory,
    judge_request,
};
use crate::sessions::{SessionError, SessionStore, state};

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
    for _ in 0..state::ATTEMPTS {
        let (memory, version) = state::load(store, key).await?;
        let (request, rules) = (Arc::clone(request), rules.clone());
        let judge = move || judge_alone(&request, &rules, memory);
        let judged = beside(size, judge).await;
        let judged = judged.ok_or_else(|| SessionError::new("the request cannot be judged"))?;
        let memory = match &judged {
            Ok(judged) => &judged.memory,
            Err(refused) => &refused.memory,
        };
        if state::save(store, key, memory, version).await? {
            return Ok(judged);
        }
    }
    Err(SessionError::new(state::CONTENTION))
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

#[derive(Clone)]
struct KeptSession {
    store: Arc<dyn SessionStore>,
    key: String,
    /// `None` if no request can continue the reply.
    client: Option<PartHash>,
}

impl ReplySession {
    /// Returns the session of the reply to a request of that client that was judged. It is not kept if it has no key.
    pub(crate) fn new(
        store: &Arc<dyn SessionStore>,
        client: PartHash,
        key: Option<String>,
        judged: &JudgedRequest,
    ) -> ReplySession {
        let (store, client) = (Arc::clone(store), judged.body.is_stored().then_some(client));
        ReplySession {
            kept: key.map(|key| KeptSession { store, key, client }),
            base: judged.state.clone(),
            anchor: judged.anchor,
            notes: judged.notes.clone(),
        }
    }

    /// Records that another request for the reply carries this guidance.
    pub(crate) fn carried(&mut self, notes: &[Note]) {
        self.notes.extend_from_slice(notes);
    }

    /// Returns the future that adds the effects of the reply to the session.
    pub(crate) fn save(
        &mut self,
        ended: EndedReply<'_>,
    ) -> impl Future<Output = Result<(), SessionError>> + Send + use<> {
        let EndedReply {
            conversation,
            is_complete,
            id,
        } = ended;
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
        let kept = self.kept.clone();
        async move {
            let Some(KeptSession { store, key, client }) = kept else {
                return Ok(());
            };
            let end = |memory: &mut SessionMemory| memory.end_reply(&outcome);
            state::update(&*store, &key, end).await?;
            match (client, id) {
                (Some(client), Some(id)) => save_reply(&*store, client, id, &key).await,
                _ => Ok(()),
            }
        }
    }
}
