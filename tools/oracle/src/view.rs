//! The views that are compared, as the crate has them.

#![allow(dead_code)] // tests and other views use the rest

#[path = "../../../src/view/code.rs"]
pub(crate) mod code;
#[path = "../../../src/view/piece.rs"]
pub(crate) mod piece;
