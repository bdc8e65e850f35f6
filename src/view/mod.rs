//! Views: from the bytes of a part to the haystacks that patterns see.
//!
//! A view is a small state machine: [`Piece`]s in, pieces with a [`Tag`] out, in the same order, cut anywhere.
//! Views are laid one behind the other (`json`, then what the tool writes, then comments and strings, then
//! folding), so all of them speak in pieces. None knows a rule.

#[cfg_attr(not(test), allow(dead_code, reason = "no stream reads it yet"))]
pub(crate) mod edit;
pub(crate) mod json;
pub(crate) mod path;
pub(crate) mod piece;
#[cfg_attr(not(test), allow(dead_code, reason = "no stream reads it yet"))]
pub(crate) mod shell;
