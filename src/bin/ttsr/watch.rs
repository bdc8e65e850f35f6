//! `ttsr watch`: rules over a running OpenCode server.

use std::io::{self, Write};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::{Args, ValueEnum};
use serde::Serialize;
use ttsr::harness::Cancel;
use ttsr::harness::opencode::{self, Act, Api, Backoff, Judged, Seen, Server, Watch};
use ttsr::{Action, Channel};

use crate::args::{FormatArg, WorkspaceArgs};
use crate::output::{Escaped, Out, Record, STRONG};
use crate::{Outcome, Stop, packs};

/// Hold rules against what the sessions of a running OpenCode server write, and act on them
///
/// A rule that cuts stops the session, deletes what it wrote and, if it retries, says its message. A rule that
/// injects says it without stopping. Everything else is told. Runs until it is stopped, and comes back when
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
    /// Only tell what would be done
    #[arg(long)]
    dry_run: bool,
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
    /// `/event` and `/session/…`: what OpenCode's own programs use
    Classic,
    /// `/api/…`: tool calls can be stopped before they run
    Next,
}

pub(crate) fn run(options: &Options) -> Result<Outcome, Stop> {
    let api = match options.api {
        ApiArg::Classic => Api::Classic,
        ApiArg::Next => Api::Next,
    };
    let because = |error: &dyn std::fmt::Display| Stop::Because(error.to_string());
    let mut server = Server::new(&options.url, api).map_err(|error| because(&error))?;
    if let Ok(password) = std::env::var("OPENCODE_SERVER_PASSWORD") {
        let user = std::env::var("OPENCODE_SERVER_USERNAME");
        server = server.with_password(user.as_deref().unwrap_or("opencode"), &password);
    }
    let mut watch = Watch::new(packs::load_in(&options.packs)?, api);
    if let Some(session) = &options.session {
        watch = watch.only(session);
    }
    if options.dry_run {
        watch = watch.dry_run();
    }
    let backoff = Backoff {
        tries: options.tries,
        ..Backoff::default()
    };
    let mut out = Out::new(options.format.format);
    let mut written = Ok(());
    let cancel = Cancel::default();
    let report = |seen: &Seen| {
        let telling = out.write(&Told(seen)).and_then(|()| out.flush());
        if telling.is_err() && written.is_ok() {
            // Nobody reads it any more.
            cancel.cancel();
            written = telling;
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| because(&error))?;
    let watching = opencode::watch(&server, &mut watch, backoff, cancel.clone(), report);
    let ended = runtime.block_on(watching);
    // Acts that were begun do not keep the process from ending.
    runtime.shutdown_timeout(Duration::ZERO);
    written?;
    ended.map_err(|error| because(&error))?;
    Ok(Outcome::Clean)
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
    does: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    delete: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    says: Option<&'a str>,
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
            Seen::Judged(judged) => Fields::judged(judged),
            Seen::Act(act) => Fields::act("act", act),
            Seen::Done(act) => Fields::act("done", act),
            Seen::Failed { act, why } => Fields {
                reason: Some(why),
                ..Fields::act("failed", act)
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
                ..
            } => Fields {
                does: Some("stop"),
                message: Some(message),
                delete: Some(*delete),
                says: steer.as_ref().map(|prompt| prompt.text.as_str()),
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
            Seen::Judged(judged) => show_judged(judged, out),
            Seen::Act(act) => show_act(act, out),
            Seen::Done(act) => {
                writeln!(out, "{}: {GOOD}done{GOOD:#}", Escaped(act.session()))
            }
            Seen::Failed { act, why } => {
                let session = Escaped(act.session());
                writeln!(out, "{session}: {CUT}failed{CUT:#}: {}", Escaped(why))
            }
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
            ..
        } => {
            write!(out, "{session}: {CUT}stop{CUT:#} {}", Escaped(message))?;
            if *delete {
                write!(out, ", delete it")?;
            }
            match steer {
                Some(_) => writeln!(out, ", steer"),
                None => writeln!(out),
            }
        }
        _ => writeln!(out, "{session}: {SOFT}inject{SOFT:#}"),
    }
}
