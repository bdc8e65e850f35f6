//! Removes the key of an endpoint from the events of its provider.
//!
//! A key may arrive in several deltas. So the end of a part is held back while it may be the start of the key (at most
//! the length of the key less one byte), until more of the part, another event, or the end of the reply arrives.

use std::collections::VecDeque;
use std::mem;

use super::key::ApiKey;
use ttsr::{Event, PartId};

/// Replaces the key in the events of one reply.
#[derive(Debug)]
pub(super) struct KeyMask {
    key: Option<ApiKey>,
    /// The part that grew last, and its held bytes, which may be the start of the key. Never empty.
    held: Option<(PartId, Vec<u8>)>,
}

impl KeyMask {
    pub(super) fn new(key: Option<ApiKey>) -> KeyMask {
        let key = key.filter(ApiKey::is_searchable);
        KeyMask { key, held: None }
    }

    /// Handles an event; appends the events that can be returned.
    pub(super) fn push(&mut self, event: Event, out: &mut VecDeque<Event>) {
        let Some(key) = &self.key else {
            return out.push_back(event);
        };
        let Event::Delta { part, bytes } = event else {
            // The reply restarts, so the held bytes are void.
            if event == Event::Restart {
                self.held = None;
            }
            let event = masked(event, key);
            self.flush(out);
            return out.push_back(event);
        };
        if let Some((other, bytes)) = self.held.take_if(|(other, _)| *other != part) {
            out.push_back(Event::Delta { part: other, bytes });
        }
        let mut text = self.held.take().map(|(_, held)| held).unwrap_or_default();
        text.extend_from_slice(&bytes);
        let mut text = key.redact_bytes(&text);
        let held = text.split_off(text.len() - key.longest_prefix_at_end(&text));
        if !held.is_empty() {
            self.held = Some((part, held));
        }
        if !text.is_empty() || bytes.is_empty() {
            out.push_back(Event::Delta { part, bytes: text });
        }
    }

    /// Appends the held bytes, which were not the key.
    pub(super) fn flush(&mut self, out: &mut VecDeque<Event>) {
        let held = self.held.take();
        out.extend(held.map(|(part, bytes)| Event::Delta { part, bytes }));
    }
}

fn masked(mut event: Event, key: &ApiKey) -> Event {
    let mask = |text: &mut String| *text = key.redact(&mem::take(text));
    match &mut event {
        Event::PartStart {
            name, tool, call, ..
        } => [Some(name), tool.as_mut(), call.as_mut()]
            .into_iter()
            .flatten()
            .for_each(mask),
        Event::Tool { tool, call, .. } => [Some(tool), call.as_mut()]
            .into_iter()
            .flatten()
            .for_each(mask),
        Event::Snapshot { bytes, .. } => *bytes = key.redact_bytes(bytes),
        Event::Unscanned { kind, .. } => mask(kind),
        Event::Finish { reason } => mask(reason),
        Event::Error { kind, message } => [kind, message].into_iter().for_each(mask),
        _ => {}
    }
    event
}

#[cfg(test)]
mod tests {
    use super::*;
    use ttsr::Channel;

    const KEY: &str = "sk-canary-0123456789";

    fn texts(deltas: &[(u32, &str)]) -> (String, String) {
        let mut mask = KeyMask::new(ApiKey::new(KEY));
        let mut out = VecDeque::new();
        for (part, text) in deltas {
            let bytes = text.as_bytes().to_vec();
            let part = PartId(*part);
            mask.push(Event::Delta { part, bytes }, &mut out);
        }
        mask.flush(&mut out);
        let mut texts = [String::new(), String::new()];
        for event in out {
            let Event::Delta { part, bytes } = event else {
                panic!("{event:?}")
            };
            texts[part.0 as usize] += std::str::from_utf8(&bytes).unwrap();
        }
        let [first, second] = texts;
        (first, second)
    }

    #[test]
    fn a_key_is_masked_wherever_it_is_cut() {
        let text = format!("s sk- {KEY}{KEY} sk-canary {KEY}");
        let expected = "s sk- [key][key] sk-canary [key]";
        for first in 0..=text.len() {
            for second in first..=text.len() {
                let deltas = [&text[..first], &text[first..second], &text[second..]];
                let (masked, _) = texts(&deltas.map(|delta| (0, delta)));
                assert_eq!(masked, expected, "cut at {first} and {second}");
            }
        }
        let bytes: Vec<String> = text.chars().map(String::from).collect();
        let bytes: Vec<(u32, &str)> = bytes.iter().map(|byte| (0, byte.as_str())).collect();
        assert_eq!(texts(&bytes).0, expected);
    }

    #[test]
    fn every_text_of_an_event_is_masked() {
        let key = ApiKey::new(KEY).expect("it is not empty");
        let with = || format!("a {KEY}");
        let part = PartId(0);
        for (event, wanted) in [
            (
                Event::Tool {
                    part,
                    tool: with(),
                    call: Some(with()),
                },
                Event::Tool {
                    part,
                    tool: "a [key]".into(),
                    call: Some("a [key]".into()),
                },
            ),
            (
                Event::Error {
                    kind: with(),
                    message: with(),
                },
                Event::Error {
                    kind: "a [key]".into(),
                    message: "a [key]".into(),
                },
            ),
            (
                Event::Finish { reason: with() },
                Event::Finish {
                    reason: "a [key]".into(),
                },
            ),
        ] {
            assert_eq!(masked(event, &key), wanted);
        }
    }

    #[test]
    fn text_without_the_key_stays_as_it_is() {
        for text in ["", "s", "sk-canary-012345678", "sk-sk-canary-", "größer sk"] {
            for cut in (0..=text.len()).filter(|cut| text.is_char_boundary(*cut)) {
                let (masked, _) = texts(&[(0, &text[..cut]), (0, &text[cut..])]);
                assert_eq!(masked, text);
            }
        }
        assert_eq!(
            texts(&[(0, "a sk-ca"), (1, "nary-0123456789"), (0, "b")]),
            ("a sk-cab".to_owned(), "nary-0123456789".to_owned())
        );
    }

    #[test]
    fn held_text_comes_before_the_text_after_it() {
        let mut mask = KeyMask::new(ApiKey::new(KEY));
        let mut out = VecDeque::new();
        let delta = |text: &str| Event::Delta {
            part: PartId(0),
            bytes: text.into(),
        };
        let end = Event::PartEnd { part: PartId(0) };
        mask.push(delta("says sk-"), &mut out);
        mask.push(end.clone(), &mut out);
        assert_eq!(out, [delta("says "), delta("sk-"), end]);
        out.clear();
        mask.push(
            Event::PartStart {
                part: PartId(1),
                name: KEY.to_owned(),
                channel: Channel::Text,
                tool: Some(format!("a{KEY}")),
                call: None,
            },
            &mut out,
        );
        assert!(!format!("{out:?}").contains(KEY));
    }
}
