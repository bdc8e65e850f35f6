//! The performance targets of this crate, and their check against a run.
//!
//! Ratios are the time of the faster of Vectorscan and Hyperscan divided by that of this crate. A figure that was not
//! measured is not met.

use std::fmt;

use serde::Serialize;

use crate::report::Report;

/// One target and its figure.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Target {
    pub(crate) id: &'static str,
    pub(crate) what: String,
    pub(crate) bound: Bound,
    pub(crate) found: Option<f64>,
    pub(crate) met: bool,
}

/// The bound on a figure.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Bound {
    AtLeast(f64),
    AtMost(f64),
}
use Bound::{AtLeast, AtMost};

/// The ratios required of S1, S2, S5, S6 at 64 B and S6 at 1 KB, by number of rules.
const AGAINST_LIBRARIES: [(&str, [f64; 5]); 6] = [
    ("1", [6.0, 7.0, 1.0, 2.5, 1.5]),
    ("10", [8.0, 9.0, 2.5, 2.5, 3.0]),
    ("100", [9.0, 11.0, 2.5, 2.5, 3.0]),
    ("gitleaks", [10.0, 14.0, 3.0, 2.5, 3.0]),
    ("1000", [14.0, 15.0, 3.5, 2.5, 3.0]),
    ("5000", [20.0, 22.0, 4.0, 2.5, 3.0]),
];

/// The id and the case of each column of the table above.
const COLUMNS: [(&str, &str); 5] = [
    ("S1", "delta"),
    ("S2", "4096 streams"),
    ("S5", "64 KB"),
    ("S6", "64 B"),
    ("S6", "1 KB"),
];

/// The other targets, by the name of their figure.
const BY_FIGURE: [(&str, &str, Bound); 19] = [
    ("S3", "1000 rules, ns per delta over 10 rules", AtMost(4.0)),
    ("S3", "5000 rules, ns per delta over 10 rules", AtMost(12.0)),
    ("S4", "1 MB seen by 1 KB seen", AtMost(1.1)),
    ("S8", "1000 rules, first MB cold by warm", AtMost(2.5)),
    ("S9", "a stream of ttsr", AtMost(64.0)),
    ("S9", "1000 rules, table", AtMost(6.0)),
    ("S9", "5000 rules, table", AtMost(20.0)),
    ("S10", "tool input by text", AtMost(2.5)),
    ("S11", "loop without rules by accumulating", AtMost(1.05)),
    (
        "S11",
        "loop with 1000 rules, ns per delta over accumulating",
        AtMost(40.0),
    ),
    ("S12", "2 threads by one", AtLeast(1.9)),
    ("S13", "adversarial text, MB/s", AtLeast(20.0)),
    (
        "S13",
        "adversarial text, memory after 16 MB by after 8 MB",
        AtMost(1.1),
    ),
    ("S14", "Chinese by ASCII, a byte", AtMost(3.0)),
    ("S14", "Russian by ASCII, a byte", AtMost(3.0)),
    ("S14", "emoji by ASCII, a byte", AtMost(3.0)),
    ("S14", "Chinese by ASCII in bulk, a byte", AtMost(3.0)),
    ("S14", "Russian by ASCII in bulk, a byte", AtMost(3.0)),
    ("S14", "emoji by ASCII in bulk, a byte", AtMost(3.0)),
];

/// Checks every target except S7, which has a separate bench.
pub(crate) fn rate(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    for (column, (id, case)) in COLUMNS.into_iter().enumerate() {
        for (rules, bounds) in AGAINST_LIBRARIES {
            let what = format!("{case}, {rules} rules, × faster");
            let found = report.ratio(rules, case);
            targets.push(Target::new(id, what, AtLeast(bounds[column]), found));
        }
    }
    let compile = report.compile_ratio("1000");
    targets.push(Target::new(
        "S8",
        "1000 rules, × faster loaded".to_owned(),
        AtLeast(30.0),
        compile,
    ));
    for (id, name, bound) in BY_FIGURE {
        targets.push(Target::new(id, name.to_owned(), bound, report.figure(name)));
    }
    targets.sort_by_key(|target| target.id[1..].parse::<u32>().unwrap_or_default());
    targets
}

impl Target {
    fn new(id: &'static str, what: String, bound: Bound, found: Option<f64>) -> Target {
        let met = found.is_some_and(|found| match bound {
            AtLeast(least) => found >= least,
            AtMost(most) => found <= most,
        });
        Target {
            id,
            what,
            bound,
            found,
            met,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self.bound {
            AtLeast(least) => format!("≥ {least}"),
            AtMost(most) => format!("≤ {most}"),
        };
        let found = self
            .found
            .map_or("not measured".to_owned(), |found| format!("{found:.2}"));
        let met = if self.met { "met" } else { "MISSED" };
        write!(
            f,
            "| {} | {} | {bound} | {found} | {met} |",
            self.id, self.what
        )
    }
}
