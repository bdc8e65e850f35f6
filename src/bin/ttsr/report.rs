//! Reports that other programs read: JUnit, SARIF, annotations of a GitHub workflow.
//!
//! Knows these formats and how their texts are escaped, not what is reported.

use std::borrow::Cow;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};

use serde_json::{Value, json};
use ttsr::Level;

use crate::args::{Format, ReportFormat};
use crate::output::{Out, Record, tell};

/// The standard output of a command that reports on files.
pub(crate) struct Report {
    format: ReportFormat,
    /// For the formats that are written record by record.
    out: Out,
    /// For the others.
    findings: Vec<Finding>,
}

/// Something that was looked at, and what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// What it is about: a rule or a file.
    pub(crate) subject: String,
    /// Which of its things.
    pub(crate) case: String,
    /// None: nothing is wrong.
    pub(crate) wrong: Option<Wrong>,
    pub(crate) place: Option<Place>,
}

/// What is wrong.
#[derive(Clone, Debug)]
pub(crate) struct Wrong {
    pub(crate) level: Level,
    /// The kind of problem, a stable word; of a rule that was broken its id.
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
}

/// A place in a file; line and column count from 1, the column in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl Report {
    pub(crate) fn new(format: ReportFormat) -> Report {
        let lines = match format {
            ReportFormat::Human => Format::Human,
            _ => Format::Json,
        };
        Report {
            format,
            out: Out::new(lines),
            findings: Vec::new(),
        }
    }

    /// Whether it is for a reader.
    pub(crate) fn is_human(&self) -> bool {
        self.format == ReportFormat::Human
    }

    pub(crate) fn add(
        &mut self,
        record: &impl Record,
        finding: impl FnOnce() -> Finding,
    ) -> io::Result<()> {
        match self.format {
            ReportFormat::Human | ReportFormat::Json => self.out.write(record)?,
            _ => self.findings.push(finding()),
        }
        Ok(())
    }

    /// What is no finding: only for the formats that are written record by record.
    pub(crate) fn note_each(
        &mut self,
        records: impl Iterator<Item = impl Record>,
    ) -> io::Result<()> {
        if matches!(self.format, ReportFormat::Human | ReportFormat::Json) {
            for record in records {
                self.out.write(&record)?;
            }
        }
        Ok(())
    }

    /// Writes what does not wait for the end.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the report with a record that is data for a script, and a remark for everybody else.
    pub(crate) fn end_with(mut self, summary: &(impl Record + Display)) -> io::Result<()> {
        if self.format == ReportFormat::Json {
            self.out.write(summary)?;
            return self.end();
        }
        self.end()?;
        tell(summary);
        Ok(())
    }

    /// Writes what waits for the end.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.out.flush()?;
        let text = match self.format {
            ReportFormat::Human | ReportFormat::Json => return Ok(()),
            ReportFormat::Junit => junit(&self.findings),
            ReportFormat::Sarif => sarif(&self.findings),
            ReportFormat::Github => github(&self.findings),
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// One test suite a subject; only errors are failures.
fn junit(findings: &[Finding]) -> String {
    let failures = findings.iter().filter(|finding| finding.fails()).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{}\" failures=\"{failures}\">\n",
        findings.len()
    );
    for suite in findings.chunk_by(|a, b| a.subject == b.subject) {
        let failures = suite.iter().filter(|finding| finding.fails()).count();
        out.push_str(&format!(
            "  <testsuite name=\"{}\" tests=\"{}\" failures=\"{failures}\">\n",
            xml(&suite[0].subject),
            suite.len()
        ));
        suite
            .iter()
            .for_each(|finding| junit_case(finding, &mut out));
        out.push_str("  </testsuite>\n");
    }
    out.push_str("</testsuites>\n");
    out
}

fn junit_case(finding: &Finding, out: &mut String) {
    let Finding {
        subject,
        case,
        wrong,
        place,
    } = finding;
    out.push_str(&format!(
        "    <testcase classname=\"{}\" name=\"{}\"",
        xml(subject),
        xml(case)
    ));
    if let Some(place) = place {
        out.push_str(&format!(
            " file=\"{}\" line=\"{}\"",
            xml(&place.file),
            place.line
        ));
    }
    out.push_str(&match wrong {
        None => "/>\n".to_owned(),
        Some(wrong) if wrong.level == Level::Error => format!(
            "><failure type=\"{}\" message=\"{}\"/></testcase>\n",
            xml(&wrong.code),
            xml(&wrong.message)
        ),
        Some(wrong) => format!(
            "><system-out>{}: {}</system-out></testcase>\n",
            wrong.level.name(),
            xml(&wrong.message)
        ),
    });
}

/// Text as XML 1.0 can hold it, in quotes too.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", u32::from(c))),
            // XML has no way at all to hold these.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

fn sarif(findings: &[Finding]) -> String {
    let results: Vec<Value> = findings.iter().filter_map(sarif_result).collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ttsr",
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": sarif_rules(findings),
            } },
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// The kinds of problems, each once.
fn sarif_rules(findings: &[Finding]) -> Vec<Value> {
    let wrongs = findings.iter().filter_map(|finding| finding.wrong.as_ref());
    let mut codes: Vec<&str> = wrongs.map(|wrong| &*wrong.code).collect();
    codes.sort_unstable();
    codes.dedup();
    codes
        .into_iter()
        .map(|code| json!({ "id": code }))
        .collect()
}

fn sarif_result(finding: &Finding) -> Option<Value> {
    let wrong = finding.wrong.as_ref()?;
    let text = format!("{}: {}", finding.subject, wrong.message);
    let locations: Vec<Value> = finding.place.iter().map(sarif_location).collect();
    Some(json!({
        "ruleId": wrong.code,
        "level": wrong.level.name(),
        "message": { "text": text },
        "locations": locations,
    }))
}

fn sarif_location(place: &Place) -> Value {
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": uri(&place.file) },
        "region": { "startLine": place.line, "startColumn": place.column },
    } })
}

/// A path as a relative or an absolute reference.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => write!(out, "%{byte:02X}").expect("a string takes all there is"),
        }
    }
    out
}

fn github(findings: &[Finding]) -> String {
    let line = |finding: &Finding| {
        let wrong = finding.wrong.as_ref()?;
        let command = match wrong.level {
            Level::Error => "error",
            Level::Warning => "warning",
            _ => "notice",
        };
        let place = finding.place.as_ref().map_or_else(String::new, |place| {
            format!(
                "file={},line={},col={},",
                property(&place.file),
                place.line,
                place.column
            )
        });
        let title = match wrong.code == finding.subject {
            true => property(&wrong.code),
            false => property(&format!("{}: {}", wrong.code, finding.subject)),
        };
        let message = message(&wrong.message);
        Some(format!("::{command} {place}title={title}::{message}\n"))
    };
    findings.iter().filter_map(line).collect()
}

fn message(text: &str) -> String {
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

fn property(text: &str) -> String {
    message(text).replace(':', "%3A").replace(',', "%2C")
}

impl Finding {
    fn fails(&self) -> bool {
        let wrong = self.wrong.as_ref();
        wrong.is_some_and(|wrong| wrong.level == Level::Error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_strangers_stay_inside_their_format() {
        assert_eq!(
            xml("<a b=\"&\">\u{1b}\n"),
            "&lt;a b=&quot;&amp;&quot;&gt;\\u{1b}&#10;"
        );
        assert_eq!(
            property("a,b:c%\n::error::"),
            "a%2Cb%3Ac%25%0A%3A%3Aerror%3A%3A"
        );
        assert_eq!(message("50%\r\n::error::x"), "50%25%0D%0A::error::x");
        assert_eq!(uri("rules\\a b/ü#.toml"), "rules/a%20b/%C3%BC%23.toml");
    }
}
