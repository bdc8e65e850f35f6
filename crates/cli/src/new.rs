//! `ttsr new`: creates a rule file from a template.

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::args::FormatArg;
use crate::output::{Escaped, OutputRecord, RecordWriter, print_message};
use crate::replace::create;
use crate::{CommandError, ExitStatus};

/// Create a rule file with one working rule and comments that explain what to change
///
/// An existing file is not changed.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The name of the pack, such as `team/rust`
    #[arg(value_name = "PACK")]
    pack: String,
    /// A sentence that forbids something: `never do X`. The rule searches for the text in backticks or quotes,
    /// or else for the text after `never`
    #[arg(long, value_name = "TEXT")]
    from_text: Option<String>,
    /// Output file, or `-` for the standard output [default: the last part of the name with `.toml`]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
}

/// A new rule file.
#[derive(Serialize)]
#[serde(tag = "event", rename = "new")]
struct NewPack<'a> {
    pack: &'a str,
    /// `None` if the pack was not written to a file; it is in `toml`.
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<&'a str>,
}

impl OutputRecord for NewPack<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(toml) = self.toml {
            out.write_all(toml.as_bytes())?;
        }
        if let Some(file) = self.file {
            print_message(&format_args!(
                "wrote {0}: edit it, then `ttsr check {0}` and `ttsr test {0}`",
                Escaped(file)
            ));
        }
        Ok(())
    }
}

const TEMPLATE: &str = include_str!("new/template.toml");

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let file = options.pack.rsplit('/').next().unwrap_or_default();
    let path = options
        .out
        .clone()
        .unwrap_or_else(|| format!("{file}.toml").into());
    let toml = match &options.from_text {
        None => TEMPLATE.replace("\"PACK\"", &text(&options.pack)),
        Some(sentence) => of_sentence(&options.pack, sentence)?,
    };
    // The template itself always loads, so only the arguments can be wrong.
    if let Err(error) = ttsr::Pack::from_toml(&toml) {
        let first = error.diagnostics().first();
        let reason = first.map_or_else(|| error.to_string(), |first| first.message().to_owned());
        return Err(CommandError::Message(Escaped(&reason).to_string()));
    }
    let shown = path.display().to_string();
    let is_file = path.as_os_str() != "-";
    if is_file {
        create(&path, toml.as_bytes()).map_err(|error| CommandError::of_file(&path, &error))?;
    }
    let mut out = RecordWriter::new(options.format.format);
    out.write(&NewPack {
        pack: &options.pack,
        file: is_file.then_some(&shown),
        toml: (!is_file).then_some(&toml),
    })?;
    out.flush()?;
    Ok(ExitStatus::Clean)
}

fn of_sentence(pack: &str, sentence: &str) -> Result<String, CommandError> {
    let sentence = sentence.trim();
    let forbidden = forbidden_text(sentence);
    if forbidden.is_empty() {
        return Err(CommandError::Message(
            "the sentence names nothing to search for".to_owned(),
        ));
    }
    let ends_are_words = [forbidden.chars().next(), forbidden.chars().last()]
        .iter()
        .all(|end| end.is_some_and(|c| c.is_alphanumeric() || c == '_'));
    let kind = if ends_are_words { "word" } else { "literal" };
    let (forbidden, sentence) = (text(forbidden), text(sentence));
    Ok(format!(
        "schema = 1

[pack]
name = {}
version = \"0.1.0\"

[rule.{}]
description = {sentence}
# Sets the action: info observes, warning injects, error cuts and retries, critical aborts.
severity = \"warning\"
why = {sentence}
# EDIT: matched literally. List every spelling, or use {{ regex = '...' }}.
match.any = [{{ {kind} = {forbidden} }}]
# EDIT: tell the model what to do instead. Do not repeat the forbidden text here.
message = \"`{{{{ match.text }}}}` is not wanted here.\"
examples.match = [{forbidden}]
examples.no-match = [\"an unrelated text\"]
",
        text(pack),
        id(forbidden.trim_matches(['"', '\''])),
    ))
}

/// Returns the text that a sentence forbids: the quoted text, or the text after a word such as `never`.
fn forbidden_text(sentence: &str) -> &str {
    for quote in ['`', '"', '\'', '“'] {
        let close = if quote == '“' { '”' } else { quote };
        let quoted = sentence
            .split_once(quote)
            .and_then(|(_, rest)| rest.split_once(close));
        if let Some((quoted, _)) = quoted.filter(|(quoted, _)| !quoted.trim().is_empty()) {
            return quoted;
        }
    }
    let sentence = sentence.trim_end_matches(['.', '!']);
    let rest = after_any(sentence, &["never ", "do not ", "don't ", "no "]).unwrap_or(sentence);
    let rest = after_any(rest, &["use ", "write ", "run ", "say ", "call "]).unwrap_or(rest);
    rest.trim()
}

/// Returns the rest of the text after the first of `starts` that it begins with, ignoring case.
fn after_any<'a>(text: &'a str, starts: &[&str]) -> Option<&'a str> {
    starts.iter().find_map(|start| {
        let (begin, rest) = text.split_at_checked(start.len())?;
        begin.eq_ignore_ascii_case(start).then_some(rest)
    })
}

fn id(text: &str) -> String {
    let plain = text.chars().map(|c| match c.to_ascii_lowercase() {
        c @ ('a'..='z' | '0'..='9') => c,
        _ => '-',
    });
    let plain: String = plain.collect();
    let words = plain.split('-').filter(|word| !word.is_empty()).take(6);
    let words: Vec<&str> = words.collect();
    format!(
        "no-{}",
        if words.is_empty() {
            "such-text".to_owned()
        } else {
            words.join("-")
        }
    )
}

fn text(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_forbidden_text_of_a_sentence_is_found() {
        for (sentence, expected) in [
            ("never use unwrap", "unwrap"),
            ("Never run `git push --force`!", "git push --force"),
            ("do not say \"As an AI\".", "As an AI"),
            ("console.log", "console.log"),
            ("never", "never"),
            ("never ``x", "``x"),
            ("é", "é"),
        ] {
            assert_eq!(forbidden_text(sentence), expected, "{sentence}");
        }
    }

    #[test]
    fn every_sentence_makes_a_pack_that_loads_and_matches_its_example() {
        for sentence in [
            "never use unwrap",
            "never `x\\y'\"z`",
            "never do 漢字",
            "never \u{7}",
            "no !!",
            "never a\nb",
        ] {
            let Ok(toml) = of_sentence("team/x", sentence) else {
                // A sentence without a text to search for is rejected with a message.
                assert!(!sentence.contains("use"), "{sentence}");
                continue;
            };
            let pack = ttsr::Pack::from_toml(&toml)
                .unwrap_or_else(|error| panic!("{sentence}: {error}\n{toml}"));
            let rule = &pack.rules()[0];
            let mut stream = pack.stream();
            stream.open(ttsr::PartId(0), ttsr::Channel::Text);
            let mut hits = stream
                .push(ttsr::PartId(0), rule.examples.matching[0].as_bytes())
                .len();
            hits += stream.close(ttsr::PartId(0)).len();
            assert_eq!(hits, 1, "{sentence}");
        }
    }
}
