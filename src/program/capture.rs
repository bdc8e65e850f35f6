//! The filter on a capture group of a match: its entropy, its checksum, and texts that it must not be.

use std::sync::Arc;

use regex_syntax::hir::{Hir, HirKind};

use ttsr_automata::encoding::PatternTree;
use ttsr_automata::pike;
use ttsr_views::detect::checksum::Checksum;
use ttsr_views::detect::entropy::{Entropy, EntropyLimits};
use ttsr_views::glob::GlobSet;

/// The requirements on a capture group of a match.
#[derive(Debug)]
pub(crate) struct GroupFilter {
    pub(crate) group: CaptureGroup,
    /// The least entropy, in thousandths of a bit per character.
    pub(crate) entropy: Option<u32>,
    /// True if the text must look random.
    pub(crate) random: bool,
    /// The scheme whose check characters must be right.
    pub(crate) checksum: Option<Checksum>,
    /// Globs that the text must not match.
    pub(crate) not_in: Option<Arc<GlobSet>>,
}

/// The group of a match that a filter reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CaptureGroup {
    /// The match itself.
    Whole,
    /// The group with this number.
    Number(u32),
    /// The first group, or the match itself if that group does not participate in it.
    FirstOrWhole,
}

impl CaptureGroup {
    /// Returns the group with that name or number in `tree`.
    pub(crate) fn find(name: Option<&str>, tree: &PatternTree) -> CaptureGroup {
        let Some(name) = name else {
            return CaptureGroup::FirstOrWhole;
        };
        let number = name
            .parse()
            .ok()
            .or_else(|| group_number(name, &tree.get()));
        match number {
            Some(0) | None => CaptureGroup::Whole,
            Some(number) => CaptureGroup::Number(number),
        }
    }

    /// Returns the number of the group whose range the search must record.
    pub(crate) fn number(self) -> Option<u32> {
        match self {
            CaptureGroup::Whole => None,
            CaptureGroup::Number(number) => Some(number),
            CaptureGroup::FirstOrWhole => Some(1),
        }
    }
}

/// Returns the number of the group with that name.
fn group_number(name: &str, hir: &Hir) -> Option<u32> {
    match hir.kind() {
        HirKind::Capture(capture) if capture.name.as_deref() == Some(name) => Some(capture.index),
        HirKind::Capture(capture) => group_number(name, &capture.sub),
        HirKind::Repetition(repetition) => group_number(name, &repetition.sub),
        HirKind::Concat(subs) | HirKind::Alternation(subs) => {
            subs.iter().find_map(|sub| group_number(name, sub))
        }
        _ => None,
    }
}

impl GroupFilter {
    /// Returns true if the group of `found` meets the requirements.
    pub(crate) fn accepts(&self, found: &pike::PikeMatch, haystack: &[u8]) -> bool {
        let group = found.group.clone();
        let range = match self.group {
            CaptureGroup::Whole => Some(found.range.clone()),
            CaptureGroup::Number(_) => group,
            CaptureGroup::FirstOrWhole => group.or_else(|| Some(found.range.clone())),
        };
        let Some(text) = range.and_then(|range| haystack.get(range)) else {
            return false;
        };
        if self.checksum.is_some_and(|scheme| !scheme.accepts(text)) {
            return false;
        }
        let entropy = Entropy::from_text(text);
        let is_random = self
            .entropy
            .is_none_or(|least| entropy.bits() * 1000.0 >= f64::from(least))
            && (!self.random || entropy.is_random(&EntropyLimits::default()));
        let text = String::from_utf8_lossy(text);
        let is_known = self
            .not_in
            .as_ref()
            .is_some_and(|known| known.is_match(&text));
        is_random && !is_known
    }
}
