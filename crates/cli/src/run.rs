//! `ttsr run`: runs one turn of an agent under rules, on a real or a scripted provider.
//!
//! It uses the same parts as a harness: a pack, a session, a processor, a provider and tools. The output is in
//! `run/screen.rs` and `run/line.rs`.

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
    AbortReason, AbortSource, AgentTurn, Cancel, End, Failure, Hooks, Message, NoTools, Processor,
    Provider, Request, Role, Scripted, ScriptedReply, Settings, Step, Tools, TurnOutcome,
};
#[cfg(unix)]
use ttsr::harness::{Tool, ToolCall, ToolFuture};
use ttsr::session::Lost;
use ttsr::{Event, Origin, Pack};
use ttsr_agent::handoff::{Handoff, HandoffTools, command, summary_prompt};
use ttsr_agent::providers::{Chain, Endpoint, EndpointError, ProviderApi, ProviderNotice};
use ttsr_agent::store::{OnFailure, ResumeState, SessionRecorder, Store, StoreError};
use ttsr_wire::Reader;

use crate::args::{FormatArg, WorkspaceArgs};
use crate::input::{self, InputProblems};
use crate::load::NOT_HERE;
use crate::output::print_message;
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, load};
use handoff::{EarlierSessions, RunSession};
use screen::TurnScreen;

/// Run one turn of an agent under rules
///
/// The reply is shown as the rules release it, with verdicts, messages to the model and tool calls.
/// Exit codes: 0 no rule acted; 1 a rule acted; 2 no answer for another reason.
/// Without `--pack`, `std/pii` and the built-in packs for OpenCode's own agents and tools are not loaded.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The provider [default: scripted, if `--script` is given]
    #[arg(long, value_name = "PROVIDER", required_unless_present = "scripts")]
    provider: Option<ProviderName>,
    /// The model; repeat it to name fallbacks, in order, for when a model cannot answer
    #[arg(long = "model", value_name = "MODEL")]
    models: Vec<String>,
    /// The URL before `/chat/completions`, `/responses` or `/messages` [default: that of OpenAI or Anthropic]
    #[arg(long, value_name = "URL")]
    base_url: Option<String>,
    /// The environment variable that has the API key [default: OPENAI_API_KEY or ANTHROPIC_API_KEY]
    #[arg(long, value_name = "NAME")]
    key_env: Option<String>,
    /// Replay recorded replies instead, in any format that `replay` reads; may be repeated
    ///
    /// Each request gets the next reply, in the order of the files.
    #[arg(long = "script", value_name = "FILE", conflicts_with_all = ["base_url", "key_env"])]
    scripts: Vec<PathBuf>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// Let the model read, write and edit files in this folder, and run commands there
    ///
    /// The first three tools cannot reach files outside the folder. Commands are not confined: they can do
    /// whatever the user can do. The folder is also the default of `--root`.
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
    /// The system prompt
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Maximum number of tokens per reply
    #[arg(long, value_name = "N")]
    max_tokens: Option<u32>,
    /// Time limit for a reply with all its attempts, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    reply_timeout: u64,
    /// Time limit for one attempt of a reply, in seconds; 0 for no limit
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    attempt_timeout: u64,
    /// Maximum number of replies in the turn; each round of tool calls needs one more
    #[arg(long, value_name = "N", default_value_t = 50)]
    max_replies: u32,
    /// An extra member of the request body, as JSON; may be repeated
    #[arg(long = "set", value_name = "NAME=JSON", value_parser = member)]
    members: Vec<(String, Value)>,
    /// Store the conversation in this file, and resume it if the file exists
    ///
    /// The file holds the messages, the state of the rules and the log, which `ttsr log FILE` shows.
    #[arg(long, value_name = "FILE")]
    session: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArg,
    /// Send the draft of a handoff to its new session at once, without review
    #[arg(long)]
    send_handoff: bool,
    /// The prompt; `-` reads it from the standard input [default: the draft of the session]
    ///
    /// `/handoff GOAL` asks the model to hand the work over to a new session, whose draft can then be edited.
    prompt: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ProviderName {
    /// OpenAI Chat Completions and compatible servers
    OpenaiChat,
    /// OpenAI Responses
    OpenaiResponses,
    /// Anthropic Messages
    AnthropicMessages,
    /// The replies of `--script`
    Scripted,
}

impl ProviderName {
    fn api(self) -> Option<ProviderApi> {
        match self {
            ProviderName::OpenaiChat => Some(ProviderApi::OpenAiChat),
            ProviderName::OpenaiResponses => Some(ProviderApi::OpenAiResponses),
            ProviderName::AnthropicMessages => Some(ProviderApi::AnthropicMessages),
            ProviderName::Scripted => None,
        }
    }
}

/// An item to print.
#[derive(Debug)]
enum TurnOutput {
    Step(Step),
    Notice(ProviderNotice),
    /// Files sent with the prompt.
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

/// Maximum number of sessions in one run if handoffs are sent at once.
const MAX_SESSIONS: usize = 10;

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let key = environment::take_key(options)?;
    let pack = load::load_here(&options.packs, options.tools.as_deref(), &NOT_HERE)?;
    let mut place = RunSession::from_options(options);
    let mut prompt = match &options.prompt {
        Some(argument) => read_prompt(argument)?,
        None => place.draft()?,
    };
    let (show, shown) = unbounded_channel();
    let mut host = TurnHost {
        options,
        provider: provider(options, key.as_deref(), &show)?,
        tools: tools(options, key)?,
        screen: TurnScreen::new(pack.clone(), options.format.format),
        pack,
        sessions: EarlierSessions::next_to_session(&place),
        cancel: Cancel::default(),
        show,
        shown,
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| CommandError::Message(format!("no runtime: {error}")))?;
    // A separate task, so that a busy turn cannot delay the interrupt.
    runtime.spawn(cancel_on_interrupt(host.cancel.clone()));
    let mut is_draft = options.prompt.is_none();
    for number in 1.. {
        let (outcome, handoff) = host.turn(&runtime, &place, &prompt)?;
        if is_draft {
            let forgotten = place.forget_draft();
            forgotten.map_err(|error| {
                CommandError::Message(format!("the draft cannot be deleted: {error}"))
            })?;
        }
        let Some(handoff) = handoff else {
            return host.finish(&outcome);
        };
        place = handoff::open(&handoff, &place, &mut host.screen)?;
        if !options.send_handoff || number == MAX_SESSIONS {
            return host.finish(&outcome);
        }
        prompt = handoff.prompt();
        is_draft = true;
    }
    Ok(ExitStatus::Clean)
}

/// The state shared by the turns of one run.
struct TurnHost<'a> {
    options: &'a Options,
    pack: Pack,
    provider: Box<dyn Provider>,
    tools: Box<dyn Tools>,
    sessions: EarlierSessions,
    screen: TurnScreen,
    cancel: Cancel,
    show: UnboundedSender<TurnOutput>,
    shown: UnboundedReceiver<TurnOutput>,
}

impl TurnHost<'_> {
    /// Returns the exit status after the last turn.
    fn finish(&self, outcome: &TurnOutcome) -> Result<ExitStatus, CommandError> {
        let ended = ended(outcome, self.screen.has_acted())?;
        let malformed = self.screen.malformed();
        if malformed == 0 {
            return Ok(ended);
        }
        print_message(&format_args!(
            "{} from the provider, not scanned",
            Quantity(malformed, "malformed event")
        ));
        Ok(ExitStatus::Incomplete)
    }

    /// Runs one turn of that session and returns its outcome and handoff.
    fn turn(
        &mut self,
        runtime: &Runtime,
        place: &RunSession,
        prompt: &str,
    ) -> Result<(TurnOutcome, Option<Handoff>), CommandError> {
        let options = self.options;
        let (kept, mut recorder) = resume(place)?;
        let (conversation, lost) = kept.conversation(&self.pack);
        lost.iter().for_each(tell_lost);
        let mut processor =
            Processor::new(conversation, Hooks::default(), settings(options, place));
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
            self.screen.show(&TurnOutput::Attached(files.clone()))?;
        }
        let record = |recorder: &mut SessionRecorder| {
            if let Some(files) = &files {
                recorder.message(files, processor.conversation())?;
            }
            recorder.message(&asked, processor.conversation())
        };
        let recorded = recorder.as_mut().map_or(Ok(()), record);
        recorded.map_err(|error| CommandError::Message(error.to_string()))?;
        let new: Vec<Message> = files.into_iter().chain([asked]).collect();
        let request = request(options, &earlier, &new);
        let is_handing = options.session.is_some()
            || options.send_handoff
            || goal.is_some()
            || prompt.contains(HANDOFF_MARKER);
        let mut handing = None;
        let tools: &dyn Tools = match is_handing {
            true => handing.insert(HandoffTools::new(&*place.id, &*self.tools, &self.sessions)),
            false => &*self.tools,
        };
        let turn = AgentTurn::new(
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
            // Sending fails only if the receiver is gone and nothing is printed any more.
            self.show.send(TurnOutput::Step(step.clone())).ok();
        };
        let running = turn.run(request, "turn", &mut watch);
        let outcome = runtime.block_on(run_shown(running, &mut self.shown, &mut self.screen))?;
        let handoff = handing.and_then(|mut tools| tools.take_handoff());
        self.screen.end(&outcome)?;
        if let Some(recorder) = recorder.filter(SessionRecorder::is_degraded) {
            let why = recorder.error().map(StoreError::to_string);
            let why = why.unwrap_or_default();
            return Err(CommandError::Message(format!(
                "the session file is incomplete: {why}"
            )));
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
        true => "has changed",
        false => "is in no loaded pack",
    };
    let rule = crate::output::Escaped(&lost.rule);
    print_message(&format_args!(
        "{rule} {why}: its state in this session is discarded"
    ));
}

/// Returns the content of the session file, if there is one, and the recorder for what follows.
fn resume(place: &RunSession) -> Result<(ResumeState, Option<SessionRecorder>), CommandError> {
    let Some(path) = &place.file else {
        return Ok((ResumeState::default(), None));
    };
    let opened = Store::open(path.clone());
    let (store, kept) = opened.map_err(|error| CommandError::Message(error.to_string()))?;
    let gone = kept.damaged() + kept.missing();
    if gone > 0 {
        print_message(&format_args!(
            "{}: {} of the session cannot be read",
            path.display(),
            Quantity(gone, "record")
        ));
    }
    // A user who names a file expects all messages to be in it, so a failed write stops the turn.
    let recorder = SessionRecorder::new(store, OnFailure::Stop);
    Ok((kept, Some(recorder)))
}

/// Cancels the turn at the first interrupt. The second one ends the process.
async fn cancel_on_interrupt(cancel: Cancel) {
    // If the handler cannot be installed, interrupts keep their default effect.
    if tokio::signal::ctrl_c().await.is_ok() {
        cancel.cancel();
        if tokio::signal::ctrl_c().await.is_ok() {
            std::process::exit(130);
        }
    }
}

/// Runs the turn and prints its steps.
async fn run_shown(
    running: impl Future<Output = TurnOutcome>,
    shown: &mut UnboundedReceiver<TurnOutput>,
    screen: &mut TurnScreen,
) -> Result<TurnOutcome, CommandError> {
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

/// Returns the exit status of a turn. A cut by a rule is an expected result; a failed provider is an error.
fn ended(outcome: &TurnOutcome, has_acted: bool) -> Result<ExitStatus, CommandError> {
    match &outcome.end {
        End::Aborted {
            reason,
            source,
            detail,
        } if !matches!(source, AbortSource::Rule { .. }) => {
            let detail = match (reason, detail.as_str()) {
                (AbortReason::User, _) => "interrupted",
                (_, "") => reason.name(),
                (_, detail) => detail,
            };
            print_message(&format_args!(
                "no answer: {}",
                crate::output::Escaped(detail)
            ));
            Ok(ExitStatus::Incomplete)
        }
        End::Truncated { reason } => {
            print_message(&format_args!(
                "the answer is truncated: the model reached its limit ({})",
                crate::output::Escaped(reason)
            ));
            Ok(ExitStatus::Incomplete)
        }
        _ if has_acted => Ok(ExitStatus::Findings),
        _ => Ok(ExitStatus::Clean),
    }
}

fn settings(options: &Options, place: &RunSession) -> Settings {
    Settings {
        session: place.id.clone(),
        reply: seconds(options.reply_timeout),
        attempt: seconds(options.attempt_timeout),
        signs_reasoning: options.provider == Some(ProviderName::AnthropicMessages),
        fallback: Chains::default().any(options.models.iter().skip(1).cloned()),
        ..Settings::default()
    }
}

/// Returns a time limit; 0 means no limit.
fn seconds(seconds: u64) -> Option<Duration> {
    (seconds > 0).then(|| Duration::from_secs(seconds))
}

fn request(options: &Options, earlier: &[Message], new: &[Message]) -> Request {
    let system = options.system.iter();
    let system = system.map(|text| Message::new(Role::System, text.as_str()));
    let said = earlier.iter().chain(new).cloned();
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

fn read_prompt(argument: &str) -> Result<String, CommandError> {
    if argument != "-" {
        return Ok(argument.to_owned());
    }
    let mut prompt = String::new();
    let read = std::io::stdin().lock().read_to_string(&mut prompt);
    read.map_err(|error| CommandError::Message(format!("the prompt cannot be read: {error}")))?;
    Ok(prompt)
}

/// Returns the name of the environment variable that has the key.
fn key_variable(options: &Options) -> Option<&str> {
    let api = options.provider.and_then(ProviderName::api)?;
    Some(options.key_env.as_deref().unwrap_or(api.key_variable()))
}

fn provider(
    options: &Options,
    key: Option<&str>,
    show: &UnboundedSender<TurnOutput>,
) -> Result<Box<dyn Provider>, CommandError> {
    let Some(api) = options.provider.and_then(ProviderName::api) else {
        return Ok(Box::new(Scripted::new(scripts(&options.scripts)?)));
    };
    if !options.scripts.is_empty() {
        return Err(CommandError::Message(format!(
            "`--script` cannot be used with the provider {}",
            api.name()
        )));
    }
    if options.models.is_empty() {
        return Err(CommandError::Message(format!(
            "the provider {} needs a `--model`",
            api.name()
        )));
    }
    let endpoint =
        endpoint(options, api, key).map_err(|error| CommandError::Message(error.to_string()))?;
    let watch = {
        let show = show.clone();
        Arc::new(move |notice: &ProviderNotice| {
            show.send(TurnOutput::Notice(notice.clone())).ok();
        })
    };
    let notify = Arc::clone(&watch);
    let endpoint = endpoint.watch(move |notice| notify(notice));
    let chain = Chain::new(endpoint.clone()).watch(move |notice| watch(notice));
    let further = options.models.iter().skip(1);
    Ok(Box::new(further.fold(chain, |chain, model| {
        chain.then(model, endpoint.clone())
    })))
}

fn endpoint(
    options: &Options,
    api: ProviderApi,
    key: Option<&str>,
) -> Result<Endpoint, EndpointError> {
    let base = options.base_url.as_deref();
    let endpoint = match base {
        Some(base) => Endpoint::at(api, base)?,
        None => Endpoint::new(api)?,
    };
    let variable = options.key_env.as_deref().unwrap_or(api.key_variable());
    // A server named by the user may need no key.
    let is_needed = options.key_env.is_some() || base.is_none();
    let endpoint = match key {
        Some(key) => endpoint.key(key)?,
        // The variable is missing; this call returns the error message.
        None if is_needed => endpoint.key_from_env(variable)?,
        None => endpoint,
    };
    let members = options.members.iter().cloned();
    Ok(members.fold(endpoint, |endpoint, (name, value)| {
        endpoint.member(name, value)
    }))
}

#[cfg(unix)]
fn tools(options: &Options, key: Option<String>) -> Result<Box<dyn Tools>, CommandError> {
    let Some(path) = &options.tools else {
        return Ok(Box::new(NoTools));
    };
    let folder = ttsr_agent::tools::WorkingFolder::open(path);
    let folder =
        folder.map_err(|error| CommandError::Message(format!("{}: {error}", path.display())))?;
    // Without the path of this program there is no supervisor; containment is then up to the system.
    let folder = match std::env::current_exe() {
        Ok(program) => folder.supervisor(program),
        Err(_) => folder,
    };
    Ok(Box::new(KeyMaskingTools { tools: folder, key }))
}

/// Masks the key in the results of tools: a command may find it in a file.
#[cfg(unix)]
struct KeyMaskingTools<T> {
    tools: T,
    key: Option<String>,
}

#[cfg(unix)]
impl<T: Tools> Tools for KeyMaskingTools<T> {
    fn tools(&self) -> Vec<Tool> {
        self.tools.tools()
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        self.tools.is_concurrent(tool)
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        // A shorter key could be part of ordinary words.
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
fn tools(options: &Options, _key: Option<String>) -> Result<Box<dyn Tools>, CommandError> {
    match options.tools {
        None => Ok(Box::new(NoTools)),
        Some(_) => Err(CommandError::Message(
            "tools are not available on this system".to_owned(),
        )),
    }
}

/// Returns the recorded replies, in the order of the files and, within a file, of their beginnings.
fn scripts(paths: &[PathBuf]) -> Result<Vec<ScriptedReply>, CommandError> {
    let mut problems = InputProblems::default();
    let mut scripts = Vec::new();
    for input in input::inputs(paths, &mut problems) {
        let Some(mut blocks) = input.open(&mut problems) else {
            continue;
        };
        let mut replies = ScriptedReplies::default();
        let mut reader = Reader::new(&input.name);
        while let Some(block) = blocks.next(&mut problems) {
            reader.push(block, &mut |name, event| replies.add(name, event));
        }
        reader.finish(&mut |name, event| replies.add(name, event));
        if reader.format().is_none() {
            problems.report(&input.name, &"not a recording of a known format");
        }
        scripts.extend(replies.into_scripts());
    }
    if problems.any || scripts.is_empty() {
        return Err(CommandError::Message(
            "there is no script to replay".to_owned(),
        ));
    }
    // The last script repeats, so a turn that needs more replies must end with an error.
    let over = Failure::new("script", "the script ended before the turn did");
    scripts.push(ScriptedReply::default().fail(over));
    Ok(scripts)
}

/// Recorded replies by stream name.
#[derive(Default)]
struct ScriptedReplies(VecDeque<(String, Vec<Event>)>);

impl ScriptedReplies {
    fn add(&mut self, name: &str, event: Event) {
        let known = self.0.iter().rposition(|(other, _)| other == name);
        let at = known.unwrap_or_else(|| {
            self.0.push_back((name.to_owned(), Vec::new()));
            self.0.len() - 1
        });
        self.0[at].1.push(event);
    }

    fn into_scripts(self) -> impl Iterator<Item = ScriptedReply> {
        self.0.into_iter().map(|(_, mut events)| {
            // A recording that ended early also ends early when it is replayed.
            events.retain(
                |event| !matches!(event, Event::Finish { reason } if reason == "truncated"),
            );
            ScriptedReply::from(events)
        })
    }
}

fn member(text: &str) -> Result<(String, Value), String> {
    let (name, value) = text.split_once('=').ok_or("write NAME=JSON")?;
    let value =
        serde_json::from_str(value).map_err(|error| format!("`{value}` is not JSON: {error}"))?;
    Ok((name.to_owned(), value))
}
