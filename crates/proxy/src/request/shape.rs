//! Finds requests to models by their form, for paths of which the API is not known.

use ttsr_wire::JsonValue;

use super::content::is_spelling;

/// The members with a list of messages or items, in the APIs of models.
const HISTORIES: [&str; 8] = [
    "chat_history",
    "contents",
    "conversation",
    "history",
    "input",
    "inputs",
    "items",
    "messages",
];

/// The members that a message or an item of such a list has.
const OF_MESSAGES: [&str; 4] = ["content", "output", "parts", "role"];

/// The members with a text for a model.
const PROMPTS: [&str; 9] = [
    "contents",
    "input",
    "inputs",
    "inputText",
    "instances",
    "message",
    "messages",
    "prompt",
    "prompts",
];

/// The members that name a model or set what it generates.
const SETTINGS: [&str; 20] = [
    "generationConfig",
    "generation_config",
    "maxOutputTokens",
    "max_completion_tokens",
    "max_new_tokens",
    "max_output_tokens",
    "max_tokens",
    "max_tokens_to_sample",
    "model",
    "modelId",
    "n_predict",
    "parameters",
    "stop",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "tools",
    "top_k",
    "top_p",
];

/// The members with a request in the requests of some APIs.
const WRAPPERS: [&str; 3] = ["body", "params", "request"];

/// The deepest nesting of lists of messages, such as in the requests of a batch.
const DEPTH: usize = 6;

/// Returns true if a body has the form of a request to a model: a list of messages, or a prompt and a setting of a model.
/// A body that begins like JSON and is not may be read by a lenient server: it counts if it has the name of such a list.
pub(crate) fn is_model_request(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if body.contains(&0) {
        // It may be UTF-16.
        let plain: Vec<u8> = body.iter().copied().filter(|byte| *byte != 0).collect();
        return has_name(&plain);
    }
    let mut rest = body.trim_ascii();
    if !rest.starts_with(b"{") && !rest.starts_with(b"[") {
        return false;
    }
    // Some APIs take several documents, each on a line.
    while !rest.is_empty() {
        let Some((value, after)) = JsonValue::parse(rest) else {
            return has_name(rest);
        };
        if has_shape(&value) {
            return true;
        }
        rest = after.trim_ascii_start();
    }
    false
}

/// Returns true if the bytes have the name of a history or of a prompt.
fn has_name(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes).to_ascii_lowercase();
    ["messages", "contents", "input", "inputs", "prompt"]
        .iter()
        .any(|name| text.contains(&format!("\"{name}\"")) || text.contains(&format!("'{name}'")))
}

fn has_shape(value: &JsonValue<'_>) -> bool {
    let wrapped = value.members().iter();
    let wrapped = wrapped.filter(|(name, _)| is_in(name, &WRAPPERS));
    let mut wrapped = wrapped.map(|(_, value)| value).chain(value.items());
    has_history(value, 0) || has_prompt(value) || wrapped.any(has_prompt)
}

/// Returns true if the value has a list of messages or items at any place.
fn has_history(value: &JsonValue<'_>, depth: usize) -> bool {
    if depth > DEPTH {
        return false;
    }
    let mut items = value.items().iter();
    let mut members = value.members().iter();
    items.any(|it| has_history(it, depth + 1))
        || members.any(|(name, value)| {
            let is_message = match is_in(name, &["items"]) {
                true => is_item,
                false => is_message,
            };
            let is_history = is_in(name, &HISTORIES) && value.items().iter().any(is_message);
            is_history || has_history(value, depth + 1)
        })
}

fn has_prompt(value: &JsonValue<'_>) -> bool {
    let is_prompt = has_member(value, &PROMPTS) && has_member(value, &SETTINGS);
    let mut members = value.members().iter();
    // Servers for one model need no other member.
    is_prompt
        || members
            .any(|(name, value)| is_in(name, &["inputs", "prompt"]) && value.string().is_some())
}

fn is_message(value: &JsonValue<'_>) -> bool {
    has_member(value, &OF_MESSAGES)
}

/// Other APIs have lists of that name, too.
fn is_item(value: &JsonValue<'_>) -> bool {
    has_member(value, &["role", "type"]) && has_member(value, &["content", "output"])
}

fn has_member(value: &JsonValue<'_>, names: &[&str]) -> bool {
    let mut members = value.members().iter();
    members.any(|(name, _)| is_in(name, names))
}

/// Servers in Go read names in any case.
fn is_in(name: &[u8], names: &[&str]) -> bool {
    let name = std::str::from_utf8(name);
    name.is_ok_and(|name| names.iter().any(|known| is_spelling(name, known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_to_models_are_known_by_their_form_and_others_are_not() {
        for (body, want) in [
            (r#"{"model":"m","messages":[]}"#, true),
            (r#"{"messages":[{"role":"user","content":"x"}]}"#, true),
            (r#"{"model":"m","input":"x"}"#, true),
            (
                r#"{"input":[{"type":"function_call_output","output":"x"}]}"#,
                true,
            ),
            (r#"{"contents":[{"parts":[{"text":"x"}]}]}"#, true),
            (r#"{"prompt":"x","n_predict":9}"#, true),
            (r#"{"inputs":"x","parameters":{"max_new_tokens":9}}"#, true),
            (r#"{"inputs":"x"}"#, true),
            (r#"{"prompt":"x"}"#, true),
            (
                r#"{"items":[{"type":"function_call_output","output":"x"}]}"#,
                true,
            ),
            (r#"{"items":[{"id":1,"content":"x"}]}"#, false),
            (
                r#"{"logs":[{"level":"info","message":"x","model":"m"}]}"#,
                false,
            ),
            (r#"{"event":{"message":"x","model":"m"}}"#, false),
            (r#"{"prompt":{"id":"p"},"name":"n"}"#, false),
            (
                r#"{"inputText":"x","textGenerationConfig":{},"top_p":1}"#,
                true,
            ),
            (
                r#"{"instances":[{"content":"x"}],"parameters":{"temperature":0}}"#,
                true,
            ),
            (r#"{"message":"x","model":"command"}"#, true),
            (
                r#"{"requests":[{"custom_id":"a","params":{"model":"m","messages":[{"role":"user","content":"x"}]}}]}"#,
                true,
            ),
            (
                r#"{"items":[{"type":"message","role":"user","content":"x"}]}"#,
                true,
            ),
            (
                r#"{"model":"m","messages":[{"role":"user","content":"x"}],"messages":0}"#,
                true,
            ),
            ("\u{FEFF} {\"model\":\"m\",\"\\u006dessages\":[]}", true),
            (
                "{\"a\":1}\n{\"body\":{\"model\":\"m\",\"prompt\":\"x\"}}",
                true,
            ),
            (r#"[{"model":"m","prompt":"x"}]"#, true),
            (r#"{"Messages":[{"Role":"user","Content":"x"}]}"#, true),
            (r#"{"MODEL":"m","Prompt":"x"}"#, true),
            (r#"{"Model":"m","Messages":[{"#, true),
            (r#"{"Items":[{"Id":1,"Content":"x"}]}"#, false),
            (r#"{'model':'m','messages':[]}"#, true),
            (r#"{"model":"m","messages":[{"#, true),
            ("{\0\"\0m\0e\0s\0s\0a\0g\0e\0s\0\"\0:\0[\0]\0}\0", true),
            ("", false),
            ("{", false),
            ("model=m&messages=x", false),
            (r#"{"model":"m","training_file":"f"}"#, false),
            (r#"{"model":"m","name":"n","instructions":"i"}"#, false),
            (r#"{"input_file_id":"f","endpoint":"/v1/x"}"#, false),
            (r#"{"query":"mutation { a }","variables":{}}"#, false),
            (
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
                false,
            ),
            (
                r#"{"events":[{"name":"e","data":{"model":"m","tokens":9}}]}"#,
                false,
            ),
            (r#"{"metadata":{"topic":"x"}}"#, false),
            (r#""messages""#, false),
            ("messages are bytes", false),
        ] {
            assert_eq!(is_model_request(body.as_bytes()), want, "{body}");
        }
    }
}
