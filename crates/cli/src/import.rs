//! `ttsr import`: rules of other tools become a pack.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use serde::Serialize;
use ttsr_cli::foreign::{Foreign, Format, import};

use crate::args::FormatArg;
use crate::output::{Escaped, Out, Record, tell};
use crate::tally::Count;
use crate::{Outcome, Stop};

/// Turn rules of other tools into a pack: gitleaks, oh-my-pi, Cursor, Windsurf, Cline, Claude Code, hookify
///
/// What cannot be carried over is told, and stands as a comment in the file; then the exit code is 1. A file that
/// cannot be read is told, the others are imported, and the exit code is 2. The pack loads as it is.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The format [default: found by looking at each file]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    from: Option<Format>,
    /// The name of the pack
    #[arg(long, value_name = "NAME", default_value = "imported")]
    name: String,
    /// Where the pack is written [default: the standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Overwrite the file of `--out`
    #[arg(long, requires = "out")]
    force: bool,
    #[command(flatten)]
    output: FormatArg,
    /// A format, if it is named here, and the files
    #[arg(required = true, value_name = "[FORMAT] FILE")]
    files: Vec<PathBuf>,
}

fn formats() -> impl TypedValueParser<Value = Format> {
    PossibleValuesParser::new(Format::ALL.map(Format::name))
        .map(|name| Format::from_name(&name).expect("only names of formats are possible values"))
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let (format, files) = split(options);
    let mut unread = Vec::new();
    let mut texts = Vec::new();
    for path in files {
        match read(path, format) {
            Ok(text) => texts.push(text),
            Err(file) => unread.push(file),
        }
    }
    let foreign: Vec<Foreign<'_>> = texts
        .iter()
        .map(|(name, format, text)| Foreign {
            name,
            format: *format,
            text,
        })
        .collect();
    let imported = import(&options.name, &foreign)
        .map_err(|error| Stop::Because(Escaped(&error).to_string()))?;
    let is_whole = unread.is_empty() && imported.unread.is_empty();
    let none = unread.len() + imported.unread.len() == files.len();
    if let Some(path) = &options.out
        && !none
    {
        match options.force {
            true => crate::new::overwrite(path, &imported.toml)?,
            false => crate::new::write(path, &imported.toml)?,
        }
    }
    let mut out = Out::new(options.output.format);
    let shown = options.out.as_ref().map(|path| path.display().to_string());
    for left_out in &imported.left_out {
        out.write(&Left {
            place: &left_out.place,
            what: &left_out.what,
        })?;
    }
    let unread = unread.iter().map(|file| (&file.place, &file.what));
    let refused = imported.unread.iter().map(|file| (&file.place, &file.what));
    for (place, why) in unread.chain(refused) {
        out.write(&Unread { place, why })?;
    }
    if none {
        out.flush()?;
        return Ok(Outcome::Incomplete);
    }
    out.write(&Pack {
        pack: &options.name,
        file: shown.as_deref(),
        toml: shown.is_none().then_some(&imported.toml),
        rules: imported.rules as u64,
        left_out: imported.left_out.len() as u64,
        unread: (files.len() - foreign.len() + imported.unread.len()) as u64,
    })?;
    out.flush()?;
    Ok(match (is_whole, imported.left_out.is_empty()) {
        (false, _) => Outcome::Incomplete,
        (true, true) => Outcome::Clean,
        (true, false) => Outcome::Findings,
    })
}

/// Something that could not be carried over.
#[derive(Serialize)]
#[serde(tag = "event", rename = "left-out")]
struct Left<'a> {
    place: &'a str,
    what: &'a str,
}

impl Record for Left<'_> {
    fn show(&self, _: &mut dyn Write) -> io::Result<()> {
        let Left { place, what } = self;
        tell(&Escaped(&format!("{place}: {what}")));
        Ok(())
    }
}

/// A file of which nothing was imported.
#[derive(Serialize)]
#[serde(tag = "event", rename = "unread")]
struct Unread<'a> {
    place: &'a str,
    why: &'a str,
}

impl Record for Unread<'_> {
    fn show(&self, _: &mut dyn Write) -> io::Result<()> {
        let Unread { place, why } = self;
        tell(&Escaped(&format!("{place}: {why}")));
        Ok(())
    }
}

/// The pack that came of it.
#[derive(Serialize)]
#[serde(tag = "event", rename = "imported")]
struct Pack<'a> {
    pack: &'a str,
    /// None: it was not written, and is in `toml`.
    file: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    toml: Option<&'a String>,
    rules: u64,
    left_out: u64,
    unread: u64,
}

impl Record for Pack<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        if let Some(toml) = self.toml {
            out.write_all(toml.as_bytes())?;
        }
        let (rules, left_out) = (Count(self.rules, "rule"), Count(self.left_out, "thing"));
        match self.unread {
            0 => tell(&format_args!("{rules}, {left_out} left out or changed")),
            unread => tell(&format_args!(
                "{rules}, {left_out} left out or changed, {} not read",
                Count(unread, "file")
            )),
        }
        Ok(())
    }
}

/// The format, and the files behind it. A file that is called like a format is read as `./name`.
fn split(options: &Options) -> (Option<Format>, &[PathBuf]) {
    let first = options.files[0].to_str().and_then(Format::from_name);
    match options.from.is_none() && options.files.len() > 1 && first.is_some() {
        true => (first, &options.files[1..]),
        false => (options.from, &options.files),
    }
}

/// A file that is not imported.
struct Refused {
    place: String,
    what: String,
}

/// The name of a file, its format and its text.
fn read(path: &Path, format: Option<Format>) -> Result<(String, Format, String), Refused> {
    let place = path.to_string_lossy().into_owned();
    let refused = |what: String| Refused {
        place: place.clone(),
        what,
    };
    let text = fs::read_to_string(path).map_err(|error| refused(error.to_string()))?;
    let format = format.or_else(|| Format::of_file(&place, &text));
    let format = format.ok_or_else(|| refused("no format that is known".to_owned()))?;
    Ok((place, format, text))
}
