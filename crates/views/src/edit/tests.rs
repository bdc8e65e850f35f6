//! The oracle is a model that has all values at once: it splits whole texts with string functions, counts their lines,
//! and assembles the haystacks of each region with their files.

use std::collections::HashMap;
use std::ops::Range;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::*;
use crate::chunk::{DecidedOffset, Tag};
use crate::json::{HaystackSink, JsonDecoder};
use ttsr_testing::{Random, scale, skip};

// ---- The output of the view ----

#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Turn(Tag, u64, u64),
    Byte(u8, u64, u64, u64),
    Cut(u64, u64),
    File(String, u64),
}

#[derive(Debug, Default)]
struct Recorder {
    heard: Vec<Heard>,
    /// The number of bytes of the part delivered so far; `None` if it is not checked.
    delivered: Option<u64>,
    tagged: bool,
}

impl Recorder {
    /// Asserts that nothing is emitted later than `decided` states when the input is pushed byte by byte.
    fn on_time(&self, decided: u64) {
        if let Some(delivered) = self.delivered {
            assert_eq!(decided, delivered, "decided and emitted");
        }
    }
}

impl ChunkSink for Recorder {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let DecidedOffset {
            offset: at,
            decided,
        } = at;
        self.on_time(decided);
        self.tagged = true;
        self.heard.push(Heard::Turn(tag, at, decided));
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        assert!(!chunk.bytes.is_empty() && self.tagged);
        for (i, &byte) in chunk.bytes.iter().enumerate() {
            self.on_time(chunk.decided(i));
            let heard = Heard::Byte(byte, chunk.start(i), chunk.end(i), chunk.decided(i));
            self.heard.push(heard);
        }
    }

    fn cut(&mut self, end: DecidedOffset) {
        let DecidedOffset {
            offset: end,
            decided,
        } = end;
        self.on_time(decided);
        self.tagged = false;
        self.heard.push(Heard::Cut(end, decided));
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        self.on_time(decided);
        self.heard.push(Heard::File(path.to_owned(), decided));
    }
}

struct Driver<'a> {
    edits: &'a mut EditView,
    recorder: &'a mut Recorder,
}

impl HaystackSink for Driver<'_> {
    fn open(&mut self, path: &ArgPath, _: u64) {
        self.edits.open(path);
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.edits.push(Chunk::verbatim(bytes, at), self.recorder);
    }

    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        let chunk = Chunk::replacement(utf8, source, decided);
        self.edits.push(chunk, self.recorder);
    }

    fn close(&mut self, end: DecidedOffset) {
        self.edits.close(end, self.recorder);
    }
}

fn view<'a>(
    deltas: impl IntoIterator<Item = &'a [u8]>,
    limits: EditLimits,
    strict: bool,
) -> (Vec<Heard>, EditCounters) {
    let mut decoder = JsonDecoder::new(128, 4096);
    let (mut edits, mut recorder) = (EditView::new(limits), Recorder::default());
    let mut delivered = 0;
    for delta in deltas {
        delivered += delta.len() as u64;
        recorder.delivered = strict.then_some(delivered);
        let driver = &mut Driver {
            edits: &mut edits,
            recorder: &mut recorder,
        };
        decoder.push(delta, driver);
    }
    let driver = &mut Driver {
        edits: &mut edits,
        recorder: &mut recorder,
    };
    decoder.finish(driver);
    edits.finish(delivered, &mut recorder);
    (recorder.heard, edits.counters())
}

/// The file and the text of each haystack, by region.
#[derive(Clone, Debug, Default, PartialEq)]
struct Read {
    added: Vec<(String, String)>,
    removed: Vec<(String, String)>,
    file: Vec<(String, String)>,
}

fn read(heard: &[Heard]) -> Read {
    let of = |region| haystacks(heard, region);
    Read {
        added: of(RegionSet::ADDED),
        removed: of(RegionSet::REMOVED),
        file: of(RegionSet::FILE),
    }
}

fn haystacks(heard: &[Heard], region: RegionSet) -> Vec<(String, String)> {
    let (mut all, mut open, mut file, mut unnamed) = (Vec::new(), false, String::new(), 0);
    let (mut inside, mut at) = (false, 0);
    for one in heard {
        match one {
            Heard::Turn(tag, ..) => {
                inside = tag.regions.contains(region);
                open &= inside;
            }
            Heard::Byte(byte, start, ..) if inside => {
                if !open {
                    all.push((file.clone(), Vec::new()));
                    open = true;
                    at = 0;
                }
                assert!(at <= *start, "a haystack goes back");
                at = *start;
                all.last_mut().unwrap().1.push(*byte);
            }
            Heard::Byte(..) => {}
            Heard::Cut(..) => (open, inside) = (false, false),
            Heard::File(name, _) => {
                if file.is_empty() && !name.is_empty() {
                    for (file, _) in &mut all[unnamed..] {
                        file.clone_from(name);
                    }
                }
                unnamed = all.len();
                file.clone_from(name);
            }
        }
    }
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    all.into_iter()
        .map(|(file, bytes)| (file, text(bytes)))
        .collect()
}

/// Asserts that each byte is at the offset that the view states.
fn check_places(input: &[u8], heard: &[Heard]) {
    for one in heard {
        if let &Heard::Byte(byte, start, end, _) = one {
            let place = &input[start as usize..end as usize];
            assert!(
                place == [byte] || place[0] == b'\\',
                "{byte} at {start}..{end}"
            );
        }
    }
}

/// Asserts that the output of the view is the same for every cut of the input.
fn every_cut(input: &[u8], limits: EditLimits, random: &mut Random) -> (Vec<Heard>, usize) {
    let (whole, counters) = view([input], limits, false);
    let same = |deltas: &[&[u8]], strict: bool| {
        let (heard, counted) = view(deltas.iter().copied(), limits, strict);
        assert_eq!(counted, counters);
        if heard != whole {
            let cuts: Vec<String> = deltas
                .iter()
                .map(|d| d.escape_ascii().to_string())
                .collect();
            let at = heard.iter().zip(&whole).position(|(a, b)| a != b);
            panic!("{cuts:#?}\n{at:?}\n{heard:?}\n{whole:?}");
        }
    };
    let runs = crate::test_sink::every_cut(input, random, same);
    (whole, runs)
}

// ---- The model ----

/// A value of the input, with its path.
type Leaf = (Vec<String>, String);

struct Leaves(Vec<Leaf>);

impl<'de> Deserialize<'de> for Leaves {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Leaves, D::Error> {
        deserializer.deserialize_any(LeavesVisitor)
    }
}

struct LeavesVisitor;

impl<'de> Visitor<'de> for LeavesVisitor {
    type Value = Leaves;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("any value")
    }

    fn visit_str<E>(self, text: &str) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), text.to_owned())]))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), value.to_string())]))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), value.to_string())]))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), value.to_string())]))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), value.to_string())]))
    }

    fn visit_unit<E>(self) -> Result<Leaves, E> {
        Ok(Leaves(vec![(Vec::new(), "null".to_owned())]))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Leaves, A::Error> {
        let mut all = Vec::new();
        while let Some((key, Leaves(leaves))) = map.next_entry::<String, Leaves>()? {
            all.extend(under(&key, leaves));
        }
        Ok(Leaves(all))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Leaves, A::Error> {
        let mut all = Vec::new();
        let mut index = 0;
        while let Some(Leaves(leaves)) = seq.next_element::<Leaves>()? {
            all.extend(under(&index.to_string(), leaves));
            index += 1;
        }
        Ok(Leaves(all))
    }
}

fn under(key: &str, leaves: Vec<Leaf>) -> impl Iterator<Item = Leaf> {
    leaves.into_iter().map(move |(mut path, text)| {
        path.insert(0, key.to_owned());
        (path, text)
    })
}

#[derive(Debug, Default)]
struct Model {
    read: Read,
    /// The haystacks of each region whose file is not yet known, and their objects.
    pending: Vec<Vec<String>>,
    marks: [usize; 3],
    named: Vec<(Vec<String>, String)>,
    file: String,
    old: Option<String>,
    new: Option<String>,
    pair: Vec<String>,
}

fn model(leaves: &[Leaf]) -> Read {
    let mut model = Model::default();
    for (path, text) in leaves {
        model.leaf(path, text);
    }
    model.emit_pair();
    model.read
}

impl Model {
    fn leaf(&mut self, path: &[String], text: &str) {
        let key = path.last().unwrap();
        let is_index = path.len() > 1 && key.bytes().all(|byte| byte.is_ascii_digit());
        let (key, group) = if is_index {
            (&path[path.len() - 2], &path[..path.len() - 2])
        } else {
            (key, &path[..path.len() - 1])
        };
        let role = if is_index {
            ValueRole::from_array_key(key)
        } else {
            ValueRole::from_key(key)
        };
        let over = match role {
            ValueRole::Old => self.pair != group || self.old.is_some(),
            ValueRole::New => self.pair != group || self.new.is_some(),
            _ => !group.starts_with(&self.pair),
        };
        if over {
            self.emit_pair();
        }
        self.named.retain(|(named, _)| group.starts_with(named));
        match role {
            ValueRole::Old => {
                self.old = Some(text.to_owned());
                self.pair = group.to_vec();
            }
            ValueRole::New => {
                self.set_file(group);
                self.new = Some(text.to_owned());
                self.pair = group.to_vec();
            }
            ValueRole::Whole => {
                self.set_file(group);
                self.lines(&[(LineKind::Added, text.to_owned())]);
            }
            ValueRole::Patch => {
                self.set_file(group);
                self.patch(text);
            }
            ValueRole::Path => self.path(group, text),
            ValueRole::None => {}
        }
        if self.old.is_some() && self.new.is_some() {
            self.emit_pair();
        }
    }

    fn set_file(&mut self, group: &[String]) {
        let name = self
            .named
            .iter()
            .rfind(|(named, _)| group.starts_with(named))
            .map(|(_, name)| name.clone());
        match name {
            Some(name) => self.name(&name),
            None => {
                if !self.file.is_empty() {
                    self.name("");
                }
                self.pending.push(group.to_vec());
            }
        }
    }

    fn name(&mut self, name: &str) {
        self.pending.clear();
        self.marks = self.counts();
        name.clone_into(&mut self.file);
    }

    fn counts(&self) -> [usize; 3] {
        let read = &self.read;
        [read.added.len(), read.removed.len(), read.file.len()]
    }

    fn path(&mut self, group: &[String], name: &str) {
        let around = |pending: &Vec<String>| pending.starts_with(group);
        if self.file.is_empty() && !self.pending.is_empty() && self.pending.iter().all(around) {
            let [added, removed, file] = self.marks;
            let read = &mut self.read;
            let late = (read.added[added..].iter_mut())
                .chain(&mut read.removed[removed..])
                .chain(&mut read.file[file..]);
            late.for_each(|(file, _)| name.clone_into(file));
            self.name(name);
        }
        self.named.retain(|(named, _)| named != group);
        self.named.push((group.to_vec(), name.to_owned()));
    }

    fn emit_pair(&mut self) {
        let (old, new) = (self.old.take(), self.new.take());
        let group = std::mem::take(&mut self.pair);
        if old.is_none() && new.is_none() {
            return;
        }
        self.set_file(&group);
        let side = |text: Option<String>, kind: LineKind| -> Vec<(LineKind, String)> {
            let text = text.filter(|text| !text.is_empty());
            let lines = text.iter().flat_map(|text| text.split('\n'));
            lines.map(|line| (kind, line.to_owned())).collect()
        };
        let mut lines = side(old, LineKind::Removed);
        lines.extend(side(new, LineKind::Added));
        self.lines(&lines);
    }

    /// The lines of one change.
    fn lines(&mut self, lines: &[(LineKind, String)]) {
        let plain = |line: &str| line.strip_suffix('\r').unwrap_or(line).to_owned();
        let count = |kind: LineKind| {
            let mut counts: HashMap<String, usize> = HashMap::new();
            for (_, line) in lines.iter().filter(|line| line.0 == kind) {
                *counts.entry(plain(line)).or_default() += 1;
            }
            counts
        };
        let (old, new) = (count(LineKind::Removed), count(LineKind::Added));
        let stays = |line: &str| {
            let of = |counts: &HashMap<String, usize>| counts.get(&plain(line)).copied();
            of(&old).unwrap_or(0).min(of(&new).unwrap_or(0))
        };
        let stay = |kind: LineKind| {
            let mut seen: HashMap<String, usize> = HashMap::new();
            let lines = lines.iter().filter(|line| line.0 != kind);
            lines
                .map(|(kind, line)| {
                    let seen = seen.entry(plain(line)).or_default();
                    *seen += usize::from(*kind != LineKind::Context);
                    let stays = *kind != LineKind::Context && *seen <= stays(line);
                    (*kind, stays, line.clone())
                })
                .collect::<Vec<_>>()
        };
        // New text: the runs of added lines, and the whole.
        let after = stay(LineKind::Removed);
        let is_added = |line: &(LineKind, bool, String)| line.0 == LineKind::Added && !line.1;
        push_runs(&mut self.read.added, &self.file, &after, is_added);
        push_runs(&mut self.read.file, &self.file, &after, |_| true);
        let before = stay(LineKind::Added);
        let is_removed = |line: &(LineKind, bool, String)| line.0 == LineKind::Removed && !line.1;
        push_runs(&mut self.read.removed, &self.file, &before, is_removed);
    }

    fn patch(&mut self, text: &str) {
        let mut lines: Vec<&str> = text.split('\n').collect();
        if lines.last() == Some(&"") {
            lines.pop();
        }
        let mut named = false;
        let mut at = 0;
        while at < lines.len() {
            let line = lines[at].trim_ascii_end();
            let header = |prefix: &str| line.strip_prefix(prefix).map(str::trim_ascii);
            let next = lines.get(at + 1).map(|next| next.trim_ascii_end());
            at += 1;
            if let Some(name) = header("*** Add File: ") {
                named = true;
                self.name(name);
                at = self.new_file(&lines, at);
            } else if let Some(name) = header("*** Update File: ") {
                named = true;
                self.name(name);
                at = self.update(&lines, at);
            } else if let Some(name) = header("*** Delete File: ").or(header("*** Move to: ")) {
                named = true;
                self.name(name);
                let deletes = line.starts_with("*** D");
                while deletes && at < lines.len() && !is_section(lines[at]) {
                    if let Some(name) = lines[at].strip_prefix("*** Move to: ") {
                        self.name(name.trim_ascii());
                    }
                    at += 1;
                }
            } else if let (Some(old), Some(new)) = (
                header("--- "),
                next.and_then(|next| next.strip_prefix("+++ ")),
            ) {
                named = true;
                at += 1;
                let (old, new) = (diff_name(old, "a/"), diff_name(new, "b/"));
                self.name(if new == "/dev/null" { old } else { new });
            } else if is_search(line) {
                at = self.block(&lines, at);
            } else if let Some(left) = diff_counts(line) {
                at = self.diff(&lines, at, Some(left));
            } else if named && line.starts_with("@@") {
                at = self.diff(&lines, at, None);
            }
        }
    }

    fn new_file(&mut self, lines: &[&str], mut at: usize) -> usize {
        let mut text = Vec::new();
        while at < lines.len() && (lines[at].starts_with('+') || !is_header(lines[at])) {
            let line = lines[at];
            text.push((
                LineKind::Added,
                line.strip_prefix('+').unwrap_or(line).to_owned(),
            ));
            at += 1;
        }
        self.lines(&text);
        if at < lines.len() && !is_section(lines[at]) {
            // A move or the end of the file; more can follow.
            if let Some(name) = lines[at].strip_prefix("*** Move to: ") {
                self.name(name.trim_ascii());
            }
            return self.new_file(lines, at + 1);
        }
        at
    }

    fn update(&mut self, lines: &[&str], mut at: usize) -> usize {
        let mut hunk = Vec::new();
        while at < lines.len() && !is_section(lines[at]) {
            let line = lines[at];
            at += 1;
            if line.starts_with("@@") || is_header(line) {
                self.lines(&std::mem::take(&mut hunk));
                if let Some(name) = line.strip_prefix("*** Move to: ") {
                    self.name(name.trim_ascii());
                }
                continue;
            }
            hunk.push(match line.split_at_checked(1) {
                Some(("+", line)) => (LineKind::Added, line.to_owned()),
                Some(("-", line)) => (LineKind::Removed, line.to_owned()),
                Some((" ", line)) => (LineKind::Context, line.to_owned()),
                _ => (LineKind::Context, line.to_owned()),
            });
        }
        self.lines(&hunk);
        at
    }

    fn diff(&mut self, lines: &[&str], mut at: usize, counts: Option<(u64, u64)>) -> usize {
        let mut hunk: Vec<(LineKind, String)> = Vec::new();
        let mut left = counts.unwrap_or((0, 0));
        while at < lines.len() {
            let line = lines[at];
            let next_is_new = lines
                .get(at + 1)
                .is_some_and(|next| next.starts_with("+++ "));
            if left == (0, 0) && line.starts_with("--- ") && next_is_new {
                break;
            }
            let blank = line.trim_ascii_end().is_empty() && !line.starts_with(' ');
            if blank && counts.is_some() && left == (0, 0) {
                at += 1;
                break;
            }
            let (kind, text) = match line.chars().next() {
                Some('+') => (LineKind::Added, &line[1..]),
                Some('-') => (LineKind::Removed, &line[1..]),
                Some(' ') => (LineKind::Context, &line[1..]),
                None | Some('\r') => (LineKind::Context, line),
                Some('\\') => {
                    at += 1;
                    continue;
                }
                Some(_) => break,
            };
            left.0 = left.0.saturating_sub(u64::from(kind != LineKind::Added));
            left.1 = left.1.saturating_sub(u64::from(kind != LineKind::Removed));
            hunk.push((kind, text.to_owned()));
            at += 1;
        }
        self.lines(&hunk);
        at
    }

    fn block(&mut self, lines: &[&str], mut at: usize) -> usize {
        let mut hunk = Vec::new();
        while at < lines.len()
            && (lines[at].starts_with(":start_line:")
                || lines[at].starts_with(":end_line:")
                || lines[at].trim_ascii_end() == "-------")
        {
            at += 1;
        }
        let mut kind = LineKind::Removed;
        while at < lines.len() {
            let line = lines[at].trim_ascii_end();
            at += 1;
            let signs = |sign: char| line.len() - line.trim_start_matches(sign).len() >= 5;
            if signs('>') && [" REPLACE", " UPDATED"].contains(&line.trim_start_matches('>'))
                || signs('+') && line.trim_start_matches('+') == " REPLACE"
            {
                break;
            }
            if kind == LineKind::Removed
                && line.trim_matches('=').is_empty()
                && (5..10).contains(&line.len())
            {
                kind = LineKind::Added;
            } else {
                hunk.push((kind, lines[at - 1].to_owned()));
            }
        }
        self.lines(&hunk);
        at
    }
}

fn push_runs(
    into: &mut Vec<(String, String)>,
    file: &str,
    lines: &[(LineKind, bool, String)],
    belongs: impl Fn(&(LineKind, bool, String)) -> bool,
) {
    for run in lines.chunk_by(|a, b| belongs(a) == belongs(b)) {
        let text: Vec<&str> = run.iter().map(|line| line.2.as_str()).collect();
        let text = text.join("\n");
        if belongs(&run[0]) && !text.is_empty() {
            into.push((file.to_owned(), text));
        }
    }
}

fn is_header(line: &str) -> bool {
    is_section(line)
        || line.trim_ascii_end() == "*** End of File"
        || line.starts_with("*** Move to: ") && line.trim_ascii_end().len() > 12
}

fn is_section(line: &str) -> bool {
    let line = line.trim_ascii_end();
    let starts = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
    line == "*** Begin Patch"
        || line == "*** End Patch"
        || starts.iter().any(|start| line.starts_with(start))
}

fn is_search(line: &str) -> bool {
    let signs = line.len() - line.trim_start_matches('<').len();
    let file_header = line.len() - line.trim_start_matches('-').len();
    signs >= 5 && [" SEARCH", " ORIGINAL"].contains(&&line[signs..])
        || file_header >= 5 && &line[file_header..] == " SEARCH"
}

fn diff_name<'a>(name: &'a str, side: &str) -> &'a str {
    let name = name.split('\t').next().unwrap().trim_ascii();
    let bare = name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'));
    let name = bare.unwrap_or(name);
    name.strip_prefix(side).unwrap_or(name)
}

fn diff_counts(line: &str) -> Option<(u64, u64)> {
    let pattern =
        regex_automata::meta::Regex::new(r"^@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@").unwrap();
    let mut captures = pattern.create_captures();
    pattern.captures(line, &mut captures);
    captures.get_match()?;
    let count = |group| {
        captures
            .get_group(group)
            .map_or(1, |span| line[span.range()].parse().unwrap())
    };
    Some((count(1), count(2)))
}

// ---- Generated calls ----

const LINES: [&str; 40] = [
    "a",
    "b",
    "c",
    "d",
    "    a",
    "",
    "",
    "x\r",
    "a\r",
    "\r",
    "é",
    "let s = \"q\";",
    "\tt\t",
    "😀",
    "*** End Patch",
    "@@",
    "=======",
    "-- sql",
    "--- x",
    "+++ y",
    "+a",
    "-a",
    " a",
    "\\ No newline at end of file",
    "@@ -1 +1 @@",
    ">>>>>>> REPLACE",
    "*** Update File: z.py",
    "EOF",
    "if x {",
    "}",
    "return 1;",
    "rm -rf /",
    "# c",
    "*** End of File",
    "--- a/old.c",
    "+++ b/new.c",
    "<<<<<<< SEARCH",
    "*** Move to: m.rs",
    "long long long line of text",
    "*** nothing",
];
const FILES: [&str; 8] = [
    "src/a.rs", "b.py", "/x/y.ts", "Makefile", "c/.env", "d e.md", "é.go", "x",
];

fn text(random: &mut Random, most: usize) -> String {
    let lines: Vec<&str> = (0..random.below(most + 1))
        .map(|_| {
            let few = if random.below(3) == 0 {
                LINES.len()
            } else {
                14
            };
            LINES[random.below(few)]
        })
        .collect();
    let end = if random.below(2) == 0 { "\n" } else { "" };
    lines.join("\n") + end
}

fn hunk(random: &mut Random, most: usize) -> String {
    let lines = text(random, most);
    let mut hunk = String::new();
    for line in lines.lines() {
        let kinds = 7 + usize::from(random.below(9) == 0);
        let marker = [" ", "+", "-", "+", "-", "+", "-", ""][random.below(kinds)];
        hunk += &format!("{marker}{line}\n");
    }
    hunk
}

fn counted(random: &mut Random, hunk: &str) -> String {
    let old = hunk.lines().filter(|line| !line.starts_with('+')).count();
    let new = hunk.lines().filter(|line| !line.starts_with('-')).count();
    match random.below(6) {
        0 => format!("@@ -3 +3,{new} @@ fn é()\n{hunk}"),
        1 => format!("@@ ... @@\n{hunk}"),
        _ => format!("@@ -1,{old} +1,{new} @@\n{hunk}"),
    }
}

fn patch(random: &mut Random) -> String {
    let mut patch = String::new();
    let (file, other) = (
        random.pick(&FILES).to_owned(),
        random.pick(&FILES).to_owned(),
    );
    match random.below(4) {
        0 => {
            patch += random.pick(&[
                "*** Begin Patch\n",
                "apply_patch <<'EOF'\n*** Begin Patch\n",
                "",
            ]);
            for _ in 0..1 + random.below(3) {
                match random.below(4) {
                    0 => {
                        patch += &format!("*** Add File: {file}\n");
                        for line in text(random, 4).lines() {
                            let marker = if random.below(9) == 0 { "" } else { "+" };
                            patch += &format!("{marker}{line}\n");
                        }
                    }
                    1 => patch += &format!("*** Delete File: {file}\n"),
                    _ => {
                        patch += &format!("*** Update File: {file}\n");
                        patch += ["", "*** Move to: other.rs\n"][random.below(2)];
                        for _ in 0..1 + random.below(2) {
                            patch += random.pick(&["@@\n", "@@ fn x() {\n", ""]);
                            patch += &hunk(random, 6);
                        }
                    }
                }
            }
            patch += random.pick(&[
                "*** End Patch\n",
                "*** End Patch",
                "*** End Patch\nEOF\n",
                "",
            ]);
        }
        1 => {
            for _ in 0..1 + random.below(2) {
                patch += random.pick(&["diff --git a/x b/y\nindex 1..2\n", "", "text\n"]);
                let new = if random.below(5) == 0 {
                    "/dev/null".to_owned()
                } else {
                    format!("b/{other}")
                };
                patch += &format!(
                    "--- a/{file}\n+++ {new}{}\n",
                    random.pick(&["", "\t2020-01-01"])
                );
                for _ in 0..1 + random.below(2) {
                    let hunk = hunk(random, 6);
                    patch += &counted(random, &hunk);
                    patch +=
                        random.pick(&["", "", "\\ No newline at end of file\n", "\n", "text\n"]);
                }
            }
        }
        2 => {
            for _ in 0..1 + random.below(2) {
                patch += random.pick(&[
                    "<<<<<<< SEARCH\n",
                    "------- SEARCH\n",
                    "<<<<<<< SEARCH\n:start_line:3\n-------\n",
                ]);
                patch += &text(random, 4);
                patch += random.pick(&["=======\n", "\n=======\n", ""]);
                patch += &text(random, 4);
                patch += random.pick(&[
                    ">>>>>>> REPLACE\n",
                    "\n>>>>>>> REPLACE",
                    "+++++++ REPLACE\n",
                    "",
                ]);
            }
        }
        _ => patch = text(random, 8),
    }
    if random.below(8) == 0 {
        patch = patch.replace('\n', "\r\n");
    }
    if random.below(8) == 0 {
        let cut = random.below(patch.len() + 1);
        patch = (0..=cut)
            .rev()
            .find_map(|cut| patch.get(..cut))
            .unwrap()
            .to_owned();
    }
    patch
}

/// Returns an object of the members in random order.
fn object(random: &mut Random, mut members: Vec<String>) -> String {
    for last in (1..members.len()).rev() {
        members.swap(last, random.below(last + 1));
    }
    let comma = random.pick(&[",", ", ", " ,\n  "]);
    format!("{{{}}}", members.join(comma))
}

fn member(random: &mut Random, key: &str, value: &str) -> String {
    let mut value = serde_json::to_string(value).unwrap();
    if random.below(6) == 0 {
        value = value
            .replace('a', "\\u0061")
            .replace("\\n", "\\u000a")
            .replace('é', "\\u00e9");
    }
    let colon = random.pick(&[":", ": "]);
    format!("\"{key}\"{colon}{value}")
}

fn pair(random: &mut Random) -> Vec<String> {
    let which = random.below(12);
    let (old, new) = (OLD[which], NEW[which.min(9)]);
    let old_text = text(random, 7);
    let new_text = match random.below(3) {
        0 => text(random, 7),
        _ => edited(random, &old_text),
    };
    let mut members = Vec::new();
    if random.below(8) > 0 {
        members.push(member(random, old, &old_text));
    }
    if random.below(8) > 0 {
        members.push(member(random, new, &new_text));
    }
    if random.below(12) == 0 {
        members.push(member(random, old, "a\nb"));
    }
    if random.below(12) == 0 {
        members.push(member(random, new, "b\na\n"));
    }
    members
}

fn edited(random: &mut Random, text: &str) -> String {
    let mut lines: Vec<&str> = text.split('\n').collect();
    for _ in 0..random.below(4) {
        let at = random.below(lines.len());
        match random.below(3) {
            0 => lines.insert(at, LINES[random.below(14)]),
            1 if lines.len() > 1 => drop(lines.remove(at)),
            _ => lines[at] = LINES[random.below(14)],
        }
    }
    lines.join("\n")
}

fn path(random: &mut Random, members: &mut Vec<String>) {
    if random.below(4) > 0 {
        let key = random.pick(&["path", "file_path", "filePath"]);
        let file = random.pick(&FILES);
        members.push(member(random, key, file));
    }
}

/// Returns a tool call with changes in a random format.
fn call(random: &mut Random) -> String {
    let mut members = Vec::new();
    if random.below(3) == 0 {
        members.push(
            random
                .pick(&[
                    "\"n\":1",
                    "\"insert_line\":3",
                    "\"all\":true",
                    "\"old_str\":null",
                    "\"x\":{}",
                ])
                .to_owned(),
        );
    }
    match random.below(7) {
        0 | 1 => members.extend(pair(random)),
        2 => {
            let edits: Vec<String> = (0..random.below(4))
                .map(|_| {
                    let mut members = pair(random);
                    if random.below(4) == 0 {
                        path(random, &mut members);
                    }
                    object(random, members)
                })
                .collect();
            members.push(format!("\"edits\":[{}]", edits.join(",")));
        }
        3 => {
            let key = WHOLE[random.below(WHOLE.len())];
            let content = text(random, 8);
            members.push(member(random, key, &content));
        }
        4 => {
            let files: Vec<String> = (0..random.below(4))
                .map(|_| {
                    let content = text(random, 4);
                    let mut members = vec![member(random, "content", &content)];
                    path(random, &mut members);
                    object(random, members)
                })
                .collect();
            members.push(format!("\"files\":[{}]", files.join(",")));
        }
        _ => {
            let patch = patch(random);
            match random.below(4) {
                0 => {
                    let command = serde_json::to_string(&patch).unwrap();
                    members.push(format!("\"command\":[\"apply_patch\",{command}]"));
                }
                _ => {
                    let key = PATCH[random.below(PATCH.len() - 1)];
                    members.push(member(random, key, &patch));
                }
            }
            if random.below(5) == 0 {
                members.extend(pair(random));
            }
        }
    }
    path(random, &mut members);
    object(random, members)
}

// ---- Tests ----

fn leaves(input: &str) -> Vec<Leaf> {
    serde_json::from_str::<Leaves>(input).unwrap().0
}

#[test]
fn generated_calls_read_as_in_the_model_under_every_cut() {
    let mut cases = 0;
    let goal = scale(750_000);
    let mut seed = 0;
    while cases < goal {
        let mut random = Random::new(seed);
        let input = call(&mut random);
        let (heard, cut) = every_cut(input.as_bytes(), EditLimits::default(), &mut random);
        assert_eq!(read(&heard), model(&leaves(&input)), "seed {seed}: {input}");
        check_places(input.as_bytes(), &heard);
        cases += cut;
        seed += 1;
    }
    println!("edits: {cases} cases of {seed} generated calls");
}

#[test]
fn raw_patches_read_as_in_the_model_under_every_cut() {
    let mut cases = 0;
    let goal = scale(100_000);
    let mut seed = 0;
    while cases < goal {
        let mut random = Random::new(seed);
        let input = patch(&mut random);
        let (heard, cut) = every_cut(input.as_bytes(), EditLimits::default(), &mut random);
        let leaf = (vec![RAW.to_owned()], input.clone());
        assert_eq!(read(&heard), model(&[leaf]), "seed {seed}: {input:?}");
        cases += cut;
        seed += 1;
    }
    println!("edits: {cases} cases of {seed} raw patches");
}

#[test]
fn broken_input_reads_the_same_under_every_cut() {
    let mut cases = 0;
    let goal = scale(60_000);
    let mut seed = 0;
    while cases < goal {
        let mut random = Random::new(seed);
        let mut input = call(&mut random).into_bytes();
        input.truncate(random.below(input.len()) + 1);
        if random.below(2) == 0 {
            let at = random.below(input.len());
            let noise = random.noise(4);
            input.splice(at..at, noise);
        }
        let (heard, cut) = every_cut(&input, EditLimits::default(), &mut random);
        check_places(&input, &heard);
        cases += cut;
        seed += 1;
    }
    println!("edits: {cases} cases of {seed} broken calls");
}

/// Returns the number of occurrences of each line.
fn lines_of(haystacks: &[(String, String)]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for line in haystacks.iter().flat_map(|(_, text)| text.split('\n')) {
        let line = line.strip_suffix('\r').unwrap_or(line);
        *counts.entry(line.to_owned()).or_default() += 1;
    }
    counts
}

#[test]
fn past_a_limit_more_passes_for_added_and_nothing_is_lost() {
    let (mut cases, mut reached) = (0, [0; 3]);
    let goal = scale(120_000);
    let mut seed = 0;
    while cases < goal {
        let mut random = Random::new(seed);
        let members = pair(&mut random);
        let input = object(&mut random, members);
        let limits = EditLimits {
            waiting: 1 + random.below(40),
            lines: random.below(4),
            path_bytes: random.below(4),
        };
        let (heard, cut) = every_cut(input.as_bytes(), limits, &mut random);
        let (got, want) = (read(&heard), model(&leaves(&input)));
        for (got, want) in [(&got.added, &want.added), (&got.removed, &want.removed)] {
            let got = lines_of(got);
            for (line, count) in lines_of(want) {
                let enough = line.is_empty() || got.get(&line) >= Some(&count);
                assert!(enough, "seed {seed}: {line:?} of {input}");
            }
        }
        let whole = |read: &Read| -> String {
            let texts = read.file.iter().map(|(_, text)| text.replace('\n', ""));
            texts.collect()
        };
        assert_eq!(whole(&got), whole(&want), "seed {seed}: {input}");
        let counters = view([input.as_bytes()], limits, false).1;
        for (reached, counted) in
            reached
                .iter_mut()
                .zip([counters.released, counters.long_lines, counters.forgotten])
        {
            *reached += counted;
        }
        let patch = patch(&mut random);
        cases += cut + every_cut(patch.as_bytes(), limits, &mut random).1;
        seed += 1;
    }
    assert!(reached.iter().all(|&times| times > 0), "{reached:?}");
    println!("edits: {cases} cases of {seed} calls under small limits, reached {reached:?}");
}

/// Returns the tool calls of the corpus as they were sent.
fn real_calls(corpus: &std::path::Path) -> Vec<String> {
    let mut calls = Vec::new();
    let file = std::fs::read_to_string(corpus.join("transcripts/transcripts.jsonl")).unwrap();
    for line in file.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        if record["kind"] == "tool-input" {
            calls.push(record["text"].as_str().unwrap().to_owned());
        }
    }
    for entry in std::fs::read_dir(corpus.join("streams")).unwrap() {
        let file = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        for line in file.lines() {
            let record: serde_json::Value = serde_json::from_str(line).unwrap();
            let parts = record["parts"].as_array().unwrap();
            let mut texts = vec![String::new(); parts.len()];
            for delta in record["deltas"].as_array().unwrap() {
                texts[delta[0].as_u64().unwrap() as usize] += delta[1].as_str().unwrap();
            }
            let of_tools = parts.iter().zip(texts);
            calls.extend(
                of_tools
                    .filter(|(part, _)| part["kind"] == "tool-input")
                    .map(|(_, text)| text),
            );
        }
    }
    calls
}

#[test]
fn real_calls_read_as_in_the_model_under_every_cut() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let mut random = Random::new(5);
    let (mut cases, mut changes, mut raw) = (0, 0, 0);
    let calls = real_calls(&corpus);
    for call in &calls {
        let (heard, cut) = every_cut(call.as_bytes(), EditLimits::default(), &mut random);
        check_places(call.as_bytes(), &heard);
        cases += cut;
        match serde_json::from_str::<Leaves>(call) {
            Ok(Leaves(leaves)) if call.trim_start().starts_with('{') => {
                let want = model(&leaves);
                changes += usize::from(want != Read::default());
                assert_eq!(read(&heard), want, "{call}");
            }
            _ => raw += 1,
        }
    }
    assert!(changes > 100);
    println!(
        "edits: {cases} cases of {} real calls, {changes} with changes, {raw} not an object",
        calls.len()
    );
}

/// Returns the haystacks of the call, and asserts that they are the same for every cut.
fn check(input: &str) -> Read {
    let mut random = Random::new(3);
    read(&every_cut(input.as_bytes(), EditLimits::default(), &mut random).0)
}

fn texts(file: &str, texts: &[&str]) -> Vec<(String, String)> {
    texts
        .iter()
        .map(|&text| (file.to_owned(), text.to_owned()))
        .collect()
}

#[test]
fn removing_a_line_adds_nothing_whichever_text_comes_first() {
    for input in [
        r#"{"path":"a.rs","old_string":"keep\nbad\nend","new_string":"keep\nend"}"#,
        r#"{"new_string":"keep\nend","old_string":"keep\nbad\nend","path":"a.rs"}"#,
        r#"{"input":"*** Begin Patch\n*** Update File: a.rs\n@@\n keep\n-bad\n end\n*** End Patch"}"#,
        r#"{"diff":"--- a/a.rs\n+++ b/a.rs\n@@ -1,3 +1,2 @@\n keep\n-bad\n end\n"}"#,
        r#"{"diff":"<<<<<<< SEARCH\nkeep\nbad\nend\n=======\nkeep\nend\n>>>>>>> REPLACE","path":"a.rs"}"#,
    ] {
        let read = check(input);
        assert_eq!(read.added, [], "{input}");
        assert_eq!(read.removed, texts("a.rs", &["bad"]), "{input}");
        assert_eq!(read.file, texts("a.rs", &["keep\nend"]), "{input}");
    }
}

#[test]
fn a_moved_line_is_neither_added_nor_removed() {
    let read = check(r#"{"patch":"@@ -1,3 +1,3 @@\n+b\n a\n-b\n c"}"#);
    assert_eq!((read.added, read.removed), (vec![], vec![]));
    assert_eq!(read.file, texts("", &["b\na\nc"]));
}

#[test]
fn a_name_that_comes_late_holds_for_what_came_before() {
    let read = check(r#"{"files":[{"content":"x","path":"p"},{"content":"y"}],"path":"q"}"#);
    let file = [("p", "x"), ("q", "y")].map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(read.added, file);
    let read = check(r#"{"a":{"files":[{"content":"x"},{"content":"y"}],"path":"p"}}"#);
    let file = [("p", "x"), ("p", "y")].map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(read.added, file);
    let read = check(r#"{"a":{"content":"x"},"b":{"path":"p","content":"y"}}"#);
    let file = [("", "x"), ("p", "y")].map(|(file, text)| (file.to_owned(), text.to_owned()));
    assert_eq!(read.added, file);
}

#[test]
fn a_line_is_certain_when_it_ends_and_a_whole_file_at_once() {
    let decided = |input: &str, byte: u8| {
        let (heard, _) = view([input.as_bytes()], EditLimits::default(), false);
        heard.iter().find_map(|one| match *one {
            Heard::Byte(at, start, _, decided) if at == byte => Some((start, decided)),
            _ => None,
        })
    };
    assert_eq!(decided(r#"{"content":"Q"}"#, b'Q'), Some((12, 13)));
    assert_eq!(decided(r#"{"old":"a","new":"Q\nb"}"#, b'Q'), Some((18, 21)));
    assert_eq!(decided(r#"{"new":"Q\nb","old":"a"}"#, b'Q'), Some((8, 23)));
    assert_eq!(decided(r#"{"new":"Q\nb"}"#, b'Q'), Some((8, 14)));
    let cuts = |input: &str| -> Vec<(u64, u64)> {
        let (heard, _) = view([input.as_bytes()], EditLimits::default(), false);
        let cuts = heard.iter().filter_map(|one| match *one {
            Heard::Cut(end, decided) => Some((end, decided)),
            _ => None,
        });
        cuts.collect()
    };
    assert_eq!(cuts(r#"{"content":"Qab"}"#), [(15, 16)]);
    assert_eq!(cuts(r#"{"old":"ab","new":"c"}"#), [(20, 21), (10, 21)]);
}

#[test]
fn hostile_sizes_are_bounded() {
    let line = "x".repeat(1 << 20);
    let input = format!(
        r#"{{"old":"{line}\nb","new":"{line}","edits":[{{"new":"{}"}}]}}"#,
        "\\n".repeat(200_000)
    );
    let (heard, counters) = view(input.as_bytes().chunks(4096), EditLimits::default(), false);
    let read = read(&heard);
    assert_eq!((counters.long_lines, counters.released > 0), (2, true));
    assert_eq!(read.added[0].1.len(), 1 << 20);
    let nested = r#"{"a":"#.repeat(200) + "\"x\"";
    view([nested.as_bytes()], EditLimits::default(), false);
    let many: String = (0..40_000).map(|i| format!("{i}\\n")).collect();
    let input = format!(r#"{{"old":"{many}","new":"{many}bad"}}"#);
    let (heard, counters) = view([input.as_bytes()], EditLimits::default(), false);
    assert!(counters.forgotten > 0);
    assert!(
        haystacks(&heard, RegionSet::ADDED)
            .last()
            .unwrap()
            .1
            .ends_with("bad")
    );
}

#[test]
fn keys_with_dots_are_no_paths_and_have_an_end() {
    let files = |input: &str| check(input).added;
    let both = [("q", "x"), ("q", "y")].map(|(file, text)| (file.to_owned(), text.to_owned()));
    let input = r#"{"a.b":{"content":"x"},"c":{"content":"y"},"path":"q"}"#;
    assert_eq!(files(input), both);
    let input = r#"{"a..b.c":{"":{"content":"x"}},".":{"content":"y"},"path":"q"}"#;
    assert_eq!(files(input), both);
    let input = r#"{"a.b":{"path":"p"},"a":{"b":{"content":"x"}}}"#;
    assert_eq!(files(input), texts("", &["x"]));
}

#[test]
fn a_name_holds_for_its_object_and_what_is_in_there() {
    for (input, file) in [
        (r#"{"title":"p","content":"x"}"#, ""),
        (r#"{"0":"y","path":"p","content":"x"}"#, "p"),
        (r#"{"a":{"b":{"c":{"path":"p","content":["x"]}}}}"#, "p"),
        // A number is an array index, whatever holds it, and the array is the value.
        (r#"{"content":{"path":"p","0":"x"}}"#, ""),
    ] {
        assert_eq!(check(input).added, texts(file, &["x"]), "{input}");
    }
}

fn under_limits(input: &str, limits: EditLimits) -> (Read, EditCounters) {
    let (heard, _) = every_cut(input.as_bytes(), limits, &mut Random::new(4));
    (read(&heard), view([input.as_bytes()], limits, false).1)
}

#[test]
fn a_whole_file_and_a_patch_may_be_lists_of_strings_and_other_texts_may_not() {
    let read = check(r#"{"path":"a","content":["x\n","y"]}"#);
    assert_eq!(read.added, texts("a", &["x\n", "y"]));
    let read = check(
        r#"{"command":["apply_patch","*** Begin Patch\n*** Add File: b\n+x\n*** End Patch"]}"#,
    );
    assert_eq!(read.added, texts("b", &["x"]));
    let read = check(r#"{"path":"a","new_string":["x"],"old_string":["y"]}"#);
    assert_eq!((read.added, read.removed), (vec![], vec![]));
    let read = check(r#"{"path":["a"],"content":"x"}"#);
    assert_eq!(read.added, texts("", &["x"]));
}

#[test]
fn a_name_that_is_too_long_is_no_name_and_counted() {
    for (path_bytes, file, long_paths) in [(4, "abcd", 0), (3, "", 1)] {
        let limits = EditLimits {
            path_bytes,
            ..EditLimits::default()
        };
        for input in [
            r#"{"path":"abcd","content":"x"}"#,
            r#"{"patch":"*** Begin Patch\n*** Add File: abcd\n+x\n*** End Patch"}"#,
        ] {
            let (read, counters) = under_limits(input, limits);
            assert_eq!(read.added, texts(file, &["x"]), "{input}");
            assert_eq!(counters.long_paths, long_paths, "{input}");
        }
    }
}

#[test]
fn released_lines_pass_as_added_or_removed_in_haystacks_of_their_own() {
    for (input, waiting, added, removed, counted) in [
        // Old text is buffered up to the limit.
        (
            r#"{"old":"a\nb\nc","new":"a\nc"}"#,
            6,
            &[][..],
            &["b"][..],
            [0, 0],
        ),
        (
            r#"{"old":"a\nb\nc","new":"a\nc"}"#,
            5,
            &[],
            &["a\nb"],
            [1, 0],
        ),
        (
            r#"{"old":"a\nb\nc\nd","new":"a\nc"}"#,
            4,
            &[],
            &["a\nb", "d"],
            [1, 0],
        ),
        (
            r#"{"old":"a\nb\nc\nd","new":"a\nc"}"#,
            3,
            &[],
            &["a", "b", "c", "d"],
            [3, 0],
        ),
        // New text is buffered until the old text is complete.
        (
            r#"{"new":"a\nb\nc","old":"b"}"#,
            6,
            &["a", "c"],
            &[],
            [0, 0],
        ),
        (
            r#"{"new":"a\nb\nc","old":"b"}"#,
            5,
            &["a\nb\nc"],
            &["b"],
            [1, 0],
        ),
        // A line that is too long is not compared.
        (
            r#"{"old":"abcd\nx","new":"abcd\nx"}"#,
            3,
            &["abcd"],
            &["abcd"],
            [0, 2],
        ),
        (
            r#"{"old":"abc\nx","new":"abc\nx"}"#,
            3,
            &[],
            &["abc"],
            [1, 0],
        ),
        (
            r#"{"old":"x\nabcd\ny","new":"x\ny"}"#,
            3,
            &[],
            &["x", "abcd"],
            [0, 1],
        ),
    ] {
        let limits = EditLimits {
            waiting,
            ..EditLimits::default()
        };
        let (read, counters) = under_limits(input, limits);
        let shown = |texts: &[(String, String)]| -> Vec<String> {
            texts.iter().map(|(_, text)| text.clone()).collect()
        };
        let got = (
            shown(&read.added),
            shown(&read.removed),
            [counters.released, counters.long_lines],
        );
        let owned =
            |texts: &[&str]| -> Vec<String> { texts.iter().map(|&text| text.to_owned()).collect() };
        assert_eq!(
            got,
            (owned(added), owned(removed), counted),
            "{input} {waiting}"
        );
    }
}

#[test]
fn a_file_is_of_the_language_of_its_ending() {
    let mut random = Random::new(5);
    for (path, language) in [
        ("a.rs", "rs"),
        ("b/a.TS", "ts"),
        ("b.d/a", ""),
        ("b\\a.py", "py"),
        (".bashrc", ""),
        ("b/.c", ""),
        ("a.tar.gz", "gz"),
        ("a.", ""),
    ] {
        let path = serde_json::json!(path);
        let input = format!(r#"{{"path":{path},"content":"x"}}"#);
        let (heard, _) = every_cut(input.as_bytes(), EditLimits::default(), &mut random);
        let told = heard.iter().find_map(|one| match one {
            Heard::Turn(tag, ..) => Some(tag.language),
            _ => None,
        });
        let told = told.expect("something is added");
        let told = told.as_ref().map_or("", |it| it.name());
        assert_eq!(told, language, "{path}");
    }
}

#[test]
fn lines_of_patches_that_are_easily_mistaken_are_what_they_are() {
    for (patch, read) in [
        (
            r"*** Begin Patch\n*** Delete File: a\n@@\n+k\n*** End Patch",
            ["", "", ""],
        ),
        (
            r"*** Begin Patch\n*** Add File: a\n+k\n*** Begin Patch\n+l\n*** End Patch",
            ["k", "", "k"],
        ),
        (
            r"*** Begin Patch\n*** Update File: a\n@@\n-k\n+l\n*** End of File\n*** End Patch",
            ["l", "k", "l"],
        ),
        (r"@@\n+k", ["", "", ""]),
        (
            r"--- a/a\n+++ b/a\n@@ -1 +1 @@\n-k\n\\ No newline\n+l\n",
            ["l", "k", "l"],
        ),
        // Not a header: by the counts, that many lines remain.
        (
            r"--- a/a\n+++ b/a\n@@ -1,3 +1,3 @@\n k\n--- l\n+++ m\n n\n",
            ["++ m", "-- l", "k\n++ m\nn"],
        ),
    ] {
        let got = check(&format!(r#"{{"patch":"{patch}"}}"#));
        let got = [&got.added, &got.removed, &got.file].map(|texts| {
            let texts: Vec<&str> = texts.iter().map(|(_, text)| text.as_str()).collect();
            texts.join("|")
        });
        assert_eq!(got, read, "{patch}");
    }
}

#[test]
fn a_line_of_a_patch_that_is_too_long_is_what_its_marker_says() {
    let limits = EditLimits {
        waiting: 40,
        ..EditLimits::default()
    };
    let shown = |texts: &[(String, String)]| -> Vec<String> {
        texts.iter().map(|(_, text)| text.clone()).collect()
    };
    let long = "abcdefghij".repeat(5);
    for (patch, read, long_lines) in [
        (
            r"*** Begin Patch\n*** Add File: a\n+LONG\n+k\n*** End Patch",
            ["LONG\nk", "", "LONG\nk"],
            0,
        ),
        (
            r"*** Begin Patch\n*** Add File: a\nLONG\n+k\n*** End Patch",
            ["LONG\nk", "", "LONG\nk"],
            1,
        ),
        (
            r"*** Begin Patch\n*** Update File: a\n@@\n+LONG\n k\n*** End Patch",
            ["LONG", "", "LONG\nk"],
            1,
        ),
        (
            r"*** Begin Patch\n*** Update File: a\n@@\n-LONG\n k\n*** End Patch",
            ["", "LONG", "k"],
            1,
        ),
        (
            r"*** Begin Patch\n*** Update File: a\n@@\n LONG\n k\n*** End Patch",
            ["", "", "LONG\nk"],
            1,
        ),
        (
            r"*** Begin Patch\n*** Update File: a\nLONG\n+k\n*** End Patch",
            ["k", "", "LONG\nk"],
            1,
        ),
        (
            r"*** Begin Patch\n*** Update File: a\nab\n+k\n-l\n\n*** End Patch",
            ["k", "l", "ab\nk\n"],
            0,
        ),
        (
            r"*** Begin Patch\n*** Delete File: a\nLONG\n+k\n*** End Patch",
            ["", "", ""],
            0,
        ),
        (
            r"<<<<<<< SEARCH\nLONG\nk\n=======\nl\n>>>>>>> REPLACE",
            ["l", "LONG|k", "l"],
            1,
        ),
        (
            r"<<<<<<< SEARCH\nk\n=======\nLONG\nl\n>>>>>>> REPLACE",
            ["LONG\nl", "k", "LONG\nl"],
            1,
        ),
        (
            r"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-LONG\n+k\n l\n",
            ["k", "LONG", "k\nl"],
            1,
        ),
        (
            r"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-k\n+LONG\n l\n",
            ["LONG", "k", "LONG\nl"],
            1,
        ),
        (
            r"--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n-k\nLONG\n+l\n",
            ["", "k", ""],
            0,
        ),
        (r"LONG\n+k", ["", "", ""], 0),
    ] {
        let input = format!(r#"{{"patch":"{}"}}"#, patch.replace("LONG", &long));
        let (got, counters) = under_limits(&input, limits);
        let got = [&got.added, &got.removed, &got.file].map(|texts| shown(texts));
        let got = got.map(|texts| texts.join("|").replace(&long, "LONG"));
        assert_eq!(
            (got, counters.long_lines),
            (read.map(str::to_owned), long_lines),
            "{patch}"
        );
    }
}
