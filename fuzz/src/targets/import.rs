//! The result of an import loads and has the reported number of rules; a text that cannot be parsed is reported by name.

use ttsr::Pack;
use ttsr_cli::foreign::{ForeignFormat, ForeignText, import};

// Layout of the input: a byte for the format, the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [format, text @ ..] = data else { return };
    let Ok(text) = std::str::from_utf8(text) else {
        return;
    };
    let _ = ForeignFormat::detect(text);
    let format = ForeignFormat::ALL[usize::from(*format) % ForeignFormat::ALL.len()];
    let foreign = ForeignText {
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
