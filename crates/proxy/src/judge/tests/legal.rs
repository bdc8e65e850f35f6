//! The order of events that the documentation of each API prescribes.

use serde_json::Value;

use crate::judge::sse_frames::{SseFrames, sse_data};
use crate::routes::ModelApi;

/// Checks that the events are a complete reply of the API, with one end.
pub(super) fn check(api: ModelApi, sent: &str) {
    let mut frames = SseFrames::default();
    let mut data = Vec::new();
    frames.push(sent.as_bytes(), &mut |frame| {
        data.extend(sse_data(&frame).map(|data| data.into_owned()));
    });
    assert_eq!(
        frames.pending_len(),
        0,
        "the last event is complete: {sent}"
    );
    if api == ModelApi::OpenAiChat {
        assert_eq!(data.pop().as_deref(), Some(&b"[DONE]"[..]), "{sent}");
    }
    let events: Vec<Value> = data
        .iter()
        .map(|data| serde_json::from_slice(data).unwrap_or_else(|error| panic!("{error}: {sent}")))
        .collect();
    match api {
        ModelApi::AnthropicMessages => messages(&events, sent),
        ModelApi::OpenAiChat => chat(&events, sent),
        _ => responses(&events, sent),
    }
}

/// `message_start`, blocks one after the other, `message_delta`, `message_stop`; `ping` anywhere between. An `error` ends
/// the message where no block is open.
fn messages(events: &[Value], sent: &str) {
    let (mut open, mut next, mut is_stopping, mut is_over) = (None, 0, false, false);
    for (number, event) in events.iter().enumerate() {
        let kind = event["type"].as_str().unwrap();
        assert_eq!(kind == "message_start", number == 0, "{sent}");
        assert!(!is_over, "an event after the end: {sent}");
        let index = event["index"].as_u64();
        match kind {
            "message_start" | "ping" => {}
            "content_block_start" => {
                assert!(
                    open.is_none() && !is_stopping && index == Some(next),
                    "{sent}"
                );
                (open, next) = (index, next + 1);
            }
            "content_block_delta" => assert!(open.is_some() && open == index, "{sent}"),
            "content_block_stop" => {
                assert!(open.is_some() && open == index, "{sent}");
                open = None;
            }
            "message_delta" => {
                assert!(
                    open.is_none() && !is_stopping && event["delta"]["stop_reason"].is_string()
                );
                is_stopping = true;
            }
            "message_stop" => {
                assert!(is_stopping, "{sent}");
                is_over = true;
            }
            "error" => {
                assert!(open.is_none() && next > 0 && !is_stopping, "{sent}");
                is_over = true;
            }
            other => panic!("{other}: {sent}"),
        }
    }
    assert!(is_over, "{sent}");
}

/// Chunks of one id; each choice ends once and has nothing after its end.
fn chat(events: &[Value], sent: &str) {
    let mut finished = Vec::new();
    for event in events {
        assert_eq!(event["id"], events[0]["id"], "{sent}");
        assert_eq!(event["object"], "chat.completion.chunk", "{sent}");
        for choice in event["choices"].as_array().unwrap() {
            assert!(
                !finished.contains(&choice["index"]),
                "a choice goes on: {sent}"
            );
            if !choice["finish_reason"].is_null() {
                finished.push(choice["index"].clone());
            }
        }
    }
    assert_eq!(finished.len(), 1, "{sent}");
}

/// Sequence numbers without a gap, one open item at a time, and a final response that repeats the items.
fn responses(events: &[Value], sent: &str) {
    let (mut open, mut items): (Option<u64>, Vec<Value>) = (None, Vec::new());
    for (number, event) in events.iter().enumerate() {
        assert_eq!(event["sequence_number"], number, "{sent}");
        let kind = event["type"].as_str().unwrap();
        assert_eq!(kind == "response.created", number == 0, "{sent}");
        let is_last = number + 1 == events.len();
        let is_final = matches!(kind, "response.completed" | "response.failed");
        assert_eq!(is_final, is_last, "{sent}");
        let index = event["output_index"].as_u64();
        match kind {
            "response.output_item.added" => {
                assert!(
                    open.is_none() && index == Some(items.len() as u64),
                    "{sent}"
                );
                open = index;
            }
            "response.output_item.done" => {
                assert!(open.is_some() && open == index, "{sent}");
                items.push(event["item"].clone());
                open = None;
            }
            _ if is_final => {
                assert!(open.is_none(), "{sent}");
                assert_eq!(
                    event["response"]["output"],
                    Value::Array(items.clone()),
                    "{sent}"
                );
                assert_eq!(
                    event["response"]["id"], events[0]["response"]["id"],
                    "{sent}"
                );
            }
            _ => assert_eq!(open.is_some(), index.is_some(), "{sent}"),
        }
    }
}
