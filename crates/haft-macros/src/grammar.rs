//! Checks rates and durations early, so that an error is one line at the literal.
//!
//! The reference is `Rate::parse` and `parse_duration` of haft-core, which the generated code calls
//! in a constant. They reject everything that is rejected here, and catch what this check misses.

const MAX_MILLIS: u64 = 3_155_760_000_000;

/// Returns the error of a duration such as `20s`, if any.
pub(crate) fn duration_error(text: &str) -> Option<String> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit());
    let count = text.strip_suffix(unit).and_then(|count| count.parse::<u64>().ok());
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => 0,
    };
    match count {
        Some(count @ 1..) if millis > 0 => {
            let is_too_long = count.checked_mul(millis).is_none_or(|ms| ms > MAX_MILLIS);
            is_too_long.then(|| format!("`{text}` is too long; the maximum is a century"))
        }
        _ => Some(format!(
            "`{text}` is not a duration: expected a whole number above zero and ms, s, m, h or d, \
             as in \"20s\""
        )),
    }
}

/// Returns the error of a rate such as `10/second`, if any.
pub(crate) fn rate_error(text: &str) -> Option<String> {
    let is_valid = text.split_once('/').is_some_and(|(count, per)| {
        matches!(per, "second" | "minute" | "hour" | "day") && is_positive(count)
    });
    (!is_valid).then(|| {
        format!(
            "`{text}` is not a rate: expected a whole number above zero, a slash, and second, \
             minute, hour or day, as in \"10/second\""
        )
    })
}

fn is_positive(digits: &str) -> bool {
    digits.bytes().all(|b| b.is_ascii_digit()) && digits.parse::<u32>().is_ok_and(|n| n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_durations_and_rates_pass_and_invalid_ones_are_reported() {
        for good in ["500ms", "20s", "5m", "2h", "1d", "99999999999ms"] {
            assert_eq!(duration_error(good), None, "{good}");
        }
        for bad in ["", "5", "s", "0s", "1w", "1 s", "-1s", "99999999999s"] {
            assert!(duration_error(bad).is_some(), "{bad}");
        }
        for good in ["10/second", "3/day"] {
            assert_eq!(rate_error(good), None, "{good}");
        }
        for bad in ["", "/s", "1", "1/s", "0/hour", "1 /day", "+1/day"] {
            assert!(rate_error(bad).is_some(), "{bad}");
        }
    }
}
