//! The problems of one text, before their offsets become lines and columns.

use std::ops::Range;

use super::fault::Fault;
use crate::pack::diagnostic::{Code, Level};
use crate::pack::escape;

/// The number of problems of one file that are kept; the rest is only counted.
const PROBLEMS_PER_FILE: usize = 10_000;

/// A range of bytes of a text.
pub(in crate::pack) type Span = Range<usize>;

/// A [`Fault`] and the bytes of the text that it is about.
#[derive(Debug)]
pub(super) struct Problem {
    pub(super) code: &'static Code,
    pub(super) span: Span,
    /// The full id of the rule, escaped.
    pub(super) rule: Option<String>,
    pub(super) message: String,
    pub(super) help: Option<String>,
}

/// The problems of one text.
#[derive(Debug, Default)]
pub(super) struct Problems {
    pub(super) list: Vec<Problem>,
    /// The number of problems beyond [`PROBLEMS_PER_FILE`].
    pub(super) hidden: usize,
    /// The number of errors, including those that were not kept.
    pub(super) errors: usize,
}

impl Problems {
    /// Appends `fault`, which was found at `span`, in `rule` if it is known.
    pub(super) fn push(&mut self, fault: Fault, span: Span, rule: Option<String>) {
        self.errors += usize::from(fault.code.level == Level::Error);
        if self.list.len() >= PROBLEMS_PER_FILE {
            self.hidden += 1;
            return;
        }
        self.list.push(Problem {
            code: fault.code,
            span,
            rule: rule.as_deref().map(escape::all),
            message: fault.message,
            help: fault.help,
        });
    }
}
