//! Instructions of this program in a child process, counted by valgrind's callgrind.

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

/// Runs this program in a child process with these arguments and variables of the environment. The functions whose names match
/// `toggle` are counted.
pub(crate) fn count(toggle: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Counted {
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--collect-atstart=no"])
        .arg(format!("--toggle-collect={toggle}"))
        .arg("--callgrind-out-file=/dev/null")
        .envs(environment.iter().copied())
        .arg(program)
        .args(arguments)
        .output()
        .expect("valgrind is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?} failed:\n{said}");
    let collected = said
        .lines()
        .find_map(|line| line.split("Collected :").nth(1));
    let pieces = String::from_utf8_lossy(&output.stdout);
    let counted = Counted {
        instructions: collected
            .and_then(|count| count.trim().parse().ok())
            .expect("callgrind says its count"),
        pieces: pieces.trim().parse().expect("the child says its pieces"),
    };
    assert!(
        counted.instructions > counted.pieces,
        "{arguments:?}: the pass was not counted"
    );
    counted
}
