//! Instructions of this program in a child process, counted by valgrind's callgrind. The benches of the library use it too.

use std::ffi::OsString;
use std::process::Command;

/// The count of a child process.
pub(crate) struct Counted {
    pub(crate) instructions: u64,
    /// The number that the child has printed: the pieces of a pass.
    pub(crate) pieces: u64,
}

/// Returns true if valgrind is installed.
pub(crate) fn has_valgrind() -> bool {
    let version = Command::new("valgrind").arg("--version").output();
    version.is_ok_and(|output| output.status.success())
}

/// Runs this program in a child process with these arguments and variables of the environment, and counts the functions
/// whose names match `toggle`, or everything.
///
/// # Errors
/// If the child cannot be run or fails, with what it has printed.
pub(crate) fn count(
    toggle: Option<&str>,
    arguments: &[OsString],
    environment: &[(&str, &str)],
) -> Result<Counted, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    if let Some(toggle) = toggle {
        command.arg("--collect-atstart=no");
        command.arg(format!("--toggle-collect={toggle}"));
    }
    let output = command
        .envs(environment.iter().copied())
        .arg(program)
        .args(arguments)
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let failure = |what: &str| format!("{arguments:?}: {what}:\n{said}");
    if !output.status.success() {
        return Err(failure("failed under valgrind"));
    }
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let pieces = String::from_utf8_lossy(&output.stdout);
    let counted = collected
        .and_then(|count| count.trim().parse().ok())
        .zip(pieces.trim().parse().ok());
    match counted {
        Some((instructions, pieces)) if instructions > pieces => Ok(Counted {
            instructions,
            pieces,
        }),
        _ => Err(failure("nothing was counted")),
    }
}
