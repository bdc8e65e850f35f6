//! Questions of the model to the user, as a chat shows them.
//!
//! Owns the form of a question and of its answers. Who is asked, and how long is waited, is not known here.

/// What the model wants to know: one or more questions, answered together.
///
/// # Example: a question and its answer
/// ```
/// use ttsr_agent::question::{Choice, Question, QuestionRequest};
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
    /// The id under which it is answered or rejected.
    pub id: String,
    /// The questions, in order.
    pub questions: Vec<Question>,
}

/// One question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Question {
    /// A title; empty for none.
    pub header: String,
    /// The question.
    pub text: String,
    /// What may be answered; none for anything.
    pub choices: Vec<Choice>,
    /// Whether several choices may be taken.
    pub multiple: bool,
}

/// One answer to choose.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// What it is called.
    pub label: String,
    /// What it means; empty where the label says it.
    pub description: String,
}

impl QuestionRequest {
    /// What the user is shown.
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

    /// What the model is answered: the same words for every question of the request.
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
