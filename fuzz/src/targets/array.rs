//! The frames of a JSON array, as the proxy splits it, have the bytes of the body and the elements that a parser finds, under
//! every split. A body that is not an array of objects is found to be none.

use ttsr_proxy::check_array_frames;

// Layout of the input: a byte for the size of the pieces, the body.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    if let [size, text @ ..] = data {
        check_array_frames(text, usize::from(*size) % 29 + 2);
    }
}
