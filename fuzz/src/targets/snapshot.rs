//! A session restored from its snapshot decides as the original does. A session restored from any readable snapshot can
//! be saved and restored again.

use std::sync::LazyLock;

use ttsr::session::Session;
use ttsr::{Pack, PartId, Snapshot, Verdict};

static PACK: LazyLock<Pack> = LazyLock::new(|| {
    let rules = r#"
schema = 1
[pack]
name = "f"
[rule.once]
description = "Said once"
match.any = [{ literal = "aa" }]
[rule.again]
description = "Said again after a turn"
action = "retry"
repeat = { cooldown-turns = 1, per-turn = 1 }
match.any = [{ regex = 'b+c' }]
[rule.count]
description = "Counted"
match.any = [{ literal = "x" }]
match.count = 2
"#;
    Pack::from_toml(rules).expect("the rules are right")
});

// Layout of the input: a byte for its kind, then JSON, or texts of replies with zeros between them.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let [kind, rest @ ..] = data else { return };
    if kind % 2 == 0 {
        let Ok(snapshot) = serde_json::from_slice::<Snapshot>(rest) else {
            return;
        };
        let (mut session, _) = PACK.restore(&snapshot);
        let again = session.snapshot();
        let (restored, lost) = PACK.restore(&again);
        assert!(lost.is_empty(), "{lost:?}");
        assert_eq!(restored.snapshot(), again);
        let _ = reply(&mut session, b"aabbc");
        let _ = written(&session);
        return;
    }
    let mut session = PACK.session();
    let mut kept = PACK.session();
    for text in rest.split(|&byte| byte == 0) {
        kept = written(&kept);
        if text.first() == Some(&b'\n') {
            session.begin_turn();
            kept.begin_turn();
        }
        assert_eq!(reply(&mut kept, text), reply(&mut session, text));
    }
}

/// Returns the session as another process would restore it.
fn written(session: &Session) -> Session {
    let snapshot = session.snapshot();
    let json = serde_json::to_string(&snapshot).expect("a snapshot can be written");
    let read: Snapshot = serde_json::from_str(&json).expect("what was written can be read");
    assert_eq!(read, snapshot);
    let (restored, lost) = PACK.restore(&read);
    assert!(lost.is_empty(), "{lost:?}");
    assert_eq!(restored.snapshot(), snapshot);
    restored
}

fn reply(session: &mut Session, text: &[u8]) -> Vec<Verdict> {
    let mut stream = session.stream();
    let deltas = text.chunks(3);
    let mut verdicts: Vec<Verdict> = deltas
        .map(|delta| session.push(&mut stream, PartId(0), delta))
        .collect();
    verdicts.push(session.finish(&mut stream));
    for verdict in &verdicts {
        if let Verdict::Act(decision) = verdict {
            session.mark_delivered(decision);
        }
    }
    verdicts
}
