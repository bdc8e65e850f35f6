//! Loads the packs again when their files change.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use notify::{RecommendedWatcher, RecursiveMode, Watcher as _};
use ttsr::Pack;
use ttsr_proxy::PackSlot;

use crate::CommandError;
use crate::args::WorkspaceArgs;
use crate::load::{self, NOT_HERE};
use crate::output::print_message;

/// The time without a change after which the packs are loaded: editors write a file in several steps.
const QUIET: Duration = Duration::from_millis(200);

/// The most loads in a row because a load named paths that were not watched. Each may name a pack of another folder.
const LOADS: usize = 8;

/// True if the watch of a folder does not report writes to its files: kqueue reports only that entries come and go.
const WATCHES_FILES: bool = cfg!(not(any(target_os = "linux", windows)));

/// A message to the thread that loads the packs.
enum PackMessage {
    /// These paths changed.
    Changed(Vec<PathBuf>),
    /// Changes may have been lost.
    Lost,
    /// The proxy ends.
    Stop,
}

/// The packs of a proxy, some of which are files, and a watcher of the paths on which they depend.
pub(super) struct WatchedPacks {
    packs: WorkspaceArgs,
    /// The paths that `packs` names.
    named: Vec<PathBuf>,
    /// The absolute paths on which the last load depends.
    paths: Vec<PathBuf>,
    /// The symbolic links through which these paths lead: one that is replaced leads to other packs.
    links: BTreeSet<PathBuf>,
    watcher: RecommendedWatcher,
    watched: BTreeMap<PathBuf, RecursiveMode>,
    sender: Sender<PackMessage>,
    messages: Receiver<PackMessage>,
}

/// Ends the thread that loads the packs when it is dropped.
pub(super) struct ReloadThread(Sender<PackMessage>);

impl Drop for ReloadThread {
    fn drop(&mut self) {
        // The thread has ended if nobody listens.
        self.0.send(PackMessage::Stop).ok();
    }
}

impl WatchedPacks {
    /// Watches the files that `packs` names, so that no change after the first load is missed. Returns `None` if no pack is
    /// a file.
    pub(super) fn new(packs: &WorkspaceArgs) -> Result<Option<WatchedPacks>, CommandError> {
        let is_file =
            |name: &&String| !Pack::builtin_names().any(|builtin| builtin == name.as_str());
        let files = packs.packs.packs.iter().filter(is_file);
        let named: Vec<PathBuf> = files
            .filter_map(|name| std::path::absolute(name).ok())
            .collect();
        if named.is_empty() {
            return Ok(None);
        }
        let (sender, messages) = channel();
        let watcher = watcher_of(sender.clone()).map_err(|error| unwatched(&error))?;
        let mut watched = WatchedPacks {
            packs: packs.clone(),
            links: links_of(&named),
            paths: named.clone(),
            named,
            watcher,
            watched: BTreeMap::new(),
            sender,
            messages,
        };
        watched.watch()?;
        Ok(Some(watched))
    }

    /// Loads the packs, and watches the paths on which they depend. If some of these were not watched, they may have changed
    /// after they were read, so the packs are loaded again.
    pub(super) fn load(&mut self) -> Result<Pack, CommandError> {
        let mut loads = 0;
        loop {
            let mut paths = self.named.clone();
            let pack = load::load_here_with_paths(&self.packs, &NOT_HERE, &mut paths);
            let absolute = paths
                .iter()
                .filter_map(|path| std::path::absolute(path).ok());
            self.paths = absolute.collect();
            self.links = links_of(&self.paths);
            loads += 1;
            if !self.watch()? || loads == LOADS {
                return pack;
            }
        }
    }

    /// Replaces the pack in `slot` after each change, in a thread. Packs that cannot be loaded replace nothing, and are
    /// reported.
    pub(super) fn reload_into(mut self, slot: Arc<PackSlot>) -> ReloadThread {
        let thread = ReloadThread(self.sender.clone());
        std::thread::spawn(move || {
            while self.wait_for_change() {
                self.reload(&slot);
            }
        });
        thread
    }

    fn reload(&mut self, slot: &PackSlot) {
        // A folder that was replaced must be watched again before the load, so that no later change is missed.
        let pack = self.watch().and_then(|_| self.load());
        match pack.inspect(Pack::prepare) {
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

    /// Watches every path on which the packs depend. Returns true if one was not watched before.
    fn watch(&mut self) -> Result<bool, CommandError> {
        let mut wanted = places(&self.paths);
        for place in self.watched.keys().filter(|it| !wanted.contains_key(*it)) {
            // It may have been removed.
            self.watcher.unwatch(place).ok();
        }
        for (place, mode) in &wanted {
            // Also those that are watched: another folder may have the same path since.
            match self.watcher.watch(place, *mode) {
                Err(error) if place.exists() => return Err(unwatched(&error)),
                Ok(()) | Err(_) => {}
            }
        }
        for folder in self.links.iter().filter_map(|link| link.parent()) {
            let mode = RecursiveMode::NonRecursive;
            // A folder above the packs may be one that this user cannot read.
            if !wanted.contains_key(folder) && self.watcher.watch(folder, mode).is_ok() {
                wanted.insert(folder.to_owned(), mode);
            }
        }
        let is_new = |(place, mode)| self.watched.get(place) != Some(mode);
        let has_new = wanted.iter().any(is_new);
        self.watched = wanted;
        Ok(has_new)
    }

    /// Waits until the packs have changed, and until they have not for a while. Returns false if the proxy ends.
    fn wait_for_change(&self) -> bool {
        let mut quiet_at = None;
        loop {
            let left = quiet_at.map(|at: Instant| at.saturating_duration_since(Instant::now()));
            let message = match left {
                None => self
                    .messages
                    .recv()
                    .map_err(|_| RecvTimeoutError::Disconnected),
                Some(left) => self.messages.recv_timeout(left),
            };
            let is_change = match message {
                Ok(PackMessage::Changed(paths)) => paths.iter().any(|path| self.depends_on(path)),
                Ok(PackMessage::Lost) => true,
                Err(RecvTimeoutError::Timeout) => return true,
                Ok(PackMessage::Stop) | Err(RecvTimeoutError::Disconnected) => return false,
            };
            if is_change {
                quiet_at = Some(Instant::now() + QUIET);
            }
        }
    }

    /// Returns true if the packs depend on a path, on something below it or on a folder that contains it.
    fn depends_on(&self, changed: &Path) -> bool {
        let mut paths = self.paths.iter();
        let is_below = |path: &PathBuf| changed.starts_with(path) || path.starts_with(changed);
        paths.any(is_below) || self.links.contains(changed)
    }
}

/// Returns the places that are watched for changes of `paths`. A file may be replaced by renaming another one, so its folder
/// is watched. Of a path that does not exist it is the nearest folder that does.
fn places(paths: &[PathBuf]) -> BTreeMap<PathBuf, RecursiveMode> {
    let mut places = BTreeMap::new();
    for path in paths {
        if path.is_dir() {
            places.insert(path.clone(), RecursiveMode::Recursive);
            continue;
        }
        let folder = path.ancestors().skip(1).find(|folder| folder.is_dir());
        let file = (WATCHES_FILES && path.is_file()).then_some(path.as_path());
        for place in folder.into_iter().chain(file) {
            let mode = places.entry(place.to_owned());
            mode.or_insert(RecursiveMode::NonRecursive);
        }
    }
    places
}

/// The most links on the way to a path, as many as Linux follows.
const LINKS: usize = 40;

/// Returns the symbolic links on the way to the paths.
fn links_of(paths: &[PathBuf]) -> BTreeSet<PathBuf> {
    let mut links = BTreeSet::new();
    for path in paths {
        let mut path = path.clone();
        // The first link on the way leads to another path, which may have links as well.
        for _ in 0..LINKS {
            let mut ways: Vec<&Path> = path.ancestors().collect();
            ways.reverse();
            let found = ways
                .iter()
                .find_map(|way| Some((way.to_path_buf(), way.read_link().ok()?)));
            let Some((link, target)) = found else {
                break;
            };
            let rest = path.strip_prefix(&link).unwrap_or(Path::new(""));
            let target = link.parent().unwrap_or(&link).join(target);
            let next = match rest.as_os_str().is_empty() {
                true => target,
                false => target.join(rest),
            };
            links.insert(link);
            path = next;
        }
    }
    links
}

fn watcher_of(sender: Sender<PackMessage>) -> notify::Result<RecommendedWatcher> {
    notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        let message = match event {
            Ok(event) if event.need_rescan() => PackMessage::Lost,
            Ok(event) if event.kind.is_access() => return,
            Ok(event) => PackMessage::Changed(event.paths),
            Err(_) => PackMessage::Lost,
        };
        // Nobody listens once the proxy ends.
        sender.send(message).ok();
    })
}

fn unwatched(error: &notify::Error) -> CommandError {
    CommandError::Message(format!("cannot watch packs: {error}"))
}
