//! The strings of content in a request: those that are texts, those that are known metadata, and those that no reader
//! knows, which are counted by their path.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::value::RawValue;

use super::read::RequestText;
use crate::json_spans::{elements, member, members, span, string};

/// The most texts of a request, and the most messages. Each takes more memory than the shortest ones have bytes.
pub(super) const MOST: usize = 1 << 17;

/// The deepest nesting of contents in a message.
pub(super) const DEPTH: usize = 16;

/// The members of content that have text, in all APIs.
const CONTENT: [&str; 15] = [
    "content",
    "context",
    "data",
    "displayName",
    "display_name",
    "document",
    "file",
    "filename",
    "output",
    "parts",
    "source",
    "stderr",
    "stdout",
    "text",
    "title",
];

/// The types of content that is not text.
const MEDIA: [&str; 12] = [
    "audio",
    "base64",
    "computer_screenshot",
    "container_upload",
    "image",
    "image_url",
    "input_audio",
    "input_image",
    "input_video",
    "item_reference",
    "url",
    "video_url",
];

/// The members of such content that have the content itself, or its address.
const PAYLOAD: [&str; 8] = [
    "audio",
    "data",
    "image",
    "image_url",
    "input_audio",
    "source",
    "url",
    "video_url",
];

/// The members that have such content whatever its type says, in Gemini and Ollama.
const MEDIA_MEMBERS: [&str; 6] = [
    "fileData",
    "file_data",
    "image_url",
    "images",
    "inlineData",
    "inline_data",
];

/// The members of content that are known metadata, in all APIs.
const METADATA: [&str; 21] = [
    "acknowledged_safety_checks",
    "cache_control",
    "caller",
    "encrypted_content",
    "encrypted_index",
    "encrypted_stdout",
    "fileUri",
    "file_uri",
    "file_url",
    "mediaResolution",
    "media_resolution",
    "media_type",
    "mimeType",
    "mime_type",
    "signature",
    "thoughtSignature",
    "thought_signature",
    "tools",
    "type",
    "videoMetadata",
    "video_metadata",
];

/// The members that are known metadata if they are short strings: names and settings. So are those that end with `_id`.
const LABELS: [&str; 10] = [
    "detail",
    "execution",
    "format",
    "id",
    "name",
    "outcome",
    "role",
    "scheduling",
    "status",
    "tool_name",
];

/// The longest label, in bytes of its JSON.
const LABEL: usize = 256;

/// The most paths of a request that are counted separately, and the most characters of each.
const PATHS: usize = 64;
const PATH_CHARS: usize = 128;

/// The path of a value in a request, such as `messages[].content[].text`.
#[derive(Clone, Copy, Debug)]
pub(super) enum ContentPath<'p> {
    Root(&'p str),
    Member(&'p ContentPath<'p>, &'p str),
    Element(&'p ContentPath<'p>),
}

impl ContentPath<'_> {
    pub(super) fn member<'p>(&'p self, name: &'p str) -> ContentPath<'p> {
        ContentPath::Member(self, name)
    }
}

impl fmt::Display for ContentPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentPath::Root(name) => f.write_str(name),
            ContentPath::Member(parent, name) => match is_plain(name) {
                true => write!(f, "{parent}.{name}"),
                false => write!(f, "{parent}.…"),
            },
            ContentPath::Element(parent) => write!(f, "{parent}[]"),
        }
    }
}

/// Returns true if a name may stand in a path. Others may be text, such as in a table whose keys a tool chooses, and the log
/// has no text.
fn is_plain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-$".contains(&byte);
    name.len() <= 40 && name.bytes().all(is_plain)
}

/// The meaning of the strings in a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ContentKind {
    /// Content in the form of an API: strings are texts. In objects, the members [`CONTENT`] have content.
    Content,
    /// A value whose form a tool chooses: all strings are texts.
    Free,
    /// A member that no reader knows: its strings are counted. Objects in it are read like content.
    Unknown,
    /// An image or another file, or the address of one: strings are not counted.
    Media,
}

/// Bytes of strings that no reader knows, by the index of their message or item and by their path.
pub(super) type UnscannedStrings = BTreeMap<(usize, String), u64>;

/// Reads the content of one request.
#[derive(Debug, Default)]
pub(super) struct ContentReader<'b> {
    pub(super) body: &'b [u8],
    /// The index of the message or item that is read.
    pub(super) item: usize,
    pub(super) unscanned: UnscannedStrings,
    /// The number of texts.
    pub(super) texts: usize,
}

impl<'b> ContentReader<'b> {
    /// Adds the texts of a value to `texts`, in their order, and counts the strings that are neither texts nor metadata.
    /// Returns `None` if the value cannot be read: an object has a name twice, or contents are nested too deeply.
    pub(super) fn read(
        &mut self,
        value: &'b RawValue,
        (kind, depth): (ContentKind, usize),
        path: &ContentPath<'_>,
        texts: &mut Vec<RequestText>,
    ) -> Option<()> {
        let Some(depth) = depth.checked_sub(1) else {
            if kind != ContentKind::Unknown {
                return None;
            }
            self.count(path, value.get().len());
            return Some(());
        };
        match (value.get().as_bytes().first()?, kind) {
            (b'"', ContentKind::Media) => {}
            (b'"', ContentKind::Unknown) => self.count(path, string(value)?.len()),
            (b'"', _) => texts.push(self.text(value)?),
            (b'[', _) => {
                for element in elements(value)? {
                    let path = ContentPath::Element(path);
                    self.read(element, (kind, depth), &path, texts)?;
                }
            }
            (b'{', ContentKind::Free) => {
                for (name, value) in members(value)? {
                    self.read(value, (kind, depth), &path.member(&name), texts)?;
                }
            }
            (b'{', _) => {
                let known = members(value)?;
                if kind == ContentKind::Content && has_other_spelling(&known, &["type"]) {
                    return None;
                }
                let of_type = member(&known, "type").and_then(string);
                let is_media = of_type.is_some_and(|kind| MEDIA.contains(&&*kind));
                let is_media = is_media || kind == ContentKind::Media;
                for (name, value) in &known {
                    self.read_member(name, value, (is_media, depth), path, texts)?;
                }
            }
            _ => {}
        }
        Some(())
    }

    /// Reads a text. Returns `None` if it is no string, or if there are too many.
    pub(super) fn text(&mut self, value: &'b RawValue) -> Option<RequestText> {
        self.texts += 1;
        (self.texts <= MOST).then_some(())?;
        Some(RequestText {
            range: span(self.body, value),
            text: string(value)?,
        })
    }

    /// Reads the members of a message, item or block, except metadata and those in `read`, which the caller reads.
    pub(super) fn read_others(
        &mut self,
        known: &[(String, &'b RawValue)],
        read: &[&str],
        path: &ContentPath<'_>,
        texts: &mut Vec<RequestText>,
    ) -> Option<()> {
        for (name, value) in known {
            if !read.contains(&&**name) {
                self.read_member(name, value, (false, DEPTH), path, texts)?;
            }
        }
        Some(())
    }

    /// Counts the strings of an object that no rule reads, except metadata.
    pub(super) fn count_strings(
        &mut self,
        known: &[(String, &'b RawValue)],
        name: &str,
    ) -> Option<()> {
        let (path, mut texts) = (ContentPath::Root(name), Vec::new());
        self.read_others(known, &[], &path, &mut texts)?;
        self.count(&path, texts.iter().map(|text| text.text.len()).sum());
        Some(())
    }

    fn read_member(
        &mut self,
        name: &str,
        value: &'b RawValue,
        (is_media, depth): (bool, usize),
        path: &ContentPath<'_>,
        texts: &mut Vec<RequestText>,
    ) -> Option<()> {
        let is_in = |names: &[&str]| names.contains(&name);
        let kind = if is_metadata(name, value) {
            return Some(());
        } else if is_in(&MEDIA_MEMBERS) || (is_media && is_in(&PAYLOAD)) {
            ContentKind::Media
        } else if is_in(&CONTENT) || CONTENT.iter().any(|known| is_spelling(name, known)) {
            ContentKind::Content
        } else {
            ContentKind::Unknown
        };
        self.read(value, (kind, depth), &path.member(name), texts)
    }

    fn count(&mut self, path: &ContentPath<'_>, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let path: String = path.to_string().chars().take(PATH_CHARS).collect();
        let mut key = (self.item, path);
        if self.unscanned.len() >= PATHS && !self.unscanned.contains_key(&key) {
            key.1 = "…".to_owned();
        }
        *self.unscanned.entry(key).or_default() += bytes as u64;
    }
}

/// Returns true if an object has one of these members under a name in another case. Servers in Go read it as well, and of
/// both the last one.
pub(super) fn has_other_spelling(known: &[(String, &RawValue)], names: &[&str]) -> bool {
    let is_other = |name: &str| {
        let mut names = names.iter();
        names.any(|known| *known != name && is_spelling(name, known))
    };
    known.iter().any(|(name, _)| is_other(name))
}

/// Returns true if the names differ at most in the case of their letters, with the two characters outside of ASCII whose
/// other case is in it.
pub(super) fn is_spelling(name: &str, known: &str) -> bool {
    if name.is_ascii() {
        return name.eq_ignore_ascii_case(known);
    }
    let plain = |char: char| match char {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        _ => char.to_ascii_lowercase(),
    };
    name.chars().map(plain).eq(known.chars().map(plain))
}

fn is_metadata(name: &str, value: &RawValue) -> bool {
    let is_label = || LABELS.contains(&name) || name.ends_with("_id");
    let is_short = || value.get().starts_with('"') && value.get().len() <= LABEL;
    METADATA.contains(&name) || (is_label() && is_short())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::read::ModelRequest;
    use crate::routes::ModelApi;

    const MESSAGES: ModelApi = ModelApi::AnthropicMessages;
    const CHAT: ModelApi = ModelApi::OpenAiChat;
    const RESPONSES: ModelApi = ModelApi::OpenAiResponses;

    fn read(api: ModelApi, body: &Value) -> ModelRequest {
        let read = ModelRequest::read(api, body.to_string().into());
        read.unwrap_or_else(|| panic!("{body}"))
    }

    /// Returns the texts of a request with that message or item, and the paths and sizes that were not read.
    fn read_item(api: ModelApi, item: &Value) -> (Vec<String>, Vec<(String, u64)>) {
        let name = match api {
            RESPONSES => "input",
            ModelApi::Gemini => "contents",
            _ => "messages",
        };
        let request = read(api, &json!({"model": "m", name: [item]}));
        let texts = request.parts.iter().flat_map(|part| &part.texts);
        let unscanned = request.unscanned.iter();
        (
            texts.map(|text| text.text.clone()).collect(),
            unscanned
                .map(|((_, path), bytes)| (path.clone(), *bytes))
                .collect(),
        )
    }

    fn user(block: Value) -> Value {
        json!({"role": "user", "content": [block]})
    }

    fn tool_result(content: Value) -> Value {
        user(json!({"type": "tool_result", "tool_use_id": "t", "content": content}))
    }

    #[test]
    fn the_text_of_an_unknown_block_is_read_and_its_other_strings_are_counted() {
        let block = json!({
            "type": "hologram", "text": "read", "script": "four", "id": "x", "frames": [
                {"type": "frame", "text": "too", "caption": "six..."}, "two",
            ],
        });
        let counted = |path: &str| {
            vec![
                (format!("{path}.frames[]"), 3),
                (format!("{path}.frames[].caption"), 6),
                (format!("{path}.script"), 4),
            ]
        };
        let block = || block.clone();
        for (api, item, path) in [
            (MESSAGES, user(block()), "messages[].content[]"),
            (
                MESSAGES,
                tool_result(json!([block()])),
                "messages[].content[].content[]",
            ),
            (
                MESSAGES,
                tool_result(block()),
                "messages[].content[].content",
            ),
            (CHAT, user(block()), "messages[].content[]"),
            (
                CHAT,
                json!({"role": "tool", "tool_call_id": "t", "content": [block()]}),
                "messages[].content[]",
            ),
            (RESPONSES, user(block()), "input[].content[]"),
            (
                RESPONSES,
                json!({"type": "function_call_output", "call_id": "t", "output": [block()]}),
                "input[].output[]",
            ),
            (
                RESPONSES,
                json!({"type": "robot_output", "output": block()}),
                "input[].output",
            ),
            (
                RESPONSES,
                json!({"type": "surprise", "content": block()}),
                "input[].content",
            ),
            (
                RESPONSES,
                json!({"type": "surprise", "role": "user", "content": [block()]}),
                "input[].content[]",
            ),
            (
                ModelApi::OllamaChat,
                json!({"role": "user", "images": ["aGk="], "extra": block()}),
                "messages[].extra",
            ),
            (
                ModelApi::OllamaChat,
                json!({"role": "tool", "content": "", "extra": block()}),
                "messages[].extra",
            ),
            (
                ModelApi::Gemini,
                json!({"role": "user", "parts": [{"hologram": block()}]}),
                "contents[].parts[].hologram",
            ),
            (
                ModelApi::Gemini,
                json!({"role": "user", "parts": [{"functionResponse": {"name": "f", "x": block()}}]}),
                "contents[].parts[].functionResponse.x",
            ),
        ] {
            let (mut texts, unscanned) = read_item(api, &item);
            texts.retain(|text| !text.is_empty());
            texts.sort();
            assert_eq!(texts, ["read", "too"], "{item}");
            assert_eq!(unscanned, counted(path), "{item}");
        }
    }

    #[test]
    fn known_metadata_files_and_their_addresses_are_not_counted() {
        let cache = json!({"type": "ephemeral", "ttl": "1h"});
        for (api, item) in [
            (
                MESSAGES,
                user(json!({"type": "text", "text": "a", "cache_control": cache})),
            ),
            (
                MESSAGES,
                user(
                    json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}),
                ),
            ),
            (
                MESSAGES,
                user(
                    json!({"type": "image", "source": {"type": "url", "url": "https://example.com"}}),
                ),
            ),
            (
                MESSAGES,
                user(json!({"type": "document", "source": {"type": "file", "file_id": "f"}})),
            ),
            (
                MESSAGES,
                user(
                    json!({"type": "document", "citations": {"enabled": true}, "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}}),
                ),
            ),
            (
                MESSAGES,
                user(json!({"type": "container_upload", "file_id": "f"})),
            ),
            (
                MESSAGES,
                tool_result(json!([{"type": "tool_reference", "tool_name": "t"}])),
            ),
            (
                CHAT,
                user(
                    json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk=", "detail": "auto"}}),
                ),
            ),
            (
                CHAT,
                user(
                    json!({"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}),
                ),
            ),
            (
                CHAT,
                user(
                    json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "file_id": "f"}}),
                ),
            ),
            (CHAT, json!({"role": "user", "name": "n", "content": "a"})),
            (
                RESPONSES,
                user(
                    json!({"type": "input_image", "image_url": "https://example.com", "detail": "low"}),
                ),
            ),
            (
                RESPONSES,
                user(
                    json!({"type": "input_file", "file_data": "aGk=", "file_url": "https://example.com"}),
                ),
            ),
            (
                RESPONSES,
                json!({"type": "computer_call_output", "call_id": "c", "status": "completed", "acknowledged_safety_checks": [{"id": "i", "message": "m"}], "output": {"type": "computer_screenshot", "image_url": "data:image/png;base64,aGk="}}),
            ),
            (
                RESPONSES,
                json!({"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}]}),
            ),
            (
                RESPONSES,
                json!({"type": "reasoning", "id": "r", "encrypted_content": "aGk=", "summary": []}),
            ),
            (
                RESPONSES,
                json!({"type": "mcp_approval_response", "approval_request_id": "i", "approve": true}),
            ),
            (
                ModelApi::OllamaChat,
                json!({"role": "user", "content": "a", "images": ["aGk="]}),
            ),
            (
                ModelApi::Gemini,
                json!({"role": "user", "parts": [
                    {"text": "a", "thoughtSignature": "aGk="},
                    {"inlineData": {"mimeType": "image/png", "data": "aGk="}},
                    {"file_data": {"mime_type": "image/png", "file_uri": "https://example.com"}, "video_metadata": {"start_offset": "1s"}},
                    {"functionResponse": {"id": "i", "name": "f", "response": {}, "scheduling": "SILENT", "parts": [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}]}},
                ]}),
            ),
        ] {
            let (texts, unscanned) = read_item(api, &item);
            assert!(unscanned.is_empty(), "{unscanned:?}: {item}");
            let is_payload = |text: &String| text.contains("aGk=") || text.contains("example");
            assert!(!texts.iter().any(is_payload), "{texts:?}: {item}");
        }
    }

    #[test]
    fn what_the_user_and_the_assistant_say_elsewhere_is_read_or_left_out() {
        let item = json!({"type": "mcp_approval_response", "approve": false, "reason": "no"});
        assert_eq!(read_item(RESPONSES, &item).0, ["no"]);
        let image = user(json!({"type": "image", "source": {}, "title": "name"}));
        assert_eq!(read_item(MESSAGES, &image).0, ["name"]);
        for (api, item) in [
            (
                MESSAGES,
                json!({"role": "assistant", "content": [{"type": "odd", "x": "y"}]}),
            ),
            (
                MESSAGES,
                json!({"role": "system", "content": [{"type": "odd", "x": "y"}]}),
            ),
            (
                RESPONSES,
                json!({"type": "odd_call", "call_id": "c", "x": "y"}),
            ),
            (
                ModelApi::Gemini,
                json!({"role": "model", "parts": [{"x": "y"}]}),
            ),
        ] {
            assert_eq!(read_item(api, &item), (vec![], vec![]), "{item}");
        }
    }

    #[test]
    fn predictions_and_variables_of_stored_prompts_are_counted() {
        let messages = json!([{"role": "user", "content": "a"}]);
        for (api, body, path, bytes) in [
            (
                CHAT,
                json!({"messages": messages, "prediction": {"type": "content", "content": "four"}}),
                "prediction",
                4,
            ),
            (
                RESPONSES,
                json!({"prompt": {"id": "p", "variables": {"city": "Paris"}}}),
                "prompt.variables.city",
                5,
            ),
        ] {
            let found: Vec<_> = read(api, &body).unscanned.into_iter().collect();
            let [((_, found), count)] = &found[..] else {
                panic!("{found:?}");
            };
            assert_eq!((&**found, *count), (path, bytes));
        }
    }

    #[test]
    fn names_that_may_be_text_are_not_in_a_path() {
        let map = json!({"the word tawny": "a", "tawny".repeat(9): "b", "x": "c"});
        let (_, unscanned) = read_item(MESSAGES, &user(json!({"type": "odd", "map": map})));
        let label =
            json!({"type": "odd", "id": "i", "name": "n".repeat(300), "status": {"x": "y"}});
        let (_, long) = read_item(MESSAGES, &user(label));
        let bytes: Vec<u64> = long.iter().map(|(_, bytes)| *bytes).collect();
        assert_eq!(bytes, [300, 1], "{long:?}");
        let path = |name: &str| format!("messages[].content[].map.{name}");
        assert_eq!(unscanned, [(path("x"), 1), (path("…"), 2)]);
    }

    /// Names of members that have texts, or that no reader knows.
    const NAMES: [&str; 10] = [
        "content", "output", "parts", "text", "title", "body", "frames", "note", "x", "y z",
    ];

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            "[a-z]{1,6}".prop_map(Value::from),
            any::<u8>().prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 24, 4, |inner| {
            let members =
                prop::collection::btree_map(prop::sample::select(&NAMES[..]), inner.clone(), 0..4);
            let members = members.prop_map(|members| {
                Value::Object(
                    members
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                )
            });
            prop_oneof![
                members,
                prop::collection::vec(inner, 0..4).prop_map(Value::from)
            ]
        })
    }

    fn string_bytes(value: &Value) -> u64 {
        match value {
            Value::String(text) => text.len() as u64,
            Value::Array(list) => list.iter().map(string_bytes).sum(),
            Value::Object(members) => members.values().map(string_bytes).sum(),
            _ => 0,
        }
    }

    proptest! {
        /// No string is neither read nor counted.
        #[test]
        fn every_string_of_a_block_or_result_is_read_or_counted(value in values()) {
            let block = json!({"type": "odd", "value": value});
            let output = json!({"type": "function_call_output", "call_id": "c", "output": value});
            let response = json!({"functionResponse": {"name": "f", "response": value, "more": value}});
            let items = [
                (MESSAGES, user(block.clone()), 1),
                (MESSAGES, tool_result(json!([block.clone()])), 1),
                (CHAT, json!({"role": "user", "content": "", "more": value}), 1),
                (CHAT, json!({"role": "tool", "tool_call_id": "t", "content": block.clone()}), 1),
                (RESPONSES, output, 1),
                (RESPONSES, json!({"type": "surprise", "more": value}), 1),
                (ModelApi::OllamaChat, json!({"role": "user", "content": "", "more": value}), 1),
                (ModelApi::Gemini, json!({"role": "user", "parts": [response]}), 2),
            ];
            for (api, item, times) in items {
                let (texts, unscanned) = read_item(api, &item);
                let read: u64 = texts.iter().map(|text| text.len() as u64).sum();
                let counted: u64 = unscanned.iter().map(|(_, bytes)| bytes).sum();
                prop_assert_eq!(read + counted, times * string_bytes(&value), "{}", item);
            }
        }
    }

    #[test]
    fn a_deep_unknown_value_is_counted_and_many_paths_have_a_bound() {
        let mut deep = json!("x");
        for _ in 0..60 {
            deep = json!({ "y": deep });
        }
        let (_, unscanned) = read_item(MESSAGES, &user(json!({"type": "odd", "deep": deep})));
        assert_eq!(unscanned.len(), 1);
        assert!(unscanned[0].1 > 1 && unscanned[0].0.len() <= super::PATH_CHARS);
        let many = (0..1000).map(|n| (format!("k{n}"), json!("x")));
        let many = Value::Object(many.collect());
        let (_, unscanned) = read_item(MESSAGES, &user(json!({"type": "odd", "many": many})));
        assert_eq!(unscanned.len(), super::PATHS + 1);
        let total: u64 = unscanned.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(total, 1000);
    }
}
