//! Providers over HTTP: requests of the loop out, streamed replies in.
//!
//! An [`Endpoint`] is one provider's API at one address; a [`Chain`] tries other models, or other
//! endpoints, where one cannot answer. Nothing is spawned and no connection is kept: what reads a reply
//! owns its socket, and dropping it closes the socket at once. Rules are not known here, and what the
//! provider says is read by [`wire`](ttsr_wire).
//!
//! # What fails, and how
//!
//! A stream's [`Failure`](super::Failure) has the kind that the provider gave its error (its code or type), and its
//! [`status`](super::Failure::status). What is not an answer of the provider has one of these kinds:
//!
//! | kind | what happened |
//! |---|---|
//! | `connect` | no connection: the name, the address, the port |
//! | `tls` | no trust: certificate or handshake |
//! | `timeout` | one of the [`Patience`] ran out |
//! | `closed` | the connection closed before an answer |
//! | `protocol` | what came is not HTTP |
//! | `cut-off` | the answer broke off |
//! | `redirect` | the endpoint is elsewhere; redirects are not followed |
//! | `content-type`, `content-encoding` | an answer that cannot be read as a reply |
//! | `http` | an error without a code of the provider's |
//! | `header` | a header that cannot be sent, or must not be |
//!
//! A provider that asks to be left alone for longer than [`Retries::longest`] is not asked again. The failure's
//! message says so, and [`Notice::NotRetried`] has both times.
//!
//! An endpoint's key is replaced by `[key]` in everything that its provider sends, also where it arrives in pieces:
//! as it stands, not where it is encoded in another way. Keys of less than 8 bytes are not looked for.

mod address;
mod answer;
mod api;
mod body;
mod call;
mod chain;
mod conversation;
mod endpoint;
mod key;
mod mask;
mod retry;
mod sealed;
mod transport;

pub use api::Api;
pub use chain::Chain;
pub use endpoint::{Endpoint, EndpointError, EndpointErrorKind, Notice, Patience};
pub use retry::Retries;
