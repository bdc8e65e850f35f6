//! What a tool call adds, removes and leaves is the same under every cut, at the same places; and byte by byte
//! nothing is handed on later than the view says it was certain.

use crate::view::edit::{EditLimits, Edits};
use crate::view::json::{ArgPath, Decoder, Sink as JsonSink};
use crate::view::piece::{Piece, Sink, Tag};

#[derive(Debug, PartialEq)]
enum Heard {
    Turn(Tag, u64, u64),
    Byte(u8, u64, u64, u64),
    Cut(u64, u64),
    File(String, u64),
}

#[derive(Default)]
struct Recorder {
    heard: Vec<Heard>,
    delivered: Option<u64>,
}

impl Recorder {
    fn push(&mut self, heard: Heard, decided: u64) {
        assert!(self.delivered.is_none_or(|delivered| delivered == decided));
        self.heard.push(heard);
    }
}

impl Sink for Recorder {
    fn turn(&mut self, tag: Tag, at: u64, decided: u64) {
        self.push(Heard::Turn(tag, at, decided), decided);
    }

    fn take(&mut self, piece: Piece<'_>) {
        for (i, &byte) in piece.bytes.iter().enumerate() {
            let decided = piece.decided(i);
            let heard = Heard::Byte(byte, piece.start(i), piece.end(i), decided);
            self.push(heard, decided);
        }
    }

    fn cut(&mut self, end: u64, decided: u64) {
        self.push(Heard::Cut(end, decided), decided);
    }

    fn file(&mut self, path: &str, decided: u64) {
        self.push(Heard::File(path.to_owned(), decided), decided);
    }
}

impl JsonSink for (&mut Edits, &mut Recorder) {
    fn open(&mut self, path: &ArgPath, _: u64) {
        self.0.open(path);
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.0.take(Piece::verbatim(bytes, at), self.1);
    }

    fn escape(&mut self, utf8: &[u8], start: u64, end: u64, decided: u64) {
        self.0
            .take(Piece::stand_in(utf8, start, end, decided), self.1);
    }

    fn close(&mut self, end: u64, decided: u64) {
        self.0.close(end, decided, self.1);
    }
}

fn read(text: &[u8], limits: EditLimits, step: usize) -> Vec<Heard> {
    let mut decoder = Decoder::new(128, 4096);
    let (mut edits, mut recorder) = (Edits::new(limits), Recorder::default());
    let mut delivered = 0;
    for delta in text.chunks(step) {
        delivered += delta.len() as u64;
        recorder.delivered = (step == 1).then_some(delivered);
        decoder.push(delta, &mut (&mut edits, &mut recorder));
    }
    decoder.finish(&mut (&mut edits, &mut recorder));
    edits.finish(delivered, &mut recorder);
    recorder.heard
}

// Layout of the input: a byte for the limits, a byte for the cuts, the tool input.
/// Holds what this module says against one input.
pub fn run(data: &[u8]) {
    let [small, cuts, text @ ..] = data else {
        return;
    };
    let mut limits = EditLimits::default();
    if *small < 128 {
        (limits.waiting, limits.lines) = (usize::from(*small) + 1, usize::from(*small) % 5);
    }
    let whole = read(text, limits, text.len().max(1));
    assert_eq!(read(text, limits, 1), whole);
    assert_eq!(read(text, limits, usize::from(*cuts) % 17 + 2), whole);
}
