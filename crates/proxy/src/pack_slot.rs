//! The pack that new requests and replies are judged with.

use std::sync::{PoisonError, RwLock};

use ttsr::{Mode, Pack};

use crate::conversations::RequestRules;
use crate::error::ProxyError;

/// The pack of a running [`Proxy`](crate::Proxy), which can be replaced. A request and its reply end with the pack that
/// the request began with.
#[derive(Debug)]
pub struct PackSlot(RwLock<RequestRules>);

impl PackSlot {
    pub(crate) fn new(pack: Pack, mode: Mode) -> Result<PackSlot, ProxyError> {
        Ok(PackSlot(RwLock::new(RequestRules::new(pack, mode)?)))
    }

    /// Returns the rules for a request that begins.
    pub(crate) fn current(&self) -> RequestRules {
        // Rules are replaced as a whole, so a thread that panicked cannot have replaced half of them.
        let rules = self.0.read().unwrap_or_else(PoisonError::into_inner);
        rules.clone()
    }

    /// Judges requests that begin from now on, and their replies, with `pack`.
    ///
    /// # Errors
    /// If the rules on requests cannot be built. The pack stays as it was.
    pub fn replace(&self, pack: Pack) -> Result<(), ProxyError> {
        let mode = self.current().mode;
        let rules = RequestRules::new(pack, mode)?;
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = rules;
        Ok(())
    }
}
