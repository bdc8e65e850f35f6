//! Output: one JSON object per line with stable keys, or lines of text for people.
//!
//! Defines the form of the records, not how they are computed.

use std::fmt::{self, Display, Write as _};
use std::io::{self, BufWriter, Write};
use std::ops::Range;

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use ttsr::{Action, Channel, Decision, Diagnostic, Level, Pattern, Rule, Source, Stream};

use crate::args::OutputFormat;
use crate::mask::MaskedExcerpt;
use crate::totals::Quantity;
use crate::{effective, progress};

pub(crate) const STRONG: Style = Style::new().bold();
const FAINT: Style = Style::new().dimmed();

/// Prints a message on the standard error.
pub(crate) fn print_message(what: &dyn Display) {
    // The lock keeps the progress line from being drawn between its removal and the message.
    let _held = io::stderr().lock();
    progress::clear();
    // A closed standard error is ignored: there is nowhere left to report it.
    writeln!(anstream::stderr(), "ttsr: {what}").ok();
}

/// The standard output.
pub(crate) struct RecordWriter {
    format: OutputFormat,
    to: BufWriter<Box<dyn Write>>,
}

/// A record that can be written in every [`OutputFormat`]. Its serialized form is the JSON one.
pub(crate) trait OutputRecord: Serialize {
    fn show(&self, out: &mut dyn Write) -> io::Result<()>;
}

impl RecordWriter {
    pub(crate) fn new(format: OutputFormat) -> RecordWriter {
        let to: Box<dyn Write> = match format {
            // `anstream` drops the colours if the output is not a terminal or the user disabled them.
            OutputFormat::Human => Box::new(anstream::stdout().lock()),
            OutputFormat::Json => Box::new(io::stdout().lock()),
        };
        RecordWriter {
            format,
            to: BufWriter::new(to),
        }
    }

    pub(crate) fn write(&mut self, record: &impl OutputRecord) -> io::Result<()> {
        match self.format {
            OutputFormat::Human => record.show(&mut self.to),
            OutputFormat::Json => {
                serde_json::to_writer(&mut self.to, record)?;
                self.to.write_all(b"\n")
            }
        }
    }

    /// Ends the output with the summary: a record in JSON, a message on the standard error for people.
    pub(crate) fn end(&mut self, summary: &(impl OutputRecord + Display)) -> io::Result<()> {
        if self.format == OutputFormat::Json {
            self.write(summary)?;
        }
        self.flush()?;
        if self.format == OutputFormat::Human {
            print_message(summary);
        }
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// A match of a rule.
#[derive(Serialize)]
#[serde(tag = "event", rename = "hit")]
pub(crate) struct HitRecord<'a> {
    rule: &'a str,
    stream: &'a str,
    part: &'a str,
    channel: Option<Channel>,
    tool: Option<&'a str>,
    arg: Option<&'a str>,
    /// The start offset, if it is known.
    start: Option<u64>,
    end: u64,
    decided: u64,
    /// Line and column, if the part is a file.
    #[serde(flatten)]
    region: Option<TextRegion>,
    action: Action,
    severity: &'a str,
    description: &'a str,
    tags: &'a [String],
    fingerprint: &'a str,
    excerpt: &'a str,
    #[serde(skip)]
    matched: Range<usize>,
}

/// A range in lines and columns, counted from 1, columns in characters. The end is exclusive.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct TextRegion {
    pub(crate) line: u64,
    pub(crate) column: u64,
    pub(crate) end_line: u64,
    pub(crate) end_column: u64,
}

/// The part that contains a match.
#[derive(Clone, Copy)]
pub(crate) struct PartOrigin<'a> {
    pub(crate) stream: &'a str,
    pub(crate) part: &'a str,
    pub(crate) channel: Option<Channel>,
    pub(crate) tool: Option<&'a str>,
}

/// The range of a match in its part, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct MatchExtent<'a> {
    pub(crate) arg: Option<&'a str>,
    pub(crate) start: Option<u64>,
    pub(crate) end: u64,
    pub(crate) decided: u64,
}

impl<'a> HitRecord<'a> {
    pub(crate) fn new(
        rule: &'a Rule,
        origin: PartOrigin<'a>,
        extent: MatchExtent<'a>,
        fingerprint: &'a str,
        excerpt: &'a MaskedExcerpt,
    ) -> HitRecord<'a> {
        let PartOrigin {
            stream,
            part,
            channel,
            tool,
        } = origin;
        let MatchExtent {
            arg,
            start,
            end,
            decided,
        } = extent;
        HitRecord {
            rule: &rule.id,
            stream,
            part,
            channel,
            tool,
            arg,
            start,
            end,
            decided,
            region: None,
            action: rule.action,
            severity: rule.severity.name(),
            description: &rule.description,
            tags: &rule.tags,
            fingerprint,
            excerpt: &excerpt.text,
            matched: excerpt.matched.clone(),
        }
    }

    /// Adds the lines and columns of a match in a file.
    pub(crate) fn in_file(self, region: TextRegion) -> HitRecord<'a> {
        HitRecord {
            region: Some(region),
            ..self
        }
    }

    fn show_place(&self, out: &mut dyn Write) -> io::Result<()> {
        write!(out, "{STRONG}{}{STRONG:#}:", Escaped(self.stream))?;
        match self.region {
            Some(TextRegion { line, column, .. }) => write!(out, "{line}:{column}:"),
            None => {
                let channel = self.channel.map_or("", Channel::name);
                write!(out, " part {}, {channel}", Escaped(self.part))?;
                for name in [self.tool, self.arg].into_iter().flatten() {
                    write!(out, " {}", Escaped(name))?;
                }
                write!(out, ", byte {}:", self.end)
            }
        }
    }
}

impl OutputRecord for HitRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let style = style(self.action);
        self.show_place(out)?;
        writeln!(
            out,
            " {style}{}{style:#}: {} ({})",
            Escaped(self.rule),
            Escaped(self.description),
            self.action.name()
        )?;
        let (before, rest) = self.excerpt.split_at(self.matched.start);
        let (matched, after) = rest.split_at(self.matched.len());
        writeln!(
            out,
            "    {}{style}{}{style:#}{}",
            Escaped(before),
            Escaped(matched),
            Escaped(after)
        )
    }
}

/// Input that was not read, or not completely.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename = "unread")]
pub(crate) struct UnreadInput {
    pub(crate) stream: String,
    pub(crate) reason: String,
    /// The number of unread bytes, if it is known.
    pub(crate) bytes: Option<u64>,
}

impl Display for UnreadInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", Escaped(&self.stream))?;
        if let Some(bytes) = self.bytes {
            write!(f, "{} not scanned: ", Quantity(bytes, "byte"))?;
        }
        // Not escaped: the reason may be a diagnostic of several lines.
        f.write_str(&self.reason)
    }
}

impl OutputRecord for UnreadInput {
    /// Prints nothing: the problem was reported on the standard error when it occurred.
    fn show(&self, _out: &mut dyn Write) -> io::Result<()> {
        Ok(())
    }
}

/// A decision of the policy.
#[derive(Serialize)]
#[serde(tag = "event", rename = "verdict")]
pub(crate) struct VerdictRecord<'a> {
    rule: Option<&'a str>,
    stream: &'a str,
    part: &'a str,
    action: Action,
    end: Option<u64>,
    decided: u64,
    attempt: u32,
    suppressed: bool,
    /// The name of the limit that was reached, if no rule caused the verdict.
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
}

impl<'a> VerdictRecord<'a> {
    pub(crate) fn new(
        judged: &'a Stream,
        decision: &Decision,
        stream: &'a str,
        part: &'a str,
    ) -> VerdictRecord<'a> {
        let rule = decision
            .rule()
            .map(|rule| judged.pack().rule(rule).id.as_str());
        VerdictRecord {
            rule,
            stream,
            part,
            action: decision.action,
            end: decision.hit().map(|hit| hit.end),
            decided: decision.decided(),
            attempt: decision.attempt,
            suppressed: decision.is_suppressed(),
            limit: match decision.source {
                Source::Limit { name, .. } => Some(name),
                _ => None,
            },
        }
    }
}

impl OutputRecord for VerdictRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let style = if self.suppressed {
            FAINT
        } else {
            style(self.action)
        };
        let because = self.rule.or(self.limit).unwrap_or_default();
        writeln!(
            out,
            "{STRONG}{}{STRONG:#}: verdict: {style}{}{style:#} after {} bytes of part {}, for {}{}",
            Escaped(self.stream),
            self.action.name(),
            self.decided,
            Escaped(self.part),
            Escaped(because),
            if self.suppressed { " (suppressed)" } else { "" }
        )
    }
}

/// A problem of a rule file.
#[derive(Serialize)]
#[serde(tag = "event", rename = "diagnostic")]
pub(crate) struct DiagnosticRecord<'a> {
    code: &'a str,
    level: &'a str,
    file: &'a str,
    line: u32,
    column: u32,
    rule: Option<&'a str>,
    message: &'a str,
    help: Option<&'a str>,
    #[serde(skip)]
    rendered: String,
}

impl<'a> DiagnosticRecord<'a> {
    pub(crate) fn new(diagnostic: &'a Diagnostic) -> DiagnosticRecord<'a> {
        DiagnosticRecord {
            code: diagnostic.code(),
            level: diagnostic.level().name(),
            file: diagnostic.file(),
            line: diagnostic.line(),
            column: diagnostic.column(),
            rule: diagnostic.rule(),
            message: diagnostic.message(),
            help: diagnostic.help(),
            rendered: diagnostic.render(),
        }
    }
}

impl OutputRecord for DiagnosticRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let is_error = self.level == Level::Error.name();
        let style = style(if is_error {
            Action::Abort
        } else {
            Action::Warn
        });
        let rest = self
            .rendered
            .strip_prefix(self.level)
            .unwrap_or(&self.rendered);
        writeln!(out, "{style}{}{style:#}{rest}", self.level)
    }
}

/// A rule as it takes effect, with defaults filled in and lists expanded.
#[derive(Serialize)]
#[serde(tag = "event", rename = "rule")]
pub(crate) struct RuleRecord<'a> {
    #[serde(rename = "rule")]
    id: &'a str,
    /// The patterns of `match.any`, in a short form.
    patterns: Vec<PatternRecord<'a>>,
    /// Every key of the rule language.
    #[serde(flatten)]
    keys: serde_json::Map<String, serde_json::Value>,
    #[serde(skip)]
    rule: &'a Rule,
}

impl<'a> RuleRecord<'a> {
    pub(crate) fn new(rule: &'a Rule) -> RuleRecord<'a> {
        RuleRecord {
            id: &rule.id,
            patterns: rule.condition.any.iter().map(PatternRecord).collect(),
            keys: effective::keys(rule),
            rule,
        }
    }
}

impl OutputRecord for RuleRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let rule = self.rule;
        let style = style(rule.action);
        let on: Vec<&str> = rule.on.iter().map(|channel| channel.name()).collect();
        write!(
            out,
            "{STRONG}{}{STRONG:#}  {} {style}{}{style:#}  on={}",
            Escaped(&rule.id),
            rule.severity.name(),
            rule.action.name(),
            on.join(",")
        )?;
        for (name, entries) in [
            ("tools", &rule.tools),
            ("args", &rule.args),
            ("paths", &rule.paths),
        ] {
            if !entries.is_empty() {
                write!(out, " {name}={}", Escaped(&first_entries(entries)))?;
            }
        }
        if rule.priority != 0 {
            write!(out, " priority={}", rule.priority)?;
        }
        for PatternRecord(pattern) in self.patterns.iter().take(FEW) {
            write!(
                out,
                " {}={:?}",
                effective::kind(pattern),
                Escaped(&pattern.text).to_string()
            )?;
        }
        match self.patterns.len() {
            ..=FEW => {}
            all => write!(out, " and {} more patterns", all - FEW)?,
        }
        writeln!(out, "  {FAINT}{}{FAINT:#}", Escaped(&rule.description))
    }
}

/// Number of list entries or patterns on a line for people. The JSON output has all of them.
const FEW: usize = 4;

/// Returns the first entries and the number of the others.
fn first_entries(entries: &[String]) -> String {
    match entries.len() {
        ..=FEW => entries.join(","),
        all => format!("{},…{} more", entries[..FEW].join(","), all - FEW),
    }
}

/// A pattern, written as in a rule file: `{"regex":"…"}`.
struct PatternRecord<'a>(&'a Pattern);

impl Serialize for PatternRecord<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&self.0.kind, &self.0.text)?;
        map.end()
    }
}

pub(crate) fn style(action: Action) -> Style {
    let color = match action {
        Action::Retry | Action::Abort => AnsiColor::Red,
        Action::Warn | Action::Inject => AnsiColor::Yellow,
        _ => AnsiColor::Cyan,
    };
    color.on_default()
}

/// Untrusted text (of a model, a rule file, a file name) displayed safely on one line of a terminal: control characters
/// and characters that hide or reorder text are escaped.
pub(crate) struct Escaped<'a>(pub(crate) &'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match is_unsafe(c) {
            true => write!(f, "{}", c.escape_default()),
            false => f.write_char(c),
        })
    }
}

fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
