//! Every byte of code is exactly one of comment, string and other code, and the same under every split. Every byte of
//! `code-only` and `uncommented` is code, or the part of a comment or a string that belongs to them.

use crate::seen::{Seen, pieces};
use ttsr_views::chunk::{DecidedOffset, Language, RegionSet, Tag};
use ttsr_views::code::CodeView;

const LANGUAGES: [&str; 13] = [
    "rust", "go", "tsx", "c", "java", "css", "json", "python", "bash", "toml", "yaml", "sql",
    "html",
];

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [cuts, language, text @ ..] = data else {
        return;
    };
    let language = LANGUAGES[usize::from(*language) % LANGUAGES.len()];
    let tag = Tag {
        regions: RegionSet::CODE,
        language: Language::new(language),
        ..Tag::default()
    };
    let end = text.len() as u64;
    let read = |size: usize| {
        let (mut code, mut seen) = (CodeView::default(), Seen::default());
        code.set_tag(tag, DecidedOffset::at_once(0), &mut seen);
        for piece in pieces(text, size) {
            code.push(piece, &mut seen);
        }
        code.cut(DecidedOffset::at_once(end), &mut seen);
        seen
    };
    let whole = read(text.len().max(1));
    assert_eq!(read(1), whole, "byte by byte");
    assert_eq!(read(usize::from(*cuts) % 29 + 1), whole, "cut otherwise");
    assert_eq!(whole.bytes.len(), text.len(), "every byte is handed on");
    for (at, &(byte, tag, start, ..)) in whole.bytes.iter().enumerate() {
        assert_eq!((byte, start), (text[at], at as u64));
        let is_in = |region: RegionSet| tag.regions.contains(region);
        let both = is_in(RegionSet::CODE_ONLY) && is_in(RegionSet::UNCOMMENTED);
        match (is_in(RegionSet::COMMENT), is_in(RegionSet::STRING)) {
            (true, true) => panic!("a byte is in a comment and in a string"),
            (true, false) => assert!(!is_in(RegionSet::UNCOMMENTED)),
            (false, true) => assert!(both || !is_in(RegionSet::CODE_ONLY)),
            (false, false) => assert!(both),
        }
    }
}
