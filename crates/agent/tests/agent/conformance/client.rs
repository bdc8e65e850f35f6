//! Rows E8 of `docs/harness.md`: the client of a running server, with an imitation of one over real sockets.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use ttsr::harness::{Cancel, Failure};
use ttsr_agent::handoff::{Handoff, ReadSession};
use ttsr_agent::opencode::{
    AskError, AskOptions, Backoff, Prompt, Server, ServerApi, SessionWatcher, WatchEvent,
    WatchOptions, ask, watch,
};

use super::foreground::foreground;
use super::{Case, Given, Shown};
use ttsr_testing::opencode::{Imitation, Play, RecordedRequest};

/// Returns the steps of a case whose settings name an interface of a server.
pub(super) fn run(case: &Case<'_>) -> Vec<Shown> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let run = async {
        let inputs: Vec<Given> = case.r#in.iter().map(|it| Given::new(case, it)).collect();
        let imitation = Imitation::start(plays(&inputs)).await;
        for input in inputs.iter().filter(|input| input.has("answers-json")) {
            let request = input.words("answers-json").leak();
            imitation.answer_json(request, &input.words("json"));
        }
        for input in inputs.iter().filter(|input| input.has("refuses")) {
            let answer = refusal(input.number("status").expect("a refusal has a status"));
            imitation.answer(input.words("refuses").leak(), answer);
        }
        let mut client = Client {
            server: server(case, &imitation.url),
            seen: Vec::new(),
            imitation,
        };
        for input in &inputs {
            client.take(case, input).await;
        }
        client.steps()
    };
    runtime.unwrap().block_on(run)
}

fn api(case: &Case<'_>) -> ServerApi {
    match case.settings.api.as_deref() {
        Some("classic") => ServerApi::Classic,
        Some("next") => ServerApi::Next,
        other => panic!("{}: no interface {other:?}", case.name),
    }
}

fn server(case: &Case<'_>, url: &str) -> Server {
    let server = Server::new(url, api(case)).unwrap();
    match &case.settings.password {
        Some(password) => server.with_password("opencode", password),
        None => server,
    }
}

fn refusal(status: u64) -> String {
    format!("{status} No\r\ncontent-length: 2\r\n\r\nno")
}

/// Returns the server's actions for each connection to its events.
fn plays(inputs: &[Given<'_>]) -> Vec<Vec<Play>> {
    let mut connections = vec![Vec::new()];
    for input in inputs {
        let plays = connections.last_mut().expect("there is always one");
        if let Some(event) = input.text("event") {
            plays.push(Play::Send(event));
        } else if let Some(request) = input.text("until") {
            plays.push(Play::Await(request.leak()));
        } else if input.has("breaks") {
            plays.push(Play::Break);
            connections.push(Vec::new());
        }
    }
    // The reader of the last connection comes to an end.
    if let Some(plays) = connections.last_mut() {
        plays.push(Play::Break);
    }
    connections
}

struct Client {
    server: Server,
    imitation: Imitation,
    /// The client's reports, each with the number of requests before it.
    seen: Vec<(usize, Shown)>,
}

impl Client {
    async fn take(&mut self, case: &Case<'_>, input: &Given<'_>) {
        let session = input.text("session").unwrap_or_else(|| "ses_1".to_owned());
        let server = self.server.clone();
        let done = if input.has("create") {
            let made = server.create_session().await;
            made.map(|session| self.tell(vec![("session", json!(session))]))
        } else if let Some(said) = input.text("prompt") {
            server.prompt(&session, &prompt(input, said)).await
        } else if input.has("stop") {
            server.abort(&session).await
        } else if let Some(message) = input.text("delete") {
            server.delete_message(&session, &message).await
        } else if let Some(question) = input.text("reply") {
            server.answer(&question, &answers(input)).await
        } else if let Some(question) = input.text("reject") {
            server.reject(&question).await
        } else if let Some(said) = input.text("ask") {
            let prompt = prompt(input, said);
            let reply = ask(&server, &session, &prompt, asking(input)).await;
            self.imitation.wait_until_closed().await;
            return self.tell(match reply {
                Ok(reply) => vec![("reply-text", json!(reply.text))],
                Err(AskError::Failed(failure)) => vec![("failed", json!(failure.to_string()))],
                Err(why) => vec![("failed", json!(why.to_string()))],
            });
        } else if let Some(text) = input.text("handoff") {
            let handoff = Handoff::new(session, text).files(input.list("files"));
            server
                .hand_over(&handoff, input.text("directory").as_deref())
                .await
        } else if let Some(read) = input.text("read-session") {
            let read = ReadSession::new(read, input.number("limit"));
            let transcript = server.read_session(&read).await;
            return self.tell(vec![("transcript", json!(transcript))]);
        } else if input.has("watch") {
            let mut watching = SessionWatcher::new(case.written.pack(), api(case));
            if !case.settings.chains.is_empty() {
                watching = watching.fallback(foreground(case));
            }
            self.watch(case, input, watching).await
        } else {
            // The server itself plays these inputs.
            let own = ["event", "until", "breaks", "refuses", "answers-json"];
            assert!(own.iter().any(|key| input.has(key)), "{:?}", input.table);
            Ok(())
        };
        if let Err(failure) = done {
            self.tell(vec![("failed", json!(failure.kind()))]);
        }
    }

    /// Runs rules on the server's events until the last one.
    async fn watch(
        &mut self,
        case: &Case<'_>,
        input: &Given<'_>,
        watching: SessionWatcher,
    ) -> Result<(), Failure> {
        let mut watching = match input.text("only") {
            Some(session) => watching.only(session),
            None => watching,
        };
        if input.has("dry") {
            watching = watching.dry_run();
        }
        let breaks = case.r#in.iter().filter(|it| it.has("breaks"));
        let mut connections = breaks.count() + 1;
        let cancel = Cancel::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let report = |seen: &WatchEvent| {
            let before = self.shown_requests().len();
            if let WatchEvent::Disconnected { .. } = seen {
                connections -= 1;
                if connections == 0 {
                    cancel.cancel();
                }
            }
            if let Some(shown) = shown(seen) {
                told.lock().unwrap().push((before, shown));
            }
        };
        let backoff = Backoff {
            first: Duration::from_millis(1),
            ..Backoff::default()
        };
        let options = WatchOptions {
            backoff,
            grace: Duration::ZERO,
            journal: None,
        };
        let ended = watch(&self.server, &mut watching, options, cancel.clone(), report);
        let ended = tokio::time::timeout(Duration::from_secs(30), ended).await;
        self.seen.append(&mut told.lock().unwrap());
        ended.expect("everything is said in time")
    }

    /// Returns the requests that are steps, without those that look for sessions and other watchers.
    fn shown_requests(&self) -> Vec<RecordedRequest> {
        let mut asked = self.imitation.all_requests();
        let is_lookup = |asked: &RecordedRequest| {
            let session = asked.line.strip_prefix("GET /session/");
            session.is_some_and(|session| !session.contains('/'))
        };
        asked.retain(|asked| !asked.is_announcement() && !is_lookup(asked));
        asked
    }

    fn tell(&mut self, shown: Shown) {
        let before = self.shown_requests().len();
        self.seen.push((before, shown));
    }

    /// Returns requests and reports in their order.
    fn steps(self) -> Vec<Shown> {
        let mut steps = Vec::new();
        let asked = self.shown_requests();
        let mut seen = self.seen.into_iter().peekable();
        for at in 0..=asked.len() {
            while let Some((_, shown)) = seen.next_if(|(before, _)| *before == at) {
                steps.push(shown);
            }
            steps.extend(asked.get(at).map(request));
        }
        for step in &mut steps {
            step.retain(|(_, value)| !value.is_null());
        }
        steps
    }
}

fn prompt(input: &Given<'_>, said: String) -> Prompt {
    let model = input.text("model");
    let model = model.as_deref().and_then(|model| model.split_once('/'));
    Prompt {
        agent: input.text("agent"),
        model: model.map(|(provider, model)| (provider.to_owned(), model.to_owned())),
        is_aside: input.has("aside"),
        ..Prompt::new(said)
    }
}

fn asking(input: &Given<'_>) -> AskOptions {
    let asking = AskOptions::default();
    if input.has("cancel") {
        asking.cancel.cancel();
    }
    AskOptions {
        timeout_ms: input.number("timeout-ms").unwrap_or(asking.timeout_ms),
        ..asking
    }
}

fn answers(input: &Given<'_>) -> Vec<Vec<String>> {
    let answers = input.table.get("answers").cloned();
    serde_json::from_value(answers.unwrap()).expect("a list of answers for each question")
}

fn request(asked: &RecordedRequest) -> Shown {
    let body = serde_json::from_str(&asked.body).unwrap_or(Value::Null);
    vec![
        ("http", json!(asked.line)),
        ("body", body),
        ("authorization", json!(asked.authorization)),
    ]
}

fn shown(seen: &WatchEvent) -> Option<Shown> {
    match seen {
        WatchEvent::Decision(judged) => Some(vec![
            ("verdict", json!(judged.decision.rule)),
            ("action", json!(judged.decision.action.name())),
            ("tool", json!(judged.decision.part.tool)),
            ("late", json!(judged.is_late)),
            ("beyond", json!(judged.is_unsupported)),
            ("suppressed", json!(judged.decision.suppressed)),
        ]),
        WatchEvent::Failed { .. } => Some(vec![("undone", json!(true))]),
        _ => None,
    }
}
