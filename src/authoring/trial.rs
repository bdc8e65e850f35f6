//! Trial runs of rules, for lints that cannot be decided by reading a rule.

use crate::pack::{LintTrial, Pack};
use crate::rule::Channel;
use crate::verdict::PartId;

/// Ordinary text: lines of prose and of code.
const ORDINARY: &str = "The parser reads each file once and keeps what it found in a table, so that a second look\n\
    costs nothing. When a file changes on disk, the entry is dropped and read again the next time\n\
    somebody asks for it; nobody has to think about the order. Errors are collected, not thrown:\n\
    the caller sees all of them at the end, with the line and the column of each (1 is the first).\n\
    \n\
    fn main() {\n    let table = read_all(\"src\", &options)?;\n    for entry in table.values() {\n\
    \x20       log.add(\"{}: {} lines, {:?}\", entry.name, entry.lines, entry.first);\n    }\n}\n\
    \n\
    Run it with `make check` and look at what it prints. If a number is not what you expect, open\n\
    the file that is named there and search for the word; most of the time it is a typing error,\n\
    such as a comma too many or a name that was changed in one place and not in the other two.\n";

const PART: PartId = PartId(0);

/// The trial that the lints of a load use.
pub(super) const TRIAL: LintTrial = LintTrial {
    first_match,
    most_held,
};

/// Returns the text of the first match in `text`, or `None` if no rule of `pack` hits.
fn first_match(pack: &Pack, channel: Channel, text: &str) -> Option<String> {
    let mut stream = pack.stream();
    stream.open(PART, channel);
    let mut hits = stream.push(PART, text.as_bytes()).to_vec();
    hits.extend_from_slice(&stream.finish());
    hits.first().map(|hit| stream.matched(hit).to_owned())
}

/// Returns the largest number of bytes of ordinary text that are held back at once.
fn most_held(pack: &Pack) -> u64 {
    let mut stream = pack.stream();
    stream.open(PART, Channel::Text);
    let mut most = 0;
    for byte in ORDINARY.as_bytes() {
        let _ = stream.push(PART, &[*byte]);
        most = most.max(stream.delivered_bytes(PART) - stream.releasable(PART));
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Action, Pattern, Rule};

    fn held(regex: &str) -> u64 {
        let mut rule = Rule::new("held/text", vec![Pattern::regex(regex)]);
        rule.on = vec![Channel::Text];
        rule.action = Action::Redact;
        most_held(&Pack::builder().rule(rule).build().expect(regex))
    }

    #[test]
    fn a_pattern_that_nearly_every_text_may_begin_holds_much_text() {
        for (regex, least) in [
            ("[^;]*secret", 200),
            (r"(?s).{0,20}secret", 65),
            (r"\w+\s+secret", 65),
            (".*secret", 65),
        ] {
            assert!(held(regex) >= least, "{regex}: {}", held(regex));
        }
    }

    #[test]
    fn words_and_literals_hold_little_text() {
        for regex in [
            r"sk-[a-z]{20,}",
            r"\w+secret",
            "[^%]secret",
            r"x?(?:key|[^\n]{3})secret",
            r"\S+@",
            r"(?i)key\s*=.*",
            "[a-z]{40}",
        ] {
            assert!(held(regex) <= 64, "{regex}: {}", held(regex));
        }
    }
}
