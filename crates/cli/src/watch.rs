//! `ttsr watch`: applies rules to the sessions of a running OpenCode server.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::ser::SerializeStruct;
use ttsr::harness::fallback::{Chains, ForegroundFallback};
use ttsr::harness::{Cancel, Failure};
use ttsr::{Action, Channel, Pack};
use ttsr_agent::opencode::{
    self, ActionJournal, ActionSupport, Backoff, Server, ServerAction, ServerApi, SessionWatcher,
    StopAction, WatchEvent, WatchOptions, WatchedDecision,
};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::output::{Escaped, OutputRecord, RecordWriter, STRONG, print_message};
use crate::{CommandError, ExitStatus, load};

/// Apply rules to the sessions of a running OpenCode server
///
/// A rule that cuts stops the session, deletes the message and, if the rule retries, sends its message to the
/// model. A rule that injects sends its message without stopping. All other verdicts are only reported. The
/// command runs until it is interrupted and reconnects when the connection breaks. The server's password is read
/// from OPENCODE_SERVER_PASSWORD and its user from OPENCODE_SERVER_USERNAME.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server, such as `http://127.0.0.1:4096`
    #[arg(long, value_name = "URL")]
    url: String,
    /// The interface through which sessions are controlled
    #[arg(long, value_name = "API", default_value = "classic")]
    api: ApiArg,
    /// Only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only report the actions, take none
    #[arg(long)]
    dry_run: bool,
    /// Fallback models, in order, for one agent or for all; may be repeated
    ///
    /// When a provider refuses, the request is stopped and the last user message is sent again to the next model
    /// that was not tried in the session. Rules with the action `fallback` recognize a refusal; if no loaded pack has
    /// one, `opencode/foreground-fallback` is added. Classic interface only.
    #[arg(long, value_name = "[AGENT=]PROVIDER/MODEL[,...]")]
    fallback: Vec<String>,
    /// The journal of actions in progress, which are completed after a restart
    ///
    /// [default: `ttsr/watch/HOST-PORT.json` in $XDG_STATE_HOME, or in `~/.local/state`]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Maximum number of consecutive attempts to reach the server [default: unlimited]
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApiArg {
    /// `/global/event` and `/session/…`: used by OpenCode's own programs
    Classic,
    /// `/api/…`: tool calls can be stopped before they run
    Next,
}

impl ApiArg {
    fn api(self) -> ServerApi {
        match self {
            ApiArg::Classic => ServerApi::Classic,
            ApiArg::Next => ServerApi::Next,
        }
    }
}

const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USER: &str = "OPENCODE_SERVER_USERNAME";

/// The pack whose rules recognize a refusal, if no other pack has such a rule.
const REFUSALS: &str = "opencode/foreground-fallback";

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let api = options.api.api();
    let because = |error: &dyn std::fmt::Display| CommandError::Message(error.to_string());
    let mut server = Server::new(&options.url, api).map_err(|error| because(&error))?;
    let password = std::env::var(PASSWORD).ok();
    if let Some(password) = &password {
        let user = std::env::var(USER);
        server = server.with_password(user.as_deref().unwrap_or("opencode"), password);
    }
    let failed = |failure: Failure| explain(&failure, password.is_some(), options);
    let chains = chains(&options.fallback)?;
    let pack = load::load_here(&options.packs, None, &load::OFF_BY_DEFAULT)?;
    let reach = ActionSupport::from_pack(&pack, api, !chains.is_empty());
    let watch = rules(options, pack, chains)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| because(&error))?;
    let journal = match options.dry_run {
        true => None,
        false => journal(options, &server)?,
    };
    let watching = WatchOptions {
        backoff: Backoff {
            tries: options.tries,
            ..Backoff::default()
        },
        journal,
        ..WatchOptions::default()
    };
    let ended = runtime.block_on(observe(options, &server, watch, watching, &reach));
    // Actions in progress must not delay the end of the process.
    runtime.shutdown_timeout(Duration::ZERO);
    match ended {
        Ok(()) => Ok(ExitStatus::Clean),
        Err(WatchEnd::Output(error)) => Err(error.into()),
        Err(WatchEnd::Server(failure)) => Err(failed(failure)),
    }
}

/// The reason why watching ended early.
enum WatchEnd {
    Output(io::Error),
    Server(Failure),
}

/// Watches and prints until the output is closed or the user interrupts.
async fn observe(
    options: &Options,
    server: &Server,
    mut watch: SessionWatcher,
    watching: WatchOptions,
    reach: &ActionSupport,
) -> Result<(), WatchEnd> {
    let mut out = RecordWriter::new(options.format.format);
    let mut counts = VerdictCounts::default();
    let cancel = Cancel::default();
    let mut written = out
        .write(&ActionSupportRecord(reach))
        .and_then(|()| out.flush());
    if let Some(session) = &options.session {
        server
            .check_session(session)
            .await
            .map_err(WatchEnd::Server)?;
    }
    let report = |seen: &WatchEvent| {
        counts.add(seen);
        let telling = out.write(&WatchRecord(seen)).and_then(|()| out.flush());
        if telling.is_err() && written.is_ok() {
            // The reader of the output is gone.
            cancel.cancel();
            written = telling;
        }
    };
    let watching = opencode::watch(server, &mut watch, watching, cancel.clone(), report);
    let ended = tokio::select! {
        ended = watching => ended.map_err(WatchEnd::Server),
        Ok(()) = tokio::signal::ctrl_c() => Ok(()),
    };
    if options.dry_run && written.is_ok() {
        let summary = DryRunSummary { counts, reach };
        written = out.write(&summary).and_then(|()| out.flush());
    }
    written.map_err(WatchEnd::Output)?;
    ended
}

fn rules(options: &Options, pack: Pack, chains: Chains) -> Result<SessionWatcher, CommandError> {
    let has_fallback = !chains.is_empty();
    let knows_refusals = |pack: &Pack| {
        let mut rules = pack.rules().iter();
        rules.any(|rule| rule.action == Action::Fallback)
    };
    let refusals = match has_fallback && !knows_refusals(&pack) {
        true => Pack::builtin(REFUSALS)
            .map_err(|error| CommandError::Message(format!("{REFUSALS}: {error}")))?,
        false => pack.clone(),
    };
    let mut watch = SessionWatcher::new(pack, options.api.api());
    if has_fallback {
        watch = watch.fallback(ForegroundFallback::new(&refusals, chains));
    }
    if let Some(session) = &options.session {
        watch = watch.only(session);
    }
    if options.dry_run {
        watch = watch.dry_run();
    }
    Ok(watch)
}

/// Parses the chains of models, each `[AGENT=]PROVIDER/MODEL[,...]`.
fn chains(written: &[String]) -> Result<Chains, CommandError> {
    let mut chains = Chains::default();
    for chain in written {
        let (agent, models) = match chain.split_once('=') {
            Some((agent, models)) => (Some(agent), models),
            None => (None, chain.as_str()),
        };
        let models: Vec<&str> = models.split(',').map(str::trim).collect();
        let bad = models.iter().find(|model| {
            let parts = model.split_once('/');
            parts.is_none_or(|(provider, model)| provider.is_empty() || model.is_empty())
        });
        if let Some(bad) = bad {
            return Err(CommandError::Message(format!(
                "--fallback: `{}` is not PROVIDER/MODEL, such as `anthropic/claude-opus-4-5`",
                Escaped(bad)
            )));
        }
        chains = match agent {
            Some(agent) => chains.chain(agent, models),
            None => chains.any(models),
        };
    }
    Ok(chains)
}

/// Opens the journal of the server. Returns `None` if there is no folder for it.
fn journal(options: &Options, server: &Server) -> Result<Option<ActionJournal>, CommandError> {
    let folder = || {
        let state = std::env::var_os("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.filter(|state| state.is_absolute());
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".local/state"));
        Some(state.or_else(home)?.join("ttsr/watch"))
    };
    let path = match &options.journal {
        Some(path) => path.clone(),
        None => match folder() {
            Some(folder) => folder.join(file_name(&options.url, server.api())),
            None => return Ok(None),
        },
    };
    match ActionJournal::open(path) {
        Ok(journal) => Ok(Some(journal)),
        Err(failure) if failure.kind() == "taken" || options.journal.is_some() => {
            Err(CommandError::Message(failure.message().to_owned()))
        }
        Err(failure) => {
            print_message(&format_args!(
                "{}; acts are not completed after a restart",
                Escaped(failure.message())
            ));
            Ok(None)
        }
    }
}

/// Returns the file name of a server's journal: letters, digits, dots and `-`.
fn file_name(url: &str, api: ServerApi) -> String {
    let place = url
        .trim()
        .trim_start_matches("http://")
        .trim_end_matches('/');
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c,
        false => '-',
    };
    let place: String = place.chars().map(plain).collect();
    match api {
        ServerApi::Next => format!("{place}-next.json"),
        _ => format!("{place}.json"),
    }
}

/// Returns the error message with the user's remedy.
fn explain(failure: &Failure, has_password: bool, options: &Options) -> CommandError {
    let url = Escaped(&options.url);
    let session = options.session.as_deref().unwrap_or_default();
    CommandError::Message(match (failure.kind(), has_password) {
        ("401", false) => format!(
            "{url} requires a password: set {PASSWORD} (and {USER}, if the user is not `opencode`)"
        ),
        ("401", true) => format!("{url} rejects the password in {PASSWORD} or the user in {USER}"),
        ("404", _) if failure.message().contains("/session/") && !session.is_empty() => {
            format!("--session: {url} has no session `{}`", Escaped(session))
        }
        ("taken", _) => failure.message().to_owned(),
        _ => failure.to_string(),
    })
}

/// The first line: the actions that the rules can take.
struct ActionSupportRecord<'a>(&'a ActionSupport);

impl Serialize for ActionSupportRecord<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct InactiveRules<'a> {
            rules: usize,
            because: &'a str,
        }
        let others = self.0.others.iter();
        let others = others.map(|(rules, because)| InactiveRules {
            rules: *rules,
            because,
        });
        let mut fields = to.serialize_struct("rules", 4)?;
        fields.serialize_field("event", "rules")?;
        fields.serialize_field("rules", &self.0.rules)?;
        fields.serialize_field("acting", &self.0.acting)?;
        fields.serialize_field("others", &others.collect::<Vec<_>>())?;
        fields.end()
    }
}

impl OutputRecord for ActionSupportRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.0)
    }
}

/// The number of verdicts by kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct VerdictCounts {
    /// Verdicts that would have been acted on.
    acting: u64,
    /// Verdicts that would have come after the tool call ran.
    late: u64,
    /// Verdicts that would only have been reported.
    reported: u64,
}

impl VerdictCounts {
    fn add(&mut self, seen: &WatchEvent) {
        let WatchEvent::Decision(judged) = seen else {
            return;
        };
        let is_told = matches!(judged.decision.action, Action::Warn | Action::Observe);
        match (judged.is_unsupported || is_told, judged.is_late) {
            (true, _) => self.reported += 1,
            (_, true) => self.late += 1,
            _ => self.acting += 1,
        }
    }
}

/// The last line of a dry run.
struct DryRunSummary<'a> {
    counts: VerdictCounts,
    reach: &'a ActionSupport,
}

impl Serialize for DryRunSummary<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let VerdictCounts {
            acting,
            late,
            reported,
        } = self.counts;
        let mut fields = to.serialize_struct("summary", 4)?;
        fields.serialize_field("event", "summary")?;
        fields.serialize_field("acting", &acting)?;
        fields.serialize_field("late", &late)?;
        fields.serialize_field("reported", &reported)?;
        fields.end()
    }
}

impl OutputRecord for DryRunSummary<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let VerdictCounts {
            acting,
            late,
            reported,
        } = self.counts;
        writeln!(
            out,
            "verdicts: {acting} to act on, {late} after the tool call ran, {reported} only reported"
        )?;
        writeln!(out, "{}", self.reach)
    }
}

struct WatchRecord<'a>(&'a WatchEvent);

/// The members of a JSON line. Absent ones are omitted.
#[derive(Default, Serialize)]
struct WatchFields<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(flatten)]
    verdict: Option<VerdictFields<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    does: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    question: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unscanned_bytes: Option<u64>,
    #[serde(rename = "again_in", skip_serializing_if = "Option::is_none")]
    retry_in_ms: Option<u64>,
}

/// The members of a verdict.
#[derive(Serialize)]
struct VerdictFields<'a> {
    part: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    action: Action,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    decided: u64,
    turn: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<&'a str>,
    late: bool,
    beyond: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    midway: Option<bool>,
}

impl<'a> WatchFields<'a> {
    fn from_seen(seen: &'a WatchEvent) -> WatchFields<'a> {
        match seen {
            WatchEvent::Disconnected { why, retry_in_ms } => WatchFields {
                event: "disconnected",
                reason: Some(why),
                retry_in_ms: Some(*retry_in_ms),
                ..WatchFields::default()
            },
            WatchEvent::Message { session, message } => WatchFields {
                event: "message",
                session: Some(session),
                message: Some(message),
                ..WatchFields::default()
            },
            WatchEvent::Malformed { bytes } => WatchFields {
                event: "malformed",
                unscanned_bytes: Some(*bytes),
                ..WatchFields::default()
            },
            WatchEvent::Decision(judged) => WatchFields::judged(judged),
            WatchEvent::Started(action) => WatchFields::action("act", action),
            WatchEvent::Done(action) => WatchFields::action("done", action),
            WatchEvent::Failed { action, why } => WatchFields {
                reason: Some(why),
                ..WatchFields::action("failed", action)
            },
            WatchEvent::Yielded { action, why } => WatchFields {
                reason: Some(why),
                ..WatchFields::action("yielded", action)
            },
            WatchEvent::Refused {
                session,
                model: (provider, model),
            } => WatchFields {
                event: "refused",
                session: Some(session),
                model: Some(format!("{provider}/{model}")),
                ..WatchFields::default()
            },
            WatchEvent::Resumed(action) => WatchFields::action("resumed", action),
            WatchEvent::NoJournal { why } => WatchFields {
                event: "no-journal",
                reason: Some(why),
                ..WatchFields::default()
            },
            WatchEvent::Finish {
                session,
                message,
                reason,
                unscanned,
            } => WatchFields {
                event: "finish",
                session: Some(session),
                message: Some(message),
                reason: Some(reason),
                unscanned_bytes: Some(*unscanned),
                ..WatchFields::default()
            },
            WatchEvent::Question { session, question } => WatchFields {
                event: "question",
                session: Some(session),
                question: Some(question),
                ..WatchFields::default()
            },
            _ => WatchFields {
                event: "connected",
                ..WatchFields::default()
            },
        }
    }

    fn judged(judged: &'a WatchedDecision) -> WatchFields<'a> {
        WatchFields {
            event: "verdict",
            session: Some(&judged.session),
            message: Some(&judged.message),
            verdict: Some(VerdictFields {
                part: &judged.decision.part.name,
                channel: judged.decision.part.channel,
                tool: judged.decision.part.tool.as_deref(),
                rule: judged.decision.rule.as_deref(),
                limit: judged.decision.limit.as_deref(),
                action: judged.decision.action,
                end: judged.decision.end,
                decided: judged.decision.decided,
                turn: judged.decision.turn,
                suppressed: judged.decision.suppressed.as_deref(),
                late: judged.is_late,
                beyond: judged.is_unsupported,
                midway: judged.is_midway.then_some(true),
            }),
            says: Some(&judged.text),
            ..WatchFields::default()
        }
    }

    fn action(event: &'static str, action: &'a ServerAction) -> WatchFields<'a> {
        let fields = WatchFields {
            event,
            session: Some(action.session()),
            ..WatchFields::default()
        };
        match action {
            ServerAction::Stop(StopAction {
                message,
                delete,
                steer,
                session,
                to,
                ..
            }) => WatchFields {
                does: Some("stop"),
                message: Some(message),
                delete: Some(*delete),
                says: steer.as_ref().map(|prompt| prompt.text.as_str()),
                to: (to != session && steer.is_some()).then_some(to),
                ..fields
            },
            ServerAction::Switch {
                model: (provider, model),
                ..
            } => WatchFields {
                does: Some("switch"),
                model: Some(format!("{provider}/{model}")),
                ..fields
            },
            ServerAction::HandOver { .. } => WatchFields {
                does: Some("hand-over"),
                ..fields
            },
            ServerAction::AddFiles { .. } => WatchFields {
                does: Some("add-files"),
                ..fields
            },
            ServerAction::Inject { prompt, .. } => WatchFields {
                does: Some("inject"),
                says: Some(&prompt.text),
                ..fields
            },
            _ => fields,
        }
    }
}

impl Serialize for WatchRecord<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        WatchFields::from_seen(self.0).serialize(to)
    }
}

const CUT: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const SOFT: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

impl OutputRecord for WatchRecord<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.0 {
            WatchEvent::Connected => writeln!(out, "{GOOD}connected{GOOD:#}"),
            WatchEvent::Disconnected { why, retry_in_ms } => {
                let why = Escaped(why);
                writeln!(
                    out,
                    "{CUT}disconnected{CUT:#}: {why}; reconnecting in {retry_in_ms} ms"
                )
            }
            WatchEvent::Message { session, message } => {
                let (session, message) = (Escaped(session), Escaped(message));
                writeln!(out, "{FAINT}{session}: message {message} begins{FAINT:#}")
            }
            WatchEvent::Finish {
                session,
                message,
                reason,
                ..
            } => {
                let (session, message) = (Escaped(session), Escaped(message));
                let reason = Escaped(reason);
                writeln!(
                    out,
                    "{FAINT}{session}: message {message} ends: {reason}{FAINT:#}"
                )
            }
            WatchEvent::Malformed { bytes } => writeln!(
                out,
                "{CUT}malformed{CUT:#}: an event of {bytes} bytes cannot be parsed and was not scanned"
            ),
            WatchEvent::Decision(judged) => show_judged(judged, out),
            WatchEvent::Started(action) => show_action(action, out),
            WatchEvent::Done(action) => {
                writeln!(out, "{}: {GOOD}done{GOOD:#}", Escaped(action.session()))
            }
            WatchEvent::Failed { action, why } => {
                let session = Escaped(action.session());
                writeln!(out, "{session}: {CUT}failed{CUT:#}: {}", Escaped(why))
            }
            WatchEvent::Yielded { action, why } => {
                let session = Escaped(action.session());
                writeln!(out, "{session}: {SOFT}left alone{SOFT:#}: {}", Escaped(why))
            }
            WatchEvent::Refused {
                session,
                model: (provider, model),
            } => {
                let (provider, model) = (Escaped(provider), Escaped(model));
                writeln!(
                    out,
                    "{}: {CUT}the provider refused{CUT:#}; the next model is {provider}/{model}",
                    Escaped(session)
                )
            }
            WatchEvent::Resumed(action) => {
                write!(out, "{FAINT}from an earlier run: {FAINT:#}")?;
                show_action(action, out)
            }
            WatchEvent::NoJournal { why } => writeln!(out, "{SOFT}{}{SOFT:#}", Escaped(why)),
            WatchEvent::Question { session, question } => {
                let (session, question) = (Escaped(session), Escaped(question));
                writeln!(out, "{session}: question {question} waits for an answer")
            }
            _ => Ok(()),
        }
    }
}

fn show_judged(judged: &WatchedDecision, out: &mut dyn Write) -> io::Result<()> {
    let style = match (
        judged.decision.is_suppressed(),
        judged.decision.action.cuts(),
    ) {
        (true, _) => FAINT,
        (false, true) => CUT,
        (false, false) => SOFT,
    };
    write!(
        out,
        "{}: {style}{}{style:#} {STRONG}{}{STRONG:#} in {}",
        Escaped(&judged.session),
        judged.decision.action.name(),
        Escaped(judged.decision.rule_or_limit()),
        judged.decision.part.channel.map_or("", Channel::name),
    )?;
    if let Some(tool) = &judged.decision.part.tool {
        write!(out, " of {}", Escaped(tool))?;
    }
    write!(
        out,
        ", byte {}",
        judged.decision.end.unwrap_or(judged.decision.decided)
    )?;
    if judged.is_midway {
        write!(out, " counted from the connection")?;
    }
    if let Some(why) = &judged.decision.suppressed {
        write!(out, " (suppressed: {why})")?;
    }
    if judged.is_late {
        write!(
            out,
            " {SOFT}(too late: the tool is already running){SOFT:#}"
        )?;
    }
    if judged.is_unsupported {
        write!(
            out,
            " {SOFT}(not possible from outside: only reported){SOFT:#}"
        )?;
    }
    writeln!(out)?;
    match judged.text.is_empty() {
        true => Ok(()),
        false => writeln!(out, "    {}", Escaped(&judged.text)),
    }
}

fn show_action(action: &ServerAction, out: &mut dyn Write) -> io::Result<()> {
    let session = Escaped(action.session());
    match action {
        ServerAction::Stop(StopAction {
            message,
            delete,
            steer,
            to,
            ..
        }) => {
            write!(out, "{session}: {CUT}stop{CUT:#} {}", Escaped(message))?;
            if *delete {
                write!(out, ", delete it")?;
            }
            match steer {
                Some(_) if to != action.session() => writeln!(out, ", tell {}", Escaped(to)),
                Some(_) => writeln!(out, ", steer"),
                None => writeln!(out),
            }
        }
        ServerAction::Switch {
            model: (provider, model),
            ..
        } => {
            let (provider, model) = (Escaped(provider), Escaped(model));
            writeln!(out, "{session}: {SOFT}switch{SOFT:#} to {provider}/{model}")
        }
        ServerAction::HandOver { .. } => writeln!(out, "{session}: {SOFT}hand over{SOFT:#}"),
        ServerAction::AddFiles { .. } => writeln!(out, "{session}: {SOFT}add files{SOFT:#}"),
        _ => writeln!(out, "{session}: {SOFT}inject{SOFT:#}"),
    }
}
