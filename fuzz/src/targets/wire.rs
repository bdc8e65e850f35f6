//! The reader gives the same events for any bytes under every split.

use ttsr::Event;
use ttsr_wire::Reader;

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, bytes @ ..] = data else { return };
    let events = |size: usize| -> Vec<(String, Event)> {
        let mut events = Vec::new();
        let mut reader = Reader::new("fuzz");
        for piece in bytes.chunks(size) {
            reader.push(piece, &mut |stream, event| {
                events.push((stream.to_owned(), event))
            });
        }
        reader.finish(&mut |stream, event| events.push((stream.to_owned(), event)));
        events
    };
    let whole = events(bytes.len().max(1));
    assert_eq!(events(1), whole, "byte by byte");
    assert_eq!(events(usize::from(*cuts) % 61 + 1), whole, "cut otherwise");
}
