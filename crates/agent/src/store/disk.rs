//! The interface between a [`Store`](super::Store) and the disk, and its implementation with the file system.
//!
//! Every operation that the disk can fail is in this interface, so that tests can inject failures.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::path::Path;

/// A disk with files.
///
/// # Example: a disk that is full after two writes
/// ```
/// use std::{io, path::Path};
/// use ttsr::harness::Message;
/// use ttsr_agent::store::{Disk, DiskFile, Entry, StoreOptions, RealDisk, Store, StoreErrorKind};
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
/// let options = StoreOptions { disk: Box::new(Small), ..StoreOptions::default() };
/// let (mut store, _) = Store::open_with(&path, options)?; // writes the header
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
    /// Opens a file for reading from the start and appending, and locks it against other users of this trait. Creates
    /// it if it does not exist.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if it is locked, [`InvalidInput`](io::ErrorKind::InvalidInput) if it
    /// is not a regular file (a link, a folder, a pipe), and other errors of the disk.
    fn open(&mut self, path: &Path) -> io::Result<Box<dyn DiskFile>>;

    /// Renames a file, and replaces a file of the new name.
    ///
    /// # Errors
    /// Errors of the disk.
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// Errors of the disk; [`NotFound`](io::ErrorKind::NotFound) if the file does not exist.
    fn remove(&mut self, path: &Path) -> io::Result<()>;

    /// Syncs the folder of that file: returns when its file names would survive a loss of power.
    ///
    /// # Errors
    /// Errors of the disk.
    fn sync_folder(&mut self, of: &Path) -> io::Result<()>;
}

/// An open and locked file; dropping it unlocks it.
///
/// # Example: append, cut, read
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
/// assert_eq!(file.read(&mut read)?, 0, "the end of the file");
/// # std::fs::remove_file(path)?;
/// # Ok::<(), std::io::Error>(())
/// ```
pub trait DiskFile: Send {
    /// Reads from the current position and returns the number of bytes; 0 at the end.
    ///
    /// # Errors
    /// Errors of the disk.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;

    /// Sets the read position to the start.
    ///
    /// # Errors
    /// Errors of the disk.
    fn rewind(&mut self) -> io::Result<()>;

    /// Appends bytes at the end, independent of the read position, and returns the number of bytes written. The caller writes
    /// the rest.
    ///
    /// # Errors
    /// Errors of the disk. Some of the bytes may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize>;

    /// Truncates the file to that length, in bytes.
    ///
    /// # Errors
    /// Errors of the disk.
    fn cut(&mut self, length: u64) -> io::Result<()>;

    /// Syncs the file: returns when its contents would survive a loss of power.
    ///
    /// # Errors
    /// Errors of the disk. It is then unknown which contents survive.
    fn sync(&mut self) -> io::Result<()>;
}

/// The file system of this machine.
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
            // Checked before the file is opened, because opening a pipe may block.
            match fs::symlink_metadata(path) {
                Ok(found) if !found.is_file() => return Err(not_plain()),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Ok(_) | Err(_) => {}
            }
            let mut options = OpenOptions::new();
            options.read(true).append(true).create(true);
            restrict_to_owner(&mut options);
            let file = options.open(path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(io::ErrorKind::WouldBlock.into()),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            let file = LockedFile(file);
            // The previous owner of the lock may have replaced the file.
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

    /// Does nothing: folders cannot be synced on this system, and its file systems keep names in order.
    #[cfg(not(unix))]
    fn sync_folder(&mut self, _of: &Path) -> io::Result<()> {
        Ok(())
    }
}

struct LockedFile(File);

/// Unlocks explicitly, because closing is not enough: a child process between fork and exec may hold a copy of the
/// descriptor, and with it the lock.
impl Drop for LockedFile {
    fn drop(&mut self) {
        self.0.unlock().ok();
    }
}

impl DiskFile for LockedFile {
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

/// Makes new files readable by their owner only.
#[cfg(unix)]
fn restrict_to_owner(options: &mut OpenOptions) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(0o600);
}

#[cfg(not(unix))]
fn restrict_to_owner(_options: &mut OpenOptions) {}

/// Returns true if both are the same file; false for a link to it.
#[cfg(unix)]
fn is_same(a: &fs::Metadata, b: &fs::Metadata) -> bool {
    use std::os::unix::fs::MetadataExt;
    (a.dev(), a.ino()) == (b.dev(), b.ino())
}

#[cfg(not(unix))]
fn is_same(a: &fs::Metadata, _b: &fs::Metadata) -> bool {
    a.is_file()
}
