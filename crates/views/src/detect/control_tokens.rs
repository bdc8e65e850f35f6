//! Control tokens of chat templates and tool calls in the text of a reply.
//!
//! In prose one token is enough; tags of calls and thoughts count only at the start of a line. Code and quoted text can
//! be
//! *about* tokens, so there several tokens must follow each other, separated only by blanks and a role. A leaked
//! template looks like that, and a sentence that mentions two tokens does not.
//!
//! Memory: [`TOKEN`] bytes.

use super::{Detection, Detector};
use crate::chunk::Chunk;

/// The length of the longest token, in bytes.
pub const TOKEN: usize = 48;

/// The limits above which control tokens are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlTokenLimits {
    /// The number of consecutive tokens in prose. A token that is only likely requires one more.
    pub plain: usize,
    /// The number of consecutive tokens in code and after quotation marks.
    pub quoted: usize,
    /// The most bytes of blanks and words between two consecutive tokens.
    pub gap: usize,
}

impl Default for ControlTokenLimits {
    fn default() -> ControlTokenLimits {
        ControlTokenLimits {
            plain: 1,
            quoted: 2,
            gap: 24,
        }
    }
}

/// Detects control tokens in a haystack. After a sequence has enough tokens, each further one is a detection of its
/// own.
#[derive(Clone, Debug)]
pub struct ControlTokenDetector {
    limits: ControlTokenLimits,
    code: bool,
    /// The bytes that can become a token.
    token: Vec<u8>,
    token_start: u64,
    /// The last three bytes before it.
    last: [u8; 3],
    /// The end of the last byte.
    end: u64,
    context: TokenContext,
    sequence: Option<TokenSequence>,
}

/// The context in which a possible token starts.
#[derive(Clone, Copy, Debug, Default)]
struct TokenContext {
    is_quoted: bool,
    begins_line: bool,
}

/// Consecutive tokens.
#[derive(Clone, Copy, Debug)]
struct TokenSequence {
    start: u64,
    count: usize,
    gap: usize,
    is_quoted: bool,
    /// True if its tokens so far have been reported.
    is_reported: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenCertainty {
    Sure,
    Likely,
}

impl ControlTokenDetector {
    /// Creates a detector for one haystack.
    pub fn new(limits: ControlTokenLimits) -> ControlTokenDetector {
        ControlTokenDetector {
            limits,
            code: false,
            token: Vec::with_capacity(TOKEN),
            token_start: 0,
            last: [b'\n'; 3],
            end: 0,
            context: TokenContext::default(),
            sequence: None,
        }
    }

    /// Starts another text of the same kind.
    pub fn renew(&mut self) {
        *self = ControlTokenDetector {
            code: self.code,
            ..ControlTokenDetector::new(self.limits)
        };
    }

    /// Sets whether the following chunks are code.
    pub fn set_code(&mut self, code: bool) {
        self.code = code;
    }

    /// Returns the offset from which text can still become a detection.
    pub fn pending_from(&self) -> Option<u64> {
        let token = (!self.token.is_empty()).then_some(self.token_start);
        // A call starts before the byte that reveals it, the `=` of `to=`.
        let to = match self.last {
            [before, b't', b'o'] if !before.is_ascii_alphanumeric() => Some(2),
            [_, before, b't'] if !before.is_ascii_alphanumeric() => Some(1),
            _ => None,
        };
        let to = to.map(|bytes| self.end.saturating_sub(bytes));
        let sequence = self
            .sequence
            .filter(|sequence| !sequence.is_reported)
            .map(|sequence| sequence.start);
        [token, to, sequence].into_iter().flatten().min()
    }

    /// Consumes the byte at `start`. Returns the start of the detection if this byte completes one.
    fn step(&mut self, byte: u8, start: u64) -> Option<u64> {
        let sequence = match byte {
            // The second byte of `<<SYS>>`.
            b'<' if self.token == b"<" => self.extend(byte),
            b'<' | b'[' => {
                self.break_sequence();
                self.begin(&[], byte, start);
                None
            }
            b'=' if self.token.is_empty() && self.is_to() => {
                self.begin(b"to", byte, start.saturating_sub(2));
                None
            }
            _ if self.token.is_empty() => {
                self.pass(byte);
                None
            }
            _ => self.extend(byte),
        };
        self.last = [self.last[1], self.last[2], byte];
        sequence
    }

    fn is_to(&self) -> bool {
        self.last[1..] == *b"to" && !self.last[0].is_ascii_alphanumeric()
    }

    fn begin(&mut self, before: &[u8], byte: u8, start: u64) {
        let previous = self.last[2 - before.len()];
        // `a[INST]` is an element of an array.
        let is_index =
            byte == b'[' && (previous.is_ascii_alphanumeric() || b"_)]".contains(&previous));
        let is_cited = b"\"'`".contains(&previous) || is_end_of_quote_mark(&self.last);
        self.context.is_quoted = self.code || is_cited || is_index;
        let mut last = self.last.iter().rev();
        self.context.begins_line = last.find(|byte| !matches!(byte, b' ' | b'\t')) == Some(&b'\n');
        self.token.clear();
        self.token.extend_from_slice(before);
        self.token.push(byte);
        self.token_start = start;
    }

    /// Consumes a byte between tokens.
    fn pass(&mut self, byte: u8) {
        let Some(sequence) = &mut self.sequence else {
            return;
        };
        sequence.gap += 1;
        let is_word =
            byte.is_ascii_alphanumeric() || byte.is_ascii_whitespace() || b"_.:/".contains(&byte);
        if !is_word || sequence.gap > self.limits.gap {
            self.sequence = None;
        }
    }

    /// Drops a possible token that is not one. It separates tokens, so the sequence ends.
    fn break_sequence(&mut self) {
        if !self.token.is_empty() {
            self.token.clear();
            self.sequence = None;
        }
    }

    fn extend(&mut self, byte: u8) -> Option<u64> {
        self.token.push(byte);
        let is_over = byte == b'\n' || self.token.len() > TOKEN;
        if is_over || self.token[0] == b't' && !may_be_call(&self.token) {
            self.break_sequence();
            return None;
        }
        let is_end = matches!(byte, b'>' | b']' | b'=') || self.token[0] == b't';
        match judge(&self.token, self.context.begins_line) {
            Some(token) if is_end => {
                self.token.clear();
                self.count(token)
            }
            _ if byte == b'>' && self.token.starts_with(b"<<") && !self.token.ends_with(b">>") => {
                None
            }
            _ if matches!(byte, b'>' | b']') => {
                self.break_sequence();
                None
            }
            _ => None,
        }
    }

    fn count(&mut self, token: TokenCertainty) -> Option<u64> {
        let sequence = self.sequence.get_or_insert(TokenSequence {
            start: self.token_start,
            count: 0,
            gap: 0,
            is_quoted: self.context.is_quoted,
            is_reported: false,
        });
        if sequence.is_reported {
            sequence.start = self.token_start;
        }
        sequence.count += 1;
        sequence.gap = 0;
        sequence.is_quoted |= self.context.is_quoted;
        let least = if sequence.is_quoted {
            self.limits.quoted
        } else {
            self.limits.plain
        };
        let needed = least + usize::from(token == TokenCertainty::Likely);
        sequence.is_reported = sequence.count >= needed;
        sequence.is_reported.then_some(sequence.start)
    }
}

impl Detector for ControlTokenDetector {
    fn push(&mut self, chunk: Chunk<'_>, found: &mut dyn FnMut(Detection)) {
        let Some(last) = chunk.bytes.len().checked_sub(1) else {
            return;
        };
        self.end = chunk.end(last);
        let mut from = 0;
        while from < chunk.bytes.len() {
            if self.token.is_empty() && self.sequence.is_none() {
                from += self.skip(&chunk.bytes[from..]);
            }
            let Some(&byte) = chunk.bytes.get(from) else {
                return;
            };
            if let Some(start) = self.step(byte, chunk.start(from)) {
                let decided = chunk.decided(from);
                found(Detection {
                    start,
                    end: chunk.end(from),
                    decided,
                });
            }
            from += 1;
        }
    }

    fn finish(&mut self, _: u64, _: &mut dyn FnMut(Detection)) {}
}

impl ControlTokenDetector {
    /// Returns the number of leading bytes that cannot be part of a token.
    fn skip(&mut self, bytes: &[u8]) -> usize {
        let skipped = memchr::memchr3(b'<', b'[', b'=', bytes).unwrap_or(bytes.len());
        for &byte in &bytes[skipped.saturating_sub(3)..skipped] {
            self.last = [self.last[1], self.last[2], byte];
        }
        skipped
    }
}

/// Returns true if the bytes end in one of `‘`, `’`, `“`, `”`.
fn is_end_of_quote_mark(last: &[u8; 3]) -> bool {
    last[..2] == [0xE2, 0x80] && (0x98..=0x9D).contains(&last[2])
}

/// The recipients of calls in leaked templates.
const TARGETS: [&[u8]; 5] = [
    b"functions.",
    b"multi_tool_use.",
    b"container.",
    b"browser.",
    b"python<|",
];

fn may_be_call(token: &[u8]) -> bool {
    let name = &token[3..];
    TARGETS
        .iter()
        .any(|target| target.starts_with(name) || name.starts_with(target))
}

fn judge(token: &[u8], begins_line: bool) -> Option<TokenCertainty> {
    match token[0] {
        b't' => TARGETS
            .iter()
            .any(|target| token[3..].starts_with(target))
            .then_some(TokenCertainty::Sure),
        b'[' => BRACKETS.contains(&token).then_some(TokenCertainty::Sure),
        _ => judge_angled(token, begins_line),
    }
}

fn judge_angled(token: &[u8], begins_line: bool) -> Option<TokenCertainty> {
    if ANGLED.contains(&token) {
        return Some(TokenCertainty::Sure);
    }
    if TAGS.contains(&token) {
        return begins_line.then_some(TokenCertainty::Sure);
    }
    if LIKELY.contains(&token) {
        return Some(TokenCertainty::Likely);
    }
    let name = token
        .strip_prefix(b"<|".as_slice())
        .and_then(|rest| rest.strip_suffix(b"|>"))
        .or_else(|| {
            let rest = token.strip_prefix("<｜".as_bytes())?;
            rest.strip_suffix("｜>".as_bytes())
        })?;
    let is_name =
        |byte: &u8| byte.is_ascii_alphanumeric() || b"_-/".contains(byte) || *byte >= 0x80;
    if name.is_empty() || name.len() > 40 || !name.iter().all(is_name) {
        return None;
    }
    let is_known = token[1] != b'|' || BARRED.iter().any(|known| name.starts_with(known));
    Some(if is_known {
        TokenCertainty::Sure
    } else {
        TokenCertainty::Likely
    })
}

/// Prefixes of names between `<|` and `|>`.
const BARRED: [&[u8]; 30] = [
    b"im_",
    b"endof",
    b"end",
    b"start",
    b"begin",
    b"eot",
    b"eom",
    b"channel",
    b"message",
    b"return",
    b"call",
    b"constrain",
    b"assistant",
    b"user",
    b"system",
    b"tool",
    b"fim_",
    b"python_tag",
    b"header",
    b"observation",
    b"think",
    b"/think",
    b"vision",
    b"image",
    b"fin",
    b"pad",
    b"unk",
    b"reserved",
    b"CHATBOT",
    b"END_OF",
];

const BRACKETS: [&[u8]; 12] = [
    b"[INST]",
    b"[/INST]",
    b"[TOOL_CALLS]",
    b"[/TOOL_CALLS]",
    b"[TOOL_RESULTS]",
    b"[/TOOL_RESULTS]",
    b"[AVAILABLE_TOOLS]",
    b"[/AVAILABLE_TOOLS]",
    b"[SYSTEM_PROMPT]",
    b"[/SYSTEM_PROMPT]",
    b"[TOOL_CALL]",
    b"[/TOOL_CALL]",
];

const ANGLED: [&[u8]; 5] = [
    b"<<SYS>>",
    b"<</SYS>>",
    b"<start_of_turn>",
    b"<end_of_turn>",
    b"</think>",
];

/// Tags that count only at the start of a line. Elsewhere, text is about them as often as not.
const TAGS: [&[u8]; 18] = [
    b"<tool_call>",
    b"</tool_call>",
    b"<tool_calls>",
    b"</tool_calls>",
    b"<function_calls>",
    b"</function_calls>",
    b"<function_call>",
    b"</function_call>",
    b"<invoke name=",
    b"</invoke>",
    b"<function=",
    b"<parameter=",
    b"<tool_response>",
    b"</tool_response>",
    b"<function_results>",
    b"<think>",
    b"<tool_use>",
    b"</tool_use>",
];

/// Tokens with other common uses.
const LIKELY: [&[u8]; 10] = [
    b"</s>",
    b"<bos>",
    b"<eos>",
    b"<pad>",
    b"<unk>",
    b"<thinking>",
    b"</thinking>",
    b"<parameter name=",
    b"</parameter>",
    b"</function>",
];
