//! The control group of one command: it contains every process that the command starts, and the kernel kills them all
//! at once.
//!
//! Only version 2, and only if the group of this process permits groups below it: as root, and in sessions that systemd
//! delegates to their user. `cgroup.kill` exists since Linux 5.14.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The time limit for the processes of a killed group to end.
const GONE: Duration = Duration::from_millis(500);

/// A group below that of this process. Removed when it is dropped.
#[derive(Debug)]
pub(super) struct Cgroup(PathBuf);

impl Cgroup {
    /// Returns the folder below which groups can be created, or `None`. Creates, joins and removes one group to find
    /// out.
    pub(super) fn probe() -> Option<PathBuf> {
        let base = base(
            &fs::read_to_string("/proc/self/mountinfo").ok()?,
            &fs::read_to_string("/proc/self/cgroup").ok()?,
        )?;
        remove_stale(&base);
        let group = Cgroup::create_below(&base).ok()?;
        let can_kill = group.0.join("cgroup.kill").exists();
        let joins = || {
            Command::new("bash")
                .args(["--noprofile", "--norc", "-c", "echo 0 > \"$1\"", "bash"])
                .arg(group.procs())
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
        };
        (can_kill && joins().is_ok_and(|status| status.success())).then_some(base)
    }

    /// Creates an empty group.
    pub(super) fn create_below(base: &Path) -> io::Result<Cgroup> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = base.join(format!("ttsr-{}-{number}", std::process::id()));
        fs::create_dir(&path)?;
        Ok(Cgroup(path))
    }

    /// Returns the file by which a process joins the group, by writing `0`.
    pub(super) fn procs(&self) -> PathBuf {
        self.0.join("cgroup.procs")
    }

    /// Kills every process of the group and of the groups below it.
    pub(super) fn kill(&self) {
        // Fails only if somebody else has removed the group.
        fs::write(self.0.join("cgroup.kill"), "1").ok();
    }

    /// Kills the processes and waits until they have ended, within [`GONE`].
    pub(super) fn empty(&self) {
        let deadline = Instant::now() + GONE;
        self.kill();
        while self.is_populated() && Instant::now() < deadline {
            sleep(Duration::from_millis(1));
        }
    }

    fn is_populated(&self) -> bool {
        let events = fs::read_to_string(self.0.join("cgroup.events")).unwrap_or_default();
        events.lines().any(|line| line == "populated 1")
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        self.empty();
        remove(&self.0);
    }
}

/// Removes the groups of processes that were killed before they could.
fn remove_stale(base: &Path) {
    for entry in fs::read_dir(base).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix("ttsr-"));
        let owner = owner.and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            remove(&entry.path());
        }
    }
}

/// Removes a group and the empty groups that the command has created below it.
fn remove(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten();
    let folders = below.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    folders.for_each(|folder| remove(&folder.path()));
    // Fails if a process cannot be killed; the group then contains only that one.
    fs::remove_dir(group).ok();
}

/// Returns the folder of this process's group, from the mount point of the hierarchy and the path of the group in it.
fn base(mounts: &str, groups: &str) -> Option<PathBuf> {
    let group = groups.lines().find_map(|line| line.strip_prefix("0::"))?;
    mounts.lines().find_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        let (root, mounted) = (fields.next()?, fields.next()?);
        let below = Path::new(group).strip_prefix(root).ok()?;
        Some(Path::new(mounted).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_a_group_is_found() {
        let hybrid = "31 24 0:27 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
            40 24 0:36 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
        let unified = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
        let container = "30 23 0:26 /docker/a1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n";
        for (mounts, groups, expected) in [
            (hybrid, "8:pids:/\n0::/\n", Some("/sys/fs/cgroup/unified")),
            (
                unified,
                "0::/user.slice/user-1000.slice\n",
                Some("/sys/fs/cgroup/user.slice/user-1000.slice"),
            ),
            (container, "0::/docker/a1/b\n", Some("/sys/fs/cgroup/b")),
            (container, "0::/elsewhere\n", None),
            ("", "0::/\n", None),
            (unified, "8:pids:/\n", None),
        ] {
            let found = base(mounts, groups);
            assert_eq!(
                found.as_deref(),
                expected.map(Path::new),
                "{mounts}{groups}"
            );
        }
    }
}
