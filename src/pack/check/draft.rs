//! A rule before it is whole: what a table of keys says, where each key is written, and how one table goes
//! over another. `[defaults]`, a rule and its overrides are all read as drafts and laid over each other.

use std::mem::take;
use std::ops::Range;

use super::Span;
use crate::rule::{
    Action, Channel, Condition, Consult, Count, Examples, Fold, Header, Partial, Per, Region,
    Repeat, Retry, Rule,
};

/// Where something is written: a file by its number, and bytes of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::pack) struct Place {
    pub(in crate::pack) file: usize,
    pub(in crate::pack) span: Span,
}

/// Which kind of table says something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::pack) enum Layer {
    /// `[defaults]`: what does not fit a rule is not taken, and no error.
    Defaults,
    /// The rule itself.
    Rule,
    /// An override.
    Override,
}

/// A key that is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Given {
    /// Its place in a rule, such as `retry.max`.
    pub(in crate::pack) path: &'static str,
    pub(in crate::pack) at: Place,
    pub(in crate::pack) layer: Layer,
}

/// The text of a pattern, or an entry of a scope, and where it is written.
#[derive(Clone, Debug)]
pub(in crate::pack) struct PatternText {
    pub(super) text: String,
    /// The string, quotes included.
    pub(super) at: Place,
    /// Where its first byte stands, if the text stands in the file byte for byte.
    pub(super) first: Option<usize>,
}

impl PatternText {
    /// Where the bytes `within` of the text are written; the whole string where that is not known.
    fn place(&self, within: Option<&Range<usize>>) -> Place {
        let inner = within.zip(self.first);
        let span = inner.map(|(within, first)| first + within.start..first + within.end);
        Place {
            file: self.at.file,
            span: span.unwrap_or_else(|| self.at.span.clone()),
        }
    }
}

/// Returns the place of the entry that was written last.
pub(super) fn place_of(entries: &[PatternText], entry: &str) -> Option<Place> {
    let mut latest = entries.iter().rev();
    let written = latest.find(|written| written.text == entry)?;
    Some(written.place(Some(&(0..entry.len()))))
}

/// What is known of a rule.
#[derive(Clone, Debug)]
pub(in crate::pack) struct Draft {
    pub(in crate::pack) rule: Rule,
    pub(in crate::pack) given: Vec<Given>,
    /// Its patterns as they are written, those that were overridden among them.
    pub(in crate::pack) texts: Vec<PatternText>,
    /// Entries of scopes, and arguments of patterns, as they are written; those that lists fill in are not among them.
    pub(in crate::pack) entries: Vec<PatternText>,
    /// Where its id is written; what is said of the rule as a whole is said there.
    pub(in crate::pack) place: Place,
    /// `match.region` and `match.fold`, for patterns that do not say.
    pub(in crate::pack) region: Vec<Region>,
    pub(in crate::pack) fold: Vec<Fold>,
    /// The key that its action follows from: `action` or `severity`.
    pub(in crate::pack) action_from: Option<Given>,
    /// Something in it is wrong and was told: no more is said about it.
    pub(in crate::pack) is_broken: bool,
}

impl Draft {
    /// A rule of which nothing is known but its id.
    pub(in crate::pack) fn new(id: String, place: Place) -> Draft {
        let mut rule = Rule::new(id, Vec::new());
        rule.on = vec![Channel::Text, Channel::ToolInput];
        Draft {
            rule,
            given: Vec::new(),
            texts: Vec::new(),
            entries: Vec::new(),
            place,
            region: Vec::new(),
            fold: Vec::new(),
            action_from: None,
            is_broken: false,
        }
    }

    /// The latest writing of the key at `path`, or of a key below it.
    pub(in crate::pack) fn given(&self, path: &str) -> Option<&Given> {
        let is_at = |given: &&Given| {
            given.path == path
                || given
                    .path
                    .strip_prefix(path)
                    .is_some_and(|rest| rest.starts_with('.'))
        };
        self.given
            .iter()
            .filter(is_at)
            .max_by_key(|given| given.layer)
    }

    /// Where the bytes `within` of a pattern of the rule are written, as exactly as that is known.
    pub(in crate::pack) fn in_pattern(&self, text: &str, within: Option<&Range<usize>>) -> Place {
        let mut latest = self.texts.iter().rev();
        let written = latest.find(|written| written.text == text);
        written.map_or_else(|| self.place.clone(), |written| written.place(within))
    }

    /// The place of an entry of a scope or of an argument of a pattern; `None` if it was not written as it is.
    pub(in crate::pack) fn in_entry(&self, entry: &str) -> Option<Place> {
        place_of(&self.entries, entry)
    }

    /// Lays `from` over this: each key that it gives replaces what is here.
    pub(in crate::pack) fn lay(&mut self, mut from: Draft, layer: Layer) {
        self.texts.append(&mut from.texts);
        self.entries.append(&mut from.entries);
        let given = take(&mut from.given);
        for mut given in given {
            given.layer = layer;
            self.replace(given.path, &mut from);
            self.note(given);
        }
        self.derive(layer);
        self.is_broken |= from.is_broken;
    }

    /// Adds to lists what `from` gives.
    pub(in crate::pack) fn append(&mut self, mut from: Draft) {
        self.texts.append(&mut from.texts);
        self.entries.append(&mut from.entries);
        for mut given in take(&mut from.given) {
            given.layer = Layer::Override;
            self.extend(given.path, &mut from);
            self.note(given);
        }
        self.is_broken |= from.is_broken;
    }

    fn note(&mut self, given: Given) {
        self.given.retain(|old| old.path != given.path);
        self.given.push(given);
    }

    /// The action, if this layer says anything of it: a severity without an action derives it anew, for
    /// the action of a lower layer was chosen for another severity.
    fn derive(&mut self, layer: Layer) {
        let of_layer = |path| {
            let is_it = |given: &&Given| given.path == path && given.layer == layer;
            self.given.iter().find(is_it).cloned()
        };
        if let Some(given) = of_layer("action") {
            self.action_from = Some(given);
        } else if let Some(given) = of_layer("severity") {
            self.rule.action = self.rule.severity.default_action();
            self.action_from = Some(given);
        }
    }

    /// Takes the value of the key at `path` from `from`.
    fn replace(&mut self, path: &str, from: &mut Draft) {
        let (to, rule) = (&mut self.rule, &mut from.rule);
        match path {
            "description" => to.description = take(&mut rule.description),
            "why" => to.why = rule.why.take(),
            "docs" => to.docs = rule.docs.take(),
            "tags" => to.tags = take(&mut rule.tags),
            "status" => to.status = rule.status,
            "replaced-by" => to.replaced_by = rule.replaced_by.take(),
            "severity" => to.severity = rule.severity,
            "on" => to.on = take(&mut rule.on),
            "tools" => to.tools = take(&mut rule.tools),
            "args" => to.args = take(&mut rule.args),
            "paths" => to.paths = take(&mut rule.paths),
            "outcome" => to.outcome = rule.outcome,
            "agents" => to.agents = take(&mut rule.agents),
            "models" => to.models = take(&mut rule.models),
            "providers" => to.providers = take(&mut rule.providers),
            "action" => to.action = rule.action,
            "mode" => to.mode = rule.mode,
            "partial" => to.partial = rule.partial,
            "hold" => to.hold = rule.hold,
            "replacement" => to.replacement = rule.replacement.take(),
            "instead" => to.instead = rule.instead.take(),
            "message" => to.message = rule.message.take(),
            "priority" => to.priority = rule.priority,
            "examples.match" => to.examples.matching = take(&mut rule.examples.matching),
            "examples.no-match" => to.examples.not_matching = take(&mut rule.examples.not_matching),
            "case" => to.cases = take(&mut rule.cases),
            "match.region" => self.region = take(&mut from.region),
            "match.fold" => self.fold = take(&mut from.fold),
            _ => match path.split_once('.') {
                Some(("match", key)) => condition(&mut to.condition, key, &mut rule.condition),
                Some(("retry", key)) => retry(&mut to.retry, key, &mut rule.retry),
                Some(("repeat", key)) => {
                    repeat(to.repeat.get_or_insert_default(), key, rule.repeat)
                }
                Some(("allowance", "per-turn")) => to.allowance.per_turn = rule.allowance.per_turn,
                Some(("allowance", _)) => to.allowance.per_session = rule.allowance.per_session,
                Some(("consult", key)) => consult(&mut to.consult, key, &mut rule.consult),
                Some(("header", key)) => header(&mut to.header, key, &mut rule.header),
                _ => unreachable!("{path} is not a key of a rule"),
            },
        }
    }

    /// Adds the entries of the list at `path` from `from`.
    fn extend(&mut self, path: &str, from: &mut Draft) {
        let (to, rule) = (&mut self.rule, &mut from.rule);
        match path {
            "on" => {
                to.on.append(&mut rule.on);
                to.on.sort_unstable();
                to.on.dedup();
            }
            "tools" => to.tools.append(&mut rule.tools),
            "args" => to.args.append(&mut rule.args),
            "paths" => to.paths.append(&mut rule.paths),
            "agents" => to.agents.append(&mut rule.agents),
            "models" => to.models.append(&mut rule.models),
            "providers" => to.providers.append(&mut rule.providers),
            "tags" => to.tags.append(&mut rule.tags),
            "match.any" => to.condition.any.append(&mut rule.condition.any),
            "match.all" => to.condition.all.append(&mut rule.condition.all),
            "match.sequence" => to.condition.sequence.append(&mut rule.condition.sequence),
            "match.none" => to.condition.none.append(&mut rule.condition.none),
            "examples.match" => append(&mut to.examples, &mut rule.examples),
            "examples.no-match" => append(&mut to.examples, &mut rule.examples),
            "case" => to.cases.append(&mut rule.cases),
            _ => unreachable!("{path} is not a list of a rule"),
        }
    }

    /// The rule, whole: what `match.region` and `match.fold` leave to its patterns is filled in, and
    /// scopes of `[defaults]` that its channels do not have are gone.
    pub(in crate::pack) fn complete(&mut self) {
        let Condition {
            any,
            all,
            sequence,
            none,
            ..
        } = &mut self.rule.condition;
        for pattern in any.iter_mut().chain(all).chain(sequence).chain(none) {
            if pattern.region.is_empty() {
                pattern.region.clone_from(&self.region);
            }
            if pattern.fold.is_empty() {
                pattern.fold.clone_from(&self.fold);
            }
        }
        for key in ["tools", "args", "paths"] {
            let is_default = self
                .given(key)
                .is_none_or(|given| given.layer == Layer::Defaults);
            if is_default && !super::scope::is_reachable(key, &self.rule.on) {
                super::scope::entries(&mut self.rule, key).clear();
            }
        }
        let is_default = |given: &Given| given.layer == Layer::Defaults;
        if self.given("outcome").is_none_or(is_default)
            && !super::scope::is_reachable("outcome", &self.rule.on)
        {
            self.rule.outcome = None;
        }
        self.drop_defaults_of_other_actions();
    }

    /// What `[defaults]` say of an action is for the rules that have it; others take nothing of it.
    fn drop_defaults_of_other_actions(&mut self) {
        let action = self.rule.action;
        let is_default = |key: &str| {
            let given = self.given(key);
            given.is_some_and(|given| given.layer == Layer::Defaults)
        };
        let drops = |of: Action, key: &str| action != of && is_default(key);
        let [retry, partial, replacement, consult, header] = [
            drops(Action::Retry, "retry"),
            drops(Action::Retry, "partial"),
            drops(Action::Redact, "replacement"),
            drops(Action::Consult, "consult"),
            drops(Action::SetHeader, "header"),
        ];
        if retry {
            self.rule.retry = Retry::default();
        }
        if partial {
            self.rule.partial = Partial::default();
        }
        self.rule.replacement = self.rule.replacement.take().filter(|_| !replacement);
        self.rule.consult = self.rule.consult.take().filter(|_| !consult);
        self.rule.header = self.rule.header.take().filter(|_| !header);
    }
}

fn append(to: &mut Examples, from: &mut Examples) {
    to.matching.append(&mut from.matching);
    to.not_matching.append(&mut from.not_matching);
}

fn condition(to: &mut Condition, key: &str, from: &mut Condition) {
    match key {
        "any" => to.any = take(&mut from.any),
        "all" => to.all = take(&mut from.all),
        "sequence" => to.sequence = take(&mut from.sequence),
        "none" => to.none = take(&mut from.none),
        "first" => to.first = from.first,
        "last" => to.last = from.last,
        "line" => to.line = from.line,
        "count" => count(to).times = from.count.map_or(1, |count| count.times),
        "per" => count(to).per = from.count.map_or(Per::Part, |count| count.per),
        "leak" => to.leak = from.leak,
        _ if key.starts_with("within") => to.within = from.within,
        _ if key.starts_with("capture") => to.capture = from.capture.clone(),
        _ if key.starts_with("repetition") => to.repetition = from.repetition,
        _ if key.starts_with("limit") => to.limit = from.limit,
        _ if key.starts_with("script") => to.script = from.script.clone(),
        _ if key.starts_with("unknown-name") => to.unknown_name = from.unknown_name.clone(),
        _ if key.starts_with("doom-loop") => to.doom_loop = from.doom_loop,
        _ if key.starts_with("ast") => to.ast = from.ast.clone(),
        _ => unreachable!("`match.{key}` is not a key of a rule"),
    }
}

fn count(condition: &mut Condition) -> &mut Count {
    condition.count.get_or_insert(Count {
        times: 1,
        per: Per::Part,
    })
}

fn retry(to: &mut Retry, key: &str, from: &mut Retry) {
    match key {
        "max" => to.max = from.max,
        "model" => to.model = from.model.take(),
        "temperature" => to.temperature = from.temperature,
        "then" => to.then = from.then,
        _ => unreachable!("`retry.{key}` is not a key of a rule"),
    }
}

fn repeat(to: &mut Repeat, key: &str, from: Option<Repeat>) {
    let from = from.unwrap_or_default();
    match key {
        "cooldown-turns" => to.cooldown_turns = from.cooldown_turns,
        "per-turn" => to.per_turn = from.per_turn,
        "per-session" => to.per_session = from.per_session,
        _ => unreachable!("`repeat.{key}` is not a key of a rule"),
    }
}

fn consult(to: &mut Option<Consult>, key: &str, from: &mut Option<Consult>) {
    let Some(from) = from else {
        return;
    };
    let to = to.get_or_insert_with(|| Consult::new(""));
    match key {
        "prompt" => to.prompt = take(&mut from.prompt),
        "model" => to.model = from.model.take(),
        "timeout" => to.timeout_millis = from.timeout_millis,
        "tools" => to.tools = take(&mut from.tools),
        "block-on-failure" => to.blocks_on_failure = from.blocks_on_failure,
        _ => unreachable!("`consult.{key}` is not a key of a rule"),
    }
}

fn header(to: &mut Option<Header>, key: &str, from: &mut Option<Header>) {
    let Some(from) = from else {
        return;
    };
    let to = to.get_or_insert_with(|| Header {
        name: String::new(),
        value: String::new(),
    });
    match key {
        "name" => to.name = take(&mut from.name),
        "value" => to.value = take(&mut from.value),
        _ => unreachable!("`header.{key}` is not a key of a rule"),
    }
}

/// The strongest thing a rule can come to do, besides its action: what follows its retries.
pub(in crate::pack) fn then(rule: &Rule) -> Option<Action> {
    (rule.action == Action::Retry)
        .then_some(rule.retry.then)
        .flatten()
}
