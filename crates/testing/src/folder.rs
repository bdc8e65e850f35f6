//! A folder of a test's own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// Empty at first; gone with the test, also where it fails.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Folder {
    /// Among what was built, so that a test that is killed leaves nothing elsewhere.
    pub fn new() -> Folder {
        Folder::within(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp"))
    }

    /// Outside of the checkout, for what would take it for a project of its own.
    pub fn outside() -> Folder {
        Folder::within(std::env::temp_dir())
    }

    /// Writes a file at a path inside the folder; makes the folders above it.
    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
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
