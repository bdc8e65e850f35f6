//! Text that a part has received and that its readers have not read yet.
//!
//! Most text contains no match. The product of the matchers ([`Product`]) is stepped over each delta. If no matcher would
//! report anything, the delta is kept and no reader is called. Before any other delta is read, the cursors of the matchers
//! move to the states that the product has reached, and the readers advance over the kept text: they copy what excerpts and
//! matches in progress need of it.
//!
//! # Invariants
//!
//! 1. The state of the product is the tuple of the states of the matchers after the kept text. None of them reports a
//!    pattern in it.
//! 2. Up to the last settled state of the filter, the views emit the kept text unchanged or without the marks of headings.
//!    No region begins or ends in it but a heading, which no reader distinguishes from other prose. The text after that
//!    state, if any, is the start of a line, which Markdown would buffer: if it cannot be kept any longer, the readers read
//!    it like any other text.
//! 3. Detectors have read the first `detected` bytes, and cannot report within `until_report` bytes after them. They have
//!    read no byte that is not settled.
//! 4. The product is entered only while no search and no match of a condition waits, so text without a match cannot decide
//!    anything.
//!
//! 5. At the start of a part there need not be readers: the state of the product is that of readers which have read nothing
//!    ([`ProductCache::start`]). Invariants 1 to 4 hold for readers that would have read the kept text. Those that are made
//!    later advance over it or read it before they read anything else, and report nothing in it. If the part ends before,
//!    they are not made.
//!
//! By 1 to 5 a hit is reported in the same call, with the same offsets, as if each delta were read at once. In text that
//! Markdown buffers, the readers of its output cannot find anything, and those of the unchanged text find nothing by 1.
//! Text may be released a little later: the product knows where all matchers that hold are idle, not where each of them is.

use std::ops::Range;
use std::sync::Arc;

use memchr::memrchr;

use super::haystack::floor_char_boundary;
use crate::program::{ProductCache, StartOfPart, ViewSet, ViewSource};
use ttsr_automata::product::{
    IdlePositions, Member, MemberStates, Product, ProductState, ProductStep,
};
use ttsr_views::chunk::Chunk;
use ttsr_views::markdown::VerbatimState;

/// The most bytes that are kept.
// PERF: the costs of advancing the readers are spread over as many bytes. They copy only the last 256 to their windows, and
// Markdown reads only the last lines. With 256 bytes and all lines, recorded text takes 14 % more instructions
// (`cargo bench --bench shipped`).
pub(in crate::stream) const MAX_DEFERRED: usize = 1024;

/// The most matchers of a product.
const MAX_MEMBERS: usize = 16;

/// The matchers that read a text, in the order of their views.
pub(super) struct MemberList<'a> {
    members: [Member<'a>; MAX_MEMBERS],
    len: usize,
    /// The views that read the text.
    views: ViewSet,
    /// The state of Markdown, which is that of the filter. `None` without Markdown.
    markdown: Option<VerbatimState>,
    /// The most bytes before the end of the text in which a match of a rule that holds may be in progress, if they are bounded.
    held_reach: Option<usize>,
    is_too_long: bool,
}

impl<'a> MemberList<'a> {
    /// Returns an empty list. `any` is any member.
    pub(super) fn new(any: Member<'a>) -> MemberList<'a> {
        MemberList {
            members: [any; MAX_MEMBERS],
            len: 0,
            views: ViewSet::default(),
            markdown: None,
            held_reach: Some(0),
            is_too_long: false,
        }
    }

    /// Adds the matches of rules that hold: they may be in progress in as many bytes before the end of the text.
    pub(super) fn add_held(&mut self, reach: Option<usize>) {
        self.held_reach = self
            .held_reach
            .zip(reach)
            .map(|(known, reach)| known.max(reach));
    }

    /// Adds a matcher.
    pub(super) fn add(&mut self, added: Member<'a>) {
        match self.members.get_mut(self.len) {
            Some(member) => {
                *member = added;
                self.len += 1;
            }
            None => self.is_too_long = true,
        }
    }

    /// Sets the state of Markdown.
    pub(super) fn set_markdown(&mut self, state: VerbatimState) {
        self.markdown = Some(state);
    }

    /// Returns the state of the filter. Without Markdown it has only one.
    fn filter(&self) -> u8 {
        self.markdown.map_or(0, VerbatimState::index)
    }

    /// Adds a view, whose matchers follow.
    pub(super) fn add_view(&mut self, index: usize) {
        self.is_too_long |= !self.views.insert(index);
    }

    /// Finds the state of the product of these members, which are at the start of a part, and adds it to the cache. No detector
    /// can report within `until_report` bytes.
    pub(super) fn find_start(
        &self,
        cache: &ProductCache,
        until_report: usize,
    ) -> Option<(ViewSet, Arc<Product>, StartOfPart)> {
        let (views, members) = self.get()?;
        let product = cache.get(views)?;
        let start = StartOfPart {
            state: product.start(members, self.filter())?,
            markdown: self.markdown,
            until_report,
            held_reach: self.held_reach,
        };
        cache.set_start(views, &product, start);
        Some((views, product, start))
    }

    /// Returns the views and the members, if they fit.
    pub(super) fn get(&self) -> Option<(ViewSet, &[Member<'a>])> {
        (!self.is_too_long).then(|| (self.views, &self.members[..self.len]))
    }
}

/// The text that is kept, and the state of the product after it.
#[derive(Debug, Default)]
pub(super) struct DeferredText {
    bytes: Vec<u8>,
    /// The product of these views, the last that was used.
    product: Option<(ViewSet, Arc<Product>)>,
    /// The state after the kept text. `None` if the product is not entered; then nothing is kept.
    state: Option<ProductState>,
    /// The state before the kept text.
    entered: Option<ProductState>,
    /// The state of Markdown before the kept text. `None` without Markdown.
    markdown: Option<VerbatimState>,
    /// The last idle positions in the kept text. Before the first of them, `undecided_from` holds.
    idle: IdlePositions,
    /// The number of bytes that the detectors have read.
    detected: usize,
    /// The number of bytes after these within which no detector can report.
    until_report: usize,
    /// The offset of the first byte that was undecided when the product was entered.
    undecided_from: u64,
    /// See [`MemberList`].
    held_reach: Option<usize>,
    /// True if the kept text is all text of the part and its readers, which may not exist yet, have read none of it.
    is_from_start: bool,
}

/// The kept text, over which the product has been stepped and the readers advance.
pub(super) struct SteppedText<'a> {
    /// Up to the last settled state.
    pub(super) bytes: &'a [u8],
    /// The number of all kept bytes, of which `bytes` are the first.
    pub(super) kept: usize,
    /// The state of Markdown before `bytes`. `None` without Markdown.
    markdown: Option<VerbatimState>,
    /// The states of the matchers after `bytes`, in the order of the members.
    pub(super) states: MemberStates<'a>,
    /// The last positions at which no full match was in progress.
    pub(super) idle: IdlePositions,
    /// The number of bytes that the detectors have read.
    pub(super) detected: usize,
}

impl DeferredText {
    /// Keeps a delta if nothing in it can be reported. Returns false, and changes nothing, if the product is not entered or
    /// has no built transition on it, detectors must read it, or there is no room.
    #[inline]
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        self.cannot_report_in(bytes.len()) && self.push_matchers(bytes)
    }

    /// As [`push`](Self::push), without the test for detectors: the caller lets them read.
    #[inline]
    pub(super) fn push_matchers(&mut self, bytes: &[u8]) -> bool {
        self.push_with(bytes, |product, state, bytes| product.step(state, bytes))
    }

    /// As [`push_matchers`](Self::push_matchers), and builds transitions that are missing.
    pub(super) fn push_and_build(&mut self, members: &MemberList<'_>, bytes: &[u8]) -> bool {
        let Some((_, members)) = members.get() else {
            return false;
        };
        // Most transitions exist, and building takes a lock.
        self.push_with(bytes, |product, state, bytes| {
            let step = product.step(state, bytes);
            step.or_else(|| product.build(members, state, bytes))
        })
    }

    #[inline(always)]
    fn push_with(
        &mut self,
        bytes: &[u8],
        step: impl FnOnce(&Product, ProductState, &[u8]) -> Option<ProductStep>,
    ) -> bool {
        // The room is tested first: a longer delta would be stepped in vain.
        let has_room = self.has_room(bytes.len());
        let (Some(state), Some((_, product)), true) = (self.state, &self.product, has_room) else {
            return false;
        };
        // Invariants 1 and 2: there is a transition only where no matcher reports and the filter accepts the byte.
        match step(product, state, bytes) {
            Some(step) => {
                self.keep(bytes, step);
                true
            }
            None => false,
        }
    }

    /// Returns true if `len` more bytes can be kept.
    #[inline]
    pub(super) fn has_room(&self, len: usize) -> bool {
        self.bytes.len() + len <= MAX_DEFERRED
    }

    #[inline(always)]
    fn keep(&mut self, bytes: &[u8], step: ProductStep) {
        let before = self.bytes.len();
        // Positions of a step count from the start of its delta. 0 means none in this delta, so an earlier one stays.
        if step.idle.held > 0 {
            self.idle.held = before + step.idle.held;
        }
        if step.idle.all > 0 {
            self.idle.all = before + step.idle.all;
        }
        // Once a part, at its greatest size: later deltas do not allocate.
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(MAX_DEFERRED);
        }
        self.bytes.extend_from_slice(bytes);
        self.state = Some(step.state);
    }

    /// Enters the product at the start of a part, before there are readers.
    pub(super) fn begin(&mut self, views: ViewSet, product: Arc<Product>, start: StartOfPart) {
        self.product = Some((views, product));
        (self.state, self.entered) = (Some(start.state), Some(start.state));
        (self.until_report, self.undecided_from) = (start.until_report, 0);
        self.markdown = start.markdown;
        self.held_reach = start.held_reach;
        self.is_from_start = true;
    }

    /// Returns true if the readers have read no text of the part.
    #[inline]
    pub(super) fn is_from_start(&self) -> bool {
        self.is_from_start
    }

    /// Returns true if the end of the part decides nothing in text that no reader has read.
    pub(super) fn ends_without_match(&self) -> bool {
        let ends = |state: ProductState| state.is_settled() && state.ends_without_match();
        self.is_from_start && self.state.is_some_and(ends)
    }

    /// Returns true if these members are in the state in which the product was entered.
    pub(super) fn is_entered_by(&self, members: &MemberList<'_>) -> bool {
        let (Some(entered), Some((views, product))) = (self.entered, &self.product) else {
            return false;
        };
        members.get().is_some_and(|(of, list)| {
            of == *views && product.start(list, members.filter()) == Some(entered)
        })
    }

    /// Returns true if the product is entered.
    pub(super) fn is_entered(&self) -> bool {
        self.state.is_some()
    }

    /// Enters the product of these members, if they have a state in it. `undecided_from` is the offset of the first byte
    /// that may be part of a match that is held; no detector can report within `until_report` bytes.
    pub(super) fn enter(
        &mut self,
        cache: &ProductCache,
        members: &MemberList<'_>,
        undecided_from: u64,
        until_report: usize,
    ) {
        let (filter, held_reach) = (members.filter(), members.held_reach);
        self.markdown = members.markdown;
        let Some((views, members)) = members.get() else {
            return;
        };
        // The regions in progress determine which views read the text, so the product may be another one than before.
        if self.product.as_ref().is_none_or(|(of, _)| *of != views) {
            self.product = cache.get(views).map(|product| (views, product));
        }
        let Some((_, product)) = &mut self.product else {
            return;
        };
        // Invariant 1, for no kept text: the state is the tuple of the present states of the cursors.
        self.state = product.start(members, filter);
        // Outdated matters only without a state: a product in which these cursors have a state has their tables.
        let is_spent = product.is_full() || self.state.is_none() && product.is_outdated(members);
        if is_spent && let Some(next) = cache.replace(views, product) {
            *product = next;
            self.state = product.start(members, filter);
        }
        self.entered = self.state;
        // Invariant 3: nothing is kept yet, and `leave` has set `detected` to 0.
        (self.until_report, self.undecided_from) = (until_report, undecided_from);
        self.held_reach = held_reach;
    }

    /// Returns true if no detector can report within the next `len` bytes.
    #[inline]
    fn cannot_report_in(&self, len: usize) -> bool {
        self.undetected_len() + len <= self.until_report
    }

    /// Returns the number of kept bytes up to the last settled state.
    #[inline]
    fn settled_len(&self) -> usize {
        match self.state {
            Some(state) if !state.is_settled() => {
                // The state before the kept text is settled, and so is the start of a line.
                memrchr(b'\n', &self.bytes).map_or(0, |feed| feed + 1)
            }
            _ => self.bytes.len(),
        }
    }

    /// Returns true if a detector could report in the kept text.
    #[inline]
    pub(super) fn may_be_reported(&self) -> bool {
        !self.cannot_report_in(0)
    }

    /// Returns the settled text that no detector has read, which ends at offset `end`, as the views emit it.
    pub(super) fn unread_by_detectors(&self, end: u64) -> impl Iterator<Item = Chunk<'_>> {
        let chunk = Chunk::verbatim(&self.bytes, end - self.bytes.len() as u64);
        let settled = &self.bytes[..self.settled_len()];
        emitted(self.markdown, settled, self.detected).map(move |range| chunk.slice(range))
    }

    /// Returns the number of kept bytes that no detector has read.
    fn undetected_len(&self) -> usize {
        self.bytes.len() - self.detected
    }

    /// Records that detectors have read all settled bytes, and cannot report within the next `until_report`. Returns false
    /// if they could report in the bytes after these.
    pub(super) fn set_detected(&mut self, until_report: usize) -> bool {
        // Invariant 3: the distance counts from the last byte that was read, so both change together.
        self.detected = self.settled_len();
        self.until_report = until_report;
        self.cannot_report_in(0)
    }

    /// Returns true if there is kept text up to a settled state.
    pub(super) fn has_settled(&self) -> bool {
        self.settled_len() > 0
    }

    /// Returns the kept text up to the last settled state, if there is any. It holds the lock of the product that readers
    /// share, so the thread must not look a state up before it is dropped: another thread may wait to add one.
    pub(super) fn stepped(&self) -> Option<SteppedText<'_>> {
        let (Some(entered), Some(state), Some((_, product))) =
            (self.entered, self.state, &self.product)
        else {
            return None;
        };
        let bytes = &self.bytes[..self.settled_len()];
        if bytes.is_empty() {
            return None;
        }
        let ProductStep { state, idle } = match bytes.len() == self.bytes.len() {
            true => ProductStep {
                state,
                idle: self.idle,
            },
            // The state there was not kept. No transition is ever removed.
            false => product
                .step(entered, bytes)
                .expect("the product has stepped this text"),
        };
        Some(SteppedText {
            states: product.member_states(state, bytes),
            kept: self.bytes.len(),
            bytes,
            markdown: self.markdown,
            idle,
            detected: self.detected,
        })
    }

    /// Leaves the product. Returns the kept bytes after the last settled state, which the readers have yet to read.
    pub(super) fn leave(&mut self) -> Vec<u8> {
        let settled = self.settled_len();
        let mut unsettled = std::mem::take(&mut self.bytes);
        unsettled.drain(..settled);
        // `product` stays: the next text is most often read by the same views.
        (self.state, self.entered) = (None, None);
        self.is_from_start = false;
        self.detected = 0;
        self.idle = IdlePositions::default();
        unsettled
    }

    /// Takes back the buffer of [`leave`](Self::leave).
    pub(super) fn reuse(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.bytes = buffer;
    }

    /// Returns true if text is kept and no match in progress of a rule that holds contains its last byte.
    #[inline]
    pub(super) fn is_decided(&self) -> bool {
        self.idle.held > 0 && self.idle.held == self.bytes.len()
    }

    /// Returns the offset of the first byte that a match in progress of a rule that holds may contain, if any byte is kept.
    /// `end` is the offset after the last byte; it is returned if all is decided.
    pub(super) fn undecided_from(&self, end: u64) -> Option<u64> {
        let undecided = match (self.bytes.len(), self.idle.held) {
            // The readers have read all text, and know better.
            (0, _) => return None,
            // Not idle since the product was entered: a match may have begun before.
            (_, 0) => self.undecided_from,
            (len, idle) => end - (len - idle) as u64,
        };
        let first = self.first_held(end - undecided);
        Some(first.map_or(undecided, |first| {
            undecided.max(end - (self.bytes.len() - first) as u64)
        }))
    }

    /// Returns the index of the first kept byte that a match in progress may contain. `None` if such a match may have `held`
    /// bytes or more, or may begin before the kept text.
    fn first_held(&self, held: u64) -> Option<usize> {
        let reach = self.held_reach.filter(|reach| held > *reach as u64)?;
        // Markdown may drop bytes of what is not settled, so that a match has more bytes than the view.
        let settled = &self.bytes[..self.settled_len()];
        let first = settled.len().checked_sub(reach)?;
        // It drops the marks of headings, too.
        let line = memrchr(b'\n', &settled[..first]).map_or(0, |feed| feed + 1);
        let is_dropped = |markdown: VerbatimState| {
            let ranges = markdown.emitted(settled, line);
            let lens = ranges.map(|range| range.end.saturating_sub(range.start.max(first)));
            lens.sum::<usize>() < reach
        };
        let first = floor_char_boundary(settled, first);
        (!self.markdown.is_some_and(is_dropped)).then_some(first)
    }
}

impl<'a> SteppedText<'a> {
    /// Returns the ranges of the text that a reader of a view from this source reads.
    pub(super) fn read_from(
        &self,
        source: Option<ViewSource>,
    ) -> impl Iterator<Item = Range<usize>> + Clone + use<'a> {
        emitted(self.markdown.filter(|_| source.is_some()), self.bytes, 0)
    }

    /// Returns the ranges of the text that the detectors have yet to read.
    pub(super) fn unread_by_detectors(&self) -> impl Iterator<Item = Range<usize>> + use<'a> {
        emitted(self.markdown, self.bytes, self.detected)
    }
}

/// Returns the ranges of a text after its first `from` bytes that Markdown emits. Its state is that before the text; without
/// Markdown it is all text.
fn emitted(
    markdown: Option<VerbatimState>,
    text: &[u8],
    from: usize,
) -> impl Iterator<Item = Range<usize>> + Clone {
    let ranges = markdown.map(|state| state.emitted(text, from));
    let all = markdown.is_none().then_some(from..text.len());
    let ranges = ranges.into_iter().flatten().chain(all);
    ranges.filter(|range| !range.is_empty())
}
