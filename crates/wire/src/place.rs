//! Where the texts of events are in the JSON document that they were read from.
//!
//! Format readers emit slices of a parsed document. Such a slice is identified by its address, so that no reader has to
//! keep a path. Addresses are compared only while the document exists, and never read through.

use std::collections::HashMap;

use super::JsonValue;

/// The address and the length of the slice that is the text of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
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

/// The places of texts since they were last taken.
#[derive(Debug, Default)]
pub(super) struct NotedPlaces {
    /// Number of texts.
    texts: usize,
    /// The number of a text and its place.
    places: Vec<(usize, usize)>,
}

impl NotedPlaces {
    /// Returns the places, and forgets them and their texts.
    pub(super) fn take(&mut self) -> Vec<(usize, usize)> {
        std::mem::take(self).places
    }

    /// Adds a text that is in no document.
    pub(super) fn skip_text(&mut self) {
        self.texts += 1;
    }

    /// Adds the texts of `value`, a part of the document `text`.
    ///
    /// # Complexity
    /// Linear in the number of values in `value`, also if each of them is a text.
    pub(super) fn add(&mut self, found: TextSources, value: &JsonValue<'_>, text: &[u8]) {
        let first = self.texts;
        self.texts += found.others.len() + usize::from(found.first.is_some());
        if found.others.is_empty() {
            return;
        }
        let mut known = HashMap::new();
        visit(value, &mut |source, raw| {
            known.insert(source, raw.as_ptr() as usize);
        });
        let all = (first..).zip(found.first.into_iter().chain(found.others));
        let start = text.as_ptr() as usize;
        self.places.extend(all.filter_map(|(number, source)| {
            let place = known.get(&source)?.checked_sub(start)?;
            Some((number, place))
        }));
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
