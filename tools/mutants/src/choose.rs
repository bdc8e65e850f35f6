//! Selects the mutant of this process. Copied into the crate, where the mutated places call it.
//!
//! `TTSR_MUTANT=17` selects number 17; without the variable nothing is mutated. With `TTSR_MUTANT_REACH=FILE` nothing is
//! mutated, and the first number of every executed place is appended to the file once, as four bytes.

use std::fs::File;
use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

/// No mutant; the numbers of mutants start at one.
const ORIGINAL: u32 = 0;
const REACH: u32 = u32::MAX - 1;
const UNKNOWN: u32 = u32::MAX;

static CHOSEN: AtomicU32 = AtomicU32::new(UNKNOWN);
static REACHED: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
static FILE: OnceLock<Option<File>> = OnceLock::new();

/// Returns the alternative at the place with mutants `first..first + count`: 0 is the original, `n` the nth mutant.
#[inline(always)]
pub(crate) fn mutant(first: u32, count: u32) -> u32 {
    let chosen = CHOSEN.load(Relaxed);
    let at = chosen.wrapping_sub(first);
    if at < count {
        return at + 1;
    }
    match chosen >= REACH {
        true => unusual(first, count),
        false => 0,
    }
}

#[cold]
#[inline(never)]
fn unusual(first: u32, count: u32) -> u32 {
    if CHOSEN.load(Relaxed) == REACH {
        if !REACHED[first as usize].swap(true, Relaxed)
            && let Some(mut file) = FILE.get().and_then(Option::as_ref)
        {
            let _ = file.write_all(&first.to_le_bytes());
        }
        return 0;
    }
    CHOSEN.store(selected(), Relaxed);
    mutant(first, count)
}

fn selected() -> u32 {
    if let Ok(path) = std::env::var("TTSR_MUTANT_REACH") {
        FILE.get_or_init(|| File::options().append(true).create(true).open(path).ok());
        return REACH;
    }
    let number = std::env::var("TTSR_MUTANT").ok();
    number.and_then(|it| it.parse().ok()).unwrap_or(ORIGINAL)
}
