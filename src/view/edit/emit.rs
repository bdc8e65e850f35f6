//! The way out of the view: lines become haystacks, joined where they lie next to each other.

use super::super::chunk::{Chunk, ChunkSink, Language, OffsetMap, RegionSet, Tag};
use super::EditCounters;

/// What was handed on last.
#[derive(Clone, Debug, Default)]
pub(super) struct EditEmitter {
    /// Of the last piece; none behind a cut.
    tag: Option<Tag>,
    language: Option<Language>,
    file: String,
    /// Something was handed on while the file was not known.
    unnamed: bool,
    /// Where the last piece ended.
    end: u64,
    /// The regions of the last line, and the newline behind it.
    line: RegionSet,
    newline: Option<(OffsetMap, u64)>,
    pub(super) counters: EditCounters,
}

impl EditEmitter {
    /// The file of what follows. It is not the file of what was handed on before without one, which an empty
    /// name says.
    pub(super) fn file(&mut self, name: &str, now: u64, sink: &mut impl ChunkSink) {
        if std::mem::take(&mut self.unnamed) {
            sink.set_file("", now);
        }
        self.late_file(name, now, sink);
    }

    /// The file of what follows, and of what was handed on since it was last not known.
    pub(super) fn late_file(&mut self, name: &str, now: u64, sink: &mut impl ChunkSink) {
        self.unnamed = false;
        if self.file != name {
            name.clone_into(&mut self.file);
            self.language = extension(name).and_then(Language::new);
            sink.set_file(name, now);
        }
    }

    /// The file of what follows is not known, or not yet. At the beginning of a part that goes without saying.
    pub(super) fn unknown_file(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.has_file() {
            self.late_file("", now, sink);
        }
    }

    /// Whether the file of what follows is known.
    pub(super) fn has_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Hands on a piece.
    pub(super) fn emit(&mut self, regions: RegionSet, chunk: Chunk<'_>, sink: &mut impl ChunkSink) {
        if chunk.bytes.is_empty() {
            return;
        }
        let tag = Tag {
            regions,
            language: self.language,
        };
        if self.tag != Some(tag) {
            self.tag = Some(tag);
            sink.set_tag(tag, chunk.start(0), chunk.decided(0));
        }
        self.unnamed |= self.file.is_empty();
        self.end = chunk.end(chunk.bytes.len() - 1);
        sink.push(chunk);
    }

    /// A line of these regions begins with these pieces, which were not certain before.
    pub(super) fn begin_with<'a>(
        &mut self,
        regions: RegionSet,
        chunks: impl Iterator<Item = Chunk<'a>>,
        now: u64,
        sink: &mut impl ChunkSink,
    ) {
        self.begin(regions, now, sink);
        for chunk in chunks {
            self.emit(regions, chunk.not_before(now), sink);
        }
    }

    /// A line of these regions begins: the newline before it belongs to what both lines belong to.
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
            self.emit(both, newline.not_before(now), sink);
        }
        self.line = regions;
    }

    /// The line ends with that newline, or with its text.
    pub(super) fn end(&mut self, newline: Option<(OffsetMap, u64)>) {
        self.newline = newline;
    }

    /// Every haystack ends.
    pub(super) fn cut(&mut self, now: u64, sink: &mut impl ChunkSink) {
        if self.tag.take().is_some() {
            sink.cut(self.end, now);
        }
        self.newline = None;
    }
}

/// What stands behind the last dot of a file's name, if something stands before it.
fn extension(path: &str) -> Option<&str> {
    let name = path.rsplit(['/', '\\']).next()?;
    let (stem, extension) = name.rsplit_once('.')?;
    (!stem.is_empty()).then_some(extension)
}
