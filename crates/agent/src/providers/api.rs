//! The properties of each API, except its request bodies.

use hyper::header::{HeaderName, HeaderValue};

use super::key::ApiKey;

/// An API that an [`Endpoint`](super::Endpoint) can use.
///
/// # Example: the properties of an API
/// ```
/// use ttsr_agent::providers::ProviderApi;
/// let api = ProviderApi::ALL.into_iter().find(|api| api.name() == "anthropic-messages").unwrap();
/// assert_eq!(api, ProviderApi::AnthropicMessages);
/// assert_eq!(api.base(), "https://api.anthropic.com/v1");
/// assert_eq!(api.key_variable(), "ANTHROPIC_API_KEY");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProviderApi {
    /// OpenAI's Chat Completions, and compatible servers.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    AnthropicMessages,
}

impl ProviderApi {
    /// All APIs.
    pub const ALL: [ProviderApi; 3] = [
        ProviderApi::OpenAiChat,
        ProviderApi::OpenAiResponses,
        ProviderApi::AnthropicMessages,
    ];

    /// Returns the name used on the command line and in output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ProviderApi::OpenAiChat => "openai-chat",
            ProviderApi::OpenAiResponses => "openai-responses",
            ProviderApi::AnthropicMessages => "anthropic-messages",
        }
    }

    /// Returns the base URL of the API's vendor.
    #[must_use]
    pub fn base(self) -> &'static str {
        match self {
            ProviderApi::OpenAiChat | ProviderApi::OpenAiResponses => "https://api.openai.com/v1",
            ProviderApi::AnthropicMessages => "https://api.anthropic.com/v1",
        }
    }

    /// Returns the environment variable from which the vendor's own tools read the key.
    #[must_use]
    pub fn key_variable(self) -> &'static str {
        match self {
            ProviderApi::OpenAiChat | ProviderApi::OpenAiResponses => "OPENAI_API_KEY",
            ProviderApi::AnthropicMessages => "ANTHROPIC_API_KEY",
        }
    }

    /// Returns the path after the base URL.
    pub(super) fn path(self) -> &'static str {
        match self {
            ProviderApi::OpenAiChat => "/chat/completions",
            ProviderApi::OpenAiResponses => "/responses",
            ProviderApi::AnthropicMessages => "/messages",
        }
    }

    /// Returns the header that the API requires, if there is one.
    pub(super) fn header(self) -> Option<(HeaderName, HeaderValue)> {
        match self {
            ProviderApi::OpenAiChat | ProviderApi::OpenAiResponses => None,
            ProviderApi::AnthropicMessages => Some((
                HeaderName::from_static("anthropic-version"),
                HeaderValue::from_static("2023-06-01"),
            )),
        }
    }

    /// Returns the header with the key.
    pub(super) fn authorization(self, key: &ApiKey) -> (HeaderName, HeaderValue) {
        match self {
            ProviderApi::OpenAiChat | ProviderApi::OpenAiResponses => {
                (hyper::header::AUTHORIZATION, key.bearer())
            }
            ProviderApi::AnthropicMessages => (HeaderName::from_static("x-api-key"), key.plain()),
        }
    }
}
