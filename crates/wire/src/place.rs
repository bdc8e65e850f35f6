//! Where the texts of events are in the JSON document that they were read from.
//!
//! Format readers emit slices of a parsed document. Such a slice is identified by its address, so that no reader has to
//! keep a path. Addresses are compared only while the document exists, and never read through.

use super::JsonValue;

/// The address and the length of the slice that is the text of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TextSource {
    address: usize,
    len: usize,
}

impl TextSource {
    /// The source of an event without text, and of text that is in no document.
    pub(super) const NONE: TextSource = TextSource { address: 0, len: 0 };

    pub(super) fn of(text: &[u8]) -> TextSource {
        TextSource {
            address: text.as_ptr() as usize,
            len: text.len(),
        }
    }

    /// Returns the start and the end of the text in `document`, or `None` if it is empty or not a part of it.
    pub(super) fn range_in(self, document: &[u8]) -> Option<(usize, usize)> {
        let start = self.address.checked_sub(document.as_ptr() as usize)?;
        let end = start + self.len;
        (self.len > 0 && end <= document.len()).then_some((start, end))
    }
}

/// The sources of the texts of one document, in their order.
#[derive(Debug, Default)]
pub(super) struct TextSources {
    first: Option<TextSource>,
    /// Most documents have one text, for which nothing is allocated.
    others: Vec<TextSource>,
}

impl TextSources {
    pub(super) fn add(&mut self, source: TextSource) {
        match self.first {
            None => self.first = Some(source),
            Some(_) => self.others.push(source),
        }
    }
}

/// A text that is not read, because it repeats texts that were read and is divided in another way.
#[derive(Debug)]
pub(super) struct CopySource {
    /// The first text of those that it repeats.
    pub(super) of: TextSource,
    /// The offset in them at which it begins.
    pub(super) offset: usize,
    pub(super) source: TextSource,
    pub(super) bytes: Vec<u8>,
}

/// A text of a document for which there is no event, because it repeats text of events that is divided in another way. See
/// [`Reader::take_copies`](super::Reader::take_copies).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TextCopy {
    /// The number of the event with the first text of those that the copy repeats a part of. The events of the others
    /// follow it.
    pub event: usize,
    /// The offset in these texts at which the copy begins.
    pub offset: usize,
    /// The text.
    pub bytes: Vec<u8>,
    /// The offset at which its JSON value begins in the document, if it is a value of the document.
    pub place: Option<usize>,
}

/// The places of texts since they were last taken.
#[derive(Debug, Default)]
pub(super) struct NotedPlaces {
    /// Number of texts.
    texts: usize,
    /// The number of a text and its place.
    places: Vec<(usize, usize)>,
    copies: Vec<TextCopy>,
}

impl NotedPlaces {
    /// Returns the places, and forgets them and their texts.
    pub(super) fn take(&mut self) -> Vec<(usize, usize)> {
        self.texts = 0;
        std::mem::take(&mut self.places)
    }

    /// Returns the copies, and forgets them.
    pub(super) fn take_copies(&mut self) -> Vec<TextCopy> {
        std::mem::take(&mut self.copies)
    }

    /// Adds a text that is in no document.
    pub(super) fn skip_text(&mut self) {
        self.texts += 1;
    }

    /// Adds the texts of `value`, a part of the document `text`, and their copies.
    ///
    /// # Complexity
    /// The number of values in `value`, times the logarithm of that of the texts.
    pub(super) fn add(
        &mut self,
        found: TextSources,
        copies: Vec<CopySource>,
        value: &JsonValue<'_>,
        text: &[u8],
    ) {
        let first = self.texts;
        self.texts += found.others.len() + usize::from(found.first.is_some());
        if found.others.is_empty() && copies.is_empty() {
            return;
        }
        let all = found.first.into_iter().chain(found.others);
        // The numbers of the copies follow those of the texts.
        let all = all.chain(copies.iter().map(|copy| copy.source));
        let mut wanted: Vec<(TextSource, usize)> = all.zip(first..).collect();
        wanted.sort_unstable();
        let (start, places) = (text.as_ptr() as usize, self.places.len());
        visit(value, &mut |source, raw| {
            let at = wanted.partition_point(|(known, _)| *known < source);
            let same = wanted[at..]
                .iter()
                .take_while(|(known, _)| *known == source);
            let place = (raw.as_ptr() as usize).checked_sub(start);
            let found = same.filter_map(|(_, number)| Some((*number, place?)));
            self.places.extend(found);
        });
        self.places[places..].sort_unstable();
        let copies_at = self
            .places
            .partition_point(|(number, _)| *number < self.texts);
        let mut places = self.places.split_off(copies_at).into_iter().peekable();
        for (number, copy) in (self.texts..).zip(copies) {
            let at = wanted.partition_point(|(known, _)| *known < copy.of);
            let of = wanted.get(at).filter(|(known, _)| *known == copy.of);
            let place = places.next_if(|(of, _)| *of == number);
            self.copies.extend(of.map(|(_, event)| TextCopy {
                event: *event,
                offset: copy.offset,
                bytes: copy.bytes,
                place: place.map(|(_, place)| place),
            }));
        }
    }
}

/// Visits the source text of each value, and the content of each string.
fn visit(value: &JsonValue<'_>, on: &mut dyn FnMut(TextSource, &[u8])) {
    on(TextSource::of(value.raw()), value.raw());
    if let Some(string) = value.string().filter(|string| !string.is_empty()) {
        on(TextSource::of(string), value.raw());
    }
    value.items().iter().for_each(|item| visit(item, on));
    let members = value.members().iter();
    members.for_each(|(_, member)| visit(member, on));
}

#[cfg(test)]
mod tests {
    use crate::Reader;
    use ttsr::Event;

    #[test]
    fn the_place_of_a_text_is_that_of_its_value() {
        let document = r#" {"choices":[{"index":0,"delta":{"content":"a\u0062\ud83d"}},{"index":1,"delta":{"content":"ab","reasoning":"ab","tool_calls":[{"index":0,"id":"t","function":{"name":"n","arguments":{"a": "ab"}}}]}}]}"#;
        let mut reader = Reader::new("r").noting_places();
        let mut texts = Vec::new();
        let mut on = |_: &str, event: Event| {
            if let Event::Delta { bytes, .. } | Event::Snapshot { bytes, .. } = event {
                texts.push(bytes);
            }
        };
        reader.push(format!("data:{document}\n\n").as_bytes(), &mut on);
        let places = reader.take_places();
        // The half of a pair that was cut is text of its own, without a place.
        reader.push(b"data: [DONE]\n\n", &mut on);
        reader.finish(&mut on);
        assert!(reader.take_places().is_empty());
        let values = places.iter().map(|(number, at)| {
            let value = &document.trim_start()[*at..];
            (&texts[*number][..], &value[..10])
        });
        let want: [(&[u8], &str); 4] = [
            (b"ab", r#""a\u0062\u"#),
            (b"ab", r#""ab","tool"#),
            (b"ab", r#""ab","reas"#),
            (br#"{"a": "ab"}"#, r#"{"a": "ab""#),
        ];
        assert_eq!(values.collect::<Vec<_>>(), want);
        assert_eq!(texts.len(), 5);
    }
}
