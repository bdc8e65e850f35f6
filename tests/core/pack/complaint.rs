//! Regression tests for complaints of users of other rule formats.

use ttsr::Pack;

use super::{HEADER, error_codes, rule, with_rules};

/// A complaint: rules that can never act, and keys that are never read, were
/// accepted.
#[test]
fn a_rule_that_loads_can_act() {
    for (more, code) in [
        ("on = ['text']\npaths = ['*.ts']", "unreachable-scope"),
        ("action = 'consult'", "action-channel"),
        ("retry.then = 'retry'", "bad-value"),
        ("action = 'warn'\nretry.max = 1", "no-effect"),
        ("action = 'warn'\npartial = 'keep'", "no-effect"),
        ("mode = 'off'", "bad-value"),
    ] {
        let text = with_rules(&rule("a", "{ literal = 'x' }", more));
        assert_eq!(error_codes(&text)[0], code, "{more}");
    }
}

/// A complaint: invalid rules were dropped in silence, and a scope kept its quotes.
#[test]
fn inline_flags_load_and_a_bad_rule_is_loud() {
    let good = with_rules(&rule("a", "{ regex = '(?i)x' }", ""));
    assert_eq!(Pack::from_toml(&good).unwrap().rules().len(), 1);
    let bad = with_rules(&rule(
        "a",
        "{ regex = '(?' }",
        "on = '\"text\",\"reasoning\"'",
    ));
    assert_eq!(error_codes(&bad), ["regex", "wrong-type"]);
}

/// A complaint: repeat mode and context mode were one setting for all rules.
#[test]
fn every_policy_key_is_per_rule_with_a_pack_default() {
    let head = "[defaults]\nrepeat.per-session = 5\npartial = 'keep'\nseverity = 'error'\n";
    let own = "repeat.per-session = 1\npartial = 'discard'";
    let rules = rule("own", "{ literal = 'x' }", own) + &rule("default", "{ literal = 'y' }", "");
    let pack = Pack::from_toml(&format!("{HEADER}{head}{rules}")).unwrap();
    let policy = |id: &str| {
        let rule = pack.rule(pack.find(id).unwrap());
        (rule.repeat.unwrap().per_session, rule.partial)
    };
    assert_eq!(policy("demo/own"), (Some(1), ttsr::Partial::Discard));
    assert_eq!(policy("demo/default"), (Some(5), ttsr::Partial::Keep));
}

/// A complaint: unknown fields were dropped, and rules of a checked-out tree were trusted.
#[test]
fn strangers_get_no_more_than_the_host_grants() {
    let text = with_rules(&rule("a", "{ literal = 'x' }", "severity = 'critical'"));
    let builder = Pack::builder().toml("stranger.toml", text);
    assert!(builder.clone().build().is_ok());
    let error = builder.grants(&[]).build().unwrap_err();
    assert_eq!(error.diagnostics()[0].code(), "not-granted");
}
