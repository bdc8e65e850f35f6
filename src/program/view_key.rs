//! The key of a view: which regions of a haystack a pattern reads, in which language, and how they are folded.

use crate::rule::{Channel, Pattern, Region};
use ttsr_views::chunk::{Language, RegionSet, Tag};
use ttsr_views::fold::FoldSet;

/// The text of a haystack that a pattern reads. Patterns with equal keys share an automaton.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ViewKey {
    /// The view that finds the regions; `None` if the pattern reads the whole haystack.
    pub(crate) source: Option<ViewSource>,
    /// Only text that is in all of these regions is read.
    pub(crate) regions: RegionSet,
    /// Only text in this language is read.
    pub(crate) language: Option<Language>,
    /// The folds that are applied to the text.
    pub(crate) folds: FoldSet,
}

impl ViewKey {
    pub(crate) fn from_pattern(pattern: &Pattern, channel: Channel) -> ViewKey {
        let mut key = ViewKey::default();
        for region in &pattern.region {
            key.regions = key.regions | regions(region);
            if let Region::CodeIn(language) = region {
                key.language = Language::new(language);
            }
        }
        for fold in &pattern.fold {
            // The check of the pack has refused folds that this build does not have.
            key.folds = key.folds | FoldSet::from_name(fold.name()).unwrap_or_default();
        }
        if key.regions != RegionSet::default() {
            key.source = Some(match channel {
                Channel::ToolInput if key.regions.contains(RegionSet::SHELL) => ViewSource::Shell,
                Channel::ToolInput => ViewSource::Edits,
                _ => ViewSource::Markdown,
            });
        }
        key
    }

    /// Returns true if the pattern reads text with that tag.
    pub(crate) fn accepts_tag(&self, tag: Tag) -> bool {
        tag.regions.contains(self.regions) && self.accepts_language(tag)
    }

    /// Returns true if text with that tag does not end the haystack that the pattern reads.
    pub(crate) fn continues_in(&self, tag: Tag) -> bool {
        (tag.regions | tag.interrupted).contains(self.regions) && self.accepts_language(tag)
    }

    fn accepts_language(&self, tag: Tag) -> bool {
        self.language
            .is_none_or(|wanted| tag.language == Some(wanted))
    }

    /// Returns true if the pattern distinguishes comments, strings and the rest of code.
    pub(crate) fn distinguishes_code(&self) -> bool {
        self.regions.intersects(
            RegionSet::COMMENT | RegionSet::STRING | RegionSet::CODE_ONLY | RegionSet::UNCOMMENTED,
        )
    }
}

/// A view that finds regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ViewSource {
    /// Markdown in text.
    Markdown,
    /// The text that a tool call adds to and removes from files.
    Edits,
    /// The commands in a shell script.
    Shell,
}

impl ViewSource {
    /// Returns the view that finds code in parts of a channel.
    pub(crate) fn code_view(channel: Channel) -> ViewSource {
        match channel {
            Channel::ToolInput => ViewSource::Edits,
            _ => ViewSource::Markdown,
        }
    }
}

fn regions(region: &Region) -> RegionSet {
    match region {
        Region::Prose => RegionSet::PROSE,
        Region::Code | Region::CodeIn(_) => RegionSet::CODE,
        Region::InlineCode => RegionSet::INLINE_CODE,
        Region::Quote => RegionSet::QUOTE,
        Region::Heading => RegionSet::HEADING,
        Region::Added => RegionSet::ADDED,
        Region::Removed => RegionSet::REMOVED,
        Region::File => RegionSet::FILE,
        Region::Shell => RegionSet::SHELL,
        Region::Comment => RegionSet::COMMENT,
        Region::String => RegionSet::STRING,
        Region::CodeOnly => RegionSet::CODE_ONLY,
        Region::Uncommented => RegionSet::UNCOMMENTED,
    }
}
