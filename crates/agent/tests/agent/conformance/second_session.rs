//! From a goal or a rule to the first request of a second session, through whole turns.

use serde_json::{Value, json};
use ttsr::Pack;
use ttsr::harness::{
    AgentTurn, Cancel, Content, Hooks, Message, NoTools, Processor, Request, Scripted,
    ScriptedReply, Settings,
};
use ttsr_agent::handoff::{
    HandoffTools, IncomingMessage, StoredSessions, command, definitions, summary_prompt,
};

use super::Run;
use super::given::Given;

/// Runs a turn of a session that begins with these messages. Returns the requests, and the handoff that the model
/// called for.
fn turn(
    session: &str,
    messages: Vec<Message>,
    scripts: Vec<ScriptedReply>,
) -> (Vec<Request>, Option<ttsr_agent::handoff::Handoff>) {
    let pack = Pack::builder().build().unwrap();
    let settings = Settings {
        session: session.to_owned(),
        ..Settings::default()
    };
    let mut processor = Processor::new(&pack, Hooks::default(), settings);
    let mut provider = Scripted::new(scripts);
    let (others, sessions) = (NoTools, StoredSessions::new("/nowhere"));
    let mut tools = HandoffTools::new(session, &others, &sessions);
    let turn = AgentTurn::new(&mut processor, &mut provider, &tools, Cancel::default());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    runtime.block_on(turn.run(Request::new("a/model", messages), "m", &mut |_| {}));
    let handoff = tools.take_handoff();
    (provider.requests(), handoff)
}

/// Returns each text of a request.
fn texts(request: &Request) -> Value {
    let contents = request.messages.iter().flat_map(|message| &message.content);
    let texts = contents.filter_map(|content| match content {
        Content::Text { text, .. } => Some(text.clone()),
        _ => None,
    });
    json!(texts.collect::<Vec<String>>())
}

impl Run<'_> {
    /// A user types the command in `session`, and the model calls `handoff_session` with `calls`.
    pub(super) fn goal(&mut self, typed: &str, session: &str, input: &Given<'_>) {
        let goal = command(typed).unwrap_or_else(|| panic!("{}: no command", input.case));
        let prompt = Message::user(summary_prompt(goal));
        let calls = ScriptedReply::default()
            .tool("handoff_session", "c1", input.words("calls"))
            .finish("tool_use");
        let says = ScriptedReply::default().text("Handed over.").finish("stop");
        let (requests, handoff) = turn(session, vec![prompt], vec![calls, says]);
        let offered = requests[0].tools.iter().map(|tool| tool.name.clone());
        let offered: Vec<String> = offered.collect();
        assert_eq!(requests[0].tools, definitions());
        self.show(vec![
            ("request", texts(&requests[0])),
            ("tools", json!(offered)),
        ]);
        self.handoff = handoff;
    }

    /// The host opens `session` with the last handoff as its draft, and the user sends it, as `edited` or unchanged.
    pub(super) fn go_on(&mut self, session: &str, input: &Given<'_>) {
        let handoff = self.handoff.take();
        let handoff = handoff.unwrap_or_else(|| panic!("{}: no handoff", input.case));
        self.draft(&handoff);
        let draft = input.text("edited").unwrap_or_else(|| handoff.prompt());
        self.say(session, draft);
    }

    /// The user writes a message in `session`.
    pub(super) fn say(&mut self, session: &str, text: String) {
        let said = Message::user(text);
        let arrived = IncomingMessage {
            session,
            model: "a/model",
            agent: "build",
            content: &said.content,
        };
        let injection = self.handoffs.on_message(&arrived, &self.files);
        let files = injection.map(|injection| injection.message());
        let messages = files.into_iter().chain([said]).collect();
        let says = ScriptedReply::default().text("I see.").finish("stop");
        let (requests, _) = turn(session, messages, vec![says]);
        self.show(vec![
            ("request", texts(&requests[0])),
            ("session", json!(session)),
            ("requests", json!(requests.len())),
        ]);
    }
}
