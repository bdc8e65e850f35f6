//! Rules about syntax trees decide the same under every split: the same matches, decided at the same byte.

use std::sync::LazyLock;

use ttsr::{Channel, Limits, Pack, PartId};

static PACK: LazyLock<Pack> = LazyLock::new(|| {
    let rules = include_str!("../../../tests/data/ast/rules.toml");
    let limits = Limits {
        ast_bytes: 4 << 10,
        ..Limits::default()
    };
    let pack = Pack::builder().toml("rules.toml", rules).limits(limits);
    pack.build().expect("the rules are right")
});

// Layout of the input: a byte for the channel, a byte for the cuts, the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [channel, cuts, text @ ..] = data else {
        return;
    };
    if text.len() > 6 << 10 {
        return;
    }
    let channel = [Channel::Text, Channel::ToolInput][usize::from(*channel) % 2];
    let read = |size: usize| {
        let (part, mut stream, mut hits) = (PartId(0), PACK.stream(), Vec::new());
        stream.open(part, channel);
        let _ = stream.set_tool(part, "write", "call");
        for delta in text.chunks(size) {
            hits.extend_from_slice(&stream.push(part, delta));
        }
        hits.extend_from_slice(&stream.finish());
        hits.sort_by_key(|hit| (hit.rule, hit.decided));
        let told = hits.into_iter().map(|hit| {
            let matched = stream.matched(&hit).to_owned();
            (hit.rule, matched, stream.start(&hit), hit.decided)
        });
        told.collect::<Vec<_>>()
    };
    let whole = read(text.len().max(1));
    assert_eq!(read(usize::from(*cuts) % 97 + 1), whole, "cut otherwise");
}
