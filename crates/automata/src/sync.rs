//! The synchronization primitives of this crate, in one place: `crates/automata/tests/loom.rs` substitutes loom's.

pub(crate) use std::sync::atomic::{AtomicU32, Ordering};
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak,
};
