//! Packs: TOML in, [`Pack`] out.
