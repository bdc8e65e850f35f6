//! What a state reports when the search enters it, and the encoded form in the rows of a table.

use super::sync::{AtomicU32, Ordering};

/// The flag of a cut in an encoded report; a pattern does not have it.
// The flag cannot collide with an index: patterns and cuts have NFA states, and an NFA has far fewer than 2^31.
const CUT: u32 = 1 << 31;

/// A number greater than the index of any pattern and any cut.
pub(crate) const NO_INDEX: u32 = !CUT;

/// A thing that a state reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reported {
    /// The pattern with this index has matched.
    Pattern(u32),
    /// The cut with this index was reached, so that its suffix is activated.
    Cut(u32),
}

/// A [`Reported`] in 32 bits. Cuts are greater than patterns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EncodedReport(u32);

impl EncodedReport {
    /// Returns the report of a pattern.
    #[inline]
    pub(crate) const fn of_pattern(pattern: u32) -> EncodedReport {
        EncodedReport(pattern)
    }

    /// Returns the report of a cut.
    #[inline]
    pub(crate) const fn of_cut(cut: u32) -> EncodedReport {
        EncodedReport(CUT | cut)
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
            0 => Reported::Pattern(self.0),
            _ => Reported::Cut(self.0 & !CUT),
        }
    }

    /// Returns the pattern of a report that is known to be none of a cut.
    #[inline]
    pub(crate) fn pattern(self) -> u32 {
        debug_assert!(self.0 & CUT == 0, "a cut");
        self.0
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
        let (pattern, cut) = (EncodedReport::of_pattern(7), EncodedReport::of_cut(7));
        assert_eq!(pattern.decode(), Reported::Pattern(7));
        assert_eq!(cut.decode(), Reported::Cut(7));
        assert_eq!(pattern.pattern(), 7);
        assert!(EncodedReport::of_pattern(NO_INDEX - 1) < EncodedReport::of_cut(0));
        assert!(EncodedReport::has_cut([cut, pattern].into_iter()));
        assert!(!EncodedReport::has_cut([pattern, pattern].into_iter()));
        assert_eq!(EncodedReport::load(&AtomicU32::new(cut.bits())), cut);
    }
}
