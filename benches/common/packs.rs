//! The packs that ship.

use ttsr::Pack;

/// The packs `std/*` without `std/pii`, and `lang/*`.
pub(crate) const DEFAULT_PACKS: [&str; 9] = [
    "std/secrets",
    "std/shell-safety",
    "std/injection",
    "std/degeneration",
    "std/test-integrity",
    "lang/go",
    "lang/python",
    "lang/rust",
    "lang/typescript",
];

/// Loads built-in packs.
pub(crate) fn builtin(names: &[&str]) -> Pack {
    let names = names.iter();
    let builder = names.fold(Pack::builder(), |builder, name| builder.builtin(*name));
    builder.build().expect("built-in packs load")
}
