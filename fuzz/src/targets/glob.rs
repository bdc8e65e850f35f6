//! A glob is read as globset reads it, and matches the same texts.

use globset::GlobBuilder;
use ttsr_views::glob::{Glob, GlobError, GlobOptions};

// Layout of the input: a letter whose low bits are the options, the glob, a zero, and texts with zeros between them.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let Some((&bits, rest)) = data.split_first() else {
        return;
    };
    // globset matches bytes, so only ASCII is the same. It removes an escaped comma or brace before `**`.
    let Ok(text) = std::str::from_utf8(rest) else {
        return;
    };
    let mut fields = text.split('\0');
    let glob = fields.next().unwrap_or_default();
    let is_other = |glob: &str| glob.contains("\\,**") || glob.contains("\\{**");
    if !text.is_ascii() || glob.len() > 256 || is_other(glob) {
        return;
    }
    let options = GlobOptions {
        literal_separator: bits & 1 != 0,
        case_insensitive: bits & 2 != 0,
        empty_alternates: bits & 4 != 0,
    };
    let theirs = GlobBuilder::new(glob)
        .backslash_escape(true)
        .literal_separator(options.literal_separator)
        .case_insensitive(options.case_insensitive)
        .empty_alternates(options.empty_alternates)
        .build();
    let ours = Glob::new(glob, options);
    if matches!(ours, Err(GlobError::TooDeep)) {
        return;
    }
    assert_eq!(ours.is_ok(), theirs.is_ok(), "{glob:?}: {ours:?}");
    let (Ok(ours), Ok(theirs)) = (ours, theirs) else {
        return;
    };
    let theirs = theirs.compile_matcher();
    for text in fields.take(8) {
        assert_eq!(
            ours.is_match(text),
            theirs.is_match(text),
            "{glob:?} on {text:?}"
        );
    }
}
