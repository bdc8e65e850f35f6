//! The output of a running turn: lines for people, or the JSON objects of `run/line.rs`.

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{AbortSource, AbortStage, Aborted, End, Message, Step, TurnOutcome};
use ttsr::{Action, Channel, Decision, Pack, PartId};
use ttsr_agent::handoff::{TranscriptMessage, TranscriptPart};
use ttsr_agent::providers::ProviderNotice;
use ttsr_wire::MALFORMED;

use super::TurnOutput;
use super::line::{TurnLine, source};
use crate::args::OutputFormat;
use crate::output::{Escaped, style};
use crate::totals::Quantity;

const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const TOOL: Style = AnsiColor::Cyan.on_default();
const STEER: Style = AnsiColor::Yellow.on_default();
const CUT: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();

/// Maximum number of characters shown of a tool result.
const RESULT: usize = 600;

/// Prints a turn.
pub(super) struct TurnScreen {
    pack: Pack,
    format: OutputFormat,
    out: Box<dyn Write>,
    parts: HashMap<PartId, ScreenPart>,
    /// The part whose text is on the last line.
    current: Option<PartId>,
    requests: u64,
    /// Number of decisions that were not suppressed.
    verdicts: u64,
    /// Number of events of a reply that could not be parsed.
    malformed: u64,
}

/// A part of the current attempt.
struct ScreenPart {
    label: String,
    style: Style,
    forwarded: usize,
    /// An incomplete character at the end of the bytes so far.
    pending: Vec<u8>,
}

impl TurnScreen {
    pub(super) fn new(pack: Pack, format: OutputFormat) -> TurnScreen {
        let out: Box<dyn Write> = match format {
            OutputFormat::Human => Box::new(anstream::stdout().lock()),
            OutputFormat::Json => Box::new(io::stdout().lock()),
        };
        TurnScreen {
            pack,
            format,
            out,
            parts: HashMap::new(),
            current: None,
            requests: 0,
            verdicts: 0,
            malformed: 0,
        }
    }

    /// Returns the number of reply events that could not be parsed.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// Returns true if a rule took an action.
    pub(super) fn has_acted(&self) -> bool {
        self.verdicts > 0
    }

    /// Prints the head of a turn; `before` is the number of messages before the prompt.
    pub(super) fn begin(&mut self, prompt: &str, before: usize) -> io::Result<()> {
        if self.format == OutputFormat::Human {
            let rules = Quantity(self.pack.rules().len() as u64, "rule");
            let before = match before {
                0 => String::new(),
                before => format!(" It follows {}.", Quantity(before as u64, "message")),
            };
            writeln!(
                self.out,
                "{FAINT}The turn is scanned with {rules}.{before}{FAINT:#}\n"
            )?;
            let prompt = prompt.trim_end();
            self.row(STRONG, "user", prompt)?;
        }
        self.out.flush()
    }

    pub(super) fn show(&mut self, what: &TurnOutput) -> io::Result<()> {
        match what {
            TurnOutput::Step(Step::Send { .. }) => self.requests += 1,
            TurnOutput::Step(Step::Observe(LoopEvent::Decision(decision))) => {
                self.verdicts += u64::from(!decision.is_suppressed());
            }
            TurnOutput::Step(Step::Observe(LoopEvent::Unscanned { kind, .. })) => {
                self.malformed += u64::from(MALFORMED.contains(&kind.as_str()));
            }
            _ => {}
        }
        match (self.format, what) {
            (OutputFormat::Json, shown) => {
                let line = match shown {
                    TurnOutput::Step(step) => TurnLine::from_step(step, &self.pack),
                    TurnOutput::Notice(notice) => TurnLine::from_notice(notice),
                    TurnOutput::Attached(files) => Some(TurnLine::Attached {
                        files: names(files),
                    }),
                    TurnOutput::SessionOpened { session, file } => Some(TurnLine::SessionOpened {
                        session,
                        file: file.as_deref(),
                    }),
                    TurnOutput::Draft { text, file } => Some(TurnLine::Draft {
                        text,
                        file: file.as_deref(),
                    }),
                    TurnOutput::Toast { text, lasts } => Some(TurnLine::Toast {
                        message: text,
                        lasts_ms: u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX),
                    }),
                };
                line.map_or(Ok(()), |line| line.write(&mut self.out))?;
            }
            (OutputFormat::Human, TurnOutput::Step(step)) => self.step(step)?,
            (OutputFormat::Human, TurnOutput::Notice(notice)) => self.notice(notice)?,
            (OutputFormat::Human, TurnOutput::Attached(files)) => {
                self.row(STEER, "attached", &names(files).join("\n"))?;
            }
            (OutputFormat::Human, TurnOutput::SessionOpened { session, file }) => {
                writeln!(self.out)?;
                let file = file
                    .as_deref()
                    .map(|file| format!(" in {}", file.display()));
                self.row(
                    STRONG,
                    "session",
                    &format!("{session}{}", file.unwrap_or_default()),
                )?;
            }
            (OutputFormat::Human, TurnOutput::Draft { text, file }) => {
                self.draft(text, file.as_deref())?
            }
            (OutputFormat::Human, TurnOutput::Toast { text, .. }) => self.row(STEER, "", text)?,
        }
        // Text must appear when it is released, not when the buffer is full.
        self.out.flush()
    }

    pub(super) fn end(&mut self, outcome: &TurnOutcome) -> io::Result<()> {
        match self.format {
            OutputFormat::Json => {
                TurnLine::from_answer(outcome, self.requests, self.verdicts)
                    .write(&mut self.out)?;
            }
            OutputFormat::Human => self.answer(outcome)?,
        }
        self.out.flush()
    }

    fn rule(&self, decision: &Decision) -> Option<&str> {
        Some(self.pack.rule(decision.rule()?).id.as_str())
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Send {
                messages, attempt, ..
            } => self.send(*attempt, messages),
            Step::Open {
                part,
                channel,
                tool,
                ..
            } => {
                let shown = ScreenPart::new(*channel, tool.as_deref());
                self.parts.insert(*part, shown);
                Ok(())
            }
            Step::Named { part, tool, .. } => {
                if let Some(shown) = self.parts.get_mut(part) {
                    shown.label = format!("→ {}", Escaped(tool));
                }
                Ok(())
            }
            Step::Forward { part, bytes } => self.forward(*part, bytes),
            Step::Inject { decision, message } => {
                self.remark(decision, "sent with the next request", &message.text())
            }
            Step::Notify { decision, text } => self.remark(decision, "for the user", text),
            Step::Observe(LoopEvent::Decision(record)) => match &record.decision {
                Some(decision) if decision.action == Action::Observe => {
                    self.remark(decision, "noted", "")
                }
                _ => Ok(()),
            },
            Step::Observe(LoopEvent::DoomLoop { times, .. }) => {
                self.new_line()?;
                self.row(
                    STEER,
                    "loop",
                    &format!("the same call {times} times in a row"),
                )
            }
            Step::Observe(LoopEvent::Unscanned { kind, bytes })
                if MALFORMED.contains(&kind.as_str()) =>
            {
                self.new_line()?;
                let what = format!("an event of {bytes} bytes cannot be read ({kind})");
                self.row(CUT, "malformed", &what)
            }
            // If no reply was cut, the last line reports the abort.
            Step::Aborted(aborted) if aborted.stage == AbortStage::Reply => self.aborted(aborted),
            Step::ToolResult {
                tool,
                output,
                is_error,
                ..
            } => self.result(tool, output, *is_error),
            _ => Ok(()),
        }
    }

    fn send(&mut self, attempt: u32, messages: &[Message]) -> io::Result<()> {
        self.new_line()?;
        self.parts.clear();
        for message in messages {
            self.row(STEER, "injected", &message.text())?;
        }
        writeln!(self.out, "\n{FAINT}── request {attempt} ──{FAINT:#}")
    }

    fn forward(&mut self, part: PartId, bytes: &[u8]) -> io::Result<()> {
        let Some(shown) = self.parts.get_mut(&part) else {
            return Ok(());
        };
        let (text, style) = (shown.push_bytes(bytes), shown.style);
        if self.current != Some(part) {
            let start = if self.current.is_some() { "\n" } else { "" };
            write!(self.out, "{start}{:<12}", shown.label)?;
            self.current = Some(part);
        }
        let mut lines = text.split('\n');
        write!(
            self.out,
            "{style}{}{style:#}",
            Escaped(lines.next().unwrap_or_default())
        )?;
        for line in lines {
            write!(self.out, "\n            {style}{}{style:#}", Escaped(line))?;
        }
        Ok(())
    }

    fn remark(&mut self, decision: &Decision, what: &str, text: &str) -> io::Result<()> {
        self.new_line()?;
        let style = style(decision.action);
        let (name, place) = (decision.action.name(), decision.decided());
        let rule = self.rule(decision).unwrap_or("a limit").to_owned();
        writeln!(
            self.out,
            "{style}{name:<12}{rule}, at byte {place} of this part: {what}{style:#}"
        )?;
        match text {
            "" => Ok(()),
            text => self.row(Style::new(), "", text),
        }
    }

    fn aborted(&mut self, aborted: &Aborted) -> io::Result<()> {
        self.new_line()?;
        let by = source(&aborted.source);
        let part = aborted.part.and_then(|part| self.parts.get(&part));
        let place = part.map(|part| {
            let label = part.label.trim_start_matches("→ ");
            format!(" after byte {} of `{label}`", part.forwarded)
        });
        let place = place.unwrap_or_default();
        let rest = match aborted.source {
            AbortSource::Rule { .. } | AbortSource::Hook(_) => ": the rest was not forwarded",
            _ => "",
        };
        writeln!(
            self.out,
            "{CUT}✂ cut{CUT:#}       {CUT}{by}{CUT:#}{place}{rest}"
        )?;
        match aborted.detail.as_str() {
            "" => Ok(()),
            detail => self.row(FAINT, "", detail),
        }
    }

    fn result(&mut self, tool: &str, output: &str, is_error: bool) -> io::Result<()> {
        self.new_line()?;
        let shown: String = output.chars().take(RESULT).collect();
        let rest = output.chars().count().saturating_sub(RESULT);
        let more = if rest > 0 {
            format!(" … and {rest} more characters")
        } else {
            String::new()
        };
        let style = if is_error { CUT } else { TOOL };
        let label = format!("← {tool}");
        self.row(style, &label, &format!("{}{more}", shown.trim_end()))
    }

    fn notice(&mut self, notice: &ProviderNotice) -> io::Result<()> {
        self.new_line()?;
        match notice {
            ProviderNotice::Retrying { failure, wait, .. } => {
                self.row(STEER, "retry", &format!("in {wait:?}: {failure}"))
            }
            ProviderNotice::NotRetried {
                failure,
                asked,
                longest,
            } => self.row(
                STEER,
                "no retry",
                &format!(
                    "the provider asks for a delay of {asked:?}, the limit is {longest:?}: {failure}"
                ),
            ),
            ProviderNotice::FallingBack { failure, from, to } => self.row(
                STEER,
                "fallback",
                &format!("from {from} to {to}: {failure}"),
            ),
            _ => Ok(()),
        }
    }

    fn answer(&mut self, outcome: &TurnOutcome) -> io::Result<()> {
        self.new_line()?;
        writeln!(self.out)?;
        let (requests, verdicts) = (
            Quantity(self.requests, "request"),
            Quantity(self.verdicts, "verdict"),
        );
        match &outcome.end {
            End::Complete { .. } => writeln!(
                self.out,
                "{GOOD}✓ answered{GOOD:#}  {requests} to the model, {verdicts}"
            ),
            End::Truncated { reason } => writeln!(
                self.out,
                "{CUT}✗ truncated{CUT:#} at the limit of the model ({}); {requests} to the model, {verdicts}",
                Escaped(reason)
            ),
            End::Aborted { source: by, .. } => {
                writeln!(
                    self.out,
                    "{CUT}✗ no answer{CUT:#} {}; {requests} to the model, {verdicts}",
                    source(by)
                )
            }
            other => writeln!(self.out, "{other:?}"),
        }
    }

    fn draft(&mut self, text: &str, file: Option<&Path>) -> io::Result<()> {
        self.row(STRONG, "draft", text)?;
        match file {
            Some(file) => {
                let session = file.with_extension("");
                let hint = format!(
                    "It is stored in {}. `ttsr run --session {}` without a prompt sends it.",
                    file.display(),
                    session.display()
                );
                self.row(FAINT, "", &hint)
            }
            None => self.row(
                FAINT,
                "",
                "It is not stored, because `--session` was not given.",
            ),
        }
    }

    /// Prints a label and a text; further lines of the text are indented.
    fn row(&mut self, style: Style, label: &str, text: &str) -> io::Result<()> {
        let mut label = label;
        for line in text.split('\n') {
            writeln!(
                self.out,
                "{style}{:<12}{style:#}{}",
                Escaped(label).to_string(),
                Escaped(line)
            )?;
            label = "";
        }
        Ok(())
    }

    fn new_line(&mut self) -> io::Result<()> {
        match self.current.take() {
            Some(_) => writeln!(self.out),
            None => Ok(()),
        }
    }
}

/// Returns the names of the files in a message.
fn names(message: &Message) -> Vec<String> {
    let said = TranscriptMessage::from_message(message);
    let parts = said.into_iter().flat_map(|said| said.parts);
    let names = parts.filter_map(|part| match part {
        TranscriptPart::Attached(name) => Some(name),
        _ => None,
    });
    names.collect()
}

impl ScreenPart {
    fn new(channel: Channel, tool: Option<&str>) -> ScreenPart {
        let (label, style) = match (channel, tool) {
            (Channel::Reasoning, _) => ("reasoning".to_owned(), FAINT),
            (Channel::ToolInput, tool) => (format!("→ {}", Escaped(tool.unwrap_or("tool"))), TOOL),
            _ => ("text".to_owned(), Style::new()),
        };
        ScreenPart {
            label,
            style,
            forwarded: 0,
            pending: Vec::new(),
        }
    }

    /// Appends bytes and returns the complete characters. An incomplete one is kept for the next call.
    fn push_bytes(&mut self, bytes: &[u8]) -> String {
        self.forwarded += bytes.len();
        self.pending.extend_from_slice(bytes);
        let whole = match std::str::from_utf8(&self.pending) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => self.pending.len(),
        };
        let text: Vec<u8> = self.pending.drain(..whole).collect();
        String::from_utf8_lossy(&text).into_owned()
    }
}
