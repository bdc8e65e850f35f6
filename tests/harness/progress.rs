//! What users of a chat see while a model works: rows E4 (the texts) and E6 (the settings).

use ttsr::harness::progress::RouterSettings;
use ttsr::harness::question::{Choice, Question, QuestionRequest};

#[test]
fn e4_question_is_shown_with_its_choices_and_answered_once_for_all() {
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
fn e6_settings_have_defaults_and_least_values() {
    let settings = RouterSettings::from_json("{}").unwrap();
    assert_eq!(settings, RouterSettings::default());
    let progress = &settings.progress;
    let values = (progress.tool_throttle_ms, progress.heartbeat_ms);
    assert_eq!((settings.timeout_ms, values), (300_000, (5_000, 60_000)));
    assert!(progress.enabled);
    let least = r#"{"timeoutMs": 1000, "progress":
        {"enabled": false, "toolThrottleMs": 1000, "heartbeatMs": 10000}}"#;
    assert!(!RouterSettings::from_json(least).unwrap().progress.enabled);
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
