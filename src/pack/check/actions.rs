//! The faults of cases and of request headers.

use super::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;
use crate::rule::{Case, Channel};

/// Returns the contradiction in a case that does not depend on its rule.
pub(in crate::pack) fn case_fault(case: &Case) -> Option<Fault> {
    let bad = |message: String| Some(Fault::new(&code::BAD_VALUE, message));
    let is_call = matches!(case.channel, Channel::ToolInput | Channel::ToolOutput);
    if !is_call && (case.tool.is_some() || case.path.is_some()) {
        return bad("`tool` and `path` belong to `input`".to_owned());
    }
    let by_byte = case.by_byte?;
    let bytes = case.text.len();
    if case.expect.is_none() {
        return bad("`by-byte` has no effect in a case that expects nothing".to_owned());
    }
    if by_byte > bytes as u64 {
        return bad(format!("`by-byte` is {by_byte}, the text is {bytes} bytes"));
    }
    None
}

/// Returns the fault of the name of a header.
pub(in crate::pack) fn header_name(name: &str) -> Option<Fault> {
    let is_token = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    let is_right = !name.is_empty() && name.bytes().all(is_token);
    (!is_right).then(|| {
        let message = format!("{} is not the name of a header", quote(name));
        Fault::new(&code::BAD_VALUE, message).with_help("letters, digits and `-`: `x-route`")
    })
}

/// Returns the fault of the value of a header.
pub(in crate::pack) fn header_value(value: &str) -> Option<Fault> {
    let is_wrong = value.chars().any(char::is_control);
    is_wrong.then(|| {
        let message = "the value of a header has no line breaks or control characters";
        Fault::new(&code::BAD_VALUE, message)
    })
}
