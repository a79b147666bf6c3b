//! Parses the text forms that JSON documents use: dates and times (RFC 3339), decimal numbers, and bytes in base64. Also
//! parses UUIDs, and writes dates, times and UUIDs as text.

use crate::typed::fault::{Fault, Result};
use arrow_buffer::i256;
use base64::Engine as _;

/// Decodes base64 of the standard or the URL-safe alphabet, with or without padding.
pub(crate) fn base64(text: &str) -> Option<Vec<u8>> {
    use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
    let bare = text.trim_end_matches('=');
    STANDARD_NO_PAD.decode(bare).or_else(|_| URL_SAFE_NO_PAD.decode(bare)).ok()
}

/// Returns the digits of a decimal number, and the number of digits after the point.
pub(crate) fn decimal(text: &str) -> Option<(i256, i8)> {
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa.strip_prefix('+').unwrap_or(mantissa)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.len() + fraction.len() > MOST_DIGITS || whole.is_empty() || !is_digits(whole) || !is_digits(fraction) {
        return None;
    }
    let number = i256::from_string(&format!("{sign}{whole}{fraction}"))?;
    let scale = i32::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
    Some((number, i8::try_from(scale).ok()?))
}

/// Returns the days since 1970 of `YYYY-MM-DD`.
pub(crate) fn date(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (Some(b'-'), Some(b'-'), 10) = (bytes.get(4), bytes.get(7), bytes.len()) else { return None };
    let (year, month, day) = (number(text, 0, 4)?, number(text, 5, 7)?, number(text, 8, 10)?);
    let is_leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    let longest = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=longest).contains(&day) {
        return None;
    }
    if year == 0 {
        return None; // Python's first year is 1
    }
    // Years start in March, so that the leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let era = year.div_euclid(400);
    let year = year.rem_euclid(400);
    let days = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + year * 365 + year / 4 - year / 100 + days - 719_468)
}

/// Writes the date that is `days` days after 1970-01-01.
pub(crate) fn show_date(days: i64) -> String {
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year_of_era + era * 400, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", year + i64::from(month <= 2))
}

/// Writes a time since 1970 in units of `unit` nanoseconds.
pub(crate) fn show_timestamp(time: i64, unit: i64, has_zone: bool) -> String {
    let per_day = NANOSECONDS_PER_DAY / unit;
    let (days, rest) = (time.div_euclid(per_day), time.rem_euclid(per_day));
    let zone = if has_zone { "Z" } else { "" };
    format!("{}T{}{zone}", show_date(days), show_time(rest * unit))
}

/// Writes a time of day in nanoseconds.
pub(crate) fn show_time(nanoseconds: i64) -> String {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = match fraction {
        0 => String::new(),
        fraction => format!(".{fraction:09}").trim_end_matches('0').to_owned(),
    };
    format!("{hours:02}:{minutes:02}:{seconds:02}{fraction}")
}

/// Returns the time of day in units of `unit` nanoseconds.
pub(crate) fn time(text: &str, unit: i64) -> Option<i64> {
    let text = text.strip_suffix(['Z', 'z']).unwrap_or(text);
    Some(nanoseconds_of_day(text)? / unit)
}

/// Returns the time since 1970 in units of `unit` nanoseconds. A time without a zone counts as UTC.
pub(crate) fn timestamp(text: &str, unit: i64) -> Option<i64> {
    let days = date(text.get(..10)?)?;
    let Some(rest) = text.get(10..).filter(|rest| !rest.is_empty()) else {
        return days.checked_mul(NANOSECONDS_PER_DAY / unit);
    };
    let rest = rest.strip_prefix(['T', 't', ' '])?;
    let (clock, offset) = match rest.find(['Z', 'z', '+', '-']) {
        None => (rest, 0),
        Some(at) => {
            let (clock, zone) = rest.split_at_checked(at)?;
            (clock, if zone.eq_ignore_ascii_case("z") { 0 } else { offset_seconds(zone)? })
        }
    };
    let nanoseconds = nanoseconds_of_day(clock)? - offset * 1_000_000_000;
    days.checked_mul(NANOSECONDS_PER_DAY / unit)?.checked_add(nanoseconds.div_euclid(unit))
}

/// Parses a UUID: 32 hexadecimal digits, with hyphens, braces or a prefix as in RFC 9562 and Python.
pub(crate) fn uuid(text: &str) -> Result<u128> {
    let bare = text.strip_prefix("urn:").unwrap_or(text);
    let bare = bare.strip_prefix("uuid:").unwrap_or(bare).trim_matches(['{', '}']);
    let (mut value, mut digits) = (0u128, 0);
    for byte in bare.bytes().filter(|byte| *byte != b'-') {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return Err(not_uuid(text)),
        };
        value = (value << 4) | u128::from(digit);
        digits += 1;
        if digits > 32 {
            break;
        }
    }
    if digits == 32 { Ok(value) } else { Err(not_uuid(text)) }
}

#[cold]
fn not_uuid(text: &str) -> Box<Fault> {
    Fault::new(format!("{:?} is not a UUID", text.chars().take(40).collect::<String>()))
}

/// Returns whether a text is a UUID as `show_uuid` writes it.
pub(crate) fn is_canonical_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        })
}

/// Returns the text of a UUID: 36 ASCII characters.
pub(crate) fn show_uuid(value: u128) -> [u8; 36] {
    let mut text = [b'-'; 36];
    let places = text.iter_mut().enumerate().filter(|(at, _)| !matches!(at, 8 | 13 | 18 | 23));
    let digits = value.to_be_bytes().into_iter().flat_map(|byte| [byte >> 4, byte & 15]);
    for ((_, place), digit) in places.zip(digits) {
        *place = digit + if digit < 10 { b'0' } else { b'a' - 10 };
    }
    text
}

fn offset_seconds(zone: &str) -> Option<i64> {
    let sign = if zone.starts_with('-') { -1 } else { 1 };
    let minutes = match zone.len() {
        6 if zone.as_bytes().get(3) == Some(&b':') => number(zone, 4, 6)?,
        5 => number(zone, 3, 5)?,
        3 => 0,
        _ => return None,
    };
    let hours = number(zone, 1, 3)?;
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

fn nanoseconds_of_day(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let (hours, minutes) = (number(text, 0, 2)?, number(text, 3, 5)?);
    let (seconds, fraction) = match text.get(5..)? {
        "" => (0, 0),
        _ if bytes.get(5) != Some(&b':') => return None,
        _ => (number(text, 6, 8)?, fraction(text.get(8..)?)?),
    };
    // A leap second counts as the second before.
    let is_time = bytes.get(2) == Some(&b':') && hours < 24 && minutes < 60 && seconds <= 60;
    is_time.then_some((hours * 3600 + minutes * 60 + seconds.min(59)) * 1_000_000_000 + fraction)
}

/// Returns the nanoseconds of `.123`.
fn fraction(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    let digits = text.strip_prefix('.').filter(|digits| !digits.is_empty())?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let kept = digits.get(..9).unwrap_or(digits);
    format!("{kept:0<9}").parse().ok()
}

fn number(text: &str, from: usize, to: usize) -> Option<i64> {
    let digits = text.get(from..to)?;
    digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
}

const NANOSECONDS_PER_DAY: i64 = 86_400_000_000_000;

/// Maximum number of digits of a 256-bit decimal number.
const MOST_DIGITS: usize = 76;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_count_from_1970() {
        assert_eq!(date("1970-01-01"), Some(0));
        assert_eq!(date("2000-02-29"), Some(11_016));
        assert_eq!(date("1969-12-31"), Some(-1));
        assert_eq!(date("2001-02-29"), None);
        assert_eq!(date("2001-13-01"), None);
        assert_eq!(date("2001-1-01"), None);
    }

    #[test]
    fn timestamps_have_zones_and_fractions() {
        assert_eq!(timestamp("1970-01-01T00:00:01.5Z", 1000), Some(1_500_000));
        assert_eq!(timestamp("1970-01-01T01:00:00+01:00", 1000), Some(0));
        assert_eq!(timestamp("1969-12-31T23:59:59.999Z", 1_000_000), Some(-1));
        assert_eq!(timestamp("1970-01-02", 1_000_000_000), Some(86_400));
        assert_eq!(timestamp("1970-01-01T25:00:00Z", 1000), None);
        assert_eq!(timestamp("1970-01-01T00:00:00é", 1000), None);
    }

    #[test]
    fn written_times_are_read_again() {
        for micros in [0, -1, 1_700_000_000_123_456, -62_135_596_800_000_000, 253_402_300_799_999_999] {
            assert_eq!(timestamp(&show_timestamp(micros, 1000, true), 1000), Some(micros));
        }
        assert_eq!(show_timestamp(1500, 1_000_000, false), "1970-01-01T00:00:01.5");
    }

    #[test]
    fn written_uuids_are_read_again() {
        let text = "00010203-0405-0607-0809-0a0bfcfdfeff";
        let value = uuid(text).expect("a UUID");
        assert_eq!(show_uuid(value), *text.as_bytes());
        assert_eq!(uuid(&format!("urn:uuid:{{{}}}", text.to_uppercase())), Ok(value));
        assert!(is_canonical_uuid(text));
        for other in [&text[1..], &format!("{text}0"), &text.replace('f', "g"), &text.replace("00", "é")] {
            assert!(uuid(other).is_err() && !is_canonical_uuid(other));
        }
        assert!(!is_canonical_uuid(&text.to_uppercase()));
    }

    #[test]
    fn decimal_numbers_keep_their_digits() {
        assert_eq!(decimal("-12.50"), Some((i256::from(-1250), 2)));
        assert_eq!(decimal("1e3"), Some((i256::from(1), -3)));
        assert_eq!(decimal("1."), Some((i256::from(1), 0)));
        assert_eq!(decimal(".5"), None);
        assert_eq!(decimal("1a"), None);
        assert_eq!(decimal(&"9".repeat(77)), None);
    }
}
