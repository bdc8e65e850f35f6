//! What detectors find in a part, for rules that no pattern says.

use std::sync::Arc;

use super::judge::Judge;
use super::trail::Trail;
use crate::detect::control_tokens::{ControlTokenDetector, ControlTokenLimits};
use crate::detect::near_duplicate::{NearDuplicateDetector, NearDuplicateLimits};
use crate::detect::repetition::RepetitionDetector;
use crate::detect::script::ScriptDetector;
use crate::detect::unknown_file::UnknownFileDetector;
use crate::detect::unknown_name::{KnownNames, UnknownNameDetector};
use crate::detect::{Detection, Detector};
use crate::pack::{Source, Watched, What};
use crate::verdict::RuleId;
use crate::view::chunk::{Chunk, Language, RegionSet, Tag};
use crate::view::json::ArgPath;

/// A detector that reads for a rule.
#[derive(Debug)]
pub(super) struct Watch {
    rule: RuleId,
    /// Whether text waits for it.
    pub(super) holds: bool,
    /// The view that it reads behind; none: values as they are.
    pub(super) source: Option<Source>,
    machine: Machine,
    trail: Trail,
    /// Whether what comes now is read.
    reads: bool,
    /// Whether nothing was read yet: the names that the host knows are not known here before.
    is_fresh: bool,
    /// The language of what comes now.
    language: Option<Language>,
}

#[derive(Debug)]
enum Machine {
    Repetition(Box<RepetitionDetector>),
    Alike(Box<NearDuplicateDetector>),
    Leak(Box<ControlTokenDetector>),
    Script(Box<ScriptDetector>),
    Names(Arc<KnownNames>, Box<UnknownNameDetector>),
    Files(Arc<KnownNames>, Box<UnknownFileDetector>),
}

impl Watch {
    /// None for what is not read from haystacks.
    pub(super) fn new(watched: &Watched, is_tool_input: bool) -> Option<Watch> {
        let machine = match &watched.what {
            What::Repetition(limits) => {
                Machine::Repetition(Box::new(RepetitionDetector::new(*limits)))
            }
            What::Alike => Machine::Alike(Box::new(NearDuplicateDetector::new(
                NearDuplicateLimits::default(),
            ))),
            What::Leak => Machine::Leak(Box::new(ControlTokenDetector::new(
                ControlTokenLimits::default(),
            ))),
            What::Script(limits) => Machine::Script(Box::new(ScriptDetector::new(*limits))),
            What::UnknownName(known) => {
                let names = UnknownNameDetector::new(Arc::clone(known), None);
                Machine::Names(Arc::clone(known), Box::new(names))
            }
            // In tool input there are no code spans.
            What::UnknownFile(_) if is_tool_input => return None,
            What::UnknownFile(known) => {
                let files = UnknownFileDetector::new(Arc::clone(known), None);
                Machine::Files(Arc::clone(known), Box::new(files))
            }
            What::Limit(_) | What::DoomLoop(_) | What::Turns(_) | What::UnknownTool(_) => {
                return None;
            }
        };
        let mut watch = Watch {
            rule: watched.rule,
            holds: watched.holds,
            source: watched.what.source(is_tool_input),
            machine,
            trail: Trail::default(),
            reads: true,
            is_fresh: true,
            language: None,
        };
        if watch.source.is_none() {
            // A value of a tool input: code, as far as anyone knows.
            watch.code(true);
        }
        Some(watch)
    }

    /// Where the text begins that may yet be what it looks for, if it holds such text.
    pub(super) fn undecided_from(&self) -> Option<u64> {
        match &self.machine {
            Machine::Leak(leak) => leak.pending_from(),
            Machine::Names(_, names) => names.pending_from(),
            Machine::Files(_, files) => files.pending_from(),
            // Rules that look for these were refused `hold` and `redact`: there is no text that could be held.
            Machine::Repetition(_) | Machine::Alike(_) | Machine::Script(_) => None,
        }
    }

    /// Whether object keys are read too. Detectors that compare one value with the next, or tell what a text is
    /// written in, do not: every call repeats the keys of its schema.
    pub(super) fn reads_keys(&self) -> bool {
        matches!(self.machine, Machine::Leak(_))
    }

    /// What comes from here on is of that kind.
    pub(super) fn turn(&mut self, tag: Tag, judge: &mut Judge<'_>, decided: u64) {
        let is_in = |regions: RegionSet| tag.regions.contains(regions);
        let is_code = is_in(RegionSet::CODE) || is_in(RegionSet::INLINE_CODE);
        self.code(is_code);
        match &mut self.machine {
            Machine::Script(_) => self.reads = is_in(RegionSet::PROSE),
            Machine::Names(..) => {
                let reads = is_in(RegionSet::CODE) || is_in(RegionSet::ADDED);
                if reads != self.reads || tag.language != self.language {
                    self.finish(judge, None, decided);
                    (self.reads, self.language) = (reads, tag.language);
                    self.renew(judge);
                }
            }
            Machine::Files(..) => {
                let reads = is_in(RegionSet::INLINE_CODE);
                if reads != self.reads {
                    self.finish(judge, None, decided);
                    self.reads = reads;
                    self.renew(judge);
                }
            }
            Machine::Repetition(_) | Machine::Alike(_) | Machine::Leak(_) => {}
        }
    }

    pub(super) fn take(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: Chunk<'_>) {
        if std::mem::take(&mut self.is_fresh) {
            self.renew(judge);
        }
        if self.reads {
            let Watch {
                rule,
                machine,
                trail,
                ..
            } = self;
            trail.begin(&piece);
            machine.detector().push(piece, &mut |found| {
                let near = trail.near(found, piece.bytes);
                judge.found_by_detector(*rule, arg, found, Some(near));
            });
            trail.end(&piece);
        }
    }

    /// A stretch of code ends, or a value. What reads a whole text reads on behind it.
    pub(super) fn cut(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, decided: u64) {
        let is_of_stretch = matches!(self.machine, Machine::Names(..) | Machine::Files(..));
        if self.source.is_none() || is_of_stretch {
            self.finish(judge, arg, decided);
            self.renew(judge);
            self.trail.clear();
        }
    }

    /// The text ends.
    pub(super) fn finish(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, decided: u64) {
        if self.reads {
            let Watch {
                rule,
                machine,
                trail,
                ..
            } = self;
            machine.detector().finish(decided, &mut |found: Detection| {
                let near = trail.near(found, &[]);
                judge.found_by_detector(*rule, arg, found, Some(near));
            });
        }
    }

    /// What was declared in one stretch of code means nothing in another, and control tokens of two values are not in a
    /// row. That the same is said again and again is seen across values, too.
    fn renew(&mut self, judge: &Judge<'_>) {
        let also_known = judge.found.known.clone();
        match &mut self.machine {
            Machine::Names(known, names) => {
                let known = Arc::clone(known);
                **names = UnknownNameDetector::new(known, self.language).also_known(also_known);
            }
            Machine::Files(known, files) => {
                **files = UnknownFileDetector::new(Arc::clone(known), also_known);
            }
            Machine::Leak(leak) => leak.renew(),
            Machine::Repetition(_) | Machine::Alike(_) | Machine::Script(_) => {}
        }
    }

    fn code(&mut self, is_code: bool) {
        match &mut self.machine {
            Machine::Repetition(cycle) => cycle.set_code(is_code),
            Machine::Alike(alike) => alike.set_code(is_code),
            Machine::Leak(leak) => leak.set_code(is_code),
            Machine::Script(_) | Machine::Names(..) | Machine::Files(..) => {}
        }
    }
}

impl Machine {
    fn detector(&mut self) -> &mut dyn Detector {
        match self {
            Machine::Repetition(cycle) => &mut **cycle,
            Machine::Alike(alike) => &mut **alike,
            Machine::Leak(leak) => &mut **leak,
            Machine::Script(script) => &mut **script,
            Machine::Names(_, names) => &mut **names,
            Machine::Files(_, files) => &mut **files,
        }
    }
}
