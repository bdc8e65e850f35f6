//! Any bytes with a valid checksum are a compiled pack or an error; never a panic. A pack that loads can be used, and is
//! written as the same bytes.

use std::sync::LazyLock;

use ttsr::{Channel, Limits, Pack, PartId};

/// The bytes before the payload, without the checksum.
static HEADER: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let pack = Pack::builder().build().expect("a pack without rules");
    let bytes = pack.to_bytes();
    // Eight bytes of magic, four of the version of the form, and the version of the crate with its length.
    let length = 8 + 4 + 1 + usize::from(bytes[12]);
    bytes[..length].to_vec()
});

/// Checks the property of this module on one input: the payload of a compiled pack.
pub fn run(data: &[u8]) {
    let checksum = checksum(data).to_le_bytes();
    let bytes = [HEADER.as_slice(), &checksum, data].concat();
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
        let _ = stream.tool(part, "bash", "call");
        for delta in data.chunks(7) {
            let _ = stream.push(part, delta);
        }
        let _ = stream.close(part);
    }
    let _ = stream.finish();
}

/// The checksum of the format, so that inputs reach the code behind it.
fn checksum(payload: &[u8]) -> u64 {
    let step = |sum: u64, word: u64| {
        let mixed = (sum ^ word).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed ^ mixed >> 29
    };
    let (words, rest) = payload.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    let sum = words.fold(payload.len() as u64, step);
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    step(sum, u64::from_le_bytes(last))
}
