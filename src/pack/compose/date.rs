//! Days of the calendar, for what ends on one.

use std::fmt;

/// A day of the Gregorian calendar. The library reads no clock: the host says which day it is.
///
/// # Example: days are ordered
/// ```
/// use ttsr::Date;
/// let day = Date::new(2027, 1, 31).expect("a day");
/// assert!(day < Date::new(2027, 2, 1).expect("a day"));
/// assert_eq!(Date::parse("2027-01-31"), Some(day));
/// assert_eq!(Date::parse("2027-02-29"), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// The day, if there is one of that number.
    #[must_use]
    pub fn new(year: u16, month: u8, day: u8) -> Option<Date> {
        let divides = |by: u16| year.is_multiple_of(by);
        let is_leap = divides(4) && (!divides(100) || divides(400));
        let days = match month {
            4 | 6 | 9 | 11 => 30,
            2 if is_leap => 29,
            2 => 28,
            1..=12 => 31,
            _ => return None,
        };
        ((1..=days).contains(&day) && year <= 9999).then_some(Date { year, month, day })
    }

    /// The day written as `2027-01-31`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Date> {
        let number = |part: &str, digits: usize| {
            let is_right = part.len() == digits && part.bytes().all(|b| b.is_ascii_digit());
            is_right.then(|| part.parse::<u16>().ok()).flatten()
        };
        let mut parts = text.split('-');
        let (year, month, day) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        let (month, day) = (number(month, 2)?, number(day, 2)?);
        Date::new(
            number(year, 4)?,
            u8::try_from(month).ok()?,
            u8::try_from(day).ok()?,
        )
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self;
        write!(f, "{year:04}-{month:02}-{day:02}")
    }
}
