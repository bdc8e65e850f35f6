//! After any damage to a session's file, every intact record is found, no other record is accepted, and the pieces do
//! not depend on how the file is read.

use std::io::{self, Read};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

use ttsr::harness::Message;
use ttsr_agent::store::{
    Disk, DiskFile, Entry, Record, Store, StoreOptions, StoreReader, StoredItem,
};

/// One file, in memory.
#[derive(Clone, Debug, Default)]
struct Memory(Arc<Mutex<Vec<u8>>>, usize);

impl Disk for Memory {
    fn open(&mut self, _: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(self.clone()))
    }
    fn rename(&mut self, _: &Path, _: &Path) -> io::Result<()> {
        Ok(())
    }
    fn remove(&mut self, _: &Path) -> io::Result<()> {
        Err(io::ErrorKind::NotFound.into())
    }
    fn sync_folder(&mut self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl Memory {
    fn bytes(&self) -> std::sync::MutexGuard<'_, Vec<u8>> {
        self.0.lock().expect("nobody panics with it")
    }
}

impl DiskFile for Memory {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let bytes = self.0.lock().expect("nobody panics with it");
        let read = (&bytes[self.1..]).read(into)?;
        self.1 += read;
        Ok(read)
    }
    fn rewind(&mut self) -> io::Result<()> {
        self.1 = 0;
        Ok(())
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes().extend_from_slice(bytes);
        Ok(bytes.len())
    }
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.bytes().truncate(length as usize);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        Ok(())
    }
}

type Lines = Vec<(Vec<u8>, Record)>;

/// A file as a store writes it, and its records by line.
static WRITTEN: LazyLock<(Vec<u8>, Lines)> = LazyLock::new(|| {
    let disk = Memory::default();
    let options = StoreOptions {
        clock: || 1,
        disk: Box::new(disk.clone()),
        ..StoreOptions::default()
    };
    let (mut store, _) = Store::open_with("memory", options).expect("an empty disk takes a file");
    let begin = Entry::Begin {
        version: "1".to_owned(),
    };
    let message = |text: &str| Entry::Message {
        message: Message::user(text),
    };
    for entries in [
        vec![begin, message("one")],
        vec![message("two\nlines"), Entry::Sent],
        vec![Entry::Lost { events: 3 }],
        vec![],
        vec![message("é😀")],
    ] {
        store.append(entries).expect("memory does not fail");
    }
    drop(store);
    let bytes = disk.bytes().clone();
    let records = StoreReader::new(&*bytes).expect("it is such a file");
    let records = records.map(|piece| match piece {
        Ok(StoredItem::Record(record)) => record,
        other => panic!("{other:?} in a file that was just written"),
    });
    let lines = bytes.split(|&byte| byte == b'\n').skip(1);
    let lines = lines.filter(|line| !line.is_empty()).map(<[u8]>::to_vec);
    let records: Vec<(Vec<u8>, Record)> = lines.zip(records).collect();
    assert_eq!(records.len(), 5);
    (bytes, records)
});

/// Returns a few bytes at a time.
struct Slow<'a>(&'a [u8], usize);

impl Read for Slow<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let most = into.len().min(self.1);
        self.0.read(&mut into[..most])
    }
}

fn pieces(from: impl Read) -> Option<Vec<StoredItem>> {
    let reader = StoreReader::new(from).ok()?;
    Some(
        reader
            .map(|piece| piece.expect("memory does not fail"))
            .collect(),
    )
}

// Layout of the input: a byte for its kind, then the whole file; or changes of the written one, each of a byte for
// its kind, two for its place, one for its length, and its bytes.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    let (written, records) = &*WRITTEN;
    let file = match kind % 2 {
        0 => rest.to_vec(),
        _ => changed(written, rest),
    };
    let found = pieces(&*file);
    assert_eq!(pieces(Slow(&file, 1)), found, "byte by byte");
    assert_eq!(
        pieces(Slow(&file, usize::from(*kind) + 2)),
        found,
        "in pieces"
    );
    let Some(found) = found else { return };
    let mut lines = file
        .split(|&byte| byte == b'\n')
        .skip(1)
        .collect::<Vec<_>>();
    // Bytes after the last line end are an incomplete line.
    lines.pop();
    for (line, record) in records {
        let there = lines
            .iter()
            .filter(|found| **found == line.as_slice())
            .count();
        let pieces = found.iter().filter(|piece| match piece {
            StoredItem::Record(found) => found == record,
            StoredItem::Repeated { seq } => *seq == record.seq,
            _ => false,
        });
        assert!(pieces.count() >= there, "record {} is lost", record.seq);
    }
    let believed = found.iter().filter_map(|piece| match piece {
        StoredItem::Record(record) => Some(record.seq),
        _ => None,
    });
    assert!(believed.is_sorted_by(|a, b| a < b), "numbers rise");
}

fn changed(written: &[u8], mut changes: &[u8]) -> Vec<u8> {
    let mut file = written.to_vec();
    while let [kind, high, low, len, rest @ ..] = changes {
        let at = usize::from(*high) << 8 | usize::from(*low);
        let from = at % (file.len() + 1);
        let len = usize::from(*len);
        let to = (from + len).min(file.len());
        let bytes = &rest[..len.min(rest.len())];
        changes = &rest[bytes.len()..];
        match kind % 5 {
            0 => drop(file.splice(from..to, bytes.iter().copied())),
            1 => drop(file.splice(from..from, bytes.iter().copied())),
            2 => drop(file.drain(from..to)),
            3 => file.truncate(from),
            // Duplicates a line or a range of the file.
            _ => {
                let copied = file[from..to].to_vec();
                file.extend_from_slice(&copied);
            }
        }
    }
    file
}
