//! Patterns, globs and budgets: those that are refused, and those that only look dangerous.

use ttsr::pack::LoadErrorKind;
use ttsr::{Limits, Pack};

use super::{HEADER, error_codes, rule, with_rules};

#[test]
fn patterns_that_match_the_empty_text_are_refused() {
    for regex in [
        "",
        "a*",
        "^",
        "$",
        r"\b",
        "(?:)",
        "(?m)$",
        "a|",
        "(?:a?){3}",
        r"\A\z",
    ] {
        let text = with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), ""));
        assert_eq!(error_codes(&text), ["matches-empty"], "{regex}");
    }
}

#[test]
fn a_good_pattern_excuses_no_empty_one() {
    for list in [
        "any = [{ literal = 'x' }, { regex = 'a*' }]",
        "any = [{ regex = 'a*' }, { literal = 'x' }]",
        "any = [{ literal = '' }]",
        "any = [{ word = '' }]",
        "all = [{ literal = 'x' }, { regex = '(?i)(?:a|b)?' }]",
    ] {
        let text = with_rules(&format!(
            "[rule.a]\ndescription = 'd'\nmatch.{list}\nexamples.match = ['x']\n"
        ));
        assert_eq!(error_codes(&text), ["matches-empty"], "{list}");
    }
}

#[test]
fn patterns_that_hurt_other_engines_load() {
    for regex in [
        "(a+)+$",
        "(a|aa)*b",
        "(.*)*x",
        "[01]*1[01]{20}",
        "a{5}{5}{5}{5}",
        r"\pL{1000}",
    ] {
        let text = with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), ""));
        assert_eq!(Pack::from_toml(&text).unwrap().rules().len(), 1, "{regex}");
    }
}

#[test]
fn patterns_too_big_are_refused_by_name() {
    for (regex, code) in [
        ("(a{1000}){1000}".to_owned(), "pattern-too-big"),
        ("(?:){4294967295}".to_owned(), "matches-empty"),
        (r"[\s\S]{0,10000}".to_owned(), "matches-empty"),
        ("(".repeat(100_000), "pattern-too-long"),
        ("a".repeat(10 << 20), "pattern-too-long"),
        ("(".repeat(60_000), "regex"),
    ] {
        let text = with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), ""));
        assert_eq!(error_codes(&text), [code], "{}", &regex[..15]);
    }
}

#[test]
fn the_budget_of_states_decides_what_is_too_big() {
    let load = |regex: &str, rule_states| {
        let text = with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), ""));
        let limits = Limits {
            rule_states,
            ..Limits::default()
        };
        Pack::builder().toml("a.toml", text).limits(limits).build()
    };
    for regex in [r"\pL{1000}", "a{5}{5}{5}{5}", "(?:ab){500}"] {
        assert!(load(regex, 1 << 16).is_ok(), "{regex}");
        let error = load(regex, 500).expect_err(regex);
        assert_eq!(error.diagnostics()[0].code(), "pattern-too-big", "{regex}");
    }
}

#[cfg(not(feature = "lookaround"))]
#[test]
fn look_around_is_named_where_it_stands() {
    for (regex, written) in [
        ("foo(?!bar)", "(?!"),
        ("foo(?=bar)", "(?="),
        ("(?<!a)b", "(?<!"),
        ("(?<=a)b", "(?<="),
        (r"(a)\1", r"\1"),
    ] {
        let text = with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), ""));
        let error = &super::errors(&text)[0];
        assert_eq!(error.code(), "look-around");
        assert!(error.message().contains(written), "{}", error.message());
        let line = text.lines().nth(error.line() as usize - 1).unwrap();
        assert!(
            line.chars()
                .skip(error.column() as usize - 1)
                .collect::<String>()
                .starts_with(written)
        );
        assert!(error.help().is_some());
    }
}

/// Patterns with look-around are verified at their ends. A rule that needs full matches would not see the text around
/// them, so it is refused.
#[cfg(feature = "lookaround")]
#[test]
fn look_around_is_refused_where_it_would_not_be_looked_at() {
    let around = "{ regex = 'foo(?!bar)' }";
    let plain = with_rules(&rule("a", around, ""));
    let pack = Pack::from_toml(&plain).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(pack.rules().len(), 1, "alone it loads");
    for more in [
        "match.none = [{ literal = 'x' }]",
        "match.first = 20",
        "match.last = 20",
        "match.line = true",
        "match.count = 2",
        "match.capture = { entropy = 1.0 }",
        "hold = true",
        "action = 'redact'",
    ] {
        let text = with_rules(&rule("a", around, more));
        assert_eq!(error_codes(&text), ["look-around"], "{more}");
    }
    for list in ["all", "sequence"] {
        let patterns = format!("match.{list} = [{around}, {{ literal = 'x' }}]");
        let text = with_rules(&format!(
            "[rule.a]\ndescription = 'd'\n{patterns}\nexamples.match = ['foo x']\n"
        ));
        assert_eq!(error_codes(&text), ["look-around"], "{list}");
    }
    let allow = "[[allow]]\nrules = ['demo/*']\nreason = 'r'\n";
    let by_text = format!("{plain}{allow}text = ['foo?']\n");
    assert_eq!(error_codes(&by_text), ["look-around"]);
    let by_path = format!("{plain}{allow}paths = ['a/**']\n");
    assert!(Pack::from_toml(&by_path).is_ok());
}

#[test]
fn globs_that_cannot_be_read_or_are_too_long_are_refused() {
    let many = format!("{{{}}}", vec!["a"; 10_000].join(","));
    for glob in ["[", "a**b", "{a,{b", many.as_str()] {
        for key in ["tools", "paths"] {
            let text = with_rules(&rule(
                "a",
                "{ literal = 'x' }",
                &format!("{key} = [\"{glob}\"]"),
            ));
            assert_eq!(error_codes(&text), ["glob"], "{key}");
        }
    }
}

#[test]
fn a_hundred_thousand_rules_are_read() {
    let mut text = String::from(HEADER);
    for number in 0..100_000 {
        text.push_str(&format!(
            "[rule.r{number}]\ndescription=\"d\"\nmatch.any=[{{literal=\"x{number}\"}}]\n"
        ));
    }
    let found = Pack::from_toml(&text);
    // Either all of them or an error that names the budget.
    match found {
        Ok(pack) => assert_eq!(pack.rules().len(), 100_000),
        Err(error) => assert!(error.to_string().contains("limit"), "{error}"),
    }
}

#[test]
fn a_pack_over_its_budget_names_the_budget() {
    let rules: String = (0..1000)
        .map(|number| rule(&format!("r{number}"), "{ literal = 'some words' }", ""))
        .collect();
    let load = |pack_states| {
        let limits = Limits {
            pack_states,
            ..Limits::default()
        };
        Pack::builder()
            .toml("a.toml", with_rules(&rules))
            .limits(limits)
            .build()
    };
    assert_eq!(load(1 << 22).unwrap().rules().len(), 1000);
    let error = load(5000).unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::TooLarge);
    assert!(error.to_string().contains("5000"), "{error}");
}
