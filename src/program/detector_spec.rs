//! Detector specifications: the detectors that a condition asks for, with their parameters.

use std::sync::Arc;
use std::time::Duration;

use super::ViewSource;
use crate::rule::{Channel, Condition, KnownList, Named, Script};
use crate::verdict::RuleId;
use ttsr_views::detect::doom_loop::LoopLimits;
use ttsr_views::detect::limit::BoundLimits;
use ttsr_views::detect::repetition::RepetitionLimits;
use ttsr_views::detect::script::{LanguageSet, ScriptLimits, ScriptSet};
use ttsr_views::detect::turns::TurnLimits;
use ttsr_views::detect::unknown_name::KnownNames;

/// A rule that a detector decides.
#[derive(Debug)]
pub(crate) struct DetectorRule {
    pub(crate) rule: RuleId,
    pub(crate) spec: DetectorSpec,
    /// True if text is held back until the detector has decided.
    pub(crate) holds: bool,
}

/// A detector and its parameters.
#[derive(Debug)]
pub(crate) enum DetectorSpec {
    /// Text that repeats exactly.
    Repetition(RepetitionLimits),
    /// Lines and sentences that are nearly the same.
    NearDuplicate,
    /// Replies that are nearly the same.
    Turns(TurnLimits),
    /// Control tokens of a chat template.
    Leak,
    Script(ScriptLimits),
    UnknownName(Arc<KnownNames>),
    UnknownFile(Arc<KnownNames>),
    /// Decided on the name of a tool call.
    UnknownTool(Arc<KnownNames>),
    Limit(BoundLimits),
    DoomLoop(LoopLimits),
}

impl DetectorSpec {
    /// Returns the detectors of a condition, which may need several for one key. `names` makes the set of a list.
    pub(crate) fn from_condition(
        condition: &Condition,
        names: impl FnOnce(&KnownList) -> Arc<KnownNames>,
    ) -> Vec<DetectorSpec> {
        let mut specs = Vec::new();
        if let Some(repetition) = condition.repetition {
            let (least, most) = repetition.unit_chars;
            specs.push(DetectorSpec::Repetition(RepetitionLimits {
                unit_chars: (least as usize, most as usize),
                times: repetition.times as usize,
                ..RepetitionLimits::default()
            }));
            specs.extend(repetition.near.then_some(DetectorSpec::NearDuplicate));
            specs.extend(repetition.turns.map(|turns| {
                DetectorSpec::Turns(TurnLimits {
                    turns: turns as usize,
                    ..TurnLimits::default()
                })
            }));
        }
        specs.extend(condition.leak.then_some(DetectorSpec::Leak));
        let script = condition.script.as_ref();
        specs.extend(script.map(|script| DetectorSpec::Script(script_limits(script))));
        if let Some(unknown) = &condition.unknown_name {
            let known = names(&unknown.known);
            let kinds = Named::ALL.into_iter().filter(|kind| unknown.checks(*kind));
            specs.extend(kinds.map(|kind| match kind {
                Named::Package => DetectorSpec::UnknownName(Arc::clone(&known)),
                Named::File => DetectorSpec::UnknownFile(Arc::clone(&known)),
                Named::Tool => DetectorSpec::UnknownTool(Arc::clone(&known)),
            }));
        }
        specs.extend(condition.limit.map(|bound| {
            let time = |millis: Option<u64>| millis.map(Duration::from_millis);
            DetectorSpec::Limit(BoundLimits {
                bytes: bound.bytes,
                lines: bound.lines,
                deltas: bound.deltas,
                tokens: bound.tokens,
                time: time(bound.millis),
                first: None,
                stall: time(bound.stall_millis),
            })
        }));
        specs.extend(condition.doom_loop.map(|doom| {
            let near_times = LoopLimits::default().near_times;
            DetectorSpec::DoomLoop(LoopLimits {
                times: doom.times,
                // Calls that are nearly the same must not be a loop sooner than calls that are the same.
                near_times: near_times.max(doom.times),
                differing: doom.differing as usize,
            })
        }));
        specs
    }

    /// Returns the view whose output the detector reads; `None` if it reads the unchanged text.
    pub(crate) fn source(&self, channel: Channel) -> Option<ViewSource> {
        let is_tool_input = channel == Channel::ToolInput;
        match self {
            DetectorSpec::Limit(_)
            | DetectorSpec::DoomLoop(_)
            | DetectorSpec::Turns(_)
            | DetectorSpec::UnknownTool(_) => None,
            DetectorSpec::UnknownName(_) if is_tool_input => Some(ViewSource::Edits),
            _ if is_tool_input => None,
            _ => Some(ViewSource::Markdown),
        }
    }
}

fn script_limits(script: &Script) -> ScriptLimits {
    let named = script.expect.iter();
    let scripts = named.clone().filter_map(|name| ScriptSet::from_name(name));
    let languages = named.filter_map(|name| LanguageSet::from_code(name));
    let languages = languages.fold(LanguageSet::default(), |all, one| all | one);
    let mut limits = ScriptLimits {
        scripts: scripts.fold(ScriptSet::default(), |all, one| all | one),
        languages,
        ..ScriptLimits::default()
    };
    if languages != LanguageSet::default() {
        // All languages that the detector distinguishes are written in Latin script.
        limits.scripts = limits.scripts | ScriptSet::LATIN;
    }
    limits
}
