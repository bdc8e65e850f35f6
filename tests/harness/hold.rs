//! Text that rules hold, and text that rules redact.

use std::time::Duration;

use ttsr::harness::{
    BlockReplay, Cancel, Content, Hooks, Input, Message, Processor, Request, Role, ScriptedReply,
    Settings, Step,
};
use ttsr::rule::{Fold, Region, Repeat};
use ttsr::{
    Action, Channel, Conversation, Event, Flow, Mode, Pack, PartId, Partial, Pattern, Rule,
};

use super::{Played, delta, play_with, text};
use ttsr_testing::{Random, scale};

fn secret() -> Rule {
    let mut rule = Rule::new("p/secret", vec![Pattern::regex("key-[0-9]{4}")]);
    rule.action = Action::Redact;
    rule.replacement = Some("[a \"key\"]".into());
    rule
}

fn pack(rules: impl IntoIterator<Item = Rule>) -> Pack {
    let pack = rules
        .into_iter()
        .fold(Pack::builder(), |pack, rule| pack.rule(rule));
    pack.build().unwrap()
}

fn played(rules: impl IntoIterator<Item = Rule>, scripts: Vec<ScriptedReply>) -> Played {
    played_with(&pack(rules), scripts)
}

fn played_with(pack: &Pack, scripts: Vec<ScriptedReply>) -> Played {
    let settings = Settings::default();
    let processor = Processor::new(pack, Hooks::default(), settings);
    play_with(processor, scripts, &Cancel::default(), |_| {})
}

#[test]
fn redacted_text_never_leaves_at_any_cut() {
    for cut in 1..12 {
        let script = text("My key-1234 and key-5678, not key-12.").cut(cut);
        let played = played([secret()], vec![script]);
        let expected = "My [a \"key\"] and [a \"key\"], not key-12.";
        assert_eq!(played.published(), expected, "cut into {cut}");
        assert_eq!(played.outcome.reply.text(Channel::Text), expected);
    }
}

#[test]
fn tool_input_stays_json_where_something_is_taken_out() {
    let script = ScriptedReply::default().tool("write", "c", r#"{"text":"it is key-1234."}"#);
    let played = played([secret()], vec![script.cut(5).finish("tool_use")]);
    let call = played.outcome.reply.tool_calls().next().unwrap();
    let input: serde_json::Value = serde_json::from_slice(&call.raw).unwrap();
    assert_eq!(input["text"], "it is [a \"key\"].");
}

#[test]
fn only_bytes_that_no_rule_can_want_are_forwarded() {
    let played = played([secret()], vec![text("a key-12").cut(1)]);
    let mut waits = 0;
    for step in &played.steps {
        match step {
            Step::Hold { bytes, .. } => waits = *bytes,
            Step::Forward { bytes, .. } => {
                assert!(!bytes.starts_with(b"k") || bytes == b"key-12", "{bytes:?}");
            }
            _ => {}
        }
    }
    assert_eq!(waits, 6, "the end of the part decides about `key-12`");
    assert_eq!(played.published(), "a key-12");
}

#[test]
fn text_that_waits_at_a_cut_is_in_no_partial() {
    let mut stop = Rule::new("p/stop", vec![Pattern::literal("stop")]);
    stop.action = Action::Abort;
    // The rule on the key would be decided at the end of the first part, which never comes.
    let script = ScriptedReply::default()
        .event(delta(0, "so key-12"))
        .event(delta(1, "stop"));
    let played = played([secret(), stop], vec![script]);
    let aborted = played.aborted()[0];
    assert_eq!(aborted.partial.text(Channel::Text), "so ");
    assert!(!format!("{aborted:?}").contains("key-"));
}

#[test]
fn in_shadow_and_past_its_bounds_a_rule_takes_nothing_out() {
    let mut shadow = secret();
    shadow.mode = Mode::Shadow;
    assert_eq!(
        played([shadow], vec![text("key-1234")]).published(),
        "key-1234"
    );

    let mut once = secret();
    once.repeat = Some(Repeat {
        per_session: Some(1),
        ..Repeat::default()
    });
    let script = ScriptedReply::default()
        .text("key-1234 ")
        .text("key-5678")
        .finish("stop");
    assert_eq!(
        played([once], vec![script]).published(),
        "[a \"key\"] key-5678"
    );
}

#[test]
fn the_start_of_a_match_is_known_after_redacted_text() {
    let mut retry = Rule::new("p/word", vec![Pattern::literal("bad")]);
    (retry.action, retry.partial) = (Action::Retry, Partial::KeepBeforeMatch);
    let script = ScriptedReply::default().text("key-1234 then bad");
    let played = played([secret(), retry], vec![script.cut(3), text("fine")]);
    let request = &played.provider.requests()[1];
    assert_eq!(request.messages[1].text(), "[a \"key\"] then ");
}

#[test]
fn an_abort_says_which_blocks_may_be_sent_again() {
    for (signs_reasoning, reasoning) in [
        (false, BlockReplay::Unsigned(2)),
        (true, BlockReplay::Never),
    ] {
        let mut rule = Rule::new("p/a", vec![Pattern::literal("bad")]);
        (rule.action, rule.partial) = (Action::Retry, Partial::Keep);
        let settings = Settings {
            signs_reasoning,
            ..Settings::default()
        };
        let processor = Processor::new(&pack([rule]), Hooks::default(), settings);
        let script = ScriptedReply::default()
            .reasoning("hm")
            .tool("read", "c1", "{}");
        let scripts = vec![script.text("bad").cut(1), text("fine")];
        let played = play_with(processor, scripts, &Cancel::default(), |_| {});
        let blocks = played.aborted()[0].blocks.iter();
        let blocks: Vec<BlockReplay> = blocks.map(|block| block.replay).collect();
        assert_eq!(
            blocks,
            [reasoning, BlockReplay::Never, BlockReplay::UpTo(2)]
        );
        let kept = &played.provider.requests()[1].messages[1].content;
        assert_eq!(kept.len(), if signs_reasoning { 1 } else { 2 });
    }
}

#[test]
fn a_prompt_is_sent_without_what_a_rule_redacts_in_any_of_its_texts() {
    let mut rule = secret();
    (rule.on, rule.action) = (vec![Channel::UserInput], Action::Redact);
    let mut close = Rule::new("p/end", vec![Pattern::literal("key-1111")]);
    (close.on, close.action) = (vec![Channel::UserInput], Action::Append);
    close.message = Some("Ask for a new key.".into());
    let pack = pack([rule, close]);
    let text = |text: &str, synthetic| Content::Text {
        text: text.into(),
        synthetic,
    };
    let content = vec![
        text("My key-1111 and", false),
        text("key-2222", true),
        text("my key-3333.", false),
    ];
    let request = Request::new(
        "model",
        vec![Message {
            role: Role::User,
            content,
        }],
    );
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
    // The second time the edits are remembered.
    for _ in 0..2 {
        let prepared = processor.prepare(&request, &mut steps).unwrap();
        assert_eq!(
            prepared.request.messages[0].content,
            [
                text("My [a \"key\"] and", false),
                text("[a \"key\"]", true),
                text("my [a \"key\"].\n\nAsk for a new key.", false),
            ]
        );
    }
}

#[test]
fn an_attempt_in_progress_redacts_by_its_own_pack() {
    let mut conversation = Conversation::new(&pack([secret()]));
    let mut shown = Vec::new();
    assert_eq!(conversation.begin_turn("Which key?").flow, Flow::Go);
    assert_eq!(conversation.begin_attempt(), Flow::Go);
    let lost = conversation.reload(pack([Rule::new("p/other", vec![Pattern::literal("x")])]));
    assert!(lost.is_empty(), "the rule had not acted");
    let part = PartId(0);
    for delta in ["It is key-12", "34."] {
        assert_eq!(conversation.push(part, delta.as_bytes()), Flow::Go);
        shown.extend_from_slice(conversation.take(part));
    }
    assert_eq!(conversation.finish(), Flow::Go);
    shown.extend_from_slice(conversation.take(part));
    assert_eq!(String::from_utf8(shown).unwrap(), "It is [a \"key\"].");
}

/// Returns a rule that redacts the matches of a pattern in tool input.
fn taken_out(id: &str, pattern: Pattern, replacement: &str) -> Rule {
    let mut rule = Rule::new(id, vec![pattern]);
    rule.on = vec![Channel::ToolInput];
    rule.action = Action::Redact;
    rule.replacement = Some(replacement.to_owned());
    rule
}

/// Returns the forwarded input of a tool call whose input is delivered in deltas of the given lengths.
fn leaves(pack: &Pack, input: &[u8], cut: impl FnMut() -> usize) -> Vec<u8> {
    let mut cut = cut;
    let mut events = vec![Event::PartStart {
        part: PartId(0),
        name: "0".into(),
        channel: Channel::ToolInput,
        tool: Some("write".into()),
        call: Some("c".into()),
    }];
    let mut rest = input;
    while !rest.is_empty() {
        let (delta, after) = rest.split_at(cut().clamp(1, rest.len()));
        events.push(Event::Delta {
            part: PartId(0),
            bytes: delta.to_vec(),
        });
        rest = after;
    }
    events.push(Event::PartEnd { part: PartId(0) });
    let script = ScriptedReply::from(events).finish("tool_use");
    let played = played_with(pack, vec![script]);
    let raw = played
        .outcome
        .reply
        .tool_calls()
        .next()
        .unwrap()
        .raw
        .clone();
    let published = played.steps.iter().filter_map(|step| match step {
        Step::Forward { bytes, .. } => Some(bytes.as_slice()),
        _ => None,
    });
    assert_eq!(published.collect::<Vec<_>>().concat(), raw);
    raw
}

#[test]
fn a_number_a_word_or_a_key_is_taken_out_as_json_whatever_the_cut() {
    let rules = pack([
        taken_out("p/digits", Pattern::regex("4[0-9]{3}"), "a \"card\""),
        taken_out("p/words", Pattern::regex("rue|null"), "w"),
        taken_out("p/half", Pattern::regex(r"(?-u:\xA9)"), "h"),
    ]);
    for (input, expected) in [
        (r#"{"n":4111}"#, r#"{"n":"a \"card\""}"#),
        (r#"{"n":-12411134e5,"m":1}"#, r#"{"n":"a \"card\"","m":1}"#),
        (
            r#"{"n":[41114222 ,4111]}"#,
            r#"{"n":["a \"card\"" ,"a \"card\""]}"#,
        ),
        (
            r#"{"a":true,"b":[null],"c":false}"#,
            r#"{"a":"w","b":["w"],"c":false}"#,
        ),
        (
            r#"{"4111":{"x4111y":"4111"}}"#,
            r#"{"a \"card\"":{"xa \"card\"y":"a \"card\""}}"#,
        ),
        ("{\"a\":\"x\u{e9}y\"}", r#"{"a":"xhy"}"#),
        (r#"{"a":4111"#, r#"{"a":"a \"card\"""#),
    ] {
        for size in 1..=input.len() {
            let left = leaves(&rules, input.as_bytes(), || size);
            assert_eq!(
                String::from_utf8_lossy(&left),
                expected,
                "{input} in pieces of {size}"
            );
        }
    }
}

#[test]
fn a_command_of_several_values_is_taken_out_as_json() {
    let mut pattern = Pattern::regex("rm 5|5 rm|c | g");
    pattern.region = vec![Region::Shell];
    let rules = pack([taken_out("p/shell", pattern, "x")]);
    for (input, expected) in [
        (r#"{"command":["rm",5]}"#, r#"{"command":["x"]}"#),
        (r#"{"command":[5,"rmdir"]}"#, r#"{"command":["xdir"]}"#),
        (
            r#"{"command":["a","rm", 50 ]}"#,
            r#"{"command":["a","x" ]}"#,
        ),
        (r#"{"command":["c", 5]}"#, r#"{"command":["x", 5]}"#),
        (r#"{"command":[6 , "g", 7]}"#, r#"{"command":[6 , "x", 7]}"#),
    ] {
        for size in 1..=input.len() {
            let left = leaves(&rules, input.as_bytes(), || size);
            assert_eq!(
                String::from_utf8_lossy(&left),
                expected,
                "{input} in pieces of {size}"
            );
        }
    }
}

/// Writes a JSON value with random white space and escapes.
fn json(random: &mut Random, depth: usize, out: &mut String) {
    const SCALARS: [&str; 12] = [
        "4111",
        "-4111.5e+33",
        "0",
        "12",
        "411142",
        "true",
        "false",
        "null",
        "1e41",
        "-0.41",
        "33",
        "4.111",
    ];
    const TEXTS: [&str; 12] = [
        "",
        "4111",
        "rm",
        "true",
        "\u{e9}",
        "\\u0034111",
        "\\\"",
        "null",
        "\\ud83d\\ude00",
        "x y",
        "\\\\",
        "key",
    ];
    let blank = |random: &mut Random| random.pick(&["", "", "", " ", "\n"]);
    let text = |random: &mut Random, out: &mut String| {
        out.push('"');
        (0..random.below(4)).for_each(|_| out.push_str(random.pick(&TEXTS)));
        out.push('"');
    };
    out.push_str(blank(random));
    match random.below(if depth == 0 { 3 } else { 5 }) {
        0 => text(random, out),
        1 | 2 => out.push_str(random.pick(&SCALARS)),
        kind => {
            let (open, close) = if kind == 3 { ('[', ']') } else { ('{', '}') };
            out.push(open);
            for index in 0..random.below(4) {
                out.push_str(if index > 0 { "," } else { "" });
                if kind == 4 {
                    let command = random.one_in(3);
                    match command {
                        true => out.push_str("\"command\""),
                        false => text(random, out),
                    }
                    out.push_str(blank(random));
                    out.push(':');
                }
                json(random, depth - 1, out);
            }
            out.push(close);
        }
    }
    out.push_str(blank(random));
}

fn random_rule(random: &mut Random, number: usize) -> Rule {
    let regex = random.pick(&[
        "4[0-9]{3}",
        "41",
        "1",
        "[.]",
        "e",
        "true",
        "u",
        "ll",
        "-",
        "[0-9]+",
        "rm",
        "[a-z]+",
        "rm 4",
        "1 r",
        "key",
        r"(?-u:\xA9)",
        "\u{e9}",
        r"\\",
        "\u{1F600}",
        "4111.{0,3}x",
        " ",
        "0",
    ]);
    let mut pattern = Pattern::regex(regex);
    // The white space between the words of a list is not text that could be redacted.
    if random.one_in(5) && regex != " " {
        pattern.region = vec![Region::Shell];
    } else if random.one_in(5) {
        pattern.fold = vec![Fold::Case];
    }
    // No rule matches a replacement, and no replacement forms a match with its surroundings.
    let replacement = random.pick(&[
        "\u{2588}",
        "\u{2588}\"\u{2588}",
        "\u{2588}\n\u{2588}",
        "\u{2588}{},:[]\u{2588}",
    ]);
    let mut rule = taken_out(&format!("p/r{number}"), pattern, replacement);
    if random.one_in(4) && rule.condition.any[0].region.is_empty() {
        rule.args = vec![
            random
                .pick(&["$keys", "**", "command", "*.command"])
                .to_owned(),
        ];
    }
    rule
}

#[test]
fn tool_input_that_was_json_is_json_without_a_match_whatever_is_taken_out_and_however_it_is_cut() {
    let documents = scale(6_000).max(300);
    let (mut replaced, mut scalars, mut keys) = (0, 0, 0);
    for seed in 0..documents as u64 {
        let mut random = Random::new(seed);
        let mut input = String::from("{\"a\":");
        json(&mut random, 3, &mut input);
        input.push_str(",\"command\":");
        json(&mut random, 2, &mut input);
        input.push('}');
        let before: serde_json::Value = serde_json::from_str(&input).unwrap();
        let mut rules = Vec::new();
        while rules.is_empty() || random.one_in(2) {
            let rule = random_rule(&mut random, rules.len());
            if Pack::builder().rule(rule.clone()).build().is_ok() {
                rules.push(rule);
            }
        }
        let pack = pack(rules.iter().cloned());
        let whole = leaves(&pack, input.as_bytes(), || input.len());
        for way in 0..3 {
            let longest = [1, 3, 20][way];
            let left = leaves(&pack, input.as_bytes(), || 1 + random.below(longest));
            assert_eq!(left, whole, "seed {seed}: {input}\n{rules:?}");
        }
        let shown = String::from_utf8_lossy(&whole);
        let after: Result<serde_json::Value, _> = serde_json::from_slice(&whole);
        let after = after
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{input}\n{shown}\n{rules:?}"));
        replaced += usize::from(after != before);
        scalars += usize::from(shown.contains(":\"\u{2588}"));
        keys += usize::from(shown.contains("\u{2588}\":") || shown.contains("\u{2588}\" :"));
        // No match of the redacted pattern is left.
        let mut stream = pack.stream();
        stream.open(PartId(0), Channel::ToolInput);
        let _ = stream.set_tool(PartId(0), "write", "c");
        let mut hits = stream.push(PartId(0), &whole).to_vec();
        hits.extend_from_slice(&stream.close(PartId(0)));
        assert!(
            hits.is_empty(),
            "seed {seed}: {hits:?}\n{input}\n{shown}\n{rules:?}"
        );
    }
    println!(
        "redacted JSON: {documents} inputs, {replaced} changed, {scalars} with a value and {keys} with a key replaced"
    );
    assert!(replaced > documents / 4 && scalars > 10 && keys > 5);
}

/// Returns the published text after each event of a reply, without the events before and after it.
fn published_by_event(pack: &Pack, settings: Settings, events: Vec<Event>) -> Vec<String> {
    let mut processor = Processor::new(pack, Hooks::default(), settings);
    let mut steps = Vec::new();
    processor.begin("msg_1", &mut steps);
    processor.step(Duration::ZERO, Input::Sent, &mut steps);
    let forwarded = |event: Event| {
        steps.clear();
        processor.step(Duration::ZERO, Input::Event(event), &mut steps);
        let texts = steps.iter().filter_map(|step| match step {
            Step::Forward { bytes, .. } => Some(String::from_utf8_lossy(bytes)),
            _ => None,
        });
        texts.collect()
    };
    events.into_iter().map(forwarded).collect()
}

fn start(part: u32, channel: Channel) -> Event {
    Event::PartStart {
        part: PartId(part),
        name: part.to_string(),
        channel,
        tool: (channel == Channel::ToolInput).then(|| "bash".to_owned()),
        call: None,
    }
}

#[test]
fn a_part_is_published_once_the_held_text_of_the_part_before_it_has_left() {
    let events = vec![
        start(0, Channel::Text),
        delta(0, "a key-12"),
        start(1, Channel::Text),
        delta(1, "b"),
        delta(0, "x"),
        delta(1, "c"),
    ];
    let published = published_by_event(&pack([secret()]), Settings::default(), events);
    assert_eq!(published, ["", "a ", "", "", "key-12xb", "c"]);
}

#[test]
fn a_part_is_published_once_the_call_before_it_has_left() {
    let mut abort = Rule::new("p/abort", vec![Pattern::literal("rm -rf")]);
    (abort.on, abort.action) = (vec![Channel::ToolInput], Action::Abort);
    let settings = Settings {
        holds_tool_input: true,
        ..Settings::default()
    };
    let events = vec![
        start(0, Channel::ToolInput),
        delta(0, "{}"),
        start(1, Channel::Text),
        delta(1, "b"),
        Event::PartEnd { part: PartId(0) },
        delta(1, "c"),
    ];
    let published = published_by_event(&pack([abort]), settings, events);
    assert_eq!(published, ["", "", "", "", "{}b", "c"]);
}
