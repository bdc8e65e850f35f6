//! The files that the commands of a call have written, each with the command.
//!
//! A file is recorded when the command that writes it has ended. A command that reads it later gets the output of that
//! command.

use super::tracked::TextList;
use ttsr_views::command::CommandId;

/// The most files that are known. Beyond it, the older half is forgotten.
const MAX_WRITTEN_FILES: usize = 64;

/// The files that commands of a call have written.
#[derive(Debug, Default)]
pub(super) struct WrittenFiles {
    paths: TextList,
    writers: Vec<CommandId>,
    /// A buffer of paths.
    spare: TextList,
}

impl WrittenFiles {
    /// Records that the command has written the file.
    pub(super) fn add(&mut self, path: &[u8], writer: CommandId) {
        if path == b"/dev/null" {
            return;
        }
        if self.writers.len() == MAX_WRITTEN_FILES {
            self.spare.clear();
            for path in self.paths.iter().skip(MAX_WRITTEN_FILES / 2) {
                self.spare.push(path);
            }
            std::mem::swap(&mut self.paths, &mut self.spare);
            self.writers.drain(..MAX_WRITTEN_FILES / 2);
        }
        self.paths.push(path);
        self.writers.push(writer);
    }

    /// Returns the commands that have written the file at `path`.
    pub(super) fn writers(&self, path: &[u8]) -> impl Iterator<Item = CommandId> {
        let files = self.paths.iter().zip(&self.writers);
        files
            .filter(move |(written, _)| *written == path)
            .map(|(_, writer)| *writer)
    }
}
