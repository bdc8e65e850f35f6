//! Tests of judged requests, without a network.

use std::sync::{Arc, LazyLock};

use hyper::body::Bytes;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use serde_json::{Value, json};
use ttsr::{Action, Channel, Flow, Mode, Pack, PartId, Pattern, Rule};

use super::*;
use crate::judge::RetryMessage;
use crate::judge::tests::{pack_of_rules as pack, rule_of};
use crate::routes::ModelApi;

const APIS: [ModelApi; 6] = [
    ModelApi::AnthropicMessages,
    ModelApi::OpenAiChat,
    ModelApi::OpenAiResponses,
    ModelApi::OllamaChat,
    ModelApi::Gemini,
    ModelApi::CodeAssist,
];

/// The APIs whose requests have texts to be continued, and no history.
const PROMPTS: [ModelApi; 2] = [ModelApi::OpenAiCompletions, ModelApi::OllamaGenerate];

/// One step of a conversation.
#[derive(Clone, Debug)]
enum Step {
    User(String),
    Assistant(String),
    /// The name of a tool and its output.
    Tool(&'static str, String),
}

use Step::{Assistant, Tool, User};

/// Returns the body of a request with that history.
fn body(api: ModelApi, steps: &[Step]) -> Bytes {
    let mut list = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        let id = format!("call_{number}");
        match (api.unwrapped(), step) {
            (ModelApi::AnthropicMessages, User(text)) => {
                list.push(json!({"role": "user", "content": [{"type": "text", "text": text}]}));
            }
            (ModelApi::AnthropicMessages, Tool(name, text)) => {
                let call = json!({"type": "tool_use", "id": id, "name": name, "input": {}});
                list.push(json!({"role": "assistant", "content": [call]}));
                let result = json!({"type": "tool_result", "tool_use_id": id, "content": text});
                list.push(json!({"role": "user", "content": [result]}));
            }
            (ModelApi::OpenAiChat, Tool(name, text)) => {
                let function = json!({"name": name, "arguments": "{}"});
                let call = json!({"id": id, "type": "function", "function": function});
                list.push(json!({"role": "assistant", "content": null, "tool_calls": [call]}));
                list.push(json!({"role": "tool", "tool_call_id": id, "content": text}));
            }
            (ModelApi::OllamaChat, Tool(name, text)) => {
                let call = json!({"function": {"name": name, "arguments": {}}});
                list.push(json!({"role": "assistant", "content": "", "tool_calls": [call]}));
                list.push(json!({"role": "tool", "tool_name": name, "content": text}));
            }
            (ModelApi::Gemini, Tool(name, text)) => {
                let call = json!({"functionCall": {"name": name, "args": {}}});
                list.push(json!({"role": "model", "parts": [call]}));
                let result = json!({"name": name, "response": {"output": text}});
                list.push(json!({"role": "user", "parts": [{"functionResponse": result}]}));
            }
            (ModelApi::Gemini, User(text)) => {
                list.push(json!({"role": "user", "parts": [{"text": text}]}));
            }
            (ModelApi::Gemini, Assistant(text)) => {
                list.push(json!({"role": "model", "parts": [{"text": text}]}));
            }
            (_, Tool(name, text)) => {
                list.push(json!({
                    "type": "function_call", "call_id": id, "name": name, "arguments": "{}",
                }));
                list.push(json!({"type": "function_call_output", "call_id": id, "output": text}));
            }
            (ModelApi::OpenAiResponses, User(text)) => {
                let content = json!([{"type": "input_text", "text": text}]);
                list.push(json!({"type": "message", "role": "user", "content": content}));
            }
            (_, User(text)) => list.push(json!({"role": "user", "content": text})),
            (_, Assistant(text)) => list.push(json!({"role": "assistant", "content": text})),
        }
    }
    let name = history_of(api);
    // Not as serde would write it.
    let list = Value::from(list);
    if api == ModelApi::CodeAssist {
        let request = format!("{{\"{name}\": {list} ,\"x\":1.50, \"y\":{{}}}}");
        return format!("{{ \"model\" : \"m\", \"request\" : {request} ,\"project\":\"p\" }}")
            .into();
    }
    format!("{{ \"model\" : \"m\",\"{name}\": {list} ,\"stream\":true , \"x\":1.50}}").into()
}

/// Returns the name of the member with the history.
fn history_of(api: ModelApi) -> &'static str {
    match api {
        ModelApi::OpenAiResponses => "input",
        ModelApi::Gemini | ModelApi::CodeAssist => "contents",
        _ => "messages",
    }
}

/// Returns the body of a request with that history alone.
fn body_with(api: ModelApi, list: &Value) -> Value {
    let history = json!({"model": "m", history_of(api): list});
    match api {
        ModelApi::CodeAssist => json!({"model": "m", "request": history}),
        _ => history,
    }
}

fn user(text: &str) -> Step {
    User(text.to_owned())
}

fn tool(text: &str) -> Step {
    Tool("bash", text.to_owned())
}

fn reply(text: &str) -> Step {
    Assistant(text.to_owned())
}

/// A rule that redacts keys in the text of the user.
fn key_rule() -> Rule {
    let key = Pattern::regex("key-[0-9]{4}");
    rule("t/key", key, Channel::UserInput, Action::Redact)
}

fn rule(id: &str, pattern: Pattern, on: Channel, action: Action) -> Rule {
    let mut rule = rule_of(id, pattern, &[on], action);
    rule.message = Some(format!("Message of {id}."));
    rule
}

/// A proxy with one session.
struct Session {
    pack: Pack,
    redactors: Redactors,
    mode: Mode,
    memory: SessionMemory,
}

impl Session {
    fn new(pack: Pack) -> Session {
        Session::of(pack.clone(), Redactors::new(&pack).unwrap())
    }

    fn of(pack: Pack, redactors: Redactors) -> Session {
        Session {
            redactors,
            pack,
            mode: Mode::Live,
            memory: SessionMemory::default(),
        }
    }

    fn judge(&mut self, api: ModelApi, body: Bytes) -> Result<JudgedRequest, String> {
        let request = Arc::new(ModelRequest::read(api, body).expect("readable"));
        // As a store keeps it.
        let memory = serde_json::to_string(&self.memory).unwrap();
        let memory = serde_json::from_str(&memory).unwrap();
        let judged = judge_request(&request, &self.pack, &self.redactors, self.mode, memory);
        match judged {
            Ok(judged) => {
                self.memory = judged.memory.clone();
                Ok(judged)
            }
            Err(refused) => {
                self.memory = *refused.memory;
                Err(refused.reason)
            }
        }
    }

    fn send(&mut self, api: ModelApi, steps: &[Step]) -> Result<String, String> {
        let judged = self.judge(api, body(api, steps))?;
        Ok(String::from_utf8(judged.body.write(None).to_vec()).unwrap())
    }

    /// Judges a request and a reply of that text to it. Returns the request.
    fn exchange(&mut self, api: ModelApi, steps: &[Step], text: &str) -> String {
        let mut judged = self.judge(api, body(api, steps)).unwrap();
        let base = judged.conversation.snapshot();
        assert_eq!(judged.conversation.begin_attempt(), Flow::Go);
        assert_eq!(
            judged.conversation.push(PartId(0), text.as_bytes()),
            Flow::Go
        );
        assert_eq!(judged.conversation.finish(), Flow::Go);
        let waits: Vec<Note> = judged.conversation.guidance().collect();
        let delivered = judged.notes.iter().filter(|note| !waits.contains(note));
        self.memory.end_reply(&ReplyEffect {
            base,
            fork: judged.conversation.snapshot(),
            anchor: judged.anchor,
            delivered: delivered.map(|note| note.text.clone()).collect(),
            is_complete: true,
        });
        String::from_utf8(judged.body.write(None).to_vec()).unwrap()
    }
}

/// The messages of a body, without their order of members.
fn messages(body: &str) -> Vec<Value> {
    let body: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    let body = body.get("request").unwrap_or(&body);
    let list = ["messages", "input", "contents"]
        .iter()
        .find_map(|name| body[name].as_array());
    list.expect("a list").clone()
}

#[test]
fn a_request_that_no_rule_changes_keeps_its_bytes() {
    let steps = [user("Hi."), reply("Yes?"), tool("ok"), user("Go on.")];
    for api in APIS {
        let rules = [key_rule()];
        let mut session = Session::new(pack(rules));
        for _ in 0..2 {
            assert_eq!(session.send(api, &steps).unwrap(), body(api, &steps));
        }
    }
}

#[test]
fn a_secret_is_redacted_in_the_whole_history_and_nothing_else_changes() {
    let steps = [
        user("It is key-1234, \u{1F600}."),
        reply("key-1234"),
        tool("key-5678\nkey-1"),
        user("Use key-0000."),
    ];
    let on = |channel| {
        rule(
            &format!("t/{channel:?}").to_lowercase(),
            Pattern::regex("key-[0-9]{4}"),
            channel,
            Action::Redact,
        )
    };
    for api in APIS {
        let mut session = Session::new(pack([on(Channel::UserInput), on(Channel::ToolOutput)]));
        let sent = session.send(api, &steps).unwrap();
        let written = String::from_utf8(body(api, &steps).to_vec()).unwrap();
        let want = written
            .replacen("key-1234", "[redacted]", 1)
            .replace("key-5678", "[redacted]")
            .replace("key-0000", "[redacted]");
        assert_eq!(sent, want);
        let again = session.send(api, &steps).unwrap();
        assert_eq!(sent, again, "the same bytes in a session that knows them");
        let mut other = Session::new(session.pack.clone());
        assert_eq!(
            other.send(api, &steps).unwrap(),
            sent,
            "and in one that does not"
        );
        session.mode = Mode::Shadow;
        assert_eq!(session.send(api, &steps).unwrap(), written);
    }
}

#[test]
fn additions_stay_where_they_were_made_while_the_history_grows() {
    let mut before = rule(
        "t/before",
        Pattern::literal("deploy"),
        Channel::UserInput,
        Action::Prepend,
    );
    before.repeat = Some(ttsr::rule::Repeat {
        per_session: Some(1),
        ..Default::default()
    });
    let after = rule(
        "t/after",
        Pattern::literal("No space"),
        Channel::ToolOutput,
        Action::Append,
    );
    let pack = pack([before, after]);
    for api in APIS {
        let mut session = Session::new(pack.clone());
        let mut steps = vec![user("deploy it")];
        let mut sent = Vec::new();
        for step in [
            tool("No space left"),
            reply("Done."),
            user("deploy again"),
            tool("ok"),
        ] {
            sent.push(messages(&session.send(api, &steps).unwrap()));
            steps.push(step);
        }
        sent.push(messages(&session.send(api, &steps).unwrap()));
        for pair in sent.windows(2) {
            assert_eq!(
                pair[0],
                pair[1][..pair[0].len()],
                "a prefix that a cache knows"
            );
        }
        let last = Value::from(sent.pop().unwrap()).to_string();
        assert_eq!(
            last.matches("Message of t/before.\\n\\ndeploy it\"")
                .count(),
            1,
            "{last}"
        );
        assert_eq!(
            last.matches("\"deploy again\"").count(),
            1,
            "once a session: {last}"
        );
        assert_eq!(
            last.matches("No space left\\n\\nMessage of t/after.\"")
                .count(),
            1,
            "{last}"
        );
    }
}

#[test]
fn an_abort_refuses_the_request_and_the_reason_takes_the_place_of_the_text() {
    for api in APIS {
        for bad in [user("forbidden secret"), tool("forbidden secret")] {
            let on = match bad {
                User(_) => Channel::UserInput,
                _ => Channel::ToolOutput,
            };
            let pack = pack([rule(
                "t/no",
                Pattern::literal("forbidden"),
                on,
                Action::Abort,
            )]);
            let mut session = Session::new(pack);
            let mut steps = vec![user("Hi."), bad];
            let reason = "[ttsr: request stopped by rule t/no: Message of t/no.]";
            for _ in 0..2 {
                assert_eq!(session.send(api, &steps).unwrap_err(), reason);
            }
            steps.push(user("Something else."));
            for _ in 0..2 {
                let sent = session.send(api, &steps).unwrap();
                assert!(
                    !sent.contains("forbidden") && sent.contains(reason),
                    "{sent}"
                );
            }
        }
    }
}

#[test]
fn history_does_not_fire_again_and_what_is_new_does() {
    for api in APIS {
        let mut warn = rule(
            "t/warn",
            Pattern::literal("careful"),
            Channel::UserInput,
            Action::Warn,
        );
        warn.repeat = Some(ttsr::rule::Repeat::default());
        let mut session = Session::new(pack([warn]));
        let warned = |session: &mut Session, steps: &[Step]| {
            session
                .judge(api, body(api, steps))
                .unwrap()
                .actions
                .warnings
                .len()
        };
        let mut steps = vec![user("careful 1"), reply("ok"), user("careful 2")];
        assert_eq!(
            warned(&mut session, &steps),
            1,
            "of an unknown history the end is new"
        );
        assert_eq!(warned(&mut session, &steps), 0, "a repetition");
        steps.push(reply("fine"));
        steps.push(user("careful 3"));
        steps.push(tool("ok"));
        assert_eq!(
            warned(&mut session, &steps),
            1,
            "all that follows what was judged"
        );
        steps.truncate(3);
        steps.push(reply("another answer"));
        steps.push(user("careful 4"));
        assert_eq!(
            warned(&mut session, &steps),
            1,
            "the history went another way"
        );
    }
}

#[test]
fn a_history_that_the_client_has_shortened_does_not_fire_again() {
    for api in APIS {
        let mut warn = rule(
            "t/warn",
            Pattern::literal("careful"),
            Channel::ToolOutput,
            Action::Warn,
        );
        warn.repeat = Some(ttsr::rule::Repeat::default());
        let stop = rule(
            "t/stop",
            Pattern::literal("forbidden"),
            Channel::UserInput,
            Action::Abort,
        );
        let mut session = Session::new(pack([warn, stop]));
        let send = |session: &mut Session, steps: &[Step]| {
            let judged = session.judge(api, body(api, steps)).unwrap();
            let sent = String::from_utf8(judged.body.write(None).to_vec()).unwrap();
            (judged.actions.warnings.len(), sent)
        };
        let mut steps = vec![user("Go.")];
        assert_eq!(send(&mut session, &steps).0, 0);
        for number in 0..6 {
            steps.push(tool(&format!("careful {number}")));
            assert_eq!(send(&mut session, &steps).0, 1, "a new result");
        }
        steps.push(user("forbidden"));
        session.judge(api, body(api, &steps)).err().unwrap();
        steps.push(user("Go on."));
        let reason = "request stopped by rule t/stop";
        let (warnings, sent) = send(&mut session, &steps);
        assert_eq!((warnings, sent.contains(reason)), (0, true), "{sent}");
        steps.extend([reply("Fine."), user("Next.")]);
        assert_eq!(send(&mut session, &steps).0, 0);
        // As clients do to save room in the context.
        steps[1] = tool("[cleared]");
        steps.push(tool("careful 6"));
        let (warnings, sent) = send(&mut session, &steps);
        assert_eq!(warnings, 1, "only the new result is new");
        assert!(
            sent.contains(reason) && !sent.contains("forbidden"),
            "{sent}"
        );
        steps[2] = tool("[cleared]");
        steps.push(tool("careful 7"));
        assert_eq!(send(&mut session, &steps).0, 1, "the new one");
        // A summary takes the place of the beginning.
        let rest = steps.split_off(8);
        let mut short = vec![user("A summary.")];
        short.extend(rest);
        short.push(tool("careful 8"));
        assert_eq!(send(&mut session, &short).0, 1, "the new one");
    }
}

#[test]
fn the_last_window_is_the_last_of_the_windows() {
    let steps = [
        user("a"),
        reply("b"),
        tool("c"),
        user("d"),
        user("d"),
        tool("e"),
        reply("f"),
    ];
    for api in APIS {
        let mut seen = Vec::new();
        for len in 0..=steps.len() {
            let request = ModelRequest::read(api, body(api, &steps[..len])).unwrap();
            let last = request.windows().into_iter().flatten().next_back();
            assert_eq!(request.last_window(), last);
            seen.extend(last);
        }
        seen.dedup();
        assert_eq!(seen.len(), 5, "each text ends another window");
    }
}

#[test]
fn equal_texts_after_a_change_of_the_history_are_judged() {
    for api in APIS {
        let warn = rule(
            "t/warn",
            Pattern::literal("careful"),
            Channel::ToolOutput,
            Action::Warn,
        );
        let mut session = Session::new(pack([warn]));
        let mut steps = vec![user("Go.")];
        for text in ["old", "ok", "ok", "ok"] {
            session.judge(api, body(api, &steps)).unwrap();
            steps.push(tool(text));
        }
        session.judge(api, body(api, &steps)).unwrap();
        steps[1] = tool("[cleared]");
        steps.extend([tool("careful"), tool("ok"), tool("ok"), tool("ok")]);
        let judged = session.judge(api, body(api, &steps)).unwrap();
        assert_eq!(judged.actions.warnings.len(), 1);
    }
}

#[test]
fn guidance_goes_into_the_next_request_of_its_conversation_and_stays_there() {
    let todo = rule(
        "t/todo",
        Pattern::word("TODO"),
        Channel::Text,
        Action::Inject,
    );
    for api in APIS {
        for answer in [user("Why?"), tool("ok")] {
            let mut session = Session::new(pack([todo.clone()]));
            let mut steps = vec![user("Write it.")];
            let first = session.exchange(api, &steps, "// TODO: more");
            assert_eq!(first, body(api, &steps), "nothing waits");
            let title = [user("Find a title.")];
            let other = session.exchange(api, &title, "A title");
            assert_eq!(
                other,
                body(api, &title),
                "another conversation does not take it"
            );
            steps.push(reply("// TODO: more"));
            steps.push(answer.clone());
            let second = session.exchange(api, &steps, "Because. TODO");
            assert_eq!(second.matches("Message of t/todo.").count(), 1, "{second}");
            steps.push(reply("Because. TODO"));
            steps.push(user("Go on."));
            let third = session.send(api, &steps).unwrap();
            assert_eq!(third.matches("Message of t/todo.").count(), 1, "{third}");
            let (second, third) = (messages(&second), messages(&third));
            assert_eq!(second, third[..second.len()], "a prefix that a cache knows");
        }
    }
}

#[test]
fn guidance_that_was_not_delivered_waits_for_the_same_request_again() {
    let todo = rule(
        "t/todo",
        Pattern::word("TODO"),
        Channel::Text,
        Action::Inject,
    );
    let mut session = Session::new(pack([todo]));
    let api = ModelApi::OpenAiChat;
    let mut steps = vec![user("Write it.")];
    session.exchange(api, &steps, "// TODO: more");
    steps.push(reply("// TODO: more"));
    steps.push(user("Go on."));
    for _ in 0..3 {
        let sent = session.send(api, &steps).unwrap();
        assert_eq!(
            sent.matches("Message of t/todo.").count(),
            1,
            "the server failed: {sent}"
        );
    }
    let sent = session.exchange(api, &steps, "Done.");
    assert_eq!(sent, session.send(api, &steps).unwrap());
}

#[test]
fn guidance_does_not_wait_for_ever_for_a_conversation_that_is_over() {
    let todo = rule(
        "t/todo",
        Pattern::word("TODO"),
        Channel::Text,
        Action::Inject,
    );
    let mut session = Session::new(pack([todo]));
    let api = ModelApi::AnthropicMessages;
    session.exchange(api, &[user("Write it.")], "TODO");
    let compacted = [user("Here is a summary.")];
    let sent: Vec<bool> = (0..=PASSED_OVER)
        .map(|_| {
            session
                .send(api, &compacted)
                .unwrap()
                .contains("Message of t/todo.")
        })
        .collect();
    assert_eq!(sent.iter().filter(|has| **has).count(), 1);
    assert!(sent[PASSED_OVER as usize]);
}

/// Returns a retry by the model `other`. The temperature is in thousandths.
fn retry_with(partial: &str, message: &str, temperature: u32) -> RetryMessage {
    RetryMessage {
        partial: partial.to_owned(),
        message: message.to_owned(),
        model: Some("other".to_owned()),
        temperature: Some(temperature),
    }
}

#[test]
fn a_request_that_is_sent_again_has_the_partial_and_the_message() {
    let retry = |partial: &str| retry_with(partial, "Say it better.", 250);
    for api in APIS {
        for last in [user("Hi."), tool("ok")] {
            let mut session = Session::new(pack([]));
            let steps = [user("Hi."), last];
            let judged = session.judge(api, body(api, &steps)).unwrap();
            let before = messages(std::str::from_utf8(&judged.body.write(None)).unwrap());
            for partial in ["", "So far. "] {
                let sent = judged.body.write(Some(&retry(partial)));
                let sent = String::from_utf8(sent.to_vec()).unwrap();
                let whole: Value = serde_json::from_str(&sent).unwrap();
                let options = match api {
                    ModelApi::OllamaChat => &whole["options"],
                    ModelApi::Gemini => &whole["generationConfig"],
                    ModelApi::CodeAssist => &whole["request"]["generationConfig"],
                    _ => &whole,
                };
                assert_eq!(options["temperature"], 0.25);
                let in_path = judged.body.model_in_path(Some(&retry(partial))).is_some();
                assert_eq!(in_path, api == ModelApi::Gemini);
                let model = if in_path { "m" } else { "other" };
                assert_eq!(whole["model"], model);
                let after = messages(&sent);
                let kept = before.len() - usize::from(partial.is_empty());
                assert_eq!(after[..kept], before[..kept], "{sent}");
                let end = Value::from(after[kept..].to_vec()).to_string();
                assert_eq!(end.matches("Say it better.").count(), 1, "{sent}");
                assert_eq!(end.contains("So far.\""), !partial.is_empty(), "{sent}");
                let roles: Vec<&Value> = after.iter().map(|message| &message["role"]).collect();
                assert_eq!(roles.last(), Some(&&json!("user")), "{sent}");
            }
        }
    }
}

#[test]
fn an_input_that_is_one_string_is_judged_and_extended() {
    let rules = [key_rule()];
    let mut session = Session::new(pack(rules));
    let api = ModelApi::OpenAiResponses;
    let body = Bytes::from_static(br#"{"input": "It is key-1234", "model":"m"}"#);
    let judged = session.judge(api, body).unwrap();
    let sent = judged.body.write(None);
    assert_eq!(sent, r#"{"input": "It is [redacted]", "model":"m"}"#);
    let retry = RetryMessage {
        partial: "So".into(),
        message: "No.".into(),
        ..Default::default()
    };
    let sent = String::from_utf8(judged.body.write(Some(&retry)).to_vec()).unwrap();
    let texts: Vec<Value> = messages(&sent)
        .iter()
        .map(|it| it["content"][0]["text"].clone())
        .collect();
    assert_eq!(texts, ["It is [redacted]", "So", "No."]);
}

#[test]
fn texts_are_found_in_every_form_of_content() {
    let secret = "key-1234";
    let rules = [Channel::UserInput, Channel::ToolOutput].map(|on| {
        let mut rule = rule("t/key", Pattern::literal(secret), on, Action::Redact);
        rule.id = format!(
            "t/{}",
            if on == Channel::UserInput {
                "user"
            } else {
                "tool"
            }
        );
        rule
    });
    let mut session = Session::new(pack(rules));
    for (api, message) in [
        (APIS[0], json!({"role": "user", "content": secret})),
        (
            APIS[0],
            json!({"role": "user", "content": [{"type": "document", "source": {"type": "text", "data": secret}}]}),
        ),
        (
            APIS[0],
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": secret}]}),
        ),
        (
            APIS[0],
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": secret}]}]}),
        ),
        (
            APIS[0],
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "search_result", "content": [{"type": "text", "text": secret}]}]}]}),
        ),
        (
            APIS[1],
            json!({"role": "user", "content": [{"type": "text", "text": secret}]}),
        ),
        (
            APIS[1],
            json!({"role": "tool", "tool_call_id": "t", "content": [{"type": "text", "text": secret}]}),
        ),
        (
            APIS[1],
            json!({"role": "function", "name": "f", "content": secret}),
        ),
        (APIS[2], json!({"role": "user", "content": secret})),
        (
            APIS[2],
            json!({"type": "function_call_output", "call_id": "c", "output": [{"type": "input_text", "text": secret}]}),
        ),
        (
            APIS[2],
            json!({"type": "custom_tool_call_output", "call_id": "c", "output": secret}),
        ),
        (
            APIS[3],
            json!({"role": "user", "content": secret, "images": ["aGk="]}),
        ),
        (
            APIS[3],
            json!({"role": "tool", "tool_name": "t", "content": secret}),
        ),
        (
            APIS[4],
            json!({"role": "user", "parts": [{"text": secret}, {"inlineData": {"mimeType": "image/png", "data": "aGk="}}]}),
        ),
        (APIS[4], json!({"parts": {"text": secret}})),
        (
            APIS[4],
            json!({"role": "function", "parts": [{"functionResponse": {"name": "f", "response": {"result": [{"any": secret}]}}}]}),
        ),
        (
            APIS[4],
            json!({"role": "user", "parts": [{"function_response": {"id": "1", "name": "f", "response": {"error": secret}}}]}),
        ),
        (
            APIS[4],
            json!({"role": "model", "parts": [{"functionResponse": {"name": "f", "response": {"x": secret}}}]}),
        ),
        (
            APIS[5],
            json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": secret}}}]}),
        ),
        (
            APIS[2],
            json!({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": secret, "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
        ),
    ] {
        let body = body_with(api, &json!([message])).to_string();
        let judged = session.judge(api, body.clone().into()).unwrap();
        let sent = String::from_utf8(judged.body.write(None).to_vec()).unwrap();
        assert_eq!(sent, body.replace(secret, "[redacted]"));
    }
}

#[test]
fn a_history_longer_than_the_memory_of_a_session_is_redacted_whole() {
    let rules = [key_rule()];
    let mut session = Session::new(pack(rules));
    let message = |number: u32| user(&format!("{number} key-{number:04} {}", "x".repeat(2000)));
    let history: Vec<Step> = (0..150).map(message).collect();
    for len in [140, 150] {
        let sent = session.send(APIS[1], &history[..len]).unwrap();
        assert!(!sent.contains("key-"));
        assert_eq!(sent.matches("[redacted]").count(), len);
    }
}

#[test]
fn instructions_are_not_judged_and_escaped_names_are_read() {
    let rules = [key_rule()];
    let mut session = Session::new(pack(rules));
    for (api, name) in [(APIS[1], "messages"), (APIS[2], "input")] {
        for role in ["system", "developer"] {
            let list = json!([
                {"role": role, "content": "Say key-1234."},
                {"role": "user", "content": "Is it key-1234?"},
                {"role": role, "content": "Do not say key-1234."},
            ]);
            let body = json!({"model": "m", name: list}).to_string();
            let judged = session.judge(api, body.clone().into()).unwrap();
            let sent = String::from_utf8(judged.body.write(None).to_vec()).unwrap();
            assert_eq!(sent, body.replace("it key-1234", "it [redacted]"));
        }
    }
    let escaped = Bytes::from_static(
        br#"{"m\u0065ssages":[{"r\u006fle":"user","content":"key-1234"}],"model":"m"}"#,
    );
    let judged = session.judge(APIS[1], escaped).unwrap();
    let sent = judged.body.write(None);
    assert_eq!(
        sent,
        br#"{"m\u0065ssages":[{"r\u006fle":"user","content":"[redacted]"}],"model":"m"}"#[..]
    );
}

#[test]
fn a_request_that_is_sent_again_has_its_options_and_messages_even_without_a_history() {
    let retry = retry_with("So", "No.", 500);
    for body in [
        r#"{"prompt":{"id":"p"},"model":"m","temperature":1}"#,
        r#"{"input":null,"prompt":{"id":"p"},"model":"m","temperature":1}"#,
        r#"{"prompt":{"id":"p"},"model":"m","temperature":1,"input": null }"#,
    ] {
        let mut session = Session::new(pack([]));
        let judged = session.judge(APIS[2], Bytes::from_static(body.as_bytes()));
        let judged = judged.unwrap();
        assert_eq!(judged.body.write(None), body);
        let sent: Value = serde_json::from_slice(&judged.body.write(Some(&retry))).unwrap();
        assert_eq!(sent["model"], "other");
        assert_eq!(sent["temperature"], 0.5);
        assert_eq!(sent["prompt"], json!({"id": "p"}));
        let texts = sent["input"].as_array().unwrap().iter();
        let texts: Vec<&Value> = texts.map(|it| &it["content"][0]["text"]).collect();
        assert_eq!(texts, ["So", "No."]);
    }
}

#[test]
fn rules_about_tools_and_outcomes_know_them() {
    let mut on_bash = rule(
        "t/bash",
        Pattern::literal("out"),
        Channel::ToolOutput,
        Action::Append,
    );
    on_bash.tools = vec!["bash".into()];
    let mut failed = rule(
        "t/failed",
        Pattern::literal("out"),
        Channel::ToolOutput,
        Action::Append,
    );
    failed.outcome = Some(ttsr::rule::ToolOutcome::Error);
    let pack = pack([on_bash, failed]);
    for api in APIS {
        for (name, has_message) in [("bash", true), ("read", false)] {
            let mut session = Session::new(pack.clone());
            let sent = session
                .send(api, &[user("Hi."), Tool(name, "out".into())])
                .unwrap();
            assert_eq!(sent.contains("t/bash"), has_message, "{sent}");
            assert!(!sent.contains("t/failed"), "{sent}");
        }
    }
    let result =
        json!({"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "out"});
    let body = json!({"messages": [{"role": "user", "content": [result]}]}).to_string();
    let judged = Session::new(pack).judge(APIS[0], body.into()).unwrap();
    let sent = judged.body.write(None);
    assert!(String::from_utf8_lossy(&sent).contains("out\\n\\nMessage of t/failed."));
}

#[test]
fn a_body_that_is_no_request_of_the_api_is_not_read() {
    for (api, body) in [
        (APIS[0], "{}"),
        (APIS[0], "[]"),
        (APIS[0], "not JSON"),
        (APIS[0], r#"{"messages":"x"}"#),
        (APIS[0], r#"{"messages":[{"role":"robot","content":"x"}]}"#),
        (APIS[0], r#"{"messages":[{"role":"user"}]}"#),
        (
            APIS[0],
            r#"{"messages":[],"messages":[{"role":"user","content":"x"}]}"#,
        ),
        (
            APIS[0],
            r#"{"messages":[{"role":"user","content":"a","content":"b"}]}"#,
        ),
        (APIS[1], r#"{"messages":[{"content":"x"}]}"#),
        (APIS[1], r#"{"messages":[{"role":"user","content":7}]}"#),
        (
            APIS[2],
            r#"{"input":[{"type":"message","role":"robot","content":"x"}]}"#,
        ),
        (APIS[2], r#"{"input":[7]}"#),
        (APIS[3], r#"{"messages":[{"role":"robot","content":"x"}]}"#),
        (APIS[3], r#"{"messages":[{"role":"user","content":7}]}"#),
        (APIS[3], r#"{"messages":[],"options":7}"#),
        (APIS[4], "{}"),
        (APIS[4], r#"{"contents":"x"}"#),
        (APIS[4], r#"{"contents":[{"role":"robot","parts":[]}]}"#),
        (
            APIS[4],
            r#"{"contents":[{"parts":[{"text":7}]}],"generationConfig":7}"#,
        ),
        (
            APIS[4],
            r#"{"contents":[],"systemInstruction":{},"system_instruction":{}}"#,
        ),
        (
            APIS[4],
            r#"{"contents":[{"parts":[{"functionResponse":{},"function_response":{}}]}]}"#,
        ),
        (APIS[5], r#"{"contents":[]}"#),
        (APIS[5], r#"{"request":{}}"#),
        (APIS[5], r#"{"request":[{"contents":[]}]}"#),
        (APIS[5], r#"{"request":{"contents":[]},"request":{}}"#),
        (APIS[5], r#"{"request":{"contents":[]},"Request":{}}"#),
        (APIS[5], r#"{"request":{"contents":[],"Contents":[]}}"#),
        (
            APIS[5],
            r#"{"request":{"contents":[],"session_id":"a","sessionId":"b"}}"#,
        ),
        (PROMPTS[0], r#"{"prompt":7}"#),
        (PROMPTS[0], r#"{"prompt":[1,2,3]}"#),
        (PROMPTS[0], r#"{"prompt":[[1,2],[3]]}"#),
        (PROMPTS[0], r#"{"prompt":"a","prompt":"b"}"#),
        (PROMPTS[0], r#"{"prompt":"a","suffix":["b"]}"#),
        (PROMPTS[1], r#"{"prompt":{"a":"b"}}"#),
        (PROMPTS[1], r#"{"prompt":"a","options":[]}"#),
        // The history of another API, which a lenient server may read.
        (
            APIS[2],
            r#"{"model":"m","messages":[{"role":"user","content":"x"}]}"#,
        ),
        (APIS[2], r#"{"model":"m","prompt":"x"}"#),
        (
            APIS[2],
            r#"{"model":"m","input":null,"messages":[{"role":"user","content":"x"}]}"#,
        ),
        (APIS[3], r#"{"model":"m","prompt":"x"}"#),
        (
            PROMPTS[0],
            r#"{"messages":[{"role":"user","content":"x"}]}"#,
        ),
        (PROMPTS[1], r#"{"model":"m","contents":[]}"#),
        // A server in Go reads names in any case.
        (
            APIS[3],
            r#"{"model":"m","Messages":[{"role":"user","content":"x"}]}"#,
        ),
        (
            APIS[3],
            r#"{"model":"m","messages":[],"me\u017f\u017fages":[{"role":"user","content":"x"}]}"#,
        ),
        (
            APIS[3],
            r#"{"messages":[{"role":"user","content":"","Content":"x"}]}"#,
        ),
        (
            APIS[0],
            r#"{"messages":[{"role":"user","content":[{"Type":"tool_result","content":"x"}]}]}"#,
        ),
        (
            APIS[1],
            r#"{"messages":[{"role":"assistant","Role":"user","content":"x"}]}"#,
        ),
        (APIS[2], r#"{"input":"a","INPUT":"x"}"#),
        (APIS[1], r#"{"Model":"a","messages":[]}"#),
        (PROMPTS[1], r#"{"model":"m","Prompt":"x"}"#),
    ] {
        let read = ModelRequest::read(api, Bytes::from_static(body.as_bytes()));
        assert_eq!(read, None, "{body}");
    }
    let deep = format!(
        r#"{{"messages":[{{"role":"user","content":{}"x"{}}}]}}"#,
        "[".repeat(40),
        "]".repeat(40)
    );
    assert_eq!(ModelRequest::read(APIS[0], deep.into()), None);
    let stored = Bytes::from_static(br#"{"model":"m","prompt":{"id":"p"}}"#);
    assert!(ModelRequest::read(APIS[2], stored).is_some());
    for body in [
        r#"{"model":"m"}"#,
        r#"{"model":"m","messages":[{"role":"user","images":["aGk="]}]}"#,
    ] {
        let read = ModelRequest::read(APIS[3], Bytes::from_static(body.as_bytes()));
        assert!(read.is_some(), "{body}");
    }
}

#[test]
fn the_model_and_the_temperature_of_another_attempt_have_the_place_of_the_api() {
    let retry = RetryMessage {
        message: "No.".into(),
        model: Some("other".into()),
        temperature: Some(250),
        ..Default::default()
    };
    let list = r#""messages":[{"role":"user","content":"Hi."}]"#;
    for (before, after) in [
        (
            format!(r#"{{"model":"m",{list}}}"#),
            json!({"options": {"temperature": 0.25}}),
        ),
        (
            format!(r#"{{"model":"m","options":{{}},{list}}}"#),
            json!({"options": {"temperature": 0.25}}),
        ),
        (
            format!(r#"{{"model":"m","options":{{"seed":1,"temperature":2}},{list}}}"#),
            json!({"options": {"seed": 1, "temperature": 0.25}}),
        ),
        (
            format!(r#"{{"model":"m","temperature":7,"options":{{"seed":1}},{list}}}"#),
            json!({"temperature": 7, "options": {"seed": 1, "temperature": 0.25}}),
        ),
    ] {
        let request = ModelRequest::read(ModelApi::OllamaChat, before.into()).unwrap();
        let sent = OutgoingBody::new(&Arc::new(request)).write(Some(&retry));
        let sent: Value = serde_json::from_slice(&sent).unwrap();
        assert_eq!(sent["model"], "other");
        assert_eq!(sent["messages"][0]["content"], "Hi.\n\nNo.");
        assert_eq!(sent["options"], after["options"]);
        assert_eq!(sent.get("temperature"), after.get("temperature"));
    }
}

#[test]
fn prompts_are_judged_extended_and_continued() {
    let rules = || {
        let append = rule(
            "t/deploy",
            Pattern::literal("deploy"),
            Channel::UserInput,
            Action::Append,
        );
        let no = rule(
            "t/no",
            Pattern::literal("forbidden"),
            Channel::UserInput,
            Action::Abort,
        );
        let todo = rule(
            "t/todo",
            Pattern::word("TODO"),
            Channel::Text,
            Action::Inject,
        );
        pack([key_rule(), append, no, todo])
    };
    let written = |judged: &JudgedRequest, retry: Option<&RetryMessage>| {
        let body = judged.body.write(retry).to_vec();
        String::from_utf8(body).unwrap()
    };
    let retry = |partial: &str| retry_with(partial, "No.", 500);
    for api in PROMPTS {
        let body = br#"{ "prompt": "Use key-1234.", "suffix":"key-5678", "model":"m" }"#;
        let mut session = Session::new(rules());
        let judged = session.judge(api, Bytes::from_static(body)).unwrap();
        let want = r#"{ "prompt": "Use [redacted].", "suffix":"[redacted]", "model":"m" }"#;
        assert_eq!(written(&judged, None), want);
        let again: Value = serde_json::from_str(&written(&judged, Some(&retry("So ")))).unwrap();
        assert_eq!(again["prompt"], "Use [redacted].\n\nSo\n\nNo.");
        assert_eq!(
            (&again["suffix"], &again["model"]),
            (&json!("[redacted]"), &json!("other"))
        );
        let options = match api {
            ModelApi::OllamaGenerate => &again["options"],
            _ => &again,
        };
        assert_eq!(options["temperature"], 0.5);
        let deploy = Bytes::from_static(br#"{"prompt":"deploy"}"#);
        let judged = session.judge(api, deploy).unwrap();
        let want = r#"{"prompt":"deploy\n\nMessage of t/deploy."}"#;
        assert_eq!(written(&judged, None), want);
        let bad = Bytes::from_static(br#"{"prompt":"forbidden"}"#);
        let reason = session.judge(api, bad).map(|_| ()).unwrap_err();
        assert_eq!(
            reason,
            "[ttsr: request stopped by rule t/no: Message of t/no.]"
        );
        let same = Bytes::from_static(br#"{"prompt":"Hi.","model":"m"}"#);
        assert_eq!(
            session.judge(api, same.clone()).unwrap().body.write(None),
            same
        );
        let none = Bytes::from_static(br#"{"model":"m"}"#);
        assert_eq!(
            session.judge(api, none.clone()).unwrap().body.write(None),
            none
        );
    }
    let body = Bytes::from_static(br#"{"prompt":["one","two key-1234"]}"#);
    let judged = Session::new(rules()).judge(PROMPTS[0], body).unwrap();
    assert_eq!(
        written(&judged, None),
        r#"{"prompt":["one","two [redacted]"]}"#
    );
    let again: Value = serde_json::from_str(&written(&judged, Some(&retry("")))).unwrap();
    assert_eq!(
        again["prompt"],
        json!(["one\n\nNo.", "two [redacted]\n\nNo."])
    );
}

#[test]
fn a_history_of_gemini_without_lists_is_extended_and_instructions_and_keys_name_the_session() {
    let retry = RetryMessage {
        partial: "So".into(),
        message: "No.".into(),
        temperature: Some(500),
        ..Default::default()
    };
    let api = ModelApi::Gemini;
    let append = rule(
        "t/hi",
        Pattern::literal("Hi."),
        Channel::UserInput,
        Action::Inject,
    );
    let mut session = Session::new(pack([append]));
    let body = r#"{"contents":{"parts":{"text":"Hi."}},"generation_config":{"topK":1}}"#;
    let judged = session.judge(api, body.into()).unwrap();
    let sent: Value = serde_json::from_slice(&judged.body.write(Some(&retry))).unwrap();
    assert_eq!(
        sent["contents"],
        json!([
            {"parts": [{"text": "Hi."}, {"text": "Message of t/hi."}]},
            {"role": "model", "parts": [{"text": "So"}]},
            {"role": "user", "parts": [{"text": "No."}]},
        ])
    );
    assert_eq!(
        sent["generation_config"],
        json!({"temperature": 0.5, "topK": 1})
    );
    let result = json!({"functionResponse": {"name": "f", "response": {"output": "out"}}});
    let body = json!({"contents": {"role": "user", "parts": [result]}}).to_string();
    let judged = session.judge(api, body.into()).unwrap();
    let sent: Value = serde_json::from_slice(&judged.body.write(Some(&retry))).unwrap();
    let roles: Vec<&Value> = sent["contents"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["role"])
        .collect();
    assert_eq!(roles, ["user", "model", "user"]);
    let key = |system: &str| {
        let body = format!(r#"{{"{system}":{{"parts":[{{"text":"s"}}]}},"contents":[]}}"#);
        let request = ModelRequest::read(api, body.into()).unwrap();
        session_key(&HeaderMap::new(), "", &request, None)
    };
    let request = ModelRequest::read(api, r#"{"contents":[]}"#.into()).unwrap();
    let of_query = |query: &str| session_key(&HeaderMap::new(), query, &request, None);
    assert_eq!(of_query("alt=sse&key=a"), of_query("key=a"));
    assert_ne!(of_query("key=a"), of_query("key=b"));
    assert_eq!(key("systemInstruction"), key("system_instruction"));
    assert_ne!(key("systemInstruction"), key("other"));
}

#[test]
fn a_request_of_code_assist_changes_within_its_wrapper_alone() {
    let api = ModelApi::CodeAssist;
    let todo = rule(
        "t/hi",
        Pattern::literal("Hi."),
        Channel::UserInput,
        Action::Inject,
    );
    let mut session = Session::new(pack([todo, key_rule()]));
    let body = |text: &str, contents: &str| {
        format!(
            "{{\"model\": \"m\",\"project\":\"key-1234\", \"request\" : {{ \"contents\":[{{\"role\":\"user\",\"parts\":[{{\"text\":\"{text}\"}}\
             {contents}, \"session_id\": \"s\"}},\"user_prompt_id\":\"u########0\"}}"
        )
    };
    let judged = session.judge(api, body("Hi. key-1234", "]}]").into());
    let judged = judged.unwrap().body;
    let guided = r#",{"text":"Message of t/hi."}]}"#;
    let sent = judged.write(None);
    assert_eq!(sent, body("Hi. [redacted]", &format!("{guided}]")));
    let retry = retry_with("So far.", "No.", 250);
    let sent = String::from_utf8(judged.write(Some(&retry)).to_vec()).unwrap();
    let tail = r#",{"parts":[{"text":"So far."}],"role":"model"},{"parts":[{"text":"No."}],"role":"user"}"#;
    let want = body("Hi. [redacted]", &format!("{guided}{tail}]"))
        .replace("\"m\"", "\"other\"")
        .replace(
            "{ \"contents\"",
            "{\"generationConfig\":{\"temperature\":0.25}, \"contents\"",
        );
    assert_eq!(sent, want);
    let read = |body: &str| ModelRequest::read(api, body.to_owned().into()).unwrap();
    let request = read(&body("Hi.", "]}]"));
    assert_eq!(request.model.as_deref(), Some("m"));
    assert_eq!(request.session.as_deref(), Some("s"));
    let other = read(r#"{"request":{"contents":[],"sessionId":"s","metadata":{"user_id":"{}"}}}"#);
    assert_eq!((other.model, other.session.as_deref()), (None, Some("s")));
    let unnamed = read(r#"{"request":{"contents":[],"session_id":""},"session_id":"s"}"#);
    assert_eq!(unnamed.session, None);
    let key = |request| session_key(&HeaderMap::new(), "", request, None);
    assert_ne!(key(&request), key(&unnamed));
}

#[test]
fn the_error_of_a_tool_is_an_outcome_in_gemini() {
    let mut failed = rule(
        "t/failed",
        Pattern::literal("out"),
        Channel::ToolOutput,
        Action::Append,
    );
    failed.outcome = Some(ttsr::rule::ToolOutcome::Error);
    for (name, is_error) in [("error", true), ("output", false)] {
        let result = json!({"functionResponse": {"name": "f", "response": {name: "out"}}});
        let body = json!({"contents": [{"role": "user", "parts": [result]}]}).to_string();
        let judged = Session::new(pack([failed.clone()]))
            .judge(ModelApi::Gemini, body.into())
            .unwrap();
        let sent = judged.body.write(None);
        let sent = String::from_utf8_lossy(&sent);
        assert_eq!(
            sent.contains("out\\n\\nMessage of t/failed."),
            is_error,
            "{sent}"
        );
    }
}

#[test]
fn sessions_are_told_apart_by_what_clients_send() {
    let read = |body: &str| ModelRequest::read(APIS[0], body.to_owned().into()).unwrap();
    let headers = |fields: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(
                HeaderName::from_static(name),
                HeaderValue::from_static(value),
            );
        }
        headers
    };
    let plain = read(r#"{"system":"s","messages":[{"role":"user","content":"a"}]}"#);
    let later = read(
        r#"{"system":"s","messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"},{"role":"user","content":"c"}]}"#,
    );
    let other = read(r#"{"system":"s","messages":[{"role":"user","content":"b"}]}"#);
    let key = |fields: &[(&'static str, &'static str)], request: &ModelRequest| {
        session_key(&headers(fields), "", request, None)
    };
    let mine = [("x-api-key", "k1"), ("user-agent", "u")];
    assert_eq!(key(&mine, &plain), key(&mine, &later));
    assert_ne!(key(&mine, &plain), key(&mine, &other));
    assert_ne!(
        key(&mine, &plain),
        key(&[("x-api-key", "k2"), ("user-agent", "u")], &plain)
    );
    assert_ne!(
        key(&mine, &plain),
        key(&[("x-api-key", "k1"), ("user-agent", "v")], &plain)
    );
    let with_key = |text: &str, cache_key: &str| {
        let body = json!({"model": "m", "input": text, "prompt_cache_key": cache_key});
        ModelRequest::read(ModelApi::OpenAiResponses, body.to_string().into()).unwrap()
    };
    assert_eq!(
        key(&mine, &with_key("a", "c1")),
        key(&mine, &with_key("a", "c1"))
    );
    assert_ne!(
        key(&mine, &with_key("a", "c1")),
        key(&mine, &with_key("a", "c2"))
    );
    assert_ne!(
        key(&mine, &with_key("a", "c1")),
        key(&mine, &with_key("b", "c1"))
    );
    let metadata = read(
        r#"{"messages":[],"metadata":{"user_id":"{\"device_id\":\"d\",\"session_id\":\"s1\"}"}}"#,
    );
    for name in [
        "x-claude-code-session-id",
        "session-id",
        "session_id",
        "x-session-id",
        "x-session-affinity",
        "thread-id",
    ] {
        let named = [("x-api-key", "k1"), (name, "s1")];
        assert_eq!(key(&named, &plain), key(&named, &other), "{name}");
        assert_eq!(
            key(&named, &plain),
            key(&[("x-api-key", "k1")], &metadata),
            "{name}"
        );
        assert_ne!(
            key(&named, &plain),
            key(&[("x-api-key", "k2"), (name, "s1")], &plain)
        );
        assert_ne!(
            key(&named, &plain),
            key(&[("x-api-key", "k1"), (name, "s2")], &plain)
        );
    }
}

/// Rules of all actions that change requests.
static RULES: LazyLock<(Pack, Redactors)> = LazyLock::new(|| {
    let rules = [
        rule(
            "t/a",
            Pattern::regex("key-[0-9]{4}"),
            Channel::UserInput,
            Action::Redact,
        ),
        rule(
            "t/b",
            Pattern::regex("key-[0-9]{2}"),
            Channel::ToolOutput,
            Action::Redact,
        ),
        rule(
            "t/c",
            Pattern::literal("deploy"),
            Channel::UserInput,
            Action::Append,
        ),
        rule(
            "t/d",
            Pattern::literal("deploy"),
            Channel::ToolOutput,
            Action::Prepend,
        ),
        rule("t/e", Pattern::word("TODO"), Channel::Text, Action::Inject),
        rule(
            "t/f",
            Pattern::word("TODO"),
            Channel::UserInput,
            Action::Inject,
        ),
    ];
    let pack = pack(rules);
    let redactors = Redactors::new(&pack).unwrap();
    (pack, redactors)
});

proptest! {
    /// A history that grows step by step: each request begins with the messages of the one before, whatever rules do.
    #[test]
    fn requests_are_prefixes_of_later_ones(
        words in prop::collection::vec((0..3_usize, prop::sample::select(vec!["key-1234", "deploy", "TODO", "é\"\\", "ok"])), 1..9),
        api in prop::sample::select(APIS.to_vec()),
    ) {
        let (pack, redactors) = &*RULES;
        let mut session = Session::of(pack.clone(), redactors.clone());
        let mut steps = vec![user("Begin.")];
        let mut last: Vec<Value> = Vec::new();
        for (kind, word) in words {
            let sent = session.exchange(api, &steps, if kind == 0 { word } else { "fine" });
            let now = messages(&sent);
            prop_assert!(now.starts_with(&last), "{last:?}\n{now:?}");
            last = now;
            steps.push(if kind == 0 { reply(word) } else { reply("fine") });
            steps.push(if kind == 1 { tool(word) } else { user(word) });
        }
    }
}

#[test]
fn a_request_that_comes_again_begins_a_turn_if_its_reply_was_complete() {
    for api in APIS {
        let mut session = Session::new(pack([key_rule()]));
        let steps = [user("Hi.")];
        let turns = |session: &mut Session| {
            let judged = session.judge(api, body(api, &steps)).unwrap();
            judged.conversation.turns()
        };
        // Two tries without a reply are one turn.
        assert_eq!(
            [turns(&mut session), turns(&mut session)],
            [1, 1],
            "{api:?}"
        );
        session.exchange(api, &steps, "Yes?");
        assert_eq!(
            [turns(&mut session), turns(&mut session)],
            [2, 2],
            "{api:?}"
        );
    }
}

/// Returns the texts of the last turn of a request.
fn last_turn(api: ModelApi, body: &str) -> Vec<String> {
    let request = ModelRequest::read(api, Bytes::from(body.to_owned())).expect("readable");
    let parts = request.parts[request.trailing()..].iter();
    let texts = parts.flat_map(|part| part.texts.iter().map(|text| text.text.clone()));
    texts.collect()
}

#[test]
fn the_beginning_of_a_reply_does_not_hide_the_texts_before_it() {
    let messages = |rest: &str| format!(r#"{{"messages":[{rest}]}}"#);
    let input = |rest: &str| format!(r#"{{"input":[{rest}]}}"#);
    let user = r#"{"role":"user","content":"old"},{"role":"assistant","content":"x"},{"role":"user","content":"new"}"#;
    let prefilled = messages(&format!(r#"{user},{{"role":"assistant","content":"{{"}}"#));
    for api in [ModelApi::AnthropicMessages, ModelApi::OpenAiChat] {
        assert_eq!(last_turn(api, &prefilled), ["new"], "{api:?}");
    }
    let result = messages(
        r#"{"role":"user","content":"old"},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"b","input":{}}]},
        {"role":"user","content":[{"type":"tool_result","tool_use_id":"t","content":"new"}]},
        {"role":"assistant","content":"{"}"#,
    );
    assert_eq!(last_turn(ModelApi::AnthropicMessages, &result), ["new"]);
    for item in [
        r#"{"type":"item_reference","id":"x"}"#,
        r#"{"type":"mcp_approval_response","approve":true,"approval_request_id":"x"}"#,
    ] {
        let body = input(&format!("{user},{item}"));
        assert_eq!(last_turn(ModelApi::OpenAiResponses, &body), ["new"]);
    }
    let calls = input(
        r#"{"role":"user","content":"a"},
        {"type":"function_call","call_id":"1","name":"b","arguments":"{}"},
        {"type":"function_call_output","call_id":"1","output":"b"},
        {"type":"function_call","call_id":"2","name":"b","arguments":"{}"},
        {"type":"function_call_output","call_id":"2","output":"c"}"#,
    );
    assert_eq!(
        last_turn(ModelApi::OpenAiResponses, &calls),
        ["a", "b", "c"]
    );
}

#[test]
fn items_of_responses_without_a_text_of_the_user_are_passed() {
    let body =
        |item: &str| format!(r#"{{"model":"m","input":[{item},{{"role":"user","content":"a"}}]}}"#);
    for item in [
        r#"{"type":"additional_tools","role":"developer","tools":[]}"#,
        r#"{"id":"msg_1"}"#,
        r#"{"id":"msg_1","type":null}"#,
        r#"{"type":"program","id":"p","call_id":"c","code":"secret","fingerprint":"f"}"#,
    ] {
        let request = ModelRequest::read(ModelApi::OpenAiResponses, body(item).into());
        let request = request.unwrap_or_else(|| panic!("{item}"));
        let texts: Vec<&str> = request
            .parts
            .iter()
            .flat_map(|part| &part.texts)
            .map(|it| &*it.text)
            .collect();
        assert_eq!(texts, ["a"], "{item}");
        assert!(request.unscanned.is_empty(), "{item}");
    }
    for item in [r#"{"id":"msg_1","content":"x"}"#, "{}"] {
        let request = ModelRequest::read(ModelApi::OpenAiResponses, body(item).into());
        assert!(request.is_none(), "{item}");
    }
    let output =
        r#"{"type":"program_output","id":"p","call_id":"c","result":"x","status":"completed"}"#;
    assert_eq!(
        last_turn(ModelApi::OpenAiResponses, &body(output)),
        ["x", "a"]
    );
}

#[test]
fn titles_contexts_file_names_and_results_of_code_are_read() {
    let block = |block: &str| format!(r#"{{"messages":[{{"role":"user","content":[{block}]}}]}}"#);
    for (text, texts) in [
        (
            r#"{"type":"document","title":"a","context":"b","source":{"type":"text","data":"c"}}"#,
            &["a", "b", "c"][..],
        ),
        (
            r#"{"type":"tool_result","tool_use_id":"t","content":[{"type":"search_result","source":"a","title":"b","content":[{"type":"text","text":"c"}]}]}"#,
            &["a", "b", "c"],
        ),
    ] {
        assert_eq!(last_turn(ModelApi::AnthropicMessages, &block(text)), texts);
    }
    let file = block(r#"{"type":"file","file":{"filename":"a","file_id":"x"}}"#);
    assert_eq!(last_turn(ModelApi::OpenAiChat, &file), ["a"]);
    let parts = r#"{"contents":[{"role":"user","parts":[
        {"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"a"}},
        {"functionResponse":{"name":"f","response":{"x":"b"},"parts":[{"text":"c"}]}}]}]}"#;
    assert_eq!(last_turn(ModelApi::Gemini, parts), ["a", "b", "c"]);
}

#[test]
fn a_reason_does_not_repeat_what_a_message_captures() {
    let pattern = Pattern::regex("PASS=(?<pw>[a-z0-9]{4,40})");
    let mut capturing = rule("t/pass", pattern, Channel::UserInput, Action::Abort);
    capturing.message = Some("The word {{ capture.pw }} is out.".into());
    let mut session = Session::new(pack([capturing]));
    let steps = [user("It is PASS=hunter2word.")];
    let reason = session.send(ModelApi::OpenAiChat, &steps).unwrap_err();
    assert!(
        !reason.contains("hunter2") && reason.contains("The word"),
        "{reason}"
    );
}

#[test]
fn a_request_that_names_its_history_is_new_and_takes_the_guidance() {
    let mut note = rule(
        "t/note",
        Pattern::literal("odd"),
        Channel::Text,
        Action::Inject,
    );
    note.message = Some("Be brief.".into());
    let warn = rule(
        "t/warn",
        Pattern::literal("yes"),
        Channel::UserInput,
        Action::Warn,
    );
    let mut session = Session::new(pack([note, warn]));
    let first = body(ModelApi::OpenAiResponses, &[user("yes")]);
    let mut judged = session.judge(ModelApi::OpenAiResponses, first).unwrap();
    let base = judged.conversation.snapshot();
    assert_eq!(judged.conversation.begin_attempt(), Flow::Go);
    assert_eq!(judged.conversation.push(PartId(0), b"odd"), Flow::Go);
    assert_eq!(judged.conversation.finish(), Flow::Go);
    session.memory.end_reply(&ReplyEffect {
        base,
        fork: judged.conversation.snapshot(),
        anchor: judged.anchor,
        delivered: Vec::new(),
        is_complete: true,
    });
    for previous in ["resp_1", "resp_2"] {
        let next = json!({"model": "m", "previous_response_id": previous, "input": "yes"});
        let known = session.memory.judged_len();
        let next = session.judge(ModelApi::OpenAiResponses, next.to_string().into());
        let next = next.unwrap();
        assert_eq!(session.memory.judged_len(), known + 1, "{previous}");
        let sent = next.body.write(None);
        assert!(String::from_utf8_lossy(&sent).contains("Be brief."));
    }
}

#[test]
fn a_conversation_that_the_server_keeps_is_a_session_in_which_equal_texts_are_new() {
    let warn = rule(
        "t/warn",
        Pattern::literal("yes"),
        Channel::UserInput,
        Action::Warn,
    );
    let mut session = Session::new(pack([warn]));
    let key_of = |body: &str| {
        let request = ModelRequest::read(ModelApi::OpenAiResponses, body.to_owned().into());
        session_key(&HeaderMap::new(), "", &request.unwrap(), None)
    };
    let body = |conversation: Value, input: &str| {
        json!({"model": "m", "conversation": conversation, "input": input}).to_string()
    };
    let id = || json!("conv_1");
    assert_eq!(key_of(&body(id(), "a")), key_of(&body(id(), "b")));
    let object = json!({"id": "conv_1"});
    assert_eq!(key_of(&body(id(), "a")), key_of(&body(object, "a")));
    assert_ne!(
        key_of(&body(id(), "a")),
        key_of(&body(json!("conv_2"), "a"))
    );
    assert_ne!(
        key_of(&body(Value::Null, "a")),
        key_of(&body(Value::Null, "b"))
    );
    for count in 1..4 {
        let judged = session.judge(ModelApi::OpenAiResponses, body(id(), "yes").into());
        let warned = judged.unwrap().actions.warnings.len();
        assert_eq!(warned, usize::from(count == 1), "the rule warns once");
        assert_eq!(session.memory.judged_len(), count, "equal texts are new");
    }
}

#[test]
fn exceptions_and_shadow_hold_for_redactions_in_requests() {
    let text = |more: &str| {
        format!(
            "schema = 1\n[pack]\nname = 't'\ngrants = ['redact']\n[rule.key]\ndescription = 'A key.'\n\
             on = ['user-input', 'tool-output']\naction = 'redact'\nseverity = 'error'\n\
             match.any = [{{ regex = 'key-[0-9]{{4}}' }}]\nexamples.match = ['key-1234']\n{more}"
        )
    };
    let allow = "[[allow]]\nrules = ['t/*']\nreason = 'a sample'\n";
    for (more, want) in [
        (String::new(), ["[redacted]", "[redacted]"]),
        ("mode = 'shadow'\n".to_owned(), ["key-1234", "key-0000"]),
        (
            format!("{allow}text = ['*0000']\n"),
            ["[redacted]", "key-0000"],
        ),
        (
            format!("{allow}tools = ['bash']\n"),
            ["[redacted]", "[redacted]"],
        ),
    ] {
        let pack = Pack::builder().toml("t.toml", text(&more)).build().unwrap();
        for api in APIS {
            let mut session = Session::new(pack.clone());
            let steps = [user("key-1234 and key-0000"), tool("key-5555"), user("Go.")];
            let sent = session.send(api, &steps).unwrap();
            let text = format!("{} and {}", want[0], want[1]);
            assert!(sent.contains(&text), "{more}: {sent}");
            let is_kept = more.contains("tools") || more.contains("shadow");
            assert_eq!(sent.contains("key-5555"), is_kept, "{more}: {sent}");
        }
    }
}

/// A JSON value of a request in which every text has a secret.
fn secrets() -> impl Strategy<Value = Value> {
    const NAMES: [&str; 9] = [
        "content", "text", "output", "type", "body", "source", "parts", "name", "data",
    ];
    const KINDS: [&str; 6] = ["key-1234", "image", "text", "tool_result", "odd", "base64"];
    let leaf = prop_oneof![
        Just(json!("a key-1234\n")),
        prop::sample::select(&KINDS[..]).prop_map(Value::from),
        Just(json!(1)),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        let members =
            prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner.clone(), 0..4);
        let object = members.prop_map(|members| {
            let members = members.into_iter();
            Value::Object(
                members
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
            )
        });
        prop_oneof![
            object,
            prop::collection::vec(inner, 0..4).prop_map(Value::from)
        ]
    })
}

proptest! {
    /// Whatever a message holds: the body that is sent is JSON, the texts that are read have no secret, and a body without
    /// secrets stays as it is.
    #[test]
    fn a_body_of_any_form_is_refused_or_sent_without_the_secrets_that_are_read(
        value in secrets(),
        api in prop::sample::select(APIS.to_vec()),
        is_list in any::<bool>(),
    ) {
        let content = if is_list { json!([value]) } else { value };
        let list = json!([{"role": "user", "content": content, "parts": content, "type": "message"}]);
        let body = body_with(api, &list).to_string();
        if let Some(request) = ModelRequest::read(api, body.clone().into()) {
            let mut read = request.parts.iter().flat_map(|part| &part.texts);
            let has_secret = read.any(|text| text.text.contains("key-1234"));
            let rules = [Channel::UserInput, Channel::ToolOutput].map(|on| {
                let id = format!("t/{}", on.name());
                rule(&id, Pattern::literal("key-1234"), on, Action::Redact)
            });
            let mut session = Session::new(pack(rules));
            let judged = session.judge(api, body.clone().into()).unwrap();
            let sent = judged.body.write(None);
            let again = ModelRequest::read(api, sent.clone()).unwrap();
            let texts = again.parts.iter().flat_map(|part| &part.texts);
            prop_assert!(texts.clone().all(|text| !text.text.contains("key-1234")));
            prop_assert_eq!(has_secret, sent != body);
            prop_assert_eq!(request.unscanned, again.unscanned);
            let count = request.parts.iter().map(|part| part.texts.len()).sum::<usize>();
            prop_assert_eq!(texts.count(), count);
        }
    }
}

#[test]
fn a_request_with_very_many_texts_is_not_read() {
    const MOST: usize = 1 << 17;
    let texts = |count: usize| {
        let list = vec![r#"{"text":"a"}"#; count].join(",");
        format!(r#"{{"messages":[{{"role":"user","content":[{list}]}}]}}"#)
    };
    let messages = |count: usize| {
        let list = vec![r#"{"role":"assistant","content":""}"#; count].join(",");
        format!(r#"{{"messages":[{list}]}}"#)
    };
    for body in [texts, messages] {
        for (count, is_read) in [(MOST, true), (MOST + 1, false)] {
            let read = ModelRequest::read(APIS[0], body(count).into());
            assert_eq!(read.is_some(), is_read);
        }
    }
}

#[test]
fn content_under_a_name_in_another_case_is_read_too() {
    for body in [
        json!({"messages": [{"role": "user", "content": [{"type": "text", "Text": "key-1234"}]}]}),
        json!({"messages": [{"role": "user", "content": [
            {"type": "image", "source": {"type": "base64", "data": ""}, "TEXT": "key-1234"},
        ]}]}),
    ] {
        let mut session = Session::new(pack([key_rule()]));
        let judged = session.judge(APIS[0], body.to_string().into()).unwrap();
        let sent = String::from_utf8(judged.body.write(None).to_vec()).unwrap();
        assert!(!sent.contains("key-"), "{sent}");
    }
}

/// A session that refuses the user's texts with `forbidden`, and appends to those with `more`.
fn refusing() -> Session {
    let stop = rule(
        "t/stop",
        Pattern::literal("forbidden"),
        Channel::UserInput,
        Action::Abort,
    );
    let mut more = rule(
        "t/more",
        Pattern::literal("more"),
        Channel::UserInput,
        Action::Append,
    );
    more.message = Some("m".repeat(8000));
    Session::new(pack([stop, more]))
}

#[test]
fn a_withheld_text_is_not_sent_after_many_changes_to_other_texts() {
    for api in APIS {
        let mut session = refusing();
        let mut steps = vec![user("Go."), reply("Yes?"), user("forbidden 1")];
        session.send(api, &steps).unwrap_err();
        for number in 0..50 {
            steps.push(user(&format!("more {number}")));
            let sent = session.send(api, &steps).unwrap();
            assert!(!sent.contains("forbidden"), "{api:?} {number}");
            steps.push(reply("Fine."));
            // The beginning would make the test slow.
            steps.drain(3..steps.len().saturating_sub(7).max(3));
        }
        let state = serde_json::to_string(&session.memory).unwrap();
        assert!(state.len() < 400 << 10, "{}", state.len());
    }
}

#[test]
fn the_number_of_withheld_texts_is_bounded_and_none_of_them_is_sent() {
    let api = APIS[0];
    let mut session = refusing();
    let mut steps = vec![user("Go."), reply("Yes?")];
    let mut sent = 0;
    for number in 0..300 {
        steps.push(user(&format!("forbidden {number}")));
        session.send(api, &steps).unwrap_err();
        steps.push(user("ok"));
        if let Ok(body) = session.send(api, &steps) {
            assert!(!body.contains("forbidden"), "{number}");
            sent += 1;
        }
        steps.push(reply("Fine."));
    }
    assert!(sent > 200, "{sent}");
    let state = serde_json::to_string(&session.memory).unwrap();
    assert!(state.len() < 200 << 10, "{}", state.len());
    // A client that leaves the texts out goes on.
    let rest = vec![user("A summary."), reply("Fine."), user("Go on.")];
    session.send(api, &rest).unwrap();
}

#[test]
fn a_withheld_text_is_not_sent_if_the_client_joins_messages() {
    let api = ModelApi::AnthropicMessages;
    let mut session = refusing();
    let mut steps = vec![user("forbidden 1"), user("ok")];
    session.send(api, &steps[..1]).unwrap_err();
    session.send(api, &steps).unwrap();
    steps.extend([reply("Fine."), user("Go on.")]);
    session.send(api, &steps).unwrap();
    let block = |text: &str| json!({"type": "text", "text": text});
    for first in [
        vec!["forbidden 1", "ok"],
        vec!["ok", "forbidden 1"],
        vec!["a reminder", "forbidden 1", "ok"],
    ] {
        let blocks: Vec<Value> = first.iter().map(|text| block(text)).collect();
        let joined = json!({"model": "m", "messages": [
            {"role": "user", "content": blocks}, {"role": "assistant", "content": "Fine."},
            {"role": "user", "content": "Go on."}, {"role": "assistant", "content": "Done."},
            {"role": "user", "content": "And on."},
        ]});
        let judged = session.judge(api, joined.to_string().into()).unwrap();
        let sent = String::from_utf8(judged.body.write(None).to_vec()).unwrap();
        assert!(!sent.contains("forbidden"), "{sent}");
        assert!(
            sent.contains("\"ok\""),
            "only that text is withheld: {sent}"
        );
    }
}

#[test]
fn the_texts_after_one_that_is_withheld_are_withheld_if_a_rule_aborts_at_them() {
    let api = ModelApi::AnthropicMessages;
    let mut session = refusing();
    let block = |text: &str| json!({"type": "text", "text": text});
    let message = |texts: &[&str]| {
        let blocks: Vec<Value> = texts.iter().map(|text| block(text)).collect();
        json!({"role": "user", "content": blocks})
    };
    let answer = json!({"role": "assistant", "content": "Fine."});
    let send = |session: &mut Session, history: &[Value]| {
        let body = json!({"model": "m", "messages": history}).to_string();
        let judged = session.judge(api, body.into())?;
        Ok::<_, String>(String::from_utf8(judged.body.write(None).to_vec()).unwrap())
    };
    let first = message(&["forbidden 1", "fine", "forbidden 2"]);
    send(&mut session, &[first]).unwrap_err();
    let apart = ["forbidden 1", "fine", "forbidden 2"].map(|text| message(&[text]));
    let mut history = apart.to_vec();
    history.extend([answer, message(&["Go on."])]);
    let sent = send(&mut session, &history).unwrap();
    assert!(
        !sent.contains("forbidden") && sent.contains("\"fine\""),
        "{sent}"
    );
}

#[test]
fn a_text_that_was_changed_and_is_withheld_later_is_not_sent() {
    for api in APIS {
        let mut session = refusing();
        let mut steps = vec![user("Go."), reply("Yes?"), user("more of it")];
        assert!(session.send(api, &steps).unwrap().contains("mmm"));
        // Rules that the user adds, after so many other requests that the text is judged again.
        let stop = rule(
            "t/stop",
            Pattern::literal("more"),
            Channel::UserInput,
            Action::Abort,
        );
        let rest = std::mem::replace(&mut session, Session::new(pack([stop])));
        session.memory = rest.memory;
        for number in 0..200 {
            let other = [user(&format!("{number}"))];
            session.send(api, &other).unwrap();
        }
        session.send(api, &steps).unwrap_err();
        steps.push(user("Something else."));
        let sent = session.send(api, &steps).unwrap();
        assert!(!sent.contains("more of it"), "{sent}");
    }
}

/// A step of a client that changes its history.
#[derive(Clone, Copy, Debug)]
enum HistoryChange {
    /// Sends a message of the user, or the result of a tool, with the text of that number.
    Say(usize),
    Tool(usize),
    /// Clears a result.
    Clear(usize),
    /// Puts a summary in the place of the first steps.
    Shorten(usize),
    /// Removes the last steps.
    Rewind(usize),
}

fn changes() -> impl Strategy<Value = HistoryChange> {
    prop_oneof![
        3 => (0..4_usize).prop_map(HistoryChange::Say),
        3 => (0..4_usize).prop_map(HistoryChange::Tool),
        1 => (0..8_usize).prop_map(HistoryChange::Clear),
        1 => (0..8_usize).prop_map(HistoryChange::Shorten),
        1 => (0..4_usize).prop_map(HistoryChange::Rewind),
    ]
}

proptest! {
    /// A text that makes a rule abort is never sent, however the client changes its history.
    #[test]
    fn a_withheld_text_is_not_sent_whatever_becomes_of_the_history(
        changes in prop::collection::vec(changes(), 1..16),
        api in prop::sample::select(APIS.to_vec()),
    ) {
        const TEXTS: [&str; 4] = ["ok", "forbidden", "ok then", "so"];
        let rules = [Channel::UserInput, Channel::ToolOutput].map(|on| {
            let id = format!("t/{}", on.name());
            rule(&id, Pattern::literal("forbidden"), on, Action::Abort)
        });
        let mut session = Session::new(pack(rules));
        let mut steps = vec![user("Go.")];
        // There is no call before a reply.
        let mut is_answered = false;
        for change in changes {
            match change {
                HistoryChange::Tool(text) if is_answered => steps.push(tool(TEXTS[text])),
                HistoryChange::Say(text) | HistoryChange::Tool(text) => {
                    steps.push(user(TEXTS[text]));
                }
                HistoryChange::Clear(at) => {
                    if let Some(Tool(_, text)) = steps.get_mut(at) {
                        "[cleared]".clone_into(text);
                    }
                    continue;
                }
                HistoryChange::Shorten(count) => {
                    steps.drain(..count.min(steps.len()));
                    steps.insert(0, user("A summary."));
                    continue;
                }
                HistoryChange::Rewind(count) => {
                    steps.truncate(steps.len().saturating_sub(count).max(1));
                    continue;
                }
            }
            let sent = session.send(api, &steps);
            is_answered = sent.is_ok();
            if let Ok(sent) = sent {
                prop_assert!(!sent.contains("forbidden"), "{}", sent);
                steps.push(reply("Fine."));
            }
        }
    }
}
