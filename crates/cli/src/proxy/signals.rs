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
    /// Returns the signals from now on: none of them ends the proxy any more, because the command decides for both.
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
        let passed = passed.into_iter().filter_map(|(kind, sent, is_of_key)| {
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

/// Returns true if the keys of a terminal send signals to this process, and so to its command.
#[cfg(unix)]
fn is_in_foreground() -> bool {
    let own = rustix::process::getpgrp();
    let of_terminal = [
        rustix::termios::tcgetpgrp(std::io::stdin()),
        rustix::termios::tcgetpgrp(std::io::stdout()),
        rustix::termios::tcgetpgrp(std::io::stderr()),
    ];
    of_terminal.contains(&Ok(own))
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
