//! Texts of requests: the proxy decides as `ttsr replay` does on a recording of them.

use std::sync::Arc;

use serde_json::{Value, json};
use ttsr::{Channel, Mode, Pack, Rule};

use super::planted::Violation;
use crate::judge::tests::replay::{Found, FoundVerdict, replay, verdicts_of};
use crate::request::{ModelRequest, Redactors, SessionMemory, judge_request};
use crate::routes::ModelApi;

/// The APIs, whose requests have texts and outputs of tools in different forms.
const APIS: [ModelApi; 3] = [
    ModelApi::AnthropicMessages,
    ModelApi::OpenAiChat,
    ModelApi::OpenAiResponses,
];

/// Returns the body of a request with the text on that channel.
fn request(api: ModelApi, channel: Channel, tool: &str, text: &str) -> Value {
    let list = match (api, channel) {
        (_, Channel::UserInput) => json!([{"role": "user", "content": text}]),
        (ModelApi::AnthropicMessages, _) => json!([
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": tool, "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": text}]},
        ]),
        (ModelApi::OpenAiChat, _) => json!([
            {"role": "assistant", "content": null, "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": tool, "arguments": "{}"}},
            ]},
            {"role": "tool", "tool_call_id": "c", "content": text},
        ]),
        _ => json!([
            {"type": "function_call", "call_id": "c", "name": tool, "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": text},
        ]),
    };
    match api {
        ModelApi::OpenAiResponses => json!({"model": "m", "input": list}),
        _ => json!({"model": "m", "messages": list}),
    }
}

/// Returns the verdicts of the proxy on a request.
fn judged(api: ModelApi, pack: &Pack, redactors: &Redactors, body: &Value) -> Vec<FoundVerdict> {
    let body = body.to_string().into_bytes().into();
    let request = Arc::new(ModelRequest::read(api, body).expect("a request of the API"));
    let memory = SessionMemory::default();
    match judge_request(&request, pack, redactors, Mode::Live, memory) {
        Ok(judged) => verdicts_of(&judged.actions.decisions),
        Err(refused) => verdicts_of(&refused.actions.decisions),
    }
}

/// Returns the place without the number of the part, which a request has not.
fn in_one_part(found: &Found) -> Found {
    Found {
        part: 0,
        ..found.clone()
    }
}

/// Returns true if the rule applies to all agents, models and providers: the hits of a replay are those of all rules, its
/// verdicts those of rules that apply.
fn applies_everywhere(rule: &Rule) -> bool {
    rule.agents.is_empty() && rule.models.is_empty() && rule.providers.is_empty()
}

#[test]
fn hits_and_verdicts_on_texts_of_requests_are_those_of_a_replay() {
    let (mut compared, mut hits) = (0, 0);
    for name in Pack::builtin_names() {
        let pack = Pack::builtin(name).unwrap();
        let redactors = Redactors::new(&pack).unwrap();
        for (rule, channel, text) in texts(&pack) {
            let tool = Violation::new(rule, channel, text).tool;
            let line = json!({"ch": channel.name(), "part": "0", "tool": tool, "d": text});
            let want = replay(&pack, format!("{line}\n").as_bytes());
            for api in APIS {
                let body = request(api, channel, &tool, text);
                let found = judged(api, &pack, &redactors, &body);
                let what = format!("{} in {api:?}: {text}", rule.id);
                let one_part = |it: &FoundVerdict| (in_one_part(&it.0), it.1, it.2);
                let found: Vec<FoundVerdict> = found.iter().map(one_part).collect();
                assert_eq!(found, want.verdicts, "verdicts: {what}");
                let of_rules = found.iter().map(|it| it.0.clone());
                let mut of_rules: Vec<Found> = of_rules.filter(|it| it.rule.is_some()).collect();
                of_rules.sort();
                let applies = |it: &&Found| {
                    let id = it.rule.as_deref().and_then(|id| pack.find(id));
                    id.is_some_and(|id| applies_everywhere(pack.rule(id)))
                };
                let want: Vec<Found> = want.hits.iter().filter(applies).cloned().collect();
                assert_eq!(of_rules, want, "hits: {what}");
                compared += 1;
                hits += want.len();
            }
        }
    }
    println!("{compared} requests, {hits} hits");
    assert!(hits > 300, "{hits} hits");
}

/// The examples of the rules of a pack that read texts of requests, and the channel of each.
fn texts(pack: &Pack) -> Vec<(&Rule, Channel, &str)> {
    let of_rule = |rule: &'_ Rule| {
        let on = [Channel::UserInput, Channel::ToolOutput];
        on.into_iter()
            .filter(|on| rule.on.contains(on))
            .collect::<Vec<_>>()
    };
    let mut found = Vec::new();
    for rule in pack.rules() {
        let examples = rule
            .examples
            .matching
            .iter()
            .chain(&rule.examples.not_matching);
        let examples: Vec<&str> = examples.map(String::as_str).collect();
        for channel in of_rule(rule) {
            found.extend(examples.iter().map(|text| (rule, channel, *text)));
        }
    }
    found
}
