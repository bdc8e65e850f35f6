//! Any bytes with a valid checksum are a compiled pack or an error; never a panic. A pack that loads can be used, and is
//! written as the same bytes.

use ttsr::{Channel, Limits, Pack, PartId};

/// Checks the property of this module on one input: the payload of a compiled pack.
pub fn run(data: &[u8]) {
    let bytes = Pack::with_compiled_header(data);
    let limits = Limits {
        rule_states: 5000,
        table_bytes: 1 << 16,
        ..Limits::default()
    };
    let Ok(pack) = Pack::builder()
        .compiled("fuzz.pack", &bytes)
        .limits(limits)
        .build()
    else {
        return;
    };
    assert_eq!(pack.to_bytes(), bytes);
    let mut stream = pack.stream();
    for (part, channel) in (0..).map(PartId).zip(Channel::STREAMED) {
        stream.open(part, channel);
        let _ = stream.set_tool(part, "bash", "call");
        for delta in data.chunks(7) {
            let _ = stream.push(part, delta);
        }
        let _ = stream.close(part);
    }
    let _ = stream.finish();
}
