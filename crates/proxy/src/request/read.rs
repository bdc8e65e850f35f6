//! The texts of a request body, by their place in it.

use std::collections::HashMap;
use std::ops::Range;

use hyper::body::Bytes;
use serde_json::value::RawValue;
use ttsr::rule::ToolOutcome;

use super::memory::PartHash;
use crate::json_spans::{elements, member, members, parse, span, string};
use crate::routes::ModelApi;

/// The deepest nesting of contents in a message.
const DEPTH: usize = 16;

/// The members of content that have text, in all APIs.
const CONTENT: [&str; 13] = [
    "content", "context", "data", "document", "file", "filename", "output", "parts", "source",
    "stderr", "stdout", "text", "title",
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

/// The side from which a text comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PartRole {
    Instructions,
    User,
    /// A message of the assistant.
    Assistant,
    /// An item that is no message, such as a call, in Responses. Results of tools may stand between such items.
    Item,
    ToolOutput,
}

/// The user's texts of one message, the output of one tool call, or a message that rules on requests do not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestPart {
    pub(crate) role: PartRole,
    /// The name of the tool, if the request has the call.
    pub(crate) tool: Option<String>,
    pub(crate) outcome: ToolOutcome,
    pub(crate) texts: Vec<RequestText>,
    /// The index of its message.
    pub(crate) item: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestText {
    /// The place of the string in the body, with its quotes.
    pub(crate) range: Range<usize>,
    /// The decoded string; empty once the request is judged.
    pub(crate) text: String,
}

/// The form of the content of a user's message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ContentForm {
    /// A string, which is the first text of its part.
    Text,
    /// A list of typed items.
    List { range: Range<usize>, is_empty: bool },
    /// One item instead of a list.
    One(Range<usize>),
}

/// A message or item of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestItem {
    pub(crate) range: Range<usize>,
    /// `None` if it is not a message of the user.
    pub(crate) content: Option<ContentForm>,
}

/// The history of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum HistoryForm {
    /// A list of messages at that place.
    List(Range<usize>),
    /// One message instead of a list, at that place.
    One(Range<usize>),
    /// The input is one string, at that place.
    Text(Range<usize>),
    /// The input is one or more texts to be continued, each of which is a part.
    Prompts,
}

/// A request body that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModelRequest {
    pub(crate) api: ModelApi,
    pub(crate) body: Bytes,
    pub(crate) model: Option<String>,
    /// The places of the values of `model` and `temperature`, which Ollama has in its options.
    pub(crate) model_range: Option<Range<usize>>,
    pub(crate) temperature_range: Option<Range<usize>>,
    /// The place of the object with the options of the model, in Ollama.
    pub(crate) options_range: Option<Range<usize>>,
    pub(crate) history: HistoryForm,
    pub(crate) items: Vec<RequestItem>,
    pub(crate) parts: Vec<RequestPart>,
    /// The id of the session that the client names in the body.
    pub(crate) session: Option<String>,
    /// The system prompt, up to the first message of the user.
    pub(crate) instructions: String,
}

impl ModelRequest {
    /// Returns true if requests to that API can be read.
    pub(crate) fn knows(api: ModelApi) -> bool {
        api != ModelApi::Unjudged
    }

    /// Reads a body, or returns `None` if it is not a request of that API. In Gemini the path has the model, and not the
    /// body.
    pub(crate) fn read(api: ModelApi, body: Bytes) -> Option<ModelRequest> {
        let mut reader = BodyReader {
            api,
            body: &body,
            items: Vec::new(),
            parts: Vec::new(),
            tools: HashMap::new(),
            instructions: Vec::new(),
        };
        let top = members(parse(&body)?)?;
        let system = match api {
            ModelApi::AnthropicMessages => member(&top, "system"),
            ModelApi::OpenAiResponses => member(&top, "instructions"),
            ModelApi::OllamaGenerate => member(&top, "system"),
            ModelApi::Gemini => either(&top, "systemInstruction", "system_instruction")?,
            _ => None,
        };
        if let Some(system) = system {
            reader.instruct(system)?;
        }
        let history = reader.history(&top)?;
        let (items, parts) = (reader.items, reader.parts);
        let instructions = reader.instructions.into_iter().map(|text| text.text);
        let instructions = instructions.collect::<Vec<_>>().join("\n");
        let range = |name| member(&top, name).map(|value| span(&body, value));
        let options = match api {
            ModelApi::Gemini => either(&top, "generationConfig", "generation_config")?,
            _ => member(&top, "options").filter(|_| options_name(api).is_some()),
        };
        let temperature_range = match options {
            Some(options) => {
                let known = members(options)?;
                member(&known, "temperature").map(|value| span(&body, value))
            }
            None => range("temperature").filter(|_| options_name(api).is_none()),
        };
        let model = member(&top, "model").filter(|_| api != ModelApi::Gemini);
        Some(ModelRequest {
            api,
            model: model.and_then(string),
            model_range: model.map(|model| span(&body, model)),
            temperature_range,
            options_range: options.map(|options| span(&body, options)),
            history,
            items,
            parts,
            session: named_session(&top),
            instructions,
            body,
        })
    }

    /// Drops the decoded texts and what else only the judgement reads, so that a request takes little more memory than its
    /// body while its reply arrives.
    pub(super) fn forget_texts(&mut self) {
        self.instructions = String::new();
        self.items.shrink_to_fit();
        self.parts.shrink_to_fit();
        for part in &mut self.parts {
            part.texts.shrink_to_fit();
            part.texts
                .iter_mut()
                .for_each(|text| text.text = String::new());
        }
    }

    /// Returns for each part of the user or of a tool the hash of it and all such parts before it.
    ///
    /// Messages of the assistant are not part of it, because some clients replay them in another form.
    pub(crate) fn chain(&self) -> Vec<Option<PartHash>> {
        let mut last = PartHash::default();
        let mut hash = |part: &RequestPart| {
            let name = match part.role {
                PartRole::User => "user",
                PartRole::ToolOutput => "tool",
                PartRole::Instructions | PartRole::Assistant | PartRole::Item => return None,
            };
            let texts = part.texts.iter().map(|text| text.text.as_str());
            last = last.extend([name].into_iter().chain(texts));
            Some(last)
        };
        self.parts.iter().map(&mut hash).collect()
    }

    /// Returns the index of the first part of the last turn: after the last message of the assistant before the last text
    /// of the user or of a tool. A message of the assistant that stands last is the beginning of its reply.
    pub(crate) fn trailing(&self) -> usize {
        let is_read =
            |part: &RequestPart| matches!(part.role, PartRole::User | PartRole::ToolOutput);
        let end = self.parts.iter().rposition(is_read).unwrap_or(0);
        let of_assistant = |part: &RequestPart| part.role == PartRole::Assistant;
        let last = self.parts[..end].iter().rposition(of_assistant);
        last.map_or(0, |last| last + 1)
    }
}

/// Returns the name of the member with the history.
pub(super) fn history_name(api: ModelApi) -> &'static str {
    match api {
        ModelApi::OpenAiResponses => "input",
        ModelApi::Gemini => "contents",
        _ => "messages",
    }
}

/// Returns the name of the member with the options of the model, if the API has them in one.
pub(super) fn options_name(api: ModelApi) -> Option<&'static str> {
    match api {
        ModelApi::OllamaChat | ModelApi::OllamaGenerate => Some("options"),
        ModelApi::Gemini => Some("generationConfig"),
        _ => None,
    }
}

/// Returns the value of a member that has two names and is not null, or `None` if both are there: readers disagree about
/// which one counts.
fn either<'v>(
    known: &[(String, &'v RawValue)],
    name: &str,
    other: &str,
) -> Option<Option<&'v RawValue>> {
    match (member(known, name), member(known, other)) {
        (Some(_), Some(_)) => None,
        (found, None) | (None, found) => Some(found.filter(|value| value.get() != "null")),
    }
}

/// Returns the id of the session in the metadata that Claude Code and Codex send.
fn named_session(top: &[(String, &RawValue)]) -> Option<String> {
    let of = |outer: &str, inner: &str| {
        let outer = members(member(top, outer)?)?;
        string(member(&outer, inner)?)
    };
    let user = of("metadata", "user_id");
    let in_user = user.and_then(|user| {
        let user: serde_json::Value = serde_json::from_str(&user).ok()?;
        Some(user["session_id"].as_str()?.to_owned())
    });
    in_user.or_else(|| of("client_metadata", "session_id"))
}

/// The members of an object that have texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TextMembers {
    /// Those of content in the form of an API: [`CONTENT`], and none of [`MEDIA`].
    Content,
    /// All, of an object whose form a tool chooses.
    All,
}

struct BodyReader<'b> {
    api: ModelApi,
    body: &'b [u8],
    items: Vec<RequestItem>,
    parts: Vec<RequestPart>,
    /// The names of the tools by the ids of their calls.
    tools: HashMap<String, String>,
    instructions: Vec<RequestText>,
}

impl<'b> BodyReader<'b> {
    fn history(&mut self, top: &[(String, &'b RawValue)]) -> Option<HistoryForm> {
        match self.api {
            ModelApi::Gemini => return self.contents(top),
            ModelApi::OpenAiCompletions | ModelApi::OllamaGenerate => return self.prompts(top),
            _ => {}
        }
        let Some(list) = member(top, history_name(self.api)) else {
            // A request to Responses may name a prompt that the provider stores, and one to Ollama may load a model.
            let is_optional = matches!(self.api, ModelApi::OpenAiResponses | ModelApi::OllamaChat);
            return is_optional.then_some(HistoryForm::List(0..0));
        };
        let range = span(self.body, list);
        if self.api == ModelApi::OpenAiResponses && string(list).is_some() {
            self.items.push(RequestItem {
                range: range.clone(),
                content: Some(ContentForm::Text),
            });
            self.push_user(0, list)?;
            return Some(HistoryForm::Text(range));
        }
        for (number, item) in elements(list)?.into_iter().enumerate() {
            let known = members(item)?;
            self.items.push(RequestItem {
                range: span(self.body, item),
                content: None,
            });
            match self.api {
                ModelApi::AnthropicMessages => self.messages_item(number, &known)?,
                ModelApi::OpenAiChat | ModelApi::OllamaChat => self.chat_item(number, &known)?,
                _ => self.responses_item(number, &known)?,
            }
        }
        Some(HistoryForm::List(range))
    }

    /// Reads the prompts of Completions and of Ollama's `/api/generate`. The text after the completion (`suffix`) is a text
    /// of the user, too.
    fn prompts(&mut self, top: &[(String, &'b RawValue)]) -> Option<HistoryForm> {
        let given = |name| member(top, name).filter(|value| value.get() != "null");
        if let Some(prompt) = given("prompt") {
            match elements(prompt) {
                Some(list) => list.into_iter().try_for_each(|it| self.prompt(it))?,
                None => self.prompt(prompt)?,
            }
        }
        if let Some(suffix) = given("suffix") {
            let text = RequestText {
                range: span(self.body, suffix),
                text: string(suffix)?,
            };
            match self.parts.last_mut() {
                Some(last) => last.texts.push(text),
                None => self.prompt(suffix)?,
            }
        }
        Some(HistoryForm::Prompts)
    }

    /// Reads one prompt. A prompt of tokens cannot be read.
    fn prompt(&mut self, prompt: &'b RawValue) -> Option<()> {
        string(prompt)?;
        self.items.push(RequestItem {
            range: span(self.body, prompt),
            content: None,
        });
        self.push_user(self.items.len() - 1, prompt)
    }

    /// Reads the history of Gemini. Lists of one element may be written without the list.
    fn contents(&mut self, top: &[(String, &'b RawValue)]) -> Option<HistoryForm> {
        let contents = member(top, "contents")?;
        let range = span(self.body, contents);
        let (list, form) = match elements(contents) {
            Some(list) => (list, HistoryForm::List(range)),
            None => (vec![contents], HistoryForm::One(range)),
        };
        for (number, content) in list.into_iter().enumerate() {
            self.gemini_item(number, content)?;
        }
        Some(form)
    }

    fn gemini_item(&mut self, number: usize, content: &'b RawValue) -> Option<()> {
        self.items.push(RequestItem {
            range: span(self.body, content),
            content: None,
        });
        let known = members(content)?;
        match member(&known, "role").and_then(string).as_deref() {
            Some("model") => return self.push_silent(number, PartRole::Assistant),
            None | Some("user" | "function" | "tool") => {}
            Some(_) => return None,
        }
        let Some(parts) = member(&known, "parts") else {
            return Some(());
        };
        let range = span(self.body, parts);
        let (list, form) = match elements(parts) {
            Some(list) => {
                let is_empty = list.is_empty();
                (list, ContentForm::List { range, is_empty })
            }
            None => (vec![parts], ContentForm::One(range)),
        };
        let mut texts = Vec::new();
        let mut has_output = false;
        for part in list {
            let part = members(part)?;
            if let Some(text) = member(&part, "text").filter(|text| text.get() != "null") {
                self.texts(text, 1, TextMembers::All, &mut texts)?;
            }
            if let Some(output) = either(&part, "functionResponse", "function_response")? {
                has_output = true;
                self.gemini_output(number, output)?;
            }
            if let Some(result) = either(&part, "codeExecutionResult", "code_execution_result")? {
                has_output = true;
                self.push_output(number, None, ToolOutcome::Ok, Some(result))?;
            }
        }
        if !has_output {
            // A provider counts the results of tools in a message, so that nothing is added to it.
            self.items[number].content = Some(form);
        }
        if !texts.is_empty() {
            self.parts.push(RequestPart {
                role: PartRole::User,
                tool: None,
                outcome: ToolOutcome::Ok,
                texts,
                item: number,
            });
        }
        Some(())
    }

    /// Reads the result of a tool in Gemini: all strings of an object whose form the tool chooses.
    fn gemini_output(&mut self, item: usize, output: &'b RawValue) -> Option<()> {
        let known = members(output)?;
        let response = member(&known, "response");
        let mut texts = Vec::new();
        if let Some(response) = response {
            self.texts(response, DEPTH, TextMembers::All, &mut texts)?;
        }
        for part in member(&known, "parts")
            .and_then(elements)
            .unwrap_or_default()
        {
            let part = members(part)?;
            if let Some(text) = member(&part, "text") {
                self.texts(text, 1, TextMembers::All, &mut texts)?;
            }
        }
        let is_error = response.and_then(members).is_some_and(|response| {
            member(&response, "error").is_some_and(|error| error.get() != "null")
        });
        self.parts.push(RequestPart {
            role: PartRole::ToolOutput,
            tool: member(&known, "name").and_then(string),
            outcome: match is_error {
                true => ToolOutcome::Error,
                false => ToolOutcome::Ok,
            },
            texts,
            item,
        });
        Some(())
    }

    fn messages_item(&mut self, number: usize, item: &[(String, &'b RawValue)]) -> Option<()> {
        let content = member(item, "content")?;
        match &*string(member(item, "role")?)? {
            "user" => self.push_user(number, content),
            "assistant" => {
                for block in elements(content).unwrap_or_default() {
                    self.name_tool(&members(block)?, "id", "name");
                }
                self.push_silent(number, PartRole::Assistant)
            }
            "system" => self.push_instructions(number, content),
            _ => None,
        }
    }

    fn chat_item(&mut self, number: usize, item: &[(String, &'b RawValue)]) -> Option<()> {
        match &*string(member(item, "role")?)? {
            // A message to Ollama may have images alone.
            "user" if self.api == ModelApi::OllamaChat && member(item, "content").is_none() => {
                Some(())
            }
            "user" => self.push_user(number, member(item, "content")?),
            "assistant" => {
                let calls = member(item, "tool_calls").and_then(elements);
                for call in calls.unwrap_or_default() {
                    let call = members(call)?;
                    let id = member(&call, "id").and_then(string);
                    let function = member(&call, "function").or_else(|| member(&call, "custom"));
                    let function = function.and_then(members).unwrap_or_default();
                    let name = member(&function, "name").and_then(string);
                    self.tools.extend(id.zip(name));
                }
                self.push_silent(number, PartRole::Assistant)
            }
            "tool" | "function" => {
                let id = member(item, "tool_call_id").and_then(string);
                let known = id.and_then(|id| self.tools.get(&id).cloned());
                // Ollama names the tool of a result, because its calls may have no id.
                let named = member(item, "name").or_else(|| member(item, "tool_name"));
                let tool = known.or_else(|| named.and_then(string));
                self.push_output(number, tool, ToolOutcome::Ok, member(item, "content"))
            }
            "system" | "developer" => self.push_instructions(number, member(item, "content")?),
            _ => None,
        }
    }

    fn responses_item(&mut self, number: usize, item: &[(String, &'b RawValue)]) -> Option<()> {
        let kind = member(item, "type").and_then(string);
        let role = member(item, "role").and_then(string);
        match (kind.as_deref(), role.as_deref()) {
            (None | Some("message"), Some("user")) => {
                self.push_user(number, member(item, "content")?)
            }
            (None | Some("message"), Some("assistant")) => {
                self.push_silent(number, PartRole::Assistant)
            }
            (None | Some("message"), Some("system" | "developer")) => {
                self.push_instructions(number, member(item, "content")?)
            }
            (None | Some("message"), _) => None,
            (Some(kind), _) if kind.ends_with("_output") => {
                let id = member(item, "call_id").and_then(string);
                let tool = id.and_then(|id| self.tools.get(&id).cloned());
                self.push_output(number, tool, ToolOutcome::Ok, member(item, "output"))
            }
            (Some(_), _) => {
                self.name_tool(item, "call_id", "name");
                self.push_silent(number, PartRole::Item)
            }
        }
    }

    fn name_tool(&mut self, call: &[(String, &'b RawValue)], id: &str, name: &str) {
        let id = member(call, id).and_then(string);
        let name = member(call, name).and_then(string);
        self.tools.extend(id.zip(name));
    }

    fn push_instructions(&mut self, item: usize, content: &'b RawValue) -> Option<()> {
        if !self.parts.iter().any(|part| part.role == PartRole::User) {
            self.instruct(content)?;
        }
        self.push_silent(item, PartRole::Instructions)
    }

    fn instruct(&mut self, content: &'b RawValue) -> Option<()> {
        let mut texts = std::mem::take(&mut self.instructions);
        self.texts(content, DEPTH, TextMembers::Content, &mut texts)?;
        self.instructions = texts;
        Some(())
    }

    fn push_silent(&mut self, item: usize, role: PartRole) -> Option<()> {
        self.parts.push(RequestPart {
            role,
            tool: None,
            outcome: ToolOutcome::Ok,
            texts: Vec::new(),
            item,
        });
        Some(())
    }

    fn push_output(
        &mut self,
        item: usize,
        tool: Option<String>,
        outcome: ToolOutcome,
        content: Option<&'b RawValue>,
    ) -> Option<()> {
        let mut texts = Vec::new();
        if let Some(content) = content {
            self.texts(content, DEPTH, TextMembers::Content, &mut texts)?;
        }
        self.parts.push(RequestPart {
            role: PartRole::ToolOutput,
            tool,
            outcome,
            texts,
            item,
        });
        Some(())
    }

    /// Reads the content of a message of the user. In Messages it has the results of tools, too.
    fn push_user(&mut self, item: usize, content: &'b RawValue) -> Option<()> {
        let mut texts = Vec::new();
        let list = elements(content);
        let form = match &list {
            Some(list) => ContentForm::List {
                range: span(self.body, content),
                is_empty: list.is_empty(),
            },
            None => ContentForm::Text,
        };
        match list {
            Some(list) => {
                for block in list {
                    let known = members(block)?;
                    let kind = member(&known, "type").and_then(string);
                    if kind.as_deref() != Some("tool_result") {
                        self.texts(block, DEPTH, TextMembers::Content, &mut texts)?;
                        continue;
                    }
                    let id = member(&known, "tool_use_id").and_then(string);
                    let tool = id.and_then(|id| self.tools.get(&id).cloned());
                    let is_error = member(&known, "is_error").is_some_and(|it| it.get() == "true");
                    let outcome = match is_error {
                        true => ToolOutcome::Error,
                        false => ToolOutcome::Ok,
                    };
                    self.push_output(item, tool, outcome, member(&known, "content"))?;
                }
            }
            None => {
                string(content)?;
                self.texts(content, DEPTH, TextMembers::Content, &mut texts)?;
            }
        }
        self.items[item].content = Some(form);
        if !texts.is_empty() {
            self.parts.push(RequestPart {
                role: PartRole::User,
                tool: None,
                outcome: ToolOutcome::Ok,
                texts,
                item,
            });
        }
        Some(())
    }

    /// Adds the texts of a value to `texts`, in their order: its strings, and those in the members of objects that `read`
    /// selects.
    fn texts(
        &self,
        value: &'b RawValue,
        depth: usize,
        read: TextMembers,
        texts: &mut Vec<RequestText>,
    ) -> Option<()> {
        let depth = depth.checked_sub(1)?;
        match value.get().as_bytes().first()? {
            b'"' => texts.push(RequestText {
                range: span(self.body, value),
                text: string(value)?,
            }),
            b'[' => {
                for element in elements(value)? {
                    self.texts(element, depth, read, texts)?;
                }
            }
            b'{' => {
                let known = members(value)?;
                let kind = member(&known, "type").and_then(string);
                let is_media = kind.is_some_and(|kind| MEDIA.contains(&&*kind));
                if is_media && read == TextMembers::Content {
                    return Some(());
                }
                for (name, value) in known {
                    if read == TextMembers::All || CONTENT.contains(&&*name) {
                        self.texts(value, depth, read, texts)?;
                    }
                }
            }
            _ => {}
        }
        Some(())
    }
}
