//! Moments and lengths of time.

/// A time as date and clock in UTC, to the microsecond.
pub fn time(time_us: i64) -> String {
    let (days, in_day) = (time_us.div_euclid(86_400_000_000), time_us.rem_euclid(86_400_000_000));
    let (year, month, day) = civil(days);
    format!("{year}-{month:02}-{day:02} {}.{:06} UTC", hms(in_day), in_day % 1_000_000)
}

/// The clock of a time in UTC, to the microsecond: `14:03:22.123 456`.
pub fn clock(time_us: i64) -> String {
    let in_day = time_us.rem_euclid(86_400_000_000);
    format!("{}.{:03} {:03}", hms(in_day), in_day / 1000 % 1000, in_day % 1000)
}

/// Hours, minutes and seconds of a number of microseconds.
fn hms(micros: i64) -> String {
    let seconds = micros / 1_000_000;
    format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

/// Year, month and day of a number of days since 1970, by counting 400-year cycles from March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let cycle = days.div_euclid(146_097);
    let day_of_cycle = days.rem_euclid(146_097);
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (cycle * 400 + year_of_cycle + i64::from(month <= 2), month, day)
}

/// A length of time with three significant digits: `12.3 ms`, `1.36 s`, `2 min 4 s`, `3 h 12 min`.
pub fn duration(us: i64) -> String {
    let sign = if us < 0 { "-" } else { "" };
    let abs = us.unsigned_abs();
    let text = match abs {
        0..1_000 => format!("{abs} µs"),
        1_000..999_500 => format!("{} ms", three_digits(abs as f64 / 1e3)),
        999_500..59_950_000 => format!("{} s", three_digits(abs as f64 / 1e6)),
        _ => {
            let seconds = abs.saturating_add(500_000) / 1_000_000;
            match seconds {
                0..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
                _ => format!("{} h {} min", seconds / 3600, seconds / 60 % 60),
            }
        }
    };
    format!("{sign}{text}")
}

/// The same for a number that cannot be negative.
pub fn seconds(us: u64) -> String {
    duration(i64::try_from(us).unwrap_or(i64::MAX))
}

/// How long after the first event something happened: `+1.355 s`. Positions have a fixed number of decimals, so
/// that neighbors can be told apart.
pub fn since(us: i64, decimals: usize) -> String {
    format!("{:+.decimals$} s", us as f64 / 1e6)
}

fn three_digits(value: f64) -> String {
    let decimals = if value < 9.995 { 2 } else { usize::from(value < 99.95) };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_utc() {
        assert_eq!(time(0), "1970-01-01 00:00:00.000000 UTC");
        // date -u -d @1794725346 says Sun Nov 15 06:49:06 2026.
        assert_eq!(time(1_794_725_346_326_863), "2026-11-15 06:49:06.326863 UTC");
        assert_eq!(clock(1_794_725_346_326_863), "06:49:06.326 863");
        assert_eq!(time(951_782_400_000_000), "2000-02-29 00:00:00.000000 UTC");
        assert_eq!(time(-1), "1969-12-31 23:59:59.999999 UTC");
    }

    #[test]
    fn positions_have_a_sign() {
        assert_eq!([since(1_355_123, 3), since(0, 3), since(-5, 6)], ["+1.355 s", "+0.000 s", "-0.000005 s"]);
    }

    #[test]
    fn durations_have_three_significant_digits() {
        let cases = [
            (5, "5 µs"),
            (12_300, "12.3 ms"),
            (999_499, "999 ms"),
            (999_500, "1.00 s"),
            (1_204_000, "1.20 s"),
            (59_960_000, "1 min 0 s"),
            (124_000_000, "2 min 4 s"),
            (11_520_000_000, "3 h 12 min"),
            (-1_500, "-1.50 ms"),
        ];
        for (us, expected) in cases {
            assert_eq!(duration(us), expected);
        }
    }
}
