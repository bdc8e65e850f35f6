//! The tables of programs, one family a file. Each names its source.
//!
//! Options are separated by blanks. A suffix gives the kind of an option: `=` has a value, `?` has a value only if it is
//! attached, `$` has a script as its value, `@` has code as its value, `!` is followed by a command up to `;` or `+`,
//! `&` is followed by a script up to the end, `%` has two values, `#` has a setting as its value, `~` makes the program only print or check. An option without a suffix has
//! no value. Options of a program precede its subcommands or are common to all of them.

mod cloud;
mod containers;
mod files;
pub(super) mod functions;
mod git;
mod network;
mod packages;
mod projects;
mod shells;
mod system;
pub(super) mod variables;
mod windows;
mod wrappers;

use super::program::ProgramSpec;

/// All tables.
pub(super) const FAMILIES: &[&[ProgramSpec]] = &[
    wrappers::PROGRAMS,
    shells::PROGRAMS,
    files::PROGRAMS,
    git::PROGRAMS,
    network::PROGRAMS,
    containers::PROGRAMS,
    packages::PROGRAMS,
    projects::PROGRAMS,
    cloud::PROGRAMS,
    system::PROGRAMS,
    windows::PROGRAMS,
];
