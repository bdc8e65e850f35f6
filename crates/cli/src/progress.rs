//! The progress of a long scan: one line on the terminal, removed before anything else is printed.
//!
//! Nothing is drawn during the first half second, if the standard error is not a terminal, or if the terminal cannot
//! erase a line.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Delay before the line is first drawn.
const PATIENCE: Duration = Duration::from_millis(500);

/// Minimum time between two updates of the line.
const EVERY: Duration = Duration::from_millis(100);

/// True if the line is on the terminal.
static STANDS: AtomicBool = AtomicBool::new(false);

/// The progress so far, updated by all threads.
pub(crate) struct ScanProgress {
    began: Instant,
    all: u64,
    files: AtomicU64,
    bytes: AtomicU64,
    /// The earliest time of the next update; `None` if nothing is drawn.
    next: Option<Mutex<Instant>>,
}

impl ScanProgress {
    /// Returns the progress of a scan of `all` files.
    pub(crate) fn new(all: usize) -> ScanProgress {
        let began = Instant::now();
        let can_erase = env::var_os("TERM").is_none_or(|term| term != "dumb");
        let is_watched = io::stderr().is_terminal() && can_erase;
        ScanProgress {
            began,
            all: all as u64,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            next: is_watched.then(|| Mutex::new(began + PATIENCE)),
        }
    }

    /// Adds `bytes` bytes.
    pub(crate) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.draw();
    }

    /// Adds a finished file.
    pub(crate) fn done(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.draw();
    }

    fn draw(&self) {
        // If another thread is drawing, its line is just as current.
        let Some(Ok(mut next)) = self.next.as_ref().map(Mutex::try_lock) else {
            return;
        };
        let now = Instant::now();
        if now < *next {
            return;
        }
        *next = now + EVERY;
        let files = self.files.load(Ordering::Relaxed);
        let bytes = self.bytes.load(Ordering::Relaxed);
        let line = line(files, self.all, bytes, now - self.began);
        let mut out = io::stderr().lock();
        STANDS.store(true, Ordering::Relaxed);
        // A closed terminal is ignored.
        write!(out, "\r{line}\x1b[K").ok();
        out.flush().ok();
    }
}

/// Removes the line, if it is drawn, so that something else can be printed.
pub(crate) fn clear() {
    let mut out = io::stderr().lock();
    if STANDS.swap(false, Ordering::Relaxed) {
        write!(out, "\r\x1b[K").ok();
        out.flush().ok();
    }
}

/// Returns the line, short enough for a narrow terminal: a wrapped line cannot be erased.
fn line(files: u64, all: u64, bytes: u64, time: Duration) -> String {
    let megabytes = bytes as f64 / 1e6;
    let speed = megabytes / time.as_secs_f64().max(0.001);
    format!("{files} of {all} files, {megabytes:.1} MB, {speed:.1} MB/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_files_bytes_and_speed_and_is_short() {
        assert_eq!(
            line(1204, 5310, 210_440_000, Duration::from_secs(2)),
            "1204 of 5310 files, 210.4 MB, 105.2 MB/s"
        );
        assert_eq!(
            line(0, 1, 0, Duration::ZERO),
            "0 of 1 files, 0.0 MB, 0.0 MB/s"
        );
        let most = line(
            9_999_999,
            9_999_999,
            99_000_000_000_000,
            Duration::from_secs(100_000),
        );
        assert!(most.len() < 70, "{most}");
    }
}
