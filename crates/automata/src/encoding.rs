//! The binary form of syntax trees, for hosts that store compiled patterns.
//!
//! Parsing an expression and translating its classes takes most of the time of a load. A stored tree needs neither. It is
//! checked in one pass that builds nothing, and decoded when its pattern is first searched for.
//!
//! # Invariants
//!
//! 1. The bytes may come from anyone. Reading them returns an error or a tree, does not recurse deeper than
//!    `MAX_DEPTH`, and takes memory for at most a constant times the number of bytes, and for `MAX_DECODED_BYTES`.
//! 2. The check and the decoder are one function, `read_tree`, with two builders, so they accept the same bytes.
//! 3. A decoded tree is made by the constructors of `regex-syntax`, which establish its invariants, and passes
//!    [`pattern::accept`]. A tree that does not is replaced by one that matches nothing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use regex_syntax::hir::{
    Capture, Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind,
    Look, Repetition,
};

use super::alphabet::FitEstimate;
use super::pattern;
use crate::PatternLimits;

/// The deepest nesting of a tree. The parser has about the same limit for expressions.
const MAX_DEPTH: usize = 250;

/// The most bytes that all decoded trees take, about. Two bytes of a tree may be a class of several kilobytes, so the
/// number of bytes is no bound.
const MAX_DECODED_BYTES: usize = 256 << 20;

/// The tags of nodes. They never change their meaning within a version of the form.
mod tag {
    pub(super) const EMPTY: u8 = 0;
    pub(super) const LITERAL: u8 = 1;
    pub(super) const CLASS: u8 = 2;
    pub(super) const LOOK: u8 = 3;
    pub(super) const REPETITION: u8 = 4;
    pub(super) const CAPTURE: u8 = 5;
    pub(super) const CONCAT: u8 = 6;
    pub(super) const ALTERNATION: u8 = 7;
}

/// The bytes are not what an encoder writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MalformedBytes;

impl std::fmt::Display for MalformedBytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("malformed bytes")
    }
}

impl std::error::Error for MalformedBytes {}

/// Appends a number in LEB128: seven bits a byte, the low ones first.
///
/// # Example: a number and back
/// ```
/// use ttsr_automata::encoding::{ByteReader, write_number};
/// let mut bytes = Vec::new();
/// write_number(&mut bytes, 300);
/// assert_eq!(bytes, [0xAC, 0x02]);
/// assert_eq!(ByteReader::new(&bytes).number(), Ok(300));
/// ```
pub fn write_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// A position in bytes that are read from the start to the end.
#[derive(Clone, Debug)]
pub struct ByteReader<'b> {
    bytes: &'b [u8],
    at: usize,
}

impl<'b> ByteReader<'b> {
    /// Returns a reader at the start of `bytes`.
    pub fn new(bytes: &'b [u8]) -> ByteReader<'b> {
        ByteReader { bytes, at: 0 }
    }

    /// Returns the offset of the next byte.
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Returns the number of bytes that are left.
    pub fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// No byte is left.
    pub fn byte(&mut self) -> Result<u8, MalformedBytes> {
        let byte = *self.bytes.get(self.at).ok_or(MalformedBytes)?;
        self.at += 1;
        Ok(byte)
    }

    /// Reads a number that [`write_number`] wrote.
    ///
    /// # Errors
    /// The number is not complete, or it does not fit.
    pub fn number(&mut self) -> Result<u64, MalformedBytes> {
        let first = self.byte()?;
        if first < 0x80 {
            return Ok(first.into());
        }
        let mut number = u64::from(first & 0x7F);
        for shift in (7..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            // The tenth byte has room for one bit. A larger one would be shifted out, and the number would be another
            // one.
            if bits << shift >> shift != bits {
                return Err(MalformedBytes);
            }
            // A number may be longer than it need be: `0x80 0x00` is 0. The encoder writes no such form, and in bytes
            // from elsewhere it only makes equal trees compare as different.
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(MalformedBytes)
    }

    /// Reads a number that fits into 32 bits.
    ///
    /// # Errors
    /// The number is not complete, or it does not fit.
    pub fn number_u32(&mut self) -> Result<u32, MalformedBytes> {
        u32::try_from(self.number()?).map_err(|_| MalformedBytes)
    }

    /// Reads a length of at most the bytes that are left: what follows takes at least one byte for each of its items.
    ///
    /// # Errors
    /// The number is not complete, or it is larger.
    pub fn length(&mut self) -> Result<usize, MalformedBytes> {
        let length = self.number()?;
        match usize::try_from(length) {
            Ok(length) if length <= self.remaining() => Ok(length),
            _ => Err(MalformedBytes),
        }
    }

    /// Reads the next `length` bytes.
    ///
    /// # Errors
    /// Fewer bytes are left.
    pub fn bytes(&mut self, length: usize) -> Result<&'b [u8], MalformedBytes> {
        let end = self.at.checked_add(length).ok_or(MalformedBytes)?;
        let bytes = self.bytes.get(self.at..end).ok_or(MalformedBytes)?;
        self.at = end;
        Ok(bytes)
    }

    /// Reads a text with its length before it.
    ///
    /// # Errors
    /// The text is not complete, or it is not UTF-8.
    pub fn text(&mut self) -> Result<&'b str, MalformedBytes> {
        let length = self.length()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| MalformedBytes)
    }
}

/// Encodes trees. Classes that occur several times are encoded once, in a table.
#[derive(Debug, Default)]
pub struct TreeEncoder {
    /// The encoded classes, and their places in `table`.
    known: HashMap<Vec<u8>, u32>,
    table: Vec<u8>,
    /// About the number of bytes that the trees take when they are decoded.
    decoded_bytes: usize,
}

impl TreeEncoder {
    /// Returns the encoded tree, or `None` if it is nested too deeply, or if the trees together are too large.
    pub fn encode(&mut self, hir: &Hir) -> Option<Vec<u8>> {
        let decoded_bytes = self.decoded_bytes.saturating_add(pattern::heap_bytes(hir));
        let mut out = Vec::new();
        // The same sum and the same bound as in `EncodedTrees::tree`, so that what is written can be read.
        if decoded_bytes > MAX_DECODED_BYTES || !self.encode_node(hir, 0, &mut out) {
            return None;
        }
        self.decoded_bytes = decoded_bytes;
        Some(out)
    }

    /// Returns the table of the classes of all encoded trees.
    pub fn into_class_table(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.table.len() + 4);
        write_number(&mut out, self.known.len() as u64);
        out.extend(self.table);
        out
    }

    /// Returns false if the tree is nested too deeply.
    fn encode_node(&mut self, hir: &Hir, depth: usize, out: &mut Vec<u8>) -> bool {
        if depth == MAX_DEPTH {
            return false;
        }
        match hir.kind() {
            HirKind::Empty => out.push(tag::EMPTY),
            HirKind::Literal(literal) => {
                out.push(tag::LITERAL);
                write_number(out, literal.0.len() as u64);
                out.extend_from_slice(&literal.0);
            }
            HirKind::Class(class) => {
                out.push(tag::CLASS);
                write_number(out, self.class(class).into());
            }
            HirKind::Look(look) => {
                out.push(tag::LOOK);
                write_number(out, look.as_repr().into());
            }
            HirKind::Repetition(repetition) => {
                out.push(tag::REPETITION);
                write_number(out, repetition.min.into());
                // 0 is no maximum.
                write_number(out, repetition.max.map_or(0, |max| u64::from(max) + 1));
                out.push(repetition.greedy.into());
                return self.encode_node(&repetition.sub, depth + 1, out);
            }
            HirKind::Capture(capture) => {
                out.push(tag::CAPTURE);
                write_number(out, capture.index.into());
                // 0 is no name.
                let name = capture.name.as_deref();
                write_number(out, name.map_or(0, |name| name.len() as u64 + 1));
                out.extend_from_slice(name.unwrap_or_default().as_bytes());
                return self.encode_node(&capture.sub, depth + 1, out);
            }
            HirKind::Concat(subs) | HirKind::Alternation(subs) => {
                out.push(match hir.kind() {
                    HirKind::Concat(_) => tag::CONCAT,
                    _ => tag::ALTERNATION,
                });
                write_number(out, subs.len() as u64);
                return subs.iter().all(|sub| self.encode_node(sub, depth + 1, out));
            }
        }
        true
    }

    /// Returns the index of the class in the table, to which it is added if it is new.
    fn class(&mut self, class: &Class) -> u32 {
        let mut encoded = Vec::new();
        match class {
            Class::Unicode(class) => {
                encoded.push(1);
                let ranges = class.ranges().iter();
                let ranges = ranges.map(|range| (range.start().into(), range.end().into()));
                encode_ranges(ranges, &mut encoded);
            }
            Class::Bytes(class) => {
                encoded.push(0);
                let ranges = class.ranges().iter();
                let ranges = ranges.map(|range| (range.start().into(), range.end().into()));
                encode_ranges(ranges, &mut encoded);
            }
        }
        // A load reads each class once and clones it for each tree. Rules of a pack use `\w`, `\s` and a few more again
        // and again, and `\w` alone has hundreds of ranges.
        let next = self.known.len() as u32;
        *self.known.entry(encoded).or_insert_with_key(|encoded| {
            self.table.extend_from_slice(encoded);
            next
        })
    }
}

/// Appends ranges, which are ascending and disjoint, as distances.
fn encode_ranges(ranges: impl ExactSizeIterator<Item = (u32, u32)>, out: &mut Vec<u8>) {
    write_number(out, ranges.len() as u64);
    let mut at = 0;
    for (start, end) in ranges {
        // Most ranges are near each other, so most distances take a single byte.
        write_number(out, (start - at).into());
        write_number(out, (end - start).into());
        at = end;
    }
}

/// The sums over all trees that are read together.
#[derive(Debug, Default)]
pub struct TreeTotals {
    /// The classes of characters that the trees distinguish.
    fit: FitEstimate,
    decoded_bytes: usize,
}

impl TreeTotals {
    /// Adds a tree that was not encoded.
    pub fn add(&mut self, hir: &Hir) {
        self.fit.add(hir);
    }

    /// Returns true if every subset of the trees has an alphabet: see [`fits_alphabet`](super::fits_alphabet).
    pub fn surely_fit(&self) -> bool {
        self.fit.is_sure()
    }
}

/// Encoded trees that share a table of classes. They are decoded on first use.
#[derive(Debug)]
pub struct EncodedTrees {
    bytes: Arc<[u8]>,
    classes: Vec<Class>,
    limits: PatternLimits,
}

impl EncodedTrees {
    /// Reads the class table at `table` in `bytes`. The trees of [`tree`](Self::tree) are in `bytes`, too.
    ///
    /// # Errors
    /// The table is malformed.
    pub fn new(
        bytes: Arc<[u8]>,
        table: Range<usize>,
        limits: PatternLimits,
    ) -> Result<EncodedTrees, MalformedBytes> {
        let mut reader = ByteReader::new(bytes.get(table).ok_or(MalformedBytes)?);
        let count = reader.length()?;
        let classes = (0..count).map(|_| read_class(&mut reader));
        let classes = classes.collect::<Result<_, _>>()?;
        match reader.remaining() {
            // Bytes after the last class would mean that the count is wrong.
            0 => Ok(EncodedTrees {
                classes,
                bytes,
                limits,
            }),
            _ => Err(MalformedBytes),
        }
    }

    /// Returns totals with the classes of all trees and no tree.
    pub fn totals(&self) -> TreeTotals {
        let mut totals = TreeTotals::default();
        let classes = self.classes.iter();
        // Every class counts, even if no tree uses it: an estimate that is too high costs a check, and one that is too
        // low would accept trees that have no alphabet.
        classes.for_each(|class| totals.fit.add_class(class));
        totals
    }

    /// Checks the tree at `range`, and adds it to `totals`, which are those of [`totals`](Self::totals). Returns it with
    /// the number of its states.
    ///
    /// # Errors
    /// The tree is malformed, matches the empty text, or has more states than a rule may have; or the trees together are
    /// too large.
    pub fn tree(
        self: &Arc<Self>,
        range: Range<usize>,
        totals: &mut TreeTotals,
    ) -> Result<(PatternTree, usize), MalformedBytes> {
        let bytes = self.bytes.get(range.clone()).ok_or(MalformedBytes)?;
        let mut reader = ByteReader::new(bytes);
        let mut checker = TreeChecker {
            trees: self,
            totals,
            needs_bytes: false,
        };
        let summary = read_tree(&mut reader, 0, &mut checker)?;
        let needs_bytes = checker.needs_bytes;
        let is_too_large = totals.decoded_bytes > MAX_DECODED_BYTES;
        // `min_bytes` is `None` for a tree that matches nothing, which is allowed: the constructors of `regex-syntax`
        // make such trees of empty classes.
        if reader.remaining() > 0 || summary.min_bytes == Some(0) || is_too_large {
            return Err(MalformedBytes);
        }
        // The range is kept instead of a copy of the bytes: all trees share the bytes of the file.
        let tree = PatternTree(TreeForm::Encoded(Arc::new(EncodedTree {
            trees: Arc::clone(self),
            range,
            decoded: OnceLock::new(),
        })));
        // Over bytes a class has a state for each byte of each sequence, which the check does not count.
        let states = match needs_bytes {
            // Few patterns need bytes, so only these are decoded now, and the others when they are first searched for.
            true => {
                totals.fit.add_byte_pattern();
                pattern::states(&tree.get())
            }
            false => summary.states,
        };
        match states <= self.limits.rule_states {
            true => Ok((tree, states)),
            false => Err(MalformedBytes),
        }
    }

    /// Decodes a tree that [`tree`](Self::tree) has checked.
    fn decode(&self, range: Range<usize>) -> Hir {
        let bytes = self.bytes.get(range).unwrap_or_default();
        let mut builder = HirBuilder { trees: self };
        // This cannot fail, because `tree` has read the same bytes with the same function. The result is still handled,
        // so that a fault of this module gives a rule that never fires and not a panic on model text.
        let decoded = read_tree(&mut ByteReader::new(bytes), 0, &mut builder);
        // Invariant 3: the check builds nothing, so it does not see what the constructors make of the tree.
        let accepted = decoded
            .ok()
            .filter(|hir| pattern::accept(hir, &self.limits).is_ok());
        accepted.unwrap_or_else(Hir::fail)
    }
}

fn read_class(reader: &mut ByteReader<'_>) -> Result<Class, MalformedBytes> {
    let is_unicode = reader.byte()?;
    // Invariant 1: a range takes two bytes at least, so the ranges of a class take a constant times its bytes.
    let count = reader.length()?;
    let mut at = 0u32;
    let mut range = || {
        let start = at.checked_add(reader.number_u32()?).ok_or(MalformedBytes)?;
        at = start
            .checked_add(reader.number_u32()?)
            .ok_or(MalformedBytes)?;
        Ok((start, at))
    };
    match is_unicode {
        1 => {
            let ranges = (0..count).map(|_| {
                let (start, end) = range()?;
                let char = |code| char::from_u32(code).ok_or(MalformedBytes);
                Ok(ClassUnicodeRange::new(char(start)?, char(end)?))
            });
            let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
            Ok(Class::Unicode(ClassUnicode::new(ranges)))
        }
        0 => {
            let ranges = (0..count).map(|_| {
                let (start, end) = range()?;
                let byte = |code| u8::try_from(code).map_err(|_| MalformedBytes);
                Ok(ClassBytesRange::new(byte(start)?, byte(end)?))
            });
            let ranges = ranges.collect::<Result<Vec<_>, _>>()?;
            Ok(Class::Bytes(ClassBytes::new(ranges)))
        }
        _ => Err(MalformedBytes),
    }
}

/// The syntax tree of a pattern, or its binary form, which is decoded when the tree is first needed. Clones share it.
#[derive(Clone, Debug)]
pub struct PatternTree(TreeForm);

#[derive(Clone, Debug)]
enum TreeForm {
    Decoded(Arc<Hir>),
    Encoded(Arc<EncodedTree>),
}

#[derive(Debug)]
struct EncodedTree {
    trees: Arc<EncodedTrees>,
    range: Range<usize>,
    decoded: OnceLock<Arc<Hir>>,
}

impl PatternTree {
    /// Returns the tree.
    ///
    /// # Complexity
    /// Linear in the size of an encoded tree when it is first called, and constant after that.
    pub fn get(&self) -> Arc<Hir> {
        match &self.0 {
            TreeForm::Decoded(hir) => Arc::clone(hir),
            TreeForm::Encoded(tree) => {
                let EncodedTree {
                    trees,
                    range,
                    decoded,
                } = &**tree;
                // Two threads may ask at once. One decodes, the other waits, and both get the same tree.
                Arc::clone(decoded.get_or_init(|| Arc::new(trees.decode(range.clone()))))
            }
        }
    }
}

impl From<Arc<Hir>> for PatternTree {
    fn from(hir: Arc<Hir>) -> PatternTree {
        PatternTree(TreeForm::Decoded(hir))
    }
}

impl PartialEq for PatternTree {
    fn eq(&self, other: &PatternTree) -> bool {
        match (&self.0, &other.0) {
            (TreeForm::Encoded(one), TreeForm::Encoded(other))
                if Arc::ptr_eq(&one.trees, &other.trees) =>
            {
                // A tree has one binary form.
                one.trees.bytes.get(one.range.clone()) == other.trees.bytes.get(other.range.clone())
            }
            _ => self.get() == other.get(),
        }
    }
}

/// The actions of [`read_tree`] on the nodes of a tree: one implementation builds the tree, another only counts it.
trait TreeBuilder {
    type Node;

    fn empty(&mut self) -> Self::Node;
    fn literal(&mut self, bytes: &[u8]) -> Self::Node;
    fn class(&mut self, index: usize) -> Result<Self::Node, MalformedBytes>;
    fn look(&mut self, look: Look) -> Self::Node;
    fn repetition(&mut self, repeats: Repeats, sub: Self::Node) -> Self::Node;
    fn capture(&mut self, index: u32, name: Option<&str>, sub: Self::Node) -> Self::Node;
    fn concat(&mut self, subs: Vec<Self::Node>) -> Self::Node;
    fn alternation(&mut self, subs: Vec<Self::Node>) -> Self::Node;
}

/// The counts of a repetition.
#[derive(Clone, Copy)]
struct Repeats {
    min: u32,
    max: Option<u32>,
    greedy: bool,
}

fn read_tree<B: TreeBuilder>(
    reader: &mut ByteReader<'_>,
    depth: usize,
    builder: &mut B,
) -> Result<B::Node, MalformedBytes> {
    // Invariant 1. The encoder refuses the same trees.
    if depth == MAX_DEPTH {
        return Err(MalformedBytes);
    }
    Ok(match reader.byte()? {
        tag::EMPTY => builder.empty(),
        tag::LITERAL => {
            let length = reader.length()?;
            builder.literal(reader.bytes(length)?)
        }
        tag::CLASS => {
            let index = usize::try_from(reader.number()?).map_err(|_| MalformedBytes)?;
            builder.class(index)?
        }
        tag::LOOK => {
            let look = Look::from_repr(reader.number_u32()?);
            builder.look(look.ok_or(MalformedBytes)?)
        }
        tag::REPETITION => {
            let min = reader.number_u32()?;
            // Stored plus one: 0 stands for no largest number.
            let max = reader.number()?.checked_sub(1);
            let max = max
                .map(u32::try_from)
                .transpose()
                .map_err(|_| MalformedBytes)?;
            let greedy = match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(MalformedBytes),
            };
            // `Hir::repetition` does not refuse such a node, and for the compilers of this crate it has no meaning.
            if max.is_some_and(|max| max < min) {
                return Err(MalformedBytes);
            }
            let sub = read_tree(reader, depth + 1, builder)?;
            builder.repetition(Repeats { min, max, greedy }, sub)
        }
        tag::CAPTURE => {
            let index = reader.number_u32()?;
            // Stored plus one: 0 stands for a group without a name.
            let length = reader.number()?.checked_sub(1);
            let length = length.map(usize::try_from).transpose();
            let name = length.map_err(|_| MalformedBytes)?.map(|length| {
                std::str::from_utf8(reader.bytes(length)?).map_err(|_| MalformedBytes)
            });
            let name = name.transpose()?;
            let sub = read_tree(reader, depth + 1, builder)?;
            builder.capture(index, name, sub)
        }
        kind @ (tag::CONCAT | tag::ALTERNATION) => {
            let count = reader.length()?;
            // `count` is at most the bytes that are left, and each element takes one of them, so a wrong count ends in
            // an error before it has cost more than the input.
            let subs = (0..count).map(|_| read_tree(reader, depth + 1, builder));
            let subs = subs.collect::<Result<Vec<_>, _>>()?;
            match kind {
                tag::CONCAT => builder.concat(subs),
                _ => builder.alternation(subs),
            }
        }
        _ => return Err(MalformedBytes),
    })
}

/// Builds the tree.
struct HirBuilder<'t> {
    trees: &'t EncodedTrees,
}

impl TreeBuilder for HirBuilder<'_> {
    type Node = Hir;

    fn empty(&mut self) -> Hir {
        Hir::empty()
    }

    fn literal(&mut self, bytes: &[u8]) -> Hir {
        Hir::literal(bytes)
    }

    fn class(&mut self, index: usize) -> Result<Hir, MalformedBytes> {
        let class = self.trees.classes.get(index).ok_or(MalformedBytes)?;
        Ok(Hir::class(class.clone()))
    }

    fn look(&mut self, look: Look) -> Hir {
        Hir::look(look)
    }

    fn repetition(&mut self, repeats: Repeats, sub: Hir) -> Hir {
        let Repeats { min, max, greedy } = repeats;
        Hir::repetition(Repetition {
            min,
            max,
            greedy,
            sub: Box::new(sub),
        })
    }

    fn capture(&mut self, index: u32, name: Option<&str>, sub: Hir) -> Hir {
        Hir::capture(Capture {
            index,
            name: name.map(Box::from),
            sub: Box::new(sub),
        })
    }

    fn concat(&mut self, subs: Vec<Hir>) -> Hir {
        Hir::concat(subs)
    }

    fn alternation(&mut self, subs: Vec<Hir>) -> Hir {
        Hir::alternation(subs)
    }
}

/// Counts the states of a tree and the length of its shortest match, and builds nothing.
struct TreeChecker<'t, 's> {
    trees: &'t EncodedTrees,
    totals: &'s mut TreeTotals,
    /// True if a node can match a single byte of a character.
    needs_bytes: bool,
}

/// The size of a tree. See [`pattern::states`] and [`pattern::min_match_bytes`], which count the same for decoded trees.
#[derive(Clone, Copy)]
struct TreeSummary {
    /// Over characters.
    states: usize,
    min_bytes: Option<usize>,
}

impl TreeChecker<'_, '_> {
    /// Counts a node that takes this number of bytes beside the node itself.
    fn count(&mut self, bytes: usize) {
        let total = &mut self.totals.decoded_bytes;
        *total = total.saturating_add(size_of::<Hir>().saturating_add(bytes));
    }
}

impl TreeBuilder for TreeChecker<'_, '_> {
    type Node = TreeSummary;

    fn empty(&mut self) -> TreeSummary {
        self.count(0);
        TreeSummary {
            states: 0,
            min_bytes: Some(0),
        }
    }

    fn literal(&mut self, bytes: &[u8]) -> TreeSummary {
        self.needs_bytes |= std::str::from_utf8(bytes).is_err();
        self.count(bytes.len());
        self.totals.fit.add_literal(bytes);
        TreeSummary {
            states: bytes.len(),
            min_bytes: Some(bytes.len()),
        }
    }

    fn class(&mut self, index: usize) -> Result<TreeSummary, MalformedBytes> {
        let class = self.trees.classes.get(index).ok_or(MalformedBytes)?;
        // An ASCII class of bytes is a class of characters, too: `(?-u:[a-z])` is one.
        self.needs_bytes |= matches!(class, Class::Bytes(class) if !class.is_ascii());
        self.count(match class {
            Class::Unicode(class) => size_of_val(class.ranges()),
            Class::Bytes(class) => size_of_val(class.ranges()),
        });
        self.totals.fit.add_element();
        Ok(TreeSummary {
            states: 1,
            min_bytes: class.minimum_len(),
        })
    }

    fn look(&mut self, _: Look) -> TreeSummary {
        self.count(0);
        TreeSummary {
            states: 1,
            min_bytes: Some(0),
        }
    }

    fn repetition(&mut self, repeats: Repeats, sub: TreeSummary) -> TreeSummary {
        self.count(0);
        let Repeats { min, max, .. } = repeats;
        // As in `pattern::states_in`: the required copies, a split for each optional one, and a loop over the last
        // required copy if there is no largest number.
        let copies = max.unwrap_or(min.max(1)) as usize;
        let optional = copies.saturating_sub(min as usize);
        TreeSummary {
            states: sub.states.saturating_mul(copies).saturating_add(optional),
            min_bytes: match min {
                0 => Some(0),
                copies => sub
                    .min_bytes
                    .map(|least| least.saturating_mul(copies as usize)),
            },
        }
    }

    fn capture(&mut self, _: u32, _: Option<&str>, sub: TreeSummary) -> TreeSummary {
        self.count(0);
        sub
    }

    fn concat(&mut self, subs: Vec<TreeSummary>) -> TreeSummary {
        self.count(0);
        let states = subs.iter().map(|sub| sub.states);
        TreeSummary {
            states: states.fold(0, usize::saturating_add),
            min_bytes: subs.iter().try_fold(0, |least: usize, sub| {
                Some(least.saturating_add(sub.min_bytes?))
            }),
        }
    }

    fn alternation(&mut self, subs: Vec<TreeSummary>) -> TreeSummary {
        self.count(0);
        let states = subs.iter().map(|sub| sub.states);
        TreeSummary {
            states: states.fold(1, usize::saturating_add),
            // An alternative that matches nothing has no length, and does not make the others longer.
            min_bytes: subs.iter().filter_map(|sub| sub.min_bytes).min(),
        }
    }
}

#[cfg(test)]
mod tests {
    use ttsr_testing::{Random, pattern_text, scale};

    use super::*;
    use crate::pattern::{min_match_bytes, parse, states};

    /// Returns the patterns as bytes: the class table, and the ranges of the trees after it.
    fn encoded(patterns: &[Hir]) -> (Vec<u8>, Range<usize>, Vec<Range<usize>>) {
        let mut encoder = TreeEncoder::default();
        let trees: Vec<Vec<u8>> = patterns
            .iter()
            .map(|hir| encoder.encode(hir).expect("a small tree"))
            .collect();
        let mut bytes = encoder.into_class_table();
        let table = 0..bytes.len();
        let ranges = trees.iter().map(|tree| {
            bytes.extend(tree);
            bytes.len() - tree.len()..bytes.len()
        });
        let ranges = ranges.collect();
        (bytes, table, ranges)
    }

    fn patterns() -> Vec<Hir> {
        let mut random = Random::new(7);
        let limits = PatternLimits::default();
        let texts = [
            "word",
            r"(?i)\bstra\u{df}e\b|\p{Greek}{2,}?",
            r"(?-u:[\x80-\xFF]+)z",
            r"(?m)^(?<name>a|b(c))*x{3,}$",
            r"(?s-u:.)q",
            "[^\\s\\S]x",
        ];
        let texts = texts.map(str::to_owned).into_iter();
        let random = (0..scale(2000)).map(|_| pattern_text(&mut random));
        let parsed = texts.chain(random).map(|text| parse(&text, &limits));
        parsed.filter_map(Result::ok).collect()
    }

    #[test]
    fn a_tree_that_is_read_back_is_the_same() {
        let patterns = patterns();
        let (bytes, table, ranges) = encoded(&patterns);
        let trees = EncodedTrees::new(bytes.into(), table, PatternLimits::default()).unwrap();
        let trees = Arc::new(trees);
        let mut totals = trees.totals();
        let mut before = FitEstimate::default();
        for (hir, range) in patterns.iter().zip(ranges) {
            let (tree, counted) = trees.tree(range, &mut totals).unwrap();
            assert_eq!(*tree.get(), *hir);
            assert_eq!(counted, states(hir), "{hir}");
            assert_eq!(tree, tree.clone());
            before.add(hir);
        }
        assert_eq!(totals.surely_fit(), before.is_sure());
        assert!(totals.decoded_bytes > 0);
    }

    #[test]
    fn malformed_bytes_are_refused_or_are_a_tree_within_the_limits() {
        let patterns: Vec<Hir> = patterns().into_iter().take(60).collect();
        let (bytes, table, ranges) = encoded(&patterns);
        let limits = PatternLimits {
            rule_states: 300,
            ..PatternLimits::default()
        };
        let mut random = Random::new(1);
        let mut accepted = 0;
        for _ in 0..scale(20_000) {
            let mut changed = bytes.clone();
            let at = random.below(changed.len());
            changed[at] = random.next() as u8;
            let Ok(trees) = EncodedTrees::new(changed.into(), table.clone(), limits) else {
                continue;
            };
            let trees = Arc::new(trees);
            let mut totals = trees.totals();
            for range in &ranges {
                let Ok((tree, counted)) = trees.tree(range.clone(), &mut totals) else {
                    continue;
                };
                let hir = tree.get();
                assert!(counted <= 300 && states(&hir) <= 300);
                assert_ne!(min_match_bytes(&hir), Some(0));
                accepted += 1;
            }
        }
        assert!(accepted > 0);
    }

    #[test]
    fn a_tree_that_is_nested_too_deeply_has_no_binary_form() {
        let nested = |depth: usize| {
            let mut hir = Hir::literal(*b"x");
            for index in 0..depth as u32 {
                let (name, sub) = (None, Box::new(hir));
                hir = Hir::capture(Capture { index, name, sub });
            }
            hir
        };
        let encode = |depth| TreeEncoder::default().encode(&nested(depth));
        assert!(encode(MAX_DEPTH - 1).is_some());
        assert_eq!(encode(MAX_DEPTH), None);
        let mut deep = [tag::CAPTURE, 0, 0].repeat(100_000);
        deep.extend([tag::LITERAL, 1, b'x']);
        let mut bytes = TreeEncoder::default().into_class_table();
        let table = 0..bytes.len();
        bytes.extend(&deep);
        let range = table.end..bytes.len();
        let limits = PatternLimits::default();
        let trees = Arc::new(EncodedTrees::new(bytes.into(), table, limits).unwrap());
        assert!(trees.tree(range, &mut trees.totals()).is_err());
    }

    #[test]
    fn numbers_are_read_back_and_others_are_refused() {
        for number in [0, 1, 0x7F, 0x80, 300, u64::from(u32::MAX), u64::MAX] {
            let mut bytes = Vec::new();
            write_number(&mut bytes, number);
            assert_eq!(ByteReader::new(&bytes).number(), Ok(number));
            let cut = &bytes[..bytes.len() - 1];
            assert_eq!(ByteReader::new(cut).number(), Err(MalformedBytes));
        }
        let too_large = [[0xFF; 9].as_slice(), &[2]].concat();
        assert_eq!(ByteReader::new(&too_large).number(), Err(MalformedBytes));
        assert_eq!(ByteReader::new(&[0x80; 12]).number(), Err(MalformedBytes));
        assert_eq!(ByteReader::new(&[2, b'a']).text(), Err(MalformedBytes));
        assert_eq!(ByteReader::new(&[1, 0xFF]).text(), Err(MalformedBytes));
        assert_eq!(MalformedBytes.to_string(), "malformed bytes");
    }
}
