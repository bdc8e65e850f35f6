//! Regions of Markdown are the same under every split, also with limits that are reached all the time; bytes are in
//! order, and only markers and indentation are left out.

use crate::seen::{Seen, pieces};
use ttsr_views::chunk::DecidedOffset;
use ttsr_views::markdown::MarkdownView;

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, bounds, text @ ..] = data else {
        return;
    };
    let held = usize::from(*bounds) + 16;
    let read = |size: usize| {
        let (mut markdown, mut seen) =
            (MarkdownView::with_limits(held, held / 16), Seen::default());
        for piece in pieces(text, size) {
            markdown.push(piece, &mut seen);
        }
        markdown.cut(DecidedOffset::at_once(text.len() as u64), &mut seen);
        seen
    };
    let whole = read(text.len().max(1));
    assert_eq!(read(1), whole, "byte by byte");
    assert_eq!(read(usize::from(*cuts) % 29 + 1), whole, "cut otherwise");
    let mut next = 0;
    for &(byte, _, start, _, _) in &whole.bytes {
        assert!(start >= next || byte == b' ', "bytes are out of order");
        assert!(byte == text[start as usize] || text[start as usize] == b'\t');
        next = start + 1;
    }
}
