//! Sessions on disk, after a crash, a disk failure, or a change by somebody else. `docs/faults.md` lists
//! the faults with their tests.

mod case;
mod disk;
mod fault;
mod kill;
mod record;
mod resume;
mod turn;

use std::path::{Path, PathBuf};

use ttsr::harness::Message;
use ttsr_agent::store::{Entry, ResumeState};

use ttsr_testing::Folder;

/// The file of a session store in a test folder.
trait StoreFile {
    fn file(&self) -> PathBuf;
}

impl StoreFile for Folder {
    fn file(&self) -> PathBuf {
        self.0.join("talk.ttsr")
    }
}

fn said(text: impl Into<String>) -> Entry {
    Entry::Message {
        message: Message::user(text),
    }
}

fn texts(kept: &ResumeState) -> Vec<String> {
    kept.messages().iter().map(Message::text).collect()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn a_folder_goes_with_a_test_that_fails() {
    let failed = std::panic::catch_unwind(|| {
        let folder = Folder::new();
        std::fs::write(folder.file(), "").unwrap();
        std::panic::resume_unwind(Box::new(folder.0.clone()));
    });
    let path = failed.unwrap_err().downcast::<PathBuf>().unwrap();
    assert!(!path.exists());
}
