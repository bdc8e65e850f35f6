//! What the user of a chat hears from an agent at work: notes, heartbeats, questions, and the reply.
//!
//! [`Prompting`] is one prompt without I/O and without a clock; [`prompt_streaming`] drives it over an
//! [`Agent`] and a [`ChannelAdapter`]. How an agent's server is reached is not known here.

mod channel;
mod console;
mod prompt;
mod router;

use serde::Deserialize;

pub use channel::{
    ChannelAdapter, ChannelError, ChannelStatus, Constraints, Inbound, Inbox, Outbound, SLACK,
    Sending, TELEGRAM, Typing, WHATSAPP,
};
pub use console::Console;
pub use prompt::{AgentEvent, AgentPart, Do, EMPTY, PromptError, Prompting, ToolStatus};
pub use router::{Agent, AgentEvents, Asking, Router, prompt_streaming, respond};

/// The settings of a chat's router, as its configuration writes them.
///
/// # Example: a slower heartbeat
/// ```
/// use ttsr::harness::progress::RouterSettings;
/// let settings = RouterSettings::from_json(r#"{"progress": {"heartbeatMs": 90000}}"#).unwrap();
/// assert_eq!(settings.progress.heartbeat_ms, 90_000);
/// assert_eq!(settings.timeout_ms, 300_000);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouterSettings {
    /// Longest time of a reply, in milliseconds. Default 300,000, at least 1,000.
    pub timeout_ms: u64,
    /// What is heard meanwhile.
    pub progress: ProgressSettings,
}

/// What is heard while a model works.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ProgressSettings {
    /// Whether there are notes, heartbeats and questions at all. Default true.
    pub enabled: bool,
    /// Shortest time between two notes, in milliseconds. Default 5,000, at least 1,000.
    pub tool_throttle_ms: u64,
    /// Silence before a heartbeat, in milliseconds. Default 60,000, at least 10,000.
    pub heartbeat_ms: u64,
}

impl Default for RouterSettings {
    fn default() -> RouterSettings {
        RouterSettings {
            timeout_ms: 300_000,
            progress: ProgressSettings::default(),
        }
    }
}

impl Default for ProgressSettings {
    fn default() -> ProgressSettings {
        ProgressSettings {
            enabled: true,
            tool_throttle_ms: 5_000,
            heartbeat_ms: 60_000,
        }
    }
}

impl RouterSettings {
    /// Reads the settings; what is not there has its default.
    ///
    /// # Errors
    /// If it is not such an object, or a value is below its least; the message names both.
    pub fn from_json(json: &str) -> Result<RouterSettings, String> {
        let settings: RouterSettings =
            serde_json::from_str(json).map_err(|error| error.to_string())?;
        let progress = &settings.progress;
        let bounds = [
            ("timeoutMs", settings.timeout_ms, 1_000),
            ("progress.toolThrottleMs", progress.tool_throttle_ms, 1_000),
            ("progress.heartbeatMs", progress.heartbeat_ms, 10_000),
        ];
        match bounds.into_iter().find(|(_, value, least)| value < least) {
            Some((name, value, least)) => Err(format!("`{name}` is {value}, the least is {least}")),
            None => Ok(settings),
        }
    }
}
