//! `bash`: a command, its process group, and their end.
//!
//! The command is the leader of a group of its own, which is killed when the command ends, when its time
//! is over and when nobody waits any more. A process that leaves the group is not found.

use std::future::pending;
use std::io;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

use super::super::call::After;
use super::{Bash, Folder};

/// What a command gets of the environment: enough to find programs, and no keys.
const KEPT: [&str; 7] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME"];

/// How long to wait for the rest of the output of a command that has ended.
const REST: Duration = Duration::from_millis(200);

impl Folder {
    pub(super) async fn bash(&self, bash: &Bash) -> After {
        let asked = bash.timeout.map(Duration::from_secs);
        let limit = asked.map_or(self.bounds.command, |asked| asked.min(self.bounds.command));
        let mut output = Output::new(self.bounds.output);
        match run(&self.path, &bash.command, limit, &mut output).await {
            Ok(Ended::By(status)) => told(output, status),
            Ok(Ended::Late) => {
                let note = format!("the command did not end within {limit:?} and was killed");
                After::error(output.noted(&note))
            }
            Err(error) => After::error(format!("bash cannot be run: {error}")),
        }
    }
}

enum Ended {
    By(ExitStatus),
    Late,
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
    folder: &Path,
    command: &str,
    limit: Duration,
    output: &mut Output,
) -> io::Result<Ended> {
    let deadline = Instant::now().checked_add(limit);
    let (mut group, pipe) = Group::start(folder, command)?;
    let mut pipe = Some(Receiver::from_owned_fd_unchecked(pipe)?);
    let mut exited = group.watch()?;
    let is_late = loop {
        tokio::select! {
            biased;
            _ = &mut exited => break false,
            () = until(deadline) => break true,
            went = read(&mut pipe, output) => went?,
        }
    };
    let status = group.end()?;
    // What is left of the output is in the pipe, and no one of the group holds it any more.
    let rest = async { while pipe.is_some() && read(&mut pipe, output).await.is_ok() {} };
    timeout(REST, rest).await.ok();
    Ok(if is_late {
        Ended::Late
    } else {
        Ended::By(status)
    })
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

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => pending().await,
    }
}

/// A command and whatever it started. Killed when it is dropped.
struct Group {
    leader: Child,
    pid: Pid,
    is_over: bool,
}

impl Group {
    /// Starts the command; both of its outputs go into one pipe, in the order in which they are written.
    fn start(folder: &Path, command: &str) -> io::Result<(Group, rustix::fd::OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let kept = KEPT
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let leader = Command::new("bash")
            .args(["--noprofile", "--norc", "-c", command])
            .current_dir(folder)
            .env_clear()
            .envs(kept)
            .env("HOME", folder)
            .env("TERM", "dumb")
            .stdin(Stdio::null())
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        let group = Group {
            pid: Pid::from_child(&leader),
            leader,
            is_over: false,
        };
        Ok((group, reader.into()))
    }

    /// Tells when the leader has ended. It is not reaped then, so its number, which is the group's too,
    /// cannot become another process's before the group is killed.
    fn watch(&self) -> io::Result<oneshot::Receiver<()>> {
        let (ended, has_ended) = oneshot::channel();
        let pid = self.pid;
        let waiting = move || {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(pid), options) {}
            // Nobody waits any more where the call was dropped.
            ended.send(()).ok();
        };
        let name = "ttsr-bash".to_owned();
        std::thread::Builder::new().name(name).spawn(waiting)?;
        Ok(has_ended)
    }

    /// Kills what is left, and reaps the leader.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if !self.is_over {
            self.is_over = true;
            // It fails only where nobody of the group is left.
            kill_process_group(self.pid, Signal::KILL).ok();
        }
        self.leader.wait()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if !self.is_over {
            self.end().ok();
        }
    }
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
