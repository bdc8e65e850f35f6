//! `ttsr run`: one turn of an agent under rules, on a real provider or a scripted one.
//!
//! Everything here is what a harness would do: a pack, a session, a processor, a provider, tools, and
//! somebody who watches. What is shown, and how, is in `run/screen.rs` and `run/line.rs`.

mod environment;
mod handoff;
mod line;
mod screen;

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use ttsr::harness::HANDOFF_MARKER;
use ttsr::harness::fallback::Chains;
use ttsr::harness::{
    Cancel, End, Failure, Hooks, Message, NoTools, Processor, Provider, Reason, Request, Role,
    Script, Scripted, Settings, Source, Step, Tools, Turn, TurnOutcome,
};
#[cfg(unix)]
use ttsr::harness::{Tool, ToolCall, ToolFuture};
use ttsr::session::Lost;
use ttsr::{Event, Origin, Pack};
use ttsr_agent::handoff::{Handoff, HandoffTools, command, summary_prompt};
use ttsr_agent::providers::{Api, Chain, Endpoint, EndpointError, Notice};
use ttsr_agent::store::{Kept, OnFailure, Recorder, Store, StoreError};
use ttsr_wire::Reader;

use crate::args::{FormatArg, WorkspaceArgs};
use crate::input::{self, Problems};
use crate::output::tell;
use crate::tally::Count;
use crate::{Outcome, Stop, packs};
use handoff::{Place, Sessions};
use screen::Screen;

/// Run one turn of an agent under rules
///
/// The reply is shown as the rules release it, with their verdicts, what they say to the model, and the
/// tool calls. Exit codes: 0 no rule acted; 1 a rule acted; 2 there is no answer for another reason.
/// Without `--pack`, packs that remind of agents of OpenCode are left out.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// Who answers [default: scripted, where there is a script]
    #[arg(long, value_name = "PROVIDER", required_unless_present = "scripts")]
    provider: Option<ProviderName>,
    /// The model; repeat it to name those that are asked where one cannot answer
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// What stands before `/chat/completions`, `/responses` or `/messages` [default: the company's own]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The environment variable with the key [default: OPENAI_API_KEY or ANTHROPIC_API_KEY]
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Recorded replies that are played instead, in any format that `replay` reads; may be repeated
    ///
    /// One reply for each request, in the order of the files.
    #[arg(long = "script", value_name = "FILE", conflicts_with_all = ["base_url", "key_env"])]
    scripts: Vec<PathBuf>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// Let the model read, write and edit files in this folder, and run commands there
    ///
    /// Files outside it cannot be reached by the first three. Commands are not confined: they can do what
    /// you can do. It is the default of `--root`.
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    /// What the application tells the model before the prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Most tokens of a reply
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    /// Most seconds that a reply may take, with all its attempts; 0 for no bound
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    reply_timeout: u64,
    /// Most seconds that one attempt of a reply may take; 0 for no bound of its own
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    attempt_timeout: u64,
    /// Most replies of the turn: one more for each round of tool calls
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_replies: u32,
    /// A member of the request's body that the provider's API has, as JSON; may be repeated
    #[arg(long = "set", value_name = "NAME=JSON", value_parser = member)]
    members: Vec<(String, Value)>,
    /// Keep the conversation in this file, and go on from what is in it
    ///
    /// Messages, what the rules know and what happened; made if it is not there. `ttsr log FILE` shows it.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
    /// Send the draft of a handoff to its new session at once, without review
    #[arg(long)]
    send_handoff: bool,
    /// What the model is asked; `-` reads it from the standard input [default: the draft of the session]
    ///
    /// `/handoff GOAL` asks the model to hand the work over to a new session, whose draft waits to be edited.
    prompt: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProviderName {
    /// OpenAI's Chat Completions, and servers that imitate it
    OpenaiChat,
    /// OpenAI's Responses
    OpenaiResponses,
    /// Anthropic's Messages
    AnthropicMessages,
    /// The replies of `--script`
    Scripted,
}

impl ProviderName {
    fn api(self) -> Option<Api> {
        match self {
            ProviderName::OpenaiChat => Some(Api::OpenAiChat),
            ProviderName::OpenaiResponses => Some(Api::OpenAiResponses),
            ProviderName::AnthropicMessages => Some(Api::AnthropicMessages),
            ProviderName::Scripted => None,
        }
    }
}

/// Something to show.
#[derive(Debug)]
enum Shown {
    Step(Step),
    Notice(Notice),
    /// Files that go with the prompt.
    Attached(Message),
    SessionOpened {
        session: String,
        file: Option<PathBuf>,
    },
    Draft {
        text: String,
        file: Option<PathBuf>,
    },
    Toast {
        text: &'static str,
        lasts: Duration,
    },
}

/// Packs that remind of agents and tools of OpenCode, which `ttsr run` does not have.
const NOT_HERE: [&str; 3] = [
    "opencode/delegate-task-retry",
    "opencode/phase-reminder",
    "opencode/post-read-nudge",
];

/// Most sessions that one command goes through, where handoffs are sent at once.
const MOST_SESSIONS: usize = 10;

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let key = environment::take_key(options)?;
    let pack = packs::load_in_or(&options.packs, options.tools.as_deref(), &NOT_HERE)?;
    let mut place = Place::of(options);
    let mut prompt = match &options.prompt {
        Some(argument) => read_prompt(argument)?,
        None => place.draft()?,
    };
    let (show, shown) = unbounded_channel();
    let mut host = Host {
        options,
        provider: provider(options, key.as_deref(), &show)?,
        tools: tools(options, key)?,
        screen: Screen::new(pack.clone(), options.format.format),
        pack,
        sessions: Sessions::beside(&place),
        cancel: Cancel::default(),
        show,
        shown,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Stop::Because(format!("no runtime: {error}")))?;
    // In a task of its own: a turn that is always busy must not keep it from being heard.
    runtime.spawn(cancel_on_interrupt(host.cancel.clone()));
    let mut is_draft = options.prompt.is_none();
    for number in 1.. {
        let (outcome, handoff) = host.turn(&runtime, &place, &prompt)?;
        if is_draft {
            let forgotten = place.forget_draft();
            forgotten.map_err(|error| Stop::Because(format!("the draft stays: {error}")))?;
        }
        let Some(handoff) = handoff else {
            return host.finish(&outcome);
        };
        place = handoff::open(&handoff, &place, &mut host.screen)?;
        if !options.send_handoff || number == MOST_SESSIONS {
            return host.finish(&outcome);
        }
        prompt = handoff.prompt();
        is_draft = true;
    }
    Ok(Outcome::Clean)
}

/// Everything that the turns of one command share.
struct Host<'a> {
    options: &'a Options,
    pack: Pack,
    provider: Box<dyn Provider>,
    tools: Box<dyn Tools>,
    sessions: Sessions,
    screen: Screen,
    cancel: Cancel,
    show: UnboundedSender<Shown>,
    shown: UnboundedReceiver<Shown>,
}

impl Host<'_> {
    /// The outcome of the command after its last turn.
    fn finish(&self, outcome: &TurnOutcome) -> Result<Outcome, Stop> {
        let ended = ended(outcome, self.screen.has_acted())?;
        let malformed = self.screen.malformed();
        if malformed == 0 {
            return Ok(ended);
        }
        tell(&format_args!(
            "{} of the provider, not scanned",
            Count(malformed, "malformed event")
        ));
        Ok(Outcome::Incomplete)
    }

    /// One turn of that session, and the handoff that it ended with.
    fn turn(
        &mut self,
        runtime: &Runtime,
        place: &Place,
        prompt: &str,
    ) -> Result<(TurnOutcome, Option<Handoff>), Stop> {
        let options = self.options;
        let (kept, mut recorder) = taken_up(place)?;
        let (session, lost) = kept.session(&self.pack);
        lost.iter().for_each(tell_lost);
        let mut processor = Processor::new(session, Hooks::default(), settings(options, place));
        processor.set_origin(Origin {
            model: options.models.first().cloned(),
            provider: options
                .provider
                .and_then(ProviderName::api)
                .map(|api| api.name().to_owned()),
            ..Origin::default()
        });
        let goal = command(prompt);
        let asked = Message::user(goal.map_or_else(|| prompt.to_owned(), summary_prompt));
        let earlier = kept.messages();
        let files = handoff::attached(options, place, &earlier, &asked);
        self.screen.begin(prompt, earlier.len())?;
        if let Some(files) = &files {
            self.screen.show(&Shown::Attached(files.clone()))?;
        }
        let record = |recorder: &mut Recorder| {
            if let Some(files) = &files {
                recorder.message(files, processor.session())?;
            }
            recorder.prompt(&asked, kept.waiting(), processor.session())
        };
        let recorded = recorder.as_mut().map_or(Ok(()), record);
        recorded.map_err(|error| Stop::Because(error.to_string()))?;
        let new: Vec<Message> = files.into_iter().chain([asked]).collect();
        let request = request(options, &earlier, &new, kept.waiting());
        let is_handing = options.session.is_some()
            || options.send_handoff
            || goal.is_some()
            || prompt.contains(HANDOFF_MARKER);
        let mut handing = None;
        let tools: &mut dyn Tools = match is_handing {
            true => handing.insert(HandoffTools::new(
                &*place.id,
                &mut *self.tools,
                &mut self.sessions,
            )),
            false => &mut *self.tools,
        };
        let turn = Turn::new(
            &mut processor,
            &mut *self.provider,
            tools,
            self.cancel.clone(),
        );
        let turn = turn.max_replies(options.max_replies);
        let turn = match &mut recorder {
            Some(recorder) => turn.record(recorder),
            None => turn,
        };
        let mut watch = |step: &Step| {
            // It fails only where nobody shows anything any more.
            self.show.send(Shown::Step(step.clone())).ok();
        };
        let running = turn.run(request, "turn", &mut watch);
        let outcome = runtime.block_on(watched(running, &mut self.shown, &mut self.screen))?;
        let handoff = handing.and_then(|mut tools| tools.take_handoff());
        self.screen.end(&outcome)?;
        if let Some(recorder) = recorder.filter(Recorder::is_degraded) {
            let why = recorder.error().map(StoreError::to_string);
            let why = why.unwrap_or_default();
            return Err(Stop::Because(format!("the session is not whole: {why}")));
        }
        self.sessions.remember(place, &new);
        self.sessions.remember(place, &outcome.added);
        let is_complete = matches!(outcome.end, End::Complete { .. });
        let handoff = handoff.or(outcome.handoff.clone());
        Ok((outcome, handoff.filter(|_| is_complete)))
    }
}

fn tell_lost(lost: &Lost) {
    let why = match lost.is_changed {
        true => "is another one now",
        false => "is in no pack",
    };
    let rule = crate::output::Escaped(&lost.rule);
    tell(&format_args!(
        "{rule} {why}: what it did in this session is forgotten"
    ));
}

/// What is in the file of the session, if there is one, and who writes what comes.
fn taken_up(place: &Place) -> Result<(Kept, Option<Recorder>), Stop> {
    let Some(path) = &place.file else {
        return Ok((Kept::default(), None));
    };
    let opened = Store::open(path.clone());
    let (store, kept) = opened.map_err(|error| Stop::Because(error.to_string()))?;
    let gone = kept.damaged() + kept.missing();
    if gone > 0 {
        tell(&format_args!(
            "{}: {} of the session cannot be read",
            path.display(),
            Count(gone, "record")
        ));
    }
    // Whoever asks for a file wants what is said to be in it.
    let recorder = Recorder::new(store, OnFailure::Stop);
    Ok((kept, Some(recorder)))
}

/// Cancels the turn at the first interrupt. A second one ends the process.
async fn cancel_on_interrupt(cancel: Cancel) {
    // Where interrupts cannot be heard they do what they always do.
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.cancel();
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    }
}

/// Runs the turn and shows what comes of it.
async fn watched(
    running: impl Future<Output = TurnOutcome>,
    shown: &mut UnboundedReceiver<Shown>,
    screen: &mut Screen,
) -> Result<TurnOutcome, Stop> {
    let mut running = std::pin::pin!(running);
    let outcome = loop {
        tokio::select! {
            biased;
            Some(what) = shown.recv() => screen.show(&what)?,
            outcome = &mut running => break outcome,
        }
    };
    while let Ok(what) = shown.try_recv() {
        screen.show(&what)?;
    }
    Ok(outcome)
}

/// How the command ends. A rule that cut is what this command is for; a provider that failed is not.
fn ended(outcome: &TurnOutcome, has_acted: bool) -> Result<Outcome, Stop> {
    match &outcome.end {
        End::Aborted {
            reason,
            source,
            detail,
        } if !matches!(source, Source::Rule { .. }) => {
            let detail = match (reason, detail.as_str()) {
                (Reason::User, _) => "interrupted",
                (_, "") => reason.name(),
                (_, detail) => detail,
            };
            tell(&format_args!(
                "there is no answer: {}",
                crate::output::Escaped(detail)
            ));
            Ok(Outcome::Incomplete)
        }
        End::Truncated { reason } => {
            tell(&format_args!(
                "the answer is cut off: the model stopped at its limit ({})",
                crate::output::Escaped(reason)
            ));
            Ok(Outcome::Incomplete)
        }
        _ if has_acted => Ok(Outcome::Findings),
        _ => Ok(Outcome::Clean),
    }
}

fn settings(options: &Options, place: &Place) -> Settings {
    Settings {
        session: place.id.clone(),
        reply: seconds(options.reply_timeout),
        attempt: seconds(options.attempt_timeout),
        signs_reasoning: options.provider == Some(ProviderName::AnthropicMessages),
        fallback: Chains::default().any(options.models.iter().skip(1).cloned()),
        ..Settings::default()
    }
}

/// A bound of time; 0 stands for none.
fn seconds(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn request(
    options: &Options,
    earlier: &[Message],
    new: &[Message],
    waiting: &[Message],
) -> Request {
    let system = options.system.iter();
    let system = system.map(|text| Message::new(Role::System, text.as_str()));
    let said = earlier.iter().chain(new).chain(waiting).cloned();
    let messages = system.chain(said).collect();
    let model = options
        .models
        .first()
        .cloned()
        .unwrap_or_else(|| "scripted".to_owned());
    let mut request = Request::new(model, messages);
    request.max_tokens = options.max_tokens;
    request
}

fn read_prompt(argument: &str) -> Result<String, Stop> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut prompt = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut prompt);
    read.map_err(|error| Stop::Because(format!("the prompt cannot be read: {error}")))?;
    Ok(prompt)
}

/// The environment variable with the key.
fn key_variable(options: &Options) -> Option<&str> {
    let api = options.provider.and_then(ProviderName::api)?;
    Some(options.key_env.as_deref().unwrap_or(api.key_variable()))
}

fn provider(
    options: &Options,
    key: Option<&str>,
    show: &UnboundedSender<Shown>,
) -> Result<Box<dyn Provider>, Stop> {
    let Some(api) = options.provider.and_then(ProviderName::api) else {
        return Ok(Box::new(Scripted::new(scripts(&options.scripts)?)));
    };
    if !options.scripts.is_empty() {
        return Err(Stop::Because(format!(
            "a script is not for the provider {}",
            api.name()
        )));
    }
    if options.models.is_empty() {
        return Err(Stop::Because(format!(
            "the provider {} needs a `--model`",
            api.name()
        )));
    }
    let endpoint = endpoint(options, api, key).map_err(|error| Stop::Because(error.to_string()))?;
    let watch = {
        let show = show.clone();
        Arc::new(move |notice: &Notice| {
            show.send(Shown::Notice(notice.clone())).ok();
        })
    };
    let told = Arc::clone(&watch);
    let endpoint = endpoint.watch(move |notice| told(notice));
    let chain = Chain::new(endpoint.clone()).watch(move |notice| watch(notice));
    let further = options.models.iter().skip(1);
    Ok(Box::new(further.fold(chain, |chain, model| {
        chain.then(model, endpoint.clone())
    })))
}

fn endpoint(options: &Options, api: Api, key: Option<&str>) -> Result<Endpoint, EndpointError> {
    let base = options.base_url.as_deref();
    let endpoint = match base {
        Some(base) => Endpoint::at(api, base)?,
        None => Endpoint::new(api)?,
    };
    let variable = options.key_env.as_deref().unwrap_or(api.key_variable());
    // A server of one's own may want no key.
    let is_needed = options.key_env.is_some() || base.is_none();
    let endpoint = match key {
        Some(key) => endpoint.key(key)?,
        // It is not there: this says so.
        None if is_needed => endpoint.key_from_env(variable)?,
        None => endpoint,
    };
    let members = options.members.iter().cloned();
    Ok(members.fold(endpoint, |endpoint, (name, value)| {
        endpoint.member(name, value)
    }))
}

#[cfg(unix)]
fn tools(options: &Options, key: Option<String>) -> Result<Box<dyn Tools>, Stop> {
    let Some(path) = &options.tools else {
        return Ok(Box::new(NoTools));
    };
    let folder = ttsr_agent::tools::Folder::open(path);
    let folder = folder.map_err(|error| Stop::Because(format!("{}: {error}", path.display())))?;
    // Without a path of its own, commands are followed as far as the system does it by itself.
    let folder = match std::env::current_exe() {
        Ok(program) => folder.supervisor(program),
        Err(_) => folder,
    };
    Ok(Box::new(WithoutKey { tools: folder, key }))
}

/// Tools whose results do not show the key: a command may find it in a file.
#[cfg(unix)]
struct WithoutKey<T> {
    tools: T,
    key: Option<String>,
}

#[cfg(unix)]
impl<T: Tools> Tools for WithoutKey<T> {
    fn tools(&self) -> Vec<Tool> {
        self.tools.tools()
    }

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        // A shorter one would be found in words.
        let key = self.key.as_ref().filter(|key| key.len() >= 8);
        let running = self.tools.call(call);
        Box::pin(async move {
            let mut after = running.await;
            if let Some(key) = key {
                after.output = after.output.replace(key.as_str(), "[key]");
            }
            after
        })
    }
}

#[cfg(not(unix))]
fn tools(options: &Options, _key: Option<String>) -> Result<Box<dyn Tools>, Stop> {
    match options.tools {
        None => Ok(Box::new(NoTools)),
        Some(_) => Err(Stop::Because(
            "there are no tools for this system".to_owned(),
        )),
    }
}

/// The recorded replies, in the order of the files and in each of them in that of their beginnings.
fn scripts(paths: &[PathBuf]) -> Result<Vec<Script>, Stop> {
    let mut problems = Problems::default();
    let mut scripts = Vec::new();
    for input in input::inputs(paths, &mut problems) {
        let Some(mut blocks) = input.open(&mut problems) else {
            continue;
        };
        let mut replies = Replies::default();
        let mut reader = Reader::new(&input.name);
        while let Some(block) = blocks.next(&mut problems) {
            reader.push(block, &mut |name, event| replies.add(name, event));
        }
        reader.finish(&mut |name, event| replies.add(name, event));
        if reader.format().is_none() {
            problems.tell(&input.name, &"not a recording of a known format");
        }
        scripts.extend(replies.into_scripts());
    }
    if problems.any || scripts.is_empty() {
        return Err(Stop::Because("there is no script to play".to_owned()));
    }
    // The last script is played again and again: a turn that wants more than there is must end.
    let over = Failure::new("script", "the script is over, and the turn is not");
    scripts.push(Script::default().fail(over));
    Ok(scripts)
}

/// Recorded replies by their names.
#[derive(Default)]
struct Replies(VecDeque<(String, Vec<Event>)>);

impl Replies {
    fn add(&mut self, name: &str, event: Event) {
        let known = self.0.iter().rposition(|(other, _)| other == name);
        let at = known.unwrap_or_else(|| {
            self.0.push_back((name.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        self.0[at].1.push(event);
    }

    fn into_scripts(self) -> impl Iterator<Item = Script> {
        self.0.into_iter().map(|(_, mut events)| {
            // What broke off when it was recorded breaks off when it is played.
            events.retain(
                |event| !matches!(event, Event::Finish { reason } if reason == "truncated"),
            );
            Script::from(events)
        })
    }
}

fn member(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=JSON")?;
    let value =
        serde_json::from_str(value).map_err(|error| format!("`{value}` is not JSON: {error}"))?;
    Ok((name.to_owned(), value))
}
