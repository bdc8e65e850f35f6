//! The log of a proxy: one JSON object on each line, without text of requests and replies.

use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use ttsr::DecisionRecord;

/// A line of the log of a proxy.
///
/// No member has text of a request or of a reply, and no key. Names of tools and paths of arguments are names that the
/// model or the client chose.
///
/// # Example: a line
/// ```
/// use ttsr_proxy::{ProxyLogLine, ProxyLogEvent};
/// let line = r#"{"proxy":1,"at":1767225600000,"request":4,"event":"refused","reason":"no server"}"#;
/// let line: ProxyLogLine = serde_json::from_str(line)?;
/// assert_eq!(line.request, 4);
/// assert!(matches!(line.event, ProxyLogEvent::Refused { reason } if reason == "no server"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProxyLogLine {
    /// The version of the format, which is 1.
    #[serde(rename = "proxy")]
    pub version: u32,
    /// The time in milliseconds since 1970-01-01 UTC.
    pub at: u64,
    /// The number of the request since the start of the proxy, from 1. Requests that the pages `/healthz` and `/metrics`
    /// answer have none.
    pub request: u64,
    /// The event.
    #[serde(flatten)]
    pub event: ProxyLogEvent,
}

/// An event in the log of a proxy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ProxyLogEvent {
    /// A rule or a limit decided.
    Decision {
        /// The full id of the rule.
        #[serde(skip_serializing_if = "Option::is_none")]
        rule: Option<String>,
        /// The name of the limit, if no rule decided.
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<String>,
        /// The name of the action.
        action: String,
        /// The reason why the policy suppresses the action.
        #[serde(skip_serializing_if = "Option::is_none")]
        suppression: Option<String>,
        /// The name of the channel.
        #[serde(skip_serializing_if = "Option::is_none")]
        channel: Option<String>,
        /// The name of the tool.
        #[serde(skip_serializing_if = "Option::is_none")]
        tool: Option<String>,
        /// The path of the argument.
        #[serde(skip_serializing_if = "Option::is_none")]
        arg: Option<String>,
        /// The start of the match, in bytes of its part.
        #[serde(skip_serializing_if = "Option::is_none")]
        start: Option<u64>,
        /// The end of the match, in bytes of its part.
        end: u64,
    },
    /// A judged reply has ended.
    Reply {
        /// The API, such as `anthropic-messages`.
        api: String,
        /// True if it was streamed.
        streamed: bool,
        /// True if it was stopped.
        stopped: bool,
        /// The full id of the rule that stopped it.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// True if it could not be read.
        unreadable: bool,
        /// Number of redact decisions.
        redactions: u64,
        /// Number of warnings.
        warnings: u64,
        /// Number of times that the request was sent again.
        #[serde(default)]
        retries: u64,
        /// Tokens of the request, in the sum of all attempts. Of an attempt that was cut these are the tokens that the
        /// server had told until then.
        #[serde(default)]
        input_tokens: u64,
        /// Tokens of the reply, in the sum of all attempts.
        #[serde(default)]
        output_tokens: u64,
        /// Bytes that no reader knows, by their path in the reply.
        unscanned: Vec<UnscannedPath>,
        /// The time from the request to the end of the reply, in milliseconds.
        ms: u64,
    },
    /// A rule stopped the request, which was not sent.
    RequestStopped {
        /// The full id of the rule, unless the decision was on an earlier request that had the same text.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// New messages of the request have strings that no reader knows. They were sent without being judged.
    RequestUnscanned {
        /// Their bytes, by their path in the request.
        unscanned: Vec<UnscannedPath>,
    },
    /// The session of the request or of its reply could not be loaded or written.
    SessionLost {
        /// The reason.
        reason: String,
    },
    /// The bodies in progress had as many bytes as the proxy may store: the request or the reply was refused, or the stream
    /// was stopped.
    BufferFull,
    /// A response that no rule reads was passed on.
    Passed {
        /// The status of the response.
        status: u16,
    },
    /// The proxy answered the request itself.
    Refused {
        /// The reason.
        reason: String,
    },
    /// The server did not answer, or not in a form that is passed on.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// Strings of a request or reply that no reader knows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnscannedPath {
    /// The path in the request, such as `messages[].content[].sound`, or in the reply, such as `choices[].delta.sound`,
    /// or the kind of the damage.
    pub path: String,
    /// Number of bytes.
    pub bytes: u64,
}

impl ProxyLogEvent {
    /// Returns the event of a decision, without its message and without the text that matched.
    pub(crate) fn from_decision(decision: &DecisionRecord) -> ProxyLogEvent {
        ProxyLogEvent::Decision {
            rule: decision.rule.clone(),
            limit: decision.limit.clone(),
            action: decision.action.name().to_owned(),
            suppression: decision.suppression.map(|it| it.name().to_owned()),
            channel: decision.channel.map(|it| it.name().to_owned()),
            tool: decision.tool.clone(),
            arg: decision.arg.clone(),
            start: decision.start,
            end: decision.end,
        }
    }
}

/// The destination of the log of a proxy. Copies of it write to the same place.
#[derive(Clone)]
pub struct EventLog(Arc<Mutex<LogState>>);

type FailureReport = Box<dyn FnOnce(&io::Error) + Send>;

struct LogState {
    to: Box<dyn Write + Send>,
    /// True if the last line may have been written in part.
    is_torn: bool,
    /// Receives the first error.
    on_failure: Option<FailureReport>,
}

impl EventLog {
    /// Returns a log that appends to a file, which is created if it is missing. On Unix only its owner may read a new one,
    /// and a file that was removed or renamed since, such as by a program that rotates logs, is created again.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn append_to(path: &Path) -> io::Result<EventLog> {
        Ok(EventLog::new(AppendedFile::open(path)?))
    }

    /// Returns a log that gives the writer each line as a whole. A line that cannot be written is lost and counted: a full disk
    /// must not stop requests.
    #[must_use]
    pub fn new(to: impl Write + Send + 'static) -> EventLog {
        EventLog(Arc::new(Mutex::new(LogState {
            to: Box::new(to),
            is_torn: false,
            on_failure: None,
        })))
    }

    /// Sets the function that receives the first error of the writer.
    #[must_use]
    pub fn on_failure(self, report: impl FnOnce(&io::Error) + Send + 'static) -> EventLog {
        self.state().on_failure = Some(Box::new(report));
        self
    }

    fn state(&self) -> MutexGuard<'_, LogState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes a line. Returns false if it is lost.
    pub(crate) fn write(&self, request: u64, event: ProxyLogEvent) -> bool {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let at = since.map_or(0, |since| since.as_millis() as u64);
        let line = ProxyLogLine {
            version: 1,
            at,
            request,
            event,
        };
        let written = serde_json::to_vec(&line).map_err(io::Error::from);
        let written = written.and_then(|line| self.state().append(line));
        let Err(error) = written else {
            return true;
        };
        let report = self.state().on_failure.take();
        if let Some(report) = report {
            report(&error);
        }
        false
    }
}

impl LogState {
    fn append(&mut self, mut line: Vec<u8>) -> io::Result<()> {
        line.push(b'\n');
        if self.is_torn {
            line.insert(0, b'\n');
        }
        let mut rest = &line[..];
        while !rest.is_empty() {
            match self.to.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => rest = &rest[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            self.is_torn = !rest.is_empty();
        }
        Ok(())
    }
}

/// A file that is appended to, by its path.
struct AppendedFile {
    path: PathBuf,
    file: File,
}

impl AppendedFile {
    fn open(path: &Path) -> io::Result<AppendedFile> {
        let mut options = File::options();
        options.append(true).create(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        Ok(AppendedFile {
            path: path.to_owned(),
            file: options.open(path)?,
        })
    }

    /// Returns true if the path leads to another file, or to none.
    #[cfg(unix)]
    fn is_gone(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        let id = |metadata: std::fs::Metadata| (metadata.dev(), metadata.ino());
        let (named, open) = (std::fs::metadata(&self.path), self.file.metadata());
        named.map(id).ok() != open.map(id).ok()
    }

    /// An open file keeps its name there.
    #[cfg(not(unix))]
    fn is_gone(&self) -> bool {
        false
    }
}

impl Write for AppendedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_gone() {
            *self = AppendedFile::open(&self.path)?;
        }
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl fmt::Debug for EventLog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventLog").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer that takes so many bytes, and then fails once.
    struct FullOnce(Arc<Mutex<Vec<u8>>>, Option<usize>);

    impl Write for FullOnce {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let len = match self.1.take() {
                Some(0) => return Err(io::ErrorKind::StorageFull.into()),
                Some(left) => {
                    self.1 = Some(left.saturating_sub(bytes.len()));
                    left.min(bytes.len())
                }
                None => bytes.len(),
            };
            self.0.lock().unwrap().extend_from_slice(&bytes[..len]);
            Ok(len)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn the_line_after_one_that_was_written_in_part_is_whole() {
        for room in [0, 1, 30] {
            let written = Arc::new(Mutex::new(Vec::new()));
            let log = EventLog::new(FullOnce(Arc::clone(&written), Some(room)));
            let event = || ProxyLogEvent::Passed { status: 200 };
            assert!(!log.write(1, event()), "no room");
            assert!(log.write(2, event()));
            let written = written.lock().unwrap();
            let lines = written.split(|byte| *byte == b'\n');
            let lines: Vec<&[u8]> = lines.filter(|line| !line.is_empty()).collect();
            assert_eq!(lines.len(), 1 + usize::from(room > 0));
            let last: ProxyLogLine = serde_json::from_slice(lines.last().unwrap()).unwrap();
            assert_eq!(last.request, 2);
        }
    }
}
