//! The packs that come with the crate: their files are part of the library.

/// Name and text of every built-in pack, sorted by name.
pub(super) const PACKS: &[(&str, &str)] = &[
    (
        "lang/python",
        include_str!("../../rules/lang/python/pack.toml"),
    ),
    ("lang/rust", include_str!("../../rules/lang/rust/pack.toml")),
    (
        "lang/typescript",
        include_str!("../../rules/lang/typescript/pack.toml"),
    ),
    (
        "std/secrets",
        include_str!("../../rules/std/secrets/pack.toml"),
    ),
    (
        "std/shell-safety",
        include_str!("../../rules/std/shell-safety/pack.toml"),
    ),
    (
        "std/test-integrity",
        include_str!("../../rules/std/test-integrity/pack.toml"),
    ),
];

/// The text of the pack of that name.
pub(super) fn text(name: &str) -> Option<&'static str> {
    PACKS
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
}
