//! From matches to hits: scope first, then how many it takes, then one hit per rule and part.

use std::sync::Arc;

use super::condition::{Book, Match, Position};
use super::haystack::Near;
use crate::pack::{Allowed, ChannelRules, Extent, Pack, Role, Scope, ViewRules};
use crate::rule::{Channel, Count, Per};
use crate::stream::{Counted, Found, Quote, Redaction};
use crate::verdict::{Hit, NO_ARG, PartId, RuleId};
use crate::view::json::ArgPath;
use crate::view::path::{PathScope, ToolScope};
use ttsr_automata::MatchEvent;

/// Most matches of one rule that wait for the name of the tool or of the file.
const WAITING: usize = 256;

/// What is known of a part's scope, and what waits for it.
#[derive(Debug)]
pub(super) struct Scoped {
    /// Calls and their output have a tool, and only calls have arguments and files: elsewhere those scopes
    /// mean nothing.
    channel: Channel,
    pub(super) tool: Option<Box<str>>,
    pub(super) call: Option<Box<str>>,
    /// Every file path that the part has named, in order.
    pub(super) paths: Vec<Box<str>>,
    /// The file that the host says the part is about, whatever its text says.
    pub(super) given_path: Option<Box<str>>,
    pub(super) is_closed: bool,
    /// Rules that have hit, sorted: one hit per rule and part.
    hit: Vec<RuleId>,
    /// The first match of each rule whose scope is not known yet.
    waiting: Vec<Quote>,
    /// Conditions that are decided on the whole part.
    book: Book,
}

/// A match for a condition that is decided on a part or on the reply.
#[derive(Debug)]
pub(in crate::stream) struct Queued {
    role: Role,
    known: Match,
    quote: Quote,
}

/// What the matches of one part go through.
pub(super) struct Judge<'a> {
    pub(super) pack: &'a Pack,
    pub(super) rules: &'a ChannelRules,
    pub(super) view: &'a ViewRules,
    pub(super) part: PartId,
    /// Which part it is, in the order of their opening.
    pub(super) order: u32,
    /// The file that the text is of, where the text itself says so: a hunk of a patch.
    pub(super) file: Option<Arc<str>>,
    pub(super) scoped: &'a mut Scoped,
    pub(super) found: &'a mut Found,
}

impl<'a> Judge<'a> {
    /// For what a part, of that order, brings as it is.
    pub(super) fn new(
        pack: &'a Pack,
        rules: &'a ChannelRules,
        (part, order): (PartId, u32),
        scoped: &'a mut Scoped,
        found: &'a mut Found,
    ) -> Judge<'a> {
        Judge {
            pack,
            rules,
            view: &rules.raw,
            part,
            order,
            file: None,
            scoped,
            found,
        }
    }
}

impl Judge<'_> {
    /// Takes the first end of a pattern of a rule that asks for no more.
    #[cold]
    #[inline(never)]
    pub(super) fn judge(
        &mut self,
        arg: Option<&ArgPath>,
        event: &MatchEvent,
        end: u64,
        decided: u64,
        near: impl FnOnce() -> Near,
    ) {
        let pattern = &self.view.patterns[event.pattern as usize];
        let rule = pattern.rule;
        let in_arg = match (&pattern.arg, arg) {
            (Some(scope), Some(arg)) => scope.applies(arg),
            _ => true,
        };
        if !in_arg || !self.is_open(rule, arg, end, decided) {
            return;
        }
        let hit = Hit {
            rule,
            part: self.part,
            end,
            decided,
            arg: self.found.arg_of(arg),
        };
        let near = near();
        let vm = pattern.vm.as_deref();
        let start = near.match_start().or_else(|| near.start_of(vm?));
        let mut quote = near.quote(hit, start);
        quote.file = self.file.clone();
        let is_as_delivered = self.view.sight.source.is_none() && self.view.sight.folds.is_empty();
        if arg.is_none() && is_as_delivered {
            quote.start = start.map(|start| end - near.before_end(start) as u64);
        }
        self.offer(quote);
    }

    /// Takes a match that completes the condition of its rule.
    pub(super) fn offer(&mut self, quote: Quote) {
        self.scoped.offer(self.pack, quote, self.found);
    }

    /// Takes what a detector found, with the text around its end where that is at hand.
    pub(super) fn found_by_detector(
        &mut self,
        rule: RuleId,
        arg: Option<&ArgPath>,
        found: crate::detect::Found,
        near: Option<Near>,
    ) {
        let decided = found.decided.max(found.end);
        let wants_all = self.pack.compound(rule).is_some_and(|it| it.wants_all());
        let counts = match wants_all {
            true => self.is_in_scope(rule, arg),
            false => self.is_open(rule, arg, found.end, decided),
        };
        if !counts {
            return;
        }
        let hit = Hit {
            rule,
            part: self.part,
            end: found.end,
            decided,
            arg: self.found.arg_of(arg),
        };
        let quote = near.map(|near| near.quote(hit, near.match_start()));
        let (text, matched) = quote.map_or_else(Default::default, |it| (it.text, it.matched));
        self.offer(Quote {
            hit,
            start: Some(found.start),
            file: self.file.clone(),
            text,
            matched,
        });
    }

    /// Keeps a match until the end of the call: a condition on the part or the reply is decided on all
    /// matches in the order in which they became certain, and haystacks are not read in that order.
    pub(super) fn queue(&mut self, role: Role, known: &Match, quote: Quote) {
        self.found.queue.push(Queued {
            role,
            known: known.clone(),
            quote,
        });
    }

    /// Decides what was queued and counted in this call.
    pub(super) fn settle(&mut self) {
        if self.found.queue.is_empty() && self.found.counting.is_empty() {
            return;
        }
        let mut queue = std::mem::take(&mut self.found.queue);
        queue.sort_by_key(|queued| {
            let Match {
                start,
                end,
                decided,
                ..
            } = queued.known;
            (decided, end.offset, start.offset, queued.role)
        });
        for queued in queue {
            self.decide(queued);
        }
        self.found.count(self.pack);
    }

    fn decide(&mut self, queued: Queued) {
        let Queued {
            role,
            mut known,
            quote,
        } = queued;
        let Some(compound) = self.pack.compound(quote.hit.rule) else {
            return;
        };
        let Found { book, counters, .. } = &mut *self.found;
        let complete = if compound.extent() == Extent::Message {
            known.start = known.start.of_reply(self.order);
            known.end = known.end.of_reply(self.order);
            book.note(compound, role, &known, quote, counters)
        } else {
            self.scoped
                .book
                .note(compound, role, &known, quote, counters)
        };
        complete.into_iter().for_each(|quote| self.offer(quote));
    }

    /// Decides what waits for the end of the part.
    pub(super) fn end_part(&mut self, decided: u64) {
        let book = std::mem::take(&mut self.scoped.book);
        book.end(0, self, decided);
    }

    /// Whether a match of the rule in that argument may count, as far as is known.
    pub(super) fn is_in_scope(&self, rule: RuleId, arg: Option<&ArgPath>) -> bool {
        let scope = self.pack.scope(rule);
        let in_arg = match (&scope.args, arg) {
            (Some(args), Some(arg)) => args.applies(arg),
            _ => true,
        };
        in_arg && self.scoped.applies(scope, self.file.as_deref()) != Some(false)
    }

    /// Whether a match of the rule in that argument would count: it is in scope, and the rule has not
    /// hit in this part, or only in this delta and later.
    pub(super) fn is_open(
        &self,
        rule: RuleId,
        arg: Option<&ArgPath>,
        end: u64,
        decided: u64,
    ) -> bool {
        self.is_in_scope(rule, arg)
            && (!self.scoped.has(rule)
                || self
                    .found
                    .fresh(rule, self.part)
                    .is_some_and(|index| self.found.hits[index].is_after(end, decided)))
    }
}

impl Position {
    /// The place in the reply instead of that in the part: parts in the order in which they opened.
    fn of_reply(self, order: u32) -> Position {
        Position {
            offset: u64::from(order) << 44 | self.offset & ((1 << 44) - 1),
            ..self
        }
    }
}

impl Scoped {
    pub(super) fn new(channel: Channel) -> Scoped {
        Scoped {
            channel,
            tool: None,
            call: None,
            paths: Vec::new(),
            given_path: None,
            is_closed: false,
            hit: Vec::new(),
            waiting: Vec::new(),
            book: Book::default(),
        }
    }

    pub(super) fn has(&self, rule: RuleId) -> bool {
        self.hit.binary_search(&rule).is_ok()
    }

    /// Whether a rule with that scope applies to this part; `None` while that is not known.
    /// `file` is the one that the text is of, where that is known besides.
    pub(super) fn applies(&self, scope: &Scope, file: Option<&str>) -> Option<bool> {
        let file = self.given_path.as_deref().or(file);
        if self.given_path.is_some()
            && let Some(paths) = &scope.paths
            && paths.applies(file) != Some(true)
        {
            return Some(false);
        }
        let tool = match &scope.tools {
            Some(tools) if self.has_tool() => {
                self.is_of_tool(tools, || tools.applies(None).unwrap_or(scope.is_critical))
            }
            _ => Some(true),
        };
        let path = match &scope.paths {
            None => Some(true),
            Some(_) if !self.has_file() => Some(true),
            Some(paths) if file.is_some() => Some(paths.applies(file) == Some(true)),
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

    /// Returns whether the tool of this part is in scope; `None` while it may still be named. For a tool that
    /// is never named, `unnamed` decides.
    fn is_of_tool(&self, tools: &ToolScope, unnamed: impl FnOnce() -> bool) -> Option<bool> {
        match &self.tool {
            Some(tool) => tools.applies(Some(tool)),
            None => self.is_closed.then(unnamed),
        }
    }

    fn has_tool(&self) -> bool {
        matches!(self.channel, Channel::ToolInput | Channel::ToolOutput)
    }

    fn has_file(&self) -> bool {
        self.channel == Channel::ToolInput
    }

    pub(super) fn matches_path(&self, scope: &PathScope) -> bool {
        self.paths
            .iter()
            .any(|path| scope.applies(Some(path)) == Some(true))
    }

    /// Judges again what waited, now that `decided` bytes are delivered and more is known.
    pub(super) fn settle(&mut self, pack: &Pack, decided: u64, found: &mut Found) {
        if self.waiting.is_empty() {
            return;
        }
        for quote in std::mem::take(&mut self.waiting) {
            match self.counts(pack, &quote) {
                None => self.waiting.push(quote),
                Some(true) => self.accept(pack, quote.at(decided), found),
                Some(false) => {
                    let unknown = self.tool.is_none() || self.paths.is_empty();
                    found.counters.unscoped += u64::from(self.is_closed && unknown);
                }
            }
        }
    }

    /// Takes a match that completes the condition of its rule.
    pub(super) fn offer(&mut self, pack: &Pack, quote: Quote, found: &mut Found) {
        match self.counts(pack, &quote) {
            Some(false) => {}
            Some(true) => self.accept(pack, quote, found),
            None => self.wait(pack, quote),
        }
    }

    /// Whether a match counts: its rule applies here, and nothing allows it; none while that is not known.
    fn counts(&self, pack: &Pack, quote: &Quote) -> Option<bool> {
        let rule = quote.hit.rule;
        if !self.applies(pack.scope(rule), quote.file.as_deref())? {
            return Some(false);
        }
        let mut is_open = false;
        for allowed in pack.allowed(rule) {
            match self.is_allowed(allowed, quote) {
                Some(true) => return Some(false),
                Some(false) => {}
                None => is_open = true,
            }
        }
        (!is_open).then_some(true)
    }

    fn is_allowed(&self, allowed: &Allowed, quote: &Quote) -> Option<bool> {
        let matched = &quote.text[quote.matched.clone()];
        let text = allowed.text.as_ref();
        if !text.is_none_or(|text| text.is_match(matched)) {
            return Some(false);
        }
        let tool = match &allowed.tools {
            None => Some(true),
            Some(tools) if self.has_tool() => self.is_of_tool(tools, || false),
            Some(_) => Some(false),
        };
        let file = self.given_path.as_deref().or(quote.file.as_deref());
        let path = match (&allowed.paths, file) {
            (None, _) => Some(true),
            (Some(paths), Some(file)) => Some(paths.applies(Some(file)) == Some(true)),
            (Some(paths), None) if self.matches_path(paths) => Some(true),
            (Some(_), None) => (self.is_closed || !self.has_file()).then_some(false),
        };
        match (tool, path) {
            (Some(false), _) | (_, Some(false)) => Some(false),
            (Some(true), Some(true)) => Some(true),
            _ => None,
        }
    }

    /// Lets a match wait until it is known whether its rule applies.
    fn wait(&mut self, pack: &Pack, quote: Quote) {
        let rule = quote.hit.rule;
        let mut known = self
            .waiting
            .iter_mut()
            .filter(|known| known.hit.rule == rule);
        if let Some(compound) = pack.compound(rule).filter(|rule| rule.wants_all()) {
            if compound.reports_every() || known.count() < WAITING {
                self.waiting.push(quote);
            }
        } else if let Some(known) = known.next() {
            // Patterns of one delta are not reported in order: the earliest is what counts.
            if known.hit.is_after(quote.hit.end, quote.hit.decided) {
                *known = quote;
            }
        } else {
            self.waiting.push(quote);
        }
    }

    /// Where the text begins that waits for the tool or the file of a rule that holds it.
    pub(super) fn undecided_from(&self, pack: &Pack) -> Option<u64> {
        let holds = |rule: RuleId| pack.rule(rule).holds_live();
        let held = self.waiting.iter().filter(|quote| holds(quote.hit.rule));
        let waiting = held.filter_map(|quote| quote.start);
        waiting.chain(self.book.undecided_from(holds)).min()
    }

    /// Counts it, takes it out, or makes it the hit of its rule, as the rule wants.
    fn accept(&mut self, pack: &Pack, quote: Quote, found: &mut Found) {
        let compound = pack.compound(quote.hit.rule);
        if compound.is_some_and(|it| it.reports_every() && it.count.is_none()) {
            found.quotes.push(quote);
            return;
        }
        if compound.is_some_and(|compound| compound.count.is_some()) {
            found.counting.push(quote);
            return;
        }
        if let (Some(start), true) = (
            quote.start,
            compound.is_some_and(|compound| compound.redacts)
                && pack.rule(quote.hit.rule).holds_live(),
        ) {
            found.redact(&quote, start);
        }
        self.hit(quote, found);
    }

    /// Makes it the hit of its rule, instead of a later one if need be.
    fn hit(&mut self, quote: Quote, found: &mut Found) {
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

    /// The argument as hits name it.
    pub(super) fn arg_of(&mut self, arg: Option<&ArgPath>) -> u32 {
        arg.map_or(NO_ARG, |arg| self.arg(arg))
    }

    /// What stands there is to be replaced.
    fn redact(&mut self, quote: &Quote, start: u64) {
        let Hit {
            rule, part, end, ..
        } = quote.hit;
        let redaction = Redaction {
            part,
            rule,
            start,
            end,
        };
        // Views of one delta are not read in order.
        let key = |known: &Redaction| (known.part, known.start, known.end, known.rule);
        let place = self
            .redactions
            .partition_point(|known| key(known) <= key(&redaction));
        self.redactions.insert(place, redaction);
    }

    /// Counts the matches of this call, in the order in which they became certain.
    pub(super) fn count(&mut self, pack: &Pack) {
        let mut counting = std::mem::take(&mut self.counting);
        counting.sort_by_key(|quote| (quote.hit.decided, quote.hit.end, quote.hit.rule));
        for quote in counting {
            let Hit { rule, part, .. } = quote.hit;
            let Some(compound) = pack.compound(rule) else {
                continue;
            };
            let Some(Count { times, per }) = compound.count else {
                continue;
            };
            let of = (per == Per::Part).then_some(part);
            let before = match (per, self.pasts.get(&rule)) {
                (Per::Turn, Some(past)) => past.turn,
                (Per::Session, Some(past)) => past.session,
                _ => 0,
            };
            let seen = before + self.counted(rule, of);
            if compound.reports_every() {
                if seen >= u64::from(times) {
                    self.quotes.push(quote);
                }
                continue;
            }
            if seen >= u64::from(times) && !self.has_hit(rule, part) {
                self.hits.push(quote.hit);
                self.quotes.push(quote);
            }
        }
    }

    /// One more match of the rule; gives how many there are.
    fn counted(&mut self, rule: RuleId, part: Option<PartId>) -> u64 {
        let counts = &mut self.counts;
        let known = counts
            .iter()
            .position(|known| (known.rule, known.part) == (rule, part));
        let index = known.unwrap_or_else(|| {
            counts.push(Counted {
                rule,
                part,
                matches: 0,
            });
            counts.len() - 1
        });
        counts[index].matches += 1;
        counts[index].matches
    }

    fn has_hit(&self, rule: RuleId, part: PartId) -> bool {
        self.quotes
            .iter()
            .any(|quote| (quote.hit.rule, quote.hit.part) == (rule, part))
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
