//! Tool input: its object keys and its values, each a haystack of its own.

use super::bounds::Bounds;
use super::judge::Judge;
use super::reader::Reader;
use super::views::Views;
use crate::limits::Limits;
use crate::pack::ChannelRules;
use crate::stream::Counters;
use crate::verdict::Source;
use crate::view::chunk::Chunk;
use crate::view::json::{ArgPath, HaystackSink, JsonDecoder, is_text};
use crate::view::path::{is_path_key, normalise};

/// Tool input that is being decoded.
#[derive(Debug)]
pub(super) struct Json {
    decoder: JsonDecoder,
    value: Value,
    views: Option<Box<Views>>,
}

/// The haystack of a tool input that is being read: a value, an object key, or input that is not JSON.
#[derive(Debug)]
pub(super) struct Value {
    reader: Reader,
    /// Where it stands.
    arg: ArgPath,
    /// Its bytes, where it names the file that the call is about.
    file: Option<Vec<u8>>,
    /// Offset of its first byte.
    at: u64,
}

impl Json {
    pub(super) fn new(rules: &ChannelRules, limits: &Limits) -> Json {
        let value = Value {
            reader: Reader::new(&rules.raw),
            arg: ArgPath::new(limits.path_bytes),
            file: None,
            at: 0,
        };
        Json {
            decoder: JsonDecoder::new(limits.json_depth, limits.path_bytes),
            value,
            views: Views::new(rules, true),
        }
    }

    /// The fast path: a short delta inside a string, without an escape or the closing quote, that brings
    /// nothing special. Says whether it was that; if not, nothing has happened.
    #[inline]
    pub(super) fn push_short(&mut self, bytes: &[u8]) -> bool {
        let is_plain = self.views.is_none() && self.value.file.is_none();
        let is_done = is_plain
            && self.decoder.is_in_text()
            && self.value.reader.push_short_if(bytes, is_text);
        if is_done {
            self.decoder.passed_text(bytes.len());
        }
        is_done
    }

    /// Reads a delta; `bounds` counts the text of its arguments.
    pub(super) fn push(
        &mut self,
        judge: &mut Judge<'_>,
        bounds: Option<&mut Bounds>,
        bytes: &[u8],
    ) {
        let was_deep = self.decoder.counters().too_deep;
        let mut values = Values {
            judge,
            value: &mut self.value,
            views: self.views.as_deref_mut(),
            bounds,
        };
        self.decoder.push(bytes, &mut values);
        values.judge.settle();
        if self.decoder.counters().too_deep > was_deep {
            // What is too deep is read as it stands: the value that is open now began there.
            let Values { judge, value, .. } = values;
            let decided = value.at + 1;
            let limit = Source::Limit {
                name: "json_depth",
                part: judge.part,
                decided,
            };
            judge.found.limit = Some(limit);
        }
    }

    /// Ends the input, of which `decided` bytes were delivered.
    pub(super) fn finish(
        &mut self,
        judge: &mut Judge<'_>,
        bounds: Option<&mut Bounds>,
        decided: u64,
    ) {
        let mut values = Values {
            judge,
            value: &mut self.value,
            views: self.views.as_deref_mut(),
            bounds,
        };
        self.decoder.finish(&mut values);
        if let Some(views) = &mut values.views {
            views.finish(values.judge, decided);
        }
        values.judge.settle();
        values.judge.end_part(decided);
    }

    /// Where the text begins that a rule that holds has not decided.
    pub(super) fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let value = self.value.reader.undecided_from(&rules.raw);
        let views = self.views.as_ref();
        let seen = views.and_then(|views| views.undecided_from(rules));
        let pending = self.decoder.pending_from();
        [value, seen, pending].into_iter().flatten().min()
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

/// Takes the object keys and the values of a tool input, one haystack each.
struct Values<'a, 'b> {
    judge: &'b mut Judge<'a>,
    value: &'b mut Value,
    views: Option<&'b mut Views>,
    bounds: Option<&'b mut Bounds>,
}

impl HaystackSink for Values<'_, '_> {
    const READS_KEYS: bool = true;

    fn open_key(&mut self, at: u64) {
        let Values { judge, value, .. } = self;
        value.reader.restart(judge.view);
        value.arg.set_key();
        value.at = at;
        value.file = None;
        if let Some(bounds) = &mut self.bounds {
            bounds.open_key();
        }
    }

    fn open(&mut self, path: &ArgPath, at: u64) {
        let Values { judge, value, .. } = self;
        value.reader.restart(judge.view);
        value.arg.clone_from(path);
        value.at = at;
        let names_file = judge.rules.reads_paths && path.last().is_some_and(is_path_key);
        value.file = names_file.then(Vec::new);
        if let Some(views) = &mut self.views {
            views.open(path);
        }
        if let Some(bounds) = &mut self.bounds {
            bounds.open_arg(judge, path);
        }
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.keep(bytes);
        self.take(Chunk::verbatim(bytes, at));
    }

    fn escape(&mut self, utf8: &[u8], start: u64, end: u64, decided: u64) {
        self.keep(utf8);
        self.take(Chunk::replacement(utf8, start, end, decided));
    }

    fn close(&mut self, end: u64, decided: u64) {
        let Values { judge, value, .. } = self;
        value.reader.finish(judge, Some(&value.arg), end, decided);
        if let Some(views) = &mut self.views {
            views.close(judge, Some(&value.arg), end, decided);
        }
        value.reader.count(&mut judge.found.counters);
        value.reader.restart(judge.view);
        if let Some(file) = value.file.take() {
            // What was queued became certain before the file was known, and waits for it.
            judge.settle();
            let path = normalise(&String::from_utf8_lossy(&file), judge.pack.root());
            judge.scoped.paths.push(path.into_boxed_str());
            judge.scoped.settle(judge.pack, decided, judge.found);
        }
    }
}

impl Values<'_, '_> {
    fn take(&mut self, piece: Chunk<'_>) {
        let Value { reader, arg, .. } = &mut *self.value;
        reader.take(self.judge, Some(arg), piece);
        if let Some(views) = &mut self.views {
            views.take(self.judge, Some(arg), &piece);
        }
        if let Some(bounds) = &mut self.bounds {
            bounds.push_arg(self.judge, arg, piece);
        }
    }

    /// Keeps the bytes of a file path.
    fn keep(&mut self, bytes: &[u8]) {
        let Values { judge, value, .. } = self;
        let Some(file) = &mut value.file else { return };
        if file.len() + bytes.len() <= judge.pack.limits().path_bytes {
            file.extend_from_slice(bytes);
        } else {
            // A path that is not whole decides nothing.
            value.file = None;
            judge.found.counters.long_paths += 1;
        }
    }
}
