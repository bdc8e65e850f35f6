//! Assignments whose values programs run, such as `GIT_EDITOR=…` before `git commit`.

use super::super::chunk::OffsetMap;
use super::ReadContext;
use super::ShellSyntax;
use super::event::{CommandId, CommandSink};
use super::layer::{ScriptStreams, outputs_are_code, run_script};
use super::programs::variables::{VariableUse, variable_use};
use super::text::MappedText;
use super::word::ReadWord;

/// Reads the value of an assignment as a script of `command`, if programs run it. It begins at `value` in the word.
pub(super) fn run_variable<S: CommandSink>(
    command: CommandId,
    word: &ReadWord<'_>,
    (name, value): (usize, usize),
    level: usize,
    cx: &mut ReadContext<'_, S>,
) -> ScriptStreams {
    let script = match variable_use(&word.bytes()[..name]) {
        None => return ScriptStreams::default(),
        Some(VariableUse::Script) => script_of(word, value),
        Some(VariableUse::SourcedFile) => match sourced(word, value) {
            Some(script) => script,
            None => return ScriptStreams::default(),
        },
    };
    outputs_are_code(command, word, cx);
    run_script(&script, (ShellSyntax::Posix, level), command, &[], cx)
}

/// Returns the value without the marks of a filter of `less`.
fn script_of(word: &ReadWord<'_>, value: usize) -> MappedText {
    let text = word.bytes();
    let is_mark = |byte: &&u8| matches!(byte, b'|' | b'-');
    let marks = text[value..].iter().take_while(is_mark).count();
    word.text.slice(value + marks, text.len())
}

/// Returns a script that reads the file, as the shell does. `ENV` also names environments, such as `ENV=production`, so
/// only a path or a substitution counts.
fn sourced(word: &ReadWord<'_>, value: usize) -> Option<MappedText> {
    let text = &word.bytes()[value..];
    let is_file = text.iter().any(|byte| matches!(byte, b'/' | b'`')) || text.starts_with(b"$(");
    if !is_file || word.traits.expanded() {
        return None;
    }
    let at = word.start;
    let mut script = MappedText::default();
    script.push(b". ", OffsetMap::Replacement { start: at, end: at });
    script.append(&word.text.slice(value, word.bytes().len()));
    Some(script)
}
