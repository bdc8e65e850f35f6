//! Processes in `/proc`: descendants of a process, and processes with a mark in their environment.
//!
//! Every signal is sent through a pidfd that is opened before the process is checked again, so a process id that the
//! system has reused is never signalled.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// The pause between two passes over processes that were killed but have not ended.
const PAUSE: Duration = Duration::from_millis(2);

/// The identity of a process. The start time distinguishes it from a later process with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct ProcessIdentity {
    pid: i32,
    started: u64,
}

/// Kills every descendant of the process `root`, also new ones, until none is left or `most` has passed. `reap` is
/// called in each pass, to reap children of this process.
///
/// Processes are stopped before they are killed: a stopped process cannot fork, so a command that forks faster than it
/// can be killed is still caught.
pub(super) fn kill_descendants(root: Pid, most: Duration, reap: impl Fn()) {
    let deadline = Instant::now() + most;
    loop {
        reap();
        let mut stopped = HashSet::new();
        loop {
            let found = descendants(root);
            let new: Vec<ProcessIdentity> = found.difference(&stopped).copied().collect();
            if new.is_empty() || Instant::now() > deadline {
                break;
            }
            new.iter().for_each(|process| send(*process, Signal::STOP));
            stopped.extend(new);
        }
        stopped
            .iter()
            .for_each(|process| send(*process, Signal::KILL));
        reap();
        if stopped.is_empty() || Instant::now() > deadline {
            return;
        }
        sleep(PAUSE);
    }
}

/// Kills every process whose environment contains `mark`, until none is left or `most` has passed.
pub(super) fn kill_marked(mark: &str, most: Duration) {
    let deadline = Instant::now() + most;
    loop {
        let marked = marked(mark);
        if marked.is_empty() {
            return;
        }
        marked
            .into_iter()
            .for_each(|process| send(process, Signal::KILL));
        if Instant::now() > deadline {
            return;
        }
        sleep(PAUSE);
    }
}

fn send(process: ProcessIdentity, signal: Signal) {
    let Some(pid) = Pid::from_raw(process.pid) else {
        return;
    };
    if let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty())
        && stat(process.pid).is_some_and(|(_, known)| known == process)
    {
        // Fails if the process has ended, or may not be signalled.
        pidfd_send_signal(pidfd, signal).ok();
    }
}

/// Returns the living descendants of a process, without zombies.
fn descendants(root: Pid) -> HashSet<ProcessIdentity> {
    let mut children: HashMap<i32, Vec<ProcessIdentity>> = HashMap::new();
    for (parent, process) in pids().filter_map(stat) {
        children.entry(parent).or_default().push(process);
    }
    let mut found = HashSet::new();
    let mut open = vec![root.as_raw_nonzero().get()];
    while let Some(pid) = open.pop() {
        for process in children.remove(&pid).unwrap_or_default() {
            open.push(process.pid);
            found.insert(process);
        }
    }
    found
}

fn marked(mark: &str) -> Vec<ProcessIdentity> {
    let is_marked = |process: &ProcessIdentity| {
        let environ = fs::read(format!("/proc/{}/environ", process.pid)).unwrap_or_default();
        environ
            .split(|byte| *byte == 0)
            .any(|variable| variable == mark.as_bytes())
    };
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let processes = pids().filter(|pid| *pid != own).filter_map(stat);
    processes
        .map(|(_, process)| process)
        .filter(is_marked)
        .collect()
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the parent of a living process, and its identity.
fn stat(pid: i32) -> Option<(i32, ProcessIdentity)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any character, so the fields are counted after the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    if matches!(state, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    // The 22nd field; the state is the 3rd, the parent the 4th.
    let started = fields.nth(17)?.parse().ok()?;
    Some((parent, ProcessIdentity { pid, started }))
}
