//! Every pack that `check` accepts loads, and matches any text without a panic. Each case failed at least once.

use std::sync::Arc;

use ttsr::rule::{
    Bound, Capture, Condition, Count, DoomLoop, Fold, KnownList, Per, Repetition, UnknownName,
    Within,
};
use ttsr::{Action, Channel, Diagnostic, Limits, LoadError, Pack, PartId, Pattern, Rule};

use super::{error_codes, errors, rule, with_rules};

/// Reads a text in deltas and as a whole. Returns the number of hits.
fn read(pack: &Pack, text: &str) -> usize {
    let mut hits = 0;
    let mut session = pack.session();
    session.begin_turn();
    for channel in [Channel::Text, Channel::ToolOutput] {
        if !Channel::STREAMED.contains(&channel) {
            hits += session
                .check(channel, Some("bash"), text.as_bytes())
                .decisions()
                .len();
            continue;
        }
        let mut stream = session.stream();
        let part = PartId(0);
        let _ = session.open(&mut stream, part, channel);
        for delta in text.as_bytes().chunks(7) {
            let _ = session.push(&mut stream, part, delta);
            hits += session.decisions().len();
        }
        let _ = session.finish(&mut stream);
        hits += session.decisions().len();
    }
    hits
}

fn loaded(text: &str) -> Pack {
    Pack::from_toml(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn patterns_with_large_classes_match_under_every_action_and_condition() {
    let token = format!("token={};\n", "aé".repeat(30));
    for regex in [
        r"token=\w{8,256}",
        r"token=(\w{8,256})",
        r"(?i)token=[\p{L}\d]{8,4000}",
        r"token=(?:\w{1,30}\W?){2,9}",
    ] {
        let pattern = format!("{{ regex = '{regex}' }}");
        for more in [
            "action = 'redact'",
            "hold = true",
            "match.count = 1",
            "match.count = 1\nmatch.per = 'session'",
            "match.first = 5000",
            "match.last = 5000",
            "match.capture = { entropy = 0.1 }",
            "match.capture = { group = '0', random = true }",
            "match.capture = { checksum = 'npm-crc32' }",
            "match.none = [{ regex = '\\w{300,900}x' }]",
            "match.none = [{ literal = 'x' }]\nmatch.within = { chars = 9 }",
            "[[allow]]\nrules = ['demo/*']\nreason = 'r'\ntext = ['nothing']",
        ] {
            let pack = loaded(&with_rules(&rule("a", &pattern, more)));
            let found = read(&pack, &format!("A {token}B {token}"));
            let is_rare = more.contains("random") || more.contains("checksum");
            assert!(found > 0 || is_rare, "{regex} with {more}");
        }
        for list in ["all", "sequence"] {
            let conditions = format!("match.{list} = [{pattern}, {{ regex = '\\w{{2,700}};' }}]");
            let text = format!("[rule.a]\ndescription = 'd'\n{conditions}\n");
            read(&loaded(&with_rules(&text)), &token.repeat(2));
        }
    }
}

/// The text was inserted into another text, in which its comment extended over the rest.
#[test]
fn a_line_is_asked_for_whatever_the_pattern_is_written_like() {
    for regex in ["(?x)abc # comment", "abc(?x) #", "a|b", "(?i)ABC"] {
        let pattern = format!("{{ regex = '{regex}' }}");
        let pack = loaded(&with_rules(&rule("a", &pattern, "match.line = true")));
        let word = if regex == "a|b" { "b" } else { "abc" };
        assert!(read(&pack, &format!("x\n{word}\ny")) > 0, "{regex}");
        assert_eq!(read(&pack, &format!("x\n{word} {word}\ny")), 0, "{regex}");
    }
    let nested = format!("{}abc{}", "(".repeat(249), ")".repeat(249));
    let pattern = format!("{{ regex = '{nested}' }}");
    let pack = loaded(&with_rules(&rule("a", &pattern, "match.line = true")));
    assert!(read(&pack, "x\nabc\ny") > 0);
}

/// The escaped form of such a literal was longer than a pattern may be.
#[test]
fn a_literal_is_as_long_as_it_is_written() {
    // It can start at one position only; otherwise a match would start at every position of the text.
    let long = format!("x{}", ".".repeat(Limits::default().pattern_bytes - 1));
    for (kind, text) in [
        ("literal", long.as_str()),
        ("word", &long[..long.len() - 2]),
    ] {
        for more in [
            "",
            "action = 'redact'",
            "match.line = true",
            "match.fold = 'case'",
        ] {
            let pack = loaded(&with_rules(&rule(
                "a",
                &format!("{{ {kind} = '{text}' }}"),
                more,
            )));
            // With its line boundaries the pattern is longer than a stretch may be.
            let is_cut = more.contains("line");
            assert!(read(&pack, text) > 0 || is_cut, "{kind} with {more}");
        }
    }
    let longer = with_rules(&rule("a", &format!("{{ literal = '{long}.' }}"), ""));
    assert_eq!(error_codes(&longer), ["pattern-too-long"]);
}

#[test]
fn a_pattern_that_its_fold_leaves_nothing_of_is_an_error_at_its_place() {
    for (pattern, more) in [
        ("{ literal = \"\\u200B\", fold = 'invisible' }", ""),
        ("{ word = \"\\u200B\" }", "match.fold = 'invisible'"),
        (
            "{ regex = '\\x{200b}' }",
            "match.fold = ['case', 'invisible']",
        ),
        ("{ regex = 'foo|\\x{200b}*', fold = 'invisible' }", ""),
    ] {
        let told = errors(&with_rules(&rule("a", pattern, more)));
        let codes: Vec<_> = told.iter().map(|it| (it.code(), it.line())).collect();
        let is_empty_itself = pattern.contains('*');
        let code = if is_empty_itself {
            "matches-empty"
        } else {
            "fold"
        };
        assert_eq!(codes, [(code, 6)], "{pattern} {more}");
    }
    let by_hand = |pattern: Pattern| {
        Pack::builder()
            .rule(Rule::new("a/b", vec![pattern]))
            .build()
    };
    let mut nothing = Pattern::literal("\u{200b}");
    nothing.fold = vec![Fold::Invisible];
    let error = by_hand(nothing).unwrap_err();
    assert_eq!(error.diagnostics()[0].code(), "fold");
}

/// In a pattern that can match single bytes, a class has a state for each byte of its UTF-8 sequences.
#[test]
fn large_classes_in_patterns_over_bytes_are_told_by_their_size() {
    let text = with_rules(&rule("a", "{ regex = '\\w{9000}(?-u:\\xFF)' }", ""));
    let told = errors(&text);
    assert_eq!(told[0].code(), "pattern-too-big");
    assert!(told[0].message().contains("limit is 65536"), "{}", told[0]);
    let small = with_rules(&rule(
        "a",
        "{ regex = '\\w{9}(?-u:\\xFF)' }",
        "action = 'redact'",
    ));
    read(&loaded(&small), "aaaaaaaaa");
}

/// The bounds of keys in files also hold for rules that are built in code.
#[test]
fn numbers_of_rules_made_in_code_have_the_limits_of_files() {
    let with = |set: fn(&mut Rule)| {
        let mut rule = Rule::new("a/b", vec![Pattern::literal("x")]);
        rule.on = vec![Channel::Text, Channel::ToolInput];
        set(&mut rule);
        let error = Pack::builder().rule(rule).build();
        error.map(|_| ()).map_err(|error| error.to_string())
    };
    type Set = fn(&mut Rule);
    let rows: [(&str, Set); 12] = [
        ("match.first", |it| it.condition.first = Some(u32::MAX)),
        ("match.last", |it| it.condition.last = Some(u32::MAX)),
        ("match.count", |it| {
            it.condition.count = Some(Count {
                times: u32::MAX,
                per: Per::Part,
            });
        }),
        ("match.within.lines", |it| {
            it.condition.none = vec![Pattern::literal("y")];
            it.condition.within = Some(Within::Lines(u32::MAX));
        }),
        ("match.within.chars", |it| {
            it.condition.none = vec![Pattern::literal("y")];
            it.condition.within = Some(Within::Chars(u32::MAX));
        }),
        ("match.capture.entropy", |it| {
            it.condition.capture = Some(Capture {
                entropy: Some(u32::MAX),
                ..Capture::default()
            });
        }),
        ("match.repetition.unit-chars", |it| {
            it.condition = Condition::default();
            it.condition.repetition = Some(Repetition {
                unit_chars: (1, 4097),
                times: 4,
                near: false,
                turns: None,
            });
        }),
        ("match.repetition.times", |it| {
            it.condition = Condition::default();
            it.condition.repetition = Some(Repetition {
                unit_chars: (1, 9),
                times: u32::MAX,
                near: false,
                turns: None,
            });
        }),
        ("match.doom-loop.times", |it| {
            it.condition = Condition::default();
            it.condition.doom_loop = Some(DoomLoop {
                times: u32::MAX,
                differing: 0,
            });
        }),
        ("match.limit.bytes", |it| {
            it.condition = Condition::default();
            it.condition.limit = Some(Bound {
                bytes: Some(u64::MAX),
                ..Bound::default()
            });
        }),
        ("retry.max", |it| {
            it.action = Action::Retry;
            it.retry.max = u32::MAX;
        }),
        ("`tools` has more than 1024 entries", |it| {
            it.tools = vec!["t".to_owned(); 1025];
        }),
    ];
    for (path, set) in rows {
        let told = with(set).expect_err(path);
        assert!(told.contains(path), "{path}: {told}");
    }
}

#[test]
fn a_glob_of_not_in_that_cannot_be_read_is_an_error() {
    let text = with_rules(&rule(
        "a",
        "{ regex = 'x(y+)' }",
        "match.capture = { not-in = ['fine*', '['] }",
    ));
    assert_eq!(error_codes(&text), ["glob"]);
}

#[test]
fn rules_with_the_same_list_share_it() {
    let text = with_rules(
        "[lists]\nnames = ['serde', 'tokio']\n\
         [rule.a]\ndescription = 'd'\nmatch.unknown-name = { known = ['@names'] }\n\
         [rule.b]\ndescription = 'd'\nmatch.unknown-name = { known = ['@names', 'mine'] }\n",
    );
    let pack = loaded(&text);
    let known = |index: usize| {
        let condition = &pack.rules()[index].condition;
        condition.unknown_name.as_ref().unwrap().known.clone()
    };
    let first = |known: &KnownList| known.iter().next().unwrap().as_ptr();
    let (a, b) = (known(0), known(1));
    assert_eq!(first(&a), first(&b));
    assert_eq!(b.iter().collect::<Vec<_>>(), ["serde", "tokio", "mine"]);
    let list: Arc<[String]> = Arc::from(["x".to_owned()]);
    let mut mine = KnownList::default();
    mine.add(Arc::clone(&list));
    let names = UnknownName {
        known: mine,
        ..UnknownName::default()
    };
    assert_eq!(first(&names.clone().known), list[0].as_ptr());
}

#[test]
fn only_a_regex_on_the_unchanged_text_captures() {
    for (pattern, codes) in [
        ("{ regex = '(?<x>a)' }", &[][..]),
        ("{ regex = '(?<x>a)', fold = ['case'] }", &["capture-group"]),
        (
            "{ regex = '(?<x>a)', region = ['prose'] }",
            &["capture-group"],
        ),
        ("{ literal = '(?<x>a)' }", &["capture-group"]),
    ] {
        let more = "on = ['tool-output']\naction = 'warn'\nmessage = '{{ capture.x }}'";
        let text = with_rules(&rule("a", pattern, more).replace("\"x\"", "\"(?<x>a)\""));
        let pack = Pack::from_toml(&text);
        let found = pack.as_ref().err().map_or(&[][..], LoadError::diagnostics);
        let found: Vec<_> = found.iter().map(Diagnostic::code).collect();
        assert_eq!(found, codes, "{pattern}");
    }
}

#[test]
fn lists_are_equal_if_their_names_are() {
    let list = |names: &[&str]| names.iter().copied().collect::<KnownList>();
    let mut two_lists = list(&["serde"]);
    two_lists.add(Arc::from(["tokio".to_owned()]));
    assert_eq!(two_lists, list(&["serde", "tokio"]));
    assert_eq!(two_lists.clone(), two_lists);
    assert_ne!(list(&["serde"]), list(&["tokio"]));
    assert_ne!(list(&["serde"]), two_lists);
}

/// Folded text has no capitals: the pattern could never match.
#[test]
fn a_regex_is_folded_like_the_text_that_it_reads() {
    for (regex, fold, text, other) in [
        (r"DROP\s+TABLE", "'case'", "drop  Table x", "DROP TABL"),
        (r"[A-F]{3}[^a-z]", "'case'", "fAc!", "facE"),
        (r"(?i)ÄB", "'case'", "äb", "ab"),
        (r"(?-i:ABC)", "'case'", "aBc", "ab"),
        ("a\u{200b}b", "'invisible'", "a\u{200b}\u{200d}b", "a b"),
        (r"KEY=\w+", "['case', 'invisible']", "k\u{200b}ey=x", "key"),
        #[cfg(feature = "unicode")]
        ("ＤＲＯＰ", "['case', 'nfkc']", "drop", "dro"),
        #[cfg(feature = "unicode")]
        (r"E\x{301}T", "['case', 'nfkc']", "e\u{301}t", "et"),
        #[cfg(feature = "lookaround")]
        (r"DROP(?! INDEX)", "'case'", "Drop table", "drop INDEX"),
    ] {
        let pattern = format!("{{ regex = '{regex}', fold = {fold} }}");
        let at_rule = format!("match.fold = {fold}");
        for text_of_rule in [
            with_rules(&rule("a", &pattern, "")),
            with_rules(&rule("a", &format!("{{ regex = '{regex}' }}"), &at_rule)),
        ] {
            let pack = loaded(&text_of_rule);
            assert!(read(&pack, text) > 0, "{regex} on {text}");
            assert_eq!(read(&pack, other), 0, "{regex} on {other}");
        }
    }
}

/// The number of alternatives is the product of those of the groups: 24 pairs took minutes and gigabytes.
#[test]
fn a_command_with_many_groups_is_loaded_at_once() {
    let program = "{zap,zip}".to_owned() + &"{a,b}".repeat(24);
    let pipes = format!("{{ command = 'cat', pipe-to = {{ command = '{program}' }} }}");
    for pattern in [format!("{{ command = '{program}' }}"), pipes] {
        let text = with_rules(&rule("a", &pattern, "on = ['tool-input']\naction = 'warn'"));
        let pack = loaded(&text.replace("\"x\"", "\"cat x | zipabababababababababababab\""));
        assert_eq!(pack.rules().len(), 1);
    }
}
