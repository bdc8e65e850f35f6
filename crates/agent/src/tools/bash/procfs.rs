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
        let mut is_done = true;
        for process in processes() {
            match mark_state(process, mark) {
                MarkState::Marked => {
                    send(process, Signal::KILL);
                    is_done = false;
                }
                MarkState::Unknown => is_done = false,
                MarkState::Unmarked => {}
            }
        }
        if is_done || Instant::now() > deadline {
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
        && stat(process.pid).is_some_and(|stat| stat.process == process)
    {
        // Fails if the process has ended, or may not be signalled.
        pidfd_send_signal(pidfd, signal).ok();
    }
}

/// Returns the living descendants of a process, without zombies.
fn descendants(root: Pid) -> HashSet<ProcessIdentity> {
    let mut children: HashMap<i32, Vec<ProcessIdentity>> = HashMap::new();
    for stat in pids().filter_map(stat) {
        children.entry(stat.parent).or_default().push(stat.process);
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

/// The result of a look for a mark in the environment of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MarkState {
    Marked,
    Unmarked,
    /// The environment could not be read in full: the process is executing another program.
    Unknown,
}

/// Looks for `mark` in the environment of a process.
///
/// While a process executes another program, its old environment is gone and its new one is not in place: the system
/// then returns fewer bytes than the environment has, without an error.
fn mark_state(process: ProcessIdentity, mark: &str) -> MarkState {
    let Ok(environ) = fs::read(format!("/proc/{}/environ", process.pid)) else {
        // The process has ended, or belongs to another user.
        return MarkState::Unmarked;
    };
    let mut variables = environ.split(|byte| *byte == 0);
    if variables.any(|variable| variable == mark.as_bytes()) {
        return MarkState::Marked;
    }
    let Some(stat) = stat(process.pid).filter(|stat| stat.process == process) else {
        return MarkState::Unmarked;
    };
    let is_complete = stat.environ_bytes == Some(environ.len());
    if is_complete || stat.is_kernel_thread {
        MarkState::Unmarked
    } else {
        MarkState::Unknown
    }
}

/// Returns the living processes of this system, without zombies and without this process.
fn processes() -> impl Iterator<Item = ProcessIdentity> {
    let own = i32::try_from(std::process::id()).unwrap_or(0);
    let others = pids().filter(move |pid| *pid != own);
    others.filter_map(stat).map(|stat| stat.process)
}

fn pids() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Fields of `/proc/PID/stat`.
struct ProcessStat {
    process: ProcessIdentity,
    parent: i32,
    is_kernel_thread: bool,
    /// The size of the environment; `None` while the process executes another program.
    environ_bytes: Option<usize>,
}

/// Reads `/proc/PID/stat` of a living process. `None` for a zombie.
fn stat(pid: i32) -> Option<ProcessStat> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses and may contain any character, so the fields are counted after the last parenthesis.
    let (_, fields) = stat.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    // Numbered from 1, as in proc(5). The state is the third.
    let field = |number: usize| fields.get(number - 3).copied();
    if matches!(field(3)?, "Z" | "X") {
        return None;
    }
    let address = |number| field(number)?.parse::<usize>().ok().filter(|at| *at != 0);
    // The end of the code is set after the bounds of the environment, which are equal for a moment.
    let environ_bytes = match (address(27), address(50), address(51)) {
        (Some(_), Some(start), Some(end)) => end.checked_sub(start),
        _ => None,
    };
    Some(ProcessStat {
        process: ProcessIdentity {
            pid,
            started: field(22)?.parse().ok()?,
        },
        parent: field(4)?.parse().ok()?,
        // The size of its address space is 0.
        is_kernel_thread: field(23)? == "0",
        environ_bytes,
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn a_process_that_executes_another_program_is_never_taken_for_unmarked() {
        let again = r#"exec /bin/sh -c "$0" "$0""#;
        let mut child = Command::new("/bin/sh")
            .args(["-c", again, again])
            .env_clear()
            .env("MARK", "one")
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        // At most one look in thirty falls into the change of programs.
        let states: Vec<MarkState> = (0..5000)
            .map(|_| mark_state(stat(pid).unwrap().process, "MARK=one"))
            .collect();
        let other = mark_state(stat(pid).unwrap().process, "MARK=two");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!states.contains(&MarkState::Unmarked));
        assert!(states.contains(&MarkState::Marked));
        assert_ne!(other, MarkState::Marked);
    }

    #[test]
    fn a_process_without_an_environment_is_unmarked() {
        let mut child = Command::new("/bin/sleep")
            .arg("100")
            .env_clear()
            .spawn()
            .unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        let state = || mark_state(stat(pid).unwrap().process, "MARK=one");
        while state() == MarkState::Unknown && Instant::now() < deadline {}
        let state = state();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(state, MarkState::Unmarked);
    }
}
