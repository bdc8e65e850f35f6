//! Counts the rules that can act on a server from outside.

use std::cmp::Reverse;
use std::fmt;

use super::server::ServerApi;
use super::watch::can_act;
use ttsr::{Action, Channel, Mode, Pack, Rule};

/// The number of rules of a pack that can act on a server, and the reasons why the others cannot.
///
/// # Example: a rule that redacts
/// ```
/// use ttsr_agent::opencode::{ServerApi, ActionSupport};
/// use ttsr::{Action, Pack, Pattern, Rule};
/// let retry = Rule::new("demo/no-unwrap", vec![Pattern::literal(".unwrap()")]);
/// let mut redact = Rule::new("demo/token", vec![Pattern::literal("tok-1")]);
/// redact.action = Action::Redact;
/// let pack = Pack::builder().rule(retry).rule(redact).build()?;
/// let reach = ActionSupport::from_pack(&pack, ServerApi::Classic, false);
/// assert_eq!((reach.acting, reach.rules), (1, 2));
/// assert_eq!(
///     reach.to_string(),
///     "1 of 2 rules can act here; 1 with `redact`: only reported, not possible from outside"
/// );
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ActionSupport {
    /// The number of rules.
    pub rules: usize,
    /// The number of rules that can act.
    pub acting: usize,
    /// The reasons of the others, each with its number of rules, the most frequent first.
    pub others: Vec<(usize, String)>,
}

impl ActionSupport {
    /// Counts the rules of `pack` for a server whose sessions are driven through `api`. `has_fallback` is true if
    /// chains of models are configured.
    #[must_use]
    pub fn from_pack(pack: &Pack, api: ServerApi, has_fallback: bool) -> ActionSupport {
        let mut reach = ActionSupport::default();
        for rule in pack.rules() {
            reach.rules += 1;
            let Some(reason) = obstacle(rule, api, has_fallback) else {
                reach.acting += 1;
                continue;
            };
            match reach.others.iter_mut().find(|(_, known)| *known == reason) {
                Some((count, _)) => *count += 1,
                None => reach.others.push((1, reason)),
            }
        }
        reach.others.sort_by_key(|(count, _)| Reverse(*count));
        reach
    }
}

impl fmt::Display for ActionSupport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} rules can act here", self.acting, self.rules)?;
        for (count, reason) in &self.others {
            write!(f, "; {count} {reason}")?;
        }
        Ok(())
    }
}

/// Returns true if the server reports the texts of that channel.
fn is_reported(channel: Channel) -> bool {
    Channel::STREAMED.contains(&channel) || channel == Channel::ToolOutput
}

/// Returns the reason why the rule cannot act, or `None` if it can.
fn obstacle(rule: &Rule, api: ServerApi, has_fallback: bool) -> Option<String> {
    if rule.mode == Mode::Shadow {
        return Some("in shadow mode".to_owned());
    }
    let action = rule.action;
    if action == Action::Fallback {
        let reason =
            "with `fallback`: only with a chain of models (`--fallback`), classic interface";
        return (!has_fallback || api == ServerApi::Next).then(|| reason.to_owned());
    }
    let mut heard = rule.on.iter().filter(|on| is_reported(**on));
    if heard.clone().next().is_none() {
        return Some("on channels that the server does not report".to_owned());
    }
    if matches!(action, Action::Warn | Action::Observe) {
        return Some(format!("with `{}`: only reported", action.name()));
    }
    if !can_act(action, api) {
        return Some(format!(
            "with `{}`: only reported, not possible from outside",
            action.name()
        ));
    }
    let is_late = api == ServerApi::Classic && heard.all(|on| *on == Channel::ToolInput);
    is_late.then(|| {
        "on tool calls: in time only with `--api next` or `permission: ask`, else the call has run"
            .to_owned()
    })
}
