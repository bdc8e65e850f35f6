//! A small list of commands.

use std::ops::Deref;

use super::event::CommandId;

/// The most commands of a list. Further ones are dropped.
const MOST: usize = 8;

/// A list of at most [`MOST`] commands, such as those whose output another command reads.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommandIds {
    ids: [CommandId; MOST],
    len: usize,
}

impl Default for CommandIds {
    fn default() -> CommandIds {
        CommandIds {
            ids: [CommandId(0); MOST],
            len: 0,
        }
    }
}

impl CommandIds {
    pub(super) fn extend(&mut self, ids: &[CommandId]) {
        let ids = &ids[..ids.len().min(MOST - self.len)];
        self.ids[self.len..self.len + ids.len()].copy_from_slice(ids);
        self.len += ids.len();
    }
}

impl From<&[CommandId]> for CommandIds {
    fn from(ids: &[CommandId]) -> CommandIds {
        let mut list = CommandIds::default();
        list.extend(ids);
        list
    }
}

impl Deref for CommandIds {
    type Target = [CommandId];

    fn deref(&self) -> &[CommandId] {
        &self.ids[..self.len]
    }
}

/// The command that runs a standard input as code, and the language of the code.
pub(super) type StdinCode = Option<(CommandId, &'static str)>;
