//! Every call to the disk fails once in every way, and from then on permanently; then the power is lost.

use std::path::{Path, PathBuf};

use ttsr_agent::store::{
    Durability, Entry, ResumeState, Store, StoreError, StoreOptions, StoreReader, StoredItem,
};

use super::disk::{FAULTS, Fault, FaultyDisk, Plan};
use super::{said, texts};
use ttsr_testing::{Random, scale};

/// An action of a host.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// Writes a message of the given number of bytes, with other entries around it.
    Say(usize),
    Compact,
    Reopen,
}

/// Typical runs of hosts.
const RUNS: [&[Act]; 5] = [
    &[
        Act::Say(5),
        Act::Say(40),
        Act::Say(5),
        Act::Say(3000),
        Act::Say(5),
    ],
    &[
        Act::Say(9),
        Act::Reopen,
        Act::Say(9),
        Act::Reopen,
        Act::Say(9),
        Act::Say(9),
    ],
    &[
        Act::Say(9),
        Act::Say(9),
        Act::Compact,
        Act::Say(9),
        Act::Compact,
        Act::Say(9),
    ],
    &[
        Act::Compact,
        Act::Say(9),
        Act::Compact,
        Act::Reopen,
        Act::Say(9),
        Act::Compact,
    ],
    &[
        Act::Say(70_000),
        Act::Reopen,
        Act::Say(1),
        Act::Compact,
        Act::Reopen,
        Act::Say(1),
        Act::Say(1),
        Act::Reopen,
        Act::Compact,
        Act::Say(1),
        Act::Say(1),
    ],
];

fn file() -> PathBuf {
    PathBuf::from("/a/talk.ttsr")
}

fn open(disk: &FaultyDisk) -> Result<(Store, ResumeState), StoreError> {
    let options = StoreOptions {
        disk: Box::new(disk.clone()),
        clock: || 0,
        durability: Durability::Power,
        ..StoreOptions::default()
    };
    Store::open_with(file(), options)
}

/// A host that retries a few times and then continues without the record.
struct Host {
    disk: FaultyDisk,
    store: Option<Store>,
    /// The messages that were reported as written.
    durable: Vec<String>,
    /// The messages that failed since the last success: at most one of them may be in the file, because a disk that
    /// refuses to cut off the first one refuses the following ones too.
    maybe: Vec<String>,
    said: usize,
}

impl Host {
    fn run(disk: &FaultyDisk, acts: &[Act]) -> Host {
        let mut host = Host {
            disk: disk.clone(),
            store: None,
            durable: Vec::new(),
            maybe: Vec::new(),
            said: 0,
        };
        for act in acts {
            host.act(*act);
        }
        host
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Reopen => self.store = None,
            Act::Compact => {
                if let Some(store) = self.opened() {
                    // A failed compaction loses nothing: the old file stays in use.
                    store.compact().ok();
                }
            }
            Act::Say(bytes) => {
                self.said += 1;
                let text = format!("{} {}", self.said, "x".repeat(bytes));
                for _ in 0..3 {
                    let entries = vec![Entry::Sent, said(&*text), Entry::Lost { events: 1 }];
                    match self.opened().map(|store| store.append(entries)) {
                        Some(Ok(_)) => {
                            self.maybe.clear();
                            return self.durable.push(text);
                        }
                        Some(Err(_)) => self.maybe.push(text.clone()),
                        None => {}
                    }
                }
            }
        }
    }

    /// Returns the store. The contents found by an open are the expected ones from then on.
    fn opened(&mut self) -> Option<&mut Store> {
        if self.store.is_none() {
            let (store, found) = open(&self.disk).ok()?;
            self.check(&texts(&found));
            let last = texts(&found).pop();
            self.durable
                .extend(last.filter(|last| self.maybe.contains(last)));
            self.maybe.clear();
            self.store = Some(store);
        }
        self.store.as_mut()
    }

    /// Every message that was reported as written is present, once and in order, with at most one that failed.
    fn check(&self, found: &[String]) {
        let mut rest = found.iter();
        for text in &self.durable {
            let is_there = rest.next() == Some(text);
            assert!(is_there, "lost: {:.20}, found {}", text, found.len());
        }
        let rest: Vec<&String> = rest.collect();
        assert!(
            rest.is_empty() || (rest.len() == 1 && self.maybe.contains(rest[0])),
            "{} texts that nobody wrote, or twice",
            rest.len()
        );
    }
}

/// Every complete line is a record, and no number occurs twice.
fn check_numbers(disk: &FaultyDisk) {
    let bytes = disk.bytes(&file());
    let mut latest = 0;
    for piece in StoreReader::new(&*bytes).unwrap() {
        match piece.unwrap() {
            StoredItem::Record(record) => {
                assert!(record.seq > latest);
                latest = record.seq;
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Runs the actions under the plan, checks the file after a loss of power, and returns the number of faults.
fn under(acts: &[Act], plan: Plan, seed: u64) -> u64 {
    let disk = FaultyDisk::default();
    disk.plan(plan);
    let mut host = Host::run(&disk, acts);
    host.store = None;
    disk.crash(&mut Random::new(seed));
    let (mut store, found) = open(&disk).unwrap();
    host.check(&texts(&found));
    assert_eq!((found.damaged(), found.repeated()), (0, 0));
    store.append(vec![said("after")]).unwrap();
    drop(store);
    check_numbers(&disk);
    let (_store, found) = open(&disk).unwrap();
    assert_eq!(found.missing(), 0);
    assert_eq!(texts(&found).last().unwrap(), "after");
    disk.injected()
}

fn calls(acts: &[Act]) -> u64 {
    let disk = FaultyDisk::default();
    Host::run(&disk, acts);
    disk.calls()
}

#[test]
fn the_nth_call_fails_for_every_n_and_nothing_durable_is_lost() {
    let (mut once, mut runs) = (0, 0);
    // A permanent fault counts once, however often the host meets it.
    for acts in RUNS {
        for at in 1..=calls(acts) + 4 {
            for fault in FAULTS {
                for seed in 0..scale(12) as u64 {
                    once += under(acts, Plan::Once(at, fault), seed);
                    runs += 1;
                }
            }
        }
    }
    let mut lasting = 0;
    for acts in RUNS {
        for at in 1..=calls(acts) {
            for fault in FAULTS {
                for seed in 0..scale(4) as u64 {
                    lasting += under(acts, Plan::From(at, fault), seed).min(1);
                    runs += 1;
                }
            }
        }
    }
    println!(
        "{} faults in {runs} runs ({once} single, {lasting} lasting): 0 durable records lost, 0 twice",
        once + lasting
    );
    let least = scale(10_000) as u64;
    assert!(once + lasting >= least, "{once} and {lasting} faults");
}

#[test]
fn after_a_sync_that_failed_the_next_record_is_durable_all_the_same() {
    let disk = FaultyDisk::default();
    let (mut store, _) = open(&disk).unwrap();
    store.append(vec![said("one")]).unwrap();
    // The append, then its sync.
    disk.plan(Plan::Once(disk.calls() + 2, Fault::Device));
    store.append(vec![said("two")]).unwrap_err();
    assert_eq!(store.append(vec![said("three")]).unwrap(), 2);
    drop(store);
    disk.crash(&mut Random::new(1));
    let (_store, found) = open(&disk).unwrap();
    assert_eq!(texts(&found), ["one", "three"]);
}

#[test]
fn a_disk_that_takes_one_byte_at_a_time_makes_whole_records() {
    let disk = FaultyDisk::default();
    disk.plan(Plan::From(1, Fault::Short));
    // Opening and syncing have no short form: they fail.
    open(&disk).unwrap_err();
    disk.plan(Plan::Never);
    let (mut store, _) = open(&disk).unwrap();
    for text in ["one", "two"] {
        disk.plan(Plan::Once(disk.calls() + 1, Fault::Short));
        store.append(vec![said(text)]).unwrap();
    }
    drop(store);
    assert_eq!(texts(&open(&disk).unwrap().1), ["one", "two"]);
    check_numbers(&disk);
}

#[test]
fn a_disk_that_is_interrupted_for_ever_is_given_up() {
    let disk = FaultyDisk::default();
    let (mut store, _) = open(&disk).unwrap();
    disk.plan(Plan::From(disk.calls() + 1, Fault::Interrupted));
    let error = store.append(vec![said("one")]).unwrap_err();
    assert_eq!(error.kind(), ttsr_agent::store::StoreErrorKind::Disk);
    assert!(disk.injected() < 10_000, "it was not tried for ever");
    disk.plan(Plan::Never);
    assert_eq!(store.append(vec![said("one")]).unwrap(), 1);
}

#[test]
fn a_foreign_file_is_never_touched_whatever_the_disk_does() {
    let text = b"my notes, without end of line";
    for at in 1..6 {
        let disk = FaultyDisk::default();
        disk.put(Path::new("/a/talk.ttsr"), text);
        disk.plan(Plan::Once(at, Fault::Device));
        open(&disk).unwrap_err();
        assert_eq!(disk.bytes(&file()), text);
    }
}
