//! `ttsr watch`: rules over a running OpenCode server.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde::Serialize;
use serde::ser::SerializeStruct;
use ttsr::harness::fallback::{Chains, Foreground};
use ttsr::harness::{Cancel, Failure};
use ttsr::{Action, Channel, Pack};
use ttsr_agent::opencode::{
    self, Act, Api, Backoff, Journal, Judged, Reach, Seen, Server, Watch, Watching,
};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::output::{Escaped, Out, Record, STRONG, tell};
use crate::{Outcome, Stop, packs};

/// Hold rules against what the sessions of a running OpenCode server write, and act on them
///
/// A rule that cuts stops the session, deletes what it wrote and, if it retries, says its message. A rule that
/// injects says it without stopping. Everything else is reported. Runs until it is stopped, and comes back when
/// the connection breaks. The password of a server is read from OPENCODE_SERVER_PASSWORD, its user from
/// OPENCODE_SERVER_USERNAME.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The server, such as `http://127.0.0.1:4096`
    #[arg(long, value_name = "URL")]
    url: String,
    /// The interface that its sessions are driven through
    #[arg(long, value_name = "API", default_value = "classic")]
    api: ApiArg,
    /// Only that session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Only report what would be done
    #[arg(long)]
    dry_run: bool,
    /// The models that take over where a provider refuses, in order, for one agent or for all; may be repeated
    ///
    /// The refused request is stopped, and the last user message sent again to the next model that was not tried
    /// in the session. The rules with the action `fallback` say what a refusal is; without one among the packs,
    /// `opencode/foreground-fallback` is added. Classic interface only.
    #[arg(long, value_name = "[AGENT=]PROVIDER/MODEL[,...]")]
    fallback: Vec<String>,
    /// Where acts under way are recorded, so that they are completed after a restart
    ///
    /// [default: `ttsr/watch/HOST-PORT.json` in the folder that XDG_STATE_HOME names, or in `~/.local/state`]
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
    /// Most tries in a row to reach the server [default: for ever]
    #[arg(long, value_name = "N")]
    tries: Option<u32>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ApiArg {
    /// `/global/event` and `/session/…`: what OpenCode's own programs use
    Classic,
    /// `/api/…`: tool calls can be stopped before they run
    Next,
}

impl ApiArg {
    fn api(self) -> Api {
        match self {
            ApiArg::Classic => Api::Classic,
            ApiArg::Next => Api::Next,
        }
    }
}

const PASSWORD: &str = "OPENCODE_SERVER_PASSWORD";
const USER: &str = "OPENCODE_SERVER_USERNAME";

/// The pack that says what a refusal is, where no other rule does.
const REFUSALS: &str = "opencode/foreground-fallback";

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let api = options.api.api();
    let because = |error: &dyn std::fmt::Display| Stop::Because(error.to_string());
    let mut server = Server::new(&options.url, api).map_err(|error| because(&error))?;
    let password = std::env::var(PASSWORD).ok();
    if let Some(password) = &password {
        let user = std::env::var(USER);
        server = server.with_password(user.as_deref().unwrap_or("opencode"), password);
    }
    let failed = |failure: Failure| explained(&failure, password.is_some(), options);
    let chains = chains(&options.fallback)?;
    let pack = packs::load_in(&options.packs)?;
    let reach = Reach::of(&pack, api, !chains.is_empty());
    let watch = rules(options, pack, chains)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| because(&error))?;
    let journal = match options.dry_run {
        true => None,
        false => journal(options, &server)?,
    };
    let watching = Watching {
        backoff: Backoff {
            tries: options.tries,
            ..Backoff::default()
        },
        journal,
        ..Watching::default()
    };
    let ended = runtime.block_on(observe(options, &server, watch, watching, &reach));
    // Acts that were begun do not keep the process from ending.
    runtime.shutdown_timeout(Duration::ZERO);
    match ended {
        Ok(()) => Ok(Outcome::Clean),
        Err(Ended::Output(error)) => Err(error.into()),
        Err(Ended::Server(failure)) => Err(failed(failure)),
    }
}

/// Why watching ended early.
enum Ended {
    Output(io::Error),
    Server(Failure),
}

/// Watches and writes what is seen, until the output is closed or the user interrupts.
async fn observe(
    options: &Options,
    server: &Server,
    mut watch: Watch,
    watching: Watching,
    reach: &Reach,
) -> Result<(), Ended> {
    let mut out = Out::new(options.format.format);
    let mut counts = Counts::default();
    let cancel = Cancel::default();
    let mut written = out.write(&Rules(reach)).and_then(|()| out.flush());
    if let Some(session) = &options.session {
        server.check_session(session).await.map_err(Ended::Server)?;
    }
    let report = |seen: &Seen| {
        counts.add(seen);
        let telling = out.write(&Told(seen)).and_then(|()| out.flush());
        if telling.is_err() && written.is_ok() {
            // Nobody reads it any more.
            cancel.cancel();
            written = telling;
        }
    };
    let watching = opencode::watch(server, &mut watch, watching, cancel.clone(), report);
    let ended = tokio::select! {
        ended = watching => ended.map_err(Ended::Server),
        Ok(()) = tokio::signal::ctrl_c() => Ok(()),
    };
    if options.dry_run && written.is_ok() {
        let summary = Summary { counts, reach };
        written = out.write(&summary).and_then(|()| out.flush());
    }
    written.map_err(Ended::Output)?;
    ended
}

fn rules(options: &Options, pack: Pack, chains: Chains) -> Result<Watch, Stop> {
    let has_fallback = !chains.is_empty();
    let knows_refusals = |pack: &Pack| {
        let mut rules = pack.rules().iter();
        rules.any(|rule| rule.action == Action::Fallback)
    };
    let refusals = match has_fallback && !knows_refusals(&pack) {
        true => Pack::builtin(REFUSALS)
            .map_err(|error| Stop::Because(format!("{REFUSALS}: {error}")))?,
        false => pack.clone(),
    };
    let mut watch = Watch::new(pack, options.api.api());
    if has_fallback {
        watch = watch.fallback(Foreground::new(refusals.session(), chains));
    }
    if let Some(session) = &options.session {
        watch = watch.only(session);
    }
    if options.dry_run {
        watch = watch.dry_run();
    }
    Ok(watch)
}

/// The chains of models, each `[AGENT=]PROVIDER/MODEL[,...]`.
fn chains(written: &[String]) -> Result<Chains, Stop> {
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
            return Err(Stop::Because(format!(
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

/// The journal of the server. Without a folder for it there is none.
fn journal(options: &Options, server: &Server) -> Result<Option<Journal>, Stop> {
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
    match Journal::open(path) {
        Ok(journal) => Ok(Some(journal)),
        Err(failure) if failure.kind() == "taken" || options.journal.is_some() => {
            Err(Stop::Because(failure.message().to_owned()))
        }
        Err(failure) => {
            tell(&format_args!(
                "{}; acts are not completed after a restart",
                Escaped(failure.message())
            ));
            Ok(None)
        }
    }
}

/// The name of a server's journal: letters, digits, dots and `-`.
fn file_name(url: &str, api: Api) -> String {
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
        Api::Next => format!("{place}-next.json"),
        _ => format!("{place}.json"),
    }
}

/// What the user can do about a failure.
fn explained(failure: &Failure, has_password: bool, options: &Options) -> Stop {
    let url = Escaped(&options.url);
    let session = options.session.as_deref().unwrap_or_default();
    Stop::Because(match (failure.kind(), has_password) {
        ("401", false) => format!(
            "{url} wants a password: set {PASSWORD} (and {USER}, if the user is not `opencode`)"
        ),
        ("401", true) => format!("{url} refuses the password in {PASSWORD} or the user in {USER}"),
        ("404", _) if failure.message().contains("/session/") && !session.is_empty() => {
            format!("--session: {url} has no session `{}`", Escaped(session))
        }
        ("taken", _) => failure.message().to_owned(),
        _ => failure.to_string(),
    })
}

/// The first line: what the rules can do.
struct Rules<'a>(&'a Reach);

impl Serialize for Rules<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Other<'a> {
            rules: usize,
            because: &'a str,
        }
        let others = self.0.others.iter();
        let others = others.map(|(rules, because)| Other {
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

impl Record for Rules<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(out, "{}", self.0)
    }
}

/// How many verdicts there were of each kind.
#[derive(Clone, Copy, Debug, Default, Serialize)]
struct Counts {
    /// Would have been acted on.
    acting: u64,
    /// Would have come after the tool call ran.
    late: u64,
    /// Would only have been reported.
    reported: u64,
}

impl Counts {
    fn add(&mut self, seen: &Seen) {
        let Seen::Judged(judged) = seen else { return };
        let is_told = matches!(judged.action, Action::Warn | Action::Observe);
        match (judged.is_beyond || is_told, judged.is_late) {
            (true, _) => self.reported += 1,
            (_, true) => self.late += 1,
            _ => self.acting += 1,
        }
    }
}

/// The last line of a dry run.
struct Summary<'a> {
    counts: Counts,
    reach: &'a Reach,
}

impl Serialize for Summary<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let Counts {
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

impl Record for Summary<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        let Counts {
            acting,
            late,
            reported,
        } = self.counts;
        writeln!(
            out,
            "verdicts: {acting} to act on, {late} after the tool call had run, {reported} only reported"
        )?;
        writeln!(out, "{}", self.reach)
    }
}

struct Told<'a>(&'a Seen);

/// What a line of JSON holds; what is not there is left out.
#[derive(Default, Serialize)]
struct Fields<'a> {
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    part: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    channel: Option<Channel>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    action: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    decided: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    turn: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    suppressed: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    beyond: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    midway: Option<bool>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    again_in: Option<u64>,
}

impl<'a> Fields<'a> {
    fn of(seen: &'a Seen) -> Fields<'a> {
        match seen {
            Seen::Disconnected { why, again_in } => Fields {
                event: "disconnected",
                reason: Some(why),
                again_in: Some(*again_in),
                ..Fields::default()
            },
            Seen::Message { session, message } => Fields {
                event: "message",
                session: Some(session),
                message: Some(message),
                ..Fields::default()
            },
            Seen::Malformed { bytes } => Fields {
                event: "malformed",
                unscanned_bytes: Some(*bytes),
                ..Fields::default()
            },
            Seen::Judged(judged) => Fields::judged(judged),
            Seen::Act(act) => Fields::act("act", act),
            Seen::Done(act) => Fields::act("done", act),
            Seen::Failed { act, why } => Fields {
                reason: Some(why),
                ..Fields::act("failed", act)
            },
            Seen::Yielded { act, why } => Fields {
                reason: Some(why),
                ..Fields::act("yielded", act)
            },
            Seen::Refused {
                session,
                model: (provider, model),
            } => Fields {
                event: "refused",
                session: Some(session),
                model: Some(format!("{provider}/{model}")),
                ..Fields::default()
            },
            Seen::Resumed(act) => Fields::act("resumed", act),
            Seen::NoJournal { why } => Fields {
                event: "no-journal",
                reason: Some(why),
                ..Fields::default()
            },
            Seen::Finish {
                session,
                message,
                reason,
                unscanned,
            } => Fields {
                event: "finish",
                session: Some(session),
                message: Some(message),
                reason: Some(reason),
                unscanned_bytes: Some(*unscanned),
                ..Fields::default()
            },
            Seen::Question { session, question } => Fields {
                event: "question",
                session: Some(session),
                question: Some(question),
                ..Fields::default()
            },
            _ => Fields {
                event: "connected",
                ..Fields::default()
            },
        }
    }

    fn judged(judged: &'a Judged) -> Fields<'a> {
        Fields {
            event: "verdict",
            session: Some(&judged.session),
            message: Some(&judged.message),
            part: Some(&judged.part),
            channel: judged.channel,
            tool: judged.tool.as_deref(),
            rule: judged.rule.as_deref(),
            limit: judged.limit.as_deref(),
            action: Some(judged.action),
            end: judged.end,
            decided: Some(judged.decided),
            turn: Some(judged.turn),
            suppressed: judged.suppressed,
            late: Some(judged.is_late),
            beyond: Some(judged.is_beyond),
            midway: judged.is_midway.then_some(true),
            says: Some(&judged.text),
            ..Fields::default()
        }
    }

    fn act(event: &'static str, act: &'a Act) -> Fields<'a> {
        let fields = Fields {
            event,
            session: Some(act.session()),
            ..Fields::default()
        };
        match act {
            Act::Stop {
                message,
                delete,
                steer,
                session,
                to,
                ..
            } => Fields {
                does: Some("stop"),
                message: Some(message),
                delete: Some(*delete),
                says: steer.as_ref().map(|prompt| prompt.text.as_str()),
                to: (to != session && steer.is_some()).then_some(to),
                ..fields
            },
            Act::Switch {
                model: (provider, model),
                ..
            } => Fields {
                does: Some("switch"),
                model: Some(format!("{provider}/{model}")),
                ..fields
            },
            Act::HandOver { .. } => Fields {
                does: Some("hand-over"),
                ..fields
            },
            Act::AddFiles { .. } => Fields {
                does: Some("add-files"),
                ..fields
            },
            Act::Inject { prompt, .. } => Fields {
                does: Some("inject"),
                says: Some(&prompt.text),
                ..fields
            },
            _ => fields,
        }
    }
}

impl Serialize for Told<'_> {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        Fields::of(self.0).serialize(to)
    }
}

const CUT: Style = AnsiColor::Red.on_default();
const GOOD: Style = AnsiColor::Green.on_default();
const SOFT: Style = AnsiColor::Yellow.on_default();
const FAINT: Style = Style::new().dimmed();

impl Record for Told<'_> {
    fn show(&self, out: &mut dyn Write) -> io::Result<()> {
        match self.0 {
            Seen::Connected => writeln!(out, "{GOOD}connected{GOOD:#}"),
            Seen::Disconnected { why, again_in } => {
                let why = Escaped(why);
                writeln!(
                    out,
                    "{CUT}disconnected{CUT:#}: {why}; again in {again_in} ms"
                )
            }
            Seen::Message { session, message } => {
                let (session, message) = (Escaped(session), Escaped(message));
                writeln!(out, "{FAINT}{session}: message {message} begins{FAINT:#}")
            }
            Seen::Finish {
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
            Seen::Malformed { bytes } => writeln!(
                out,
                "{CUT}malformed{CUT:#}: an event of {bytes} bytes cannot be read, and was held against no rule"
            ),
            Seen::Judged(judged) => show_judged(judged, out),
            Seen::Act(act) => show_act(act, out),
            Seen::Done(act) => {
                writeln!(out, "{}: {GOOD}done{GOOD:#}", Escaped(act.session()))
            }
            Seen::Failed { act, why } => {
                let session = Escaped(act.session());
                writeln!(out, "{session}: {CUT}failed{CUT:#}: {}", Escaped(why))
            }
            Seen::Yielded { act, why } => {
                let session = Escaped(act.session());
                writeln!(out, "{session}: {SOFT}left alone{SOFT:#}: {}", Escaped(why))
            }
            Seen::Refused {
                session,
                model: (provider, model),
            } => {
                let (provider, model) = (Escaped(provider), Escaped(model));
                writeln!(
                    out,
                    "{}: {CUT}the provider refuses{CUT:#}; next is {provider}/{model}",
                    Escaped(session)
                )
            }
            Seen::Resumed(act) => {
                write!(out, "{FAINT}of an earlier run: {FAINT:#}")?;
                show_act(act, out)
            }
            Seen::NoJournal { why } => writeln!(out, "{SOFT}{}{SOFT:#}", Escaped(why)),
            Seen::Question { session, question } => {
                let (session, question) = (Escaped(session), Escaped(question));
                writeln!(out, "{session}: question {question} waits for an answer")
            }
            _ => Ok(()),
        }
    }
}

fn show_judged(judged: &Judged, out: &mut dyn Write) -> io::Result<()> {
    let style = match (judged.suppressed, judged.action.cuts()) {
        (Some(_), _) => FAINT,
        (None, true) => CUT,
        (None, false) => SOFT,
    };
    let because = judged.rule.as_deref().or(judged.limit.as_deref());
    write!(
        out,
        "{}: {style}{}{style:#} {STRONG}{}{STRONG:#} in {}",
        Escaped(&judged.session),
        judged.action.name(),
        Escaped(because.unwrap_or_default()),
        judged.channel.map_or("", Channel::name),
    )?;
    if let Some(tool) = &judged.tool {
        write!(out, " of {}", Escaped(tool))?;
    }
    write!(out, ", byte {}", judged.end.unwrap_or(judged.decided))?;
    if judged.is_midway {
        write!(out, " since the connection")?;
    }
    if let Some(why) = judged.suppressed {
        write!(out, " (suppressed: {why})")?;
    }
    if judged.is_late {
        write!(out, " {SOFT}(too late: the tool runs already){SOFT:#}")?;
    }
    if judged.is_beyond {
        write!(out, " {SOFT}(not possible from outside: only told){SOFT:#}")?;
    }
    writeln!(out)?;
    match judged.text.is_empty() {
        true => Ok(()),
        false => writeln!(out, "    {}", Escaped(&judged.text)),
    }
}

fn show_act(act: &Act, out: &mut dyn Write) -> io::Result<()> {
    let session = Escaped(act.session());
    match act {
        Act::Stop {
            message,
            delete,
            steer,
            to,
            ..
        } => {
            write!(out, "{session}: {CUT}stop{CUT:#} {}", Escaped(message))?;
            if *delete {
                write!(out, ", delete it")?;
            }
            match steer {
                Some(_) if to != act.session() => writeln!(out, ", tell {}", Escaped(to)),
                Some(_) => writeln!(out, ", steer"),
                None => writeln!(out),
            }
        }
        Act::Switch {
            model: (provider, model),
            ..
        } => {
            let (provider, model) = (Escaped(provider), Escaped(model));
            writeln!(out, "{session}: {SOFT}switch{SOFT:#} to {provider}/{model}")
        }
        Act::HandOver { .. } => writeln!(out, "{session}: {SOFT}hand over{SOFT:#}"),
        Act::AddFiles { .. } => writeln!(out, "{session}: {SOFT}add files{SOFT:#}"),
        _ => writeln!(out, "{session}: {SOFT}inject{SOFT:#}"),
    }
}
