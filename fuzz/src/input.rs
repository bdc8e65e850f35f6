//! Runs a view of tool input after the JSON view, as the crate does, and records its output.

use std::ops::Range;

use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, Tag};
use ttsr_views::edit::EditView;
use ttsr_views::json::{ArgPath, HaystackSink, JsonDecoder};
use ttsr_views::shell::ShellView;

/// A view of the values of tool input.
pub(crate) trait View {
    fn open(&mut self, path: &ArgPath);
    fn push(&mut self, piece: Chunk<'_>, heard: &mut Recorder);
    fn close(&mut self, end: DecidedOffset, heard: &mut Recorder);
    fn finish(&mut self, end: u64, heard: &mut Recorder);
}

#[derive(Debug, PartialEq)]
pub(crate) enum Heard {
    Turn(Tag, u64, u64),
    Byte(u8, u64, u64, u64),
    Cut(u64, u64),
    File(String, u64),
}

#[derive(Default)]
pub(crate) struct Recorder {
    heard: Vec<Heard>,
    /// Number of input bytes pushed so far, if output must not be later than its deciding byte.
    delivered: Option<u64>,
}

/// Returns the output of the view for the input in deltas of `step` bytes. Byte by byte, no output may come later than
/// the view's own deciding offset.
pub(crate) fn read(mut view: impl View, input: &[u8], step: usize) -> Vec<Heard> {
    let mut decoder = JsonDecoder::new(128, 4096);
    let mut recorder = Recorder::default();
    let mut delivered = 0;
    for delta in input.chunks(step) {
        delivered += delta.len() as u64;
        recorder.delivered = (step == 1).then_some(delivered);
        decoder.push(delta, &mut Reader(&mut view, &mut recorder));
    }
    decoder.finish(&mut Reader(&mut view, &mut recorder));
    view.finish(delivered, &mut recorder);
    recorder.heard
}

impl Recorder {
    fn push(&mut self, heard: Heard, decided: u64) {
        assert!(self.delivered.is_none_or(|delivered| delivered == decided));
        self.heard.push(heard);
    }
}

impl ChunkSink for Recorder {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let DecidedOffset {
            offset: at,
            decided,
        } = at;
        self.push(Heard::Turn(tag, at, decided), decided);
    }

    fn push(&mut self, piece: Chunk<'_>) {
        for (i, &byte) in piece.bytes.iter().enumerate() {
            let decided = piece.decided(i);
            let heard = Heard::Byte(byte, piece.start(i), piece.end(i), decided);
            self.push(heard, decided);
        }
    }

    fn cut(&mut self, end: DecidedOffset) {
        let DecidedOffset {
            offset: end,
            decided,
        } = end;
        self.push(Heard::Cut(end, decided), decided);
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        self.push(Heard::File(path.to_owned(), decided), decided);
    }
}

/// Passes the haystacks of tool input to a view.
struct Reader<'a, V>(&'a mut V, &'a mut Recorder);

impl<V: View> HaystackSink for Reader<'_, V> {
    fn open(&mut self, path: &ArgPath, _: u64) {
        self.0.open(path);
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.0.push(Chunk::verbatim(bytes, at), self.1);
    }

    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        self.0
            .push(Chunk::replacement(utf8, source, decided), self.1);
    }

    fn close(&mut self, end: DecidedOffset) {
        self.0.close(end, self.1);
    }
}

impl View for EditView {
    fn open(&mut self, path: &ArgPath) {
        self.open(path);
    }

    fn push(&mut self, piece: Chunk<'_>, heard: &mut Recorder) {
        self.push(piece, heard);
    }

    fn close(&mut self, end: DecidedOffset, heard: &mut Recorder) {
        self.close(end, heard);
    }

    fn finish(&mut self, end: u64, heard: &mut Recorder) {
        self.finish(end, heard);
    }
}

impl View for ShellView {
    fn open(&mut self, path: &ArgPath) {
        self.open(path);
    }

    fn push(&mut self, piece: Chunk<'_>, heard: &mut Recorder) {
        self.push(&piece, heard);
    }

    fn close(&mut self, end: DecidedOffset, heard: &mut Recorder) {
        self.close(end, heard);
    }

    fn finish(&mut self, end: u64, heard: &mut Recorder) {
        self.finish(end, heard);
    }
}
