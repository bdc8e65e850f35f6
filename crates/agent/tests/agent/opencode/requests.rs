//! Single requests to a server, and what rules can do there.

use ttsr::{Channel, Pack};
use ttsr_agent::handoff::{FileSource, Handoff, HandoffTracker, IncomingMessage};
use ttsr_agent::opencode::{ActionSupport, ServerApi};
use ttsr_testing::listener;

use ttsr::harness::{Content, Message};

use super::{block_on, server};

#[test]
fn a_session_is_created_on_both_interfaces() {
    for (api, path, response, wanted) in [
        (
            ServerApi::Classic,
            "POST /session ",
            r#"{"id":"ses_1"}"#,
            Ok("ses_1"),
        ),
        (
            ServerApi::Next,
            "POST /api/session ",
            r#"{"data":{"id":"ses_2"}}"#,
            Ok("ses_2"),
        ),
        (
            ServerApi::Classic,
            "POST /session ",
            r#"{"id":7}"#,
            Err("protocol"),
        ),
    ] {
        let (url, heard) = listener::answering([response]).unwrap();
        let made = block_on(server(&url, api).create_session());
        let made = made.as_deref().map_err(|failure| failure.kind());
        assert_eq!(made, wanted, "{response}");
        let requests = heard.join().unwrap();
        assert!(requests[0].starts_with(path), "{} {path}", api.name());
    }
}

#[test]
fn a_session_is_looked_up_on_both_interfaces() {
    for (api, path) in [
        (ServerApi::Classic, "GET /session/ses_1 "),
        (ServerApi::Next, "GET /api/session/ses_1 "),
    ] {
        let (url, heard) = listener::answering(["{}"]).unwrap();
        assert_eq!(block_on(server(&url, api).check_session("ses_1")), Ok(()));
        let requests = heard.join().unwrap();
        assert!(requests[0].starts_with(path), "{}", api.name());
        // Nobody listens any more, and an id that would change the path is not sent.
        for (session, kind) in [("ses_1", "connect"), ("../x", "request")] {
            let failure = block_on(server(&url, api).check_session(session)).unwrap_err();
            assert_eq!(failure.kind(), kind, "{}", api.name());
        }
    }
}

#[test]
fn events_and_servers_show_their_state_and_no_password() {
    let idle = "data: {\"type\":\"session.idle\",\"properties\":{\"sessionID\":\"ses_1\"}}\n\n";
    let (url, heard) = listener::answering([idle]).unwrap();
    let server = server(&url, ServerApi::Classic).with_password("owl", "tawny");
    assert!(!format!("{server:?}").contains("tawny"), "{server:?}");
    block_on(async {
        let mut events = server.events().await.unwrap();
        assert!(format!("{events:?}").contains("is_over: false"));
        while events.next().await.unwrap().is_some() {}
        assert!(format!("{events:?}").contains("is_over: true"));
    });
    heard.join().unwrap();
}

#[test]
fn messages_of_another_form_are_a_failure_of_the_protocol() {
    let (url, heard) = listener::answering([r#"{"messages":1}"#]).unwrap();
    let failure = block_on(server(&url, ServerApi::Classic).messages("ses_1", 5)).unwrap_err();
    assert_eq!(failure.kind(), "protocol");
    assert!(
        failure.to_string().contains("not a list of messages"),
        "{failure}"
    );
    heard.join().unwrap();
    // Nothing is sent to an interface without the request.
    let failure = block_on(server(&url, ServerApi::Next).messages("ses_1", 5)).unwrap_err();
    assert_eq!(failure.kind(), "unsupported");
}

struct OneFile;

impl FileSource for OneFile {
    fn resolve(&self, _: &str) -> Option<std::path::PathBuf> {
        Some("/p/a.txt".into())
    }

    fn read(&self, _: &std::path::Path, _: u64) -> std::io::Result<Vec<u8>> {
        Ok(b"one".to_vec())
    }
}

#[test]
fn an_image_is_injected_as_a_file() {
    let prompt = Message::user(Handoff::new("ses_1", "Go on.").files(["a.txt"]).prompt());
    let arrived = IncomingMessage {
        session: "ses_2",
        model: "oak/owl-1",
        agent: "build",
        content: &prompt.content,
    };
    let injection = HandoffTracker::default().on_message(&arrived, &OneFile);
    let mut injection = injection.unwrap();
    injection.parts = vec![
        Content::Image {
            media_type: "image/png".into(),
            data: "AAEC".into(),
        },
        Content::Reasoning {
            text: "stays".into(),
        },
    ];
    let (url, heard) = listener::answering(["{}"]).unwrap();
    block_on(server(&url, ServerApi::Classic).inject("ses_2", &injection)).unwrap();
    let request = &heard.join().unwrap()[0];
    assert!(
        request.contains(r#""url":"data:image/png;base64,AAEC""#),
        "{request}"
    );
    assert!(!request.contains("stays"), "{request}");
}

#[test]
fn rules_that_cannot_act_are_counted_by_reason() {
    let rule = |name: &str, more: &str| {
        format!(
            "[rule.{name}]\ndescription = 'd'\n{more}\nmatch.any = [{{ literal = 'x' }}]\nexamples.match = ['x']\n"
        )
    };
    let text = [
        "schema = 1\n[pack]\nname = 't'\ngrants = ['retry', 'abort', 'fallback', 'inject']\n"
            .to_owned(),
        rule("acts", "on = ['text']\naction = 'retry'"),
        rule("shadow", "on = ['text']\naction = 'retry'\nmode = 'shadow'"),
        rule("other", "on = ['text']\naction = 'retry'\nmode = 'shadow'"),
        rule("model", "on = ['error']\naction = 'fallback'"),
        rule("prompt", "on = ['user-input']\naction = 'abort'"),
    ];
    let pack = Pack::from_toml(&text.concat()).unwrap();
    assert_eq!(pack.rules()[0].on, [Channel::Text]);
    let support = ActionSupport::from_pack(&pack, ServerApi::Classic, true);
    assert_eq!((support.rules, support.acting), (5, 2));
    assert_eq!(support.others[0], (2, "in shadow mode".to_owned()));
    assert!(
        support
            .to_string()
            .contains("on channels that the server does not report")
    );
    // Without a chain of models, and on the other interface, another model cannot be asked.
    for (api, has_fallback) in [(ServerApi::Classic, false), (ServerApi::Next, true)] {
        let support = ActionSupport::from_pack(&pack, api, has_fallback);
        assert_eq!(support.acting, 1, "{}", api.name());
        assert!(
            support.to_string().contains("only with a chain of models"),
            "{support}"
        );
    }
}

#[test]
fn a_rule_that_cannot_act_has_a_reason() {
    for (more, api, reason) in [
        (
            "on = ['text']\naction = 'observe'",
            ServerApi::Next,
            Some("with `observe`: only reported"),
        ),
        (
            "on = ['text']\naction = 'redact'",
            ServerApi::Next,
            Some("with `redact`: only reported, not possible from outside"),
        ),
        (
            "on = ['tool-input']\naction = 'abort'",
            ServerApi::Classic,
            Some("on tool calls: in time only with `--api next`"),
        ),
        (
            "on = ['tool-input']\naction = 'abort'",
            ServerApi::Next,
            None,
        ),
        (
            "on = ['tool-input', 'text']\naction = 'abort'",
            ServerApi::Classic,
            None,
        ),
    ] {
        let text = format!(
            "schema = 1\n[pack]\nname = 't'\ngrants = ['abort', 'redact']\n[rule.r]\ndescription = 'd'\n\
            {more}\nmatch.any = [{{ literal = 'x' }}]\nexamples.match = ['x']\n"
        );
        let pack = Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}"));
        let support = ActionSupport::from_pack(&pack, api, true);
        assert_eq!(support.acting, usize::from(reason.is_none()), "{more}");
        let told = support.others.first().map_or("", |(_, told)| told);
        assert!(told.starts_with(reason.unwrap_or("")), "{more}: {told}");
    }
}
