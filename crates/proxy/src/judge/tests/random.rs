//! Random replies with planted violations, in random deltas and segments: decisions and texts equal those of a
//! conversation over the same events.

use bytes::Bytes;
use ttsr::{
    Action, Channel, Conversation, DecisionRecord, Event, Flow, Pack, Pattern, Rule, Suppression,
};
use ttsr_testing::{Random, scale};
use ttsr_wire::Reader;

use super::replies::{OwnedPiece, random_deltas, seen, stream_of};
use super::{SETTINGS, every_stream, legal, new_judge, pack_of_rules, rule_of};
use crate::config::BlockEnding;
use crate::judge::JudgeSettings;

const WORDS: [&str; 14] = [
    "so ",
    "key-1234",
    "key-12 ",
    "forbidden",
    "forb",
    "rm -rf /",
    "TODO",
    " and",
    "é",
    "😀",
    ". ",
    "stop",
    "aaaa",
    "\\n",
];

fn packs() -> Vec<Pack> {
    let rule =
        |id: &str, pattern, action| -> Rule { rule_of(id, pattern, &Channel::STREAMED, action) };
    let redact = || rule("t/key", Pattern::regex("key-[0-9]{4}"), Action::Redact);
    let rest = rule("t/rest", Pattern::regex("a+"), Action::Redact);
    let warn = rule("t/todo", Pattern::word("TODO"), Action::Warn);
    let retry = rule("t/retry", Pattern::regex("forbidden\\b"), Action::Retry);
    let mut tool = rule("t/tool", Pattern::literal("rm -rf"), Action::Abort);
    tool.on = vec![Channel::ToolInput];
    let mut held = rule("t/held", Pattern::literal("forbidden"), Action::Abort);
    held.hold = true;
    let sets = [
        vec![redact(), warn.clone()],
        vec![redact(), rest, tool.clone()],
        vec![retry, warn],
        vec![held, tool, redact()],
    ];
    sets.into_iter().map(pack_of_rules).collect()
}

/// Random deltas of a random text.
fn deltas(random: &mut Random, is_input: bool) -> Vec<String> {
    let words: String = (0..random.below(8)).map(|_| random.pick(&WORDS)).collect();
    let text = match is_input {
        true => format!("{{\"command\": \"{words}\"}}"),
        false => words.replace("\\n", "\n"),
    };
    random_deltas(random, &text)
}

/// The text that a conversation releases, by channel, and true if it is cut.
fn model(pack: &Pack, stream: &str) -> (Conversation, [String; 3], bool) {
    let mut events = Vec::new();
    let mut reader = Reader::new("model");
    reader.push(stream.as_bytes(), &mut |_, event| events.push(event));
    reader.finish(&mut |_, event| events.push(event));
    let mut conversation = Conversation::new(pack);
    let _ = conversation.begin_turn("");
    conversation.begin_attempt().ok().unwrap();
    let (mut parts, mut is_cut) = (Vec::new(), false);
    for event in &events {
        if let Event::PartStart { part, channel, .. } = event {
            parts.push((*part, *channel, Vec::new()));
        }
        is_cut |= conversation.apply(event) != Flow::Go;
        for (part, _, text) in &mut parts {
            text.extend_from_slice(conversation.take(*part));
        }
    }
    let of = |wanted: Channel| {
        let texts = parts.iter().filter(|(_, channel, _)| *channel == wanted);
        let text: Vec<u8> = texts.flat_map(|(_, _, text)| text.clone()).collect();
        String::from_utf8(text).unwrap()
    };
    let texts = Channel::STREAMED.map(of);
    (conversation, texts, is_cut)
}

#[test]
fn decisions_and_texts_are_those_of_a_conversation_and_every_end_is_legal() {
    let packs = packs();
    let mut random = Random::new(23);
    let (mut cuts, mut edits) = (0, 0);
    for number in 0..scale(10_000) {
        let pieces: Vec<OwnedPiece> = (0..1 + random.below(4))
            .map(|_| match random.below(3) {
                0 => OwnedPiece::Text(deltas(&mut random, false)),
                1 => OwnedPiece::Reasoning(deltas(&mut random, false)),
                _ => OwnedPiece::Tool("bash".into(), deltas(&mut random, true)),
            })
            .collect();
        let pack = &packs[random.below(packs.len())];
        let ending = if random.one_in(3) {
            BlockEnding::Hard
        } else {
            BlockEnding::Soft
        };
        let has_text_alone = pieces
            .iter()
            .all(|piece| matches!(piece, OwnedPiece::Text(_)));
        for api in every_stream() {
            if !api.has_parts() && !has_text_alone {
                continue;
            }
            let stream = stream_of(api, &pieces);
            let mut judge = new_judge(api, pack, JudgeSettings { ending, ..SETTINGS });
            let mut sent = Vec::new();
            for piece in random.pieces(stream.as_bytes(), 200) {
                judge.push(Bytes::copy_from_slice(piece));
                sent.extend(judge.take());
            }
            assert_eq!(judge.finish(), Ok(()));
            sent.extend(judge.take());
            let sent = String::from_utf8(sent).unwrap();
            let (conversation, texts, is_cut) = model(pack, &stream);
            let what = format!("case {number}, {api:?}: {stream}\nsent: {sent}");
            assert_eq!(judge.report().is_blocked, is_cut, "{what}");
            let decided: Vec<_> = judge.parts.decisions().collect();
            let want = conversation.decisions();
            let cut = want.iter().find(|it| is_cut && it.action.cuts());
            let in_time = |it: &&DecisionRecord| {
                it.suppression != Some(Suppression::Cut)
                    || cut.is_none_or(|cut| it.decided <= cut.decided)
            };
            let want: Vec<_> = want.iter().filter(in_time).collect();
            assert_eq!(decided, want, "{what}");
            legal::check(api, &sent);
            let seen = seen(&sent);
            assert_eq!(seen.finishes.len(), 1, "{what}");
            let got = [&seen.text, &seen.reasoning, &seen.input];
            for (channel, (got, released)) in got.into_iter().zip(&texts).enumerate() {
                let mut got = got.as_str();
                if is_cut && channel == 0 {
                    let at = got
                        .rfind("[ttsr: reply stopped by rule")
                        .expect("the reason");
                    got = got[..at].trim_end_matches("\n\n");
                }
                match is_cut {
                    true => assert!(released.starts_with(got), "{what}"),
                    false => assert_eq!(got, released, "{what}"),
                }
            }
            cuts += u64::from(is_cut);
            edits += u64::from(!is_cut && sent != stream);
            let has_redaction = judge.report().redactions > 0;
            assert!(is_cut || has_redaction || sent == stream, "{what}");
        }
    }
    assert!(
        cuts > 20 && edits > 20,
        "{cuts} cuts, {edits} redacted replies"
    );
}
