//! One run of a test program within limits of time and memory.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// Memory limit in bytes, for mutants that allocate without end.
const MEMORY: u64 = 3 << 30;

pub struct Process<'a> {
    pub tree: &'a Path,
    pub program: &'a Path,
    pub tests: &'a [&'a str],
    /// CPU time limit, which does not depend on the load of the machine.
    pub processor: Duration,
    /// Additional limit on elapsed time.
    pub patience: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    Passed,
    /// A test failed; contains its name.
    Failed(String),
    TimedOut(String),
}

impl Process<'_> {
    /// Runs the tests one after another until one fails. Returns the CPU time used.
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
        let spent = cpu_time(child.id());
        let status = child.wait()?;
        let end = match killed_for_time(status) {
            _ if status.success() => End::Passed,
            true => End::TimedOut(self.test(passed)),
            false => End::Failed(self.test(passed)),
        };
        Ok((end, spent))
    }

    /// Returns the test after those that passed. A test program runs its tests in alphabetical order.
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

/// Returns the CPU time of a child that has ended and has not been waited for, and of the processes it has started.
fn cpu_time(process: u32) -> Duration {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name in parentheses may contain anything. The state follows it, and eleven fields later four times in ticks.
        let fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let fields: Vec<&str> = fields.split_whitespace().collect();
        if fields.first().is_none_or(|&state| state == "Z") {
            let ticks = |at: usize| {
                fields
                    .get(at)
                    .and_then(|it| it.parse().ok())
                    .unwrap_or(0u64)
            };
            return Duration::from_millis(10 * (11..=14).map(ticks).sum::<u64>());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn killed_for_time(status: std::process::ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    /// SIGXCPU, or SIGKILL if that one is ignored.
    const SIGNALS: [i32; 2] = [24, 9];
    status.signal().is_some_and(|it| SIGNALS.contains(&it))
}
