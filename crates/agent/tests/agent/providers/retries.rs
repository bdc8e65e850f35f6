//! Retries: their causes, number and waits.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::TcpListener;
use ttsr::Channel;
use ttsr_agent::providers::{Endpoint, ProviderApi, ProviderNotice};

use super::server::{Framing, Plan, Server};
use super::{Came, ask, endpoint, request, runtime, small, soon};

fn good() -> Plan {
    Plan::sse(small(ProviderApi::OpenAiChat), Framing::Length)
}

fn status(status: &str, headers: &str) -> Plan {
    Plan::status(
        status,
        headers,
        r#"{"error":{"type":"server_error","message":"later"}}"#,
    )
}

/// Sends a request with that many retries; returns the result and the number of requests that the server received.
fn retried(plans: Vec<Plan>, most: u32) -> (Came, usize) {
    runtime().block_on(async {
        let server = Server::start(plans).await;
        let mut endpoint = endpoint(ProviderApi::OpenAiChat, &server).retries(soon(most));
        let came = ask(&mut endpoint, &request()).await;
        (came, server.connections())
    })
}

#[test]
fn a_request_is_sent_again_until_it_is_answered() {
    for plan in [
        status("408 Request Timeout", ""),
        status("409 Conflict", ""),
        status("429 Too Many Requests", ""),
        status("429 Too Many Requests", "retry-after: 0\r\n"),
        status("500 Internal Server Error", ""),
        status("503 Service Unavailable", "retry-after-ms: 20\r\n"),
        status("529 Overloaded", ""),
        // Closed without a response, and with half a response.
        Plan::raw(""),
        Plan::raw("HTTP/1.1 200 O"),
        good().first(150),
        Plan::sse(
            b"data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"\"}}\n\n",
            Framing::Length,
        ),
    ] {
        let shown = String::from_utf8_lossy(&plan.bytes()).into_owned();
        let (came, asked) = retried(vec![plan.clone(), plan, good()], 2);
        assert_eq!(came.text(Channel::Text), "Voilà: 🦉 hoots.", "{shown}");
        assert_eq!(asked, 3, "{shown}");
    }
}

#[test]
fn a_permanent_failure_is_asked_once() {
    for plan in [
        status("400 Bad Request", ""),
        status("401 Unauthorized", ""),
        status("403 Forbidden", ""),
        status("404 Not Found", ""),
        Plan::status(
            "429 Too Many Requests",
            "",
            r#"{"error":{"code":"insufficient_quota","message":""}}"#,
        ),
    ] {
        let (came, asked) = retried(vec![plan, good()], 5);
        assert!(came.failure.is_some() && came.events.is_empty(), "{came:?}");
        assert_eq!(asked, 1, "{came:?}");
    }
}

#[test]
fn retries_have_an_end() {
    for most in [0, 1, 4] {
        let (came, asked) = retried(vec![status("503 Service Unavailable", "")], most);
        assert_eq!((came.kind(), asked), ("server_error", most as usize + 1));
    }
}

/// If a provider asks for a longer wait than the limit, the request is not retried, and its failure contains the wait.
#[test]
fn a_wait_beyond_the_bound_is_not_waited() {
    for (wait, expected) in [("1000000000", 1_000_000_000), ("3600", 3_600)] {
        let plan = status("429 Too Many Requests", &format!("retry-after: {wait}\r\n"));
        let (came, asked) = retried(vec![plan, good()], 3);
        let failure = came.failure.unwrap();
        assert_eq!(failure.retry_after(), Some(Duration::from_secs(expected)));
        assert_eq!((failure.status(), asked), (Some(429), 1));
    }
    let date =
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 09:49:37 GMT\r\n";
    let (came, asked) = retried(vec![status("503 Service Unavailable", date), good()], 3);
    let wait = came.failure.unwrap().retry_after();
    assert_eq!((wait, asked), (Some(Duration::from_secs(3_600)), 1));
    let date =
        "date: Sun, 06 Nov 1994 08:49:37 GMT\r\nretry-after: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
    let (came, asked) = retried(vec![status("503 Service Unavailable", date), good()], 3);
    assert_eq!((came.is_finished(), asked), (true, 2));
}

/// Half a reply was shown: rules, hooks and hosts decide about it.
#[test]
fn a_reply_that_has_begun_is_not_asked_for_again() {
    let plan = good();
    let length = plan.len();
    let (came, asked) = retried(vec![plan.first(length - 100), good()], 5);
    assert_eq!((came.kind(), asked), ("cut-off", 1));
    assert_eq!(came.text(Channel::Text), "Voilà: 🦉 hoots.");
}

#[test]
fn whoever_watches_is_told_of_each_retry() {
    runtime().block_on(async {
        let plans = [
            status("429 Too Many Requests", "retry-after-ms: 7\r\n"),
            good(),
        ];
        let server = Server::start(plans).await;
        let notices = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&notices);
        let endpoint = endpoint(ProviderApi::OpenAiChat, &server).retries(soon(2));
        let mut endpoint = endpoint.watch(move |notice| kept.lock().unwrap().push(notice.clone()));
        assert!(ask(&mut endpoint, &request()).await.is_finished());
        let notices = notices.lock().unwrap();
        let [
            ProviderNotice::Retrying {
                failure,
                wait,
                times,
            },
        ] = &notices[..]
        else {
            panic!("{notices:?}");
        };
        assert_eq!((*wait, *times), (Duration::from_millis(7), 1));
        assert_eq!(failure.status(), Some(429));
    });
}

#[test]
fn nobody_there_is_a_failure_to_connect_after_all_retries() {
    runtime().block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        drop(listener);
        let notices = Arc::new(Mutex::new(0));
        let kept = Arc::clone(&notices);
        let endpoint = Endpoint::at(ProviderApi::OpenAiChat, &base)
            .unwrap()
            .retries(soon(3));
        let mut endpoint = endpoint.watch(move |_| *kept.lock().unwrap() += 1);
        assert_eq!(ask(&mut endpoint, &request()).await.kind(), "connect");
        assert_eq!(*notices.lock().unwrap(), 3);
    });
}
