//! The target of the translation: expressions over characters, and their serialization.

use std::fmt::Write as _;

use super::parse::LookKind;
use super::set::{CharSet, MAX_POINT, line_ends, words};

/// A regular expression over characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Matches nothing.
    Never,
    /// Matches the empty text.
    Empty,
    /// Matches one character of a nonempty set.
    CharSet(CharSet),
    Cat(Vec<Expr>),
    Or(Vec<Expr>),
    Repeat {
        of: Box<Expr>,
        min: u32,
        max: Option<u32>,
        lazy: bool,
    },
    /// A capturing group.
    Group(Box<Expr>),
    /// Matches the text captured by the group of that number.
    Back(u32),
    Assert(Anchor),
    Look {
        kind: LookKind,
        of: Box<Expr>,
    },
}

/// An assertion about the characters on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    End,
    /// The start of a line. `edge` is true if nothing of the pattern precedes it.
    LineStart {
        edge: bool,
    },
    /// The end of a line. `edge` is true if nothing of the pattern follows it.
    LineEnd {
        edge: bool,
    },
    /// A boundary of ASCII words; with `folded`, letters that case-fold to ASCII letters are word characters too.
    Word {
        negated: bool,
        folded: bool,
    },
}

impl Expr {
    pub(super) fn set(set: CharSet) -> Expr {
        let scalars = set.minus(&CharSet::surrogates());
        match scalars.is_empty() {
            true => Expr::Never,
            false => Expr::CharSet(scalars),
        }
    }

    pub(super) fn cat(parts: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat: Vec<Expr> = Vec::new();
        for part in parts {
            match part {
                Expr::Never => return Expr::Never,
                Expr::Empty => {}
                Expr::Cat(inner) => inner.into_iter().for_each(|part| push(&mut flat, part)),
                part => push(&mut flat, part),
            }
        }
        match flat.len() {
            0 => Expr::Empty,
            1 => flat.remove(0),
            _ => Expr::Cat(flat),
        }
    }

    pub(super) fn or(parts: impl IntoIterator<Item = Expr>) -> Expr {
        let mut flat: Vec<Expr> = Vec::new();
        for part in parts {
            let inner = match part {
                Expr::Never => continue,
                Expr::Or(inner) => inner,
                part => vec![part],
            };
            for part in inner {
                join(&mut flat, part);
            }
        }
        let doubles: Vec<bool> = flat
            .iter()
            .enumerate()
            .map(|(at, part)| {
                let mut others = flat.iter().enumerate();
                others.any(|(other, whole)| other != at && is_within(part, whole))
            })
            .collect();
        let mut doubles = doubles.into_iter();
        flat.retain(|_| !doubles.next().unwrap_or_default());
        let all = flat.len();
        flat.retain(|part| *part != Expr::Empty);
        if flat.is_empty() && all > 0 {
            return Expr::Empty;
        }
        if flat.len() < all {
            return Expr::repeat(Expr::or(flat), 0, Some(1), false);
        }
        match flat.len() {
            0 => Expr::Never,
            1 => flat.remove(0),
            _ => Expr::Or(flat),
        }
    }

    pub(super) fn repeat(of: Expr, min: u32, max: Option<u32>, lazy: bool) -> Expr {
        match (&of, min, max) {
            (_, _, Some(0)) | (Expr::Empty, _, _) | (Expr::Never, 0, _) => Expr::Empty,
            (Expr::Never, _, _) => Expr::Never,
            (_, 1, Some(1)) => of,
            // Repeating an assertion does not change it.
            (_, 0, _) if of.is_zero_width() => Expr::Empty,
            _ if of.is_zero_width() => of,
            _ => Expr::Repeat {
                of: Box::new(of),
                min,
                max,
                lazy,
            },
        }
    }

    pub(super) fn star(of: Expr, lazy: bool) -> Expr {
        match of {
            // (x+)* and (x*)* are x*.
            Expr::Repeat {
                of,
                min: 0 | 1,
                max: None,
                lazy,
            } => Expr::repeat(*of, 0, None, lazy),
            of => Expr::repeat(of, 0, None, lazy),
        }
    }

    pub(super) fn plus(of: Expr, lazy: bool) -> Expr {
        match of {
            of @ Expr::Repeat {
                min: 0 | 1,
                max: None,
                ..
            } => of,
            of => Expr::repeat(of, 1, None, lazy),
        }
    }

    /// Returns true if the expression has look-around or a back-reference, which an automaton cannot execute.
    pub(super) fn needs_lookaround(&self) -> bool {
        match self {
            Expr::Look { .. }
            | Expr::Back(_)
            | Expr::Assert(
                Anchor::LineStart { edge: false }
                | Anchor::LineEnd { edge: false }
                | Anchor::Word { folded: true, .. },
            ) => true,
            Expr::Cat(parts) | Expr::Or(parts) => parts.iter().any(Expr::needs_lookaround),
            Expr::Repeat { of, .. } | Expr::Group(of) => of.needs_lookaround(),
            Expr::Never | Expr::Empty | Expr::CharSet(_) | Expr::Assert(_) => false,
        }
    }

    /// Returns true if it matches the empty text at every position.
    pub(super) fn matches_everywhere(&self) -> bool {
        match self {
            Expr::Empty => true,
            Expr::Never
            | Expr::CharSet(_)
            | Expr::Assert(_)
            | Expr::Look { .. }
            | Expr::Back(_) => false,
            Expr::Cat(parts) => parts.iter().all(Expr::matches_everywhere),
            Expr::Or(parts) => parts.iter().any(Expr::matches_everywhere),
            Expr::Repeat { of, min, .. } => *min == 0 || of.matches_everywhere(),
            Expr::Group(of) => of.matches_everywhere(),
        }
    }

    /// Returns true if it consists of assertions only.
    fn is_zero_width(&self) -> bool {
        match self {
            Expr::Empty | Expr::Assert(_) | Expr::Look { .. } => true,
            Expr::Never | Expr::CharSet(_) | Expr::Group(_) | Expr::Back(_) => false,
            Expr::Cat(parts) | Expr::Or(parts) => parts.iter().all(Expr::is_zero_width),
            Expr::Repeat { of, .. } => of.is_zero_width(),
        }
    }

    /// Returns a measure of its serialized size that ignores the size of sets. Saturates.
    pub(super) fn size(&self) -> usize {
        match self {
            Expr::Never | Expr::Empty | Expr::Back(_) | Expr::Assert(_) => 2,
            Expr::CharSet(set) => 2 * set.ranges().len().clamp(1, 20),
            Expr::Cat(parts) | Expr::Or(parts) => parts
                .iter()
                .map(Expr::size)
                .fold(2, |sum, size| sum.saturating_add(size)),
            Expr::Repeat { of, .. } | Expr::Group(of) | Expr::Look { of, .. } => {
                of.size().saturating_add(4)
            }
        }
    }

    /// Returns the pattern in the syntax of `regex`, or of `fancy-regex` if it [needs it](Expr::looks).
    pub(super) fn written(&self) -> String {
        let mut writer = RegexWriter {
            out: String::new(),
            needs_lookaround: self.needs_lookaround(),
        };
        writer.expr(self);
        writer.out
    }
}

/// Appends a part to a sequence. `xx*` is merged into `x+`.
fn push(flat: &mut Vec<Expr>, part: Expr) {
    let is_plus = match (flat.last(), &part) {
        (
            Some(last @ Expr::CharSet(_)),
            Expr::Repeat {
                of,
                min: 0,
                max: None,
                ..
            },
        ) => last == &**of,
        _ => false,
    };
    match part {
        Expr::Repeat { of, max, lazy, .. } if is_plus => {
            flat.pop();
            flat.push(Expr::Repeat {
                of,
                min: 1,
                max,
                lazy,
            });
        }
        part => flat.push(part),
    }
}

fn parts(expr: &Expr) -> &[Expr] {
    match expr {
        Expr::Cat(parts) => parts,
        Expr::Empty => &[],
        expr => std::slice::from_ref(expr),
    }
}

/// Adds an alternative. An alternative that differs from an existing one in a single set is merged into that set.
fn join(flat: &mut Vec<Expr>, part: Expr) {
    for there in flat.iter_mut() {
        if *there == part {
            return;
        }
        // `x+` or the empty text is `x*`, in either order.
        let optional = match (&*there, &part) {
            (
                Expr::Repeat {
                    min: 1, max: None, ..
                },
                Expr::Empty,
            ) => Some(&*there),
            (
                Expr::Empty,
                Expr::Repeat {
                    min: 1, max: None, ..
                },
            ) => Some(&part),
            _ => None,
        };
        if let Some(Expr::Repeat { of, lazy, .. }) = optional {
            *there = Expr::repeat((**of).clone(), 0, None, *lazy);
            return;
        }
        if let Some(merged) = merged(there, &part) {
            *there = merged;
            return;
        }
    }
    flat.push(part);
}

fn merged(a: &Expr, b: &Expr) -> Option<Expr> {
    let (a, b) = (parts(a), parts(b));
    if a.len() != b.len() {
        return None;
    }
    let mut differ = a.iter().zip(b).enumerate().filter(|(_, (a, b))| a != b);
    let (at, (Expr::CharSet(one), Expr::CharSet(other))) = differ.next()? else {
        return None;
    };
    if differ.next().is_some() {
        return None;
    }
    let mut merged = a.to_vec();
    merged[at] = Expr::CharSet(one.union(other));
    Some(Expr::cat(merged))
}

/// Returns true if `whole` evidently matches whenever `part` does: `part` is `whole` with one more character at an end
/// that `whole` repeats, as `xx*…` beside `x*…`.
fn is_within(part: &Expr, whole: &Expr) -> bool {
    let (short, long) = (parts(whole), parts(part));
    let repeats = |of: &Expr, set: &Expr| match (of, set) {
        (
            Expr::Repeat {
                of,
                min: 0 | 1,
                max: None,
                ..
            },
            Expr::CharSet(set),
        ) => matches!(&**of, Expr::CharSet(all) if set.is_subset(all)),
        _ => false,
    };
    let same_but_count = |a: &Expr, b: &Expr| match (a, b) {
        (
            Expr::Repeat {
                of: a,
                max: None,
                min: 0,
                ..
            },
            Expr::Repeat {
                of: b,
                max: None,
                min: 0 | 1,
                ..
            },
        ) => a == b,
        (a, b) => a == b,
    };
    match (short, long) {
        ([head, tail @ ..], [set, star, rest @ ..])
            if repeats(head, set) && same_but_count(star, head) && rest == tail =>
        {
            true
        }
        ([tail @ .., head], [rest @ .., star, set])
            if repeats(head, set) && same_but_count(star, head) && rest == tail =>
        {
            true
        }
        _ => false,
    }
}

struct RegexWriter {
    out: String,
    /// True if the pattern is for `fancy-regex`, which does not support `(?-u:\b)`.
    needs_lookaround: bool,
}

impl RegexWriter {
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Never => self.out.push_str(r"[^\x00-\x{10FFFF}]"),
            Expr::Empty => self.out.push_str("(?:)"),
            Expr::CharSet(set) => self.set(set),
            Expr::Cat(parts) => parts.iter().for_each(|part| match part {
                Expr::Or(_) => self.enclosed("(?:", part),
                part => self.expr(part),
            }),
            Expr::Or(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        self.out.push('|');
                    }
                    // The empty alternative is the empty string.
                    if *part != Expr::Empty {
                        self.expr(part);
                    }
                }
            }
            Expr::Repeat { of, min, max, lazy } => self.repeat(of, *min, *max, *lazy),
            Expr::Group(of) => self.enclosed("(", of),
            Expr::Back(group) => {
                // A group, because a following digit would be read as part of the number.
                write!(self.out, r"(?:\{group})").expect("writing to a string cannot fail");
            }
            Expr::Assert(anchor) => self.anchor(*anchor),
            Expr::Look { kind, of } => self.enclosed(&format!("({}", kind.prefix()), of),
        }
    }

    fn enclosed(&mut self, opening: &str, of: &Expr) {
        self.out.push_str(opening);
        if *of != Expr::Empty {
            self.expr(of);
        }
        self.out.push(')');
    }

    fn repeat(&mut self, of: &Expr, min: u32, max: Option<u32>, lazy: bool) {
        match of {
            Expr::CharSet(_) | Expr::Group(_) | Expr::Back(_) => self.expr(of),
            of => self.enclosed("(?:", of),
        }
        match (min, max) {
            (0, None) => self.out.push('*'),
            (1, None) => self.out.push('+'),
            (0, Some(1)) => self.out.push('?'),
            (min, None) => self.count(&format!("{{{min},}}")),
            (min, Some(max)) if min == max => self.count(&format!("{{{min}}}")),
            (min, Some(max)) => self.count(&format!("{{{min},{max}}}")),
        }
        if lazy && max != Some(min) {
            self.out.push('?');
        }
    }

    fn count(&mut self, count: &str) {
        self.out.push_str(count);
    }

    fn anchor(&mut self, anchor: Anchor) {
        let ends = Expr::CharSet(line_ends());
        match anchor {
            Anchor::Start => self.out.push('^'),
            Anchor::End => self.out.push('$'),
            Anchor::LineStart { edge: true } => self.enclosed_pair("^", &ends),
            Anchor::LineEnd { edge: true } => self.enclosed_pair("$", &ends),
            // Negative look-around: a character that does not end a line must not precede, or follow.
            Anchor::LineStart { edge: false } => self.enclosed("(?<!", &inside_line()),
            Anchor::LineEnd { edge: false } => self.enclosed("(?!", &inside_line()),
            Anchor::Word {
                negated,
                folded: false,
            } if !self.needs_lookaround => {
                let boundary = if negated { r"(?-u:\B)" } else { r"(?-u:\b)" };
                self.out.push_str(boundary);
            }
            Anchor::Word { negated, folded } => self.word(negated, folded),
        }
    }

    fn enclosed_pair(&mut self, anchor: &str, ends: &Expr) {
        self.out.push_str("(?:");
        self.out.push_str(anchor);
        self.out.push('|');
        self.expr(ends);
        self.out.push(')');
    }

    /// Writes a word boundary as two look-arounds: a word character on one side and none on the other.
    fn word(&mut self, negated: bool, folded: bool) {
        let words = match folded {
            true => words().close_points(),
            false => words(),
        };
        let mut class = RegexWriter {
            out: String::new(),
            needs_lookaround: true,
        };
        class.set(&words);
        let word = class.out;
        let (second, fourth) = if negated { ("!", "=") } else { ("=", "!") };
        write!(
            self.out,
            "(?:(?<!{word})(?{second}{word})|(?<={word})(?{fourth}{word}))"
        )
        .expect("writing to a string cannot fail");
    }

    fn set(&mut self, set: &CharSet) {
        if let Some(number) = set.single() {
            self.char(number, false);
            return;
        }
        let all = CharSet::from_ranges([(0, MAX_POINT)]);
        if set.union(&CharSet::surrogates()) == all {
            self.out.push_str("(?s:.)");
            return;
        }
        let complement = set.union(&CharSet::surrogates()).complement(MAX_POINT);
        let is_negated = match set.contains(MAX_POINT) {
            true => true,
            false => complement.ranges().len() < set.ranges().len(),
        };
        self.out.push_str(if is_negated { "[^" } else { "[" });
        let shown = if is_negated { &complement } else { set };
        for &(start, end) in shown.ranges() {
            self.char(start, true);
            match end - start {
                0 => {}
                1 => self.char(end, true),
                _ => {
                    self.out.push('-');
                    self.char(end, true);
                }
            }
        }
        self.out.push(']');
    }

    fn char(&mut self, number: u32, in_class: bool) {
        let c = char::from_u32(number).expect("sets of expressions have no surrogates");
        match c {
            '\n' => self.out.push_str(r"\n"),
            '\r' => self.out.push_str(r"\r"),
            '\t' => self.out.push_str(r"\t"),
            // A single `-` or `&` is a literal outside of classes.
            '-' | '&' | '~' | '#' if !in_class => self.out.push(c),
            c if c.is_ascii_graphic() => {
                let mut buffer = [0; 4];
                self.out
                    .push_str(&regex_syntax::escape(c.encode_utf8(&mut buffer)));
            }
            ' ' => self.out.push(' '),
            c if c.is_alphanumeric() && c <= '\u{FFFF}' => self.out.push(c),
            c => write!(self.out, r"\x{{{:X}}}", u32::from(c))
                .expect("writing to a string cannot fail"),
        }
    }
}

fn inside_line() -> Expr {
    Expr::CharSet(
        line_ends()
            .union(&CharSet::surrogates())
            .complement(MAX_POINT),
    )
}
