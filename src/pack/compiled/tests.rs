use super::*;
use crate::PartId;
use crate::limits::Limits;
use crate::rule::{Ast, Bound, Count, DoomLoop, Per, Repetition, Script, UnknownName, Within};
use ttsr_testing::{Random, in_parts, scale};

const RULES: &str = r#"
schema = 1
[pack]
name = "t"
version = "1.2.3"
[lists]
known = ["alpha", "beta"]
[rule.plain]
description = "d"
match.any = [{ literal = "todo" }, { word = "später" }, { regex = '(?i)a[^\s\w]{2,9}b|c(?<n>[0-9]+)$' }]
examples.match = ["todo"]
[rule.bytes]
description = "d"
match.any = [{ regex = '(?-u:\xFF\w+)' }, { literal = "x", unless = '[xyz]{3}' }]
examples.match = ["x"]
[rule.several]
description = "d"
match.all = [{ literal = "one" }, { regex = "tw[op]" }]
match.within = { lines = 2 }
examples.match = ["one two"]
[rule.counted]
description = "d"
match.any = [{ regex = 'key=(\w{4,40})' }]
match.capture = { group = "1", entropy = 1.5, not-in = ["*example*"] }
match.count = 2
action = "redact"
examples.match = ["key=aB3dE6 key=gH9jK2"]
[rule.shell]
description = "d"
on = ["tool-input"]
match.any = [{ command = "git push", flags = ["-f|--force"], no-flags = ["--dry-run"], operand = '^or', raw = 'git +push', pipe-to = { command = "sh" } }]
examples.match = ["git push -f origin | sh"]
[rule.line]
description = "d"
match.any = [{ literal = "done" }]
match.line = true
examples.match = ["done"]
[rule.loop]
description = "d"
match.repetition = { unit-chars = [20, 400], times = 4 }
[rule.names]
description = "d"
match.unknown-name = { known = ["@known"] }
examples.match = ["~~~rust\nuse gamma::x;\n~~~\n"]
[rule.script]
description = "d"
match.script = { expect = ["latin", "en"] }
examples.match = ["Это совсем не то, о чём мы говорили раньше, и даже не тот язык."]
[[allow]]
rules = ["t/several"]
text = ["one*"]
paths = ["docs/**"]
reason = "r"
"#;

fn original() -> Pack {
    Pack::from_toml(RULES).unwrap_or_else(|error| panic!("{error}"))
}

fn payload_of(pack: &Pack) -> Vec<u8> {
    let bytes = pack.to_bytes();
    let at = payload(&bytes).expect("the header was just written");
    bytes[at..].to_vec()
}

#[test]
fn a_pack_that_is_read_back_is_written_again_as_the_same_bytes() {
    let pack = original();
    let bytes = pack.to_bytes();
    assert_eq!(
        bytes,
        original().to_bytes(),
        "the bytes depend on the rules alone"
    );
    let read = Pack::from_bytes(&bytes).unwrap();
    assert_eq!(read.to_bytes(), bytes);
    assert_eq!(read.rules(), pack.rules());
    assert_eq!(read.allows(), pack.allows());
    assert_eq!(read.headers(), pack.headers());
    assert_eq!(read.lock(), pack.lock());
    // A pack of rules that were read is compiled from their patterns, not from the stored trees.
    let rules = read.rules().iter().cloned();
    let rebuilt = rules.fold(Pack::builder(), crate::PackBuilder::rule);
    let rebuilt = rebuilt.build().unwrap();
    let tail = |pack: &Pack| payload_of(pack).len();
    assert!(
        tail(&rebuilt) < tail(&pack),
        "without headers and allow entries"
    );
}

#[test]
fn every_truncation_and_every_changed_bit_is_noticed() {
    let bytes = original().to_bytes();
    for length in 0..bytes.len() {
        assert!(
            Pack::from_bytes(&bytes[..length]).is_err(),
            "{length} bytes"
        );
    }
    for bit in 0..8 * bytes.len() {
        let mut changed = bytes.clone();
        changed[bit / 8] ^= 1 << (bit % 8);
        let error = Pack::from_bytes(&changed).expect_err("a changed bit");
        assert_eq!(
            error.kind(),
            crate::pack::LoadErrorKind::Compiled,
            "bit {bit}"
        );
    }
    let longer = [&*bytes, &[0]].concat();
    assert!(Pack::from_bytes(&longer).is_err());
    let swapped = with_header(&payload_of(&original()));
    assert!(
        Pack::from_bytes(&swapped).is_ok(),
        "the tests below write valid headers"
    );
}

/// Pushes text through every channel.
fn use_pack(pack: &Pack, text: &[u8]) {
    use crate::rule::Channel;
    let mut session = pack.session();
    session.begin_turn();
    let mut stream = session.stream();
    for (part, channel) in (0..).map(PartId).zip(Channel::STREAMED) {
        stream.open(part, channel);
        let _ = session.set_tool(&mut stream, part, "bash", "call");
        for delta in text.chunks(7) {
            let _ = session.push(&mut stream, part, delta);
        }
        let _ = session.close(&mut stream, part);
    }
    let _ = session.finish(&mut stream);
}

#[test]
fn bytes_made_on_purpose_are_an_error_or_a_pack_that_can_be_used() {
    let text =
        b"todo key=aB3dE6 key=gH9jK2 one two\ndone\n{\"command\": \"git push -f origin | sh\"}";
    let payload = payload_of(&original());
    let limits = Limits {
        rule_states: 5000,
        table_bytes: 1 << 16,
        ..Limits::default()
    };
    let loaded = in_parts(scale(40_000), |cases| {
        let mut loaded = 0;
        for case in cases {
            let mut random = Random::new(case as u64);
            let mut changed = payload.clone();
            for _ in 0..1 + random.below(3) {
                let at = random.below(changed.len());
                match random.below(4) {
                    0 => changed[at] ^= 1 << random.below(8),
                    1 => changed[at] = random.next() as u8,
                    2 => {
                        changed.remove(at);
                    }
                    _ => changed.insert(at, random.next() as u8),
                }
            }
            let bytes = with_header(&changed);
            let built = Pack::builder().compiled("t", &bytes).limits(limits.clone());
            if let Ok(pack) = built.build() {
                use_pack(&pack, text);
                assert_eq!(pack.to_bytes(), bytes);
                loaded += 1;
            }
        }
        loaded
    });
    let loaded: usize = loaded.into_iter().sum();
    assert!(loaded > 0, "some changes are of texts");
}

#[test]
fn only_a_rule_that_no_check_could_refuse_is_plain() {
    let plain = || {
        let mut rule = Rule::new("t/r", vec![Pattern::literal("x")]);
        rule.on = vec![Channel::Text];
        rule
    };
    assert!(is_plain(&plain()));
    let pattern = || vec![Pattern::literal("y")];
    let repetition = Repetition {
        unit_chars: (1, 9),
        times: 2,
        near: false,
        turns: None,
    };
    let doom_loop = DoomLoop {
        times: 2,
        differing: 0,
    };
    type Change<'c> = Box<dyn Fn(&mut Rule) + 'c>;
    let changes: Vec<Change<'_>> = vec![
        Box::new(|it| it.condition.any.clear()),
        Box::new(|it| it.condition.all = pattern()),
        Box::new(|it| it.condition.sequence = pattern()),
        Box::new(|it| it.condition.none = pattern()),
        Box::new(|it| it.condition.within = Some(Within::Lines(2))),
        Box::new(|it| it.condition.first = Some(0)),
        Box::new(|it| it.condition.last = Some(0)),
        Box::new(|it| it.condition.line = true),
        Box::new(|it| {
            let (times, per) = (0, Per::Part);
            it.condition.count = Some(Count { times, per });
        }),
        Box::new(|it| it.condition.repetition = Some(repetition)),
        Box::new(|it| it.condition.leak = true),
        Box::new(|it| it.condition.limit = Some(Bound::default())),
        Box::new(|it| it.condition.script = Some(Script::default())),
        Box::new(|it| it.condition.unknown_name = Some(UnknownName::default())),
        Box::new(|it| it.condition.doom_loop = Some(doom_loop)),
        Box::new(|it| it.condition.ast = Some(Ast::default())),
        Box::new(|it| it.condition.any.push(Pattern::command("ls"))),
        Box::new(|it| it.id = "no id".into()),
        Box::new(|it| it.on.clear()),
        Box::new(|it| it.action = Action::Handoff),
        Box::new(|it| (it.action, it.on) = (Action::Redact, vec![Channel::Error])),
        Box::new(|it| it.retry.then = Some(Action::Consult)),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        let mut rule = plain();
        change(&mut rule);
        assert!(!is_plain(&rule), "change {index}");
    }
}

#[test]
fn the_layout_of_many_patterns_is_stored() {
    let rules = (0..200).map(|index| {
        let pattern = Pattern::regex(format!("w{index}[a-z]*[0-9]+end"));
        let mut rule = Rule::new(format!("t/r{index}"), vec![pattern]);
        rule.on = vec![Channel::Text];
        rule
    });
    let pack = rules.fold(Pack::builder(), |builder, rule| builder.rule(rule));
    let pack = pack.build().unwrap();
    let again = Pack::from_bytes(&pack.to_bytes()).unwrap();
    for pack in [pack, again] {
        let hits = pack
            .stream()
            .push(PartId(0), b"w17a3end, w199zz12end")
            .len();
        assert_eq!(hits, 2);
    }
}

#[test]
fn a_compiled_pack_in_place_of_a_rule_file_is_named() {
    let folder = ttsr_testing::Folder::new();
    let bytes = Pack::builtin("std/secrets").unwrap().to_bytes();
    let path = folder.write("secrets.pack", bytes);
    let error = Pack::builder().file(path).build().unwrap_err();
    let message = error.diagnostics()[0].message();
    assert_eq!(message, "file is a compiled pack, not a rule file");
}
