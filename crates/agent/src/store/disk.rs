//! The seam to the disk: what a [`Store`](super::Store) asks of it, and the real one.
//!
//! Everything that can fail for reasons of the disk goes through here, so that tests can fail it.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A disk with files on it.
///
/// # Example: a disk that is full after two writes
/// ```
/// use std::{io, path::Path};
/// use ttsr::harness::Message;
/// use ttsr_agent::store::{Disk, DiskFile, Entry, Options, RealDisk, Store, StoreErrorKind};
/// #[derive(Debug)]
/// struct Small;
/// impl Disk for Small {
///     fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
///         Ok(Box::new(Filling { file: RealDisk.open(path)?, left: 2 }))
///     }
///     fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
///         RealDisk.rename(from, to)
///     }
///     fn remove(&mut self, path: &Path) -> io::Result<()> {
///         RealDisk.remove(path)
///     }
///     fn sync_folder(&mut self, of: &Path) -> io::Result<()> {
///         RealDisk.sync_folder(of)
///     }
/// }
/// struct Filling {
///     file: Box<dyn DiskFile>,
///     left: u32,
/// }
/// impl DiskFile for Filling {
///     fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
///         self.file.read(into)
///     }
///     fn rewind(&mut self) -> io::Result<()> {
///         self.file.rewind()
///     }
///     fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
///         self.left = self.left.checked_sub(1).ok_or(io::ErrorKind::StorageFull)?;
///         self.file.append(bytes)
///     }
///     fn cut(&mut self, length: u64) -> io::Result<()> {
///         self.file.cut(length)
///     }
///     fn sync(&mut self) -> io::Result<()> {
///         self.file.sync()
///     }
/// }
/// let path = std::env::temp_dir().join(format!("ttsr-small-{}.ttsr", std::process::id()));
/// # std::fs::remove_file(&path).ok();
/// let options = Options { disk: Box::new(Small), ..Options::default() };
/// let (mut store, _) = Store::open_with(&path, options)?; // writes the head of the file
/// let says = |text: &str| vec![Entry::Message { message: Message::user(text) }];
/// store.append(says("Hi."))?;
/// assert_eq!(store.append(says("And?")).unwrap_err().kind(), StoreErrorKind::Full);
/// drop(store);
/// let (_store, found) = Store::open(&path)?;
/// assert_eq!(found.messages(), [Message::user("Hi.")]);
/// # std::fs::remove_file(path)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Disk: Send + fmt::Debug {
    /// Opens a file for reading from its beginning and writing at its end, and locks it against everyone
    /// else who opens it here. Makes it if it is not there.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if someone has it open,
    /// [`InvalidInput`](io::ErrorKind::InvalidInput) if it is no plain file (a link, a folder, a pipe), and
    /// whatever else the disk says.
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Gives the file another name, in place of the file that has it.
    ///
    /// # Errors
    /// What the disk says.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// What the disk says; [`NotFound`](io::ErrorKind::NotFound) if it is not there.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Returns when the names in the folder of that file would survive a loss of power.
    ///
    /// # Errors
    /// What the disk says.
    fn sync_folder(&mut self, of: &Path) -> io::Result<()>;
}

/// A file that is open and locked; dropping it unlocks it.
///
/// # Example: written, cut, read
/// ```
/// use ttsr_agent::store::{Disk, RealDisk};
/// let path = std::env::temp_dir().join(format!("ttsr-file-{}", std::process::id()));
/// # std::fs::remove_file(&path).ok();
/// let mut file = RealDisk.open(&path)?;
/// assert_eq!(file.append(b"one\ntwo")?, 7);
/// file.cut(4)?;
/// file.rewind()?;
/// let mut read = [0; 16];
/// assert_eq!(file.read(&mut read)?, 4);
/// assert_eq!(&read[..4], b"one\n");
/// assert_eq!(file.read(&mut read)?, 0, "that was all");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait DiskFile: Send {
    /// Reads on from where the last read ended; says how many bytes. None: the end.
    ///
    /// # Errors
    /// What the disk says.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// The next read begins at the beginning again.
    ///
    /// # Errors
    /// What the disk says.
    fn rewind(&mut self) -> io::Result<()>;

    /// Writes at the end, wherever the last read ended; says how many of the bytes. Whoever calls it goes on
    /// with the rest.
    ///
    /// # Errors
    /// What the disk says. Some of the bytes may be there all the same.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Cuts the file to that length, in bytes.
    ///
    /// # Errors
    /// What the disk says.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Returns when what was written would survive a loss of power.
    ///
    /// # Errors
    /// What the disk says. Nobody knows then what survives.
    fn sync(&mut self) -> io::Result<()>;
}

/// The disk of this machine.
///
/// # Example: a file is open once
/// ```
/// use std::io::ErrorKind;
/// use ttsr_agent::store::{Disk, RealDisk};
/// let path = std::env::temp_dir().join(format!("ttsr-lock-{}", std::process::id()));
/// # std::fs::remove_file(&path).ok();
/// let file = RealDisk.open(&path)?;
/// let locked = RealDisk.open(&path).err().unwrap();
/// assert_eq!(locked.kind(), ErrorKind::WouldBlock);
/// drop(file);
/// assert!(RealDisk.open(&path).is_ok());
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

impl Disk for RealDisk {
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        loop {
            // Before it is opened: opening a pipe may wait for ever.
            match fs::symlink_metadata(path) {
                Ok(found) if !found.is_file() => return Err(not_plain()),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true);
            private(&mut options);
            let file = options.open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let file = Locked(file);
            // Whoever had the lock before may have put another file in its place.
            match fs::symlink_metadata(path) {
                Ok(found) if is_same(&found, &file.0.metadata()?) => return Ok(Box::new(file)),
                Ok(found) if !found.is_file() => return Err(not_plain()),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
        }
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    #[cfg(unix)]
    fn sync_folder(&mut self, of: &Path) -> io::Result<()> {
        let folder = of.parent().filter(|folder| *folder != Path::new(""));
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }

    /// Folders cannot be synced here; the file system keeps its names in order.
    #[cfg(not(unix))]
    fn sync_folder(&mut self, _of: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct Locked(File);

/// Closing it is not enough: a process that is just being started may hold a copy of the handle until it
/// runs, and the lock with it.
impl Drop for Locked {
    fn drop(&mut self) {
        self.0.unlock().ok();
    }
}

impl DiskFile for Locked {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.0.rewind()
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }

    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.0.set_len(length)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.0.sync_data()
    }
}

fn not_plain() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a plain file")
}

/// A conversation is nobody else's business.
#[cfg(unix)]
fn private(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn private(_options: &mut OpenOptions) {}

/// Whether both are the same file; a link to it is not.
#[cfg(unix)]
fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &fs::Metadata, _b: &fs::Metadata) -> bool {
    a.is_file()
}
