//! The check characters of numbers and tokens: a text of the right form whose checksum is wrong is not one of them.
//!
//! Numbers are written in groups, so spaces, `-` and `.` between the characters of a number are ignored, and letters
//! may have either case. A token is compared as it is written. A number that consists of zeros is refused everywhere:
//! its checksum is right in most schemes, and it is a usual placeholder.
//!
//! Memory: 34 bytes at most; a longer text is either read in one pass or refused.

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// A scheme of check characters.
///
/// # Example: a digit that is wrong
/// ```
/// use ttsr_views::detect::checksum::Checksum;
/// assert!(Checksum::Iban.accepts(b"GB82 WEST 1234 5698 7654 32"));
/// assert!(!Checksum::Iban.accepts(b"GB82 WEST 1234 5698 7654 33"));
/// assert_eq!(Checksum::from_name("iban"), Some(Checksum::Iban));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Checksum {
    /// Two or more digits with a Luhn check digit (ISO/IEC 7812-1, Annex B): payment cards, IMEI, SIRET, Canadian SIN.
    Luhn,
    /// An IBAN of 15 to 34 characters: ISO 7064 MOD 97-10 (ISO 13616-1). The length of each country is not checked.
    Iban,
    /// An ISIN: two letters, nine letters or digits, and a check digit (ISO 6166).
    Isin,
    /// A token of GitHub with the prefix `ghp_`, `gho_`, `ghu_`, `ghs_` or `ghr_`: its last six characters are the CRC-32
    /// of the characters between, in base 62 (`0-9A-Za-z`). GitHub has not published the checksum of `github_pat_`.
    /// Source: <https://github.blog/engineering/platform-security/behind-githubs-new-authentication-token-formats/>.
    GithubCrc32,
    /// A token of npm with the prefix `npm_`, with the checksum of [`GithubCrc32`](Checksum::GithubCrc32).
    /// Source: <https://github.blog/security/announcing-npms-new-access-token-format/>.
    NpmCrc32,
    /// The German tax number of a person, 11 digits: ISO 7064 MOD 11,10. Of the first ten digits, exactly one occurs two
    /// or three times, and the first is not 0 (Identifikationsnummer, § 139b AO; Bundeszentralamt für Steuern).
    DeSteuerId,
    /// The Dutch citizen number, 9 digits: the "11-proef" with the weights 9 to 2 and -1 (Logisch ontwerp BSN).
    NlBsn,
    /// The Polish citizen number, 11 digits: the weights 1, 3, 7, 9, with a possible month and day (gov.pl, PESEL).
    PlPesel,
    /// The Spanish DNI and NIE: eight digits, or `X`, `Y` or `Z` and seven digits, and a letter by the remainder of 23
    /// (Ministerio del Interior, cálculo del dígito de control del NIF/NIE).
    EsDni,
    /// The French social security number with its key, 15 characters: 97 minus the remainder of 97; `2A` and `2B` count as
    /// 19 and 18 (INSEE, numéro d'inscription au répertoire).
    FrNir,
    /// The Italian tax code, 16 characters: the sum of the values of its characters, modulo 26 (Decreto ministeriale
    /// 23 December 1976). Codes in which letters replace digits are accepted.
    ItCodiceFiscale,
    /// The Brazilian CPF, 11 digits: two check digits modulo 11 (Receita Federal). Eleven equal digits are refused.
    BrCpf,
    /// An American bank routing number, 9 digits: the weights 3, 7, 1 (American Bankers Association).
    UsAba,
    /// The British NHS number, 10 digits: modulo 11 (NHS Data Dictionary). Ten equal digits are refused.
    GbNhs,
    /// The Indian Aadhaar number, 12 digits, the first from 2 to 9: the scheme of Verhoeff (UIDAI).
    InAadhaar,
    /// The Chinese resident identity number, 17 digits with a possible month and day, and a digit or `X`: ISO 7064
    /// MOD 11-2 (GB 11643-1999).
    CnResidentId,
    /// The Japanese individual number, 12 digits: modulo 11 (Ordinance 85 of 2014 of the Ministry of Internal Affairs and
    /// Communications, article 5).
    JpMyNumber,
    /// The Mexican CURP, 18 characters with a possible month and day: the weights 18 to 2, modulo 10 (RENAPO, Instructivo
    /// normativo para la asignación de la Clave Única de Registro de Población).
    MxCurp,
    /// The Turkish identity number, 11 digits, the first not 0: two check digits modulo 10 (Nüfus ve Vatandaşlık İşleri).
    TrKimlik,
    /// The Swedish personal identity number and coordination number, 10 or 12 digits with a possible month and day: Luhn
    /// over the last ten, after a century from 18 to 20 (Skatteverket, SKV 704). The `+` before the last four digits is ignored too.
    SePersonnummer,
    /// The Finnish personal identity code, 11 characters with a possible month and day: a remainder of 31 (Digital and
    /// Population Data Services Agency). The signs of the centuries include those in use since 2023.
    FiHetu,
    /// The Norwegian national identity number and D-number, 11 digits with a possible month and day: two check digits
    /// modulo 11 (Skatteetaten).
    NoFodselsnummer,
    /// The Belgian national number, 11 digits: 97 minus the remainder of 97, with a 2 before the number of a person born
    /// since 2000 (Arrêté royal of 3 April 1984).
    BeNationalNumber,
    /// The Swiss social security number, 13 digits that begin with 756: the check digit of EAN-13 (Zentrale
    /// Ausgleichsstelle ZAS).
    ChAhv,
}

impl Checksum {
    /// Every scheme, in the order of declaration.
    pub const ALL: [Checksum; 24] = [
        Checksum::Luhn,
        Checksum::Iban,
        Checksum::Isin,
        Checksum::GithubCrc32,
        Checksum::NpmCrc32,
        Checksum::DeSteuerId,
        Checksum::NlBsn,
        Checksum::PlPesel,
        Checksum::EsDni,
        Checksum::FrNir,
        Checksum::ItCodiceFiscale,
        Checksum::BrCpf,
        Checksum::UsAba,
        Checksum::GbNhs,
        Checksum::InAadhaar,
        Checksum::CnResidentId,
        Checksum::JpMyNumber,
        Checksum::MxCurp,
        Checksum::TrKimlik,
        Checksum::SePersonnummer,
        Checksum::FiHetu,
        Checksum::NoFodselsnummer,
        Checksum::BeNationalNumber,
        Checksum::ChAhv,
    ];

    /// Returns the name used in rules.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Checksum::Luhn => "luhn",
            Checksum::Iban => "iban",
            Checksum::Isin => "isin",
            Checksum::GithubCrc32 => "github-crc32",
            Checksum::NpmCrc32 => "npm-crc32",
            Checksum::DeSteuerId => "de-steuer-id",
            Checksum::NlBsn => "nl-bsn",
            Checksum::PlPesel => "pl-pesel",
            Checksum::EsDni => "es-dni",
            Checksum::FrNir => "fr-nir",
            Checksum::ItCodiceFiscale => "it-codice-fiscale",
            Checksum::BrCpf => "br-cpf",
            Checksum::UsAba => "us-aba",
            Checksum::GbNhs => "gb-nhs",
            Checksum::InAadhaar => "in-aadhaar",
            Checksum::CnResidentId => "cn-resident-id",
            Checksum::JpMyNumber => "jp-my-number",
            Checksum::MxCurp => "mx-curp",
            Checksum::TrKimlik => "tr-kimlik",
            Checksum::SePersonnummer => "se-personnummer",
            Checksum::FiHetu => "fi-hetu",
            Checksum::NoFodselsnummer => "no-fodselsnummer",
            Checksum::BeNationalNumber => "be-national-number",
            Checksum::ChAhv => "ch-ahv",
        }
    }

    /// Returns the scheme with that [`name`](Self::name).
    #[must_use]
    pub fn from_name(name: &str) -> Option<Checksum> {
        Checksum::ALL.into_iter().find(|it| it.name() == name)
    }

    /// Returns true if `text` has the form of the scheme, and its check characters are right.
    #[must_use]
    pub fn accepts(self, text: &[u8]) -> bool {
        match self {
            Checksum::Luhn => luhn(text),
            Checksum::Iban => iban(text).is_some(),
            Checksum::Isin => isin(text).is_some(),
            Checksum::GithubCrc32 => github_crc32(text).is_some(),
            Checksum::NpmCrc32 => text.strip_prefix(b"npm_").is_some_and(ends_with_crc32),
            Checksum::DeSteuerId => de_steuer_id(text).is_some(),
            Checksum::NlBsn => nl_bsn(text).is_some(),
            Checksum::PlPesel => pl_pesel(text).is_some(),
            Checksum::EsDni => es_dni(text).is_some(),
            Checksum::FrNir => fr_nir(text).is_some(),
            Checksum::ItCodiceFiscale => it_codice_fiscale(text).is_some(),
            Checksum::BrCpf => br_cpf(text).is_some(),
            Checksum::UsAba => us_aba(text).is_some(),
            Checksum::GbNhs => gb_nhs(text).is_some(),
            Checksum::InAadhaar => in_aadhaar(text).is_some(),
            Checksum::CnResidentId => cn_resident_id(text).is_some(),
            Checksum::JpMyNumber => jp_my_number(text).is_some(),
            Checksum::MxCurp => mx_curp(text).is_some(),
            Checksum::TrKimlik => tr_kimlik(text).is_some(),
            Checksum::SePersonnummer => se_personnummer(text).is_some(),
            Checksum::FiHetu => fi_hetu(text).is_some(),
            Checksum::NoFodselsnummer => no_fodselsnummer(text).is_some(),
            Checksum::BeNationalNumber => be_national_number(text).is_some(),
            Checksum::ChAhv => ch_ahv(text).is_some(),
        }
    }
}

/// Returns the characters of a number, without the separators between groups.
fn without_separators(text: &[u8]) -> impl DoubleEndedIterator<Item = u8> {
    let bytes = text.iter().copied();
    bytes.filter(|byte| !matches!(byte, b' ' | b'-' | b'.'))
}

/// Returns the characters of a number that has exactly `N`, in upper case.
fn characters<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut found = [0; N];
    let mut bytes = without_separators(text);
    for place in &mut found {
        *place = bytes.next()?.to_ascii_uppercase();
    }
    bytes.next().is_none().then_some(found)
}

/// Returns the digits of a number that has exactly `N`, not all of them zero.
fn digits<const N: usize>(text: &[u8]) -> Option<[u32; N]> {
    let mut found = [0; N];
    for (place, byte) in found.iter_mut().zip(characters::<N>(text)?) {
        *place = digit(byte)?;
    }
    found.iter().any(|digit| *digit != 0).then_some(found)
}

fn digit(byte: u8) -> Option<u32> {
    char::from(byte).to_digit(10)
}

/// Returns the value of a digit, or 10 to 35 for an upper-case letter.
fn base36(byte: u8) -> Option<u32> {
    match byte {
        b'0'..=b'9' => Some(u32::from(byte - b'0')),
        b'A'..=b'Z' => Some(u32::from(byte - b'A') + 10),
        _ => None,
    }
}

fn weighted(digits: &[u32], weights: impl IntoIterator<Item = u32>) -> u32 {
    let products = digits.iter().zip(weights);
    products.map(|(digit, weight)| digit * weight).sum()
}

/// Returns the number that the digits are in base 10.
fn number(digits: &[u32]) -> u32 {
    digits.iter().fold(0, |number, digit| number * 10 + digit)
}

/// Returns true if a month and a day of that number exist.
fn is_date(month: u32, day: u32) -> bool {
    (1..=12).contains(&month) && (1..=31).contains(&day)
}

/// The digits of a number, added from the right as Luhn adds them.
#[derive(Default)]
struct LuhnSum {
    sum: u32,
    count: u64,
    has_other_than_zero: bool,
}

impl LuhnSum {
    /// Adds the digit to the left of those that were added before.
    fn add(&mut self, digit: u32) {
        let digit = match self.count.is_multiple_of(2) {
            true => digit,
            false => digit * 2 / 10 + digit * 2 % 10,
        };
        self.sum = (self.sum + digit) % 10;
        self.count += 1;
        self.has_other_than_zero |= digit != 0;
    }

    fn is_right(&self) -> bool {
        self.sum == 0 && self.count >= 2 && self.has_other_than_zero
    }
}

fn luhn(text: &[u8]) -> bool {
    let mut sum = LuhnSum::default();
    for byte in without_separators(text).rev() {
        match digit(byte) {
            Some(digit) => sum.add(digit),
            None => return false,
        }
    }
    sum.is_right()
}

fn isin(text: &[u8]) -> Option<()> {
    let code: [u8; 12] = characters(text)?;
    let is_country = code[..2].iter().all(u8::is_ascii_uppercase);
    let mut sum = LuhnSum::default();
    for &byte in code.iter().rev() {
        let value = base36(byte)?;
        sum.add(value % 10);
        if value >= 10 {
            sum.add(value / 10);
        }
    }
    (is_country && code[11].is_ascii_digit() && sum.is_right()).then_some(())
}

fn iban(text: &[u8]) -> Option<()> {
    const LONGEST: usize = 34;
    let mut code = [0u8; LONGEST];
    let mut length = 0;
    for byte in without_separators(text) {
        *code.get_mut(length)? = byte.to_ascii_uppercase();
        length += 1;
    }
    let code = &code[..length];
    if length < 15 {
        return None;
    }
    let (head, account) = code.split_at(4);
    let is_head =
        head[..2].iter().all(u8::is_ascii_uppercase) && head[2..].iter().all(u8::is_ascii_digit);
    // The check digits are 98 minus a remainder of 97, so they are never 00, 01 or 99.
    let is_canonical = !matches!(&head[2..], b"00" | b"01" | b"99");
    let mut rest = 0;
    for &byte in account.iter().chain(head) {
        let value = base36(byte)?;
        rest = match value {
            0..=9 => (rest * 10 + value) % 97,
            _ => (rest * 100 + value) % 97,
        };
    }
    (is_head && is_canonical && rest == 1).then_some(())
}

fn github_crc32(text: &[u8]) -> Option<()> {
    let rest = text.strip_prefix(b"gh")?;
    let (kind, rest) = rest.split_first()?;
    let body = rest.strip_prefix(b"_")?;
    (b"pousr".contains(kind) && ends_with_crc32(body)).then_some(())
}

/// Returns true if the last six characters are the CRC-32 of the others in base 62.
fn ends_with_crc32(body: &[u8]) -> bool {
    const ALPHABET: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    let Some((secret, check)) = body.split_last_chunk::<6>() else {
        return false;
    };
    if secret.is_empty() || !secret.iter().all(u8::is_ascii_alphanumeric) {
        return false;
    }
    let mut left = crc32(secret);
    let mut expected = [b'0'; 6];
    for place in expected.iter_mut().rev() {
        *place = ALPHABET[(left % 62) as usize];
        left /= 62;
    }
    expected == *check
}

/// Returns the CRC-32 of IEEE 802.3, as gzip and PNG use it.
fn crc32(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in bytes {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xEDB8_8320 & 0u32.wrapping_sub(crc & 1));
        }
    }
    !crc
}

fn de_steuer_id(text: &[u8]) -> Option<()> {
    let digits: [u32; 11] = digits(text)?;
    let mut counts = [0u32; 10];
    for &digit in &digits[..10] {
        counts[digit as usize] += 1;
    }
    let repeated = || counts.iter().filter(|count| **count > 1);
    let has_one_repeated = repeated().count() == 1 && repeated().all(|count| *count <= 3);
    let product = digits[..10].iter().fold(10, |product, digit| {
        let sum = (digit + product) % 10;
        let sum = if sum == 0 { 10 } else { sum };
        sum * 2 % 11
    });
    let check = (11 - product) % 10;
    (digits[0] != 0 && has_one_repeated && check == digits[10]).then_some(())
}

fn nl_bsn(text: &[u8]) -> Option<()> {
    let digits: [u32; 9] = digits(text)?;
    // The weight of the last digit is -1, which is 10 modulo 11.
    let sum = weighted(&digits, [9, 8, 7, 6, 5, 4, 3, 2, 10]);
    sum.is_multiple_of(11).then_some(())
}

fn pl_pesel(text: &[u8]) -> Option<()> {
    let digits: [u32; 11] = digits(text)?;
    let sum = weighted(&digits, [1, 3, 7, 9, 1, 3, 7, 9, 1, 3, 1]);
    // The century is added to the month, in steps of 20.
    let month = number(&digits[2..4]) % 20;
    let is_date = is_date(month, number(&digits[4..6]));
    (is_date && sum.is_multiple_of(10)).then_some(())
}

fn es_dni(text: &[u8]) -> Option<()> {
    const LETTERS: &[u8; 23] = b"TRWAGMYFPDXBNJZSQVHLCKE";
    let mut code: [u8; 9] = characters(text)?;
    code[0] = match code[0] {
        b'X' => b'0',
        b'Y' => b'1',
        b'Z' => b'2',
        first => first,
    };
    let mut number = 0;
    for &byte in &code[..8] {
        number = number * 10 + digit(byte)?;
    }
    (LETTERS[(number % 23) as usize] == code[8]).then_some(())
}

fn fr_nir(text: &[u8]) -> Option<()> {
    let mut code: [u8; 15] = characters(text)?;
    match &code[5..7] {
        b"2A" => code[5..7].copy_from_slice(b"19"),
        b"2B" => code[5..7].copy_from_slice(b"18"),
        _ => {}
    }
    let mut number = 0u64;
    for &byte in &code[..13] {
        number = number * 10 + u64::from(digit(byte)?);
    }
    let key = digit(code[13])? * 10 + digit(code[14])?;
    // 1 and 2 are men and women, 3 and 4 foreigners, 7 and 8 people with a provisional number.
    let is_person = matches!(code[0], b'1'..=b'4' | b'7' | b'8');
    (is_person && 97 - number % 97 == u64::from(key)).then_some(())
}

fn it_codice_fiscale(text: &[u8]) -> Option<()> {
    /// The values of `A` to `Z` at odd places. A digit has the value of the letter with its number.
    const ODD: [u32; 26] = [
        1, 0, 5, 7, 9, 13, 15, 17, 19, 21, 2, 4, 18, 20, 11, 3, 6, 8, 12, 14, 16, 10, 22, 25, 24,
        23,
    ];
    /// The letters that replace the digits 0 to 9 if two people would have the same code.
    const FOR_DIGITS: &[u8; 10] = b"LMNPQRSTUV";
    const DIGITS: [usize; 7] = [6, 7, 9, 10, 12, 13, 14];
    let code: [u8; 16] = characters(text)?;
    let mut sum = 0;
    for (index, &byte) in code[..15].iter().enumerate() {
        let is_right = match DIGITS.contains(&index) {
            true => byte.is_ascii_digit() || FOR_DIGITS.contains(&byte),
            false => byte.is_ascii_uppercase(),
        };
        if !is_right {
            return None;
        }
        let value = base36(byte)?;
        let value = if value >= 10 { value - 10 } else { value };
        // Places are counted from 1, so the first is odd.
        sum += match index.is_multiple_of(2) {
            true => ODD[value as usize],
            false => value,
        };
    }
    (u32::from(code[15]) == u32::from(b'A') + sum % 26).then_some(())
}

fn br_cpf(text: &[u8]) -> Option<()> {
    let digits: [u32; 11] = digits(text)?;
    let check = |count: usize| {
        let first = count as u32 + 1;
        let sum = weighted(&digits[..count], (2..=first).rev());
        match sum % 11 {
            0 | 1 => 0,
            rest => 11 - rest,
        }
    };
    (!are_equal(&digits) && check(9) == digits[9] && check(10) == digits[10]).then_some(())
}

fn us_aba(text: &[u8]) -> Option<()> {
    let digits: [u32; 9] = digits(text)?;
    let sum = weighted(&digits, [3, 7, 1, 3, 7, 1, 3, 7, 1]);
    sum.is_multiple_of(10).then_some(())
}

fn gb_nhs(text: &[u8]) -> Option<()> {
    let digits: [u32; 10] = digits(text)?;
    let sum = weighted(&digits, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1]);
    (!are_equal(&digits) && sum.is_multiple_of(11)).then_some(())
}

fn are_equal(digits: &[u32]) -> bool {
    digits.windows(2).all(|pair| pair[0] == pair[1])
}

fn in_aadhaar(text: &[u8]) -> Option<()> {
    /// The permutation of a digit, and the digits that it leads to when it is applied again and again.
    const PERMUTED: [u32; 10] = [1, 5, 7, 6, 2, 8, 3, 0, 9, 4];
    let digits: [u32; 12] = digits(text)?;
    let mut check = 0;
    for (index, &digit) in digits.iter().rev().enumerate() {
        let permuted = (0..index % 8).fold(digit, |digit, _| PERMUTED[digit as usize]);
        check = dihedral(check, permuted);
    }
    (digits[0] >= 2 && check == 0).then_some(())
}

/// Returns the product of two elements of the dihedral group of the pentagon: 0 to 4 are rotations, 5 to 9 reflections.
fn dihedral(left: u32, right: u32) -> u32 {
    match (left < 5, right < 5) {
        (true, true) => (left + right) % 5,
        (true, false) => (left + right) % 5 + 5,
        (false, true) => (left + 5 - right) % 5 + 5,
        (false, false) => (left + 5 - right) % 5,
    }
}

fn cn_resident_id(text: &[u8]) -> Option<()> {
    /// The check character for each remainder of 11.
    const CHECKS: &[u8; 11] = b"10X98765432";
    let code: [u8; 18] = characters(text)?;
    let mut digits = [0; 17];
    for (place, &byte) in digits.iter_mut().zip(&code) {
        *place = digit(byte)?;
    }
    let weights = [7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2];
    let check = CHECKS[(weighted(&digits, weights) % 11) as usize];
    let is_date = is_date(number(&digits[10..12]), number(&digits[12..14]));
    (digits[0] != 0 && is_date && check == code[17]).then_some(())
}

fn jp_my_number(text: &[u8]) -> Option<()> {
    let digits: [u32; 12] = digits(text)?;
    let sum = weighted(&digits[..11], [6, 5, 4, 3, 2, 7, 6, 5, 4, 3, 2]);
    let check = match sum % 11 {
        0 | 1 => 0,
        rest => 11 - rest,
    };
    (!are_equal(&digits) && check == digits[11]).then_some(())
}

fn mx_curp(text: &[u8]) -> Option<()> {
    const DATE: std::ops::Range<usize> = 4..10;
    let code: [u8; 18] = characters(text)?;
    let mut date = [0; 6];
    let mut sum = 0;
    for (index, &byte) in code[..17].iter().enumerate() {
        // The character before the check digit is a digit for births before 2000, and a letter since.
        let is_right = match index {
            16 => true,
            10 => b"HMX".contains(&byte),
            _ => byte.is_ascii_digit() == DATE.contains(&index),
        };
        if !is_right {
            return None;
        }
        let value = base36(byte)?;
        if DATE.contains(&index) {
            date[index - DATE.start] = value;
        }
        // The alphabet has an `Ñ` after the `N`.
        let value = if byte > b'N' { value + 1 } else { value };
        sum += value * (18 - index as u32);
    }
    let is_date = is_date(number(&date[2..4]), number(&date[4..6]));
    let check = (10 - sum % 10) % 10;
    (is_date && digit(code[17]) == Some(check)).then_some(())
}

fn tr_kimlik(text: &[u8]) -> Option<()> {
    let digits: [u32; 11] = digits(text)?;
    // A weight of 9 is -1 modulo 10.
    let first = weighted(&digits[..9], [7, 9, 7, 9, 7, 9, 7, 9, 7]) % 10;
    let second = digits[..10].iter().sum::<u32>() % 10;
    (digits[0] != 0 && first == digits[9] && second == digits[10]).then_some(())
}

fn se_personnummer(text: &[u8]) -> Option<()> {
    let mut found = [0; 12];
    let mut length = 0;
    for byte in without_separators(text).filter(|byte| *byte != b'+') {
        *found.get_mut(length)? = digit(byte)?;
        length += 1;
    }
    let digits = match length {
        10 => &found[..10],
        12 if (18..=20).contains(&number(&found[..2])) => &found[2..],
        _ => return None,
    };
    let mut sum = LuhnSum::default();
    for &digit in digits.iter().rev() {
        sum.add(digit);
    }
    // The day of a coordination number is greater by 60.
    let is_date = is_date(number(&digits[2..4]), number(&digits[4..6]) % 60);
    (is_date && sum.is_right()).then_some(())
}

fn fi_hetu(text: &[u8]) -> Option<()> {
    const CHECKS: &[u8; 31] = b"0123456789ABCDEFHJKLMNPRSTUVWXY";
    /// The signs of the centuries; `-` is a separator, which is ignored.
    const CENTURIES: &[u8] = b"+ABCDEFUVWXY";
    let mut code = [0u8; 11];
    let mut length = 0;
    for byte in without_separators(text) {
        *code.get_mut(length)? = byte.to_ascii_uppercase();
        length += 1;
    }
    let (date, rest) = code[..length].split_at_checked(6)?;
    let rest = match rest {
        [century, rest @ ..] if rest.len() == 4 && CENTURIES.contains(century) => rest,
        rest => rest,
    };
    let (individual, &[check]) = rest.split_at_checked(3)? else {
        return None;
    };
    let mut digits = [0; 9];
    for (place, &byte) in digits.iter_mut().zip(date.iter().chain(individual)) {
        *place = digit(byte)?;
    }
    // 900 and more are temporary numbers.
    let is_person = (2..900).contains(&number(&digits[6..]));
    let is_date = is_date(number(&digits[2..4]), number(&digits[..2]));
    let expected = CHECKS[(number(&digits) % 31) as usize];
    (is_person && is_date && check == expected).then_some(())
}

fn no_fodselsnummer(text: &[u8]) -> Option<()> {
    let digits: [u32; 11] = digits(text)?;
    let first = weighted(&digits[..10], [3, 7, 6, 1, 8, 9, 4, 5, 2, 1]);
    let second = weighted(&digits, [5, 4, 3, 2, 7, 6, 5, 4, 3, 2, 1]);
    // The day of a D-number is greater by 40.
    let is_date = is_date(number(&digits[2..4]), number(&digits[..2]) % 40);
    (is_date && first.is_multiple_of(11) && second.is_multiple_of(11)).then_some(())
}

fn be_national_number(text: &[u8]) -> Option<()> {
    /// The 2 before the number of a person born since 2000.
    const SINCE_2000: u32 = 2_000_000_000;
    let digits: [u32; 11] = digits(text)?;
    let person = number(&digits[..9]);
    let check = number(&digits[9..]);
    let is_right = [person, SINCE_2000 + person].map(|number| 97 - number % 97 == check);
    is_right.contains(&true).then_some(())
}

fn ch_ahv(text: &[u8]) -> Option<()> {
    let digits: [u32; 13] = digits(text)?;
    let sum = weighted(&digits, [1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1, 3, 1]);
    (digits[..3] == [7, 5, 6] && sum.is_multiple_of(10)).then_some(())
}
