//! Fragments: `[patterns]`, and their uses in regular expressions.

use proptest::prelude::*;
use ttsr::{Limits, Pack, PartId};

use super::{error_codes, errors, golden_error, pack_of, rule, with_rules};

/// Returns a pack whose rules have these patterns, `r0` the first.
fn pack(fragments: &str, regexes: &[&str]) -> String {
    let rules = regexes.iter().enumerate().map(|(number, regex)| {
        let pattern = format!("{{ regex = '''{regex}''' }}");
        rule(&format!("r{number}"), &pattern, "")
    });
    with_rules(&format!(
        "[patterns]\n{fragments}\n{}",
        rules.collect::<String>()
    ))
}

/// Returns the expanded pattern of a rule that is the only one.
fn expanded(fragments: &str, regex: &str) -> String {
    let text = pack(fragments, &[regex]);
    let pack = Pack::from_toml(&text).unwrap_or_else(|error| panic!("{text}\n{error}"));
    pack.rules()[0].condition.any[0].text.clone()
}

fn hits(pack: &str, text: &str) -> usize {
    let pack = Pack::from_toml(pack).unwrap_or_else(|error| panic!("{pack}\n{error}"));
    let mut stream = pack.stream();
    stream.push(PartId(0), text.as_bytes()).len() + stream.finish().len()
}

#[test]
fn a_use_is_replaced_by_a_group_with_the_fragment() {
    let fragments = "or = 'a|b'\nnested = 'x(?&or)y'\nflag = '(?i)c'";
    assert_eq!(expanded(fragments, "(?&or)z"), "(?:a|b)z");
    assert_eq!(
        expanded(fragments, "(?&nested)+(?&or)"),
        "(?:x(?:a|b)y)+(?:a|b)"
    );
    // A use in a class, after a backslash or in a literal is the text itself.
    assert_eq!(
        expanded(fragments, r"[(?&or)]\(?&or\)x"),
        r"[(?&or)]\(?&or\)x"
    );
    let literal = format!(
        "[patterns]\nor = 'a|b'\n{}",
        rule("r", "{ literal = '(?&or)' }", "")
    );
    assert_eq!(hits(&with_rules(&literal), "x (?&or) a"), 1);
}

#[test]
fn alternatives_and_flags_of_a_fragment_end_with_it() {
    let fragments = "or = 'ab|cd'\nflag = '(?i)ef'\nspaced = 'g h'\ncomment = '(?x) i j # k'";
    assert_eq!(hits(&pack(fragments, &["x(?&or)y"]), "xaby xcdy"), 1);
    assert_eq!(hits(&pack(fragments, &["x(?&or)y"]), "xab cdy"), 0);
    assert_eq!(hits(&pack(fragments, &["(?&flag)g"]), "EFg"), 1);
    assert_eq!(hits(&pack(fragments, &["(?&flag)g"]), "EFG"), 0);
    // A flag of the pattern applies to the fragment, except for `x`.
    assert_eq!(hits(&pack(fragments, &["(?i)x(?&or)y"]), "XABY"), 1);
    for verbose in ["(?x) (?&spaced) i # (?&no)", "(?x: (?&spaced) i )"] {
        assert_eq!(hits(&pack(fragments, &[verbose]), "g hi"), 1, "{verbose}");
        assert_eq!(hits(&pack(fragments, &[verbose]), "ghi"), 0, "{verbose}");
    }
    assert_eq!(hits(&pack(fragments, &["(?&comment)k l"]), "ijk l"), 1);
}

#[test]
fn every_pattern_of_a_rule_and_of_an_override_may_use_fragments() {
    let base = pack_of("base", "", &rule("a", "{ regex = 'xy' }", ""));
    let top = pack_of(
        "top",
        "extends = ['base']",
        "[patterns]\nexcuse = 'ok|fine'\n[override.'base/a']\n\
         append.match.none = [{ regex = '(?&excuse)!' }]\n\
         [rule.b]\ndescription = 'd'\nmatch.all = [{ regex = '(?&excuse)a' }, { regex = '(?&excuse)b' }]\n",
    );
    let load = |top: &str| Pack::builder().toml("b", &base).toml("t", top).build();
    let loaded = load(&top).unwrap();
    assert_eq!(loaded.rules()[0].condition.none[0].text, "(?:ok|fine)!");
    assert_eq!(loaded.rules()[1].condition.all[1].text, "(?:ok|fine)b");
    // The fragments of a pack are its own: those of a pack that it extends are not available.
    let base_only = top.replace("[patterns]\nexcuse = 'ok|fine'\n", "");
    let with_fragment = format!("{base}[patterns]\nexcuse = 'x'\n");
    let built = Pack::builder()
        .toml("b", with_fragment)
        .toml("t", base_only);
    let error = built.build().unwrap_err();
    assert_eq!(error.diagnostics()[0].code(), "unknown-fragment");
}

#[test]
fn the_files_of_a_pack_share_their_fragments_in_any_order() {
    let names = "[patterns]\nstart = '(?:^|;) *(?&sudo)'\n";
    let more = format!(
        "[patterns]\nsudo = 'sudo '\n{}",
        rule("a", "{ regex = '(?&start)rm' }", "")
    );
    for (first, second) in [("a", "b"), ("b", "a")] {
        let pack = Pack::builder()
            .toml(first, pack_of("demo", "", names))
            .toml(second, pack_of("demo", "", &more))
            .lints()
            .build()
            .unwrap();
        let text = &pack.rules()[0].condition.any[0].text;
        assert_eq!(text, "(?:(?:^|;) *(?:sudo ))rm");
        assert!(
            pack.warnings()
                .iter()
                .all(|it| it.code() != "unused-fragment")
        );
    }
    let twice = Pack::builder()
        .toml("one.toml", pack_of("demo", "", "[patterns]\nstart = 'a'"))
        .toml(
            "two.toml",
            pack_of(
                "demo",
                "",
                &format!("[patterns]\nstart = 'b'\n{more}").replace("[patterns]\nsudo", "sudo"),
            ),
        );
    golden_error("duplicate-fragment", twice);
}

#[test]
fn a_fault_of_a_fragment_in_another_file_is_reported_there() {
    let names = "[patterns]\nbig = '\\w{1000}'\nopen = 'a('\n";
    let rules = rule("a", "{ regex = '(?:(?&big){900}){900}' }", "")
        + &rule("b", "{ regex = 'x(?&open)' }", "");
    let builder = Pack::builder()
        .toml("names.toml", pack_of("demo", "", names))
        .toml("rules.toml", pack_of("demo", "", &rules));
    golden_error("fragment-in-another-file", builder);
}

#[test]
fn nested_fragments_that_grow_are_refused_in_bounded_time() {
    // Each fragment is twice as long as the one before: 2^60 bytes.
    let mut fragments = String::from("f0 = 'ab'\n");
    for number in 1..60 {
        let inner = number - 1;
        fragments += &format!("f{number} = '(?&f{inner})(?&f{inner})'\n");
    }
    let codes = error_codes(&pack(&fragments, &["(?&f59)"]));
    assert!(
        !codes.is_empty() && codes.iter().all(|code| *code == "pattern-too-long"),
        "{codes:?}"
    );
    // A pattern whose fragments are within the limit, and that is not.
    let limits = Limits {
        pattern_bytes: 64,
        ..Limits::default()
    };
    let text = pack(
        "half = 'abcdefghijklmnopqrstuvwxyz'",
        &["(?&half)(?&half)(?&half)"],
    );
    let built = Pack::builder().toml("a.toml", text).limits(limits);
    golden_error("fragments-too-long", built);
    // Many patterns, each within its limit.
    let long = format!("long = '{}'", "a".repeat(5_000));
    let limits = Limits {
        load_steps: 1 << 22,
        ..Limits::default()
    };
    let text = pack(&long, &["(?&long)"; 200]);
    let built = Pack::builder()
        .toml("a.toml", &*text)
        .limits(limits)
        .build();
    let error = built.unwrap_err();
    assert!(
        error
            .diagnostics()
            .iter()
            .any(|it| it.code() == "load-steps"),
        "{error}"
    );
    assert!(Pack::from_toml(&text).is_ok());
    // A chain of fragments that would nest groups beyond the bound of the parser.
    let mut chain = String::from("f0 = 'ab'\n");
    for number in 1..3_000 {
        chain += &format!("f{number} = '(?&f{})'\n", number - 1);
    }
    assert!(error_codes(&pack(&chain, &["(?&f2999)"])).contains(&"pattern-too-long"));
}

#[test]
fn a_fragment_is_a_regular_expression_of_its_own() {
    for (fragment, code) in [
        ("a = 'b)(c'", "regex"),
        ("a = '*'", "regex"),
        ("a = 'x\\'", "regex"),
        ("a = \"\\bx\"", "regex"),
        ("a = ''", "empty-value"),
        ("a = 3", "wrong-type"),
        ("a = '(?&a)'", "cyclic-fragments"),
        ("a = 'x(?&b)'", "unknown-fragment"),
        ("a = 'x'\n-b = ''", "fragment-name"),
    ] {
        // The rule that uses it is not reported as well.
        assert_eq!(
            error_codes(&pack(fragment, &["a(?&a)"])),
            [code],
            "{fragment}"
        );
    }
    // It may match the empty text.
    assert_eq!(expanded("a = ' *'", "x(?&a)y"), "x(?: *)y");
    // Rules that are made in code have no fragments.
    let rule = ttsr::Rule::new("a/b", vec![ttsr::Pattern::regex("(?&a)")]);
    assert!(Pack::builder().rule(rule).build().is_err());
}

#[test]
fn a_file_that_is_not_toml_hides_no_other_problem() {
    let text = pack("a = 'x'", &["(?&a)y"]) + "x = [";
    assert_eq!(error_codes(&text), ["syntax"]);
    let errors = errors(&pack("a = 'x'", &["(?&b)y"]));
    assert_eq!(
        errors[0].help(),
        Some("fragments are defined in `[patterns]` of the pack: did you mean `a`?")
    );
}

const PIECES: [&str; 14] = [
    "a = '", "b = '", "c-d = '", "(?&a)", "(?&b)", "(?&c-d)", "(?x)", "#", "[", "]", "(", ")",
    "'\n", "x",
];

proptest! {
    #[test]
    fn any_fragments_are_survived(
        fragments in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..20),
        regex in prop::collection::vec(prop::sample::select(&PIECES[3..]), 1..6),
    ) {
        let text = format!(
            "schema = 1\npack.name = 'p'\n[patterns]\n{}'\n[rule.r]\ndescription = 'd'\nmatch.any = [{{ regex = '{}' }}]\n",
            fragments.concat(),
            regex.concat().replace("'\n", ""),
        );
        if let Ok(pack) = Pack::from_toml(&text) {
            // Every use was found.
            let expanded = &pack.rules()[0].condition.any[0].text;
            let parsed = regex_syntax::parse(expanded);
            prop_assert!(parsed.is_ok() || !expanded.contains("(?&"), "{}", expanded);
        }
    }
}
