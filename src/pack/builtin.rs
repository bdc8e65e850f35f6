//! The packs that come with the crate: their files are part of the library.

/// A built-in pack.
pub(super) struct BuiltinPack {
    /// The name, which is also its folder below `rules/`.
    pub(super) name: &'static str,
    /// Its files: the name without the extension, and the text.
    files: &'static [(&'static str, &'static str)],
}

impl BuiltinPack {
    /// Returns the files: the name in messages, and the text.
    pub(super) fn files(&self) -> impl Iterator<Item = (String, &'static str)> {
        self.files.iter().map(|&(file, text)| match file {
            "pack" => (format!("<{}>", self.name), text),
            _ => (format!("<{}/{file}>", self.name), text),
        })
    }
}

macro_rules! pack {
    ($name:literal, $($file:literal),+) => {
        BuiltinPack {
            name: $name,
            files: &[$((
                $file,
                include_str!(concat!("../../rules/", $name, "/", $file, ".toml")),
            )),+],
        }
    };
}

/// Every built-in pack, sorted by name.
pub(super) const PACKS: &[BuiltinPack] = &[
    pack!("lang/go", "pack"),
    pack!("lang/python", "pack"),
    pack!("lang/rust", "pack"),
    pack!("lang/typescript", "pack"),
    pack!("opencode/chat-headers", "pack"),
    pack!("opencode/delegate-task-retry", "pack"),
    pack!("opencode/foreground-fallback", "pack"),
    pack!("opencode/json-error-recovery", "pack"),
    pack!("opencode/phase-reminder", "pack"),
    pack!("opencode/post-read-nudge", "pack"),
    pack!("std/degeneration", "pack"),
    pack!("std/injection", "pack"),
    pack!(
        "std/pii",
        "contact",
        "finance",
        "identity-americas",
        "identity-asia-africa",
        "identity-europe",
        "network"
    ),
    pack!(
        "std/secrets",
        "ai",
        "chat",
        "ci",
        "cloud",
        "databases",
        "generic",
        "monitoring",
        "payment",
        "registries",
        "saas",
        "source-control"
    ),
    pack!(
        "std/shell-safety",
        "files",
        "cloud",
        "code",
        "containers",
        "databases",
        "disks",
        "git",
        "infrastructure",
        "network",
        "packages",
        "pipes",
        "secrets",
        "system",
        "windows"
    ),
    pack!("std/test-integrity", "pack"),
];

/// Returns the pack of that name.
pub(super) fn find(name: &str) -> Option<&'static BuiltinPack> {
    PACKS.iter().find(|pack| pack.name == name)
}
