//! Grants: the actions that a pack requests in `grants`, and those that the host allows.

use super::super::check::draft::{Draft, Place};
use super::super::check::fault::Fault;
use crate::pack::diagnostic::code;
use crate::rule::{Action, Rule, Severity};

/// Returns a fault for each action of a rule that is not granted. `asked` returns the `grants` of the pack that chose the
/// action, or `None` if the pack sets itself no limit. `granted` are the actions that the host allows.
pub(in crate::pack) fn ungranted(
    draft: &Draft,
    asked: impl Fn(&Place) -> Option<Vec<Action>>,
    granted: Option<&[Action]>,
) -> Vec<(Place, Fault)> {
    let mut found = Vec::new();
    for (action, place) in actions(draft) {
        if asked(&place).is_some_and(|asked| !asked.contains(&action)) {
            let name = action.name();
            let message = format!("action `{name}` is not in the `grants` of its pack");
            let fault = Fault::new(&code::MISSING_GRANT, message).with_help(format!(
                "add \"{name}\" to `grants` in `[pack]`, or use a weaker action"
            ));
            found.push((place, fault));
        } else if granted.is_some_and(|granted| !granted.contains(&action)) {
            found.push((place, refused(action)));
        }
    }
    found
}

/// Returns the faults of a rule made in code, for which only the host grants actions.
pub(in crate::pack) fn ungranted_in_code(rule: &Rule, granted: Option<&[Action]>) -> Vec<Fault> {
    let granted = granted.unwrap_or(&Action::ALL);
    let used = [Some(rule.action), action_after_retries(rule)]
        .into_iter()
        .flatten();
    let used = used.filter(|action| action.needs_grant() && !granted.contains(action));
    used.map(refused).collect()
}

fn refused(action: Action) -> Fault {
    let message = format!("action `{}` is not granted by the host", action.name());
    Fault::new(&code::NOT_GRANTED, message)
        .with_help("override the rule with a weaker action, or let the host grant this one")
}

/// Returns the actions of a rule that need a grant, with the place at which each is chosen.
fn actions(draft: &Draft) -> Vec<(Action, Place)> {
    let at = |given: Option<&super::super::check::draft::WrittenKey>| {
        given.map_or_else(|| draft.place.clone(), |given| given.at.clone())
    };
    let own = (draft.rule.action, at(draft.action_from.as_ref()));
    let then = action_after_retries(&draft.rule)
        .map(|then| (then, at(draft.latest_written("retry.then"))));
    let used = [Some(own), then].into_iter().flatten();
    used.filter(|(action, _)| action.needs_grant()).collect()
}

/// Returns the action once the retries are used up, written or implied.
pub(in crate::pack) fn action_after_retries(rule: &Rule) -> Option<Action> {
    let unsaid = match rule.severity {
        Severity::Critical => Action::Abort,
        _ => Action::Warn,
    };
    (rule.action == Action::Retry).then(|| rule.retry.then.unwrap_or(unsaid))
}
