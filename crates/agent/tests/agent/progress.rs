//! Progress messages and settings of a chat: rows E4 (the texts) and E6 (the settings) of `docs/harness.md`.

use ttsr_agent::progress::{ProgressSettings, RouterSettings};
use ttsr_agent::user_prompt::{Choice, Question, QuestionRequest};

#[test]
fn question_is_shown_with_its_choices_and_answered_once_for_all() {
    let choice = |label: &str, description: &str| Choice {
        label: label.into(),
        description: description.into(),
    };
    let request = QuestionRequest {
        id: "que_1".into(),
        questions: vec![
            Question {
                header: "Database".into(),
                text: "Which one?".into(),
                choices: vec![choice("SQLite", "one file"), choice("Other", "")],
                multiple: true,
            },
            Question {
                text: "Why?".into(),
                ..Question::default()
            },
        ],
    };
    let expected = "❓ The agent has a question:\n\n**Database**\nWhich one?\n  \
        1. SQLite — one file\n  2. Other\n(You can pick multiple — separate with commas)\n\n\
        Why?\n\nReply with your answer:";
    assert_eq!(request.text(), expected);
    assert_eq!(request.answers("1, 2"), [["1, 2"], ["1, 2"]]);
    assert_eq!(QuestionRequest::default().answers("1"), [[""; 0]; 0]);
}

#[test]
fn settings_have_defaults_and_least_values() {
    let settings = RouterSettings::from_json("{}").unwrap();
    assert_eq!(settings, RouterSettings::default());
    let progress = settings.progress();
    let values = (progress.tool_throttle_ms(), progress.heartbeat_ms());
    assert_eq!((settings.timeout_ms(), values), (300_000, (5_000, 60_000)));
    assert!(progress.is_enabled());
    let least = r#"{"timeoutMs": 1000, "progress":
        {"enabled": false, "toolThrottleMs": 1000, "heartbeatMs": 10000}}"#;
    let least = RouterSettings::from_json(least).unwrap();
    assert!(!least.progress().is_enabled());
    let by_hand = ProgressSettings::default()
        .with_enabled(false)
        .with_tool_throttle_ms(1_000)
        .and_then(|progress| progress.with_heartbeat_ms(10_000))
        .unwrap();
    let by_hand = RouterSettings::default().with_progress(by_hand);
    assert_eq!(by_hand.with_timeout_ms(1_000), Ok(least));
    for (json, name) in [
        (r#"{"timeoutMs": 999}"#, "timeoutMs"),
        (r#"{"progress": {"toolThrottleMs": 999}}"#, "toolThrottleMs"),
        (r#"{"progress": {"heartbeatMs": 9999}}"#, "heartbeatMs"),
        (r#"{"timeoutMs": 1.5}"#, "integer"),
    ] {
        let error = RouterSettings::from_json(json).unwrap_err();
        assert!(error.contains(name) || error.contains("u64"), "{error}");
    }
}

/// The minimums hold for settings from files, from code, and within deserialised structs of a host.
#[test]
fn minimums_hold_however_settings_are_made() {
    let progress = ProgressSettings::default;
    let told = [
        RouterSettings::default().with_timeout_ms(999).map(drop),
        progress().with_tool_throttle_ms(999).map(drop),
        progress().with_heartbeat_ms(0).map(drop),
    ];
    let told = told.map(|made| made.unwrap_err().to_string());
    let expected = [
        "`timeoutMs` is 999, the least is 1000",
        "`progress.toolThrottleMs` is 999, the least is 1000",
        "`progress.heartbeatMs` is 0, the least is 10000",
    ];
    assert_eq!(told, expected);
    for json in [
        r#"{"timeoutMs": 0}"#,
        r#"{"progress": {"heartbeatMs": 1}}"#,
        r#"{"progress": {"toolThrottleMs": 1}}"#,
    ] {
        let parsed = serde_json::from_str::<serde_json::Value>(json).unwrap();
        assert!(serde_json::from_value::<RouterSettings>(parsed).is_err());
    }
    assert!(serde_json::from_str::<ProgressSettings>(r#"{"heartbeatMs": 9999}"#).is_err());
}
