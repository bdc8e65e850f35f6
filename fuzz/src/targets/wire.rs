//! The reader gives the same events for any bytes under every split.

use ttsr::Event;
use ttsr_wire::Reader;

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, bytes @ ..] = data else { return };
    let events = |pieces: &mut dyn Iterator<Item = &[u8]>| -> Vec<(String, Event)> {
        let mut events = Vec::new();
        let mut reader = Reader::new("fuzz");
        for piece in pieces {
            reader.push(piece, &mut |stream, event| {
                events.push((stream.to_owned(), event))
            });
        }
        reader.finish(&mut |stream, event| events.push((stream.to_owned(), event)));
        events
    };
    let whole = events(&mut [bytes].into_iter());
    let cut = usize::from(*cuts) % 61 + 1;
    assert_eq!(events(&mut bytes.chunks(1)), whole, "byte by byte");
    assert_eq!(events(&mut bytes.chunks(cut)), whole, "cut otherwise");
    // A reader does not parse an event that is pushed whole if only its text differs from the last one.
    let mut after = b'\0';
    let mut lines = bytes
        .split_inclusive(|byte| std::mem::replace(&mut after, *byte) == b'\n' && *byte == b'\n');
    assert_eq!(events(&mut lines), whole, "event by event");
}
