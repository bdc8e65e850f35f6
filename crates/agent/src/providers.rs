//! Providers over HTTP: requests of the loop out, streamed replies in.
//!
//! An [`Endpoint`] is the API of one provider at one base URL; a [`Chain`] falls back to other models or endpoints if
//! one cannot answer. No task is spawned and no connection is reused: the reader of a reply owns its socket, and
//! dropping it closes the socket at once. This module knows no rules; responses are parsed by [`wire`](ttsr_wire).
//!
//! # Failures
//!
//! The kind of a stream's [`Failure`](ttsr::harness::Failure) is the provider's error code or type, and its
//! [`status`](ttsr::harness::Failure::status) the HTTP status. A failure without an error of the provider has one of these
//! kinds:
//!
//! | kind | cause |
//! |---|---|
//! | `connect` | no connection: the name, the address, the port |
//! | `tls` | the certificate is not trusted, or the handshake failed |
//! | `timeout` | one of the [`Timeouts`] limits passed |
//! | `closed` | the connection closed before a response |
//! | `protocol` | the response is not HTTP |
//! | `cut-off` | the response ended early |
//! | `redirect` | the endpoint moved; redirects are not followed |
//! | `content-type`, `content-encoding` | the response cannot be read as a reply |
//! | `http` | an error response without a code |
//! | `header` | a request header is invalid or reserved |
//!
//! A request is not retried if its provider asks for a longer wait than [`Retries::longest`]. The failure's message
//! says so, and [`ProviderNotice::NotRetried`] has both times.
//!
//! The key of an endpoint is replaced by `[key]` in everything that its provider sends, also if it arrives in several
//! deltas. A key in another encoding, or of less than 8 bytes, is not recognised.

mod api;
mod base_url;
mod body;
mod call;
mod chain;
mod conversation;
mod endpoint;
mod key;
mod mask;
mod response;
mod retry;
mod signed_reasoning;
mod transport;

pub use api::ProviderApi;
pub use chain::Chain;
pub use endpoint::{Endpoint, EndpointError, EndpointErrorKind, ProviderNotice, Timeouts};
pub use retry::Retries;
