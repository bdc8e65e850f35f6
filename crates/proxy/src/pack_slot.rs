//! The pack that new replies are judged with.

use std::sync::{PoisonError, RwLock};

use ttsr::Pack;

/// The pack of a running [`Proxy`](crate::Proxy), which can be replaced. A reply ends with the pack that it began with.
#[derive(Debug)]
pub struct PackSlot(RwLock<Pack>);

impl PackSlot {
    pub(crate) fn new(pack: Pack) -> PackSlot {
        PackSlot(RwLock::new(pack))
    }

    /// Returns the pack for a reply that begins.
    pub(crate) fn current(&self) -> Pack {
        // A pack is replaced as a whole, so a thread that panicked has not left half of one.
        let pack = self.0.read().unwrap_or_else(PoisonError::into_inner);
        pack.clone()
    }

    /// Judges replies that begin from now on with `pack`.
    pub fn replace(&self, pack: Pack) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = pack;
    }
}
