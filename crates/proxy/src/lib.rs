//! A reverse proxy for the APIs of model providers that applies [`ttsr`] rules to replies while they stream.
//!
//! A client is given the address of the proxy as its base URL and needs no other change. [`Proxy::bind`] opens the
//! socket, [`Proxy::serve`] answers requests until a future of the caller completes.
//!
//! # Requests
//!
//! The path selects the [`Mount`], and with it the only server that a request and its key are sent to. Bodies are passed
//! on byte for byte, unless a rule acts: the proxy reads from one side only as fast as the other side reads from it, and a
//! client that closes its connection closes the connection to the server. Redirects of the server are answered with
//! status 502 and never followed. [`ProxyConfig::network_proxy`] is for networks that let connections out only through a proxy.
//!
//! # Replies
//!
//! Replies of Anthropic Messages, OpenAI Chat Completions, Completions and Responses, Gemini, also in the wrapper of
//! Google's Code Assist, and Ollama are judged, streamed or not. Each event is read by `ttsr-wire`, and its bytes are
//! sent unchanged once no rule holds a text in it; a line of Ollama, and an element of the array in which Gemini streams
//! without server-sent events, is an event, too. The events of a tool call are sent together, once the call is complete
//! and judged. A redaction rewrites the events that have the text; a cut drops the events that are not sent, and ends the
//! reply with the reason, as [`BlockEnding`] says. A reply that cannot be read is refused, unless
//! [`ProxyConfig::fail_open`] is set. [`ProxyLimits::held_bytes`] bounds each of the texts that a stream keeps: the
//! events that are held, the texts with which repetitions are compared, and in Responses the items that were sent. Beside
//! them it keeps a record of each decision, and the text of the reply if a rule may retry.
//!
//! If a rule retries, the request is sent again with its message, and the events of the new response continue the reply
//! that the client sees.
//!
//! # Requests under rules
//!
//! The bodies of requests to these APIs are read whole; [`ProxyLimits::buffered_bytes`] bounds the sum of all bodies that are
//! in memory. Rules on `user-input` read the last message of the user, and
//! rules on `tool-output` the results of tools since the last message of the assistant; history that a client sends again
//! is not judged again. Redactions apply to the whole history, and what rules add stays where it was added, so that
//! requests begin with the bytes of earlier ones and caches of prompts hold. Guidance of `inject` rules goes into the next
//! request of its conversation. A request that a rule aborts is answered with status 400.
//!
//! A request to another path is refused if its body has the form of a request to a model, unless
//! [`ProxyConfig::fail_open`] is set. Strings of requests that no reader knows are counted by their path
//! ([`ProxyLogEvent::RequestUnscanned`]).
//!
//! # Sessions
//!
//! The state of rules is kept for each session: in memory ([`MemoryStore`]), in a file ([`JournalStore`]), in a Redis or
//! Valkey server (`RedisStore`, with the feature `redis`), or in any other [`SessionStore`]. A session that cannot be
//! loaded or written refuses its requests, unless [`ProxyConfig::fail_open`] is set.
//!
//! # Runtimes
//!
//! A runtime of tokio with worker threads, also with one, delays a delta less than one of the current thread: there a task
//! that an event wakes runs at once, and not after the tasks of all other events. [`ProxyConfig::busy_poll`] keeps worker
//! threads awake under load or while requests are in progress, which delays deltas less and takes a core for each of them.
//!
//! A program with [`SlabAllocator`] as its global allocator takes a tenth less memory for each stream.
//!
//! # Example: requests through a proxy
//! ```
//! use std::io::{Read as _, Write as _};
//! use ttsr::Pack;
//! use ttsr_proxy::{Mount, Proxy, ProxyConfig, UpstreamUrl};
//! # let server = std::net::TcpListener::bind("127.0.0.1:0")?;
//! # let url = format!("http://{}", server.local_addr()?);
//! # std::thread::spawn(move || {
//! #     let (mut socket, _) = server.accept().unwrap();
//! #     let mut head = [0; 4096];
//! #     let len = socket.read(&mut head).unwrap();
//! #     assert!(head[..len].starts_with(b"GET /v1/models HTTP/1.1\r\n"));
//! #     socket.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").unwrap();
//! # });
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
//! let mut config = ProxyConfig::default();
//! config.mounts = vec![Mount::new("/local", UpstreamUrl::parse(&url)?)];
//! let pack = Pack::builtin("std/secrets")?;
//! let proxy = runtime.block_on(Proxy::bind(config, pack, "127.0.0.1:0"))?;
//! let mut client = std::net::TcpStream::connect(proxy.address())?;
//! client.write_all(b"GET /local/v1/models HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
//! let mut reply = String::new();
//! runtime.block_on(proxy.serve(async {
//!     tokio::task::spawn_blocking(move || client.read_to_string(&mut reply).map(|_| reply))
//!         .await
//!         .map(|reply| assert!(reply.unwrap().ends_with("\r\n\r\n{}")))
//!         .unwrap();
//! }));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![warn(missing_docs)]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

mod account;
mod allocator;
mod body;
mod buffer_budget;
mod config;
mod continued_reply;
mod conversations;
mod driver;
mod error;
mod error_answer;
mod event_log;
mod headers;
mod json_spans;
mod judge;
mod listener_tls;
mod metrics;
mod network_proxy;
mod pack_slot;
mod repeat;
mod request;
mod request_count;
mod routes;
mod server;
mod service;
mod sessions;
#[cfg(test)]
mod tests;
mod token;
mod totals;
mod tunnel;
mod upstream;
mod url_path;

pub use allocator::SlabAllocator;
pub use config::{BlockEnding, BusyPoll, Mount, ProxyConfig, ProxyLimits, UpstreamUrl};
pub use error::ProxyError;
pub use event_log::{EventLog, ProxyLogEvent, ProxyLogLine, UnscannedPath};
#[cfg(any(test, feature = "test-support"))]
#[doc(hidden)]
pub use judge::check_array_frames;
pub use listener_tls::ListenerTls;
pub use network_proxy::NetworkProxy;
pub use pack_slot::PackSlot;
pub use server::Proxy;
#[cfg(feature = "redis")]
pub use sessions::RedisStore;
pub use sessions::{
    JournalStore, MemoryStore, SessionError, SessionStore, StoreFuture, StoredSession,
};
pub use token::ProxyToken;
pub use totals::{ProxyTotals, TotalsSnapshot};
