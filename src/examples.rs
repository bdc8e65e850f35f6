//! Runs the examples and cases of rules, for `cargo test`.

mod sample;

use std::fmt;

use crate::pack::Pack;
use crate::rule::{Channel, Rule};
use crate::verdict::{Hit, PartId, RuleId};
use sample::Sample;

pub use sample::{
    arg_in_regions, arg_names_matching, name_matching, path_in_regions, path_matching,
    tool_in_scope,
};

/// Runs the examples and cases of all rules of the pack, and returns the number of them.
///
/// Each example is read on each channel of its rule, each case as it is written: whole, byte by byte, and split in two
/// at every byte. As tool input, an example is the value of the first of `args` (else `content`) in a call of the first
/// of `tools`. An example of `match` must hit and one of `no-match` must not; the hit must be the same under every split.
/// A case must hit if it expects an action, by the byte that it names.
///
/// # Errors
/// If an example or a case fails; the error lists all that do.
///
/// # Complexity
/// Quadratic in the length of the longest example.
///
/// # Example: as a test of your rules
/// ```
/// let pack = ttsr::Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "mine"
/// [rule.no-any]
/// description = "Say what the type is"
/// match.any = [{ regex = ':\s*any\b' }]
/// examples.match = ["x: any"]
/// examples.no-match = ["x: anything"]
/// "#)?;
/// assert_eq!(ttsr::test(&pack)?, 2);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn test(pack: &Pack) -> Result<usize, TestError> {
    let mut run = 0;
    let mut failures = Vec::new();
    for (id, rule) in (0..).map(RuleId).zip(pack.rules()) {
        let hit = Expectation::Hit { by_byte: None };
        let matching = rule.examples.matching.iter().map(|text| (text, hit));
        let others = rule.examples.not_matching.iter();
        let others = others.map(|text| (text, Expectation::NoHit));
        for (text, expected) in matching.chain(others) {
            run += 1;
            for &channel in &rule.on {
                let sample = Sample::from_example(rule, channel, text);
                let problem = check_sample(pack, id, &sample, expected);
                failures
                    .extend(problem.map(|problem| TestFailure::new(rule, channel, text, problem)));
            }
        }
        for case in &rule.cases {
            run += 1;
            let sample = Sample::from_case(rule, case);
            let expected = match case.expect {
                Some(_) => Expectation::Hit {
                    by_byte: case.by_byte,
                },
                None => Expectation::NoHit,
            };
            let problem = check_sample(pack, id, &sample, expected);
            let failure =
                problem.map(|problem| TestFailure::new(rule, case.channel, &case.text, problem));
            failures.extend(failure);
        }
    }
    match failures.is_empty() {
        true => Ok(run),
        false => Err(TestError { run, failures }),
    }
}

/// Examples or cases that fail. `Display` and `Debug` list them, one a line.
#[derive(Clone, PartialEq, Eq)]
pub struct TestError {
    run: usize,
    failures: Vec<TestFailure>,
}

impl TestError {
    /// Returns the failures, in the order of the rules; at least one.
    #[must_use]
    pub fn failures(&self) -> &[TestFailure] {
        &self.failures
    }
}

impl fmt::Display for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TestError { run, failures } = self;
        write!(f, "{} failures in {run} examples and cases", failures.len())?;
        failures
            .iter()
            .try_for_each(|failure| write!(f, "\n{failure}"))
    }
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for TestError {}

/// An example or a case that fails.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TestFailure {
    /// The full id of the rule.
    pub rule: String,
    /// The channel on which the text was read.
    pub channel: Channel,
    /// The text of the example or case.
    pub text: String,
    /// The problem, in words.
    pub problem: &'static str,
}

impl TestFailure {
    fn new(rule: &Rule, channel: Channel, text: &str, problem: &'static str) -> TestFailure {
        TestFailure {
            rule: rule.id.clone(),
            channel,
            text: text.to_owned(),
            problem,
        }
    }
}

impl fmt::Display for TestFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TestFailure {
            rule,
            channel,
            text,
            problem,
        } = self;
        write!(f, "{rule}: {text:?} on `{}` {problem}", channel.name())
    }
}

const PART: PartId = PartId(0);

/// The expected result of a sample.
#[derive(Clone, Copy)]
enum Expectation {
    /// A hit, decided by this byte at the latest.
    Hit {
        by_byte: Option<u64>,
    },
    NoHit,
}

/// Returns the problem of a sample, if it has one.
fn check_sample(
    pack: &Pack,
    rule: RuleId,
    sample: &Sample,
    expected: Expectation,
) -> Option<&'static str> {
    let bytes = &sample.bytes;
    let whole = first_hit(pack, rule, sample, [bytes.as_slice()]);
    let by_bytes = first_hit(pack, rule, sample, bytes.chunks(1));
    let in_two = |at: usize| {
        let (before, after) = bytes.split_at(at);
        first_hit(pack, rule, sample, [before, after])
    };
    if by_bytes != whole || (1..bytes.len()).any(|at| in_two(at) != whole) {
        return Some("hits differently when it is split");
    }
    match (expected, whole) {
        (Expectation::Hit { .. }, None) => Some("must hit, and does not"),
        (Expectation::NoHit, Some(_)) => Some("must not hit, and does"),
        (
            Expectation::Hit {
                by_byte: Some(most),
            },
            Some(hit),
        ) if hit.decided > most => Some("hits after the byte that the case names"),
        _ => None,
    }
}

/// Returns the first hit of the rule in the sample, split into those deltas.
fn first_hit<'b>(
    pack: &Pack,
    rule: RuleId,
    sample: &Sample,
    deltas: impl IntoIterator<Item = &'b [u8]>,
) -> Option<Hit> {
    let mut stream = pack.stream();
    let mut hits = Vec::new();
    stream.open(PART, sample.channel);
    if let Some(path) = &sample.path {
        stream.set_path(PART, path);
    }
    if let Some(tool) = &sample.tool {
        hits.extend_from_slice(&stream.set_tool(PART, tool, "call"));
    }
    for delta in deltas {
        hits.extend_from_slice(&stream.push(PART, delta));
    }
    hits.extend_from_slice(&stream.finish());
    hits.into_iter().find(|hit| hit.rule == rule)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Ast, Pattern, Region};

    #[test]
    fn a_hit_after_the_byte_that_a_case_names_is_a_failure() {
        let pack = Pack::builder().rule(Rule::new("t/key", vec![Pattern::word("key")]));
        let pack = pack.build().expect("it loads");
        let sample = Sample {
            channel: Channel::Text,
            tool: None,
            path: None,
            bytes: b"a key.".into(),
        };
        let rule = RuleId(0);
        let problem = |by_byte| check_sample(&pack, rule, &sample, Expectation::Hit { by_byte });
        assert_eq!(problem(None), None);
        assert_eq!(problem(Some(6)), None);
        assert!(problem(Some(5)).is_some_and(|it| it.contains("after the byte")));
    }

    #[test]
    fn a_name_of_a_glob_has_the_first_of_each_choice() {
        for (glob, name) in [
            ("{read,write}_[ab]?", "read_ax"),
            ("a{b{c,d}e,f}g*", "abcegx"),
            ("[!0-9]", "_"),
            ("[]x]", "]"),
            (r"\*", "*"),
        ] {
            assert_eq!(name_matching(glob), name, "{glob}");
        }
    }

    #[test]
    fn an_example_is_in_the_argument_and_the_block_that_the_rule_reads() {
        let mut rule = Rule::new("t/key", vec![Pattern::literal("key")]);
        assert_eq!(arg_in_regions(&rule), "content");
        for (region, arg) in [(Region::Shell, "command"), (Region::Removed, "old_string")] {
            rule.condition.any[0].region = vec![region];
            assert_eq!(arg_in_regions(&rule), arg);
        }
        rule.condition.ast = Some(Ast {
            languages: vec!["go".into()],
            ..Ast::default()
        });
        let text = |text| Sample::from_example(&rule, Channel::Text, text).bytes;
        assert_eq!(text("key"), b"```go\nkey\n```\n");
        assert_eq!(text("```go\nkey\n```"), b"```go\nkey\n```");
    }

    #[test]
    fn a_path_of_a_glob_of_a_folder_is_a_file_in_it() {
        for (glob, path) in [("src/", "src/x"), ("./**/", "x"), ("/src/*.rs", "src/x.rs")] {
            assert_eq!(path_matching(glob), path);
        }
    }

    #[test]
    fn every_shipped_example_passes() {
        let pack = Pack::builtin("std/shell-safety").expect("it is built in");
        assert!(test(&pack).expect("its examples are right") > 100);
    }

    #[test]
    fn a_wrong_example_is_named_with_its_rule() {
        let mut rule = Rule::new("t/key", vec![Pattern::literal("key")]);
        rule.on = vec![Channel::Text, Channel::ToolInput];
        rule.examples.matching = vec!["a key".into(), "a kay".into()];
        rule.examples.not_matching = vec!["keyboard".into()];
        let pack = Pack::builder().rule(rule).build().expect("it loads");
        let error = test(&pack).unwrap_err();
        let want = "4 failures in 3 examples and cases\n\
                    t/key: \"a kay\" on `text` must hit, and does not\n\
                    t/key: \"a kay\" on `tool-input` must hit, and does not\n\
                    t/key: \"keyboard\" on `text` must not hit, and does\n\
                    t/key: \"keyboard\" on `tool-input` must not hit, and does";
        assert_eq!(error.to_string(), want);
        assert_eq!(error.failures().len(), 4);
    }
}
