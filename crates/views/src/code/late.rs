//! Code whose language becomes known after it.

use super::super::chunk::{Chunk, ChunkBuffer, ChunkSink, DecidedOffset, Language, Tag};

/// The output of a view that waits for its language.
///
/// The owner records the output with [`set_tag`](Self::set_tag), [`push`](Self::push) and [`cut`](Self::cut), and
/// [emits](Self::emit) it once the language is known.
#[derive(Clone, Debug, Default)]
pub struct LateCode {
    buffer: ChunkBuffer,
    runs: Vec<LateRun>,
    tag: Tag,
    /// True if the haystacks end before the next chunk.
    is_cut: bool,
}

/// A run of buffered text with the same tag.
#[derive(Clone, Copy, Debug)]
struct LateRun {
    tag: Tag,
    /// The index of its first byte.
    from: usize,
    /// True if the haystacks before it end there.
    is_cut: bool,
}

impl LateCode {
    /// Sets the tag of the chunks that follow.
    #[inline]
    pub fn set_tag(&mut self, tag: Tag) {
        self.tag = tag;
    }

    /// Buffers the beginning of a chunk, so that at most `most` bytes are buffered. Returns false if some of it is left
    /// out.
    ///
    /// # Complexity
    /// Linear in the length of the chunk.
    pub fn push(&mut self, chunk: Chunk<'_>, most: usize) -> bool {
        let room = most.saturating_sub(self.buffer.bytes().len());
        let kept = chunk.slice(0..chunk.bytes.len().min(room));
        if kept.bytes.is_empty() {
            return chunk.bytes.is_empty();
        }
        if self.is_cut || self.runs.last().is_none_or(|run| run.tag != self.tag) {
            self.runs.push(LateRun {
                tag: self.tag,
                from: self.buffer.bytes().len(),
                is_cut: std::mem::take(&mut self.is_cut),
            });
        }
        self.buffer.push(kept);
        kept.bytes.len() == chunk.bytes.len()
    }

    /// Ends every haystack.
    #[inline]
    pub fn cut(&mut self) {
        self.is_cut = !self.buffer.is_empty();
    }

    /// Emits what is buffered as code in that language, certain at `now`, and ends every haystack.
    pub fn emit(&mut self, language: Language, now: u64, sink: &mut impl ChunkSink) {
        let ends = self.runs.iter().skip(1).map(|run| run.from);
        let ends = ends.chain([self.buffer.bytes().len()]);
        let mut end = DecidedOffset {
            offset: 0,
            decided: now,
        };
        for (run, to) in self.runs.iter().zip(ends) {
            if run.is_cut {
                sink.cut(end);
            }
            let tag = Tag {
                language: Some(language),
                ..run.tag
            };
            sink.set_tag(tag, end);
            for chunk in self.buffer.chunks(run.from..to) {
                end.offset = chunk.end(chunk.bytes.len() - 1);
                sink.push(chunk.decided_no_earlier(now));
            }
        }
        if !self.runs.is_empty() {
            sink.cut(end);
        }
        self.clear();
    }

    /// Removes everything.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.runs.clear();
        self.is_cut = false;
    }
}
