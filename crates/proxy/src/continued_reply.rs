//! The replies of Responses that later requests continue, by their ids.
//!
//! A request with `previous_response_id` has no history: the server has it. So only the id tells the session of the request.
//! And after a retry the client has the id of the attempt that was cut, but the server has the reply that the client saw
//! under the id of the last attempt. The store of sessions keeps both for each reply, as an entry of its own.

use serde::{Deserialize, Serialize};

use crate::judge::ReplyId;
use crate::request::PartHash;
use crate::sessions::{SessionError, SessionStore, state};

/// The most bytes of an id. A longer one is not kept.
const MAX_ID: usize = 512;

/// A reply that a request can continue, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContinuedReply {
    /// The key of its session.
    pub(crate) session: String,
    /// The id of the server.
    pub(crate) id: String,
}

/// Returns the key in the store of the reply with that id. It has the client, so that no other client continues the reply.
fn reply_key(client: PartHash, id: &str) -> String {
    client.extend(["reply", id]).to_string()
}

/// Returns the reply that a client names, or `None` if it is not known.
///
/// # Errors
/// If the store cannot be read.
pub(crate) async fn load_reply(
    store: &dyn SessionStore,
    client: PartHash,
    id: &str,
) -> Result<Option<ContinuedReply>, SessionError> {
    let (known, version) = state::load(store, &reply_key(client, id)).await?;
    Ok((version > 0).then_some(known))
}

/// Keeps the id of a reply to a client in that session.
///
/// # Errors
/// If the store cannot be written.
pub(crate) async fn save_reply(
    store: &dyn SessionStore,
    client: PartHash,
    id: ReplyId,
    session: &str,
) -> Result<(), SessionError> {
    let ReplyId { sent, of_server } = id;
    if sent.len().max(of_server.len()) > MAX_ID {
        return Ok(());
    }
    let key = reply_key(client, &sent);
    let known = ContinuedReply {
        session: session.to_owned(),
        id: of_server,
    };
    // Some servers give all replies the same id, so there may be one.
    state::update(store, &key, |kept| *kept = known.clone()).await
}
