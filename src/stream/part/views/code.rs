//! Comments and strings in the output of a view, for rules that distinguish them.

use super::ViewFanout;
use crate::program::{ViewKey, ViewSource};
use ttsr_views::chunk::{Chunk, ChunkSink, DecidedOffset, Language, Tag};
use ttsr_views::code::{CodeView, LateCode};

/// The reader of the code of a part.
#[derive(Debug, Default)]
pub(super) struct CodeReader {
    view: CodeView,
    /// Lines of an edit that wait for the name of their file.
    late: LateCode,
    /// True if the language of the text is known, or never will be.
    has_language: bool,
    /// True if the edit has named its file.
    is_named: bool,
    /// True if some of the waiting lines were left out.
    is_truncated: bool,
}

/// Tags comments and strings before the output is distributed.
pub(super) struct CodeTagger<'v, 'j> {
    /// `None` if no rule distinguishes them.
    code: Option<&'v mut CodeReader>,
    fanout: ViewFanout<'v, 'j>,
}

impl<'v, 'j> CodeTagger<'v, 'j> {
    pub(super) fn new(
        code: Option<&'v mut CodeReader>,
        fanout: ViewFanout<'v, 'j>,
    ) -> CodeTagger<'v, 'j> {
        CodeTagger { code, fanout }
    }

    /// Returns the tag with the language of the file that the host has set, if the text names none.
    fn with_given_file(&self, tag: Tag) -> Tag {
        let is_unnamed = self.fanout.outputs.file.is_none();
        if tag.language.is_some() || self.fanout.source != ViewSource::Edits || !is_unnamed {
            return tag;
        }
        let given = self.fanout.admission.scope.given_path.as_deref();
        Tag {
            language: given.and_then(Language::from_path),
            ..tag
        }
    }
}

impl ChunkSink for CodeTagger<'_, '_> {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let tag = self.with_given_file(tag);
        let Some(code) = &mut self.code else {
            return self.fanout.set_tag(tag, at);
        };
        code.has_language = tag.language.is_some() || self.fanout.source != ViewSource::Edits;
        code.late.set_tag(tag);
        code.view.set_tag(tag, at, &mut self.fanout);
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        let Some(code) = &mut self.code else {
            return self.fanout.push(chunk);
        };
        if !(code.has_language || code.is_named || code.is_truncated) {
            let admission = &mut *self.fanout.admission;
            let most = admission.context.program.limits().late_code_bytes;
            code.is_truncated = !code.late.push(chunk, most);
            admission.state.counters.unconfirmed += u64::from(code.is_truncated);
        }
        code.view.push(chunk, &mut self.fanout);
    }

    fn cut(&mut self, end: DecidedOffset) {
        match &mut self.code {
            Some(code) => {
                code.late.cut();
                code.view.cut(end, &mut self.fanout);
            }
            None => self.fanout.cut(end),
        }
    }

    fn set_file(&mut self, path: &str, decided: u64) {
        self.fanout.set_file(path, decided);
        let Some(code) = &mut self.code else {
            return;
        };
        // After `fanout`, so that the late code is matched in the scope of the file.
        code.is_named = !path.is_empty();
        code.is_truncated = false;
        let Some(language) = Language::from_path(path) else {
            // No file, or one in no language.
            return code.late.clear();
        };
        // Another view: that of the code has read these lines already, without a language, and is further on.
        let mut view = CodeView::default();
        let mut sink = LateSink {
            view: &mut view,
            readers: LateReaders {
                fanout: &mut self.fanout,
            },
        };
        code.late.emit(language, decided, &mut sink);
    }
}

/// Tags code whose language was not known when it was distributed.
struct LateSink<'c, 'v, 'j> {
    view: &'c mut CodeView,
    readers: LateReaders<'c, 'v, 'j>,
}

/// The readers that distinguish comments, strings and the rest of code. Of the readers of a view, only they read output
/// again that has been distributed already.
struct LateReaders<'c, 'v, 'j> {
    fanout: &'c mut ViewFanout<'v, 'j>,
}

impl ChunkSink for LateReaders<'_, '_, '_> {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        self.fanout
            .set_reader_tags(ViewKey::distinguishes_code, tag, at);
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        self.fanout.push_readers(ViewKey::distinguishes_code, chunk);
    }

    fn cut(&mut self, end: DecidedOffset) {
        self.fanout.cut_readers(ViewKey::distinguishes_code, end);
    }
}

impl ChunkSink for LateSink<'_, '_, '_> {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        self.view.set_tag(tag, at, &mut self.readers);
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        self.view.push(chunk, &mut self.readers);
    }

    fn cut(&mut self, end: DecidedOffset) {
        self.view.cut(end, &mut self.readers);
    }
}
