//! The judgement of one reply: bytes of the server in, bytes for the client out. Without I/O and without a clock.
//!
//! Each event is read by the reader of `ttsr_wire`, and its texts are judged in `parts`. The bytes of an event are
//! released unchanged, in the order in which they arrived, once no rule holds a text in it and the tool call that it is
//! part of is complete. Only an event with redacted text is rewritten (`json_edit`), and only its texts change. When a
//! rule cuts, the events that are not released are dropped, and `api` ends the reply.

mod api;
mod array_frames;
#[cfg(any(test, feature = "test-support"))]
mod array_oracle;
mod frames;
mod held_frames;
mod json_edit;
mod output;
mod parts;
mod quotes;
mod sse_frames;
#[cfg(test)]
pub(crate) mod tests;
mod text_digest;
mod usage;
mod whole_body;

use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use smallvec::SmallVec;
use ttsr::conversation::Note;
use ttsr::{Action, Conversation, DecisionRecord, Event, Mode, Pack};
use ttsr_wire::{JsonValue, Reader, TextCopy, WireRecord};

use crate::config::{BlockEnding, ProxyConfig};
use crate::routes::ModelApi;
use api::{EventHold, ReplyApi, ReplyEvent, SplicedEvent, reply_api};
pub(crate) use api::{ReplyId, id_of_whole};
#[cfg(any(test, feature = "test-support"))]
pub use array_oracle::check_array_frames;
pub(crate) use frames::{BodyFrames, StreamFraming};
use held_frames::{HeldFrame, HeldFrames};
use json_edit::rewrite;
use output::JudgedOutput;
pub(crate) use parts::{Block, RetryMessage, warning};
use parts::{FrameTexts, JudgedParts, is_truncated};
pub(crate) use usage::TokenUsage;
use usage::UsageOfAttempts;
pub(crate) use whole_body::WholeBodyVerdict;

/// The name of streams to which the provider gives no id.
const UNNAMED: &str = "reply";

/// The most paths of a reply whose strings are counted separately.
const PATHS: usize = 64;

/// The settings of the judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JudgeSettings {
    pub(crate) ending: BlockEnding,
    /// True if a reply that cannot be read passes.
    pub(crate) fail_open: bool,
    pub(crate) mode: Mode,
    /// The most bytes that are held at a time.
    pub(crate) held_bytes: usize,
    /// True if the request can be sent again.
    pub(crate) can_retry: bool,
}

impl JudgeSettings {
    pub(crate) fn new(config: &ProxyConfig) -> JudgeSettings {
        JudgeSettings {
            ending: config.ending,
            fail_open: config.fail_open,
            mode: config.mode,
            held_bytes: config.limits.held_bytes,
            can_retry: false,
        }
    }
}

/// Another attempt at a reply that a rule cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RepeatedAttempt {
    /// The cut.
    pub(crate) block: Block,
    /// Guidance of other rules that goes with it.
    pub(crate) notes: Vec<Note>,
}

/// The actions of rules on one reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReplyReport {
    /// True if the reply was stopped.
    pub(crate) is_blocked: bool,
    /// True if the reply could not be read, and passed or was stopped because of it.
    pub(crate) is_unreadable: bool,
    /// Number of redact decisions.
    pub(crate) redactions: u64,
    /// Number of warnings.
    pub(crate) warnings: u64,
    /// Number of requests that were sent again.
    pub(crate) retries: u64,
    /// The tokens of all attempts.
    pub(crate) usage: TokenUsage,
    /// The full id of the rule that stopped the reply.
    pub(crate) rule: Option<String>,
    /// Bytes of strings that no reader knows, by their path.
    pub(crate) unscanned: BTreeMap<String, u64>,
}

/// A reply that has ended.
pub(crate) struct EndedReply<'j> {
    pub(crate) conversation: &'j Conversation,
    /// True if the reply has its end, and no rule stopped it.
    pub(crate) is_complete: bool,
    /// `None` if no later request can continue the reply by its id.
    pub(crate) id: Option<ReplyId>,
}

impl EndedReply<'_> {
    /// Returns the end of a reply whose client has gone away.
    pub(crate) fn cut(conversation: &Conversation) -> EndedReply<'_> {
        EndedReply {
            conversation,
            is_complete: false,
            id: None,
        }
    }
}

/// The server's bytes ended before the reply was complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TruncatedBody;

/// The events of a frame. Most frames have one.
type ArrivedEvents = SmallVec<[Event; 1]>;

/// An event that arrived.
struct ArrivedFrame {
    bytes: Bytes,
    has_text: bool,
    /// The records in its data, without those that differ from the last one in their text alone: what the last one depends
    /// on, it waits for itself, and it is sent first.
    records: Vec<ReplyEvent>,
    /// The places of its texts, as [`Reader::take_places`] returns them.
    places: Vec<(usize, usize)>,
    /// The texts that repeat others, as [`Reader::take_copies`] returns them.
    copies: Vec<TextCopy>,
    is_damaged: bool,
}

/// The judgement of one response body.
pub(crate) struct ReplyJudge {
    settings: JudgeSettings,
    api: Box<dyn ReplyApi>,
    reader: Reader,
    frames: BodyFrames,
    /// The bytes of the events before the latest one that are part of the same JSON document.
    partial: Vec<u8>,
    parts: JudgedParts,
    held: HeldFrames,
    /// Tool calls that are not complete.
    open_calls: HashSet<u64>,
    out: JudgedOutput,
    /// True after the first event with text.
    has_text: bool,
    is_over: bool,
    /// The cut after which another attempt is made, until its first event arrives.
    cut: Option<Block>,
    /// True until the response to that attempt begins.
    is_waiting: bool,
    next: Option<RepeatedAttempt>,
    /// The number of reply ends reported to the session, and true if the end of the body was reported.
    reported_ends: (u64, bool),
    usage: UsageOfAttempts,
    report: ReplyReport,
}

impl ReplyJudge {
    /// Returns the judgement of a reply of that API, streamed in `frames`, in a new conversation, or `None` if the API
    /// cannot be judged.
    pub(crate) fn new(
        api: ModelApi,
        frames: BodyFrames,
        pack: &Pack,
        settings: JudgeSettings,
    ) -> Option<ReplyJudge> {
        let mut conversation = Conversation::new(pack);
        conversation.set_mode(settings.mode);
        conversation.start_turn();
        ReplyJudge::in_conversation(api, frames, conversation, settings)
    }

    /// Returns the judgement of a reply in the turn of a conversation, or `None` if the API cannot be judged.
    pub(crate) fn in_conversation(
        api: ModelApi,
        frames: BodyFrames,
        conversation: Conversation,
        settings: JudgeSettings,
    ) -> Option<ReplyJudge> {
        let api = reply_api(api)?;
        // Messages never repeats a part.
        let repeats = api.format() != ttsr_wire::WireFormat::AnthropicMessages;
        Some(ReplyJudge {
            settings,
            reader: new_reader(&*api),
            out: JudgedOutput::new(frames.framing()),
            frames,
            partial: Vec::new(),
            parts: JudgedParts::new(conversation, settings.mode, repeats),
            api,
            held: HeldFrames::default(),
            open_calls: HashSet::new(),
            has_text: false,
            is_over: false,
            cut: None,
            is_waiting: false,
            next: None,
            reported_ends: (0, false),
            usage: UsageOfAttempts::default(),
            report: ReplyReport::default(),
        })
    }

    /// Sets that the client has asked for the tokens of the reply.
    pub(crate) fn expect_usage(&mut self) {
        self.api.expect_usage();
    }

    /// Reads the next bytes of an event stream.
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if self.is_over || self.is_waiting() {
            return;
        }
        self.frames.push(bytes);
        while let Some(frame) = self.frames.next_frame() {
            let mut events = ArrivedEvents::new();
            let frame = self.read(frame, false, &mut events);
            self.judge_frame(frame, events);
            // The frames after a cut or a retry are of the response that is given up: they are neither judged nor sent.
            if self.is_over || self.is_waiting() {
                return;
            }
        }
        let unread = self.partial.len() + self.frames.pending_len();
        if self.held.bytes() + unread > self.settings.held_bytes {
            self.end(&Block::new(
                "more text is held back than the proxy may store",
            ));
        }
    }

    /// Ends the event stream after the last byte of the server.
    ///
    /// # Errors
    /// If the reply is not complete and something is held: a tool call, which clients would repair and run, or a text that
    /// is the start of a match. It is not released. Released bytes are still returned by [`take`](Self::take).
    pub(crate) fn finish(&mut self) -> Result<(), TruncatedBody> {
        if self.is_over {
            return Ok(());
        }
        let (mut events, mut ending) = (ArrivedEvents::new(), ArrivedEvents::new());
        // No event follows the bracket that closes an array, so that it is sent last.
        let array_end = self.frames.take_ending();
        let rest = self.frames.finish();
        let mut frame = self.read(rest, true, &mut events);
        let damages = self.damages();
        self.reader.finish(&mut |_, event| ending.push(event));
        frame.is_damaged |= self.damages() > damages;
        // Bytes in no known framing are not the data of an event.
        let is_unframed = |event: &Event| matches!(event, Event::Unscanned { .. });
        let has_text =
            self.has_text || frame.has_text || events.iter().chain(&ending).any(is_unframed);
        frame.is_damaged |= has_text && !self.is_recognized();
        // Bytes without an event are sent last, because they may begin a line that other events would continue.
        let is_event = frame.has_text || !frame.records.is_empty();
        let tail = (!is_event).then(|| std::mem::take(&mut frame.bytes));
        self.judge_frame(frame, events);
        if self.is_waiting() {
            return Ok(());
        }
        self.out.set_lacks_end(is_event && !self.is_over);
        // If the reply ended early, held text is dropped.
        let is_broken =
            |event: &Event| matches!(event, Event::Finish { reason } if is_truncated(reason));
        let drops_held =
            ending.iter().any(is_broken) && !self.held.is_empty() && !self.is_lenient();
        if drops_held {
            self.held.clear();
        }
        if !self.is_over {
            self.judge_frame(ArrivedFrame::empty(), ending);
        }
        if self.is_waiting() {
            return Ok(());
        }
        if self.cut.is_some() {
            // The response to another attempt has no event.
            self.give_up();
        }
        let is_complete = self.is_over || self.held.is_empty() && !drops_held;
        if is_complete && !self.is_over {
            self.out.push(tail.unwrap_or_default());
            self.out.push(array_end);
        }
        self.is_over = true;
        is_complete.then_some(()).ok_or(TruncatedBody)
    }

    /// Returns true if the reply was cut and another attempt at it has not begun to arrive: the bytes of the server that
    /// was cut are not read any more.
    pub(crate) fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Returns the attempt that is to be made, once.
    pub(crate) fn next_attempt(&mut self) -> Option<RepeatedAttempt> {
        self.next.take()
    }

    /// Continues with the response to another attempt.
    pub(crate) fn resume(&mut self) {
        self.is_waiting = false;
    }

    /// Ends a reply for which no other attempt can be made.
    pub(crate) fn give_up(&mut self) {
        if let Some(cut) = self.cut.take() {
            self.end(&cut);
        }
    }

    /// Returns the end of a reply after it has ended, or after the body has, once for each.
    pub(crate) fn ended_reply(&mut self) -> Option<EndedReply<'_>> {
        let is_stopped = self.is_over && !self.parts.is_ended();
        let now = (self.parts.ended, is_stopped);
        let is_new = now != self.reported_ends;
        self.reported_ends = now;
        is_new.then(|| EndedReply {
            conversation: self.parts.conversation(),
            is_complete: self.parts.is_complete() && !self.report.is_blocked,
            id: self.api.reply_id(),
        })
    }

    /// Returns the conversation if its reply is in progress.
    pub(crate) fn open_conversation(&self) -> Option<&Conversation> {
        let is_open = !self.is_over && !self.parts.is_ended();
        is_open.then(|| self.parts.conversation())
    }

    /// Returns the warnings of rules so far.
    pub(crate) fn warnings(&self) -> Vec<Note> {
        let acted = self.parts.decisions().filter(|it| !it.is_suppressed());
        let warned = acted.filter(|decision| decision.action == Action::Warn);
        let pack = self.parts.conversation().pack();
        warned.filter_map(|it| warning(it, pack, None)).collect()
    }

    /// Drains the output: the bytes to send to the client.
    pub(crate) fn take(&mut self) -> Bytes {
        self.out.take()
    }

    /// Returns true if nothing is read any more.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Returns true if events are held back, or if those of another attempt have not begun to arrive.
    pub(crate) fn is_holding(&self) -> bool {
        !self.is_over && (!self.held.is_empty() || self.cut.is_some())
    }

    /// Appends a keep-alive event, which clients ignore.
    pub(crate) fn keep_alive(&mut self) {
        let held = self.held.front();
        let is_object = held.is_some_and(|it| it.bytes.trim_ascii_start().starts_with(b"{"));
        if !self.out.push_whitespace(is_object) {
            self.api.keep_alive(&mut self.out);
        }
    }

    /// Ends a reply whose events were held back for too long.
    pub(crate) fn time_out(&mut self) {
        let late = Block::new(match self.open_calls.is_empty() {
            true => "no rule could decide in time",
            false => "a call did not arrive in the time for which events may be held",
        });
        let block = self.cut.take().unwrap_or(late);
        self.end(&block);
    }

    /// Returns the number of bytes that are kept for later events: those of events that are held or not complete, and texts
    /// and items that may be repeated.
    pub(crate) fn kept_bytes(&self) -> usize {
        let unread = self.partial.len() + self.frames.pending_len();
        self.held.bytes() + unread + self.api.kept_bytes() + self.reader.kept_bytes()
    }

    /// Ends a reply for whose bytes there is no room in the proxy, unless no rule acts. Returns true if it was ended.
    pub(crate) fn end_for_room(&mut self, reason: &str) -> bool {
        let is_ended = self.settings.mode == Mode::Live && !self.is_over;
        if is_ended {
            self.end(&Block::new(reason));
        }
        is_ended
    }

    /// Returns the decisions so far.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = &DecisionRecord> {
        self.parts.decisions()
    }

    /// Returns the actions of rules so far.
    pub(crate) fn report(&self) -> ReplyReport {
        ReplyReport {
            redactions: self.parts.action_count(Action::Redact),
            warnings: self.parts.action_count(Action::Warn),
            usage: self.usage.sum(),
            ..self.report.clone()
        }
    }

    /// Reads an event, which is parsed once: by the reader of the format, which adds to `events`. `is_last` is true for
    /// the bytes after the last event, which may lack its end.
    fn read(&mut self, bytes: Bytes, is_last: bool, events: &mut ArrivedEvents) -> ArrivedFrame {
        let damages = self.damages();
        let (mut records, is_next_delta) = (Vec::new(), Cell::new(false));
        let mut seen = |record: WireRecord<'_>| match record {
            WireRecord::NextDelta => is_next_delta.set(true),
            WireRecord::Object(object) => records.push(self.api.read(Some(object))),
            WireRecord::Done => records.push(self.api.read(None)),
        };
        let mut on = |_: &str, event: Event| events.push(event);
        let framing = self.frames.framing();
        // The reader would wait for the end of the array.
        let is_array = framing == StreamFraming::Array;
        match is_array.then(|| self.frames.data(&bytes)).flatten() {
            Some(element) => self.reader.push_document(&element, &mut seen, &mut on),
            None => self.reader.push_records(&bytes, &mut seen, &mut on),
        }
        let is_next_delta = is_next_delta.get();
        let mut has_text = is_next_delta || self.frames.has_text(&bytes);
        if is_last && has_text && !self.reader.is_binary() {
            // The end of the event, so that what follows is the end of the input alone.
            self.reader.push_records(b"\n\n", &mut seen, &mut on);
        }
        let is_lines = framing == StreamFraming::Lines;
        let is_partial = self.reader.has_partial_document();
        // A line that is part of a longer document would be released before the document is read.
        let is_cut = is_lines && has_text && (records.is_empty() || is_partial);
        let is_damaged = self.frames.take_damage() || is_cut || self.damages() > damages;
        let mut bytes = bytes;
        if !self.partial.is_empty() {
            let mut all = std::mem::take(&mut self.partial);
            all.extend_from_slice(&bytes);
            bytes = all.into();
            has_text = true;
        }
        if is_partial && !is_lines && !is_last {
            // A document that is labelled as an event stream is sent once it is read.
            self.partial = std::mem::take(&mut bytes).into();
            has_text = false;
        }
        ArrivedFrame {
            bytes,
            has_text,
            records,
            copies: self.reader.take_copies(),
            places: self.reader.take_places(),
            is_damaged,
        }
    }

    fn judge_frame(&mut self, frame: ArrivedFrame, events: ArrivedEvents) {
        if let Some(problem) = self.problem(&events, frame.is_damaged) {
            self.refuse(problem);
            if self.is_over {
                return;
            }
        }
        if self.is_waiting() {
            return;
        }
        let holds = frame.records.iter().map(|record| self.api.hold(record));
        let hold = holds.fold(EventHold::default(), EventHold::and);
        let mut texts = FrameTexts::default();
        if self.settings.mode == Mode::Live {
            self.open_calls.extend(hold.call);
        }
        let ended = self.parts.ended;
        let is_error = events.iter().any(|it| matches!(it, Event::Error { .. }));
        for event in events {
            let completes_calls = matches!(&event, Event::Finish { reason } if !is_truncated(reason))
                && self.api.end_completes_calls();
            if let Err(block) = self.parts.apply(event, &mut texts) {
                return self.block(&block);
            }
            if completes_calls {
                self.open_calls.clear();
            }
        }
        texts.set_places(&frame.places, frame.copies);
        if let (Some(call), true) = (hold.call, hold.completes_call) {
            self.open_calls.remove(&call);
        }
        // A reply that has ended is not waited for if its end is repeated.
        let is_ended = self.parts.is_ended() && self.parts.ended == ended;
        if hold.waits_for_end && !is_ended && !is_error && self.settings.mode == Mode::Live {
            texts.after_replies = Some(ended);
        }
        // Nothing follows an error of the server that would decide what is held.
        let drops_held = is_error && !self.held.is_empty() && self.parts.is_released(&texts);
        if drops_held {
            self.held.clear();
        }
        // If a cut led to another attempt, its response has begun: the cut is not reported.
        if frame.has_text {
            self.cut = None;
        }
        self.has_text |= frame.has_text;
        let frame = HeldFrame {
            has_text: frame.has_text,
            bytes: frame.bytes,
            records: frame.records,
            texts,
            // An error within a call of Gemini is no part of it.
            call: hold.call.filter(|_| !is_error),
        };
        self.release_held();
        if self.is_over {
            // A text in the events before this one cannot be redacted.
            return;
        }
        match self.held.is_empty() && self.is_released(&frame) {
            true => self.send(frame),
            false => self.held.push(frame),
        }
        if drops_held && !self.is_over {
            self.is_over = true;
            self.out.close();
        }
        let most = self.settings.held_bytes;
        if self.held.bytes() > most {
            self.end(&Block::new(
                "more text is held back than the proxy may store",
            ));
        } else if self.api.kept_bytes() > most && self.settings.mode == Mode::Live {
            self.end(&Block::new("the reply is longer than the proxy may store"));
        }
    }

    /// Moves the events that are held and released to the output.
    fn release_held(&mut self) {
        while self
            .held
            .front()
            .is_some_and(|frame| self.is_released(frame))
        {
            let Some(frame) = self.held.pop() else {
                return;
            };
            self.send(frame);
        }
    }

    /// Returns true if an event need not be held once those before it are sent.
    fn is_released(&self, frame: &HeldFrame) -> bool {
        let is_of_open_call = || {
            let call = frame.call.as_ref();
            call.is_some_and(|call| self.open_calls.contains(call))
        };
        let is_unread = || frame.has_text && !self.is_recognized() && !self.is_lenient();
        !is_of_open_call() && !is_unread() && self.parts.is_released(&frame.texts)
    }

    /// Moves an event to the output.
    fn send(&mut self, frame: HeldFrame) {
        let edits = self.parts.take_edits(&frame.texts);
        if edits.is_empty() && !(frame.has_text && self.splices()) {
            frame.records.into_iter().for_each(|it| self.api.sent(it));
            return self.out.push(frame.bytes);
        }
        let data = self.frames.data(&frame.bytes).unwrap_or_default();
        let redacted = match edits.is_empty() {
            true => None,
            false => match rewrite(&data, &edits) {
                Some(redacted) => Some(redacted),
                None => return self.end(&not_rewritten()),
            },
        };
        let data = data.into_owned();
        self.send_changed(frame, data, redacted);
    }

    /// Returns true if the server's events are turned into events of the reply that the client sees.
    fn splices(&self) -> bool {
        self.report.retries > 0 || self.api.has_other_numbers()
    }

    /// Moves an event to the output, with redactions applied. An event of another attempt is turned into an event of the
    /// reply that the client sees.
    fn send_changed(&mut self, frame: HeldFrame, data: Vec<u8>, redacted: Option<Vec<u8>>) {
        let mut changed = redacted;
        if self.splices() {
            match self.api.splice_event(changed.as_deref().unwrap_or(&data)) {
                SplicedEvent::Same => {}
                SplicedEvent::Dropped => return,
                SplicedEvent::Changed(spliced) => changed = Some(spliced),
            }
        }
        let Some(changed) = changed else {
            frame.records.into_iter().for_each(|it| self.api.sent(it));
            return self.out.push(frame.bytes);
        };
        if let Some((value, _)) = JsonValue::parse(&changed) {
            let event = self.api.read(Some(&value));
            self.api.sent(event);
        }
        let bytes = self.frames.with_data(&frame.bytes, &changed);
        self.out.push(bytes.into());
    }

    /// Ends the reply, unless another attempt can be made at it.
    fn block(&mut self, block: &Block) {
        let can_splice = self.api.can_splice() && !self.out.is_closed();
        if self.settings.can_retry && block.retry.is_some() && can_splice {
            self.begin_again(block);
        } else {
            self.end(block);
        }
    }

    /// Begins another attempt. What the client was sent stays, and what it was sent in part is ended.
    fn begin_again(&mut self, block: &Block) {
        let notes = self.parts.begin_again(block);
        self.next = Some(RepeatedAttempt {
            block: block.clone(),
            notes,
        });
        self.cut = Some(block.clone());
        self.is_waiting = true;
        self.held.clear();
        self.open_calls.clear();
        self.reader = new_reader(&*self.api);
        // The rest of the cut response is not part of the next one.
        self.frames.begin_again(self.out.has_elements());
        self.partial = Vec::new();
        self.has_text = false;
        self.report.retries += 1;
        self.usage.begin_again();
        self.out.end_event();
        self.api.splice(&mut self.out);
    }

    /// Ends the reply, with the reason.
    fn end(&mut self, block: &Block) {
        self.held.clear();
        self.is_over = true;
        self.cut = None;
        self.is_waiting = false;
        self.next = None;
        self.report.is_blocked = true;
        self.report.rule = block.rule.clone();
        self.out.end_event();
        self.api
            .end(&block.reason(), self.settings.ending, &mut self.out);
        self.out.close();
    }

    /// Ends a reply that cannot be read, unless such replies pass.
    fn refuse(&mut self, problem: &str) {
        self.report.is_unreadable = true;
        if !self.is_lenient() {
            self.end(&Block::new(problem));
        }
    }

    /// Returns true if replies that cannot be read pass.
    fn is_lenient(&self) -> bool {
        self.settings.fail_open || self.settings.mode == Mode::Shadow
    }

    /// Returns the number of events and lines so far that cannot be read, or that clients may read in another way.
    fn damages(&self) -> u64 {
        let reader = &self.reader;
        reader.malformed_events() + reader.stray_lines() + reader.ambiguous_documents()
    }

    fn is_recognized(&self) -> bool {
        self.reader.format() == Some(self.api.format())
    }

    /// Returns the reason why events cannot be judged, if there is one.
    fn problem(&mut self, events: &[Event], is_damaged: bool) -> Option<&'static str> {
        let (mut is_too_long, mut is_forgotten) = (false, false);
        for event in events {
            self.usage.read(event);
            if let Event::Unscanned { bytes, kind } = event {
                if *bytes > 0 {
                    add_path(&mut self.report.unscanned, PATHS, kind, *bytes);
                }
                is_too_long |= kind == "too-many-parts";
                is_forgotten |= kind == "forgotten-copy";
            }
        }
        if is_damaged {
            return Some("the reply cannot be read");
        }
        if is_too_long {
            return Some("the reply has too many parts");
        }
        if is_forgotten {
            return Some("the reply has two texts of its reasoning, which differ late");
        }
        let is_other = self.reader.format().is_some() && !self.is_recognized();
        is_other.then_some("the reply is not of the API of its path")
    }
}

impl ArrivedFrame {
    /// Returns an event without bytes, for the end of the input.
    fn empty() -> ArrivedFrame {
        ArrivedFrame {
            bytes: Bytes::new(),
            has_text: false,
            records: Vec::new(),
            places: Vec::new(),
            copies: Vec::new(),
            is_damaged: false,
        }
    }
}

/// Returns the reader of a reply of that API.
fn new_reader(api: &dyn ReplyApi) -> Reader {
    Reader::new(UNNAMED).expecting(api.format()).noting_places()
}

/// Adds bytes to a path, or to `…` if there are as many paths as `most`.
pub(crate) fn add_path(paths: &mut BTreeMap<String, u64>, most: usize, path: &str, bytes: u64) {
    let is_counted = paths.len() < most || paths.contains_key(path);
    let path = if is_counted { path } else { "…" };
    *paths.entry(path.to_owned()).or_default() += bytes;
}

fn not_rewritten() -> Block {
    Block::new("a text cannot be redacted in the form in which the server sent it")
}
