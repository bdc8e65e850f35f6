//! The lines that a tool call adds to files, removes from them and keeps, in the formats that agents use: old and new
//! text, whole files, `apply_patch` envelopes, unified diffs and search/replace blocks.
//!
//! Input is the values of the decoded arguments, in the order of arrival. Output is lines tagged [`RegionSet::ADDED`],
//! [`RegionSet::REMOVED`] and [`RegionSet::FILE`], with the name of their file. The view knows which keys hold which
//! text and which values belong together. It knows no rule and reads no file.
//!
//! - `FILE`: the file after the edit, as far as the call shows it: whole files, new text, context and added lines.
//! - `ADDED`: lines that occur more often in the new text than in the old text. The first occurrences are kept lines.
//! - `REMOVED`: lines that occur more often in the old text than in the new text. The first occurrences are kept lines.
//!
//! Lines are compared without a trailing carriage return. Each run of lines with the same tag is one haystack, joined
//! by their `\n`; the newline after its last line and the markers of a diff are left out. In a pair or a hunk the new
//! text is emitted first, then the removed lines; each forms its own runs.
//!
//! # Buffering
//!
//! 1. Old text is buffered until its new text is complete, because a line that recurs there is not removed.
//! 2. New text is buffered until its old text is complete. If the old text came first, each new line is emitted at its
//!    newline.
//! 3. A line is buffered until its newline, unless its tag does not depend on its content (whole files, new files).
//! 4. Beyond [`EditLimits::waiting`] the buffered lines are emitted as added or removed, undecided, and counted.

mod emit;
mod hunk;
mod lines;
mod patch;

use super::chunk::{Chunk, ChunkSink, DecidedOffset, RegionSet};
use super::json::{ArgPath, RAW};
use super::path::is_path_key;
use emit::EditEmitter;
use hunk::{Hunk, LineKind};
use lines::{LineEvent, LineSplitter};
use patch::PatchReader;

/// The limits on buffered text and on remembered lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EditLimits {
    /// The most bytes of old text, and of new text, that are buffered. Beyond it the buffered text is emitted as
    /// removed or added. It is also the longest line that is compared.
    pub waiting: usize,
    /// The most distinct lines of an old text that are remembered. Any other line never counts as kept.
    pub lines: usize,
    /// The longest file name that is kept, in bytes.
    pub path_bytes: usize,
}

impl Default for EditLimits {
    fn default() -> EditLimits {
        EditLimits {
            waiting: 64 << 10,
            lines: 16 << 10,
            path_bytes: 4096,
        }
    }
}

/// Counts of the limits that were reached. Except for file names, nothing counted here was dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EditCounters {
    /// The number of times that buffered lines were emitted as added or removed before that was certain.
    pub released: u64,
    /// The number of lines that were too long to be compared.
    pub long_lines: u64,
    /// The number of lines of old text that were not remembered.
    pub forgotten: u64,
    /// The number of file names that were too long. The file is then unknown.
    pub long_paths: u64,
}

/// The edit view of one part.
#[derive(Clone, Debug)]
pub struct EditView {
    limits: EditLimits,
    role: ValueRole,
    /// The object that holds the value.
    group: ObjectPath,
    /// True if no byte of the value has arrived.
    is_unread: bool,
    lines: LineSplitter,
    pair: Option<EditPair>,
    hunk: Hunk,
    patch: PatchReader,
    /// The files named so far, outermost object first; only those of objects that enclose the value.
    files: Vec<NamedFile>,
    name: Vec<u8>,
    /// The object whose text was emitted before its file was known.
    unnamed: Option<ObjectPath>,
    out: EditEmitter,
}

/// The role of a value, from its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueRole {
    Old,
    New,
    Whole,
    Patch,
    Path,
    None,
}

/// The path of an object of the input: the keys that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObjectPath {
    /// The concatenated keys, and the end of each. A key can contain any character, so no separator is used.
    keys: String,
    ends: Vec<usize>,
    /// The depth of the object. It exceeds the number of keys if the path was truncated.
    depth: usize,
}

/// The old and the new text of one object.
#[derive(Clone, Debug)]
struct EditPair {
    group: ObjectPath,
    old: SideState,
    new: SideState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SideState {
    Absent,
    Open,
    Closed,
}

#[derive(Clone, Debug)]
struct NamedFile {
    group: ObjectPath,
    file: String,
}

const OLD: [&str; 19] = [
    "old_string",
    "oldString",
    "old_str",
    "oldStr",
    "old_text",
    "oldText",
    "old_content",
    "oldContent",
    "old_code",
    "old_source",
    "old",
    "search",
    "search_text",
    "find",
    "original",
    "original_text",
    "originalText",
    "target_content",
    "TargetContent",
];
const NEW: [&str; 20] = [
    "new_string",
    "newString",
    "new_str",
    "newStr",
    "new_text",
    "newText",
    "new_content",
    "newContent",
    "new_code",
    "new",
    "replace",
    "replace_text",
    "replacement",
    "replacement_text",
    "replacementText",
    "replacement_content",
    "ReplacementContent",
    "updated",
    "updated_text",
    "updatedText",
];
const WHOLE: [&str; 12] = [
    "content",
    "contents",
    "file_text",
    "fileText",
    "file_content",
    "fileContent",
    "file_contents",
    "fileContents",
    "new_source",
    "insert_text",
    "code_edit",
    "CodeContent",
];
const PATCH: [&str; 9] = [
    "input",
    "patch",
    "patch_text",
    "patchText",
    "diff",
    "command",
    "cmd",
    "script",
    RAW,
];

impl ValueRole {
    fn from_key(key: &str) -> ValueRole {
        let roles = [
            (&OLD[..], ValueRole::Old),
            (&NEW, ValueRole::New),
            (&WHOLE, ValueRole::Whole),
            (&PATCH, ValueRole::Patch),
        ];
        match roles.iter().find(|(keys, _)| keys.contains(&key)) {
            Some(&(_, role)) => role,
            None if is_path_key(key) => ValueRole::Path,
            None => ValueRole::None,
        }
    }

    /// Returns the role of an element of an array: a whole file or a command can be an array of strings, old and new
    /// text cannot.
    #[inline]
    fn from_array_key(key: &str) -> ValueRole {
        match ValueRole::from_key(key) {
            role @ (ValueRole::Whole | ValueRole::Patch) => role,
            _ => ValueRole::None,
        }
    }
}

impl ObjectPath {
    /// Sets the path to the first `depth` segments of the path of a value.
    fn set(&mut self, path: &ArgPath, depth: usize) {
        self.keys.clear();
        self.ends.clear();
        for segment in (0..depth).filter_map(|index| path.segment(index)) {
            self.keys.push_str(segment);
            self.ends.push(self.keys.len());
        }
        self.depth = depth;
    }

    /// Returns true if this is `outer` or an object inside it.
    #[inline]
    fn is_within(&self, outer: &ObjectPath) -> bool {
        self.depth >= outer.depth
            && self.ends.starts_with(&outer.ends)
            && self.keys.starts_with(&outer.keys)
    }
}

impl ObjectPath {
    /// Returns the innermost object that encloses both.
    #[inline]
    fn around(mut self, other: &ObjectPath) -> ObjectPath {
        while !other.is_within(&self) {
            self.depth -= 1;
            self.ends.truncate(self.depth);
            self.keys.truncate(self.ends.last().copied().unwrap_or(0));
        }
        self
    }
}

impl EditView {
    /// Creates a view of one part.
    pub fn new(limits: EditLimits) -> EditView {
        EditView {
            limits,
            role: ValueRole::None,
            group: ObjectPath::default(),
            is_unread: false,
            lines: LineSplitter::new(limits.waiting),
            pair: None,
            hunk: Hunk::new(limits),
            patch: PatchReader::new(limits),
            files: Vec::new(),
            name: Vec::new(),
            unnamed: None,
            out: EditEmitter::default(),
        }
    }

    /// Returns the counts of the limits that were reached so far.
    #[inline]
    pub fn counters(&self) -> EditCounters {
        self.out.counters
    }

    /// Starts a value. Nothing is emitted before its first byte or its end.
    pub fn open(&mut self, path: &ArgPath) {
        let depth = path.len();
        let last = path.last();
        let is_index = |key: &str| key.bytes().all(|byte| byte.is_ascii_digit());
        let (role, around) = match last {
            Some(index) if depth > 1 && is_index(index) => {
                let key = path.segment(depth - 2).unwrap_or_default();
                (ValueRole::from_array_key(key), depth - 2)
            }
            Some(key) => (ValueRole::from_key(key), depth - 1),
            None => (ValueRole::None, depth),
        };
        self.role = role;
        self.group.set(path, around);
        self.is_unread = true;
    }

    /// Consumes the next bytes of the value.
    ///
    /// # Complexity
    /// Linear. At most [`EditLimits::waiting`] bytes of old text, as many of new text, and one line are buffered.
    pub fn push(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        self.begin_value(chunk.decided(0), sink);
        match self.role {
            ValueRole::Old | ValueRole::New => self.text(chunk, sink),
            ValueRole::Whole => self
                .out
                .emit(RegionSet::FILE | RegionSet::ADDED, chunk, sink),
            ValueRole::Patch => self.patch.push(chunk, &mut self.out, sink),
            ValueRole::Path => self.keep_name(chunk.bytes),
            ValueRole::None => {}
        }
    }

    /// Ends the value.
    pub fn close(&mut self, end: DecidedOffset, sink: &mut impl ChunkSink) {
        let now = end.decided();
        self.begin_value(now, sink);
        match self.role {
            ValueRole::Old | ValueRole::New => self.end_text(now, sink),
            ValueRole::Whole => self.out.cut(now, sink),
            ValueRole::Patch => self.patch.end(now, &mut self.out, sink),
            ValueRole::Path => self.end_name(now, sink),
            ValueRole::None => {}
        }
        self.role = ValueRole::None;
    }

    /// Ends the part, after all its values, and emits the buffered lines.
    pub fn finish(&mut self, end: u64, sink: &mut impl ChunkSink) {
        self.emit_pair(end, sink);
    }

    /// Ends the pair and the files that the value does not belong to, at the first byte or the end of the value.
    fn begin_value(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if !std::mem::take(&mut self.is_unread) {
            return;
        }
        if self.pair.as_ref().is_some_and(|pair| self.ends(pair)) {
            self.emit_pair(now, sink);
        }
        let group = &self.group;
        self.files.retain(|named| group.is_within(&named.group));
        match self.role {
            ValueRole::Old | ValueRole::New => self.begin_side(now, sink),
            ValueRole::Whole | ValueRole::Patch => {
                self.out.cut(now, sink);
                let group = self.group.clone();
                self.set_file(&group, now, sink);
            }
            ValueRole::Path => self.name.clear(),
            ValueRole::None => {}
        }
    }

    /// Returns true if the value does not belong to the pair, so that the pair is complete.
    #[inline]
    fn ends(&self, pair: &EditPair) -> bool {
        match self.role {
            ValueRole::Old => pair.group != self.group || pair.old != SideState::Absent,
            ValueRole::New => pair.group != self.group || pair.new != SideState::Absent,
            _ => !self.group.is_within(&pair.group),
        }
    }

    fn begin_side(&mut self, now: u64, sink: &mut impl ChunkSink) {
        let group = &self.group;
        let pair = self.pair.get_or_insert_with(|| EditPair {
            group: group.clone(),
            old: SideState::Absent,
            new: SideState::Absent,
        });
        if self.role == ValueRole::Old {
            pair.old = SideState::Open;
            return;
        }
        pair.new = SideState::Open;
        if pair.old == SideState::Closed {
            self.hunk.complete_removed();
        }
        let group = self.group.clone();
        self.set_file(&group, now, sink);
    }

    fn text(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        let kind = self.kind();
        let mut rest = chunk;
        while let Some(event) = self.lines.next(&mut rest) {
            let (hunk, out) = (&mut self.hunk, &mut self.out);
            match event {
                LineEvent::End(newline) => {
                    let now = newline.decided(0);
                    let line = self.lines.line(0, Some(newline));
                    hunk.line(kind, line, now, out, sink);
                    self.lines.clear();
                }
                LineEvent::Long(now) => {
                    let line = self.lines.line(0, None);
                    hunk.long(kind, line, now, out, sink);
                    self.lines.release();
                }
                LineEvent::More(chunk) => hunk.more(kind, chunk, out, sink),
            }
        }
    }

    #[inline]
    fn kind(&self) -> LineKind {
        if self.role == ValueRole::Old {
            LineKind::Removed
        } else {
            LineKind::Added
        }
    }

    fn end_text(&mut self, now: u64, sink: &mut impl ChunkSink) {
        let kind = self.kind();
        if self.lines.begun() {
            let line = self.lines.line(0, None);
            let (hunk, out) = (&mut self.hunk, &mut self.out);
            hunk.line(kind, line, now, out, sink);
        }
        self.lines.restart();
        let pair = self.pair.as_mut().expect("a side was begun when it came");
        let (this, other) = match kind {
            LineKind::Removed => (&mut pair.old, pair.new),
            _ => (&mut pair.new, pair.old),
        };
        *this = SideState::Closed;
        if other == SideState::Closed {
            self.emit_pair(now, sink);
        }
    }

    /// Emits the pair, which is complete.
    fn emit_pair(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if let Some(pair) = self.pair.take() {
            self.set_file(&pair.group, now, sink);
            self.hunk.end(now, &mut self.out, sink);
        }
    }

    /// Sets the file of an object's text, before the text is emitted.
    fn set_file(&mut self, group: &ObjectPath, now: u64, sink: &mut impl ChunkSink) {
        let around = |named: &&NamedFile| group.is_within(&named.group);
        let Some(named) = self.files.iter().rfind(around) else {
            let before = self.unnamed.take().filter(|_| !self.out.has_file());
            self.out.unknown_file(now, sink);
            self.unnamed =
                Some(before.map_or_else(|| group.clone(), |before| before.around(group)));
            return;
        };
        self.unnamed = None;
        self.out.file(&named.file, now, sink);
    }

    #[inline]
    fn keep_name(&mut self, bytes: &[u8]) {
        // One byte over the limit is kept, so that a name that is too long is recognized.
        let room = (self.limits.path_bytes + 1).saturating_sub(self.name.len());
        self.name.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_name(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.name.len() > self.limits.path_bytes {
            self.out.counters.long_paths += 1;
            return;
        }
        let group = self.group.clone();
        let file = String::from_utf8_lossy(&self.name).into_owned();
        let names = |unnamed: &ObjectPath| unnamed.is_within(&group);
        if !self.out.has_file() && self.unnamed.as_ref().is_some_and(names) {
            self.unnamed = None;
            self.out.late_file(&file, now, sink);
        }
        self.files.retain(|named| named.group != group);
        self.files.push(NamedFile { group, file });
    }
}

#[cfg(test)]
mod tests;
