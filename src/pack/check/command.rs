//! The faults of the patterns of commands: names, flags and globs that no command can match.

use super::fault::Fault;
use super::pattern;
use crate::pack::diagnostic::code;
use crate::pack::escape::{self, quote};
use crate::pack::load_context::LoadContext;
use crate::program::{MAX_FLAGS, alternatives};
use crate::rule::{CommandRequirements, Pattern, PatternKind};
use ttsr_views::command::program_spec;
use ttsr_views::glob::{Glob, GlobOptions};
use ttsr_views::path::PathScope;

/// The most subcommands of a pattern.
const SUBCOMMANDS: usize = 6;

/// Returns the faults of a pattern, each with its key.
pub(in crate::pack) fn faults(
    pattern: &Pattern,
    context: &LoadContext<'_>,
) -> Vec<(&'static str, Fault)> {
    let mut found = Vec::new();
    let requirements = pattern.command.as_deref();
    if pattern.kind != PatternKind::Command {
        if requirements.is_some() {
            let message = format!(
                "a pattern with `{}` has no requirements on a command",
                pattern.kind.name()
            );
            let help = "write `command = \"…\"`, or remove `flags`, `operand` and the like";
            found.push((pattern.kind.name(), malformed(message).with_help(help)));
        }
        return found;
    }
    name_faults(&pattern.text, &mut found);
    for (is_set, key) in [
        (!pattern.region.is_empty(), "region"),
        (!pattern.fold.is_empty(), "fold"),
        (pattern.unless.is_some(), "unless"),
    ] {
        if is_set {
            let message = format!(
                "`{key}` has no effect: a command is read without quotes, from the input of tools"
            );
            found.push((
                key,
                Fault::new(&code::NO_EFFECT, message).with_help("remove it"),
            ));
        }
    }
    if let Some(requirements) = requirements {
        requirement_faults(requirements, context, &mut found);
    }
    found
}

fn malformed(message: impl Into<String>) -> Fault {
    Fault::new(&code::COMMAND, message)
}

/// Reports a command that is not a program and its subcommands, with one blank between them.
fn name_faults(text: &str, found: &mut Vec<(&'static str, Fault)>) {
    let names: Vec<&str> = text.split(' ').collect();
    let is_blank = |name: &&str| name.is_empty() || name.contains(char::is_whitespace);
    if names.iter().any(is_blank) {
        // An empty text has been reported.
        if !text.is_empty() {
            let message = "the names of a command are separated by one blank";
            found.push((
                "command",
                malformed(message).with_help("such as `git push`"),
            ));
        }
        return;
    }
    if names.len() > SUBCOMMANDS + 1 {
        let message = format!("a command has more than {SUBCOMMANDS} subcommands");
        found.push(("command", malformed(message)));
    }
    if let Some(flag) = names.iter().find(|name| name.starts_with('-')) {
        let message = format!("{} is a flag, not a subcommand", quote(flag));
        let help = format!("write `flags = [\"{flag}\"]`");
        found.push(("command", malformed(message).with_help(help)));
    }
    if names[0].contains('/') {
        let message = "a program is compared by its name, without the folder";
        found.push(("command", malformed(message).with_help("remove the folder")));
    }
    let globs = names.iter().map(|name| glob_fault(name));
    found.extend(globs.flatten().map(|fault| ("command", fault)));
}

fn glob_fault(glob: &str) -> Option<Fault> {
    let error = Glob::new(glob, GlobOptions::default()).err()?;
    let message = format!("glob {}: {}", quote(glob), escape::all(&error.to_string()));
    Some(Fault::new(&code::GLOB, message))
}

fn requirement_faults(
    requirements: &CommandRequirements,
    context: &LoadContext<'_>,
    found: &mut Vec<(&'static str, Fault)>,
) {
    // Without `..`, so that a new requirement gets its check.
    let CommandRequirements {
        flags,
        no_flags,
        operand,
        operands_all,
        last_operand,
        min_operands: _,
        max_operands: _,
        directory,
        code,
        env,
        redirect_to,
        reads,
        stdin_is_code: _,
        file_is_code: _,
        pipe_to,
        pipe_from,
        runs,
        raw,
    } = requirements;
    if flags.len() > MAX_FLAGS {
        let message = format!("`flags` has more than {MAX_FLAGS} entries");
        found.push(("flags", malformed(message)));
    }
    for (key, entries) in [("flags", flags), ("no-flags", no_flags)] {
        let faults = entries.iter().flat_map(|entry| flag_faults(entry));
        found.extend(faults.map(|fault| (key, fault)));
    }
    found.extend(flag_contradiction(flags, no_flags).map(|fault| ("no-flags", fault)));
    for (key, text) in [
        ("operand", operand),
        ("operands-all", operands_all),
        ("last-operand", last_operand),
        ("directory", directory),
        ("code", code),
        ("raw", raw),
    ] {
        let fault = text
            .as_deref()
            .and_then(|text| operand_fault(text, context));
        found.extend(fault.map(|fault| (key, fault)));
    }
    found.extend(operand_count_fault(requirements).map(|fault| ("max-operands", fault)));
    let faults = env.iter().flat_map(|entry| variable_faults(entry));
    found.extend(faults.map(|fault| ("env", fault)));
    for (key, globs) in [("redirect-to", redirect_to), ("reads", reads)] {
        let faults = globs.iter().filter_map(path_glob_fault);
        found.extend(faults.map(|fault| (key, fault)));
    }
    for (key, related) in [
        ("pipe-to", pipe_to),
        ("pipe-from", pipe_from),
        ("runs", runs),
    ] {
        let faults = related
            .iter()
            .flat_map(|it| related_faults(key, it, context));
        found.extend(faults.map(|fault| (key, fault)));
    }
}

/// Returns the fault of a flag that a command must have and must not have.
fn flag_contradiction(flags: &[String], no_flags: &[String]) -> Option<Fault> {
    let refused: Vec<&str> = no_flags.iter().flat_map(|it| it.split('|')).collect();
    let is_refused = |spelling: &str| {
        let name = spelling.split('=').next().unwrap_or(spelling);
        refused.iter().any(|it| *it == spelling || *it == name)
    };
    let wanted = flags.iter().find(|it| it.split('|').all(is_refused))?;
    let message = format!("{} is in both `flags` and `no-flags`", quote(wanted));
    Some(malformed(message).with_help("remove one of the two"))
}

/// Returns the fault of bounds on the operands that no command satisfies.
fn operand_count_fault(requirements: &CommandRequirements) -> Option<Fault> {
    let needs_operand = requirements.operand.is_some()
        || requirements.operands_all.is_some()
        || requirements.last_operand.is_some();
    let min = requirements.min_operands.unwrap_or(0);
    let min = min.max(u32::from(needs_operand));
    let max = requirements.max_operands.filter(|max| *max < min)?;
    let message = format!("no command has at least {min} and at most {max} operands");
    Some(malformed(message).with_help("raise `max-operands`, or remove it"))
}

/// Returns the faults of an entry of `env`.
fn variable_faults(entry: &str) -> Vec<Fault> {
    let mut found = Vec::new();
    let (name, value) = entry.split_once('=').unwrap_or((entry, "*"));
    if name.is_empty() || name.contains(char::is_whitespace) {
        let message = format!("{} names no variable", quote(entry));
        found.push(malformed(message).with_help("write `NAME` or `NAME=value`"));
    }
    found.extend([glob_fault(name), glob_fault(value)].into_iter().flatten());
    found
}

fn path_glob_fault(glob: &String) -> Option<Fault> {
    let error = PathScope::new(std::slice::from_ref(glob)).err()?;
    let message = format!("glob {}: {}", quote(glob), escape::all(&error.to_string()));
    Some(Fault::new(&code::GLOB, message))
}

/// Returns the faults of the command that `key` relates to the command of the pattern.
fn related_faults(key: &str, related: &Pattern, context: &LoadContext<'_>) -> Vec<Fault> {
    let has_relation = |it: &CommandRequirements| {
        it.pipe_to.is_some() || it.pipe_from.is_some() || it.runs.is_some()
    };
    let is_single = related
        .command
        .as_deref()
        .is_none_or(|it| !has_relation(it));
    if related.kind != PatternKind::Command || !is_single {
        let message = format!("`{key}` is a command without `pipe-to`, `pipe-from` and `runs`");
        return vec![malformed(message)];
    }
    let own = pattern::fault(related, context).into_iter();
    let inner = faults(related, context).into_iter();
    own.chain(inner.map(|(_, fault)| fault)).collect()
}

/// Reports spellings that are not flags.
fn flag_faults(entry: &str) -> Vec<Fault> {
    let mut found = Vec::new();
    for spelling in entry.split('|') {
        let (name, value) = spelling.split_once('=').unwrap_or((spelling, "*"));
        let is_flag = name.len() > 1 && name.starts_with(['-', '/', '+']);
        if !is_flag || name.contains(char::is_whitespace) || name == "--" {
            let message = format!("{} is not a flag", quote(spelling));
            let help = "write flags with their dashes: `-f|--force`";
            found.push(malformed(message).with_help(help));
        } else if name.contains(['*', '{', '}', '[', ']']) {
            let message = format!("the name of the flag {} is not a glob", quote(spelling));
            let help = "write out the names: `--aa|--bb`; only the value of a flag is a glob";
            found.push(malformed(message).with_help(help));
        }
        found.extend(glob_fault(value));
    }
    found
}

/// Returns the fault of a regular expression on operands or on the text of a command.
pub(in crate::pack) fn operand_fault(text: &str, context: &LoadContext<'_>) -> Option<Fault> {
    let regex = Pattern::regex(text);
    if context.patterns.has_lookaround(text) {
        let message = "a regular expression on a command has no look-around or back-reference";
        return Some(Fault::new(&code::LOOK_AROUND, message));
    }
    pattern::fault(&regex, context)
}

/// Returns the warnings about `code` of programs that run none, as far as the tables know.
pub(in crate::pack) fn without_code(pattern: &Pattern) -> Vec<Fault> {
    let requirements = pattern.command.as_deref();
    if requirements.is_none_or(|it| it.code.is_none()) {
        return Vec::new();
    }
    let (program, subcommand) = pattern.text.split_once(' ').unwrap_or((&pattern.text, ""));
    let names = alternatives(program).into_iter().filter(|name| {
        let spec = program_spec(name.as_bytes());
        spec.is_some_and(|spec| !spec.runs_code(subcommand))
    });
    let fault = |name: String| {
        let name = [name.as_str(), subcommand].join(" ");
        let message = format!(
            "{} runs no code, so `code` never matches",
            quote(name.trim_end())
        );
        let help = "remove the program; `runs` finds the commands in the script of a shell";
        Fault::new(&code::NEVER_MATCHES, message).with_help(help)
    };
    names.map(fault).collect()
}

/// Returns the warnings about flags that the program of a pattern does not have, as far as the tables know.
pub(in crate::pack) fn unknown_flags(pattern: &Pattern) -> Vec<Fault> {
    let Some(requirements) = pattern.command.as_deref() else {
        return Vec::new();
    };
    let mut names = pattern.text.split(' ');
    let program = names.next().unwrap_or_default();
    let Some(spec) = program_spec(program.as_bytes()) else {
        return Vec::new();
    };
    let subcommand: Vec<&str> = names.collect();
    let subcommand = subcommand.join(" ");
    let entries = requirements.flags.iter().chain(&requirements.no_flags);
    let mut found = Vec::new();
    for entry in entries {
        let names = || {
            entry
                .split('|')
                .map(|it| it.split('=').next().unwrap_or(it))
        };
        let is_unknown = |name: &str| spec.has_flag(&subcommand, name) == Some(false);
        if names().all(is_unknown) {
            let message = format!(
                "{} is not known as a flag of `{}`",
                quote(entry),
                escape::all(&pattern.text)
            );
            let help =
                "correct the spelling; if the program has the flag, the pattern works as it is";
            found.push(Fault::new(&code::UNKNOWN_FLAG, message).with_help(help));
        }
    }
    found
}
