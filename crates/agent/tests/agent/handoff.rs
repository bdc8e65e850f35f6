//! Handoffs to a new session: rows B1 to B7 of `docs/harness.md`.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ttsr::harness::{
    AgentTurn, Cancel, Content, HANDOFF_MARKER, Hooks, Message, NoTools, Processor, Request, Role,
    Scripted, ScriptedReply, Settings, ToolCall, Tools,
};
use ttsr::{Action, Channel, Pack, PartId, Pattern, Rule, Verdict};
use ttsr_agent::handoff::{
    DraftStep, FileSource, Handoff, HandoffTools, HandoffTracker, IncomingMessage, MAX_SESSIONS,
    ProjectFiles, ReadSession, Speaker, StoredSessions, TEMPLATE, TranscriptMessage,
    TranscriptPart, command, definitions, file_references, is_binary, read_part, summary_prompt,
};
use ttsr_agent::store::{OnFailure, SessionRecorder, Store};

use ttsr_testing::Folder;

const FIRST_LINE: &str = "Continuing work from session ses_1. \
    When you lack specific information you can use read_session to get it.";

/// Files in memory.
#[derive(Default)]
struct Memory(HashMap<PathBuf, Vec<u8>>);

impl Memory {
    fn with(mut self, name: &str, bytes: impl Into<Vec<u8>>) -> Memory {
        self.0
            .insert(Path::new("/project").join(name), bytes.into());
        self
    }
}

impl FileSource for Memory {
    fn resolve(&self, reference: &str) -> Option<PathBuf> {
        let path = Path::new("/project").join(reference);
        self.0.contains_key(&path).then_some(path)
    }

    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
        let bytes = &self.0[path];
        if bytes == b"unreadable" {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        Ok(bytes[..bytes.len().min(at_most as usize)].to_vec())
    }
}

fn written(text: &str, synthetic: bool) -> Content {
    let text = text.to_owned();
    Content::Text { text, synthetic }
}

fn arrived<'a>(session: &'a str, content: &'a [Content]) -> IncomingMessage<'a> {
    IncomingMessage {
        session,
        model: "a/model",
        agent: "build",
        content,
    }
}

#[test]
fn prompt_names_the_session_the_files_and_then_the_text() {
    let bare = Handoff::new("ses_1", "Go on.");
    assert_eq!(bare.prompt(), format!("{FIRST_LINE}\n\nGo on."));
    let full = bare.files(["src/foo.ts", "@src/bar.ts", "src/foo.ts"]);
    let files = "@src/foo.ts @src/bar.ts";
    assert_eq!(full.prompt(), format!("{FIRST_LINE}\n\n{files}\n\nGo on."));
    let input = r#"{"prompt": "Go on.", "files": ["src/foo.ts", "src/bar.ts"]}"#;
    assert_eq!(Handoff::from_tool_input("ses_1", input).unwrap(), full);
    let no_files = Handoff::from_tool_input("ses_1", r#"{"prompt": "Go on."}"#);
    assert_eq!(no_files.unwrap(), Handoff::new("ses_1", "Go on."));
    assert!(Handoff::from_tool_input("ses_1", r#"{"files": []}"#).is_err());
}

#[test]
fn draft_is_shown_150_ms_after_the_session_is_opened() {
    let handoff = Handoff::new("ses_1", "Go on.");
    let toast = "Handoff Ready — Review and edit the draft, then send";
    let expected = [
        DraftStep::OpenSession,
        DraftStep::Wait(Duration::from_millis(150)),
        DraftStep::Append(handoff.prompt()),
        DraftStep::Toast {
            text: toast,
            lasts: Duration::from_secs(4),
        },
    ];
    assert_eq!(DraftStep::steps(&handoff), expected);
}

#[test]
fn message_of_a_rule_becomes_the_prompt() {
    let mut rule = Rule::new("demo/full", vec![Pattern::literal("context is full")]);
    rule.action = Action::Handoff;
    rule.message = Some("Finish what is open.".into());
    let pack = Pack::builder().rule(rule).build().unwrap();
    let mut session = pack.session();
    session.begin_turn();
    let mut stream = session.stream();
    stream.open(PartId(0), Channel::Text);
    let Verdict::Act(decision) = session.push(&mut stream, PartId(0), b"The context is full.")
    else {
        panic!("the rule is broken");
    };
    assert_eq!(decision.action, Action::Handoff);
    let prompt = Handoff::new("ses_1", stream.message(&decision)).prompt();
    assert!(prompt.starts_with(FIRST_LINE));
    assert!(prompt.ends_with("Finish what is open."));
}

#[test]
fn references_are_read_as_the_original_reads_them() {
    let cases: [(&str, &[&str]); 18] = [
        ("@src/a.rs", &["src/a.rs"]),
        ("see @src/a.rs.", &["src/a.rs"]),
        ("see @src/a.rs, @b.rs", &["src/a.rs", "b.rs"]),
        ("mail me@example.com", &[]),
        ("a_@b.rs", &[]),
        ("`@b.rs`", &[]),
        ("(@b.rs`c`", &["b.rs"]),
        ("é@b.rs", &["b.rs"]),
        ("@.env", &[".env"]),
        ("@../up.rs", &["../up.rs"]),
        ("@./a.b.c...", &["./a.b.c"]),
        ("@a..b", &["a"]),
        ("@", &[]),
        ("@a@b", &["a@b"]),
        ("@@a", &["@a"]),
        ("@a @a @b", &["a", "b"]),
        ("@a\u{a0}b @c\u{feff}d @e\u{85}f", &["a", "c", "e\u{85}f"]),
        ("@日本.rs", &["日本.rs"]),
    ];
    for (text, expected) in cases {
        assert_eq!(file_references(text), expected, "{text:?}");
    }
}

#[test]
fn file_becomes_a_header_and_numbered_lines() {
    let files = Memory::default().with("a \"b\".rs", "first\nsecond");
    let [header, content] = read_part(&files, "a \"b\".rs").unwrap();
    let input = r#"{"filePath": "/project/a \"b\".rs"}"#;
    let expected = format!("Called the Read tool with the following input: {input}");
    assert_eq!(header, expected);
    let expected = "<file>\n00001| first\n00002| second\n(End of file - 2 lines)\n</file>";
    assert_eq!(content, expected);
}

#[test]
fn lines_are_cut_at_2000_characters_and_2000_lines() {
    let long = "ä".repeat(2001);
    let files = Memory::default()
        .with("long", long.clone())
        .with("exact", vec!["x"; 2000].join("\n"))
        .with("many", vec!["x"; 2001].join("\n"));
    let [_, content] = read_part(&files, "long").unwrap();
    let cut = &long[..4000];
    let expected = format!("<file>\n00001| {cut}\n(End of file - 1 lines)\n</file>");
    assert_eq!(content, expected);
    let [_, content] = read_part(&files, "exact").unwrap();
    assert!(content.ends_with("\n02000| x\n(End of file - 2000 lines)\n</file>"));
    let [_, content] = read_part(&files, "many").unwrap();
    let more = "(File has more lines. Use 'offset' parameter to read beyond line 2000)";
    assert!(content.ends_with(&format!("\n02000| x\n{more}\n</file>")));
}

#[test]
fn binary_files_are_told_by_name_by_nul_and_by_share() {
    let text = Path::new("a.txt");
    for name in ["a.zip", "a.EXE", "a.dll", "a.class", "a.jar", "a.pyc"] {
        assert!(is_binary(Path::new(name), b"text"), "{name}");
    }
    assert!(!is_binary(text, b""));
    assert!(!is_binary(text, b"\t\n\x0b\x0c\r \x7f\x80\xff"));
    assert!(is_binary(text, b"a long text and one \0 in it"));
    assert!(!is_binary(text, b"\x01\x02\x03aaaaaaa"));
    assert!(is_binary(text, b"\x01\x02\x03\x08aaaaaaa"));
    let mut late = vec![b'a'; 4096];
    late.extend([1; 4096]);
    assert!(!is_binary(text, &late));
    let files = Memory::default()
        .with("a.zip", "text")
        .with("nul", "a\0")
        .with("secret", "unreadable");
    for reference in ["a.zip", "nul", "secret", "absent"] {
        assert_eq!(read_part(&files, reference), None, "{reference}");
    }
}

#[test]
fn paths_stay_in_the_project() {
    let scratch = Folder::new();
    let folder = &scratch.0;
    let root = folder.join("project");
    fs::create_dir_all(root.join("src")).unwrap();
    fs::write(folder.join("outside.rs"), "outside").unwrap();
    fs::write(root.join("src/in.rs"), "inside").unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(folder.join("outside.rs"), root.join("link.rs")).unwrap();
    let files = ProjectFiles::new(&root).unwrap();
    let inside = root.canonicalize().unwrap().join("src/in.rs");
    let inside = inside.to_str().unwrap();
    for reference in ["src/in.rs", "./src/in.rs", "src/../src/in.rs", inside] {
        let [header, content] = read_part(&files, reference).unwrap();
        assert!(header.contains(inside), "{reference}");
        assert!(content.contains("00001| inside"), "{reference}");
    }
    let outside = folder.join("outside.rs");
    let outside = outside.to_str().unwrap();
    for reference in [
        "../outside.rs",
        outside,
        "link.rs",
        "src",
        "",
        ".",
        "absent",
    ] {
        assert_eq!(read_part(&files, reference), None, "{reference}");
    }
}

/// Returns the texts of a request, each with its role and true if it is synthetic.
fn said_in(request: &Request) -> Vec<(Role, bool, String)> {
    let mut said = Vec::new();
    for message in &request.messages {
        for content in &message.content {
            if let Content::Text { text, synthetic } = content {
                said.push((message.role, *synthetic, text.clone()));
            }
        }
    }
    said
}

/// Two prompts of one session through the loop, as a host runs them. The files are in the first request, and cause no
/// request of their own.
#[test]
fn files_are_injected_once_per_session_without_a_reply() {
    let files = Memory::default().with("a.rs", "fn a() {}");
    let mut handoffs = HandoffTracker::default();
    let pack = Pack::builder().build().unwrap();
    let says = ScriptedReply::default().text("I see.").finish("stop");
    let mut provider = Scripted::new([says]);
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let mut conversation: Vec<Message> = Vec::new();
    let mut requests = 0;
    for (session, prompt, injected) in [
        (
            "ses_1",
            format!("{HANDOFF_MARKER} ses_0.\n\n@a.rs @a.rs"),
            1,
        ),
        (
            "ses_1",
            format!("{HANDOFF_MARKER} ses_0.\n\n@a.rs again"),
            1,
        ),
    ] {
        let prompt = Message::user(prompt);
        let injection = handoffs.on_message(&arrived(session, &prompt.content), &files);
        if let Some(injection) = injection {
            assert_eq!((&*injection.model, &*injection.agent), ("a/model", "build"));
            conversation.push(injection.message());
        }
        conversation.push(prompt.clone());
        let tools = NoTools;
        let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
        let request = Request::new("a/model", conversation.clone());
        let outcome = runtime().block_on(turn.run(request, "m", &mut |_| {}));
        conversation.extend(outcome.added);
        requests += 1;
        assert_eq!(provider.requests().len(), requests, "one for each prompt");
        let sent = provider.requests().pop().unwrap();
        assert_eq!(sent.model, "a/model");
        let said = said_in(&sent);
        let synthetic: Vec<&str> = said
            .iter()
            .filter(|(role, synthetic, _)| *synthetic && *role == Role::User)
            .map(|(_, _, text)| text.as_str())
            .collect();
        assert_eq!(synthetic.len(), 2 * injected);
        assert_eq!(
            synthetic[0],
            r#"Called the Read tool with the following input: {"filePath": "/project/a.rs"}"#
        );
        assert!(synthetic[1].starts_with("<file>\n00001| fn a() {}"));
        let (role, synthetic, last) = said.last().unwrap();
        assert_eq!(
            (*role, *synthetic, last.clone()),
            (Role::User, false, prompt.text())
        );
    }
    // Each session is tracked by itself; a deleted one counts as new.
    let content = [written(&format!("{HANDOFF_MARKER} ses_0. @a.rs"), false)];
    let is_injected = |session: &str, handoffs: &mut HandoffTracker| {
        let arrived = arrived(session, &content);
        handoffs.on_message(&arrived, &files).is_some()
    };
    assert!(is_injected("ses_2", &mut handoffs));
    handoffs.deleted("ses_1");
    assert!(is_injected("ses_1", &mut handoffs));
    assert!(!is_injected("ses_2", &mut handoffs));
}

/// The conversation itself shows that an earlier process injected the files.
#[test]
fn a_session_that_is_taken_up_again_has_its_files_already() {
    let files = Memory::default().with("a.rs", "fn a() {}");
    let content = [written(&format!("{HANDOFF_MARKER} ses_0. @a.rs"), false)];
    let continued = Message::user(format!("{HANDOFF_MARKER} ses_0. @a.rs"));
    let repeated = Message::new(Role::Assistant, format!("{HANDOFF_MARKER} ses_0."));
    let made_up = Message::steering(format!("{HANDOFF_MARKER} ses_0."));
    for (earlier, is_new) in [
        (vec![], true),
        (vec![Message::user("Hi."), repeated, made_up], true),
        (vec![continued, Message::user("And?")], false),
    ] {
        let mut handoffs = HandoffTracker::default();
        handoffs.resume_session("ses_1", &earlier);
        let injection = handoffs.on_message(&arrived("ses_1", &content), &files);
        assert_eq!(injection.is_some(), is_new, "{earlier:?}");
    }
}

/// The tool as a model calls it, on a session that a loop recorded.
#[test]
fn a_model_reads_an_earlier_session_with_titles_and_attachments() {
    let folder = Folder::new();
    let pack = Pack::builder().build().unwrap();
    let (store, _) = Store::open(folder.0.join("ses_1.ttsr")).unwrap();
    let mut recorder = SessionRecorder::new(store, OnFailure::Stop);
    let files = Memory::default().with("src/a.rs", "fn a() {}");
    let prompt = Message::user(format!("{HANDOFF_MARKER} ses_0.\n\n@src/a.rs\n\nMend it."));
    let injection =
        HandoffTracker::default().on_message(&arrived("ses_1", &prompt.content), &files);
    let attached = injection.unwrap().message();
    let reply = Message {
        role: Role::Assistant,
        content: vec![
            Content::Reasoning {
                text: "hidden".into(),
            },
            written("I look.", false),
            called(
                "bash",
                r#"{"command": "cargo test\nls", "description": "Runs the tests"}"#,
            ),
            called("bash", r#"{"command": "cargo fmt\nls"}"#),
            called("edit", r#"{"path": "src/a.rs", "old_string": "a"}"#),
            called("other", "no JSON"),
        ],
    };
    let result = Message {
        role: Role::Tool,
        content: vec![Content::ToolResult {
            call: "c".into(),
            output: "hidden".into(),
            is_error: false,
        }],
    };
    let steering = Message::steering("hidden");
    for message in [attached, prompt, reply, result, steering] {
        recorder
            .message(&message, &ttsr::Conversation::new(&pack))
            .unwrap();
    }
    let shown = read_session(&folder, r#"{"sessionID": "ses_1"}"#);
    let expected = format!(
        "## User\n[Attached: a.rs]\n\n\
         ## User\n{HANDOFF_MARKER} ses_0.\n\n@src/a.rs\n\nMend it.\n\n\
         ## Assistant\nI look.\n[Tool: bash] Runs the tests\n[Tool: bash] cargo fmt\n\
         [Tool: edit] src/a.rs\n[Tool: other]\n\n(End of session - 3 messages)"
    );
    assert_eq!(shown, (expected, false), "also while the session is in use");
    for id in [
        "ses_2",
        "",
        ".",
        "..",
        "../ses_1",
        "/etc/passwd",
        "a/b",
        "a\0b",
    ] {
        let input = serde_json::json!({ "sessionID": id }).to_string();
        let expected = format!("Could not read session {id}: there is no such session");
        assert_eq!(read_session(&folder, &input), (expected, true));
    }
}

/// Returns the result of a call of `read_session`, and true if it failed.
fn read_session(folder: &Folder, input: &str) -> (String, bool) {
    let pack = Pack::builder().build().unwrap();
    let calls = ScriptedReply::default()
        .tool("read_session", "c1", input)
        .finish("tool_use");
    let says = ScriptedReply::default().text("I see.").finish("stop");
    let mut provider = Scripted::new([calls, says]);
    let mut processor = Processor::new(&pack, Hooks::default(), Settings::default());
    let (others, sessions) = (NoTools, StoredSessions::new(&folder.0));
    let mut tools = HandoffTools::new("", &others, &sessions);
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let request = Request::new("a/model", vec![Message::user("Read it.")]);
    let outcome = runtime().block_on(turn.run(request, "m", &mut |_| {}));
    assert!(tools.take_handoff().is_none());
    let mut contents = outcome
        .added
        .into_iter()
        .flat_map(|message| message.content);
    let result = contents.find_map(|content| match content {
        Content::ToolResult {
            output, is_error, ..
        } => Some((output, is_error)),
        _ => None,
    });
    result.expect("every call has a result")
}

fn called(tool: &str, input: &str) -> Content {
    Content::ToolCall {
        call: "c".to_owned(),
        tool: tool.to_owned(),
        input: input.to_owned(),
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap()
}

#[test]
fn a_wrong_input_is_told_to_the_model() {
    let folder = Folder::outside();
    let (told, is_error) = read_session(&folder, "[7]");
    assert!(
        is_error && told.starts_with("the input of the tool is wrong"),
        "{told}"
    );
}

#[test]
fn the_oldest_of_too_many_sessions_gets_its_files_again() {
    let files = Memory::default().with("a.rs", "fn a() {}");
    let content = [written(
        &format!("{HANDOFF_MARKER} ses_0. @a.rs @none.rs"),
        false,
    )];
    let mut handoffs = HandoffTracker::default();
    let mut is_new = |session: &str| {
        handoffs
            .on_message(&arrived(session, &content), &files)
            .is_some()
    };
    for number in 0..=MAX_SESSIONS {
        assert!(is_new(&format!("ses_{number}")), "{number}");
    }
    assert!(!is_new("ses_1"));
    assert!(is_new("ses_0"), "it was forgotten");
}

#[test]
fn numbers_are_numbers() {
    let [hand_over, read] = definitions();
    let limit = &read.input["properties"]["limit"];
    assert_eq!(limit["type"], "number");
    assert_eq!(
        (&limit["default"], &limit["maximum"]),
        (&100.into(), &500.into())
    );
    assert_eq!(read.input["required"], serde_json::json!(["sessionID"]));
    assert_eq!(
        hand_over.input["properties"]["files"]["items"]["type"],
        "string"
    );
    for (limit, expected) in [
        ("7", Some(7)),
        ("7.0", Some(7)),
        ("7.9", Some(7)),
        ("-3", Some(1)),
        ("1e300", Some(500)),
        ("null", Some(100)),
        (r#""7""#, None),
        ("[7]", None),
        ("true", None),
    ] {
        let input = format!(r#"{{"sessionID": "ses_1", "limit": {limit}}}"#);
        let read = ReadSession::from_tool_input(&input).ok();
        assert_eq!(read.map(|read| read.limit()), expected, "{limit}");
    }
}

/// A sub-agent works for a session and must not open one.
#[test]
fn a_sub_agent_does_not_hand_over() {
    let (others, sessions) = (NoTools, StoredSessions::new("."));
    let mut tools = HandoffTools::new("ses_1", &others, &sessions);
    let mut call = |session: &str, input: &str| {
        let call = ToolCall {
            session: session.to_owned(),
            call: "c1".to_owned(),
            tool: "handoff_session".to_owned(),
            input: input.to_owned(),
        };
        let after = runtime().block_on(tools.call(&call));
        (after.is_error, tools.take_handoff().is_some())
    };
    assert_eq!(call("ses_1", r#"{"prompt": "Go on."}"#), (false, true));
    assert_eq!(call("ses_1-1", r#"{"prompt": "Go on."}"#), (true, false));
    assert_eq!(call("ses_1", r#"{"files": []}"#), (true, false));
}

#[test]
fn debugging_output_shows_the_session_and_the_pending_handoff() {
    let (others, sessions) = (NoTools, StoredSessions::new("."));
    let mut tools = HandoffTools::new("ses_1", &others, &sessions);
    assert!(format!("{tools:?}").contains(r#"session: "ses_1""#));
    let call = ToolCall {
        session: "ses_1".to_owned(),
        call: "c1".to_owned(),
        tool: "handoff_session".to_owned(),
        input: r#"{"prompt": "Go on."}"#.to_owned(),
    };
    runtime().block_on(tools.call(&call));
    assert!(format!("{tools:?}").contains("Go on."), "{tools:?}");
    tools.take_handoff().unwrap();
    assert!(!format!("{tools:?}").contains("Go on."), "{tools:?}");
}

#[test]
fn only_what_a_person_wrote_counts() {
    let files = Memory::default().with("a.rs", "a").with("b.rs", "b");
    let mut handoffs = HandoffTracker::default();
    let plain = [written("look at @a.rs", false)];
    assert_eq!(handoffs.on_message(&arrived("ses_1", &plain), &files), None);
    let made = [
        written(&format!("{HANDOFF_MARKER} ses_0. @a.rs"), true),
        written("@a.rs", false),
    ];
    assert_eq!(handoffs.on_message(&arrived("ses_1", &made), &files), None);
    let mixed = [
        written(&format!("{HANDOFF_MARKER} ses_0. @a.rs"), false),
        written("@b.rs", true),
    ];
    let injection = handoffs.on_message(&arrived("ses_1", &mixed), &files);
    assert_eq!(injection.unwrap().parts.len(), 2);
}

#[test]
fn transcript_shows_who_said_what() {
    let said = vec![
        TranscriptMessage {
            by: Speaker::User,
            parts: vec![
                TranscriptPart::Text("Look at this.".into()),
                TranscriptPart::Attached("shot.png".into()),
            ],
        },
        TranscriptMessage {
            by: Speaker::Assistant,
            parts: vec![
                TranscriptPart::Text("I will.".into()),
                TranscriptPart::Tool {
                    name: "read".into(),
                    title: "shot.png".into(),
                },
            ],
        },
    ];
    let read = ReadSession::from_tool_input(r#"{"sessionID": "ses_1"}"#).unwrap();
    let mut asked = None;
    let shown = read.transcript(|session, at_most| {
        asked = Some((session.to_owned(), at_most));
        Ok::<_, String>(said)
    });
    let expected = "## User\nLook at this.\n[Attached: shot.png]\n\n\
        ## Assistant\nI will.\n[Tool: read] shot.png\n\n(End of session - 2 messages)";
    assert_eq!(shown, expected);
    assert_eq!(asked, Some(("ses_1".to_owned(), 101)));
}

#[test]
fn a_transcript_names_the_media_type_of_an_image() {
    let asked = Message::user("Look at this.").with_image("image/png", "iVBORw0KGgo=");
    let said = TranscriptMessage::from_message(&asked).unwrap();
    let attached = TranscriptPart::Attached("image/png".into());
    assert_eq!(
        said.parts,
        [TranscriptPart::Text("Look at this.".into()), attached]
    );
}

#[test]
fn transcript_is_bounded_and_says_so() {
    let limits = [(None, 100), (Some(0), 1), (Some(7), 7), (Some(501), 500)];
    for (limit, expected) in limits {
        assert_eq!(ReadSession::new("ses_1", limit).limit(), expected);
    }
    let said =
        ["one", "two", "three"].map(|text| TranscriptMessage::from_message(&Message::user(text)));
    let said: Vec<TranscriptMessage> = said.into_iter().flatten().collect();
    let read = ReadSession::new("ses_1", Some(2));
    let shown = read.transcript(|_, at_most| Ok::<_, String>(said[..at_most].to_vec()));
    let footer = "(Showing 2 most recent messages. Use a higher 'limit' to see more.)";
    assert_eq!(shown, format!("## User\ntwo\n\n## User\nthree\n\n{footer}"));
    let failed = read.transcript(|_, _| Err("no such session"));
    assert_eq!(failed, "Could not read session ses_1: no such session");
    assert_eq!(
        TranscriptMessage::from_message(&Message::steering("made up")),
        None
    );
}

#[test]
fn template_takes_the_goal_and_asks_for_files() {
    assert_eq!(
        command("/handoff  fix the parser \n"),
        Some("fix the parser")
    );
    assert_eq!(command("/handoff"), Some(""));
    assert_eq!(command("/handoffs x"), None);
    assert_eq!(command("please /handoff"), None);
    let prompt = summary_prompt("fix $ARGUMENTS & all");
    assert!(prompt.contains("USER: fix $ARGUMENTS & all\n"));
    assert!(summary_prompt("").contains("USER: \n"));
    let order = [
        "GOAL: You are creating a handoff message to continue work in a new session.",
        "<context>",
        "</context>",
        "<instructions>",
        "1. Identify all relevant files",
        "8 to 15",
        "20",
        "2. Draft the context and goal description",
        "natural continuation",
        "</instructions>",
        "<user_input>",
        "USER: $ARGUMENTS",
        "</user_input>",
        "---",
        "After generating the handoff message, IMMEDIATELY call handoff_session with your prompt and files.",
    ];
    let mut rest = TEMPLATE;
    for piece in order {
        let (_, after) = rest.split_once(piece).unwrap_or_else(|| panic!("{piece}"));
        rest = after;
    }
}
