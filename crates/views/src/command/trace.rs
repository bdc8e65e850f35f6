//! The commands of a text as lines for people.

use std::collections::BTreeMap;
use std::fmt;

use super::event::{
    CommandEvent, CommandId, CommandSink, CommandWord, ParentCommand, ParentRelation, WordRole,
};

/// A sink that collects the commands, and displays one line for each: its number, assignments, program, subcommands,
/// flags in brackets, operands in parentheses, redirections, `in:` with the working directory if the text has changed
/// it, `<-N` for the output of command N as its standard input, the languages of its code, and the command that
/// contains it.
///
/// For explanations and tests: unlike the reader, it keeps every command.
#[derive(Clone, Debug, Default)]
pub struct CommandTrace {
    commands: BTreeMap<CommandId, TracedCommand>,
}

#[derive(Clone, Debug, Default)]
struct TracedCommand {
    words: Vec<String>,
    inputs: Vec<String>,
    code: Vec<u8>,
    parent: Option<ParentCommand>,
}

fn text(bytes: &[u8]) -> String {
    bytes
        .escape_ascii()
        .to_string()
        .replace("\\\'", "'")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
}

impl CommandTrace {
    fn command(&mut self, command: CommandId) -> &mut TracedCommand {
        self.commands.entry(command).or_default()
    }

    fn word(&mut self, word: &CommandWord<'_>) {
        let words = &mut self.command(word.command).words;
        // Each flag of a cluster has the text of the whole word, so it is only escaped where it is shown.
        let shown = match &word.role {
            WordRole::Program { name } => text(name),
            WordRole::Subcommand => text(word.text),
            WordRole::Flag { name, value: None } => format!("[{}]", text(name)),
            WordRole::Flag {
                name,
                value: Some(value),
            } => format!("[{}={}]", text(name), text(value)),
            WordRole::Value { flag } => {
                let flag = format!("[{}]", text(flag));
                if words.last() == Some(&flag) {
                    words.pop();
                }
                format!("{}={}]", flag.trim_end_matches(']'), text(word.text))
            }
            WordRole::Separator => "--".into(),
            _ => format!("({})", text(word.text)),
        };
        words.push(shown);
    }
}

impl CommandSink for CommandTrace {
    fn event(&mut self, event: CommandEvent<'_>, _decided: u64) {
        match event {
            CommandEvent::Begin { command, parent } => self.command(command).parent = parent,
            CommandEvent::Directory { command, path } => {
                let shown = format!("in:{}", text(path));
                self.command(command).inputs.push(shown);
            }
            CommandEvent::Word(word) => self.word(&word),
            CommandEvent::Pipe { from, to } => {
                self.command(to).inputs.push(format!("<-{}", from.0));
            }
            CommandEvent::Assignment {
                command,
                name,
                value,
            } => {
                let shown = format!("{{{}={}}}", text(name), text(value.text));
                self.command(command).words.push(shown);
            }
            CommandEvent::Redirection {
                command,
                descriptor,
                operator,
                target,
            } => {
                let descriptor = descriptor.map_or(String::new(), |number| number.to_string());
                let shown = format!("{descriptor}{operator}({})", text(target.text));
                self.command(command).words.push(shown);
            }
            CommandEvent::StdinIsCode { command, language } => {
                self.command(command)
                    .inputs
                    .push(format!("stdin:{language}"));
            }
            CommandEvent::OutputIsCode { command, from } => {
                self.command(command)
                    .inputs
                    .push(format!("runs the output of {}", from.0));
            }
            CommandEvent::Output { from, to } => {
                let shown = format!("has the output of {}", from.0);
                self.command(to).inputs.push(shown);
            }
            CommandEvent::Code { command, chunk, .. } => {
                self.command(command).code.extend_from_slice(chunk.bytes);
            }
            CommandEvent::CodeEnd { command } => {
                let traced = self.command(command);
                let code = text(&std::mem::take(&mut traced.code));
                traced.inputs.push(format!("code:<{code}>"));
            }
            // The file name is already among the words, so nothing is recorded.
            CommandEvent::FileIsCode { .. } | CommandEvent::End { .. } => {}
        }
    }
}

impl fmt::Display for CommandTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (command, traced) in &self.commands {
            write!(f, "{}:", command.0)?;
            for word in traced.words.iter().chain(&traced.inputs) {
                write!(f, " {word}")?;
            }
            if let Some(parent) = traced.parent {
                let relation = match parent.relation {
                    ParentRelation::Wrapped => "wrapped by",
                    ParentRelation::Script => "in a script of",
                    ParentRelation::Substitution => "substituted in",
                };
                write!(f, " {relation} {}", parent.command.0)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
