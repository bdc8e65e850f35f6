//! Normalises a conversation for every API: turns that alternate, and a result for each tool call.
//!
//! Providers refuse a request with a call without a result or a result without a call. Replies that were cut, tools
//! that never ran and hosts that dropped a message leave such gaps; this module closes them. Images are the user's: an
//! image in the instructions or in a reply of the model is an error, because no API accepts it there.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use ttsr::harness::TOOL_ABORTED;
use ttsr::harness::{Content, Failure, Message, Role};

/// Instructions, and turns that alternate.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ProviderConversation {
    /// The system messages, joined.
    pub(super) system: String,
    pub(super) turns: Vec<ConversationTurn>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum ConversationTurn {
    /// The results of the previous turn's calls in their order, then the texts and images.
    User {
        results: Vec<ToolResult>,
        items: Vec<UserItem>,
    },
    Assistant(Vec<AssistantItem>),
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum UserItem {
    Text(String),
    /// An image in base64.
    Image {
        media_type: String,
        data: String,
    },
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum AssistantItem {
    Text(String),
    FunctionCall(FunctionCall),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FunctionCall {
    pub(super) id: String,
    pub(super) tool: String,
    /// The input as the model wrote it, or `{}` if it wrote none.
    pub(super) input: String,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct ToolResult {
    pub(super) id: String,
    pub(super) output: String,
    pub(super) is_error: bool,
}

impl ProviderConversation {
    /// Normalises the messages.
    ///
    /// # Errors
    /// If a message of the system or of the model contains an image.
    pub(super) fn new(messages: &[Message]) -> Result<ProviderConversation, Failure> {
        let mut conversation = ProviderConversation::default();
        for message in messages {
            for content in &message.content {
                conversation.add(message.role, content)?;
            }
        }
        conversation.answer_calls();
        Ok(conversation)
    }

    fn add(&mut self, role: Role, content: &Content) -> Result<(), Failure> {
        match (role, content) {
            // Some APIs refuse blank text, and it carries no meaning.
            (_, Content::Text { text, .. }) if text.trim().is_empty() => {}
            (Role::System, Content::Text { text, .. }) => {
                let gap = if self.system.is_empty() { "" } else { "\n\n" };
                self.system.extend([gap, text]);
            }
            (Role::Assistant, Content::Text { text, .. }) => {
                self.push_assistant(AssistantItem::Text(text.clone()))
            }
            (_, Content::Text { text, .. }) => {
                self.user_turn().1.push(UserItem::Text(text.clone()))
            }
            (Role::System | Role::Assistant, Content::Image { media_type, .. }) => {
                let author = match role {
                    Role::System => "the system",
                    _ => "the model",
                };
                return Err(Failure::new(
                    "unsupported",
                    format!("a message of {author} cannot contain an image ({media_type})"),
                ));
            }
            (Role::User | Role::Tool, Content::Image { media_type, data }) => {
                self.user_turn().1.push(UserItem::Image {
                    media_type: media_type.clone(),
                    data: data.clone(),
                })
            }
            (_, Content::ToolCall { call, tool, input }) => {
                self.push_assistant(AssistantItem::FunctionCall(FunctionCall {
                    id: sanitized_id(call),
                    tool: tool.clone(),
                    input: match input.trim() {
                        "" => "{}".to_owned(),
                        _ => input.clone(),
                    },
                }))
            }
            (
                _,
                Content::ToolResult {
                    call,
                    output,
                    is_error,
                },
            ) => self.user_turn().0.push(ToolResult {
                id: sanitized_id(call),
                output: output.clone(),
                is_error: *is_error,
            }),
            // Unsigned reasoning is not sent: no API accepts it.
            (_, Content::Reasoning { .. }) => {}
        }
        Ok(())
    }

    fn push_assistant(&mut self, piece: AssistantItem) {
        match self.turns.last_mut() {
            Some(ConversationTurn::Assistant(pieces)) => pieces.push(piece),
            _ => self.turns.push(ConversationTurn::Assistant(vec![piece])),
        }
    }

    /// Returns the user turn at the end, and begins one if there is none.
    fn user_turn(&mut self) -> (&mut Vec<ToolResult>, &mut Vec<UserItem>) {
        if !matches!(self.turns.last(), Some(ConversationTurn::User { .. })) {
            self.turns.push(ConversationTurn::User {
                results: Vec::new(),
                items: Vec::new(),
            });
        }
        match self.turns.last_mut() {
            Some(ConversationTurn::User { results, items }) => (results, items),
            _ => unreachable!("the last turn was made the user's"),
        }
    }

    /// Gives every call its result and a unique id, and turns results without a call into text.
    fn answer_calls(&mut self) {
        let mut taken = HashSet::new();
        let mut asked: Vec<ExpectedResult> = Vec::new();
        let mut turns = Vec::with_capacity(self.turns.len() + 1);
        for mut turn in self.turns.drain(..) {
            match &mut turn {
                ConversationTurn::Assistant(pieces) => asked = name_calls(pieces, &mut taken),
                ConversationTurn::User { results, items } => {
                    let (answers, strays) = pair_results(&asked, std::mem::take(results));
                    *results = answers;
                    items.splice(0..0, strays);
                    asked.clear();
                }
            }
            turns.push(turn);
        }
        if !asked.is_empty() {
            let (results, items) = pair_results(&asked, Vec::new());
            turns.push(ConversationTurn::User { results, items });
        }
        self.turns = turns;
    }
}

impl FunctionCall {
    /// Returns the input as an object, because some APIs accept no other JSON.
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

/// A call that needs a result.
struct ExpectedResult {
    /// The id in the conversation, by which its result is found.
    known: String,
    /// The unique id that the call and its result get.
    id: String,
}

/// Makes the ids of the calls of a turn unique and returns the calls. Readers generate ids where a provider gives none,
/// and number them from the start in each reply.
fn name_calls(pieces: &mut [AssistantItem], taken: &mut HashSet<String>) -> Vec<ExpectedResult> {
    let calls = pieces.iter_mut().filter_map(|piece| match piece {
        AssistantItem::FunctionCall(call) => Some(call),
        AssistantItem::Text(_) => None,
    });
    let named = calls.map(|call| {
        let known = call.id.clone();
        let mut number = 2;
        while !taken.insert(call.id.clone()) {
            call.id = format!("{known}_{number}");
            number += 1;
        }
        let id = call.id.clone();
        ExpectedResult { known, id }
    });
    named.collect()
}

/// Returns the results of the calls in their order, and the other results as text.
fn pair_results(
    asked: &[ExpectedResult],
    mut results: Vec<ToolResult>,
) -> (Vec<ToolResult>, Vec<UserItem>) {
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
        UserItem::Text(format!("Result of the tool call {id}: {output}"))
    });
    (answers, strays.collect())
}

/// Replaces the characters of an id that some API refuses: the id may come from another provider.
fn sanitized_id(call: &str) -> String {
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

    fn conversation(messages: &[Message]) -> ProviderConversation {
        ProviderConversation::new(messages).unwrap()
    }

    fn outputs(conversation: &ProviderConversation) -> Vec<Vec<&str>> {
        let turns = conversation.turns.iter().filter_map(|turn| match turn {
            ConversationTurn::User { results, .. } => Some(
                results
                    .iter()
                    .map(|result| result.output.as_str())
                    .collect(),
            ),
            ConversationTurn::Assistant(_) => None,
        });
        turns.collect()
    }

    #[test]
    fn results_follow_their_calls_in_order() {
        let conversation = conversation(&[
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
            outputs(&conversation(&cut_off)),
            [vec![], vec![TOOL_ABORTED]]
        );
        let half = [
            message(Role::Assistant, vec![call("a"), call("b")]),
            message(Role::Tool, vec![result("b", "two")]),
        ];
        assert_eq!(outputs(&conversation(&half)), [[TOOL_ABORTED, "two"]]);
    }

    /// Generated ids are the same in each reply.
    #[test]
    fn calls_of_the_same_id_are_told_apart() {
        let round = |output: &str| {
            [
                message(Role::Assistant, vec![call("call_0")]),
                message(Role::Tool, vec![result("call_0", output)]),
            ]
        };
        let conversation = conversation(&[round("one"), round("two"), round("three")].concat());
        assert_eq!(outputs(&conversation), [["one"], ["two"], ["three"]]);
        let ids = conversation.turns.iter().flat_map(|turn| match turn {
            ConversationTurn::Assistant(pieces) => pieces
                .iter()
                .filter_map(|piece| match piece {
                    AssistantItem::FunctionCall(call) => Some(call.id.clone()),
                    AssistantItem::Text(_) => None,
                })
                .collect::<Vec<_>>(),
            ConversationTurn::User { results, .. } => {
                results.iter().map(|result| result.id.clone()).collect()
            }
        });
        let expected = [
            "call_0", "call_0", "call_0_2", "call_0_2", "call_0_3", "call_0_3",
        ];
        assert_eq!(ids.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_result_without_a_call_is_told_as_text() {
        let conversation = conversation(&[message(Role::Tool, vec![result("a", "one")])]);
        let ConversationTurn::User { results, items } = &conversation.turns[0] else {
            panic!("a result is the user's");
        };
        assert!(results.is_empty());
        let told = UserItem::Text("Result of the tool call a: one".into());
        assert_eq!(items, &[told]);
    }

    #[test]
    fn blank_texts_and_reasoning_are_left_out_and_instructions_joined() {
        let conversation = conversation(&[
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
            Value::Object(FunctionCall { id, tool, input }.object())
        };
        assert_eq!(with(r#"{"a":1}"#), json!({"a": 1}));
        assert_eq!(with(r#"{"a":"#), json!({"input": "{\"a\":"}));
        assert_eq!(with("[1]"), json!({"input": "[1]"}));
    }

    #[test]
    fn ids_of_other_providers_are_taken() {
        assert_eq!(sanitized_id("functions.read:0"), "functions_read_0");
    }
}
