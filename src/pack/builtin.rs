//! The packs that come with the crate: their files are part of the library.

/// Name and text of every built-in pack, sorted by name.
pub(super) const PACKS: &[(&str, &str)] = &[
    ("lang/go", include_str!("../../rules/lang/go/pack.toml")),
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
        "opencode/chat-headers",
        include_str!("../../rules/opencode/chat-headers/pack.toml"),
    ),
    (
        "opencode/delegate-task-retry",
        include_str!("../../rules/opencode/delegate-task-retry/pack.toml"),
    ),
    (
        "opencode/foreground-fallback",
        include_str!("../../rules/opencode/foreground-fallback/pack.toml"),
    ),
    (
        "opencode/json-error-recovery",
        include_str!("../../rules/opencode/json-error-recovery/pack.toml"),
    ),
    (
        "opencode/phase-reminder",
        include_str!("../../rules/opencode/phase-reminder/pack.toml"),
    ),
    (
        "opencode/post-read-nudge",
        include_str!("../../rules/opencode/post-read-nudge/pack.toml"),
    ),
    (
        "std/degeneration",
        include_str!("../../rules/std/degeneration/pack.toml"),
    ),
    (
        "std/injection",
        include_str!("../../rules/std/injection/pack.toml"),
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
