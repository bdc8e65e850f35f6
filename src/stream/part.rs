//! One part of a reply: its view, its matching state, and the scope of what it finds.
//!
//! `haystack` reads for first ends, `spans` for whole matches, `reader` for both; `input` takes tool input
//! apart; `views` finds the haystacks of regions; `condition` and `judge` make hits of matches.

use std::time::Duration;

use super::closed::ClosedPart;
use super::{Counters, Found};
use crate::detect::unknown_name::KnownNames;
use crate::pack::{ChannelRules, Pack, What};
use crate::rule::Channel;
use crate::verdict::PartId;
use crate::view::piece::Piece;
use bounds::Bounds;
use haystack::{Haystack, Near};
use input::Json;
use judge::{Judge, Scoped};
use reader::Reader;
use ttsr_automata::is_short;
use views::Views;

mod bounds;
pub(super) mod condition;
#[cfg(feature = "lookaround")]
mod confirm;
mod haystack;
mod input;
pub(super) mod judge;
mod reader;
pub(super) mod spans;
mod trail;
#[cfg(feature = "ast")]
mod trees;
mod views;
mod watch;

/// A part, from its opening to its close. What a delta touches comes first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(super) struct Part {
    id: PartId,
    channel: Channel,
    delivered: u64,
    view: View,
    scoped: Scoped,
    bounds: Option<Box<Bounds>>,
    /// Which part it is, in the order of their opening.
    order: u32,
    /// Bytes that were said to be decided.
    released: u64,
}

/// What patterns see of the part.
#[derive(Debug)]
enum View {
    /// No rule can fire here: nothing is read.
    Unwatched,
    /// The bytes as they are: one haystack, of which first ends are enough.
    Text(Haystack),
    /// The same, where some rule wants more.
    Whole(Box<Whole>),
    /// The values of a JSON object, each a haystack.
    Json(Box<Json>),
}

/// Text of which some rule wants more than first ends.
#[derive(Debug)]
struct Whole {
    reader: Reader,
    views: Option<Box<Views>>,
}

impl Part {
    /// `order` parts were opened before.
    pub(super) fn new(
        pack: &Pack,
        id: PartId,
        channel: Channel,
        order: u32,
        now: Duration,
    ) -> Part {
        let rules = pack.channel(channel);
        let view = match rules {
            None => View::Unwatched,
            Some(rules) if channel == Channel::ToolInput => {
                View::Json(Box::new(Json::new(rules, pack.limits())))
            }
            Some(rules) if rules.is_raw_only() => View::Text(Haystack::new(&rules.raw)),
            Some(rules) => View::Whole(Box::new(Whole {
                reader: Reader::new(&rules.raw),
                views: Views::new(rules, false),
            })),
        };
        let scoped = Scoped::new(channel);
        Part {
            id,
            channel,
            delivered: 0,
            view,
            scoped,
            bounds: rules.and_then(|rules| Bounds::new(rules, channel, now)),
            order,
            released: 0,
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

    /// Which part it is, in the order of their opening.
    pub(super) fn order(&self) -> u32 {
        self.order
    }

    pub(super) fn tool(&self) -> Option<&str> {
        self.scoped.tool.as_deref()
    }

    pub(super) fn call(&self) -> Option<&str> {
        self.scoped.call.as_deref()
    }

    pub(super) fn path(&self) -> Option<&str> {
        let given = self.scoped.given_path.as_deref();
        given.or(self.scoped.paths.first().map(|path| &**path))
    }

    /// Sets the file that the part is about.
    pub(super) fn set_path(&mut self, path: String) {
        self.scoped.given_path = Some(path.into_boxed_str());
    }

    /// Adds what this part counted itself.
    pub(super) fn count(&self, counters: &mut Counters) {
        match &self.view {
            View::Text(haystack) => haystack.count(counters),
            View::Whole(whole) => whole.count(counters),
            View::Json(json) => json.count(counters),
            View::Unwatched => {}
        }
    }

    pub(super) fn name_tool(&mut self, pack: &Pack, name: &str, call: &str, found: &mut Found) {
        let is_new = self.scoped.tool.is_none() && !name.is_empty();
        if is_new {
            self.scoped.tool = Some(name.into());
        }
        if self.scoped.call.is_none() && !call.is_empty() {
            self.scoped.call = Some(call.into());
        }
        if is_new {
            self.judge_name(pack, name, found);
        }
        self.scoped.settle(pack, self.delivered, found);
        found.count(pack);
    }

    /// Finds the name of the tool where rules ask for those that nobody knows.
    fn judge_name(&mut self, pack: &Pack, name: &str, found: &mut Found) {
        let Some(rules) = pack.channel(self.channel) else {
            return;
        };
        let besides = found.known.clone();
        let is_known = |known: &KnownNames| {
            known.holds(name) || besides.as_ref().is_some_and(|known| known.holds(name))
        };
        let mut judge = Judge::new(pack, rules, (self.id, self.order), &mut self.scoped, found);
        let at = self.delivered;
        for watched in &rules.watches {
            if let What::UnknownTool(known) = &watched.what
                && !is_known(known)
            {
                let place = crate::detect::Found {
                    start: at,
                    end: at,
                    decided: at,
                };
                let near = Near::of(name.as_bytes());
                judge.found_by_detector(watched.rule, None, place, Some(near));
            }
        }
        judge.settle();
    }

    /// Number of bytes that no undecided match of a rule that holds can be in. Never decreases.
    pub(super) fn releasable(&mut self, pack: &Pack) -> u64 {
        let rules = pack.channel(self.channel);
        let reading = match (&self.view, rules) {
            (View::Whole(whole), Some(rules)) => whole.undecided_from(rules),
            (View::Json(json), Some(rules)) => json.undecided_from(rules),
            _ => None,
        };
        let waiting = self.scoped.undecided_from(pack);
        let undecided = reading.into_iter().chain(waiting).min();
        let decided = undecided.unwrap_or(self.delivered).min(self.delivered);
        self.released = self.released.max(decided);
        self.released
    }

    /// Time has passed.
    pub(super) fn tick(&mut self, pack: &Pack, found: &mut Found) {
        self.ask_bounds(pack, found, Bounds::tick);
    }

    /// The host has counted that many tokens of this part.
    pub(super) fn count_tokens(&mut self, pack: &Pack, tokens: u64, found: &mut Found) {
        self.ask_bounds(pack, found, |bounds, judge| bounds.tokens(judge, tokens));
    }

    fn ask_bounds(
        &mut self,
        pack: &Pack,
        found: &mut Found,
        ask: impl FnOnce(&mut Bounds, &mut Judge<'_>),
    ) {
        let (Some(bounds), Some(rules)) = (&mut self.bounds, pack.channel(self.channel)) else {
            return;
        };
        let mut judge = Judge::new(pack, rules, (self.id, self.order), &mut self.scoped, found);
        ask(bounds, &mut judge);
    }

    /// The fast path: a short delta of text that brings nothing special. Says whether it was that; if not,
    /// nothing has happened.
    #[inline(always)]
    pub(super) fn push_short(&mut self, bytes: &[u8]) -> bool {
        let (View::Text(haystack), true) = (&mut self.view, is_short(bytes)) else {
            return false;
        };
        let is_done = haystack.push_short(bytes);
        if is_done {
            self.delivered += bytes.len() as u64;
        }
        is_done
    }

    pub(super) fn push(&mut self, pack: &Pack, bytes: &[u8], found: &mut Found) {
        let at = self.delivered;
        self.delivered += bytes.len() as u64;
        let Some(rules) = pack.channel(self.channel) else {
            return;
        };
        let is_short = self.bounds.is_none() && is_short(bytes);
        let is_done = is_short
            && match &mut self.view {
                View::Text(haystack) => haystack.push_short_all(&rules.raw.matcher, bytes),
                View::Json(json) => json.push_short(bytes),
                _ => false,
            };
        if is_done {
            return;
        }
        let mut judge = Judge::new(pack, rules, (self.id, self.order), &mut self.scoped, found);
        if let Some(bounds) = &mut self.bounds {
            bounds.push(&mut judge, Piece::verbatim(bytes, at));
        }
        match &mut self.view {
            View::Unwatched => {}
            View::Text(haystack) => haystack.run(&mut judge, None, bytes, at),
            View::Whole(whole) => whole.push(&mut judge, bytes, at),
            View::Json(json) => json.push(&mut judge, self.bounds.as_deref_mut(), bytes),
        }
    }

    /// Ends the part, and keeps of it what may still be asked.
    pub(super) fn close(mut self, pack: &Pack, found: &mut Found) {
        let at = self.delivered;
        if let Some(rules) = pack.channel(self.channel) {
            let mut judge = Judge::new(pack, rules, (self.id, self.order), &mut self.scoped, found);
            let mut bounds = self.bounds.take();
            match &mut self.view {
                View::Text(haystack) => haystack.finish(&mut judge, None, at, at),
                View::Whole(whole) => whole.finish(&mut judge, at),
                View::Json(json) => json.finish(&mut judge, bounds.as_deref_mut(), at),
                View::Unwatched => {}
            }
            if let Some(bounds) = &mut bounds {
                bounds.finish(&mut judge, at);
            }
        }
        self.count(&mut found.counters);
        self.scoped.is_closed = true;
        self.scoped.settle(pack, at, found);
        found.count(pack);
        let closed = ClosedPart::new(self.id, self.channel, at);
        found
            .closed
            .insert(closed, self.tool(), self.call(), self.path());
    }
}

impl Whole {
    fn push(&mut self, judge: &mut Judge<'_>, bytes: &[u8], at: u64) {
        let piece = Piece::verbatim(bytes, at);
        self.reader.take(judge, None, piece);
        if let Some(views) = &mut self.views {
            views.take(judge, None, &piece);
        }
        judge.settle();
    }

    fn finish(&mut self, judge: &mut Judge<'_>, end: u64) {
        self.reader.finish(judge, None, end, end);
        if let Some(views) = &mut self.views {
            views.close(judge, None, end, end);
            views.finish(judge, end);
        }
        judge.settle();
        judge.end_part(end);
    }

    fn undecided_from(&self, rules: &ChannelRules) -> Option<u64> {
        let views = self.views.as_ref();
        let seen = views.and_then(|views| views.undecided_from(rules));
        let all = self.reader.undecided_from(&rules.raw);
        all.into_iter().chain(seen).min()
    }

    fn count(&self, counters: &mut Counters) {
        self.reader.count(counters);
        self.views.iter().for_each(|views| views.count(counters));
    }
}
