//! Rules that `check` accepts can be loaded and read any text, in a stream and in a session, without a panic, whatever
//! their actions and conditions are.

use ttsr::{Channel, Limits, Pack, PartId};

// Layout of the input: a byte for the channel and the cuts, rules in TOML without their head up to the first 0, the text.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [choice, rest @ ..] = data else { return };
    let Some(end) = rest.iter().position(|&byte| byte == 0) else {
        return;
    };
    let (Ok(rules), text) = (std::str::from_utf8(&rest[..end]), &rest[end + 1..]) else {
        return;
    };
    let grants =
        "['inject', 'redact', 'retry', 'abort', 'consult', 'append', 'set-header', 'handoff']";
    let toml = format!("schema = 1\n[pack]\nname = 'f'\ngrants = {grants}\n{rules}");
    let limits = Limits {
        rule_states: 5000,
        table_bytes: 1 << 16,
        ..Limits::default()
    };
    let builder = Pack::builder().toml("fuzz.toml", &toml).limits(limits);
    let Ok(checked) = builder.clone().lints().build() else {
        return;
    };
    let pack = builder.build().expect("what check accepts loads");
    assert_eq!(pack.rules(), checked.rules());
    let channel = Channel::ALL[usize::from(*choice) % Channel::ALL.len()];
    let size = usize::from(*choice) / Channel::ALL.len() + 1;
    read(&pack, channel, text, size);
}

fn read(pack: &Pack, channel: Channel, text: &[u8], size: usize) {
    let mut session = pack.session();
    session.begin_turn();
    let checked = session.check(channel, Some("bash"), text);
    for decision in checked.decisions() {
        let _ = checked.stream().message(decision);
    }
    let (mut stream, part) = (session.stream(), PartId(0));
    let _ = session.open(&mut stream, part, channel);
    let _ = session.set_tool(&mut stream, part, "bash", "call");
    for delta in text.chunks(size) {
        let _ = session.push(&mut stream, part, delta);
        for decision in session.decisions() {
            let _ = stream.message(decision);
        }
        assert!(stream.releasable(part) <= stream.delivered_bytes(part));
    }
    let _ = session.close(&mut stream, part);
    let _ = session.finish(&mut stream);
}
