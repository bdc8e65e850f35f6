//! The oracle is `pulldown-cmark` on the whole text, which classifies every byte. It does not report the markers of
//! quotes; they are derived from its classification of the text after them.

use std::ops::Range;

use pulldown_cmark::{CodeBlockKind, Event, LinkType, Options, Parser, Tag as Markup, TagEnd};

use super::*;
use crate::test_sink::{Recorder, Seen, cuts, skip_or_corpus};
use ttsr_testing::{Random, scale};

fn read(deltas: &[&[u8]], mut markdown: MarkdownView) -> Vec<Seen> {
    let mut recorder = Recorder::default();
    let mut at = 0;
    for delta in deltas {
        if !delta.is_empty() {
            markdown.push(Chunk::verbatim(delta, at), &mut recorder);
        }
        at += delta.len() as u64;
    }
    markdown.cut(DecidedOffset::at_once(at), &mut recorder);
    recorder.seen
}

/// The region of each byte, and the text and the language of each code block.
#[derive(Debug, Default, PartialEq)]
struct Regioned {
    bytes: Vec<Option<RegionSet>>,
    blocks: Vec<(Option<String>, String)>,
}

fn ours(text: &[u8], seen: &[Seen]) -> Regioned {
    let mut bytes = vec![None; text.len()];
    let mut blocks = Vec::new();
    let mut block: Option<(Option<String>, Vec<u8>)> = None;
    let mut last = 0;
    for one in seen {
        match *one {
            Seen::Byte {
                byte,
                tag,
                start,
                end,
                decided,
            } => {
                assert!(last <= start && start < end && end <= decided);
                let at = start as usize;
                assert!(byte == text[at] || (byte == b' ' && text[at] == b'\t'));
                last = start;
                bytes[at] = Some(tag.regions);
                if tag.regions.contains(RegionSet::CODE) {
                    let language = tag.language.map(|language| language.name().to_owned());
                    block
                        .get_or_insert((language, Vec::new()))
                        .1
                        .push(if text[at] == 0 { b'?' } else { byte });
                }
            }
            Seen::Turn(..) => {}
            Seen::Cut(..) => blocks.extend(block.take()),
        }
    }
    let text = |bytes: Vec<u8>| without_returns(&String::from_utf8(ascii(&bytes)).unwrap());
    Regioned {
        bytes,
        blocks: blocks
            .into_iter()
            .map(|(language, bytes)| (language, text(bytes)))
            .collect(),
    }
}

fn without_returns(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\0', "?")
}

/// Returns the text with a letter in place of each byte that is not ASCII.
fn ascii(text: &[u8]) -> Vec<u8> {
    text.iter()
        .map(|&byte| if byte.is_ascii() { byte } else { b'x' })
        .collect()
}

/// The reason why a text is not compared: a documented difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Apart {
    Html,
    Target,
    Definition,
    LoneReturn,
    Long,
    /// A span over several lines of a quote, where the oracle does not report markers.
    Untold,
    /// A tab before the marker of a quote, whose columns the oracle does not count.
    Tab,
    /// Trailing blanks without a line ending, which the oracle drops from code.
    LastBlanks,
}

const APART: [Apart; 8] = [
    Apart::Html,
    Apart::Target,
    Apart::Definition,
    Apart::LoneReturn,
    Apart::Long,
    Apart::Untold,
    Apart::Tab,
    Apart::LastBlanks,
];

struct Oracle<'a> {
    text: &'a str,
    regions: Vec<Option<RegionSet>>,
    /// Bytes that are certainly not markers.
    leaf: Vec<bool>,
    /// Bytes in a quote, whatever their line starts with.
    quoted: Vec<bool>,
    blocks: Vec<(Option<String>, String)>,
    quotes: usize,
    heading: bool,
    code: Option<Code>,
}

struct Code {
    language: Option<Option<String>>,
    text: String,
}

impl<'a> Oracle<'a> {
    fn read(text: &'a str) -> Result<Regioned, Apart> {
        if text.replace("\r\n", "").contains('\r') {
            return Err(Apart::LoneReturn);
        }
        let last = text.rsplit('\n').next().unwrap();
        if !last.is_empty() && last.trim_matches([' ', '\t', '>']).is_empty() {
            return Err(Apart::LastBlanks);
        }
        if ["\t>", "\t >", "\t  >", "\t   >"]
            .iter()
            .any(|tab| text.contains(tab))
        {
            return Err(Apart::Tab);
        }
        let mut oracle = Oracle {
            text,
            regions: vec![Some(RegionSet::PROSE); text.len()],
            leaf: vec![false; text.len()],
            quoted: vec![false; text.len()],
            blocks: Vec::new(),
            quotes: 0,
            heading: false,
            code: None,
        };
        let parser = Parser::new_ext(text, Options::empty());
        if parser.reference_definitions().iter().next().is_some() {
            return Err(Apart::Definition);
        }
        let mut ends = Vec::new();
        for (event, range) in parser.into_offset_iter() {
            oracle.event(event, range, &mut ends)?;
        }
        oracle.quotes();
        for (regions, quoted) in oracle.regions.iter_mut().zip(&oracle.quoted) {
            if let (Some(regions), true) = (regions, quoted) {
                *regions = *regions | RegionSet::QUOTE;
            }
        }
        Ok(Regioned {
            bytes: oracle.regions,
            blocks: oracle.blocks,
        })
    }

    /// `ends` holds the end so far of the content of each open link.
    fn event(
        &mut self,
        event: Event<'_>,
        range: Range<usize>,
        ends: &mut Vec<usize>,
    ) -> Result<(), Apart> {
        if let Event::End(TagEnd::Link | TagEnd::Image) = &event {
            let content = ends.pop().unwrap();
            if self.text[content.min(range.end)..range.end].contains('`') {
                return Err(Apart::Target);
            }
        }
        if let Some(end) = ends.last_mut() {
            *end = range.end.max(*end);
        }
        match event {
            Event::Start(Markup::HtmlBlock) => return Err(Apart::Html),
            Event::InlineHtml(_) if self.text[range.clone()].contains('`') => {
                return Err(Apart::Html);
            }
            Event::Start(Markup::Link { link_type, .. } | Markup::Image { link_type, .. }) => {
                let auto = matches!(link_type, LinkType::Autolink | LinkType::Email);
                if auto && self.text[range.clone()].contains('`') {
                    return Err(Apart::Target);
                }
                if let Some(end) = ends.last_mut() {
                    *end = range.start;
                }
                ends.push(range.start);
            }
            Event::Start(Markup::BlockQuote(_)) => self.quotes += 1,
            Event::End(TagEnd::BlockQuote(_)) => self.quotes -= 1,
            Event::Start(Markup::Paragraph) => self.quote_lines(range),
            Event::Start(Markup::Heading { .. }) => self.start_heading(range),
            Event::End(TagEnd::Heading(_)) => self.heading = false,
            Event::Start(Markup::CodeBlock(kind)) => self.start_code(kind, range),
            Event::End(TagEnd::CodeBlock) => {
                let code = self.code.take().unwrap();
                if !code.text.is_empty() {
                    self.blocks.push((code.language.flatten(), code.text));
                }
            }
            Event::Text(text) => {
                self.quote_lines(range.clone());
                self.put(&text, range);
            }
            // Items of a tight list have no paragraphs.
            Event::SoftBreak | Event::HardBreak => self.quote_lines(range.end..range.end + 1),
            Event::Code(_) => {
                self.quote_lines(range.clone());
                return self.span(range);
            }
            _ => {}
        }
        Ok(())
    }

    /// Marks the lines of a paragraph in a quote, which belong to it even without a marker.
    fn quote_lines(&mut self, range: Range<usize>) {
        if self.quotes > 0 {
            let end = self.line_end(range.end.min(self.text.len()));
            self.quoted[range.start..end].fill(true);
        }
    }

    /// Returns the end of the line that contains `at`.
    fn line_end(&self, at: usize) -> usize {
        let bytes = self.text.as_bytes();
        if at > 0 && bytes[at - 1] == b'\n' {
            return at;
        }
        bytes[at..]
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(bytes.len(), |feed| at + feed + 1)
    }

    /// Returns the start of the blanks before `at`.
    fn blanks_before(&self, at: usize) -> usize {
        let blanks = self.text.as_bytes()[..at].iter().rev();
        at - blanks
            .take_while(|byte| matches!(byte, b' ' | b'\t'))
            .count()
    }

    fn start_heading(&mut self, range: Range<usize>) {
        self.quote_lines(range.clone());
        let start = range.start + blanks(&self.text[range.clone()]);
        let marks = self.text[start..]
            .bytes()
            .take_while(|&b| b == b'#')
            .count();
        let behind = self.text.as_bytes().get(start + marks);
        if !(1..=6).contains(&marks) || !behind.is_none_or(u8::is_ascii_whitespace) {
            return;
        }
        self.heading = true;
        let content = start + marks + blanks(&self.text[start + marks..]);
        let from = self.blanks_before(start);
        self.regions[from..content].fill(None);
        let end = self.line_end(range.end.max(start + marks));
        let line = self.text[content..end].trim_end_matches('\n');
        if line != "\r" {
            let end = content + line.len();
            self.regions[content..end].fill(Some(RegionSet::HEADING | RegionSet::PROSE));
            self.leaf[content..end].fill(true);
        }
    }

    fn start_code(&mut self, kind: CodeBlockKind<'_>, range: Range<usize>) {
        let from = self.blanks_before(range.start);
        let language = match kind {
            CodeBlockKind::Fenced(info) => {
                let end = self.line_end(range.end);
                self.regions[from..end].fill(None);
                if self.quotes > 0 {
                    self.quoted[from..end].fill(true);
                }
                Some(language_of(&info))
            }
            CodeBlockKind::Indented => None,
        };
        self.code = Some(Code {
            language,
            text: String::new(),
        });
    }

    fn put(&mut self, text: &str, range: Range<usize>) {
        let Some(code) = &mut self.code else {
            self.leaf[range].fill(true);
            return;
        };
        code.text
            .push_str(&without_returns(&text.replace('\u{FFFD}', "?")));
        let indented = code.language.is_none();
        if range.is_empty() {
            return;
        }
        // The oracle omits the carriage return of a line ending.
        let bytes = self.text.as_bytes();
        let line = range.start == 0 || bytes[range.start - 1] == b'\n';
        let start = range.start
            - usize::from(!line && bytes[range.start] == b'\n' && bytes[range.start - 1] == b'\r');
        if indented && start == range.start {
            let from = self.blanks_before(start);
            self.regions[from..start].fill(None);
        }
        self.regions[start..range.end].fill(Some(RegionSet::CODE));
        self.leaf[start..range.end].fill(true);
        if self.quotes > 0 {
            self.quoted[start..range.end].fill(true);
        }
    }

    fn span(&mut self, range: Range<usize>) -> Result<(), Apart> {
        if range.len() > HELD {
            return Err(Apart::Long);
        }
        let raw = &self.text[range.clone()];
        let run = raw.bytes().take_while(|&byte| byte == b'`').count();
        let content = range.start + run..range.end - run;
        let tag = match self.heading {
            true => RegionSet::INLINE_CODE | RegionSet::HEADING,
            false => RegionSet::INLINE_CODE,
        };
        self.regions[range.clone()].fill(None);
        self.regions[content.clone()].fill(Some(tag));
        self.leaf[range.clone()].fill(true);
        for at in content.clone() {
            if self.text.as_bytes()[at] == b'\n' && self.quotes > 0 {
                self.line_of_span(at + 1, range.end)?;
            }
        }
        Ok(())
    }

    /// Marks the quote markers at the start of a line inside a span.
    fn line_of_span(&mut self, start: usize, end: usize) -> Result<(), Apart> {
        let line = &self.text[start..end];
        let head = line.trim_start_matches([' ', '>']);
        let head = &line[..line.len() - head.len()];
        if head.contains("    ") || line[head.len()..].starts_with('\t') || self.quotes > 1 {
            return Err(Apart::Untold);
        }
        if let Some(mark) = head.find('>') {
            let space = usize::from(head[mark + 1..].starts_with(' '));
            if self.lists_may_hide(start) {
                return Err(Apart::Untold);
            }
            self.regions[start..start + mark + 1 + space].fill(None);
        }
        Ok(())
    }

    /// Returns true if the text before `at` can have opened a list item around or in the quote.
    fn lists_may_hide(&self, at: usize) -> bool {
        self.text[..at].contains(['-', '+', '*', '.', ')'])
    }

    /// Marks the markers of quotes and the text after them.
    fn quotes(&mut self) {
        let mut start = 0;
        for line in self.text.split_inclusive('\n') {
            let (mut at, end) = (start, start + line.len());
            let mut behind = None;
            loop {
                let from = at;
                at += blanks(&self.text[at..end]);
                let byte = self.text.as_bytes()[..end].get(at);
                match byte {
                    Some(b'>') if !self.leaf[at] => {
                        at += 1;
                        let space = self.text[at..end].starts_with(' ')
                            && (!self.leaf[at] || self.text.as_bytes()[at - 1] == b'>');
                        let space = usize::from(space && !self.leaf[at]);
                        self.regions[from..at + space].fill(None);
                        at += space;
                        behind.get_or_insert(at);
                    }
                    Some(b'-' | b'+' | b'*') if !self.leaf[at] => at += 1,
                    Some(b'0'..=b'9') if !self.leaf[at] => at += 1,
                    Some(b'.' | b')') if !self.leaf[at] => at += 1,
                    _ => break,
                }
            }
            if let Some(behind) = behind {
                self.quoted[behind..end].fill(true);
            }
            start = end;
        }
    }
}

fn blanks(text: &str) -> usize {
    text.bytes()
        .take_while(|byte| matches!(byte, b' ' | b'\t'))
        .count()
}

/// Returns the documented language of an info string without escapes.
fn language_of(info: &str) -> Option<String> {
    let word = info.trim_start_matches(['{', '.']);
    let end = word.find(|char: char| char.is_ascii_whitespace() || ",:;{}".contains(char));
    let word = &word[..end.unwrap_or(word.len())];
    (!word.is_empty() && word.len() <= Language::BYTES).then(|| word.to_ascii_lowercase())
}

/// Compares with the oracle on the whole text, and with the view itself under cuts. Returns the number of cases.
fn check(text: &[u8], random: &mut Random, apart: &mut [usize; APART.len()]) -> usize {
    let whole = read(&[text], MarkdownView::new());
    let plain = String::from_utf8(ascii(text)).unwrap();
    match Oracle::read(&plain) {
        Ok(expected) => compare(&plain, &ours(text, &whole), &expected, text.is_ascii()),
        Err(reason) => apart[APART.iter().position(|&one| one == reason).unwrap()] += 1,
    }
    1 + cuts(text, random, |deltas| {
        assert_eq!(read(deltas, MarkdownView::new()), whole, "{deltas:?}");
    })
}

fn compare(text: &str, ours: &Regioned, expected: &Regioned, named: bool) {
    // The oracle reports no offset for the spaces that remain of a tab; the texts of the blocks contain them.
    let is_left_of_tab = |at: usize| {
        text.as_bytes()[at] == b'\t'
            && expected.bytes[at].is_none()
            && ours.bytes[at].is_some_and(|one| one.contains(RegionSet::CODE))
    };
    let differs =
        (0..text.len()).find(|&at| ours.bytes[at] != expected.bytes[at] && !is_left_of_tab(at));
    if let Some(at) = differs {
        let show = |regions: &[Option<RegionSet>]| -> String {
            regions.iter().map(|one| letter(*one)).collect()
        };
        panic!(
            "byte {at} of {text:?}\nours   {}\noracle {}",
            show(&ours.bytes),
            show(&expected.bytes)
        );
    }
    let named = named && !text.contains(['&', '\\', '\0']);
    for (index, (ours, oracle)) in ours.blocks.iter().zip(&expected.blocks).enumerate() {
        assert_eq!(ours.1, oracle.1, "block {index} of {text:?}");
        assert!(
            !named || ours.0 == oracle.0,
            "{ours:?} {oracle:?} of {text:?}"
        );
    }
    assert_eq!(
        ours.blocks.len(),
        expected.blocks.len(),
        "blocks of {text:?}"
    );
}

fn letter(regions: Option<RegionSet>) -> char {
    let Some(regions) = regions else { return '.' };
    let letter = match regions {
        _ if regions.contains(RegionSet::CODE) => 'c',
        _ if regions.contains(RegionSet::INLINE_CODE) => 'i',
        _ if regions.contains(RegionSet::HEADING) => 'h',
        _ => 'p',
    };
    match regions.contains(RegionSet::QUOTE) {
        true => letter.to_ascii_uppercase(),
        false => letter,
    }
}

/// Returns a text with many bytes that are special in Markdown.
fn markdown_text(random: &mut Random) -> Vec<u8> {
    const HEADS: [&[u8]; 22] = [
        b"", b"", b"", b"", b"> ", b">", b">  ", b">\t", b"- ", b"-", b"-   ", b"-\t", b"* ",
        b"1. ", b"2) ", b"10.  ", b" ", b"  ", b"   ", b"    ", b"\t", b"     ",
    ];
    const TEXTS: [&[u8]; 44] = [
        b"",
        b"",
        b"a",
        b"b c",
        b"```",
        b"````",
        b"```rust",
        b"``` Rust,x",
        b"```a`b",
        b"~~~",
        b"~~~~",
        b"~~~ py`",
        b"`",
        b"``",
        b"`a`",
        b"``a`b``",
        b"\\`",
        b"\\\\`",
        b"a `b",
        b"c` d",
        b"# h",
        b"#",
        b"###### x #",
        b"####### y",
        b"#z",
        b"---",
        b"***",
        b"- - -",
        b"* * *a",
        b"___",
        b"===",
        b"--",
        b"==  ",
        b"**b** `x`",
        b"| a | `b` |",
        b"\0",
        b"\xFF",
        b"\xC3\xA9",
        b"```   ",
        b"# `h` `",
        b"-x",
        b"1.x",
        b"1234567890. a",
        b"[a](b)",
    ];
    const ENDS: [&[u8]; 6] = [b"\n", b"\n", b"\n", b"\r\n", b"\n\n", b" \n"];
    let mut text = Vec::new();
    for _ in 0..=random.below(7) {
        for _ in 0..random.below(3) {
            text.extend_from_slice(random.pick(&HEADS));
        }
        for _ in 0..=random.below(2) {
            text.extend_from_slice(random.pick(&TEXTS));
        }
        text.extend_from_slice(random.pick(&ENDS));
    }
    if random.below(3) == 0 {
        text.truncate(random.below(text.len() + 1));
    }
    text
}

#[test]
fn generated_text_is_what_the_oracle_says_however_it_is_cut() {
    let mut random = Random::new(5);
    let (mut cases, mut texts, mut apart) = (0, 0, [0; APART.len()]);
    let full = scale(1_200_000);
    while cases < full {
        let text = markdown_text(&mut random);
        cases += check(&text, &mut random, &mut apart);
        texts += 1;
    }
    println!(
        "markdown: {cases} cases of {texts} generated texts; not compared: {APART:?} {apart:?}"
    );
}

#[test]
fn the_corpus_is_what_the_oracle_says_however_it_is_cut() {
    let Some(texts) = skip_or_corpus() else {
        return;
    };
    let mut random = Random::new(6);
    let (mut cases, mut apart) = (0, [0; APART.len()]);
    let every = (100 / scale(100)).max(1);
    let texts: Vec<&String> = texts.iter().step_by(every).collect();
    for text in &texts {
        cases += check(text.as_bytes(), &mut random, &mut apart);
    }
    let count = texts.len();
    println!("markdown: {cases} cases of {count} texts; not compared: {APART:?} {apart:?}");
}

#[test]
fn lines_are_what_the_documentation_says() {
    let mut random = Random::new(7);
    let cases = [
        ("a `b` c", "pp.i.pp"),
        ("```Rust,x\nb\n```\nc", "..........cc....p"),
        ("> a\nb\n\nc", "..PPPPpp"),
        ("# a `b` #\nc", "..hh.i.hhpp"),
        ("a\n===\n", "pppppp"),
        ("- ```\n  a\nb", "p.......ccp"),
        ("a `b\n\nc`", "pppppppp"),
        ("~~~\na", "....c"),
        ("<b>\n```\na\n```", "pppp....cc..."),
    ];
    for (text, expected) in cases {
        let seen = read(&[text.as_bytes()], MarkdownView::new());
        let ours = ours(text.as_bytes(), &seen);
        let letters: String = ours.bytes.iter().map(|&one| letter(one)).collect();
        assert_eq!(letters, expected, "{text:?}");
        cuts(text.as_bytes(), &mut random, |deltas| {
            assert_eq!(read(deltas, MarkdownView::new()), seen, "{deltas:?}");
        });
    }
}

#[test]
fn bounds_hold_and_do_not_depend_on_the_cut() {
    let mut random = Random::new(8);
    for _ in 0..scale(2_000) {
        let text = markdown_text(&mut random);
        let bounds = || MarkdownView::with_limits(16, 2);
        let whole = read(&[&text], bounds());
        cuts(&text, &mut random, |deltas| {
            assert_eq!(read(deltas, bounds()), whole, "{deltas:?}");
        });
    }
}

#[test]
fn a_carriage_return_that_is_the_last_there_is_room_for_ends_no_line() {
    let mut random = Random::new(9);
    for beginning in ["```", "~~~", "```a\n```", "-", "#", ">", " ", "1", "="] {
        for returns in 0..20 {
            let text = format!("{beginning}{}x", "\r".repeat(returns));
            let bounds = || MarkdownView::with_limits(16, 2);
            let whole = read(&[text.as_bytes()], bounds());
            assert!(!whole.is_empty(), "{text:?}");
            cuts(text.as_bytes(), &mut random, |deltas| {
                assert_eq!(read(deltas, bounds()), whole, "{deltas:?}");
            });
        }
    }
}

/// Buffers never exceed the bounds, and all of the text is emitted.
#[test]
fn hostile_text_does_not_make_more_wait_than_the_bounds() {
    let runs: String = (0..100_000)
        .map(|at| ["`", "`` ", "``` "][at % 3])
        .collect();
    let growing: String = (1..450).map(|len| "`".repeat(len) + "a").collect();
    let texts = [
        "`".repeat(100_000),
        ">".repeat(100_000),
        "> ".repeat(50_000),
        "- ".repeat(50_000),
        "* - ".repeat(25_000),
        " ".repeat(100_000),
        "    a\n".to_owned() + &"\n".repeat(100_000),
        "- - - - - - - - a\n".to_owned() + &"\n".repeat(100_000),
        "```\n".to_owned() + &"`".repeat(100_000),
        "\\".repeat(100_000) + "`",
        "1".repeat(100_000),
        "#".repeat(100_000),
        "=".repeat(100_000),
        runs,
        growing,
    ];
    for text in &texts {
        let mut markdown = MarkdownView::new();
        let mut recorder = Recorder::default();
        for (at, byte) in text.as_bytes().chunks(1).enumerate() {
            markdown.push(Chunk::verbatim(byte, at as u64), &mut recorder);
            assert!(markdown.buffered_len() <= 3 * (HELD + 1), "too much waits");
            assert!(markdown.containers.len() <= DEPTH);
        }
        let end = text.len() as u64;
        markdown.cut(DecidedOffset::at_once(end), &mut recorder);
        assert_eq!(recorder.seen, read(&[text.as_bytes()], MarkdownView::new()));
        assert_eq!(markdown.buffered_len(), 0);
    }
}

impl MarkdownView {
    fn buffered_len(&self) -> usize {
        self.line.buffered_len() + self.spans.buffered_len() + self.blanks.held.bytes().len()
    }
}

/// Returns the offset of each emitted byte, with the number of bytes delivered when it was certain.
fn decided(text: &str, markdown: MarkdownView) -> Vec<(u64, u64)> {
    let seen = read(&[text.as_bytes()], markdown);
    let bytes = seen.iter().filter_map(|one| match *one {
        Seen::Byte { start, decided, .. } => Some((start, decided)),
        _ => None,
    });
    bytes.collect()
}

#[test]
fn a_byte_is_certain_as_soon_as_it_can_be() {
    // The first backtick can open a span until the second one; the text after that is plain.
    let span = [(0, 1), (1, 2), (3, 6), (5, 6), (6, 7)];
    assert_eq!(
        decided("a `b` c", MarkdownView::new())[..3],
        [(0, 1), (1, 2), (3, 6)]
    );
    assert_eq!(decided("a `b` c", MarkdownView::new())[3..], span[3..]);
    // It cannot any longer when the paragraph has ended.
    assert_eq!(
        decided("`b\n\nc", MarkdownView::new()),
        [(0, 4), (1, 4), (2, 4), (3, 4), (4, 5)]
    );
    // A list marker can start a thematic break, and blanks can precede anything.
    assert_eq!(
        decided("- a", MarkdownView::new()),
        [(0, 3), (1, 3), (2, 3)]
    );
    assert_eq!(decided(" a", MarkdownView::new()), [(0, 2), (1, 2)]);
    // Code is certain at once, except for a run that can close it.
    assert_eq!(
        decided("```\na\n``b", MarkdownView::new()),
        [(4, 5), (5, 6), (6, 9), (7, 9), (8, 9)]
    );
    // A run that is too short cannot close it.
    assert_eq!(
        decided("````\n``` b", MarkdownView::new()),
        [(5, 9), (6, 9), (7, 9), (8, 9), (9, 10)]
    );
    // A block ends with its last line, once the closing fence is complete.
    let seen = read(&[b"```\nab\n```\nc"], MarkdownView::new());
    let cuts = seen.iter().filter_map(|one| match *one {
        Seen::Cut(end, decided) => Some((end, decided)),
        _ => None,
    });
    assert_eq!(cuts.collect::<Vec<_>>(), [(7, 11), (12, 12)]);
    // A backtick after a backslash is not buffered once the run before it is decided.
    let given_up = decided("``ab\\`cdef", MarkdownView::with_limits(6, 4));
    let all_at_once = (0..6).map(|at| (at, 7));
    let then = [(6, 7), (7, 8), (8, 9), (9, 10)];
    assert_eq!(given_up, all_at_once.chain(then).collect::<Vec<_>>());
}

#[test]
fn a_run_that_was_waited_for_too_long_is_text_and_a_backslash_behind_it_still_counts() {
    let seen = read(&[b"`ab\\`c`d"], MarkdownView::with_limits(4, 4));
    let ours = ours(b"`ab\\`c`d", &seen);
    assert_eq!(ours.bytes, [Some(RegionSet::PROSE); 8]);
}

#[test]
fn lines_that_are_easily_mistaken_are_what_the_oracle_says() {
    let mut random = Random::new(10);
    let mut apart = [0; APART.len()];
    let texts = [
        // Text that is indented by four columns starts no block.
        "> a\n   > b\n",
        "> a\n    > b\n",
        "> a\n\n    > b\n",
        "    > a\n",
        "\t> a\n",
        "   # a\n",
        "    # a\n",
        "a\n    # b\n",
        "a\n    - b\n",
        "   ```\na\n   ```\n",
        "    ```\na\n",
        "```\na\n    ```\nb\n```\nc\n",
        "```\na\n   ```\nb\n",
        "> ```\n> a\n> ```\n> b\n",
        "> ```\n> a\nb\n",
        "> - a\n>   b\n> c\n",
        // Thematic breaks, items and underlines.
        "- - -\n`a`\n",
        "- - -x\n",
        "* * *\n",
        "*  *  *  a\n",
        "**  *\n",
        "** a\n",
        "***\na\n",
        "---\n",
        "a\n---\nb\n",
        "a\n- - -\nb\n",
        "a\n-  -\nb\n",
        "a\n- -\n    b\n",
        "a\n-\nb\n",
        "a\n- b\n",
        "- a\n- - b\n",
        "- - a\n  - b\n",
        "_ _ _\n",
        "_ _\n",
        "__ _\nb\n",
        "+ a\n+ + b\n",
        "a\n===\nb\n",
        "a\n= =\nb\n",
        "a\n===  \nb\n",
        "===\na\n",
        "> a\n===\n",
        "> a\n---\n",
        "- a\n---\n",
        "- * * *\n",
        "- ***\n  a\n",
        "- - -\n- -\n",
        "* - * -\n",
        // Numbers.
        "1. a\n",
        "12) a\n",
        "123456789. a\n   b\n",
        "1234567890. a\n",
        "a\n1. b\n",
        "a\n2. b\n",
        "a\n10. b\n",
        "a\n01. b\n",
        "`a\n11. b`\n",
        "`a\n01. b`\n",
        "`a\n00. b`\n",
        "`a\n+ \nb`\n",
        "1.a\n",
        "1 . a\n",
        "1.\n",
        "1.\n\n   a\n",
        "-\n\n  a\n",
        "-\n\n      a\n",
        "-\n      a\n",
        "-\n  a\n\n  b\n",
        "-     a\n",
        "-    a\n\n     b\n",
        "-\ta\n\n\tb\n",
        "9. ```\n   a\n   ```\n",
        "10. ```\n    a\n    ```\n",
        "10. ```\n   a\n",
        // Fences.
        "~~~~\na\n~~~\nb\n~~~~\nc\n",
        "~~~~\na\n~~~~~\nb\n",
        "```\na\n``` \nb\n",
        "```\na\n``` x\nb\n",
        "``` a`b\nc\n",
        "~~~ a`b\nc\n~~~\n",
        "~~~ a~~~\nc\n",
        "``\na\n``\n",
        "~~\na\n",
        "```\n\n\na\n```\n",
        "- ```\n\n  a\n  ```\n",
        "- ```\n a\n",
        "  ```\n   a\n a\n```\n",
        "> ~~~\n>\n> a\n>\n\nb\n",
        "```a b\nc",
        "```  rust  \nc\n```",
        "```{.rust}\nc\n```",
        "``` \tgo\nc\n",
        "a\n```\nb\n```\nc\n",
        // Indented code.
        "    a\n\n    b\nc\n",
        "    a\n  \n    b\n",
        "    a\n      \n    b\n",
        "    a\n\n\n\nb\n",
        "\ta\n\t\tb\n",
        "  \ta\n",
        "- a\n\n      b\n",
        "-     a\n\t\t \n      b\n",
        "  ```\n\tb\n  ```\n",
        "> \ta\n",
        ">     a\n>\n>     b\n",
        "    a\n\n",
        "a\n\n    b\n\nc\n",
        "    a\n\n> b\n",
        // Code spans.
        "`a` `` b` `` c\n",
        "`a``b`\n",
        "``a`b``\n",
        "`a\nb`\n",
        "`a\n\nb`\n",
        "\\`a`b`\n",
        "\\\\`a`\n",
        "`a\\`b`\n",
        "`` ` ``\n",
        "# `a\n`b\n",
        "> `a\n> b`\n",
        "`a\n> b`\n",
        "- `a\n  b`\n",
        "`a\n- b`\n",
        "`a\n# b`\n",
        "`a\n---\nb`\n",
        "`a\n--\nb`\n",
        "`a\n-- \nb`\n",
        "`a\n- -\nb`\n",
        "`a\n==\nb`\n",
        "`a\n= =\nb`\n",
        "`a\n```\nb\n",
        "`` a\n",
        "a ``` b `c` ```\n",
        // Headings.
        "# a\n",
        "#a\n",
        "####### a\n",
        "###### a ##\n",
        "#\n",
        "#\ta\n",
        "# \n",
        "# a\n`b`\n",
        "> # `a` b\n",
        "- # a\n",
        "a\n# b\nc\n",
        "## `a\nb`\n",
        // Ends.
        "",
        "\n",
        " ",
        "\r\n",
        "a\r\nb\r\n",
        "```\r\na\r\n```\r\n",
        "\ra",
        "- a\r\n\r\n  b\r\n",
        "# a\r\n",
        "a `b",
        "> ",
        ">",
        "- ",
        "1",
        "#",
        "```",
        "    ",
        "> a\n>\n",
        "- a\n\n\n",
        "- x\n\n      a\n        \n      b\n",
        "> x\n>\n>     a\n>       \n>     b\n",
        "    a\n        \n    b\n",
        "é `ü` 😀\n",
        "```é\nü\n",
    ];
    for text in texts {
        check(text.as_bytes(), &mut random, &mut apart);
        check(format!("x\n\n{text}").as_bytes(), &mut random, &mut apart);
        check(format!("{text}\ny `z`").as_bytes(), &mut random, &mut apart);
    }
    let compared = 3 * texts.len() - apart.iter().sum::<usize>();
    assert!(compared > 2 * texts.len(), "{APART:?} {apart:?}");
}

/// Returns a letter for each byte, under small bounds, and asserts that they are the same for every cut.
fn bounded(text: &str, held: usize, depth: usize) -> String {
    let bounds = || MarkdownView::with_limits(held, depth);
    let seen = read(&[text.as_bytes()], bounds());
    let mut random = Random::new(11);
    cuts(text.as_bytes(), &mut random, |deltas| {
        assert_eq!(read(deltas, bounds()), seen, "{deltas:?}");
    });
    let ours = ours(text.as_bytes(), &seen);
    ours.bytes.iter().map(|&one| letter(one)).collect()
}

#[test]
fn a_construct_that_waits_beyond_the_bound_is_read_as_text() {
    let mut wrong = Vec::new();
    for (text, held, expected) in [
        // A run of backticks.
        ("`abc` d", 6, ".iii.pp"),
        ("`abcdefg` d", 6, "ppppppppppp"),
        ("```````` a `b` c", 6, "ppppppppppp.i.pp"),
        ("a ````````` `b`", 6, "pppppppppppp.i."),
        // A run that can still open a span remains buffered, even if it has only started.
        ("``` a `b c` d", 8, "pppppp.iii.pp"),
        ("``ab\\``c` d", 6, "pppppp.i.pp"),
        // Blank lines in indented code.
        ("    a\n\n\n\n    b", 4, "....ccccc....c"),
        ("    a\n  \n  \n    b", 6, "....cc..c..c....c"),
        ("    a\n  \n  \n    b", 5, "....ccpppppp....c"),
        // The start of a line.
        ("  ```\na", 8, "......c"),
        ("```abc\nd", 8, ".......c"),
        ("```abcdefgh\nd", 8, "ppppppppppppp"),
        ("~~~abcdefgh\nd", 8, "............c"),
        ("- - - - -\n", 12, "pppppppppp"),
        ("- - - - -\n", 6, "pppppppppp"),
        ("-\r     b", 16, "pppppppp"),
        ("        a", 4, "....ccccc"),
        ("123456789. a", 4, "pppppppppppp"),
        ("=========\n", 4, "pppppppppp"),
        ("a\n=========\nb", 4, "ppppppppppppp"),
        ("```\n``````x\n", 4, "....cccccccc"),
    ] {
        let letters = bounded(text, held, 4);
        if letters != expected {
            wrong.push(format!("({text:?}, {held}, {letters:?}),"));
        }
    }
    for (text, depth, expected) in [
        ("> > a", 2, "....P"),
        ("> > > a", 2, "....PPP"),
        ("- - a", 2, "ppppp"),
        ("- - - a", 2, "ppppppp"),
        ("1. 1. ```\n      a", 2, "ppppp...........c"),
        ("1. 1. ```\n      a", 1, "ppppppppppppppppp"),
    ] {
        let letters = bounded(text, 64, depth);
        if letters != expected {
            wrong.push(format!("({text:?}, {depth}, {letters:?}),"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Pushes bytes one by one, and returns what is emitted after the tag that is set already.
fn emitted(markdown: &mut MarkdownView, text: &[u8], from: usize, tag: Tag) -> Vec<Seen> {
    let mut recorder = Recorder::default();
    recorder.set_tag(tag, DecidedOffset::at_once(0));
    recorder.seen.clear();
    for (at, byte) in text.iter().enumerate() {
        let chunk = Chunk::verbatim(std::slice::from_ref(byte), (from + at) as u64);
        markdown.push(chunk, &mut recorder);
    }
    recorder.seen
}

/// Returns the tag of the same text outside of a heading.
fn outside_heading(mut tag: Tag) -> Tag {
    if tag.regions.contains(RegionSet::HEADING) {
        tag.regions = RegionSet::PROSE;
    }
    tag
}

#[test]
fn verbatim_text_is_emitted_unchanged_and_may_be_skipped() {
    let mut random = Random::new(17);
    let (mut passed, mut lines, mut starts, mut headings) = (0, 0, 0, 0);
    let mut visits = [0; VerbatimState::COUNT];
    for _ in 0..scale(4_000) {
        let mut text = match random.below(2) {
            0 => markdown_text(&mut random),
            _ => line_starts(&mut random),
        };
        text.extend_from_slice(b"word and\nmore words.\n\n(last)\n");
        let shown = text.escape_ascii();
        let mut markdown = MarkdownView::new();
        for from in 0..text.len() {
            // The end of the last settled state.
            let (mut to, mut at) = (from, from);
            let entered = match from {
                0 => Some(VerbatimState::START),
                _ => markdown.verbatim_state(),
            };
            let mut state = entered;
            assert!(state.is_none_or(VerbatimState::is_settled));
            // The indices of the bytes that are emitted, by their steps.
            let (mut emitted_until, mut emitted_by_steps) = (0, Vec::new());
            let mut changes_heading = Vec::new();
            while let Some((before, after)) =
                state.and_then(|state| Some((state, state.after(*text.get(at)?)?)))
            {
                match before.emits(after) {
                    VerbatimEmission::Byte => emitted_by_steps.push(at),
                    VerbatimEmission::Nothing => {}
                    VerbatimEmission::MarksAndByte(marks) => {
                        assert!(text[at - marks..at].iter().all(|&byte| byte == b'#'));
                        emitted_by_steps.extend(at - marks..=at);
                    }
                }
                at += 1;
                state = Some(after);
                visits[usize::from(after.index())] += 1;
                assert_eq!(VerbatimState::from_index(after.index()), state);
                changes_heading.push(before.changes_heading(after));
                if after.is_settled() {
                    to = at;
                    emitted_until = emitted_by_steps.len();
                } else {
                    let line = text[from..at].iter().rposition(|&byte| byte == b'\n');
                    let start = line.map_or(from, |feed| from + feed + 1);
                    assert_eq!(to, start, "{shown}");
                }
            }
            emitted_by_steps.truncate(emitted_until);
            if to == from {
                push_byte(&mut markdown, &text, from);
                continue;
            }
            let entered = entered.expect("a step");
            let passed_text = &text[from..to];
            let has_headings = changes_heading[..to - from].contains(&true);
            let feed = passed_text.iter().rposition(|&byte| byte == b'\n');
            let last_line = feed.map_or(0, |feed| feed + 1);
            for begin in [0, last_line] {
                let ranges = entered.emitted(passed_text, begin).flatten();
                let expected = emitted_by_steps
                    .iter()
                    .copied()
                    .filter(|&at| at >= from + begin);
                assert!(ranges.map(|at| from + at).eq(expected), "{shown}");
            }
            let prose = markdown.text();
            let tag = match from {
                // No tag is set at the start of a part, so the first text sets that of prose.
                0 => Tag::default(),
                _ => markdown.last.tag.expect("text has been emitted"),
            };
            let mut pushed = markdown.clone();
            let seen = emitted(&mut pushed, passed_text, from, tag);
            let mut bytes = Vec::new();
            for (index, one) in seen.iter().enumerate() {
                match *one {
                    Seen::Byte {
                        byte,
                        tag: of,
                        start,
                        end,
                        decided,
                    } => {
                        let expected = if from == 0 { prose } else { tag };
                        assert_eq!(outside_heading(of), outside_heading(expected), "{shown}");
                        assert!(end <= decided && decided <= to as u64);
                        assert_eq!((byte, end), (text[start as usize], start + 1), "{shown}");
                        bytes.push(start as usize);
                    }
                    Seen::Turn(..) if from == 0 && index == 0 => {}
                    Seen::Turn(..) if has_headings => headings += 1,
                    _ => panic!("{one:?} in {shown}"),
                }
            }
            assert_eq!(bytes, emitted_by_steps, "{shown}");
            starts += usize::from(from == 0);
            let mut skipped = markdown.clone();
            if from == 0 {
                skipped.begin_prose();
            }
            skipped.advance(Chunk::verbatim(passed_text, from as u64), to as u64);
            let tag = pushed.last.tag.expect("text has been emitted");
            let rest = |markdown: &mut MarkdownView| emitted(markdown, &text[to..], to, tag);
            assert_eq!(rest(&mut skipped), rest(&mut pushed), "{shown}");
            passed += 1;
            lines += usize::from(passed_text.contains(&b'\n'));
            push_byte(&mut markdown, &text, from);
        }
    }
    assert!(lines > 100 && passed > lines, "{passed} {lines}");
    assert!(starts > 100 && headings > 100, "{starts} {headings}");
    assert!(visits.iter().all(|&count| count > 0), "{visits:?}");
}

/// Pushes the byte at an index.
fn push_byte(markdown: &mut MarkdownView, text: &[u8], at: usize) {
    let mut recorder = Recorder::default();
    recorder.set_tag(Tag::default(), DecidedOffset::at_once(0));
    markdown.push(Chunk::verbatim(&text[at..=at], at as u64), &mut recorder);
}

#[test]
fn no_verbatim_line_starts_with_a_backtick_or_a_carriage_return() {
    let states = (0..).map_while(VerbatimState::from_index);
    let starts = |state: &VerbatimState| {
        !state.is_settled() || matches!(state, VerbatimState::LineStart | VerbatimState::BlockStart)
    };
    let starts: Vec<VerbatimState> = states.filter(starts).collect();
    assert_eq!(starts.len(), 24);
    for state in starts {
        assert_eq!(state.after(b'`'), None, "{state:?}");
        assert_eq!(state.after(b'\r'), None, "{state:?}");
    }
}

/// Returns lines with the starts that [`VerbatimState`] distinguishes, in items and in blocks of code.
fn line_starts(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..1 + random.below(8) {
        for _ in 0..random.below(6) {
            let start = random.pick(&[
                " ", " ", "  ", "    ", "\t", "- ", "* ", "+ ", "-", "*", "_", "+", "1. ", "2) ",
                "7", "12", ".", "> ", "**",
            ]);
            text.extend_from_slice(start.as_bytes());
        }
        let rest = random.pick(&[
            "a",
            "a b",
            "",
            "",
            "```",
            "```rs",
            "~~~",
            "`a`",
            "# a",
            "## a 'b' ##",
            "###### \t#a#",
            "#######",
            "##",
            "#\t",
            "#a",
            "####b",
            "---",
            "----a",
            "#",
            "(a)",
            "1.5",
            "a\r",
            "é",
            "’s",
        ]);
        text.extend_from_slice(rest.as_bytes());
        text.push(b'\n');
    }
    text
}
