//! One part of a reply: its view, its matching state, and the scope of what it finds.

use std::ops::Range;

use super::window::{WINDOW, Window};
use super::{Counters, Found, Quote};
use crate::limits::Limits;
use crate::matcher::{Cursor, Event, Matcher, SHORT};
use crate::pack::{ChannelRules, Pack, Scope};
use crate::rule::Channel;
use crate::verdict::{Hit, NO_ARG, PartId, RuleId, Source};
use crate::view::json::{ArgPath, Decoder, Sink};
use crate::view::path::{PathScope, is_path_key, normalise};

#[cfg(feature = "lookaround")]
mod confirm;

/// Most bytes of an excerpt before the match, and of a match that is shown.
const BEFORE: usize = 40;
const EXCERPT: usize = 160;

/// A match that is shown with so many bytes may have begun before.
pub(super) const SHOWN: usize = EXCERPT - BEFORE;

/// A part, from its opening to its close. What a delta touches comes first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Part {
    id: PartId,
    channel: Channel,
    delivered: u64,
    view: View,
    scoped: Scoped,
}

/// What patterns see of the part.
#[derive(Debug)]
enum View {
    /// No rule can fire here: nothing is read.
    Unwatched,
    /// The bytes as they are: one haystack.
    Text(Haystack),
    /// The values of a JSON object, each a haystack.
    Json(Box<Json>),
    Closed,
}

/// A haystack that is being read.
#[derive(Debug)]
struct Haystack {
    cursor: Cursor,
    window: Window,
    /// Where some pattern of the channel looks around: what waits to be confirmed.
    #[cfg(feature = "lookaround")]
    waiting: Option<Box<confirm::Waiting>>,
}

/// Tool input that is being decoded.
#[derive(Debug)]
struct Json {
    decoder: Decoder,
    value: Value,
}

/// The value of a tool input that is being read.
#[derive(Debug)]
struct Value {
    haystack: Haystack,
    /// Where it stands.
    arg: ArgPath,
    /// Its bytes, where it names the file that the call is about.
    file: Option<Vec<u8>>,
    /// Offset of its first byte.
    at: u64,
}

/// What is known of a part's scope, and what waits for it.
#[derive(Debug)]
struct Scoped {
    /// Only tool calls have tools and files; elsewhere those scopes mean nothing.
    is_tool_call: bool,
    tool: Option<Box<str>>,
    call: Option<Box<str>>,
    /// Every file path that the part has named, in order.
    paths: Vec<Box<str>>,
    is_closed: bool,
    /// Rules that have hit, sorted: one hit per rule and part.
    hit: Vec<RuleId>,
    /// The first match of each rule whose scope is not known yet.
    waiting: Vec<Quote>,
}

impl Part {
    pub(super) fn new(pack: &Pack, id: PartId, channel: Channel) -> Part {
        let view = match pack.channel(channel) {
            None => View::Unwatched,
            Some(rules) if channel == Channel::ToolInput => {
                View::Json(Box::new(Json::new(rules, pack.limits())))
            }
            Some(rules) => View::Text(Haystack::new(rules)),
        };
        let scoped = Scoped {
            is_tool_call: channel == Channel::ToolInput,
            tool: None,
            call: None,
            paths: Vec::new(),
            is_closed: false,
            hit: Vec::new(),
            waiting: Vec::new(),
        };
        Part {
            id,
            channel,
            delivered: 0,
            view,
            scoped,
        }
    }

    #[inline]
    pub(super) fn id(&self) -> PartId {
        self.id
    }

    pub(super) fn channel(&self) -> Channel {
        self.channel
    }

    pub(super) fn delivered(&self) -> u64 {
        self.delivered
    }

    pub(super) fn is_closed(&self) -> bool {
        self.scoped.is_closed
    }

    pub(super) fn tool(&self) -> Option<&str> {
        self.scoped.tool.as_deref()
    }

    pub(super) fn call(&self) -> Option<&str> {
        self.scoped.call.as_deref()
    }

    pub(super) fn path(&self) -> Option<&str> {
        self.scoped.paths.first().map(|path| &**path)
    }

    /// Adds what this part counted itself.
    pub(super) fn count(&self, counters: &mut Counters) {
        match &self.view {
            View::Text(haystack) => haystack.count(counters),
            View::Json(json) => json.count(counters),
            View::Unwatched | View::Closed => {}
        }
    }

    pub(super) fn name_tool(&mut self, pack: &Pack, name: &str, call: &str, found: &mut Found) {
        if self.scoped.tool.is_none() && !name.is_empty() {
            self.scoped.tool = Some(name.into());
        }
        if self.scoped.call.is_none() && !call.is_empty() {
            self.scoped.call = Some(call.into());
        }
        self.scoped.settle(pack, self.delivered, found);
    }

    /// The fast path: a short delta of text that brings nothing special. Says whether it was that.
    #[inline(always)]
    pub(super) fn push_short(&mut self, pack: &Pack, bytes: &[u8]) -> bool {
        // From 1 to `SHORT` bytes, in one comparison.
        let is_short = bytes.len().wrapping_sub(1) < SHORT;
        let (View::Text(haystack), true) = (&mut self.view, is_short) else {
            return false;
        };
        let Some(rules) = pack.channel(self.channel) else {
            return false;
        };
        if haystack.is_confirming() {
            return false;
        }
        let Some(padded) = rules.matcher.push_short(&mut haystack.cursor, bytes) else {
            return false;
        };
        haystack.window.push_short(padded, bytes.len());
        self.delivered += bytes.len() as u64;
        true
    }

    pub(super) fn push(&mut self, pack: &Pack, bytes: &[u8], found: &mut Found) {
        let at = self.delivered;
        self.delivered += bytes.len() as u64;
        match &mut self.view {
            View::Unwatched => {}
            View::Text(haystack) => {
                let Some(rules) = pack.channel(self.channel) else {
                    return;
                };
                let mut judge = Judge {
                    pack,
                    rules,
                    part: self.id,
                    scoped: &mut self.scoped,
                    found,
                };
                haystack.run(&mut judge, None, bytes, at);
            }
            View::Json(json) => {
                let Some(rules) = pack.channel(self.channel) else {
                    return;
                };
                let judge = Judge {
                    pack,
                    rules,
                    part: self.id,
                    scoped: &mut self.scoped,
                    found,
                };
                json.push(judge, bytes);
            }
            View::Closed => found.counters.unscanned_bytes += bytes.len() as u64,
        }
    }

    pub(super) fn close(&mut self, pack: &Pack, found: &mut Found) {
        let at = self.delivered;
        let mut view = std::mem::replace(&mut self.view, View::Closed);
        if let Some(rules) = pack.channel(self.channel) {
            let mut judge = Judge {
                pack,
                rules,
                part: self.id,
                scoped: &mut self.scoped,
                found,
            };
            match &mut view {
                View::Text(haystack) => haystack.finish(&mut judge, None, at, at),
                View::Json(json) => json.finish(judge),
                View::Unwatched | View::Closed => {}
            }
        }
        match view {
            View::Text(haystack) => haystack.count(&mut found.counters),
            View::Json(json) => json.count(&mut found.counters),
            View::Unwatched | View::Closed => {}
        }
        self.scoped.is_closed = true;
        self.scoped.settle(pack, at, found);
    }
}

impl Haystack {
    fn new(rules: &ChannelRules) -> Haystack {
        Haystack {
            cursor: rules.matcher.start(),
            window: Window::default(),
            #[cfg(feature = "lookaround")]
            waiting: confirm::Waiting::new(&rules.confirms),
        }
    }

    /// Whether every byte is wanted for patterns that look around.
    #[inline(always)]
    fn is_confirming(&self) -> bool {
        #[cfg(feature = "lookaround")]
        return self.waiting.is_some();
        #[cfg(not(feature = "lookaround"))]
        false
    }

    fn restart(&mut self, matcher: &Matcher) {
        matcher.restart(&mut self.cursor);
        self.window.clear();
        #[cfg(feature = "lookaround")]
        self.waiting.iter_mut().for_each(|waiting| waiting.clear());
    }

    /// Reads bytes that stand in the part as they are, from offset `at`.
    #[inline]
    fn run(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, bytes: &[u8], at: u64) {
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.run_confirming(&mut waiting, judge, arg, bytes, at);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.rules.matcher.push(cursor, bytes, |event| {
            let seen = event.at + 1;
            let decided = at + seen as u64;
            judge.judge(arg, &event, decided - event.back as u64, decided, || {
                Near::new(window, &bytes[..seen], event.back)
            });
        });
        window.push(bytes);
    }

    /// Reads bytes that were held back and stand at `at`: a character written as an escape, or bytes
    /// that turned out to stand for themselves.
    fn held(
        &mut self,
        judge: &mut Judge<'_>,
        arg: Option<&ArgPath>,
        bytes: &[u8],
        at: Range<u64>,
        decided: u64,
    ) {
        let is_escape = bytes.len() as u64 != at.end - at.start;
        if is_escape {
            self.flush(judge, arg, at.start, decided);
        }
        let place = |behind: usize| match behind {
            _ if !is_escape => at.end - behind as u64,
            // Inside an escape there is nowhere to stand: a match ends before it or after it.
            _ if behind >= bytes.len() => at.start,
            _ => at.end,
        };
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.held_confirming(&mut waiting, judge, arg, bytes, place, decided);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.rules.matcher.push(cursor, bytes, |event| {
            let behind = bytes.len() - (event.at + 1) + event.back;
            judge.judge(arg, &event, place(behind), decided, || {
                Near::new(window, bytes, behind)
            });
        });
        window.push(bytes);
    }

    /// What is pending cannot be completed: it ends at `end`.
    fn flush(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, end: u64, decided: u64) {
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.end_confirming(&mut waiting, judge, arg, end, decided, false);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.rules.matcher.flush(cursor, |event| {
            let back = event.back;
            judge.judge(arg, &event, end - back as u64, decided, || {
                Near::new(window, &[], back)
            });
        });
    }

    /// Ends the haystack, whose last byte ends at `end`.
    fn finish(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, end: u64, decided: u64) {
        #[cfg(feature = "lookaround")]
        if let Some(mut waiting) = self.waiting.take() {
            self.end_confirming(&mut waiting, judge, arg, end, decided, true);
            self.waiting = Some(waiting);
            return;
        }
        let Haystack { cursor, window, .. } = self;
        judge.rules.matcher.finish(cursor, |event| {
            let back = event.back;
            judge.judge(arg, &event, end - back as u64, decided, || {
                Near::new(window, &[], back)
            });
        });
    }

    fn count(&self, counters: &mut Counters) {
        counters.invalid_utf8 += Matcher::invalid_bytes(&self.cursor);
    }
}

impl Json {
    fn new(rules: &ChannelRules, limits: &Limits) -> Json {
        let value = Value {
            haystack: Haystack::new(rules),
            arg: ArgPath::new(limits.path_bytes),
            file: None,
            at: 0,
        };
        Json {
            decoder: Decoder::new(limits.json_depth, limits.path_bytes),
            value,
        }
    }

    fn push(&mut self, judge: Judge<'_>, bytes: &[u8]) {
        let was_deep = self.decoder.counters().too_deep;
        let mut values = Values {
            judge,
            value: &mut self.value,
        };
        self.decoder.push(bytes, &mut values);
        if self.decoder.counters().too_deep > was_deep {
            // What is too deep is read as it stands: the value that is open now began there.
            let Values { judge, value } = values;
            let decided = value.at + 1;
            let limit = Source::Limit {
                name: "json_depth",
                part: judge.part,
                decided,
            };
            judge.found.limit = Some(limit);
        }
    }

    fn finish(&mut self, judge: Judge<'_>) {
        self.decoder.finish(&mut Values {
            judge,
            value: &mut self.value,
        });
    }

    fn count(&self, counters: &mut Counters) {
        let json = self.decoder.counters();
        counters.raw_inputs += json.raw;
        counters.malformed_json += json.malformed;
        counters.lone_surrogates += json.lone_surrogates;
        counters.too_deep += json.too_deep;
        counters.long_paths += json.path_truncated;
        self.value.haystack.count(counters);
    }
}

/// Takes the values of a tool input, one haystack each.
struct Values<'a, 'b> {
    judge: Judge<'a>,
    value: &'b mut Value,
}

impl Sink for Values<'_, '_> {
    fn open(&mut self, path: &ArgPath, at: u64) {
        let Values { judge, value } = self;
        value.haystack.restart(&judge.rules.matcher);
        value.arg.clone_from(path);
        value.at = at;
        let names_file = judge.rules.reads_paths && path.last().is_some_and(is_path_key);
        value.file = names_file.then(Vec::new);
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.keep(bytes);
        let Value { haystack, arg, .. } = self.value;
        haystack.run(&mut self.judge, Some(arg), bytes, at);
    }

    fn escape(&mut self, utf8: &[u8], start: u64, end: u64, decided: u64) {
        self.keep(utf8);
        let Value { haystack, arg, .. } = self.value;
        haystack.held(&mut self.judge, Some(arg), utf8, start..end, decided);
    }

    fn close(&mut self, end: u64, decided: u64) {
        let Values { judge, value } = self;
        value.haystack.finish(judge, Some(&value.arg), end, decided);
        value.haystack.count(&mut judge.found.counters);
        value.haystack.restart(&judge.rules.matcher);
        if let Some(file) = value.file.take() {
            let path = normalise(&String::from_utf8_lossy(&file), judge.pack.root());
            judge.scoped.paths.push(path.into_boxed_str());
            judge.scoped.settle(judge.pack, decided, judge.found);
        }
    }
}

impl Values<'_, '_> {
    /// Keeps the bytes of a file path.
    fn keep(&mut self, bytes: &[u8]) {
        let Values { judge, value } = self;
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

/// Turns matches into hits: scope first, one hit per rule and part.
struct Judge<'a> {
    pack: &'a Pack,
    rules: &'a ChannelRules,
    part: PartId,
    scoped: &'a mut Scoped,
    found: &'a mut Found,
}

impl Judge<'_> {
    #[cold]
    #[inline(never)]
    fn judge(
        &mut self,
        arg: Option<&ArgPath>,
        event: &Event,
        end: u64,
        decided: u64,
        near: impl FnOnce() -> Near,
    ) {
        let pattern = &self.rules.patterns[event.pattern as usize];
        let rule = pattern.rule;
        if !self.is_open(rule, arg, end, decided) {
            return;
        }
        let scope = self.pack.scope(rule);
        let arg = arg.map_or(NO_ARG, |arg| self.found.arg(arg));
        let hit = Hit {
            rule,
            part: self.part,
            end,
            decided,
            arg,
        };
        let near = near();
        let span = || pattern.span(self.pack.rules());
        let start = near.start.or_else(|| near.start_of(span()?));
        let quote = near.quote(hit, start);
        if self.scoped.applies(scope).is_some() {
            self.scoped.accept(quote, self.found);
        } else if let Some(known) = self
            .scoped
            .waiting
            .iter_mut()
            .find(|other| other.hit.rule == rule)
        {
            // Patterns of one delta are not reported in order: the earliest is what counts.
            if (decided, end) < (known.hit.decided, known.hit.end) {
                *known = quote;
            }
        } else {
            self.scoped.waiting.push(quote);
        }
    }

    /// Whether a match of the rule in that argument would count: it is in scope, and the rule has not
    /// hit in this part, or only in this delta and later.
    fn is_open(&self, rule: RuleId, arg: Option<&ArgPath>, end: u64, decided: u64) -> bool {
        let scope = self.pack.scope(rule);
        let in_arg = match (&scope.args, arg) {
            (Some(args), Some(arg)) => args.applies(arg),
            _ => true,
        };
        in_arg
            && self.scoped.applies(scope) != Some(false)
            && (!self.scoped.has(rule)
                || self
                    .found
                    .fresh(rule, self.part)
                    .is_some_and(|index| self.found.hits[index].is_after(end, decided)))
    }
}

impl Scoped {
    fn has(&self, rule: RuleId) -> bool {
        self.hit.binary_search(&rule).is_ok()
    }

    /// Whether a rule with that scope applies to this part; `None` while that is not known.
    fn applies(&self, scope: &Scope) -> Option<bool> {
        if !self.is_tool_call {
            return Some(true);
        }
        let tool = match (&scope.tools, &self.tool) {
            (None, _) => Some(true),
            (Some(tools), Some(tool)) => Some(tools.applies(tool)),
            (Some(_), None) => self.is_closed.then_some(scope.is_critical),
        };
        let path = match &scope.paths {
            None => Some(true),
            Some(paths) if self.matches_path(paths) => Some(true),
            Some(_) if !self.is_closed => None,
            Some(paths) => {
                let without = scope.is_critical || paths.applies(None) == Some(true);
                Some(self.paths.is_empty() && without)
            }
        };
        match (tool, path) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }

    fn matches_path(&self, scope: &PathScope) -> bool {
        self.paths
            .iter()
            .any(|path| scope.applies(Some(path)) == Some(true))
    }

    /// Judges again what waited, now that `decided` bytes are delivered and more is known.
    fn settle(&mut self, pack: &Pack, decided: u64, found: &mut Found) {
        if self.waiting.is_empty() {
            return;
        }
        for mut quote in std::mem::take(&mut self.waiting) {
            match self.applies(pack.scope(quote.hit.rule)) {
                None => self.waiting.push(quote),
                Some(true) => {
                    quote.hit.decided = quote.hit.decided.max(decided);
                    self.accept(quote, found);
                }
                Some(false) => {
                    let unknown = self.tool.is_none() || self.paths.is_empty();
                    found.counters.unscoped += u64::from(self.is_closed && unknown);
                }
            }
        }
    }

    /// Makes it the hit of its rule, instead of a later one if need be.
    fn accept(&mut self, quote: Quote, found: &mut Found) {
        let Hit {
            rule,
            part,
            end,
            decided,
            ..
        } = quote.hit;
        if let Err(place) = self.hit.binary_search(&rule) {
            self.hit.insert(place, rule);
            found.hits.push(quote.hit);
            found.quotes.push(quote);
        } else if let Some(index) = found.fresh(rule, part)
            && found.hits[index].is_after(end, decided)
        {
            // Patterns of one delta are not reported in order: the earliest is what counts.
            let later = std::mem::replace(&mut found.hits[index], quote.hit);
            found.quotes.retain(|known| known.hit != later);
            found.quotes.push(quote);
        }
    }
}

impl Found {
    /// The rule's hit in that part, if it is one of the current call.
    fn fresh(&self, rule: RuleId, part: PartId) -> Option<usize> {
        self.hits
            .iter()
            .position(|hit| (hit.rule, hit.part) == (rule, part))
    }

    fn arg(&mut self, arg: &ArgPath) -> u32 {
        let dotted = arg.dotted();
        let known = self.args.iter().rposition(|known| **known == *dotted);
        let index = known.unwrap_or_else(|| {
            self.args.push(dotted.into());
            self.args.len() - 1
        });
        index as u32
    }
}

/// The haystack around the end of a match: bytes up to the deciding one.
struct Near {
    bytes: Vec<u8>,
    begins_haystack: bool,
    end: usize,
    /// Where the match begins, if that is known.
    start: Option<usize>,
}

impl Near {
    /// `more` follows the window; the match ends `back` bytes before its end.
    fn new(window: &Window, more: &[u8], back: usize) -> Near {
        let more = &more[more.len().saturating_sub(WINDOW)..];
        let (bytes, begins_haystack) = window.with(more);
        let end = bytes.len().saturating_sub(back);
        Near {
            bytes,
            begins_haystack,
            end,
            start: None,
        }
    }

    fn start_of(&self, span: &crate::matcher::Span) -> Option<usize> {
        // Offset 0 of a window that does not begin the haystack must not look like its beginning.
        span.start(&self.bytes, usize::from(!self.begins_haystack), self.end)
    }

    fn quote(&self, hit: Hit, start: Option<usize>) -> Quote {
        let lossy = |range: Range<usize>| String::from_utf8_lossy(&self.bytes[range]).into_owned();
        let start = start
            .unwrap_or(self.end)
            .max(self.end.saturating_sub(SHOWN));
        let start = floor(&self.bytes, start);
        let before = lossy(floor(&self.bytes, start.saturating_sub(BEFORE))..start);
        let matched = lossy(start..self.end);
        let text = before.clone() + &matched + &lossy(self.end..self.bytes.len());
        let matched = before.len()..before.len() + matched.len();
        Quote {
            hit,
            text: text.into_boxed_str(),
            matched,
        }
    }
}

/// The start of the character that `at` is in, as far as it is valid UTF-8.
fn floor(bytes: &[u8], at: usize) -> usize {
    let is_continuation = |at: usize| bytes.get(at).is_some_and(|byte| byte & 0xC0 == 0x80);
    (at.saturating_sub(3)..=at)
        .rev()
        .find(|&at| !is_continuation(at))
        .unwrap_or(at)
}
