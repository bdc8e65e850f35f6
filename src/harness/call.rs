//! Tool calls and requests as hooks, rules and hosts see them at the boundary.
//!
//! Owns what may be said about a call before and after it runs, and the seam to whatever runs it.

use std::future::{Future, ready};
use std::pin::Pin;

use super::consult::Consultation;
use super::message::Tool;
use crate::rule::Consult;

/// A tool call that the model has written whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCall {
    /// The session it is made in.
    pub session: String,
    /// The id of the call.
    pub call: String,
    /// The tool's name.
    pub tool: String,
    /// The input, as the model wrote it or a hook left it.
    pub input: String,
}

/// What hooks say of a tool call before it runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// The input that the tool gets. Where a hook changes it the rules read it again.
    pub input: String,
    block: Option<String>,
    /// What is to be asked, with the name of the hook that asks once it has returned.
    pub(super) consult: Vec<(String, Consult)>,
}

impl Before {
    pub(super) fn new(input: String) -> Before {
        Before {
            input,
            ..Before::default()
        }
    }

    /// Keeps the tool from running; the model is told why.
    ///
    /// # Example: no force
    /// ```
    /// use ttsr::Pack;
    /// use ttsr::harness::{Gate, Hooks, Processor, Settings, ToolCall};
    /// let mut hooks = Hooks::default();
    /// hooks.on_tool_before("no-force", |call, before| {
    ///     if call.tool == "bash" && before.input.contains("--force") {
    ///         before.block("Ask first.");
    ///     }
    /// });
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, hooks, Settings::default());
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
    /// # Example: somebody is asked about every push
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
    /// let session = Pack::builder().build()?.session();
    /// let mut processor = Processor::new(session, hooks, Settings::default());
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

/// What a tool gave back.
///
/// # Example: a tool that doubles
/// ```
/// use ttsr::harness::After;
/// let run = |input: &str| match input.parse::<u32>() {
///     Ok(number) => After::output((number * 2).to_string()),
///     Err(error) => After::error(format!("`{input}`: {error}")),
/// };
/// assert_eq!(run("21"), After { output: "42".into(), is_error: false });
/// assert!(run("many").is_error);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct After {
    /// Its output, or what went wrong.
    pub output: String,
    /// Whether it failed.
    pub is_error: bool,
}

impl After {
    /// The output of a tool that did its work.
    pub fn output(output: impl Into<String>) -> After {
        After {
            output: output.into(),
            is_error: false,
        }
    }

    /// What went wrong.
    pub fn error(output: impl Into<String>) -> After {
        After {
            output: output.into(),
            is_error: true,
        }
    }
}

/// What becomes of a tool call: the answer of [`Processor::before_tool`](super::Processor::before_tool).
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    /// It runs, with this input.
    Run(ToolCall),
    /// It does not run; the model is told why.
    Blocked(ToolCall, After),
    /// These are asked first, one after the other; then
    /// [`Processor::consulted`](super::Processor::consulted).
    Ask(ToolCall, Vec<Consultation>),
}

/// Who is asked: what a request is known by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// The session's id.
    pub session: String,
    /// The id of the session that opened this one, if one did.
    pub parent: Option<String>,
    /// The name of the agent, if the host says.
    pub agent: Option<String>,
    /// The name of the provider, if the host says.
    pub provider: Option<String>,
    /// The model.
    pub model: String,
    /// The package through which the provider is reached: see
    /// [`Settings::package`](super::Settings::package).
    pub package: Option<String>,
}

/// A tool at work. It ends with what the model is told.
pub type ToolFuture<'a> = Pin<Box<dyn Future<Output = After> + Send + 'a>>;

/// Whoever runs tool calls.
///
/// # Example: a tool that has no input
/// ```
/// use std::future::ready;
/// use ttsr::harness::{After, Tool, ToolCall, ToolFuture, Tools};
/// struct Clock;
/// impl Tools for Clock {
///     fn tools(&self) -> Vec<Tool> {
///         let input = serde_json::json!({ "type": "object" });
///         vec![Tool { name: "clock".into(), description: "The time.".into(), input }]
///     }
///     fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
///         Box::pin(ready(match call.tool.as_str() {
///             "clock" => After::output("12:00"),
///             other => After::error(format!("there is no tool `{other}`")),
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
pub trait Tools: Send {
    /// The tools that the model may call.
    fn tools(&self) -> Vec<Tool>;

    /// Runs a call. Dropping the future must end it: that is how a call is cancelled.
    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a>;
}

impl<T: Tools + ?Sized> Tools for Box<T> {
    fn tools(&self) -> Vec<Tool> {
        (**self).tools()
    }

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        (**self).call(call)
    }
}

/// No tools at all.
///
/// # Example: a tool that there is not
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

    fn call<'a>(&'a mut self, call: &'a ToolCall) -> ToolFuture<'a> {
        Box::pin(ready(After::error(unknown(&call.tool))))
    }
}

pub(super) fn unknown(tool: &str) -> String {
    format!("there is no tool `{tool}`")
}
