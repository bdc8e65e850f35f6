//! The packs that come with the crate.

use ttsr::pack::LoadErrorKind;
use ttsr::rule::PatternKind;
use ttsr::{Level, Pack, Rule};

use super::golden_pack;

#[test]
fn unknown_builtins_get_a_suggestion() {
    golden_pack("unknown-pack", Pack::builder().builtin("lang/rst"));
    assert_eq!(
        Pack::builtin("nope").unwrap_err().kind(),
        LoadErrorKind::UnknownPack
    );
}

#[test]
fn builtins_load_without_a_warning_under_their_own_name() {
    for name in Pack::builtin_names() {
        let pack = Pack::builtin(name).unwrap();
        assert_eq!(pack.warnings(), [], "{name}");
        assert!(!pack.rules().is_empty());
        for rule in pack.rules() {
            assert_eq!(rule.id.rsplit_once('/').unwrap().0, name);
            assert!(
                rule.why.is_some() && !rule.examples.not_matching.is_empty(),
                "{}",
                rule.id
            );
        }
    }
    let names: Vec<_> = Pack::builtin_names().collect();
    assert!(names.is_sorted() && names.contains(&"lang/rust"));
}

#[test]
fn builtin_patterns_hit_their_examples_and_nothing_else() {
    let rules =
        Pack::builtin_names().flat_map(|name| Pack::builtin(name).unwrap().rules().to_vec());
    // Of a rule with more than patterns, they alone do not tell.
    for rule in rules.filter(has_patterns_only) {
        let regexes: Vec<_> = rule
            .condition
            .any
            .iter()
            .map(|pattern| regex_automata::meta::Regex::new(&pattern.to_regex()).unwrap())
            .collect();
        let hits = |text: &String| regexes.iter().any(|regex| regex.is_match(text));
        for text in &rule.examples.matching {
            assert!(hits(text), "{}: no hit in {text}", rule.id);
        }
        for text in &rule.examples.not_matching {
            assert!(!hits(text), "{}: a hit in {text}", rule.id);
        }
    }
}

fn has_patterns_only(rule: &Rule) -> bool {
    let condition = &rule.condition;
    !condition.any.is_empty()
        && condition.capture.is_none()
        && condition.none.is_empty()
        && condition.count.is_none()
        && condition
            .any
            .iter()
            .all(|pattern| pattern.region.is_empty() && pattern.kind != PatternKind::Command)
}

/// A rule of a pack is one by itself, too: the tools try rules one at a time.
#[test]
fn every_built_in_rule_can_be_loaded_alone() {
    for name in Pack::builtin_names() {
        for rule in Pack::builtin(name).unwrap().rules() {
            let alone = Pack::builder().rule(rule.clone()).build();
            assert!(alone.is_ok(), "{}: {}", rule.id, alone.unwrap_err());
        }
    }
}

#[test]
fn built_in_packs_have_nothing_odd_and_ask_for_what_they_use() {
    for name in Pack::builtin_names() {
        let pack = Pack::builder().builtin(name).lints().build().unwrap();
        let odd: Vec<_> = pack
            .warnings()
            .iter()
            .filter(|odd| odd.level() != Level::Note)
            .map(ToString::to_string)
            .collect();
        assert_eq!(odd, [""; 0], "{name}");
    }
}
