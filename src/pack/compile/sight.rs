//! What text a pattern reads: behind which view, in which regions and language, folded how.

use crate::rule::{Channel, Pattern, Region};
use crate::view::chunk::{Language, RegionSet, Tag};
use crate::view::fold::FoldSet;

/// What patterns see of a haystack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sight {
    /// Where the regions come from; none: patterns see all of it.
    pub(crate) source: Option<Source>,
    /// Only what is in all of these.
    pub(crate) regions: RegionSet,
    /// Only what is in this language.
    pub(crate) language: Option<Language>,
    /// What they do not tell apart.
    pub(crate) folds: FoldSet,
}

impl Sight {
    pub(crate) fn of(pattern: &Pattern, channel: Channel) -> Sight {
        let mut sight = Sight::default();
        for region in &pattern.region {
            sight.regions = sight.regions | regions(region);
            if let Region::CodeIn(language) = region {
                sight.language = Language::new(language);
            }
        }
        for fold in &pattern.fold {
            // Folds that this build does not have were refused when the pack was checked.
            sight.folds = sight.folds | FoldSet::from_name(fold.name()).unwrap_or_default();
        }
        if sight.regions != RegionSet::default() {
            sight.source = Some(match channel {
                Channel::ToolInput if sight.regions.contains(RegionSet::SHELL) => Source::Shell,
                Channel::ToolInput => Source::Edits,
                _ => Source::Markdown,
            });
        }
        sight
    }

    /// Whether text of that kind is seen.
    pub(crate) fn sees(&self, tag: Tag) -> bool {
        tag.regions.contains(self.regions)
            && self
                .language
                .is_none_or(|wanted| tag.language == Some(wanted))
    }
}

/// The view that finds regions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Source {
    /// Markdown, in text.
    Markdown,
    /// What a tool call adds and removes.
    Edits,
    /// The commands of a shell.
    Shell,
}

impl Source {
    /// The view that code is found by.
    pub(crate) fn of_code(is_tool_input: bool) -> Source {
        match is_tool_input {
            true => Source::Edits,
            false => Source::Markdown,
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
    }
}
