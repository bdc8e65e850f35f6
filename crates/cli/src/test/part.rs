//! Builds the part of a reply that an example or a case describes.
//!
//! Makes up a tool call that is within the scope of the rule.

use std::fmt::{self, Display};
use std::sync::Arc;

use ttsr::conversation::ScreenedText;
use ttsr::examples::{
    arg_in_regions, arg_names_matching, path_in_regions, path_matching, tool_in_scope,
};
use ttsr::rule::{Case, ToolOutcome};
use ttsr::{Channel, Conversation, Cut, Hit, Pack, PartId, Rule, Stream};

use crate::output::Escaped;

/// The argument path that selects object keys.
const KEYS: &str = "$keys";

/// A part of a reply.
pub(crate) struct ExamplePart {
    pub(crate) channel: Channel,
    /// The called tool, or the tool whose output this is.
    pub(crate) tool: Option<String>,
    pub(crate) call: Option<ExampleCall>,
    pub(crate) bytes: Vec<u8>,
}

/// The number of the part in its reply.
const PART: PartId = PartId(0);

impl ExamplePart {
    /// Reads the part in an attempt of its own, up to its end or up to the cut that is returned. `file` is the file that the
    /// part is about, `outcome` that of the tool whose output it is.
    pub(crate) fn read(
        &self,
        conversation: &mut Conversation,
        file: Option<&str>,
        outcome: Option<ToolOutcome>,
    ) -> Result<(), Arc<Cut>> {
        conversation.begin_attempt().ok()?;
        conversation.open(PART, self.channel).ok()?;
        if let Some(file) = file {
            conversation.set_path(PART, file).ok()?;
        }
        if self.channel == Channel::ToolOutput {
            let outcome = outcome.unwrap_or_default();
            conversation.set_outcome(PART, outcome).ok()?;
        }
        if let Some(tool) = &self.tool {
            conversation.set_tool(PART, tool, "call").ok()?;
        }
        conversation.push(PART, &self.bytes).ok()?;
        conversation.close(PART).ok()
    }

    /// Reads the part as one delta with the rules of a pack. Returns the stream and its hits. `outcome` is as for
    /// [`read`](Self::read).
    pub(crate) fn stream(
        &self,
        pack: &Pack,
        file: Option<&str>,
        outcome: Option<ToolOutcome>,
    ) -> (Stream, Vec<Hit>) {
        let mut stream = pack.stream();
        stream.open(PART, self.channel);
        if let Some(file) = file {
            stream.set_path(PART, file);
        }
        stream.set_outcome(PART, outcome.unwrap_or_default());
        let mut hits = Vec::new();
        if let Some(tool) = &self.tool {
            hits.extend_from_slice(&stream.set_tool(PART, tool, "call"));
        }
        hits.extend_from_slice(&stream.push(PART, &self.bytes));
        hits.extend_from_slice(&stream.finish());
        (stream, hits)
    }

    /// Reads the part at once, as hosts do on the channels whose texts arrive whole: a message can quote captured groups only
    /// there. Returns `None` on the channels that arrive in deltas.
    pub(crate) fn screen(
        &self,
        conversation: &mut Conversation,
        outcome: Option<ToolOutcome>,
    ) -> Option<ScreenedText> {
        let text = String::from_utf8_lossy(&self.bytes);
        let tool = self.tool.as_deref();
        match self.channel {
            Channel::Text | Channel::Reasoning | Channel::ToolInput => None,
            Channel::ToolOutput => {
                Some(conversation.screen_output(tool, outcome.unwrap_or_default(), &text))
            }
            channel => Some(conversation.screen(channel, tool, &text)),
        }
    }

    /// Returns a part with that text on that channel, within the scope of the rule.
    pub(crate) fn new(rule: &Rule, channel: Channel, text: &str) -> ExamplePart {
        let call = (channel == Channel::ToolInput).then(|| ExampleCall::new(rule));
        let has_tool = matches!(channel, Channel::ToolInput | Channel::ToolOutput);
        let bytes = match &call {
            Some(call) => call.input(text).into_bytes(),
            None => fenced(rule, text).into_bytes(),
        };
        ExamplePart {
            channel,
            tool: has_tool.then(|| tool_in_scope(rule)),
            call,
            bytes,
        }
    }

    /// As [`new`](Self::new), with the given tool and file.
    pub(crate) fn at(
        rule: &Rule,
        channel: Channel,
        text: &str,
        (tool, file): (Option<&str>, Option<&str>),
    ) -> ExamplePart {
        let mut part = ExamplePart::new(rule, channel, text);
        if let (Some(name), Some(tool)) = (&mut part.tool, tool) {
            tool.clone_into(name);
        }
        if let Some(call) = &mut part.call {
            call.tool = tool.map_or_else(|| call.tool.clone(), str::to_owned);
            call.file = file.map(str::to_owned).or(call.file.take());
            part.bytes = call.input(text).into_bytes();
        }
        part
    }

    /// Returns the part of a case.
    pub(crate) fn from_case(rule: &Rule, case: &Case) -> ExamplePart {
        let tool = || {
            case.tool
                .clone()
                .unwrap_or_else(|| ExampleCall::new(rule).tool)
        };
        let has_tool = matches!(case.channel, Channel::ToolInput | Channel::ToolOutput);
        let call = (case.channel == Channel::ToolInput).then(|| ExampleCall {
            tool: tool(),
            arg: None,
            file: case.path.clone(),
        });
        ExamplePart {
            channel: case.channel,
            tool: has_tool.then(tool),
            call,
            bytes: case.text.clone().into_bytes(),
        }
    }
}

/// Wraps the text in a code block if the rule matches code and the text has no block.
fn fenced(rule: &Rule, text: &str) -> String {
    let language = rule
        .condition
        .ast
        .as_ref()
        .and_then(|ast| ast.languages.first());
    match language {
        Some(language) if !text.contains("```") => format!("```{language}\n{text}\n```\n"),
        _ => text.to_owned(),
    }
}

/// A tool call that is within the scope of the rule.
pub(crate) struct ExampleCall {
    pub(crate) tool: String,
    /// The path to the argument: empty for input that is not JSON, [`KEYS`] alone for an object key, `None` for input that
    /// the case gives whole.
    arg: Option<Vec<String>>,
    pub(crate) file: Option<String>,
}

impl ExampleCall {
    pub(crate) fn new(rule: &Rule) -> ExampleCall {
        let pattern_arg = rule.condition.patterns().find_map(|it| it.arg.as_ref());
        let arg = rule.args.first().or(pattern_arg);
        let arg = arg.map_or_else(|| arg_in_regions(rule), String::as_str);
        let globs = &mut rule.paths.iter().filter(|glob| !glob.starts_with('!'));
        ExampleCall {
            tool: tool_in_scope(rule),
            arg: Some(match arg {
                "$raw" => Vec::new(),
                _ => arg_names_matching(arg),
            }),
            file: globs
                .next()
                .map(|glob| path_matching(glob))
                .or(path_in_regions(rule)),
        }
    }

    fn input(&self, text: &str) -> String {
        let file = self
            .file
            .as_ref()
            .map(|file| format!("\"file_path\":{}", json(file)));
        let arg = self.arg.as_deref().unwrap_or_default();
        if arg.is_empty() {
            // Text after the object makes the input invalid JSON, but the file is known by then.
            return file.map_or_else(String::new, |file| format!("{{{file}}}")) + text;
        }
        let value = match arg {
            [name] if name == KEYS => format!("{{{}:true}}", json(text)),
            _ => arg.iter().rfold(json(text), |value, name| {
                format!("{{{}:{value}}}", json(name))
            }),
        };
        match file {
            Some(file) => format!("{{{file},{}", &value[1..]),
            None => value,
        }
    }
}

impl Display for ExampleCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.arg.as_ref().map(|arg| arg.join(".")) {
            None => write!(f, "the input")?,
            Some(arg) if arg.is_empty() => write!(f, "the raw input")?,
            Some(arg) => write!(f, "`{}`", Escaped(&arg))?,
        }
        write!(f, " of `{}`", Escaped(&self.tool))?;
        match &self.file {
            Some(file) => write!(f, " about `{}`", Escaped(file)),
            None => Ok(()),
        }
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
