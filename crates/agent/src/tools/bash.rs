//! `bash`: runs a command, and kills everything that it started.
//!
//! A command is the leader of a separate process group. When it ends, when its time limit passes and when its future is
//! dropped, the processes that it started are killed, to the extent that [`Containment`] finds them. The wait for that is
//! bounded: a process that cannot be killed keeps running, and the output for the model says so.

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

use super::{BashInput, WorkingFolder};
pub(super) use group::ContainmentSupport;
use group::{CommandProcesses, HARD, REST};
use ttsr::harness::ToolOutput;

/// The means by which the processes of a command are found to be killed, from strong to weak.
///
/// | | killed with a command |
/// |---|---|
/// | [`Cgroup`](Self::Cgroup) | every process that it started; the kernel kills them. Not a process that may write to the parent control group and moves itself there |
/// | [`Subreaper`](Self::Subreaper) | every process that it started, also a daemon in its own session with an empty environment. After a command has killed its supervisor, as with `Group` |
/// | [`Group`](Self::Group) | its process group, and on Linux every process with the variable `TTSR_COMMAND` in its environment. Not a process that leaves the group and clears its environment |
///
/// A process that this process may not signal, such as one of another user (`sudo`), is never killed. Outside Linux
/// there is only `Group`, without the variable: a process that leaves the group is not killed.
///
/// # Example: the containment of this system
/// ```
/// use ttsr_agent::tools::{Containment, WorkingFolder};
/// let folder = WorkingFolder::open(std::env::temp_dir())?;
/// assert_ne!(folder.containment(), Containment::Subreaper, "no supervisor was set");
/// let folder = folder.at_most(Containment::Group);
/// assert_eq!(folder.containment(), Containment::Group);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Containment {
    /// The process group, and on Linux the processes that carry the mark of the command.
    Group,
    /// The descendants of a supervisor, which is their reaper. Linux, if the host sets a
    /// [supervisor](WorkingFolder::supervisor).
    Subreaper,
    /// A control group. Linux, if control groups of version 2 may be created and have `cgroup.kill` (5.14).
    Cgroup,
}

/// Turns this process into the supervisor of a command and does not return, if a [`WorkingFolder`] started it as one;
/// otherwise returns at once. A program that a host sets with [`WorkingFolder::supervisor`] must call it first in its `main`,
/// before it reads arguments or starts threads. No effect outside Linux.
///
/// # Example: a host that is its own supervisor
/// ```no_run
/// use ttsr_agent::tools::{WorkingFolder, supervise_if_asked};
/// fn main() -> std::io::Result<()> {
///     supervise_if_asked();
///     let folder = WorkingFolder::open(".")?.supervisor(std::env::current_exe()?);
///     # drop(folder);
///     Ok(())
/// }
/// ```
pub fn supervise_if_asked() {
    #[cfg(target_os = "linux")]
    supervisor::supervise_if_asked();
}

impl WorkingFolder {
    pub(super) async fn bash(&self, bash: &BashInput) -> ToolOutput {
        let asked = bash.timeout.map(Duration::from_secs);
        let limit = asked.map_or(self.limits.command, |asked| asked.min(self.limits.command));
        let mut output = CapturedOutput::new(self.limits.output);
        match run(self, &bash.command, limit, &mut output).await {
            Ok(CommandEnd::By(status)) => command_result(output, status),
            Ok(CommandEnd::Late) => {
                let note = format!("the command did not end within {limit:?} and was killed");
                ToolOutput::error(output.with_note(&note))
            }
            Ok(CommandEnd::Stuck) => {
                let note = format!(
                    "the command did not end within {limit:?}, and not when it was killed: it may still run"
                );
                ToolOutput::error(output.with_note(&note))
            }
            Ok(CommandEnd::Lost) => ToolOutput::error(output.with_note(
                "the process that supervised the command was killed, and so was the command",
            )),
            Err(error) => ToolOutput::error(format!("bash cannot be run: {error}")),
        }
    }
}

enum CommandEnd {
    By(ExitStatus),
    /// Killed when its time limit passed.
    Late,
    /// Not killed within [`HARD`].
    Stuck,
    /// Its exit status is unknown.
    Lost,
}

fn command_result(output: CapturedOutput, status: ExitStatus) -> ToolOutput {
    match (status.code(), status.signal()) {
        (Some(0), _) => ToolOutput::output(output.text()),
        (Some(code), _) => ToolOutput::error(output.with_note(&format!("exit code {code}"))),
        (None, signal) => {
            let signal = signal.unwrap_or_default();
            ToolOutput::error(output.with_note(&format!("ended by signal {signal}")))
        }
    }
}

async fn run(
    folder: &WorkingFolder,
    command: &str,
    limit: Duration,
    output: &mut CapturedOutput,
) -> io::Result<CommandEnd> {
    let deadline = Instant::now().checked_add(limit);
    let containment = folder.containment();
    let (group, mut status, pipe) =
        CommandProcesses::start(&folder.path, command, containment, &folder.support)?;
    let mut pipe = Some(Receiver::from_owned_fd_unchecked(pipe)?);
    let mut deadline = until(deadline);
    let mut is_late = false;
    let ended = loop {
        tokio::select! {
            biased;
            status = &mut status => break match status {
                Ok(Some(_)) if is_late => CommandEnd::Late,
                Ok(Some(status)) => CommandEnd::By(status),
                Ok(None) if is_late => CommandEnd::Late,
                _ => CommandEnd::Lost,
            },
            () = &mut deadline => {
                if is_late {
                    break CommandEnd::Stuck;
                }
                is_late = true;
                group.kill();
                deadline = until(Instant::now().checked_add(HARD));
            }
            went = read(&mut pipe, output) => went?,
        }
    };
    // Read the rest of the output from the pipe. A process that was not found may still hold the other end.
    let rest = async { while pipe.is_some() && read(&mut pipe, output).await.is_ok() {} };
    timeout(REST, rest).await.ok();
    Ok(ended)
}

/// Reads some of the output; never returns once the output has ended.
async fn read(pipe: &mut Option<Receiver>, output: &mut CapturedOutput) -> io::Result<()> {
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

/// The output of a command, truncated in the middle.
struct CapturedOutput {
    most: usize,
    first: Vec<u8>,
    /// The last bytes, with up to as many older ones before them.
    last: Vec<u8>,
    left_out: u64,
}

impl CapturedOutput {
    fn new(most: usize) -> CapturedOutput {
        CapturedOutput {
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

    /// Returns the text with a note on a separate line.
    fn with_note(self, note: &str) -> String {
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
