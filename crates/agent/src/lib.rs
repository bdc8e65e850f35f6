//! The parts of an agent around the reference loop of [`ttsr`]: [`providers`] over HTTP, [`tools`] that work in one
//! folder, a [session store](store), [`handoff`] to a new session, [`progress`] in a chat, questions to
//! the user ([`user_prompt`]), and a client of [OpenCode servers](opencode).
//!
//! # Features
//!
//! None is enabled by default.
//!
//! - `providers`: OpenAI-compatible Chat, OpenAI Responses, Anthropic Messages.
//! - `opencode`: rules over a running OpenCode server, and a client of it.
//! - `tools`: read, write, edit and bash in one folder; Unix only.

#![warn(missing_docs)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

pub mod handoff;
#[cfg(any(feature = "opencode", feature = "providers"))]
mod http;
#[cfg(feature = "opencode")]
pub mod opencode;
pub mod progress;
#[cfg(feature = "providers")]
pub mod providers;
pub mod store;
#[cfg(all(unix, feature = "tools"))]
pub mod tools;
pub mod user_prompt;

/// The examples of the guide are tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/providers.md")]
struct ProvidersExamples;
