//! Tool input: decodes a JSON object and reads each of its keys and values as a haystack.

use std::ops::Range;

use super::admit::{Admission, HaystackScope};
use super::haystack::HaystackReader;
use super::limits::PartLimits;
use super::views::Views;
use crate::limits::Limits;
use crate::program::ChannelRules;
use crate::rule::Channel;
use crate::stream::Counters;
use crate::verdict::Source;
use ttsr_views::chunk::{Chunk, DecidedOffset};
use ttsr_views::json::{ArgPath, HaystackSink, JsonDecoder, is_text};
use ttsr_views::path::{is_path_key, normalise};

/// The state of a tool input that is being decoded.
#[derive(Debug)]
pub(super) struct ToolInputReader {
    decoder: JsonDecoder,
    value: ValueReader,
    views: Option<Box<Views>>,
}

/// The haystack that is being read: a value, an object key, or input that is not JSON.
#[derive(Debug)]
struct ValueReader {
    reader: HaystackReader,
    arg: ArgPath,
    /// The bytes of the value, if it names the file that the call is about.
    file: Option<Vec<u8>>,
    /// Offset of its first byte.
    at: u64,
}

impl ToolInputReader {
    pub(super) fn new(rules: &ChannelRules, limits: &Limits) -> ToolInputReader {
        let value = ValueReader {
            reader: HaystackReader::new(&rules.raw),
            arg: ArgPath::new(limits.path_bytes),
            file: None,
            at: 0,
        };
        ToolInputReader {
            decoder: JsonDecoder::new(limits.json_depth, limits.path_bytes),
            value,
            views: Views::new(rules, Channel::ToolInput),
        }
    }

    /// The fast path: steps a short delta inside of a string, without an escape or the closing quote, in which no
    /// pattern is reported. Returns false, and changes nothing, if the delta is not of that kind.
    #[inline]
    pub(super) fn push_short(&mut self, bytes: &[u8]) -> bool {
        // A value that names a file must be kept, and views read the decoded text.
        let is_plain = self.views.is_none() && self.value.file.is_none();
        let is_done =
            is_plain && self.decoder.is_in_text() && self.value.reader.push_short(bytes, is_text);
        if is_done {
            self.decoder.passed_text(bytes.len());
        }
        is_done
    }

    /// Reads a delta. `limits` counts the text of the arguments.
    pub(super) fn push(
        &mut self,
        admission: &mut Admission<'_>,
        limits: Option<&mut PartLimits>,
        bytes: &[u8],
    ) {
        let too_deep = self.decoder.counters().too_deep;
        let mut sink = ValueSink {
            admission,
            value: &mut self.value,
            views: self.views.as_deref_mut(),
            limits,
        };
        self.decoder.push(bytes, &mut sink);
        sink.admission.resolve_queued();
        if self.decoder.counters().too_deep > too_deep {
            // Input that is nested too deep is read unchanged, as a value that began there.
            let ValueSink {
                admission, value, ..
            } = sink;
            admission.results.limit = Some(Source::Limit {
                name: "json_depth",
                part: admission.context.part,
                decided: value.at + 1,
            });
        }
    }

    /// Ends the input, of which `decided` bytes were delivered.
    pub(super) fn finish(
        &mut self,
        admission: &mut Admission<'_>,
        limits: Option<&mut PartLimits>,
        decided: u64,
    ) {
        let mut sink = ValueSink {
            admission,
            value: &mut self.value,
            views: self.views.as_deref_mut(),
            limits,
        };
        self.decoder.finish(&mut sink);
        if let Some(views) = &mut sink.views {
            views.finish(sink.admission, decided);
            // Known only now: the last command may be one that cannot be read.
            if views.has_unread_commands() {
                sink.admission.admit_unread(decided);
            }
        }
        sink.admission.resolve_queued();
        sink.admission.finish_part(decided);
    }

    /// Returns the offset of the first byte that an undecided match of a rule that holds may contain.
    pub(super) fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let value = self.value.reader.undecided_from(&rules.raw);
        let views = self.views.as_ref();
        let views = views.and_then(|views| views.undecided_from(rules));
        let pending = self.decoder.pending_from();
        [value, views, pending].into_iter().flatten().min()
    }

    pub(super) fn count(&self, counters: &mut Counters) {
        let json = self.decoder.counters();
        counters.raw_inputs += json.raw;
        counters.malformed_json += json.malformed;
        counters.lone_surrogates += json.lone_surrogates;
        counters.too_deep += json.too_deep;
        counters.long_paths += json.path_truncated;
        self.value.reader.count(counters);
        self.views.iter().for_each(|views| views.count(counters));
    }
}

/// Receives the keys and values of a tool input from the decoder.
struct ValueSink<'a, 'b> {
    admission: &'b mut Admission<'a>,
    value: &'b mut ValueReader,
    views: Option<&'b mut Views>,
    limits: Option<&'b mut PartLimits>,
}

impl HaystackSink for ValueSink<'_, '_> {
    const READS_KEYS: bool = true;

    fn open_key(&mut self, at: u64) {
        let ValueSink {
            admission, value, ..
        } = self;
        value.reader.restart(&admission.context.rules.raw);
        value.arg.set_key();
        value.at = at;
        value.file = None;
        if let Some(limits) = &mut self.limits {
            limits.open_key();
        }
    }

    fn open(&mut self, path: &ArgPath, at: u64) {
        let ValueSink {
            admission, value, ..
        } = self;
        let rules = admission.context.rules;
        value.reader.restart(&rules.raw);
        value.arg.clone_from(path);
        value.at = at;
        let names_file = !rules.file_scopes.is_empty() && path.last().is_some_and(is_path_key);
        value.file = names_file.then(Vec::new);
        if let Some(views) = &mut self.views {
            views.open_value(path);
        }
        if let Some(limits) = &mut self.limits {
            limits.open_arg(admission, path);
        }
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.keep_path(bytes);
        self.push(Chunk::verbatim(bytes, at));
    }

    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        self.keep_path(utf8);
        self.push(Chunk::replacement(utf8, source, decided));
    }

    fn close(&mut self, end: DecidedOffset) {
        let ValueSink {
            admission, value, ..
        } = self;
        let view = &admission.context.rules.raw;
        let scope = HaystackScope::from_arg(Some(&value.arg));
        value.reader.finish(view, admission, scope, end);
        if let Some(views) = &mut self.views {
            views.close(admission, Some(&value.arg), end);
        }
        // The restart resets the counts of the reader.
        value.reader.count(&mut admission.state.counters);
        value.reader.restart(view);
        if let Some(file) = value.file.take() {
            // Queued matches became certain before the file was known, so they are decided first and wait for it.
            admission.resolve_queued();
            let program = admission.context.program;
            let path = normalise(&String::from_utf8_lossy(&file), program.root());
            let scopes = &admission.context.rules.file_scopes;
            admission.scope.files.add(path, scopes);
            admission.scope.resolve_pending(
                program,
                end.decided,
                admission.results,
                admission.state,
            );
        }
    }
}

impl ValueSink<'_, '_> {
    fn push(&mut self, chunk: Chunk<'_>) {
        let ValueReader { reader, arg, .. } = &mut *self.value;
        let view = &self.admission.context.rules.raw;
        let scope = HaystackScope::from_arg(Some(arg));
        reader.push(view, self.admission, scope, chunk);
        if let Some(views) = &mut self.views {
            views.push(self.admission, Some(arg), &chunk);
        }
        if let Some(limits) = &mut self.limits {
            limits.push_arg(self.admission, arg, chunk);
        }
    }

    /// Keeps the bytes of a file path.
    fn keep_path(&mut self, bytes: &[u8]) {
        let ValueSink {
            admission, value, ..
        } = self;
        let Some(file) = &mut value.file else { return };
        if file.len() + bytes.len() <= admission.context.program.limits().path_bytes {
            file.extend_from_slice(bytes);
        } else {
            // A truncated path must not decide a scope.
            value.file = None;
            admission.state.counters.long_paths += 1;
        }
    }
}
