//! Any text is a pack or a list of problems, each with a location within the text; never a panic. A pack that loads can
//! be used.

use ttsr::{Limits, Pack, PartId};

/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let limits = Limits {
        rule_states: 5000,
        table_bytes: 1 << 16,
        ..Limits::default()
    };
    match Pack::builder()
        .toml("fuzz.toml", text)
        .limits(limits)
        .build()
    {
        Ok(pack) => {
            let mut stream = pack.stream();
            for delta in data.chunks(7) {
                let _ = stream.push(PartId(1), delta);
            }
            let _ = stream.close(PartId(1));
        }
        Err(error) => {
            assert!(!error.diagnostics().is_empty());
            let lines = text.lines().count() as u32 + 1;
            for problem in error.diagnostics() {
                assert!(problem.line() <= lines, "{problem}");
                assert!(!problem.render().is_empty());
            }
        }
    }
}
