//! Builds the part of a reply that an example or a case describes.
//!
//! Makes up a tool call that is within the scope of the rule.

use std::fmt::{self, Display};

use ttsr::rule::{Case, Region};
use ttsr::{Channel, Pack, Pattern, Rule};

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

impl ExamplePart {
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
            tool: has_tool.then(|| tool(rule)),
            call,
            bytes,
        }
    }

    /// Like `new`, with the given tool and file instead of made-up ones.
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
    pub(crate) fn of_case(rule: &Rule, case: &Case) -> ExamplePart {
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
        let regions = RegionNeeds::new(rule);
        let pattern_arg = rule.condition.patterns().find_map(|it| it.arg.as_ref());
        let arg = rule.args.first().or(pattern_arg);
        let arg = arg.map_or(regions.arg, String::as_str);
        let globs = &mut rule.paths.iter().filter(|glob| !glob.starts_with('!'));
        ExampleCall {
            tool: tool(rule),
            arg: Some(match arg {
                "$raw" => Vec::new(),
                _ => names(arg),
            }),
            file: globs.next().map(|glob| file(glob)).or(regions.file),
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

/// The requirements of a rule's regions on a call: the argument that contains them, and a file of a language that has
/// comments and strings.
struct RegionNeeds {
    arg: &'static str,
    file: Option<String>,
}

impl RegionNeeds {
    fn new(rule: &Rule) -> RegionNeeds {
        let has = |wanted: &[Region]| {
            let mut patterns = rule.condition.patterns();
            patterns.any(|pattern| pattern.region.iter().any(|region| wanted.contains(region)))
        };
        let arg = if has(&[Region::Shell]) {
            "command"
        } else if has(&[Region::Removed]) {
            "old_string"
        } else {
            "content"
        };
        let is_of_code = has(&[Region::Comment, Region::String, Region::CodeOnly]);
        let ast = rule.condition.ast.as_ref();
        let language = ast.and_then(|ast| ast.languages.first());
        let extension = language.map(|language| match language.as_str() {
            "rust" => "rs",
            "python" => "py",
            "javascript" => "js",
            "typescript" => "ts",
            other => other,
        });
        let extension = extension.or(is_of_code.then_some("rs"));
        RegionNeeds {
            arg,
            file: extension.map(|extension| format!("x.{extension}")),
        }
    }
}

fn json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Returns argument names that match the dotted glob.
fn names(glob: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut rest = glob;
    loop {
        let mut escaped = false;
        let end = rest.find(|char| {
            let is_dot = char == '.' && !escaped;
            escaped = char == '\\' && !escaped;
            is_dot
        });
        match &rest[..end.unwrap_or(rest.len())] {
            // Matches any number of names, including none.
            "**" => {}
            name => names.push(instance(name)),
        }
        match end {
            Some(dot) => rest = &rest[dot + 1..],
            None => break,
        }
    }
    if names.is_empty() {
        names.push("content".to_owned());
    }
    names
}

/// Returns a tool within the scope of the rule.
fn tool(rule: &Rule) -> String {
    let included = rule.tools.iter().filter(|glob| !glob.starts_with('!'));
    let mut names: Vec<String> = included.map(|glob| instance(glob)).collect();
    names.extend(OTHERS.map(str::to_owned));
    if !rule.tools.iter().any(|glob| glob.starts_with('!')) {
        return names.swap_remove(0);
    }
    let mut probe = Rule::new("probe/tool", vec![Pattern::literal("probe")]);
    probe.tools.clone_from(&rule.tools);
    let pack = Pack::builder().rule(probe).build().ok();
    let is_included = |name: &&String| {
        let pack = pack.as_ref();
        pack.is_some_and(|pack| pack.wants(Channel::ToolInput, Some(name)))
    };
    let found = names.iter().find(is_included).or(names.first());
    found.cloned().unwrap_or_default()
}

/// Names to try if the scope only excludes tools.
const OTHERS: [&str; 4] = ["tool", "x", "some_tool", "0"];

/// Returns a file path that matches the glob.
fn file(glob: &str) -> String {
    let glob = glob.trim_start_matches("./").trim_start_matches('/');
    let mut file = instance(&glob.replace("**/", ""));
    if file.is_empty() || file.ends_with('/') {
        file.push('x');
    }
    file
}

/// Returns a name that matches the glob: the first of each alternative, and `x` for wildcards.
pub(crate) fn instance(glob: &str) -> String {
    let mut name = String::new();
    let mut chars = glob.chars().peekable();
    let mut depth = 0;
    // The nesting depth of braces whose first alternative is complete.
    let mut done = None;
    while let Some(char) = chars.next() {
        let taken = match char {
            '{' => {
                depth += 1;
                None
            }
            '}' => {
                done = done.filter(|&done| done != depth);
                depth -= 1;
                None
            }
            ',' if depth > 0 => {
                done = done.or(Some(depth));
                None
            }
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                Some('x')
            }
            '?' => Some('x'),
            '[' => Some(member(&mut chars)),
            '\\' => chars.next(),
            _ => Some(char),
        };
        name.extend(taken.filter(|_| done.is_none()));
    }
    name
}

/// Returns a character of the class that starts here, after its bracket.
fn member(chars: &mut impl Iterator<Item = char>) -> char {
    let first = chars.next().unwrap_or_default();
    let negated = matches!(first, '!' | '^');
    // A bracket in first position is literal.
    let from = if negated { chars.next() } else { Some(first) };
    let rest: String = chars.take_while(|&char| char != ']').collect();
    match from {
        Some(from) if negated => outside(&format!("{from}{rest}")),
        from => from.unwrap_or_default(),
    }
}

/// Returns a common character that is not in the class. Characters without case come first, because tool names are
/// matched without case.
fn outside(class: &str) -> char {
    let chars: Vec<char> = class.chars().collect();
    let holds = |char| {
        let in_range = |range: &[char]| range[1] == '-' && (range[0]..=range[2]).contains(&char);
        chars.contains(&char) || chars.windows(3).any(in_range)
    };
    let mut usual = ['0', '_', '~', 'x', 'X'].into_iter();
    usual.find(|&char| !holds(char)).unwrap_or('\u{e4}')
}
