//! Real captures, beside the corpus (`TTSR_CORPUS`). Without them the tests print that they are skipped and pass.

use std::path::PathBuf;
use std::time::Duration;

use ttsr::harness::Cancel;
use ttsr_agent::opencode::{Backoff, ServerAction, ServerApi, SessionWatcher, WatchEvent, watch};
use ttsr_agent::progress::RouterSettings;

use super::agent::chatted_in;
use super::{block_on, pack, server};
use ttsr_testing::opencode::{Imitation, Play, plays};
use ttsr_testing::skip;

fn skip_or_captures() -> Option<PathBuf> {
    let captures = skip::corpus()?.parent()?.join("opencode/captures");
    if !captures.is_dir() {
        skip::test("no captures beside TTSR_CORPUS");
        return None;
    }
    Some(captures)
}

/// Watches a replay until the given number of acts is done; returns the requests and the observations.
async fn replay(
    capture: &str,
    api: ServerApi,
    stop: &'static str,
    prompt: &'static str,
) -> (Vec<String>, Vec<WatchEvent>) {
    let imitation = Imitation::start(vec![plays(capture, stop, prompt)]).await;
    let server = server(&imitation.url, api);
    let mut watching = SessionWatcher::new(pack(), api);
    let cancel = Cancel::default();
    let mut seen = Vec::new();
    let report = |one: &WatchEvent| {
        let is_next = matches!(one, WatchEvent::Finish { .. })
            && seen
                .iter()
                .any(|seen| matches!(seen, WatchEvent::Done(ServerAction::Stop(_))));
        seen.push(one.clone());
        if is_next {
            cancel.cancel();
        }
    };
    let watched = watch(
        &server,
        &mut watching,
        Backoff::default(),
        cancel.clone(),
        report,
    );
    let ended = tokio::time::timeout(Duration::from_secs(60), watched).await;
    ended.expect("the capture is seen through").unwrap();
    (imitation.request_lines(), seen)
}

#[test]
fn real_captures_are_acted_on_as_whoever_captured_them_did() {
    let Some(folder) = skip_or_captures() else {
        return;
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    for (name, api, stop, prompt, is_late) in [
        (
            "oc-abort-text",
            ServerApi::Classic,
            "/abort",
            "/prompt_async",
            false,
        ),
        (
            "oc-abort-tool",
            ServerApi::Classic,
            "/abort",
            "/prompt_async",
            true,
        ),
        (
            "oc-v2-interrupt",
            ServerApi::Next,
            "/interrupt",
            "/prompt",
            false,
        ),
    ] {
        let capture = read(&format!("{name}.events.jsonl"));
        let (whats, seen) = block_on(replay(&capture, api, stop, prompt));
        let stops = whats.iter().filter(|what| what.ends_with(stop)).count();
        assert!(stops >= 1, "{name}: {whats:?}");
        let judged = seen.iter().find_map(|seen| match seen {
            WatchEvent::Decision(judged) => Some(judged),
            _ => None,
        });
        let judged = judged.expect("the rule is broken");
        assert_eq!(
            judged.decision.rule.as_deref(),
            Some("t/no-unwrap"),
            "{name}"
        );
        assert_eq!(judged.is_late, is_late, "{name}");
        eprintln!("{name}: {whats:?}");
    }
}

/// Captured without a watcher: a turn with a tool.
#[test]
fn a_real_capture_is_a_chat() {
    let Some(folder) = skip_or_captures() else {
        return;
    };
    let capture = std::fs::read_to_string(folder.join("oc-basic.events.jsonl")).unwrap();
    let session = capture.split("\"sessionID\":\"").nth(1).unwrap();
    let session = session.split('"').next().unwrap();
    let mut playing = vec![Play::Await("/prompt_async")];
    playing.extend(plays(&capture, "/abort", "/prompt_async"));
    let settings = RouterSettings::default();
    let (log, asked) = chatted_in(session, settings, ServerApi::Classic, playing, vec![]);
    eprintln!("{log:?}");
    let [first, note, reply, stopped] = &log[..] else {
        panic!("{log:?}");
    };
    assert_eq!(
        (first.as_str(), stopped.as_str()),
        ("(typing)", "(no typing)")
    );
    assert_eq!(note, "🔧 Prints a marker...");
    assert!(!reply.is_empty() && reply != "(empty response)");
    assert_eq!(asked, [format!("POST /session/{session}/prompt_async")]);
}
