//! `ttsr demo`: runs the reference loop on an embedded conversation.
//!
//! Only the provider is scripted (`demo/*.ndjson`, recordings in the native format). The pack, the session, the
//! processor and the driver are those of a real harness.

mod svg;

use std::collections::HashMap;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::Args;
use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    self, AbortSource, Aborted, Cancel, End, Hooks, Message, Processor, ReplyOutcome, Request,
    Scripted, ScriptedReply, Settings, Step,
};
use ttsr::{Channel, Decision, Event, Pack, PartId};

use crate::args::PackArgs;
use crate::output::Escaped;
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, load};
use svg::Transcript;

const PROMPT: &str =
    "My branch fix/upload has diverged from main. Please sort it out and publish the fix.";

/// The model's reply at each attempt. Further attempts repeat the last one.
const ATTEMPTS: [&str; 2] = [
    include_str!("demo/first.ndjson"),
    include_str!("demo/second.ndjson"),
];

/// Delay between two deltas if the output is a terminal.
const PACE: Duration = Duration::from_millis(14);

const USER: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();
const CUT: Style = AnsiColor::Red.on_default().bold();
const STEER: Style = AnsiColor::Yellow.on_default();
const GOOD: Style = AnsiColor::Green.on_default().bold();

/// Show rules that cut a bad reply and let the next one through
#[derive(Debug, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// Print without the delay between deltas
    #[arg(long)]
    fast: bool,
    /// Write an image of the output to this file instead of printing
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&options.packs, &load::OFF_BY_DEFAULT)?;
    let transcript = Transcript::default();
    let (out, is_watched): (Box<dyn Write>, bool) = match &options.svg {
        Some(_) => (Box::new(transcript.clone()), false),
        None => {
            let is_watched = io::stdout().is_terminal() && !options.fast;
            (Box::new(anstream::stdout().lock()), is_watched)
        }
    };
    let pace = if is_watched { PACE } else { Duration::ZERO };
    let scripts = ATTEMPTS.map(|recording| ScriptedReply::from(events(recording)).every(pace));
    let mut provider = Scripted::new(scripts);
    let arrived = ReceivedBytes::default();
    let mut processor = Processor::new(&pack, arrived.hooks(), Settings::default());
    let mut screen = DemoScreen::new(pack, arrived, out);
    screen.begin()?;
    let mut trouble = None;
    let request = Request::new("demo-model", vec![Message::user(PROMPT)]);
    let publish = |step: &Step| {
        if let (None, Err(error)) = (&trouble, screen.step(step)) {
            trouble = Some(error);
        }
    };
    let answering = harness::run(
        &mut processor,
        &mut provider,
        request,
        "demo",
        Cancel::default(),
        publish,
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    let runtime = runtime.map_err(|error| CommandError::Message(format!("no timer: {error}")))?;
    let answer = runtime.block_on(answering);
    if let Some(error) = trouble {
        return Err(error.into());
    }
    screen.end(&answer)?;
    if let Some(file) = &options.svg {
        write_image(file, &transcript)?;
    }
    Ok(ExitStatus::Clean)
}

fn write_image(file: &Path, transcript: &Transcript) -> Result<(), CommandError> {
    fs::write(file, transcript.render()).map_err(|error| {
        let name = file.display().to_string();
        CommandError::Message(format!("{}: {error}", Escaped(&name)))
    })
}

fn events(recording: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut reader = ttsr_wire::Reader::new("demo");
    reader.push(recording.as_bytes(), &mut |_, event| events.push(event));
    reader.finish(&mut |_, event| events.push(event));
    events
}

/// The bytes that the provider delivered of each part of the attempt. The loop's steps only have the bytes that
/// were forwarded.
#[derive(Clone, Default)]
struct ReceivedBytes(Arc<Mutex<HashMap<PartId, Vec<u8>>>>);

impl ReceivedBytes {
    fn hooks(&self) -> Hooks {
        let ReceivedBytes(parts) = self.clone();
        let mut hooks = Hooks::default();
        hooks.on_delta("arrived", move |at, delta| {
            let mut parts = parts.lock().unwrap_or_else(PoisonError::into_inner);
            let part = parts.entry(at.part).or_default();
            part.extend_from_slice(delta.bytes());
        });
        hooks
    }

    fn clear(&self) {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        parts.clear();
    }

    /// Returns up to `bytes` bytes of a part, starting at offset `start`.
    fn text(&self, part: PartId, start: usize, bytes: u64) -> String {
        let parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all = parts.get(&part).map_or(&[][..], Vec::as_slice);
        let end = (start + bytes as usize).min(all.len());
        String::from_utf8_lossy(&all[start.min(end)..end]).into_owned()
    }
}

/// Prints the loop's steps for a person.
struct DemoScreen {
    pack: Pack,
    arrived: ReceivedBytes,
    out: Box<dyn Write>,
    /// The parts of this attempt, with the number of bytes forwarded of each.
    parts: Vec<ShownPart>,
    /// The part whose text is on the last line.
    current: Option<PartId>,
    attempt: u32,
    saved: usize,
}

struct ShownPart {
    label: String,
    style: Style,
    forwarded: usize,
    /// Bytes that arrived and are held back by a rule.
    held: u64,
}

impl DemoScreen {
    fn new(pack: Pack, arrived: ReceivedBytes, out: Box<dyn Write>) -> DemoScreen {
        DemoScreen {
            pack,
            arrived,
            out,
            parts: Vec::new(),
            current: None,
            attempt: 0,
            saved: 0,
        }
    }

    fn begin(&mut self) -> io::Result<()> {
        let rules = Quantity(self.pack.rules().len() as u64, "rule");
        writeln!(
            self.out,
            "{FAINT}The reply is scanned with {rules}.{FAINT:#}\n"
        )?;
        writeln!(self.out, "{USER}user{USER:#}        {PROMPT}")
    }

    fn step(&mut self, step: &Step) -> io::Result<()> {
        match step {
            Step::Send {
                attempt, messages, ..
            } => self.send(*attempt, messages),
            Step::Open {
                part,
                name: _,
                channel,
                tool,
                ..
            } => self.open(*part, *channel, tool.as_deref()),
            Step::Forward { part, bytes } => self.forward(*part, bytes),
            Step::Hold { part, bytes } => {
                if let Some(shown) = self.parts.get_mut(part.0 as usize) {
                    shown.held = *bytes;
                }
                Ok(())
            }
            Step::Inject { decision, message } => self.remark(
                STEER,
                "sent with the next request",
                decision,
                &message.text(),
            ),
            Step::Notify { decision, text } => self.remark(STEER, "for the user", decision, text),
            Step::Observe(LoopEvent::Decision(record)) => match &record.decision {
                Some(decision) if decision.action == ttsr::Action::Observe => {
                    self.remark(FAINT, "noted", decision, "")
                }
                _ => Ok(()),
            },
            Step::Aborted(aborted) => self.aborted(aborted),
            _ => Ok(()),
        }
    }

    fn send(&mut self, attempt: u32, messages: &[Message]) -> io::Result<()> {
        self.attempt = attempt;
        self.parts.clear();
        self.arrived.clear();
        for message in messages {
            writeln!(
                self.out,
                "{STEER}injected{STEER:#}    {}",
                Escaped(&message.text())
            )?;
        }
        writeln!(self.out, "\n{FAINT}── attempt {attempt} ──{FAINT:#}")
    }

    fn open(&mut self, part: PartId, channel: Channel, tool: Option<&str>) -> io::Result<()> {
        let (label, style) = match (channel, tool) {
            (Channel::Reasoning, _) => ("reasoning".to_owned(), FAINT),
            (Channel::ToolInput, Some(tool)) => (format!("→ {tool}"), AnsiColor::Cyan.on_default()),
            _ => ("text".to_owned(), Style::new()),
        };
        let index = part.0 as usize;
        self.parts.truncate(index);
        self.parts.push(ShownPart {
            label,
            style,
            forwarded: 0,
            held: 0,
        });
        Ok(())
    }

    fn forward(&mut self, part: PartId, bytes: &[u8]) -> io::Result<()> {
        let Some(shown) = self.parts.get_mut(part.0 as usize) else {
            return Ok(());
        };
        if self.current != Some(part) {
            let start = if self.current.is_some() { "\n" } else { "" };
            write!(self.out, "{start}{:<12}", shown.label)?;
            self.current = Some(part);
        }
        shown.forwarded += bytes.len();
        shown.held = 0;
        let text = String::from_utf8_lossy(bytes);
        let text = text.trim_end_matches('\n');
        write!(
            self.out,
            "{}{}{:#}",
            shown.style,
            Escaped(text),
            shown.style
        )?;
        self.out.flush()
    }

    fn new_line(&mut self) -> io::Result<()> {
        if self.current.take().is_some() {
            writeln!(self.out)
        } else {
            Ok(())
        }
    }

    fn remark(
        &mut self,
        style: Style,
        what: &str,
        decision: &Decision,
        text: &str,
    ) -> io::Result<()> {
        self.new_line()?;
        let rule = self.rule(decision);
        let place = decision.decided();
        writeln!(
            self.out,
            "{style}{:<12}{rule}, at byte {place} of this part: {what}{style:#}",
            decision.action.name()
        )?;
        if text.is_empty() {
            Ok(())
        } else {
            writeln!(self.out, "            {}", Escaped(text))
        }
    }

    fn rule(&self, decision: &Decision) -> String {
        decision.rule().map_or_else(
            || "a limit".to_owned(),
            |rule| self.pack.rule(rule).id.clone(),
        )
    }

    fn aborted(&mut self, aborted: &Aborted) -> io::Result<()> {
        let id = aborted.part.unwrap_or(PartId(0));
        let part = self.parts.get(id.0 as usize);
        let (label, forwarded, held) = part.map_or((String::new(), 0, 0), |shown| {
            (shown.label.clone(), shown.forwarded, shown.held)
        });
        if self.current == Some(id) {
            let waits = self.arrived.text(id, forwarded, held);
            write!(self.out, "{FAINT}{}{FAINT:#}", Escaped(&waits))?;
        }
        self.new_line()?;
        let by = match &aborted.source {
            AbortSource::Rule { id, .. } => id.clone(),
            other => format!("{other:?}"),
        };
        let waited = match held {
            0 => String::new(),
            held => format!("the last {held} bytes were held back, "),
        };
        writeln!(
            self.out,
            "{CUT}✂ cut{CUT:#}       {CUT}{by}{CUT:#} after byte {} of `{}`: {waited}the next delta was not forwarded",
            forwarded as u64 + held,
            label.trim_start_matches("→ ")
        )?;
        let said = self.parts.iter();
        let said: usize = said
            .map(|shown| shown.forwarded + shown.held as usize)
            .sum();
        let would_be = total(ATTEMPTS[(self.attempt as usize - 1).min(ATTEMPTS.len() - 1)]);
        self.saved += would_be.saturating_sub(said);
        writeln!(
            self.out,
            "{FAINT}            {said} of {would_be} bytes had arrived; no tool ran, the attempt is discarded{FAINT:#}"
        )
    }

    fn end(&mut self, answer: &ReplyOutcome) -> io::Result<()> {
        self.new_line()?;
        writeln!(self.out)?;
        match &answer.end {
            End::Complete { .. } => writeln!(
                self.out,
                "{GOOD}✓ answered{GOOD:#}  at attempt {}; {} bytes, {} of them unscanned",
                answer.attempts,
                total_of(answer),
                answer.counters.unscanned_bytes
            )?,
            End::Aborted { detail, .. } => {
                writeln!(
                    self.out,
                    "{CUT}✗ no answer{CUT:#} after {} attempts: {}",
                    answer.attempts,
                    Escaped(detail)
                )?;
            }
            other => writeln!(self.out, "{other:?}")?,
        }
        // OpenAI's recorded streams have four bytes per token on average, for text and code.
        let tokens = self.saved / 4;
        writeln!(
            self.out,
            "{FAINT}            {} bytes of the bad reply were never generated, about {tokens} tokens{FAINT:#}",
            self.saved
        )?;
        self.out.flush()
    }
}

fn total(recording: &str) -> usize {
    let bytes = |event: &Event| match event {
        Event::Delta { bytes, .. } => bytes.len(),
        _ => 0,
    };
    events(recording).iter().map(bytes).sum()
}

fn total_of(answer: &ReplyOutcome) -> usize {
    let parts = answer.reply.parts().iter();
    parts.map(|part| part.raw.len()).sum()
}
