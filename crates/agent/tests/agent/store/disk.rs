//! A disk with injected failures, which loses unsynced data in a simulated loss of power.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use ttsr_agent::store::{Disk, DiskFile};

use ttsr_testing::Random;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Half of the bytes are written, without an error.
    Short,
    Interrupted,
    Busy,
    /// The disk is full after half of the bytes.
    Full,
    /// The device fails after half of the bytes.
    Device,
    ReadOnly,
    Quota,
}

pub(crate) const FAULTS: [Fault; 7] = [
    Fault::Short,
    Fault::Interrupted,
    Fault::Busy,
    Fault::Full,
    Fault::Device,
    Fault::ReadOnly,
    Fault::Quota,
];

impl Fault {
    fn error(self) -> io::Error {
        match self {
            Fault::Short => io::ErrorKind::WriteZero.into(),
            Fault::Interrupted => io::ErrorKind::Interrupted.into(),
            // Not `WouldBlock`, which for an open means that the file is locked.
            Fault::Busy => io::ErrorKind::ResourceBusy.into(),
            Fault::Full => io::ErrorKind::StorageFull.into(),
            Fault::Device => io::Error::other("input/output error"),
            Fault::ReadOnly => io::ErrorKind::ReadOnlyFilesystem.into(),
            Fault::Quota => io::ErrorKind::QuotaExceeded.into(),
        }
    }
}

/// The calls that fail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Plan {
    #[default]
    Never,
    /// The call of that number, from 1.
    Once(u64, Fault),
    /// That call and all that follow, until the plan changes.
    From(u64, Fault),
}

#[derive(Debug, Default)]
struct Content {
    bytes: Vec<u8>,
    durable: Vec<u8>,
    /// The ranges that a failed sync lost for good: a later sync does not write them.
    given_up: Vec<std::ops::Range<usize>>,
    is_locked: bool,
}

type Shared = Arc<Mutex<Content>>;

#[derive(Debug, Default)]
struct World {
    names: BTreeMap<PathBuf, Shared>,
    durable_names: BTreeMap<PathBuf, Shared>,
    plan: Plan,
    calls: u64,
    injected: u64,
}

/// Clones are the same disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct FaultyDisk(Arc<Mutex<World>>);

impl FaultyDisk {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(crate) fn plan(&self, plan: Plan) {
        self.world().plan = plan;
    }

    /// Returns the number of calls so far.
    pub(crate) fn calls(&self) -> u64 {
        self.world().calls
    }

    /// Returns the number of injected faults so far.
    pub(crate) fn injected(&self) -> u64 {
        self.world().injected
    }

    pub(crate) fn put(&self, path: &Path, bytes: &[u8]) {
        let content = Content {
            bytes: bytes.to_vec(),
            durable: bytes.to_vec(),
            ..Content::default()
        };
        let content = Arc::new(Mutex::new(content));
        let mut world = self.world();
        world.names.insert(path.to_owned(), content.clone());
        world.durable_names.insert(path.to_owned(), content);
    }

    pub(crate) fn bytes(&self, path: &Path) -> Vec<u8> {
        let world = self.world();
        let found = world.names.get(path);
        found.map_or_else(Vec::new, |content| content.lock().unwrap().bytes.clone())
    }

    /// Simulates a loss of power: unsynced names and bytes may be present or not, in part or as zeros.
    pub(crate) fn crash(&self, random: &mut Random) {
        let mut world = self.world();
        if random.below(2) == 0 {
            world.names = world.durable_names.clone();
        } else {
            world.durable_names = world.names.clone();
        }
        for content in world.names.values() {
            content.lock().unwrap().crash(random);
        }
        world.plan = Plan::Never;
    }

    /// Counts a call; returns its fault, if it fails.
    fn call(&self) -> Option<Fault> {
        let mut world = self.world();
        world.calls += 1;
        let calls = world.calls;
        let fault = match world.plan {
            Plan::Once(at, fault) if at == calls => Some(fault),
            Plan::From(at, fault) if at <= calls => Some(fault),
            _ => None,
        };
        world.injected += u64::from(fault.is_some());
        fault
    }

    fn done(&self) -> io::Result<()> {
        self.call().map_or(Ok(()), |fault| Err(fault.error()))
    }
}

impl Content {
    fn crash(&mut self, random: &mut Random) {
        self.is_locked = false;
        let synced = self.durable.len().min(self.bytes.len());
        if self.bytes[..synced] != self.durable[..synced] || random.below(4) == 0 {
            self.bytes = self.durable.clone();
        } else if self.bytes.len() > synced {
            let stays = synced + random.below(self.bytes.len() - synced + 1);
            let length = self.bytes.len();
            self.bytes.truncate(stays);
            if random.below(3) == 0 {
                // The length reached the disk, the bytes did not.
                self.bytes.resize(length, 0);
            }
        }
        self.durable = self.bytes.clone();
        self.given_up.clear();
    }

    fn sync(&mut self) {
        self.durable = self.bytes.clone();
        for range in &self.given_up {
            self.durable[range.clone()].fill(0);
        }
    }

    fn give_up(&mut self) {
        let synced = self.durable.len().min(self.bytes.len());
        self.given_up.push(synced..self.bytes.len());
    }

    fn cut(&mut self, length: usize) {
        self.bytes.truncate(length);
        for range in &mut self.given_up {
            range.end = range.end.min(length);
            range.start = range.start.min(range.end);
        }
    }
}

impl Disk for FaultyDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.done()?;
        let mut world = self.world();
        let content = world.names.entry(path.to_owned()).or_default().clone();
        if std::mem::replace(&mut content.lock().unwrap().is_locked, true) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        Ok(Box::new(OpenFile {
            disk: self.clone(),
            content,
            read: 0,
        }))
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.done()?;
        let mut world = self.world();
        let content = world.names.remove(from).ok_or(io::ErrorKind::NotFound)?;
        world.names.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.done()?;
        let removed = self.world().names.remove(path);
        removed.map(drop).ok_or(io::ErrorKind::NotFound.into())
    }

    fn sync_folder(&mut self, _of: &Path) -> io::Result<()> {
        self.done()?;
        let mut world = self.world();
        world.durable_names = world.names.clone();
        Ok(())
    }
}

struct OpenFile {
    disk: FaultyDisk,
    content: Shared,
    read: usize,
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        self.content.lock().unwrap().is_locked = false;
    }
}

impl DiskFile for OpenFile {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = match self.disk.call() {
            Some(Fault::Short) => 1,
            Some(fault) => return Err(fault.error()),
            None => into.len(),
        };
        let content = self.content.lock().unwrap();
        let rest = &content.bytes[self.read.min(content.bytes.len())..];
        let read = rest.len().min(most);
        into[..read].copy_from_slice(&rest[..read]);
        self.read += read;
        Ok(read)
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.disk.done()?;
        self.read = 0;
        Ok(())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fault = self.disk.call();
        let taken = match fault {
            None => bytes.len(),
            Some(Fault::Interrupted | Fault::Busy | Fault::ReadOnly) => 0,
            Some(_) => bytes.len().div_ceil(2),
        };
        let mut content = self.content.lock().unwrap();
        content.bytes.extend_from_slice(&bytes[..taken]);
        match fault {
            None | Some(Fault::Short) => Ok(taken),
            Some(fault) => Err(fault.error()),
        }
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.disk.done()?;
        self.content.lock().unwrap().cut(length as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let fault = self.disk.call();
        let mut content = self.content.lock().unwrap();
        match fault {
            None => content.sync(),
            Some(_) => content.give_up(),
        }
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }
}
