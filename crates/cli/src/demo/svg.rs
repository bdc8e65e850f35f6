//! Renders the output of the demo as an SVG image.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use anstyle_svg::{Term, WIN10_CONSOLE};

/// Maximum number of characters on a line of the image.
const COLUMNS: usize = 100;

/// Indentation of wrapped lines: the width of the labels.
const INDENT: usize = 12;

/// The terminal output, collected in memory. Clones share the content.
#[derive(Clone, Default)]
pub(super) struct Transcript(Arc<Mutex<Vec<u8>>>);

impl Write for Transcript {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        content.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Transcript {
    /// Returns the image of the output, with lines wrapped at [`COLUMNS`] characters.
    pub(super) fn render(&self) -> String {
        let content = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&content);
        let lines: Vec<String> = text.lines().map(wrap).collect();
        let terminal = Term::new().palette(WIN10_CONSOLE);
        terminal.render_svg(&lines.join("\n"))
    }
}

/// Wraps a line between words. Escape sequences take no columns.
fn wrap(line: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in line.split_inclusive(' ') {
        let width = anstream::adapter::strip_str(word)
            .to_string()
            .chars()
            .count();
        if column > INDENT && column + width > COLUMNS {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', INDENT));
            column = INDENT;
        }
        out.push_str(word);
        column += width;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_are_wrapped_between_words_and_escapes_take_no_room() {
        assert_eq!(wrap("a short line"), "a short line");
        let long = "word ".repeat(30);
        let wrapped = wrap(&long);
        let lines: Vec<&str> = wrapped.lines().collect();
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
        assert!(lines[1].starts_with(&" ".repeat(INDENT)));
        let styled = format!("\u{1b}[31m{}\u{1b}[0m", "x".repeat(COLUMNS));
        assert_eq!(wrap(&styled), styled);
    }
}
