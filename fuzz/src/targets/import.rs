//! What is made of another tool's rules loads, with as many rules as are said to be in it; and what cannot be read is
//! refused by name.

use ttsr::Pack;
use ttsr_cli::foreign::{Foreign, Format, import};

// Layout of the input: a byte for the format, the text.
/// Holds what this module says against one input.
pub fn run(data: &[u8]) {
    let [format, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let _ = Format::of_text(text);
    let format = Format::ALL[usize::from(*format) % Format::ALL.len()];
    let foreign = Foreign {
        name: "fuzz.md",
        format,
        text,
    };
    match import("fuzz/imported", &[foreign, foreign]) {
        Ok(imported) if imported.rules == 0 => {}
        Ok(imported) => {
            let pack = Pack::from_toml(&imported.toml);
            let pack = pack.unwrap_or_else(|error| panic!("{error}\n{}", imported.toml));
            assert_eq!(pack.rules().len(), imported.rules, "{}", imported.toml);
        }
        Err(error) => assert!(error.starts_with("fuzz.md: "), "{error}"),
    }
}
