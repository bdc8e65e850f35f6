//! Cases as data, the same events under every cut, and bash as the oracle of words. Random scripts are in `scripts`.

mod scripts;

use std::collections::BTreeMap;
use std::process::Command;

use super::*;
use ttsr_testing::{Random, scale, skip};

// ---- The events of a text ----

/// The events with their decided offsets, as text. Chunks of code are one entry a byte.
#[derive(Debug, Default)]
struct EventLog {
    entries: Vec<String>,
    begun: Vec<CommandId>,
    /// The command whose code is open.
    code: Option<CommandId>,
    /// The number of delivered bytes, if events must come no later than their decided offsets.
    delivered: Option<u64>,
    last: u64,
}

impl CommandSink for EventLog {
    fn event(&mut self, event: CommandEvent<'_>, decided: u64) {
        assert!(self.last <= decided, "decided offsets do not decrease");
        self.last = decided;
        if let Some(delivered) = self.delivered {
            assert_eq!(decided, delivered, "{event:?}");
        }
        match event {
            CommandEvent::Code { command, .. } => {
                let open = self.code.replace(command);
                assert!(open.is_none_or(|open| open == command));
            }
            CommandEvent::CodeEnd { command } => {
                let open = self.code.take();
                assert!(open.is_none_or(|open| open == command));
            }
            _ => assert_eq!(self.code, None, "{event:?} in code"),
        }
        if let CommandEvent::Begin { command, parent } = event {
            assert!(!self.begun.contains(&command));
            assert!(parent.is_none_or(|parent| self.begun.contains(&parent.command)));
            self.begun.push(command);
        }
        if let CommandEvent::Word(word) = &event {
            assert!(self.begun.contains(&word.command), "{word:?}");
            assert!(
                word.span.start <= word.span.end && word.span.end <= decided,
                "{word:?}"
            );
        }
        let CommandEvent::Code {
            command,
            language,
            chunk,
        } = event
        else {
            return self.entries.push(format!("{decided} {event:?}"));
        };
        for (index, byte) in chunk.bytes.iter().enumerate() {
            let (start, decided) = (chunk.start(index), chunk.decided(index));
            self.entries.push(format!(
                "code {command:?} {language} {byte} {start} {decided}"
            ));
        }
    }
}

fn events<'a>(
    deltas: impl IntoIterator<Item = &'a [u8]>,
    limits: CommandLimits,
    strict: bool,
) -> (Vec<String>, CommandCounters) {
    let (mut reader, mut log) = (CommandReader::new(limits), EventLog::default());
    let mut delivered = 0;
    for delta in deltas {
        let at = delivered;
        delivered += delta.len() as u64;
        log.delivered = strict.then_some(delivered);
        reader.push(&Chunk::verbatim(delta, at), &mut log);
    }
    reader.finish(&mut log);
    (log.entries, reader.counters())
}

fn every_cut(text: &[u8], limits: CommandLimits, random: &mut Random) {
    let whole = events([text], limits, false);
    crate::test_sink::every_cut(text, random, |deltas, strict| {
        let got = events(deltas.iter().copied(), limits, strict);
        let differs = got.0.iter().zip(&whole.0).find(|(got, whole)| got != whole);
        assert!(got == whole, "{}\n{differs:?}", text.escape_ascii());
    });
}

fn trace(text: &str, syntax: ShellSyntax) -> String {
    let mut reader = CommandReader::with_syntax(CommandLimits::default(), syntax);
    let mut trace = CommandTrace::default();
    reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut trace);
    reader.finish(&mut trace);
    trace.to_string()
}

// ---- Cases ----

#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CommandCase {
    text: String,
    #[serde(default)]
    syntax: String,
    commands: Vec<String>,
}

const CASES: &str = include_str!("../../tests/data/commands.toml");

fn cases() -> BTreeMap<String, CommandCase> {
    toml::from_str(CASES).unwrap()
}

fn syntax_of(case: &CommandCase) -> ShellSyntax {
    match case.syntax.as_str() {
        "powershell" => ShellSyntax::PowerShell,
        "cmd" => ShellSyntax::Cmd,
        _ => ShellSyntax::Posix,
    }
}

#[test]
fn each_text_is_read_as_its_commands() {
    let mut wrong = Vec::new();
    let all = cases();
    let mut updated = String::new();
    for (name, case) in &all {
        let read = trace(&case.text, syntax_of(case));
        let read: Vec<&str> = read.lines().collect();
        updated += &format!("[{name}]\ntext = {:?}\n", case.text);
        if !case.syntax.is_empty() {
            updated += &format!("syntax = {:?}\n", case.syntax);
        }
        updated += &format!("commands = {read:#?}\n\n");
        if read != case.commands {
            let want = &case.commands;
            wrong.push(format!(
                "[{name}]\n{}\n  read {read:#?}\n  want {want:#?}",
                case.text
            ));
        }
    }
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/commands.toml");
        std::fs::write(file, updated.trim_end().to_owned() + "\n").unwrap();
    }
    assert!(
        wrong.is_empty(),
        "{} of {}\n{}",
        wrong.len(),
        all.len(),
        wrong.join("\n")
    );
    assert!(all.len() >= 100, "{}", all.len());
}

#[test]
fn the_events_of_each_case_are_the_same_under_every_cut() {
    let mut random = Random::new(18);
    for case in cases().values() {
        every_cut(case.text.as_bytes(), CommandLimits::default(), &mut random);
    }
}

// ---- Random texts ----

const FRAGMENTS: &[&str] = &[
    "rm",
    " -rf",
    " /",
    "a=rm; $a",
    " ~",
    "\"$HOME\"",
    "'x y'",
    "$'\\x72\\u00e9'",
    "\\",
    "\\\n",
    "\n",
    ";",
    "&&",
    "||",
    "|",
    "|&",
    "&",
    "&>f",
    ">",
    ">>",
    "<",
    "<<<",
    "<<E\n",
    "<<'E'\n",
    "<<-E\n\t",
    "\nE\n",
    "\nEE\n",
    "cat <<E\n$(cat <<EE\n",
    "$(",
    ")",
    "`",
    "(",
    "((",
    "))",
    "$((",
    "${",
    "}",
    "${IFS}",
    "{",
    "{a,b}",
    "{1..3}",
    ",",
    "'",
    "\"",
    "#",
    " ",
    "\t",
    "sudo ",
    "env A=1 ",
    "bash -c ",
    "sh",
    "eval ",
    "xargs ",
    "find . -exec ",
    " \\;",
    " +",
    "ssh h ",
    "python3 -c ",
    "\"os.system('zap a')\" ",
    "perl <<'E'\nsystem(\"zap\", ",
    "qx[zap \\x62]",
    "crontab - <<E\n@daily zap",
    "socat EXEC:",
    "PAGER=",
    "BASH_ENV=/",
    "cat ",
    "echo ",
    "printf ",
    "if ",
    "then ",
    "fi",
    "for x in ",
    "do ",
    "done",
    "case x in ",
    "esac",
    ";;",
    "[[ ",
    " ]]",
    "[\"rm\",",
    "]",
    "a=(",
    "f()",
    "function ",
    "2>&1",
    "{fd}>x",
    "!",
    "<(",
    ">(",
    "git -C x push --forc",
    "docker exec -it c ",
    "é",
    "Remove-Item -Rec",
    "del /s C:\\x",
    "powershell -Command ",
    "cmd /c ",
    "trap 'x' EXIT",
    "`echo 'a b",
    "$(echo ",
    "eval \"$(cat <<E\n",
    "<(echo ",
    "} | sh; ",
    "cat <<< ",
    "x=$(printf ",
    " > f; ",
    "coproc ",
    "for ((;;)) ",
    "a=(x 'y z') ",
    "a+=(",
    "\"${a[@]}\"",
    "${a[*]}",
    "set -- ",
    "\"$@\"",
    "f() { shift; ",
    "f x ",
    "${c:-",
    "b='$a$a'; ",
    "$b",
    "%s",
    "-o",
    "--x=y",
    " -- ",
];

fn random_text(random: &mut Random) -> Vec<u8> {
    let mut text = Vec::new();
    for _ in 0..1 + random.below(14) {
        match random.one_in(12) {
            true => text.extend(random.noise(4)),
            false => text.extend(random.pick(FRAGMENTS).as_bytes()),
        }
        if random.one_in(3) {
            text.push(b' ');
        }
    }
    text
}

fn random_limits(random: &mut Random) -> CommandLimits {
    if !random.one_in(4) {
        return CommandLimits::default();
    }
    CommandLimits {
        depth: 1 + random.below(4),
        scripts: random.below(3),
        word: random.below(12),
        wrappers: random.below(4),
        heredocs: random.below(2),
        expansions: random.below(4),
    }
}

#[test]
fn the_events_of_random_texts_are_the_same_under_every_cut() {
    let mut random = Random::new(1818);
    for _ in 0..scale(20_000) {
        let text = random_text(&mut random);
        let limits = random_limits(&mut random);
        every_cut(&text, limits, &mut random);
    }
}

#[test]
fn the_syntaxes_of_windows_read_any_text() {
    let mut random = Random::new(5);
    for _ in 0..scale(5_000) {
        let text = random_text(&mut random);
        for syntax in [ShellSyntax::PowerShell, ShellSyntax::Cmd] {
            let read = |step: usize| {
                let mut reader = CommandReader::with_syntax(CommandLimits::default(), syntax);
                let mut log = EventLog::default();
                for (index, delta) in text.chunks(step).enumerate() {
                    reader.push(&Chunk::verbatim(delta, (index * step) as u64), &mut log);
                }
                reader.finish(&mut log);
                log.entries
            };
            assert_eq!(read(1), read(text.len().max(1)), "{}", text.escape_ascii());
        }
    }
}

#[test]
fn the_output_and_the_time_are_bounded_by_the_input() {
    // Each line multiplies the text if nothing bounds it.
    let hostile = [
        "a=xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; ".to_owned()
            + &"a=$a$a; ".repeat(40)
            + &"$a ".repeat(500),
        "a='$b$b$b$b$b$b'; b='$c$c$c$c$c$c$c'; c='$d$d$d$d$d$d$d '; d=yyyyyyyyyyyyyyyyyyyyy; "
            .to_owned()
            + &"eval eval eval eval eval \"$a $a $a $a $a\"; ".repeat(20),
        "{a,b}".repeat(200),
        "{a,".repeat(200) + &"}".repeat(200),
        "{1..99999999999}".repeat(50),
        "$(".repeat(500),
        "sh -c \"".repeat(100),
        "sudo ".repeat(5000),
        "cat <<A; ".repeat(1000),
        "$(echo a ".repeat(48) + &"x ".repeat(20_000) + &")".repeat(48),
        "a=(x y z); ".to_owned()
            + &"a+=(\"${a[@]}\" \"${a[@]}\"); ".repeat(500)
            + &"\"${a[@]}\" ".repeat(500),
        "f() { \"$@\"; }; ".to_owned() + &"f ".repeat(5000),
        "cat > a <<E\n./a; ./a; sh a\nE\n".repeat(300) + &"./a; ".repeat(300),
        "((a) ; ".repeat(2000),
        "$((a) ".repeat(2000) + &") )".repeat(2000),
        "((".repeat(500) + &"x) ".repeat(1000),
        "{ ".repeat(60) + &"echo a; ".repeat(10_000) + &"} | sh; ".repeat(60),
    ];
    for text in hostile {
        let (entries, counters) = events([text.as_bytes()], CommandLimits::default(), false);
        let bytes: usize = entries.iter().map(String::len).sum();
        assert!(
            bytes < 200 * text.len() + (48 << 20),
            "{bytes} bytes for {}",
            text.len()
        );
        assert!(entries.len() > 1 || counters.total() > 0);
    }
}

// ---- Limits ----

#[test]
fn each_limit_is_counted() {
    let counted = |text: &str, limits: CommandLimits| events([text.as_bytes()], limits, false).1;
    let default = CommandLimits::default();
    let none = CommandCounters::default();
    let cases = [
        ("rm -rf x", default, none),
        (
            "a $(b $(c))",
            CommandLimits {
                depth: 2,
                ..default
            },
            CommandCounters {
                too_deep: 1,
                ..none
            },
        ),
        (
            "sh -c 'sh -c x'",
            CommandLimits {
                scripts: 1,
                ..default
            },
            CommandCounters {
                deep_scripts: 1,
                ..none
            },
        ),
        (
            "rm abcdef",
            CommandLimits { word: 4, ..default },
            CommandCounters {
                long_words: 1,
                ..none
            },
        ),
        (
            "sudo sudo rm",
            CommandLimits {
                wrappers: 2,
                ..default
            },
            CommandCounters {
                wrappers: 1,
                ..none
            },
        ),
        (
            "cat <<A <<B\nA\nB\n",
            CommandLimits {
                heredocs: 1,
                ..default
            },
            CommandCounters {
                heredocs: 1,
                ..none
            },
        ),
        (
            "a=1; b=2",
            CommandLimits {
                expansions: 1,
                ..default
            },
            CommandCounters {
                expansions: 1,
                ..none
            },
        ),
        (
            "rm {1..100}",
            default,
            CommandCounters {
                expansions: 1,
                ..none
            },
        ),
        (
            "rm 'x",
            default,
            CommandCounters {
                unreadable: 1,
                ..none
            },
        ),
        (
            "rm x)",
            default,
            CommandCounters {
                unreadable: 1,
                ..none
            },
        ),
        (
            "powershell -enc AAAA",
            default,
            CommandCounters {
                unreadable: 1,
                ..none
            },
        ),
    ];
    for (text, limits, want) in cases {
        assert_eq!(counted(text, limits), want, "{text}");
    }
}

// ---- Elements of an array ----

#[test]
fn an_array_of_words_is_one_command_whose_words_are_not_expanded() {
    let mut reader = CommandReader::new(CommandLimits::default());
    let mut trace = CommandTrace::default();
    for (at, word) in [
        (2, "sudo"),
        (10, "rm"),
        (16, "-rf"),
        (23, "$a;x"),
        (31, "a=(b)"),
    ] {
        for (index, byte) in word.bytes().enumerate() {
            let at = at + index as u64;
            reader.push_word(&Chunk::verbatim(&[byte], at), &mut trace);
        }
        let end = at + word.len() as u64;
        let end = DecidedOffset {
            offset: end,
            decided: end + 1,
        };
        reader.end_word(end, &mut trace);
    }
    reader.finish(&mut trace);
    assert_eq!(
        trace.to_string(),
        "1: sudo\n2: rm [-r] [-f] ($a;x) (a=(b)) wrapped by 1\n"
    );
}

// ---- bash as the oracle ----

#[derive(Default)]
struct Operands(Vec<Vec<u8>>);

impl CommandSink for Operands {
    fn event(&mut self, event: CommandEvent<'_>, _: u64) {
        if let CommandEvent::Word(word) = event
            && word.role == WordRole::Operand
        {
            self.0.push(word.text.to_vec());
        }
    }
}

/// Pieces that bash expands to the same words wherever it runs.
// Without `{}`: to bash it is text at the beginning of a word, and the beginning of a group after a pair of quotes.
const PIECES: &[&str] = &[
    "a",
    "bc",
    " ",
    "  ",
    "'x y'",
    "\"p q\"",
    "\"\\\"\"",
    "\"\\a\"",
    "\"'\"",
    "'\"'",
    "\\ ",
    "\\'",
    "\\\n",
    "$'\\t'",
    "$'\\x41\\101\\e'",
    "$'\\u00e9'",
    "$'a\\'b'",
    "{a,b}",
    "{a,{b,c}}",
    "{1..3}",
    "{c..a}",
    "{x}",
    "{a,}",
    "\"{a,b}\"",
    "\\{a,b}",
    "{a\\,b,c}",
    "{'a b',c}",
    "''",
    "\"\"",
    "é",
    "=",
    "-",
    "#",
    "a#b",
    "x=1",
    "%",
    ",",
    "}",
    "{",
    "$'\\cA'",
    "\"$'x'\"",
    "{a..}",
    "{-1..1}",
    "$\"k\"",
    "$ ",
    "\"$\"",
    "'\\'",
    "\"\\$\"",
    "^",
    "+",
    ":",
    "@",
    "/.",
    "]",
];

#[test]
fn bash_expands_lines_to_the_same_words() {
    let version = Command::new("bash").arg("--version").output();
    if !version.is_ok_and(|output| output.status.success()) {
        return skip::test("bash is not installed");
    }
    let mut random = Random::new(7);
    let mut compared = 0;
    for _ in 0..scale(2_000) {
        let line: String = (0..1 + random.below(7))
            .map(|_| random.pick(PIECES))
            .collect();
        let script = format!("set -f; printf '%s\\0' first {line}");
        let output = Command::new("bash")
            .args(["--norc", "--noprofile", "-c", &script])
            .env_clear()
            .env("LC_ALL", "C.UTF-8")
            .output()
            .unwrap();
        if !output.status.success() {
            continue;
        }
        let want: Vec<&[u8]> = output
            .stdout
            .strip_suffix(b"\0")
            .unwrap()
            .split(|&byte| byte == 0)
            .collect();
        let (mut reader, mut operands) = (
            CommandReader::new(CommandLimits::default()),
            Operands::default(),
        );
        let text = format!("p -- first {line}");
        reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut operands);
        reader.finish(&mut operands);
        // A line with more words than the limit remains as it is written, and is counted.
        if reader.counters().expansions > 0 {
            assert!(want.len() > 32, "{line}");
            continue;
        }
        assert_eq!(operands.0, want, "{line}");
        compared += 1;
    }
    assert!(compared > 10);
}

// ---- Tables ----

#[test]
fn no_program_is_in_the_tables_twice() {
    let mut names = std::collections::BTreeSet::new();
    for spec in programs::FAMILIES.iter().flat_map(|family| family.iter()) {
        for name in spec.names {
            assert!(
                names.insert(name.to_ascii_lowercase()),
                "{name} is twice in the tables"
            );
        }
        let mut subcommands = std::collections::BTreeSet::new();
        for subcommand in spec.subcommands {
            assert!(
                subcommands.insert(subcommand.name),
                "{} {}",
                spec.names[0],
                subcommand.name
            );
            let words: Vec<&str> = subcommand.name.split(' ').collect();
            for end in 1..words.len() {
                let group = words[..end].join(" ");
                assert!(
                    spec.is_group(group.as_bytes(), end),
                    "{} {group}",
                    spec.names[0]
                );
            }
        }
    }
    assert!(names.len() > 300, "{}", names.len());
}

#[test]
fn options_are_spelled_as_flags() {
    for spec in programs::FAMILIES.iter().flat_map(|family| family.iter()) {
        let subcommands = spec.subcommands.iter().map(|subcommand| subcommand.options);
        for options in subcommands.chain([spec.options]) {
            for (name, _) in program::options_of(options) {
                let begins = name.starts_with(['-', '/']) && name.len() > 1;
                assert!(begins && !name.ends_with(','), "{}: {name}", spec.names[0]);
            }
        }
    }
}

#[test]
fn paths_are_normalized() {
    let normal = |path: &str, traits| {
        String::from_utf8(normalize_path(path.as_bytes(), traits).into_owned()).unwrap()
    };
    let none = WordTraits::default();
    let cases = [
        ("/", "/"),
        ("//", "/"),
        ("/.", "/"),
        ("/./", "/"),
        ("/..", "/"),
        ("/a/..", "/"),
        ("/a/../b", "/b"),
        ("a/..", "."),
        ("..", ".."),
        ("../..", "../.."),
        ("a/../..", ".."),
        ("./a", "a"),
        (".", "."),
        ("", ""),
        ("/a//b/", "/a/b/"),
        ("/*/..", "/*/.."),
        ("~", "~"),
        ("/tmp/$x/../y", "/tmp/$x/../y"),
        ("/a/b/../../..", "/"),
        ("a/", "a/"),
    ];
    for (path, want) in cases {
        assert_eq!(normal(path, none), want, "{path}");
    }
    for (path, want) in [
        ("$HOME", "~"),
        ("${HOME}/", "~/"),
        ("$HOME//x/.", "~/x/"),
        ("$HOMER", "$HOMER"),
        ("$HOME/..", "~/.."),
    ] {
        assert_eq!(normal(path, WordTraits::EXPANDED), want, "{path}");
    }
    assert_eq!(normal("~root/../x", WordTraits::TILDE), "~root/../x");
    assert_eq!(normal("~/./x", WordTraits::TILDE), "~/x");
}
