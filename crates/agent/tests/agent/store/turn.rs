//! Whole turns that are recorded.

use ttsr::harness::{
    AbortReason, AgentTurn, Cancel, End, Hooks, Message, Processor, Request, Scripted,
    ScriptedReply, Settings, Tool, ToolCall, ToolFuture, ToolOutput, Tools, TurnOutcome,
};
use ttsr::{Conversation, Pack};
use ttsr_agent::store::{OnFailure, SessionRecorder, Store, StoreErrorKind, StoreOptions};

use super::StoreFile as _;
use ttsr_testing::Folder;

/// The rule on the prompt guides this request, the rule on the reply the next one; a call is checked before it runs.
const RULES: &str = r#"
schema = 1
[pack]
name = "t"
grants = ["inject", "retry", "consult"]
[rule.prompt]
description = "Owls are asked about"
severity = "warning"
on = ["user-input"]
action = "inject"
match.any = [{ literal = "owl" }]
message = "Owls sleep by day."
examples.match = ["an owl"]
[rule.later]
description = "Finish it"
severity = "warning"
action = "inject"
match.any = [{ literal = "TODO" }]
message = "Finish it."
examples.match = ["TODO"]
[rule.any]
description = "Say what the type is"
severity = "error"
match.any = [{ literal = ": any" }]
message = "No any."
examples.match = ["x: any"]
[rule.commit]
description = "A commit is looked at first"
severity = "warning"
on = ["tool-input"]
tools = ["bash"]
action = "consult"
consult = { prompt = "Is it fine?" }
match.any = [{ literal = "git commit" }]
examples.match = ["git commit -m x"]
"#;

struct Bash;

impl Tools for Bash {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        Box::pin(async { ToolOutput::output(format!("ran {}", call.input)) })
    }
}

fn take(
    conversation: Conversation,
    recorder: &mut SessionRecorder,
    messages: Vec<Message>,
) -> TurnOutcome {
    let commit = r#"{"command":"git commit"}"#;
    let script = ScriptedReply::default;
    let mut provider = Scripted::new([
        script().text("let x: any").finish("stop"),
        script()
            .text("A TODO.")
            .tool("bash", "c1", commit)
            .finish("tool_use"),
        // The sub-agent.
        script().text("It is fine.").finish("stop"),
        script().tool("bash", "c2", commit).finish("tool_use"),
        script().text("Done.").finish("stop"),
    ]);
    let mut processor = Processor::new(conversation, Hooks::default(), Settings::default());
    let tools = Bash;
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let request = Request::new("m", messages);
    runtime.block_on(turn.record(recorder).run(request, "t", &mut |_| {}))
}

/// The file has every message that the turn added to the conversation, and no other.
#[test]
fn a_turn_leaves_its_conversation_in_the_file() {
    let folder = Folder::new();
    let pack = Pack::from_toml(RULES).unwrap();
    let (store, found) = Store::open(folder.file()).unwrap();
    let (conversation, _) = found.conversation(&pack);
    let mut recorder = SessionRecorder::new(store, OnFailure::Stop);
    let prompt = Message::user("Ask the owl.");
    recorder.message(&prompt, &conversation).unwrap();
    let outcome = take(conversation, &mut recorder, vec![prompt.clone()]);
    assert!(matches!(outcome.end, End::Complete { .. }), "{outcome:?}");
    drop(recorder);

    let (_store, found) = Store::open(folder.file()).unwrap();
    let all: Vec<Message> = [prompt].into_iter().chain(outcome.added).collect();
    let texts = |messages: &[Message]| messages.iter().map(Message::text).collect::<Vec<_>>();
    assert!(
        texts(&all).iter().any(|text| text.contains("Owls sleep")),
        "{all:?}"
    );
    assert!(
        texts(&all).iter().any(|text| text.contains("It is fine.")),
        "{all:?}"
    );
    assert_eq!(found.messages(), all);
    let (conversation, _) = found.conversation(&pack);
    assert_eq!(conversation.guidance().count(), 0, "all of it was sent");
}

/// With `OnFailure::Stop`, a full disk ends the turn.
#[test]
fn a_disk_that_fails_ends_a_turn_that_must_be_written() {
    let folder = Folder::new();
    let pack = Pack::from_toml(RULES).unwrap();
    // Every record is too large, which fails like a full disk.
    let options = StoreOptions {
        record_bytes: 10,
        ..StoreOptions::default()
    };
    let (store, _) = Store::open_with(folder.file(), options).unwrap();
    let mut recorder = SessionRecorder::new(store, OnFailure::Stop);
    let messages = vec![Message::user("Hi.")];
    let outcome = take(Conversation::new(&pack), &mut recorder, messages);
    let End::Aborted { reason, .. } = outcome.end else {
        panic!("{outcome:?}")
    };
    assert_eq!(reason, AbortReason::User);
    let error = recorder.error().expect("it says why");
    assert_eq!(error.kind(), StoreErrorKind::TooLarge);
}
