//! The texts of a reply under rules: events of `ttsr_wire` in, the offsets up to which text is released and the changes
//! of redactions out. This module knows neither frames nor APIs.

use std::collections::{BTreeMap, VecDeque};

use smallvec::SmallVec;
use ttsr::conversation::Note;
use ttsr::{
    Action, Channel, Conversation, Cut, DecisionRecord, Event, Flow, Mode, Pack, PartId,
    Suppression,
};
use ttsr_wire::TextCopy;

use super::json_edit::DocumentText;
use super::not_rewritten;
use super::quotes::without_matches;
use super::text_digest::TextDigest;

/// The reason why a reply is blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// The full id of the rule, unless a bound or the proxy blocks.
    pub(crate) rule: Option<String>,
    pub(crate) message: String,
    /// The message for another attempt, if the rule retries.
    pub(crate) retry: Option<Box<RetryMessage>>,
}

/// The message to the model for another attempt at a reply.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RetryMessage {
    /// The text of the reply that the rule keeps.
    pub(crate) partial: String,
    /// The message of the rule.
    pub(crate) message: String,
    /// The model that the rule names.
    pub(crate) model: Option<String>,
    /// The temperature that the rule names, in thousandths.
    pub(crate) temperature: Option<u32>,
}

impl RetryMessage {
    /// Returns the message after a cut, if its rule retries. Reasoning is not repeated, because providers accept only
    /// their own with their signature.
    fn from_cut(cut: &Cut) -> Option<RetryMessage> {
        let options = cut.retry.as_ref()?;
        let kept = cut.keep.iter().filter(|kept| kept.channel == Channel::Text);
        let kept: Vec<&str> = kept.map(|kept| kept.text.as_str()).collect();
        Some(RetryMessage {
            partial: kept.join("\n\n"),
            message: cut.message.clone(),
            model: options.model.clone(),
            temperature: options.temperature,
        })
    }
}

impl Block {
    pub(crate) fn new(message: impl Into<String>) -> Block {
        Block {
            rule: None,
            message: message.into(),
            retry: None,
        }
    }

    /// Returns the block of a cut. The message does not repeat the text that matched: it may be a secret.
    ///
    /// `whole` is the text in which the rule matched, if it came whole.
    pub(crate) fn from_cut(
        cut: &Cut,
        decisions: &[DecisionRecord],
        pack: &Pack,
        whole: Option<&str>,
    ) -> Block {
        let of_cut = decisions
            .iter()
            .filter(|decision| decision.rule.as_deref() == cut.rule() && cut.rule().is_some());
        let mut message = without_matches(cut.message.clone(), of_cut, pack, whole);
        // The default message begins with the id, which the reason names already.
        let id = cut.rule().map(|id| format!("{id}: "));
        if let Some(rest) = id.and_then(|id| message.strip_prefix(&id).map(str::to_owned)) {
            message = rest;
        }
        Block {
            rule: cut.rule().map(str::to_owned),
            message,
            retry: RetryMessage::from_cut(cut).map(Box::new),
        }
    }

    /// Returns the text that the client shows.
    pub(crate) fn reason(&self) -> String {
        self.reason_for("reply")
    }

    /// Returns the text that the client shows instead of the reply to a request that was not sent.
    pub(crate) fn request_reason(&self) -> String {
        self.reason_for("request")
    }

    fn reason_for(&self, what: &str) -> String {
        match &self.rule {
            Some(rule) => format!("[ttsr: {what} stopped by rule {rule}: {}]", self.message),
            None => format!("[ttsr: {what} stopped: {}]", self.message),
        }
    }
}

/// Returns the warning of a decision, without the text that matched. `whole` is the text, if it came whole.
pub(crate) fn warning(decision: &DecisionRecord, pack: &Pack, whole: Option<&str>) -> Option<Note> {
    Some(Note {
        rule: decision.rule.clone()?,
        text: without_matches(decision.message.clone(), [decision], pack, whole),
    })
}

/// Returns true if the finish reason is that of a reply without its end.
pub(super) fn is_truncated(reason: &str) -> bool {
    matches!(reason, "truncated" | "error")
}

/// One text in a frame: a delta, or the repetition of a part from its start or of a delta.
#[derive(Debug)]
struct FrameText {
    /// The index in [`JudgedParts::parts`]. Parts are only removed by [`JudgedParts::begin_again`], whose caller drops
    /// all frames.
    part: usize,
    /// The offset of `bytes` in the part.
    start: u64,
    bytes: Vec<u8>,
    /// The place in the document of the frame, if it has more than one text.
    place: Option<u32>,
}

/// The texts in a frame.
#[derive(Debug, Default)]
pub(crate) struct FrameTexts {
    /// Most frames have one.
    texts: SmallVec<[FrameText; 1]>,
    /// Number of replies of the body that had ended when the frame arrived, if the frame waits for the end of its reply.
    pub(crate) after_replies: Option<u64>,
}

impl FrameTexts {
    /// Sets the places of texts, which are in the order of their events: the number of the text, and its place. Adds the
    /// copies of texts.
    pub(crate) fn set_places(&mut self, places: &[(usize, usize)], copies: Vec<TextCopy>) {
        for (number, place) in places {
            if let Some(text) = self.texts.get_mut(*number) {
                text.place = u32::try_from(*place).ok();
            }
        }
        for copy in copies {
            if let Some(FrameText { part, start, .. }) = self.texts.get(copy.event) {
                self.texts.push(FrameText {
                    part: *part,
                    start: start + copy.offset as u64,
                    bytes: copy.bytes,
                    place: copy.place.and_then(|place| u32::try_from(place).ok()),
                });
            }
        }
    }
}

/// A range of a part as delivered, and its replacement. The range is not empty.
#[derive(Debug)]
struct PartEdit {
    start: u64,
    end: u64,
    with: Vec<u8>,
    /// The first bytes of the range, at most [`EDIT_HEAD`].
    head: Vec<u8>,
}

/// The most bytes of a range that are compared with the end of a repetition.
const EDIT_HEAD: usize = 64;

impl PartEdit {
    /// Returns true if `text`, which begins where the part does, ends within the range and has its first bytes there.
    fn has_end_of(&self, text: &[u8]) -> bool {
        let end = text.len() as u64;
        let rest = match self.start < end && end < self.end {
            true => &text[self.start as usize..],
            false => return false,
        };
        let known = rest.len().min(self.head.len());
        rest[..known] == self.head[..known]
    }
}

#[derive(Debug)]
struct JudgedPart {
    id: PartId,
    channel: Channel,
    tool: Option<(String, String)>,
    /// True once the conversation has closed the part.
    is_closed: bool,
    /// The number of bytes that the server sent.
    delivered: u64,
    /// The number of bytes that rules release; at most `delivered`.
    released: u64,
    /// The bytes from `released` to `delivered`.
    waiting: Vec<u8>,
    /// In the order of their starts. They are disjoint, because each is in the text of one release, and end at or before
    /// `released`. Those in text that was sent are dropped, unless the part may be repeated.
    edits: VecDeque<PartEdit>,
    /// The digest of all bytes that were delivered, if the server may repeat the part.
    digest: Option<TextDigest>,
}

/// The progress of the last reply of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BodyProgress {
    Open,
    /// It has ended too early.
    BrokenOff,
    Complete,
}

/// The parts of all replies of a body, and the conversation that judges them.
pub(crate) struct JudgedParts {
    conversation: Conversation,
    /// In the order in which they opened, over all replies.
    parts: Vec<JudgedPart>,
    /// The indices in `parts` of the parts of the reply in progress, by their number in the reply. A repetition with
    /// another text is not among them.
    by_id: BTreeMap<u32, usize>,
    /// True if the API repeats parts.
    has_repetitions: bool,
    /// True if no rule acts, so that no call waits until it is complete.
    is_shadow: bool,
    /// Number of parts of this reply that were made for repetitions with another text.
    copies: u32,
    /// Number of replies that have ended.
    pub(crate) ended: u64,
    progress: BodyProgress,
    /// The decisions of the replies that have ended.
    decisions: Vec<DecisionRecord>,
}

/// Begins an attempt. The flow is ignored: a cut of the turn is returned again by the first call that reads.
fn begin_attempt(conversation: &mut Conversation) {
    let _: Flow = conversation.begin_attempt();
}

impl JudgedParts {
    /// Returns the parts of a body, whose first reply is an attempt in the turn of the conversation. `has_repetitions` is
    /// true if the API repeats parts.
    pub(crate) fn new(
        mut conversation: Conversation,
        mode: Mode,
        has_repetitions: bool,
    ) -> JudgedParts {
        begin_attempt(&mut conversation);
        JudgedParts {
            conversation,
            parts: Vec::new(),
            by_id: BTreeMap::new(),
            has_repetitions,
            is_shadow: mode == Mode::Shadow,
            copies: 0,
            ended: 0,
            progress: BodyProgress::Open,
            decisions: Vec::new(),
        }
    }

    /// Begins another reply of the body.
    fn begin(&mut self) {
        self.conversation.start_turn();
        begin_attempt(&mut self.conversation);
        // Only parts of the reply in progress are repeated.
        self.by_id.clear();
        self.copies = 0;
        self.progress = BodyProgress::Open;
    }

    /// Begins another attempt at the reply that was cut, and drops all parts. Returns the guidance that its request carries
    /// in addition to the message of the rule that cut.
    pub(crate) fn begin_again(&mut self, cut: &Block) -> Vec<Note> {
        self.decisions
            .extend(up_to_cut(self.conversation.decisions()).cloned());
        let is_other = |note: &Note| Some(&note.rule) != cut.rule.as_ref();
        let notes = self.conversation.guidance().filter(is_other).collect();
        begin_attempt(&mut self.conversation);
        self.parts.clear();
        self.by_id.clear();
        self.copies = 0;
        notes
    }

    pub(crate) fn conversation(&self) -> &Conversation {
        &self.conversation
    }

    /// Returns true if the last reply has ended and did not break off.
    pub(crate) fn is_complete(&self) -> bool {
        self.progress == BodyProgress::Complete
    }

    /// Returns true if the last reply has ended.
    pub(crate) fn is_ended(&self) -> bool {
        self.progress != BodyProgress::Open
    }

    /// Reads an event. The texts in it are added to `frame`.
    ///
    /// # Errors
    /// If a rule or a bound cuts the reply.
    pub(crate) fn apply(&mut self, event: Event, frame: &mut FrameTexts) -> Result<(), Block> {
        let has_content = matches!(event, Event::PartStart { .. } | Event::Delta { .. });
        if self.is_ended() && has_content {
            self.begin();
        }
        match event {
            Event::PartStart {
                part,
                channel,
                ref tool,
                ref call,
                ..
            } => {
                let tool = tool
                    .clone()
                    .map(|tool| (tool, call.clone().unwrap_or_default()));
                let index = self.add(part, channel, tool);
                self.parts[index].digest = self.has_repetitions.then(TextDigest::new);
                self.by_id.insert(part.0, index);
                let flow = self.conversation.apply(&event);
                self.check(flow)
            }
            Event::Tool {
                part,
                ref tool,
                ref call,
            } => {
                if let Some(&index) = self.by_id.get(&part.0) {
                    let call = call.clone().unwrap_or_default();
                    self.parts[index].tool = Some((tool.clone(), call));
                }
                let flow = self.conversation.apply(&event);
                self.check(flow)
            }
            Event::Delta { part, bytes } => match self.by_id.get(&part.0) {
                Some(&index) => self.push(index, bytes, frame),
                None => Err(Block::new("a delta belongs to no part")),
            },
            Event::Snapshot { part, bytes } => match self.by_id.get(&part.0) {
                Some(&index) => self.repeat(index, bytes, frame),
                None => Err(Block::new("a repetition belongs to no part")),
            },
            Event::PartEnd { part } => match self.by_id.get(&part.0) {
                Some(&index) => self.close(index),
                None => Ok(()),
            },
            Event::Finish { ref reason } => self.finish(match is_truncated(reason) {
                true => BodyProgress::BrokenOff,
                false => BodyProgress::Complete,
            }),
            Event::Outcome { .. } | Event::Restart => {
                let flow = self.conversation.apply(&event);
                self.check(flow)
            }
            Event::Unscanned { .. } | Event::Usage { .. } | Event::Error { .. } => Ok(()),
        }
    }

    fn add(&mut self, id: PartId, channel: Channel, tool: Option<(String, String)>) -> usize {
        if self.parts.is_empty() {
            // Most replies have one part.
            self.parts.reserve_exact(1);
        }
        self.parts.push(JudgedPart {
            id,
            channel,
            tool,
            is_closed: false,
            delivered: 0,
            released: 0,
            waiting: Vec::new(),
            edits: VecDeque::new(),
            digest: None,
        });
        self.parts.len() - 1
    }

    fn push(&mut self, index: usize, bytes: Vec<u8>, frame: &mut FrameTexts) -> Result<(), Block> {
        let start = self.parts[index].delivered;
        let delivered = self.deliver(index, &bytes);
        frame.texts.push(FrameText {
            part: index,
            start,
            bytes,
            place: None,
        });
        delivered
    }

    fn deliver(&mut self, index: usize, bytes: &[u8]) -> Result<(), Block> {
        let part = &mut self.parts[index];
        part.delivered += bytes.len() as u64;
        part.waiting.extend_from_slice(bytes);
        if let Some(digest) = &mut part.digest {
            digest.push(bytes);
        }
        let flow = self.conversation.push(part.id, bytes);
        self.check(flow)?;
        self.collect(index);
        Ok(())
    }

    /// Reads the repetition of a part. A client may show it instead of the deltas, so a repetition that does not begin with
    /// the deltas is judged as a separate part.
    ///
    /// # Errors
    /// If a rule or a bound cuts the reply, or if the repetition ends within a text that is redacted or held.
    fn repeat(
        &mut self,
        index: usize,
        bytes: Vec<u8>,
        frame: &mut FrameTexts,
    ) -> Result<(), Block> {
        let part = &self.parts[index];
        let known = usize::try_from(part.delivered).ok();
        let split = known.and_then(|known| bytes.split_at_checked(known));
        let new = split.filter(|(repeated, new)| {
            let digest = part.digest.as_ref();
            let is_repetition = digest.is_some_and(|digest| digest.is_of(repeated));
            is_repetition && !bytes.is_empty() && (new.is_empty() || !part.is_closed)
        });
        if let Some((_, new)) = new {
            let new = new.to_vec();
            frame.texts.push(FrameText {
                part: index,
                start: 0,
                bytes,
                place: None,
            });
            return match new.is_empty() {
                true => Ok(()),
                false => self.deliver(index, &new),
            };
        }
        // Judged alone, the beginning of a text that is redacted or held may be no match.
        if part.has_waiting_end_of(&bytes) || part.edits.iter().any(|it| it.has_end_of(&bytes)) {
            return Err(not_rewritten());
        }
        let (channel, tool) = (part.channel, part.tool.clone());
        self.copies += 1;
        // The reader numbers parts from 0 and far below this, so the ids differ.
        let id = PartId(u32::MAX - self.copies);
        let copy = self.add(id, channel, tool.clone());
        let flow = self.conversation.open(id, channel);
        self.check(flow)?;
        if let Some((tool, call)) = tool {
            let flow = self.conversation.set_tool(id, &tool, &call);
            self.check(flow)?;
        }
        self.push(copy, bytes, frame)?;
        self.close(copy)
    }

    fn close(&mut self, index: usize) -> Result<(), Block> {
        let id = self.parts[index].id;
        let flow = self.conversation.close(id);
        self.check(flow)?;
        self.parts[index].is_closed = true;
        if let Some(digest) = &mut self.parts[index].digest {
            digest.close();
        }
        // Closing a call asks for its reviews, and approving it releases its text.
        self.answer_reviews(id)?;
        self.collect(index);
        Ok(())
    }

    /// Answers the questions of rules that want a call reviewed. Nobody reviews calls here, so each counts as failed.
    fn answer_reviews(&mut self, part: PartId) -> Result<(), Block> {
        let mut reviews = self
            .conversation
            .reviews()
            .iter()
            .filter(|review| review.part == part);
        if let Some(blocking) = reviews.find(|review| review.blocks_on_failure) {
            return Err(Block {
                rule: Some(blocking.rule.clone()),
                message: "the call must be reviewed, and the proxy has no reviewer".to_owned(),
                retry: None,
            });
        }
        self.conversation.approve(part);
        Ok(())
    }

    fn finish(&mut self, end: BodyProgress) -> Result<(), Block> {
        if self.is_ended() {
            return Ok(());
        }
        let mut open: Vec<usize> = self.by_id.values().copied().collect();
        // Parts are closed in the order in which they opened, because the first rule that cuts ends the reply.
        open.sort_unstable();
        open.retain(|index| !self.parts[*index].is_closed);
        for index in open {
            self.close(index)?;
        }
        let flow = self.conversation.finish();
        self.check(flow)?;
        // Text that waited for a rule on the whole reply is released by its end.
        for index in 0..self.parts.len() {
            if self.parts[index].released < self.parts[index].delivered {
                self.collect(index);
            }
        }
        self.decisions
            .extend_from_slice(self.conversation.decisions());
        self.progress = end;
        self.ended += 1;
        Ok(())
    }

    fn check(&self, flow: Flow) -> Result<(), Block> {
        flow.ok().map_err(|cut| {
            let conversation = &self.conversation;
            Block::from_cut(&cut, conversation.decisions(), conversation.pack(), None)
        })
    }

    /// Takes the text of a part that rules release, and records where it differs from the text that was delivered.
    fn collect(&mut self, index: usize) {
        let part = &mut self.parts[index];
        // The text is taken before `released` is read: both are then of the same release.
        let text = self.conversation.take(part.id);
        let is_prefix = part.waiting.starts_with(text);
        let len = text.len();
        let changed = (!is_prefix).then(|| text.to_vec());
        let released = self.conversation.released(part.id).unwrap_or(part.released);
        let taken = usize::try_from(released.saturating_sub(part.released)).unwrap_or(usize::MAX);
        let taken = taken.min(part.waiting.len());
        if !is_prefix || taken != len {
            let text = changed.unwrap_or_else(|| part.waiting[..len].to_vec());
            if let Some(edit) = difference(part.released, &part.waiting[..taken], &text) {
                part.edits.push_back(edit);
            }
        }
        part.waiting.drain(..taken);
        part.released = released;
    }

    /// Returns true if no rule holds a text of the frame.
    pub(crate) fn is_released(&self, frame: &FrameTexts) -> bool {
        let is_late = frame.after_replies.is_none_or(|before| self.ended > before);
        is_late
            && frame.texts.iter().all(|text| {
                let part = &self.parts[text.part];
                let end = text.start + text.bytes.len() as u64;
                let is_call = part.channel == Channel::ToolInput && !self.is_shadow;
                part.released >= end && (!is_call || part.is_closed)
            })
    }

    /// Returns the texts of a frame that is released with the edits of them, once; empty if it is sent as it arrived.
    pub(crate) fn take_edits(&mut self, frame: &FrameTexts) -> Vec<DocumentText> {
        let edited = |text: &FrameText| self.parts[text.part].edited(text.start, &text.bytes);
        let mut edits = Vec::new();
        if frame.texts.iter().any(|text| edited(text).is_some()) {
            edits.extend(frame.texts.iter().map(|text| DocumentText {
                from: text.bytes.clone(),
                to: edited(text),
                place: text.place.map(|place| place as usize),
            }));
        }
        for text in &frame.texts {
            // Frames are sent in the order of their texts.
            let end = text.start + text.bytes.len() as u64;
            self.parts[text.part].forget_edits(end);
        }
        edits
    }

    /// Returns the number of edits that are kept.
    #[cfg(test)]
    pub(super) fn kept_edits(&self) -> usize {
        self.parts.iter().map(|part| part.edits.len()).sum()
    }

    /// Returns the decisions of all replies of the body, up to the deciding byte of a cut.
    pub(crate) fn decisions(&self) -> impl Iterator<Item = &DecisionRecord> {
        let current: &[DecisionRecord] = match self.is_ended() {
            true => &[],
            false => self.conversation.decisions(),
        };
        self.decisions.iter().chain(up_to_cut(current))
    }

    /// Returns the number of decisions with that action that are not suppressed.
    pub(crate) fn action_count(&self, action: Action) -> u64 {
        let counted = self
            .decisions()
            .filter(|known| known.action == action && !known.is_suppressed());
        counted.count() as u64
    }
}

impl JudgedPart {
    /// Returns the text that is released instead of `bytes` at `start`, or `None` if it is the same.
    fn edited(&self, start: u64, bytes: &[u8]) -> Option<Vec<u8>> {
        if self.edits.is_empty() {
            return None;
        }
        let end = start + bytes.len() as u64;
        let at = |offset: u64| (offset.clamp(start, end) - start) as usize;
        let mut out = Vec::new();
        let mut copied = start;
        let first = self.edits.partition_point(|edit| edit.end <= start);
        let touching = self.edits.range(first..);
        let touching = touching.take_while(|edit| edit.start < end);
        for edit in touching {
            out.extend_from_slice(&bytes[at(copied)..at(edit.start.max(copied))]);
            if edit.start >= start {
                out.extend_from_slice(&edit.with);
            }
            copied = edit.end;
        }
        if copied == start {
            return None;
        }
        out.extend_from_slice(&bytes[at(copied)..]);
        Some(out)
    }

    /// Returns true if `text`, which begins where the part does and is shorter, ends with bytes that wait at that place.
    fn has_waiting_end_of(&self, text: &[u8]) -> bool {
        let released = usize::try_from(self.released).ok();
        let rest = released.and_then(|released| text.get(released..));
        let rest = rest.filter(|rest| !rest.is_empty() && rest.len() < self.waiting.len());
        rest.is_some_and(|rest| self.waiting.starts_with(rest))
    }

    /// Drops the edits in the text up to `end`, which was sent, unless the part may be repeated.
    fn forget_edits(&mut self, end: u64) {
        while self.digest.is_none() && self.edits.front().is_some_and(|edit| edit.end <= end) {
            self.edits.pop_front();
        }
    }
}

/// Returns the decisions of an attempt without those on bytes after the deciding byte of a cut. How many of these bytes are
/// read depends on where the server's delta ends.
fn up_to_cut(decisions: &[DecisionRecord]) -> impl Iterator<Item = &DecisionRecord> {
    let mut cuts = decisions.iter();
    let cut = cuts.find(|known| known.action.cuts() && !known.is_suppressed());
    let last = cut.map(|cut| cut.decided);
    decisions.iter().filter(move |known| {
        let is_late = last.is_some_and(|last| known.decided > last);
        !(is_late && known.suppression == Some(Suppression::Cut))
    })
}

/// Returns the smallest edit, in whole characters, that turns `old`, which begins at `base`, into `new`.
fn difference(base: u64, old: &[u8], new: &[u8]) -> Option<PartEdit> {
    if old == new {
        return None;
    }
    let is_boundary = |text: &[u8], at: usize| text.get(at).is_none_or(|byte| byte & 0xC0 != 0x80);
    let same = |pair: &(&u8, &u8)| pair.0 == pair.1;
    let mut prefix = old.iter().zip(new).take_while(same).count();
    // The range is not empty, so that exactly one delta has its start.
    prefix = prefix.min(old.len().saturating_sub(1));
    while prefix > 0 && !(is_boundary(old, prefix) && is_boundary(new, prefix)) {
        prefix -= 1;
    }
    let (old_rest, new_rest) = (&old[prefix..], &new[prefix.min(new.len())..]);
    let mut suffix = old_rest
        .iter()
        .rev()
        .zip(new_rest.iter().rev())
        .take_while(same)
        .count();
    suffix = suffix.min(old_rest.len().saturating_sub(1));
    while suffix > 0 && !is_boundary(old_rest, old_rest.len() - suffix) {
        suffix -= 1;
    }
    let range = &old[prefix..old.len() - suffix];
    Some(PartEdit {
        head: range[..range.len().min(EDIT_HEAD)].to_vec(),
        start: base + prefix as u64,
        end: base + (old.len() - suffix) as u64,
        with: new_rest[..new_rest.len() - suffix].to_vec(),
    })
}
