//! A conversation that is recorded as it happens.

use std::path::PathBuf;
use std::time::Duration;

use ttsr::harness::event::LoopEvent;
use ttsr::harness::{
    Cancel, End, Hooks, Message, Processor, ReplyOutcome, Request, Run, Scripted, ScriptedReply,
    Settings, Step,
};
use ttsr::{Conversation, Pack};
use ttsr_agent::store::{
    Entry, OnFailure, SessionRecorder, Store, StoreErrorKind, StoreOptions, StoreReader, StoredItem,
};

use super::disk::{Fault, FaultyDisk, Plan};
use super::{StoreFile as _, texts};

const RULES: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["retry", "abort", "inject"]
[rule.any]
description = "Say what the type is."
severity = "error"
match.any = [{ literal = ": any" }]
examples.match = ["x: any"]
[rule.hint]
description = "There is a shorter way."
severity = "warning"
match.any = [{ literal = "for i in" }]
examples.match = ["for i in 0..3"]
[rule.stop]
description = "Never that."
severity = "critical"
match.any = [{ literal = "rm -rf" }]
examples.match = ["rm -rf /"]
[rule.key]
description = "No key is sent."
severity = "critical"
on = ["user-input"]
action = "abort"
match.any = [{ literal = "sk-live" }]
examples.match = ["sk-live-1"]
"#;

fn file() -> PathBuf {
    PathBuf::from("/a/talk.ttsr")
}

fn store(disk: &FaultyDisk) -> (Store, ttsr_agent::store::ResumeState) {
    let options = StoreOptions {
        disk: Box::new(disk.clone()),
        clock: || 0,
        ..StoreOptions::default()
    };
    Store::open_with(file(), options).unwrap()
}

/// Runs a recorded reply, one millisecond per step; returns its outcome and the recorder.
fn converse(
    recorder: &mut SessionRecorder,
    processor: &mut Processor,
    prompt: &str,
    scripts: Vec<ScriptedReply>,
    mut before: impl FnMut(usize),
) -> ReplyOutcome {
    let prompt = Message::user(prompt);
    recorder.message(&prompt, processor.conversation()).unwrap();
    let mut provider = Scripted::new(scripts);
    let cancel = Cancel::default();
    let request = Request::new("m", vec![prompt]);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::begin(processor, &mut provider, request, "msg", cancel.clone());
        for number in 0.. {
            before(number);
            let step = run.next().await.expect("it ends with a finish");
            let now = Duration::from_millis(number as u64);
            if recorder.step(now, &step, run.conversation()).is_err() {
                cancel.cancel();
            }
            if let Step::Finish(outcome) = step {
                return *outcome;
            }
        }
        unreachable!("it ends with a finish")
    })
}

fn pack() -> Pack {
    Pack::from_toml(RULES).unwrap()
}

fn processor(conversation: impl Into<Conversation>) -> Processor {
    Processor::new(conversation, Hooks::default(), Settings::default())
}

fn text(text: &str) -> ScriptedReply {
    ScriptedReply::default().text(text).finish("stop").cut(4)
}

fn events(disk: &FaultyDisk) -> Vec<LoopEvent> {
    let bytes = disk.bytes(&file());
    let entries = StoreReader::new(&*bytes)
        .unwrap()
        .flat_map(|piece| match piece.unwrap() {
            StoredItem::Record(record) => record.entries,
            other => panic!("{other:?}"),
        });
    let events = entries.filter_map(|entry| match entry {
        Entry::Event { event } => Some(event),
        _ => None,
    });
    events.collect()
}

#[test]
fn a_conversation_is_taken_up_with_its_messages_and_what_the_rules_know() {
    let disk = FaultyDisk::default();
    let (first, found) = store(&disk);
    let mut recorder = SessionRecorder::new(first, OnFailure::Stop);
    let mut one = processor(found.conversation(&pack()).0);
    let scripts = vec![text("let x: any = 1;"), text("for i in 0..3 {}")];
    let outcome = converse(&mut recorder, &mut one, "Go.", scripts, |_| {});
    assert_eq!(outcome.attempts, 2);
    drop(recorder);

    let (second, found) = store(&disk);
    assert_eq!(
        texts(&found),
        ["Go.", "t/any: Say what the type is.", "for i in 0..3 {}"]
    );
    // Guidance for the next request, which was never sent.
    let (conversation, lost) = found.conversation(&pack());
    assert_eq!((conversation.turns(), lost.len()), (1, 0));
    let waiting: Vec<String> = conversation.guidance().map(|note| note.text).collect();
    assert_eq!(waiting, ["t/hint: There is a shorter way."]);
    let mut recorder = SessionRecorder::new(second, OnFailure::Stop);
    let mut two = processor(conversation);
    let outcome = converse(
        &mut recorder,
        &mut two,
        "Again.",
        vec![text("for i in 1..2")],
        |_| {},
    );
    let added: Vec<String> = outcome.added.iter().map(Message::text).collect();
    assert_eq!(added, waiting, "the hint is given once a session");
    assert_eq!(two.conversation().turns(), 2);
    drop(recorder);
    let (_, found) = store(&disk);
    assert_eq!(texts(&found)[3..], ["Again.", &waiting[0], "for i in 1..2"]);
    let (conversation, _) = found.conversation(&pack());
    assert_eq!(conversation.guidance().count(), 0, "it was sent once");
}

#[test]
fn an_image_is_in_the_next_process_as_it_was_sent() {
    let disk = FaultyDisk::default();
    let (first, found) = store(&disk);
    let mut recorder = SessionRecorder::new(first, OnFailure::Stop);
    let (conversation, _) = found.conversation(&pack());
    let asked = Message::user("What is it?").with_image("image/png", "iVBORw0KGgo=");
    recorder.message(&asked, &conversation).unwrap();
    drop(recorder);
    let file = String::from_utf8(disk.bytes(&file())).unwrap();
    let written = r#"{"type":"image","media_type":"image/png","data":"iVBORw0KGgo="}"#;
    assert!(file.contains(written), "{file}");
    let (mut again, found) = store(&disk);
    assert_eq!(found.messages(), std::slice::from_ref(&asked));
    again.compact().unwrap();
    drop(again);
    let (_, found) = store(&disk);
    assert_eq!(found.messages(), [asked]);
}

/// The texts of all messages that the model has read after the next request: those of the file, and those that the loop
/// adds.
fn read_by_the_model(disk: &FaultyDisk) -> Vec<String> {
    let (_, found) = store(disk);
    let mut next = processor(found.conversation(&pack()).0);
    let mut steps = Vec::new();
    next.begin("next", &mut steps);
    let mut texts = texts(&found);
    for step in steps {
        if let Step::Send { messages, .. } = step {
            texts.extend(messages.iter().map(Message::text));
        }
    }
    texts
}

/// Runs one reply, and kills the process when `steps` steps were recorded. Returns true if the reply ended before that.
fn killed_after(disk: &FaultyDisk, prompt: &str, script: ScriptedReply, steps: usize) -> bool {
    let (store, found) = store(disk);
    let mut recorder = SessionRecorder::new(store, OnFailure::Stop);
    let mut processor = processor(found.conversation(&pack()).0);
    let prompt = Message::user(prompt);
    recorder.message(&prompt, processor.conversation()).unwrap();
    let mut messages = found.messages();
    messages.push(prompt);
    let mut provider = Scripted::new([script]);
    let request = Request::new("m", messages);
    let cancel = Cancel::default();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let mut run = Run::begin(&mut processor, &mut provider, request, "msg", cancel);
        for number in 0..steps {
            let Some(step) = run.next().await else {
                return true;
            };
            let now = Duration::from_millis(number as u64);
            recorder.step(now, &step, run.conversation()).unwrap();
        }
        false
    })
}

#[test]
fn guidance_that_waits_when_the_process_is_killed_is_in_the_next_request_once() {
    const HINT: &str = "t/hint: There is a shorter way.";
    let hints = |texts: Vec<String>| texts.iter().filter(|text| *text == HINT).count();
    for steps in 0.. {
        // Killed while the rule decides, and at any point after that.
        let disk = FaultyDisk::default();
        let script = text("for i in 0..3 {}");
        let is_over = killed_after(&disk, "Go.", script, steps);
        let found = read_by_the_model(&disk);
        let is_decided = events(&disk)
            .iter()
            .any(|event| matches!(event, LoopEvent::Decision(_)));
        assert_eq!(hints(found), usize::from(is_decided), "after {steps} steps");
        if is_over {
            assert!(is_decided);
            break;
        }
    }
    for steps in 0.. {
        // Killed while the request that carries the guidance is prepared, sent and answered.
        let disk = FaultyDisk::default();
        killed_after(&disk, "Go.", text("for i in 0..3 {}"), usize::MAX);
        let is_over = killed_after(&disk, "Again.", text("for i in 1..2"), steps);
        assert_eq!(hints(read_by_the_model(&disk)), 1, "after {steps} steps");
        if is_over {
            break;
        }
    }
}

#[test]
fn guidance_of_a_request_that_a_rule_refuses_waits_in_the_file() {
    let disk = FaultyDisk::default();
    killed_after(&disk, "Go.", text("for i in 0..3 {}"), usize::MAX);
    killed_after(&disk, "Use sk-live-1.", text("ok"), usize::MAX);
    let (_, found) = store(&disk);
    assert_eq!(texts(&found), ["Go.", "for i in 0..3 {}", "Use sk-live-1."]);
    let (conversation, _) = found.conversation(&pack());
    let waiting: Vec<String> = conversation.guidance().map(|note| note.text).collect();
    assert_eq!(waiting, ["t/hint: There is a shorter way."]);
}

/// Earlier versions of the crate wrote guidance that waits as a message.
#[test]
fn a_file_with_guidance_as_a_message_goes_on_with_it() {
    let folder = ttsr_testing::Folder::new();
    let text = |kind: &str, role: &str, text: &str| {
        let text =
            serde_json::json!([{"type": "text", "text": text, "synthetic": kind == "waiting"}]);
        serde_json::json!({"kind": kind, "message": {"role": role, "content": text}})
    };
    let begin = serde_json::json!({"kind": "begin", "version": "0.1.0"});
    let state = serde_json::json!({"kind": "snapshot", "snapshot": {
        "version": 1, "turn": 1, "attempts": 1, "retries": 0, "mode": "live", "origin": {}, "rules": [],
    }});
    let records = [
        serde_json::json!([begin, text("message", "user", "Go."), state]),
        serde_json::json!([text("waiting", "user", "Be brief."), state]),
        serde_json::json!([text("message", "assistant", "Done."), state]),
    ];
    let mut file = "ttsr-session 1\n".to_owned();
    for (seq, entries) in (1..).zip(records) {
        let json = serde_json::json!({"seq": seq, "at": 0, "entries": entries}).to_string();
        file += &format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()));
    }
    std::fs::write(folder.file(), file).unwrap();
    let (store, found) = Store::open(folder.file()).unwrap();
    assert_eq!(texts(&found), ["Go.", "Done.", "Be brief."]);
    let (conversation, lost) = found.conversation(&pack());
    assert_eq!((conversation.turns(), lost.len()), (1, 0));
    let mut recorder = SessionRecorder::new(store, OnFailure::Stop);
    recorder
        .message(&Message::user("Again."), &conversation)
        .unwrap();
    drop(recorder);
    let (mut store, found) = Store::open(folder.file()).unwrap();
    assert_eq!(texts(&found), ["Go.", "Done.", "Be brief.", "Again."]);
    store.compact().unwrap();
    drop(store);
    let (_, found) = Store::open(folder.file()).unwrap();
    assert_eq!(texts(&found), ["Go.", "Done.", "Be brief.", "Again."]);
}

#[test]
fn events_are_recorded_in_order_with_rule_action_and_place() {
    let disk = FaultyDisk::default();
    let mut recorder = SessionRecorder::new(store(&disk).0, OnFailure::Stop);
    let mut processor = processor(&pack());
    let scripts = vec![text("let x: any = 1;"), text("let x: u8 = 1;")];
    converse(&mut recorder, &mut processor, "Go.", scripts, |_| {});
    let events = events(&disk);
    let names: Vec<&str> = events
        .iter()
        .map(|event| match event {
            LoopEvent::Send { .. } => "send",
            LoopEvent::FirstToken { .. } => "first",
            LoopEvent::Decision(_) => "decision",
            LoopEvent::Aborted { .. } => "aborted",
            LoopEvent::Finish(_) => "finish",
            _ => "other",
        })
        .collect();
    assert_eq!(
        names,
        [
            "send", "first", "decision", "aborted", "send", "first", "finish"
        ]
    );
    let LoopEvent::Decision(judged) = &events[2] else {
        unreachable!("it was looked at")
    };
    assert_eq!(judged.rule.as_deref(), Some("t/any"));
    assert_eq!((judged.end, judged.decided), (Some(10), 10));
    let LoopEvent::Finish(finished) = &events[6] else {
        unreachable!("it was looked at")
    };
    // The first attempt was cut after 8 of 14 possible bytes.
    assert_eq!(
        (finished.bytes, finished.saved, finished.attempts),
        (14, 6, 2)
    );
    let written = String::from_utf8(disk.bytes(&file())).unwrap();
    assert!(
        !written.contains(": any"),
        "no text of a reply that was cut"
    );
}

#[test]
fn a_full_disk_changes_no_verdict_and_messages_are_written_later() {
    let disk = FaultyDisk::default();
    let mut recorder = SessionRecorder::new(store(&disk).0, OnFailure::Continue);
    let mut one = processor(&pack());
    let breaks = |number| {
        if number == 1 {
            disk.plan(Plan::From(disk.calls() + 1, Fault::Full));
        }
    };
    let scripts = vec![text("let x: any = 1;"), text("let x: u8 = 1;")];
    let outcome = converse(&mut recorder, &mut one, "Go.", scripts, breaks);
    assert!(matches!(outcome.end, End::Complete { .. }));
    assert_eq!((outcome.attempts, recorder.is_degraded()), (2, true));
    let lost = recorder.lost_events();
    assert!(lost > 0);
    disk.plan(Plan::Never);
    converse(&mut recorder, &mut one, "More.", vec![text("ok")], |_| {});
    assert!(!recorder.is_degraded());
    drop(recorder);
    let (_store, found) = store(&disk);
    assert_eq!(
        texts(&found),
        [
            "Go.",
            "t/any: Say what the type is.",
            "let x: u8 = 1;",
            "More.",
            "ok"
        ]
    );
    let bytes = disk.bytes(&file());
    let told: u64 = StoreReader::new(&*bytes)
        .unwrap()
        .flat_map(|piece| match piece.unwrap() {
            StoredItem::Record(record) => record.entries,
            other => panic!("{other:?}"),
        })
        .map(|entry| match entry {
            Entry::Lost { events } => events,
            _ => 0,
        })
        .sum();
    assert_eq!(told, lost, "the log says what is not in it");
}

#[test]
fn a_log_that_is_required_ends_the_reply_when_it_fails() {
    let disk = FaultyDisk::default();
    let mut recorder = SessionRecorder::new(store(&disk).0, OnFailure::Stop);
    let mut one = processor(&pack());
    let breaks = |number| {
        if number == 1 {
            disk.plan(Plan::From(disk.calls() + 1, Fault::Device));
        }
    };
    let long = text(&"word ".repeat(1000));
    let outcome = converse(&mut recorder, &mut one, "Go.", vec![long], breaks);
    assert!(matches!(outcome.end, End::Aborted { .. }));
    let error = recorder
        .message(&Message::user("More."), one.conversation())
        .unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Disk);
}

#[test]
fn every_write_fails_in_turn_and_the_verdicts_stay_the_same() {
    let run = |plan: Plan, on_failure| {
        let disk = FaultyDisk::default();
        let mut recorder = SessionRecorder::new(store(&disk).0, on_failure);
        disk.plan(plan);
        let mut one = processor(&pack());
        let scripts = vec![text("for i in: any"), text("for i in rm -rf")];
        let outcome = converse(&mut recorder, &mut one, "Go.", scripts, |_| {});
        (outcome, disk.calls())
    };
    let (sound, calls) = run(Plan::Never, OnFailure::Continue);
    let mut faults = 0;
    for at in 1..=calls {
        for fault in super::disk::FAULTS {
            for plan in [Plan::Once(at, fault), Plan::From(at, fault)] {
                assert_eq!(run(plan, OnFailure::Continue).0, sound, "{plan:?}");
                faults += 1;
            }
        }
    }
    println!("{faults} runs with a failing disk: the same verdicts");
}

/// A record with one event as a line of a file.
fn line(seq: u64, event: &str) -> String {
    let json = format!(
        r#"{{"seq":{seq},"at":0,"entries":[{{"kind":"event","event":{{"event":{event}}}}}]}}"#
    );
    format!("{:08x} {json}\n", crc32fast::hash(json.as_bytes()))
}

#[test]
fn events_are_read_from_files_that_have_fewer_fields() {
    let written = [
        r#""send","attempt":1,"messages":2"#,
        r#""first-token","after":5"#,
        r#""decision","rule":"t/any","action":"retry","turn":1,"attempt":1,"part":"0","channel":"text","end":10,"decided":10"#,
        r#""aborted","reason":"plugin","source":"rule","by":"t/any","attempt":1,"bytes":8,"calls":0,"retry":true"#,
        r#""tool-call","tool":"bash","call":"c1""#,
        r#""doom-loop","tool":"bash","times":3"#,
        r#""usage","input":1,"output":2"#,
        r#""sub-agent","session":"s/c1","parent":"s","call":"c1","by":"t/any""#,
        r#""unscanned","bytes":3,"of":"logprobs""#,
        r#""note","what":"restarted""#,
        r#""finish","complete":true,"reason":"stop","attempts":1,"bytes":8,"millis":9,"saved":0,"unscanned":0"#,
    ];
    let mut file = "ttsr-session 1\n".to_owned();
    for (seq, event) in (1..).zip(written) {
        file += &line(seq, event);
    }
    let pieces = StoreReader::new(file.as_bytes()).unwrap();
    let entries = pieces.flat_map(|piece| match piece.unwrap() {
        StoredItem::Record(record) => record.entries,
        other => panic!("{other:?}"),
    });
    let events: Vec<LoopEvent> = entries
        .map(|entry| match entry {
            Entry::Event { event } => event,
            other => panic!("{other:?}"),
        })
        .collect();
    let names: Vec<&str> = events.iter().map(LoopEvent::name).collect();
    assert_eq!(
        names,
        [
            "send",
            "first-token",
            "decision",
            "aborted",
            "tool-call",
            "doom-loop",
            "usage",
            "sub-agent",
            "unscanned",
            "unknown",
            "finish"
        ]
    );
    let LoopEvent::Decision(decision) = &events[2] else {
        panic!("{:?}", events[2])
    };
    assert_eq!(
        (decision.rule_or_limit(), &*decision.part.name),
        ("t/any", "0")
    );
    let LoopEvent::ToolCall(part) = &events[4] else {
        panic!("{:?}", events[4])
    };
    assert_eq!((part.tool.as_deref(), part.id), (Some("bash"), None));
}
