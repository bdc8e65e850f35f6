//! Every public enum of the core and of the harness has `name()` and serde, so that a host can log it and send it over
//! a boundary. The sources are read, so a new enum is seen without being listed.

use std::collections::BTreeSet;
use std::path::Path;

/// The enums that lack one of the two, with the reason.
const EXCEPTIONS: [(&str, &str, &str); 3] = [
    ("Gate", SERDE, "an answer that the host acts on at once"),
    (
        "Input",
        SERDE,
        "a call of the host, written to logs as LoopEvent",
    ),
    (
        "Step",
        SERDE,
        "an instruction to the host, written to logs as LoopEvent",
    ),
];

const NAME: &str = "name()";
const SERDE: &str = "Serialize";

/// The public enums of a source text, each with what it lacks.
fn enums(text: &str) -> Vec<(String, BTreeSet<&'static str>)> {
    // The text up to the tests: only they may have blocks of the same form.
    let text = text
        .split("\n#[cfg(test)]\nmod ")
        .next()
        .unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let of_line = |(at, line): (usize, &&str)| {
        let name: String = line
            .strip_prefix("pub enum ")?
            .chars()
            .take_while(|c| c.is_alphanumeric())
            .collect();
        // The attributes lie between the doc comment and the enum.
        let attributes = lines[..at]
            .iter()
            .rev()
            .take_while(|line| !line.is_empty() && !line.starts_with("///"));
        let derives = attributes
            .into_iter()
            .any(|line| line.contains("Serialize"));
        let has_impl = text.contains(&format!("\nimpl Serialize for {name} {{"));
        let head = format!("\nimpl {name} {{\n");
        let bodies = text.split(&head).skip(1);
        let mut bodies = bodies.filter_map(|rest| rest.split("\n}\n").next());
        let has_name = bodies.any(|body| format!("\n{body}").contains("\n    pub fn name("));
        let lacks = [(NAME, has_name), (SERDE, derives || has_impl)];
        let lacks = lacks.into_iter().filter(|(_, has)| !has);
        Some((name, lacks.map(|(what, _)| what).collect()))
    };
    lines.iter().enumerate().filter_map(of_line).collect()
}

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(std::fs::read_to_string(&path).expect("a source file"));
        }
    }
}

#[test]
fn every_public_enum_has_a_name_and_serde() {
    let mut texts = Vec::new();
    sources(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut texts,
    );
    let enums: Vec<_> = texts.iter().flat_map(|text| enums(text)).collect();
    assert!(enums.len() > 30, "{} enums are seen", enums.len());
    let lacking: BTreeSet<(String, &str)> = enums
        .into_iter()
        .flat_map(|(name, lacks)| lacks.into_iter().map(move |what| (name.clone(), what)))
        .collect();
    let excepted: BTreeSet<(String, &str)> = EXCEPTIONS
        .map(|(name, what, _)| (name.to_owned(), what))
        .into();
    // Equal in both directions: an exception that is no longer needed fails, too.
    assert_eq!(lacking, excepted);
}

#[test]
fn an_enum_without_a_name_or_serde_is_found() {
    let bare = "/// Doc.\n#[derive(Debug)]\npub enum Bare {\n    One,\n}\n";
    assert_eq!(enums(bare), [("Bare".to_owned(), [NAME, SERDE].into())]);
    let named =
        format!("{bare}\nimpl Bare {{\n    pub fn name(self) -> &'static str {{\n    }}\n}}\n");
    assert_eq!(enums(&named), [("Bare".to_owned(), [SERDE].into())]);
    let whole = named.replace("Debug", "Debug, Serialize");
    assert_eq!(enums(&whole), [("Bare".to_owned(), [].into())]);
    let by_hand = format!("{named}\nimpl Serialize for Bare {{\n}}\n");
    assert_eq!(enums(&by_hand), [("Bare".to_owned(), [].into())]);
    let of_tests = format!("\n#[cfg(test)]\nmod tests {{\n}}\n{bare}");
    assert_eq!(enums(&of_tests), []);
}

/// The name of an enum's value in serde: its string, its tag, or its only key.
#[cfg(feature = "harness")]
fn serde_name(value: &impl serde::Serialize, tag: &str) -> String {
    let json = serde_json::to_value(value).expect("plain data");
    let name = json.as_str().or_else(|| json.get(tag)?.as_str());
    let only = || json.as_object()?.keys().next().map(String::as_str);
    name.or_else(only).expect("a name").to_owned()
}

#[cfg(feature = "harness")]
#[test]
fn the_names_of_the_loop_are_those_of_serde() {
    use ttsr::harness::fallback::SessionEvent;
    use ttsr::harness::{
        AbortReason, AbortSource, BlockReplay, Content, End, HookPoint, OnHookFault, PartState,
        Role,
    };
    for point in HookPoint::ALL {
        assert_eq!(serde_name(&point, ""), point.name());
    }
    for fault in [OnHookFault::Abort, OnHookFault::Continue] {
        assert_eq!(serde_name(&fault, ""), fault.name());
    }
    for state in [PartState::Open, PartState::Complete, PartState::Aborted] {
        assert_eq!(serde_name(&state, ""), state.name());
    }
    for role in [Role::System, Role::User, Role::Assistant, Role::Tool] {
        assert_eq!(serde_name(&role, ""), role.name());
    }
    for replay in [
        BlockReplay::UpTo(3),
        BlockReplay::Unsigned(3),
        BlockReplay::Never,
    ] {
        assert_eq!(serde_name(&replay, ""), replay.name());
    }
    for source in [
        AbortSource::Hook("guard".into()),
        AbortSource::Limit("reply_bytes"),
        AbortSource::Provider,
        AbortSource::User,
    ] {
        assert_eq!(serde_name(&source, ""), source.name());
        let end = End::Aborted {
            reason: AbortReason::Error,
            source,
            detail: String::new(),
        };
        assert_eq!(serde_name(&end, ""), end.name());
    }
    let text = String::new;
    for event in [
        SessionEvent::Error {
            session: text(),
            error: text(),
        },
        SessionEvent::Status {
            session: text(),
            message: text(),
        },
        SessionEvent::SubagentCreated {
            session: text(),
            agent: text(),
        },
        SessionEvent::Deleted { session: text() },
        SessionEvent::Idle { session: text() },
    ] {
        assert_eq!(serde_name(&event, "event"), event.name());
    }
    for content in [
        Content::Reasoning { text: text() },
        Content::ToolCall {
            call: text(),
            tool: text(),
            input: text(),
        },
    ] {
        assert_eq!(serde_name(&content, "type"), content.name());
    }
}
