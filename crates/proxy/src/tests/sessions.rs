//! Proxies that share the sessions of a Redis server.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::{Request, StatusCode};
use ttsr::{Action, Channel, Pack, Pattern, Rule};
use ttsr_testing::{Folder, skip};

use super::operations::WrittenLines;
use super::requests::{body_of, json_response, post, whole_reply};
use super::tls::Authority;
use super::{Http, RunningProxy, client, collected, config, server, start, within};
use crate::{EventLog, MemoryStore, ProxyConfig, RedisStore, SessionStore};

const IDLE: Duration = Duration::from_secs(60);

/// A Redis server of a test, which ends with it.
struct RedisServer {
    child: Child,
    url: String,
    _folder: Folder,
}

impl RedisServer {
    /// Starts a server. Prints that the test is skipped if the program is not installed.
    fn start() -> Option<RedisServer> {
        RedisServer::start_with(|port| {
            let port = ["--port".to_owned(), port.to_string()];
            (Folder::outside(), port.to_vec())
        })
    }

    /// Starts a server in the folder and with the arguments that the function returns for a port.
    fn start_with(arguments: impl FnOnce(u16) -> (Folder, Vec<String>)) -> Option<RedisServer> {
        let port = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let (folder, arguments) = arguments(port);
        let child = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"])
            .args(arguments)
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .spawn();
        let Ok(child) = child else {
            skip::test("redis-server is not installed");
            return None;
        };
        Some(RedisServer {
            child,
            url: format!("redis://127.0.0.1:{port}"),
            _folder: folder,
        })
    }

    fn store(&self) -> Arc<RedisStore> {
        Arc::new(RedisStore::new(&self.url, IDLE).unwrap())
    }

    async fn ready(&self) {
        let store = self.store();
        within(async {
            while store.load("none").await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        })
        .await;
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_with_tls_must_have_a_certificate_of_the_authority() {
    let [authority, other] = ["stores", "others"].map(Authority::new);
    let folder = Folder::outside();
    let (certificate, key) = authority.sign();
    for (name, text) in [
        ("ca.pem", authority.pem()),
        ("certificate.pem", certificate.pem()),
        ("key.pem", key.serialize_pem()),
    ] {
        std::fs::write(folder.0.join(name), text).unwrap();
    }
    let Some(mut redis) = RedisServer::start_with(|port| {
        let files = [
            "--tls-ca-cert-file",
            "ca.pem",
            "--tls-cert-file",
            "certificate.pem",
        ];
        let more = [
            "--tls-key-file",
            "key.pem",
            "--tls-auth-clients",
            "no",
            "--port",
            "0",
        ];
        let port = ["--tls-port".to_owned(), port.to_string()];
        let files = files.into_iter().chain(more).map(str::to_owned);
        (folder, files.chain(port).collect())
    }) else {
        return;
    };
    redis.url = redis.url.replacen("redis://", "rediss://", 1);
    let store = |authority: &Authority| {
        let pem = authority.pem();
        RedisStore::with_authorities(&redis.url, IDLE, pem.as_bytes()).unwrap()
    };
    let trusted = store(&authority);
    within(async {
        while trusted.load("none").await.is_err() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await;
    assert!(trusted.save("a", b"1", 0).await.unwrap());
    let known = trusted.load("a").await.unwrap().unwrap();
    assert_eq!((known.version, &*known.state), (1, &b"1"[..]));
    assert!(store(&other).load("a").await.is_err());
    // The authorities of the system have not signed it.
    assert!(redis.store().load("a").await.is_err());
    let plain = redis.url.replacen("rediss://", "redis://", 1);
    let plain = RedisStore::new(&plain, IDLE).unwrap();
    assert!(plain.load("a").await.is_err());
}

#[test]
fn authorities_need_tls_and_a_certificate() {
    for (url, pem) in [
        ("redis://h", Authority::new("a").pem()),
        ("rediss://h", String::new()),
    ] {
        let made = RedisStore::with_authorities(url, IDLE, pem.as_bytes());
        assert!(made.is_err(), "{url}");
    }
}

fn pack() -> Pack {
    let rule = |id: &str, on: Channel, action: Action| {
        let mut rule = Rule::new(id, vec![Pattern::word("TODO")]);
        rule.on = vec![on];
        rule.action = action;
        rule.message = Some(format!("Message of {id}."));
        rule
    };
    let mut append = rule("t/append", Channel::UserInput, Action::Append);
    append.repeat = Some(ttsr::rule::Repeat {
        per_session: Some(2),
        ..Default::default()
    });
    [
        append,
        rule("t/warn", Channel::Text, Action::Warn),
        rule("t/inject", Channel::Text, Action::Inject),
    ]
    .into_iter()
    .fold(Pack::builder(), |builder, rule| builder.rule(rule))
    .build()
    .unwrap()
}

/// Sends the requests of a conversation, each to the next of these proxies, and returns what the server received and
/// what the client was warned of.
async fn conversation(
    proxies: &[RunningProxy],
    received: &mut super::ScriptedServer,
) -> Vec<(String, Vec<String>)> {
    let mut history = vec![("user", "TODO one")];
    let mut seen = Vec::new();
    for number in 0..6 {
        let proxy = &proxies[number % proxies.len()];
        let body = body_of("messages", &history);
        let response = client(Http::One).request(post(proxy, "messages", body));
        let response = within(response).await.unwrap();
        assert_eq!(response.status(), StatusCode::OK);
        let warnings = response.headers().get_all("x-ttsr-warning").iter();
        let warnings = warnings.map(|it| it.to_str().unwrap().to_owned()).collect();
        collected(response).await;
        let request = within(received.requests.recv()).await.unwrap();
        let sent = String::from_utf8(request.into_body().to_vec()).unwrap();
        seen.push((sent, warnings));
        history.extend([("assistant", "// TODO"), ("user", "TODO more")]);
    }
    seen
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn two_proxies_with_one_store_decide_as_one_proxy() {
    let Some(redis) = RedisServer::start() else {
        return;
    };
    redis.ready().await;
    let mut upstream =
        server(|_: Request<Bytes>| async { json_response(whole_reply("messages", "// TODO")) })
            .await;
    let with = |sessions: Arc<dyn SessionStore>| ProxyConfig {
        sessions,
        ..config(upstream.address, Http::One)
    };
    let one = [start(with(Arc::new(MemoryStore::new(9, IDLE))), pack()).await];
    let two = [
        start(with(redis.store()), pack()).await,
        start(with(redis.store()), pack()).await,
    ];
    let want = conversation(&one, &mut upstream).await;
    assert_eq!(conversation(&two, &mut upstream).await, want);
    let warned = want.iter().filter(|(_, warnings)| !warnings.is_empty());
    assert_eq!(warned.count(), 1, "{want:?}");
    let last = &want[5].0;
    assert_eq!(last.matches("Message of t/append.").count(), 2, "{last}");
    assert_eq!(last.matches("Message of t/inject.").count(), 1, "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn writes_at_the_same_time_are_one_after_the_other() {
    let Some(redis) = RedisServer::start() else {
        return;
    };
    redis.ready().await;
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = redis.store();
        writers.push(tokio::spawn(async move {
            for _ in 0..10 {
                loop {
                    let known = store.load("a").await.unwrap();
                    let (count, version) = known.map_or((0, 0), |known| {
                        let text = String::from_utf8(known.state).unwrap();
                        (text.parse::<u32>().unwrap(), known.version)
                    });
                    let next = (count + 1).to_string();
                    if store.save("a", next.as_bytes(), version).await.unwrap() {
                        break;
                    }
                }
            }
        }));
    }
    for writer in writers {
        within(writer).await.unwrap();
    }
    let known = redis.store().load("a").await.unwrap().unwrap();
    assert_eq!((known.version, &*known.state), (40, &b"40"[..]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn many_requests_at_the_same_time_do_not_wait_one_after_the_other_for_a_silent_server() {
    // Connections are accepted by the system, and nobody answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let store = Arc::new(RedisStore::new(&url, IDLE).unwrap());
    let began = std::time::Instant::now();
    let loads: Vec<_> = (0..20)
        .map(|number| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.load(&number.to_string()).await })
        })
        .collect();
    for load in loads {
        let error = within(load).await.unwrap().unwrap_err().to_string();
        assert_eq!(error, "the store of sessions does not answer");
    }
    let time = began.elapsed();
    assert!(time < Duration::from_secs(10), "{time:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_server_that_is_lost_refuses_requests_or_is_done_without_and_comes_back() {
    let Some(mut redis) = RedisServer::start() else {
        return;
    };
    redis.ready().await;
    let upstream =
        server(|_: Request<Bytes>| async { json_response(whole_reply("messages", "Fine.")) }).await;
    let logs = [WrittenLines::default(), WrittenLines::default()];
    let with = |fail_open: bool| ProxyConfig {
        sessions: redis.store(),
        fail_open,
        log: Some(EventLog::new(logs[usize::from(fail_open)].clone())),
        ..config(upstream.address, Http::One)
    };
    let proxy = start(with(false), pack()).await;
    let open = start(with(true), pack()).await;
    let body = body_of("messages", &[("user", "Hi.")]);
    let ask = |proxy| client(Http::One).request(post(proxy, "messages", body.clone()));
    for proxy in [&proxy, &open] {
        assert_eq!(within(ask(proxy)).await.unwrap().status(), StatusCode::OK);
    }
    redis.child.kill().unwrap();
    redis.child.wait().unwrap();
    let refused = within(ask(&proxy)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::BAD_GATEWAY);
    let text = String::from_utf8(collected(refused).await.to_vec()).unwrap();
    assert!(text.contains("the session cannot be kept"), "{text}");
    assert!(!text.contains("127.0.0.1"), "{text}");
    assert_eq!(within(ask(&open)).await.unwrap().status(), StatusCode::OK);
    for (proxy, log) in [&proxy, &open].into_iter().zip(&logs) {
        assert!(proxy.totals.snapshot().sessions_lost > 0);
        let lost =
            "\"event\":\"session-lost\",\"reason\":\"the store of sessions cannot be reached\"";
        assert!(log.text().contains(lost), "{}", log.text());
    }
    let port = redis.url.rsplit(':').next().unwrap().to_owned();
    redis.child = Command::new("redis-server")
        .args(["--bind", "127.0.0.1", "--save", "", "--port", &port])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    redis.ready().await;
    assert_eq!(within(ask(&proxy)).await.unwrap().status(), StatusCode::OK);
}
