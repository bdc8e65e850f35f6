//! One open part of a reply: its views, its matching state and its scope.
//!
//! `haystack` reads text for matches, `tool_input` decodes tool input, `views` finds regions, `detectors` and `limits`
//! run the detectors; `condition` combines matches, and `admit` with `scope` makes hits of them.

use std::mem::offset_of;
use std::sync::Arc;
use std::time::Duration;

use super::Counters;
use super::closed::ClosedPart;
use super::state::SharedState;
use crate::limits::Limits;
use crate::program::{ChannelRules, DetectorSpec, Program, StartOfPart, ViewSet};
use crate::rule::{Channel, ToolOutcome};
use crate::verdict::PartId;
use admit::{Admission, HaystackScope, PartContext};
pub(super) use deferred::MAX_DEFERRED;
use deferred::{DeferredText, MemberList};
use haystack::{FirstEndReader, HaystackReader, MatchContext};
use limits::PartLimits;
use scope::PartScope;
use tool_input::ToolInputReader;
use ttsr_automata::is_short;
use ttsr_automata::product::Product;
use ttsr_views::chunk::{Chunk, DecidedOffset};
use ttsr_views::detect::unknown_name::KnownNames;
use views::Views;

mod admit;
#[cfg(feature = "ast")]
mod ast;
mod commands;
pub(super) mod condition;
mod deferred;
mod detectors;
mod haystack;
mod limits;
mod pending;
mod scope;
mod tail_window;
mod tool_input;
mod views;

/// A part that is open. The fields that a delta of plain text touches come first, in 80 bytes.
// In the order of the source, which the representation of Rust does not promise. The same holds for `FirstEndReader` and
// `Window` within. All of a `Cursor` is touched, so its order does not matter.
// PERF: 80 bytes lie in two cache lines wherever an allocation begins, because it is aligned to 16 bytes; 96 bytes may lie
// in three, and 4,096 streams then take 10 % more time for a delta. Allocations aligned to cache lines lie further apart
// and take 40 % more (`cargo bench --all-features --bench versus`).
#[derive(Debug)]
#[repr(C)]
pub(super) struct OpenPart {
    id: PartId,
    channel: Channel,
    delivered: u64,
    reader: PartReader,
    scope: PartScope,
    limits: Option<Box<PartLimits>>,
    /// The index of the part in the order of opening.
    order: u32,
    /// The greatest result of [`releasable`](Self::releasable), which must not decrease.
    released: u64,
}

// The 80 bytes: a reader of text has no tag in front of it.
const _: () = {
    assert!(offset_of!(OpenPart, reader) + FirstEndReader::TOUCHED_BYTES <= 80);
    assert!(size_of::<PartReader>() == size_of::<FirstEndReader>());
};

/// The reader of a part, by what its rules need.
// Only the reader of plain text is not boxed: most parts are plain text, and their deltas read no memory but the part.
#[derive(Debug)]
enum PartReader {
    /// No rule reads the channel.
    Unwatched,
    /// First ends in the unchanged text.
    Text(FirstEndReader),
    /// Full matches, regions, folded text or detectors.
    Whole(Box<MatchReader>),
    /// The keys and values of a JSON object.
    ToolInput(Box<ToolInputReader>),
}

/// The reader of text for which first ends are not enough.
#[derive(Debug)]
struct MatchReader {
    deferred: DeferredText,
    /// `None` until text needs them: see [`deferred`].
    readers: Option<TextReaders>,
    channel: Channel,
}

/// The readers of a text and of its views.
#[derive(Debug)]
struct TextReaders {
    text: HaystackReader,
    views: Option<Box<Views>>,
}

impl OpenPart {
    /// Opens a part. `order` parts were opened before.
    pub(super) fn new(
        program: &Program,
        id: PartId,
        channel: Channel,
        order: u32,
        now: Duration,
    ) -> OpenPart {
        let rules = program.channel(channel);
        let limits = rules.and_then(|rules| PartLimits::new(rules, channel, now));
        let reader = match rules {
            None => PartReader::Unwatched,
            Some(rules) => PartReader::new(rules, channel, program.limits(), limits.is_some()),
        };
        OpenPart {
            id,
            channel,
            delivered: 0,
            reader,
            scope: PartScope::new(channel),
            limits,
            order,
            released: 0,
        }
    }

    #[inline]
    pub(super) fn id(&self) -> PartId {
        self.id
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Returns the index of the part in the order of opening.
    pub(super) fn order(&self) -> u32 {
        self.order
    }

    pub(super) fn tool(&self) -> Option<&str> {
        self.scope.tool.as_deref()
    }

    pub(super) fn call_id(&self) -> Option<&str> {
        self.scope.call.as_deref()
    }

    pub(super) fn path(&self) -> Option<&str> {
        let given = self.scope.given_path.as_deref();
        given.or(self.scope.files.first.as_deref())
    }

    /// Sets the file that the part is about.
    pub(super) fn set_path(&mut self, path: String) {
        self.scope.given_path = Some(path.into_boxed_str());
    }

    /// Sets the outcome of the tool call whose output the part is.
    pub(super) fn set_outcome(&mut self, outcome: ToolOutcome) {
        self.scope.outcome = outcome;
    }

    /// Adds the counts of the readers of this part.
    pub(super) fn count(&self, counters: &mut Counters) {
        match &self.reader {
            PartReader::Text(reader) => reader.count(counters),
            PartReader::Whole(reader) => reader.count(counters),
            PartReader::ToolInput(reader) => reader.count(counters),
            PartReader::Unwatched => {}
        }
    }

    fn context<'a>(&self, program: &'a Program, rules: &'a ChannelRules) -> PartContext<'a> {
        PartContext {
            program,
            rules,
            part: self.id,
            order: self.order,
        }
    }

    /// Sets the name of the tool and of the call, unless they are known already.
    pub(super) fn set_tool(
        &mut self,
        program: &Program,
        name: &str,
        call: &str,
        shared: &mut SharedState,
    ) {
        let is_new = self.scope.tool.is_none() && !name.is_empty();
        if is_new {
            self.scope.tool = Some(name.into());
        }
        if self.scope.call.is_none() && !call.is_empty() {
            self.scope.call = Some(call.into());
        }
        if is_new {
            self.check_tool_name(program, name, shared);
        }
        let SharedState { results, state } = shared;
        self.scope
            .resolve_pending(program, self.delivered, results, state);
        // After the pending matches, which may count.
        results.resolve_counts(program, state);
    }

    /// Admits the name of the tool for rules that report unknown tools.
    fn check_tool_name(&mut self, program: &Program, name: &str, shared: &mut SharedState) {
        let Some(rules) = program.channel(self.channel) else {
            return;
        };
        let host_names = shared.state.known.clone();
        let is_known = |known: &KnownNames| {
            known.holds(name) || host_names.as_ref().is_some_and(|known| known.holds(name))
        };
        let context = self.context(program, rules);
        let mut admission = Admission::new(context, &mut self.scope, shared);
        let at = self.delivered;
        for detector in &rules.detectors {
            if let DetectorSpec::UnknownTool(known) = &detector.spec
                && !is_known(known)
            {
                let found = ttsr_views::detect::Detection {
                    start: at,
                    end: at,
                    decided: at,
                };
                let context = MatchContext::whole(name.as_bytes());
                let scope = HaystackScope::default();
                admission.admit_finding(detector.rule, scope, found, Some(context));
            }
        }
        admission.resolve_queued();
    }

    /// Returns the number of bytes that no undecided match of a rule that holds can contain. Never decreases.
    #[inline]
    pub(super) fn releasable(&mut self, program: &Program) -> u64 {
        // PERF: most deltas end where all is decided. `search_releasable` would find the same with five times the instructions.
        match &self.reader {
            PartReader::Whole(reader)
                if reader.deferred.is_decided() && self.scope.is_decided() =>
            {
                self.released = self.delivered;
                self.released
            }
            _ => self.search_releasable(program),
        }
    }

    #[inline(never)]
    fn search_releasable(&mut self, program: &Program) -> u64 {
        let rules = program.channel(self.channel);
        let reading = match (&self.reader, rules) {
            (PartReader::Whole(reader), Some(rules)) => {
                let deferred = reader.deferred.undecided_from(self.delivered);
                let readers = reader.readers.as_ref();
                deferred.or_else(|| readers.and_then(|it| it.undecided_from(rules)))
            }
            (PartReader::ToolInput(reader), Some(rules)) => reader.undecided_from(rules),
            _ => None,
        };
        let pending = self.scope.undecided_from(program);
        let undecided = reading.into_iter().chain(pending).min();
        let decided = undecided.unwrap_or(self.delivered).min(self.delivered);
        self.released = self.released.max(decided);
        self.released
    }

    /// Compares the time of the stream with the limits.
    pub(super) fn tick(&mut self, program: &Program, shared: &mut SharedState) {
        self.with_limits(program, shared, PartLimits::tick);
    }

    /// Sets the number of tokens of this part, as counted by the host.
    pub(super) fn set_tokens(&mut self, program: &Program, tokens: u64, shared: &mut SharedState) {
        self.with_limits(program, shared, |limits, admission| {
            limits.set_tokens(admission, tokens);
        });
    }

    fn with_limits(
        &mut self,
        program: &Program,
        shared: &mut SharedState,
        check: impl FnOnce(&mut PartLimits, &mut Admission<'_>),
    ) {
        let Some(rules) = program.channel(self.channel) else {
            return;
        };
        let context = self.context(program, rules);
        if let Some(limits) = &mut self.limits {
            check(
                limits,
                &mut Admission::new(context, &mut self.scope, shared),
            );
        }
    }

    /// The fast path: steps a short delta of text that is searched for first ends alone, keeps a delta of other text in
    /// which nothing is reported (see [`deferred`]), or counts a delta that no rule reads. Otherwise it declines, and
    /// changes nothing but unused bytes of the window. A part with limits has no `Text` reader (`is_raw_only`) and never enters
    /// the product, so limits are not tested here.
    #[inline(always)]
    pub(super) fn push_short(&mut self, bytes: &[u8]) -> bool {
        let is_done = match &mut self.reader {
            PartReader::Text(reader) => is_short(bytes) && reader.push_short(bytes, |_| true),
            PartReader::Unwatched => true,
            PartReader::Whole(reader) => reader.deferred.push(bytes),
            PartReader::ToolInput(_) => false,
        };
        if is_done {
            self.delivered += bytes.len() as u64;
        }
        is_done
    }

    /// Reads a delta.
    pub(super) fn push(&mut self, program: &Program, bytes: &[u8], shared: &mut SharedState) {
        // Counted before anything returns: offsets count all bytes of the part, read or not.
        let at = self.delivered;
        self.delivered += bytes.len() as u64;
        let Some(rules) = program.channel(self.channel) else {
            return;
        };
        // A limit counts every delta, so it excludes the paths that end here.
        let is_short = self.limits.is_none() && is_short(bytes);
        let is_done = is_short
            && match &mut self.reader {
                PartReader::Text(reader) => {
                    reader.push_short_with_suffixes(&rules.raw.matcher, bytes)
                }
                PartReader::ToolInput(reader) => reader.push_short(bytes),
                _ => false,
            };
        if is_done {
            return;
        }
        let context = self.context(program, rules);
        let admission = &mut Admission::new(context, &mut self.scope, shared);
        if let Some(limits) = &mut self.limits {
            limits.push(admission, Chunk::verbatim(bytes, at));
        }
        match &mut self.reader {
            PartReader::Unwatched => {}
            PartReader::Text(reader) => {
                reader.push_verbatim(&rules.raw, admission, HaystackScope::default(), bytes, at);
            }
            PartReader::Whole(reader) => {
                if self.limits.is_some() || !reader.defer(admission, bytes, at) {
                    reader.push(admission, bytes, at);
                }
            }
            PartReader::ToolInput(reader) => {
                reader.push(admission, self.limits.as_deref_mut(), bytes);
            }
        }
    }

    /// Ends the part, and keeps what may still be asked about it. The part is then dropped.
    pub(super) fn close(&mut self, program: &Program, shared: &mut SharedState) {
        let at = self.delivered;
        if let Some(rules) = program.channel(self.channel) {
            let context = self.context(program, rules);
            let admission = &mut Admission::new(context, &mut self.scope, shared);
            let mut limits = self.limits.take();
            match &mut self.reader {
                PartReader::Text(reader) => {
                    let end = DecidedOffset {
                        offset: at,
                        decided: at,
                    };
                    reader.finish(&rules.raw, admission, HaystackScope::default(), end);
                }
                PartReader::Whole(reader) => reader.finish(admission, at),
                PartReader::ToolInput(reader) => {
                    reader.finish(admission, limits.as_deref_mut(), at);
                }
                PartReader::Unwatched => {}
            }
            if let Some(limits) = &mut limits {
                limits.finish(admission, at);
            }
        }
        let SharedState { results, state } = shared;
        // The readers are dropped with the part, so their counts move to the stream.
        self.count(&mut state.counters);
        // No tool and no file can become known from here on: matches that wait for one are decided without it.
        self.scope.is_closed = true;
        self.scope.resolve_pending(program, at, results, state);
        // After the pending matches, which may count.
        results.resolve_counts(program, state);
        state.end_part(self.id);
        let closed = ClosedPart::new(self.id, self.channel, at);
        state
            .closed
            .insert(closed, self.tool(), self.call_id(), self.path());
    }
}

impl PartReader {
    /// Returns the reader of a part. `has_limits` tells whether limits count its text.
    fn new(
        rules: &ChannelRules,
        channel: Channel,
        limits: &Limits,
        has_limits: bool,
    ) -> PartReader {
        if channel == Channel::ToolInput {
            PartReader::ToolInput(Box::new(ToolInputReader::new(rules, limits)))
        } else if rules.is_raw_only() {
            PartReader::Text(FirstEndReader::new(&rules.raw))
        } else {
            let mut reader = Box::new(MatchReader {
                deferred: DeferredText::default(),
                readers: None,
                channel,
            });
            // A limit counts every delta, so nothing is kept.
            if !has_limits {
                reader.begin(rules, limits);
            }
            PartReader::Whole(reader)
        }
    }
}

/// Returns the most bytes that readers may hold when text is kept: readers that read or advance over the kept text must not
/// reach the limit of the text that they hold.
fn max_held(limits: &Limits) -> usize {
    limits.stretch_bytes.saturating_sub(MAX_DEFERRED)
}

impl MatchReader {
    /// Enters the product at the start of the part, if the rules allow it: then there are no readers until text needs them.
    fn begin(&mut self, rules: &ChannelRules, limits: &Limits) {
        if !rules.products.has_start() {
            return;
        }
        let known = rules.products.start();
        let start = known.or_else(|| match rules.products.begins_again() {
            true => self.find_start(rules, limits),
            // A product reserves megabytes, so the first part of a channel makes it only if it has several deltas.
            false => None,
        });
        if let Some((views, product, start)) = start {
            self.deferred.begin(views, product, start);
        }
    }

    /// Finds the state of the product at the start of a part, by readers that read nothing.
    #[cold]
    fn find_start(
        &self,
        rules: &ChannelRules,
        limits: &Limits,
    ) -> Option<(ViewSet, Arc<Product>, StartOfPart)> {
        let mut readers = TextReaders::new(rules, self.channel);
        let views = readers.views.as_ref();
        // Detectors that report at any byte need readers at once, and may report at the end of the part.
        let until_report = views.map_or(usize::MAX, |it| it.bytes_until_report());
        let members = match until_report {
            0 => None,
            _ => readers.members_at_start(rules, limits),
        };
        match members {
            Some(members) => members.find_start(&rules.products, until_report),
            None => {
                rules.products.exclude_start();
                None
            }
        }
    }

    /// Builds the transitions that are missing on a delta, and keeps it, while there are no readers.
    #[cold]
    fn build_from_start(&mut self, rules: &ChannelRules, limits: &Limits, bytes: &[u8]) -> bool {
        let (deferred, readers) = self.with_readers(rules);
        let members = readers.members_at_start(rules, limits);
        let is_kept = members.is_some_and(|members| deferred.push_and_build(&members, bytes));
        if let Some(views) = &mut readers.views {
            views.return_to_start();
        }
        is_kept
    }

    /// Returns the kept text and the readers, which are made if there are none.
    fn with_readers(&mut self, rules: &ChannelRules) -> (&mut DeferredText, &mut TextReaders) {
        let channel = self.channel;
        let readers = self
            .readers
            .get_or_insert_with(|| TextReaders::new(rules, channel));
        (&mut self.deferred, readers)
    }

    /// Keeps a delta in which no matcher reports anything, see [`deferred`]. Returns false, and reads nothing of the delta,
    /// if the product declines it or it is longer than [`MAX_DEFERRED`].
    fn defer(&mut self, admission: &mut Admission<'_>, bytes: &[u8], at: u64) -> bool {
        if bytes.len() > MAX_DEFERRED {
            return false;
        }
        if !self.deferred.has_room(bytes.len()) {
            // This leaves the product. `build_and_defer` below enters it again, so the delta may still be kept.
            self.read_deferred(admission, at);
        }
        // Built transitions first: most deltas need no list of members and no lock.
        let is_kept =
            self.deferred.push_matchers(bytes) || self.build_and_defer(admission, bytes, at);
        if !is_kept {
            return false;
        }
        if self.deferred.may_be_reported() {
            self.detect_deferred(admission, at + bytes.len() as u64);
        }
        true
    }

    /// Lets the detectors read the deferred text, which ends at offset `end`.
    fn detect_deferred(&mut self, admission: &mut Admission<'_>, end: u64) {
        let (deferred, readers) = self.with_readers(admission.context.rules);
        if let (true, Some(views)) = (deferred.may_be_reported(), &mut readers.views) {
            // Invariant 3 of `deferred`. Bytes of earlier deltas may be unread: nothing could be reported in them.
            for unread in deferred.unread_by_detectors(end) {
                views.push_detectors(admission, unread);
            }
            if !deferred.set_detected(views.bytes_until_report()) {
                self.read_deferred(admission, end);
            }
            admission.resolve_queued();
        }
    }

    /// Enters the product if it is not entered, and keeps the delta if all transitions exist or can be built.
    fn build_and_defer(&mut self, admission: &mut Admission<'_>, bytes: &[u8], at: u64) -> bool {
        let rules = admission.context.rules;
        let limits = admission.context.program.limits();
        if self.deferred.is_from_start() {
            if self.build_from_start(rules, limits, bytes) {
                return true;
            }
            self.read_deferred(admission, at);
        }
        let max_held = max_held(limits);
        let (deferred, readers) = self.with_readers(rules);
        // Asked for before the fields are borrowed, and only while the readers have read all text: later their answer
        // would leave out the kept text.
        let undecided_from = match deferred.is_entered() {
            true => None,
            false => readers.undecided_from(rules),
        };
        let TextReaders { text, views } = readers;
        let mut members = MemberList::new(text.any_member(&rules.raw));
        // Invariants 2 and 4 of `deferred`: false if a search or a match waits, or if a view changes the text.
        let is_plain = text.add_members(&rules.raw, max_held, &mut members)
            && match &*views {
                Some(views) => views.add_members(rules, max_held, &mut members),
                None => true,
            };
        if !is_plain {
            return false;
        }
        if !deferred.is_entered() {
            let until_report = views
                .as_ref()
                .map_or(usize::MAX, |it| it.bytes_until_report());
            let undecided_from = undecided_from.unwrap_or(at);
            deferred.enter(&rules.products, &members, undecided_from, until_report);
        }
        deferred.push_and_build(&members, bytes)
    }

    /// Advances the readers over the deferred text, which ends at offset `end`.
    fn read_deferred(&mut self, admission: &mut Admission<'_>, end: u64) {
        let rules = admission.context.rules;
        let limits = admission.context.program.limits();
        let (deferred, readers) = self.with_readers(rules);
        // Before `stepped`, which holds the lock of the product.
        let must_enter = deferred.is_from_start() && deferred.has_settled();
        let has_states = !must_enter || readers.enter(deferred, rules, limits);
        if let Some(mut stepped) = deferred.stepped() {
            let TextReaders { text, views } = readers;
            let chunk = Chunk::verbatim(stepped.bytes, end - stepped.kept as u64);
            let unread = stepped.unread_by_detectors();
            if !has_states {
                // These cursors are of other tables than the product, so they step the text. It has no report.
                let scope = HaystackScope::default();
                text.push(&rules.raw, admission, scope, chunk);
                if let Some(views) = views {
                    views.push_without_detectors(admission, &chunk);
                }
            } else {
                // Invariant 1 of `deferred`: the cursors take their states from the tuple in the order of `add_members`,
                // the unchanged text first, then the views.
                text.advance(&rules.raw, chunk, &mut stepped);
                if let Some(views) = views {
                    views.advance(rules, chunk, &mut stepped);
                }
            }
            if let Some(views) = views {
                unread.for_each(|range| views.push_detectors(admission, chunk.slice(range)));
            }
        }
        // The cursors move on without the product, so its state is void.
        let unsettled = self.deferred.leave();
        if !unsettled.is_empty() {
            self.read(admission, &unsettled, end - unsettled.len() as u64);
        }
        self.deferred.reuse(unsettled);
    }

    fn push(&mut self, admission: &mut Admission<'_>, bytes: &[u8], at: u64) {
        // The kept text comes first: excerpts and offsets of this delta continue it.
        self.read_deferred(admission, at);
        self.read(admission, bytes, at);
        admission.resolve_queued();
    }

    /// Reads text that starts at offset `at`, with all readers.
    fn read(&mut self, admission: &mut Admission<'_>, bytes: &[u8], at: u64) {
        let chunk = Chunk::verbatim(bytes, at);
        let rules = admission.context.rules;
        let (_, TextReaders { text, views }) = self.with_readers(rules);
        text.push(&rules.raw, admission, HaystackScope::default(), chunk);
        if let Some(views) = views {
            views.push(admission, None, &chunk);
        }
    }

    fn finish(&mut self, admission: &mut Admission<'_>, end: u64) {
        if !self.deferred.ends_without_match() {
            self.finish_readers(admission, end);
        }
        // Queued matches first: one of them may complete or cancel a condition that the end of the part decides.
        admission.resolve_queued();
        admission.finish_part(end);
    }

    fn finish_readers(&mut self, admission: &mut Admission<'_>, end: u64) {
        self.read_deferred(admission, end);
        let text_end = DecidedOffset {
            offset: end,
            decided: end,
        };
        let rules = admission.context.rules;
        let (_, TextReaders { text, views }) = self.with_readers(rules);
        text.finish(&rules.raw, admission, HaystackScope::default(), text_end);
        if let Some(views) = views {
            views.close(admission, None, text_end);
            views.finish(admission, end);
        }
    }

    fn count(&self, counters: &mut Counters) {
        if let Some(TextReaders { text, views }) = &self.readers {
            text.count(counters);
            views.iter().for_each(|views| views.count(counters));
        }
    }
}

impl TextReaders {
    fn new(rules: &ChannelRules, channel: Channel) -> TextReaders {
        TextReaders {
            text: HaystackReader::new(&rules.raw),
            views: Views::new(rules, channel),
        }
    }

    /// Returns the matchers that read the start of a part. `None` if some text without a match needs more than their steps.
    /// Afterwards the views [return to the start](Views::return_to_start).
    fn members_at_start<'a>(
        &'a mut self,
        rules: &'a ChannelRules,
        limits: &Limits,
    ) -> Option<MemberList<'a>> {
        let TextReaders { text, views } = self;
        let max_held = max_held(limits);
        let mut members = MemberList::new(text.any_member(&rules.raw));
        let is_plain = text.add_members(&rules.raw, max_held, &mut members)
            && views
                .as_deref_mut()
                .is_none_or(|it| it.add_members_at_start(rules, max_held, &mut members));
        is_plain.then_some(members)
    }

    /// Brings readers that have read nothing to the start of the part. Returns false, and changes nothing, if that is not the
    /// state in which the product was entered.
    fn enter(&mut self, deferred: &DeferredText, rules: &ChannelRules, limits: &Limits) -> bool {
        let members = self.members_at_start(rules, limits);
        let is_entered = members.is_some_and(|members| deferred.is_entered_by(&members));
        if let Some(views) = &mut self.views {
            match is_entered {
                true => views.begin_prose(),
                false => views.return_to_start(),
            }
        }
        is_entered
    }

    fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let views = self.views.as_ref();
        let views = views.and_then(|views| views.undecided_from(rules));
        let text = self.text.undecided_from(&rules.raw);
        text.into_iter().chain(views).min()
    }
}

#[cfg(test)]
mod tests;
