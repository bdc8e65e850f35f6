//! The conformance cases of the core, run by a small host over `Conversation` and by hosts that are wrong.

use std::collections::BTreeSet;

use ttsr::Event;
use ttsr::harness::conformance::{
    CaseStep, ConformanceCase, ConformanceReport, Host, Profile, cases, run,
};

use crate::host::SmallHosts;

#[test]
fn f12_a_small_host_over_a_conversation_passes_the_core() {
    let report = run(Profile::Core, &mut SmallHosts);
    assert!(report.is_ok(), "{report}");
    assert!(report.passed > 20, "{report}");
    assert!(report.to_string().starts_with("core: "), "{report}");
}

/// Forwards every delta, ignores the rules, and runs every call: a loop that was never connected.
struct Unguarded;

impl Host for Unguarded {
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
        let mut steps = Vec::new();
        for input in &case.inputs {
            match input.event() {
                Some(Event::Delta { part, bytes }) => steps.push(
                    CaseStep::new("forward", part.0).with("text", String::from_utf8_lossy(&bytes)),
                ),
                Some(_) => {}
                None if input.has("begin") => {
                    steps.push(CaseStep::new("send", 1).with("messages", Vec::<String>::new()))
                }
                None if input.has("end") => steps.push(CaseStep::new("end", "complete")),
                None => {}
            }
        }
        steps
    }
}

fn failed(report: &ConformanceReport) -> BTreeSet<&str> {
    let names = report.failures.iter().map(|failure| &*failure.case);
    names.collect()
}

#[test]
fn f12_a_host_without_rules_fails_named_cases_with_what_it_published() {
    let report = run(Profile::Core, &mut Unguarded);
    let failed = failed(&report);
    for name in [
        "core_a_cut_lasts_whatever_comes_after_it",
        "core_no_call_of_a_reply_that_is_cut_runs",
        "core_a_match_is_redacted",
        "core_text_waits_while_it_may_still_be_redacted",
        "core_held_text_is_dropped_at_a_cut",
        "core_each_turn_has_its_own_retries",
        "core_guidance_that_waits_is_stored_with_the_conversation",
        "core_a_prompt_that_a_rule_refuses_is_not_sent",
        "core_the_output_of_a_tool_is_redacted",
        "core_text_of_a_part_that_was_closed_is_not_published",
    ] {
        assert!(failed.contains(name), "{name} holds: {report}");
    }
    let redacted = report.failures.iter();
    let redacted = redacted.filter(|failure| failure.case == "core_a_match_is_redacted");
    let redacted: Vec<_> = redacted.collect();
    assert!(redacted[0].expected.contains("key-1"), "{report}");
    assert!(redacted[0].actual.contains("It is key-1234."), "{report}");
    let shown = report.to_string();
    for line in [
        "core_a_match_is_redacted",
        &redacted[0].why,
        "It is key-1234.",
    ] {
        assert!(shown.contains(line), "{line} is not in {shown}");
    }
}

/// Changes what the small host does, to be wrong in one way.
struct Wrong<F>(F);

impl<F: FnMut(&ConformanceCase, Vec<CaseStep>) -> Vec<CaseStep>> Host for Wrong<F> {
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
        let steps = SmallHosts.play(case);
        (self.0)(case, steps)
    }
}

#[test]
fn f12_a_host_that_shows_one_byte_too_many_in_some_split_fails_only_there() {
    // It shows the first byte of what is held, if it arrives alone.
    let mut early = Wrong(|case: &ConformanceCase, mut steps: Vec<CaseStep>| {
        let is_split = case.inputs.iter().any(|input| match input.event() {
            Some(Event::Delta { bytes, .. }) => bytes == b"k",
            _ => false,
        });
        if is_split && case.name == "core_a_match_is_redacted" {
            steps.insert(1, CaseStep::new("forward", 0).with("text", "k"));
        }
        steps
    });
    let report = run(Profile::Core, &mut early);
    assert_eq!(failed(&report), ["core_a_match_is_redacted"].into());
    assert!(report.failures[0].is_in_single_bytes);
}

#[test]
fn f12_a_host_that_forgets_guidance_or_runs_calls_of_a_cut_reply_fails() {
    let mut forgetful = Wrong(|_: &ConformanceCase, steps: Vec<CaseStep>| {
        let forget = |step: CaseStep| match step.kind() {
            "send" => CaseStep::new("send", step.get("send").cloned())
                .with("messages", Vec::<String>::new()),
            _ => step,
        };
        steps.into_iter().map(forget).collect()
    });
    let report = run(Profile::Core, &mut forgetful);
    assert!(failed(&report).contains("core_guidance_is_in_the_next_request_and_only_there"));

    let mut eager = Wrong(|case: &ConformanceCase, mut steps: Vec<CaseStep>| {
        if case.name == "core_no_call_of_a_reply_that_is_cut_runs" {
            steps.push(CaseStep::new("run", "c1").with("input", "{}"));
        }
        steps
    });
    let report = run(Profile::Core, &mut eager);
    assert_eq!(
        failed(&report),
        ["core_no_call_of_a_reply_that_is_cut_runs"].into()
    );
}

#[test]
fn every_case_has_a_name_of_its_own_a_reason_and_expected_steps() {
    let cases = cases();
    let names: BTreeSet<&str> = cases.iter().map(|case| &*case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.iter().all(|case| !case.why.is_empty()));
    for profile in Profile::ALL {
        let of_profile = cases.iter().filter(|case| case.profile == profile);
        assert!(of_profile.count() > 5, "{}", profile.name());
        // Nothing is done: nearly every case fails, and shows the steps that it expects.
        let report = run(profile, &mut Idle);
        let shown = report
            .failures
            .iter()
            .filter(|failure| !failure.expected.is_empty());
        assert_eq!(shown.count(), report.failures.len(), "{report}");
        assert_eq!(report.passed, 0, "{report}");
    }
}

struct Idle;

impl Host for Idle {
    fn play(&mut self, _: &ConformanceCase) -> Vec<CaseStep> {
        Vec::new()
    }
}
