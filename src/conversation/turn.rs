//! The borrowed form of a conversation: a turn that begins with a prompt, and attempts that belong to a turn.

use std::sync::Arc;
use std::time::Duration;

use super::{CallReview, Conversation, Cut, DecisionRecord, Flow, Note, ScreenedText};
use crate::event::Event;
use crate::rule::{Channel, ToolOutcome};
use crate::stream::Counters;
use crate::verdict::PartId;

/// One turn: from the prompt of the user to the final answer. Made by [`Conversation::turn`].
///
/// # Example: a retry with its guidance
/// ```
/// use ttsr::{Conversation, Flow, Pack, PartId};
/// let pack = Pack::from_toml(r#"
/// schema = 1
/// [pack]
/// name = "demo"
/// [rule.no-any]
/// description = "Say what the type is"
/// severity = "error"
/// match.any = [{ literal = ": any" }]
/// message = "{{ rule.description }}."
/// examples.match = ["x: any"]
/// "#)?;
/// let mut conversation = Conversation::new(&pack);
/// let mut turn = conversation.turn("Declare x.");
/// let mut replies = ["let x: any = 1", "let x: number = 1"].into_iter();
/// let (mut requests, mut shown) = (Vec::new(), Vec::new());
/// for reply in replies {
///     requests.push(turn.guidance().map(|note| note.text).collect::<Vec<_>>());
///     let mut attempt = turn.attempt();
///     if let Flow::Cut(cut) = attempt.push(PartId(0), reply.as_bytes()) {
///         assert!(cut.retry.is_some());
///         continue;
///     }
///     assert_eq!(attempt.finish(), Flow::Go);
///     shown.extend_from_slice(attempt.take(PartId(0)));
/// }
/// assert_eq!(requests, [vec![], vec!["Say what the type is.".to_owned()]]);
/// assert_eq!(shown, b"let x: number = 1");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Turn<'c> {
    conversation: &'c mut Conversation,
    prompt: ScreenedText,
}

impl<'c> Turn<'c> {
    pub(super) fn new(conversation: &'c mut Conversation, prompt: &str) -> Turn<'c> {
        let prompt = conversation.begin_turn(prompt);
        Turn {
            conversation,
            prompt,
        }
    }

    /// Returns the prompt as it may be sent, after `user-input` rules have read it.
    pub fn prompt(&self) -> &ScreenedText {
        &self.prompt
    }

    /// Returns the guidance for the next request. See [`Conversation::guidance`].
    pub fn guidance(&self) -> impl Iterator<Item = Note> {
        self.conversation.guidance()
    }

    /// Begins an attempt: a request, with the guidance, is about to be sent. See [`Conversation::begin_attempt`]; if it
    /// returns a cut, every call of this attempt does.
    pub fn attempt(&mut self) -> Attempt<'_> {
        // A refusal is sticky: the next call returns it.
        let _ = self.conversation.begin_attempt();
        Attempt {
            conversation: self.conversation,
        }
    }

    /// Screens a whole text of this turn. See [`Conversation::screen`].
    pub fn screen(&mut self, channel: Channel, tool: Option<&str>, text: &str) -> ScreenedText {
        self.conversation.screen(channel, tool, text)
    }

    /// Screens the output of a tool call of this turn. See [`Conversation::screen_output`].
    pub fn screen_output(
        &mut self,
        tool: Option<&str>,
        outcome: ToolOutcome,
        output: &str,
    ) -> ScreenedText {
        self.conversation.screen_output(tool, outcome, output)
    }

    /// Continues after the final answer. See [`Conversation::reopen_turn`].
    pub fn reopen(&mut self) {
        self.conversation.reopen_turn();
    }

    /// Returns the conversation.
    #[must_use]
    pub fn conversation(&self) -> &Conversation {
        self.conversation
    }
}

/// One attempt at a reply. Made by [`Turn::attempt`]; ends when it is dropped.
///
/// Every call that reads returns a [`Flow`]. [`take`](Self::take) is the only way to obtain text.
///
/// # Example: text that waits until it is harmless
/// ```
/// use ttsr::{Action, Conversation, Flow, Pack, PartId, Pattern, Rule};
/// let mut rule = Rule::new("demo/key", vec![Pattern::regex("key-[0-9]{4}")]);
/// rule.action = Action::Redact;
/// let mut conversation = Conversation::new(&Pack::builder().rule(rule).build()?);
/// let mut turn = conversation.turn("Which key?");
/// let mut attempt = turn.attempt();
/// let mut shown = Vec::new();
/// for delta in ["my key-12", "34."] {
///     assert_eq!(attempt.push(PartId(0), delta.as_bytes()), Flow::Go);
///     shown.push(String::from_utf8_lossy(attempt.take(PartId(0))).into_owned());
/// }
/// assert_eq!(shown, ["my ", "[redacted]."]);
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
pub struct Attempt<'t> {
    conversation: &'t mut Conversation,
}

impl Attempt<'_> {
    /// Returns the state of the attempt, as every call that reads returns it.
    pub fn flow(&self) -> Flow {
        self.conversation.flow()
    }

    /// Opens a part. See [`Conversation::open`].
    pub fn open(&mut self, part: PartId, channel: Channel) -> Flow {
        self.conversation.open(part, channel)
    }

    /// Names the tool of a part and its call. See [`Conversation::set_tool`].
    pub fn set_tool(&mut self, part: PartId, name: &str, call: &str) -> Flow {
        self.conversation.set_tool(part, name, call)
    }

    /// Sets the file that a part is about. See [`Conversation::set_path`].
    pub fn set_path(&mut self, part: PartId, path: &str) -> Flow {
        self.conversation.set_path(part, path)
    }

    /// Sets the outcome of the tool call whose output a part is. See [`Conversation::set_outcome`].
    pub fn set_outcome(&mut self, part: PartId, outcome: ToolOutcome) -> Flow {
        self.conversation.set_outcome(part, outcome)
    }

    /// Reads a delta. See [`Conversation::push`].
    #[inline]
    pub fn push(&mut self, part: PartId, bytes: &[u8]) -> Flow {
        self.conversation.push(part, bytes)
    }

    /// Reads a delta, and returns the text that is released with it. See [`Conversation::forward`].
    ///
    /// # Errors
    /// If the attempt is cut.
    #[inline]
    pub fn forward<'t>(&'t mut self, part: PartId, bytes: &'t [u8]) -> Result<&'t [u8], Arc<Cut>> {
        self.conversation.forward(part, bytes)
    }

    /// Applies an event of the reply. See [`Conversation::apply`].
    pub fn apply(&mut self, event: &Event) -> Flow {
        self.conversation.apply(event)
    }

    /// Restarts the reply without another request. See [`Conversation::restart`].
    pub fn restart(&mut self) -> Flow {
        self.conversation.restart()
    }

    /// Ends a part. See [`Conversation::close`].
    pub fn close(&mut self, part: PartId) -> Flow {
        self.conversation.close(part)
    }

    /// Ends the reply. See [`Conversation::finish`].
    pub fn finish(&mut self) -> Flow {
        self.conversation.finish()
    }

    /// Sets the number of tokens of a part so far. See [`Conversation::count_tokens`].
    pub fn count_tokens(&mut self, part: PartId, tokens: u64) -> Flow {
        self.conversation.count_tokens(part, tokens)
    }

    /// Sets the time. See [`Conversation::tick`].
    pub fn tick(&mut self, now: Duration) -> Flow {
        self.conversation.tick(now)
    }

    /// Returns the released text of a part that was not taken before. See [`Conversation::take`].
    #[must_use = "the text is returned once"]
    pub fn take(&mut self, part: PartId) -> &[u8] {
        self.conversation.take(part)
    }

    /// Returns the decisions of this attempt so far. See [`Conversation::decisions`].
    #[must_use]
    pub fn decisions(&self) -> &[DecisionRecord] {
        self.conversation.decisions()
    }

    /// Returns the tool calls that wait for a review. See [`Conversation::reviews`].
    #[must_use]
    pub fn reviews(&self) -> &[CallReview] {
        self.conversation.reviews()
    }

    /// Ends the reviews of a call. See [`Conversation::approve`].
    pub fn approve(&mut self, part: PartId) {
        self.conversation.approve(part);
    }

    /// Returns the counters of the attempt.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.conversation.counters()
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.conversation.end_attempt();
    }
}
