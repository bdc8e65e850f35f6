//! Published numbers are accepted, and one changed digit is not.

use proptest::prelude::*;

use super::Checksum;

/// Published sample numbers of each scheme.
const SAMPLES: [(Checksum, &[&str]); 24] = [
    // Test cards of payment providers, and the example of ISO/IEC 7812.
    (
        Checksum::Luhn,
        &[
            "4111 1111 1111 1111",
            "5555555555554444",
            "3782-822463-10005",
            "79927398713",
            "490154203237518",
        ],
    ),
    // The IBAN registry of SWIFT.
    (
        Checksum::Iban,
        &[
            "GB82 WEST 1234 5698 7654 32",
            "DE89370400440532013000",
            "FR1420041010050500013M02606",
            "NO9386011117947",
            "nl91 abna 0417 1643 00",
            "MT84MALT011000012345MTLCAST001S",
        ],
    ),
    (
        Checksum::Isin,
        &["US0378331005", "GB0002634946", "DE000BAY0017"],
    ),
    // Revoked tokens, which their owners published.
    (
        Checksum::GithubCrc32,
        &["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"],
    ),
    (Checksum::NpmCrc32, &[]),
    (
        Checksum::DeSteuerId,
        &["86095742719", "47 036 892 816", "65929970489"],
    ),
    (Checksum::NlBsn, &["111222333", "123456782"]),
    (Checksum::PlPesel, &["44051401359", "02070803628"]),
    (Checksum::EsDni, &["12345678Z", "X1234567L", "00000000-T"]),
    (
        Checksum::FrNir,
        &["2 69 05 49 588 157 80", "255081416802538"],
    ),
    (
        Checksum::ItCodiceFiscale,
        &["RSSMRA85T10A562S", "MRTMTT91D08F205J"],
    ),
    (Checksum::BrCpf, &["111.444.777-35", "52998224725"]),
    (Checksum::UsAba, &["111000025", "021000021"]),
    (Checksum::GbNhs, &["943 476 5919", "9434765870"]),
    (Checksum::InAadhaar, &["9999 4105 7058", "999971658847"]),
    // The examples of GB 11643.
    (
        Checksum::CnResidentId,
        &["11010519491231002X", "440524188001010014"],
    ),
    (Checksum::JpMyNumber, &["1234 5678 9018"]),
    (
        Checksum::MxCurp,
        &["BOXW310820HNERXN09", "HEGG560427MVZRRL04"],
    ),
    (Checksum::TrKimlik, &["10000000146"]),
    (
        Checksum::SePersonnummer,
        &["811218-9876", "811228-9874", "121212+1212"],
    ),
    (
        Checksum::FiHetu,
        &["131052-308T", "131052A308T", "010101-0101"],
    ),
    (
        Checksum::NoFodselsnummer,
        &["13097248022", "290296 00013", "15076500565"],
    ),
    (
        Checksum::BeNationalNumber,
        &["85.07.30-033.28", "17.07.30-033.84"],
    ),
    (Checksum::ChAhv, &["756.9217.0769.85", "7561234567897"]),
];

#[test]
fn published_numbers_are_accepted_by_their_own_scheme() {
    for (scheme, samples) in SAMPLES {
        for sample in samples {
            assert!(scheme.accepts(sample.as_bytes()), "{scheme:?}: {sample}");
        }
    }
    assert_eq!(SAMPLES.map(|(scheme, _)| scheme), Checksum::ALL);
}

#[test]
fn names_are_those_of_serde_and_are_found_again() {
    for scheme in Checksum::ALL {
        assert_eq!(Checksum::from_name(scheme.name()), Some(scheme));
        assert_eq!(serde_json::to_value(scheme).unwrap(), scheme.name());
    }
    assert_eq!(Checksum::from_name("Luhn"), None);
}

#[test]
fn zeros_and_repeated_digits_that_nobody_has_are_refused() {
    for scheme in Checksum::ALL {
        for length in 0..40 {
            let zeros = "0".repeat(length);
            assert!(!scheme.accepts(zeros.as_bytes()), "{scheme:?}: {zeros}");
        }
    }
    assert!(!Checksum::BrCpf.accepts(b"111.111.111-11"));
    assert!(!Checksum::GbNhs.accepts(b"4444444444"));
}

#[test]
fn forms_that_are_wrong_are_refused_with_the_right_sum() {
    let refused = [
        // One digit more or less, other characters, a check character in another place.
        (Checksum::Luhn, "4"),
        (Checksum::Luhn, "4111/1111/1111/1111"),
        (Checksum::Iban, "8282 WEST 1234 5698 7654 32"),
        (Checksum::Iban, "GB82 WEST"),
        (Checksum::NlBsn, "0111222333"),
        // A day and a month that do not exist.
        (Checksum::PlPesel, "44991401359"),
        // A digit that occurs four times.
        (Checksum::DeSteuerId, "11112345678"),
        // Another prefix, and a checksum without a secret.
        (
            Checksum::GithubCrc32,
            "ghx_zQWBuTSOoRi4A9spHcVY5ncnsDkxkJ0mLq17",
        ),
        (
            Checksum::NpmCrc32,
            "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",
        ),
        (Checksum::GithubCrc32, "ghp_0mLq17"),
        (Checksum::InAadhaar, "0999 4105 7058"),
        // Months and days that do not exist, with the right check characters.
        (Checksum::CnResidentId, "110105194913310021"),
        (Checksum::SePersonnummer, "811318-9875"),
        (Checksum::NoFodselsnummer, "01130000149"),
        // Another sex, a temporary number, another sign of the century, another country.
        (Checksum::MxCurp, "BOXW310820ANERXN05"),
        (Checksum::FiHetu, "131052-900W"),
        (Checksum::FiHetu, "131052G308T"),
        (Checksum::ChAhv, "7579217076981"),
        (Checksum::SePersonnummer, "1811218-9876"),
        (Checksum::SePersonnummer, "17811218-9876"),
    ];
    for (scheme, text) in refused {
        assert!(!scheme.accepts(text.as_bytes()), "{scheme:?}: {text}");
    }
}

/// The checksum of a token is that of its secret, in six digits of base 62.
#[test]
fn a_token_of_npm_has_the_checksum_of_one_of_github() {
    assert!(Checksum::NpmCrc32.accepts(b"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"));
    // The check value of CRC-32, 0xCBF43926, is 3421780262.
    assert_eq!(super::crc32(b"123456789"), 0xCBF4_3926);
    assert!(Checksum::NpmCrc32.accepts(b"npm_1234567893jZRME"));
}

#[test]
fn corsican_departments_count_as_numbers() {
    // 97 minus the remainder of 1850519006084 and of 1850518006084.
    let keys = [("2A", 1_850_519_006_084_u64), ("2B", 1_850_518_006_084)];
    for (department, number) in keys {
        let text = format!("18505{department}006084{:02}", 97 - number % 97);
        assert!(Checksum::FrNir.accepts(text.as_bytes()), "{text}");
    }
}

/// The check digit of a Swedish number does not cover the century.
#[test]
fn the_century_of_a_swedish_number_is_one_of_three() {
    for century in 0..100 {
        let text = format!("{century:02}811218-9876");
        let is_accepted = Checksum::SePersonnummer.accepts(text.as_bytes());
        assert_eq!(is_accepted, (18..=20).contains(&century), "{text}");
    }
}

/// Returns true if the scheme refuses every number that differs in one digit. The check digits of a CPF and of a Japanese
/// number are 0 for two remainders, and some weights of a CURP have a factor in common with 10.
fn refuses_each_changed_digit(scheme: Checksum) -> bool {
    use Checksum::{BrCpf, JpMyNumber, MxCurp};
    !matches!(scheme, BrCpf | JpMyNumber | MxCurp)
}

/// Also of the schemes that do not refuse every other digit.
#[test]
fn each_wrong_check_digit_is_refused() {
    for (scheme, samples) in SAMPLES {
        for sample in samples {
            let mut text = sample.as_bytes().to_vec();
            let Some(last) = text.last_mut().filter(|last| last.is_ascii_digit()) else {
                continue;
            };
            let right = *last;
            for digit in (b'0'..=b'9').filter(|digit| *digit != right) {
                *text.last_mut().unwrap() = digit;
                assert!(!scheme.accepts(&text), "{scheme:?}: {sample}, {digit}");
            }
        }
    }
}

#[test]
fn each_changed_digit_is_refused() {
    let schemes = SAMPLES.into_iter();
    for (scheme, samples) in schemes.filter(|(scheme, _)| refuses_each_changed_digit(*scheme)) {
        for sample in samples {
            let places = (0..sample.len()).filter(|at| sample.as_bytes()[*at].is_ascii_digit());
            for (at, digit) in places.flat_map(|at| (b'0'..=b'9').map(move |digit| (at, digit))) {
                let mut text = sample.as_bytes().to_vec();
                if text[at] != digit {
                    text[at] = digit;
                    let shown = String::from_utf8_lossy(&text);
                    assert!(!scheme.accepts(&text), "{scheme:?}: {shown}");
                }
            }
        }
    }
}

proptest! {
    #[test]
    fn separators_between_groups_do_not_matter(
        sample in any::<prop::sample::Index>(),
        cuts in prop::collection::vec((any::<prop::sample::Index>(), prop::sample::select(&b" -."[..])), 0..6),
    ) {
        let samples: Vec<(Checksum, &str)> = SAMPLES
            .iter()
            .filter(|(scheme, _)| !matches!(scheme, Checksum::GithubCrc32 | Checksum::NpmCrc32))
            .flat_map(|(scheme, samples)| samples.iter().map(|sample| (*scheme, *sample)))
            .collect();
        let (scheme, sample) = samples[sample.index(samples.len())];
        let mut text = sample.as_bytes().to_vec();
        for (at, separator) in cuts {
            text.insert(at.index(text.len()), separator);
        }
        prop_assert!(scheme.accepts(&text));
    }

    #[test]
    fn any_text_is_read_without_a_panic(
        text in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(&b"0123456789AXZ -._"[..])], 0..80),
        head in prop::sample::select(&["", "ghp_", "npm_", "GB82", "X"][..]),
    ) {
        let text = [head.as_bytes(), &text].concat();
        for scheme in Checksum::ALL {
            let accepted = scheme.accepts(&text);
            prop_assert_eq!(accepted, scheme.accepts(&text.clone()));
        }
    }
}
