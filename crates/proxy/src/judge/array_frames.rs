//! Splits a JSON array into elements without changing a byte.
//!
//! The elements must be objects. Each byte is looked at once, and no element is parsed: if it is valid JSON, it ends where
//! a parser ends it, and if it is not, the reader finds that out.

use super::frames::FrameBuffer;

/// Splits bytes that are cut anywhere into frames. A frame is an element with the bytes before it, such as the comma, or
/// whitespace that arrived alone. Frames end with their element, so that a reply can be ended after each of them.
#[derive(Debug, Default)]
pub(crate) struct ArrayFrames {
    pub(super) buffer: FrameBuffer,
    place: ArrayPlace,
    /// True if the elements follow those of another body, so that the body must be an array.
    is_continuation: bool,
    is_damaged: bool,
}

/// The part of the array that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default)]
enum ArrayPlace {
    /// Before the array.
    #[default]
    Start,
    /// After the bracket that opens the array.
    First,
    /// After a comma.
    Next,
    Element(ElementCursor),
    /// After an element.
    Separator,
    /// After the array.
    End,
    /// Bytes that are no array, or that follow damage in one.
    Unframed,
}

/// The state of the search for the end of an object.
#[derive(Clone, Copy, Debug)]
struct ElementCursor {
    /// The number of open braces and brackets.
    depth: usize,
    is_in_string: bool,
    /// True after a backslash in a string.
    is_escaped: bool,
    /// True if the object is the whole body.
    is_alone: bool,
}

impl ArrayFrames {
    /// Returns the frames of another body, whose elements follow those of an earlier one.
    pub(super) fn continuing() -> ArrayFrames {
        ArrayFrames {
            is_continuation: true,
            ..ArrayFrames::default()
        }
    }

    /// Returns the end of the first complete frame. A body that is one object is one frame. A body that begins in another
    /// way has no frame; the same holds for bytes after damage, whose first byte ends a frame.
    pub(super) fn next_end(&mut self) -> Option<usize> {
        let bytes = self.buffer.bytes();
        let mut at = self.buffer.searched;
        let end = loop {
            if let ArrayPlace::Element(cursor) = &mut self.place {
                let Some(len) = cursor.end(&bytes[at..]) else {
                    at = bytes.len();
                    break None;
                };
                at += len;
                self.place = match cursor.is_alone {
                    true => ArrayPlace::End,
                    false => ArrayPlace::Separator,
                };
                break Some(at);
            }
            let Some(&byte) = bytes.get(at) else {
                // Whitespace that arrives alone may be there to keep the client waiting.
                let is_free = matches!(self.place, ArrayPlace::Start | ArrayPlace::Separator);
                break (is_free && at > 0).then_some(at);
            };
            at += 1;
            let element = |is_alone| ArrayPlace::Element(ElementCursor::new(is_alone));
            self.place = match (self.place, byte) {
                (ArrayPlace::Unframed, _) => {
                    at = bytes.len();
                    break None;
                }
                (place, b' ' | b'\t' | b'\n' | b'\r') => place,
                (ArrayPlace::Start, b'[') => ArrayPlace::First,
                (ArrayPlace::Start, b'{') if !self.is_continuation => element(true),
                (ArrayPlace::Start, _) if !self.is_continuation => ArrayPlace::Unframed,
                (ArrayPlace::First | ArrayPlace::Next, b'{') => element(false),
                (ArrayPlace::Separator, b',') => ArrayPlace::Next,
                (ArrayPlace::First | ArrayPlace::Separator, b']') => ArrayPlace::End,
                _ => {
                    self.is_damaged = true;
                    self.place = ArrayPlace::Unframed;
                    break Some(at);
                }
            };
        };
        self.buffer.searched = at;
        end
    }

    /// Returns true if the last frame is damaged, once.
    pub(super) fn take_damage(&mut self) -> bool {
        std::mem::take(&mut self.is_damaged)
    }

    /// Returns true if the bytes since the last frame are part of no element.
    pub(super) fn is_between_elements(&self) -> bool {
        !matches!(self.place, ArrayPlace::Element(_) | ArrayPlace::Unframed)
    }
}

impl ElementCursor {
    fn new(is_alone: bool) -> ElementCursor {
        ElementCursor {
            depth: 1,
            is_in_string: false,
            is_escaped: false,
            is_alone,
        }
    }

    /// Returns the number of bytes up to the end of the object, or `None` if it does not end in them.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
                continue;
            }
            if self.is_in_string {
                at += memchr::memchr2(b'"', b'\\', &bytes[at..])? + 1;
                self.is_escaped = bytes[at - 1] == b'\\';
                self.is_in_string = self.is_escaped;
                continue;
            }
            at += 1;
            match byte {
                b'"' => self.is_in_string = true,
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
            if self.depth == 0 {
                return Some(at);
            }
        }
        None
    }
}

/// Returns the object in a frame, or `None` if the frame has none. Frames of other bytes than those of an array have none.
pub(super) fn element(frame: &[u8]) -> Option<&[u8]> {
    let start = memchr::memchr(b'{', frame)?;
    let is_separator = |byte: &u8| b" \t\n\r[,".contains(byte);
    frame[..start]
        .iter()
        .all(is_separator)
        .then(|| &frame[start..])
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use proptest::prelude::*;

    use crate::judge::BodyFrames;
    use crate::judge::array_oracle::{ArraySplit, check_array_frames};

    /// Checks the frames for each cut. Returns them.
    fn check(text: &[u8]) -> ArraySplit {
        check_array_frames(text, 1);
        let whole = ArraySplit::of(BodyFrames::array(), [text]);
        for cut in 0..=text.len() {
            let (head, tail) = text.split_at(cut);
            let cut_once = ArraySplit::of(BodyFrames::array(), [head, tail]);
            assert_eq!(cut_once, whole, "at {cut}");
        }
        whole
    }

    #[test]
    fn elements_keep_their_bytes_however_they_are_cut() {
        let check = |text: &str, frames: &[&str], ending: &str, rest: &str| {
            let split = check(text.as_bytes());
            let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
            let found: Vec<String> = split.frames.iter().map(|frame| text(frame)).collect();
            assert_eq!(found, frames);
            assert_eq!((&*text(&split.ending), &*text(&split.rest)), (ending, rest));
            split.is_damaged
        };
        for (body, frames, ending) in [
            // Google's servers write this.
            (
                "[{\"a\": 1}\n,\r\n{\"b\": [{}]}\n]\n",
                &["[{\"a\": 1}", "\n,\r\n{\"b\": [{}]}"][..],
                "\n]\n",
            ),
            ("[]", &[], "[]"),
            (" \n[ ] ", &[], " \n[ ] "),
            ("", &[], ""),
            (" ", &[], " "),
            (
                "[{\"a\":\"}]\\\"\\\\\"},{\"é\":\"[{\"}]",
                &["[{\"a\":\"}]\\\"\\\\\"}", ",{\"é\":\"[{\"}"],
                "]",
            ),
            ("\t{\"a\":[{}]} ", &["\t{\"a\":[{}]}"], " "),
            // Bytes that end early.
            ("[", &[], "["),
            ("[{},", &["[{}"], ","),
        ] {
            assert!(!check(body, frames, ending, ""), "{body}");
        }
        for (body, frames, rest) in [
            ("[{},{\"a\":\"", &["[{}"][..], ",{\"a\":\""),
            ("data: {}\n\n", &[], "data: {}\n\n"),
            ("\u{feff}[{}]", &[], "\u{feff}[{}]"),
            ("5", &[], "5"),
        ] {
            assert!(!check(body, frames, "", rest), "{body}");
        }
        for (body, frames, rest) in [
            ("[{} {}]", &["[{}", " {"][..], "}]"),
            ("[{},]", &["[{}", ",]"], ""),
            ("[,{}]", &["[,"], "{}]"),
            ("[{},,{}]", &["[{}", ",,"], "{}]"),
            ("[1,{}]", &["[1"], ",{}]"),
            ("[[{}]]", &["[["], "{}]]"),
            ("[\"{\",{}]", &["[\""], "{\",{}]"),
            ("[{}]]", &["[{}", "]]"], ""),
            ("[{}][{}]", &["[{}", "]["], "{}]"),
            ("{}{}", &["{}", "{"], "}"),
            ("{},", &["{}", ","], ""),
        ] {
            assert!(check(body, frames, "", rest), "{body}");
        }
    }

    #[test]
    fn an_array_that_continues_another_one_is_no_object() {
        for (text, frames) in [("[{}]", &["[{}"][..]), (" {}", &[" {"]), ("x", &["x"])] {
            let mut body = BodyFrames::array();
            body.push(Bytes::from_static(b"[{},{"));
            body.begin_again(true);
            body.push(Bytes::copy_from_slice(text.as_bytes()));
            let found: Vec<Bytes> = std::iter::from_fn(|| body.next_frame()).collect();
            assert_eq!(found, frames);
            assert_eq!(body.take_damage(), text != "[{}]", "{text}");
        }
    }

    #[test]
    fn data_is_the_element_and_is_replaced() {
        let body = BodyFrames::array();
        let frame = b"\n,\r\n{\"a\":\"{[\"}";
        assert_eq!(body.data(frame).unwrap(), &b"{\"a\":\"{[\"}"[..]);
        assert_eq!(body.with_data(frame, b"{}"), b"\n,\r\n{}");
        for frame in [&b"\n"[..], b"", b"x{}", b",1"] {
            assert_eq!(body.data(frame), None);
        }
    }

    fn elements() -> impl Strategy<Value = serde_json::Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(serde_json::Value::from),
            "[\\[\\]{}\",\\\\é]{0,6}".prop_map(serde_json::Value::from),
        ];
        let value = leaf.prop_recursive(3, 12, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(serde_json::Value::from),
                prop::collection::hash_map("[}\"a]{0,2}", inner, 0..4)
                    .prop_map(|members| serde_json::Value::Object(members.into_iter().collect())),
            ]
        });
        prop::collection::hash_map("[{\"b]{0,2}", value, 0..3)
            .prop_map(|members| serde_json::Value::Object(members.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn arrays_have_the_elements_of_a_parser(
            elements in prop::collection::vec((elements(), any::<bool>()), 0..4),
            spaces in prop::collection::vec("[ \t\r\n]{0,2}", 9),
        ) {
            let mut text = spaces[8].clone() + "[";
            for (at, (element, is_pretty)) in elements.iter().enumerate() {
                let comma = if at > 0 { "," } else { "" };
                let element = match is_pretty {
                    true => format!("{element:#}"),
                    false => element.to_string(),
                };
                text += &format!("{}{comma}{}{element}", spaces[at], spaces[at + 4]);
            }
            text += &format!("{}]{}", spaces[3], spaces[7]);
            let split = check(text.as_bytes());
            prop_assert!(split.is_whole());
            prop_assert_eq!(split.elements().len(), elements.len());
        }

        #[test]
        fn any_text_is_split_as_a_parser_reads_it(text in "[\\[\\]{}\",:0a\\\\ \n]{0,14}", is_array: bool) {
            let text = if is_array { format!("[{{{text}}}]") } else { text };
            check(text.as_bytes());
        }

        #[test]
        fn any_bytes_are_split_the_same_at_each_cut(bytes in prop::collection::vec(any::<u8>(), 0..24)) {
            check(&bytes);
            check(&[&b"[{\""[..], &bytes].concat());
        }
    }
}
