//! Proxies whose sessions are in a journal: they go on after a restart, and a journal that cannot be used is told.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Request, Response, StatusCode};
use ttsr::rule::{Allowance, Repeat};
use ttsr::{Action, Channel, Pack, Pattern};
use ttsr_testing::Folder;

use super::operations::WrittenLines;
use super::requests::{body_of, json_response, post, whole_reply};
use super::{
    Http, RunningProxy, ScriptedBody, ScriptedServer, TestClient, client, collected, config,
    server, start, within,
};
use crate::judge::tests::{pack_of_rules, rule_of};
use crate::{
    EventLog, JournalStore, MemoryStore, ProxyConfig, ProxyLogEvent, ProxyLogLine, SessionStore,
};

const IDLE: Duration = Duration::from_secs(60);

const CHUNKS: [&str; 3] = [
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"// TODO\"}}]}\n\n",
    "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
    "data: [DONE]\n\n",
];

/// Rules that act twice a session, once in three turns, once a session, and as often as their allowance lets them.
fn pack() -> Pack {
    let rule = |id: &str, on: Channel, action: Action| {
        let mut rule = rule_of(id, Pattern::word("TODO"), &[on], action);
        rule.message = Some(format!("Message of {id}."));
        rule
    };
    let mut append = rule("t/append", Channel::UserInput, Action::Append);
    append.repeat = Some(Repeat {
        per_session: Some(2),
        ..Repeat::default()
    });
    let mut warn = rule("t/warn", Channel::Text, Action::Warn);
    warn.repeat = Some(Repeat {
        cooldown_turns: Some(3),
        ..Repeat::default()
    });
    let mut observe = rule("t/observe", Channel::Text, Action::Observe);
    observe.repeat = Some(Repeat::default());
    observe.allowance = Allowance {
        per_session: Some(3),
        ..Allowance::default()
    };
    let inject = rule("t/inject", Channel::Text, Action::Inject);
    pack_of_rules([append, warn, observe, inject])
}

/// A server that says `// TODO`: streamed in Chat, and not streamed in Messages.
async fn saying_todo() -> ScriptedServer {
    server(|request: Request<Bytes>| async move {
        if request.uri().path().ends_with("messages") {
            return json_response(whole_reply("messages", "// TODO"));
        }
        let mut response = Response::new(ScriptedBody::of(CHUNKS.map(Bytes::from).to_vec()));
        let kind = "text/event-stream".parse().unwrap();
        response.headers_mut().insert("content-type", kind);
        response
    })
    .await
}

/// A proxy that writes a log.
struct LoggingProxy {
    proxy: RunningProxy,
    log: WrittenLines,
    http: TestClient,
}

impl LoggingProxy {
    async fn start(
        upstream: &ScriptedServer,
        sessions: Arc<dyn SessionStore>,
        fail_open: bool,
    ) -> LoggingProxy {
        let log = WrittenLines::default();
        let config = ProxyConfig {
            log: Some(EventLog::new(log.clone())),
            sessions,
            fail_open,
            ..config(upstream.address, Http::One)
        };
        LoggingProxy {
            proxy: start(config, pack()).await,
            log,
            http: client(Http::One),
        }
    }

    /// Sends a request. Returns the status of its response and the events of the log, once both are complete.
    async fn ask(&self, path: &str, history: &[(&str, &str)]) -> (StatusCode, Vec<ProxyLogEvent>) {
        let before = self.log.text().len();
        let request = self
            .http
            .request(post(&self.proxy, path, body_of(path, history)));
        let response = within(request).await.unwrap();
        let status = response.status();
        collected(response).await;
        let is_last = |it: &ProxyLogEvent| {
            matches!(
                it,
                ProxyLogEvent::Reply { .. } | ProxyLogEvent::Failed { .. }
            )
        };
        let events = within(async {
            loop {
                let text = self.log.text().split_off(before);
                let lines = text.lines().map(serde_json::from_str::<ProxyLogLine>);
                let events: Vec<ProxyLogEvent> = lines.map(|line| line.unwrap().event).collect();
                if events.iter().any(is_last) {
                    break events;
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        });
        (status, events.await)
    }

    /// Ends the proxy, and with it the use of its journal.
    async fn stop(self) {
        drop(self.http);
        self.proxy.stop.send(()).unwrap();
        within(self.proxy.ended).await.unwrap();
    }
}

/// The reasons in the log for which a session was lost.
fn lost(events: &[ProxyLogEvent]) -> Vec<&str> {
    let reasons = events.iter().filter_map(|event| match event {
        ProxyLogEvent::SessionLost { reason } => Some(reason.as_str()),
        _ => None,
    });
    reasons.collect()
}

/// Number of times that `t/append` acted.
fn appends(events: &[ProxyLogEvent]) -> usize {
    let decisions = events.iter().filter(|event| match event {
        ProxyLogEvent::Decision {
            rule, suppression, ..
        } => rule.as_deref() == Some("t/append") && suppression.is_none(),
        _ => false,
    });
    decisions.count()
}

fn journal(path: &Path) -> Arc<JournalStore> {
    Arc::new(JournalStore::open(path, 9, IDLE).unwrap())
}

/// The means by which the proxy of the next request has the sessions of the last one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Restart {
    /// It is the same proxy.
    None,
    /// The last one was stopped.
    Stopped,
    /// The journal is what it was while the last one ran, as after it was killed.
    Killed,
}

/// Holds a conversation of seven requests with one proxy after the other. Returns what the server received for each
/// request, and its decisions in the log.
async fn conversation(path: &str, restart: Restart) -> Vec<(String, Vec<String>)> {
    let mut upstream = saying_todo().await;
    let folder = Folder::new();
    let file = |number: usize| folder.0.join(format!("sessions-{number}"));
    let first: Arc<dyn SessionStore> = match restart {
        Restart::None => Arc::new(MemoryStore::new(9, IDLE)),
        _ => journal(&file(0)),
    };
    let mut proxy = LoggingProxy::start(&upstream, first, false).await;
    let mut history = vec![("user", "TODO one")];
    let mut seen = Vec::new();
    for number in 1..=7 {
        let (status, events) = proxy.ask(path, &history).await;
        assert_eq!(status, StatusCode::OK);
        let request = within(upstream.requests.recv()).await.unwrap();
        let sent = String::from_utf8(request.into_body().to_vec()).unwrap();
        let decisions = events.iter().filter_map(|event| match event {
            ProxyLogEvent::Decision {
                rule, suppression, ..
            } => Some(format!("{} {suppression:?}", rule.as_ref().unwrap())),
            _ => None,
        });
        seen.push((sent, decisions.collect()));
        history.extend([("assistant", "// TODO"), ("user", "TODO more")]);
        if restart == Restart::None {
            continue;
        }
        fs::copy(file(number - 1), file(number)).unwrap();
        if restart == Restart::Stopped {
            proxy.stop().await;
        }
        proxy = LoggingProxy::start(&upstream, journal(&file(number)), false).await;
    }
    seen
}

#[tokio::test]
async fn proxies_that_are_started_again_on_their_journal_decide_as_one_proxy() {
    for path in ["messages", "chat/completions"] {
        let want = conversation(path, Restart::None).await;
        let decisions: Vec<&str> = want
            .iter()
            .flat_map(|it| &it.1)
            .map(String::as_str)
            .collect();
        let count = |wanted: &str| decisions.iter().filter(|it| **it == wanted).count();
        let acted =
            ["append", "warn", "observe", "inject"].map(|it| count(&format!("t/{it} None")));
        assert_eq!(acted, [2, 3, 3, 1], "{decisions:#?}");
        let last = &want[6].0;
        assert_eq!(last.matches("Message of t/append.").count(), 2, "{last}");
        assert_eq!(last.matches("Message of t/inject.").count(), 1, "{last}");
        for restart in [Restart::Stopped, Restart::Killed] {
            assert_eq!(
                conversation(path, restart).await,
                want,
                "{path} {restart:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_journal_whose_last_line_is_cut_has_the_sessions_before_it() {
    let upstream = saying_todo().await;
    let folder = Folder::new();
    let path = folder.0.join("sessions");
    let proxy = LoggingProxy::start(&upstream, journal(&path), false).await;
    let history = [("user", "TODO one")];
    let (status, first) = proxy.ask("messages", &history).await;
    assert_eq!((status, first.len()), (StatusCode::OK, 5), "{first:?}");
    proxy.stop().await;
    let written = fs::read(&path).unwrap();
    // The last line has the actions of the reply, the one before it those of the request.
    fs::write(&path, &written[..written.len() - 9]).unwrap();
    let proxy = LoggingProxy::start(&upstream, journal(&path), false).await;
    let (status, second) = proxy.ask("messages", &history).await;
    assert_eq!(status, StatusCode::OK);
    // The text of the request is known, and the reply is judged as before it.
    let decisions = |events: &[ProxyLogEvent]| {
        let is_decision = |event: &&ProxyLogEvent| matches!(event, ProxyLogEvent::Decision { .. });
        let decisions = events.iter().filter(is_decision).cloned();
        decisions.collect::<Vec<_>>()
    };
    assert_eq!((appends(&first), appends(&second)), (1, 0));
    assert_eq!(decisions(&second), decisions(&first)[1..]);
}

#[tokio::test]
async fn a_session_in_another_form_refuses_its_requests_or_is_done_without() {
    let upstream = saying_todo().await;
    let folder = Folder::new();
    let path = folder.0.join("sessions");
    let history = [("user", "TODO one")];
    let proxy = LoggingProxy::start(&upstream, journal(&path), false).await;
    proxy.ask("messages", &history).await;
    proxy.stop().await;
    let written = fs::read_to_string(&path).unwrap();
    let mut line: serde_json::Value =
        serde_json::from_str(written.lines().next().unwrap()).unwrap();
    line["state"] = "{\"rules\":7}".into();
    for fail_open in [false, true] {
        fs::write(&path, format!("{line}\n")).unwrap();
        let proxy = LoggingProxy::start(&upstream, journal(&path), fail_open).await;
        let (status, events) = proxy.ask("messages", &history).await;
        let want = match fail_open {
            true => StatusCode::OK,
            false => StatusCode::BAD_GATEWAY,
        };
        assert_eq!(status, want, "{events:?}");
        assert_eq!(lost(&events), ["the state of the session has another form"]);
        assert_eq!(proxy.proxy.totals.snapshot().sessions_lost, 1);
        proxy.stop().await;
    }
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_journal_on_a_full_disk_refuses_requests_or_is_done_without_until_there_is_room() {
    let upstream = saying_todo().await;
    let history = [("user", "TODO one")];
    for fail_open in [false, true] {
        let folder = Folder::new();
        let path = folder.0.join("sessions");
        let store = journal(&path);
        let proxy = LoggingProxy::start(&upstream, store.clone(), fail_open).await;
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let usual = store.write_to(full);
        let (status, events) = proxy.ask("messages", &history).await;
        let want = match fail_open {
            true => StatusCode::OK,
            false => StatusCode::BAD_GATEWAY,
        };
        assert_eq!(status, want, "{events:?}");
        assert_eq!(lost(&events), ["the file of sessions cannot be written"]);
        drop(store.write_to(usual));
        let (status, events) = proxy.ask("messages", &history).await;
        assert_eq!((status, lost(&events).len()), (StatusCode::OK, 0));
        // A session that was not written has not begun.
        assert_eq!(appends(&events), 1, "{events:?}");
        let copy = folder.0.join("copy");
        fs::copy(&path, &copy).unwrap();
        let again = LoggingProxy::start(&upstream, journal(&copy), false).await;
        let (_, events) = again.ask("messages", &history).await;
        assert_eq!(appends(&events), 0, "{events:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_journal_is_an_error_and_stays_as_it_is() {
    let folder = Folder::new();
    let open = |path: &Path| JournalStore::open(path, 9, IDLE);
    for text in ["my notes", "{\"name\": 1}\n{\"name\": 2}\n"] {
        let path = folder.write("notes", text);
        let error = open(&path).err().unwrap().to_string();
        assert!(error.contains("not overwritten"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    for text in ["", "\n", "{\"key\":\"a\",\"sta"] {
        let path = folder.write("notes", text);
        open(&path).unwrap();
    }
}
