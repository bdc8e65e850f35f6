//! Asking a sub-agent before a tool call runs.
//!
//! Owns what is asked, within which bounds, and what may come of it. Rules ask with the action `consult`,
//! hooks with [`Before::consult`](super::Before::consult); a host asks with [`consult`] itself.

use std::fmt;
use std::future::ready;
use std::time::Duration;

use super::call::{After, ToolCall, ToolFuture, Tools, unknown};
use super::fallback::Chains;
use super::hooks::Hooks;
use super::message::{Message, Request, Tool};
use super::processor::{Processor, Settings};
use super::provider::Provider;
use super::run::Cancel;
use super::step::{End, Reason, Step};
use super::turn::{Turn, TurnOutcome};
use crate::rule::Consult;
use crate::view::path::ToolScope;
use crate::{Channel, Decision, Origin, Pack, Session};

/// What a sub-agent is asked about a tool call.
///
/// # Example: what a host asks
/// ```
/// use std::time::Duration;
/// use ttsr::rule::Consult;
/// use ttsr::harness::consult::Consultation;
/// let question = Consult { timeout_millis: 5_000, ..Consult::new("Is this commit fit to go?") };
/// let asked = Consultation::new("review", "call_1", question);
/// assert_eq!(asked.timeout(), Duration::from_secs(5));
/// assert_eq!(asked.decision, None, "no rule asks");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Consultation {
    /// Who asks: the full id of a rule, or the name of a hook.
    pub by: String,
    /// The decision it rests on, if a rule asks.
    pub decision: Option<Decision>,
    /// The id of the tool call.
    pub call: String,
    /// The id of the sub-agent's session. `None`: made of the id of the session that asks and that of the
    /// call, with a slash between.
    pub session: Option<String>,
    /// What is asked: the prompt is filled in.
    pub consult: Consult,
}

impl Consultation {
    /// What a host asks about a tool call.
    pub fn new(by: impl Into<String>, call: impl Into<String>, consult: Consult) -> Consultation {
        Consultation {
            by: by.into(),
            decision: None,
            call: call.into(),
            session: None,
            consult,
        }
    }

    /// Gives the sub-agent a session below `parent` that is none of `others`. Returns its id.
    pub(super) fn open_below(&mut self, parent: &str, others: &[String]) -> String {
        let first = format!("{parent}/{}", self.call);
        let numbered = (2..).map(|number| format!("{first}-{number}"));
        let mut sessions = [first.clone()].into_iter().chain(numbered);
        let session = sessions.find(|session| !others.contains(session));
        let session = session.unwrap_or(first);
        self.session = Some(session.clone());
        session
    }

    /// How long the sub-agent may take.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_millis(self.consult.timeout_millis)
    }
}

/// What came of asking.
///
/// # Example: what is said of it
/// ```
/// use ttsr::harness::consult::Consulted;
/// assert_eq!(Consulted::TimedOut.to_string(), "the sub-agent took too long");
/// let answered = Consulted::Answered("Looks fine.".into());
/// assert_eq!(answered.to_string(), "the sub-agent answered", "not what: that is for the model");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Consulted {
    /// The sub-agent's last text.
    Answered(String),
    /// It took too long.
    TimedOut,
    /// Its provider failed, or a rule cut it.
    Failed {
        /// The kind of reason.
        reason: Reason,
        /// What went wrong.
        detail: String,
    },
    /// It had nothing to say, its provider would not let it, or its answer was cut off by a limit.
    Refused {
        /// The provider's reason to stop.
        reason: String,
    },
    /// The user cancelled.
    Cancelled,
    /// The one who asks is a sub-agent itself.
    Nested,
}

impl fmt::Display for Consulted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Consulted::Answered(_) => f.write_str("the sub-agent answered"),
            Consulted::TimedOut => f.write_str("the sub-agent took too long"),
            Consulted::Failed { reason, detail } if detail.is_empty() => {
                write!(f, "the sub-agent failed: {}", reason.name())
            }
            Consulted::Failed { detail, .. } => write!(f, "the sub-agent failed: {detail}"),
            Consulted::Refused { reason } => write!(f, "the sub-agent gave no answer: {reason}"),
            Consulted::Cancelled => f.write_str("the user cancelled"),
            Consulted::Nested => f.write_str("a sub-agent asks nobody"),
        }
    }
}

/// What a sub-agent needs to know of the session that asks.
#[derive(Clone, Debug)]
pub struct Parent {
    /// Its settings. The sub-agent has the same, but for its own id and depth, the parent's id, and models to
    /// fall back to, which it has none.
    pub settings: Settings,
    /// The rules that apply to the sub-agent too.
    pub pack: Pack,
    /// Who is behind it, for rules that are limited to some.
    pub origin: Origin,
    /// Its model: the sub-agent's, unless the rule names another.
    pub model: String,
}

/// Asks a sub-agent: a session of its own, below that of `parent`, over the same provider and with the
/// tools that the consultation allows. `watch` sees its steps.
///
/// It ends within the consultation's timeout, and at once if the user cancels: then the transport and the
/// tool at work are dropped. A sub-agent asks nobody.
///
/// `hooks` are called in the sub-agent's session as in that of `parent`, at every point: what keeps a call from
/// running there keeps it from running here. They are lent for that time, and are back when the future is done
/// or dropped.
///
/// # Example: a host asks
/// ```
/// use ttsr::rule::Consult;
/// use ttsr::{Origin, Pack};
/// use ttsr::harness::consult::{Consultation, Consulted, Parent, consult};
/// use ttsr::harness::{Cancel, Hooks, NoTools, Script, Scripted, Settings};
/// let mut provider = Scripted::new([Script::default().text("Looks fine.").finish("stop")]);
/// let parent = Parent {
///     settings: Settings { session: "ses_1".into(), ..Settings::default() },
///     pack: Pack::builder().build()?,
///     origin: Origin::default(),
///     model: "large".into(),
/// };
/// let mut question = Consult::new("Is this commit fit to go?");
/// question.model = Some("small".into());
/// let question = Consultation::new("review", "call_1", question);
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
/// let (mut tools, mut hooks, cancel) = (NoTools, Hooks::default(), Cancel::default());
/// let asking =
///     consult(&mut provider, &mut tools, &mut hooks, &parent, &question, &cancel, |_| {});
/// assert_eq!(runtime.block_on(asking), Consulted::Answered("Looks fine.".into()));
/// assert_eq!(provider.requests()[0].model, "small");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub async fn consult<P: Provider + ?Sized>(
    provider: &mut P,
    tools: &mut dyn Tools,
    hooks: &mut Hooks,
    parent: &Parent,
    consultation: &Consultation,
    cancel: &Cancel,
    mut watch: impl FnMut(&Step) + Send,
) -> Consulted {
    if parent.settings.depth > 0 {
        return Consulted::Nested;
    }
    let asked = &consultation.consult;
    let mut consultation = consultation.clone();
    let opener = &parent.settings.session;
    let session = match &consultation.session {
        Some(session) => session.clone(),
        None => consultation.open_below(opener, &[]),
    };
    let settings = Settings {
        session,
        parent: Some(opener.clone()),
        depth: parent.settings.depth + 1,
        fallback: Chains::default(),
        ..parent.settings.clone()
    };
    let mut child = Child::new(parent.pack.session(), hooks, settings);
    let processor = &mut child.processor;
    processor.set_origin(parent.origin.clone());
    let mut tools = Allowed::new(tools, &asked.tools);
    let model = asked.model.as_ref().unwrap_or(&parent.model);
    let request = Request::new(model, vec![Message::user(&asked.prompt)]);
    let turn = Turn::new(processor, provider, &mut tools, cancel.clone());
    let asking = turn.run_alone(request, &consultation.call, &mut watch);
    match tokio::time::timeout(consultation.timeout(), asking).await {
        Err(_late) => Consulted::TimedOut,
        Ok(outcome) => Consulted::of(outcome),
    }
}

/// The session of a sub-agent. It has the host's hooks until it is dropped, wherever its future is.
struct Child<'a> {
    processor: Processor,
    host: &'a mut Hooks,
    /// For each hook whether it had failed in the reply of the host.
    failed: Vec<bool>,
}

impl<'a> Child<'a> {
    fn new(session: Session, host: &'a mut Hooks, settings: Settings) -> Child<'a> {
        let (hooks, failed) = host.lend();
        Child {
            processor: Processor::new(session, hooks, settings),
            host,
            failed,
        }
    }
}

impl Drop for Child<'_> {
    fn drop(&mut self) {
        let (hooks, _) = self.processor.hooks_mut().lend();
        self.host.take_back(hooks, &self.failed);
    }
}

impl Consulted {
    fn of(outcome: TurnOutcome) -> Consulted {
        match outcome.end {
            End::Complete { reason } => match outcome.reply.last_text() {
                Some(text) if !is_refusal(&reason) => Consulted::Answered(text),
                _ => Consulted::Refused { reason },
            },
            // Half a verdict may say the opposite of the whole one.
            End::Truncated { reason } => Consulted::Refused { reason },
            End::Aborted {
                reason: Reason::User,
                ..
            } => Consulted::Cancelled,
            End::Aborted { reason, detail, .. } => Consulted::Failed { reason, detail },
        }
    }
}

/// Whether the provider stopped the reply because of what is in it, by the names that providers have.
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

/// The tools that `consult.tools` names: no entries, no tools.
struct Allowed<'a> {
    tools: &'a mut dyn Tools,
    scope: Option<ToolScope>,
}

impl<'a> Allowed<'a> {
    fn new(tools: &'a mut dyn Tools, globs: &[String]) -> Allowed<'a> {
        // Globs that cannot be read are refused at load.
        let scope = (!globs.is_empty()).then(|| ToolScope::new(globs).ok());
        let scope = scope.flatten();
        Allowed { tools, scope }
    }

    fn has(&self, tool: &str) -> bool {
        let scope = self.scope.as_ref();
        scope.is_some_and(|scope| scope.applies(Some(tool)) == Some(true))
    }
}

impl Tools for Allowed<'_> {
    fn tools(&self) -> Vec<Tool> {
        let mut tools = self.tools.tools();
        tools.retain(|tool| self.has(&tool.name));
        tools
    }

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        if self.has(&call.tool) {
            return self.tools.call(call);
        }
        Box::pin(ready(After::error(unknown(&call.tool))))
    }
}

/// What the model is told where it was asked about a call: the call waits for it.
pub(super) const PAUSED: &str = "The call has not run yet: somebody was asked about it first, and the \
    answer follows. Send the same call again to run it, send another one, or leave it.";

/// The answer, as the model hears of it.
pub(super) fn advice(consultation: &Consultation, answer: &str) -> Message {
    Message::steering(format!(
        "About your call {} ({} asked):\n\n{answer}",
        consultation.call, consultation.by
    ))
}

/// Why a call is blocked that could not be asked about.
pub(super) fn blocked(consultation: &Consultation, consulted: &Consulted) -> String {
    format!(
        "The call was blocked: {} wants it checked, and {consulted}.",
        consultation.by
    )
}

impl super::reply::Reply {
    /// What its last part of text holds, if that is more than white space.
    fn last_text(&self) -> Option<String> {
        let mut parts = self.parts().iter().rev();
        let last = parts.find(|part| part.channel == Channel::Text)?;
        Some(last.text()).filter(|text| !text.trim().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Named(&'static [&'static str]);

    impl Tools for Named {
        fn tools(&self) -> Vec<Tool> {
            let tool = |name: &&str| Tool {
                name: (*name).to_owned(),
                description: String::new(),
                input: serde_json::Value::Null,
            };
            self.0.iter().map(tool).collect()
        }

        fn call<'a>(&'a mut self, _: &'a ToolCall) -> ToolFuture<'a> {
            unreachable!("no test calls a tool")
        }
    }

    #[test]
    fn the_tools_of_a_consultation_are_globs_like_those_of_a_rule() {
        let mut all = Named(&["bash", "Read", "mcp__git__log"]);
        for (globs, allowed) in [
            (&["bash", "read"][..], &["bash", "Read"][..]),
            (&["mcp__*"], &["mcp__git__log"]),
            (&["!bash"], &["Read", "mcp__git__log"]),
            (&["*", "!mcp__*"], &["bash", "Read"]),
            (&[], &[]),
        ] {
            let globs: Vec<String> = globs.iter().map(|&glob| glob.to_owned()).collect();
            let found = Allowed::new(&mut all, &globs).tools();
            let found: Vec<String> = found.into_iter().map(|tool| tool.name).collect();
            assert_eq!(found, allowed, "{globs:?}");
        }
    }
}
