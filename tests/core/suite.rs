//! The engine-independent suite: every case of `tests/data/*.toml`, under every way to cut it.
//!
//! A case has an input (`deltas`) and the expected output (`hits`, `counters`). It is run as given, with adjacent
//! deltas of a part joined, byte by byte, byte by byte with the parts alternating, at every two-way cut, at seeded
//! random cuts, and all of that with empty deltas between. The hits of each part and the counters must be the same
//! every time.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ttsr::stream::{Counters, Hits};
use ttsr::{Pack, PackBuilder, Stream};

use deliveries::{Step, deliveries, with_empty};
use format::{Case, File, HitText};

mod deliveries;
mod format;

/// Makes a test of each file: its name, and the number of cases that it has at least.
macro_rules! files {
    ($($test:ident: $file:literal, $least:literal;)*) => {
        $(#[test]
        fn $test() {
            run($file, include_str!(concat!("../data/", $file)), $least);
        })*
    };
}

files! {
    delta_shapes: "deltas.toml", 67;
    parts: "parts.toml", 36;
    tool_input: "tool-input.toml", 104;
    scopes: "scopes.toml", 49;
    detection: "detection.toml", 55;
    regressions: "regressions.toml", 30;
}

/// The hits of each part, in order, and the counters.
type Outcome = (BTreeMap<u32, Vec<HitText>>, BTreeMap<String, u64>);

fn run(name: &str, text: &str, least: usize) {
    let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut names: Vec<&str> = file.case.iter().map(|case| case.name.as_str()).collect();
    names.sort_unstable();
    let twice = names.windows(2).find(|pair| pair[0] == pair[1]);
    assert_eq!(twice, None, "{name}: a name twice");
    let mut failures = String::new();
    let mut runs = 0;
    for case in &file.case {
        match check(case, &case.load(&file.packs)) {
            Ok(count) => runs += count,
            Err(failure) => writeln!(failures, "{}: {failure}", case.name).unwrap(),
        }
    }
    let cases = file.case.len();
    println!("{name}: {cases} cases, {runs} runs");
    assert!(failures.is_empty(), "{name}:\n{failures}");
    assert!(cases >= least, "{name}: {cases} cases");
}

/// Runs the case in every way and returns the number of runs, or the first difference.
fn check(case: &Case, pack: &Pack) -> Result<usize, String> {
    let mut hits: BTreeMap<u32, Vec<HitText>> = BTreeMap::new();
    for hit in &case.hits {
        hits.entry(hit.part).or_default().push(hit.clone());
    }
    let expected = (hits, case.counters.clone());
    let mut runs = 0;
    for (way, steps) in deliveries(&case.steps()) {
        let empty = with_empty(&steps);
        for (between, steps) in [("", steps), (" with empty deltas", empty)] {
            runs += 1;
            let found = outcome(pack, &steps);
            if found != expected {
                return Err(format!(
                    "{way}{between}\n  expected {expected:?}\n  found    {found:?}"
                ));
            }
        }
    }
    let found = outcome(&read_back(pack), &case.steps());
    match found == expected {
        true => Ok(runs + 1),
        false => Err(format!(
            "written and read back\n  expected {expected:?}\n  found    {found:?}"
        )),
    }
}

/// Returns the pack after it was written as bytes and read back.
fn read_back(pack: &Pack) -> Pack {
    let builder = Pack::builder().compiled("t.pack", &pack.to_bytes());
    let builder = builder.limits(pack.limits().clone());
    let builder = pack.root().into_iter().fold(builder, PackBuilder::root);
    let read = builder.build().unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(read.rules(), pack.rules());
    read
}

fn outcome(pack: &Pack, steps: &[Step]) -> Outcome {
    let mut stream = pack.stream();
    let mut found = Vec::new();
    for step in steps {
        let mut add = |hits: Hits<'_>| found.extend(hits.iter().copied());
        match step {
            Step::Open(part, channel) => stream.open(*part, *channel),
            Step::Tool(part, name) => add(stream.set_tool(*part, name, "call")),
            Step::Push(part, bytes) => add(stream.push(*part, bytes)),
            Step::Close(part) => add(stream.close(*part)),
        }
    }
    let mut hits: BTreeMap<u32, Vec<HitText>> = BTreeMap::new();
    for hit in found {
        assert!(stream.excerpt(&hit).contains(stream.matched(&hit)));
        hits.entry(hit.part.0).or_default().push(HitText {
            rule: pack.rule(hit.rule).id["t/".len()..].to_owned(),
            part: hit.part.0,
            arg: stream.arg(&hit).map(str::to_owned),
            end: hit.end,
            decided: hit.decided,
        });
    }
    (hits, counters(&stream))
}

/// Returns the counters that are not zero.
fn counters(stream: &Stream) -> BTreeMap<String, u64> {
    let counters: &Counters = &stream.counters();
    let named = toml::Table::try_from(counters).expect("counters are a table");
    let mut counts: BTreeMap<String, u64> = named.try_into().expect("each counter is a count");
    counts.retain(|_, count| *count > 0);
    counts
}
