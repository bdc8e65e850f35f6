//! Renders the report as one self-contained page: SVG charts, in light or dark colours as the browser asks.

use std::fmt::{self, Display};
use std::io::{self, Write};

use super::report::{BenchReport, GrowthPoint, METHOD, RuleCost, SHOWN};
use crate::output::Escaped;

const STYLE: &str = "\
:root { color-scheme: light dark; --ours: #0072b2; --other: #d55e00; --bare: #8a8a8a; --line: #8884 }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: #fff; color: #1c1f22 }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem; margin-top: 2.5rem }
table { border-collapse: collapse; width: 100% } th, td { text-align: left; padding: .3rem .6rem;
  border-bottom: 1px solid var(--line); vertical-align: top } .number { text-align: right;
  font-variant-numeric: tabular-nums } svg { width: 100%; height: auto } svg text { fill: currentColor;
  font-size: 13px } .axis { stroke: var(--line) } .ours { fill: var(--ours); stroke: var(--ours) }
.other { fill: var(--other); stroke: var(--other) } .bare { fill: var(--bare); stroke: var(--bare) }
.line { fill: none; stroke-width: 2.5 } .small { font-size: .85rem; opacity: .8 } code { overflow-wrap: anywhere }
@media (prefers-color-scheme: dark) { :root { --ours: #56b4e9; --other: #ff9d4d; --bare: #999 }
  body { background: #14171a; color: #e2e5e8 } }";

const WIDTH: f64 = 880.0;

pub(crate) fn write(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>Cost of the rules</title>\n<style>{STYLE}</style>\n<h1>Cost of the rules</h1>"
    )?;
    writeln!(
        out,
        "<p>ttsr {}. Packs: {}. Streams: {}.</p>\n<p>{} rules with {} patterns, on {} bytes in {} deltas of {} replies: <b>{:.1} ns per delta</b>, \
         {:.2} ns per byte. Rescanning each reply at every delta would take {:.1} times as long. {} hits.</p>",
        report.version,
        HtmlEscaped(&report.packs.join(", ")),
        HtmlEscaped(&report.streams.join(", ")),
        report.rules_loaded,
        report.patterns,
        report.bytes,
        report.deltas,
        report.replies,
        report.ns_per_delta(),
        report.ns_per_delta() * report.deltas as f64 / report.bytes.max(1) as f64,
        report.slowdown(),
        report.hits,
    )?;
    costs(report, out)?;
    growth(&report.growth, out)?;
    memory(report, out)?;
    rules(report, out)
}

/// Writes the chart of the three costs: horizontal bars on a logarithmic axis.
fn costs(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    let bars = [
        ("buffering only", "bare", report.bare.ns_per_delta),
        ("with these rules", "ours", report.ns_per_delta()),
        ("rescanning", "other", report.rescan.ns_per_delta),
    ];
    writeln!(
        out,
        "<h2>Cost per delta</h2>\n<p>Nanoseconds, on a logarithmic axis.</p>"
    )?;
    let axis = Axis::new(bars.iter().map(|(_, _, value)| *value), 150.0, WIDTH - 90.0);
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} 130\" role=\"img\" aria-label=\"Cost of a delta\">"
    )?;
    for at in axis.lines() {
        writeln!(out, "<path class=\"axis\" d=\"M{at:.1} 5V115\"/>")?;
    }
    for (index, (name, class, value)) in bars.into_iter().enumerate() {
        let top = 10.0 + index as f64 * 36.0;
        let end = axis.position(value);
        let width = (end - 150.0).max(2.0);
        writeln!(out, "<text x=\"0\" y=\"{:.1}\">{name}</text>", top + 18.0)?;
        writeln!(
            out,
            "<rect class=\"{class}\" x=\"150\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"26\" rx=\"3\"/>"
        )?;
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\">{value:.1} ns</text>",
            158.0 + width,
            top + 18.0
        )?;
    }
    writeln!(out, "</svg>")?;
    for note in [report.cuts_note(), report.truncation_note()]
        .into_iter()
        .flatten()
    {
        writeln!(out, "<p class=\"small\">{}.</p>", note.replace('`', ""))?;
    }
    rows(report, out)
}

/// Writes the table of the ways in which a host uses the rules.
fn rows(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<table><tr><th>use<th class=\"number\">ns<th class=\"number\">instructions<th>of a"
    )?;
    for cost in &report.rows {
        let counted = cost.instructions.map(|count| format!("{count:.0}"));
        writeln!(
            out,
            "<tr><td>{}<td class=\"number\">{:.1}<td class=\"number\">{}<td>{}",
            cost.row.words().replace('`', ""),
            cost.ns,
            counted.as_deref().unwrap_or("not counted"),
            cost.row.piece(),
        )?;
    }
    writeln!(
        out,
        "<tr><td>matching alone<td class=\"number\">{:.1}<td class=\"number\">not counted<td>delta\n</table>",
        report.matching.ns_per_delta
    )
}

/// Writes the chart of the cost along the longest reply: two curves on a logarithmic axis.
fn growth(growth: &[GrowthPoint], out: &mut dyn Write) -> io::Result<()> {
    const BOTTOM: f64 = 220.0;
    let Some(last) = growth.last().filter(|_| growth.len() > 1) else {
        return Ok(());
    };
    let values = growth
        .iter()
        .flat_map(|at| [Some(at.ns_per_delta), at.rescan_ns_per_delta])
        .flatten();
    let axis = Axis::new(values, BOTTOM, 10.0);
    let x = |bytes: usize| 80.0 + bytes as f64 / last.bytes as f64 * (WIDTH - 100.0);
    writeln!(
        out,
        "<h2>Along the longest reply</h2>\n<p>Nanoseconds per delta, by the number of bytes before it: \
         <b style=\"color:var(--ours)\">with these rules</b>, <b style=\"color:var(--other)\">rescanning</b>.</p>"
    )?;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} 260\" role=\"img\" aria-label=\"Cost along the reply\">"
    )?;
    for (at, power) in axis.lines().zip(axis.low..) {
        writeln!(out, "<path class=\"axis\" d=\"M70 {at:.1}H{WIDTH}\"/>")?;
        writeln!(
            out,
            "<text x=\"0\" y=\"{:.1}\">{} ns</text>",
            at + 4.0,
            10f64.powi(power)
        )?;
    }
    let ours = growth
        .iter()
        .map(|at| (x(at.bytes), axis.position(at.ns_per_delta)));
    line(out, "ours", &ours.collect::<Vec<_>>())?;
    let searched = growth
        .iter()
        .filter_map(|at| Some((x(at.bytes), axis.position(at.rescan_ns_per_delta?))));
    line(out, "other", &searched.collect::<Vec<_>>())?;
    writeln!(
        out,
        "<text x=\"70\" y=\"250\">0</text><text x=\"{:.1}\" y=\"250\">{} bytes</text>",
        WIDTH - 100.0,
        last.bytes
    )?;
    writeln!(out, "</svg>")
}

fn line(out: &mut dyn Write, class: &str, points: &[(f64, f64)]) -> io::Result<()> {
    let path: Vec<String> = points
        .iter()
        .map(|(x, y)| format!("{x:.1} {y:.1}"))
        .collect();
    writeln!(
        out,
        "<path class=\"line {class}\" style=\"fill:none\" d=\"M{}\"/>",
        path.join("L")
    )
}

fn memory(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<h2>Memory</h2>\n<p>{} bytes of state for each open text. Shared by all streams:</p>\n\
         <table><tr><th>channel<th class=\"number\">states<th class=\"number\">columns<th class=\"number\">table, \
         bytes<th class=\"number\">sets, bytes",
        report.state_bytes
    )?;
    for automaton in &report.automata {
        let size = &automaton.size;
        writeln!(
            out,
            "<tr><td>{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{}",
            automaton.channel, size.states, size.columns, size.table_bytes, size.set_bytes
        )?;
    }
    writeln!(out, "</table>")
}

fn rules(report: &BenchReport, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "<h2>Rules</h2>\n<p>States that only this rule needs, out of {}.</p>",
        report.states
    )?;
    chart(&report.rules[..report.rules.len().min(SHOWN)], out)?;
    writeln!(
        out,
        "<table><tr><th>rule<th class=\"number\">states added<th class=\"number\">alone<th \
         class=\"number\">ns per delta saved without it<th class=\"number\">hits<th>reason"
    )?;
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "not measured".to_owned());
    for cost in &report.rules {
        writeln!(
            out,
            "<tr><td><code>{}</code><td class=\"number\">{}<td class=\"number\">{}<td class=\"number\">{}\
             <td class=\"number\">{}<td>{}",
            HtmlEscaped(&cost.rule),
            or_none(cost.states_added.map(|added| added.to_string())),
            cost.states_alone,
            match cost.ns_saved_per_delta {
                None if cost.is_timed => "within the noise".to_owned(),
                saved => or_none(saved.map(|saved| format!("{saved:.2}"))),
            },
            cost.hits,
            cost.cost_reasons(),
        )?;
    }
    writeln!(
        out,
        "</table>\n<p class=\"small\">{}</p>\n</html>",
        METHOD.replace('`', "")
    )
}

/// Writes the chart of the states that each rule adds.
fn chart(shown: &[RuleCost], out: &mut dyn Write) -> io::Result<()> {
    let most = shown
        .iter()
        .filter_map(|cost| cost.states_added)
        .max()
        .unwrap_or(0)
        .max(1) as f64;
    let height = 10 + shown.len() * 24;
    writeln!(
        out,
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"States by rule\">"
    )?;
    for (index, cost) in shown.iter().enumerate() {
        let top = 5 + index * 24;
        let added = cost.states_added.unwrap_or(0);
        let width = (added as f64 / most * (WIDTH - 420.0)).max(1.0);
        writeln!(
            out,
            "<text x=\"0\" y=\"{}\">{}</text>",
            top + 14,
            HtmlEscaped(&cost.rule)
        )?;
        writeln!(
            out,
            "<rect class=\"ours\" x=\"340\" y=\"{top}\" width=\"{width:.1}\" height=\"18\" rx=\"2\"/>"
        )?;
        writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\">{added}</text>",
            348.0 + width,
            top + 14
        )?;
    }
    writeln!(out, "</svg>")
}

/// A logarithmic axis between two coordinates.
struct Axis {
    /// Exponents of ten at both ends.
    low: i32,
    high: i32,
    from: f64,
    to: f64,
}

impl Axis {
    fn new(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Axis {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value), most.max(value))
        });
        let low = least.max(1e-3).log10().floor() as i32;
        Axis {
            low,
            high: (most.max(1e-3).log10().ceil() as i32).max(low + 1),
            from,
            to,
        }
    }

    fn position(&self, value: f64) -> f64 {
        let part =
            (value.max(1e-3).log10() - f64::from(self.low)) / f64::from(self.high - self.low);
        self.from + part * (self.to - self.from)
    }

    /// Returns the powers of ten at which grid lines are drawn.
    fn lines(&self) -> impl Iterator<Item = f64> {
        (self.low..=self.high).map(|power| self.position(10f64.powi(power)))
    }
}

/// Text from a rule file, escaped for HTML. Rule files are untrusted.
struct HtmlEscaped<'a>(&'a str);

impl Display for HtmlEscaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = Escaped(self.0).to_string();
        f.write_str(
            &shown
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;"),
        )
    }
}
