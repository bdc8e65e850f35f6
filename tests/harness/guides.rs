//! The packs of `rules/opencode`, each at its hook point. `docs/harness.md` lists these tests by the behaviour that they
//! cover.

use std::time::Duration;

use ttsr::harness::event::LoopEvent;
use ttsr::harness::fallback::{Chains, ForegroundFallback, MAX_SESSIONS, SessionEvent};
use ttsr::harness::{
    Content, Hooks, Input, Message, Processor, Request, Settings, Step, ToolOutput,
};
use ttsr::{Origin, Pack};

use ttsr_testing::{Random, scale};

use super::boundary::call;

const MARKER: &str = "<!-- SLIM_INTERNAL_INITIATOR -->";

fn processor(pack: &str, origin: Origin, package: Option<&str>) -> Processor {
    let settings = Settings {
        package: package.map(str::to_owned),
        ..Settings::default()
    };
    let pack = Pack::builtin(pack).unwrap();
    let mut processor = Processor::new(&pack, Hooks::default(), settings);
    processor.set_origin(origin);
    processor
}

fn agent(name: &str) -> Origin {
    Origin {
        agent: Some(name.into()),
        ..Origin::default()
    }
}

fn provider(name: &str) -> Origin {
    Origin {
        provider: Some(name.into()),
        ..Origin::default()
    }
}

/// Returns the request of the next turn as it is sent, and the number of decisions about it.
fn sent(processor: &mut Processor, messages: Vec<Message>) -> (Request, usize) {
    let mut out = Vec::new();
    processor.begin("msg", &mut out);
    let request = again(processor, messages, &mut out);
    let is_decision = |step: &&Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
    (request, out.iter().filter(is_decision).count())
}

fn again(processor: &mut Processor, messages: Vec<Message>, out: &mut Vec<Step>) -> Request {
    let prepared = processor
        .prepare(&Request::new("m", messages), out)
        .unwrap();
    processor.step(Duration::ZERO, Input::Sent, out);
    prepared.request
}

fn told(processor: &mut Processor, tool: &str, output: &str) -> String {
    let told = processor.after_tool(
        &call(tool, "{}"),
        ToolOutput::output(output),
        &mut Vec::new(),
    );
    told.unwrap().output
}

#[test]
fn the_reminder_stands_before_the_last_message_of_the_user() {
    let mut processor = processor("opencode/phase-reminder", agent("orchestrator"), None);
    let messages = vec![Message::user("First."), Message::user("fix the login")];
    let (request, _) = sent(&mut processor, messages.clone());
    let texts: Vec<String> = request.messages.iter().map(Message::text).collect();
    assert_eq!(texts[0], "First.");
    assert!(texts[1].starts_with("Reminder of the workflow"));
    assert!(texts[1].ends_with("\n\nfix the login"));
    // The next turn has the reminder again.
    let (request, _) = sent(&mut processor, messages);
    assert!(request.messages[1].text().starts_with("Reminder"));
}

#[test]
fn only_the_orchestrator_is_reminded() {
    for origin in [agent("explorer"), Origin::default()] {
        let mut processor = processor("opencode/phase-reminder", origin, None);
        let (request, _) = sent(&mut processor, vec![Message::user("fix the login")]);
        assert_eq!(request.messages[0].text(), "fix the login");
    }
}

#[test]
fn messages_of_the_system_are_left_alone() {
    let mut processor = processor("opencode/phase-reminder", agent("orchestrator"), None);
    let text = format!("The task is done.\n{MARKER}");
    let (request, _) = sent(&mut processor, vec![Message::user(&text)]);
    assert_eq!(request.messages[0].text(), text);
}

#[test]
fn the_nudge_stands_behind_what_read_gave_back() {
    let mut processor = processor("opencode/post-read-nudge", Origin::default(), None);
    for tool in ["Read", "read"] {
        let told = told(&mut processor, tool, "00001| fn main() {}");
        let rest = told.strip_prefix("00001| fn main() {}\n\n").unwrap();
        assert!(rest.starts_with("Before the next step"), "{tool}: {told}");
    }
    for tool in ["bash", "glob", "read_session"] {
        assert_eq!(told(&mut processor, tool, "a file"), "a file");
    }
}

const COPILOT: &str = "github-copilot";

fn initiator(request: &Request) -> Option<&str> {
    let mut headers = request.headers.iter();
    let found = headers.find(|(name, _)| name == "x-initiator");
    found.map(|(_, value)| value.as_str())
}

#[test]
fn a_request_of_the_system_says_so() {
    let marked = || vec![Message::user(format!("Go on.\n{MARKER}"))];
    let pack = "opencode/chat-headers";
    let cases = [
        (
            COPILOT,
            Some("@ai-sdk/openai-compatible"),
            marked(),
            Some("agent"),
        ),
        (COPILOT, None, marked(), Some("agent")),
        // This package sets the header itself.
        (COPILOT, Some("@ai-sdk/github-copilot"), marked(), None),
        ("anthropic", None, marked(), None),
        (COPILOT, None, vec![Message::user("Go on.")], None),
    ];
    for (name, package, messages, expected) in cases {
        let mut processor = processor(pack, provider(name), package);
        let (request, _) = sent(&mut processor, messages);
        assert_eq!(initiator(&request), expected, "{name} {package:?}");
    }
}

#[test]
fn a_message_is_checked_once_a_turn_and_the_memory_of_it_is_bounded() {
    let mut processor = processor("opencode/chat-headers", provider(COPILOT), None);
    let message = |number: u32| vec![Message::user(format!("{number} {MARKER}"))];
    let (_, decisions) = sent(&mut processor, message(0));
    assert_eq!(decisions, 1);
    let mut out = Vec::new();
    for number in 0..1001 {
        processor.proceed("msg", &mut out);
        out.clear();
        let request = again(&mut processor, message(number), &mut out);
        assert_eq!(initiator(&request), Some("agent"));
        let is_decision = |step: &Step| matches!(step, Step::Observe(LoopEvent::Decision(_)));
        assert_eq!(out.iter().any(is_decision), number > 0, "message {number}");
    }
    // After a thousand other messages the first one is forgotten, and checked again.
    processor.proceed("msg", &mut out);
    out.clear();
    again(&mut processor, message(0), &mut out);
    assert!(matches!(out[0], Step::Observe(LoopEvent::Decision(_))));
}

#[test]
fn eight_kinds_of_refused_delegation_get_their_hint() {
    let kinds = [
        (
            "Error: missing required parameter run_in_background",
            "`run_in_background`",
        ),
        ("load_skills is required", "load_skills"),
        ("Provide category or subagent_type, not both", "category"),
        ("Must provide either category or subagent_type", "category"),
        (
            "Unknown category: fast. Available: quick, deep",
            "categories",
        ),
        (
            "Unknown agent: foo. Available agents: explore, oracle",
            "agents",
        ),
        ("Skills not found: a. Available: c", "skills"),
        (
            "Agent \"oracle\" is not allowed. Allowed agents: explorer, fixer",
            "explorer, fixer",
        ),
    ];
    let mut processor = processor("opencode/delegate-task-retry", Origin::default(), None);
    assert_eq!(processor.pack().rules().len(), kinds.len());
    for (output, hint) in kinds {
        let told = told(&mut processor, "task", output);
        let rest = told
            .strip_prefix(output)
            .unwrap_or_else(|| panic!("{told}"));
        assert!(rest.starts_with("\n\nThe task was not started"), "{told}");
        assert!(
            rest.contains(hint) && rest.ends_with("Then send the call again."),
            "{told}"
        );
    }
    let primary = "Cannot call primary agent \"build\" via task";
    assert!(told(&mut processor, "background_task", primary).len() > primary.len());
    assert_eq!(
        told(&mut processor, "task", "started: bg_1"),
        "started: bg_1"
    );
    assert_eq!(told(&mut processor, "bash", kinds[0].0), kinds[0].0);
}

#[test]
fn a_report_that_mentions_the_words_gets_no_hint() {
    let mut processor = processor("opencode/delegate-task-retry", Origin::default(), None);
    for report in [
        "Done. The router now answers with \"Unknown category: x. Available: a, b\".",
        "I made run_in_background a required parameter, and load_skills is required, too.",
        "Summary:\n- `Unknown agent: foo` comes from src/a.ts\n- Must provide either category or subagent_type: same place",
        "All tests pass.\n\nThe message `Skills not found: a` was reworded.",
    ] {
        assert_eq!(told(&mut processor, "task", report), report);
    }
}

#[test]
fn the_hint_names_every_option_however_long_the_line() {
    let mut processor = processor("opencode/delegate-task-retry", Origin::default(), None);
    let agents: Vec<String> = (1..=19)
        .map(|number| format!("agent-{number:04}"))
        .collect();
    let (long, agents) = ("x".repeat(200), agents.join(", "));
    assert_eq!(agents.len(), 19 * 12 - 2);
    for output in [
        format!("[ERROR] Unknown agent: \"{long}\". Available agents: {agents}"),
        format!("Unknown category: {long}\nAvailable categories: {agents}"),
        format!("Agent \"{long}\" is not allowed. Allowed agents:\n{agents}"),
        format!(
            "[ERROR] Invalid arguments: Skills not found: {long}\n\nAvailable skills:\n{agents}"
        ),
    ] {
        let told = told(&mut processor, "background_task", &output);
        let hint = &told[output.len()..];
        assert!(hint.contains(&format!("Available: {agents}")), "{told}");
    }
    let list = "Unknown category: x\nAvailable categories:\n- quick\n- deep\n\nMore.";
    let told_list = told(&mut processor, "task", list);
    assert!(
        told_list.contains("Available: - quick - deep\n"),
        "{told_list}"
    );
    for (output, options) in [
        (
            "Unknown agent: x\nAvailable agents:\n  explore\n  oracle\n  fixer\n\nMore.",
            "Available: explore oracle fixer\n",
        ),
        (
            "Unknown agent: x. Available agents: explore,\noracle, fixer,\nlibrarian\nNothing ran.",
            "Available: explore, oracle, fixer, librarian\n",
        ),
        (
            "Unknown agent: x. Available agents: explore\n, oracle\n, fixer\nNothing ran.",
            "Available: explore , oracle , fixer\n",
        ),
        (
            "Agent \"x\" is not allowed. Allowed agents:\n\n* explore\n  reads code\n* oracle\nNothing ran.",
            "Available: * explore reads code * oracle\n",
        ),
        (
            "[ERROR] Skills not found: x\nAvailable skills:\ngit-master\nplaywright\nNothing ran.",
            "Available: git-master playwright\n",
        ),
        (
            "Unknown category: x\nAvailable categories:\n1. quick\n2. deep\nNothing ran.",
            "Available: 1. quick 2. deep\n",
        ),
    ] {
        let told = told(&mut processor, "task", output);
        assert!(told[output.len()..].contains(options), "{told}");
    }
    let lines: String = (0..2_000)
        .map(|number| format!("\n- agent-{number}"))
        .collect();
    let long = format!("Unknown agent: x. Available agents:{lines}");
    let quoted = told(&mut processor, "task", &long)[long.len()..].len();
    assert!((4_096..5_000).contains(&quoted), "{quoted}");
    // The bound is 4 KiB.
    let many = format!("Unknown agent: x. Available: {}", "a, ".repeat(3_000));
    let told = told(&mut processor, "task", &many);
    let hint = told[many.len()..].len();
    assert!((4_096..5_000).contains(&hint), "{hint}");
}

#[test]
fn the_hint_names_what_is_available() {
    let mut processor = processor("opencode/delegate-task-retry", Origin::default(), None);
    for (output, options) in [
        (
            "Unknown category: \"fast\". Available: quick, deep",
            "Available: quick, deep",
        ),
        (
            "Unknown agent: foo. Available agents: explore, oracle\nNothing was started.",
            "explore, oracle",
        ),
        ("Skills not found: a, b. Available: c", "Available: c"),
    ] {
        let told = told(&mut processor, "delegate_task", output);
        assert!(told[output.len()..].contains(options), "{told}");
    }
}

fn refused(session: &str) -> SessionEvent {
    SessionEvent::Error {
        session: session.into(),
        error: "AI_APICallError: Too Many Requests".into(),
    }
}

fn foreground() -> ForegroundFallback {
    let rules = Pack::builtin("opencode/foreground-fallback").unwrap();
    let chains = Chains::default()
        .chain(
            "orchestrator",
            ["anthropic/claude-opus-4-5", "openai/gpt-4o"],
        )
        .chain("explorer", ["small/a", "small/b"]);
    ForegroundFallback::new(&rules, chains)
}

fn updated(session: &str, error: Option<&str>) -> SessionEvent {
    SessionEvent::MessageUpdated {
        session: session.into(),
        agent: Some("orchestrator".into()),
        model: Some("anthropic/claude-opus-4-5".into()),
        error: error.map(str::to_owned),
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn each_of_the_four_events_can_bring_the_next_model() {
    let status = SessionEvent::Status {
        session: "s".into(),
        message: "retrying: rate limit reached for requests".into(),
    };
    for event in [refused("s"), status, updated("s", Some("status: 529"))] {
        let mut foreground = foreground();
        assert_eq!(foreground.see(at(0), &updated("s", None)), None);
        let switch = foreground.see(at(1), &event).unwrap();
        assert_eq!((&*switch.session, &*switch.model), ("s", "openai/gpt-4o"));
    }
    let mut foreground = foreground();
    let created = SessionEvent::SubagentCreated {
        session: "child".into(),
        agent: "explorer".into(),
    };
    assert_eq!(foreground.see(at(0), &created), None);
    assert_eq!(
        foreground.see(at(1), &refused("child")).unwrap().model,
        "small/a"
    );
}

#[test]
fn triggers_within_five_seconds_count_once_and_sessions_do_not_share() {
    let mut foreground = foreground();
    foreground.see(at(0), &updated("s", None));
    foreground.see(at(0), &updated("t", None));
    assert!(foreground.see(at(10), &refused("s")).is_some());
    assert_eq!(foreground.see(at(14), &refused("s")), None);
    assert!(foreground.see(at(14), &refused("t")).is_some());
    assert_eq!(
        foreground.see(at(15), &refused("s")),
        None,
        "both models were tried"
    );
}

#[test]
fn the_state_goes_with_its_session_and_is_bounded() {
    let mut foreground = foreground();
    foreground.see(at(0), &updated("s", None));
    assert!(foreground.see(at(1), &refused("s")).is_some());
    let deleted = SessionEvent::Deleted {
        session: "s".into(),
    };
    assert_eq!(foreground.see(at(2), &deleted), None);
    assert!(foreground.is_empty());
    foreground.see(at(3), &updated("s", None));
    assert!(
        foreground.see(at(3), &refused("s")).is_some(),
        "it begins anew"
    );
    for number in 0..MAX_SESSIONS + 3 {
        foreground.see(
            at(4),
            &SessionEvent::Idle {
                session: number.to_string(),
            },
        );
    }
    assert_eq!(foreground.len(), MAX_SESSIONS);
}

#[test]
fn every_spelling_of_a_refusal_brings_the_next_model_and_a_near_miss_does_not() {
    let refusals = [
        "rate_limit_error",
        "rate_limit_exceeded",
        "RateLimitError",
        "OpenAIRateLimitError: slow down",
        "Rate limit reached for requests",
        "rate-limited by the upstream",
        "ratelimit",
        "429",
        "APIError 429",
        "http: 429",
        "statusCode: 429",
        "statusCode=429",
        "{\"statusCode\":429,\"isRetryable\":true}",
        "{\"code\": 429}",
        "(429)",
        "429: try again",
        "it failed with 429.",
        "Too Many Requests",
        "too_many_requests",
        "http: 529",
        "http: 529 <unknown status code>: busy",
        "Overloaded",
        "overloaded",
        "overloaded_error",
        "Error: Overloaded",
        "{\"message\":\"Overloaded\"}",
        "529 Overloaded",
        "The server is overloaded",
        "Overloaded.",
        "resource exhausted",
        "RESOURCE_EXHAUSTED",
        "ResourceExhausted",
        "Resource has been exhausted (e.g. check quota).",
        "insufficient quota",
        "insufficient_quota",
        "quota exceeded",
        "QuotaExceeded",
        "You exceeded your current quota",
        "usage exceeded",
        "usage limit reached",
        "Usage limit",
        "high concurrency",
        "Please reduce concurrency",
    ];
    let others = [
        "14290",
        "request 14290 failed",
        "4290",
        "1429",
        "0.429",
        "1,429 tokens",
        "429.5",
        "x429",
        "429ms",
        "took 429 ms",
        "429 tokens left",
        "at line 429",
        "msg_429_a",
        "Invalid rate",
        "a corporate limit was reached",
        "generate limits",
        "operator overloaded",
        "overloaded operator `+`",
        "method overloaded twice",
        "disk limit reached",
        "memory usage exceeded 90 %",
        "resource exhaustive",
        "insufficient permission",
        "quota: 10",
        "concurrency: 4",
        "highly concurrent",
        "Aborted",
        "",
    ];
    for (texts, expected) in [(&refusals[..], true), (&others[..], false)] {
        for text in texts {
            let error = SessionEvent::Error {
                session: "s".into(),
                error: (*text).into(),
            };
            let status = SessionEvent::Status {
                session: "s".into(),
                message: (*text).into(),
            };
            for event in [error, status, updated("s", Some(text))] {
                let mut foreground = foreground();
                foreground.see(at(0), &updated("s", None));
                let switch = foreground.see(at(1), &event);
                assert_eq!(switch.is_some(), expected, "{event:?}");
            }
        }
    }
}

#[test]
fn what_is_no_refusal_changes_nothing() {
    let mut foreground = foreground();
    let other = SessionEvent::Error {
        session: "s".into(),
        error: "context too long".into(),
    };
    assert_eq!(foreground.see(at(0), &other), None);
    assert_eq!(foreground.see(at(0), &updated("s", None)), None);
}

#[test]
fn eight_json_errors_get_a_reminder() {
    let errors = [
        "JSON Parse error: bad",
        "Invalid JSON in arguments",
        "Unexpected token } in JSON at position 4",
        "Unexpected end of JSON input",
        "Unterminated string in JSON at position 9",
        "Expected ',' or '}' after property value in JSON",
        "Expected property name or '}' in JSON",
        "Bad control character in string literal in JSON",
    ];
    let mut processor = processor("opencode/json-error-recovery", Origin::default(), None);
    assert_eq!(
        processor.pack().rules()[0].condition.any.len(),
        errors.len()
    );
    for error in errors {
        let told = told(&mut processor, "edit", error);
        assert!(told.starts_with(error), "{told}");
        assert!(
            told.contains("Do not send the same call again"),
            "{error}: {told}"
        );
    }
    for tool in ["bash", "read", "glob", "grep", "webfetch"] {
        assert_eq!(told(&mut processor, tool, errors[0]), errors[0], "{tool}");
    }
}

#[test]
fn every_tool_but_those_of_somebody_elses_text_is_reminded_once() {
    let mut processor = processor("opencode/json-error-recovery", Origin::default(), None);
    for tool in [
        "github_create_issue",
        "my_custom_tool",
        "Edit",
        "lsp_rename",
        "task",
    ] {
        for output in [
            "Failed to parse JSON: Unexpected token } in JSON at position 4",
            "JSON error: expected '}'",
            "JSON: unexpected EOF",
        ] {
            let first = told(&mut processor, tool, output);
            assert_eq!(first.matches("[JSON error]").count(), 1, "{tool}: {first}");
            assert_eq!(told(&mut processor, tool, &first), first, "no second one");
        }
    }
    for tool in ["Bash", "READ", "websearch", "gh_grep_searchGitHub"] {
        let output = "Invalid JSON";
        assert_eq!(told(&mut processor, tool, output), output, "{tool}");
    }
}

/// The patterns of the hook `json-error-recovery` of oh-my-opencode. Its flag `i` is written `(?i)`; its `.` does not match
/// a line end, like ours.
const ORIGINAL: [&str; 8] = [
    "(?i)json parse error",
    "(?i)failed to parse json",
    "(?i)invalid json",
    "(?i)malformed json",
    "(?i)unexpected end of json input",
    r"(?i)syntaxerror:\s*unexpected token.*json",
    r"(?i)json[^\n]*expected '\}'",
    r"(?i)json[^\n]*unexpected eof",
];

#[test]
fn what_the_original_reminds_of_is_reminded_of() {
    const PIECES: [&str; 30] = [
        "JSON",
        "json",
        "Json5",
        "JSONDecodeError",
        "json_",
        "_x",
        " ",
        " ",
        " ",
        "\n",
        ":",
        "parse error",
        "Failed to parse",
        "Invalid",
        "malformed",
        "Unexpected end of",
        "JSON input",
        "SyntaxError:",
        "unexpected token",
        "Unexpected EOF",
        "expected '}'",
        "unexpected",
        "EOF",
        "expected",
        "'}'",
        "SyntaxError: Unexpected token 'o'",
        "at line 9, column 12",
        "the arguments of the call, which begins with a long object of other objects, are not complete; read again",
        "x",
        "é",
    ];
    let original = ORIGINAL.map(|pattern| regex::Regex::new(pattern).unwrap());
    let mut processor = processor("opencode/json-error-recovery", Origin::default(), None);
    let mut matched = [0; 8];
    let outputs = scale(200_000);
    for seed in 0..outputs as u64 {
        let mut random = Random::new(seed ^ 7 << 40);
        let mut output = String::new();
        for _ in 0..1 + random.below(6) {
            output += random.pick(&PIECES);
            if random.one_in(2) {
                output.push(' ');
            }
        }
        let count = |pattern: usize| original[pattern].is_match(&output);
        let by: Vec<usize> = (0..8).filter(|pattern| count(*pattern)).collect();
        by.iter().for_each(|pattern| matched[*pattern] += 1);
        if !by.is_empty() {
            let told = told(&mut processor, "my_custom_tool", &output);
            assert_eq!(told.matches("[JSON error]").count(), 1, "{output:?}");
        }
    }
    if outputs >= 6_000 {
        assert!(matched.iter().all(|count| *count > 0), "{matched:?}");
    }
    for tool in [
        "bash",
        "read",
        "glob",
        "grep",
        "webfetch",
        "look_at",
        "grep_app_searchgithub",
        "websearch_web_search_exa",
    ] {
        assert_eq!(
            told(&mut processor, tool, "Invalid JSON"),
            "Invalid JSON",
            "{tool}"
        );
    }
    let reminded = "Invalid JSON\n\n[JSON PARSE ERROR - IMMEDIATE ACTION REQUIRED]\n";
    assert_eq!(told(&mut processor, "edit", reminded), reminded);
}

#[test]
fn an_empty_or_failed_read_gets_no_nudge() {
    let mut processor = processor("opencode/post-read-nudge", Origin::default(), None);
    for output in [
        "",
        "\n",
        "<file>\n\n(End of file - total 0 lines)\n</file>",
        "<path>/a</path>\n<type>file</type>\n<content>\n(End of file - total 0 lines)\n</content>",
        "File is empty",
        "Error: File not found: /a/b.rs",
        "File not found: /a/b.rs\n\nDid you mean one of these?\n/a/c.rs",
        "ENOENT: no such file or directory, open '/a'",
        "[ERROR] permission denied",
        "Cannot read binary file: /a.png",
    ] {
        assert_eq!(told(&mut processor, "read", output), output);
    }
    // A harness that says so needs no words for it.
    for output in ["/a is a directory", "00001| fn main() {}"] {
        let failed = processor.after_tool(
            &call("read", "{}"),
            ToolOutput::error(output),
            &mut Vec::new(),
        );
        assert_eq!(failed.unwrap().output, output);
    }
    let file = "00001| fn error() {}\n\n(End of file - total 1 lines)";
    assert!(told(&mut processor, "read", file).len() > file.len());
}

#[test]
fn a_marker_in_a_synthetic_message_counts() {
    let synthetic = || {
        vec![
            Message::user("Fix it."),
            Message::new(ttsr::harness::Role::Assistant, "Done."),
            Message::steering(format!("A task ended.\n{MARKER}")),
        ]
    };
    let orchestrator = Origin {
        agent: Some("orchestrator".into()),
        ..Origin::default()
    };
    let mut reminds = processor("opencode/phase-reminder", orchestrator, None);
    let (request, _) = sent(&mut reminds, synthetic());
    assert_eq!(request.messages, synthetic(), "the system has written last");
    let copilot = |provider: &str| Origin {
        provider: Some(provider.into()),
        ..Origin::default()
    };
    for (provider, marked) in [
        ("github-copilot", true),
        ("github-copilot-enterprise", true),
        ("my-copilot-proxy", false),
        ("copilot4all", false),
    ] {
        let mut headers = processor("opencode/chat-headers", copilot(provider), None);
        let (request, _) = sent(&mut headers, synthetic());
        assert_eq!(initiator(&request).is_some(), marked, "{provider}");
    }
}

/// The original looks for the marker in the first text of the message, and in every text where it sets the header.
#[test]
fn the_reminder_asks_only_the_first_text_for_the_marker() {
    let texts = |texts: &[(&str, bool)]| {
        let mut message = Message::user("");
        let content = texts.iter().map(|&(text, synthetic)| Content::Text {
            text: text.to_owned(),
            synthetic,
        });
        message.content = content.collect();
        vec![message]
    };
    let attached = format!("A file.\n{MARKER}");
    for (contents, is_reminded) in [
        ([("Fix it.", false), (&*attached, true)], true),
        ([("Fix it.", false), (&*attached, false)], true),
        ([(&*attached, false), ("Fix it.", false)], false),
        ([(&*attached, true), ("Fix it.", false)], false),
    ] {
        let mut reminds = processor("opencode/phase-reminder", agent("orchestrator"), None);
        let (request, _) = sent(&mut reminds, texts(&contents));
        let has_changed = request.messages != texts(&contents);
        assert_eq!(has_changed, is_reminded, "{contents:?}");
        let mut headers = processor("opencode/chat-headers", provider(COPILOT), None);
        let (request, _) = sent(&mut headers, texts(&contents));
        assert_eq!(initiator(&request), Some("agent"), "{contents:?}");
    }
}
