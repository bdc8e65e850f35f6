//! The patterns of a rule: the regions and arguments in which they are searched must exist on its channels.

use super::{KeyFault, contradiction};
use crate::pack::check::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::rule::{Action, Channel, Pattern, PatternKind, Region, Rule};
use ttsr_views::command::may_have_commands;
use ttsr_views::fold::FoldSet;

/// Reports the contradictions in the patterns of a rule.
pub(super) fn faults(rule: &Rule, found: &mut Vec<KeyFault>) {
    let condition = &rule.condition;
    for (key, patterns) in [
        ("match.any", &condition.any),
        ("match.all", &condition.all),
        ("match.sequence", &condition.sequence),
        ("match.none", &condition.none),
    ] {
        for written in patterns {
            pattern_scope(key, written, rule, found);
            arguments(key, written, rule, found);
        }
    }
    raw_fault(rule, found);
    let is_text = |channel: &&Channel| **channel != Channel::ToolInput;
    let is_command = |pattern: &Pattern| pattern.kind == PatternKind::Command;
    let reads_calls = rule.on.contains(&Channel::ToolInput);
    if let Some(channel) = rule.on.iter().find(is_text)
        && reads_calls
        && condition.has_commands()
        && condition.patterns().all(is_command)
    {
        let why = format!(
            "all patterns of the rule are commands, which are read from `tool-input`, not from `{}`",
            channel.name()
        );
        found.push(super::no_effect(
            "on",
            &why,
            "write `on = [\"tool-input\"]`",
        ));
    }
}

/// Rejects `raw` where a match needs a position or is combined with others: an unreadable command has no position.
fn raw_fault(rule: &Rule, found: &mut Vec<KeyFault>) {
    let condition = &rule.condition;
    let has_raw = |patterns: &[Pattern]| {
        let mut commands = patterns.iter().filter_map(|it| it.command.as_deref());
        commands.any(|command| command.raw.is_some())
    };
    let combined = [
        ("match.all", has_raw(&condition.all)),
        ("match.sequence", has_raw(&condition.sequence)),
        ("match.none", has_raw(&condition.none)),
    ];
    if let Some((key, _)) = combined.into_iter().find(|(_, has_raw)| *has_raw) {
        let help = "write the pattern in `match.any`, or remove `raw`";
        found.push(contradiction(
            key,
            "`raw` is only for patterns of `match.any`",
            help,
        ));
    }
    if !has_raw(&condition.any) {
        return;
    }
    for (is_there, key) in [
        (!condition.none.is_empty(), "match.none"),
        (condition.count.is_some(), "match.count"),
        (rule.action == Action::Redact, "action"),
    ] {
        if is_there {
            let why = match key {
                "action" => "`raw` has no match that could be redacted".to_owned(),
                _ => format!("`raw` cannot be combined with `{key}`"),
            };
            found.push(contradiction(key, why, "remove `raw`, or write two rules"));
        }
    }
}

/// Reports arguments that exclude each other, and commands in arguments that no command is read from.
fn arguments(key: &'static str, written: &Pattern, rule: &Rule, found: &mut Vec<KeyFault>) {
    if !rule.on.contains(&Channel::ToolInput) {
        return;
    }
    let pattern = quote(&written.text);
    if let Some(arg) = &written.arg
        && !rule.args.is_empty()
        && rule.args.iter().all(|other| are_apart(arg, other))
    {
        let why = format!("pattern {pattern} is searched in `arg`, which `args` leaves out");
        found.push(contradiction(key, why, "remove one of the two"));
    }
    let (name, globs) = match &written.arg {
        Some(arg) => ("arg", std::slice::from_ref(arg)),
        None => ("args", &rule.args[..]),
    };
    let is_unread = !globs.is_empty() && !globs.iter().any(|glob| may_have_commands(glob));
    if written.kind == PatternKind::Command && is_unread {
        let why = format!("pattern {pattern} is a command, and `{name}` leaves no commands");
        let help = format!(
            "commands are read from {}; remove `{name}`, or name one of these",
            COMMAND_ARGUMENTS
        );
        found.push(contradiction(key, why, &help));
    }
}

/// The arguments that commands are read from, for a message.
const COMMAND_ARGUMENTS: &str =
    "`command`, `cmd`, `script`, `input`, `commands.*`, `argv.*` and `$raw`";

/// Returns true if two globs on arguments have no argument in common, as far as their text tells.
pub(super) fn are_apart(one: &str, other: &str) -> bool {
    let is_exact = |glob: &str| !glob.contains(['*', '?', '[', '{', '\\']);
    is_exact(one) && is_exact(other) && one != other
}

fn pattern_scope(key: &'static str, written: &Pattern, rule: &Rule, found: &mut Vec<KeyFault>) {
    if !rule.on.contains(&Channel::ToolInput) {
        report_tool_call_only_keys(key, written, found);
    }
    edits(key, written, rule, found);
    if let Some((one, other)) = disjoint(&written.region) {
        found.push(contradiction(
            key,
            format!("no text is in both regions `{}` and `{}`", one.name(), other.name()),
            "a list of regions selects the text that is in all of them; for alternatives, write two patterns",
        ));
    }
    let missing = written
        .fold
        .iter()
        .find(|fold| FoldSet::from_name(fold.name()).is_none());
    if let Some(fold) = missing {
        let message = format!(
            "the fold `{}` needs the feature `unicode`, which this build of ttsr does not have",
            fold.name()
        );
        let fault = Fault::new(&code::MISSING_FEATURE, message);
        found.push((
            key,
            fault.with_help("build with `--features unicode`, or leave the fold out"),
        ));
    }
    if has_twice(&written.fold) || has_twice(&written.region) {
        found.push(contradiction(
            key,
            "a region or a fold is named twice",
            "name it once",
        ));
    }
}

/// Reports arguments and regions that only tool calls have, in a rule that does not read them.
fn report_tool_call_only_keys(key: &'static str, written: &Pattern, found: &mut Vec<KeyFault>) {
    let pattern = quote(&written.text);
    let mut unreachable = |wants: &str, help: &str| {
        let message = format!("pattern {pattern} {wants}: `on` does not name `tool-input`");
        let fault = Fault::new(&code::UNREACHABLE_SCOPE, message);
        found.push((key, fault.with_help(help)));
    };
    if written.kind == PatternKind::Command {
        unreachable(
            "is a command, which only tool calls have",
            "add \"tool-input\" to `on`",
        );
    }
    if written.arg.is_some() {
        unreachable("has `arg`", "add \"tool-input\" to `on`, or remove `arg`");
    }
    if let Some(region) = written.region.iter().find(|region| is_of_calls(region)) {
        let name = region.name();
        unreachable(
            &format!("looks in `{name}`, which only tool calls have"),
            &format!("add \"tool-input\" to `on`, or leave out the region `{name}`"),
        );
    }
}

/// Reports regions of tool calls that are combined with arguments, or that tool calls do not have. An edit's regions are
/// found in several arguments together, so `args` could not select among them.
fn edits(key: &'static str, written: &Pattern, rule: &Rule, found: &mut Vec<KeyFault>) {
    let is_call = rule.on.contains(&Channel::ToolInput);
    let region = written.region.first().filter(|_| is_call);
    let Some(region) = region.filter(|_| !written.region.contains(&Region::Shell)) else {
        return;
    };
    let narrowed = match written.arg {
        Some(_) => Some("arg"),
        None => (!rule.args.is_empty()).then_some("args"),
    };
    if let Some(narrowed) = narrowed {
        let message = format!(
            "`{narrowed}` cannot be combined with the region `{}` of tool calls: an edit is read from all its arguments",
            region.name()
        );
        let help = format!(
            "remove `{narrowed}`, and narrow the rule by `tools` and `paths`; or remove the region"
        );
        found.push((key, Fault::new(&code::NO_EFFECT, message).with_help(help)));
    }
    let markdown = written.region.iter().find(|region| is_markdown(region));
    if let (Some(region), [Channel::ToolInput]) = (markdown, &rule.on[..]) {
        let message = format!("tool calls have no region `{}`", region.name());
        let help = "add `text` or `reasoning` to `on`, or use `added`, `file`, `shell`, `comment`, `string`, `code-only` or `uncommented`";
        found.push((
            key,
            Fault::new(&code::UNREACHABLE_SCOPE, message).with_help(help),
        ));
    }
}

fn has_twice<T: PartialEq>(list: &[T]) -> bool {
    list.iter()
        .enumerate()
        .any(|(index, one)| list[..index].contains(one))
}

/// Returns true for the regions of Markdown, which tool calls do not have.
fn is_markdown(region: &Region) -> bool {
    matches!(
        region,
        Region::Prose
            | Region::Code
            | Region::CodeIn(_)
            | Region::InlineCode
            | Region::Quote
            | Region::Heading
    )
}

/// Returns true for the regions that only tool calls have.
fn is_of_calls(region: &Region) -> bool {
    matches!(
        region,
        Region::File | Region::Added | Region::Removed | Region::Shell
    )
}

/// Returns two regions of the list that never overlap.
fn disjoint(regions: &[Region]) -> Option<(&Region, &Region)> {
    let after = |index: usize| regions[index + 1..].iter();
    let pairs = regions.iter().enumerate();
    let mut pairs = pairs.flat_map(|(index, one)| after(index).map(move |other| (one, other)));
    pairs.find(|(one, other)| {
        let is_one_language =
            is_code(one) && is_code(other) && [one, other].contains(&&&Region::Code);
        let is_comment = matches!(
            (one, other),
            (Region::Comment, Region::Uncommented) | (Region::Uncommented, Region::Comment)
        );
        let is_call_and_markdown =
            is_markdown(one) && is_of_calls(other) || is_of_calls(one) && is_markdown(other);
        let is_group = group(one).is_some() && group(one) == group(other);
        one != other && (is_comment || is_call_and_markdown || is_group && !is_one_language)
    })
}

fn is_code(region: &Region) -> bool {
    matches!(region, Region::Code | Region::CodeIn(_))
}

/// Returns the group of a region. Regions of the same group exclude each other.
fn group(region: &Region) -> Option<u8> {
    match region {
        Region::Code | Region::CodeIn(_) | Region::Prose | Region::InlineCode | Region::Heading => {
            Some(0)
        }
        Region::Added | Region::Removed => Some(1),
        Region::Comment | Region::String | Region::CodeOnly => Some(2),
        Region::Quote | Region::File | Region::Shell | Region::Uncommented => None,
    }
}
