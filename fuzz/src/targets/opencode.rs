//! The events of an OpenCode server give the same notices under every split.

use ttsr_wire::opencode::{OpenCodeReader, ServerNotice};

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, bytes @ ..] = data else { return };
    let notices = |size: usize| -> Vec<(String, ServerNotice)> {
        let (mut feed, mut notices) = (OpenCodeReader::default(), Vec::new());
        let mut note = |session: &str, notice| notices.push((session.to_owned(), notice));
        for piece in bytes.chunks(size) {
            feed.push(piece, &mut note);
        }
        feed.finish(&mut note);
        notices
    };
    let whole = notices(bytes.len().max(1));
    assert_eq!(notices(1), whole, "byte by byte");
    assert_eq!(notices(usize::from(*cuts) % 61 + 2), whole, "cut otherwise");
}
