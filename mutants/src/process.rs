//! One run of a test program, within limits of time and memory.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// A mutant that allocates without end must not take the machine with it.
const MEMORY: u64 = 3 << 30;

pub struct Process<'a> {
    pub tree: &'a Path,
    pub program: &'a Path,
    pub tests: &'a [&'a str],
    /// How much time of a processor it may take: it is the same on a busy machine.
    pub processor: Duration,
    /// How long it may wait besides.
    pub patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Passed,
    /// With the test that failed.
    Failed(String),
    TimedOut(String),
}

impl Process<'_> {
    /// Runs the tests one after another until the first fails.
    pub fn run(&self, variable: (&str, &OsStr)) -> Result<End> {
        let mut child = Command::new("prlimit")
            .arg(format!("--cpu={}", self.processor.as_secs() + 1))
            .arg(format!("--as={MEMORY}"))
            .arg("--core=0")
            .arg(self.program)
            .args(["--exact", "--test-threads=1"])
            .args(self.tests)
            .current_dir(self.tree)
            .env(variable.0, variable.1)
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("prlimit (of util-linux) is needed")?;
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                if sender
                    .send(String::from_utf8_lossy(&line).into_owned())
                    .is_err()
                {
                    break;
                }
            }
        });
        let until = Instant::now() + self.patience;
        let mut passed = 0;
        loop {
            match lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("test ") && line.ends_with("FAILED") => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(End::Failed(self.test(passed)));
                }
                Ok(line) => {
                    passed += usize::from(line.starts_with("test ") && line.ends_with("ok"))
                }
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(End::TimedOut(self.test(passed)));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let status = child.wait()?;
        Ok(match killed_for_time(status) {
            _ if status.success() => End::Passed,
            true => End::TimedOut(self.test(passed)),
            false => End::Failed(self.test(passed)),
        })
    }

    /// The test behind those that passed: programs run theirs in the order of the alphabet.
    fn test(&self, passed: usize) -> String {
        let mut tests = self.tests.to_vec();
        tests.sort_unstable();
        tests
            .get(passed)
            .copied()
            .unwrap_or("at its end")
            .to_owned()
    }
}

fn killed_for_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    /// SIGXCPU, or SIGKILL where that is not heard.
    const SIGNALS: [i32; 2] = [24, 9];
    status.signal().is_some_and(|it| SIGNALS.contains(&it))
}
