//! A running OpenCode server, seen from outside: its sessions are asked, heard, stopped and steered over HTTP.
//!
//! [`Server`] is the client, for both of its interfaces ([`Api`]). [`Watch`] holds rules against what the
//! server's sessions write, without I/O; [`watch`](watch()) does so with a server, until it is cancelled.
//! [`ask`] puts a question and gives the whole reply; for a chat that is to hear more of it meanwhile, a
//! [`Server`] is an [`Agent`](crate::progress::Agent). What the server sends is read by
//! [`wire::opencode`](ttsr_wire::opencode). Guide: `docs/opencode.md`.

mod address;
mod agent;
mod ask;
mod drive;
mod handoff;
mod journal;
mod perform;
mod reach;
mod server;
mod watch;

pub use ask::{AskError, Asking, ask};
pub use drive::{Backoff, Watching, watch};
pub use journal::Journal;
pub use reach::Reach;
pub use server::{Api, Events, Prompt, Server};
pub use watch::{Act, Judged, Seen, Watch};
