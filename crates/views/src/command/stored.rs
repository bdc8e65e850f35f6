//! The files whose constant text the commands of a text write, such as scripts that later commands run.

use super::text::MappedText;

/// The most files whose text is kept. The oldest one is forgotten, as if it had been on disk before.
const FILES: usize = 16;

/// The files that commands have written, by their normalized paths.
#[derive(Clone, Debug, Default)]
pub(super) struct StoredFiles(Vec<(Vec<u8>, MappedText)>);

/// The file that the standard output of a command is written to.
#[derive(Clone, Debug, Default)]
pub(super) struct OutputFile {
    /// The normalized path; empty if it is unknown.
    pub(super) path: Vec<u8>,
    pub(super) appends: bool,
    /// True if the standard output is redirected at all.
    pub(super) is_redirected: bool,
}

impl OutputFile {
    /// Empties the path and keeps its buffer.
    pub(super) fn clear(&mut self) {
        self.path.clear();
        (self.appends, self.is_redirected) = (false, false);
    }
}

impl StoredFiles {
    /// Records that `text` is written to the file; `None` if it is unknown. At most `most` bytes of each file are kept.
    pub(super) fn write(&mut self, file: &OutputFile, text: Option<MappedText>, most: usize) {
        if file.path.is_empty() || file.path == b"/dev/null" {
            return;
        }
        let known = self.0.iter().position(|(path, _)| *path == file.path);
        if let Some(index) = known.filter(|_| file.appends) {
            let stored = &mut self.0[index].1;
            if let Some(text) = text.filter(|text| stored.len() + text.len() <= most) {
                stored.append(&text);
            }
            return;
        }
        known.map(|index| self.0.remove(index));
        let Some(text) = text.filter(|text| text.len() <= most) else {
            return;
        };
        if self.0.len() == FILES {
            self.0.remove(0);
        }
        self.0.push((file.path.clone(), text));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the text of a file. Each text is read once, so that a script which runs itself ends.
    pub(super) fn take(&mut self, path: &[u8]) -> Option<MappedText> {
        let index = self.0.iter().position(|(known, _)| *known == path)?;
        Some(self.0.remove(index).1)
    }
}
