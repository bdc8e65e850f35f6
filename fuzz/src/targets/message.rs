//! A template loads or is rejected, and the message of one that loads is bounded and deterministic. Model output is
//! inserted as data: shortened, without control characters, and never expanded as a template.

use std::sync::LazyLock;

use ttsr::{Channel, Pack, PartId, Pattern, Rule, Verdict};

/// Maximum length of a message and of an inserted value, without a final `…`.
const MESSAGE: usize = 64 << 10;
const VALUE: usize = 200;

fn pack(template: &str) -> Option<Pack> {
    let mut rule = Rule::new("f/r", vec![Pattern::regex("(?s)<.*>")]);
    rule.description = "fuzzed".to_owned();
    rule.on = vec![Channel::Text];
    rule.message = Some(template.to_owned());
    Pack::builder().rule(rule).build().ok()
}

static PLAIN: LazyLock<Pack> = LazyLock::new(|| pack("[{{ match.text }}]").expect("it is right"));

fn message(pack: &Pack, text: &[u8], size: usize) -> Option<String> {
    let mut session = pack.session();
    let mut stream = session.stream();
    let mut verdicts: Vec<Verdict> = text
        .chunks(size)
        .map(|delta| session.push(&mut stream, PartId(0), delta))
        .collect();
    verdicts.push(session.finish(&mut stream));
    let decision = verdicts.into_iter().find_map(|verdict| match verdict {
        Verdict::Act(decision) => Some(decision),
        _ => None,
    })?;
    Some(stream.message(&decision))
}

// Layout of the input: the template up to the first 0, and what the model wrote.
/// Checks the property of this module on one input.
pub fn run(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == 0) else {
        return;
    };
    let (template, text) = (&data[..end], &data[end + 1..]);
    if let Some(shown) = message(&PLAIN, text, 5) {
        let value = shown
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'));
        let value = value.expect("the template is around it");
        assert!(
            value.len() <= VALUE + '…'.len_utf8(),
            "{} bytes",
            value.len()
        );
        assert!(!value.contains(char::is_control), "{value:?}");
    }
    let Ok(template) = std::str::from_utf8(template) else {
        return;
    };
    let Some(pack) = pack(template) else { return };
    let Some(shown) = message(&pack, text, text.len().max(1)) else {
        return;
    };
    assert!(shown.len() <= MESSAGE + '…'.len_utf8());
    assert_eq!(message(&pack, text, text.len().max(1)), Some(shown.clone()));
    if !template.contains('{') {
        assert_eq!(shown.trim_end(), template.trim_end(), "nothing to fill in");
    }
}
