//! A small host over `Conversation`, checked against the conformance cases of the profile `core`.
//!
//! ```sh
//! cargo run --features harness --example host
//! ```
//!
//! The inputs of a case replace the user and the provider; a real host gets them from its transport. The rest is what a
//! host does: it sends requests with guidance, publishes what `take` returns, and runs calls of complete replies.

use std::process::ExitCode;

use serde_json::json;
use ttsr::harness::conformance::{CaseInput, CaseStep, ConformanceCase, Host, Profile, run};
use ttsr::{Channel, Conversation, Cut, Event, Flow, PartId};

/// Makes a [`SmallHost`] for each case.
pub(crate) struct SmallHosts;

impl Host for SmallHosts {
    fn play(&mut self, case: &ConformanceCase) -> Vec<CaseStep> {
        let mut host = SmallHost {
            conversation: Conversation::new(&case.pack()),
            state: State::Idle,
            prompt: String::new(),
            attempts: 0,
            parts: Vec::new(),
            steps: Vec::new(),
        };
        for input in &case.inputs {
            host.input(input);
        }
        host.steps
    }
}

struct SmallHost {
    conversation: Conversation,
    state: State,
    /// The prompt as rules let it be sent.
    prompt: String,
    /// The number of requests in this turn.
    attempts: u32,
    parts: Vec<ShownPart>,
    /// The record of what the host did.
    steps: Vec<CaseStep>,
}

#[derive(PartialEq)]
enum State {
    Idle,
    /// A request is about to be sent.
    Sending,
    /// The reply arrives.
    Reading,
    /// The provider said that the reply is complete.
    Finished,
}

/// A part of the reply as far as it may leave.
struct ShownPart {
    part: PartId,
    channel: Channel,
    call: String,
    text: Vec<u8>,
}

impl SmallHost {
    fn input(&mut self, input: &CaseInput) {
        if let Some(event) = input.event() {
            if self.state == State::Reading {
                self.event(event);
            }
        } else if input.has("begin") {
            let prompt = self
                .conversation
                .begin_turn(input.text("prompt").unwrap_or("Go."));
            self.prompt = prompt.text;
            self.attempts = 0;
            self.send(None);
        } else if input.has("sent") && self.state == State::Sending {
            let flow = self.conversation.begin_attempt();
            self.state = State::Reading;
            self.parts.clear();
            self.act(flow);
        } else if input.has("end") {
            match self.state {
                State::Finished => self.complete(),
                State::Reading => self.abort("provider"),
                State::Idle | State::Sending => {}
            }
        } else if input.has("cancel") {
            self.abort("user");
        } else if let Some(tool) = input.text("after") {
            let output = input.text("output").unwrap_or_default();
            let screened = self
                .conversation
                .screen(Channel::ToolOutput, Some(tool), output);
            let call = input.text("call").unwrap_or_default();
            self.steps
                .push(CaseStep::new("tool-result", call).with("output", screened.text));
        } else if input.has("store") {
            let stored = serde_json::to_string(&self.conversation.snapshot()).unwrap();
            let pack = self.conversation.pack().clone();
            (self.conversation, _) =
                Conversation::restore(&pack, &serde_json::from_str(&stored).unwrap());
        }
    }

    /// Asks for the next request: the text that a cut keeps, and the guidance.
    fn send(&mut self, cut: Option<&Cut>) {
        self.attempts += 1;
        self.state = State::Sending;
        let kept = cut.into_iter().flat_map(|cut| &cut.keep);
        let kept = kept.map(|kept| format!("assistant: {}", kept.text));
        let guidance: Vec<String> = self.conversation.guidance().map(|note| note.text).collect();
        let added: Vec<String> = kept
            .chain(guidance.iter().map(|text| format!("user: {text}")))
            .collect();
        self.steps
            .push(CaseStep::new("send", self.attempts).with("messages", added));
        // Outside of an attempt, the flow is a cut only if a rule refused the prompt.
        if let Some(rule) = self.conversation.flow().cut().and_then(Cut::rule) {
            return self.abort(&format!("rule {rule}"));
        }
        let request: Vec<String> = [self.prompt.clone()].into_iter().chain(guidance).collect();
        self.steps.push(CaseStep::new("request", json!(request)));
    }

    fn event(&mut self, event: Event) {
        let conversation = &mut self.conversation;
        let flow = match event {
            Event::PartStart {
                part,
                channel,
                tool,
                call,
                ..
            } => {
                let flow = conversation.open(part, channel);
                let call = call.unwrap_or_default();
                let flow = match tool {
                    Some(tool) => conversation.set_tool(part, &tool, &call),
                    None => flow,
                };
                self.shown(part, channel).call = call;
                flow
            }
            Event::Tool { part, tool, call } => {
                let call = call.unwrap_or_default();
                let flow = conversation.set_tool(part, &tool, &call);
                self.shown(part, Channel::ToolInput).call = call;
                flow
            }
            Event::Delta { part, bytes } => {
                let flow = conversation.push(part, &bytes);
                self.shown(part, Channel::Text);
                flow
            }
            Event::PartEnd { part } => conversation.close(part),
            Event::Finish { .. } => {
                self.state = State::Finished;
                conversation.finish()
            }
            Event::Error { .. } => return self.abort("provider"),
            _ => conversation.flow(),
        };
        self.publish();
        self.act(flow);
    }

    /// Publishes the text that may leave.
    fn publish(&mut self) {
        for shown in &mut self.parts {
            let text = self.conversation.take(shown.part);
            if !text.is_empty() {
                shown.text.extend_from_slice(text);
                let text = String::from_utf8_lossy(text).into_owned();
                self.steps
                    .push(CaseStep::new("forward", shown.part.0).with("text", text));
            }
        }
    }

    fn act(&mut self, flow: Flow) {
        let Flow::Cut(cut) = flow else {
            return;
        };
        self.conversation.end_attempt();
        match (&cut.retry, cut.rule()) {
            (Some(_), _) => self.send(Some(&cut)),
            (None, Some(rule)) => self.abort(&format!("rule {rule}")),
            (None, None) => self.abort("limit"),
        }
    }

    fn abort(&mut self, source: &str) {
        self.conversation.end_attempt();
        self.state = State::Idle;
        self.steps.push(
            CaseStep::new("end", "aborted")
                .with("source", source)
                .with("text", ""),
        );
    }

    /// Ends a complete reply, and runs its calls.
    fn complete(&mut self) {
        self.state = State::Idle;
        let text = |shown: &ShownPart| String::from_utf8_lossy(&shown.text).into_owned();
        let texts = self
            .parts
            .iter()
            .filter(|shown| shown.channel == Channel::Text);
        let answer: String = texts.map(text).collect();
        self.steps
            .push(CaseStep::new("end", "complete").with("text", answer));
        let calls = self
            .parts
            .iter()
            .filter(|shown| shown.channel == Channel::ToolInput);
        let runs = calls.map(|shown| CaseStep::new("run", &*shown.call).with("input", text(shown)));
        self.steps.extend(runs);
    }

    fn shown(&mut self, part: PartId, channel: Channel) -> &mut ShownPart {
        let known = self.parts.iter().position(|shown| shown.part == part);
        let index = known.unwrap_or(self.parts.len());
        if known.is_none() {
            self.parts.push(ShownPart {
                part,
                channel,
                call: String::new(),
                text: Vec::new(),
            });
        }
        &mut self.parts[index]
    }
}

fn main() -> ExitCode {
    let report = run(Profile::Core, &mut SmallHosts);
    println!("{report}");
    match report.is_ok() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
