//! The texts of a request body, by their place in it.

use std::collections::HashMap;
use std::ops::Range;

use hyper::body::Bytes;
use serde_json::value::RawValue;
use ttsr::rule::ToolOutcome;

use super::content::{
    ContentKind, ContentPath, ContentReader, DEPTH, MOST, UnscannedStrings, has_other_spelling,
};
use super::memory::PartHash;
use super::named::{conversation_id, named_session, wants_usage};
use crate::json_spans::{elements, member, members, parse, span, string};
use crate::routes::ModelApi;

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
    /// `null` instead of a list, at that place.
    Null(Range<usize>),
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
    /// The place of the object with the options of the model, in Ollama and Gemini.
    pub(crate) options_range: Option<Range<usize>>,
    /// The place of the first member of the object with the history.
    pub(crate) start: usize,
    pub(crate) history: HistoryForm,
    pub(crate) items: Vec<RequestItem>,
    pub(crate) parts: Vec<RequestPart>,
    /// The id of the session that the client names in the body.
    pub(crate) session: Option<String>,
    /// The id of the reply whose history the server has, in Responses, and its place.
    pub(crate) previous: Option<String>,
    pub(super) previous_range: Option<Range<usize>>,
    /// The id under which the server has that reply, if it is another one.
    continued: Option<String>,
    /// True if the server keeps the reply, in Responses: a later request can continue it.
    pub(super) is_stored: bool,
    /// The key with which the client tells prompts of one kind apart, in the APIs of OpenAI: at least as wide as a session.
    pub(crate) cache_key: Option<String>,
    /// True if the client asks for the tokens of a streamed reply, in Chat Completions and Completions.
    pub(crate) wants_usage: bool,
    /// The id of the conversation that the server keeps, in Responses: it has the history.
    pub(crate) conversation: Option<String>,
    /// The system prompt, up to the first message of the user.
    pub(crate) instructions: String,
    /// The strings that no reader knows. Those outside of the history have the index after the last item.
    pub(crate) unscanned: UnscannedStrings,
}

impl ModelRequest {
    /// Returns true if requests to that API can be read.
    pub(crate) fn knows(api: ModelApi) -> bool {
        api != ModelApi::Unjudged
    }

    /// Reads a body, or returns `None` if it is not a request of that API. In Gemini the path has the model, and not the
    /// body. In Code Assist the body has the model, and the request of Gemini.
    pub(crate) fn read(api: ModelApi, body: Bytes) -> Option<ModelRequest> {
        let form = api.unwrapped();
        let mut reader = BodyReader {
            api: form,
            body: &body,
            content: ContentReader {
                body: &body,
                ..ContentReader::default()
            },
            items: Vec::new(),
            parts: Vec::new(),
            tools: HashMap::new(),
            instructions: Vec::new(),
        };
        let whole = parse(&body)?;
        let (object, wrapper) = match api {
            ModelApi::CodeAssist => {
                let wrapper = members(whole)?;
                (member(&wrapper, "request")?, wrapper)
            }
            _ => (whole, Vec::new()),
        };
        let top = members(object)?;
        if has_other_spelling(&top, &TOP) || has_other_spelling(&wrapper, &["model", "request"]) {
            return None;
        }
        let system = match form {
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
        reader.count_others(&top)?;
        let (items, parts) = (reader.items, reader.parts);
        let unscanned = reader.content.unscanned;
        let instructions = reader.instructions.into_iter().map(|text| text.text);
        let instructions = instructions.collect::<Vec<_>>().join("\n");
        let range = |name| member(&top, name).map(|value| span(&body, value));
        let options = match form {
            ModelApi::Gemini => either(&top, "generationConfig", "generation_config")?,
            _ => member(&top, "options").filter(|_| options_name(form).is_some()),
        };
        let temperature_range = match options {
            Some(options) => {
                let known = members(options)?;
                member(&known, "temperature").map(|value| span(&body, value))
            }
            None => range("temperature").filter(|_| options_name(form).is_none()),
        };
        let (model, session) = match api {
            ModelApi::Gemini => (None, named_session(&top)),
            ModelApi::CodeAssist => (
                member(&wrapper, "model"),
                either(&top, "session_id", "sessionId")?.and_then(string),
            ),
            _ => (member(&top, "model"), named_session(&top)),
        };
        let is_responses = api == ModelApi::OpenAiResponses;
        let previous = member(&top, "previous_response_id").filter(|_| is_responses);
        let is_forgotten = member(&top, "store").is_some_and(|store| store.get() == "false");
        Some(ModelRequest {
            api,
            model: model.and_then(string),
            model_range: model.map(|model| span(&body, model)),
            temperature_range,
            options_range: options.map(|options| span(&body, options)),
            start: span(&body, object).start + 1,
            history,
            items,
            parts,
            session: session.filter(|session| !session.is_empty()),
            cache_key: member(&top, "prompt_cache_key").and_then(string),
            wants_usage: wants_usage(&top),
            conversation: member(&top, "conversation")
                .filter(|_| is_responses)
                .and_then(conversation_id),
            previous: previous.and_then(string),
            previous_range: previous.map(|previous| span(&body, previous)),
            continued: None,
            is_stored: is_responses && !is_forgotten,
            instructions,
            unscanned,
            body,
        })
    }

    /// Returns true if the server has the history before the request.
    pub(crate) fn continues_history(&self) -> bool {
        self.previous.is_some() || self.conversation.is_some()
    }

    /// Sets the id under which the server has the reply that the request continues.
    pub(crate) fn set_continued(&mut self, id: String) {
        self.continued = Some(id).filter(|id| self.previous.as_ref() != Some(id));
    }

    /// Returns that id and the place of the id in the body, if they differ.
    pub(super) fn continued(&self) -> Option<(&str, Range<usize>)> {
        self.continued.as_deref().zip(self.previous_range.clone())
    }

    /// Drops the decoded texts and what else only the judgement reads, so that a request takes little more memory than its
    /// body while its reply arrives.
    pub(super) fn forget_texts(&mut self) {
        self.instructions = String::new();
        self.unscanned = UnscannedStrings::new();
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
    /// `last_end` is the end of the last request of the session.
    pub(crate) fn chain(&self, last_end: Option<PartHash>) -> Vec<Option<PartHash>> {
        let mut last = PartHash::default();
        // If the history before is that of another request, equal texts are not a repetition.
        if let Some(previous) = &self.previous {
            last = last.extend(["previous", previous]);
        } else if self.conversation.is_some() {
            let end = last_end.map(|end| end.to_string()).unwrap_or_default();
            last = last.extend(["conversation", &*end]);
        }
        let hash = |part: &RequestPart| {
            let name = read_role(part)?;
            let texts = part.texts.iter().map(|text| text.text.as_str());
            last = last.extend([name].into_iter().chain(texts));
            Some(last)
        };
        self.parts.iter().map(hash).collect()
    }

    /// Returns for each such part the hash of it and of the two before it. It stays the same if a client changes the history
    /// before them.
    pub(super) fn windows(&self) -> Vec<Option<PartHash>> {
        let mut before = [PartHash::default(); WINDOW - 1];
        let window = |part: &RequestPart| {
            let own = part_hash(part)?;
            let window = window_hash(own, before);
            before.rotate_left(1);
            before[WINDOW - 2] = own;
            Some(window)
        };
        self.parts.iter().map(window).collect()
    }

    /// Returns the last of these hashes.
    pub(super) fn last_window(&self) -> Option<PartHash> {
        let mut hashes = self.parts.iter().rev().filter_map(part_hash);
        let own = hashes.next()?;
        let mut before = [PartHash::default(); WINDOW - 1];
        let places = before.iter_mut().rev();
        places.zip(hashes).for_each(|(place, hash)| *place = hash);
        Some(window_hash(own, before))
    }

    /// Returns the index of the first part of the last turn: after the last message of the assistant before the last text
    /// of the user or of a tool. A message of the assistant that stands last is the beginning of its reply.
    pub(crate) fn trailing(&self) -> usize {
        let of_assistant = |part: &RequestPart| part.role == PartRole::Assistant;
        let last = self.before_last_text().iter().rposition(of_assistant);
        last.map_or(0, |last| last + 1)
    }

    /// Returns the index of the last message or item of a reply before the last text of the user or of a tool, else 0.
    pub(super) fn last_reply(&self) -> usize {
        let of_reply =
            |part: &RequestPart| matches!(part.role, PartRole::Assistant | PartRole::Item);
        let last = self.before_last_text().iter().rposition(of_reply);
        last.unwrap_or(0)
    }

    fn before_last_text(&self) -> &[RequestPart] {
        let is_read = |part: &RequestPart| read_role(part).is_some();
        let end = self.parts.iter().rposition(is_read).unwrap_or(0);
        &self.parts[..end]
    }
}

/// The number of parts whose hash is compared if the history before them has changed.
const WINDOW: usize = 3;

fn window_hash(own: PartHash, before: [PartHash; WINDOW - 1]) -> PartHash {
    let before = before.map(String::from);
    own.extend(before.iter().map(String::as_str))
}

/// Returns the hash of a part of the user or of a tool alone.
pub(super) fn part_hash(part: &RequestPart) -> Option<PartHash> {
    let name = read_role(part)?;
    let texts = part.texts.iter().map(|text| text.text.as_str());
    Some(PartHash::default().extend([name].into_iter().chain(texts)))
}

/// Returns the hash of a text of such a part alone.
pub(super) fn text_hash(part: &RequestPart, text: &str) -> Option<PartHash> {
    Some(PartHash::default().extend(["text", read_role(part)?, text]))
}

/// Returns the name of the role of a part that rules read.
fn read_role(part: &RequestPart) -> Option<&'static str> {
    match part.role {
        PartRole::User => Some("user"),
        PartRole::ToolOutput => Some("tool"),
        PartRole::Instructions | PartRole::Assistant | PartRole::Item => None,
    }
}

/// The types of items of Responses that are neither messages, calls nor results of tools, and come from the provider.
const SILENT_ITEMS: [&str; 10] = [
    "additional_tools",
    "compaction",
    "compaction_summary",
    "compaction_trigger",
    "context_compaction",
    "item_reference",
    "mcp_approval_request",
    "mcp_list_tools",
    "program",
    "reasoning",
];

/// Returns true if an item of Responses without a type has an id alone.
fn is_reference(item: &[(String, &RawValue)]) -> bool {
    let mut names = item.iter().map(|(name, _)| &**name);
    member(item, "id").is_some() && names.all(|name| matches!(name, "id" | "type"))
}

/// The members of a body that decide what is read in it.
const TOP: [&str; 9] = [
    "contents",
    "input",
    "inputs",
    "messages",
    "model",
    "previous_response_id",
    "prompt",
    "suffix",
    "system",
];

/// The same for a message or item.
pub(super) const ITEM: [&str; 8] = [
    "call_id",
    "content",
    "output",
    "parts",
    "role",
    "tool_call_id",
    "tool_name",
    "type",
];

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
pub(super) fn either<'v>(
    known: &[(String, &'v RawValue)],
    name: &str,
    other: &str,
) -> Option<Option<&'v RawValue>> {
    match (member(known, name), member(known, other)) {
        (Some(_), Some(_)) => None,
        (found, None) | (None, found) => Some(found.filter(|value| value.get() != "null")),
    }
}

/// Reads the body of one request.
pub(super) struct BodyReader<'b> {
    api: ModelApi,
    pub(super) body: &'b [u8],
    pub(super) content: ContentReader<'b>,
    pub(super) items: Vec<RequestItem>,
    pub(super) parts: Vec<RequestPart>,
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
        let given = member(top, history_name(self.api));
        let Some(list) = given.filter(|list| list.get() != "null") else {
            // A request to Responses may name a prompt that the provider stores, and one to Ollama may load a model.
            let is_optional = matches!(self.api, ModelApi::OpenAiResponses | ModelApi::OllamaChat);
            let is_empty = is_optional && !self.has_other_history(top);
            return is_empty.then(|| match given {
                Some(null) => HistoryForm::Null(span(self.body, null)),
                None => HistoryForm::List(0..0),
            });
        };
        let range = span(self.body, list);
        if self.api == ModelApi::OpenAiResponses && string(list).is_some() {
            self.items.push(RequestItem {
                range: range.clone(),
                content: Some(ContentForm::Text),
            });
            self.push_user(0, &[], Some(list))?;
            return Some(HistoryForm::Text(range));
        }
        let list = elements(list).filter(|list| list.len() <= MOST)?;
        for (number, item) in list.into_iter().enumerate() {
            let known = members(item)?;
            if has_other_spelling(&known, &ITEM) {
                return None;
            }
            self.content.item = number;
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

    /// Returns true if the body has the history of another API, which a lenient server may read instead of that of its own.
    fn has_other_history(&self, top: &[(String, &'b RawValue)]) -> bool {
        let own = match self.api {
            ModelApi::OpenAiCompletions | ModelApi::OllamaGenerate => "prompt",
            api => history_name(api),
        };
        // In Responses `prompt` names a stored prompt.
        let is_stored =
            |value: &RawValue| self.api == ModelApi::OpenAiResponses && members(value).is_some();
        ["messages", "input", "inputs", "contents", "prompt"]
            .iter()
            .filter(|name| **name != own)
            .filter_map(|name| Some((*name, member(top, name)?)))
            .any(|(name, value)| value.get() != "null" && !(name == "prompt" && is_stored(value)))
    }

    /// Counts the strings outside of the history that the model reads and no rule: predicted outputs, and the variables
    /// of a stored prompt.
    fn count_others(&mut self, top: &[(String, &'b RawValue)]) -> Option<()> {
        let name = match self.api {
            ModelApi::OpenAiChat => "prediction",
            ModelApi::OpenAiResponses => "prompt",
            _ => return Some(()),
        };
        self.content.item = self.items.len();
        match member(top, name).and_then(members) {
            Some(known) => self.content.count_strings(&known, name),
            None => Some(()),
        }
    }

    /// Reads the prompts of Completions and of Ollama's `/api/generate`. The text after the completion (`suffix`) is a text
    /// of the user, too.
    fn prompts(&mut self, top: &[(String, &'b RawValue)]) -> Option<HistoryForm> {
        let given = |name| member(top, name).filter(|value| value.get() != "null");
        if given("prompt").is_none() && self.has_other_history(top) {
            return None;
        }
        if let Some(prompt) = given("prompt") {
            match elements(prompt) {
                Some(list) => list.into_iter().try_for_each(|it| self.prompt(it))?,
                None => self.prompt(prompt)?,
            }
        }
        if let Some(suffix) = given("suffix") {
            let text = self.content.text(suffix)?;
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
        self.push_user(self.items.len() - 1, &[], Some(prompt))
    }

    fn messages_item(&mut self, number: usize, item: &[(String, &'b RawValue)]) -> Option<()> {
        let content = member(item, "content")?;
        match &*string(member(item, "role")?)? {
            "user" => self.push_user(number, item, Some(content)),
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
                self.push_user(number, item, None)
            }
            "user" => self.push_user(number, item, Some(member(item, "content")?)),
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
                let path = self.item_path();
                self.push_output(number, (tool, ToolOutcome::Ok), item, ("content", &path))
            }
            "system" | "developer" => self.push_instructions(number, member(item, "content")?),
            _ => None,
        }
    }

    fn responses_item(&mut self, number: usize, item: &[(String, &'b RawValue)]) -> Option<()> {
        let kind = member(item, "type").and_then(string);
        let role = member(item, "role").and_then(string);
        match (kind.as_deref(), role.as_deref()) {
            (Some(kind), _) if kind.ends_with("_output") => {
                let id = member(item, "call_id").and_then(string);
                let tool = id.and_then(|id| self.tools.get(&id).cloned());
                let path = self.item_path();
                let name = match kind {
                    "program_output" => "result",
                    _ => "output",
                };
                self.push_output(number, (tool, ToolOutcome::Ok), item, (name, &path))
            }
            // Tools that are added have the role of the developer.
            (Some(kind), None | Some("developer"))
                if kind.ends_with("_call") || SILENT_ITEMS.contains(&kind) =>
            {
                self.name_tool(item, "call_id", "name");
                self.push_silent(number, PartRole::Item)
            }
            // The id of an item that the server has needs no type.
            (None, None) if is_reference(item) => self.push_silent(number, PartRole::Item),
            // Items of types that are not known may have roles, too.
            (_, Some("user")) => self.push_user(number, item, Some(member(item, "content")?)),
            (_, Some("assistant")) => self.push_silent(number, PartRole::Assistant),
            (_, Some("system" | "developer")) => {
                self.push_instructions(number, member(item, "content")?)
            }
            (None | Some("message"), _) | (_, Some(_)) => None,
            (Some(kind), None) => {
                // The answer of the user to a question for approval may have a reason.
                let member = match kind {
                    "mcp_approval_response" => "reason",
                    _ => "content",
                };
                let path = self.item_path();
                let before = self.parts.len();
                self.push_output(number, (None, ToolOutcome::Ok), item, (member, &path))?;
                if self.parts[before].texts.is_empty() {
                    self.parts[before].role = PartRole::Item;
                }
                Some(())
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
        // System prompts are not judged, so their other strings are not counted.
        let mut reader = ContentReader {
            body: self.body,
            ..ContentReader::default()
        };
        let kind = (ContentKind::Content, DEPTH);
        let path = ContentPath::Root("system");
        reader.read(content, kind, &path, &mut self.instructions)
    }

    pub(super) fn push_silent(&mut self, item: usize, role: PartRole) -> Option<()> {
        self.parts.push(RequestPart {
            role,
            tool: None,
            outcome: ToolOutcome::Ok,
            texts: Vec::new(),
            item,
        });
        Some(())
    }

    /// Returns the path of a message or item of the history.
    pub(super) fn item_path(&self) -> ContentPath<'static> {
        ContentPath::Root(match self.api {
            ModelApi::OpenAiResponses => "input[]",
            ModelApi::Gemini => "contents[]",
            ModelApi::OpenAiCompletions | ModelApi::OllamaGenerate => "prompt",
            _ => "messages[]",
        })
    }

    /// Reads the result of a tool: the member `name` of the message, item or block at `path`.
    pub(super) fn push_output(
        &mut self,
        item: usize,
        (tool, outcome): (Option<String>, ToolOutcome),
        known: &[(String, &'b RawValue)],
        (name, path): (&str, &ContentPath<'_>),
    ) -> Option<()> {
        let mut texts = Vec::new();
        if let Some(content) = member(known, name) {
            let kind = (ContentKind::Content, DEPTH);
            self.content
                .read(content, kind, &path.member(name), &mut texts)?;
        }
        self.content.read_others(known, &[name], path, &mut texts)?;
        self.parts.push(RequestPart {
            role: PartRole::ToolOutput,
            tool,
            outcome,
            texts,
            item,
        });
        Some(())
    }

    /// Reads a message of the user and its content. In Messages it has the results of tools, too.
    fn push_user(
        &mut self,
        item: usize,
        message: &[(String, &'b RawValue)],
        content: Option<&'b RawValue>,
    ) -> Option<()> {
        let mut texts = Vec::new();
        let path = self.item_path();
        if let Some(content) = content {
            let path = path.member("content");
            let form = match elements(content) {
                Some(list) => {
                    let path = ContentPath::Element(&path);
                    let is_empty = list.is_empty();
                    for block in list {
                        self.user_block(item, block, &path, &mut texts)?;
                    }
                    ContentForm::List {
                        range: span(self.body, content),
                        is_empty,
                    }
                }
                None => {
                    texts.push(self.content.text(content)?);
                    ContentForm::Text
                }
            };
            self.items[item].content = Some(form);
        }
        self.content
            .read_others(message, &["content"], &path, &mut texts)?;
        self.push_texts(item, texts)
    }

    fn user_block(
        &mut self,
        item: usize,
        block: &'b RawValue,
        path: &ContentPath<'_>,
        texts: &mut Vec<RequestText>,
    ) -> Option<()> {
        let known = members(block)?;
        if has_other_spelling(&known, &["type"]) {
            return None;
        }
        let kind = member(&known, "type").and_then(string);
        if kind.is_none_or(|kind| !kind.ends_with("tool_result")) {
            let kind = (ContentKind::Content, DEPTH);
            return self.content.read(block, kind, path, texts);
        }
        let id = member(&known, "tool_use_id").and_then(string);
        let tool = id.and_then(|id| self.tools.get(&id).cloned());
        let is_error = member(&known, "is_error").is_some_and(|it| it.get() == "true");
        let outcome = outcome_of(is_error);
        self.push_output(item, (tool, outcome), &known, ("content", path))
    }

    /// Adds the texts of the user in one message, if there are any.
    pub(super) fn push_texts(&mut self, item: usize, texts: Vec<RequestText>) -> Option<()> {
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
}

pub(super) fn outcome_of(is_error: bool) -> ToolOutcome {
    match is_error {
        true => ToolOutcome::Error,
        false => ToolOutcome::Ok,
    }
}
