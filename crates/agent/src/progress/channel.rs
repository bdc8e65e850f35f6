//! The interface to a chat channel, with its required and optional capabilities.

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

use tokio::sync::mpsc;

/// A message from a user. Channel and peer identify the user, because several channels may share an inbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inbound {
    /// The [id](ChannelAdapter::id) of the channel.
    pub channel: String,
    /// The author, as the channel identifies them.
    pub peer: String,
    /// The text.
    pub text: String,
    /// The id of the message, for a reply to it.
    pub id: Option<String>,
}

/// Receives the messages that arrive on a channel.
pub type Inbox = mpsc::UnboundedSender<Inbound>;

/// A message to a user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbound {
    /// The text.
    pub text: String,
    /// The id of the message that it replies to.
    pub reply_to: Option<String>,
}

/// The state of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChannelStatus {
    /// It was not started, or was stopped.
    Stopped,
    /// It receives and sends messages.
    Running,
    /// It cannot work, for this reason.
    Failed(String),
}

/// The reason why a message could not be sent.
///
/// # Example: the text of an error
/// ```
/// use std::io::{Error, ErrorKind};
/// use ttsr_agent::progress::ChannelError;
/// let error = ChannelError::new(Error::from(ErrorKind::BrokenPipe));
/// assert_eq!(error.to_string(), "broken pipe");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelError(String);

impl ChannelError {
    /// Returns an error with that message.
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

/// The typing indicator of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Typing {
    /// The channel has none.
    Unsupported,
    /// It is shown for that time, and must be repeated.
    Expires(Duration),
    /// It is shown until it is stopped.
    UntilStopped,
}

/// The capabilities of a kind of channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Constraints {
    /// The typing indicator.
    pub typing: Typing,
    /// True if a sent message can be edited.
    pub can_edit: bool,
}

/// Telegram: the typing indicator is shown for five seconds.
pub const TELEGRAM: Constraints = Constraints {
    typing: Typing::Expires(Duration::from_secs(5)),
    can_edit: true,
};

/// Slack: bots have no typing indicator.
pub const SLACK: Constraints = Constraints {
    typing: Typing::Unsupported,
    can_edit: true,
};

/// WhatsApp: the typing indicator is shown until it is stopped; sent messages cannot be edited.
pub const WHATSAPP: Constraints = Constraints {
    typing: Typing::UntilStopped,
    can_edit: false,
};

/// A message that is being sent.
pub type SendFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ChannelError>> + Send + 'a>>;

/// A chat channel.
///
/// # Example: a channel that stores sent messages
/// ```
/// use std::future::ready;
/// use ttsr_agent::progress::{
///     ChannelAdapter, ChannelError, ChannelStatus, Constraints, Inbound, Inbox, Outbound, SendFuture,
///     Typing,
/// };
/// #[derive(Default)]
/// struct Stored {
///     inbox: Option<Inbox>,
///     sent: Vec<(String, String)>,
/// }
/// impl ChannelAdapter for Stored {
///     fn id(&self) -> &str {
///         "stored"
///     }
///     fn name(&self) -> &str {
///         "Stored messages"
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
///     fn send<'a>(&'a mut self, peer: &'a str, message: Outbound) -> SendFuture<'a> {
///         if self.inbox.is_none() {
///             return Box::pin(ready(Err(ChannelError::new("the channel is stopped"))));
///         }
///         self.sent.push((peer.to_owned(), message.text));
///         Box::pin(ready(Ok(())))
///     }
/// }
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let mut channel = Stored::default();
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
    /// Returns the channel's id, such as `telegram`.
    fn id(&self) -> &str;

    /// Returns the channel's name, for people.
    fn name(&self) -> &str;

    /// Returns the capabilities of its kind.
    fn constraints(&self) -> Constraints;

    /// Starts to deliver arriving messages to the inbox, without waiting for one.
    ///
    /// # Errors
    /// If the channel cannot be reached, or cannot be started again.
    fn start(&mut self, inbox: Inbox) -> Result<(), ChannelError>;

    /// Stops the delivery: messages that arrive later are not delivered.
    fn stop(&mut self);

    /// Returns the state of the channel.
    fn status(&self) -> ChannelStatus;

    /// Sends a message to that user. The future completes once the message is sent, with an error if it could not be.
    fn send<'a>(&'a mut self, peer: &'a str, message: Outbound) -> SendFuture<'a>;

    /// Shows the typing indicator; `None` if the channel has none, which is not an error.
    fn send_typing<'a>(&'a mut self, peer: &'a str) -> Option<SendFuture<'a>> {
        let _ = peer;
        None
    }

    /// Hides the typing indicator; `None` if the channel cannot or need not.
    fn stop_typing<'a>(&'a mut self, peer: &'a str) -> Option<SendFuture<'a>> {
        let _ = peer;
        None
    }
}
