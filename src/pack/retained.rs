//! How much text of a reply a rule makes a stream keep, at most.
//!
//! Sums the limits of what reads for a rule: the window for excerpts, stretches of whole matches, matches that
//! wait for what may take them back, and what views and detectors hold. States, places and hashes are no text.

use std::sync::Arc;

use super::compile::{Compound, Sight, Source, What};
use crate::detect::control_tokens;
use crate::detect::repetition;
use crate::detect::{unknown_file, unknown_name};
use crate::limits::Limits;
use crate::rule::{Channel, Rule};
use crate::stream::kept;
use crate::view::edit::EditLimits;
use crate::view::fence;
use crate::view::fold;
use crate::view::shell::ShellLimits;

impl Rule {
    /// Most bytes of the text of one part that a stream keeps for this rule where it is alone: to decide it, and
    /// to quote what it found. Text is counted, not the memory that holds it; what a host holds back for a rule
    /// with [`hold`](Rule::hold) is the host's.
    ///
    /// # Example: one match is quoted; an exception makes matches wait
    /// ```
    /// use ttsr::{Channel, Limits, Pattern, Rule};
    /// let limits = Limits::default();
    /// let mut rule = Rule::new("a/b", vec![Pattern::literal("x")]);
    /// rule.on = vec![Channel::Text];
    /// let plain = rule.retained_bytes(&limits);
    /// assert!(plain < 2048);
    /// rule.condition.none = vec![Pattern::literal("y")];
    /// assert!(rule.retained_bytes(&limits) >= plain + limits.stretch_bytes as u64);
    /// ```
    #[must_use]
    pub fn retained_bytes(&self, limits: &Limits) -> u64 {
        let of_channel = |channel: &Channel| self.retained_on(*channel, limits);
        let most = self.on.iter().map(of_channel).max().unwrap_or_default();
        most as u64
    }

    fn retained_on(&self, channel: Channel, limits: &Limits) -> usize {
        let mut sights: Vec<Sight> = Vec::new();
        for pattern in self.condition.patterns() {
            let sight = Sight::of(pattern, channel);
            if !sights.contains(&sight) {
                sights.push(sight);
            }
        }
        let what = What::of(&self.condition, |_| Arc::default());
        let is_tool_input = channel == Channel::ToolInput;
        let mut sources: Vec<Source> = sights.iter().filter_map(|sight| sight.source).collect();
        let of_detectors = what.iter();
        sources.extend(of_detectors.filter_map(|what| what.source(is_tool_input)));
        sources.extend(
            self.condition
                .ast
                .as_ref()
                .map(|_| Source::of_code(is_tool_input)),
        );
        sources.sort_unstable();
        sources.dedup();
        let folded = sights.iter().filter(|sight| !sight.folds.is_empty());
        let views = sources.into_iter().map(of_view).sum::<usize>() + folded.count() * FOLD;
        let input = match is_tool_input {
            // The name of the file, once as it arrives and once as it is.
            true => 2 * limits.path_bytes,
            false => 0,
        };
        let windows = |what: &What| match what {
            // One of the part, one of the argument that is being read.
            What::Limit(_) if is_tool_input => 2,
            _ => 1,
        };
        let detectors = what
            .iter()
            .map(|what| of_detector(what) + windows(what) * kept::WINDOW);
        sights.len() * kept::WINDOW
            + self.whole(sights.len(), limits)
            + views
            + input
            + detectors.sum::<usize>()
            + self.shapes(limits)
            + self.quotes()
    }

    /// What reads whole matches keeps, for each sight.
    fn whole(&self, sights: usize, limits: &Limits) -> usize {
        match Compound::of(self, false) {
            Some(_) => sights * (kept::WINDOW + limits.stretch_bytes),
            None => 0,
        }
    }

    /// Code that is parsed, and code that waits for the name of its file.
    fn shapes(&self, limits: &Limits) -> usize {
        match self.condition.ast {
            Some(_) => 2 * limits.ast_bytes,
            None => 0,
        }
    }

    /// Matches that were found and are not told yet, or just were.
    fn quotes(&self) -> usize {
        let waits = Compound::of(self, false).is_some_and(|compound| {
            compound.has_none || compound.last.is_some() || compound.wants_all()
        });
        let quotes = if waits { 1 + kept::WAITING } else { 2 };
        quotes * kept::EXCERPT
    }
}

/// A character that is folded stands for at most four bytes.
const FOLD: usize = fold::WAITING * 4;

/// What a view holds back at most.
fn of_view(source: Source) -> usize {
    match source {
        Source::Markdown => 3 * fence::HELD,
        // Old text, new text, and a line of each.
        Source::Edits => {
            let limits = EditLimits::default();
            4 * limits.waiting + limits.path_bytes
        }
        // Nested commands, a script, and a word for each level.
        Source::Shell => {
            let limits = ShellLimits::default();
            2 * limits.waiting + limits.depth * 1024
        }
    }
}

fn of_detector(what: &What) -> usize {
    match what {
        What::Repetition(_) => repetition::WINDOW,
        What::Leak => control_tokens::TOKEN,
        What::UnknownName(_) => (1 + unknown_name::OWN) * unknown_name::LINE,
        What::UnknownFile(_) => unknown_file::SPAN,
        What::Alike
        | What::Turns(_)
        | What::Script(_)
        | What::Limit(_)
        | What::DoomLoop(_)
        | What::UnknownTool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Ast, Condition, Named, Pattern, Region, Repetition, UnknownName};

    /// What a rule with that condition keeps of a part of that channel.
    fn kept_on(channel: Channel, set: impl Fn(&mut Condition)) -> usize {
        let mut rule = Rule::new("a/b", Vec::new());
        rule.on = vec![channel];
        set(&mut rule.condition);
        usize::try_from(rule.retained_bytes(&Limits::default())).expect("it is a usize")
    }

    #[test]
    fn each_thing_that_reads_for_a_rule_adds_what_it_holds() {
        let limits = Limits::default();
        let (text, call) = (Channel::Text, Channel::ToolInput);
        let quotes = 2 * kept::EXCERPT;
        let paths = 2 * limits.path_bytes;
        let fence = 3 * fence::HELD;
        let pattern = |region: &[Region]| {
            let mut pattern = Pattern::literal("x");
            pattern.region = region.to_vec();
            vec![pattern]
        };
        let plain = kept::WINDOW + quotes;
        assert_eq!(kept_on(text, |it| it.any = pattern(&[])), plain);
        assert_eq!(kept_on(call, |it| it.any = pattern(&[])), plain + paths);
        let prose = kept_on(text, |it| it.any = pattern(&[Region::Prose]));
        assert_eq!(prose, plain + fence);
        // The same view once, however many patterns see it.
        let two = kept_on(text, |it| {
            it.any = [pattern(&[Region::Prose]), pattern(&[Region::Prose])].concat();
        });
        assert_eq!(two, prose);

        let leak = kept_on(text, |it| it.leak = true);
        assert_eq!(leak, kept::WINDOW + control_tokens::TOKEN + fence + quotes);
        let repetition = |it: &mut Condition| {
            it.repetition = Some(Repetition {
                unit_chars: (20, 400),
                times: 4,
                near: false,
                turns: None,
            });
        };
        let loops = kept_on(text, repetition);
        assert_eq!(loops, kept::WINDOW + repetition::WINDOW + fence + quotes);
        // Of a call no Markdown is read.
        let loops = kept_on(call, repetition);
        assert_eq!(loops, kept::WINDOW + repetition::WINDOW + paths + quotes);

        let named = |of: Named| {
            let of = vec![of];
            kept_on(text, |it| {
                it.unknown_name = Some(UnknownName {
                    of: of.clone(),
                    ..UnknownName::default()
                });
            })
        };
        let [package, file] = [named(Named::Package), named(Named::File)];
        let lines = (1 + unknown_name::OWN) * unknown_name::LINE;
        assert_eq!(package, kept::WINDOW + lines + fence + quotes);
        assert_eq!(file, kept::WINDOW + unknown_file::SPAN + fence + quotes);

        let ast = kept_on(text, |it| it.ast = Some(Ast::default()));
        assert_eq!(ast, 2 * limits.ast_bytes + fence + quotes);
    }
}
