//! The code of a command that is being read: the search for all expressions of `code` at once.

use crate::program::CommandSet;
use ttsr_automata::{Cursor, Matcher, PatternId};
use ttsr_views::chunk::Chunk;
use ttsr_views::command::CommandId;

/// The search in a piece of code. No other piece begins before it ends, so one search serves all commands of a call.
#[derive(Debug, Default)]
pub(super) struct CodeSearch {
    /// The command whose code is open.
    command: Option<CommandId>,
    /// Made with the first code that a pattern has requirements on.
    cursor: Option<Cursor>,
    /// The end in the part of the code so far.
    end: u64,
    /// The expressions that have just matched, each with the end of the byte that made it certain.
    found: Vec<(PatternId, u64)>,
}

impl CodeSearch {
    /// Reads the next bytes of the code of a command, and finds the expressions that match.
    pub(super) fn push(&mut self, set: &CommandSet, command: CommandId, chunk: &Chunk<'_>) {
        self.found.clear();
        let Some(matcher) = set.code_matcher() else {
            return;
        };
        if let Some(last) = chunk.bytes.len().checked_sub(1) {
            self.end = chunk.end(last);
        }
        let is_new = self.command.replace(command) != Some(command);
        let CodeSearch { cursor, found, .. } = self;
        let cursor = start(matcher, cursor, is_new);
        matcher.push(cursor, chunk.bytes, |event| {
            found.push((event.pattern, chunk.end(event.at)));
        });
    }

    /// Ends the code of a command, and finds the expressions that match at its end.
    pub(super) fn finish(&mut self, set: &CommandSet, command: CommandId) {
        self.found.clear();
        // The code of other commands has not been read.
        if self.command.take() != Some(command) {
            return;
        }
        let CodeSearch {
            cursor, found, end, ..
        } = self;
        if let (Some(matcher), Some(cursor)) = (set.code_matcher(), cursor) {
            matcher.finish(cursor, |event| found.push((event.pattern, *end)));
        }
    }

    /// Takes the expressions that have just matched; [`give_back`](Self::give_back) keeps their buffer.
    pub(super) fn take_found(&mut self) -> Vec<(PatternId, u64)> {
        std::mem::take(&mut self.found)
    }

    pub(super) fn give_back(&mut self, found: Vec<(PatternId, u64)>) {
        self.found = found;
    }
}

/// Returns the cursor, at the start of a haystack if the code is a new one.
fn start<'c>(matcher: &Matcher, cursor: &'c mut Option<Cursor>, is_new: bool) -> &'c mut Cursor {
    let is_made = cursor.is_some();
    let cursor = cursor.get_or_insert_with(|| matcher.start());
    if is_made && is_new {
        matcher.restart(cursor);
    }
    cursor
}
