//! Aborts: the server sees the connection close, at once and before another request.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use ttsr::harness::{Cancel, End, Hooks, Processor, Run, Settings, Step, run};
use ttsr::{Channel, Pack};
use ttsr_agent::providers::{Endpoint, ProviderApi, Retries};

use super::server::{Framing, Plan, Server};
use super::{ask, endpoint, request, runtime, small};

/// A self-signed test certificate for `localhost` and `127.0.0.1`.
const CERTIFICATE: &[u8] = include_bytes!("tls/certificate.pem");
const KEY: &[u8] = include_bytes!("tls/key.pem");

fn acceptor() -> TlsAcceptor {
    let certificate = CertificateDer::from_pem_slice(CERTIFICATE).unwrap();
    let key = PrivateKeyDer::from_pem_slice(KEY).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

fn processor(action: &str) -> Processor {
    let pack = Pack::from_toml(&format!(
        r#"
        schema = 1
        [pack]
        name = "demo"
        [rule.no-owls]
        description = "No owls"
        severity = "error"
        action = "{action}"
        match.any = [{{ literal = "🦉 h" }}]
        examples.match = ["🦉 hoots"]
        "#
    ));
    Processor::new(&pack.unwrap(), Hooks::default(), Settings::default())
}

/// Sends everything except the end of the reply, and then is silent.
fn unfinished(api: ProviderApi) -> Plan {
    let plan = Plan::sse(small(api), Framing::Chunked);
    let length = plan.len() - 8;
    plan.first(length).linger()
}

/// Runs a reply that the rule cuts; returns the time from the verdict to the close that the server saw.
async fn cut(server: &Server, provider: &mut Endpoint) -> Duration {
    let mut processor = processor("abort");
    let mut verdict = None;
    let publish = |step: &Step| {
        if matches!(step, Step::CancelUpstream) {
            verdict.get_or_insert_with(Instant::now);
        }
        if let Step::Forward { bytes, .. } = step {
            assert!(
                !String::from_utf8_lossy(bytes).contains("hoots"),
                "published after the verdict"
            );
        }
    };
    let (mut outcome, cancel) = (None, Cancel::default());
    let running = run(&mut processor, provider, request(), "m", cancel, publish);
    let closed = tokio::join!(async { outcome = Some(running.await) }, server.saw_close(1)).1;
    assert!(matches!(outcome.unwrap().end, End::Aborted { .. }));
    closed.saturating_duration_since(verdict.expect("the rule is broken"))
}

/// A complaint: a provider whose reply is no longer read stops the generation, so it is not billed.
#[test]
fn the_server_sees_the_close_after_a_verdict() {
    runtime().block_on(async {
        for api in ProviderApi::ALL {
            let server = Server::start([unfinished(api).bytewise()]).await;
            let took = cut(&server, &mut endpoint(api, &server)).await;
            eprintln!("{}: from the verdict to the close {took:?}", api.name());
        }
    });
}

#[test]
fn the_server_sees_the_close_after_a_verdict_over_tls() {
    runtime().block_on(async {
        let api = ProviderApi::AnthropicMessages;
        let server = Server::start_tls([unfinished(api)], acceptor()).await;
        let endpoint = endpoint(api, &server).trust(&[CERTIFICATE.to_vec()]);
        let took = cut(&server, &mut endpoint.unwrap()).await;
        eprintln!("over TLS: from the verdict to the close {took:?}");
    });
}

#[test]
fn a_certificate_that_nobody_vouches_for_is_refused() {
    runtime().block_on(async {
        let api = ProviderApi::OpenAiChat;
        let server = Server::start_tls([Plan::sse(small(api), Framing::Length)], acceptor()).await;
        let mut untrusting = endpoint(api, &server);
        let came = ask(&mut untrusting, &request()).await;
        assert_eq!((came.kind(), came.events.len()), ("tls", 0));
        let mut trusting = untrusting.trust(&[CERTIFICATE.to_vec()]).unwrap();
        let came = ask(&mut trusting, &request()).await;
        assert_eq!(came.text(Channel::Text), "Voilà: 🦉 hoots.");
        assert!(
            server.requests().len() == 1,
            "nothing was sent before there was trust"
        );
    });
}

#[test]
fn the_old_connection_is_closed_before_the_retry_is_sent() {
    runtime().block_on(async {
        let api = ProviderApi::OpenAiChat;
        let good = String::from_utf8(small(api).to_vec())
            .unwrap()
            .replace('🦉', "🐦");
        let plans = [unfinished(api), Plan::sse(good.as_bytes(), Framing::Length)];
        let server = Server::start(plans).await;
        let mut provider = endpoint(api, &server);
        let mut processor = processor("retry");
        let outcome = run(
            &mut processor,
            &mut provider,
            request(),
            "m",
            Cancel::default(),
            |_| {},
        )
        .await;
        assert_eq!(outcome.reply.text(Channel::Text), "Voilà: 🐦 hoots.");
        server.saw_close(1).await;
        let requests = server.requests();
        let messages = requests[1].json()["messages"].to_string();
        assert!(messages.contains("No owls"), "{messages}");
        assert!(
            !messages.contains("Voilà"),
            "what was cut is not in the request: {messages}"
        );
    });
}

#[test]
fn the_server_sees_the_close_when_the_user_cancels_or_the_host_drops_the_reply() {
    for is_drop in [false, true] {
        runtime().block_on(async {
            let api = ProviderApi::OpenAiResponses;
            let server = Server::start([unfinished(api)]).await;
            let mut provider = endpoint(api, &server);
            let mut processor = processor("observe");
            let cancel = Cancel::default();
            let mut run = Run::begin(
                &mut processor,
                &mut provider,
                request(),
                "m",
                cancel.clone(),
            );
            while let Some(step) = run.next().await {
                match step {
                    Step::Forward { .. } if is_drop => break,
                    Step::Forward { .. } => cancel.cancel(),
                    _ => {}
                }
            }
            drop(run);
            server.saw_close(1).await;
        });
    }
}

#[test]
fn a_cancel_while_nothing_has_been_answered_closes_too() {
    runtime().block_on(async {
        let server = Server::start([Plan::raw("").linger()]).await;
        let mut provider = endpoint(ProviderApi::OpenAiChat, &server).retries(Retries::default());
        let mut processor = processor("observe");
        let cancel = Cancel::default();
        let running = run(
            &mut processor,
            &mut provider,
            request(),
            "m",
            cancel.clone(),
            |_| {},
        );
        let cancelling = async {
            while server.requests().is_empty() {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        };
        let (outcome, ()) = tokio::join!(running, cancelling);
        assert!(matches!(outcome.end, End::Aborted { .. }));
        server.saw_close(1).await;
        assert_eq!(server.connections(), 1);
    });
}

/// The client does not read ahead of its consumer, so the socket's buffers fill and the server waits.
#[test]
fn a_consumer_that_stops_reading_stops_the_server() {
    runtime().block_on(async {
        let delta = "data: {\"id\":\"c\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"more \"}}]}\n\n";
        let body = delta.repeat(400_000);
        let plan = Plan::sse(body.as_bytes(), Framing::Length).linger();
        let total = plan.len();
        let server = Server::start([plan.cut((0..total).step_by(1 << 16))]).await;
        let mut provider = endpoint(ProviderApi::OpenAiChat, &server);
        let mut processor = processor("observe");
        let mut run = Run::begin(&mut processor, &mut provider, request(), "m", Cancel::default());
        while !matches!(run.next().await, Some(Step::Forward { .. })) {}
        tokio::time::sleep(Duration::from_millis(50)).await;
        let written = server.written();
        assert!(written < total / 2, "{written} of {total} bytes were taken");
        drop(run);
        server.saw_close(1).await;
    });
}
