//! The push decoder for tool input. It turns the bytes of a JSON text, cut anywhere, into one haystack for each object
//! key and each value.
//!
//! It implements the grammar, the escapes, the argument path and the offsets. It never fails and drops nothing: input
//! that is not a JSON object, or stops being one, is emitted verbatim as the haystack [`RAW`]. It knows no rule and
//! does not validate: numbers are not parsed, and raw control characters and invalid UTF-8 in strings are passed
//! through.
//!
//! # Buffering
//!
//! 1. Leading blanks are buffered, up to [`LEADING_BLANKS`], until it is known if an object follows.
//! 2. In a string, only an incomplete escape is buffered, at most [`ESCAPE`] bytes. A high surrogate waits for its low
//!    one.
//! 3. A byte that ends an escape without being part of it is stepped again as an ordinary byte of the string.
//!
//! Memory is bounded by the depth, the path and the blanks, whatever the input. Nothing is allocated once the buffers
//! have grown to these bounds.

use std::fmt::Write;
use std::ops::Range;

use memchr::memchr2;

use super::chunk::DecidedOffset;

/// The path of a haystack that is not an argument: the whole input, or the rest of malformed input.
pub const RAW: &str = "$raw";

/// The path of every haystack that is an object key, whatever object contains it.
pub const KEYS: &str = "$keys";

/// The most leading blanks that are buffered until it is known if the input is JSON.
pub const LEADING_BLANKS: usize = 4096;

/// The length of the longest escape, `\ud83d\ude00`, a surrogate pair.
pub const ESCAPE: usize = 12;

/// The consumer of the haystacks of a part. The calls have the form `open (run | escape)* close`, in the order of their
/// offsets. All offsets count bytes of the part as delivered.
pub trait HaystackSink {
    /// True if object keys are haystacks for this sink. If false, no call is made for a key.
    const READS_KEYS: bool = false;

    /// Starts a haystack that is a value or raw; `at` is the offset of its first byte (of a string: the byte after the
    /// quote).
    fn open(&mut self, path: &ArgPath, at: u64);

    /// Starts a haystack that is an object key; `at` is the offset of the byte after its quote. Called only if
    /// [`Self::READS_KEYS`] is true.
    fn open_key(&mut self, _at: u64) {}

    /// Passes bytes that are verbatim in the part: `bytes[i]` at offset `at + i`, certain at once.
    fn run(&mut self, bytes: &[u8], at: u64);

    /// Passes bytes that were buffered and replace the range `source`: one decoded character (1 to 4 bytes of UTF-8), one
    /// byte of an invalid escape, or one leading blank. `decided` is the number of bytes of the part that had been
    /// delivered when this became certain. It exceeds the end of `source` if only a later byte was conclusive, as for a lone
    /// surrogate.
    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64);

    /// Ends the haystack at `end`, which for a string is certain with its closing quote.
    fn close(&mut self, end: DecidedOffset);
}

/// The path of a value: the keys and array indices that lead to it, such as `edits.0.new_text`.
///
/// A path over its limit keeps its leading whole segments, and is marked as truncated.
#[derive(Debug)]
pub struct ArgPath {
    /// The kept segments, joined by dots.
    text: String,
    /// The start of each kept segment in `text`.
    starts: Vec<u32>,
    /// The number of innermost segments that did not fit.
    dropped: usize,
    limit: usize,
    kind: PathKind,
}

/// The kind of haystack that a path names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PathKind {
    /// A value.
    Argument,
    /// An object key: [`KEYS`].
    Key,
    /// Input that is not JSON: [`RAW`].
    Raw,
}

impl Clone for ArgPath {
    fn clone(&self) -> ArgPath {
        ArgPath {
            text: self.text.clone(),
            starts: self.starts.clone(),
            ..*self
        }
    }

    /// Reuses the buffers, because a path is copied for each value of an input.
    #[inline]
    fn clone_from(&mut self, source: &ArgPath) {
        self.text.clone_from(&source.text);
        self.starts.clone_from(&source.starts);
        (self.dropped, self.limit, self.kind) = (source.dropped, source.limit, source.kind);
    }
}

impl ArgPath {
    /// Creates the empty path, with a limit on the bytes of its segments and the dots between them.
    pub fn new(limit: usize) -> ArgPath {
        ArgPath {
            text: String::new(),
            starts: Vec::new(),
            dropped: 0,
            limit: limit.min(u32::MAX as usize),
            kind: PathKind::Argument,
        }
    }

    /// Returns the segments joined by dots. This is ambiguous, because a key can contain a dot.
    #[inline]
    pub fn dotted(&self) -> &str {
        &self.text
    }

    /// Returns the number of kept segments.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Returns a segment, counted from the outermost.
    #[inline]
    pub(crate) fn segment(&self, index: usize) -> Option<&str> {
        let start = *self.starts.get(index)? as usize;
        let end = match self.starts.get(index + 1) {
            Some(&next) => next as usize - 1,
            None => self.text.len(),
        };
        Some(&self.text[start..end])
    }

    /// Returns the kept segments, outermost first.
    #[cfg(test)]
    pub(crate) fn segments(&self) -> impl Iterator<Item = &str> {
        (0..self.len()).filter_map(|index| self.segment(index))
    }

    /// Returns the key or index of the value itself, or `None` if it did not fit.
    #[inline]
    pub fn last(&self) -> Option<&str> {
        if self.is_truncated() {
            None
        } else {
            self.segment(self.len().checked_sub(1)?)
        }
    }

    /// Returns true if inner segments are missing because the path is over its limit.
    #[inline]
    pub(crate) fn is_truncated(&self) -> bool {
        self.dropped > 0
    }

    /// Returns true if this is [`RAW`] and not an argument. A key can also be spelled `$raw`.
    #[inline]
    pub(crate) fn is_raw(&self) -> bool {
        self.kind == PathKind::Raw
    }

    /// Returns true if this is [`KEYS`] and not an argument. A key can also be spelled `$keys`.
    #[inline]
    pub fn is_key(&self) -> bool {
        self.kind == PathKind::Key
    }

    #[inline]
    pub(super) fn push(&mut self, segment: &str) {
        self.push_with(|text| text.push_str(segment));
    }

    #[inline]
    fn push_index(&mut self, index: u32) {
        self.push_with(|text| write!(text, "{index}").expect("a String takes any text"));
    }

    fn push_with(&mut self, append: impl FnOnce(&mut String)) {
        let before = self.text.len();
        if self.dropped == 0 && !self.starts.is_empty() {
            self.text.push('.');
        }
        let start = self.text.len();
        append(&mut self.text);
        if self.dropped > 0 || self.text.len() > self.limit {
            self.text.truncate(before);
            self.dropped += 1;
        } else {
            // The limit keeps offsets within 32 bits.
            self.starts.push(start as u32);
        }
    }

    /// Removes the innermost segment.
    #[inline]
    pub fn pop(&mut self) {
        if self.dropped > 0 {
            self.dropped -= 1;
        } else if let Some(start) = self.starts.pop() {
            // Also removes the dot before it, which the first segment does not have.
            self.text.truncate((start as usize).saturating_sub(1));
        }
    }

    #[inline]
    fn clear(&mut self) {
        self.text.clear();
        self.starts.clear();
        self.dropped = 0;
        self.kind = PathKind::Argument;
    }

    /// Sets the path of the raw haystack, whatever the limit.
    #[inline]
    pub(super) fn set_raw(&mut self) {
        self.set(RAW, PathKind::Raw);
    }

    /// Sets the path of an object key, whatever the limit.
    #[inline]
    pub fn set_key(&mut self) {
        self.set(KEYS, PathKind::Key);
    }

    #[inline]
    fn set(&mut self, name: &str, kind: PathKind) {
        self.clear();
        self.text.push_str(name);
        self.starts.push(0);
        self.kind = kind;
    }
}

/// Counts of irregular input of one part. Nothing counted here was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonCounters {
    /// Inputs that were not a JSON object from the first byte: 0 or 1.
    pub raw: u64,
    /// Invalid escapes, and offsets at which the grammar was violated.
    pub malformed: u64,
    /// Lone surrogates, which are decoded to U+FFFD.
    pub lone_surrogates: u64,
    /// Containers nested deeper than the limit. The input is raw from there.
    pub too_deep: u64,
    /// Values whose path was over its limit.
    pub path_truncated: u64,
}

/// Returns true if no byte ends a string or starts an escape.
#[inline(always)]
pub fn is_text<const LEN: usize>(bytes: &[u8; LEN]) -> bool {
    // Without a branch for each byte, so that this compiles to two vector comparisons.
    let ends = bytes.iter().filter(|&&byte| byte == b'"' || byte == b'\\');
    ends.count() == 0
}

/// The decoder of one part.
#[derive(Clone, Debug)]
pub struct JsonDecoder {
    state: JsonState,
    /// The number of bytes of the part consumed so far.
    offset: u64,
    /// The open containers, outermost first. While a value is open the path has a segment for each.
    frames: Vec<JsonContainer>,
    path: ArgPath,
    /// The current key; in [`JsonState::Start`] the buffered blanks.
    scratch: Vec<u8>,
    /// An incomplete escape.
    held: [u8; ESCAPE],
    held_len: u8,
    depth: usize,
    counters: JsonCounters,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JsonState {
    /// Before the object; blanks are buffered.
    Start,
    /// After more blanks than are buffered: a raw haystack of blanks is open.
    Blanks,
    /// After `{`: a key or `}`.
    FirstKey,
    /// After `,` in an object: a key.
    NextKey,
    /// Inside a key.
    Key,
    Colon,
    Value,
    /// After `[`: a value or `]`.
    FirstElement,
    /// Inside a string that is a value.
    Text,
    Number,
    /// Inside `true`, `false` or `null`, with its remaining bytes.
    Keyword(&'static [u8]),
    /// After a value in a container.
    AfterValue,
    /// After the object: only blanks.
    Done,
    /// Not JSON any more: a raw haystack is open.
    Raw,
}

#[derive(Clone, Copy, Debug)]
enum JsonContainer {
    Object,
    /// An array, with the index of the current element.
    Array(u32),
}

impl JsonDecoder {
    /// Creates a decoder with limits: `depth` open containers, and paths of `path_bytes`.
    pub fn new(depth: usize, path_bytes: usize) -> JsonDecoder {
        JsonDecoder {
            state: JsonState::Start,
            offset: 0,
            frames: Vec::new(),
            path: ArgPath::new(path_bytes),
            scratch: Vec::new(),
            held: [0; ESCAPE],
            held_len: 0,
            depth,
            counters: JsonCounters::default(),
        }
    }

    /// Returns the offset of the first byte that was consumed and not yet emitted.
    #[inline]
    pub fn pending_from(&self) -> Option<u64> {
        match self.state {
            JsonState::Start => (!self.scratch.is_empty()).then_some(0),
            _ => (self.held_len > 0).then(|| self.offset - u64::from(self.held_len)),
        }
    }

    /// Returns the counts of irregular input so far.
    #[inline]
    pub fn counters(&self) -> JsonCounters {
        self.counters
    }

    /// Consumes the next bytes of the part. The sink receives the same bytes with the same offsets however the part
    /// is cut; only its runs are cut with the part.
    ///
    /// # Complexity
    /// Linear, without backtracking. At most [`ESCAPE`] bytes of a string are buffered.
    pub fn push(&mut self, bytes: &[u8], sink: &mut impl HaystackSink) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            // Some steps consume nothing and change the state, at most three in a row: from a scalar to the state after
            // it, and from there to raw.
            let used = match self.state {
                JsonState::Text => self.text(rest, sink),
                JsonState::Raw => self.raw(rest, sink),
                JsonState::Key => self.key(rest, sink),
                JsonState::Number => self.number(rest, sink),
                JsonState::Keyword(left) => self.keyword(left, rest, sink),
                JsonState::Start => self.start(rest, sink),
                JsonState::Blanks => self.blanks(rest, sink),
                _ => self.structure(byte, sink),
            };
            self.offset += used as u64;
            rest = &rest[used..];
        }
    }

    /// Returns true if the next bytes belong to a string that is a value, and no escape is incomplete.
    #[inline]
    pub fn is_in_text(&self) -> bool {
        self.state == JsonState::Text && self.held_len == 0
    }

    /// Skips `len` bytes of that string that were read outside the decoder, all of which [are text](is_text).
    #[inline]
    pub fn passed_text(&mut self, len: usize) {
        debug_assert!(self.is_in_text());
        self.offset += len as u64;
    }

    /// Ends the part: emits the buffers and closes the open haystack.
    pub fn finish(&mut self, sink: &mut impl HaystackSink) {
        let end = self.offset;
        match self.state {
            JsonState::Start if !self.scratch.is_empty() => {
                self.counters.raw += 1;
                self.release_blanks(end, sink);
                sink.close(DecidedOffset::at_once(end));
            }
            JsonState::Text => {
                self.release_escape(end, sink);
                sink.close(DecidedOffset::at_once(end));
            }
            JsonState::Key => {
                let mut key = KeyText {
                    bytes: Vec::new(),
                    room: 0,
                    sink,
                };
                self.release_escape(end, &mut key);
                key.close(DecidedOffset::at_once(end));
            }
            JsonState::Blanks => {
                self.counters.raw += 1;
                sink.close(DecidedOffset::at_once(end));
            }
            JsonState::Number | JsonState::Keyword(_) | JsonState::Raw => {
                sink.close(DecidedOffset::at_once(end))
            }
            _ => {}
        }
        self.state = JsonState::Done;
    }

    fn raw(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        sink.run(rest, self.offset);
        rest.len()
    }

    fn start(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        if rest[0] == b'{' {
            self.scratch.clear();
            return self.enter(JsonContainer::Object, sink);
        }
        let room = LEADING_BLANKS - self.scratch.len();
        let blanks = rest
            .iter()
            .take(room)
            .take_while(|&&byte| is_blank(byte))
            .count();
        self.scratch.extend_from_slice(&rest[..blanks]);
        if blanks == 0 {
            // With a full buffer it is still undecided if an object follows, so that no number of blanks keeps an
            // argument from being decoded.
            let more = is_blank(rest[0]);
            self.counters.raw += u64::from(!more);
            self.release_blanks(self.offset + 1, sink);
            self.state = if more {
                JsonState::Blanks
            } else {
                JsonState::Raw
            };
        }
        blanks
    }

    fn blanks(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        let blanks = rest.iter().take_while(|&&byte| is_blank(byte)).count();
        if blanks > 0 {
            sink.run(&rest[..blanks], self.offset);
        } else if rest[0] == b'{' {
            sink.close(closed_by_next(self.offset));
            self.path.clear();
            return self.enter(JsonContainer::Object, sink);
        } else {
            self.counters.raw += 1;
            self.state = JsonState::Raw;
        }
        blanks
    }

    fn structure<S: HaystackSink>(&mut self, byte: u8, sink: &mut S) -> usize {
        if is_blank(byte) {
            return 1;
        }
        match (self.state, byte) {
            (JsonState::FirstKey | JsonState::NextKey, b'"') => {
                self.scratch.clear();
                self.state = JsonState::Key;
                if S::READS_KEYS {
                    sink.open_key(self.offset + 1);
                }
            }
            (JsonState::Colon, b':') => self.state = JsonState::Value,
            (JsonState::FirstKey, b'}') => self.leave(),
            (JsonState::FirstElement, b']') | (JsonState::AfterValue, b',' | b'}' | b']') => {
                return self.after(byte, sink);
            }
            (JsonState::FirstElement | JsonState::Value, _) => return self.value(byte, sink),
            _ => return self.enter_raw(self.offset, sink),
        }
        1
    }

    fn after(&mut self, byte: u8, sink: &mut impl HaystackSink) -> usize {
        match (self.frames.last_mut(), byte) {
            (Some(JsonContainer::Object), b',') => {
                self.path.pop();
                self.state = JsonState::NextKey;
            }
            (Some(JsonContainer::Array(index)), b',') => {
                *index = index.saturating_add(1);
                self.path.pop();
                self.path.push_index(*index);
                self.state = JsonState::Value;
            }
            (Some(JsonContainer::Object), b'}') | (Some(JsonContainer::Array(_)), b']') => {
                self.path.pop();
                self.leave();
            }
            _ => return self.enter_raw(self.offset, sink),
        }
        1
    }

    fn value(&mut self, byte: u8, sink: &mut impl HaystackSink) -> usize {
        let scalar = match byte {
            b'"' => {
                self.open(self.offset + 1, sink);
                self.state = JsonState::Text;
                return 1;
            }
            b'{' => return self.enter(JsonContainer::Object, sink),
            b'[' => return self.enter(JsonContainer::Array(0), sink),
            b'-' | b'0'..=b'9' => JsonState::Number,
            b't' => JsonState::Keyword(b"true"),
            b'f' => JsonState::Keyword(b"false"),
            b'n' => JsonState::Keyword(b"null"),
            _ => return self.enter_raw(self.offset, sink),
        };
        self.open(self.offset, sink);
        self.state = scalar;
        0
    }

    fn enter(&mut self, frame: JsonContainer, sink: &mut impl HaystackSink) -> usize {
        if self.frames.len() >= self.depth {
            self.counters.too_deep += 1;
            self.open_raw(self.offset, sink);
            return 0;
        }
        self.state = match frame {
            JsonContainer::Object => JsonState::FirstKey,
            JsonContainer::Array(index) => {
                self.path.push_index(index);
                JsonState::FirstElement
            }
        };
        self.frames.push(frame);
        1
    }

    #[inline]
    fn leave(&mut self) {
        self.frames.pop();
        self.state = if self.frames.is_empty() {
            JsonState::Done
        } else {
            JsonState::AfterValue
        };
    }

    /// Reads a number verbatim. The grammar is lenient (`01`, `1.2.3`), because the digits are better searched
    /// together than split.
    fn number(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        let is_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E');
        let digits = rest.iter().take_while(|byte| is_number(byte)).count();
        let end = self.offset + digits as u64;
        if digits > 0 {
            sink.run(&rest[..digits], self.offset);
        }
        if digits < rest.len() {
            sink.close(closed_by_next(end));
            self.state = JsonState::AfterValue;
        }
        digits
    }

    fn keyword(&mut self, left: &'static [u8], rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        let same = left.iter().zip(rest).take_while(|(a, b)| a == b).count();
        let end = self.offset + same as u64;
        if same > 0 {
            sink.run(&rest[..same], self.offset);
        }
        self.state = JsonState::Keyword(&left[same..]);
        if same == left.len() {
            sink.close(DecidedOffset::at_once(end));
            self.state = JsonState::AfterValue;
        } else if same < rest.len() {
            sink.close(closed_by_next(end));
            self.enter_raw(end, sink);
        }
        same
    }

    fn text(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        let (used, closed) = self.string(rest, sink);
        if !closed {
            return used;
        }
        let end = self.offset + used as u64;
        sink.close(closed_by_next(end));
        self.state = JsonState::AfterValue;
        used + 1
    }

    fn key(&mut self, rest: &[u8], sink: &mut impl HaystackSink) -> usize {
        // One byte over the limit is kept, so that a key that is too long is recognized.
        let mut key = KeyText {
            bytes: std::mem::take(&mut self.scratch),
            room: self.path.limit.saturating_add(1),
            sink,
        };
        let (used, closed) = self.string(rest, &mut key);
        if closed {
            let end = self.offset + used as u64;
            key.close(closed_by_next(end));
        }
        self.scratch = key.bytes;
        if !closed {
            return used;
        }
        self.path.push(&String::from_utf8_lossy(&self.scratch));
        self.state = JsonState::Colon;
        used + 1
    }

    /// Reads on in a string. Returns the number of bytes of `rest` that belong to it, and true if the closing quote
    /// follows them.
    fn string<S: HaystackSink>(&mut self, rest: &[u8], sink: &mut S) -> (usize, bool) {
        let mut i = 0;
        while i < rest.len() {
            let at = self.offset + i as u64;
            if self.held_len > 0 {
                i += usize::from(self.escaped(rest[i], at, sink));
                continue;
            }
            let plain = memchr2(b'"', b'\\', &rest[i..]).unwrap_or(rest.len() - i);
            if plain > 0 {
                sink.run(&rest[i..i + plain], at);
                i += plain;
            } else if rest[i] == b'"' {
                return (i, true);
            } else if let Some(byte) = rest.get(i + 1).and_then(|&name| short_escape(name)) {
                sink.escape(&[byte], at..at + 2, at + 2);
                i += 2;
            } else {
                self.hold(b'\\');
                i += 1;
            }
        }
        (i, false)
    }

    /// Steps a byte after the start of an escape. Returns false if it was not consumed; no escape is then incomplete,
    /// and it is an ordinary byte of the string.
    fn escaped(&mut self, byte: u8, at: u64, sink: &mut impl HaystackSink) -> bool {
        let place = usize::from(self.held_len) % (ESCAPE / 2);
        if self.holds_high_surrogate() && !fits_low(place, byte) {
            self.release_high_surrogate(closed_by_next(at), sink);
        }
        // Only the high surrogate was buffered, and this byte does not begin a low one.
        if self.held_len == 0 {
            return false;
        }
        if let (1, Some(decoded)) = (place, short_escape(byte)) {
            self.held_len = 0;
            sink.escape(&[decoded], at - 1..at + 1, at + 1);
            return true;
        }
        let fits = match place {
            // The backslash of a low surrogate: any other byte has released the high one.
            0 => true,
            1 => byte == b'u',
            _ => byte.is_ascii_hexdigit(),
        };
        if !fits {
            self.release_escape_bytes(closed_by_next(at), sink);
            return false;
        }
        self.hold(byte);
        if place == 5 {
            self.end_unit(at + 1, sink);
        }
        true
    }

    /// Decodes four hex digits, the last of which ends at `end`.
    fn end_unit(&mut self, end: u64, sink: &mut impl HaystackSink) {
        let half = (ESCAPE / 2) as u64;
        let last = hex(&self.held[usize::from(self.held_len) - 4..usize::from(self.held_len)]);
        let (start, scalar) = if usize::from(self.held_len) == ESCAPE {
            let high = hex(&self.held[2..6]);
            (
                end - 2 * half,
                0x1_0000 + ((high - 0xD800) << 10) + (last - 0xDC00),
            )
        } else if (0xD800..0xDC00).contains(&last) {
            // It waits: with the low surrogate of the next escape it is one character (RFC 8259, section 7).
            return;
        } else {
            (end - half, last)
        };
        self.held_len = 0;
        // A scalar that is not valid is a low surrogate without a high one.
        self.counters.lone_surrogates += u64::from(char::from_u32(scalar).is_none());
        let decoded = char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER);
        sink.escape(decoded.encode_utf8(&mut [0; 4]).as_bytes(), start..end, end);
    }

    #[inline]
    fn hold(&mut self, byte: u8) {
        self.held[usize::from(self.held_len)] = byte;
        self.held_len += 1;
    }

    /// Returns true if a high surrogate is buffered. No other complete escape ever is.
    #[inline]
    fn holds_high_surrogate(&self) -> bool {
        usize::from(self.held_len) >= ESCAPE / 2
    }

    /// Emits the buffered high surrogate as U+FFFD; `at` is the end of the buffered bytes.
    fn release_high_surrogate(&mut self, at: DecidedOffset, sink: &mut impl HaystackSink) {
        // The bytes after it may be an escape of their own, so they stay buffered.
        let half = ESCAPE / 2;
        let start = at.offset - u64::from(self.held_len);
        self.counters.lone_surrogates += 1;
        self.held.copy_within(half.., 0);
        self.held_len -= half as u8;
        let mut utf8 = [0; 4];
        let replacement = char::REPLACEMENT_CHARACTER.encode_utf8(&mut utf8);
        sink.escape(
            replacement.as_bytes(),
            start..start + half as u64,
            at.decided,
        );
    }

    /// Emits the bytes of an invalid escape; `at` is their end.
    fn release_escape_bytes(&mut self, at: DecidedOffset, sink: &mut impl HaystackSink) {
        self.counters.malformed += 1;
        let held = &self.held[..usize::from(self.held_len)];
        release(held, at.offset - held.len() as u64, at.decided, sink);
        self.held_len = 0;
    }

    /// Emits an incomplete escape at the end of the part.
    fn release_escape(&mut self, end: u64, sink: &mut impl HaystackSink) {
        let end = DecidedOffset::at_once(end);
        if self.holds_high_surrogate() {
            self.release_high_surrogate(end, sink);
        }
        if self.held_len > 0 {
            self.release_escape_bytes(end, sink);
        }
    }

    /// Emits the leading blanks as the start of a raw haystack: no object follows, or they exceed the buffer.
    fn release_blanks(&mut self, decided: u64, sink: &mut impl HaystackSink) {
        let start = self.offset - self.scratch.len() as u64;
        self.open_raw(start, sink);
        release(&self.scratch, start, decided, sink);
        self.scratch.clear();
    }

    fn open(&mut self, at: u64, sink: &mut impl HaystackSink) {
        self.counters.path_truncated += u64::from(self.path.is_truncated());
        sink.open(&self.path, at);
    }

    fn open_raw(&mut self, at: u64, sink: &mut impl HaystackSink) {
        self.path.set_raw();
        sink.open(&self.path, at);
        self.state = JsonState::Raw;
    }

    /// Handles a violation of the grammar at `at`: the input is raw from there.
    fn enter_raw(&mut self, at: u64, sink: &mut impl HaystackSink) -> usize {
        self.counters.malformed += 1;
        self.open_raw(at, sink);
        0
    }
}

/// Keeps the start of a decoded key, and passes the whole key to a sink that reads keys.
struct KeyText<'s, S> {
    bytes: Vec<u8>,
    room: usize,
    sink: &'s mut S,
}

impl<S> KeyText<'_, S> {
    #[inline]
    fn keep(&mut self, bytes: &[u8]) {
        let room = self.room.saturating_sub(self.bytes.len());
        self.bytes
            .extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

impl<S: HaystackSink> HaystackSink for KeyText<'_, S> {
    fn open(&mut self, _: &ArgPath, _: u64) {}

    #[inline]
    fn run(&mut self, bytes: &[u8], at: u64) {
        self.keep(bytes);
        if S::READS_KEYS {
            self.sink.run(bytes, at);
        }
    }

    #[inline]
    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        self.keep(utf8);
        if S::READS_KEYS {
            self.sink.escape(utf8, source, decided);
        }
    }

    #[inline]
    fn close(&mut self, end: DecidedOffset) {
        if S::READS_KEYS {
            self.sink.close(end);
        }
    }
}

/// Returns an end that the byte after it makes certain.
#[inline]
fn closed_by_next(offset: u64) -> DecidedOffset {
    DecidedOffset {
        offset,
        decided: offset + 1,
    }
}

/// Emits buffered bytes one by one, each at its own offset.
fn release(held: &[u8], start: u64, decided: u64, sink: &mut impl HaystackSink) {
    for (byte, at) in held.iter().zip(start..) {
        sink.escape(std::slice::from_ref(byte), at..at + 1, decided);
    }
}

#[inline]
fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns the character of a two-byte escape, by its second byte.
#[inline]
fn short_escape(name: u8) -> Option<u8> {
    match name {
        b'"' | b'\\' | b'/' => Some(name),
        b'n' => Some(b'\n'),
        b't' => Some(b'\t'),
        b'r' => Some(b'\r'),
        b'b' => Some(0x08),
        b'f' => Some(0x0C),
        _ => None,
    }
}

/// Returns true if `byte` can be at this index of an escape that is a low surrogate.
#[inline]
fn fits_low(place: usize, byte: u8) -> bool {
    match place {
        0 => byte == b'\\',
        1 => byte == b'u',
        2 => matches!(byte, b'd' | b'D'),
        3 => matches!(byte, b'c'..=b'f' | b'C'..=b'F'),
        _ => byte.is_ascii_hexdigit(),
    }
}

#[inline]
fn hex(digits: &[u8]) -> u32 {
    let digit = |&byte: &u8| {
        (byte as char)
            .to_digit(16)
            .expect("only hex digits are held here")
    };
    digits
        .iter()
        .map(digit)
        .fold(0, |end_unit, digit| end_unit << 4 | digit)
}

#[cfg(test)]
mod tests;
