//! Push parsers and detectors for text that arrives in pieces, such as the reply of a language model.
//!
//! A **view** turns the bytes of a part of a reply into the haystacks that patterns search: it decodes them or splits
//! them into regions, and keeps the offset of every byte. A **detector** finds what no pattern expresses. Both are
//! state machines without I/O, clocks or threads. Their memory is bounded whatever the input, and their results do not
//! depend on how the input is cut. None of them knows a rule.
//!
//! | module | input | output |
//! |---|---|---|
//! | [`json`] | the JSON text of a tool call | a haystack for each object key and each value |
//! | [`markdown`] | Markdown | prose, code blocks with their languages, inline code, quotes, headings |
//! | [`edit`] | the values of a tool call that edits files | added and removed lines with their files |
//! | [`shell`] | shell text | simple commands, without quotes and escapes |
//! | [`command`] | shell text | the words of simple commands with their roles, pipes, redirections, code |
//! | [`code`] | source code in a known language | comments, strings, and the code between them |
//! | [`fold`] | text | text in which characters that look or mean the same are equal |
//! | [`detect`] | any haystack | repetition, control tokens, languages and scripts, unknown names, limits, loops |
//! | [`glob`] | whole names and paths | whether a glob matches |
//! | [`path`] | names of files, tools and arguments | whether globs put them in scope |
//!
//! Views are composed: `json` decodes tool input, `edit`, `shell` or `markdown` splits it into regions, `code` separates
//! comments and strings, and `fold` folds the result.
//!
//! # Example: the code of a Markdown text that arrives in two deltas
//!
//! ```
//! use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, RegionSet, Tag};
//! use ttsr_views::markdown::MarkdownView;
//!
//! #[derive(Default)]
//! struct Code {
//!     tag: Tag,
//!     found: Vec<(u64, u8)>,
//! }
//!
//! impl ChunkSink for Code {
//!     fn set_tag(&mut self, tag: Tag, _: DecidedOffset) {
//!         self.tag = tag;
//!     }
//!     fn push(&mut self, chunk: Chunk<'_>) {
//!         if self.tag.regions.contains(RegionSet::CODE) {
//!             let bytes = chunk.bytes.iter().enumerate();
//!             self.found.extend(bytes.map(|(index, byte)| (chunk.start(index), *byte)));
//!         }
//!     }
//!     fn cut(&mut self, _: DecidedOffset) {}
//! }
//!
//! let mut view = MarkdownView::new();
//! let mut code = Code::default();
//! let mut end = 0;
//! for delta in ["Run `a`:\n\n``", "`sh\nls\n```\n"] {
//!     view.push(Chunk::verbatim(delta.as_bytes(), end), &mut code);
//!     end += delta.len() as u64;
//! }
//! view.cut(DecidedOffset::at_once(end), &mut code);
//! assert_eq!(code.found, [(16, b'l'), (17, b's'), (18, b'\n')]);
//! ```
//!
//! # Glossary
//!
//! | term | meaning |
//! |---|---|
//! | part | one text, reasoning or tool-input block of a reply; all offsets count its bytes as delivered |
//! | delta | a fragment of a part: bytes, cut anywhere |
//! | haystack | the contiguous text that a pattern searches |
//! | chunk | a run of bytes of a haystack with their offsets in the part: [`Chunk`](chunk::Chunk) |
//! | region | the kind of a chunk, such as code or quote: [`RegionSet`](chunk::RegionSet) |
//! | tag | the regions and the language of the chunks that follow: [`Tag`](chunk::Tag) |
//! | decided | the number of bytes of the part that had been delivered when a result became certain |
//! | detection | the range of a part in which a detector found something: [`Detection`](detect::Detection) |

#![warn(missing_docs)]
// docs.rs says beside each item which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr)
)]

pub mod block_buffer;
pub mod chunk;
pub mod code;
pub mod command;
pub mod detect;
pub mod edit;
pub mod fold;
pub mod glob;
pub mod json;
pub mod markdown;
pub mod path;
pub mod shell;
/// The example of README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}

#[cfg(test)]
mod test_sink;
