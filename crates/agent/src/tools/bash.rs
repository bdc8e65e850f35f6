//! `bash`: a command, everything it starts, and their end.
//!
//! The command is the leader of a process group of its own. When it ends, when its time is over and when nobody waits
//! any more, everything it started is killed, as far as [`Containment`] finds it. The wait for that is bounded,
//! whatever the processes do: a process that cannot be killed is left to the system, and the model is told.

#[cfg(target_os = "linux")]
mod cgroup;
mod group;
#[cfg(target_os = "linux")]
mod procfs;
#[cfg(target_os = "linux")]
mod supervisor;

use std::future::pending;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::time::{Instant, sleep_until, timeout};

use super::{Bash, Folder};
pub(super) use group::Containers;
use group::{Group, HARD, REST};
use ttsr::harness::After;

/// How the processes of a command of `bash` are found when they are to be killed, from strong to weak.
///
/// | | what is killed with a command |
/// |---|---|
/// | [`Cgroup`](Self::Cgroup) | everything it started; the kernel does it. A process that may write to the control group above, and moves itself there, is out |
/// | [`Subreaper`](Self::Subreaper) | everything it started, also where a process is a daemon of its own session with an empty environment. A command that kills its supervisor is followed as with `Group` from then on |
/// | [`Group`](Self::Group) | its process group, and on Linux every process with the variable `TTSR_COMMAND` in its environment. A process that leaves the group and clears its environment is out |
///
/// In none of them a process is killed that the system does not let this process signal, such as one of another user
/// (`sudo`). Outside Linux there is only `Group`, without the variable: what leaves the group is out.
///
/// # Example: what is promised here
/// ```
/// use ttsr_agent::tools::{Containment, Folder};
/// let folder = Folder::open(std::env::temp_dir())?;
/// assert_ne!(folder.containment(), Containment::Subreaper, "nobody has named a supervisor");
/// let folder = folder.at_most(Containment::Group);
/// assert_eq!(folder.containment(), Containment::Group);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Containment {
    /// The process group, and on Linux what carries the mark of the command.
    Group,
    /// Descendants of a supervisor, which is the reaper of all of them. Linux, where the host names a
    /// [supervisor](Folder::supervisor).
    Subreaper,
    /// A control group. Linux, where control groups of version 2 may be made and `cgroup.kill` is there (5.14).
    Cgroup,
}

/// Makes this process the supervisor of a command and does not return, if a [`Folder`] started it as that; returns
/// at once otherwise. A program that a host names with [`Folder::supervisor`] calls it first in its `main`, before it
/// reads arguments or starts threads. Does nothing outside Linux.
///
/// # Example: a host that is its own supervisor
/// ```no_run
/// use ttsr_agent::tools::{Folder, supervise_if_asked};
/// fn main() -> std::io::Result<()> {
///     supervise_if_asked();
///     let folder = Folder::open(".")?.supervisor(std::env::current_exe()?);
///     # drop(folder);
///     Ok(())
/// }
/// ```
pub fn supervise_if_asked() {
    #[cfg(target_os = "linux")]
    supervisor::supervise_if_asked();
}

impl Folder {
    pub(super) async fn bash(&self, bash: &Bash) -> After {
        let asked = bash.timeout.map(Duration::from_secs);
        let limit = asked.map_or(self.bounds.command, |asked| asked.min(self.bounds.command));
        let mut output = Output::new(self.bounds.output);
        match run(self, &bash.command, limit, &mut output).await {
            Ok(Ended::By(status)) => told(output, status),
            Ok(Ended::Late) => {
                let note = format!("the command did not end within {limit:?} and was killed");
                After::error(output.noted(&note))
            }
            Ok(Ended::Stuck) => {
                let note = format!(
                    "the command did not end within {limit:?}, and not when it was killed: it may still run"
                );
                After::error(output.noted(&note))
            }
            Ok(Ended::Lost) => After::error(output.noted(
                "the process that supervised the command was killed, and so was the command",
            )),
            Err(error) => After::error(format!("bash cannot be run: {error}")),
        }
    }
}

enum Ended {
    By(ExitStatus),
    /// Killed when its time was over.
    Late,
    /// It could not be killed within [`HARD`].
    Stuck,
    /// How it ended is not known.
    Lost,
}

fn told(output: Output, status: ExitStatus) -> After {
    match (status.code(), status.signal()) {
        (Some(0), _) => After::output(output.text()),
        (Some(code), _) => After::error(output.noted(&format!("exit code {code}"))),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            After::error(output.noted(&format!("ended by signal {signal}")))
        }
    }
}

async fn run(
    folder: &Folder,
    command: &str,
    limit: Duration,
    output: &mut Output,
) -> io::Result<Ended> {
    let deadline = Instant::now().checked_add(limit);
    let containment = folder.containment();
    let (group, mut status, pipe) =
        Group::start(&folder.path, command, containment, &folder.containers)?;
    let mut pipe = Some(Receiver::from_owned_fd_unchecked(pipe)?);
    let mut deadline = until(deadline);
    let mut is_late = false;
    let ended = loop {
        tokio::select! {
            biased;
            status = &mut status => break match status {
                Ok(Some(_)) if is_late => Ended::Late,
                Ok(Some(status)) => Ended::By(status),
                Ok(None) if is_late => Ended::Late,
                _ => Ended::Lost,
            },
            () = &mut deadline => {
                if is_late {
                    break Ended::Stuck;
                }
                is_late = true;
                group.kill();
                deadline = until(Instant::now().checked_add(HARD));
            }
            went = read(&mut pipe, output) => went?,
        }
    };
    // What is left of the output is in the pipe. A process that was not found may still hold the other end.
    let rest = async { while pipe.is_some() && read(&mut pipe, output).await.is_ok() {} };
    timeout(REST, rest).await.ok();
    Ok(ended)
}

/// Reads some of the output; where there is none any more it never ends.
async fn read(pipe: &mut Option<Receiver>, output: &mut Output) -> io::Result<()> {
    let Some(open) = pipe else {
        return pending().await;
    };
    let mut bytes = [0; 4096];
    match open.read(&mut bytes).await? {
        0 => *pipe = None,
        count => output.add(&bytes[..count]),
    }
    Ok(())
}

fn until(deadline: Option<Instant>) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => pending().await,
        }
    })
}

/// What a command wrote: its beginning and its end, where all of it is too much.
struct Output {
    most: usize,
    first: Vec<u8>,
    /// The last bytes, with up to as many old ones before them.
    last: Vec<u8>,
    left_out: u64,
}

impl Output {
    fn new(most: usize) -> Output {
        Output {
            most,
            first: Vec::new(),
            last: Vec::new(),
            left_out: 0,
        }
    }

    fn add(&mut self, bytes: &[u8]) {
        let half = self.most / 2;
        let (first, rest) = bytes.split_at(bytes.len().min(half.saturating_sub(self.first.len())));
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        let keep = self.most - half;
        if self.last.len() > 2 * keep + 4096 {
            self.drop_old(keep);
        }
    }

    fn drop_old(&mut self, keep: usize) {
        let old = self.last.len().saturating_sub(keep);
        self.last.drain(..old);
        self.left_out += old as u64;
    }

    /// The text, and a remark on a line of its own.
    fn noted(self, note: &str) -> String {
        let text = self.text();
        let gap = if text.is_empty() || text.ends_with('\n') {
            ""
        } else {
            "\n"
        };
        format!("{text}{gap}[{note}]")
    }

    fn text(mut self) -> String {
        self.drop_old(self.most - self.most / 2);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match self.left_out {
            0 => text(&[self.first, self.last].concat()),
            left_out => format!(
                "{}\n[{left_out} bytes left out]\n{}",
                text(&self.first),
                text(&self.last)
            ),
        }
    }
}
