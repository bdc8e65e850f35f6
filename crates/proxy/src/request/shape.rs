//! Finds requests to models by their form, for paths of which the API is not known.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

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
///
/// The body is read without being stored as values, which would take far more memory than the body.
pub(crate) fn is_model_request(body: &[u8]) -> bool {
    let body = body.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(body);
    if body.contains(&0) {
        // It may be UTF-16.
        let plain: Vec<u8> = body.iter().copied().filter(|byte| *byte != 0).collect();
        return has_name(&plain);
    }
    let body = body.trim_ascii();
    if !body.starts_with(b"{") && !body.starts_with(b"[") {
        return false;
    }
    // Some APIs take several documents, each on a line.
    let mut at = 0;
    while at < body.len() {
        let rest = &body[at..];
        let mut source = serde_json::Deserializer::from_slice(rest).into_iter::<Document>();
        match source.next() {
            Some(Ok(Document(shape))) if shape.is_request() => return true,
            Some(Ok(_)) => at += source.byte_offset(),
            Some(Err(_)) => return has_name(rest),
            None => return false,
        }
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

/// Servers in Go read names in any case.
fn is_in(name: &str, names: &[&str]) -> bool {
    names.iter().any(|known| is_spelling(name, known))
}

/// The meanings of the name of a member.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they do not exclude each other"
)]
struct MemberName {
    is_history: bool,
    /// True if it is the name `items`: other APIs have lists of that name, too.
    is_items: bool,
    is_of_message: bool,
    is_prompt: bool,
    /// True if servers for one model need no other member.
    is_whole_prompt: bool,
    is_setting: bool,
    is_wrapper: bool,
    is_kind: bool,
    is_content: bool,
}

impl MemberName {
    fn new(name: &str) -> MemberName {
        MemberName {
            is_history: is_in(name, &HISTORIES),
            is_items: is_in(name, &["items"]),
            is_of_message: is_in(name, &OF_MESSAGES),
            is_prompt: is_in(name, &PROMPTS),
            is_whole_prompt: is_in(name, &["inputs", "prompt"]),
            is_setting: is_in(name, &SETTINGS),
            is_wrapper: is_in(name, &WRAPPERS),
            is_kind: is_in(name, &["role", "type"]),
            is_content: is_in(name, &["content", "output"]),
        }
    }
}

/// The facts that are known of a value.
#[derive(Clone, Copy, Debug, Default)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "they do not exclude each other"
)]
struct ValueShape {
    is_text: bool,
    /// True if it is an object with a prompt and a setting.
    has_prompt: bool,
    /// True if a value in it that may be a request has.
    wraps_prompt: bool,
    is_message: bool,
    /// True if it is a message with a type or a role.
    is_item: bool,
    /// True if it is a list with a message.
    has_message: bool,
    has_item: bool,
    /// True if it has a list of messages or items at any place.
    has_history: bool,
}

impl ValueShape {
    fn is_request(self) -> bool {
        self.has_history || self.has_prompt || self.wraps_prompt
    }
}

struct Document(ValueShape);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Document, D::Error> {
        ShapeReader { depth: 0 }.deserialize(source).map(Document)
    }
}

/// Reads the shape of a value at that depth.
#[derive(Clone, Copy, Debug)]
struct ShapeReader {
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for ShapeReader {
    type Value = ValueShape;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<ValueShape, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ShapeReader {
    type Value = ValueShape;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_str<E>(self, _: &str) -> Result<ValueShape, E> {
        Ok(ValueShape {
            is_text: true,
            ..ValueShape::default()
        })
    }

    fn visit_bool<E>(self, _: bool) -> Result<ValueShape, E> {
        Ok(ValueShape::default())
    }

    fn visit_i64<E>(self, _: i64) -> Result<ValueShape, E> {
        Ok(ValueShape::default())
    }

    fn visit_u64<E>(self, _: u64) -> Result<ValueShape, E> {
        Ok(ValueShape::default())
    }

    fn visit_f64<E>(self, _: f64) -> Result<ValueShape, E> {
        Ok(ValueShape::default())
    }

    fn visit_unit<E>(self) -> Result<ValueShape, E> {
        Ok(ValueShape::default())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<ValueShape, A::Error> {
        let mut shape = ValueShape::default();
        let inner = ShapeReader {
            depth: self.depth + 1,
        };
        while let Some(item) = items.next_element_seed(inner)? {
            shape.wraps_prompt |= item.has_prompt;
            shape.has_message |= item.is_message;
            shape.has_item |= item.is_item;
            shape.has_history |= item.has_history;
        }
        shape.has_history &= self.depth <= DEPTH;
        Ok(shape)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<ValueShape, A::Error> {
        let mut shape = ValueShape::default();
        let mut has = MemberName::default();
        let inner = ShapeReader {
            depth: self.depth + 1,
        };
        while let Some(name) = members.next_key_seed(NameReader)? {
            let value = members.next_value_seed(inner)?;
            has.is_of_message |= name.is_of_message;
            has.is_prompt |= name.is_prompt;
            has.is_setting |= name.is_setting;
            has.is_kind |= name.is_kind;
            has.is_content |= name.is_content;
            shape.has_prompt |= name.is_whole_prompt && value.is_text;
            shape.wraps_prompt |= name.is_wrapper && value.has_prompt;
            let is_list = match name.is_items {
                true => value.has_item,
                false => value.has_message,
            };
            shape.has_history |= name.is_history && is_list || value.has_history;
        }
        shape.has_prompt |= has.is_prompt && has.is_setting;
        shape.is_message = has.is_of_message;
        shape.is_item = has.is_kind && has.is_content;
        shape.has_history &= self.depth <= DEPTH;
        Ok(shape)
    }
}

struct NameReader;

impl<'de> DeserializeSeed<'de> for NameReader {
    type Value = MemberName;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<MemberName, D::Error> {
        source.deserialize_str(self)
    }
}

impl Visitor<'_> for NameReader {
    type Value = MemberName;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> Result<MemberName, E> {
        Ok(MemberName::new(name))
    }
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
            // Not JSON, but some servers read it.
            (r#"{"messages":[{"role":"user"}],"seed":NaN}"#, true),
            (r#"{"values":[NaN,1e999],"model":"m"}"#, false),
            (r#"[[[[[[{"messages":[{"role":"user"}]}]]]]]]"#, true),
            (r#"[[[[[[[{"messages":[{"role":"user"}]}]]]]]]]"#, false),
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
