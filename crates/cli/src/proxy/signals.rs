//! The signals that the proxy passes on to the command behind it.

/// Waits for signals, and passes them on.
#[cfg(unix)]
pub(super) struct PassedSignals(Vec<PassedSignal>);

#[cfg(unix)]
struct PassedSignal {
    arrived: tokio::signal::unix::Signal,
    signal: rustix::process::Signal,
    /// True if a key of the terminal sends it, to the command as well.
    is_of_key: bool,
}

#[cfg(unix)]
impl PassedSignals {
    /// Returns the signals from now on: none of them ends the proxy any more, because the command decides for both. A signal
    /// that this process ignores, such as SIGHUP under `nohup`, is not among them: the command then ignores it as well.
    pub(super) fn new() -> PassedSignals {
        use rustix::process::Signal;
        use tokio::signal::unix::{SignalKind, signal};
        let passed = [
            (SignalKind::interrupt(), Signal::INT, true),
            (SignalKind::quit(), Signal::QUIT, true),
            (SignalKind::terminate(), Signal::TERM, false),
            (SignalKind::hangup(), Signal::HUP, false),
            (SignalKind::user_defined1(), Signal::USR1, false),
            (SignalKind::user_defined2(), Signal::USR2, false),
        ];
        let ignored = ignored_signals();
        let passed = passed.into_iter().filter_map(|(kind, sent, is_of_key)| {
            let is_ignored = ignored >> (kind.as_raw_value() - 1) & 1 == 1;
            (!is_ignored).then_some(())?;
            Some(PassedSignal {
                arrived: signal(kind).ok()?,
                signal: sent,
                is_of_key,
            })
        });
        PassedSignals(passed.collect())
    }

    /// Passes signals on to the process. Does not return.
    pub(super) async fn pass_to(&mut self, process: rustix::process::Pid) {
        loop {
            let signal = self.next().await;
            rustix::process::kill_process(process, signal).ok();
        }
    }

    async fn next(&mut self) -> rustix::process::Signal {
        std::future::poll_fn(|cx| {
            for passed in &mut self.0 {
                while passed.arrived.poll_recv(cx).is_ready() {
                    if !passed.is_of_key || !is_in_foreground() {
                        return std::task::Poll::Ready(passed.signal);
                    }
                }
            }
            std::task::Poll::Pending
        })
        .await
    }
}

/// Returns the set of the signals that this process ignores, a bit for each, from signal 1 on. Only Linux tells it without
/// `unsafe` code: elsewhere the set is empty.
#[cfg(unix)]
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mut lines = status.lines();
    let ignored = lines.find_map(|line| line.strip_prefix("SigIgn:"));
    ignored.map_or(0, |set| u64::from_str_radix(set.trim(), 16).unwrap_or(0))
}

/// Returns true if the keys of a terminal send signals to this process, and so to its command.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let own = rustix::process::getpgrp();
    // The terminal sends them whether or not its files are those of the process.
    let terminal = std::fs::File::open("/dev/tty").ok();
    let group = terminal.and_then(|terminal| rustix::termios::tcgetpgrp(terminal).ok());
    let of_terminal = [
        rustix::termios::tcgetpgrp(std::io::stdin()),
        rustix::termios::tcgetpgrp(std::io::stdout()),
        rustix::termios::tcgetpgrp(std::io::stderr()),
    ];
    group == Some(own) || of_terminal.contains(&Ok(own))
}

/// Waits for interrupts, which the terminal sends to the command, too. The command decides for both.
#[cfg(not(unix))]
pub(super) struct PassedSignals;

#[cfg(not(unix))]
impl PassedSignals {
    pub(super) fn new() -> PassedSignals {
        PassedSignals
    }

    /// Ignores interrupts. Does not return.
    pub(super) async fn wait(&mut self) {
        loop {
            tokio::signal::ctrl_c().await.ok();
        }
    }
}
