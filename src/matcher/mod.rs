//! The matcher: bytes in, pattern ids and offsets out. It knows nothing of rules or TOML.

pub(crate) mod pattern;
