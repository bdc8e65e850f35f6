//! The message of a rule: a small template, checked when the pack loads, rendered when a rule acts.
//!
//! Packs are untrusted data, so a template is much less than a program: `{{ variable }}` and `{% if variable %}` with
//! `elif`, `else`, `and`, `or`, `not`. There are no loops, calls, filters or operators, so the cost of a message is
//! bounded by its length. Text of the reply is inserted as data: shortened, with control characters escaped, and never
//! read as a template.

use std::fmt::Write as _;
use std::io;
use std::ops::Range;

use minijinja::{AutoEscape, Environment, Value};

use super::check::fault::Fault;
use super::diagnostic::code;
use super::did_you_mean;
use super::escape::{self, quote};
use crate::rule::Rule;

/// The longest template and the longest rendered message, in bytes.
const MESSAGE_BYTES: usize = 64 << 10;

/// The longest inserted value, in bytes.
const VALUE_BYTES: usize = 200;

/// The longest inserted capture, in bytes.
const CAPTURE_BYTES: usize = 4 << 10;

/// The prefix of the name of a capture.
const CAPTURE: &str = "capture.";

/// The longest tag of a template in bytes, and the largest number of its `{% … %}`: the template parser is recursive in
/// chains of `not`, `and` and `elif`, and some hundreds of them overflow the stack.
const TAG_BYTES: usize = 256;
const BLOCKS: usize = 64;

/// The variables of a template.
const VARIABLES: [&str; 12] = [
    "rule.id",
    "rule.description",
    "rule.instead",
    "rule.why",
    "rule.severity",
    "rule.action",
    "rule.docs",
    "match.text",
    "channel",
    "path",
    "tool",
    "arg",
];

/// The values of a hit that a message can name. All of them come from the reply and are untrusted.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageValues<'a> {
    /// `match.text`: the text of the match.
    pub(crate) match_text: &'a str,
    /// `path`: the file the tool call is about.
    pub(crate) path: Option<&'a str>,
    /// `channel`: the kind of the part.
    pub(crate) channel: Option<&'a str>,
    /// `tool`: the name of the tool.
    pub(crate) tool: Option<&'a str>,
    /// `arg`: the path of the argument the match is in.
    pub(crate) arg: Option<&'a str>,
    /// `capture.NAME`: the texts that named groups of the rule's patterns captured.
    pub(crate) captures: &'a [(String, String)],
}

/// Returns a text of `rule` for one hit: the template filled in, or `id: description instead` without one.
///
/// This never fails, and the text has at most 64 KiB and a `…`.
pub(crate) fn render(template: Option<&str>, rule: &Rule, values: &MessageValues<'_>) -> String {
    template
        .filter(|template| template.len() <= MESSAGE_BYTES && !is_forbidden(template))
        .and_then(|template| fill(template, rule, values).ok())
        .unwrap_or_else(|| plain(rule))
}

fn plain(rule: &Rule) -> String {
    let mut text = format!("{}: {}", rule.id, rule.description);
    if let Some(instead) = &rule.instead {
        text.push(' ');
        text.push_str(instead);
    }
    let mut capped = BoundedWriter::default();
    capped.push(&text);
    capped.into_text()
}

fn fill(
    template: &str,
    rule: &Rule,
    values: &MessageValues<'_>,
) -> Result<String, minijinja::Error> {
    let environment = environment();
    let template = environment.template_from_str(template)?;
    let mut capped = BoundedWriter::default();
    match template.render_captured_to(context(rule, values), &mut capped) {
        Err(error) if !capped.full => Err(error),
        _ => Ok(capped.into_text()),
    }
}

/// Returns the variables of a template. Unknown values are left undefined: empty, and false in a condition.
fn context(rule: &Rule, values: &MessageValues<'_>) -> Value {
    let data = |text: &str| Value::from(escape::capped(text, VALUE_BYTES));
    let author = |text: &str| Value::from(&text[..text.floor_char_boundary(MESSAGE_BYTES)]);
    let mut about_rule = vec![
        ("id", author(&rule.id)),
        ("description", author(&rule.description)),
        ("severity", Value::from(rule.severity.name())),
        ("action", Value::from(rule.action.name())),
    ];
    about_rule.extend(rule.docs.as_deref().map(|text| ("docs", author(text))));
    about_rule.extend(
        rule.instead
            .as_deref()
            .map(|text| ("instead", author(text))),
    );
    about_rule.extend(rule.why.as_deref().map(|text| ("why", author(text))));
    let about_match = [("text", data(values.match_text))];
    let captured = |text: &str| Value::from(escape::capped(text, CAPTURE_BYTES));
    let captures = values.captures.iter();
    let captures = captures.map(|(name, text)| (name.as_str(), captured(text)));
    let mut all = vec![
        ("rule", Value::from_pairs(about_rule)),
        ("capture", Value::from_pairs(captures)),
        ("match", Value::from_pairs(about_match)),
    ];
    let optional = [
        ("channel", values.channel),
        ("path", values.path),
        ("tool", values.tool),
        ("arg", values.arg),
    ];
    all.extend(
        optional
            .into_iter()
            .filter_map(|(name, text)| Some((name, data(text?)))),
    );
    Value::from_pairs(all)
}

fn environment<'t>() -> Environment<'t> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment
}

/// A writer of at most [`MESSAGE_BYTES`]. It refuses more, which ends the rendering.
#[derive(Default)]
struct BoundedWriter {
    text: String,
    full: bool,
}

impl BoundedWriter {
    fn push(&mut self, text: &str) {
        let room = text.floor_char_boundary(MESSAGE_BYTES - self.text.len());
        self.text.push_str(&text[..room]);
        if room < text.len() {
            self.text.push('…');
            self.full = true;
        }
    }

    fn into_text(self) -> String {
        self.text
    }
}

impl io::Write for BoundedWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = std::str::from_utf8(bytes).map_err(io::Error::other)?;
        if !self.full {
            self.push(text);
        }
        if self.full {
            return Err(io::Error::other("the message is full"));
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the faults of a template.
pub(super) fn faults(template: &str) -> Vec<Fault> {
    if template.len() > MESSAGE_BYTES {
        let message = format!(
            "message is {} bytes, limit is {MESSAGE_BYTES}",
            template.len()
        );
        return vec![Fault::new(&code::TEMPLATE, message)];
    }
    let tags = match forbidden_tags(template) {
        Ok(tags) => tags,
        Err(tag) => return vec![too_much(template, tag)],
    };
    // The variables of the other tags are checked as well, unless a block may define some of them.
    let has_block = tags
        .iter()
        .any(|tag| template[tag.clone()].starts_with("{%"));
    let mut rest = template.to_owned();
    for tag in &tags {
        rest.replace_range(tag.clone(), &" ".repeat(tag.len()));
    }
    let mut found: Vec<Fault> = tags
        .into_iter()
        .map(|tag| too_much(template, tag))
        .collect();
    if has_block {
        return found;
    }
    let environment = environment();
    match environment.template_from_str(&rest) {
        Ok(parsed) => {
            let names = parsed.undeclared_variables(true).into_iter();
            let is_unknown =
                |name: &String| !VARIABLES.contains(&name.as_str()) && capture(name).is_none();
            let mut unknown: Vec<String> = names.filter(is_unknown).collect();
            unknown.sort();
            found.extend(variables(&rest, &unknown));
        }
        // Without the tags that are not supported, the template need not be complete.
        Err(error) if found.is_empty() => found.push(syntax(&error)),
        Err(_) => {}
    }
    match found.is_empty() {
        true => check_rendering(template),
        false => found,
    }
}

/// Returns the name of the capture that a variable refers to.
fn capture(variable: &str) -> Option<&str> {
    let name = variable.strip_prefix(CAPTURE)?;
    (!name.is_empty() && !name.contains('.')).then_some(name)
}

/// Returns the names of the captures of a template, sorted; none if the text is not a template.
pub(super) fn captures(template: &str) -> Vec<String> {
    // Few messages have captures, and parsing every template takes a tenth of a load.
    let may_capture = template.contains(CAPTURE.trim_end_matches('.'));
    if !may_capture || template.len() > MESSAGE_BYTES || is_forbidden(template) {
        return Vec::new();
    }
    let environment = environment();
    let Ok(parsed) = environment.template_from_str(template) else {
        return Vec::new();
    };
    let variables = parsed.undeclared_variables(true);
    let names = variables.iter().filter_map(|name| capture(name));
    let mut names: Vec<String> = names.map(str::to_owned).collect();
    names.sort_unstable();
    names
}

fn syntax(error: &minijinja::Error) -> Fault {
    let mut message = String::from("message cannot be parsed");
    if let Some(detail) = error.detail() {
        // Writing to a String cannot fail.
        write!(message, ": {}", escape::capped(detail, VALUE_BYTES)).expect("a String takes all");
    }
    if let Some(line) = error.line().filter(|line| *line > 1) {
        write!(message, " (line {line} of the message)").expect("a String takes all");
    }
    Fault::new(&code::TEMPLATE, message)
        .with_help("`{{` and `{%` begin template code; a single `{` is plain text")
}

fn variables(template: &str, unknown: &[String]) -> Vec<Fault> {
    let fault = |name: &String| {
        let message = format!("unknown variable {} in the message", quote(name));
        let within = template.find(name.as_str()).map(|at| at..at + name.len());
        Fault::new(&code::UNKNOWN_VARIABLE, message)
            .with_help(did_you_mean::help(name, &VARIABLES))
            .within(within)
    };
    unknown.iter().map(fault).collect()
}

/// Renders the template with and without the optional values, to find errors that only show then.
fn check_rendering(template: &str) -> Vec<Fault> {
    let mut rule = Rule::new("pack/rule", Vec::new());
    let bare = fill(template, &rule, &MessageValues::default());
    rule.instead = Some("instead".to_owned());
    rule.why = Some("why".to_owned());
    rule.docs = Some("docs".to_owned());
    let values = MessageValues {
        match_text: "text",
        channel: Some("text"),
        path: Some("path"),
        tool: Some("tool"),
        arg: Some("arg"),
        captures: &[],
    };
    let full = fill(template, &rule, &values);
    bare.and(full).err().iter().map(syntax).collect()
}

/// Returns true if the template has a tag that is neither a variable nor an `if`, or too many tags.
fn is_forbidden(template: &str) -> bool {
    forbidden_tags(template).map_or(true, |tags| !tags.is_empty())
}

/// Returns the tags that are neither variables nor an `if`.
///
/// # Errors
/// Returns the first block beyond the largest number of them.
fn forbidden_tags(template: &str) -> Result<Vec<Range<usize>>, Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    let mut blocks = 0;
    while let Some(open) = template[at..].find('{').map(|found| at + found) {
        let (close, is_block) = match template.as_bytes().get(open + 1) {
            Some(b'{') => ("}}", false),
            Some(b'%') => ("%}", true),
            Some(b'#') => ("#}", false),
            _ => {
                at = open + 1;
                continue;
            }
        };
        let inner = open + 2;
        // A tag without an end is a syntax error, which the template parser reports better.
        let Some(length) = template[inner..].find(close) else {
            break;
        };
        let end = inner + length;
        let tag = open..end + close.len();
        at = tag.end;
        blocks += usize::from(is_block);
        if blocks > BLOCKS {
            return Err(tag);
        }
        let body = &template[inner..end];
        let is_comment = close == "#}";
        // The end of a block is not reported beside its beginning.
        let is_end = is_block && !found.is_empty() && body.trim_start().starts_with("end");
        if !is_comment && !is_end && !is_simple(body, is_block) {
            found.push(tag);
        }
    }
    Ok(found)
}

fn is_simple(tag: &str, is_block: bool) -> bool {
    let edge = |c| matches!(c, '-' | '+');
    let body = tag.strip_prefix(edge).unwrap_or(tag);
    let body = body.strip_suffix(edge).unwrap_or(body).trim();
    let word =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | ' ' | '\t' | '\r' | '\n');
    let keyword = body.split_ascii_whitespace().next().unwrap_or_default();
    let known = ["if", "elif", "else", "endif"].contains(&keyword);
    tag.len() <= TAG_BYTES && body.chars().all(word) && (!is_block || known)
}

fn too_much(template: &str, tag: Range<usize>) -> Fault {
    let message = format!(
        "{} is not supported in messages",
        quote(&template[tag.clone()])
    );
    Fault::new(&code::TEMPLATE, message)
        .with_help(
            "write `{{ variable }}`, or `{% if variable %}` … `{% endif %}` with `elif`, `else`, `and`, \
             `or`, `not`, at most 64 in a message; filters, calls, operators and loops are not supported",
        )
        .within(Some(tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(rule: &Rule, values: &MessageValues<'_>) -> String {
        render(rule.message.as_deref(), rule, values)
    }

    fn rule(message: &str) -> Rule {
        let mut rule = Rule::new("demo/no-leak", Vec::new());
        rule.description = "Box::leak leaks.".into();
        rule.message = Some(message.into());
        rule
    }

    fn values(text: &str) -> MessageValues<'_> {
        MessageValues {
            match_text: text,
            channel: Some("text"),
            path: Some("src/a.rs"),
            tool: None,
            arg: Some("content"),
            captures: &[],
        }
    }

    #[test]
    fn variables_and_conditions_are_filled_in() {
        let template = "{{ rule.id }} ({{ rule.severity }}): `{{ match.text }}`\
                        {% if path %} in {{ path }}{% endif %}{% if not tool %} no tool{% endif %} {{arg}} {{ channel }} {{ rule.action }}{% if rule.docs %} no docs{% endif %}";
        assert_eq!(faults(template), []);
        assert_eq!(
            message(&rule(template), &values("Box::leak")),
            "demo/no-leak (warning): `Box::leak` in src/a.rs no tool content text inject"
        );
        assert_eq!(message(&rule("[{{ tool }}]"), &values("")), "[]");
    }

    #[test]
    fn without_a_message_the_description_speaks() {
        let mut rule = rule("");
        rule.message = None;
        assert_eq!(
            message(&rule, &values("x")),
            "demo/no-leak: Box::leak leaks."
        );
        rule.instead = Some("Keep an owner.".into());
        assert_eq!(
            message(&rule, &values("x")),
            "demo/no-leak: Box::leak leaks. Keep an owner."
        );
    }

    #[test]
    fn hostile_values_are_data() {
        let hostile = "{{ rule.id }}{% if path %}</system>\u{1b}[31m\n<|im_start|>&<b>";
        assert_eq!(
            message(&rule("{{ match.text }}"), &values(hostile)),
            r"{{ rule.id }}{% if path %}</system>\u{1b}[31m\n<|im_start|>&<b>"
        );
        let long = message(&rule("{{ match.text }}"), &values(&"é".repeat(10 << 20)));
        assert_eq!(long, "é".repeat(100) + "…");
    }

    #[test]
    fn a_capture_is_inserted_up_to_its_bound() {
        let template = "{% if capture.list %}Take {{ capture.list }}.{% else %}Look.{% endif %}";
        assert_eq!(faults(template), []);
        assert_eq!(captures(template), ["list"]);
        let told = |list: Option<String>| {
            let captured: Vec<_> = list
                .map(|list| ("list".to_owned(), list))
                .into_iter()
                .collect();
            let values = MessageValues {
                captures: &captured,
                ..MessageValues::default()
            };
            message(&rule(template), &values)
        };
        assert_eq!(told(None), "Look.");
        assert_eq!(
            told(Some("a\u{1b} {{ b }}".to_owned())),
            r"Take a\u{1b} {{ b }}."
        );
        let most = "x".repeat(CAPTURE_BYTES);
        assert_eq!(told(Some(most.clone())), format!("Take {most}."));
        assert_eq!(told(Some(most.clone() + "y")), format!("Take {most}…."));
        for wrong in ["{{ capture }}", "{{ capture.a.b }}", "{{ captured.a }}"] {
            assert_eq!(faults(wrong)[0].code.name, "unknown-variable", "{wrong}");
        }
    }

    #[test]
    fn a_message_is_capped() {
        let mut rule = rule("{{ rule.why }}{{ rule.why }}");
        rule.why = Some("é".repeat(MESSAGE_BYTES / 2 - 1));
        let text = message(&rule, &values(""));
        assert_eq!(text.len(), MESSAGE_BYTES + "…".len());
        assert!(text.ends_with("é…"));
    }

    #[test]
    fn a_broken_template_falls_back_to_the_description() {
        let plain = "demo/no-leak: Box::leak leaks.";
        for template in [
            "{{",
            "{% for c in rule.why %}{% endfor %}",
            "{{ 'a' * 9999999 }}",
        ] {
            assert_eq!(message(&rule(template), &values("")), plain, "{template}");
        }
    }

    #[test]
    fn forbidden_template_syntax_is_refused() {
        for template in [
            "{{ match.text | upper }}",
            "{{ 'a' * 1000000 }}",
            "{{ \"}}\" * 1000000 }}",
            "{% for c in rule.description %}{% for d in rule.description %}x{% endfor %}{% endfor %}",
            "{%- set x = path %}",
            "{% raw %}{{ x }}{% endraw %}",
            "{{ range() }}",
            "{# note #}{{ path ~ path }}",
            "{% if path %}",
            "{{ path",
            "{{ }}",
            "{% if path is nonsense %}x{% endif %}",
        ] {
            let codes: Vec<_> = faults(template)
                .iter()
                .map(|fault| fault.code.name)
                .collect();
            assert!(!codes.is_empty(), "{template}");
            assert!(codes.iter().all(|code| *code == "template"), "{template}");
        }
        assert_eq!(faults(&"x".repeat(MESSAGE_BYTES + 1)).len(), 1);
    }

    #[test]
    fn all_problems_of_a_template_are_found_at_once() {
        let found = faults("{{ path | upper }} {{ rule.idd }} {{ tool() }} {{ nope }}");
        let found: Vec<_> = found
            .iter()
            .map(|fault| (fault.code.name, fault.within.clone()))
            .collect();
        let all = [
            ("template", Some(0..18)),
            ("template", Some(34..46)),
            ("unknown-variable", Some(50..54)),
            ("unknown-variable", Some(22..30)),
        ];
        assert_eq!(found, all);
        // A block may define names, so the variables in it are not reported.
        let found = faults("{% for c in path %}{{ c }}{% endfor %}{{ c | upper }}");
        assert_eq!(found.len(), 2);
        assert!(found.iter().all(|fault| fault.code.name == "template"));
    }

    #[test]
    fn deep_templates_do_not_reach_the_recursive_parser() {
        let elif = "{% elif path %}".repeat(4_000);
        for template in [
            format!("{{{{ {}path }}}}", "not ".repeat(16_000)),
            format!("{{{{ path{} }}}}", " and path".repeat(7_000)),
            format!("{{{{ path{} }}}}", ".x".repeat(30_000)),
            format!("{{% if path %}}{elif}{{% endif %}}"),
            "{% if path %}".repeat(5_000) + &"{% endif %}".repeat(5_000),
        ] {
            assert_eq!(faults(&template).len(), 1);
        }
        let most = "{% if path %}".repeat(BLOCKS / 2) + &"{% endif %}".repeat(BLOCKS / 2);
        assert_eq!(faults(&most), []);
    }

    #[test]
    fn unknown_variables_are_named_with_the_nearest() {
        let found = faults("{{ rule.descripton }} {{ matched }} {{ rule }} {{ path.x }}");
        let found: Vec<_> = found
            .iter()
            .map(|fault| (fault.code.name, fault.help.as_deref().unwrap_or_default()))
            .collect();
        assert_eq!(found.len(), 4);
        assert!(found.iter().all(|(code, _)| *code == "unknown-variable"));
        assert!(found.contains(&("unknown-variable", "did you mean `rule.description`?")));
    }
}
