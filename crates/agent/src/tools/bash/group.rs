//! Starts and kills the processes of one command.

use std::io;
#[cfg(target_os = "linux")]
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use rustix::fd::OwnedFd;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process, kill_process_group, waitid,
};
use tokio::sync::oneshot;

use super::Containment;
#[cfg(target_os = "linux")]
use super::{cgroup::Cgroup, procfs::kill_marked, supervisor};

/// The environment variables that a command inherits: enough to find programs, and no keys.
const KEPT: [&str; 7] = ["PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER", "LOGNAME"];

/// The variable that marks the processes of a command.
#[cfg(target_os = "linux")]
const MARK: &str = "TTSR_COMMAND";

/// The time limit for the rest of the output of a command that has ended.
pub(super) const REST: Duration = Duration::from_millis(200);

/// The time limit for a supervisor to kill its command, before this process kills both.
const SOFT: Duration = Duration::from_secs(2);

/// The time limit for killing in total, before the command is abandoned.
pub(super) const HARD: Duration = Duration::from_secs(4);

/// The time limit for the search for marked processes.
#[cfg(target_os = "linux")]
const MARKED: Duration = Duration::from_millis(500);

/// Joins the control group `$2` unless it is empty, then executes the command `$3` in bash, marked with `$1`.
const SCRIPT: &str = r#"export TTSR_COMMAND="$1"
if [ -n "$2" ]; then echo 0 > "$2" || exit 126; fi
exec bash --noprofile --norc -c "$3""#;

/// The means of this system to find the processes of a command.
#[derive(Debug, Default)]
pub(in super::super) struct ContainmentSupport {
    pub(in super::super) supervisor: Option<PathBuf>,
    /// The folder below which control groups can be created; probed once.
    cgroups: OnceLock<Option<PathBuf>>,
}

impl ContainmentSupport {
    /// Returns the strongest supported containment up to `most`.
    pub(in super::super) fn strongest_up_to(&self, most: Containment) -> Containment {
        if most >= Containment::Cgroup && self.cgroups().is_some() {
            Containment::Cgroup
        } else if most >= Containment::Subreaper && self.supervisor().is_some() {
            Containment::Subreaper
        } else {
            Containment::Group
        }
    }

    #[cfg(target_os = "linux")]
    fn cgroups(&self) -> Option<&Path> {
        self.cgroups.get_or_init(Cgroup::probe).as_deref()
    }

    #[cfg(not(target_os = "linux"))]
    fn cgroups(&self) -> Option<&Path> {
        self.cgroups.get_or_init(|| None).as_deref()
    }

    fn supervisor(&self) -> Option<&Path> {
        self.supervisor
            .as_deref()
            .filter(|_| cfg!(target_os = "linux"))
    }
}

/// A command and the processes that it started. Killed when it is dropped.
pub(super) struct CommandProcesses(Arc<Shared>);

/// The state that the host and the waiting thread share.
struct Shared {
    /// The command's own process, or its supervisor. It leads a process group.
    leader: Pid,
    /// True once the leader is reaped: its process id may then belong to another process.
    is_reaped: Mutex<bool>,
    reaped: Condvar,
    /// The host's end of the supervisor's standard input. The supervisor kills its command when it is closed.
    #[cfg(target_os = "linux")]
    host: Option<UnixStream>,
    #[cfg(target_os = "linux")]
    cgroup: Option<Cgroup>,
    #[cfg(target_os = "linux")]
    mark: String,
}

/// Receives the exit status of the command; `None` if its supervisor did not report it.
type ExitReceiver = oneshot::Receiver<Option<ExitStatus>>;

impl CommandProcesses {
    /// Starts the command. Standard output and standard error are one pipe, which keeps their order.
    pub(super) fn start(
        folder: &Path,
        command: &str,
        containment: Containment,
        support: &ContainmentSupport,
    ) -> io::Result<(CommandProcesses, ExitReceiver, OwnedFd)> {
        let (reader, writer) = io::pipe()?;
        rustix::io::ioctl_fionbio(&reader, true)?;
        let mark = unique_mark();
        #[cfg(target_os = "linux")]
        let cgroup = match containment {
            Containment::Cgroup => support.cgroups().map(Cgroup::create_below).transpose()?,
            _ => None,
        };
        #[cfg(target_os = "linux")]
        let procs = cgroup.as_ref().map(Cgroup::procs).unwrap_or_default();
        #[cfg(not(target_os = "linux"))]
        let procs = PathBuf::new();

        let supervisor = support.supervisor();
        let supervisor = supervisor.filter(|_| containment >= Containment::Subreaper);
        let mut starting = Command::new(supervisor.unwrap_or(Path::new("bash")));
        #[cfg(target_os = "linux")]
        let host = match supervisor {
            Some(_) => {
                let (host, own) = UnixStream::pair()?;
                starting.args([supervisor::ARGUMENT, "bash"]);
                starting.stdin(OwnedFd::from(own));
                Some(host)
            }
            None => None,
        };
        if supervisor.is_none() {
            starting.stdin(Stdio::null());
        }
        let kept = KEPT
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?)));
        let leader = starting
            .args(["--noprofile", "--norc", "-c", SCRIPT, "bash", &mark])
            .arg(procs)
            .arg(command)
            .current_dir(folder)
            .env_clear()
            .envs(kept)
            .env("HOME", folder)
            .env("TERM", "dumb")
            .stdout(writer.try_clone()?)
            .stderr(writer)
            .process_group(0)
            .spawn()?;
        // `starting` holds the other ends of the pipe and of the socket.
        drop(starting);
        let shared = Arc::new(Shared {
            leader: Pid::from_child(&leader),
            is_reaped: Mutex::new(false),
            reaped: Condvar::new(),
            #[cfg(target_os = "linux")]
            host,
            #[cfg(target_os = "linux")]
            cgroup,
            #[cfg(target_os = "linux")]
            mark: format!("{MARK}={mark}"),
        });
        let group = CommandProcesses(Arc::clone(&shared));
        let (sender, status) = oneshot::channel();
        let waiting = move || {
            let status = shared.wait(leader);
            // Fails if the call was dropped.
            sender.send(status).ok();
        };
        let name = "ttsr-bash".to_owned();
        std::thread::Builder::new().name(name).spawn(waiting)?;
        Ok((group, status, reader.into()))
    }

    /// Kills the command and everything it started. Does not wait.
    pub(super) fn kill(&self) {
        let shared = Arc::clone(&self.0);
        let is_reaped = self.0.is_reaped();
        if *is_reaped {
            return;
        }
        shared.kill();
        drop(is_reaped);
        if shared.is_supervised() {
            // A supervisor that is stopped or blocked does not end by itself.
            let name = "ttsr-kill".to_owned();
            let started = std::thread::Builder::new().name(name).spawn({
                let shared = Arc::clone(&shared);
                move || shared.kill_supervisor_after(SOFT)
            });
            if started.is_err() {
                shared.kill_supervisor_after(Duration::ZERO);
            }
        }
    }
}

impl Drop for CommandProcesses {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Shared {
    fn is_reaped(&self) -> MutexGuard<'_, bool> {
        self.is_reaped
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the leader has ended, kills the processes that it left, and reaps it.
    fn wait(&self, mut leader: Child) -> Option<ExitStatus> {
        #[cfg(target_os = "linux")]
        let said = self.host.as_ref().map(supervisor::read_status);
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        while let Err(rustix::io::Errno::INTR) = waitid(WaitId::Pid(self.leader), options) {}
        let mut is_reaped = self.is_reaped();
        // The leader is not reaped yet, so its process id still identifies its group.
        self.kill_leader();
        let status = leader.wait().ok();
        *is_reaped = true;
        drop(is_reaped);
        self.reaped.notify_all();
        #[cfg(target_os = "linux")]
        {
            if let Some(cgroup) = &self.cgroup {
                cgroup.empty();
            }
            // A supervisor that reported the exit status has killed all processes.
            if !matches!(said, Some(Some(_))) {
                kill_marked(&self.mark, MARKED);
            }
            if let Some(said) = said {
                return said;
            }
        }
        status
    }

    fn kill(&self) {
        #[cfg(target_os = "linux")]
        {
            if let Some(host) = &self.host {
                // Fails only if the other end is closed.
                host.shutdown(std::net::Shutdown::Write).ok();
            }
            if let Some(cgroup) = &self.cgroup {
                cgroup.kill();
            }
        }
        if !self.is_supervised() {
            self.kill_leader();
        }
    }

    /// Kills the leader and its group. The leader is killed by id too, because it may have joined another group. Must
    /// not be called once it is reaped.
    fn kill_leader(&self) {
        // The first call fails only if the group is empty, the second only if the leader has ended.
        kill_process_group(self.leader, Signal::KILL).ok();
        kill_process(self.leader, Signal::KILL).ok();
    }

    fn kill_supervisor_after(&self, wait: Duration) {
        let is_reaped = self.is_reaped();
        let waited = self
            .reaped
            .wait_timeout_while(is_reaped, wait, |is_reaped| !*is_reaped);
        let (is_reaped, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if !*is_reaped {
            self.kill_leader();
        }
    }

    #[cfg(target_os = "linux")]
    fn is_supervised(&self) -> bool {
        self.host.is_some()
    }

    #[cfg(not(target_os = "linux"))]
    fn is_supervised(&self) -> bool {
        false
    }
}

/// Returns a mark that no other command on this system has.
fn unique_mark() -> String {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::{SystemTime, UNIX_EPOCH};
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos());
    format!("{}-{number}-{nanos:x}", std::process::id())
}
