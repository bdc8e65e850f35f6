//! Fallback to the next model.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ttsr::harness::{Failure, Provider, Scripted, ScriptedReply};
use ttsr::{Channel, Event};
use ttsr_agent::providers::{Chain, ProviderApi, ProviderNotice};

use super::server::{Framing, Plan, Server};
use super::{ask, endpoint, request, runtime, small};

fn failing(kind: &str, status: u16) -> Scripted {
    Scripted::new([ScriptedReply::default().fail(Failure::new(kind, "no").with_status(status))])
}

fn saying(text: &str) -> Scripted {
    Scripted::new([ScriptedReply::default().text(text).finish("stop")])
}

#[test]
fn the_next_model_answers_where_one_cannot() {
    for (kind, status) in [
        ("rate_limit_error", 429),
        ("insufficient_quota", 429),
        ("overloaded_error", 529),
        ("http", 503),
        ("model_not_found", 404),
        ("cut-off", 200),
    ] {
        runtime().block_on(async {
            let mut chain = Chain::new(failing(kind, status)).then("b", saying("from b"));
            let came = ask(&mut chain, &request()).await;
            assert_eq!(came.text(Channel::Text), "from b", "{kind}");
        });
    }
}

#[test]
fn a_reply_that_ends_or_fails_before_it_begins_is_the_next_models() {
    let silent = ScriptedReply::default();
    let failed = ScriptedReply::default().event(Event::Error {
        kind: "overloaded_error".into(),
        message: "busy".into(),
    });
    for (first, name) in [(silent, "silent"), (failed, "failed")] {
        runtime().block_on(async {
            let mut chain = Chain::new(Scripted::new([first])).then("b", saying("from b"));
            assert_eq!(chain.models(), ["", "b"]);
            assert_eq!(format!("{chain:?}"), r#"Chain(["", "b"])"#);
            let came = ask(&mut chain, &request()).await;
            assert_eq!(came.text(Channel::Text), "from b", "{name}");
        });
    }
}

#[test]
fn a_wrong_request_is_wrong_for_every_model() {
    for (kind, status) in [
        ("invalid_request_error", 400),
        ("invalid_api_key", 401),
        ("http", 403),
    ] {
        runtime().block_on(async {
            let second = saying("from b");
            let mut chain = Chain::new(failing(kind, status)).then("b", second.clone());
            assert_eq!(ask(&mut chain, &request()).await.kind(), kind);
        });
    }
}

#[test]
fn each_model_is_tried_once_a_request_and_the_last_failure_is_told() {
    runtime().block_on(async {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&notices);
        let chain = Chain::new(failing("a", 500))
            .then("b", failing("b", 500))
            .then("c", failing("c", 500));
        let mut chain = chain.watch(move |notice| {
            if let ProviderNotice::FallingBack { from, to, .. } = notice {
                kept.lock().unwrap().push(format!("{from} to {to}"));
            }
        });
        assert_eq!(ask(&mut chain, &request()).await.kind(), "c");
        assert_eq!(*notices.lock().unwrap(), ["a-model to b", "b to c"]);
    });
}

/// Asks a chain three times whose first model fails once.
fn three_times(rest: Duration) -> (Vec<String>, usize) {
    runtime().block_on(async {
        let first = Scripted::new([
            ScriptedReply::default().fail(Failure::new("http", "busy").with_status(529)),
            ScriptedReply::default().text("from a").finish("stop"),
        ]);
        let chain = Chain::new(first.clone()).then("b", saying("from b"));
        let mut chain = chain.cooldown(rest);
        let mut texts = Vec::new();
        for _ in 0..3 {
            texts.push(ask(&mut chain, &request()).await.text(Channel::Text));
        }
        (texts, first.requests().len())
    })
}

#[test]
fn a_model_that_failed_is_left_alone_for_a_while() {
    let (texts, asked) = three_times(Duration::from_secs(3_600));
    assert_eq!(texts, ["from b", "from b", "from b"]);
    assert!(asked <= 1);
    let (texts, _) = three_times(Duration::ZERO);
    assert_eq!(texts, ["from b", "from a", "from a"]);
}

#[test]
fn all_models_are_asked_if_all_of_them_rest() {
    runtime().block_on(async {
        let mut chain = Chain::new(failing("a", 500)).then("b", failing("b", 500));
        for _ in 0..3 {
            assert_eq!(ask(&mut chain, &request()).await.kind(), "b");
        }
    });
}

#[test]
fn a_reply_that_has_begun_stays_with_its_model() {
    runtime().block_on(async {
        let half = ScriptedReply::default()
            .text("half")
            .fail(Failure::new("cut-off", "gone"));
        let mut chain = Chain::new(Scripted::new([half])).then("b", saying("from b"));
        let came = ask(&mut chain, &request()).await;
        assert_eq!(
            (came.text(Channel::Text).as_str(), came.kind()),
            ("half", "cut-off")
        );
    });
}

#[test]
fn models_of_one_server_are_asked_by_their_names() {
    runtime().block_on(async {
        let busy = Plan::status("429 Too Many Requests", "retry-after: 3600\r\n", "");
        let good = Plan::sse(small(ProviderApi::AnthropicMessages), Framing::Chunked);
        let server = Server::start([busy.clone(), busy, good]).await;
        let endpoint = endpoint(ProviderApi::AnthropicMessages, &server);
        let chain = Chain::new(endpoint.clone())
            .then("b", endpoint.clone())
            .then("c", endpoint);
        let mut boxed: Box<dyn Provider> = Box::new(chain);
        assert!(ask(&mut boxed, &request()).await.is_finished());
        let models = server
            .requests()
            .iter()
            .map(|heard| heard.json()["model"].clone())
            .collect::<Vec<_>>();
        assert_eq!(models, ["a-model", "b", "c"]);
    });
}
