//! Any text is a pack or has problems that can be shown.

use proptest::prelude::*;
use ttsr::{Level, Pack};

use super::Folder;

/// Asserts that loading returns, and that each diagnostic can be printed and has a span inside the text.
fn survives(text: &str) {
    let result = Pack::from_toml(text);
    let diagnostics = match &result {
        Ok(pack) => pack.warnings(),
        Err(error) => {
            assert!(
                error
                    .diagnostics()
                    .iter()
                    .any(|problem| problem.level() == Level::Error)
            );
            error.diagnostics()
        }
    };
    let lines: Vec<&str> = text.split('\n').collect();
    for problem in diagnostics {
        let line = lines
            .get(problem.line() as usize - 1)
            .expect("a line of the text");
        assert!(
            problem.column() as usize <= line.chars().count() + 1,
            "{problem}"
        );
        assert!(
            !problem
                .render()
                .replace('\n', "")
                .contains(char::is_control),
            "{problem:?}"
        );
        assert!(problem.render().len() < 16 << 10);
    }
}

/// Pieces of rule files, and some that do not belong in one.
const PIECES: [&str; 60] = [
    "schema = 1\n",
    "schema = 2\n",
    "[pack]\n",
    "name = \"demo\"\n",
    "engine = \">=9\"\n",
    "[defaults]\n",
    "[lists]\n",
    "l = [\"a\", 1]\n",
    "[rule.a]\n",
    "[rule.b]\n",
    "[rule]\n",
    "[[rule]]\n",
    "[[rule.a]]\n",
    "[rule.a.match]\n",
    "a.b = 1\n",
    "rule.a.description = 'd'\n",
    "description = \"d\"\n",
    "match.any = [",
    "{ regex = '(' }",
    "{ literal = \"\\u00e9\" }",
    "{ word = '''\n",
    "'''",
    "\"\"\"",
    ", ",
    "]",
    "}",
    "{",
    "[",
    "\n",
    "= ",
    "on = [\"text\"]\n",
    "tools = [\"@l\"]\n",
    "paths = [\"!**x\"]\n",
    "args = [\"a.*\"]\n",
    "message = \"{{ x }}\"\n",
    "message = \"{% if path %}\"\n",
    "examples.match = [\"x\"]\n",
    "examples = 1\n",
    "severity = \"info\"\n",
    "severity = inf\n",
    "priority = 0x7fffffff\n",
    "[[rule.a.case]]\n",
    "append.match.none = [{ word = 'x' }]\n",
    "[override.\"demo/a\"]\n",
    "[[allow]]\n",
    "reason = 'r'\nrules = ['*']\n",
    "until = 2027-01-31\n",
    "extends = [\"demo\", \"std/secrets\"]\n",
    "grants = [\"retry\"]\n",
    "match.within = { lines = 1 }\n",
    "match.all = [{ literal = 'a' }, { word = 'b' }]\n",
    "match.repetition = {}\n",
    "match.count = 2\n",
    "region = [\"code\", \"prose\"]\n",
    "retry = { max = 0, then = 'abort' }\n",
    "consult.prompt = '{{ tool }}'\n",
    "action = \"redact\"\n",
    "\r",
    "\u{feff}",
    "é\u{202e}",
];

proptest! {
    #[test]
    fn any_text_is_survived(text in "\\PC{0,200}") {
        survives(&text);
    }

    #[test]
    fn toml_like_text_is_survived(pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..40)) {
        survives(&pieces.concat());
    }

    #[test]
    fn mutated_packs_are_survived(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..12_usize, prop::sample::select(&PIECES[..])), 1..6)
    ) {
        let mut text = include_str!("everything.toml").to_owned();
        for (place, removed, inserted) in edits {
            let start = text.floor_char_boundary(place.index(text.len().max(1)));
            let end = text.floor_char_boundary((start + removed).min(text.len())).max(start);
            text.replace_range(start..end, inserted);
        }
        survives(&text);
    }

    #[test]
    fn any_bytes_in_a_file_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let folder = Folder::new();
        let file = folder.write("a.toml", &bytes);
        prop_assert!(Pack::load(file).is_err());
    }
}

#[test]
fn a_key_of_a_million_segments_does_not_overflow_the_stack() {
    let path = "a.".repeat(1_000_000);
    for text in [
        format!("{path}b = 1"),
        format!("[{path}b]"),
        format!("x = {{ {path}b = 1 }}"),
    ] {
        assert!(Pack::from_toml(&text).is_err());
    }
}

#[test]
fn a_hundred_thousand_duplicate_keys_are_reported_in_linear_time() {
    let error = Pack::from_toml(&"a = 1\n".repeat(100_000)).unwrap_err();
    assert_eq!(error.diagnostics().len(), 1001);
}
