//! What threads meet in, in one place: `tests/loom.rs` puts loom's in its stead.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
pub(crate) use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
