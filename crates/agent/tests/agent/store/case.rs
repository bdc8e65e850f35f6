//! Single cases: refused files, torn and damaged lines, and the items of a reader.

use ttsr::harness::Message;
use ttsr_agent::store::{
    Durability, Entry, Store, StoreError, StoreErrorKind, StoreOptions, StoreReader, StoredItem,
};

use super::StoreFile as _;
use super::{bytes, said, texts};
use ttsr_testing::Folder;
#[cfg(unix)]
use ttsr_testing::skip;

/// Creates a file with these messages, one record each.
fn talk(folder: &Folder, messages: &[&str]) {
    let (mut store, _) = Store::open(folder.file()).unwrap();
    for text in messages {
        store.append(vec![said(*text)]).unwrap();
    }
    store.close().unwrap();
}

fn refused(folder: &Folder) -> StoreErrorKind {
    Store::open(folder.file()).unwrap_err().kind()
}

fn pieces(bytes: &[u8]) -> Result<Vec<StoredItem>, StoreError> {
    StoreReader::new(bytes)?.collect()
}

#[test]
fn a_second_opener_is_refused_and_the_first_goes_on() {
    let folder = Folder::new();
    let (mut store, _) = Store::open(folder.file()).unwrap();
    assert_eq!(refused(&folder), StoreErrorKind::Locked);
    store.append(vec![said("one")]).unwrap();
    store.compact().unwrap();
    assert_eq!(
        refused(&folder),
        StoreErrorKind::Locked,
        "the new file is locked too"
    );
    drop(store);
    assert_eq!(texts(&Store::open(folder.file()).unwrap().1), ["one"]);
}

#[test]
fn a_file_that_someone_else_shortens_is_not_compacted() {
    let folder = Folder::new();
    let (mut store, _) = Store::open(folder.file()).unwrap();
    store.append(vec![said("one")]).unwrap();
    assert_eq!((store.path(), store.next_seq()), (&*folder.file(), 2));
    assert!(format!("{store:?}").starts_with("Store { path: "));
    let file = std::fs::OpenOptions::new().write(true).open(folder.file());
    let file = file.unwrap();
    let written = file.metadata().unwrap().len();
    file.set_len(written - 1).unwrap();
    let error = store.compact().unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Disk);
    let text = error.to_string();
    assert!(
        text.ends_with("the disk failed: the file was changed by someone else"),
        "{text}"
    );
}

#[test]
#[cfg(unix)]
fn links_folders_and_pipes_are_refused() {
    let folder = Folder::new();
    let target = folder.0.join("target");
    std::fs::write(&target, "").unwrap();
    std::os::unix::fs::symlink(&target, folder.file()).unwrap();
    assert_eq!(refused(&folder), StoreErrorKind::NotPlain, "a link");
    assert_eq!(bytes(&target), b"");
    std::fs::remove_file(folder.file()).unwrap();
    std::os::unix::fs::symlink(folder.0.join("nowhere"), folder.file()).unwrap();
    assert_eq!(
        refused(&folder),
        StoreErrorKind::NotPlain,
        "a link to nothing"
    );
    std::fs::remove_file(folder.file()).unwrap();
    std::fs::create_dir(folder.file()).unwrap();
    assert_eq!(refused(&folder), StoreErrorKind::NotPlain, "a folder");
    std::fs::remove_dir(folder.file()).unwrap();
    let made = std::process::Command::new("mkfifo")
        .arg(folder.file())
        .status();
    if made.is_ok_and(|status| status.success()) {
        assert_eq!(refused(&folder), StoreErrorKind::NotPlain, "a pipe");
    } else {
        skip::test("mkfifo is not there, so pipes are not tried");
    }
}

#[test]
#[cfg(unix)]
fn what_was_said_is_nobody_elses_business() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    talk(&folder, &["one"]);
    let mode = std::fs::metadata(folder.file())
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o077, 0);
}

#[test]
fn a_file_of_someone_else_is_refused_and_left_as_it_was() {
    let folder = Folder::new();
    for text in [
        "notes",
        "notes\n",
        "ttsr-session one\n",
        "ttsr-session 1",
        "\n",
        "TTSR",
    ] {
        std::fs::write(folder.file(), text).unwrap();
        let opened = Store::open(folder.file());
        if text == "ttsr-session 1" {
            // The process ended while it created the file.
            assert!(opened.unwrap().1.is_new());
            continue;
        }
        assert_eq!(
            opened.unwrap_err().kind(),
            StoreErrorKind::Foreign,
            "{text:?}"
        );
        assert_eq!(bytes(&folder.file()), text.as_bytes());
    }
    std::fs::write(folder.file(), "ttsr-session 2\nwhatever\n").unwrap();
    let error = Store::open(folder.file()).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Version(2));
    assert!(
        error
            .to_string()
            .ends_with("session file of version 2, only 1 is known")
    );
}

#[test]
fn a_file_that_ends_anywhere_has_its_whole_records() {
    let folder = Folder::new();
    talk(&folder, &["one", "two", "three"]);
    let whole = bytes(&folder.file());
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    for length in 0..=whole.len() {
        std::fs::write(folder.file(), &whole[..length]).unwrap();
        let (mut store, found) = Store::open(folder.file()).unwrap();
        // The first line, the empty line, the records.
        let lines = ends.iter().filter(|end| **end < length).count();
        let records = lines.saturating_sub(2);
        assert_eq!(
            texts(&found),
            ["one", "two", "three"][..records],
            "cut at {length}"
        );
        let after_line = lines > 0 && whole[length - 1] == b'\n';
        assert_eq!(
            found.torn_bytes() == 0,
            after_line || lines == 0,
            "cut at {length}"
        );
        assert_eq!(
            store.append(vec![said("four")]).unwrap(),
            records as u64 + 1
        );
        drop(store);
        let (_store, found) = Store::open(folder.file()).unwrap();
        assert_eq!(texts(&found).len(), records + 1);
        assert_eq!(
            (found.torn_bytes(), found.damaged(), found.missing()),
            (0, 0, 0)
        );
    }
}

#[test]
fn a_changed_byte_anywhere_is_reported_and_never_believed() {
    let folder = Folder::new();
    talk(&folder, &["one", "two", "three"]);
    let whole = bytes(&folder.file());
    let sound = pieces(&whole).unwrap();
    for at in 0..whole.len() {
        for flip in [0x01, 0x20, 0x80, 0xFF, whole[at] ^ b'\n'] {
            if flip == 0 {
                continue;
            }
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let Ok(found) = pieces(&bytes) else {
                assert!(
                    at < "ttsr-session 1\n".len(),
                    "byte {at} is not of the first line"
                );
                continue;
            };
            let records = |pieces: &[StoredItem]| {
                let records = pieces
                    .iter()
                    .filter(|piece| matches!(piece, StoredItem::Record(_)));
                records.cloned().collect::<Vec<_>>()
            };
            let believed = records(&found);
            assert!(
                believed.iter().all(|record| sound.contains(record)),
                "byte {at}"
            );
            let is_blank_line = at == "ttsr-session 1\n".len();
            assert!(
                found.len() > believed.len() || is_blank_line,
                "byte {at} is not reported"
            );
            assert!(
                believed.len() + 2 >= sound.len(),
                "byte {at} costs more than two records"
            );
        }
    }
}

#[test]
fn what_a_damaged_record_said_is_missing_and_the_rest_is_there() {
    let folder = Folder::new();
    talk(&folder, &["one", "two", "three"]);
    let text = String::from_utf8(bytes(&folder.file())).unwrap();
    std::fs::write(folder.file(), text.replace("two", "2wo")).unwrap();
    let (mut store, found) = Store::open(folder.file()).unwrap();
    assert_eq!(texts(&found), ["one", "three"]);
    assert_eq!(
        (found.damaged(), found.missing(), found.records()),
        (1, 1, 2)
    );
    assert_eq!(store.append(vec![said("four")]).unwrap(), 4);
}

#[test]
fn a_record_that_is_there_twice_counts_once() {
    let folder = Folder::new();
    talk(&folder, &["one", "two"]);
    let mut text = String::from_utf8(bytes(&folder.file())).unwrap();
    let last = text.lines().last().unwrap().to_owned();
    text.push_str(&last);
    text.push('\n');
    std::fs::write(folder.file(), text).unwrap();
    let (_store, found) = Store::open(folder.file()).unwrap();
    assert_eq!((texts(&found).len(), found.repeated()), (2, 1));
}

#[test]
fn a_record_of_a_later_version_is_not_dropped_in_silence() {
    let folder = Folder::new();
    talk(&folder, &["one"]);
    let whole = bytes(&folder.file());
    let line = |json: &str| {
        let sum = crc32(json.as_bytes());
        format!("{sum:08x} {json}\n").into_bytes()
    };
    let later = |json: &str| {
        let mut bytes = whole.clone();
        bytes.extend(line(json));
        std::fs::write(folder.file(), &bytes).unwrap();
        bytes
    };
    // An unknown kind of entry is skipped, but not dropped by a compaction.
    let written = later(r#"{"seq":2,"at":0,"entries":[{"kind":"telepathy","thought":"?"}]}"#);
    let (mut store, found) = Store::open(folder.file()).unwrap();
    assert_eq!((found.records(), texts(&found).len()), (2, 1));
    assert_eq!(
        store.compact().unwrap_err().kind(),
        StoreErrorKind::Unrecognized
    );
    drop(store);
    assert_eq!(bytes(&folder.file()), written);
    // A state of the rules that is not understood: resuming with the previous one would be another session.
    let written =
        later(r#"{"seq":2,"at":0,"entries":[{"kind":"snapshot","snapshot":{"version":9}}]}"#);
    assert_eq!(refused(&folder), StoreErrorKind::Unrecognized);
    assert_eq!(bytes(&folder.file()), written);
    // No number can follow this one.
    later(r#"{"seq":18446744073709551615,"at":0,"entries":[]}"#);
    assert_eq!(refused(&folder), StoreErrorKind::Unrecognized);
}

/// A bitwise implementation, so that the format is tested against its description and not against a library.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { 0xEDB8_8320 } else { 0 };
    !bytes
        .iter()
        .fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), step))
}

#[test]
fn one_record_is_one_line_whatever_was_said() {
    let folder = Folder::new();
    let unruly = "a\nb\r\u{1b}[2Jc\u{85}d\u{2028}e\u{202e}f\u{7f}g\u{9b}h\u{feff}i\u{e0041}j";
    talk(&folder, &[unruly]);
    let text = String::from_utf8(bytes(&folder.file())).unwrap();
    assert_eq!(
        text.matches('\n').count(),
        3,
        "the first line, an empty one, the record"
    );
    assert!(
        text.chars().all(|c| c == '\n' || (' '..='~').contains(&c)),
        "{text:?}"
    );
    assert_eq!(texts(&Store::open(folder.file()).unwrap().1), [unruly]);
}

#[test]
fn a_record_that_is_too_large_is_refused_and_the_next_one_is_written() {
    let folder = Folder::new();
    let options = StoreOptions {
        record_bytes: 300,
        durability: Durability::Process,
        ..StoreOptions::default()
    };
    let (mut store, _) = Store::open_with(folder.file(), options).unwrap();
    let error = store.append(vec![said("x".repeat(300))]).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::TooLarge);
    assert_eq!(store.append(vec![said("y")]).unwrap(), 1);
    drop(store);
    assert_eq!(texts(&Store::open(folder.file()).unwrap().1), ["y"]);
}

#[test]
fn a_compacted_file_has_the_conversation_and_nothing_else() {
    let folder = Folder::new();
    let (mut store, _) = Store::open(folder.file()).unwrap();
    let waiting = |text: &str| Entry::Waiting {
        message: Message::steering(text),
    };
    store.append(vec![said("one"), said("two")]).unwrap();
    store
        .append(vec![waiting("said by now"), Entry::Lost { events: 9 }])
        .unwrap();
    store.append(vec![Entry::Sent, said("three")]).unwrap();
    store.append(vec![waiting("not said yet")]).unwrap();
    let before = store.bytes();
    store.compact().unwrap();
    assert!(store.bytes() < before);
    assert_eq!(store.append(vec![said("four")]).unwrap(), 6);
    drop(store);
    let (_store, found) = Store::open(folder.file()).unwrap();
    // Guidance that an earlier version wrote as a message belongs to the conversation.
    assert_eq!(
        texts(&found),
        ["one", "two", "three", "not said yet", "four"]
    );
    assert_eq!((found.missing(), found.damaged()), (0, 0));
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 1);
}

#[test]
fn a_file_of_zeros_or_of_one_endless_line_is_refused_without_being_held_in_memory() {
    let folder = Folder::new();
    std::fs::write(folder.file(), vec![0; 1 << 20]).unwrap();
    assert_eq!(refused(&folder), StoreErrorKind::Foreign);
}
