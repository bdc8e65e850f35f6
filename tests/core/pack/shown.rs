//! The messages for authors: the text of every problem, in golden files.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ttsr::{Diagnostic, Level, Limits, Pack};

use super::{
    Folder, HEADER, golden, golden_folder, golden_pack, rule, shown, shown_problems, with_rules,
};

#[test]
fn every_toml_file_shows_what_its_golden_file_says() {
    let mut inputs: Vec<PathBuf> = fs::read_dir(golden_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    inputs.sort();
    assert!(
        inputs.len() >= 15,
        "only {} inputs in tests/pack",
        inputs.len()
    );
    for path in inputs {
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let folder = Folder::new();
        let copy = folder.write(&format!("{name}.toml"), fs::read(&path).unwrap());
        let text = shown(&Pack::load(copy));
        // The messages depend on these features.
        let has_all = cfg!(all(feature = "ast", feature = "unicode"));
        let has_any = cfg!(any(feature = "ast", feature = "unicode"));
        let told = match name.as_str() {
            "look-around" if cfg!(feature = "lookaround") => "look-around-feature",
            "features" if has_all => "features-all",
            "features" if has_any => continue,
            name => name,
        };
        golden(told, &text.replace(&format!("{}/", folder.0.display()), ""));
    }
}

/// Each file has one fault and is named after it. `check` reports the fault at its place.
#[test]
fn each_thing_that_is_wrong_is_told_where_it_stands() {
    let folder = golden_folder().join("one-by-one");
    let entries = fs::read_dir(folder).unwrap();
    let mut inputs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    inputs.retain(|path| path.extension().is_some_and(|end| end == "toml"));
    inputs.sort();
    assert!(inputs.len() >= 22, "only {} inputs", inputs.len());
    for path in inputs {
        let name = path.file_stem().unwrap().to_str().unwrap();
        if name.starts_with("look-around") && cfg!(feature = "lookaround") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let today = ttsr::pack::Date::new(2026, 6, 30).unwrap();
        let builder = Pack::builder().toml(format!("{name}.toml"), text).lints();
        let problems = match builder.today(today).build() {
            Ok(pack) => pack.warnings().to_vec(),
            Err(error) => error.diagnostics().to_vec(),
        };
        assert!(!problems.is_empty(), "{name} shows nothing");
        let rendered = shown_problems(&problems);
        golden(&format!("one-by-one/{name}"), &rendered);
        // A fault in a pattern is marked inside the pattern.
        if name.contains("pattern") || name.contains("regular") {
            let caret = rendered.lines().nth(4).unwrap().find('^').unwrap();
            let pattern = rendered.lines().nth(3).unwrap().find("regex = '").unwrap();
            assert!(caret >= pattern + 8, "{rendered}");
        }
    }
}

#[test]
fn every_code_is_shown_in_a_golden_file() {
    let folders = [golden_folder(), golden_folder().join("one-by-one")];
    let shown: String = folders
        .iter()
        .flat_map(|folder| fs::read_dir(folder).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "txt"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    let missing: Vec<_> = Diagnostic::CODES
        .iter()
        .map(|(code, _)| *code)
        .filter(|code| {
            !shown.contains(&format!("error[{code}]"))
                && !shown.contains(&format!("warning[{code}]"))
                && !shown.contains(&format!("note[{code}]"))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
    let names: BTreeSet<_> = Diagnostic::CODES.iter().map(|(code, _)| code).collect();
    assert_eq!(
        names.len(),
        Diagnostic::CODES.len(),
        "a code is in the table twice"
    );
}

#[test]
fn limits_are_named_in_what_is_shown() {
    let small = Limits {
        pattern_bytes: 8,
        rule_states: 4,
        ..Limits::default()
    };
    let rules =
        rule("long", "{ regex = 'abcdefghi' }", "") + &rule("big", "{ literal = 'abcde' }", "");
    golden_pack(
        "limit-patterns",
        Pack::builder()
            .toml("demo.toml", with_rules(&rules))
            .limits(small),
    );

    let few_states = Limits {
        pack_states: 8,
        ..Limits::default()
    };
    let rules = rule("a", "{ literal = 'abcde' }", "") + &rule("b", "{ literal = 'fghij' }", "");
    golden_pack(
        "limit-pack",
        Pack::builder()
            .toml("demo.toml", with_rules(&rules))
            .limits(few_states),
    );

    let no_work = Limits {
        load_steps: 0,
        ..Limits::default()
    };
    golden_pack(
        "limit-steps",
        Pack::builder().toml("demo.toml", HEADER).limits(no_work),
    );

    // Bytes, scope entries and patterns cost steps. A pack that loads within a limit loads within it on every machine.
    let lists = |entries: usize| format!("tools = [{}]", vec!["'a'"; entries].join(","));
    let knows = |id: &str, known: &str| {
        format!("[rule.{id}]\ndescription = 'd'\nmatch.unknown-name.known = [{known}]\n")
    };
    for (text, least, most) in [
        (HEADER.to_owned(), HEADER.len(), HEADER.len()),
        (
            with_rules(&rule("a", "{ literal = 'x' }", &lists(100))),
            100 << 10,
            110 << 10,
        ),
        (
            with_rules(&rule("a", "{ regex = 'abcdefgh' }", "")),
            1024 + 8 * 64,
            3 << 10,
        ),
        // The entries of a list count once, however many rules share it.
        (
            format!(
                "{HEADER}[lists]\nnames = [{}]\n{}{}",
                vec!["'a'"; 1000].join(","),
                knows("a", "'@names'"),
                knows("b", "'@names'")
            ),
            1000 * 16,
            1000 * (16 + 4) + 1024,
        ),
        (
            with_rules(&knows("a", &vec!["'a'"; 1000].join(","))),
            1000 * 16,
            1000 * (16 + 5) + 1024,
        ),
    ] {
        let is_within = |steps: usize| {
            let limits = Limits {
                load_steps: steps as u64,
                ..Limits::default()
            };
            let built = Pack::builder()
                .toml("t", text.as_str())
                .limits(limits)
                .build();
            let codes = |error: &ttsr::LoadError| {
                let codes = error.diagnostics().iter().map(Diagnostic::code);
                codes.collect::<Vec<_>>()
            };
            built
                .map_err(|error| assert_eq!(codes(&error)[0], "load-steps"))
                .is_ok()
        };
        assert!(!is_within(least - 1), "{least} {text}");
        assert!(is_within(most), "{most} {text}");
    }

    let tools = vec!["\"a\""; 600].join(",");
    let more = "tools = [\"@many\", \"@many\"]";
    let text = format!(
        "{HEADER}[lists]\nmany = [{tools}]\n{}",
        rule("a", "{ literal = 'x' }", more)
    );
    golden_pack("limit-scope", Pack::builder().toml("demo.toml", text));

    let known = vec!["'a'"; 16_385].join(",");
    let more = format!("match.capture = {{ not-in = [{known}] }}");
    let text = with_rules(&rule("a", "{ literal = 'x' }", &more));
    let error = Pack::from_toml(&text).expect_err("`not-in` has a limit");
    let told = &error.diagnostics()[0];
    assert_eq!(
        (told.code(), told.message()),
        ("scope-too-long", "`not-in` has more than 16384 entries")
    );
}

#[test]
fn errors_are_kept_before_warnings_and_the_rest_is_counted() {
    let mut text = String::from(HEADER);
    for number in 0..1200 {
        text.push_str(&format!(
            "[rule.a{number}]\ndescription=\"d\"\nmatch.any=[{{literal=\"x\"}}]\n"
        ));
    }
    let pack = Pack::from_toml(&text).unwrap();
    assert_eq!((pack.rules().len(), pack.warnings().len()), (1200, 1001));

    text.push_str("nonsense = 1\n");
    let error = Pack::from_toml(&text).unwrap_err();
    let last_two: Vec<_> = error.diagnostics()[999..]
        .iter()
        .map(ToString::to_string)
        .collect();
    golden("too-many-problems", &(last_two.join("\n") + "\n"));
}

#[test]
fn every_problem_of_a_large_broken_file_is_counted() {
    let keys: String = (0..50_000).map(|number| format!("k{number}=1\n")).collect();
    let error = Pack::from_toml(&format!("{keys}schema=1\n[pack]\nname=\"demo\"\n")).unwrap_err();
    assert_eq!(error.diagnostics().len(), 1001);
    assert_eq!(
        error.diagnostics()[1000].message(),
        "49001 more problems are not shown"
    );
}

#[test]
fn problems_are_sorted_by_file_then_line_then_column() {
    let broken = with_rules("[rule.a]\nx=1\nb=2\n");
    let error = Pack::builder()
        .toml("b.toml", &broken)
        .toml("a.toml", &broken)
        .build()
        .unwrap_err();
    let places: Vec<_> = error
        .diagnostics()
        .iter()
        .map(|problem| (problem.file().to_owned(), problem.line(), problem.column()))
        .collect();
    assert!(places.is_sorted());
    let rules = error.diagnostics().iter().map(|problem| problem.rule());
    assert!(
        rules.clone().any(|rule| rule == Some("demo/a")),
        "{:?}",
        rules.collect::<Vec<_>>()
    );
    assert_eq!(
        (places[0].0.as_str(), places.last().unwrap().0.as_str()),
        ("a.toml", "b.toml")
    );
}

#[test]
fn check_tells_all_problems_of_files_and_folders() {
    let folder = Folder::new();
    folder.write(
        "good/a.toml",
        with_rules(&rule("a", "{ literal = 'x' }", "")),
    );
    let bad = folder.write("bad.toml", "schema = 3");
    let warned = folder.write("warned.toml", HEADER);
    let none = folder.0.join("none.toml");
    let found = ttsr::check(
        &[folder.0.join("good"), bad, warned, none],
        &Limits::default(),
    );
    let codes: Vec<_> = found.iter().map(Diagnostic::code).collect();
    let all = [
        "unsupported-schema",
        "no-negative-example",
        "unreadable",
        "no-rules",
    ];
    assert_eq!(codes, all);
    let good = ttsr::check(&[folder.0.join("good")], &Limits::default());
    assert!(good.iter().all(|found| found.level() == Level::Note));
}

#[test]
fn lints_are_told_by_check_alone_and_name_what_to_do() {
    let text = include_str!("compose/odd.toml");
    assert_eq!(Pack::from_toml(text).unwrap().warnings(), []);
    let odd = Pack::builder()
        .toml("odd.toml", text)
        .lints()
        .build()
        .unwrap();
    golden("lints", &shown_problems(odd.warnings()));
}

/// A lint fires for a rule that does not do what its author seems to mean, says what to write instead, and is silent
/// otherwise.
#[test]
fn lints_see_what_a_rule_really_does() {
    let told = |keys: &str| {
        let rule = format!(
            "[rule.r]\ndescription = 'd'\nexamples.match = ['x']\nexamples.no-match = ['z']\n{keys}"
        );
        let pack = Pack::builder().toml("a", with_rules(&rule)).lints().build();
        let pack = pack.unwrap_or_else(|error| panic!("{error}"));
        let told = pack.warnings().iter();
        told.map(|it| format!("{}: {}", it.code(), it.help().unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    let deprecated = told("status = 'deprecated'\nmatch.any = [{ literal = 'bad' }]");
    let help = "deprecated-rule: remove it, or name its replacement in `replaced-by`";
    assert_eq!(deprecated, [help]);
    // A distance in characters retains no more than these characters.
    let held = |within: &str| {
        told(&format!(
            "hold = true\nmatch.all = [{{ literal = 'bad' }}, {{ literal = 'worse' }}]\nmatch.within = {within}"
        ))
    };
    assert_eq!(held("{ chars = 80 }"), [""; 0]);
    assert!(
        held("{ part = true }")[0].starts_with("unbounded"),
        "{:?}",
        held("{ part = true }")
    );
    // A boundary after a punctuation character, at the end and inside of a group.
    for regex in [r"todo!\b", r"(?:todo!\b)", r"fix|(?:todo!\b)"] {
        let told = told(&format!("match.any = [{{ regex = '{regex}' }}]"));
        assert!(
            told.iter().any(|it| it.starts_with("odd-boundary")),
            "{regex}: {told:?}"
        );
    }
    assert_eq!(told(r"match.any = [{ regex = 'todo\b' }]"), [""; 0]);
}

/// Only a cut suppresses the hits of other rules. A rule with an error shadows none.
#[test]
fn only_rules_that_always_cut_shadow_others() {
    let told = |stronger: &str, on: &str| {
        let pattern = "{ literal = 'xyz' }";
        let weaker = rule(
            "weaker",
            pattern,
            &format!("action = 'observe'\non = ['{on}']"),
        );
        let stronger = rule("stronger", pattern, &format!("{stronger}\non = ['{on}']"));
        let text = with_rules(&(weaker + &stronger));
        let built = Pack::builder().toml("a", &text).lints().build();
        let problems = match &built {
            Ok(pack) => pack.warnings(),
            Err(error) => error.diagnostics(),
        };
        let shadowed = problems.iter().filter(|it| it.code() == "shadowed-rule");
        shadowed.count()
    };
    for stronger in [
        "action = 'abort'",
        "severity = 'critical'\naction = 'retry'",
        "action = 'retry'\nretry.then = 'abort'",
    ] {
        assert_eq!(told(stronger, "text"), 1, "{stronger}");
    }
    for stronger in [
        "action = 'warn'",
        "action = 'inject'",
        "action = 'redact'",
        "action = 'retry'",
        "action = 'abort'\nallowance.per-session = 1",
        "action = 'abort'\nmatch.within = { lines = 2 }",
        "action = 'abort'\nheader = { name = 'x', value = 'y' }",
    ] {
        assert_eq!(told(stronger, "text"), 0, "{stronger}");
    }
    for stronger in [
        "action = 'prepend'",
        "action = 'set-header'\nheader = { name = 'x-route', value = 'v' }",
    ] {
        assert_eq!(told(stronger, "user-input"), 0, "{stronger}");
    }
}

/// An allowed text that no match can equal is reported; one that a match may equal is not.
#[test]
fn texts_that_are_allowed_may_be_matches() {
    let told = |pattern: &str, text: &str| {
        let allow = format!("[[allow]]\nrules = ['demo/r']\ntext = ['{text}']\nreason = 'r'");
        let text = with_rules(&rule("r", pattern, &allow));
        let pack = Pack::builder().toml("a", &text).lints().build();
        let pack = pack.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let told = pack.warnings().iter().map(Diagnostic::code);
        told.filter(|code| *code == "unused-allow")
            .collect::<Vec<_>>()
    };
    assert_eq!(told("{ regex = 'x[0-9]+' }", "X12"), [""; 0]);
    assert_eq!(told("{ regex = 'x[0-9]+' }", "y12"), ["unused-allow"]);
    // A wildcard, or folded text, may equal a match.
    assert_eq!(told("{ regex = 'x[0-9]+' }", "y*"), [""; 0]);
    assert_eq!(
        told("{ regex = 'x[0-9]+', fold = ['invisible'] }", "y12"),
        [""; 0]
    );
}
