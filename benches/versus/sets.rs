//! The compared sets of rules.

use std::path::Path;

use crate::common::rules::{broken, pool};
use crate::common::text::Text;
use crate::hyperscan::Library;

/// One set of rules.
pub(crate) struct Set {
    pub(crate) name: String,
    /// The rules as regular expressions.
    pub(crate) patterns: Vec<String>,
    /// The rules as plain texts, if all of them are literal.
    pub(crate) literals: Option<Vec<String>>,
}

/// Returns every set, in the order of the table.
pub(crate) fn all(corpus: &Path) -> Vec<Set> {
    let one = Set::regexes("1", vec!["AKIA[0-9A-Z]{16}".to_owned()]);
    vec![
        one,
        Set::pool(10),
        Set::pool(100),
        Set::gitleaks(corpus),
        Set::pool(1000),
        Set::pool(5000),
        Set::words(corpus),
    ]
}

impl Set {
    pub(crate) fn pool(count: usize) -> Set {
        Set::regexes(&count.to_string(), pool(count))
    }

    fn regexes(name: &str, patterns: Vec<String>) -> Set {
        Set {
            name: name.to_owned(),
            patterns,
            literals: None,
        }
    }

    fn gitleaks(corpus: &Path) -> Set {
        let file = std::fs::read_to_string(corpus.join("rules/gitleaks.jsonl"));
        let file = file.expect("the corpus holds gitleaks.jsonl");
        let patterns = file.lines().filter_map(|line| {
            let value: serde_json::Value = serde_json::from_str(line).ok()?;
            Some(value["pattern"].as_str()?.to_owned())
        });
        Set::regexes("gitleaks", patterns.collect())
    }

    /// Returns a thousand commonly misspelt words: rules that an index of literals could handle.
    fn words(corpus: &Path) -> Set {
        let file = std::fs::read_to_string(corpus.join("rules/typos-words-10k.txt"));
        let file = file.expect("the corpus holds typos-words-10k.txt");
        let words = file.lines().filter(|word| word.len() >= 5).take(1000);
        let literals: Vec<String> = words.map(str::to_owned).collect();
        Set {
            name: "literals".to_owned(),
            patterns: literals.iter().map(|word| regex::escape(word)).collect(),
            literals: Some(literals),
        }
    }

    /// Removes the patterns that some library rejects, so that all engines have the same set.
    pub(crate) fn accepted(mut self, libraries: &[Library]) -> Set {
        let before = self.patterns.len();
        for library in libraries {
            self.patterns = library.accepted(self.patterns);
        }
        let refused = before - self.patterns.len();
        if refused > 0 {
            println!(
                "{} rules: {refused} left out, which libhs refuses",
                self.name
            );
        }
        self
    }

    /// Returns the text followed by matches of every 40th rule, in the same deltas.
    pub(crate) fn with_ending(&self, text: &Text) -> Text {
        text.followed_by(&Text::of_bytes(broken(&self.patterns)))
    }
}
