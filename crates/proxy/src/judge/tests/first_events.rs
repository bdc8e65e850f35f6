//! Replies of which the client has no event when a rule holds or stops them, or none of a choice or an item.

use bytes::Bytes;
use ttsr::{Action, Pattern};

use super::replies::seen;
use super::{SETTINGS, aborting, judge, legal, new_judge, pack_of};
use crate::routes::ModelApi::{
    self, Gemini, OllamaChat, OllamaGenerate, OpenAiChat, OpenAiCompletions, OpenAiResponses,
};

/// Replies whose first event is held, in the APIs whose first event may have a text or a call.
fn held_from_the_start() -> [(ModelApi, String); 4] {
    let members = |object: &str, choice: serde_json::Value| {
        serde_json::json!({
            "id": "c9", "object": object, "created": 17, "model": "m9", "choices": [choice],
        })
    };
    let call = serde_json::json!({"index": 0, "id": "t", "type": "function", "function": {"name": "bash", "arguments": "{"}});
    let delta = serde_json::json!({"role": "assistant", "content": null, "tool_calls": [call]});
    let chat = serde_json::json!({"index": 0, "delta": delta, "finish_reason": null});
    let completion =
        serde_json::json!({"index": 0, "text": "forb", "logprobs": null, "finish_reason": null});
    let line = |member: &str, value: serde_json::Value| {
        let line = serde_json::json!({"model": "m9", "created_at": "2026-01-01T00:00:00Z", member: value, "done": false});
        format!("{line}\n")
    };
    [
        (
            OpenAiChat,
            format!("data: {}\n\n", members("chat.completion.chunk", chat)),
        ),
        (
            OpenAiCompletions,
            format!("data: {}\n\n", members("text_completion", completion)),
        ),
        (
            OllamaChat,
            line(
                "message",
                serde_json::json!({"role": "assistant", "content": "forb"}),
            ),
        ),
        (OllamaGenerate, line("response", serde_json::json!("forb"))),
    ]
}

#[test]
fn a_client_that_has_no_event_yet_is_kept_waiting_by_one_with_the_names_of_the_reply() {
    let pack = pack_of(Pattern::literal("forbidden"), |rule| {
        rule.action = Action::Abort;
        rule.hold = true;
    });
    for (api, first) in held_from_the_start() {
        let mut judge = new_judge(api, &pack, SETTINGS);
        judge.push(Bytes::copy_from_slice(first.as_bytes()));
        assert!(judge.take().is_empty() && judge.is_holding(), "{api:?}");
        judge.keep_alive();
        let waiting = String::from_utf8(judge.take().into()).unwrap();
        assert!(
            waiting.contains("m9") && !waiting.contains("keep-alive"),
            "{waiting}"
        );
        assert!(
            !waiting.contains("tool_calls") && !waiting.contains("forb"),
            "{waiting}"
        );
        // The role comes with the first event: clients join those of several.
        assert!(api != OpenAiChat || !waiting.contains("role"), "{waiting}");
        judge.time_out();
        let sent = waiting + &String::from_utf8(judge.take().into()).unwrap();
        legal::check(api, &sent);
        assert!(!sent.contains("ttsr\","), "another id: {sent}");
        // A reply that is stopped without a keep-alive event has the names of the server, too.
        let mut judge = new_judge(api, &pack, SETTINGS);
        judge.push(Bytes::copy_from_slice(first.as_bytes()));
        judge.time_out();
        let sent = String::from_utf8(judge.take().into()).unwrap();
        legal::check(api, &sent);
        assert!(sent.contains("m9"), "{sent}");
    }
}

/// Returns the chunk of a choice with that text.
type ChunkOf<'c> = &'c dyn Fn(u32, &str) -> String;

#[test]
fn a_choice_that_the_client_has_not_seen_ends_too() {
    let pack = aborting("forbidden");
    let chat = |choice: u32, text: &str| {
        let delta = serde_json::json!({"role": "assistant", "content": text});
        let choices = serde_json::json!([{"index": choice, "delta": delta, "finish_reason": null}]);
        let chunk = serde_json::json!({
            "id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices,
        });
        format!("data: {chunk}\n\n")
    };
    let gemini = |choice: u32, text: &str| {
        let content = serde_json::json!({"role": "model", "parts": [{"text": text}]});
        let chunk = serde_json::json!({"candidates": [{"index": choice, "content": content}]});
        format!("data: {chunk}\n\n")
    };
    let chunks: [(ModelApi, ChunkOf<'_>, &str); 2] = [
        (OpenAiChat, &chat, "\"finish_reason\":\"stop\""),
        (Gemini, &gemini, "\"finishReason\":\"STOP\""),
    ];
    for (api, chunk, end) in chunks {
        let stream = [chunk(0, "One."), chunk(2, "forbidden")].concat();
        let stopped = judge(api, &pack, &stream);
        legal::check(api, &stopped.sent);
        assert_eq!(stopped.sent.matches(end).count(), 2, "{}", stopped.sent);
        assert!(stopped.sent.contains("\"index\":2"), "{}", stopped.sent);
        let reason = "[ttsr: reply stopped by rule demo/rule: Not this.]";
        let text = seen(&stopped.sent).text;
        assert_eq!(text, format!("One.\n\n{reason}{reason}"));
    }
}

#[test]
fn no_trace_of_a_call_that_the_client_is_asked_to_approve_is_sent_if_it_is_stopped() {
    let item = |arguments: &str| {
        serde_json::json!({
            "type": "mcp_approval_request", "id": "mcpr_1", "name": "deploy", "server_label": "s",
            "arguments": arguments,
        })
    };
    let event = |kind: &str, number: u32, mut members: serde_json::Value| {
        members["type"] = serde_json::json!(kind);
        members["sequence_number"] = serde_json::json!(number);
        format!("event: {kind}\ndata: {members}\n\n")
    };
    let response = |status: &str| {
        serde_json::json!({"response": {
            "id": "r", "object": "response", "created_at": 1, "model": "m", "status": status, "output": [],
        }})
    };
    let begun = [
        event("response.created", 0, response("in_progress")),
        event(
            "response.output_item.added",
            1,
            serde_json::json!({"output_index": 0, "item": item("")}),
        ),
    ]
    .concat();
    let done = serde_json::json!({"output_index": 0, "item": item("{\"to\": \"production\"}")});
    let done = event("response.output_item.done", 2, done);
    let stopped = judge(
        OpenAiResponses,
        &aborting("production"),
        &(begun.clone() + &done),
    );
    legal::check(OpenAiResponses, &stopped.sent);
    assert!(!stopped.sent.contains("approval"), "{}", stopped.sent);
    assert!(stopped.sent.contains("Not this."), "{}", stopped.sent);
    let whole = begun.clone() + &done + &event("response.completed", 3, response("completed"));
    let passed = judge(OpenAiResponses, &aborting("staging"), &whole);
    assert_eq!((passed.sent, passed.ended), (whole, Ok(())));
    let broken = judge(OpenAiResponses, &aborting("staging"), &begun);
    assert!(broken.ended.is_err() && !broken.sent.contains("approval"));
}
