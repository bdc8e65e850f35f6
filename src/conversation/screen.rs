//! Whole texts: the user's prompt, the output of a tool, an error. Rules read each before the model does.

use super::Conversation;
use super::outcome::{Cut, DecisionRecord, Flow};
use super::redact::{RedactedPiece, RedactionEdit};
use super::release::redactions;
use super::scalars::ScalarTracker;
use crate::rule::{Action, Channel, Header, ToolOutcome};
use crate::session::Checked;

/// A whole text after the rules have read it. Made by [`Conversation::screen`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "the text to pass on is in it"]
pub struct ScreenedText {
    /// A cut if a rule cuts here: by `abort` the whole turn, whose attempts return it too.
    pub flow: Flow,
    /// The text to pass on: redacted, with what rules prepend and append, each after an empty line. Empty after a cut.
    pub text: String,
    /// Headers that rules set on the next request.
    pub headers: Vec<Header>,
    /// The full id of the rule that asks for another model, if one does.
    pub fallback: Option<String>,
    /// The decisions, in their order; those that the policy suppresses too.
    pub decisions: Vec<DecisionRecord>,
}

impl ScreenedText {
    /// Returns the result for a text on which no rule decides.
    fn unchanged(text: &str) -> ScreenedText {
        ScreenedText {
            flow: Flow::Go,
            text: text.to_owned(),
            headers: Vec::new(),
            fallback: None,
            decisions: Vec::new(),
        }
    }
}

/// The changes that rules make to a whole text. They can be applied later, and to the texts that it was joined from.
#[derive(Clone, Debug, Default)]
pub(crate) struct TextEdits {
    /// True if the text is tool input, which stays JSON.
    is_input: bool,
    before: Vec<String>,
    after: Vec<String>,
    /// The redacted ranges, sorted by their start, each with its replacement.
    redactions: Vec<(u64, u64, String)>,
    /// The headers that rules set on the request.
    pub(crate) headers: Vec<Header>,
}

impl TextEdits {
    /// Returns the text with all edits: redacted, with what is prepended and appended, each after an empty line.
    pub(crate) fn apply(&self, text: &str) -> String {
        let mut redacted = [text.to_owned()];
        self.redact(redacted.iter_mut(), "");
        let before = self.before.iter().map(String::as_str);
        let after = self.after.iter().map(String::as_str);
        let pieces = before.chain([redacted[0].as_str()]).chain(after);
        pieces.collect::<Vec<_>>().join("\n\n")
    }

    /// Redacts the texts that were joined with `separator` to the text that the rules read.
    pub(crate) fn redact<'t>(&self, texts: impl Iterator<Item = &'t mut String>, separator: &str) {
        if self.redactions.is_empty() {
            return;
        }
        let (mut base, mut skip_to) = (0, 0);
        for text in texts {
            let scalars = self
                .is_input
                .then(|| ScalarTracker::of_complete(text.as_bytes()));
            let mut out = Vec::with_capacity(text.len());
            let piece = RedactedPiece {
                bytes: text.as_bytes(),
                base,
                scalars: scalars.as_ref(),
            };
            let edits = self.redactions.iter().filter(|(_, end, _)| *end > base);
            let edits = edits.map(|(start, end, with)| RedactionEdit {
                start: *start,
                end: *end,
                with,
            });
            // The piece is the whole text, so every scalar ends in it and no range is deferred.
            let deferred = piece.copy_redacted(edits, &mut skip_to, &mut out);
            debug_assert_eq!(deferred, None, "no scalar is split");
            base += (text.len() + separator.len()) as u64;
            *text = String::from_utf8_lossy(&out).into_owned();
        }
    }

    /// Prepends to the first of `texts` and appends to the last one.
    #[cfg(feature = "harness")]
    pub(crate) fn surround(&self, texts: &mut [&mut String]) {
        if let Some(last) = texts.last_mut() {
            last.extend(self.after.iter().map(|more| format!("\n\n{more}")));
        }
        if let Some(first) = texts.first_mut() {
            let before = self.before.iter().map(|more| format!("{more}\n\n"));
            first.insert_str(0, &before.collect::<String>());
        }
    }
}

impl Conversation {
    /// Reads a whole text of that channel, which may belong to a tool, and returns it as it may be passed on: further
    /// texts of the user, an error. The prompt of a turn is screened by [`turn`](Self::turn), and the output of a tool
    /// whose outcome is known by [`screen_output`](Self::screen_output).
    ///
    /// An `abort` cuts the turn: the attempt in progress and all later ones return the cut. A `retry` is possible on
    /// [`Channel::Error`] and on the channels of a reply; on tool output and user input a rule that retries does what
    /// its `retry.then` says.
    ///
    /// # Complexity
    /// Linear in the text, if a rule reads the channel; otherwise the text is copied.
    ///
    /// # Example: the output of a tool
    /// ```
    /// use ttsr::{Action, Channel, Conversation, Pack, Pattern, Rule};
    /// let mut key = Rule::new("demo/key", vec![Pattern::regex("key-[0-9]{4}")]);
    /// key.on = vec![Channel::ToolOutput];
    /// key.action = Action::Redact;
    /// let mut full = Rule::new("demo/full", vec![Pattern::literal("No space left")]);
    /// full.on = vec![Channel::ToolOutput];
    /// full.action = Action::Append;
    /// full.message = Some("Delete build outputs first.".into());
    /// let mut conversation = Conversation::new(&Pack::builder().rule(key).rule(full).build()?);
    /// let mut turn = conversation.turn("Build it.");
    /// let output = turn.screen(Channel::ToolOutput, Some("bash"), "key-1234: No space left on device");
    /// assert_eq!(output.text, "[redacted]: No space left on device\n\nDelete build outputs first.");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn screen(&mut self, channel: Channel, tool: Option<&str>, text: &str) -> ScreenedText {
        self.screen_whole(channel, None, tool, text)
    }

    /// Reads the output of a tool call that ended with `outcome`, as [`screen`](Self::screen) does on
    /// [`Channel::ToolOutput`].
    ///
    /// # Example: a rule about reads that failed
    /// ```
    /// use ttsr::rule::ToolOutcome;
    /// use ttsr::{Action, Channel, Conversation, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/folder", vec![Pattern::literal("is a directory")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.outcome = Some(ToolOutcome::Error);
    /// rule.action = Action::Append;
    /// rule.message = Some("List it instead.".into());
    /// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
    /// let mut turn = conversation.turn("Read src.");
    /// let read = turn.screen_output(Some("read"), ToolOutcome::Ok, "src is a directory");
    /// assert_eq!(read.text, "src is a directory");
    /// let failed = turn.screen_output(Some("read"), ToolOutcome::Error, "src is a directory");
    /// assert_eq!(failed.text, "src is a directory\n\nList it instead.");
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn screen_output(
        &mut self,
        tool: Option<&str>,
        outcome: ToolOutcome,
        output: &str,
    ) -> ScreenedText {
        self.screen_whole(Channel::ToolOutput, Some(outcome), tool, output)
    }

    fn screen_whole(
        &mut self,
        channel: Channel,
        outcome: Option<ToolOutcome>,
        tool: Option<&str>,
        text: &str,
    ) -> ScreenedText {
        if self.session.pack().program().channel(channel).is_none() {
            // No rule reads the channel, so nothing can be decided.
            return ScreenedText::unchanged(text);
        }
        let (checked, edits) = self.read_whole(channel, outcome, tool, text);
        let stream = checked.stream();
        let mut screened = ScreenedText {
            headers: edits.headers.clone(),
            ..ScreenedText::unchanged("")
        };
        for decision in checked.decisions() {
            let message = stream.message(decision);
            let record = DecisionRecord::new(stream, decision, message.clone());
            screened.decisions.push(record);
            if decision.is_suppressed() {
                continue;
            }
            let rule = stream.rule(decision);
            if decision.action.cuts() {
                let cut = Cut::from_decision(decision, rule, &message, Vec::new());
                if decision.action == Action::Abort {
                    self.turn_cut = Some(cut.clone());
                }
                screened.flow = Flow::Cut(cut);
            }
            match decision.action {
                Action::Inject | Action::Retry => {
                    self.queue(decision, message);
                }
                Action::Fallback => {
                    screened.fallback = rule.map(|rule| rule.id.clone());
                    self.session.mark_delivered(decision);
                }
                Action::Handoff => self.session.mark_delivered(decision),
                _ => {}
            }
        }
        if screened.flow == Flow::Go {
            screened.text = edits.apply(text);
        }
        screened
    }

    /// Reads a whole text, and returns the decisions and the edits of those that the policy lets act. A text on
    /// [`Channel::ToolOutput`] may have an outcome.
    ///
    /// The caller reports the outcome of `inject`, `retry`, `fallback` and `handoff`; all other decisions count as
    /// delivered.
    pub(crate) fn read_whole(
        &mut self,
        channel: Channel,
        outcome: Option<ToolOutcome>,
        tool: Option<&str>,
        text: &str,
    ) -> (Checked, TextEdits) {
        let checked = match outcome {
            Some(outcome) => self.session.check_output(tool, outcome, text.as_bytes()),
            None => self.session.check(channel, tool, text.as_bytes()),
        };
        let stream = checked.stream();
        let mut edits = TextEdits {
            is_input: channel == Channel::ToolInput,
            ..TextEdits::default()
        };
        let mut redacting = Vec::new();
        let made = checked.decisions().iter();
        for decision in made.filter(|decision| !decision.is_suppressed()) {
            match decision.action {
                Action::Prepend => edits.before.push(stream.message(decision)),
                Action::Append => edits.after.push(stream.message(decision)),
                Action::SetHeader => {
                    let rule = stream.rule(decision);
                    edits
                        .headers
                        .extend(rule.and_then(|rule| rule.header.clone()));
                }
                Action::Redact => {
                    redacting.extend(decision.rule().map(|rule| (rule, decision.part())));
                }
                Action::Inject | Action::Retry | Action::Fallback | Action::Handoff => continue,
                _ => {}
            }
            self.session.mark_delivered(decision);
        }
        if let Some(&(_, part)) = redacting.first() {
            let ranges = redactions(stream, part, 0, &redacting);
            let ranges = ranges.map(|edit| (edit.start, edit.end, edit.with.to_owned()));
            edits.redactions = ranges.collect();
        }
        (checked, edits)
    }
}
