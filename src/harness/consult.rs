//! The session of a sub-agent that is asked about a tool call before the call runs.
//!
//! Rules ask with the action `consult`, hooks with [`PendingCall::consult`](super::PendingCall::consult), and a host
//! with [`ask_sub_agent`](super::ask_sub_agent). The question and its outcome are plain data; the turn of the sub-agent
//! is run by [`AgentTurn`](super::AgentTurn).

use std::future::ready;

pub use super::consultation::{ConsultOutcome, Consultation};

use super::aborted::AbortReason;
use super::call::{ToolCall, ToolFuture, ToolOutput, Tools, unknown_tool};
use super::fallback::Chains;
use super::hooks::Hooks;
use super::message::{Message, Request, Tool};
use super::processor::{Processor, Settings};
use super::reply::Reply;
use super::step::End;
use crate::{Channel, Origin, Pack};
use ttsr_views::path::ToolScope;

/// The properties of the session that asks, which the sub-agent's session inherits.
#[derive(Clone, Debug)]
pub struct ParentSession {
    /// The settings of the session. The sub-agent has the same, except for its own id and depth, its parent's id, and
    /// fallback chains, which are empty.
    pub settings: Settings,
    /// The rules, which apply to the sub-agent too.
    pub pack: Pack,
    /// The origin, for rules that are limited to agents, providers or models.
    pub origin: Origin,
    /// The model. The sub-agent uses it unless the rule names another.
    pub model: String,
}

/// A sub-agent's session. It borrows the host's hooks and returns them when it is dropped, so that a future that is
/// dropped half way returns them too.
pub(super) struct SubAgent<'a> {
    pub(super) processor: Processor,
    pub(super) tools: AllowedTools<'a>,
    host_hooks: &'a mut Hooks,
    /// For each hook, true if it had failed in the reply of the host.
    failed: Vec<bool>,
}

impl<'a> SubAgent<'a> {
    /// Opens a session below that of `parent`; `None` if `parent` is a sub-agent itself.
    pub(super) fn open(
        tools: &'a dyn Tools,
        hooks: &'a mut Hooks,
        parent: &ParentSession,
        consultation: &Consultation,
    ) -> Option<SubAgent<'a>> {
        if parent.settings.depth > 0 {
            return None;
        }
        let opener = &parent.settings.session;
        let session = match &consultation.session {
            Some(session) => session.clone(),
            None => consultation.clone().assign_session(opener, &[]),
        };
        let settings = Settings {
            session,
            parent: Some(opener.clone()),
            depth: parent.settings.depth + 1,
            fallback: Chains::default(),
            ..parent.settings.clone()
        };
        let (lent, failed) = hooks.lend();
        let mut processor = Processor::new(&parent.pack, lent, settings);
        processor.set_origin(parent.origin.clone());
        Some(SubAgent {
            processor,
            tools: AllowedTools::new(tools, &consultation.consult.tools),
            host_hooks: hooks,
            failed,
        })
    }
}

impl Drop for SubAgent<'_> {
    fn drop(&mut self) {
        let (hooks, _) = self.processor.hooks_mut().lend();
        self.host_hooks.restore(hooks, &self.failed);
    }
}

impl Consultation {
    /// Returns the request that asks the question, to the model of the consultation or to that of `parent`.
    pub(super) fn request(&self, parent: &ParentSession) -> Request {
        let model = self.consult.model.as_ref().unwrap_or(&parent.model);
        Request::new(model, vec![Message::user(&self.consult.prompt)])
    }
}

impl ConsultOutcome {
    /// Returns the outcome of a sub-agent's turn.
    pub(super) fn from_turn(end: End, reply: &Reply) -> ConsultOutcome {
        match end {
            End::Complete { reason } => match last_text(reply) {
                Some(text) if !is_refusal(&reason) => ConsultOutcome::Answered(text),
                _ => ConsultOutcome::Refused { reason },
            },
            // The first half of an answer may mean the opposite of the whole.
            End::Truncated { reason } => ConsultOutcome::Refused { reason },
            End::Aborted {
                reason: AbortReason::User,
                ..
            } => ConsultOutcome::Cancelled,
            End::Aborted { reason, detail, .. } => ConsultOutcome::Failed { reason, detail },
        }
    }
}

/// Returns the text of the last text part, unless it is blank.
fn last_text(reply: &Reply) -> Option<String> {
    let mut parts = reply.parts().iter().rev();
    let last = parts.find(|part| part.channel == Channel::Text)?;
    Some(last.text()).filter(|text| !text.trim().is_empty())
}

/// Returns true if the provider's reason to stop means that it refuses the content, by the names that providers use.
fn is_refusal(reason: &str) -> bool {
    const NAMES: [&str; 5] = [
        "refusal",
        "content_filter",
        "content-filter",
        "SAFETY",
        "blocked",
    ];
    NAMES.iter().any(|name| reason.eq_ignore_ascii_case(name))
}

/// The host's tools limited to those that `consult.tools` names. Without entries there are no tools.
pub(super) struct AllowedTools<'a> {
    tools: &'a dyn Tools,
    scope: Option<ToolScope>,
}

impl<'a> AllowedTools<'a> {
    fn new(tools: &'a dyn Tools, globs: &[String]) -> AllowedTools<'a> {
        // The loader rejects invalid globs. Those of a hook that are invalid allow no tool.
        let scope = (!globs.is_empty()).then(|| ToolScope::new(globs).ok());
        let scope = scope.flatten();
        AllowedTools { tools, scope }
    }

    fn allows(&self, tool: &str) -> bool {
        let scope = self.scope.as_ref();
        scope.is_some_and(|scope| scope.applies(Some(tool)) == Some(true))
    }
}

impl Tools for AllowedTools<'_> {
    fn tools(&self) -> Vec<Tool> {
        let mut tools = self.tools.tools();
        tools.retain(|tool| self.allows(&tool.name));
        tools
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        self.tools.is_concurrent(tool)
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        if self.allows(&call.tool) {
            return self.tools.call(call);
        }
        Box::pin(ready(ToolOutput::error(unknown_tool(&call.tool))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct NamedTools(&'static [&'static str]);

    impl Tools for NamedTools {
        fn tools(&self) -> Vec<Tool> {
            let tool = |name: &&str| Tool {
                name: (*name).to_owned(),
                description: String::new(),
                input: serde_json::Value::Null,
            };
            self.0.iter().map(tool).collect()
        }

        fn call<'a>(&'a self, _: &'a ToolCall) -> ToolFuture<'a> {
            unreachable!("no test calls a tool")
        }
    }

    #[test]
    fn the_tools_of_a_consultation_are_globs_like_those_of_a_rule() {
        let all = NamedTools(&["bash", "Read", "mcp__git__log"]);
        for (globs, allowed) in [
            (&["bash", "read"][..], &["bash", "Read"][..]),
            (&["mcp__*"], &["mcp__git__log"]),
            (&["!bash"], &["Read", "mcp__git__log"]),
            (&["*", "!mcp__*"], &["bash", "Read"]),
            (&[], &[]),
        ] {
            let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
            let found = AllowedTools::new(&all, &globs).tools();
            let found: Vec<String> = found.into_iter().map(|tool| tool.name).collect();
            assert_eq!(found, allowed, "{globs:?}");
        }
    }
}
