//! Text that belongs to no command: comments and the bodies of heredocs.

use super::ShellView;

/// The most heredoc delimiters of one line.
pub(super) const HEREDOCS: usize = 8;

#[derive(Clone, Debug)]
pub(super) struct HeredocDelimiter {
    pub(super) end: Vec<u8>,
    pub(super) tabs: bool,
}

/// The body of a heredoc, which is skipped.
#[derive(Clone, Debug)]
pub(super) struct HeredocBody {
    heredoc: HeredocDelimiter,
    /// The number of bytes of the delimiter that the line matches; `None` if the line differs.
    matched: Option<usize>,
    begins: bool,
}

impl ShellView {
    /// Consumes the byte and returns true if it belongs to a comment or the body of a heredoc.
    pub(super) fn skips(&mut self, byte: u8) -> bool {
        if self.comment {
            // The newline also ends the command, and the backquote the substitution.
            self.comment = byte != b'\n' && !(byte == b'`' && self.in_backquotes());
            return self.comment;
        }
        let Some(body) = &mut self.body else {
            return false;
        };
        if body.ends_with(byte) {
            self.body =
                (!self.heredocs.is_empty()).then(|| HeredocBody::new(self.heredocs.remove(0)));
        }
        true
    }

    /// Returns true if the text here belongs to no command.
    pub(super) fn is_outside_commands(&self) -> bool {
        self.comment || self.body.is_some() || self.skipped > 0
    }
}

impl HeredocBody {
    pub(super) fn new(heredoc: HeredocDelimiter) -> HeredocBody {
        HeredocBody {
            heredoc,
            matched: Some(0),
            begins: true,
        }
    }

    /// Consumes a byte. Returns true if it ends the body.
    fn ends_with(&mut self, byte: u8) -> bool {
        let end = &self.heredoc.end;
        if byte == b'\n' {
            let ends = self.matched == Some(end.len());
            (self.matched, self.begins) = (Some(0), true);
            return ends;
        }
        if self.begins && self.heredoc.tabs && byte == b'\t' {
            return false;
        }
        self.begins = false;
        self.matched = self
            .matched
            .filter(|&at| end.get(at) == Some(&byte))
            .map(|at| at + 1);
        false
    }
}
