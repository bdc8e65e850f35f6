//! What a model is asked: messages and the request that carries them.
//!
//! Provider-neutral: how a provider writes them on the wire is the provider's business.

/// Who a message is from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
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

/// One piece of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
        /// Written by the application, not by the one the message is from.
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
        is_error: bool,
    },
}

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
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

/// What a provider is sent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The model, as the provider calls it. After a retry whose rule says so, the model of that rule, by
    /// the name that the rule has for it.
    pub model: String,
    /// The temperature, in thousandths; none: the provider's default.
    pub temperature: Option<u32>,
    /// The conversation so far, oldest first.
    pub messages: Vec<Message>,
    /// Headers to send besides the provider's own.
    pub headers: Vec<(String, String)>,
}

impl Request {
    /// A request to that model.
    pub fn new(model: impl Into<String>, messages: Vec<Message>) -> Request {
        Request {
            model: model.into(),
            temperature: None,
            messages,
            headers: Vec::new(),
        }
    }
}
