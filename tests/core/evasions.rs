//! Evasions, and the options of a rule that detect them: generates and checks the table of `docs/evasions.md`.

use std::fmt::Write as _;

use serde_json::json;
use ttsr::{Channel, Pack, PartId};

/// The command that every evasion hides.
const HIDDEN: &str = "sudo rm";

/// The input of an evasion.
enum Sent {
    /// The command of a tool call, written as JSON without unnecessary escapes.
    Command(&'static str),
    /// The input of a tool call, verbatim.
    Input(&'static str),
    /// A part of text.
    Text(&'static [u8]),
    /// Two parts of text.
    Texts(&'static str, &'static str),
}

use Sent::{Command, Input, Text, Texts};

/// An evasion. If it is not detected by design, `by_design` gives the reason.
struct Evasion {
    name: &'static str,
    sent: Sent,
    by_design: &'static str,
}

const fn seen(name: &'static str, sent: Sent) -> Evasion {
    let by_design = "";
    Evasion {
        name,
        sent,
        by_design,
    }
}

const fn unseen(name: &'static str, sent: Sent, by_design: &'static str) -> Evasion {
    Evasion {
        name,
        sent,
        by_design,
    }
}

const RUN: &str = "the output of a program is unknown until it runs";
const CODED: &str = "encodings that the tool does not decode are not decoded";
const APART: &str = "a match never spans two haystacks";
const OTHER: &str = "a visible character is inserted or replaced";

const EVASIONS: [Evasion; 58] = [
    seen("not hidden", Command("sudo rm -rf /")),
    seen("inside a text", Text(b"run sudo rm now")),
    seen("an invalid byte before it", Text(b"\xff\xc3sudo rm")),
    seen("after a byte order mark", Text(b"\xef\xbb\xbfsudo rm")),
    seen(
        "`\\u0073` for a letter",
        Input(r#"{"command":"\u0073udo rm"}"#),
    ),
    seen(
        "`\\u0020` for the space",
        Input(r#"{"command":"sudo\u0020rm"}"#),
    ),
    seen(
        "every letter as `\\uXXXX`",
        Input(r#"{"command":"\u0073\u0075\u0064\u006F\u0020\u0072\u006d"}"#),
    ),
    seen("the key escaped", Input(r#"{"\u0063ommand":"sudo rm"}"#)),
    seen(
        "a harmless value of the same key first",
        Input(r#"{"command":"ls","command":"\u0073udo rm"}"#),
    ),
    seen(
        "a harmless value of the same key last",
        Input(r#"{"command":"\u0073udo rm","command":"ls"}"#),
    ),
    seen(
        "in an object in an array",
        Input(r#"{"a":[[{"b":"\u0073udo rm"}]]}"#),
    ),
    seen("input that is not JSON", Input("sudo rm")),
    seen("truncated input", Input(r#"{"command":"sudo rm"#)),
    seen(
        "a second document after the first",
        Input(r#"{"a":1}{"command":"sudo rm"}"#),
    ),
    seen(
        "single quotes instead of JSON quotes",
        Input("{'command': 'sudo rm'}"),
    ),
    seen(
        "a lone surrogate before it",
        Input(r#"{"command":"\ud83dsudo rm"}"#),
    ),
    unseen(
        "a lone surrogate inside it",
        Input(r#"{"command":"su\ud83ddo rm"}"#),
        OTHER,
    ),
    unseen(
        "an escaped escape",
        Input(r#"{"command":"\\u0073udo rm"}"#),
        CODED,
    ),
    unseen(
        "JSON inside a JSON string",
        Input(r#"{"a":"{\"command\":\"\\u0073udo rm\"}"}"#),
        CODED,
    ),
    unseen(
        "across two values",
        Input(r#"{"a":"su","b":"do rm"}"#),
        APART,
    ),
    unseen("across two parts of text", Texts("su", "do rm"), APART),
    seen("zero-width space (U+200B)", Command("su\u{200b}do rm")),
    seen("zero-width joiner (U+200D)", Command("su\u{200d}do rm")),
    seen("word joiner (U+2060)", Command("sudo\u{2060} rm")),
    seen(
        "byte order mark inside it (U+FEFF)",
        Command("su\u{feff}do rm"),
    ),
    seen("soft hyphen (U+00AD)", Command("su\u{ad}do rm")),
    seen("direction override (U+202E)", Command("su\u{202e}do rm")),
    seen("direction isolate (U+2066)", Command("su\u{2066}do rm")),
    seen("tag characters (U+E0061)", Command("su\u{e0061}do rm")),
    seen("variation selector (U+FE0F)", Command("su\u{fe0f}do rm")),
    seen(
        "combining grapheme joiner (U+034F)",
        Command("su\u{34f}do rm"),
    ),
    seen(
        "zero-width space as a JSON escape",
        Input(r#"{"command":"su\u200bdo rm"}"#),
    ),
    seen(
        "fullwidth letters",
        Command("\u{ff53}\u{ff55}\u{ff44}\u{ff4f} rm"),
    ),
    seen(
        "mathematical bold letters",
        Command("\u{1d42c}\u{1d42e}\u{1d41d}\u{1d428} rm"),
    ),
    seen(
        "circled letters",
        Command("\u{24e2}\u{24e4}\u{24d3}\u{24de} rm"),
    ),
    seen("superscript letters", Command("\u{02e2}udo rm")),
    seen("no-break space (U+00A0)", Command("sudo\u{a0}rm")),
    seen("thin space (U+2009)", Command("sudo\u{2009}rm")),
    seen("ideographic space (U+3000)", Command("sudo\u{3000}rm")),
    seen("Cyrillic letters", Command("\u{455}ud\u{43e} rm")),
    seen("a Greek letter", Command("sud\u{3bf} rm")),
    seen(
        "fullwidth and zero-width",
        Command("\u{ff53}u\u{200b}do rm"),
    ),
    seen("Cyrillic and zero-width", Command("\u{455}u\u{200b}do rm")),
    seen("capitals", Command("SUDO rm")),
    seen("long s (U+017F)", Command("\u{17f}udo rm")),
    seen(
        "fullwidth capitals",
        Command("\u{ff33}\u{ff35}\u{ff24}\u{ff2f} rm"),
    ),
    seen("two spaces", Command("sudo  rm")),
    seen("a tab", Command("sudo\trm")),
    seen("a line continuation", Command("sudo \\\nrm")),
    seen("quotes inside the word", Command("su'd'o rm")),
    seen("a backslash inside the word", Command("s\\udo \"rm\"")),
    seen("inside a substitution", Command("echo $(su\"do\" rm x)")),
    unseen("a variable", Command("a=sudo; $a rm"), RUN),
    unseen("the output of a command", Command("$(printf s)udo rm"), RUN),
    unseen("base64", Command("echo c3VkbyBybQ== | base64 -d | sh"), RUN),
    unseen("percent encoding", Command("curl x?sudo%20rm"), CODED),
    unseen("a digit for a letter", Command("sud0 rm"), OTHER),
    unseen("Markdown emphasis", Text(b"su**do** rm"), OTHER),
];

/// The columns: the key of `match` in each of them.
const COLUMNS: [(&str, &str); 7] = [
    ("decoded", "literal = 'sudo rm'"),
    ("`case`", "literal = 'sudo rm', fold = 'case'"),
    ("`invisible`", "literal = 'sudo rm', fold = 'invisible'"),
    ("`nfkc`", "literal = 'sudo rm', fold = 'nfkc'"),
    ("`confusables`", "literal = 'sudo rm', fold = 'confusables'"),
    (
        "all four",
        "literal = 'sudo rm', fold = ['case', 'nfkc', 'confusables', 'invisible']",
    ),
    ("`shell`", "regex = '^sudo rm', region = 'shell'"),
];

impl Sent {
    fn parts(&self) -> Vec<(Channel, Vec<u8>)> {
        match self {
            Command(command) => {
                let input = json!({ "command": command }).to_string();
                vec![(Channel::ToolInput, input.into_bytes())]
            }
            Input(input) => vec![(Channel::ToolInput, input.as_bytes().to_vec())],
            Text(text) => vec![(Channel::Text, text.to_vec())],
            Texts(first, second) => [first, second]
                .map(|text| (Channel::Text, text.as_bytes().to_vec()))
                .to_vec(),
        }
    }

    /// Returns true if the bytes contain the command verbatim.
    fn is_plain(&self) -> bool {
        let holds = |bytes: &[u8]| {
            bytes
                .windows(HIDDEN.len())
                .any(|window| window == HIDDEN.as_bytes())
        };
        self.parts().iter().any(|(_, bytes)| holds(bytes))
    }
}

fn pack(pattern: &str) -> Pack {
    let text = format!(
        "schema = 1\n[pack]\nname = 't'\n[rule.r]\ndescription = 'd'\nmatch.any = [{{ {pattern} }}]\n\
         examples.match = ['sudo rm']\n"
    );
    Pack::from_toml(&text).unwrap()
}

/// Returns true if the rule hits, and asserts the same hits for the whole, every two-way cut, and byte by byte.
fn is_caught(pack: &Pack, sent: &Sent) -> bool {
    let parts = sent.parts();
    let whole = hits(pack, &parts, usize::MAX);
    let longest = parts.iter().map(|(_, bytes)| bytes.len()).max();
    for size in 1..longest.unwrap_or_default() {
        assert_eq!(hits(pack, &parts, size), whole, "in pieces of {size}");
    }
    !whole.is_empty()
}

fn hits(pack: &Pack, parts: &[(Channel, Vec<u8>)], size: usize) -> Vec<(u64, u64)> {
    let mut stream = pack.stream();
    let mut hits = Vec::new();
    for (index, (channel, bytes)) in parts.iter().enumerate() {
        let part = PartId(index as u32);
        stream.open(part, *channel);
        let _ = stream.tool(part, "bash", "call");
        for delta in bytes.chunks(size) {
            let found = stream.push(part, delta);
            hits.extend(found.iter().map(|hit| (hit.end, hit.decided)));
        }
    }
    hits.extend(stream.finish().iter().map(|hit| (hit.end, hit.decided)));
    hits
}

fn table() -> (String, [usize; 3]) {
    let packs: Vec<Pack> = COLUMNS.iter().map(|(_, pattern)| pack(pattern)).collect();
    let mut table = String::from("| evasion | raw |");
    for (name, _) in COLUMNS {
        write!(table, " {name} |").unwrap();
    }
    table.push_str(" why not |\n|---|---|");
    table.push_str(&"---|".repeat(COLUMNS.len() + 1));
    table.push('\n');
    let mut sums = [0; 3];
    for Evasion {
        name,
        sent,
        by_design,
    } in &EVASIONS
    {
        let views = packs.iter().map(|pack| is_caught(pack, sent));
        let caught: Vec<bool> = [sent.is_plain()].into_iter().chain(views).collect();
        let any = caught.iter().any(|&caught| caught);
        assert_eq!(any, by_design.is_empty(), "{name}: {caught:?}");
        write!(table, "| {name} |").unwrap();
        for caught in caught {
            let kind = if caught { 0 } else { 1 + usize::from(!any) };
            sums[kind] += 1;
            write!(table, " {} |", ["caught", "–", "by design"][kind]).unwrap();
        }
        writeln!(table, " {by_design} |").unwrap();
    }
    (table, sums)
}

#[test]
fn the_table_of_evasions_is_what_happens() {
    let (table, [caught, missed, by_design]) = table();
    println!(
        "{} evasions in {} columns: {caught} caught, {missed} missed there but caught elsewhere, {by_design} by design",
        EVASIONS.len(),
        COLUMNS.len() + 1
    );
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/evasions.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (before, rest) = text.split_once("<!-- table -->\n").unwrap();
    let (written, behind) = rest.split_once("<!-- end -->").unwrap();
    if std::env::var_os("TTSR_UPDATE_TABLES").is_some() {
        let new = format!("{before}<!-- table -->\n{table}<!-- end -->{behind}");
        std::fs::write(path, new).unwrap();
    } else {
        assert_eq!(written, table, "run again with TTSR_UPDATE_TABLES=1");
    }
}
