//! A problem of a value, independent of where the value came from.

use std::ops::Range;

use crate::pack::diagnostic::Code;

/// A problem without a place. The reader of a file adds the place; a rule made in code has none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pack) struct Fault {
    pub(in crate::pack) code: &'static Code,
    pub(in crate::pack) message: String,
    pub(in crate::pack) help: Option<String>,
    /// The bytes of the value that the problem is about; `None` if it is about all of them.
    pub(in crate::pack) within: Option<Range<usize>>,
    /// The index of the case that the problem is about, if it is about one of several.
    pub(in crate::pack) case: Option<usize>,
}

impl Fault {
    pub(in crate::pack) fn new(code: &'static Code, message: impl Into<String>) -> Fault {
        Fault {
            code,
            message: message.into(),
            help: None,
            within: None,
            case: None,
        }
    }

    pub(in crate::pack) fn with_help(self, help: impl Into<String>) -> Fault {
        Fault {
            help: Some(help.into()),
            ..self
        }
    }

    pub(in crate::pack) fn within(self, within: Option<Range<usize>>) -> Fault {
        Fault { within, ..self }
    }

    pub(in crate::pack) fn in_case(self, index: usize) -> Fault {
        Fault {
            case: Some(index),
            ..self
        }
    }
}
