//! Two oracles: `serde_json` gives the values of well-formed input; `Model`, a plain reader that has the whole input,
//! gives the role of every byte of any input.

use std::fmt::Debug;
use std::ops::Range;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use super::*;
use ttsr_testing::{Random, skip};

const DEPTH: usize = 128;
const PATH_BYTES: usize = 4096;

/// The start, the end and the `decided` of a byte of a haystack.
type ByteOffsets = (u64, u64, u64);

#[derive(Clone, Debug, Default, PartialEq)]
struct Haystack {
    path: Vec<String>,
    raw: bool,
    /// True if the haystack is an object key, whose path is `$keys`.
    key: bool,
    truncated: bool,
    at: u64,
    end: u64,
    decided: u64,
    bytes: Vec<u8>,
    places: Vec<ByteOffsets>,
}

#[derive(Debug, Default)]
struct Recorder {
    done: Vec<Haystack>,
    open: Option<Haystack>,
}

impl Recorder {
    fn current(&mut self) -> &mut Haystack {
        self.open.as_mut().expect("bytes outside a haystack")
    }
}

impl HaystackSink for Recorder {
    const READS_KEYS: bool = true;

    fn open_key(&mut self, at: u64) {
        assert!(self.open.is_none(), "a key opens inside another haystack");
        self.open = Some(Haystack {
            key: true,
            at,
            ..Haystack::default()
        });
    }

    fn open(&mut self, path: &ArgPath, at: u64) {
        assert!(self.open.is_none(), "a haystack opens inside another");
        assert_eq!(path.dotted(), path.segments().collect::<Vec<_>>().join("."));
        self.open = Some(Haystack {
            path: path.segments().map(str::to_owned).collect(),
            raw: path.is_raw(),
            truncated: path.is_truncated(),
            at,
            ..Haystack::default()
        });
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        assert!(!bytes.is_empty(), "an empty run");
        let haystack = self.current();
        haystack.bytes.extend_from_slice(bytes);
        haystack
            .places
            .extend((at..).take(bytes.len()).map(|at| (at, at + 1, at + 1)));
    }

    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        let haystack = self.current();
        haystack.bytes.extend_from_slice(utf8);
        haystack
            .places
            .extend(utf8.iter().map(|_| (source.start, source.end, decided)));
    }

    fn close(&mut self, end: DecidedOffset) {
        let mut haystack = self
            .open
            .take()
            .expect("a haystack closes that is not open");
        (haystack.end, haystack.decided) = (end.offset, end.decided);
        let mut at = haystack.at;
        for &(start, end, decided) in &haystack.places {
            // The bytes of one character share their offsets.
            assert!(
                start == at || end == at,
                "bytes of a haystack are not in a row"
            );
            assert!(start < end && end <= decided && decided <= haystack.decided);
            at = end;
        }
        assert_eq!(at, end.offset, "a haystack ends where its last byte does");
        self.done.push(haystack);
    }
}

/// Returns the haystacks that are not keys. Most tests are about paths.
fn without_keys(
    (haystacks, counters): (Vec<Haystack>, JsonCounters),
) -> (Vec<Haystack>, JsonCounters) {
    let values = haystacks.into_iter().filter(|one| !one.key);
    (values.collect(), counters)
}

fn decode_with<'a>(
    deltas: impl IntoIterator<Item = &'a [u8]>,
    depth: usize,
    path_bytes: usize,
) -> (Vec<Haystack>, JsonCounters) {
    without_keys(decode_all(deltas, depth, path_bytes))
}

fn decode_all<'a>(
    deltas: impl IntoIterator<Item = &'a [u8]>,
    depth: usize,
    path_bytes: usize,
) -> (Vec<Haystack>, JsonCounters) {
    let (mut decoder, mut recorder) = (JsonDecoder::new(depth, path_bytes), Recorder::default());
    for delta in deltas {
        decoder.push(delta, &mut recorder);
    }
    decoder.finish(&mut recorder);
    assert!(recorder.open.is_none(), "a haystack is open after the end");
    (recorder.done, decoder.counters())
}

fn decode<'a>(deltas: impl IntoIterator<Item = &'a [u8]>) -> (Vec<Haystack>, JsonCounters) {
    decode_with(deltas, DEPTH, PATH_BYTES)
}

/// Runs `same` on the whole, byte by byte, cut in two everywhere, and cut at random. Returns the number of runs.
fn every_cut(text: &[u8], seed: u64, mut same: impl FnMut(&[&[u8]])) -> u64 {
    let bytes: Vec<&[u8]> = text.chunks(1).collect();
    same(&[text]);
    same(&bytes);
    for cut in 1..text.len() {
        same(&[&text[..cut], &text[cut..]]);
    }
    let mut random = Random::new(seed);
    for longest in [2, 3, 5, 9, 17, 33, 65, 129] {
        let mut deltas = random.pieces(text, longest);
        same(&deltas);
        deltas.insert(random.below(deltas.len() + 1), b"");
        same(&deltas);
    }
    17 + text.len() as u64
}

/// Decodes under every cut, compares with the model, and returns the haystacks and counters.
fn check(text: &[u8]) -> (Vec<Haystack>, JsonCounters) {
    check_with(text, DEPTH, PATH_BYTES).0
}

fn check_with(
    text: &[u8],
    depth: usize,
    path_bytes: usize,
) -> ((Vec<Haystack>, JsonCounters), u64) {
    let expected = Model::read_all(text, depth, path_bytes);
    let cases = every_cut(text, text.len() as u64, |deltas| {
        let got = decode_all(deltas.iter().copied(), depth, path_bytes);
        assert_eq!(
            got,
            expected,
            "{deltas:?} of {:?}",
            String::from_utf8_lossy(text)
        );
    });
    (without_keys(expected), cases)
}

fn values(haystacks: &[Haystack]) -> Vec<(String, String)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let values = haystacks.iter().filter(|one| !one.key);
    values
        .map(|one| (one.path.join("."), text(&one.bytes)))
        .collect()
}

/// Asserts the values of `text` under every cut.
fn check_values(text: impl AsRef<[u8]>, expected: &[(&str, &str)]) -> JsonCounters {
    let (haystacks, counters) = check(text.as_ref());
    let expected: Vec<(String, String)> = expected
        .iter()
        .map(|&(path, value)| (path.to_owned(), value.to_owned()))
        .collect();
    assert_eq!(values(&haystacks), expected);
    counters
}

// ---- The model ----

/// The role of a byte.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fate {
    Unread,
    Structure,
    Delivered,
}

enum Stop {
    End,
    Broken(usize),
    Deep(usize),
}

struct Model<'a> {
    text: &'a [u8],
    depth: usize,
    path_bytes: usize,
    fates: Vec<Fate>,
    haystacks: Vec<Haystack>,
    counters: JsonCounters,
}

impl<'a> Model<'a> {
    /// Returns the haystacks of the whole text. Each byte has exactly one role, and the haystacks cover the bytes that
    /// are delivered.
    fn read(text: &'a [u8], depth: usize, path_bytes: usize) -> (Vec<Haystack>, JsonCounters) {
        without_keys(Model::read_all(text, depth, path_bytes))
    }

    fn read_all(text: &'a [u8], depth: usize, path_bytes: usize) -> (Vec<Haystack>, JsonCounters) {
        let mut model = Model {
            text,
            depth,
            path_bytes,
            fates: vec![Fate::Unread; text.len()],
            haystacks: Vec::new(),
            counters: JsonCounters::default(),
        };
        model.document();
        assert!(
            !model.fates.contains(&Fate::Unread),
            "the model left bytes out"
        );
        let delivered = model
            .fates
            .iter()
            .filter(|&&fate| fate == Fate::Delivered)
            .count();
        let covered: u64 = model.haystacks.iter().map(|one| one.end - one.at).sum();
        assert_eq!(covered, delivered as u64);
        (model.haystacks, model.counters)
    }

    fn mark(&mut self, range: Range<usize>, fate: Fate) {
        for old in &mut self.fates[range] {
            assert_eq!(*old, Fate::Unread, "a byte has two fates");
            *old = fate;
        }
    }

    fn deliver(&mut self, mut haystack: Haystack, range: Range<usize>, decided: usize) {
        self.mark(range.clone(), Fate::Delivered);
        haystack.at = range.start as u64;
        haystack.end = range.end as u64;
        haystack.decided = decided as u64;
        self.haystacks.push(haystack);
    }

    fn as_is(&self, range: Range<usize>) -> (Vec<u8>, Vec<ByteOffsets>) {
        let places = range
            .clone()
            .map(|at| (at as u64, at as u64 + 1, at as u64 + 1))
            .collect();
        (self.text[range].to_vec(), places)
    }

    /// Adds a raw haystack whose first `held` bytes are certain only at `decided`.
    fn raw(&mut self, range: Range<usize>, held: usize, decided: usize) {
        let (bytes, mut places) = self.as_is(range.clone());
        for place in &mut places[..held] {
            place.2 = decided as u64;
        }
        let path = vec![RAW.to_owned()];
        let end = range.end;
        let decided = if end == self.text.len() { end } else { end + 1 };
        let raw = Haystack {
            path,
            raw: true,
            bytes,
            places,
            ..Haystack::default()
        };
        self.deliver(raw, range, decided);
    }

    fn blanks(&mut self, at: usize) -> usize {
        let end = self.text[at..]
            .iter()
            .position(|byte| !b" \t\r\n".contains(byte));
        let end = end.map_or(self.text.len(), |count| at + count);
        // A token is visited twice if it is peeked at first.
        self.fates[at..end].fill(Fate::Structure);
        end
    }

    fn document(&mut self) {
        let length = self.text.len();
        let leading = self
            .text
            .iter()
            .take_while(|byte| b" \t\r\n".contains(byte))
            .count();
        let (held, decided) = match leading {
            0..=LEADING_BLANKS => (leading, length.min(leading + 1)),
            _ => (LEADING_BLANKS, LEADING_BLANKS + 1),
        };
        if self.text.get(leading) != Some(&b'{') {
            if length > 0 {
                self.counters.raw = 1;
                self.raw(0..length, held, decided);
            }
            return;
        }
        if leading > LEADING_BLANKS {
            self.raw(0..leading, held, decided);
        } else {
            self.mark(0..leading, Fate::Structure);
        }
        let stop = match self.value(leading, &mut Vec::new(), 0) {
            Ok(end) => match self.blanks(end) {
                end if end < length => Stop::Broken(end),
                _ => Stop::End,
            },
            Err(stop) => stop,
        };
        match stop {
            Stop::End => {}
            Stop::Broken(at) => {
                self.counters.malformed += 1;
                self.raw(at..length, 0, 0);
            }
            Stop::Deep(at) => {
                self.counters.too_deep += 1;
                self.raw(at..length, 0, 0);
            }
        }
    }

    /// Returns the first byte after blanks from `at` on, and its offset.
    fn token(&mut self, at: usize) -> Result<(usize, u8), Stop> {
        let at = self.blanks(at);
        self.text.get(at).map(|&byte| (at, byte)).ok_or(Stop::End)
    }

    fn expect(&mut self, at: usize, wanted: u8) -> Result<usize, Stop> {
        let (at, byte) = self.token(at)?;
        if byte != wanted {
            return Err(Stop::Broken(at));
        }
        self.mark(at..at + 1, Fate::Structure);
        Ok(at + 1)
    }

    fn value(&mut self, at: usize, path: &mut Vec<String>, depth: usize) -> Result<usize, Stop> {
        let (at, byte) = self.token(at)?;
        match byte {
            b'{' | b'[' if depth == self.depth => Err(Stop::Deep(at)),
            b'{' => self.object(at, path, depth + 1),
            b'[' => self.array(at, path, depth + 1),
            b'"' => {
                self.mark(at..at + 1, Fate::Structure);
                let (bytes, places, end) = self.string(at + 1);
                let closed = end < self.text.len();
                let value = Haystack {
                    bytes,
                    places,
                    ..self.haystack(path)
                };
                self.deliver(value, at + 1..end, end + usize::from(closed));
                self.mark(end..end + usize::from(closed), Fate::Structure);
                if closed { Ok(end + 1) } else { Err(Stop::End) }
            }
            _ => self.scalar(at, path),
        }
    }

    fn scalar(&mut self, at: usize, path: &[String]) -> Result<usize, Stop> {
        let rest = &self.text[at..];
        let words = ["true", "false", "null"];
        let word = words.into_iter().find(|word| word.as_bytes()[0] == rest[0]);
        let length = match word {
            Some(word) => word.bytes().zip(rest).take_while(|(a, b)| a == *b).count(),
            None if !b"-0123456789".contains(&rest[0]) => return Err(Stop::Broken(at)),
            None => rest
                .iter()
                .take_while(|byte| b"-+.eE0123456789".contains(byte))
                .count(),
        };
        let end = at + length;
        let complete = word.is_some_and(|word| word.len() == length);
        let (bytes, places) = self.as_is(at..end);
        let value = Haystack {
            bytes,
            places,
            ..self.haystack(path)
        };
        let certain = if complete || end == self.text.len() {
            end
        } else {
            end + 1
        };
        self.deliver(value, at..end, certain);
        match word {
            _ if end == self.text.len() => Err(Stop::End),
            Some(_) if !complete => Err(Stop::Broken(end)),
            _ => Ok(end),
        }
    }

    fn haystack(&mut self, path: &[String]) -> Haystack {
        let fits = |count: &usize| path[..*count].join(".").len() <= self.path_bytes;
        let kept = (0..=path.len()).take_while(fits).last().unwrap_or(0);
        let truncated = kept < path.len();
        self.counters.path_truncated += u64::from(truncated);
        Haystack {
            path: path[..kept].to_vec(),
            truncated,
            ..Haystack::default()
        }
    }

    fn array(&mut self, at: usize, path: &mut Vec<String>, depth: usize) -> Result<usize, Stop> {
        let mut at = self.expect(at, b'[')?;
        if self.token(at)?.1 == b']' {
            return self.expect(at, b']');
        }
        for index in 0.. {
            path.push(index.to_string());
            at = self.value(at, path, depth)?;
            path.pop();
            match self.token(at)?.1 {
                b',' => at = self.expect(at, b',')?,
                _ => return self.expect(at, b']'),
            }
        }
        unreachable!("an array of endless elements")
    }

    fn object(&mut self, at: usize, path: &mut Vec<String>, depth: usize) -> Result<usize, Stop> {
        let mut at = self.expect(at, b'{')?;
        if self.token(at)?.1 == b'}' {
            return self.expect(at, b'}');
        }
        loop {
            at = self.expect(at, b'"')?;
            let (key, places, end) = self.string(at);
            let closed = end < self.text.len();
            let name = Haystack {
                key: true,
                bytes: key.clone(),
                places,
                ..Haystack::default()
            };
            self.deliver(name, at..end, end + usize::from(closed));
            if end == self.text.len() {
                return Err(Stop::End);
            }
            self.mark(end..end + 1, Fate::Structure);
            path.push(String::from_utf8_lossy(&key).into_owned());
            at = self.expect(end + 1, b':')?;
            at = self.value(at, path, depth)?;
            path.pop();
            match self.token(at)?.1 {
                b',' => at = self.expect(at, b',')?,
                _ => return self.expect(at, b'}'),
            }
        }
    }

    /// Returns the decoded string from `at` on, and its end: at its quote or at the end of the text.
    fn string(&mut self, mut at: usize) -> (Vec<u8>, Vec<ByteOffsets>, usize) {
        let (mut bytes, mut places) = (Vec::new(), Vec::new());
        while at < self.text.len() && self.text[at] != b'"' {
            let (decoded, end, decided, as_is) = match self.text[at] {
                b'\\' => self.escape(at),
                byte => (vec![byte], at + 1, at + 1, false),
            };
            for (i, &byte) in decoded.iter().enumerate() {
                let (start, end) = if as_is {
                    (at + i, at + i + 1)
                } else {
                    (at, end)
                };
                bytes.push(byte);
                places.push((start as u64, end as u64, decided as u64));
            }
            at = end;
        }
        (bytes, places, at)
    }

    /// Returns the decoded bytes, the end of the escape, where that is certain, and true if the escape is invalid.
    fn escape(&mut self, at: usize) -> (Vec<u8>, usize, usize, bool) {
        let rest = &self.text[at..];
        let certain = |fitting: usize| self.text.len().min(at + fitting + 1);
        let short = rest
            .get(1)
            .and_then(|name| b"\"\\/bfnrt".iter().position(|one| one == name));
        if let Some(place) = short {
            return (vec![b"\"\\/\x08\x0C\n\r\t"[place]], at + 2, at + 2, false);
        }
        let fitting = fitting(rest, ["\\", "u", HEX, HEX, HEX, HEX]);
        if fitting < 6 {
            self.counters.malformed += 1;
            return (
                rest[..fitting].to_vec(),
                at + fitting,
                certain(fitting),
                true,
            );
        }
        let unit =
            |text: &[u8]| u16::from_str_radix(str::from_utf8(&text[2..6]).unwrap(), 16).unwrap();
        let mut units = vec![unit(rest)];
        let mut decided = at + 6;
        if (0xD800..0xDC00).contains(&units[0]) {
            let low = self::fitting(&rest[6..], ["\\", "u", "dD", "cdefCDEF", HEX, HEX]);
            decided = certain(6 + low);
            if low == 6 {
                units.push(unit(&rest[6..]));
                decided = at + 12;
            }
        }
        let decoded = String::from_utf16_lossy(&units);
        let lone = String::from_utf16(&units).is_err();
        self.counters.lone_surrogates += u64::from(lone);
        (decoded.into_bytes(), at + 6 * units.len(), decided, false)
    }
}

const HEX: &str = "0123456789abcdefABCDEF";

/// Returns the number of leading bytes that are in the class at their index.
fn fitting(text: &[u8], classes: [&str; 6]) -> usize {
    text.iter()
        .zip(classes)
        .take_while(|(byte, class)| class.as_bytes().contains(byte))
        .count()
}

// ---- serde_json as an oracle, with every duplicate key ----

#[derive(Clone, Debug, PartialEq)]
enum Leaf {
    Text(String),
    Number(f64),
    Word(&'static str),
}

struct Flatten<'a> {
    path: &'a mut Vec<String>,
    keys: &'a mut Vec<String>,
    leaves: &'a mut Vec<(Vec<String>, Leaf)>,
}

impl Flatten<'_> {
    fn leaf<E>(self, leaf: Leaf) -> Result<(), E> {
        self.leaves.push((self.path.clone(), leaf));
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Flatten<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, input: D) -> Result<(), D::Error> {
        input.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Flatten<'_> {
    type Value = ();

    fn expecting(&self, out: &mut std::fmt::Formatter) -> std::fmt::Result {
        out.write_str("any value")
    }
    fn visit_str<E>(self, text: &str) -> Result<(), E> {
        self.leaf(Leaf::Text(text.to_owned()))
    }
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.leaf(Leaf::Word(if value { "true" } else { "false" }))
    }
    fn visit_unit<E>(self) -> Result<(), E> {
        self.leaf(Leaf::Word("null"))
    }
    fn visit_u64<E>(self, number: u64) -> Result<(), E> {
        self.leaf(Leaf::Number(number as f64))
    }
    fn visit_i64<E>(self, number: i64) -> Result<(), E> {
        self.leaf(Leaf::Number(number as f64))
    }
    fn visit_f64<E>(self, number: f64) -> Result<(), E> {
        self.leaf(Leaf::Number(number))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        for index in 0.. {
            self.path.push(index.to_string());
            let more = elements.next_element_seed(Flatten {
                path: &mut *self.path,
                keys: &mut *self.keys,
                leaves: &mut *self.leaves,
            })?;
            self.path.pop();
            if more.is_none() {
                break;
            }
        }
        Ok(())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<(), A::Error> {
        while let Some(key) = entries.next_key::<String>()? {
            self.keys.push(key.clone());
            self.path.push(key);
            entries.next_value_seed(Flatten {
                path: &mut *self.path,
                keys: &mut *self.keys,
                leaves: &mut *self.leaves,
            })?;
            self.path.pop();
        }
        Ok(())
    }
}

type Leaves = Vec<(Vec<String>, Leaf)>;

fn serde_leaves(text: &[u8]) -> serde_json::Result<Leaves> {
    serde_keys_and_leaves(text).map(|(_, leaves)| leaves)
}

fn serde_keys_and_leaves(text: &[u8]) -> serde_json::Result<(Vec<String>, Leaves)> {
    let (mut path, mut keys, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    let mut input = serde_json::Deserializer::from_slice(text);
    Flatten {
        path: &mut path,
        keys: &mut keys,
        leaves: &mut leaves,
    }
    .deserialize(&mut input)?;
    input.end()?;
    Ok((keys, leaves))
}

fn same_leaf(written: &str, leaf: &Leaf) -> bool {
    match leaf {
        Leaf::Text(text) => written == text,
        Leaf::Word(word) => written == *word,
        Leaf::Number(number) => {
            // serde_json rounds the last bit differently.
            let own: f64 = written.parse().unwrap();
            (own - number).abs() <= own.abs() * 1e-14
        }
    }
}

// ---- Random documents ----

#[derive(Clone, Debug)]
enum Tree {
    Text(String),
    Written(String),
    Array(Vec<Tree>),
    Object(Vec<(String, Tree)>),
}

fn any_text() -> impl Strategy<Value = String> {
    let char = prop_oneof![
        6 => proptest::char::range(' ', '~'),
        2 => proptest::sample::select(vec!['"', '\\', '/', '\n', '\r', '\t', '\x08', '\x0C', '\0']),
        1 => proptest::sample::select(vec!['é', '漢', '😀', '\u{FFFD}', '\u{2028}', '\u{10FFFF}']),
        1 => any::<char>(),
    ];
    proptest::collection::vec(char, 0..12).prop_map(String::from_iter)
}

fn any_key() -> impl Strategy<Value = String> {
    let usual = [
        "command", "path", "edits", "new_text", "a", "", "$raw", "a.b",
    ];
    prop_oneof![3 => proptest::sample::select(usual.to_vec()).prop_map(str::to_owned), 1 => any_text()]
}

fn any_object() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        4 => any_text().prop_map(Tree::Text),
        1 => "-?(0|[1-9][0-9]{0,11})(\\.[0-9]{1,5})?([eE][+-]?[0-9]{1,2})?".prop_map(Tree::Written),
        1 => proptest::sample::select(vec!["true", "false", "null"])
            .prop_map(|word| Tree::Written(word.to_owned())),
    ];
    let tree = leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Tree::Array),
            proptest::collection::vec((any_key(), inner), 0..4).prop_map(Tree::Object),
        ]
    });
    proptest::collection::vec((any_key(), tree), 0..7).prop_map(Tree::Object)
}

/// Writes a tree with every freedom of JSON: blanks, and each spelling of a character.
struct Writer {
    random: Random,
    out: Vec<u8>,
    leaves: Vec<(Vec<String>, String)>,
    path: Vec<String>,
}

impl Writer {
    fn write(tree: &Tree, seed: u64) -> Writer {
        let (out, leaves, path) = Default::default();
        let mut writer = Writer {
            random: Random::new(seed),
            out,
            leaves,
            path,
        };
        writer.tree(tree);
        writer
    }

    fn blanks(&mut self) {
        if self.random.below(3) == 0 {
            for _ in 0..=self.random.below(2) {
                let blank = b" \t\r\n"[self.random.below(4)];
                self.out.push(blank);
            }
        }
    }

    fn token(&mut self, token: &str) {
        self.blanks();
        self.out.extend_from_slice(token.as_bytes());
        self.blanks();
    }

    fn tree(&mut self, tree: &Tree) {
        match tree {
            Tree::Text(text) => {
                self.leaves.push((self.path.clone(), text.clone()));
                self.string(text);
            }
            Tree::Written(text) => {
                self.leaves.push((self.path.clone(), text.clone()));
                self.token(text);
            }
            Tree::Array(elements) => {
                self.token("[");
                for (index, element) in elements.iter().enumerate() {
                    if index > 0 {
                        self.token(",");
                    }
                    self.path.push(index.to_string());
                    self.tree(element);
                    self.path.pop();
                }
                self.token("]");
            }
            Tree::Object(entries) => {
                self.token("{");
                for (index, (key, value)) in entries.iter().enumerate() {
                    if index > 0 {
                        self.token(",");
                    }
                    self.string(key);
                    self.token(":");
                    self.path.push(key.clone());
                    self.tree(value);
                    self.path.pop();
                }
                self.token("}");
            }
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push(b'"');
        for char in text.chars() {
            self.char(char);
        }
        self.out.push(b'"');
    }

    fn char(&mut self, char: char) {
        let must = char < ' ' || char == '"' || char == '\\';
        let short = "\"\\/\x08\x0C\n\r\t"
            .find(char)
            .map(|place| b"\"\\/bfnrt"[place]);
        match (self.random.below(4), short) {
            (0, _) => self.units(char),
            (1, None) if must => self.units(char),
            (1, Some(name)) => self.out.extend([b'\\', name]),
            (_, Some(name)) if must => self.out.extend([b'\\', name]),
            _ if must => self.units(char),
            _ => self.out.extend(char.encode_utf8(&mut [0; 4]).bytes()),
        }
    }

    fn units(&mut self, char: char) {
        for unit in char.encode_utf16(&mut [0; 2]) {
            let written = match self.random.below(2) {
                0 => format!("\\u{unit:04x}"),
                _ => format!("\\u{unit:04X}"),
            };
            self.out.extend(written.bytes());
        }
    }
}

fn run_cases<S: Strategy<Value: Debug>>(
    documents: u32,
    strategy: S,
    test: impl Fn(S::Value) -> u64,
) -> u64 {
    let total = std::cell::Cell::new(0);
    let config = ProptestConfig {
        cases: documents,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    let run = |value| {
        total.set(total.get() + test(value));
        Ok(())
    };
    TestRunner::new(config)
        .run(&strategy, run)
        .unwrap_or_else(|failure| panic!("{failure}"));
    total.get()
}

#[test]
fn any_document_decodes_as_serde_json_reads_it_under_every_cut() {
    let cases = run_cases(2_000, (any_object(), any::<u64>()), |(tree, seed)| {
        let Writer { out, leaves, .. } = Writer::write(&tree, seed);
        let (keys, oracle) = serde_keys_and_leaves(&out).unwrap();
        let read = decode_all([&out[..]], DEPTH, PATH_BYTES).0;
        let read = read.iter().filter(|one| one.key);
        assert!(
            read.map(|one| &one.bytes[..])
                .eq(keys.iter().map(String::as_bytes))
        );
        let ((haystacks, counters), cases) = check_with(&out, DEPTH, PATH_BYTES);
        assert_eq!(counters, JsonCounters::default());
        assert_eq!(haystacks.len(), oracle.len());
        for ((haystack, leaf), own) in haystacks.iter().zip(&oracle).zip(&leaves) {
            let written = str::from_utf8(&haystack.bytes).unwrap();
            assert_eq!(haystack.path, leaf.0);
            assert!(
                same_leaf(written, &leaf.1),
                "{written:?} is not {:?}",
                leaf.1
            );
            assert_eq!((&haystack.path, written), (&own.0, own.1.as_str()));
        }
        cases
    });
    eprintln!("well-formed documents: {cases} cases of document and cut");
    assert!(cases > 200_000);
}

#[test]
fn any_cut_off_document_delivers_what_came() {
    let cases = run_cases(60, (any_object(), any::<u64>()), |(tree, seed)| {
        let text = Writer::write(&tree, seed).out;
        let (whole, _) = decode([&text[..]]);
        for end in 0..text.len() {
            let read = Model::read_all(&text[..end], DEPTH, PATH_BYTES);
            assert_eq!(decode_all([&text[..end]], DEPTH, PATH_BYTES), read);
            assert_eq!(decode_all(text[..end].chunks(1), DEPTH, PATH_BYTES), read);
            let (cut, _) = without_keys(read);
            let ended = |one: &&Haystack| one.decided <= end as u64;
            let complete: Vec<&Haystack> = whole.iter().filter(ended).collect();
            assert!(cut.iter().zip(&complete).all(|(cut, whole)| {
                let same = (&cut.path, &cut.bytes) == (&whole.path, &whole.bytes);
                same || cut.raw
            }));
            assert!(
                cut.len() >= complete.len(),
                "a complete field is missing at {end}"
            );
        }
        2 * text.len() as u64
    });
    eprintln!("truncated documents: {cases} cases");
}

fn mutate(text: &mut Vec<u8>, random: &mut Random) {
    const NASTY: &[&[u8]] = &[
        b"\"",
        b"\\",
        b"{",
        b"}",
        b"[",
        b"]",
        b":",
        b",",
        b" ",
        b"'",
        b"//",
        b"/*",
        b"NaN",
        b"-",
        b"1",
        b"tru",
        b"nul",
        b"\\u",
        b"\\ud83d",
        b"\\ude00",
        b"\\u12",
        b"\\x",
        b"\0",
        b"\n",
        b"\xFF",
        b"\xE2\x82",
        b"\xEF\xBB\xBF",
        b"\\\"",
    ];
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let end = text.len().min(at + random.below(4));
        let new = NASTY[random.below(NASTY.len())];
        match random.below(4) {
            0 => drop(text.drain(at..end)),
            1 => drop(text.splice(at..end, new.iter().copied())),
            2 => drop(text.splice(at..at, text[at..end].to_vec())),
            _ => drop(text.splice(at..at, new.iter().copied())),
        }
    }
}

/// Returns true if `serde_json` rejects input that this decoder accepts on purpose: raw control characters, keys that
/// are not UTF-8, numbers like `1-2`.
fn lenient(text: &[u8], haystacks: &[Haystack], error: &str) -> bool {
    let odd_number = |one: &Haystack| {
        text[one.at as usize - 1] != b'"'
            && serde_json::from_slice::<serde::de::IgnoredAny>(&one.bytes).is_err()
    };
    let kinds = ["control character", "unicode code point", "out of range"];
    kinds.iter().any(|kind| error.contains(kind)) || haystacks.iter().any(odd_number)
}

#[test]
fn any_broken_document_is_delivered_to_the_last_byte_under_every_cut() {
    let strategy = (any_object(), any::<u64>(), 0_usize..8, 0_usize..40);
    let cases = run_cases(1_500, strategy, |(tree, seed, depth, path_bytes)| {
        let mut text = Writer::write(&tree, seed).out;
        mutate(&mut text, &mut Random::new(!seed));
        let (depth, path_bytes) = if seed % 2 == 0 {
            (DEPTH, PATH_BYTES)
        } else {
            (depth, path_bytes)
        };
        let ((haystacks, counters), cases) = check_with(&text, depth, path_bytes);
        let sound = haystacks.iter().all(|one| !one.raw) && counters.malformed == 0;
        match serde_leaves(&text) {
            Ok(leaves) if sound => assert_eq!(leaves.len(), haystacks.len()),
            Ok(_) => assert!(
                counters.too_deep + counters.raw > 0,
                "sound JSON was refused"
            ),
            Err(error) if error.is_eof() => {}
            Err(error) => {
                let refused = !sound || counters.lone_surrogates > 0;
                let error = error.to_string();
                assert!(
                    refused || lenient(&text, &haystacks, &error),
                    "let through: {error}"
                );
            }
        }
        cases
    });
    eprintln!("broken documents: {cases} cases of document and cut");
}

#[test]
fn any_bytes_are_delivered_to_the_last_under_every_cut() {
    let byte = prop_oneof![
        3 => proptest::sample::select(b"{}[]:,\"\\u0dD8cC tfn-1e.\n".to_vec()),
        1 => any::<u8>(),
    ];
    let start = proptest::sample::select(vec!["", "{", "{\"a\":", "{\"a\":[\"", " {\"\\ud83d"]);
    let cases = run_cases(
        4_000,
        (start, proptest::collection::vec(byte, 0..40)),
        |(start, rest)| {
            let text = [start.as_bytes(), &rest].concat();
            check_with(&text, 3, 8).1
        },
    );
    eprintln!("garbage: {cases} cases of document and cut");
}

/// Returns the tool input of recorded streams, with the original cuts.
fn recorded(folder: &std::path::Path) -> Vec<Vec<String>> {
    let mut inputs = Vec::new();
    for entry in std::fs::read_dir(folder.join("streams")).unwrap() {
        let path = entry.unwrap().path();
        if path
            .extension()
            .is_none_or(|extension| extension != "jsonl")
        {
            continue;
        }
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let stream: serde_json::Value = serde_json::from_str(line).unwrap();
            let parts = stream["parts"].as_array().unwrap();
            let mut deltas = vec![Vec::new(); parts.len()];
            for delta in stream["deltas"].as_array().unwrap() {
                let part = delta[0].as_u64().unwrap() as usize;
                deltas[part].push(delta[1].as_str().unwrap().to_owned());
            }
            let of_tools = parts
                .iter()
                .zip(deltas)
                .filter(|(part, _)| part["kind"] == "tool-input");
            inputs.extend(of_tools.map(|(_, deltas)| deltas));
        }
    }
    inputs
}

#[test]
fn recorded_tool_input_decodes_as_serde_json_reads_it() {
    let Some(folder) = skip::corpus() else {
        return;
    };
    let (mut objects, mut others, mut cases) = (0, 0, 0);
    for deltas in recorded(&folder) {
        let text = deltas.concat().into_bytes();
        let expected = Model::read(&text, DEPTH, PATH_BYTES);
        assert_eq!(decode(deltas.iter().map(String::as_bytes)), expected);
        if text.len() < 2_000 {
            cases += check_with(&text, DEPTH, PATH_BYTES).1;
        }
        match serde_leaves(&text) {
            Ok(leaves) if text.trim_ascii_start().starts_with(b"{") => {
                assert_eq!(expected.1, JsonCounters::default());
                assert!(
                    leaves
                        .iter()
                        .map(|leaf| &leaf.0)
                        .eq(expected.0.iter().map(|one| &one.path))
                );
                for (haystack, (_, leaf)) in expected.0.iter().zip(&leaves) {
                    assert!(same_leaf(str::from_utf8(&haystack.bytes).unwrap(), leaf));
                }
                objects += 1;
            }
            _ => others += 1,
        }
    }
    eprintln!("recorded tool input: {objects} objects, {others} others, {cases} more cases");
    assert!(objects > 0);
}

// ---- Named faults ----

/// Checks a single value at `v`, the string written between the quotes.
fn check_string(written: &str, decoded: &str) -> JsonCounters {
    let text = format!("{{\"v\":\"{written}\"}}");
    check_values(&text, &[("v", decoded)])
}

#[test]
fn a_surrogate_pair_in_two_deltas_is_one_character() {
    assert_eq!(
        check_string(r"\uD83D\uDE00", "\u{1F600}"),
        JsonCounters::default()
    );
    assert_eq!(
        check_string(r"a\ud83d\ude00b", "a\u{1F600}b"),
        JsonCounters::default()
    );
    assert_eq!(
        check_string(r"\ud800\udc00\uDBFF\uDFFF", "\u{10000}\u{10FFFF}"),
        JsonCounters::default()
    );
    let (haystacks, _) = decode([&br#"{"v":"\ud83d"#[..], br#"\ude00"}"#]);
    assert_eq!(haystacks[0].places, [(6, 18, 18); 4]);
}

#[test]
fn a_lone_surrogate_is_a_replacement_character_of_its_own_six_bytes() {
    let cases = [
        (r"\ud83d", "\u{FFFD}", 1, (6, 12, 13)),
        (r"\ud83dx", "\u{FFFD}x", 1, (6, 12, 13)),
        (r"\ude00", "\u{FFFD}", 1, (6, 12, 12)),
        (r"\ude00\ud83d", "\u{FFFD}\u{FFFD}", 2, (6, 12, 12)),
        (r"\ud83d\ud83d\ude00", "\u{FFFD}\u{1F600}", 1, (6, 12, 16)),
        (r"\ud83d\n", "\u{FFFD}\n", 1, (6, 12, 14)),
        (r"\ud83d\u0041", "\u{FFFD}A", 1, (6, 12, 15)),
        (r"\ud83d\udb00", "\u{FFFD}\u{FFFD}", 2, (6, 12, 16)),
        (r"\ud83d\ude00\ude00", "\u{1F600}\u{FFFD}", 1, (6, 18, 18)),
    ];
    for (written, decoded, lone, first) in cases {
        let expected = JsonCounters {
            lone_surrogates: lone,
            ..JsonCounters::default()
        };
        assert_eq!(check_string(written, decoded), expected, "{written}");
        let text = format!("{{\"v\":\"{written}\"}}");
        assert_eq!(decode([text.as_bytes()]).0[0].places[0], first, "{written}");
    }
}

#[test]
fn a_lone_surrogate_before_what_is_no_escape() {
    let counters = check_string(r"\ud83d\udex", "\u{FFFD}\\udex");
    assert_eq!((counters.lone_surrogates, counters.malformed), (1, 1));
    let (haystacks, counters) = check(br#"{"v":"\ud83d\u"#);
    assert_eq!(haystacks[0].bytes, "\u{FFFD}\\u".as_bytes());
    assert_eq!((counters.lone_surrogates, counters.malformed), (1, 1));
}

#[test]
fn an_escaped_letter_is_decoded_whatever_byte_it_is_cut_at() {
    assert_eq!(
        check_string(r"\u0072m -rf", "rm -rf"),
        JsonCounters::default()
    );
    let text = br#"{"command":"\u0072m"}"#;
    for cut in 12..18 {
        let (haystacks, _) = decode([&text[..cut], &text[cut..]]);
        assert_eq!(
            haystacks[0].places,
            [(12, 18, 18), (18, 19, 19)],
            "cut at {cut}"
        );
    }
}

#[test]
fn short_escapes_cut_after_the_backslash() {
    let counters = check_string(r#"\/\b\f\n\r\t\"\\"#, "/\x08\x0C\n\r\t\"\\");
    assert_eq!(counters, JsonCounters::default());
}

#[test]
fn a_double_escape_is_decoded_once() {
    assert_eq!(
        check_string(r"\\u0072m \\\\n", r"\u0072m \\n"),
        JsonCounters::default()
    );
    check_values(
        r#"{"v":"{\"w\":\"\\u0072\"}"}"#,
        &[("v", r#"{"w":"\u0072"}"#)],
    );
}

#[test]
fn an_escape_that_is_none_stands_for_itself() {
    let cases = [
        (r"\x41", r"\x41", 1),
        (r"\u00", r"\u00", 1),
        (r"\u00g", r"\u00g", 1),
        (r"\u\n", "\\u\n", 1),
        (r"\'\$", r"\'\$", 2),
        ("\\é", "\\é", 1),
        (r"C:\Users\me", r"C:\Users\me", 2),
    ];
    for (written, decoded, malformed) in cases {
        let expected = JsonCounters {
            malformed,
            ..JsonCounters::default()
        };
        assert_eq!(check_string(written, decoded), expected, "{written}");
    }
}

#[test]
fn a_part_that_ends_inside_an_escape_loses_no_byte() {
    for end in [r"\", r"\u", r"\u0", r"\u00", r"\u007"] {
        let (haystacks, counters) = check(format!("{{\"v\":\"a{end}").as_bytes());
        assert_eq!(haystacks[0].bytes, format!("a{end}").as_bytes());
        assert_eq!(counters.malformed, 1, "{end}");
    }
    let (haystacks, counters) = check(br#"{"v":"a\ud83d"#);
    assert_eq!(haystacks[0].bytes, "a\u{FFFD}".as_bytes());
    assert_eq!((counters.lone_surrogates, counters.malformed), (1, 0));
}

#[test]
fn control_characters_and_invalid_utf8_in_strings_stay_as_they_are() {
    assert_eq!(
        check_string("a\nb\0c\u{7F}", "a\nb\0c\u{7F}"),
        JsonCounters::default()
    );
    let (haystacks, counters) = check(b"{\"v\":\"\xFF\xC0\xAF\xED\xA0\x80\xE2\x82\"}");
    assert_eq!(haystacks[0].bytes, b"\xFF\xC0\xAF\xED\xA0\x80\xE2\x82");
    assert_eq!(counters, JsonCounters::default());
}

#[test]
fn what_is_not_an_object_is_one_raw_haystack_from_byte_0() {
    let texts = [
        "*** Begin Patch\n*** Update File: a.rs\n",
        "  \n\tls -la",
        "[{\"command\":\"ls\"}]",
        "\"text\"",
        "12",
        "   ",
        "\\u0072m",
        "x{\"a\":1}",
    ];
    for text in texts {
        let (haystacks, counters) = check(text.as_bytes());
        assert_eq!(values(&haystacks), [(RAW.to_owned(), text.to_owned())]);
        assert!(haystacks[0].raw && haystacks[0].at == 0);
        assert_eq!(
            counters,
            JsonCounters {
                raw: 1,
                ..JsonCounters::default()
            },
            "{text}"
        );
    }
    assert_eq!(check(b""), (Vec::new(), JsonCounters::default()));
}

#[test]
fn blanks_before_raw_input_are_certain_only_with_what_follows() {
    let (haystacks, _) = check(b"  x");
    assert_eq!(haystacks[0].places, [(0, 1, 3), (1, 2, 3), (2, 3, 3)]);
}

#[test]
fn no_amount_of_blanks_keeps_an_argument_from_being_decoded() {
    for blanks in [
        LEADING_BLANKS - 1,
        LEADING_BLANKS,
        LEADING_BLANKS + 1,
        3 * LEADING_BLANKS,
    ] {
        let blank = " \n".repeat(blanks)[..blanks].to_owned();
        let object = blank.clone() + r#"{"command":"\u0072m"}"#;
        let raw = blank.clone() + "patch";
        let texts = [
            (&object, blanks <= LEADING_BLANKS),
            (&raw, true),
            (&blank, true),
        ];
        for (text, held) in texts {
            let expected = Model::read(text.as_bytes(), DEPTH, PATH_BYTES);
            for size in [1, 7, 4095, 4096, 4097, usize::MAX] {
                assert_eq!(decode(text.as_bytes().chunks(size)), expected);
            }
            assert_eq!(expected.0.len(), if held { 1 } else { 2 });
        }
        let (haystacks, _) = decode([object.as_bytes()]);
        assert_eq!(haystacks.last().unwrap().bytes, b"rm");
    }
}

#[test]
fn a_cut_at_every_offset_keeps_the_fields_so_far() {
    let text = br#"{"path":"a.rs","edits":[{"old":"x\n","new":"\u0072m \ud83d\ude00"},{"n":-1.5e3}],"t":true}"#;
    for end in 0..=text.len() {
        let (haystacks, counters) = check(&text[..end]);
        assert!(haystacks.iter().all(|one| !one.raw), "cut at {end}");
        assert!(end < 14 || haystacks[0].bytes == b"a.rs");
        assert_eq!(counters.raw, 0);
    }
    check_values(
        text,
        &[
            ("path", "a.rs"),
            ("edits.0.old", "x\n"),
            ("edits.0.new", "rm \u{1F600}"),
            ("edits.1.n", "-1.5e3"),
            ("t", "true"),
        ],
    );
}

#[test]
fn endless_nesting_is_raw_from_the_first_container_too_deep() {
    let text = "{\"a\":".to_owned() + &"[".repeat(1_000_000);
    let deltas = |size| text.as_bytes().chunks(size);
    let (haystacks, counters) = decode(deltas(usize::MAX));
    assert_eq!(haystacks.len(), 1);
    // The object is the first container, so 127 brackets fit.
    assert_eq!(
        (haystacks[0].at, haystacks[0].end),
        (5 + 127, text.len() as u64)
    );
    assert_eq!(
        counters,
        JsonCounters {
            too_deep: 1,
            ..JsonCounters::default()
        }
    );
    assert_eq!(decode(deltas(1)), (haystacks, counters));

    let objects = "{\"a\":".repeat(1_000_000);
    assert_eq!(decode([objects.as_bytes()]).1.too_deep, 1);
    let (haystacks, counters) = decode(["[".repeat(1_000_000).as_bytes()]);
    assert_eq!((haystacks.len(), counters.raw), (1, 1));
}

#[test]
fn the_depth_limit_counts_containers() {
    let ((haystacks, counters), _) = check_with(br#"{"a":[1,{"b":"x"}]}"#, 2, PATH_BYTES);
    assert_eq!(
        values(&haystacks)[1],
        (RAW.to_owned(), r#"{"b":"x"}]}"#.to_owned())
    );
    assert_eq!((counters.too_deep, counters.malformed), (1, 0));
    let ((haystacks, _), _) = check_with(br#"{"a":[1,{"b":"x"}]}"#, 3, PATH_BYTES);
    assert_eq!(values(&haystacks)[1], ("a.1.b".to_owned(), "x".to_owned()));
    let ((haystacks, _), _) = check_with(br#"{"a":1}"#, 0, PATH_BYTES);
    assert_eq!(
        values(&haystacks),
        [(RAW.to_owned(), r#"{"a":1}"#.to_owned())]
    );
}

#[test]
fn duplicate_keys_are_each_a_haystack() {
    check_values(
        r#"{"command":"ls","command":"rm -rf /"}"#,
        &[("command", "ls"), ("command", "rm -rf /")],
    );
    check_values(
        r#"{"command":"rm -rf /","command":"ls"}"#,
        &[("command", "rm -rf /"), ("command", "ls")],
    );
}

#[test]
fn an_escaped_key_is_the_key_it_spells() {
    check_values(
        r#"{"\u0063ommand":"a","c\u006Fmmand":"b","\ud83d\ude00":"c","\n\"":"d"}"#,
        &[
            ("command", "a"),
            ("command", "b"),
            ("\u{1F600}", "c"),
            ("\n\"", "d"),
        ],
    );
}

#[test]
fn a_huge_key_takes_no_memory_and_its_value_is_read() {
    let (mut decoder, mut recorder) = (JsonDecoder::new(DEPTH, PATH_BYTES), Recorder::default());
    let block = [b'k'; 1 << 16];
    decoder.push(b"{\"", &mut recorder);
    for _ in 0..800 {
        decoder.push(&block, &mut recorder);
    }
    decoder.push(b"\":\"rm\",\"b\":{\"c\":1}}", &mut recorder);
    decoder.finish(&mut recorder);
    assert!(decoder.scratch.capacity() <= 2 * (PATH_BYTES + 1));
    assert!(decoder.path.text.capacity() <= 2 * (PATH_BYTES + 1));
    assert_eq!(
        decoder.counters(),
        JsonCounters {
            path_truncated: 1,
            ..JsonCounters::default()
        }
    );
    assert_eq!(
        values(&recorder.done),
        [(String::new(), "rm".into()), ("b.c".into(), "1".into())]
    );
    let values = recorder.done.iter().filter(|one| !one.key);
    assert!(values.map(|one| one.truncated).eq([true, false]));
}

#[test]
fn a_path_over_its_limit_keeps_whole_segments() {
    let text = br#"{"ab":{"cd":{"e":1},"f":2},"abcdef":3,"g":4}"#;
    let ((haystacks, counters), _) = check_with(text, DEPTH, 5);
    let paths: Vec<_> = haystacks
        .iter()
        .map(|one| (one.path.join("."), one.truncated))
        .collect();
    let expected = [("ab.cd", true), ("ab.f", false), ("", true), ("g", false)];
    assert_eq!(
        paths,
        expected.map(|(path, truncated)| (path.to_owned(), truncated))
    );
    assert_eq!(counters.path_truncated, 2);
    // Its members are truncated too, even if they would fit by themselves.
    let ((haystacks, _), _) = check_with(br#"{"a":{"long":{"b":1}},"c":2}"#, DEPTH, 3);
    let paths = haystacks
        .iter()
        .map(|one| (one.path.join("."), one.truncated));
    let expected = [("a".to_owned(), true), ("c".to_owned(), false)];
    assert_eq!(paths.collect::<Vec<_>>(), expected);
}

/// Asserts the keys of `text`, each with the offsets of its first and last byte, under every cut.
fn check_keys(text: &str, expected: &[(&str, u64, u64)]) {
    check(text.as_bytes());
    let (haystacks, _) = decode_all([text.as_bytes()], DEPTH, PATH_BYTES);
    let keys = haystacks.iter().filter(|one| one.key);
    let keys = keys.map(|one| (str::from_utf8(&one.bytes).unwrap(), one.at, one.end));
    assert_eq!(keys.collect::<Vec<_>>(), expected);
}

#[test]
fn every_key_is_a_haystack_at_its_own_offsets() {
    check_keys(
        r#"{"a":{"b":[{"c":1}]},"a":{},"":2}"#,
        &[
            ("a", 2, 3),
            ("b", 7, 8),
            ("c", 13, 14),
            ("a", 22, 23),
            ("", 29, 29),
        ],
    );
    check_keys(r#"{"\u0063o\ud83d\ude00":1}"#, &[("co\u{1F600}", 2, 21)]);
}

#[test]
fn a_key_that_is_cut_off_or_over_the_limit_is_read_to_its_last_byte() {
    check_keys(r#"{"a":1,"token"#, &[("a", 2, 3), ("token", 8, 13)]);
    check_keys(r#"{"to\u00"#, &[("to\\u00", 2, 8)]);
    let ((_, counters), _) = check_with(br#"{"abcdef":1}"#, DEPTH, 3);
    assert_eq!(counters.path_truncated, 1, "the key counts with its value");
    let (haystacks, _) = decode_all([&br#"{"abcdef":1}"#[..]], DEPTH, 3);
    assert_eq!(haystacks[0].bytes, b"abcdef");
}

#[test]
fn a_sink_that_does_not_read_keys_gets_nothing_of_them() {
    let (mut decoder, mut counter) = (JsonDecoder::new(DEPTH, PATH_BYTES), Counter::default());
    decoder.push(br#"{"\u0061bc":"v","d"#.as_slice(), &mut counter);
    decoder.finish(&mut counter);
    assert_eq!((counter.haystacks, counter.bytes), (1, 1));
}

/// A sink that only counts, for input that is too large to be recorded.
#[derive(Default)]
struct Counter {
    haystacks: u64,
    bytes: u64,
    calls: u64,
}

impl HaystackSink for Counter {
    fn open(&mut self, _: &ArgPath, _: u64) {
        self.haystacks += 1;
    }
    fn run(&mut self, bytes: &[u8], _: u64) {
        self.bytes += bytes.len() as u64;
        self.calls += 1;
    }
    fn escape(&mut self, utf8: &[u8], _: Range<u64>, _: u64) {
        self.bytes += utf8.len() as u64;
        self.calls += 1;
    }
    fn close(&mut self, _: DecidedOffset) {}
}

fn capacities(decoder: &JsonDecoder) -> [usize; 4] {
    [
        decoder.frames.capacity(),
        decoder.scratch.capacity(),
        decoder.path.text.capacity(),
        decoder.path.starts.capacity(),
    ]
}

#[test]
fn a_huge_value_is_handed_on_in_runs_and_kept_nowhere() {
    let (mut decoder, mut counter) = (JsonDecoder::new(DEPTH, PATH_BYTES), Counter::default());
    decoder.push(b"{\"content\":\"", &mut counter);
    let before = capacities(&decoder);
    let block = [b'v'; 1 << 16];
    for _ in 0..800 {
        decoder.push(&block, &mut counter);
    }
    assert_eq!((counter.bytes, counter.calls), (800 << 16, 800));
    assert_eq!(capacities(&decoder), before);
}

#[test]
fn many_keys_reuse_the_buffers() {
    let (mut decoder, mut counter) = (JsonDecoder::new(DEPTH, PATH_BYTES), Counter::default());
    decoder.push(b"{\"key 0\":[{\"k\":\"v\"},1]", &mut counter);
    let before = capacities(&decoder);
    for _ in 0..300_000 {
        decoder.push(b",\"\\u006bey\":[{\"k\":\"v\\n\"},1]", &mut counter);
    }
    assert_eq!(counter.haystacks, 2 * 300_001);
    assert_eq!(capacities(&decoder), before);
}

#[test]
fn numbers_are_never_parsed() {
    let digits = "7".repeat(1_000);
    let text = format!("{{\"a\":1e400,\"b\":-0,\"c\":{digits},\"d\":0.1E+05}}");
    let values = [
        ("a", "1e400"),
        ("b", "-0"),
        ("c", digits.as_str()),
        ("d", "0.1E+05"),
    ];
    assert_eq!(check_values(&text, &values), JsonCounters::default());
    let long = format!("{{\"a\":{}}}", "9".repeat(1_000_000));
    assert_eq!(decode([long.as_bytes()]).0[0].bytes.len(), 1_000_000);
}

#[test]
fn a_number_of_odd_grammar_stays_one_haystack() {
    let values = [("a", "0123-456"), ("b", "1.2.3"), ("c", "-")];
    assert_eq!(
        check_values(r#"{"a":0123-456,"b":1.2.3,"c":-}"#, &values),
        JsonCounters::default()
    );
}

#[test]
fn scalars_end_with_the_byte_that_shows_it() {
    let (haystacks, _) = check(br#"{"a":12 ,"b":true,"s":"","n":null}"#);
    let ends: Vec<_> = haystacks
        .iter()
        .map(|one| (one.at, one.end, one.decided))
        .collect();
    assert_eq!(ends, [(5, 7, 8), (13, 17, 17), (23, 23, 24), (29, 33, 33)]);
}

/// Asserts that the text is well-formed up to `broken`, then raw to the end, counted once.
fn check_broken(text: &str, sound: &[(&str, &str)], broken: &str) {
    let values = [sound, &[(RAW, broken)]].concat();
    let counters = check_values(text, &values);
    assert_eq!(
        counters,
        JsonCounters {
            malformed: 1,
            ..JsonCounters::default()
        },
        "{text}"
    );
}

#[test]
fn what_follows_the_object_is_raw() {
    check_broken(r#"{"a":1} x"#, &[("a", "1")], "x");
    check_broken(
        r#"{"a":1}{"b":"\u0072m"}"#,
        &[("a", "1")],
        r#"{"b":"\u0072m"}"#,
    );
    check_broken("{}\n\n}", &[], "}");
    check_values("{}  \r\n\t", &[]);
}

#[test]
fn json_in_a_string_is_decoded_once() {
    check_values(
        r#"{"v":"{\"command\":\"rm\"}"}"#,
        &[("v", r#"{"command":"rm"}"#)],
    );
}

#[test]
fn what_json_does_not_have_is_raw_from_its_first_byte() {
    check_broken(r#"{'command': 'rm'}"#, &[], "'command': 'rm'}");
    check_broken(r#"{"a":1,/*c*/"b":2}"#, &[("a", "1")], r#"/*c*/"b":2}"#);
    check_broken("{// c\n}", &[], "// c\n}");
    check_broken(r#"{"a":NaN}"#, &[], "NaN}");
    check_broken(r#"{"a":-Infinity}"#, &[("a", "-")], "Infinity}");
    check_broken(r#"{"a" 1}"#, &[], "1}");
    check_broken(r#"{"a":1 "b":2}"#, &[("a", "1")], r#""b":2}"#);
    check_broken(r#"{"a":1,}"#, &[("a", "1")], "}");
    check_broken(r#"{"a":[1,]}"#, &[("a.0", "1")], "]}");
    check_broken(r#"{"a":[1}}"#, &[("a.0", "1")], "}}");
    check_broken(r#"{"a":1]"#, &[("a", "1")], "]");
    check_broken(r#"{,"a":1}"#, &[], r#","a":1}"#);
    check_broken(r#"{"a":,}"#, &[], ",}");
    check_broken(r#"{"a":tru,"b":1}"#, &[("a", "tru")], r#","b":1}"#);
    check_broken(r#"{"a":truex}"#, &[("a", "true")], "x}");
    check_broken(r#"{"a":"say "rm" now"}"#, &[("a", "say ")], r#"rm" now"}"#);
    check_broken("{\"a\":1\u{FEFF}}", &[("a", "1")], "\u{FEFF}}");
    check_broken("{\"a\":\u{A0}1}", &[], "\u{A0}1}");
}

#[test]
fn a_byte_order_mark_makes_the_input_raw_from_byte_0() {
    let counters = check_values("\u{FEFF}{\"a\":1}", &[(RAW, "\u{FEFF}{\"a\":1}")]);
    assert_eq!(
        counters,
        JsonCounters {
            raw: 1,
            ..JsonCounters::default()
        }
    );
}

#[test]
fn leading_blanks_before_an_object_are_structure() {
    let (haystacks, counters) = check(b" \t\r\n{\"a\":\"x\"}");
    assert_eq!((haystacks[0].at, haystacks.len()), (10, 1));
    assert_eq!(counters, JsonCounters::default());
}

#[test]
fn a_key_spelled_like_the_raw_path_is_an_argument() {
    let (haystacks, _) = check(br#"{"$raw":"x"}"#);
    assert_eq!(
        (haystacks[0].path[0].as_str(), haystacks[0].raw),
        (RAW, false)
    );
}

#[test]
fn keys_with_dots_stay_one_segment() {
    let (haystacks, _) = check(br#"{"a.b":{"":[1,{"":2}]}}"#);
    assert_eq!(haystacks[0].path, ["a.b", "", "0"]);
    assert_eq!(haystacks[1].path, ["a.b", "", "1", ""]);
}

#[test]
fn text_after_the_end_is_not_lost() {
    let (mut decoder, mut recorder) = (JsonDecoder::new(DEPTH, PATH_BYTES), Recorder::default());
    decoder.push(br#"{"a":"x"#, &mut recorder);
    decoder.finish(&mut recorder);
    decoder.finish(&mut recorder);
    decoder.push(b" late", &mut recorder);
    decoder.finish(&mut recorder);
    assert_eq!(
        values(&recorder.done),
        [("a".into(), "x".into()), (RAW.into(), "late".into())]
    );
}

#[test]
fn a_decoder_is_small() {
    assert!(
        size_of::<JsonDecoder>() <= 256,
        "{} bytes",
        size_of::<JsonDecoder>()
    );
}

#[test]
fn text_is_what_ends_no_string_and_begins_no_escape() {
    for (bytes, text) in [
        (b"abcd", true),
        (b"ab\"d", false),
        (b"ab\\d", false),
        (b"\"\"\\\\", false),
        (b"a{}d", true),
    ] {
        assert_eq!(is_text(bytes), text, "{}", bytes.escape_ascii());
    }
}

#[test]
fn held_text_begins_at_the_reported_offset() {
    struct Nothing;
    impl HaystackSink for Nothing {
        fn open(&mut self, _: &ArgPath, _: u64) {}
        fn run(&mut self, _: &[u8], _: u64) {}
        fn escape(&mut self, _: &[u8], _: Range<u64>, _: u64) {}
        fn close(&mut self, _: DecidedOffset) {}
    }
    for (text, from) in [
        ("", None),
        (" ", Some(0)),
        ("  \n", Some(0)),
        (" {", None),
        (r#"{"ab":"c"#, None),
        (r#"{"ab":"c\"#, Some(8)),
        (r#"{"ab":"c\u00"#, Some(8)),
        (r#"{"ab":"c\u0041"#, None),
        (r#"{"ab":"c\ud83d"#, Some(8)),
        (r#"{"ab":"c\ud83d\u"#, Some(8)),
        (r#"{"ab":12"#, None),
    ] {
        let mut decoder = JsonDecoder::new(8, 64);
        for byte in text.as_bytes() {
            decoder.push(&[*byte], &mut Nothing);
        }
        assert_eq!(decoder.pending_from(), from, "{text}");
    }
}
