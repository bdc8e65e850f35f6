//! The layouts of pattern sets, the sizes of their tables after a text, and the path of each delta. They decide how
//! fast a delta is and change no hit. They are compared with a golden file, so that no change of them goes unnoticed;
//! `UPDATE_GOLDEN=1` rewrites the file.

use std::fmt::Write as _;

use super::{PartitionPlan, Random, matcher_of, parsed, patterns_that_multiply, plan};
use crate::partition::profile::TEXT;
use crate::simd::SimdLevel;
use crate::table::sparse::SparseRows;
use crate::test_support::EVERY_GAP;
use crate::{Automaton, MAX_SHORT_LEN, Matcher};
#[cfg(target_arch = "x86_64")]
use ttsr_testing::skip;

/// A layout of some patterns.
struct Set {
    name: &'static str,
    patterns: Vec<String>,
    plan: PartitionPlan,
    table_bytes: usize,
}

fn classes() -> Vec<Set> {
    let set = |name, patterns: Vec<String>| Set {
        name,
        patterns,
        plan: PartitionPlan::USUAL,
        table_bytes: 32 << 20,
    };
    let owned = |patterns: &[&str]| -> Vec<String> {
        patterns.iter().map(|&pattern| pattern.to_owned()).collect()
    };
    let few = owned(&[
        r"git\s+push\s+--force",
        r"(?i)password\s*=",
        r"rm -[a-z]*r[a-z]*f",
        "TODO",
        r"\bfixme\b",
        "unwrap\\(\\)",
        "sk-[A-Za-z0-9]{20}",
        "^#!",
        "[a-z]+@[a-z]+\\.com$",
        "étude|naïve",
    ]);
    let busy = |sparse| PartitionPlan {
        sparse,
        ..plan(Some(EVERY_GAP), 1, None)
    };
    vec![
        set("none", Vec::new()),
        set("one word", owned(&["needle"])),
        set("one pair of rare bytes", owned(&["zz~Q"])),
        set("no two bytes that differ", owned(&["zzzz"])),
        set("few", few.clone()),
        set("thirty words", words(30)),
        set("many words", words(300)),
        set("words and classes", words_and_classes(160)),
        set("beginnings", beginnings()),
        set(
            "gaps",
            owned(&["ab.{2,60}cd", "x[a-f]{40,}y", "(?:one|two).*three"]),
        ),
        set("any text", owned(&["[a-z]", r"\w\w\w", "e.*t"])),
        set(
            "bytes",
            owned(&[r"(?-u:\xE2\x82)", "plain", "(?-u:[\\x80-\\xFF]{3})"]),
        ),
        set(
            "scripts",
            owned(&[r"\p{Greek}+\d", r"[\p{Cyrillic}--\p{Upper}]{4}", r"\w+é"]),
        ),
        set("states that multiply", patterns_that_multiply()),
        Set {
            name: "states that multiply, together",
            patterns: patterns_that_multiply(),
            plan: busy(SparseRows::USUAL),
            table_bytes: 32 << 20,
        },
        Set {
            name: "states that multiply, in sparse rows",
            patterns: patterns_that_multiply(),
            plan: busy(SparseRows {
                full_rows: 64,
                entries: 24,
            }),
            table_bytes: 32 << 20,
        },
        Set {
            name: "states that multiply, in little memory",
            patterns: patterns_that_multiply(),
            plan: busy(SparseRows::NONE),
            table_bytes: 1 << 20,
        },
        Set {
            name: "states that multiply, tried in more memory than there is",
            patterns: patterns_that_multiply(),
            plan: PartitionPlan::USUAL,
            table_bytes: 256 << 10,
        },
        Set {
            name: "many words, tried in more memory than there is",
            patterns: words(300),
            plan: PartitionPlan::USUAL,
            table_bytes: 1 << 20,
        },
        set("states that multiply, with suffixes that are shared", {
            let suffixes = ["ed", "ing", "ly"].map(|end| format!("[a-y]{end}[a-z ]{{3,90}}zq"));
            let more = b"abcdfghlmnprstuwy"
                .map(|letter| format!("{0}[a-z, ]{{6,40}}{0}[a-z ]{{9,30}}q9", char::from(letter)));
            patterns_that_multiply()
                .into_iter()
                .chain(suffixes)
                .chain(more)
                .collect()
        }),
        Set {
            name: "any text, each once",
            patterns: owned(&["[a-z]", r"\w\w\w", "e.{2,60}t", "o.{2,70}n|q", "z{9}|fn"]),
            plan: plan(Some(EVERY_GAP), 2, None),
            table_bytes: 1 << 20,
        },
        Set {
            name: "few, in little memory",
            patterns: few,
            plan: PartitionPlan::USUAL,
            table_bytes: 1 << 12,
        },
    ]
}

/// Returns words of the text with a changed end, so that they do not match.
fn words(count: usize) -> Vec<String> {
    let words = TEXT.split(|char: char| !char.is_ascii_lowercase());
    let mut words: Vec<&str> = words.filter(|word| word.len() > 3).collect();
    words.sort_unstable();
    words.dedup();
    let words = words.iter().cycle().take(count).enumerate();
    words
        .map(|(at, word)| format!("{word}{}", at % 7))
        .collect()
}

fn words_and_classes(count: usize) -> Vec<String> {
    let classes = [
        "[0-9a-f]{4}",
        r"\s*=\s*",
        "[A-Z]+",
        r"\(\w*\)",
        "(?i)end",
        ".?",
    ];
    let words = words(count).into_iter().enumerate();
    words
        .map(|(at, word)| format!("{word}{}{}", classes[at % classes.len()], at % 3))
        .collect()
}

/// Returns patterns with many prefixes, and one whose window is far from the start of a match.
fn beginnings() -> Vec<String> {
    let mut patterns: Vec<String> = (b'A'..=b'Z')
        .map(|byte| format!("(?:{0}[a-z]|[x-z]{0}|-){0}~[0-9]", char::from(byte)))
        .collect();
    patterns.push("[a-y ]{9}Q#Q#".into());
    patterns
}

/// Returns the text cut into deltas as they occur in replies, then into long pieces.
fn deltas() -> Vec<&'static [u8]> {
    let text = TEXT.as_bytes();
    let mut random = Random::new(11);
    let mut deltas = Vec::new();
    for longest in [9, 9, 30] {
        deltas.extend(random.pieces(text, longest));
    }
    for size in [64, 300, 1024, 5000, 9000, 9000] {
        deltas.extend(text.chunks(size));
    }
    deltas
}

/// The number of deltas by the entry point that accepted them, and the number of hits.
#[derive(Debug, Default)]
struct Ways {
    fastest: usize,
    short: usize,
    long: usize,
    hits: usize,
}

fn read(matcher: &Matcher) -> Ways {
    let mut ways = Ways::default();
    let mut cursor = matcher.start();
    for (at, delta) in deltas().into_iter().enumerate() {
        if at % 400 == 0 {
            matcher.restart(&mut cursor);
        }
        if delta.len() <= MAX_SHORT_LEN
            && cursor.push_short(delta, &mut [0; MAX_SHORT_LEN], |_| true)
        {
            ways.fastest += 1;
        } else if matcher
            .push_short_with_suffixes(&mut cursor, delta)
            .is_some()
        {
            ways.short += 1;
        } else {
            ways.long += 1;
            matcher.push(&mut cursor, delta, |_| ways.hits += 1);
        }
    }
    ways
}

/// Returns the shape of a set that is compiled for this SIMD level.
fn describe(set: &Set, level: SimdLevel) -> String {
    let patterns: Vec<&str> = set.patterns.iter().map(String::as_str).collect();
    let plan = PartitionPlan {
        level: Some(level),
        ..set.plan
    };
    let matcher = matcher_of(&parsed(&patterns), set.table_bytes, plan);
    let ways = read(&matcher);
    let mut out = format!(
        "{}: {} patterns; deltas: {} fastest, {} short, {} long; {} hits\n",
        set.name,
        patterns.len(),
        ways.fastest,
        ways.short,
        ways.long,
        ways.hits
    );
    for automaton in matcher.automata() {
        describe_union(automaton, &mut out);
    }
    out
}

/// Returns the shape of a matcher that tracks where it is idle, with the bytes it read in each way.
#[cfg(target_arch = "x86_64")]
fn describe_spans() -> String {
    let patterns = ["needle[0-9]{2,9}", "e [a-z]+ing", r"\bfn \w+\(", "x[ab]*y"];
    let matcher = Matcher::for_full_matches(&parsed(&patterns), 1 << 20).expect("few characters");
    let mut cursor = matcher.start();
    let (mut marked, mut run, mut pushed, mut idle_until, mut ends) = (0, 0, 0, 0, 0);
    for delta in deltas() {
        if let Some(step) = matcher.try_step_short(&mut cursor, delta) {
            matcher.accept_short(&mut cursor, delta, step);
            (marked, idle_until) = (marked + 1, idle_until + step.idle_until());
            continue;
        }
        let mut at = 0;
        while at < delta.len() {
            let stretch = matcher.run(&mut cursor, &delta[at..]);
            (run, idle_until) = (run + stretch.stepped, idle_until + stretch.idle_until);
            at += stretch.stepped;
            if let Some(byte) = delta.get(at..=at) {
                matcher.push(&mut cursor, byte, |_| ends += 1);
                (pushed, idle_until) = (
                    pushed + 1,
                    idle_until + usize::from(matcher.is_idle(&cursor)),
                );
                at += 1;
            }
        }
    }
    let mut out = format!(
        "spans: {marked} deltas marked, {run} bytes run, {pushed} pushed, {idle_until} up to where it was quiet; {ends} ends\n"
    );
    describe_union(&matcher.first, &mut out);
    out
}

fn describe_union(automaton: &Automaton, out: &mut String) {
    let size = automaton.lazy.size();
    let patterns: Vec<u32> = automaton.patterns.iter().map(|it| it.0).collect();
    let _ = writeln!(
        out,
        "  {} patterns #{:08x}: {} NFA states, {} cuts; {}",
        patterns.len(),
        sum(&patterns),
        size.nfa_states,
        size.cuts,
        automaton.lazy.shape()
    );
    let _ = writeln!(
        out,
        "    {} states, {} bytes of table, {} of sets, full {}, generation {}",
        size.states, size.table_bytes, size.set_bytes, size.is_full, size.generation
    );
}

/// Returns a short hash of a list.
pub(crate) fn sum(of: &(impl std::fmt::Debug + ?Sized)) -> u32 {
    let text = format!("{of:?}");
    // FNV-1a: <http://www.isthe.com/chongo/tech/comp/fnv/>.
    text.bytes().fold(0x811c_9dc5, |sum, byte| {
        (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

fn held_to(name: &str, level: SimdLevel, more: &str) {
    let mut found: String = classes().iter().map(|set| describe(set, level)).collect();
    found += more;
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("src/tests")
        .join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &found).expect("the folder is there");
    }
    let known = std::fs::read_to_string(&path).expect("the file is there");
    for (known, found) in known.lines().zip(found.lines()) {
        assert_eq!(found, known, "{name}; UPDATE_GOLDEN=1 writes it anew");
    }
    assert_eq!(found.lines().count(), known.lines().count(), "{name}");
}

#[test]
fn layouts_and_tables_are_those_of_the_file() {
    held_to("shape.txt", SimdLevel::Portable, "");
}

#[test]
#[cfg(target_arch = "x86_64")]
fn with_filters_layouts_and_tables_are_those_of_the_file() {
    if SimdLevel::best() == SimdLevel::Portable {
        return skip::test("this processor has no AVX-512, so there are no filters");
    }
    held_to("shape-avx512.txt", SimdLevel::best(), &describe_spans());
}
