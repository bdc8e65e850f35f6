//! Progress of an agent in a chat: notes, heartbeats, questions, and the reply.
//!
//! [`PendingPrompt`] is the state machine of one prompt, without I/O and without a clock; [`prompt_streaming`] drives it
//! with an [`Agent`] and a [`ChannelAdapter`]. This module does not know how the agent's server is reached.

mod channel;
mod console;
mod prompt;
mod router;

use std::error::Error;
use std::fmt;

use serde::Deserialize;

pub use channel::{
    ChannelAdapter, ChannelError, ChannelStatus, Constraints, Inbound, Inbox, Outbound, SLACK,
    SendFuture, TELEGRAM, Typing, WHATSAPP,
};
pub use console::Console;
pub use prompt::{
    AgentEvent, AgentPart, CANCELLED, CLOSED_ELSEWHERE, ChatAction, EMPTY, PendingPrompt,
    PromptError, TRUNCATED, ToolStatus,
};
pub use router::{
    Agent, AgentEvents, AgentFuture, NOTHING_TO_CANCEL, Router, prompt_streaming, respond,
};

/// The settings of a chat router, in the form of its configuration. Every value is at least its minimum.
///
/// # Example: a slower heartbeat
/// ```
/// use ttsr_agent::progress::{ProgressSettings, RouterSettings};
/// let settings = RouterSettings::from_json(r#"{"progress": {"heartbeatMs": 90000}}"#).unwrap();
/// assert_eq!(settings.progress().heartbeat_ms(), 90_000);
/// assert_eq!(settings.timeout_ms(), 300_000);
///
/// let progress = ProgressSettings::default().with_heartbeat_ms(90_000)?;
/// assert_eq!(RouterSettings::default().with_progress(progress), settings);
/// let error = RouterSettings::default().with_timeout_ms(999).unwrap_err();
/// assert_eq!(error.to_string(), "`timeoutMs` is 999, the least is 1000");
/// # Ok::<(), ttsr_agent::progress::BelowMinimum>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "RawRouter")]
pub struct RouterSettings {
    timeout_ms: u64,
    progress: ProgressSettings,
}

/// The settings of the messages that a user receives while the model works.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "ProgressConfigFile")]
pub struct ProgressSettings {
    enabled: bool,
    tool_throttle_ms: u64,
    heartbeat_ms: u64,
}

/// The error for a setting below its minimum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BelowMinimum {
    setting: &'static str,
    value: u64,
    least: u64,
}

impl fmt::Display for BelowMinimum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let BelowMinimum {
            setting,
            value,
            least,
        } = self;
        write!(f, "`{setting}` is {value}, the least is {least}")
    }
}

impl Error for BelowMinimum {}

/// The settings before their minimums are checked.
#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawRouter {
    timeout_ms: u64,
    progress: ProgressSettings,
}

#[derive(Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ProgressConfigFile {
    enabled: bool,
    tool_throttle_ms: u64,
    heartbeat_ms: u64,
}

impl Default for RawRouter {
    fn default() -> RawRouter {
        RawRouter {
            timeout_ms: 300_000,
            progress: ProgressSettings::default(),
        }
    }
}

impl Default for ProgressConfigFile {
    fn default() -> ProgressConfigFile {
        ProgressConfigFile {
            enabled: true,
            tool_throttle_ms: 5_000,
            heartbeat_ms: 60_000,
        }
    }
}

impl TryFrom<RawRouter> for RouterSettings {
    type Error = BelowMinimum;

    fn try_from(raw: RawRouter) -> Result<RouterSettings, BelowMinimum> {
        Ok(RouterSettings {
            timeout_ms: at_least(1_000, "timeoutMs", raw.timeout_ms)?,
            progress: raw.progress,
        })
    }
}

impl TryFrom<ProgressConfigFile> for ProgressSettings {
    type Error = BelowMinimum;

    fn try_from(raw: ProgressConfigFile) -> Result<ProgressSettings, BelowMinimum> {
        let ProgressConfigFile {
            enabled,
            tool_throttle_ms,
            heartbeat_ms,
        } = raw;
        Ok(ProgressSettings {
            enabled,
            tool_throttle_ms: at_least(1_000, "progress.toolThrottleMs", tool_throttle_ms)?,
            heartbeat_ms: at_least(10_000, "progress.heartbeatMs", heartbeat_ms)?,
        })
    }
}

fn at_least(least: u64, setting: &'static str, value: u64) -> Result<u64, BelowMinimum> {
    match value < least {
        true => Err(BelowMinimum {
            setting,
            value,
            least,
        }),
        false => Ok(value),
    }
}

impl Default for RouterSettings {
    fn default() -> RouterSettings {
        RawRouter::default()
            .try_into()
            .expect("defaults are in range")
    }
}

impl Default for ProgressSettings {
    fn default() -> ProgressSettings {
        ProgressConfigFile::default()
            .try_into()
            .expect("defaults are in range")
    }
}

impl RouterSettings {
    /// Parses the settings; a missing setting has its default.
    ///
    /// # Errors
    /// If the JSON is not such an object, or a value is below its minimum; the message names both.
    pub fn from_json(json: &str) -> Result<RouterSettings, String> {
        serde_json::from_str(json).map_err(|error| error.to_string())
    }

    /// Sets the time limit of a reply.
    ///
    /// # Errors
    /// If it is below 1,000 ms.
    pub fn with_timeout_ms(self, timeout_ms: u64) -> Result<RouterSettings, BelowMinimum> {
        let progress = self.progress;
        RawRouter {
            timeout_ms,
            progress,
        }
        .try_into()
    }

    /// Sets the progress settings.
    #[must_use]
    pub fn with_progress(self, progress: ProgressSettings) -> RouterSettings {
        RouterSettings { progress, ..self }
    }

    /// Returns the time limit of a reply, in milliseconds. Default 300,000, at least 1,000.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout_ms
    }

    /// Returns the progress settings.
    #[must_use]
    pub fn progress(&self) -> &ProgressSettings {
        &self.progress
    }
}

impl ProgressSettings {
    /// Enables or disables notes, heartbeats and questions.
    #[must_use]
    pub fn with_enabled(self, enabled: bool) -> ProgressSettings {
        ProgressSettings { enabled, ..self }
    }

    /// Sets the shortest time between two notes.
    ///
    /// # Errors
    /// If it is below 1,000 ms.
    pub fn with_tool_throttle_ms(
        self,
        tool_throttle_ms: u64,
    ) -> Result<ProgressSettings, BelowMinimum> {
        ProgressConfigFile {
            tool_throttle_ms,
            ..self.into()
        }
        .try_into()
    }

    /// Sets the silence before a heartbeat.
    ///
    /// # Errors
    /// If it is below 10,000 ms.
    pub fn with_heartbeat_ms(self, heartbeat_ms: u64) -> Result<ProgressSettings, BelowMinimum> {
        ProgressConfigFile {
            heartbeat_ms,
            ..self.into()
        }
        .try_into()
    }

    /// Returns true if notes, heartbeats and questions are enabled. Default true.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.enabled
    }

    /// Returns the shortest time between two notes, in milliseconds. Default 5,000, at least 1,000.
    #[must_use]
    pub fn tool_throttle_ms(&self) -> u64 {
        self.tool_throttle_ms
    }

    /// Returns the silence before a heartbeat, in milliseconds. Default 60,000, at least 10,000.
    #[must_use]
    pub fn heartbeat_ms(&self) -> u64 {
        self.heartbeat_ms
    }
}

impl From<ProgressSettings> for ProgressConfigFile {
    fn from(settings: ProgressSettings) -> ProgressConfigFile {
        let ProgressSettings {
            enabled,
            tool_throttle_ms,
            heartbeat_ms,
        } = settings;
        ProgressConfigFile {
            enabled,
            tool_throttle_ms,
            heartbeat_ms,
        }
    }
}
