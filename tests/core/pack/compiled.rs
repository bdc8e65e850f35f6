//! Compiled packs: what is read back, what is refused, and what the host decides when it reads one.

use ttsr::pack::{Date, LoadErrorKind, Lock};
use ttsr::{Action, Channel, Level, Limits, LoadError, Pack, Pattern, Rule};

use super::{golden_error, with_rules};

/// Returns the built-in packs that this build can load.
fn builtins() -> impl Iterator<Item = Pack> {
    Pack::builtin_names().map(|name| Pack::builtin(name).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn every_builtin_pack_is_read_back() {
    for pack in builtins() {
        let bytes = pack.to_bytes();
        let read = Pack::from_bytes(&bytes).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(read.rules(), pack.rules());
        assert_eq!(read.headers(), pack.headers());
        assert_eq!(read.lock(), pack.lock());
        assert_eq!(read.to_bytes(), bytes);
    }
}

#[test]
fn examples_hit_in_a_pack_that_is_read_back() {
    let mut hits = 0;
    for name in [
        "lang/rust",
        "std/secrets",
        "std/shell-safety",
        "std/injection",
    ] {
        let original = Pack::builtin(name).unwrap();
        let read = Pack::from_bytes(&original.to_bytes()).unwrap();
        for rule in original.rules().iter().step_by(5) {
            for text in &rule.examples.matching {
                let scan = |pack| ttsr::scan(pack, rule.on[0], None, None, text.as_bytes());
                let (found, expected) = (scan(&read), scan(&original));
                assert_eq!(found, expected, "{}: {text}", rule.id);
                hits += found.len();
            }
        }
    }
    assert!(hits > 20, "{hits}");
}

#[test]
fn bytes_that_cannot_be_read_say_why() {
    let pack = Pack::from_toml(&with_rules("")).unwrap();
    let bytes = pack.to_bytes();
    let read = |bytes: &[u8]| Pack::builder().compiled("team.pack", bytes);
    golden_error("compiled-damaged", read(&bytes[..bytes.len() - 2]));
    golden_error("compiled-no-pack", read(b"schema = 1"));
    let version = bytes.windows(5).position(|five| five == b"0.1.0").unwrap();
    let mut other = bytes.clone();
    other[version] = b'7';
    golden_error("compiled-version", read(&other));
    golden_error("compiled-combined", read(&bytes).builtin("lang/go"));
    let error = Pack::from_bytes(&other).unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::Compiled);
    assert_eq!(error.kind().name(), "compiled");
}

#[test]
fn the_host_decides_grants_the_day_the_lock_and_the_workspace() {
    let text = with_rules(
        r#"
[rule.no-todo]
description = "d"
severity = "error"
match.any = [{ literal = "TODO" }]
examples.match = ["TODO"]
[[allow]]
rules = ["demo/no-todo"]
tools = ["write"]
reason = "until the release"
until = 2026-03-01
"#,
    );
    let day = |text| Date::parse(text).unwrap();
    let original = Pack::builder()
        .toml("demo.toml", text)
        .today(day("2026-02-01"));
    let bytes = original.build().unwrap().to_bytes();
    let read = || Pack::builder().compiled("demo.pack", &bytes);
    let codes = |pack: &Pack| -> Vec<&str> { pack.warnings().iter().map(|it| it.code()).collect() };

    assert_eq!(codes(&read().build().unwrap()), ["undated-allow"]);
    let late = read().today(day("2026-03-02")).build().unwrap();
    assert_eq!(codes(&late), ["expired-allow"]);
    assert_eq!(
        codes(&read().today(day("2026-03-01")).build().unwrap()),
        [""; 0]
    );

    let refused = read().grants(&[Action::Inject]).build().unwrap_err();
    let errors = |error: &LoadError| {
        let errors = error.diagnostics().iter();
        let errors = errors.filter(|it| it.level() == Level::Error);
        errors
            .map(|it| (it.code(), it.rule().unwrap_or_default().to_owned()))
            .collect::<Vec<_>>()
    };
    assert_eq!(
        errors(&refused),
        [("not-granted", "demo/no-todo".to_owned())]
    );

    let other = Pack::builtin("lang/go").unwrap().lock().clone();
    let locked = read().lock(other).build().unwrap_err();
    assert!(
        errors(&locked)
            .iter()
            .all(|(code, _)| *code == "lock-mismatch")
    );
    let own = Lock::parse(&late.lock().to_string()).unwrap();
    assert!(read().lock(own).build().is_ok());

    let here = read().root("/repo").home("/home/ada").build().unwrap();
    assert_eq!(
        (here.root(), here.home()),
        (Some("/repo"), Some("/home/ada"))
    );
    let small = Limits {
        pack_states: 1,
        ..Limits::default()
    };
    let error = read().limits(small).build().unwrap_err();
    assert_eq!(error.kind(), LoadErrorKind::TooLarge);
}

#[test]
fn a_pack_of_rules_made_in_code_is_read_back() {
    let mut rule = Rule::new("demo/it", vec![Pattern::regex(r"\bx{2,}y?")]);
    rule.on = vec![Channel::Text];
    let pack = Pack::builder().rule(rule).build().unwrap();
    let read = Pack::from_bytes(&pack.to_bytes()).unwrap();
    assert_eq!(read.rules(), pack.rules());
    let found = ttsr::scan(&read, Channel::Text, None, None, b"a xxy");
    assert_eq!(
        found,
        ttsr::scan(&pack, Channel::Text, None, None, b"a xxy")
    );
    assert_eq!(found.len(), 1);
    let empty = Pack::builder().build().unwrap();
    assert!(
        Pack::from_bytes(&empty.to_bytes())
            .unwrap()
            .rules()
            .is_empty()
    );
}
