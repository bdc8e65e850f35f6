//! The way out of the view: lines become haystacks, joined where they lie next to each other.

use super::super::piece::{Language, Piece, Place, Regions, Sink, Tag};
use super::EditCounters;

/// What was handed on last.
#[derive(Clone, Debug, Default)]
pub(super) struct Out {
    /// Of the last piece; none behind a cut.
    tag: Option<Tag>,
    language: Option<Language>,
    file: String,
    /// Something was handed on while the file was not known.
    unnamed: bool,
    /// Where the last piece ended.
    end: u64,
    /// The regions of the last line, and the newline behind it.
    line: Regions,
    newline: Option<(Place, u64)>,
    pub(super) counters: EditCounters,
}

impl Out {
    /// The file of what follows. It is not the file of what was handed on before without one, which an empty
    /// name says.
    pub(super) fn file(&mut self, name: &str, now: u64, sink: &mut impl Sink) {
        if std::mem::take(&mut self.unnamed) {
            sink.file("", now);
        }
        self.late_file(name, now, sink);
    }

    /// The file of what follows, and of what was handed on since it was last not known.
    pub(super) fn late_file(&mut self, name: &str, now: u64, sink: &mut impl Sink) {
        self.unnamed = false;
        if self.file != name {
            name.clone_into(&mut self.file);
            self.language = extension(name).and_then(Language::new);
            sink.file(name, now);
        }
    }

    /// The file of what follows is not known, or not yet. At the beginning of a part that goes without saying.
    pub(super) fn unknown_file(&mut self, now: u64, sink: &mut impl Sink) {
        if self.has_file() {
            self.late_file("", now, sink);
        }
    }

    /// Whether the file of what follows is known.
    pub(super) fn has_file(&self) -> bool {
        !self.file.is_empty()
    }

    /// Hands on a piece.
    pub(super) fn put(&mut self, regions: Regions, piece: Piece<'_>, sink: &mut impl Sink) {
        if piece.bytes.is_empty() {
            return;
        }
        let tag = Tag {
            regions,
            language: self.language,
        };
        if self.tag != Some(tag) {
            self.tag = Some(tag);
            sink.turn(tag, piece.start(0), piece.decided(0));
        }
        self.unnamed |= self.file.is_empty();
        self.end = piece.end(piece.bytes.len() - 1);
        sink.take(piece);
    }

    /// A line of these regions begins with these pieces, which were not certain before.
    pub(super) fn begin_with<'a>(
        &mut self,
        regions: Regions,
        pieces: impl Iterator<Item = Piece<'a>>,
        now: u64,
        sink: &mut impl Sink,
    ) {
        self.begin(regions, now, sink);
        for piece in pieces {
            self.put(regions, piece.later(now), sink);
        }
    }

    /// A line of these regions begins: the newline before it belongs to what both lines belong to.
    pub(super) fn begin(&mut self, regions: Regions, now: u64, sink: &mut impl Sink) {
        let both = Regions(self.line.0 & regions.0);
        if let Some((place, decided)) = self.newline.take()
            && both != Regions::default()
        {
            let newline = Piece {
                bytes: b"\n",
                place,
                decided,
            };
            self.put(both, newline.later(now), sink);
        }
        self.line = regions;
    }

    /// The line ends with that newline, or with its text.
    pub(super) fn end(&mut self, newline: Option<(Place, u64)>) {
        self.newline = newline;
    }

    /// Every haystack ends.
    pub(super) fn cut(&mut self, now: u64, sink: &mut impl Sink) {
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
