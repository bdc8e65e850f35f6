//! The key of a session: the id that a client names, else a hash of what the requests of a conversation have in common.

use std::borrow::Cow;

use hyper::header::{AUTHORIZATION, HeaderMap, HeaderName, USER_AGENT};

use super::memory::PartHash;
use super::read::{ModelRequest, PartRole};

/// The fields in which clients name a session, in the order in which they count.
const NAMED: [HeaderName; 6] = [
    HeaderName::from_static("x-claude-code-session-id"),
    HeaderName::from_static("session-id"),
    HeaderName::from_static("session_id"),
    HeaderName::from_static("x-session-id"),
    HeaderName::from_static("x-session-affinity"),
    HeaderName::from_static("thread-id"),
];

/// The fields with the key of a client.
const KEYS: [HeaderName; 4] = [
    AUTHORIZATION,
    HeaderName::from_static("x-api-key"),
    HeaderName::from_static("api-key"),
    HeaderName::from_static("x-goog-api-key"),
];

/// The parameters of a query with the key of a client, in Gemini.
const KEY_PARAMETERS: [&str; 2] = ["key=", "access_token="];

/// Returns the key of the session of a request. Requests with different authentication never have the same one. `continued`
/// is the key of the session of the reply that the request continues, if that is known.
pub(crate) fn session_key(
    headers: &HeaderMap,
    query: &str,
    request: &ModelRequest,
    continued: Option<&str>,
) -> String {
    let value = |name: &HeaderName| {
        let value = headers.get(name)?;
        (!value.is_empty()).then(|| String::from_utf8_lossy(value.as_bytes()))
    };
    let named = NAMED.iter().find_map(value);
    let of_body = request.session.as_ref().or(request.conversation.as_ref());
    let named = named.or_else(|| of_body.map(|id| id.as_str().into()));
    let mut parts = vec!["ttsr session".into()];
    parts.extend(authentication(headers, query));
    match (named, continued) {
        (Some(named), _) => parts.extend(["named".into(), named]),
        (None, Some(continued)) => return continued.to_owned(),
        (None, None) => {
            let first = request.parts.iter();
            let mut first = first.filter(|part| part.role == PartRole::User);
            let first = first.next().map(|part| &part.texts[..]).unwrap_or_default();
            parts.push(value(&USER_AGENT).unwrap_or_default());
            // Some clients have one for each session, others one for all, so it names no session.
            parts.push(request.cache_key.as_deref().unwrap_or_default().into());
            parts.push(request.instructions.as_str().into());
            parts.extend(first.iter().map(|text| text.text.as_str().into()));
        }
    }
    hash(&parts).to_string()
}

/// Returns a hash of the authentication of a client.
pub(crate) fn client_hash(headers: &HeaderMap, query: &str) -> PartHash {
    hash(&authentication(headers, query))
}

fn hash(parts: &[Cow<'_, str>]) -> PartHash {
    PartHash::default().extend(parts.iter().map(|part| &**part))
}

/// Returns the keys of a client.
fn authentication<'h>(headers: &'h HeaderMap, query: &'h str) -> Vec<Cow<'h, str>> {
    let mut parts = Vec::new();
    for name in &KEYS {
        let keys = headers.get_all(name).iter();
        let keys: Vec<_> = keys
            .map(|key| String::from_utf8_lossy(key.as_bytes()))
            .collect();
        parts.push(keys.join("\n").into());
    }
    let is_key = |it: &&str| KEY_PARAMETERS.iter().any(|name| it.starts_with(name));
    parts.extend(query.split('&').filter(is_key).map(Into::into));
    parts
}
