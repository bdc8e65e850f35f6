//! All problems of one load, sorted by place and bounded in number.

use super::{Diagnostic, Level, code};

/// The largest number of problems shown. Errors are kept before warnings.
const SHOWN: usize = 1_000;

/// The problems found so far.
#[derive(Debug, Default)]
pub(in crate::pack) struct Report {
    errors: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
    hidden: usize,
}

impl Report {
    pub(in crate::pack) fn push(&mut self, diagnostic: Diagnostic) {
        let list = match diagnostic.level() {
            Level::Error => &mut self.errors,
            Level::Warning | Level::Note => &mut self.warnings,
        };
        list.push(diagnostic);
        // The list is cut at twice the number shown, so that it is sorted once in a thousand problems.
        if list.len() >= 2 * SHOWN {
            self.hidden += cut(list, SHOWN);
        }
    }

    /// Adds to the number of problems that are counted and not kept.
    pub(in crate::pack) fn hide(&mut self, count: usize) {
        self.hidden += count;
    }

    pub(in crate::pack) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the problems in the order (file, line, column): at most [`SHOWN`], and one that counts the rest.
    pub(in crate::pack) fn into_diagnostics(mut self) -> Vec<Diagnostic> {
        self.hidden += cut(&mut self.errors, SHOWN);
        self.hidden += cut(&mut self.warnings, SHOWN - self.errors.len());
        let mut all = self.errors;
        all.append(&mut self.warnings);
        sort(&mut all);
        if self.hidden > 0 {
            let file = all
                .last()
                .map_or_else(String::new, |last| last.file.clone());
            let message = format!("{} more problems are not shown", self.hidden);
            all.push(Diagnostic::from_file(
                &code::TOO_MANY_PROBLEMS,
                &file,
                message,
            ));
        }
        all
    }
}

/// Keeps the first `limit` problems and returns the number of the others.
fn cut(list: &mut Vec<Diagnostic>, limit: usize) -> usize {
    let gone = list.len().saturating_sub(limit);
    if gone > 0 {
        sort(list);
        list.truncate(limit);
    }
    gone
}

fn sort(list: &mut [Diagnostic]) {
    // The sort is stable: problems at one place stay in the order in which they were found.
    list.sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
}
