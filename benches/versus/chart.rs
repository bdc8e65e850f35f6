//! The comparison as an SVG chart, in light or dark colours as the viewer asks.

use std::fmt::Write as _;

use crate::duel::Row;
use crate::report::Report;

const WIDTH: f64 = 960.0;
const LEFT: f64 = 70.0;
const PANEL: f64 = 260.0;
const GAP: f64 = 120.0;

/// The sets on the axis, and their labels.
const SETS: [&str; 6] = ["1", "10", "100", "gitleaks", "1000", "5000"];

const STYLE: &str = "\
svg { background: #fff; color: #222; font: 13px system-ui, sans-serif }
text { fill: currentColor } .faint { stroke: currentColor; opacity: .15 } .title { font-size: 16px; font-weight: 600 }
.line { fill: none; stroke-width: 2.5 }
@media (prefers-color-scheme: dark) { svg { background: #14171a; color: #ddd } }";

/// Colours that most people can distinguish, on white and on black.
const COLOURS: [&str; 8] = [
    "#d55e00", "#0072b2", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#7f7f7f", "#9467bd",
];

/// One line of a panel: its name, and its value for each set.
struct Line {
    name: String,
    values: Vec<Option<f64>>,
}

/// Returns the chart: times per delta above, speed-ups below, both on logarithmic axes.
pub(crate) fn svg(report: &Report) -> String {
    let lines = [times(report), ratios(report)];
    let legend = lines.iter().map(Vec::len).max().unwrap_or(0) as f64 * 18.0;
    let height = 2.0 * (PANEL + GAP + legend);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\">\n<style>{STYLE}</style>\n"
    );
    let titles = [
        "Nanoseconds per delta of 4.7 bytes, by number of rules (lower is better)",
        "Times faster than the better of Vectorscan and Hyperscan (higher is better)",
    ];
    for (index, (title, lines)) in titles.iter().zip(&lines).enumerate() {
        panel(
            &mut svg,
            title,
            lines,
            50.0 + index as f64 * (PANEL + GAP + legend),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Returns a line for each engine, for the cases with one stream of deltas.
fn times(report: &Report) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in report
        .rows
        .iter()
        .filter(|row| row.case.starts_with("delta"))
    {
        // This crate is in every case; the case with the longest text counts.
        if lines.iter().all(|line| line.name != row.engine) && is_charted(row) {
            let case = row.case;
            let of = |set: &&str| {
                let same = |other: &&Row| {
                    other.rules == **set && other.case == case && other.engine == row.engine
                };
                report
                    .rows
                    .iter()
                    .find(same)
                    .map(|row| row.nanoseconds_per_delta)
            };
            lines.push(Line {
                name: row.engine.clone(),
                values: SETS.iter().map(of).collect(),
            });
        }
    }
    // The word list is a separate set, so engines that only support words have no value here.
    lines.retain(|line| line.values.iter().any(Option::is_some));
    lines
}

/// Returns true if the row is charted. Of the rescanning hosts only the best and the most common one are shown.
fn is_charted(row: &Row) -> bool {
    let left_out = ["cloned", "4,096", "128", "empty call", "single match"];
    !left_out.iter().any(|part| row.engine.contains(part))
}

fn ratios(report: &Report) -> Vec<Line> {
    let cases = ["delta", "4096 streams", "64 B", "1 KB", "64 KB"];
    let line = |case: &str| Line {
        name: case.to_owned(),
        values: SETS.iter().map(|set| report.ratio(set, case)).collect(),
    };
    cases.into_iter().map(line).collect()
}

fn panel(svg: &mut String, title: &str, lines: &[Line], top: f64) {
    let values = || lines.iter().flat_map(|line| line.values.iter().flatten());
    let low = values()
        .copied()
        .fold(f64::MAX, f64::min)
        .max(1e-3)
        .log10()
        .floor();
    let high = values()
        .copied()
        .fold(f64::MIN, f64::max)
        .max(1e-2)
        .log10()
        .ceil()
        .max(low + 1.0);
    let x =
        |index: usize| LEFT + 40.0 + index as f64 * (WIDTH - LEFT - 80.0) / (SETS.len() - 1) as f64;
    let y = |value: f64| top + PANEL - (value.log10() - low) / (high - low) * PANEL;
    write_text(svg, "title", LEFT, top - 20.0, title);
    for power in low as i32..=high as i32 {
        let at = y(10f64.powi(power));
        let _ = writeln!(
            svg,
            "<path class=\"faint\" d=\"M{LEFT} {at:.1}H{}\"/>",
            WIDTH - 20.0
        );
        write_text(svg, "", 12.0, at + 4.0, &grouped(power));
    }
    for (index, set) in SETS.iter().enumerate() {
        write_text(svg, "", x(index) - 12.0, top + PANEL + 22.0, set);
    }
    for (number, line) in lines.iter().enumerate() {
        let colour = COLOURS[number % COLOURS.len()];
        let points = line
            .values
            .iter()
            .enumerate()
            .filter_map(|(index, value)| Some((x(index), y((*value)?))));
        let points: Vec<(f64, f64)> = points.collect();
        let path: Vec<String> = points
            .iter()
            .map(|(x, y)| format!("{x:.1} {y:.1}"))
            .collect();
        let _ = writeln!(
            svg,
            "<path class=\"line\" stroke=\"{colour}\" d=\"M{}\"/>",
            path.join("L")
        );
        for (x, y) in points {
            let _ = writeln!(
                svg,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\" fill=\"{colour}\"/>"
            );
        }
        let at = top + PANEL + 44.0 + number as f64 * 18.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{LEFT}\" y=\"{:.1}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>",
            at - 10.0
        );
        write_text(svg, "", LEFT + 20.0, at, &line.name);
    }
}

fn write_text(svg: &mut String, class: &str, x: f64, y: f64, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    // Writing to a string cannot fail.
    let _ = writeln!(
        svg,
        "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
    );
}

/// Returns a power of ten as text with digit groups.
fn grouped(power: i32) -> String {
    match power {
        ..0 => format!("{:.*}", power.unsigned_abs() as usize, 10f64.powi(power)),
        0..3 => format!("{}", 10i64.pow(power.unsigned_abs())),
        3..6 => format!("{},000", 10i64.pow(power.unsigned_abs() - 3)),
        _ => format!("{} M", 10i64.pow(power.unsigned_abs().min(18) - 6)),
    }
}
