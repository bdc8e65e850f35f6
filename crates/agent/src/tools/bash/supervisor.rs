//! A process between the host and a command, which becomes the parent of every process that the command orphans.
//!
//! The host cannot be that parent: it has other children, and could not tell an orphan of the command from them. The
//! supervisor has no other children. Its standard input is a socket to the host: when the other end closes, the
//! supervisor kills the command, so a host that is killed leaves nothing running. It writes the exit status of the
//! command to the socket.

use std::ffi::OsString;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Command, ExitStatus, Stdio, exit};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, getpid, set_child_subreaper, wait};

use super::procfs::kill_descendants;

/// The first argument of a supervisor.
pub(super) const ARGUMENT: &str = "--ttsr-supervise-command";

/// The time limit for killing. A process in an uninterruptible state ends only after that state does.
const KILLING: Duration = Duration::from_millis(1500);

/// Supervises a command and does not return, if this process was started for that.
pub(super) fn supervise_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == ARGUMENT) {
        let ended = supervise(arguments);
        exit(i32::from(ended.is_err()));
    }
}

fn supervise(mut command: impl Iterator<Item = OsString>) -> io::Result<()> {
    let own = getpid();
    set_child_subreaper(Some(own))?;
    let host = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let program = command.next().unwrap_or_default();
    let leader = Command::new(program)
        .args(command)
        .stdin(Stdio::null())
        // The command's signals to its own group must not reach its supervisor.
        .process_group(0)
        .spawn()?;
    let leader = Pid::from_child(&leader);
    let mut closed = host.try_clone()?;
    std::thread::Builder::new().spawn(move || {
        // The host writes nothing: this returns when the host closes its end, or ends.
        closed.read_exact(&mut [0]).ok();
        kill_descendants(own, KILLING, || {});
        exit(0);
    })?;
    let status = reap_until(leader)?;
    kill_descendants(own, KILLING, || {
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    });
    (&host).write_all(&encode_status(status))
}

/// Reaps every child that ends, up to that one.
fn reap_until(leader: Pid) -> io::Result<ExitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == leader => {
                return Ok(ExitStatus::from_raw(status.as_raw()));
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn encode_status(status: ExitStatus) -> [u8; 4] {
    status.into_raw().to_le_bytes()
}

/// Returns the exit status of a supervised command, or `None` if the supervisor ended without writing it.
pub(super) fn read_status(mut supervisor: &UnixStream) -> Option<ExitStatus> {
    let mut raw = [0; 4];
    supervisor.read_exact(&mut raw).ok()?;
    Some(ExitStatus::from_raw(i32::from_le_bytes(raw)))
}
