//! `ttsr import`: converts rules of other tools into a pack.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use ttsr_cli::foreign::{ForeignFormat, ForeignText, import};

use crate::args::FormatArg;
use crate::output::{Escaped, OutputRecord, RecordWriter, print_message};
use crate::replace::{create, replace};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus};

/// Convert rules of other tools into a pack: gitleaks, oh-my-pi, Cursor, Windsurf, Cline, Claude Code, hookify
///
/// Anything that has no equivalent is reported and kept as a comment in the file; the exit code is then 1. A file
/// that cannot be read is reported, the others are imported, and the exit code is 2. The pack loads without edits.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The format [default: detected for each file]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<ForeignFormat>,
    /// The name of the pack
    #[arg(long, value_name = "NAME", default_value = "imported")]
    name: String,
    /// Output file of the pack [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the output file
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    output: FormatArg,
    /// The files, optionally preceded by the name of their format
    #[arg(required = true, value_name = "[FORMAT] FILE")]
    files: Vec<PathBuf>,
}

fn formats() -> impl TypedValueParser<Value = ForeignFormat> {
    PossibleValuesParser::new(ForeignFormat::ALL.map(ForeignFormat::name)).map(|name| {
        ForeignFormat::from_name(&name).expect("only names of formats are possible values")
    })
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let (format, files) = split_format(options);
    let mut unread = Vec::new();
    let mut texts = Vec::new();
    for path in files {
        match read(path, format) {
            Ok(text) => texts.push(text),
            Err(file) => unread.push(file),
        }
    }
    let foreign: Vec<ForeignText<'_>> = texts
        .iter()
        .map(|(name, format, text)| ForeignText {
            name,
            format: *format,
            text,
        })
        .collect();
    let imported = import(&options.name, &foreign)
        .map_err(|error| CommandError::Message(Escaped(&error).to_string()))?;
    let is_whole = unread.is_empty() && imported.unread.is_empty();
    let none = unread.len() + imported.unread.len() == files.len();
    if let Some(path) = &options.out
        && !none
    {
        let write = match options.force {
            true => replace,
            false => create,
        };
        write(path, imported.toml.as_bytes())
            .map_err(|error| CommandError::of_file(path, &error))?;
    }
    let mut out = RecordWriter::new(options.output.format);
    let shown = options.out.as_ref().map(|path| path.display().to_string());
    for left_out in &imported.left_out {
        out.write(&UnconvertedRecord {
            place: &left_out.place,
            what: &left_out.what,
        })?;
    }
    let unread = unread.iter().map(|file| (&file.place, &file.what));
    let refused = imported.unread.iter().map(|file| (&file.place, &file.what));
    for (place, why) in unread.chain(refused) {
        out.write(&UnreadFile { place, why })?;
    }
    if none {
        out.flush()?;
        return Ok(ExitStatus::Incomplete);
    }
    out.write(&ImportedPack {
        pack: &options.name,
        file: shown.as_deref(),
        toml: shown.is_none().then_some(&imported.toml),
        rules: imported.rules as u64,
        left_out: imported.left_out.len() as u64,
        unread: (files.len() - foreign.len() + imported.unread.len()) as u64,
    })?;
    out.flush()?;
    Ok(match (is_whole, imported.left_out.is_empty()) {
        (false, _) => ExitStatus::Incomplete,
        (true, true) => ExitStatus::Clean,
        (true, false) => ExitStatus::Findings,
    })
}

/// Something that was not converted, or not exactly.
#[derive(Serialize)]
#[serde(tag = "event", rename = "left-out")]
struct UnconvertedRecord<'a> {
    place: &'a str,
    what: &'a str,
}

impl OutputRecord for UnconvertedRecord<'_> {
    fn show(&self, _: &mut dyn Write) -> io::Result<()> {
        let UnconvertedRecord { place, what } = self;
        print_message(&Escaped(&format!("{place}: {what}")));
        Ok(())
    }
}

/// A file that was not imported.
#[derive(Serialize)]
#[serde(tag = "event", rename = "unread")]
struct UnreadFile<'a> {
    place: &'a str,
    why: &'a str,
}

impl OutputRecord for UnreadFile<'_> {
    fn show(&self, _: &mut dyn Write) -> io::Result<()> {
        let UnreadFile { place, why } = self;
        print_message(&Escaped(&format!("{place}: {why}")));
        Ok(())
    }
}

/// The resulting pack.
#[derive(Serialize)]
#[serde(tag = "event", rename = "imported")]
struct ImportedPack<'a> {
    pack: &'a str,
    /// `None` if the pack was not written to a file; it is in `toml`.
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<&'a String>,
    rules: u64,
    left_out: u64,
    unread: u64,
}

impl OutputRecord for ImportedPack<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(toml) = self.toml {
            out.write_all(toml.as_bytes())?;
        }
        let (rules, left_out) = (
            Quantity(self.rules, "rule"),
            Quantity(self.left_out, "thing"),
        );
        match self.unread {
            0 => print_message(&format_args!("{rules}, {left_out} left out or changed")),
            unread => print_message(&format_args!(
                "{rules}, {left_out} left out or changed, {} not read",
                Quantity(unread, "file")
            )),
        }
        Ok(())
    }
}

/// Separates an optional format name from the files. To read a file named like a format, write `./name`.
fn split_format(options: &Options) -> (Option<ForeignFormat>, &[PathBuf]) {
    let first = options.files[0].to_str().and_then(ForeignFormat::from_name);
    match options.from.is_none() && options.files.len() > 1 && first.is_some() {
        true => (first, &options.files[1..]),
        false => (options.from, &options.files),
    }
}

/// A file that was rejected, with the reason.
struct RejectedFile {
    place: String,
    what: String,
}

/// Returns the name of a file, its format and its text.
fn read(
    path: &Path,
    format: Option<ForeignFormat>,
) -> Result<(String, ForeignFormat, String), RejectedFile> {
    let place = path.to_string_lossy().into_owned();
    let refused = |what: String| RejectedFile {
        place: place.clone(),
        what,
    };
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let format = format.or_else(|| ForeignFormat::from_file(&place, &text));
    let format = format.ok_or_else(|| refused("not a known format".to_owned()))?;
    Ok((place, format, text))
}
