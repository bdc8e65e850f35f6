//! `ttsr docs`: writes a Markdown page for each pack.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use serde::Deserialize;
use toml::value::Datetime;
use ttsr::pack::PackHeader;
use ttsr::rule::Status;
use ttsr::{Action, Mode, Pack, Rule};

use crate::args::PackArgs;
use crate::output::{Escaped, print_message};
use crate::replace::replace;
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, explain, load};

/// Separates the author's text from the generated part of a page.
const MARKER: &str = "<!-- ttsr docs: text above this line is kept -->";

/// Write a Markdown page for each pack: its rules, what they match, their reasons, actions and messages
///
/// The pages go to the standard output, or each into its own file in a folder:
///
///     ttsr docs --pack team.toml > README.md
///
///     ttsr docs --pack team --out docs/packs
///
/// Text above the line `<!-- ttsr docs … -->` of an existing file is kept.
/// A file without that line is not changed.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub(crate) struct Options {
    #[command(flatten)]
    packs: PackArgs,
    /// Write `NAME.md` for each pack into this folder, and `README.md` with a table of the packs
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Show the numbers in this TOML file: `date` and `about` (the measured texts) for all pages, and for each rule the
    /// number of texts it hits, as `[rules]` `"pack/rule" = { dangerous = 5, clean = 0, recordings = 0 }`
    #[arg(long, value_name = "FILE")]
    measured: Option<PathBuf>,
    /// Write nothing; exit with 1 if a page in the folder would change
    #[arg(long, requires = "out")]
    check: bool,
}

/// The numbers of a measurement.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Measurement {
    date: Datetime,
    /// The texts that were measured.
    about: String,
    rules: BTreeMap<String, RuleHits>,
}

/// The numbers of texts that a rule hits.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleHits {
    dangerous: u64,
    clean: u64,
    recordings: u64,
}

impl Measurement {
    fn read(path: &Path) -> Result<Measurement, CommandError> {
        let because = |error: &dyn std::fmt::Display| {
            CommandError::Message(format!("{}: {error}", Escaped(&path.display().to_string())))
        };
        let text = fs::read_to_string(path).map_err(|error| because(&error))?;
        toml::from_str(&text).map_err(|error| because(&error))
    }

    /// Returns the paragraph about the texts, for the page of a pack whose rules were measured.
    fn paragraph(&self, rules: &[&Rule]) -> String {
        let is_measured = rules.iter().any(|rule| self.rules.contains_key(&rule.id));
        match is_measured {
            true => format!(
                "\nMeasured on {}: {}\n",
                self.date,
                inline(self.about.trim())
            ),
            false => String::new(),
        }
    }

    /// Returns the line about a rule.
    fn line(&self, rule: &Rule) -> Option<String> {
        let RuleHits {
            dangerous,
            clean,
            recordings,
        } = *self.rules.get(&rule.id)?;
        let dangerous = Quantity(dangerous, "dangerous text");
        let clean = Quantity(clean, "clean text");
        let recordings = Quantity(recordings, "recording");
        Some(format!(
            "- Measured: hits {dangerous}, {clean} and {recordings}\n"
        ))
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let pack = load::load(&options.packs, &[])?;
    let measured = options.measured.as_deref().map(Measurement::read);
    let measured = measured.transpose()?;
    let mut pages: Vec<PackPage> = requested_packs(&pack)
        .map(|header| PackPage::from_header(header, &pack, measured.as_ref()))
        .collect::<Result<_, _>>()?;
    let Some(folder) = &options.out else {
        let mut out = io::stdout().lock();
        let texts: Vec<String> = pages.iter().map(PackPage::text).collect();
        out.write_all(texts.join("\n").as_bytes())?;
        out.flush()?;
        return Ok(ExitStatus::Clean);
    };
    pages.push(index(&pack));
    let mut changed = 0;
    for page in &pages {
        changed += u64::from(page.write_page(folder, options.check)?);
    }
    let verb = if options.check {
        "would change"
    } else {
        "changed"
    };
    print_message(&format_args!("{} {verb}", Quantity(changed, "page")));
    Ok(match options.check && changed > 0 {
        true => ExitStatus::Findings,
        false => ExitStatus::Clean,
    })
}

/// Returns the packs that were requested, without those that they extend.
fn requested_packs(pack: &Pack) -> impl Iterator<Item = &PackHeader> {
    pack.headers().iter().filter(|header| !header.is_extended)
}

/// Returns the rules defined in that pack.
fn rules<'p>(pack: &'p Pack, header: &PackHeader) -> Vec<&'p Rule> {
    let rules = pack.rules().iter();
    rules.filter(|rule| header.owns(&rule.id)).collect()
}

struct PackPage {
    file: String,
    heading: String,
    body: String,
}

impl PackPage {
    fn from_header(
        header: &PackHeader,
        pack: &Pack,
        measured: Option<&Measurement>,
    ) -> Result<PackPage, CommandError> {
        let rules = rules(pack, header);
        let mut body = description(header);
        if !body.is_empty() {
            body.push_str(". ");
        }
        writeln!(body, "{}.", Quantity(rules.len() as u64, "rule"))
            .expect("writing to a string cannot fail");
        body.push_str(&provenance(header));
        if let Some(measured) = measured {
            body.push_str(&measured.paragraph(&rules));
        }
        if !rules.is_empty() {
            body.push_str("\n| rule | description | reason | action |\n|---|---|---|---|\n");
        }
        for rule in &rules {
            body.push_str(&row(rule));
        }
        for rule in rules {
            body.push_str(&details(rule, measured)?);
        }
        Ok(PackPage {
            file: file(header),
            heading: format!("# `{}`\n", header.name),
            body,
        })
    }

    fn text(&self) -> String {
        format!("{}\n{}", self.heading, self.body)
    }

    /// Writes the page into the folder, unless `is_check`. Returns true if it differs from the existing file.
    fn write_page(&self, folder: &Path, is_check: bool) -> Result<bool, CommandError> {
        let path = folder.join(&self.file);
        let because = |error: &dyn std::fmt::Display| {
            CommandError::Message(format!("{}: {error}", Escaped(&path.display().to_string())))
        };
        let before = match fs::read_to_string(&path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(because(&error)),
        };
        let above = match &before {
            None => format!("{}\n", self.heading),
            Some(text) => {
                let at = text.find(MARKER);
                let at = at.ok_or_else(|| {
                    because(&format_args!(
                        "not written by this command: it has no line `{MARKER}`"
                    ))
                })?;
                text[..at].to_owned()
            }
        };
        let text = format!("{above}{MARKER}\n\n{}", self.body);
        if before.as_ref() == Some(&text) {
            return Ok(false);
        }
        print_message(&Escaped(&path.display().to_string()));
        if !is_check {
            fs::create_dir_all(folder)
                .and_then(|()| replace(&path, text.as_bytes()))
                .map_err(|error| because(&error))?;
        }
        Ok(true)
    }
}

/// Returns the file name of a pack's page. It never collides with `README.md`: pack names are lower case.
fn file(header: &PackHeader) -> String {
    header.name.replace('/', "-") + ".md"
}

/// Returns the page with a table of all packs.
fn index(pack: &Pack) -> PackPage {
    let mut body = String::from(
        "| pack | rules | that abort, retry or redact | purpose |\n|---|---|---|---|\n",
    );
    for header in requested_packs(pack) {
        let rules = rules(pack, header);
        let acting = rules.iter().filter(|rule| cuts_or_redacts(rule)).count();
        writeln!(
            body,
            "| [`{}`]({}) | {} | {acting} | {} |",
            header.name,
            file(header),
            rules.len(),
            description(header)
        )
        .expect("writing to a string cannot fail");
    }
    PackPage {
        file: "README.md".to_owned(),
        heading: "# Packs\n".to_owned(),
        body,
    }
}

/// Returns true if the rule cuts the reply or redacts the match.
fn cuts_or_redacts(rule: &Rule) -> bool {
    matches!(rule.action, Action::Abort | Action::Retry | Action::Redact)
}

/// Returns the pack's description without the full stop at its end.
fn description(header: &PackHeader) -> String {
    let text = header.description.as_deref().unwrap_or_default();
    inline(text.trim().trim_end_matches('.'))
}

/// Returns the provenance of the pack, one line per fact. Empty if the pack states none.
fn provenance(header: &PackHeader) -> String {
    let extends: Vec<String> = header.extends.iter().map(|it| format!("`{it}`")).collect();
    let docs = header.docs.as_deref().filter(|docs| is_link(docs));
    let lines = [
        header
            .version
            .as_deref()
            .map(|it| format!("Version {}", inline(it))),
        header
            .license
            .as_deref()
            .map(|it| format!("Licence: {}", inline(it))),
        (!extends.is_empty()).then(|| format!("Extends {}", extends.join(", "))),
        docs.map(|docs| format!("More: <{docs}>")),
    ];
    let lines: Vec<String> = lines.into_iter().flatten().collect();
    match lines.is_empty() {
        true => String::new(),
        false => format!("\n{}.\n", lines.join(". ")),
    }
}

fn row(rule: &Rule) -> String {
    let name = rule.id.rsplit('/').next().unwrap_or_default();
    let mut what = inline(&rule.description);
    if rule.status == Status::Deprecated {
        what.push_str(" (deprecated");
        if let Some(other) = &rule.replaced_by {
            write!(what, ": use `{other}`").expect("writing to a string cannot fail");
        }
        what.push(')');
    }
    let mut why = inline(rule.why.as_deref().unwrap_or_default());
    if let Some(docs) = rule.docs.as_deref().filter(|docs| is_link(docs)) {
        write!(why, " ([source]({docs}))").expect("writing to a string cannot fail");
    }
    for (number, address) in (1..).zip(rule.references.iter().filter(|it| is_link(it))) {
        write!(why, " [[{number}]]({address})").expect("a string takes all");
    }
    let mode = match rule.mode {
        Mode::Shadow => ", in shadow mode",
        _ => "",
    };
    let action = rule.action.name();
    format!("| `{name}` | {what} | {} | {action}{mode} |\n", why.trim())
}

/// Returns the section of a rule: what it hits, what it does not hit, its message for the first example, and how often it
/// hits measured texts. Empty if the rule has no examples.
fn details(rule: &Rule, measured: Option<&Measurement>) -> Result<String, CommandError> {
    let Some(first) = rule.examples.matching.first() else {
        return Ok(String::new());
    };
    let name = rule.id.rsplit('/').next().unwrap_or_default();
    let mut out = format!("\n## `{name}`\n\n");
    for (title, examples) in [
        ("Fires on", &rule.examples.matching),
        ("Does not fire on", &rule.examples.not_matching),
    ] {
        let examples: Vec<String> = examples.iter().map(|text| code_span(text)).collect();
        if !examples.is_empty() {
            writeln!(out, "- {title}: {}", examples.join(", ")).expect("a string takes all");
        }
    }
    if let Some(message) = explain::example_message(rule, first)? {
        writeln!(out, "- Message: {}", code_span(&message)).expect("a string takes all");
    }
    out.extend(measured.and_then(|measured| measured.line(rule)));
    Ok(out)
}

/// Returns the text as a code span of one line, with control characters escaped.
fn code_span(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        match c {
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    let longest = line.split(|c| c != '`').map(str::len).max();
    let fence = "`".repeat(longest.unwrap_or_default() + 1);
    // A blank parts the fence from a backtick, and one is removed on each side.
    let is_plain = fence.len() == 1 && !line.starts_with(' ') && !line.ends_with(' ');
    let blank = if is_plain { "" } else { " " };
    format!("{fence}{blank}{line}{blank}{fence}")
}

/// Returns true if the text can be a link target in angle brackets.
fn is_link(text: &str) -> bool {
    let is_web = text.starts_with("https://") || text.starts_with("http://");
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !"()<>|".contains(c);
    is_web && text.chars().all(is_plain)
}

/// Returns the text as one line of a table. Outside of code spans, `<` is escaped so that it starts no tag.
fn inline(text: &str) -> String {
    let mut out = String::new();
    let mut is_code = false;
    for c in text.chars() {
        match c {
            '|' => out.push_str("\\|"),
            '<' if !is_code => out.push_str("\\<"),
            c if c.is_control() => out.push(' '),
            c => {
                is_code ^= c == '`';
                out.push(c);
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_in_their_cell() {
        assert_eq!(inline("a|b\n`c<d>` e<f>"), "a\\|b `c<d>` e\\<f>");
        assert_eq!(code_span("a"), "`a`");
        assert_eq!(code_span("a `b`\n"), "`` a `b`\\n ``");
        assert_eq!(code_span(" ``"), "```  `` ```");
        assert!(is_link("https://example.org/a#b"));
        for text in ["javascript:alert(1)", "https://a b", "https://a)|", ""] {
            assert!(!is_link(text), "{text}");
        }
    }
}
