//! A host that forwards what rules release: the work that is measured. `benches/shipped` measures the same.

use std::hint::black_box;

use ttsr::{Channel, Conversation, Event, Flow, Pack, PartId};

const PART: PartId = PartId(0);

/// The events of one reply, without its end.
pub(crate) type ReplyEvents = Vec<Event>;

/// Returns the number of deltas.
pub(crate) fn deltas(replies: &[ReplyEvents]) -> usize {
    let events = replies.iter().flatten();
    events
        .filter(|event| matches!(event, Event::Delta { .. }))
        .count()
}

/// Returns the deltas of all parts on that channel, in the order of arrival; a line feed ends each part.
pub(crate) fn long_part(replies: &[ReplyEvents], wanted: Channel) -> Vec<Vec<u8>> {
    let mut deltas = Vec::new();
    for reply in replies {
        let mut parts: Vec<PartId> = Vec::new();
        for event in reply {
            match event {
                Event::PartStart { part, channel, .. } if *channel == wanted => parts.push(*part),
                Event::Delta { part, bytes } if parts.contains(part) => deltas.push(bytes.clone()),
                Event::PartEnd { part } if parts.contains(part) => deltas.push(b"\n".to_vec()),
                _ => {}
            }
        }
    }
    deltas
}

/// Returns a call of a shell whose `command` has that text, in the same deltas.
pub(crate) fn as_command(deltas: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let escaped = |bytes: &Vec<u8>| {
        let text = String::from_utf8_lossy(bytes);
        let json = serde_json::Value::String(text.into_owned()).to_string();
        json.as_bytes()[1..json.len() - 1].to_vec()
    };
    let mut call = vec![br#"{"command":""#.to_vec()];
    call.extend(deltas.iter().map(escaped));
    call.push(br#""}"#.to_vec());
    call
}

/// Reads a reply in a conversation of its own. Returns true if a rule cuts it.
pub(crate) fn read_reply(pack: &Pack, reply: &ReplyEvents) -> bool {
    let mut conversation = Conversation::new(pack);
    let mut turn = conversation.turn("");
    let mut attempt = turn.attempt();
    for event in reply {
        if let Event::Delta { part, bytes } = event {
            let _ = black_box(attempt.forward(*part, bytes));
            continue;
        }
        black_box(attempt.apply(event) == Flow::Go);
        if let Event::PartEnd { part } = event {
            black_box(attempt.take(*part));
        }
    }
    attempt.finish() != Flow::Go
}

/// Reads deltas in one part, and returns the number of cuts. Texts one after the other repeat what a single reply does not,
/// so a rule may cut the reply, and nothing is read after a cut. Another conversation then reads the rest.
pub(crate) fn read_part(pack: &Pack, channel: Channel, deltas: &[Vec<u8>]) -> usize {
    let (mut read, mut cuts) = (0, 0);
    while read < deltas.len() {
        // A tool input begins with the name of its argument.
        let begin = &deltas[..usize::from(cuts > 0 && channel == Channel::ToolInput)];
        read += read_until_cut(pack, channel, begin, &deltas[read..]);
        cuts += usize::from(read < deltas.len());
    }
    cuts
}

/// Reads `begin` and `deltas` in one part, up to a cut. Returns the number of `deltas` that were read, at least one.
fn read_until_cut(pack: &Pack, channel: Channel, begin: &[Vec<u8>], deltas: &[Vec<u8>]) -> usize {
    let mut conversation = Conversation::new(pack);
    let mut turn = conversation.turn("");
    let mut attempt = turn.attempt();
    let _ = attempt.open(PART, channel);
    if channel == Channel::ToolInput {
        let _ = attempt.set_tool(PART, "bash", "call");
    }
    for delta in begin {
        let _ = attempt.push(PART, delta);
    }
    for (index, delta) in deltas.iter().enumerate() {
        if black_box(attempt.forward(PART, delta)).is_err() {
            return index + 1;
        }
    }
    deltas.len()
}

/// Opens and closes a conversation, an attempt and a part without a delta. Returns true if a rule cuts the empty reply.
pub(crate) fn read_nothing(pack: &Pack) -> bool {
    let mut conversation = Conversation::new(pack);
    let mut turn = conversation.turn("");
    let mut attempt = turn.attempt();
    let _ = attempt.open(PART, Channel::Text);
    let _ = attempt.close(PART);
    attempt.finish() != Flow::Go
}
