//! The oracle is a recursive reader that has the whole text.

use std::ops::Range;

use super::heredoc::HEREDOCS;
use super::*;
use crate::chunk::{DecidedOffset, RegionSet, Tag};
use crate::json::{HaystackSink, JsonDecoder};
use ttsr_testing::{Random, scale, skip};

// ---- The output of the view ----

#[derive(Clone, Debug, PartialEq)]
enum Heard {
    Turn(u64, u64),
    Byte(u8, u64, u64, u64),
    Cut(u64, u64),
}

#[derive(Debug, Default)]
struct Recorder {
    heard: Vec<Heard>,
    delivered: Option<u64>,
    open: bool,
}

impl Recorder {
    /// Asserts that nothing is emitted later than `decided` states when the input is pushed byte by byte.
    fn on_time(&self, decided: u64) {
        if let Some(delivered) = self.delivered {
            assert_eq!(decided, delivered, "decided and emitted");
        }
    }
}

impl ChunkSink for Recorder {
    fn set_tag(&mut self, tag: Tag, at: DecidedOffset) {
        let DecidedOffset {
            offset: at,
            decided,
        } = at;
        self.on_time(decided);
        assert!(tag.regions == RegionSet::SHELL && !self.open);
        self.open = true;
        self.heard.push(Heard::Turn(at, decided));
    }

    fn push(&mut self, chunk: Chunk<'_>) {
        assert!(!chunk.bytes.is_empty() && self.open);
        for (i, &byte) in chunk.bytes.iter().enumerate() {
            self.on_time(chunk.decided(i));
            assert!(chunk.start(i) < chunk.end(i), "{chunk:?}");
            let heard = Heard::Byte(byte, chunk.start(i), chunk.end(i), chunk.decided(i));
            self.heard.push(heard);
        }
    }

    fn cut(&mut self, end: DecidedOffset) {
        let DecidedOffset {
            offset: end,
            decided,
        } = end;
        self.on_time(decided);
        assert!(self.open);
        self.open = false;
        self.heard.push(Heard::Cut(end, decided));
    }
}

impl HaystackSink for (&mut ShellView, &mut Recorder) {
    fn open(&mut self, path: &ArgPath, _: u64) {
        self.0.open(path);
    }

    fn run(&mut self, bytes: &[u8], at: u64) {
        self.0.push(&Chunk::verbatim(bytes, at), self.1);
    }

    fn escape(&mut self, utf8: &[u8], source: Range<u64>, decided: u64) {
        self.0
            .push(&Chunk::replacement(utf8, source, decided), self.1);
    }

    fn close(&mut self, end: DecidedOffset) {
        self.0.close(end, self.1);
    }
}

type Seen = (Vec<Heard>, ShellCounters);

/// Runs the view on a plain text or on tool input.
fn view<'a>(
    deltas: impl IntoIterator<Item = &'a [u8]>,
    limits: ShellLimits,
    json: bool,
    strict: bool,
) -> Seen {
    let mut decoder = JsonDecoder::new(128, 4096);
    let (mut shell, mut recorder) = (ShellView::new(limits), Recorder::default());
    if !json {
        shell.open_text();
    }
    let mut delivered = 0;
    for delta in deltas {
        let at = delivered;
        delivered += delta.len() as u64;
        recorder.delivered = strict.then_some(delivered);
        if json {
            decoder.push(delta, &mut (&mut shell, &mut recorder));
        } else {
            shell.push(&Chunk::verbatim(delta, at), &mut recorder);
        }
    }
    if json {
        decoder.finish(&mut (&mut shell, &mut recorder));
    }
    shell.finish(delivered, &mut recorder);
    assert!(!recorder.open, "a haystack is open after the end");
    (recorder.heard, shell.counters())
}

fn haystacks(heard: &[Heard]) -> Vec<String> {
    let mut all: Vec<Vec<u8>> = Vec::new();
    for one in heard {
        match one {
            Heard::Turn(..) => all.push(Vec::new()),
            Heard::Byte(byte, ..) => all.last_mut().unwrap().push(*byte),
            Heard::Cut(..) => {}
        }
    }
    all.iter()
        .map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        .collect()
}

/// Asserts that the output of the view is the same for every cut of the input.
fn every_cut(
    input: &[u8],
    limits: ShellLimits,
    json: bool,
    random: &mut Random,
) -> (Vec<Heard>, usize) {
    let whole = view([input], limits, json, false);
    let same = |deltas: &[&[u8]], strict: bool| {
        let got = view(deltas.iter().copied(), limits, json, strict);
        if got != whole {
            let cuts: Vec<String> = deltas
                .iter()
                .map(|d| d.escape_ascii().to_string())
                .collect();
            let differs = got.0.iter().zip(&whole.0).find(|(got, whole)| got != whole);
            panic!(
                "{cuts:?}\n{:?}\n{:?}\nfirst {differs:?}\n{:?}, {:?}",
                haystacks(&got.0),
                haystacks(&whole.0),
                got.1,
                whole.1
            );
        }
    };
    let runs = crate::test_sink::every_cut(input, random, same);
    (whole.0, runs)
}

// ---- The model ----

#[derive(Debug, Default)]
struct Word {
    text: Vec<u8>,
    /// The position of the first quote.
    quote: Option<usize>,
}

struct Model<'a> {
    text: &'a [u8],
    at: usize,
    heredocs: Vec<(Vec<u8>, bool)>,
    scripts: bool,
    /// True if the substitution ends at the next backquote.
    backquotes: bool,
}

/// The construct that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Text,
    Paren,
    Backquote,
}

fn model(text: &[u8]) -> Vec<String> {
    read(text, true)
        .iter()
        .map(|one| String::from_utf8_lossy(one).into_owned())
        .collect()
}

fn read(text: &[u8], scripts: bool) -> Vec<Vec<u8>> {
    let mut model = Model {
        text,
        at: 0,
        heredocs: Vec::new(),
        scripts,
        backquotes: false,
    };
    let mut out = Vec::new();
    model.commands(true, &mut out, false);
    out
}

impl Model<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn looking_at(&self, text: &[u8]) -> bool {
        self.text[self.at..].starts_with(text)
    }

    fn closes(&self) -> bool {
        self.backquotes && self.peek() == Some(b'`')
    }

    /// Reads commands up to the end of the enclosing construct.
    fn commands(&mut self, outermost: bool, out: &mut Vec<Vec<u8>>, parens: bool) -> End {
        let mut open = 0;
        let mut inner = Vec::new();
        let mut emit_words = Vec::new();
        loop {
            let mut done = None;
            match self.peek() {
                None => done = Some(End::Text),
                Some(b'`') if self.backquotes => done = Some(End::Backquote),
                Some(b')') if parens && open == 0 => done = Some(End::Paren),
                Some(b' ' | b'\t') => {
                    self.at += 1;
                    continue;
                }
                Some(b'#') => {
                    while self.peek().is_some_and(|byte| byte != b'\n') && !self.closes() {
                        self.at += 1;
                    }
                    continue;
                }
                Some(b'\\') if self.looking_at(b"\\\n") => {
                    self.at += 2;
                    continue;
                }
                Some(b'&') if self.looking_at(b"&>") => {
                    self.redirect(&mut inner);
                    continue;
                }
                Some(byte @ (b'\n' | b';' | b'|' | b'&' | b'(' | b')')) => {
                    open += i32::from(byte == b'(');
                    open = (open - i32::from(byte == b')')).max(0);
                    self.at += 1;
                }
                Some(b'<' | b'>') if !self.is_process() => {
                    self.redirect(&mut inner);
                    continue;
                }
                Some(_) => {
                    let word = self.word(&mut inner);
                    let operator = matches!(self.peek(), Some(b'<' | b'>')) && !self.at_blank();
                    let is_number =
                        word.quote.is_none() && word.text.iter().all(u8::is_ascii_digit);
                    if !(operator && is_number) {
                        emit_words.push(word);
                    }
                    continue;
                }
            }
            self.finish(std::mem::take(&mut emit_words), outermost, &mut inner, out);
            if let Some(end) = done {
                return end;
            }
            if self.text[self.at - 1] == b'\n' {
                self.bodies();
            }
        }
    }

    fn at_blank(&self) -> bool {
        matches!(self.text[self.at - 1], b' ' | b'\t')
    }

    fn is_process(&self) -> bool {
        self.looking_at(b"<(") || self.looking_at(b">(")
    }

    fn redirect(&mut self, inner: &mut Vec<Vec<u8>>) {
        let operators: [&[u8]; 13] = [
            b"<<<", b"<<-", b"&>>", b">>", b">&", b">|", b"<<", b"<>", b"<&", b"&>", b"<", b">",
            b"",
        ];
        let operator = operators.iter().find(|one| self.looking_at(one)).unwrap();
        self.at += operator.len();
        while matches!(self.peek(), Some(b' ' | b'\t')) || self.looking_at(b"\\\n") {
            self.at += if self.looking_at(b"\\\n") { 2 } else { 1 };
        }
        let ends = self.peek().is_none_or(|byte| b"\n;|&()".contains(&byte))
            || self.closes()
            || self.peek() == Some(b'#')
            || matches!(self.peek(), Some(b'<' | b'>')) && !self.is_process();
        let heredoc = matches!(*operator, b"<<" | b"<<-");
        if ends && heredoc {
            return;
        }
        if ends {
            return inner.push(operator.to_vec());
        }
        let word = self.word(inner);
        if heredoc {
            if self.heredocs.len() < HEREDOCS {
                self.heredocs.push((word.text, *operator == b"<<-"));
            }
            return;
        }
        let mut text = [*operator, b" "].concat();
        text.extend(word.text);
        inner.push(text);
    }

    fn bodies(&mut self) {
        for (end, tabs) in std::mem::take(&mut self.heredocs) {
            while self.at < self.text.len() {
                let rest = &self.text[self.at..];
                let line = rest.split(|&byte| byte == b'\n').next().unwrap();
                let newline = line.len() < rest.len();
                self.at += line.len() + usize::from(newline);
                let blanks = line
                    .iter()
                    .take_while(|&&byte| tabs && byte == b'\t')
                    .count();
                if newline && line[blanks..] == end {
                    break;
                }
            }
        }
    }

    /// Reads a word of a command.
    fn word(&mut self, inner: &mut Vec<Vec<u8>>) -> Word {
        let mut word = Word::default();
        while let Some(byte) = self.peek() {
            match byte {
                b' ' | b'\t' | b'\n' | b';' | b'|' | b'&' | b'(' | b')' => break,
                b'<' | b'>' if !self.is_process() => {
                    break;
                }
                b'`' if self.backquotes => break,
                _ if self.is_process() => {
                    quote(&mut word);
                    word.text
                        .extend_from_slice(&self.text[self.at..self.at + 2]);
                    self.at += 2;
                    self.substitution(&mut word, inner, false);
                }
                _ => self.unit(&mut word, inner, b'\0'),
            }
        }
        word
    }

    /// Reads the next byte, quote or expansion; `inside` is the enclosing construct: `"`, `}` (`{` within quotes), `)`
    /// or none.
    fn unit(&mut self, word: &mut Word, inner: &mut Vec<Vec<u8>>, inside: u8) {
        let byte = self.peek().unwrap();
        self.at += 1;
        let quotes = matches!(inside, b'\0' | b'}');
        match byte {
            b'\\' => self.escaped(word, inside),
            b'\'' if quotes => {
                quote(word);
                while self.peek().is_some_and(|byte| byte != b'\'') && !self.closes() {
                    word.text.push(self.text[self.at]);
                    self.at += 1;
                }
                self.at += usize::from(self.peek() == Some(b'\''));
            }
            b'"' if inside != b'"' && inside != b')' => self.double(word, inner),
            b'`' => {
                quote(word);
                word.text.push(b'`');
                self.substitution(word, inner, true);
            }
            b'$' => self.dollar(word, inner, inside),
            _ => {
                if inside != b'\0' {
                    quote(word);
                }
                word.text.push(byte);
            }
        }
    }

    fn escaped(&mut self, word: &mut Word, inside: u8) {
        let stays = matches!(inside, b'"' | b')')
            && !matches!(self.peek(), Some(b'$' | b'`' | b'"' | b'\\' | b'\n'));
        match self.peek() {
            Some(b'\n') => self.at += 1,
            Some(byte) if !stays => {
                quote(word);
                word.text.push(byte);
                self.at += 1;
            }
            _ => {
                quote(word);
                word.text.push(b'\\');
            }
        }
    }

    fn double(&mut self, word: &mut Word, inner: &mut Vec<Vec<u8>>) {
        quote(word);
        while self.peek().is_some_and(|byte| byte != b'"') && !self.closes() {
            self.unit(word, inner, b'"');
        }
        self.at += usize::from(self.peek() == Some(b'"'));
    }

    fn dollar(&mut self, word: &mut Word, inner: &mut Vec<Vec<u8>>, inside: u8) {
        let quotes = matches!(inside, b'\0' | b'}');
        if self.looking_at(b"'") && quotes {
            self.at += 1;
            return self.ansi(word);
        }
        if self.looking_at(b"\"") && quotes {
            self.at += 1;
            return self.double(word, inner);
        }
        quote(word);
        word.text.push(b'$');
        if self.looking_at(b"((") {
            word.text.extend_from_slice(b"((");
            self.at += 2;
            let mut open = 2;
            while open > 0 && self.peek().is_some() && !self.closes() {
                open += i32::from(self.peek() == Some(b'('));
                open -= i32::from(self.peek() == Some(b')'));
                self.unit(word, inner, b')');
            }
        } else if self.looking_at(b"(") {
            word.text.push(b'(');
            self.at += 1;
            if self.at < self.text.len() {
                self.substitution(word, inner, false);
            }
        } else if self.looking_at(b"{") {
            word.text.push(b'{');
            self.at += 1;
            let quoted = matches!(inside, b'"' | b'{');
            while self.peek().is_some_and(|byte| byte != b'}') && !self.closes() {
                self.unit(word, inner, if quoted { b'{' } else { b'}' });
            }
            if self.peek() == Some(b'}') {
                word.text.push(b'}');
                self.at += 1;
            }
        }
    }

    fn substitution(&mut self, word: &mut Word, inner: &mut Vec<Vec<u8>>, backquotes: bool) {
        let before = std::mem::replace(&mut self.backquotes, backquotes);
        let end = self.commands(false, inner, !backquotes);
        self.backquotes = before;
        if end != End::Text {
            word.text.push(self.text[self.at]);
            self.at += 1;
        }
    }

    fn ansi(&mut self, word: &mut Word) {
        quote(word);
        while self.peek().is_some_and(|byte| byte != b'\'') && !self.closes() {
            let rest = &self.text[self.at..];
            let digits = |from: usize, most: usize, base: u32| {
                let is_digit = |byte: &&u8| (**byte as char).is_digit(base);
                rest[from.min(rest.len())..]
                    .iter()
                    .take(most)
                    .take_while(is_digit)
                    .count()
            };
            let value = |from: usize, len: usize, base: u32| {
                let digits = std::str::from_utf8(&rest[from..from + len]).unwrap();
                u32::from_str_radix(digits, base).unwrap()
            };
            let one = |byte: u8| (vec![byte], 2);
            let (text, used) = match (rest[0], rest.get(1)) {
                (b'\\', Some(b'n')) => one(b'\n'),
                (b'\\', Some(b't')) => one(b'\t'),
                (b'\\', Some(b'r')) => one(b'\r'),
                (b'\\', Some(b'a')) => one(0x07),
                (b'\\', Some(b'b')) => one(0x08),
                (b'\\', Some(b'f')) => one(0x0C),
                (b'\\', Some(b'v')) => one(0x0B),
                (b'\\', Some(&byte @ (b'\\' | b'\'' | b'"' | b'?'))) => one(byte),
                (b'\\', Some(b'e' | b'E')) => one(0x1B),
                (b'\\', Some(b'x')) if digits(2, 2, 16) > 0 => {
                    let len = digits(2, 2, 16);
                    (vec![value(2, len, 16) as u8], 2 + len)
                }
                (b'\\', Some(b'u')) if digits(2, 4, 16) > 0 => {
                    let len = digits(2, 4, 16);
                    let char = char::from_u32(value(2, len, 16)).unwrap_or('\u{FFFD}');
                    (char.to_string().into_bytes(), 2 + len)
                }
                (b'\\', Some(b'0'..=b'7')) => {
                    let len = digits(1, 3, 8);
                    (vec![value(1, len, 8) as u8], 1 + len)
                }
                (byte, _) => (vec![byte], 1),
            };
            word.text.extend(text);
            self.at += used;
        }
        self.at += usize::from(self.peek() == Some(b'\''));
    }

    /// Ends a command.
    fn finish(
        &mut self,
        emit_words: Vec<Word>,
        outermost: bool,
        inner: &mut Vec<Vec<u8>>,
        out: &mut Vec<Vec<u8>>,
    ) {
        let (emit_words, rest, script) = classify(emit_words, self.scripts);
        let mut all = Vec::new();
        let mut late = Vec::new();
        let join = |emit_words: &[Vec<u8>]| {
            let from = emit_words.iter().position(|word| !word.is_empty());
            from.map(|from| emit_words[from..].join(&b' '))
        };
        if outermost {
            all.extend(join(&emit_words));
            all.append(inner);
        } else {
            late.extend(join(&emit_words));
        }
        late.extend(rest.and_then(|rest| join(&emit_words[rest..])));
        if let Some(script) = script {
            late.extend(script.iter().flat_map(|&at| {
                let script: &[u8] = &emit_words[at];
                read(script, false)
            }));
        }
        if !outermost {
            out.append(inner);
        }
        out.append(&mut all);
        out.append(&mut late);
    }
}

fn quote(word: &mut Word) {
    let at = word.text.len();
    word.quote.get_or_insert(at);
}

/// Returns the words of the command, the index at which the wrapped command starts, and the index of the script.
fn classify(
    emit_words: Vec<Word>,
    scripts: bool,
) -> (Vec<Vec<u8>>, Option<usize>, Option<Option<usize>>) {
    let keywords = "if then elif else fi while until do done esac ! { } time coproc always";
    let is_assignment = |text: &str| {
        let name = text.split(['=']).next().unwrap();
        let name = name.strip_suffix('+').unwrap_or(name);
        let is_name = |char: char| char.is_ascii_alphanumeric() || char == '_';
        text.contains('=')
            && !name.is_empty()
            && name.chars().all(is_name)
            && !name.starts_with(|char: char| char.is_ascii_digit())
    };
    let left_out = |word: &Word| {
        let text = String::from_utf8_lossy(&word.text).into_owned();
        let plain = String::from_utf8_lossy(&word.text[..word.quote.unwrap_or(word.text.len())])
            .into_owned();
        word.quote.is_none() && keywords.split(' ').any(|keyword| keyword == text)
            || is_assignment(&plain)
    };
    let emit_words: Vec<Vec<u8>> = emit_words
        .into_iter()
        .skip_while(left_out)
        .map(|word| word.text)
        .collect();
    let text = |at: usize| {
        emit_words
            .get(at)
            .map(|word| String::from_utf8_lossy(word).into_owned())
    };
    let options = |name: &str| match name {
        "sudo" => Some(("ughpCDRTUrt", 0)),
        "env" => Some(("uCS", 0)),
        "nohup" => Some(("", 0)),
        "timeout" => Some(("ks", 1)),
        "xargs" => Some(("InPLdaEs", 0)),
        _ => None,
    };
    let name = |at: usize| text(at).map(|text| text.rsplit('/').next().unwrap().to_owned());
    let (mut at, mut rest) = (0, None);
    while let Some((letters, mut own)) = name(at).as_deref().and_then(options) {
        at += 1;
        while let Some(word) = text(at) {
            if word.len() > 1 && word.starts_with('-') {
                at += 1 + usize::from(word.len() == 2 && letters.contains(&word[1..]));
            } else if is_assignment(&word) {
                at += 1;
            } else if own > 0 {
                (own, at) = (own - 1, at + 1);
            } else {
                break;
            }
        }
        rest = (at < emit_words.len()).then_some(at);
    }
    let mut script = None;
    let shells = ["sh", "bash", "zsh"];
    if scripts && name(at).is_some_and(|name| shells.contains(&name.as_str())) {
        at += 1;
        while let Some(word) = text(at) {
            at += 1;
            if !word.starts_with(['-', '+']) {
                break;
            }
            if !word.starts_with("--") && word.contains('c') {
                script = (at < emit_words.len()).then_some(at);
                break;
            }
            at += usize::from(
                !word.starts_with("--") && word.len() > 1 && word.ends_with(['o', 'O']),
            );
        }
    }
    (emit_words, rest, Some(script))
}

// ---- Tests ----

const TOKENS: [&str; 78] = [
    "rm",
    "-rf",
    "/",
    "a",
    "b",
    "ls",
    "echo",
    "x=1",
    "Y=",
    "2",
    "10",
    "sudo",
    "-u",
    "root",
    "env",
    "-i",
    "nohup",
    "xargs",
    "-n",
    "timeout",
    "-k",
    "bash",
    "sh",
    "-c",
    "-lc",
    "-o",
    "--x",
    "if",
    "then",
    "fi",
    "!",
    "{",
    "}",
    "do",
    "\\",
    "\\\n",
    "'",
    "'",
    "\"",
    "\"",
    "\"",
    "$",
    "$(",
    "$(",
    "$((",
    "))",
    ")",
    ")",
    "(",
    "`",
    "`",
    "${",
    "}",
    "$'",
    "\\n",
    "\\x41",
    "\\'",
    "\\u00e9",
    "\\101",
    "$\"",
    "<",
    ">",
    ">>",
    "2>&1",
    "&>",
    "<<EOF\n",
    "<<-'E'\n",
    "\nEOF\n",
    "\n\tE\n",
    "<<<",
    "<(",
    "#",
    "é",
    "\r\n",
    "$x",
    "\\$",
    "/bin/bash",
    "=",
];
const BETWEEN: [&str; 16] = [
    " ", " ", " ", " ", " ", " ", "", "", "\n", ";", "&&", "|", "||", "&", "  ", "\t",
];

fn soup(random: &mut Random, most: usize) -> String {
    let mut text = String::new();
    for _ in 0..random.below(most + 1) {
        text += random.pick(&TOKENS);
        text += random.pick(&BETWEEN);
    }
    text
}

#[test]
fn generated_text_reads_as_in_the_model_under_every_cut() {
    let (mut cases, mut seed) = (0, 0);
    while cases < scale(940_000) {
        let mut random = Random::new(seed);
        let text = soup(&mut random, 14);
        let (heard, cut) = every_cut(text.as_bytes(), ShellLimits::default(), false, &mut random);
        assert_eq!(
            haystacks(&heard),
            model(text.as_bytes()),
            "seed {seed}: {text:?}"
        );
        let call = format!("{{\"command\":{}}}", serde_json::to_string(&text).unwrap());
        let (heard, more) = every_cut(call.as_bytes(), ShellLimits::default(), true, &mut random);
        assert_eq!(
            haystacks(&heard),
            model(text.as_bytes()),
            "seed {seed}: {call}"
        );
        cases += cut + more;
        seed += 1;
    }
    println!("shell: {cases} cases of {seed} generated texts");
}

#[test]
fn limits_lose_no_word_and_change_under_no_cut() {
    let (mut cases, mut seed, mut reached) = (0, 0, 0);
    while cases < scale(60_000) {
        let mut random = Random::new(seed);
        let text = soup(&mut random, 20) + &"w".repeat(random.below(700)) + &soup(&mut random, 6);
        let limits = ShellLimits {
            depth: 32,
            waiting: random.below(30),
        };
        let (heard, cut) = every_cut(text.as_bytes(), limits, false, &mut random);
        if !text.contains("sh") {
            let letters = |all: Vec<String>| {
                let mut letters: Vec<char> =
                    all.concat().chars().filter(|&char| char != ' ').collect();
                letters.sort_unstable();
                letters
            };
            assert_eq!(
                letters(haystacks(&heard)),
                letters(model(text.as_bytes())),
                "seed {seed}: {text:?}"
            );
        }
        reached += view([text.as_bytes()], limits, false, false).1.cut;
        let shallow = ShellLimits {
            depth: random.below(3),
            ..limits
        };
        cases += cut + every_cut(text.as_bytes(), shallow, false, &mut random).1;
        seed += 1;
    }
    assert!(reached > 0);
    println!("shell: {cases} cases of {seed} texts under small limits, {reached} cuts");
}

#[test]
fn real_calls_read_as_in_the_model_under_every_cut() {
    let Some(corpus) = skip::corpus() else {
        return;
    };
    let file = corpus.join("transcripts/transcripts.jsonl");
    let lines = std::fs::read_to_string(file).unwrap();
    let mut random = Random::new(7);
    let (mut cases, mut commands, mut found) = (0, 0, 0);
    for line in lines.lines() {
        let record: serde_json::Value = serde_json::from_str(line).unwrap();
        let text = record["text"].as_str().unwrap();
        let call: serde_json::Value = serde_json::from_str(text).unwrap_or_default();
        let Some(command) = call["command"].as_str() else {
            continue;
        };
        let want = model(command.as_bytes());
        let (heard, cut) = every_cut(text.as_bytes(), ShellLimits::default(), true, &mut random);
        assert_eq!(haystacks(&heard), want, "{command}");
        (cases, commands, found) = (cases + cut, commands + 1, found + want.len());
    }
    assert!(commands > 100);
    println!("shell: {cases} cases of {commands} real commands, {found} haystacks");
}

mod golden;

/// The arguments of a call, and whether the view reads commands from each.
#[derive(Debug, Default)]
struct ReadArguments(Vec<(String, bool)>);

impl HaystackSink for ReadArguments {
    fn open(&mut self, path: &ArgPath, _: u64) {
        let is_read = ShellInput::from_path(path).reads().is_some();
        self.0.push((path.dotted().to_owned(), is_read));
    }

    fn run(&mut self, _: &[u8], _: u64) {}

    fn escape(&mut self, _: &[u8], _: Range<u64>, _: u64) {}

    fn close(&mut self, _: DecidedOffset) {}
}

#[test]
fn globs_on_arguments_with_commands_are_those_of_the_view() {
    let call = br#"{"command":"a","cmd":["b"],"script":"c","steps":[{"input":"d","content":"e"}],
        "commands":["f"],"argv":["g",["h"]],"content":"i","edits":["j"],"args":{"argv":"k"}}"#;
    let mut found = ReadArguments::default();
    let mut decoder = JsonDecoder::new(128, 4096);
    decoder.push(call, &mut found);
    decoder.finish(&mut found);
    assert!(found.0.len() >= 10, "{found:?}");
    for (path, is_read) in found.0 {
        assert_eq!(may_have_commands(&path), is_read, "{path}");
    }
    for glob in [
        "*",
        "$raw",
        "steps.*.input",
        "arg?.*",
        "argv.*",
        "{cmd,content}",
        "**",
    ] {
        assert!(may_have_commands(glob), "{glob}");
    }
    for glob in [
        "content",
        "$keys",
        "edits.*.new_text",
        "command.text",
        "steps.0",
    ] {
        assert!(!may_have_commands(glob), "{glob}");
    }
}
