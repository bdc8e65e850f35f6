//! The event stream of an OpenCode server, in both interfaces: synthetic captures, and real ones in the folder of
//! `TTSR_OPENCODE` (`*.events.jsonl`); without it that test prints that it is skipped and passes.

use ttsr::rule::ToolOutcome;
use ttsr::{Channel, Event};
use ttsr_wire::opencode::{OpenCodeReader, ServerNotice};

use crate::{Stream, lines, load, streams};
use ttsr_testing::skip;

type Notices = Vec<(String, ServerNotice)>;

fn feed<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Notices {
    let mut notices = Vec::new();
    let mut on = |session: &str, notice| notices.push((session.to_owned(), notice));
    let mut feed = OpenCodeReader::default();
    for piece in pieces {
        feed.push(piece, &mut on);
    }
    feed.finish(&mut on);
    notices
}

fn shown(notices: &Notices) -> String {
    let line = |(session, notice): &(String, ServerNotice)| match notice {
        ServerNotice::Event(event) => lines(&vec![(session.clone(), event.clone())]),
        ServerNotice::Question { id, questions } => {
            let questions = String::from_utf8_lossy(questions);
            format!("{session}: question {id} {questions}\n")
        }
        other => format!("{session}: {other:?}\n"),
    };
    notices.iter().map(line).collect()
}

/// Returns the reassembled replies; the assertions of [`Stream`] are made for each.
fn replies(notices: &Notices) -> Vec<Stream> {
    let mut replies = Vec::new();
    let mut events = Vec::new();
    for (session, notice) in notices {
        if let ServerNotice::Event(event) = notice {
            events.push((session.clone(), event.clone()));
            if matches!(event, Event::Finish { .. }) {
                replies.extend(streams(&std::mem::take(&mut events)));
            }
        }
    }
    replies
}

fn idles(notices: &Notices) -> usize {
    let idle = |(_, notice): &&(String, ServerNotice)| *notice == ServerNotice::Idle;
    notices.iter().filter(idle).count()
}

const CAPTURES: [&str; 3] = [
    "opencode-classic.sse",
    "opencode-v2.sse",
    "opencode-notices.sse",
];

#[test]
fn captures_give_the_expected_notices_under_every_cut() {
    for name in CAPTURES {
        let bytes = load(name);
        let whole = feed([&bytes[..]]);
        let golden = format!("{name}.notices");
        if std::env::var_os("TTSR_BLESS").is_some() {
            let path = format!("{}/tests/wire/{golden}", env!("CARGO_MANIFEST_DIR"));
            std::fs::write(path, shown(&whole)).unwrap();
        }
        assert_eq!(
            shown(&whole),
            String::from_utf8(load(&golden)).unwrap(),
            "{golden}"
        );
        assert_eq!(feed(bytes.chunks(1)), whole, "{name}: byte by byte");
        for cut in 0..=bytes.len() {
            assert_eq!(
                feed([&bytes[..cut], &bytes[cut..]]),
                whole,
                "{name}: cut at {cut}"
            );
        }
    }
}

#[test]
fn an_abort_makes_one_idle_and_no_second_reply() {
    let notices = feed([&load("opencode-classic.sse")[..]]);
    let replies = replies(&notices);
    let reasons: Vec<_> = replies
        .iter()
        .map(|reply| reply.finish.as_deref())
        .collect();
    assert_eq!(
        reasons,
        [Some("tool-calls"), Some("retry"), Some("aborted")]
    );
    assert_eq!(idles(&notices), 1);
    assert_eq!(replies[0].text(Channel::Reasoning), "Hm, an oak");
    assert_eq!(replies[0].text(Channel::Text), "I look 🦉.");
    assert_eq!(replies[0].text(Channel::ToolInput), r#"{"at":"oak"}"#);
    assert_eq!(replies[2].text(Channel::Text), "rm -rf");
}

#[test]
fn frames_that_cannot_be_read_are_counted() {
    let body = "data: {\"type\":\n\ndata: {\"type\":\"new.kind\",\"properties\":{\"sessionID\":\"s\",\"a\":\"bcd\"}}\n\n";
    let notices = feed([body.as_bytes()]);
    let unscanned = |bytes, kind: &str| {
        ServerNotice::Event(Event::Unscanned {
            bytes,
            kind: kind.to_owned(),
        })
    };
    let expected = [
        (String::new(), unscanned(8, "malformed-json")),
        ("s".to_owned(), unscanned(4, "new.kind")),
    ];
    assert_eq!(notices, expected);
    let mut feed = OpenCodeReader::default();
    feed.push(body.as_bytes(), &mut |_, _| {});
    assert_eq!(feed.malformed_events(), 1);
}

/// A server has any number of sessions. The one that was active longest ago is dropped first, and its reply ends.
#[test]
fn the_reply_of_the_oldest_session_ends_when_too_many_are_open() {
    let text = |session: usize| {
        format!(
            "data: {{\"type\":\"session.next.text.delta\",\"data\":{{\"sessionID\":\"s{session}\",\"assistantMessageID\":\"m\",\"textID\":\"t\",\"delta\":\"Hi\"}}}}\n\n"
        )
    };
    let mut feed = OpenCodeReader::default();
    let mut ends = Vec::new();
    for session in 0..2000 {
        feed.push(text(session).as_bytes(), &mut |id, notice| {
            if let ServerNotice::Event(Event::Finish { reason }) = notice {
                ends.push((id.to_owned(), reason));
            }
        });
    }
    let first = ends.first().expect("the number of sessions is bounded");
    assert_eq!(*first, ("s0".to_owned(), "truncated".to_owned()));
    assert!(ends.len() < 2000, "the newest sessions are kept");
    let expected: Vec<_> = (0..ends.len())
        .map(|session| (format!("s{session}"), "truncated".to_owned()))
        .collect();
    assert_eq!(ends, expected);
}

#[test]
fn real_captures() {
    let Some(folder) = skip::unless_set("TTSR_OPENCODE") else {
        return;
    };
    let mut read = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        // A capture of both interfaces at once names the interface of each line.
        let second = text.contains("\"sub\":\"/api/event\"");
        let mine = |line: &&str| !second || line.contains("\"sub\":\"/api/event\"");
        let events = text
            .lines()
            .filter(mine)
            .filter(|line| line.contains("\"type\":\""));
        let body: String = events.map(|line| format!("data: {line}\n\n")).collect();
        let notices = feed([body.as_bytes()]);
        assert_eq!(feed(body.as_bytes().chunks(1)), notices);
        let replies = replies(&notices);
        let deltas: usize = replies.iter().map(|reply| reply.deltas.len()).sum();
        for reply in &replies {
            for (part, bytes) in &reply.snapshots {
                let part = &reply.parts[*part];
                // The captures have other paths in repeated tool input than in its deltas.
                if part.channel != Channel::ToolInput {
                    assert_eq!(*bytes, part.bytes, "{}", path.display());
                }
            }
            assert_ne!(
                reply.finish.as_deref(),
                Some("truncated"),
                "{}",
                path.display()
            );
            assert_eq!(reply.unscanned_bytes(), 0, "{}", path.display());
        }
        let reasons: Vec<_> = replies
            .iter()
            .filter_map(|reply| reply.finish.clone())
            .collect();
        assert!(!replies.is_empty());
        eprintln!(
            "{}: {deltas} deltas, {} idle, replies {reasons:?}",
            path.file_name().unwrap().to_string_lossy(),
            idles(&notices)
        );
        read += 1;
    }
    assert!(read > 0);
}

#[test]
fn the_output_of_a_tool_and_its_outcome_are_read_on_both_interfaces() {
    let part = |state: &str| {
        format!(
            r#"data: {{"type":"message.part.updated","properties":{{"sessionID":"s","part":{{"id":"p","messageID":"m","type":"tool","tool":"read","callID":"c","state":{{{state}}}}}}}}}"#
        ) + "\n\n"
    };
    let next = |kind: &str, members: &str| {
        format!(
            r#"data: {{"type":"session.next.{kind}","data":{{"sessionID":"s","assistantMessageID":"m","callID":"c",{members}}}}}"#
        ) + "\n\n"
    };
    let running = part(r#""status":"running","input":{"p":"a"}"#);
    let begun = next("tool.input.started", r#""name":"read""#)
        + &next("tool.input.ended", r#""text":"{\"p\":\"a\"}""#)
        + &next("tool.called", r#""tool":"read","input":{"p":"a"}"#);
    let (ok, error) = (Some(ToolOutcome::Ok), Some(ToolOutcome::Error));
    for (what, body, expected) in [
        (
            "classic, completed",
            running.clone()
                + &part(r#""status":"completed","input":{"p":"a"},"output":"the text""#),
            ok,
        ),
        (
            "classic, error",
            running.clone() + &part(r#""status":"error","input":{"p":"a"},"error":"the text""#),
            error,
        ),
        (
            "classic, told twice",
            running.clone()
                + &part(r#""status":"error","input":{"p":"a"},"error":"the text""#).repeat(2),
            error,
        ),
        (
            "classic, after the call began",
            part(r#""status":"completed","input":{"p":"a"},"output":"the text""#),
            ok,
        ),
        (
            "the second one, success",
            begun.clone()
                + &next(
                    "tool.success",
                    r#""content":[{"type":"text","text":"the "},{"type":"text","text":"text"}]"#,
                ),
            ok,
        ),
        (
            "the second one, failed",
            begun.clone()
                + &next(
                    "tool.failed",
                    r#""error":{"type":"unknown","message":"the text"}"#,
                ),
            error,
        ),
    ] {
        let notices = feed([body.as_bytes()]);
        assert_eq!(feed(body.as_bytes().chunks(1)), notices, "{what}");
        let replies = replies(&notices);
        let parts = replies[0].parts.iter();
        let outputs: Vec<_> = parts
            .filter(|part| part.channel == Channel::ToolOutput)
            .map(|part| (part.tool.as_deref(), part.call.as_deref(), part.outcome))
            .collect();
        assert_eq!(outputs, [(Some("read"), Some("c"), expected)], "{what}");
        assert_eq!(replies[0].text(Channel::ToolOutput), "the text", "{what}");
        assert_eq!(
            replies[0].text(Channel::ToolInput),
            r#"{"p":"a"}"#,
            "{what}"
        );
    }
}
