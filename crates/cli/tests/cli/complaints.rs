//! Complaints of users of other rule engines: one test for each that concerns the language, the state of a conversation
//! or the tools. Those about the loop are tested in `tests/harness`, those about
//! files in `tests/pack`.

use std::fs;
use std::path::Path;

use ttsr::session::Session;
use ttsr::stream::Counters;
use ttsr::{
    Action, Channel, Hit, Mode, Pack, PartId, Partial, Pattern, Rule, Source, Suppression, Verdict,
};

const A: PartId = PartId(0);
const B: PartId = PartId(1);

/// Loads a pack of rules in TOML.
fn pack(rules: &str) -> Pack {
    let text = format!("schema = 1\n[pack]\nname = 'p'\n{rules}");
    Pack::from_toml(&text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

/// Loads a pack with one rule `p/r` that matches "bad".
fn rule(keys: &str) -> Pack {
    pack(&format!(
        "[rule.r]\ndescription = 'd'\nmatch.any = [{{ literal = 'bad' }}]\nexamples.match = ['bad']\n{keys}\n"
    ))
}

fn hits(pack: &Pack, channel: Channel, tool: &str, deltas: &[&[u8]]) -> Vec<Hit> {
    let mut stream = pack.stream();
    stream.open(A, channel);
    let mut hits = stream.set_tool(A, tool, "call").to_vec();
    for delta in deltas {
        hits.extend_from_slice(&stream.push(A, delta));
    }
    hits.extend_from_slice(&stream.finish());
    hits
}

fn attempt(session: &mut Session, text: &str) -> Vec<(Action, Option<Suppression>)> {
    let mut stream = session.stream();
    stream.open(A, Channel::Text);
    let _ = session.push(&mut stream, A, text.as_bytes());
    let decisions = session.decisions().iter();
    decisions.map(|it| (it.action, it.suppression)).collect()
}

/// Complaint: a rule with a pattern that the engine could not read was dropped, which nobody noticed for weeks.
#[test]
fn a_pattern_that_cannot_be_read_is_no_silent_rule() {
    let folded = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = '(?i)todo' }]\nexamples.match = ['todo']",
    );
    assert_eq!(hits(&folded, Channel::Text, "", &[b"a TODO."]).len(), 1);
    let text = "schema = 1\n[pack]\nname = 'p'\n[rule.good]\ndescription = 'd'\nmatch.any = [{ word = 'a' }]\n\
                examples.match = ['a']\n[rule.bad]\ndescription = 'd'\nmatch.any = [{ regex = '(?i' }]\n\
                examples.match = ['a']\n";
    let error = Pack::from_toml(text).expect_err("the good rule is not loaded alone");
    let told = &error.diagnostics()[0];
    assert_eq!(
        (told.code(), told.rule(), told.line()),
        ("regex", Some("p/bad"), 10)
    );
}

/// Complaint: a list written as one string was partly understood, so the rule had another scope than written.
#[test]
fn a_value_that_is_nearly_right_is_an_error_with_its_place() {
    for on in [
        "'text, thinking'",
        "'\"text\", \"reasoning\"'",
        "['text', 'thinking']",
    ] {
        let text = format!(
            "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\non = {on}\n\
             match.any = [{{ word = 'a' }}]\nexamples.match = ['a']\n"
        );
        let error = Pack::from_toml(&text).expect_err(on);
        let told = &error.diagnostics()[0];
        assert_eq!(told.line(), 6, "{on}");
        assert!(told.help().is_some(), "{on}: what to write instead");
    }
}

/// Complaint: a rule "stopped working" because its acts were used up, and nothing reported that.
#[test]
fn a_rule_that_does_not_act_says_why() {
    let pack = rule("severity = 'warning'");
    let mut session = pack.session();
    assert_eq!(attempt(&mut session, "bad"), [(Action::Inject, None)]);
    let again = attempt(&mut session, "bad");
    assert_eq!(again, [(Action::Inject, Some(Suppression::Repeat))]);
    assert_eq!(session.decisions()[0].turn, session.turns());
}

/// Complaint: a switch that turned everything off was read by some entry points and not by others.
#[test]
fn shadow_holds_for_every_call() {
    let pack = pack(
        "[rule.r]\ndescription = 'd'\non = ['text', 'tool-input', 'user-input']\nseverity = 'critical'\n\
         match.any = [{ regex = 'bad$' }]\nexamples.match = ['bad']\n",
    );
    let mut session = pack.session();
    session.set_mode(Mode::Shadow);
    session.begin_turn();
    let mut stream = session.stream();
    let mut verdicts = vec![
        session.open(&mut stream, A, Channel::Text),
        session.push(&mut stream, A, b"bad"),
        session.close(&mut stream, A),
        session.open(&mut stream, B, Channel::ToolInput),
        session.push(&mut stream, B, br#"{"a":"bad"}"#),
        session.set_tool(&mut stream, B, "bash", "call"),
        session.finish(&mut stream),
    ];
    verdicts.push(session.check(Channel::UserInput, None, b"bad").verdict());
    assert!(
        verdicts.iter().all(|it| *it == Verdict::Continue),
        "{verdicts:?}"
    );
    let checked = session.check(Channel::UserInput, None, b"bad");
    assert!(checked.decisions()[0].is_suppressed(), "and it is told");
}

/// Complaint: a scope whose two parts exclude each other was loaded and never matched.
#[test]
fn a_rule_that_can_never_fire_is_not_loaded() {
    let text = "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\non = ['text']\npaths = ['**/*.rs']\n\
                match.any = [{ word = 'a' }]\nexamples.match = ['a']\n";
    let error = Pack::from_toml(text).unwrap_err();
    let told = &error.diagnostics()[0];
    assert_eq!((told.code(), told.line()), ("unreachable-scope", 7));
}

/// Complaint: a patch names its files inside itself, and globs on files never matched it.
#[test]
fn files_are_found_inside_a_patch() {
    let pack = pack(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\npaths = ['**/*.rs']\n\
         match.any = [{ literal = 'bad', region = 'added' }]\nexamples.match = ['bad']\n",
    );
    let patch = |file: &str| {
        format!("*** Begin Patch\n*** Update File: {file}\n@@\n-x\n+bad\n*** End Patch\n")
    };
    let found = |file: &str| {
        hits(
            &pack,
            Channel::ToolInput,
            "apply_patch",
            &[patch(file).as_bytes()],
        )
        .len()
    };
    assert_eq!((found("src/a.rs"), found("notes.md")), (1, 0));
}

/// Complaint: arguments were examined at intervals while they arrived; text complete only at the end was missed.
#[test]
fn the_last_byte_counts_as_much_as_the_first() {
    let pack = rule("on = ['tool-input']\nargs = ['command']");
    let input = br#"{"command":"so bad"}"#;
    let whole = hits(&pack, Channel::ToolInput, "bash", &[input]);
    assert_eq!(whole.len(), 1);
    for cut in 1..input.len() {
        let (before, after) = input.split_at(cut);
        assert_eq!(
            hits(&pack, Channel::ToolInput, "bash", &[before, after]),
            whole,
            "cut at {cut}"
        );
    }
}

/// Complaint: a tool that sent its arguments at once, without deltas, was never examined.
#[test]
fn a_call_that_comes_whole_is_read() {
    let pack = rule("on = ['tool-input']");
    let found = hits(
        &pack,
        Channel::ToolInput,
        "bash",
        &[br#"{"command":"bad"}"#],
    );
    assert_eq!(found.len(), 1);
}

/// Complaint: the texts of two consecutive messages were matched as one text.
#[test]
fn no_match_spans_two_parts_or_two_messages() {
    let pack = rule("on = ['text']");
    let mut stream = pack.stream();
    let mut found = stream.push(A, b"so ba").len();
    found += stream.push(B, b"d it is").len();
    found += stream.finish().len();
    let mut next = pack.stream();
    found += next.push(A, b"d").len();
    assert_eq!(found, 0);
}

/// Complaint: guidance pending for the next request was queued two or three times.
#[test]
fn guidance_is_reserved_when_it_is_decided() {
    let pack = rule("severity = 'warning'");
    let mut session = pack.session();
    let given: Vec<_> = (0..3).flat_map(|_| attempt(&mut session, "bad")).collect();
    let acting = given.iter().filter(|(_, why)| why.is_none());
    assert_eq!(acting.count(), 1, "{given:?}");
}

/// Complaint: one violation was reported with its delta and again at the end of the message.
#[test]
fn one_violation_is_one_hit() {
    let pack = rule("on = ['text']");
    let mut stream = pack.stream();
    let mut found = stream.push(A, b"bad").len();
    found += stream.push(A, b" and bad again").len();
    found += stream.close(A).len();
    found += stream.finish().len();
    assert_eq!(found, 1);
}

/// Complaint: calls beside the one that broke a rule were blamed for it.
#[test]
fn a_decision_names_the_call_it_is_about() {
    let pack = rule("on = ['tool-input']\nseverity = 'critical'");
    let mut session = pack.session();
    let mut stream = session.stream();
    for (part, call) in [(A, "call_1"), (B, "call_2")] {
        let _ = session.open(&mut stream, part, Channel::ToolInput);
        let _ = session.set_tool(&mut stream, part, "bash", call);
    }
    let _ = session.push(&mut stream, A, br#"{"command":"ls"}"#);
    let Verdict::Act(decision) = session.push(&mut stream, B, br#"{"command":"bad"}"#) else {
        panic!("the second call breaks the rule");
    };
    assert_eq!(stream.call_id(decision.part()), Some("call_2"));
    assert_eq!(session.decisions().len(), 1);
}

/// Complaint: a rule that acts once stayed spent after its guidance had left the context.
#[test]
fn guidance_that_left_the_context_is_given_again() {
    let pack = rule("severity = 'warning'");
    let mut session = pack.session();
    assert_eq!(attempt(&mut session, "bad"), [(Action::Inject, None)]);
    let decision = session.decisions()[0];
    session.mark_delivered(&decision);
    session.compacted();
    assert_eq!(attempt(&mut session, "bad"), [(Action::Inject, None)]);
}

/// Complaint: one setting for all rules determined how often they act and what remains of a reply that they cut.
#[test]
fn what_rules_do_is_said_once_and_changed_for_one() {
    let pack = pack(
        "[defaults]\non = ['text']\nseverity = 'error'\npartial = 'keep-before-match'\n\
         repeat = { cooldown-turns = 2 }\n\
         [rule.a]\ndescription = 'd'\nmatch.any = [{ word = 'a' }]\nexamples.match = ['a']\n\
         [rule.b]\ndescription = 'd'\npartial = 'discard'\nrepeat = { per-session = 1 }\n\
         match.any = [{ word = 'b' }]\nexamples.match = ['b']\n",
    );
    let of = |id: &str| pack.rule(pack.find(id).unwrap());
    let (a, b) = (of("p/a"), of("p/b"));
    assert_eq!(
        (a.partial, b.partial),
        (Partial::KeepBeforeMatch, Partial::Discard)
    );
    let cooldown = |rule: &Rule| rule.repeat.as_ref().and_then(|it| it.cooldown_turns);
    let bound = |rule: &Rule| rule.repeat.as_ref().and_then(|it| it.per_session);
    assert_eq!((cooldown(a), bound(a)), (Some(2), None));
    assert_eq!(bound(b), Some(1));
}

/// Complaint: nobody could tell whether a rule on edits reads the file, the old text or the new text.
#[test]
fn what_a_rule_on_edits_sees_is_said_by_its_region() {
    let input = |old: &str, new: &str| {
        serde_json::json!({ "path": "a.rs", "old_string": old, "new_string": new }).to_string()
    };
    let inputs = [
        input("x", "bad"),
        input("bad", "x"),
        input("bad\nx", "bad\ny"),
    ];
    for (region, expected) in [
        ("added", [1, 0, 0]),
        ("removed", [0, 1, 0]),
        ("file", [1, 0, 1]),
    ] {
        let pack = pack(&format!(
            "[rule.r]\ndescription = 'd'\non = ['tool-input']\n\
             match.any = [{{ literal = 'bad', region = '{region}' }}]\nexamples.match = ['bad']\n"
        ));
        let found = inputs
            .each_ref()
            .map(|input| hits(&pack, Channel::ToolInput, "edit", &[input.as_bytes()]).len());
        assert_eq!(found, expected, "{region}");
    }
}

/// Complaint: "this and that" and "this without that" needed look-ahead over the whole buffer.
#[test]
fn both_and_without_need_no_look_around() {
    let both = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.all = [{ word = 'yarn' }, { word = 'npm' }]\n\
         examples.match = ['npm yarn']\n",
    );
    let without = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ word = 'npm' }]\n\
         match.none = [{ word = 'yarn' }]\nmatch.within = { part = true }\nexamples.match = ['npm']\n",
    );
    for (text, expected) in [
        ("npm, then yarn", (1, 0)),
        ("yarn\n\nand npm", (1, 0)),
        ("npm", (0, 1)),
    ] {
        let found = |pack| hits(pack, Channel::Text, "", &[text.as_bytes()]).len();
        assert_eq!((found(&both), found(&without)), expected, "{text}");
    }
}

/// Complaint: "Operation aborted" named neither the cause nor the reason.
#[test]
fn an_abort_names_its_rule_and_its_place() {
    let pack = rule("severity = 'critical'\nmessage = '{{ rule.id }}: {{ match.text }}'");
    let mut session = pack.session();
    let mut stream = session.stream();
    let Verdict::Act(decision) = session.push(&mut stream, A, b"so bad") else {
        panic!("the rule is broken");
    };
    assert!(matches!(decision.source, Source::Rule(hit) if hit.end == 6));
    assert_eq!(stream.rule(&decision).unwrap().id, "p/r");
    assert_eq!(stream.message(&decision), "p/r: bad");
}

/// Complaint: a retry of the provider began no new turn, and rules that had fired stayed latched.
#[test]
fn each_attempt_begins_with_nothing_seen() {
    let pack = rule("on = ['text']\nseverity = 'critical'");
    let mut session = pack.session();
    session.begin_turn();
    for _ in 0..3 {
        let mut stream = session.stream();
        let half = session.push(&mut stream, A, b"ba");
        assert_eq!(half, Verdict::Continue);
        let mut again = session.stream();
        assert_eq!(
            session.push(&mut again, A, b"d"),
            Verdict::Continue,
            "it was another attempt's"
        );
        assert!(matches!(
            session.push(&mut again, A, b" bad"),
            Verdict::Act(_)
        ));
    }
}

/// Complaint: a debugging line of the library broke the display of its host.
#[test]
fn the_library_never_prints() {
    let mut waiting = vec![
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../automata/src"),
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../views/src"),
    ];
    let mut read = 0;
    while let Some(path) = waiting.pop() {
        if path.is_dir() {
            let is_library = |path: &std::path::PathBuf| {
                let name = path.file_name().unwrap_or_default();
                name != "bin" && name != "tests" && name != "tests.rs"
            };
            let entries = fs::read_dir(&path).unwrap();
            waiting.extend(entries.map(|it| it.unwrap().path()).filter(is_library));
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        // Test modules are not part of the library, and neither are test helpers and comments.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_seen = path.ends_with("views/src/test_sink.rs");
        for line in code
            .lines()
            .filter(|line| !is_seen && !line.trim_start().starts_with("//"))
        {
            for print in ["println!(", "print!(", "eprintln!(", "eprint!(", "dbg!("] {
                assert!(!line.contains(print), "{}: {line}", path.display());
            }
        }
        read += 1;
    }
    assert!(read > 60, "only {read} files were read");
}

/// Complaint: text and reasoning were watched, and the flood came through the arguments of a tool.
#[test]
fn every_channel_of_a_reply_is_watched() {
    let pack = rule("on = ['text', 'reasoning', 'tool-input']");
    for channel in Channel::STREAMED {
        let text: &[u8] = match channel {
            Channel::ToolInput => br#"{"a":"bad"}"#,
            _ => b"bad",
        };
        assert_eq!(
            hits(&pack, channel, "bash", &[text]).len(),
            1,
            "{channel:?}"
        );
    }
}

/// Complaint: displayed text was not taken back, because nobody could tell where the violation began.
#[test]
fn a_hit_says_where_to_take_back_from() {
    let pack = rule("on = ['text']\nseverity = 'critical'");
    let mut session = pack.session();
    let mut stream = session.stream();
    let Verdict::Act(decision) = session.push(&mut stream, A, "größer, bad".as_bytes()) else {
        panic!("the rule is broken");
    };
    let hit = decision.hit().unwrap();
    assert_eq!(stream.start(&hit), Some("größer, ".len() as u64));
    assert_eq!(hit.end, "größer, bad".len() as u64);
}

/// Complaint: the hook ran after the delta was displayed, and every delta was examined even without any rule.
#[test]
fn nothing_is_read_where_no_rule_reads_and_a_held_match_never_leaves() {
    let empty = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ literal = 'bad' }]\nexamples.match = ['bad']\n",
    );
    assert!(!empty.wants(Channel::ToolInput, Some("bash")));
    assert_eq!(hits(&empty, Channel::Reasoning, "", &[b"bad"]), []);
    let held = rule("on = ['text']\naction = 'abort'\nseverity = 'critical'\nhold = true");
    let mut stream = held.stream();
    stream.open(A, Channel::Text);
    let _ = stream.push(A, b"so ba");
    assert_eq!(stream.releasable(A), 3);
    assert_eq!(stream.counters(), Counters::default());
}

/// Complaint: a checker read whole replies only, so streamed text was displayed unread.
#[test]
fn what_is_streamed_is_read_while_it_streams() {
    let abort = rule("on = ['text']\nseverity = 'critical'");
    let mut session = abort.session();
    let mut stream = session.stream();
    stream.open(A, Channel::Text);
    assert_eq!(session.push(&mut stream, A, b"so ba"), Verdict::Continue);
    let verdict = session.push(&mut stream, A, b"d and much more");
    assert!(
        matches!(verdict, Verdict::Act(decision) if decision.action == Action::Abort && decision.decided() == 6),
        "{verdict:?}"
    );
}

/// Complaint: the share of common words did not distinguish a repeated text from a continued one.
#[test]
fn what_says_the_same_in_other_words_is_a_loop_and_a_list_is_none() {
    let near = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.repetition = { times = 4, near = true }\n",
    );
    let again: String = (0..14)
        .map(|n| format!("Let me look at the file number {n} and then fix the failing test in the parser module.\n"))
        .collect();
    let list: String = [
        "reads a file",
        "splits it into lines",
        "counts the words",
        "sorts what it counted",
        "writes a table",
        "tells the time it took",
        "ends with the right status",
    ]
    .map(|what| format!("- The command {what}, unless its arguments say something else.\n"))
    .concat();
    assert!(!hits(&near, Channel::Text, "", &[again.as_bytes()]).is_empty());
    assert_eq!(hits(&near, Channel::Text, "", &[list.as_bytes()]), []);
}

/// Complaint: after a bare prohibition, models try the same again.
#[test]
fn a_message_says_what_to_do_instead() {
    let pack = rule("severity = 'error'\ninstead = 'Say it in other words.'");
    let mut session = pack.session();
    let mut stream = session.stream();
    let Verdict::Act(decision) = session.push(&mut stream, A, b"bad") else {
        panic!("the rule is broken");
    };
    assert!(stream.message(&decision).contains("Say it in other words."));
}

/// Complaint: an excerpt was cut inside a character, which ended the program.
#[test]
fn excerpts_are_cut_between_characters() {
    let pack = rule("on = ['text']");
    for before in 0..300 {
        let text = format!("{}{}bad", "x".repeat(before % 4), "ß€😀".repeat(before / 4));
        let mut stream = pack.stream();
        let found = stream.push(A, text.as_bytes()).to_vec();
        assert_eq!(found.len(), 1);
        assert!(text.contains(stream.excerpt(&found[0])), "{text}");
        assert_eq!(stream.matched(&found[0]), "bad");
    }
}

/// Complaint: a filter for leaked control tokens kept people from writing about them.
#[test]
fn tokens_leak_in_prose_and_not_in_quotations() {
    let pack = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.leak = true\nexamples.match = ['<|im_start|>']\n",
    );
    for (text, expected) in [
        ("Done.<|im_end|>\n<|im_start|>user\nNext", 1),
        ("The token `<|im_end|>` ends a turn.", 0),
        ("```\n<|im_end|>\n```\nends a turn.", 0),
    ] {
        assert_eq!(
            hits(&pack, Channel::Text, "", &[text.as_bytes()]).len(),
            expected,
            "{text}"
        );
    }
}

/// Complaint: loops with a longer unit were missed, and rows of similar data were cut.
#[test]
fn loops_are_found_at_every_scale_and_data_is_none() {
    let pack = pack("[rule.r]\ndescription = 'd'\non = ['text']\nmatch.repetition = {}\n");
    let long: String = (0..40).map(|n| format!("word{n} ")).collect();
    for (name, text, expected) in [
        (
            "a short unit",
            "I will now look at it again. ".repeat(12),
            1,
        ),
        ("a unit of several hundred characters", long.repeat(12), 1),
        (
            "rows of a table",
            (0..60)
                .map(|n| format!("| {n} | item {n} | {} |\n", n * 7))
                .collect(),
            0,
        ),
        (
            "a rule of dashes",
            format!("| a | b |\n|{}|{}|\n", "-".repeat(60), "-".repeat(60)),
            0,
        ),
    ] {
        assert_eq!(
            hits(&pack, Channel::Text, "", &[text.as_bytes()]).len(),
            expected,
            "{name}"
        );
    }
}

/// Complaint: loops of two signs or short words went on for minutes; tables, lines of dashes and rows of data were cut.
#[test]
fn what_circles_is_cut_and_what_is_alike_is_not() {
    let pack = Pack::builtin("std/degeneration").unwrap();
    let wall = format!("+{}+\n", "-".repeat(70));
    let table: String = (0..40).map(|n| format!("| {n} | user{n} |\n")).collect();
    let object = |n| {
        format!("  {{\n    \"id\": {n},\n    \"name\": \"user{n}\",\n    \"active\": true\n  }},\n")
    };
    let rows: String = (0..33).map(object).collect();
    for (name, text, is_loop) in [
        (
            "two signs in turn",
            format!("So what now {}", "?!".repeat(300)),
            true,
        ),
        (
            "a short word",
            format!("I will do it. {}", "no ".repeat(300)),
            true,
        ),
        (
            "another short word",
            format!("I will do it. {}", "the ".repeat(300)),
            true,
        ),
        (
            "a table, and rows of JSON",
            format!("{table}```json\n[\n{rows}]\n```\n"),
            false,
        ),
        (
            "data that is all alike",
            format!("```csv\n{}```\n", "0,0,0,0,0,0,0,0\n".repeat(60)),
            false,
        ),
        (
            "a wall of dashes",
            format!("| a | b |\n|{0}|{0}|\n{table}", "-".repeat(80)),
            false,
        ),
        (
            "walls between rows",
            format!("| a row |\n{wall}").repeat(3),
            false,
        ),
    ] {
        let found = hits(&pack, Channel::Text, "", &[text.as_bytes()]);
        assert_eq!(!found.is_empty(), is_loop, "{name}: {found:?}");
    }
}

/// Complaint: varying one argument defeated the guard against repeated calls.
#[test]
fn a_loop_of_calls_may_vary_in_one_argument() {
    let pack = pack(
        "[rule.r]\ndescription = 'd'\non = ['tool-input']\nmatch.doom-loop = { times = 5, differing = 1 }\n",
    );
    let loops = |input: &dyn Fn(u32) -> String| {
        let mut stream = pack.stream();
        (0..30).any(|n| {
            let part = PartId(n);
            stream.open(part, Channel::ToolInput);
            let mut found = stream.set_tool(part, "grep", &format!("call {n}")).len();
            found += stream.push(part, input(n).as_bytes()).len();
            found += stream.close(part).len();
            found > 0
        })
    };
    assert!(loops(&|_| r#"{"pattern":"fn a","path":"src"}"#.to_owned()));
    assert!(loops(&|n| format!(
        r#"{{"pattern":"fn a","path":"src","limit":{n}}}"#
    )));
    assert!(!loops(&|n| format!(
        r#"{{"pattern":"fn {n}","path":"src/{n}.rs"}}"#
    )));
}

/// Complaint: a pattern that matches nothing stood for "read before you edit", so the rule never hit and nobody was told.
/// A rule can only test text; a rule about anything else is rejected at load.
#[test]
fn a_pattern_that_nothing_matches_is_told() {
    let text = "schema = 1\n[pack]\nname = 'p'\n[rule.r]\ndescription = 'd'\n\
                match.any = [{ regex = '[a&&b]' }]\nexamples.match = ['a']\n";
    let pack = Pack::from_toml(text).unwrap();
    let codes: Vec<&str> = pack.warnings().iter().map(|it| it.code()).collect();
    assert_eq!(codes, ["never-matches"]);
}

/// Complaint: each chunk was matched alone, and `$` matched at the end of every chunk.
#[test]
fn a_match_may_span_any_number_of_deltas_and_the_end_is_that_of_the_part() {
    let pack = pack(
        "[rule.long]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 'BEGIN[a-z ]{600,}END' }]\n\
         examples.no-match = ['BEGIN END']\n\
         [rule.end]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = 'over$' }]\nexamples.match = ['over']\n",
    );
    let text = format!("BEGIN{}END", "over ".repeat(200));
    let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
    let found = hits(&pack, Channel::Text, "", &bytes);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(pack.rule(found[0].rule).id, "p/long");
    let words: Vec<&[u8]> = vec![b"over", b" and over"];
    let found = hits(&pack, Channel::Text, "", &words);
    assert_eq!(found.len(), 1);
    assert_eq!((found[0].end, found[0].decided), (13, 13));
}

/// Complaint: a guard that hides its instructions looks like an injection; messages to the model hide nothing.
#[test]
fn no_message_of_a_built_in_rule_asks_to_hide_itself() {
    for name in Pack::builtin_names() {
        for rule in Pack::builtin(name).unwrap().rules() {
            let message = rule.message.clone().unwrap_or_default()
                + rule.instead.as_deref().unwrap_or_default();
            let message = message.to_lowercase();
            for hidden in [
                "do not mention",
                "never mention",
                "don't mention",
                "do not tell",
                "secretly",
                "must comply",
            ] {
                assert!(!message.contains(hidden), "{}: {hidden}", rule.id);
            }
        }
    }
}

/// Complaint: a rule whose message contains the forbidden text hit its own message again and again.
#[test]
fn a_message_that_breaks_its_own_rule_is_bounded_like_any_other() {
    let pack = rule("on = ['text']\nseverity = 'error'\nmessage = 'never write bad'");
    let mut session = pack.session();
    session.begin_turn();
    let mut said = "bad".to_owned();
    let mut actions = Vec::new();
    for _ in 0..6 {
        let mut stream = session.stream();
        let _ = session.push(&mut stream, A, said.as_bytes());
        let decision = session.decisions()[0];
        actions.push((decision.action, decision.suppression));
        // The model repeats the message.
        said = stream.message(&decision);
    }
    let retries = actions
        .iter()
        .filter(|(action, _)| *action == Action::Retry);
    assert_eq!(retries.count(), 2, "{actions:?}");
    assert_eq!(actions[2], (Action::Warn, None));
    let mut checked = pack.session();
    let checked = checked.check(Channel::UserInput, None, b"never write bad");
    assert_eq!(checked.verdict(), Verdict::Continue, "guidance is no reply");
}

/// Complaint: an ASCII word boundary took an accented letter for the end of a word.
#[test]
fn a_word_boundary_knows_letters_that_are_not_ascii() {
    let pack = pack(
        "[rule.r]\ndescription = 'd'\non = ['text']\nmatch.any = [{ regex = '\\bbad\\b' }]\nexamples.match = ['bad']\n",
    );
    for (text, expected) in [
        ("größe bad größe", 1),
        ("größebad", 0),
        ("badé", 0),
        ("bad日本", 0),
        ("«bad»", 1),
        ("bad\u{301}", 0),
    ] {
        let bytes: Vec<&[u8]> = text.as_bytes().chunks(1).collect();
        assert_eq!(
            hits(&pack, Channel::Text, "", &bytes).len(),
            expected,
            "{text}"
        );
    }
}

/// Complaint: a rule that fires on every retry cost 15 million tokens in one night.
#[test]
fn a_retry_storm_ends_at_the_backstop_and_says_which_rule_it_was() {
    let mut endless = Rule::new("p/r", vec![Pattern::literal("bad")]);
    endless.action = Action::Retry;
    endless.retry.max = 100;
    endless.retry.then = Some(Action::Abort);
    let pack = Pack::builder().rule(endless).build().unwrap();
    let mut session = pack.session();
    session.begin_turn();
    let actions: Vec<_> = (0..6).flat_map(|_| attempt(&mut session, "bad")).collect();
    let (retry, abort) = ((Action::Retry, None), (Action::Abort, None));
    assert_eq!(actions, [retry, retry, retry, abort, abort, abort]);
    assert!(session.decisions()[0].rule().is_some());
}

/// A rule that is not live and a rule whose pattern does not match give different answers.
mod tools {
    use std::process::Command;

    fn ttsr(args: &[&str]) -> String {
        let output = Command::new(env!("CARGO_BIN_EXE_ttsr"))
            .args(args)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    #[test]
    fn a_list_shows_every_option_as_it_takes_effect() {
        let listed = ttsr(&["list", "--pack", "std/shell-safety", "--format", "json"]);
        let first: serde_json::Value =
            serde_json::from_str(listed.lines().next().unwrap()).unwrap();
        for key in [
            "action",
            "mode",
            "partial",
            "retry",
            "repeat",
            "allowance",
            "hold",
            "on",
            "tools",
            "args",
            "paths",
        ] {
            assert!(first.get(key).is_some(), "{key}: {first}");
        }
    }

    #[test]
    fn out_of_scope_and_no_match_are_two_answers() {
        let explain = |path: &str, text: &str| {
            ttsr(&[
                "explain",
                "lang/rust/box-leak",
                "--path",
                path,
                "--text",
                text,
            ])
        };
        assert!(
            explain("a.cs", "Box::leak(b)")
                .contains("not live: `a.cs` matches none of its `paths`")
        );
        let unmatched = explain("a.rs", "nothing");
        assert!(
            unmatched.contains(": live") && unmatched.contains("it does not hit"),
            "{unmatched}"
        );
        assert!(explain("a.rs", "Box::leak(b)").contains("it hits"));
    }

    #[test]
    fn backslashes_of_patterns_are_json_all_the_same() {
        let listed = ttsr(&["list", "--format", "json"]);
        assert!(listed.contains(r"\\b"));
        for line in listed.lines() {
            assert!(
                serde_json::from_str::<serde_json::Value>(line).is_ok(),
                "{line}"
            );
        }
    }
}
