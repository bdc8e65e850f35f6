//! The decision to retry a request, and the wait before it.

use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use hyper::HeaderMap;
use hyper::header::{DATE, RETRY_AFTER};

use ttsr::harness::Failure;

/// The number of retries of a request before its reply has begun, and their waits.
///
/// A request is retried if it got no connection or no response, if the status is 408, 409, 429 or 5xx, or if its reply
/// begins with an error. Once an event of a reply was returned nothing is retried: then rules, hooks and hosts decide.
///
/// # Example: more retries, and none
/// ```
/// use std::time::Duration;
/// use ttsr_agent::providers::Retries;
/// let patient = Retries { most: 5, longest: Duration::from_secs(60), ..Retries::default() };
/// assert_eq!(patient.first, Duration::from_millis(500));
/// assert_eq!(Retries::none(), Retries { most: 0, ..Retries::default() });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// The most retries of a request. Default 2.
    pub most: u32,
    /// The wait before the first retry; it doubles with each further one, less a random part of up to a quarter. A wait
    /// that the provider asks for replaces it. Default 500 ms.
    pub first: Duration,
    /// The longest wait. If the provider asks for more, the request is not retried: its failure contains the time.
    /// Default 20 s.
    pub longest: Duration,
}

/// The reason why a request is not retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotRetriedReason {
    /// It would fail again, or has no retries left.
    Never,
    /// The provider asks for a longer wait than the longest.
    TooLong { asked: Duration, longest: Duration },
}

impl Default for Retries {
    fn default() -> Retries {
        Retries {
            most: 2,
            first: Duration::from_millis(500),
            longest: Duration::from_secs(20),
        }
    }
}

impl Retries {
    /// Returns the settings for no retries.
    #[must_use]
    pub fn none() -> Retries {
        Retries {
            most: 0,
            ..Retries::default()
        }
    }

    /// Returns the wait before the next retry. `times` is the number of retries so far.
    pub(super) fn wait(&self, failure: &Failure, times: u32) -> Result<Duration, NotRetriedReason> {
        if self.most == 0 || !is_transient(failure) {
            return Err(NotRetriedReason::Never);
        }
        let longest = self.longest;
        match failure.retry_after() {
            Some(asked) if asked > longest => Err(NotRetriedReason::TooLong { asked, longest }),
            _ if times >= self.most => Err(NotRetriedReason::Never),
            Some(wait) => Ok(wait),
            None => Ok(self.backoff(times)),
        }
    }

    /// Returns an exponential wait, less a random part of up to a quarter, so that clients do not retry at the same
    /// time.
    fn backoff(&self, times: u32) -> Duration {
        let doubled = self.first.saturating_mul(1 << times.min(16));
        let bounded = doubled.min(self.longest);
        let chance = RandomState::new().hash_one(times) % 256;
        bounded - bounded.mul_f64(chance as f64 / 1024.0)
    }
}

/// Returns true if the same request may succeed later.
pub(super) fn is_transient(failure: &Failure) -> bool {
    const WAYS: [&str; 4] = ["connect", "closed", "timeout", "cut-off"];
    // Errors within a stream have no separate status.
    const KINDS: [&str; 8] = [
        "overloaded_error",
        "overloaded",
        "rate_limit_error",
        "rate_limit_exceeded",
        "api_error",
        "server_error",
        "internal_server_error",
        "timeout_error",
    ];
    match failure.status() {
        // A spent quota is not a matter of time.
        _ if failure.kind() == "insufficient_quota" => false,
        Some(408 | 409 | 429 | 500..) => true,
        Some(200) | None => WAYS.contains(&failure.kind()) || KINDS.contains(&failure.kind()),
        Some(_) => false,
    }
}

/// Returns the wait that a response asks for: `Retry-After` in seconds or as a date (RFC 9110, section 10.2.3), or the
/// milliseconds that some providers add.
pub(super) fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| Some(headers.get(name)?.to_str().ok()?.trim());
    if let Some(wait) = text("retry-after-ms").and_then(|ms| ms.parse().ok()) {
        return Some(Duration::from_millis(wait));
    }
    let value = text(RETRY_AFTER.as_str())?;
    if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
        // A number that overflows is a long wait.
        return Some(Duration::from_secs(value.parse().unwrap_or(u64::MAX)));
    }
    let until = http_date(value)?;
    // The server's clock is preferred, because the local one may be wrong.
    let now = text(DATE.as_str()).and_then(http_date).or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
        Some(since.as_secs())
    })?;
    Some(Duration::from_secs(until.saturating_sub(now)))
}

/// Parses an HTTP date such as `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, section 5.6.7) to seconds since 1970.
fn http_date(text: &str) -> Option<u64> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, rest) = text.split_once(", ")?;
    let mut words = rest.split(' ');
    let day: u64 = words.next()?.parse().ok()?;
    let month = words.next()?;
    let month = MONTHS.iter().position(|known| *known == month)? as u64;
    let year: u64 = words.next()?.parse().ok()?;
    let mut clock = words.next()?.split(':');
    let mut field = |limit: u64| {
        let value: u64 = clock.next()?.parse().ok()?;
        (value < limit).then_some(value)
    };
    let (hour, minute, second) = (field(24)?, field(60)?, field(61)?);
    if words.next() != Some("GMT") || !(1..=31).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    Some(days(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Returns the number of days from 1970 to that day; months count from 0.
fn days(year: u64, month: u64, day: u64) -> u64 {
    const BEFORE: [u64; 12] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334];
    let leaps = |year: u64| year / 4 - year / 100 + year / 400;
    // This year's leap day counts only after February.
    let past = if month > 1 { year } else { year - 1 };
    (year - 1970) * 365 + leaps(past) - leaps(1969) + BEFORE[month as usize] + day - 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn asked(headers: &[(&'static str, &'static str)]) -> Option<Duration> {
        let pairs = headers.iter().map(|(name, value)| {
            let name = hyper::header::HeaderName::from_static(name);
            (name, HeaderValue::from_static(value))
        });
        retry_after(&pairs.collect())
    }

    #[test]
    fn dates_of_http_are_read() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(
            http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777)
        );
        assert_eq!(
            http_date("Thu, 29 Feb 2024 23:59:59 GMT"),
            Some(1_709_251_199)
        );
        assert_eq!(
            http_date("Fri, 01 Mar 2024 00:00:00 GMT"),
            Some(1_709_251_200)
        );
        assert_eq!(
            http_date("Wed, 01 Mar 2000 00:00:00 GMT"),
            Some(951_868_800)
        );
        for wrong in [
            "",
            "soon",
            "Sun, 06 Nov 1994",
            "Sun, 06 Nov 1994 25:00:00 GMT",
            "Sun, 06 Nox 1994 08:49:37 GMT",
        ] {
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_wait_is_asked_for_in_seconds_as_a_date_or_in_milliseconds() {
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[("retry-after", "7")]), Some(Duration::from_secs(7)));
        assert_eq!(asked(&[("retry-after", "-7")]), None);
        assert_eq!(
            asked(&[("retry-after", "99999999999999999999999999")]),
            Some(Duration::from_secs(u64::MAX))
        );
        assert_eq!(
            asked(&[("retry-after", "7"), ("retry-after-ms", "250")]),
            Some(Duration::from_millis(250))
        );
        let date = [
            ("date", "Sun, 06 Nov 1994 08:49:37 GMT"),
            ("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT"),
        ];
        assert_eq!(asked(&date), Some(Duration::from_secs(30)));
        let past = [("retry-after", "Sun, 06 Nov 1994 08:50:07 GMT")];
        assert_eq!(asked(&past), Some(Duration::ZERO));
    }

    #[test]
    fn waits_are_bounded_in_number_and_length() {
        let retries = Retries::default();
        let busy = Failure::new("overloaded_error", "").with_status(529);
        let first = retries.wait(&busy, 0).unwrap();
        assert!(first <= retries.first && first > retries.first / 2);
        assert_eq!(retries.wait(&busy, 2), Err(NotRetriedReason::Never));
        assert!(
            Retries {
                most: 99,
                ..retries
            }
            .wait(&busy, 98)
            .unwrap()
                <= retries.longest
        );
        let asked = Duration::from_secs(1_000_000_000);
        let late = busy.clone().with_retry_after(asked);
        let longest = retries.longest;
        for times in [0, 2] {
            let too_long = Err(NotRetriedReason::TooLong { asked, longest });
            assert_eq!(retries.wait(&late, times), too_long);
        }
        assert_eq!(Retries::none().wait(&late, 0), Err(NotRetriedReason::Never));
        let soon = busy.with_retry_after(Duration::from_secs(3));
        assert_eq!(retries.wait(&soon, 0), Ok(Duration::from_secs(3)));
    }

    #[test]
    fn a_permanent_failure_is_not_retried() {
        for (kind, status, expected) in [
            ("connect", None, true),
            ("tls", None, false),
            ("redirect", Some(302), false),
            ("http", Some(503), true),
            ("rate_limit_error", Some(429), true),
            ("insufficient_quota", Some(429), false),
            ("authentication_error", Some(401), false),
            ("invalid_request_error", Some(400), false),
            ("overloaded_error", Some(200), true),
            ("invalid_request_error", Some(200), false),
        ] {
            let failure = Failure::new(kind, "");
            let failure = match status {
                Some(status) => failure.with_status(status),
                None => failure,
            };
            assert_eq!(is_transient(&failure), expected, "{kind} {status:?}");
        }
    }
}
