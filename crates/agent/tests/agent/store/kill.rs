//! A real process is killed while it writes, repeatedly, and the file is resumed each time.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::Duration;

use ttsr_agent::store::{Durability, Entry, Store, StoreOptions};

use super::StoreFile as _;
use super::{said, texts};
use ttsr_testing::Folder;
use ttsr_testing::skip;
use ttsr_testing::{Random, scale};

const FILE: &str = "TTSR_STORE_CHILD";

/// Not a test of its own: the process that is killed. It prints each number that is durable.
#[test]
#[ignore = "started by the test below"]
fn child() {
    let Some(path) = skip::unless_set(FILE) else {
        return;
    };
    // The test is about the death of the process, for which records need not be synced.
    let options = StoreOptions {
        durability: Durability::Process,
        ..StoreOptions::default()
    };
    let (mut store, found) = Store::open_with(path, options).unwrap();
    println!("found {}", texts(&found).len());
    for number in texts(&found).len().. {
        let text = format!("{number} {}", "x".repeat(number * 37 % 900));
        store.append(vec![Entry::Sent, said(text)]).unwrap();
        println!("durable {number}");
        if number % 50 == 49 {
            store.compact().unwrap();
        }
    }
}

#[test]
fn kill_9_at_random_points_loses_no_durable_record() {
    let kills = scale(300).max(10);
    let mut random = Random::new(7);
    let mut folder = Folder::new();
    let (mut durable, mut torn, mut records) = (0, 0, 0);
    for kill in 0..kills {
        if kill % 20 == 0 {
            records += durable;
            (folder, durable) = (Folder::new(), 0);
        }
        durable = run_and_kill(&folder, durable, &mut random);
        let (store, found) = Store::open(folder.file()).unwrap();
        let found_texts = texts(&found);
        assert!(
            found_texts.len() >= durable,
            "{} of {durable}",
            found_texts.len()
        );
        for (number, text) in found_texts.iter().enumerate() {
            let (written, filler) = text.split_once(' ').unwrap();
            assert_eq!(written.parse::<usize>().unwrap(), number);
            assert_eq!(filler.len(), number * 37 % 900);
        }
        assert_eq!(
            (found.damaged(), found.repeated(), found.missing()),
            (0, 0, 0)
        );
        torn += usize::from(found.torn_bytes() > 0);
        durable = found_texts.len();
        drop(store);
    }
    println!(
        "{kills} kills over {} records, {torn} torn tails: 0 lost, 0 twice",
        records + durable
    );
}

/// Runs the child for a while; returns the number of records that it reported as durable, with those before.
fn run_and_kill(folder: &Folder, before: usize, random: &mut Random) -> usize {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "store::kill::child",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(FILE, folder.file())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut durable = before;
    let mut left = random.below(60);
    let number = |line: &str, word: &str| line.split_once(word)?.1.trim().parse::<usize>().ok();
    while left > 0 {
        let line = lines
            .next()
            .expect("the child writes until it is killed")
            .unwrap();
        if let Some(number) = number(&line, "durable ") {
            durable = number + 1;
            left -= 1;
        } else if let Some(found) = number(&line, "found ") {
            assert_eq!(found, before);
        }
    }
    std::thread::sleep(Duration::from_micros(random.below(3000) as u64));
    child.kill().unwrap();
    child.wait().unwrap();
    // The output of the child before it was killed.
    for line in lines.map_while(Result::ok) {
        if let Some(number) = number(&line, "durable ") {
            durable = number + 1;
        }
    }
    durable
}
