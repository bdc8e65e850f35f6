//! Removes API keys from the environment of `ttsr run`, so that commands of the model cannot read them.
//!
//! A command can read the environment of its ancestors: `/proc/<pid>/environ` shows the variables with which a process
//! was started, and removing a variable later does not change that. With `--tools`, the process therefore restarts
//! itself with the few variables it needs, and passes the key to itself through a pipe.

use std::env::var_os;

use super::{Options, key_variable};
use crate::CommandError;

/// Returns the provider's key, if there is one. With tools it returns only in the restarted process, whose environment
/// has no keys. Must be called before threads are started.
pub(super) fn take_key(options: &Options) -> Result<Option<String>, CommandError> {
    let key = || {
        let key = var_os(key_variable(options)?)?;
        key.into_string().ok()
    };
    #[cfg(unix)]
    if options.tools.is_some() {
        return unix::take_key(key, key_variable(options));
    }
    Ok(key())
}

#[cfg(unix)]
mod unix {
    use std::env::{args_os, current_exe, var_os, vars_os};
    use std::ffi::OsStr;
    use std::fs::File;
    use std::io::{self, Read as _, Write as _};
    use std::os::fd::AsRawFd as _;
    use std::os::unix::process::CommandExt as _;
    use std::process::Command;

    use rustix::io::{FdFlags, fcntl_setfd};

    use crate::CommandError;

    /// Names the pipe with the key in the restarted process.
    const PIPE: &str = "TTSR_KEY_PIPE";

    /// Maximum length of a key in bytes. A pipe buffers this many without a reader.
    const LONGEST: usize = 4096;

    /// Variables that are kept: they locate programs and certificates and describe the terminal.
    const KEPT: [&str; 23] = [
        "PATH",
        "HOME",
        "PWD",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LC_MESSAGES",
        "TZ",
        "TMPDIR",
        "USER",
        "LOGNAME",
        "TERM",
        "COLORTERM",
        "NO_COLOR",
        "CLICOLOR",
        "CLICOLOR_FORCE",
        "COLUMNS",
        "LINES",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "RUST_BACKTRACE",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
    ];

    pub(super) fn take_key(
        key: impl FnOnce() -> Option<String>,
        variable: Option<&str>,
    ) -> Result<Option<String>, CommandError> {
        let key = match var_os(PIPE) {
            Some(pipe) => read_key(&pipe),
            None => {
                let error = start_again(key().unwrap_or_default(), variable);
                return Err(CommandError::Message(format!(
                    "cannot restart without keys in the environment, as `--tools` requires: {error}"
                )));
            }
        };
        let key =
            key.map_err(|error| CommandError::Message(format!("the key was lost: {error}")))?;
        // Prevents other processes of the same user from reading the memory that holds the key.
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{DumpableBehavior, set_dumpable_behavior};
            set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        }
        Ok(Some(key).filter(|key| !key.is_empty()))
    }

    /// Replaces this process. Returns only on failure.
    fn start_again(key: String, variable: Option<&str>) -> io::Error {
        let started = || {
            if key.len() > LONGEST {
                let message = format!("the key has {} bytes, limit is {LONGEST}", key.len());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let (reader, mut writer) = io::pipe()?;
            writer.write_all(key.as_bytes())?;
            drop(writer);
            // The pipe stays open across the restart; afterwards it is empty.
            fcntl_setfd(&reader, FdFlags::empty())?;
            let is_kept = |name: &OsStr| {
                let name = name.to_str();
                name.is_some_and(|name| KEPT.contains(&name) && Some(name) != variable)
            };
            let kept = vars_os().filter(|(name, _)| is_kept(name));
            let mut arguments = args_os();
            let name = arguments.next().unwrap_or_default();
            Err::<(), _>(
                Command::new(current_exe()?)
                    .arg0(name)
                    .args(arguments)
                    .env_clear()
                    .envs(kept)
                    .env(PIPE, reader.as_raw_fd().to_string())
                    .exec(),
            )
        };
        match started() {
            Ok(()) => io::Error::other("the process was not replaced"),
            Err(error) => error,
        }
    }

    fn read_key(pipe: &OsStr) -> io::Result<String> {
        let number = pipe.to_str().and_then(|pipe| pipe.parse::<u32>().ok());
        let number = number.ok_or(io::ErrorKind::InvalidData)?;
        let pipe = File::open(format!("/proc/self/fd/{number}"))
            .or_else(|_| File::open(format!("/dev/fd/{number}")))?;
        let mut key = String::new();
        pipe.take(LONGEST as u64).read_to_string(&mut key)?;
        Ok(key)
    }
}
