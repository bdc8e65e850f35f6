//! A conversation in the shape that every API takes: turns that alternate, each tool call with its result.
//!
//! Providers refuse a request in which a call has no result or a result no call. Replies that were cut,
//! tools that never ran and hosts that dropped a message leave such gaps; they are closed here.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use ttsr::harness::TOOL_ABORTED;
use ttsr::harness::{Content, Message, Role};

/// Instructions, and turns that alternate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Conversation {
    /// What the application says, joined.
    pub(super) system: String,
    pub(super) turns: Vec<Turn>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// First the results of the calls of the turn before, in their order; then what was written.
    User {
        results: Vec<ToolResult>,
        texts: Vec<String>,
    },
    Assistant(Vec<Piece>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    Text(String),
    Call(Call),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) tool: String,
    /// As the model wrote it; an object without members if it wrote nothing.
    pub(super) input: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) output: String,
    pub(super) is_error: bool,
}

impl Conversation {
    pub(super) fn new(messages: &[Message]) -> Conversation {
        let mut conversation = Conversation::default();
        for message in messages {
            for content in &message.content {
                conversation.add(message.role, content);
            }
        }
        conversation.answer_calls();
        conversation
    }

    fn add(&mut self, role: Role, content: &Content) {
        match (role, content) {
            // Blank text is refused by some, and says nothing to any.
            (_, Content::Text { text, .. }) if text.trim().is_empty() => {}
            (Role::System, Content::Text { text, .. }) => {
                let gap = if self.system.is_empty() { "" } else { "\n\n" };
                self.system.extend([gap, text]);
            }
            (Role::Assistant, Content::Text { text, .. }) => self.say(Piece::Text(text.clone())),
            (_, Content::Text { text, .. }) => self.user().1.push(text.clone()),
            (_, Content::ToolCall { call, tool, input }) => self.say(Piece::Call(Call {
                id: id(call),
                tool: tool.clone(),
                input: match input.trim() {
                    "" => "{}".to_owned(),
                    _ => input.clone(),
                },
            })),
            (
                _,
                Content::ToolResult {
                    call,
                    output,
                    is_error,
                },
            ) => self.user().0.push(ToolResult {
                id: id(call),
                output: output.clone(),
                is_error: *is_error,
            }),
            // Unsigned reasoning is for people: no API takes it back.
            (_, Content::Reasoning { .. }) => {}
        }
    }

    fn say(&mut self, piece: Piece) {
        match self.turns.last_mut() {
            Some(Turn::Assistant(pieces)) => pieces.push(piece),
            _ => self.turns.push(Turn::Assistant(vec![piece])),
        }
    }

    /// The user's turn at the end, begun if there is none.
    fn user(&mut self) -> (&mut Vec<ToolResult>, &mut Vec<String>) {
        if !matches!(self.turns.last(), Some(Turn::User { .. })) {
            self.turns.push(Turn::User {
                results: Vec::new(),
                texts: Vec::new(),
            });
        }
        match self.turns.last_mut() {
            Some(Turn::User { results, texts }) => (results, texts),
            _ => unreachable!("the last turn was made the user's"),
        }
    }

    /// Gives every call its result and an id of its own, and makes text of results without a call.
    fn answer_calls(&mut self) {
        let mut taken = HashSet::new();
        let mut asked: Vec<Asked> = Vec::new();
        let mut turns = Vec::with_capacity(self.turns.len() + 1);
        for mut turn in self.turns.drain(..) {
            match &mut turn {
                Turn::Assistant(pieces) => asked = name_calls(pieces, &mut taken),
                Turn::User { results, texts } => {
                    let (answers, strays) = pair(&asked, std::mem::take(results));
                    *results = answers;
                    texts.splice(0..0, strays);
                    asked.clear();
                }
            }
            turns.push(turn);
        }
        if !asked.is_empty() {
            let (results, texts) = pair(&asked, Vec::new());
            turns.push(Turn::User { results, texts });
        }
        self.turns = turns;
    }
}

impl Call {
    /// The input as an object: some APIs take nothing else.
    pub(super) fn object(&self) -> Map<String, Value> {
        match serde_json::from_str(&self.input) {
            Ok(Value::Object(object)) => object,
            _ => match json!({ "input": self.input }) {
                Value::Object(object) => object,
                _ => Map::new(),
            },
        }
    }
}

/// A call that wants a result.
struct Asked {
    /// The id that its result has.
    known: String,
    /// The id that both get.
    id: String,
}

/// The calls of a turn. Ids are made where a provider gives none, and then begin anew with each reply.
fn name_calls(pieces: &mut [Piece], taken: &mut HashSet<String>) -> Vec<Asked> {
    let calls = pieces.iter_mut().filter_map(|piece| match piece {
        Piece::Call(call) => Some(call),
        Piece::Text(_) => None,
    });
    let named = calls.map(|call| {
        let known = call.id.clone();
        let mut number = 2;
        while !taken.insert(call.id.clone()) {
            call.id = format!("{known}_{number}");
            number += 1;
        }
        let id = call.id.clone();
        Asked { known, id }
    });
    named.collect()
}

/// The results of these calls in their order, and what the others say.
fn pair(asked: &[Asked], mut results: Vec<ToolResult>) -> (Vec<ToolResult>, Vec<String>) {
    let answers = asked.iter().map(|call| {
        let found = results.iter().position(|result| result.id == call.known);
        let id = call.id.clone();
        match found {
            Some(at) => ToolResult {
                id,
                ..results.remove(at)
            },
            None => ToolResult {
                id,
                output: TOOL_ABORTED.to_owned(),
                is_error: true,
            },
        }
    });
    let answers: Vec<ToolResult> = answers.collect();
    let strays = results.into_iter().map(|result| {
        let ToolResult { id, output, .. } = result;
        format!("Result of the tool call {id}: {output}")
    });
    (answers, strays.collect())
}

/// The id of a call in the characters that every API takes: it may be another provider's.
fn id(call: &str) -> String {
    let is_known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    let known = call.chars().map(|c| if is_known(c) { c } else { '_' });
    known.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> Content {
        Content::ToolCall {
            call: id.into(),
            tool: "read".into(),
            input: String::new(),
        }
    }

    fn result(id: &str, output: &str) -> Content {
        Content::ToolResult {
            call: id.into(),
            output: output.into(),
            is_error: false,
        }
    }

    fn message(role: Role, content: Vec<Content>) -> Message {
        Message { role, content }
    }

    fn outputs(conversation: &Conversation) -> Vec<Vec<&str>> {
        let turns = conversation.turns.iter().filter_map(|turn| match turn {
            Turn::User { results, .. } => Some(
                results
                    .iter()
                    .map(|result| result.output.as_str())
                    .collect(),
            ),
            Turn::Assistant(_) => None,
        });
        turns.collect()
    }

    #[test]
    fn results_follow_their_calls_in_order() {
        let conversation = Conversation::new(&[
            Message::user("Go."),
            message(Role::Assistant, vec![call("a"), call("b")]),
            message(Role::Tool, vec![result("b", "two")]),
            message(Role::Tool, vec![result("a", "one")]),
            Message::steering("Mind the gap."),
        ]);
        assert_eq!(outputs(&conversation), [vec![], vec!["one", "two"]]);
        assert_eq!(conversation.turns.len(), 3);
    }

    #[test]
    fn a_call_without_a_result_is_answered() {
        let cut_off = [
            Message::user("Go."),
            message(Role::Assistant, vec![call("a")]),
        ];
        assert_eq!(
            outputs(&Conversation::new(&cut_off)),
            [vec![], vec![TOOL_ABORTED]]
        );
        let half = [
            message(Role::Assistant, vec![call("a"), call("b")]),
            message(Role::Tool, vec![result("b", "two")]),
        ];
        assert_eq!(outputs(&Conversation::new(&half)), [[TOOL_ABORTED, "two"]]);
    }

    /// Where a provider gives no ids, those of each reply are the same.
    #[test]
    fn calls_of_the_same_id_are_told_apart() {
        let round = |output: &str| {
            [
                message(Role::Assistant, vec![call("call_0")]),
                message(Role::Tool, vec![result("call_0", output)]),
            ]
        };
        let conversation =
            Conversation::new(&[round("one"), round("two"), round("three")].concat());
        assert_eq!(outputs(&conversation), [["one"], ["two"], ["three"]]);
        let ids = conversation.turns.iter().flat_map(|turn| match turn {
            Turn::Assistant(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    Piece::Call(call) => Some(call.id.clone()),
                    Piece::Text(_) => None,
                })
                .collect::<Vec<_>>(),
            Turn::User { results, .. } => results.iter().map(|result| result.id.clone()).collect(),
        });
        let expected = [
            "call_0", "call_0", "call_0_2", "call_0_2", "call_0_3", "call_0_3",
        ];
        assert_eq!(ids.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_result_without_a_call_is_told_as_text() {
        let conversation = Conversation::new(&[message(Role::Tool, vec![result("a", "one")])]);
        let Turn::User { results, texts } = &conversation.turns[0] else {
            panic!("a result is the user's");
        };
        assert!(results.is_empty());
        assert_eq!(texts, &["Result of the tool call a: one"]);
    }

    #[test]
    fn blank_texts_and_reasoning_are_left_out_and_instructions_joined() {
        let conversation = Conversation::new(&[
            Message::new(Role::System, "Be brief."),
            Message::new(Role::System, "Be kind."),
            Message::user(" \n"),
            message(
                Role::Assistant,
                vec![Content::Reasoning { text: "hm".into() }],
            ),
        ]);
        assert_eq!(conversation.system, "Be brief.\n\nBe kind.");
        assert!(conversation.turns.is_empty());
    }

    #[test]
    fn input_that_is_no_object_is_put_into_one() {
        let with = |input: &str| {
            let (id, tool) = (String::new(), String::new());
            let input = input.to_owned();
            Value::Object(Call { id, tool, input }.object())
        };
        assert_eq!(with(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(with(r#"{"a":"#), json!({"input": "{\"a\":"}));
        assert_eq!(with("[1]"), json!({"input": "[1]"}));
    }

    #[test]
    fn ids_of_other_providers_are_taken() {
        assert_eq!(id("functions.read:0"), "functions_read_0");
    }
}
