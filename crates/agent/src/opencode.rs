//! A client for a running OpenCode server: it watches, prompts and stops the server's sessions over HTTP.
//!
//! [`Server`] is the client for both interfaces of the server ([`ServerApi`]). [`SessionWatcher`] applies rules to the events of the
//! server's sessions, without I/O; [`watch`](watch()) connects one to a server. [`ask`] sends a prompt and returns the
//! whole reply. For a chat that shows progress, a [`Server`] is an [`Agent`](crate::progress::Agent). The
//! events are parsed by [`wire::opencode`](ttsr_wire::opencode). Guide: `docs/opencode.md`.

mod action_support;
mod address;
mod agent;
mod ask;
mod drive;
mod handoff;
mod journal;
mod perform;
mod server;
mod watch;

pub use action_support::ActionSupport;
pub use ask::{AskError, AskOptions, WholeReply, ask};
pub use drive::{Backoff, WatchOptions, watch};
pub use journal::ActionJournal;
pub use server::{Events, Prompt, Server, ServerApi};
pub use watch::{ServerAction, SessionWatcher, StopAction, WatchEvent, WatchedDecision};
