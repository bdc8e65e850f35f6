//! Which detectors a rule asks for, and within which bounds. How they find is not known here.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Source;
use crate::detect::doom_loop::LoopLimits;
use crate::detect::limit::BoundLimits;
use crate::detect::repetition::RepetitionLimits;
use crate::detect::script::{LanguageSet, ScriptLimits, ScriptSet};
use crate::detect::turns::TurnLimits;
use crate::detect::unknown_name::{KnownNames, NameSet, name_set};
use crate::rule::{Condition, KnownList, Named, Script};

/// What a detector is to find.
#[derive(Debug)]
pub(crate) enum What {
    Repetition(RepetitionLimits),
    /// Lines and sentences that are nearly the same.
    Alike,
    /// Replies that are nearly the same.
    Turns(TurnLimits),
    Leak,
    Script(ScriptLimits),
    UnknownName(Arc<KnownNames>),
    UnknownFile(Arc<KnownNames>),
    /// Decided on the name of a call.
    UnknownTool(Arc<KnownNames>),
    Limit(BoundLimits),
    DoomLoop(LoopLimits),
}

impl What {
    /// What the condition's detector is to find; a rule may have more than one machine for it. Names come from `known`.
    pub(crate) fn of(
        condition: &Condition,
        known: impl FnOnce(&KnownList) -> Arc<KnownNames>,
    ) -> Vec<What> {
        let mut all = Vec::new();
        if let Some(repetition) = condition.repetition {
            let (least, most) = repetition.unit_chars;
            all.push(What::Repetition(RepetitionLimits {
                unit_chars: (least as usize, most as usize),
                times: repetition.times as usize,
                ..RepetitionLimits::default()
            }));
            all.extend(repetition.near.then_some(What::Alike));
            all.extend(repetition.turns.map(|turns| {
                What::Turns(TurnLimits {
                    turns: turns as usize,
                    ..TurnLimits::default()
                })
            }));
        }
        all.extend(condition.leak.then_some(What::Leak));
        let script = condition.script.as_ref();
        all.extend(script.map(|script| What::Script(script_limits(script))));
        if let Some(names) = &condition.unknown_name {
            let known = known(&names.known);
            let of = Named::ALL.into_iter().filter(|named| names.is_of(*named));
            all.extend(of.map(|named| match named {
                Named::Package => What::UnknownName(Arc::clone(&known)),
                Named::File => What::UnknownFile(Arc::clone(&known)),
                Named::Tool => What::UnknownTool(Arc::clone(&known)),
            }));
        }
        all.extend(condition.limit.map(|bound| {
            let time = |millis: Option<u64>| millis.map(Duration::from_millis);
            What::Limit(BoundLimits {
                bytes: bound.bytes,
                lines: bound.lines,
                deltas: bound.deltas,
                tokens: bound.tokens,
                time: time(bound.millis),
                first: None,
                stall: time(bound.stall_millis),
            })
        }));
        all.extend(condition.doom_loop.map(|doom| {
            let near_times = LoopLimits::default().near_times;
            What::DoomLoop(LoopLimits {
                times: doom.times,
                // What is nearly the same is never sooner a loop than what is the same.
                near_times: near_times.max(doom.times),
                differing: doom.differing as usize,
            })
        }));
        all
    }

    /// The view that it reads behind; none: it reads text as it is.
    pub(crate) fn source(&self, is_tool_input: bool) -> Option<Source> {
        match self {
            What::Limit(_) | What::DoomLoop(_) | What::Turns(_) | What::UnknownTool(_) => None,
            What::UnknownName(_) if is_tool_input => Some(Source::Edits),
            _ if is_tool_input => None,
            _ => Some(Source::Markdown),
        }
    }
}

fn script_limits(script: &Script) -> ScriptLimits {
    let named = script.expect.iter();
    let scripts = named.clone().filter_map(|name| ScriptSet::named(name));
    let languages = named.filter_map(|name| LanguageSet::named(name));
    let languages = languages.fold(LanguageSet::default(), |all, one| all | one);
    let mut limits = ScriptLimits {
        scripts: scripts.fold(ScriptSet::default(), |all, one| all | one),
        languages,
        ..ScriptLimits::default()
    };
    if languages != LanguageSet::default() {
        // The languages that are told apart are written in it.
        limits.scripts = limits.scripts | ScriptSet::LATIN;
    }
    limits
}

/// The sets of names that the rules of a pack share: one for each list, however many rules have it.
#[derive(Debug, Default)]
pub(crate) struct NameSets {
    /// By the address of the list, which the rules keep alive.
    by_address: HashMap<*const String, Arc<NameSet>>,
    by_content: HashMap<Arc<[String]>, Arc<NameSet>>,
}

impl NameSets {
    pub(crate) fn of(&mut self, known: &KnownList) -> Arc<KnownNames> {
        let sets = known.lists().iter().map(|list| self.set(list));
        Arc::new(KnownNames::shared(sets.collect()))
    }

    fn set(&mut self, list: &Arc<[String]>) -> Arc<NameSet> {
        let NameSets {
            by_address,
            by_content,
        } = self;
        let of_content = || {
            let shared = by_content.entry(Arc::clone(list));
            let set = shared.or_insert_with(|| Arc::new(name_set(list.iter().map(String::as_str))));
            Arc::clone(set)
        };
        Arc::clone(by_address.entry(list.as_ptr()).or_insert_with(of_content))
    }
}
