//! The views of the crate that are compared.

#![allow(dead_code)] // tests and other views use the rest

#[path = "../../../src/view/chunk.rs"]
pub(crate) mod chunk;
#[path = "../../../src/view/code.rs"]
pub(crate) mod code;
