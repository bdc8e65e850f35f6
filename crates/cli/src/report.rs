//! Reports for other programs: JUnit, SARIF, GitHub workflow annotations.
//!
//! Defines these formats and their escaping, not the contents of the reports.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;

use serde_json::{Value, json};
use ttsr::Level;

use crate::args::{OutputFormat, ReportFormat};
use crate::line_index::LineColumn;
use crate::output::{OutputRecord, RecordWriter, UnreadInput, print_message};

/// The standard output of a subcommand that reports on files.
pub(crate) struct FindingReport {
    format: ReportFormat,
    /// Used by formats that are written record by record.
    out: RecordWriter,
    /// Collected for the other formats.
    findings: Vec<Finding>,
    /// Input that could not be read.
    unread: Vec<UnreadInput>,
}

/// One examined item and its problem, if it has one.
#[derive(Clone, Debug)]
pub(crate) struct Finding {
    /// The rule or file that was examined.
    pub(crate) subject: String,
    /// The item within the subject.
    pub(crate) case: String,
    /// `None` if the item is correct.
    pub(crate) wrong: Option<FindingProblem>,
    pub(crate) place: Option<SourceLocation>,
    /// Details of a match found by a scan.
    pub(crate) matched: Option<MatchDetails>,
}

/// Details of a match, for the formats that can express them.
#[derive(Clone, Debug)]
pub(crate) struct MatchDetails {
    pub(crate) start: LineColumn,
    /// The position after the last character.
    pub(crate) end: LineColumn,
    /// The range in bytes of the file.
    pub(crate) bytes: Range<u64>,
    pub(crate) fingerprint: String,
    pub(crate) rule: Arc<RuleHelp>,
}

/// The texts in which a rule describes itself.
#[derive(Debug)]
pub(crate) struct RuleHelp {
    pub(crate) description: String,
    pub(crate) help: String,
    pub(crate) docs: Option<String>,
    pub(crate) tags: Vec<String>,
    pub(crate) references: Vec<String>,
    pub(crate) level: Level,
}

/// A problem.
#[derive(Clone, Debug)]
pub(crate) struct FindingProblem {
    pub(crate) level: Level,
    /// The kind of problem, a stable word, or the id of the rule that hit.
    pub(crate) code: Cow<'static, str>,
    pub(crate) message: String,
}

/// A location in a file. Line and column count from 1, the column in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceLocation {
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) column: u32,
}

impl FindingReport {
    pub(crate) fn new(format: ReportFormat) -> FindingReport {
        let lines = match format {
            ReportFormat::Human => OutputFormat::Human,
            _ => OutputFormat::Json,
        };
        FindingReport {
            format,
            out: RecordWriter::new(lines),
            findings: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// Returns true if the output is text for people.
    pub(crate) fn is_human(&self) -> bool {
        self.format == ReportFormat::Human
    }

    pub(crate) fn add(
        &mut self,
        record: &impl OutputRecord,
        finding: impl FnOnce() -> Finding,
    ) -> io::Result<()> {
        match self.format {
            ReportFormat::Human | ReportFormat::Json => self.out.write(record)?,
            _ => self.findings.push(finding()),
        }
        Ok(())
    }

    /// Writes records that are not findings. Formats without room for them ignore this.
    pub(crate) fn write_extra(
        &mut self,
        records: impl Iterator<Item = impl OutputRecord>,
    ) -> io::Result<()> {
        if matches!(self.format, ReportFormat::Human | ReportFormat::Json) {
            for record in records {
                self.out.write(&record)?;
            }
        }
        Ok(())
    }

    /// Writes buffered output.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Adds input that could not be read. It has been reported on the standard error already.
    pub(crate) fn add_unread(&mut self, unread: Vec<UnreadInput>) -> io::Result<()> {
        if self.format == ReportFormat::Json {
            unread
                .iter()
                .try_for_each(|unread| self.out.write(unread))?;
        }
        self.unread = unread;
        Ok(())
    }

    /// Ends the report with a summary: a record in JSON, a message on the standard error otherwise.
    pub(crate) fn end_with(mut self, summary: &(impl OutputRecord + Display)) -> io::Result<()> {
        if self.format == ReportFormat::Json {
            self.out.write(summary)?;
            return self.end();
        }
        self.end()?;
        print_message(summary);
        Ok(())
    }

    /// Writes the report of the formats that are written as a whole.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.out.flush()?;
        let text = match self.format {
            ReportFormat::Human | ReportFormat::Json => return Ok(()),
            ReportFormat::Junit => junit(&self.findings, &self.unread),
            ReportFormat::Sarif => sarif(&self.findings, &self.unread),
            ReportFormat::Github => github(&self.findings, &self.unread),
        };
        let mut out = io::stdout().lock();
        out.write_all(text.as_bytes())?;
        out.flush()
    }
}

/// Returns the JUnit report: one test suite per subject. Only errors count as failures.
fn junit(findings: &[Finding], unread: &[UnreadInput]) -> String {
    let failures = findings.iter().filter(|finding| finding.fails()).count();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites tests=\"{}\" failures=\"{failures}\"{}>\n",
        findings.len() + unread.len(),
        match unread.len() {
            0 => String::new(),
            errors => format!(" errors=\"{errors}\""),
        }
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
    if !unread.is_empty() {
        out.push_str(&format!(
            "  <testsuite name=\"unread\" tests=\"{0}\" failures=\"0\" errors=\"{0}\">\n",
            unread.len()
        ));
        for unread in unread {
            let name = xml(&unread.stream);
            out.push_str(&format!(
                "    <testcase classname=\"unread\" name=\"{name}\"><error type=\"unread\" message=\"{}\"/></testcase>\n",
                xml(&unread.to_string())
            ));
        }
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
        ..
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

/// Returns the text escaped for XML 1.0, also inside attribute values.
fn xml(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' | '\n' | '\r' => out.push_str(&format!("&#{};", u32::from(c))),
            // XML 1.0 cannot express these characters at all.
            '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.extend(c.escape_unicode()),
            c => out.push(c),
        }
    }
    out
}

fn sarif(findings: &[Finding], unread: &[UnreadInput]) -> String {
    let rules = sarif_rules(findings);
    let results = findings.iter();
    let results: Vec<Value> = results
        .filter_map(|finding| sarif_result(finding, &rules))
        .collect();
    let is_scan = findings.iter().any(|finding| finding.matched.is_some());
    let notifications: Vec<Value> = unread.iter().map(sarif_notification).collect();
    let rules: Vec<Value> = rules.into_values().collect();
    let log = json!({
        "$schema": "https://json.schemastore.org/sarif-2.1.0.json",
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "ttsr",
                "version": env!("CARGO_PKG_VERSION"),
                "semanticVersion": env!("CARGO_PKG_VERSION"),
                "informationUri": env!("CARGO_PKG_REPOSITORY"),
                "rules": rules,
            } },
            "invocations": [{
                "executionSuccessful": unread.is_empty(),
                "toolExecutionNotifications": notifications,
            }],
            "columnKind": if is_scan { "utf16CodeUnits" } else { "unicodeCodePoints" },
            "results": results,
        }],
    });
    format!("{log:#}\n")
}

/// Returns each kind of problem once, by id.
fn sarif_rules(findings: &[Finding]) -> BTreeMap<&str, Value> {
    let mut rules = BTreeMap::new();
    for finding in findings {
        let Some(wrong) = &finding.wrong else {
            continue;
        };
        rules.entry(&*wrong.code).or_insert_with(|| {
            let help = finding.matched.as_ref().map(|matched| &*matched.rule);
            sarif_rule(&wrong.code, help)
        });
    }
    rules
}

fn sarif_rule(code: &str, help: Option<&RuleHelp>) -> Value {
    let mut rule = json!({ "id": code });
    let Some(help) = help else {
        return rule;
    };
    rule["shortDescription"] = json!({ "text": help.description });
    rule["help"] = json!({ "text": help.help });
    rule["defaultConfiguration"] = json!({ "level": help.level.name() });
    if let Some(docs) = &help.docs {
        rule["helpUri"] = json!(docs);
    }
    if !help.tags.is_empty() {
        rule["properties"]["tags"] = json!(help.tags);
    }
    if !help.references.is_empty() {
        rule["properties"]["references"] = json!(help.references);
    }
    rule
}

fn sarif_result(finding: &Finding, rules: &BTreeMap<&str, Value>) -> Option<Value> {
    let wrong = finding.wrong.as_ref()?;
    let index = rules.keys().position(|code| *code == wrong.code);
    let text = format!("{}: {}", finding.subject, wrong.message);
    let locations = finding.place.iter();
    let locations: Vec<Value> = locations
        .map(|place| sarif_location(place, finding.matched.as_ref()))
        .collect();
    let mut result = json!({
        "ruleId": wrong.code,
        "ruleIndex": index,
        "level": wrong.level.name(),
        "message": { "text": text },
        "locations": locations,
    });
    if let Some(matched) = &finding.matched {
        result["partialFingerprints"] = json!({ "ttsrMatch/v1": matched.fingerprint });
    }
    Some(result)
}

fn sarif_location(place: &SourceLocation, matched: Option<&MatchDetails>) -> Value {
    let region = match matched {
        None => json!({ "startLine": place.line, "startColumn": place.column }),
        Some(MatchDetails {
            start, end, bytes, ..
        }) => json!({
            "startLine": start.line,
            "startColumn": start.column_utf16,
            "endLine": end.line,
            "endColumn": end.column_utf16,
            "byteOffset": bytes.start,
            "byteLength": bytes.end - bytes.start,
        }),
    };
    json!({ "physicalLocation": {
        "artifactLocation": { "uri": uri(&place.file) },
        "region": region,
    } })
}

fn sarif_notification(unread: &UnreadInput) -> Value {
    let mut notification = json!({
        "level": "error",
        "message": { "text": unread.to_string() },
    });
    if unread.stream != "-" {
        notification["locations"] = json!([{ "physicalLocation": {
            "artifactLocation": { "uri": uri(&unread.stream) },
        } }]);
    }
    notification
}

/// Returns a path as a relative or absolute URI reference.
fn uri(path: &str) -> String {
    let mut out = String::new();
    for byte in path.replace('\\', "/").bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                out.push(char::from(byte));
            }
            byte => write!(out, "%{byte:02X}").expect("writing to a string cannot fail"),
        }
    }
    out
}

fn github(findings: &[Finding], unread: &[UnreadInput]) -> String {
    let line = |finding: &Finding| {
        let wrong = finding.wrong.as_ref()?;
        let command = match wrong.level {
            Level::Error => "error",
            Level::Warning => "warning",
            _ => "notice",
        };
        let place = finding.place.as_ref().map_or_else(String::new, |place| {
            format!(
                "file={},line={},{}col={},{}",
                property(&place.file),
                place.line,
                match &finding.matched {
                    Some(matched) if matched.end.line > matched.start.line =>
                        format!("endLine={},", matched.end.line),
                    _ => String::new(),
                },
                place.column,
                match &finding.matched {
                    Some(matched) if matched.end.line == matched.start.line =>
                        format!("endColumn={},", matched.end.column),
                    _ => String::new(),
                },
            )
        });
        let title = match wrong.code == finding.subject {
            true => property(&wrong.code),
            false => property(&format!("{}: {}", wrong.code, finding.subject)),
        };
        let message = message(&wrong.message);
        Some(format!("::{command} {place}title={title}::{message}\n"))
    };
    let unread = unread.iter().map(|unread| {
        let file = match unread.stream.as_str() {
            "-" => String::new(),
            file => format!("file={},", property(file)),
        };
        let message = message(&unread.to_string());
        format!("::error {file}title=unread::{message}\n")
    });
    findings.iter().filter_map(line).chain(unread).collect()
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
