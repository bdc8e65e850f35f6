//! Whole texts: the output of a tool, the words of the user, an error.

use super::Session;
use crate::rule::{Channel, ToolOutcome};
use crate::stream::Stream;
use crate::verdict::{Decision, PartId, Verdict};

/// The decisions about one whole text. Made by [`Session::check`].
///
/// # Example: a warning before anything is sent
/// ```
/// use ttsr::{Action, Channel, Pack, Pattern, Rule, Verdict};
/// let mut rule = Rule::new("demo/no-password", vec![Pattern::regex("password: [a-z]{8}")]);
/// rule.on = vec![Channel::UserInput];
/// rule.action = Action::Warn;
/// rule.message = Some("There is a password in it.".into());
/// let mut session = Pack::builder().rule(rule).build()?.session();
/// let checked = session.check(Channel::UserInput, None, b"Use password: tiramisu, please.");
/// let Verdict::Act(decision) = checked.verdict() else { panic!("the rule is broken") };
/// assert_eq!(checked.decisions(), [decision]);
/// assert_eq!(checked.stream().message(&decision), "There is a password in it.");
/// assert_eq!(checked.stream().matched(&decision.hit().unwrap()), "password: tiramisu");
/// # Ok::<(), ttsr::LoadError>(())
/// ```
#[derive(Debug)]
#[must_use]
pub struct Checked {
    stream: Stream,
    verdict: Verdict,
    decisions: Vec<Decision>,
}

impl Checked {
    /// Returns the decision to act on first, as [`Session::push`] gives it.
    pub fn verdict(&self) -> Verdict {
        self.verdict
    }

    /// Returns the decisions in their order, the suppressed ones included.
    pub fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the text as a stream of one part: for messages, excerpts and the rules behind decisions.
    #[must_use]
    pub fn stream(&self) -> &Stream {
        &self.stream
    }
}

/// The part that a whole text is read as.
const WHOLE: PartId = PartId(0);

impl Session {
    /// Reads a whole text of that channel, which may belong to a tool, and returns the decisions about it.
    ///
    /// It is no attempt: attempts and streams in progress are not affected. On [`Channel::ToolOutput`] and
    /// [`Channel::UserInput`], where nothing can be generated again, a rule that retries does what comes after its
    /// retries.
    ///
    /// # Complexity
    /// Linear in the text, once the states of the automata that it needs are built.
    ///
    /// # Example: an appended sentence
    /// ```
    /// use ttsr::{Action, Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/no-space", vec![Pattern::literal("No space left")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.action = Action::Append;
    /// rule.message = Some("Delete build outputs first.".into());
    /// let pack = Pack::builder().rule(rule).build()?;
    /// let mut session = pack.session();
    /// let mut output = String::from("write: No space left on device");
    /// let checked = session.check(Channel::ToolOutput, Some("bash"), output.as_bytes());
    /// for decision in checked.decisions() {
    ///     assert_eq!(decision.action, Action::Append);
    ///     output += "\n";
    ///     output += &checked.stream().message(decision);
    /// }
    /// assert!(output.ends_with("Delete build outputs first."));
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn check(&mut self, channel: Channel, tool: Option<&str>, text: &[u8]) -> Checked {
        self.check_whole(channel, tool, ToolOutcome::default(), text)
    }

    /// Reads the whole output of a tool call that ended with `outcome`, as [`check`](Self::check) does on
    /// [`Channel::ToolOutput`].
    ///
    /// # Example: a rule about reads that went well
    /// ```
    /// use ttsr::rule::ToolOutcome;
    /// use ttsr::{Channel, Pack, Pattern, Rule};
    /// let mut rule = Rule::new("demo/delegate", vec![Pattern::regex(r"\S")]);
    /// rule.on = vec![Channel::ToolOutput];
    /// rule.outcome = Some(ToolOutcome::Ok);
    /// let mut session = Pack::builder().rule(rule).build()?.session();
    /// let failed = session.check_output(Some("read"), ToolOutcome::Error, b"is a directory");
    /// assert!(failed.decisions().is_empty());
    /// let read = session.check_output(Some("read"), ToolOutcome::Ok, b"fn main() {}");
    /// assert_eq!(read.decisions().len(), 1);
    /// # Ok::<(), ttsr::LoadError>(())
    /// ```
    pub fn check_output(
        &mut self,
        tool: Option<&str>,
        outcome: ToolOutcome,
        text: &[u8],
    ) -> Checked {
        self.check_whole(Channel::ToolOutput, tool, outcome, text)
    }

    fn check_whole(
        &mut self,
        channel: Channel,
        tool: Option<&str>,
        outcome: ToolOutcome,
        text: &[u8],
    ) -> Checked {
        let mut stream = self.new_stream(self.excluded.clone());
        let mut hits = Vec::new();
        stream.open(WHOLE, channel);
        stream.set_outcome(WHOLE, outcome);
        if let Some(tool) = tool {
            hits.extend_from_slice(&stream.set_tool(WHOLE, tool, ""));
        }
        hits.extend_from_slice(&stream.push(WHOLE, text));
        hits.extend_from_slice(&stream.close(WHOLE));
        hits.iter().for_each(|hit| stream.capture(text, hit));
        self.decisions.clear();
        let verdict = self.judge_hits(&mut stream, hits);
        Checked {
            stream,
            verdict,
            decisions: std::mem::take(&mut self.decisions),
        }
    }
}
