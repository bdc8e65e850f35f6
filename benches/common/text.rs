//! The timed text and its deltas: recordings, source files, or generated text.

#![allow(dead_code)] // shared; each bench uses some of it

use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Total size of the source files in bytes.
const SOURCES: usize = 10 << 20;

/// Sizes of deltas if no measured ones are available: OpenAI's deciles, from 0 to 90 %.
const SIZES: [usize; 10] = [1, 1, 2, 3, 3, 4, 5, 6, 7, 9];

/// Words of generated text, by script.
const WORDS: [(&str, &str); 4] = [
    (
        "ASCII",
        "the function reads a file and returns what it found, so we test let mut count = items.len(); \
         first then it's (no error) again with `cargo build` before value: done.",
    ),
    (
        "Chinese",
        "这个 函数 读取 文件 并 返回 结果 。 我们 先 运行 测试 ， 然后 修改 代码 错误 没有 问题 规则 需要 检查",
    ),
    (
        "Russian",
        "эта функция читает файл и возвращает результат . сначала мы запускаем тесты , потом меняем код без ошибок",
    ),
    ("emoji", "😀 🚀 🎉 🔥 ✅ 🧪 🦀 👍🏽 👩‍💻 ❤️ 📦 🛑 🤔 🏳️‍🌈"),
];

/// A text and the offsets of its deltas: the first is 0, the last its length.
#[derive(Clone)]
pub(crate) struct Text {
    pub(crate) bytes: Vec<u8>,
    pub(crate) deltas: Vec<u32>,
}

impl Text {
    /// Returns all of the corpus and the source files, in deltas of measured sizes.
    pub(crate) fn new(corpus: &Path) -> Text {
        let mut bytes = recorded(corpus);
        sources(&mut bytes);
        make_ascii(&mut bytes);
        let sizes = sizes(corpus);
        let deltas = cut(bytes.len(), &sizes);
        Text { bytes, deltas }
    }

    /// Returns `length` bytes of the corpus' replies in deltas of measured sizes, or generated text if there is no corpus.
    pub(crate) fn of_length(length: usize) -> Text {
        let mut bytes = corpus().map_or_else(
            || Text::made("ASCII", length).bytes,
            |corpus| recorded(&corpus),
        );
        make_ascii(&mut bytes);
        assert!(bytes.len() >= length, "the corpus is too short");
        bytes.truncate(length);
        Text::of_bytes(bytes)
    }

    /// Returns the concatenated parts of a kind (`text`, `reasoning`) in the corpus' streams, up to that length, in their
    /// recorded deltas.
    pub(crate) fn as_recorded(corpus: &Path, kind: &str, length: usize) -> Text {
        let (mut bytes, mut deltas) = (Vec::new(), vec![0]);
        for file in files(&corpus.join("streams")) {
            for line in lines(&file) {
                for delta in line["deltas"].as_array().into_iter().flatten() {
                    let part = delta[0].as_u64().expect("the index of a part") as usize;
                    let text = delta[1].as_str().unwrap_or_default();
                    if line["parts"][part]["kind"] == kind
                        && !text.is_empty()
                        && bytes.len() < length
                    {
                        bytes.extend_from_slice(text.as_bytes());
                        deltas.push(bytes.len() as u32);
                    }
                }
            }
        }
        make_ascii(&mut bytes);
        Text { bytes, deltas }
    }

    /// Returns that text in deltas of measured sizes.
    pub(crate) fn of_bytes(bytes: Vec<u8>) -> Text {
        let sizes = corpus().map_or_else(|| SIZES.to_vec(), |corpus| sizes(&corpus));
        Text::cut(bytes, &sizes)
    }

    /// Returns about `length` bytes of words of that script, in deltas of whole characters.
    pub(crate) fn made(script: &str, length: usize) -> Text {
        let words = WORDS.iter().find(|(name, _)| *name == script);
        let words: Vec<&str> = words.expect("a known script").1.split(' ').collect();
        let gap = if script == "Chinese" { "" } else { " " };
        let mut random = Random::default();
        let mut text = String::new();
        while text.len() < length {
            text.push_str(words[random.below(words.len())]);
            text.push_str(if random.below(12) == 0 { "\n" } else { gap });
        }
        let mut cuts = cut(text.len(), &SIZES);
        cuts.iter_mut()
            .for_each(|cut| *cut = text.ceil_char_boundary(*cut as usize) as u32);
        cuts.dedup();
        Text {
            bytes: text.into(),
            deltas: cuts,
        }
    }

    /// Returns a prefix of this text with the same deltas as another text.
    pub(crate) fn cut_like(&self, like: &Text) -> Text {
        Text {
            bytes: self.bytes[..like.bytes.len()].to_vec(),
            deltas: like.deltas.clone(),
        }
    }

    /// Returns this text as the inside of a JSON string, in deltas of the same sizes, without the quotes.
    pub(crate) fn escaped(&self) -> Text {
        let text = std::str::from_utf8(&self.bytes).expect("whole characters");
        let text = serde_json::to_string(text).expect("text is valid JSON");
        let sizes: Vec<usize> = self.deltas().map(<[u8]>::len).collect();
        Text::cut(text[1..text.len() - 1].into(), &sizes)
    }

    /// Returns the deltas up to that many bytes.
    pub(crate) fn truncated(&self, length: usize) -> Text {
        let cuts = self.deltas.iter().copied();
        let deltas: Vec<u32> = cuts.take_while(|cut| *cut as usize <= length).collect();
        let end = deltas.last().map_or(0, |cut| *cut as usize);
        Text {
            bytes: self.bytes[..end].to_vec(),
            deltas,
        }
    }

    /// Returns this text followed by another one, each in its own deltas.
    pub(crate) fn followed_by(&self, other: &Text) -> Text {
        let length = self.bytes.len() as u32;
        let deltas = other.deltas.iter().skip(1).map(|cut| cut + length);
        Text {
            bytes: [&self.bytes[..], &other.bytes].concat(),
            deltas: self.deltas.iter().copied().chain(deltas).collect(),
        }
    }

    pub(crate) fn deltas(&self) -> impl Iterator<Item = &[u8]> {
        let cuts = self.deltas.windows(2);
        cuts.map(|cut| &self.bytes[cut[0] as usize..cut[1] as usize])
    }

    fn cut(bytes: Vec<u8>, sizes: &[usize]) -> Text {
        let deltas = cut(bytes.len(), sizes);
        Text { bytes, deltas }
    }

    pub(crate) fn fixed(&self, size: usize) -> Vec<u32> {
        let mut cuts: Vec<u32> = (0..self.bytes.len() as u32).step_by(size).collect();
        cuts.push(self.bytes.len() as u32);
        cuts
    }

    /// Returns the deltas in order of arrival if each of `streams` streams has its own slice of the text and they are
    /// interleaved.
    pub(crate) fn interleave(&self, cuts: &[u32], streams: usize) -> (Vec<u8>, Vec<u32>) {
        if streams == 1 {
            return (self.bytes.clone(), cuts.to_vec());
        }
        let each = (cuts.len() - 1) / streams;
        let (mut bytes, mut arrived) = (Vec::with_capacity(self.bytes.len()), vec![0]);
        for turn in 0..each {
            for stream in 0..streams {
                let delta = stream * each + turn;
                bytes
                    .extend_from_slice(&self.bytes[cuts[delta] as usize..cuts[delta + 1] as usize]);
                arrived.push(bytes.len() as u32);
            }
        }
        (bytes, arrived)
    }
}

/// Returns the folder of the corpus, if it is available.
pub(crate) fn corpus() -> Option<PathBuf> {
    std::env::var_os("TTSR_CORPUS").map(PathBuf::from)
}

/// Returns all replies of the corpus, concatenated.
fn recorded(corpus: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for file in files(&corpus.join("streams")) {
        for line in lines(&file) {
            let deltas = line["deltas"].as_array().into_iter().flatten();
            deltas.for_each(|delta| bytes.extend(delta[1].as_str().unwrap_or_default().bytes()));
        }
    }
    for line in lines(&corpus.join("transcripts/transcripts.jsonl")) {
        bytes.extend(line["text"].as_str().unwrap_or_default().bytes());
    }
    bytes
}

fn make_ascii(bytes: &mut [u8]) {
    let others = bytes.iter_mut().filter(|byte| !byte.is_ascii());
    others.for_each(|byte| *byte = b'?');
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn lines(file: &Path) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(file).expect("a corpus file");
    text.lines()
        .map(|line| serde_json::from_str(line).expect("one JSON object a line"))
        .collect()
}

/// Appends source files of this machine in a fixed order without duplicates: up to a fourth of the total for each
/// language, and Rust for the rest.
fn sources(bytes: &mut Vec<u8>) {
    let end = bytes.len() + SOURCES;
    let mut seen = HashSet::new();
    for extensions in [&["md"][..], &["js", "mjs", "ts"], &["py"], &["rs"]] {
        let most = match extensions {
            ["rs"] => end,
            _ => bytes.len() + SOURCES / 4,
        };
        for folder in source_folders() {
            sources_below(folder, extensions, most, &mut seen, bytes);
        }
    }
}

/// Returns folders with source files on a developer's machine: cargo's registry, the toolchain with its docs, the
/// Python library, Node modules.
fn source_folders() -> Vec<PathBuf> {
    let home = |variable: &str, below: &str| {
        let named = std::env::var_os(variable).map(PathBuf::from);
        named.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(below)))
    };
    let homes = [
        home("CARGO_HOME", ".cargo").map(|home| home.join("registry/src")),
        home("RUSTUP_HOME", ".rustup").map(|home| home.join("toolchains")),
    ];
    let installed = [
        "/usr/lib/python3",
        "/usr/local/lib",
        "/usr/lib/node_modules",
    ];
    let mut folders: Vec<PathBuf> = homes.into_iter().flatten().collect();
    folders.extend(files(Path::new("/usr/lib")).into_iter().filter(|path| {
        // Debian puts the library into a folder with the version.
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with("python3."))
    }));
    folders.extend(installed.map(PathBuf::from));
    folders
}

fn sources_below(
    folder: PathBuf,
    extensions: &[&str],
    most: usize,
    seen: &mut HashSet<u64>,
    bytes: &mut Vec<u8>,
) {
    let mut waiting = vec![folder];
    while let Some(path) = waiting.pop() {
        if bytes.len() >= most {
            return bytes.truncate(most);
        }
        // Symbolic links may form cycles and lead to files that are read anyway.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() {
            waiting.extend(files(&path).into_iter().rev());
        } else if has_extension(&path, extensions) {
            // No file may dominate, and data tables are not text.
            let text = std::fs::read(&path).unwrap_or_default();
            let is_text = text.len() < 100 << 10 && !path.to_string_lossy().contains("table");
            if is_text && seen.insert(fingerprint(&text)) {
                bytes.extend(text);
            }
        }
    }
}

fn has_extension(path: &Path, extensions: &[&str]) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.is_some_and(|extension| extensions.contains(&extension))
}

/// FNV-1a.
fn fingerprint(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01B3);
    text.iter().fold(0xCBF2_9CE4_8422_2325, step)
}

/// Returns the measured quantiles of the sizes of OpenAI's text deltas.
fn sizes(corpus: &Path) -> Vec<usize> {
    let text =
        std::fs::read_to_string(corpus.join("chunk_sizes.json")).expect("the measured sizes");
    let value: serde_json::Value = serde_json::from_str(&text).expect("valid JSON");
    let quantiles = value["openai-chat"]["text"]["quantiles_chars_0_to_100_step_1"].as_array();
    let quantiles = quantiles.expect("quantiles of text").iter();
    quantiles
        .take(100)
        .map(|size| size.as_u64().expect("a size") as usize)
        .collect()
}

fn cut(length: usize, sizes: &[usize]) -> Vec<u32> {
    let mut random = Random::default();
    let (mut cuts, mut at) = (vec![0], 0);
    while at < length {
        at = (at + sizes[random.below(sizes.len())]).min(length);
        cuts.push(at as u32);
    }
    cuts
}

/// A random number generator with a fixed seed (xorshift).
pub(crate) struct Random(u64);

impl Default for Random {
    fn default() -> Random {
        Random(0x9E37_79B9_7F4A_7C15)
    }
}

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % bound
    }
}
