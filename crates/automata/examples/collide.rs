//! Compares the matcher with `regex-automata` on random rule sets, texts derived from them and random splits.
//!
//! `cargo run --release -p ttsr-automata --features test-support --example collide -- --cases N [--seed S]
//! [--resume FILE] [--set NUMBER]`
//!
//! A case is one rule set on one text under one split. It is compared with searches of the whole text: the set of
//! matching patterns, the earliest end of each, and that each is decided at the same byte under every split. Every set
//! has its own layout: the number of automata, gaps, lanes, prefilters and processor features are forced, and tables are
//! small enough to be exhausted. For some sets all ends of all matches are compared (the candidates that look-around
//! verifies). Some sets are packs read through a stream; some of these redact, and their complete, consecutive matches
//! are compared.
//!
//! A set depends only on the seed and its number. `--resume FILE` continues from the state in the file and updates it;
//! `--set` repeats one set. A difference is minimized and printed, and the exit status is 1.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use regex_automata::meta::Regex;
use regex_automata::nfa::thompson::pikevm::{Cache, PikeVM};
use regex_automata::util::syntax;
use regex_syntax::hir::Hir;
use ttsr::{Action, Channel, Hit, Pack, PartId, Pattern, Rule};

use ttsr_automata::test_support::{self, ForcedLayout};
use ttsr_automata::{Matcher, PatternLimits, pattern};
use ttsr_testing::{self as testing, Random, oracle};

/// Number of texts per set, and of splits per text in addition to none and all.
const TEXTS: usize = 192;
const CUTS: usize = 6;

fn main() -> ExitCode {
    let options = match Options::read(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(problem) => {
            eprintln!("{problem}");
            return ExitCode::from(2);
        }
    };
    if let Some(number) = options.only {
        let mut done = Totals::new(options.seed);
        return conclude(run_set(options.seed, number, &mut done), &done);
    }
    let mut done = match &options.resume {
        Some(file) if file.exists() => Totals::load(file),
        _ => Totals::new(options.seed),
    };
    println!("seed {}, from set {}", done.seed, done.sets);
    let (mut shown, start, before) = (Instant::now(), Instant::now(), done.seconds);
    while done.cases < options.cases {
        let (seed, number) = (done.seed, done.sets);
        if let Err(difference) = run_set(seed, number, &mut done) {
            return conclude(Err(difference), &done);
        }
        done.sets += 1;
        done.seconds = before + start.elapsed().as_secs_f64();
        if shown.elapsed() > Duration::from_secs(10) {
            shown = Instant::now();
            println!("{done}");
            options.resume.as_deref().inspect(|file| done.save(file));
        }
    }
    options.resume.as_deref().inspect(|file| done.save(file));
    conclude(Ok(()), &done)
}

fn conclude(outcome: Result<(), Box<Difference>>, done: &Totals) -> ExitCode {
    println!("{done}");
    match outcome {
        Ok(()) => {
            println!("0 differences");
            ExitCode::SUCCESS
        }
        Err(difference) => {
            println!("{difference}");
            ExitCode::FAILURE
        }
    }
}

struct Options {
    cases: u64,
    seed: u64,
    resume: Option<PathBuf>,
    only: Option<u64>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
        let mut options = Options {
            cases: 1_000_000,
            seed: 1,
            resume: None,
            only: None,
        };
        while let Some(name) = arguments.next() {
            let value = arguments.next().ok_or(format!("{name} wants a value"))?;
            let number = || value.parse().map_err(|_| format!("{value} is no number"));
            match name.as_str() {
                "--cases" => options.cases = number()?,
                "--seed" => options.seed = number()?,
                "--set" => options.only = Some(number()?),
                "--resume" => options.resume = Some(PathBuf::from(value)),
                _ => return Err(format!("{name} is not --cases, --seed, --resume or --set")),
            }
        }
        Ok(options)
    }
}

/// The number of comparisons so far.
#[derive(Default)]
struct Totals {
    seed: u64,
    sets: u64,
    cases: u64,
    /// Pairs of pattern and text, and how many of them match.
    pairs: u64,
    matches: u64,
    seconds: f64,
}

impl Totals {
    fn new(seed: u64) -> Totals {
        Totals {
            seed,
            ..Totals::default()
        }
    }

    fn load(file: &Path) -> Totals {
        let text = std::fs::read_to_string(file).expect("the file to resume from can be read");
        let mut fields = text.split_whitespace();
        let mut next = || fields.next().expect("six numbers");
        let mut number = || next().parse().expect("a number");
        Totals {
            seed: number(),
            sets: number(),
            cases: number(),
            pairs: number(),
            matches: number(),
            seconds: next().parse().expect("seconds"),
        }
    }

    /// Writes a temporary file and renames it, so that a killed run leaves the old file or the new one.
    fn save(&self, file: &Path) {
        let Totals { seed, sets, .. } = self;
        let (cases, pairs, matches) = (self.cases, self.pairs, self.matches);
        let text = format!("{seed} {sets} {cases} {pairs} {matches} {}\n", self.seconds);
        let beside = file.with_extension("new");
        std::fs::write(&beside, text).expect("the file to resume from can be written");
        std::fs::rename(&beside, file).expect("the file to resume from can be replaced");
    }
}

impl fmt::Display for Totals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (cases, seconds) = (self.cases, self.seconds);
        write!(
            f,
            "{cases} cases in {seconds:.0} s, {:.0} a second; {} sets, {} pairs of pattern and text, {:.1} % match",
            cases as f64 / seconds.max(1e-9),
            self.sets,
            self.pairs,
            100.0 * self.matches as f64 / self.pairs.max(1) as f64
        )
    }
}

fn run_set(seed: u64, number: u64, done: &mut Totals) -> Result<(), Box<Difference>> {
    let spread = Random::new(number).next();
    let mut random = Random::new(seed ^ spread);
    let layout = Layout::random(&mut random);
    let (patterns, hirs) = patterns(&mut random);
    let Some(mut set) = Set::new(&patterns, &hirs, layout) else {
        return Ok(());
    };
    for _ in 0..layout.asked.texts() {
        let text = text(&mut random, &hirs);
        let want = set.expected(&text);
        done.pairs += patterns.len() as u64;
        done.matches += matching(&want);
        let every: Vec<usize> = (1..text.len()).collect();
        let cuts = (0..CUTS).map(|_| cuts(&mut random, text.len()));
        let whole = set.found(&text, &[]);
        for cuts in [Vec::new(), every].into_iter().chain(cuts) {
            done.cases += 1;
            let got = set.found(&text, &cuts);
            if got.matches == want && got == whole {
                continue;
            }
            let case = Case {
                patterns: patterns.clone(),
                text,
                cuts,
                layout,
            };
            return Err(Box::new(Difference::smallest(case, (seed, number))));
        }
    }
    Ok(())
}

/// Returns the number of patterns with a match among these sorted matches.
fn matching(matches: &[FoundMatch]) -> u64 {
    let patterns = matches.chunk_by(|one, next| one.pattern == next.pattern);
    patterns.count() as u64
}

/// The property compared for a set, and the interface through which it is obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compared {
    /// The first end of each pattern, through the matcher.
    First,
    /// Every end of each pattern, through the matcher.
    EveryEnd,
    /// The first end of each pattern, through a pack; only the budget of its table is forced.
    FirstOfPack,
    /// The matches of each pattern, through a pack that redacts.
    Matches,
}

impl Compared {
    /// Returns the number of texts of a set. It is smaller if the searches take longer.
    fn texts(self) -> usize {
        match self {
            Compared::First | Compared::FirstOfPack => TEXTS,
            Compared::EveryEnd | Compared::Matches => TEXTS / 4,
        }
    }
}

/// A match: its pattern, its end and, if compared, its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FoundMatch {
    pattern: u32,
    /// 0 if it is not compared.
    start: usize,
    end: usize,
}

impl FoundMatch {
    fn ends(pattern: u32, end: usize) -> FoundMatch {
        FoundMatch {
            pattern,
            start: 0,
            end,
        }
    }
}

/// The results of the crate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Results {
    /// Sorted.
    matches: Vec<FoundMatch>,
    /// Pattern, end and number of bytes seen at the report, for each reported hit.
    decided: Vec<(u32, usize, usize)>,
}

/// The layout of a set.
#[derive(Clone, Copy, Debug)]
struct Layout {
    asked: Compared,
    forced: ForcedLayout,
    table_bytes: usize,
}

impl Layout {
    fn random(random: &mut Random) -> Layout {
        let table_bytes = match random.below(6) {
            0 => 0,
            1 => random.below(3_000),
            2 => 3_000 + random.below(13_000),
            3 => random.below(128 << 10),
            _ => 1 << 20,
        };
        let tile = match random.below(3) {
            0 => None,
            1 => Some(0),
            _ => Some(random.below(ForcedLayout::TILES)),
        };
        let is_portable = [true, false][random.below(2)];
        let asked = match random.below(16) {
            0 | 1 => Compared::FirstOfPack,
            2 => Compared::Matches,
            3 => Compared::EveryEnd,
            _ => Compared::First,
        };
        let mut forced = ForcedLayout::with_plan(random.below(ForcedLayout::PLANS));
        if let Some(tile) = tile {
            forced = forced.with_tile(tile);
        }
        if let Some(bytes) = [None, Some(1), Some(usize::MAX)][random.below(3)] {
            forced = forced.with_prefilter_from(bytes, is_portable);
        }
        Layout {
            asked,
            forced,
            table_bytes,
        }
    }
}

/// Returns one to six patterns, and sometimes more.
fn patterns(random: &mut Random) -> (Vec<String>, Vec<Hir>) {
    let count = match random.below(12) {
        0 => 7 + random.below(18),
        _ => 1 + random.below(6),
    };
    let is_rare = random.below(3) == 0;
    let limits = PatternLimits::default();
    let (mut patterns, mut hirs) = (Vec::new(), Vec::new());
    while patterns.len() < count {
        let text = match is_rare && random.below(4) > 0 {
            true => oracle::rare_pattern(random),
            false => testing::pattern_text(random),
        };
        const FLAGS: [&str; 7] = ["(?i)", "(?s)", "(?m)", "(?mR)", "(?U)", "(?-u)", "(?x)"];
        let flags = match random.below(4) {
            0 => random.pick(&FLAGS),
            _ => "",
        };
        let text = format!("{flags}{text}");
        if let Ok(hir) = pattern::parse(&text, &limits) {
            patterns.push(text);
            hirs.push(hir);
        }
    }
    (patterns, hirs)
}

/// Returns a text that the patterns match, or nearly match: a third of them has bytes removed, inserted or replaced.
fn text(random: &mut Random, hirs: &[Hir]) -> Vec<u8> {
    let mut text = match random.below(4) {
        0 => oracle::strewn_text(random, hirs),
        _ => oracle::text_for(random, hirs),
    };
    if random.below(3) == 0 {
        for _ in 0..1 + random.below(3) {
            let from = random.below(text.len() + 1);
            let to = (from + random.below(3)).min(text.len());
            let instead = random.noise(1);
            text.splice(from..to, instead);
        }
    }
    text
}

/// Returns a few random cuts, or one every few bytes.
fn cuts(random: &mut Random, len: usize) -> Vec<usize> {
    match random.below(4) {
        0 => {
            let step = 2 + random.below(20);
            (random.below(step)..len).step_by(step).collect()
        }
        _ => oracle::random_cuts(random, len),
    }
}

/// Compiled patterns and their oracle.
struct Set {
    ours: Ours,
    oracle: Oracle,
    asked: Compared,
}

#[allow(clippy::large_enum_variant, reason = "there is one of them at a time")]
enum Ours {
    Matcher(Matcher),
    Pack(Pack),
}

/// One engine per pattern.
enum Oracle {
    Ends(Vec<(PikeVM, Cache)>),
    Matches(Vec<Regex>),
}

impl Oracle {
    fn new(patterns: &[String], asked: Compared) -> Oracle {
        let patterns = patterns.iter();
        if asked == Compared::Matches {
            return Oracle::Matches(patterns.map(|pattern| regex(pattern)).collect());
        }
        let ends = patterns.map(|pattern| {
            let vm = oracle::oracle(pattern);
            let cache = vm.create_cache();
            (vm, cache)
        });
        Oracle::Ends(ends.collect())
    }
}

fn regex(pattern: &str) -> Regex {
    Regex::builder()
        .syntax(syntax::Config::new().utf8(false))
        .configure(Regex::config().utf8_empty(false))
        .build(pattern)
        .expect(pattern)
}

impl Set {
    /// Returns `None` if a pack rejects the patterns.
    fn new(patterns: &[String], hirs: &[Hir], layout: Layout) -> Option<Set> {
        let asked = layout.asked;
        let ours = match asked {
            Compared::FirstOfPack | Compared::Matches => Ours::Pack(pack(patterns, layout)?),
            Compared::First | Compared::EveryEnd => {
                let every_end = vec![asked == Compared::EveryEnd; hirs.len()];
                let Layout {
                    forced,
                    table_bytes,
                    ..
                } = layout;
                Ours::Matcher(forced.matcher(hirs, table_bytes, &every_end))
            }
        };
        let oracle = Oracle::new(patterns, asked);
        Some(Set {
            ours,
            oracle,
            asked,
        })
    }

    /// Returns the matches that the oracle finds.
    fn expected(&mut self, text: &[u8]) -> Vec<FoundMatch> {
        let mut matches = Vec::new();
        match &mut self.oracle {
            Oracle::Ends(vms) => {
                for ((vm, cache), pattern) in vms.iter_mut().zip(0..) {
                    let ends = match self.asked {
                        Compared::EveryEnd => oracle::every_end_with(vm, cache, text),
                        _ => Vec::from_iter(oracle::first_end_with(vm, cache, text)),
                    };
                    matches.extend(ends.into_iter().map(|end| FoundMatch::ends(pattern, end)));
                }
            }
            Oracle::Matches(regexes) => {
                for (regex, pattern) in regexes.iter().zip(0..) {
                    let found = regex.find_iter(text);
                    matches.extend(found.map(|found| FoundMatch {
                        pattern,
                        start: found.start(),
                        end: found.end(),
                    }));
                }
            }
        }
        matches
    }

    fn found(&self, text: &[u8], cuts: &[usize]) -> Results {
        match &self.ours {
            Ours::Matcher(matcher) => found_by_matcher(matcher, self.asked, text, cuts),
            Ours::Pack(pack) => found_by_pack(pack, self.asked, text, cuts),
        }
    }
}

fn found_by_matcher(matcher: &Matcher, asked: Compared, text: &[u8], cuts: &[usize]) -> Results {
    let decided: Vec<(u32, usize, usize)> = match asked {
        Compared::EveryEnd => {
            let found = test_support::every_end(matcher, text, cuts).into_iter();
            found
                .map(|((pattern, end), seen)| (pattern, end, seen))
                .collect()
        }
        _ => {
            let found = test_support::first_ends(matcher, text, cuts).into_iter();
            found
                .map(|(pattern, (end, seen))| (pattern, end, seen))
                .collect()
        }
    };
    Results {
        matches: ends_of(&decided),
        decided,
    }
}

fn ends_of(decided: &[(u32, usize, usize)]) -> Vec<FoundMatch> {
    let matches = decided
        .iter()
        .map(|&(pattern, end, _)| FoundMatch::ends(pattern, end));
    matches.collect()
}

fn pack(patterns: &[String], layout: Layout) -> Option<Pack> {
    let limits = ttsr::Limits {
        table_bytes: layout.table_bytes,
        ..ttsr::Limits::default()
    };
    let rules = patterns.iter().enumerate().map(|(number, pattern)| {
        let pattern = Pattern::regex(pattern.clone());
        let mut rule = Rule::new(format!("set/p{number:02}"), vec![pattern]);
        rule.description = "A pattern of the set".to_owned();
        rule.on = vec![Channel::Text];
        if layout.asked == Compared::Matches {
            rule.action = Action::Redact;
        }
        rule
    });
    let builder = rules.fold(Pack::builder().limits(limits), |pack, rule| pack.rule(rule));
    builder.build().ok()
}

fn found_by_pack(pack: &Pack, asked: Compared, text: &[u8], cuts: &[usize]) -> Results {
    let part = PartId(0);
    let mut stream = pack.stream();
    stream.open(part, Channel::Text);
    let mut decided = Vec::new();
    let mut note = |hits: &[Hit]| {
        let of_hit = |hit: &Hit| {
            (
                hit.rule.index() as u32,
                hit.end as usize,
                hit.decided as usize,
            )
        };
        decided.extend(hits.iter().map(of_hit));
    };
    let mut from = 0;
    for &to in cuts.iter().chain([&text.len()]) {
        note(&stream.push(part, &text[from..to]));
        from = to;
    }
    note(&stream.close(part));
    decided.sort_unstable();
    let matches = match asked {
        Compared::Matches => {
            let redactions = stream.redactions(part).iter();
            let mut matches: Vec<FoundMatch> = redactions
                .map(|redaction| FoundMatch {
                    pattern: redaction.rule.index() as u32,
                    start: redaction.start as usize,
                    end: redaction.end as usize,
                })
                .collect();
            matches.sort_unstable();
            matches
        }
        _ => {
            decided.dedup_by_key(|found| found.0);
            ends_of(&decided)
        }
    };
    Results { matches, decided }
}

/// One case with its complete input.
#[derive(Clone, Debug)]
struct Case {
    patterns: Vec<String>,
    text: Vec<u8>,
    cuts: Vec<usize>,
    layout: Layout,
}

impl Case {
    /// Returns the actual and expected results if they differ. Runs the text whole and split, twice each, because the first
    /// run builds the table.
    fn difference(&self) -> Option<(Results, Vec<FoundMatch>)> {
        let limits = PatternLimits::default();
        let parse = |text: &String| pattern::parse(text, &limits).ok();
        let hirs: Vec<Hir> = self.patterns.iter().map(parse).collect::<Option<_>>()?;
        let mut set = Set::new(&self.patterns, &hirs, self.layout)?;
        let want = set.expected(&self.text);
        let first = set.found(&self.text, &self.cuts);
        let mut all = vec![first.clone()];
        for cuts in [&[], self.cuts.as_slice(), &[]] {
            all.push(set.found(&self.text, cuts));
        }
        let wrong = |got: &Results| got.matches != want || *got != first;
        all.into_iter().find(wrong).map(|got| (got, want.clone()))
    }

    /// Returns every case with one pattern, cut or piece of text removed, large pieces first.
    fn smaller(&self) -> Vec<Case> {
        let mut smaller = Vec::new();
        if self.patterns.len() > 1 {
            for index in 0..self.patterns.len() {
                let mut case = self.clone();
                case.patterns.remove(index);
                smaller.push(case);
            }
        }
        for size in [16, 4, 1] {
            for from in (0..self.text.len()).step_by(size) {
                let to = (from + size).min(self.text.len());
                let mut case = self.clone();
                case.text.drain(from..to);
                let moved = |&at: &usize| {
                    if at > from {
                        at.max(to) - (to - from)
                    } else {
                        at
                    }
                };
                case.cuts = self.cuts.iter().map(moved).collect();
                smaller.push(case);
            }
        }
        for index in 0..self.cuts.len() {
            let mut case = self.clone();
            case.cuts.remove(index);
            smaller.push(case);
        }
        for (index, pattern) in self.patterns.iter().enumerate() {
            for size in [6, 3, 1] {
                let chars: Vec<char> = pattern.chars().collect();
                for from in 0..chars.len() {
                    let mut chars = chars.clone();
                    chars.drain(from..(from + size).min(chars.len()));
                    let mut case = self.clone();
                    case.patterns[index] = chars.into_iter().collect();
                    smaller.push(case);
                }
            }
        }
        smaller
    }
}

struct Difference {
    case: Case,
    /// Actual and expected results; `None` if the case only fails after others of its set.
    what: Option<(Results, Vec<FoundMatch>)>,
    set: (u64, u64),
}

impl Difference {
    fn smallest(mut case: Case, set: (u64, u64)) -> Difference {
        if case.difference().is_some() {
            while let Some(smaller) = case
                .smaller()
                .into_iter()
                .find(|case| case.difference().is_some())
            {
                case = smaller;
            }
        }
        let what = case.difference();
        Difference { case, what, set }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            patterns,
            text,
            cuts,
            layout,
        } = &self.case;
        let (seed, number) = self.set;
        writeln!(f, "DIFFERS: --seed {seed} --set {number}")?;
        writeln!(f, "  patterns {patterns:?}")?;
        writeln!(f, "  text     b\"{}\"", text.escape_ascii())?;
        writeln!(f, "  cuts     {cuts:?}")?;
        writeln!(f, "  layout   {layout:?}")?;
        match &self.what {
            Some((got, want)) => {
                writeln!(f, "  found    {got:?}")?;
                write!(f, "  not      {want:?}")
            }
            None => write!(
                f,
                "  only after other texts of the set, so not made smaller"
            ),
        }
    }
}
