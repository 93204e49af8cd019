//! Wall time as the databases and the wire carry it: Unix milliseconds.
//!
//! People and networks set clocks forward and back. So nothing is put in order by a moment, and whatever
//! must end after a while counts on [`Timestamp::steady`] or on `Instant`.

use std::fmt;
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::failpoint;

/// A moment, in milliseconds since 1970-01-01 UTC.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Returns the present moment.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX).saturating_add(failpoint::clock_shift()))
    }

    /// Returns the moment this process would show if nobody had set the clock since its first look. What
    /// runs out while a process lives is measured with it.
    pub fn steady() -> Self {
        static FIRST: OnceLock<(Timestamp, Instant)> = OnceLock::new();
        let (moment, instant) = FIRST.get_or_init(|| (Self::now(), Instant::now()));
        moment.plus(instant.elapsed())
    }

    /// Returns the milliseconds value.
    pub const fn as_millis(self) -> i64 {
        self.0
    }

    /// Returns the time passed since `earlier`; zero when the clock went backwards.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Returns this moment moved later by `by`.
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Reads a moment: RFC 3339, or a date with or without a time, which is then meant in the system's
    /// time zone.
    pub fn parse(text: &str) -> Option<Self> {
        if let Ok(moment) = text.parse::<jiff::Timestamp>() {
            return Some(Self(moment.as_millisecond()));
        }
        let civil = text.parse::<jiff::civil::DateTime>().ok()?;
        Some(Self(civil.to_zoned(jiff::tz::TimeZone::system()).ok()?.timestamp().as_millisecond()))
    }

    /// Reads a moment as HTTP headers carry it, such as `Sun, 06 Nov 1994 08:49:37 GMT`.
    pub fn parse_http_date(text: &str) -> Option<Self> {
        let moment = jiff::fmt::rfc2822::parse(text).ok()?;
        Some(Self(moment.timestamp().as_millisecond()))
    }

    /// Returns hour, minute and whether it is Saturday or Sunday, in the system's time zone.
    pub fn local_clock(self) -> Option<LocalClock> {
        let moment = jiff::Timestamp::from_millisecond(self.0).ok()?.to_zoned(jiff::tz::TimeZone::system());
        let is_weekend =
            matches!(moment.weekday(), jiff::civil::Weekday::Saturday | jiff::civil::Weekday::Sunday);
        let minute_of_day =
            u16::from(moment.hour().unsigned_abs()) * 60 + u16::from(moment.minute().unsigned_abs());
        Some(LocalClock { minute_of_day, is_weekend })
    }

    /// Renders the moment in the system's time zone, RFC 3339 with seconds.
    pub fn to_local_rfc3339(self) -> String {
        Zone::system().rfc3339(self)
    }
}

/// A time zone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Zone(jiff::tz::TimeZone);

impl Zone {
    /// Returns the system's: `TZ`, else `/etc/localtime`.
    pub fn system() -> Self {
        Self(jiff::tz::TimeZone::system())
    }

    /// Returns the one of a name such as `Europe/Berlin`; none where this machine does not know it.
    pub fn named(name: &str) -> Option<Self> {
        jiff::tz::TimeZone::get(name.trim()).ok().map(Self)
    }

    /// Returns what the zone is called: its name, or how far it is from UTC at this moment.
    pub fn name(&self, at: Timestamp) -> String {
        let named = self.0.iana_name().filter(|name| *name != UNKNOWN);
        named.map_or_else(|| format!("UTC{}", self.format(at, "%:z").unwrap_or_default()), str::to_owned)
    }

    /// Renders a moment, RFC 3339 with seconds.
    pub fn rfc3339(&self, at: Timestamp) -> String {
        self.format(at, "%Y-%m-%dT%H:%M:%S%:z").unwrap_or_else(|| at.0.to_string())
    }

    fn format(&self, at: Timestamp, format: &str) -> Option<String> {
        let moment = jiff::Timestamp::from_millisecond(at.0).ok()?;
        Some(moment.to_zoned(self.0.clone()).strftime(format).to_string())
    }
}

/// What a zone is called that could not be found out.
const UNKNOWN: &str = "Etc/Unknown";

/// A moment as a person's clock shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LocalClock {
    /// Minutes since midnight.
    pub minute_of_day: u16,
    /// Saturday or Sunday.
    pub is_weekend: bool,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_millisecond(self.0) {
            Ok(moment) => write!(formatter, "{moment:.3}"),
            Err(_) => write!(formatter, "{}ms", self.0),
        }
    }
}
