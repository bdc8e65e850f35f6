//! Output: consecutive lines with the same regions are joined to one haystack.

use super::super::chunk::{Chunk, ChunkSink, DecidedOffset, Language, OffsetMap, RegionSet, Tag};
use super::EditCounters;

/// The state of the output.
#[derive(Clone, Debug, Default)]
pub(super) struct EditEmitter {
    /// The tag of the last chunk; `None` after a cut.
    tag: Option<Tag>,
    language: Option<Language>,
    file: String,
    /// True if text was emitted while the file was unknown.
    unnamed: bool,
    /// The offset at which the last chunk ended.
    end: u64,
    /// The regions of the last line, and the newline after it.
    line: RegionSet,
    newline: Option<(OffsetMap, u64)>,
    pub(super) counters: EditCounters,
}

impl EditEmitter {
    /// Sets the file of the text that follows. Text that was emitted without a file does not belong to it, which an
    /// empty name signals.
    pub(super) fn file(&mut self, name: &str, now: u64, sink: &mut impl ChunkSink) {
        if std::mem::take(&mut self.unnamed) {
            sink.set_file("", now);
        }
        self.late_file(name, now, sink);
    }

    /// Sets the file of the text that follows and of the text that was emitted since the file became unknown.
    pub(super) fn late_file(&mut self, name: &str, now: u64, sink: &mut impl ChunkSink) {
        self.unnamed = false;
        if self.file != name {
            name.clone_into(&mut self.file);
            self.language = Language::from_path(name);
            sink.set_file(name, now);
        }
    }

    /// Marks the file of the text that follows as unknown. At the start of a part this is the default.
    pub(super) fn unknown_file(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.has_file() {
            self.late_file("", now, sink);
        }
    }

    /// Returns true if the file of the text that follows is known.
    #[inline]
    pub(super) fn has_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Emits a chunk.
    pub(super) fn emit(&mut self, regions: RegionSet, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        let tag = Tag {
            regions,
            language: self.language,
            ..Tag::default()
        };
        if self.tag != Some(tag) {
            self.tag = Some(tag);
            sink.set_tag(tag, chunk.decided_start(0));
        }
        self.unnamed |= self.file.is_empty();
        self.end = chunk.end(chunk.bytes.len() - 1);
        sink.push(chunk);
    }

    /// Starts a line with these regions and emits its first chunks, certain at `now`.
    pub(super) fn begin_with<'a>(
        &mut self,
        regions: RegionSet,
        chunks: impl Iterator<Item = Chunk<'a>>,
        now: u64,
        sink: &mut impl ChunkSink,
    ) {
        self.begin(regions, now, sink);
        for chunk in chunks {
            self.emit(regions, chunk.decided_no_earlier(now), sink);
        }
    }

    /// Starts a line with these regions. The newline before it has the regions that both lines share.
    pub(super) fn begin(&mut self, regions: RegionSet, now: u64, sink: &mut impl ChunkSink) {
        let both = RegionSet(self.line.0 & regions.0);
        if let Some((offsets, decided)) = self.newline.take()
            && both != RegionSet::default()
        {
            let newline = Chunk {
                bytes: b"\n",
                offsets,
                decided,
            };
            self.emit(both, newline.decided_no_earlier(now), sink);
        }
        self.line = regions;
    }

    /// Ends the line with a newline, or without one at the end of the text.
    #[inline]
    pub(super) fn end(&mut self, newline: Option<(OffsetMap, u64)>) {
        self.newline = newline;
    }

    /// Ends every haystack.
    pub(super) fn cut(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.tag.take().is_some() {
            sink.cut(DecidedOffset {
                offset: self.end,
                decided: now,
            });
        }
        self.newline = None;
    }
}
