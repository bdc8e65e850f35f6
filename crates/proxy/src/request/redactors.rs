//! The rules that redact texts of requests. A redaction depends on the text alone, and not on what a session did before,
//! so that a text that a client sends again in its history becomes the same bytes again.

use ttsr::{Action, Channel, Conversation, Flow, Origin, Pack, Rule};

use super::read::{PartRole, RequestPart};
use crate::error::ProxyError;

/// The replacement of a text that cannot be judged.
const UNREADABLE: &str = "[redacted]";

/// The rules of a pack that redact the user's texts or outputs of tools.
#[derive(Clone, Debug)]
pub(crate) struct Redactors {
    /// `None` if there is no such rule.
    pack: Option<Pack>,
    origin: Origin,
}

impl Redactors {
    pub(crate) fn new(pack: &Pack) -> Result<Redactors, ProxyError> {
        let is_of_requests =
            |channel: &Channel| matches!(channel, Channel::UserInput | Channel::ToolOutput);
        let is_redactor =
            |rule: &Rule| rule.action == Action::Redact && rule.on.iter().any(is_of_requests);
        let built = match pack.rules().iter().any(is_redactor) {
            false => None,
            true => {
                let built = pack.with_rules(is_redactor);
                let failed =
                    || ProxyError::new("the rules that redact requests cannot be compiled apart");
                Some(built.ok_or_else(failed)?)
            }
        };
        Ok(Redactors {
            pack: built,
            origin: Origin::default(),
        })
    }

    /// Returns the rules for requests to that model.
    pub(crate) fn with_origin(&self, origin: Origin) -> Redactors {
        Redactors {
            pack: self.pack.clone(),
            origin,
        }
    }

    /// Returns the text of a part without what rules redact, or `None` if it is the same.
    pub(crate) fn redact(&self, part: &RequestPart, text: &str) -> Option<String> {
        let pack = self.pack.as_ref()?;
        let channel = match part.role {
            PartRole::User => Channel::UserInput,
            PartRole::ToolOutput => Channel::ToolOutput,
            PartRole::Instructions | PartRole::Assistant | PartRole::Item => return None,
        };
        if !pack.wants(channel, part.tool.as_deref()) {
            return None;
        }
        let mut conversation = Conversation::new(pack);
        conversation.set_origin(self.origin.clone());
        let screened = match channel {
            Channel::ToolOutput => {
                conversation.screen_output(part.tool.as_deref(), part.outcome, text)
            }
            channel => conversation.screen(channel, None, text),
        };
        match screened.flow {
            Flow::Go => (screened.text != text).then_some(screened.text),
            Flow::Cut(_) => Some(UNREADABLE.to_owned()),
        }
    }
}
