//! What a model is asked: messages and the request that carries them.
//!
//! Provider-neutral: how a provider writes them on the wire is the provider's business. Their serialised
//! form is that of sessions on disk.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::reply::{PartState, Reply};
use crate::Channel;

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The instructions of the application.
    System,
    /// The user, or the application in the user's name.
    User,
    /// The model.
    Assistant,
    /// The result of a tool.
    Tool,
}

/// One piece of a message. Closed: a provider that does not handle every kind does not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Written by the application, not by the one the message is from.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synthetic: bool,
    },
    /// Reasoning of the model, without what a provider may have signed it with.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A tool call that the model made.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// The input as the model wrote it.
        input: String,
    },
    /// What a tool gave back.
    ToolResult {
        /// The id of the call.
        call: String,
        /// The result, or what went wrong.
        output: String,
        /// Whether the tool failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

/// One message of a conversation.
///
/// # Example: what the user says, and what steers
/// ```
/// use ttsr::harness::{Content, Message, Request, Role};
/// let asked = Message::user("What time is it?");
/// let steered = Message::steering("Answer in one word.");
/// assert_eq!((asked.role, steered.role), (Role::User, Role::User));
/// assert!(matches!(steered.content[0], Content::Text { synthetic: true, .. }));
/// let request = Request::new("a-model", vec![Message::new(Role::System, "Be brief."), asked, steered]);
/// assert_eq!(request.messages[1].text(), "What time is it?");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Who it is from.
    pub role: Role,
    /// Its pieces, in order.
    pub content: Vec<Content>,
}

impl Message {
    /// A message of one text.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message::of(role, text.into(), false)
    }

    /// What the user wrote.
    pub fn user(text: impl Into<String>) -> Message {
        Message::new(Role::User, text)
    }

    /// What the application tells the model in the user's name, to steer it.
    pub fn steering(text: impl Into<String>) -> Message {
        Message::of(Role::User, text.into(), true)
    }

    /// The reply as the conversation keeps it: its text, reasoning and tool calls, in order. A call that
    /// must not run is left out; one without an id is given one, made of its part.
    ///
    /// # Example: an answer in the conversation
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Cancel, Hooks, Message, Processor, Request, Role, Script, Scripted, Settings, run};
    /// let mut provider = Scripted::new([Script::default().text("It is noon.").finish("stop")]);
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, Hooks::default(), Settings::default());
    /// let request = Request::new("a-model", vec![Message::user("What time is it?")]);
    /// let running = run(&mut processor, &mut provider, request, "msg_1", Cancel::default(), |_| {});
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let message = Message::reply(&runtime.block_on(running).reply);
    /// assert_eq!((message.role, &*message.text()), (Role::Assistant, "It is noon."));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn reply(reply: &Reply) -> Message {
        let parts = reply.parts().iter();
        let kept = parts.filter(|part| part.state != PartState::Aborted);
        let content = kept.map(|part| match part.channel {
            Channel::ToolInput => Content::ToolCall {
                call: part.call_id(),
                tool: part.tool.clone().unwrap_or_default(),
                input: part.text(),
            },
            Channel::Reasoning => Content::Reasoning { text: part.text() },
            _ => Content::Text {
                text: part.text(),
                synthetic: false,
            },
        });
        Message {
            role: Role::Assistant,
            content: content.collect(),
        }
    }

    /// Returns what a person wrote in the message, the application's own texts left out; `None` if nobody
    /// did.
    pub(super) fn written(&self) -> Option<String> {
        let is_user = self.role == Role::User;
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text {
                text,
                synthetic: false,
            } if is_user => Some(text.as_str()),
            _ => None,
        });
        texts.fold(None, |all: Option<String>, text| {
            Some(all.unwrap_or_default() + text)
        })
    }

    fn of(role: Role, text: String, synthetic: bool) -> Message {
        Message {
            role,
            content: vec![Content::Text { text, synthetic }],
        }
    }

    /// All of its text, joined.
    #[must_use]
    pub fn text(&self) -> String {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text { text, .. } => Some(text.as_str()),
            Content::Reasoning { .. } | Content::ToolCall { .. } | Content::ToolResult { .. } => {
                None
            }
        });
        texts.collect()
    }
}

/// A tool that the model may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// Its name.
    pub name: String,
    /// What it does, for the model.
    pub description: String,
    /// The JSON Schema of its input, an object.
    pub input: Value,
}

/// What a provider is sent.
///
/// # Example: what the provider gets
/// ```
/// use ttsr::harness::{Message, Provider, Request, Scripted};
/// let mut request = Request::new("a-model", vec![Message::user("What time is it?")]);
/// request.temperature = Some(200); // 0.2
/// request.max_tokens = Some(100);
/// let mut provider = Scripted::new([]);
/// drop(provider.send(&request));
/// assert_eq!(provider.requests(), [request]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The model, as the provider calls it. After a retry whose rule says so, the model of that rule, by
    /// the name that the rule has for it.
    pub model: String,
    /// The temperature, in thousandths; none: the provider's default.
    pub temperature: Option<u32>,
    /// Most tokens of the reply; none: the provider's default.
    pub max_tokens: Option<u32>,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// The tools that the model may call.
    pub tools: Vec<Tool>,
    /// Headers to send besides the provider's own.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// A request to that model.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Request {
        Request {
            model: model.into(),
            temperature: None,
            max_tokens: None,
            messages,
            tools: Vec::new(),
            headers: Vec::new(),
        }
    }
}
