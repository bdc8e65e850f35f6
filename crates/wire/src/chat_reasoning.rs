//! The reasoning of Chat Completions, which servers send under several names at once.
//!
//! A member whose text, from its beginning on, equals that of another member is a copy. It is read once. A copy that later
//! differs is a part of its own: a client that reads this member alone sees its whole text. So the text of a member that has
//! copies is kept, at most [`KEPT`] bytes in a reply. Past that, a copy that differs is counted as [`FORGOTTEN`].

use super::json::{JsonPath, JsonValue};
use super::openai_chat::part_spec;
use super::place::{CopySource, TextSource};
use super::reply::{EventSink, PartSpec, ReplyEmitter};
use ttsr::Channel;

/// The names under which servers send reasoning.
pub(super) const REASONING: [&str; 4] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
];

/// The names under which servers send reasoning as a list.
const REASONING_LISTS: [&str; 2] = ["reasoning_details", "thinking_blocks"];

/// Members of the elements of such a list that have its text.
const REASONING_TEXTS: [&str; 3] = ["text", "summary", "thinking"];

/// The same that are known metadata.
const REASONING_METADATA: [&str; 3] = ["signature", "format", "data"];

/// Members of `provider_specific_fields` that are read or are known metadata.
const PROVIDER_FIELDS: [&str; 8] = [
    "reasoning_content",
    "reasoning",
    "reasoning_text",
    "thinking",
    "reasoning_details",
    "thinking_blocks",
    "signature",
    "thought_signatures",
];

/// The most bytes of texts that are kept for the copies in a reply.
const KEPT: usize = 64 << 10;

/// The most choices of a reply in which copies are known. Those of further choices are parts of their own.
const CHOICES: usize = 64;

/// The kind under which the beginning of a text is counted that differs from its copy after more than [`KEPT`] bytes.
pub(super) const FORGOTTEN: &str = "forgotten-copy";

/// A member with reasoning: the object that has it, and its name.
type ReasoningMember = (&'static str, &'static str);

/// The members with reasoning that are copies, for all choices of a reply.
#[derive(Debug, Default)]
pub(super) struct ReasoningCopies {
    choices: Vec<(u64, ChoiceCopies)>,
    /// The sum of the lengths of the texts that are kept.
    kept: usize,
    /// The texts of copies in the last record that are divided in another way than those that were read.
    divided: Vec<CopySource>,
}

#[derive(Debug, Default)]
struct ChoiceCopies {
    originals: Vec<ReasoningOriginal>,
    copies: Vec<ReasoningCopy>,
}

/// A member that is read and has copies.
#[derive(Debug)]
struct ReasoningOriginal {
    member: ReasoningMember,
    /// The length of its text.
    len: u64,
    /// The beginning of its text: all of it while there is room and some copy has the same text so far.
    text: Vec<u8>,
}

/// A member that is not read.
#[derive(Debug)]
struct ReasoningCopy {
    member: ReasoningMember,
    /// The original.
    of: ReasoningMember,
    /// The length of its text, which the text of the original begins with.
    len: u64,
}

impl ReasoningCopies {
    pub(super) fn is_empty(&self) -> bool {
        self.choices.is_empty()
    }

    /// Returns the texts of copies that are divided in another way than those that were read, since the last call.
    pub(super) fn take_divided(&mut self) -> Vec<CopySource> {
        std::mem::take(&mut self.divided)
    }

    /// Adds the texts of a copy. The texts that were read, of which `first` is the first, are divided in another way.
    fn add_divided(&mut self, first: &[u8], texts: &[&[u8]]) {
        let mut offset = 0;
        for text in texts {
            self.divided.push(CopySource {
                of: TextSource::of(first),
                offset,
                source: TextSource::of(text),
                bytes: text.to_vec(),
            });
            offset += text.len();
        }
    }

    /// Returns the number of bytes of text that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        self.kept
    }

    fn choice(&mut self, choice: u64) -> Option<&mut ChoiceCopies> {
        let mut choices = self.choices.iter_mut();
        choices
            .find(|known| known.0 == choice)
            .map(|known| &mut known.1)
    }

    /// Adds a copy of a member that began in this delta, with that text. Returns false if there are too many.
    fn add(
        &mut self,
        choice: u64,
        member: ReasoningMember,
        of: ReasoningMember,
        text: &[&[u8]],
    ) -> bool {
        if self.choice(choice).is_none() {
            if self.choices.len() >= CHOICES {
                return false;
            }
            self.choices.push((choice, ChoiceCopies::default()));
        }
        let most = KEPT - self.kept;
        let len = len_of(text);
        let Some(known) = self.choice(choice) else {
            return false;
        };
        known.copies.push(ReasoningCopy { member, of, len });
        if known.originals.iter().all(|original| original.member != of) {
            let kept = if len <= most as u64 { text } else { &[] };
            let text = kept.concat();
            let added = text.len();
            let member = of;
            known
                .originals
                .push(ReasoningOriginal { member, len, text });
            self.kept += added;
        }
        true
    }

    /// Returns a member that has copies.
    fn original(&mut self, choice: u64, member: ReasoningMember) -> Option<&mut ReasoningOriginal> {
        let mut originals = self.choice(choice)?.originals.iter_mut();
        originals.find(|original| original.member == member)
    }

    /// Appends the text of a delta to that of an original. Does nothing for another member.
    fn append(&mut self, choice: u64, member: ReasoningMember, texts: &[&[u8]]) {
        let most = KEPT - self.kept;
        let Some(ChoiceCopies { originals, copies }) = self.choice(choice) else {
            return;
        };
        let mut originals = originals.iter_mut();
        let Some(original) = originals.find(|original| original.member == member) else {
            return;
        };
        let mut copies = copies.iter().filter(|copy| copy.of == member);
        let is_followed = copies.any(|copy| copy.len == original.len);
        let is_whole = original.text.len() as u64 == original.len;
        let len = len_of(texts);
        original.len += len;
        if is_followed && is_whole && len <= most as u64 {
            texts
                .iter()
                .for_each(|text| original.text.extend_from_slice(text));
            self.kept += len as usize;
        }
    }

    /// Returns the copy that a member is.
    fn copy(&mut self, choice: u64, member: ReasoningMember) -> Option<&mut ReasoningCopy> {
        let mut copies = self.choice(choice)?.copies.iter_mut();
        copies.find(|copy| copy.member == member)
    }

    /// Removes a copy, which is a part of its own from now on. Returns the text that it has had, or else its length.
    fn remove(&mut self, choice: u64, member: ReasoningMember) -> Result<Vec<u8>, u64> {
        let at = self.choices.iter().position(|known| known.0 == choice);
        let Some((at, (_, known))) = at.map(|at| (at, &mut self.choices[at])) else {
            return Err(0);
        };
        let Some(place) = known.copies.iter().position(|copy| copy.member == member) else {
            return Err(0);
        };
        let copy = known.copies.swap_remove(place);
        let is_original = |original: &ReasoningOriginal| original.member == copy.of;
        let text = known.originals.iter().find(|it| is_original(it));
        let len = usize::try_from(copy.len).unwrap_or(usize::MAX);
        let text = text.and_then(|original| Some(original.text.get(..len)?.to_vec()));
        if known.copies.iter().all(|other| other.of != copy.of) {
            let unused = known.originals.extract_if(.., |it| is_original(it));
            self.kept -= unused.map(|original| original.text.len()).sum::<usize>();
        }
        if known.copies.is_empty() {
            self.choices.swap_remove(at);
        }
        text.ok_or(copy.len)
    }
}

/// A member that was read in this delta.
struct ReadMember<'v> {
    member: ReasoningMember,
    texts: Vec<&'v [u8]>,
    /// True if its text begins in this delta.
    is_new: bool,
    /// The length of its text before this delta, if it has copies.
    before: u64,
}

/// Reads the reasoning of a delta or of a message.
pub(super) struct ReasoningReader<'r, 'v> {
    choice: u64,
    copies: &'r mut ReasoningCopies,
    /// True if the texts are whole and may have streamed.
    is_whole: bool,
    read: Vec<ReadMember<'v>>,
}

impl<'r, 'v> ReasoningReader<'r, 'v> {
    /// Returns the reader of a delta, of a message that does not stream, or, if `is_whole` is true, of a message that may
    /// repeat deltas.
    pub(super) fn new(
        choice: u64,
        copies: &'r mut ReasoningCopies,
        is_whole: bool,
    ) -> ReasoningReader<'r, 'v> {
        ReasoningReader {
            choice,
            copies,
            is_whole,
            read: Vec::new(),
        }
    }

    pub(super) fn read(
        mut self,
        reply: &mut ReplyEmitter,
        delta: &'v JsonValue<'_>,
        path: &JsonPath<'_>,
        on: EventSink<'_>,
    ) {
        self.read_members(reply, "", delta, path, on);
        if let Some(fields) = delta.get("provider_specific_fields") {
            let path = JsonPath::Member(path, b"provider_specific_fields");
            self.read_members(reply, "provider_specific_fields/", fields, &path, on);
            reply.count_unread_at(fields, &PROVIDER_FIELDS, &path, on);
        }
    }

    fn read_members(
        &mut self,
        reply: &mut ReplyEmitter,
        parent: &'static str,
        holder: &'v JsonValue<'_>,
        path: &JsonPath<'_>,
        on: EventSink<'_>,
    ) {
        for name in REASONING {
            match holder.get(name).map(|value| (value, value.string())) {
                Some((_, Some(text))) => self.push(reply, (parent, name), vec![text], on),
                Some((value, None)) => {
                    let path = JsonPath::Member(path, name.as_bytes());
                    reply.count_unread_at(value, &[], &path, on);
                }
                None => {}
            }
        }
        for name in REASONING_LISTS {
            let Some(list) = holder.get(name) else {
                continue;
            };
            let path = JsonPath::Member(path, name.as_bytes());
            if !list.is_array() {
                reply.count_unread_at(list, &[], &path, on);
            }
            let mut texts = Vec::new();
            for item in list.items() {
                let mut read = REASONING_TEXTS.to_vec();
                read.retain(|member| item.bytes(member).is_some());
                texts.extend(read.iter().filter_map(|member| item.bytes(member)));
                read.extend(REASONING_METADATA);
                reply.count_unread_at(item, &read, &JsonPath::Item(&path), on);
            }
            self.push(reply, (parent, name), texts, on);
        }
    }

    /// Emits the texts of a member, unless it is a copy.
    fn push(
        &mut self,
        reply: &mut ReplyEmitter,
        member: ReasoningMember,
        mut texts: Vec<&'v [u8]>,
        on: EventSink<'_>,
    ) {
        texts.retain(|text| !text.is_empty());
        if texts.is_empty() {
            return;
        }
        let (parent, name) = member;
        let name = match name {
            // The part `thinking` is that of `content`.
            "thinking" => "thinking_text",
            name => name,
        };
        let key = format!("choice/{}/{parent}{name}", self.choice);
        let spec = part_spec(&key, Channel::Reasoning);
        let is_new = reply.delivered(&key).is_none();
        if self.is_whole {
            return self.push_whole(reply, spec, member, texts, on);
        }
        let copies = &mut *self.copies;
        let choice = self.choice;
        let known = copies.copy(choice, member);
        let is_copy = known.is_some();
        let original = match known {
            Some(copy) => {
                let of = self.read.iter().find(|read| read.member == copy.of);
                let of = of.filter(|of| of.before == copy.len && is_same(&of.texts, &texts));
                copy.len += of.map_or(0, |_| len_of(&texts));
                of
            }
            None if is_new => {
                let mut read = self.read.iter();
                let of = read.find(|read| read.is_new && is_same(&read.texts, &texts));
                of.filter(|of| copies.add(choice, member, of.member, &texts))
            }
            None => None,
        };
        if let Some(original) = original {
            if original.texts != texts {
                copies.add_divided(original.texts[0], &texts);
            }
            return;
        }
        if is_copy {
            match copies.remove(choice, member) {
                Ok(beginning) => reply.push_delta(spec, &beginning, on),
                Err(len) => reply.count_unscanned(len, FORGOTTEN, on),
            }
        }
        let before = copies.original(choice, member).map_or(0, |it| it.len);
        for text in &texts {
            reply.push_delta(spec, text, on);
        }
        copies.append(choice, member, &texts);
        self.read.push(ReadMember {
            member,
            texts,
            is_new,
            before,
        });
    }

    /// Emits the texts of a member of a message, unless they repeat those of another one. Each text is whole, so it is compared
    /// with those of this message alone. Several texts are joined, and a redaction does not find them in one text.
    fn push_whole(
        &mut self,
        reply: &mut ReplyEmitter,
        spec: PartSpec<'_>,
        member: ReasoningMember,
        texts: Vec<&'v [u8]>,
        on: EventSink<'_>,
    ) {
        let is_copy = |read: &&ReadMember<'_>| {
            read.texts == texts || read.texts.len() == 1 && is_same(&read.texts, &texts)
        };
        if let Some(original) = self.read.iter().find(is_copy) {
            if original.texts != texts {
                self.copies.add_divided(original.texts[0], &texts);
            }
            return;
        }
        match &texts[..] {
            [text] => reply.push_whole(spec, text, on),
            _ => reply.push_whole(spec, &texts.concat(), on),
        }
        self.read.push(ReadMember {
            member,
            texts,
            is_new: false,
            before: 0,
        });
    }
}

/// Returns true if the texts are the same once they are joined. Halves of surrogate pairs are joined over deltas, and are
/// then other bytes than those in the copy.
fn is_same(texts: &[&[u8]], others: &[&[u8]]) -> bool {
    let joined = || texts.iter().copied().flatten();
    (texts == others || joined().eq(others.iter().copied().flatten()))
        && !texts.iter().any(|text| has_surrogate(text))
}

fn has_surrogate(text: &[u8]) -> bool {
    memchr::memchr_iter(0xED, text).any(|at| text.get(at + 1).is_some_and(|byte| *byte >= 0xA0))
}

fn len_of(texts: &[&[u8]]) -> u64 {
    texts.iter().map(|text| text.len() as u64).sum()
}
