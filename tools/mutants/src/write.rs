//! Writes a file in which every mutant can be selected at run time.
//!
//! Each place becomes `match crate::mutant(first, count) { 0 => original, 1 => … }`. Only the original contains nested
//! places, so each mutant's text occurs once. Each mutant has its own lines, so the line of a compiler error identifies
//! the mutant.

use std::collections::BTreeMap;
use std::ops::Range;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};

use crate::list::{Genre, Mutant, Position};
use crate::place::{Kind, Place, Places};

/// A written file.
pub struct Written {
    pub text: String,
    /// The mutants in it, numbered from `first`.
    pub mutants: Vec<Numbered>,
    /// The line ranges of these mutants, from one.
    pub lines: Vec<Range<usize>>,
    /// Mutants that cannot be selected at run time.
    pub elsewhere: Vec<usize>,
}

/// A mutant that can be selected.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Numbered {
    pub mutant: usize,
    /// The first number of its place.
    pub place: u32,
}

/// Writes `source` with those of `mutants` (indices into `all`) that can be selected, numbered from `first`.
pub fn write(source: &str, all: &[Mutant], mutants: &[usize], first: u32) -> Result<Written> {
    let places = Places::of(source).context("does not parse")?;
    let lines = LineStarts::of(source);
    let mut elsewhere = Vec::new();
    let mut chosen: BTreeMap<Order, (Place, Vec<Alternative>)> = BTreeMap::new();
    for &mutant in mutants {
        let it = &all[mutant];
        let span = lines.byte(source, it.span.start)..lines.byte(source, it.span.end);
        let Some(place) = places.of_mutant(it, &span) else {
            elsewhere.push(mutant);
            continue;
        };
        let length = place.range.len();
        let order = (
            place.range.start,
            length > 0,
            usize::MAX - length,
            place.kind,
        );
        let text = changed(source, it, &place, span)?;
        let alternatives = &mut chosen.entry(order).or_insert_with(|| (place, Vec::new())).1;
        alternatives.push(Alternative { mutant, text });
    }
    let mut writer = Writer {
        source,
        places: chosen.into_values().collect(),
        next: 0,
        first,
        out: Out::default(),
        mutants: Vec::new(),
        lines: Vec::new(),
    };
    writer.write(0..source.len());
    ensure!(writer.next == writer.places.len(), "places overlap");
    Ok(Written {
        text: writer.out.text,
        mutants: writer.mutants,
        lines: writer.lines,
        elsewhere,
    })
}

/// The sort key of places: file order, enclosing places first: start, nonempty, length
type Order = (usize, bool, usize, Kind);

struct Alternative {
    mutant: usize,
    text: String,
}

/// Returns the text of the mutant at `place`.
fn changed(source: &str, mutant: &Mutant, place: &Place, span: Range<usize>) -> Result<String> {
    Ok(match (place.kind, mutant.genre) {
        (Kind::Body, _) => format!("return {}", mutant.replacement),
        (_, Genre::MatchArm) => "false".to_owned(),
        (_, Genre::MatchArmGuard) => mutant.replacement.clone(),
        _ => {
            let Range { start, end } = place.range;
            ensure!(
                start <= span.start && span.end <= end,
                "{}: not inside its place",
                mutant.name
            );
            // A blank keeps `a - -b` apart where an operator goes, and ends a word where an operator comes.
            let (before, after) = (&source[start..span.start], &source[span.end..end]);
            format!("{before}{} {after}", mutant.replacement)
        }
    })
}

struct Writer<'s> {
    source: &'s str,
    places: Vec<(Place, Vec<Alternative>)>,
    next: usize,
    first: u32,
    out: Out,
    mutants: Vec<Numbered>,
    lines: Vec<Range<usize>>,
}

impl Writer<'_> {
    /// Writes a part of the source with all places in it.
    fn write(&mut self, range: Range<usize>) {
        let mut at = range.start;
        while let Some((place, _)) = self.places.get(self.next) {
            if place.range.start < at || place.range.end > range.end {
                break;
            }
            let place = place.clone();
            self.out.push(&self.source[at..place.range.start]);
            self.choose(&place);
            at = place.range.end;
        }
        self.out.push(&self.source[at..range.end]);
    }

    /// Writes one place: the original first, so that types are inferred from it.
    fn choose(&mut self, place: &Place) {
        let alternatives = std::mem::take(&mut self.places[self.next].1);
        self.next += 1;
        let (index, count) = (self.mutants.len(), alternatives.len());
        let number = self.first + index as u32;
        let numbered = |&Alternative { mutant, .. }: &_| Numbered {
            mutant,
            place: number,
        };
        self.mutants.extend(alternatives.iter().map(numbered));
        self.lines.resize(self.mutants.len(), 0..0);
        self.out.push(match place.kind {
            Kind::Body => "",
            Kind::Unguarded => " if ",
            Kind::Guard | Kind::Expression => "(",
        });
        self.out.push(&format!(
            "match crate::mutant({number}, {count}) {{\n0 => {{ "
        ));
        match place.kind {
            Kind::Body => {}
            Kind::Unguarded => self.out.push("true"),
            Kind::Guard | Kind::Expression => self.write(place.range.clone()),
        }
        self.out.push("\n}\n");
        for (at, Alternative { text, .. }) in alternatives.into_iter().enumerate() {
            // The last arm makes the match exhaustive; it is never selected.
            let pattern = if at + 1 == count {
                "_".to_owned()
            } else {
                (at + 1).to_string()
            };
            let from = self.out.line;
            self.out.push(&format!("{pattern} => {{ {text}\n}}\n"));
            self.lines[index + at] = from + 1..self.out.line + 1;
        }
        self.out.push(match place.kind {
            Kind::Body | Kind::Unguarded => "}\n",
            Kind::Guard | Kind::Expression => "})",
        });
    }
}

#[derive(Default)]
struct Out {
    text: String,
    line: usize,
}

impl Out {
    fn push(&mut self, text: &str) {
        self.line += text.matches('\n').count();
        self.text.push_str(text);
    }
}

/// Returns the offset at which each line starts.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(source: &str) -> LineStarts {
        let ends = source.match_indices('\n').map(|(at, _)| at + 1);
        LineStarts(std::iter::once(0).chain(ends).collect())
    }

    fn byte(&self, source: &str, position: Position) -> usize {
        let start = self.0[position.line - 1];
        let mut characters = source[start..].char_indices();
        let at = characters.nth(position.column - 1);
        start + at.map_or(source.len() - start, |(at, _)| at)
    }
}
