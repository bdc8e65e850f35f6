//! The expressions that a pattern is translated into, and how they are written.

use std::fmt::Write as _;

use super::set::{MAX_POINT, Set, line_ends, words};

/// A regular expression over characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expr {
    /// Matches nowhere.
    Never,
    /// Matches the empty text.
    Empty,
    /// One character of a set that is not empty.
    Set(Set),
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
    /// What the group of that number captured.
    Back(u32),
    Assert(Anchor),
    Look {
        ahead: bool,
        negated: bool,
        of: Box<Expr>,
    },
}

/// An assertion about the characters on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    End,
    /// The start of a line. `edge`: nothing of the pattern stands before it.
    LineStart {
        edge: bool,
    },
    /// The end of a line. `edge`: nothing of the pattern stands behind it.
    LineEnd {
        edge: bool,
    },
    /// A boundary of ASCII words, or with `folded` of the letters that are the same as ASCII ones, too.
    Word {
        negated: bool,
        folded: bool,
    },
}

impl Expr {
    pub(super) fn set(set: Set) -> Expr {
        let scalars = set.minus(&Set::surrogates());
        match scalars.is_empty() {
            true => Expr::Never,
            false => Expr::Set(scalars),
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
            // An assertion holds as often as it is asked.
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

    /// Whether it has a construct that no automaton has.
    pub(super) fn looks(&self) -> bool {
        match self {
            Expr::Look { .. }
            | Expr::Back(_)
            | Expr::Assert(
                Anchor::LineStart { edge: false }
                | Anchor::LineEnd { edge: false }
                | Anchor::Word { folded: true, .. },
            ) => true,
            Expr::Cat(parts) | Expr::Or(parts) => parts.iter().any(Expr::looks),
            Expr::Repeat { of, .. } | Expr::Group(of) => of.looks(),
            Expr::Never | Expr::Empty | Expr::Set(_) | Expr::Assert(_) => false,
        }
    }

    /// Whether it matches the empty text at every position.
    pub(super) fn matches_everywhere(&self) -> bool {
        match self {
            Expr::Empty => true,
            Expr::Never | Expr::Set(_) | Expr::Assert(_) | Expr::Look { .. } | Expr::Back(_) => {
                false
            }
            Expr::Cat(parts) => parts.iter().all(Expr::matches_everywhere),
            Expr::Or(parts) => parts.iter().any(Expr::matches_everywhere),
            Expr::Repeat { of, min, .. } => *min == 0 || of.matches_everywhere(),
            Expr::Group(of) => of.matches_everywhere(),
        }
    }

    /// Whether it is made of assertions alone.
    fn is_zero_width(&self) -> bool {
        match self {
            Expr::Empty | Expr::Assert(_) | Expr::Look { .. } => true,
            Expr::Never | Expr::Set(_) | Expr::Group(_) | Expr::Back(_) => false,
            Expr::Cat(parts) | Expr::Or(parts) => parts.iter().all(Expr::is_zero_width),
            Expr::Repeat { of, .. } => of.is_zero_width(),
        }
    }

    /// A measure of what it takes to write it, in which no set is large; saturating.
    pub(super) fn size(&self) -> usize {
        match self {
            Expr::Never | Expr::Empty | Expr::Back(_) | Expr::Assert(_) => 2,
            Expr::Set(set) => 2 * set.ranges().len().clamp(1, 20),
            Expr::Cat(parts) | Expr::Or(parts) => parts
                .iter()
                .map(Expr::size)
                .fold(2, |sum, size| sum.saturating_add(size)),
            Expr::Repeat { of, .. } | Expr::Group(of) | Expr::Look { of, .. } => {
                of.size().saturating_add(4)
            }
        }
    }

    /// The pattern in the syntax of `regex`, or of `fancy-regex` where it [looks](Expr::looks) around.
    pub(super) fn written(&self) -> String {
        let mut writer = Writer {
            out: String::new(),
            looks: self.looks(),
        };
        writer.expr(self);
        writer.out
    }
}

/// Adds a part to a sequence: `xx*` is written `x+`.
fn push(flat: &mut Vec<Expr>, part: Expr) {
    let is_plus = match (flat.last(), &part) {
        (
            Some(last @ Expr::Set(_)),
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

/// Adds an alternative; where it differs from one that is there in a single set, to that set.
fn join(flat: &mut Vec<Expr>, part: Expr) {
    for there in flat.iter_mut() {
        if *there == part {
            return;
        }
        // `x+` or nothing is `x*`, in either order.
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
    let (at, (Expr::Set(one), Expr::Set(other))) = differ.next()? else {
        return None;
    };
    if differ.next().is_some() {
        return None;
    }
    let mut merged = a.to_vec();
    merged[at] = Expr::Set(one.union(other));
    Some(Expr::cat(merged))
}

/// Whether `whole` is seen to match wherever `part` does: `part` is it with a character more at an end that
/// `whole` repeats, `xx*…` beside `x*…`.
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
            Expr::Set(set),
        ) => matches!(&**of, Expr::Set(all) if set.is_subset(all)),
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

struct Writer {
    out: String,
    /// Whether the pattern is for `fancy-regex`, which knows no `(?-u:\b)`.
    looks: bool,
}

impl Writer {
    fn expr(&mut self, expr: &Expr) {
        match expr {
            Expr::Never => self.out.push_str(r"[^\x00-\x{10FFFF}]"),
            Expr::Empty => self.out.push_str("(?:)"),
            Expr::Set(set) => self.set(set),
            Expr::Cat(parts) => parts.iter().for_each(|part| match part {
                Expr::Or(_) => self.enclosed("(?:", part),
                part => self.expr(part),
            }),
            Expr::Or(parts) => {
                for (at, part) in parts.iter().enumerate() {
                    if at > 0 {
                        self.out.push('|');
                    }
                    // An empty alternative is written as nothing.
                    if *part != Expr::Empty {
                        self.expr(part);
                    }
                }
            }
            Expr::Repeat { of, min, max, lazy } => self.repeat(of, *min, *max, *lazy),
            Expr::Group(of) => self.enclosed("(", of),
            Expr::Back(group) => {
                // A digit behind it would be read as part of the number.
                write!(self.out, r"(?:\{group})").expect("writing to a string cannot fail");
            }
            Expr::Assert(anchor) => self.anchor(*anchor),
            Expr::Look { ahead, negated, of } => {
                let opening = match (ahead, negated) {
                    (true, false) => "(?=",
                    (true, true) => "(?!",
                    (false, false) => "(?<=",
                    (false, true) => "(?<!",
                };
                self.enclosed(opening, of);
            }
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
            Expr::Set(_) | Expr::Group(_) | Expr::Back(_) => self.expr(of),
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
        let ends = Expr::Set(line_ends());
        match anchor {
            Anchor::Start => self.out.push('^'),
            Anchor::End => self.out.push('$'),
            Anchor::LineStart { edge: true } => self.enclosed_pair("^", &ends),
            Anchor::LineEnd { edge: true } => self.enclosed_pair("$", &ends),
            // Not behind, or not before, a character that ends no line.
            Anchor::LineStart { edge: false } => self.enclosed("(?<!", &inside_line()),
            Anchor::LineEnd { edge: false } => self.enclosed("(?!", &inside_line()),
            Anchor::Word {
                negated,
                folded: false,
            } if !self.looks => {
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

    /// A boundary of words as two looks: what stands on one side is a word character, and on the other not.
    fn word(&mut self, negated: bool, folded: bool) {
        let words = match folded {
            true => words().close_points(),
            false => words(),
        };
        let mut class = Writer {
            out: String::new(),
            looks: true,
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

    fn set(&mut self, set: &Set) {
        if let Some(number) = set.single() {
            self.char(number, false);
            return;
        }
        let all = Set::of([(0, MAX_POINT)]);
        if set.union(&Set::surrogates()) == all {
            self.out.push_str("(?s:.)");
            return;
        }
        let complement = set.union(&Set::surrogates()).complement(MAX_POINT);
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
            // A bare `-` or `&` is plain outside of classes.
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
    Expr::Set(line_ends().union(&Set::surrogates()).complement(MAX_POINT))
}
