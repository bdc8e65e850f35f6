//! A store of sessions whose loss is told on the standard error.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ttsr_proxy::{SessionError, SessionStore, StoreFuture, StoredSession};

use crate::output::print_message;

/// Prints a line when the store is lost, and one when it is back.
#[derive(Debug)]
pub(super) struct ReportedStore {
    store: Arc<dyn SessionStore>,
    /// True if requests pass without their sessions.
    passes: bool,
    /// True if the last use of its kind failed. A file on a full disk can be read, and not written.
    cannot_load: AtomicBool,
    cannot_save: AtomicBool,
}

impl ReportedStore {
    pub(super) fn new(store: Arc<dyn SessionStore>, passes: bool) -> ReportedStore {
        ReportedStore {
            store,
            passes,
            cannot_load: AtomicBool::new(false),
            cannot_save: AtomicBool::new(false),
        }
    }

    fn is_lost(&self) -> bool {
        self.cannot_load.load(Ordering::Relaxed) || self.cannot_save.load(Ordering::Relaxed)
    }

    fn report<T>(&self, of: &AtomicBool, used: Result<T, SessionError>) -> Result<T, SessionError> {
        let was_lost = self.is_lost();
        of.store(used.is_err(), Ordering::Relaxed);
        match (&used, was_lost, self.is_lost()) {
            (Err(error), false, _) => print_message(&format_args!(
                "sessions are lost: {error}. {} until they are back",
                match self.passes {
                    true => "Requests are judged without them",
                    false => "Requests are refused",
                }
            )),
            (Ok(_), true, false) => print_message(&"sessions are back"),
            _ => {}
        }
        used
    }
}

impl SessionStore for ReportedStore {
    fn load<'s>(&'s self, key: &'s str) -> StoreFuture<'s, Option<StoredSession>> {
        Box::pin(async move {
            let loaded = self.store.load(key).await;
            self.report(&self.cannot_load, loaded)
        })
    }

    fn save<'s>(&'s self, key: &'s str, state: &'s [u8], expected: u64) -> StoreFuture<'s, bool> {
        Box::pin(async move {
            let saved = self.store.save(key, state, expected).await;
            self.report(&self.cannot_save, saved)
        })
    }
}
