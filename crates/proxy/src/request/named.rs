//! The names and options that clients put into members of a body, beside its texts.

use serde_json::value::RawValue;

use crate::json_spans::{member, members, string};

/// Returns the id of the session in the metadata that Claude Code and Codex send.
pub(super) fn named_session(top: &[(String, &RawValue)]) -> Option<String> {
    let of = |outer: &str, inner: &str| {
        let outer = members(member(top, outer)?)?;
        string(member(&outer, inner)?)
    };
    let user = of("metadata", "user_id");
    let in_user = user.and_then(|user| {
        let user: serde_json::Value = serde_json::from_str(&user).ok()?;
        Some(user["session_id"].as_str()?.to_owned())
    });
    in_user.or_else(|| of("client_metadata", "session_id"))
}

/// Returns true if the client asks for the tokens of a streamed reply, in the APIs of OpenAI.
pub(super) fn wants_usage(top: &[(String, &RawValue)]) -> bool {
    let options = member(top, "stream_options").and_then(members);
    let wants = options
        .as_deref()
        .and_then(|it| member(it, "include_usage"));
    wants.is_some_and(|wants| wants.get() == "true")
}

/// Returns the id of a conversation, which may be in an object.
pub(super) fn conversation_id(value: &RawValue) -> Option<String> {
    string(value).or_else(|| string(member(&members(value)?, "id")?))
}
