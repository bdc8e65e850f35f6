//! Loads the packs that `--pack` names.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use ttsr::{Diagnostic, LoadError, Pack, PackBuilder, Rule};

use crate::CommandError;
use crate::args::{PackArgs, WorkspaceArgs};
use crate::output::{Escaped, print_message};
use crate::totals::Quantity;

/// Built-in packs that are loaded only by name, because their matches are legitimate in most replies.
pub(crate) const OFF_BY_DEFAULT: [&str; 1] = ["std/pii"];

/// The packs of [`OFF_BY_DEFAULT`], and those about agents and tools of OpenCode, for commands that do not have these.
pub(crate) const NOT_HERE: [&str; 4] = [
    "opencode/delegate-task-retry",
    "opencode/phase-reminder",
    "opencode/post-read-nudge",
    OFF_BY_DEFAULT[0],
];

/// Loads the packs of `args`. If the user names no pack, these are the built-in packs but those in `left_out`. Warnings are
/// only counted, because they concern the author.
pub(crate) fn load(args: &PackArgs, left_out: &[&str]) -> Result<Pack, CommandError> {
    load_with(args, Pack::builder(), left_out)
}

/// Like [`load`], for tool calls in a workspace.
pub(crate) fn load_in(args: &WorkspaceArgs, left_out: &[&str]) -> Result<Pack, CommandError> {
    let root = args.root.folder(None)?;
    load_with(&args.packs, Pack::builder().root(root), left_out)
}

/// Like [`load_in`], for tool calls that run on this machine: a path below the home directory of the process is also
/// compared with `~` in its place. `usual` is the default workspace.
pub(crate) fn load_here(
    args: &WorkspaceArgs,
    usual: Option<&Path>,
    left_out: &[&str],
) -> Result<Pack, CommandError> {
    load_with(&args.packs, builder_here(args, usual)?, left_out)
}

/// Like [`load_here`] in the default workspace. Adds the paths on which the result depends to `paths`, also if it is an
/// error; those that `args` names are not among them if they are compiled packs.
pub(crate) fn load_here_with_paths(
    args: &WorkspaceArgs,
    left_out: &[&str],
    paths: &mut Vec<PathBuf>,
) -> Result<Pack, CommandError> {
    let builder = with_packs(&args.packs, builder_here(args, None)?, left_out)?;
    let (pack, read) = builder.build_with_paths();
    paths.extend(read);
    loaded(pack)
}

fn builder_here(args: &WorkspaceArgs, usual: Option<&Path>) -> Result<PackBuilder, CommandError> {
    let builder = Pack::builder().root(args.root.folder(usual)?);
    Ok(match std::env::home_dir() {
        Some(home) => builder.home(home),
        None => builder,
    })
}

fn load_with(
    args: &PackArgs,
    builder: PackBuilder,
    left_out: &[&str],
) -> Result<Pack, CommandError> {
    loaded(with_packs(args, builder, left_out)?.build())
}

/// Returns the builder with the packs and the date of `args`.
fn with_packs(
    args: &PackArgs,
    builder: PackBuilder,
    left_out: &[&str],
) -> Result<PackBuilder, CommandError> {
    let builtins: Vec<&str> = Pack::builtin_names().collect();
    let builder = if args.packs.is_empty() {
        let taken = builtins.iter().filter(|name| !left_out.contains(name));
        taken.fold(builder, |builder, name| builder.builtin(*name))
    } else {
        // A pack that is named twice is loaded once.
        let names: BTreeSet<&str> = args.packs.iter().map(String::as_str).collect();
        names
            .iter()
            .fold(builder, |builder, name| match builtins.contains(name) {
                true => builder.builtin(*name),
                false => add_path(builder, name),
            })
    };
    if let Some(hint) = args.packs.iter().find_map(|name| mistyped(name)) {
        return Err(CommandError::Message(hint));
    }
    Ok(args.today.apply(builder))
}

/// Returns a pack whose load has ended, and prints the number of its warnings.
fn loaded(pack: Result<Pack, LoadError>) -> Result<Pack, CommandError> {
    let pack = pack.map_err(|error| CommandError::Message(reasons(&error)))?;
    let warnings = pack.warnings().len() as u64;
    if warnings > 0 {
        let warnings = Quantity(warnings, "warning");
        print_message(&format_args!(
            "{warnings} in the rule files: `ttsr check` shows them"
        ));
    }
    Ok(pack)
}

/// Adds a rule file, a folder of them, or a compiled pack.
fn add_path(builder: PackBuilder, name: &str) -> PackBuilder {
    match compiled(Path::new(name)) {
        Some(bytes) => builder.compiled(name, &bytes),
        // The loader reports files that cannot be read.
        None => builder.file(name),
    }
}

/// Returns the content of a file that begins like a compiled pack.
fn compiled(path: &Path) -> Option<Vec<u8>> {
    const BEGIN: u64 = 16;
    // A pipe would wait for its writer.
    if !fs::metadata(path).ok()?.is_file() {
        return None;
    }
    let mut file = File::open(path).ok()?;
    let mut bytes = Vec::new();
    file.by_ref().take(BEGIN).read_to_end(&mut bytes).ok()?;
    if !Pack::is_compiled(&bytes) {
        return None;
    }
    file.read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns a hint if the name is not a file and resembles the name of a built-in pack.
fn mistyped(name: &str) -> Option<String> {
    if Path::new(name).exists() {
        return None;
    }
    let unknown = Pack::builtin(name).err()?;
    let near = unknown.diagnostics().first()?.help()?;
    let near = near.strip_prefix("did you mean ")?;
    Some(format!(
        "`{}` is neither a file nor a built-in pack; did you mean {near}",
        Escaped(name)
    ))
}

fn reasons(error: &LoadError) -> String {
    let problems = error.diagnostics().iter();
    let problems: Vec<String> = problems.map(Diagnostic::render).collect();
    format!(
        "the pack cannot be loaded\n{}",
        problems.join("\n").trim_end()
    )
}

/// Builds a pack of rules that have been loaded before.
pub(crate) fn build(rules: impl Iterator<Item = Rule>) -> Result<Pack, CommandError> {
    build_in(None, rules)
}

/// Like [`build`], in the workspace `root`.
pub(crate) fn build_in(
    root: Option<&str>,
    rules: impl Iterator<Item = Rule>,
) -> Result<Pack, CommandError> {
    let builder = root.into_iter().fold(Pack::builder(), PackBuilder::root);
    let builder = rules.fold(builder, PackBuilder::rule);
    builder
        .build()
        .map_err(|error| CommandError::Message(reasons(&error)))
}
