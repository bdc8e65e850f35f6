//! A folder of a test's own.
#![allow(dead_code, reason = "each who takes it in uses some of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Empty at first; gone with the test, also where it fails.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    /// Among what was built, so that a test that is killed leaves nothing elsewhere.
    pub(crate) fn new() -> Folder {
        Folder::within(env!("CARGO_TARGET_TMPDIR"))
    }

    /// Outside of the checkout, for what would take it for a project of its own.
    pub(crate) fn outside() -> Folder {
        Folder::within(std::env::temp_dir())
    }

    fn within(parent: impl AsRef<Path>) -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ttsr-{}-{count}", std::process::id());
        let path = parent.as_ref().join(name);
        // Of a process of the same number that was killed.
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A panic on the way out of a failed test would hide why it failed.
        fs::remove_dir_all(&self.0).ok();
    }
}
