//! The form of names: packs, rules, versions.

use super::fault::Fault;
use crate::pack::diagnostic::code;
use crate::pack::escape::quote;

/// The longest pack name and the longest rule id, in bytes.
const NAME_BYTES: usize = 128;

/// Returns the fault of a malformed pack name.
pub(in crate::pack) fn pack_name_fault(name: &str) -> Option<Fault> {
    let is_segment = |segment: &str| {
        !segment.is_empty() && segment.bytes().all(|b| is_name_byte(b) || b == b'-')
    };
    let message = if name.len() > NAME_BYTES {
        format!("pack name is {} bytes, limit is {NAME_BYTES}", name.len())
    } else if name.split('/').all(is_segment) {
        return None;
    } else {
        format!("pack name {} is malformed", quote(name))
    };
    Some(
        Fault::new(&code::PACK_NAME, message).with_help(
            "lower-case letters, digits and `-`, in segments joined by `/`: `std/secrets`",
        ),
    )
}

/// Returns the fault of a malformed rule id, without its pack.
pub(super) fn rule_id_fault(id: &str) -> Option<Fault> {
    let message = if id.len() > NAME_BYTES {
        format!("rule id is {} bytes, limit is {NAME_BYTES}", id.len())
    } else if id.bytes().next().is_some_and(is_name_byte)
        && id.bytes().all(|b| is_name_byte(b) || b == b'-')
    {
        return None;
    } else {
        format!("rule id {} is malformed", quote(id))
    };
    Some(
        Fault::new(&code::RULE_ID, message)
            .with_help("lower-case letters, digits and `-`, not `-` first: `no-box-leak`"),
    )
}

/// Returns the fault of a text that is not a full id, `pack/rule`.
pub(in crate::pack) fn full_id_fault(id: &str) -> Option<Fault> {
    let Some((pack, rule)) = id.rsplit_once('/') else {
        let message = format!("rule id {} is malformed", quote(id));
        return Some(Fault::new(&code::RULE_ID, message).with_help("a full id: `pack/rule`"));
    };
    pack_name_fault(pack).or_else(|| rule_id_fault(rule))
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns the fault of a text that is not the address of a web page.
pub(in crate::pack) fn address_fault(text: &str) -> Option<Fault> {
    let mut schemes = ["https://", "http://"].into_iter();
    let host = schemes.find_map(|scheme| text.strip_prefix(scheme));
    let is_plain = |c: char| !c.is_whitespace() && !c.is_control();
    let is_address = host.is_some_and(|host| !host.is_empty() && host.chars().all(is_plain));
    (!is_address).then(|| {
        let message = format!("{} is not an address", quote(text));
        Fault::new(&code::BAD_VALUE, message).with_help("such as `https://example.org/page`")
    })
}

/// Returns the fault of a text that is not three numbers.
pub(in crate::pack) fn version(text: &str) -> Option<Fault> {
    let plain = text.split(['-', '+']).next().unwrap_or_default();
    let valid = numbers(plain).is_some_and(|numbers| numbers.len() == 3);
    (!valid).then(|| {
        let message = format!("{} is not a version", quote(text));
        Fault::new(&code::BAD_VALUE, message).with_help("three numbers: `0.1.0`")
    })
}

/// Returns the fault of a requirement that is malformed or that this version does not meet.
pub(in crate::pack) fn engine(text: &str) -> Option<Fault> {
    let asked = text.strip_prefix(">=").map(str::trim).and_then(numbers);
    let Some(mut asked) = asked.filter(|numbers| numbers.len() >= 2) else {
        let message = format!(
            "{} is not a requirement on the version of ttsr",
            quote(text)
        );
        return Some(Fault::new(&code::BAD_VALUE, message).with_help("write `>=0.1` or `>=0.1.0`"));
    };
    asked.resize(3, 0);
    let own = env!("CARGO_PKG_VERSION");
    let plain = own.split(['-', '+']).next().unwrap_or_default();
    let is_old = numbers(plain).is_some_and(|own| own < asked);
    is_old.then(|| {
        let message = format!("the pack asks for ttsr {}, this is {own}", quote(text));
        Fault::new(&code::ENGINE_TOO_OLD, message).with_help("update ttsr, or take an older pack")
    })
}

/// Returns one to three numbers that are joined by dots.
fn numbers(text: &str) -> Option<Vec<u64>> {
    let number = |part: &str| {
        let digits = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| part.parse().ok()).flatten()
    };
    let numbers: Vec<u64> = text.splitn(4, '.').map(number).collect::<Option<_>>()?;
    (numbers.len() <= 3).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_ids_of_the_wrong_form_are_refused() {
        let long = "a".repeat(NAME_BYTES + 1);
        for name in [
            "", "/", "a/", "/a", "a//b", "A", "a_b", "a b", "a\n", "ä", "..", &long,
        ] {
            assert!(pack_name_fault(name).is_some(), "{name}");
        }
        for name in ["a", "a-b/c-1/d", "1", &long[1..]] {
            assert_eq!(pack_name_fault(name), None, "{name}");
        }
        for id in ["", "-a", "a/b", "A", "a\u{1b}[31m", "a\n", "a.b", &long] {
            assert!(rule_id_fault(id).is_some(), "{id}");
        }
        for id in ["a", "a-", "1-a", &long[1..]] {
            assert_eq!(rule_id_fault(id), None, "{id}");
        }
    }

    #[test]
    fn addresses_begin_with_a_scheme_and_hold_no_blanks() {
        for text in ["https://example.org", "http://a/b?c#d"] {
            assert_eq!(address_fault(text), None, "{text}");
        }
        for text in [
            "",
            "https://",
            "example.org",
            "ftp://a",
            "https://a b",
            "https://a\n",
        ] {
            assert!(address_fault(text).is_some(), "{text}");
        }
    }

    #[test]
    fn engine_and_version_are_read_strictly() {
        for text in [">=0.1", ">=0.1.0", ">= 0.0.9", ">=0.0"] {
            assert_eq!(engine(text), None, "{text}");
        }
        for (text, code) in [
            (">=99.0", "engine-too-old"),
            (">=0.1.99999", "engine-too-old"),
            ("0.1", "bad-value"),
            ("^0.1", "bad-value"),
            (">=1", "bad-value"),
            (">=0.1.0.0", "bad-value"),
            (">=0.x", "bad-value"),
            (">=99999999999999999999.0", "bad-value"),
        ] {
            assert_eq!(engine(text).unwrap().code.name, code, "{text}");
        }
        assert_eq!(version("1.2.3-alpha.1"), None);
        assert!(version("1.2").is_some());
        assert!(version("v1.2.3").is_some());
    }
}
