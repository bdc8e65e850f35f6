//! A chat channel over lines of text, with one user.

use std::fmt;
use std::future::ready;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use super::channel::{
    ChannelAdapter, ChannelError, ChannelStatus, Constraints, Inbound, Inbox, Outbound, SendFuture,
    Typing,
};

const ID: &str = "console";

/// The only user.
const PEER: &str = "console";

/// A channel over a reader and a writer, such as those of a terminal. Each line is a message.
///
/// # Example: a line arrives
/// ```
/// use ttsr_agent::progress::{ChannelAdapter, Console};
/// let mut console = Console::new(&b"hello\n"[..], Vec::new());
/// let (inbox, mut messages) = tokio::sync::mpsc::unbounded_channel();
/// console.start(inbox)?;
/// assert_eq!(messages.blocking_recv().unwrap().text, "hello");
/// # Ok::<(), ttsr_agent::progress::ChannelError>(())
/// ```
pub struct Console {
    lines: Option<Box<dyn BufRead + Send>>,
    out: Box<dyn Write + Send>,
    is_running: Arc<AtomicBool>,
}

impl Console {
    /// Returns a console over this reader and writer.
    pub fn new(lines: impl BufRead + Send + 'static, out: impl Write + Send + 'static) -> Console {
        Console {
            lines: Some(Box::new(lines)),
            out: Box::new(out),
            is_running: Arc::default(),
        }
    }

    fn write(&mut self, text: &str) -> Result<(), ChannelError> {
        let written = self.out.write_all(text.as_bytes());
        let written = written.and_then(|()| self.out.flush());
        written.map_err(ChannelError::new)
    }
}

impl fmt::Debug for Console {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Console")
            .field("status", &self.status())
            .finish_non_exhaustive()
    }
}

impl ChannelAdapter for Console {
    fn id(&self) -> &str {
        ID
    }

    fn name(&self) -> &str {
        "Console"
    }

    fn constraints(&self) -> Constraints {
        Constraints {
            typing: Typing::Unsupported,
            can_edit: false,
        }
    }

    fn start(&mut self, inbox: Inbox) -> Result<(), ChannelError> {
        let lines = self.lines.take();
        let lines = lines.ok_or_else(|| ChannelError::new("the console was started before"))?;
        self.is_running.store(true, Ordering::Release);
        let is_running = Arc::clone(&self.is_running);
        let read = move || {
            for line in lines.lines() {
                let Ok(text) = line else { break };
                let message = Inbound {
                    channel: ID.to_owned(),
                    peer: PEER.to_owned(),
                    text,
                    id: None,
                };
                // A line that arrives after the stop is dropped.
                if !is_running.load(Ordering::Acquire) || inbox.send(message).is_err() {
                    break;
                }
            }
            is_running.store(false, Ordering::Release);
        };
        let thread = thread::Builder::new().name("console".to_owned());
        let thread = thread.spawn(read);
        thread.map(drop).map_err(ChannelError::new)
    }

    fn stop(&mut self) {
        self.is_running.store(false, Ordering::Release);
    }

    fn status(&self) -> ChannelStatus {
        match self.is_running.load(Ordering::Acquire) {
            true => ChannelStatus::Running,
            false => ChannelStatus::Stopped,
        }
    }

    fn send<'a>(&'a mut self, _: &'a str, message: Outbound) -> SendFuture<'a> {
        Box::pin(ready(self.write(&format!("{}\n", message.text))))
    }
}
