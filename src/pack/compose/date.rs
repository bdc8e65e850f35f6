//! Days of the calendar, for entries that end on a day.

use std::fmt;

/// A day of the Gregorian calendar.
///
/// # Example: days are ordered
/// ```
/// use ttsr::pack::Date;
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
    /// Returns the day, if the calendar has it.
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

    /// Returns the day that is written as `2027-01-31`.
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

impl Date {
    /// Returns the day in UTC that is `seconds` seconds after the start of 1970, or `None` after the year 9999. The library
    /// reads no clock; a host has these seconds from `SystemTime`.
    ///
    /// # Example: the current day
    /// ```
    /// use std::time::{SystemTime, UNIX_EPOCH};
    /// use ttsr::pack::Date;
    /// assert_eq!(Date::from_unix_seconds(951_782_400), Date::new(2000, 2, 29));
    /// # if cfg!(not(target_family = "wasm")) {
    /// let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
    /// let today = Date::from_unix_seconds(since.as_secs()).expect("a day before the year 10000");
    /// assert!(today > Date::new(2025, 1, 1).expect("a day"));
    /// # }
    /// # Ok::<(), std::time::SystemTimeError>(())
    /// ```
    #[must_use]
    pub fn from_unix_seconds(seconds: u64) -> Option<Date> {
        Date::after_epoch(seconds / 86_400)
    }

    /// Returns the day that is `days` days after 1970-01-01.
    fn after_epoch(days: u64) -> Option<Date> {
        // The proleptic calendar repeats every 400 years of 146,097 days. Years begin in March here, so that a
        // leap day is the last day of its year.
        let days = i64::try_from(days).ok()?.checked_add(719_468)?;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
        let year_of_era = (day_of_era - leap_days) / 365;
        let before = 365 * year_of_era + year_of_era / 4 - year_of_era / 100;
        let day_of_year = day_of_era - before;
        let from_march = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * from_march + 2) / 5 + 1;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        let year = era * 400 + year_of_era + i64::from(month <= 2);
        Date::new(
            u16::try_from(year).ok()?,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_after_the_epoch_are_the_days_of_the_calendar() {
        let mut days = 0;
        for year in 1970..2410 {
            for month in 1..=12 {
                for day in 1..=31 {
                    let Some(date) = Date::new(year, month, day) else {
                        continue;
                    };
                    assert_eq!(Date::after_epoch(days), Some(date));
                    days += 1;
                }
            }
        }
        for (days, date) in [
            (0, "1970-01-01"),
            (11_016, "2000-02-29"),
            (2_932_896, "9999-12-31"),
        ] {
            assert_eq!(Date::after_epoch(days), Date::parse(date), "{date}");
        }
        for days in [2_932_897, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(Date::after_epoch(days), None, "{days}");
        }
    }
}
