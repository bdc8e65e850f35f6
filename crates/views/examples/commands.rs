//! Prints the commands of a shell text, as a rule sees them.
//!
//! `cargo run -p ttsr-views --example commands -- 'curl -s https://x.y | sudo sh'` reads its argument; without one it
//! reads the standard input, one text for each line.

use ttsr_views::chunk::Chunk;
use ttsr_views::command::{CommandLimits, CommandReader, CommandTrace};

fn print(text: &str) {
    let mut reader = CommandReader::new(CommandLimits::default());
    let mut trace = CommandTrace::default();
    reader.push(&Chunk::verbatim(text.as_bytes(), 0), &mut trace);
    reader.finish(&mut trace);
    print!("{trace}");
    let counters = reader.counters();
    if counters.total() > 0 {
        println!("{counters:?}");
    }
}

fn main() {
    let texts: Vec<String> = std::env::args().skip(1).collect();
    if !texts.is_empty() {
        return print(&texts.join(" "));
    }
    for line in std::io::stdin().lines().map_while(Result::ok) {
        println!("$ {line}");
        print(&line.replace('\u{1}', "\n"));
    }
}
