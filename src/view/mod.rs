//! Views: from the bytes of a part to the haystacks that patterns see.

pub(crate) mod json;
pub(crate) mod path;
