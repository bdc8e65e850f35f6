//! The frames of a JSON array, compared with the elements that a parser finds: for tests and for a fuzz target.

use bytes::Bytes;
use serde_json::value::RawValue;

use super::array_frames::element;
use super::frames::BodyFrames;
use crate::json_spans::parse;

/// The frames of a body: whitespace that arrived alone is part of the next frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ArraySplit {
    pub(super) frames: Vec<Vec<u8>>,
    /// The bytes at the end of the array.
    pub(super) ending: Vec<u8>,
    /// The bytes after the last complete frame.
    pub(super) rest: Vec<u8>,
    pub(super) is_damaged: bool,
}

impl ArraySplit {
    pub(super) fn of<'p>(
        mut body: BodyFrames,
        pieces: impl IntoIterator<Item = &'p [u8]>,
    ) -> ArraySplit {
        let (mut split, mut space) = (ArraySplit::default(), Vec::new());
        for piece in pieces {
            body.push(Bytes::copy_from_slice(piece));
            while let Some(frame) = body.next_frame() {
                split.is_damaged |= body.take_damage();
                space.extend_from_slice(&frame);
                if body.has_text(&frame) {
                    split.frames.push(std::mem::take(&mut space));
                }
            }
        }
        let ending = body.take_ending();
        split.rest = body.finish().to_vec();
        match split.rest.is_empty() {
            true => split.ending = [&space, &ending[..]].concat(),
            false => split.rest.splice(..0, space).for_each(drop),
        }
        split
    }

    pub(super) fn elements(&self) -> Vec<&[u8]> {
        let frames = self.frames.iter();
        frames.filter_map(|frame| element(frame)).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        [&self.frames.concat(), &self.ending[..], &self.rest].concat()
    }

    /// Returns true if the body is an array of objects, or one object.
    pub(super) fn is_whole(&self) -> bool {
        let is_closed = self.ending.trim_ascii_end().ends_with(b"]");
        let is_alone = matches!(&self.frames[..], [frame] if frame.trim_ascii_start()[0] == b'{');
        let mut elements = self.elements().into_iter();
        let has_end = is_closed || is_alone && self.ending.trim_ascii().is_empty();
        !self.is_damaged && has_end && elements.all(|element| parse(element).is_some())
    }
}

/// Checks that the frames of a body have its bytes, and are the same if it arrives whole, byte by byte and in pieces of
/// `size` bytes; that those of an array of objects, and of one object, have the elements that a parser finds; and that an
/// array has the same frames if it continues another one, and any other body is damaged there.
///
/// # Panics
/// If one of these is not the case.
pub fn check_array_frames(text: &[u8], size: usize) {
    let mut continuing = [BodyFrames::array(), BodyFrames::array()];
    continuing
        .iter_mut()
        .for_each(|body| body.begin_again(true));
    let [continuing, cut] = continuing;
    let whole = ArraySplit::of(BodyFrames::array(), [text]);
    assert_eq!(whole.bytes(), text);
    for size in [1, size.max(1)] {
        let pieces = ArraySplit::of(BodyFrames::array(), text.chunks(size));
        assert_eq!(pieces, whole, "pieces of {size}");
    }
    let parsed = parsed(text);
    assert_eq!(parsed.is_some(), whole.is_whole(), "{whole:?}");
    if let Some(parsed) = parsed {
        assert_eq!(whole.elements(), parsed);
    }
    let next = ArraySplit::of(continuing, [text]);
    assert_eq!(ArraySplit::of(cut, text.chunks(size.max(1))), next);
    assert_eq!(next.bytes(), text);
    match text.iter().find(|byte| !b" \t\n\r".contains(byte)) {
        Some(b'[') | None => assert_eq!(next, whole),
        Some(_) => assert!(next.is_damaged, "{next:?}"),
    }
}

/// Returns the elements that a parser finds, or `None` if the text is neither an array of objects nor an object.
fn parsed(text: &[u8]) -> Option<Vec<&[u8]>> {
    let elements: Vec<&RawValue> = match text.trim_ascii_start().first() {
        Some(b'{') => vec![parse(text)?],
        _ => serde_json::from_slice(text).ok()?,
    };
    let elements = elements.into_iter().map(|element| element.get().as_bytes());
    let elements: Vec<&[u8]> = elements.collect();
    let are_objects = elements.iter().all(|element| element[0] == b'{');
    are_objects.then_some(elements)
}
