//! The reader of the text that one key sees.

use std::sync::Arc;

use super::super::admit::{Admission, HaystackScope};
use super::super::haystack::HaystackReader;
use crate::program::ViewRules;
use ttsr_views::chunk::{Chunk, DecidedOffset};
use ttsr_views::fold::FoldView;

/// The reader of the text that one key sees.
#[derive(Debug)]
pub(super) struct ViewReader {
    /// `None` until the key first sees text.
    pub(super) reader: Option<HaystackReader>,
    pub(super) fold: Option<FoldView>,
    /// True if the key sees the region that the text is in.
    pub(super) accepts_tag: bool,
    /// True if a haystack is open.
    pub(super) is_open: bool,
    /// The file of the last haystack.
    file: Option<Arc<str>>,
    /// Offset of the end of the last byte read.
    pub(super) end: u64,
}

impl ViewReader {
    pub(super) fn new(rules: &ViewRules) -> ViewReader {
        let folds = rules.key.folds;
        ViewReader {
            reader: None,
            fold: (!folds.is_empty()).then(|| FoldView::new(folds)),
            accepts_tag: rules.key.source.is_none(),
            is_open: false,
            file: None,
            end: 0,
        }
    }

    /// Reads a chunk, if the key sees the region that it is in.
    #[inline]
    pub(super) fn push(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        if !self.accepts_tag || chunk.bytes.is_empty() {
            return;
        }
        if !self.is_open {
            self.open(view, scope);
        }
        let ViewReader { reader, fold, .. } = self;
        let Some(reader) = reader else {
            return;
        };
        match fold {
            Some(fold) => fold.push(chunk, &mut |chunk| {
                reader.push(view, admission, scope, chunk);
            }),
            None => reader.push(view, admission, scope, chunk),
        }
        self.end = chunk.end(chunk.bytes.len() - 1);
    }

    /// Starts a haystack. The regions of a part are one text, as long as they belong to the same file; without regions,
    /// each haystack is a text.
    #[inline(never)]
    pub(super) fn open(&mut self, view: &ViewRules, scope: HaystackScope<'_>) {
        self.is_open = true;
        let is_same_text = view.key.source.is_some() && self.file.as_ref() == scope.file;
        match &mut self.reader {
            Some(reader) if is_same_text => reader.continue_text(view),
            Some(reader) => reader.restart(view),
            None => self.reader = Some(HaystackReader::new(view)),
        }
        if !is_same_text {
            self.file = scope.file.cloned();
        }
    }

    /// Returns the offset of the first byte that an undecided match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, view: &ViewRules) -> Option<u64> {
        let folding = self.fold.as_ref().and_then(FoldView::pending_from);
        let reader = self.reader.as_ref();
        let reading = reader.and_then(|reader| reader.undecided_from(view));
        folding.into_iter().chain(reading).min()
    }

    /// Ends the haystack, if one is open.
    pub(super) fn finish(
        &mut self,
        view: &ViewRules,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        end: DecidedOffset,
    ) {
        let is_open = std::mem::take(&mut self.is_open);
        let ViewReader { reader, fold, .. } = self;
        let Some(reader) = reader.as_mut().filter(|_| is_open) else {
            return;
        };
        if let Some(fold) = fold {
            fold.finish(end.decided, &mut |chunk| {
                reader.push(view, admission, scope, chunk);
            });
        }
        reader.finish(view, admission, scope, end);
    }
}
