//! The memory bound of a rule and of a pack: the bytes of a reply that a stream retains for it, at most.
//!
//! The bound is the sum of the limits of everything that reads for the rule: the windows for excerpts, the stretches of
//! full matches, the matches that wait for an exception, and the text that views and detectors retain. Automaton
//! states, offsets and hashes are not text.

use std::sync::Arc;

use crate::limits::Limits;
use crate::pack::Pack;
use crate::program::{CompoundCondition, DetectorSpec, MatchMode, ViewKey, ViewSource};
use crate::rule::{Channel, Rule};
use crate::stream::buffers;
use ttsr_views::command::CommandLimits;
use ttsr_views::detect::control_tokens;
use ttsr_views::detect::repetition;
use ttsr_views::detect::{unknown_file, unknown_name};
use ttsr_views::edit::EditLimits;
use ttsr_views::fold;
use ttsr_views::markdown;
use ttsr_views::shell::ShellLimits;

impl Rule {
    /// Returns the largest number of bytes of the text of one part that a stream retains for this rule if it is the
    /// only one: to decide the rule and to quote its matches. Only text is counted, not the data structures around it,
    /// and not the text that a host holds back for a rule with [`hold`](Rule::hold).
    ///
    /// # Example: an exception makes matches wait
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
        let channels = self.on.iter();
        let retained = channels.map(|channel| retained_on(&[(self, false)], *channel, limits));
        retained.max().unwrap_or_default() as u64
    }
}

impl Pack {
    /// Returns the largest number of bytes of the text of one part that a stream retains for all rules of the pack, with
    /// what [`Rule::retained_bytes`] counts. Rules share the readers of views and of commands, so it is less than the sum
    /// over the rules.
    ///
    /// # Example: two rules share the reader of commands
    /// ```
    /// use ttsr::Pack;
    /// let rule = |id: &str| format!(
    ///     "[rule.{id}]\ndescription = '{id}'\non = ['tool-input']\nmatch.any = [{{ command = '{id}' }}]\n"
    /// );
    /// let head = "schema = 1\npack.name = 'a'\n";
    /// let one = Pack::builder().toml("a", format!("{head}{}", rule("rm"))).build()?;
    /// let two = Pack::builder().toml("a", format!("{head}{}{}", rule("rm"), rule("dd"))).build()?;
    /// assert_eq!(one.retained_bytes(), one.rules()[0].retained_bytes(one.limits()));
    /// assert!(two.retained_bytes() < one.retained_bytes() * 3 / 2);
    /// # Ok::<_, ttsr::LoadError>(())
    /// ```
    #[must_use]
    pub fn retained_bytes(&self) -> u64 {
        let program = self.program();
        let has_allows = program.allows.iter().map(|allows| !allows.is_empty());
        let rules: Vec<_> = self.rules().iter().zip(has_allows).collect();
        let retained = Channel::ALL.map(|channel| retained_on(&rules, channel, self.limits()));
        retained.into_iter().max().unwrap_or_default() as u64
    }
}

/// Returns the bytes that a stream retains for these rules of a part of that channel. A rule is paired with true if it has
/// allow entries.
fn retained_on(rules: &[(&Rule, bool)], channel: Channel, limits: &Limits) -> usize {
    let is_tool_input = channel == Channel::ToolInput;
    let mut rules = rules
        .iter()
        .filter(|(rule, _)| rule.on.contains(&channel))
        .peekable();
    if rules.peek().is_none() {
        return 0;
    }
    let mut shared = SharedReaders::default();
    let mut of_rules = 0;
    for &(rule, has_allows) in rules {
        let specs = DetectorSpec::from_condition(&rule.condition, |_| Arc::default());
        shared.add(rule, &specs, channel);
        let windows = |spec: &DetectorSpec| match spec {
            // One of the part, and one of the argument that is being read.
            DetectorSpec::Limit(_) if is_tool_input => 2,
            _ => 1,
        };
        let detectors = specs
            .iter()
            .map(|spec| detector_bytes(spec) + windows(spec) * buffers::WINDOW_BYTES);
        of_rules += detectors.sum::<usize>() + quote_bytes(rule, has_allows);
    }
    of_rules + shared.bytes(channel, limits)
}

/// The readers of a part that rules share.
#[derive(Default)]
struct SharedReaders {
    keys: Vec<ViewKey>,
    /// The views whose full matches are searched, each for rules that hold text and for the others.
    full: Vec<(ViewKey, bool)>,
    sources: Vec<ViewSource>,
    reads_commands: bool,
    reads_trees: bool,
    has_detectors: bool,
}

impl SharedReaders {
    fn add(&mut self, rule: &Rule, specs: &[DetectorSpec], channel: Channel) {
        let is_tool_input = channel == Channel::ToolInput;
        let is_compound = CompoundCondition::from_rule(rule, &[], MatchMode::First).is_some();
        for pattern in rule.condition.patterns() {
            let key = ViewKey::from_pattern(pattern, channel);
            if !self.keys.contains(&key) {
                self.keys.push(key);
            }
            let full = (key, rule.holds_live());
            if is_compound && !self.full.contains(&full) {
                self.full.push(full);
            }
            self.sources.extend(key.source);
        }
        let detectors = specs.iter();
        self.sources
            .extend(detectors.filter_map(|spec| spec.source(channel)));
        if rule.condition.ast.is_some() {
            self.sources.push(ViewSource::code_view(channel));
            self.reads_trees = true;
        }
        self.has_detectors |= !specs.is_empty();
        self.reads_commands |= rule.condition.has_commands() && is_tool_input;
    }

    fn bytes(mut self, channel: Channel, limits: &Limits) -> usize {
        let is_tool_input = channel == Channel::ToolInput;
        self.sources.sort_unstable();
        self.sources.dedup();
        let views = self.sources.into_iter().map(view_bytes).sum::<usize>();
        let folded = self.keys.iter().filter(|key| !key.folds.is_empty());
        let late_code = is_tool_input && self.keys.iter().any(ViewKey::distinguishes_code);
        // The code that is parsed, and code that waits for the name of its file.
        let trees = if self.reads_trees {
            2 * limits.ast_bytes
        } else {
            0
        };
        // The path of the file, both as it is decoded and in its normal form.
        let paths = if is_tool_input {
            2 * limits.path_bytes
        } else {
            0
        };
        // Only parts of text that are searched for first ends alone read each delta at once.
        let is_plain = |key: &ViewKey| key.source.is_none() && key.folds.is_empty();
        let reads_at_once = is_tool_input
            || self.full.is_empty() && !self.has_detectors && self.keys.iter().all(is_plain);
        let deferred = if reads_at_once {
            0
        } else {
            buffers::DEFERRED_BYTES
        };
        self.keys.len() * buffers::WINDOW_BYTES
            + deferred
            + folded.count() * FOLD
            + self.full.len() * (buffers::WINDOW_BYTES + limits.stretch_bytes)
            + views
            + trees
            + paths
            + if late_code { limits.late_code_bytes } else { 0 }
            + if self.reads_commands {
                command_bytes()
            } else {
                0
            }
    }
}

/// Returns the bytes of quoted matches: those that wait, and those of the last hit.
fn quote_bytes(rule: &Rule, has_allows: bool) -> usize {
    let compound = CompoundCondition::from_rule(rule, &[], MatchMode::First);
    let waits = compound.is_some_and(|compound| {
        compound.has_none || compound.last.is_some() || compound.needs_every_match()
    });
    let quotes = if waits || has_allows {
        1 + buffers::PENDING_MATCHES
    } else if rule.tools.is_empty() || rule.paths.is_empty() {
        2
    } else {
        // A match in a file that is known, and one in a file that is not, wait for the tool.
        3
    };
    quotes * buffers::EXCERPT_BYTES
}

/// Bytes that a fold retains: each pending character stands for at most four bytes.
const FOLD: usize = fold::WAITING * 4;

/// Returns the bytes that a view retains.
fn view_bytes(source: ViewSource) -> usize {
    match source {
        ViewSource::Markdown => 3 * markdown::HELD,
        // The old text, the new text, and one incomplete line of each: at most four times `waiting`.
        ViewSource::Edits => {
            let limits = EditLimits::default();
            4 * limits.waiting + limits.path_bytes
        }
        // Nested commands, a script, and a word for each level.
        ViewSource::Shell => {
            let limits = ShellLimits::default();
            2 * limits.waiting + limits.depth * 1024
        }
    }
}

/// Returns the bytes that the reader of commands retains: a word for each script, and as much for the words of wrapped
/// commands.
fn command_bytes() -> usize {
    let limits = CommandLimits::default();
    2 * limits.word * (limits.scripts + 1)
}

/// Returns the bytes that a detector retains, besides its window.
fn detector_bytes(spec: &DetectorSpec) -> usize {
    match spec {
        DetectorSpec::Repetition(_) => repetition::WINDOW,
        DetectorSpec::Leak => control_tokens::TOKEN,
        DetectorSpec::UnknownName(_) => (1 + unknown_name::OWN) * unknown_name::LINE,
        DetectorSpec::UnknownFile(_) => unknown_file::SPAN,
        DetectorSpec::NearDuplicate
        | DetectorSpec::Turns(_)
        | DetectorSpec::Script(_)
        | DetectorSpec::Limit(_)
        | DetectorSpec::DoomLoop(_)
        | DetectorSpec::UnknownTool(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{
        Ast, Bound, Condition, Count, Named, Pattern, Per, Region, Repetition, UnknownName,
    };

    /// Returns the bytes that a rule with that condition retains of a part of that channel.
    fn retained(channel: Channel, set: impl Fn(&mut Condition)) -> usize {
        let mut rule = Rule::new("a/b", Vec::new());
        rule.on = vec![channel];
        set(&mut rule.condition);
        usize::try_from(rule.retained_bytes(&Limits::default())).expect("it is a usize")
    }

    #[test]
    fn each_thing_that_reads_for_a_rule_adds_what_it_holds() {
        let limits = Limits::default();
        let (text, call) = (Channel::Text, Channel::ToolInput);
        let quotes = 2 * buffers::EXCERPT_BYTES;
        let paths = 2 * limits.path_bytes;
        let fence = 3 * markdown::HELD;
        let deferred = buffers::DEFERRED_BYTES;
        let command = retained(call, |it| it.any = vec![Pattern::command("ls")]);
        assert!(command > 2 * CommandLimits::default().word, "{command}");
        let pattern = |region: &[Region]| {
            let mut pattern = Pattern::literal("x");
            pattern.region = region.to_vec();
            vec![pattern]
        };
        let plain = buffers::WINDOW_BYTES + quotes;
        assert_eq!(retained(text, |it| it.any = pattern(&[])), plain);
        assert_eq!(retained(call, |it| it.any = pattern(&[])), plain + paths);
        let prose = retained(text, |it| it.any = pattern(&[Region::Prose]));
        assert_eq!(prose, plain + fence + deferred);
        let shell = ShellLimits::default();
        assert_eq!(
            retained(call, |it| it.any = pattern(&[Region::Shell])),
            plain + paths + 2 * shell.waiting + 1024 * shell.depth
        );
        let edit = EditLimits::default();
        assert_eq!(
            retained(call, |it| it.any = pattern(&[Region::Removed])),
            plain + paths + 4 * edit.waiting + edit.path_bytes
        );
        assert_eq!(
            retained(call, |it| it.any = pattern(&[Region::Comment])),
            plain + paths + 4 * edit.waiting + edit.path_bytes + limits.late_code_bytes
        );
        // Patterns with the same view share it.
        let two = retained(text, |it| {
            it.any = [pattern(&[Region::Prose]), pattern(&[Region::Prose])].concat();
        });
        assert_eq!(two, prose);

        // Full matches are found by a search of their own for each view, which holds the text of a match in progress.
        let line = retained(text, |it| {
            it.any = pattern(&[]);
            it.line = true;
        });
        assert_eq!(
            line,
            plain + deferred + buffers::WINDOW_BYTES + limits.stretch_bytes
        );

        let leak = retained(text, |it| it.leak = true);
        assert_eq!(
            leak,
            buffers::WINDOW_BYTES + deferred + control_tokens::TOKEN + fence + quotes
        );
        let repetition = |it: &mut Condition| {
            it.repetition = Some(Repetition {
                unit_chars: (20, 400),
                times: 4,
                near: false,
                turns: None,
            });
        };
        let loops = retained(text, repetition);
        assert_eq!(
            loops,
            buffers::WINDOW_BYTES + deferred + repetition::WINDOW + fence + quotes
        );
        // In tool input there is no Markdown.
        let loops = retained(call, repetition);
        assert_eq!(
            loops,
            buffers::WINDOW_BYTES + repetition::WINDOW + paths + quotes
        );

        let named = |of: Named| {
            let of = vec![of];
            retained(text, |it| {
                it.unknown_name = Some(UnknownName {
                    of: of.clone(),
                    ..UnknownName::default()
                });
            })
        };
        let [package, file] = [named(Named::Package), named(Named::File)];
        let lines = (1 + unknown_name::OWN) * unknown_name::LINE;
        assert_eq!(
            package,
            buffers::WINDOW_BYTES + deferred + lines + fence + quotes
        );
        assert_eq!(
            file,
            buffers::WINDOW_BYTES + deferred + unknown_file::SPAN + fence + quotes
        );

        let ast = retained(text, |it| it.ast = Some(Ast::default()));
        assert_eq!(ast, 2 * limits.ast_bytes + fence + quotes);
    }

    #[test]
    fn a_limit_reads_a_call_and_its_argument_and_any_other_part_once() {
        let limit = |channel| {
            let bytes = retained(channel, |it| it.limit = Some(Bound::default()));
            bytes - retained(channel, |_| {})
        };
        let call = limit(Channel::ToolInput) - buffers::WINDOW_BYTES;
        assert_eq!(limit(Channel::Text) - buffers::DEFERRED_BYTES, call);
        assert!(call >= buffers::WINDOW_BYTES);
    }

    #[test]
    fn matches_whose_condition_is_not_decided_are_quoted_until_it_is() {
        type Set = fn(&mut Condition);
        let waits: [Set; 3] = [
            |it| it.none = vec![Pattern::literal("y")],
            |it| it.last = Some(9),
            |it| {
                let per = Per::Part;
                it.count = Some(Count { times: 3, per });
            },
        ];
        let quoted = |set: Set| {
            let mut rule = Rule::new("a/b", vec![Pattern::literal("x")]);
            set(&mut rule.condition);
            quote_bytes(&rule, false) / buffers::EXCERPT_BYTES
        };
        assert_eq!(waits.map(quoted), [1 + buffers::PENDING_MATCHES; 3]);
        assert_eq!(quoted(|_| {}), 2);
        assert_eq!(quoted(|it| it.first = Some(9)), 2);
    }
}
