//! The alphabet of an automaton: equivalence classes of symbols that no pattern distinguishes.
//!
//! Symbols are *code points* of one of two spaces. [`SymbolSpace::Chars`] has the Unicode scalar values and two more
//! for bytes that belong to no character. [`SymbolSpace::Bytes`] has every byte; those that are not ASCII occur once
//! for each position they can have in or outside a character, so that a Unicode `\b` next to a byte pattern stays
//! exact. Patterns that can match single non-ASCII bytes need the second. All others use the first, in which `\w`
//! is one class and not seven hundred byte sequences.
//!
//! The table knows a class by its *column*. Column 0 is `STAY`. The columns of ASCII bytes follow, frequent bytes
//! first, then the column of bytes that need decoding, then all other classes.
//!
//! # Invariants
//!
//! 1. The columns partition the code points: every code point has exactly one column, and every class of a pattern is a
//!    union of columns. A transition on a column is therefore the same for all of its code points.
//! 2. The code points of one column have the same [`SymbolFlags`], so an assertion cannot distinguish them either.
//! 3. The columns of ASCII bytes and the decoding column are at most 129, so they fit into a byte.
//! 4. A code point has the same column wherever it occurs: it does not depend on deltas.
//!
//! # Complexity
//!
//! The classes are split at the bounds of their ranges: `O(n log n)` for `n` ranges of all classes together, and
//! `O(ranges * classes)` in the worst case to find the members of each class, which [`MAX_MEMBERSHIPS`] bounds.

use std::collections::{HashMap, HashSet};

use regex_syntax::hir::{Class, Hir, HirKind};

use super::hash;
use super::nfa::needs_bytes;
use super::table::BLOCK;
use super::utf8::Symbol;

/// Inclusive ranges of code points.
pub(crate) type Ranges = Vec<(u32, u32)>;

/// A bit set of columns.
pub(crate) type ColumnSet = Box<[u64]>;

/// The meaning of the code points of an alphabet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum SymbolSpace {
    /// Unicode scalar values, and one code point each for raw and trailing bytes.
    #[default]
    Chars,
    /// Bytes with their position in a character.
    Bytes,
}

/// The column that leads every state to itself.
pub(crate) const STAY: Column = Column(0);

/// An index into a row, at most [`MAX`](Column::MAX) for any alphabet: no function makes a greater one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Column(usize);

impl Column {
    /// The greatest column index of any table: the reentry cell, which follows [`MAX_CLASSES`], `STAY` and the decoding
    /// column.
    pub(crate) const MAX: usize = MAX_CLASSES + 2;

    /// Returns the column with this index.
    ///
    /// # Panics
    /// If the index is greater than [`MAX`](Column::MAX).
    pub(crate) fn new(index: usize) -> Column {
        // Unchecked steps rely on the bound (invariant 6 of `table`).
        assert!(index <= Column::MAX, "a table has no such column");
        Column(index)
    }

    #[inline(always)]
    pub(crate) fn index(self) -> usize {
        self.0
    }
}

const _: () = assert!(Column::MAX >= u8::MAX as usize);

impl From<u8> for Column {
    #[inline(always)]
    fn from(column: u8) -> Column {
        Column(usize::from(column))
    }
}

// Two code points beyond Unicode, for bytes of no character. The assertions can tell them from each other, and patterns
// over characters can match neither.
const RAW: u32 = 0x11_0000;
const TRAILING: u32 = 0x11_0001;
const CHARS_END: u32 = 0x11_0002;

/// The position of a symbol in the pushed bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SymbolSpan {
    /// The index of the byte that made the symbol certain.
    pub(crate) at: usize,
    /// The number of bytes between the end of the symbol and the end of that byte.
    pub(crate) back: usize,
    /// The number of bytes of the symbol.
    pub(crate) width: usize,
}

impl SymbolSpan {
    /// Returns the span of a whole character or byte.
    pub(crate) fn whole(width: usize) -> SymbolSpan {
        SymbolSpan {
            at: 0,
            back: 0,
            width,
        }
    }

    /// Shifts the span within a longer run of bytes.
    pub(crate) fn shifted(self, at: usize, back: usize) -> SymbolSpan {
        SymbolSpan {
            at: self.at + at,
            back: self.back + back,
            width: self.width,
        }
    }
}

/// The position of a non-ASCII byte in a character. Its code point is `128 + 128 * role + (byte - 128)`.
///
/// The first and the last byte tell if the character is a word character, because `\b` next to them depends on it. The
/// bytes between them cannot be next to the boundary of a character.
#[derive(Clone, Copy)]
enum ByteRole {
    Raw,
    Trailing,
    FirstOfOther,
    FirstOfWord,
    Middle,
    LastOfOther,
    LastOfWord,
}

const BYTE_ROLES: [ByteRole; 7] = [
    ByteRole::Raw,
    ByteRole::Trailing,
    ByteRole::FirstOfOther,
    ByteRole::FirstOfWord,
    ByteRole::Middle,
    ByteRole::LastOfOther,
    ByteRole::LastOfWord,
];
const BYTES_END: u32 = 128 + 128 * BYTE_ROLES.len() as u32;

// Only for bytes from 128 on; ASCII bytes are their own code points in both spaces.
fn code_in_role(byte: u8, role: ByteRole) -> u32 {
    128 + 128 * role as u32 + (u32::from(byte) - 128)
}

/// The properties of a symbol that assertions ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct SymbolFlags(u8);

impl SymbolFlags {
    // `AHEAD` flags are read before the symbol, `BEHIND` flags after it. A letter has both word flags. Over bytes they
    // differ: the first byte of a letter starts a word character and does not end one.
    const WORD_AHEAD: u8 = 1;
    const WORD_BEHIND: u8 = 2;
    const ASCII_WORD: u8 = 4;
    const LF: u8 = 8;
    const CR: u8 = 16;
    const INVALID_AHEAD: u8 = 32;
    const INVALID_BEHIND: u8 = 64;
    const TRAILING: u8 = 128;

    fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
    /// A word character starts here.
    pub(crate) fn is_word_ahead(self) -> bool {
        self.has(Self::WORD_AHEAD)
    }
    /// A word character ends here.
    pub(crate) fn is_word_behind(self) -> bool {
        self.has(Self::WORD_BEHIND)
    }
    pub(crate) fn is_ascii_word(self) -> bool {
        self.has(Self::ASCII_WORD)
    }
    pub(crate) fn is_lf(self) -> bool {
        self.has(Self::LF)
    }
    pub(crate) fn is_cr(self) -> bool {
        self.has(Self::CR)
    }
    /// No character starts here.
    pub(crate) fn is_invalid_ahead(self) -> bool {
        self.has(Self::INVALID_AHEAD)
    }
    /// No character ends here.
    pub(crate) fn is_invalid_behind(self) -> bool {
        self.has(Self::INVALID_BEHIND)
    }
    pub(crate) fn is_trailing(self) -> bool {
        self.has(Self::TRAILING)
    }
}

/// The properties of symbols that the patterns of an automaton ask about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookNeeds {
    pub(crate) line: bool,
    pub(crate) crlf: bool,
    pub(crate) word: WordLookNeeds,
}

impl LookNeeds {
    const ALL: LookNeeds = LookNeeds {
        line: true,
        crlf: true,
        word: WordLookNeeds {
            ascii: true,
            unicode: true,
        },
    };
}

/// The word boundaries that the patterns ask about.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct WordLookNeeds {
    pub(crate) ascii: bool,
    pub(crate) unicode: bool,
}

/// The most classes of an alphabet: a row has a cell for each. Three thousand different characters in literals, as in
/// a list of Chinese words, fit.
pub const MAX_CLASSES: usize = 1 << 13;

/// The most pairs of a class and a code range that are examined: about a second of work.
const MAX_MEMBERSHIPS: usize = 1 << 30;

/// Returns true if every subset of these patterns has an alphabet, so that building a [`Matcher`](super::Matcher) of them
/// never returns [`TooManyClasses`]. Linear in the patterns; false for some sets whose subsets have one, such as all with
/// a pattern that can match single bytes of a character.
///
/// # Example: words and a Unicode class
/// ```
/// use ttsr_automata::{PatternLimits, pattern, fits_alphabet};
/// let parse = |text| pattern::parse(text, &PatternLimits::default());
/// assert!(fits_alphabet([&parse("TODO|FIXME")?, &parse(r"\w+!")?]));
/// // This pattern matches a single byte that is no character.
/// assert!(!fits_alphabet([&parse(r"(?-u:\xFF)")?]));
/// # Ok::<(), pattern::PatternError>(())
/// ```
pub fn fits_alphabet<'h>(patterns: impl IntoIterator<Item = &'h Hir>) -> bool {
    let mut fit = FitEstimate::default();
    patterns.into_iter().for_each(|pattern| fit.add(pattern));
    fit.is_sure()
}

/// An upper bound of the classes that a set of patterns distinguishes: see [`fits_alphabet`].
#[derive(Debug)]
pub(crate) struct FitEstimate {
    // The classes of an alphabet are split at the bounds of their ranges alone, whatever classes the compiler makes of
    // those of the patterns: unions, intersections and complements have no other bounds.
    bounds: CodeBounds,
    /// The number of classes and of bytes of literals.
    elements: usize,
    has_bytes: bool,
}

impl Default for FitEstimate {
    fn default() -> FitEstimate {
        let mut bounds = CodeBounds::new();
        for (_, ranges) in flag_sets(SymbolSpace::Chars, LookNeeds::ALL) {
            bounds.add(ranges);
        }
        FitEstimate {
            bounds,
            elements: 0,
            has_bytes: false,
        }
    }
}

impl FitEstimate {
    /// Adds a pattern.
    pub(crate) fn add(&mut self, pattern: &Hir) {
        if self.has_bytes || needs_bytes(pattern) {
            self.has_bytes = true;
            return;
        }
        let mut left = vec![pattern];
        while let Some(hir) = left.pop() {
            match hir.kind() {
                HirKind::Empty | HirKind::Look(_) => {}
                HirKind::Literal(literal) => self.add_literal(&literal.0),
                HirKind::Class(class) => {
                    self.add_element();
                    self.add_class(class);
                }
                HirKind::Repetition(repetition) => left.push(&repetition.sub),
                HirKind::Capture(capture) => left.push(&capture.sub),
                HirKind::Concat(subs) | HirKind::Alternation(subs) => left.extend(subs),
            }
        }
    }

    /// Adds a pattern that can match single bytes of characters.
    pub(crate) fn add_byte_pattern(&mut self) {
        self.has_bytes = true;
    }

    /// Adds a literal.
    pub(crate) fn add_literal(&mut self, literal: &[u8]) {
        let text = String::from_utf8_lossy(literal);
        self.elements += text.len();
        let chars = text.chars().map(u32::from);
        self.bounds.add(chars.map(|char| (char, char)));
    }

    /// Counts the use of a class whose ranges [`add_class`](Self::add_class) adds.
    pub(crate) fn add_element(&mut self) {
        self.elements += 1;
    }

    /// Adds the ranges of a class.
    pub(crate) fn add_class(&mut self, class: &Class) {
        match class {
            Class::Unicode(class) => {
                let ranges = class.ranges().iter();
                let ranges = ranges.map(|range| (range.start().into(), range.end().into()));
                self.bounds.add(ranges);
            }
            Class::Bytes(class) => {
                let ranges = class.ranges().iter();
                let ranges = ranges.map(|range| (range.start().into(), range.end().into()));
                self.bounds.add(ranges);
            }
        }
    }

    /// Returns true if every subset of the patterns has an alphabet.
    pub(crate) fn is_sure(&self) -> bool {
        let bounds = self.bounds.len();
        // There is at most one code range more than bounds, and at most one class for each element. Twice the pairs leave a
        // margin.
        let memberships = self.elements.saturating_mul(2 * (bounds + 1));
        !self.has_bytes && bounds < MAX_CLASSES && memberships <= MAX_MEMBERSHIPS
    }
}

/// The set of code points at which a range starts, or before which one ends.
#[derive(Debug)]
struct CodeBounds {
    bits: Vec<u64>,
}

impl CodeBounds {
    fn new() -> CodeBounds {
        CodeBounds {
            bits: vec![0; (CHARS_END as usize + 1).div_ceil(64)],
        }
    }

    fn add(&mut self, ranges: impl IntoIterator<Item = (u32, u32)>) {
        for (start, end) in ranges {
            for bound in [start, end + 1] {
                self.bits[bound as usize / 64] |= 1 << (bound % 64);
            }
        }
    }

    fn len(&self) -> usize {
        self.bits
            .iter()
            .map(|bits| bits.count_ones() as usize)
            .sum()
    }
}

/// The patterns distinguish too many classes of characters for one table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooManyClasses;

impl std::error::Error for TooManyClasses {}

impl std::fmt::Display for TooManyClasses {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the patterns distinguish too many classes of characters for one table")
    }
}

/// The map from symbols to columns.
#[derive(Debug)]
pub(crate) struct Alphabet {
    space: SymbolSpace,
    /// The column of each byte. Bytes that need decoding share one, on which no state has a transition: the step leads
    /// to `UNKNOWN`, and the search leaves its loop without a test for non-ASCII bytes.
    bytes: [u8; 256],
    /// A two-stage table of the columns of all code points: the block of each 128 code points, then its columns. Most
    /// of the 8,705 blocks are equal, so the table fits into a few kilobytes.
    blocks: Box<[u16]>,
    columns: Box<[u16]>,
    flags: Box<[SymbolFlags]>,
}

// Small blocks are more often equal, large ones need fewer indices.
const BLOCK_CODES: usize = 128;

impl Alphabet {
    /// Builds the coarsest alphabet over which every class of `classes` is a union of columns. Also returns, by
    /// class, the columns it contains.
    ///
    /// # Errors
    /// The alphabet has more than [`MAX_CLASSES`] columns, or computing which class contains which column takes more than
    /// [`MAX_MEMBERSHIPS`] steps.
    pub(crate) fn new(
        space: SymbolSpace,
        classes: &[Ranges],
        look_needs: LookNeeds,
    ) -> Result<(Alphabet, Vec<ColumnSet>), TooManyClasses> {
        let end = match space {
            SymbolSpace::Chars => CHARS_END,
            SymbolSpace::Bytes => BYTES_END,
        };
        // Flags are sets of code points like classes, so that they split columns in the same way (invariant 2).
        let flag_sets = flag_sets(space, look_needs);
        let code_ranges = split_into_ranges(end, classes, &flag_sets);
        // Refused before the tables are allocated, because rules come from untrusted files.
        let signatures: HashSet<u128> = code_ranges.iter().map(|range| range.signature).collect();
        if signatures.len() > MAX_CLASSES
            || code_ranges.len().saturating_mul(classes.len()) > MAX_MEMBERSHIPS
        {
            return Err(TooManyClasses);
        }
        let (column_of_range, columns, decode_column) = assign_columns(&code_ranges);
        // All that `column` and `columns` make a `Column` of is less than `columns`.
        assert!(columns <= Column::MAX);
        let mut flags = vec![SymbolFlags::default(); columns];
        let mut members = vec![vec![0u64; columns.div_ceil(64)].into_boxed_slice(); classes.len()];
        // A range lies in a class as a whole or not at all, and so does the column of the range (invariant 1).
        for_each_member(&code_ranges, classes, |set, range| {
            let column = column_of_range[range] as usize;
            members[set][column / 64] |= 1 << (column % 64);
        });
        let flag_ranges: Vec<Ranges> = flag_sets.iter().map(|(_, ranges)| ranges.clone()).collect();
        for_each_member(&code_ranges, &flag_ranges, |set, range| {
            flags[column_of_range[range] as usize].0 |= flag_sets[set].0;
        });
        // ASCII is in these tables, too: a decoded character needs no special case.
        let (blocks, table) = build_blocks(&code_ranges, &column_of_range, end);
        let mut alphabet = Alphabet {
            space,
            bytes: [decode_column as u8; 256],
            blocks,
            columns: table,
            flags: flags.into_boxed_slice(),
        };
        // Only ASCII bytes are decided by themselves. All others keep the decoding column.
        for byte in 0..128u8 {
            // Fits into a byte by invariant 3.
            alphabet.bytes[usize::from(byte)] = alphabet.column(u32::from(byte)).0 as u8;
        }
        Ok((alphabet, members))
    }

    /// Returns the number of columns, `STAY` and the decoding column included.
    pub(crate) fn len(&self) -> usize {
        self.flags.len()
    }

    /// Returns the columns in order.
    pub(crate) fn columns(&self) -> impl Iterator<Item = Column> {
        (0..self.len()).map(Column)
    }

    /// Returns the column of each byte, as far as a byte alone decides it.
    #[inline(always)]
    pub(crate) fn bytes(&self) -> &[u8; 256] {
        &self.bytes
    }

    /// Returns the columns of the first [`BLOCK`](super::table::BLOCK) bytes, padded with `STAY`.
    #[inline(always)]
    pub(crate) fn block(&self, bytes: &[u8]) -> [u8; BLOCK] {
        // The common case by far: the loop over a whole block has no branch on the length.
        if let Some(block) = bytes.first_chunk::<BLOCK>() {
            return block.map(|byte| self.bytes[usize::from(byte)]);
        }
        let mut columns = [STAY.0 as u8; BLOCK];
        for (column, &byte) in columns.iter_mut().zip(bytes) {
            *column = self.bytes[usize::from(byte)];
        }
        columns
    }

    pub(crate) fn flags(&self, column: Column) -> SymbolFlags {
        self.flags[column.0]
    }

    /// Calls `on` with the columns of a symbol in order.
    #[inline]
    pub(crate) fn symbol(&self, symbol: Symbol, mut on: impl FnMut(Column, SymbolSpan)) {
        let one = SymbolSpan::whole(1);
        match (self.space, symbol) {
            (_, Symbol::Char(char)) if char.is_ascii() => on(self.column(u32::from(char)), one),
            (SymbolSpace::Chars, Symbol::Char(char)) => {
                on(
                    self.column(u32::from(char)),
                    SymbolSpan::whole(char.len_utf8()),
                );
            }
            (SymbolSpace::Chars, Symbol::Raw(_)) => on(self.column(RAW), one),
            (SymbolSpace::Chars, Symbol::Trailing(_)) => on(self.column(TRAILING), one),
            (SymbolSpace::Bytes, Symbol::Char(char)) => self.char_bytes(char, on),
            (SymbolSpace::Bytes, Symbol::Raw(byte)) => {
                on(self.column(code_in_role(byte, ByteRole::Raw)), one)
            }
            (SymbolSpace::Bytes, Symbol::Trailing(byte)) => {
                on(self.column(code_in_role(byte, ByteRole::Trailing)), one);
            }
        }
    }

    /// Returns the column of a character; `None` if the symbols are bytes.
    #[inline(always)]
    pub(crate) fn char(&self, char: char) -> Option<Column> {
        (self.space == SymbolSpace::Chars).then(|| self.column(u32::from(char)))
    }

    fn char_bytes(&self, char: char, mut on: impl FnMut(Column, SymbolSpan)) {
        let mut buffer = [0; 4];
        let bytes = char.encode_utf8(&mut buffer).as_bytes();
        // Both roles are needed at once: the first byte is a look-ahead, the last byte a look-behind.
        let word = is_word(char);
        // The last byte and the first one are different, because ASCII characters were handled before.
        let last = bytes.len() - 1;
        for (index, &byte) in bytes.iter().enumerate() {
            let role = match (index, word) {
                (0, true) => ByteRole::FirstOfWord,
                (0, false) => ByteRole::FirstOfOther,
                (_, true) if index == last => ByteRole::LastOfWord,
                (_, false) if index == last => ByteRole::LastOfOther,
                _ => ByteRole::Middle,
            };
            let span = SymbolSpan {
                at: 0,
                back: last - index,
                width: 1,
            };
            on(self.column(code_in_role(byte, role)), span);
        }
    }

    #[inline(always)]
    fn column(&self, code: u32) -> Column {
        let block = usize::from(self.blocks[code as usize / BLOCK_CODES]);
        let column = self.columns[block * BLOCK_CODES + code as usize % BLOCK_CODES];
        // At most `Column::MAX`: `new` has asserted that there are no more columns.
        Column(usize::from(column))
    }
}

/// Appends the code points that a byte range matches in [`SymbolSpace::Bytes`]: every role of a non-ASCII byte, because
/// a byte pattern matches it wherever it is.
pub(crate) fn byte_ranges(start: u8, end: u8, out: &mut Ranges) {
    if start < 128 {
        out.push((u32::from(start), u32::from(end.min(127))));
    }
    if end >= 128 {
        for role in BYTE_ROLES {
            out.push((code_in_role(start.max(128), role), code_in_role(end, role)));
        }
    }
}

fn is_word(char: char) -> bool {
    regex_syntax::try_is_word_character(char).expect("the Unicode word tables are compiled in")
}

fn word_ranges() -> Ranges {
    let class = regex_syntax::parse(r"\w").expect("`\\w` is a valid pattern");
    match class.kind() {
        HirKind::Class(Class::Unicode(class)) => class
            .ranges()
            .iter()
            .map(|r| (u32::from(r.start()), u32::from(r.end())))
            .collect(),
        _ => unreachable!("`\\w` is a Unicode class"),
    }
}

/// Returns, for each flag that the patterns ask about, the code points that have it. A flag that no pattern asks about
/// splits no class.
fn flag_sets(space: SymbolSpace, look_needs: LookNeeds) -> Vec<(u8, Ranges)> {
    // Digits, capitals, the underscore and small letters.
    const ASCII_WORD: [(u32, u32); 4] = [(48, 57), (65, 90), (95, 95), (97, 122)];
    let mut classes = Vec::new();
    if look_needs.line || look_needs.crlf {
        classes.push((SymbolFlags::LF, vec![(10, 10)]));
    }
    if look_needs.crlf {
        classes.push((SymbolFlags::CR, vec![(13, 13)]));
    }
    // Apart from the Unicode property, because an ASCII assertion must not see other letters.
    if look_needs.word.ascii {
        classes.push((SymbolFlags::ASCII_WORD, ASCII_WORD.to_vec()));
    }
    // The remaining flags are for Unicode word assertions only. Without them `\w` splits no class.
    if !look_needs.word.unicode {
        return classes;
    }
    let all = |role| (code_in_role(128, role), code_in_role(255, role));
    match space {
        SymbolSpace::Chars => {
            classes.push((
                SymbolFlags::WORD_AHEAD | SymbolFlags::WORD_BEHIND,
                word_ranges(),
            ));
            // `\B` and the half boundaries do not hold next to a byte of no character, so such bytes have flags of
            // their own.
            classes.push((SymbolFlags::INVALID_AHEAD, vec![(RAW, TRAILING)]));
            classes.push((SymbolFlags::INVALID_BEHIND, vec![(RAW, RAW)]));
            classes.push((SymbolFlags::TRAILING, vec![(TRAILING, TRAILING)]));
        }
        SymbolSpace::Bytes => {
            let ascii = ASCII_WORD.to_vec();
            classes.push((SymbolFlags::WORD_AHEAD | SymbolFlags::WORD_BEHIND, ascii));
            classes.push((SymbolFlags::WORD_AHEAD, vec![all(ByteRole::FirstOfWord)]));
            classes.push((SymbolFlags::WORD_BEHIND, vec![all(ByteRole::LastOfWord)]));
            // No character starts at these bytes.
            let no_start = [
                ByteRole::Raw,
                ByteRole::Trailing,
                ByteRole::Middle,
                ByteRole::LastOfOther,
                ByteRole::LastOfWord,
            ];
            classes.push((SymbolFlags::INVALID_AHEAD, no_start.map(all).to_vec()));
            // No character ends at these bytes. A trailing byte is not among them: decoding backwards passes over it.
            let no_end = [
                ByteRole::Raw,
                ByteRole::FirstOfOther,
                ByteRole::FirstOfWord,
                ByteRole::Middle,
            ];
            classes.push((SymbolFlags::INVALID_BEHIND, no_end.map(all).to_vec()));
            classes.push((SymbolFlags::TRAILING, vec![all(ByteRole::Trailing)]));
        }
    }
    classes
}

/// A range of code points that no class splits: its first code point, and the sum of the hashes of the classes that
/// contain it. Ranges with equal signatures have one column.
struct CodeRange {
    start: u32,
    // 128 bits make a collision of different sets of classes practically impossible, so the sets need not be compared.
    // A sum, because entering and leaving a class are then one addition each.
    signature: u128,
}

// A sweep over the bounds of all ranges: at each bound some classes begin or end.
fn split_into_ranges(end: u32, classes: &[Ranges], flag_sets: &[(u8, Ranges)]) -> Vec<CodeRange> {
    let mut changes: Vec<(u32, u128)> = vec![(0, 0)];
    let all = classes
        .iter()
        .chain(flag_sets.iter().map(|(_, ranges)| ranges));
    for (index, ranges) in all.enumerate() {
        // A class is identified by its index, so equal classes would be counted twice; that does not change the
        // partition.
        let hash = hash::wide(index as u64);
        for &(start, last) in ranges {
            changes.push((start, hash));
            changes.push((last + 1, hash.wrapping_neg()));
            // The order of the changes at one code point does not matter, because the sum is the same.
        }
    }
    changes.sort_unstable_by_key(|change| change.0);
    let mut code_ranges: Vec<CodeRange> = Vec::new();
    let mut signature = 0u128;
    for (start, change) in changes {
        signature = signature.wrapping_add(change);
        // Ranges of `SymbolSpace::Chars` may end at the last code point, and the change after it belongs to no range.
        if start >= end {
            break;
        }
        match code_ranges.last_mut() {
            // Several changes at one code point make one range.
            Some(last) if last.start == start => last.signature = signature,
            _ => code_ranges.push(CodeRange { start, signature }),
        }
    }
    code_ranges
}

/// Bytes by falling frequency in text and code, so that the columns of frequent bytes share cache lines of a row.
pub(super) const BY_FREQUENCY: &[u8] = b" etaonirsldcu\nmpfhg_.\",b():y;=v-w/k*'0x>1<,TCSE{}&[]A#2RIN`qjDLPMOzFU!3B45\t8HV6G9W7|\\+?$@YKX%QJZ~^\r";

/// Assigns columns. Returns the column of each range, the number of columns, and the decoding column.
fn assign_columns(code_ranges: &[CodeRange]) -> (Vec<u16>, usize, usize) {
    let mut column_of: HashMap<u128, u16> = HashMap::new();
    let mut next = STAY.0 as u16 + 1;
    let mut assign = |signature: u128, next: &mut u16| {
        column_of.entry(signature).or_insert_with(|| {
            *next += 1;
            *next - 1
        });
    };
    let range_of =
        |code: u32| &code_ranges[code_ranges.partition_point(|range| range.start <= code) - 1];
    // The chain names each byte at least once; bytes of a class that has a column are skipped.
    for byte in BY_FREQUENCY.iter().copied().chain(0..128) {
        assign(range_of(u32::from(byte)).signature, &mut next);
    }
    // After the ASCII columns, because it must fit into a byte, and before the columns that only decoded characters reach.
    let decode_column = next as usize;
    next += 1;
    // Invalid input is rare: its code points are the last, and so are its columns.
    code_ranges
        .iter()
        .for_each(|range| assign(range.signature, &mut next));
    let columns = code_ranges
        .iter()
        .map(|range| column_of[&range.signature])
        .collect();
    (columns, next as usize, decode_column)
}

/// Calls `on` with each pair of a class and a range that it contains.
fn for_each_member(
    code_ranges: &[CodeRange],
    classes: &[Ranges],
    mut on: impl FnMut(usize, usize),
) {
    for (index, ranges) in classes.iter().enumerate() {
        for &(start, last) in ranges {
            // Ranges never cross a bound of a class, so the members are a run of whole ranges.
            // The sweep has split at the start of every range, so one starts exactly there.
            let first = code_ranges.partition_point(|range| range.start < start);
            let members = code_ranges[first..]
                .iter()
                .take_while(|range| range.start <= last)
                .count();
            (first..first + members).for_each(|range| on(index, range));
        }
    }
}

/// Builds the two-stage table: the block of each [`BLOCK_CODES`] code points, and the columns of each distinct block.
fn build_blocks(code_ranges: &[CodeRange], columns: &[u16], end: u32) -> (Box<[u16]>, Box<[u16]>) {
    // Blocks are compared in full: a hash map of arrays, built once for each automaton.
    let mut blocks = Vec::with_capacity(end as usize / BLOCK_CODES + 1);
    let mut table: Vec<u16> = Vec::new();
    let mut block_ids: HashMap<[u16; BLOCK_CODES], u16> = HashMap::new();
    // Most blocks have a single column, the same one as the block before, so they need no lookup.
    let mut latest: Option<(u16, u16)> = None;
    let mut range = 0;
    for start in (0..end).step_by(BLOCK_CODES) {
        let first = columns[range_at(code_ranges, &mut range, start)];
        let is_whole = code_ranges
            .get(range + 1)
            .is_none_or(|next| next.start >= start + BLOCK_CODES as u32);
        match latest {
            Some((column, block)) if is_whole && column == first => blocks.push(block),
            _ => {
                let mut cells = [first; BLOCK_CODES];
                for (offset, cell) in cells.iter_mut().enumerate().skip(1) {
                    *cell = columns[range_at(code_ranges, &mut range, start + offset as u32)];
                }
                let block = *block_ids.entry(cells).or_insert_with(|| {
                    table.extend_from_slice(&cells);
                    (table.len() / BLOCK_CODES - 1) as u16
                });
                latest = is_whole.then_some((first, block));
                blocks.push(block);
            }
        }
    }
    (blocks.into_boxed_slice(), table.into_boxed_slice())
}

/// Advances to the range that contains `code`. Codes must not decrease, so all calls together are linear.
fn range_at(code_ranges: &[CodeRange], range: &mut usize, code: u32) -> usize {
    while code_ranges
        .get(*range + 1)
        .is_some_and(|next| next.start <= code)
    {
        *range += 1;
    }
    *range
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_touch_share_a_bound() {
        let mut bounds = CodeBounds::new();
        bounds.add([(5, 6), (7, 8), (100, 100)]);
        assert_eq!(bounds.len(), [5, 7, 9, 100, 101].len());
        bounds.add([(7, 8), (6, 99)]);
        assert_eq!(bounds.len(), [5, 6, 7, 9, 100, 101].len());
    }
}
