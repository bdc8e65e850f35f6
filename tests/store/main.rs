//! Sessions on disk: what of them is there after a crash, a disk that fails, a file that someone changed.
//! Names that begin with `g98_` to `g104_` are of the corresponding line of the list of faults.
#![cfg(feature = "harness")]

mod case;
mod disk;
mod fault;
mod kill;
mod record;
mod resume;
mod turn;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ttsr::harness::Message;
use ttsr::harness::store::{Entry, Kept};

/// A folder that goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "ttsr-store-{}-{}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("talk.ttsr")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn said(text: impl Into<String>) -> Entry {
    Entry::Message {
        message: Message::user(text),
    }
}

fn texts(kept: &Kept) -> Vec<String> {
    kept.messages().iter().map(Message::text).collect()
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// How much a test should do: `full` unless `TTSR_TEST_SCALE` (a percentage) says otherwise.
fn scaled(full: usize) -> usize {
    let percent = std::env::var("TTSR_TEST_SCALE").ok();
    let percent = percent.and_then(|percent| percent.parse::<usize>().ok());
    (full * percent.unwrap_or(100) / 100).max(1)
}

/// Numbers that look random and are the same in every run: splitmix64.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }
}
