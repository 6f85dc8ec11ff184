//! Dates, times and durations of RFC 3339.

/// A date: `2020-02-29`.
pub(super) fn is_date(text: &str) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text.as_bytes() else { return false };
    let (Some(century), Some(year)) = (two_digits(y1, y2), two_digits(y3, y4)) else {
        return false;
    };
    let (Some(month), Some(day)) = (two_digits(m1, m2), two_digits(d1, d2)) else { return false };
    let year = u32::from(century) * 100 + u32::from(year);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        _ => 0,
    };
    (1..=days).contains(&day)
}

/// A time with an offset: `12:00:00.5Z`, `12:00:00+01:00`. A leap second is at the end of a day.
pub(super) fn is_time(text: &str) -> bool {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text.as_bytes() else { return false };
    let (Some(hour), Some(minute)) = (two_digits(*h1, *h2), two_digits(*m1, *m2)) else {
        return false;
    };
    let Some(second) = two_digits(*s1, *s2) else { return false };
    if hour > 23 || minute > 59 || second > 60 {
        return false;
    }
    let rest = match rest {
        [b'.', fraction @ ..] => {
            let digits = fraction.iter().take_while(|b| b.is_ascii_digit()).count();
            if digits == 0 {
                return false;
            }
            fraction.get(digits..).unwrap_or_default()
        }
        rest => rest,
    };
    let offset = match *rest {
        [b'Z' | b'z'] => 0,
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (Some(hours), Some(minutes)) = (two_digits(h1, h2), two_digits(m1, m2)) else {
                return false;
            };
            if hours > 23 || minutes > 59 {
                return false;
            }
            let offset = i32::from(hours) * 60 + i32::from(minutes);
            if sign == b'+' { offset } else { -offset }
        }
        _ => return false,
    };
    let minute_of_day = i32::from(hour) * 60 + i32::from(minute) - offset;
    second < 60 || minute_of_day.rem_euclid(24 * 60) == 24 * 60 - 1
}

/// A date, `T`, and a time.
pub(super) fn is_date_time(text: &str) -> bool {
    text.split_once(['T', 't']).is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// A duration (RFC 3339, appendix A): `P4DT12H30M5S`, `P2W`. Units are in order and without gaps.
pub(super) fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    if let Some(weeks) = rest.strip_suffix('W') {
        return is_number(weeks);
    }
    let (date, time) = match rest.split_once('T') {
        Some((date, time)) => (date, Some(time)),
        None => (rest, None),
    };
    let has_date = !date.is_empty();
    (has_date || time.is_some())
        && (!has_date || are_units(date, "YMD"))
        && time.is_none_or(|time| are_units(time, "HMS"))
}

/// Numbers with units, at least one, in order and without gaps.
fn are_units(text: &str, units: &str) -> bool {
    let (mut rest, mut last) = (text, None);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, after) = rest.split_at(digits);
        let unit = after.chars().next().and_then(|unit| units.find(unit));
        let Some(unit) = unit.filter(|_| !number.is_empty()) else { return false };
        if last.is_some_and(|last| unit != last + 1) {
            return false;
        }
        last = Some(unit);
        rest = after.get(1..).unwrap_or_default();
    }
    last.is_some()
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

fn two_digits(tens: u8, ones: u8) -> Option<u8> {
    let digit = |byte: u8| byte.is_ascii_digit().then(|| byte - b'0');
    Some(digit(tens)? * 10 + digit(ones)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_and_times_follow_the_calendar() {
        for good in ["2020-02-29", "2000-02-29", "1999-12-31"] {
            assert!(is_date(good), "{good}");
        }
        for bad in [
            "2021-02-29",
            "1900-02-29",
            "2020-13-01",
            "2020-00-01",
            "2020-01-00",
            "2020-1-1",
            "৪020-01-01",
        ] {
            assert!(!is_date(bad), "{bad}");
        }
        for good in
            ["12:00:00Z", "23:59:60z", "00:29:60+00:30", "15:59:60-08:00", "08:30:06.283185Z"]
        {
            assert!(is_time(good), "{good}");
        }
        for bad in
            ["12:00:00", "24:00:00Z", "12:00:60Z", "12:00:00.Z", "12:00:00+24:00", "12:00:00+1:00"]
        {
            assert!(!is_time(bad), "{bad}");
        }
        assert!(is_date_time("2020-02-29T12:00:00Z") && !is_date_time("2020-02-29 12:00:00Z"));
    }

    #[test]
    fn durations_have_units_in_order() {
        for good in ["P4DT12H30M5S", "P4Y", "PT0S", "P1M", "PT1M", "P2W", "P1Y2M3D"] {
            assert!(is_duration(good), "{good}");
        }
        for bad in
            ["P", "PT", "P1", "P1Y2W", "PT1D", "P2D1Y", "P1YT", "P1Y1D", "PT1H1S", "P-1D", "4D"]
        {
            assert!(!is_duration(bad), "{bad}");
        }
    }
}
