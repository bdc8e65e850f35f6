//! What a tool call adds, removes and leaves is the same under every cut, at the same places; and byte by byte
//! nothing is handed on later than the view says it was certain.

use crate::input;
use crate::view::edit::{EditLimits, EditView};

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
    let read = |step| input::read(EditView::new(limits), text, step);
    let whole = read(text.len().max(1));
    assert_eq!(read(1), whole);
    assert_eq!(read(usize::from(*cuts) % 17 + 2), whole);
}
