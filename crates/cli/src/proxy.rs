//! `ttsr proxy`: applies rules to the replies of model providers, for any client that can be given a base URL.

mod clients;
mod network;
mod reload;
mod reported_store;
mod settings;
mod signals;

use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus as ChildStatus};
use std::sync::Arc;
#[cfg(unix)]
use std::task::Poll;
use std::time::Duration;

use clap::Args;
use ttsr::{Mode, Pack};
use ttsr_proxy::{
    BlockEnding, EventLog, JournalStore, ListenerTls, Mount, Proxy, ProxyConfig, ProxyToken,
    SessionError, SessionStore, TotalsSnapshot, UpstreamUrl,
};

use crate::args::WorkspaceArgs;
use crate::load::NOT_HERE;
use crate::output::{Escaped, print_message};
use crate::totals::Quantity;
use crate::{CommandError, ExitStatus, load};
use reload::WatchedPacks;
use reported_store::ReportedStore;
use settings::{BusyPollTimes, ProxySettings, ThreadCount};
use signals::PassedSignals;

/// Apply rules to the requests and replies of model providers, between any client and its provider
///
/// With a command after `--`, the proxy takes a free port, runs the command with ANTHROPIC_BASE_URL, OPENAI_BASE_URL,
/// OPENAI_API_BASE, GOOGLE_GEMINI_BASE_URL and CODE_ASSIST_ENDPOINT set to it, and ends with the exit code of the
/// command; Codex and OpenCode get the setting that they take. Without one, it listens until it is interrupted. Replies
/// of Anthropic Messages, OpenAI Chat Completions, Responses and Completions, Gemini, also of Google's Code Assist, and
/// Ollama are judged, streamed or not, and so are their requests. Requests to other APIs of models, such as Anthropic's
/// `complete`, are refused, also if only the body shows that they are, and everything else passes. Without `--pack`,
/// `std/pii` and the built-in packs for OpenCode's own agents and tools are not loaded. Packs that are files are loaded
/// again when they change.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// The address to listen on [default: 127.0.0.1:8787, or a free port for a command]
    ///
    /// An address that other machines reach needs a token, or certificates of clients.
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<String>,
    /// The server for all paths, or, as NAME=URL, for the paths below /NAME; may be repeated
    ///
    /// The names `anthropic`, `openai`, `gemini`, `code-assist` and `ollama` are known: their servers are those of
    /// Anthropic, OpenAI and Google, and http://127.0.0.1:11434. With a command, the URLs that its variables already have
    /// replace those of Anthropic, OpenAI and Google.
    #[arg(long = "upstream", value_name = "[NAME=]URL", value_parser = upstream)]
    upstreams: Vec<(Option<String>, UpstreamUrl)>,
    /// The network's proxy, through which servers with https are reached: http://, https:// or socks5:// [default: that of
    /// HTTPS_PROXY or ALL_PROXY]
    ///
    /// With an empty URL, servers are reached without it. The hosts of NO_PROXY, and loopback addresses, are reached without
    /// it in any case. If its URL has credentials, use a variable or a file: other users of this machine may see options.
    #[arg(long, value_name = "URL")]
    network_proxy: Option<String>,
    /// A value of the Host header to accept in addition to loopback names; may be repeated
    #[arg(long = "host", value_name = "NAME")]
    hosts: Vec<String>,
    /// The token that requests must have in the header x-ttsr-token [default: that of TTSR_PROXY_TOKEN, if it is set]
    ///
    /// Only without a command: clients have no setting for it that they all read, so a command could not send it. With a
    /// command, --token is an error, and TTSR_PROXY_TOKEN does not apply.
    #[arg(long, value_name = "TOKEN")]
    token: Option<String>,
    /// The certificate of the proxy, in PEM, with which connections are encrypted by TLS
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    certificate: Option<PathBuf>,
    /// The private key of the certificate, in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    key: Option<PathBuf>,
    /// The certificates, in PEM, of the authorities of which one must have signed the certificate of each client
    #[arg(long, value_name = "FILE", conflicts_with = "command")]
    client_ca: Option<PathBuf>,
    #[command(flatten)]
    threads: ThreadArgs,
    /// Append events to this file, as JSON without text of requests and replies; `ttsr log` shows it
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// The file with the table `proxy` [default: ttsr.toml in the current folder, if it exists]
    ///
    /// A file that is not named may set only `packs`, which are added to the default packs, and `limits`.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// End a stopped reply as a failure instead of a normal end, for runs without a user
    #[arg(long)]
    hard: bool,
    /// Only report what rules would do
    #[arg(long)]
    dry_run: bool,
    /// Pass requests and replies that cannot be read, and requests to models whose replies cannot be judged, instead of
    /// refusing them
    #[arg(long)]
    fail_open: bool,
    /// The store of sessions: a file, or the URL of a Redis or Valkey server [default: in memory]
    ///
    /// With a file, sessions go on when the proxy is started again. Proxies that share a server, such as
    /// redis://127.0.0.1:6379, decide as one. If the store cannot be reached, requests are refused; with --fail-open they
    /// are judged without their session.
    #[arg(long, value_name = "FILE|URL")]
    sessions: Option<String>,
    /// The certificates, in PEM, of the authorities of a store whose URL begins with rediss:// [default: those of the system]
    #[arg(long, value_name = "FILE")]
    sessions_ca: Option<PathBuf>,
    #[command(flatten)]
    packs: WorkspaceArgs,
    /// A command to run behind the proxy
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

#[derive(Debug, Args)]
struct ThreadArgs {
    /// The number of threads that read and judge, up to 256 [default: 1]
    ///
    /// One thread serves some hundred streams at a time.
    #[arg(long, value_name = "N")]
    threads: Option<ThreadCount>,
    /// The times at which threads look for events without sleeping, which delays deltas less and takes a core for each thread
    /// [default: under-load]
    #[arg(long, value_name = "WHEN", value_enum)]
    busy_poll: Option<BusyPollTimes>,
}

/// The variables that name the base URL of OpenAI's API, in the order in which they are read.
const OPENAI: [&str; 2] = ["OPENAI_BASE_URL", "OPENAI_API_BASE"];

const ANTHROPIC: &str = "ANTHROPIC_BASE_URL";

/// The variable with the token.
const TOKEN: &str = "TTSR_PROXY_TOKEN";

/// The time in which requests are completed after the command has ended: nobody reads their responses.
const AFTER_COMMAND: Duration = Duration::from_secs(1);

fn upstream(text: &str) -> Result<(Option<String>, UpstreamUrl), String> {
    let (name, url) = match text.split_once('=') {
        Some((name, url)) if !name.contains([':', '/', '?']) => (Some(name.to_owned()), url),
        _ => (None, text),
    };
    if name.as_deref() == Some("") {
        return Err("the name before `=` is empty".to_owned());
    }
    let url = UpstreamUrl::parse(url).map_err(|error| error.to_string())?;
    Ok((name, url))
}

pub(crate) fn run(options: &Options) -> Result<ExitStatus, CommandError> {
    let settings = ProxySettings::read(options.config.as_deref())?;
    if settings.is_found {
        print_message(&"the settings of ttsr.toml in the current folder apply");
    }
    let mut packs = options.packs.clone();
    if packs.packs.packs.is_empty() {
        packs.packs.packs = packs_of(&settings);
    }
    let mut watched = WatchedPacks::new(&packs)?;
    let pack = match &mut watched {
        Some(watched) => watched.load()?,
        None => load::load_here(&packs, None, &NOT_HERE)?,
    };
    // The first request does not wait for the automata.
    pack.prepare();
    let is_wrapping = !options.command.is_empty();
    let (mut config, suffix) = config(options, &settings, is_wrapping)?;
    let is_encrypted = config.tls.is_some();
    let usual = if is_wrapping {
        "127.0.0.1:0"
    } else {
        "127.0.0.1:8787"
    };
    let of_file = settings.listen.as_deref().filter(|_| !is_wrapping);
    let address = options.listen.as_deref().or(of_file).unwrap_or(usual);
    let threads = options
        .threads
        .threads
        .or(settings.threads)
        .unwrap_or_default();
    let busy_poll = options.threads.busy_poll.or(settings.busy_poll);
    config.busy_poll = busy_poll.unwrap_or_default().into();
    // Also with one thread: tasks that an event wakes run at once there, and not after those of all other events.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads.into())
        .enable_all()
        .build();
    let runtime = runtime.map_err(|error| message(&error))?;
    let ended = runtime.block_on(async {
        let proxy = Proxy::bind(config, pack, address)
            .await
            .map_err(|error| message(&error))?;
        let totals = proxy.totals();
        let reload = watched.map(|watched| watched.reload_into(proxy.pack()));
        if options.fail_open {
            print_message(&"--fail-open: replies that cannot be judged pass unread");
        }
        let ended = match options.command.split_first() {
            Some((program, arguments)) => {
                let base = format!("http://{}", proxy.address());
                let mut command = clients::command_of(program, arguments, &base, suffix)?;
                let elsewhere = clients::ELSEWHERE.iter().find(|name| {
                    of_environment(&[name]).is_some_and(|(_, value)| clients::is_on(&value))
                });
                if let Some(name) = elsewhere {
                    print_message(&format_args!(
                        "{name} is set: requests of Claude Code go to another service, and not through this proxy"
                    ));
                }
                command.env(ANTHROPIC, format!("{base}/anthropic"));
                for name in OPENAI {
                    let is_other = second_openai().is_some_and(|(other, _)| other == name);
                    if !is_other {
                        command.env(name, format!("{base}/openai{suffix}"));
                    }
                }
                for (name, url) in other_urls() {
                    match UpstreamUrl::parse(&url) {
                        Ok(_) => drop(command.env(name, clients::proxied_url(&base, name, &url))),
                        Err(error) => print_message(&format_args!(
                            "{name} is not replaced, and requests to it do not go through this proxy: {error}"
                        )),
                    }
                }
                serve_command(proxy, command, program).await
            }
            None => serve(proxy, if is_encrypted { "https" } else { "http" }).await,
        };
        drop(reload);
        print_message(&ProxySummary(totals.snapshot(), totals.unscanned()));
        ended
    });
    // A thread that waits for a command must not delay the end of the process.
    runtime.shutdown_timeout(Duration::ZERO);
    ended
}

/// Returns the packs of the settings, or none for the default packs. Those of a file that was found do not replace the
/// default packs.
fn packs_of(settings: &ProxySettings) -> Vec<String> {
    let added = settings.added_packs();
    if added.is_empty() {
        return settings.packs.clone();
    }
    print_message(&format_args!(
        "ttsr.toml in the current folder adds packs: {}",
        Escaped(&added.join(", "))
    ));
    let usual = Pack::builtin_names().filter(|name| !NOT_HERE.contains(name));
    let usual = usual.map(str::to_owned);
    usual.chain(added.iter().cloned()).collect()
}

fn message(error: &dyn std::fmt::Display) -> CommandError {
    CommandError::Message(error.to_string())
}

/// Returns the configuration, and the path of OpenAI's API below its mount.
fn config(
    options: &Options,
    settings: &ProxySettings,
    is_wrapping: bool,
) -> Result<(ProxyConfig, &'static str), CommandError> {
    let mut config = ProxyConfig {
        hosts: options.hosts.clone(),
        ending: if options.hard {
            BlockEnding::Hard
        } else {
            BlockEnding::Soft
        },
        mode: if options.dry_run {
            Mode::Shadow
        } else {
            Mode::Live
        },
        fail_open: options.fail_open,
        token: token(options, is_wrapping)?,
        // A command reaches its proxy at a loopback address without TLS.
        tls: if is_wrapping {
            None
        } else {
            tls(options, settings)?
        },
        network_proxy: network::network_proxy(
            options.network_proxy.as_deref(),
            settings.network_proxy.as_deref(),
        )?,
        log: log(options.log.as_ref().or(settings.log.as_ref()))?,
        ..ProxyConfig::default()
    };
    settings.apply(&mut config)?;
    let authorities = options
        .sessions_ca
        .as_ref()
        .or(settings.sessions_ca.as_ref());
    let place = options.sessions.as_ref().or(settings.sessions.as_ref());
    if place.is_none() && authorities.is_some() {
        return Err(CommandError::Message(NO_USE_OF_AUTHORITIES.to_owned()));
    }
    if let Some(place) = place {
        let authorities = authorities.map(|path| read(path)).transpose()?;
        let store = session_store(place, authorities.as_deref());
        let store = store.map_err(|error| message(&error))?;
        // Requests without their sessions pass with both.
        let passes = options.fail_open || options.dry_run;
        config.sessions = Arc::new(ReportedStore::new(store, passes));
    }
    let mut suffix = "/v1";
    if is_wrapping {
        config.limits.drain_time = AFTER_COMMAND;
        let google = clients::GOOGLE.into_iter();
        for (variable, name) in [(ANTHROPIC, "anthropic")].into_iter().chain(google) {
            if let Some((_, url)) = of_environment(&[variable]) {
                mount(&mut config, name, parsed(variable, &url)?);
            }
        }
        for (name, url) in other_urls() {
            // Of one that is no URL, the reason is printed once the command is run.
            if let Ok(url) = UpstreamUrl::parse(&url) {
                mount(&mut config, &clients::mount_name(name), url);
            }
        }
        if let Some((name, url)) = of_environment(&OPENAI) {
            // Clients append the paths below `/v1` to this URL.
            let url = url.trim_end_matches('/');
            let root = url.strip_suffix("/v1");
            suffix = if root.is_some() { "/v1" } else { "" };
            mount(&mut config, "openai", parsed(name, root.unwrap_or(url))?);
        }
    }
    for (name, url) in &options.upstreams {
        match name {
            Some(name) => mount(&mut config, name, url.clone()),
            None => config.fallback = Some(url.clone()),
        }
    }
    Ok((config, suffix))
}

/// Returns the token of the options, or else that of the environment, which other users cannot see. A command does not know
/// the one of the environment, so it applies only without a command.
fn token(options: &Options, is_wrapping: bool) -> Result<Option<ProxyToken>, CommandError> {
    if is_wrapping && options.token.is_some() {
        return Err(CommandError::Message(TOKEN_AND_COMMAND.to_owned()));
    }
    let of_environment = || env::var(TOKEN).ok();
    let of_environment = || of_environment().filter(|token| !is_wrapping && !token.is_empty());
    let token = options.token.clone().or_else(of_environment);
    let token = token.map(ProxyToken::new).transpose();
    token.map_err(|error| message(&error))
}

const TOKEN_AND_COMMAND: &str = "--token and a command do not go together: the command would not send the token, and all its requests would be \
                                 refused. Leave --token out, or run `ttsr proxy --token …` without a command, and let the client send \
                                 the header x-ttsr-token to it";

/// Returns TLS with the certificate of the options, or of the file.
fn tls(options: &Options, settings: &ProxySettings) -> Result<Option<ListenerTls>, CommandError> {
    let certificate = options
        .certificate
        .as_ref()
        .or(settings.certificate.as_ref());
    let key = options.key.as_ref().or(settings.key.as_ref());
    let client_ca = options.client_ca.as_ref().or(settings.client_ca.as_ref());
    let (certificate, key) = match (certificate, key) {
        (Some(certificate), Some(key)) => (certificate, key),
        (None, None) if client_ca.is_none() => return Ok(None),
        _ => return Err(CommandError::Message(INCOMPLETE_TLS.to_owned())),
    };
    let authorities = client_ca.map(|path| read(path)).transpose()?;
    let tls = ListenerTls::new(&read(certificate)?, &read(key)?, authorities.as_deref());
    tls.map(Some).map_err(|error| message(&error))
}

const INCOMPLETE_TLS: &str = "connections are encrypted with a certificate and its key, so both are needed: --certificate and --key, or \
                              `certificate` and `key` in ttsr.toml";

fn read(path: &Path) -> Result<Vec<u8>, CommandError> {
    std::fs::read(path)
        .map_err(|error| CommandError::Message(format!("{}: {error}", path.display())))
}

fn log(path: Option<&PathBuf>) -> Result<Option<EventLog>, CommandError> {
    let Some(path) = path else {
        return Ok(None);
    };
    let log = EventLog::append_to(path);
    let log =
        log.map_err(|error| CommandError::Message(format!("--log {}: {error}", path.display())))?;
    let shown = path.display().to_string();
    Ok(Some(log.on_failure(move |error| {
        print_message(&format_args!(
            "the log {} cannot be written: {error}. Lines that are lost are counted",
            Escaped(&shown)
        ));
    })))
}

/// The most sessions that are kept in a file, and the time after the last use for which each is kept.
const SESSIONS: usize = 4096;
const SESSION_TIME: Duration = Duration::from_secs(24 * 60 * 60);

const NO_USE_OF_AUTHORITIES: &str =
    "--sessions-ca is of use only with a store whose URL begins with rediss://";

fn session_store(
    place: &str,
    authorities: Option<&[u8]>,
) -> Result<Arc<dyn SessionStore>, SessionError> {
    if place.contains("://") {
        #[cfg(feature = "redis")]
        return Ok(Arc::new(match authorities {
            None => ttsr_proxy::RedisStore::new(place, SESSION_TIME)?,
            Some(pem) => ttsr_proxy::RedisStore::with_authorities(place, SESSION_TIME, pem)?,
        }));
        #[cfg(not(feature = "redis"))]
        return Err(SessionError::new(
            "this ttsr was built without the feature `redis`, so sessions are kept in memory or in a file",
        ));
    }
    if authorities.is_some() {
        return Err(SessionError::new(NO_USE_OF_AUTHORITIES));
    }
    let store = JournalStore::open(Path::new(place), SESSIONS, SESSION_TIME)?;
    Ok(Arc::new(store))
}

/// Returns the first of these variables that is set and not empty.
fn of_environment<'n>(names: &[&'n str]) -> Option<(&'n str, String)> {
    let set = |name: &&'n str| Some((*name, env::var(*name).ok().filter(|url| !url.is_empty())?));
    names.iter().find_map(set)
}

/// Returns the other variables with the base URL of an API that are set.
fn other_urls() -> impl Iterator<Item = (&'static str, String)> {
    let names = clients::OTHER_URLS.iter();
    names
        .filter_map(|name| of_environment(&[name]))
        .chain(second_openai())
}

/// Returns the second variable of OpenAI's API if it has another URL than the first one. The keys of its clients must not be
/// sent to the server of the first one.
fn second_openai() -> Option<(&'static str, String)> {
    let [first, second] = OPENAI.map(|name| of_environment(&[name]));
    let (first, second) = (first?.1, second?);
    let plain = |url: &str| url.trim_end_matches('/').to_owned();
    (plain(&first) != plain(&second.1)).then_some(second)
}

fn parsed(name: &str, url: &str) -> Result<UpstreamUrl, CommandError> {
    let because = |error| CommandError::Message(format!("{name}: {error}"));
    UpstreamUrl::parse(url).map_err(because)
}

/// Mounts the server, in place of one of the same name.
fn mount(config: &mut ProxyConfig, name: &str, url: UpstreamUrl) {
    let mount = Mount::new(name, url);
    config
        .mounts
        .retain(|known| known.prefix() != mount.prefix());
    config.mounts.push(mount);
}

/// Listens until a signal. The second one does not wait for requests in progress.
async fn serve(proxy: Proxy, scheme: &str) -> Result<ExitStatus, CommandError> {
    // Whoever reads the line may send a signal at once.
    let (first, also_first) = (stop_signal(), stop_signal());
    print_message(&format_args!("listening on {scheme}://{}", proxy.address()));
    tokio::select! {
        () = proxy.serve(first) => {}
        () = async {
            also_first.await;
            stop_signal().await;
        } => {}
    }
    Ok(ExitStatus::Clean)
}

/// Returns a future that is ready once the process is asked to end. From this call on, a signal does not kill it.
#[cfg(unix)]
fn stop_signal() -> impl Future<Output = ()> + Send {
    use tokio::signal::unix::{SignalKind, signal};
    let kinds = [SignalKind::interrupt(), SignalKind::terminate()];
    let mut arrived: Vec<_> = kinds
        .into_iter()
        .filter_map(|kind| signal(kind).ok())
        .collect();
    std::future::poll_fn(move |cx| {
        let is_asked = arrived.iter_mut().any(|it| it.poll_recv(cx).is_ready());
        match is_asked {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    })
}

/// Returns once the process is asked to end.
#[cfg(not(unix))]
async fn stop_signal() {
    tokio::signal::ctrl_c().await.ok();
}

/// Runs the command until it ends, and returns its exit code.
async fn serve_command(
    proxy: Proxy,
    mut command: Command,
    program: &OsString,
) -> Result<ExitStatus, CommandError> {
    let mut signals = PassedSignals::new();
    let spawned = command.spawn();
    let mut child = spawned.map_err(|error| {
        let program = program.to_string_lossy();
        CommandError::Message(format!("cannot run {}: {error}", Escaped(&program)))
    })?;
    #[cfg(unix)]
    let id = rustix::process::Pid::from_child(&child);
    let mut waiting = tokio::task::spawn_blocking(move || child.wait());
    let mut status = None;
    proxy
        .serve(async {
            #[cfg(unix)]
            let passing = signals.pass_to(id);
            #[cfg(not(unix))]
            let passing = signals.wait();
            tokio::select! {
                ended = &mut waiting => status = Some(ended),
                () = passing => {}
            }
        })
        .await;
    match status {
        Some(Ok(Ok(status))) => Ok(ExitStatus::OfCommand(exit_code(status))),
        _ => Err(CommandError::Message(
            "cannot wait for the command".to_owned(),
        )),
    }
}

/// Returns the exit code of a command as a shell reports it.
fn exit_code(status: ChildStatus) -> u8 {
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return u8::try_from(128 + signal).unwrap_or(u8::MAX);
    }
    let code = status.code().unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}

/// The line that is printed at the end.
struct ProxySummary(TotalsSnapshot, BTreeMap<String, u64>);

impl std::fmt::Display for ProxySummary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let totals = &self.0;
        write!(f, "{}", Quantity(totals.requests, "request"))?;
        write!(f, ", {} judged", totals.judged)?;
        for (count, what) in [
            (totals.blocked, "stopped"),
            (totals.stopped_requests, "not sent"),
            (totals.retries, "sent again"),
            (totals.redactions, "redacted"),
            (totals.unreadable, "unreadable"),
            (totals.refused, "refused"),
            (totals.failed, "failed"),
            (totals.unbuffered, "without room in memory"),
            (totals.sessions_lost, "without a session"),
            (totals.log_lines_lost, "log lines lost"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        if totals.shadowed > 0 {
            let decisions = Quantity(totals.shadowed, "decision");
            write!(f, ", {decisions} not carried out")?;
        }
        if totals.warnings > 0 {
            write!(f, ", {}", Quantity(totals.warnings, "warning"))?;
        }
        if totals.unscanned_bytes > 0 {
            write!(
                f,
                ", {} not scanned",
                Quantity(totals.unscanned_bytes, "byte")
            )?;
            let most = self.1.iter().max_by_key(|(_, bytes)| **bytes);
            if let Some((path, _)) = most {
                write!(f, " ({})", Escaped(path))?;
            }
        }
        Ok(())
    }
}
