//! Loads the packs again when their files change.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use ttsr::Pack;
use ttsr_proxy::PackSlot;

use crate::CommandError;
use crate::args::WorkspaceArgs;
use crate::load::{self, NOT_HERE};
use crate::output::print_message;

/// The time without a change after which the packs are loaded: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// Watches the files of packs until it is dropped.
pub(super) struct PackWatch {
    _watcher: RecommendedWatcher,
}

impl PackWatch {
    /// Replaces the pack in `slot` when a file of the packs changes. A pack that cannot be loaded replaces nothing, and is
    /// reported. Returns `None` if no pack is a file.
    pub(super) fn begin(
        packs: &WorkspaceArgs,
        slot: Arc<PackSlot>,
    ) -> Result<Option<PackWatch>, CommandError> {
        let files: Vec<PathBuf> = packs
            .packs
            .packs
            .iter()
            .filter(|name| !Pack::builtin_names().any(|builtin| builtin == name.as_str()))
            .filter_map(|name| std::path::absolute(name).ok())
            .collect();
        if files.is_empty() {
            return Ok(None);
        }
        let because =
            |error: notify::Error| CommandError::Message(format!("cannot watch packs: {error}"));
        let (changed, changes) = channel();
        let mut watcher = watcher_of(files.clone(), changed).map_err(because)?;
        for file in &files {
            // A file is replaced by renaming another one, so its folder is watched.
            let (folder, mode) = match file.is_dir() {
                true => (file.as_path(), RecursiveMode::Recursive),
                false => (
                    file.parent().unwrap_or(file.as_path()),
                    RecursiveMode::NonRecursive,
                ),
            };
            watcher.watch(folder, mode).map_err(because)?;
        }
        let packs = packs.clone();
        std::thread::spawn(move || reload(&packs, &slot, &changes));
        Ok(Some(PackWatch { _watcher: watcher }))
    }
}

/// Returns a watcher that reports changes of the files and of what is below them.
fn watcher_of(files: Vec<PathBuf>, changed: Sender<()>) -> notify::Result<RecommendedWatcher> {
    let is_of_pack = move |path: &Path| files.iter().any(|file| path.starts_with(file));
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let concerns = event.as_ref().map_or(true, |event| {
            !event.kind.is_access() && event.paths.iter().any(|path| is_of_pack(path))
        });
        if concerns {
            // Nobody listens once the proxy ends.
            changed.send(()).ok();
        }
    })
}

/// Loads the packs after each change, until the watcher is dropped.
fn reload(packs: &WorkspaceArgs, slot: &PackSlot, changes: &Receiver<()>) {
    while changes.recv().is_ok() {
        loop {
            match changes.recv_timeout(QUIET) {
                Ok(()) => {}
                Err(RecvTimeoutError::Timeout) => break,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
        match load::load_here(packs, None, &NOT_HERE).inspect(Pack::prepare) {
            Ok(pack) => match slot.replace(pack) {
                Ok(()) => {
                    print_message(&"packs loaded again; requests that begin are judged with them");
                }
                Err(error) => {
                    print_message(&format_args!("{error}\nthe packs from before stay in use"));
                }
            },
            Err(CommandError::Message(message)) => {
                print_message(&format_args!(
                    "{message}\nthe packs from before stay in use"
                ));
            }
            Err(CommandError::ReaderGone) => {}
        }
    }
}
