//! Views: state machines that turn the bytes of a part into the haystacks that patterns search.
//!
//! A view consumes [`Chunk`](chunk::Chunk)s and emits chunks under a [`Tag`](chunk::Tag), in the same order, however
//! its input is cut. Views are composed: `json` decodes tool input, `edit`, `shell` or `fence` splits it into regions,
//! `code` separates comments and strings, and `fold` folds the result. No view knows a rule.

pub(crate) mod chunk;
pub(crate) mod code;
pub(crate) mod edit;
pub(crate) mod fence;
pub(crate) mod fold;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod shell;
#[cfg(test)]
mod test_sink;
