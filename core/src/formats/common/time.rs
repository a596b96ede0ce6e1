//! ISO 8601 times, as Borg writes them into archives and manifests.

use alloc::{format, string::String};

/// Microseconds since 1970 of an ISO 8601 time such as `2001-07-03T04:05:06.000000-04:00`.
/// Without an offset it is UTC; the fraction may be missing.
pub fn instant(text: &str) -> Option<i64> {
    let number = |part: Option<&str>| part.filter(|p| p.bytes().all(|b| b.is_ascii_digit()))?.parse::<i64>().ok();
    if text.get(4..5)? != "-" || text.get(7..8)? != "-" || text.get(13..14)? != ":" || text.get(16..17)? != ":" {
        return None;
    }
    let (year, month, day) = (number(text.get(..4))?, number(text.get(5..7))?, number(text.get(8..10))?);
    let (hour, minute, second) = (number(text.get(11..13))?, number(text.get(14..16))?, number(text.get(17..19))?);
    let mut rest = text.get(19..)?;
    let mut micros = 0;
    if let Some(fraction) = rest.strip_prefix('.') {
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        let padded = format!("{:0<6}", fraction.get(..digits.min(6))?);
        micros = number(Some(&padded))?;
        rest = fraction.get(digits..)?;
    }
    let offset = match rest.chars().next() {
        None | Some('Z') => 0,
        Some(sign @ ('+' | '-')) => {
            let (hours, minutes) = (number(rest.get(1..3))?, number(rest.get(4..6))?);
            (hours * 60 + minutes) * if sign == '-' { -60 } else { 60 }
        }
        Some(_) => return None,
    };
    let seconds = days_from_civil(year, month, day) * 86_400 + hour * 3600 + minute * 60 + second - offset;
    Some(seconds * 1_000_000 + micros)
}

/// A time in seconds since 1970, in UTC, as ISO 8601: `2026-11-30T21:30:23+00:00`.
pub fn iso(seconds: i64) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The inverse of `days_from_civil`, counted in years from March too.
    let days = days.saturating_add(719_468);
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}+00:00")
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
///
/// Years are counted from March, so that the leap day comes last and month lengths repeat in
/// a fixed pattern of 153 days to five months.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = (month + 9).rem_euclid(12);
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_follow_offsets() {
        // Right values from `date -u -d ... +%s`.
        for (text, seconds) in [
            ("1970-01-01T00:00:00", 0),
            ("2026-11-30T21:30:23.920108+00:00", 1_796_074_223),
            ("2001-07-03T04:05:06.000000-04:00", 994_147_506),
            ("2000-02-29T23:59:59Z", 951_868_799),
            ("1969-12-31T23:59:59+00:00", -1),
        ] {
            assert_eq!(instant(text).map(|micros| micros.div_euclid(1_000_000)), Some(seconds), "{text}");
        }
        for seconds in (-5_000_000_000i64..5_000_000_000).step_by(12_345_677) {
            assert_eq!(instant(&iso(seconds)), Some(seconds * 1_000_000), "{seconds}");
        }
        assert_eq!(iso(951_868_799), "2000-02-29T23:59:59+00:00");
        let _ = (iso(i64::MAX), iso(i64::MIN));
        assert_eq!(instant("2026-11-30T21:30:23.5Z"), instant("2026-11-30T21:30:23.500000+00:00"));
        for text in ["", "2026", "2026-11-30 21-30-23", "x026-11-30T21:30:23", "2026-11-30T21:30:23é"] {
            assert_eq!(instant(text), None, "{text}");
        }
    }
}
