//! The bounds of one pattern.

/// The bounds that a pattern must keep to be compiled.
///
/// # Example: a bound on the size of a pattern
/// ```
/// use ttsr_automata::PatternLimits;
/// use ttsr_automata::pattern::parse;
/// let limits = PatternLimits { rule_states: 10, ..PatternLimits::default() };
/// assert!(parse("a{3}", &limits).is_ok());
/// assert!(parse("a{300}", &limits).is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternLimits {
    /// The largest size of the text of a pattern, in bytes. Default 64 KiB.
    pub pattern_bytes: usize,
    /// The largest number of NFA states of a pattern, estimated before the pattern is compiled. Default 65,536.
    pub rule_states: usize,
    /// The largest number of steps that verify one candidate of a pattern with look-around. Default 100,000.
    pub confirm_steps: usize,
}

impl Default for PatternLimits {
    fn default() -> PatternLimits {
        PatternLimits {
            pattern_bytes: 64 << 10,
            rule_states: 1 << 16,
            confirm_steps: 100_000,
        }
    }
}
