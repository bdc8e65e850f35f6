//! The log of `ttsr proxy --log`.

use std::fmt::{self, Display};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, Write};

use serde::Serialize;
use ttsr_proxy::{ProxyLogEvent, ProxyLogLine};

use super::{CUT, FAINT, LogFilter, SOFT, UtcTime};
use crate::output::{Escaped, OutputRecord, RecordWriter};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus};

/// Returns true if the file is the log of a proxy. The position in the file stays.
pub(super) fn is_proxy_log(file: &mut File) -> io::Result<bool> {
    let mut start = [0; 10];
    let len = io::Read::read(file, &mut start)?;
    file.rewind()?;
    // A line that was written in part is ended by an empty one, which may be the first of a new file.
    Ok(start[..len].trim_ascii_start().starts_with(b"{\"proxy\":"))
}

/// Shows the lines that the filter wants.
pub(super) fn show(
    file: File,
    filter: &LogFilter,
    out: &mut RecordWriter,
) -> Result<ExitStatus, CommandError> {
    let mut totals = ProxyLogTotals::default();
    for line in BufReader::new(file).split(b'\n') {
        let line = line.map_err(|error| CommandError::Message(error.to_string()))?;
        if line.is_empty() {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<ProxyLogLine>(&line) else {
            totals.damaged += 1;
            continue;
        };
        totals.lines += 1;
        if filter.wants_proxy(&line.event) {
            out.write(&ShownLine(line))?;
        }
    }
    out.end(&totals)?;
    Ok(match totals.damaged {
        0 => ExitStatus::Clean,
        _ => ExitStatus::Incomplete,
    })
}

#[derive(Serialize)]
struct ShownLine(ProxyLogLine);

impl OutputRecord for ShownLine {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let ProxyLogLine {
            at, request, event, ..
        } = &self.0;
        write!(out, "{FAINT}{request:>5}  {}{FAINT:#}  ", UtcTime(*at))?;
        match event {
            ProxyLogEvent::Decision {
                rule,
                limit,
                action,
                suppression,
                channel,
                start,
                end,
                ..
            } => {
                let by = rule.as_ref().or(limit.as_ref());
                write!(
                    out,
                    "{SOFT}{action}{SOFT:#} by {}",
                    Escaped(by.map_or("-", |it| it))
                )?;
                if let Some(channel) = channel {
                    write!(out, " in {channel}")?;
                }
                match start {
                    Some(start) => write!(out, " at {start}..{end}")?,
                    None => write!(out, " at ..{end}")?,
                }
                match suppression {
                    Some(suppression) => writeln!(out, " (not acted on: {suppression})"),
                    None => writeln!(out),
                }
            }
            ProxyLogEvent::Reply {
                api,
                stopped,
                by,
                unreadable,
                ms,
                unscanned,
                retries,
                input_tokens,
                output_tokens,
                ..
            } => {
                write!(out, "reply of {api} in {ms} ms")?;
                if *input_tokens > 0 || *output_tokens > 0 {
                    write!(out, ", {input_tokens} tokens in and {output_tokens} out")?;
                }
                if *retries > 0 {
                    write!(out, ", sent again {}", Quantity(*retries, "time"))?;
                }
                if *stopped {
                    let by = by.as_deref().unwrap_or("the proxy");
                    write!(out, ", {CUT}stopped{CUT:#} by {}", Escaped(by))?;
                }
                if *unreadable {
                    write!(out, ", {CUT}unreadable{CUT:#}")?;
                }
                for path in unscanned {
                    let bytes = Quantity(path.bytes, "byte");
                    write!(out, ", {bytes} not scanned in {}", Escaped(&path.path))?;
                }
                writeln!(out)
            }
            ProxyLogEvent::RequestStopped { by } => {
                let by = by.as_deref().unwrap_or("an earlier decision");
                writeln!(out, "request {CUT}stopped{CUT:#} by {}", Escaped(by))
            }
            ProxyLogEvent::RequestUnscanned { unscanned } => {
                write!(out, "request")?;
                for (number, path) in unscanned.iter().enumerate() {
                    let comma = if number == 0 { ":" } else { "," };
                    let bytes = Quantity(path.bytes, "byte");
                    write!(
                        out,
                        "{comma} {bytes} not scanned in {}",
                        Escaped(&path.path)
                    )?;
                }
                writeln!(out)
            }
            ProxyLogEvent::SessionLost { reason } => {
                writeln!(out, "session {CUT}lost{CUT:#}: {}", Escaped(reason))
            }
            ProxyLogEvent::BufferFull => {
                writeln!(out, "no room in memory for the body")
            }
            ProxyLogEvent::Passed { status } => writeln!(out, "passed, status {status}"),
            ProxyLogEvent::Refused { reason } => {
                writeln!(out, "{CUT}refused{CUT:#}: {}", Escaped(reason))
            }
            ProxyLogEvent::Failed { reason } => {
                writeln!(out, "{CUT}failed{CUT:#}: {}", Escaped(reason))
            }
            _ => writeln!(out, "an event of another version"),
        }
    }
}

#[derive(Default, Serialize)]
struct ProxyLogTotals {
    lines: u64,
    damaged: u64,
}

impl OutputRecord for ProxyLogTotals {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{self}")
    }
}

impl Display for ProxyLogTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Quantity(self.lines, "event"))?;
        match self.damaged {
            0 => Ok(()),
            damaged => write!(f, ", {} damaged", Quantity(damaged, "line")),
        }
    }
}
