//! Views: from the bytes of a part to the haystacks that patterns see.
//!
//! A view is a small state machine: [`Chunk`](chunk::Piece)s in, pieces with a [`Tag`](chunk::Tag) out, in
//! the same order, cut anywhere. Views are laid one behind the other (`json`, then what the tool writes, then
//! comments and strings, then folding), so all of them speak in pieces. None knows a rule.

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
