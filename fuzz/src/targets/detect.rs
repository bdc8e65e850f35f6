//! Under every split, each detector finds the same at the same places, which are within the text. Code spans that name
//! files are read independently of each other, and a place found in one is not reported again where the span is listed.

use std::sync::Arc;

use ttsr_views::chunk::{Chunk, Language};
use ttsr_views::detect::control_tokens::{ControlTokenDetector, ControlTokenLimits};
use ttsr_views::detect::doom_loop::CallDigest;
use ttsr_views::detect::near_duplicate::{NearDuplicateDetector, NearDuplicateLimits};
use ttsr_views::detect::repetition::{RepetitionDetector, RepetitionLimits};
use ttsr_views::detect::script::{ScriptDetector, ScriptLimits};
use ttsr_views::detect::unknown_file::UnknownFileDetector;
use ttsr_views::detect::unknown_name::{KnownNames, UnknownNameDetector};
use ttsr_views::detect::{Detection, Detector};

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [which, size, text @ ..] = data else {
        return;
    };
    let known = Arc::new(KnownNames::new(["known", "src/known.rs"]));
    let languages = ["rust", "toml", "ts", "python", "go"];
    let language = Language::new(languages[usize::from(*which) % languages.len()]);
    let circles = RepetitionLimits {
        chars: 40,
        times: 3,
        ..RepetitionLimits::default()
    };
    let near = NearDuplicateLimits {
        words: 1,
        times: 2,
        of: 3,
        ..NearDuplicateLimits::default()
    };
    let few = ScriptLimits {
        letters: 4,
        of_letters: 6,
        words: 2,
        ..ScriptLimits::default()
    };
    let size = usize::from(*size) + 1;
    same(|| RepetitionDetector::new(circles), text, size);
    same(|| NearDuplicateDetector::new(near), text, size);
    same(
        || ControlTokenDetector::new(ControlTokenLimits::default()),
        text,
        size,
    );
    same(|| ScriptDetector::new(few), text, size);
    same(
        || UnknownNameDetector::new(known.clone(), language),
        text,
        size,
    );
    same(|| UnknownFileDetector::new(known.clone(), None), text, size);
    spans(&known, text, size);
    let _ = CallDigest::new("tool", text);
}

/// Reads each line as a code span with one detector, one after another.
fn spans(known: &Arc<KnownNames>, text: &[u8], size: usize) {
    let mut files = UnknownFileDetector::new(known.clone(), None);
    let mut at = 0;
    for span in text.split(|byte| *byte == b'\n') {
        let new = found(
            UnknownFileDetector::new(known.clone(), None),
            span,
            span.len().max(1),
        );
        let mut again = Vec::new();
        read(&mut files, span, size, at, &mut again);
        let moved = |found: &Detection| Detection {
            start: found.start + at,
            end: found.end + at,
            decided: found.decided + at,
        };
        assert_eq!(
            again,
            new.iter().map(moved).collect::<Vec<_>>(),
            "behind others"
        );
        for one in new {
            let path = &span[one.start as usize..one.end as usize];
            let path = std::str::from_utf8(path).expect("what is found is whole characters");
            let listed = Some(Arc::new(KnownNames::new([path])));
            let rest = found(UnknownFileDetector::new(known.clone(), listed), span, size);
            assert_eq!(rest, [], "{path} is listed");
        }
        at += span.len() as u64 + 1;
    }
}

fn same<D: Detector>(new: impl Fn() -> D, text: &[u8], size: usize) {
    let whole = found(new(), text, text.len().max(1));
    assert_eq!(found(new(), text, 1), whole, "byte by byte");
    assert_eq!(found(new(), text, size), whole, "in pieces");
    for found in whole {
        assert!(found.start <= found.end && found.decided <= text.len() as u64);
    }
}

fn found(mut detector: impl Detector, text: &[u8], size: usize) -> Vec<Detection> {
    let mut all = Vec::new();
    read(&mut detector, text, size, 0, &mut all);
    all
}

/// Reads a text that begins at `at` to its end.
fn read(detector: &mut impl Detector, text: &[u8], size: usize, at: u64, all: &mut Vec<Detection>) {
    for (index, piece) in text.chunks(size).enumerate() {
        let piece = Chunk::verbatim(piece, at + (index * size) as u64);
        detector.push(piece, &mut |found| all.push(found));
    }
    detector.finish(at + text.len() as u64, &mut |found| all.push(found));
}
