//! Messages and requests, independent of any provider's wire format. The serialized form of messages is that of the
//! session store.

use serde::{Deserialize, Serialize};

use serde_json::Value;

use super::reply::{PartState, Reply};
use crate::Channel;

/// The author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The instructions of the application.
    System,
    /// The user, or the application on behalf of the user.
    User,
    /// The model.
    Assistant,
    /// A tool, with its result.
    Tool,
}

impl Role {
    /// Returns the name used in every output: `system`, `user`, `assistant` or `tool`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Role::System => "system",
            Role::User => "user",
            Role::Assistant => "assistant",
            Role::Tool => "tool",
        }
    }
}

/// A piece of a message. The enum is exhaustive, so that a provider that does not handle every kind does not compile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// True if the application wrote the text and not the author of the message.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        synthetic: bool,
    },
    /// An image of the user. Rules read no images: an image is sent unscanned, with the text inside it. The providers of
    /// `ttsr-agent` send images of messages by [`Role::User`] and [`Role::Tool`] and refuse a request with others.
    Image {
        /// The media type, such as `image/png`. Each provider accepts types of its own.
        media_type: String,
        /// The bytes of the file in base64 (RFC 4648, section 4, with padding), as they are sent: without line breaks
        /// and without the head of a `data:` URL.
        data: String,
    },
    /// Reasoning of the model, without a provider's signature.
    Reasoning {
        /// The text.
        text: String,
    },
    /// A tool call of the model.
    ToolCall {
        /// The id of the call.
        call: String,
        /// The tool's name.
        tool: String,
        /// The input as the model wrote it.
        input: String,
    },
    /// The result of a tool call.
    ToolResult {
        /// The id of the call.
        call: String,
        /// The output, or the error message.
        output: String,
        /// True if the tool failed.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        is_error: bool,
    },
}

impl Content {
    /// Returns the name of the kind, the `type` of the serialized form, such as `tool-call`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Content::Text { .. } => "text",
            Content::Image { .. } => "image",
            Content::Reasoning { .. } => "reasoning",
            Content::ToolCall { .. } => "tool-call",
            Content::ToolResult { .. } => "tool-result",
        }
    }
}

/// A message of a conversation.
///
/// # Example: a user's message and a steering message
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
    /// The author.
    pub role: Role,
    /// The pieces, in order.
    pub content: Vec<Content>,
}

impl Message {
    /// Returns a message of one text.
    pub fn new(role: Role, text: impl Into<String>) -> Message {
        Message::with_role(role, text.into(), false)
    }

    /// Returns a message that the user wrote.
    pub fn user(text: impl Into<String>) -> Message {
        Message::new(Role::User, text)
    }

    /// Returns a message that the application writes on behalf of the user, to steer the model.
    pub fn steering(text: impl Into<String>) -> Message {
        Message::with_role(Role::User, text.into(), true)
    }

    /// Returns the message with an image after its other content. `data` is the file in base64: see [`Content::Image`].
    ///
    /// # Example: a question about an image
    /// ```
    /// use ttsr::harness::{Content, Message};
    /// let asked = Message::user("What does it show?").with_image("image/png", "iVBORw0KGgo=");
    /// let (media_type, data) = ("image/png".to_owned(), "iVBORw0KGgo=".to_owned());
    /// assert_eq!(asked.content[1], Content::Image { media_type, data });
    /// assert_eq!(asked.text(), "What does it show?", "an image has no text for rules to read");
    /// ```
    #[must_use]
    pub fn with_image(mut self, media_type: impl Into<String>, data: impl Into<String>) -> Message {
        self.content.push(Content::Image {
            media_type: media_type.into(),
            data: data.into(),
        });
        self
    }

    /// Returns the message that keeps a reply in the conversation: its text, reasoning and tool calls, in order.
    /// Aborted calls are left out, and so is the output of tools that the provider ran. A call without an id is given
    /// one, made from its part's id.
    ///
    /// # Example: an answer in the conversation
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{
    ///     Cancel, Hooks, Message, Processor, Request, Role, Scripted, ScriptedReply, Settings, run,
    /// };
    /// let mut provider = Scripted::new([ScriptedReply::default().text("It is noon.").finish("stop")]);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
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
        let kept = parts
            .filter(|part| part.state != PartState::Aborted && part.channel != Channel::ToolOutput);
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

    /// Returns the text of a user's message, without the application's own texts; `None` if a person wrote none.
    pub(super) fn user_text(&self) -> Option<String> {
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

    fn with_role(role: Role, text: String, synthetic: bool) -> Message {
        Message {
            role,
            content: vec![Content::Text { text, synthetic }],
        }
    }

    /// Returns all texts of the message, joined.
    #[must_use]
    pub fn text(&self) -> String {
        self.texts().concat()
    }

    /// Returns its texts, in order.
    pub(super) fn texts(&self) -> Vec<&str> {
        let texts = self.content.iter().filter_map(|content| match content {
            Content::Text { text, .. } => Some(text.as_str()),
            Content::Image { .. }
            | Content::Reasoning { .. }
            | Content::ToolCall { .. }
            | Content::ToolResult { .. } => None,
        });
        texts.collect()
    }
}

/// A tool offered to the model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// The tool's name.
    pub name: String,
    /// The description for the model.
    pub description: String,
    /// The JSON Schema of the input, an object.
    pub input: Value,
}

/// A request to a provider.
///
/// # Example: the provider receives the request
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
    /// The provider's name for the model. After a retry that changes the model, the name that the rule gives.
    pub model: String,
    /// The temperature in thousandths; `None` for the provider's default.
    pub temperature: Option<u32>,
    /// The most tokens of the reply; `None` for the provider's default.
    pub max_tokens: Option<u32>,
    /// The conversation, oldest message first.
    pub messages: Vec<Message>,
    /// The tools offered to the model.
    pub tools: Vec<Tool>,
    /// Headers to send in addition to the provider's own.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// Returns a request to a model.
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
