//! The commands of a shell text are the same under every split, at the same places; and byte by byte no output comes
//! later than its deciding offset.

use crate::input;
use ttsr_views::shell::{ShellLimits, ShellView};

// Layout of the input: a byte for the limits, a byte for the cuts, the tool input.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [small, cuts, text @ ..] = data else {
        return;
    };
    let mut limits = ShellLimits::default();
    if *small < 128 {
        (limits.waiting, limits.depth) = (usize::from(*small), usize::from(*small) % 5);
    }
    let read = |step| input::read(ShellView::new(limits), text, step);
    let whole = read(text.len().max(1));
    assert_eq!(read(1), whole);
    assert_eq!(read(usize::from(*cuts) % 17 + 2), whole);
}
