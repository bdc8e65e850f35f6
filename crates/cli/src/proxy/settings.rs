//! The table `proxy` of `ttsr.toml`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use ttsr_proxy::{BusyPoll, ProxyConfig, ProxyLimits, UpstreamUrl};

use super::mount;
use crate::CommandError;

/// The file that is read if `--config` names none.
const USUAL: &str = "ttsr.toml";

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct SettingsFile {
    #[serde(default)]
    proxy: ProxySettings,
}

/// The settings of a file. Options of the command line win over them.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub(super) struct ProxySettings {
    pub(super) listen: Option<String>,
    hosts: Vec<String>,
    upstream: Option<String>,
    upstreams: BTreeMap<String, String>,
    pub(super) network_proxy: Option<String>,
    pub(super) packs: Vec<String>,
    pub(super) sessions: Option<String>,
    pub(super) sessions_ca: Option<PathBuf>,
    pub(super) certificate: Option<PathBuf>,
    pub(super) key: Option<PathBuf>,
    pub(super) client_ca: Option<PathBuf>,
    pub(super) log: Option<PathBuf>,
    pub(super) threads: Option<ThreadCount>,
    pub(super) busy_poll: Option<BusyPollTimes>,
    limits: LimitSettings,
    /// True if the file was found in the current folder: its author may be another one than the user.
    #[serde(skip)]
    pub(super) is_found: bool,
}

/// The number of threads of a proxy, from 1 to 256.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(try_from = "usize")]
pub(super) struct ThreadCount(usize);

impl Default for ThreadCount {
    fn default() -> ThreadCount {
        ThreadCount(1)
    }
}

impl TryFrom<usize> for ThreadCount {
    type Error = String;

    fn try_from(threads: usize) -> Result<ThreadCount, String> {
        match threads {
            1..=256 => Ok(ThreadCount(threads)),
            _ => Err(format!("{threads} threads: the number is from 1 to 256")),
        }
    }
}

impl FromStr for ThreadCount {
    type Err = String;

    fn from_str(text: &str) -> Result<ThreadCount, String> {
        let threads: usize = text
            .parse()
            .map_err(|_| format!("`{text}` is not a number"))?;
        threads.try_into()
    }
}

impl From<ThreadCount> for usize {
    fn from(threads: ThreadCount) -> usize {
        threads.0
    }
}

/// The times at which threads look for events without sleeping.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(super) enum BusyPollTimes {
    /// Never
    Never,
    /// While 2,500 events or more arrive in a second for each thread, such as those of 50 replies
    #[default]
    UnderLoad,
    /// While requests are in progress
    Always,
}

impl From<BusyPollTimes> for BusyPoll {
    fn from(times: BusyPollTimes) -> BusyPoll {
        match times {
            BusyPollTimes::Never => BusyPoll::Never,
            BusyPollTimes::UnderLoad => BusyPoll::UnderLoad,
            BusyPollTimes::Always => BusyPoll::Always,
        }
    }
}

/// The bounds: sizes in bytes, times in seconds.
#[derive(Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
struct LimitSettings {
    head_bytes: Option<PositiveLimit<usize>>,
    request_bytes: Option<PositiveLimit<u64>>,
    reply_bytes: Option<PositiveLimit<u64>>,
    held_bytes: Option<PositiveLimit<usize>>,
    buffered_bytes: Option<PositiveLimit<usize>>,
    requests: Option<PositiveLimit<usize>>,
    head_seconds: Option<PositiveLimit<u64>>,
    connect_seconds: Option<PositiveLimit<u64>>,
    idle_seconds: Option<PositiveLimit<u64>>,
    keep_alive_seconds: Option<PositiveLimit<u64>>,
    hold_seconds: Option<PositiveLimit<u64>>,
    drain_seconds: Option<u64>,
}

/// A bound of at least 1: with 0, every request would fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PositiveLimit<T>(T);

impl<'de, T: Deserialize<'de> + Default + PartialEq> Deserialize<'de> for PositiveLimit<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<PositiveLimit<T>, D::Error> {
        let limit = T::deserialize(from)?;
        match limit == T::default() {
            true => Err(D::Error::custom("0: this limit is at least 1")),
            false => Ok(PositiveLimit(limit)),
        }
    }
}

/// The longest time of a bound, in seconds: a point of time that is far later cannot be represented.
const LONGEST: u64 = u32::MAX as u64;

impl ProxySettings {
    /// Reads the file, or `ttsr.toml` in the current folder if that exists.
    pub(super) fn read(file: Option<&Path>) -> Result<ProxySettings, CommandError> {
        let path = file.unwrap_or(Path::new(USUAL));
        if file.is_none() && !path.exists() {
            return Ok(ProxySettings::default());
        }
        let because = |error: &dyn std::fmt::Display| {
            CommandError::Message(format!("{}: {error}", path.display()))
        };
        let text = std::fs::read_to_string(path).map_err(|error| because(&error))?;
        let settings = ProxySettings::parse(&text).map_err(|error| because(&error))?;
        match file {
            Some(_) => Ok(settings),
            None => settings.found(),
        }
    }

    /// Returns the settings of a file in the current folder, which may be a repository of another author. They must not
    /// name servers, which receive keys, or files, which are written, or open the proxy to others.
    fn found(mut self) -> Result<ProxySettings, CommandError> {
        let keys = [
            ("listen", self.listen.is_some()),
            ("hosts", !self.hosts.is_empty()),
            ("upstream", self.upstream.is_some()),
            ("upstreams", !self.upstreams.is_empty()),
            ("network-proxy", self.network_proxy.is_some()),
            ("sessions", self.sessions.is_some()),
            ("sessions-ca", self.sessions_ca.is_some()),
            ("certificate", self.certificate.is_some()),
            ("key", self.key.is_some()),
            ("client-ca", self.client_ca.is_some()),
            ("log", self.log.is_some()),
            ("threads", self.threads.is_some()),
            ("busy-poll", self.busy_poll.is_some()),
        ];
        let set = keys.iter().filter(|(_, is_set)| *is_set);
        let set: Vec<String> = set.map(|(key, _)| format!("`{key}`")).collect();
        if set.is_empty() {
            self.is_found = true;
            return Ok(self);
        }
        Err(CommandError::Message(format!(
            "{USUAL} in the current folder sets {}: only `packs` and `limits` are taken from a file that was not named; \
             use `--config {USUAL}` if you trust it",
            set.join(", ")
        )))
    }

    /// Returns the packs that the file adds to the default packs, because it was not named.
    pub(super) fn added_packs(&self) -> &[String] {
        if self.is_found { &self.packs } else { &[] }
    }

    fn parse(text: &str) -> Result<ProxySettings, String> {
        let file = toml::from_str::<SettingsFile>(text);
        file.map(|file| file.proxy)
            .map_err(|error| without_urls(&error))
    }

    /// Applies the settings to a configuration.
    pub(super) fn apply(&self, config: &mut ProxyConfig) -> Result<(), CommandError> {
        let parsed = |name: &str, url: &str| {
            UpstreamUrl::parse(url)
                .map_err(|error| CommandError::Message(format!("proxy.{name}: {error}")))
        };
        config.hosts.extend_from_slice(&self.hosts);
        for (name, url) in &self.upstreams {
            mount(config, name, parsed(&format!("upstreams.{name}"), url)?);
        }
        if let Some(url) = &self.upstream {
            config.fallback = Some(parsed("upstream", url)?);
        }
        self.limits.apply(&mut config.limits);
        Ok(())
    }
}

impl LimitSettings {
    fn apply(&self, limits: &mut ProxyLimits) {
        fn set<T>(value: Option<PositiveLimit<T>>, limit: &mut T) {
            if let Some(value) = value {
                *limit = value.0;
            }
        }
        set(self.head_bytes, &mut limits.head_bytes);
        set(self.request_bytes, &mut limits.request_bytes);
        set(self.reply_bytes, &mut limits.reply_bytes);
        set(self.held_bytes, &mut limits.held_bytes);
        set(self.buffered_bytes, &mut limits.buffered_bytes);
        set(self.requests, &mut limits.requests);
        let positive = |seconds: Option<PositiveLimit<u64>>| seconds.map(|seconds| seconds.0);
        for (seconds, limit) in [
            (positive(self.head_seconds), &mut limits.head_time),
            (positive(self.connect_seconds), &mut limits.connect_time),
            (positive(self.idle_seconds), &mut limits.idle_time),
            (
                positive(self.keep_alive_seconds),
                &mut limits.keep_alive_time,
            ),
            (positive(self.hold_seconds), &mut limits.hold_time),
            (self.drain_seconds, &mut limits.drain_time),
        ] {
            if let Some(seconds) = seconds {
                *limit = Duration::from_secs(seconds.min(LONGEST));
            }
        }
    }
}

/// Returns the text of an error. It shows the line that the error is in, unless the line may have a URL: a URL may have a
/// password, whatever the key before it.
fn without_urls(error: &toml::de::Error) -> String {
    let shown = error.to_string();
    let may_have_url = |text: &str| text.contains("://") || text.contains('@');
    if !may_have_url(&shown) {
        return shown;
    }
    let place = shown.lines().next().unwrap_or_default();
    let problem = match error.message() {
        problem if may_have_url(problem) => "a value has the wrong type",
        problem => problem,
    };
    format!("{place}: {problem}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_shows_its_line_unless_it_may_have_a_url() {
        for line in [
            "sessions = \"redis://:pass@store:6379/0",
            "sessions = \"redis://:pass\" 1",
            "session = \"redis://store?password=pass\"",
            "network-proxy = \"user:pass@proxy:3128\" 1",
            "packs = \"http://user:pass@proxy:3128\"",
        ] {
            let error = ProxySettings::parse(&format!("[proxy]\n{line}\n")).unwrap_err();
            assert!(error.contains("line 2, column "), "{error}");
            assert!(!error.contains("pass"), "{error}");
        }
        let error = ProxySettings::parse("[proxy]\nthreads = \"many\"\n").unwrap_err();
        assert!(error.contains("2 | threads = \"many\""), "{error}");
    }

    #[test]
    fn mounts_hosts_and_bounds_are_applied_and_unknown_keys_are_errors() {
        let settings = ProxySettings::parse(
            r#"
            [proxy]
            hosts = ["proxy.internal"]
            upstream = "http://localhost:9"
            packs = ["std/secrets"]
            network-proxy = "http://proxy.example:3128"
            sessions = "sessions.jsonl"
            certificate = "proxy.pem"
            client-ca = "clients.pem"
            [proxy.upstreams]
            openrouter = "https://openrouter.ai/api"
            openai = "http://localhost:10"
            [proxy.limits]
            held-bytes = 1024
            buffered-bytes = 4096
            hold-seconds = 7
            "#,
        );
        let settings = settings.unwrap();
        let mut config = ProxyConfig::default();
        settings.apply(&mut config).ok().unwrap();
        let prefixes: Vec<&str> = config.mounts.iter().map(|mount| mount.prefix()).collect();
        assert!(prefixes.contains(&"/openrouter"), "{prefixes:?}");
        let openai = prefixes.iter().filter(|prefix| **prefix == "/openai");
        assert_eq!(openai.count(), 1);
        assert_eq!(config.hosts, ["proxy.internal"]);
        assert_eq!(settings.sessions.as_deref(), Some("sessions.jsonl"));
        let network_proxy = settings.network_proxy.as_deref();
        assert_eq!(network_proxy, Some("http://proxy.example:3128"));
        assert_eq!(
            settings.certificate.as_deref(),
            Some(Path::new("proxy.pem"))
        );
        assert_eq!(
            settings.client_ca.as_deref(),
            Some(Path::new("clients.pem"))
        );
        assert_eq!(settings.key, None);
        assert_eq!(config.limits.held_bytes, 1024);
        assert_eq!(config.limits.buffered_bytes, 4096);
        assert_eq!(config.limits.hold_time, Duration::from_secs(7));
        assert_eq!(config.limits.requests, ProxyLimits::default().requests);
        let long = ProxySettings::parse("[proxy.limits]\nhold-seconds = 9223372036854775807");
        long.unwrap().apply(&mut config).ok().unwrap();
        assert!(
            std::time::Instant::now()
                .checked_add(config.limits.hold_time)
                .is_some()
        );
        for text in [
            "[proxy]\nport = 1",
            "[proxies]\n",
            "[proxy.limits]\nheld = 1",
            "[proxy.limits]\nrequests = -1",
            "[proxy]\nthreads = 0",
            "[proxy]\nthreads = 257",
            "[proxy]\nbusy-poll = true",
        ] {
            ProxySettings::parse(text).unwrap_err();
        }
        for key in [
            "head-bytes",
            "request-bytes",
            "reply-bytes",
            "held-bytes",
            "buffered-bytes",
            "requests",
            "head-seconds",
            "connect-seconds",
            "idle-seconds",
            "keep-alive-seconds",
            "hold-seconds",
        ] {
            let line = format!("{key} = 0");
            let refused = ProxySettings::parse(&format!("[proxy.limits]\n{line}\n"));
            let refused = refused.expect_err(&line).to_string();
            assert!(
                refused.contains(&line) && refused.contains("0: this limit is at least 1"),
                "{refused}"
            );
        }
        // A proxy may end without completing its requests.
        ProxySettings::parse("[proxy.limits]\ndrain-seconds = 0").unwrap();
        let found = |text: &str| ProxySettings::parse(text).unwrap().found();
        for line in [
            "listen = \"127.0.0.1:1\"",
            "hosts = [\"a\"]",
            "upstream = \"http://localhost:9\"",
            "upstreams.anthropic = \"http://localhost:9\"",
            "network-proxy = \"\"",
            "sessions = \"a\"",
            "sessions-ca = \"a\"",
            "certificate = \"a\"",
            "key = \"a\"",
            "client-ca = \"a\"",
            "log = \"a\"",
            "threads = 2",
            "busy-poll = \"always\"",
        ] {
            assert!(found(&format!("[proxy]\n{line}\n")).is_err(), "{line}");
        }
        let harmless = "[proxy]\npacks = [\"a.toml\"]\nlimits.hold-seconds = 7\n";
        let harmless = found(harmless).ok().unwrap();
        assert_eq!(harmless.added_packs(), ["a.toml"]);
        let bad = ProxySettings::parse("[proxy.upstreams]\nx = \"ftp://localhost\"").unwrap();
        assert!(bad.apply(&mut config).is_err());
        assert_eq!(ProxySettings::parse("").unwrap(), ProxySettings::default());
    }
}
