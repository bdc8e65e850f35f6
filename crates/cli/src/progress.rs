//! How far a long scan is: one line on a terminal, which goes away when something else is said.
//!
//! Nothing is drawn where the standard error is no terminal, where a terminal cannot take a line back, or
//! before somebody has waited for a while.

use std::env;
use std::io::{self, IsTerminal as _, Write as _};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long nobody wonders.
const PATIENCE: Duration = Duration::from_millis(500);

/// How often the line is drawn anew.
const EVERY: Duration = Duration::from_millis(100);

/// Whether a line stands on the terminal.
static STANDS: AtomicBool = AtomicBool::new(false);

/// What was read so far; counted on all threads.
pub(crate) struct Progress {
    began: Instant,
    all: u64,
    files: AtomicU64,
    bytes: AtomicU64,
    /// When the line may be drawn next; none where nobody watches.
    next: Option<Mutex<Instant>>,
}

impl Progress {
    /// Of so many files.
    pub(crate) fn new(all: usize) -> Progress {
        let began = Instant::now();
        let can_erase = env::var_os("TERM").is_none_or(|term| term != "dumb");
        let is_watched = io::stderr().is_terminal() && can_erase;
        Progress {
            began,
            all: all as u64,
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            next: is_watched.then(|| Mutex::new(began + PATIENCE)),
        }
    }

    /// So many bytes more.
    pub(crate) fn read(&self, bytes: usize) {
        self.bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.draw();
    }

    /// A file is done.
    pub(crate) fn done(&self) {
        self.files.fetch_add(1, Ordering::Relaxed);
        self.draw();
    }

    fn draw(&self) {
        // Where another thread is drawing, its line is as good.
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
        // Where the terminal is gone nobody watches.
        write!(out, "\r{line}\x1b[K").ok();
        out.flush().ok();
    }
}

/// Takes the line away, if one stands there: something else is to be written.
pub(crate) fn clear() {
    let mut out = io::stderr().lock();
    if STANDS.swap(false, Ordering::Relaxed) {
        write!(out, "\r\x1b[K").ok();
        out.flush().ok();
    }
}

/// Short enough for a narrow terminal: a line that breaks cannot be taken back.
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
