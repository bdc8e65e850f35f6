//! The packs that come with the crate: their files are part of the library.

/// Name and text of every built-in pack, sorted by name.
pub(super) const PACKS: &[(&str, &str)] =
    &[("lang/rust", include_str!("../../rules/lang/rust/pack.toml"))];

/// The text of the pack of that name.
pub(super) fn text(name: &str) -> Option<&'static str> {
    PACKS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
