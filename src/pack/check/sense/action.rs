//! What a rule does: whether it can be done where the rule reads, and how often.

use super::{Found, contradiction, no_effect, reads_stream, zero};
use crate::pack::check::condition::triggers;
use crate::pack::check::fault::Fault;
use crate::pack::check::{draft, option, scope};
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::pack::message;
use crate::rule::{Action, Allowance, Case, Channel, Partial, Repeat, Retry, Rule, Status};

/// Everything that makes no sense in where the rule reads and in what it does.
pub(super) fn faults(rule: &Rule, found: &mut Vec<Found>) {
    captures(rule, found);
    scopes(rule, found);
    action(rule, found);
    options(rule, found);
    bounds(rule, found);
    cases(rule, found);
}

fn scopes(rule: &Rule, found: &mut Vec<Found>) {
    for (key, entries) in [
        ("tools", &rule.tools),
        ("args", &rule.args),
        ("paths", &rule.paths),
    ] {
        if !entries.is_empty() && !scope::is_reachable(key, &rule.on) {
            found.push((key, scope::unreachable(key)));
        }
    }
}

/// Captures of a message: of texts that come whole, and of groups that a pattern has.
fn captures(rule: &Rule, found: &mut Vec<Found>) {
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
            "`capture.{name}` needs a text that comes whole, and `{}` comes in pieces",
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
    for regex in rule
        .condition
        .any
        .iter()
        .filter_map(crate::pack::captures::regex)
    {
        match regex {
            Ok(regex) => known.extend(crate::pack::captures::group_names(&regex)),
            // What is no pattern at all is told elsewhere; look-around captures nothing.
            Err(error) => {
                if let Some(bytes) = error.size_limit() {
                    let message = format!("a pattern with captures needs more than {bytes} bytes");
                    let fault = Fault::new(&code::PATTERN_TOO_BIG, message);
                    found.push(("match.any", fault.with_help("repeat less in it")));
                }
            }
        }
    }
    for name in names.iter().filter(|name| !known.contains(name)) {
        let message = format!("no pattern of `match.any` has a group {}", quote(name));
        let help = match known.is_empty() {
            true => format!(
                "name one: `(?<{name}>…)`; patterns with `fold`, `region` or look-around capture nothing"
            ),
            false => format!("there is: {}", known.join(", ")),
        };
        found.push((
            "message",
            Fault::new(&code::CAPTURE_GROUP, message).with_help(help),
        ));
    }
}

/// Whether the action can be done where the rule reads.
fn action(rule: &Rule, found: &mut Vec<Found>) {
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
                    "it takes text out of what is passed on: name another channel in `on`",
                );
            }
            Action::Consult if *channel != Channel::ToolInput => {
                refuse(
                    *channel,
                    "it asks before a tool call runs: write `on = [\"tool-input\"]`",
                );
            }
            action if action.is_for_whole_text() && is_streamed => {
                refuse(
                    *channel,
                    "it is for texts that come whole: `tool-output`, `user-input` or `error` in `on`",
                );
            }
            _ => {}
        }
    }
    let condition = &rule.condition;
    let has_span = !condition.any.is_empty() || condition.leak || condition.unknown_name.is_some();
    if rule.action == Action::Redact && !has_span {
        let kind = triggers(condition)[0];
        found.push(contradiction(
            "action",
            format!("`redact` needs one text to take out; `{kind}` has none"),
            "use `any`, or another action",
        ));
    }
}

/// Options of actions that the rule does not take.
fn options(rule: &Rule, found: &mut Vec<Found>) {
    let is = |action| rule.action == action;
    let of = |key: &'static str, action: &str| {
        no_effect(
            key,
            &format!("it belongs to the action `{action}`"),
            &format!("write `action = \"{action}\"`, or remove `{key}`"),
        )
    };
    if rule.retry != Retry::default() && !is(Action::Retry) {
        found.push(of("retry", "retry"));
    }
    if rule.partial != Partial::default() && !is(Action::Retry) {
        found.push(of("partial", "retry"));
    }
    if rule.replacement.is_some() && !is(Action::Redact) {
        found.push(of("replacement", "redact"));
    }
    if rule.consult.is_some() && !is(Action::Consult) {
        found.push(of("consult", "consult"));
    }
    if rule.header.is_some() && !is(Action::SetHeader) {
        found.push(of("header", "set-header"));
    }
    needs(rule, found);
    let has_candidates = triggers(&rule.condition)
        .iter()
        .any(|kind| ["any", "all", "sequence", "leak", "unknown-name"].contains(kind));
    if rule.hold && !reads_stream(rule) {
        found.push(no_effect(
            "hold",
            "what comes whole does not leak",
            "remove it",
        ));
    } else if rule.hold && !has_candidates {
        found.push(no_effect(
            "hold",
            "there is no text that could be held",
            "it is for patterns; remove it",
        ));
    }
    if rule.replaced_by.is_some() && rule.status != Status::Deprecated {
        found.push(no_effect(
            "replaced-by",
            "the rule is not deprecated",
            "add `status = \"deprecated\"`",
        ));
    }
}

/// Options that an action cannot do without.
fn needs(rule: &Rule, found: &mut Vec<Found>) {
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

/// Bounds that rules made in code may have and rules in files cannot.
fn bounds(rule: &Rule, found: &mut Vec<Found>) {
    if rule
        .retry
        .then
        .is_some_and(|then| !crate::pack::schema::THEN.contains(&then))
    {
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
    if let Some(header) = &rule.header {
        let faults = [
            option::header_name(&header.name),
            option::header_value(&header.value),
        ];
        found.extend(faults.into_iter().flatten().map(|fault| ("header", fault)));
    }
}

/// What a case expects, the rule must be able to do.
fn cases(rule: &Rule, found: &mut Vec<Found>) {
    for case in &rule.cases {
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
            found.push(contradiction(
                "case",
                why,
                "write `expect = \"nothing\"`, or add the channel to `on`",
            ));
        }
        if *expected != rule.action && draft::then(rule) != Some(*expected) {
            let why = format!(
                "a case expects `{}`, the rule does `{}`",
                expected.name(),
                rule.action.name()
            );
            found.push(contradiction(
                "case",
                why,
                "write what the rule does, or `nothing`",
            ));
        }
    }
}
