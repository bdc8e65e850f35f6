//! The commands of `parallel`: a template, and the arguments after `:::` that are filled in.

use super::super::chunk::OffsetMap;
use super::echo::write_quoted;
use super::text::MappedText;
use super::word::ReadWord;

/// The words of `parallel` after its options.
#[derive(Clone, Debug, Default)]
pub(super) struct ParallelTemplate {
    /// The words before the first `:::`, joined by blanks.
    text: MappedText,
    arguments: ArgumentSource,
    /// The number of commands that have been returned.
    filled: usize,
}

/// The source of the arguments of `parallel`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum ArgumentSource {
    /// The words are part of the template.
    #[default]
    Template,
    /// `:::`: the words are arguments.
    Words,
    /// `::::`: the words name files with arguments.
    Files,
}

impl ParallelTemplate {
    /// Reads the next word that is not an argument. Returns true if it is part of the template, whose words beyond `most`
    /// bytes are dropped.
    pub(super) fn extend(&mut self, word: &ReadWord<'_>, most: usize) -> bool {
        self.arguments = match word.bytes() {
            b":::" | b":::+" => ArgumentSource::Words,
            b"::::" | b"::::+" => ArgumentSource::Files,
            _ => self.arguments,
        };
        let is_template = self.arguments == ArgumentSource::Template;
        if is_template && self.text.len() + word.text.len() < most {
            let at = word.end;
            self.text.append(word.text);
            self.text
                .push(b" ", OffsetMap::Replacement { start: at, end: at });
        }
        is_template
    }

    /// Returns true if the word is an argument.
    pub(super) fn is_argument(&self, word: &ReadWord<'_>) -> bool {
        self.arguments == ArgumentSource::Words && !word.bytes().starts_with(b":::")
    }

    /// Returns true if `most` commands have been returned.
    pub(super) fn is_full(&self, most: usize) -> bool {
        self.filled >= most
    }

    /// Returns the command with the word as its argument.
    pub(super) fn fill(&mut self, word: &ReadWord<'_>) -> MappedText {
        self.filled += 1;
        if self.text.len() == 0 {
            return word.text.clone();
        }
        let mut argument = MappedText::default();
        write_quoted(word.text, &mut argument);
        let mut command = MappedText::default();
        let (mut at, mut is_filled) = (0, false);
        while let Some((from, to)) = placeholder(&self.text.bytes()[at..]) {
            command.append(&self.text.slice(at, at + from));
            command.append(&argument);
            at += to;
            is_filled = true;
        }
        command.append(&self.text.slice(at, self.text.len()));
        if !is_filled {
            command.append(&argument);
        }
        command
    }
}

/// Returns the range of the first placeholder: `{}`, `{.}`, `{/}`, `{//}`, `{/.}`, `{1}`, `{1.}` and the like.
fn placeholder(text: &[u8]) -> Option<(usize, usize)> {
    let opens = text.iter().enumerate().filter(|(_, byte)| **byte == b'{');
    opens.map(|(from, _)| from).find_map(|from| {
        let inner = text[from + 1..].iter();
        let length = inner
            .take_while(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'/'))
            .count();
        let close = from + 1 + length;
        (text.get(close) == Some(&b'}')).then_some((from, close + 1))
    })
}
