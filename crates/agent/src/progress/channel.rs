//! The seam to a chat: what a channel must be able to do, and what it may lack.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

/// A message from a user. Users are told apart by channel and peer: an inbox may be that of several channels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// The [id](ChannelAdapter::id) of the channel that it came over.
    pub channel: String,
    /// Who wrote it, as the channel names them.
    pub peer: String,
    /// What they wrote.
    pub text: String,
    /// The message's id, for a reply to it.
    pub id: Option<String>,
}

/// Where a channel puts messages that arrive.
pub type Inbox = mpsc::UnboundedSender<Inbound>;

/// A message to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// What it says.
    pub text: String,
    /// The message that it replies to.
    pub reply_to: Option<String>,
}

/// Whether a channel is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelStatus {
    /// It was not started, or was stopped.
    Stopped,
    /// Messages come and go.
    Running,
    /// It cannot work.
    Failed(String),
}

/// Why a message did not go out.
///
/// # Example: why, in words
/// ```
/// use std::io::{Error, ErrorKind};
/// use ttsr_agent::progress::ChannelError;
/// let error = ChannelError::new(Error::from(ErrorKind::BrokenPipe));
/// assert_eq!(error.to_string(), "broken pipe");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelError(String);

impl ChannelError {
    /// An error with that message.
    pub fn new(message: impl fmt::Display) -> ChannelError {
        ChannelError(message.to_string())
    }
}

impl fmt::Display for ChannelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for ChannelError {}

/// How a channel shows that somebody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Typing {
    /// Not at all.
    Unsupported,
    /// For that long, unless it is said again.
    Expires(Duration),
    /// Until it is told that nobody does.
    UntilStopped,
}

/// What the kind of a channel lets one do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraints {
    /// How it shows that somebody writes.
    pub typing: Typing,
    /// Whether a message that was sent can be changed.
    pub can_edit: bool,
}

/// Telegram: typing is shown for five seconds.
pub const TELEGRAM: Constraints = Constraints {
    typing: Typing::Expires(Duration::from_secs(5)),
    can_edit: true,
};

/// Slack: bots cannot type.
pub const SLACK: Constraints = Constraints {
    typing: Typing::Unsupported,
    can_edit: true,
};

/// WhatsApp: typing is shown until it is stopped; what was sent stays as it is.
pub const WHATSAPP: Constraints = Constraints {
    typing: Typing::UntilStopped,
    can_edit: false,
};

/// A message on its way.
pub type Sending<'a> = Pin<Box<dyn Future<Output = Result<(), ChannelError>> + Send + 'a>>;

/// A chat.
///
/// # Example: a channel that keeps what it was sent
/// ```
/// use std::future::ready;
/// use ttsr_agent::progress::{
///     ChannelAdapter, ChannelError, ChannelStatus, Constraints, Inbound, Inbox, Outbound, Sending,
///     Typing,
/// };
/// #[derive(Default)]
/// struct Kept {
///     inbox: Option<Inbox>,
///     sent: Vec<(String, String)>,
/// }
/// impl ChannelAdapter for Kept {
///     fn id(&self) -> &str {
///         "kept"
///     }
///     fn name(&self) -> &str {
///         "Kept messages"
///     }
///     fn constraints(&self) -> Constraints {
///         Constraints { typing: Typing::Unsupported, can_edit: false }
///     }
///     fn start(&mut self, inbox: Inbox) -> Result<(), ChannelError> {
///         self.inbox = Some(inbox);
///         Ok(())
///     }
///     fn stop(&mut self) {
///         self.inbox = None;
///     }
///     fn status(&self) -> ChannelStatus {
///         match self.inbox {
///             Some(_) => ChannelStatus::Running,
///             None => ChannelStatus::Stopped,
///         }
///     }
///     fn send<'a>(&'a mut self, peer: &'a str, message: Outbound) -> Sending<'a> {
///         if self.inbox.is_none() {
///             return Box::pin(ready(Err(ChannelError::new("the channel is stopped"))));
///         }
///         self.sent.push((peer.to_owned(), message.text));
///         Box::pin(ready(Ok(())))
///     }
/// }
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut channel = Kept::default();
/// let hello = Outbound { text: "Hello.".into(), reply_to: None };
/// assert!(runtime.block_on(channel.send("alice", hello.clone())).is_err());
/// let (inbox, _messages) = tokio::sync::mpsc::unbounded_channel();
/// channel.start(inbox)?;
/// assert_eq!(channel.status(), ChannelStatus::Running);
/// runtime.block_on(channel.send("alice", hello))?;
/// assert_eq!(channel.sent, [("alice".into(), "Hello.".into())]);
/// assert!(channel.send_typing("alice").is_none());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait ChannelAdapter: Send {
    /// The channel's id, such as `telegram`.
    fn id(&self) -> &str;

    /// Its name, for people.
    fn name(&self) -> &str;

    /// What its kind lets one do.
    fn constraints(&self) -> Constraints;

    /// Begins to put messages that arrive into the inbox. Does not wait for any.
    ///
    /// # Errors
    /// If the channel cannot be reached, or cannot be started again.
    fn start(&mut self, inbox: Inbox) -> Result<(), ChannelError>;

    /// Ends that: what arrives later is not put there.
    fn stop(&mut self);

    /// Whether it is there.
    fn status(&self) -> ChannelStatus;

    /// Sends a message to that user. Its future ends once the message is on its way, with an error if it could
    /// not be sent.
    fn send<'a>(&'a mut self, peer: &'a str, message: Outbound) -> Sending<'a>;

    /// Shows that somebody writes; none where the channel cannot, which is silently skipped.
    fn send_typing<'a>(&'a mut self, peer: &'a str) -> Option<Sending<'a>> {
        let _ = peer;
        None
    }

    /// Shows that nobody writes any more; none where the channel cannot or need not.
    fn stop_typing<'a>(&'a mut self, peer: &'a str) -> Option<Sending<'a>> {
        let _ = peer;
        None
    }
}
