//! What a tool call adds to files, removes from them and leaves, for the shapes that agents use: old and new
//! text, whole files, `apply_patch` envelopes, unified diffs, search/replace blocks.
//!
//! Values of the decoded input go in, in the order they arrive; lines tagged [`RegionSet::ADDED`],
//! [`RegionSet::REMOVED`] and [`RegionSet::FILE`] come out, with the name of their file. It knows which keys hold
//! what and which values belong together; it does not know rules, and it looks at no file.
//!
//! - `FILE` is text as it will be, as far as the call shows it: whole files, new text, context, added lines.
//! - `ADDED` lines are in the new text more often than in the old one; the first ones are those that stay.
//! - `REMOVED` lines are in the old text more often than in the new one; the first ones are those that stay.
//!
//! Lines are told apart without the carriage return at their end. Each run of lines with the same tag is one
//! haystack, its lines joined by their `\n`; the newline behind the last is not part of it, nor are markers.
//! In a pair or a hunk what is new comes first, then what is removed, each run for itself.

mod emit;
mod hunk;
mod lines;
mod patch;

use super::chunk::{Chunk, ChunkSink, RegionSet};
use super::json::{ArgPath, RAW};
use super::path::is_path_key;
use emit::EditEmitter;
use hunk::{Hunk, LineKind};
use lines::{LineEvent, LineSplitter};
use patch::PatchReader;

/// How much may wait, and how much is remembered of old text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EditLimits {
    /// Most bytes of old text, and of new text, that wait for each other. Past it what waits is handed on
    /// as removed or added. It is also the longest line that is compared.
    pub(crate) waiting: usize,
    /// Most different lines of an old text that are remembered; others never count as staying.
    pub(crate) lines: usize,
    /// Longest file name kept.
    pub(crate) path_bytes: usize,
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

/// What reached a limit. Nothing counted here was dropped, but for names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EditCounters {
    /// Times that what waited was handed on as added or removed before that was certain.
    pub(crate) released: u64,
    /// Lines too long to be compared.
    pub(crate) long_lines: u64,
    /// Lines of old text that were not remembered.
    pub(crate) forgotten: u64,
    /// File names that were too long; the file is not known then.
    pub(crate) long_paths: u64,
}

/// The view of one part.
#[derive(Clone, Debug)]
pub(crate) struct EditView {
    limits: EditLimits,
    role: ValueRole,
    /// Where the object stands that the value is in.
    group: ObjectPath,
    /// Nothing of the value has come yet.
    is_unread: bool,
    lines: LineSplitter,
    pair: Option<EditPair>,
    hunk: Hunk,
    patch: PatchReader,
    /// Files named so far, outermost object first; only those of objects around the value.
    files: Vec<NamedFile>,
    name: Vec<u8>,
    /// The object whose text was handed on before its file was known.
    unnamed: Option<ObjectPath>,
    out: EditEmitter,
}

/// What a value is for, by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueRole {
    Old,
    New,
    Whole,
    Patch,
    Path,
    None,
}

/// An object of the input: the keys that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ObjectPath {
    /// The keys, one behind the other, and where each ends: a key may hold any character, also a dot.
    keys: String,
    ends: Vec<usize>,
    /// More than the keys where their path was too long to be kept.
    depth: usize,
}

/// Old and new text of one object.
#[derive(Clone, Debug)]
struct EditPair {
    group: ObjectPath,
    old: Side,
    new: Side,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
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
    fn of(key: &str) -> ValueRole {
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

    /// Old and new text may not be in pieces; a whole file or a command may be an array of strings.
    fn from_array_key(key: &str) -> ValueRole {
        match ValueRole::of(key) {
            role @ (ValueRole::Whole | ValueRole::Patch) => role,
            _ => ValueRole::None,
        }
    }
}

impl ObjectPath {
    /// The object that holds the value: the first `depth` segments of its path.
    fn set(&mut self, path: &ArgPath, depth: usize) {
        self.keys.clear();
        self.ends.clear();
        for segment in (0..depth).filter_map(|index| path.segment(index)) {
            self.keys.push_str(segment);
            self.ends.push(self.keys.len());
        }
        self.depth = depth;
    }

    /// Whether it is `outer` or in there.
    fn is_within(&self, outer: &ObjectPath) -> bool {
        self.depth >= outer.depth
            && self.ends.starts_with(&outer.ends)
            && self.keys.starts_with(&outer.keys)
    }
}

impl ObjectPath {
    /// The innermost object that both are in.
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
    pub(crate) fn new(limits: EditLimits) -> EditView {
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

    pub(crate) fn counters(&self) -> EditCounters {
        self.out.counters
    }

    /// A value begins. Nothing is handed on before its first byte, or its end.
    pub(crate) fn open(&mut self, path: &ArgPath) {
        let depth = path.len();
        let last = path.last();
        let is_index = |key: &str| key.bytes().all(|byte| byte.is_ascii_digit());
        let (role, around) = match last {
            Some(index) if depth > 1 && is_index(index) => {
                let key = path.segment(depth - 2).unwrap_or_default();
                (ValueRole::from_array_key(key), depth - 2)
            }
            Some(key) => (ValueRole::of(key), depth - 1),
            None => (ValueRole::None, depth),
        };
        self.role = role;
        self.group.set(path, around);
        self.is_unread = true;
    }

    /// Takes the next bytes of the value.
    ///
    /// # Complexity
    /// Linear. At most [`EditLimits::waiting`] bytes of old text, as many of new text, and a line wait.
    pub(crate) fn push(&mut self, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
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

    /// The value ends.
    pub(crate) fn close(&mut self, end: u64, decided: u64, sink: &mut impl ChunkSink) {
        let now = decided.max(end);
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

    /// The part ends, and its values have ended before: what waits is handed on.
    pub(crate) fn finish(&mut self, end: u64, sink: &mut impl ChunkSink) {
        self.emit_pair(end, sink);
    }

    /// The first byte of a value, or its end, has come: what does not go on with it is over.
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

    /// Whether the value cannot belong to the pair, so that nothing more of that one comes.
    fn ends(&self, pair: &EditPair) -> bool {
        match self.role {
            ValueRole::Old => pair.group != self.group || pair.old != Side::Absent,
            ValueRole::New => pair.group != self.group || pair.new != Side::Absent,
            _ => !self.group.is_within(&pair.group),
        }
    }

    fn begin_side(&mut self, now: u64, sink: &mut impl ChunkSink) {
        let group = &self.group;
        let pair = self.pair.get_or_insert_with(|| EditPair {
            group: group.clone(),
            old: Side::Absent,
            new: Side::Absent,
        });
        if self.role == ValueRole::Old {
            pair.old = Side::Open;
            return;
        }
        pair.new = Side::Open;
        if pair.old == Side::Closed {
            self.hunk.complete_old();
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
        *this = Side::Closed;
        if other == Side::Closed {
            self.emit_pair(now, sink);
        }
    }

    /// No more text of the pair comes.
    fn emit_pair(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if let Some(pair) = self.pair.take() {
            self.set_file(&pair.group, now, sink);
            self.hunk.end(now, &mut self.out, sink);
        }
    }

    /// Says which file the text of that object belongs to, before it is handed on.
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

    fn keep_name(&mut self, bytes: &[u8]) {
        // One byte over the limit is kept, to tell a name that fits from one that does not.
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
