//! Judges one request: finds its new texts, applies rules to them, and builds the body that is sent. Without I/O and
//! without a clock.
//!
//! `read` finds the texts of a body by their place (`content` and `gemini` are parts of it), `memory` is what a session keeps of
//! earlier requests, `redactors` has the rules that redact, and `outgoing` writes the body. `shape` knows requests to models
//! whose API is not known. Only texts that change are encoded again.

mod content;
mod gemini;
mod memory;
mod named;
mod outgoing;
mod read;
mod redactors;
mod session_key;
mod shape;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use ttsr::conversation::{Note, ScreenedText};
use ttsr::rule::Header;
use ttsr::{Action, Channel, Conversation, DecisionRecord, Flow, Mode, Origin, Pack, Snapshot};

use crate::judge::{Block, warning};
use memory::PartChanges;
pub(crate) use memory::{PartHash, ReplyEffect, SessionMemory};
pub(crate) use outgoing::OutgoingBody;
pub(crate) use read::ModelRequest;
use read::{PartRole, RequestPart, part_hash, text_hash};
pub(crate) use redactors::Redactors;
pub(crate) use session_key::{client_hash, session_key};
pub(crate) use shape::is_model_request;

/// The number of requests after which one that does not continue the conversation of pending guidance takes it.
const PASSED_OVER: u32 = 16;

/// A request that rules let pass.
pub(crate) struct JudgedRequest {
    /// The conversation of the session, in whose turn the reply is an attempt.
    pub(crate) conversation: Conversation,
    /// The state of that conversation, in which the reply begins.
    pub(crate) state: Snapshot,
    /// The session after the request.
    pub(crate) memory: SessionMemory,
    pub(crate) body: OutgoingBody,
    pub(crate) actions: RequestActions,
    /// The last text of the user or of a tool, to which the reply is an answer.
    pub(crate) anchor: Option<PartHash>,
    /// The guidance that the body carries.
    pub(crate) notes: Vec<Note>,
}

/// A request that a rule refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedRequest {
    pub(crate) reason: String,
    pub(crate) actions: Box<RequestActions>,
    /// The session after the request.
    pub(crate) memory: Box<SessionMemory>,
}

/// The actions of rules on the texts of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestActions {
    /// Headers that rules set.
    pub(crate) headers: Vec<Header>,
    /// Warnings, each with the id of its rule.
    pub(crate) warnings: Vec<Note>,
    /// Number of texts in which rules redact.
    pub(crate) redactions: u64,
    /// The decisions on the texts that are new.
    pub(crate) decisions: Vec<DecisionRecord>,
    /// Bytes of strings in new messages that no reader knows, by their path.
    pub(crate) unscanned: BTreeMap<String, u64>,
}

/// Judges a request in the state of its session.
///
/// # Errors
/// If a rule aborts.
pub(crate) fn judge_request(
    request: &Arc<ModelRequest>,
    pack: &Pack,
    redactors: &Redactors,
    mode: Mode,
    mut memory: SessionMemory,
) -> Result<JudgedRequest, RefusedRequest> {
    let origin = origin_of(request);
    let chain = request.chain(memory.last_end());
    let last = chain.iter().rposition(Option::is_some);
    let anchor = last.and_then(|last| chain[last]);
    // A request without the history names it, so it continues a conversation of the session.
    let patience = match request.continues_history() {
        true => 0,
        false => PASSED_OVER,
    };
    let takes_guidance = memory.takes_guidance(&chain, patience);
    let mut conversation = memory.conversation(pack, takes_guidance);
    conversation.set_mode(mode);
    conversation.set_origin(origin.clone());
    let first = memory.first_new(request, &chain);
    let mut actions = RequestActions {
        unscanned: new_unscanned(request, first),
        ..RequestActions::default()
    };
    let judged = judge_new(
        request,
        (&chain, first),
        &mut conversation,
        &mut memory,
        &mut actions,
    );
    let state = memory.record_conversation(&conversation, anchor);
    let refused = judged.err().or_else(|| {
        // A repeated request is refused again.
        let known = anchor.filter(|_| mode == Mode::Live);
        known.and_then(|anchor| memory.refused(anchor).map(str::to_owned))
    });
    if let Some(reason) = refused {
        return Err(RefusedRequest {
            reason,
            actions: Box::new(actions),
            memory: Box::new(memory),
        });
    }
    let mut body = OutgoingBody::new(request);
    let mut notes: Vec<Note> = conversation.guidance().collect();
    match last.filter(|_| mode == Mode::Live) {
        Some(last) => {
            let redactors = redactors.with_origin(origin);
            actions.redactions = edit_texts(request, &chain, &redactors, &memory, &mut body);
            let texts: Vec<String> = notes.iter().map(|note| note.text.clone()).collect();
            body.add_guidance(last, &texts);
        }
        None => notes.clear(),
    }
    Ok(JudgedRequest {
        conversation,
        state,
        memory,
        body,
        actions,
        anchor,
        notes,
    })
}

/// Returns the strings that no reader knows in the messages after the last part before `first`, the first new one.
fn new_unscanned(request: &ModelRequest, first: usize) -> BTreeMap<String, u64> {
    let last_known = first.checked_sub(1).map(|last| request.parts[last].item);
    let mut by_path = BTreeMap::new();
    for ((item, path), bytes) in &request.unscanned {
        if last_known.is_none_or(|known| *item > known) {
            *by_path.entry(path.clone()).or_default() += bytes;
        }
    }
    by_path
}

/// Judges the texts that are new. Returns the reason if a rule aborts.
fn judge_new(
    request: &ModelRequest,
    (chain, first): (&[Option<PartHash>], usize),
    conversation: &mut Conversation,
    memory: &mut SessionMemory,
    actions: &mut RequestActions,
) -> Result<(), String> {
    let is_prompt = |part: &RequestPart| part.role == PartRole::User;
    let anchor = chain.iter().rev().find_map(|hash| *hash);
    // A request that comes again after a reply that failed or was stopped is another try of the same turn.
    let has_new = chain[first..].iter().any(Option::is_some);
    let known = anchor.filter(|_| !has_new);
    let is_repeated = known.is_some_and(|anchor| memory.take_answered(anchor));
    let has_prompt = request.parts[first..].iter().any(is_prompt);
    match has_prompt || is_repeated || conversation.turns() == 0 {
        true => conversation.start_turn(),
        false => conversation.reopen_turn(),
    }
    let (trailing, withheld) = (request.trailing(), memory.withheld_texts());
    for ((number, part), hash) in request.parts.iter().enumerate().zip(chain).skip(first) {
        let Some(hash) = *hash else { continue };
        // What is withheld of the history is replaced, and not judged once more.
        let is_old = number < trailing && !withheld.is_empty();
        if is_old && part_hash(part).is_some_and(|it| memory.withheld(it).is_some()) {
            continue;
        }
        let is_withheld = |text: &str| {
            is_old && text_hash(part, text).is_some_and(|it| withheld.contains_key(&it))
        };
        let mut placed = PartChanges::new(hash);
        let judged = judge_part(part, &is_withheld, conversation, &mut placed, actions);
        let judged = judged.map_err(|(index, reason)| {
            let texts = aborted_texts(request, part, index, conversation.pack());
            let at = anchor.unwrap_or(hash);
            placed.withhold(reason.clone(), at, part_hash(part), texts);
            reason
        });
        memory.remember(hash, placed);
        judged?;
    }
    if let (Some(at), Some(window)) = (anchor.filter(|_| has_new), request.last_window()) {
        memory.record_end(at, window);
    }
    Ok(())
}

/// Returns the hashes of the texts of a part that must not be sent: the one at which a rule aborts, and those after it at
/// which a rule aborts in a conversation of their own.
fn aborted_texts(
    request: &ModelRequest,
    part: &RequestPart,
    first: usize,
    pack: &Pack,
) -> Vec<PartHash> {
    let aborts = |text: &str| {
        let mut conversation = Conversation::new(pack);
        conversation.set_origin(origin_of(request));
        matches!(screened(part, text, &mut conversation).flow, Flow::Cut(_))
    };
    let texts = part.texts.iter().enumerate().skip(first);
    let texts = texts.filter(|(index, text)| *index == first || aborts(&text.text));
    let hashes = texts.filter_map(|(_, text)| text_hash(part, &text.text));
    hashes.collect()
}

fn origin_of(request: &ModelRequest) -> Origin {
    Origin {
        model: request.model.clone(),
        ..Origin::default()
    }
}

fn screened(part: &RequestPart, text: &str, conversation: &mut Conversation) -> ScreenedText {
    match part.role {
        PartRole::User => conversation.screen(Channel::UserInput, None, text),
        _ => conversation.screen_output(part.tool.as_deref(), part.outcome, text),
    }
}

/// Judges the texts of a part but those that are withheld. Returns the index of the text and the reason if a rule aborts.
fn judge_part(
    part: &RequestPart,
    is_withheld: &dyn Fn(&str) -> bool,
    conversation: &mut Conversation,
    placed: &mut PartChanges,
    actions: &mut RequestActions,
) -> Result<(), (usize, String)> {
    for (index, text) in part.texts.iter().enumerate() {
        if is_withheld(&text.text) {
            continue;
        }
        let screened = screened(part, &text.text, conversation);
        actions.decisions.extend_from_slice(&screened.decisions);
        if let Flow::Cut(cut) = &screened.flow {
            let pack = conversation.pack();
            let block = Block::from_cut(cut, &screened.decisions, pack, Some(&text.text));
            return Err((index, block.request_reason()));
        }
        let (mut before, mut after) = (Vec::new(), Vec::new());
        for decision in screened.decisions.iter().filter(|it| !it.is_suppressed()) {
            match decision.action {
                Action::Prepend => before.push(decision.message.clone()),
                Action::Append => after.push(decision.message.clone()),
                Action::Warn => {
                    actions.warnings.extend(warning(
                        decision,
                        conversation.pack(),
                        Some(&text.text),
                    ));
                }
                _ => {}
            }
        }
        placed.add(index, before, after);
        actions.headers.extend(screened.headers);
    }
    Ok(())
}

/// Adds the texts that change, and the guidance that earlier requests carried, to the body. Returns the number of texts
/// with redactions.
fn edit_texts(
    request: &ModelRequest,
    chain: &[Option<PartHash>],
    redactors: &Redactors,
    memory: &SessionMemory,
    body: &mut OutgoingBody,
) -> u64 {
    let mut redactions = 0;
    let (withholds, withheld) = (memory.withholds(), memory.withheld_texts());
    for (number, (part, hash)) in request.parts.iter().zip(chain).enumerate() {
        let placed = hash.and_then(|hash| memory.placed(hash));
        let placed = placed.or_else(|| {
            let part = part_hash(part).filter(|_| withholds)?;
            memory.withheld(part)
        });
        for (index, text) in part.texts.iter().enumerate() {
            let known = (!withheld.is_empty()).then(|| text_hash(part, &text.text));
            if let Some(reason) = known.flatten().and_then(|known| withheld.get(&known)) {
                body.set_text(number, index, reason.clone());
                continue;
            }
            let redacted = redactors.redact(part, &text.text);
            redactions += u64::from(redacted.is_some());
            let current = redacted.as_deref().unwrap_or(&text.text);
            let placed = placed.and_then(|placed| placed.edited(index, current));
            if let Some(edited) = placed.or(redacted) {
                body.set_text(number, index, edited);
            }
        }
        if let Some(placed) = placed {
            body.add_guidance(number, &placed.guidance);
        }
    }
    redactions
}
