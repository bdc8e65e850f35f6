//! What detectors find in a part, for rules that no pattern says.

use std::sync::Arc;

use super::judge::Judge;
use super::trail::Trail;
use crate::detect::alike::{Alike, AlikeLimits};
use crate::detect::cycle::Cycle;
use crate::detect::leak::{Leak, LeakLimits};
use crate::detect::script::Script;
use crate::detect::unknown_file::UnknownFile;
use crate::detect::unknown_name::{KnownNames, UnknownName};
use crate::detect::{Detector, Found};
use crate::program::{DetectorRule, DetectorSpec, ViewSource};
use crate::verdict::RuleId;
use crate::view::json::ArgPath;
use crate::view::piece::{Language, Piece, Regions, Tag};

/// A detector that reads for a rule.
#[derive(Debug)]
pub(super) struct Watch {
    rule: RuleId,
    /// Whether text waits for it.
    pub(super) holds: bool,
    /// The view that it reads behind; none: values as they are.
    pub(super) source: Option<ViewSource>,
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
    Repetition(Box<Cycle>),
    Alike(Box<Alike>),
    Leak(Box<Leak>),
    Script(Box<Script>),
    Names(Arc<KnownNames>, Box<UnknownName>),
    Files(Arc<KnownNames>, Box<UnknownFile>),
}

impl Watch {
    /// None for what is not read from haystacks.
    pub(super) fn new(watched: &DetectorRule, is_tool_input: bool) -> Option<Watch> {
        let machine = match &watched.spec {
            DetectorSpec::Repetition(limits) => Machine::Repetition(Box::new(Cycle::new(*limits))),
            DetectorSpec::NearDuplicate => {
                Machine::Alike(Box::new(Alike::new(AlikeLimits::default())))
            }
            DetectorSpec::Leak => Machine::Leak(Box::new(Leak::new(LeakLimits::default()))),
            DetectorSpec::Script(limits) => Machine::Script(Box::new(Script::new(*limits))),
            DetectorSpec::UnknownName(known) => {
                let names = UnknownName::new(Arc::clone(known), None);
                Machine::Names(Arc::clone(known), Box::new(names))
            }
            // In tool input there are no code spans.
            DetectorSpec::UnknownFile(_) if is_tool_input => return None,
            DetectorSpec::UnknownFile(known) => {
                let files = UnknownFile::new(Arc::clone(known), None);
                Machine::Files(Arc::clone(known), Box::new(files))
            }
            DetectorSpec::Limit(_)
            | DetectorSpec::DoomLoop(_)
            | DetectorSpec::Turns(_)
            | DetectorSpec::UnknownTool(_) => {
                return None;
            }
        };
        let mut watch = Watch {
            rule: watched.rule,
            holds: watched.holds,
            source: watched.spec.source(is_tool_input),
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
        let is_in = |regions: Regions| tag.regions.contains(regions);
        let is_code = is_in(Regions::CODE) || is_in(Regions::INLINE_CODE);
        self.code(is_code);
        match &mut self.machine {
            Machine::Script(_) => self.reads = is_in(Regions::PROSE),
            Machine::Names(..) => {
                let reads = is_in(Regions::CODE) || is_in(Regions::ADDED);
                if reads != self.reads || tag.language != self.language {
                    self.finish(judge, None, decided);
                    (self.reads, self.language) = (reads, tag.language);
                    self.renew(judge);
                }
            }
            Machine::Files(..) => {
                let reads = is_in(Regions::INLINE_CODE);
                if reads != self.reads {
                    self.finish(judge, None, decided);
                    self.reads = reads;
                    self.renew(judge);
                }
            }
            Machine::Repetition(_) | Machine::Alike(_) | Machine::Leak(_) => {}
        }
    }

    pub(super) fn take(&mut self, judge: &mut Judge<'_>, arg: Option<&ArgPath>, piece: Piece<'_>) {
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
            machine.detector().finish(decided, &mut |found: Found| {
                let near = trail.near(found, &[]);
                judge.found_by_detector(*rule, arg, found, Some(near));
            });
        }
    }

    /// What was declared in one stretch of code means nothing in another, and control tokens of two values are not in a
    /// row. That the same is said again and again is seen across values, too.
    fn renew(&mut self, judge: &Judge<'_>) {
        let besides = judge.found.known.clone();
        match &mut self.machine {
            Machine::Names(known, names) => {
                let known = Arc::clone(known);
                **names = UnknownName::new(known, self.language).besides(besides);
            }
            Machine::Files(known, files) => {
                **files = UnknownFile::new(Arc::clone(known), besides);
            }
            Machine::Leak(leak) => leak.renew(),
            Machine::Repetition(_) | Machine::Alike(_) | Machine::Script(_) => {}
        }
    }

    fn code(&mut self, is_code: bool) {
        match &mut self.machine {
            Machine::Repetition(cycle) => cycle.code(is_code),
            Machine::Alike(alike) => alike.code(is_code),
            Machine::Leak(leak) => leak.code(is_code),
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
