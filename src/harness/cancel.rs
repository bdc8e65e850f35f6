//! The user's cancellation of a reply: a switch that clones share.

use std::fmt;
use std::future::pending;
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// Cancels every reply that runs with it. Clones share one switch, which cannot be reset.
///
/// # Example: clones share one switch
/// ```
/// use ttsr::harness::Cancel;
/// let cancel = Cancel::default();
/// let button = cancel.clone();
/// assert!(!cancel.is_cancelled());
/// button.cancel();
/// assert!(cancel.is_cancelled());
/// ```
#[derive(Clone)]
pub struct Cancel {
    shared: Arc<CancelState>,
}

struct CancelState {
    is_cancelled: watch::Sender<bool>,
    callbacks: Mutex<Callbacks>,
}

/// Callbacks for threads that block and therefore cannot await [`Cancel::cancelled`].
#[derive(Default)]
struct Callbacks {
    registered: Vec<(u64, Box<dyn FnOnce() + Send>)>,
    next_id: u64,
}

/// Keeps a callback registered until it is dropped or the switch is thrown.
pub(super) struct CallbackGuard<'a> {
    shared: &'a CancelState,
    id: u64,
}

impl Default for Cancel {
    fn default() -> Cancel {
        Cancel {
            shared: Arc::new(CancelState {
                is_cancelled: watch::Sender::new(false),
                callbacks: Mutex::default(),
            }),
        }
    }
}

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cancel").field(&self.is_cancelled()).finish()
    }
}

impl CancelState {
    fn callbacks(&self) -> MutexGuard<'_, Callbacks> {
        // No code panics while it holds this lock, so a poisoned lock guards valid data.
        self.callbacks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for CallbackGuard<'_> {
    fn drop(&mut self) {
        let mut callbacks = self.shared.callbacks();
        callbacks.registered.retain(|(id, _)| *id != self.id);
    }
}

impl Cancel {
    /// Cancels every reply that runs with this switch or a clone of it.
    ///
    /// # Example: the user cancels a reply
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{
    ///     AbortReason, Cancel, End, Hooks, Processor, Request, Scripted, ScriptedReply, Settings, run,
    /// };
    /// let mut provider = Scripted::new([ScriptedReply::default().text("And then").hang()]);
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    /// let cancel = Cancel::default();
    /// let switch = cancel.clone();
    /// let request = Request::new("a-model", Vec::new());
    /// let running = run(&mut processor, &mut provider, request, "msg_1", cancel, |step| {
    ///     if let ttsr::harness::Step::Forward { .. } = step {
    ///         switch.cancel();
    ///     }
    /// });
    /// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    /// let outcome = runtime.block_on(running);
    /// assert!(matches!(outcome.end, End::Aborted { reason: AbortReason::User, .. }));
    /// assert!(switch.is_cancelled());
    /// assert_eq!(provider.cancelled(), [true], "the connection is closed");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn cancel(&self) {
        self.shared.is_cancelled.send_replace(true);
        let registered = mem::take(&mut self.shared.callbacks().registered);
        registered.into_iter().for_each(|(_, callback)| callback());
    }

    /// Registers a callback that is called once, when the switch is thrown, and at once if it was thrown before.
    pub(super) fn on_cancel(&self, callback: impl FnOnce() + Send + 'static) -> CallbackGuard<'_> {
        let shared = &*self.shared;
        let mut callbacks = shared.callbacks();
        callbacks.next_id += 1;
        let id = callbacks.next_id;
        // `cancel` throws the switch before it takes the callbacks. So either `cancel` finds this callback, or the
        // thrown switch is seen here; no callback is lost.
        if self.is_cancelled() {
            drop(callbacks);
            callback();
        } else {
            callbacks.registered.push((id, Box::new(callback)));
        }
        CallbackGuard { shared, id }
    }

    /// Returns true if the switch was thrown.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        *self.shared.is_cancelled.borrow()
    }

    /// Waits until the switch is thrown.
    ///
    /// # Example: one future waits, another cancels
    /// ```
    /// use ttsr::harness::Cancel;
    /// let cancel = Cancel::default();
    /// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    /// runtime.block_on(async {
    ///     let switch = cancel.clone();
    ///     let throws = async { switch.cancel() };
    ///     tokio::join!(cancel.cancelled(), throws);
    /// });
    /// assert!(cancel.is_cancelled());
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub async fn cancelled(&self) {
        let mut receiver = self.shared.is_cancelled.subscribe();
        // `wait_for` fails only if the sender is dropped, and `self` owns the sender.
        if receiver
            .wait_for(|is_cancelled| *is_cancelled)
            .await
            .is_err()
        {
            pending::<()>().await;
        }
    }
}
