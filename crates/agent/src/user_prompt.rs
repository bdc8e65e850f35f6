//! Questions of the model to the user, as a chat shows them.
//!
//! This module owns the form of questions and answers. It does not know the user, and it does not wait.

/// A question request of the model: one or more questions that are answered together.
///
/// # Example: a question and its answer
/// ```
/// use ttsr_agent::user_prompt::{Choice, Question, QuestionRequest};
/// let request = QuestionRequest {
///     id: "que_1".into(),
///     questions: vec![Question {
///         text: "Which one?".into(),
///         choices: vec![Choice { label: "red".into(), ..Choice::default() }],
///         ..Question::default()
///     }],
/// };
/// assert!(request.text().contains("Which one?\n  1. red"));
/// assert_eq!(request.answers("red"), [["red"]]);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuestionRequest {
    /// The id by which it is answered or rejected.
    pub id: String,
    /// The questions, in order.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// The title; empty for none.
    pub header: String,
    /// The question.
    pub text: String,
    /// The choices; empty if any answer is allowed.
    pub choices: Vec<Choice>,
    /// True if several choices may be picked.
    pub multiple: bool,
}

/// One choice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Its name.
    pub label: String,
    /// Its meaning; empty if the label suffices.
    pub description: String,
}

impl QuestionRequest {
    /// Returns the text that the user is shown.
    #[must_use]
    pub fn text(&self) -> String {
        let mut lines = vec!["❓ The agent has a question:".to_owned()];
        for question in &self.questions {
            lines.push(String::new());
            question.show(&mut lines);
        }
        lines.push(String::new());
        lines.push("Reply with your answer:".to_owned());
        lines.join("\n")
    }

    /// Returns the answers for the model: `reply` for every question of the request.
    #[must_use]
    pub fn answers(&self, reply: &str) -> Vec<Vec<String>> {
        vec![vec![reply.to_owned()]; self.questions.len()]
    }
}

impl Question {
    fn show(&self, lines: &mut Vec<String>) {
        if !self.header.is_empty() {
            lines.push(format!("**{}**", self.header));
        }
        lines.push(self.text.clone());
        for (number, choice) in (1..).zip(&self.choices) {
            lines.push(format!("  {number}. {}", choice.show()));
        }
        if self.multiple {
            lines.push("(You can pick multiple — separate with commas)".to_owned());
        }
    }
}

impl Choice {
    fn show(&self) -> String {
        if self.description.is_empty() {
            return self.label.clone();
        }
        format!("{} — {}", self.label, self.description)
    }
}
