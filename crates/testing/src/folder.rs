//! A temporary folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// A folder that is empty at first and is removed when the value is dropped, also after a failure.
#[derive(Debug)]
pub struct Folder(pub PathBuf);

impl Default for Folder {
    fn default() -> Folder {
        Folder::new()
    }
}

impl Folder {
    /// Creates the folder below `target`, so that a killed test leaves no files elsewhere.
    pub fn new() -> Folder {
        Folder::within(concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/tmp"))
    }

    /// Creates the folder outside of the checkout, for programs that would find the checkout as its project.
    pub fn outside() -> Folder {
        Folder::within(std::env::temp_dir())
    }

    /// Writes a file at a path inside the folder, and creates the folders above it.
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
        // A killed process with the same id may have left it.
        fs::remove_dir_all(&path).ok();
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A panic while a failed test unwinds would hide the failure.
        fs::remove_dir_all(&self.0).ok();
    }
}
