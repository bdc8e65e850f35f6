//! The reports of a state that the search enters, their encoded form in the rows of a table, and the ids in them.

use super::sync::{AtomicU32, Ordering};

/// The index of a pattern among the patterns that a matcher was compiled from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct PatternId(pub u32);

impl PatternId {
    /// Returns the index.
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The index of a cut among those of an automaton.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub(crate) struct CutId(pub(crate) u32);

impl CutId {
    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize
    }
}

/// The flag of a cut in an encoded report; a pattern does not have it.
// The flag cannot collide with an index: patterns and cuts have NFA states, and an NFA has far fewer than 2^31.
const CUT: u32 = 1 << 31;

/// A number greater than the index of any pattern and any cut.
pub(crate) const NO_INDEX: u32 = !CUT;

/// A thing that a state reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// The pattern has matched.
    Pattern(PatternId),
    /// The cut was reached, so that its suffix is activated.
    Cut(CutId),
}

/// A [`Reported`] in 32 bits. Cuts are greater than patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EncodedReport(u32);

impl EncodedReport {
    /// Returns the report of a pattern.
    #[inline]
    pub(crate) const fn of_pattern(pattern: PatternId) -> EncodedReport {
        EncodedReport(pattern.0)
    }

    /// Returns the report of a cut.
    #[inline]
    pub(crate) const fn of_cut(cut: CutId) -> EncodedReport {
        EncodedReport(CUT | cut.0)
    }

    /// Reads a report that [`bits`](Self::bits) were stored of. Whoever has the id of the state sees its whole report, so
    /// no order is needed.
    #[inline]
    pub(crate) fn load(cell: &AtomicU32) -> EncodedReport {
        EncodedReport(cell.load(Ordering::Relaxed))
    }

    #[inline]
    pub(crate) fn bits(self) -> u32 {
        self.0
    }

    #[inline]
    pub(crate) fn decode(self) -> Reported {
        match self.0 & CUT {
            0 => Reported::Pattern(PatternId(self.0)),
            _ => Reported::Cut(CutId(self.0 & !CUT)),
        }
    }

    /// Returns the pattern of a report that is known to be none of a cut.
    #[inline]
    pub(crate) fn pattern(self) -> PatternId {
        debug_assert!(self.0 & CUT == 0, "a cut");
        PatternId(self.0)
    }

    /// Returns true if one of the reports is that of a cut.
    // One test for all of them: the flag survives the OR.
    #[inline]
    pub(crate) fn has_cut(reports: impl Iterator<Item = EncodedReport>) -> bool {
        reports.fold(0, |bits, report| bits | report.0) & CUT != 0
    }
}

// Atomics of loom exist in its models only.
#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_decoded_to_what_it_was_made_of() {
        let pattern = EncodedReport::of_pattern(PatternId(7));
        let cut = EncodedReport::of_cut(CutId(7));
        assert_eq!(pattern.decode(), Reported::Pattern(PatternId(7)));
        assert_eq!(cut.decode(), Reported::Cut(CutId(7)));
        assert_eq!(pattern.pattern(), PatternId(7));
        let last = EncodedReport::of_pattern(PatternId(NO_INDEX - 1));
        assert!(last < EncodedReport::of_cut(CutId(0)));
        assert!(EncodedReport::has_cut([cut, pattern].into_iter()));
        assert!(!EncodedReport::has_cut([pattern, pattern].into_iter()));
        assert_eq!(EncodedReport::load(&AtomicU32::new(cut.bits())), cut);
    }
}
