//! `ttsr log`: shows the log of a session stored on disk, or that of a proxy.

mod proxy;

use std::borrow::Cow;
use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

use anstyle::{AnsiColor, Style};
use clap::Args;
use serde::Serialize;
use ttsr::Action;
use ttsr::harness::event::{AbortRecord, DecisionEvent, FinishRecord, LoopEvent};
use ttsr::harness::{Content, Message};
use ttsr_agent::store::{Entry, Record as StoredRecord, StoreReader, StoredItem};
use ttsr_proxy::ProxyLogEvent;
use ttsr_views::glob::{Glob, GlobOptions};

use crate::args::FormatArg;
use crate::output::{Escaped, OutputRecord, RecordWriter, STRONG};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus};

/// Show the log of a session or of a proxy: decisions, requests and messages, with their times
///
/// The file is neither locked nor changed, so the log of a running session can be read. `--rule`, `--action` and
/// `--turn` select entries. A line with a wrong checksum is reported and skipped, and so is the incomplete last
/// line of a killed writer. The exit code is 2 if lines are damaged or missing.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Only decisions of rules whose id matches; `*` matches any text
    #[arg(long, value_name = "RULE")]
    rule: Option<String>,
    /// Only decisions with this action
    #[arg(long, value_name = "ACTION", value_parser = action)]
    action: Option<Action>,
    /// Only events of this turn, counted from 1
    #[arg(long, value_name = "N")]
    turn: Option<u64>,
    #[command(flatten)]
    format: FormatArg,
    /// The session file, or the file of `ttsr proxy --log`
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

fn action(name: &str) -> Result<Action, String> {
    Action::from_name(name).ok_or_else(|| format!("`{name}` is not an action"))
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let because =
        |why: &dyn Display| CommandError::Message(format!("{}: {why}", options.file.display()));
    let mut file = File::open(&options.file).map_err(|error| because(&error))?;
    if proxy::is_proxy_log(&mut file).map_err(|error| because(&error))? {
        let mut out = RecordWriter::new(options.format.format);
        return proxy::show(file, &LogFilter::new(options)?, &mut out);
    }
    let reader = StoreReader::new(file).map_err(|error| because(&error))?;
    let mut log = SessionLog {
        filter: LogFilter::new(options)?,
        turn: 0,
        tally: LogTotals::default(),
        latest: 0,
    };
    let mut out = RecordWriter::new(options.format.format);
    for piece in reader {
        let piece = piece.map_err(|error| because(&error))?;
        log.piece(piece, &mut out)?;
    }
    out.end(&log.tally)?;
    Ok(match log.tally.is_whole() {
        true => ExitStatus::Clean,
        false => ExitStatus::Incomplete,
    })
}

struct LogFilter {
    rule: Option<Glob>,
    action: Option<Action>,
    turn: Option<u64>,
}

impl LogFilter {
    fn new(options: &Options) -> Result<LogFilter, CommandError> {
        let rule = options.rule.as_deref().map(|rule| {
            let glob = Glob::new(rule, GlobOptions::default());
            glob.map_err(|error| CommandError::Message(format!("--rule: {error}")))
        });
        Ok(LogFilter {
            rule: rule.transpose()?,
            action: options.action,
            turn: options.turn,
        })
    }

    /// Returns true for an event of a proxy, which has no turns.
    fn wants_proxy(&self, event: &ProxyLogEvent) -> bool {
        let (rule, action) = match event {
            ProxyLogEvent::Decision { rule, action, .. } => {
                (rule.as_deref(), Action::from_name(action))
            }
            ProxyLogEvent::Reply { by, .. } | ProxyLogEvent::RequestStopped { by } => {
                (by.as_deref(), None)
            }
            _ => (None, None),
        };
        let is_rule = |glob: &Glob| rule.is_some_and(|rule| glob.is_match(rule));
        self.turn.is_none()
            && self.rule.as_ref().is_none_or(is_rule)
            && self.action.is_none_or(|wanted| action == Some(wanted))
    }

    fn wants(&self, entry: &Entry, turn: u64) -> bool {
        let event = match entry {
            Entry::Event { event } => Some(event),
            _ => None,
        };
        let (rule, action) = match event {
            Some(LoopEvent::Decision(decision)) => {
                (decision.rule.as_deref(), Some(decision.action))
            }
            Some(LoopEvent::Aborted(aborted)) if aborted.source == "rule" => {
                (aborted.by.as_deref(), None)
            }
            _ => (None, None),
        };
        let is_rule = |glob: &Glob| rule.is_some_and(|rule| glob.is_match(rule));
        self.turn.is_none_or(|wanted| wanted == turn)
            && self.rule.as_ref().is_none_or(is_rule)
            && self.action.is_none_or(|wanted| action == Some(wanted))
    }
}

struct SessionLog {
    filter: LogFilter,
    /// The turn of the last saved rule state.
    turn: u64,
    tally: LogTotals,
    /// The number of the last record.
    latest: u64,
}

impl SessionLog {
    fn piece(&mut self, piece: StoredItem, out: &mut RecordWriter) -> Result<(), CommandError> {
        match piece {
            StoredItem::Record(record) => return self.record(&record, out),
            StoredItem::Torn { at, bytes } => {
                self.tally.torn_bytes = bytes;
                out.write(&InvalidRecord::new(
                    "torn",
                    at,
                    "the last record was never completed",
                ))?;
            }
            StoredItem::Damaged { at, .. } => {
                self.tally.damaged += 1;
                out.write(&InvalidRecord::new(
                    "damaged",
                    at,
                    "a line with a wrong checksum",
                ))?;
            }
            StoredItem::Unrecognized { at, why } => {
                self.tally.damaged += 1;
                out.write(&InvalidRecord::new("strange", at, &why))?;
            }
            StoredItem::Repeated { seq } => {
                self.tally.damaged += 1;
                out.write(&InvalidRecord::new("repeated", seq, "a duplicate record"))?;
            }
            _ => {}
        }
        Ok(())
    }

    fn record(
        &mut self,
        record: &StoredRecord,
        out: &mut RecordWriter,
    ) -> Result<(), CommandError> {
        self.tally.records += 1;
        self.tally.missing += record.seq - self.latest - 1;
        self.latest = record.seq;
        let mut turns = record.entries.iter().filter_map(turn_of);
        self.turn = turns.next_back().unwrap_or(self.turn);
        for entry in &record.entries {
            match entry {
                Entry::Compacted => self.tally.missing = 0,
                Entry::Lost { events } => self.tally.lost_events += events,
                // Rule state and settled messages only matter to the process that resumes the session.
                Entry::Snapshot { .. } | Entry::Sent => continue,
                _ => {}
            }
            if self.filter.wants(entry, self.turn) {
                out.write(&LogLine {
                    seq: record.seq,
                    at: record.at,
                    turn: self.turn,
                    entry,
                })?;
            }
        }
        Ok(())
    }
}

/// Returns the turn of a saved rule state.
fn turn_of(entry: &Entry) -> Option<u64> {
    match entry {
        Entry::Snapshot { snapshot } => Some(u64::from(snapshot.turns())),
        Entry::Event {
            event: LoopEvent::Decision(decision),
        } => Some(u64::from(decision.turn)),
        _ => None,
    }
}

#[derive(Serialize)]
struct LogLine<'a> {
    seq: u64,
    at: u64,
    turn: u64,
    #[serde(flatten)]
    entry: &'a Entry,
}

const CUT: Style = AnsiColor::Red.on_default();
const SOFT: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();
/// Maximum number of characters shown of a message.
const EXCERPT: usize = 96;

impl OutputRecord for LogLine<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(
            out,
            "{FAINT}{:>5}  {}{FAINT:#}  ",
            self.seq,
            UtcTime(self.at)
        )?;
        match self.entry {
            Entry::Begin { version } => writeln!(out, "begin      ttsr {}", Escaped(version)),
            Entry::Message { message } => show_message(message, out),
            Entry::Waiting { message } => {
                writeln!(out, "waits      {}", Escaped(&excerpt(&message.text())))
            }
            Entry::Event { event } => show_event(event, out),
            Entry::Lost { events } => writeln!(
                out,
                "{CUT}lost{CUT:#}       {} could not be written",
                Quantity(*events, "event")
            ),
            Entry::Compacted => writeln!(out, "compacted  earlier events are not kept"),
            other => writeln!(out, "{FAINT}{}{FAINT:#}", Escaped(&format!("{other:?}"))),
        }
    }
}

fn show_message(message: &Message, out: &mut dyn Write) -> io::Result<()> {
    let role = format!("{:?}", message.role).to_lowercase();
    for content in &message.content {
        let (what, text): (&str, Cow<'_, str>) = match content {
            Content::Text { text, synthetic } => {
                (if *synthetic { "steering" } else { &*role }, text.into())
            }
            Content::Image { media_type, data } => (&*role, image(media_type, data).into()),
            Content::Reasoning { text, .. } => ("reasoning", text.into()),
            Content::ToolCall { tool, input, .. } => (tool.as_str(), input.into()),
            Content::ToolResult { output, .. } => ("result", output.into()),
        };
        writeln!(
            out,
            "{STRONG}{:<9}{STRONG:#}  {}",
            // `Escaped` ignores padding, so the text becomes a string first.
            Escaped(what).to_string(),
            Escaped(&excerpt(&text))
        )?;
    }
    Ok(())
}

/// Returns a description of an image: its media type, and its size before it was encoded in base64.
fn image(media_type: &str, data: &str) -> String {
    let digits = data.trim_end_matches('=').len() as u64;
    let bytes = Quantity(digits * 3 / 4, "byte");
    format!("[image {media_type}, {bytes}]")
}

fn show_event(event: &LoopEvent, out: &mut dyn Write) -> io::Result<()> {
    match event {
        LoopEvent::Send {
            attempt, messages, ..
        } => {
            let added = Quantity(*messages as u64, "message");
            writeln!(out, "request    attempt {attempt}, {added} added")
        }
        LoopEvent::FirstToken { after } => writeln!(out, "begins     after {after} ms"),
        LoopEvent::Decision(decision) => show_decision(decision, out),
        LoopEvent::Aborted(aborted) => show_aborted(aborted, out),
        LoopEvent::ToolCall(part) => {
            let tool = part.tool.as_deref().unwrap_or_default();
            writeln!(out, "tool call  {}", Escaped(tool))
        }
        LoopEvent::DoomLoop { part, times } => {
            let tool = part.tool.as_deref().unwrap_or_default();
            writeln!(
                out,
                "{CUT}loop{CUT:#}       {} {times} times in a row",
                Escaped(tool)
            )
        }
        LoopEvent::Usage { input, output } => {
            writeln!(out, "usage      {input} tokens in, {output} out")
        }
        LoopEvent::SubAgent { session, by, .. } => {
            writeln!(
                out,
                "sub-agent  {} asked by {}",
                Escaped(session),
                Escaped(by)
            )
        }
        LoopEvent::Unscanned { bytes, kind } => {
            let bytes = Quantity(*bytes, "byte");
            writeln!(
                out,
                "{SOFT}unscanned{SOFT:#}  {bytes} of `{}`",
                Escaped(kind)
            )
        }
        LoopEvent::Finish(finish) => show_finish(finish, out),
        other => {
            let (what, by) = (other.name(), other.by().unwrap_or_default());
            writeln!(out, "note       {what} {}", Escaped(by))
        }
    }
}

fn show_aborted(aborted: &AbortRecord, out: &mut dyn Write) -> io::Result<()> {
    let by = aborted.by.as_deref().unwrap_or(&aborted.source);
    let then = if aborted.retry { ", retried" } else { "" };
    writeln!(
        out,
        "{CUT}cut{CUT:#}        by {} ({}) after {}{then}",
        Escaped(by),
        aborted.reason.name(),
        Quantity(aborted.bytes, "byte")
    )
}

fn show_finish(finish: &FinishRecord, out: &mut dyn Write) -> io::Result<()> {
    let how = if finish.complete { "done" } else { "no answer" };
    write!(
        out,
        "{STRONG}{how:<9}{STRONG:#}  {} after {} in {} ms, {}",
        Escaped(&finish.reason),
        Quantity(u64::from(finish.attempts), "attempt"),
        finish.millis,
        Quantity(finish.bytes, "byte")
    )?;
    if let Some(rate) = finish.token_rate {
        write!(
            out,
            ", {}.{} tokens per second",
            rate / 1000,
            rate % 1000 / 100
        )?;
    }
    if finish.saved > 0 {
        write!(out, ", about {} saved", Quantity(finish.saved, "byte"))?;
    }
    writeln!(out)
}

fn show_decision(decision: &DecisionEvent, out: &mut dyn Write) -> io::Result<()> {
    let style = match (decision.is_suppressed(), decision.action.cuts()) {
        (true, _) => FAINT,
        (false, true) => CUT,
        (false, false) => SOFT,
    };
    let channel = decision.part.channel.map_or("", ttsr::Channel::name);
    write!(
        out,
        "{style}{:<9}{style:#}  {STRONG}{}{STRONG:#} in {channel}",
        decision.action.name(),
        Escaped(decision.rule_or_limit())
    )?;
    if let Some(tool) = &decision.part.tool {
        write!(out, " of {}", Escaped(tool))?;
    }
    let place = decision.end.unwrap_or(decision.decided);
    write!(
        out,
        ", byte {place}, attempt {} of turn {}",
        decision.attempt, decision.turn
    )?;
    if let Some(why) = &decision.suppressed {
        write!(out, " ({})", Escaped(why))?;
    }
    writeln!(out)
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A place in the file that is not a valid record.
#[derive(Serialize)]
struct InvalidRecord<'a> {
    event: &'a str,
    at: u64,
    why: &'a str,
}

impl<'a> InvalidRecord<'a> {
    fn new(event: &'a str, at: u64, why: &'a str) -> InvalidRecord<'a> {
        InvalidRecord { event, at, why }
    }
}

impl OutputRecord for InvalidRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let (event, at) = (self.event, self.at);
        writeln!(out, "{CUT}{event}{CUT:#} at {at}: {}", Escaped(self.why))
    }
}

#[derive(Default, Serialize)]
#[serde(tag = "event", rename = "summary")]
struct LogTotals {
    records: u64,
    damaged: u64,
    missing: u64,
    torn_bytes: u64,
    lost_events: u64,
}

impl LogTotals {
    fn is_whole(&self) -> bool {
        self.damaged == 0 && self.missing == 0
    }
}

impl OutputRecord for LogTotals {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}

impl Display for LogTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quantity(self.records, "record"))?;
        for (number, what) in [
            (self.damaged, "damaged"),
            (self.missing, "missing"),
            (self.lost_events, "never written"),
        ] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        match self.torn_bytes {
            0 => Ok(()),
            bytes => write!(
                f,
                ", an incomplete last line of {}",
                Quantity(bytes, "byte")
            ),
        }
    }
}

/// Milliseconds since 1970, displayed as date and time of day in UTC.
struct UtcTime(u64);

impl Display for UtcTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0 / 86_400_000, self.0 % 86_400_000);
        let (year, month, day) = date(days);
        let seconds = millis / 1000;
        write!(
            f,
            "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{:03}",
            seconds / 3600,
            seconds / 60 % 60,
            seconds % 60,
            millis % 1000
        )
    }
}

/// Returns the date `days` days after 1970-01-01. The computation starts years in March, so that the leap day is last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days.saturating_add(719_468);
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day)
}
