//! Evasions, and the options of a rule that detect them: generates and checks the table of `docs/evasions.md`.

use std::fmt::Write as _;

use ttsr::{Channel, Pack, PartId};
use ttsr_testing::evasions::{EVASIONS, Evasion, Sent};

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
        let _ = stream.set_tool(part, "bash", "call");
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
