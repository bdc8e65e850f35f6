//! The prefilter: for few patterns and long input, text in which no match can start is not stepped at all.
//!
//! Each pattern has a *window*: eight bytes at some distance from the start of a match, each of which must be in a
//! set. While the search is idle, text without a place that fits the window of some pattern cannot lead to a match.
//! The search therefore continues a little before the next place that does, in an idle state. A match that started
//! earlier has already passed its window and failed it, so its state can be dropped.
//!
//! The same holds for suffixes: a window extends past the cut of a pattern, and nothing is skipped while a suffix is
//! live.
//!
//! A byte that is not ASCII counts as a candidate. The cost with and without the prefilter is measured while searching,
//! and the cheaper way is taken.

// PERF: speculative lanes alone against the prefilter, on the text of `cargo bench --bench versus`, in GB/s, on a
// busy machine (with the prefilter: the least time of each stretch of text in six passes; without: of whole passes).
// 64 KB: 1 rule 1.4 and 26.5, 10 rules 1.0 and 7.9, 100 rules 1.35 and 2.85. 64 bytes: 0.55 and 1.82, 0.46 and 1.07,
// 0.52 and 0.68.
//
// Distinguishing prefixes only until a strong window is known leaves 266 windows of gitleaks' 33,935 prefixes, which
// gives it a prefilter: 136 → 71 µs for 64 KB (same command, gitleaks). 1,000 and 5,000 rules have 793 and 3,282
// windows by the same means, but so many places of real text fit that the scalar search is faster: 50 against 77 µs at
// 1,000 (6.5 % of the bytes examined, 21 % stepped), 163 against 245 at 5,000.

mod probe;

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::alphabet::BY_FREQUENCY;
use super::nfa::{Nfa, NfaState, NfaStateId};
use super::simd::SimdLevel;
use probe::{BucketMasks, CandidateBits, SPAN, WIDTH, WindowProbe, slot};

/// The bytes of a window that are compared before the automaton runs. The vector probe compares the first four.
const CHECKED_BYTES: usize = 8;

/// The preferred maximum distance of a window from the start of the match, and the hard maximum used when no nearer
/// window is selective.
const MAX_OFFSET: usize = 4;
const HARD_MAX_OFFSET: usize = 16;

/// The most prefixes that are distinguished, and the number from which on there is no prefilter.
const MAX_PREFIXES: usize = 256;
const HARD_MAX_PREFIXES: usize = 512;

/// The most NFA states of all prefixes together: with more, no window is rare, and finding one takes long.
const MAX_PREFIX_STATES: usize = 1 << 16;

/// The number of windows that are distinguished before the automaton runs.
const MAX_WINDOWS: usize = 128;

/// The largest share of ordinary text that one window may fit.
const MAX_SHARE: f64 = 0.02;

/// The largest share of ordinary text that all windows together may fit.
const MAX_TOTAL_SHARE: f64 = 0.05;

/// The share of ordinary text below which a window is strong: how matches continue need not be distinguished.
const STRONG_SHARE: f64 = 1e-4;

/// A set of ASCII bytes.
type AsciiSet = u128;

/// Finds the places where matches may start.
#[derive(Debug)]
pub(super) struct Prefilter {
    pub(super) level: SimdLevel,
    probe: WindowProbe,
    /// By position and byte: the windows that allow the byte there, one bit each.
    masks: Box<[[u128; 128]; CHECKED_BYTES]>,
    /// The bytes before a candidate at which a match with this window may start. It is the same for all windows: where
    /// stepping starts for a near one, there may be a partial match whose own window is farther on.
    look_back: usize,
    /// By size of the delta: the recent cost with the prefilter, and without it.
    costs: [CostEstimate; 3],
    plain_costs: [CostEstimate; 3],
    skipped: [AtomicU32; 3],
}

/// The cost of a byte in the scalar search. It is the unit of all costs: a cost of 1,024 for each byte is that of a
/// scalar step.
const STEP_COST: u32 = 1024;

/// The cost of a byte in speculative lanes.
// PERF: for 64 KB (`cargo bench --bench versus -- gitleaks`):
//
// | rules | bytes in lanes | cost with the prefilter | time with it | time without it |
// |---|---|---|---|---|
// | gitleaks | hardly any | 850 | 114 µs | 143 µs |
// | 1,000 | most | 926 | 77 µs | 50 µs |
const LANE_STEP_COST: u32 = 620;

/// By size of the delta: the shift by which an estimate follows new costs.
const DECAY_SHIFT: [u32; 3] = [7, 6, 4];
const TRIAL_DECAY_SHIFT: u32 = 2;

/// A moving average of the cost of a byte.
#[derive(Debug, Default)]
struct CostEstimate(AtomicU32);

impl CostEstimate {
    fn get(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds a cost with the weight of one in two to the power of `shift`.
    fn record(&self, cost: usize, shift: u32) {
        let (cost, known) = (cost.min(20_000) as u32, self.get());
        // A load and a store, not an atomic update: a cost that another thread overwrites is one sample less.
        let next = (known + (cost >> shift)).saturating_sub(known >> shift);
        self.0.store(next, Ordering::Relaxed);
    }
}

/// The work of searching a delta with the prefilter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ScanEffort {
    /// The number of bytes that were stepped.
    pub(super) stepped: usize,
    /// The number of candidates: places that a window fits.
    pub(super) candidates: usize,
    /// The number of places that the probe has found and that were compared with all windows.
    pub(super) compared: usize,
}

/// A window of some patterns, and the share of ordinary text that fits its first four bytes.
#[derive(Clone, Copy, Debug)]
struct PrefilterWindow {
    classes: [AsciiSet; CHECKED_BYTES],
    distance: usize,
    share: f64,
}

impl Prefilter {
    /// Builds the prefilter of an automaton, if its patterns have selective windows and the processor has vector
    /// instructions to find them.
    pub(super) fn new(nfa: &Nfa, level: SimdLevel) -> Option<Prefilter> {
        if level == SimdLevel::Portable {
            return None;
        }
        let mut windows = windows(nfa)?;
        windows.sort_by(|a, b| b.share.total_cmp(&a.share));
        let farthest = windows.iter().map(|window| window.distance).max()?;
        // Equal windows have equal shares, so most of them are neighbours. One that is missed takes a place in a group,
        // no more.
        windows.dedup_by(|a, b| a.classes == b.classes);
        let probe = match pair(&windows) {
            Some(pair) => WindowProbe::Pair(pair),
            None => WindowProbe::Groups(groups(&windows)?),
        };
        Some(Prefilter {
            level,
            probe,
            masks: lookup_masks(&windows)?,
            // If a window covers a byte that is not ASCII, it starts up to three bytes earlier.
            look_back: farthest + WIDTH - 1,
            costs: Default::default(),
            plain_costs: [LANE_STEP_COST; 3].map(|cost| CostEstimate(AtomicU32::new(cost))),
            skipped: Default::default(),
        })
    }

    /// Returns the number of bytes before a candidate that must be stepped.
    pub(super) fn look_back(&self) -> usize {
        self.look_back
    }

    /// Returns the number of bytes at the end that must be stepped: a match that starts there may have its window past
    /// the end, or in the last bytes, which are not probed and need not be ASCII.
    pub(super) fn unfiltered_bytes(&self) -> usize {
        self.look_back + WIDTH - 1
    }

    /// Returns true if the prefilter has recently paid for deltas of this length. Every so often it is tried even if it
    /// has not.
    pub(super) fn is_worth(&self, len: usize) -> bool {
        const TRY_EVERY: [u32; 3] = [128, 64, 16];
        let class = size_class(len);
        // Costs are shared by all cursors and read without order: a stale one decides speed and never a hit.
        self.costs[class].get() < self.plain_costs[class].get() || {
            let skipped = self.skipped[class].fetch_add(1, Ordering::Relaxed);
            skipped % TRY_EVERY[class] == TRY_EVERY[class] - 1
        }
    }

    /// Records the cost of a delta with the prefilter.
    pub(super) fn record_filtered(&self, len: usize, effort: ScanEffort) {
        let ScanEffort {
            stepped,
            candidates,
            compared,
        } = effort;
        let cost = (2 * stepped + 12 * candidates + 5 * compared) * STEP_COST as usize / len;
        let class = size_class(len);
        let known = &self.costs[class];
        // Trials are rare, so each counts for more.
        let shift = match known.get() < self.plain_costs[class].get() {
            true => DECAY_SHIFT[class],
            false => TRIAL_DECAY_SHIFT,
        };
        known.record(cost, shift);
    }

    /// Records the cost of a delta without the prefilter, of which `stepped` bytes were stepped one by one.
    pub(super) fn record_unfiltered(&self, len: usize, stepped: usize) {
        let in_lanes = len - stepped;
        let cost = (stepped * STEP_COST as usize + in_lanes * LANE_STEP_COST as usize) / len;
        let class = size_class(len);
        self.plain_costs[class].record(cost, DECAY_SHIFT[class]);
    }

    /// Returns the candidates of a text, from its start.
    pub(super) fn candidates<'a>(&'a self, text: &'a [u8]) -> Candidates<'a> {
        Candidates {
            filter: self,
            text,
            from: 0,
            end: 0,
            marks: [0; SPAN / 64],
            block: 0,
            compared: 0,
        }
    }

    /// Returns, in one line, the windows and the costs so far.
    #[cfg(test)]
    pub(super) fn shape(&self) -> String {
        use super::tests::shape::sum;
        let costs = |costs: &[CostEstimate; 3]| costs.each_ref().map(CostEstimate::get);
        format!(
            "filter: reach {}, probe #{:08x}, windows #{:08x}, costs {:?}, {:?} without",
            self.look_back,
            sum(&self.probe),
            sum(&self.masks),
            costs(&self.costs),
            costs(&self.plain_costs)
        )
    }

    /// Returns true if any window fits the text at `at`, as far as there is text.
    #[inline]
    fn fits(&self, text: &[u8], at: usize) -> bool {
        // Positions past the end of the text exclude no window: what comes there is not known yet.
        let bytes = text[at..].iter().take(CHECKED_BYTES);
        let mut windows = u128::MAX;
        for (masks, &byte) in self.masks.iter().zip(bytes) {
            match masks.get(usize::from(byte)) {
                Some(fitting) => windows &= fitting,
                // Sets hold ASCII only, so nothing can be excluded at another byte.
                None => return true,
            }
        }
        windows != 0
    }
}

/// The places where windows may start, in rising order.
pub(super) struct Candidates<'a> {
    filter: &'a Prefilter,
    text: &'a [u8],
    /// The range of places that `marks` covers.
    from: usize,
    end: usize,
    marks: CandidateBits,
    /// The index of the first word of `marks` that may have a bit left.
    block: usize,
    /// The number of places that the probe has found and that were compared with all windows.
    pub(super) compared: usize,
}

impl Candidates<'_> {
    /// Returns the first candidate at or after `at`, or the length of the text. Places so near the end that a window
    /// does not fit are not candidates.
    #[inline]
    pub(super) fn next(&mut self, at: usize) -> usize {
        let ends = self.text.len().saturating_sub(WIDTH - 1);
        let mut at = at;
        loop {
            if at >= self.end {
                // The last bytes are no candidates, but the caller steps them: `Prefilter::unfiltered_bytes` covers
                // them.
                if at >= ends {
                    return self.text.len();
                }
                self.fill(at, ends);
            }
            match self.marked(at) {
                Some(place) => {
                    self.compared += 1;
                    if self.filter.fits(self.text, place) {
                        return place;
                    }
                    at = place + 1;
                }
                None => at = self.end,
            }
        }
    }

    #[inline]
    fn marked(&mut self, at: usize) -> Option<usize> {
        // `at` never decreases, so words before it are done.
        let first = (at - self.from) / 64;
        let last = (self.end - self.from).div_ceil(64);
        if first > self.block {
            self.block = first;
        }
        let mut kept = match self.block == first {
            true => u64::MAX << ((at - self.from) % 64),
            false => u64::MAX,
        };
        while self.block < last {
            let marks = self.marks[self.block] & kept;
            if marks != 0 {
                return Some(self.from + 64 * self.block + marks.trailing_zeros() as usize);
            }
            kept = u64::MAX;
            self.block += 1;
        }
        None
    }

    fn fill(&mut self, at: usize, ends: usize) {
        let starts = (ends - at).min(SPAN);
        let Candidates { filter, marks, .. } = self;
        let text = &self.text[at..];
        let any = filter.probe.mark(filter.level, text, starts, marks);
        (self.from, self.end, self.block) = (at, at + starts, 0);
        match any {
            Some(true) => {}
            Some(false) => self.block = starts.div_ceil(64),
            // Every place is a candidate, so nothing is missed.
            None => self.marks.fill(u64::MAX),
        }
    }
}

fn size_class(len: usize) -> usize {
    match len {
        0..256 => 0,
        256..8192 => 1,
        _ => 2,
    }
}

/// The bytes that can occur at each position of matches with a common prefix.
struct PrefixClass {
    classes: Vec<AsciiSet>,
    /// The NFA states after the prefix. Empty once such a match may be over, or may continue with other than ASCII.
    states: Vec<NfaStateId>,
    /// True if a strong window is known.
    has_strong_window: bool,
}

/// Returns a window for each prefix of a match; `None` if one has none, or there are too many prefixes.
fn windows(nfa: &Nfa) -> Option<Vec<PrefilterWindow>> {
    let mut ascii = AsciiSets::new(nfa);
    let mut all: Vec<PrefixClass> = Vec::new();
    for state in close(nfa, &nfa.starts)? {
        all.push(PrefixClass {
            classes: Vec::new(),
            states: vec![state],
            has_strong_window: false,
        });
    }
    let mut windows = Vec::new();
    for max_offset in [MAX_OFFSET, HARD_MAX_OFFSET] {
        all = grow(nfa, all, max_offset + CHECKED_BYTES, &mut ascii)?;
        // Prefixes without a window are extended to where one may be.
        all.retain(|prefix| match prefix.window(max_offset) {
            Some(window) => {
                windows.push(window);
                false
            }
            None => true,
        });
    }
    // A prefix without a window could start anywhere, so nothing could be skipped.
    all.is_empty().then_some(windows)
}

/// Extends the prefixes to this number of positions.
fn grow(
    nfa: &Nfa,
    mut all: Vec<PrefixClass>,
    places: usize,
    ascii: &mut AsciiSets<'_>,
) -> Option<Vec<PrefixClass>> {
    // All prefixes of a list have the same number of positions.
    let known = all.first().map_or(0, |prefix| prefix.classes.len());
    for place in known..places {
        let mut longer = Vec::new();
        let mut states = 0;
        for prefix in all {
            let before = longer.len();
            prefix.grow(nfa, ascii, place, &mut longer);
            let new = longer[before..].iter();
            states += new.map(|prefix| prefix.states.len()).sum::<usize>();
            if longer.len() > HARD_MAX_PREFIXES || states > MAX_PREFIX_STATES {
                return None;
            }
        }
        all = longer;
    }
    Some(all)
}

/// The ASCII bytes of each class, computed on first use.
struct AsciiSets<'a> {
    nfa: &'a Nfa,
    known: Vec<Option<AsciiSet>>,
}

impl AsciiSets<'_> {
    fn new(nfa: &Nfa) -> AsciiSets<'_> {
        AsciiSets {
            nfa,
            known: vec![None; nfa.classes.len()],
        }
    }

    fn ascii_of(&mut self, class: u32) -> AsciiSet {
        *self.known[class as usize].get_or_insert_with(|| ascii(self.nfa, class))
    }
}

impl PrefixClass {
    /// Extends the prefix by one byte: into several prefixes if there is room for them.
    fn grow(
        mut self,
        nfa: &Nfa,
        ascii: &mut AsciiSets<'_>,
        place: usize,
        out: &mut Vec<PrefixClass>,
    ) {
        if self.states.is_empty() {
            self.classes.resize(place + 1, AsciiSet::MAX);
            return out.push(self);
        }
        let mut class = 0;
        let mut next = Vec::new();
        for &state in &self.states {
            if let NfaState::Class {
                class: ascii_of,
                next: to,
            } = nfa.states[state.index()]
            {
                // The union over all states: a window may fit too much text, which costs speed, but never too little.
                class |= ascii.ascii_of(ascii_of);
                next.push(to);
            }
        }
        // `close` fails where a match may end. The empty list then stands for any continuation.
        // Nothing is known about the bytes after the end of a match.
        let states = close(nfa, &next).unwrap_or_default();
        self.classes.push(class);
        self.has_strong_window = self.has_strong_window || self.is_strong();
        if !self.has_strong_window && !states.is_empty() && out.len() + states.len() < MAX_PREFIXES
        {
            for &state in &states {
                out.push(PrefixClass {
                    classes: self.classes.clone(),
                    states: vec![state],
                    has_strong_window: false,
                });
            }
            return;
        }
        self.states = states;
        out.push(self);
    }

    /// Returns true if the last positions form a strong window.
    fn is_strong(&self) -> bool {
        // With folded sets, because the vector probe compares slots, not bytes.
        let last = self.classes.last_chunk::<WIDTH>();
        last.is_some_and(|classes| share(classes.map(folded)) <= STRONG_SHARE)
    }

    /// Returns the window that fits least of ordinary text, at most `max_offset` bytes after the start; `None` if even
    /// that fits too often.
    fn window(&self, max_offset: usize) -> Option<PrefilterWindow> {
        let windows = (0..=max_offset).map(|distance| {
            let classes: [AsciiSet; CHECKED_BYTES] =
                std::array::from_fn(|place| self.classes[distance + place]);
            PrefilterWindow {
                classes,
                distance,
                share: share(std::array::from_fn::<_, WIDTH, _>(|place| {
                    folded(classes[place])
                })),
            }
        });
        // A window farther from the start leaves more to be stepped.
        let rank = |window: &PrefilterWindow| window.share * (1.0 + 0.3 * window.distance as f64);
        let best = windows.min_by(|a, b| rank(a).total_cmp(&rank(b)))?;
        (best.share <= MAX_SHARE).then_some(best)
    }
}

/// Returns the ASCII bytes of a class.
fn ascii(nfa: &Nfa, class: u32) -> AsciiSet {
    (0..128u8)
        .filter(|&byte| nfa.class_contains(class, nfa.alphabet.bytes()[usize::from(byte)].into()))
        .fold(0, |bytes, byte| bytes | 1 << byte)
}

/// Returns the classes in the epsilon closure of `states`, with assertions taken to hold; `None` if the closure
/// contains a match.
fn close(nfa: &Nfa, states: &[NfaStateId]) -> Option<Vec<NfaStateId>> {
    let mut stack = states.to_vec();
    let mut seen = std::collections::HashSet::new();
    let mut reached = Vec::new();
    while let Some(state) = stack.pop() {
        if !seen.insert(state) {
            continue;
        }
        match &nfa.states[state.index()] {
            NfaState::Class { .. } => reached.push(state),
            NfaState::Split(next) => stack.extend_from_slice(next),
            // Taking an assertion to hold makes a window fit more text than it should, never less. A cut is passed,
            // because the window may lie after it.
            NfaState::Look { next, .. } | NfaState::Cut { next, .. } => stack.push(*next),
            NfaState::Match(_) => return None,
        }
    }
    Some(reached)
}

/// Returns the share of ordinary text that fits these sets in sequence.
fn share(classes: [AsciiSet; WIDTH]) -> f64 {
    classes.map(frequency).iter().product()
}

/// Returns the share of ordinary text that consists of the bytes of a set.
fn frequency(class: AsciiSet) -> f64 {
    let sum: f64 = bytes(class)
        .map(|byte| FREQUENCIES[usize::from(byte)])
        .sum();
    sum.min(1.0)
}

/// The share of ordinary text of each byte.
// PERF: computed anew for each set, this took 80 % of the time to load 1,000 rules: 390 ms of 480.
static FREQUENCIES: LazyLock<[f64; 128]> = LazyLock::new(|| {
    let mut frequencies = [0.0002; 128];
    for (rank, &byte) in BY_FREQUENCY.iter().enumerate() {
        frequencies[usize::from(byte)] = 0.18 / (rank as f64 + 2.0).powf(1.05);
    }
    frequencies
});

/// Returns the bytes of a set in order.
fn bytes(mut class: AsciiSet) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let byte = class.trailing_zeros() as u8;
        class &= class.wrapping_sub(1);
        (byte < 128).then_some(byte)
    })
}

/// Adds to a set all bytes that share a slot with one of its bytes.
fn folded(class: AsciiSet) -> AsciiSet {
    bytes(class).fold(0, |folded, byte| folded | SHARING[slot(byte)])
}

/// By slot: the bytes that share it.
static SHARING: LazyLock<[AsciiSet; 64]> = LazyLock::new(|| {
    let mut sharing = [0; 64];
    (0..128u8).for_each(|byte| sharing[slot(byte)] |= 1 << byte);
    sharing
});

/// Returns the two rarest positions of a single window that allow only one byte each.
fn pair(windows: &[PrefilterWindow]) -> Option<[(usize, u8); 2]> {
    let [window] = windows else { return None };
    // The probe then compares two vectors with constants, instead of looking four positions up in tables.
    let mut single: Vec<(usize, u8)> = window.classes[..WIDTH]
        .iter()
        .enumerate()
        .filter(|(_, class)| class.count_ones() == 1)
        .map(|(place, class)| (place, class.trailing_zeros() as u8))
        .collect();
    single.sort_by(|a, b| frequency(1 << a.1).total_cmp(&frequency(1 << b.1)));
    let first = *single.first()?;
    let second = *single.iter().find(|other| other.1 != first.1)?;
    Some([first, second])
}

/// Groups windows so that each addition makes its group fit as little more text as possible. `ascii_of` gives the sets
/// of a window. Returns `None` if the groups fit more than `most` of ordinary text together.
fn gather(
    windows: &[PrefilterWindow],
    room: usize,
    most: f64,
    ascii_of: impl Fn(AsciiSet) -> AsciiSet,
) -> Option<Vec<[AsciiSet; CHECKED_BYTES]>> {
    let mut gathered: Vec<WindowGroup> = Vec::new();
    for window in windows {
        let classes = window.classes.map(&ascii_of);
        if gathered.len() < room {
            gathered.push(WindowGroup::default());
        }
        // Greedy, in `O(windows * room)`. The best grouping is not needed: any grouping finds every match.
        let dearer = |known: &WindowGroup| known.share_with(&classes) - known.share();
        let least = gathered
            .iter_mut()
            .min_by(|a, b| dearer(a).total_cmp(&dearer(b)));
        least.expect("there is room for one at least").add(&classes);
        // The sum only grows, and windows that fit most come first.
        if gathered.iter().map(WindowGroup::share).sum::<f64>() > most {
            return None;
        }
    }
    Some(gathered.into_iter().map(|known| known.classes).collect())
}

/// Windows that are searched for together.
#[derive(Clone, Copy, Debug, Default)]
struct WindowGroup {
    classes: [AsciiSet; CHECKED_BYTES],
    /// The frequencies of the first sets.
    frequencies: [f64; WIDTH],
}

impl WindowGroup {
    fn share(&self) -> f64 {
        self.frequencies.iter().product()
    }

    /// Returns the share with these sets added.
    fn share_with(&self, classes: &[AsciiSet; CHECKED_BYTES]) -> f64 {
        self.with(classes).iter().product()
    }

    fn with(&self, classes: &[AsciiSet; CHECKED_BYTES]) -> [f64; WIDTH] {
        std::array::from_fn(|place| {
            let new = classes[place] & !self.classes[place];
            (self.frequencies[place] + frequency(new)).min(1.0)
        })
    }

    fn add(&mut self, classes: &[AsciiSet; CHECKED_BYTES]) {
        self.frequencies = self.with(classes);
        for (known, class) in self.classes.iter_mut().zip(classes) {
            *known |= class;
        }
    }
}

/// Builds the tables of the vector probe; `None` if it would find too many candidates.
fn groups(windows: &[PrefilterWindow]) -> Option<Box<[BucketMasks]>> {
    let count = match windows.len() {
        0..=12 => 1,
        13..=64 => 2,
        _ => 4,
    };
    let buckets = gather(windows, 8 * count, MAX_TOTAL_SHARE, folded)?;
    let mut groups = vec![[[0; 64]; WIDTH]; count];
    for (bucket, classes) in buckets.iter().enumerate() {
        for (place, class) in classes.iter().enumerate().take(WIDTH) {
            for byte in bytes(*class) {
                groups[bucket / 8][place][slot(byte)] |= 1 << (bucket % 8);
            }
        }
    }
    Some(groups.into_boxed_slice())
}

fn lookup_masks(windows: &[PrefilterWindow]) -> Option<Box<[[u128; 128]; CHECKED_BYTES]>> {
    let mut masks = Box::new([[0; 128]; CHECKED_BYTES]);
    let gathered = gather(windows, MAX_WINDOWS, f64::INFINITY, |class| class)?;
    for (slot, classes) in gathered.iter().enumerate() {
        for (masks, class) in masks.iter_mut().zip(classes) {
            for (byte, windows) in masks.iter_mut().enumerate() {
                *windows |= (class >> byte & 1) << slot;
            }
        }
    }
    Some(masks)
}
