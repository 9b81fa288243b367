//! Times as people read them.

/// The clock of a time in UTC, to the microsecond: `14:03:22.123 456`.
pub(crate) fn clock(time_us: i64) -> String {
    let in_day = time_us.rem_euclid(86_400_000_000);
    let (seconds, micros) = (in_day / 1_000_000, in_day % 1_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{:03} {:03}", micros / 1000, micros % 1000)
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_clock_reads_to_the_microsecond() {
        // date -u -d @1794725346 says 06:49:06.
        assert_eq!(super::clock(1_794_725_346_326_863), "06:49:06.326 863");
    }
}
