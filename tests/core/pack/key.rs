//! Files, keys and values that are no rule: each is an error with its place.

use std::fs;

use ttsr::pack::language::rule_keys;
use ttsr::{Diagnostic, Pack, Pattern, Rule};

use super::{HEADER, error_codes, errors, golden_folder, golden_pack, rule, with_rules};

#[test]
fn values_that_can_mean_nothing_are_told_where_they_stand() {
    let r = |keys: &str| {
        format!("{HEADER}[rule.r]\ndescription = 'd'\nexamples.match = ['x']\n{keys}\n")
    };
    let x = |keys: &str| r(&format!("match.any = [{{ literal = 'x' }}]\n{keys}"));
    let head = |keys: &str| format!("{HEADER}{keys}\n{}", rule("r", "{ literal = 'x' }", ""));
    let allow = |keys: &str| {
        x(&format!(
            "[[allow]]\nrules = ['demo/r']\npaths = ['a']\nreason = 'r'\n{keys}"
        ))
    };
    let rows = [
        (
            r(
                "match.all = [{ literal = 'x' }, { literal = 'y' }]\nmatch.within = { part = false }",
            ),
            8,
            "`part` can only be true",
        ),
        (
            r("on = ['tool-input']\nmatch.any = [{ literal = 'x', arg = '..' }]"),
            8,
            "argument path `..` is malformed",
        ),
        (
            x("match.capture = { entropy = 99.5 }"),
            8,
            "`entropy` is `99.5`, which is out of range",
        ),
        (
            x("replaced-by = 'x'\nstatus = 'deprecated'"),
            8,
            "rule id `x` is malformed",
        ),
        (
            x("references = ['https://example.org', 'example.org']"),
            8,
            "`example.org` is not an address",
        ),
        (
            x("[[rule.r.case]]\ntext = 'x'\nexpect = 'abrot'"),
            10,
            "`abrot` is not a value of `expect`",
        ),
        (
            x("[[rule.r.case]]\ninput = '{}'\ntool = 't'\nexpect = 'abort'"),
            8,
            "a case expects `abort`, the rule does `inject`",
        ),
        (
            head("extends = ['std/secrets', 'std/secrets']"),
            4,
            "`extends` names `std/secrets` twice",
        ),
        (
            head("extends = ['std/secret']"),
            4,
            "there is no pack `std/secret`",
        ),
        (
            allow("until = 5"),
            12,
            "`until` must be a date, this is an integer",
        ),
        (
            allow("until = '2027-02-29'"),
            12,
            "`2027-02-29` is not a day",
        ),
        (
            allow("until = '2028-13-01'"),
            12,
            "`2028-13-01` is not a day",
        ),
        (
            allow("until = '2028-02-29-1'"),
            12,
            "`2028-02-29-1` is not a day",
        ),
        (
            format!("allow = [1]\n{}", x("")),
            1,
            "an entry of `allow` must be a table, this is an integer",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, line, message) in rows {
        let told = errors(&text);
        let told: Vec<_> = told.iter().map(|it| (it.line(), it.message())).collect();
        if told != [(line, message)] {
            wrong.push((
                told.iter()
                    .map(|(line, it)| format!("{line} {it}"))
                    .collect::<Vec<_>>(),
                text,
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let leap = Pack::builder().toml("leap.toml", allow("until = 2028-02-29"));
    let leap = leap.today(ttsr::pack::Date::parse("2028-02-28").unwrap());
    let leap = leap.build().unwrap();
    assert_eq!(leap.warnings(), []);
}

#[test]
fn broken_toml_is_an_error_with_its_place() {
    for (name, text, line) in [
        ("not toml", "schema = 1\n= 2", 2),
        ("cut inside a string", "schema = 1\npack.name = \"de", 2),
        ("cut inside a header", "schema = 1\n[pack", 2),
        ("unquoted value", "schema = 1\npack.name = demo", 2),
        (
            "deep nesting",
            &format!("schema = 1\nx = {}", "[".repeat(100_000)),
            2,
        ),
    ] {
        let errors = errors(text);
        let syntax = errors
            .iter()
            .find(|error| error.code() == "syntax")
            .expect(name);
        assert_eq!(syntax.line(), line, "{name}");
    }
    assert_eq!(error_codes(""), ["missing-key", "missing-key"]);
}

#[test]
fn a_file_cut_anywhere_never_loads_with_fewer_rules_in_silence() {
    let text = fs::read_to_string(golden_folder().join("everything.toml")).unwrap();
    let whole = Pack::from_toml(&text).unwrap();
    for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
        if let Ok(pack) = Pack::from_toml(&text[..cut]) {
            // A cut between two rules leaves a shorter file that is a whole one.
            assert!(
                pack.rules()
                    .iter()
                    .all(|rule| whole.find(&rule.id).is_some()),
                "{cut}"
            );
        }
    }
}

#[test]
fn unknown_field_is_an_error_with_a_suggestion() {
    for (typed, meant) in [
        ("scpoe", None),
        ("severty", Some("severity")),
        ("mesage", Some("message")),
        ("exampels", Some("examples")),
        ("Tools", Some("tools")),
    ] {
        let text = with_rules(&rule("a", "{ literal = 'x' }", &format!("{typed} = 1")));
        let errors = errors(&text);
        assert_eq!(errors[0].code(), "unknown-key", "{typed}");
        let help = errors[0].help().unwrap();
        match meant {
            Some(meant) => assert_eq!(help, format!("did you mean `{meant}`?")),
            None => assert!(help.starts_with("allowed: "), "{help}"),
        }
    }
}

#[test]
fn every_misspelt_key_of_a_whole_pack_is_an_error() {
    let text = fs::read_to_string(golden_folder().join("everything.toml")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let mut count = 0;
    for (number, line) in lines.iter().enumerate() {
        let Some((key, value)) = line.split_once(" = ") else {
            continue;
        };
        let is_key = |letter: char| letter.is_ascii_lowercase() || "-._".contains(letter);
        if key.is_empty() || !key.chars().all(is_key) {
            continue;
        }
        let misspelt = format!("{key}q = {value}");
        let mut changed = lines.clone();
        changed[number] = &misspelt;
        let found = Pack::from_toml(&changed.join("\n"));
        let error = found.map(|pack| pack.rules().len()).expect_err(&misspelt);
        let codes: Vec<_> = error.diagnostics().iter().map(Diagnostic::code).collect();
        // Lists have names that authors give them, and rules say which one they mean.
        let is_told = |code: &&str| ["unknown-key", "unknown-list"].contains(code);
        assert!(codes.iter().any(is_told), "{misspelt}: {codes:?}");
        count += 1;
    }
    assert!(count > 40, "{count} keys");
}

#[test]
fn unknown_values_wrong_types_and_missing_keys_are_errors() {
    for (more, code) in [
        ("severity = 'eror'", "bad-value"),
        ("action = 'reject'", "bad-value"),
        ("on = ['tool']", "bad-value"),
        ("on = 'text'", "wrong-type"),
        ("priority = 1.0", "wrong-type"),
        ("priority = 4294967296", "bad-value"),
        ("instead = []", "wrong-type"),
    ] {
        let text = with_rules(&rule("a", "{ literal = 'x' }", more));
        assert_eq!(error_codes(&text), [code], "{more}");
    }
    assert_eq!(
        error_codes(&with_rules("[rule.a]")),
        ["missing-key", "missing-key"]
    );
}

#[test]
fn duplicate_ids_name_both_places() {
    let text = with_rules(&rule("a", "{ literal = 'x' }", ""));
    let other = format!("# another file\n{text}");
    golden_pack(
        "duplicate-rule",
        Pack::builder()
            .toml("one.toml", &text)
            .toml("two.toml", other),
    );

    let inside =
        with_rules(&(rule("a", "{ literal = 'x' }", "") + &rule("a", "{ word = 'y' }", "")));
    let errors = errors(&inside);
    assert_eq!((errors[0].code(), errors[0].line()), ("duplicate-key", 9));
    assert!(
        errors[0].help().unwrap().contains("line 4"),
        "{:?}",
        errors[0]
    );
}

#[test]
fn two_files_may_share_a_pack_name() {
    let a = with_rules(&rule("a", "{ literal = 'x' }", ""));
    let b = with_rules(&rule("b", "{ literal = 'x' }", ""));
    let pack = Pack::builder()
        .toml("a.toml", a)
        .toml("b.toml", b)
        .build()
        .unwrap();
    assert_eq!(pack.rules().len(), 2);
}

#[test]
fn ids_are_short_plain_and_never_shown_raw() {
    for id in [
        String::new(),
        "a".repeat(1 << 20),
        r"a\nb".into(),
        r"a\u001b[31m".into(),
        "-a".into(),
    ] {
        let text = with_rules(&rule(&format!("\"{id}\""), "{ literal = 'x' }", ""));
        let errors = errors(&text);
        let codes: Vec<_> = errors.iter().map(Diagnostic::code).collect();
        assert_eq!(codes, ["rule-id"], "{}", &id[..id.len().min(20)]);
        let all = format!("{}{}", errors[0], errors[0].render());
        assert!(all.len() < 2_000, "{} bytes shown", all.len());
        assert!(!all.replace('\n', "").contains(char::is_control));
    }
}

#[test]
fn a_number_out_of_range_is_told_the_range_in_the_unit_of_the_key() {
    let with = |keys: &str| {
        format!("{HEADER}[rule.r]\ndescription = 'd'\nexamples.match = ['x']\n{keys}\n")
    };
    let any = "match.any = [{ regex = 'x+' }]\n";
    for (keys, range) in [
        (
            format!("{any}match.capture = {{ entropy = 16.5 }}"),
            "from 0.001 to 16",
        ),
        (
            format!("{any}severity = 'error'\nretry = {{ temperature = 2.5 }}"),
            "from 0 to 2",
        ),
    ] {
        let text = with(&keys);
        let errors = errors(&text);
        let is_told = |it: &Diagnostic| it.code() == "bad-value" && it.help() == Some(range);
        assert!(errors.iter().any(is_told), "{text}: {errors:?}");
    }
}

#[test]
fn a_table_that_is_something_else_is_told_how_it_is_written() {
    for (key, help) in [
        ("patterns", "write `[patterns]` and below it `name = '…'`"),
        (
            "allow",
            "it is a list of tables: write `[[allow]]`, with two brackets",
        ),
    ] {
        let text = HEADER.replacen("[pack]", &format!("{key} = 1\n[pack]"), 1);
        let errors = errors(&text);
        let is_told = |it: &Diagnostic| it.code() == "wrong-type" && it.help() == Some(help);
        assert!(errors.iter().any(is_told), "{text}: {errors:?}");
    }
}

#[test]
fn a_pattern_is_shown_with_the_one_alternative_that_it_has() {
    for (pattern, kind) in [
        (Pattern::literal("x"), "literal"),
        (Pattern::word("x"), "word"),
        (Pattern::regex("x"), "regex"),
    ] {
        let keys = rule_keys(&Rule::new("p/r", vec![pattern]));
        let shown = keys.iter().find(|key| key.name == "match").unwrap();
        let shown = format!("{:?}", shown.value);
        for other in ["literal", "word", "regex", "command"] {
            let has = shown.contains(&format!("\"{other}\""));
            assert_eq!(has, other == kind, "{other}: {shown}");
        }
    }
}

#[test]
fn the_rule_nearest_to_an_id_is_found_with_and_without_its_pack() {
    let rule = |id: &str| Rule::new(id, vec![Pattern::literal("x")]);
    let builder = Pack::builder().rule(rule("demo/no-todo"));
    let pack = builder.rule(rule("other/no-panic")).build().unwrap();
    for (typed, meant) in [
        ("demo/no-tood", Some("demo/no-todo")),
        ("no-tdoo", Some("demo/no-todo")),
        ("no-panik", Some("other/no-panic")),
        ("something-else", None),
        ("demo/something", None),
    ] {
        assert_eq!(pack.nearest_rule_id(typed), meant, "{typed}");
    }
}
