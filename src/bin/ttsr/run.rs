//! `ttsr run`: one turn of an agent under rules, on a real provider or a scripted one.
//!
//! Everything here is what a harness would do: a pack, a session, a processor, a provider, tools, and
//! somebody who watches. What is shown, and how, is in `run/screen.rs` and `run/line.rs`.

mod line;
mod screen;

use std::collections::VecDeque;
use std::io::Read as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use ttsr::harness::fallback::Chains;
use ttsr::harness::providers::{Api, Chain, Endpoint, EndpointError, Notice};
use ttsr::harness::store::{Kept, OnFailure, Recorder, Store, StoreError};
use ttsr::harness::{
    Cancel, End, Failure, Hooks, Message, NoTools, Processor, Provider, Reason, Request, Role,
    Script, Scripted, Settings, Source, Step, Tools, Turn, TurnOutcome,
};
use ttsr::{Event, Lost, Origin, wire::Reader};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::input::{self, Problems};
use crate::output::tell;
use crate::tally::Count;
use crate::{Outcome, Stop, packs};
use screen::Screen;

/// Run one turn of an agent under rules
///
/// The reply is shown as the rules release it, with their verdicts, what they say to the model, and the
/// tool calls. Exit codes: 0 no rule acted; 1 a rule acted; 2 there is no answer for another reason.
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
    /// What the model is asked; `-` reads it from the standard input
    prompt: String,
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
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let pack = packs::load_in_or(&options.packs, options.tools.as_deref())?;
    let prompt = prompt(&options.prompt)?;
    let (show, shown) = unbounded_channel();
    let mut provider = provider(options, &show)?;
    let mut tools = tools(options)?;
    let (kept, mut recorder) = taken_up(options)?;
    let (session, lost) = kept.session(&pack);
    lost.iter().for_each(tell_lost);
    let mut processor = Processor::new(session, Hooks::default(), settings(options));
    processor.set_origin(Origin {
        model: options.models.first().cloned(),
        provider: options
            .provider
            .and_then(ProviderName::api)
            .map(|api| api.name().to_owned()),
        ..Origin::default()
    });
    let mut screen = Screen::new(pack, options.format.format);
    let request = request(options, &kept, &prompt);
    screen.begin(&prompt, kept.messages().len())?;
    let cancel = Cancel::default();
    if let Some(recorder) = &mut recorder {
        let prompt = Message::user(prompt.as_str());
        let written = recorder.prompt(&prompt, kept.waiting(), processor.session());
        written.map_err(|error| Stop::Because(error.to_string()))?;
    }
    let turn = Turn::new(&mut processor, &mut *provider, &mut *tools, cancel.clone());
    let turn = turn.max_replies(options.max_replies);
    let turn = match &mut recorder {
        Some(recorder) => turn.record(recorder),
        None => turn,
    };
    let mut watch = |step: &Step| {
        // It fails only where nobody shows anything any more.
        show.send(Shown::Step(step.clone())).ok();
    };
    let running = turn.run(request, "turn", &mut watch);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| Stop::Because(format!("no runtime: {error}")))?;
    let outcome = runtime.block_on(watched(running, shown, &mut screen, &cancel))?;
    screen.end(&outcome)?;
    if let Some(recorder) = recorder.filter(Recorder::is_degraded) {
        let why = recorder.error().map(StoreError::to_string);
        let why = why.unwrap_or_default();
        return Err(Stop::Because(format!("the session is not whole: {why}")));
    }
    ended(&outcome, screen.has_acted())
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
fn taken_up(options: &Options) -> Result<(Kept, Option<Recorder>), Stop> {
    let Some(path) = &options.session else {
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

/// Runs the turn and shows what comes of it. An interrupt cancels it; a second one is the system's.
async fn watched(
    running: impl Future<Output = TurnOutcome>,
    mut shown: UnboundedReceiver<Shown>,
    screen: &mut Screen,
    cancel: &Cancel,
) -> Result<TurnOutcome, Stop> {
    let mut running = std::pin::pin!(running);
    let mut interrupt = std::pin::pin!(tokio::signal::ctrl_c());
    let mut is_interrupted = false;
    let outcome = loop {
        tokio::select! {
            biased;
            Some(what) = shown.recv() => screen.show(&what)?,
            outcome = &mut running => break outcome,
            interrupted = &mut interrupt, if !is_interrupted => {
                is_interrupted = true;
                // Where interrupts cannot be heard they do what they always do.
                if interrupted.is_ok() {
                    cancel.cancel();
                }
            }
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
        _ if has_acted => Ok(Outcome::Findings),
        _ => Ok(Outcome::Clean),
    }
}

fn settings(options: &Options) -> Settings {
    Settings {
        session: "run".to_owned(),
        signs_reasoning: options.provider == Some(ProviderName::AnthropicMessages),
        fallback: Chains::default().any(options.models.iter().skip(1).cloned()),
        ..Settings::default()
    }
}

fn request(options: &Options, kept: &Kept, prompt: &str) -> Request {
    let system = options.system.iter();
    let system = system.map(|text| Message::new(Role::System, text.as_str()));
    let messages = system.chain(kept.messages());
    let messages = messages.chain([Message::user(prompt)]);
    let messages = messages.chain(kept.waiting().iter().cloned()).collect();
    let model = options
        .models
        .first()
        .cloned()
        .unwrap_or_else(|| "scripted".to_owned());
    let mut request = Request::new(model, messages);
    request.max_tokens = options.max_tokens;
    request
}

fn prompt(argument: &str) -> Result<String, Stop> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut prompt = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut prompt);
    read.map_err(|error| Stop::Because(format!("the prompt cannot be read: {error}")))?;
    Ok(prompt)
}

fn provider(options: &Options, show: &UnboundedSender<Shown>) -> Result<Box<dyn Provider>, Stop> {
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
    let endpoint = endpoint(options, api).map_err(|error| Stop::Because(error.to_string()))?;
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

fn endpoint(options: &Options, api: Api) -> Result<Endpoint, EndpointError> {
    let base = options.base_url.as_deref();
    let endpoint = match base {
        Some(base) => Endpoint::at(api, base)?,
        None => Endpoint::new(api)?,
    };
    let variable = options.key_env.as_deref().unwrap_or(api.key_variable());
    // A server of one's own may want no key.
    let is_needed =
        options.key_env.is_some() || base.is_none() || std::env::var_os(variable).is_some();
    let endpoint = match is_needed {
        true => endpoint.key_from_env(variable)?,
        false => endpoint,
    };
    let members = options.members.iter().cloned();
    Ok(members.fold(endpoint, |endpoint, (name, value)| {
        endpoint.member(name, value)
    }))
}

#[cfg(unix)]
fn tools(options: &Options) -> Result<Box<dyn Tools>, Stop> {
    let Some(path) = &options.tools else {
        return Ok(Box::new(NoTools));
    };
    let folder = ttsr::harness::tools::Folder::open(path);
    let folder = folder.map_err(|error| Stop::Because(format!("{}: {error}", path.display())))?;
    Ok(Box::new(folder))
}

#[cfg(not(unix))]
fn tools(options: &Options) -> Result<Box<dyn Tools>, Stop> {
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
