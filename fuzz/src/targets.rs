//! One module per target; each begins with the property that it checks.

pub mod accepts;
pub mod array;
#[cfg(feature = "ast")]
pub mod ast;
pub mod code;
pub mod command;
pub mod compiled;
pub mod detect;
pub mod edit;
pub mod fold;
pub mod glob;
pub mod host;
#[cfg(feature = "import")]
pub mod import;
pub mod markdown;
pub mod matching;
pub mod message;
pub mod opencode;
pub mod pack;
pub mod paths;
pub mod processor;
pub mod shell;
pub mod snapshot;
pub mod sse;
pub mod store;
pub mod tool_input;
pub mod wire;

/// The function of a target.
pub type Run = fn(&[u8]);

/// All targets, by the names of their folders in `seeds` and `regressions`.
pub const ALL: &[(&str, Run)] = &[
    ("accepts", accepts::run),
    ("array", array::run),
    #[cfg(feature = "ast")]
    ("ast", ast::run),
    ("code", code::run),
    ("command", command::run),
    ("compiled", compiled::run),
    ("detect", detect::run),
    ("edit", edit::run),
    ("fold", fold::run),
    ("glob", glob::run),
    ("host", host::run),
    #[cfg(feature = "import")]
    ("import", import::run),
    ("markdown", markdown::run),
    ("matching", matching::run),
    ("message", message::run),
    ("opencode", opencode::run),
    ("pack", pack::run),
    ("paths", paths::run),
    ("processor", processor::run),
    ("shell", shell::run),
    ("snapshot", snapshot::run),
    ("sse", sse::run),
    ("store", store::run),
    ("tool_input", tool_input::run),
    ("wire", wire::run),
];
