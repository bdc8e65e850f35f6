//! Decides how patterns are partitioned over automata, and which of them are cut.
//!
//! Patterns share an automaton if their DFA states do not multiply. That is measured, not derived: a sample of text is
//! stepped through one automaton of all patterns. If it has too many states, a trace of the partial matches of each
//! pattern tells how many states any grouping would have, without building it.
//!
//! # Invariants
//!
//! 1. The partition decides speed and memory, never a hit: an automaton reports its patterns at the same ends whatever
//!    other patterns it has.
//! 2. Every pattern is in exactly one automaton. Patterns over characters come first, patterns over bytes last.
//! 3. Patterns that share a suffix stay together, because a suffix is stepped once for all of them.
//! 4. The first automaton is never a `single_match` one: it counts the invalid bytes of the haystack, so it must be
//!    stepped to the end.
//! 5. The result depends on the patterns and the sample alone, so it is the same in every run and on every machine.
//!
//! # Complexity
//!
//! With `m` groups to distribute and a sample of `n` symbols, trying `k` automata counts the states of `m * k`
//! candidates, `O(n)` each. [`MAX_MOVED`] and [`AUTOMATON_COUNTS`] bound `m` and `k`.

pub(super) mod profile;

use regex_syntax::hir::Hir;

use super::alphabet::{SymbolSpace, TooManyClasses};
use super::lazy_dfa::LazyDfa;
use super::nfa::{self, Nfa};
use super::partition::profile::{ProfileRun, StateTrace};
use super::prefix_tree::SplitConfig;
use super::report::PatternId;
use super::simd::SimdLevel;
use super::single_match::MAX_SINGLE_MATCH;
use super::split::GapCriteria;
use super::table::sparse::SparseRows;
use super::table::{FIRST_BUDGET, TableConfig};

/// A pattern in the form in which it is searched for.
#[derive(Debug)]
pub(crate) struct SimplifiedPattern {
    pub(crate) hir: Hir,
    /// True if every end is reported. Such a pattern is not cut.
    pub(crate) wants_every_end: bool,
}

/// The parameters of a partition, so that tests can force each layout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PartitionPlan {
    /// The gaps to cut before; `None` to cut nothing.
    pub(crate) gaps: Option<GapCriteria>,
    pub(crate) automaton_count: AutomatonCount,
    /// The vector instructions to use; `None` for all that the processor has.
    pub(crate) level: Option<SimdLevel>,
    /// The states that get sparse rows.
    pub(crate) sparse: SparseRows,
    /// The budget of the first table of each automaton.
    pub(crate) first_budget: usize,
}

/// The automata of a [`Matcher`](super::Matcher), each with its patterns: the result of planning, which is stored so that
/// another matcher of the same patterns need not be planned again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MatcherLayout {
    /// The automata. The first one reports every match.
    pub automata: Vec<AutomatonLayout>,
}

/// One automaton of a [`MatcherLayout`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AutomatonLayout {
    /// Its patterns.
    pub patterns: Vec<PatternId>,
    /// True if it reports each of its patterns once.
    pub is_single_match: bool,
}

/// The number of automata that patterns are distributed over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AutomatonCount {
    /// Chosen by profiling on a sample of text.
    Sampled,
    /// Fixed, filled round-robin. Each automaton reports every pattern at least once and may then stop.
    #[cfg(any(test, feature = "test-support"))]
    RoundRobin(usize),
}

/// The patterns of one automaton.
#[derive(Debug, Default)]
pub(crate) struct Partition {
    pub(crate) patterns: Vec<PatternId>,
    pub(crate) space: SymbolSpace,
    pub(crate) gaps: Option<GapCriteria>,
    /// By pattern of the partition: never cut.
    pub(crate) uncut: Vec<bool>,
    /// True if each pattern is reported once; then no two of them share a suffix.
    pub(crate) is_single_match: bool,
    /// The automaton that profiling built, with the states that the sample visits.
    profiled: Option<LazyDfa>,
}

impl Partition {
    /// Builds the automaton, with tables of these parameters.
    pub(crate) fn into_automaton(
        mut self,
        simplified: &[SimplifiedPattern],
        config: TableConfig,
    ) -> Result<(LazyDfa, Box<[PatternId]>), TooManyClasses> {
        // Profiling built this automaton with the first patterns of the sample, so its states are kept. If the budget
        // has changed meanwhile, only the NFA is reused.
        let lazy = match self.profiled.take() {
            Some(profiled) if profiled.has(config) => profiled.prefiltered(),
            Some(profiled) => LazyDfa::new(profiled.into_nfa(), config),
            None if self.is_single_match => {
                LazyDfa::single_match(self.compile_nfa(simplified)?, config)
            }
            None => LazyDfa::new(self.compile_nfa(simplified)?, config),
        };
        Ok((lazy, self.patterns.into_boxed_slice()))
    }

    fn compile_nfa(&self, simplified: &[SimplifiedPattern]) -> Result<Nfa, TooManyClasses> {
        let subset = |pattern: &PatternId| &simplified[pattern.index()].hir;
        let patterns: Vec<&Hir> = self.patterns.iter().map(subset).collect();
        let uncut = &self.uncut;
        let cuts = self.gaps.map(|gaps| SplitConfig { gaps, uncut });
        match self.is_single_match {
            // An automaton that reports each pattern once drops a suffix with its pattern, so no suffix may be shared.
            true => Ok(Nfa::without_prefix_sharing(self.space, &patterns, cuts)?.0),
            false => Nfa::new(self.space, &patterns, cuts),
        }
    }
}

impl PartitionPlan {
    pub(crate) const USUAL: PartitionPlan = PartitionPlan {
        gaps: Some(GapCriteria::USUAL),
        automaton_count: AutomatonCount::Sampled,
        level: None,
        sparse: SparseRows::USUAL,
        first_budget: FIRST_BUDGET,
    };

    /// Returns the table parameters of `automata` automata that share `table_bytes`.
    pub(crate) fn config(&self, automata: usize, table_bytes: usize) -> TableConfig {
        TableConfig {
            // Without patterns nothing is built, and no memory is reserved.
            budget: table_bytes / automata.max(1),
            first_budget: self.first_budget,
            level: self.level.unwrap_or_else(SimdLevel::best),
            sparse: self.sparse,
        }
    }

    /// Distributes the patterns over automata as `layout` says. Returns `None` if that violates invariant 2 or 4, if an
    /// automaton for single matches would have to report every end, or if there are more automata than
    /// [`partition`](Self::partition) makes: the layout may come from anyone. Invariant 3 is not tested, because a layout
    /// that violates it costs speed only.
    pub(crate) fn partition_as(
        &self,
        simplified: &[SimplifiedPattern],
        layout: &MatcherLayout,
    ) -> Option<Vec<Partition>> {
        // A cursor is a list with an element for each automaton, which is dropped recursively.
        if layout.automata.len() > max_automata(simplified.len()) {
            return None;
        }
        let mut is_placed = vec![false; simplified.len()];
        let mut parts: Vec<Partition> = Vec::new();
        for AutomatonLayout {
            patterns,
            is_single_match,
        } in &layout.automata
        {
            let of = |pattern: &PatternId| simplified.get(pattern.index());
            // Invariant 2: no pattern is in two automata. The last line tests that each is in one.
            for pattern in patterns {
                if std::mem::replace(is_placed.get_mut(pattern.index())?, true) {
                    return None;
                }
            }
            let space = match nfa::needs_bytes(&of(patterns.first()?)?.hir) {
                true => SymbolSpace::Bytes,
                false => SymbolSpace::Chars,
            };
            let is_in_space = |pattern: &PatternId| {
                let needs_bytes = of(pattern).is_some_and(|of| nfa::needs_bytes(&of.hir));
                needs_bytes == (space == SymbolSpace::Bytes)
            };
            let every_end = |pattern: &PatternId| of(pattern).is_some_and(|of| of.wants_every_end);
            let uncut: Vec<bool> = patterns.iter().map(every_end).collect();
            // Invariant 4. Such an automaton reports each pattern once, so it cannot report every end.
            let is_first = parts.is_empty();
            let may_be_single =
                !is_first && !uncut.contains(&true) && patterns.len() <= MAX_SINGLE_MATCH;
            // Invariant 2: characters come first.
            let follows_bytes = parts
                .last()
                .is_some_and(|last| last.space == SymbolSpace::Bytes);
            let is_in_order = !follows_bytes || space == SymbolSpace::Bytes;
            if !patterns.iter().all(is_in_space)
                || *is_single_match && !may_be_single
                || !is_in_order
            {
                return None;
            }
            parts.push(Partition {
                patterns: patterns.clone(),
                space,
                gaps: self.gaps,
                uncut,
                is_single_match: *is_single_match,
                profiled: None,
            });
        }
        is_placed.iter().all(|placed| *placed).then_some(parts)
    }

    /// Distributes the patterns over automata whose tables share `table_bytes`. Patterns that can match single bytes of
    /// a character come last.
    pub(crate) fn partition(
        &self,
        simplified: &[SimplifiedPattern],
        table_bytes: usize,
    ) -> Result<Vec<Partition>, TooManyClasses> {
        // The two symbol spaces cannot share an alphabet, hence not an automaton either.
        let needs_bytes = |pattern: &PatternId| nfa::needs_bytes(&simplified[pattern.index()].hir);
        let all = (0..simplified.len() as u32).map(PatternId);
        let (bytes, chars): (Vec<PatternId>, Vec<PatternId>) = all.partition(needs_bytes);
        let mut parts = Vec::new();
        for (space, patterns) in [(SymbolSpace::Chars, chars), (SymbolSpace::Bytes, bytes)] {
            if patterns.is_empty() {
                continue;
            }
            let every_end = |pattern: &PatternId| simplified[pattern.index()].wants_every_end;
            let uncut = patterns.iter().map(every_end).collect();
            let part = Partition {
                patterns,
                space,
                gaps: self.gaps,
                uncut,
                is_single_match: false,
                profiled: None,
            };
            match self.automaton_count {
                AutomatonCount::Sampled => {
                    part.partition_by_profile(self, simplified, table_bytes, &mut parts)?
                }
                #[cfg(any(test, feature = "test-support"))]
                AutomatonCount::RoundRobin(automata) => {
                    parts.extend(part.round_robin(automata, simplified))
                }
            }
        }
        Ok(parts)
    }
}

/// Below this number of patterns they share one automaton without profiling, which would cost more than it saves.
pub(crate) const MIN_TO_PROFILE: usize = 128;

/// The most states that one automaton may have on the sample. 5,000 rules of ordinary code patterns have fewer, and
/// such a table stays in the cache of the processor.
const MAX_STATES: usize = 2000;

// Leaving patterns uncut whose suffixes are live most of the time did not help. CRS has 12.8 live suffixes at every
// byte of the sample and takes 409 ns a delta with all gaps cut. With the suffixes uncut that live at more than 60 % of
// the bytes it takes 320 to 440 ns, depending on the number of automata; at more than 30 %, two to four times the
// states; at 10 % the tables overflowed five times in 3 MB and a delta took 7,389 ns (all on one busy machine).

/// The most groups of patterns that are moved between automata: those with the most states. It bounds the time of a
/// load.
const MAX_MOVED: usize = 120;

/// The numbers of automata that are tried.
const AUTOMATON_COUNTS: [usize; 5] = [1, 2, 3, 4, 6];

/// Returns the most automata that patterns are distributed over: in each of the two symbol spaces those of
/// [`AUTOMATON_COUNTS`], and those that report each of their patterns once.
const fn max_automata(patterns: usize) -> usize {
    let [.., most] = AUTOMATON_COUNTS;
    2 * (most + patterns.div_ceil(MAX_SINGLE_MATCH))
}

/// The least bytes of the table that profiling builds. The smaller one has room for [`MAX_STATES`] states of patterns that
/// distinguish two hundred classes of characters: WebAssembly allocates a whole reservation.
const TRIAL_BYTES: usize = match cfg!(target_family = "wasm") {
    true => 2 << 20,
    false => 32 << 20,
};

impl Partition {
    /// Distributes the patterns by profiling on the sample.
    fn partition_by_profile(
        mut self,
        plan: &PartitionPlan,
        simplified: &[SimplifiedPattern],
        table_bytes: usize,
        parts: &mut Vec<Partition>,
    ) -> Result<(), TooManyClasses> {
        if self.patterns.len() < MIN_TO_PROFILE {
            parts.push(self);
            return Ok(());
        }
        let config = plan.config(1, table_bytes.max(TRIAL_BYTES));
        let lazy = LazyDfa::for_profile(self.compile_nfa(simplified)?, config, TRIAL_BYTES);
        let run = ProfileRun::new(&lazy, self.patterns.len());
        // Few states: one automaton for all, with the states of the sample already built.
        if run.states <= MAX_STATES {
            self.profiled = Some(lazy);
            parts.push(self);
            return Ok(());
        }
        // Too many states. The automaton of the profile is still needed for its cuts.
        let after_cuts = lazy.nfa().patterns_after_cuts();
        let subset = |pattern: &PatternId| simplified[pattern.index()].hir.clone();
        let hirs: Vec<Hir> = self.patterns.iter().map(subset).collect();
        let uncut = &self.uncut;
        // A second pass over the sample, which keeps the partial matches of each pattern apart. Only patterns with too
        // many states need it.
        let trace = StateTrace::new(
            self.space,
            &hirs,
            self.gaps.map(|gaps| SplitConfig { gaps, uncut }),
        )?;
        // A pattern that matches nearly any text keeps its automaton in states with a report. It has an automaton that
        // stops after the first report of each pattern, unless every end is wanted.
        let is_single_match = |index: usize| {
            let wants_every_end = simplified[self.patterns[index].index()].wants_every_end;
            run.is_common(index) && !wants_every_end
        };
        let common: Vec<usize> = (0..self.patterns.len())
            .filter(|&at| is_single_match(at))
            .collect();
        let suffix_groups = suffix_groups(&after_cuts, self.patterns.len());
        let automata = Partitioner::new(trace, &common, suffix_groups).best();
        // No distribution is better than one automaton, which is built already.
        if automata.len() == 1 && common.is_empty() {
            self.profiled = Some(lazy);
            parts.push(self);
            return Ok(());
        }
        for members in automata {
            parts.push(self.subset(&members, false));
        }
        // The patterns that have been reported are one word of bits, which bounds their number.
        for members in common.chunks(MAX_SINGLE_MATCH) {
            // By invariant 4 the first automaton reports every match.
            let is_single_match = !parts.is_empty();
            parts.push(self.subset(members, is_single_match));
        }
        Ok(())
    }

    /// Returns a partition of some of these patterns.
    fn subset(&self, members: &[usize], is_single_match: bool) -> Partition {
        Partition {
            patterns: members.iter().map(|&index| self.patterns[index]).collect(),
            space: self.space,
            gaps: self.gaps,
            uncut: members.iter().map(|&index| self.uncut[index]).collect(),
            is_single_match,
            profiled: None,
        }
    }
}

/// Returns, by pattern, the first pattern that it shares a suffix with, directly or through others (union-find).
fn suffix_groups(after_cuts: &[Vec<PatternId>], patterns: usize) -> Vec<usize> {
    let mut suffix_groups: Vec<usize> = (0..patterns).collect();
    for patterns in after_cuts {
        // Joining neighbours joins all patterns of the cut.
        for pair in patterns.windows(2) {
            let [first, second] = [root(&suffix_groups, pair[0]), root(&suffix_groups, pair[1])];
            // The smaller index is the root, so a root is its own representative and indices only decrease.
            suffix_groups[first.max(second)] = first.min(second);
        }
    }
    (0..patterns as u32)
        .map(|pattern| root(&suffix_groups, PatternId(pattern)))
        .collect()
}

fn root(suffix_groups: &[usize], pattern: PatternId) -> usize {
    // Without path compression: chains are short, because few patterns share a suffix.
    let mut at = pattern.index();
    while suffix_groups[at] != at {
        at = suffix_groups[at];
    }
    at
}

/// Distributes patterns whose states multiply over different automata.
struct Partitioner {
    /// By symbol of the sample: the summed hashes of the partial matches of the patterns that are not moved. They stay
    /// in the first automaton.
    rest: Vec<u64>,
    /// By symbol of the sample: the hash of the look-behind, which every automaton has.
    before: Vec<u64>,
    /// The groups of patterns that may be moved, each with the hashes of its partial matches by symbol.
    // A group may be many patterns: sums of hashes describe it as they describe a single one.
    movable: Vec<(usize, Vec<(u32, u64)>)>,
    /// By pattern: its group; `None` if it has a `single_match` automaton.
    group: Vec<Option<usize>>,
    /// Buffers of `count_distinct`, which is called for every candidate.
    sums: Vec<u64>,
    table: Vec<u32>,
}

impl Partitioner {
    fn new(trace: StateTrace, common: &[usize], suffix_groups: Vec<usize>) -> Partitioner {
        let is_free: Vec<bool> = {
            let mut is_free = vec![true; suffix_groups.len()];
            common.iter().for_each(|&pattern| is_free[pattern] = false);
            is_free
        };
        // The trace of a group is the concatenation of the traces of its patterns: sums do not depend on the order.
        let mut entries: Vec<Vec<(u32, u64)>> = vec![Vec::new(); suffix_groups.len()];
        for (pattern, traced) in trace.patterns.into_iter().enumerate() {
            if is_free[pattern] {
                entries[suffix_groups[pattern]].extend(traced);
            }
        }
        let mut movable: Vec<(usize, Vec<(u32, u64)>)> = entries.into_iter().enumerate().collect();
        // Those with a partial match at the most symbols come first; the others stay together in the first automaton.
        movable.sort_by_key(|(_, entries)| std::cmp::Reverse(entries.len()));
        let mut rest = trace.before.clone();
        for (_, entries) in movable.drain(MAX_MOVED.min(movable.len())..) {
            add_hashes(&mut rest, &entries);
        }
        // A pattern that is reported once has an automaton of its own kind, whatever its group is: that automaton
        // shares no suffixes.
        let group = suffix_groups.iter().zip(is_free);
        let mut partitioner = Partitioner {
            rest,
            before: trace.before,
            movable,
            group: group
                .map(|(&group, is_free)| is_free.then_some(group))
                .collect(),
            sums: Vec::new(),
            table: Vec::new(),
        };
        partitioner.sort_groups();
        partitioner
    }

    /// Sorts the groups: those that multiply the most states for the longest time come first. Greedy assignment is
    /// sensitive to the order. The groups that do the most damage are placed while automata are empty.
    fn sort_groups(&mut self) {
        let mut movable = std::mem::take(&mut self.movable);
        movable.sort_by_cached_key(|(_, entries)| {
            // The states that the group has by itself, times the symbols at which it has a partial match: the first
            // factor says how much it multiplies the states of others, and the second how often.
            let mut alone = self.before.clone();
            add_hashes(&mut alone, entries);
            std::cmp::Reverse(self.count_distinct(&alone, &[]) * entries.len())
        });
        self.movable = movable;
    }

    /// Returns the patterns of each automaton, for the number of automata with the lowest estimated cost.
    fn best(mut self) -> Vec<Vec<usize>> {
        let (mut best, mut least) = (Vec::new(), f64::MAX);
        // Each number is tried from the start: with one automaton more, other groups go together.
        for automata in AUTOMATON_COUNTS {
            let (assigned, states) = self.assign(automata);
            let cost = estimated_cost(automata, states);
            // Strictly less: of equal costs the smaller number of automata wins.
            if cost < least {
                (best, least) = (assigned, cost);
            }
        }
        let mut automata: Vec<Vec<usize>> = Vec::new();
        let automaton_of = |group: usize| {
            let index = self
                .movable
                .iter()
                .position(|(movable, _)| *movable == group);
            // Groups that are not moved are in the first automaton.
            index.map_or(0, |index| best[index])
        };
        for (pattern, group) in self.group.iter().enumerate() {
            if let Some(group) = *group {
                let automaton = automaton_of(group);
                // Automata are created on demand, up to the last one that has a group.
                automata.resize(automata.len().max(automaton + 1), Vec::new());
                automata[automaton].push(pattern);
            }
        }
        // An automaton that no group was assigned to costs a step for nothing.
        automata.retain(|members| !members.is_empty());
        automata
    }

    /// Assigns each group to the automaton in which it adds the fewest states. Returns the automaton of each group, and
    /// the number of all states.
    fn assign(&mut self, automata: usize) -> (Vec<usize>, usize) {
        let mut sums = vec![self.before.clone(); automata];
        // Patterns that are not moved are in the first automaton from the start.
        sums[0].clone_from(&self.rest);
        let mut states: Vec<usize> = sums
            .iter()
            .map(|sums| self.count_distinct(sums, &[]))
            .collect();
        let movable = std::mem::take(&mut self.movable);
        let mut assigned = Vec::with_capacity(movable.len());
        for (_, entries) in &movable {
            let counts = sums.iter().map(|sums| self.count_distinct(sums, entries));
            let counts: Vec<usize> = counts.collect();
            let added = |automaton: &usize| counts[*automaton].saturating_sub(states[*automaton]);
            // The first one of several: `min_by_key` is deterministic, and so is the partition.
            let automaton = (0..automata)
                .min_by_key(added)
                .expect("there is one at least");
            // The counts are kept, or each group would cost one more count of each automaton.
            states[automaton] = counts[automaton];
            add_hashes(&mut sums[automaton], entries);
            assigned.push(automaton);
        }
        self.movable = movable;
        (assigned, states.iter().sum())
    }

    // The states of an automaton on the sample are the distinct sums of the hashes of its partial matches, look-behind
    // included: equal sums are equal sets, except for a collision in 64 bits, which would cost only speed.
    /// Returns the number of distinct values of `sums` with `entries` added.
    fn count_distinct(&mut self, sums: &[u64], entries: &[(u32, u64)]) -> usize {
        self.sums.clear();
        self.sums.extend_from_slice(sums);
        add_hashes(&mut self.sums, entries);
        // A hash table of the upper halves, at most half full. Equal halves of different sums are rare, and they only
        // make the estimate smaller. Bit 0 is set so that 0 can mean an empty slot.
        let size = (2 * sums.len()).next_power_of_two();
        self.table.clear();
        self.table.resize(size, 0);
        let mut distinct = 0;
        for &sum in &self.sums {
            let half = (sum >> 32) as u32 | 1;
            // The slot comes from the low bits and the value from the high ones, which are independent.
            let mut slot = sum as usize & (size - 1);
            while self.table[slot] != half && self.table[slot] != 0 {
                slot = (slot + 1) & (size - 1);
            }
            distinct += usize::from(self.table[slot] == 0);
            self.table[slot] = half;
        }
        distinct
    }
}

fn add_hashes(sums: &mut [u64], entries: &[(u32, u64)]) {
    for &(at, hash) in entries {
        sums[at as usize] = sums[at as usize].wrapping_add(hash);
    }
}

/// Estimates the cost of a delta in nanoseconds: 5 for each automaton, and 14 for each doubling of the states beyond
/// those that fit into the caches. Both figures were measured on one machine.
fn estimated_cost(automata: usize, states: usize) -> f64 {
    5.0 * automata as f64 + 14.0 * (states.max(MAX_STATES) as f64 / MAX_STATES as f64).log2()
}

#[cfg(any(test, feature = "test-support"))]
impl Partition {
    /// Distributes the patterns in turn over `automata` automata, for tests that force a layout.
    fn round_robin(self, automata: usize, simplified: &[SimplifiedPattern]) -> Vec<Partition> {
        let mut parts: Vec<Partition> = Vec::new();
        for (index, pattern) in self.patterns.into_iter().enumerate() {
            // The first patterns open one automaton each.
            if index < automata {
                parts.push(Partition {
                    space: self.space,
                    gaps: self.gaps,
                    ..Partition::default()
                });
            }
            let part = &mut parts[index % automata];
            part.patterns.push(pattern);
            part.uncut.push(self.uncut[index]);
        }
        // By invariant 4 the first automaton reports every match.
        for part in parts.iter_mut().skip(1) {
            let is_single_match =
                |pattern: &PatternId| !simplified[pattern.index()].wants_every_end;
            if part.patterns.iter().all(is_single_match) {
                part.is_single_match = part.patterns.len() <= MAX_SINGLE_MATCH;
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::super::hash;
    use super::*;

    /// Returns a trace in which a pattern cycles through `states` partial matches.
    fn traced(symbols: u32, pattern: u64, states: u32) -> Vec<(u32, u64)> {
        let state = |at: u32| hash::hash_number(pattern << 32 | u64::from(at % states));
        (0..symbols).map(|at| (at, state(at))).collect()
    }

    fn partitioner(symbols: u32, patterns: Vec<Vec<(u32, u64)>>, common: &[usize]) -> Partitioner {
        let suffix_groups = (0..patterns.len()).collect();
        let before = vec![0; symbols as usize];
        Partitioner::new(StateTrace { before, patterns }, common, suffix_groups)
    }

    #[test]
    fn patterns_that_share_a_suffix_directly_or_not_are_one_group() {
        let after_cuts = [vec![2, 4], vec![5], vec![1, 4], vec![0, 7, 8]];
        let after_cuts = after_cuts.map(|after| after.into_iter().map(PatternId).collect());
        assert_eq!(suffix_groups(&after_cuts, 9), [0, 1, 1, 3, 1, 5, 6, 0, 0]);
    }

    #[test]
    fn one_more_automaton_is_worth_less_than_twice_the_states() {
        assert_eq!(estimated_cost(1, 0), 5.0);
        assert_eq!(estimated_cost(1, MAX_STATES), 5.0);
        assert_eq!(estimated_cost(1, 2 * MAX_STATES), 19.0);
        assert_eq!(estimated_cost(3, 8 * MAX_STATES), 57.0);
    }

    #[test]
    fn different_sums_are_counted() {
        let mut partitioner = partitioner(0, Vec::new(), &[]);
        let mut distinct =
            |sums: &[u64], entries: &[(u32, u64)]| partitioner.count_distinct(sums, entries);
        assert_eq!(distinct(&[], &[]), 0);
        assert_eq!(distinct(&[1 << 32, 5 << 32, 1 << 32], &[]), 2);
        assert_eq!(distinct(&[1 << 32, 1 << 32], &[(1, 2 << 32)]), 2);
        // All of these hash to the same slot.
        let same_slot: Vec<u64> = (1..50).map(|value| value << 33).collect();
        assert_eq!(distinct(&same_slot, &[]), 49);
        assert_eq!(distinct(&[same_slot.clone(), same_slot].concat(), &[]), 49);
    }

    #[test]
    fn the_pattern_with_the_most_states_for_the_longest_time_is_placed_first() {
        // Symbols with a partial match times distinct states: 40 * 2, 20 * 21, 1 * 2.
        let patterns = vec![traced(40, 0, 1), traced(20, 1, 20), traced(1, 2, 1)];
        let partitioner = partitioner(60, patterns, &[]);
        let order: Vec<usize> = partitioner
            .movable
            .iter()
            .map(|movable| movable.0)
            .collect();
        assert_eq!(order, [1, 0, 2]);
    }

    #[test]
    fn patterns_whose_states_multiply_are_parted_and_others_stay() {
        // Each pair of the first three has 9,900 states or more together.
        let never = Vec::new;
        let symbols = 12_000;
        let patterns = vec![
            traced(symbols, 0, 100),
            traced(symbols, 1, 101),
            never(),
            traced(symbols, 2, 103),
            never(),
        ];
        let automata = partitioner(symbols, patterns.clone(), &[]).best();
        assert_eq!(automata.len(), 3, "{automata:?}");
        for pair in [[0, 1], [0, 3], [1, 3]] {
            let is_together = |members: &&Vec<usize>| pair.iter().all(|at| members.contains(at));
            assert_eq!(automata.iter().find(is_together), None);
        }
        // Patterns that have an automaton already are in none of these.
        let automata = partitioner(symbols, patterns, &[1, 4]).best();
        let mut members: Vec<usize> = automata.iter().flatten().copied().collect();
        members.sort_unstable();
        assert_eq!((automata.len(), members), (2, vec![0, 2, 3]));
        // One automaton of few states is the cheapest.
        let few = vec![traced(100, 0, 10), traced(100, 1, 9)];
        assert_eq!(partitioner(100, few, &[]).best(), [[0, 1]]);
    }

    #[test]
    fn a_layout_that_does_not_fit_the_patterns_is_not_used() {
        let texts: [&[u8]; 4] = [b"one", b"two", b"\xFF", b"three"];
        let simplified: Vec<SimplifiedPattern> = (0..)
            .zip(texts)
            .map(|(pattern, text)| SimplifiedPattern {
                hir: Hir::literal(text),
                wants_every_end: pattern == 3,
            })
            .collect();
        let fits = |automata: &[(&[u32], bool)]| {
            let automata = automata.iter().map(|(patterns, is_single_match)| {
                let patterns = patterns.iter().copied().map(PatternId).collect();
                AutomatonLayout {
                    patterns,
                    is_single_match: *is_single_match,
                }
            });
            let layout = MatcherLayout {
                automata: automata.collect(),
            };
            let parts = PartitionPlan::USUAL.partition_as(&simplified, &layout);
            parts.is_some_and(|parts| {
                let found = parts.iter().map(|part| &part.patterns);
                assert!(found.eq(layout.automata.iter().map(|it| &it.patterns)));
                assert_eq!(
                    parts.last().map(|last| last.space),
                    Some(SymbolSpace::Bytes)
                );
                true
            })
        };
        assert!(fits(&[(&[0, 1, 3], false), (&[2], false)]));
        assert!(fits(&[(&[0, 3], false), (&[1], true), (&[2], true)]));
        assert!(!fits(&[]), "no pattern has an automaton");
        assert!(!fits(&[(&[0, 3], false), (&[2], false)]), "one has none");
        assert!(
            !fits(&[(&[0, 1, 3, 0], false), (&[2], false)]),
            "one has two places"
        );
        assert!(
            !fits(&[(&[0, 1, 3, 4], false), (&[2], false)]),
            "there is no fifth"
        );
        assert!(
            !fits(&[(&[0, 1, 3], false), (&[], false), (&[2], false)]),
            "an empty one"
        );
        assert!(!fits(&[(&[0, 1, 2, 3], false)]), "two symbol spaces");
        assert!(!fits(&[(&[2], false), (&[0, 1, 3], false)]), "bytes first");
        assert!(
            !fits(&[(&[0], true), (&[1, 3], false), (&[2], false)]),
            "the first"
        );
        assert!(
            !fits(&[(&[0], false), (&[1, 3], true), (&[2], false)]),
            "every end"
        );
    }

    #[test]
    fn a_layout_with_more_automata_than_are_made_is_not_used() {
        let most = max_automata(MAX_SINGLE_MATCH);
        let simplified = |count: usize| -> Vec<SimplifiedPattern> {
            let word = || SimplifiedPattern {
                hir: Hir::literal(*b"word"),
                wants_every_end: false,
            };
            (0..count).map(|_| word()).collect()
        };
        for (count, is_used) in [(most, true), (most + 1, false)] {
            let automata = (0..count as u32).map(|pattern| AutomatonLayout {
                patterns: vec![PatternId(pattern)],
                is_single_match: false,
            });
            let layout = MatcherLayout {
                automata: automata.collect(),
            };
            let parts = PartitionPlan::USUAL.partition_as(&simplified(count), &layout);
            assert_eq!(parts.is_some(), is_used, "{count} automata");
        }
    }

    #[test]
    fn patterns_in_turn_are_reported_once_where_nobody_wants_every_end() {
        let simplified: Vec<SimplifiedPattern> = (0..9)
            .map(|pattern| SimplifiedPattern {
                hir: Hir::literal(*b"word"),
                wants_every_end: pattern == 2,
            })
            .collect();
        let part = |patterns: Vec<PatternId>| Partition {
            uncut: vec![false; patterns.len()],
            patterns,
            ..Partition::default()
        };
        let parts = part((0..9).map(PatternId).collect()).round_robin(4, &simplified);
        let layout: Vec<(Vec<u32>, bool)> = parts
            .into_iter()
            .map(|part| {
                let patterns = part.patterns.iter().map(|pattern| pattern.0);
                (patterns.collect(), part.is_single_match)
            })
            .collect();
        let want = [
            (vec![0, 4, 8], false),
            (vec![1, 5], true),
            (vec![2, 6], false),
            (vec![3, 7], true),
        ];
        assert_eq!(layout, want);
        // An automaton that reports each pattern once holds at most `MAX_SINGLE_MATCH` patterns.
        for (more, is_single_match) in [(0, true), (1, false)] {
            let patterns = vec![PatternId(3); 2 * (MAX_SINGLE_MATCH + more)];
            let parts = part(patterns).round_robin(2, &simplified);
            assert_eq!(parts[1].is_single_match, is_single_match, "{more}");
        }
    }
}
