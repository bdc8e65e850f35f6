//! What users of a chat see while a model works: row E4, as far as it is about texts.

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
