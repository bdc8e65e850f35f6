//! Turns an example of a rule into a part of a reply that the scope of the rule includes.

use crate::conversation::push_json_escaped;
use crate::pack::Pack;
use crate::rule::{Case, Channel, Pattern, Region, Rule};

/// The argument path that selects object keys.
const KEYS: &str = "$keys";

/// Names to try if the scope only excludes tools.
const PLAIN_TOOLS: [&str; 4] = ["tool", "x", "some_tool", "0"];

/// One part, to be read by the rules of a pack.
pub(super) struct Sample {
    pub(super) channel: Channel,
    pub(super) tool: Option<String>,
    pub(super) path: Option<String>,
    pub(super) bytes: Vec<u8>,
}

impl Sample {
    /// Returns the example as text of that channel. As tool input, it is in a call of a tool in the rule's scope.
    pub(super) fn from_example(rule: &Rule, channel: Channel, text: &str) -> Sample {
        let has_tool = matches!(channel, Channel::ToolInput | Channel::ToolOutput);
        let bytes = match channel {
            Channel::ToolInput => call_input(rule, text).into_bytes(),
            _ => in_code_block(rule, text).into_bytes(),
        };
        Sample {
            channel,
            tool: has_tool.then(|| tool_in_scope(rule)),
            path: None,
            bytes,
        }
    }

    /// Returns the case as its author wrote it.
    pub(super) fn from_case(rule: &Rule, case: &Case) -> Sample {
        let has_tool = matches!(case.channel, Channel::ToolInput | Channel::ToolOutput);
        let tool = || case.tool.clone().unwrap_or_else(|| tool_in_scope(rule));
        Sample {
            channel: case.channel,
            tool: has_tool.then(tool),
            path: case.path.clone(),
            bytes: case.text.clone().into_bytes(),
        }
    }
}

/// Returns the text in a code block, if the rule matches syntax trees and the text has no block itself.
fn in_code_block(rule: &Rule, text: &str) -> String {
    let ast = rule.condition.ast.as_ref();
    match ast.and_then(|ast| ast.languages.first()) {
        Some(language) if !text.contains("```") => format!("```{language}\n{text}\n```\n"),
        _ => text.to_owned(),
    }
}

/// Returns the input of a call whose argument holds `text`: the first of `args`, else the argument that contains
/// the regions of the rule. The call names a file that matches the first glob of `paths`.
fn call_input(rule: &Rule, text: &str) -> String {
    let pattern_arg = rule.condition.patterns().find_map(|it| it.arg.as_ref());
    let arg = rule.args.first().or(pattern_arg);
    let arg = arg.map_or_else(|| arg_in_regions(rule), String::as_str);
    let path = rule.paths.iter().find(|glob| !glob.starts_with('!'));
    let path = path
        .map(|glob| path_matching(glob))
        .or(path_in_regions(rule));
    let path = path.map(|path| format!("\"file_path\":{}", quoted(&path)));
    if arg == "$raw" {
        // Text after an object is not JSON, and the path is known by then.
        return path.map_or_else(String::new, |path| format!("{{{path}}}")) + text;
    }
    let value = if arg == KEYS {
        format!("{{{}:true}}", quoted(text))
    } else {
        let names = arg_names_matching(arg);
        let nested = |value: String, name: &String| format!("{{{}:{value}}}", quoted(name));
        names.iter().rev().fold(quoted(text), nested)
    };
    match path {
        Some(path) => format!("{{{path},{}", &value[1..]),
        None => value,
    }
}

fn has_region(rule: &Rule, wanted: &[Region]) -> bool {
    let mut patterns = rule.condition.patterns();
    patterns.any(|pattern| pattern.region.iter().any(|region| wanted.contains(region)))
}

/// Returns the argument that contains the regions of the rule: `command` for shell commands, `old_string` for removed
/// lines, otherwise `content`.
pub fn arg_in_regions(rule: &Rule) -> &'static str {
    if has_region(rule, &[Region::Shell]) || rule.condition.has_commands() {
        "command"
    } else if has_region(rule, &[Region::Removed]) {
        "old_string"
    } else {
        "content"
    }
}

/// Returns a file of a language that the rule reads, if it reads syntax trees, or comments and strings.
pub fn path_in_regions(rule: &Rule) -> Option<String> {
    let ast = rule.condition.ast.as_ref();
    let language = ast.and_then(|ast| ast.languages.first());
    let extension = language.map(|language| match language.as_str() {
        "rust" => "rs",
        "python" => "py",
        "javascript" => "js",
        "typescript" => "ts",
        other => other,
    });
    let reads_code = has_region(
        rule,
        &[
            Region::Comment,
            Region::String,
            Region::CodeOnly,
            Region::Uncommented,
        ],
    );
    let extension = extension.or(reads_code.then_some("rs"))?;
    Some(format!("x.{extension}"))
}

fn quoted(text: &str) -> String {
    let mut out = vec![b'"'];
    push_json_escaped(text, &mut out);
    out.push(b'"');
    String::from_utf8_lossy(&out).into_owned()
}

/// Returns the names of an argument path that matches the dotted glob, outermost first.
pub fn arg_names_matching(glob: &str) -> Vec<String> {
    let (mut names, mut name, mut chars) = (Vec::new(), String::new(), glob.chars());
    loop {
        match chars.next() {
            Some('\\') => {
                name.push('\\');
                name.extend(chars.next());
            }
            Some(char) if char != '.' => name.push(char),
            end => {
                // `**` matches any number of names, also none.
                if name != "**" {
                    names.push(name_matching(&name));
                }
                name.clear();
                if end.is_none() {
                    break;
                }
            }
        }
    }
    if names.is_empty() {
        names.push("content".to_owned());
    }
    names
}

/// Returns the name of a tool in the scope of the rule.
///
/// # Example: a scope that excludes a tool
/// ```
/// use ttsr::{Pattern, Rule, examples::tool_in_scope};
/// let mut rule = Rule::new("mine/no-todo", vec![Pattern::literal("TODO")]);
/// rule.tools = vec!["!tool".to_owned()];
/// assert_eq!(tool_in_scope(&rule), "x");
/// rule.tools = vec!["{edit,write}*".to_owned()];
/// assert_eq!(tool_in_scope(&rule), "editx");
/// ```
pub fn tool_in_scope(rule: &Rule) -> String {
    let included = rule.tools.iter().filter(|glob| !glob.starts_with('!'));
    let mut names: Vec<String> = included.map(|glob| name_matching(glob)).collect();
    names.extend(PLAIN_TOOLS.map(str::to_owned));
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

/// Returns a file path that matches the glob.
///
/// # Example: a glob over folders
/// ```
/// assert_eq!(ttsr::examples::path_matching("src/**/*.{rs,toml}"), "src/x.rs");
/// ```
pub fn path_matching(glob: &str) -> String {
    let glob = glob.trim_start_matches("./").trim_start_matches('/');
    let mut path = name_matching(&glob.replace("**/", ""));
    if path.is_empty() || path.ends_with('/') {
        path.push('x');
    }
    path
}

/// Returns a name that matches the glob: the first alternative of each choice, and `x` for a wildcard.
pub fn name_matching(glob: &str) -> String {
    let mut name = String::new();
    let mut chars = glob.chars().peekable();
    let mut depth = 0;
    // The depth of the braces whose first alternative is complete.
    let mut complete = None;
    while let Some(char) = chars.next() {
        let next = match char {
            '{' => {
                depth += 1;
                None
            }
            '}' => {
                complete = complete.filter(|&done| done != depth);
                depth -= 1;
                None
            }
            ',' if depth > 0 => {
                complete = complete.or(Some(depth));
                None
            }
            '*' => {
                while chars.next_if_eq(&'*').is_some() {}
                Some('x')
            }
            '?' => Some('x'),
            '[' => Some(class_member(&mut chars)),
            '\\' => chars.next(),
            _ => Some(char),
        };
        name.extend(next.filter(|_| complete.is_none()));
    }
    name
}

/// Returns a character of the class whose opening bracket was read.
fn class_member(chars: &mut impl Iterator<Item = char>) -> char {
    let first = chars.next().unwrap_or_default();
    let is_negated = matches!(first, '!' | '^');
    // A bracket in first position is a member.
    let from = if is_negated {
        chars.next()
    } else {
        Some(first)
    };
    let rest: String = chars.take_while(|&char| char != ']').collect();
    match from {
        Some(from) if is_negated => char_outside(&format!("{from}{rest}")),
        from => from.unwrap_or_default(),
    }
}

/// Returns a common character that is not in the class. Characters without case come first, because tool names are
/// matched without case.
fn char_outside(class: &str) -> char {
    let chars: Vec<char> = class.chars().collect();
    let contains = |char| {
        let in_range = |range: &[char]| range[1] == '-' && (range[0]..=range[2]).contains(&char);
        chars.contains(&char) || chars.windows(3).any(in_range)
    };
    let mut usual = ['0', '_', '~', 'x', 'X'].into_iter();
    usual.find(|&char| !contains(char)).unwrap_or('\u{e4}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_is_the_argument_of_a_call_a_block_of_code_or_the_text_itself() {
        let bytes = |rule: &Rule, channel| {
            let sample = Sample::from_example(rule, channel, "x \"y\"");
            String::from_utf8(sample.bytes).expect("it is UTF-8")
        };
        let mut rule = Rule::new("t/a", Vec::new());
        assert_eq!(bytes(&rule, Channel::Text), "x \"y\"");
        rule.args = vec!["command".into()];
        assert_eq!(bytes(&rule, Channel::ToolInput), r#"{"command":"x \"y\""}"#);
        assert_eq!(bytes(&rule, Channel::ToolOutput), "x \"y\"");
        rule.paths = vec!["!src/b.rs".into(), "src/a.rs".into()];
        assert_eq!(
            bytes(&rule, Channel::ToolInput),
            r#"{"file_path":"src/a.rs","command":"x \"y\""}"#
        );
    }

    #[test]
    fn a_character_outside_a_class_is_in_none_of_its_ranges() {
        let found = ["ab", "!-9", "!-9_", "0_~xX"].map(char_outside);
        assert_eq!(found, ['0', '_', '~', '\u{e4}']);
    }
}
