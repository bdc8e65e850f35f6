//! However a text is cut, each detector finds the same at the same places, which lie within the text.

use crate::detect::alike::{Alike, AlikeLimits};
use crate::detect::cycle::{Cycle, CycleLimits};
use crate::detect::doom_loop::Call;
use crate::detect::leak::{Leak, LeakLimits};
use crate::detect::script::{Script, ScriptLimits};
use crate::detect::unknown_name::{KnownNames, UnknownName};
use crate::detect::{Detector, Found};
use crate::view::piece::{Language, Piece};

/// Holds what this module says against one input.
pub fn run(data: &[u8]) {
    let [which, size, text @ ..] = data else {
        return;
    };
    let known = std::sync::Arc::new(KnownNames::new(["known"]));
    let languages = ["rust", "toml", "ts", "python", "go"];
    let language = Language::new(languages[usize::from(*which) % languages.len()]);
    let circles = CycleLimits {
        chars: 40,
        times: 3,
        ..CycleLimits::default()
    };
    let near = AlikeLimits {
        words: 1,
        times: 2,
        of: 3,
        ..AlikeLimits::default()
    };
    let few = ScriptLimits {
        letters: 4,
        of_letters: 6,
        words: 2,
        ..ScriptLimits::default()
    };
    let size = usize::from(*size) + 1;
    same(|| Cycle::new(circles), text, size);
    same(|| Alike::new(near), text, size);
    same(|| Leak::new(LeakLimits::default()), text, size);
    same(|| Script::new(few), text, size);
    same(|| UnknownName::new(known.clone(), language), text, size);
    let _ = Call::new("tool", text);
}

fn same<D: Detector>(new: impl Fn() -> D, text: &[u8], size: usize) {
    let whole = found(new(), text, text.len().max(1));
    assert_eq!(found(new(), text, 1), whole, "byte by byte");
    assert_eq!(found(new(), text, size), whole, "in pieces");
    for found in whole {
        assert!(found.start <= found.end && found.decided <= text.len() as u64);
    }
}

fn found(mut detector: impl Detector, text: &[u8], size: usize) -> Vec<Found> {
    let mut all = Vec::new();
    for (index, piece) in text.chunks(size).enumerate() {
        let piece = Piece::verbatim(piece, (index * size) as u64);
        detector.push(piece, &mut |found| all.push(found));
    }
    detector.finish(text.len() as u64, &mut |found| all.push(found));
    all
}
