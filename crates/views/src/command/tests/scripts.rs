//! Random scripts whose commands the generator knows: quotes, substitutions, compound commands and here-documents.
//!
//! Each command is generated as its words, and then written in one of the spellings of the shell language.

use std::ops::Range;

use super::*;

/// The words of each command of a script.
#[derive(Debug, Default)]
struct CommandWords {
    words: BTreeMap<CommandId, Vec<(Range<u64>, String)>>,
}

impl CommandSink for CommandWords {
    fn event(&mut self, event: CommandEvent<'_>, _: u64) {
        if let CommandEvent::Word(word) = event {
            let words = self.words.entry(word.command).or_default();
            // A cluster of flags is several events of one word.
            if words.last().is_none_or(|(span, _)| *span != word.span) {
                words.push((word.span, String::from_utf8_lossy(word.text).into_owned()));
            }
        }
    }
}

impl CommandWords {
    /// Returns the words of the commands that have programs of the generator, sorted.
    fn of(text: &str) -> Vec<Vec<String>> {
        let mut found = CommandWords::default();
        let mut reader = CommandReader::new(CommandLimits::default());
        reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut found);
        reader.finish(&mut found);
        assert_eq!(reader.counters().total(), 0, "{text}");
        let words = found.words.into_values();
        let words = words.map(|words| words.into_iter().map(|(_, text)| text).collect());
        let mut commands: Vec<Vec<String>> = words
            .filter(|words: &Vec<String>| words[0].starts_with("zap"))
            .collect();
        commands.sort();
        commands
    }
}

/// Texts of words.
const TEXTS: [&str; 20] = [
    "a", "-x", "--long", "f.txt", "/p/q", "k=v", "7", "s q", "", "#", "$(no)", "a;b", "|", "\\",
    "do", "`", "&&", ")", "\"", "e#f",
];

/// Lines of the body of a here-document that is not expanded.
const LINES: [&str; 9] = ["text", "zap 'q", "\"", ")", "`", "$(", "done", "# c", "}"];

/// Lines of the body of one that is expanded.
const EXPANDED_LINES: [&str; 5] = ["text", "zap 'q", "\"", ")", "$v"];

/// Writes scripts and knows their commands.
struct ScriptWriter {
    random: Random,
    commands: Vec<Vec<String>>,
    /// The bodies that follow the current line.
    bodies: String,
}

impl ScriptWriter {
    fn pick(&mut self, of: &[&'static str]) -> &'static str {
        self.random.pick(of)
    }

    /// Returns a spelling of a text.
    fn quoted(&mut self, text: &str) -> String {
        let is_plain = |text: &str| {
            text.bytes()
                .all(|it| it.is_ascii_alphanumeric() || b"-=./".contains(&it))
        };
        match self.random.below(4) {
            0 | 1 if is_plain(text) && !text.is_empty() && text != "do" => text.to_owned(),
            0 => format!("'{text}'"),
            1 if !text.is_empty() && text != "do" => {
                let escaped = |char: char| match char.is_ascii_alphanumeric() {
                    true => char.to_string(),
                    false => format!("\\{char}"),
                };
                text.chars().map(escaped).collect()
            }
            2 => format!("'{}'\"\"", text),
            _ => {
                let escaped = |char: char| match char {
                    '"' | '$' | '`' | '\\' => format!("\\{char}"),
                    _ => char.to_string(),
                };
                format!("\"{}\"", text.chars().map(escaped).collect::<String>())
            }
        }
    }

    /// Returns a word as it is written and as it is read.
    fn word(&mut self, depth: usize) -> (String, String) {
        let kind = self.random.below(if depth > 0 { 16 } else { 8 });
        match kind {
            0..8 => {
                let text = self.pick(&TEXTS);
                (self.quoted(text), text.to_owned())
            }
            8 => (self.pick(&["$v", "\"$v\""]).to_owned(), "$v".to_owned()),
            9 | 10 => (format!("$({})", self.inner(depth)), "$()".to_owned()),
            11 => (
                format!("\"x $({})\"", self.inner(depth)),
                "x $()".to_owned(),
            ),
            12 => (format!("<({})", self.inner(depth)), "<()".to_owned()),
            13 => (format!("a>({})b", self.inner(depth)), "a>()b".to_owned()),
            14 => {
                let name = self.name();
                self.commands.push(vec![name.clone(), "b".to_owned()]);
                (format!("`{name} b`"), "$()".to_owned())
            }
            _ => {
                let inner = self.inner(depth);
                (format!("\"${{v:-$({inner})}}\""), "${v:-$()}".to_owned())
            }
        }
    }

    fn name(&mut self) -> String {
        format!("zap{}", self.random.below(20))
    }

    /// Returns the commands of a substitution, with here-documents of its own.
    fn inner(&mut self, depth: usize) -> String {
        let outer = std::mem::take(&mut self.bodies);
        let mut text = self.list(depth - 1);
        if !self.bodies.is_empty() {
            text += &self.newline();
        }
        self.bodies = outer;
        // `$((` begins an arithmetic expression.
        let blank = if text.starts_with('(') { " " } else { "" };
        format!("{blank}{text}")
    }

    /// Returns a newline and the here-documents that follow it.
    fn newline(&mut self) -> String {
        format!("\n{}", std::mem::take(&mut self.bodies))
    }

    fn redirection(&mut self) -> String {
        match self.random.below(8) {
            0 => ">out".to_owned(),
            1 => "2>&1".to_owned(),
            2 => "<in".to_owned(),
            3 => ">> out".to_owned(),
            4 => "<<<here".to_owned(),
            _ => self.heredoc(),
        }
    }

    fn heredoc(&mut self) -> String {
        let name = format!("E{}", self.random.below(9));
        let (open, close) = self
            .random
            .pick(&[("", ""), ("'", "'"), ("\"", "\""), ("\\", "")]);
        let dash = self.pick(&["", "-"]);
        for _ in 0..self.random.below(4) {
            let line = match open {
                "" => self.pick(&EXPANDED_LINES),
                _ => self.pick(&LINES),
            };
            self.bodies += &format!("{line}\n");
        }
        let tab = if dash.is_empty() { "" } else { "\t" };
        self.bodies += &format!("{tab}{name}\n");
        format!("<<{dash}{open}{name}{close}")
    }

    fn simple(&mut self, depth: usize) -> String {
        let mut written = Vec::new();
        if self.random.one_in(8) {
            let (value, _) = self.word(depth);
            written.push(format!("V={value}"));
        }
        let name = self.name();
        let mut words = vec![name.clone()];
        written.push(name);
        for _ in 0..self.random.below(4) {
            let (text, word) = self.word(depth);
            written.push(text);
            words.push(word);
            if self.random.one_in(6) {
                let redirection = self.redirection();
                written.push(redirection);
            }
        }
        self.commands.push(words);
        written.join(self.pick(&[" ", "  ", " \\\n"]))
    }

    /// Returns the end of a command before a word that is reserved.
    fn end(&mut self) -> String {
        match self.bodies.is_empty() && self.random.one_in(2) {
            true => "; ".to_owned(),
            false => self.newline(),
        }
    }

    fn command(&mut self, depth: usize) -> String {
        if depth == 0 || self.random.one_in(2) {
            return self.simple(depth);
        }
        let depth = depth - 1;
        match self.random.below(14) {
            0..3 => {
                let operator = self.pick(&[" | ", "|", " && ", " || ", "&&", " |& "]);
                let (left, right) = (self.command(depth), self.command(depth));
                format!("{left}{operator}{right}")
            }
            3 => format!("( {}{})", self.list(depth), self.end()),
            4 => format!("{{ {}{}}}", self.list(depth), self.end()),
            5 => {
                let (condition, then) = (self.list(depth), self.end());
                let (body, fi) = (self.list(depth), self.end());
                format!("if {condition}{then}then {body}{fi}fi")
            }
            6 => {
                let (value, _) = self.word(depth);
                let (open, body, done) = (self.end(), self.list(depth), self.end());
                format!("for x in a {value}{open}do {body}{done}done")
            }
            7 => {
                let head = self.pick(&["while", "until"]);
                let (condition, open) = (self.list(depth), self.end());
                let (body, done) = (self.list(depth), self.end());
                format!("{head} {condition}{open}do {body}{done}done")
            }
            8 => {
                let pattern = self.pick(&["a", "(a", "a|b", "*", "'q'"]);
                let (body, end) = (self.list(depth), self.newline());
                format!("case a in {pattern}) {body}{end};; esac")
            }
            9 => format!("f() {{ {}{}}}", self.list(depth), self.end()),
            10 => format!("! {}", self.command(depth)),
            11 => format!("[[ $x == \"y z\" && -f a ]] && {}", self.command(depth)),
            12 => format!("(( x > (1) )) || {}", self.command(depth)),
            _ => {
                let (element, _) = self.word(depth);
                format!("y=( a {element} # c )\n )")
            }
        }
    }

    fn list(&mut self, depth: usize) -> String {
        let mut text = self.command(depth);
        for _ in 0..self.random.pick(&[0, 0, 0, 1, 2]) {
            text += &match self.random.below(4) {
                0 if self.bodies.is_empty() => " ; ".to_owned(),
                1 if self.bodies.is_empty() => " & ".to_owned(),
                2 => format!(" # c'mon \"$(x{}", self.newline()),
                _ => self.newline(),
            };
            text += &self.command(depth);
        }
        text
    }
}

#[test]
fn the_commands_of_random_scripts_are_those_that_were_written() {
    for seed in 0..scale(60_000) {
        let mut writer = ScriptWriter {
            random: Random::new(seed as u64),
            commands: Vec::new(),
            bodies: String::new(),
        };
        let depth = writer.random.below(5);
        let text = writer.list(depth) + &writer.newline();
        writer.commands.sort();
        assert_eq!(CommandWords::of(&text), writer.commands, "{text}");
    }
}
