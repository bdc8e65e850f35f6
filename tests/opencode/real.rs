//! Real captures, found beside the corpus (`TTSR_CORPUS`), and a real server where `TTSR_E2E` asks for one.
//! Where there is none, the tests say so and pass.

use std::path::PathBuf;
use std::time::Duration;

use ttsr::harness::Cancel;
use ttsr::harness::opencode::{Act, Api, Backoff, Prompt, Seen, Server, Watch, watch};

use super::server::{Imitation, plays};
use super::{block_on, pack, server};

fn captures() -> Option<PathBuf> {
    let corpus = PathBuf::from(std::env::var_os("TTSR_CORPUS")?);
    let captures = corpus.parent()?.join("opencode/captures");
    captures.is_dir().then_some(captures)
}

/// Watches a replay until so many acts are done; what was asked, and what was seen.
async fn replay(
    capture: &str,
    api: Api,
    stop: &'static str,
    prompt: &'static str,
) -> (Vec<String>, Vec<Seen>) {
    let imitation = Imitation::start(vec![plays(capture, stop, prompt)]).await;
    let server = server(&imitation.url, api);
    let mut watching = Watch::new(pack(), api);
    let cancel = Cancel::default();
    let mut seen = Vec::new();
    let report = |one: &Seen| {
        let is_next = matches!(one, Seen::Finish { .. })
            && seen
                .iter()
                .any(|seen| matches!(seen, Seen::Done(Act::Stop { .. })));
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
    (imitation.whats(), seen)
}

#[test]
fn e8_real_captures_are_acted_on_as_whoever_captured_them_did() {
    let Some(folder) = captures() else {
        eprintln!("skipped: no captures beside TTSR_CORPUS");
        return;
    };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    for (name, api, stop, prompt, is_late) in [
        (
            "oc-abort-text",
            Api::Classic,
            "/abort",
            "/prompt_async",
            false,
        ),
        (
            "oc-abort-tool",
            Api::Classic,
            "/abort",
            "/prompt_async",
            true,
        ),
        ("oc-v2-interrupt", Api::Next, "/interrupt", "/prompt", false),
    ] {
        let capture = read(&format!("{name}.events.jsonl"));
        let (whats, seen) = block_on(replay(&capture, api, stop, prompt));
        let stops = whats.iter().filter(|what| what.ends_with(stop)).count();
        assert!(stops >= 1, "{name}: {whats:?}");
        let judged = seen.iter().find_map(|seen| match seen {
            Seen::Judged(judged) => Some(judged),
            _ => None,
        });
        let judged = judged.expect("the rule is broken");
        assert_eq!(judged.rule.as_deref(), Some("t/no-unwrap"), "{name}");
        assert_eq!(judged.is_late, is_late, "{name}");
        eprintln!("{name}: {whats:?}");
    }
}

/// `TTSR_E2E` is the address of a running server whose model may be asked something
/// (`opencode serve --port 4096`), and `TTSR_E2E_MODEL` the model, as `provider/model`.
#[test]
fn e8_a_real_server_is_heard_asked_and_stopped() {
    let Ok(url) = std::env::var("TTSR_E2E") else {
        eprintln!("skipped: TTSR_E2E is not set to the address of a server");
        return;
    };
    let model = std::env::var("TTSR_E2E_MODEL").ok();
    let model = model.as_deref().and_then(|model| model.split_once('/'));
    let model = model.map(|(provider, model)| (provider.to_owned(), model.to_owned()));
    block_on(async {
        let server = Server::new(&url, Api::Classic).unwrap();
        let session = server.create_session().await.unwrap();
        let mut watching = Watch::new(pack(), Api::Classic).only(&session);
        let cancel = Cancel::default();
        let mut seen = Vec::new();
        let report = |one: &Seen| {
            let is_steered = seen.iter().any(|seen| matches!(seen, Seen::Done(_)));
            let is_over = is_steered && matches!(one, Seen::Finish { .. });
            eprintln!("{one:?}");
            seen.push(one.clone());
            if is_over {
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
        let prompt = Prompt {
            model,
            ..Prompt::new("Show me a line of Rust with .unwrap() in it.")
        };
        let asked = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            server.prompt(&session, &prompt).await
        };
        let both = async { tokio::join!(watched, asked) };
        let (watched, asked) = tokio::time::timeout(Duration::from_secs(120), both)
            .await
            .expect("the server does it in time");
        watched.unwrap();
        asked.unwrap();
        let is_stopped = |seen: &Seen| matches!(seen, Seen::Done(Act::Stop { steer: Some(_), .. }));
        assert!(seen.iter().any(is_stopped));
    });
}
