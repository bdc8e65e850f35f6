//! The detectors that read haystacks: repetition, leaked control tokens, scripts, unknown names and files.

use std::sync::Arc;

use super::admit::{Admission, HaystackScope};
use super::tail_window::TailWindow;
use crate::program::{DetectorRule, DetectorSpec, ViewSource};
use crate::rule::Channel;
use crate::verdict::RuleId;
use ttsr_views::chunk::{Chunk, Language, RegionSet, Tag};
use ttsr_views::detect::control_tokens::{ControlTokenDetector, ControlTokenLimits};
use ttsr_views::detect::near_duplicate::{NearDuplicateDetector, NearDuplicateLimits};
use ttsr_views::detect::repetition::RepetitionDetector;
use ttsr_views::detect::script::ScriptDetector;
use ttsr_views::detect::unknown_file::UnknownFileDetector;
use ttsr_views::detect::unknown_name::{KnownNames, UnknownNameDetector};
use ttsr_views::detect::{Detection, Detector};

/// A detector that reads the haystacks of a part for one rule.
#[derive(Debug)]
pub(super) struct DetectorReader {
    rule: RuleId,
    /// True if text is held back until the detector has decided.
    pub(super) holds: bool,
    /// The view whose output the detector reads; `None` if it reads values unchanged.
    pub(super) source: Option<ViewSource>,
    machine: DetectorMachine,
    tail: TailWindow,
    /// True if the detector reads the region that the text is in.
    reads: bool,
    /// True if nothing was read yet. The names that the host knows are taken over with the first chunk.
    is_fresh: bool,
    /// The language of the region that the text is in.
    language: Option<Language>,
}

#[derive(Debug)]
enum DetectorMachine {
    Repetition(Box<RepetitionDetector>),
    NearDuplicate(Box<NearDuplicateDetector>),
    Leak(Box<ControlTokenDetector>),
    Script(Box<ScriptDetector>),
    Names(Arc<KnownNames>, Box<UnknownNameDetector>),
    Files(Arc<KnownNames>, Box<UnknownFileDetector>),
}

impl DetectorReader {
    /// Returns `None` for a detector that does not read haystacks.
    pub(super) fn new(detector: &DetectorRule, channel: Channel) -> Option<DetectorReader> {
        let machine = match &detector.spec {
            DetectorSpec::Repetition(limits) => {
                DetectorMachine::Repetition(Box::new(RepetitionDetector::new(*limits)))
            }
            DetectorSpec::NearDuplicate => DetectorMachine::NearDuplicate(Box::new(
                NearDuplicateDetector::new(NearDuplicateLimits::default()),
            )),
            DetectorSpec::Leak => DetectorMachine::Leak(Box::new(ControlTokenDetector::new(
                ControlTokenLimits::default(),
            ))),
            DetectorSpec::Script(limits) => {
                DetectorMachine::Script(Box::new(ScriptDetector::new(*limits)))
            }
            DetectorSpec::UnknownName(known) => {
                let names = UnknownNameDetector::new(Arc::clone(known), None);
                DetectorMachine::Names(Arc::clone(known), Box::new(names))
            }
            // In tool input there are no code spans.
            DetectorSpec::UnknownFile(_) if channel == Channel::ToolInput => return None,
            DetectorSpec::UnknownFile(known) => {
                let files = UnknownFileDetector::new(Arc::clone(known), None);
                DetectorMachine::Files(Arc::clone(known), Box::new(files))
            }
            DetectorSpec::Limit(_)
            | DetectorSpec::DoomLoop(_)
            | DetectorSpec::Turns(_)
            | DetectorSpec::UnknownTool(_) => return None,
        };
        let mut reader = DetectorReader {
            rule: detector.rule,
            holds: detector.holds,
            source: detector.spec.source(channel),
            machine,
            tail: TailWindow::default(),
            reads: true,
            is_fresh: true,
            language: None,
        };
        if reader.source.is_none() {
            // The values of a tool input may be code.
            reader.set_code(true);
        }
        Some(reader)
    }

    /// Returns the offset of the first byte that may be part of a finding, if the detector knows one.
    pub(super) fn undecided_from(&self) -> Option<u64> {
        match &self.machine {
            DetectorMachine::Leak(leak) => leak.pending_from(),
            DetectorMachine::Names(_, names) => names.pending_from(),
            DetectorMachine::Files(_, files) => files.pending_from(),
            // The check refuses `hold` and `redact` for rules with these detectors, which find no range of text.
            DetectorMachine::Repetition(_)
            | DetectorMachine::NearDuplicate(_)
            | DetectorMachine::Script(_) => None,
        }
    }

    /// Returns true if the detector also reads object keys. Detectors that compare values with each other or classify
    /// the language of a text do not, because every call repeats the keys of its schema.
    pub(super) fn reads_keys(&self) -> bool {
        matches!(self.machine, DetectorMachine::Leak(_))
    }

    /// Returns a number of bytes within which the detector cannot report, whatever they are. 0 if it does not tell.
    pub(super) fn bytes_until_report(&self) -> usize {
        if !self.reads {
            return usize::MAX;
        }
        match &self.machine {
            DetectorMachine::Repetition(repetition) => repetition.bytes_until_report(),
            DetectorMachine::NearDuplicate(_)
            | DetectorMachine::Leak(_)
            | DetectorMachine::Script(_)
            | DetectorMachine::Names(..)
            | DetectorMachine::Files(..) => 0,
        }
    }

    /// Enters a region of the text.
    pub(super) fn enter_region(
        &mut self,
        tag: Tag,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let is_in = |regions: RegionSet| tag.regions.contains(regions);
        let is_code = is_in(RegionSet::CODE) || is_in(RegionSet::INLINE_CODE);
        self.set_code(is_code);
        match &mut self.machine {
            DetectorMachine::Script(_) => self.reads = is_in(RegionSet::PROSE),
            DetectorMachine::Names(..) => {
                let reads = is_in(RegionSet::CODE) || is_in(RegionSet::ADDED);
                if reads != self.reads || tag.language != self.language {
                    self.finish(admission, scope, decided);
                    (self.reads, self.language) = (reads, tag.language);
                    self.reset(admission);
                }
            }
            DetectorMachine::Files(..) => {
                let reads = is_in(RegionSet::INLINE_CODE);
                if reads != self.reads {
                    self.finish(admission, scope, decided);
                    self.reads = reads;
                    self.reset(admission);
                }
            }
            DetectorMachine::Repetition(_)
            | DetectorMachine::NearDuplicate(_)
            | DetectorMachine::Leak(_) => {}
        }
    }

    /// Reads the next chunk.
    pub(super) fn push(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        chunk: Chunk<'_>,
    ) {
        if std::mem::take(&mut self.is_fresh) {
            self.reset(admission);
        }
        if self.reads {
            let DetectorReader {
                rule,
                machine,
                tail,
                ..
            } = self;
            tail.begin(&chunk);
            let mut admit = |found| {
                let context = tail.context(found, chunk.bytes);
                admission.admit_finding(*rule, scope, found, Some(context));
            };
            match machine {
                // PERF: the detector of the default packs; the call through the trait is a tenth of its cost.
                DetectorMachine::Repetition(cycle) => cycle.push(chunk, &mut admit),
                _ => machine.detector().push(chunk, &mut admit),
            }
            tail.end(&chunk);
        }
    }

    /// Ends a block of code or a value. A detector that reads a whole text continues after it.
    pub(super) fn cut(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        let is_per_block = matches!(
            self.machine,
            DetectorMachine::Names(..) | DetectorMachine::Files(..)
        );
        if self.source.is_none() || is_per_block {
            self.finish(admission, scope, decided);
            self.reset(admission);
            self.tail.clear();
        }
    }

    /// Ends the text.
    pub(super) fn finish(
        &mut self,
        admission: &mut Admission<'_>,
        scope: HaystackScope<'_>,
        decided: u64,
    ) {
        if self.reads {
            let DetectorReader {
                rule,
                machine,
                tail,
                ..
            } = self;
            machine.detector().finish(decided, &mut |found: Detection| {
                let context = tail.context(found, &[]);
                admission.admit_finding(*rule, scope, found, Some(context));
            });
        }
    }

    /// Drops what does not carry over to the next block or value: the names that a block declares, and a sequence of
    /// control tokens. Repetition is detected across values.
    fn reset(&mut self, admission: &Admission<'_>) {
        let host_names = admission.state.known.clone();
        match &mut self.machine {
            DetectorMachine::Names(known, names) => {
                let known = Arc::clone(known);
                **names = UnknownNameDetector::new(known, self.language).with_known(host_names);
            }
            DetectorMachine::Files(known, files) => {
                **files = UnknownFileDetector::new(Arc::clone(known), host_names);
            }
            DetectorMachine::Leak(leak) => leak.renew(),
            DetectorMachine::Repetition(_)
            | DetectorMachine::NearDuplicate(_)
            | DetectorMachine::Script(_) => {}
        }
    }

    /// Sets whether the text is code.
    fn set_code(&mut self, is_code: bool) {
        match &mut self.machine {
            DetectorMachine::Repetition(cycle) => cycle.set_code(is_code),
            DetectorMachine::NearDuplicate(alike) => alike.set_code(is_code),
            DetectorMachine::Leak(leak) => leak.set_code(is_code),
            DetectorMachine::Script(_)
            | DetectorMachine::Names(..)
            | DetectorMachine::Files(..) => {}
        }
    }
}

impl DetectorMachine {
    fn detector(&mut self) -> &mut dyn Detector {
        match self {
            DetectorMachine::Repetition(cycle) => &mut **cycle,
            DetectorMachine::NearDuplicate(alike) => &mut **alike,
            DetectorMachine::Leak(leak) => &mut **leak,
            DetectorMachine::Script(script) => &mut **script,
            DetectorMachine::Names(_, names) => &mut **names,
            DetectorMachine::Files(_, files) => &mut **files,
        }
    }
}
