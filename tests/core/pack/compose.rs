//! Packs that build on packs: `extends`, overrides, allows, grants, locks.

use std::fs;

use proptest::prelude::*;
use ttsr::rule::Fold;
use ttsr::{Action, Channel, Diagnostic, Level, Pack, Rule, Severity};

use super::{Folder, golden, golden_error, pack_of, rule, shown, shown_problems};

/// Loads the complete example of the rule language.
#[test]
fn the_pack_that_shows_everything_loads() {
    let builder = Pack::builder().toml(
        "rust-hygiene.toml",
        include_str!("compose/rust-hygiene.toml"),
    );
    let pack = builder
        .clone()
        .today(ttsr::pack::Date::new(2027, 1, 31).unwrap())
        .build()
        .unwrap();
    let rule = |id: &str| pack.rule(pack.find(id).expect(id));
    assert_eq!(rule("rust-hygiene/looping").retry.max, 1);
    assert_eq!(
        rule("std/secrets/generic-password").severity,
        Severity::Info
    );
    assert_eq!(rule("std/secrets/generic-password").action, Action::Observe);
    assert_eq!(rule("std/secrets/generic-password").condition.none.len(), 1);
    assert!(pack.find("std/secrets/github-token").is_some());
    assert_eq!(pack.warnings(), []);

    let late = builder.today(ttsr::pack::Date::new(2027, 2, 1).unwrap());
    golden(
        "expired-allow",
        &shown_problems(late.build().unwrap().warnings()),
    );
}

/// An `allow` that has expired allows nothing, by every way to load a pack.
#[test]
fn an_allow_that_has_ended_excuses_nothing_however_the_pack_is_loaded() {
    let pack_until = |day: &str| {
        let body = rule("r", "{ literal = 'xx' }", "on = ['tool-input']");
        let allow =
            format!("[[allow]]\nrules = ['demo/r']\ntools = ['t']\nreason = 'r'\nuntil = {day}\n");
        format!("schema = 1\n[pack]\nname = 'demo'\n{body}{allow}")
    };
    let folder = Folder::new();
    let extending = "schema = 1\n[pack]\nname = 'above'\nextends = ['demo']\n";
    let hits = |pack: &Pack| {
        let mut stream = pack.stream();
        stream.open(ttsr::PartId(0), Channel::ToolInput);
        let _ = stream.set_tool(ttsr::PartId(0), "t", "");
        stream.push(ttsr::PartId(0), br#"{"a":"xx"}"#).len()
    };
    let codes = |pack: &Pack| {
        let codes = pack.warnings().iter().map(Diagnostic::code);
        codes.collect::<Vec<_>>()
    };
    for (day, hit, told) in [
        ("2001-01-31", 1, &["expired-allow"][..]),
        ("9999-12-31", 0, &[]),
    ] {
        let text = pack_until(day);
        let file = folder.0.join("demo.toml");
        fs::write(&file, &text).unwrap();
        let above = folder.0.join("above.toml");
        fs::write(&above, extending).unwrap();
        let today = ttsr::pack::Date::new(2027, 1, 31).unwrap();
        for builder in [
            Pack::builder().file(&file),
            Pack::builder().file(&above),
            Pack::builder().toml("t", text.as_str()),
        ] {
            let pack = builder.today(today).build();
            let pack = pack.unwrap_or_else(|error| panic!("{error}"));
            assert_eq!((hits(&pack), codes(&pack)), (hit, told.to_vec()), "{day}");
        }
        // Without a date it is not applied, and there is a warning.
        for undated in [
            Pack::from_toml(&text),
            Pack::load(&file),
            Pack::load(&above),
        ] {
            let undated = undated.unwrap();
            assert_eq!(
                (hits(&undated), codes(&undated)),
                (1, vec!["undated-allow"])
            );
        }
        let undated = Pack::builder().toml("demo.toml", text.as_str());
        let undated = undated.build().unwrap();
        if hit == 0 {
            golden("undated-allow", &shown_problems(undated.warnings()));
        }
    }
}

#[test]
fn overrides_and_allows_of_what_is_not_there_are_errors() {
    let body = r#"
[override."base/no-leek"]
severity = "info"

[override."leak"]
severity = "info"

[override."base/no-leak"]
append.match.anny = []
append.severity = "info"

[override."base/quiet"]

[[allow]]
rules = ["base/nothing*"]
paths = ["a"]
reason = "r"

[[allow]]
rules = ["base/*"]
reason = "r"
until = "2027-02-30"

[[allow]]
rules = ["["]
text = ["x"]
"#;
    let base = pack_of("base", "", &rule("no-leak", "{ literal = 'x' }", ""));
    let builder = Pack::builder().toml("base.toml", base);
    golden_error(
        "compose-missing",
        builder.toml("team.toml", pack_of("team", "extends = ['base']", body)),
    );
}

#[test]
fn an_override_of_several_rules_changes_each_and_one_of_a_rule_wins_over_it() {
    let rules = rule("a", "{ literal = 'x' }", "on = ['text']")
        + &rule("ab", "{ literal = 'y' }", "on = ['reasoning']")
        + &rule("b", "{ literal = 'z' }", "on = ['text']");
    let base = pack_of("base", "", &rules);
    let exact = "[override.'base/ab']\naction = 'abort'\n";
    let several =
        "[override.'base/a*']\naction = 'redact'\nappend.on = ['user-input', 'tool-output']\n";
    let load = |files: &[(&str, &str, &str)]| {
        let builder = Pack::builder().toml("base.toml", base.as_str());
        let build = |builder: ttsr::PackBuilder, (name, extends, body): &(&str, &str, &str)| {
            let text = pack_of(name, extends, body);
            builder.toml(format!("{name}.toml"), text)
        };
        files.iter().fold(builder, build).build()
    };
    let found = |pack: &Pack, id: &str| {
        let rule = pack.rule(pack.find(id).unwrap());
        (rule.action, rule.on.clone())
    };
    let wide = |first| vec![first, Channel::ToolOutput, Channel::UserInput];
    for body in [format!("{exact}{several}"), format!("{several}{exact}")] {
        let pack = load(&[("team", "extends = ['base']", &body)]).unwrap();
        let a = (Action::Redact, wide(Channel::Text));
        assert_eq!(found(&pack, "base/a"), a);
        let ab = (Action::Abort, wide(Channel::Reasoning));
        assert_eq!(found(&pack, "base/ab"), ab);
        assert_eq!(found(&pack, "base/b").1, [Channel::Text]);
    }
    // A pack wins over one that it extends, whichever of them names the rule.
    let below = ("below", "extends = ['base']", exact);
    let above = ("above", "extends = ['below', 'base']", several);
    for files in [[below, above], [above, below]] {
        let pack = load(&files).unwrap();
        assert_eq!(found(&pack, "base/ab").0, Action::Redact);
    }
    for (body, code) in [
        ("[override.'base/c*']\nseverity = 'info'\n", "unknown-rule"),
        ("[override.'*']\nseverity = 'info'\n", "rule-id"),
        (
            "[override.'base/*']\nseverity = 'info'\n[override.'base/a*']\nseverity = 'error'\n",
            "conflicting-override",
        ),
    ] {
        let error = load(&[("team", "extends = ['base']", body)]).unwrap_err();
        let codes: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
        assert_eq!(codes, [code], "{body}");
    }
}

#[test]
fn an_override_replaces_appends_and_is_judged_as_a_whole() {
    let base = pack_of(
        "base",
        "",
        &rule(
            "a",
            "{ literal = 'x' }",
            "severity = 'error'\nretry.max = 3\nretry.then = 'abort'\ntools = ['bash']",
        ),
    );
    let team = pack_of(
        "team",
        "extends = ['base']",
        r#"
[override."base/a"]
severity = "warning"
retry.max = 1
action = "retry"
append.tools = ["zsh"]
append.match.any = [{ word = "y" }]
match.fold = "case"
append.examples.no-match = ["z"]
"#,
    );
    let load = |team: &str| Pack::builder().toml("b", team).toml("a", &base).build();
    let pack = load(&team).unwrap();
    let changed = &pack.rules()[0];
    assert_eq!(
        (changed.severity, changed.action),
        (Severity::Warning, Action::Retry)
    );
    assert_eq!(
        (changed.retry.max, changed.retry.then),
        (1, Some(Action::Abort))
    );
    assert_eq!(changed.tools, ["bash", "zsh"]);
    assert_eq!(changed.condition.any.len(), 2);
    assert!(
        changed
            .condition
            .any
            .iter()
            .all(|any| any.fold == [Fold::Case])
    );
    assert_eq!(changed.examples.not_matching, ["z"]);

    let nonsense = team.replace("action = \"retry\"", "on = [\"text\"]");
    let error = load(&nonsense).unwrap_err();
    let codes: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
    assert_eq!(codes, ["no-effect", "unreachable-scope"], "{error}");
}

#[test]
fn an_override_adds_channels_and_cases_to_those_that_are_there() {
    let case = |text: &str| format!("[[rule.a.case]]\ntext = '{text}'\nexpect = 'inject'");
    let base = pack_of(
        "base",
        "",
        &format!(
            "{}{}",
            rule("a", "{ literal = 'x' }", "on = ['text']"),
            case("x")
        ),
    );
    let team = "[override.'base/a']\nappend.on = ['reasoning', 'text']\n\
                append.case = [{ reasoning = 'so x', expect = 'inject' }]";
    let team = pack_of("team", "extends = ['base']", team);
    let load = |team: &str| Pack::builder().toml("b", team).toml("a", &base).build();
    let pack = load(&team).unwrap();
    let changed = &pack.rules()[0];
    assert_eq!(changed.on, [Channel::Text, Channel::Reasoning]);
    let cases: Vec<_> = changed
        .cases
        .iter()
        .map(|it| (it.channel, &*it.text))
        .collect();
    assert_eq!(cases, [(Channel::Text, "x"), (Channel::Reasoning, "so x")]);
    // Without the channel the case cannot hit.
    let error = load(&team.replace("append.on = ['reasoning', 'text']\n", "")).unwrap_err();
    let message = "a case expects something on `reasoning`, which the rule does not read";
    assert!(error.to_string().contains(message), "{error}");
}

/// The author of the override need not know which options and cases the rule has.
#[test]
fn an_override_of_the_action_takes_its_options_and_its_cases_along() {
    let base = "schema = 1\n[pack]\nname = 'base'\n[rule.a]\ndescription = 'd'\nseverity = 'error'\n\
                retry = { max = 1, then = 'abort' }\npartial = 'keep'\nmatch.any = [{ literal = 'x' }]\n\
                [[rule.a.case]]\ntext = 'x'\nexpect = 'retry'\nby-byte = 1\n\
                [[rule.a.case]]\ntext = 'x'\nexpect = 'abort'\n\
                [[rule.a.case]]\ntext = 'y'\nexpect = 'nothing'\n";
    let over = |keys: &str| {
        let text = format!(
            "schema = 1\n[pack]\nname = 'top'\nextends = ['base']\n[override.'base/a']\n{keys}\n"
        );
        let built = Pack::builder()
            .toml("base.toml", base)
            .toml("top.toml", text)
            .build();
        let pack = built.unwrap_or_else(|error| panic!("{keys}: {error}"));
        pack.rules()[0].clone()
    };
    let expects = |rule: &Rule| -> Vec<_> { rule.cases.iter().map(|case| case.expect).collect() };
    let weaker = over("severity = 'info'");
    let observe = Some(Action::Observe);
    assert_eq!(expects(&weaker), [observe, observe, None]);
    assert_eq!(weaker.retry, ttsr::rule::Retry::default());
    assert_eq!(weaker.partial, ttsr::Partial::Discard);
    let same = over("instead = 'y'");
    let (retry, abort) = (Some(Action::Retry), Some(Action::Abort));
    assert_eq!(expects(&same), [retry, abort, None]);
    assert_eq!(same.retry.max, 1);
    let elsewhere = over("on = ['reasoning']");
    assert_eq!(expects(&elsewhere), [None, None, None]);

    // The bound of a case was measured for the match of the rule.
    let bounds = |rule: &Rule| -> Vec<_> { rule.cases.iter().map(|case| case.by_byte).collect() };
    assert_eq!(bounds(&weaker), [Some(1), None, None]);
    let later = over("append.match.none = [{ literal = 'EXAMPLE' }]");
    assert_eq!(bounds(&later), [None, None, None]);
    assert_eq!(expects(&later), [retry, abort, None]);
    let other = over("match.any = [{ literal = 'x' }, { literal = 'z' }]");
    assert_eq!(bounds(&other), [None, None, None]);
    let own =
        "match.any = [{ literal = 'x' }]\ncase = [{ text = 'ax', expect = 'retry', by-byte = 2 }]";
    assert_eq!(bounds(&over(own)), [Some(2)]);
}

#[test]
fn packs_that_extend_each_other_in_circles_and_too_deep_chains_are_errors() {
    let one = |name: &str, below: &str| {
        pack_of(
            name,
            &format!("extends = [{below}]"),
            &rule("a", "{ literal = 'x' }", ""),
        )
    };
    golden_error(
        "extends-circle",
        Pack::builder()
            .toml("a.toml", one("a", "'b'"))
            .toml("b.toml", one("b", "'c'"))
            .toml("c.toml", one("c", "'b'"))
            .toml("self.toml", one("self", "'self'")),
    );
    let chain = |length: usize| {
        (0..length).fold(Pack::builder(), |builder, number| {
            let below = if number + 1 < length {
                format!("'p{}'", number + 1)
            } else {
                String::new()
            };
            let text = one(&format!("p{number}"), &below);
            builder.toml(
                format!("{number:04}.toml"),
                text.replace("extends = []", ""),
            )
        })
    };
    assert_eq!(chain(16).build().unwrap().rules().len(), 16);
    golden_error("extends-deep", chain(17));
    let error = chain(1000).build().unwrap_err();
    assert_eq!(error.diagnostics()[0].code(), "extends-too-deep");

    // A diamond of `extends` is not a cycle.
    let diamond = Pack::builder()
        .toml("top", one("top", "'left', 'right'"))
        .toml("left", one("left", "'std/secrets'"))
        .toml("right", one("right", "'std/secrets'"));
    assert!(
        diamond
            .build()
            .unwrap()
            .find("std/secrets/github-token")
            .is_some()
    );
}

#[test]
fn what_a_pack_extends_lies_beside_it_and_nowhere_else() {
    let outside = Folder::new();
    outside.write(
        "secret.toml",
        pack_of("secret", "", &rule("a", "{ literal = 'x' }", "")),
    );
    let folder = Folder::new();
    let top = |below: &str| {
        pack_of(
            "top",
            &format!("extends = ['{below}']"),
            &rule("t", "{ literal = 'x' }", ""),
        )
    };
    let file = folder.write("top.toml", top("below/one"));
    folder.write(
        "below/one.toml",
        pack_of("below/one", "", &rule("a", "{ literal = 'x' }", "")),
    );
    assert_eq!(Pack::load(&file).unwrap().rules().len(), 2);
    // The same when the whole folder is loaded.
    assert_eq!(Pack::load(&folder.0).unwrap().rules().len(), 2);

    // A pack that one of them extends is not looked up again.
    let both = pack_of("top", "extends = ['one', 'two']", "");
    let folder_of_two = Folder::new();
    let file_of_both = folder_of_two.write("top.toml", both);
    for name in ["one", "two"] {
        let text = pack_of(name, "", &rule("a", "{ literal = 'x' }", ""));
        folder_of_two.write(&format!("one/{name}.toml"), text);
    }
    let pack = Pack::load(&file_of_both).unwrap();
    let ids: Vec<_> = pack.rules().iter().map(|rule| &*rule.id).collect();
    assert_eq!(ids, ["one/a", "two/a"]);

    for below in [
        "../secret",
        "../../etc/passwd",
        "/etc/passwd",
        "a\\\\b",
        "nothing",
    ] {
        fs::write(&file, top(below)).unwrap();
        let error = Pack::load(&file).unwrap_err();
        let codes: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
        assert!(
            codes == ["unknown-pack"] || codes.contains(&"pack-name"),
            "{below}: {codes:?}"
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(outside.0.join("secret.toml"), folder.0.join("secret.toml"))
            .unwrap();
        fs::write(&file, top("secret")).unwrap();
        let error = Pack::load(&file).unwrap_err();
        let codes: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
        assert!(codes.contains(&"outside-folder"), "{codes:?}");
    }
}

#[test]
fn lists_of_a_pack_below_can_be_named() {
    let below =
        |name: &str, tool: &str| pack_of(name, "", &format!("[lists]\nshells = ['{tool}']"));
    let top = |used: &str| {
        pack_of(
            "top",
            "extends = ['a', 'b']",
            &rule("t", "{ literal = 'x' }", &format!("tools = ['{used}']")),
        )
    };
    let load = |used: &str, other: &str| {
        Pack::builder()
            .toml("a", below("a", "bash"))
            .toml("b", below("b", other))
            .toml("t", top(used))
            .build()
    };
    assert_eq!(load("@shells", "bash").unwrap().rules()[0].tools, ["bash"]);
    assert_eq!(load("@b/shells", "zsh").unwrap().rules()[0].tools, ["zsh"]);
    // Two packs define it differently.
    let error = load("@shells", "zsh").unwrap_err();
    assert_eq!(
        error
            .diagnostics()
            .iter()
            .find(|one| one.level() == Level::Error)
            .unwrap()
            .code(),
        "unknown-list"
    );
}

#[test]
fn grants_are_a_ceiling_for_actions_and_for_what_follows_them() {
    let rules = rule(
        "retries",
        "{ literal = 'x' }",
        "severity = 'error'\nretry.then = 'inject'",
    ) + &rule("warns", "{ literal = 'x' }", "action = 'warn'")
        + &rule(
            "aborts-at-last",
            "{ literal = 'x' }",
            "severity = 'critical'\naction = 'retry'",
        );
    golden_error(
        "grants-missing",
        Pack::builder().toml("demo.toml", pack_of("demo", "grants = ['retry']", &rules)),
    );
    let all = pack_of("demo", "grants = ['retry', 'inject', 'abort']", &rules);
    let builder = Pack::builder().toml("demo.toml", all);
    assert!(builder.clone().build().is_ok());
    golden_error(
        "grants-refused",
        builder.grants(&[Action::Retry, Action::Inject]),
    );
    // An override that makes an action stronger needs the grant for it.
    let weak = pack_of(
        "weak",
        "grants = []",
        &rule("a", "{ literal = 'x' }", "action = 'warn'"),
    );
    let over = "[override.\"weak/a\"]\naction = 'abort'";
    let load = |grants: &str| {
        let top = pack_of(
            "top",
            &format!("extends = ['weak']\ngrants = [{grants}]"),
            over,
        );
        Pack::builder().toml("weak", &weak).toml("top", top).build()
    };
    assert!(load("'abort'").is_ok());
    assert_eq!(
        load("").unwrap_err().diagnostics()[0].code(),
        "missing-grant"
    );
}

#[test]
fn the_grants_of_a_pack_are_those_of_all_its_files() {
    let first = |grants: &str| {
        pack_of(
            "team",
            grants,
            &rule("a", "{ literal = 'x' }", "severity = 'error'"),
        )
    };
    let second = |grants: &str| {
        pack_of(
            "team",
            grants,
            &rule("b", "{ literal = 'x' }", "action = 'inject'"),
        )
    };
    let load = |a: &str, b: &str| {
        let builder = Pack::builder()
            .toml("one.toml", first(a))
            .toml("two.toml", second(b));
        builder
            .build()
            .map_err(|error| error.diagnostics()[0].code())
    };
    assert!(load("", "").is_ok());
    // A rule in a file without `grants` is bound too.
    assert_eq!(
        load("", "grants = ['inject']").unwrap_err(),
        "missing-grant"
    );
    assert!(load("", "grants = ['inject', 'retry']").is_ok());
    assert!(load("grants = ['retry']", "grants = ['inject']").is_ok());
}

#[test]
fn two_packs_that_override_the_same_key_are_told_unless_one_extends_the_other() {
    let base = pack_of("base", "", &rule("a", "{ literal = 'x' }", ""));
    let over = |name: &str, below: &str, severity: &str| {
        let body = format!("[override.\"base/a\"]\nseverity = '{severity}'");
        pack_of(name, &format!("extends = [{below}]"), &body)
    };
    let load = |second: &str| {
        Pack::builder()
            .toml("z-first", over("first", "'base'", "info"))
            .toml("a-second", over("second", second, "error"))
            .toml("base", &base)
    };
    let pack = load("'base', 'first'").build().unwrap();
    assert_eq!(pack.rules()[0].severity, Severity::Error);
    golden_error("conflicting-override", load("'base'"));
}

proptest! {
    #[test]
    fn the_order_of_sources_never_matters(order in Just((0..6).collect::<Vec<usize>>()).prop_shuffle()) {
        let sources = [
            ("base", pack_of("base", "", &rule("a", "{ literal = 'x' }", "severity = 'error'"))),
            ("more", pack_of("base", "", &rule("b", "{ literal = 'y' }", "tools = ['t']"))),
            ("left", pack_of("left", "extends = ['base']", "[override.\"base/a\"]\nappend.match.any = [{ literal = 'l' }]\nappend.tags = ['l']")),
            ("right", pack_of("right", "extends = ['base']", "[override.\"base/a\"]\nappend.match.any = [{ literal = 'r' }]\nappend.tags = ['r']")),
            ("top", pack_of("top", "extends = ['left', 'right', 'lang/rust']", "[override.\"base/a\"]\nappend.tags = ['top']\nseverity = 'info'")),
            ("broken", pack_of("Broken", "extends = ['nothing']", &rule("A", "{ literal = '' }", ""))),
        ];
        let load = |order: &[usize], skip: &str| {
            let chosen = order.iter().map(|index| &sources[*index]).filter(|(name, _)| *name != skip);
            let builder = chosen.fold(Pack::builder(), |builder, (name, text)| builder.toml(*name, text));
            shown(&builder.build())
        };
        let sorted: Vec<usize> = (0..6).collect();
        prop_assert_eq!(load(&order, "broken"), load(&sorted, "broken"));
        prop_assert!(load(&order, "broken").contains("\"l\",\n        \"r\",\n        \"top\""));
        prop_assert_eq!(load(&order, ""), load(&sorted, ""));
    }
}

#[test]
fn a_lock_is_kept_or_the_load_fails() {
    let text = |body: &str| pack_of("demo", "version = '1.0.0'", &rule("a", body, ""));
    let load = |body: &str| {
        Pack::builder()
            .toml("demo.toml", text(body))
            .builtin("lang/rust")
    };
    let lock = load("{ literal = 'x' }").build().unwrap().lock().clone();
    assert!(load("{ literal = 'x' }").lock(lock.clone()).build().is_ok());
    // A locked pack must be present, with the locked version.
    let versions = [("version = '1.0.0'", "1.0.0"), ("", "none")];
    for ((was, shown), (now, found)) in [(versions[0], versions[1]), (versions[1], versions[0])] {
        let demo = |head: &str| {
            let text = pack_of("demo", head, &rule("a", "{ literal = 'x' }", ""));
            Pack::builder().toml("demo.toml", text)
        };
        let lock = demo(was)
            .builtin("lang/rust")
            .build()
            .unwrap()
            .lock()
            .clone();
        let error = demo(now).lock(lock).build().unwrap_err().to_string();
        for told in [
            format!("pack `demo` is locked at version {shown}, this is {found}"),
            "pack `lang/rust` is locked, but was not loaded".to_owned(),
        ] {
            assert!(error.contains(&told), "{error}");
        }
    }
    golden_error(
        "lock",
        load("{ literal = 'y' }").builtin("std/secrets").lock(lock),
    );
}
