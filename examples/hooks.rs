//! Useful hooks: a token budget, the input of a tool while it is written, time to first token and throughput, counts of
//! aborts, a shorter answer after a timeout, and no edit of a file that was not read.
//!
//! `cargo run --features harness --example hooks`

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ttsr::harness::{
    AbortReason, AbortSource, Aborted, Delta, Hook, HookAnswer, HookContext, HookPoint, Hooks,
};
use ttsr::{Channel, PartId};

/// Data shared by hooks and the host.
pub(crate) type Shared<T> = Arc<Mutex<T>>;

fn with<T, R>(shared: &Shared<T>, change: impl FnOnce(&mut T) -> R) -> R {
    change(&mut shared.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Ends a reply that would exceed `tokens` tokens, at four bytes per token.
pub(crate) fn token_budget(hooks: &mut Hooks, tokens: usize) {
    let mut spent = (0, 0);
    hooks.on_delta("token-budget", move |at, delta| {
        if spent.0 != at.attempt {
            spent = (at.attempt, 0);
        }
        spent.1 += delta.bytes().len();
        if spent.1 > tokens * 4 {
            delta.abort();
        }
    });
}

/// Keeps the input of each pending tool call, for a screen that draws it while it grows.
pub(crate) fn tool_inputs(hooks: &mut Hooks) -> Shared<BTreeMap<PartId, String>> {
    let shown = Shared::default();
    let kept = Arc::clone(&shown);
    hooks.on_delta("tool-inputs", move |at, delta| {
        if at.channel == Channel::ToolInput {
            let name = at.tool.unwrap_or("?");
            let input = String::from_utf8_lossy(at.so_far);
            let line = format!("{name} {input}{}", delta.text());
            with(&kept, |shown: &mut BTreeMap<_, _>| {
                shown.insert(at.part, line)
            });
        }
    });
    shown
}

/// The pace of a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Pace {
    /// The time from the beginning of the reply to its first byte.
    pub(crate) first: Option<Duration>,
    /// The time of the last byte.
    pub(crate) last: Duration,
    /// The number of bytes so far.
    pub(crate) bytes: usize,
}

impl Pace {
    /// Returns bytes per second since the first byte.
    pub(crate) fn throughput(&self) -> Option<f64> {
        let took = self.last.checked_sub(self.first?)?.as_secs_f64();
        (took > 0.0).then(|| self.bytes as f64 / took)
    }
}

/// Measures the pace of replies.
pub(crate) fn pace(hooks: &mut Hooks) -> Shared<Pace> {
    let pace = Shared::default();
    let kept = Arc::clone(&pace);
    hooks.on_delta("pace", move |at, delta| {
        with(&kept, |pace: &mut Pace| {
            pace.first.get_or_insert(at.time);
            pace.last = at.time;
            pace.bytes += delta.bytes().len();
        });
    });
    pace
}

/// The cause of an abort, as a key for counting.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AbortCause {
    /// `user`, `plugin`, `error` or `timeout`.
    pub(crate) reason: &'static str,
    /// The full id of the rule, the name of the hook or limit, `provider` or `user`.
    pub(crate) source: String,
    /// The model of the request.
    pub(crate) model: String,
}

/// Counts of aborts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AbortCounts {
    /// The counts by cause.
    pub(crate) causes: BTreeMap<AbortCause, u32>,
    /// The counts by prompt. Equal prompts have equal hashes in all sessions.
    pub(crate) prompts: BTreeMap<u64, u32>,
}

/// Counts aborts by reason, source and model, and by prompt, including aborts before the first delta.
pub(crate) fn abort_counts(hooks: &mut Hooks) -> Shared<AbortCounts> {
    let counts = Shared::default();
    let kept = Arc::clone(&counts);
    hooks.on_aborted("abort-counts", move |aborted, _| {
        let cause = AbortCause {
            reason: aborted.reason.name(),
            source: match &aborted.source {
                AbortSource::Rule { id, .. } => id.clone(),
                AbortSource::Hook(name) => name.clone(),
                AbortSource::Limit(name) => (*name).to_owned(),
                AbortSource::Provider => "provider".to_owned(),
                AbortSource::User => "user".to_owned(),
                other => format!("{other:?}"),
            },
            model: aborted.model.clone().unwrap_or_default(),
        };
        with(&kept, |counts: &mut AbortCounts| {
            *counts.causes.entry(cause).or_default() += 1;
            if let Some(prompt) = aborted.prompt.hash {
                *counts.prompts.entry(prompt).or_default() += 1;
            }
        });
    });
    counts
}

/// Retries with the request for a shorter answer after a timeout.
pub(crate) fn concise_on_timeout(hooks: &mut Hooks) {
    hooks.register("concise", Concise);
}

struct Concise;

impl Hook for Concise {
    fn points(&self) -> &[HookPoint] {
        &[HookPoint::Aborted]
    }

    fn delta(&mut self, _: &HookContext<'_>, _: &mut Delta<'_>) {}

    fn aborted(&mut self, aborted: &Aborted, answer: &mut HookAnswer) {
        if aborted.reason == AbortReason::Timeout {
            answer.retry = true;
            answer.inject_message = Some("Please be more concise.".into());
        }
    }
}

/// Blocks edits of files that no tool has read or written in this conversation. A rule cannot do this: it does not know
/// which of the earlier calls succeeded.
pub(crate) fn read_before_edit(hooks: &mut Hooks) {
    let seen: Shared<BTreeSet<String>> = Shared::default();
    let kept = Arc::clone(&seen);
    hooks.on_tool_after("read-before-edit", move |call, after| {
        if ["read", "write"].contains(&call.tool.as_str())
            && !after.is_error
            && let Some(path) = path_of(&call.input)
        {
            with(&kept, |seen: &mut BTreeSet<_>| seen.insert(path));
        }
    });
    hooks.on_tool_before("read-before-edit", move |call, before| {
        let path = path_of(&before.input).filter(|_| call.tool == "edit");
        if let Some(path) = path
            && !with(&seen, |seen: &mut BTreeSet<_>| seen.contains(&path))
        {
            before.block(format!(
                "Read {path} first: it may not be as you remember it."
            ));
        }
    });
}

/// Returns the file that a call is about.
fn path_of(input: &str) -> Option<String> {
    let input: serde_json::Value = serde_json::from_str(input).ok()?;
    let path = ["path", "filePath", "file_path"].map(|key| input[key].as_str());
    let path = path.into_iter().flatten().next()?;
    Some(path.strip_prefix("./").unwrap_or(path).to_owned())
}

#[allow(dead_code, reason = "the tests take the hooks and leave this")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    use ttsr::Pack;
    use ttsr::harness::{
        Cancel, Message, Processor, Request, Scripted, ScriptedReply, Settings, run,
    };
    let mut hooks = Hooks::default();
    token_budget(&mut hooks, 1_000);
    let inputs = tool_inputs(&mut hooks);
    let pace = pace(&mut hooks);
    let aborts = abort_counts(&mut hooks);
    concise_on_timeout(&mut hooks);
    read_before_edit(&mut hooks);

    let script = ScriptedReply::default()
        .text("Let me look at it.")
        .tool("read", "call_1", r#"{"path":"src/lib.rs"}"#)
        .cut(4)
        .every(Duration::from_millis(5))
        .finish("tool_use");
    let mut provider = Scripted::new([script]);
    let pack = Pack::builtin("std/shell-safety")?;
    let mut processor = Processor::new(&pack, hooks, Settings::default());
    let request = Request::new("a-model", vec![Message::user("What is in it?")]);
    let cancel = Cancel::default();
    let answering = run(
        &mut processor,
        &mut provider,
        request,
        "msg",
        cancel,
        |_| {},
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()?;
    runtime.block_on(answering);
    println!("{:?}", with(&inputs, |inputs| inputs.clone()));
    let pace = with(&pace, |pace| *pace);
    println!("{pace:?}, {:?} bytes a second", pace.throughput());
    for (cause, times) in with(&aborts, |aborts| aborts.causes.clone()) {
        println!("{times} times {cause:?}");
    }
    Ok(())
}
