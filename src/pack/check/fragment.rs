//! Fragments: named pieces of regular expressions in `[patterns]`, which the regular expressions of the same pack use as
//! `(?&name)`.
//!
//! The fragments of all files of a load are collected before any rule is read, because a file may use those of another
//! file of its pack. A use is replaced by the fragment in a group of its own, so that its alternatives and flags end with
//! it. Everything after this step sees the expanded pattern only; a [`SourceMap`] leads from it back to the files.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

use super::DeferredFault;
use super::draft::Place;
use super::fault::Fault;
use super::reader::{Text, type_name};
use super::syntax::{ParsedText, RECOVERED_BYTES};
use super::{names, pattern};
use crate::pack::compose::PackSource;
use crate::pack::diagnostic::code;
use crate::pack::did_you_mean;
use crate::pack::escape::quote;
use crate::pack::load_context::LoadContext;

#[cfg(test)]
mod tests;

/// The largest number of fragments inside each other. The parser of regular expressions bounds the nesting of groups at
/// 250, and each fragment is a group.
const DEPTH: usize = 64;

/// The cost of recording the place of a piece of an expanded pattern, in steps of [`Limits::load_steps`].
pub(in crate::pack) const PIECE_STEPS: usize = 1024;

/// The fragments of each pack, by the name of the pack.
pub(super) type FragmentsByPack = BTreeMap<String, Arc<PackFragments>>;

/// The rule that is the first to use a fragment, by the name of the fragment.
pub(super) type FragmentUses = BTreeMap<String, Option<String>>;

/// The fragments of one pack.
#[derive(Debug, Default)]
pub(in crate::pack) struct PackFragments {
    by_name: BTreeMap<String, Fragment>,
    /// The faults of fragments, and the name of the fragment.
    faults: Vec<(String, Place, Fault)>,
    /// The work of checking them, as [`Limits::load_steps`] counts it.
    steps: u64,
}

/// A named piece of a regular expression.
#[derive(Debug)]
struct Fragment {
    text: FragmentText,
    references: References,
    /// The place of its name.
    key: Place,
    /// True if it has a fault, or uses a fragment that has one. The fault is reported once, not where it is used.
    is_broken: bool,
    /// The number of fragments inside each other, this one included; 0 until it is known.
    height: usize,
}

/// A text in a file.
#[derive(Clone, Debug)]
struct FragmentText {
    text: String,
    /// The place of the string, quotes included.
    at: Place,
    /// The offset of the first byte of the text in the file, if the text occurs there byte for byte.
    first: Option<usize>,
}

impl FragmentText {
    fn locate(&self, within: Range<usize>) -> Place {
        location(&self.at, self.first, within)
    }
}

fn location(at: &Place, first: Option<usize>, within: Range<usize>) -> Place {
    let span = first.map(|first| first + within.start..first + within.end);
    Place {
        file: at.file,
        span: span.unwrap_or_else(|| at.span.clone()),
    }
}

/// The uses of fragments in a text.
#[derive(Clone, Debug, Default)]
struct References {
    list: Vec<Reference>,
    /// True if the text ends in a comment of the flag `x`, which must not extend over the text after it.
    ends_in_comment: bool,
}

/// A use of a fragment: `(?&name)`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    range: Range<usize>,
    /// True if the flag `x` is set at this place. It does not apply inside of the fragment.
    is_verbose: bool,
}

impl Reference {
    fn name<'t>(&self, text: &'t str) -> &'t str {
        &text[self.range.start + OPENING.len()..self.range.end - 1]
    }
}

/// The characters before the name of a fragment.
const OPENING: &str = "(?&";

impl References {
    /// Finds the uses in a regular expression. Escaped parentheses, classes and comments have none.
    fn find(text: &str) -> References {
        let bytes = text.as_bytes();
        let mut found = References::default();
        let mut is_verbose = false;
        // The flag `x` around each open group.
        let mut groups: Vec<bool> = Vec::new();
        let mut classes = 0usize;
        let mut at = 0;
        while at < bytes.len() {
            let after_blanks = skip_blanks(text, at, is_verbose);
            if after_blanks == text.len() {
                let last_line = text[at..].rsplit('\n').next();
                found.ends_in_comment = last_line.is_some_and(|line| line.contains('#'));
                break;
            }
            at = after_blanks;
            match bytes[at] {
                b'[' => {
                    classes += 1;
                    at = first_of_class(text, at + 1, is_verbose);
                    continue;
                }
                b']' => classes = classes.saturating_sub(1),
                _ if classes > 0 => {
                    at = after_class_item(text, at, is_verbose);
                    continue;
                }
                b'\\' => {
                    at = after_character(text, at);
                    continue;
                }
                b'(' => {
                    let rest = &text[at..];
                    let length = rest.starts_with(OPENING).then(|| rest.find(')')).flatten();
                    if let Some(length) = length {
                        let range = at..at + length + 1;
                        at = range.end;
                        found.list.push(Reference { range, is_verbose });
                        continue;
                    }
                    match rest.strip_prefix("(?").and_then(Flags::read) {
                        Some(flags) if flags.is_group => {
                            groups.push(is_verbose);
                            is_verbose = flags.verbose.unwrap_or(is_verbose);
                        }
                        Some(flags) => {
                            is_verbose = flags.verbose.unwrap_or(is_verbose);
                            at += "(?".len() + flags.length;
                            continue;
                        }
                        None => groups.push(is_verbose),
                    }
                }
                b')' => is_verbose = groups.pop().unwrap_or(is_verbose),
                _ => {}
            }
            at += 1;
        }
        found
    }
}

/// Returns the offset of the first byte of a class that can close it: `-` and then `]` are characters at the beginning.
fn first_of_class(text: &str, at: usize, is_verbose: bool) -> usize {
    let is = |at: usize, byte: u8| text.as_bytes().get(at) == Some(&byte);
    let mut at = skip_blanks(text, at, is_verbose);
    if is(at, b'^') {
        at = skip_blanks(text, at + 1, is_verbose);
    }
    if is(at, b']') {
        return at + 1;
    }
    while is(at, b'-') {
        at = skip_blanks(text, at + 1, is_verbose);
    }
    at
}

/// Returns the offset after the character, range or operator of a class that begins at `at`. The last character of a range
/// may be `[`.
fn after_class_item(text: &str, at: usize, is_verbose: bool) -> usize {
    let byte = |at: usize| text.as_bytes().get(at).copied();
    if ["&&", "--", "~~"]
        .iter()
        .any(|it| text[at..].starts_with(it))
    {
        return at + 2;
    }
    let end = after_character(text, at);
    let dash = skip_blanks(text, end, is_verbose);
    if byte(dash) != Some(b'-') {
        return end;
    }
    let last = skip_blanks(text, dash + 1, is_verbose);
    match byte(last) {
        None | Some(b']' | b'-') => end,
        _ => after_character(text, last),
    }
}

/// Returns the offset after the character at `at`, or after the first character of an escape and its backslash.
fn after_character(text: &str, at: usize) -> usize {
    let mut characters = text[at..].chars();
    let first = characters.next();
    let escaped = characters.next().filter(|_| first == Some('\\'));
    let bytes = first.into_iter().chain(escaped).map(char::len_utf8);
    at + bytes.sum::<usize>()
}

/// Returns the offset of the first byte that is not a blank or a comment, if the flag `x` is set.
fn skip_blanks(text: &str, mut at: usize, is_verbose: bool) -> usize {
    while is_verbose && let Some(next) = text.get(at..).and_then(|rest| rest.chars().next()) {
        match next {
            '#' => at += text[at..].find('\n').unwrap_or(text.len() - at),
            next if next.is_whitespace() => at += next.len_utf8(),
            _ => break,
        }
    }
    at
}

/// The flags of a group, such as `i-x:` or `x)`.
struct Flags {
    /// The value that it gives to the flag `x`.
    verbose: Option<bool>,
    /// True for the flags of a group, false for flags up to the end of the group around them.
    is_group: bool,
    /// The number of bytes, the last character included.
    length: usize,
}

impl Flags {
    fn read(text: &str) -> Option<Flags> {
        let mut verbose = None;
        let mut is_set = true;
        for (index, byte) in text.bytes().enumerate() {
            match byte {
                b'-' => is_set = false,
                b'x' => verbose = Some(is_set),
                b':' | b')' => {
                    return Some(Flags {
                        verbose,
                        is_group: byte == b':',
                        length: index + 1,
                    });
                }
                byte if byte.is_ascii_alphabetic() => {}
                _ => return None,
            }
        }
        None
    }
}

/// A pattern in which every fragment is filled in.
#[derive(Debug)]
pub(in crate::pack) struct Expansion {
    pub(in crate::pack) text: String,
    pub(in crate::pack) map: SourceMap,
}

/// The places from which the pieces of an expanded pattern come.
#[derive(Clone, Debug)]
pub(in crate::pack) struct SourceMap {
    /// The place of the pattern.
    at: Place,
    first: Option<usize>,
    pieces: Vec<MappedPiece>,
}

/// A piece of an expanded pattern that is consecutive in its source. Pieces are in the order of the expanded pattern.
#[derive(Clone, Debug)]
struct MappedPiece {
    /// The range in the expanded pattern.
    range: Range<usize>,
    /// The place of its first byte in a fragment; `None` for a piece of the pattern itself.
    in_fragment: Option<(Place, Option<usize>, usize)>,
    /// The range in the pattern: the piece itself, or the use that it comes from.
    outer: Range<usize>,
}

impl SourceMap {
    /// Returns true if the place is in a fragment.
    pub(in crate::pack) fn is_in_fragment(&self, place: &Place) -> bool {
        let (outer, span) = (&self.at.span, &place.span);
        place.file != self.at.file || span.start < outer.start || outer.end < span.end
    }

    /// Returns the number of pieces.
    pub(in crate::pack) fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Returns the place of the bytes `within` of the expanded pattern: in a fragment if it has all of them, else in the
    /// pattern. Without `within` it is the place of the pattern.
    pub(in crate::pack) fn locate(&self, within: Option<&Range<usize>>) -> Place {
        let Some(within) = within else {
            return self.at.clone();
        };
        let piece_at = |offset: usize| {
            let after = self
                .pieces
                .partition_point(|piece| piece.range.start <= offset);
            self.pieces.get(after.checked_sub(1)?)
        };
        let last = within.end.saturating_sub(1).max(within.start);
        let (Some(piece), Some(end)) = (piece_at(within.start), piece_at(last)) else {
            return self.at.clone();
        };
        let start = within.start - piece.range.start;
        if piece.range != end.range {
            let is_whole = |piece: &MappedPiece| piece.in_fragment.is_some();
            let from = if is_whole(piece) { 0 } else { start };
            let to = match is_whole(end) {
                true => end.outer.end,
                false => end.outer.start + (within.end - end.range.start),
            };
            return location(&self.at, self.first, piece.outer.start + from..to);
        }
        match &piece.in_fragment {
            Some((at, first, offset)) => {
                let from = offset + start;
                location(at, *first, from..from + within.len())
            }
            None => {
                let from = piece.outer.start + start;
                location(&self.at, self.first, from..from + within.len())
            }
        }
    }
}

/// The reason why a pattern cannot be expanded.
enum ExpandError {
    /// Longer than the limit.
    TooLong,
    /// A fragment has a fault, which is reported where the fragment is written.
    Broken,
}

/// Appends a text with its fragments filled in.
struct Expander<'f> {
    fragments: &'f PackFragments,
    limit: usize,
    out: String,
    pieces: Vec<MappedPiece>,
}

impl Expander<'_> {
    /// Appends a piece of a source.
    fn push(
        &mut self,
        text: &str,
        from: usize,
        source: Option<&FragmentText>,
        outer: Range<usize>,
    ) {
        if text.is_empty() {
            return;
        }
        let start = self.out.len();
        self.out.push_str(text);
        self.pieces.push(MappedPiece {
            range: start..self.out.len(),
            in_fragment: source.map(|source| (source.at.clone(), source.first, from)),
            outer,
        });
    }

    /// Appends `text`, of the fragment `source` or of the pattern. `outer` is the use in the pattern.
    fn expand(
        &mut self,
        text: &str,
        references: &References,
        source: Option<&FragmentText>,
        outer: Option<&Range<usize>>,
    ) -> Result<(), ExpandError> {
        let mut from = 0;
        for reference in &references.list {
            let range = reference.range.clone();
            let in_pattern = |range: Range<usize>| outer.cloned().unwrap_or(range);
            self.push(
                &text[from..range.start],
                from,
                source,
                in_pattern(from..range.start),
            );
            from = range.end;
            let fragments = self.fragments;
            let fragment = fragments.by_name.get(reference.name(text));
            let fragment = fragment.filter(|fragment| !fragment.is_broken);
            let fragment = fragment.ok_or(ExpandError::Broken)?;
            let opening = if reference.is_verbose { "(?-x:" } else { "(?:" };
            let use_at = in_pattern(range.clone());
            self.push(opening, range.start, source, use_at.clone());
            let inner = &fragment.text;
            self.expand(
                &inner.text,
                &fragment.references,
                Some(inner),
                Some(&use_at),
            )?;
            // The flag that begins the comment ignores the line break that ends it.
            let closing = if fragment.references.ends_in_comment {
                "\n)"
            } else {
                ")"
            };
            self.push(closing, range.start, source, use_at);
            if self.out.len() > self.limit {
                return Err(ExpandError::TooLong);
            }
        }
        let rest = from..text.len();
        self.push(
            &text[rest.clone()],
            from,
            source,
            outer.cloned().unwrap_or(rest),
        );
        match self.out.len() > self.limit {
            true => Err(ExpandError::TooLong),
            false => Ok(()),
        }
    }
}

/// Collects the fragments of all sources, which were parsed to `parsed`. Returns the work of it, too.
pub(super) fn collect(
    sources: &[PackSource],
    parsed: &[ParsedText<'_>],
    context: &LoadContext<'_>,
) -> (FragmentsByPack, u64) {
    let mut packs: BTreeMap<String, PackFragments> = BTreeMap::new();
    for (file, (source, parsed)) in sources.iter().zip(parsed).enumerate() {
        let text = &source.text;
        match parsed {
            Ok(root) => collect_file(file, text, (root.get_ref(), false), &mut packs),
            Err(_) if text.len() > RECOVERED_BYTES => {}
            // Other files use these fragments, so their names must be known.
            Err(_) => {
                let (root, _) = DeTable::parse_recoverable(text);
                collect_file(file, text, (root.get_ref(), true), &mut packs);
            }
        }
    }
    let mut steps = 0;
    let checked = packs.into_iter().map(|(pack, mut fragments)| {
        fragments.steps = steps;
        fragments.check(context);
        steps = fragments.steps;
        (pack, Arc::new(fragments))
    });
    (checked.collect(), steps)
}

/// Returns the pack whose fragments a file uses. A file without a name has a pack of its own.
pub(super) fn scope(pack: &str, file: usize) -> String {
    match pack {
        "" => format!("#{file}"),
        pack => pack.to_owned(),
    }
}

/// Adds the fragments of a file to those of its pack. The third argument is the root table of the file, with true if
/// the text has TOML errors.
fn collect_file(
    file: usize,
    text: &str,
    (root, is_broken): (&DeTable<'_>, bool),
    packs: &mut BTreeMap<String, PackFragments>,
) {
    let is_known = |schema: &DeValue<'_>| schema.as_integer().is_some_and(|it| it.as_str() == "1");
    if !root
        .get("schema")
        .is_none_or(|schema| is_known(schema.get_ref()))
    {
        return;
    }
    let Some(table) = root
        .get("patterns")
        .and_then(|table| table.get_ref().as_table())
    else {
        return;
    };
    let pack = root.get("pack").and_then(|pack| pack.get_ref().as_table());
    let name = pack.and_then(|pack| pack.get("name")?.get_ref().as_str());
    let name = name.filter(|name| names::pack_name_fault(name).is_none());
    let pack = packs
        .entry(scope(name.unwrap_or_default(), file))
        .or_default();
    for (key, value) in table.iter() {
        pack.add(file, text, is_broken, (key, value));
    }
}

impl PackFragments {
    /// Adds an entry of `[patterns]` of a file, with its fault.
    fn add(
        &mut self,
        file: usize,
        file_text: &str,
        is_broken: bool,
        (key, value): (&Spanned<DeString<'_>>, &Spanned<DeValue<'_>>),
    ) {
        let at = |span| Place { file, span };
        let written = value.get_ref().as_str();
        let text = FragmentText {
            text: written.unwrap_or_default().to_owned(),
            at: at(value.span()),
            first: written.and_then(|written| {
                let span = value.span();
                Text {
                    value: written,
                    span,
                }
                .inner(file_text)
            }),
        };
        let fault = match is_broken {
            true => None,
            false => own_fault(key.get_ref(), value.get_ref()),
        };
        let place = match &fault {
            Some(fault) if fault.code == &code::FRAGMENT_NAME => at(key.span()),
            _ => at(value.span()),
        };
        let has_fault = fault.is_some();
        let name = key.get_ref().to_string();
        self.faults
            .extend(fault.map(|fault| (name.clone(), place, fault)));
        if self.by_name.contains_key(&name) {
            let message = format!("there is already a fragment {} in this pack", quote(&name));
            let fault = Fault::new(&code::DUPLICATE_FRAGMENT, message)
                .with_help("the files of a pack share their fragments; rename one of the two");
            return self.faults.push((name, at(key.span()), fault));
        }
        let fragment = Fragment {
            references: References::find(&text.text),
            text,
            key: at(key.span()),
            is_broken: is_broken || has_fault,
            height: 0,
        };
        self.by_name.insert(name, fragment);
    }
}

/// Returns the fault of an entry of `[patterns]` that is not about its regular expression.
fn own_fault(name: &str, value: &DeValue<'_>) -> Option<Fault> {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_name = name.bytes().next().is_some_and(is_letter)
        && name.bytes().all(|byte| is_letter(byte) || byte == b'-');
    let shown = quote(name);
    Some(if !is_name {
        Fault::new(
            &code::FRAGMENT_NAME,
            format!("fragment name {shown} is malformed"),
        )
        .with_help("lower-case letters, digits and `-`, not `-` first: `command-start`")
    } else if value.as_str().is_none() {
        let found = type_name(value);
        Fault::new(
            &code::WRONG_TYPE,
            format!("{shown} must be a string, this is {found}"),
        )
        .with_help("a fragment is a regular expression: write `name = '…'`")
    } else if value.as_str() == Some("") {
        Fault::new(&code::EMPTY_VALUE, format!("fragment {shown} is empty")).with_help("remove it")
    } else {
        return None;
    })
}

impl PackFragments {
    /// Finds the faults of all fragments.
    fn check(&mut self, context: &LoadContext<'_>) {
        let names: Vec<String> = self.by_name.keys().cloned().collect();
        for name in &names {
            // The load fails because of the limit.
            if self.steps > context.limits.load_steps {
                return;
            }
            self.visit(name, &mut Vec::new(), context);
        }
    }

    /// Checks a fragment after those that it uses. `path` are the fragments that use it, outermost first; no longer than
    /// [`DEPTH`].
    fn visit(&mut self, name: &str, path: &mut Vec<String>, context: &LoadContext<'_>) {
        let Some(fragment) = self.by_name.get(name).filter(|it| it.height == 0) else {
            return;
        };
        path.push(name.to_owned());
        let text = fragment.text.clone();
        let references = fragment.references.clone();
        let mut is_broken = fragment.is_broken;
        let mut height = 0;
        for reference in &references.list {
            let used = reference.name(&text.text);
            let within = Some(reference.range.clone());
            let fault = if let Some(start) = path.iter().position(|outer| outer == used) {
                let cycle = path[start..].iter().map(String::as_str).chain([used]);
                Some(cycle_fault(cycle))
            } else if !self.by_name.contains_key(used) {
                Some(self.unknown(used))
            } else if path.len() >= DEPTH {
                Some(nesting_fault())
            } else {
                self.visit(used, path, context);
                None
            };
            let inner = self.by_name.get(used);
            is_broken |= fault.is_some() || inner.is_some_and(|inner| inner.is_broken);
            height = height.max(inner.map_or(0, |inner| inner.height));
            if let Some(fault) = fault {
                let place = text.locate(reference.range.clone());
                self.faults
                    .push((name.to_owned(), place, fault.within(within)));
            }
        }
        path.pop();
        if height >= DEPTH && !is_broken {
            is_broken = true;
            let place = text.locate(0..text.text.len());
            self.faults.push((name.to_owned(), place, nesting_fault()));
        }
        if !is_broken {
            let fault = self.syntax_fault(&text, &references, context);
            is_broken = fault.is_some();
            let fault = fault.map(|(place, fault)| (name.to_owned(), place, fault));
            self.faults.extend(fault);
        }
        if let Some(fragment) = self.by_name.get_mut(name) {
            fragment.is_broken = is_broken;
            fragment.height = height + 1;
        }
    }

    /// Returns the fault of a fragment as a regular expression of its own.
    fn syntax_fault(
        &mut self,
        text: &FragmentText,
        references: &References,
        context: &LoadContext<'_>,
    ) -> Option<(Place, Fault)> {
        let Ok(expansion) = self.filled_in(text, references, context) else {
            self.steps += context.limits.pattern_bytes as u64;
            return Some((text.at.clone(), length_fault(context)));
        };
        let steps = pattern::load_steps(&expansion.text) + expansion.map.len() * PIECE_STEPS;
        self.steps = self.steps.saturating_add(steps as u64);
        let fault = pattern::syntax_fault(&expansion.text, context)?;
        Some((expansion.map.locate(fault.within.as_ref()), fault))
    }

    fn filled_in(
        &self,
        text: &FragmentText,
        references: &References,
        context: &LoadContext<'_>,
    ) -> Result<Expansion, ExpandError> {
        let mut expander = Expander {
            fragments: self,
            limit: context.limits.pattern_bytes,
            out: String::new(),
            pieces: Vec::new(),
        };
        expander.expand(&text.text, references, None, None)?;
        Ok(Expansion {
            text: expander.out,
            map: SourceMap {
                at: text.at.clone(),
                first: text.first,
                pieces: expander.pieces,
            },
        })
    }

    fn unknown(&self, name: &str) -> Fault {
        let names: Vec<&str> = self.by_name.keys().map(String::as_str).collect();
        let near = did_you_mean::help(name, &names);
        Fault::new(
            &code::UNKNOWN_FRAGMENT,
            format!("there is no fragment {}", quote(name)),
        )
        .with_help(format!(
            "fragments are defined in `[patterns]` of the pack: {near}"
        ))
    }

    /// Fills the fragments into the pattern `text`, which is at `at`. The result is `None` if it uses none. The rule that
    /// uses them is recorded in `uses`. An error without a fault is reported at the fragment.
    pub(super) fn expand(
        &self,
        text: &Text<'_>,
        at: Place,
        first: Option<usize>,
        context: &LoadContext<'_>,
        mut record: impl FnMut(&str),
    ) -> Option<Result<Expansion, Option<Fault>>> {
        if !text.value.contains(OPENING) || text.value.len() > context.limits.pattern_bytes {
            return None;
        }
        let references = References::find(text.value);
        if references.list.is_empty() {
            return None;
        }
        let mut unknown = None;
        for reference in &references.list {
            let name = reference.name(text.value);
            match self.by_name.contains_key(name) {
                true => record(name),
                false if unknown.is_none() => {
                    let fault = self.unknown(name).within(Some(reference.range.clone()));
                    unknown = Some(fault);
                }
                false => {}
            }
        }
        if unknown.is_some() {
            return Some(Err(unknown));
        }
        let written = FragmentText {
            text: text.value.to_owned(),
            at,
            first,
        };
        let expanded = self.filled_in(&written, &references, context);
        Some(expanded.map_err(|error| match error {
            ExpandError::TooLong => Some(length_fault(context)),
            ExpandError::Broken => None,
        }))
    }

    /// Records in `uses` that `rule` uses the fragment and those inside of it.
    pub(super) fn record_use(&self, name: &str, rule: Option<&String>, uses: &mut FragmentUses) {
        let mut left = vec![name];
        while let Some(name) = left.pop() {
            let Some((name, fragment)) = self.by_name.get_key_value(name) else {
                continue;
            };
            if !uses.contains_key(name) {
                uses.insert(name.clone(), rule.cloned());
                let used = fragment.references.list.iter();
                left.extend(used.map(|reference| reference.name(&fragment.text.text)));
            }
        }
    }

    /// Returns the faults of fragments, with the first rule that uses each.
    pub(super) fn faults(&self, uses: &FragmentUses) -> Vec<DeferredFault> {
        let faults = self.faults.iter();
        let faults = faults.map(|(name, place, fault)| {
            let rule = uses.get(name).cloned().flatten();
            DeferredFault {
                place: place.clone(),
                fault: fault.clone().used_by(rule.as_deref()),
                rule,
            }
        });
        faults.collect()
    }

    /// Returns a warning for each fragment that no pattern uses.
    pub(super) fn unused(&self, uses: &FragmentUses) -> Vec<DeferredFault> {
        let unused = self
            .by_name
            .iter()
            .filter(|(name, _)| !uses.contains_key(*name));
        let unused = unused.map(|(name, fragment)| {
            let message = format!("no pattern of this pack uses the fragment {}", quote(name));
            let help = format!("write `(?&{name})` in a regular expression, or remove it");
            let fault = Fault::new(&code::UNUSED_FRAGMENT, message).with_help(help);
            DeferredFault::without_rule(fragment.key.clone(), fault)
        });
        unused.collect()
    }
}

impl Fault {
    /// Adds to the help that `rule` uses the fragment.
    pub(in crate::pack) fn used_by(self, rule: Option<&str>) -> Fault {
        let Some(rule) = rule else {
            return self;
        };
        let rule = format!("rule {} uses this fragment", quote(rule));
        let help = match &self.help {
            Some(help) => format!("{help}; {rule}"),
            None => rule,
        };
        self.with_help(help)
    }
}

fn cycle_fault<'n>(names: impl Iterator<Item = &'n str>) -> Fault {
    let path: Vec<String> = names.map(quote).collect();
    let message = format!("fragments use each other in a cycle: {}", path.join(" → "));
    Fault::new(&code::CYCLIC_FRAGMENTS, message)
        .with_help("each of them uses the next; write out one of these uses")
}

fn nesting_fault() -> Fault {
    let message = format!("more than {DEPTH} fragments are inside each other");
    Fault::new(&code::PATTERN_TOO_LONG, message).with_help("write out some of them")
}

fn length_fault(context: &LoadContext<'_>) -> Fault {
    let limit = context.limits.pattern_bytes;
    let message =
        format!("with its fragments filled in this is more than {limit} bytes, the limit");
    Fault::new(&code::PATTERN_TOO_LONG, message)
        .with_help("use fewer fragments: each use repeats the whole fragment, nested ones too")
}
