//! The wrong language: letters of an unexpected script or, within the Latin script, function words of an unexpected
//! language.
//!
//! The caller passes only prose, without code. Memory: about 1.5 KiB.

use std::collections::{HashMap, VecDeque};
use std::ops::BitOr;
use std::sync::LazyLock;

use super::{Detection, Detector};
use crate::chunk::Chunk;

/// A set of scripts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ScriptSet(u32);

/// The names a rule can expect: scripts by their lowercase Unicode names, and languages of Latin script by their ISO
/// 639 codes. Japanese needs `han`, `hiragana` and `katakana`.
pub const NAMES: [&str; 27] = [
    "latin",
    "cyrillic",
    "greek",
    "han",
    "hiragana",
    "katakana",
    "hangul",
    "arabic",
    "hebrew",
    "devanagari",
    "bengali",
    "tamil",
    "telugu",
    "thai",
    "georgian",
    "armenian",
    "ethiopic",
    "khmer",
    "gujarati",
    "myanmar",
    "en",
    "de",
    "fr",
    "es",
    "it",
    "pt",
    "nl",
];

/// The scripts. The index of a script is its bit.
const SCRIPTS: &[&str] = NAMES.split_at(20).0;

/// The languages. The index of a language is its bit.
const LANGUAGES: &[&str] = NAMES.split_at(20).1;

impl ScriptSet {
    /// The Latin script.
    pub const LATIN: ScriptSet = ScriptSet(1);

    /// Returns the script with this name.
    pub fn from_name(name: &str) -> Option<ScriptSet> {
        let at = SCRIPTS.iter().position(|script| *script == name)?;
        Some(ScriptSet(1 << at))
    }

    fn holds(self, script: usize) -> bool {
        self.0 >> script & 1 == 1
    }
}

impl BitOr for ScriptSet {
    type Output = ScriptSet;
    fn bitor(self, other: ScriptSet) -> ScriptSet {
        ScriptSet(self.0 | other.0)
    }
}

/// A set of languages of Latin script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct LanguageSet(u8);

impl LanguageSet {
    pub(crate) const ENGLISH: LanguageSet = LanguageSet(1);

    /// Returns the language with this code.
    pub fn from_code(code: &str) -> Option<LanguageSet> {
        let at = LANGUAGES.iter().position(|language| *language == code)?;
        Some(LanguageSet(1 << at))
    }
}

impl BitOr for LanguageSet {
    type Output = LanguageSet;
    fn bitor(self, other: LanguageSet) -> LanguageSet {
        LanguageSet(self.0 | other.0)
    }
}

/// The expected scripts and languages, and the limits on others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScriptLimits {
    /// The expected scripts.
    pub scripts: ScriptSet,
    /// The expected languages of Latin script. If empty, languages are not checked.
    pub languages: LanguageSet,
    /// The number of letters of other scripts that is reported...
    pub letters: u32,
    /// ...among this number of last letters, at most 64. A letter that is a syllable or a word counts as 3.
    pub of_letters: u32,
    /// The number of function words by which another language must exceed every expected one...
    pub words: u32,
    /// ...among this number of last words, at most 64.
    pub of_words: u32,
}

impl Default for ScriptLimits {
    fn default() -> ScriptLimits {
        ScriptLimits {
            scripts: ScriptSet::LATIN,
            languages: LanguageSet::ENGLISH,
            letters: 40,
            of_letters: 48,
            words: 10,
            of_words: 32,
        }
    }
}

/// Detects the first run of text in another language.
#[derive(Clone, Debug)]
pub struct ScriptDetector {
    limits: ScriptLimits,
    /// The bytes of an incomplete character.
    partial: [u8; 4],
    partial_len: usize,
    partial_start: u64,
    /// A bit for each of the last letters, set if it was unexpected; and the starts of the unexpected ones.
    letters: u64,
    unexpected: VecDeque<u64>,
    word: [u8; 8],
    word_len: usize,
    word_start: u64,
    /// The languages of each of the last words, and the start of the word.
    words: VecDeque<(u8, u64)>,
    counts: [u32; LANGUAGES.len()],
    is_found: bool,
}

impl ScriptDetector {
    /// Creates a detector for one haystack.
    pub fn new(limits: ScriptLimits) -> ScriptDetector {
        ScriptDetector {
            limits,
            partial: [0; 4],
            partial_len: 0,
            partial_start: 0,
            letters: 0,
            unexpected: VecDeque::with_capacity(64),
            word: [0; 8],
            word_len: 0,
            word_start: 0,
            words: VecDeque::with_capacity(64),
            counts: [0; LANGUAGES.len()],
            is_found: false,
        }
    }

    /// Consumes the byte at `start`. Returns the start of the other language once it is certain.
    #[inline]
    fn step(&mut self, byte: u8, start: u64) -> Option<u64> {
        if byte < 0x80 {
            self.partial_len = 0;
            if byte.is_ascii_alphabetic() {
                self.push_word_byte(byte.to_ascii_lowercase(), start);
                return self.push_letter(0, start);
            }
            return if self.word_len > 0 {
                self.end_word()
            } else {
                None
            };
        }
        self.step_non_ascii(byte, start)
    }

    /// Consumes a byte of a character that is not ASCII.
    fn step_non_ascii(&mut self, byte: u8, start: u64) -> Option<u64> {
        if byte & 0xC0 != 0x80 || self.partial_len == 4 {
            self.partial_len = 0;
        }
        if self.partial_len == 0 {
            self.partial_start = start;
        }
        self.partial[self.partial_len] = byte;
        self.partial_len += 1;
        let text = std::str::from_utf8(&self.partial[..self.partial_len]).ok()?;
        let char = text.chars().next()?;
        self.partial_len = 0;
        let start = self.partial_start;
        let Some(script) = script_of(char) else {
            return if char.is_alphabetic() {
                None
            } else {
                self.end_word()
            };
        };
        if script == 0 {
            let bytes = self.partial;
            bytes[..char.len_utf8()]
                .iter()
                .for_each(|&byte| self.push_word_byte(byte, start));
        }
        let weight = if (3..=6).contains(&script) { 3 } else { 1 };
        (0..weight).fold(None, |found, _| {
            found.or_else(|| self.push_letter(script, start))
        })
    }

    /// Counts a letter of a script.
    #[inline]
    fn push_letter(&mut self, script: usize, start: u64) -> Option<u64> {
        let of = self.limits.of_letters.clamp(1, 64);
        let is_unexpected = !self.limits.scripts.holds(script);
        if self.letters >> (of - 1) & 1 == 1 {
            self.unexpected.pop_front();
        }
        let mask = u64::MAX >> (64 - of);
        self.letters = (self.letters << 1 | u64::from(is_unexpected)) & mask;
        if !is_unexpected {
            return None;
        }
        self.unexpected.push_back(start);
        let is_much = self.unexpected.len() >= self.limits.letters as usize;
        is_much.then(|| self.unexpected.front().copied())?
    }

    fn push_word_byte(&mut self, byte: u8, start: u64) {
        if self.word_len == 0 {
            self.word_start = start;
        }
        if let Some(place) = self.word.get_mut(self.word_len) {
            *place = byte;
        }
        self.word_len = (self.word_len + 1).min(self.word.len() + 1);
    }

    /// Ends a word, looks it up and counts it.
    fn end_word(&mut self) -> Option<u64> {
        let len = std::mem::take(&mut self.word_len);
        if len == 0 || self.limits.languages == LanguageSet::default() {
            return None;
        }
        let key = std::mem::take(&mut self.word);
        let known = if len > key.len() {
            None
        } else {
            SMALL_WORDS.get(&key)
        };
        self.count(known.copied().unwrap_or(0))
    }

    fn count(&mut self, languages: u8) -> Option<u64> {
        if self.words.len() == self.limits.of_words.clamp(1, 64) as usize
            && let Some((old, _)) = self.words.pop_front()
        {
            self.add(old, u32::MAX);
        }
        self.words.push_back((languages, self.word_start));
        self.add(languages, 1);
        if languages & !self.limits.languages.0 == 0 {
            return None;
        }
        let best = |expected: bool| {
            let of = (0..LANGUAGES.len())
                .filter(|at| (self.limits.languages.0 >> at & 1 == 1) == expected);
            of.max_by_key(|&at| (self.counts[at], at))
        };
        let other = best(false)?;
        let own = best(true).map_or(0, |at| self.counts[at]);
        if self.counts[other] < own + self.limits.words {
            return None;
        }
        let mut words = self.words.iter();
        words
            .find(|word| word.0 >> other & 1 == 1)
            .map(|word| word.1)
    }

    fn add(&mut self, languages: u8, much: u32) {
        for (at, count) in self.counts.iter_mut().enumerate() {
            if languages >> at & 1 == 1 {
                *count = count.wrapping_add(much);
            }
        }
    }
}

impl Detector for ScriptDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        for (index, &byte) in chunk.bytes.iter().enumerate() {
            if self.is_found {
                return;
            }
            if let Some(start) = self.step(byte, chunk.start(index)) {
                self.is_found = true;
                let (end, decided) = (chunk.end(index), chunk.decided(index));
                found(Detection {
                    start,
                    end,
                    decided,
                });
            }
        }
    }

    fn finish(&mut self, decided: u64, found: &mut dyn FnMut(Detection)) {
        if self.is_found {
            return;
        }
        if let Some(start) = self.end_word() {
            self.is_found = true;
            found(Detection {
                start,
                end: decided,
                decided,
            });
        }
    }
}

/// Returns the index in [`SCRIPTS`] of the character's script, or `None` for characters of no script or another one.
fn script_of(char: char) -> Option<usize> {
    let after = RANGES.partition_point(|range| range.0 <= char);
    let (_, last, script) = RANGES.get(after.checked_sub(1)?)?;
    (char <= *last).then_some(*script)
}

/// The ranges of characters of each script: first, last, script. Sorted.
static RANGES: LazyLock<Vec<(char, char, usize)>> = LazyLock::new(|| {
    let mut ranges = Vec::new();
    for (script, name) in SCRIPTS.iter().enumerate() {
        let hir =
            regex_syntax::parse(&format!(r"\p{{Script={name}}}")).expect("a name of a script");
        if let regex_syntax::hir::HirKind::Class(regex_syntax::hir::Class::Unicode(class)) =
            hir.kind()
        {
            ranges.extend(
                class
                    .ranges()
                    .iter()
                    .map(|range| (range.start(), range.end(), script)),
            );
        }
    }
    ranges.sort_unstable();
    ranges
});

/// The languages of each function word.
static SMALL_WORDS: LazyLock<HashMap<[u8; 8], u8>> = LazyLock::new(|| {
    let mut words = HashMap::new();
    for (language, text) in WORDS.iter().enumerate() {
        for word in text.split_whitespace() {
            let mut key = [0; 8];
            key[..word.len()].copy_from_slice(word.as_bytes());
            *words.entry(key).or_insert(0) |= 1 << language;
        }
    }
    words
});

/// The function words of each of [`LANGUAGES`], at most 8 bytes each.
const WORDS: [&str; LANGUAGES.len()] = [
    "the of and to in is it that for was on are as with his they at be this from have or by one had not \
     but what all were when we there can an your which their if will each about how up out them then she \
     many some so these would into has more her two him see no could my than been its who now did get may \
     i you he do just should a our us me any here let need use",
    "der die das und ist nicht ein eine einen einem einer zu den dem des mit auf für von im sich auch es \
     an als wie so dass sie er ich wir ihr aber oder wenn nur noch nach bei aus sind wird hat haben war \
     werden kann um am zum zur durch über vor bis mehr man sein ihre diese dieser dieses hier jetzt da in",
    "le la les de des du un une et est en que qui dans pour pas sur ce cette ces il elle nous vous ils \
     elles au aux avec son sa ses ne se plus par mais ou où comme tout être sont été avoir fait si leur \
     je tu on y même aussi bien sans peut entre lui donc c'est a ont était",
    "el la los las de del un una y es en que no se por con para su sus al lo como más pero o este esta \
     estos si ya todo ser son fue ha han muy sin sobre también me le les nos hay donde cuando desde hasta \
     porque entre ese esa eso yo tú él ella puede cada a está están",
    "il lo la i gli le di del della dei delle un una e è in che non si per con da dal dalla al alla su \
     nel nella come più ma o questo questa se anche ci sono essere ha hanno era molto tutto suo sua loro \
     io tu lei noi voi quando dove già così ancora poi a ai alle degli",
    "o a os as de do da dos das um uma e é em no na nos nas que não se por com para seu sua ao à mais \
     mas ou como este esta isso se já tudo ser são foi tem têm muito sem sobre também me lhe nós há onde \
     quando desde até porque entre esse essa eu ele ela pode cada pelo pela está",
    "de het een en van is in dat op te zijn niet met voor die er aan hij ook als maar om dan ze bij nog \
     naar wat uit door over je ik wij we zij deze dit heeft hebben was werd worden kan kunnen moet of tot \
     wel geen meer zo al hier nu haar hun mijn onze veel",
];
