//! The results of a run as JSON.

use std::fmt;

use serde::Serialize;

use crate::common::text::Text;
use crate::duel::Row;
use crate::hyperscan::Library;
use crate::targets::{self, Target};

/// The results of a run.
#[derive(Serialize)]
pub(crate) struct Report {
    pub(crate) environment: Environment,
    pub(crate) rows: Vec<Row>,
    pub(crate) figures: Vec<Figure>,
    pub(crate) targets: Vec<Target>,
}

/// The machine and software of a run.
#[derive(Serialize)]
pub(crate) struct Environment {
    version: &'static str,
    processor: String,
    cores: usize,
    /// Load average of the minute before the run, if the system reports it. If it is above zero, the machine was not
    /// quiet.
    load_before: Option<f64>,
    libraries: Vec<String>,
    bytes: usize,
    deltas: usize,
    rounds: usize,
}

/// A figure that is not a time of a duel.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    pub(crate) value: f64,
    unit: &'static str,
}

impl Report {
    pub(crate) fn new(text: &Text, libraries: &[Library], rounds: usize) -> Report {
        Report {
            environment: Environment {
                version: env!("CARGO_PKG_VERSION"),
                processor: processor(),
                cores: std::thread::available_parallelism().map_or(1, usize::from),
                load_before: load(),
                libraries: libraries
                    .iter()
                    .map(|library| library.name.clone())
                    .collect(),
                bytes: text.bytes.len(),
                deltas: text.deltas.len() - 1,
                rounds,
            },
            rows: Vec::new(),
            figures: Vec::new(),
            targets: Vec::new(),
        }
    }

    /// Returns how many times slower the faster streaming library was.
    pub(crate) fn ratio(&self, rules: &str, case: &str) -> Option<f64> {
        let row =
            |row: &&Row| row.rules == rules && row.case == case && self.is_library(&row.engine);
        self.rows
            .iter()
            .filter(row)
            .map(|row| row.ratio)
            .min_by(f64::total_cmp)
    }

    /// Returns the figure of that name.
    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        self.figures
            .iter()
            .find(|figure| figure.name == name)
            .map(|figure| figure.value)
    }

    pub(crate) fn rate_targets(&mut self) {
        self.targets = targets::rate(self);
    }

    /// Returns the minimum compile time of the libraries divided by that of this crate.
    pub(crate) fn compile_ratio(&self, rules: &str) -> Option<f64> {
        let begin = format!("{rules} rules, compile time of");
        let of_set = self
            .figures
            .iter()
            .filter(|figure| figure.name.starts_with(&begin));
        of_set.map(|figure| figure.value).min_by(f64::total_cmp)
    }

    fn is_library(&self, engine: &str) -> bool {
        self.environment
            .libraries
            .iter()
            .any(|library| engine.starts_with(library))
    }
}

impl Figure {
    pub(crate) fn new(name: impl Into<String>, value: f64, unit: &'static str) -> Figure {
        Figure {
            name: name.into(),
            value,
            unit,
        }
    }
}

impl fmt::Display for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let libraries = match self.libraries.is_empty() {
            true => "no libhs".to_owned(),
            false => self.libraries.join(" and "),
        };
        write!(
            f,
            "ttsr {} and {libraries}, on {} cores of {}; {} bytes in {} deltas; medians of {} rounds",
            self.version, self.cores, self.processor, self.bytes, self.deltas, self.rounds
        )
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "| {} | {:.2} {} |", self.name, self.value, self.unit)
    }
}

/// Returns the system's name for the processor, if it has one.
fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or(std::env::consts::ARCH.to_owned(), |(_, name)| {
        name.trim().to_owned()
    })
}

fn load() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/loadavg").ok()?;
    text.split(' ').next()?.parse().ok()
}
