//! Whole texts: the user's prompt, the output of a tool, an error. Rules read each before the model does.

use super::Conversation;
use super::outcome::{Cut, DecisionRecord, Flow};
use super::redact::RedactedPiece;
use super::release::replacements;
use super::scalars::ScalarTracker;
use crate::rule::{Action, Channel, Header};
use crate::verdict::{PartId, RuleId};

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

/// The part that a whole text is read as.
const WHOLE: PartId = PartId(0);

impl Conversation {
    /// Reads a whole text of that channel, which may belong to a tool, and returns it as it may be passed on: the output
    /// of a tool before the model sees it, further texts of the user, an error. The prompt of a turn is screened by
    /// [`turn`](Self::turn).
    ///
    /// An `abort` cuts the turn: the attempt in progress and all later ones return the cut. A `retry` is possible on
    /// [`Channel::Error`] and on the channels of a reply; on tool output and user input a rule that retries does what
    /// its `retry.then` says.
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
        let checked = self.session.check(channel, tool, text.as_bytes());
        let stream = checked.stream();
        let mut screened = ScreenedText {
            flow: Flow::Go,
            text: String::new(),
            headers: Vec::new(),
            fallback: None,
            decisions: Vec::new(),
        };
        let (mut before, mut after) = (Vec::new(), Vec::new());
        let mut redacting: Vec<(RuleId, PartId)> = Vec::new();
        for decision in checked.decisions() {
            let message = stream.message(decision);
            let record = DecisionRecord::new(stream, decision, message.clone());
            screened.decisions.push(record);
            if decision.is_suppressed() {
                continue;
            }
            let rule = stream.rule(decision);
            match decision.action {
                Action::Prepend => before.push(message.clone()),
                Action::Append => after.push(message.clone()),
                Action::SetHeader => {
                    screened
                        .headers
                        .extend(rule.and_then(|rule| rule.header.clone()));
                }
                Action::Fallback => screened.fallback = rule.map(|rule| rule.id.clone()),
                Action::Redact => {
                    redacting.extend(decision.rule().map(|rule| (rule, decision.part())));
                }
                Action::Retry | Action::Abort => {
                    let cut = Cut::of_decision(decision, rule, &message, Vec::new());
                    if decision.action == Action::Abort {
                        self.turn_cut = Some(cut.clone());
                    }
                    screened.flow = Flow::Cut(cut);
                }
                _ => {}
            }
            match decision.action {
                Action::Inject | Action::Retry => self.queue(decision, message),
                _ => self.session.delivered(decision),
            }
        }
        if screened.flow == Flow::Go {
            let scalars = (channel == Channel::ToolInput)
                .then(|| ScalarTracker::of_complete(text.as_bytes()));
            let piece = RedactedPiece {
                bytes: text.as_bytes(),
                base: 0,
                scalars: scalars.as_ref(),
            };
            let mut out = Vec::with_capacity(text.len());
            let ranges = replacements(stream, WHOLE, 0, &redacting);
            let _ = piece.copy_redacted(ranges, &mut 0, &mut out);
            let redacted = String::from_utf8_lossy(&out).into_owned();
            let pieces = before.into_iter().chain([redacted]).chain(after);
            screened.text = pieces.collect::<Vec<_>>().join("\n\n");
        }
        screened
    }
}
