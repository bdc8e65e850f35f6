//! Text folded byte by byte, or in pieces of any size, equals the text folded at once: the same bytes at the same
//! places, decided at the same time.

use ttsr_views::chunk::Chunk;
use ttsr_views::fold::{FoldSet, FoldView, fold_text};

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [which, size, text @ ..] = data else {
        return;
    };
    let names = ["case", "invisible", "nfkc", "confusables"];
    let folds = names
        .iter()
        .enumerate()
        .filter(|(bit, _)| which >> bit & 1 == 1);
    let folds = folds.fold(FoldSet::default(), |folds, (_, name)| {
        folds | FoldSet::from_name(name).expect("it is a name")
    });
    let (whole, overlong) = folded(folds, text, text.len().max(1));
    assert_eq!(folded(folds, text, 1), (whole.clone(), overlong));
    let size = usize::from(*size) + 1;
    assert_eq!(folded(folds, text, size), (whole.clone(), overlong));
    if let (Ok(text), 0) = (std::str::from_utf8(text), overlong) {
        let bytes: Vec<u8> = whole.iter().map(|byte| byte.0).collect();
        assert_eq!(bytes, fold_text(folds, text).into_bytes());
    }
}

fn folded(folds: FoldSet, text: &[u8], size: usize) -> (Vec<(u8, u64, u64, u64)>, u64) {
    let mut bytes = Vec::new();
    let mut note = |piece: Chunk<'_>| {
        for (index, &byte) in piece.bytes.iter().enumerate() {
            bytes.push((
                byte,
                piece.start(index),
                piece.end(index),
                piece.decided(index),
            ));
        }
    };
    let mut fold = FoldView::new(folds);
    for (index, piece) in text.chunks(size).enumerate() {
        fold.push(Chunk::verbatim(piece, (index * size) as u64), &mut note);
    }
    fold.finish(text.len() as u64, &mut note);
    (bytes, fold.overlong())
}
