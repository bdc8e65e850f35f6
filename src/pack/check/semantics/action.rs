//! The action of a rule: its channels, its options and its bounds.

use super::{KeyFault, contradiction, no_effect, reads_stream, zero};
use crate::pack::captures;
use crate::pack::check::draft::{self, Draft};
use crate::pack::check::fault::Fault;
use crate::pack::check::scope;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::load_context::LoadContext;
use crate::pack::message;
use crate::pack::schema::{KeyInfo, RULE, THEN};
use crate::rule::{Action, Allowance, Case, Channel, Repeat, Rule, Status};

/// Reports the contradictions in the scope and in the action of a rule.
pub(super) fn faults(
    draft: &Draft,
    context: &LoadContext<'_>,
    trigger: &'static KeyInfo,
    found: &mut Vec<KeyFault>,
) {
    let rule = &draft.rule;
    capture_names(rule, context, found);
    scopes(draft, found);
    action(rule, trigger, found);
    options(draft, found);
    needs(rule, found);
    hold(rule, found);
    bounds(rule, found);
    cases(rule, found);
}

/// Reports scopes on tool calls in a rule that reads none.
fn scopes(draft: &Draft, found: &mut Vec<KeyFault>) {
    let on = &draft.rule.on;
    let unread = RULE.iter().filter(|key| !key.head.reads_any(on));
    for key in unread.filter(|key| key.is_set(draft)) {
        found.push((key.head.path, scope::unreachable(key.head.path)));
    }
    let tools = &draft.rule.tools;
    let has_tool = |channel| [Channel::ToolInput, Channel::ToolOutput].contains(channel);
    let all = tools.iter().rposition(|glob| glob == "!*");
    let is_empty = all.is_some_and(|all| tools[all..].iter().all(|glob| glob.starts_with('!')));
    // Other channels have no tool, and `tools` does not apply to them.
    if is_empty && on.iter().all(has_tool) {
        found.push(contradiction(
            "tools",
            "`tools` excludes every tool: the last glob that matches a name decides, and `!*` matches all",
            "write `!*` first, or remove it",
        ));
    }
}

/// Reports captures of a message or a prompt on streamed channels, and captures of groups that no pattern has.
pub(super) fn capture_names(rule: &Rule, context: &LoadContext<'_>, found: &mut Vec<KeyFault>) {
    let prompt = rule.consult.iter().map(|consult| consult.prompt.as_str());
    let asked = prompt.flat_map(message::captures).next();
    let names = rule.message.as_deref().map(message::captures);
    let names = names.unwrap_or_default();
    let streamed = rule
        .on
        .iter()
        .find(|channel| Channel::STREAMED.contains(channel));
    let key = if asked.is_some() {
        "consult.prompt"
    } else {
        "message"
    };
    if let Some(name) = asked.as_ref().or(names.first())
        && let Some(channel) = streamed
    {
        let why = format!(
            "`capture.{name}` needs a complete text, and `{}` arrives in deltas",
            channel.name()
        );
        let help =
            "write `match.text`, or name only `tool-output`, `user-input` or `error` in `on`";
        found.push(contradiction(key, why, help));
        return;
    }
    if names.is_empty() {
        return;
    }
    let mut known = Vec::new();
    let patterns = rule.condition.any.iter();
    for hir in patterns.filter_map(|pattern| captures::hir(pattern, context)) {
        captures::add_group_names(&hir, &mut known);
        if let Some(bytes) = captures::exceeded_bytes(&hir) {
            let message = format!("a pattern with captures needs more than {bytes} bytes");
            let fault = Fault::new(&code::PATTERN_TOO_BIG, message);
            found.push((
                "match.any",
                fault.with_help("lower the counts of its repetitions"),
            ));
        }
    }
    for name in names.iter().filter(|name| !known.contains(name)) {
        let message = format!("no pattern of `match.any` has a group {}", quote(name));
        let help = match known.is_empty() {
            true => format!(
                "add a group `(?<{name}>…)`; patterns with `fold`, `region` or look-around capture nothing"
            ),
            false => format!("the patterns have: {}", known.join(", ")),
        };
        found.push((
            "message",
            Fault::new(&code::CAPTURE_GROUP, message).with_help(help),
        ));
    }
}

/// Reports an action that cannot be taken on a channel of the rule, or with its trigger.
fn action(rule: &Rule, trigger: &KeyInfo, found: &mut Vec<KeyFault>) {
    let name = rule.action.name();
    let mut refuse = |channel: Channel, help: &str| {
        let message = format!("action `{name}` cannot be done on `{}`", channel.name());
        found.push((
            "action",
            Fault::new(&code::ACTION_CHANNEL, message).with_help(help),
        ));
    };
    for channel in &rule.on {
        let is_streamed = Channel::STREAMED.contains(channel);
        match rule.action {
            Action::Redact if *channel == Channel::Error => {
                refuse(
                    *channel,
                    "`redact` replaces text that is passed on: use another channel in `on`",
                );
            }
            Action::Consult if *channel != Channel::ToolInput => {
                refuse(
                    *channel,
                    "`consult` asks before a tool call runs: write `on = [\"tool-input\"]`",
                );
            }
            action if action.is_for_whole_text() && is_streamed => {
                refuse(
                    *channel,
                    "the action applies to complete texts: write only `tool-output`, `user-input` or `error` in `on`",
                );
            }
            _ => {}
        }
    }
    let condition = &rule.condition;
    let has_span = !condition.any.is_empty() || condition.leak || condition.unknown_name.is_some();
    if rule.action == Action::Redact && !has_span {
        let kind = trigger.name();
        found.push(contradiction(
            "action",
            format!("`redact` needs a text to replace; `{kind}` has none"),
            "use `any`, or another action",
        ));
    }
}

/// Reports options of an action that the rule does not take, and `replaced-by` of a rule that is not deprecated.
fn options(draft: &Draft, found: &mut Vec<KeyFault>) {
    let rule = &draft.rule;
    let unset = Draft::new(String::new(), draft.place.clone());
    for key in RULE {
        let for_action = key
            .head
            .action
            .filter(|for_action| *for_action != rule.action);
        if let Some(for_action) = for_action
            && key.value(draft) != key.value(&unset)
        {
            let (path, action) = (key.head.path, for_action.name());
            found.push(no_effect(
                path,
                &format!("it belongs to the action `{action}`"),
                &format!("write `action = \"{action}\"`, or remove `{path}`"),
            ));
        }
    }
    if rule.replaced_by.is_some() && rule.status != Status::Deprecated {
        found.push(no_effect(
            "replaced-by",
            "the rule is not deprecated",
            "add `status = \"deprecated\"`",
        ));
    }
}

/// Reports `hold` in a rule that has no text to hold back.
fn hold(rule: &Rule, found: &mut Vec<KeyFault>) {
    if let Some((why, help)) = without_held_text(rule).filter(|_| rule.hold) {
        found.push(no_effect("hold", why, help));
    }
}

/// Returns the reason why the rule has no text to hold back, and the help for its author.
pub(in crate::pack::check) fn without_held_text(
    rule: &Rule,
) -> Option<(&'static str, &'static str)> {
    let condition = &rule.condition;
    let patterns = [&condition.any, &condition.all, &condition.sequence];
    let has_candidates = condition.leak
        || condition.unknown_name.is_some()
        || patterns.iter().any(|patterns| !patterns.is_empty());
    if !reads_stream(rule) {
        let why = "complete texts are checked before they are delivered";
        return Some((why, "remove it"));
    }
    let why = "the rule has no matched text to hold back";
    (!has_candidates).then_some((why, "`hold` applies to patterns; remove it"))
}

/// Reports an action without the options that it needs.
fn needs(rule: &Rule, found: &mut Vec<KeyFault>) {
    let mut missing = |path: &'static str, help: &str| {
        let message = format!("action `{}` needs `{path}`", rule.action.name());
        found.push((
            "action",
            Fault::new(&code::MISSING_KEY, message).with_help(help),
        ));
    };
    if rule.action == Action::Consult
        && rule
            .consult
            .as_ref()
            .is_none_or(|consult| consult.prompt.is_empty())
    {
        missing("consult.prompt", "write `consult = { prompt = \"…\" }`");
    }
    let is_whole =
        |header: &crate::rule::Header| !header.name.is_empty() && !header.value.is_empty();
    if rule.action == Action::SetHeader && !rule.header.as_ref().is_some_and(is_whole) {
        missing(
            "header",
            "write `header = { name = \"x-route\", value = \"careful\" }`",
        );
    }
}

/// Reports values that rules in files cannot have, and rules made in code can.
fn bounds(rule: &Rule, found: &mut Vec<KeyFault>) {
    if rule.retry.then.is_some_and(|then| !THEN.contains(&then)) {
        found.push(contradiction(
            "retry.then",
            "`then` cannot be this action",
            "`observe`, `warn`, `inject`, `handoff` or `abort`",
        ));
    }
    let Repeat {
        cooldown_turns,
        per_turn,
        per_session,
    } = rule.repeat.unwrap_or_default();
    let Allowance {
        per_turn: allowed,
        per_session: in_all,
    } = rule.allowance;
    for (number, key) in [
        (cooldown_turns, "repeat.cooldown-turns"),
        (per_turn, "repeat.per-turn"),
        (per_session, "repeat.per-session"),
        (allowed, "allowance.per-turn"),
        (in_all, "allowance.per-session"),
    ] {
        if number == Some(0) {
            found.push(zero(key));
        }
    }
}

/// Reports cases with an expectation that the rule cannot meet.
fn cases(rule: &Rule, found: &mut Vec<KeyFault>) {
    for (index, case) in rule.cases.iter().enumerate() {
        let Case {
            channel,
            expect: Some(expected),
            ..
        } = case
        else {
            continue;
        };
        if !rule.on.contains(channel) {
            let why = format!(
                "a case expects something on `{}`, which the rule does not read",
                channel.name()
            );
            let help = "write `expect = \"nothing\"`, or add the channel to `on`";
            let (path, fault) = contradiction("case", why, help);
            found.push((path, fault.in_case(index)));
        }
        if *expected != rule.action && draft::named_retry_then(rule) != Some(*expected) {
            let why = format!(
                "a case expects `{}`, the rule does `{}`",
                expected.name(),
                rule.action.name()
            );
            let help = "write what the rule does, or `nothing`";
            let (path, fault) = contradiction("case", why, help);
            found.push((path, fault.in_case(index)));
        }
    }
}
