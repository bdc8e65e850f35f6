//! The commands in code of another language: the arguments of functions that run a shell, the lines of a crontab, and the
//! lines with which clients of databases leave for a shell.

use super::calls::{blanks, called_scripts};
use super::event::{CommandId, CommandSink};
use super::layer::{ScriptStreams, run_script};
use super::programs::functions::code_syntax;
use super::text::MappedText;
use super::{ReadContext, ShellSyntax};

/// Returns true if code in the language is searched for commands.
pub(super) fn has_commands(language: &str) -> bool {
    matches!(language, "cron" | "sql") || code_syntax(language).is_some()
}

/// Reads the commands of a code that has ended. Returns those that read and write its standard streams.
pub(super) fn run_embedded<S: CommandSink>(
    code: &MappedText,
    command: CommandId,
    language: &'static str,
    (level, stdin): (usize, &[CommandId]),
    cx: &mut ReadContext<'_, S>,
) -> ScriptStreams {
    let mut streams = ScriptStreams::default();
    for script in scripts(code, language) {
        let place = (ShellSyntax::Posix, level);
        let of_script = run_script(&script, place, command, stdin, cx);
        streams.outputs.extend(&of_script.outputs);
        streams.stdin_code = streams.stdin_code.or(of_script.stdin_code);
    }
    streams
}

/// Returns the scripts that the code runs, in their order.
fn scripts(code: &MappedText, language: &str) -> Vec<MappedText> {
    match language {
        "cron" => {
            let commands = lines(code).map(|(from, to)| code.slice(from, to));
            commands.filter_map(|line| cron_command(&line)).collect()
        }
        "sql" => {
            // Most lines have none, and are not copied.
            let escapes = lines(code).filter_map(|line| shell_escape(code.bytes(), line));
            escapes.map(|(from, to)| code.slice(from, to)).collect()
        }
        _ => {
            let syntax = code_syntax(language);
            syntax.map_or_else(Vec::new, |syntax| called_scripts(code, syntax))
        }
    }
}

/// Returns the start and the end of each line.
fn lines(code: &MappedText) -> impl Iterator<Item = (usize, usize)> {
    let mut from = 0;
    code.bytes().split(|byte| *byte == b'\n').map(move |line| {
        let start = from;
        from += line.len() + 1;
        (start, start + line.len())
    })
}

/// Returns the command of a line of a crontab: after five fields or a word such as `@daily`, up to `%`.
fn cron_command(line: &MappedText) -> Option<MappedText> {
    let bytes = line.bytes();
    let fields = match bytes.trim_ascii_start().first()? {
        b'@' => 1,
        _ => 5,
    };
    let mut at = 0;
    for _ in 0..fields {
        at += blanks(&bytes[at..]);
        let is_blank = |byte: &u8| matches!(byte, b' ' | b'\t');
        let len = bytes[at..].iter().position(is_blank)?;
        if fields == 5 && !is_cron_field(&bytes[at..at + len]) {
            return None;
        }
        at += len;
    }
    at += blanks(&bytes[at..]);
    let mut command = MappedText::default();
    while at < bytes.len() && bytes[at] != b'%' {
        let escapes = bytes[at..].starts_with(b"\\%");
        let from = at + usize::from(escapes);
        let plain = bytes[from + 1..].iter();
        let len = 1 + plain.take_while(|it| !matches!(it, b'%' | b'\\')).count();
        command.append(&line.slice(from, from + len));
        at = from + len;
    }
    (command.len() > 0).then_some(command)
}

/// Returns true if the word is one of the five fields of a time: numbers, `*`, and the names of months and days.
fn is_cron_field(field: &[u8]) -> bool {
    let names: [&[u8]; 2] = [
        b"jan feb mar apr may jun jul aug sep oct nov dec",
        b"sun mon tue wed thu fri sat",
    ];
    let is_name = |word: &[u8]| {
        let known = names.iter().flat_map(|it| it.split(|byte| *byte == b' '));
        word.is_empty() || { known }.any(|name| name.eq_ignore_ascii_case(word))
    };
    let is_sign = |byte: &u8| byte.is_ascii_digit() || b"*/,-~?".contains(byte);
    !field.is_empty() && field.split(is_sign).all(is_name)
}

/// Returns the place of the command in a line with which a client of databases leaves for a shell: `.shell …` and
/// `.system …` of sqlite3, `\! …` of psql and mysql.
fn shell_escape(code: &[u8], (from, to): (usize, usize)) -> Option<(usize, usize)> {
    let line = code[from..to].trim_ascii_start();
    let escapes: [&[u8]; 3] = [b".shell ", b".system ", b"\\!"];
    let command = escapes.iter().find_map(|it| line.strip_prefix(*it))?;
    Some((to - command.len(), to))
}
