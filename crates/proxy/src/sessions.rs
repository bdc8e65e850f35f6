//! The places where the state of sessions is kept between requests.

mod journal_store;
mod memory_store;
#[cfg(feature = "redis")]
mod redis_store;
pub(crate) mod state;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

pub use journal_store::JournalStore;
pub use memory_store::MemoryStore;
#[cfg(feature = "redis")]
pub use redis_store::RedisStore;

/// A future of a store.
pub type StoreFuture<'s, T> = Pin<Box<dyn Future<Output = Result<T, SessionError>> + Send + 's>>;

/// The reason why the state of a session cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionError(String);

impl SessionError {
    /// Returns an error with that reason, which is shown to clients: it must not have credentials.
    pub fn new(reason: impl Into<String>) -> SessionError {
        SessionError(reason.into())
    }
}

impl fmt::Display for SessionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for SessionError {}

/// The state of a session as a store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredSession {
    /// The number of times that it was written, from 1.
    pub version: u64,
    /// The state, in JSON.
    pub state: Vec<u8>,
}

/// A place where the state of sessions is kept. Proxies that share a store decide as one.
///
/// A store may forget sessions, which resets their rules. It must not return a state that another write has replaced.
pub trait SessionStore: fmt::Debug + Send + Sync {
    /// Returns the session of that key, if it is known.
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>>;

    /// Writes a session whose version is `expected` (0 if it is not known), with the next version. Returns false, and
    /// writes nothing, if it has another version.
    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool>;
}
