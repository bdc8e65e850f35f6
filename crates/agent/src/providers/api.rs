//! What tells the providers' APIs apart, besides their bodies.

use hyper::header::{HeaderName, HeaderValue};

use super::key::Key;

/// An API that an [`Endpoint`](super::Endpoint) can speak.
///
/// # Example: what an API is known by
/// ```
/// use ttsr_agent::providers::Api;
/// let api = Api::ALL.into_iter().find(|api| api.name() == "anthropic-messages").unwrap();
/// assert_eq!(api, Api::AnthropicMessages);
/// assert_eq!(api.base(), "https://api.anthropic.com/v1");
/// assert_eq!(api.key_variable(), "ANTHROPIC_API_KEY");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Api {
    /// OpenAI's Chat Completions, and the many servers that imitate it.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    AnthropicMessages,
}

impl Api {
    /// All of them.
    pub const ALL: [Api; 3] = [
        Api::OpenAiChat,
        Api::OpenAiResponses,
        Api::AnthropicMessages,
    ];

    /// The name used on the command line and in outputs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Api::OpenAiChat => "openai-chat",
            Api::OpenAiResponses => "openai-responses",
            Api::AnthropicMessages => "anthropic-messages",
        }
    }

    /// Where the company behind the API offers it.
    #[must_use]
    pub fn base(self) -> &'static str {
        match self {
            Api::OpenAiChat | Api::OpenAiResponses => "https://api.openai.com/v1",
            Api::AnthropicMessages => "https://api.anthropic.com/v1",
        }
    }

    /// The environment variable that the company's own tools take the key from.
    #[must_use]
    pub fn key_variable(self) -> &'static str {
        match self {
            Api::OpenAiChat | Api::OpenAiResponses => "OPENAI_API_KEY",
            Api::AnthropicMessages => "ANTHROPIC_API_KEY",
        }
    }

    /// What follows the base.
    pub(super) fn path(self) -> &'static str {
        match self {
            Api::OpenAiChat => "/chat/completions",
            Api::OpenAiResponses => "/responses",
            Api::AnthropicMessages => "/messages",
        }
    }

    /// The header that the API wants of everyone, if there is one.
    pub(super) fn header(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            Api::OpenAiChat | Api::OpenAiResponses => None,
            Api::AnthropicMessages => Some((
                HeaderName::from_static("anthropic-version"),
                HeaderValue::from_static("2023-06-01"),
            )),
        }
    }

    /// The header that carries the key.
    pub(super) fn authorization(self, key: &Key) -> (HeaderName, HeaderValue) {
        match self {
            Api::OpenAiChat | Api::OpenAiResponses => (hyper::header::AUTHORIZATION, key.bearer()),
            Api::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.plain()),
        }
    }
}
