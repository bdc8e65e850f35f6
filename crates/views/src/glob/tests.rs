use std::cell::Cell;

use globset::GlobBuilder;
use proptest::prelude::*;
use ttsr_testing::scale;

use super::*;

const PLAIN: GlobOptions = GlobOptions {
    literal_separator: false,
    case_insensitive: false,
    empty_alternates: false,
};
const PATH: GlobOptions = GlobOptions {
    literal_separator: true,
    ..PLAIN
};
const NAME: GlobOptions = GlobOptions {
    case_insensitive: true,
    ..PLAIN
};

/// Returns the verdict of `globset`, or `None` if it refuses the glob.
fn oracle(glob: &str, options: GlobOptions) -> Option<globset::GlobMatcher> {
    let glob = GlobBuilder::new(glob)
        .backslash_escape(true)
        .literal_separator(options.literal_separator)
        .case_insensitive(options.case_insensitive)
        .empty_alternates(options.empty_alternates)
        .build();
    Some(glob.ok()?.compile_matcher())
}

#[test]
fn globs_match_what_the_table_says_and_what_globset_matches() {
    #[rustfmt::skip]
    let table: [(GlobOptions, &str, &[&str], &[&str]); 37] = [
        (PLAIN, "", &[""], &["a"]),
        (PLAIN, "a", &["a"], &["", "A", "aa", "ba"]),
        (PLAIN, "?", &["a", "/", "\n"], &["", "aa"]),
        (PLAIN, "*", &["", "a", "a/b\n"], &[]),
        (PLAIN, "*a*", &["a", "bab", "/a"], &["", "b", "A"]),
        (PLAIN, "a*b", &["ab", "a/b", "abb"], &["a", "b", "abc"]),
        (PLAIN, "a**b", &["ab", "a/b"], &["a"]),
        (PATH, "*", &["", "a"], &["/", "a/b"]),
        (PATH, "?", &["a"], &["/"]),
        (PATH, "*.rs", &["a.rs", ".rs"], &["a/b.rs", "a.rs.txt"]),
        (PATH, "**", &["", "a", "a/b", "/"], &[]),
        (PATH, "**/**", &["", "a", "a/b", "/"], &[]),
        (PATH, "**/a", &["a", "b/a", "/a", "b/c/a"], &["ba", "a/b"]),
        (PATH, "a/**", &["a/", "a/b", "a/b/c"], &["a", "ab"]),
        (PATH, "a/**/**", &["a/", "a/b/c"], &["a"]),
        (PATH, "a/**/b", &["a/b", "a/c/b", "a/c/d/b"], &["ab", "a/cb"]),
        (PATH, "{**/a,b/**}", &["a", "c/a", "b/", "b/c"], &["b", "c"]),
        (PATH, "{**,x}", &["a", "x"], &["a/b"]),
        (PATH, "a/{**}", &["a/b"], &["a/b/c"]),
        (PATH, "[!a]", &["b", "/"], &["a", ""]),
        (PLAIN, "[a-c]", &["a", "b", "c"], &["d", "-"]),
        (PLAIN, "[b-b]", &["b"], &["a", "c", "-"]),
        (PLAIN, "[!a-c]", &["d"], &["b"]),
        (PLAIN, "[^a]", &["b", "^"], &["a"]),
        (PLAIN, "[]a]", &["]", "a"], &["[", "b"]),
        (PLAIN, "[!]a]", &["b"], &["]", "a"]),
        (PLAIN, "[-a]", &["-", "a"], &["b"]),
        (PLAIN, "[a-]", &["-", "a"], &["b"]),
        (PLAIN, "[+--]", &["+", ",", "-"], &["."]),
        (PLAIN, r"[\]", &[r"\"], &["]"]),
        (PLAIN, "{a,b{c,d}}", &["a", "bc", "bd"], &["b", "ac"]),
        (PLAIN, "x{a,}", &["xa"], &["x"]),
        (PLAIN, "x{}{,}{{},{}}", &["x"], &["x,"]),
        (GlobOptions { empty_alternates: true, ..PLAIN }, "x{a,}", &["xa", "x"], &["xb"]),
        (PLAIN, r"\*\{a,b\}", &["*{a,b}"], &["a"]),
        (NAME, "aB[c-d]*E", &["AbCxe", "abde", "ABDE"], &["abeE"]),
        (NAME, "*Ab*[!X]", &["xaBy", "ABab"], &["abx", "ABX"]),
    ];
    for (options, glob, matching, others) in table {
        let compiled = Glob::new(glob, options).unwrap_or_else(|error| panic!("{glob}: {error}"));
        let oracle = oracle(glob, options).unwrap();
        let texts = matching.iter().map(|text| (text, true));
        for (text, want) in texts.chain(others.iter().map(|text| (text, false))) {
            assert_eq!(compiled.is_match(text), want, "{glob} on {text:?}");
            assert_eq!(oracle.is_match(text), want, "globset: {glob} on {text:?}");
        }
    }
}

#[test]
fn a_character_is_one_character_whatever_its_length() {
    for (options, glob, text, want) in [
        (PLAIN, "?", "é", true),
        (PLAIN, "??", "é", false),
        (PLAIN, "[é]", "é", true),
        (PLAIN, "[à-ï]x", "éx", true),
        (PLAIN, "[!é]", "é", false),
        (PLAIN, "[!a]", "é", true),
        (PATH, "ä*", "äöü", true),
        // Only ASCII letters are the same in both cases.
        (NAME, "É", "é", false),
        (NAME, "*é*", "XÉX", false),
        (NAME, "*é*", "XéX", true),
    ] {
        let glob_compiled = Glob::new(glob, options).unwrap();
        assert_eq!(glob_compiled.is_match(text), want, "{glob} on {text}");
    }
}

#[test]
fn a_glob_that_cannot_be_read_is_refused_with_its_reason() {
    let deep = format!(
        "{}a{}",
        "{".repeat(MAX_DEPTH + 1),
        "}".repeat(MAX_DEPTH + 1)
    );
    for (glob, error) in [
        ("[", GlobError::UnclosedClass),
        ("[]", GlobError::UnclosedClass),
        ("[!]", GlobError::UnclosedClass),
        ("a[z-a]", GlobError::EmptyRange('z', 'a')),
        ("{a,{b}", GlobError::UnclosedGroup),
        ("a}", GlobError::UnopenedGroup),
        ("a\\", GlobError::DanglingEscape),
        (&deep, GlobError::TooDeep),
        (&"a".repeat(MAX_BYTES + 1), GlobError::TooLong),
    ] {
        assert_eq!(Glob::new(glob, PLAIN).unwrap_err(), error, "{glob}");
    }
    let deepest = format!("{}a{}", "{".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH));
    assert!(Glob::new(&deepest, PLAIN).unwrap().is_match("a"));
    let glob = Glob::new(&"?".repeat(MAX_BYTES), PLAIN).unwrap();
    let most = MAX_SET_STATES / (MAX_BYTES + 1);
    assert!(GlobSet::new(vec![glob.clone(); most]).is_ok());
    let error = GlobSet::new(vec![glob; most + 1]).unwrap_err();
    assert_eq!(error, GlobError::TooManyStates);
}

/// A matcher that expands groups or backtracks does not end on these.
#[test]
fn hostile_globs_cost_no_more_than_their_length() {
    let groups = "{a,aa}".repeat(600);
    let stars = format!("{}b", "*a".repeat(1000));
    let nested = format!("{}a{}", "{a*,".repeat(MAX_DEPTH), "}".repeat(MAX_DEPTH));
    let nested = format!("{}[d]", nested.repeat(20));
    let folders = format!("{}b", "*/".repeat(1000));
    for (glob, text) in [
        (&groups, "a".repeat(1201)),
        (&groups, "a".repeat(599)),
        (&stars, format!("{}b", "a".repeat(999))),
        (&nested, "a".repeat(2000)),
        (&folders, format!("{}b", "a/".repeat(999))),
    ] {
        let compiled = Glob::new(glob, PATH).unwrap();
        assert!(compiled.states() <= 3 * glob.len(), "{glob}");
        assert!(!compiled.is_match(&text), "{glob} on {text}");
    }
    assert!(Glob::new(&groups, PATH).unwrap().is_match(&"a".repeat(900)));
    assert!(
        Glob::new(&stars, PATH)
            .unwrap()
            .is_match(&format!("{}b", "a".repeat(1500)))
    );
}

fn joined(pieces: &'static [&'static str], most: usize) -> impl Strategy<Value = String> {
    let pieces = proptest::collection::vec(proptest::sample::select(pieces), 0..most);
    pieces.prop_map(|pieces| pieces.concat())
}

/// Compares the results for one glob. Returns the number of texts that it matches, or `None` if it is not valid.
fn compare(
    glob: &str,
    options: GlobOptions,
    texts: &[String],
) -> Result<Option<u32>, TestCaseError> {
    // globset removes an escaped comma or brace before `**`, as if it were a slash.
    if glob.contains("\\,**") || glob.contains("\\{**") {
        return Ok(None);
    }
    let ours = Glob::new(glob, options);
    let theirs = oracle(glob, options);
    prop_assert_eq!(ours.is_ok(), theirs.is_some(), "{:?}", ours);
    let (Ok(ours), Some(theirs)) = (ours, theirs) else {
        return Ok(None);
    };
    let mut hits = 0;
    for text in texts {
        let is_match = ours.is_match(text);
        hits += u32::from(is_match);
        prop_assert_eq!(is_match, theirs.is_match(text), "{} on {}", glob, text);
    }
    Ok(Some(hits))
}

#[test]
fn random_globs_match_what_globset_matches() {
    const GLOB: &[&str] = &[
        "a",
        "b",
        "A",
        "/",
        "/",
        ".",
        "*",
        "*",
        "**",
        "**/",
        "/**",
        "?",
        "[ab]",
        "[!a]",
        "[a-b]",
        "[B-a/]",
        "[]-]",
        "{",
        "{",
        "}",
        "}",
        ",",
        ",",
        "-",
        "[",
        "]",
        "\\",
        "\\*",
        "{a,b}",
        "{**/a,b/**}",
        "{,a}",
        "!",
    ];
    const TEXT: &[&str] = &["a", "a", "b", "A", "B", "/", "/", ".", "*", ",", "-", "]"];
    let cases = scale(100_000) as u32;
    let config = ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let options = proptest::array::uniform3(any::<bool>());
    let texts = proptest::collection::vec(joined(TEXT, 6), 8);
    let mut runner = proptest::test_runner::TestRunner::new(config);
    let (valid, hits) = (Cell::new(0), Cell::new(0));
    let input = (joined(GLOB, 9), options, texts);
    let result = runner.run(&input, |(glob, options, texts)| {
        let [literal_separator, case_insensitive, empty_alternates] = options;
        let options = GlobOptions {
            literal_separator,
            case_insensitive,
            empty_alternates,
        };
        if let Some(matches) = compare(&glob, options, &texts)? {
            valid.set(valid.get() + 1);
            hits.set(hits.get() + matches);
        }
        Ok(())
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    println!("{} valid globs, {} matches", valid.get(), hits.get());
    assert!(valid.get() > cases / 10 && hits.get() > cases / 10);
}
