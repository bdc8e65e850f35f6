//! Tool calls and requests as hooks, rules and hosts see them, and the trait of the host's tools.

use std::future::{Future, ready};
use std::pin::Pin;

use super::consultation::Consultation;
use super::message::Tool;
use crate::rule::Consult;

/// A complete tool call of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The id of the session in which the call is made.
    pub session: String,
    /// The id of the call.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The input, as the model wrote it or a hook changed it.
    pub input: String,
}

/// The changes of hooks to a tool call before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PendingCall {
    /// The input of the tool. If a hook changes it, the rules read it again.
    pub input: String,
    block: Option<String>,
    /// The questions for sub-agents, each with the name of the hook that asks. The name is filled in after the hook
    /// returned.
    pub(super) consult: Vec<(String, Consult)>,
}

impl PendingCall {
    pub(super) fn new(input: String) -> PendingCall {
        PendingCall {
            input,
            ..PendingCall::default()
        }
    }

    /// Blocks the call. The model receives the reason as the output.
    ///
    /// # Example: a hook blocks forced pushes
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_before("no-force", |call, before| {
    ///     if call.tool == "bash" && before.input.contains("--force") {
    ///         before.block("Ask first.");
    ///     }
    /// });
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let input = r#"{"command": "git push --force"}"#.into();
    /// let call = ToolCall { tool: "bash".into(), input, ..ToolCall::default() };
    /// let gate = processor.before_tool(call, &mut Vec::new());
    /// assert!(matches!(gate, Gate::Blocked(_, after) if after.output.contains("Ask first.")));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn block(&mut self, why: impl Into<String>) {
        self.block = Some(why.into());
    }

    /// Has a sub-agent asked before the tool runs.
    ///
    /// # Example: a hook asks a sub-agent about every push
    /// ```
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// use ttsr::rule::Consult;
    /// use ttsr::Pack;
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_before("review", |_, before| {
    ///     if before.input.contains("git push") {
    ///         before.consult(Consult::new("May this be pushed?"));
    ///     }
    /// });
    /// let pack = Pack::builder().build()?;
    /// let mut processor = Processor::new(&pack, hooks, Settings::default());
    /// let input = r#"{"command": "git push"}"#.into();
    /// let call = ToolCall { tool: "bash".into(), input, ..ToolCall::default() };
    /// let Gate::Ask(_, asked) = processor.before_tool(call, &mut Vec::new()) else { panic!("it asks") };
    /// assert_eq!((&*asked[0].by, &*asked[0].consult.prompt), ("review", "May this be pushed?"));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn consult(&mut self, consult: Consult) {
        self.consult.push((String::new(), consult));
    }

    pub(super) fn is_blocked(&self) -> bool {
        self.block.is_some()
    }

    pub(super) fn take_block(&mut self) -> Option<String> {
        self.block.take()
    }
}

/// The output of a tool.
///
/// # Example: an output or an error
/// ```
/// use ttsr::harness::ToolOutput;
/// let run = |input: &str| match input.parse::<u32>() {
///     Ok(number) => ToolOutput::output((number * 2).to_string()),
///     Err(error) => ToolOutput::error(format!("`{input}`: {error}")),
/// };
/// assert_eq!(run("21"), ToolOutput { output: "42".into(), is_error: false });
/// assert!(run("many").is_error);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolOutput {
    /// The output, or the error message.
    pub output: String,
    /// True if the tool failed.
    pub is_error: bool,
}

impl ToolOutput {
    /// Returns the output of a tool that succeeded.
    pub fn output(output: impl Into<String>) -> ToolOutput {
        ToolOutput {
            output: output.into(),
            is_error: false,
        }
    }

    /// Returns the error message of a tool that failed.
    pub fn error(output: impl Into<String>) -> ToolOutput {
        ToolOutput {
            output: output.into(),
            is_error: true,
        }
    }
}

/// The decision about a tool call: the answer of [`Processor::before_tool`](super::Processor::before_tool).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// The call runs, with this input.
    Run(ToolCall),
    /// The call does not run; the model receives this output.
    Blocked(ToolCall, ToolOutput),
    /// These questions are asked first, one after the other; then call
    /// [`Processor::consulted`](super::Processor::consulted).
    Ask(ToolCall, Vec<Consultation>),
}

impl Gate {
    /// Returns the name used in every output: `run`, `blocked` or `ask`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Gate::Run(_) => "run",
            Gate::Blocked(..) => "blocked",
            Gate::Ask(..) => "ask",
        }
    }
}

/// The addressee of a request, for hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RequestTarget {
    /// The session's id.
    pub session: String,
    /// The id of the session that opened this one; `None` for a session of the host.
    pub parent: Option<String>,
    /// The name of the agent, if the host gave one.
    pub agent: Option<String>,
    /// The name of the provider, if the host gave one.
    pub provider: Option<String>,
    /// The model.
    pub model: String,
    /// The package through which the provider is reached: see [`Settings::package`](super::Settings::package).
    pub package: Option<String>,
}

/// A running tool call. Resolves to the output for the model.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = ToolOutput> + Send + 'a>>;

/// The tools of a host. Calls of one reply can run at the same time, so a tool with state needs a lock.
///
/// # Example: a tool that has no input
/// ```
/// use std::future::ready;
/// use ttsr::harness::{Tool, ToolCall, ToolFuture, ToolOutput, Tools};
/// struct Clock;
/// impl Tools for Clock {
///     fn tools(&self) -> Vec<Tool> {
///         let input = serde_json::json!({ "type": "object" });
///         vec![Tool { name: "clock".into(), description: "The time.".into(), input }]
///     }
///     fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
///         Box::pin(ready(match call.tool.as_str() {
///             "clock" => ToolOutput::output("12:00"),
///             other => ToolOutput::error(format!("there is no tool `{other}`")),
///         }))
///     }
/// }
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let call = |tool: &str| {
///     let call = ToolCall { tool: tool.into(), ..ToolCall::default() };
///     runtime.block_on(Clock.call(&call))
/// };
/// assert_eq!(call("clock").output, "12:00");
/// assert!(call("cuckoo").is_error);
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait Tools: Send + Sync {
    /// Returns the tools that the model may call.
    fn tools(&self) -> Vec<Tool>;

    /// Returns true if calls of this tool may run at the same time as other calls for which it returns true. By default
    /// every call runs by itself, in the order of the reply. Tools that only read are the usual case of true.
    fn is_concurrent(&self, tool: &str) -> bool {
        let _ = tool;
        false
    }

    /// Runs a call. A call is cancelled by dropping the future, which must end it.
    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a>;
}

impl<T: Tools + ?Sized> Tools for Box<T> {
    fn tools(&self) -> Vec<Tool> {
        (**self).tools()
    }

    fn is_concurrent(&self, tool: &str) -> bool {
        (**self).is_concurrent(tool)
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        (**self).call(call)
    }
}

/// An implementation of [`Tools`] without tools.
///
/// # Example: a call of an unknown tool
/// ```
/// use ttsr::harness::{NoTools, ToolCall, Tools};
/// assert!(NoTools.tools().is_empty());
/// let call = ToolCall { tool: "read".into(), ..ToolCall::default() };
/// let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// let after = runtime.block_on(NoTools.call(&call));
/// assert_eq!((after.is_error, &*after.output), (true, "there is no tool `read`"));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTools;

impl Tools for NoTools {
    fn tools(&self) -> Vec<Tool> {
        Vec::new()
    }

    fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
        Box::pin(ready(ToolOutput::error(unknown_tool(&call.tool))))
    }
}

pub(super) fn unknown_tool(tool: &str) -> String {
    format!("there is no tool `{tool}`")
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll, Waker};

    use super::*;

    /// Tools of which one may run at the same time as others.
    struct Echo;

    impl Tools for Echo {
        fn tools(&self) -> Vec<Tool> {
            vec![Tool {
                name: "echo".into(),
                description: String::new(),
                input: serde_json::json!({}),
            }]
        }

        fn is_concurrent(&self, tool: &str) -> bool {
            tool == "echo"
        }

        fn call<'a>(&'a self, call: &'a ToolCall) -> ToolFuture<'a> {
            Box::pin(ready(ToolOutput::output(call.tool.clone())))
        }
    }

    fn answer(tools: &dyn Tools, tool: &str) -> ToolOutput {
        let call = ToolCall {
            tool: tool.into(),
            ..ToolCall::default()
        };
        let mut running = tools.call(&call);
        match running
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(output) => output,
            Poll::Pending => panic!("the output is ready"),
        }
    }

    #[test]
    fn boxed_tools_are_the_tools_in_the_box() {
        let boxed: Box<dyn Tools> = Box::new(Echo);
        assert_eq!(Tools::tools(&boxed)[0].name, "echo");
        for tool in ["echo", "other"] {
            assert_eq!(Tools::is_concurrent(&boxed, tool), tool == "echo");
        }
        assert_eq!(answer(&boxed, "echo").output, "echo");
    }

    #[test]
    fn without_tools_each_call_is_an_error_that_names_the_tool() {
        let output = answer(&NoTools, "read");
        assert_eq!(
            (output.is_error, &*output.output),
            (true, "there is no tool `read`")
        );
        assert!(NoTools.tools().is_empty());
        assert!(!NoTools.is_concurrent("read"));
    }
}
