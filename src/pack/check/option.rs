//! What a rule does and how often: `mode`, `partial`, `retry`, `repeat`, `allowance`, `hold`, `replacement`,
//! `consult`, `header`, `priority`, `status`; and its cases.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Walk;
use super::fault::Fault;
use super::header::Header;
use crate::pack::diagnostic::code;
use crate::pack::nearest;
use crate::pack::schema;
use crate::rule::{
    Action, Allowance, Case, Channel, Consult, Header as RequestHeader, Mode, Partial, Repeat,
    Retry, Rule, Status,
};

impl Walk<'_> {
    /// Reads the options of a rule.
    pub(super) fn options(&mut self, table: &DeTable<'_>, header: &Header<'_>, rule: &mut Rule) {
        if let Some(mode) = self.one_of(table, "mode", &Mode::ALL.map(Mode::name), Mode::from_name)
        {
            rule.mode = mode;
        }
        let names = Partial::ALL.map(Partial::name);
        if let Some(partial) = self.one_of(table, "partial", &names, Partial::from_name) {
            rule.partial = partial;
        }
        let names = Status::ALL.map(Status::name);
        if let Some(status) = self.one_of(table, "status", &names, Status::from_name) {
            rule.status = status;
        }
        if let Some(priority) = self.whole(table, "priority") {
            rule.priority = i32::try_from(priority).expect("its bounds are those of an i32");
        }
        rule.hold = self.flag(table, "hold").unwrap_or_default();
        rule.replacement = self
            .string(table, "replacement")
            .map(|text| text.value.to_owned());
        rule.retry = self.retry(table);
        rule.repeat = self.repeat(table);
        rule.allowance = self.allowance(table);
        rule.consult = self.consult(table, header);
        rule.header = self.header(table);
    }

    fn retry(&mut self, table: &DeTable<'_>) -> Retry {
        let mut retry = Retry::default();
        let Some(table) = self.table(table, "retry") else {
            return retry;
        };
        if let Some(max) = self.count(table, "retry.max") {
            retry.max = max;
        }
        retry.model = self.optional(table, "model");
        retry.temperature = self.decimal(table, "retry.temperature");
        let then = |name: &str| schema::THEN.into_iter().find(|then| then.name() == name);
        let names = schema::THEN.map(Action::name);
        retry.then = self.one_of(table, "then", &names, then);
        retry
    }

    fn repeat(&mut self, table: &DeTable<'_>) -> Option<Repeat> {
        let table = self.table(table, "repeat")?;
        Some(Repeat {
            cooldown_turns: self.count(table, "repeat.cooldown-turns"),
            per_turn: self.count(table, "repeat.per-turn"),
            per_session: self.count(table, "repeat.per-session"),
        })
    }

    fn allowance(&mut self, table: &DeTable<'_>) -> Allowance {
        let Some(table) = self.table(table, "allowance") else {
            return Allowance::default();
        };
        Allowance {
            per_turn: self.count(table, "allowance.per-turn"),
            per_session: self.count(table, "allowance.per-session"),
        }
    }

    fn consult(&mut self, table: &DeTable<'_>, header: &Header<'_>) -> Option<Consult> {
        let table = self.table(table, "consult")?;
        let prompt = self.template(table, "prompt");
        let mut consult = Consult::new(prompt.unwrap_or_default());
        consult.model = self.optional(table, "model");
        if let Some(millis) = self.decimal(table, "consult.timeout") {
            consult.timeout_millis = u64::from(millis);
        }
        if let Some(tools) = self.scope(table, "tools", header) {
            consult.tools = tools;
        }
        consult.blocks_on_failure = self.flag(table, "block-on-failure").unwrap_or_default();
        Some(consult)
    }

    fn header(&mut self, table: &DeTable<'_>) -> Option<RequestHeader> {
        let table = self.table(table, "header")?;
        let name = self.filled_string(table, "name");
        let value = self.filled_string(table, "value");
        for (text, fault) in [
            (&name, header_name as fn(&str) -> Option<Fault>),
            (&value, header_value),
        ] {
            if let Some(text) = text
                && let Some(fault) = fault(text.value)
            {
                self.fault_in(fault, text);
            }
        }
        Some(RequestHeader {
            name: name
                .map(|name| name.value.to_lowercase())
                .unwrap_or_default(),
            value: value
                .map(|value| value.value.to_owned())
                .unwrap_or_default(),
        })
    }

    /// Reads `[[rule.x.case]]`.
    pub(super) fn cases(&mut self, table: &DeTable<'_>) -> Vec<Case> {
        let entries = self.array(table, "case").unwrap_or_default();
        entries
            .iter()
            .filter_map(|entry| self.case(entry))
            .collect()
    }

    fn case(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Case> {
        let table = self.as_table(value, "an entry of `case`")?;
        self.known(table, "a case", schema::CASE);
        let texts = TEXTS.map(|(key, channel)| Some((self.string(table, key)?, channel)));
        let tool = self.optional(table, "tool");
        let path = self.optional(table, "path");
        let by_byte = self.whole(table, "case.by-byte");
        let expect = self.expect(table, value.span());
        let written = TEXTS
            .iter()
            .filter(|(key, _)| table.contains_key(*key))
            .count();
        if written != 1 {
            let message = "a case has exactly one of `text`, `reasoning`, `input`";
            self.fault(Fault::new(&code::BAD_VALUE, message), value.span());
            return None;
        }
        let (text, channel) = texts.into_iter().flatten().next()?;
        let case = Case {
            channel,
            text: text.value.to_owned(),
            tool,
            path,
            expect: expect?,
            by_byte: by_byte.map(|byte| u64::try_from(byte).expect("it is at least one")),
        };
        if let Some(fault) = case_fault(&case) {
            self.fault(fault, value.span());
        }
        Some(case)
    }

    /// What must come of a case; the inner `None` is nothing.
    fn expect(&mut self, table: &DeTable<'_>, span: super::Span) -> Option<Option<Action>> {
        if !table.contains_key("expect") {
            self.missing(
                "expect",
                "a case",
                "an action, or `expect = \"nothing\"`",
                span,
            );
        }
        let text = self.string(table, "expect")?;
        let expected = match text.value {
            "nothing" => Some(None),
            name => Action::from_name(name).map(Some),
        };
        if expected.is_none() {
            let message = format!("{} is not a value of `expect`", super::quote(text.value));
            let mut names = Action::ALL.map(Action::name).to_vec();
            names.push("nothing");
            let fault =
                Fault::new(&code::BAD_VALUE, message).with_help(nearest::help(text.value, &names));
            self.fault_in(fault, &text);
        }
        expected
    }
}

/// The keys that give the text of a case.
const TEXTS: [(&str, Channel); 3] = [
    ("text", Channel::Text),
    ("reasoning", Channel::Reasoning),
    ("input", Channel::ToolInput),
];

/// What makes no sense in a case, whatever its rule.
pub(super) fn case_fault(case: &Case) -> Option<Fault> {
    let bad = |message: String| Some(Fault::new(&code::BAD_VALUE, message));
    let is_call = matches!(case.channel, Channel::ToolInput | Channel::ToolOutput);
    if !is_call && (case.tool.is_some() || case.path.is_some()) {
        return bad("`tool` and `path` belong to `input`".to_owned());
    }
    let by_byte = case.by_byte?;
    let bytes = case.text.len();
    if case.expect.is_none() {
        return bad("`by-byte` has no effect where nothing is expected".to_owned());
    }
    if by_byte > bytes as u64 {
        return bad(format!("`by-byte` is {by_byte}, the text is {bytes} bytes"));
    }
    None
}

/// What is wrong with the name of a header.
pub(super) fn header_name(name: &str) -> Option<Fault> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_right = !name.is_empty() && name.bytes().all(is_token);
    (!is_right).then(|| {
        let message = format!("{} is not the name of a header", super::quote(name));
        Fault::new(&code::BAD_VALUE, message).with_help("letters, digits and `-`: `x-route`")
    })
}

/// What is wrong with the value of a header.
pub(super) fn header_value(value: &str) -> Option<Fault> {
    let is_wrong = value.chars().any(char::is_control);
    is_wrong.then(|| {
        let message = "the value of a header has no line breaks or control characters";
        Fault::new(&code::BAD_VALUE, message)
    })
}
