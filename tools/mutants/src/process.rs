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
    /// Runs the tests one after another until the first fails; says what time of a processor that took.
    pub fn run(&self, variable: (&str, &OsStr)) -> Result<(End, Duration)> {
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
                    return Ok((End::Failed(self.test(passed)), Duration::ZERO));
                }
                Ok(line) => {
                    passed += usize::from(line.starts_with("test ") && line.ends_with("ok"))
                }
                Err(RecvTimeoutError::Timeout) => {
                    child.kill()?;
                    child.wait()?;
                    return Ok((End::TimedOut(self.test(passed)), Duration::ZERO));
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        let spent = spent(child.id());
        let status = child.wait()?;
        let end = match killed_for_time(status) {
            _ if status.success() => End::Passed,
            true => End::TimedOut(self.test(passed)),
            false => End::Failed(self.test(passed)),
        };
        Ok((end, spent))
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

/// What a process has spent that is over, or about to be, and that nobody has waited for.
fn spent(process: u32) -> Duration {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name in brackets may hold anything; state is what comes next, times are eleven fields on, in ticks.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.first().is_none_or(|&state| state == "Z") {
            let ticks = |at: usize| {
                fields
                    .get(at)
                    .and_then(|it| it.parse().ok())
                    .unwrap_or(0u64)
            };
            return Duration::from_millis(10 * (ticks(11) + ticks(12)));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed_for_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    /// SIGXCPU, or SIGKILL where that is not heard.
    const SIGNALS: [i32; 2] = [24, 9];
    status.signal().is_some_and(|it| SIGNALS.contains(&it))
}
