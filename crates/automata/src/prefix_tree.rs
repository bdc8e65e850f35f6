//! A prefix tree over the elements of patterns.
//!
//! Thousands of rules start alike (`from ['"]…`). The tree holds their common prefix once, so a search inside it
//! has one NFA state instead of one for each rule.
//!
//! # Invariants
//!
//! 1. A node comes before its children, and each node but the root has one parent. The NFA is compiled from the last
//!    node to the first.
//! 2. No two branches of a node have equal elements.
//! 3. Branches keep the order in which patterns were added, so NFA states have the same numbers in every build.

use std::borrow::Borrow;
use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::alphabet::SymbolSpace;
use super::hash;
use super::report::PatternId;
use super::split::{CHAR_SELECTIVITY, GapCriteria, Selectivity, selectivity};

/// The prefix tree of several patterns. Node 0 is the root, and a node comes before its children.
#[derive(Debug)]
pub(crate) struct PrefixTree {
    pub(crate) nodes: Vec<PrefixNode>,
}

/// A prefix of some patterns.
#[derive(Debug, Default)]
pub(crate) struct PrefixNode {
    /// The elements that can follow, and the node that each leads to.
    pub(crate) branches: Vec<(PatternStep, u32)>,
    /// The patterns that end here.
    pub(crate) ends: Vec<PatternId>,
}

/// One element of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PatternStep {
    /// A character; in [`SymbolSpace::Bytes`] a byte.
    Unit(u32),
    /// Anything else.
    Any(Hir),
    /// An element with gaps inside to cut before, and the selectivity of the prefix before it.
    Cutting(Hir, Selectivity),
    /// A cut: the suffix starts here.
    Cut,
}

/// The gaps to cut before, and the patterns that are never cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SplitConfig<'a> {
    pub(crate) gaps: GapCriteria,
    /// True for patterns that are never cut, by pattern. Patterns after the end of the slice may be cut.
    pub(crate) uncut: &'a [bool],
}

impl SplitConfig<'_> {
    fn gaps_of(&self, pattern: PatternId) -> Option<GapCriteria> {
        let is_uncut = self.uncut.get(pattern.index()) == Some(&true);
        (!is_uncut).then_some(self.gaps)
    }
}

impl PrefixTree {
    /// Builds the tree of patterns, numbered by their index.
    pub(crate) fn new(
        space: SymbolSpace,
        patterns: &[impl Borrow<Hir>],
        cuts: Option<SplitConfig<'_>>,
    ) -> PrefixTree {
        let numbered = (0..).map(PatternId).zip(patterns);
        PrefixTree::from_numbered(
            space,
            numbered.map(|(pattern, hir)| (pattern, hir.borrow())),
            cuts,
        )
    }

    /// Builds the tree of patterns with the given numbers.
    pub(crate) fn from_numbered<'a>(
        space: SymbolSpace,
        patterns: impl IntoIterator<Item = (PatternId, &'a Hir)>,
        cuts: Option<SplitConfig<'_>>,
    ) -> PrefixTree {
        let mut builder = PrefixTreeBuilder {
            space,
            cuts,
            tree: PrefixTree {
                nodes: vec![PrefixNode::default()],
            },
            by_fingerprint: HashMap::new(),
        };
        for (pattern, hir) in patterns {
            builder.add(hir, pattern);
        }
        builder.tree
    }
}

struct PrefixTreeBuilder<'a> {
    space: SymbolSpace,
    cuts: Option<SplitConfig<'a>>,
    tree: PrefixTree,
    /// The branches of a node with equal fingerprints, by node and fingerprint. The elements are then compared.
    // Without it, adding `n` patterns with different first elements would compare every pair of them.
    by_fingerprint: HashMap<(u32, u64), Vec<u32>>,
}

impl PrefixTreeBuilder<'_> {
    fn add(&mut self, hir: &Hir, pattern: PatternId) {
        match hir.kind() {
            // Alternatives at the top are prefixes of their own, so that `from|for` shares its first element with
            // others.
            HirKind::Alternation(subs) => subs.iter().for_each(|sub| self.add(sub, pattern)),
            HirKind::Capture(capture) => self.add(&capture.sub, pattern),
            _ => {
                let mut steps = Vec::new();
                flatten(self.space, hir, &mut steps);
                if let Some(gaps) = self.cuts.and_then(|cuts| cuts.gaps_of(pattern)) {
                    mark_cut(gaps, &mut steps);
                }
                let end = steps
                    .into_iter()
                    // From the root: elements that an earlier pattern has are followed, the others are added.
                    .fold(0, |node, step| self.child(node, step));
                // Two alternatives may be equal. A pattern is reported once.
                let ends = &mut self.tree.nodes[end as usize].ends;
                if !ends.contains(&pattern) {
                    ends.push(pattern);
                }
            }
        }
    }

    /// Returns the node that `step` leads to from `node`, which is added if there is none.
    fn child(&mut self, node: u32, step: PatternStep) -> u32 {
        let branches = &self.tree.nodes[node as usize].branches;
        let candidates = self
            .by_fingerprint
            .entry((node, fingerprint(&step)))
            .or_default();
        if let Some(&existing) = candidates
            .iter()
            .find(|&&branch| branches[branch as usize].0 == step)
        {
            return branches[existing as usize].1;
        }
        candidates.push(branches.len() as u32);
        let to = self.tree.nodes.len() as u32;
        self.tree.nodes[node as usize].branches.push((step, to));
        self.tree.nodes.push(PrefixNode::default());
        to
    }
}

/// Marks the cut of a pattern: before its first gap, or inside the element that contains it.
fn mark_cut(gaps: GapCriteria, steps: &mut Vec<PatternStep>) {
    if steps.len() > 1 && is_start(&steps[0]) {
        // Only one position can match `^`. The cursor activates the suffix there, and the states of the search do not
        // multiply.
        return steps.insert(1, PatternStep::Cut);
    }
    // Each element adds to the selectivity of the prefix, because a match must pass all of them.
    let mut before: Selectivity = 0;
    for at in 0..steps.len() {
        let PatternStep::Any(hir) = &steps[at] else {
            before += CHAR_SELECTIVITY;
            continue;
        };
        if gaps.is_gap(hir, before) {
            return steps.insert(at, PatternStep::Cut);
        }
        let after = before + selectivity(hir);
        // No return: a later gap of the pattern may be cut, too.
        if gaps.contains_gap(hir, before) {
            steps[at] = PatternStep::Cutting(hir.clone(), before);
        }
        before = after;
    }
}

fn is_start(step: &PatternStep) -> bool {
    matches!(step, PatternStep::Any(hir) if matches!(hir.kind(), HirKind::Look(Look::Start)))
}

// Only sequences are flattened. Everything else is one element, compared as a whole.
fn flatten(space: SymbolSpace, hir: &Hir, out: &mut Vec<PatternStep>) {
    match hir.kind() {
        HirKind::Empty => {}
        HirKind::Concat(subs) => subs.iter().for_each(|sub| flatten(space, sub, out)),
        HirKind::Capture(capture) => flatten(space, &capture.sub, out),
        HirKind::Literal(literal) => match (space, std::str::from_utf8(&literal.0)) {
            (SymbolSpace::Chars, Ok(text)) => {
                out.extend(text.chars().map(|char| PatternStep::Unit(char.into())))
            }
            // A literal that is not UTF-8 only occurs over bytes.
            _ => out.extend(literal.0.iter().map(|&byte| PatternStep::Unit(byte.into()))),
        },
        _ => out.push(PatternStep::Any(hir.clone())),
    }
}

/// Returns a hash that is equal for equal elements. Different elements rarely have the same one.
fn fingerprint(step: &PatternStep) -> u64 {
    match step {
        PatternStep::Unit(code) => (*code).into(),
        PatternStep::Any(hir) => hash::combine(1, hash_hir(hir)),
        PatternStep::Cutting(hir, before) => hash::combine(hash_hir(hir), (*before).into()),
        PatternStep::Cut => u64::MAX,
    }
}

fn hash_hir(hir: &Hir) -> u64 {
    let all = |tag: u64, subs: &[Hir]| subs.iter().map(hash_hir).fold(tag, hash::combine);
    // A class contributes its bounds and its number of ranges: `\w` has seven hundred ranges.
    let class = |tag: u64, first: Option<u32>, last: Option<u32>, ranges: usize| {
        let ends = [first, last].map(|end| end.map_or(0, u64::from));
        ends.into_iter().fold(tag + ranges as u64, hash::combine)
    };
    match hir.kind() {
        HirKind::Empty => 1,
        HirKind::Literal(literal) => hash::hash_bytes(&literal.0),
        HirKind::Class(Class::Unicode(unicode)) => {
            let ranges = unicode.ranges();
            let first = ranges.first().map(|range| range.start().into());
            let last = ranges.last().map(|range| range.end().into());
            class(2, first, last, ranges.len())
        }
        HirKind::Class(Class::Bytes(bytes)) => {
            let ranges = bytes.ranges();
            let first = ranges.first().map(|range| range.start().into());
            let last = ranges.last().map(|range| range.end().into());
            class(1 << 32, first, last, ranges.len())
        }
        HirKind::Look(look) => hash::combine(3, look.as_repr().into()),
        HirKind::Repetition(repetition) => {
            let max = repetition.max.map_or(u64::MAX, u64::from);
            [u64::from(repetition.min), max]
                .into_iter()
                .fold(hash_hir(&repetition.sub), hash::combine)
        }
        HirKind::Capture(capture) => hash_hir(&capture.sub),
        HirKind::Concat(subs) => all(4, subs),
        HirKind::Alternation(subs) => all(5, subs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the numbers of the patterns that end at a node.
    fn numbers(node: &PrefixNode) -> Vec<u32> {
        node.ends.iter().map(|pattern| pattern.0).collect()
    }

    #[test]
    fn common_prefixes_occur_once() {
        let patterns: Vec<Hir> = [
            "from 'a'", "from 'b'", r"\w+x", r"\w+y", "from|z", "from 'a'",
        ]
        .map(|text| regex_syntax::parse(text).unwrap())
        .into();
        let tree = PrefixTree::new(SymbolSpace::Chars, &patterns, None);
        let root = &tree.nodes[0];
        assert_eq!(root.branches.len(), 3, "f, a word, z: {root:?}");
        // The nodes of `from` with a space and a quote, then of `a` and `b` with a quote each; of the word, `x` and
        // `y`; of `z`; and the root.
        assert_eq!(tree.nodes.len(), 6 + 4 + 3 + 1 + 1);
        let ends = tree.nodes.iter().map(numbers);
        let ends: Vec<Vec<u32>> = ends.filter(|ends| !ends.is_empty()).collect();
        assert_eq!(
            ends,
            [vec![4], vec![0, 5], vec![1], vec![2], vec![3], vec![4]]
        );
    }

    #[test]
    fn groups_and_empty_elements_separate_no_prefixes() {
        let parse = |text: &&str| regex_syntax::parse(text).unwrap();
        let plain = ["from", "for", ""].map(|text| parse(&text));
        let grouped = ["(f(?:ro)m)", "(f(o)(r)|)", "()"].map(|text| parse(&text));
        let plain = PrefixTree::new(SymbolSpace::Chars, &plain, None);
        let grouped = PrefixTree::new(SymbolSpace::Chars, &grouped, None);
        assert_eq!((plain.nodes.len(), grouped.nodes.len()), (7, 7));
        assert_eq!(
            [&plain, &grouped].map(|tree| numbers(&tree.nodes[0])),
            [vec![2], vec![1, 2]]
        );
    }

    #[test]
    fn steps_that_differ_mostly_have_different_fingerprints() {
        let texts = [
            "[ab]",
            "[abd]",
            "[a-d]",
            "[a-dé]",
            "(?-u:[ab])",
            "(?-u:[a-d])",
            r"\w",
            r"\d",
            r"\b",
            r"\B",
            "^",
            "$",
            "[ab]*",
            "[ab]+",
            "[ab]?",
            "[ab]{2}",
            "[ab]{3}",
            "[ab]{2,3}",
            "[ab]{3,}",
            "[ac]{3,}",
            "(?:ab|cd)",
            "(?:cd|ab)",
            "(?:ab|[cd]e)",
            "(?:a[bc]){2}",
            "(?:[bc]a){2}",
            "(?:aa){2}",
            "(?:aaa){2}",
        ];
        let hirs = texts.map(|text| regex_syntax::parse(text).unwrap());
        let any = hirs.iter().cloned().map(PatternStep::Any);
        let cutting = hirs.iter().flat_map(|hir| {
            [0, CHAR_SELECTIVITY, 2 * CHAR_SELECTIVITY]
                .map(|before| PatternStep::Cutting(hir.clone(), before))
        });
        let units = (0..200).map(PatternStep::Unit).chain([PatternStep::Cut]);
        let steps: Vec<PatternStep> = any.chain(cutting).chain(units).collect();
        let mut fingerprints: Vec<u64> = steps.iter().map(fingerprint).collect();
        fingerprints.sort_unstable();
        fingerprints.dedup();
        assert_eq!(fingerprints.len(), steps.len());
        let captured = regex_syntax::parse("([ab])").unwrap();
        assert_eq!(hash_hir(&captured), hash_hir(&hirs[0]));
    }

    #[test]
    fn a_long_literal_is_no_deep_recursion() {
        let pattern = Hir::literal("a".repeat(1 << 16).into_bytes());
        assert_eq!(
            PrefixTree::new(SymbolSpace::Chars, &[pattern], None)
                .nodes
                .len(),
            (1 << 16) + 1
        );
    }
}
