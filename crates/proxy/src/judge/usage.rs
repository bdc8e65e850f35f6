//! The tokens of a reply that may have taken several attempts. The client is told those of the last attempt; the sum is for
//! the log.

use ttsr::Event;

/// Numbers of tokens, as servers count them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TokenUsage {
    /// Tokens of requests.
    pub(crate) input: u64,
    /// Tokens of replies.
    pub(crate) output: u64,
}

/// The tokens of the attempts at one reply.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UsageOfAttempts {
    /// The sum of the attempts that were cut.
    earlier: TokenUsage,
    /// The tokens of this attempt so far.
    latest: TokenUsage,
}

impl UsageOfAttempts {
    /// Reads an event. The numbers in it are those of the whole attempt so far.
    pub(super) fn read(&mut self, event: &Event) {
        if let Event::Usage { input, output } = *event {
            self.latest = TokenUsage { input, output };
        }
    }

    pub(super) fn begin_again(&mut self) {
        self.earlier = self.sum();
        self.latest = TokenUsage::default();
    }

    pub(super) fn sum(&self) -> TokenUsage {
        TokenUsage {
            input: self.earlier.input.saturating_add(self.latest.input),
            output: self.earlier.output.saturating_add(self.latest.output),
        }
    }
}
