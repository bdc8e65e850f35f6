//! Request bodies: a conversation in the format of each API.

use serde_json::{Value, json};
use ttsr::harness::{Content, Message, Request, Role, Tool};
use ttsr_agent::providers::ProviderApi;

use super::server::{Framing, Heard, Plan, Server};
use super::{ask, endpoint, runtime, small};

fn conversation() -> Request {
    let call = |id: &str, input: &str| Content::ToolCall {
        call: id.into(),
        tool: "read".into(),
        input: input.into(),
    };
    let result = |id: &str, output: &str, is_error| Content::ToolResult {
        call: id.into(),
        output: output.into(),
        is_error,
    };
    let text = |text: &str| Content::Text {
        text: text.into(),
        synthetic: false,
    };
    let messages = vec![
        Message::new(Role::System, "Be brief."),
        Message::user("Read both."),
        Message {
            role: Role::Assistant,
            content: vec![
                Content::Reasoning {
                    text: "Two files.".into(),
                },
                text("Reading."),
                call("c1", r#"{"path":"a"}"#),
                call("c2", ""),
            ],
        },
        Message {
            role: Role::Tool,
            content: vec![result("c1", "alpha", false)],
        },
        Message {
            role: Role::Tool,
            content: vec![result("c2", "no path", true)],
        },
        Message::steering("Mind the gap."),
    ];
    let mut request = Request::new("a-model", messages);
    request.temperature = Some(250);
    request.max_tokens = Some(1_000);
    request.tools = vec![Tool {
        name: "read".into(),
        description: "Reads a file.".into(),
        input: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    }];
    request
}

fn sent(api: ProviderApi, request: &Request) -> Heard {
    runtime().block_on(async {
        let server = Server::start([Plan::sse(small(api), Framing::Length)]).await;
        let mut endpoint = endpoint(api, &server)
            .key("k-12345678")
            .unwrap()
            .member("seed", json!(7));
        assert!(ask(&mut endpoint, request).await.is_finished());
        server.requests().remove(0)
    })
}

fn schema() -> Value {
    json!({"type": "object", "properties": {"path": {"type": "string"}}})
}

#[test]
fn a_request_to_openai_chat() {
    let heard = sent(ProviderApi::OpenAiChat, &conversation());
    assert!(
        heard.head.starts_with("POST /v1/chat/completions HTTP/1.1"),
        "{}",
        heard.head
    );
    assert_eq!(heard.header("authorization"), Some("Bearer k-12345678"));
    assert_eq!(heard.header("content-type"), Some("application/json"));
    let call = |id: &str, input: &str| json!({"id": id, "type": "function", "function": {"name": "read", "arguments": input}});
    let expected = json!({
        "model": "a-model", "stream": true, "stream_options": {"include_usage": true},
        "temperature": 0.25, "max_tokens": 1000, "seed": 7,
        "messages": [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": "Reading.",
             "tool_calls": [call("c1", r#"{"path":"a"}"#), call("c2", "{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "alpha"},
            {"role": "tool", "tool_call_id": "c2", "content": "no path"},
            {"role": "user", "content": "Mind the gap."},
        ],
        "tools": [{"type": "function", "function": {
            "name": "read", "description": "Reads a file.", "parameters": schema(),
        }}],
    });
    assert_eq!(heard.json(), expected);
}

#[test]
fn a_request_to_openai_responses() {
    let heard = sent(ProviderApi::OpenAiResponses, &conversation());
    assert!(
        heard.head.starts_with("POST /v1/responses HTTP/1.1"),
        "{}",
        heard.head
    );
    assert_eq!(heard.header("authorization"), Some("Bearer k-12345678"));
    let call = |id: &str, input: &str| json!({"type": "function_call", "call_id": id, "name": "read", "arguments": input});
    let output = |id: &str, output: &str| json!({"type": "function_call_output", "call_id": id, "output": output});
    let expected = json!({
        "model": "a-model", "stream": true, "store": false, "temperature": 0.25,
        "max_output_tokens": 1000, "seed": 7, "instructions": "Be brief.",
        "input": [
            {"role": "user", "content": "Read both."},
            {"role": "assistant", "content": "Reading."},
            call("c1", r#"{"path":"a"}"#), call("c2", "{}"),
            output("c1", "alpha"), output("c2", "no path"),
            {"role": "user", "content": "Mind the gap."},
        ],
        "tools": [{
            "type": "function", "name": "read", "description": "Reads a file.",
            "parameters": schema(), "strict": false,
        }],
    });
    assert_eq!(heard.json(), expected);
}

#[test]
fn a_request_to_anthropic_messages() {
    let heard = sent(ProviderApi::AnthropicMessages, &conversation());
    assert!(
        heard.head.starts_with("POST /v1/messages HTTP/1.1"),
        "{}",
        heard.head
    );
    assert_eq!(heard.header("x-api-key"), Some("k-12345678"));
    assert_eq!(heard.header("anthropic-version"), Some("2023-06-01"));
    assert_eq!(heard.header("authorization"), None);
    let expected = json!({
        "model": "a-model", "stream": true, "temperature": 0.25, "max_tokens": 1000, "seed": 7,
        "system": "Be brief.",
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Read both."}]},
            {"role": "assistant", "content": [
                {"type": "text", "text": "Reading."},
                {"type": "tool_use", "id": "c1", "name": "read", "input": {"path": "a"}},
                {"type": "tool_use", "id": "c2", "name": "read", "input": {}},
            ]},
            {"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "alpha", "is_error": false},
                {"type": "tool_result", "tool_use_id": "c2", "content": "no path", "is_error": true},
                {"type": "text", "text": "Mind the gap."},
            ]},
        ],
        "tools": [{"name": "read", "description": "Reads a file.", "input_schema": schema()}],
    });
    assert_eq!(heard.json(), expected);
}

const PNG: &str = "iVBORw0KGgo=";

/// Returns the messages that an API is sent for a question about an image, and for a tool that returned one.
fn sent_images(api: ProviderApi) -> Value {
    let image = |media_type: &str, data: &str| Content::Image {
        media_type: media_type.into(),
        data: data.into(),
    };
    let messages = vec![
        Message::user("What is on both?")
            .with_image("image/png", PNG)
            .with_image("image/jpeg", "/9j/"),
        Message {
            role: Role::Assistant,
            content: vec![Content::ToolCall {
                call: "c1".into(),
                tool: "screenshot".into(),
                input: "{}".into(),
            }],
        },
        Message {
            role: Role::Tool,
            content: vec![
                Content::ToolResult {
                    call: "c1".into(),
                    output: "taken".into(),
                    is_error: false,
                },
                image("image/png", PNG),
            ],
        },
        Message::steering("Be brief."),
    ];
    let mut body = sent(api, &Request::new("a-model", messages)).json();
    match api {
        ProviderApi::OpenAiResponses => body["input"].take(),
        _ => body["messages"].take(),
    }
}

#[test]
fn images_in_a_request_to_openai_chat() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    let expected = json!([
        {"role": "user", "content": [
            text("What is on both?"),
            image("data:image/png;base64,iVBORw0KGgo="),
            image("data:image/jpeg;base64,/9j/"),
        ]},
        {"role": "assistant", "content": null, "tool_calls": [
            {"id": "c1", "type": "function", "function": {"name": "screenshot", "arguments": "{}"}},
        ]},
        {"role": "tool", "tool_call_id": "c1", "content": "taken"},
        {"role": "user", "content": [
            image("data:image/png;base64,iVBORw0KGgo="),
            text("Be brief."),
        ]},
    ]);
    assert_eq!(sent_images(ProviderApi::OpenAiChat), expected);
}

#[test]
fn images_in_a_request_to_openai_responses() {
    let text = |text: &str| json!({"type": "input_text", "text": text});
    let image = |url: &str| json!({"type": "input_image", "detail": "auto", "image_url": url});
    let expected = json!([
        {"role": "user", "content": [
            text("What is on both?"),
            image("data:image/png;base64,iVBORw0KGgo="),
            image("data:image/jpeg;base64,/9j/"),
        ]},
        {"type": "function_call", "call_id": "c1", "name": "screenshot", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "taken"},
        {"role": "user", "content": [
            image("data:image/png;base64,iVBORw0KGgo="),
            text("Be brief."),
        ]},
    ]);
    assert_eq!(sent_images(ProviderApi::OpenAiResponses), expected);
}

#[test]
fn images_in_a_request_to_anthropic_messages() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = |media_type: &str, data: &str| json!({"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}});
    let expected = json!([
        {"role": "user", "content": [
            text("What is on both?"), image("image/png", PNG), image("image/jpeg", "/9j/"),
        ]},
        {"role": "assistant", "content": [
            {"type": "tool_use", "id": "c1", "name": "screenshot", "input": {}},
        ]},
        {"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "taken", "is_error": false},
            image("image/png", PNG), text("Be brief."),
        ]},
    ]);
    assert_eq!(sent_images(ProviderApi::AnthropicMessages), expected);
}

/// No API accepts an image in these places, and it is not left out in silence.
#[test]
fn an_image_of_the_system_or_of_the_model_is_refused_before_anything_is_sent() {
    for (role, author) in [(Role::System, "the system"), (Role::Assistant, "the model")] {
        for api in ProviderApi::ALL {
            let message = Message::new(role, "See.").with_image("image/png", PNG);
            let request = Request::new("a-model", vec![message, Message::user("Go.")]);
            let (came, requests) = runtime().block_on(async {
                let server = Server::start([Plan::sse(small(api), Framing::Length)]).await;
                let came = ask(&mut endpoint(api, &server), &request).await;
                (came, server.requests().len())
            });
            let failure = came.failure.unwrap();
            assert_eq!((failure.kind(), requests), ("unsupported", 0));
            assert!(failure.to_string().contains(author), "{failure}");
        }
    }
}

/// Some APIs refuse an empty list of tools, others a missing limit.
#[test]
fn a_request_says_no_more_than_it_must() {
    let request = super::request();
    for api in ProviderApi::ALL {
        let body = sent(api, &request).json();
        assert!(
            body.get("tools").is_none() && body.get("temperature").is_none(),
            "{body}"
        );
        assert_eq!(
            body.get("max_tokens").is_some(),
            api == ProviderApi::AnthropicMessages,
            "{body}"
        );
    }
}

const THINKING: &str = r#"event: message_start
data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"usage":{"input_tokens":1,"output_tokens":1}}}

data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Read it "}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"first."}}

data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2lnbmVk"}}

data: {"type":"content_block_stop","index":0}

data: {"type":"content_block_start","index":1,"content_block":{"type":"text","text":""}}

data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"Reading."}}

data: {"type":"content_block_stop","index":1}

data: {"type":"content_block_start","index":2,"content_block":{"type":"redacted_thinking","data":"c2VhbGVk"}}

data: {"type":"content_block_stop","index":2}

data: {"type":"content_block_start","index":3,"content_block":{"type":"tool_use","id":"toolu_1","name":"read","input":{}}}

data: {"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"path\":\"a\"}"}}

data: {"type":"content_block_stop","index":3}

data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9}}

data: {"type":"message_stop"}

"#;

/// Returns the blocks of the assistant's turn in a request after a reply with signed reasoning. `model` is the model of
/// the second request.
fn sent_back(plan: Plan, model: &str) -> Vec<Value> {
    runtime().block_on(async {
        let api = ProviderApi::AnthropicMessages;
        let server = Server::start([plan, Plan::sse(small(api), Framing::Length)]).await;
        let mut endpoint = endpoint(api, &server);
        ask(&mut endpoint, &super::request()).await;
        let mut request = super::request();
        request.model = model.into();
        request.messages.push(Message {
            role: Role::Assistant,
            content: vec![
                Content::Reasoning {
                    text: "Read it first.".into(),
                },
                Content::Text {
                    text: "Reading.".into(),
                    synthetic: false,
                },
                Content::ToolCall {
                    call: "toolu_1".into(),
                    tool: "read".into(),
                    input: r#"{"path":"a"}"#.into(),
                },
            ],
        });
        // A clone is the same endpoint.
        assert!(ask(&mut endpoint.clone(), &request).await.is_finished());
        let body = server.requests()[1].json();
        body["messages"][1]["content"].as_array().unwrap().clone()
    })
}

#[test]
fn signed_reasoning_goes_back_as_it_came_with_the_calls_it_led_to() {
    let blocks = sent_back(
        Plan::sse(THINKING.as_bytes(), Framing::Chunked).bytewise(),
        "a-model",
    );
    let expected = json!([
        {"type": "thinking", "thinking": "Read it first.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "Reading."},
        {"type": "redacted_thinking", "data": "c2VhbGVk"},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a"}},
    ]);
    assert_eq!(Value::Array(blocks), expected);
}

/// A complaint: the provider would refuse signed reasoning of a reply that was cut.
#[test]
fn signed_reasoning_goes_to_no_other_model_and_not_from_a_reply_that_broke_off() {
    let plan = Plan::sse(THINKING.as_bytes(), Framing::Length);
    let length = plan.len();
    for (plan, model) in [
        (plan.clone(), "another"),
        (plan.first(length - 40), "a-model"),
    ] {
        let blocks = sent_back(plan, model);
        let kinds: Vec<&str> = blocks
            .iter()
            .filter_map(|block| block["type"].as_str())
            .collect();
        assert_eq!(kinds, ["text", "tool_use"]);
    }
}
