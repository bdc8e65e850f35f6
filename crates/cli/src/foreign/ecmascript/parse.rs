//! Parser for ECMA-262 `Pattern`, with Annex B.1.2 if neither `u` nor `v` is set.

use regex_syntax::hir::{Class, HirKind};

use super::set::{CharSet, MAX_POINT, MAX_UNIT, digits, line_ends, spaces, words};
use super::{RegExpFlags, Untranslatable};

/// Maximum nesting depth of groups and classes.
const DEPTH: u32 = 100;
/// Maximum repetition count. No pattern with a larger one loads.
const COUNT: u32 = 1_000_000;

/// A parsed pattern. Sets contain code units, or code points with `u` or `v`. If case is ignored, they are closed under
/// case equivalence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PatternNode {
    Empty,
    CharSet(CharSet),
    Seq(Vec<PatternNode>),
    Alt(Vec<PatternNode>),
    Repeat {
        of: Box<PatternNode>,
        min: u32,
        max: Option<u32>,
        lazy: bool,
    },
    /// A capturing group. Groups are numbered from 1 in the order of their opening parentheses.
    Group(u32, Box<PatternNode>),
    Back(u32),
    Assert(Assertion),
    Look {
        kind: LookKind,
        of: Box<PatternNode>,
    },
}

/// The kind of a look-around assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookKind {
    Ahead,
    NotAhead,
    Behind,
    NotBehind,
}

impl LookKind {
    pub(super) const ALL: [LookKind; 4] = [
        LookKind::Ahead,
        LookKind::NotAhead,
        LookKind::Behind,
        LookKind::NotBehind,
    ];

    /// Returns the text that follows the `(` of the group.
    pub(super) fn prefix(self) -> &'static str {
        match self {
            LookKind::Ahead => "?=",
            LookKind::NotAhead => "?!",
            LookKind::Behind => "?<=",
            LookKind::NotBehind => "?<!",
        }
    }

    pub(super) fn is_ahead(self) -> bool {
        matches!(self, LookKind::Ahead | LookKind::NotAhead)
    }

    pub(super) fn is_negated(self) -> bool {
        matches!(self, LookKind::NotAhead | LookKind::NotBehind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assertion {
    Start,
    End,
    LineStart,
    LineEnd,
    Word { negated: bool, folded: bool },
}

/// A parsed pattern and its group names.
#[derive(Clone, Debug)]
pub(super) struct ParsedRegExp {
    pub(super) node: PatternNode,
    /// True if the pattern has a back-reference.
    pub(super) refers_back: bool,
}

/// Parses a pattern.
pub(super) fn parse(pattern: &str, flags: RegExpFlags) -> Result<ParsedRegExp, Untranslatable> {
    let input: Vec<u32> = match flags.by_code_point() {
        true => pattern.chars().map(u32::from).collect(),
        false => pattern.encode_utf16().map(u32::from).collect(),
    };
    let mut parser = RegExpParser {
        groups: RegExpGroups::find(&input, flags.by_code_point()),
        input,
        at: 0,
        flags,
        opened: 0,
        depth: 0,
        refers_back: false,
    };
    let names = &parser.groups.names;
    let is_double =
        |(at, (name, _)): (usize, &(Vec<u32>, u32))| names[..at].iter().any(|it| it.0 == *name);
    if names.iter().enumerate().any(is_double) {
        return fault("two groups with the same name");
    }
    let node = parser.disjunction()?;
    if parser.at < parser.input.len() {
        return Err(Untranslatable("an unmatched `)`".to_owned()));
    }
    Ok(ParsedRegExp {
        node,
        refers_back: parser.refers_back,
    })
}

/// The groups of a pattern, collected first because references may precede them.
struct RegExpGroups {
    count: u32,
    names: Vec<(Vec<u32>, u32)>,
}

impl RegExpGroups {
    fn find(input: &[u32], nested_classes: bool) -> RegExpGroups {
        let mut groups = RegExpGroups {
            count: 0,
            names: Vec::new(),
        };
        let mut class = 0_u32;
        let mut at = 0;
        let is = |at: usize, c: char| input.get(at) == Some(&u32::from(c));
        while at < input.len() {
            match char::from_u32(input[at]) {
                Some('\\') => at += 1,
                Some('[') if class == 0 || nested_classes => class += 1,
                Some(']') => class = class.saturating_sub(1),
                Some('(') if class == 0 && !is(at + 1, '?') => groups.count += 1,
                Some('(')
                    if class == 0 && is(at + 2, '<') && !is(at + 3, '=') && !is(at + 3, '!') =>
                {
                    groups.count += 1;
                    let name = input[at + 3..].iter().take_while(|c| **c != u32::from('>'));
                    groups.names.push((name.copied().collect(), groups.count));
                }
                _ => {}
            }
            at += 1;
        }
        groups
    }
}

struct RegExpParser {
    input: Vec<u32>,
    at: usize,
    flags: RegExpFlags,
    groups: RegExpGroups,
    opened: u32,
    depth: u32,
    refers_back: bool,
}

/// A member of a class.
enum ClassMember {
    /// A single value, which may begin or end a range.
    One(u32),
    Many(CharSet),
}

type Parse<T> = Result<T, Untranslatable>;

fn fault<T>(message: impl Into<String>) -> Parse<T> {
    Err(Untranslatable(message.into()))
}

impl RegExpParser {
    fn peek(&self) -> Option<char> {
        self.peek_at(0)
    }

    /// Returns the character at that distance, or U+FFFD for a lone surrogate.
    fn peek_at(&self, ahead: usize) -> Option<char> {
        let number = *self.input.get(self.at + ahead)?;
        Some(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn eat(&mut self, text: &str) -> bool {
        let is_next = text
            .chars()
            .enumerate()
            .all(|(ahead, c)| self.peek_at(ahead) == Some(c));
        if is_next {
            self.at += text.chars().count();
        }
        is_next
    }

    fn next(&mut self) -> Option<u32> {
        let number = *self.input.get(self.at)?;
        self.at += 1;
        Some(number)
    }

    /// Returns true if the strict grammar of `u` or `v` applies.
    fn strict(&self) -> bool {
        self.flags.by_code_point()
    }

    fn max(&self) -> u32 {
        match self.strict() {
            true => MAX_POINT,
            false => MAX_UNIT,
        }
    }

    /// Returns the set closed under case equivalence, if case is ignored.
    fn closed(&self, set: CharSet) -> CharSet {
        match (self.flags.ignore_case, self.strict()) {
            (false, _) => set,
            (true, true) => set.close_points(),
            (true, false) => set.close_units(),
        }
    }

    fn complement(&self, set: &CharSet) -> CharSet {
        set.complement(self.max())
    }

    fn words(&self) -> CharSet {
        match self.flags.ignore_case && self.strict() {
            true => words().close_points(),
            false => words(),
        }
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut RegExpParser) -> Parse<T>) -> Parse<T> {
        if self.depth >= DEPTH {
            return fault(format!("more than {DEPTH} nested groups or classes"));
        }
        self.depth += 1;
        let parsed = parse(self);
        self.depth -= 1;
        parsed
    }

    fn disjunction(&mut self) -> Parse<PatternNode> {
        let mut all = vec![self.alternative()?];
        while self.eat("|") {
            all.push(self.alternative()?);
        }
        Ok(match all.len() {
            1 => all.remove(0),
            _ => PatternNode::Alt(all),
        })
    }

    fn alternative(&mut self) -> Parse<PatternNode> {
        let mut terms = Vec::new();
        while let Some(c) = self.peek() {
            if matches!(c, '|' | ')') {
                break;
            }
            let (term, may_repeat) = self.term(c)?;
            let term = self.quantified(term, may_repeat)?;
            terms.push(term);
        }
        Ok(match terms.len() {
            0 => PatternNode::Empty,
            1 => terms.remove(0),
            _ => PatternNode::Seq(terms),
        })
    }

    /// Parses a term. Returns true with it if a quantifier may follow.
    fn term(&mut self, c: char) -> Parse<(PatternNode, bool)> {
        self.at += 1;
        let multiline = self.flags.multiline;
        Ok(match c {
            '^' if multiline => (PatternNode::Assert(Assertion::LineStart), false),
            '^' => (PatternNode::Assert(Assertion::Start), false),
            '$' if multiline => (PatternNode::Assert(Assertion::LineEnd), false),
            '$' => (PatternNode::Assert(Assertion::End), false),
            '.' if self.flags.dot_all => (
                PatternNode::CharSet(CharSet::from_ranges([(0, self.max())])),
                true,
            ),
            '.' => (PatternNode::CharSet(self.complement(&line_ends())), true),
            '(' => self.deeper(RegExpParser::group)?,
            '[' => (
                PatternNode::CharSet(self.deeper(RegExpParser::class)?),
                true,
            ),
            '\\' => self.atom_escape()?,
            '*' | '+' | '?' => return fault(format!("a `{c}` with nothing to repeat")),
            '{' if self.strict() => return fault("an unescaped `{`"),
            '{' => {
                self.at -= 1;
                if self.count()?.is_some() {
                    return fault("a count with nothing to repeat");
                }
                self.at += 1;
                (
                    PatternNode::CharSet(CharSet::from_point(u32::from('{'))),
                    true,
                )
            }
            ']' | '}' if self.strict() => return fault(format!("an unescaped `{c}`")),
            _ => {
                let number = self.input[self.at - 1];
                (
                    PatternNode::CharSet(self.closed(CharSet::from_point(number))),
                    true,
                )
            }
        })
    }

    fn quantified(&mut self, term: PatternNode, may_repeat: bool) -> Parse<PatternNode> {
        let Some((min, max)) = self.quantifier()? else {
            return Ok(term);
        };
        let lazy = self.eat("?");
        if !may_repeat {
            return fault("an assertion that is repeated");
        }
        Ok(PatternNode::Repeat {
            of: Box::new(term),
            min,
            max,
            lazy,
        })
    }

    fn quantifier(&mut self) -> Parse<Option<(u32, Option<u32>)>> {
        let symbol = match self.peek() {
            Some('*') => (0, None),
            Some('+') => (1, None),
            Some('?') => (0, Some(1)),
            Some('{') => return self.count(),
            _ => return Ok(None),
        };
        self.at += 1;
        Ok(Some(symbol))
    }

    /// Parses `{2}`, `{2,}` or `{2,3}`. Consumes nothing if there is no quantifier.
    fn count(&mut self) -> Parse<Option<(u32, Option<u32>)>> {
        let start = self.at;
        let count = self.count_at();
        match count {
            Some((min, Some(max))) if max < min => {
                return fault(format!("a count from {min} to {max}"));
            }
            Some((min, max)) if min.max(max.unwrap_or(0)) > COUNT => {
                return fault(format!("a count over {COUNT}"));
            }
            Some(_) => {}
            None => self.at = start,
        }
        Ok(count)
    }

    fn count_at(&mut self) -> Option<(u32, Option<u32>)> {
        if !self.eat("{") {
            return None;
        }
        let min = self.decimal()?;
        let max = match self.eat(",") {
            false => Some(min),
            true if self.peek() == Some('}') => None,
            true => Some(self.decimal()?),
        };
        self.eat("}").then_some((min, max))
    }

    /// Parses digits. The value saturates.
    fn decimal(&mut self) -> Option<u32> {
        let start = self.at;
        let mut number = 0_u32;
        while let Some(digit) = self.peek().and_then(|c| c.to_digit(10)) {
            number = number.saturating_mul(10).saturating_add(digit);
            self.at += 1;
        }
        (self.at > start).then_some(number)
    }

    /// Parses the rest of a group after `(`.
    fn group(&mut self) -> Parse<(PatternNode, bool)> {
        let strict = self.strict();
        for kind in LookKind::ALL {
            if self.eat(kind.prefix()) {
                let of = Box::new(self.closing()?);
                let node = PatternNode::Look { kind, of };
                return Ok((node, kind.is_ahead() && !strict));
            }
        }
        if self.eat("?:") {
            return Ok((self.closing()?, true));
        }
        if self.eat("?<") {
            self.name()?;
        } else if self.eat("?") {
            let before = self.flags;
            self.modifiers()?;
            let node = self.closing();
            self.flags = before;
            return Ok((node?, true));
        }
        self.opened += 1;
        let number = self.opened;
        let node = self.closing()?;
        Ok((PatternNode::Group(number, Box::new(node)), true))
    }

    fn closing(&mut self) -> Parse<PatternNode> {
        let node = self.disjunction()?;
        match self.eat(")") {
            true => Ok(node),
            false => fault("an unclosed `(`"),
        }
    }

    fn name(&mut self) -> Parse<Vec<u32>> {
        let mut name = Vec::new();
        while let Some(number) = self.next() {
            if number == u32::from('>') {
                let c = name.first().and_then(|first| char::from_u32(*first));
                let is_name = c.is_some_and(|c| !c.is_ascii_digit())
                    && name.iter().all(|number| {
                        let c = char::from_u32(*number).unwrap_or('x');
                        !c.is_ascii() || c.is_ascii_alphanumeric() || matches!(c, '_' | '$')
                    });
                return match is_name {
                    true => Ok(name),
                    false => fault("a group with an invalid name"),
                };
            }
            name.push(number);
        }
        fault("an unclosed group name")
    }

    /// Parses modifiers, `ims-ims:`.
    fn modifiers(&mut self) -> Parse<()> {
        let (mut seen, mut on) = (Vec::new(), true);
        loop {
            let Some(c) = self.peek() else {
                return fault("an unclosed `(`");
            };
            self.at += 1;
            let flag = match c {
                'i' => &mut self.flags.ignore_case,
                'm' => &mut self.flags.multiline,
                's' => &mut self.flags.dot_all,
                '-' if on => {
                    on = false;
                    continue;
                }
                ':' if !seen.is_empty() => return Ok(()),
                _ => return fault("an unknown kind of group"),
            };
            *flag = on;
            if seen.contains(&c) {
                return fault(format!("the modifier `{c}` is given twice"));
            }
            seen.push(c);
        }
    }

    /// Parses the rest of an escape outside of a class.
    fn atom_escape(&mut self) -> Parse<(PatternNode, bool)> {
        let Some(c) = self.peek() else {
            return fault("a `\\` at the end");
        };
        let folded = self.flags.ignore_case && self.strict();
        match c {
            'b' | 'B' => {
                self.at += 1;
                let negated = c == 'B';
                let assertion = Assertion::Word { negated, folded };
                return Ok((PatternNode::Assert(assertion), false));
            }
            'k' if self.strict() || !self.groups.names.is_empty() => {
                self.at += 1;
                if !self.eat("<") {
                    return fault("a `\\k` without a name");
                }
                let name = self.name()?;
                let mut names = self.groups.names.iter();
                let known = names.find(|(known, _)| *known == name);
                return match known.map(|(_, group)| *group) {
                    Some(group) => self.back(group),
                    None => fault("a `\\k` with the name of no group"),
                };
            }
            '1'..='9' => {
                let start = self.at;
                let group = self.decimal().unwrap_or(u32::MAX);
                if group <= self.groups.count {
                    return self.back(group);
                }
                if self.strict() {
                    return fault(format!("a `\\{group}` without such a group"));
                }
                self.at = start;
            }
            _ => {}
        }
        let set = match self.escape(false)? {
            ClassMember::One(number) => self.closed(CharSet::from_point(number)),
            ClassMember::Many(set) => set,
        };
        Ok((PatternNode::CharSet(set), true))
    }

    fn back(&mut self, group: u32) -> Parse<(PatternNode, bool)> {
        if self.flags.ignore_case {
            return fault("a back-reference that ignores case");
        }
        self.refers_back = true;
        Ok((PatternNode::Back(group), true))
    }

    /// Parses the rest of an escape that denotes a character or a set.
    fn escape(&mut self, in_class: bool) -> Parse<ClassMember> {
        let Some(number) = self.next() else {
            return fault("a `\\` at the end");
        };
        let c = char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER);
        let set = match c {
            'd' => digits(),
            'D' => self.complement(&digits()),
            's' => spaces(),
            'S' => self.complement(&spaces()),
            'w' => self.words(),
            'W' => self.complement(&self.words()),
            'p' | 'P' if self.strict() => self.property(c == 'P')?,
            _ => {
                return self
                    .character_escape(number, c, in_class)
                    .map(ClassMember::One);
            }
        };
        // A class is closed when it is complete. Alone, `\W` is closed here.
        Ok(ClassMember::Many(self.closed(set)))
    }

    fn character_escape(&mut self, number: u32, c: char, in_class: bool) -> Parse<u32> {
        Ok(match c {
            't' => 0x09,
            'n' => 0x0A,
            'v' => 0x0B,
            'f' => 0x0C,
            'r' => 0x0D,
            'b' if in_class => 0x08,
            '-' if in_class && self.strict() => number,
            'c' => match self.peek() {
                Some(letter) if letter.is_ascii_alphabetic() => {
                    self.at += 1;
                    u32::from(letter) % 32
                }
                Some(letter)
                    if in_class && !self.strict() && (letter.is_ascii_digit() || letter == '_') =>
                {
                    self.at += 1;
                    u32::from(letter) % 32
                }
                _ if self.strict() => return fault("a `\\c` without a letter"),
                _ => {
                    // The backslash is a literal, and the `c` is parsed again.
                    self.at -= 1;
                    u32::from('\\')
                }
            },
            'x' => self.hex(2, number)?,
            'u' => self.unicode_escape(number)?,
            '0' if !self.peek().is_some_and(|next| next.is_ascii_digit()) => 0,
            '0'..='9' if self.strict() => return fault("an octal escape with flag `u` or `v`"),
            '0'..='7' => self.octal(c),
            _ if self.strict() => match c {
                '^' | '$' | '\\' | '.' | '*' | '+' | '?' | '(' | ')' | '[' | ']' | '{' | '}'
                | '|' | '/' => number,
                '&' | '-' | '!' | '#' | '%' | ',' | ':' | ';' | '<' | '=' | '>' | '@' | '`'
                | '~'
                    if in_class && self.flags.unicode_sets =>
                {
                    number
                }
                _ => return fault(format!("an invalid escape: `\\{c}`")),
            },
            // If a group has a name, `\k` is a reference and not a letter.
            'k' if !self.groups.names.is_empty() => return fault("a `\\k` without a name"),
            _ => number,
        })
    }

    /// Parses that many hexadecimal digits. With fewer, the escape denotes its letter.
    fn hex(&mut self, digits: usize, letter: u32) -> Parse<u32> {
        let mut number = 0;
        for ahead in 0..digits {
            match self.peek_at(ahead).and_then(|c| c.to_digit(16)) {
                Some(digit) => number = number * 16 + digit,
                None if self.strict() => {
                    return fault("an escape with too few hexadecimal digits");
                }
                None => return Ok(letter),
            }
        }
        self.at += digits;
        Ok(number)
    }

    fn unicode_escape(&mut self, letter: u32) -> Parse<u32> {
        if self.strict() && self.eat("{") {
            let mut number = 0_u32;
            let start = self.at;
            while let Some(digit) = self.peek().and_then(|c| c.to_digit(16)) {
                number = number.saturating_mul(16).saturating_add(digit);
                self.at += 1;
            }
            let is_number = self.at > start && number <= MAX_POINT && self.eat("}");
            return match is_number {
                true => Ok(number),
                false => fault("a `\\u{` without a code point"),
            };
        }
        let first = self.hex(4, letter)?;
        if self.strict() && (0xD800..=0xDBFF).contains(&first) && self.peek_at(1) == Some('u') {
            let start = self.at;
            if self.eat("\\u")
                && self.peek() != Some('{')
                && let Ok(second @ 0xDC00..=0xDFFF) = self.hex(4, letter)
            {
                return Ok(0x1_0000 + ((first - 0xD800) << 10) + (second - 0xDC00));
            }
            self.at = start;
        }
        Ok(first)
    }

    /// Parses an octal escape up to 0o377.
    fn octal(&mut self, first: char) -> u32 {
        let mut number = first.to_digit(8).unwrap_or_default();
        for _ in 0..2 {
            let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else {
                break;
            };
            if number * 8 + digit > 0o377 {
                break;
            }
            number = number * 8 + digit;
            self.at += 1;
        }
        number
    }

    /// Parses the rest of `\p` or `\P`.
    fn property(&mut self, negated: bool) -> Parse<CharSet> {
        let mut name = String::new();
        let mut is_closed = false;
        if self.eat("{") {
            while let Some(c) = self.peek() {
                self.at += 1;
                if c == '}' {
                    is_closed = true;
                    break;
                }
                name.push(c);
            }
        }
        let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '=';
        if !is_closed || name.is_empty() || !name.chars().all(is_plain) {
            return fault("a `\\p` without a property in braces");
        }
        let known = regex_syntax::parse(&format!(r"\p{{{name}}}"));
        let class = known.ok().and_then(|hir| match hir.into_kind() {
            HirKind::Class(Class::Unicode(class)) => Some(CharSet::from_class(&class)),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                Some(CharSet::from_ranges(
                    text.chars().map(|c| (u32::from(c), u32::from(c))),
                ))
            }
            _ => None,
        });
        let Some(set) = class else {
            return fault(format!("the unknown property `{name}`"));
        };
        let set = match self.flags.unicode_sets {
            true => self.closed(set),
            false => set,
        };
        Ok(match negated {
            true => self.complement(&set),
            false => set,
        })
    }

    /// Parses the rest of a class after `[`.
    fn class(&mut self) -> Parse<CharSet> {
        let negated = self.eat("^");
        let set = match self.flags.unicode_sets {
            true => self.class_v()?,
            false => self.class_ranges()?,
        };
        let set = self.closed(set);
        Ok(match negated {
            true => self.complement(&set),
            false => set,
        })
    }

    fn class_ranges(&mut self) -> Parse<CharSet> {
        let mut ranges = Vec::new();
        loop {
            if self.eat("]") {
                return Ok(CharSet::from_ranges(ranges));
            }
            let first = self.member()?;
            let is_range =
                self.peek() == Some('-') && self.peek_at(1).is_some_and(|next| next != ']');
            if !is_range {
                first.add_to(&mut ranges);
                continue;
            }
            self.at += 1;
            let last = self.member()?;
            match (&first, &last) {
                (ClassMember::One(first), ClassMember::One(last)) if first <= last => {
                    ranges.push((*first, *last));
                }
                (ClassMember::One(_), ClassMember::One(_)) => {
                    return fault("a range from a larger to a smaller character");
                }
                _ if self.strict() => return fault("a range with a class as a bound"),
                _ => {
                    first.add_to(&mut ranges);
                    ClassMember::One(u32::from('-')).add_to(&mut ranges);
                    last.add_to(&mut ranges);
                }
            }
        }
    }

    fn member(&mut self) -> Parse<ClassMember> {
        match self.next() {
            None => fault("an unclosed `[`"),
            Some(number) if number == u32::from('\\') => self.escape(true),
            Some(number) => Ok(ClassMember::One(number)),
        }
    }

    /// Parses a class with flag `v`: a union, an intersection or a difference. If case is ignored the operands are closed
    /// first, so that the operations respect case equivalence.
    fn class_v(&mut self) -> Parse<CharSet> {
        let mut set = CharSet::default();
        let mut operator = None;
        let mut is_first = true;
        loop {
            if self.eat("]") {
                return Ok(set);
            }
            let here = ["&&", "--"].into_iter().find(|sign| self.eat(sign));
            match (here, is_first) {
                (Some(_), true) => {
                    return fault("a set operator without a left operand");
                }
                (here, false) if operator.is_some() && operator != Some(here) => {
                    return fault("two set operators in one class");
                }
                (here, false) => operator = Some(here),
                (None, true) => {}
            }
            let operand = self.operand(here.is_none())?;
            let operand = self.closed(operand);
            set = match here {
                Some("&&") => set.intersect(&operand),
                Some(_) => set.minus(&operand),
                None => set.union(&operand),
            };
            is_first = false;
        }
    }

    /// Parses a class, an escape or a character; in a union also a range.
    fn operand(&mut self, may_be_range: bool) -> Parse<CharSet> {
        if self.eat("[") {
            return self.deeper(RegExpParser::class);
        }
        let first = match self.member_v()? {
            ClassMember::Many(set) => return Ok(set),
            ClassMember::One(first) => first,
        };
        let is_range = self.peek() == Some('-') && self.peek_at(1) != Some('-');
        if !may_be_range || !is_range {
            return Ok(CharSet::from_point(first));
        }
        self.at += 1;
        match self.member_v()? {
            ClassMember::One(last) if first <= last => Ok(CharSet::from_ranges([(first, last)])),
            ClassMember::One(_) => fault("a range from a larger to a smaller character"),
            ClassMember::Many(_) => fault("a range with a class as a bound"),
        }
    }

    fn member_v(&mut self) -> Parse<ClassMember> {
        const DOUBLE: &str = "&!#$%*+,.:;<=>?@^`~";
        let Some(c) = self.peek() else {
            return fault("an unclosed `[`");
        };
        if c == '\\' && self.peek_at(1) == Some('q') {
            return fault("strings in a class, `\\q{…}`");
        }
        if DOUBLE.contains(c) && self.peek_at(1) == Some(c) {
            return fault(format!(
                "`{c}{c}`, which is reserved in classes with flag `v`"
            ));
        }
        if matches!(c, '(' | ')' | '{' | '}' | '/' | '-' | '|') {
            return fault(format!("an unescaped `{c}`, in a class with flag `v`"));
        }
        self.member()
    }
}

impl ClassMember {
    fn add_to(&self, ranges: &mut Vec<(u32, u32)>) {
        match self {
            ClassMember::One(number) => ranges.push((*number, *number)),
            ClassMember::Many(set) => ranges.extend_from_slice(set.ranges()),
        }
    }
}
