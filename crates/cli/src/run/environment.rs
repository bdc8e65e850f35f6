//! The environment of `ttsr run`, before a model can read it.
//!
//! A command that a model runs can read the environment of its ancestors: `/proc/<pid>/environ` shows what a process
//! was started with, and removing a variable later changes nothing there. So with `--tools` the process starts itself
//! again with the few variables that it needs, and hands itself the key over a pipe.

use std::env::var_os;

use super::{Options, key_variable};
use crate::Stop;

/// The key of the provider, if there is one. With tools it returns in a process whose environment holds no keys;
/// called before threads are started.
pub(super) fn take_key(options: &Options) -> Result<Option<String>, Stop> {
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

    use crate::Stop;

    /// Names the pipe with the key in a process that was started again.
    const PIPE: &str = "TTSR_KEY_PIPE";

    /// Longest key. A pipe takes as much without anybody who reads.
    const LONGEST: usize = 4096;

    /// Variables that are kept: how to find programs and certificates, and how to write to the terminal.
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
    ) -> Result<Option<String>, Stop> {
        let key = match var_os(PIPE) {
            Some(pipe) => received(&pipe),
            None => {
                let error = start_again(key().unwrap_or_default(), variable);
                return Err(Stop::Because(format!(
                    "cannot start again without keys in the environment, which `--tools` needs: {error}"
                )));
            }
        };
        let key = key.map_err(|error| Stop::Because(format!("the key was lost: {error}")))?;
        // Keeps others of the same user out of the memory, where the key is now.
        #[cfg(target_os = "linux")]
        {
            use rustix::process::{DumpableBehavior, set_dumpable_behavior};
            set_dumpable_behavior(DumpableBehavior::NotDumpable).ok();
        }
        Ok(Some(key).filter(|key| !key.is_empty()))
    }

    /// Returns only if it fails.
    fn start_again(key: String, variable: Option<&str>) -> io::Error {
        let started = || {
            if key.len() > LONGEST {
                let message = format!("the key has {} bytes, limit is {LONGEST}", key.len());
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
            let (reader, mut writer) = io::pipe()?;
            writer.write_all(key.as_bytes())?;
            drop(writer);
            // It stays open across the start, and as an empty pipe afterwards.
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
            Ok(()) => io::Error::other("nothing happened"),
            Err(error) => error,
        }
    }

    fn received(pipe: &OsStr) -> io::Result<String> {
        let number = pipe.to_str().and_then(|pipe| pipe.parse::<u32>().ok());
        let number = number.ok_or(io::ErrorKind::InvalidData)?;
        let pipe = File::open(format!("/proc/self/fd/{number}"))
            .or_else(|_| File::open(format!("/dev/fd/{number}")))?;
        let mut key = String::new();
        pipe.take(LONGEST as u64).read_to_string(&mut key)?;
        Ok(key)
    }
}
