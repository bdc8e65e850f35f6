//! Handoffs on a server: the draft in its terminal interface, the files of a continuation, and transcripts of earlier
//! sessions.

use std::time::Duration;

use hyper::Method;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::server::{Server, ServerApi, segment};
use crate::handoff::{
    DraftStep, Handoff, Injection, ReadSession, Speaker, TranscriptFuture, TranscriptMessage,
    TranscriptPart, Transcripts,
};
use ttsr::harness::{Content, Failure};

/// Requests to the terminal interface and for transcripts. Classic interface only: with [`ServerApi::Next`] they fail with
/// the kind `unsupported`.
impl Server {
    /// Opens a new session in the terminal interface that is connected to the server, with the continuation prompt as
    /// an editable draft, and shows the toast. Nothing is sent to a model.
    ///
    /// `directory` selects the project whose terminal interface is addressed; `None` selects the server's own. A server
    /// without a terminal interface accepts the requests and drops them.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error. Requests after the failed one are not sent.
    ///
    /// # Example: three requests, the second 150 ms after the first
    /// ```
    /// use ttsr_agent::handoff::Handoff;
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true", "true", "true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// let handoff = Handoff::new("ses_1", "Finish the parser.").files(["src/parse.rs"]);
    /// runtime.block_on(server.hand_over(&handoff, None))?;
    /// let heard = heard.join().unwrap();
    /// assert!(heard[0].ends_with(r#"{"command":"session_new"}"#));
    /// assert!(heard[1].starts_with("POST /tui/append-prompt "));
    /// assert!(heard[2].contains("Handoff Ready"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn hand_over(
        &self,
        handoff: &Handoff,
        directory: Option<&str>,
    ) -> Result<(), Failure> {
        for step in DraftStep::steps(handoff) {
            match step {
                DraftStep::OpenSession => self.tui_command("session_new", directory).await?,
                DraftStep::Wait(time) => sleep(time).await,
                DraftStep::Append(text) => self.append_to_prompt(&text, directory).await?,
                DraftStep::Toast { text, lasts } => self.show_toast(text, lasts, directory).await?,
            }
        }
        Ok(())
    }

    /// Runs a command of the terminal interface, such as `session_new`.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn tui_command(&self, command: &str, directory: Option<&str>) -> Result<(), Failure> {
        let body = json!({ "command": command });
        self.tui("execute-command", directory, body).await
    }

    /// Appends text to the draft in the terminal interface.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn append_to_prompt(
        &self,
        text: &str,
        directory: Option<&str>,
    ) -> Result<(), Failure> {
        let body = json!({ "text": text });
        self.tui("append-prompt", directory, body).await
    }

    /// Shows a message in the terminal interface for `lasts`, rounded down to milliseconds and at least one.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    pub async fn show_toast(
        &self,
        text: &str,
        lasts: Duration,
        directory: Option<&str>,
    ) -> Result<(), Failure> {
        let duration = u64::try_from(lasts.as_millis()).unwrap_or(u64::MAX).max(1);
        let body = json!({ "message": text, "variant": "success", "duration": duration });
        self.tui("show-toast", directory, body).await
    }

    /// Publishes a command as an event of the server. Terminal interfaces ignore unknown commands.
    pub(super) async fn announce(&self, command: &str) -> Result<(), Failure> {
        let properties = json!({ "command": command });
        let body = json!({ "type": "tui.command.execute", "properties": properties });
        self.tui("publish", None, body).await
    }

    /// Adds the files of a continuation to a session, without requesting a reply.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error.
    ///
    /// # Example: two synthetic parts for a file
    /// ```
    /// use ttsr::harness::Content;
    /// use ttsr_agent::handoff::Injection;
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let (url, heard) = listener::answering(["true"])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// # use ttsr_agent::handoff::{IncomingMessage, FileSource, Handoff, HandoffTracker};
    /// # use std::{io, path::{Path, PathBuf}};
    /// # struct One;
    /// # impl FileSource for One {
    /// #     fn resolve(&self, _: &str) -> Option<PathBuf> { Some("/p/a.txt".into()) }
    /// #     fn read(&self, _: &Path, _: u64) -> io::Result<Vec<u8>> { Ok(b"one".to_vec()) }
    /// # }
    /// # let prompt = ttsr::harness::Message::user(Handoff::new("ses_1", "Go on.").files(["a.txt"]).prompt());
    /// # let arrived = IncomingMessage { session: "ses_2", model: "oak/owl-1", agent: "build", content: &prompt.content };
    /// # let injection: Injection = HandoffTracker::default().on_message(&arrived, &One).unwrap();
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// runtime.block_on(server.inject("ses_2", &injection))?;
    /// let request = &heard.join().unwrap()[0];
    /// assert!(request.starts_with("POST /session/ses_2/prompt_async "));
    /// assert_eq!(request.matches(r#""synthetic":true"#).count(), 2);
    /// assert!(request.contains(r#""noReply":true"#));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn inject(&self, session: &str, injection: &Injection) -> Result<(), Failure> {
        self.only_classic()?;
        let parts = injection.parts.iter().filter_map(|part| match part {
            Content::Text { text, synthetic } => {
                Some(json!({ "type": "text", "text": text, "synthetic": synthetic }))
            }
            Content::Image { media_type, data } => {
                let url = format!("data:{media_type};base64,{data}");
                Some(json!({ "type": "file", "mime": media_type, "url": url }))
            }
            Content::Reasoning { .. } | Content::ToolCall { .. } | Content::ToolResult { .. } => {
                None
            }
        });
        let mut body = json!({
            "parts": parts.collect::<Vec<Value>>(),
            "noReply": injection.no_reply,
        });
        if let Some((provider, model)) = injection.model.split_once('/') {
            body["model"] = json!({ "providerID": provider, "modelID": model });
        }
        if !injection.agent.is_empty() {
            body["agent"] = json!(injection.agent);
        }
        let path = format!("/session/{}/prompt_async", segment(session)?);
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    /// Returns the last messages of a session, oldest first, at most `most`: texts, names of attached files, and tool
    /// calls with their titles. Synthetic text, reasoning and outputs of tools are omitted, and so are messages without
    /// other content.
    ///
    /// # Errors
    /// If the server cannot be reached or responds with an error, or if the messages exceed 16 MiB.
    pub async fn messages(
        &self,
        session: &str,
        most: usize,
    ) -> Result<Vec<TranscriptMessage>, Failure> {
        self.only_classic()?;
        let path = format!("/session/{}/message?limit={most}", segment(session)?);
        let answer = self.call(Method::GET, &path, None).await?;
        let messages: Vec<ServerMessage> = serde_json::from_value(answer).map_err(|error| {
            Failure::new("protocol", format!("not a list of messages: {error}"))
        })?;
        Ok(messages
            .iter()
            .filter_map(ServerMessage::transcript)
            .collect())
    }

    /// Returns the output of the tool `read_session` for a session of this server.
    ///
    /// # Example: a transcript with an attachment and a tool's title
    /// ```
    /// use ttsr_agent::handoff::ReadSession;
    /// use ttsr_agent::opencode::{ServerApi, Server};
    /// # use ttsr_testing::listener;
    /// # let answer = r#"[
    /// #   {"info":{"role":"user"},"parts":[{"type":"text","text":"Mend it."},{"type":"file","filename":"a.png"}]},
    /// #   {"info":{"role":"assistant"},"parts":[{"type":"tool","tool":"read","state":{"status":"completed","title":"src/a.rs"}}]}
    /// # ]"#;
    /// # let (url, heard) = listener::answering([answer])?;
    /// # let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    /// // A server listens at `url`; `heard` holds its requests.
    /// let server = Server::new(&url, ServerApi::Classic)?;
    /// let shown = runtime.block_on(server.read_session(&ReadSession::new("ses_1", Some(2))));
    /// let said = "## User\nMend it.\n[Attached: a.png]\n\n## Assistant\n[Tool: read] src/a.rs\n\n";
    /// assert_eq!(shown, format!("{said}(End of session - 2 messages)"));
    /// assert!(heard.join().unwrap()[0].starts_with("GET /session/ses_1/message?limit=3 "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn read_session(&self, call: &ReadSession) -> String {
        let said = self.recent_messages(call.session(), call.limit() + 1).await;
        call.transcript(|_, _| said)
    }

    /// Returns the last messages of a session, or the reason why it cannot be read, worded for a model.
    async fn recent_messages(
        &self,
        session: &str,
        most: usize,
    ) -> Result<Vec<TranscriptMessage>, String> {
        let said = self.messages(session, most).await;
        said.map_err(|failure| match failure.kind() {
            "404" => "the server has no such session".to_owned(),
            _ => failure.to_string(),
        })
    }

    async fn tui(&self, what: &str, directory: Option<&str>, body: Value) -> Result<(), Failure> {
        self.only_classic()?;
        let path = match directory {
            Some(directory) => format!("/tui/{what}?directory={}", percent_encode(directory)),
            None => format!("/tui/{what}"),
        };
        self.call(Method::POST, &path, Some(body)).await.map(drop)
    }

    fn only_classic(&self) -> Result<(), Failure> {
        match self.api() {
            ServerApi::Classic => Ok(()),
            ServerApi::Next => {
                let why = "only the classic interface has this request";
                Err(Failure::new("unsupported", why))
            }
        }
    }
}

impl Transcripts for Server {
    fn recent<'a>(&'a self, session: &'a str, most: usize) -> TranscriptFuture<'a> {
        Box::pin(self.recent_messages(session, most))
    }
}

/// Percent-encodes a value of a query.
fn percent_encode(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    };
    value.bytes().map(encode).collect()
}

/// A message as `/session/{id}/message` returns it.
#[derive(Deserialize)]
pub(super) struct ServerMessage {
    #[serde(default)]
    pub(super) info: ServerMessageInfo,
    #[serde(default)]
    pub(super) parts: Vec<ServerMessagePart>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerMessageInfo {
    pub(super) id: String,
    pub(super) role: String,
    pub(super) error: Value,
    pub(super) agent: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ServerMessagePart {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) text: String,
    pub(super) synthetic: bool,
    pub(super) filename: Option<String>,
    pub(super) url: String,
    pub(super) mime: String,
    pub(super) tool: String,
    #[serde(rename = "callID")]
    pub(super) call: String,
    pub(super) state: ToolPartState,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct ToolPartState {
    pub(super) status: String,
    pub(super) title: Option<String>,
    pub(super) input: Value,
    pub(super) output: String,
    pub(super) error: String,
}

impl ServerMessage {
    fn transcript(&self) -> Option<TranscriptMessage> {
        let by = match self.info.role.as_str() {
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            _ => return None,
        };
        let parts: Vec<TranscriptPart> = self
            .parts
            .iter()
            .filter_map(ServerMessagePart::transcript)
            .collect();
        (!parts.is_empty()).then_some(TranscriptMessage { by, parts })
    }
}

impl ServerMessagePart {
    fn transcript(&self) -> Option<TranscriptPart> {
        match self.kind.as_str() {
            "text" if !self.synthetic && !self.text.is_empty() => {
                Some(TranscriptPart::Text(self.text.clone()))
            }
            "file" => {
                let name = self.filename.clone();
                // Inline data has no name; its media type replaces it.
                let name = name.unwrap_or_else(|| match self.url.starts_with("data:") {
                    true => self.mime.clone(),
                    false => self.url.rsplit('/').next().unwrap_or_default().to_owned(),
                });
                Some(TranscriptPart::Attached(name))
            }
            "tool" => Some(TranscriptPart::Tool {
                name: self.tool.clone(),
                title: self.state.title.clone().unwrap_or_default(),
            }),
            _ => None,
        }
    }
}
